/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map_inspect.c - reads the results of filling sets and maps in one step.
 *
 * A network has tens of sets and maps. Separate copies would each wait for the
 * device, which takes longer than a run of a small network.
 */
#include "base/error.h"
#include "coords/index/indexer.h"
#include "coords/map.h"

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
                        spc__scratch *scratch, void *stream, spc_error *error)
{
    spc__scratch own = {0};
    spc__part few[4]; /* enough for a set, or for a map that knows its pairs */
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
    spc__part *parts = few;
    if (bytes > sizeof few)
        parts = spc__scratch_take(scratch != NULL ? scratch : &own, bytes);
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
    free(own.memory);
    return status;
}

/* ---- several maps ------------------------------------------------------- */

static spc_status check_maps(spc_map *const *maps, int count, spc_error *to)
{
    static const char name[] = "spc_map_check_many";
    spc_status status = SPC_OK;

    if (count < 0)
        return spc__fail(to, SPC_EINVAL, "%s: %d maps are impossible", name,
                         count);
    if (count > 0)
        status = spc__need(to, name, "maps", maps, NULL);
    for (int i = 0; status == SPC_OK && i < count; i++)
        if (maps[i] == NULL)
            status = spc__fail(to, SPC_EINVAL,
                               "%s: `maps[%d]` must not be NULL", name, i);
        else if (maps[i]->ctx != maps[0]->ctx)
            status = spc__fail(to, SPC_EINVAL,
                               "%s: maps[%d] is of another context than "
                               "maps[0]",
                               name, i);
    return status;
}

/* Reads all but the maps of points. The arrays have room for `count`. */
static spc_status inspect_all(spc_map *const *maps, int count, int64_t *pairs,
                              void **room, void *stream, spc_error *error)
{
    spc_coords **sets = (spc_coords **)room;
    spc_map **read = (spc_map **)(room + 2 * count);
    int set_count = 0, map_count = 0;

    for (int i = 0; i < count; i++) {
        if (spc__map_is_of_points(maps[i]))
            continue;
        sets[set_count++] = maps[i]->in;
        if (maps[i]->to != maps[i]->in)
            sets[set_count++] = maps[i]->to;
        read[map_count++] = maps[i];
    }
    return spc__inspect(sets, set_count, read, pairs, map_count, NULL, stream,
                        error);
}

/* Called after the pairs were read, unless it is a map of points. */
static spc_status judge(spc_map *map, const int64_t **pairs, void *stream)
{
    spc_error error = {0};

    if (spc__map_is_of_points(map))
        return spc_map_check(map, stream);
    map->in_flight = false;
    map->checked = spc__map_verdict(map, *(*pairs)++, NULL, &error) == SPC_OK;
    return map->checked ? SPC_OK : spc__ctx_fail(map->ctx, &error);
}

spc_status spc_map_check_many(int *failed, spc_map *const *maps, int count,
                              void *stream)
{
    spc_ctx *ctx = count > 0 && maps && maps[0] ? maps[0]->ctx : NULL;
    spc_error error = {0};
    spc_status status = check_maps(maps, count, spc__error_of(ctx));
    int first = -1;

    if (failed != NULL)
        *failed = -1;
    if (status != SPC_OK || count <= 0)
        return status;
    for (int i = 0; i < count && status == SPC_OK; i++)
        if ((status = spc__map_need_filled(maps[i], &error)) != SPC_OK)
            first = i;
    size_t each = sizeof(int64_t) + 3 * sizeof(void *);
    char *room = malloc((size_t)count * each);
    if (room == NULL)
        status = spc__fail_memory(&error, (size_t)count * each);
    const int64_t *pairs = (const int64_t *)room;
    if (status == SPC_OK)
        status = inspect_all(maps, count, (int64_t *)room,
                             (void **)(room + (size_t)count * sizeof(int64_t)),
                             stream, &error);
    if (status != SPC_OK)
        spc__ctx_fail(ctx, &error);
    for (int i = 0; i < count && status == SPC_OK; i++)
        if ((status = judge(maps[i], &pairs, stream)) != SPC_OK)
            first = i;
    free(room);
    if (failed != NULL)
        *failed = first;
    return status;
}
