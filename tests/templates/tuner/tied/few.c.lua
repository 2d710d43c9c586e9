%-- Comes first by name, and has the same preference as `many`.
%include "loops.lua"
%
%template = loop_template {
%  summary = "plain loops",
%  params = {{"tile", {64, 128}, "output rows of a tile"}},
%  default = function() return {tile = 64} end,
%}
#include "spc_abi.h"

% write_loops()
% write_conv()
