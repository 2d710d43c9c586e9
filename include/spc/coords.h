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

/* Copies `rows` coordinates (host, [rows][4]) in the given order, including
 * duplicates; `name` (may be NULL) is what spc_scene_name returns. The caller
 * frees *out. SPC_EINVAL: fewer than 0 rows, or more than a scene can have;
 * SPC_ENOMEM. */
SPC_API spc_status spc_scene_create(spc_scene **out, const int32_t *coords,
                                    int64_t rows, const char *name,
                                    spc_error *error);
SPC_API void spc_scene_free(spc_scene *scene);
/* The coordinates, [rows][4]: batch, x, y, z. They and the name live as long as
 * the scene. */
SPC_API int64_t spc_scene_rows(const spc_scene *scene);
SPC_API const int32_t *spc_scene_coords(const spc_scene *scene);
SPC_API const char *spc_scene_name(const spc_scene *scene); /* its spec */

/* The size of a scene's source, and how many points or rows were left out. */
typedef struct spc_scene_info {
    int64_t points;    /* points in the file or generator, or the number of
                          voxels */
    int64_t bad;       /* left out: a coordinate is NaN or infinite */
    int64_t first_bad; /* the first such row, counted from 0; 0 if there is
                          none */
    int64_t outside;   /* left out: outside the range of the network */
    int64_t reserved[4]; /* 0 */
} spc_scene_info;

/* Fills *out; all 0 for a NULL scene. */
SPC_API void spc_scene_describe(spc_scene_info *out, const spc_scene *scene);

/* ---- coordinate sets ----------------------------------------------------- */

/*
 * The occupied voxels of one level: sorted once, shared by all maps of the
 * level. A set and its count live on the device. A set can be made in two ways:
 *
 *  - spc_coords_create, _create_from_scene and _create_outputs wait for the
 *    device to learn the extent or the count, and fit exactly;
 *
 *  - spc_coords_create_reserved and _create_outputs_reserved take a stated
 * capacity and extent. From then on spc_coords_update and spc_map_update only
 * enqueue: no allocation, no synchronisation, no copy to the host, no
 * compiling, and a CUDA graph may capture them. An error becomes a status on
 * the device; the caller reads it with spc_coords_check at any time.
 *
 * Example: one frame of a strided layer. Sets and map were reserved before the
 * first frame:
 *
 *     spc_coords_update(in, coords, count, 0, stream);
 *     spc_coords_update(out, NULL, NULL, 0, stream);
 *     spc_map_update(map, NULL, NULL, 0, stream);
 *     spc_plan_execute(plan, map, &buffers, stream);
 *
 * Arrays of features have as many rows as the capacity of their set. Eager
 * frameworks expect exactly one row for each voxel. For such frameworks the
 * capacity of a reserved set can change, without any allocation:
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
 * Invalid rows have a defined effect. A row outside the extent is ignored: no
 * output reads it, and its own output is not written. If several rows have the
 * same voxel, only the first one counts and only its output is written. With
 * more rows than the capacity the set is empty. Nothing is truncated.
 */
typedef enum spc_duplicates {
    SPC_DUPLICATES_ERROR = 0, /* spc_coords_check returns SPC_EDUPLICATE */
    SPC_DUPLICATES_FIRST = 1, /* the features of the first row count */
    SPC_DUPLICATES_SUM = 2,   /* spc_coords_merge_features adds them up */
    SPC_DUPLICATES_MEAN = 3   /* spc_coords_merge_features averages them */
} spc_duplicates;

typedef struct spc_coords_options {
    size_t bytes;     /* sizeof this struct: SPC_COORDS_OPTIONS_INIT sets it */
    int64_t capacity; /* most rows */
    /* The stated extent: batch, x, y, z, both ends included. */
    int32_t low[4], high[4];
    /* How far map kernels may look past the extent, in voxels: (kernel - 1) *
     * dilation is enough for every rule with its default origin. 0: 8. Wider
     * guard bands use more bits of the keys. */
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
 * cuda and sim), which may be freed afterwards. Waits for `stream` to learn the
 * extent. The caller frees *out. SPC_EDUPLICATE: two equal coordinates, with
 * their rows; SPC_ERANGE: the extent does not fit a 64-bit key (the message
 * names the axis), or a batch is negative; SPC_EINVAL; SPC_EDEVICE, also if
 * memory runs out.
 */
SPC_API spc_status spc_coords_create(spc_coords **out, spc_ctx *ctx,
                                     const int32_t *coords, int64_t rows,
                                     void *stream);
/* Makes the set of a scene's coordinates, as spc_coords_create does. The scene
 * may be freed afterwards. The caller frees *out.
 */
SPC_API spc_status spc_coords_create_from_scene(spc_coords **out, spc_ctx *ctx,
                                                const spc_scene *scene);
/* Makes the set of outputs of `geometry` (rule FLOOR, FOOTPRINT, GENERATIVE or
 * EXPAND) over the set `in`, and keeps `in` alive. Waits for the device to learn
 * the number of outputs. The caller frees *out. SPC_EINVAL: another rule;
 * SPC_ESTATE: `in` was never filled; SPC_ERANGE: the outputs do not fit a
 * 64-bit key; SPC_EDEVICE. */
SPC_API spc_status spc_coords_create_outputs(spc_coords **out, spc_coords *in,
                                             const spc_geometry *geometry);

/* Makes an empty set of the stated capacity and extent. The caller frees *out.
 * SPC_EINVAL: the extent is still the single voxel of SPC_COORDS_OPTIONS_INIT,
 * with a capacity of more than one row per batch element; SPC_ERANGE: the
 * extent does not fit a 64-bit key; SPC_EDEVICE. */
SPC_API spc_status spc_coords_create_reserved(
    spc_coords **out, spc_ctx *ctx, const spc_coords_options *options);
/* Makes an empty set for the outputs of `geometry` over `in`, and keeps `in`
 * alive. The caller frees *out. SPC_EINVAL, SPC_ERANGE, SPC_EDEVICE. `capacity`
 * 0 means the largest possible number of outputs: the capacity of `in` for
 * FLOOR; for FOOTPRINT, this capacity times the outputs that can see one input
 * (on each axis ceil(kernel / stride) if stride and dilation have no common
 * divisor); for GENERATIVE and EXPAND, this capacity times the number of offsets
 * of the kernel; never more than the whole extent of the outputs. */
SPC_API spc_status spc_coords_create_outputs_reserved(
    spc_coords **out, spc_coords *in, const spc_geometry *geometry,
    int64_t capacity);
/* Maps and sets of outputs that use the set keep it alive. */
SPC_API void spc_coords_free(spc_coords *coords);

/*
 * Fills a set anew on `stream` from coordinates [rows][4] (device, as for
 * spc_coords_create). The number of rows is *count (device), or `rows` if
 * `count` is NULL. Both arrays must stay valid until the stream has read them.
 * A set of outputs is derived from its inputs: `coords` and `count` are NULL.
 * SPC_ECAPACITY: `rows` is more than the capacity; SPC_EINVAL; SPC_EDEVICE.
 */
SPC_API spc_status spc_coords_update(spc_coords *set, const int32_t *coords,
                                     const int32_t *count, int64_t rows,
                                     void *stream);
/* Waits for `stream`. SPC_ECAPACITY names the capacity that would have been
 * enough; SPC_ERANGE and SPC_EDUPLICATE name the first such row. Afterwards
 * spc_coords_rows returns the number of voxels. The check covers only the last
 * filling: earlier ones since the previous check are not reported. */
SPC_API spc_status spc_coords_check(spc_coords *coords, void *stream);

/* Combines the features [rows][channels] (device, stored as `dtype`) of equal
 * rows: the first of these rows receives their sum or mean, according to the
 * set's policy. Enqueues; does nothing under the other policies. SPC_EINVAL:
 * the set is made of other sets; SPC_EUNSUPPORTED: I8; SPC_ESTATE;
 * SPC_EDEVICE. */
SPC_API spc_status spc_coords_merge_features(const spc_coords *coords,
                                             void *features, spc_dtype dtype,
                                             int channels, void *stream);

/* Returns the number of voxels as of the last check or of creation; 0 for a
 * reserved set that was never checked. */
SPC_API int64_t spc_coords_rows(const spc_coords *coords);
SPC_API int64_t spc_coords_capacity(const spc_coords *coords);
/* Returns the number of rows that the set has memory for: its capacity at
 * creation. */
SPC_API int64_t spc_coords_reserved(const spc_coords *coords);
/*
 * Changes the capacity: to any number of rows from 0 to spc_coords_reserved.
 * From then on the sizes of buffers and workspaces are those of a set that was
 * reserved with this capacity; plans stay valid. The set keeps its voxels if a
 * check has counted them, they fit, and the capacity does not grow; else it
 * must be filled again. Its maps must always be filled again; until then, calls
 * that read them return SPC_ESTATE. A graph that was captured earlier must not
 * be launched again. Allocates and enqueues nothing. SPC_ECAPACITY: `rows` is
 * more than was reserved; SPC_EINVAL: `rows` is negative; SPC_ESTATE: the set
 * is a source of another set, or belongs to a network's plan.
 */
SPC_API spc_status spc_coords_set_capacity(spc_coords *set, int64_t rows);
SPC_API int spc_coords_key_bits(const spc_coords *coords); /* 32 or 64 */
/* Returns the number of voxels on the device. It can be copied in the order of
 * a stream, without a wait. It lives as long as the set. */
SPC_API const int32_t *spc_coords_device_count(const spc_coords *coords);
/* Returns the coordinates by row, [capacity][4] on the device, of a set of
 * outputs or a set made of other sets; NULL for a set of the caller's rows.
 * They live as long as the set. */
SPC_API const int32_t *spc_coords_data(const spc_coords *coords);

/* Returns one more than the highest batch element that the set can hold. */
SPC_API int64_t spc_coords_batches(const spc_coords *coords);

/* ---- sets made of other sets --------------------------------------------- */

/*
 * A set can be made from the voxels of one or several sets. Each voxel c gives
 * the voxels
 *
 *     c * scale + child,   0 <= child < split   on each axis
 *
 * and equal voxels are merged. Uses (scale and split are 1 unless given):
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
 * If no two slots can give the same voxel (one source, and scale >= split on
 * every axis), the rows of the set are in the order of their slots; else they
 * are in ascending order of (batch, x, y, z).
 *
 * Like a set of outputs, such a set keeps its sources alive, has a capacity,
 * and is filled without the host. If the number of voxels before merging
 * exceeds the capacity, the set is empty and spc_coords_check reports the
 * error.
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
 * Masks, sources and features are not part of the text. SPC_EINVAL names the
 * unknown word or the bad value and what would be right.
 */
SPC_API spc_status spc_regrouping_parse(spc_regrouping *out, const char *text,
                                        spc_error *error);
/* Writes the canonical text "regroup,scale=...,split=..."; returns its length
 * as snprintf does. */
SPC_API int spc_regrouping_format(char *out, size_t bytes,
                                  const spc_regrouping *how);
/* SPC_OK, or SPC_EINVAL with the reason. */
SPC_API spc_status spc_regrouping_check(const spc_regrouping *how,
                                        spc_error *error);

/* Creates an empty set over 1 to 8 sources, which it keeps alive. `capacity` 0
 * means the number of slots. The caller frees *out. SPC_ERANGE: the resulting
 * extent does not fit 32 bits, or its key does not fit 64 bits; SPC_EINVAL;
 * SPC_EDEVICE. */
SPC_API spc_status spc_coords_create_regrouped_reserved(
    spc_coords **out, spc_coords *const *sources, int count,
    const spc_regrouping *how, int64_t capacity);
/* Makes and fills such a set; waits for the device to learn the number of
 * voxels. `mask` is as for spc_coords_update_regrouped. The caller frees *out.
 * SPC_ESTATE: a source was never filled; else as
 * spc_coords_create_regrouped_reserved. */
SPC_API spc_status spc_coords_create_regrouped(spc_coords **out,
                                               spc_coords *const *sources,
                                               int count,
                                               const spc_regrouping *how,
                                               const uint8_t *mask);
/* Fills such a set anew on `stream` from the current contents of its sources.
 * `mask` (device, [slots], one byte per slot) leaves out the slots whose byte
 * is 0; NULL: all slots stay, as with spc_coords_update. SPC_EINVAL: the set is
 * not made of other sets; SPC_ESTATE: a source was never filled;
 * SPC_EDEVICE. */
SPC_API spc_status spc_coords_update_regrouped(spc_coords *set,
                                               const uint8_t *mask,
                                               void *stream);

/* Makes such a mask from features (device, [rows of source i][children] at
 * in[i], stored as `dtype`): a slot stays if its feature is greater than
 * `above`. NaN never is. The caller owns `mask` [slots]. Enqueues. SPC_EINVAL:
 * I8, `above` is NaN, or the set is not made of other sets; SPC_ESTATE;
 * SPC_EDEVICE.
 */
SPC_API spc_status spc_coords_mask_above(uint8_t *mask, const spc_coords *set,
                                         const void *const *in, spc_dtype dtype,
                                         float above, void *stream);

typedef struct spc_gather {
    spc_dtype dtype; /* type in memory */
    int channels;    /* of the set's features */
    /* True: child j has the channels from j * channels up to (j + 1) * channels
     * of its source row, so a source has channels * children channels. False:
     * all children of a row have the same features, with as many channels as
     * the set. */
    bool slices;
} spc_gather;

/* Computes the features of the set's rows (device, [rows][channels]) from those
 * of its sources' rows: the slots that merge into one voxel are summed, in fp32
 * and in the order of slots. Only source rows that are in the set are read.
 * Enqueues. SPC_EINVAL: I8, a number of channels that is not from 1 to 65536,
 * or the set is not made of other sets; SPC_ESTATE: the set was never filled;
 * SPC_EDEVICE. */
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

/* The relation of rows and slots, on the device: row r of the set is made of
 * slots[begin[r]] to slots[begin[r + 1] - 1], in ascending order; row_of[slot]
 * is r, or -1 for a slot that is not in the set. The set owns the arrays, and
 * they live as long as the set. */
typedef struct spc_row_lists {
    const int32_t *begin, *slots, *row_of;
    int children; /* slots per source row */
} spc_row_lists;

/* Fills *out. Returns false for a set that is not made of other sets. */
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
 * left out. Voxels are in ascending order of (batch, x, y, z). Only the first
 * `points` points of a voxel count, in the order of their rows. The features of
 * a voxel are
 *
 *   SPC_VOXELS_MEAN    [voxels][columns]: their mean, x, y and z included; sums
 *                      are fp32 in that order (SECOND: Yan, Mao, Li, Sensors
 *                      2018; OpenPCDet's MeanVFE)
 *   SPC_VOXELS_POINTS  [voxels][points][columns]: the points themselves, zeros
 *                      behind the last (VoxelNet: Zhou, Tuzel, CVPR 2018)
 *
 * All devices give the same bits. The values are not checked: a value that the
 * type cannot hold, such as one beyond 65504 in f16, becomes infinite, and
 * layers propagate it.
 */
typedef enum spc_voxel_features {
    SPC_VOXELS_MEAN = 0,
    SPC_VOXELS_POINTS = 1
} spc_voxel_features;

typedef struct spc_voxelisation {
    double voxel[3], low[3], high[3]; /* in the unit of the points */
    int columns; /* numbers per point: x, y, z and more; 3 to 64 */
    /* If above 1, each point has one more number, before x: its batch element,
     * 0 to batches - 1. Otherwise all points are of element 0. */
    bool batched;
    int batches;
    spc_voxel_features features;
    int points;      /* at most this many points of a voxel count; 0: all, for a
                        mean */
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

/* Voxels of a stated capacity on a context's device, with the memory to build
 * them from a stated number of points. */
typedef struct spc_voxels spc_voxels;

/* Makes voxels for at most `points` points. The caller frees *out. SPC_EINVAL:
 * spc_voxelisation_check refuses the description, or a number is below 0;
 * SPC_EDEVICE. */
SPC_API spc_status spc_voxels_create(spc_voxels **out, spc_ctx *ctx,
                                     const spc_voxelisation *how,
                                     int64_t points, int64_t capacity);
/* NULL is fine. */
SPC_API void spc_voxels_free(spc_voxels *voxels);

/*
 * Fills the voxels anew on `stream` from points (device, at a multiple of 4
 * bytes). Their number is *count (device), or `rows` if `count` is NULL.
 * Enqueues without allocation, synchronisation or compiling, so a CUDA graph
 * may capture the call. With more points than stated there are no voxels. With
 * more voxels than the capacity, the count is still correct, but only the first
 * voxels have coordinates and features, and a set of this capacity is empty.
 * SPC_ECAPACITY: `rows` exceeds the stated number of points; SPC_EINVAL;
 * SPC_EDEVICE.
 */
SPC_API spc_status spc_voxels_update(spc_voxels *voxels, const float *points,
                                     const int32_t *count, int64_t rows,
                                     void *stream);

/* Figures as of the last spc_voxels_check. */
typedef struct spc_voxels_info {
    int64_t points;  /* points that were given */
    int64_t outside; /* points outside the grid */
    int64_t bad;     /* points with a NaN coordinate or a nonexistent batch
                        element */
    int64_t voxels;
    int64_t reserved[4]; /* 0 */
} spc_voxels_info;

/* Waits for `stream`. SPC_ECAPACITY: too many points or voxels; the message
 * names the capacity that would have been enough. SPC_ERANGE: some points are
 * invalid; the message names the first. They were left out, and all other
 * results are valid. `info` (may be NULL) is filled unless the call returns
 * SPC_EDEVICE. */
SPC_API spc_status spc_voxels_check(spc_voxels_info *info, spc_voxels *voxels,
                                    void *stream);

/* Arrays on the device: the coordinates [capacity][4] and their number, as
 * spc_coords_update takes them; the features, as spc_voxel_features describes
 * them; the number of points that count in each voxel, [capacity]. They live as
 * long as the voxels. */
SPC_API const int32_t *spc_voxels_coords(const spc_voxels *voxels);
SPC_API const int32_t *spc_voxels_device_count(const spc_voxels *voxels);
SPC_API const void *spc_voxels_features(const spc_voxels *voxels);
SPC_API const int32_t *spc_voxels_point_counts(const spc_voxels *voxels);

/* ---- kernel maps --------------------------------------------------------- */

/*
 * A map is the relation of two sets by a geometry: which voxel of `in` an
 * output voxel of `to` sees at which offset. For the rule SUBM both are the
 * same set; for GIVEN they are any two sets; else `to` is the set of outputs of
 * `in`. The search runs over sorted keys with guard bands, so that no added
 * offset carries into a neighbouring field. It is a z-delta search (Spira,
 * section 4: one binary search for each (x, y) column of the kernel, then a
 * walk along z), or a faster one that spc_tune_map has found.
 *
 * spc_map_create only allocates. spc_map_update enqueues the search; call it
 * after every filling of the sets. The map keeps its sets alive. SPC_ERANGE:
 * the guard bands of `in` are too narrow for the geometry; SPC_EINVAL: more
 * than 2^31-1 entries, sets of two contexts, or the same set twice for a rule
 * that needs two; SPC_EDEVICE. The caller frees *out.
 */
SPC_API spc_status spc_map_create(spc_map **out, spc_coords *in, spc_coords *to,
                                  const spc_geometry *geometry);
/* Makes the map of the same relation in the reverse direction: the outputs `to`
 * are the geometry's inputs, and `in` its outputs. Offsets are not flipped. For
 * transposed layers (rule GIVEN) `to` is any set, for generative ones the set
 * of outputs of `in`. Fails as spc_map_create. The caller frees *out. */
SPC_API spc_status spc_map_create_inverse(spc_map **out, spc_coords *in,
                                          spc_coords *to,
                                          const spc_geometry *geometry);
/*
 * Fills the map and all its layouts anew on `stream`, from the current contents
 * of its sets; `coords` and `count` are then NULL. If `coords` is given, a
 * submanifold map also fills its set, like spc_coords_update with the same
 * arguments ([rows][4]). This is faster than two calls. SPC_EINVAL: coordinates
 * for a map that is not submanifold; SPC_ECAPACITY: more rows than the set
 * holds; SPC_ESTATE: the sets were never filled; SPC_EDEVICE.
 */
SPC_API spc_status spc_map_update(spc_map *map, const int32_t *coords,
                                  const int32_t *count, int64_t rows,
                                  void *stream);
/* Waits for `stream`. Fails as spc_coords_check does for the map's sets.
 * spc_map_rows_out, _pairs and _density are exact afterwards. */
SPC_API spc_status spc_map_check(spc_map *map, void *stream);
/* Checks `count` maps of one context, and waits once for all; maps of points
 * are waited for one by one. *failed (may be NULL) is the index of the first
 * one that spc_map_check would refuse; -1: none, or the failure is not that of
 * one map. SPC_EINVAL: `count` is negative, the array or a map is NULL, or the
 * maps are of several contexts. */
SPC_API spc_status spc_map_check_many(int *failed, spc_map *const *maps,
                                      int count, void *stream);

/*
 * Sizes the lists of pairs, which gradients of weights read, by the pairs that
 * the map has plus a quarter, instead of by the largest possible number. On a
 * scan this takes about a fifth of the memory. It is useful for a map that is
 * filled with one scene after another. It applies to lists that spc_map_prepare
 * makes after spc_map_check has counted the pairs. Each spc_map_update
 * invalidates these lists: check the map and prepare it for these plans again,
 * else spc_plan_execute returns SPC_ESTATE. A map of points does not change.
 * NULL is fine.
 */
SPC_API void spc_map_fit_lists(spc_map *map);

/* Makes everything for one layer on one scene: the set of inputs, the set of
 * outputs if it is another one, and the map, filled and checked. The scene of
 * an inverse layer is the input of the layer that it inverts. For a layer
 * between two given sets the scene is the finer one: the inputs of a conv, the
 * outputs of a transposed layer. The other set is sampled from it for
 * measurements: most of floor(i / stride), and some of their neighbours, in no
 * order. A caller that has both sets should use spc_map_create. Fails as
 * spc_coords_create and spc_map_create do. The caller frees *out.
 */
SPC_API spc_status spc_map_create_from_scene(spc_map **out, spc_ctx *ctx,
                                             const spc_conv *conv,
                                             const spc_scene *scene);
/* Makes the same from coordinates [rows][4], as for spc_coords_create. Fails as
 * spc_map_create_from_scene. The caller frees *out. */
SPC_API spc_status spc_map_create_from_rows(spc_map **out, spc_ctx *ctx,
                                            const spc_conv *conv,
                                            const int32_t *coords, int64_t rows,
                                            void *stream);

SPC_API void spc_map_free(spc_map *map); /* NULL is fine */

/* The sets of the map, which live as long as the map, and its figures as of the
 * last check.
 */
SPC_API spc_coords *spc_map_in(const spc_map *map);   /* inputs */
SPC_API spc_coords *spc_map_out(const spc_map *map);  /* outputs */
SPC_API int64_t spc_map_rows_out(const spc_map *map); /* outputs */
SPC_API int64_t spc_map_rows_in(const spc_map *map);  /* inputs */
SPC_API int64_t spc_map_pairs(const spc_map *map);    /* triplets (output,
                                                         input, k) */
SPC_API double spc_map_density(const spc_map *map);   /* pairs / (rows * K) */
SPC_API int spc_map_key_bits(const spc_map *map);     /* of the inputs */

/*
 * Copies the map to the host in plain form: index[k * rows + row] is the input
 * row of offset k for output row `row`, or -1. `rows` is the capacity of the
 * set of outputs; for maps made by spc_map_create_from_scene this is the number
 * of outputs. `index` holds K * rows entries. Waits. SPC_EUNSUPPORTED: a map of
 * points; SPC_ESTATE: the map was never filled; SPC_EDEVICE.
 */
SPC_API spc_status spc_map_download(int32_t *index, const spc_map *map);

#ifdef __cplusplus
}
#endif
#endif
