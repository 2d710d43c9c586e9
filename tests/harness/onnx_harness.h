/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_harness.h - writes ONNX files as exporters of sparse convolutions do,
 * byte by byte. The field numbers below are written independently of the
 * importer, from onnx-ml.proto.
 *
 * onnx_write() writes a whole network. By default batch normalisation is folded
 * into the weights, sums and activations are separate nodes, axes are in the
 * file's order, and a rulebook is named after the two sets that it connects.
 */
#ifndef SPC_TESTS_ONNX_HARNESS_H
#define SPC_TESTS_ONNX_HARNESS_H

#include "base/buf.h"
#include "base/dtype.h"
#include "net/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- wire ---------------------------------------------------------------- */

enum { PB_VARINT = 0, PB_BYTES = 2, PB_FIXED32 = 5 };

static inline void pb_varint(spc__buf *out, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)(value & 0x7f);
        value >>= 7;
        byte |= value != 0 ? 0x80 : 0;
        spc__buf_append(out, &byte, 1);
    } while (value != 0);
}

static inline void pb_tag(spc__buf *out, int field, int wire)
{
    pb_varint(out, (uint64_t)(field << 3 | wire));
}

static inline void pb_int(spc__buf *out, int field, int64_t value)
{
    pb_tag(out, field, PB_VARINT);
    pb_varint(out, (uint64_t)value);
}

static inline void pb_float(spc__buf *out, int field, float value)
{
    pb_tag(out, field, PB_FIXED32);
    spc__buf_append(out, &value, sizeof(value));
}

static inline void pb_bytes(spc__buf *out, int field, const void *data,
                            size_t bytes)
{
    pb_tag(out, field, PB_BYTES);
    pb_varint(out, bytes);
    spc__buf_append(out, data, bytes);
}

static inline void pb_text(spc__buf *out, int field, const char *text)
{
    pb_bytes(out, field, text, strlen(text));
}

/* Appends a finished message to another one, and frees it. */
static inline void pb_message(spc__buf *out, int field, spc__buf *message)
{
    pb_bytes(out, field, spc__buf_text(message), message->length);
    spc__buf_release(message);
}

/* ---- attributes, nodes, arrays ------------------------------------------- */

/* Attribute types of onnx-ml.proto. */
enum {
    ATTR_FLOAT = 1,
    ATTR_INT = 2,
    ATTR_TEXT = 3,
    ATTR_FLOATS = 6,
    ATTR_INTS = 7
};

static inline void attr_int(spc__buf *node, const char *name, int64_t value)
{
    spc__buf a = SPC__BUF_INIT;
    pb_text(&a, 1, name);
    pb_int(&a, 3, value);
    pb_int(&a, 20, ATTR_INT);
    pb_message(node, 5, &a);
}

static inline void attr_float(spc__buf *node, const char *name, float value)
{
    spc__buf a = SPC__BUF_INIT;
    pb_text(&a, 1, name);
    pb_float(&a, 2, value);
    pb_int(&a, 20, ATTR_FLOAT);
    pb_message(node, 5, &a);
}

static inline void attr_text(spc__buf *node, const char *name, const char *text)
{
    spc__buf a = SPC__BUF_INIT;
    pb_text(&a, 1, name);
    pb_text(&a, 4, text);
    pb_int(&a, 20, ATTR_TEXT);
    pb_message(node, 5, &a);
}

/* Some writers write packed lists, others unpacked ones. */
static inline void attr_ints(spc__buf *node, const char *name,
                             const int *values, int count, bool packed)
{
    spc__buf a = SPC__BUF_INIT, list = SPC__BUF_INIT;

    pb_text(&a, 1, name);
    for (int i = 0; i < count; i++)
        if (packed)
            pb_varint(&list, (uint64_t)(int64_t)values[i]);
        else
            pb_int(&a, 8, values[i]);
    if (packed)
        pb_message(&a, 8, &list);
    pb_int(&a, 20, ATTR_INTS);
    pb_message(node, 5, &a);
}

static inline void attr_floats(spc__buf *node, const char *name,
                               const float *values, int count)
{
    spc__buf a = SPC__BUF_INIT;

    pb_text(&a, 1, name);
    for (int i = 0; i < count; i++)
        pb_float(&a, 7, values[i]);
    pb_int(&a, 20, ATTR_FLOATS);
    pb_message(node, 5, &a);
}

typedef struct onnx_graph {
    spc__buf body;
    int tensors; /* tensors made so far; "0" is the input */
    int nodes;
    int opset; /* 0: the usual version */
} onnx_graph;

/* Begins a node; its output is number `out`. */
static inline void node_begin(spc__buf *node, onnx_graph *g, const char *type,
                              const char *name, const int *inputs, int count,
                              int *out)
{
    char text[32];

    *node = (spc__buf)SPC__BUF_INIT;
    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof(text), "%d", inputs[i]);
        pb_text(node, 1, text);
    }
    *out = ++g->tensors;
    pb_text(node, 3, name);
    pb_text(node, 4, type);
}

static inline void node_end(spc__buf *node, onnx_graph *g, int out)
{
    char text[32];

    snprintf(text, sizeof(text), "%d", out);
    pb_text(node, 2, text);
    pb_message(&g->body, 1, node);
    g->nodes++;
}

/* A node without attributes. */
static inline int add_plain(onnx_graph *g, const char *type, const int *inputs,
                            int count)
{
    char name[32];
    spc__buf node;
    int out;

    snprintf(name, sizeof(name), "%s%d", type, g->nodes);
    node_begin(&node, g, type, name, inputs, count, &out);
    node_end(&node, g, out);
    return out;
}

/* Adds an array of halves, as raw bytes or as one int32 each. */
static inline void add_halves(onnx_graph *g, const char *name, const int *dims,
                              int rank, const uint16_t *values, bool raw)
{
    spc__buf t = SPC__BUF_INIT;
    int64_t count = 1;

    for (int i = 0; i < rank; i++) {
        pb_int(&t, 1, dims[i]);
        count *= dims[i];
    }
    pb_int(&t, 2, 10); /* FLOAT16 */
    for (int64_t i = 0; i < count && !raw; i++)
        pb_int(&t, 5, values[i]);
    pb_text(&t, 8, name);
    if (raw)
        pb_bytes(&t, 9, values, (size_t)count * sizeof(*values));
    pb_message(&g->body, 5, &t);
}

static inline void add_value(onnx_graph *g, int field, int tensor)
{
    spc__buf value = SPC__BUF_INIT;
    char text[32];

    snprintf(text, sizeof(text), "%d", tensor);
    pb_text(&value, 1, text);
    pb_message(&g->body, field, &value);
}

/* The file: ir_version 1, producer_name 2, graph 7, opset_import 8. */
static inline void onnx_finish(spc__buf *out, onnx_graph *g)
{
    spc__buf opset = SPC__BUF_INIT;

    pb_text(&g->body, 2, "scn");
    pb_int(out, 1, 6);
    pb_text(out, 2, "pytorch");
    pb_message(out, 7, &g->body);
    pb_text(&opset, 1, "ai.onnx");
    pb_int(&opset, 2, g->opset != 0 ? g->opset : 11);
    pb_message(out, 8, &opset);
}

/* ---- whole networks ------------------------------------------------------ */

enum { ONNX_SETS = 32, ONNX_TENSORS = 512 };

/* How layers name their rulebooks. */
typedef enum onnx_keys {
    KEYS_RIGHT, /* shared by layers, as in spconv */
    KEYS_NONE,  /* no name, or "" */
    KEYS_EACH,  /* one for each layer */
    KEYS_ONE    /* one for all layers */
} onnx_keys;

typedef struct onnx_writer {
    onnx_graph graph;
    const spc_net *net;
    const char *axes;            /* axes of the file, such as "zyx" */
    int shape[ONNX_SETS][3];     /* as x, y, z */
    int tensor_of[ONNX_TENSORS]; /* name of each tensor in the file */
    bool int8;
    onnx_keys keys;
} onnx_writer;

static inline void write_axes(const onnx_writer *w, spc__buf *node,
                              const char *name, const int xyz[3])
{
    int theirs[3];

    for (int e = 0; e < 3; e++)
        theirs[e] = xyz[w->axes[e] - 'x'];
    attr_ints(node, name, theirs, 3, w->graph.nodes % 2 == 0);
}

/* Adds weights as [o][a][b][c][i] in the file's axes, times the scale of a
 * folded normalisation. For one offset without a stride, spconv 2 has
 * [i][o]. */
static inline void write_weights(onnx_writer *w, const spc__net_node *n,
                                 const char *name)
{
    const int *kernel = n->conv.geometry.kernel;
    const int *stride = n->conv.geometry.stride;
    int cin = n->conv.cin, cout = n->conv.cout, size[3], at[3];
    int offsets = kernel[0] * kernel[1] * kernel[2];
    bool matrix = offsets == 1 && stride[0] * stride[1] * stride[2] == 1;
    uint16_t *halves = malloc(n->counts[0] * sizeof(*halves) + 1);

    for (int e = 0; e < 3; e++)
        size[e] = kernel[w->axes[e] - 'x'];
    for (int64_t i = 0; i < n->counts[0]; i++) {
        int ci = (int)(i % cin), k = (int)(i / cin % offsets);
        int co = (int)(i / cin / offsets), e_at[3];
        at[0] = k / (kernel[1] * kernel[2]);
        at[1] = k / kernel[2] % kernel[1];
        at[2] = k % kernel[2];
        for (int e = 0; e < 3; e++)
            e_at[e] = at[w->axes[e] - 'x'];
        int64_t to =
            (((int64_t)co * size[0] + e_at[0]) * size[1] + e_at[1]) * size[2];
        to = matrix ? (int64_t)ci * cout + co : (to + e_at[2]) * cin + ci;
        float scale = n->counts[1] > 0 ? n->params[1][co] : 1;
        halves[to] = spc__half_from_float(n->params[0][i] * scale);
    }
    add_halves(&w->graph, name, (int[]){cout, size[0], size[1], size[2], cin},
               5, halves, w->graph.nodes % 3 != 1);
    free(halves);
}

static inline void write_bias(onnx_writer *w, const spc__net_node *n,
                              const char *name)
{
    uint16_t *halves = malloc((size_t)n->conv.cout * sizeof(*halves));

    for (int c = 0; c < n->conv.cout; c++)
        halves[c] = spc__half_from_float(n->params[2][c]);
    add_halves(&w->graph, name, &n->conv.cout, 1, halves, true);
    free(halves);
}

/* Returns the output shape of a strided layer: (S + 2p - d(k - 1) - 1) / s +
 * 1. */
static inline void shape_behind(onnx_writer *w, const spc__net_node *n,
                                int from, int to)
{
    const spc_geometry *g = &n->conv.geometry;

    for (int i = 0; i < 3; i++)
        w->shape[to][i] = (w->shape[from][i] + 2 * g->padding[i] -
                           g->dilation[i] * (g->kernel[i] - 1) - 1) /
                              g->stride[i] +
                          1;
}

/*
 * Computes the output shape of a transposed layer: (S - 1) s - 2p + d(k - 1) +
 * 1, plus the output padding, which is returned. Its origin is minus the
 * padding.
 */
static inline void shape_transposed(onnx_writer *w, int padding[3], int more[3],
                                    const spc__net_node *n, int from, int to)
{
    const spc_geometry *g = &n->conv.geometry;

    for (int i = 0; i < 3; i++) {
        padding[i] = g->origin[i] == SPC_ORIGIN_AUTO ? 0 : -g->origin[i];
        w->shape[to][i] = g->shape[i];
        more[i] = g->shape[i] -
                  ((w->shape[from][i] - 1) * g->stride[i] - 2 * padding[i] +
                   g->dilation[i] * (g->kernel[i] - 1) + 1);
    }
}

static inline const char *activation_of(const spc_conv *conv)
{
    return conv->activation == SPC_ACT_RELU && conv->add != SPC_ADD_BEFORE
               ? "ReLU"
               : "None";
}

static inline void write_ranges(onnx_writer *w, spc__buf *node, int cout)
{
    float *ranges = malloc((size_t)cout * sizeof(*ranges));

    for (int c = 0; c < cout; c++)
        ranges[c] = 0.5f + (float)c;
    attr_float(node, "input_dynamic_range", 1.5f + (float)w->graph.nodes);
    attr_floats(node, "weight_dynamic_ranges", ranges, cout);
    attr_text(node, "precision", "int8");
    attr_text(node, "output_precision", "fp16");
    free(ranges);
}

/* An inverse layer uses the rulebook of the layer that it inverts. */
static inline void write_rulebook(onnx_writer *w, spc__buf *node,
                                  const spc_conv *conv, int from, int to)
{
    bool inverse = conv->op == SPC_INVERSE;
    char rulebook[64] = "";

    if (w->keys == KEYS_NONE && w->graph.nodes % 2 == 0)
        return;
    if (w->keys == KEYS_ONE)
        snprintf(rulebook, sizeof(rulebook), "all");
    else if (w->keys == KEYS_EACH)
        snprintf(rulebook, sizeof(rulebook), "own%d", w->graph.nodes);
    else if (w->keys == KEYS_RIGHT && conv->op == SPC_SUBM)
        snprintf(rulebook, sizeof(rulebook), "subm%dk%d", from,
                 conv->geometry.kernel[0]);
    else if (w->keys == KEYS_RIGHT)
        snprintf(rulebook, sizeof(rulebook), "%s%d_%d",
                 conv->op == SPC_GENERATIVE ? "up" : "down",
                 inverse ? to : from, inverse ? from : to);
    attr_text(node, "rulebook", rulebook);
}

static inline void write_conv_words(onnx_writer *w, spc__buf *node,
                                    const spc__net_node *n, int from, int to)
{
    const spc_conv *conv = &n->conv;
    bool inverse = conv->op == SPC_INVERSE;
    bool transposed = conv->op == SPC_GENERATIVE;
    int more[3] = {0, 0, 0}, padding[3];

    memcpy(padding, conv->geometry.padding, sizeof(padding));
    if (transposed)
        shape_transposed(w, padding, more, n, from, to);

    attr_int(node, "ndim", 3);
    write_axes(w, node, "input_spatial_shape", w->shape[from]);
    write_axes(w, node, "output_spatial_shape", w->shape[to]);
    attr_int(node, "in_channels", conv->cin);
    attr_int(node, "out_channels", conv->cout);
    write_axes(w, node, "kernel_size", conv->geometry.kernel);
    attr_int(node, "output_bound", 200000);
    /* An inverse layer of spconv has no attribute for the stride. */
    if (!inverse) {
        write_axes(w, node, "stride", conv->geometry.stride);
        write_axes(w, node, "padding", padding);
    }
    write_axes(w, node, "dilation", conv->geometry.dilation);
    attr_int(node, "transposed", transposed);
    attr_int(node, "inverse", inverse);
    write_axes(w, node, "output_padding", more);
    attr_int(node, "groups", 1);
    attr_int(node, "subm", conv->op == SPC_SUBM);
    write_rulebook(w, node, conv, from, to);
    attr_text(node, "activation", activation_of(conv));
    attr_ints(node, "input_shape", (int[]){1000, conv->cin}, 2, false);
    attr_ints(node, "output_shape", (int[]){1000, conv->cout}, 2, false);
}

static inline int write_conv(onnx_writer *w, const spc__net_node *n)
{
    const spc__net_tensor *tensors = w->net->tensors;
    int from = tensors[n->in[0]].set, to = tensors[n->out].set;
    char name[32], weight[32], bias[32];
    spc__buf node;
    int out, number = w->graph.nodes;

    if (n->conv.op == SPC_CONV)
        shape_behind(w, n, from, to);
    snprintf(name, sizeof(name), "conv%d", number);
    snprintf(weight, sizeof(weight), "spconv%d.weight", number);
    snprintf(bias, sizeof(bias), "spconv%d.bias", number);
    write_weights(w, n, weight);
    node_begin(&node, &w->graph, "SparseConvolution", name,
               &w->tensor_of[n->in[0]], 1, &out);
    pb_text(&node, 1, weight);
    if (n->counts[2] > 0) {
        write_bias(w, n, bias);
        pb_text(&node, 1, bias);
    }
    write_conv_words(w, &node, n, from, to);
    if (w->int8)
        write_ranges(w, &node, n->conv.cout);
    node_end(&node, &w->graph, out);
    if (n->conv.add != SPC_ADD_NONE)
        out =
            add_plain(&w->graph, "Add", (int[]){out, w->tensor_of[n->add]}, 2);
    if (n->conv.add == SPC_ADD_BEFORE && n->conv.activation == SPC_ACT_RELU)
        out = add_plain(&w->graph, "Relu", &out, 1);
    return out;
}

static inline int write_with_ints(onnx_writer *w, const char *type,
                                  const int *inputs, int inputs_count,
                                  const char *attribute, const int *values,
                                  int count)
{
    char name[32];
    spc__buf node;
    int out;

    snprintf(name, sizeof(name), "%s%d", type, w->graph.nodes);
    node_begin(&node, &w->graph, type, name, inputs, inputs_count, &out);
    attr_ints(&node, attribute, values, count, false);
    node_end(&node, &w->graph, out);
    return out;
}

static inline int write_group_sum(onnx_writer *w, const spc__net_node *n)
{
    int in = w->tensor_of[n->in[0]], out;
    spc__buf node;
    const int dims[3] = {1000, n->feature.channels / n->feature.by, -1};

    in = write_with_ints(w, "Reshape", &in, 1, "dims", dims, 3);
    node_begin(&node, &w->graph, "ReduceSum", "reduce", &in, 1, &out);
    attr_ints(&node, "axes", (int[]){2}, 1, false);
    attr_int(&node, "keepdims", 0);
    node_end(&node, &w->graph, out);
    return out;
}

/* Writes N, C, and the plane as in the network. */
static inline int write_dense(onnx_writer *w, const spc__net_node *n)
{
    const int *shape = w->shape[w->net->tensors[n->in[0]].set];
    bool zyx = w->axes[0] == 'z', out_zyx = n->feature.order == SPC_BEV_ZYX;
    int in = w->tensor_of[n->in[0]], out;
    int first = out_zyx ? shape[1] : shape[0];
    int second = out_zyx ? shape[0] : shape[1];
    /* Transposes to N, C, Z, Y, X or to N, C, X, Y, Z. */
    static const int moves[2][2][5] = {{{0, 1, 4, 2, 3}, {0, 1, 4, 3, 2}},
                                       {{0, 1, 2, 4, 3}, {0, 1, 2, 3, 4}}};
    spc__buf node;

    node_begin(&node, &w->graph, "ScatterDense", "scatter0", &in, 1, &out);
    write_axes(w, &node, "input_spatial_shape", shape);
    attr_text(&node, "format", w->axes);
    attr_ints(&node, "output_shape", (int[]){1, 1, 1, 1, 1}, 5, false);
    node_end(&node, &w->graph, out);
    if (!zyx || !out_zyx)
        out = write_with_ints(w, "Transpose", &out, 1, "dims",
                              moves[zyx][out_zyx], 5);
    return write_with_ints(
        w, "Reshape", &out, 1, "dims",
        (int[]){1, n->feature.channels * shape[2], first, second}, 4);
}

static inline int write_concat(onnx_writer *w, const spc__net_node *n)
{
    int inputs[SPC__NET_SOURCES], out;
    spc__buf node;

    for (int i = 0; i < n->ins; i++)
        inputs[i] = w->tensor_of[n->in[i]];
    node_begin(&node, &w->graph, "Concat", "", inputs, n->ins, &out);
    attr_int(&node, "axis", 1);
    node_end(&node, &w->graph, out);
    return out;
}

static inline int write_node(onnx_writer *w, const spc__net_node *n)
{
    if (n->kind == SPC__NODE_CONV)
        return write_conv(w, n);
    if (n->kind == SPC__NODE_CONCAT)
        return write_concat(w, n);
    return n->feature.op == SPC_FEATURE_BEV ? write_dense(w, n)
                                            : write_group_sum(w, n);
}

static inline void onnx_write_all(spc__buf *out, onnx_writer *w,
                                  const int shape[3])
{
    const spc_net *net = w->net;

    memcpy(w->shape[0], shape, sizeof(w->shape[0]));
    add_value(&w->graph, 11, 0);
    for (int i = 0; i < net->node_count; i++)
        w->tensor_of[net->nodes[i].out] = write_node(w, &net->nodes[i]);
    for (int i = 0; i < net->out_count; i++)
        add_value(&w->graph, 12, w->tensor_of[net->outs[i].tensor]);
    onnx_finish(out, &w->graph);
}

/* Writes `net`, whose weights must be set, for scenes of this shape. */
static inline void onnx_write(spc__buf *out, const spc_net *net,
                              const char *axes, const int shape[3], bool int8)
{
    onnx_writer w = {.net = net, .axes = axes, .int8 = int8};

    onnx_write_all(out, &w, shape);
}

static inline void onnx_write_keyed(spc__buf *out, const spc_net *net,
                                    const char *axes, const int shape[3],
                                    onnx_keys keys)
{
    onnx_writer w = {.net = net, .axes = axes, .keys = keys};

    onnx_write_all(out, &w, shape);
}

#endif
