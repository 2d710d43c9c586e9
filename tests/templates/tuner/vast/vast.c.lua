%-- Candidates that request more memory than exists.
%include "loops.lua"
%
%template = loop_template {
%  summary = "asks for too much",
%  params = {
%    {"tile", {64}, "output rows of a tile"},
%    {"mood", {"packed", "work", "rows", "sum", "good"}, "what is too large"},
%  },
%  default = function() return {tile = 64, mood = "good"} end,
%  launch = function(problem, config)
%    local launch, mood = loop_launch(problem, config), config.mood
%    if mood == "packed" then launch.packed_bytes = 1 << 62 end
%    if mood == "work" then launch.workspace_bytes = 1 << 62 end
%    if mood == "rows" then launch.workspace_row_bytes = 2147483647 end
%    if mood == "sum" then
%      launch.workspace_bytes, launch.workspace_row_bytes =
%        9223372036854775807, 2147483647
%    end
%    return launch
%  end,
%}
#include "spc_abi.h"

% write_loops()
% write_conv()
