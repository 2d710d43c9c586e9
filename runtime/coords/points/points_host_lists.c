/* SPDX-License-Identifier: Apache-2.0 */
/* points_host_lists.c - the triplets of a map of points in other orders, on the
 * cpu device: by offset, by bundles of outputs, and tiles by cost. */
#include "coords/points/points_steps.h"

#include <string.h>

/* ---- by offset ----------------------------------------------------------- */

/* Finds where the pairs of each offset begin in the list by offset. */
static void sum_offsets(const spc_by_offset_args *a)
{
    int held = a->first[a->rows_padded];

    /* Counts go to begin[k + 1], so that the running sum leaves begin[k] at the
     * first pair of k. */
    memset(a->begin, 0, 4 * ((size_t)a->offsets + 1));
    for (int t = 0; t < held; t++)
        a->begin[a->list[2 * (size_t)t + 1] + 1]++;
    for (int k = 0; k < a->offsets; k++)
        a->begin[k + 1] += a->begin[k];
}

void spc__points_list_by_offset(const spc_ctx *ctx, const void *args)
{
    const spc_by_offset_args *a = args;
    int places[SPC_INDEX_OFFSETS];

    (void)ctx;
    sum_offsets(a);
    /* A copy, as the loop advances the positions. */
    memcpy(places, a->begin, 4 * (size_t)a->offsets);
    for (int p = 0; p < a->rows_padded; p++) {
        if (a->order[p] >= 0)
            a->first_of_row[a->order[p]] = a->first[p];
        for (int t = a->first[p]; t < a->first[p + 1]; t++) {
            int to = places[a->list[2 * (size_t)t + 1]]++;
            a->in[to] = a->list[2 * (size_t)t];
            a->out[to] = a->order[p];
            a->place[to] = t;
        }
    }
}

/* ---- by bundles ---------------------------------------------------------- */

/* Writes the triplets of the bundle of outputs at `position`, by offset. */
static void bundle(const spc_bundle_args *a, int position)
{
    int places[SPC_INDEX_OFFSETS + 1] = {0};
    int begin = a->first[position], end = a->first[position + SPC_BUNDLE];

    for (int t = begin; t < end; t++)
        places[a->list[2 * (size_t)t + 1] + 1]++;
    for (int k = 0; k < a->offsets; k++)
        places[k + 1] += places[k];
    for (int i = 0; i < SPC_BUNDLE; i++)
        for (int t = a->first[position + i]; t < a->first[position + i + 1];
             t++) {
            const int *from = a->list + 2 * (size_t)t;
            int *to = a->to + 2 * (size_t)(begin + places[from[1]]++);
            to[0] = from[0];
            /* One word holds the offset and the number of the output within its
             * bundle. */
            to[1] = from[1] * SPC_BUNDLE + i;
        }
}

/* Cost of a bundle, from the number of triplets of each offset. */
static int cost_of(const spc_bundle_args *a, int position)
{
    int counts[SPC_INDEX_OFFSETS] = {0}, cost = 0;
    int end = a->first[position + SPC_BUNDLE];

    for (int t = a->first[position]; t < end; t++)
        counts[a->list[2 * (size_t)t + 1]]++;
    /* Each 16 triplets of an offset cost one step of the matrix units. An
     * offset has a fixed cost as well (points_abi.h). */
    for (int k = 0; k < a->offsets; k++)
        if (counts[k] > 0)
            cost += SPC_BUNDLE_OFFSET + (counts[k] + 15) / 16 * SPC_BUNDLE_STEP;
    return cost;
}

void spc__points_bundle(const spc_ctx *ctx, const void *args)
{
    const spc_bundle_args *a = args;

    (void)ctx;
    for (int p = 0; p < a->rows_padded; p += SPC_BUNDLE) {
        bundle(a, p);
        a->costs[p / SPC_BUNDLE] = cost_of(a, p);
    }
}

/* The cost of a tile is the cost of its most expensive bundle. */
static int cost_of_tile(const spc_bundle_args *a, int tile)
{
    const int *costs = a->costs + tile * (SPC_BUNDLE_TILE / SPC_BUNDLE);
    int cost = 0;

    for (int i = 0; i < SPC_BUNDLE_TILE / SPC_BUNDLE; i++)
        cost = costs[i] > cost ? costs[i] : cost;
    return cost;
}

void spc__points_order_tiles(const spc_ctx *ctx, const void *args)
{
    const spc_bundle_args *a = args;
    int tiles = a->rows_padded / SPC_BUNDLE_TILE, most = 0, to = 0;

    (void)ctx;
    for (int t = 0; t < tiles; t++) {
        int cost = cost_of_tile(a, t);
        most = cost > most ? cost : most;
        a->tiles[t] = -1;
    }
    /* Like the kernel, sorts by level and not by exact cost, with a stable pass
     * for each level. */
    for (int level = SPC_BUNDLE_LEVELS - 1; level >= 0; level--)
        for (int t = 0; t < tiles; t++)
            if (a->order[t * SPC_BUNDLE_TILE] >= 0 &&
                (int64_t)cost_of_tile(a, t) * SPC_BUNDLE_LEVELS / (most + 1) ==
                    level)
                a->tiles[to++] = t;
}
