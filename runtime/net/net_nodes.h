/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_nodes.h - what the functions that add layers share: checks of tensors,
 * names, and where a layer lies. Statuses come with a sentence in *error.
 */
#ifndef SPC_RUNTIME_NET_NODES_H
#define SPC_RUNTIME_NET_NODES_H

#include "net/net.h"

/* Is it there? `what` is its name in the sentence. */
spc_status spc__net_check_tensor(const spc_net *net, int tensor,
                                 const char *what, spc_error *error);
/* Rows of voxels, and not a dense plane. */
spc_status spc__net_check_rows(const spc_net *net, int tensor, const char *what,
                               spc_error *error);
spc_status spc__net_check_width(const char *what, int has, int channels,
                                spc_error *error);
spc_status spc__net_check_type(const char *what, spc_dtype has, spc_dtype dtype,
                               spc_error *error);

/* Appends a tensor; returns its number, -1 without memory. */
int spc__net_add_tensor(spc_net *net, const spc__net_tensor *tensor,
                        spc_error *error);

/* The arguments of a function that adds a layer; *out becomes SPC_NO_TENSOR. */
spc_status spc__net_begin(const char *function, const spc_net *net,
                          spc_tensor *out, const void *what, spc_error *error);
/* Names a node whose kind, parameters and normalisation are set. NULL: "layer7".
 * A name that a layer has already means that they share their parameters;
 * SPC_EINVAL if those differ, or if it has none. */
spc_status spc__net_name_node(spc__net_node *node, spc_net *net,
                              const char *name, spc_error *error);
/* Appends a node and the tensor that it makes; takes what the node owns over,
 * also on failure. */
spc_status spc__net_add_node(spc_net *net, spc_tensor *out, spc__net_node *node,
                             spc__net_tensor *tensor, spc_error *error);
/* Puts the layer's name before the sentence in *error; the network is as it was
 * before the layer. */
spc_status spc__net_fail_layer(spc_net *net, const char *name,
                               spc_error *error);

/* The set of a layer's outputs, and its map: inputs lie over the set `in`; `at`
 * is the tensor whose rows the outputs have, or SPC_NO_TENSOR. Completes the
 * geometry by what the network knows. */
spc_status spc__net_find_place(int *to, int *map, spc_net *net, spc_geometry *g,
                               bool inverse, int in, int at, spc_error *error);
/* The cloud that a layer of points has its outputs at (net_points.c). */
spc_status spc__net_place_points(int *to, spc_net *net, const spc_geometry *g,
                                 bool inverse, int in, int at,
                                 spc_error *error);
/* Does the key stand for this map? If not, a note says so. Called before the
 * layer is there. */
spc_status spc__net_check_key(spc_net *net, const char *key, int map,
                              const char *layer, spc_error *error);

#endif
