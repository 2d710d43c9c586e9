%-- Correct candidates, and candidates that misbehave in every way.
%include "loops.lua"
%
%template = loop_template {
%  summary = "misbehaves as told",
%  params = {
%    {"tile", {64}, "output rows of a tile"},
%    {"mood", {"good", "crash", "hang", "wrong", "lazy", "broken"}, "what it does"},
%  },
%  default = function() return {tile = 64, mood = "good"} end,
%}
#include "spc_abi.h"

% write_loops()
% local mood = config.mood

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    int first = args->map.tile_order[x] * TILE;

    if (first < 0)
        return;
% if mood == "crash" then
    *(volatile int *)8 = 1;
% elseif mood == "hang" then
    for (volatile int forever = 1; forever;)
        ;
% elseif mood == "lazy" then
    if (x == 0)
        return;
% elseif mood == "broken" then
    this is no C
% end
    for (int p = first; p < first + TILE; p++)
        convolve(args, p);
% if mood == "wrong" then
    if (x == 0)
        ((float *)args->out)[COUT + 1] += 0.5f;
% end
}
