/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served.h - one network of a database as one operator of another runtime:
 * features, coordinates and a count in, one output of the network out. The
 * operators for ONNX Runtime and TensorRT are made of it.
 */
#ifndef SPC_SERVED_H
#define SPC_SERVED_H

#include <spc.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct served_options {
    const char *database; /* "" or NULL: $SPC_DATABASE, else the default */
    const char *network;  /* its name there */
    const char *device;   /* "cuda:0", "cpu"; "" or NULL: the best */
    const char *output;   /* by its name; "" or NULL: the last */
    int64_t capacity;     /* most voxels of a frame */
    int64_t batches;
    /* The extent of the coordinates, of a network that states no shape. */
    int64_t low[3], high[3];
} served_options;

#define SERVED_OPTIONS_INIT                                                    \
    {                                                                          \
        NULL, NULL, NULL, NULL, 0, 1, {0, 0, 0},                               \
        {                                                                      \
            0, 0, 0                                                            \
        }                                                                      \
    }

typedef struct served {
    spc_ctx *ctx;
    spc_net *net;
    spc_net_plan *plan;
    spc_net_buffers buffers; /* memory is set, for every frame */
    spc_net_output output;
    int64_t capacity;
    int channels; /* of the input */
    spc_dtype dtype;
    /* The output: [batches][channels][rows][columns] of a bev layer, [batches]
     * [elements] of another dense one, else [rows][elements], where the rows
     * beyond the count have any values. */
    int64_t shape[4];
    int dims;
    size_t out_bytes;
    /* Frames of fewer rows than the capacity are copied here, for kernels may
     * load whole tiles. */
    void *staged_features, *staged_coords;
    /* cuMemcpyDtoDAsync_v2; NULL: the device's memory is the host's. */
    int (*driver_copy)(uintptr_t to, uintptr_t from, size_t bytes,
                       void *stream);
} served;

/* One frame, on the device; `count` may be NULL: all rows are voxels. Rows of
 * coordinates are batch, x, y, z. The last two may be NULL: the voxels of the
 * output's rows, [shape[0]][4], and their number. */
typedef struct served_frame {
    const void *features;
    const int32_t *coords, *count;
    int64_t rows;
    void *out;
    int32_t *out_coords, *out_count;
} served_frame;

/* Opens the network and makes its plan, with memory of its own. *out must be
 * released even after a failure. Statuses are those of the functions of libspc,
 * and SPC_EINVAL for what such an operator cannot have; the sentence is in
 * *error. */
spc_status served_open(served *out, const served_options *options,
                       spc_error *error);
void served_release(served *s);

/* Enqueues a frame on `stream`: no allocation and no wait, so that a CUDA graph
 * may capture it. One frame at a time. */
spc_status served_run(served *s, const served_frame *frame, void *stream,
                      spc_error *error);

size_t served_dtype_bytes(spc_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
