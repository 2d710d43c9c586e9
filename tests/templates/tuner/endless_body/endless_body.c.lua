%template = {
%  summary = "never ends to render",
%  role = "conv",
%  device = "cpu",
%  params = {
%    {"tile", {64}, "output rows of a tile"},
%    {"mood", {"good"}, "what it does"},
%  },
%  accepts = function(problem, target)
%    if problem.dtype ~= "f32" then return false, "f32 only" end
%    return true
%  end,
%  derive = function(problem, config, target) return {mood = config.mood} end,
%  launch = function(problem, config, target)
%    return {
%      block = 1, shared = 0, grid = "tiles", tile_rows = config.tile,
%      order = "none", pack_threads = problem.offsets * problem.cin,
%      packed_bytes = problem.offsets * problem.cin * problem.cout * 4,
%    }
%  end,
%  default = function(problem, target) return {tile = 64, mood = "good"} end,
%}
% while true do end
int nothing;
