%-- A convolution for the double of the CUDA driver, which every GPU accepts. Its
%-- kernel never runs; tests check which configuration is chosen.
%template = {
%  summary = "tiles that need more or less shared memory",
%  role = "conv",
%  device = "cuda",
%  params = {
%    {"tile", {16, 32, 64}, "rows of a tile"},
%  },
%  accepts = function() return true end,
%  constraints = {
%    {"its tile fits in shared memory", function(problem, config, target)
%      return config.tile * 3000 <= target.shared_block
%    end},
%  },
%  launch = function(problem, config)
%    return {
%      block = 96, shared = config.tile * 3000, tile_rows = config.tile, preference = 1,
%      packed_bytes = problem.offsets * problem.cin * problem.cout * 4,
%      pack_threads = problem.offsets * problem.cin * problem.cout,
%    }
%  end,
%  default = function() return {tile = 16} end,
%}

/* No kernel. */
