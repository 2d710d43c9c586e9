%-- The axes of dense planes, by `order`: the axis that is folded into the
%-- channels, then the two axes of a plane, the fastest last.
%function plane_axes(problem)
%  local order = ({zyx = "zyx", xyz = "zxy", volume = "xyz"})[problem.order]
%  local layer, row, column = order:match("(.)(.)(.)")
%  return {
%    layer = layer, depth = problem[layer], plane = problem[row] * problem[column],
%    cell = row .. " * " .. problem[column] .. " + " .. column,
%  }
%end
