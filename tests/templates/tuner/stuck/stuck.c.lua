%-- None of these candidates terminates.
%include "loops.lua"
%
%template = loop_template {
%  summary = "does not end",
%  params = {
%    {"tile", {64}, "output rows of a tile"},
%    {"number", {1, 2, 3, 4, 5, 6, 7, 8}, "which one it is"},
%  },
%  default = function() return {tile = 64, number = 1} end,
%}
#include "spc_abi.h"

% write_loops()

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    for (volatile int forever = $(config.number); forever;)
        ;
    convolve(args, 0);
}
