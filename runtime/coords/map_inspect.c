/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map_inspect.c - reads the results of filling sets and maps in one step.
 *
 * A network has tens of sets and maps. Separate copies would each wait for the
 * device, which takes longer than a run of a small network.
 */
#include "coords/map.h"
#include "base/error.h"
#include "coords/index/indexer.h"

#include <stdlib.h>

/* Counters of a map on the device; 0 if the map knows its pairs. */
static size_t words_of(const spc_map *map, const int **at)
{
    size_t words = 0;

    *at = map->in->indexer->pairs != NULL ? map->in->indexer->pairs(map, &words)
                                          : NULL;
    return words;
}

static int64_t sum(const int *counts, size_t words)
{
    int64_t total = 0;

    for (size_t i = 0; i < words; i++)
        total += counts[i];
    return total;
}

static void take_set(spc_coords *c)
{
    c->rows = c->seen[SPC_INDEX_STATS];
    c->asked = c->seen[SPC_INDEX_ROWS];
    c->checked = true;
    c->in_flight = false;
}

/* Lists the parts, with the maps' counters one after the other. */
static int list_parts(spc__part *parts, int *counts, spc_coords *const *sets,
                      int set_count, spc_map *const *maps, int map_count)
{
    int count = 0;

    for (int i = 0; i < set_count; i++)
        parts[count++] =
            (spc__part){sets[i]->seen, sets[i]->stats, sizeof sets[i]->seen};
    for (int i = 0; i < map_count; i++) {
        const int *at;
        size_t words = words_of(maps[i], &at);
        if (words > 0)
            parts[count++] = (spc__part){counts, at, 4 * words};
        counts += words;
    }
    return count;
}

spc_status spc__inspect(spc_coords *const *sets, int set_count,
                        spc_map *const *maps, int64_t *pairs, int map_count,
                        void *stream, spc_error *error)
{
    spc_ctx *ctx = set_count > 0   ? sets[0]->ctx
                   : map_count > 0 ? maps[0]->ctx
                                   : NULL;
    size_t words = 0, heads = (size_t)(set_count + map_count);
    const int *unused;

    if (ctx == NULL)
        return SPC_OK;
    for (int i = 0; i < map_count; i++)
        words += words_of(maps[i], &unused);
    size_t bytes = heads * sizeof(spc__part) + 4 * words;
    spc__part *parts = malloc(bytes);
    if (parts == NULL)
        return spc__fail_memory(error, bytes);
    int *counts = (int *)(parts + heads);
    int count = list_parts(parts, counts, sets, set_count, maps, map_count);
    spc_status status = spc__device_ops_of(ctx->device)
                            ->collect(ctx->device, parts, count, stream, error);
    for (int i = 0; i < set_count && status == SPC_OK; i++)
        take_set(sets[i]);
    for (int i = 0; i < map_count && status == SPC_OK; i++) {
        size_t mine = words_of(maps[i], &unused);
        pairs[i] = mine > 0 ? sum(counts, mine) : maps[i]->pairs;
        counts += mine;
    }
    free(parts);
    return status;
}
