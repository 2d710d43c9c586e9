/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_params.c - parameters of a network: sets, initialises and queries them.
 */
#include "net/net.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text/names.h"
#include "operators/conv.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[SPC__NET_PARAMS] = {"weights", "scale", "bias"};

/* ---- sharing ------------------------------------------------------------- */

/* A scale that quantisation added to one of the layers is not shared. */
bool spc__net_owns(const spc_net *net, int n, int j)
{
    const spc__net_node *node = &net->nodes[n];

    return node->counts[j] > 0 &&
           (node->shares < 0 ||
            net->nodes[node->shares].counts[j] != node->counts[j]);
}

/* Returns the layer's array, allocated on first use. */
static spc_status alloc_param(float **out, spc__net_node *node, int j,
                              spc_error *error)
{
    size_t bytes = (size_t)node->counts[j] * sizeof(float);

    if (node->params[j] == NULL && (node->params[j] = malloc(bytes)) == NULL)
        return spc__fail_memory(error, bytes);
    *out = node->params[j];
    return SPC_OK;
}

spc_status spc__net_copy_shared(spc_net *net, spc_error *error)
{
    spc_status status = SPC_OK;
    float *to = NULL;

    for (int n = 0; n < net->node_count; n++)
        for (int j = 0; j < SPC__NET_PARAMS && status == SPC_OK; j++) {
            spc__net_node *node = &net->nodes[n];
            if (node->counts[j] == 0 || spc__net_owns(net, n, j) ||
                net->nodes[node->shares].params[j] == NULL)
                continue;
            if ((status = alloc_param(&to, node, j, error)) == SPC_OK)
                memcpy(to, net->nodes[node->shares].params[j],
                       (size_t)node->counts[j] * sizeof(*to));
        }
    return status;
}

/* ---- reading shapes ------------------------------------------------------ */

/* Describes a parameter to the user. The pointers are the network's own. */
static void describe(spc_net_param *out, const spc__net_node *node, int j)
{
    *out = (spc_net_param){
        .layer = node->name,
        .which = spc__net_operands[j],
        .count = node->counts[j],
        .values = node->params[j],
        .conv = node->kind == SPC__NODE_CONV ? &node->conv : NULL,
        .norm = node->norm != NULL ? node->norm : "",
        .eps = node->eps,
    };
}

spc_status spc_net_param_at(spc_net_param *out, const spc_net *net, int i)
{
    int left = i;

    if (out == NULL || net == NULL || i < 0)
        return SPC_EINVAL;
    memset(out, 0, sizeof(*out));
    for (int n = 0; n < net->node_count; n++)
        for (int j = 0; j < SPC__NET_PARAMS; j++)
            if (spc__net_owns(net, n, j) && left-- == 0) {
                describe(out, &net->nodes[n], j);
                return SPC_OK;
            }
    return SPC_EINVAL;
}

/* ---- setting ------------------------------------------------------------- */

/* Finds the first layer of this name, which owns the parameters if several have
 * it. */
static spc__net_node *find_node(const spc_net *net, const char *name)
{
    for (int i = 0; i < net->node_count; i++)
        if (strcmp(net->nodes[i].name, name) == 0)
            return &net->nodes[i];
    return NULL;
}

/* Suggests the layer with parameters whose name is most similar. */
static spc_status fail_unknown(const spc_net *net, const char *layer,
                               spc_error *error)
{
    const char **known = calloc((size_t)net->node_count + 1, sizeof(*known));
    int count = 0;

    if (known == NULL)
        return spc__fail_memory(error, (size_t)net->node_count);
    for (int i = 0; i < net->node_count; i++)
        if (net->nodes[i].counts[0] + net->nodes[i].counts[1] > 0)
            known[count++] = net->nodes[i].name;
    spc__fail_unknown(error, "layer", spc__span_of(layer), known);
    free(known);
    /* spc__fail_unknown() reports an invalid argument; callers act on "not
     * found". */
    if (error != NULL)
        error->status = SPC_ENOTFOUND;
    return SPC_ENOTFOUND;
}

static int param_of(spc_operand which)
{
    for (int j = 0; j < SPC__NET_PARAMS; j++)
        if (spc__net_operands[j] == which)
            return j;
    return -1;
}

/* Scales and biases are stored as they are, weights in the layer's type. */
static spc_status check_values(const spc__net_node *node, int j,
                               const float *values, spc_error *error)
{
    char what[256];

    if (spc__net_operands[j] != SPC_OPERAND_WEIGHTS)
        return SPC_OK;
    snprintf(what, sizeof(what), "the weights of layer '%.200s'", node->name);
    return spc__dtype_check(node->conv.dtype, values, node->counts[j], what,
                            error);
}

/* Accepts NaN and infinities, since a file may contain them and a user has to
 * run the network to find the cause. A note reports them. */
spc_status spc__net_note_values(spc__net_node *node, int j, const float *values,
                                spc_error *error)
{
    char text[512];
    char *note = NULL;
    int64_t odd = spc__not_finite(values, node->counts[j]);
    spc_status status = SPC_OK;

    snprintf(text, sizeof(text),
             "layer '%.200s': %lld of its %lld numbers called %s are NaN or "
             "infinite, and so would be its results",
             node->name, (long long)odd, (long long)node->counts[j], names[j]);
    if (odd > 0)
        status = spc__net_text(&note, text, error);
    if (status != SPC_OK)
        return status;
    /* Finite values remove an earlier note. */
    free(node->notes[j]);
    node->notes[j] = note;
    return SPC_OK;
}

spc_status spc_net_set_param(spc_net *net, const char *layer, spc_operand which,
                             const float *values, int64_t count,
                             spc_error *error)
{
    spc_status status = spc__need(error, __func__, "net", net, "layer", layer,
                                  "values", values, NULL);
    spc__net_node *node;
    float *to = NULL;
    int j = param_of(which);

    if (status != SPC_OK)
        return status;
    if ((node = find_node(net, layer)) == NULL)
        return fail_unknown(net, layer, error);
    if (j < 0 || node->counts[j] == 0)
        return spc__fail(error, SPC_ENOTFOUND, "layer '%s' has no %s", layer,
                         j < 0 ? "such array" : names[j]);
    if (count != node->counts[j])
        return spc__fail(
            error, SPC_EINVAL, "layer '%s' has %lld %s, these are %lld", layer,
            (long long)node->counts[j], names[j], (long long)count);
    /* Everything that can fail comes before the copy. */
    if ((status = check_values(node, j, values, error)) != SPC_OK ||
        (status = spc__net_note_values(node, j, values, error)) != SPC_OK ||
        (status = alloc_param(&to, node, j, error)) != SPC_OK)
        return status;
    memcpy(to, values, (size_t)count * sizeof(*to));
    /* Layers that share the parameters have copies, which packing reads. */
    return spc__net_copy_shared(net, error);
}

/* ---- sampling ------------------------------------------------------------ */

/* Uniform values in [mean - width, mean + width). */
static void draw(float *out, int64_t count, double mean, double width,
                 spc__random *random)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)(mean + width * (2 * spc__random_unit(random) - 1));
}

/*
 * A uniform distribution of half-width w has the variance w^2 / 3. A layer of
 * points sums the points of a cell before it multiplies. On a surface with some
 * 30 points in the radius, 11 cells have 2.6 inputs each. Inputs of a cell are
 * similar, so the sums vary like 11 * 2.6^2 terms, 3 times the number of cells.
 */
static double weights_width(const spc_conv *conv)
{
    double terms = (double)spc__conv_offsets(conv) * spc__conv_group_in(conv);

    if (spc__conv_has_triplets(conv) && conv->geometry.nearest != 1)
        terms *= 3;
    /* A variance of 2 / terms keeps the size of features through layers with
     * ReLU (He et al., ICCV 2015). */
    return sqrt(6 / terms);
}

/* Draws a parameter: weights by the width of their layer, scales around 1, the
 * others around 0. */
static void draw_param(float *out, const spc__net_node *node, int j,
                       spc__random *random)
{
    int64_t count = node->counts[j];

    if (spc__net_operands[j] == SPC_OPERAND_WEIGHTS)
        draw(out, count, 0, weights_width(&node->conv), random);
    else if (spc__net_operands[j] == SPC_OPERAND_SCALE)
        draw(out, count, 1, 0.25, random);
    else
        draw(out, count, 0, 0.25, random);
}

spc_status spc_net_init_params(spc_net *net, uint64_t seed, spc_error *error)
{
    spc_status status = spc__need(error, __func__, "net", net, NULL);
    spc__random random;
    float *to = NULL;

    for (int i = 0; status == SPC_OK && i < net->node_count; i++)
        for (int j = 0; j < SPC__NET_PARAMS && status == SPC_OK; j++) {
            spc__net_node *node = &net->nodes[i];
            if (!spc__net_owns(net, i, j) || node->params[j] != NULL)
                continue;
            /* Each array has its own seed, so arrays that were set do not
             * change the values of the others. */
            spc__random_init(&random, seed * 1000003 +
                                          (uint64_t)(i * SPC__NET_PARAMS + j));
            if ((status = alloc_param(&to, node, j, error)) == SPC_OK)
                draw_param(to, node, j, &random);
        }
    return status == SPC_OK ? spc__net_copy_shared(net, error) : status;
}
