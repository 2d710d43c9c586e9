%-- The layout of a layer that needs no map, because each row sees only itself. It has
%-- the form of a map's layout. The number of rows is a count on the device, and rows
%-- are in the order of their numbers.
%
%template = {
%  summary = "layouts of layers without a map: every row sees itself",
%  role = "map",
%  device = "cuda",
%  params = {},
%  accepts = function(problem, target)
%    if problem.op ~= "rows" then return false, "lays out rows" end
%    return true
%  end,
%  constraints = {},
%  derive = function(problem, config, target) return {} end,
%  launch = function(problem, config, target) return {} end,
%  default = function(problem, target) return {} end,
%}
#include "spc_device.cuh"
#include "index_abi.h"

SPC_KERNEL(spc_rows, spc_rows_args, SPC_ROWS_THREADS, 1)
{
    int rows = args->count ? *args->count : args->rows;

    if (rows < 0 || rows > args->rows)
        rows = 0;
    for (int i = spc_block_x() * SPC_ROWS_THREADS + spc_thread();
         i < args->rows_padded; i += spc_grid_x() * SPC_ROWS_THREADS) {
        args->order[i] = i < rows ? i : -1;
        args->mask[i] = i < rows;
        if (i < args->tiles) {
            int some = (long long)i * args->tile_rows < rows;
            args->tile_order[i] = some ? i : -1;
            args->tile_mask[i] = (unsigned)some;
        }
        if (i == 0)
            args->tile_begin[0] = 0;
    }
}
