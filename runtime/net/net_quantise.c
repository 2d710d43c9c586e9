/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_quantise.c - makes a network whose convolutions use i8: chooses the
 * tensors that become i8, converts the layers, and computes the quantisation
 * steps of weights.
 *
 * A tensor becomes i8 if its range is known, a convolution makes it, and only
 * convolutions read it. A residual has the type of the outputs, so either both
 * become i8 or neither. All other tensors keep their type; convolutions between
 * the two kinds read one type and write the other.
 */
#include "net/net.h"

#include "base/error.h"
#include "operators/conv.h"
#include "operators/epilogue.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- which tensors ------------------------------------------------------- */

/* Unmarks tensors that something other than a convolution reads. */
static void keep_read(bool *whole, const spc_net *net)
{
    for (int i = 0; i < net->out_count; i++)
        whole[net->outs[i].tensor] = false;
    for (int i = 0; i < net->set_count; i++)
        if (net->sets[i].masked)
            whole[net->sets[i].mask] = false;
    for (int i = 0; i < net->node_count; i++) {
        const spc__net_node *node = &net->nodes[i];
        for (int j = 0; j < node->ins && node->kind != SPC__NODE_CONV; j++)
            whole[node->in[j]] = false;
        if (node->kind != SPC__NODE_CONV && node->add != SPC_NO_TENSOR)
            whole[node->add] = false;
    }
}

/* Repeats until every residual has the type of its outputs. */
static void match_residuals(bool *whole, const spc_net *net)
{
    bool changed = true;

    while (changed) {
        changed = false;
        for (int i = 0; i < net->node_count; i++) {
            const spc__net_node *node = &net->nodes[i];
            if (node->kind != SPC__NODE_CONV || node->add == SPC_NO_TENSOR ||
                whole[node->out] == whole[node->add])
                continue;
            whole[node->out] = whole[node->add] = false;
            changed = true;
        }
    }
}

/* Chooses the tensors that become i8. */
static void choose(bool *whole, const spc_net *net, const float *ranges)
{
    for (int t = 0; t < net->tensor_count; t++) {
        int n = net->tensors[t].node;
        /* The input is the caller's, so it keeps its type. */
        whole[t] = ranges[t] > 0 && n >= 0 &&
                   net->nodes[n].kind == SPC__NODE_CONV &&
                   net->tensors[t].dtype == SPC_F16;
    }
    /* Only convolutions have kernels that read i8. Outputs are for the caller,
     * who expects floats. */
    keep_read(whole, net);
    /* This comes last, as the two loops above only remove candidates, and one
     * removal may cause the next. */
    match_residuals(whole, net);
}

/* ---- converting layers --------------------------------------------------- */

/* Products of integers must be multiplied by the quantisation steps of the
 * weights; the scale contains them. */
static spc_status add_scale(spc__net_node *node, spc_error *error)
{
    size_t count = (size_t)node->conv.cout;
    float *ones;

    if (node->conv.scale)
        return SPC_OK;
    if ((ones = malloc(count * sizeof(*ones))) == NULL)
        return spc__fail_memory(error, count * sizeof(*ones));
    for (size_t i = 0; i < count; i++)
        ones[i] = 1;
    /* A scale of 1 changes nothing by itself; the quantisation steps are
     * multiplied in by spc__net_stored_params(). */
    node->conv.scale = true;
    node->params[1] = ones;
    node->counts[1] = (int64_t)count;
    return SPC_OK;
}

/* Sets a layer's types to the types of its tensors. */
static spc_status change_layer(spc__net_node *node, const bool *whole,
                               spc_error *error)
{
    bool in = whole[node->in[0]], out = whole[node->out];

    if (!in && out)
        node->conv.out = SPC_OUT_I8;
    if (!in)
        return SPC_OK;
    node->conv.dtype = SPC_I8;
    if (!out && node->conv.out == SPC_OUT_DEFAULT)
        node->conv.out = SPC_OUT_F16;
    return add_scale(node, error);
}

/* Checks the ranges, and that the network can still be changed. */
static spc_status check_ranges(const spc_net *net, const float *ranges,
                               spc_error *error)
{
    for (int t = 0; t < net->tensor_count; t++)
        if (!(ranges[t] >= 0) || isinf(ranges[t]))
            return spc__fail(error, SPC_EINVAL,
                             "tensor %d has a range of %g: expected a number "
                             "above 0, or 0 to leave it unquantised",
                             t, (double)ranges[t]);
    if (net->set_count > 0 && net->sets[0].cloud)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "layers of points have no kernels for i8");
    for (int t = 0; t < net->tensor_count; t++)
        if (net->tensors[t].dtype == SPC_I8)
            return spc__fail(error, SPC_ESTATE,
                             "the network is quantised already");
    /* A plan has packed the weights in the old type. */
    if (net->users > 1)
        return spc__fail(error, SPC_ESTATE,
                         "the network has plans: it is quantised before them");
    return SPC_OK;
}

/* Refuses weights that are not finite: an infinite weight has no quantisation
 * step, and NaN would become 0. */
static spc_status check_weights(const spc_net *net, const bool *whole,
                                spc_error *error)
{
    for (int i = 0; i < net->node_count; i++) {
        const spc__net_node *node = &net->nodes[i];
        const char *note = node->shares < 0 ? node->notes[0]
                                            : net->nodes[node->shares].notes[0];
        if (node->kind == SPC__NODE_CONV && whole[node->in[0]] && note != NULL)
            return spc__fail(error, SPC_EINVAL, "i8 cannot hold NaN: %s", note);
    }
    return SPC_OK;
}

spc_status spc_net_quantise(int *layers, spc_net *net, const float *ranges,
                            spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "net", net, "ranges", ranges, NULL);
    bool *whole;

    if (layers != NULL)
        *layers = 0;
    if (status != SPC_OK ||
        (status = check_ranges(net, ranges, error)) != SPC_OK)
        return status;
    if ((whole = calloc((size_t)net->tensor_count + 1, 1)) == NULL)
        return spc__fail_memory(error, (size_t)net->tensor_count);
    choose(whole, net, ranges);
    /* Checks before any layer changes, so that a refused network stays as it
     * was. */
    status = check_weights(net, whole, error);
    for (int i = 0; i < net->node_count && status == SPC_OK; i++) {
        spc__net_node *node = &net->nodes[i];
        if (node->kind != SPC__NODE_CONV)
            continue;
        status = change_layer(node, whole, error);
        if (layers != NULL)
            *layers += whole[node->in[0]];
    }
    /* Tensors change last: the conversion above compares the previous types. */
    for (int t = 0; t < net->tensor_count && status == SPC_OK; t++)
        if (whole[t]) {
            net->tensors[t].dtype = SPC_I8;
            /* Symmetric: -128 is not used, so that a value and its negative are
             * both exact. */
            net->tensors[t].scale = ranges[t] / 127;
        }
    free(whole);
    return status;
}

void spc__net_unquantised(spc_conv *conv)
{
    bool whole = conv->dtype == SPC_I8;

    if (whole)
        conv->dtype = SPC_F16;
    if (conv->out == (whole ? SPC_OUT_F16 : SPC_OUT_I8))
        conv->out = SPC_OUT_DEFAULT;
}

/* ---- weights ------------------------------------------------------------- */

float spc__net_weight_step(const spc__net_node *node, int channel)
{
    size_t each = (size_t)(node->counts[0] / node->conv.cout);
    const float *weights = node->params[0] + (size_t)channel * each;
    float most = 0;

    if (!spc__conv_in_is_whole(&node->conv))
        return 1;
    for (size_t i = 0; i < each; i++)
        most = fabsf(weights[i]) > most ? fabsf(weights[i]) : most;
    /* A channel of zeros may have any quantisation step but 0. */
    return most > 0 ? most / 127 : 1;
}

spc_status spc__net_stored_params(float **weights, float **scale,
                                  const spc__net_node *node, spc_error *error)
{
    size_t count = (size_t)node->counts[0], cout = (size_t)node->conv.cout;
    float *w = malloc((count + 1) * sizeof(*w));
    float *s = malloc((cout + 1) * sizeof(*s));

    *weights = w;
    *scale = s;
    if (w == NULL || s == NULL)
        return spc__fail_memory(error, (count + cout) * sizeof(*w));
    for (size_t c = 0; c < cout; c++) {
        float step = spc__net_weight_step(node, (int)c);
        s[c] = node->params[1] != NULL ? node->params[1][c] * step : step;
        for (size_t i = 0; i < count / cout; i++)
            w[c * (count / cout) + i] =
                node->params[0][c * (count / cout) + i] / step;
    }
    return SPC_OK;
}
