%-- Is so much slower than `hills` that only its default is worth timing.
%include "loops.lua"
%
%template = loop_template {
%  summary = "plain loops, 240 times",
%  params = {{"tile", {32, 64}, "output rows of a tile"}},
%  default = function() return {tile = 64} end,
%}
#include "spc_abi.h"

% write_loops()

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    int first = args->map.tile_order[x] * TILE;

    if (first < 0)
        return;
    for (volatile int again = 0; again < 240; again++)
        for (int p = first; p < first + TILE; p++)
            convolve(args, p);
}
