/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_several.c - adds layers with several input tensors: concatenations, and
 * sets made from the voxels of others.
 */
#include "net/net_nodes.h"

#include "base/error.h"
#include "base/plural.h"
#include "base/sized.h"
#include "operators/conv.h"
#include "operators/geometry.h"
#include <string.h>

/* Checks the tensors that a layer puts together. */
static spc_status take_parts(spc__net_node *node, const spc_net *net,
                             const spc_tensor *parts, int count,
                             spc_error *error)
{
    spc_status status;

    if (count < 1 || count > SPC__NET_SOURCES)
        return spc__fail(error, SPC_EINVAL, "%d tensors: expected 1 to %d",
                         count, SPC__NET_SOURCES);
    for (int i = 0; i < count; i++) {
        if ((status = spc__net_check_rows(net, parts[i], "parts", error)) !=
                SPC_OK ||
            (status = spc__net_check_type(
                 "the first has", net->tensors[parts[0]].dtype,
                 net->tensors[parts[i]].dtype, error)) != SPC_OK)
            return status;
        node->in[i] = parts[i];
    }
    node->ins = count;
    return SPC_OK;
}

/* Adds a concatenation along the channels. */
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
                             "parts 0 and %d have two coordinate sets", i);
        tensor.channels += net->tensors[parts[i]].channels;
        if (tensor.channels > SPC__CHANNELS_MOST)
            return spc__fail(error, SPC_EINVAL,
                             "parts 0 to %d have %d channels: expected at most "
                             "%d",
                             i, tensor.channels, SPC__CHANNELS_MOST);
    }
    tensor.elements = tensor.channels;
    if ((status = spc__net_name_node(node, net, NULL, error)) != SPC_OK)
        return status;
    return spc__net_add_node(net, out, node, &tensor, error);
}

spc_status spc_net_add_concat(spc_tensor *out, spc_net *net,
                              const spc_tensor *parts, int count,
                              spc_error *error)
{
    spc__net_node node = {
        .kind = SPC__NODE_CONCAT, .map = -1, .add = SPC_NO_TENSOR};
    spc_status status = spc__net_begin(__func__, net, out, parts, error);

    if (status != SPC_OK)
        return status;
    status = make_concat(net, out, &node, parts, count, error);
    return status == SPC_OK ? status : spc__net_fail_layer(net, NULL, error);
}

static int children(const spc_regrouping *how)
{
    return how->split[0] * how->split[1] * how->split[2];
}

/* A set made from a source at twice the scale has twice its shape. With several
 * sources it has the largest of their shapes. */
static spc_status regrouped_set(spc__net_set *set, const spc_net *net,
                                const spc__net_node *node,
                                const spc_regrouping *how, spc_error *error)
{
    memset(set, 0, sizeof(*set));
    set->kind = SPC__NET_REGROUPED;
    set->sources = node->ins;
    set->how = *how;
    for (int i = 0; i < node->ins; i++) {
        set->from[i] = net->tensors[node->in[i]].set;
        for (int a = 0; a < 3; a++) {
            int shape = net->sets[set->from[i]].shape[a];
            int64_t most = (shape - 1) * (int64_t)how->scale[a] + how->split[a];
            if (shape > 0 && most > SPC__SHAPE_MOST)
                return spc__fail(error, SPC_EINVAL,
                                 "scale %d along %c makes a shape of %lld "
                                 "voxels: expected at most %d",
                                 how->scale[a], "xyz"[a], (long long)most,
                                 SPC__SHAPE_MOST);
            if (shape > 0 && most > set->shape[a])
                set->shape[a] = (int)most;
        }
    }
    /* If the shape of a source is unknown, the shape of the set is unknown
     * too. */
    for (int i = 0; i < node->ins; i++)
        if (net->sets[set->from[i]].shape[0] == 0)
            memset(set->shape, 0, sizeof(set->shape));
    return SPC_OK;
}

/* The mask must be over the source's set, with one channel for each child. */
static spc_status check_mask(const spc_net *net, const spc__net_node *node,
                             const spc_regrouping *how,
                             const spc_net_masked *masked, spc_error *error)
{
    const spc__net_tensor *in = &net->tensors[node->in[0]], *mask;
    spc_status status = spc__net_check_rows(net, masked->mask, "mask", error);

    if (status != SPC_OK)
        return status;
    mask = &net->tensors[masked->mask];
    if (mask->set != in->set)
        return spc__fail(error, SPC_EINVAL,
                         "its mask has another coordinate set than its inputs");
    if (mask->channels != children(how))
        return spc__fail(error, SPC_EINVAL,
                         "its mask has %s, but a voxel %d children",
                         spc__count(mask->channels, "channel"), children(how));
    if (masked->above != masked->above)
        return spc__fail(error, SPC_EINVAL,
                         "the threshold is NaN: no row is above it");
    if (!(masked->room >= 0))
        return spc__fail(error, SPC_EINVAL,
                         "a room of %g: expected a positive number, or 0",
                         masked->room);
    return SPC_OK;
}

/* If layers state different `room` for one set, the larger value applies; 0 is
 * the largest. */
static int find_set(spc_net *net, const spc__net_set *set, spc_error *error)
{
    int i = spc__net_find_set(net, set, error);

    if (i >= 0 && net->sets[i].room > 0 &&
        (set->room == 0 || set->room > net->sets[i].room))
        net->sets[i].room = set->room;
    return i;
}

/* With `masked` NULL all slots stay. */
static spc_status make_regroup(spc_net *net, spc_tensor *out,
                               spc__net_node *node, const spc_tensor *sources,
                               int count, const spc_regrouping *how,
                               const spc_net_masked *masked, spc_error *error)
{
    spc_status status = take_parts(node, net, sources, count, error);
    spc__net_tensor tensor = {0};
    spc__net_set set;

    if (status != SPC_OK ||
        (status = spc_regrouping_check(how, error)) != SPC_OK)
        return status;
    tensor = net->tensors[sources[0]];
    if (net->sets[tensor.set].cloud)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "its inputs are points: voxels alone are regrouped");
    if (masked != NULL &&
        (status = check_mask(net, node, how, masked, error)) != SPC_OK)
        return status;
    for (int i = 1; i < count; i++)
        if ((status = spc__net_check_width(
                 "the first source has", tensor.channels,
                 net->tensors[sources[i]].channels, error)) != SPC_OK)
            return status;
    if (node->slices && tensor.channels % children(how) != 0)
        return spc__fail(error, SPC_EINVAL,
                         "%s cannot be cut into slices for %d children",
                         spc__count(tensor.channels, "channel"), children(how));
    if (node->slices)
        tensor.channels /= children(how);
    tensor.elements = tensor.channels;
    if ((status = regrouped_set(&set, net, node, how, error)) != SPC_OK)
        return status;
    if (masked != NULL) {
        set.masked = true;
        set.mask = masked->mask;
        set.above = masked->above;
        set.room = masked->room;
    }
    /* Found by content, so two layers that regroup alike share one set. */
    if ((tensor.set = find_set(net, &set, error)) < 0)
        return SPC_ENOMEM;
    if ((status = spc__net_name_node(
             node, net, masked != NULL ? masked->name : NULL, error)) != SPC_OK)
        return status;
    return spc__net_add_node(net, out, node, &tensor, error);
}

spc_status spc_net_add_regroup(spc_tensor *out, spc_net *net,
                               const spc_tensor *sources, int count,
                               const spc_regrouping *how, bool slices,
                               spc_error *error)
{
    spc__net_node node = {.kind = SPC__NODE_REGROUP,
                          .slices = slices,
                          .map = -1,
                          .add = SPC_NO_TENSOR};
    spc_status status = spc__net_begin(__func__, net, out, sources, error);

    if (status == SPC_OK)
        status = spc__need(error, __func__, "how", how, NULL);
    if (status != SPC_OK)
        return status;
    status = make_regroup(net, out, &node, sources, count, how, NULL, error);
    return status == SPC_OK ? status : spc__net_fail_layer(net, NULL, error);
}

spc_status spc_net_add_masked(spc_tensor *out, spc_net *net,
                              const spc_net_masked *masked, spc_error *error)
{
    spc_status status = spc__net_begin(__func__, net, out, masked, error);

    if (status != SPC_OK ||
        (status = SPC__TAKE(spc_net_masked, masked, error)) != SPC_OK)
        return status;
    spc__net_node node = {.kind = SPC__NODE_REGROUP,
                          .slices = masked->slices,
                          .map = -1,
                          .add = SPC_NO_TENSOR};
    status = make_regroup(net, out, &node, &masked->in, 1, &masked->how, masked,
                          error);
    return status == SPC_OK ? status
                            : spc__net_fail_layer(net, masked->name, error);
}
