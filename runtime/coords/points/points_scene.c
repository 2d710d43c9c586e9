/* SPDX-License-Identifier: Apache-2.0 */
/*
 * points_scene.c - clouds and maps made from known rows, with exactly the
 * capacity that the rows need.
 */
#include "coords/points/points.h"

#include "base/error.h"
#include "operators/conv.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const spc__device_ops *ops_of(const spc_points *p)
{
    return spc__device_ops_of(p->rows.ctx->device);
}

/* ---- points on a device -------------------------------------------------- */

/* Widens the extent to hold a point. */
static void widen(spc_points_options *o, const float p[3], int32_t batch)
{
    for (int i = 0; i < 3; i++) {
        o->low[i] = p[i] < o->low[i] ? p[i] : o->low[i];
        o->high[i] = p[i] > o->high[i] ? p[i] : o->high[i];
    }
    if (batch >= o->batches) /* INT_MAX has no successor */
        o->batches = batch < INT32_MAX ? batch + 1 : batch;
}

/* Computes the extent of `rows` points on the host. */
static spc_points_options extent_of(const float *xyz, const int32_t *batch,
                                    int64_t rows)
{
    spc_points_options o = SPC_POINTS_OPTIONS_INIT;

    o.capacity = rows;
    for (int64_t row = 0; row < rows; row++) {
        const float *p = xyz + 3 * row;
        /* The first point replaces the initial extent, which need not contain
         * any point. */
        if (row == 0) {
            memcpy(o.low, p, sizeof o.low);
            memcpy(o.high, p, sizeof o.high);
        }
        widen(&o, p, batch ? batch[row] : 0);
    }
    return o;
}

/* Names the first row that is not a valid point. The extent of such rows would
 * be NaN. */
static spc_status check_finite(const float *xyz, const int32_t *batch,
                               int64_t rows, spc_error *error)
{
    for (int64_t i = 0; i < rows; i++)
        if (!isfinite(xyz[3 * i]) || !isfinite(xyz[3 * i + 1]) ||
            !isfinite(xyz[3 * i + 2]) || (batch && batch[i] < 0))
            return spc__fail(error, SPC_ERANGE,
                             "row %lld is not a point: its coordinates must be "
                             "finite, and its batch element 0 or more",
                             (long long)i);
    return SPC_OK;
}

/* Copies points from the device to compute their extent. */
static spc_status fetch_extent(spc_points_options *out, spc_ctx *ctx,
                               const float *xyz, const int32_t *batch,
                               int64_t rows, void *stream, spc_error *error)
{
    const spc__device_ops *ops = spc__device_ops_of(ctx->device);
    size_t bytes = 12 * (size_t)rows, more = batch ? 4 * (size_t)rows : 0;
    /* One byte more, as malloc(0) may return NULL. */
    char *host = malloc(bytes + more + 1);
    spc_status status = SPC_OK;

    if (!host)
        return spc__fail_memory(error, bytes + more);
    const float *at = (const float *)(void *)host;
    const int32_t *of = batch ? (const int32_t *)(void *)(host + bytes) : NULL;
    if (rows > 0)
        status = ops->copy_out(ctx->device, host, xyz, bytes, stream, error);
    if (status == SPC_OK && rows > 0 && batch)
        status = ops->copy_out(ctx->device, host + bytes, batch, more, stream,
                               error);
    if (status == SPC_OK)
        status = ops->sync(ctx->device, stream, error);
    /* Checks points before the extent is computed, which NaN would not
     * widen. */
    if (status == SPC_OK)
        status = check_finite(at, of, rows, error);
    if (status == SPC_OK)
        *out = extent_of(at, of, rows);
    free(host);
    return status;
}

/* Checks the arguments before anything is copied. */
static spc_status check_rows(const float *xyz, const int32_t *batch,
                             int64_t rows, spc_error *error)
{
    if (rows > 0 && !xyz)
        return spc__fail(error, SPC_EINVAL,
                         "cannot make a cloud of %lld points without their "
                         "coordinates",
                         (long long)rows);
    spc_status status = spc__points_check_rows(rows, error);
    return status == SPC_OK ? spc__points_check_aligned(xyz, batch, NULL, error)
                            : status;
}

spc_status spc_points_create(spc_points **out, spc_ctx *ctx, const float *xyz,
                             const int32_t *batch, int64_t rows, void *stream)
{
    spc_points_options o = SPC_POINTS_OPTIONS_INIT;
    spc_error error = {0};
    spc_status status =
        spc__need(spc__error_of(ctx), __func__, "out", out, "ctx", ctx, NULL);

    if (out)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    status = check_rows(xyz, batch, rows, &error);
    if (status == SPC_OK)
        status = fetch_extent(&o, ctx, xyz, batch, rows, stream, &error);
    if (status == SPC_OK)
        status = spc__points_make(out, ctx, &o, NULL, &error);
    if (status == SPC_OK)
        status = spc__points_fill(*out, xyz, batch, NULL, rows, stream, &error);
    if (status == SPC_OK)
        status = spc__points_inspect(*out, stream, &error);
    if (status == SPC_OK)
        return status;
    spc_points_free(*out);
    *out = NULL;
    return spc__ctx_fail(ctx, &error);
}

/* The smallest extent that holds the points of a recorded scene. */
static spc_points_options extent_of_units(const int32_t *host, int64_t rows)
{
    spc_points_options o = SPC_POINTS_OPTIONS_INIT;

    o.capacity = rows;
    for (int64_t row = 0; row < rows; row++) {
        const int32_t *c = host + 4 * row;
        float p[3];
        for (int i = 0; i < 3; i++)
            p[i] = (float)c[1 + i] * SPC_POINTS_STEP;
        if (row == 0) {
            memcpy(o.low, p, sizeof p);
            memcpy(o.high, p, sizeof p);
        }
        widen(&o, p, c[0]);
    }
    return o;
}

/* Copies a recorded scene to the device and fills the cloud with it. */
static spc_status upload_units(spc_points *p, const int32_t *host, int64_t rows,
                               spc_error *error)
{
    spc_ctx *ctx = p->rows.ctx;
    int32_t *units = NULL;
    size_t bytes = 16 * (size_t)rows;
    spc_status status = spc__coords_alloc(&units, &p->rows, bytes, error);

    if (status == SPC_OK && rows > 0)
        status =
            ops_of(p)->copy_in(ctx->device, units, host, bytes, NULL, error);
    if (status == SPC_OK)
        status = spc__points_fill_units(p, units, NULL, (int)rows, NULL, error);
    if (status == SPC_OK)
        status = spc__points_inspect(p, NULL, error);
    spc__coords_dealloc(&p->rows, units);
    return status;
}

spc_status spc__points_create_units(spc_points **out, spc_ctx *ctx,
                                    const int32_t *host, int64_t rows,
                                    spc_error *error)
{
    spc_points_options o = extent_of_units(host, rows);
    spc_status status = spc__points_make(out, ctx, &o, NULL, error);

    if (status == SPC_OK)
        status = upload_units(*out, host, rows, error);
    if (status != SPC_OK) {
        spc_points_free(*out);
        *out = NULL;
    }
    return status;
}

/* A point that is left out gets batch -1: a negative batch marks rows that take
 * no part. */
static void round_point(int32_t to[4], const float at[4])
{
    memcpy(to, at + 3, sizeof *to);
    /* Rounds to the nearest unit, so that a cloud made from units gives exactly
     * these units again. */
    for (int a = 0; a < 3; a++)
        to[1 + a] = (int32_t)lrintf(at[a] / SPC_POINTS_STEP);
}

spc_status spc__points_units(int32_t **out, const spc_points *p,
                             spc_error *error)
{
    spc__device *device = p->rows.ctx->device;
    size_t bytes = 16 * (size_t)p->rows.rows;
    float *at = malloc(bytes + 1);
    int32_t *units = malloc(bytes + 1);
    spc_status status = SPC_OK;

    *out = NULL;
    if (!at || !units)
        status = spc__fail_memory(error, bytes);
    if (status == SPC_OK && bytes > 0)
        status = ops_of(p)->copy_out(device, at, p->at, bytes, NULL, error);
    if (status == SPC_OK)
        status = ops_of(p)->sync(device, NULL, error);
    for (int i = 0; i < p->rows.rows && status == SPC_OK; i++)
        round_point(units + 4 * (size_t)i, at + 4 * (size_t)i);
    if (status == SPC_OK) {
        *out = units;
        units = NULL;
    }
    free(at);
    free(units);
    return status;
}

/* ---- from a scene -------------------------------------------------------- */

/* Makes the layer's second cloud, if it has one. */
static spc_status make_other(spc_points **out, spc_points *scene, float voxel,
                             spc_error *error)
{
    spc_status status;

    *out = scene;
    /* One cloud serves as both sides, so the second side needs another
     * reference. */
    if (voxel == 0) {
        spc__coords_share(&scene->rows);
        return SPC_OK;
    }
    if ((status = spc_points_create_sampled(out, scene, voxel)) != SPC_OK) {
        *error = *spc__error_of(scene->rows.ctx);
        return status;
    }
    status = spc__points_pick(*out, NULL, error);
    return status == SPC_OK ? spc__points_inspect(*out, NULL, error) : status;
}

spc_status spc__radius_from_units(spc_map **out, spc_ctx *ctx,
                                  const spc_conv *conv, const int32_t *host,
                                  int64_t rows, spc_error *error)
{
    const spc_geometry *g = &conv->geometry;
    bool inverse = spc__conv_is_inverse(conv);
    spc_points *scene = NULL, *other = NULL;
    spc_map *map = NULL;
    spc_status status =
        spc__points_create_units(&scene, ctx, host, rows, error);

    if (status == SPC_OK)
        status = make_other(&other, scene, g->voxel, error);
    /* With room for no triplet; spc__radius_fit() finds the number and makes
     * room. */
    if (status == SPC_OK)
        status =
            spc__radius_create(&map, inverse ? other : scene,
                               inverse ? scene : other, g, 0, inverse, error);
    if (status == SPC_OK && (status = spc__radius_fit(map, error)) == SPC_OK) {
        map->counted = true;
        *out = map;
        map = NULL;
    }
    /* The map keeps the clouds alive, so the references of this function can
     * go. */
    spc_map_free(map);
    spc_points_free(other);
    spc_points_free(scene);
    return status;
}
