/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/net.h - networks: built or loaded, planned for a device, run with one
 * call.
 */
#ifndef SPC_NET_H
#define SPC_NET_H

#include "coords.h"
#include "features.h"
#include "plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- networks ------------------------------------------------------------ */

/*
 * A network is a graph of layers over coordinate sets, with weights. It is a
 * value on the host, made once, layer by layer or from a file. A plan of the
 * network has sets, maps, kernels and packed weights on a device, and runs with
 * one call, including the indexing. A CUDA graph may capture this call.
 *
 * Tensors are named by handles that count from 0, in the order in which they
 * were made. Each tensor lies over a coordinate set. Only the sets and the
 * geometry determine which layers share a set or a map. A map key in a file is
 * only a hint, and spc_net_note_at reports a wrong key.
 *
 * A network is built and read by one thread at a time. If a layer is invalid,
 * *error (may be NULL) receives a message, and the network stays unchanged.
 */
typedef struct spc_net spc_net;
typedef struct spc_net_plan spc_net_plan; /* a network planned for a context's
                                             device */
typedef int spc_tensor;

#define SPC_NO_TENSOR (-1)

/* Makes an empty network. The name is copied, as are all texts of this header.
 * The caller frees *out. SPC_EINVAL: no name; SPC_ENOMEM. */
SPC_API spc_status spc_net_create(spc_net **out, const char *name,
                                  spc_error *error);
/* Reads a network from a file in Lua (examples/networks). Features and weights
 * have the type `dtype` unless the file states another. The caller frees *out.
 * SPC_ENOTFOUND; SPC_ETEMPLATE: a mistake in the file, with its line. */
SPC_API spc_status spc_net_load(spc_net **out, const char *path,
                                spc_dtype dtype, spc_error *error);

/* Known properties of a network that is similar to a file's network: another
 * grid, and weights with other channels or more blocks. */
typedef struct spc_net_like {
    size_t bytes; /* sizeof this struct: SPC_NET_LIKE_INIT sets it */
    /* Finds the weights of a layer by its name; returns false if they do not
     * exist. NULL: channels and numbers of blocks are those of the file. It
     * must not call the library with the network that is being read. */
    bool (*find)(int *cin, int *cout, const char *layer, void *payload);
    void *payload;
    double voxel[3], low[3], high[3]; /* all 0: the file states no grid */
} spc_net_like;

#define SPC_NET_LIKE_INIT                                                      \
    {                                                                          \
        sizeof(spc_net_like), NULL, NULL, {0, 0, 0}, {0, 0, 0},                \
        {                                                                      \
            0, 0, 0                                                            \
        }                                                                      \
    }

/*
 * Reads a network as spc_net_load does, with the channels of the weights that
 * `find` finds, and the grid of *like; the shape keeps its margin beyond the
 * cells of the grid. The file gets widths and numbers of blocks through its
 * functions width() and count(). The caller frees *out. SPC_EINVAL: the file
 * states a grid and *like does not, or the reverse (weights have no grid); a
 * grid without a whole number of voxels from 1 on; and as spc_net_load.
 */
SPC_API spc_status spc_net_load_like(spc_net **out, const char *path,
                                     spc_dtype dtype, const spc_net_like *like,
                                     spc_error *error);
SPC_API void spc_net_free(spc_net *net); /* plans keep it alive */

/*
 * Networks in the database. A stored network has its weights in the same
 * database as choices and compiled code. It is opened by its name, without a
 * file, Lua or an importer, so one database is the whole deployment. Weights
 * are stored in the type in which their layers multiply them, and all else
 * unchanged, so results have the same bits.
 *
 * `name` has 1 to 63 characters, no blank and no '/'; `source` (may be NULL)
 * names the network's origin. SPC_ESTATE: weights are missing, or a network of
 * this name exists and `replace` is false; SPC_EDB.
 */
SPC_API spc_status spc_net_store(spc_ctx *ctx, const spc_net *net,
                                 const char *name, const char *source,
                                 bool replace);
/* Opens the network of this name from the highest-priority file that has an
 * intact one. The caller frees *out. SPC_ENOTFOUND; SPC_EDB: the network is
 * damaged, and set aside with the reason; SPC_EDBVERSION: a newer version wrote
 * it. */
SPC_API spc_status spc_net_open(spc_net **out, spc_ctx *ctx, const char *name);
/* Removes the network from the writable file. SPC_ENOTFOUND. */
SPC_API spc_status spc_net_remove(spc_ctx *ctx, const char *name);

/* A stored network, for listings; strings live during the call. */
typedef struct spc_net_row {
    const char *file, *name, *source;
    const char *version; /* version of the libspc that stored it */
    const char *graph;   /* its layers, one per line, with fields separated by
                            tabs */
    int64_t weights_bytes, unix_seconds;
    const char *fault; /* why it cannot be used; NULL if it can */
} spc_net_row;

/* Calls each(row, payload) for every stored network. If the callback returns
 * another status than SPC_OK, the listing ends and returns this status.
 * SPC_ENOTFOUND: no database; SPC_EDB. */
SPC_API spc_status spc_net_each(spc_ctx *ctx,
                                spc_status (*each)(const spc_net_row *row,
                                                   void *payload),
                                void *payload);

/* An input: features [rows][channels] for the rows of a scene. */
typedef struct spc_net_input {
    size_t bytes;     /* sizeof this struct: SPC_NET_INPUT_INIT sets it */
    const char *name; /* "x" */
    int channels;
    spc_dtype dtype;
    int shape[3]; /* voxels along x, y, z, from 0; 0: any, also below 0 */
    /* How points become voxels: floor((p - low) / voxel), points outside low to
     * high are left out. 0: not stated. */
    double voxel[3], low[3], high[3];
    /* For a plan that makes voxels from points: at most this many points of a
     * voxel count. Their mean gives the voxel's features. 0: all. */
    int points;
    /* Rows are points at their true positions: see "native points". The network
     * then has no shape and no voxel size. */
    bool cloud;
    /* Order of the axes, after the batch element, in coordinate files for the
     * network: "xyz" (NULL) or "zyx", else SPC_EINVAL. The network itself uses
     * x, y, z. */
    const char *axes;
} spc_net_input;

#define SPC_NET_INPUT_INIT                                                     \
    {                                                                          \
        sizeof(spc_net_input), "x", 0, SPC_F16, {0, 0, 0}, {0, 0, 0},          \
            {0, 0, 0}, {0, 0, 0}, 0, false, NULL                               \
    }

/* Adds the only input, which is the first tensor. SPC_EINVAL names the invalid
 * member; SPC_ESTATE: the network has an input already; SPC_ENOMEM. */
SPC_API spc_status spc_net_add_input(spc_tensor *out, spc_net *net,
                                     const spc_net_input *input,
                                     spc_error *error);

typedef struct spc_net_layer {
    size_t bytes; /* sizeof this struct: SPC_NET_LAYER_INIT sets it */
    /* Name of its weights: "conv1.0"; NULL: "layer7". Layers of the same name
     * share their weights, as in a head over several levels; their channels,
     * kernel, type, scale, bias and normalisation must be the same. A note
     * reports the sharing. */
    const char *name;
    spc_conv conv; /* pitches stay 0. The shape of a FOOTPRINT is optional if
                      the network can derive it */
    spc_tensor in;
    spc_tensor residual; /* the residual, for epilogues that add one */
    spc_tensor at;    /* inverse, transposed and given layers: the tensor whose
                         rows the outputs have. Optional for inverse layers: by
                         default the tensor that the inputs were derived from */
    const char *key;  /* key of its map in files; may be NULL */
    const char *norm; /* of the batch normalisation that is folded into scale
                         and bias; may be NULL */
    double eps;       /* epsilon of the normalisation; 0: 1e-5 */
} spc_net_layer;

#define SPC_NET_LAYER_INIT                                                     \
    {                                                                          \
        sizeof(spc_net_layer), NULL, SPC_CONV_INIT, SPC_NO_TENSOR,             \
            SPC_NO_TENSOR, SPC_NO_TENSOR, NULL, NULL, 0                        \
    }

/*
 * Networks of clouds have layers of points, linear layers, concatenations, and
 * operators on features that process each row separately. A layer of points
 * with a voxel size makes a new cloud of one point per voxel, which layers may
 * share. A layer without a voxel size has the points of `at`, else the points
 * of its inputs. So up-sampling is nearest=1 with a cube of one cell at the
 * finer tensor, or an inverse layer. With a voxel size, nearest=1 copies the
 * features of the sampled points. SPC_EINVAL names the layer and the error;
 * SPC_ENOMEM.
 */
SPC_API spc_status spc_net_add_conv(spc_tensor *out, spc_net *net,
                                    const spc_net_layer *layer,
                                    spc_error *error);

/* Adds an operator on features. `add` is the tensor that ADD adds and MULTIPLY
 * multiplies by; `at` is the tensor whose rows an UNPOOL has, optional as
 * above. An unpool=index reads the indices that a pool=max with index=1 stored:
 * `add` is that layer's outputs, and `at` may be left out. The indices are a
 * tensor of the network directly after these outputs; no other layer may read
 * it. An ADD that follows a convolution becomes its residual if no other layer
 * reads the convolution's outputs.
 *
 * The outputs of GLOBAL have a row for each batch element. Linear layers,
 * operators that process each row separately, and MULTIPLY can read such rows:
 * a squeeze-and-excitation block is GLOBAL, two linear layers, and MULTIPLY.
 * SPC_EINVAL names the layer and the error; SPC_ENOMEM. */
SPC_API spc_status spc_net_add_feature(spc_tensor *out, spc_net *net,
                                       const char *name,
                                       const spc_feature *feature,
                                       spc_tensor in, spc_tensor add,
                                       spc_tensor at, spc_error *error);

/* Adds a concatenation: the channels of several tensors over one set, side by
 * side. Layers write their part in place if each part begins at a multiple of
 * 16 bytes. SPC_EINVAL: the tensors lie over different sets or have different
 * types; SPC_ENOMEM. */
SPC_API spc_status spc_net_add_concat(spc_tensor *out, spc_net *net,
                                      const spc_tensor *parts, int count,
                                      spc_error *error);

/* Adds a set made from the sets of 1 to 8 tensors, with features as
 * spc_coords_gather_features computes them. `slices`: children have slices of
 * the channels. SPC_EINVAL: 0 or more than 8 tensors, or spc_regrouping_check
 * refuses the regrouping; SPC_ENOMEM.
 */
SPC_API spc_status spc_net_add_regroup(spc_tensor *out, spc_net *net,
                                       const spc_tensor *sources, int count,
                                       const spc_regrouping *how, bool slices,
                                       spc_error *error);

/*
 * A set of voxels selected by features: the voxels of `in`, or their children,
 * whose value in the tensor `mask` is greater than `above`. `mask` lies over
 * the set of `in` and has a channel for each child. MinkowskiEngine prunes this
 * way (Gwak, Choy, Savarese, ECCV 2020), and TRELLIS.2 predicts which of eight
 * children exist (Xiang and others, 2025). The sets and maps of later layers
 * are filled on the device in the same run, once the mask is known. Layers with
 * the same mask share the set.
 */
typedef struct spc_net_masked {
    size_t bytes;     /* sizeof this struct: SPC_NET_MASKED_INIT sets it */
    const char *name; /* NULL: "layer7" */
    spc_tensor in;    /* its features are used, as in spc_net_add_regroup */
    spc_regrouping how;
    bool slices;
    spc_tensor mask;
    float above;
    /* Capacity of the set, as a multiple of the network's capacity; 0: the
     * largest possible number of rows. With more rows the set is empty, and
     * spc_net_plan_check names the capacity that would have been enough. */
    double room;
} spc_net_masked;

#define SPC_NET_MASKED_INIT                                                    \
    {                                                                          \
        sizeof(spc_net_masked), NULL, SPC_NO_TENSOR, SPC_REGROUPING_INIT,      \
            false, SPC_NO_TENSOR, 0, 0                                         \
    }

/* Adds such a set; *out receives its features. SPC_EINVAL names the invalid
 * member; SPC_ENOMEM. */
SPC_API spc_status spc_net_add_masked(spc_tensor *out, spc_net *net,
                                      const spc_net_masked *masked,
                                      spc_error *error);

/* Declares an output. Outputs count from 0 and have unique names: SPC_EINVAL if
 * another output has this name. */
SPC_API spc_status spc_net_add_output(spc_net *net, spc_tensor tensor,
                                      const char *name, spc_error *error);

/* Writes how a plan converts points to voxels: by the network's grid, within
 * its shape. `batches` above 1: each point has a batch element. SPC_EINVAL: the
 * network states no grid. */
SPC_API spc_status spc_net_voxelisation(spc_voxelisation *out,
                                        const spc_net *net, int batches,
                                        spc_error *error);

/* The parts of a network. */
typedef struct spc_net_info {
    const char *name;
    int layers; /* convolutions; layers that were merged into others count for
                   default names */
    int tensors, sets, maps, outputs, params;
    const spc_net_input *input; /* lives as long as the network */
    int64_t reserved[4];        /* 0 */
} spc_net_info;

/* Fills *out; the name is "" and all else 0 for a NULL network. */
SPC_API void spc_net_describe(spc_net_info *out, const spc_net *net);
/* Returns a remark that is not an error but worth knowing, as a sentence; NULL
 * past the last. */
SPC_API const char *spc_net_note_at(const spc_net *net, int i);
/* Adds such a remark, which is copied, for programs that convert networks.
 * SPC_EINVAL: NULL; SPC_ENOMEM. */
SPC_API spc_status spc_net_add_note(spc_net *net, const char *text,
                                    spc_error *error);

typedef struct spc_tensor_info {
    int set; /* sets count from 0, the set of the input */
    int channels;
    spc_dtype dtype;
    bool dense;       /* [batches][elements], by GLOBAL and BEV */
    int64_t elements; /* elements of a row */
    int shape[3];     /* stride of the set; 0: unknown */
    int64_t reserved[4]; /* 0 */
} spc_tensor_info;

/* Describes a tensor. SPC_EINVAL: the network has no such tensor. */
SPC_API spc_status spc_net_tensor_at(spc_tensor_info *out, const spc_net *net,
                                     spc_tensor tensor, spc_error *error);

/* Weights (canonical, KRSC), scale and bias of convolutions, scale and bias of
 * normalisations, as fp32; counted in the order of the layers. A shared array
 * is counted once, with its first layer. */
typedef struct spc_net_param {
    const char *layer; /* name of the layer */
    spc_operand
        which; /* SPC_OPERAND_WEIGHTS, SPC_OPERAND_SCALE or SPC_OPERAND_BIAS */
    int64_t count;
    const float *values;  /* the network's values; NULL: not set yet */
    const spc_conv *conv; /* NULL for a normalisation */
    const char *norm;     /* as in spc_net_layer; or "" */
    double eps;
    int64_t reserved[4]; /* 0 */
} spc_net_param;

/* SPC_EINVAL: the index is out of range. */
SPC_API spc_status spc_net_param_at(spc_net_param *out, const spc_net *net,
                                    int i);
/* Copies the values [count] (host) into the network. SPC_ENOTFOUND: the layer
 * or array does not exist; the message suggests a similar name. SPC_EINVAL: the
 * array has another count. SPC_ERANGE: finite weights would be infinite in the
 * layer's type, such as weights above 65504 in F16; the message gives their
 * number, the greatest weight, and a type that can hold it. NaN and infinite
 * values are accepted unchanged, and spc_net_note_at reports them; but I8
 * cannot represent them, and spc_net_quantise refuses them. */
SPC_API spc_status spc_net_set_param(spc_net *net, const char *layer,
                                     spc_operand which, const float *values,
                                     int64_t count, spc_error *error);
/* Sets all missing values at random: weights uniform with the variance 2 / (K
 * cin / groups) (He, Zhang, Ren, Sun, ICCV 2015), scales about 1, biases about
 * 0. The same seed gives the same values. SPC_ENOMEM. */
SPC_API spc_status spc_net_init_params(spc_net *net, uint64_t seed,
                                       spc_error *error);

/*
 * Quantises a network of f16 for I8, before it is planned: `ranges` [tensors]
 * (host) has for each tensor the greatest magnitude to be represented, 127
 * steps from 0, or 0 if the tensor stays f16. A tensor becomes I8 if a
 * convolution writes it and only convolutions read it. A residual and the
 * outputs that it is added to become I8 together or not at all. Convolutions
 * with I8 inputs have I8 weights; the scale of each output channel is derived
 * from its greatest weight. *layers (may be NULL) receives the number of these
 * convolutions. SPC_EINVAL: a range is negative, NaN or infinite; SPC_ESTATE:
 * the network is quantised already, or has plans. spc_net_store stores the
 * quantised network.
 */
SPC_API spc_status spc_net_quantise(int *layers, spc_net *net,
                                    const float *ranges, spc_error *error);

typedef struct spc_net_options {
    size_t bytes;     /* sizeof this struct: SPC_NET_OPTIONS_INIT sets it */
    int64_t capacity; /* most rows of a scene */
    /* The extent of scenes: batch, x, y, z, both ends included. For a network
     * with a shape, only the batch is used. */
    int32_t low[4], high[4];
    unsigned flags; /* SPC_PLAN_* */
    /* Capacity of FOOTPRINT sets, as a multiple of the network's capacity, up
     * to the rule's bound. Single lidar sweeps have up to 1.7 times as many
     * voxels on the second level. An axis of stride 1 multiplies this by the
     * kernel's size along it, as such layers dilate; if no axis has a stride,
     * the set has room for at least K times the capacity. 0: the rule's bound.
     * */
    double growth;
    spc_duplicates duplicates; /* SPC_DUPLICATES_ERROR or _FIRST */
    /* A sample scene, [sample_rows][4] on the host. Its rows and densities by
     * level select the kernels. NULL: the capacities select them. */
    const int32_t *sample;
    int64_t sample_rows;
    /* Every tensor has separate memory until the next run, so it can be
     * inspected (spc_net_plan_verify). */
    bool keep;
    /*
     * Most points of a scene; 0: scenes are voxels with features. Otherwise the
     * first step of a run turns points into voxels (spc_voxels), in the grid
     * that the network states, within its shape; there is room for `capacity`
     * voxels. A point has as many numbers as the input has channels, preceded
     * by its batch element if high[0] is above 0.
     */
    int64_t points;
    /* For networks of clouds: the capacity of each map in triplets, as a
     * multiple of the capacity of its outputs. (The extent low to high of such
     * a network is in units of 1/1024, as in scenes.) 0: twice the sample's
     * triplets, or 32 without a sample. Sampled clouds have room for twice the
     * sample's. */
    double neighbours;
} spc_net_options;

#define SPC_NET_OPTIONS_INIT                                                   \
    {                                                                          \
        sizeof(spc_net_options), 0, {0, 0, 0, 0}, {0, 0, 0, 0}, SPC_PLAN_JIT,  \
            2, SPC_DUPLICATES_ERROR, NULL, 0, false, 0, 0                      \
    }

/* Plans a network on a context's device: allocates its sets and maps, chooses
 * and loads its kernels, packs its weights. All weights must be set. Layers can
 * no longer be added afterwards. Waits. The caller frees *out. SPC_EINVAL:
 * weights are missing, or `low` and `high` are still those of
 * SPC_NET_OPTIONS_INIT and the network states no shape; else as spc_plan_create
 * and spc_coords_create_reserved. */
SPC_API spc_status spc_net_plan_create(spc_net_plan **out, spc_ctx *ctx,
                                       const spc_net *net,
                                       const spc_net_options *options);
SPC_API void spc_net_plan_free(spc_net_plan *plan);
/* Returns the bytes that one run needs for tensors and workspace. */
SPC_API size_t spc_net_plan_memory_bytes(const spc_net_plan *plan);
/* Returns the bytes of packed weights that the plan keeps on the device. */
SPC_API size_t spc_net_plan_weights_bytes(const spc_net_plan *plan);

typedef struct spc_net_buffers {
    size_t bytes; /* sizeof this struct: SPC_NET_BUFFERS_INIT sets it */
    const int32_t *coords; /* [rows][4], as spc_coords_update takes them */
    const int32_t *count;  /* device; if NULL, `rows` is the number of rows */
    int64_t rows;
    const void *features; /* [capacity][channels], 16-byte aligned */
    void *memory;         /* spc_net_plan_memory_bytes, 256-byte aligned */
    /* For a plan that takes points, `points` replaces coords and features, and
     * `count` and `rows` count points. For a network of clouds, `points`
     * [rows][3] and `batch` (NULL: all of element 0) replace only coords; its
     * coords would be points in units of 1/1024. */
    const float *points;
    const int32_t *batch;
} spc_net_buffers;

#define SPC_NET_BUFFERS_INIT                                                   \
    {                                                                          \
        sizeof(spc_net_buffers), NULL, NULL, 0, NULL, NULL, NULL, NULL         \
    }

/*
 * Runs the network: sets, maps, layers. Enqueues on `stream` and returns,
 * without allocation, synchronisation, compiling or copies to or from the host,
 * so that a CUDA graph may capture it. A plan runs once at a time, because each
 * run uses the plan's sets. spc_net_plan_check reports errors of a scene. If
 * `count` is NULL, an invalid `rows` is reported at once, as SPC_EINVAL or
 * SPC_ECAPACITY.
 */
SPC_API spc_status spc_net_plan_execute(spc_net_plan *plan,
                                        const spc_net_buffers *buffers,
                                        void *stream);
/* Waits for `stream`. SPC_ECAPACITY names the level and the capacity that would
 * have been enough; SPC_ERANGE, SPC_EDUPLICATE as spc_coords_check. For points
 * SPC_ECAPACITY and SPC_ERANGE as spc_voxels_check; with SPC_ERANGE the results
 * of all other points are valid. */
SPC_API spc_status spc_net_plan_check(spc_net_plan *plan, void *stream);

/* Captures a call of spc_net_plan_execute with these buffers as one graph,
 * which spc_net_plan_replay launches. On a device without graphs, replaying
 * executes. The buffers must stay valid as long as the graph is replayed.
 * SPC_EINVAL as for spc_net_plan_execute; SPC_EDEVICE: the driver cannot
 * capture a graph. */
SPC_API spc_status spc_net_plan_capture(spc_net_plan *plan,
                                        const spc_net_buffers *buffers);
/* Launches the captured graph. SPC_ESTATE: nothing was captured. */
SPC_API spc_status spc_net_plan_replay(spc_net_plan *plan, void *stream);

typedef struct spc_net_output {
    const char *name;
    size_t offset; /* inside spc_net_buffers.memory */
    spc_dtype dtype;
    bool dense; /* [batches][elements], else [rows of the set][elements] */
    int64_t elements;
    int64_t batches;         /* number of batch elements of a dense output */
    const spc_coords *set;   /* the set of the plan */
    const spc_points *cloud; /* the cloud of the plan if rows are points; else
                                NULL */
    int64_t plane[3]; /* for `bev`: channels * D and the sides of the plane
                         (their product is `elements`); else 0 */
    int64_t reserved[4]; /* 0 */
} spc_net_output;

/* SPC_EINVAL: the index is out of range. */
SPC_API spc_status spc_net_plan_output_at(spc_net_output *out,
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
    const char *name;   /* name of the layer; else "set" or "map" */
    char text[256];     /* the layer as text; for a map its geometry */
    const char *kernel; /* "os_mma rows=64,..." or "" */
    spc_match match;    /* of a convolution's plan */
    int set;            /* the set that is filled, or the set of the outputs */
    int set_in;         /* set of the inputs of a layer */
    int map;            /* the map that is filled, or that a layer reads; -1:
                           none */
    /* As of the last check. */
    int64_t rows_in, rows_out, pairs;
    double density;
    size_t bytes; /* size of a layer's outputs; 0 (unknown) for sets and maps */
    int64_t reserved[4]; /* 0 */
} spc_net_step;

/* Returns the number of steps of a run; 0 for NULL. */
SPC_API int spc_net_plan_step_count(const spc_net_plan *plan);
/* Describes step `i`, from 0. SPC_EINVAL: the index is out of range. */
SPC_API spc_status spc_net_plan_step_at(spc_net_step *out,
                                        const spc_net_plan *plan, int i);

#ifdef __cplusplus
}
#endif
#endif
