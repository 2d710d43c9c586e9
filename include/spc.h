/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc.h - sparse convolution on 3D point clouds: layers, scenes, kernel maps,
 * tuned plans.
 *
 * This file follows the order in which a caller works: open a context on a
 * device, describe a layer, load a scene or pass coordinates, build the kernel
 * map, make a plan, pack the weights once, execute many times. A caller with a
 * new scene for every frame reserves coordinate sets and maps once and then
 * only updates them. The second half is the oracle, tuning, and looking into
 * the database.
 *
 * Conventions
 *  - Functions return an spc_status: 0 or a negative code. The sentence for a
 *    human is in the spc_error of a call that takes one, else in
 *    spc_ctx_error(ctx); spc_error_text() finds it in either. A call that
 *    succeeds clears the spc_error that it was given.
 *  - A NULL where something is needed is SPC_EINVAL, and the sentence names it
 *    (without a context there is no place for one). Functions that return no
 *    status answer 0, "" or NULL, or do nothing, for a NULL, an index that is
 *    out of range or a layer whose numbers are.
 *  - SPC_ESTATE: a set, cloud, map or network is used before anything has filled
 *    or run it. The call that fills it counts when it is enqueued or captured.
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

/* ---- version ------------------------------------------------------------- */

/* The version of these headers. A release increases SPC_VERSION_NUMBER, so that
 * a program can compare: #if SPC_VERSION_NUMBER >= 10200 (1.2.0). */
#define SPC_VERSION_MAJOR 0
#define SPC_VERSION_MINOR 1
#define SPC_VERSION_PATCH 0
#define SPC_VERSION_NUMBER                                                     \
    (SPC_VERSION_MAJOR * 10000 + SPC_VERSION_MINOR * 100 + SPC_VERSION_PATCH)
#define SPC_VERSION_TEXT "0.1.0"

/* The SPC_VERSION_NUMBER of the library that is loaded, which may differ from
 * that of the headers that the program was compiled with. */
SPC_API int spc_version(void);

/*
 * sizeof the struct of that name in the library that is loaded, in bytes, as in
 * spc_struct_bytes("spc_conv"). It knows every struct that these headers
 * define, without those of spc_import.h. 0: it knows no such struct, or `name`
 * is NULL. A binding that declares the structs in another language compares
 * these sizes with its own once, before the first call.
 */
SPC_API size_t spc_struct_bytes(const char *name);

enum {
    SPC_MAX_OFFSETS = 343 /* kernel volume kx*ky*kz, 7^3 */
};

/* ---- contexts and devices ------------------------------------------------ */

typedef struct spc_ctx spc_ctx;       /* a device, a database, templates */
typedef struct spc_scene spc_scene;   /* coordinates on the host */
typedef struct spc_coords spc_coords; /* a coordinate set on the device */
typedef struct spc_map spc_map;       /* a kernel map on the device */
typedef struct spc_points spc_points; /* clouds of points on the device */
typedef struct spc_plan spc_plan;     /* a problem bound to one loaded kernel */

/*
 * A caller's allocator for device memory (host memory for cpu and sim): of sets,
 * clouds, voxels, maps, networks, trainings, the laboratory's samples, and of
 * spc_alloc. Code, and what the driver itself needs, do not go through it, nor
 * does the scratch buffer by which a benchmark empties the cache.
 *
 * Both functions are called on the thread that calls the library, during that
 * call; on cuda the context's CUcontext is current. They must not call the
 * library. Two threads may call them at once where two threads use the library.
 */
typedef struct spc_memory_hook {
    /* Returns at least `bytes` (more than 0) at a multiple of 256 bytes, which
     * no enqueued work uses any more. NULL means out of memory: the call of the
     * library then returns SPC_ENOMEM and keeps nothing. `stream` is the stream
     * that uses the memory first; NULL means any stream. */
    void *(*alloc)(size_t bytes, void *stream, void *payload);
    /* Takes back what `alloc` returned, with the same `bytes`. */
    void (*free)(void *memory, size_t bytes, void *stream, void *payload);
    void *payload;
    /* False: the library waits for the device before each `free`, as cuMemFree
     * does. True: it does not, and enqueued work may still use the memory: the
     * allocator reuses it only behind that work. An allocator that orders by
     * stream does so if the caller uses one stream for everything. */
    bool ordered;
} spc_memory_hook;

typedef struct spc_ctx_options {
    /* "cuda:0", "cuda", "cpu", "sim"; NULL: the best device present. */
    const char *device;
    /* Read-write database. NULL: $SPC_DATABASE, else
     * $XDG_CACHE_HOME/spctune/spctune.db, else ~/.cache/...; "": none. A host
     * that runs under a limit on the size of files should ignore SIGXFSZ, so
     * that a database at the limit is an error like a full disk. */
    const char *database;
    /* Read-only (shipped) databases below it, best first. With "pack.db" comes
     * "pack.TARGET.db", the code for the device's target, where it is there. */
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
    /* Anyone who can write a database decides which code runs. So a database
     * that a user other than the caller and root owns or may write fails with
     * SPC_EDB. GPU code from `layers` is run, but host code from them is
     * compiled anew. True: both are trusted. */
    bool trust;
    /* The text of a minisign public key. Only those `layers` are used whose
     * manifest (spc_db_pack) was signed with it, and only the records that the
     * manifest lists. NULL: no signature is required. */
    const char *key;
    /* Folder of the tuned databases shipped with the library, one for each
     * class of device. The database of this device's class, if any, has the
     * lowest priority: an equally close record of any other file wins. NULL:
     * $SPC_SHIPPED, else the installed folder. "": no shipped database; also
     * none with `key` or with a `database` of "". */
    const char *shipped;
    /* Allocates device memory in place of the driver or malloc. All NULL: those
     * do. It must outlive the context and all that was made with it. */
    spc_memory_hook memory;
} spc_ctx_options;

#define SPC_CTX_OPTIONS_INIT                                                   \
    {                                                                          \
        NULL, NULL, NULL, 0, NULL, 0, false, NULL, NULL, NULL, false, NULL,    \
            NULL, {NULL, NULL, NULL, false}                                    \
    }

/*
 * Opens a context. A cuda device uses the caller's current CUcontext, or
 * retains the primary one if no context is current. `options` may be NULL. On
 * failure *error (may be NULL) holds the sentence. SPC_ENODEVICE: no such
 * device; SPC_EINVAL: an unknown device word; SPC_ENOTFOUND: a file of
 * `layers`, or template_dir, is not there; SPC_EDB, SPC_EDBVERSION with
 * need_database; SPC_EINVAL also for a memory hook with one of its functions
 * alone; SPC_ETEMPLATE: a template does not load; SPC_EINTERRUPTED.
 */
SPC_API spc_status spc_ctx_create(spc_ctx **out, const spc_ctx_options *options,
                                  spc_error *error);
/* Sets, clouds, voxels, maps, plans and trainings that were made with the
 * context keep it open: it closes with the last of them, and they may be used
 * until then. The handle is gone at once, with its background thread. Memory of
 * spc_alloc is the caller's to give back before. */
SPC_API void spc_ctx_free(spc_ctx *ctx);

/*
 * The calling thread's last failure with this context, "" if it had none.
 * Threads that execute plans of one context never see, or overwrite, each
 * other's sentence. It stays until the same thread's next call with the
 * context, and is gone with the context.
 */
SPC_API const char *spc_ctx_error(const spc_ctx *ctx);

/*
 * The sentence of a call that has just failed, whichever kind of call it was:
 * that of *error if there is one, else spc_ctx_error(ctx). A program that stops
 * at its first failure passes the one spc_error that it gave to every call that
 * takes one. Either argument may be NULL.
 */
SPC_API const char *spc_error_text(const spc_error *error, const spc_ctx *ctx);

/*
 * Was the context made by the calling process? False in a child of fork(), and
 * for NULL. A driver's state does not survive fork(): with a cuda context of its
 * parent, a child gets SPC_ESTATE from every call that needs the driver, its
 * free functions release nothing, and the parent is not disturbed. The child
 * makes a context of its own, which CUDA allows only if the parent had not used
 * CUDA before it forked; start such workers by exec. Contexts of cpu and sim
 * serve a child whose parent's threads were idle, but one database must not be
 * used through one context in both processes.
 */
SPC_API bool spc_ctx_belongs(const spc_ctx *ctx);

/* The context that the object was made with: to be compared, and not to be used
 * after its spc_ctx_free. NULL for NULL. */
SPC_API const spc_ctx *spc_plan_ctx(const spc_plan *plan);
SPC_API const spc_ctx *spc_map_ctx(const spc_map *map);
SPC_API const spc_ctx *spc_coords_ctx(const spc_coords *coords);

typedef struct spc_stats {
    int64_t lookups;          /* plans asked for */
    int64_t hits;             /* answered by a record of exactly this problem */
    int64_t near_hits;        /* answered by a neighbouring record */
    int64_t misses;           /* answered by a template's default */
    int64_t compiles;         /* kernels compiled, maps' kernels included */
    int64_t artefacts_loaded; /* compiled code taken from the database */
} spc_stats;

/* Returns the counters of a context; all 0 for NULL. */
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
    char target[24];     /* the target of compiled code: "sm_90a", "avx512" */
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
    double i8_tflops; /* 10^12 whole ones a second */
    double launch_us; /* launch of an empty kernel in a graph of such */
    bool emulates;    /* another device, to verify kernels: its times say nothing
                       */
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
 * Coordinates of a level count in that level's own voxels. The rule determines
 * the outputs:
 *
 *   SUBM       those of the inputs; stride 1 (Graham, Engelcke, van der Maaten,
 *              CVPR 2018, section 3)
 *   FLOOR      floor(i / stride) of every input i (Choy, Gwak, Savarese, CVPR
 *              2019, section 3; MinkowskiEngine)
 *   FOOTPRINT  every o that sees an input: i + padding - dilation * place is a
 *              multiple of the stride for some place. Where the inputs' spatial
 *              shape S is given, only 0 <= o < O with O = (S + 2 padding -
 *              dilation (kernel - 1) - 1) / stride + 1 (Yan, Mao, Li, Sensors
 *              2018, section 3.1.1; spconv). Stride 1 dilates the set
 *   GIVEN      those of a set that the caller has
 *   GENERATIVE read the other way only: from voxels o come all voxels i that
 *              they see by the formula, each once (Choy, Gwak, Savarese, CVPR
 *              2019; Gwak, Choy, Savarese, ECCV 2020; MinkowskiEngine). Where a
 *              shape is given, only 0 <= i < shape. With origin -padding and
 *              the shape (S - 1) stride - 2 padding + dilation (kernel - 1) + 1
 *              + output_padding, S that of o, it is spconv's
 *              SparseConvTranspose3d
 *   RADIUS     of points, not of voxels: see "native points" below
 */
typedef enum spc_rule {
    SPC_RULE_SUBM = 0,
    SPC_RULE_FLOOR = 1,
    SPC_RULE_FOOTPRINT = 2,
    SPC_RULE_GIVEN = 3,
    SPC_RULE_GENERATIVE = 4,
    SPC_RULE_RADIUS = 5
} spc_rule;

/* The rule's own origin. SUBM: -dilation * ((kernel - 1) / 2), integer
 * division: an even kernel reaches one further in the positive direction.
 * FLOOR, GIVEN, GENERATIVE: the same for odd kernels, 0 for even ones.
 * FOOTPRINT: -padding. */
#define SPC_ORIGIN_AUTO INT32_MIN

typedef struct spc_geometry {
    spc_rule rule;
    int kernel[3];   /* x, y, z; product at most SPC_MAX_OFFSETS */
    int stride[3];   /* at least 1 */
    int dilation[3]; /* at least 1 */
    int padding[3];  /* FOOTPRINT only, at least 0 */
    int origin[3];   /* of place 0, in input voxels; SPC_ORIGIN_AUTO */
    int shape[3];    /* up to 2^30; 0: none on this axis. FOOTPRINT: spatial
                        shape of the inputs; GENERATIVE: of what is generated */
    /* An explicit list instead of the box: displacements in input voxels, in
     * the order of the weights, each once. 0: the box. kernel, dilation, padding
     * and origin then stay as in SPC_GEOMETRY_INIT. With every rule but RADIUS
     * the input of output o lies at o * stride + displacement. FOOTPRINT
     * produces every o, and GENERATIVE every i, for which that holds with a
     * displacement of the list. With a shape S, FOOTPRINT's outputs are 0 <= o
     * < O, O = (S - low - high - 1) / stride + 1, where low and high are the
     * least and greatest displacement along the axis: the O of a box, whose low
     * is -padding. */
    int offset_count;
    int16_t offsets[SPC_MAX_OFFSETS][3];
    /* RADIUS only; kernel is then the cells along each axis. */
    float radius; /* above 0 */
    int nearest;  /* number of nearest inputs used; up to 2^20; 0: all */
    float voxel;  /* outputs are one point of each voxel of this edge; 0: they
                     are the inputs, or what the caller has */
} spc_geometry;

#define SPC_GEOMETRY_INIT                                                      \
    {                                                                          \
        SPC_RULE_SUBM, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0},             \
            {SPC_ORIGIN_AUTO, SPC_ORIGIN_AUTO, SPC_ORIGIN_AUTO}, {0, 0, 0}, 0, \
        {{0}}, 0, 0, 0                                                         \
    }

/* SPC_OK, or SPC_EINVAL with the reason. */
SPC_API spc_status spc_geometry_check(const spc_geometry *geometry,
                                      spc_error *error);
/* Number of offsets of the kernel: the K of the weights; 0 if invalid. */
SPC_API int spc_geometry_offsets(const spc_geometry *geometry);
/* The displacement of offset k, 0 <= k < K: what is added to o * stride; of any
 * other k (0, 0, 0). Offsets of a box count with z fastest: k = (i * ky + j) *
 * kz + l. */
SPC_API void spc_geometry_offset(int out[3], const spc_geometry *geometry,
                                 int k);

/*
 * The sum that all operators compute from inputs [rows in][cin] and weights
 * [cout][K][cin / groups], for each row and channel of the outputs [rows
 * out][cout]:
 *
 *     sum[o][co] = the sum over k < K and c < cin / groups of
 *                  weights[co][k][c] * in[i][g * cin / groups + c]
 *
 * where i is the row of the input that o sees at offset k, if there is one, and
 * g = co / (cout / groups); the epilogue then makes out of sum. With groups =
 * cin = cout each channel is by itself (depthwise: Howard and others, 2017).
 * Operators differ in which voxels are outputs, and in which input that is.
 * Their sources are those of the rules; INVERSE is spconv's, TRANSPOSED and
 * GENERATIVE are MinkowskiEngine's.
 */
typedef enum spc_operator {
    SPC_SUBM = 0,    /* outputs at the inputs' coordinates; rule SUBM */
    SPC_CONV = 1,    /* strided; rule FLOOR, FOOTPRINT or GIVEN */
    SPC_INVERSE = 2, /* a strided layer's map read the other way: its outputs
                        are that layer's inputs in their row order, its geometry
                        is that layer's, offsets are not flipped (spconv's
                        SparseInverseConv3d; transposed over a stored map) */
    /* The formula read the other way: an output at o sees the input at i where
     * o = i * stride + origin + dilation * place. */
    SPC_TRANSPOSED = 3, /* outputs are a set that the caller has; rule GIVEN */
    SPC_GENERATIVE = 4, /* outputs are all that see an input; rule GENERATIVE */
    SPC_POINTS = 5      /* of points; rule RADIUS, also allowed for INVERSE */
} spc_operator;

/* F16: binary16 in and out, fp32 accumulate. F32: fp32 throughout, no reduced
 * precision. TF32: fp32 in memory, products in tf32, fp32 accumulate. BF16:
 * bfloat16 (the upper half of an fp32) in and out, fp32 accumulate. I8: whole
 * numbers from -128 to 127 in and out, int32 accumulate; see below. An int32
 * holds fewer than 2^17 products (offsets * cin / groups) whatever they are.
 *
 * A result that F16 cannot hold, from 65520 on, is infinite. Sums propagate
 * infinities and NaN as IEEE 754 does, with two exceptions: a kernel may turn
 * an infinity that it reads into NaN, and a NaN weight may also appear in
 * outputs of its channel that have no input at its offset. An activation may
 * turn NaN into a number. */
typedef enum spc_dtype {
    SPC_F16 = 0,
    SPC_F32 = 1,
    SPC_TF32 = 2,
    SPC_BF16 = 3,
    SPC_I8 = 4
} spc_dtype;

/*
 * The type in which products are summed. OWN: fp32; for I8 int32. SUMS_F16, for
 * F16 only: sums may also be binary16, rounded after every few products (PTX
 * ISA, mma with an accumulator of .f16). It suits a caller whose sums stay
 * below 65520, as larger ones become infinite, and for whom each rounding,
 * 2^-11 of the sum so far, does no harm. It is a permission, not a demand:
 * kernels that sum in fp32 remain candidates, and they are the only ones on a
 * processor. A gradient of weights is summed in fp32.
 */
typedef enum spc_accumulator {
    SPC_SUMS_OWN = 0,
    SPC_SUMS_F16 = 1
} spc_accumulator;

/* "f16"; NULL past the last type. */
SPC_API const char *spc_dtype_name(spc_dtype dtype);

/*
 * The epilogue: what a kernel does to an fp32 sum before it is stored, in fp32,
 * rounded once to the type of the outputs.
 *
 *     y = sum * scale[c] + bias[c]         each of them if asked for
 *     y = activation(y + residual[row][c]) with SPC_ADD_BEFORE
 *     y = activation(y) + residual[row][c] with SPC_ADD_AFTER
 *
 * Scale and bias are a batch normalisation that is folded: scale = gamma /
 * sqrt(variance + epsilon), bias = beta - mean * scale.
 *
 * Tensors of I8 are quantised symmetrically, as in TensorRT: the element q
 * represents q * s, where s is the tensor's scale, an fp32 number stored on the
 * device with the tensor. (An exporter's dynamic range amax means s = amax /
 * 127.) For such inputs, outputs and residuals:
 *
 *     y = sum * (in_scale * scale[c]) + bias[c]
 *     the residual is residual[row][c] * residual_scale
 *     out = round(y / out_scale), ties to even, at least -128, at most 127
 *
 * with the sum of products in int32, exact while it fits (2^17 products always
 * do), then rounded to fp32. Weights have a scale for each output channel,
 * which is scale[c] (or a factor of it, with a batch normalisation); their own
 * numbers are from -127 to 127 by that convention, though -128 works as well.
 * Quotients and products with a scale are rounded to fp32. Inputs of I8 may
 * have outputs of any type, and inputs of any type outputs of I8: as where a
 * network's quantised part begins and ends.
 */
typedef enum spc_activation {
    SPC_ACT_NONE = 0,
    SPC_ACT_RELU = 1,    /* max(y, 0) */
    SPC_ACT_LEAKY = 2,   /* y, below zero slope * y */
    SPC_ACT_SIGMOID = 3, /* 1 / (1 + exp(-y)) */
    SPC_ACT_SILU = 4,    /* y / (1 + exp(-y)) */
    SPC_ACT_GELU = 5,    /* y / 2 * (1 + erf(y / sqrt(2))): the exact form, not
                            that with tanh */
    SPC_ACT_ELU = 6      /* y, below zero slope * (exp(y) - 1) */
} spc_activation;

typedef enum spc_add {
    SPC_ADD_NONE = 0,
    SPC_ADD_BEFORE = 1, /* the residual is added before the activation */
    SPC_ADD_AFTER = 2   /* or after it; without one it is AFTER */
} spc_add;

/* The type of the outputs in memory, and of the residual. */
typedef enum spc_out_type {
    SPC_OUT_OWN = 0, /* as the inputs */
    SPC_OUT_F16 = 1,
    SPC_OUT_BF16 = 2,
    SPC_OUT_F32 = 3,
    SPC_OUT_I8 = 4
} spc_out_type;

/*
 * The passes of a training step. With y = conv(x), and dy the gradient of some
 * loss by y:
 *
 *   DGRAD  dx[i][ci] = the sum over k and co of dy[o][co] * w[co][k][ci], for
 *          the output o that sees i at offset k. That is a convolution again:
 *          the operator is the one that reads the relation the other way (SUBM
 *          remains, with its offsets mirrored), cin and cout have changed
 *          places, and so all that serves convolutions serves it. Its weights
 *          are those of the layer as they are: spc_plan_pack_weights turns
 *          them. The gradient of a GENERATIVE layer is a CONV by that rule
 *   WGRAD  dw[k][ci][co] = the sum over the pairs (i, o) of offset k of x[i][ci]
 *          * dy[o][co], and with `bias` db[co] = the sum over o of dy[o][co];
 *          ci counts in co's group. The layer's own operator, channels and map.
 *          x is `in`, dy `grad`, of the layer's type; out is SPC_RSCK,
 *          [K][cin / groups][cout], then db[cout] if there is one, in the type
 *          `out`; with `accumulate` added to what `weights` points at, of that
 *          shape and type, which may be out itself. No epilogue
 *
 * Both sum in an order that does not change, without atomics, if the layer is
 * deterministic.
 */
typedef enum spc_pass {
    SPC_FORWARD = 0,
    SPC_DGRAD = 1,
    SPC_WGRAD = 2
} spc_pass;

/* A convolution layer as a value. */
typedef struct spc_conv {
    spc_operator op;
    int cin;
    int cout;
    /* Number of groups of channels, each with its own weights: output channel
     * co reads only the inputs of group co / (cout / groups). Divides cin and
     * cout; 1: every output sees every input; cin: depthwise. */
    int groups;
    spc_geometry geometry;
    spc_dtype dtype;
    bool bias;          /* add bias[cout] (fp32) in the epilogue */
    bool deterministic; /* only candidates without atomics; part of the key */
    bool scale;         /* multiply by scale[cout] (fp32) before the bias */
    spc_activation activation;
    float slope; /* of LEAKY and ELU just below zero, up to 16; 0: 0.01 for
                    LEAKY, 1 for ELU (its alpha) */
    spc_add add;
    spc_out_type out;
    /* Elements from row to row; 0 means the number of channels. A larger pitch
     * makes the tensor a slice of a wider one: the elements between its rows
     * are neither read nor written. Concatenation is two layers that write
     * slices of one tensor. The caller passes the address of the slice's first
     * channel, which must be a multiple of 16 bytes like that of any tensor. */
    int in_pitch, out_pitch, add_pitch;
    spc_pass pass;
    bool accumulate; /* WGRAD alone: adds to a gradient that is there */
    spc_accumulator accumulator;
} spc_conv;

#define SPC_CONV_INIT                                                          \
    {                                                                          \
        SPC_SUBM, 0, 0, 1, SPC_GEOMETRY_INIT, SPC_F16, false, false, false,    \
            SPC_ACT_NONE, 0, SPC_ADD_NONE, SPC_OUT_OWN, 0, 0, 0, SPC_FORWARD,  \
            false, SPC_SUMS_OWN                                                \
    }

/*
 * Reads "subm,cin=64,cout=64,k=3,dtype=f16": the operator first, then words in
 * any order: cin, cout, groups (1; cin for a depthwise layer), k (3 or 3x3x1),
 * dilation, dtype (f16, f32, tf32, bf16, i8), deterministic (0, 1), epilogue,
 * slope, out (f16, bf16, f32, i8), in_pitch, out_pitch, add_pitch, pass (dgrad,
 * wgrad; spc_conv_pass), accumulate, accumulator (f32; i32 for i8; f16 also
 * allowed for f16, see spc_accumulator). An epilogue is a list in the order of
 * computation, as in epilogue=scale+bias+relu+add: scale and bias first, then
 * an activation (relu, leaky, sigmoid, silu, gelu, elu) and add in either
 * order; bias=1 is another word for epilogue=bias. "conv" and "inverse" take
 * stride, padding, rule (floor, footprint; conv also given), origin (-1 or
 * -1x0x0) and shape in addition. An inverse layer has the words of the strided
 * layer that it inverts, except its own cin and cout.
 * offsets=0x0x0+1x0x0+-1x0x0 is a list that replaces k, dilation, padding and
 * origin. "transposed" and "generative" take stride and origin; "generative"
 * also takes the shape of its outputs. "points" takes radius, nearest and
 * voxel; its inverse has rule=radius and the same words.
 * "linear,cin=64,cout=128" is written for "subm,cin=64,cout=128,k=1": each row
 * by itself, over any set or none. SPC_EINVAL names the unknown word or the bad
 * value and what would be right.
 */
SPC_API spc_status spc_conv_parse(spc_conv *out, const char *text,
                                  spc_error *error);
/* Writes the canonical text (at most `bytes`, terminated); returns its length
 * as snprintf does. spc_conv_parse reads it back. "" for a geometry whose
 * numbers are out of range. */
SPC_API int spc_conv_format(char *out, size_t bytes, const spc_conv *conv);
/* SPC_OK, or SPC_EINVAL with the reason. */
SPC_API spc_status spc_conv_check(const spc_conv *conv, spc_error *error);

/*
 * The problem of a pass of `layer`, a forward layer without an epilogue but a
 * bias: its gradients have the layer's type. DGRAD has no bias, and the layer's
 * pitches in each other's place; WGRAD has the bias's gradient, and add_pitch
 * for dy. In text they are the layer's words and pass=dgrad or pass=wgrad, where
 * `epilogue`, `out` and the pitches are the pass's own, and accumulate=1.
 * SPC_EINVAL: whole numbers, or an epilogue.
 */
SPC_API spc_status spc_conv_pass(spc_conv *out, const spc_conv *layer,
                                 spc_pass pass, spc_error *error);

/* Does every row see itself alone? Such a layer needs no map
 * (spc_plan_create_rows); a WGRAD needs one always. */
SPC_API bool spc_conv_is_linear(const spc_conv *conv);

/* The arrays of a layer. */
typedef enum spc_operand {
    SPC_IN = 0,       /* [rows of the inputs][cin] */
    SPC_OUT = 1,      /* [rows of the outputs][cout] */
    SPC_WEIGHTS = 2,  /* canonical: [cout][K][cin / groups], or as SPC_RSCK */
    SPC_BIAS = 3,     /* [cout], fp32; none: 0 bytes */
    SPC_SCALE = 4,    /* [cout], fp32; none: 0 bytes */
    SPC_RESIDUAL = 5, /* [rows of the outputs][cout], as SPC_OUT; none: 0 */
    /* Of tensors of I8 the scale, one fp32; of others none: 0 bytes. */
    SPC_IN_SCALE = 6,
    SPC_OUT_SCALE = 7,
    SPC_RESIDUAL_SCALE = 8,
    SPC_OPERANDS = 9
} spc_operand;

/* The bytes of one of them. `rows` are those of the inputs for SPC_IN, of the
 * outputs for SPC_OUT and SPC_RESIDUAL, else ignored; 0 for what is no layer.
 * Of a slice these are the bytes from its first element to behind its last. How
 * large packed weights are says spc_plan_weights_bytes. */
SPC_API size_t spc_conv_bytes(const spc_conv *conv, spc_operand which,
                              int64_t rows);

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
 *   gen:shell,r=256   voxels with r/2-1.25 <= |p-centre| <= r/2 of an r^3 grid
 *   gen:lidar,seed=1,beams=64@0.05   a 64-beam scan of a generated street
 *   gen:room,seed=1@0.02             a generated furnished room
 *   gen:room,n=100000                n points of that room, in units of 1/1024
 *   gen:uniform,n=1000,extent=64,seed=1   n distinct random voxels
 * and after any of them ",level=N" (0 to 30): a network's level of stride 2^N
 * under the floor rule, coordinates divided by 2^N and rounded down; after a
 * .bin or .npy file ",columns=C": how many numbers a row has, or what they are,
 * by a letter for each: x, y, z, b (batch) and any others, as in xyzir. Suffixes
 * may be in capitals.
 *
 * A .bin file whose columns are not stated is tested: SPC_EFORMAT if another
 * number of columns fits much better. The test sees nothing where all columns
 * have the same distribution. A file of no bytes is a scene of no voxels. Points
 * with a coordinate that is NaN or infinite are left out and counted
 * (spc_scene_describe).
 *
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

/* The size of a scene's source, and how much of it was left out. */
typedef struct spc_scene_info {
    int64_t points;    /* of the file or generator; of voxels their number */
    int64_t bad;       /* left out: a coordinate is NaN or infinite */
    int64_t first_bad; /* the first such row, from 0; without one 0 */
    int64_t outside;   /* left out: outside the range of a network */
} spc_scene_info;

/* Fills *out; all 0 for a NULL scene. */
SPC_API void spc_scene_describe(spc_scene_info *out, const spc_scene *scene);

/* Points of a file on the host, for spc_net_buffers.points. */
typedef struct spc_point_rows {
    float *values; /* [rows][columns]: x, y, z, then others in their order */
    int64_t rows;
    int columns;
    int found; /* numbers of a point in the file, without a batch element */
} spc_point_rows;

/*
 * Reads the points of FILE or FILE,columns=C as spc_scene_load reads them, the
 * first `columns` numbers of each; NaNs and all. A .bin file whose columns are
 * not stated is expected to have `columns`. SPC_EINVAL: it has fewer;
 * SPC_EUNSUPPORTED: a batch element is not 0; and what spc_scene_load returns.
 * The caller releases *out.
 */
SPC_API spc_status spc_point_rows_load(spc_point_rows *out, const char *spec,
                                       int columns, spc_error *error);
SPC_API void spc_point_rows_release(spc_point_rows *rows); /* NULL is fine */

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
 *    compiling, and a CUDA graph may capture them. An error becomes a status on
 *    the device; the caller reads it with spc_coords_check at any time.
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
 * Bad rows have a defined result. A row outside the extent is ignored: no
 * output reads it and its own output is not written. If several rows have the
 * same voxel, only the first one counts and only its output is written. With
 * more rows than the capacity the set is empty. Nothing is truncated.
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
    int halo;
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
/* The outputs of `geometry` (rule FLOOR, FOOTPRINT or GENERATIVE) over the set
 * `in`, which it keeps alive. Waits for the device to learn how many there are.
 */
SPC_API spc_status spc_coords_create_outputs(spc_coords **out, spc_coords *in,
                                             const spc_geometry *geometry);

/* An empty set of a stated capacity and extent. SPC_EINVAL: the extent is that
 * of SPC_COORDS_OPTIONS_INIT, one voxel, for more rows than one a batch
 * element. */
SPC_API spc_status spc_coords_reserve(spc_coords **out, spc_ctx *ctx,
                                      const spc_coords_options *options);
/* The same for the outputs of `geometry` over `in`. `capacity` 0: as many as
 * there can be: the capacity of `in` times one for FLOOR, and for FOOTPRINT
 * times the outputs that can see one input, on each axis ceil(kernel / stride)
 * where stride and dilation have no common divisor, and for GENERATIVE times
 * the kernel's offsets; or the whole extent of the outputs, if that is less. */
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
/* Waits for `stream`. SPC_ECAPACITY names the capacity that would have fitted;
 * SPC_ERANGE and SPC_EDUPLICATE name the first such row. Afterwards
 * spc_coords_rows returns the number of voxels. The check covers only the last
 * filling: earlier ones since the previous check are not reported. */
SPC_API spc_status spc_coords_check(spc_coords *coords, void *stream);

/* Combines the features [rows][channels] (device, stored as `dtype`) of equal
 * rows into the first of these rows: their sum or their mean, by the set's
 * policy. Enqueues; does nothing with the other policies. */
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
/* Returns the coordinates by row, [capacity][4] on the device, of a set of
 * outputs or a set made of others; NULL for sets of the caller's rows. */
SPC_API const int32_t *spc_coords_data(const spc_coords *coords);

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
 *                    gathered as slices; spc_coords_spread is the way back
 *
 * Features have shapes [rows of a source][channels] and [rows of the set]
 * [channels]. With slices a source has channels * children instead. See
 * spc_coords_gather and spc_coords_spread.
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

/* Creates an empty set over 1 to 8 sources. `capacity` 0 means the number of
 * slots. SPC_ERANGE: the extent that results from the sources' does not fit 32
 * bits, or its key does not fit 64 bits. */
SPC_API spc_status spc_coords_reserve_regrouped(spc_coords **out,
                                                spc_coords *const *sources,
                                                int count,
                                                const spc_regrouping *how,
                                                int64_t capacity);
/* The same, filled; waits for the device to learn how many voxels there are. */
SPC_API spc_status spc_coords_create_regrouped(spc_coords **out,
                                               spc_coords *const *sources,
                                               int count,
                                               const spc_regrouping *how,
                                               const uint8_t *mask);
/* Fills it anew on `stream` from its sources as they are then. `mask` (device,
 * a byte for each slot) leaves out the slots whose byte is 0; NULL: all stay,
 * as with spc_coords_update. */
SPC_API spc_status spc_coords_regroup(spc_coords *set, const uint8_t *mask,
                                      void *stream);

/* Makes such a mask from features (device, [rows of source i][children] at
 * in[i], stored as `dtype`): a slot stays where its feature is above `above`.
 * NaN is never above. Enqueues. */
SPC_API spc_status spc_coords_mask(const spc_coords *set, uint8_t *mask,
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
 * set are read. Enqueues. */
SPC_API spc_status spc_coords_gather(const spc_coords *set, void *out,
                                     const void *const *in,
                                     const spc_gather *how, void *stream);
/* The reverse of spc_coords_gather: each row of a source receives the features
 * of the voxels made from it (without slices, their sum over its children), or
 * zeros if there are no such voxels. Writes as many rows of out[i] as the
 * capacity of source i. */
SPC_API spc_status spc_coords_spread(const spc_coords *set, void *const *out,
                                     const void *in, const spc_gather *how,
                                     void *stream);

/* Which rows came from where, on the device: row r of the set is made of the
 * slots slots[begin[r]] to slots[begin[r + 1] - 1], in ascending order, and
 * row_of[slot] is r, or -1 for a slot that is not in the set. */
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
} spc_voxelisation;

#define SPC_VOXELISATION_INIT                                                  \
    {                                                                          \
        {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 4, false, 1, SPC_VOXELS_MEAN, 0,      \
            SPC_F16                                                            \
    }

/* SPC_OK, or SPC_EINVAL with the reason. */
SPC_API spc_status spc_voxelisation_check(const spc_voxelisation *how,
                                          spc_error *error);

/* Voxels of a stated capacity on a context's device, with the memory to find
 * them among a stated number of points. */
typedef struct spc_voxels spc_voxels;

/* Makes voxels for at most `points` points. The caller frees *out. */
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
} spc_voxels_info;

/* Waits for `stream`. SPC_ECAPACITY: too many points or voxels, with the
 * capacity that would have fitted; SPC_ERANGE: points are bad, with the first
 * of them: they were left out, and all else is as it should be. `info` (may be
 * NULL) is filled in any case but SPC_EDEVICE. */
SPC_API spc_status spc_voxels_check(spc_voxels *voxels, spc_voxels_info *info,
                                    void *stream);

/* Compares the last filling, which was made of these points (host), with the
 * definition in double precision. *worst is the largest difference over its
 * tolerance. SPC_EWRONG names the difference; SPC_ECAPACITY as above. */
SPC_API spc_status spc_voxels_verify(double *worst, spc_voxels *voxels,
                                     const float *points, int64_t rows);

/* On the device: coordinates [capacity][4] and how many there are, as
 * spc_coords_update takes them; features; how many points count of each voxel,
 * [capacity]. */
SPC_API const int32_t *spc_voxels_coords(const spc_voxels *voxels);
SPC_API const int32_t *spc_voxels_count(const spc_voxels *voxels);
SPC_API const void *spc_voxels_features(const spc_voxels *voxels);
SPC_API const int32_t *spc_voxels_points(const spc_voxels *voxels);

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
    int64_t capacity; /* most rows */
    int32_t batches;  /* batch elements are 0 to batches - 1 */
    float low[3], high[3];
} spc_points_options;

#define SPC_POINTS_OPTIONS_INIT                                                \
    {                                                                          \
        0, 1, {0, 0, 0},                                                       \
        {                                                                      \
            0, 0, 0                                                            \
        }                                                                      \
    }

/* Clouds of `rows` points (device, [rows][3]); `batch` (device, [rows]) is the
 * element of each, NULL: all are of element 0. Neither is needed afterwards.
 * Waits to learn the extent. SPC_EINVAL, also where they do not start at a
 * multiple of 4 bytes; SPC_ERANGE: a row that is not finite, or of a negative
 * element; SPC_EDEVICE. */
SPC_API spc_status spc_points_create(spc_points **out, spc_ctx *ctx,
                                     const float *xyz, const int32_t *batch,
                                     int64_t rows, void *stream);
/* An empty cloud of a stated capacity and extent. SPC_EINVAL: the extent is that
 * of SPC_POINTS_OPTIONS_INIT, one point, for more points than one. */
SPC_API spc_status spc_points_reserve(spc_points **out, spc_ctx *ctx,
                                      const spc_points_options *options);
/*
 * Down-sampling that keeps true points: the result has, for each voxel floor(p
 * * (1 / edge)) computed in fp32, the first row of `in` inside it. Its rows are
 * in ascending order of the voxels' (batch, x, y, z). Keeps `in` alive.
 * SPC_ERANGE: voxels so small that their numbers do not fit.
 */
SPC_API spc_status spc_points_reserve_sampled(spc_points **out, spc_points *in,
                                              float edge);
SPC_API void spc_points_free(spc_points *points); /* maps keep it alive */

/* Fills a cloud anew on `stream` from `rows` points, or, if `count` (device) is
 * not NULL, from *count of them. A sampled cloud takes NULL for xyz, batch and
 * count. SPC_ECAPACITY: `rows` is more than the capacity; SPC_EINVAL. */
SPC_API spc_status spc_points_update(spc_points *points, const float *xyz,
                                     const int32_t *batch, const int32_t *count,
                                     int64_t rows, void *stream);
/* Waits for `stream`. SPC_ECAPACITY with the capacity that would have fitted,
 * SPC_ERANGE with the first row outside the extent. */
SPC_API spc_status spc_points_check(spc_points *points, void *stream);

/* Rows as of the last check; the capacity; and on the device the count, the
 * points as [capacity][4], x, y, z and the element (int32), and of a sampled
 * cloud the row of its source that each is (else NULL). */
SPC_API int64_t spc_points_rows(const spc_points *points);
SPC_API int64_t spc_points_capacity(const spc_points *points);
SPC_API const int32_t *spc_points_count(const spc_points *points);
SPC_API const float *spc_points_data(const spc_points *points);
SPC_API const int32_t *spc_points_sources(const spc_points *points);

/*
 * The map of a points layer: outputs at `to`, which may be `in`. `triplets` is
 * how many it has room for. spc_map_update (without coords) finds them, once
 * the clouds are filled and whenever they are filled anew; spc_map_check says
 * SPC_ECAPACITY with the room that would have fitted. The map keeps its clouds
 * alive, serves plans as any map, and has no table (spc_map_download).
 * SPC_EINVAL; SPC_ERANGE: the radius is too small for the extent.
 */
SPC_API spc_status spc_map_radius(spc_map **out, spc_points *in, spc_points *to,
                                  const spc_geometry *geometry,
                                  int64_t triplets);
/* The same relation in reverse, for inverse layers (up-sampling, and gradients
 * through a layer). An output at `to`, the inputs of the layer, reads each
 * point of `in` that has this output within its radius, at the same k; with
 * `nearest`, each point that has it among its nearest. */
SPC_API spc_status spc_map_radius_inverse(spc_map **out, spc_points *in,
                                          spc_points *to,
                                          const spc_geometry *geometry,
                                          int64_t triplets);

typedef struct spc_triplet {
    int32_t out, in, k;
} spc_triplet;

/* Copies the spc_map_pairs triplets of a checked map to the host, those of an
 * output together and in their order. */
SPC_API spc_status spc_map_triplets(const spc_map *map, spc_triplet *out);

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
 * set where the rule has two.
 */
SPC_API spc_status spc_map_create(spc_map **out, spc_coords *in, spc_coords *to,
                                  const spc_geometry *geometry);
/* The same relation read the other way: the outputs `to` are the geometry's
 * inputs, `in` its outputs. Offsets are not flipped. For transposed layers
 * (rule GIVEN) `to` is any set, for generative ones the set of outputs of `in`.
 */
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
 * inverse layer is the input of the layer that it inverts. For a layer between
 * two given sets the scene is the finer one: the inputs of a conv, the outputs
 * of a transposed layer. The other set is sampled from it for measurements:
 * most of floor(i / stride), and some of their neighbours, in no order. A
 * caller that has both sets uses spc_map_create. Fails as spc_coords_create and
 * spc_map_create do.
 */
SPC_API spc_status spc_map_create_from_scene(spc_map **out, spc_ctx *ctx,
                                             const spc_conv *conv,
                                             const spc_scene *scene);
/* The same from coordinates as those of spc_coords_create. */
SPC_API spc_status spc_map_create_from_coords(spc_map **out, spc_ctx *ctx,
                                              const spc_conv *conv,
                                              const int32_t *coords,
                                              int64_t rows, void *stream);
/*
 * Writes down what a host application meets, to be tuned on later: the layer,
 * and the rows [rows][4] (device) of its scene, those that
 * spc_map_create_from_coords would take. `folder`, which is made if need be,
 * gets a file for each scene and a line for each layer on a scene, each once:
 * `spctune tune FOLDER/layers.txt` takes them. Several processes may write to
 * one folder. Waits for `stream`; call it for the frames that are worth it.
 * SPC_EIO; SPC_EINVAL: no rows, or the folder's path has a blank in it.
 */
SPC_API spc_status spc_capture(spc_ctx *ctx, const char *folder,
                               const spc_conv *conv, const int32_t *coords,
                               int64_t rows, void *stream);
SPC_API void spc_map_free(spc_map *map);

SPC_API spc_coords *spc_map_in(const spc_map *map); /* the map's own */
SPC_API spc_coords *spc_map_out(const spc_map *map); /* outputs */
SPC_API int64_t spc_map_rows(const spc_map *map);    /* outputs */
SPC_API int64_t spc_map_rows_in(const spc_map *map); /* inputs */
SPC_API int64_t spc_map_pairs(const spc_map *map); /* (output, input, k) */
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
    SPC_PLAN_ESTIMATE = 1 << 1,    /* ignore the database: template's default */
    SPC_PLAN_BACKGROUND = 1 << 2   /* the kernel available at once; a thread
                                      prepares a better one:
                                      spc_background_start */
};

/*
 * Makes a plan for `conv` on maps like `map`. The map's rows and density as of
 * its last check choose the record; a map that was never checked counts its
 * capacity as its rows. Lookup order: a record of exactly this problem; of the
 * same layer in a neighbouring bucket; of a gradient of inputs the same of the
 * forward layer that it computes as; the nearest measured layer, its channels
 * less than two octaves away, whose configuration passes this one's
 * constraints, or a nearer record whose template has changed since
 * (SPC_ORIGIN_NEAREST); the template's default. Prepares the map's layout for
 * the kernel chosen and waits for it: any stream may then run the plan. A map
 * that was updated and not checked since may still be being filled: then it
 * first waits for all work on the device, as spc_map_download,
 * spc_map_triplets, spc_coords_create_outputs and spc_coords_create_regrouped
 * do. It does not know of a filling that a graph replays: wait for that first.
 * SPC_ENOTFOUND: with SPC_PLAN_CACHED_ONLY the database cannot serve;
 * SPC_EUNSUPPORTED: no template accepts the layer; SPC_EINVAL: the map is
 * another layer's; SPC_ECOMPILE, SPC_EDEVICE.
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

/* Returns how the plan's kernel was found; SPC_ORIGIN_DEFAULT for NULL. */
SPC_API spc_origin spc_plan_origin(const spc_plan *plan);
SPC_API const char *spc_plan_reason(const spc_plan *plan); /* one sentence */
/* True if its choice comes from a database shipped with the library. */
SPC_API bool spc_plan_is_shipped(const spc_plan *plan);
/* Returns the name of the kernel's template. */
SPC_API const char *spc_plan_template(const spc_plan *plan);
SPC_API const char *spc_plan_config(const spc_plan *plan);   /* "rows=64,..." */
SPC_API size_t spc_plan_weights_bytes(const spc_plan *plan); /* packed */
/* Returns the size for a map that is prepared for the plan. For a map made from
 * a scene or from coordinates it may depend on the number of pairs: call again
 * after spc_map_update changed them. */
SPC_API size_t spc_plan_workspace_bytes(const spc_plan *plan,
                                        const spc_map *map);

/*
 * Would spc_plan_create look up the same records for `map` as it did for this
 * plan? True if the map serves the plan's layer and its rows and density are in
 * the bucket (half an octave) of those that the plan was made for. A plan that
 * does not fit gives the same results, perhaps more slowly. Reads what the last
 * spc_map_check learned, and no database; any thread may call it. False for
 * NULL, and for a map of another context or another geometry.
 */
SPC_API bool spc_plan_fits(const spc_plan *plan, const spc_map *map);

/* A layer, and what is known of a scene: of a linear layer rows alone. */
typedef struct spc_explain_question {
    const spc_conv *conv;
    int64_t rows_in, rows_out, pairs;
} spc_explain_question;

typedef struct spc_explanation {
    spc_origin origin;
    int has_code; /* 0: no record names code of it; a plan may compile it */
    char template_name[32];
    char config[256];
    char reason[512];
    size_t weights_bytes;    /* packed */
    int64_t workspace_bytes; /* -1: depends on how many blocks are resident,
                                which only loaded code says */
    char layout[64]; /* the form of the map that it reads */
} spc_explanation;

/*
 * Reports the choice that spc_plan_create would make, from records, keys and
 * templates alone: no map is made, no code is rendered, compiled or loaded.
 * `flags` are SPC_PLAN_CACHED_ONLY and SPC_PLAN_ESTIMATE. Fails as
 * spc_plan_create does, except for errors that only compiling or loading can
 * find.
 */
SPC_API spc_status spc_explain(spc_explanation *out, spc_ctx *ctx,
                               const spc_explain_question *ask, unsigned flags);

typedef enum spc_weights_layout {
    SPC_KRSC, /* [cout][kx][ky][kz][cin / groups], as spconv 2 and
                 MinkowskiEngine-like channels-last filters */
    SPC_RSCK  /* [kx][ky][kz][cin / groups][cout], as TorchSparse and spconv 1
               */
} spc_weights_layout;

/* Packs canonical weights (device, the problem's type in memory, at a multiple of
 * its size) into `packed` (device, spc_plan_weights_bytes, 256-byte aligned, apart
 * from them). Asynchronous on `stream`. */
SPC_API spc_status spc_plan_pack_weights(const spc_plan *plan, void *packed,
                                         const void *weights,
                                         spc_weights_layout layout,
                                         void *stream);

/*
 * Packs the weights of `count` plans, as after a step of training: weights[i]
 * into packed[i] for plans[i], each as spc_plan_pack_weights does. The plans may
 * be of several contexts on one device. All arguments are checked before
 * anything is enqueued. *failed (may be NULL) is the index of the plan that
 * failed, and its context has the sentence; -1: none, or the failure is not that
 * of one plan. SPC_EINVAL: `count` is negative, an array or a plan is NULL, and
 * what spc_plan_pack_weights refuses; SPC_EDEVICE: a launch failed, and those
 * before *failed are enqueued.
 */
SPC_API spc_status spc_plans_pack_weights(int *failed,
                                          const spc_plan *const *plans,
                                          void *const *packed,
                                          const void *const *weights, int count,
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
    const void *in;       /* [rows in][cin], 16-byte aligned */
    void *out;            /* [rows out][cout], 16-byte aligned; apart from in */
    const void *weights;  /* packed */
    const float *bias;    /* [cout], if the layer has one */
    void *workspace;      /* spc_plan_workspace_bytes, 256-byte aligned */
    const float *scale;   /* [cout], if the layer has one */
    union {
        const void *residual; /* [rows out][cout] in the type of out, 16-byte
                                 aligned, if the layer adds one; apart from
                                 out */
        const void *grad;     /* of WGRAD: dy [rows out][cout], as aligned */
    };
    /* One number each, for tensors of I8: above 0, and not so small that 1 /
     * *out_scale is infinite. */
    const float *in_scale, *out_scale, *residual_scale;
} spc_buffers;

/*
 * Runs the layer: enqueues on `stream` and returns (the cpu and sim devices
 * return when done). No allocation, no synchronisation, no file access; may be
 * captured into a CUDA graph. SPC_ESTATE: the map was never filled, or is not
 * prepared for this plan; SPC_EINVAL: a missing or misaligned buffer, or one
 * that is written and overlaps another (slices of one pitch, side by side, do
 * not); SPC_EDEVICE: the launch failed.
 */
SPC_API spc_status spc_plan_execute(const spc_plan *plan, const spc_map *map,
                                    const spc_buffers *buffers, void *stream);

/*
 * A linear layer ("linear,...", a submanifold kernel of one offset) needs no
 * map, no coordinates and no set: row i of the outputs is made of row i of the
 * inputs. spc_plan_create_rows makes a plan for about `rows` rows, which choose
 * the record; it runs on any number of them, and on maps too. SPC_EINVAL: the
 * layer sees other rows than its own; else as spc_plan_create.
 */
SPC_API spc_status spc_plan_create_rows(spc_plan **out, spc_ctx *ctx,
                                        const spc_conv *conv, int64_t rows,
                                        unsigned flags);
/* The workspace for `rows` rows; 0 for more than a plan can run on. */
SPC_API size_t spc_plan_workspace_rows(const spc_plan *plan, int64_t rows);
/* As spc_plan_execute, for at most `rows` rows. *count (device) is the number
 * of rows; if `count` is NULL, `rows` is. If *count is more than `rows`, no row
 * is computed. Output rows from `rows` on are left unchanged. SPC_ESTATE: the
 * plan was made for maps. */
SPC_API spc_status spc_plan_execute_rows(const spc_plan *plan, int64_t rows,
                                         const int32_t *count,
                                         const spc_buffers *buffers,
                                         void *stream);

/* ---- operators on features ----------------------------------------------- */

/*
 * The operators of networks between convolutions: pooling, normalisation,
 * activation and the like. Rows are those of a coordinate set, features f16,
 * bf16 or f32; sums are fp32, taken in an order that depends on the voxels
 * alone (and on whether rows are aligned, see spc_feature_buffers): not on the
 * capacity, the device's size or the other batch elements.
 *
 * Unless stated otherwise inputs and outputs are [rows][c]. For an operator
 * that reads a map these are the map's input and output rows.
 *
 *   pool=max|mean|sum   of the inputs that a map shows an output: out[o][c] is
 *                       the maximum, the mean or the sum over the offsets k
 *                       that have an input. The mean divides by the number of
 *                       inputs that are there, not by K. With index=1 a maximum
 *                       also stores the input row that it is from, int32
 *                       [rows out][c]: of equal ones that of the first offset.
 *                       An output with no inputs is 0, its index -1
 *                       (MinkowskiEngine, spconv)
 *   unpool=nearest      the inverse map's first offset that has an input:
 *                       out[i][c] = in[o][c], 0 if there is none
 *   unpool=index        out[i][c] is the sum of in[o][c] over the offsets of
 *                       the inverse map whose input o has index[o][c] == i:
 *                       maxima go back to where they are from, and all else
 *                       becomes 0 (Zeiler, Fergus, ECCV 2014, section 2.1).
 *                       If windows do not overlap, the sum has one term at most
 *   pool=slices         space to channel: out[o][s * c + j] = in[i][j] of the
 *                       input i that a map shows o at offset k, 0 if there is
 *                       none; rows of K * c. Offset k with the place (x, y, z)
 *                       has the slice s = x + kx * (y + ky * z), as children of
 *                       a regrouped set are numbered (TRELLIS.2); of an
 *                       explicit list s = k
 *   unpool=slices       channel to space, over the inverse map: out[i][j] is the
 *                       sum of in[o][s * c / K + j] over the offsets k that have
 *                       an input o; rows of c / K. Where windows do not overlap
 *                       it undoes pool=slices
 *   global=max|mean|sum over the voxels of each batch element: out [batches][c]
 *                       with batches = spc_coords_batches; 0 where an element
 *                       has no voxel (MinkowskiEngine's global pooling)
 *   add                 in + add, then the activation `act` (residual: He and
 *                       others, CVPR 2016)
 *   act=NAME            relu: max(x, 0); leaky: slope * x where x < 0; sigmoid:
 *                       1 / (1 + exp(-x)); silu: x * sigmoid(x); gelu: x / 2 *
 *                       (1 + erf(x / sqrt(2))); elu: slope * (exp(x) - 1) where
 *                       x < 0 (leaky: Maas, Hannun, Ng, 2013; silu, gelu:
 *                       Hendrycks, Gimpel, 2016; elu: Clevert, Unterthiner,
 *                       Hochreiter, ICLR 2016)
 *   actgrad=NAME        the gradient of act=NAME: add[r][c], that of its outputs,
 *                       times the derivative at in[r][c], its inputs; of relu
 *                       and leaky its outputs do as well. At 0 these have the
 *                       derivative of negative numbers
 *   affine              in * scale[c] + shift[c], then the activation `act`: a
 *                       folded batch normalisation (Ioffe, Szegedy, ICML 2015)
 *                       as a step of its own
 *   norm=layer          (x - mean) / sqrt(var + eps) over the channels of a row
 *                       (Ba, Kiros, Hinton, 2016), with affine=1 times scale[c]
 *                       plus shift[c]; then the activation `act`
 *   norm=group          the same with mean and variance over all voxels of a
 *                       batch element and the c / groups channels of a group
 *                       (Wu, He, ECCV 2018). Variances divide by the number of
 *                       elements
 *   groupsum, groupmean out[r][j] = sum (mean) of in[r][j * by + q], q < by:
 *                       c / by channels (the channel reduction of Part-A2: Shi
 *                       and others, TPAMI 2020)
 *   repeat              out[r][j] = in[r][j / by]: c * by channels; this and
 *                       groupmean are shortcuts of TRELLIS.2
 *   bev                 dense [batches][c * D][..][..] with D = shape z and
 *                       channel * D + z of the voxel as the dense channel: by
 *                       order=zyx its planes are [shape y][shape x] (SECOND:
 *                       Yan, Mao, Li, Sensors 2018), by order=xyz [shape x]
 *                       [shape y] (BEVFusion: Liu and others, ICRA 2023); by
 *                       order=volume it is [batches][c][shape x][shape y]
 *                       [shape z], so [c * shape x] planes [shape y][shape z].
 *                       Zero where there is no voxel; voxels outside the shape
 *                       are left out
 *
 * Operators that look at each row alone work on every row that the set was
 * given; the others on its voxels.
 *
 * Gradients are problems like those of convolutions: pass=dgrad from dy, that of
 * the outputs, to that of the inputs, and pass=wgrad to that of scale and shift.
 * An operator with an activation is two steps. Where another operator is the
 * gradient (spc_feature_pass), that is meant:
 *
 *   of                  in              add    out
 *   pool=mean|sum       dy              -      dx, over the inverse map (of subm
 *                                              over that of its mirrored
 *                                              offsets)
 *   pool=max,index=1    unpool=index of dy
 *   unpool              dy              -      dx, over the pooling's map
 *   global=mean|sum     dy [batches]    -      dx
 *   global=max          x               dy [batches]  dx: of equal ones the
 *                                              first voxel, by (batch, x, y, z)
 *   add                 repeat,by=1 of dy, for both
 *   act                 actgrad
 *   affine              dy              -      dx
 *   norm=layer|group    x               dy     dx
 *   groupsum, repeat    each other's of dy
 *   groupmean           dy              -      dx
 *   pool=slices, unpool=slices   each other's of dy
 *   bev                 dy, dense       -      dx, 0 of voxels outside the shape
 *   affine, norms       x               dy     pass=wgrad: fp32 [2][c], that of
 *                                              scale and that of shift
 */
typedef enum spc_feature_op {
    SPC_FEATURE_POOL,
    SPC_FEATURE_UNPOOL,
    SPC_FEATURE_GLOBAL,
    SPC_FEATURE_ADD,
    SPC_FEATURE_ACT,
    SPC_FEATURE_LAYERNORM,
    SPC_FEATURE_GROUPNORM,
    SPC_FEATURE_GROUPSUM,
    SPC_FEATURE_GROUPMEAN,
    SPC_FEATURE_REPEAT,
    SPC_FEATURE_BEV,
    SPC_FEATURE_ACTGRAD,
    SPC_FEATURE_AFFINE,
    SPC_FEATURE_SLICE,  /* pool=slices */
    SPC_FEATURE_UNSLICE /* unpool=slices */
} spc_feature_op;

typedef enum spc_reduction {
    SPC_REDUCE_MAX,
    SPC_REDUCE_MEAN,
    SPC_REDUCE_SUM
} spc_reduction;

typedef enum spc_bev_order {
    SPC_BEV_ZYX,
    SPC_BEV_XYZ,
    SPC_BEV_VOLUME
} spc_bev_order;

/* An operator on features as a value. Fields that an operator does not use stay
 * as in SPC_FEATURE_INIT. */
typedef struct spc_feature {
    spc_feature_op op;
    int channels;            /* of the inputs */
    spc_dtype dtype;         /* SPC_F16, SPC_BF16 or SPC_F32, in and out */
    spc_reduction reduction; /* POOL, GLOBAL */
    bool index; /* POOL by maximum: store where it is from; UNPOOL: by that */
    spc_activation activation; /* ACT, ACTGRAD; ADD, AFFINE, norms: last */
    float slope;               /* of LEAKY and ELU below zero, up to 16 */
    bool affine;               /* LAYERNORM, GROUPNORM: scale and shift */
    float eps;
    int groups; /* GROUPNORM; a divisor of the channels */
    int by;     /* GROUPSUM, GROUPMEAN, REPEAT: channels that become one, or
                   that one becomes */
    spc_bev_order order;
    int shape[3];          /* BEV: voxels along x, y, z, from 0 */
    spc_geometry geometry; /* POOL, SLICE; UNPOOL, UNSLICE: of the pooling that
                              they invert */
    spc_pass pass;
} spc_feature;

#define SPC_FEATURE_INIT                                                       \
    {                                                                          \
        SPC_FEATURE_ACT, 0, SPC_F16, SPC_REDUCE_MAX, false, SPC_ACT_NONE,      \
            0.01f, false, 1e-5f, 1, 1, SPC_BEV_ZYX, {0, 0, 0},                 \
            SPC_GEOMETRY_INIT, SPC_FORWARD                                     \
    }

/*
 * Reads the operator and its words, separated by commas:
 *
 *   pool=max,c=64,rule=floor,k=2,stride=2   rule, k or offsets, stride, dilation,
 *   unpool=index,c=64,rule=floor,k=2,...    padding, origin, shape as a layer's;
 *                                           index (0, 1) of pool=max
 *   pool=slices,c=64,rule=floor,...         and unpool=slices
 *   global=mean,c=64
 *   add,c=64,act=relu                       act, slope (0.01; of elu 1)
 *   act=leaky,c=64,slope=0.1                and actgrad=leaky,... of that
 *   norm=layer,c=96,eps=1e-5,affine=1       act, slope besides
 *   norm=group,c=768,groups=32
 *   groupsum,c=128,by=2   groupmean,...   repeat,...
 *   bev,c=64,shape=176x200x2,order=zyx
 *   affine,c=64,act=relu
 *
 * and dtype (f16, bf16, f32) and pass (dgrad, wgrad) for all. SPC_EINVAL names
 * the unknown word or the bad value and what would be right.
 */
SPC_API spc_status spc_feature_parse(spc_feature *out, const char *text,
                                     spc_error *error);
/* Writes the canonical text as spc_conv_format does; spc_feature_parse reads it
 * back. */
SPC_API int spc_feature_format(char *out, size_t bytes,
                               const spc_feature *feature);
/* SPC_OK, or SPC_EINVAL with the reason. */
SPC_API spc_status spc_feature_check(const spc_feature *feature,
                                     spc_error *error);
/* Describes a pass of `layer`, a forward operator; a pass of pool=max reads the
 * indices that index=1 stores. SPC_EINVAL: the operator lacks this pass (with
 * an activation it is two steps; without parameters there is no WGRAD). */
SPC_API spc_status spc_feature_pass(spc_feature *out, const spc_feature *layer,
                                    spc_pass pass, spc_error *error);
/* Operator `i` from 0 as a text that spc_feature_parse reads; NULL past the
 * last. */
SPC_API const char *spc_feature_example(int i);
/* Writes the words that an operator takes, separated by commas and blanks;
 * returns the length as snprintf does. */
SPC_API int spc_feature_words(char *out, size_t bytes, spc_feature_op op);

/* Elements of a row of outputs, or of inputs: channels, or the whole dense
 * volume of a batch element for BEV; 0 for what is no operator. */
SPC_API int64_t spc_feature_row_out(const spc_feature *feature);
SPC_API int64_t spc_feature_row_in(const spc_feature *feature);
/* Returns the number of output rows: `batches` for GLOBAL and BEV, 1 for a
 * WGRAD, else `rows`. The functions below return the rows of `in` and `add`,
 * which gradients may also have by batch element. */
SPC_API int64_t spc_feature_rows_out(const spc_feature *feature, int64_t rows,
                                     int64_t batches);
SPC_API int64_t spc_feature_rows_in(const spc_feature *feature, int64_t rows,
                                    int64_t batches);
SPC_API int64_t spc_feature_rows_add(const spc_feature *feature, int64_t rows,
                                     int64_t batches);

/* A plan of one operator: its kernels, loaded. Immutable, as a convolution's.
 */
typedef struct spc_feature_plan spc_feature_plan;

/* `flags`: SPC_PLAN_JIT or SPC_PLAN_CACHED_ONLY. SPC_ENOTFOUND: with the latter
 * the database has no code; SPC_EINVAL, SPC_ECOMPILE, SPC_EDEVICE. */
SPC_API spc_status spc_feature_plan_create(spc_feature_plan **out, spc_ctx *ctx,
                                           const spc_feature *feature,
                                           unsigned flags);
SPC_API void spc_feature_plan_free(spc_feature_plan *plan);
/* Workspace for sets of this capacity and extent; 0 if none is needed. For an
 * operator that reads a map (only gradients need workspace then) the set is
 * that of the inputs. */
SPC_API size_t spc_feature_workspace_bytes(const spc_feature_plan *plan,
                                           const spc_coords *set);
/* Makes a map ready for POOL, UNPOOL, SLICE and UNSLICE, and their gradients, on
 * `stream`; as spc_map_prepare. */
SPC_API spc_status spc_feature_prepare(const spc_feature_plan *plan,
                                       spc_map *map, void *stream);

/* A pitch is the number of elements from one row to the next: 0 where rows
 * follow each other; more for a slice of wider rows. Arrays whose addresses and
 * pitches are multiples of 16 bytes (or of the row, if that is less) are moved
 * in large pieces, if `scale` and `shift` are at multiples of 16 bytes too. */
typedef struct spc_feature_buffers {
    const void *in; /* spc_feature_rows_in rows of spc_feature_row_in */
    int64_t in_pitch;
    const void *add; /* ADD, ACTGRAD, gradients: [rows][channels] */
    int64_t add_pitch;
    void *out; /* spc_feature_rows_out rows; apart from `in` and `add` */
    int64_t out_pitch; /* of BEV from batch element to batch element */
    int32_t *index; /* [rows][channels], 16-byte aligned: written by POOL, read
                       by UNPOOL */
    const float *scale; /* [channels], if affine */
    const float *shift; /* [channels], if affine */
    void *workspace;    /* spc_feature_workspace_bytes, 256-byte aligned */
} spc_feature_buffers;

/*
 * Runs the operator: enqueues on `stream` and returns, without allocation,
 * synchronisation or reading back, so that a CUDA graph may capture it. POOL
 * and SLICE take a map of their geometry, UNPOOL and UNSLICE the inverse map,
 * their gradients each other's; all others take the set whose rows they work
 * on. The other of the two is NULL. Rows past those that there are remain as
 * they were. SPC_ESTATE: the map is not prepared; SPC_EINVAL: a missing or misaligned buffer, a pitch
 * below the row, another operator's map; SPC_EDEVICE.
 */
SPC_API spc_status spc_feature_execute(const spc_feature_plan *plan,
                                       const spc_coords *set,
                                       const spc_map *map,
                                       const spc_feature_buffers *buffers,
                                       void *stream);

/* One more than the highest batch element that the set can hold. */
SPC_API int64_t spc_coords_batches(const spc_coords *coords);

/* ---- all operators ------------------------------------------------------- */

/* An operator in words, for listings. */
typedef struct spc_operator_info {
    const char *kind; /* "convolution", "features" or "sets": who reads it is
                         spc_conv_parse, spc_feature_parse,
                         spc_regrouping_parse */
    const char *name; /* "subm", "pool=max|mean|sum" */
    const char *does; /* one line */
    /* Its words, separated by blanks: "cin" is required, "k=3" defaults to 3,
     * "slope=" is optional. */
    const char *words;
    const char *example;
} spc_operator_info;

/* Operator `i` from 0; NULL past the last. */
SPC_API const spc_operator_info *spc_operators(int i);

/* ---- networks ------------------------------------------------------------ */

/*
 * A network is a graph of layers over coordinate sets, with weights: a value on
 * the host, made once, layer by layer or from a file. Planned for a device it
 * has its sets, maps, kernels and packed weights there, and runs with one call
 * that a CUDA graph may capture, indexing included.
 *
 * Tensors are named by handles that count from 0, in the order in which they
 * were made. Each lies over a coordinate set. The sets and the geometry alone
 * determine which layers share a set or a map: a key that a file gives to a map
 * is a hint, and spc_net_note reports a wrong one.
 *
 * A network is built and read by one thread at a time. A bad layer is described
 * by a sentence in *error (may be NULL), and the network stays unchanged.
 */
typedef struct spc_net spc_net;
typedef struct spc_net_plan spc_net_plan; /* it, on a context's device */
typedef int spc_tensor;

#define SPC_NO_TENSOR (-1)

/* An empty network. The name is copied, as all texts here are. */
SPC_API spc_status spc_net_create(spc_net **out, const char *name,
                                  spc_error *error);
/* Reads a network from a file in Lua (examples/networks). Its features and
 * weights have the type `dtype` unless it says otherwise. SPC_ENOTFOUND;
 * SPC_ETEMPLATE: a mistake in the file, with its line. */
SPC_API spc_status spc_net_load(spc_net **out, const char *path,
                                spc_dtype dtype, spc_error *error);
SPC_API void spc_net_free(spc_net *net); /* plans keep it alive */

/*
 * Networks in the database. Stored with its weights beside choices and compiled
 * code, a network is opened by its name, with no file, no Lua and no importer:
 * one database is the whole deployment. Weights are kept in the type in which
 * their layers multiply them, all else as it is: results have the same bits.
 *
 * `name` has 1 to 63 characters, no blank and no '/'; `source` (may be NULL)
 * names the network's origin. SPC_ESTATE: weights are missing, or there is a
 * network of this name and `replace` is false; SPC_EDB.
 */
SPC_API spc_status spc_net_store(spc_ctx *ctx, const spc_net *net,
                                 const char *name, const char *source,
                                 bool replace);
/* The network of the uppermost file that has a sound one. SPC_ENOTFOUND;
 * SPC_EDB: it is damaged, and set aside with the reason; SPC_EDBVERSION:
 * written by a newer version. */
SPC_API spc_status spc_net_open(spc_net **out, spc_ctx *ctx, const char *name);
/* From the file that may be written. SPC_ENOTFOUND. */
SPC_API spc_status spc_net_remove(spc_ctx *ctx, const char *name);

/* A stored network, for listings; strings live during the call. */
typedef struct spc_net_row {
    const char *file, *name, *source;
    const char *version; /* of the libspc that stored it */
    const char *graph;   /* its layers, a line each, fields by tabs */
    int64_t weights_bytes, unix_seconds;
    const char *fault; /* why it cannot be used; NULL: it can */
} spc_net_row;

/* Calls each(row, payload) for every stored network. */
SPC_API spc_status spc_net_each(spc_ctx *ctx,
                                spc_status (*each)(const spc_net_row *row,
                                                   void *payload),
                                void *payload);

/* Adds an input: features [rows][channels] of the rows of a scene. */
typedef struct spc_net_input {
    const char *name; /* "x" */
    int channels;
    spc_dtype dtype;
    int shape[3]; /* voxels along x, y, z, from 0; 0: any, also below 0 */
    /* How points become voxels: floor((p - low) / voxel), points outside low to
     * high left out. 0: the network does not say. */
    double voxel[3], low[3], high[3];
    /* For a plan that makes voxels from points: the number of points of a voxel
     * that count. Their mean is its features. 0: all. */
    int points;
    /* Rows are true points, which stay where they are: see "native points". The
     * network has no shape and no voxel then. */
    bool cloud;
    /* Our names of the axes in files of coordinates that go with the network,
     * behind the batch element: "xyz" (NULL) or "zyx", else SPC_EINVAL. The
     * network itself has x, y, z. */
    const char *axes;
} spc_net_input;

#define SPC_NET_INPUT_INIT                                                     \
    {                                                                          \
        "x", 0, SPC_F16, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 0, false, \
            NULL                                                               \
    }

/* The one input, and the first of the tensors. */
SPC_API spc_status spc_net_add_input(spc_net *net, spc_tensor *out,
                                     const spc_net_input *input,
                                     spc_error *error);

typedef struct spc_net_layer {
    /* Name of its weights: "conv1.0"; NULL: "layer7". Layers of one name share
     * their weights, as a head over several levels does: their channels,
     * kernel, type, scale, bias and normalisation must be the same. A note
     * reports the sharing. */
    const char *name;
    spc_conv conv;    /* pitches stay 0. The shape of a FOOTPRINT is optional if
                         the network can derive it */
    spc_tensor in;
    spc_tensor residual; /* of epilogues that add one */
    spc_tensor at;    /* inverse, transposed and given layers: the tensor whose
                         rows the outputs have. Optional for inverse layers: by
                         default the tensor that the inputs were derived from */
    const char *key;  /* of its map, as files have it; may be NULL */
    const char *norm; /* of the batch normalisation that is folded into scale
                         and bias; may be NULL */
    double eps;       /* of that; 0: 1e-5 */
} spc_net_layer;

#define SPC_NET_LAYER_INIT                                                     \
    {                                                                          \
        NULL, SPC_CONV_INIT, SPC_NO_TENSOR, SPC_NO_TENSOR, SPC_NO_TENSOR,      \
            NULL, NULL, 0                                                      \
    }

/*
 * Networks of clouds have layers of points, linear layers, concatenations, and
 * operators on features that take each row by itself. A layer of points with a
 * voxel makes a cloud of its own, one point of each voxel, which layers share;
 * one without has the points of `at`, or else of its inputs. So up-sampling is
 * nearest=1 with a cube of one cell at the finer tensor, or an inverse layer,
 * and nearest=1 with a voxel takes the points that stay as they are.
 */
SPC_API spc_status spc_net_add_conv(spc_net *net, spc_tensor *out,
                                    const spc_net_layer *layer,
                                    spc_error *error);

/* An operator on features. `add` is what ADD adds; `at` the tensor whose rows
 * an UNPOOL has, left out as above. An unpool=index reads the indices that a
 * pool=max with index=1 stored: `add` is that layer's outputs, and `at` may be
 * left out. The indices are a tensor of the network that follows those outputs;
 * nothing else reads it. An ADD that follows a convolution becomes its residual
 * if no other layer reads the convolution's outputs. */
SPC_API spc_status spc_net_add_feature(spc_net *net, spc_tensor *out,
                                       const char *name,
                                       const spc_feature *feature,
                                       spc_tensor in, spc_tensor add,
                                       spc_tensor at, spc_error *error);

/* The channels of several tensors over one set, side by side. They are written
 * in place where each begins at a multiple of 16 bytes. */
SPC_API spc_status spc_net_add_concat(spc_net *net, spc_tensor *out,
                                      const spc_tensor *parts, int count,
                                      spc_error *error);

/* A set made of those of 1 to 8 tensors, with their features as
 * spc_coords_gather has them. `slices`: children have slices of the channels.
 */
SPC_API spc_status spc_net_add_regroup(spc_net *net, spc_tensor *out,
                                       const spc_tensor *sources, int count,
                                       const spc_regrouping *how, bool slices,
                                       spc_error *error);

/*
 * A set of voxels that features choose: those of `in`, or children of them,
 * whose number in the tensor `mask` is above `above`; `mask` lies over the set
 * of `in` and has a channel for each child. MinkowskiEngine prunes this way
 * (Gwak, Choy, Savarese, ECCV 2020), and TRELLIS.2 predicts which of eight
 * children exist (Xiang and others, 2025). The sets and maps of later layers
 * are filled on the device in the same run, once the mask is known. Layers that
 * choose by one mask share the set.
 */
typedef struct spc_net_masked {
    const char *name; /* NULL: "layer7" */
    spc_tensor in;    /* its features are used, as in spc_net_add_regroup */
    spc_regrouping how;
    bool slices;
    spc_tensor mask;
    float above;
    /* Capacity of the set, as a multiple of the network's capacity; 0: the
     * largest possible number of rows. With more rows the set is empty, and
     * spc_net_check names the capacity that would have fitted. */
    double room;
} spc_net_masked;

#define SPC_NET_MASKED_INIT                                                    \
    {                                                                          \
        NULL, SPC_NO_TENSOR, SPC_REGROUPING_INIT, false, SPC_NO_TENSOR, 0, 0   \
    }

/* Adds such a set; *out is its features. A bad one fails with a sentence. */
SPC_API spc_status spc_net_add_masked(spc_net *net, spc_tensor *out,
                                      const spc_net_masked *masked,
                                      spc_error *error);

/* Outputs count from 0, and are called by names of their own: SPC_EINVAL if one
 * has this name. */
SPC_API spc_status spc_net_add_output(spc_net *net, spc_tensor tensor,
                                      const char *name, spc_error *error);

/*
 * A scene for the network, as spc_scene_load. Where the network states a range,
 * voxels count from its low corner and points outside the range are left out;
 * without @VOXEL they have the network's size. Voxels outside the network's
 * shape are left out too. spc_scene_describe counts both. Rows of a .bin file
 * may also have as many numbers as the input has channels.
 */
SPC_API spc_status spc_net_scene(spc_scene **out, const spc_net *net,
                                 const char *spec, spc_error *error);

/* How a plan that takes points makes voxels of them: by the grid that the
 * network states, as far as its shape goes. `batches` above 1: points say
 * theirs. SPC_EINVAL: it states none. */
SPC_API spc_status spc_net_voxelisation(spc_voxelisation *out,
                                        const spc_net *net, int batches,
                                        spc_error *error);

/* The parts of a network. */
typedef struct spc_net_info {
    const char *name;
    int layers; /* convolutions; all that were added count for the names */
    int tensors, sets, maps, outputs, params;
    spc_net_input input;
} spc_net_info;

/* Fills *out; the name is "" and all else 0 for a NULL network. */
SPC_API void spc_net_describe(spc_net_info *out, const spc_net *net);
/* Something that is no mistake but should be known, as a sentence; NULL past
 * the last. */
SPC_API const char *spc_net_note(const spc_net *net, int i);
/* Adds such a sentence, which is copied: for whoever makes a network of
 * something else. */
SPC_API spc_status spc_net_add_note(spc_net *net, const char *text,
                                    spc_error *error);

typedef struct spc_tensor_info {
    int set; /* sets count from 0, the input's */
    int channels;
    spc_dtype dtype;
    bool dense;       /* [batches][elements], by GLOBAL and BEV */
    int64_t elements; /* of a row */
    int shape[3];     /* of the set; 0: not known */
} spc_tensor_info;

/* Describes a tensor. SPC_EINVAL: the network has no such tensor. */
SPC_API spc_status spc_net_tensor(spc_tensor_info *out, const spc_net *net,
                                  spc_tensor tensor, spc_error *error);

/* Weights (canonical, KRSC), scale and bias of convolutions, scale and bias of
 * normalisations, as fp32; counted in the order of the layers. Shared arrays
 * are counted once, with the first layer that has them. */
typedef struct spc_net_param {
    const char *layer; /* its name */
    spc_operand which; /* SPC_WEIGHTS, SPC_SCALE or SPC_BIAS */
    int64_t count;
    const float *values;  /* the network's; NULL: not set yet */
    const spc_conv *conv; /* NULL: of a normalisation */
    const char *norm;     /* as in spc_net_layer; "" */
    double eps;
} spc_net_param;

/* SPC_EINVAL: the index is out of range. */
SPC_API spc_status spc_net_param_at(spc_net_param *out, const spc_net *net,
                                    int i);
/* Copies the values in. SPC_ENOTFOUND: there is no such layer or array; did you
 * mean another one? SPC_EINVAL: another count than it has. SPC_ERANGE: finite
 * weights would be infinite in the layer's type, such as those above 65504 in
 * F16; the sentence gives their number, the greatest, and a type that would
 * hold them. NaN and infinite values are accepted unchanged, and spc_net_note
 * reports them; but I8 cannot represent them, and spc_net_quantise refuses
 * them. */
SPC_API spc_status spc_net_set_param(spc_net *net, const char *layer,
                                     spc_operand which, const float *values,
                                     int64_t count, spc_error *error);
/* Draws all that was not set: weights uniform with the variance 2 / (K cin /
 * groups) (He, Zhang, Ren, Sun, ICCV 2015), scales about 1, biases about 0. */
SPC_API spc_status spc_net_draw_params(spc_net *net, uint64_t seed,
                                       spc_error *error);

/*
 * Quantises a network of f16 for I8, before it is planned: `ranges` has for
 * each tensor the greatest magnitude to be represented, 127 steps from 0, or 0
 * if the tensor stays f16. A tensor that a convolution writes and only
 * convolutions read becomes I8; a residual and the outputs that it is added to
 * become I8 together or not at all. Convolutions of such inputs have weights of
 * I8 with a step for each output channel, by the greatest of its weights.
 * *layers (may be NULL): how many those are. SPC_EINVAL: a range is negative,
 * NaN or infinite; SPC_ESTATE: the network is quantised already, or has plans.
 * spc_net_store stores it quantised.
 */
SPC_API spc_status spc_net_quantise(spc_net *net, const float *ranges,
                                    int *layers, spc_error *error);

typedef struct spc_net_options {
    int64_t capacity; /* most rows of a scene */
    /* The extent of scenes: batch, x, y, z, both ends included. Of a network
     * with a shape the batch alone. */
    int32_t low[4], high[4];
    unsigned flags; /* SPC_PLAN_* */
    /* Capacity of FOOTPRINT sets, as a multiple of the network's capacity; the
     * rule's bound if that is less. Single sweeps have up to 1.7 times as many
     * voxels on their second level. An axis of stride 1 multiplies this by the
     * kernel's size along it, as such layers dilate; if no axis has a stride,
     * the set has room for at least K times the capacity. 0: the rule's bound.
     * */
    double growth;
    spc_duplicates duplicates; /* SPC_DUPLICATES_ERROR or _FIRST */
    /* A scene whose rows and densities by level choose the kernels, as
     * [sample_rows][4] on the host. NULL: capacities choose them. */
    const int32_t *sample;
    int64_t sample_rows;
    /* Every tensor has memory of its own until the next run, to be looked at
     * (spc_net_verify). */
    bool keep;
    /*
     * Most points of a scene; 0: scenes are voxels with features. Otherwise the
     * first step of a run turns points into voxels (spc_voxels), in the grid
     * that the network states, as far as its shape goes; of them there is room
     * for `capacity`. A point has as many numbers as the input has channels,
     * and where high[0] is above 0 its batch element in front of them.
     */
    int64_t points;
    /* For networks of clouds, whose extent low to high is in units of 1/1024
     * like that of scenes: the room of each map in triplets, as a multiple of
     * the capacity of its outputs. 0: twice the sample's triplets, or 32
     * without a sample. Sampled clouds have room for twice the sample's. */
    double neighbours;
} spc_net_options;

#define SPC_NET_OPTIONS_INIT                                                   \
    {                                                                          \
        0, {0, 0, 0, 0}, {0, 0, 0, 0}, SPC_PLAN_JIT, 2, SPC_DUPLICATES_ERROR,  \
            NULL, 0, false, 0, 0                                               \
    }

/* Plans a network on a context's device: allocates its sets and maps, chooses
 * and loads its kernels, packs its weights. Weights must be there; no layer may
 * be added any more. Waits. SPC_EINVAL: `low` and `high` were left as they are
 * in SPC_NET_OPTIONS_INIT, and the network states no shape. */
SPC_API spc_status spc_net_plan_create(spc_net_plan **out, spc_ctx *ctx,
                                       const spc_net *net,
                                       const spc_net_options *options);
SPC_API void spc_net_plan_free(spc_net_plan *plan);
/* Bytes that one run needs for tensors and workspace. */
SPC_API size_t spc_net_memory_bytes(const spc_net_plan *plan);
/* Bytes of packed weights that the plan itself keeps on the device. */
SPC_API size_t spc_net_weights_bytes(const spc_net_plan *plan);

typedef struct spc_net_buffers {
    const int32_t *coords; /* [rows][4], as spc_coords_update takes them */
    const int32_t *count;  /* device; or NULL, and `rows` counts */
    int64_t rows;
    const void *features; /* [capacity][channels], 16-byte aligned */
    void *memory;         /* spc_net_memory_bytes, 256-byte aligned */
    /* For a plan that takes points these replace coords and features, and
     * `count` and `rows` count points. For a network of clouds they replace
     * only coords: [rows][3], with their batch elements (NULL: all of element
     * 0). Its coords are points in units of 1/1024. */
    const float *points;
    const int32_t *batch;
} spc_net_buffers;

/*
 * Runs the network: sets, maps, layers. Enqueues on `stream` and returns,
 * without allocation, synchronisation, compiling or copies to or from the host,
 * so that a CUDA graph may capture it. A plan runs once at a time: its sets are
 * its own. spc_net_check reports errors of a scene; but a bad `rows` that is
 * counted on the host is returned at once, as SPC_EINVAL or SPC_ECAPACITY.
 */
SPC_API spc_status spc_net_execute(spc_net_plan *plan,
                                   const spc_net_buffers *buffers,
                                   void *stream);
/* Waits for `stream`. SPC_ECAPACITY names the level, and the capacity that
 * would have fitted; SPC_ERANGE, SPC_EDUPLICATE as spc_coords_check; of points
 * SPC_ECAPACITY and SPC_ERANGE as spc_voxels_check, and after the latter the
 * results of the other points are there. */
SPC_API spc_status spc_net_check(spc_net_plan *plan, void *stream);

/* Keeps what spc_net_execute would do with these buffers as one graph, which
 * spc_net_replay launches. Where a device has no graphs that is executing. */
SPC_API spc_status spc_net_capture(spc_net_plan *plan,
                                   const spc_net_buffers *buffers);
/* SPC_ESTATE: nothing was captured. */
SPC_API spc_status spc_net_replay(spc_net_plan *plan, void *stream);

typedef struct spc_net_output {
    const char *name;
    size_t offset; /* in spc_net_buffers.memory */
    spc_dtype dtype;
    bool dense; /* [batches][elements], else [rows of the set][elements] */
    int64_t elements;
    int64_t batches;       /* of a dense one */
    const spc_coords *set; /* the plan's */
    const spc_points *cloud; /* where rows are points; else NULL */
    int64_t plane[3]; /* of `bev`: channels * D and the plane's sides, whose
                         product is `elements`; else 0 */
} spc_net_output;

/* SPC_EINVAL: the index is out of range. */
SPC_API spc_status spc_net_output_at(spc_net_output *out,
                                     const spc_net_plan *plan, int i);

/* The steps of a run, in their order. */
typedef enum spc_net_step_kind {
    SPC_NET_VOXELS,  /* points become voxels */
    SPC_NET_SET,     /* a coordinate set is filled */
    SPC_NET_MAP,     /* a map and the layouts that its layers read */
    SPC_NET_CONV,    /* a convolution */
    SPC_NET_FEATURE, /* an operator on features, a copy */
    SPC_NET_GATHER   /* features of a regrouped set */
} spc_net_step_kind;

typedef struct spc_net_step {
    spc_net_step_kind kind;
    const char *name;   /* of the layer; else "set" or "map" */
    char text[256];     /* the layer as text; of a map its geometry */
    const char *kernel; /* "os_mma rows=64,..." or "" */
    spc_origin origin;  /* of a convolution's plan */
    int set;            /* that is filled, or where its outputs lie */
    int set_in;         /* of a layer: where its inputs lie */
    int map;            /* that is filled, or that a layer reads; -1: none */
    /* As of the last check. */
    int64_t rows_in, rows_out, pairs;
    double density;
    size_t bytes; /* size of a layer's outputs; 0 (unknown) for set, map */
} spc_net_step;

/* Returns the number of steps of a run; 0 for NULL. */
SPC_API int spc_net_steps(const spc_net_plan *plan);
/* Describes step `i`, from 0. SPC_EINVAL: the index is out of range. */
SPC_API spc_status spc_net_step_at(spc_net_step *out, const spc_net_plan *plan,
                                   int i);

/* Returns the voxels of a set as of the last check, for tuning the layers of
 * its level. SPC_EINVAL for the input's set, as its rows are the caller's. */
SPC_API spc_status spc_net_set_scene(spc_scene **out, const spc_net_plan *plan,
                                     int set);

/*
 * Writes every convolution of the last run, which spc_net_check has found well,
 * with the voxels of its level into `folder`, as spc_capture does. `buffers`
 * are those that were run. Waits. SPC_ESTATE: nothing was run and checked.
 */
SPC_API spc_status spc_capture_net(const spc_net_plan *plan, const char *folder,
                                   const spc_net_buffers *buffers);

typedef struct spc_net_verdict {
    int layers;     /* that were compared */
    double error;   /* the largest difference over its tolerance; <= 1 passes */
    char worst[96]; /* the layer that has it */
} spc_net_verdict;

/* Compares the last run, which spc_net_check has found well, with the oracle:
 * the voxels of every set, and each layer on what it read. The plan was made
 * with `keep`; `scene` has the rows that were run; of points it is NULL, and
 * they are compared too. SPC_EWRONG names what is
 * wrong first. SPC_ESTATE: nothing was run and checked, or it was not kept. */
SPC_API spc_status spc_net_verify(spc_net_verdict *out, spc_net_plan *plan,
                                  const spc_net_buffers *buffers,
                                  const spc_scene *scene);

/* Widens ranges [tensors] by what the last run, which spc_net_check has found
 * well, has in its tensors: of several scenes, beginning with zeros, the
 * ranges that spc_net_quantise takes. The plan was made with `keep`. */
SPC_API spc_status spc_net_ranges(float *ranges, spc_net_plan *plan,
                                  const spc_net_buffers *buffers);

/* The time of each step alone, again and again with what the last run left,
 * and the least that it could need; floors of maps are 0. */
typedef struct spc_net_time {
    double warm_us, floor_us;
    const char *floor_by;
} spc_net_time;

/* Times every step: `out` has room for spc_net_steps. SPC_ESTATE: nothing was
 * run and checked. */
SPC_API spc_status spc_net_profile(spc_net_time *out, spc_net_plan *plan,
                                   const spc_net_buffers *buffers);

/* ---- training ------------------------------------------------------------ */

/*
 * A network on one scene: any graph of convolutions, operators on features,
 * concatenations and sets made of others. The gradient of a tensor that several
 * layers read is the sum of their gradients. The sums, scale, residual and
 * activation of a layer are separate steps; their results stay in memory
 * between the two passes. A batch normalisation is the scale and bias that the
 * network has of it: parameters like others. Sets, maps and plans are made
 * once; nothing else is allocated by the two passes, which only enqueue. Values
 * of parameters are kept as fp32 on the host and begin as those of the network,
 * which it leaves alone; gradients are fp32 too. Voxels that features choose
 * are chosen anew by each forward pass; what chooses them has no gradient by
 * that. Of a network of clouds the scene is points in units of 1/1024.
 * SPC_EUNSUPPORTED names the layer that cannot be trained: one of whole
 * numbers, or with another type of outputs.
 */
typedef struct spc_training spc_training;

/* Flag of spc_training_create, in addition to SPC_PLAN_*: the features also
 * have a gradient, for callers that compute them with a trained model. */
enum { SPC_TRAINING_FEATURES = 1 << 16 };

/* Makes the training of a network on a scene. The caller frees *out. */
SPC_API spc_status spc_training_create(spc_training **out, spc_ctx *ctx,
                                       const spc_net *net,
                                       const spc_scene *scene, unsigned flags);
/* NULL is fine. */
SPC_API void spc_training_free(spc_training *training);
/* Rows of the first output; the largest possible number if features choose the
 * rows. */
SPC_API int64_t spc_training_rows(const spc_training *training);

/* An output of the network: [rows][elements] on the device, of the voxels of
 * `set` or, where it is dense, of batch elements. */
typedef struct spc_training_out {
    const char *name;
    const void *data; /* from the last forward pass; the address stays the same,
                         unless it is the features themselves */
    spc_dtype dtype;
    int64_t rows, elements;
    spc_coords *set; /* the training's own */
} spc_training_out;

/* Outputs count from 0. SPC_EINVAL: the index is out of range. */
SPC_API spc_status spc_training_output(spc_training_out *out,
                                       const spc_training *training, int i);

/* `features` [rows of the scene][channels], which must stay until the way back;
 * *out, the first output, [spc_training_rows][channels], both on the device. */
SPC_API spc_status spc_net_forward(spc_training *training, const void *features,
                                   const void **out, void *stream);
/* From the gradient of the output, on the device and in its type, to those of
 * all parameters; of a network with several outputs from that of each, `count`
 * of them. SPC_ESTATE: there was no forward pass; SPC_EINVAL: another count. */
SPC_API spc_status spc_net_backward(spc_training *training, const void *grad,
                                    void *stream);
SPC_API spc_status spc_net_backward_all(spc_training *training,
                                        const void *const *grads, int count,
                                        void *stream);
/* The gradient of the features, [rows of the scene][channels] on the device, as
 * the last spc_net_backward has enqueued it: the training's, or an array that
 * was given to that. NULL: it was not asked for, or no output depends on them. */
SPC_API const void *spc_training_features(const spc_training *training);
/* The weights (KRSC), scale or bias of a layer and their gradient, on the host;
 * NULL: not wanted. Waits. SPC_ENOTFOUND: the layer lacks such an array that
 * the output depends on; SPC_EINVAL: another count. */
SPC_API spc_status spc_training_param(spc_training *training, const char *layer,
                                      spc_operand which, float *values,
                                      float *gradient, int64_t count);
/* Sets the values of a parameter, for callers with their own optimiser. Waits.
 * Fails as spc_training_param. */
SPC_API spc_status spc_training_set_param(spc_training *training,
                                          const char *layer,
                                          spc_operand which,
                                          const float *values, int64_t count);
/* Plain descent: each parameter less `rate` times its gradient. Waits. SPC_EINVAL:
 * the rate is not finite. */
SPC_API spc_status spc_training_descend(spc_training *training, float rate);

/* ---- the oracle ---------------------------------------------------------- */

/*
 * The relation of a layer on a scene, by hashing on the host, threaded,
 * independent of every device's map builder. The scene has the same meaning as
 * in spc_map_create_from_scene.
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
 *               spc_points_reserve_sampled has them. A scene's coordinates are
 *               points in units of 1/1024
 */
typedef struct spc_relation {
    int64_t rows_in, rows_out;
    int64_t pairs;
    int offsets;         /* K */
    int32_t *coords_in;  /* [rows_in][4]: batch, x, y, z */
    int32_t *coords_out; /* [rows_out][4] */
    int32_t *index;      /* [K][rows_out]: the input's row, or -1 */
    /* For points, which read any number of inputs, index is [slots][rows_out],
     * and cells has the offset of each entry that is not -1. */
    int slots;       /* K of voxels */
    uint16_t *cells; /* [slots][rows_out]; NULL of voxels */
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
 * The oracle: the layer's sums in double precision on the host, threaded.
 * in [rows_in][cin], weights KRSC, bias or NULL, as float; out [rows][cout] as
 * double; magnitude (may be NULL) [rows][cout] receives the sum of
 * |weight * input| and |bias|, from which tolerances derive. `index` is that of
 * a relation, or of spc_map_download, and `rows` its output rows. The bias of
 * the epilogue is added if no scale precedes it (inputs of I8 have a scale);
 * spc_oracle_epilogue or spc_oracle_quantised does the rest.
 */
SPC_API void spc_oracle(double *out, double *magnitude, const spc_conv *conv,
                        const int32_t *index, int64_t rows, const float *in,
                        const float *weights, const float *bias, int threads);

/* The rest of the layer's epilogue on those sums, in place: scale (and then the
 * bias), activation, residual [rows][cout] as float, without gaps. Arrays that
 * the layer has not may be NULL. */
SPC_API void spc_oracle_epilogue(double *out, const spc_conv *conv,
                                 int64_t rows, const float *scale,
                                 const float *bias, const float *residual);

/* The scales of a layer's tensors of I8. */
typedef struct spc_scales {
    float in, out, residual;
} spc_scales;

/* The same of a layer with such tensors: inputs, residual and results are the
 * whole numbers that they hold, as float and double; results are rounded and
 * saturated. `bias` is of use with inputs of I8 even without a scale. */
SPC_API void spc_oracle_quantised(double *out, const spc_conv *conv,
                                  int64_t rows, const spc_scales *scales,
                                  const float *scale, const float *bias,
                                  const float *residual);

/* ---- tuning -------------------------------------------------------------- */

/* How far spc_tune goes with every candidate; each stage includes the earlier
 * ones. */
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
    /* "ok", "constraint", "template", "compile", "timeout", "launch" (it could
     * not be loaded), "fault" (a call failed when it ran), "wrong" */
    const char *status;
    const char *note;   /* text of a failure, else "" */
    bool is_default;
    bool from_database; /* known before; neither compiled nor timed now */
    bool is_finalist;   /* its time is of the turns that chose the winner; times
                           of others are of other moments */
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
    double limit_s;     /* time limit for one candidate's run; 0: 10 s, and
                           120 s for stage VERIFY, where nothing is timed */
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
    /* Those of all candidates for which this is true, whatever the effort; NULL:
     * those of the effort. Stage TIME then compares: all of them are measured
     * anew, in turns, with as many samples as the effort's finalists, and none
     * is chosen. */
    bool (*wants)(const char *template_name, const char *config,
                  void *payload);
    /* Stage TIME: seconds after which no further candidate is started. The best
     * measured one is chosen, and a later run continues from there. At least
     * one is measured, if that takes at most another limit_s. 0: no limit. */
    double budget_s;
    /* Stage TIME: nothing is measured, and "TEMPLATE CONFIG" is chosen, which the
     * database must have times of, whatever is faster alone; SPC_ENOTFOUND. For
     * a caller that knows more than one layer shows: which other layers read
     * the same layout. */
    const char *chosen;
    /* Stage TIME: measure nothing where the database has a choice for this very
     * layer on each scene's buckets, of templates as they are now and of a
     * search that went to its end. Nothing is stored then. */
    bool missing;
} spc_tune_options;

#define SPC_TUNE_OPTIONS_INIT                                                  \
    {                                                                          \
        SPC_STAGE_TIME, SPC_EFFORT_NORMAL, NULL, NULL, 1, 0, false, NULL,      \
            NULL, NULL, NULL, NULL, false, NULL, 0, NULL, false                \
    }

typedef struct spc_tune_report {
    int candidates; /* admitted */
    int refused;    /* by constraints or resource limits */
    int compiled, verified, timed;
    int failed; /* candidates, and templates that a mistake kept out */
    int known;
    bool out_of_time; /* options.budget_s ended the search */
    bool was_there;   /* the winner is the choice that options.missing found */
    double elapsed_s;
    double gate_s;    /* of that: comparing results, of all candidates and, run
                         after run, of those that might win */
    /* And, of that: drawing the sample and what is right on it; until the
     * measuring process was ready; loading and verifying candidates, gate_s
     * included; timing them; waiting for compilers with nothing to measure. */
    double draw_s, start_s, verify_s, time_s, wait_s;
    char winner[256]; /* "os_warp rows=16,depth=4,...", "" if none */
    double winner_us, default_us;
    /* Time to build the parts of a map that the winner reads: part of its cost
     * if a map serves only one layer. 0 where this run did not measure it. */
    double layout_us;
    /* The scene on which the winner loses most against that scene's own best
     * candidate, and winner / best there; "" and 0 without a winner. */
    char worst_scene[128];
    double worst_ratio;
} spc_tune_report;

/*
 * Tunes a layer on sample scenes: every candidate is compiled, verified
 * against the oracle and timed; the winner by geometric mean over the scenes is
 * stored as the choice for each scene's bucket. Measurements that the database
 * already has are not repeated.
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
 * options only the callbacks count. SPC_EUNSUPPORTED where the host builds
 * maps: there is nothing to choose. Else as spc_tune.
 */
SPC_API spc_status spc_tune_map(spc_ctx *ctx, const spc_conv *conv,
                                const spc_scene *const *scenes, int scene_count,
                                const spc_tune_options *options,
                                spc_tune_report *report);

/*
 * The other side of spc_tune_options.worker: measures candidates for the
 * tuner that started this process, through the descriptors 3 and 4 which it
 * inherited, until that tuner closes them. Errors are reported to that tuner.
 * SPC_ESTATE if no tuner is connected.
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
    /* Of linear layers, which have no map, all of these are 0. */
    double index_us, index_spread_us; /* pack + sort + map, in key order */
    double layout_us; /* row order, tile table, pairs: what the plan reads */
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
    bool is_shipped; /* as spc_plan_is_shipped */
    char plan[256];  /* "os_warp rows=16,..." */
} spc_bench_result;

/* Times the plan that spc_plan_create gives for conv on scene. SPC_EINVAL: the
 * scene has no voxels; SPC_EWRONG: the result differs from the oracle's, before
 * the plan was timed or after it; SPC_EINTERRUPTED; others as that one's. */
SPC_API spc_status spc_bench(spc_ctx *ctx, const spc_conv *conv,
                             const spc_scene *scene, uint64_t seed,
                             spc_bench_result *out);
/* The same with a map that has room for `capacity` voxels, as networks and
 * frames have: grids are made for the capacity. Times of the map itself are
 * those of an exact one. SPC_ECAPACITY: the scene has more; SPC_EUNSUPPORTED:
 * the layer is given both sets, or its kernel clears what it adds to. */
SPC_API spc_status spc_bench_capacity(spc_ctx *ctx, const spc_conv *conv,
                                      const spc_scene *scene, uint64_t seed,
                                      int64_t capacity, spc_bench_result *out);

/*
 * The same of an operator on features: its result on random features of the
 * scene is compared with the definition before and after it is timed. Of *out
 * the times of the operator, its floor, compulsory_bytes, error, samples and
 * plan, the name of the template, are filled in. An UNPOOL runs on the scene's
 * voxels as outputs. SPC_EINVAL, SPC_EWRONG, SPC_EINTERRUPTED, and as
 * spc_feature_plan_create, spc_map_create_from_scene.
 */
SPC_API spc_status spc_feature_bench(spc_ctx *ctx, const spc_feature *feature,
                                     const spc_scene *scene, uint64_t seed,
                                     spc_bench_result *out);

/*
 * Computes the floors of a layer with this number of rows and density, on a
 * class of device that need not be present, named as by spc_db_each. They use
 * the database's measurements of the class, else its known figures. Only the
 * floors, their limits, flops and bytes of *out are filled in.
 */
SPC_API spc_status spc_floor(spc_bench_result *out, spc_ctx *ctx,
                             const char *device, const spc_conv *conv,
                             double rows_in, double rows_out, double density);

/*
 * Verifies an operator on features against its definition, as the stage
 * SPC_STAGE_VERIFY does for convolutions, on each of the scenes (zero or more)
 * and on small built-in ones. Integers must match exactly if the definition has
 * one right result, real numbers within the bound of rounding. Rows are arrays
 * of their own, slices, and off alignment. Output and workspace are filled with
 * NaN beforehand, and nothing may be written outside the rows. *error (may be
 * NULL) is the largest error over its tolerance. SPC_EWRONG; SPC_EINTERRUPTED;
 * and as spc_feature_plan_create, spc_map_create_from_scene.
 */
SPC_API spc_status spc_feature_verify(spc_ctx *ctx, const spc_feature *feature,
                                      const spc_scene *const *scenes,
                                      int scene_count, uint64_t seed,
                                      double *error);
/*
 * The same of a regrouping: of each scene as the only source and of all
 * together (up to 8), with a mask and without one; its voxels, its lists of
 * rows, and features gathered and spread in every type, with slices and
 * without, are compared with lists that are written down slot by slot.
 */
SPC_API spc_status spc_regrouping_verify(spc_ctx *ctx,
                                         const spc_regrouping *how,
                                         const spc_scene *const *scenes,
                                         int scene_count, uint64_t seed);

/* ---- background mode ----------------------------------------------------- */

/*
 * Background mode: a thread of the context prepares what plans lack, while these
 * run. A plan made with SPC_PLAN_BACKGROUND uses the kernel that the database
 * can serve without a compiler; only if that is impossible it waits for a
 * default kernel. The thread compiles, and tunes if allowed, until a record of
 * exactly this problem exists. Once it is stored, spc_plan_is_outdated returns
 * true, and another spc_plan_create finds it in some microseconds. Weights are
 * then packed again, because each kernel reads its own layout. So no plan
 * changes under its caller, and no execute ever waits. A problem is worked on
 * once, however many plans ask for it; other processes that tune it are waited
 * for, and what they find is taken.
 */
typedef struct spc_background_options {
    bool tune; /* not only compile: on the coordinates of the plan's map */
    spc_effort effort;
    const char *const *worker; /* as in spc_tune_options */
} spc_background_options;

/* `options` may be NULL: compile only. SPC_EDB: the context has no database that
 * may be written, through which its thread hands over what it finds;
 * SPC_ESTATE: it was started before. */
SPC_API spc_status
spc_background_start(spc_ctx *ctx, const spc_background_options *options);
/* Waits until nothing is left to do. spc_ctx_free does not: what is under way
 * ends soon, and is resumed another time. */
SPC_API void spc_background_wait(spc_ctx *ctx);
/* Is there a better kernel by now? A question of a few nanoseconds. */
SPC_API bool spc_plan_is_outdated(const spc_plan *plan);

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
    const char *kind; /* "layer", "map" (its search), "code" (a record of code
                         without measurements) */
} spc_db_row;

/* SPC_EDB: damaged records were left out, and the sentence names the first of
 * them; the others were reported. */
SPC_API spc_status spc_db_each(spc_ctx *ctx,
                               spc_status (*each)(const spc_db_row *row,
                                                  void *payload),
                               void *payload);

/* The same with the records of maps and code, whose `layer` is the list of words
 * by which they are found. */
SPC_API spc_status spc_db_each_record(spc_ctx *ctx,
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

/* A record that is not what was stored, or was set aside; strings live during
 * the call. */
typedef struct spc_db_fault {
    const char *file;
    const char *kind; /* "trial", "choice", "artefact", "code" (of an artefact),
                         "fact", "network", "part" (of its weights), "table"
                         (or what else is in a file by a name) */
    int64_t id;       /* its row; of a choice, that of its problem; or 0 */
    const char *reason;
} spc_db_fault;

/* Compares every record of the database's files with its digest; *checked (may
 * be NULL) is how many there are. A damaged record is reported and is not a
 * failure. */
SPC_API spc_status spc_db_verify(spc_ctx *ctx, int64_t *checked,
                                 spc_status (*each)(const spc_db_fault *fault,
                                                    void *payload),
                                 void *payload);

/*
 * Moving records between files. A record states its whole meaning in words. Of
 * two records about the same thing one is kept: a choice pinned by a person
 * first, then the newer one, then by text. So merging is commutative,
 * associative and idempotent. All of these functions use the context's own
 * file, or the first of its layers if it lacks one.
 */
typedef enum spc_db_fate {
    SPC_DB_ACCEPTED,
    SPC_DB_KNOWN,   /* the file said the same already */
    SPC_DB_OLDER,   /* the file has a newer one */
    SPC_DB_STALE,   /* accepted, but its template has changed since: a hint */
    SPC_DB_REJECTED /* with a reason */
} spc_db_fate;

enum { SPC_DB_FATES = SPC_DB_REJECTED + 1 };

/* The outcome of one record; strings live during the call. */
typedef struct spc_db_change {
    spc_db_fate fate;
    const char *record; /* "choice device=... layer=...": what identifies it */
    const char *reason;
    int64_t line; /* of the text that was imported; else 0 */
} spc_db_change;

typedef struct spc_db_exchange {
    int64_t counts[SPC_DB_FATES]; /* filled in, by fate */
    /* Hears of what is older, stale or rejected. May be NULL. */
    spc_status (*each)(const spc_db_change *change, void *payload);
    void *payload;
} spc_db_exchange;

typedef enum spc_db_what {
    SPC_DB_RECORDS,  /* choices, trials, facts of devices */
    SPC_DB_AND_CODE, /* those, and compiled code */
    SPC_DB_CHOICES   /* choices and the trials that they chose, for shipping:
                        host names are left out */
} spc_db_what;

/* Writes records as text, one a line, sorted. *damaged (may be NULL): how many
 * were left out because they are not what was stored. */
SPC_API spc_status spc_db_export(spc_ctx *ctx, spc_db_what what,
                                 spc_status (*write)(const char *text,
                                                     size_t bytes,
                                                     void *payload),
                                 void *payload, int64_t *damaged);

/* Takes such text, or the records of another database, in one transaction. Host
 * code, and a network that would replace one of the same name, is rejected
 * unless the context trusts files of others. */
SPC_API spc_status spc_db_import(spc_ctx *ctx, const char *text, size_t bytes,
                                 spc_db_exchange *exchange);
SPC_API spc_status spc_db_merge(spc_ctx *ctx, const char *path,
                                spc_db_exchange *exchange);

/* Calls each(side, line) for every record in which the file differs from
 * another: '-' marks a record of this file, '+' one of the other. */
SPC_API spc_status spc_db_diff(spc_ctx *ctx, const char *path,
                               spc_status (*each)(char side, const char *line,
                                                  void *payload),
                               void *payload);

/* The contents of a pack. */
typedef struct spc_db_packed {
    int64_t choices, trials, facts, code;
    int files;          /* databases */
    int64_t bytes;      /* of all of them */
    int64_t code_bytes; /* of the code before it was compressed */
    bool compressed;    /* zstd was there */
    int removed; /* files of code that an earlier pack of that name had left */
} spc_db_packed;

typedef struct spc_db_pack_options {
    /* The code in the pack as well: with a network, one file is all that a
     * program needs, as `layers` or as `database` of its context. */
    bool whole;
} spc_db_pack_options;

/*
 * Writes the files to ship: `path`, which ends in ".db", with choices, the
 * records that they need, and networks; in the same folder, unless the pack is
 * to be whole, the code of each target ("NAME.sm_90a.db"); and a manifest
 * ("NAME.manifest") with the SHA-256 of every record, for minisign to sign:
 * minisign -Sm NAME.manifest. None of them is ever written to again. Files of
 * an earlier pack of that name are replaced, and its code files that this pack
 * does not replace are removed; both only if the file itself records that
 * NAME.manifest lists it. SPC_EINVAL: `path` is not such a name, is a file that
 * this context has open, or an unrelated file exists there; SPC_EDB: the file
 * may be open elsewhere, because SQLite keeps a log for it. Nothing is written
 * on these errors. `options` may be NULL.
 */
SPC_API spc_status spc_db_pack(spc_ctx *ctx, const char *path,
                               const spc_db_pack_options *options,
                               spc_db_packed *packed);

typedef struct spc_db_prune_options {
    bool losers; /* trials that were not chosen, where something was */
    bool stale;  /* records whose templates have changed */
    int64_t before_unix_seconds; /* older records; 0: of any age */
} spc_db_prune_options;

/* Removes that, what was set aside as damaged, and what nothing refers to any
 * more. Pinned choices stay. *removed (may be NULL) counts trials, choices and
 * code. */
SPC_API spc_status spc_db_prune(spc_ctx *ctx,
                                const spc_db_prune_options *options,
                                int64_t *removed);

/* Uses records again that were set aside as damaged and are intact now, because
 * the file was restored or a read had failed. A record whose code was refused
 * stays aside until its layer is tuned again. */
SPC_API spc_status spc_db_release(spc_ctx *ctx, int64_t *released);

/* Chooses for problem `id` of the context's file the trial that is listed as
 * `choice` ("os_warp rows=16,...") by hand: it comes before all that is
 * faster, and neither tuning nor merging replaces it. NULL lets it go.
 * SPC_ENOTFOUND; SPC_EINVAL: that trial did not end well. */
SPC_API spc_status spc_db_pin(spc_ctx *ctx, int64_t id, const char *choice);

/* Brings a file to the schema of this library: *from and *to are versions.
 * Contexts do so too when they open a file that they may write. */
SPC_API spc_status spc_db_migrate(const char *path, int *from, int *to,
                                  spc_error *error);

#ifdef __cplusplus
}
#endif
#endif
