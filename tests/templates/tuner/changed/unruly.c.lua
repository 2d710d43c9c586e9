%-- Has the name of the template in unruly, but another text: old records must not be
%-- used.
%include "loops.lua"
%
%template = loop_template {
%  summary = "behaves",
%  params = {
%    {"tile", {64}, "output rows of a tile"},
%    {"mood", {"good", "same"}, "changes nothing"},
%  },
%  default = function() return {tile = 64, mood = "good"} end,
%}
#include "spc_abi.h"

% write_loops()
% write_conv()
