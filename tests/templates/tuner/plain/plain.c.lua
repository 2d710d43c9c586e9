%-- Twelve correct candidates that compile quickly.
%include "loops.lua"
%
%template = loop_template {
%  summary = "plain loops",
%  params = {
%    {"tile", {32, 64, 128}, "output rows of a tile"},
%    {"step", {1, 2}, "rows at a time"},
%    {"order", {"none", "gray"}, "of the rows"},
%  },
%  launch = function(problem, config)
%    local launch = loop_launch(problem, config)
%    launch.order = config.order
%    return launch
%  end,
%  default = function() return {tile = 64, step = 1, order = "none"} end,
%}
#include "spc_abi.h"

% write_loops()

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    int first = args->map.tile_order[x] * TILE;

    if (first < 0)
        return;
    for (int p = first; p < first + TILE; p += $(config.step)) {
% for i = 0, config.step - 1 do
        convolve(args, p + $(i));
% end
    }
}
