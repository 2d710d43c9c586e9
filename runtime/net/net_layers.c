/*
 * net_layers.c - adding layers: what they lie over, how wide they are, what is
 * wrong with them.
 *
 * Every function checks all that it was given before it changes the network, so
 * that a refused layer leaves it as it was; but for a set or a map that nobody
 * uses, which costs nothing: a plan makes what its layers use.
 */
#include "net.h"

#include "conv.h"
#include "dtype.h"
#include "error.h"
#include "feature.h"
#include "geometry.h"
#include "operands.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ------------------------------------------------------------- */

static spc_status check_tensor(const spc_net *net, int tensor, const char *what,
                               spc_error *error)
{
    if (tensor >= 0 && tensor < net->tensor_count)
        return SPC_OK;
    if (tensor == SPC_NO_TENSOR)
        return spc__fail(error, SPC_EINVAL, "its `%s` is missing", what);
    return spc__fail(error, SPC_EINVAL,
                     "its `%s` is tensor %d: the network has %d", what, tensor,
                     net->tensor_count);
}

/* Rows of voxels, and not a dense plane. */
static spc_status check_rows(const spc_net *net, int tensor, const char *what,
                             spc_error *error)
{
    spc_status status = check_tensor(net, tensor, what, error);

    if (status == SPC_OK && net->tensors[tensor].dense)
        status = spc__fail(error, SPC_EINVAL,
                           "its `%s` is dense: only outputs of the network can "
                           "be",
                           what);
    return status;
}

static spc_status check_width(const char *what, int has, int channels,
                              spc_error *error)
{
    return has == channels ? SPC_OK
                           : spc__fail(error, SPC_EINVAL,
                                       "%s %d channels, the tensor has %d",
                                       what, has, channels);
}

static spc_status check_type(const char *what, spc_dtype has, spc_dtype dtype,
                             spc_error *error)
{
    return has == dtype
               ? SPC_OK
               : spc__fail(error, SPC_EINVAL, "%s %s, the tensor has %s", what,
                           spc__dtype_names[has], spc__dtype_names[dtype]);
}

/* Appends a tensor; returns its number, -1 without memory. */
static int add_tensor(spc_net *net, const spc__net_tensor *tensor,
                      spc_error *error)
{
    void *tensors =
        spc__net_grow(net->tensors, net->tensor_count, sizeof(*tensor));

    if (tensors == NULL)
        return spc__fail_memory(error, sizeof(*tensor)), -1;
    net->tensors = tensors;
    net->tensors[net->tensor_count] = *tensor;
    return net->tensor_count++;
}

/* ---- nodes --------------------------------------------------------------- */

static bool name_taken(const spc_net *net, const char *name)
{
    for (int i = 0; i < net->node_count; i++)
        if (strcmp(net->nodes[i].name, name) == 0)
            return true;
    return false;
}

static spc_status name_node(spc__net_node *node, const spc_net *net,
                            const char *name, spc_error *error)
{
    char own[24];

    if (name != NULL && name_taken(net, name))
        return spc__fail(error, SPC_EINVAL, "there is a layer of this name");
    snprintf(own, sizeof(own), "layer%d", net->node_count + 1);
    return spc__net_text(&node->name, name != NULL ? name : own, error);
}

/* Appends a node and the tensor that it makes; takes what the node owns over,
 * also on failure. */
static spc_status add_node(spc_net *net, spc_tensor *out, spc__net_node *node,
                           spc__net_tensor *tensor, spc_error *error)
{
    void *nodes = spc__net_grow(net->nodes, net->node_count, sizeof(*node));

    if (nodes != NULL) {
        net->nodes = nodes;
        tensor->node = net->node_count;
        node->out = add_tensor(net, tensor, error);
    }
    if (nodes == NULL || node->out < 0) {
        free(node->name);
        free(node->norm);
        return spc__fail_memory(error, sizeof(*node));
    }
    net->nodes[net->node_count++] = *node;
    *out = node->out;
    return SPC_OK;
}

/* Every failure names the layer. */
static spc_status fail_layer(const spc_net *net, const char *name,
                             spc_error *error)
{
    if (name != NULL)
        return spc__fail_prefix(error, "layer '%s': ", name);
    return spc__fail_prefix(error, "layer %d: ", net->node_count + 1);
}

static spc_status begin(const char *function, const spc_net *net,
                        spc_tensor *out, const void *what, spc_error *error)
{
    spc_status status = spc__need(error, function, "net", net, "out", out,
                                  "what is to be added", what, NULL);

    if (out != NULL)
        *out = SPC_NO_TENSOR;
    if (status == SPC_OK && net->tensor_count == 0)
        status = spc__fail(error, SPC_ESTATE,
                           "the network has no input yet: spc_net_add_input "
                           "comes first");
    return status;
}

/* ---- input and outputs --------------------------------------------------- */

static spc_status check_input(const spc_net *net, const spc_net_input *input,
                              spc_error *error)
{
    bool grid = input->voxel[0] > 0;

    if (net->tensor_count > 0)
        return spc__fail(error, SPC_ESTATE, "the network has an input already");
    if (input->channels < 1 || input->channels > SPC__CHANNELS_MOST)
        return spc__fail(error, SPC_EINVAL,
                         "an input of %d channels: 1 to %d is right",
                         input->channels, SPC__CHANNELS_MOST);
    if (input->dtype != SPC_F16 && input->dtype != SPC_F32 &&
        input->dtype != SPC_BF16)
        return spc__fail(error, SPC_EINVAL,
                         "inputs lie in memory as f16, bf16 or f32");
    for (int i = 0; i < 3; i++) {
        if (input->shape[i] < 0 || input->shape[i] > 1 << 20 ||
            (input->shape[i] > 0) != (input->shape[0] > 0))
            return spc__fail(error, SPC_EINVAL,
                             "a shape of %dx%dx%d voxels: three positive "
                             "numbers are right, or three times 0",
                             input->shape[0], input->shape[1], input->shape[2]);
        if (grid != (input->voxel[i] > 0) ||
            (grid && !(input->low[i] < input->high[i])))
            return spc__fail(error, SPC_EINVAL,
                             "voxels along %c of %g from %g to %g: a positive "
                             "size, and the larger end last",
                             "xyz"[i], input -> voxel[i], input -> low[i],
                             input -> high[i]);
    }
    return SPC_OK;
}

spc_status spc_net_add_input(spc_net *net, spc_tensor *out,
                             const spc_net_input *input, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "net", net, "out", out,
                                  "input", input, NULL);
    spc__net_set set = {.kind = SPC__NET_INPUT};

    if (out != NULL)
        *out = SPC_NO_TENSOR;
    if (status != SPC_OK ||
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
    net->input = *input;
    net->input.name = net->input_name;
    if (spc__net_find_set(net, &set, error) < 0)
        return SPC_ENOMEM;
    *out = add_tensor(net, &tensor, error);
    return *out < 0 ? SPC_ENOMEM : SPC_OK;
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
    if ((status = check_tensor(net, tensor, "tensor", error)) != SPC_OK)
        return spc__fail_prefix(error, "output '%s': ", name);
    if (net->tensors[tensor].node < 0)
        return spc__fail(error, SPC_EINVAL,
                         "output '%s' is the network's input", name);
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

/* ---- which sets a layer is between --------------------------------------- */

/* A FOOTPRINT is cut by the shape of the set that it starts from. */
static spc_status complete_shape(spc_geometry *g, const spc__net_set *from,
                                 spc_error *error)
{
    if (g->rule != SPC_RULE_FOOTPRINT || from->shape[0] == 0)
        return SPC_OK;
    if (g->shape[0] == 0)
        memcpy(g->shape, from->shape, sizeof(g->shape));
    if (memcmp(g->shape, from->shape, sizeof(g->shape)) != 0)
        return spc__fail(error, SPC_EINVAL,
                         "shape=%dx%dx%d: its inputs have %dx%dx%d",
                         g->shape[0], g->shape[1], g->shape[2], from->shape[0],
                         from->shape[1], from->shape[2]);
    return SPC_OK;
}

static bool derives(const spc_geometry *g)
{
    return g->rule != SPC_RULE_SUBM && g->rule != SPC_RULE_GIVEN;
}

/* The set that an inverse layer goes back to, checked: the inputs must be its
 * outputs by this very geometry. */
static spc_status find_back(int *to, spc_net *net, spc_geometry *g, int in,
                            int at, spc_error *error)
{
    const spc__net_set *set = &net->sets[in];
    spc__net_set outputs;
    spc_status status;

    if (at == SPC_NO_TENSOR && set->kind != SPC__NET_OUTPUTS)
        return spc__fail(error, SPC_EINVAL,
                         "its inputs were derived from no other set: there is "
                         "nothing to go back to");
    *to = at == SPC_NO_TENSOR ? set->from[0] : net->tensors[at].set;
    if ((status = complete_shape(g, &net->sets[*to], error)) != SPC_OK)
        return status;
    spc__net_outputs_of(&outputs, net, *to, g);
    if (set->kind != SPC__NET_OUTPUTS || !spc__net_set_equal(set, &outputs))
        return spc__fail(error, SPC_EINVAL,
                         "its inputs are not what its geometry derives from "
                         "the set that it goes back to");
    return SPC_OK;
}

/* The set of a layer's outputs, and its map. */
static spc_status place(int *to, int *map, spc_net *net, spc_geometry *g,
                        bool inverse, int in, int at, spc_error *error)
{
    spc__net_set outputs;
    spc__net_map made = {.in = in, .inverse = inverse};
    spc_status status = SPC_OK;

    *to = in;
    if (g->rule == SPC_RULE_RADIUS)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "networks have no layers of points: spc_map_radius "
                         "and plans run them one by one");
    if (inverse && g->rule != SPC_RULE_GENERATIVE &&
        g->rule != SPC_RULE_GIVEN) {
        status = find_back(to, net, g, in, at, error);
    } else if (g->rule == SPC_RULE_GIVEN) {
        if ((status = check_rows(net, at, "at", error)) == SPC_OK)
            *to = net->tensors[at].set;
    } else if (derives(g)) {
        status = complete_shape(g, &net->sets[in], error);
        if (status == SPC_OK &&
            (status = spc_geometry_check(g, error)) == SPC_OK) {
            spc__net_outputs_of(&outputs, net, in, g);
            if ((*to = spc__net_find_set(net, &outputs, error)) < 0)
                status = SPC_ENOMEM;
        }
    }
    if (status != SPC_OK || (status = spc_geometry_check(g, error)) != SPC_OK)
        return status;
    made.to = *to;
    made.geometry = *g;
    *map = spc__net_find_map(net, &made, error);
    return *map < 0 ? SPC_ENOMEM : SPC_OK;
}

/* A linear layer needs no map: each row by itself. */
static spc_status place_conv(int *to, int *map, spc_net *net, spc_conv *conv,
                             const spc_net_layer *layer, spc_error *error)
{
    int in = net->tensors[layer->in].set;

    if (!spc_conv_is_linear(conv))
        return place(to, map, net, &conv->geometry, spc__conv_is_inverse(conv),
                     in, layer->at, error);
    *to = in;
    *map = -1;
    return SPC_OK;
}

/* ---- keys ---------------------------------------------------------------- */

/* An inverse layer has the key of the layer that it inverts. */
static bool same_relation(const spc__net_map *a, const spc__net_map *b)
{
    bool swapped = a->inverse != b->inverse;

    return a->in == (swapped ? b->to : b->in) &&
           a->to == (swapped ? b->in : b->to) &&
           spc__geometry_equal(&a->geometry, &b->geometry);
}

static spc_status add_note(spc_net *net, const char *text, spc_error *error)
{
    char *note;
    void *notes;
    spc_status status = spc__net_text(&note, text, error);

    if (status != SPC_OK)
        return status;
    notes = spc__net_grow(net->notes, net->note_count, sizeof(note));
    if (notes == NULL) {
        free(note);
        return spc__fail_memory(error, sizeof(note));
    }
    net->notes = notes;
    net->notes[net->note_count++] = note;
    return SPC_OK;
}

static spc_status note_key(spc_net *net, const spc__net_key *key,
                           const char *layer, spc_error *error)
{
    char text[320];

    snprintf(text, sizeof(text),
             "layers '%.60s' and '%.60s' have the key '%.60s', but their maps "
             "differ: the key is not followed",
             net->nodes[key->node].name, layer, key->name);
    return add_note(net, text, error);
}

/* Is the key as good as its word? Called before the layer is there. */
static spc_status check_key(spc_net *net, const char *key, int map,
                            const char *layer, spc_error *error)
{
    spc__net_key made = {NULL, map, net->node_count};
    void *keys;
    spc_status status;

    if (key == NULL || key[0] == '\0')
        return SPC_OK;
    for (int i = 0; i < net->key_count; i++)
        if (strcmp(net->keys[i].name, key) == 0)
            return same_relation(&net->maps[net->keys[i].map], &net->maps[map])
                       ? SPC_OK
                       : note_key(net, &net->keys[i], layer, error);
    if ((status = spc__net_text(&made.name, key, error)) != SPC_OK)
        return status;
    keys = spc__net_grow(net->keys, net->key_count, sizeof(made));
    if (keys == NULL) {
        free(made.name);
        return spc__fail_memory(error, sizeof(made));
    }
    net->keys = keys;
    net->keys[net->key_count++] = made;
    return SPC_OK;
}

/* ---- convolutions -------------------------------------------------------- */

/* tf32 lies in memory as f32. */
static spc_dtype memory_type(spc_dtype dtype)
{
    return dtype == SPC_TF32 ? SPC_F32 : dtype;
}

static spc_dtype out_type(const spc_conv *conv)
{
    return memory_type(spc__operand_of(conv, SPC_OUT, 0).dtype);
}

static spc_status check_conv(const spc_net *net, const spc_conv *conv,
                             const spc_net_layer *layer, spc_error *error)
{
    const spc__net_tensor *in = &net->tensors[layer->in];
    spc_status status;

    if (conv->in_pitch || conv->out_pitch || conv->add_pitch)
        return spc__fail(error, SPC_EINVAL,
                         "pitches are the network's matter: leave them 0");
    if ((status = spc_conv_check(conv, error)) != SPC_OK)
        return status;
    if ((status = check_width("it takes", conv->cin, in->channels, error)) !=
        SPC_OK)
        return status;
    return check_type("it takes", memory_type(conv->dtype), in->dtype, error);
}

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
    if ((status = check_rows(net, residual, "residual", error)) != SPC_OK)
        return status;
    add = &net->tensors[residual];
    if (add->set != set)
        return spc__fail(error, SPC_EINVAL,
                         "its residual lies over another coordinate set than "
                         "its outputs");
    status =
        check_width("its residual must have", conv->cout, add->channels, error);
    return status == SPC_OK ? check_type("its residual must have",
                                         out_type(conv), add->dtype, error)
                            : status;
}

static void count_conv_params(spc__net_node *node)
{
    for (int i = 0; i < SPC__NET_PARAMS; i++) {
        spc__operand o = spc__operand_of(&node->conv, spc__net_operands[i], 0);
        node->counts[i] = o.present ? o.rows * o.columns : 0;
    }
}

static spc_status make_conv(spc_net *net, spc_tensor *out, spc__net_node *node,
                            const spc_net_layer *layer, spc_error *error)
{
    spc_conv *conv = &node->conv;
    spc__net_tensor tensor = {0};
    spc_status status;

    if ((status = check_rows(net, layer->in, "in", error)) != SPC_OK)
        return status;
    if (conv->cin == 0)
        conv->cin = net->tensors[layer->in].channels;
    if ((status = spc__operator_check(conv, error)) != SPC_OK ||
        (status = place_conv(&tensor.set, &node->map, net, conv, layer,
                             error)) != SPC_OK ||
        (status = check_conv(net, conv, layer, error)) != SPC_OK ||
        (status = check_residual(net, conv, layer->residual, tensor.set,
                                 error)) != SPC_OK ||
        (status = name_node(node, net, layer->name, error)) != SPC_OK)
        return status;
    tensor.channels = conv->cout;
    tensor.elements = conv->cout;
    tensor.dtype = out_type(conv);
    count_conv_params(node);
    status = spc__net_text(&node->norm, layer->norm, error);
    if (status == SPC_OK && node->map >= 0)
        status = check_key(net, layer->key, node->map, node->name, error);
    if (status != SPC_OK) {
        free(node->name);
        free(node->norm);
        return status;
    }
    return add_node(net, out, node, &tensor, error);
}

spc_status spc_net_add_conv(spc_net *net, spc_tensor *out,
                            const spc_net_layer *layer, spc_error *error)
{
    spc_status status = begin(__func__, net, out, layer, error);

    if (status != SPC_OK)
        return status;
    spc__net_node node = {
        .kind = SPC__NODE_CONV,
        .eps = layer->eps > 0 ? layer->eps : 1e-5,
        .conv = layer->conv,
        .in = {layer->in},
        .ins = 1,
        .add = layer->residual,
    };
    status = make_conv(net, out, &node, layer, error);
    return status == SPC_OK ? status : fail_layer(net, layer->name, error);
}

/* ---- operators on features ----------------------------------------------- */

static spc_status complete_feature(spc_feature *f, const spc_net *net, int in,
                                   spc_error *error)
{
    const spc__net_tensor *t = &net->tensors[in];
    const int *shape = net->sets[t->set].shape;

    if (f->index)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "operators with an index are not for networks");
    if (f->channels == 0)
        f->channels = t->channels;
    if (f->op == SPC_FEATURE_BEV && f->shape[0] == 0)
        memcpy(f->shape, shape, sizeof(f->shape));
    return SPC_OK;
}

static spc_status check_feature(const spc_net *net, const spc_feature *f,
                                int in, int add, spc_error *error)
{
    const spc__net_tensor *t = &net->tensors[in];
    spc_status status;

    if ((status = spc_feature_check(f, error)) != SPC_OK ||
        (status = check_width("it takes", f->channels, t->channels, error)) !=
            SPC_OK ||
        (status = check_type("it takes", f->dtype, t->dtype, error)) != SPC_OK)
        return status;
    if (f->op != SPC_FEATURE_ADD)
        return add == SPC_NO_TENSOR
                   ? SPC_OK
                   : spc__fail(error, SPC_EINVAL, "it adds nothing");
    if ((status = check_rows(net, add, "add", error)) != SPC_OK)
        return status;
    if (net->tensors[add].set != t->set)
        return spc__fail(error, SPC_EINVAL,
                         "what it adds lies over another coordinate set: a "
                         "union of both has the sum");
    status =
        check_width("it adds", t->channels, net->tensors[add].channels, error);
    return status == SPC_OK
               ? check_type("it adds", t->dtype, net->tensors[add].dtype, error)
               : status;
}

static void describe_feature(spc__net_node *node, spc__net_tensor *tensor)
{
    const spc_feature *f = &node->feature;
    bool norm =
        f->op == SPC_FEATURE_LAYERNORM || f->op == SPC_FEATURE_GROUPNORM;

    tensor->dense = f->op == SPC_FEATURE_GLOBAL || f->op == SPC_FEATURE_BEV;
    tensor->elements = spc_feature_row_out(f);
    tensor->channels =
        f->op == SPC_FEATURE_BEV ? f->channels : (int)spc__feature_outputs(f);
    tensor->dtype = f->dtype;
    node->counts[1] = node->counts[2] = norm && f->affine ? f->channels : 0;
}

static spc_status make_feature(spc_net *net, spc_tensor *out,
                               spc__net_node *node, const char *name, int at,
                               spc_error *error)
{
    spc_feature *f = &node->feature;
    spc__net_tensor tensor = {0};
    spc_status status;
    int in = node->in[0];

    if ((status = check_rows(net, in, "in", error)) != SPC_OK ||
        (status = complete_feature(f, net, in, error)) != SPC_OK)
        return status;
    tensor.set = net->tensors[in].set;
    if (spc__feature_takes_map(f) &&
        (status = place(&tensor.set, &node->map, net, &f->geometry,
                        f->op == SPC_FEATURE_UNPOOL, tensor.set, at, error)) !=
            SPC_OK)
        return status;
    if ((status = check_feature(net, f, in, node->add, error)) != SPC_OK ||
        (status = name_node(node, net, name, error)) != SPC_OK)
        return status;
    describe_feature(node, &tensor);
    return add_node(net, out, node, &tensor, error);
}

spc_status spc_net_add_feature(spc_net *net, spc_tensor *out, const char *name,
                               const spc_feature *feature, spc_tensor in,
                               spc_tensor add, spc_tensor at, spc_error *error)
{
    spc_status status = begin(__func__, net, out, feature, error);

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
    status = make_feature(net, out, &node, name, at, error);
    return status == SPC_OK ? status : fail_layer(net, name, error);
}

/* ---- several tensors ----------------------------------------------------- */

static spc_status take_parts(spc__net_node *node, const spc_net *net,
                             const spc_tensor *parts, int count,
                             spc_error *error)
{
    spc_status status;

    if (count < 1 || count > SPC__NET_SOURCES)
        return spc__fail(error, SPC_EINVAL, "%d tensors: 1 to %d are right",
                         count, SPC__NET_SOURCES);
    for (int i = 0; i < count; i++) {
        if ((status = check_rows(net, parts[i], "parts", error)) != SPC_OK ||
            (status = check_type("the first has", net->tensors[parts[0]].dtype,
                                 net->tensors[parts[i]].dtype, error)) !=
                SPC_OK)
            return status;
        node->in[i] = parts[i];
    }
    node->ins = count;
    return SPC_OK;
}

static spc_status make_concat(spc_net *net, spc_tensor *out,
                              spc__net_node *node, const spc_tensor *parts,
                              int count, spc_error *error)
{
    spc_status status = take_parts(node, net, parts, count, error);
    spc__net_tensor tensor = {0};

    if (status != SPC_OK)
        return status;
    tensor = net->tensors[parts[0]];
    for (int i = 1; i < count; i++) {
        if (net->tensors[parts[i]].set != tensor.set)
            return spc__fail(error, SPC_EINVAL,
                             "parts 0 and %d lie over two coordinate sets", i);
        tensor.channels += net->tensors[parts[i]].channels;
    }
    tensor.elements = tensor.channels;
    if ((status = name_node(node, net, NULL, error)) != SPC_OK)
        return status;
    return add_node(net, out, node, &tensor, error);
}

spc_status spc_net_add_concat(spc_net *net, spc_tensor *out,
                              const spc_tensor *parts, int count,
                              spc_error *error)
{
    spc__net_node node = {
        .kind = SPC__NODE_CONCAT, .map = -1, .add = SPC_NO_TENSOR};
    spc_status status = begin(__func__, net, out, parts, error);

    if (status != SPC_OK)
        return status;
    status = make_concat(net, out, &node, parts, count, error);
    return status == SPC_OK ? status : fail_layer(net, NULL, error);
}

static int children(const spc_regrouping *how)
{
    return how->split[0] * how->split[1] * how->split[2];
}

static spc_status check_regrouping(const spc_regrouping *how, spc_error *error)
{
    for (int i = 0; i < 3; i++)
        if (how->scale[i] < 0 || how->scale[i] > SPC__GEOMETRY_MOST ||
            how->split[i] < 1 || how->split[i] > 64 || children(how) > 64)
            return spc__fail(error, SPC_EINVAL,
                             "scale %d and split %d along %c: at least 0 and "
                             "1, and at most 64 children of a voxel",
                             how->scale[i], how->split[i], "xyz"[i]);
    return SPC_OK;
}

/* A set made of a source's voxels at twice the scale has twice its shape; one
 * of several sources the largest of theirs. */
static void regrouped_set(spc__net_set *set, const spc_net *net,
                          const spc__net_node *node, const spc_regrouping *how)
{
    memset(set, 0, sizeof(*set));
    set->kind = SPC__NET_REGROUPED;
    set->sources = node->ins;
    set->how = *how;
    for (int i = 0; i < node->ins; i++) {
        set->from[i] = net->tensors[node->in[i]].set;
        for (int a = 0; a < 3; a++) {
            int shape = net->sets[set->from[i]].shape[a];
            int most = (shape - 1) * how->scale[a] + how->split[a];
            if (shape > 0 && most > set->shape[a])
                set->shape[a] = most;
        }
    }
    /* Of a source whose shape is not known that of the set is not either. */
    for (int i = 0; i < node->ins; i++)
        if (net->sets[set->from[i]].shape[0] == 0)
            memset(set->shape, 0, sizeof(set->shape));
}

static spc_status make_regroup(spc_net *net, spc_tensor *out,
                               spc__net_node *node, const spc_tensor *sources,
                               int count, const spc_regrouping *how,
                               spc_error *error)
{
    spc_status status = take_parts(node, net, sources, count, error);
    spc__net_tensor tensor = {0};
    spc__net_set set;

    if (status != SPC_OK || (status = check_regrouping(how, error)) != SPC_OK)
        return status;
    tensor = net->tensors[sources[0]];
    if (tensor.dtype == SPC_BF16)
        return spc__fail(error, SPC_EINVAL,
                         "rows are gathered as f16 or f32, not bf16");
    for (int i = 1; i < count; i++)
        if ((status = check_width("the first source has", tensor.channels,
                                  net->tensors[sources[i]].channels, error)) !=
            SPC_OK)
            return status;
    if (node->slices && tensor.channels % children(how) != 0)
        return spc__fail(error, SPC_EINVAL,
                         "%d channels cannot be cut into slices for %d "
                         "children",
                         tensor.channels, children(how));
    if (node->slices)
        tensor.channels /= children(how);
    tensor.elements = tensor.channels;
    regrouped_set(&set, net, node, how);
    if ((tensor.set = spc__net_find_set(net, &set, error)) < 0)
        return SPC_ENOMEM;
    if ((status = name_node(node, net, NULL, error)) != SPC_OK)
        return status;
    return add_node(net, out, node, &tensor, error);
}

spc_status spc_net_add_regroup(spc_net *net, spc_tensor *out,
                               const spc_tensor *sources, int count,
                               const spc_regrouping *how, bool slices,
                               spc_error *error)
{
    spc__net_node node = {.kind = SPC__NODE_REGROUP,
                          .slices = slices,
                          .map = -1,
                          .add = SPC_NO_TENSOR};
    spc_status status = begin(__func__, net, out, sources, error);

    if (status == SPC_OK)
        status = spc__need(error, __func__, "how", how, NULL);
    if (status != SPC_OK)
        return status;
    status = make_regroup(net, out, &node, sources, count, how, error);
    return status == SPC_OK ? status : fail_layer(net, NULL, error);
}
