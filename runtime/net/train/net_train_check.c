/* SPDX-License-Identifier: Apache-2.0 */
/* net_train_check.c - checks that a network can be trained. */
#include "net/train/net_train.h"

#include "base/dtype.h"
#include "base/error.h"

static spc_status fail_node(const spc__net_node *node, const char *why,
                            spc_error *error)
{
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "layer '%.60s' cannot be trained: %s",
                     node->name != NULL ? node->name : "?", why);
}

/* Refuses a convolution whose gradient has no kernels. */
static spc_status check_conv(const spc__net_node *node, spc_error *error)
{
    const spc_conv *conv = &node->conv;

    if (conv->out != SPC_OUT_DEFAULT || spc__dtype_is_whole(conv->dtype))
        return fail_node(node,
                         "it has whole numbers, or another type of outputs "
                         "than of inputs",
                         error);
    return SPC_OK;
}

/* Node kinds that net_train_steps.c supports. */
static bool has_steps(const spc__net_node *node)
{
    return node->kind == SPC__NODE_CONV || node->kind == SPC__NODE_FEATURE ||
           node->kind == SPC__NODE_CONCAT || node->kind == SPC__NODE_REGROUP;
}

/* Says why a layer cannot be trained. */
static spc_status check_node(const spc__net_node *node, spc_error *error)
{
    int params = node->kind == SPC__NODE_CONV || node->kind == SPC__NODE_FEATURE
                     ? SPC__NET_PARAMS
                     : 0;

    if (node->shares >= 0)
        return fail_node(node,
                         "it shares the weights of an earlier layer, and each "
                         "would be changed by itself",
                         error);
    if (!has_steps(node))
        return fail_node(node, "layers of its kind have no gradient", error);
    for (int i = 0; i < params; i++)
        if (node->counts[i] > 0 && node->params[i] == NULL)
            return fail_node(node, "its parameters are not set yet", error);
    return node->kind == SPC__NODE_CONV ? check_conv(node, error) : SPC_OK;
}

static void mark(const spc_net *net, bool *used, int tensor)
{
    int node = tensor != SPC_NO_TENSOR ? net->tensors[tensor].node : -1;

    if (node >= 0)
        used[node] = true;
}

/* Marks the masks of a set and of the sets that it is made from. */
static void mark_masks(const spc_net *net, bool *used, int set)
{
    const spc__net_set *s = &net->sets[set];

    if (s->masked)
        mark(net, used, s->mask);
    for (int i = 0; i < s->sources; i++)
        mark_masks(net, used, s->from[i]);
}

spc_status spc__train_check(const spc_net *net, bool *used, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < net->out_count && status == SPC_OK; i++) {
        mark(net, used, net->outs[i].tensor);
        for (int j = 0; j < i; j++)
            if (net->outs[i].tensor == net->outs[j].tensor)
                status = spc__fail(error, SPC_EUNSUPPORTED,
                                   "outputs %d and %d are one tensor: each "
                                   "once can be trained",
                                   j, i);
    }
    /* Readers come after the layer that they read, so one pass backwards marks
     * all. */
    for (int i = net->node_count - 1; i >= 0 && status == SPC_OK; i--) {
        const spc__net_node *node = &net->nodes[i];
        if (!used[i])
            continue;
        for (int j = 0; j < node->ins; j++)
            mark(net, used, node->in[j]);
        mark(net, used, node->add);
        /* A mask decides which voxels there are, so its layers run although
         * they get no gradient from it. */
        mark_masks(net, used, net->tensors[node->out].set);
        status = check_node(node, error);
    }
    return status;
}
