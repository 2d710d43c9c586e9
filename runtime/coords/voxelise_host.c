/* SPDX-License-Identifier: Apache-2.0 */
/*
 * voxelise_host.c - voxelisation on the cpu device: the same steps as the
 * template's, in threaded C.
 */
#include "base/cancel.h"
#include "base/dtype.h"
#include "base/error.h"
#include "coords/index/index_host.h"
#include "coords/voxelise.h"
#include <string.h>

enum { CHUNK = 4096, COLUMNS_MOST = 64 };

static spc_status host_create(spc_voxels *v, spc_error *error)
{
    (void)v, (void)error;
    return SPC_OK;
}

static void host_destroy(spc_voxels *v)
{
    (void)v;
}

/* ---- the voxel of a point ------------------------------------------------ */

/* Counts a bad point and keeps the number of the first. Several threads do so
 * at once. */
static void note_bad(const spc_voxelise_args *args, int point)
{
    int32_t *first = args->stats + SPC_VOXELISE_BAD_POINT;
    int32_t seen = __atomic_load_n(first, __ATOMIC_RELAXED);
    /* Counts down, so that the maximum is the first point and the cleared value
     * 0 means none. */
    int32_t mine = INT32_MAX - point;

    __atomic_fetch_add(args->stats + SPC_VOXELISE_BAD, 1, __ATOMIC_RELAXED);
    while (mine > seen &&
           !__atomic_compare_exchange_n(first, &seen, mine, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* The batch element of a point, or -1 if its column has no such number. */
static int batch_of(const spc_voxelise_args *args, const float *point)
{
    float b = args->batched ? point[0] : 0;

    /* The comparison refuses NaN. The range is checked before the cast, which
     * is undefined for values outside int. */
    if (!(b >= 0 && b < (float)args->batches) || (float)(int)b != b)
        return -1;
    return (int)b;
}

static bool is_numbers(const float *at)
{
    return at[0] == at[0] && at[1] == at[1] && at[2] == at[2];
}

/* For values >= 0, truncation is the same as floor. */
static bool cell_of(int32_t *cell, const spc_voxelise_args *args,
                    const float *at)
{
    for (int a = 0; a < 3; a++) {
        /* In float, like the kernel: all devices put a point into the same
         * voxel. */
        float q = (at[a] - args->low[a]) / args->size[a];
        if (!(q >= 0 && q < (float)args->cells[a]))
            return false;
        cell[a] = (int32_t)q;
    }
    return true;
}

/* Writes the voxel of a point. The kernel spc_voxel_list does the same on a
 * device. */
static void list_point(const spc_voxelise_args *args, int i)
{
    const float *point = args->points + (int64_t)i * args->pitch;
    const float *at = point + args->batched;
    int32_t voxel[4] = {batch_of(args, point)};

    if (voxel[0] < 0 || !is_numbers(at)) {
        note_bad(args, i);
        /* -1 in every field is outside any extent, so the set leaves the row
         * out. */
        memset(voxel, 0xff, sizeof voxel);
    } else if (!cell_of(voxel + 1, args, at)) {
        __atomic_fetch_add(args->stats + SPC_VOXELISE_OUTSIDE, 1,
                           __ATOMIC_RELAXED);
        memset(voxel, 0xff, sizeof voxel);
    }
    memcpy(args->list + 4 * (size_t)i, voxel, sizeof voxel);
}

/* ---- features of a voxel ------------------------------------------------- */

/* The points of a voxel that take part. */
static const int *points_of(int *count, const spc_voxelise_args *args,
                            int voxel)
{
    int begin = args->twin_begin[voxel];

    *count = args->twin_begin[voxel + 1] - begin;
    if (args->most > 0 && *count > args->most)
        *count = args->most;
    return args->twins + begin;
}

static const float *row_of(const spc_voxelise_args *args, int point)
{
    return args->points + (int64_t)point * args->pitch + args->batched;
}

/* The mean of the points of a voxel. */
static void mean_of(float *out, const spc_voxelise_args *args,
                    const int *points, int count)
{
    /* Adds in the order of the points, since all devices must give the same
     * bits. */
    memcpy(out, row_of(args, points[0]), sizeof(float) * (size_t)args->columns);
    for (int i = 1; i < count; i++)
        for (int c = 0; c < args->columns; c++)
            out[c] += row_of(args, points[i])[c];
    for (int c = 0; c < args->columns; c++)
        out[c] /= (float)count;
}

/* The features of a voxel: the mean, or the first points themselves. */
static void fill_features(const spc_voxelise_args *args, const spc__dtype *type,
                          int voxel, const int *points, int count)
{
    static const float zeros[COLUMNS_MOST];
    size_t columns = (size_t)args->columns, each = columns * type->bytes;
    size_t rows = args->mean ? 1 : (size_t)args->most;
    char *to = (char *)args->features + (size_t)voxel * rows * each;
    float mean[COLUMNS_MOST];

    if (args->mean) {
        mean_of(mean, args, points, count);
        type->encode(to, mean, columns);
        return;
    }
    /* Places after the last point are zeros. */
    for (int i = 0; i < args->most; i++)
        type->encode(to + (size_t)i * each,
                     i < count ? row_of(args, points[i]) : zeros, columns);
}

/* Writes a voxel: coordinate, number of points and features. */
static void fill_voxel(const spc_voxelise_args *args, const spc__dtype *type,
                       int voxel)
{
    int count;
    const int *points = points_of(&count, args, voxel);

    /* `order` has the first point of the voxel, and all its points have the
     * same coordinate. */
    memcpy(args->coords + 4 * (size_t)voxel,
           args->list + 4 * (size_t)args->order[voxel], 16);
    args->points_of[voxel] = count;
    fill_features(args, type, voxel, points, count);
}

/* ---- both, by threads ---------------------------------------------------- */

typedef struct loop {
    const spc_voxelise_args *args;
    const spc__dtype *type; /* type of the features; NULL: this call lists
                               points */
    int count;
} loop;

/* One task of the pool: a chunk of points or of voxels. */
static void run_chunk(void *payload, int64_t chunk)
{
    const loop *l = payload;
    int64_t end = (chunk + 1) * CHUNK;

    for (int64_t i = chunk * CHUNK; i < end && i < l->count; i++)
        if (l->type == NULL)
            list_point(l->args, (int)i);
        else
            fill_voxel(l->args, l->type, (int)i);
}

/* Spreads a loop over the threads of the pool. */
static spc_status spread_chunks(const spc_voxels *v, loop *l, int most,
                                spc_error *error)
{
    /* A count above the capacity is reported by spc_voxels_check(). Here only
     * an overrun of the arrays must be prevented. */
    l->count = l->count < most ? l->count : most;
    int chunks = (l->count + CHUNK - 1) / CHUNK;
    return spc__host_spread(v->ctx, chunks, run_chunk, l)
               ? SPC_OK
               : spc__interrupted(error);
}

/* Finds the voxel of each point. */
static spc_status host_list(const spc_voxels *v, const spc_voxelise_args *args,
                            void *stream, spc_error *error)
{
    loop l = {args, NULL, args->count ? *args->count : args->rows};

    (void)stream;
    return spread_chunks(v, &l, args->capacity, error);
}

/* Fills the voxels. */
static spc_status host_fill(const spc_voxels *v, const spc_voxelise_args *args,
                            void *stream, spc_error *error)
{
    loop l = {args, spc__dtype_of(v->how.dtype), *args->listed};

    (void)stream;
    *args->voxels = *args->listed; /* the cpu device parks no points */
    return spread_chunks(v, &l, args->room, error);
}

const spc__voxeliser spc__voxeliser_host = {
    .create = host_create,
    .destroy = host_destroy,
    .list = host_list,
    .fill = host_fill,
};
