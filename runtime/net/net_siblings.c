/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_siblings.c - merges layers that read one tensor in the same way.
 *
 * The heads of a detector begin with one narrow layer each, all with the same
 * input. As one wide layer, with outputs side by side, they are one launch that
 * reads the input once. The width is limited, since the whole output stays in
 * memory until its last reader is done.
 */
#include "net/net_plan.h"

#include "base/error.h"
#include "context/ctx.h"
#include "operators/conv.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_CHANNELS = 1024 };

/* ---- finding siblings ---------------------------------------------------- */

/* True if the tensor is concatenated to another one. */
static bool is_part(const spc_net *net, int tensor)
{
    for (int i = 0; i < net->node_count; i++)
        for (int j = 0;
             net->nodes[i].kind == SPC__NODE_CONCAT && j < net->nodes[i].ins;
             j++)
            if (net->nodes[i].in[j] == tensor)
                return true;
    return false;
}

/* I8 tensors have separate scales, and clouds have separate maps. */
static bool can_join(const spc_net *net, const spc__net_node *node)
{
    const spc__net_tensor *out = &net->tensors[node->out];

    return node->kind == SPC__NODE_CONV && node->add == SPC_NO_TENSOR &&
           node->conv.add == SPC_ADD_NONE && node->conv.groups == 1 &&
           node->conv.dtype != SPC_I8 && out->dtype != SPC_I8 &&
           (size_t)node->conv.cout * spc__net_element(out) % 16 == 0 &&
           !net->sets[out->set].cloud && !is_part(net, node->out);
}

/* True if one kernel could compute both layers side by side. */
static bool are_alike(const spc__net_node *a, const spc__net_node *b)
{
    char one[400], other[400];
    spc_conv conv = b->conv;

    /* The number of output channels is the only difference that is allowed. */
    conv.cout = a->conv.cout;
    if (a->in[0] != b->in[0] || a->map != b->map)
        return false;
    spc_conv_format(one, sizeof(one), &a->conv);
    spc_conv_format(other, sizeof(other), &conv);
    return strcmp(one, other) == 0;
}

/* Finds the layers after `first` that are computed with it. */
static void join_with(int *next, bool *joined, const spc_net *net, int first,
                      const bool *may)
{
    int channels = net->nodes[first].conv.cout, last = first;

    /* A layer that no longer fits begins another wide layer later. */
    for (int i = first + 1; i < net->node_count; i++) {
        const spc__net_node *node = &net->nodes[i];
        if (!may[i] || joined[i] || !are_alike(&net->nodes[first], node) ||
            channels + node->conv.cout > MOST_CHANNELS)
            continue;
        channels += node->conv.cout;
        joined[i] = true;
        next[last] = i;
        last = i;
    }
}

spc_status spc__net_find_siblings(spc_net_plan *plan, bool *joined,
                                  const bool *may, spc_error *error)
{
    const spc_net *net = plan->net;
    size_t bytes = (size_t)net->node_count * sizeof(*plan->siblings);
    bool *can = calloc((size_t)net->node_count + 1, sizeof(*can));

    plan->siblings = malloc(bytes + 1);
    if (plan->siblings == NULL || can == NULL) {
        free(can);
        return spc__fail_memory(error, bytes);
    }
    for (int i = 0; i < net->node_count; i++) {
        plan->siblings[i] = -1;
        /* Decides for all layers first, as a sibling must pass the same test as
         * the first one. */
        can[i] = may[i] && can_join(net, &net->nodes[i]);
    }
    for (int i = 0; i < net->node_count; i++)
        if (can[i] && !joined[i])
            join_with(plan->siblings, joined, net, i, can);
    free(can);
    return SPC_OK;
}

int spc__net_wide_channels(const spc_net_plan *plan, int node)
{
    int channels = 0;

    for (int i = node; i >= 0; i = plan->siblings[i])
        channels += plan->net->nodes[i].conv.cout;
    return channels;
}

/* ---- shared parameters --------------------------------------------------- */

/* Values are ordered by output channel, so the values of one layer follow the
 * values of another. */
static spc_status join_values(spc__net_node *out, const spc_net_plan *plan,
                              int first, int which, spc_error *error)
{
    const spc__net_node *nodes = plan->net->nodes;
    int64_t count = 0, at = 0;

    for (int i = first; i >= 0; i = plan->siblings[i])
        count += nodes[i].counts[which];
    out->counts[which] = count;
    out->params[which] = NULL;
    if (count == 0)
        return SPC_OK;
    size_t bytes = (size_t)count * sizeof(float);
    if ((out->params[which] = malloc(bytes)) == NULL)
        return spc__fail_memory(error, bytes);
    for (int i = first; i >= 0; i = plan->siblings[i]) {
        memcpy(out->params[which] + at, nodes[i].params[which],
               (size_t)nodes[i].counts[which] * sizeof(float));
        at += nodes[i].counts[which];
    }
    return SPC_OK;
}

spc_status spc__net_join(spc__net_node *out, const spc_net_plan *plan, int node)
{
    spc_status status = SPC_OK;

    *out = plan->net->nodes[node];
    if (plan->siblings[node] < 0)
        return SPC_OK;
    out->conv.cout = spc__net_wide_channels(plan, node);
    /* Clears the pointers first, so that spc__net_part() does not free arrays
     * of the network if a copy fails. */
    for (int i = 0; i < SPC__NET_PARAMS; i++)
        out->params[i] = NULL;
    for (int i = 0; i < SPC__NET_PARAMS && status == SPC_OK; i++)
        status = join_values(out, plan, node, i, spc__error_of(plan->ctx));
    return status;
}

void spc__net_part(spc__net_node *joined, const spc_net_plan *plan, int node)
{
    for (int i = 0; plan->siblings[node] >= 0 && i < SPC__NET_PARAMS; i++)
        free(joined->params[i]);
}
