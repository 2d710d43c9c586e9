/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_net.h - making a network of an ONNX file: what is known of each value
 * while its nodes are gone through.
 */
#ifndef SPC_IMPORT_ONNX_NET_H
#define SPC_IMPORT_ONNX_NET_H

#include "import/onnx_file.h"

/* What a value is. Nothing dense is computed before it is put out: until then
 * its axes are moved about on paper. */
typedef enum spc__onnx_kind {
    SPC__ONNX_PENDING, /* its node has not been come to */
    SPC__ONNX_ROWS,    /* a tensor of the network */
    SPC__ONNX_GROUPED, /* rows, each split into groups of `by` channels */
    SPC__ONNX_DENSE    /* rows, to be scattered with axes in this order */
} spc__onnx_kind;

typedef struct spc__onnx_value {
    const char *name;
    int users;    /* nodes that read it, and outputs of the graph */
    int consumer; /* the only user, if that is a node; else -1 */
    spc__onnx_kind kind;
    spc_tensor tensor;
    int by;
    char order[5]; /* letters of c, z, y, x */
    bool merged;   /* c and z are one */
} spc__onnx_value;

/* A strided layer, for those that invert it. */
typedef struct spc__onnx_rulebook {
    char name[64]; /* "": it has none */
    char layer[64];
    spc_geometry geometry;
    spc_tensor in, out;
} spc__onnx_rulebook;

typedef struct spc__onnx_builder {
    const spc_onnx *onnx;
    const spc_onnx_options *options;
    const char *axes;
    spc_net *net;
    spc__onnx_value *values; /* the graph's inputs, then one for each node */
    int value_count, input_count;
    spc__onnx_rulebook *rulebooks;
    int rulebook_count;
    int matrix_count;      /* kernels of one offset that are read as spconv 2 */
    char first_matrix[64]; /* multiplies by them, and the first of them */
    bool *done; /* by node: it is part of one before it */
    spc_error *error;
} spc__onnx_builder;

/* NULL: no node makes it. */
spc__onnx_value *spc__onnx_find(const spc__onnx_builder *b, const char *name);

/* The network, once it is built, by the ranges of the file (onnx_range.c). */
spc_status spc__onnx_quantise(spc__onnx_builder *b);

/* The value of that name, which a node before this one has made. */
spc_status spc__onnx_input(spc__onnx_value **out, spc__onnx_builder *b,
                           const spc__onnx_node *node, int i,
                           spc__onnx_kind kind);
spc__onnx_value *spc__onnx_output(spc__onnx_builder *b,
                                  const spc__onnx_node *node);

/* Reads three numbers along the file's axes as ours: x, y, z. */
spc_status spc__onnx_axes(const spc__onnx_builder *b,
                          const spc__onnx_node *node, int out[3],
                          const char *name);

/* The name of the layer that a node becomes. */
void spc__onnx_name(char out[64], const spc__onnx_node *node);

/* What the network says of a layer, with the node's name. */
spc_status spc__onnx_pass_on(const spc__onnx_node *node, spc_status status);

/* Has the tensor's set the shape that this attribute says? */
spc_status spc__onnx_check_shape(const spc__onnx_builder *b,
                                 const spc__onnx_node *node, spc_tensor tensor,
                                 const char *attribute);

/* onnx_conv.c */
spc_status spc__onnx_convolution(spc__onnx_builder *b,
                                 const spc__onnx_node *node);
/* onnx_dense.c */
spc_status spc__onnx_scatter(spc__onnx_builder *b, const spc__onnx_node *node);
spc_status spc__onnx_reshape(spc__onnx_builder *b, const spc__onnx_node *node);
spc_status spc__onnx_transpose(spc__onnx_builder *b,
                               const spc__onnx_node *node);
/* The tensor that is put out for a value; dense ones are scattered now. */
spc_status spc__onnx_put_out(spc_tensor *out, spc__onnx_builder *b,
                             const spc__onnx_value *value);

/* If the value's only user is a Relu: marks that node as done, gives the
 * value's place to its output, and returns true. */
bool spc__onnx_take_relu(spc__onnx_builder *b, spc__onnx_value **value);

#endif
