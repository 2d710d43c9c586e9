/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_net.c - builds a network from an ONNX file: its values, the table of
 * nodes, and the nodes without weights.
 */
#include "import/onnx_net.h"

#include "base/error.h"
#include "base/plural.h"
#include "import/sized_import.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MOST = 8 }; /* inputs of a Concat */

/* ---- values -------------------------------------------------------------- */

spc__onnx_value *spc__onnx_find(const spc__onnx_builder *b, const char *name)
{
    for (int i = 0; i < b->value_count; i++)
        if (strcmp(b->values[i].name, name) == 0)
            return &b->values[i];
    return NULL;
}

spc__onnx_value *spc__onnx_output(spc__onnx_builder *b,
                                  const spc__onnx_node *node)
{
    return &b->values[b->input_count + node->number];
}

spc_status spc__onnx_input(spc__onnx_value **out, spc__onnx_builder *b,
                           const spc__onnx_node *node, int i,
                           spc__onnx_kind kind)
{
    static const char *const kinds[] = {"made by a node before it",
                                        "rows of features",
                                        "groups of channels", "dense"};

    if ((size_t)i >= node->pb->n_input)
        return spc__onnx_fail(node, SPC_EFORMAT, "has no input %d", i);
    *out = spc__onnx_find(b, node->pb->input[i]);
    if (*out == NULL || (*out)->kind == SPC__ONNX_PENDING)
        return spc__onnx_fail(node, SPC_EFORMAT,
                              "reads '%.60s', which no node before it makes",
                              node->pb->input[i]);
    if ((*out)->kind != kind)
        return spc__onnx_fail(
            node, SPC_EUNSUPPORTED, "reads '%.60s', which is %s, not %s",
            node->pb->input[i], kinds[(*out)->kind], kinds[kind]);
    return SPC_OK;
}

static spc_status add_value(spc__onnx_builder *b, const char *name)
{
    /* ONNX demands one maker for each value. */
    if (spc__onnx_find(b, name) != NULL)
        return spc__fail(b->error, SPC_EFORMAT,
                         "cannot read '%s': two nodes make '%.60s'",
                         b->onnx->path, name);
    b->values[b->value_count++] =
        (spc__onnx_value){.name = name, .consumer = -1};
    return SPC_OK;
}

/* Graph inputs that are initializers are weights and not features. */
static spc_status add_inputs(spc__onnx_builder *b)
{
    const Spc__Pb__Graph *graph = b->onnx->model->graph;
    spc_status status = SPC_OK;

    for (size_t i = 0; i < graph->n_input && status == SPC_OK; i++)
        if (spc__onnx_array(b->onnx, graph->input[i]->name) == NULL)
            status = add_value(b, graph->input[i]->name);
    b->input_count = b->value_count;
    if (status == SPC_OK && b->input_count != 1 && !b->is_autoware)
        status = spc__fail(
            b->error, SPC_EUNSUPPORTED,
            "cannot read '%s': its graph has %s; expected one, of features",
            b->onnx->path, spc__count(b->input_count, "input"));
    return status;
}

/* Counts a user. `consumer` is the only one, or -1. */
static void add_user(spc__onnx_value *value, int node)
{
    if (value == NULL)
        return;
    value->consumer = value->users == 0 ? node : -1;
    value->users++;
}

static void count_users(spc__onnx_builder *b)
{
    const Spc__Pb__Graph *graph = b->onnx->model->graph;

    /* Nodes outside the network only read shapes. */
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t j = 0; j < graph->node[i]->n_input; j++)
            if (b->parts[i] != SPC__ONNX_APART)
                add_user(spc__onnx_find(b, graph->node[i]->input[j]), (int)i);
    /* An output of the graph is a user too: its value must not vanish in a
     * fusion. */
    for (size_t i = 0; i < graph->n_output; i++)
        add_user(spc__onnx_find(b, graph->output[i]->name), -1);
}

/* Lists all values of the graph by name, with the number of their users. */
static spc_status list_values(spc__onnx_builder *b)
{
    const Spc__Pb__Graph *graph = b->onnx->model->graph;
    size_t most = graph->n_input + graph->n_node + 1;
    spc_status status;

    b->values = calloc(most, sizeof(*b->values));
    b->rulebooks = calloc(most, sizeof(*b->rulebooks));
    b->done = calloc(most, sizeof(*b->done));
    b->cuts = calloc(most, sizeof(*b->cuts));
    if (b->values == NULL || b->rulebooks == NULL || b->done == NULL ||
        b->cuts == NULL)
        return spc__fail_memory(b->error, most * sizeof(*b->values));
    status = add_inputs(b);
    for (size_t i = 0; i < graph->n_node && status == SPC_OK; i++)
        status = add_value(b, graph->node[i]->output[0]);
    count_users(b);
    return status;
}

bool spc__onnx_take_relu(spc__onnx_builder *b, spc__onnx_value **value)
{
    int consumer = (*value)->consumer;
    const Spc__Pb__Graph *graph = b->onnx->model->graph;

    /* With a second reader, which needs the value before the Relu, there is no
     * such consumer. */
    if (consumer < 0 || strcmp(graph->node[consumer]->op_type, "Relu") != 0)
        return false;
    /* add_nodes() skips it. */
    b->done[consumer] = true;
    *value = &b->values[b->input_count + consumer];
    return true;
}

/* ---- shared by nodes ----------------------------------------------------- */

void spc__onnx_name(char out[64], const spc__onnx_node *node)
{
    const Spc__Pb__Graph *graph = node->onnx->model->graph;
    const char *name = node->pb->name;
    bool is_own = name != NULL && name[0] != '\0' && strlen(name) < 48;

    /* Layers of a network need distinct names, and nodes of a file do not have
     * them. */
    for (size_t i = 0; i < graph->n_node && is_own; i++)
        is_own = graph->node[i] == node->pb || graph->node[i]->name == NULL ||
                 strcmp(graph->node[i]->name, name) != 0;
    if (is_own)
        snprintf(out, 64, "%s", name);
    else
        snprintf(out, 64, "%.40s#%d", name != NULL ? name : "", node->number);
}

spc_status spc__onnx_axes(const spc__onnx_builder *b,
                          const spc__onnx_node *node, int out[3],
                          const char *name)
{
    int theirs[3] = {0, 0, 0};
    spc_status status;

    if (!spc__onnx_has(node, name))
        return SPC_OK;
    status = spc__onnx_ints(node, theirs, 3, name);
    for (int i = 0; i < 3 && status == SPC_OK; i++)
        /* A file lists its axes in an order of its own. */
        out[b->axes[i] - 'x'] = theirs[i];
    return status;
}

spc_status spc__onnx_check_shape(const spc__onnx_builder *b,
                                 const spc__onnx_node *node, spc_tensor tensor,
                                 const char *attribute)
{
    spc_tensor_info info;
    spc_status status = spc_net_tensor_at(&info, b->net, tensor, b->error);
    int said[3] = {0, 0, 0};

    if (status == SPC_OK)
        status = spc__onnx_axes(b, node, said, attribute);
    if (status != SPC_OK || !spc__onnx_has(node, attribute) ||
        memcmp(said, info.shape, sizeof(said)) == 0)
        return status;
    return spc__onnx_fail(
        node, SPC_EFORMAT,
        "states %s %dx%dx%d (x, y, z), but the layers before it give %dx%dx%d",
        attribute, said[0], said[1], said[2], info.shape[0], info.shape[1],
        info.shape[2]);
}

spc_status spc__onnx_pass_on(const spc__onnx_node *node, spc_status status)
{
    return status == SPC_OK || node->error == NULL
               ? status
               : spc__onnx_fail(node, status, "cannot be added: %.300s",
                                node->error->text);
}

/* ---- nodes without weights ----------------------------------------------- */

/* Adds an operator on features; channels and type are those of its input. */
static spc_status add_feature(spc__onnx_builder *b, const spc__onnx_node *node,
                              const char *text, spc_tensor in, spc_tensor add,
                              spc__onnx_value *value)
{
    char name[64];
    spc_feature feature = SPC_FEATURE_INIT;
    spc_tensor_info info = {0};
    spc_status status = spc_net_tensor_at(&info, b->net, in, b->error);

    if (status == SPC_OK)
        status = spc_feature_parse(&feature, text, b->error);
    /* The text says c=1 only because the syntax demands it. */
    feature.channels = info.channels;
    feature.dtype = info.dtype;
    spc__onnx_name(name, node);
    if (status == SPC_OK)
        status = spc_net_add_feature(&value->tensor, b->net, name, &feature, in,
                                     add, SPC_NO_TENSOR, b->error);
    value->kind = SPC__ONNX_ROWS;
    return spc__onnx_pass_on(node, status);
}

/* A sum that was not fused into a convolution as its residual. */
static spc_status add_sum(spc__onnx_builder *b, const spc__onnx_node *node)
{
    spc__onnx_value *first = NULL, *second = NULL;
    spc__onnx_value *out = spc__onnx_output(b, node);
    spc_status status;

    if ((status = spc__onnx_input(&first, b, node, 0, SPC__ONNX_ROWS)) !=
            SPC_OK ||
        (status = spc__onnx_input(&second, b, node, 1, SPC__ONNX_ROWS)) !=
            SPC_OK)
        return status;
    bool relu = spc__onnx_take_relu(b, &out);
    return add_feature(b, node, relu ? "add,c=1,act=relu" : "add,c=1",
                       first->tensor, second->tensor, out);
}

static spc_status add_relu(spc__onnx_builder *b, const spc__onnx_node *node)
{
    spc__onnx_value *in = NULL;
    spc_status status = spc__onnx_input(&in, b, node, 0, SPC__ONNX_ROWS);

    return status == SPC_OK
               ? add_feature(b, node, "act=relu,c=1", in->tensor, SPC_NO_TENSOR,
                             spc__onnx_output(b, node))
               : status;
}

/* Adds a concatenation along the channels. */
static spc_status add_concat(spc__onnx_builder *b, const spc__onnx_node *node)
{
    spc_tensor parts[PARTS_MOST];
    spc__onnx_value *in = NULL, *out = spc__onnx_output(b, node);
    int axis = 1;
    spc_status status = spc__onnx_int(node, &axis, "axis");

    if (status == SPC_OK && axis != 1)
        status = spc__onnx_fail(node, SPC_EUNSUPPORTED,
                                "joins values along axis %d: 1, the channels, "
                                "is possible",
                                axis);
    for (int i = 0; status == SPC_OK && i < (int)node->pb->n_input; i++) {
        status = spc__onnx_input(&in, b, node, i, SPC__ONNX_ROWS);
        parts[i] = status == SPC_OK ? in->tensor : SPC_NO_TENSOR;
    }
    if (status != SPC_OK)
        return status;
    out->kind = SPC__ONNX_ROWS;
    return spc__onnx_pass_on(
        node, spc_net_add_concat(&out->tensor, b->net, parts,
                                 (int)node->pb->n_input, b->error));
}

/* A sum over rows that a Reshape has split. */
static spc_status add_group_sum(spc__onnx_builder *b,
                                const spc__onnx_node *node)
{
    char text[64];
    spc__onnx_value *in = NULL;
    int axes[1] = {2}, keep = 1;
    spc_status status = spc__onnx_input(&in, b, node, 0, SPC__ONNX_GROUPED);

    if (status == SPC_OK)
        status = spc__onnx_ints(node, axes, 1, "axes");
    if (status == SPC_OK)
        status = spc__onnx_int(node, &keep, "keepdims");
    if (status != SPC_OK)
        return status;
    if ((axes[0] != 2 && axes[0] != -1) || keep != 0)
        return spc__onnx_fail(node, SPC_EUNSUPPORTED,
                              "sums axis %d with keepdims %d: expected 2 with "
                              "0 after a Reshape of rows",
                              axes[0], keep);
    snprintf(text, sizeof(text), "groupsum,c=%d,by=%d", in->by, in->by);
    return add_feature(b, node, text, in->tensor, SPC_NO_TENSOR,
                       spc__onnx_output(b, node));
}

/* ---- the table ----------------------------------------------------------- */

/* Reads a node that no earlier layer has fused. */
static spc_status add_norm(spc__onnx_builder *b, const spc__onnx_node *node)
{
    (void)b;
    return spc__onnx_fail(node, SPC_EUNSUPPORTED,
                          "does not follow a layer directly: it can be folded "
                          "into a layer whose only reader it is");
}

/* Attribute names, each between commas. Those in the second list are ignored:
 * they describe the exporter's trace or its int8 conversion. */
static const struct op {
    const char *type;
    size_t least, most; /* number of inputs */
    const char *attributes, *others;
    spc_status (*add)(spc__onnx_builder *b, const spc__onnx_node *node);
    bool is_autoware; /* its nodes have the domain "autoware" */
} ops[] = {
    {"SparseConvolution", 2, 3,
     ",ndim,input_spatial_shape,output_spatial_shape,in_channels,out_channels,"
     "kernel_size,stride,dilation,padding,transposed,inverse,output_padding,"
     "groups,subm,rulebook,activation,",
     ",output_bound,input_shape,output_shape,fixed_launch_points,"
     "input_dynamic_range,weight_dynamic_ranges,precision,output_precision,",
     spc__onnx_convolution, false},
    {"Add", 2, 2, "",
     ",input0_dynamic_range,input1_dynamic_range,precision,output_precision,",
     add_sum, false},
    {"QuantAdd", 2, 2, "",
     ",input0_dynamic_range,input1_dynamic_range,precision,output_precision,",
     add_sum, false},
    {"Relu", 1, 1, "", "", add_relu, false},
    {"Concat", 1, PARTS_MOST, ",axis,", "", add_concat, false},
    {"ReduceSum", 1, 1, ",axes,keepdims,", "", add_group_sum, false},
    {"ScatterDense", 1, 1, ",input_spatial_shape,format,output_layout,",
     ",output_shape,input_dynamic_range,", spc__onnx_scatter, false},
    {"Reshape", 1, 1, ",dims,", "", spc__onnx_reshape, false},
    {"Transpose", 1, 1, ",dims,", "", spc__onnx_transpose, false},
};

#define OF_PAIRS                                                               \
    ",spatial_shape,ksize,stride,padding,dilation,out_padding,subm,transpose,"
#define BESIDE_PAIRS ",batch_size,algo,is_train,do_sort,"
#define OF_GEMM ",is_subm,act_type,act_alpha,output_scale,"
#define BESIDE_GEMM                                                            \
    ",is_train,fp32_accum,act_beta,output_add_scale,input_scale,"

/* Nodes of Autoware's files. This library chooses sorting, algorithms and the
 * accumulator itself. */
static const struct op autoware_ops[] = {
    {"GetIndicePairs", 1, 1, OF_PAIRS, BESIDE_PAIRS, spc__onnx_pairs, true},
    {"GetIndicePairsImplicitGemm", 1, 1, OF_PAIRS, BESIDE_PAIRS,
     spc__onnx_pairs, true},
    {"ImplicitGemm", 5, 6, OF_GEMM, BESIDE_GEMM, spc__onnx_gemm, true},
    {"ImplicitGemmInt8", 7, 7, OF_GEMM, BESIDE_GEMM, spc__onnx_gemm, true},
    {"IndiceConv", 5, 5, OF_GEMM, BESIDE_GEMM, spc__onnx_gemm, true},
    {"Add", 2, 2, "", "", add_sum, false},
    {"Relu", 1, 1, "", "", add_relu, false},
    {"Concat", 1, PARTS_MOST, ",axis,", "", add_concat, false},
    {"BatchNormalization", 5, 5, ",epsilon,training_mode,",
     ",momentum,spatial,", add_norm, false},
    {"Cast", 1, 1, "", ",to,saturate,", spc__onnx_same, false},
    {"Identity", 1, 1, "", "", spc__onnx_same, false},
    {"ScatterND", 3, 3, ",reduction,", "", spc__onnx_scatter_nd, false},
    {"Reshape", 1, 2, "", ",allowzero,", spc__onnx_reshape, false},
    {"Transpose", 1, 1, ",perm,", "", spc__onnx_transpose, false},
};

static bool lists(const char *list, const char *name)
{
    char word[64];

    snprintf(word, sizeof(word), ",%.60s,", name);
    /* A comma within the name could match two words of the list at once. */
    return strlen(name) <= 60 && strchr(name, ',') == NULL &&
           strstr(list, word) != NULL;
}

/* Refuses unknown attributes, as a network that ignores one would compute
 * something else. */
static spc_status check_attributes(const spc__onnx_node *node,
                                   const struct op *op)
{
    for (size_t i = 0; i < node->pb->n_attribute; i++) {
        const char *name = node->pb->attribute[i]->name;
        if (!lists(op->attributes, name) && !lists(op->others, name))
            return spc__onnx_fail(
                node, SPC_EUNSUPPORTED,
                "has an unknown attribute '%.60s': its effect would be lost",
                name);
    }
    return SPC_OK;
}

/* Returns NULL for an unknown type. */
static const struct op *find_op(const spc__onnx_builder *b,
                                const spc__onnx_node *node)
{
    const struct op *table = b->is_autoware ? autoware_ops : ops;
    size_t count = b->is_autoware ? sizeof(autoware_ops) / sizeof(*ops)
                                  : sizeof(ops) / sizeof(*ops);

    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].type, node->pb->op_type) == 0)
            return &table[i];
    return NULL;
}

/* Checks that the node belongs to the domain of its type. */
static spc_status check_domain(const spc__onnx_node *node, const struct op *op)
{
    const char *domain = node->pb->domain != NULL ? node->pb->domain : "";
    bool is_own = domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;

    if (op != NULL && op->is_autoware ? strcmp(domain, "autoware") == 0
                                      : is_own)
        return SPC_OK;
    return spc__onnx_fail(node, SPC_EUNSUPPORTED,
                          "has the unknown domain '%.40s': expected %s", domain,
                          op != NULL && op->is_autoware ? "autoware"
                                                        : "that of ONNX, ''");
}

/* Nodes that find pairs have several outputs, of which layers read two. */
static spc_status check_outputs(const spc__onnx_node *node)
{
    size_t count = node->pb->n_output;

    if (count == 1 || (spc__onnx_is_pairs(node->pb) && count >= 2))
        return SPC_OK;
    return spc__onnx_fail(node, SPC_EFORMAT, "has %s: expected %s",
                          spc__count(count, "output"),
                          spc__onnx_is_pairs(node->pb) ? "4 or 5" : "one");
}

/* Checks a node's domain, type and number of inputs. */
static spc_status check_node(const spc__onnx_builder *b,
                             const spc__onnx_node *node)
{
    const struct op *op = find_op(b, node);
    size_t count = node->pb->n_input;
    spc_status status = check_domain(node, op);

    if (status != SPC_OK || (status = check_outputs(node)) != SPC_OK)
        return status;
    if (op == NULL)
        return spc__onnx_fail(node, SPC_EUNSUPPORTED,
                              "is of a type that is not known: "
                              "SparseConvolution, Add, QuantAdd, Relu, Concat, "
                              "ReduceSum, ScatterDense, Reshape and Transpose "
                              "are");
    if (op->least == op->most && count != op->least)
        return spc__onnx_fail(node, SPC_EUNSUPPORTED, "has %s: expected %zu",
                              spc__count(count, "input"), op->least);
    if (count < op->least || count > op->most)
        return spc__onnx_fail(node, SPC_EUNSUPPORTED,
                              "has %s: %zu to %zu are possible",
                              spc__count(count, "input"), op->least, op->most);
    return check_attributes(node, op);
}

/* Checks all nodes first, since some are later fused into earlier ones without
 * a look at their other properties. */
static spc_status check_nodes(const spc__onnx_builder *b)
{
    spc_status status = SPC_OK;

    for (size_t i = 0; i < b->onnx->model->graph->n_node && status == SPC_OK;
         i++) {
        spc__onnx_node node = spc__onnx_node_at(b->onnx, (int)i, b->error);
        if (spc__onnx_is_ours(b, (int)i))
            status = check_node(b, &node);
    }
    return status;
}

/* ---- entry --------------------------------------------------------------- */

/* Finds the file's order of axes from its dense outputs. *out is unchanged
 * without them. */
static spc_status find_axes(const char **out, const spc_onnx *onnx,
                            spc_error *error)
{
    const Spc__Pb__Graph *graph = onnx->model->graph;
    const char *found = NULL;

    for (size_t i = 0; i < graph->n_node; i++) {
        spc__onnx_node node = spc__onnx_node_at(onnx, (int)i, error);
        char format[8] = "zyx";
        if (strcmp(node.pb->op_type, "ScatterDense") != 0)
            continue;
        spc_status status =
            spc__onnx_text(&node, format, sizeof(format), "format");
        if (status != SPC_OK)
            return status;
        const char *own = strcmp(format, "zyx") == 0   ? "zyx"
                          : strcmp(format, "xyz") == 0 ? "xyz"
                                                       : NULL;
        if (own == NULL || (found != NULL && found != own))
            return spc__onnx_fail(&node, SPC_EUNSUPPORTED,
                                  "has the format '%s': expected zyx or xyz, "
                                  "the same one in the whole file",
                                  format);
        found = own;
    }
    if (found != NULL)
        *out = found;
    return SPC_OK;
}

/* The first convolution determines the input's channels and grid. */
static spc_status read_first(spc__onnx_builder *b, spc_net_input *input)
{
    const Spc__Pb__Graph *graph = b->onnx->model->graph;
    spc_status status = SPC_OK;

    b->root = &b->values[0];
    input->name = b->root->name;
    input->axes = b->axes;
    for (size_t i = 0; i < graph->n_node && input->channels == 0; i++) {
        spc__onnx_node node = spc__onnx_node_at(b->onnx, (int)i, b->error);
        if (strcmp(node.pb->op_type, "SparseConvolution") != 0 ||
            node.pb->n_input == 0 ||
            strcmp(node.pb->input[0], b->root->name) != 0)
            continue;
        if ((status = spc__onnx_int(&node, &input->channels, "in_channels")) !=
                SPC_OK ||
            (status = spc__onnx_axes(b, &node, input->shape,
                                     "input_spatial_shape")) != SPC_OK)
            return status;
    }
    if (input->channels == 0)
        return spc__fail(b->error, SPC_EFORMAT,
                         "cannot read '%s': no convolution of its input "
                         "'%.60s' gives the number of its channels",
                         b->onnx->path, b->root->name);
    return SPC_OK;
}

static spc_status add_input(spc__onnx_builder *b)
{
    spc_net_input input = SPC_NET_INPUT_INIT;
    spc_error why = {0};
    spc_status status = b->is_autoware ? spc__onnx_autoware_input(b, &input)
                                       : read_first(b, &input);

    if (status != SPC_OK)
        return status;
    input.dtype = b->options->dtype;
    memcpy(input.voxel, b->options->voxel, sizeof(input.voxel));
    memcpy(input.low, b->options->low, sizeof(input.low));
    memcpy(input.high, b->options->high, sizeof(input.high));
    b->root->kind = SPC__ONNX_ROWS;
    status = spc_net_add_input(&b->root->tensor, b->net, &input, &why);
    return status == SPC_OK
               ? SPC_OK
               : spc__fail(b->error, status,
                           "cannot read '%s': its input '%.60s' cannot be "
                           "added: %s",
                           b->onnx->path, b->root->name, why.text);
}

/* Adds the nodes in the file's order, which ONNX requires to be one in which
 * each follows its inputs. */
static spc_status add_nodes(spc__onnx_builder *b)
{
    spc_status status = SPC_OK;

    for (size_t i = 0; i < b->onnx->model->graph->n_node && status == SPC_OK;
         i++) {
        spc__onnx_node node = spc__onnx_node_at(b->onnx, (int)i, b->error);
        /* An earlier node may have taken this one in, such as an activation. */
        if (!b->done[i] && spc__onnx_is_ours(b, (int)i))
            status = find_op(b, &node)->add(b, &node);
    }
    return status;
}

static spc_status add_output(spc__onnx_builder *b, const spc__onnx_value *value)
{
    spc_tensor tensor = SPC_NO_TENSOR;
    spc_status status = spc__onnx_put_out(&tensor, b, value);

    return status == SPC_OK
               ? spc_net_add_output(b->net, tensor, value->name, b->error)
               : status;
}

/* The outputs of the graph that the network makes. */
static spc_status add_graph_outputs(spc__onnx_builder *b)
{
    const Spc__Pb__Graph *graph = b->onnx->model->graph;
    spc_status status = SPC_OK;

    if (graph->n_output == 0)
        return spc__fail(b->error, SPC_EFORMAT,
                         "cannot read '%s': its graph has no output",
                         b->onnx->path);
    for (size_t i = 0; i < graph->n_output && status == SPC_OK; i++) {
        const char *name = graph->output[i]->name;
        const spc__onnx_value *value = spc__onnx_find(b, name);
        int output, maker = spc__onnx_maker(b->onnx, name, &output);
        /* Nodes that the caller runs make this output. */
        if (maker >= 0 && !spc__onnx_is_ours(b, maker))
            continue;
        if (value == NULL)
            return spc__fail(b->error, SPC_EFORMAT,
                             "cannot read '%s': no node makes its output "
                             "'%.60s'",
                             b->onnx->path, name);
        if (value->kind != SPC__ONNX_PENDING)
            status = add_output(b, value);
    }
    return status;
}

static bool is_graph_output(const spc__onnx_builder *b, const char *name)
{
    const Spc__Pb__Graph *graph = b->onnx->model->graph;
    size_t i = 0;

    while (i < graph->n_output && strcmp(graph->output[i]->name, name) != 0)
        i++;
    return i < graph->n_output;
}

/* Adds an output for a value that one of the caller's nodes reads. */
static spc_status add_cut(spc__onnx_builder *b, spc__onnx_value *value)
{
    for (int i = 0; i < b->cut_count; i++)
        if (b->cuts[i] == value)
            return SPC_OK;
    b->cuts[b->cut_count++] = value;
    return is_graph_output(b, value->name) ? SPC_OK : add_output(b, value);
}

static spc_status add_outputs(spc__onnx_builder *b)
{
    const Spc__Pb__Graph *graph = b->onnx->model->graph;
    spc_status status = add_graph_outputs(b);

    for (size_t i = 0; i < graph->n_node && status == SPC_OK; i++)
        for (size_t j = 0; j < graph->node[i]->n_input && status == SPC_OK &&
                           b->parts[i] == SPC__ONNX_IS_TAIL;
             j++) {
            spc__onnx_value *value =
                spc__onnx_find(b, graph->node[i]->input[j]);
            int node =
                value != NULL ? (int)(value - b->values) - b->input_count : -1;
            if (node >= 0 && spc__onnx_is_ours(b, node) &&
                value->kind != SPC__ONNX_PENDING)
                status = add_cut(b, value);
        }
    return status;
}

/* Adds a note, since the file does not show which of the two layouts a matrix
 * has: their shapes are equal. */
static spc_status note_matrices(spc__onnx_builder *b)
{
    char text[400];

    if (b->matrix_count == 0)
        return SPC_OK;
    snprintf(text, sizeof(text),
             "%d kernel%s of one offset (the first: '%s') %s read as spconv 2 "
             "multiplies by them, [cin][cout] in memory; files of BEVFusion "
             "have [cout][cin]: --from spconv1 (plain_matrices) reads them so",
             b->matrix_count, b->matrix_count == 1 ? "" : "s", b->first_matrix,
             b->matrix_count == 1 ? "is" : "are");
    return spc_net_add_note(b->net, text, b->error);
}

/* All nodes are checked first, so that an unknown one is reported before
 * anything is made. */
static spc_status build(spc__onnx_builder *b)
{
    spc_status status;

    b->is_autoware = spc__onnx_is_autoware(b->onnx);
    b->parts = calloc(b->onnx->model->graph->n_node + 1, sizeof(*b->parts));
    if (b->parts == NULL)
        return spc__fail_memory(b->error, sizeof(*b->parts));
    spc__onnx_divide(b);
    if ((status = check_nodes(b)) != SPC_OK ||
        (status = list_values(b)) != SPC_OK ||
        (status = find_axes(&b->axes, b->onnx, b->error)) != SPC_OK ||
        (status = add_input(b)) != SPC_OK ||
        (status = add_nodes(b)) != SPC_OK ||
        (status = add_outputs(b)) != SPC_OK ||
        (status = spc__onnx_note_cut(b)) != SPC_OK ||
        (status = note_matrices(b)) != SPC_OK)
        return status;
    return b->options->int8 ? spc__onnx_quantise(b) : SPC_OK;
}

static spc_status check_options(const spc_onnx_options *options,
                                spc_error *error)
{
    const char *axes = options->axes;

    if (axes == NULL || strcmp(axes, "zyx") == 0 || strcmp(axes, "xyz") == 0)
        return SPC_OK;
    return spc__fail(
        error, SPC_EINVAL,
        "'%s' is not an order of axes of such files: expected zyx or xyz",
        axes);
}

spc_status spc_onnx_build(spc_net **out, const spc_onnx *onnx,
                          const spc_onnx_options *options, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "out", out, "onnx", onnx,
                                  "options", options, NULL);

    if (out != NULL)
        *out = NULL;
    if (status == SPC_OK)
        status = SPC__TAKE_AS(&spc__sized_onnx_options, spc_onnx_options,
                              options, error);
    if (status == SPC_OK)
        status = check_options(options, error);
    if (status != SPC_OK)
        return status;
    const char *name = onnx->model->graph->name;
    spc__onnx_builder b = {.onnx = onnx,
                           .options = options,
                           .axes =
                               options->axes != NULL ? options->axes : "zyx",
                           .error = error};
    status = spc_net_create(&b.net, name != NULL ? name : "", error);
    if (status == SPC_OK)
        status = build(&b);
    if (status == SPC_OK) {
        *out = b.net;
        b.net = NULL;
    }
    spc_net_free(b.net);
    free(b.values);
    free(b.rulebooks);
    free(b.done);
    free(b.parts);
    free(b.cuts);
    return status;
}
