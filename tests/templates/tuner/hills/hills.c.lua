%-- The fastest candidate differs from the default in two parameters, and neither can
%-- change alone: a constraint refuses it or, with a bias, its sums are wrong. With a
%-- bias and one input channel the sums of the default are wrong as well.
%include "loops.lua"
%
%function exceeds(config) return config.tile * config.depth > 128 end
%function repeats(config)
%  if config.tile == 128 then return 1 end
%  return config.tile == 64 and config.depth == 2 and 8 or 16
%end
%
%template = loop_template {
%  summary = "plain loops, run more often than they need",
%  params = {
%    {"tile", {32, 64, 128}, "output rows of a tile"},
%    {"depth", {1, 2, 4}, "what there is too little of for large tiles"},
%  },
%  constraints = {
%    {"tile by depth", function(problem, config)
%      return problem.bias == 1 or not exceeds(config)
%    end},
%  },
%  default = function(problem)
%    local lame = problem.bias == 1 and problem.cin == 1
%    return {tile = lame and 128 or 64, depth = 2}
%  end,
%}
#include "spc_abi.h"

% write_loops()

enum { DEPTH = $(config.depth) }; /* else some candidates would have the same code */

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    int first = args->map.tile_order[x] * TILE;

    if (first < 0)
        return;
    for (volatile int again = 0; again < $(repeats(config)); again++)
        for (int p = first; p < first + TILE; p++)
            convolve(args, p);
% if exceeds(config) then
    if (x == 0)
        ((float *)args->out)[0] += 0.5f;
% end
}
