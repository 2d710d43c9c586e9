/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coords_fill.c - fills coordinate sets, reports errors in their rows, and
 * answers queries.
 */
#include "coords/coords.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/plural.h"
#include "coords/index/indexer.h"
#include "coords/map.h"
#include "coords/regroup/regroup.h"
#include <string.h>

/* ---- filling ---------------------------------------------------------- */

spc_status spc__coords_need_filled(const spc_coords *c, spc_error *error)
{
    bool is_cloud = c->keys == NULL;

    if (c->filled)
        return SPC_OK;
    return spc__fail(error, SPC_ESTATE,
                     "the %s was never filled%s: call %s first",
                     is_cloud ? "cloud" : "coordinate set",
                     c->capacity < c->reserved ? " with its new capacity" : "",
                     is_cloud     ? "spc_points_update"
                     : c->regroup ? "spc_coords_update_regrouped"
                                  : "spc_coords_update");
}

void spc__coords_changed(spc_coords *c, spc_status status)
{
    c->checked = false;
    c->filled |= status == SPC_OK;
}

spc_status spc__coords_build(spc_coords *c, const spc__source *source,
                             void *stream, spc_error *error)
{
    spc_status status = c->indexer->set_build(c, source, stream, error);

    spc__coords_changed(c, status);
    return status;
}

spc_status spc__coords_derive_set(spc_coords *c, const spc__source *rows,
                                  void *stream, spc_error *error)
{
    /* Kernels can derive from the rows of the root, so the inputs matter only
     * without them. */
    spc_status status = rows ? SPC_OK : spc__coords_need_filled(c->from, error);

    if (status == SPC_OK)
        status = c->indexer->set_derive(c, rows, stream, error);
    spc__coords_changed(c, status);
    return status;
}

/* Checks an update's arguments as far as the host knows them.
 * spc_coords_check() reports the rest. */
static spc_status check_update(const spc_coords *c, const int32_t *coords,
                               const int32_t *count, int64_t rows,
                               spc_error *error)
{
    if (spc__coords_is_derived(c))
        return coords ? spc__fail(error, SPC_EINVAL,
                                  "a set of outputs is derived from its "
                                  "inputs: its coordinates must be NULL")
                      : SPC_OK;
    if (count == NULL && (rows < 0 || rows > c->capacity))
        return spc__fail(error, rows < 0 ? SPC_EINVAL : SPC_ECAPACITY,
                         "cannot fill a set with %s: its capacity is %d",
                         spc__count(rows, "row"), c->capacity);
    if (coords == NULL && (count || rows > 0))
        return spc__fail(error, SPC_EINVAL,
                         "cannot fill a set without coordinates");
    return SPC_OK;
}

spc_status spc_coords_update(spc_coords *c, const int32_t *coords,
                             const int32_t *count, int64_t rows, void *stream)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "set", c, NULL);

    if (status != SPC_OK)
        return status;
    status = check_update(c, coords, count, rows, &error);
    if (status == SPC_OK && c->from) {
        status = spc__coords_derive_set(c, NULL, stream, &error);
    } else if (status == SPC_OK && c->regroup) {
        status = spc__regroup_fill(c, NULL, stream, &error);
    } else if (status == SPC_OK) {
        spc__source source = {coords, count, (int)rows};
        status = spc__coords_build(c, &source, stream, &error);
    }
    c->in_flight = true;
    return status == SPC_OK ? status : spc__ctx_fail(c->ctx, &error);
}

spc_status spc__coords_derive(spc_coords *c, const int32_t *coords,
                              const int32_t *count, int64_t rows, void *stream)
{
    spc__source source = {coords, count, (int)rows};
    spc_error error = {0};
    spc_status status = spc__coords_derive_set(c, &source, stream, &error);

    return status == SPC_OK ? status : spc__ctx_fail(c->ctx, &error);
}

spc_status spc__coords_build_checked(spc_coords *c, const int32_t *coords,
                                     const int32_t *host, void *stream,
                                     spc_error *error)
{
    spc__source source = {coords, NULL, c->capacity};
    spc_status status = spc__coords_build(c, &source, stream, error);

    return status == SPC_OK ? spc__coords_inspect(c, host, stream, error)
                            : status;
}

spc_status spc_coords_merge_features(const spc_coords *c, void *features,
                                     spc_dtype dtype, int channels,
                                     void *stream)
{
    spc_error error = {0};
    spc_status status = spc__need(c ? spc__error_of(c->ctx) : NULL, __func__,
                                  "coords", c, "features", features, NULL);

    /* Under the other policies no row was merged, so the features are
     * complete. */
    if (status != SPC_OK || c->duplicates < SPC_DUPLICATES_SUM)
        return status;
    if (c->regroup)
        status = spc__fail(&error, SPC_EINVAL,
                           "a set made of others has no rows of the caller to "
                           "merge: spc_coords_gather_features adds up theirs");
    else if (spc__dtype_is_whole(dtype))
        status = spc__fail(&error, SPC_EUNSUPPORTED,
                           "sums of quantised features (i8) do not fit i8: "
                           "merge duplicates before quantisation");
    else if (channels < 1 || spc__dtype_of(dtype) == NULL)
        status = spc__fail(&error, SPC_EINVAL,
                           "cannot merge features of %s, type %d",
                           spc__count(channels, "channel"), (int)dtype);
    else if ((status = spc__coords_need_filled(c, &error)) == SPC_OK)
        status =
            c->indexer->set_merge(c, features, dtype, channels, stream, &error);
    return status == SPC_OK ? status : spc__ctx_fail(c->ctx, &error);
}

/* ---- errors ----------------------------------------------------------- */

/* Names the first row outside the extent and its axis. */
static spc_status fail_range(const spc_coords *c, const int32_t *bad_row,
                             spc_error *error)
{
    int at = 0;

    /* Each axis has a first bad row. The smallest of these is the first bad row
     * of the set. */
    for (int i = 1; i < 4; i++)
        if (bad_row[i] < bad_row[at])
            at = i;
    return spc__fail(
        error, SPC_ERANGE,
        "row %d: its %s is outside the set's extent, %d to %d; reserve a set "
        "for the whole range of the sensor, or drop such rows first",
        (int)bad_row[at], spc__field_names[at], (int)c->key.low[at],
        (int)spc__key_high(&c->key, at));
}

/* Names the first pair of equal rows if the coordinates are available, else
 * only the second row of the pair. */
static spc_status fail_duplicate(const spc_coords *set, const int32_t *stats,
                                 const int32_t *host, spc_error *error)
{
    int second = stats[SPC_INDEX_DUPLICATE_ROW], first = 0;
    int count = stats[SPC_INDEX_DUPLICATES];

    if (!host || second < 0 || second >= set->capacity)
        return spc__fail(error, SPC_EDUPLICATE,
                         "%s with the coordinate of an earlier row, first in "
                         "row %d; merge duplicates first, or choose another "
                         "policy than SPC_DUPLICATES_ERROR",
                         spc__count(count, "row"), second);
    const int32_t *c = host + 4 * (size_t)second;
    /* Ends at the latest at row `second` itself. */
    while (memcmp(host + 4 * (size_t)first, c, 16) != 0)
        first++;
    return spc__fail(error, SPC_EDUPLICATE,
                     "rows %d and %d have the same coordinate (batch %d, x %d, "
                     "y %d, z %d); merge duplicates first",
                     first, second, (int)c[0], (int)c[1], (int)c[2], (int)c[3]);
}

spc_status spc__coords_verdict(const spc_coords *c, const int32_t *host,
                               spc_error *error)
{
    const int32_t *stats = c->seen;

    /* The order matters: with too many rows nothing was stored, and the other
     * counters mean nothing. */
    if (stats[SPC_INDEX_ROWS] < 0)
        return spc__fail(error, SPC_ECAPACITY,
                         "a count of %d rows: the set holds none",
                         stats[SPC_INDEX_ROWS]);
    if (stats[SPC_INDEX_ROWS] > c->capacity)
        return spc__fail(error, SPC_ECAPACITY,
                         "%s for a set of %d: none were stored; a capacity of "
                         "%d would have fitted",
                         spc__count(stats[SPC_INDEX_ROWS], "row"), c->capacity,
                         stats[SPC_INDEX_ROWS]);
    if (stats[SPC_INDEX_BAD_ROWS] != 0)
        return fail_range(c, stats + SPC_INDEX_BAD_ROW, error);
    if (stats[SPC_INDEX_DUPLICATES] != 0 &&
        c->duplicates == SPC_DUPLICATES_ERROR)
        return fail_duplicate(c, stats, host, error);
    return SPC_OK;
}

spc_status spc__coords_inspect(spc_coords *c, const int32_t *host, void *stream,
                               spc_error *error)
{
    spc_status status = spc__inspect(&c, 1, NULL, NULL, 0, NULL, stream, error);

    return status == SPC_OK ? spc__coords_verdict(c, host, error) : status;
}

spc_status spc_coords_check(spc_coords *c, void *stream)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "coords", c, NULL);

    if (status == SPC_OK &&
        (status = spc__coords_need_filled(c, &error)) == SPC_OK)
        status = spc__coords_inspect(c, NULL, stream, &error);
    return status == SPC_OK || !c ? status : spc__ctx_fail(c->ctx, &error);
}

/* ---- the capacity ----------------------------------------------------- */

/* The capacity may shrink and grow within the memory that was reserved. */
static spc_status check_capacity(const spc_coords *c, int64_t rows,
                                 spc_error *error)
{
    if (c->fixed)
        return spc__fail(error, SPC_ESTATE,
                         "the capacity of this set cannot change: %s",
                         c->fixed);
    if (rows < 0 || rows > c->reserved)
        return spc__fail(error, rows < 0 ? SPC_EINVAL : SPC_ECAPACITY,
                         "a capacity of %lld rows: the set has memory for %d",
                         (long long)rows, c->reserved);
    return SPC_OK;
}

spc_status spc_coords_set_capacity(spc_coords *c, int64_t rows)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "set", c, NULL);

    if (status != SPC_OK)
        return status;
    if ((status = check_capacity(c, rows, &error)) != SPC_OK)
        return spc__ctx_fail(c->ctx, &error);
    int padded = spc__coords_padded((int)rows);
    /* Positions after the last voxel are padding, so the set remains valid with
     * fewer of them. Further positions were never written. */
    bool stays = c->checked && rows >= c->rows && padded <= c->rows_padded;
    c->capacity = (int)rows;
    c->rows_padded = padded;
    c->filled &= stays;
    c->checked &= stays;
    return SPC_OK;
}

/* ---- queries ---------------------------------------------------------- */

int64_t spc_coords_rows(const spc_coords *c)
{
    return c ? c->rows : 0;
}

int64_t spc_coords_capacity(const spc_coords *c)
{
    return c ? c->capacity : 0;
}

int64_t spc_coords_reserved(const spc_coords *c)
{
    return c ? c->reserved : 0;
}

int spc_coords_key_bits(const spc_coords *c)
{
    return c ? spc__key_bits(&c->key) : 0;
}

const int32_t *spc_coords_device_count(const spc_coords *c)
{
    return c ? c->count : NULL;
}

const int32_t *spc_coords_data(const spc_coords *c)
{
    return c && spc__coords_is_derived(c) ? c->data : NULL;
}

void spc__coords_args(spc_index_set *out, const spc_coords *c, int bin_bits,
                      int *begins, int *shares)
{
    enum { SHARE_BITS = 7 }; /* SPC_INDEX_SHARES */

    *out = (spc_index_set){
        .keys = c->keys,
        .order = c->order,
        .begins = begins,
        .shares = shares,
        .count = c->count,
        .rows = c->capacity,
        .rows_padded = c->rows_padded,
        .bin_shift = c->key.bits > bin_bits ? c->key.bits - bin_bits : 0,
        .share_shift = bin_bits - SHARE_BITS,
        .key = c->key,
    };
}
