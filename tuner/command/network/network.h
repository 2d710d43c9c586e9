/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.h - shared by the commands on networks: reads the network, loads its
 * scenes, plans it, and uploads a scene.
 */
#ifndef SPC_CMD_NETWORK_H
#define SPC_CMD_NETWORK_H

#include "command/cli/cli.h"

typedef struct network_args {
    const char *file; /* NULL: no network was given */
    const char *dtype;
    cli_list weights;                 /* files of weights; empty: weights are
                                       * random */
    const char *from, *axes, *prefix; /* the engine that wrote these files */
    const char *voxel, *range;        /* grid of files that do not state it */
    /* network in Lua with the architecture of the weights in `file` */
    const char *like;
    cli_list scenes;
    const char *coords; /* NULL: use scenes */
    /* columns of files: letters or, for points, their number; NULL: batch, then
     * the file's axes */
    const char *columns;
    const char *features; /* NULL: random features */
    cli_list points;      /* files of points instead of these three */
    uint64_t seed;
    int capacity;  /* 0: the voxels of the largest scene */
    double growth; /* 0: derived from the capacity */
    bool keep;     /* keep tensors for comparison */
    bool absent; /* the device is a target without a GPU: nothing runs */
    bool int8; /* convolutions in int8, with the ranges of the file or of the
                * scenes */
} network_args;

/*
 * Rows of a command's options; AT gives the offset of a member of network_args.
 */
#define NETWORK_OPTIONS(AT)                                                    \
    {'n',                                                                      \
     "network",                                                                \
     "FILE",                                                                   \
     CLI_TEXT,                                                                 \
     AT(file),                                                                 \
     "a network: Lua, as in examples/networks, .onnx, or the name of one "     \
     "in the database (spctune net)"},                                         \
        {'w',                                                                  \
         "weights",                                                            \
         "FILE",                                                               \
         CLI_LIST,                                                             \
         AT(weights),                                                          \
         ".safetensors, .pth or .npz (may be repeated); default: drawn"},      \
        {0,                                                                    \
         "from",                                                               \
         "ENGINE",                                                             \
         CLI_TEXT,                                                             \
         AT(from),                                                             \
         "the engine whose layout the weights have, as for spctune weights; "  \
         "of an ONNX file spconv2, or spconv1 where kernels of one "           \
         "offset are [cout][cin]"},                                            \
        {0,        "axes",   "AXES",                                           \
         CLI_TEXT, AT(axes), "our names of that engine's axes: xyz, zyx"},     \
        {0,        "prefix",   "TEXT",                                         \
         CLI_TEXT, AT(prefix), "of the names of all arrays"},                  \
        {0,        "voxel",   "X,Y,Z",                                         \
         CLI_TEXT, AT(voxel), "of an ONNX file: the size of its voxels"},      \
        {0,        "range",   "LOW,HIGH",                                      \
         CLI_TEXT, AT(range), "and X,Y,Z of both corners of its grid"},        \
        {0,        "dtype",   "f16|bf16|f32",                                  \
         CLI_WORD, AT(dtype), "of features and weights; default: f16"},        \
        {0,                                                                    \
         "capacity",                                                           \
         "N",                                                                  \
         CLI_ROWS,                                                             \
         AT(capacity),                                                         \
         "most voxels of a scene; default: those of the largest"},             \
        {0,                                                                    \
         "int8",                                                               \
         NULL,                                                                 \
         CLI_FLAG,                                                             \
         AT(int8),                                                             \
         "convolutions on i8, by the ranges that an ONNX file states, or "     \
         "else "                                                               \
         "those that the scenes show in f16"},                                 \
    {                                                                          \
        0, "growth", "X", CLI_REAL, AT(growth),                                \
            "room of levels that may have more voxels, times the capacity; "   \
            "default 2, of few voxels as many as there can be"                 \
    }

/* The timed stages of opening a network. */
typedef enum network_stage {
    NETWORK_CONTEXT, /* device and database */
    NETWORK_READ,    /* layers and weights */
    NETWORK_SCENES,
    NETWORK_PLAN, /* kernels loaded, weights packed on the device */
    NETWORK_STAGES
} network_stage;

/* The points of a file. */
typedef struct network_cloud {
    float *values;
    int64_t rows;
} network_cloud;

typedef struct network {
    cli *self;
    const network_args *args;
    spc_ctx *ctx;
    spc_net *net;
    spc_net_info info;
    spc_net_plan *plan;
    spc_scene **scenes;
    int scene_count;
    int columns[4]; /* columns of written coordinates: 0 batch, 1 x, 2 y, 3
                     * z */
    /* columns of batch, x, y and z in read files; -1: absent */
    int at[4];
    int column_count;
    bool counts_columns;   /* --columns gives their number */
    float *features;       /* numbers of --features, or NULL */
    network_cloud *clouds; /* points of --points, by scene; or NULL */
    void *points_there;    /* points of one scene on the device */
    /* the plan is in f16, to find the ranges for quantisation */
    bool calibrates;
    /* the file gave the ranges, not the scenes */
    bool ranges_stated;
    float *reference; /* the last output in f16, to compare with --int8 */
    int64_t reference_count;
    int whole_layers; /* number of layers in int8 */
    spc_net_buffers buffers;
    void *coords, *values; /* arrays on the device */
    int32_t *count;
    double stage_ms[NETWORK_STAGES];
} network;

/*
 * True if args->file is the name of a network in the database, and not a file.
 */
bool network_is_stored(const network_args *args);

/* "f16", "bf16" or "f32"; NULL: f16. */
spc_status network_dtype(spc_dtype *out, const char *name);

/*
 * Reads the network of args->file, Lua or ONNX, with weights from files if
 * there are any (network_file.c). With `self` NULL, arrays that no layer reads
 * are not reported.
 */
spc_status network_read(spc_net **out, const cli *self,
                        const network_args *args, spc_dtype dtype);

/*
 * Quantises to int8 with the ranges that an ONNX file states; NULL if the file
 * states no ranges, as in other formats. The second function counts a network's
 * convolutions in int8.
 */
spc_status network_read_stated(spc_net **out, const network_args *args);
int network_whole_layers(const spc_net *net);

/* Prints remarks on a file, such as a key that is ignored. */
void network_say_notes(const cli *self, const char *file, const spc_net *net);

/*
 * Sets the meaning of the columns of coordinates: from --columns, otherwise the
 * batch and then the network's axes. Loads the scene of --coords, whose rows
 * keep their order; writes our rows in those columns (network_coords.c).
 */
spc_status network_set_columns(network *n);
spc_status network_read_coords(network *n);
void network_to_columns(const network *n, int32_t *rows, int64_t count);
/*
 * Adds the number of columns from --columns, if it states one, to a file or
 * scene; the caller frees the result.
 */
spc_status network_file_spec(char **out, const network *n, const char *spec);

/* Opens everything. Call network_close in any case. */
spc_status network_open(network *out, cli *self, const network_args *args);
void network_close(network *n);

/* Frees the plan; plans the network again with these SPC_PLAN_* flags. */
void network_drop_plan(network *n);
spc_status network_replan(network *n, unsigned flags);

/* Uploads scene i. */
spc_status network_upload(network *n, int i);

/*
 * Loads the points of --points, with their voxels as scenes; uploads those of
 * scene i; the most points of a scene, at least 1 (network_points.c).
 */
spc_status network_load_points(network *n);
spc_status network_upload_points(network *n, int i);
int64_t network_point_rows(const network *n);

/*
 * Turns an open network into an int8 network. Returns the error of its last
 * output relative to f16: the root mean square of the difference over the root
 * mean square of the output (network_int8.c).
 */
spc_status network_calibrate(network *n);
/* Fetches the last output's numbers; the caller frees them in any case. */
spc_status network_fetch_output(float **out, int64_t *count, const network *n);
spc_status network_int8_error(double *out, const network *n);

/*
 * Reports the context's error; if a level exceeds its capacity, names the
 * option that raises it.
 */
spc_status network_fail(const network *n, spc_status status);

/* Reports an error unless one of the scenes has a voxel. */
spc_status network_need_voxels(const network *n);

/*
 * As spc_net_plan_check, but points that are left out are not an error: the
 * loader has already reported them.
 */
spc_status network_check(network *n);

/* Microseconds of one replay, from its launch to its end. */
spc_status network_replay(network *n, double *us);

/* Milliseconds since an arbitrary moment. */
double network_clock_ms(void);

/* spctune bench --network */
spc_status network_bench(cli *self, const network_args *args, int runs);

#endif
