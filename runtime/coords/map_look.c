/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map_look.c - queries of kernel maps: their properties and all their pairs.
 */
#include "coords/map.h"

#include "base/error.h"
#include "coords/index/indexer.h"
#include <stdlib.h>
#include <string.h>

/* ---- facts -------------------------------------------------------------- */

spc_coords *spc_map_in(const spc_map *map)
{
    return map ? map->in : NULL;
}

spc_coords *spc_map_out(const spc_map *map)
{
    return map ? map->to : NULL;
}

int64_t spc_map_rows_out(const spc_map *map)
{
    return map ? map->to->rows : 0;
}

int64_t spc_map_rows_in(const spc_map *map)
{
    return map ? map->in->rows : 0;
}

int64_t spc_map_pairs(const spc_map *map)
{
    return map ? map->pairs : 0;
}

const spc_ctx *spc_map_ctx(const spc_map *map)
{
    return map != NULL ? spc__map_ctx(map) : NULL;
}

double spc_map_density(const spc_map *map)
{
    if (!map || map->to->rows == 0)
        return 0;
    return (double)map->pairs / map->to->rows / map->offsets;
}

int spc_map_key_bits(const spc_map *map)
{
    return map ? spc_coords_key_bits(map->in) : 0;
}

spc_ctx *spc__map_ctx(const spc_map *map)
{
    return map->ctx;
}

const int32_t *spc__map_coords(const spc_map *map)
{
    const spc_coords *scene = spc__map_scene_set(map);

    return scene->from ? NULL : scene->data;
}

/* ---- pairs -------------------------------------------------------------- */

static const spc__device_ops *ops_of(const spc_map *map)
{
    return spc__device_ops_of(map->ctx->device);
}

/* Converts key order to the caller's order. */
static void unsort(int32_t *out, const spc_map *map, int count,
                   const int32_t *order, const int32_t *index)
{
    size_t rows = (size_t)map->to->capacity;
    size_t padded = (size_t)map->to->rows_padded;

    memset(out, 0xff, 4 * rows * (size_t)map->offsets);
    /* Padding positions have order -1, which as size_t is beyond every row. */
    for (size_t k = 0; k < (size_t)map->offsets; k++)
        for (size_t p = 0; p < (size_t)count; p++)
            if ((size_t)order[p] < rows)
                out[k * rows + (size_t)order[p]] = index[k * padded + p];
}

/* Copies the order and index of the plain layout and the number of rows. The
 * host knows that number only if the set was checked since it was filled. */
static spc_status fetch_plain(int32_t *host, int32_t *count, const spc_map *map,
                              const spc__map_layout *plain, spc_error *error)
{
    spc__device *device = map->ctx->device;
    size_t rows = (size_t)map->to->rows_padded;
    spc_status status;

    if ((status = ops_of(map)->copy_out(device, count, map->to->count,
                                        sizeof *count, NULL, error)) !=
            SPC_OK ||
        (status = ops_of(map)->copy_out(device, host, plain->order, 4 * rows,
                                        NULL, error)) != SPC_OK ||
        (status = ops_of(map)->copy_out(device, host + rows, plain->index,
                                        4 * rows * (size_t)map->offsets, NULL,
                                        error)) != SPC_OK)
        return status;
    return ops_of(map)->sync(device, NULL, error);
}

spc_status spc_map_download(int32_t *index, const spc_map *map)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "map", map, NULL);

    if (status != SPC_OK)
        return status;
    if (map->geometry.rule == SPC_RULE_RADIUS) {
        status = spc__fail(
            &error, SPC_EUNSUPPORTED,
            "a map of points has no table: use spc_map_download_triplets");
        return spc__ctx_fail(map->ctx, &error);
    }
    if (map->to->capacity > 0 && index == NULL)
        return spc__need(spc__error_of(map->ctx), __func__, "index", index,
                         NULL);
    /* The copies below use the default stream, which does not wait for the
     * caller's. */
    if ((status = spc__map_need_filled(map, &error)) != SPC_OK ||
        (status = spc__coords_land(map->ctx, map->in_flight, &error)) != SPC_OK)
        return spc__ctx_fail(map->ctx, &error);
    size_t rows = (size_t)map->to->rows_padded;
    size_t bytes = 4 * rows * (size_t)(1 + map->offsets);
    int32_t *host = malloc(bytes), count = 0;
    /* Downloading must not change the prepared layouts, so a missing index is
     * added to a copy of the layout. */
    spc__map_layout plain = map->plain;

    if (!host)
        status = spc__fail_memory(&error, bytes);
    if (status == SPC_OK && !map->plain.index) {
        status = spc__map_index_alloc(&plain, map, &error);
        if (status == SPC_OK)
            status = map->in->indexer->fill(map, &plain, NULL, &error);
    }
    if (status == SPC_OK)
        status = fetch_plain(host, &count, map, &plain, &error);
    if (status == SPC_OK)
        unsort(index, map, count, host, host + rows);
    if (plain.index != map->plain.index)
        spc__coords_dealloc(map->to, plain.index);
    free(host);
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}
