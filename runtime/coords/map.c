/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.c - kernel maps: creating and filling them.
 */
#include "coords/map.h"

#include "base/error.h"
#include "base/plural.h"
#include "coords/index/indexer.h"
#include "operators/geometry.h"
#include "operators/offset_store.h"
#include <stdlib.h>

/* ---- creating --------------------------------------------------------- */

/* Kernels index a table by offset * padded rows + row in an int, so the bound
 * includes the padding of the rows. */
spc_status spc__map_check_entries(int64_t rows, int offsets, spc_error *error)
{
    if (rows <= INT32_MAX / offsets - SPC_ROW_PAD)
        return SPC_OK;
    return spc__fail(
        error, SPC_EINVAL,
        "cannot build a kernel map of %lld rows and %d offsets: at "
        "most 2^31-1 entries are possible; split the scene by "
        "batch",
        (long long)rows, offsets);
}

/* Fails if the kernel looks past the guard bands of the set it searches. */
static spc_status check_guard(const spc_coords *in, const spc_geometry *g,
                              bool inverse, spc_error *error)
{
    spc__guard need;

    spc__guard_for(&need, g, inverse);
    for (int i = 1; i < 4; i++) {
        long long before = need.before[i], after = need.after[i];
        long long made_before = in->guard.before[i];
        long long made_after = in->guard.after[i];

        if (before > made_before || after > made_after)
            return spc__fail(error, SPC_ERANGE,
                             "the kernel reaches %lld voxels before and %lld "
                             "after along %c, but the set was made for %lld "
                             "and %lld: reserve it with halo=%lld",
                             before, after, "bxyz"[i], made_before, made_after,
                             before > after ? before : after);
    }
    return SPC_OK;
}

/* Checks that the rule can lead from one set to the other. */
static spc_status check_sets(const spc_coords *in, const spc_coords *to,
                             const spc_geometry *g, spc_error *error)
{
    if (in->ctx != to->ctx)
        return spc__fail(error, SPC_EINVAL,
                         "the two sets belong to two contexts");
    /* The build of a submanifold map sorts one set and uses it for both
     * sides. */
    if (g->rule != SPC_RULE_GIVEN && (g->rule == SPC_RULE_SUBM) != (in == to))
        return spc__fail(error, SPC_EINVAL,
                         in == to ? "inputs and outputs are one set: only the "
                                    "rules SUBM and GIVEN have such a map"
                                  : "by the rule SUBM inputs and outputs are "
                                    "one set, these are two");
    bool any = g->rule == SPC_RULE_SUBM || g->rule == SPC_RULE_GIVEN;
    for (int i = 1; i < 4 && !any; i++)
        if (in->key.last[i] > INT32_MAX / 2 || to->key.last[i] > INT32_MAX / 2)
            return spc__fail(error, SPC_ERANGE,
                             "the extent along %c is more than 2^30 voxels, "
                             "which only the rules SUBM and GIVEN can have",
                             "bxyz"[i]);
    return SPC_OK;
}

/* Sets the properties of the map. Its arrays are allocated later. */
static void describe(spc_map *map, spc_coords *in, spc_coords *to,
                     const spc_geometry *geometry, bool inverse)
{
    map->ctx = in->ctx;
    /* The map keeps both sets alive: the caller may free its handles first. */
    map->in = spc__coords_share(in);
    map->to = spc__coords_share(to);
    map->geometry = *geometry;
    map->inverse = inverse;
    map->offsets = spc_geometry_offset_count(geometry);
    map->mask_words = (map->offsets + 31) / 32;
    map->centre = inverse ? -1 : spc__geometry_centre(geometry);
}

/* Makes a map without content: an update fills it. */
spc_status spc__map_make(spc_map **out, spc_coords *in, spc_coords *to,
                         const spc_geometry *geometry, bool inverse,
                         spc_error *error)
{
    spc_map *map = NULL;
    spc_status status;

    *out = NULL;
    if ((status = spc_geometry_check(geometry, error)) != SPC_OK) {
        spc__fail_prefix(error, "cannot build a kernel map: ");
        return status;
    }
    if ((status = check_sets(in, to, geometry, error)) != SPC_OK ||
        (status = check_guard(in, geometry, inverse, error)) != SPC_OK ||
        (status = spc__map_check_entries(to->reserved,
                                         spc_geometry_offset_count(geometry),
                                         error)) != SPC_OK)
        return status;
    if (!(map = calloc(1, sizeof *map)))
        return spc__fail_memory(error, sizeof *map);
    describe(map, in, to, geometry, inverse);
    /* After describe(), spc_map_free() can release a map in any state. */
    status = spc__geometry_keep(&map->geometry, error);
    if (status == SPC_OK)
        status = spc__map_layout_alloc(&map->plain, map, error);
    if (status == SPC_OK)
        status = in->indexer->map_create(map, error);
    if (status == SPC_OK)
        *out = map;
    else
        spc_map_free(map);
    return status;
}

/* Makes a map for a public function and reports errors in its name. */
static spc_status create_public(const char *name, spc_map **out, spc_coords *in,
                                spc_coords *to, const spc_geometry *geometry,
                                bool inverse)
{
    spc_error error = {0};
    spc_status status =
        spc__need(in ? spc__error_of(in->ctx) : NULL, name, "out", out, "in",
                  in, "to", to, "geometry", geometry, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    status = geometry->rule == SPC_RULE_RADIUS
                 ? spc__fail(&error, SPC_EINVAL,
                             "a map of the rule RADIUS is between clouds of "
                             "points: use spc_map_create_radius")
                 : spc__map_make(out, in, to, geometry, inverse, &error);
    return status == SPC_OK ? status : spc__ctx_fail(in->ctx, &error);
}

spc_status spc_map_create(spc_map **out, spc_coords *in, spc_coords *to,
                          const spc_geometry *geometry)
{
    return create_public(__func__, out, in, to, geometry, false);
}

spc_status spc_map_create_inverse(spc_map **out, spc_coords *in, spc_coords *to,
                                  const spc_geometry *geometry)
{
    return create_public(__func__, out, in, to, geometry, true);
}

void spc__map_derive(spc_map *map, spc_map *inverse)
{
    /* Only the searches of these rules can write both directions. A map belongs
     * to at most one such pair. */
    spc_rule rule = map->geometry.rule;

    if ((rule != SPC_RULE_FLOOR && rule != SPC_RULE_FOOTPRINT) ||
        map->inverse || !inverse->inverse || map->derived ||
        inverse->derived_from || map->in != inverse->to ||
        map->to != inverse->in || !map->in->indexer->derives ||
        !spc__geometry_equal(&map->geometry, &inverse->geometry))
        return;
    map->derived = inverse;
    inverse->derived_from = map;
}

/* The other map remains usable without this one. */
static void unlink_derived(spc_map *map)
{
    if (map->derived)
        map->derived->derived_from = NULL;
    if (map->derived_from)
        map->derived_from->derived = NULL;
}

/* Invalidates the bindings of plans to this map. */
static void release_attachments(spc_map *map)
{
    for (int i = 0; i < SPC__ATTACHMENTS; i++)
        for (spc__attachment *next, *at = map->attached[i]; at; at = next) {
            next = at->next;
            at->release(at);
        }
}

void spc_map_free(spc_map *map)
{
    if (!map)
        return;
    /* Attachments point into layouts, so they go first. */
    release_attachments(map);
    unlink_derived(map);
    /* Its indexer, its memory and its context are reached through the sets, so
     * those go last. */
    map->in->indexer->map_destroy(map);
    for (spc__map_layout *next, *layout = map->sorted; layout; layout = next) {
        next = layout->next;
        spc__map_layout_release(map, layout);
        free(layout);
    }
    map->plain.order = NULL; /* owned by the set */
    spc__map_layout_release(map, &map->plain);
    spc_coords_free(map->in);
    spc_coords_free(map->to);
    free(map);
}

/* ---- filling ---------------------------------------------------------- */

bool spc__map_is_filled(const spc_map *map)
{
    /* A change of capacity moves the rows of every layout, since kernels read
     * them at a pitch of rows_padded. */
    return map->filled && map->in_rows == map->in->capacity &&
           map->to_rows == map->to->capacity;
}

void spc__map_set_filled(spc_map *map)
{
    map->filled = true;
    map->in_rows = map->in->capacity;
    map->to_rows = map->to->capacity;
}

spc_status spc__map_need_filled(const spc_map *map, spc_error *error)
{
    if (spc__map_is_filled(map))
        return SPC_OK;
    return spc__fail(error, SPC_ESTATE,
                     "the map was never filled%s: call spc_map_update first",
                     map->filled ? " with the new capacity of its sets" : "");
}

/* With a source, this also fills the set of a submanifold map. */
spc_status spc__map_build(spc_map *map, const spc__source *source,
                          bool index_only, void *stream, spc_error *error)
{
    /* The indexer fills the first sorted layout together with the map, which
     * saves a launch. */
    const spc__map_layout *first = index_only ? NULL : map->sorted;
    spc_status status = SPC_OK;

    map->checked = false;
    if (map->plain.pairs)
        map->plain.pairs->is_stale = map->plain.pairs->fits;
    /* With a source, the build fills the set itself. */
    if (source == NULL &&
        (status = spc__coords_need_filled(map->in, error)) == SPC_OK)
        status = spc__coords_need_filled(map->to, error);
    if (status == SPC_OK)
        status = map->in->indexer->map_build(map, source, first, stream, error);
    if (source != NULL)
        spc__coords_changed(map->to, status);
    if (status == SPC_OK && !index_only)
        status = spc__map_refill(map, true, stream, error);
    if (status == SPC_OK)
        spc__map_set_filled(map);
    return status;
}

/* Only a submanifold map takes coordinates: it has one set, which it fills
 * itself. */
static spc_status check_update(const spc_map *map, const int32_t *coords,
                               const int32_t *count, int64_t rows,
                               spc_error *error)
{
    if (!spc__map_is_subm(map) && (coords || count))
        return spc__fail(error, SPC_EINVAL,
                         "only a submanifold map fills its set: fill the sets "
                         "with spc_coords_update first");
    if (coords && count == NULL && (rows < 0 || rows > map->to->capacity))
        return spc__fail(error, SPC_ECAPACITY,
                         "cannot rebuild a map with %s: it was created for %d",
                         spc__count(rows, "row"), map->to->capacity);
    if (coords && spc__coords_is_derived(map->to))
        return spc__fail(error, SPC_EINVAL,
                         "a set of outputs is derived from its inputs: its "
                         "coordinates must be NULL");
    return SPC_OK;
}

spc_status spc_map_update(spc_map *map, const int32_t *coords,
                          const int32_t *count, int64_t rows, void *stream)
{
    spc__source source = {coords, count, (int)rows};
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "map", map, NULL);

    if (status != SPC_OK)
        return status;
    status = check_update(map, coords, count, rows, &error);
    /* A refused update leaves the map as it was, and its count of pairs remains
     * exact. */
    map->counted = map->counted && status != SPC_OK;
    if (status == SPC_OK)
        status =
            spc__map_build(map, coords ? &source : NULL, false, stream, &error);
    /* Set after a failure as well: the kernels before the failing one may still
     * run. */
    map->in_flight = true;
    map->to->in_flight |= coords != NULL;
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

bool spc__map_is_of_points(const spc_map *map)
{
    return map->in->indexer->triplets != NULL;
}

spc_coords *spc__map_scene_set(const spc_map *map)
{
    /* A derived set cannot be the scene. Only if neither is derived, as with
     * GIVEN, does the direction decide. */
    if (map->to->from == map->in)
        return map->in;
    if (map->in->from == map->to)
        return map->to;
    return map->inverse ? map->to : map->in;
}

static spc_coords *other_set(const spc_map *map)
{
    return spc__map_scene_set(map) == map->in ? map->to : map->in;
}

/* A generated set is rebuilt from its own generated rows. */
static spc_status rebuild_other(spc_coords *other, void *stream,
                                spc_error *error)
{
    /* A generated set has no rule to derive it by, but it owns its rows. */
    spc__source drawn = {other->data, NULL, other->capacity};

    return other->from ? spc__coords_derive_set(other, NULL, stream, error)
                       : spc__coords_build(other, &drawn, stream, error);
}

/* Rebuilds the sets of a map that is not submanifold. */
static spc_status rebuild_sets(const spc_map *map, const spc__source *source,
                               void *stream, spc_error *error)
{
    spc_coords *scene = spc__map_scene_set(map);
    spc_status status = spc__coords_build(scene, source, stream, error);

    return status == SPC_OK ? rebuild_other(other_set(map), stream, error)
                            : status;
}

spc_status spc__map_rebuild(spc_map *map, const int32_t *coords, int64_t rows,
                            bool index_only, void *stream)
{
    spc__source source = {coords, NULL, (int)rows};
    spc_coords *scene = spc__map_scene_set(map);
    bool subm = spc__map_is_subm(map);
    const spc__triplet_ops *triplets = map->in->indexer->triplets;
    spc_error error = {0};
    spc_status status = SPC_OK;

    if (rows < 0 || rows > scene->capacity)
        status =
            spc__fail(&error, SPC_ECAPACITY,
                      "cannot rebuild a map with %s: it was created for %d",
                      spc__count(rows, "row"), scene->capacity);
    else if (triplets != NULL)
        status = triplets->rebuild(map, coords, rows, stream, &error);
    else if (!subm)
        status = rebuild_sets(map, &source, stream, &error);
    if (status == SPC_OK && triplets == NULL)
        status = spc__map_build(map, subm ? &source : NULL, index_only, stream,
                                &error);
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

spc_status spc__map_verdict(spc_map *map, int64_t pairs, const int32_t *host,
                            spc_error *error)
{
    spc_coords *scene = spc__map_scene_set(map), *other = other_set(map);
    /* An error of the scene comes first: it is often the cause of one in the
     * derived set. */
    spc_status status = spc__coords_verdict(scene, host, error);

    if (status == SPC_OK && other != scene)
        status = spc__coords_verdict(other, NULL, error);
    if (status == SPC_OK)
        map->pairs = pairs;
    return status;
}

/* Reads back the results of an update: errors, and the number of pairs. */
spc_status spc__map_inspect(spc_map *map, const int32_t *host, void *stream,
                            spc_error *error)
{
    spc_coords *scene = spc__map_scene_set(map), *other = other_set(map);

    /* Clouds of points have no keys, so their own check replaces that of the
     * sets. */
    if (spc__map_is_of_points(map))
        return map->in->indexer->triplets->inspect(map, stream, error);
    spc_coords *sets[] = {scene, other};
    int64_t pairs;
    spc_status status = spc__inspect(sets, other != scene ? 2 : 1, &map, &pairs,
                                     1, NULL, stream, error);

    return status == SPC_OK ? spc__map_verdict(map, pairs, host, error)
                            : status;
}

spc_status spc_map_check(spc_map *map, void *stream)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "map", map, NULL);

    if (status != SPC_OK)
        return status;
    if ((status = spc__map_need_filled(map, &error)) == SPC_OK)
        status = spc__map_inspect(map, NULL, stream, &error);
    /* After these two errors nothing was waited for. Any other result,
     * including a report of bad rows, follows a synchronisation. */
    map->in_flight &= status == SPC_ESTATE || status == SPC_EDEVICE;
    map->checked = status == SPC_OK;
    return status == SPC_OK ? status : spc__ctx_fail(map->ctx, &error);
}

void spc_map_fit_lists(spc_map *map)
{
    /* Points have as many pairs as triplets, which are counted in any case. */
    if (map)
        map->fits_lists = !spc__map_is_of_points(map);
}
