%-- Has more parameters, so an untuned plan prefers it to `few`.
%include "loops.lua"
%
%template = loop_template {
%  summary = "plain loops",
%  params = {
%    {"tile", {64, 128}, "output rows of a tile"},
%    {"step", {1}, "nothing"},
%  },
%  default = function() return {tile = 64, step = 1} end,
%}
#include "spc_abi.h"

% write_loops()
% write_conv()
