%-- The same name as in unruly, another template: old rows are no answer.
%include "loops.lua"
%
%template = {
%  summary = "behaves",
%  role = "conv",
%  device = "cpu",
%  params = {
%    {"tile", {64}, "output rows of a tile"},
%    {"mood", {"good", "same"}, "changes nothing"},
%  },
%  accepts = accept_f32,
%  launch = function(problem) return loop_launch(problem, 64, "none") end,
%  default = function() return {tile = 64, mood = "good"} end,
%}
#include "spc_abi.h"

% write_loops()

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    int first = args->map.tile_order[x] * TILE;

    for (int p = first; p < first + TILE; p++)
        convolve(args, p);
}
