/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map_scene.c - everything for one layer on one scene: its sets, the outputs
 * that it derives or draws, and the map, filled and checked.
 */
#include "coords/map.h"

#include "base/error.h"
#include "coords/given.h"
#include "coords/index/indexer.h"
#include "coords/points/points.h"
#include "operators/conv.h"
#include <stdlib.h>

/* Makes a set of these rows with the guard bands that the layer's map needs. */
static spc_status layer_set(spc_coords **out, spc_ctx *ctx,
                            const spc_conv *conv, const int32_t *host,
                            int64_t rows, spc_error *error)
{
    spc__guard guard;

    spc__guard_for(&guard, &conv->geometry, false);
    return spc__coords_create_exact(out, ctx, host, rows, &guard, error);
}

/* Makes the set of outputs of a filled set; waits for their number. */
static spc_status outputs_set(spc_coords **out, spc_coords *in,
                              const spc_geometry *geometry, spc_error *error)
{
    spc_status status = spc_coords_create_outputs(out, in, geometry);

    if (status != SPC_OK)
        *error = *spc__error_of(in->ctx);
    return status;
}

/* Makes the given set from these rows. */
static spc_status given_set(spc_coords **out, spc_ctx *ctx,
                            const spc_geometry *geometry, const int32_t *given,
                            int64_t rows, spc_error *error)
{
    spc__guard guard;

    /* The inverse map searches this set. */
    spc__guard_for(&guard, geometry, true);
    spc_status status =
        spc__coords_create_exact(out, ctx, given, rows, &guard, error);
    if (status == SPC_OK)
        status = spc__coords_adopt(*out, given, error);
    if (status == SPC_OK)
        status =
            spc__coords_build_checked(*out, (*out)->data, given, NULL, error);
    return status;
}

/* Generates the given set for a scene. */
static spc_status drawn_set(spc_coords **out, const spc_coords *scene,
                            const spc_geometry *geometry, const int32_t *host,
                            spc_error *error)
{
    int32_t *drawn = NULL;
    int64_t rows;
    spc_status status =
        spc__given_draw(&drawn, &rows, geometry, host, scene->capacity, error);

    if (status == SPC_OK)
        status = given_set(out, scene->ctx, geometry, drawn, rows, error);
    free(drawn);
    return status;
}

/* Makes the layer's second set, if it has one. */
static spc_status make_other(spc_coords **out, spc_coords *scene,
                             const spc_geometry *geometry,
                             const spc__source *source, const int32_t *host,
                             const spc_scene *given, spc_error *error)
{
    spc_status status;

    if (geometry->rule == SPC_RULE_SUBM) {
        *out = spc__coords_share(scene);
        return SPC_OK;
    }
    /* The other set is derived from this one, so it must be filled and checked
     * first. A submanifold map fills it later, in its own launch. */
    status =
        spc__coords_build_checked(scene, source->coords, host, NULL, error);
    if (status != SPC_OK)
        return status;
    if (geometry->rule != SPC_RULE_GIVEN)
        return outputs_set(out, scene, geometry, error);
    return given == NULL
               ? drawn_set(out, scene, geometry, host, error)
               : given_set(out, scene->ctx, geometry, spc_scene_coords(given),
                           spc_scene_rows(given), error);
}

/* Makes the map of a layer whose scene has the set `scene`. It is built from
 * `coords` (device); `host` holds the same rows. For `given` see
 * spc__map_create_between. */
static spc_status map_layer(spc_map **out, spc_coords *scene,
                            const spc_conv *conv, const int32_t *coords,
                            const int32_t *host, const spc_scene *given,
                            void *stream, spc_error *error)
{
    const spc_geometry *g = &conv->geometry;
    spc__source source = {coords, NULL, scene->capacity};
    bool ends = spc__conv_ends_at_scene(conv), subm = g->rule == SPC_RULE_SUBM;
    spc_coords *other = NULL;
    spc_map *map = NULL;

    /* Indexers read nothing if there are no rows, but need a pointer. */
    if (scene->capacity == 0)
        source.coords = scene->keys;
    spc_status status =
        make_other(&other, scene, g, &source, host, given, error);
    if (status == SPC_OK)
        status = spc__map_make(&map, ends ? other : scene, ends ? scene : other,
                               g, spc__conv_is_inverse(conv), error);
    /* The map now holds a separate reference. */
    spc_coords_free(other);
    if (status == SPC_OK)
        status =
            spc__map_build(map, subm ? &source : NULL, true, stream, error);
    if (status == SPC_OK)
        status = spc__map_inspect(map, host, stream, error);
    if (status == SPC_OK) {
        /* The coordinates were just inspected, so the number of pairs is exact
         * until the map is filled again. */
        map->counted = true;
        *out = map;
        map = NULL;
    }
    spc_map_free(map);
    return status;
}

/* Checks the arguments of the functions that make sets and map at once. */
static spc_status check_layer(const spc_conv *conv, const int32_t *coords,
                              int64_t rows, spc_error *error)
{
    spc_status status = spc_geometry_check(&conv->geometry, error);

    if (status != SPC_OK) {
        spc__fail_prefix(error, "cannot build a kernel map: ");
        return status;
    }
    if (rows < 0 || (rows > 0 && !coords))
        return spc__fail(
            error, SPC_EINVAL, "cannot build a kernel map of %lld rows%s",
            (long long)rows, rows < 0 ? "" : " without coordinates");
    return spc__map_check_entries(
        rows, spc_geometry_offset_count(&conv->geometry), error);
}

spc_status spc_map_create_from_scene(spc_map **out, spc_ctx *ctx,
                                     const spc_conv *conv,
                                     const spc_scene *scene)
{
    return spc__map_create_between(out, ctx, conv, scene, NULL);
}

spc_status spc__map_create_between(spc_map **out, spc_ctx *ctx,
                                   const spc_conv *conv, const spc_scene *scene,
                                   const spc_scene *given)
{
    const int32_t *host = spc_scene_coords(scene);
    int64_t rows = spc_scene_rows(scene);
    spc_coords *set = NULL;
    spc_error error = {0};
    spc_status status =
        spc__need(spc__error_of(ctx), "spc_map_create_from_scene", "out", out,
                  "ctx", ctx, "conv", conv, "scene", scene, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    if ((status = check_layer(conv, host, rows, &error)) == SPC_OK &&
        spc__conv_has_triplets(conv))
        status = spc__radius_from_units(out, ctx, conv, host, rows, &error);
    else if (status == SPC_OK &&
             (status = layer_set(&set, ctx, conv, host, rows, &error)) ==
                 SPC_OK &&
             (status = spc__coords_adopt(set, host, &error)) == SPC_OK)
        status =
            map_layer(out, set, conv, set->data, host, given, NULL, &error);
    spc_coords_free(set);
    return status == SPC_OK ? status : spc__ctx_fail(ctx, &error);
}

spc_status spc_map_create_from_rows(spc_map **out, spc_ctx *ctx,
                                    const spc_conv *conv, const int32_t *coords,
                                    int64_t rows, void *stream)
{
    spc_coords *set = NULL;
    int32_t *host = NULL;
    spc_error error = {0};
    spc_status status = spc__need(spc__error_of(ctx), __func__, "out", out,
                                  "ctx", ctx, "conv", conv, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    if ((status = check_layer(conv, coords, rows, &error)) == SPC_OK &&
        (status = spc__coords_fetch(&host, ctx, coords, rows, stream,
                                    &error)) == SPC_OK) {
        if (spc__conv_has_triplets(conv))
            status = spc__radius_from_units(out, ctx, conv, host, rows, &error);
        else if ((status = layer_set(&set, ctx, conv, host, rows, &error)) ==
                 SPC_OK)
            status =
                map_layer(out, set, conv, coords, host, NULL, stream, &error);
    }
    spc_coords_free(set);
    free(host);
    return status == SPC_OK ? status : spc__ctx_fail(ctx, &error);
}
