/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/points.h - clouds of points that stay where they are, and their maps.
 */
#ifndef SPC_POINTS_H
#define SPC_POINTS_H

#include "context.h"
#include "layer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- native points ------------------------------------------------------- */

/*
 * Convolution on points at their true positions (PointCNN++: Li and others,
 * 2025, section 3). An output at the point o sees every input i of its batch
 * element within the radius, with the weight of the cell in which i - o lies:
 * the cube of edge 2 * radius about o has kernel cells along each axis. A cell
 * may hold several inputs, or none:
 *
 *     sum[o][co] = the sum over the triplets (o, i, k) and c < cin / groups of
 *                  weights[co][k][c] * in[i][g * cin / groups + c]
 *
 * These tests are computed in fp32, with every operation rounded to nearest and
 * none fused, so that every device finds the same triplets:
 *
 *     d = i - o on each axis; i is seen if (dx dx + dy dy) + dz dz <= r r
 *     the cell along an axis is floor(d * (kernel / (2 r)) + kernel / 2), at
 *     least 0 and at most kernel - 1; k = (x * ky + y) * kz + z
 *
 * With `nearest`, only this many inputs count, those at the least distance.
 * Among equal distances the first ones in search order count: cells of edge r
 * in ascending order of (x, y, z), then rows. The triplets of an output are in
 * ascending order of k, and in search order within one k. So sums repeat bit by
 * bit.
 *
 * Voxel convolution is a special case: at whole coordinates, with kernel 3 and
 * a radius from sqrt(3) to below 2, these are the triplets of subm,k=3.
 *
 * Clouds are reserved and updated like coordinate sets: a capacity, an extent,
 * a count on the device, nothing that waits or allocates. Points outside the
 * extent, and points that are not finite, are ignored. A cloud with more rows
 * than its capacity is empty, and so is a map with more triplets than its
 * capacity; the checks report both errors. Points may be equal.
 */
typedef struct spc_points_options {
    size_t bytes;     /* sizeof this struct: SPC_POINTS_OPTIONS_INIT sets it */
    int64_t capacity; /* most rows */
    int32_t batches;  /* batch elements are 0 to batches - 1 */
    float low[3], high[3];
} spc_points_options;

#define SPC_POINTS_OPTIONS_INIT                                                \
    {                                                                          \
        sizeof(spc_points_options), 0, 1, {0, 0, 0},                           \
        {                                                                      \
            0, 0, 0                                                            \
        }                                                                      \
    }

/* Makes a cloud of `rows` points (device, [rows][3]); `batch` (device, [rows])
 * is the batch element of each point, NULL: all are of element 0. Both arrays
 * may be freed afterwards. Waits to learn the extent. The caller frees *out.
 * SPC_EINVAL, also for arrays that do not start at a multiple of 4 bytes;
 * SPC_ERANGE: a point is not finite, or its element is negative;
 * SPC_EDEVICE. */
SPC_API spc_status spc_points_create(spc_points **out, spc_ctx *ctx,
                                     const float *xyz, const int32_t *batch,
                                     int64_t rows, void *stream);
/* Makes an empty cloud of the stated capacity and extent. The caller frees
 * *out. SPC_EINVAL: the extent is still the single point of
 * SPC_POINTS_OPTIONS_INIT, with a capacity of more than one point. */
SPC_API spc_status spc_points_create_reserved(
    spc_points **out, spc_ctx *ctx, const spc_points_options *options);
/*
 * Down-sampling that keeps true points: the result has, for each voxel floor(p
 * * (1 / edge)) computed in fp32, the first row of `in` inside it. Its rows are
 * in ascending order of the voxels' (batch, x, y, z). Keeps `in` alive.
 * The caller frees *out. SPC_ERANGE: the voxels are so small that their
 * coordinates do not fit.
 */
SPC_API spc_status spc_points_create_sampled(spc_points **out, spc_points *in,
                                             float edge);
/* As spc_points_create_sampled, but keeps the point of each voxel that is
 * nearest to the voxel's centre, the first of equally near ones (PointCNN++).
 * Distances are computed in fp32, in edges. The caller frees *out. Fails as
 * spc_points_create_sampled. */
SPC_API spc_status spc_points_create_centred(spc_points **out, spc_points *in,
                                             float edge);
SPC_API void spc_points_free(spc_points *points); /* maps keep it alive */

/* Fills a cloud anew on `stream`. The number of points is *count (device), or
 * `rows` if `count` is NULL. xyz is [rows][3] and batch [rows], as for
 * spc_points_create; both must stay valid until the stream has read them. A
 * sampled cloud takes NULL for xyz, batch and count. SPC_ECAPACITY: `rows` is
 * more than the capacity; SPC_EINVAL. */
SPC_API spc_status spc_points_update(spc_points *points, const float *xyz,
                                     const int32_t *batch, const int32_t *count,
                                     int64_t rows, void *stream);
/* Waits for `stream`. SPC_ECAPACITY names the capacity that would have been
 * enough; SPC_ERANGE names the first row outside the extent. */
SPC_API spc_status spc_points_check(spc_points *points, void *stream);

/* Return the rows as of the last check, the capacity, and these arrays on the
 * device: the count; the points as [capacity][4]: x, y, z and the batch element
 * (int32); for a sampled cloud the source row of each point, [capacity] (else
 * NULL). Arrays live as long as the cloud. */
SPC_API int64_t spc_points_rows(const spc_points *points);
SPC_API int64_t spc_points_capacity(const spc_points *points);
SPC_API const int32_t *spc_points_device_count(const spc_points *points);
SPC_API const float *spc_points_data(const spc_points *points);
SPC_API const int32_t *spc_points_sources(const spc_points *points);

/*
 * Makes the map of a points layer, with outputs at `to`, which may be `in`.
 * `triplets` is its capacity. spc_map_update (without coords) finds the
 * triplets; call it after every filling of the clouds. spc_map_check returns
 * SPC_ECAPACITY with the capacity that would have been enough. The map keeps
 * its clouds alive. Plans use it like any map, but it has no table
 * (spc_map_download). SPC_EINVAL; SPC_ERANGE: the radius is too small for the
 * extent. The caller frees *out.
 */
SPC_API spc_status spc_map_create_radius(spc_map **out, spc_points *in,
                                         spc_points *to,
                                         const spc_geometry *geometry,
                                         int64_t triplets);
/* Makes the map of the same relation in the reverse direction, for inverse
 * layers (up-sampling, and gradients through a layer). An output at `to`, the
 * inputs of the layer, reads each point of `in` that has this output within its
 * radius, at the same k; with `nearest`, each point that has it among its
 * nearest. Fails as spc_map_create_radius. The caller frees *out. */
SPC_API spc_status spc_map_create_radius_inverse(spc_map **out, spc_points *in,
                                                 spc_points *to,
                                                 const spc_geometry *geometry,
                                                 int64_t triplets);

typedef struct spc_triplet {
    int32_t out, in, k;
} spc_triplet;

/* Copies the spc_map_pairs triplets of a checked map to out[] on the host,
 * grouped by output and in order. Waits. SPC_EINVAL: a map of voxels;
 * SPC_ESTATE: the map was never filled; SPC_EDEVICE. */
SPC_API spc_status spc_map_download_triplets(spc_triplet *out,
                                             const spc_map *map);

#ifdef __cplusplus
}
#endif
#endif
