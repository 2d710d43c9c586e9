/*
 * radius_turn.c - the triplets of a map of points by their inputs.
 *
 * Who lies within a radius is found from either side. Whom a point has among
 * its nearest is not: what goes back through such a layer has the layer's own
 * triplets, exchanged and sorted on the host, once for clouds that stay.
 */
#include "radius_work.h"

#include "error.h"
#include <stdlib.h>
#include <string.h>

static int by_input(const void *a, const void *b)
{
    const spc_triplet *x = a, *y = b;

    return x->in != y->in ? (x->in > y->in) - (x->in < y->in)
           : x->k != y->k ? (x->k > y->k) - (x->k < y->k)
                          : (x->out > y->out) - (x->out < y->out);
}

/* Outputs are in the order of their rows: order, the first triplet of each, and
 * the triplets as (input, offset), one behind the other. */
static void lay_out(int32_t *to, const spc_triplet *from, const spc_map *map,
                    int64_t count)
{
    int rows = (int)map->to->rows, padded = map->to->rows_padded;
    int32_t *first = to + padded, *list = first + padded + 1;
    int64_t at = 0;

    for (int p = 0; p < padded; p++) {
        to[p] = p < rows ? p : -1;
        first[p] = (int32_t)at;
        while (at < count && from[at].in == p)
            at++;
    }
    first[padded] = (int32_t)count;
    for (int64_t i = 0; i < count; i++) {
        list[2 * i] = from[i].out;
        list[2 * i + 1] = from[i].k;
    }
}

static spc_status put(spc_map *map, const int32_t *from, int64_t count,
                      spc_error *error)
{
    const spc__device_ops *ops = spc__device_ops_of(map->ctx->device);
    spc__device *device = map->ctx->device;
    size_t padded = (size_t)map->to->rows_padded;
    spc_triplets_view view;
    spc_status status;

    spc__radius_view(&view, map);
    if ((status = ops->copy_in(device, (void *)(uintptr_t)map->plain.order,
                               from, 4 * padded, NULL, error)) != SPC_OK ||
        (status = ops->copy_in(device, (void *)(uintptr_t)view.first,
                               from + padded, 4 * (padded + 1), NULL, error)) !=
            SPC_OK ||
        (count > 0 &&
         (status = ops->copy_in(device, (void *)(uintptr_t)view.list,
                                from + 2 * padded + 1, 8 * (size_t)count, NULL,
                                error)) != SPC_OK))
        return status;
    map->pairs = count;
    ((radius_work *)map->work)->is_put = true;
    return ops->sync(device, NULL, error);
}

static spc_status turn(spc_map *map, const spc_map *of, spc_error *error)
{
    size_t count = (size_t)of->pairs, padded = (size_t)map->to->rows_padded;
    spc_triplet *triplets = malloc(count * sizeof(*triplets) + 1);
    int32_t *arrays = malloc(4 * (2 * padded + 1 + 2 * count));
    spc_status status = SPC_OK;

    if (triplets == NULL || arrays == NULL)
        status = spc__fail_memory(error, count * sizeof(*triplets));
    else if ((status = spc_map_triplets(of, triplets)) != SPC_OK)
        *error = *spc__error_of(of->ctx);
    if (status == SPC_OK) {
        qsort(triplets, count, sizeof(*triplets), by_input);
        lay_out(arrays, triplets, map, of->pairs);
        status = put(map, arrays, of->pairs, error);
    }
    free(triplets);
    free(arrays);
    return status;
}

spc_status spc__radius_turn(spc_map **out, const spc_map *of, spc_error *error)
{
    spc_geometry all = of->geometry;
    spc_status status;

    all.nearest = 0;
    status =
        spc__radius_create(out, spc__points_of(of->to), spc__points_of(of->in),
                           &all, of->pairs, true, error);
    return status == SPC_OK ? turn(*out, of, error) : status;
}
