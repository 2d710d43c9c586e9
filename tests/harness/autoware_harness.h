/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autoware_harness.h - writes ONNX files as Autoware's exporters do. The first
 * nodes make features and coordinates. Then each layer has a node that finds
 * pairs, and one that sums. Dense layers may follow.
 */
#ifndef SPC_TESTS_AUTOWARE_HARNESS_H
#define SPC_TESTS_AUTOWARE_HARNESS_H

#include "harness/onnx_harness.h"

/* The form of a layer's bias and activation. */
typedef enum autoware_style {
    AUTOWARE_FUSED, /* attributes of the convolution node */
    AUTOWARE_NODES, /* Add and Relu nodes */
    AUTOWARE_NORM,  /* a BatchNormalization with the bias, and Relu */
    AUTOWARE_INT8,  /* ImplicitGemmInt8 */
    AUTOWARE_PAIRS, /* GetIndicePairs, IndiceConv, Add and Relu */
    AUTOWARE_STYLES
} autoware_style;

typedef struct autoware_writer {
    spc__buf body;
    const spc_net *net;
    const char *axes;
    autoware_style style;
    int shape[ONNX_SETS][3];
    char value_of[ONNX_TENSORS][48], coords_of[ONNX_SETS][48];
    int nodes, version;
    bool tail; /* dense layers follow the sparse ones */
} autoware_writer;

/* ---- nodes and arrays ---------------------------------------------------- */

/* Adds a node from names that commas separate. */
static inline void aw_begin(spc__buf *node, autoware_writer *w,
                            const char *domain, const char *type,
                            const char *inputs, const char *outputs)
{
    const char *lists[2] = {inputs, outputs};
    char name[80];

    *node = (spc__buf)SPC__BUF_INIT;
    for (int field = 1; field <= 2; field++)
        for (const char *at = lists[field - 1]; *at != '\0';) {
            size_t length = strcspn(at, ",");
            snprintf(name, sizeof(name), "%.*s", (int)length, at);
            pb_text(node, field, name);
            at += length + (at[length] == ',');
        }
    snprintf(name, sizeof(name), "/encoder/%s_%d", type, w->nodes++);
    pb_text(node, 3, name);
    pb_text(node, 4, type);
    if (domain[0] != '\0')
        pb_text(node, 7, domain);
}

static inline void aw_end(spc__buf *node, autoware_writer *w)
{
    pb_message(&w->body, 1, node);
}

static inline void aw_plain(autoware_writer *w, const char *type,
                            const char *inputs, const char *outputs)
{
    spc__buf node;

    aw_begin(&node, w, "", type, inputs, outputs);
    aw_end(&node, w);
}

static inline void aw_floats(autoware_writer *w, const char *name,
                             const int *dims, int rank, const float *values)
{
    spc__buf t = SPC__BUF_INIT;
    size_t count = 1;

    for (int i = 0; i < rank; i++) {
        pb_int(&t, 1, dims[i]);
        count *= (size_t)dims[i];
    }
    pb_int(&t, 2, 1); /* FLOAT */
    pb_text(&t, 8, name);
    pb_bytes(&t, 9, values, count * sizeof(*values));
    pb_message(&w->body, 5, &t);
}

/* Adds an array of `count` elements equal to `value`. */
static inline void aw_filled(autoware_writer *w, const char *name, int count,
                             float value)
{
    float *values = malloc((size_t)count * sizeof(*values));

    for (int i = 0; i < count; i++)
        values[i] = value;
    aw_floats(w, name, &count, 1, values);
    free(values);
}

static inline void aw_int64s(autoware_writer *w, const char *name,
                             const int64_t *values, int count)
{
    spc__buf t = SPC__BUF_INIT;

    pb_int(&t, 1, count);
    pb_int(&t, 2, 7); /* INT64 */
    pb_text(&t, 8, name);
    pb_bytes(&t, 9, values, (size_t)count * sizeof(*values));
    pb_message(&w->body, 5, &t);
}

static inline void aw_axes(const autoware_writer *w, spc__buf *node,
                           const char *name, const int xyz[3])
{
    int theirs[3];

    for (int e = 0; e < 3; e++)
        theirs[e] = xyz[w->axes[e] - 'x'];
    attr_ints(node, name, theirs, 3, false);
}

/* ---- a layer ------------------------------------------------------------- */

static inline void aw_pairs(autoware_writer *w, const spc__net_node *n,
                            int from, int to, int number)
{
    const spc_conv *conv = &n->conv;
    bool subm = conv->op == SPC_SUBM, grows = conv->op == SPC_GENERATIVE;
    int padding[3], more[3] = {0, 0, 0};
    onnx_writer shapes = {.net = w->net, .axes = w->axes};
    char outputs[200];
    spc__buf node;

    memcpy(padding, conv->geometry.padding, sizeof(padding));
    memcpy(shapes.shape[from], w->shape[from], sizeof(w->shape[from]));
    if (conv->op == SPC_CONV)
        shape_behind(&shapes, n, from, to);
    if (grows)
        shape_transposed(&shapes, padding, more, n, from, to);
    memcpy(w->shape[to], shapes.shape[to], sizeof(w->shape[to]));
    bool plain = w->style == AUTOWARE_PAIRS;
    snprintf(outputs, sizeof(outputs),
             plain ? "coords%d,pairs%d,counts%d,number%d"
                   : "coords%d,pairs%d,counts%d,order%d,number%d",
             number, number, number, number, number);
    aw_begin(&node, w, "autoware",
             plain ? "GetIndicePairs" : "GetIndicePairsImplicitGemm",
             w->coords_of[from], outputs);
    attr_int(&node, "batch_size", 1);
    aw_axes(w, &node, "spatial_shape", w->shape[from]);
    attr_int(&node, "algo", plain ? 0 : 1);
    aw_axes(w, &node, "ksize", conv->geometry.kernel);
    aw_axes(w, &node, "stride", conv->geometry.stride);
    aw_axes(w, &node, "padding", padding);
    aw_axes(w, &node, "dilation", conv->geometry.dilation);
    aw_axes(w, &node, "out_padding", more);
    attr_int(&node, "subm", subm);
    attr_int(&node, "transpose", grows);
    if (!plain) {
        attr_int(&node, "is_train", 0);
        attr_int(&node, "do_sort", number % 2);
    }
    aw_end(&node, w);
    /* A submanifold node passes its coordinates on under another name. */
    snprintf(w->coords_of[to], sizeof(w->coords_of[to]), "coords%d", number);
}

static inline void aw_weights(autoware_writer *w, const spc__net_node *n,
                              const char *name)
{
    const int *kernel = n->conv.geometry.kernel;
    int cin = n->conv.cin, cout = n->conv.cout, size[3];
    int offsets = kernel[0] * kernel[1] * kernel[2];
    float *values = malloc((size_t)n->counts[0] * sizeof(*values));

    for (int e = 0; e < 3; e++)
        size[e] = kernel[w->axes[e] - 'x'];
    for (int64_t i = 0; i < n->counts[0]; i++) {
        int k = (int)(i / cin % offsets), e_at[3];
        const int at[3] = {k / (kernel[1] * kernel[2]),
                           k / kernel[2] % kernel[1], k % kernel[2]};
        for (int e = 0; e < 3; e++)
            e_at[e] = at[w->axes[e] - 'x'];
        int64_t to =
            ((i / cin / offsets * size[0] + e_at[0]) * size[1] + e_at[1]) *
                size[2] +
            e_at[2];
        values[to * cin + i % cin] = n->params[0][i];
    }
    aw_floats(w, name, (int[]){cout, size[0], size[1], size[2], cin}, 5,
              values);
    free(values);
}

enum { INT8_STEP = 8 }; /* 1 / the quantisation step of outputs */

static inline void aw_bias(autoware_writer *w, const spc__net_node *n,
                           const char *name, float unit)
{
    float *values = calloc((size_t)n->conv.cout, sizeof(*values));

    for (int c = 0; c < n->conv.cout && n->counts[2] > 0; c++)
        values[c] = n->params[2][c] * unit;
    aw_floats(w, name, &n->conv.cout, 1, values);
    free(values);
}

static inline bool aw_is_fused(const autoware_writer *w)
{
    return w->style == AUTOWARE_FUSED || w->style == AUTOWARE_INT8;
}

/* True if the activation is an attribute of the convolution node. */
static inline bool aw_activates(const autoware_writer *w, const spc_conv *conv)
{
    return aw_is_fused(w) && conv->activation == SPC_ACT_RELU &&
           conv->add != SPC_ADD_BEFORE;
}

static inline void aw_gemm(autoware_writer *w, const spc__net_node *n,
                           int number)
{
    static const char *const types[] = {"ImplicitGemm", "ImplicitGemm",
                                        "ImplicitGemm", "ImplicitGemmInt8",
                                        "IndiceConv"};
    char name[64], inputs[400], out[48];
    bool plain = w->style == AUTOWARE_PAIRS, int8 = w->style == AUTOWARE_INT8;
    spc__buf node;

    snprintf(name, sizeof(name), "w%d", number);
    aw_weights(w, n, name);
    snprintf(inputs, sizeof(inputs), "%s,w%d,pairs%d,counts%d,%s%d",
             w->value_of[n->in[0]], number, number, number,
             plain ? "number" : "order", number);
    if (int8) {
        snprintf(name, sizeof(name), "scale%d", number);
        aw_filled(w, name, n->conv.cout, 0.5f);
    }
    if (int8 || (aw_is_fused(w) && n->counts[2] > 0)) {
        snprintf(name, sizeof(name), "bias%d", number);
        aw_bias(w, n, name, int8 ? INT8_STEP : 1);
        size_t end = strlen(inputs);
        snprintf(inputs + end, sizeof(inputs) - end,
                 int8 ? ",scale%d,bias%d" : ",bias%d", number, number);
    }
    snprintf(out, sizeof(out), "sums%d", number);
    aw_begin(&node, w, "autoware", types[w->style], inputs, out);
    attr_int(&node, "is_subm", n->conv.op == SPC_SUBM);
    if (!plain) {
        attr_int(&node, "act_type", aw_activates(w, &n->conv));
        attr_float(&node, "act_alpha", 0);
        attr_float(&node, "act_beta", 0);
        attr_float(&node, "output_scale", int8 ? 1.0f / INT8_STEP : 1);
    }
    if (int8)
        attr_float(&node, "input_scale", 0.25f);
    aw_end(&node, w);
}

/* Adds bias, normalisation, activation and residual as separate nodes. */
static inline void aw_behind(autoware_writer *w, const spc__net_node *n,
                             int number)
{
    char at[48], inputs[400];
    const spc_conv *conv = &n->conv;

    snprintf(at, sizeof(at), "sums%d", number);
    if (!aw_is_fused(w) && n->counts[2] > 0) {
        char name[64];
        snprintf(name, sizeof(name), "bias%d", number);
        aw_bias(w, n, name, 1);
        snprintf(inputs, sizeof(inputs), "%s,%s", at, name);
        if (w->style == AUTOWARE_NORM) {
            spc__buf node;
            snprintf(inputs, sizeof(inputs), "%s,ones%d,bias%d,mean%d,var%d",
                     at, number, number, number, number);
            for (int i = 0; i < 3; i++) {
                snprintf(name, sizeof(name), "%s%d",
                         (const char *[]){"ones", "mean", "var"}[i], number);
                aw_filled(w, name, conv->cout, i == 0);
            }
            snprintf(at, sizeof(at), "biased%d", number);
            aw_begin(&node, w, "", "BatchNormalization", inputs, at);
            attr_float(&node, "epsilon", 1); /* divides by sqrt(0 + 1) */
            aw_end(&node, w);
        } else {
            snprintf(at, sizeof(at), "biased%d", number);
            aw_plain(w, "Add", inputs, at);
        }
    }
    bool relu = conv->activation == SPC_ACT_RELU && !aw_activates(w, conv);
    for (int step = 0; step < 2; step++) {
        bool adds = conv->add != SPC_ADD_NONE &&
                    (conv->add == SPC_ADD_BEFORE) == (step == 0);
        char next[48];
        snprintf(next, sizeof(next), "%s%d_%d", adds ? "sum" : "relu", step,
                 number);
        if (adds) {
            snprintf(inputs, sizeof(inputs), "%s,%s", at, w->value_of[n->add]);
            aw_plain(w, "Add", inputs, next);
            snprintf(at, sizeof(at), "%s", next);
        }
        if (step == 0 && relu) {
            snprintf(next, sizeof(next), "relu%d", number);
            aw_plain(w, "Relu", at, next);
            snprintf(at, sizeof(at), "%s", next);
        }
    }
    snprintf(w->value_of[n->out], sizeof(w->value_of[0]), "%s", at);
}

static inline void aw_conv(autoware_writer *w, const spc__net_node *n)
{
    int number = w->nodes;

    aw_pairs(w, n, w->net->tensors[n->in[0]].set, w->net->tensors[n->out].set,
             number);
    aw_gemm(w, n, number);
    aw_behind(w, n, number);
}

/* ---- dense layers ------------------------------------------------------ */

/* Turns rows into [N][axes][C], then into [N][C][axes], then into a plane. */
static inline void aw_dense(autoware_writer *w, const spc__net_node *n)
{
    const char *coords = w->coords_of[w->net->tensors[n->in[0]].set];
    const char *rows = w->value_of[n->in[0]];
    const int64_t shape[4] = {1, -1, 99, 99};
    char inputs[200];
    spc__buf node;

    aw_plain(w, "Shape", rows, "rows_shape"); /* uses only the shape */
    snprintf(inputs, sizeof(inputs), "%s,rows_shape", rows);
    aw_plain(w, "Reshape", inputs, "updates");
    aw_plain(w, "Cast", coords, "places");
    aw_plain(w, "ConstantOfShape", "rows_shape", "zeros");
    aw_plain(w, "ScatterND", "zeros,places,updates", "scattered");
    aw_begin(&node, w, "", "Transpose", "scattered", "channels_first");
    attr_ints(&node, "perm", (int[]){0, 4, 1, 2, 3}, 5, true);
    aw_end(&node, w);
    const char *at = "channels_first";
    if (w->axes[0] == 'x') {
        aw_begin(&node, w, "", "Transpose", at, "z_second");
        attr_ints(&node, "perm", (int[]){0, 1, 4, 2, 3}, 5, true);
        aw_end(&node, w);
        at = "z_second";
    }
    aw_int64s(w, "plane_shape", shape, 4);
    snprintf(inputs, sizeof(inputs), "%s,plane_shape", at);
    aw_plain(w, "Reshape", inputs, "spatial_features");
    snprintf(w->value_of[n->out], sizeof(w->value_of[0]), "spatial_features");
}

static inline void aw_tail(autoware_writer *w)
{
    aw_filled(w, "head_weights", 16, 1);
    aw_plain(w, "Conv", "spatial_features,head_weights", "t1");
    aw_plain(w, "BatchNormalization",
             "t1,head_weights,head_weights,head_weights,head_weights", "t2");
    aw_plain(w, "Relu", "t2", "t3");
    aw_plain(w, "ConvTranspose", "t3,head_weights", "t4");
    aw_plain(w, "Concat", "t4,t3", "t5");
    aw_plain(w, "Split", "t5", "score,box");
}

static inline void aw_named(autoware_writer *w, int field, const char *name)
{
    spc__buf value = SPC__BUF_INIT;

    pb_text(&value, 1, name);
    pb_message(&w->body, field, &value);
}

static inline void autoware_finish(spc__buf *out, autoware_writer *w)
{
    spc__buf opset = SPC__BUF_INIT;

    pb_text(&w->body, 2, "detector");
    pb_int(out, 1, 8);
    pb_text(&opset, 1, "");
    pb_int(&opset, 2, 17);
    pb_message(out, 8, &opset);
    pb_text(&opset, 1, "autoware");
    pb_int(&opset, 2, w->version != 0 ? w->version : 1);
    pb_message(out, 8, &opset);
    /* Writes this field last, so that a truncated file is never valid. */
    pb_message(out, 7, &w->body);
}

/* Writes `net` with the nodes that precede it and, if `tail` is set, the dense
 * layers after it. */
static inline void autoware_write(spc__buf *out, autoware_writer *w,
                                  const int shape[3])
{
    const spc_net *net = w->net;

    memcpy(w->shape[0], shape, sizeof(w->shape[0]));
    for (int i = 0; i < 3; i++)
        aw_named(w, 11, (const char *[]){"voxels", "coors", "num_points"}[i]);
    aw_plain(w, "ReduceMean", "voxels", "means");
    aw_plain(w, "Div", "means,num_points", "features");
    aw_plain(w, "Cast", "coors", "coords");
    snprintf(w->value_of[0], sizeof(w->value_of[0]), "features");
    snprintf(w->coords_of[0], sizeof(w->coords_of[0]), "coords");
    for (int i = 0; i < net->node_count; i++)
        if (net->nodes[i].kind == SPC__NODE_CONV)
            aw_conv(w, &net->nodes[i]);
        else
            aw_dense(w, &net->nodes[i]);
    if (w->tail)
        aw_tail(w);
    for (int i = 0; i < net->out_count; i++)
        if (!w->tail ||
            strcmp(w->value_of[net->outs[i].tensor], "spatial_features") != 0)
            aw_named(w, 12, w->value_of[net->outs[i].tensor]);
    if (w->tail) {
        aw_named(w, 12, "score");
        aw_named(w, 12, "box");
    }
    autoware_finish(out, w);
}

#endif
