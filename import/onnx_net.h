/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_net.h - builds a network from an ONNX file: what is known about each
 * value while the nodes are read.
 */
#ifndef SPC_IMPORT_ONNX_NET_H
#define SPC_IMPORT_ONNX_NET_H

#include "import/onnx_file.h"

/* The kind of a value. Dense values are not computed until they are outputs; up
 * to then only their axes are tracked. */
typedef enum spc__onnx_kind {
    SPC__ONNX_PENDING, /* the value's node has not been read yet */
    SPC__ONNX_ROWS,    /* a tensor of the network */
    SPC__ONNX_GROUPED, /* rows, split into groups of `by` channels */
    SPC__ONNX_DENSE    /* rows to be scattered with axes in this order */
} spc__onnx_kind;

/* The part of a file that a node belongs to (onnx_part.c), in this order. */
typedef enum spc__onnx_part {
    /* the caller runs it before the network, or independently */
    SPC__ONNX_APART,
    SPC__ONNX_IS_ROWS,  /* part of the network: makes rows or tables of pairs */
    SPC__ONNX_IS_DENSE, /* part of the network: makes a dense value */
    SPC__ONNX_IS_TAIL   /* the caller runs it after the network */
} spc__onnx_part;

typedef struct spc__onnx_value {
    const char *name;
    int users;    /* number of nodes that read it and of graph outputs */
    int consumer; /* the node, if it is the only user; else -1 */
    spc__onnx_kind kind;
    spc_tensor tensor;
    int by;
    char order[5]; /* permutation of c, z, y, x */
    bool merged;   /* c and z are merged */
} spc__onnx_value;

/* A strided layer that other layers may invert. */
typedef struct spc__onnx_rulebook {
    char name[64]; /* "": no name */
    char layer[64];
    spc_geometry geometry;
    spc_tensor in, out;
} spc__onnx_rulebook;

typedef struct spc__onnx_builder {
    const spc_onnx *onnx;
    const spc_onnx_options *options;
    const char *axes;
    spc_net *net;
    spc__onnx_value *values; /* the graph's inputs, then one value for each
                              * node */
    int value_count, input_count;
    spc__onnx_rulebook *rulebooks;
    int rulebook_count;
    int matrix_count;      /* kernels of one offset that are read in spconv 2's
                            * layout */
    char first_matrix[64]; /* the first of these layers */
    /* for each node: true if fused into an earlier one */
    bool *done;
    spc__onnx_part *parts; /* one for each node */
    bool is_autoware;
    spc__onnx_value *root;   /* the network's input features */
    const char *root_coords; /* in files of Autoware, their coordinates */
    spc__onnx_value **cuts;  /* values that the caller's nodes read */
    int cut_count;
    spc_error *error;
} spc__onnx_builder;

/* ---- onnx_part.c ---- */

/* Nodes of Autoware: tables of pairs, and the layers that read them. */
bool spc__onnx_is_pairs(const Spc__Pb__Node *node);
bool spc__onnx_is_gemm(const Spc__Pb__Node *node);
bool spc__onnx_is_autoware(const spc_onnx *onnx);
/* The node that makes the value, as its output number *output; -1: none. */
int spc__onnx_maker(const spc_onnx *onnx, const char *name, int *output);
/* Fills b->parts. */
void spc__onnx_divide(spc__onnx_builder *b);
bool spc__onnx_is_ours(const spc__onnx_builder *b, int node);
/* Reports where the network was cut out of the file. */
spc_status spc__onnx_note_cut(const spc__onnx_builder *b);

/* Returns NULL if no node makes the value. */
spc__onnx_value *spc__onnx_find(const spc__onnx_builder *b, const char *name);

/* Quantises the finished network by the ranges in the file (onnx_range.c). */
spc_status spc__onnx_quantise(spc__onnx_builder *b);

/* Finds the value of input i, which an earlier node must have made. */
spc_status spc__onnx_input(spc__onnx_value **out, spc__onnx_builder *b,
                           const spc__onnx_node *node, int i,
                           spc__onnx_kind kind);
spc__onnx_value *spc__onnx_output(spc__onnx_builder *b,
                                  const spc__onnx_node *node);

/* Reads three numbers in the file's order of axes and returns them as x, y,
 * z. */
spc_status spc__onnx_axes(const spc__onnx_builder *b,
                          const spc__onnx_node *node, int out[3],
                          const char *name);

/* The name of the layer that a node becomes. */
void spc__onnx_name(char out[64], const spc__onnx_node *node);

/* Adds the node's name to an error of the network. */
spc_status spc__onnx_pass_on(const spc__onnx_node *node, spc_status status);

/* Checks that the tensor's set has the shape in this attribute. */
spc_status spc__onnx_check_shape(const spc__onnx_builder *b,
                                 const spc__onnx_node *node, spc_tensor tensor,
                                 const char *attribute);

/* onnx_conv.c */
spc_status spc__onnx_convolution(spc__onnx_builder *b,
                                 const spc__onnx_node *node);
/* onnx_autoware.c */
spc_status spc__onnx_autoware_input(spc__onnx_builder *b, spc_net_input *input);
spc_status spc__onnx_pairs(spc__onnx_builder *b, const spc__onnx_node *node);
spc_status spc__onnx_gemm(spc__onnx_builder *b, const spc__onnx_node *node);
/* Gives a node's output the value of its first input. */
spc_status spc__onnx_same(spc__onnx_builder *b, const spc__onnx_node *node);
/* onnx_dense.c */
spc_status spc__onnx_scatter_nd(spc__onnx_builder *b,
                                const spc__onnx_node *node);
spc_status spc__onnx_scatter(spc__onnx_builder *b, const spc__onnx_node *node);
spc_status spc__onnx_reshape(spc__onnx_builder *b, const spc__onnx_node *node);
spc_status spc__onnx_transpose(spc__onnx_builder *b,
                               const spc__onnx_node *node);
/* The output tensor of a value; scatters dense values. */
spc_status spc__onnx_put_out(spc_tensor *out, spc__onnx_builder *b,
                             const spc__onnx_value *value);

/* If the value's only user is a Relu, marks that node as done, lets its output
 * take over the value, and returns true. */
bool spc__onnx_take_relu(spc__onnx_builder *b, spc__onnx_value **value);

#endif
