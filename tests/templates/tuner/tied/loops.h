/* loops.h - the kernel of both templates; CIN, COUT, OFFSETS and TILE are
 * theirs. */
#include "spc_abi.h"

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

    for (int p = first_row; p < first_row + TILE && p < map->rows; p++)
        convolve(args, p, p);
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
