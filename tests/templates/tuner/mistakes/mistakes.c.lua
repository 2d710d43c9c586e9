%-- The number of input channels selects the mistake.
%include "loops.lua"
%
%local mistakes = {"accepts", "constraint", "default", "none left", "body", "C"}
%local function makes(what, problem) return mistakes[problem.cin] == what end
%
%template = loop_template {
%  summary = "makes one mistake",
%  params = {{"tile", {32, 64}, "output rows of a tile"}},
%  accepts = function(problem)
%    if makes("accepts", problem) then error("cannot decide") end
%    return accept_f32(problem)
%  end,
%  constraints = {
%    {"this comes to an end", function(problem)
%      local endless = makes("constraint", problem)
%      while endless do end
%      return true
%    end},
%    {"nothing is good enough", function(problem)
%      return not makes("none left", problem)
%    end},
%  },
%  default = function(problem)
%    return {tile = makes("default", problem) and 48 or 64}
%  end,
%}
#include "spc_abi.h"

% local endless = makes("body", problem)
% while endless do end
% write_loops()

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    int first = args->map.tile_order[x] * TILE;

    if (first < 0)
        return;
% if makes("C", problem) then
    this is no C
% end
    for (int p = first; p < first + TILE; p++)
        convolve(args, p);
}
