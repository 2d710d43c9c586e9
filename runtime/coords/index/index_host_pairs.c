/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_host_pairs.c - the pairs of a map by offset, on the cpu device.
 */
#include "base/cancel.h"
#include "coords/index/index_host.h"

typedef struct listing {
    const spc_map *map;
    const spc__map_pairs *pairs;
} listing;

static const int *inputs_at(const spc_map *map, int64_t k)
{
    return map->plain.index + (size_t)k * (size_t)map->to->rows_padded;
}

/* Counts the pairs of offset k in begin[k + 1]; a prefix sum follows. */
static void count_offset(void *payload, int64_t k)
{
    const listing *l = payload;
    const int *in = inputs_at(l->map, k);
    int rows = *l->map->to->count, count = 0;

    for (int p = 0; p < rows; p++)
        count += in[p] >= 0;
    l->pairs->begin[k + 1] = count;
}

/* Number of offsets below `k` that the row at position p has. */
static int count_below(const spc_map *map, int64_t k, int p)
{
    size_t padded = (size_t)map->to->rows_padded;
    const unsigned *mask = map->plain.mask + p;
    int count = 0;

    /* Whole words first, then the bits of the last one. Bits at and above `k`
     * do not count. */
    for (int64_t w = 0; w < k / 32; w++)
        count += __builtin_popcount(mask[(size_t)w * padded]);
    if (k % 32 != 0)
        count += __builtin_popcount(mask[(size_t)(k / 32) * padded] &
                                    ((1u << k % 32) - 1u));
    return count;
}

/* Numbers the pairs output by output, which gives each pair its place. */
static void index_rows(const listing *l)
{
    /* In key order and not in the caller's order, so that rows near each other
     * have their pairs near each other. */
    int next = 0;

    for (int p = 0; p < *l->map->to->count; p++) {
        l->pairs->first[l->map->plain.order[p]] = next;
        next += count_below(l->map, l->map->offsets, p);
    }
}

/* Lists the pairs of one offset. */
static void list_offset(void *payload, int64_t k)
{
    /* Each offset writes to a separate range, so threads need no atomics. */
    const listing *l = payload;
    const int *in = inputs_at(l->map, k);
    int rows = *l->map->to->count, at = l->pairs->begin[k];

    for (int p = 0; p < rows; p++)
        if (in[p] >= 0) {
            int row = l->map->plain.order[p];
            l->pairs->in[at] = in[p];
            l->pairs->out[at] = row;
            l->pairs->place[at++] =
                l->pairs->first[row] + count_below(l->map, k, p);
        }
}

spc_status spc__host_map_list(const spc_map *map, const spc__map_pairs *pairs,
                              void *stream, spc_error *error)
{
    listing l = {map, pairs};

    (void)stream;
    if (!spc__host_spread(map->ctx, map->offsets, count_offset, &l))
        return spc__interrupted(error);
    /* Counts are at begin[k + 1], so the running sum derives begin[k] into the
     * first pair of offset k. */
    pairs->begin[0] = 0;
    for (int k = 0; k < map->offsets; k++)
        pairs->begin[k + 1] += pairs->begin[k];
    index_rows(&l);
    return spc__host_spread(map->ctx, map->offsets, list_offset, &l)
               ? SPC_OK
               : spc__interrupted(error);
}
