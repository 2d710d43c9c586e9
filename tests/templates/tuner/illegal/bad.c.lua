%-- Its default is not one of its values.
%include "loops.lua"
%
%template = loop_template {
%  summary = "plain loops",
%  params = {{"tile", {64, 128}, "output rows of a tile"}},
%  default = function() return {tile = 96} end,
%}
#include "spc_abi.h"

% write_loops()
% write_conv()
