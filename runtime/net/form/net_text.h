/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_text.h - a network as text, a line for each node, and its arrays as
 * bytes: how the database keeps networks.
 *
 *     spctune network 1
 *     network  NAME
 *     input    NAME CHANNELS DTYPE SHAPE GRID POINTS [cloud]
 *     conv     NAME IN RESIDUAL AT LAYER OFFSETS NORM EPS
 *     feature  NAME IN ADD AT OPERATOR
 *     concat   IN...
 *     regroup  SCALE SPLIT SLICES IN...
 *     masked   NAME SCALE SPLIT SLICES IN MASK ABOVE ROOM
 *     output   NAME TENSOR
 *     whole    TENSOR SCALE
 *     array    NODE WHICH DTYPE COUNT
 *
 * Fields are separated by tabs; in names bytes below a blank, and %, are
 * written %XX. Nodes stand in their order, so that tensors have the numbers
 * that they had; sets, maps and shapes are not written, as they follow. Who
 * reads adds the nodes by the calls of spc.h, which check them like anybody's.
 * A quantised network is written as what it was made of, in form 2, and by
 * which scales: quantising it again gives its layers.
 */
#ifndef SPC_RUNTIME_NET_TEXT_H
#define SPC_RUNTIME_NET_TEXT_H

#include "base/buf.h"
#include "net/net.h"

/* One array of a node, as it is stored: weights in the type in which their
 * layer multiplies them, all else as F32, or F16 where that loses nothing. */
typedef struct spc__net_array {
    int node, param; /* an index of spc__net_operands */
    spc_dtype dtype; /* F16, BF16 or F32 */
    int64_t count;
} spc__net_array;

size_t spc__net_array_bytes(const spc__net_array *array);

/* All arrays in the order of the nodes, malloc'd. SPC_ESTATE: one was not set.
 */
spc_status spc__net_arrays(spc__net_array **out, int *count, const spc_net *net,
                           spc_error *error);

/* SPC_EUNSUPPORTED: the form has no words for a node. */
spc_status spc__net_write(spc__buf *out, const spc_net *net,
                          const spc__net_array *arrays, int array_count,
                          spc_error *error);

/*
 * Reads what spc__net_write wrote: a network whose arrays are not set, and
 * which they are. `bytes`: of all arrays together, as the record says.
 * SPC_EFORMAT names the line; SPC_EDBVERSION: a newer form.
 */
spc_status spc__net_read(spc_net **out, spc__net_array **arrays,
                         int *array_count, const char *text, int64_t bytes,
                         spc_error *error);

#endif
