/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served.h - one network of a database as one operator of another runtime:
 * features, coordinates and a count in, one output of the network out. The
 * operators for ONNX Runtime and TensorRT use it.
 */
#ifndef SPC_SERVED_H
#define SPC_SERVED_H

#include <spc.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct served_options {
    const char *database; /* "" or NULL: $SPC_DATABASE, else the default */
    const char *network;  /* its name in the database */
    const char *device;   /* "cuda:0", "cpu"; "" or NULL: the best */
    const char *output;   /* name of the output; "" or NULL: the last one */
    int64_t capacity;     /* maximum number of voxels of a frame */
    int64_t batches;
    /* The extent of the coordinates, for a network without a shape. */
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
    spc_net_buffers buffers; /* the same for every frame; `memory` is set */
    spc_net_output output;
    int64_t capacity;
    int channels; /* channels of the input */
    spc_dtype dtype;
    /* The shape of the output: [batches][channels][rows][columns] for a bev
     * layer, [batches] [elements] for another dense output, else
     * [rows][elements], where rows beyond the count are undefined. */
    int64_t shape[4];
    int dims;
    size_t out_bytes;
    /* Frames with fewer rows than the capacity are copied here, because kernels
     * may load whole tiles. */
    void *staged_features, *staged_coords;
    /* cuMemcpyDtoDAsync_v2; NULL: device memory is host memory. */
    int (*driver_copy)(uintptr_t to, uintptr_t from, size_t bytes,
                       void *stream);
} served;

/* One frame on the device; `count` NULL: all rows are voxels. Rows of
 * coordinates are batch, x, y, z. The last two members, which may be NULL,
 * receive the voxels of the output's rows, [shape[0]][4], and their number. */
typedef struct served_frame {
    const void *features;
    const int32_t *coords, *count;
    int64_t rows;
    void *out;
    int32_t *out_coords, *out_count;
} served_frame;

/* Opens the network and makes its plan, and allocates its memory. *out must be
 * released even after a failure. Returns the statuses of libspc's functions,
 * and SPC_EINVAL for a network that such an operator does not support; *error
 * has the message. */
spc_status served_open(served *out, const served_options *options,
                       spc_error *error);
void served_release(served *s);

/* Enqueues a frame on `stream` without allocating or waiting, so a CUDA graph
 * may capture the call. One frame runs at a time. */
spc_status served_run(served *s, const served_frame *frame, void *stream,
                      spc_error *error);

size_t served_dtype_bytes(spc_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
