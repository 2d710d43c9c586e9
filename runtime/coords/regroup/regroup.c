/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regroup.c - sets made from the voxels of other sets: creates and fills them,
 * and moves features.
 */
#include "coords/regroup/regroup.h"

#include "base/dtype.h"
#include "base/error.h"
#include "coords/index/indexer.h"
#include <stdlib.h>
#include <string.h>

static const char axes[] = "xyz";

static const spc__regrouper *regrouper_of(const spc_coords *c)
{
    return c->indexer->regrouper;
}

/* ---- checks ----------------------------------------------------------- */

/* Checks the numbers of one axis. */
static spc_status check_axis(const spc_regrouping *how, int i, spc_error *error)
{
    if (how->scale[i] < 0 || how->scale[i] > SPC__GEOMETRY_MOST)
        return spc__fail(error, SPC_EINVAL,
                         "scale %d along %c: expected 0 to %d", how->scale[i],
                         axes[i], SPC__GEOMETRY_MOST);
    if (how->split[i] < 1 || how->split[i] > SPC_REGROUP_CHILDREN)
        return spc__fail(error, SPC_EINVAL,
                         "split %d along %c: expected 1 to %d", how->split[i],
                         axes[i], SPC_REGROUP_CHILDREN);
    return SPC_OK;
}

static int64_t children_of(const spc_regrouping *how)
{
    return (int64_t)how->split[0] * how->split[1] * how->split[2];
}

spc_status spc_regrouping_check(const spc_regrouping *how, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "how", how, NULL);

    for (int i = 0; i < 3 && status == SPC_OK; i++)
        status = check_axis(how, i, error);
    if (status == SPC_OK && children_of(how) > SPC_REGROUP_CHILDREN)
        return spc__fail(error, SPC_EINVAL,
                         "a split of %dx%dx%d makes more than %d children of a "
                         "voxel",
                         how->split[0], how->split[1], how->split[2],
                         SPC_REGROUP_CHILDREN);
    return status;
}

/* Checks the sources of the new set. */
static spc_status check_sources(spc_coords *const *sources, int count,
                                spc_error *error)
{
    if (count < 1 || count > SPC_REGROUP_SOURCES)
        return spc__fail(error, SPC_EINVAL,
                         "a set made of %d sets: expected 1 to %d", count,
                         SPC_REGROUP_SOURCES);
    for (int i = 0; i < count; i++) {
        if (!sources[i])
            return spc__fail(error, SPC_EINVAL, "source %d is NULL", i);
        if (sources[i]->ctx != sources[0]->ctx)
            return spc__fail(error, SPC_EINVAL,
                             "sources 0 and %d belong to two contexts", i);
    }
    return SPC_OK;
}

/* Checks the arguments of a new set. */
static spc_status check(spc_coords *const *sources, int count,
                        const spc_regrouping *how, int64_t capacity,
                        spc_error *error)
{
    spc_status status = check_sources(sources, count, error);

    if (status == SPC_OK)
        status = spc_regrouping_check(how, error);
    if (status != SPC_OK)
        return status;
    if (capacity < 0)
        return spc__fail(error, SPC_EINVAL, "a capacity of %lld rows",
                         (long long)capacity);
    return SPC_OK;
}

/* ---- creating --------------------------------------------------------- */

/* Voxels cannot merge if every source keeps its children apart. */
static bool may_merge(const spc__regroup *r)
{
    /* With several sources, a voxel may be in two of them. */
    bool apart = r->sources == 1;

    /* Children of neighbours overlap if a voxel is split more often than it is
     * scaled. */
    for (int i = 0; i < 3; i++)
        apart &= r->how.scale[i] >= r->how.split[i];
    return !apart;
}

/* Adds a source. Its rows are numbered after the rows of earlier sources. */
static spc_status add_source(spc__regroup *r, spc_coords *source,
                             spc_error *error)
{
    int64_t rows = (int64_t)r->first[r->sources] + source->capacity;

    /* Slots are numbered row * children + child in an int. */
    if (rows * r->children > INT32_MAX - SPC_ROW_PAD)
        return spc__fail(error, SPC_EINVAL,
                         "%lld rows of sources with %d children each: 2^31-1 "
                         "together is the limit",
                         (long long)rows, r->children);
    /* Sets it before anything can fail, as the numbering above uses the current
     * capacity. */
    source->fixed = "a set made of it numbers its rows by their capacity";
    r->source[r->sources++] = spc__coords_share(source);
    r->first[r->sources] = (int)rows;
    return SPC_OK;
}

/* Sets the properties of the regrouping. Its arrays are allocated later. */
static spc_status describe(spc__regroup *r, spc_coords *const *sources,
                           int count, const spc_regrouping *how,
                           spc_error *error)
{
    spc_status status = SPC_OK;

    r->how = *how;
    r->children = (int)children_of(how);
    for (int i = 0; i < count && status == SPC_OK; i++)
        status = add_source(r, sources[i], error);
    r->merges = may_merge(r);
    return status;
}

/* Widens low..high along one field by the voxels made from a source. */
static spc_status widen(int32_t *low, int32_t *high, bool first,
                        const spc__regroup *r, const spc_coords *source,
                        int field, spc_error *error)
{
    int64_t scale = field > 0 ? r->how.scale[field - 1] : 1;
    int64_t more = field > 0 ? r->how.split[field - 1] - 1 : 0;
    /* In 64 bits, since a scaled coordinate may not fit 32. */
    int64_t least = source->key.low[field] * scale;
    int64_t most = spc__key_high(&source->key, field) * scale + more;

    if (least < INT32_MIN || most > INT32_MAX)
        return spc__fail(error, SPC_ERANGE,
                         "voxels at %d to %d along %c become %lld to %lld, "
                         "which do not fit 32 bits",
                         (int)source->key.low[field],
                         (int)spc__key_high(&source->key, field), "bxyz"[field],
                         (long long)least, (long long)most);
    *low = first || least < *low ? (int32_t)least : *low;
    *high = first || most > *high ? (int32_t)most : *high;
    return SPC_OK;
}

/* Finds the extent and the guard bands of the result. */
static spc_status bound(spc__regrouped_bounds *out, const spc__regroup *r,
                        spc_error *error)
{
    spc_status status = SPC_OK;

    memset(&out->guard, 0, sizeof out->guard);
    for (int i = 0; i < r->sources && status == SPC_OK; i++) {
        /* A layer that could run on the sources must be able to run on the
         * result. */
        spc__guard_widen(&out->guard, &r->source[i]->guard);
        for (int field = 0; field < 4 && status == SPC_OK; field++)
            status = widen(&out->low[field], &out->high[field], i == 0, r,
                           r->source[i], field, error);
    }
    return status;
}

/* Allocates for the full capacity, so that no update allocates. */
static spc_status alloc_arrays(spc_coords *c, spc_error *error)
{
    spc__regroup *r = c->regroup;
    size_t rows = (size_t)c->capacity;
    size_t slots = (size_t)r->first[r->sources] * (size_t)r->children;
    spc_status status;

    if ((status = spc__coords_alloc(&r->listed, c, 4, error)) != SPC_OK ||
        (status = spc__coords_alloc(&r->slot, c, 4 * rows, error)) != SPC_OK ||
        (status = spc__coords_alloc(&r->begin, c, 4 * rows + 4, error)) !=
            SPC_OK ||
        (status = spc__coords_alloc(&r->slots, c, 4 * rows, error)) != SPC_OK ||
        (status = spc__coords_alloc(&r->of, c, 4 * slots, error)) != SPC_OK)
        return status;
    /* If nothing merges, the proposed voxels are the rows of the set and are
     * listed in place. */
    r->list = c->data;
    return r->merges ? spc__coords_alloc(&r->list, c, 16 * rows, error)
                     : SPC_OK;
}

void spc__regroup_release(spc_coords *c)
{
    spc__regroup *r = c->regroup;

    if (!r)
        return;
    /* The sources are freed last: the device's part may use them. */
    regrouper_of(c)->destroy(c);
    spc__coords_dealloc(c, r->listed);
    spc__coords_dealloc(c, r->slot);
    spc__coords_dealloc(c, r->begin);
    spc__coords_dealloc(c, r->slots);
    spc__coords_dealloc(c, r->of);
    if (r->list != c->data)
        spc__coords_dealloc(c, r->list);
    for (int i = 0; i < r->sources; i++)
        spc_coords_free(r->source[i]);
    free(r);
    c->regroup = NULL;
}

/* The set takes ownership of `r`, even on failure. */
static spc_status make(spc_coords **out, spc__regroup *r, int64_t capacity,
                       spc_error *error)
{
    spc__regrouped_bounds bounds;
    spc_coords *c;
    spc_status status = bound(&bounds, r, error);

    /* 0 asks for the largest possible set. */
    bounds.capacity =
        capacity > 0 ? capacity : (int64_t)r->first[r->sources] * r->children;
    bounds.merges = r->merges;
    if (status == SPC_OK)
        status = spc__coords_create_regrouped(&c, r->source[0]->ctx, r, &bounds,
                                              error);
    if (status != SPC_OK) {
        for (int i = 0; i < r->sources; i++)
            spc_coords_free(r->source[i]);
        free(r);
        return status;
    }
    status = alloc_arrays(c, error);
    if (status == SPC_OK)
        status = regrouper_of(c)->create(c, error);
    if (status == SPC_OK)
        *out = c;
    else
        spc_coords_free(c);
    return status;
}

/* Makes a regrouped set. Until make() takes over, a failure must release the
 * sources here. */
static spc_status create(spc_coords **out, spc_coords *const *sources,
                         int count, const spc_regrouping *how, int64_t capacity,
                         spc_error *error)
{
    spc_status status = check(sources, count, how, capacity, error);
    spc__regroup *r;

    *out = NULL;
    if (status != SPC_OK)
        return status;
    if (!(r = calloc(1, sizeof *r)))
        return spc__fail_memory(error, sizeof *r);
    if ((status = describe(r, sources, count, how, error)) == SPC_OK)
        return make(out, r, capacity, error);
    for (int i = 0; i < r->sources; i++)
        spc_coords_free(r->source[i]);
    free(r);
    return status;
}

/* The context that gets error messages. */
static spc_ctx *ctx_of(spc_coords *const *sources, int count)
{
    return sources && count > 0 && sources[0] ? sources[0]->ctx : NULL;
}

static spc_status fail(spc_ctx *ctx, const spc_error *error)
{
    return ctx ? spc__ctx_fail(ctx, error) : error->status;
}

spc_status spc_coords_create_regrouped_reserved(spc_coords **out,
                                                spc_coords *const *sources,
                                                int count,
                                                const spc_regrouping *how,
                                                int64_t capacity)
{
    spc_ctx *ctx = ctx_of(sources, count);
    spc_error error = {0};
    spc_status status =
        spc__need(ctx ? spc__error_of(ctx) : NULL, __func__, "out", out,
                  "sources", sources, "how", how, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    status = create(out, sources, count, how, capacity, &error);
    return status == SPC_OK ? status : fail(ctx, &error);
}

/* Fills twice: first with the largest possible capacity, then with the exact
 * one. */
static spc_status create_exact(spc_coords **out, spc_coords *const *sources,
                               int count, const spc_regrouping *how,
                               const uint8_t *mask, spc_error *error)
{
    spc_coords *wide = NULL, *fit = NULL;
    spc_status status;

    if ((status = create(&wide, sources, count, how, 0, error)) == SPC_OK &&
        (status = spc__regroup_fill(wide, mask, NULL, error)) == SPC_OK &&
        (status = spc__coords_inspect(wide, NULL, NULL, error)) == SPC_OK &&
        (status = create(&fit, sources, count, how,
                         /* 0 would mean the largest possible capacity again. */
                         wide->asked ? wide->asked : 1, error)) == SPC_OK &&
        (status = spc__regroup_fill(fit, mask, NULL, error)) == SPC_OK)
        status = spc__coords_inspect(fit, NULL, NULL, error);
    spc_coords_free(wide);
    if (status == SPC_OK) {
        *out = fit;
        fit = NULL;
    }
    spc_coords_free(fit);
    return status;
}

spc_status spc_coords_create_regrouped(spc_coords **out,
                                       spc_coords *const *sources, int count,
                                       const spc_regrouping *how,
                                       const uint8_t *mask)
{
    spc_ctx *ctx = ctx_of(sources, count);
    spc_error error = {0};
    spc_status status =
        spc__need(ctx ? spc__error_of(ctx) : NULL, __func__, "out", out,
                  "sources", sources, "how", how, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    /* The fills below use the default stream, while sources may still be filled
     * on others. The count is checked later, in create(), so this loop has
     * separate limits. */
    for (int i = 0;
         ctx && i < count && i < SPC_REGROUP_SOURCES && status == SPC_OK; i++)
        status = spc__coords_land(
            ctx, sources[i] != NULL && sources[i]->in_flight, &error);
    if (status == SPC_OK)
        status = create_exact(out, sources, count, how, mask, &error);
    return status == SPC_OK ? status : fail(ctx, &error);
}

/* ---- filling ---------------------------------------------------------- */

spc_status spc__regroup_fill(spc_coords *c, const uint8_t *mask, void *stream,
                             spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < c->regroup->sources && status == SPC_OK; i++)
        status = spc__coords_need_filled(c->regroup->source[i], error);
    if (status == SPC_OK)
        status = regrouper_of(c)->fill(c, mask, stream, error);
    spc__coords_changed(c, status);
    return status;
}

static spc_status check_regrouped(const spc_coords *c, spc_error *error)
{
    if (c->regroup)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL, "the set was not made of other sets");
}

spc_status spc_coords_update_regrouped(spc_coords *c, const uint8_t *mask,
                                       void *stream)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "set", c, NULL);

    if (status != SPC_OK)
        return status;
    if ((status = check_regrouped(c, &error)) == SPC_OK) {
        status = spc__regroup_fill(c, mask, stream, &error);
        c->in_flight = true;
    }
    return status == SPC_OK ? status : spc__ctx_fail(c->ctx, &error);
}

/* ---- features --------------------------------------------------------- */

static int half_of(spc_dtype dtype)
{
    return dtype == SPC_F16 ? 1 : dtype == SPC_BF16 ? 2 : 0;
}

/* Checks the arguments of a gather. */
static spc_status check_gather(const spc_coords *c, const spc_gather *how,
                               spc_error *error)
{
    spc_status status = check_regrouped(c, error);

    if (status != SPC_OK)
        return status;
    if (spc__dtype_of(how->dtype) == NULL || how->dtype == SPC_I8)
        return spc__fail(error, SPC_EINVAL,
                         "cannot gather features of type %d: expected SPC_F16, "
                         "SPC_BF16, SPC_F32 or SPC_TF32",
                         (int)how->dtype);
    if (how->channels < 1 || how->channels > SPC__GEOMETRY_MOST)
        return spc__fail(
            error, SPC_EINVAL,
            "cannot gather features of %d channels: expected 1 to %d",
            how->channels, SPC__GEOMETRY_MOST);
    return SPC_OK;
}

static bool is_aligned(const void *memory)
{
    return (uintptr_t)memory % 16 == 0;
}

/* Moves 16 bytes at once if all rows are 16-byte aligned. */
static int piece_of(const spc_gather_args *args, int bytes)
{
    /* Unused pointers are NULL and count as aligned. */
    bool aligned = args->channels * bytes % 16 == 0;

    for (int i = 0; i < SPC_REGROUP_SOURCES; i++)
        aligned &= is_aligned(args->in[i]) && is_aligned(args->out[i]);
    return aligned ? 16 / bytes : 1;
}

/* Describes a move of features to the kernels. */
static void describe_gather(spc_gather_args *args, const spc_coords *c,
                            const spc_gather *how)
{
    const spc__regroup *r = c->regroup;

    memcpy(args->first, r->first, sizeof r->first);
    args->sources = r->sources;
    /* With slices, each child is a separate row. */
    args->children = how->slices ? 1 : r->children;
    args->slices = how->slices ? r->children : 1;
    args->channels = how->channels;
    args->half = half_of(how->dtype);
    args->piece = piece_of(args, args->half ? 2 : 4);
    args->count = c->count;
    args->begin = r->begin;
    args->slots = r->slots;
    args->of = r->of;
}

/* Checks every source that has rows. */
static spc_status check_features(const spc_coords *c, const void *const *given,
                                 const char *name, spc_error *error)
{
    const spc__regroup *r = c->regroup;

    for (int i = 0; i < r->sources; i++)
        if (given[i] == NULL && r->source[i]->capacity > 0)
            return spc__fail(error, SPC_EINVAL,
                             "`%s[%d]`, the features of source %d, is NULL",
                             name, i, i);
    return SPC_OK;
}

/* Checks the arguments of a mask. */
static spc_status check_mask(const spc_coords *c, const void *const *in,
                             spc_dtype dtype, float above, spc_error *error)
{
    spc_status status = check_regrouped(c, error);

    if (status == SPC_OK &&
        (spc__dtype_of(dtype) == NULL || spc__dtype_is_whole(dtype)))
        return spc__fail(error, SPC_EINVAL,
                         "cannot make a mask of numbers of type %d: expected "
                         "SPC_F16, SPC_BF16, SPC_F32 or SPC_TF32",
                         (int)dtype);
    if (status == SPC_OK && above != above)
        return spc__fail(error, SPC_EINVAL,
                         "the threshold is NaN: no row is above it");
    for (int i = 0; status == SPC_OK && i < c->regroup->sources; i++)
        status = spc__coords_need_filled(c->regroup->source[i], error);
    return status == SPC_OK ? check_features(c, in, "in", error) : status;
}

/* Number of rows a set was given, including invalid ones. */
static const int *given(const spc_coords *c)
{
    return spc__coords_is_derived(c) ? c->count : c->stats + SPC_INDEX_ROWS;
}

/* Describes a mask to the kernel. */
static void describe_mask(spc_mask_args *args, const spc_coords *c,
                          const void *const *in)
{
    const spc__regroup *r = c->regroup;

    for (int i = 0; i < r->sources; i++) {
        args->in[i] = in[i];
        args->count[i] = given(r->source[i]);
    }
    memcpy(args->first, r->first, sizeof r->first);
    args->sources = r->sources;
    args->children = r->children;
}

spc_status spc_coords_mask_above(uint8_t *mask, const spc_coords *c,
                                 const void *const *in, spc_dtype dtype,
                                 float above, void *stream)
{
    spc_mask_args args = {.mask = mask, .half = half_of(dtype), .above = above};
    spc_error error = {0};
    spc_status status = spc__need(c ? spc__error_of(c->ctx) : NULL, __func__,
                                  "set", c, "mask", mask, "in", in, NULL);

    if (status != SPC_OK)
        return status;
    if ((status = check_mask(c, in, dtype, above, &error)) == SPC_OK) {
        describe_mask(&args, c, in);
        status = regrouper_of(c)->mask(c, &args, dtype, stream, &error);
    }
    return status == SPC_OK ? status : spc__ctx_fail(c->ctx, &error);
}

spc_status spc_coords_gather_features(void *out, const spc_coords *c,
                                      const void *const *in,
                                      const spc_gather *how, void *stream)
{
    spc_gather_args args = {.out = {out}};
    spc_error error = {0};
    spc_status status =
        spc__need(c ? spc__error_of(c->ctx) : NULL, __func__, "set", c, "out",
                  out, "in", in, "how", how, NULL);

    if (status != SPC_OK)
        return status;
    if ((status = check_gather(c, how, &error)) == SPC_OK &&
        (status = check_features(c, in, "in", &error)) == SPC_OK &&
        (status = spc__coords_need_filled(c, &error)) == SPC_OK) {
        memcpy(args.in, in, (size_t)c->regroup->sources * sizeof *in);
        describe_gather(&args, c, how);
        status = regrouper_of(c)->gather(c, &args, how->dtype, stream, &error);
    }
    return status == SPC_OK ? status : spc__ctx_fail(c->ctx, &error);
}

spc_status spc_coords_scatter_features(void *const *out, const spc_coords *c,
                                       const void *in, const spc_gather *how,
                                       void *stream)
{
    spc_gather_args args = {.in = {in}};
    spc_error error = {0};
    spc_status status =
        spc__need(c ? spc__error_of(c->ctx) : NULL, __func__, "set", c, "out",
                  out, "in", in, "how", how, NULL);

    if (status != SPC_OK)
        return status;
    if ((status = check_gather(c, how, &error)) == SPC_OK &&
        (status = check_features(c, (const void *const *)out, "out", &error)) ==
            SPC_OK &&
        (status = spc__coords_need_filled(c, &error)) == SPC_OK) {
        memcpy(args.out, out, (size_t)c->regroup->sources * sizeof *out);
        describe_gather(&args, c, how);
        status = regrouper_of(c)->spread(c, &args, how->dtype, stream, &error);
    }
    return status == SPC_OK ? status : spc__ctx_fail(c->ctx, &error);
}

bool spc_coords_row_lists(spc_row_lists *out, const spc_coords *c)
{
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    if (!c || !c->regroup)
        return false;
    out->begin = c->regroup->begin;
    out->slots = c->regroup->slots;
    out->row_of = c->regroup->of;
    out->children = c->regroup->children;
    return true;
}
