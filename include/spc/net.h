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
 * A network is a graph of layers over coordinate sets, with weights: a value on
 * the host, made once, layer by layer or from a file. Planned for a device it
 * has its sets, maps, kernels and packed weights there, and runs with one call
 * that a CUDA graph may capture, indexing included.
 *
 * Tensors are named by handles that count from 0, in the order in which they
 * were made. Each lies over a coordinate set. The sets and the geometry alone
 * determine which layers share a set or a map: a key that a file gives to a map
 * is a hint, and spc_net_note_at reports a wrong one.
 *
 * A network is built and read by one thread at a time. A bad layer is described
 * by a sentence in *error (may be NULL), and the network stays unchanged.
 */
typedef struct spc_net spc_net;
typedef struct spc_net_plan spc_net_plan; /* it, on a context's device */
typedef int spc_tensor;

#define SPC_NO_TENSOR (-1)

/* An empty network. The name is copied, as all texts here are. The caller frees
 * *out. SPC_EINVAL: no name; SPC_ENOMEM. */
SPC_API spc_status spc_net_create(spc_net **out, const char *name,
                                  spc_error *error);
/* Reads a network from a file in Lua (examples/networks). Its features and
 * weights have the type `dtype` unless it says otherwise. The caller frees
 * *out. SPC_ENOTFOUND; SPC_ETEMPLATE: a mistake in the file, with its line. */
SPC_API spc_status spc_net_load(spc_net **out, const char *path,
                                spc_dtype dtype, spc_error *error);

/* What is known of a network that resembles that of a file: another grid, and
 * weights with other channels or more blocks. */
typedef struct spc_net_like {
    size_t bytes; /* sizeof this struct: SPC_NET_LIKE_INIT sets it */
    /* Finds the weights of a layer by its name; false: there are none. NULL:
     * channels and numbers of blocks are those of the file. It must not call
     * the library with the network that is being read. */
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
 * `find` finds, and the grid of *like; the shape keeps what it has beyond the
 * cells of the grid. The file asks for widths and numbers of blocks by its
 * functions width() and count(). The caller frees *out. SPC_EINVAL: the file
 * states a grid and *like does not, or the reverse (weights have no grid); a
 * grid without a whole number of voxels from 1 on; and as spc_net_load.
 */
SPC_API spc_status spc_net_load_like(spc_net **out, const char *path,
                                     spc_dtype dtype, const spc_net_like *like,
                                     spc_error *error);
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
/* The network of the uppermost file that has a sound one. The caller frees
 * *out. SPC_ENOTFOUND; SPC_EDB: it is damaged, and set aside with the reason;
 * SPC_EDBVERSION: written by a newer version. */
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

/* Calls each(row, payload) for every stored network. A status but SPC_OK from
 * it ends the listing and is returned. SPC_ENOTFOUND: no database; SPC_EDB. */
SPC_API spc_status spc_net_each(spc_ctx *ctx,
                                spc_status (*each)(const spc_net_row *row,
                                                   void *payload),
                                void *payload);

/* Adds an input: features [rows][channels] of the rows of a scene. */
typedef struct spc_net_input {
    size_t bytes;     /* sizeof this struct: SPC_NET_INPUT_INIT sets it */
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
        sizeof(spc_net_input), "x", 0, SPC_F16, {0, 0, 0}, {0, 0, 0},          \
            {0, 0, 0}, {0, 0, 0}, 0, false, NULL                               \
    }

/* The one input, and the first of the tensors. SPC_EINVAL names the member that
 * is wrong; SPC_ESTATE: there is an input already; SPC_ENOMEM. */
SPC_API spc_status spc_net_add_input(spc_tensor *out, spc_net *net,
                                     const spc_net_input *input,
                                     spc_error *error);

typedef struct spc_net_layer {
    size_t bytes; /* sizeof this struct: SPC_NET_LAYER_INIT sets it */
    /* Name of its weights: "conv1.0"; NULL: "layer7". Layers of one name share
     * their weights, as a head over several levels does: their channels,
     * kernel, type, scale, bias and normalisation must be the same. A note
     * reports the sharing. */
    const char *name;
    spc_conv conv; /* pitches stay 0. The shape of a FOOTPRINT is optional if
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
        sizeof(spc_net_layer), NULL, SPC_CONV_INIT, SPC_NO_TENSOR,             \
            SPC_NO_TENSOR, SPC_NO_TENSOR, NULL, NULL, 0                        \
    }

/*
 * Networks of clouds have layers of points, linear layers, concatenations, and
 * operators on features that take each row by itself. A layer of points with a
 * voxel makes a cloud of its own, one point of each voxel, which layers share;
 * one without has the points of `at`, or else of its inputs. So up-sampling is
 * nearest=1 with a cube of one cell at the finer tensor, or an inverse layer,
 * and nearest=1 with a voxel takes the points that stay as they are.
 * SPC_EINVAL names the layer and what is wrong; SPC_ENOMEM.
 */
SPC_API spc_status spc_net_add_conv(spc_tensor *out, spc_net *net,
                                    const spc_net_layer *layer,
                                    spc_error *error);

/* An operator on features. `add` is what ADD adds and MULTIPLY multiplies by;
 * `at` the tensor whose rows an UNPOOL has, left out as above. An unpool=index
 * reads the indices that a pool=max with index=1 stored: `add` is that layer's
 * outputs, and `at` may be left out. The indices are a tensor of the network
 * that follows those outputs; nothing else reads it. An ADD that follows a
 * convolution becomes its residual if no other layer reads the convolution's
 * outputs.
 *
 * The outputs of GLOBAL have a row for each batch element. Linear layers,
 * operators that take each row by itself, and MULTIPLY read such rows: a
 * squeeze-and-excitation block is GLOBAL, two linear layers, and MULTIPLY.
 * SPC_EINVAL names the layer and what is wrong; SPC_ENOMEM. */
SPC_API spc_status spc_net_add_feature(spc_tensor *out, spc_net *net,
                                       const char *name,
                                       const spc_feature *feature,
                                       spc_tensor in, spc_tensor add,
                                       spc_tensor at, spc_error *error);

/* The channels of several tensors over one set, side by side. They are written
 * in place where each begins at a multiple of 16 bytes. SPC_EINVAL: they lie
 * over two sets, or have two types; SPC_ENOMEM. */
SPC_API spc_status spc_net_add_concat(spc_tensor *out, spc_net *net,
                                      const spc_tensor *parts, int count,
                                      spc_error *error);

/* A set made of those of 1 to 8 tensors, with their features as
 * spc_coords_gather_features has them. `slices`: children have slices of the
 * channels. SPC_EINVAL: 0 or more than 8 tensors, or what
 * spc_regrouping_check refuses; SPC_ENOMEM.
 */
SPC_API spc_status spc_net_add_regroup(spc_tensor *out, spc_net *net,
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
    size_t bytes;     /* sizeof this struct: SPC_NET_MASKED_INIT sets it */
    const char *name; /* NULL: "layer7" */
    spc_tensor in;    /* its features are used, as in spc_net_add_regroup */
    spc_regrouping how;
    bool slices;
    spc_tensor mask;
    float above;
    /* Capacity of the set, as a multiple of the network's capacity; 0: the
     * largest possible number of rows. With more rows the set is empty, and
     * spc_net_plan_check names the capacity that would have fitted. */
    double room;
} spc_net_masked;

#define SPC_NET_MASKED_INIT                                                    \
    {                                                                          \
        sizeof(spc_net_masked), NULL, SPC_NO_TENSOR, SPC_REGROUPING_INIT,      \
            false, SPC_NO_TENSOR, 0, 0                                         \
    }

/* Adds such a set; *out is its features. SPC_EINVAL names the member that is
 * wrong; SPC_ENOMEM. */
SPC_API spc_status spc_net_add_masked(spc_tensor *out, spc_net *net,
                                      const spc_net_masked *masked,
                                      spc_error *error);

/* Outputs count from 0, and are called by names of their own: SPC_EINVAL if one
 * has this name. */
SPC_API spc_status spc_net_add_output(spc_net *net, spc_tensor tensor,
                                      const char *name, spc_error *error);

/* How a plan that takes points makes voxels of them: by the grid that the
 * network states, within its shape. `batches` above 1: each point has its batch
 * element. SPC_EINVAL: the network states no grid. */
SPC_API spc_status spc_net_voxelisation(spc_voxelisation *out,
                                        const spc_net *net, int batches,
                                        spc_error *error);

/* The parts of a network. */
typedef struct spc_net_info {
    const char *name;
    int layers; /* convolutions; all that were added count for the names */
    int tensors, sets, maps, outputs, params;
    const spc_net_input *input; /* lives as long as the network */
    int64_t reserved[4];        /* 0 */
} spc_net_info;

/* Fills *out; the name is "" and all else 0 for a NULL network. */
SPC_API void spc_net_describe(spc_net_info *out, const spc_net *net);
/* Something that is no mistake but should be known, as a sentence; NULL past
 * the last. */
SPC_API const char *spc_net_note_at(const spc_net *net, int i);
/* Adds such a sentence, which is copied: for whoever makes a network of
 * something else. SPC_EINVAL: NULL; SPC_ENOMEM. */
SPC_API spc_status spc_net_add_note(spc_net *net, const char *text,
                                    spc_error *error);

typedef struct spc_tensor_info {
    int set; /* sets count from 0, the input's */
    int channels;
    spc_dtype dtype;
    bool dense;       /* [batches][elements], by GLOBAL and BEV */
    int64_t elements; /* of a row */
    int shape[3];     /* of the set; 0: not known */
    int64_t reserved[4]; /* 0 */
} spc_tensor_info;

/* Describes a tensor. SPC_EINVAL: the network has no such tensor. */
SPC_API spc_status spc_net_tensor_at(spc_tensor_info *out, const spc_net *net,
                                     spc_tensor tensor, spc_error *error);

/* Weights (canonical, KRSC), scale and bias of convolutions, scale and bias of
 * normalisations, as fp32; counted in the order of the layers. Shared arrays
 * are counted once, with the first layer that has them. */
typedef struct spc_net_param {
    const char *layer; /* its name */
    spc_operand
        which; /* SPC_OPERAND_WEIGHTS, SPC_OPERAND_SCALE or SPC_OPERAND_BIAS */
    int64_t count;
    const float *values;  /* the network's; NULL: not set yet */
    const spc_conv *conv; /* NULL: of a normalisation */
    const char *norm;     /* as in spc_net_layer; "" */
    double eps;
    int64_t reserved[4]; /* 0 */
} spc_net_param;

/* SPC_EINVAL: the index is out of range. */
SPC_API spc_status spc_net_param_at(spc_net_param *out, const spc_net *net,
                                    int i);
/* Copies the values in, [count] on the host. SPC_ENOTFOUND: there is no such
 * layer or array; did you mean another one? SPC_EINVAL: another count than it
 * has. SPC_ERANGE: finite weights would be infinite in the layer's type, such
 * as those above 65504 in F16; the sentence gives their number, the greatest,
 * and a type that would hold them. NaN and infinite values are accepted
 * unchanged, and spc_net_note_at reports them; but I8 cannot represent them,
 * and spc_net_quantise refuses them. */
SPC_API spc_status spc_net_set_param(spc_net *net, const char *layer,
                                     spc_operand which, const float *values,
                                     int64_t count, spc_error *error);
/* Draws all that was not set: weights uniform with the variance 2 / (K cin /
 * groups) (He, Zhang, Ren, Sun, ICCV 2015), scales about 1, biases about 0. The
 * same seed gives the same values. SPC_ENOMEM. */
SPC_API spc_status spc_net_init_params(spc_net *net, uint64_t seed,
                                       spc_error *error);

/*
 * Quantises a network of f16 for I8, before it is planned: `ranges` [tensors]
 * (host) has for each tensor the greatest magnitude to be represented, 127
 * steps from 0, or 0 if the tensor stays f16. A tensor that a convolution
 * writes and only convolutions read becomes I8; a residual and the outputs that
 * it is added to become I8 together or not at all. Convolutions of such inputs
 * have weights of I8 with a step for each output channel, by the greatest of
 * its weights. *layers (may be NULL): how many those are. SPC_EINVAL: a range
 * is negative, NaN or infinite; SPC_ESTATE: the network is quantised already,
 * or has plans. spc_net_store stores it quantised.
 */
SPC_API spc_status spc_net_quantise(int *layers, spc_net *net,
                                    const float *ranges, spc_error *error);

typedef struct spc_net_options {
    size_t bytes;     /* sizeof this struct: SPC_NET_OPTIONS_INIT sets it */
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
     * (spc_net_plan_verify). */
    bool keep;
    /*
     * Most points of a scene; 0: scenes are voxels with features. Otherwise the
     * first step of a run turns points into voxels (spc_voxels), in the grid
     * that the network states, within its shape; there is room for `capacity`
     * voxels. A point has as many numbers as the input has channels,
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
        sizeof(spc_net_options), 0, {0, 0, 0, 0}, {0, 0, 0, 0}, SPC_PLAN_JIT,  \
            2, SPC_DUPLICATES_ERROR, NULL, 0, false, 0, 0                      \
    }

/* Plans a network on a context's device: allocates its sets and maps, chooses
 * and loads its kernels, packs its weights. Weights must be there; no layer may
 * be added any more. Waits. The caller frees *out. SPC_EINVAL: `low` and `high`
 * were left as they are in SPC_NET_OPTIONS_INIT, and the network states no
 * shape, or weights are missing; else as spc_plan_create and
 * spc_coords_create_reserved. */
SPC_API spc_status spc_net_plan_create(spc_net_plan **out, spc_ctx *ctx,
                                       const spc_net *net,
                                       const spc_net_options *options);
SPC_API void spc_net_plan_free(spc_net_plan *plan);
/* Bytes that one run needs for tensors and workspace. */
SPC_API size_t spc_net_plan_memory_bytes(const spc_net_plan *plan);
/* Bytes of packed weights that the plan itself keeps on the device. */
SPC_API size_t spc_net_plan_weights_bytes(const spc_net_plan *plan);

typedef struct spc_net_buffers {
    size_t bytes; /* sizeof this struct: SPC_NET_BUFFERS_INIT sets it */
    const int32_t *coords; /* [rows][4], as spc_coords_update takes them */
    const int32_t *count;  /* device; or NULL, and `rows` counts */
    int64_t rows;
    const void *features; /* [capacity][channels], 16-byte aligned */
    void *memory;         /* spc_net_plan_memory_bytes, 256-byte aligned */
    /* For a plan that takes points these replace coords and features, and
     * `count` and `rows` count points. For a network of clouds they replace
     * only coords: [rows][3], with their batch elements (NULL: all of element
     * 0). Its coords are points in units of 1/1024. */
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
 * so that a CUDA graph may capture it. A plan runs once at a time: its sets are
 * its own. spc_net_plan_check reports errors of a scene; but a bad `rows` that
 * is counted on the host is returned at once, as SPC_EINVAL or SPC_ECAPACITY.
 */
SPC_API spc_status spc_net_plan_execute(spc_net_plan *plan,
                                        const spc_net_buffers *buffers,
                                        void *stream);
/* Waits for `stream`. SPC_ECAPACITY names the level, and the capacity that
 * would have fitted; SPC_ERANGE, SPC_EDUPLICATE as spc_coords_check; of points
 * SPC_ECAPACITY and SPC_ERANGE as spc_voxels_check, and after the latter the
 * results of the other points are there. */
SPC_API spc_status spc_net_plan_check(spc_net_plan *plan, void *stream);

/* Keeps what spc_net_plan_execute would do with these buffers as one graph,
 * which spc_net_plan_replay launches. Where a device has no graphs that is
 * executing. The buffers must stay as long as it is replayed. SPC_EINVAL as for
 * spc_net_plan_execute; SPC_EDEVICE: the driver captures no graph. */
SPC_API spc_status spc_net_plan_capture(spc_net_plan *plan,
                                        const spc_net_buffers *buffers);
/* SPC_ESTATE: nothing was captured. */
SPC_API spc_status spc_net_plan_replay(spc_net_plan *plan, void *stream);

typedef struct spc_net_output {
    const char *name;
    size_t offset; /* in spc_net_buffers.memory */
    spc_dtype dtype;
    bool dense; /* [batches][elements], else [rows of the set][elements] */
    int64_t elements;
    int64_t batches;         /* of a dense one */
    const spc_coords *set;   /* the plan's */
    const spc_points *cloud; /* where rows are points; else NULL */
    int64_t plane[3]; /* of `bev`: channels * D and the plane's sides, whose
                         product is `elements`; else 0 */
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
    const char *name;   /* of the layer; else "set" or "map" */
    char text[256];     /* the layer as text; of a map its geometry */
    const char *kernel; /* "os_mma rows=64,..." or "" */
    spc_match match;    /* of a convolution's plan */
    int set;            /* that is filled, or where its outputs lie */
    int set_in;         /* of a layer: where its inputs lie */
    int map;            /* that is filled, or that a layer reads; -1: none */
    /* As of the last check. */
    int64_t rows_in, rows_out, pairs;
    double density;
    size_t bytes; /* size of a layer's outputs; 0 (unknown) for set, map */
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
