/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_autoware.c - reads the nodes of Autoware's exporters (domain
 * "autoware"), which divide a layer of spconv in two: a node finds the pairs of
 * voxels (GetIndicePairsImplicitGemm, GetIndicePairs) and has the geometry; one
 * multiplies (ImplicitGemm, ImplicitGemmInt8, IndiceConv) and has the weights,
 * as [cout][x][y][z][cin] in the order of the axes.
 *
 *   GetIndicePairs*   coordinates -> coordinates, pairs, ...
 *   ImplicitGemm      features, weights, pairs, mask, order[, bias]
 *   ImplicitGemmInt8  features, weights, pairs, mask, order, scale by channel,
 *                     bias / output_scale
 *   IndiceConv        features, weights, pairs, counts, number
 *
 * Bias, batch normalisation, activation and residual that follow as nodes of
 * their own are taken into the layer. Nothing here looks at the tables: a map
 * depends on coordinates and geometry alone.
 */
#include "import/onnx_conv.h"

#include "base/error.h"
#include "base/plural.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    spc__onnx_layer of;
    spc__onnx_node pairs;
    const spc_array *weights;
    float *scale, *bias; /* [cout]; NULL: none */
} reading;

/* ---- coordinates --------------------------------------------------------- */

static const Spc__Pb__Node *node_at(const spc__onnx_builder *b, int i)
{
    return b->onnx->model->graph->node[i];
}

static bool is_copy(const Spc__Pb__Node *node)
{
    return strcmp(node->op_type, "Cast") == 0 ||
           strcmp(node->op_type, "Identity") == 0;
}

/*
 * Returns the name of the node's original coordinates: a submanifold node
 * passes on the coordinates that it reads. A node reads only results of earlier
 * nodes, so each step goes back in the file.
 */
static const char *first_name(const spc__onnx_builder *b, const char *name)
{
    int before = (int)b->onnx->model->graph->n_node, output, subm;

    for (;;) {
        int maker = spc__onnx_maker(b->onnx, name, &output);
        /* A file with a cycle would never end otherwise. */
        if (maker < 0 || maker >= before || node_at(b, maker)->n_input == 0)
            return name;
        spc__onnx_node node = spc__onnx_node_at(b->onnx, maker, NULL);
        subm = 0;
        if (spc__onnx_is_pairs(node.pb) &&
            (output != 0 || spc__onnx_int(&node, &subm, "subm") != SPC_OK ||
             subm == 0))
            return name;
        if (!spc__onnx_is_pairs(node.pb) && !is_copy(node.pb))
            return name;
        name = node.pb->input[0];
        before = maker;
    }
}

/* Returns the node that makes the table of pairs that a layer reads, or -1. */
static int pairs_of(const spc__onnx_builder *b, const Spc__Pb__Node *node)
{
    int output, maker;

    if (node->n_input < 3)
        return -1;
    maker = spc__onnx_maker(b->onnx, node->input[2], &output);
    return maker >= 0 && output == 1 && node_at(b, maker)->n_input == 1 &&
                   spc__onnx_is_pairs(node_at(b, maker))
               ? maker
               : -1;
}

/* Returns the coordinates of a layer's outputs. */
static const char *coords_behind(const spc__onnx_builder *b,
                                 const Spc__Pb__Node *node)
{
    int pairs = pairs_of(b, node);

    return pairs < 0 ? "" : first_name(b, node_at(b, pairs)->output[0]);
}

/* Returns the coordinates of any rows: other nodes keep the rows of their
 * inputs. */
static const char *coords_of(const spc__onnx_builder *b, const char *name)
{
    int before = (int)b->onnx->model->graph->n_node, output;

    while (strcmp(name, b->root->name) != 0) {
        int maker = spc__onnx_maker(b->onnx, name, &output), i = 0;
        if (maker < 0 || maker >= before)
            return "";
        const Spc__Pb__Node *node = node_at(b, maker);
        if (spc__onnx_is_gemm(node))
            return coords_behind(b, node);
        while (i < (int)node->n_input &&
               spc__onnx_array(b->onnx, node->input[i]) != NULL)
            i++;
        if (i == (int)node->n_input)
            return "";
        name = node->input[i];
        before = maker;
    }
    return first_name(b, b->root_coords);
}

static spc_status check_coords(const reading *r)
{
    const spc__onnx_builder *b = r->of.b;
    const char *found = first_name(b, r->pairs.pb->input[0]);
    /* Pairs and features of different voxels may have equal sizes by chance:
     * the results would be wrong without an error. */
    const char *rows = coords_of(b, r->of.in->name);

    if (strcmp(found, rows) == 0)
        return SPC_OK;
    return spc__onnx_fail(r->of.node, SPC_EFORMAT,
                          "reads features at the coordinates '%.60s', and "
                          "pairs of the coordinates '%.60s'",
                          rows, found);
}

/* ---- the input ----------------------------------------------------------- */

/* Detectors have the least voxels along z. */
static spc_status find_axes(spc__onnx_builder *b, const spc__onnx_node *pairs)
{
    int shape[3] = {0, 0, 0};
    spc_status status;

    if (b->options->axes != NULL)
        return SPC_OK;
    if ((status = spc__onnx_ints(pairs, shape, 3, "spatial_shape")) != SPC_OK)
        return status;
    b->axes = shape[2] < shape[0] && shape[2] < shape[1]   ? "xyz"
              : shape[0] < shape[1] && shape[0] < shape[2] ? "zyx"
                                                           : NULL;
    return b->axes != NULL
               ? SPC_OK
               : spc__onnx_fail(pairs, SPC_EUNSUPPORTED,
                                "has the spatial_shape %dx%dx%d, of which no "
                                "end is the least: state the order of its "
                                "axes (axes: xyz or zyx)",
                                shape[0], shape[1], shape[2]);
}

static const spc_array *numbers_of(const spc__onnx_builder *b,
                                   const Spc__Pb__Node *node, size_t input)
{
    const spc_array *array = node->n_input > input
                                 ? spc__onnx_array(b->onnx, node->input[input])
                                 : NULL;

    return array != NULL && array->data != NULL ? array : NULL;
}

/* The first layer determines the input's channels and grid. */
spc_status spc__onnx_autoware_input(spc__onnx_builder *b, spc_net_input *input)
{
    const Spc__Pb__Graph *graph = b->onnx->model->graph;
    size_t i = 0;

    while (i < graph->n_node && !spc__onnx_is_gemm(graph->node[i]))
        i++;
    int found = i < graph->n_node ? pairs_of(b, graph->node[i]) : -1;
    if (found < 0)
        return spc__fail(b->error, SPC_EFORMAT,
                         "cannot read '%s': it has nodes of Autoware, but no "
                         "layer (ImplicitGemm, ImplicitGemmInt8, IndiceConv) "
                         "that reads the pairs of a node before it",
                         b->onnx->path);
    spc__onnx_node node = spc__onnx_node_at(b->onnx, (int)i, b->error);
    spc__onnx_node pairs = spc__onnx_node_at(b->onnx, found, b->error);
    const spc_array *weights = numbers_of(b, node.pb, 1);
    b->root = spc__onnx_find(b, node.pb->input[0]);
    b->root_coords = pairs.pb->input[0];
    if (b->root == NULL || b->root->kind != SPC__ONNX_PENDING ||
        weights == NULL || weights->rank != 5 || weights->shape[4] > INT32_MAX)
        return spc__onnx_fail(&node, SPC_EFORMAT,
                              "is the first layer, and its features or its "
                              "weights [cout][x][y][z][cin] are not in the "
                              "file");
    spc_status status = find_axes(b, &pairs);
    input->name = b->root->name;
    input->axes = b->axes;
    input->channels = (int)weights->shape[4];
    return status == SPC_OK
               ? spc__onnx_axes(b, &pairs, input->shape, "spatial_shape")
               : status;
}

/* ---- geometry ------------------------------------------------------------ */

static spc_status read_sizes(reading *r, spc_geometry *g)
{
    const struct {
        const char *name;
        int *sizes;
    } words[] = {
        {"ksize", g->kernel},
        {"stride", g->stride},
        {"padding", g->padding},
        {"dilation", g->dilation},
        {"out_padding", r->of.out_padding},
    };
    spc_status status = SPC_OK;

    for (int i = 0; i < 5 && status == SPC_OK; i++)
        status =
            spc__onnx_axes(r->of.b, &r->pairs, words[i].sizes, words[i].name);
    if (status == SPC_OK && !spc__onnx_has(&r->pairs, "ksize"))
        status =
            spc__onnx_fail(&r->pairs, SPC_EFORMAT, "has no attribute 'ksize'");
    return status;
}

static spc_status read_geometry(reading *r)
{
    spc_geometry *g = &r->of.layer.conv.geometry;
    spc__onnx_layer *of = &r->of;
    int said = 0;
    spc_status status;

    if ((status = read_sizes(r, g)) != SPC_OK ||
        (status = spc__onnx_int(&r->pairs, &of->subm, "subm")) != SPC_OK ||
        (status = spc__onnx_int(&r->pairs, &of->transposed, "transpose")) !=
            SPC_OK)
        return status;
    said = of->subm;
    if ((status = spc__onnx_int(of->node, &said, "is_subm")) != SPC_OK)
        return status;
    if ((said != 0) != (of->subm != 0) ||
        (of->subm != 0 && of->transposed != 0))
        return spc__onnx_fail(of->node, SPC_EFORMAT,
                              "has is_subm %d, but its pairs have subm %d and "
                              "transpose %d",
                              said, of->subm, of->transposed);
    return of->subm != 0         ? spc__onnx_make_subm(of, g)
           : of->transposed != 0 ? spc__onnx_make_transposed(of, g)
                                 : spc__onnx_make_strided(of, g);
}

/* ---- weights ------------------------------------------------------------- */

static spc_status read_weights(reading *r)
{
    const spc_array *w = numbers_of(r->of.b, r->of.node->pb, 1);
    spc_conv *conv = &r->of.layer.conv;

    if (w == NULL || w->rank != 5 || w->shape[0] < 1 || w->shape[4] < 1 ||
        w->shape[0] > INT32_MAX || w->shape[4] > INT32_MAX)
        return spc__onnx_fail(
            r->of.node, SPC_EFORMAT,
            "reads weights '%.60s', which are not an array "
            "[cout][x][y][z][cin] of the file",
            r->of.node->pb->n_input > 1 ? r->of.node->pb->input[1] : "");
    r->weights = w;
    conv->cout = (int)w->shape[0];
    conv->cin = (int)w->shape[4];
    conv->dtype = r->of.b->options->dtype;
    return SPC_OK;
}

/* Reads [cout] numbers of a node's input; the caller frees *out. */
static spc_status read_channels(float **out, const reading *r,
                                const Spc__Pb__Node *node, size_t input)
{
    const spc_array *array = numbers_of(r->of.b, node, input);
    int64_t count = r->of.layer.conv.cout;

    *out = NULL;
    if (array == NULL || spc_array_elements(array) != count)
        return spc__onnx_fail(
            r->of.node, SPC_EFORMAT,
            "is followed by '%.40s' ('%.40s'), whose input %zu is not an array "
            "of %lld numbers, one for each "
            "channel",
            node->name != NULL ? node->name : "", node->op_type, input,
            (long long)count);
    if ((*out = calloc((size_t)count, sizeof(float))) == NULL)
        return spc__fail_memory(r->of.b->error, (size_t)count * 4);
    return spc_array_floats(*out, array, r->of.b->error);
}

static spc_status need_bias(reading *r)
{
    size_t count = (size_t)r->of.layer.conv.cout;

    if (r->bias == NULL && (r->bias = calloc(count, sizeof(float))) == NULL)
        return spc__fail_memory(r->of.b->error, count * sizeof(float));
    return SPC_OK;
}

/* Reads the bias of the node itself. A bias of integers is in units of the
 * outputs' quantisation step. */
static spc_status read_own_bias(reading *r)
{
    const Spc__Pb__Node *node = r->of.node->pb;
    bool int8 = strcmp(node->op_type, "ImplicitGemmInt8") == 0;
    size_t place = int8 ? 6 : 5;
    float unit = 1;
    spc_status status = spc__onnx_float(r->of.node, &unit, "output_scale");

    if (status != SPC_OK)
        return status;
    if (int8 ? !(unit > 0 && unit < INFINITY) : unit != 1)
        return spc__onnx_fail(r->of.node, SPC_EUNSUPPORTED,
                              "has an output_scale of %g: expected %s",
                              (double)unit, int8 ? "one above 0" : "1");
    if (strcmp(node->op_type, "IndiceConv") == 0 || node->n_input <= place)
        return SPC_OK;
    status = read_channels(&r->bias, r, node, place);
    for (int c = 0; c < r->of.layer.conv.cout && status == SPC_OK && int8; c++)
        r->bias[c] *= unit;
    return status;
}

/* ---- fusion -------------------------------------------------------------- */

/* Makes the output of `consumer` the current value. */
static void take(reading *r, int consumer)
{
    r->of.b->done[consumer] = true;
    r->of.out = &r->of.b->values[r->of.b->input_count + consumer];
}

static spc_status take_bias(reading *r, int consumer)
{
    const Spc__Pb__Node *add = node_at(r->of.b, consumer);
    size_t which = strcmp(add->input[0], r->of.out->name) == 0 ? 1 : 0;
    float *more = NULL;
    spc_status status = need_bias(r);

    if (status == SPC_OK)
        status = read_channels(&more, r, add, which);
    for (int c = 0; c < r->of.layer.conv.cout && status == SPC_OK; c++)
        r->bias[c] += more[c];
    free(more);
    take(r, consumer);
    return status;
}

/* y = (x - mean) / sqrt(variance + epsilon) * gamma + beta */
static spc_status fold(reading *r, float *const arrays[4], float epsilon)
{
    size_t count = (size_t)r->of.layer.conv.cout;

    if ((r->scale = malloc(count * sizeof(float))) == NULL)
        return spc__fail_memory(r->of.b->error, count * sizeof(float));
    for (size_t c = 0; c < count; c++) {
        /* In double, so that only the result is rounded. */
        double step = sqrt((double)arrays[3][c] + (double)epsilon);
        double scale = (double)arrays[0][c] / step;
        if (!(step > 0) || !isfinite(scale))
            return spc__onnx_fail(r->of.node, SPC_EFORMAT,
                                  "is followed by a BatchNormalization whose "
                                  "channel %zu has the variance %g",
                                  c, (double)arrays[3][c]);
        r->scale[c] = (float)scale;
        r->bias[c] =
            (float)(((double)r->bias[c] - (double)arrays[2][c]) * scale +
                    (double)arrays[1][c]);
    }
    return SPC_OK;
}

static spc_status take_norm(reading *r, int consumer)
{
    spc__onnx_node node =
        spc__onnx_node_at(r->of.b->onnx, consumer, r->of.b->error);
    float *arrays[4] = {NULL}, epsilon = 1e-5f;
    int training = 0;
    spc_status status = need_bias(r);

    if (status == SPC_OK)
        status = spc__onnx_float(&node, &epsilon, "epsilon");
    if (status == SPC_OK)
        status = spc__onnx_int(&node, &training, "training_mode");
    if (status == SPC_OK && training != 0)
        status = spc__onnx_fail(&node, SPC_EUNSUPPORTED,
                                "is in training mode: export the model in "
                                "evaluation mode");
    for (size_t i = 0; i < 4 && status == SPC_OK; i++)
        status = read_channels(&arrays[i], r, node.pb, i + 1);
    if (status == SPC_OK)
        status = fold(r, arrays, epsilon);
    for (int i = 0; i < 4; i++)
        free(arrays[i]);
    take(r, consumer);
    return status;
}

static bool adds_array(const spc__onnx_builder *b, const Spc__Pb__Node *node)
{
    return strcmp(node->op_type, "Add") == 0 && node->n_input == 2 &&
           (spc__onnx_array(b->onnx, node->input[0]) != NULL) +
                   (spc__onnx_array(b->onnx, node->input[1]) != NULL) ==
               1;
}

/* Bias and normalisation, before the activation and the residual. */
static spc_status take_affine(reading *r)
{
    spc__onnx_builder *b = r->of.b;
    spc_status status = SPC_OK;

    /* An epilogue scales before it activates, so a scale after an activation is
     * not folded. */
    while (status == SPC_OK && r->of.layer.conv.activation == SPC_ACT_NONE) {
        int consumer = r->of.out->consumer;
        if (consumer < 0 || !spc__onnx_is_ours(b, consumer))
            return SPC_OK;
        const Spc__Pb__Node *node = node_at(b, consumer);
        if (is_copy(node))
            take(r, consumer);
        else if (adds_array(b, node))
            status = take_bias(r, consumer);
        else if (strcmp(node->op_type, "BatchNormalization") == 0 &&
                 r->scale == NULL)
            status = take_norm(r, consumer);
        else
            return SPC_OK;
    }
    return status;
}

/* The activation of the node itself, numbered as in cumm. */
static spc_status read_activation(reading *r)
{
    static const spc_activation known[] = {SPC_ACT_NONE, SPC_ACT_RELU,
                                           SPC_ACT_SIGMOID, SPC_ACT_LEAKY};
    float slope = 0;
    int type = 0;
    spc_status status;

    if ((status = spc__onnx_int(r->of.node, &type, "act_type")) != SPC_OK ||
        (status = spc__onnx_float(r->of.node, &slope, "act_alpha")) != SPC_OK)
        return status;
    if (type < 0 || type > 3)
        return spc__onnx_fail(r->of.node, SPC_EUNSUPPORTED,
                              "has the act_type %d: 0 (none), 1 (ReLU), 2 "
                              "(sigmoid) and 3 (leaky ReLU) are known",
                              type);
    r->of.layer.conv.activation = known[type];
    if (known[type] == SPC_ACT_LEAKY)
        r->of.layer.conv.slope = slope;
    return SPC_OK;
}

/* ---- the layer ----------------------------------------------------------- */

static spc_status set_channels(const reading *r, spc_operand which,
                               const float *values)
{
    return values == NULL
               ? SPC_OK
               : spc_net_set_param(r->of.b->net, r->of.name, which, values,
                                   r->of.layer.conv.cout, r->of.b->error);
}

static spc_status set_params(const reading *r)
{
    spc_kernel_form form = SPC_KERNEL_FORM_INIT;
    int64_t count = spc_array_elements(r->weights);
    float *values = calloc((size_t)count + 1, sizeof(*values));
    spc_status status;

    if (values == NULL)
        return spc__fail_memory(r->of.b->error, (size_t)count * 4);
    form.engine = SPC_ENGINE_SPCTUNE; /* [cout] comes first for every kernel */
    form.axes = r->of.b->axes;
    status = spc_kernel_load(values, &r->of.layer.conv, r->weights, &form,
                             r->of.b->error);
    if (status == SPC_OK)
        status =
            spc_net_set_param(r->of.b->net, r->of.name, SPC_OPERAND_WEIGHTS,
                              values, count, r->of.b->error);
    if (status == SPC_OK)
        status = set_channels(r, SPC_OPERAND_SCALE, r->scale);
    if (status == SPC_OK)
        status = set_channels(r, SPC_OPERAND_BIAS, r->bias);
    free(values);
    return status;
}

static spc_status add_layer(reading *r)
{
    spc__onnx_layer *of = &r->of;
    spc_status status;

    of->layer.name = of->name;
    of->layer.conv.scale = r->scale != NULL;
    of->layer.conv.bias = r->bias != NULL;
    status = spc_net_add_conv(&of->out->tensor, of->b->net, &of->layer,
                              of->b->error);
    of->out->kind = SPC__ONNX_ROWS;
    if (status == SPC_OK)
        status = set_params(r);
    return spc__onnx_pass_on(of->node, status);
}

static spc_status read_layer(reading *r)
{
    spc__onnx_layer *of = &r->of;
    spc_status status;

    if ((status = spc__onnx_input(&of->in, of->b, of->node, 0,
                                  SPC__ONNX_ROWS)) != SPC_OK ||
        (status = check_coords(r)) != SPC_OK)
        return status;
    of->layer.in = of->in->tensor;
    if ((status = spc__onnx_check_shape(of->b, &r->pairs, of->layer.in,
                                        "spatial_shape")) != SPC_OK ||
        (status = read_weights(r)) != SPC_OK ||
        (status = read_geometry(r)) != SPC_OK ||
        (status = read_activation(r)) != SPC_OK ||
        (status = read_own_bias(r)) != SPC_OK ||
        (status = take_affine(r)) != SPC_OK)
        return status;
    spc__onnx_take_activation(of);
    spc__onnx_take_add(of);
    return add_layer(r);
}

spc_status spc__onnx_gemm(spc__onnx_builder *b, const spc__onnx_node *node)
{
    reading r = {.of = {.b = b,
                        .node = node,
                        .out = spc__onnx_output(b, node),
                        .layer = SPC_NET_LAYER_INIT}};
    int pairs = pairs_of(b, node->pb);

    if (pairs < 0 || pairs >= node->number)
        return spc__onnx_fail(node, SPC_EFORMAT,
                              "reads pairs '%.60s', which no GetIndicePairs or "
                              "GetIndicePairsImplicitGemm before it makes as "
                              "its second output",
                              node->pb->n_input > 2 ? node->pb->input[2] : "");
    r.pairs = spc__onnx_node_at(b->onnx, pairs, b->error);
    spc__onnx_name(r.of.name, node);
    spc_status status = read_layer(&r);
    free(r.scale);
    free(r.bias);
    return status;
}

/* Layers read these nodes. */
spc_status spc__onnx_pairs(spc__onnx_builder *b, const spc__onnx_node *node)
{
    (void)b, (void)node;
    return SPC_OK;
}

spc_status spc__onnx_same(spc__onnx_builder *b, const spc__onnx_node *node)
{
    spc__onnx_value *out = spc__onnx_output(b, node), *in;
    spc__onnx_value was = *out;

    in = node->pb->n_input > 0 ? spc__onnx_find(b, node->pb->input[0]) : NULL;
    if (in == NULL || in->kind == SPC__ONNX_PENDING)
        return spc__onnx_fail(node, SPC_EFORMAT,
                              "reads a value that no node before it makes");
    *out = *in;
    out->name = was.name;
    out->users = was.users;
    out->consumer = was.consumer;
    return SPC_OK;
}
