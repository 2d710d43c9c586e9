/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_text.h - a network as text, with a line for each node, and its arrays as
 * bytes: the form in which the database stores networks.
 *
 *     spctune network 1
 *     network  NAME
 *     input    NAME CHANNELS DTYPE SHAPE GRID POINTS [cloud] [zyx]
 *     conv     NAME IN RESIDUAL AT LAYER OFFSETS NORM EPS
 *     feature  NAME IN ADD AT OPERATOR
 *     concat   IN...
 *     regroup  SCALE SPLIT SLICES IN...
 *     masked   NAME SCALE SPLIT SLICES IN MASK ABOVE ROOM
 *     output   NAME TENSOR
 *     whole    TENSOR SCALE
 *     array    NODE WHICH DTYPE COUNT
 *
 * Fields are separated by tabs. In names, control characters and % are written
 * as %XX. Nodes are in order, so tensors keep their numbers. Sets, maps and
 * shapes are not written, as they follow from the nodes. The reader adds nodes
 * by the calls of spc.h, which check them like those of any caller. A quantised
 * network is written in form 2, as the original network and its scales;
 * quantising it again gives the same layers.
 */
#ifndef SPC_RUNTIME_NET_TEXT_H
#define SPC_RUNTIME_NET_TEXT_H

#include "base/buf.h"
#include "net/net.h"

/* One array of a node as stored. Weights have the type in which their layer
 * multiplies them. Other arrays are F32, or F16 if that is exact. */
typedef struct spc__net_array {
    int node, param; /* an index of spc__net_operands */
    spc_dtype dtype; /* F16, BF16 or F32 */
    int64_t count;
} spc__net_array;

size_t spc__net_array_bytes(const spc__net_array *array);

/* Returns all arrays in the order of the nodes; the caller frees them. Returns
 * SPC_ESTATE if an array was not set. */
spc_status spc__net_arrays(spc__net_array **out, int *count, const spc_net *net,
                           spc_error *error);

/* Returns SPC_EUNSUPPORTED if the form cannot represent a node. */
spc_status spc__net_write(spc__buf *out, const spc_net *net,
                          const spc__net_array *arrays, int array_count,
                          spc_error *error);

/*
 * Reads the output of spc__net_write: a network whose arrays are not set, and a
 * list of these arrays. `bytes` is their total size according to the record.
 * SPC_EFORMAT names the line; SPC_EDBVERSION means a newer form.
 */
spc_status spc__net_read(spc_net **out, spc__net_array **arrays,
                         int *array_count, const char *text, int64_t bytes,
                         spc_error *error);

#endif
