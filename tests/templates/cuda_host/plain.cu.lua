%-- A convolution for the double of the CUDA driver. Its kernel never runs; tests
%-- check how it is launched.
%template = {
%  summary = "every word of a launch geometry can be varied",
%  role = "conv",
%  device = "cuda",
%  params = {
%    {"order", {"none", "gray"}, "row order"},
%    {"grid", {"tiles", "persistent", "steps"}, "kind of grid"},
%    {"pdl", {0, 1}, "programmatic dependent launch"},
%    {"clear", {0, 1}, "the output is cleared first"},
%    {"cluster", {1, 4}, "blocks of a cluster"},
%  },
%  accepts = function() return true end,
%  constraints = {},
%  launch = function(problem, config)
%    return {
%      block = 96, shared = 70000, grid = config.grid, blocks_per_sm = 2,
%      tile_rows = 64, tiles_per_block = 2, grid_y = 3, order = config.order,
%      packed_bytes = problem.offsets * problem.cin * problem.cout * 4,
%      pack_threads = problem.offsets * problem.cin * problem.cout,
%      workspace_row_bytes = 4, workspace_bytes = 64,
%      pdl = config.pdl, clear = config.clear, cluster = config.cluster,
%      workspace_block_bytes = config.grid == "steps" and 1000 or 0,
%      sum_block = config.grid == "steps" and 160 or 0, sum_grid_y = 7,
%    }
%  end,
%  default = function(problem)
%    return {order = problem.bias == 1 and "gray" or "none", grid = "persistent",
%            pdl = 1, clear = 1, cluster = 1}
%  end,
%}

/* No kernel. */
