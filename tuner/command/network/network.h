/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.h - what the commands on networks have in common: read the network,
 * load its scenes, plan it, put a scene on the device.
 */
#ifndef SPC_CMD_NETWORK_H
#define SPC_CMD_NETWORK_H

#include "command/cli/cli.h"

typedef struct network_args {
    const char *file; /* NULL: no network was asked for */
    const char *dtype;
    cli_list weights;                 /* files; none: they are drawn */
    const char *from, *axes, *prefix; /* how those keep them */
    const char *voxel, *range; /* of an ONNX file, which does not say them */
    cli_list scenes;
    const char *coords;   /* NULL: scenes */
    const char *columns;  /* of files: letters, or of points their number; NULL:
                             the batch, then the file's axes */
    const char *features; /* NULL: they are drawn */
    const char *points;   /* in the place of all three; NULL: not */
    uint64_t seed;
    int capacity;  /* 0: as many as the largest scene has */
    double growth; /* 0: by the capacity */
    bool keep;     /* tensors, to be compared */
    bool int8; /* convolutions on i8, by the ranges of the file or the scenes */
} network_args;

/* Rows of a command's options; AT gives the place of a network_args' member. */
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
         ".safetensors, .npz or .npy (may be repeated); default: drawn"},      \
        {0,        "from",                                                     \
         "ENGINE", CLI_TEXT,                                                   \
         AT(from), "whose layout the weights have, as for spctune weights; "   \
                  "of an ONNX file spconv2, or spconv1 where kernels of one " \
                  "offset are [cout][cin]"},                                  \
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

/* What opening a network consists of, timed. */
typedef enum network_stage {
    NETWORK_CONTEXT, /* device and database */
    NETWORK_READ,    /* layers and weights */
    NETWORK_SCENES,
    NETWORK_PLAN, /* kernels loaded, weights packed on the device */
    NETWORK_STAGES
} network_stage;

typedef struct network {
    cli *self;
    const network_args *args;
    spc_ctx *ctx;
    spc_net *net;
    spc_net_info info;
    spc_net_plan *plan;
    spc_scene **scenes;
    int scene_count;
    int columns[4];  /* of written coordinates: 0 batch, 1 x, 2 y, 3 z */
    int at[4];       /* of read ones: where batch, x, y and z are; -1: not */
    int column_count;
    bool counts_columns; /* --columns is how many there are */
    float *features; /* of --features; else NULL */
    float *points;   /* of --points; else NULL */
    int64_t point_rows;
    void *points_there; /* on the device */
    bool calibrates;    /* the plan is that of f16, by which it is quantised */
    bool ranges_stated; /* it is by those of the file, not of the scenes */
    float *reference;   /* of --int8: the last output in f16 */
    int64_t reference_count;
    int whole_layers; /* on i8 */
    spc_net_buffers buffers;
    void *coords, *values; /* on the device */
    int32_t *count;
    double stage_ms[NETWORK_STAGES];
} network;

/* Is args->file no file, but the name of a network in the database? */
bool network_is_stored(const network_args *args);

/* "f16", "bf16" or "f32"; NULL: f16. */
spc_status network_dtype(spc_dtype *out, const char *name);

/* The network of args->file, Lua or ONNX, with the weights of files if there
 * are any (network_file.c). `self` may be NULL: arrays that no layer reads are
 * not said. */
spc_status network_read(spc_net **out, const cli *self,
                        const network_args *args, spc_dtype dtype);

/* On i8 by the ranges that an ONNX file states; NULL where the file, or another
 * kind of file, states none. How many convolutions of a network are on i8. */
spc_status network_read_stated(spc_net **out, const network_args *args);
int network_whole_layers(const spc_net *net);

/* What should be known of it, such as a key that is not followed. */
void network_say_notes(const cli *self, const char *file, const spc_net *net);

/* What the columns of coordinates are: as --columns says, else the batch and
 * then the network's axes. The scene of --coords, whose rows stay in their
 * order; rows of ours with those columns (network_coords.c). */
spc_status network_set_columns(network *n);
spc_status network_read_coords(network *n);
void network_to_columns(const network *n, int32_t *rows, int64_t count);
/* A file or scene with the number of columns that --columns states, if it does;
 * the caller frees it. */
spc_status network_file_spec(char **out, const network *n, const char *spec);

/* All of it. network_close in any case. */
spc_status network_open(network *out, cli *self, const network_args *args);
void network_close(network *n);

/* Plans it anew with these SPC_PLAN_* flags, or not. */
void network_drop_plan(network *n);
spc_status network_replan(network *n, unsigned flags);

/* Puts scene i on the device. */
spc_status network_upload(network *n, int i);

/* The points of --points, and their voxels as the scene; putting them on the
 * device (network_points.c). */
spc_status network_load_points(network *n);
spc_status network_upload_points(network *n);

/* Makes a network that was opened one of i8; how far its last output is from
 * that in f16: the root of the mean square of the difference over that of the
 * output (network_int8.c). */
spc_status network_calibrate(network *n);
spc_status network_int8_error(double *out, const network *n);

/* Says what the context does; of levels without room what gives them some. */
spc_status network_fail(const network *n, spc_status status);

/* A sentence unless one of the scenes has a voxel. */
spc_status network_need_voxels(const network *n);

/* As spc_net_check, but that points are left out is no mistake: loading them
 * has said so. */
spc_status network_check(network *n);

/* Microseconds of one replay, from when it is launched till it is done. */
spc_status network_replay(network *n, double *us);

/* Milliseconds since some moment. */
double network_clock_ms(void);

/* spctune bench --network */
spc_status network_bench(cli *self, const network_args *args, int runs);

#endif
