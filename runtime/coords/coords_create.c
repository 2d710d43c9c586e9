/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coords_create.c - creates coordinate sets.
 *
 * A set owns its memory. An indexer fills it: templates on cuda and sim
 * (index_device.c), threaded C on the cpu device (index_host.c).
 */
#include "coords/coords.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/sized.h"
#include "coords/index/indexer.h"
#include "coords/regroup/regroup.h"
#include "operators/offset_store.h"
#include <stdlib.h>
#include <string.h>

extern const spc__indexer spc__indexer_device; /* index_device.c */
extern const spc__indexer spc__indexer_host;   /* index_host.c */

static const spc__indexer *const indexers[] = {
    &spc__indexer_device,
    &spc__indexer_host,
};

/* Default guard of a reserved set: how far maps may look past its extent. */
enum { HALO = 8 };

const char *const spc__field_names[4] = {"batch", "x", "y", "z"};

const spc__indexer *spc__indexer_for(const spc_ctx *ctx)
{
    for (size_t i = 0; i < sizeof indexers / sizeof *indexers; i++)
        if (indexers[i]->serves(ctx))
            return indexers[i];
    return NULL;
}

/* ---- memory ----------------------------------------------------------- */

static const spc__device_ops *ops_of(const spc_coords *coords)
{
    return spc__device_ops_of(coords->ctx->device);
}

spc_status spc__coords_alloc(void *out, const spc_coords *coords, size_t bytes,
                             spc_error *error)
{
    size_t zone = coords->zone_bytes;
    char *memory = NULL;
    /* cuMemAlloc() refuses 0 bytes, so an empty array gets one. */
    spc_status status =
        ops_of(coords)->alloc(coords->ctx->device, (void **)&memory,
                              (bytes ? bytes : 1) + 2 * zone, error);

    if (status == SPC_OK && zone > 0) {
        /* The gate detects writes outside an array by checking that the guard
         * zones still hold this pattern. */
        status =
            ops_of(coords)->fill(coords->ctx->device, memory, SPC__COORDS_ZONE,
                                 bytes + 2 * zone, NULL, error);
        memory += zone;
    }
    /* `out` is the address of a pointer of any type. Writing it through a char
     * ** would break the rules of aliasing. */
    memcpy(out, &memory, sizeof memory);
    return status;
}

void spc__coords_dealloc(const spc_coords *coords, void *memory)
{
    if (memory)
        ops_of(coords)->dealloc(coords->ctx->device,
                                (char *)memory - coords->zone_bytes);
}

spc_status spc__coords_land(const spc_ctx *ctx, bool in_flight,
                            spc_error *error)
{
    const spc__device_ops *ops = spc__device_ops_of(ctx->device);

    return in_flight && ops->drain ? ops->drain(ctx->device, error) : SPC_OK;
}

/* Allocates the set's arrays for its full capacity, so that no later update
 * allocates. */
static spc_status alloc_arrays(spc_coords *c, spc_error *error)
{
    size_t rows = (size_t)c->capacity, padded = (size_t)c->rows_padded;
    bool adds = c->duplicates >= SPC_DUPLICATES_SUM;
    spc_status status;

    /* 8 bytes per key even if keys are u32, as an indexer may work with u64. */
    if ((status = spc__coords_alloc(&c->keys, c, 8 * (padded + SPC__KEY_SLACK),
                                    error)) != SPC_OK ||
        (status = spc__coords_alloc(&c->order, c, 4 * padded, error)) !=
            SPC_OK ||
        (status = spc__coords_alloc(&c->stats, c, sizeof c->seen, error)) !=
            SPC_OK ||
        /* Until the first fill, maps and plans see an empty set and no
         * garbage. */
        (status = ops_of(c)->fill(c->ctx->device, c->stats, 0, sizeof c->seen,
                                  NULL, error)) != SPC_OK)
        return status;
    c->count = c->stats + SPC_INDEX_STATS;
    if (spc__coords_is_derived(c) &&
        (status = spc__coords_alloc(&c->data, c, 16 * rows, error)) != SPC_OK)
        return status;
    if (adds && ((status = spc__coords_alloc(&c->twins, c, 4 * rows, error)) !=
                     SPC_OK ||
                 (status = spc__coords_alloc(&c->twin_begin, c, 4 * rows + 4,
                                             error)) != SPC_OK))
        return status;
    /* The first fill may run on another stream than the clearing. */
    return ops_of(c)->sync(c->ctx->device, NULL, error);
}

const spc_ctx *spc_coords_ctx(const spc_coords *coords)
{
    return coords != NULL ? coords->ctx : NULL;
}

void spc_coords_free(spc_coords *c)
{
    if (!c || --c->users > 0)
        return;
    /* The indexer needs the set's arrays and the arrays need the context, so
     * they are released in this order. */
    spc__regroup_release(c);
    c->indexer->set_destroy(c);
    spc__coords_dealloc(c, c->keys);
    spc__coords_dealloc(c, c->order);
    spc__coords_dealloc(c, c->stats);
    spc__coords_dealloc(c, c->data);
    spc__coords_dealloc(c, c->twins);
    spc__coords_dealloc(c, c->twin_begin);
    spc_coords_free(c->from);
    spc__ctx_leave(c->ctx);
    free(c);
}

spc_coords *spc__coords_share(spc_coords *coords)
{
    coords->users++;
    return coords;
}

/* ---- guards ----------------------------------------------------------- */

void spc__guard_for(spc__guard *out, const spc_geometry *geometry, bool inverse)
{
    int64_t before[3], after[3];

    spc__geometry_halo(before, after, geometry, inverse);
    /* Kernels never look into another batch element. */
    out->before[0] = out->after[0] = 0;
    for (int axis = 0; axis < 3; axis++) {
        out->before[1 + axis] = before[axis];
        out->after[1 + axis] = after[axis];
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void spc__guard_widen(spc__guard *guard, const spc__guard *by)
{
    for (int i = 0; i < 4; i++) {
        guard->before[i] = larger(guard->before[i], by->before[i]);
        guard->after[i] = larger(guard->after[i], by->after[i]);
    }
}

/* ---- creating --------------------------------------------------------- */

/* The bounds of a set before it is made. */
typedef struct plan {
    int64_t capacity;
    int32_t low[4], high[4];
    spc__guard guard;
    spc_duplicates duplicates;
    spc_coords *from;
    const spc_geometry *rule;
    spc__regroup *regroup;
    bool by_itself;
} plan;

/* Checks capacity, policy and extent. */
static spc_status check_plan(const plan *p, spc_error *error)
{
    if (p->capacity < 0 || p->capacity > INT32_MAX - SPC_ROW_PAD)
        return spc__fail(error, SPC_EINVAL,
                         "a coordinate set of %lld rows: expected 0 to %d",
                         (long long)p->capacity, INT32_MAX - SPC_ROW_PAD);
    if ((unsigned)p->duplicates > SPC_DUPLICATES_MEAN)
        return spc__fail(error, SPC_EINVAL,
                         "unknown policy %d for duplicates: expected "
                         "SPC_DUPLICATES_ERROR, _FIRST, _SUM or _MEAN",
                         (int)p->duplicates);
    if (p->low[0] < 0)
        return spc__fail(error, SPC_ERANGE,
                         "batches count from 0, the extent begins at %d",
                         (int)p->low[0]);
    for (int i = 0; i < 4; i++)
        if (p->low[i] > p->high[i])
            return spc__fail(error, SPC_EINVAL,
                             "the extent of %s runs from %d to %d: the larger "
                             "end comes last",
                             spc__field_names[i], (int)p->low[i],
                             (int)p->high[i]);
    return SPC_OK;
}

/* Makes an empty set by a plan that the callers below filled in. */
static spc_status make(spc_coords **out, spc_ctx *ctx, const plan *p,
                       spc_error *error)
{
    spc_coords *c;
    spc_status status = check_plan(p, error);

    *out = NULL;
    if (status != SPC_OK)
        return status;
    if (!(c = calloc(1, sizeof *c)))
        return spc__fail_memory(error, sizeof *c);
    /* From here on, spc_coords_free() releases all allocated parts. */
    c->ctx = spc__ctx_share(ctx);
    c->users = 1;
    c->zone_bytes = ctx->zone_bytes;
    c->indexer = spc__indexer_for(ctx);
    c->guard = p->guard;
    c->duplicates = p->duplicates;
    c->by_itself = p->by_itself;
    c->capacity = c->reserved = (int)p->capacity;
    c->rows_padded = c->reserved_padded = spc__coords_padded(c->capacity);
    c->regroup = p->regroup;
    if (p->from) {
        c->from = spc__coords_share(p->from);
        c->rule = *p->rule;
    }
    /* The root needs the rule and the inputs, which are set now. It is found
     * once, since it does not depend on rows. */
    if (p->from)
        spc__coords_find_root(&c->by, c);
    status = spc__geometry_keep(&c->rule, error);
    if (status == SPC_OK)
        status =
            spc__key_layout_choose(&c->key, p->low, p->high, &p->guard, error);
    if (status == SPC_OK)
        status = alloc_arrays(c, error);
    if (status == SPC_OK)
        status = c->indexer->set_create(c, error);
    if (status == SPC_OK) {
        *out = c;
        return SPC_OK;
    }
    c->regroup = NULL; /* still owned by the caller */
    spc_coords_free(c);
    return status;
}

spc_status spc__coords_create_regrouped(spc_coords **out, spc_ctx *ctx,
                                        spc__regroup *regroup,
                                        const spc__regrouped_bounds *bounds,
                                        spc_error *error)
{
    plan p = {
        .capacity = bounds->capacity,
        .guard = bounds->guard,
        /* The policy makes the indexer record which rows are equal. */
        .duplicates =
            bounds->merges ? SPC_DUPLICATES_SUM : SPC_DUPLICATES_ERROR,
        .regroup = regroup,
        .by_itself = true,
    };

    memcpy(p.low, bounds->low, sizeof p.low);
    memcpy(p.high, bounds->high, sizeof p.high);
    return make(out, ctx, &p, error);
}

static void guard_all(spc__guard *guard, int halo)
{
    guard->before[0] = guard->after[0] = 0;
    for (int i = 1; i < 4; i++)
        guard->before[i] = guard->after[i] = halo;
}

spc_status spc__coords_reserve(spc_coords **out, spc_ctx *ctx,
                               const spc_coords_options *options,
                               spc_error *error)
{
    plan p = {0};

    *out = NULL;
    if (options->halo < 0 || options->halo > SPC__GEOMETRY_MOST)
        return spc__fail(error, SPC_EINVAL,
                         "a halo of %d voxels: expected 0 to %d", options->halo,
                         SPC__GEOMETRY_MOST);
    p.by_itself = true;
    p.capacity = options->capacity;
    memcpy(p.low, options->low, sizeof p.low);
    memcpy(p.high, options->high, sizeof p.high);
    p.duplicates = options->duplicates;
    guard_all(&p.guard, options->halo ? options->halo : HALO);
    return make(out, ctx, &p, error);
}

/* The extent in SPC_COORDS_OPTIONS_INIT is one voxel. A caller who forgets to
 * set it would get a set that refuses nearly every row. */
static spc_status check_extent_is_set(const spc_coords_options *o,
                                      spc_error *error)
{
    for (int i = 1; i < 4; i++)
        if (o->low[i] != 0 || o->high[i] != 0)
            return SPC_OK;
    if (o->capacity <= (int64_t)o->high[0] - o->low[0] + 1)
        return SPC_OK;
    return spc__fail(
        error, SPC_EINVAL,
        "%lld rows in an extent that is the voxel (0, 0, 0) alone: "
        "`low` and `high` must be set to the least and greatest "
        "coordinates",
        (long long)o->capacity);
}

spc_status spc_coords_create_reserved(spc_coords **out, spc_ctx *ctx,
                                      const spc_coords_options *options)
{
    spc_error error = {0};
    spc_status status = spc__need(spc__error_of(ctx), __func__, "out", out,
                                  "ctx", ctx, "options", options, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    if ((status = SPC__TAKE(spc_coords_options, options, &error)) == SPC_OK &&
        (status = check_extent_is_set(options, &error)) == SPC_OK)
        status = spc__coords_reserve(out, ctx, options, &error);
    return status == SPC_OK ? status : spc__ctx_fail(ctx, &error);
}

/* Names the first row with a negative batch. This message is clearer than one
 * about the extent. */
static spc_status check_batches(int32_t lowest, const int32_t *coords,
                                int64_t rows, spc_error *error)
{
    /* `lowest` comes from the extent. The search for the row runs only to name
     * it. */
    for (int64_t row = 0; lowest < 0 && row < rows; row++)
        if (coords[4 * row] < 0)
            return spc__fail(error, SPC_ERANGE,
                             "the batch of row %lld is %d; batches count from "
                             "0",
                             (long long)row, (int)coords[4 * row]);
    return SPC_OK;
}

spc_status spc__coords_fit(const spc_geometry *geometry, const int32_t *host,
                           int64_t rows, spc_error *error)
{
    spc__guard guard;
    spc_index_key key;
    int32_t low[4], high[4];

    spc__guard_for(&guard, geometry, false);
    spc__coords_extent(low, high, host, rows);
    return spc__key_layout_choose(&key, low, high, &guard, error);
}

spc_status spc__coords_create_exact(spc_coords **out, spc_ctx *ctx,
                                    const int32_t *host, int64_t rows,
                                    const spc__guard *guard, spc_error *error)
{
    plan p = {.capacity = rows, .guard = *guard};
    spc_status status;

    *out = NULL;
    spc__coords_extent(p.low, p.high, host, rows);
    if ((status = check_batches(p.low[0], host, rows, error)) != SPC_OK)
        return status;
    return make(out, ctx, &p, error);
}

spc_status spc__coords_fetch(int32_t **out, spc_ctx *ctx, const int32_t *coords,
                             int64_t rows, void *stream, spc_error *error)
{
    const spc__device_ops *ops = spc__device_ops_of(ctx->device);
    size_t bytes = 16 * (size_t)rows;
    spc_status status;

    *out = malloc(bytes ? bytes : 1);
    /* malloc(0) may return NULL, which is not an error here. */
    if (!*out)
        return spc__fail_memory(error, bytes);
    status = ops->copy_out(ctx->device, *out, coords, bytes, stream, error);
    return status == SPC_OK ? ops->sync(ctx->device, stream, error) : status;
}

static spc_status check_rows(const int32_t *coords, int64_t rows,
                             spc_error *error)
{
    bool is_count = rows >= 0 && rows <= INT32_MAX - SPC_ROW_PAD;

    if (is_count && (rows == 0 || coords))
        return SPC_OK;
    return spc__fail(
        error, SPC_EINVAL, "cannot build a coordinate set of %lld rows%s",
        (long long)rows,
        is_count ? " without coordinates" : ": expected a count of 32 bits");
}

spc_status spc_coords_create(spc_coords **out, spc_ctx *ctx,
                             const int32_t *coords, int64_t rows, void *stream)
{
    spc_error error = {0};
    spc__guard guard;
    int32_t *host = NULL;
    spc_coords *c = NULL;
    spc_status status =
        spc__need(spc__error_of(ctx), __func__, "out", out, "ctx", ctx, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    /* The maps of this set are not known yet, so it gets the default guard. */
    guard_all(&guard, HALO);
    if ((status = check_rows(coords, rows, &error)) == SPC_OK &&
        (status = spc__coords_fetch(&host, ctx, coords, rows, stream,
                                    &error)) == SPC_OK &&
        (status = spc__coords_create_exact(&c, ctx, host, rows, &guard,
                                           &error)) == SPC_OK)
        status = spc__coords_build_checked(c, coords, host, stream, &error);
    if (status == SPC_OK) {
        *out = c;
        c = NULL;
    }
    spc_coords_free(c);
    free(host);
    return status == SPC_OK ? status : spc__ctx_fail(ctx, &error);
}

spc_status spc__coords_adopt(spc_coords *c, const int32_t *host,
                             spc_error *error)
{
    size_t bytes = 16 * (size_t)c->capacity;
    spc_status status = spc__coords_alloc(&c->data, c, bytes, error);

    if (status == SPC_OK)
        status = ops_of(c)->copy_in(c->ctx->device, c->data, host, bytes, NULL,
                                    error);
    return status;
}

spc_status spc_coords_create_from_scene(spc_coords **out, spc_ctx *ctx,
                                        const spc_scene *scene)
{
    const int32_t *host = spc_scene_coords(scene);
    spc_error error = {0};
    spc__guard guard;
    spc_coords *c = NULL;
    spc_status status = spc__need(spc__error_of(ctx), __func__, "out", out,
                                  "ctx", ctx, "scene", scene, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    guard_all(&guard, HALO);
    if ((status = spc__coords_create_exact(&c, ctx, host, spc_scene_rows(scene),
                                           &guard, &error)) == SPC_OK &&
        (status = spc__coords_adopt(c, host, &error)) == SPC_OK)
        status = spc__coords_build_checked(c, c->data, host, NULL, &error);
    if (status == SPC_OK) {
        *out = c;
        c = NULL;
    }
    spc_coords_free(c);
    return status == SPC_OK ? status : spc__ctx_fail(ctx, &error);
}

/* ---- outputs ---------------------------------------------------------- */

/* Computes the extent of the outputs of inputs within low..high along an axis.
 * *any becomes false if it has no outputs. For a generative layer it includes
 * outputs outside the layer's shape, since the map of its gradient searches
 * them. */
static spc_status outputs_extent(int32_t *low, int32_t *high, bool *any,
                                 const spc_geometry *g, int axis,
                                 spc_error *error)
{
    int64_t s = g->stride[axis], least[3], most[3];
    int64_t bound = spc__geometry_out_shape(g, axis);
    int64_t first = spc__floor_div(*low, s), last = spc__floor_div(*high, s);

    /* 64 bits: a coordinate times a stride can exceed an int before the check
     * below. */
    spc__geometry_span(least, most, g);
    if (g->rule == SPC_RULE_GENERATIVE) {
        first = *low * s + least[axis];
        last = *high * s + most[axis];
    }
    if (g->rule == SPC_RULE_EXPAND) {
        first += least[axis];
        last += most[axis];
    }
    if (g->rule == SPC_RULE_FOOTPRINT) {
        /* The first output is rounded up, the last one down: an output counts
         * only if its window contains the input. */
        first = spc__floor_div(*low - most[axis] + s - 1, s);
        last = spc__floor_div(*high - least[axis], s);
        if (bound > 0 && first < 0)
            first = 0;
        if (bound > 0 && last >= bound)
            last = bound - 1;
    }
    if (first < INT32_MIN || last > INT32_MAX)
        return spc__fail(error, SPC_ERANGE,
                         "inputs at %d to %d along %s have outputs at %lld to "
                         "%lld, which do not fit 32 bits",
                         (int)*low, (int)*high, spc__field_names[1 + axis],
                         (long long)first, (long long)last);
    *low = (int32_t)first;
    *high = (int32_t)last;
    *any &= first <= last;
    return SPC_OK;
}

/* Number of positions low..high along an axis that lie within the shape. Axis
 * -1 is the batch. */
static int64_t positions_along(const spc_geometry *g, int axis, int64_t low,
                               int64_t high)
{
    int64_t bound = axis >= 0 ? spc__geometry_out_shape(g, axis) : 0;

    if (bound > 0) {
        low = low > 0 ? low : 0;
        high = high < bound ? high : bound - 1;
    }
    return high >= low ? high - low + 1 : 0;
}

/* Upper bound of the number of outputs: the rule's bound, or the volume of the
 * extent if that is smaller. */
static int64_t outputs_bound(const spc_coords *in, const spc_geometry *g,
                             const int32_t low[4], const int32_t high[4])
{
    int64_t bound = (int64_t)in->reserved * spc__geometry_fan_out(g);
    int64_t positions = 1;

    /* The loop stops at the bound, so the product cannot overflow. */
    for (int i = 0; i < 4 && positions < bound; i++)
        positions *= positions_along(g, i - 1, low[i], high[i]);
    return positions < bound ? positions : bound;
}

/* Plans the set of a layer's outputs: extent, guard bands and the most rows
 * that it can have. */
static spc_status plan_outputs(plan *p, spc_coords *in, const spc_geometry *g,
                               int64_t capacity, spc_error *error)
{
    bool any = true;
    spc_status status;

    if (g->rule == SPC_RULE_SUBM)
        return spc__fail(error, SPC_EINVAL,
                         "by the rule SUBM the outputs are the inputs: use "
                         "their set");
    if (g->rule == SPC_RULE_GIVEN)
        return spc__fail(error, SPC_EINVAL,
                         "by the rule GIVEN the outputs are a set that the "
                         "caller has: there is nothing to derive");
    for (int i = 0; i < 4; i++) {
        p->low[i] = in->key.low[i];
        p->high[i] = spc__key_high(&in->key, i);
        if (i > 0 && (status = outputs_extent(&p->low[i], &p->high[i], &any, g,
                                              i - 1, error)) != SPC_OK)
            return status;
    }
    /* A set without outputs still needs a valid extent for its key layout. */
    for (int i = 1; i < 4 && !any; i++)
        p->low[i] = p->high[i] = 0;
    p->from = in;
    p->rule = g;
    p->by_itself = true;
    p->guard = in->guard;
    /* The inverse map searches the outputs, so they need its guard bands. */
    spc__guard inverse;
    spc__guard_for(&inverse, g, true);
    spc__guard_widen(&p->guard, &inverse);
    p->capacity = capacity >= 0 ? capacity
                  : any         ? outputs_bound(in, g, p->low, p->high)
                                : 0;
    return SPC_OK;
}

/* With `capacity` -1 there is room for every possible output. */
static spc_status make_outputs(spc_coords **out, spc_coords *in,
                               const spc_geometry *g, int64_t capacity,
                               spc_error *error)
{
    plan p = {0};
    spc_status status = spc_geometry_check(g, error);

    *out = NULL;
    if (status == SPC_OK)
        status = plan_outputs(&p, in, g, capacity, error);
    return status == SPC_OK ? make(out, in->ctx, &p, error) : status;
}

spc_status spc_coords_create_outputs_reserved(spc_coords **out, spc_coords *in,
                                              const spc_geometry *geometry,
                                              int64_t capacity)
{
    spc_error error = {0};
    spc_status status =
        spc__need(in ? spc__error_of(in->ctx) : NULL, __func__, "out", out,
                  "in", in, "geometry", geometry, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    if (capacity < 0)
        status = spc__fail(&error, SPC_EINVAL, "a capacity of %lld rows",
                           (long long)capacity);
    else
        status = make_outputs(out, in, geometry, capacity > 0 ? capacity : -1,
                              &error);
    return status == SPC_OK ? status : spc__ctx_fail(in->ctx, &error);
}

/* Derives twice: first into a set of the largest possible size, then into one
 * of the exact size. */
spc_status spc_coords_create_outputs(spc_coords **out, spc_coords *in,
                                     const spc_geometry *geometry)
{
    spc_error error = {0};
    spc_coords *wide = NULL, *fit = NULL;
    spc_status status =
        spc__need(in ? spc__error_of(in->ctx) : NULL, __func__, "out", out,
                  "in", in, "geometry", geometry, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    /* The derivation runs on the default stream, while the inputs may still be
     * filled on another one. */
    if ((status = spc__coords_land(in->ctx, in->in_flight, &error)) == SPC_OK &&
        (status = make_outputs(&wide, in, geometry, -1, &error)) == SPC_OK &&
        (status = spc__coords_derive_set(wide, NULL, NULL, &error)) == SPC_OK &&
        (status = spc__coords_inspect(wide, NULL, NULL, &error)) == SPC_OK &&
        (status = make_outputs(&fit, in, geometry, wide->rows, &error)) ==
            SPC_OK &&
        (status = spc__coords_derive_set(fit, NULL, NULL, &error)) == SPC_OK)
        status = spc__coords_inspect(fit, NULL, NULL, &error);
    spc_coords_free(wide);
    if (status == SPC_OK) {
        *out = fit;
        fit = NULL;
    }
    spc_coords_free(fit);
    return status == SPC_OK ? status : spc__ctx_fail(in->ctx, &error);
}
