/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_layers.c - adds layers: their sets, channels and checks.
 *
 * Every function checks all arguments before it changes the network, so a
 * refused layer leaves the network unchanged. Only an unused set or map may
 * remain. It costs nothing, as a plan makes only what its layers use.
 */
#include "net/net_nodes.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/sized.h"
#include "coords/voxelise.h"
#include "operators/conv.h"
#include "operators/feature.h"
#include "operators/geometry.h"
#include "operators/offset_store.h"
#include "operators/operands.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- input and outputs --------------------------------------------------- */

/* Returns a string with static storage, or NULL if the text is not an order of
 * axes. */
static const char *axes_of(const char *said)
{
    if (said == NULL || strcmp(said, "xyz") == 0)
        return "xyz";
    return strcmp(said, "zyx") == 0 ? "zyx" : NULL;
}

/* Checks the description of a network's input. */
static spc_status check_input(const spc_net *net, const spc_net_input *input,
                              spc_error *error)
{
    bool grid =
        input->voxel[0] != 0 || input->voxel[1] != 0 || input->voxel[2] != 0;

    if (axes_of(input->axes) == NULL)
        return spc__fail(error, SPC_EINVAL,
                         "the axes '%.20s' of an input: expected xyz or zyx",
                         input->axes);
    /* The first tensor and set 0 belong to the input, which all layers rely
     * on. */
    if (net->tensor_count > 0)
        return spc__fail(error, SPC_ESTATE, "the network has an input already");
    if (input->channels < 1 || input->channels > SPC__CHANNELS_MOST)
        return spc__fail(error, SPC_EINVAL,
                         "an input of %d channels: expected 1 to %d",
                         input->channels, SPC__CHANNELS_MOST);
    if (input->dtype != SPC_F16 && input->dtype != SPC_F32 &&
        input->dtype != SPC_BF16)
        return spc__fail(error, SPC_EINVAL,
                         "inputs are stored as f16, bf16 or f32");
    if (input->points < 0)
        return spc__fail(
            error, SPC_EINVAL,
            "%d points of a voxel: expected a positive number, or 0 for all",
            input->points);
    if (input->cloud && (grid || input->shape[0] > 0))
        return spc__fail(error, SPC_EINVAL,
                         "a network of clouds has no voxels: its input has "
                         "neither a shape nor a grid");
    for (int i = 0; i < 3; i++) {
        if (input->shape[i] < 0 || input->shape[i] > 1 << 20 ||
            (input->shape[i] > 0) != (input->shape[0] > 0))
            return spc__fail(error, SPC_EINVAL,
                             "a shape of %dx%dx%d voxels: expected three "
                             "positive numbers, or 0x0x0",
                             input->shape[0], input->shape[1], input->shape[2]);
        if (grid) {
            spc_status status = spc__voxel_axis_check(
                input->low[i], input->high[i], input->voxel[i], i, error);
            if (status != SPC_OK)
                return status;
        } else if (input->voxel[i] != 0 || !isfinite(input->low[i]) ||
                   !isfinite(input->high[i])) {
            return spc__fail(error, SPC_EINVAL,
                             "voxels along %c of %g from %g to %g: a positive "
                             "size, and the larger end last",
                             "xyz"[i], input -> voxel[i], input -> low[i],
                             input -> high[i]);
        }
    }
    return SPC_OK;
}

spc_status spc_net_add_input(spc_tensor *out, spc_net *net,
                             const spc_net_input *input, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "net", net, "out", out,
                                  "input", input, NULL);
    spc__net_set set = {.kind = SPC__NET_INPUT};

    if (out != NULL)
        *out = SPC_NO_TENSOR;
    if (status != SPC_OK ||
        (status = SPC__TAKE(spc_net_input, input, error)) != SPC_OK ||
        (status = check_input(net, input, error)) != SPC_OK ||
        (status = spc__net_text(&net->input_name,
                                input->name != NULL ? input->name : "x",
                                error)) != SPC_OK)
        return status;
    spc__net_tensor tensor = {.channels = input->channels,
                              .dtype = input->dtype,
                              .elements = input->channels,
                              .node = -1};
    memcpy(set.shape, input->shape, sizeof(set.shape));
    set.cloud = input->cloud;
    net->input = *input;
    /* The caller's strings may be gone when the network is read, so both point
     * to memory that lasts. */
    net->input.name = net->input_name;
    net->input.axes = axes_of(input->axes);
    if (spc__net_find_set(net, &set, error) < 0)
        return SPC_ENOMEM;
    *out = spc__net_add_tensor(net, &tensor, error);
    return *out < 0 ? SPC_ENOMEM : SPC_OK;
}

static bool has_output(const spc_net *net, const char *name)
{
    for (int i = 0; i < net->out_count; i++)
        if (strcmp(net->outs[i].name, name) == 0)
            return true;
    return false;
}

spc_status spc_net_add_output(spc_net *net, spc_tensor tensor, const char *name,
                              spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "net", net, "name", name, NULL);
    spc__net_out out = {NULL, tensor};
    void *outs;

    if (status != SPC_OK)
        return status;
    if ((status = spc__net_check_tensor(net, tensor, "tensor", error)) !=
        SPC_OK)
        return spc__fail_prefix(error, "output '%s': ", name);
    /* The input is the caller's memory, so there would be nothing to write. */
    if (net->tensors[tensor].node < 0)
        return spc__fail(error, SPC_EINVAL,
                         "output '%s' is the network's input", name);
    if (has_output(net, name))
        return spc__fail(error, SPC_EINVAL,
                         "two outputs are called '%s': give each its own name",
                         name);
    if ((status = spc__net_text(&out.name, name, error)) != SPC_OK)
        return status;
    outs = spc__net_grow(net->outs, net->out_count, sizeof(out));
    if (outs == NULL) {
        free(out.name);
        return spc__fail_memory(error, sizeof(out));
    }
    net->outs = outs;
    net->outs[net->out_count++] = out;
    return SPC_OK;
}

/* ---- convolutions -------------------------------------------------------- */

/* A linear layer needs no map: each row is independent. */
static spc_status find_conv_set(int *to, int *map, spc_net *net, spc_conv *conv,
                                const spc_net_layer *layer, spc_error *error)
{
    int in = net->tensors[layer->in].set;

    if (!spc_conv_is_linear(conv))
        return spc__net_resolve_set(to, map, net, &conv->geometry,
                                    spc__conv_is_inverse(conv), in, layer->at,
                                    error);
    *to = in;
    *map = -1;
    return SPC_OK;
}

/* tf32 is stored as f32. */
static spc_dtype memory_type(spc_dtype dtype)
{
    return dtype == SPC_TF32 ? SPC_F32 : dtype;
}

static spc_dtype out_type(const spc_conv *conv)
{
    return memory_type(spc__operand_of(conv, SPC_OPERAND_OUT, 0).dtype);
}

/* Checks a convolution against the tensor that it reads. */
static spc_status check_conv(const spc_net *net, const spc_conv *conv,
                             const spc_net_layer *layer, spc_error *error)
{
    const spc__net_tensor *in = &net->tensors[layer->in];
    spc_status status;

    /* The planner decides which tensors lie side by side. */
    if (conv->in_pitch || conv->out_pitch || conv->add_pitch)
        return spc__fail(error, SPC_EINVAL,
                         "the network sets the pitches: leave them 0");
    if (conv->pass != SPC_FORWARD)
        return spc__fail(
            error, SPC_EINVAL,
            "a network has only forward passes: gradients have separate plans");
    if (!(layer->eps >= 0 && layer->eps < INFINITY))
        return spc__fail(error, SPC_EINVAL,
                         "an eps of %g: expected a positive number, or 0",
                         layer->eps);
    if ((status = spc_conv_check(conv, error)) != SPC_OK)
        return status;
    if (conv->dtype == SPC_I8 || out_type(conv) == SPC_I8)
        return spc__fail(error, SPC_EINVAL,
                         "tensors of i8 need ranges: spc_net_quantise makes "
                         "them of a network of f16");
    if ((status = spc__net_check_width("it takes", conv->cin, in->channels,
                                       error)) != SPC_OK)
        return status;
    return spc__net_check_type("it takes", memory_type(conv->dtype), in->dtype,
                               error);
}

/* Checks the tensor that a layer adds. */
static spc_status check_residual(const spc_net *net, const spc_conv *conv,
                                 int residual, int set, spc_error *error)
{
    const spc__net_tensor *add;
    spc_status status;

    if (conv->add == SPC_ADD_NONE)
        return residual == SPC_NO_TENSOR
                   ? SPC_OK
                   : spc__fail(error, SPC_EINVAL,
                               "it has a residual, which its epilogue does not "
                               "add");
    if ((status = spc__net_check_any_rows(net, residual, "residual", error)) !=
        SPC_OK)
        return status;
    add = &net->tensors[residual];
    if (add->set != set)
        return spc__fail(
            error, SPC_EINVAL,
            "its residual has another coordinate set than its outputs");
    status = spc__net_check_width("its residual must have", conv->cout,
                                  add->channels, error);
    return status == SPC_OK
               ? spc__net_check_type("its residual must have", out_type(conv),
                                     add->dtype, error)
               : status;
}

/* Takes the sizes of the parameters from the layer's operands. */
static void count_conv_params(spc__net_node *node)
{
    for (int i = 0; i < SPC__NET_PARAMS; i++) {
        spc__operand o = spc__operand_of(&node->conv, spc__net_operands[i], 0);
        node->counts[i] = o.present ? o.rows * o.columns : 0;
    }
}

/* Completes, checks and adds a convolution. */
static spc_status make_conv(spc_net *net, spc_tensor *out, spc__net_node *node,
                            const spc_net_layer *layer, spc_error *error)
{
    spc_conv *conv = &node->conv;
    spc__net_tensor tensor = {0};
    spc_status status;

    status = spc_conv_is_linear(conv)
                 ? spc__net_check_any_rows(net, layer->in, "in", error)
                 : spc__net_check_rows(net, layer->in, "in", error);
    if (status != SPC_OK)
        return status;
    /* Completes the layer before the checks, which need all channels. */
    if (conv->cin == 0)
        conv->cin = net->tensors[layer->in].channels;
    /* The operator is checked before a place is found for its outputs, since
     * that adds a set or map to the network. */
    if ((status = spc__operator_check(conv, error)) != SPC_OK ||
        (status = find_conv_set(&tensor.set, &node->map, net, conv, layer,
                                error)) != SPC_OK ||
        (status = check_conv(net, conv, layer, error)) != SPC_OK ||
        (status = check_residual(net, conv, layer->residual, tensor.set,
                                 error)) != SPC_OK ||
        (status = spc__net_text(&node->norm, layer->norm, error)) != SPC_OK)
        return status;
    tensor.channels = conv->cout;
    tensor.elements = conv->cout;
    tensor.dtype = out_type(conv);
    count_conv_params(node);
    status = spc__net_name_node(node, net, layer->name, error);
    if (status == SPC_OK && node->map >= 0)
        status =
            spc__net_check_key(net, layer->key, node->map, node->name, error);
    if (status != SPC_OK) {
        free(node->name);
        free(node->norm);
        return status;
    }
    return spc__net_add_node(net, out, node, &tensor, error);
}

spc_status spc_net_add_conv(spc_tensor *out, spc_net *net,
                            const spc_net_layer *layer, spc_error *error)
{
    spc_status status = spc__net_begin(__func__, net, out, layer, error);

    if (status != SPC_OK ||
        (status = SPC__TAKE(spc_net_layer, layer, error)) != SPC_OK)
        return status;
    spc__net_node node = {
        .kind = SPC__NODE_CONV,
        .eps = layer->eps > 0 ? layer->eps : 1e-5,
        .conv = layer->conv,
        .in = {layer->in},
        .ins = 1,
        .add = layer->residual,
    };
    if ((status = spc__geometry_keep(&node.conv.geometry, error)) == SPC_OK)
        status = make_conv(net, out, &node, layer, error);
    return status == SPC_OK ? status
                            : spc__net_fail_layer(net, layer->name, error);
}

/* ---- operators on features ----------------------------------------------- */

int spc__net_index(const spc__net_node *node)
{
    const spc_feature *f = &node->feature;

    if (node->kind != SPC__NODE_FEATURE || !f->index)
        return SPC_NO_TENSOR;
    /* The indices are the tensor right after the outputs of the pooling. */
    return (spc__feature_stores_index(f) ? node->out : node->add) + 1;
}

/* The pooling that made `pooled` and stored the rows of its maxima, or NULL. */
static const spc__net_node *pooling_of(const spc_net *net, int pooled)
{
    int n = pooled >= 0 && pooled < net->tensor_count
                ? net->tensors[pooled].node
                : -1;
    const spc__net_node *node = n >= 0 ? &net->nodes[n] : NULL;
    bool stores = node != NULL && node->out == pooled &&
                  spc__net_index(node) == pooled + 1;

    return stores && spc__feature_stores_index(&node->feature) ? node : NULL;
}

/* Its inputs must be over the same set as the pooling's outputs. */
static spc_status check_pooling(const spc_net *net, int in, int pooled,
                                spc_error *error)
{
    if (pooling_of(net, pooled) == NULL)
        return spc__fail(error, SPC_EINVAL,
                         "which indices does it read? Its `add`, in Lua "
                         "`index`, must be the outputs of a pool=max with "
                         "index=1");
    if (net->tensors[pooled].set != net->tensors[in].set)
        return spc__fail(error, SPC_EINVAL,
                         "its inputs have another coordinate set than the "
                         "indices that it reads");
    return spc__net_check_width("its indices are of",
                                net->tensors[pooled].channels,
                                net->tensors[in].channels, error);
}

/* It must return to the pooled voxels by the pooling's own map. */
static spc_status check_way_back(const spc_net *net, const spc__net_node *node,
                                 spc_error *error)
{
    const spc__net_node *pooling = pooling_of(net, node->add);
    const spc__net_map *map = &net->maps[node->map];

    if (map->to == net->tensors[pooling->in[0]].set &&
        spc__geometry_equal(&map->geometry, &net->maps[pooling->map].geometry))
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "the indices that it reads are of layer '%s', which "
                     "pooled other voxels or by another geometry",
                     pooling->name);
}

/* Fills in defaults from the input for members that the layer left out. */
static spc_status complete_feature(spc_feature *f, const spc_net *net, int in,
                                   spc_error *error)
{
    const spc__net_tensor *t = &net->tensors[in];
    const int *shape = net->sets[t->set].shape;

    if (f->channels == 0)
        f->channels = t->channels;
    /* Planes cover the set's shape unless the layer names one. */
    if (spc__feature_has_planes(f) && f->shape[0] == 0)
        memcpy(f->shape, shape, sizeof(f->shape));
    return SPC_OK;
}

/* The second operand: rows of the same set, or one row per batch element. */
static spc_status check_add(const spc_net *net, const spc_feature *f,
                            const spc__net_tensor *in, int add,
                            spc_error *error)
{
    bool by_batch = spc__feature_adds_by_batch(f);
    const char *does = by_batch ? "it multiplies by" : "it adds";
    const spc__net_tensor *t;
    spc_status status =
        spc__net_check_any_rows(net, add, by_batch ? "by" : "add", error);

    if (status != SPC_OK)
        return status;
    t = &net->tensors[add];
    if (by_batch && net->sets[t->set].kind != SPC__NET_BATCHES)
        return spc__fail(error, SPC_EINVAL,
                         "its second operand must have a row for each batch "
                         "element: global pooling makes such rows");
    if (!by_batch && t->set != in->set)
        return spc__fail(
            error, SPC_EINVAL,
            "its operands have two coordinate sets: use a union of both");
    status = spc__net_check_width(does, in->channels, t->channels, error);
    return status == SPC_OK
               ? spc__net_check_type(does, in->dtype, t->dtype, error)
               : status;
}

/* Checks an operator on features against the tensor that it reads. */
static spc_status check_feature(const spc_net *net, const spc_feature *f,
                                int in, int add, spc_error *error)
{
    const spc__net_tensor *t = &net->tensors[in];
    spc_status status;

    if (net->sets[t->set].cloud && !spc__feature_is_by_row(f))
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "its inputs are points: operators that take each row "
                         "by itself are for them");
    if ((status = spc_feature_check(f, error)) != SPC_OK ||
        (status = spc__net_check_width("it takes", f->channels, t->channels,
                                       error)) != SPC_OK ||
        (status = spc__net_check_type("it takes", f->dtype, t->dtype, error)) !=
            SPC_OK)
        return status;
    if (f->pass != SPC_FORWARD)
        return spc__fail(
            error, SPC_EINVAL,
            "gradients are not layers of a network: spc_training makes them");
    if (spc__feature_reads_index(f))
        return SPC_OK; /* `add` was checked above */
    if (!spc__feature_adds(f))
        return add == SPC_NO_TENSOR
                   ? SPC_OK
                   : spc__fail(error, SPC_EINVAL, "it adds nothing");
    return check_add(net, f, t, add, error);
}

/* Describes the output of an operator and counts its parameters. */
static void describe_feature(spc__net_node *node, spc__net_tensor *tensor)
{
    const spc_feature *f = &node->feature;

    tensor->dense = spc__feature_is_by_batch(f);
    tensor->elements = spc_feature_elements_out(f);
    tensor->channels =
        spc__feature_has_planes(f) ? f->channels : (int)spc__feature_outputs(f);
    tensor->dtype = f->dtype;
    node->counts[1] = node->counts[2] =
        spc__feature_has_scale(f) ? f->channels : 0;
}

/* Appends the layer and, after its outputs, the indices that it stores. */
static spc_status append_feature(spc_net *net, spc_tensor *out,
                                 spc__net_node *node, spc__net_tensor *tensor,
                                 spc_error *error)
{
    bool stores = spc__feature_stores_index(&node->feature);
    spc_status status = spc__net_add_node(net, out, node, tensor, error);
    spc__net_tensor index = {.set = tensor->set,
                             .channels = tensor->channels,
                             .elements = tensor->elements,
                             .dtype = SPC_F32, /* as wide as an int32 index */
                             .index = true,
                             .node = tensor->node};

    if (status != SPC_OK || !stores)
        return status;
    return spc__net_add_tensor(net, &index, error) < 0 ? SPC_ENOMEM : SPC_OK;
}

/* The set of the outputs; for an un-pooling by indices it is the pooling's
 * input set. */
static spc_status find_feature_set(spc__net_tensor *tensor, spc_net *net,
                                   spc__net_node *node, int at,
                                   spc_error *error)
{
    spc_feature *f = &node->feature;
    int in = node->in[0];
    spc_status status;

    tensor->set = net->tensors[in].set;
    /* Rows of batch elements have one common set, so that layers after it can
     * match them. */
    if (spc__feature_is_by_batch(f) && !spc__feature_has_planes(f))
        tensor->set = spc__net_find_set(
            net, &(spc__net_set){.kind = SPC__NET_BATCHES}, error);
    if (tensor->set < 0)
        return SPC_ENOMEM;
    if (!spc__feature_takes_map(f))
        return SPC_OK;
    if (spc__feature_reads_index(f)) {
        if ((status = check_pooling(net, in, node->add, error)) != SPC_OK)
            return status;
        /* The indices name rows of the pooling's inputs, so these are the
         * outputs by default. */
        if (at == SPC_NO_TENSOR)
            at = pooling_of(net, node->add)->in[0];
    }
    status = spc__net_resolve_set(&tensor->set, &node->map, net, &f->geometry,
                                  spc__feature_takes_inverse(f), tensor->set,
                                  at, error);
    return status == SPC_OK && spc__feature_reads_index(f)
               ? check_way_back(net, node, error)
               : status;
}

/* Completes, checks and adds an operator on features. */
static spc_status make_feature(spc_net *net, spc_tensor *out,
                               spc__net_node *node, const char *name, int at,
                               spc_error *error)
{
    spc_feature *f = &node->feature;
    spc__net_tensor tensor = {0};
    spc_status status;
    int in = node->in[0];

    status = spc__feature_is_by_row(f)
                 ? spc__net_check_any_rows(net, in, "in", error)
                 : spc__net_check_rows(net, in, "in", error);
    if (status != SPC_OK ||
        (status = complete_feature(f, net, in, error)) != SPC_OK ||
        (status = find_feature_set(&tensor, net, node, at, error)) != SPC_OK ||
        (status = check_feature(net, f, in, node->add, error)) != SPC_OK)
        return status;
    describe_feature(node, &tensor);
    if ((status = spc__net_name_node(node, net, name, error)) != SPC_OK)
        return status;
    return append_feature(net, out, node, &tensor, error);
}

spc_status spc_net_add_feature(spc_tensor *out, spc_net *net, const char *name,
                               const spc_feature *feature, spc_tensor in,
                               spc_tensor add, spc_tensor at, spc_error *error)
{
    spc_status status = spc__net_begin(__func__, net, out, feature, error);

    if (status != SPC_OK)
        return status;
    spc__net_node node = {
        .kind = SPC__NODE_FEATURE,
        .feature = *feature,
        .map = -1,
        .in = {in},
        .ins = 1,
        .add = add,
    };
    if ((status = spc__geometry_keep(&node.feature.geometry, error)) == SPC_OK)
        status = make_feature(net, out, &node, name, at, error);
    return status == SPC_OK ? status : spc__net_fail_layer(net, name, error);
}
