%-- A correct template next to one with a mistake.
%include "loops.lua"
%
%template = loop_template {
%  summary = "plain loops",
%  params = {{"tile", {32, 64}, "output rows of a tile"}},
%  default = function() return {tile = 64} end,
%}
#include "spc_abi.h"

% write_loops()
% write_conv()
