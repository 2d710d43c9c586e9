/* SPDX-License-Identifier: Apache-2.0 */
/* radius_triplets.c - the triplets of a map of points, on the host. */
#include "coords/points/points.h"

#include "base/error.h"
#include <stdlib.h>

static const spc__device_ops *ops_of(const spc_map *map)
{
    return spc__device_ops_of(map->ctx->device);
}

/* Copies order, first and list of a checked map into one array. */
static spc_status fetch(int32_t *to, const spc_map *map, spc_error *error)
{
    spc__device *device = map->ctx->device;
    size_t rows = (size_t)map->to->rows_padded;
    spc_triplets_view view;
    spc_status status;

    spc__radius_view(&view, map);
    if ((status = ops_of(map)->copy_out(device, to, map->plain.order, 4 * rows,
                                        NULL, error)) != SPC_OK ||
        (status = ops_of(map)->copy_out(device, to + rows, view.first,
                                        4 * (rows + 1), NULL, error)) != SPC_OK)
        return status;
    if (map->pairs > 0 && (status = ops_of(map)->copy_out(
                               device, to + 2 * rows + 1, view.list,
                               8 * (size_t)map->pairs, NULL, error)) != SPC_OK)
        return status;
    return ops_of(map)->sync(device, NULL, error);
}

/* Writes the triplets with their outputs, which the list leaves to `first`. */
static void spell_out(spc_triplet *out, const int32_t *from, size_t rows)
{
    const int32_t *first = from + rows, *entries = from + 2 * rows + 1;

    for (size_t p = 0; p < rows; p++)
        for (int t = first[p]; t < first[p + 1]; t++)
            out[t] = (spc_triplet){from[p], entries[2 * (size_t)t],
                                   entries[2 * (size_t)t + 1]};
}

spc_status spc_map_download_triplets(spc_triplet *out, const spc_map *map)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "map", map, NULL);

    if (status != SPC_OK)
        return status;
    if (map->geometry.rule != SPC_RULE_RADIUS)
        status = spc__fail(&error, SPC_EINVAL,
                           "only maps of points have triplets: "
                           "spc_map_download copies the table of others");
    else if ((status = spc__map_need_filled(map, &error)) == SPC_OK &&
             map->pairs > 0 && !out)
        status = spc__fail(&error, SPC_EINVAL, "`out` is NULL");
    size_t rows = (size_t)map->to->rows_padded;
    /* One array for the order, the beginnings and the list (fetch). */
    size_t bytes = 4 * (2 * rows + 1 + 2 * (size_t)map->pairs);
    int32_t *host = status == SPC_OK ? malloc(bytes) : NULL;
    if (status == SPC_OK && !host)
        status = spc__fail_memory(&error, bytes);
    if (status == SPC_OK)
        status = spc__coords_land(map->ctx, map->in_flight, &error);
    if (status == SPC_OK)
        status = fetch(host, map, &error);
    if (status == SPC_OK)
        spell_out(out, host, rows);
    free(host);
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}
