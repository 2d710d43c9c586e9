%-- The same name as in unruly, another template: old rows are no answer.
%
%template = {
%  summary = "behaves",
%  role = "conv",
%  device = "cpu",
%  params = {
%    {"tile", {64}, "output rows of a tile"},
%    {"mood", {"good", "same"}, "changes nothing"},
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
#include "spc_abi.h"

enum {
    CIN = $(problem.cin),
    COUT = $(problem.cout),
    OFFSETS = $(problem.offsets),
    TILE = $(config.tile)
};
% if mood == "broken" then
this is no C
% end

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

% if mood == "crash" then
    *(volatile int *)8 = 1;
% elseif mood == "hang" then
    for (volatile int forever = 1; forever;)
        ;
% elseif mood == "lazy" then
    if (x == 0)
        return;
% end
    for (int p = first_row; p < first_row + TILE; p++) {
        long row = map->order ? map->order[p] : p < map->rows ? p : -1;
        if (row >= 0)
            convolve(args, p, row);
    }
% if mood == "wrong" then
    if (x == 0)
        ((float *)args->out)[COUT + 1] += 0.5f;
% end
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
