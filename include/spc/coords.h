/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/coords.h - coordinate sets on the device, sets made of other sets, voxels
 * of points, and kernel maps.
 */
#ifndef SPC_COORDS_H
#define SPC_COORDS_H

#include "context.h"
#include "layer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- scenes -------------------------------------------------------------- */

/* Takes a copy of `rows` coordinates (host, [rows][4]) in their order,
 * duplicates and all; `name` (may be NULL) is what spc_scene_name returns. The
 * caller frees *out. SPC_EINVAL: fewer than 0 rows, or more than a scene can
 * have; SPC_ENOMEM. */
SPC_API spc_status spc_scene_create(spc_scene **out, const int32_t *coords,
                                    int64_t rows, const char *name,
                                    spc_error *error);
SPC_API void spc_scene_free(spc_scene *scene);
/* The coordinates, [rows][4]: batch, x, y, z. They and the name live as long as
 * the scene. */
SPC_API int64_t spc_scene_rows(const spc_scene *scene);
SPC_API const int32_t *spc_scene_coords(const spc_scene *scene);
SPC_API const char *spc_scene_name(const spc_scene *scene); /* its spec */

/* The size of a scene's source, and how much of it was left out. */
typedef struct spc_scene_info {
    int64_t points;    /* of the file or generator; of voxels their number */
    int64_t bad;       /* left out: a coordinate is NaN or infinite */
    int64_t first_bad; /* the first such row, from 0; without one 0 */
    int64_t outside;   /* left out: outside the range of a network */
    int64_t reserved[4]; /* 0 */
} spc_scene_info;

/* Fills *out; all 0 for a NULL scene. */
SPC_API void spc_scene_describe(spc_scene_info *out, const spc_scene *scene);

/* ---- coordinate sets ----------------------------------------------------- */

/*
 * The occupied voxels of one level: sorted once, shared by all maps of the
 * level. A set and its count live on the device. There are two ways to one:
 *
 *  - spc_coords_create, _create_from_scene and _create_outputs wait for the
 *    device to learn the extent or the count, and fit exactly;
 *
 *  - spc_coords_create_reserved and _create_outputs_reserved take a capacity and an
 * extent that are stated beforehand. From then on spc_coords_update and
 * spc_map_update only enqueue: no allocation, no synchronisation, no copy to
 * the host, no compiling, and a CUDA graph may capture them. An error becomes a
 * status on the device; the caller reads it with spc_coords_check at any time.
 *
 * A frame of a strided layer, its sets and its map reserved before the first:
 *
 *     spc_coords_update(in, coords, count, 0, stream);
 *     spc_coords_update(out, NULL, NULL, 0, stream);
 *     spc_map_update(map, NULL, NULL, 0, stream);
 *     spc_plan_execute(plan, map, &buffers, stream);
 *
 * Arrays of features have as many rows as the capacity of their set. Eager
 * frameworks want exactly as many as there are voxels. For these the capacity of
 * a reserved set can change. Nothing is allocated:
 *
 *     spc_coords_set_capacity(in, rows);
 *     spc_coords_update(in, coords, NULL, rows, stream);
 *     spc_coords_set_capacity(out, spc_coords_reserved(out));
 *     spc_coords_update(out, NULL, NULL, 0, stream);
 *     spc_coords_check(out, stream);            (the only wait)
 *     spc_coords_set_capacity(out, spc_coords_rows(out));
 *     spc_map_update(map, NULL, NULL, 0, stream);
 *
 * spc_map_update also fills all that spc_map_prepare has added to the map, such
 * as the layouts of the three passes of a training step. A map can be prepared
 * before it is filled for the first time.
 *
 * Features of a set stay in the order of the rows that the caller gave; a set
 * of outputs has its rows in ascending order of (batch, x, y, z).
 *
 * Bad rows have a defined result. A row outside the extent is ignored: no
 * output reads it and its own output is not written. If several rows have the
 * same voxel, only the first one counts and only its output is written. With
 * more rows than the capacity the set is empty. Nothing is truncated.
 */
typedef enum spc_duplicates {
    SPC_DUPLICATES_ERROR = 0, /* spc_coords_check says SPC_EDUPLICATE */
    SPC_DUPLICATES_FIRST = 1, /* the first row's features count */
    SPC_DUPLICATES_SUM = 2,   /* spc_coords_merge_features adds them up */
    SPC_DUPLICATES_MEAN = 3   /* spc_coords_merge_features takes their mean */
} spc_duplicates;

typedef struct spc_coords_options {
    size_t bytes;     /* sizeof this struct: SPC_COORDS_OPTIONS_INIT sets it */
    int64_t capacity; /* most rows */
    /* The stated extent: batch, x, y, z, both ends included. */
    int32_t low[4], high[4];
    /* How far kernels of maps may look past the extent, in voxels: (kernel - 1)
     * * dilation is enough for every rule with its own origin. 0: 8. Wider
     * guard bands cost bits of the keys. */
    int halo;
    spc_duplicates duplicates;
} spc_coords_options;

#define SPC_COORDS_OPTIONS_INIT                                                \
    {                                                                          \
        sizeof(spc_coords_options), 0, {0, 0, 0, 0}, {0, 0, 0, 0}, 0,          \
            SPC_DUPLICATES_ERROR                                               \
    }

/*
 * Makes the set of `coords` (device, [rows][4], at a multiple of 16 bytes on
 * cuda and sim), which are not needed afterwards. Waits for `stream` to learn
 * the extent. The caller frees *out. SPC_EDUPLICATE: two equal coordinates,
 * with their rows; SPC_ERANGE: the extent does not fit a 64-bit key, which
 * names the axis, or a batch is negative; SPC_EINVAL; SPC_EDEVICE, also where
 * memory is short.
 */
SPC_API spc_status spc_coords_create(spc_coords **out, spc_ctx *ctx,
                                     const int32_t *coords, int64_t rows,
                                     void *stream);
/* The same from a scene, which is not needed afterwards. The caller frees *out.
 */
SPC_API spc_status spc_coords_create_from_scene(spc_coords **out, spc_ctx *ctx,
                                                const spc_scene *scene);
/* The outputs of `geometry` (rule FLOOR, FOOTPRINT or GENERATIVE) over the set
 * `in`, which it keeps alive. Waits for the device to learn how many there are.
 * The caller frees *out. SPC_EINVAL: another rule; SPC_ESTATE: nothing has
 * filled `in`; SPC_ERANGE: the outputs do not fit a 64-bit key; SPC_EDEVICE. */
SPC_API spc_status spc_coords_create_outputs(spc_coords **out, spc_coords *in,
                                             const spc_geometry *geometry);

/* An empty set of a stated capacity and extent. The caller frees *out.
 * SPC_EINVAL: the extent is that of SPC_COORDS_OPTIONS_INIT, one voxel, for
 * more rows than one a batch element; SPC_ERANGE: it does not fit a 64-bit key;
 * SPC_EDEVICE. */
SPC_API spc_status spc_coords_create_reserved(
    spc_coords **out, spc_ctx *ctx, const spc_coords_options *options);
/* The same for the outputs of `geometry` over `in`, which it keeps alive. The
 * caller frees *out. SPC_EINVAL, SPC_ERANGE, SPC_EDEVICE. `capacity` 0: as many
 * as there can be: the capacity of `in` times one for FLOOR, and for FOOTPRINT
 * times the outputs that can see one input, on each axis ceil(kernel / stride)
 * where stride and dilation have no common divisor, and for GENERATIVE times
 * the kernel's offsets; or the whole extent of the outputs, if that is less. */
SPC_API spc_status spc_coords_create_outputs_reserved(
    spc_coords **out, spc_coords *in, const spc_geometry *geometry,
    int64_t capacity);
/* Maps and sets of outputs that use the set keep it alive. */
SPC_API void spc_coords_free(spc_coords *coords);

/*
 * Fills a set anew on `stream`: from `rows` coordinates [rows][4] (device, as
 * those of spc_coords_create), or, if `count` (device) is not NULL, from *count
 * of them. The stream reads both; they must stay until it has.
 * A set of outputs is derived from its inputs: `coords` and `count` are NULL.
 * SPC_ECAPACITY: `rows` is more than the capacity; SPC_EINVAL; SPC_EDEVICE.
 */
SPC_API spc_status spc_coords_update(spc_coords *set, const int32_t *coords,
                                     const int32_t *count, int64_t rows,
                                     void *stream);
/* Waits for `stream`. SPC_ECAPACITY names the capacity that would have fitted;
 * SPC_ERANGE and SPC_EDUPLICATE name the first such row. Afterwards
 * spc_coords_rows returns the number of voxels. The check covers only the last
 * filling: earlier ones since the previous check are not reported. */
SPC_API spc_status spc_coords_check(spc_coords *coords, void *stream);

/* Combines the features [rows][channels] (device, stored as `dtype`) of equal
 * rows into the first of these rows: their sum or their mean, by the set's
 * policy. Enqueues; does nothing with the other policies. SPC_EINVAL: a set
 * made of others; SPC_EUNSUPPORTED: I8; SPC_ESTATE; SPC_EDEVICE. */
SPC_API spc_status spc_coords_merge_features(const spc_coords *coords,
                                             void *features, spc_dtype dtype,
                                             int channels, void *stream);

/* Voxels as of the last check, or of creation; 0 for a reserved set that was
 * never checked. */
SPC_API int64_t spc_coords_rows(const spc_coords *coords);
SPC_API int64_t spc_coords_capacity(const spc_coords *coords);
/* The most rows that the set has memory for: its capacity when it was made. */
SPC_API int64_t spc_coords_reserved(const spc_coords *coords);
/*
 * Changes the capacity: to any number of rows from 0 to spc_coords_reserved. From
 * then on kernels, buffers and workspaces are those of a set that was reserved
 * with it; plans stay. The set keeps its voxels if a check has counted them and
 * they fit, and the capacity does not become larger; else it must be filled
 * again. Its maps must be filled again in any case. Before, calls that read them
 * are SPC_ESTATE. A graph that was captured before is not to be launched any
 * more. Allocates and enqueues nothing.
 * SPC_ECAPACITY: `rows` is more than was reserved; SPC_EINVAL: it is negative;
 * SPC_ESTATE: the set is a source of another one, or of a network's plan.
 */
SPC_API spc_status spc_coords_set_capacity(spc_coords *set, int64_t rows);
SPC_API int spc_coords_key_bits(const spc_coords *coords); /* 32 or 64 */
/* How many voxels there are, on the device: to be copied in the order
 * of a stream, without a wait. It lives as long as the set. */
SPC_API const int32_t *spc_coords_device_count(const spc_coords *coords);
/* Returns the coordinates by row, [capacity][4] on the device, of a set of
 * outputs or a set made of others; NULL for sets of the caller's rows. They
 * live as long as the set. */
SPC_API const int32_t *spc_coords_data(const spc_coords *coords);

/* One more than the highest batch element that the set can hold. */
SPC_API int64_t spc_coords_batches(const spc_coords *coords);

/* ---- sets made of other sets --------------------------------------------- */

/*
 * A set can be made of the voxels of one set or of several: of each voxel c
 * come the voxels
 *
 *     c * scale + child,   0 <= child < split   on each axis
 *
 * and equal ones are merged. The uses, with scale and split 1 unless given:
 *
 *   prune            one set, with a mask of the rows that stay
 *                    (MinkowskiEngine; Gwak, Choy, Savarese, ECCV 2020)
 *   coordinate scale scale s
 *   axis collapse    scale 0 on that axis (VoxelNeXt: Chen and others, CVPR
 *                    2023, which also scales and unites sets)
 *   union            of several sets
 *   subdivide        scale 2, split 2: a voxel becomes eight children (TRELLIS:
 *                    Xiang and others, CVPR 2025)
 *   channel to space the same, with a mask of children or without, and features
 *                    gathered as slices; spc_coords_scatter_features is the
 *                    reverse
 *
 * Features have shapes [rows of a source][channels] and [rows of the set]
 * [channels]. With slices a source has channels * children instead. See
 * spc_coords_gather_features and spc_coords_scatter_features.
 *
 * Child (i, j, l) has the number i + split_x * (j + split_y * l).
 *
 * The rows of the sources are numbered consecutively: a source's rows begin
 * after the capacity of the previous source. A *slot* is such a row and a
 * child's number, row * children + child. Masks and lists of rows are by slot.
 * Where no two voxels can meet (one source, and scale >= split on every axis)
 * the rows of the set are in the order of their slots; else they are in
 * ascending order of (batch, x, y, z).
 *
 * Like sets of outputs such a set keeps its sources alive, has a capacity, and
 * is filled without the host. If more voxels are proposed, before equal ones
 * are merged, than the capacity holds, the set is empty and spc_coords_check
 * reports it.
 */
typedef struct spc_regrouping {
    int scale[3]; /* at least 0 */
    int split[3]; /* at least 1; their product at most 64 */
} spc_regrouping;

#define SPC_REGROUPING_INIT                                                    \
    {                                                                          \
        {1, 1, 1},                                                             \
        {                                                                      \
            1, 1, 1                                                            \
        }                                                                      \
    }

/*
 * Reads a regrouping's name and its words, separated by commas:
 *
 *   prune      union                 scale and split 1
 *   scale,by=2                       by: one for all axes, or 3x1x2
 *   collapse,axis=z
 *   subdivide  channel2space         by=2 unless given
 *   regroup,scale=2x2x1,split=2x1x1  anything
 *
 * Masks, sources and features are the caller's. SPC_EINVAL names the unknown
 * word or the bad value and what would be right.
 */
SPC_API spc_status spc_regrouping_parse(spc_regrouping *out, const char *text,
                                        spc_error *error);
/* Writes it as "regroup,scale=...,split=..."; returns the length as snprintf
 * does. */
SPC_API int spc_regrouping_format(char *out, size_t bytes,
                                  const spc_regrouping *how);
/* SPC_OK, or SPC_EINVAL with the reason. */
SPC_API spc_status spc_regrouping_check(const spc_regrouping *how,
                                        spc_error *error);

/* Creates an empty set over 1 to 8 sources, which it keeps alive. `capacity` 0
 * means the number of slots. The caller frees *out. SPC_ERANGE: the extent that
 * results from the sources' does not fit 32 bits, or its key does not fit 64
 * bits; SPC_EINVAL; SPC_EDEVICE. */
SPC_API spc_status spc_coords_create_regrouped_reserved(
    spc_coords **out, spc_coords *const *sources, int count,
    const spc_regrouping *how, int64_t capacity);
/* The same, filled; waits for the device to learn how many voxels there are.
 * `mask` as for spc_coords_update_regrouped. The caller frees *out. SPC_ESTATE:
 * nothing has filled a source; else as spc_coords_create_regrouped_reserved. */
SPC_API spc_status spc_coords_create_regrouped(spc_coords **out,
                                               spc_coords *const *sources,
                                               int count,
                                               const spc_regrouping *how,
                                               const uint8_t *mask);
/* Fills it anew on `stream` from its sources as they are then. `mask` (device,
 * [slots], a byte for each) leaves out the slots whose byte is 0; NULL: all
 * stay, as with spc_coords_update. SPC_EINVAL: a set that was not made of
 * others; SPC_ESTATE: nothing has filled a source; SPC_EDEVICE. */
SPC_API spc_status spc_coords_update_regrouped(spc_coords *set,
                                               const uint8_t *mask,
                                               void *stream);

/* Makes such a mask from features (device, [rows of source i][children] at
 * in[i], stored as `dtype`): a slot stays where its feature is above `above`.
 * NaN is never above. `mask` [slots] is the caller's. Enqueues. SPC_EINVAL: I8,
 * `above` is NaN, or a set that was not made of others; SPC_ESTATE;
 * SPC_EDEVICE.
 */
SPC_API spc_status spc_coords_mask_above(uint8_t *mask, const spc_coords *set,
                                         const void *const *in, spc_dtype dtype,
                                         float above, void *stream);

typedef struct spc_gather {
    spc_dtype dtype; /* type in memory */
    int channels;    /* of the set's features */
    /* Child j has the channels j * channels to (j + 1) * channels of its row of
     * a source, which has as many times more; else all children of a row have
     * the same, and as many channels as the set. */
    bool slices;
} spc_gather;

/* Computes the features of the set's rows (device, [rows][channels]) from those
 * of its sources' rows: the slots that merge into one voxel are summed, in fp32
 * and in the order of slots. Of the sources' buffers only rows that are in the
 * set are read. Enqueues. SPC_EINVAL: I8, a number of channels that is not from
 * 1 to 65536, or a set that was not made of others; SPC_ESTATE: nothing has
 * filled the set; SPC_EDEVICE. */
SPC_API spc_status spc_coords_gather_features(void *out, const spc_coords *set,
                                              const void *const *in,
                                              const spc_gather *how,
                                              void *stream);
/* The reverse of spc_coords_gather_features: each row of a source receives the
 * features of the voxels made from it (without slices, their sum over its
 * children), or zeros if there are no such voxels. Writes as many rows of
 * out[i] as the capacity of source i. Fails as spc_coords_gather_features. */
SPC_API spc_status spc_coords_scatter_features(void *const *out,
                                               const spc_coords *set,
                                               const void *in,
                                               const spc_gather *how,
                                               void *stream);

/* Which rows came from where, on the device: row r of the set is made of the
 * slots slots[begin[r]] to slots[begin[r + 1] - 1], in ascending order, and
 * row_of[slot] is r, or -1 for a slot that is not in the set. The arrays are
 * the set's, and live as long as it. */
typedef struct spc_row_lists {
    const int32_t *begin, *slots, *row_of;
    int children; /* slots of a row of a source */
} spc_row_lists;

/* False for a set that was not made of others. */
SPC_API bool spc_coords_row_lists(spc_row_lists *out, const spc_coords *set);

/* ---- voxelisation -------------------------------------------------------- */

/*
 * Points become voxels on the device, with features. A point is a row of fp32
 * numbers: x, y, z and any other values of the sensor (intensity, time). Its
 * voxel is
 *
 *     floor((p - low) / voxel)     on each axis, all in fp32
 *
 * of a grid of round((high - low) / voxel) voxels; points outside the grid are
 * left out. Voxels are in ascending order of (batch, x, y, z). The first
 * `points` points of a voxel count, in the order of their rows. Its features
 * are
 *
 *   SPC_VOXELS_MEAN    [voxels][columns]: their mean, x, y and z included; sums
 *                      are fp32 in that order (SECOND: Yan, Mao, Li, Sensors
 *                      2018; OpenPCDet's MeanVFE)
 *   SPC_VOXELS_POINTS  [voxels][points][columns]: the points themselves, zeros
 *                      behind the last (VoxelNet: Zhou, Tuzel, CVPR 2018)
 *
 * All devices give the same bits. The values are not checked: one that a type
 * cannot hold, such as one beyond 65504 in f16, becomes infinite, and layers
 * propagate it.
 */
typedef enum spc_voxel_features {
    SPC_VOXELS_MEAN = 0,
    SPC_VOXELS_POINTS = 1
} spc_voxel_features;

typedef struct spc_voxelisation {
    double voxel[3], low[3], high[3]; /* in the unit of the points */
    int columns; /* numbers of a point: x, y, z and more; 3 to 64 */
    /* Points have one number more, before x: their batch element, 0 to batches
     * - 1. Otherwise all are element 0. */
    bool batched;
    int batches;
    spc_voxel_features features;
    int points;      /* most that count of a voxel; 0: all, for a mean */
    spc_dtype dtype; /* type of the features: f16, bf16 or f32 */
    int reserved[6]; /* 0 */
} spc_voxelisation;

#define SPC_VOXELISATION_INIT                                                  \
    {                                                                          \
        {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 4, false, 1, SPC_VOXELS_MEAN, 0,      \
            SPC_F16,                                                           \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

/* SPC_OK, or SPC_EINVAL with the reason. */
SPC_API spc_status spc_voxelisation_check(const spc_voxelisation *how,
                                          spc_error *error);

/* Voxels of a stated capacity on a context's device, with the memory to find
 * them among a stated number of points. */
typedef struct spc_voxels spc_voxels;

/* Makes voxels for at most `points` points. The caller frees *out. SPC_EINVAL:
 * what spc_voxelisation_check refuses, or a number below 0; SPC_EDEVICE. */
SPC_API spc_status spc_voxels_create(spc_voxels **out, spc_ctx *ctx,
                                     const spc_voxelisation *how,
                                     int64_t points, int64_t capacity);
/* NULL is fine. */
SPC_API void spc_voxels_free(spc_voxels *voxels);

/*
 * Fills them anew on `stream` from `rows` points (device, at a multiple of 4
 * bytes), or, if `count` (device) is not NULL, from *count of them: enqueues,
 * without allocation, synchronisation or compiling, so that a CUDA graph may
 * capture it. More points than were stated: no voxels. More voxels than there
 * is room for: their number is right, but only the first have coordinates and
 * features, and a set of that capacity refuses them as a whole. SPC_ECAPACITY:
 * `rows` is more than was stated; SPC_EINVAL; SPC_EDEVICE.
 */
SPC_API spc_status spc_voxels_update(spc_voxels *voxels, const float *points,
                                     const int32_t *count, int64_t rows,
                                     void *stream);

/* As of the last spc_voxels_check. */
typedef struct spc_voxels_info {
    int64_t points;  /* that were given */
    int64_t outside; /* of the grid */
    int64_t bad;     /* points with a NaN coordinate or a nonexistent batch
                        element */
    int64_t voxels;
    int64_t reserved[4]; /* 0 */
} spc_voxels_info;

/* Waits for `stream`. SPC_ECAPACITY: too many points or voxels, with the
 * capacity that would have fitted; SPC_ERANGE: points are bad, with the first
 * of them: they were left out, and all else is as it should be. `info` (may be
 * NULL) is filled in any case but SPC_EDEVICE. */
SPC_API spc_status spc_voxels_check(spc_voxels_info *info, spc_voxels *voxels,
                                    void *stream);

/* On the device: coordinates [capacity][4] and how many there are, as
 * spc_coords_update takes them; features, as spc_voxel_features says; how many
 * points of each voxel count, [capacity]. They live as long as the voxels. */
SPC_API const int32_t *spc_voxels_coords(const spc_voxels *voxels);
SPC_API const int32_t *spc_voxels_device_count(const spc_voxels *voxels);
SPC_API const void *spc_voxels_features(const spc_voxels *voxels);
SPC_API const int32_t *spc_voxels_point_counts(const spc_voxels *voxels);

/* ---- kernel maps --------------------------------------------------------- */

/*
 * A map is the relation of two sets by a geometry: which voxel of `in` an
 * output voxel of `to` sees at which offset. For the rule SUBM both are one
 * set; for GIVEN any two; else `to` is the set of outputs of `in`. Found among
 * sorted keys with guard bands, so that no added offset carries into a
 * neighbouring field: by z-delta search (Spira, section 4: one binary search
 * for each (x, y) column of the kernel, then a walk along z), or as
 * spc_tune_map has found to be faster.
 *
 * spc_map_create allocates, and finds nothing yet; spc_map_update enqueues the
 * search, once the sets are filled and whenever they are filled anew. The map
 * keeps its sets alive. SPC_ERANGE: the guard bands of `in` are too narrow for
 * the geometry; SPC_EINVAL: more than 2^31-1 entries, sets of two contexts, one
 * set where the rule has two; SPC_EDEVICE. The caller frees *out.
 */
SPC_API spc_status spc_map_create(spc_map **out, spc_coords *in, spc_coords *to,
                                  const spc_geometry *geometry);
/* The same relation read the other way: the outputs `to` are the geometry's
 * inputs, `in` its outputs. Offsets are not flipped. For transposed layers
 * (rule GIVEN) `to` is any set, for generative ones the set of outputs of `in`.
 * Fails as spc_map_create. The caller frees *out. */
SPC_API spc_status spc_map_create_inverse(spc_map **out, spc_coords *in,
                                          spc_coords *to,
                                          const spc_geometry *geometry);
/*
 * Fills the map and all its layouts anew on `stream`, from its sets as they are
 * then: `coords` and `count` are NULL. With `coords` a submanifold map fills
 * its set too, as spc_coords_update with the same arguments ([rows][4]) would,
 * which is faster than the two apart. SPC_EINVAL: coordinates for another map;
 * SPC_ECAPACITY: more rows than the set holds; SPC_ESTATE: nothing has filled
 * the sets; SPC_EDEVICE.
 */
SPC_API spc_status spc_map_update(spc_map *map, const int32_t *coords,
                                  const int32_t *count, int64_t rows,
                                  void *stream);
/* Waits for `stream`; as spc_coords_check of the map's sets. spc_map_rows_out,
 * _pairs and _density then return the true values. */
SPC_API spc_status spc_map_check(spc_map *map, void *stream);

/*
 * Lists of pairs, which gradients of weights read, then have memory for the
 * pairs that the map has, and a quarter more, instead of the most that it may
 * have: about a fifth of it on a scan. That is of use to a map that is filled
 * with one scene after another. It holds for lists that spc_map_prepare makes
 * once spc_map_check has counted the pairs. Each spc_map_update ends their
 * contents: check the map and prepare it for these plans again, else
 * spc_plan_execute says SPC_ESTATE. A map of points stays as it is. NULL is
 * fine.
 */
SPC_API void spc_map_fit_lists(spc_map *map);

/* Everything for one layer on one scene: the sets, their outputs where the
 * layer has other ones, and the map, filled and checked. The scene of an
 * inverse layer is the input of the layer that it inverts. For a layer between
 * two given sets the scene is the finer one: the inputs of a conv, the outputs
 * of a transposed layer. The other set is sampled from it for measurements:
 * most of floor(i / stride), and some of their neighbours, in no order. A
 * caller that has both sets uses spc_map_create. Fails as spc_coords_create and
 * spc_map_create do. The caller frees *out.
 */
SPC_API spc_status spc_map_create_from_scene(spc_map **out, spc_ctx *ctx,
                                             const spc_conv *conv,
                                             const spc_scene *scene);
/* The same from coordinates [rows][4] as those of spc_coords_create. The caller
 * frees *out. */
SPC_API spc_status spc_map_create_from_rows(spc_map **out, spc_ctx *ctx,
                                            const spc_conv *conv,
                                            const int32_t *coords, int64_t rows,
                                            void *stream);

SPC_API void spc_map_free(spc_map *map); /* NULL is fine */

/* Its sets, which live as long as the map, and its numbers as of the last
 * check.
 */
SPC_API spc_coords *spc_map_in(const spc_map *map);   /* inputs */
SPC_API spc_coords *spc_map_out(const spc_map *map);  /* outputs */
SPC_API int64_t spc_map_rows_out(const spc_map *map); /* outputs */
SPC_API int64_t spc_map_rows_in(const spc_map *map);  /* inputs */
SPC_API int64_t spc_map_pairs(const spc_map *map);    /* (output, input, k) */
SPC_API double spc_map_density(const spc_map *map);   /* pairs / (rows * K) */
SPC_API int spc_map_key_bits(const spc_map *map);     /* of the inputs */

/*
 * Copies the map to the host in plain form: index[k * rows + row] is the input
 * row of offset k for output row `row`, or -1. `rows` is the capacity of the
 * outputs' set, which for maps made by spc_map_create_from_scene is the number
 * of outputs; `index` holds K * rows entries. Waits. SPC_EUNSUPPORTED: a map of
 * points; SPC_ESTATE: nothing has filled it; SPC_EDEVICE.
 */
SPC_API spc_status spc_map_download(int32_t *index, const spc_map *map);

#ifdef __cplusplus
}
#endif
#endif
