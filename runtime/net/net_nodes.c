/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_nodes.c - the common part of adding a layer: checks its tensors, names
 * it, and appends it with the tensor that it makes.
 */
#include "net/net_nodes.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/plural.h"
#include "operators/geometry.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ------------------------------------------------------------- */

spc_status spc__net_check_tensor(const spc_net *net, int tensor,
                                 const char *what, spc_error *error)
{
    /* A pooling's indices are not features: only an un-pooling reads them. */
    if (tensor >= 0 && tensor < net->tensor_count)
        return !net->tensors[tensor].index
                   ? SPC_OK
                   : spc__fail(error, SPC_EINVAL,
                               "its `%s` is tensor %d, the indices of a "
                               "pooling: only unpool=index reads them",
                               what, tensor);
    if (tensor == SPC_NO_TENSOR)
        return spc__fail(error, SPC_EINVAL, "its `%s` is missing", what);
    return spc__fail(error, SPC_EINVAL,
                     "its `%s` is tensor %d: the network has %d", what, tensor,
                     net->tensor_count);
}

static bool is_by_batch(const spc_net *net, int tensor)
{
    return net->sets[net->tensors[tensor].set].kind == SPC__NET_BATCHES;
}

spc_status spc__net_check_any_rows(const spc_net *net, int tensor,
                                   const char *what, spc_error *error)
{
    spc_status status = spc__net_check_tensor(net, tensor, what, error);

    if (status == SPC_OK && net->tensors[tensor].dense &&
        !is_by_batch(net, tensor))
        status = spc__fail(error, SPC_EINVAL,
                           "its `%s` is dense: only outputs of the network can "
                           "be",
                           what);
    return status;
}

spc_status spc__net_check_rows(const spc_net *net, int tensor, const char *what,
                               spc_error *error)
{
    spc_status status = spc__net_check_any_rows(net, tensor, what, error);

    if (status == SPC_OK && is_by_batch(net, tensor))
        status = spc__fail(error, SPC_EINVAL,
                           "its `%s` is dense, a row for each batch element: "
                           "linear layers, operators that take each row by "
                           "itself, and multiply read it",
                           what);
    return status;
}

spc_status spc__net_check_width(const char *what, int has, int channels,
                                spc_error *error)
{
    return has == channels
               ? SPC_OK
               : spc__fail(error, SPC_EINVAL, "%s %s, the tensor has %d", what,
                           spc__count(has, "channel"), channels);
}

spc_status spc__net_check_type(const char *what, spc_dtype has, spc_dtype dtype,
                               spc_error *error)
{
    return has == dtype
               ? SPC_OK
               : spc__fail(error, SPC_EINVAL, "%s %s, the tensor has %s", what,
                           spc__dtype_names[has], spc__dtype_names[dtype]);
}

/* Appends a tensor; returns its number, or -1 if out of memory. */
int spc__net_add_tensor(spc_net *net, const spc__net_tensor *tensor,
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

/* The first layer with this name, or -1. */
static int find_name(const spc_net *net, const char *name)
{
    for (int i = 0; i < net->node_count; i++)
        if (strcmp(net->nodes[i].name, name) == 0)
            return i;
    return -1;
}

/* True if the two layers have weights of the same shape and order. */
static bool same_kernel(const spc_conv *a, const spc_conv *b)
{
    const spc_geometry *g = &a->geometry, *h = &b->geometry;

    if (a->cin != b->cin || a->cout != b->cout || a->groups != b->groups ||
        a->dtype != b->dtype || !spc__geometry_same_list(g, h))
        return false;
    return g->offset_count > 0 ||
           memcmp(g->kernel, h->kernel, sizeof(g->kernel)) == 0;
}

/* True if the two layers can have the same parameters. */
static bool same_params(const spc__net_node *a, const spc__net_node *b)
{
    const char *norm = a->norm != NULL ? a->norm : "";
    const char *other = b->norm != NULL ? b->norm : "";

    if (a->kind != b->kind || memcmp(a->counts, b->counts, sizeof(a->counts)))
        return false;
    if (a->kind != SPC__NODE_CONV)
        return a->feature.op == b->feature.op;
    return same_kernel(&a->conv, &b->conv) && strcmp(norm, other) == 0 &&
           a->eps == b->eps;
}

/* A head over several levels of a pyramid is several layers of one name. A
 * repeated name may also be a mistake, so a note mentions it. */
static spc_status share(spc__net_node *node, spc_net *net, int first,
                        spc_error *error)
{
    const spc__net_node *other = &net->nodes[first];
    char text[512];

    if (node->counts[0] + node->counts[1] + node->counts[2] == 0)
        return spc__fail(error, SPC_EINVAL, "another layer has this name");
    if (!same_params(node, other))
        return spc__fail(
            error, SPC_EINVAL,
            "another layer of this name has different weights: layers with one "
            "name share their weights, so they need the same channels, kernel, "
            "type, scale, bias and normalisation");
    node->shares = first;
    snprintf(text, sizeof(text),
             "layers %d and %d are both called '%.200s' and share its weights",
             first + 1, net->node_count + 1, other->name);
    return spc_net_add_note(net, text, error);
}

/* "layer7" for the seventh layer, unless that name is taken. */
static void make_name(char *out, size_t bytes, const spc_net *net)
{
    /* A caller may have given a name of this form to another layer. */
    int number = net->node_count + 1;

    do
        snprintf(out, bytes, "layer%d", number++);
    while (find_name(net, out) >= 0);
}

spc_status spc__net_name_node(spc__net_node *node, spc_net *net,
                              const char *name, spc_error *error)
{
    int first = name != NULL ? find_name(net, name) : -1;
    spc_status status = SPC_OK;
    char own[24];

    node->shares = -1;
    if (first >= 0)
        status = share(node, net, first, error);
    if (status != SPC_OK)
        return status;
    make_name(own, sizeof(own), net);
    return spc__net_text(&node->name, name != NULL ? name : own, error);
}

/* Appends a node and the tensor that it makes. Takes ownership of the node's
 * members, also on failure. */
spc_status spc__net_add_node(spc_net *net, spc_tensor *out, spc__net_node *node,
                             spc__net_tensor *tensor, spc_error *error)
{
    void *nodes = spc__net_grow(net->nodes, net->node_count, sizeof(*node));

    if (nodes != NULL) {
        net->nodes = nodes;
        /* The number that the node gets below, if the tensor can be added. */
        tensor->node = net->node_count;
        node->out = spc__net_add_tensor(net, tensor, error);
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

/* Removes the remains of a failed layer: sets after the last one with a tensor,
 * maps after the last one that a node reads, and their keys. */
static void drop_unused(spc_net *net)
{
    int sets = 0, maps = 0;

    for (int i = 0; i < net->tensor_count; i++)
        if (net->tensors[i].set >= sets)
            sets = net->tensors[i].set + 1;
    /* Layers find their sets and maps before their other checks, so a refused
     * layer may leave some that no other layer uses. */
    for (int i = 0; i < net->node_count; i++)
        if (net->nodes[i].map >= maps)
            maps = net->nodes[i].map + 1;
    net->set_count = sets;
    net->map_count = maps;
    while (net->key_count > 0 && net->keys[net->key_count - 1].map >= maps)
        free(net->keys[--net->key_count].name);
}

spc_status spc__net_fail_layer(spc_net *net, const char *name, spc_error *error)
{
    drop_unused(net);
    if (name != NULL)
        return spc__fail_prefix(error, "layer '%s': ", name);
    return spc__fail_prefix(error, "layer %d: ", net->node_count + 1);
}

spc_status spc__net_begin(const char *function, const spc_net *net,
                          spc_tensor *out, const void *what, spc_error *error)
{
    spc_status status = spc__need(error, function, "net", net, "out", out,
                                  "the tensor to add", what, NULL);

    if (out != NULL)
        *out = SPC_NO_TENSOR;
    if (status == SPC_OK && net->tensor_count == 0)
        status = spc__fail(error, SPC_ESTATE,
                           "the network has no input yet: spc_net_add_input "
                           "comes first");
    return status;
}
