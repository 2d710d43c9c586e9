/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_host.c - the indexer of the cpu device: threaded C.
 *
 * It runs the templates' steps, each in a separate file: pack, radix sort,
 * merge, z-delta search, masks. Rows are processed in chunks.
 */
#include "coords/index/index_host.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/pool.h"
#include <stdlib.h>
#include <string.h>

extern const spc__regrouper spc__regrouper_host; /* regroup_host.c */
extern const spc__voxeliser spc__voxeliser_host;

static bool host_serves(const spc_ctx *ctx)
{
    return spc__device_ops_of(ctx->device)->builds_maps_on_host;
}

/* ---- memory -------------------------------------------------------------- */

static void scratch_release(spc__host_scratch *s)
{
    for (int i = 0; i < 2; i++) {
        free(s->keys[i]);
        free(s->rows[i]);
    }
    free(s->counts);
}

/* Counts only the chunks that can occur: counters for all 64 chunks take 512
 * KB, which the C library would map and unmap for every set. */
static spc_status scratch_alloc(spc__host_scratch *s, size_t rows,
                                spc_error *error)
{
    size_t chunks = (rows + SPC__HOST_CHUNK_ROWS - 1) / SPC__HOST_CHUNK_ROWS;
    bool all = true;

    if (chunks > SPC__HOST_SORT_CHUNKS)
        chunks = SPC__HOST_SORT_CHUNKS;
    for (int i = 0; i < 2 && all; i++) {
        s->keys[i] = malloc(rows * sizeof *s->keys[i]);
        s->rows[i] = malloc(rows * sizeof *s->rows[i]);
        all = s->keys[i] && s->rows[i];
    }
    if (all)
        all = (s->counts = malloc((sizeof(int) * chunks)
                                  << SPC__HOST_DIGIT_BITS)) != NULL;
    /* On failure, set_destroy() and map_destroy() free the allocated parts. */
    return all ? SPC_OK : spc__fail_memory(error, 24 * rows);
}

static void set_destroy(spc_coords *c)
{
    spc__host_set *w = c->work;

    if (!w)
        return;
    scratch_release(&w->s);
    free(w->proposed);
    free(w);
    c->work = NULL;
}

/* Number of rows to sort; for a set of outputs, all proposed ones. */
static size_t rows_sorted(const spc_coords *c)
{
    size_t rows = (size_t)c->reserved_padded;
    size_t proposed = c->from ? (size_t)c->from->reserved *
                                    (size_t)spc__geometry_fan_out(&c->rule)
                              : 0;

    return rows > proposed ? rows : proposed;
}

/* Allocates the memory for sorting. A derived set also has a list of all
 * outputs that its inputs propose. */
static spc_status set_create(spc_coords *c, spc_error *error)
{
    spc__host_set *w = c->work = calloc(1, sizeof *w);
    size_t rows = rows_sorted(c);

    if (!w)
        return spc__fail_memory(error, sizeof *w);
    if (c->from && !(w->proposed = malloc(16 * rows)))
        return spc__fail_memory(error, 16 * rows);
    return scratch_alloc(&w->s, rows, error);
}

static void map_destroy(spc_map *map)
{
    if (!map->work)
        return;
    scratch_release(map->work);
    free(map->work);
    map->work = NULL;
}

/* Allocates the memory for sorting the rows of a map. */
static spc_status map_create(spc_map *map, spc_error *error)
{
    spc__host_scratch *s = map->work = calloc(1, sizeof *s);
    spc_status status;

    if (!s)
        return spc__fail_memory(error, sizeof *s);
    status = scratch_alloc(s, (size_t)map->to->reserved_padded, error);
    /* Row orders are copied from the plain index, so it must exist. */
    return status == SPC_OK ? spc__map_index_alloc(&map->plain, map, error)
                            : status;
}

/*
 * A chunk of 96k entries takes about 0.3 ms. Waking a thread takes 0.02 ms, and
 * the entries it writes end up in another core's cache, so smaller chunks do
 * not pay. Larger maps get larger chunks, since longer pieces of the index are
 * written faster.
 */
int spc__host_wide_rows(const spc_map *map)
{
    enum { ENTRIES = 3 << 15, EACH_THREAD = 4 };
    int least = ENTRIES / map->offsets;
    int share = *map->to->count / (EACH_THREAD * map->ctx->threads);

    return spc__host_at_most(share > least ? share : least,
                             SPC__HOST_CHUNK_ROWS);
}

bool spc__host_spread(const spc_ctx *ctx, int64_t chunks,
                      void (*body)(void *payload, int64_t i), void *payload)
{
    spc__pool *pool = spc__device_ops_of(ctx->device)->pool(ctx->device);

    /* The flag lets another thread of the program end a long fill early. */
    return spc__pool_run_until(pool, ctx->cancel, chunks, body, payload);
}

/* Fills the set, if the map does so, then the index and one layout. */
static spc_status map_build(spc_map *map, const spc__source *source,
                            const spc__map_layout *sorted, void *stream,
                            spc_error *error)
{
    spc_status status = SPC_OK;

    if (source)
        status = spc__host_set_build(map->to, source, stream, error);
    if (status != SPC_OK)
        return status;
    if (!spc__host_search(map, &map->pairs))
        return spc__interrupted(error);
    return sorted ? spc__host_map_fill(map, sorted, stream, error) : SPC_OK;
}

static spc_status order_create(spc_map *map, const spc__map_layout *layout,
                               spc_error *error)
{
    (void)map;
    (void)layout;
    (void)error;
    return SPC_OK; /* nothing to prepare */
}

static spc_status list_create(spc_map *map, spc_error *error)
{
    (void)map;
    (void)error;
    return SPC_OK; /* the index suffices */
}

/* The build has already counted them: this device works synchronously. */
const spc__indexer spc__indexer_host = {
    .name = "host",
    .serves = host_serves,
    .set_create = set_create,
    .set_destroy = set_destroy,
    .set_build = spc__host_set_build,
    .set_derive = spc__host_set_derive,
    .set_merge = spc__host_set_merge,
    .map_create = map_create,
    .map_destroy = map_destroy,
    .map_build = map_build,
    .order_create = order_create,
    .fill = spc__host_map_fill,
    .tile = spc__host_map_tile,
    .list_create = list_create,
    .list = spc__host_map_list,
    .regrouper = &spc__regrouper_host,
    .voxeliser = &spc__voxeliser_host,
};
