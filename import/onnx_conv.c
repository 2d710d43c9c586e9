/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_conv.c - reads SparseConvolution nodes: geometry, weights and fused
 * layers. */
#include "import/onnx_conv.h"

#include "base/error.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- geometry ------------------------------------------------------------ */

static bool is_one(const int sizes[3])
{
    return sizes[0] == 1 && sizes[1] == 1 && sizes[2] == 1;
}

static bool is_zero(const int sizes[3])
{
    return sizes[0] == 0 && sizes[1] == 0 && sizes[2] == 0;
}

/* Refuses nodes that the library's layers cannot compute. */
static spc_status check_kind(spc__onnx_layer *r)
{
    int ndim = 3, groups = 1, *more = r->out_padding;
    spc_status status;

    if ((status = spc__onnx_int(r->node, &ndim, "ndim")) != SPC_OK ||
        (status = spc__onnx_int(r->node, &r->transposed, "transposed")) !=
            SPC_OK ||
        (status = spc__onnx_int(r->node, &groups, "groups")) != SPC_OK ||
        (status = spc__onnx_axes(r->b, r->node, more, "output_padding")) !=
            SPC_OK)
        return status;
    if (ndim != 3 || groups != 1)
        return spc__onnx_fail(r->node, SPC_EUNSUPPORTED,
                              "has ndim %d and groups %d: 3 and 1 are possible",
                              ndim, groups);
    if (r->transposed == 0 && !is_zero(more))
        return spc__onnx_fail(r->node, SPC_EUNSUPPORTED,
                              "has an output_padding, which only transposed "
                              "layers have");
    return SPC_OK;
}

/* Reads the sizes along the axes. Only the kernel has no default. */
static spc_status read_sizes(spc__onnx_layer *r, spc_geometry *g)
{
    const struct {
        const char *name;
        int *sizes;
    } words[] = {
        {"kernel_size", g->kernel},
        {"stride", g->stride},
        {"padding", g->padding},
        {"dilation", g->dilation},
    };
    spc_status status = SPC_OK;

    for (int i = 0; i < 4 && status == SPC_OK; i++)
        status = spc__onnx_axes(r->b, r->node, words[i].sizes, words[i].name);
    if (status == SPC_OK && !spc__onnx_has(r->node, "kernel_size"))
        status = spc__onnx_fail(r->node, SPC_EFORMAT,
                                "has no attribute 'kernel_size'");
    return status;
}

/* spconv ignores stride and padding of a submanifold layer and does not support
 * even kernels. */
spc_status spc__onnx_make_subm(spc__onnx_layer *r, spc_geometry *g)
{
    for (int i = 0; i < 3; i++) {
        if (g->kernel[i] % 2 == 0)
            return spc__onnx_fail(r->node, SPC_EUNSUPPORTED,
                                  "is submanifold with a kernel of %dx%dx%d: "
                                  "spconv knows odd sizes only",
                                  g->kernel[0], g->kernel[1], g->kernel[2]);
        g->stride[i] = 1;
        g->padding[i] = 0;
    }
    r->layer.conv.op = SPC_SUBM;
    g->rule = SPC_RULE_SUBM;
    return SPC_OK;
}

/* Makes a strided layer and notes its rulebook, which an inverse layer may name
 * later. */
spc_status spc__onnx_make_strided(spc__onnx_layer *r, spc_geometry *g)
{
    spc__onnx_rulebook *book = &r->b->rulebooks[r->b->rulebook_count++];

    r->layer.conv.op = SPC_CONV;
    g->rule = SPC_RULE_FOOTPRINT;
    memcpy(book->name, r->rulebook, sizeof(book->name));
    memcpy(book->layer, r->name, sizeof(book->layer));
    book->geometry = *g;
    book->in = r->in->tensor;
    book->out = SPC_NO_TENSOR; /* set when the layer is added */
    r->made = book;
    return SPC_OK;
}

/* spconv's SparseConvTranspose3d makes all voxels i * stride - padding +
 * dilation * place within a shape that follows from that of its inputs. */
spc_status spc__onnx_make_transposed(spc__onnx_layer *r, spc_geometry *g)
{
    spc_tensor_info in;
    spc_status status =
        spc_net_tensor_at(&in, r->b->net, r->in->tensor, r->b->error);

    if (status != SPC_OK)
        return status;
    if (in.shape[0] == 0)
        return spc__onnx_fail(r->node, SPC_EUNSUPPORTED,
                              "is transposed, and the spatial shape of its "
                              "inputs, by which its outputs are cut off, is "
                              "not known");
    /* Checks sizes before they are multiplied, so the products cannot
     * overflow. */
    g->rule = SPC_RULE_FOOTPRINT;
    if ((status = spc_geometry_check(g, r->b->error)) != SPC_OK)
        return spc__onnx_pass_on(r->node, status);
    for (int i = 0; i < 3; i++) {
        int64_t far = (int64_t)g->dilation[i] * (g->kernel[i] - 1);
        int64_t size = (int64_t)(in.shape[i] - 1) * g->stride[i] -
                       2 * (int64_t)g->padding[i] + far + 1 + r->out_padding[i];
        if (size < 1 || size > INT_MAX)
            return spc__onnx_fail(r->node, SPC_EFORMAT,
                                  "is transposed, and makes a shape of %lld "
                                  "voxels along %c",
                                  (long long)size, "xyz"[i]);
        g->origin[i] = -g->padding[i];
        g->shape[i] = (int)size;
        g->padding[i] = 0;
    }
    r->layer.conv.op = SPC_GENERATIVE;
    g->rule = SPC_RULE_GENERATIVE;
    return SPC_OK;
}

static bool lie_together(const spc__onnx_layer *r, spc_tensor a, spc_tensor b)
{
    spc_tensor_info one, other;

    return spc_net_tensor_at(&one, r->b->net, a, NULL) == SPC_OK &&
           spc_net_tensor_at(&other, r->b->net, b, NULL) == SPC_OK &&
           one.set == other.set;
}

/*
 * Finds the strided layer that made the rows of the inputs, whatever the name
 * of its rulebook: all layers that made these rows used one geometry and one
 * set. Otherwise returns the last rulebook with this name, for which the
 * network then reports why it cannot be inverted.
 */
static const spc__onnx_rulebook *find_inverted(const spc__onnx_layer *r,
                                               const spc_geometry *g)
{
    const spc__onnx_rulebook *named = NULL;

    for (int i = 0; i < r->b->rulebook_count; i++) {
        const spc__onnx_rulebook *book = &r->b->rulebooks[i];
        if (lie_together(r, book->out, r->in->tensor) &&
            memcmp(book->geometry.kernel, g->kernel, sizeof(g->kernel)) == 0)
            return book;
        if (r->rulebook[0] != '\0' && strcmp(book->name, r->rulebook) == 0)
            named = book;
    }
    return named;
}

/* The rows determine which layer is inverted. The network adds a note if the
 * rulebook belongs to another layer's map; this adds one if the rulebook is
 * unknown or missing. */
static spc_status note_rulebook(const spc__onnx_layer *r,
                                const spc__onnx_rulebook *book)
{
    char text[400], named[128] = "names no rulebook";

    for (int i = 0; i < r->b->rulebook_count; i++)
        if (r->rulebook[0] != '\0' &&
            strcmp(r->b->rulebooks[i].name, r->rulebook) == 0)
            return SPC_OK;
    if (r->rulebook[0] != '\0')
        snprintf(named, sizeof(named),
                 "names the rulebook '%s', which no strided layer before it "
                 "has",
                 r->rulebook);
    snprintf(text, sizeof(text),
             "layer '%s' is inverse and %s: it inverts '%s', which made "
             "its rows",
             r->name, named, book->layer);
    return spc_net_add_note(r->b->net, text, r->b->error);
}

/* Makes an inverse layer: its geometry and its rows are those of the strided
 * layer that made its inputs. */
static spc_status make_inverse(spc__onnx_layer *r, spc_geometry *g)
{
    const spc__onnx_rulebook *book = find_inverted(r, g);

    if (book == NULL)
        return spc__onnx_fail(r->node, SPC_EFORMAT,
                              "is inverse, but no strided layer before it made "
                              "the rows that it reads, or has the rulebook "
                              "'%s'",
                              r->rulebook);
    if (memcmp(book->geometry.kernel, g->kernel, sizeof(g->kernel)) != 0)
        return spc__onnx_fail(r->node, SPC_EFORMAT,
                              "has another kernel than the layer with the "
                              "rulebook '%s' that it inverts",
                              r->rulebook);
    r->layer.conv.op = SPC_INVERSE;
    *g = book->geometry;
    r->layer.at = book->in;
    return note_rulebook(r, book);
}

/* True for a kernel of one offset without displacement, which processes each
 * row separately. */
static spc_status read_geometry(spc__onnx_layer *r)
{
    spc_geometry *g = &r->layer.conv.geometry;
    spc_status status = read_sizes(r, g);

    if (status != SPC_OK)
        return status;
    if (r->inverse != 0)
        return make_inverse(r, g);
    if (r->transposed != 0)
        return spc__onnx_make_transposed(r, g);
    if (r->subm != 0 ||
        (is_one(g->kernel) && is_one(g->stride) && is_zero(g->padding)))
        return spc__onnx_make_subm(r, g);
    return spc__onnx_make_strided(r, g);
}

/* ---- fusing Relu and Add ------------------------------------------------- */

static spc_status read_activation(spc__onnx_layer *r)
{
    static const struct {
        const char *name;
        spc_activation activation;
    } names[] = {
        {"None", SPC_ACT_NONE},
        {"ReLU", SPC_ACT_RELU},
        {"Sigmoid", SPC_ACT_SIGMOID},
        {"LeakyReLU", SPC_ACT_LEAKY},
    };
    char text[32] = "None";
    spc_status status =
        spc__onnx_text(r->node, text, sizeof(text), "activation");

    for (int i = 0; i < 4 && status == SPC_OK; i++)
        if (strcmp(text, names[i].name) == 0) {
            r->layer.conv.activation = names[i].activation;
            return SPC_OK;
        }
    return status != SPC_OK
               ? status
               : spc__onnx_fail(r->node, SPC_EUNSUPPORTED,
                                "has the activation '%s': None, ReLU, Sigmoid "
                                "and LeakyReLU are known",
                                text);
}

/* Returns the other input of the Add that is the value's only user, if it
 * exists and is over the same rows as this layer's outputs. */
static spc__onnx_value *find_other(spc__onnx_layer *r, int adder)
{
    const Spc__Pb__Node *add = r->b->onnx->model->graph->node[adder];
    spc__onnx_node node =
        spc__onnx_node_at(r->b->onnx, adder, NULL); /* only for the query below,
                                                     * which reports no error */
    spc__onnx_value *other = NULL;

    if (add->n_input != 2)
        return NULL;
    int which = strcmp(add->input[0], r->out->name) == 0 ? 1 : 0;
    if (spc__onnx_input(&other, r->b, &node, which, SPC__ONNX_ROWS) != SPC_OK)
        return NULL;
    return other;
}

static bool is_add(const spc__onnx_layer *r, int consumer)
{
    const char *type =
        consumer >= 0 ? r->b->onnx->model->graph->node[consumer]->op_type : "";
    return strcmp(type, "Add") == 0 || strcmp(type, "QuantAdd") == 0;
}

/* Equal sets are found only when the layer is added. Until then, only layers
 * that keep their rows have a known output set. */
static bool lies_over_ours(const spc__onnx_layer *r, spc_tensor other)
{
    spc_tensor base = r->layer.conv.op == SPC_SUBM      ? r->layer.in
                      : r->layer.conv.op == SPC_INVERSE ? r->layer.at
                                                        : SPC_NO_TENSOR;
    spc_tensor_info ours, theirs;

    return base != SPC_NO_TENSOR &&
           spc_net_tensor_at(&ours, r->b->net, base, NULL) == SPC_OK &&
           spc_net_tensor_at(&theirs, r->b->net, other, NULL) == SPC_OK &&
           ours.set == theirs.set && theirs.channels == r->layer.conv.cout;
}

void spc__onnx_take_activation(spc__onnx_layer *r)
{
    if (r->layer.conv.activation == SPC_ACT_NONE &&
        spc__onnx_take_relu(r->b, &r->out))
        r->layer.conv.activation = SPC_ACT_RELU;
}

/* Fuses a following Add as the layer's residual, and a Relu after that as its
 * activation. */
void spc__onnx_take_add(spc__onnx_layer *r)
{
    int consumer = r->out->consumer;
    spc__onnx_value *other =
        is_add(r, consumer) ? find_other(r, consumer) : NULL;

    if (other == NULL || !lies_over_ours(r, other->tensor))
        return;
    r->b->done[consumer] = true;
    r->out = &r->b->values[r->b->input_count + consumer];
    r->layer.residual = other->tensor;
    /* The layer's own activation comes before the sum, a Relu that follows the
     * sum after it. */
    bool is_last = r->layer.conv.activation == SPC_ACT_NONE;
    spc__onnx_take_activation(r);
    r->layer.conv.add = is_last && r->layer.conv.activation != SPC_ACT_NONE
                            ? SPC_ADD_BEFORE
                            : SPC_ADD_AFTER;
}

/* ---- weights ------------------------------------------------------------- */

static const spc_array *array_of(const spc__onnx_layer *r, size_t input)
{
    return r->node->pb->n_input > input
               ? spc__onnx_array(r->b->onnx, r->node->pb->input[input])
               : NULL;
}

/* Gives the layer one of its arrays, a kernel in our layout. */
static spc_status set_param(spc__onnx_layer *r, spc_operand which,
                            const spc_array *array)
{
    spc_kernel_form form = SPC_KERNEL_FORM_INIT;
    int64_t count = spc_array_elements(array);
    float *values = calloc((size_t)count + 1, sizeof(*values));
    spc_status status;

    if (values == NULL)
        return spc__fail_memory(r->b->error, (size_t)count * sizeof(*values));
    form.engine =
        r->b->options->plain_matrices ? SPC_ENGINE_SPCTUNE : SPC_ENGINE_SPCONV2;
    form.axes = r->b->axes;
    status =
        which == SPC_OPERAND_WEIGHTS
            ? spc_kernel_load(values, &r->layer.conv, array, &form, r->b->error)
            : spc_array_floats(values, array, r->b->error);
    if (status == SPC_OK)
        status = spc_net_set_param(r->b->net, r->name, which, values, count,
                                   r->b->error);
    free(values);
    return status;
}

/* Counts kernels for which the shape and spconv 2 disagree. */
static void count_matrix(spc__onnx_layer *r)
{
    const spc_conv *conv = &r->layer.conv;

    if (r->b->options->plain_matrices || !is_one(conv->geometry.kernel) ||
        (conv->op == SPC_CONV && !is_one(conv->geometry.stride)))
        return;
    if (r->b->matrix_count++ == 0)
        memcpy(r->b->first_matrix, r->name, sizeof(r->name));
}

static spc_status set_params(spc__onnx_layer *r)
{
    spc_status status = set_param(r, SPC_OPERAND_WEIGHTS, array_of(r, 1));

    count_matrix(r);
    return status == SPC_OK && r->layer.conv.bias
               ? set_param(r, SPC_OPERAND_BIAS, array_of(r, 2))
               : status;
}

static spc_status check_inputs(const spc__onnx_layer *r)
{
    for (size_t i = 1; i < r->node->pb->n_input; i++)
        if (array_of(r, i) == NULL)
            return spc__onnx_fail(
                r->node, SPC_EFORMAT,
                "reads '%.60s', which is not an array of the file",
                r->node->pb->input[i]);
    return SPC_OK;
}

/* ---- the node ------------------------------------------------------------ */

/* Reads channels, kind and rulebook. */
static spc_status read_words(spc__onnx_layer *r)
{
    spc_conv *conv = &r->layer.conv;
    spc_status status;

    if ((status = spc__onnx_int(r->node, &conv->cin, "in_channels")) !=
            SPC_OK ||
        (status = spc__onnx_int(r->node, &conv->cout, "out_channels")) !=
            SPC_OK ||
        (status = spc__onnx_int(r->node, &r->subm, "subm")) != SPC_OK ||
        (status = spc__onnx_int(r->node, &r->inverse, "inverse")) != SPC_OK ||
        (status = spc__onnx_text(r->node, r->rulebook, sizeof(r->rulebook),
                                 "rulebook")) != SPC_OK)
        return status;
    conv->dtype = r->b->options->dtype;
    /* The inputs, the kernel, and a bias. */
    conv->bias = r->node->pb->n_input == 3;
    if ((r->subm != 0) + (r->inverse != 0) + (r->transposed != 0) > 1)
        return spc__onnx_fail(r->node, SPC_EFORMAT,
                              "has subm %d, inverse %d and transposed %d: "
                              "expected at most one of them",
                              r->subm, r->inverse, r->transposed);
    return SPC_OK;
}

/* Adds the layer to the network. */
static spc_status add_layer(spc__onnx_layer *r)
{
    spc_status status;

    r->layer.name = r->name;
    r->layer.key = r->rulebook;
    status =
        spc_net_add_conv(&r->out->tensor, r->b->net, &r->layer, r->b->error);
    r->out->kind = SPC__ONNX_ROWS;
    /* Now there is a tensor for the rulebook of a strided layer. */
    if (r->made != NULL)
        r->made->out = r->out->tensor;
    if (status == SPC_OK)
        status = set_params(r);
    return spc__onnx_pass_on(r->node, status);
}

spc_status spc__onnx_convolution(spc__onnx_builder *b,
                                 const spc__onnx_node *node)
{
    spc__onnx_layer r = {.b = b,
                         .node = node,
                         .out = spc__onnx_output(b, node),
                         .layer = SPC_NET_LAYER_INIT};
    spc_status status;

    spc__onnx_name(r.name, node);
    if ((status = spc__onnx_input(&r.in, b, node, 0, SPC__ONNX_ROWS)) !=
            SPC_OK ||
        (status = check_inputs(&r)) != SPC_OK ||
        (status = check_kind(&r)) != SPC_OK ||
        (status = read_words(&r)) != SPC_OK)
        return status;
    r.layer.in = r.in->tensor;
    if ((status = spc__onnx_check_shape(b, node, r.layer.in,
                                        "input_spatial_shape")) != SPC_OK ||
        (status = read_geometry(&r)) != SPC_OK ||
        (status = read_activation(&r)) != SPC_OK)
        return status;
    /* First a Relu between the layer and a sum, which belongs to the layer. */
    spc__onnx_take_activation(&r);
    spc__onnx_take_add(&r);
    if ((status = add_layer(&r)) != SPC_OK)
        return status;
    return spc__onnx_check_shape(b, node, r.out->tensor,
                                 "output_spatial_shape");
}
