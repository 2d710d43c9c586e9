/* SPDX-License-Identifier: Apache-2.0 */
/*
 * radius_lists.c - the triplets of a map of points in other orders: by offset,
 * as pairs, by bundles of outputs, and by inputs.
 */
#include "coords/points/radius_work.h"

#include "base/error.h"

/* ---- by offset ----------------------------------------------------------- */

spc_status spc__radius_list_create(spc_map *map, spc_error *error)
{
    radius_work *w = map->work;

    return w->counts
               ? SPC_OK
               : spc__coords_alloc(&w->counts, map->to,
                                   4 * (size_t)map->offsets * SPC_POINTS_WARPS *
                                       (size_t)w->blocks,
                                   error);
}

spc_status spc__radius_list(const spc_map *map, const spc__map_pairs *pairs,
                            void *stream, spc_error *error)
{
    const radius_work *w = map->work;
    size_t shared = SPC_POINTS_SHARED((size_t)map->offsets);
    spc_by_offset_args args = {
        .order = w->order,
        .first = w->first,
        .list = w->list,
        .rows_padded = map->to->rows_padded,
        .offsets = map->offsets,
        .warps = w->blocks * SPC_POINTS_WARPS,
        .counts = w->counts,
        .in = pairs->in,
        .out = pairs->out,
        .place = pairs->place,
        .first_of_row = pairs->first,
        .begin = pairs->begin,
    };
    spc_status status =
        spc__points_run(&w->code, SPC__OFFSETS_COUNT, &args, sizeof args,
                        w->blocks, shared, stream, error);

    /* One block sums the counts, as there are only offsets times warps of
     * them. */
    if (status == SPC_OK)
        status = spc__points_run(&w->code, SPC__OFFSETS_SUM, &args, sizeof args,
                                 1, shared, stream, error);
    return status == SPC_OK
               ? spc__points_run(&w->code, SPC__OFFSETS_WRITE, &args,
                                 sizeof args, w->blocks, shared, stream, error)
               : status;
}

/* ---- by bundles ---------------------------------------------------------- */

/* Allocates the list, the tiles by cost, and the cost of each bundle. */
spc_status spc__radius_bundles_reserve(const spc_map *map, spc_error *error)
{
    radius_work *w = map->work;
    size_t rows = (size_t)map->to->rows_padded;
    /* The arrays share one allocation in this order (bundle_args). */
    size_t words =
        2 * (size_t)w->capacity + rows / SPC_BUNDLE_TILE + rows / SPC_BUNDLE;

    spc__coords_dealloc(map->to, w->bundles);
    w->bundles = NULL;
    return spc__coords_alloc(&w->bundles, map->to, 4 * words, error);
}

/* Describes the bundles to the kernel. They are parts of one allocation. */
static spc_bundle_args bundle_args(const spc_map *map)
{
    const radius_work *w = map->work;
    int rows = map->to->rows_padded;
    int *tiles = w->bundles + 2 * w->capacity;

    return (spc_bundle_args){
        .first = w->first,
        .list = w->list,
        .rows_padded = rows,
        .offsets = map->offsets,
        .warps = w->blocks * SPC_POINTS_WARPS,
        .to = w->bundles,
        .order = w->order,
        .tiles = tiles,
        .costs = tiles + rows / SPC_BUNDLE_TILE,
    };
}

spc_status spc__radius_bundle(const spc_map *map, void *stream,
                              spc_error *error)
{
    const radius_work *w = map->work;
    spc_bundle_args args;
    spc_status status;

    /* Never prepared, so no plan reads them. */
    if (!w->bundles)
        return SPC_OK;
    args = bundle_args(map);
    status = spc__points_run(&w->code, SPC__POINTS_BUNDLE, &args, sizeof args,
                             w->blocks, SPC_POINTS_SHARED((size_t)map->offsets),
                             stream, error);
    return status == SPC_OK ? spc__points_run(&w->code, SPC__BUNDLE_TILES,
                                              &args, sizeof args, 1,
                                              SPC_BUNDLE_SHARED, stream, error)
                            : status;
}

/* Makes the bundles, when something first needs them. */
static spc_status make_bundles(spc_map *map, void *stream, spc_error *error)
{
    radius_work *w = map->work;
    spc_status status = spc__radius_bundles_reserve(map, error);

    if (status == SPC_OK)
        status = spc__radius_bundle(map, stream, error);
    if (status != SPC_OK) { /* an existing list would count as filled */
        spc__coords_dealloc(map->to, w->bundles);
        w->bundles = NULL;
    }
    return status;
}

spc_status spc__map_prepare_bundles(spc_map *map, void *stream)
{
    const radius_work *w = map->work;
    spc_error error = {0};
    spc_status status = SPC_OK;

    if (map->geometry.rule != SPC_RULE_RADIUS)
        status = spc__fail(&error, SPC_EUNSUPPORTED,
                           "only maps of points have triplets by bundles");
    else if (!w->bundles)
        status = make_bundles(map, stream, &error);
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

spc_status spc__map_rebundle(const spc_map *map, void *stream)
{
    spc_error error = {0};
    spc_status status = spc__radius_bundle(map, stream, &error);

    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

bool spc__map_bundles_view(spc_triplets_view *out, const spc_map *map)
{
    const radius_work *w = map->work;

    /* `first` is the same in both forms: a bundle keeps its triplets
     * together. */
    if (!spc__map_triplets_view(out, map) || !w->bundles)
        return false;
    out->list = w->bundles;
    return true;
}

/* ---- by inputs ----------------------------------------------------------- */

/* The map with the clouds exchanged has, by output, this map's triplets by
 * input, as the backward pass needs them. It gets the same room as this map. */
spc_status spc__radius_inputs_reserve(const spc_map *map, spc_error *error)
{
    const radius_work *w = map->work;

    return w->reversed ? spc__radius_reserve(w->reversed, w->capacity, error)
                       : SPC_OK;
}

spc_status spc__radius_inputs(const spc_map *map, void *stream,
                              spc_error *error)
{
    const radius_work *w = map->work;

    return w->reversed ? spc__radius_fill(w->reversed, stream, error) : SPC_OK;
}

/* Makes the map in the other direction, when something first needs it. */
static spc_status make_reversed(spc_map *map, void *stream, spc_error *error)
{
    radius_work *w = map->work;
    spc_map *reversed;
    spc_status status;

    status = spc__radius_create(&reversed, spc__points_of(map->to),
                                spc__points_of(map->in), &map->geometry,
                                w->capacity, !map->inverse, error);
    if (status == SPC_OK)
        status = spc__radius_fill(reversed, stream, error);
    if (status == SPC_OK) /* an existing map counts as filled */
        w->reversed = reversed;
    else
        spc_map_free(reversed);
    return status;
}

spc_status spc__map_prepare_inputs(spc_map *map, void *stream)
{
    const radius_work *w = map->work;
    spc_error error = {0};
    spc_status status = SPC_OK;

    if (map->geometry.rule != SPC_RULE_RADIUS)
        status = spc__fail(&error, SPC_EUNSUPPORTED,
                           "only maps of points have triplets by inputs");
    else if (!w->reversed)
        status = make_reversed(map, stream, &error);
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

spc_status spc__map_reinput(const spc_map *map, void *stream)
{
    spc_error error = {0};
    spc_status status = spc__radius_inputs(map, stream, &error);

    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

bool spc__map_inputs_view(spc_triplets_view *out, spc_pairs_view *inputs,
                          const spc_map *map)
{
    const radius_work *w = map->work;

    if (map->geometry.rule != SPC_RULE_RADIUS || !w->reversed)
        return false;
    spc__radius_view(out, w->reversed);
    *inputs = (spc_pairs_view){
        .in = ((const radius_work *)w->reversed->work)->order,
        .offsets = map->offsets,
        .capacity = map->in->rows_padded,
    };
    return true;
}
