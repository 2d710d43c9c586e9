%-- A plain convolution with parameters that change nothing but the record.
%template = {
%  summary = "plain loops with a choice of tiles",
%  role = "conv",
%  device = "cpu",
%  params = {
%    {"tile", {16, 32, 64}, "output rows of a tile"},
%    {"order", {"none", "gray"}, "row order"},
%    {"arrival", {0, 1}, "pretends to depend on the order of arrival"},
%  },
%  accepts = function(problem)
%    if problem.dtype ~= "f32" then return false, "f32 only" end
%    return true
%  end,
%  constraints = {
%    {"wide tiles need eight channels", function(problem, config)
%      return config.tile < 64 or problem.cin >= 8
%    end},
%  },
%  launch = function(problem, config)
%    return {
%      block = 1, grid = "tiles", tile_rows = config.tile,
%      order = config.order, atomics = config.arrival,
%      packed_bytes = problem.offsets * problem.cin * problem.cout * 4,
%      pack_threads = problem.offsets * problem.cin * problem.cout,
%      workspace_row_bytes = 4, workspace_bytes = 64,
%    }
%  end,
%  default = function() return {tile = 16, order = "none", arrival = 0} end,
%}
#include "spc_abi.h"

enum { CIN = $(problem.cin), COUT = $(problem.cout), TILE = $(config.tile) };

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y);
void spc_pack(const spc_pack_args *args, unsigned x, unsigned y);

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    const spc_map_view *map = &args->map;
    int first = map->tile_order[x] * TILE;

    if (first < 0)
        return;
    for (int p = first; p < first + TILE; p++) {
        int row = map->order ? map->order[p] : p < map->rows ? p : -1;
        if (row < 0)
            continue;
        ((int *)args->workspace)[p] = row;
        for (int co = 0; co < COUT; co++) {
            float sum = args->bias ? args->bias[co] : 0;
            for (int k = 0; k < map->offsets; k++) {
                int from = map->index[(long)k * map->rows_padded + p];
                for (int ci = 0; ci < CIN && from >= 0; ci++)
                    sum += ((const float *)args->in)[from * CIN + ci] *
                           ((const float *)args->weights)[(k * CIN + ci) * COUT
                                                          + co];
            }
            ((float *)args->out)[row * COUT + co] = sum;
        }
    }
    (void)y;
}

void spc_pack(const spc_pack_args *args, unsigned x, unsigned y)
{
    int co = x % COUT, ci = x / COUT % CIN, k = x / COUT / CIN;

    if (k < $(problem.offsets))
        ((float *)args->packed)[x] = ((const float *)args->weights)
            [k * args->stride_k + ci * args->stride_in + co * args->stride_out];
    (void)y;
}
