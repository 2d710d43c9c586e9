/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/lab.h - the laboratory: scenes from files and generators, the oracle,
 * verification and benchmarks. These functions are in libspclab.
 */
#ifndef SPC_LAB_H
#define SPC_LAB_H

#include "net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- scenes -------------------------------------------------------------- */

/*
 * Makes a scene from a specification:
 *   FILE.bin@VOXEL    rows of little-endian float32: x y z and others, four in
 *                     all (KITTI) unless `columns` is set; VOXEL in file's
 *                     unit, floor(x / VOXEL), or three sizes: @0.05,0.05,0.1
 *   FILE.npy[@VOXEL]  [n][3 or more] float points (with @VOXEL): x y z and
 *                     others; or integer voxels (3: x y z; 4: batch x y z); or
 *                     records with fields x, y, z and perhaps batch
 *   FILE.ply@VOXEL    vertices of an ascii or binary PLY file
 *   FILE.pcd@VOXEL    a PCD file: ascii, binary, or compressed
 *   FILE.las@VOXEL    a LAS file of version 1.0 to 1.4: x y z, intensity,
 *                     return number, number of returns, classification, and
 *                     what it has of GPS time, red green blue, infrared
 *   FILE.laz@VOXEL    the same, compressed; SPC_EUNSUPPORTED where the library
 *                     was built without laszip
 *   FILE.xyz@VOXEL    text with a point in each line, also .txt and .csv:
 *                     x y z and others, or columns that a first line names
 *   gen:shell,r=256   voxels with r/2-1.25 <= |p-centre| <= r/2 of an r^3 grid
 *   gen:lidar,seed=1,beams=64@0.05   a 64-beam scan of a generated street
 *   gen:room,seed=1@0.02             a generated furnished room
 *   gen:room,n=100000                n points of that room, in units of 1/1024
 *   gen:uniform,n=1000,extent=64,seed=1   n distinct random voxels
 * and after any of them ",level=N" (0 to 30): a network's level of stride 2^N
 * under the floor rule, coordinates divided by 2^N and rounded down; after a
 * .bin, .npy or text file ",columns=C": how many numbers a row has, or what
 * they are, by a letter for each: x, y, z, b (batch) and any others, as in
 * xyzir.
 * Suffixes may be in capitals.
 *
 * A .bin file whose columns are not stated is tested: SPC_EFORMAT if another
 * number of columns fits much better. The test cannot detect an error if all
 * columns have the same distribution. An empty file is a scene without voxels.
 * Points with a coordinate that is NaN or infinite are left out and counted
 * (spc_scene_describe). A truncated file, or a file whose header does not match
 * its points, is refused as a whole.
 *
 * Duplicates merge; rows are in ascending order of (batch, x, y, z). The same
 * specification gives the same scene on every machine. SPC_ENOTFOUND,
 * SPC_EIO, SPC_EFORMAT (with the byte or row), SPC_EINVAL (bad
 * specification), SPC_ERANGE (a coordinate does not fit int32). The caller
 * frees *out.
 */
SPC_API spc_status spc_scene_load(spc_scene **out, const char *spec,
                                  spc_error *error);

/* The points of a file, on the host, for spc_net_buffers.points. */
typedef struct spc_point_rows {
    float *values; /* [rows][columns]: x, y, z, then others in their order */
    int64_t rows;
    int columns;
    int found; /* numbers of a point in the file, without a batch element */
} spc_point_rows;

/*
 * Reads the points of FILE or FILE,columns=C as spc_scene_load does. Keeps the
 * first `columns` numbers of each point as fp32, including NaN. A .bin file
 * with no stated columns is expected to have `columns`. SPC_EINVAL: the file
 * has fewer columns; SPC_EUNSUPPORTED: a batch element is not 0; and what
 * spc_scene_load returns. The caller releases *out.
 */
SPC_API spc_status spc_point_rows_load(spc_point_rows *out, const char *spec,
                                       int columns, spc_error *error);
SPC_API void spc_point_rows_release(spc_point_rows *rows); /* NULL is fine */

/*
 * Loads a scene for the network, as spc_scene_load does. If the network states
 * a range, voxels are counted from its low corner, and points outside the range
 * are left out. Without @VOXEL, voxels have the network's voxel size. Voxels
 * outside the network's shape are left out too. spc_scene_describe counts both.
 * Rows of a .bin file may also have as many numbers as the input has channels.
 * The caller frees *out.
 */
SPC_API spc_status spc_net_load_scene(spc_scene **out, const spc_net *net,
                                      const char *spec, spc_error *error);

/* Returns the voxels of a set as of the last check, for tuning the layers of
 * its level. The caller frees *out. SPC_EINVAL: the set belongs to the input,
 * whose rows the caller has. */
SPC_API spc_status spc_net_plan_scene_of_set(spc_scene **out,
                                             const spc_net_plan *plan, int set);

/* ---- the oracle ---------------------------------------------------------- */

/*
 * The relation of a layer on a scene. It is computed on the host by hashing,
 * with threads, independently of every device's map builder. The scene has the
 * same meaning as in spc_map_create_from_scene.
 *
 * The order of rows is part of the interface. These sides have the scene's rows
 * in their order:
 *   subm        inputs and outputs
 *   conv        inputs; outputs are in ascending order of (batch, x, y, z), or
 *               in that of the set that was drawn
 *   inverse     outputs; inputs are the outputs of the strided layer, in
 *               ascending order
 *   transposed  outputs; inputs are the set that was drawn
 *   generative  inputs; outputs are in ascending order
 *   points      inputs, and outputs if voxel is 0; else outputs are as
 *               spc_points_create_sampled has them. A scene's coordinates are
 *               points in units of 1/1024
 */
typedef struct spc_relation {
    int64_t rows_in, rows_out;
    int64_t pairs;
    int offsets;         /* K */
    int32_t *coords_in;  /* [rows_in][4]: batch, x, y, z */
    int32_t *coords_out; /* [rows_out][4] */
    int32_t *index;      /* [K][rows_out]: row of the input, or -1 */
    /* A point may read any number of inputs. For points, index is therefore
     * [slots][rows_out], and cells has the offset of each entry that is not
     * -1. */
    int slots;           /* K for voxels */
    uint16_t *cells;     /* [slots][rows_out]; NULL for voxels */
    int64_t reserved[4]; /* 0 */
} spc_relation;

/*
 * Fills *out, which the caller releases. threads 0: all cores. SPC_EDUPLICATE:
 * two equal rows, which the message names; SPC_ERANGE: an output's coordinate
 * does not fit int32, or there are more outputs than row numbers; SPC_EINVAL: a
 * geometry that spc_geometry_check refuses, or a geometry of another rule than
 * the operator's; SPC_ENOMEM.
 */
SPC_API spc_status spc_oracle_relation(spc_relation *out, const spc_conv *conv,
                                       const spc_scene *scene, int threads,
                                       spc_error *error);
SPC_API void spc_relation_release(spc_relation *relation); /* NULL is fine */

/*
 * The oracle: the layer's sums in double precision on the host, threaded.
 * in [rows_in][cin], weights KRSC, bias or NULL, as float; out [rows][cout] as
 * double; magnitude (may be NULL) [rows][cout] receives the sum of
 * |weight * input| and |bias|, from which tolerances derive. `index` comes from
 * a relation or from spc_map_download, and `rows` is its number of output rows.
 * The bias of the epilogue is added if no scale precedes it (inputs of I8 have
 * a scale); spc_oracle_epilogue or spc_oracle_quantised does the rest.
 */
SPC_API void spc_oracle_sums(double *out, double *magnitude,
                             const spc_conv *conv, const int32_t *index,
                             int64_t rows, const float *in,
                             const float *weights, const float *bias,
                             int threads);

/* Applies the rest of the layer's epilogue to the oracle's sums, in place:
 * scale (and then the bias), activation, residual [rows][cout] as float,
 * without gaps. Arrays that the layer lacks may be NULL. */
SPC_API void spc_oracle_epilogue(double *out, const spc_conv *conv,
                                 int64_t rows, const float *scale,
                                 const float *bias, const float *residual);

/* The scales of a layer's tensors of I8. */
typedef struct spc_scales {
    float in, out, residual;
} spc_scales;

/* Applies the epilogue of a layer with I8 tensors. Inputs, residual and results
 * are the stored integers, as float and double; results are rounded and
 * saturated. With inputs of I8, `bias` is used even without a scale. scale and
 * bias are [cout], residual [rows][cout]. */
SPC_API void spc_oracle_quantised(double *out, const spc_conv *conv,
                                  int64_t rows, const spc_scales *scales,
                                  const float *scale, const float *bias,
                                  const float *residual);

/* Compares the last filling, made from these points ([rows][columns], host),
 * with the definition in double precision. *worst is the largest difference
 * over its tolerance. SPC_EWRONG names the difference; SPC_ECAPACITY as
 * above. */
SPC_API spc_status spc_voxels_verify(double *worst, spc_voxels *voxels,
                                     const float *points, int64_t rows);

typedef struct spc_net_verdict {
    int layers;     /* number of values compared */
    double error;   /* the largest difference over its tolerance; <= 1 passes */
    char worst[96]; /* the layer with that largest difference */
    int64_t reserved[4]; /* 0 */
} spc_net_verdict;

/* Compares the last run with the oracle: the voxels of every set, and the
 * outputs of each layer for its actual inputs. spc_net_plan_check must have
 * found no error in that run. The plan must be made with `keep`. `scene` has
 * the rows of the run; if the plan takes points it is NULL, and the voxels of
 * the points are compared too. SPC_EWRONG names the first difference.
 * SPC_ESTATE: there is no checked run, or the plan was made without `keep`. */
SPC_API spc_status spc_net_plan_verify(spc_net_verdict *out, spc_net_plan *plan,
                                       const spc_net_buffers *buffers,
                                       const spc_scene *scene);

/* Measures the context's device once (a few seconds) and stores the figures in
 * the database; spc_ctx_device then reports them for contexts with the same
 * number of multiprocessors. SPC_EDEVICE, SPC_ECOMPILE, SPC_EINTERRUPTED. */
SPC_API spc_status spc_device_measure(spc_ctx *ctx);

typedef struct spc_bench_result {
    double warm_us, warm_spread_us; /* the convolution alone, map built */
    double cold_us, cold_spread_us; /* the same with flushed caches */
    /* For linear layers, which have no map, all of the following are 0. */
    double index_us, index_spread_us; /* pack + sort + map, in key order */
    double layout_us; /* row order, tile table, pairs: the forms that the plan
                         reads */
    double map_us, map_spread_us; /* all of the above in one build, as the plan
                                     needs it */
    /* The shortest possible time of the convolution on this device, with warm
     * and with flushed caches, and the limiting resource: "launch", "matrix",
     * "gather", "cache" or "memory". 0 and "": the device is unknown. A
     * measured time below its floor means that one of the two is wrong. */
    double warm_floor_us, cold_floor_us;
    const char *warm_floor_by, *cold_floor_by;
    bool floor_measured; /* the floor uses figures of spc_device_measure; else
                            the known figures of the device's class */
    double flops, gathered_bytes;
    double compulsory_bytes; /* bytes that must be read or written at least
                                once */
    double error; /* error over tolerance against the oracle; the larger of the
                     values before and after timing */
    int samples;
    spc_match match;
    bool is_shipped;     /* as spc_plan_is_shipped */
    char plan[256];      /* "os_warp rows=16,..." */
    int64_t reserved[4]; /* 0 */
} spc_bench_result;

/* Times the plan that spc_plan_create gives for conv on scene. SPC_EINVAL: the
 * scene has no voxels; SPC_EWRONG: the result differs from the oracle's before
 * or after timing; SPC_EINTERRUPTED; and as spc_plan_create. */
SPC_API spc_status spc_bench(spc_bench_result *out, spc_ctx *ctx,
                             const spc_conv *conv, const spc_scene *scene,
                             uint64_t seed);
/* Times the same with a map that has room for `capacity` voxels, as networks
 * and frames do: launch grids are sized for the capacity. Times of the map
 * itself are those of an exact map. SPC_ECAPACITY: the scene has more voxels;
 * SPC_EUNSUPPORTED: both sets of the layer are given, or its kernel clears its
 * output before adding. */
SPC_API spc_status spc_bench_capacity(spc_bench_result *out, spc_ctx *ctx,
                                      const spc_conv *conv,
                                      const spc_scene *scene, uint64_t seed,
                                      int64_t capacity);

/*
 * Times an operator on features. Its result on random features of the scene is
 * compared with the definition before and after timing. Fills in these members
 * of *out: the times of the operator, its floor, compulsory_bytes, error,
 * samples and plan, the name of the template. An UNPOOL runs on the scene's
 * voxels as outputs. SPC_EINVAL, SPC_EWRONG, SPC_EINTERRUPTED, and as
 * spc_feature_plan_create, spc_map_create_from_scene.
 */
SPC_API spc_status spc_feature_bench(spc_bench_result *out, spc_ctx *ctx,
                                     const spc_feature *feature,
                                     const spc_scene *scene, uint64_t seed);

/*
 * Computes the floors of a layer with this number of rows and density, on a
 * class of device that need not be present, named as by spc_db_each. They use
 * the database's measurements of the class, else its known figures. Fills in
 * only the floors, their limits, flops and bytes of *out. SPC_EINVAL:
 * spc_conv_check refuses the layer.
 */
SPC_API spc_status spc_bench_floor(spc_bench_result *out, spc_ctx *ctx,
                                   const char *device, const spc_conv *conv,
                                   double rows_in, double rows_out,
                                   double density);

/*
 * Verifies an operator on features against its definition, as the stage
 * SPC_STAGE_VERIFY does for convolutions, on each of the scenes (zero or more)
 * and on small built-in ones. Integers must match exactly if the definition has
 * one right result, real numbers within the bound of rounding. The rows are
 * tested as separate arrays, as slices, and misaligned. Output and workspace
 * are filled with NaN beforehand, and nothing may be written outside the rows.
 * *error (may be NULL) is the largest error over its tolerance. SPC_EWRONG;
 * SPC_EINTERRUPTED; and as spc_feature_plan_create, spc_map_create_from_scene.
 */
SPC_API spc_status spc_feature_verify(double *error, spc_ctx *ctx,
                                      const spc_feature *feature,
                                      const spc_scene *const *scenes,
                                      int scene_count, uint64_t seed);
/*
 * Verifies a regrouping, with each scene as the only source and with all scenes
 * together (up to 8), with and without a mask. Its voxels, its lists of rows,
 * and features that are gathered and scattered in every type, with and without
 * slices, are compared with a list made slot by slot. Fails as
 * spc_feature_verify.
 */
SPC_API spc_status spc_regrouping_verify(spc_ctx *ctx,
                                         const spc_regrouping *how,
                                         const spc_scene *const *scenes,
                                         int scene_count, uint64_t seed);

/* Widens ranges [tensors] to cover the tensors of the last run. Calls for
 * several scenes, starting with zeros, give the ranges that spc_net_quantise
 * takes. spc_net_plan_check must have found no error in the run, and the plan
 * must be made with `keep`. SPC_ESTATE: the plan was made without `keep`, or
 * there is no checked run; SPC_EDEVICE. */
SPC_API spc_status spc_net_plan_widen_ranges(float *ranges, spc_net_plan *plan,
                                             const spc_net_buffers *buffers);

/* The magnitudes of every tensor of a network, counted over several runs. */
typedef struct spc_net_magnitudes spc_net_magnitudes;

/* How a range follows from the magnitudes of a tensor. */
typedef enum spc_range_rule {
    SPC_RANGE_MAX,        /* the greatest */
    SPC_RANGE_PERCENTILE, /* holds a part of all magnitudes above 0 */
    SPC_RANGE_MSE         /* has the least mean squared error of rounding and
                           * clipping to 127 steps */
} spc_range_rule;

/* Starts a count without magnitudes. The caller frees *out. SPC_ENOMEM. */
SPC_API spc_status spc_net_magnitudes_create(spc_net_magnitudes **out,
                                             const spc_net *net,
                                             spc_error *error);
SPC_API void spc_net_magnitudes_free(spc_net_magnitudes *magnitudes);
/* Counts the tensors of the last run, with the conditions of
 * spc_net_plan_widen_ranges. The order of the runs does not matter. SPC_EINVAL:
 * the plan's network has another number of tensors; SPC_ESTATE: as there;
 * SPC_ENOMEM; SPC_EDEVICE. */
SPC_API spc_status spc_net_magnitudes_add(spc_net_magnitudes *magnitudes,
                                          spc_net_plan *plan,
                                          const spc_net_buffers *buffers);
/* Writes ranges [tensors] for spc_net_quantise, 0 for tensors without a
 * magnitude. `part` (0 to 1) is for PERCENTILE. SPC_EINVAL: an unknown rule, or
 * such a part. */
SPC_API spc_status
spc_net_magnitudes_ranges(float *ranges, const spc_net_magnitudes *magnitudes,
                          spc_range_rule rule, double part, spc_error *error);

/*
 * Distance of a tensor from the same tensor in a reference, as sums of squares:
 * sqrt(total / size) is the error relative to the tensor's size. `rounding` is
 * the difference if the reference's tensor is only rounded to the type of this
 * one. `own` is the difference of the convolution that makes the tensor, run
 * alone on the reference's inputs: it contains the rounding of its inputs,
 * weights and outputs, and no error of earlier layers. `total` is the
 * difference of the whole run.
 */
typedef struct spc_net_deviation {
    const char *layer; /* the convolution that makes the tensor; else NULL */
    spc_tensor in;     /* the tensor that this convolution reads */
    double size, rounding, own, total;
    int64_t reserved[4]; /* 0 */
} spc_net_deviation;

/*
 * Adds to out [tensors] the deviations of the last run of `plan` from that of
 * `reference`, a plan of the same network in another type, usually f32, that
 * ran the same scene. Calls for several scenes, starting with zeros, give the
 * deviations over all of them. Both plans must be made with `keep`. The tensors
 * of `plan` are overwritten: afterwards it counts as not checked. SPC_EINVAL:
 * the plans are of two networks, or ran two scenes; SPC_ESTATE: a plan was made
 * without `keep`, or has no checked run; SPC_ENOMEM; SPC_EDEVICE.
 */
SPC_API spc_status spc_net_plan_deviations(
    spc_net_deviation *out, spc_net_plan *plan, const spc_net_buffers *buffers,
    spc_net_plan *reference, const spc_net_buffers *reference_buffers);

/* The time of each step alone, repeated on the data of the last run, and its
 * shortest possible time; floors of maps are 0. */
typedef struct spc_net_time {
    double warm_us, floor_us;
    const char *floor_by;
    int64_t reserved[4]; /* 0 */
} spc_net_time;

/* Times every step: `out` has room for spc_net_plan_step_count. SPC_ESTATE:
 * there is no checked run. */
SPC_API spc_status spc_net_plan_profile(spc_net_time *out, spc_net_plan *plan,
                                        const spc_net_buffers *buffers);

/* What a step must compute and move on the scene of the last run, and the
 * shortest time that a device could need; all 0 for sets and maps. */
typedef struct spc_net_floor {
    double macs;             /* products and sums */
    double gathered_bytes;   /* one row of inputs for each pair */
    double compulsory_bytes; /* inputs, weights, map and outputs, each once */
    double us;               /* 0: the device is unknown */
    const char *by;      /* the term that sets it: "launch", "matrix", "gather",
                          * "cache" or "memory"; or "" */
    int64_t reserved[4]; /* 0 */
} spc_net_floor;

/*
 * Computes the floors of all steps, out [spc_net_plan_step_count], on a device
 * that need not be there: a device's name, as of spc_bench_floor, or NULL for
 * the plan's. SPC_ESTATE: there is no checked run; SPC_ENOMEM; SPC_EDEVICE.
 */
SPC_API spc_status spc_net_plan_floors(spc_net_floor *out, spc_net_plan *plan,
                                       const char *device);

#ifdef __cplusplus
}
#endif
#endif
