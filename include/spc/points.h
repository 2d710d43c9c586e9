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
 * Convolution on points that stay where they are (PointCNN++: Li and others,
 * 2025, section 3). An output at the point o sees every input i of its batch
 * element within the radius, with the weight of the cell in which i - o lies:
 * the cube of edge 2 * radius about o has kernel cells along each axis. A cell
 * may hold several inputs, or none:
 *
 *     sum[o][co] = the sum over the triplets (o, i, k) and c < cin / groups of
 *                  weights[co][k][c] * in[i][g * cin / groups + c]
 *
 * All of that is decided in fp32, each operation rounded to nearest and none
 * fused, so that every device finds the same triplets:
 *
 *     d = i - o on each axis; i is seen if (dx dx + dy dy) + dz dz <= r r
 *     the cell along an axis is floor(d * (kernel / (2 r)) + kernel / 2), at
 *     least 0 and at most kernel - 1; k = (x * ky + y) * kz + z
 *
 * With `nearest` at most that many inputs count, those of least distance. Among
 * equal distances the first ones in search order count: cells of edge r in
 * ascending order of (x, y, z), then rows. The triplets of an output are in
 * ascending order of k, and in search order within one k. So sums repeat bit by
 * bit.
 *
 * Voxel convolution is a special case: at whole coordinates, with kernel 3 and
 * a radius from sqrt(3) to below 2, these are the triplets of subm,k=3.
 *
 * Clouds are reserved and updated like coordinate sets: a capacity, an extent,
 * a count on the device, nothing that waits or allocates. Points outside the
 * extent, or not finite, take part in nothing. With more rows than the capacity
 * a cloud is empty, and with more triplets than a map has room for the map is;
 * both say so when they are checked. Points may be equal.
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

/* Clouds of `rows` points (device, [rows][3]); `batch` (device, [rows]) is the
 * element of each, NULL: all are of element 0. Neither is needed afterwards.
 * Waits to learn the extent. The caller frees *out. SPC_EINVAL, also where they
 * do not start at a multiple of 4 bytes; SPC_ERANGE: a row that is not finite,
 * or of a negative element; SPC_EDEVICE. */
SPC_API spc_status spc_points_create(spc_points **out, spc_ctx *ctx,
                                     const float *xyz, const int32_t *batch,
                                     int64_t rows, void *stream);
/* An empty cloud of a stated capacity and extent. The caller frees *out.
 * SPC_EINVAL: the extent is that of SPC_POINTS_OPTIONS_INIT, one point, for
 * more points than one. */
SPC_API spc_status spc_points_create_reserved(
    spc_points **out, spc_ctx *ctx, const spc_points_options *options);
/*
 * Down-sampling that keeps true points: the result has, for each voxel floor(p
 * * (1 / edge)) computed in fp32, the first row of `in` inside it. Its rows are
 * in ascending order of the voxels' (batch, x, y, z). Keeps `in` alive.
 * The caller frees *out. SPC_ERANGE: voxels so small that their numbers do not
 * fit.
 */
SPC_API spc_status spc_points_create_sampled(spc_points **out, spc_points *in,
                                             float edge);
SPC_API void spc_points_free(spc_points *points); /* maps keep it alive */

/* Fills a cloud anew on `stream` from `rows` points, or, if `count` (device) is
 * not NULL, from *count of them; xyz is [rows][3] and batch [rows], as for
 * spc_points_create, and both stay until the stream has read them. A sampled
 * cloud takes NULL for xyz, batch and count. SPC_ECAPACITY: `rows` is more than
 * the capacity; SPC_EINVAL. */
SPC_API spc_status spc_points_update(spc_points *points, const float *xyz,
                                     const int32_t *batch, const int32_t *count,
                                     int64_t rows, void *stream);
/* Waits for `stream`. SPC_ECAPACITY with the capacity that would have fitted,
 * SPC_ERANGE with the first row outside the extent. */
SPC_API spc_status spc_points_check(spc_points *points, void *stream);

/* Rows as of the last check; the capacity; and on the device the count, the
 * points as [capacity][4], x, y, z and the element (int32), and of a sampled
 * cloud the row of its source that each is, [capacity] (else NULL). Arrays live
 * as long as the cloud. */
SPC_API int64_t spc_points_rows(const spc_points *points);
SPC_API int64_t spc_points_capacity(const spc_points *points);
SPC_API const int32_t *spc_points_device_count(const spc_points *points);
SPC_API const float *spc_points_data(const spc_points *points);
SPC_API const int32_t *spc_points_sources(const spc_points *points);

/*
 * The map of a points layer: outputs at `to`, which may be `in`. `triplets` is
 * how many it has room for. spc_map_update (without coords) finds them, once
 * the clouds are filled and whenever they are filled anew; spc_map_check says
 * SPC_ECAPACITY with the room that would have fitted. The map keeps its clouds
 * alive, serves plans as any map, and has no table (spc_map_download).
 * SPC_EINVAL; SPC_ERANGE: the radius is too small for the extent. The caller
 * frees *out.
 */
SPC_API spc_status spc_map_create_radius(spc_map **out, spc_points *in,
                                         spc_points *to,
                                         const spc_geometry *geometry,
                                         int64_t triplets);
/* The same relation in reverse, for inverse layers (up-sampling, and gradients
 * through a layer). An output at `to`, the inputs of the layer, reads each
 * point of `in` that has this output within its radius, at the same k; with
 * `nearest`, each point that has it among its nearest. Fails as
 * spc_map_create_radius. The caller frees *out. */
SPC_API spc_status spc_map_create_radius_inverse(spc_map **out, spc_points *in,
                                                 spc_points *to,
                                                 const spc_geometry *geometry,
                                                 int64_t triplets);

typedef struct spc_triplet {
    int32_t out, in, k;
} spc_triplet;

/* Copies the spc_map_pairs triplets of a checked map to out[] on the host,
 * those of an output together and in their order. Waits. SPC_EINVAL: a map of
 * voxels; SPC_ESTATE: nothing has filled it; SPC_EDEVICE. */
SPC_API spc_status spc_map_download_triplets(spc_triplet *out,
                                             const spc_map *map);

#ifdef __cplusplus
}
#endif
#endif
