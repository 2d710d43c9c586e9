/* SPDX-License-Identifier: Apache-2.0 */
/*
 * voxelise.c - turns points into voxels: checks, creation, filling and the
 * report.
 */
#include "coords/voxelise.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/plural.h"
#include "base/sized.h"
#include "coords/index/indexer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MOST = 64, CELLS_MOST = 1 << 20, POINTS_MOST = 1 << 16 };

static const spc__device_ops *ops_of(const spc_voxels *v)
{
    return spc__device_ops_of(v->ctx->device);
}

static const spc__voxeliser *voxeliser_of(const spc_voxels *v)
{
    return spc__indexer_for(v->ctx)->voxeliser;
}

/* ---- checks -------------------------------------------------------------- */

/* Rounds, because in floating point the quotient for a whole number of voxels
 * may be slightly less than that number. */
int spc__voxel_cells(double low, double high, double voxel)
{
    return (int)lround((high - low) / voxel);
}

spc_status spc__voxel_axis_check(double low, double high, double voxel,
                                 int axis, spc_error *error)
{
    /* The negated comparisons also refuse NaN. */
    if (!(voxel > 0) || !(low < high) || !isfinite(voxel) || !isfinite(low) ||
        !isfinite(high))
        return spc__fail(error, SPC_EINVAL,
                         "voxels along %c of %g from %g to %g: a positive "
                         "size, and the larger end last",
                         "xyz"[axis], voxel, low, high);
    double cells = (high - low) / voxel;
    if (!(cells >= 0.5 && cells <= CELLS_MOST))
        return spc__fail(error, SPC_EINVAL,
                         "%g voxels along %c: expected 1 to %d", cells,
                         "xyz"[axis], CELLS_MOST);
    return SPC_OK;
}

/* Checks the options for the features. */
static spc_status check_features(const spc_voxelisation *how, spc_error *error)
{
    bool mean = how->features == SPC_VOXELS_MEAN;

    if (!mean && how->features != SPC_VOXELS_POINTS)
        return spc__fail(error, SPC_EINVAL,
                         "unknown kind %d of features: expected "
                         "SPC_VOXELS_MEAN or SPC_VOXELS_POINTS",
                         (int)how->features);
    /* 0 means all points, which only a mean can have, as an array of points
     * needs a size. */
    if (how->points < !mean || how->points > POINTS_MOST)
        return spc__fail(error, SPC_EINVAL,
                         "%d points of a voxel: expected %d to %d", how->points,
                         !mean, POINTS_MOST);
    if (how->dtype != SPC_F16 && how->dtype != SPC_BF16 &&
        how->dtype != SPC_F32)
        return spc__fail(error, SPC_EINVAL,
                         "features of voxels are f16, bf16 or f32");
    return SPC_OK;
}

spc_status spc_voxelisation_check(const spc_voxelisation *how, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "how", how, NULL);

    for (int a = 0; a < 3 && status == SPC_OK; a++)
        status = spc__voxel_axis_check(how->low[a], how->high[a], how->voxel[a],
                                       a, error);
    if (status == SPC_OK)
        status = SPC__CHECK_RESERVED(spc_voxelisation, how, error);
    if (status != SPC_OK)
        return status;
    if (how->columns < 3 || how->columns > COLUMNS_MOST)
        return spc__fail(error, SPC_EINVAL,
                         "points of %d columns: expected 3 to %d", how->columns,
                         COLUMNS_MOST);
    if (how->batches < 1 || how->batches > CELLS_MOST ||
        (!how->batched && how->batches != 1))
        return spc__fail(error, SPC_EINVAL,
                         "%d batch elements: expected 1, or up to %d if points "
                         "have their own",
                         how->batches, CELLS_MOST);
    return check_features(how, error);
}

/* ---- creating ------------------------------------------------------------ */

/* Makes the set that groups the points by voxel. Kernels may park points
 * without a voxel in planes behind the grid, for which the extent has room. */
static spc_status reserve(spc_voxels *v, int64_t points, spc_error *error)
{
    spc_coords_options o = SPC_COORDS_OPTIONS_INIT;

    o.capacity = points;
    /* No map searches this set, so it gets the smallest halo; 0 would mean the
     * default. */
    o.halo = 1;
    o.duplicates = SPC_DUPLICATES_MEAN; /* the set then records equal rows */
    o.high[0] = v->how.batches - 1;
    for (int a = 0; a < 3; a++)
        o.high[1 + a] = v->cells[a] - 1;
    o.high[1] += (int32_t)(points / v->plane) + 1; /* extra rows for parked
                                                    * points */
    if (spc_coords_create_reserved(&v->set, v->ctx, &o) == SPC_OK)
        return SPC_OK;
    *error = *spc__error_of(v->ctx);
    return error->status;
}

/* Keeps this number and its multiples within int. */
static int plane_of(const spc_voxels *v)
{
    /* The device gives a point without a voxel a separate plane past the grid:
     * point i goes to plane i / `plane` (voxelise.cu.lua). */
    int64_t plane = (int64_t)v->cells[1] * v->cells[2];

    return plane < INT32_MAX ? (int)plane : v->cells[1];
}

static spc_status take(void *out, spc_voxels *v, size_t bytes, spc_error *error)
{
    return spc__coords_alloc(out, v->set, bytes, error);
}

/* Allocates for the full capacity, so that no update allocates. */
static spc_status alloc_arrays(spc_voxels *v, spc_error *error)
{
    size_t rows = (size_t)v->capacity;
    size_t each =
        v->how.features == SPC_VOXELS_MEAN ? 1 : (size_t)v->how.points;
    size_t element = spc__dtype_of(v->how.dtype)->bytes;
    spc_status status;

    /* One row a point, while the results below have one a voxel. */
    if ((status = take(&v->list, v, 16 * (size_t)v->set->capacity, error)) !=
            SPC_OK ||
        (status = take(&v->stats, v, 4 * SPC_VOXELISE_STATS, error)) !=
            SPC_OK ||
        (status = take(&v->count, v, sizeof *v->count, error)) != SPC_OK ||
        (status = take(&v->coords, v, 16 * rows, error)) != SPC_OK ||
        (status = take(&v->points_of, v, 4 * rows, error)) != SPC_OK ||
        (status = take(&v->features, v,
                       rows * each * (size_t)v->how.columns * element,
                       error)) != SPC_OK)
        return status;
    status = ops_of(v)->fill(v->ctx->device, v->stats, 0,
                             4 * SPC_VOXELISE_STATS, NULL, error);
    if (status == SPC_OK)
        status = ops_of(v)->fill(v->ctx->device, v->count, 0, sizeof *v->count,
                                 NULL, error);
    /* The first filling may run on another stream than this clearing. */
    return status == SPC_OK ? ops_of(v)->sync(v->ctx->device, NULL, error)
                            : status;
}

static spc_status check_capacity(int64_t points, int64_t capacity,
                                 spc_error *error)
{
    if (points >= 0 && points <= INT32_MAX - SPC_ROW_PAD && capacity >= 0 &&
        capacity <= INT32_MAX - SPC_ROW_PAD)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%lld voxels of %lld points: expected 0 to 2^31-1",
                     (long long)capacity, (long long)points);
}

/* Makes the voxeliser. On failure spc_voxels_free() releases the allocated
 * parts. */
static spc_status create(spc_voxels **out, spc_ctx *ctx,
                         const spc_voxelisation *how, int64_t points,
                         int64_t capacity, spc_error *error)
{
    spc_status status = spc_voxelisation_check(how, error);
    spc_voxels *v;

    if (status != SPC_OK ||
        (status = check_capacity(points, capacity, error)) != SPC_OK)
        return status;
    if ((v = calloc(1, sizeof *v)) == NULL)
        return spc__fail_memory(error, sizeof *v);
    v->ctx = ctx;
    v->how = *how;
    v->capacity = (int)capacity;
    v->pitch = how->columns + how->batched;
    for (int a = 0; a < 3; a++)
        v->cells[a] =
            spc__voxel_cells(how->low[a], how->high[a], how->voxel[a]);
    v->plane = plane_of(v);
    if ((status = reserve(v, points, error)) == SPC_OK &&
        (status = alloc_arrays(v, error)) == SPC_OK)
        status = voxeliser_of(v)->create(v, error);
    if (status == SPC_OK)
        *out = v;
    else
        spc_voxels_free(v);
    return status;
}

spc_status spc_voxels_create(spc_voxels **out, spc_ctx *ctx,
                             const spc_voxelisation *how, int64_t points,
                             int64_t capacity)
{
    spc_error error = {0};
    spc_status status = spc__need(spc__error_of(ctx), __func__, "out", out,
                                  "ctx", ctx, "how", how, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    status = create(out, ctx, how, points, capacity, &error);
    return status == SPC_OK ? status : spc__ctx_fail(ctx, &error);
}

void spc_voxels_free(spc_voxels *v)
{
    if (!v)
        return;
    /* Without a set there are no arrays, since its allocator makes them. */
    if (v->set) {
        voxeliser_of(v)->destroy(v);
        spc__coords_dealloc(v->set, v->list);
        spc__coords_dealloc(v->set, v->stats);
        spc__coords_dealloc(v->set, v->count);
        spc__coords_dealloc(v->set, v->coords);
        spc__coords_dealloc(v->set, v->points_of);
        spc__coords_dealloc(v->set, v->features);
    }
    spc_coords_free(v->set);
    free(v);
}

/* ---- filling ------------------------------------------------------------- */

/* Checks an update's arguments as far as the host knows them. */
static spc_status check_update(const spc_voxels *v, const float *points,
                               const int32_t *count, int64_t rows,
                               spc_error *error)
{
    if (count == NULL && (rows < 0 || rows > v->set->capacity))
        return spc__fail(error, rows < 0 ? SPC_EINVAL : SPC_ECAPACITY,
                         "cannot make voxels of %lld points: %d were stated",
                         (long long)rows, v->set->capacity);
    if (points == NULL && (count || rows > 0))
        return spc__fail(error, SPC_EINVAL,
                         "cannot make voxels without points");
    /* A caller may slice a buffer of bytes. A misaligned read would be a fault
     * on the device. */
    if ((uintptr_t)points % 4 != 0 || (uintptr_t)count % 4 != 0)
        return spc__fail(error, SPC_EINVAL,
                         "points and their count must start at a multiple of 4 "
                         "bytes");
    return SPC_OK;
}

/* The grid, for the kernels. */
static void describe_grid(spc_voxelise_args *args, const spc_voxels *v)
{
    for (int a = 0; a < 3; a++) {
        args->low[a] = (float)v->how.low[a];
        args->size[a] = (float)v->how.voxel[a];
        args->cells[a] = v->cells[a];
    }
    args->plane = v->plane;
    args->batches = v->how.batches;
    args->batched = v->how.batched;
    args->columns = v->how.columns;
    args->pitch = v->pitch;
}

/* The results and the arrays of the set that lead to them, for the kernels. */
static void describe_features(spc_voxelise_args *args, const spc_voxels *v)
{
    args->listed = v->set->count;
    args->voxels = v->count;
    args->sorted = v->set->stats;
    args->order = v->set->order;
    args->twins = v->set->twins;
    args->twin_begin = v->set->twin_begin;
    args->room = v->capacity;
    args->most = v->how.points;
    args->mean = v->how.features == SPC_VOXELS_MEAN;
    args->half = v->how.dtype == SPC_F16 ? 1 : v->how.dtype == SPC_BF16 ? 2 : 0;
    args->coords = v->coords;
    args->points_of = v->points_of;
    args->features = v->features;
}

/* Three steps: a voxel for each point, equal voxels together (the set), and
 * features for each voxel. */
static spc_status update(spc_voxels *v, const float *points,
                         const int32_t *count, int64_t rows, void *stream,
                         spc_error *error)
{
    spc_voxelise_args args = {
        .points = points,
        .count = count,
        .rows = (int)rows,
        .capacity = v->set->capacity,
        .list = v->list,
        .stats = v->stats,
    };
    /* The list has as many entries as there are points: every point has a row,
     * even one without a voxel. */
    spc__source source = {v->list, count, (int)rows};
    spc_status status;

    describe_grid(&args, v);
    describe_features(&args, v);
    if ((status = ops_of(v)->fill(v->ctx->device, v->stats, 0,
                                  4 * SPC_VOXELISE_STATS, stream, error)) !=
            SPC_OK ||
        (status = voxeliser_of(v)->list(v, &args, stream, error)) != SPC_OK ||
        (status = spc__coords_build(v->set, &source, stream, error)) != SPC_OK)
        return status;
    return voxeliser_of(v)->fill(v, &args, stream, error);
}

spc_status spc_voxels_update(spc_voxels *v, const float *points,
                             const int32_t *count, int64_t rows, void *stream)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "voxels", v, NULL);

    if (status != SPC_OK)
        return status;
    if ((status = check_update(v, points, count, rows, &error)) == SPC_OK)
        status = update(v, points, count, rows, stream, &error);
    return status == SPC_OK ? status : spc__ctx_fail(v->ctx, &error);
}

/* ---- report -------------------------------------------------------------- */

/* Turns the statistics of an update into an error. */
static spc_status check_counts(const spc_voxels *v, const spc_voxels_info *info,
                               int first_bad, spc_error *error)
{
    /* In this order, since after an error of the count the other numbers mean
     * nothing. Points left out come last: everything else is valid then. */
    if (info->points < 0)
        return spc__fail(error, SPC_ECAPACITY,
                         "a count of %lld points: none became a voxel",
                         (long long)info->points);
    if (info->points > v->set->capacity)
        return spc__fail(error, SPC_ECAPACITY,
                         "%lld points, where %d were stated: none became a "
                         "voxel",
                         (long long)info->points, v->set->capacity);
    if (info->voxels > v->capacity)
        return spc__fail(
            error, SPC_ECAPACITY,
            "%s: a capacity of %lld would have fitted, there is one of %d",
            spc__count(info->voxels, "voxel"), (long long)info->voxels,
            v->capacity);
    if (info->bad > 0)
        return spc__fail(error, SPC_ERANGE,
                         "%s left out: NaN or infinite coordinate%s; the first "
                         "is point %d",
                         spc__count(info->bad, "point"),
                         v->how.batched ? ", or no batch element" : "",
                         first_bad);
    return SPC_OK;
}

/* Reads the statistics back and waits for them. */
static spc_status check(spc_voxels *v, spc_voxels_info *info, void *stream,
                        spc_error *error)
{
    spc_error unused = {0}; /* discarded: rows without a voxel are not the
                             * caller's error */
    int32_t stats[SPC_VOXELISE_STATS];
    spc_status status = spc__coords_inspect(v->set, NULL, stream, &unused);

    if (status == SPC_EDEVICE) {
        *error = unused;
        return status;
    }
    if ((status = ops_of(v)->copy_out(v->ctx->device, stats, v->stats,
                                      sizeof stats, stream, error)) != SPC_OK ||
        (status = ops_of(v)->sync(v->ctx->device, stream, error)) != SPC_OK)
        return status;
    *info = (spc_voxels_info){
        .points = v->set->asked,
        .outside = stats[SPC_VOXELISE_OUTSIDE],
        .bad = stats[SPC_VOXELISE_BAD],
        /* The set counts each parked point as a voxel. */
        .voxels = v->set->rows - stats[SPC_VOXELISE_PARKED],
    };
    /* Kept by atomic maximum, counted down, so that zeroed statistics mean
     * "none" (voxelise_abi.h). */
    return check_counts(v, info, INT32_MAX - stats[SPC_VOXELISE_BAD_POINT],
                        error);
}

spc_status spc_voxels_check(spc_voxels_info *info, spc_voxels *v, void *stream)
{
    spc_error error = {0};
    spc_voxels_info own;
    spc_status status = spc__need(NULL, __func__, "voxels", v, NULL);

    if (status != SPC_OK)
        return status;
    status = v->set->filled ? check(v, info ? info : &own, stream, &error)
                            : spc__fail(&error, SPC_ESTATE,
                                        "the voxels were never filled: call "
                                        "spc_voxels_update first");
    return status == SPC_OK ? status : spc__ctx_fail(v->ctx, &error);
}

const int32_t *spc_voxels_coords(const spc_voxels *v)
{
    return v ? v->coords : NULL;
}

const int32_t *spc_voxels_device_count(const spc_voxels *v)
{
    return v ? v->count : NULL;
}

const void *spc_voxels_features(const spc_voxels *v)
{
    return v ? v->features : NULL;
}

const int32_t *spc_voxels_point_counts(const spc_voxels *v)
{
    return v ? v->points_of : NULL;
}
