/*
 * spc.h - sparse convolution on 3D point clouds: layers, scenes, kernel maps,
 * tuned plans.
 *
 * The order of this file is the order of a caller's life: open a context on a
 * device, describe a layer, load a scene or pass coordinates, build the kernel
 * map, make a plan, pack the weights once, execute many times. Who has a new
 * scene for every frame reserves coordinate sets and maps once and only updates
 * them. The second half is the oracle, tuning, and looking into the database.
 *
 * Conventions
 *  - Functions return an spc_status: 0 or a negative code. The sentence for a
 *    human is in spc_ctx_error(ctx) (or in the spc_error given by the caller
 *    where there is no context yet).
 *  - A NULL where something is needed is SPC_EINVAL, and the sentence names it
 *    (without a context it has nowhere to stand). Questions about NULL
 *    answer 0, "" or NULL.
 *  - `T **out` is the caller's to free; on failure *out is NULL. Every free
 *    accepts NULL. A returned `const T *` lives as long as its parent.
 *  - Feature buffers, weights, workspace and stream belong to the caller and
 *    live on the context's device (host memory for "cpu" and "sim"). `stream`
 *    is a CUstream for "cuda" (NULL: the default stream), ignored otherwise.
 *  - A context, its coordinate sets and maps serve one thread at a time. A plan
 *    is immutable: any number of threads may execute it at the same time, each
 *    with its own buffers and stream.
 *  - Coordinates are rows of four int32: batch, x, y, z. Features are row
 *    major, [rows][channels].
 *  - The library prints nothing and holds no global state.
 */
#ifndef SPC_H
#define SPC_H

#include "spc_status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPC_VERSION_TEXT "0.1.0"

enum {
    SPC_MAX_OFFSETS = 343 /* kernel volume kx*ky*kz, 7^3 */
};

/* ---- contexts and devices ------------------------------------------------ */

typedef struct spc_ctx spc_ctx;       /* a device, a database, templates */
typedef struct spc_scene spc_scene;   /* coordinates on the host */
typedef struct spc_coords spc_coords; /* a coordinate set on the device */
typedef struct spc_map spc_map;       /* a kernel map on the device */
typedef struct spc_plan spc_plan;     /* a problem bound to one loaded kernel */

typedef struct spc_ctx_options {
    /* "cuda:0", "cuda", "cpu", "sim"; NULL: the best device present. */
    const char *device;
    /* Read-write database. NULL: $SPC_DATABASE, else
     * $XDG_CACHE_HOME/spctune/spctune.db, else ~/.cache/...; "": none. A host
     * that runs under a limit on the size of files should ignore SIGXFSZ, so
     * that a database at the limit is an error like a full disk. */
    const char *database;
    /* Read-only (shipped) databases below it, best first. */
    const char *const *layers;
    int layer_count;
    /* Folder whose kernels replace those built in; NULL: those built in. */
    const char *template_dir;
    int threads;        /* for compiling and for the cpu device; 0: all cores */
    bool need_database; /* fail if the database cannot be opened; otherwise a
                          database trouble is logged and the context works
                          without one; but spc_tune ends with it */
    /* Receives progress and warnings, from any thread; level: 0 debug, 1 info,
     * 2 warning. */
    void (*log)(int level, const char *text, void *payload);
    void *log_payload;
    /* Non-zero, set by any thread or a signal handler: what takes long in this
     * context (templates, maps, compiling, tuning, benchmarking) soon ends with
     * SPC_EINTERRUPTED. May be NULL. */
    const volatile int *cancel;
} spc_ctx_options;

#define SPC_CTX_OPTIONS_INIT                                                   \
    {                                                                          \
        NULL, NULL, NULL, 0, NULL, 0, false, NULL, NULL, NULL                  \
    }

/*
 * Opens a context. A cuda device uses the caller's current CUcontext, or
 * retains the primary one if there is none. `options` may be NULL. On failure
 * *error (may be NULL) holds the sentence. SPC_ENODEVICE: no such device;
 * SPC_EINVAL: an unknown device word; SPC_ENOTFOUND: a file of `layers`, or
 * template_dir, is not there; SPC_EDB, SPC_EDBVERSION with need_database;
 * SPC_ETEMPLATE: a template does not load; SPC_EINTERRUPTED.
 */
SPC_API spc_status spc_ctx_create(spc_ctx **out, const spc_ctx_options *options,
                                  spc_error *error);
/* Free its plans, maps and coordinate sets first: they use the context until
 * they are freed. */
SPC_API void spc_ctx_free(spc_ctx *ctx);

/*
 * The calling thread's last failure with this context, "" if it had none.
 * Threads that execute plans of one context never see, or overwrite, each
 * other's sentence. It stays until the same thread's next call with the
 * context, and is gone with the context.
 */
SPC_API const char *spc_ctx_error(const spc_ctx *ctx);

typedef struct spc_stats {
    int64_t lookups;          /* plans asked for */
    int64_t hits;             /* answered by a record of exactly this problem */
    int64_t near_hits;        /* answered by a neighbouring record */
    int64_t misses;           /* answered by a template's default */
    int64_t compiles;         /* kernels compiled, maps' kernels included */
    int64_t artefacts_loaded; /* compiled code taken from the database */
} spc_stats;

SPC_API spc_stats spc_ctx_stats(const spc_ctx *ctx);

/* The most bytes a nanosecond (GB/s) between the multiprocessors and memory or
 * a cache: reading only, writing only, and doing as much of both (their sum).
 */
typedef struct spc_bandwidth {
    double read_gbps, write_gbps, copy_gbps;
} spc_bandwidth;

enum { SPC_GATHER_SIZES = 8 }; /* rows of 8 << i bytes: 8, 16, ... 1024 */

typedef struct spc_device_info {
    char id[16];         /* "cuda:0" */
    char name[64];       /* device class: "NVIDIA H200", "cpu avx512" */
    char target[24];     /* what code is compiled for: "sm_90a", "avx512" */
    char driver[32];     /* "13.0", "" if none */
    int multiprocessors; /* cores for the cpu */
    size_t memory_bytes;
    size_t cache_bytes; /* of the cache before memory (for a cpu all its caches
                           together); 0: not known */
    /*
     * The device's measured ceilings, 0 until measured (spc_device_measure).
     * Each is the best of several shapes, orders and sizes, and of its samples
     * the fastest: no kernel should do better.
     */
    spc_bandwidth memory; /* of sets far larger than any cache */
    spc_bandwidth cache;  /* of sets well inside it */
    /* Rows gathered: neighbouring ones, again and again, which the cache next
     * to the multiprocessor serves; rows anywhere in a table well inside the
     * last cache; rows anywhere in a table far larger than it. */
    double gather_near_gbps[SPC_GATHER_SIZES];
    double gather_far_gbps[SPC_GATHER_SIZES];
    double gather_cold_gbps[SPC_GATHER_SIZES];
    /* Products and sums in registers, at the clock of a short run. */
    double f16_tflops;
    double tf32_tflops;
    double f32_tflops;
    double launch_us; /* of a kernel that does nothing, in a graph of them */
} spc_device_info;

/* Writes up to `capacity` devices of this machine, best first, and returns how
 * many there are. Opens no context. */
SPC_API int spc_devices_list(spc_device_info *out, int capacity);
SPC_API spc_status spc_ctx_device(const spc_ctx *ctx, spc_device_info *out);

/* Measures the context's device once (a few seconds) and stores the figures in
 * the database; spc_ctx_device then reports them, to contexts on as many
 * multiprocessors. */
SPC_API spc_status spc_device_measure(spc_ctx *ctx);

/* Device memory, for callers without an allocator of their own. */
SPC_API spc_status spc_alloc(void **out, spc_ctx *ctx, size_t bytes);
SPC_API void spc_dealloc(spc_ctx *ctx, void *memory);
SPC_API spc_status spc_copy_to_device(spc_ctx *ctx, void *device,
                                      const void *host, size_t bytes);
SPC_API spc_status spc_copy_to_host(spc_ctx *ctx, void *host,
                                    const void *device, size_t bytes);
SPC_API spc_status spc_synchronize(spc_ctx *ctx);

/* ---- layers -------------------------------------------------------------- */

/*
 * Which voxels are outputs, and which inputs each of them sees.
 *
 * A kernel is a list of offsets. The input of output voxel o at the offset with
 * place (i, j, l) in a box kernel lies, on each axis, at
 *
 *     o * stride + origin + dilation * place
 *
 * Coordinates of a level count in that level's own voxels. The rule says which
 * outputs there are:
 *
 *   SUBM       those of the inputs; stride 1 (Graham, Engelcke, van der Maaten,
 *              CVPR 2018, section 3)
 *   FLOOR      floor(i / stride) of every input i (Choy, Gwak, Savarese, CVPR
 *              2019, section 3; MinkowskiEngine)
 *   FOOTPRINT  every o that sees an input: i + padding - dilation * place is a
 *              multiple of the stride for some place. Where the inputs' spatial
 *              shape S is given, only 0 <= o < O with O = (S + 2 padding -
 *              dilation (kernel - 1) - 1) / stride + 1 (Yan, Mao, Li, Sensors
 *              2018, section 3.1.1; spconv)
 */
typedef enum spc_rule {
    SPC_RULE_SUBM = 0,
    SPC_RULE_FLOOR = 1,
    SPC_RULE_FOOTPRINT = 2
} spc_rule;

/* The rule's own origin. SUBM: -dilation * ((kernel - 1) / 2), integer
 * division: an even kernel reaches one further in the positive direction.
 * FLOOR: the same for odd kernels, 0 for even ones. FOOTPRINT: -padding. */
#define SPC_ORIGIN_AUTO INT32_MIN

typedef struct spc_geometry {
    spc_rule rule;
    int kernel[3];   /* x, y, z; product at most SPC_MAX_OFFSETS */
    int stride[3];   /* at least 1 */
    int dilation[3]; /* at least 1 */
    int padding[3];  /* FOOTPRINT only, at least 0 */
    int origin[3];   /* of place 0, in input voxels; SPC_ORIGIN_AUTO */
    int shape[3];    /* spatial shape of the inputs, FOOTPRINT only; 0: none */
    /* An explicit list instead of the box: displacements in input voxels, in
     * the order of the weights. 0: the box. kernel, dilation and origin then
     * stay as in SPC_GEOMETRY_INIT. SUBM and FLOOR only. */
    int offset_count;
    int16_t offsets[SPC_MAX_OFFSETS][3];
} spc_geometry;

#define SPC_GEOMETRY_INIT                                                      \
    {                                                                          \
        SPC_RULE_SUBM, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0},             \
            {SPC_ORIGIN_AUTO, SPC_ORIGIN_AUTO, SPC_ORIGIN_AUTO}, {0, 0, 0}, 0, \
        {                                                                      \
            {                                                                  \
                0                                                              \
            }                                                                  \
        }                                                                      \
    }

/* SPC_OK, or SPC_EINVAL with the reason. */
SPC_API spc_status spc_geometry_check(const spc_geometry *geometry,
                                      spc_error *error);
/* How many offsets the kernel has: the K of the weights; 0 for NULL. */
SPC_API int spc_geometry_offsets(const spc_geometry *geometry);
/* The displacement of offset k, 0 <= k < K: what is added to o * stride.
 * Offsets of a box count with z fastest: k = (i * ky + j) * kz + l. */
SPC_API void spc_geometry_offset(int out[3], const spc_geometry *geometry,
                                 int k);

typedef enum spc_operator {
    SPC_SUBM = 0,   /* outputs at the inputs' coordinates; rule SUBM */
    SPC_CONV = 1,   /* strided; rule FLOOR or FOOTPRINT */
    SPC_INVERSE = 2 /* a strided layer's map read the other way: its outputs are
                       that layer's inputs in their row order, its geometry is
                       that layer's, offsets are not flipped (spconv's
                       SparseInverseConv3d; transposed over a stored map) */
} spc_operator;

/* F16: binary16 in and out, fp32 accumulate. F32: fp32 throughout, no reduced
 * precision. TF32: fp32 in memory, products in tf32, fp32 accumulate. */
typedef enum spc_dtype { SPC_F16 = 0, SPC_F32 = 1, SPC_TF32 = 2 } spc_dtype;

/* A convolution layer as a value. */
typedef struct spc_conv {
    spc_operator op;
    int cin;
    int cout;
    spc_geometry geometry;
    spc_dtype dtype;
    bool bias;          /* add bias[cout] (fp32) in the epilogue */
    bool deterministic; /* only candidates without atomics; part of the key */
} spc_conv;

#define SPC_CONV_INIT                                                          \
    {                                                                          \
        SPC_SUBM, 0, 0, SPC_GEOMETRY_INIT, SPC_F16, false, false               \
    }

/*
 * Reads "subm,cin=64,cout=64,k=3,dtype=f16": the operator first, then words in
 * any order: cin, cout, k (3 or 3x3x1), dilation, dtype (f16, f32, tf32), bias
 * (0, 1), deterministic (0, 1). "conv" and "inverse" take stride, padding, rule
 * (floor, footprint), origin (-1 or -1x0x0) and shape besides; an inverse layer
 * has the words of the strided layer that it inverts, but for its own cin and
 * cout. SPC_EINVAL names the unknown word or the bad value and what would be
 * right.
 */
SPC_API spc_status spc_conv_parse(spc_conv *out, const char *text,
                                  spc_error *error);
/* Writes the canonical text (at most `bytes`, terminated); returns its length
 * as snprintf does. spc_conv_parse reads it back. */
SPC_API int spc_conv_format(char *out, size_t bytes, const spc_conv *conv);
/* SPC_OK, or SPC_EINVAL with the reason. */
SPC_API spc_status spc_conv_check(const spc_conv *conv, spc_error *error);

/* The arrays of a layer. */
typedef enum spc_operand {
    SPC_IN = 0,      /* [rows of the inputs][cin] */
    SPC_OUT = 1,     /* [rows of the outputs][cout] */
    SPC_WEIGHTS = 2, /* canonical: [cout][K][cin], or as SPC_RSCK */
    SPC_BIAS = 3,    /* [cout], fp32; none: 0 bytes */
    SPC_OPERANDS = 4
} spc_operand;

/* The bytes of one of them. `rows` are those of the inputs for SPC_IN, of the
 * outputs for SPC_OUT, else ignored; 0 for what is no layer. How large packed
 * weights are says spc_plan_weights_bytes. */
SPC_API size_t spc_conv_bytes(const spc_conv *conv, spc_operand which,
                              int64_t rows);

/* ---- scenes -------------------------------------------------------------- */

/*
 * Makes a scene from a specification:
 *   FILE.bin@VOXEL    rows of four little-endian float32 x y z intensity
 *                     (KITTI); VOXEL in the file's unit, floor(x / VOXEL)
 *   FILE.npy[@VOXEL]  [n][3 or 4] float points (with @VOXEL) or integer
 *                     voxels (3: x y z; 4: batch x y z)
 *   FILE.ply@VOXEL    vertices of an ascii or binary PLY file
 *   gen:shell,r=256   voxels with r/2-1.25 <= |p-centre| <= r/2 of an r^3 grid
 *   gen:lidar,seed=1,beams=64@0.05   a 64-beam scan of a generated street
 *   gen:room,seed=1@0.02             a generated furnished room
 *   gen:uniform,n=1000,extent=64,seed=1   n distinct random voxels
 * and after any of them ",level=N" (0 to 30): a network's level of stride 2^N
 * under the floor rule, coordinates divided by 2^N and rounded down.
 * Duplicates merge; rows are in ascending order of (batch, x, y, z). The same
 * specification gives the same scene on every machine. SPC_ENOTFOUND,
 * SPC_EIO, SPC_EFORMAT (with the byte or row), SPC_EINVAL (bad
 * specification), SPC_ERANGE (a coordinate does not fit int32).
 */
SPC_API spc_status spc_scene_load(spc_scene **out, const char *spec,
                                  spc_error *error);

/* Takes a copy of `rows` coordinates (host, [rows][4]) in their order,
 * duplicates and all; `name` (may be NULL) is what spc_scene_name returns. */
SPC_API spc_status spc_scene_create(spc_scene **out, const int32_t *coords,
                                    int64_t rows, const char *name,
                                    spc_error *error);
SPC_API void spc_scene_free(spc_scene *scene);
SPC_API int64_t spc_scene_rows(const spc_scene *scene);
SPC_API const int32_t *spc_scene_coords(const spc_scene *scene);
SPC_API const char *spc_scene_name(const spc_scene *scene); /* its spec */

/* ---- coordinate sets ----------------------------------------------------- */

/*
 * The occupied voxels of one level: sorted once, shared by all maps of the
 * level. A set and its count live on the device. There are two ways to one:
 *
 *  - spc_coords_create, _create_from_scene and _create_outputs wait for the
 *    device to learn the extent or the count, and fit exactly;
 *
 *  - spc_coords_reserve and _reserve_outputs take a capacity and an extent that
 *    are stated beforehand. From then on spc_coords_update and spc_map_update
 *    only enqueue: no allocation, no synchronisation, no copy to the host, no
 *    compiling, and a CUDA graph may capture them. What goes wrong is a status
 *    on the device, read with spc_coords_check whenever the caller likes.
 *
 * A frame of a strided layer, its sets and its map reserved before the first:
 *
 *     spc_coords_update(in, coords, count, 0, stream);
 *     spc_coords_update(out, NULL, NULL, 0, stream);
 *     spc_map_update(map, NULL, NULL, 0, stream);
 *     spc_plan_execute(plan, map, &buffers, stream);
 *
 * Features of a set stay in the order of the rows that the caller gave; a set
 * of outputs has its rows in ascending order of (batch, x, y, z).
 *
 * What is wrong with rows has a defined result. A row outside the extent takes
 * part in nothing: nobody sees it and its output is not written. Of rows with
 * one voxel the first stands for all, and only its output is written. With more
 * rows than the capacity the set is empty. Nothing is truncated.
 */
typedef enum spc_duplicates {
    SPC_DUPLICATES_ERROR = 0, /* spc_coords_check says SPC_EDUPLICATE */
    SPC_DUPLICATES_FIRST = 1, /* the first row's features count */
    SPC_DUPLICATES_SUM = 2,   /* spc_coords_merge adds them up */
    SPC_DUPLICATES_MEAN = 3   /* spc_coords_merge takes their mean */
} spc_duplicates;

typedef struct spc_coords_options {
    int64_t capacity; /* most rows */
    /* The stated extent: batch, x, y, z, both ends included. */
    int32_t low[4], high[4];
    /* How far kernels of maps may look past the extent, in voxels: (kernel - 1)
     * * dilation is enough for every rule with its own origin. 0: 8. Wider
     * guard bands cost bits of the keys. */
    int reach;
    spc_duplicates duplicates;
} spc_coords_options;

#define SPC_COORDS_OPTIONS_INIT                                                \
    {                                                                          \
        0, {0, 0, 0, 0}, {0, 0, 0, 0}, 0, SPC_DUPLICATES_ERROR                 \
    }

/*
 * Makes the set of `coords` (device, [rows][4], at a multiple of 16 bytes on
 * cuda and sim), which are not needed afterwards. Waits for `stream` to learn
 * the extent. SPC_EDUPLICATE: two equal coordinates, with their rows;
 * SPC_ERANGE: the extent does not fit a 64-bit key, which names the axis, or a
 * batch is negative; SPC_EINVAL; SPC_EDEVICE, also where memory is short.
 */
SPC_API spc_status spc_coords_create(spc_coords **out, spc_ctx *ctx,
                                     const int32_t *coords, int64_t rows,
                                     void *stream);
/* The same from a scene. */
SPC_API spc_status spc_coords_create_from_scene(spc_coords **out, spc_ctx *ctx,
                                                const spc_scene *scene);
/* The outputs of `geometry` (rule FLOOR or FOOTPRINT) over the set `in`, which
 * it keeps alive. Waits for the device to learn how many there are. */
SPC_API spc_status spc_coords_create_outputs(spc_coords **out, spc_coords *in,
                                             const spc_geometry *geometry);

/* An empty set of a stated capacity and extent. */
SPC_API spc_status spc_coords_reserve(spc_coords **out, spc_ctx *ctx,
                                      const spc_coords_options *options);
/* The same for the outputs of `geometry` over `in`. `capacity` 0: as many as
 * there can be: the capacity of `in` times one for FLOOR, and for FOOTPRINT
 * times the outputs that can see one input, on each axis ceil(kernel / stride)
 * where stride and dilation have no common divisor; or the whole extent of the
 * outputs, if that is less. */
SPC_API spc_status spc_coords_reserve_outputs(spc_coords **out, spc_coords *in,
                                              const spc_geometry *geometry,
                                              int64_t capacity);
/* Maps and sets of outputs that use the set keep it alive. */
SPC_API void spc_coords_free(spc_coords *coords);

/*
 * Fills a set anew on `stream`: from `rows` coordinates (device, as those of
 * spc_coords_create), or, if `count` (device) is not NULL, from *count of them.
 * A set of outputs is derived from its inputs: `coords` and `count` are NULL.
 * SPC_ECAPACITY: `rows` is more than the capacity; SPC_EINVAL; SPC_EDEVICE.
 */
SPC_API spc_status spc_coords_update(spc_coords *set, const int32_t *coords,
                                     const int32_t *count, int64_t rows,
                                     void *stream);
/* Waits for `stream`. SPC_ECAPACITY with the capacity that would have fitted,
 * SPC_ERANGE and SPC_EDUPLICATE with the first such row. spc_coords_rows then
 * says how many voxels there are. */
SPC_API spc_status spc_coords_check(spc_coords *coords, void *stream);

/* Makes the features [rows][channels] (device, binary16 for SPC_F16, else
 * binary32) of equal rows those of the first of them, by the set's policy:
 * their sum or their mean. Enqueues; does nothing by the other policies. */
SPC_API spc_status spc_coords_merge(const spc_coords *coords, void *features,
                                    spc_dtype dtype, int channels,
                                    void *stream);

/* Voxels as of the last check, or of creation; 0 for a reserved set that was
 * never checked. */
SPC_API int64_t spc_coords_rows(const spc_coords *coords);
SPC_API int64_t spc_coords_capacity(const spc_coords *coords);
SPC_API int spc_coords_key_bits(const spc_coords *coords); /* 32 or 64 */
/* How many voxels there are, on the device. */
SPC_API const int32_t *spc_coords_count(const spc_coords *coords);
/* Of a set of outputs its coordinates by row, [capacity][4] on the device; NULL
 * for others. */
SPC_API const int32_t *spc_coords_data(const spc_coords *coords);

/* ---- kernel maps --------------------------------------------------------- */

/*
 * A map is the relation of two sets by a geometry: which voxel of `in` an
 * output voxel of `to` sees at which offset. For the rule SUBM both are one
 * set; else `to` is the set of outputs of `in`. Found among sorted keys with
 * guard bands, so that no added offset carries into a neighbouring field: by
 * z-delta search (Spira, section 4: one binary search for each (x, y) column of
 * the kernel, then a walk along z), or as spc_tune_map has found to be faster.
 *
 * spc_map_create allocates, and finds nothing yet; spc_map_update enqueues the
 * search, once the sets are filled and whenever they are filled anew. The map
 * keeps its sets alive. SPC_ERANGE: the guard bands of `in` are too narrow for
 * the geometry; SPC_EINVAL: more than 2^31-1 entries, sets of two contexts, one
 * set where the rule has two.
 */
SPC_API spc_status spc_map_create(spc_map **out, spc_coords *in, spc_coords *to,
                                  const spc_geometry *geometry);
/* The same relation read the other way: the outputs `to` are the geometry's
 * inputs, `in` its outputs. Offsets are not flipped. */
SPC_API spc_status spc_map_create_inverse(spc_map **out, spc_coords *in,
                                          spc_coords *to,
                                          const spc_geometry *geometry);
/*
 * Fills the map and all its layouts anew on `stream`, from its sets as they are
 * then: `coords` and `count` are NULL. With `coords` a submanifold map fills
 * its set too, as spc_coords_update with the same arguments would, which is
 * faster than the two apart.
 */
SPC_API spc_status spc_map_update(spc_map *map, const int32_t *coords,
                                  const int32_t *count, int64_t rows,
                                  void *stream);
/* Waits for `stream`; as spc_coords_check of the map's sets. spc_map_rows,
 * _pairs and _density then speak of what there is. */
SPC_API spc_status spc_map_check(spc_map *map, void *stream);

/* Everything for one layer on one scene: the sets, their outputs where the
 * layer has other ones, and the map, filled and checked. The scene of an
 * inverse layer is the input of the layer that it inverts. Fails as
 * spc_coords_create and spc_map_create do. */
SPC_API spc_status spc_map_create_from_scene(spc_map **out, spc_ctx *ctx,
                                             const spc_conv *conv,
                                             const spc_scene *scene);
/* The same from coordinates as those of spc_coords_create. */
SPC_API spc_status spc_map_create_from_coords(spc_map **out, spc_ctx *ctx,
                                              const spc_conv *conv,
                                              const int32_t *coords,
                                              int64_t rows, void *stream);
SPC_API void spc_map_free(spc_map *map);

SPC_API spc_coords *spc_map_in(const spc_map *map); /* the map's own */
SPC_API spc_coords *spc_map_out(const spc_map *map);
SPC_API int64_t spc_map_rows(const spc_map *map);    /* outputs */
SPC_API int64_t spc_map_rows_in(const spc_map *map); /* inputs */
SPC_API int64_t spc_map_pairs(const spc_map *map);
SPC_API double spc_map_density(const spc_map *map); /* pairs / (rows * K) */
SPC_API int spc_map_key_bits(const spc_map *map);   /* of the inputs */

/*
 * Copies the map to the host in plain form: index[k * rows + row] is the input
 * row of offset k for output row `row`, or -1. `rows` is the capacity of the
 * outputs' set, which for maps made by spc_map_create_from_scene is the number
 * of outputs; `index` holds K * rows entries. Waits.
 */
SPC_API spc_status spc_map_download(const spc_map *map, int32_t *index);

/* ---- plans --------------------------------------------------------------- */

enum {
    SPC_PLAN_JIT = 0,              /* compile if the database has no code */
    SPC_PLAN_CACHED_ONLY = 1 << 0, /* never compile: SPC_ENOTFOUND instead */
    SPC_PLAN_ESTIMATE = 1 << 1     /* ignore the database: template's default */
};

/*
 * Makes a plan for `conv` on maps like `map`: its rows and density, as of its
 * last check, choose the record; of a map that was never checked the capacity
 * stands for the rows. Looked up in this order: a record of exactly this
 * problem; of the same layer in a neighbouring bucket; the nearest measured
 * layer whose configuration passes this one's constraints; the template's
 * default. Prepares the map's layout for the kernel chosen and waits for it:
 * any stream may then run the plan. SPC_ENOTFOUND: with SPC_PLAN_CACHED_ONLY
 * the database cannot serve; SPC_EUNSUPPORTED: no template accepts the layer;
 * SPC_EINVAL: the map is another layer's; SPC_ECOMPILE, SPC_EDEVICE.
 */
SPC_API spc_status spc_plan_create(spc_plan **out, spc_ctx *ctx,
                                   const spc_conv *conv, spc_map *map,
                                   unsigned flags);
SPC_API void spc_plan_free(spc_plan *plan);

typedef enum spc_origin {
    SPC_ORIGIN_EXACT,
    SPC_ORIGIN_BUCKET,
    SPC_ORIGIN_NEAREST,
    SPC_ORIGIN_DEFAULT
} spc_origin;

SPC_API spc_origin spc_plan_origin(const spc_plan *plan);
SPC_API const char *spc_plan_reason(const spc_plan *plan); /* one sentence */
SPC_API const char *spc_plan_template(const spc_plan *plan);
SPC_API const char *spc_plan_config(const spc_plan *plan);   /* "rows=64,..." */
SPC_API size_t spc_plan_weights_bytes(const spc_plan *plan); /* packed */
/* For a map that is prepared for the plan. */
SPC_API size_t spc_plan_workspace_bytes(const spc_plan *plan,
                                        const spc_map *map);

typedef enum spc_weights_layout {
    SPC_KRSC, /* [cout][kx][ky][kz][cin], as spconv 2 and MinkowskiEngine-like
                 channels-last filters */
    SPC_RSCK  /* [kx][ky][kz][cin][cout], as TorchSparse and spconv 1 */
} spc_weights_layout;

/* Packs canonical weights (device, the problem's type in memory) into `packed`
 * (device, spc_plan_weights_bytes, 256-byte aligned). Asynchronous on `stream`.
 */
SPC_API spc_status spc_plan_pack_weights(const spc_plan *plan, void *packed,
                                         const void *weights,
                                         spc_weights_layout layout,
                                         void *stream);

/* Makes `map` ready for `plan` (a map that was not the one given to
 * spc_plan_create), on `stream`. Allocates; not for the execute path. Other
 * streams, and other calls that prepare or read this map (spc_plan_create,
 * spc_map_download), must wait until that is done: spc_synchronize. */
SPC_API spc_status spc_map_prepare(spc_map *map, const spc_plan *plan,
                                   void *stream);

/* Rows are those of the map's sets; of `out` there are as many as the capacity
 * of the outputs' set, as kernels that add to it clear all of it first. */
typedef struct spc_buffers {
    const void *in;      /* [rows in][cin], 16-byte aligned */
    void *out;           /* [rows out][cout], 16-byte aligned; apart from in */
    const void *weights; /* packed */
    const float *bias;   /* [cout], if the layer has one */
    void *workspace;     /* spc_plan_workspace_bytes, 256-byte aligned */
} spc_buffers;

/*
 * Runs the layer: enqueues on `stream` and returns (the cpu and sim devices
 * return when done). No allocation, no synchronisation, no file access; may be
 * captured into a CUDA graph. SPC_ESTATE: the map is not prepared for this
 * plan; SPC_EINVAL: a missing or misaligned buffer; SPC_EDEVICE: the launch
 * failed.
 */
SPC_API spc_status spc_plan_execute(const spc_plan *plan, const spc_map *map,
                                    const spc_buffers *buffers, void *stream);

/* ---- the oracle ---------------------------------------------------------- */

/*
 * The relation of a layer on a scene, by hashing on the host, threaded,
 * independent of every device's map builder. The scene is the layer's input;
 * of an inverse layer it is the input of the strided layer that it inverts.
 *
 * The order of rows is part of the interface:
 *   subm     inputs and outputs are the scene's rows in their order
 *   conv     inputs are the scene's rows in their order; outputs are in
 *            ascending order of (batch, x, y, z)
 *   inverse  inputs are the outputs of the strided layer, in ascending order;
 *            outputs are the scene's rows in their order
 */
typedef struct spc_relation {
    int64_t rows_in, rows_out;
    int64_t pairs;
    int offsets;         /* K */
    int32_t *coords_in;  /* [rows_in][4]: batch, x, y, z */
    int32_t *coords_out; /* [rows_out][4] */
    int32_t *index;      /* [K][rows_out]: the input's row, or -1 */
} spc_relation;

/*
 * Fills *out, which the caller releases. threads 0: all cores. SPC_EDUPLICATE:
 * two equal rows, which it names; SPC_ERANGE: an output's coordinate does not
 * fit int32, or there are more outputs than row numbers; SPC_EINVAL: a
 * geometry that spc_geometry_check refuses, or one not of the operator's rule;
 * SPC_ENOMEM.
 */
SPC_API spc_status spc_oracle_relation(spc_relation *out, const spc_conv *conv,
                                       const spc_scene *scene, int threads,
                                       spc_error *error);
SPC_API void spc_relation_release(spc_relation *relation); /* NULL is fine */

/*
 * The oracle: the same layer in double precision on the host, threaded.
 * in [rows_in][cin], weights KRSC, bias or NULL, as float; out [rows][cout] as
 * double; magnitude (may be NULL) [rows][cout] receives the sum of
 * |weight * input| and |bias|, from which tolerances derive. `index` is that of
 * a relation, or of spc_map_download, and `rows` its output rows.
 */
SPC_API void spc_oracle(double *out, double *magnitude, const spc_conv *conv,
                        const int32_t *index, int64_t rows, const float *in,
                        const float *weights, const float *bias, int threads);

/* ---- tuning -------------------------------------------------------------- */

/* How far spc_tune goes with every candidate; each stage includes those before
 * it. */
typedef enum spc_stage {
    SPC_STAGE_LIST,   /* enumerate, check constraints */
    SPC_STAGE_BUILD,  /* compile, read the resource report */
    SPC_STAGE_VERIFY, /* compare with the oracle on the device */
    SPC_STAGE_TIME    /* time, choose, store */
} spc_stage;

typedef enum spc_effort {
    SPC_EFFORT_QUICK,
    SPC_EFFORT_NORMAL,
    SPC_EFFORT_EXHAUSTIVE
} spc_effort;

/* One candidate's record, as reported to a callback; strings live during it. */
typedef struct spc_trial {
    const char *template_name;
    const char *config;
    const char *status; /* "ok", "constraint", "template", "compile", "timeout",
                           "launch", "fault", "wrong" */
    const char *note;   /* what a failure said, else "" */
    bool is_default;
    bool from_database; /* known before; neither compiled nor timed now */
    bool verified;
    double error; /* largest error / tolerance; <= 1 passes */
    double median_us, spread_us, cold_us;
    int samples;
    int registers, spill_bytes, shared_bytes;
    double compile_ms;
} spc_trial;

typedef struct spc_progress {
    spc_stage stage;
    int done, total;          /* of this stage */
    double elapsed_s, left_s; /* left_s < 0: not known yet */
    double best_us;           /* 0: none yet */
    const char *best;         /* "os_warp rows=16,..." or NULL */
} spc_progress;

typedef struct spc_tune_options {
    spc_stage stage; /* the last one; SPC_STAGE_TIME to tune */
    spc_effort effort;
    const char *only;   /* a template's name; NULL: all */
    const char *target; /* compile for this target instead of the device's
                           (stages LIST and BUILD only) */
    uint64_t seed;      /* of weights, inputs and order */
    double limit_s;     /* time limit for one candidate's run; 0: 10 s */
    bool again;         /* measure even what the database knows */
    /* Called after every candidate's last stage; and on progress. */
    void (*on_trial)(const spc_trial *trial, void *payload);
    void (*on_progress)(const spc_progress *progress, void *payload);
    void *payload;
    const volatile int *cancel; /* non-zero: stop soon, SPC_EINTERRUPTED;
                                   what was measured is kept; NULL: the
                                   context's */
    /* Arguments (ended by NULL) of a program that opens a context on the same
     * device and calls spc_tune_worker: candidates then run there, so that a
     * crash or a hang costs that process and not the caller's. NULL: they run
     * in the caller's process, where limit_s cannot be enforced. */
    const char *const *worker;
    bool allow_spills; /* run also what spills registers */
} spc_tune_options;

#define SPC_TUNE_OPTIONS_INIT                                                  \
    {                                                                          \
        SPC_STAGE_TIME, SPC_EFFORT_NORMAL, NULL, NULL, 1, 0, false, NULL,      \
            NULL, NULL, NULL, NULL, false                                      \
    }

typedef struct spc_tune_report {
    int candidates; /* admitted */
    int refused;    /* by constraints or resource limits */
    int compiled, verified, timed;
    int failed; /* candidates, and templates that a mistake kept out */
    int known;
    double elapsed_s;
    char winner[256]; /* "os_warp rows=16,depth=4,...", "" if none */
    double winner_us, default_us;
    /* The scene on which the winner loses most against that scene's own best
     * candidate, and winner / best there; "" and 0 without a winner. */
    char worst_scene[128];
    double worst_ratio;
} spc_tune_report;

/*
 * Tunes a layer on sample scenes: every candidate is compiled, verified
 * against the oracle and timed; the winner by geometric mean over the scenes is
 * stored as the choice for each scene's bucket. What the database already
 * knows is not measured again.
 *
 * SPC_EINVAL: an argument that cannot be; SPC_EUNSUPPORTED: no candidate is
 * admitted; SPC_ERANGE: a scene's coordinates do not fit the keys of a map;
 * SPC_EIO, SPC_EDEVICE: the worker cannot be started or talked to;
 * SPC_EINTERRUPTED. If no candidate at all can be used, how the first one
 * fails: SPC_ETEMPLATE, SPC_ECOMPILE, SPC_ETIMEOUT, SPC_EDEVICE (it crashes),
 * SPC_EWRONG (its result differs from the oracle's). SPC_EDB (or
 * SPC_EDBVERSION): all went well and *report is complete, but the choice or
 * some measurements (SPC_STAGE_BUILD: compiled code) could not be stored. It is
 * no failure where no database was asked for, by an empty name.
 */
SPC_API spc_status spc_tune(spc_ctx *ctx, const spc_conv *conv,
                            const spc_scene *const *scenes, int scene_count,
                            const spc_tune_options *options,
                            spc_tune_report *report);

/*
 * Tunes the search of a layer's map: every configuration of the template
 * "index" makes the map of each scene, is compared with the oracle's relation
 * entry by entry, and timed. The fastest by geometric mean is stored as the
 * choice for this geometry, and maps that are created later use it. Of the
 * options only the callbacks count. SPC_EUNSUPPORTED where the host builds maps:
 * there is nothing to choose. Else as spc_tune.
 */
SPC_API spc_status spc_tune_map(spc_ctx *ctx, const spc_conv *conv,
                                const spc_scene *const *scenes, int scene_count,
                                const spc_tune_options *options,
                                spc_tune_report *report);

/*
 * The other side of spc_tune_options.worker: measures candidates for the
 * tuner that started this process, through the descriptors 3 and 4 which it
 * inherited, until that tuner hangs up. SPC_ESTATE if nobody is there.
 */
SPC_API spc_status spc_tune_worker(spc_ctx *ctx);

/* Renders candidate number `i` (from 0) of SPC_STAGE_LIST, in the order of
 * on_trial; *out is the caller's. */
SPC_API spc_status spc_space_render(char **out, spc_ctx *ctx,
                                    const spc_conv *conv, const char *target,
                                    int i);

typedef struct spc_bench_result {
    double warm_us, warm_spread_us;   /* convolution, map built */
    double cold_us, cold_spread_us;   /* flushed caches */
    double index_us, index_spread_us; /* pack + sort + map, in key order */
    double order_us;                  /* row order and tile table of the plan */
    double map_us, map_spread_us; /* all of that at once, as a plan reads it */
    /* The least time that the device could need for the convolution, with warm
     * and with flushed caches, and what sets it: "launch", "matrix", "gather",
     * "cache" or "memory". 0 and "": nothing is known of the device. A time
     * below its floor means that one of the two is wrong. */
    double warm_floor_us, cold_floor_us;
    const char *warm_floor_by, *cold_floor_by;
    bool floor_measured; /* from spc_device_measure's figures; else from those
                            known of the device's class */
    double flops, gathered_bytes;
    double compulsory_bytes; /* that must be read or written at least once */
    double error; /* against the oracle, over tolerance; the largest of those
                     before and after timing */
    int samples;
    spc_origin origin;
    char plan[256]; /* "os_warp rows=16,..." */
} spc_bench_result;

/* Times the plan that spc_plan_create gives for conv on scene. SPC_EINVAL: the
 * scene has no voxels; SPC_EWRONG: the result differs from the oracle's, before
 * the plan was timed or after it; SPC_EINTERRUPTED; others as that one's. */
SPC_API spc_status spc_bench(spc_ctx *ctx, const spc_conv *conv,
                             const spc_scene *scene, uint64_t seed,
                             spc_bench_result *out);

/* ---- the database -------------------------------------------------------- */

/* One problem of the database, for listings; strings live during the call. */
typedef struct spc_db_row {
    const char *file;
    int64_t id;
    const char *layer;  /* canonical text */
    const char *device; /* device class */
    const char *target;
    double rows; /* out, of the measured scene */
    double rows_in;
    double density;
    int trials, trials_ok;
    const char *choice; /* "os_warp rows=16,..." or NULL */
    double median_us, spread_us;
    const char *provenance;
} spc_db_row;

SPC_API spc_status spc_db_each(spc_ctx *ctx,
                               spc_status (*each)(const spc_db_row *row,
                                                  void *payload),
                               void *payload);

/* The trials of problem `id`. IDs count in each file: of several problems it is
 * the one that spc_db_each lists first, in the uppermost file. SPC_EDB: some
 * trials could not be read, the others were reported. */
SPC_API spc_status spc_db_trials(spc_ctx *ctx, int64_t id,
                                 void (*each)(const spc_trial *trial,
                                              void *payload),
                                 void *payload);

#ifdef __cplusplus
}
#endif
#endif
