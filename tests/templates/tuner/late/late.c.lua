%-- The default is slow until the environment makes it fast, as if the clock was low
%-- when it was timed.
%include "loops.lua"
%
%template = loop_template {
%  summary = "plain loops, of which the default has more at first",
%  params = {{"tile", {32, 64}, "output rows of a tile"}},
%  default = function() return {tile = 64} end,
%}
#include "spc_abi.h"

% write_loops()

char *getenv(const char *name);

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    int first = args->map.tile_order[x] * TILE;
    int most = TILE == 32 ? 8 : *getenv("SPC_TEST_LATE") == 's' ? 80 : 1;

    if (first < 0)
        return;
    for (volatile int again = 0; again < most; again++)
        for (int p = first; p < first + TILE; p++)
            convolve(args, p);
}
