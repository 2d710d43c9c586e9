%-- As plain.cu.lua, with instructions that only one architecture has.
%template = {
%  summary = "only for compute capability 9.0",
%  role = "conv",
%  device = "cuda",
%  params = {
%    {"stages", {2, 3, 4}, "stages of its ring"},
%  },
%  accepts = function(problem, target)
%    if problem.cin < 64 then return false, "needs 64 channels" end
%    if target.sm ~= 90 then return false, "needs sm_90" end
%    return true
%  end,
%  constraints = {},
%  launch = function(problem, config)
%    return {
%      block = 128, shared = 40000 * config.stages, tile_rows = 128, preference = 3,
%      packed_bytes = problem.offsets * problem.cin * problem.cout * 4,
%      pack_threads = problem.offsets * problem.cin * problem.cout,
%    }
%  end,
%  default = function() return {stages = 2} end,
%}

/* No kernel. */
