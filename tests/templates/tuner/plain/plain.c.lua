%-- Twelve candidates that compile quickly and are all right.
%
%template = {
%  summary = "plain loops",
%  role = "conv",
%  device = "cpu",
%  params = {
%    {"tile", {32, 64, 128}, "output rows of a tile"},
%    {"step", {1, 2}, "rows at a time"},
%    {"order", {"none", "gray"}, "of the rows"},
%  },
%  accepts = function(problem, target)
%    if problem.dtype ~= "f32" then return false, "f32 only" end
%    return true
%  end,
%  derive = function(problem, config, target) return {} end,
%  launch = function(problem, config, target)
%    return {
%      block = 1, shared = 0, grid = "tiles", tile_rows = config.tile,
%      order = config.order, pack_threads = problem.offsets * problem.cin,
%      packed_bytes = problem.offsets * problem.cin * problem.cout * 4,
%    }
%  end,
%  default = function(problem, target) return {tile = 64, step = 1, order = "none"} end,
%}
#include "spc_abi.h"

enum {
    CIN = $(problem.cin),
    COUT = $(problem.cout),
    OFFSETS = $(problem.offsets),
    TILE = $(config.tile)
};

static void convolve(const spc_conv_args *args, int p, long row)
{
    const spc_map_view *map = &args->map;
    const float *weights = (const float *)args->weights;

    for (int co = 0; co < COUT; co++) {
        float sum = args->bias ? args->bias[co] : 0;
        for (long k = 0; k < OFFSETS; k++) {
            long from = map->index[k * map->rows_padded + p];
            for (int ci = 0; from >= 0 && ci < CIN; ci++)
                sum += ((const float *)args->in)[from * CIN + ci] *
                       weights[(k * CIN + ci) * COUT + co];
        }
        ((float *)args->out)[row * COUT + co] = sum;
    }
}

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    const spc_map_view *map = &args->map;
    int first_row = map->tile_order[x] * TILE;

    for (int p = first_row; p < first_row + TILE; p += $(config.step)) {
% for i = 0, config.step - 1 do
        long row$(i) = map->order ? map->order[p + $(i)]
                       : p + $(i) < map->rows ? p + $(i) : -1;
        if (row$(i) >= 0)
            convolve(args, p + $(i), row$(i));
% end
    }
}

void spc_pack(const spc_pack_args *args, unsigned x, unsigned y)
{
    const float *weights = (const float *)args->weights;
    long k = x / CIN, ci = x % CIN;

    if (k >= OFFSETS)
        return;
    weights += k * args->stride_k + ci * args->stride_in;
    for (int co = 0; co < COUT; co++)
        ((float *)args->packed)[(long)x * COUT + co] =
            weights[co * args->stride_out];
}
