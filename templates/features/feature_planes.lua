%-- The axes of dense planes, by `order`: that whose places are channels, and the
%-- two of a plane, the last running fastest.
%function plane_axes(problem)
%  local order = ({zyx = "zyx", xyz = "zxy", volume = "xyz"})[problem.order]
%  local layer, row, column = order:match("(.)(.)(.)")
%  return {
%    layer = layer, depth = problem[layer], plane = problem[row] * problem[column],
%    cell = row .. " * " .. problem[column] .. " + " .. column,
%  }
%end
