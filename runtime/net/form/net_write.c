/* SPDX-License-Identifier: Apache-2.0 */
/* net_write.c - writes a network as text (net_text.h). */
#include "net/form/net_text.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/number.h"
#include "operators/feature.h"
#include "operators/geometry.h"
#include "operators/offset_list.h"
#include <stdlib.h>
#include <string.h>

enum { LAYER_BYTES = 1024 + SPC__LIST_BYTES };

/* ---- arrays -------------------------------------------------------------- */

size_t spc__net_array_bytes(const spc__net_array *array)
{
    return (size_t)array->count * spc__dtype_of(array->dtype)->bytes;
}

/* True if F16 is exact for all values; arrays of files often come from halves.
 * A NaN never compares equal, so arrays with one stay F32. */
static bool fits_half(const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (spc__half_to_float(spc__half_from_float(values[i])) != values[i])
            return false;
    return true;
}

/* Weights get the type in which their layer multiplies them, since packing
 * would round them in the same way. Other parameters keep their type. */
static spc_dtype stored_type(const spc__net_node *node, int j)
{
    spc_dtype own = node->kind == SPC__NODE_CONV ? node->conv.dtype : SPC_F32;

    if (spc__net_operands[j] == SPC_OPERAND_WEIGHTS &&
        (own == SPC_F16 || own == SPC_BF16))
        return own;
    return fits_half(node->params[j], node->counts[j]) ? SPC_F16 : SPC_F32;
}

static int count_arrays(const spc_net *net)
{
    int count = 0;

    for (int n = 0; n < net->node_count; n++)
        for (int j = 0; j < SPC__NET_PARAMS; j++)
            count += spc__net_owns(net, n, j);
    return count;
}

/* Describes an array of parameters, which must be set. */
static spc_status describe(spc__net_array *out, const spc_net *net, int n,
                           int j, spc_error *error)
{
    const spc__net_node *node = &net->nodes[n];

    if (node->params[j] == NULL)
        return spc__fail(error, SPC_ESTATE,
                         "layer '%s' has no weights yet: set them, or draw "
                         "them, before the network is stored",
                         node->name);
    *out = (spc__net_array){
        .node = n,
        .param = j,
        .dtype = stored_type(node, j),
        .count = node->counts[j],
    };
    return SPC_OK;
}

spc_status spc__net_arrays(spc__net_array **out, int *count, const spc_net *net,
                           spc_error *error)
{
    size_t capacity = (size_t)count_arrays(net) + 1;
    spc__net_array *arrays = calloc(capacity, sizeof(*arrays));
    spc_status status = SPC_OK;

    *out = NULL;
    *count = 0;
    if (arrays == NULL)
        return spc__fail_memory(error, capacity * sizeof(*arrays));
    /* In the order of nodes, which a reader relies on. */
    for (int n = 0; n < net->node_count && status == SPC_OK; n++)
        for (int j = 0; j < SPC__NET_PARAMS && status == SPC_OK; j++)
            if (spc__net_owns(net, n, j))
                status = describe(&arrays[(*count)++], net, n, j, error);
    if (status != SPC_OK)
        free(arrays);
    else
        *out = arrays;
    return status;
}

/* ---- fields -------------------------------------------------------------- */

/* Writes a name, with % and two digits for characters that would end the
 * field. */
static void write_name(spc__buf *out, const char *name)
{
    spc__buf_puts(out, "\t");
    /* Tabs and newlines separate fields and lines. */
    for (; name != NULL && *name != '\0'; name++)
        if ((unsigned char)*name < ' ' || *name == '%')
            spc__buf_printf(out, "%%%02X", (unsigned char)*name);
        else
            spc__buf_append(out, name, 1);
}

/* Writes a number that reads back as the same bits. */
static void write_number(spc__buf *out, const char *before, double value)
{
    char text[40];

    spc__number_print_exact(text, sizeof(text), 6, value);
    spc__buf_printf(out, "%s%s", before, text);
}

static void write_axes(spc__buf *out, const int axes[3])
{
    spc__buf_printf(out, "\t%dx%dx%d", axes[0], axes[1], axes[2]);
}

/* Finds an earlier tensor over the set of the node's outputs. */
static int find_at(const spc_net *net, const spc__net_node *node)
{
    int set = net->tensors[node->out].set;

    /* Any tensor of the set will do, as the layer only needs its set. */
    for (int i = 0; i < node->out; i++)
        if (net->tensors[i].set == set && !net->tensors[i].dense)
            return i;
    return SPC_NO_TENSOR;
}

/* True if the set of the outputs cannot be derived from the inputs. */
static bool needs_at(const spc__net_node *node)
{
    if (node->kind == SPC__NODE_FEATURE)
        return spc__feature_takes_inverse(&node->feature);
    const spc_geometry *g = &node->conv.geometry;

    return node->conv.op == SPC_INVERSE || node->conv.op == SPC_TRANSPOSED ||
           g->rule == SPC_RULE_GIVEN ||
           (g->rule == SPC_RULE_RADIUS && g->voxel == 0);
}

static int at_of(const spc_net *net, const spc__net_node *node)
{
    return needs_at(node) ? find_at(net, node) : SPC_NO_TENSOR;
}

/* ---- lines --------------------------------------------------------------- */

/* The line of the input (net_text.h). */
static void write_input(spc__buf *out, const spc_net_input *input)
{
    const double *const grid[] = {input->voxel, input->low, input->high};

    spc__buf_puts(out, "input");
    write_name(out, input->name);
    spc__buf_printf(out, "\t%d\t%s", input->channels,
                    spc__dtype_names[input->dtype]);
    write_axes(out, input->shape);
    for (int i = 0; i < 9; i++)
        write_number(out, i == 0 ? "\t" : ",", grid[i / 3][i % 3]);
    spc__buf_printf(out, "\t%d", input->points);
    if (input->cloud)
        spc__buf_puts(out, "\tcloud");
    if (strcmp(input->axes, "xyz") != 0)
        spc__buf_printf(out, "\t%s", input->axes);
}

/* Writes a list of offsets in its own field. The text then has the kernel that
 * such a layer keeps, or one offset if a shape may be too small for the
 * kernel. */
static void write_offsets(spc__buf *out, const spc_geometry *g)
{
    spc__buf_puts(out, "\t");
    for (int i = 0; i < g->offset_count; i++)
        spc__buf_printf(out, "%s%d:%d:%d", i > 0 ? "," : "", g->offsets[3 * i],
                        g->offsets[3 * i + 1], g->offsets[3 * i + 2]);
}

/* The line of a convolution. */
static void write_conv(spc__buf *out, const spc_net *net,
                       const spc__net_node *node)
{
    char text[LAYER_BYTES];
    spc_conv plain = node->conv;

    /* The list has a separate field, without the limits of a layer's text. */
    plain.geometry.offset_count = 0;
    for (int a = 0; a < 3; a++)
        if (spc__geometry_derives_by_list(&node->conv.geometry))
            plain.geometry.kernel[a] = 1;
    /* The text describes the network before it was quantised; the lines "whole"
     * name the tensors that became integers. */
    spc__net_unquantised(&plain);
    spc_conv_format(text, sizeof(text), &plain);
    spc__buf_puts(out, "conv");
    write_name(out, node->name);
    spc__buf_printf(out, "\t%d\t%d\t%d\t%s", node->in[0], node->add,
                    at_of(net, node), text);
    write_offsets(out, &node->conv.geometry);
    write_name(out, node->norm);
    write_number(out, "\t", node->eps);
}

/* The line of an operator on features. */
static void write_feature(spc__buf *out, const spc_net *net,
                          const spc__net_node *node)
{
    char text[LAYER_BYTES];

    spc_feature_format(text, sizeof(text), &node->feature);
    spc__buf_puts(out, "feature");
    write_name(out, node->name);
    spc__buf_printf(out, "\t%d\t%d\t%d\t%s", node->in[0], node->add,
                    at_of(net, node), text);
}

static void write_inputs(spc__buf *out, const spc__net_node *node)
{
    for (int i = 0; i < node->ins; i++)
        spc__buf_printf(out, "\t%d", node->in[i]);
}

/* The line of a regrouping. */
static void write_regroup(spc__buf *out, const spc_net *net,
                          const spc__net_node *node)
{
    const spc_regrouping *how = &net->sets[net->tensors[node->out].set].how;

    spc__buf_puts(out, "regroup");
    write_axes(out, how->scale);
    write_axes(out, how->split);
    spc__buf_printf(out, "\t%d", node->slices);
    write_inputs(out, node);
}

/* The line of a regrouping that a mask chooses. */
static void write_masked(spc__buf *out, const spc__net_set *set,
                         const spc__net_node *node)
{
    spc__buf_puts(out, "masked");
    write_name(out, node->name);
    write_axes(out, set->how.scale);
    write_axes(out, set->how.split);
    spc__buf_printf(out, "\t%d\t%d\t%d", node->slices, node->in[0], set->mask);
    write_number(out, "\t", set->above);
    write_number(out, "\t", set->room);
}

/* The line of a layer. */
static spc_status write_node(spc__buf *out, const spc_net *net,
                             const spc__net_node *node, spc_error *error)
{
    switch (node->kind) {
    case SPC__NODE_CONV:
        write_conv(out, net, node);
        break;
    case SPC__NODE_FEATURE:
        write_feature(out, net, node);
        break;
    case SPC__NODE_CONCAT:
        spc__buf_puts(out, "concat");
        write_inputs(out, node);
        break;
    case SPC__NODE_REGROUP:
        if (net->sets[net->tensors[node->out].set].masked)
            write_masked(out, &net->sets[net->tensors[node->out].set], node);
        else
            write_regroup(out, net, node);
        break;
    default:
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "layer '%s' is of a kind that cannot be stored",
                         node->name);
    }
    spc__buf_puts(out, "\n");
    return SPC_OK;
}

static void write_array(spc__buf *out, const spc__net_array *a)
{
    static const char *const which[SPC__NET_PARAMS] = {"weights", "scale",
                                                       "bias"};

    spc__buf_printf(out, "array\t%d\t%s\t%s\t%lld\n", a->node, which[a->param],
                    spc__dtype_names[a->dtype], (long long)a->count);
}

static bool is_quantised(const spc_net *net)
{
    for (int t = 0; t < net->tensor_count; t++)
        if (net->tensors[t].dtype == SPC_I8)
            return true;
    return false;
}

/* The lines of tensors that became integers. */
static void write_scales(spc__buf *out, const spc_net *net)
{
    for (int t = 0; t < net->tensor_count; t++)
        if (net->tensors[t].dtype == SPC_I8) {
            spc__buf_printf(out, "whole\t%d", t);
            write_number(out, "\t", net->tensors[t].scale);
            spc__buf_puts(out, "\n");
        }
}

spc_status spc__net_write(spc__buf *out, const spc_net *net,
                          const spc__net_array *arrays, int array_count,
                          spc_error *error)
{
    spc_status status = SPC_OK;

    spc__buf_printf(out, "spctune network %d\nnetwork",
                    is_quantised(net) ? 2 : 1);
    write_name(out, net->name);
    spc__buf_puts(out, "\n");
    write_input(out, &net->input);
    spc__buf_puts(out, "\n");
    /* In this order: the reader must know the nodes before the outputs, scales
     * and arrays that name them. */
    for (int i = 0; i < net->node_count && status == SPC_OK; i++)
        status = write_node(out, net, &net->nodes[i], error);
    for (int i = 0; i < net->out_count; i++) {
        spc__buf_puts(out, "output");
        write_name(out, net->outs[i].name);
        spc__buf_printf(out, "\t%d\n", net->outs[i].tensor);
    }
    write_scales(out, net);
    for (int i = 0; i < array_count; i++)
        write_array(out, &arrays[i]);
    if (status == SPC_OK && out->failed)
        return spc__fail_memory(error, out->length);
    return status;
}
