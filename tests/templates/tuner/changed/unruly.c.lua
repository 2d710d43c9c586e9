%-- The same name as in unruly, another template: old rows are no answer.
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
