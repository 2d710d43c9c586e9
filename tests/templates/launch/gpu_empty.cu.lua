%-- A kernel for the double of the CUDA driver, which runs none: a call's time is
%-- that of the host's code.
%template = {
%  summary = "an empty kernel",
%  role = "conv",
%  device = "cuda",
%  params = {{"order", {"none", "gray"}, "row order"}},
%  accepts = function() return true end,
%  constraints = {},
%  launch = function(problem, config)
%    return {
%      block = 128, grid = "tiles", tile_rows = 64, order = config.order,
%      packed_bytes = 256, pack_threads = 1, workspace_row_bytes = 4, pdl = 1,
%    }
%  end,
%  default = function() return {order = "gray"} end,
%}

/* No kernel. */
