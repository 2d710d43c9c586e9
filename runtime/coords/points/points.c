/* SPDX-License-Identifier: Apache-2.0 */
/*
 * points.c - creates, fills and queries clouds of points.
 *
 * A cloud is a copy of the caller's rows without those outside its extent.
 * Cells and voxels are coordinate sets, filled again from the cloud when
 * needed.
 */
#include "coords/points/points.h"

#include "base/error.h"
#include "base/plural.h"
#include "base/sized.h"
#include "coords/index/indexer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const field_names[4] = {"x", "y", "z", "batch"};

/* Cells are numbered in 32 bits; this leaves room for their neighbours. */
static const float cells_most = 0x1p30f;

static const spc__device_ops *ops_of(const spc_points *p)
{
    return spc__device_ops_of(p->rows.ctx->device);
}

/* ---- memory -------------------------------------------------------------- */

void spc__points_destroy(spc_coords *rows)
{
    /* Called by spc_coords_free() of `rows`, which frees the rest. */
    spc_points *p = spc__points_of(rows);

    spc__coords_dealloc(rows, p->at);
    spc__coords_dealloc(rows, p->sources);
    spc__coords_dealloc(rows, p->voxel_coords);
    spc_coords_free(p->voxels);
    spc_points_free(p->from);
}

void spc_points_free(spc_points *points)
{
    if (points)
        spc_coords_free(&points->rows);
}

/* Allocates zeroed memory. The pointer is copied as bytes, since callers have
 * pointers of several types. */
static spc_status alloc_clear(void *out, const spc_points *p, size_t bytes,
                              spc_error *error)
{
    void *memory = NULL;
    spc_status status = spc__coords_alloc(&memory, &p->rows, bytes, error);

    memcpy(out, &memory, sizeof memory);
    return status == SPC_OK ? ops_of(p)->fill(p->rows.ctx->device, memory, 0,
                                              bytes, NULL, error)
                            : status;
}

/* Allocates for the full capacity, so that no update allocates. */
static spc_status alloc_arrays(spc_points *p, spc_error *error)
{
    size_t rows = (size_t)p->rows.capacity;
    spc_status status;

    if ((status = spc__coords_alloc(&p->at, &p->rows, 16 * rows, error)) !=
            SPC_OK ||
        (status = alloc_clear(&p->rows.stats, p, 4 * (SPC_POINTS_STATS + 1),
                              error)) != SPC_OK)
        return status;
    /* The rows own this array; a cloud has other statistics in it than a
     * set. */
    p->stats = p->rows.stats;
    p->rows.count = p->stats + SPC_POINTS_STATS;
    if (p->from)
        status = spc__coords_alloc(&p->sources, &p->rows, 4 * rows, error);
    /* The first fill may run on another stream than the clearing. */
    return status == SPC_OK ? ops_of(p)->sync(p->rows.ctx->device, NULL, error)
                            : status;
}

/* ---- creating ------------------------------------------------------------ */

spc_status spc__points_check_rows(int64_t rows, spc_error *error)
{
    const int64_t most = INT32_MAX - SPC_ROW_PAD;

    if (rows >= 0 && rows <= most)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "a cloud of %lld points: expected 0 to %lld",
                     (long long)rows, (long long)most);
}

/* Checks the size and the extent that the user states for a cloud. */
static spc_status check_options(const spc_points_options *o, spc_error *error)
{
    spc_status status = spc__points_check_rows(o->capacity, error);

    if (status != SPC_OK)
        return status;
    if (o->batches < 1)
        return spc__fail(error, SPC_EINVAL,
                         "a cloud of %d batch elements: expected at least 1",
                         (int)o->batches);
    for (int i = 0; i < 3; i++)
        if (!isfinite(o->low[i]) || !isfinite(o->high[i]) ||
            o->low[i] > o->high[i])
            return spc__fail(error, SPC_EINVAL,
                             "the extent of %s is %g to %g: expected two "
                             "numbers, the larger one last",
                             field_names[i], (double)o->low[i],
                             (double)o->high[i]);
    return SPC_OK;
}

/* Sets up the part of a cloud that it shares with a set of voxels. */
static void set_rows(spc_points *p, spc_ctx *ctx, int64_t capacity)
{
    p->rows.ctx = spc__ctx_share(ctx);
    p->rows.users = 1;
    p->rows.zone_bytes = ctx->zone_bytes;
    /* An indexer of voxels cannot sort a cloud, so clouds have an indexer of
     * their own. */
    p->rows.indexer = &spc__indexer_points;
    p->rows.capacity = p->rows.reserved = (int)capacity;
    p->rows.rows_padded = p->rows.reserved_padded =
        spc__coords_padded((int)capacity);
}

spc_status spc__points_make(spc_points **out, spc_ctx *ctx,
                            const spc_points_options *o, spc_points *from,
                            spc_error *error)
{
    spc_status status = check_options(o, error);
    spc_points *p;

    *out = NULL;
    if (status != SPC_OK)
        return status;
    if (!(p = calloc(1, sizeof *p)))
        return spc__fail_memory(error, sizeof *p);
    /* From here on spc_points_free() can release the cloud in any state. */
    set_rows(p, ctx, o->capacity);
    p->batches = o->batches;
    memcpy(p->low, o->low, sizeof p->low);
    memcpy(p->high, o->high, sizeof p->high);
    if (from) {
        spc__coords_share(&from->rows);
        p->from = from;
    }
    /* Clouds have no keys, so any key width will do. */
    if ((status = spc__points_code_load(&p->code, ctx, 32, error)) == SPC_OK)
        status = alloc_arrays(p, error);
    if (status == SPC_OK)
        *out = p;
    else
        spc_points_free(p);
    return status;
}

spc_status spc__points_check_extent(const spc_points_options *o,
                                    spc_error *error)
{
    /* SPC_POINTS_OPTIONS_INIT has this extent, so the caller probably forgot to
     * set it. */
    for (int i = 0; i < 3; i++)
        if (o->low[i] != 0 || o->high[i] != 0)
            return SPC_OK;
    if (o->capacity <= 1)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "%lld points in an extent that is the point (0, 0, 0) "
                     "alone: `low` and `high` must be set to the least and "
                     "greatest coordinates",
                     (long long)o->capacity);
}

spc_status spc_points_create_reserved(spc_points **out, spc_ctx *ctx,
                                      const spc_points_options *options)
{
    spc_error error = {0};
    spc_status status = spc__need(spc__error_of(ctx), __func__, "out", out,
                                  "ctx", ctx, "options", options, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    if ((status = SPC__TAKE(spc_points_options, options, &error)) == SPC_OK &&
        (status = spc__points_check_extent(options, &error)) == SPC_OK)
        status = spc__points_make(out, ctx, options, NULL, &error);
    return status == SPC_OK ? status : spc__ctx_fail(ctx, &error);
}

/* ---- cells --------------------------------------------------------------- */

/* Refuses an extent whose cells have no numbers in an int. */
static spc_status check_cells(const spc_points *p, float inverse,
                              spc_error *error)
{
    /* The negation also refuses a product that is NaN. */
    for (int i = 0; i < 3; i++)
        if (!(fabsf(p->low[i] * inverse) < cells_most &&
              fabsf(p->high[i] * inverse) < cells_most))
            return spc__fail(error, SPC_ERANGE,
                             "an extent of %s from %g to %g has more than 2^31 "
                             "cells of edge %g",
                             field_names[i], (double)p->low[i],
                             (double)p->high[i], 1 / (double)inverse);
    return SPC_OK;
}

/* Computes cells as the kernels do, with the same rounding. Rounding is
 * monotonic, so all points lie between the cells of the two ends. */
spc_status spc__points_cells_create(spc_coords **set, int32_t **coords,
                                    const spc_points *p, float inverse,
                                    spc_duplicates duplicates, spc_error *error)
{
    spc_coords_options o = SPC_COORDS_OPTIONS_INIT;
    spc_status status = check_cells(p, inverse, error);

    if (status != SPC_OK)
        return status;
    o.capacity = p->rows.capacity;
    o.high[0] = p->batches - 1;
    for (int i = 0; i < 3; i++) {
        o.low[1 + i] = (int32_t)floorf(p->low[i] * inverse);
        o.high[1 + i] = (int32_t)floorf(p->high[i] * inverse);
    }
    /* Searches clip to the extent (points_host.c, points.cu.lua), so the
     * smallest halo is enough. */
    o.halo = 1;
    o.duplicates = duplicates;
    status = spc__coords_reserve(set, p->rows.ctx, &o, error);
    if (status != SPC_OK)
        return status;
    return spc__coords_alloc(coords, &p->rows, 16 * (size_t)p->rows.capacity,
                             error);
}

/* Blocks for one thread per row. */
static int blocks_for(const spc_points *p)
{
    int useful =
        (p->rows.capacity + SPC_POINTS_THREADS - 1) / SPC_POINTS_THREADS;

    return useful < 1 ? 1 : useful < p->code.blocks ? useful : p->code.blocks;
}

static spc_cloud cloud_of(const spc_points *p)
{
    return (spc_cloud){p->at, p->rows.count, p->rows.capacity};
}

spc_status spc__points_cells_fill(spc_coords *set, int32_t *coords,
                                  const spc_points *p, float inverse,
                                  void *stream, spc_error *error)
{
    spc_cells_args args = {cloud_of(p), inverse, coords};
    /* A point that was left out has batch -1, and the set drops its row. */
    spc__source source = {coords, p->rows.count, 0};
    spc_status status =
        spc__points_run(&p->code, SPC__POINTS_CELLS, &args, sizeof args,
                        blocks_for(p), 0, stream, error);

    return status == SPC_OK ? spc__coords_build(set, &source, stream, error)
                            : status;
}

/* ---- sampling ------------------------------------------------------------ */

static spc_status create_voxels(spc_points *p, bool centred, spc_error *error)
{
    /* A set that merges by sums lists the rows of each voxel. */
    return spc__points_cells_create(
        &p->voxels, &p->voxel_coords, p->from, p->inverse,
        centred ? SPC_DUPLICATES_SUM : SPC_DUPLICATES_FIRST, error);
}

spc_status spc__points_make_sampled(spc_points **out, spc_points *in,
                                    float edge, int64_t capacity, bool centred,
                                    spc_error *error)
{
    spc_points_options o = {
        .bytes = sizeof(spc_points_options), capacity, in->batches, {0}, {0}};
    spc_status status;

    *out = NULL;
    memcpy(o.low, in->low, sizeof o.low);
    memcpy(o.high, in->high, sizeof o.high);
    if (!(isfinite(edge) && edge > 0))
        return spc__fail(error, SPC_EINVAL,
                         "voxels of edge %g: expected a length above 0",
                         (double)edge);
    status = spc__points_make(out, in->rows.ctx, &o, in, error);
    if (status == SPC_OK) {
        /* Kernels multiply by the inverse. Every place uses this one number, so
         * all round alike. */
        (*out)->inverse = 1 / edge;
        status = create_voxels(*out, centred, error);
    }
    if (status != SPC_OK) {
        spc_points_free(*out);
        *out = NULL;
    }
    return status;
}

/* `name` is the public function. */
static spc_status create_sampled(const char *name, spc_points **out,
                                 spc_points *in, float edge, bool centred)
{
    spc_error error = {0};
    spc_status status = spc__need(in ? spc__error_of(in->rows.ctx) : NULL, name,
                                  "out", out, "in", in, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    status = spc__points_make_sampled(out, in, edge, in->rows.capacity, centred,
                                      &error);
    return status == SPC_OK ? status : spc__ctx_fail(in->rows.ctx, &error);
}

spc_status spc_points_create_sampled(spc_points **out, spc_points *in,
                                     float edge)
{
    return create_sampled(__func__, out, in, edge, false);
}

spc_status spc_points_create_centred(spc_points **out, spc_points *in,
                                     float edge)
{
    return create_sampled(__func__, out, in, edge, true);
}

static spc_status clear_stats(const spc_points *p, void *stream,
                              spc_error *error)
{
    return ops_of(p)->fill(p->rows.ctx->device, p->stats, 0,
                           4 * SPC_POINTS_STATS, stream, error);
}

/* Runs a step that fills the cloud. */
static spc_status run_fill(spc_points *p, spc__points_step step,
                           spc_place_args *args, void *stream, spc_error *error)
{
    /* The kernels only add to the statistics. */
    spc_status status = clear_stats(p, stream, error);

    args->to = cloud_of(p);
    args->stats = p->stats;
    if (status == SPC_OK)
        status = spc__points_run(&p->code, step, args, sizeof *args,
                                 blocks_for(p), 0, stream, error);
    spc__coords_changed(&p->rows, status);
    return status;
}

spc_status spc__points_pick(spc_points *p, void *stream, spc_error *error)
{
    /* The set merges equal voxels into their first row. With twins, it lists
     * the others, from which the nearest one is chosen. */
    spc_place_args args = {.source = p->voxels->count,
                           .from = p->from->at,
                           .picked = p->voxels->order,
                           .sources = p->sources,
                           .twins = p->voxels->twins,
                           .twin_begin = p->voxels->twin_begin,
                           .merged = p->voxels->stats,
                           .inverse = p->inverse};
    spc_status status = spc__coords_need_filled(&p->from->rows, error);

    if (status == SPC_OK)
        status = spc__points_cells_fill(p->voxels, p->voxel_coords, p->from,
                                        p->inverse, stream, error);

    return status == SPC_OK
               ? run_fill(p, SPC__POINTS_PICK, &args, stream, error)
               : status;
}

/* ---- filling ------------------------------------------------------------- */

static void set_bounds(spc_place_args *args, const spc_points *p)
{
    args->batches = p->batches;
    memcpy(args->low, p->low, sizeof args->low);
    memcpy(args->high, p->high, sizeof args->high);
}

spc_status spc__points_fill_units(spc_points *p, const int32_t *units,
                                  const int32_t *count, int rows, void *stream,
                                  spc_error *error)
{
    spc_place_args args = {.steps = units, .source = count, .rows = rows};

    set_bounds(&args, p);
    return run_fill(p, SPC__POINTS_PLACE, &args, stream, error);
}

spc_status spc__points_fill(spc_points *p, const float *xyz,
                            const int32_t *batch, const int32_t *count,
                            int64_t rows, void *stream, spc_error *error)
{
    spc_place_args args = {
        .xyz = xyz, .batch = batch, .source = count, .rows = (int)rows};

    set_bounds(&args, p);
    return run_fill(p, SPC__POINTS_PLACE, &args, stream, error);
}

spc_status spc__points_check_aligned(const float *xyz, const int32_t *batch,
                                     const int32_t *count, spc_error *error)
{
    /* The union of the low bits shows a misalignment of any of the three. NULL
     * passes. */
    if (((uintptr_t)xyz | (uintptr_t)batch | (uintptr_t)count) % 4 == 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "points, their elements and their count must start at a "
                     "multiple of 4 bytes");
}

/* Checks an update's arguments as far as the host knows them. */
static spc_status check_update(const spc_points *p, const float *xyz,
                               const int32_t *batch, const int32_t *count,
                               int64_t rows, spc_error *error)
{
    if (p->from)
        return xyz || batch || count
                   ? spc__fail(error, SPC_EINVAL,
                               "a sampled cloud is chosen from its source: its "
                               "points must be NULL")
                   : SPC_OK;
    if (count == NULL && (rows < 0 || rows > p->rows.capacity))
        return spc__fail(error, rows < 0 ? SPC_EINVAL : SPC_ECAPACITY,
                         "cannot fill a cloud with %s: its capacity is %d",
                         spc__count(rows, "point"), p->rows.capacity);
    if (xyz == NULL && (count || rows > 0))
        return spc__fail(error, SPC_EINVAL,
                         "cannot fill a cloud without points");
    return spc__points_check_aligned(xyz, batch, count, error);
}

spc_status spc_points_update(spc_points *p, const float *xyz,
                             const int32_t *batch, const int32_t *count,
                             int64_t rows, void *stream)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "points", p, NULL);

    if (status != SPC_OK)
        return status;
    status = check_update(p, xyz, batch, count, rows, &error);
    if (status == SPC_OK)
        status = p->from ? spc__points_pick(p, stream, &error)
                         : spc__points_fill(p, xyz, batch, count, rows, stream,
                                            &error);
    return status == SPC_OK ? status : spc__ctx_fail(p->rows.ctx, &error);
}

/* ---- errors -------------------------------------------------------------- */

/* Names the first bad row of the first bad field. */
static spc_status fail_range(const spc_points *p, const int32_t *stats,
                             spc_error *error)
{
    /* Rows are counted down from SPC_INDEX_NO_ROW, so the largest entry is the
     * first bad row, and 0 means none. */
    const int32_t *bad = stats + SPC_POINTS_BAD_ROW;
    int at = 0;

    for (int i = 1; i < 4; i++)
        if (bad[i] > bad[at])
            at = i;
    int row = SPC_INDEX_NO_ROW - bad[at];
    if (at == 3)
        return spc__fail(error, SPC_ERANGE,
                         "row %d: its batch element is not 0 to %d", row,
                         p->batches - 1);
    return spc__fail(
        error, SPC_ERANGE,
        "row %d: its %s is NaN or outside the cloud's extent, %g to %g", row,
        field_names[at], (double)p->low[at], (double)p->high[at]);
}

spc_status spc__points_inspect(spc_points *p, void *stream, spc_error *error)
{
    spc__device *device = p->rows.ctx->device;
    int32_t stats[SPC_POINTS_STATS], count;
    spc_status status;

    if ((status = ops_of(p)->copy_out(device, stats, p->stats, sizeof stats,
                                      stream, error)) != SPC_OK ||
        (status = ops_of(p)->copy_out(device, &count, p->rows.count,
                                      sizeof count, stream, error)) != SPC_OK ||
        (status = ops_of(p)->sync(device, stream, error)) != SPC_OK)
        return status;
    p->rows.rows = count;
    p->rows.checked = true;
    /* A bad count left the cloud empty, so it comes before errors of rows. */
    if (stats[SPC_POINTS_ROWS] < 0)
        return spc__fail(error, SPC_ECAPACITY,
                         "a count of %d points: the cloud holds none",
                         stats[SPC_POINTS_ROWS]);
    if (stats[SPC_POINTS_ROWS] > p->rows.capacity)
        return spc__fail(error, SPC_ECAPACITY,
                         "%s for a cloud of %d: none were stored; a capacity "
                         "of %d would have fitted",
                         spc__count(stats[SPC_POINTS_ROWS], "point"),
                         p->rows.capacity, stats[SPC_POINTS_ROWS]);
    return stats[SPC_POINTS_BAD_ROWS] ? fail_range(p, stats, error) : SPC_OK;
}

spc_status spc_points_check(spc_points *p, void *stream)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "points", p, NULL);

    if (status != SPC_OK)
        return status;
    if ((status = spc__coords_need_filled(&p->rows, &error)) == SPC_OK)
        status = spc__points_inspect(p, stream, &error);
    return status == SPC_OK ? status : spc__ctx_fail(p->rows.ctx, &error);
}

/* ---- queries ------------------------------------------------------------- */

int64_t spc_points_rows(const spc_points *p)
{
    return p ? p->rows.rows : 0;
}

int64_t spc_points_capacity(const spc_points *p)
{
    return p ? p->rows.capacity : 0;
}

const int32_t *spc_points_device_count(const spc_points *p)
{
    return p ? p->rows.count : NULL;
}

const float *spc_points_data(const spc_points *p)
{
    return p ? p->at : NULL;
}

const int32_t *spc_points_sources(const spc_points *p)
{
    return p ? p->sources : NULL;
}
