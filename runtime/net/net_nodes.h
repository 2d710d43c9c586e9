/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_nodes.h - shared by the functions that add layers: checks of tensors,
 * names, sets and maps. A failing function sets *error.
 */
#ifndef SPC_RUNTIME_NET_NODES_H
#define SPC_RUNTIME_NET_NODES_H

#include "net/net.h"

/* Checks that the tensor exists. `what` is its name in the message. */
spc_status spc__net_check_tensor(const spc_net *net, int tensor,
                                 const char *what, spc_error *error);
/* Checks that the tensor has rows, of voxels or of batch elements, and is not a
 * dense plane. The next: that these are rows of voxels or points. */
spc_status spc__net_check_any_rows(const spc_net *net, int tensor,
                                   const char *what, spc_error *error);
spc_status spc__net_check_rows(const spc_net *net, int tensor, const char *what,
                               spc_error *error);
spc_status spc__net_check_width(const char *what, int has, int channels,
                                spc_error *error);
spc_status spc__net_check_type(const char *what, spc_dtype has, spc_dtype dtype,
                               spc_error *error);

/* Appends a tensor; returns its number, or -1 if out of memory. */
int spc__net_add_tensor(spc_net *net, const spc__net_tensor *tensor,
                        spc_error *error);

/* Checks the arguments of a function that adds a layer. *out becomes
 * SPC_NO_TENSOR. */
spc_status spc__net_begin(const char *function, const spc_net *net,
                          spc_tensor *out, const void *what, spc_error *error);
/*
 * Names a node whose kind, parameters and normalisation are set; NULL means
 * "layer7" and the like. A layer with the name of an earlier one shares its
 * parameters. Returns SPC_EINVAL if the parameters differ or the layer has no
 * parameters.
 */
spc_status spc__net_name_node(spc__net_node *node, spc_net *net,
                              const char *name, spc_error *error);
/* Appends a node and the tensor that it makes. Takes ownership of the node's
 * members, also on failure. */
spc_status spc__net_add_node(spc_net *net, spc_tensor *out, spc__net_node *node,
                             spc__net_tensor *tensor, spc_error *error);
/* Prefixes *error with the layer's name and restores the network. */
spc_status spc__net_fail_layer(spc_net *net, const char *name,
                               spc_error *error);

/* Finds the set of a layer's outputs and its map. Its inputs are over the set
 * `in`. `at` is the tensor whose rows the outputs have, or SPC_NO_TENSOR.
 * Completes the geometry from the network. */
spc_status spc__net_resolve_set(int *to, int *map, spc_net *net,
                                spc_geometry *g, bool inverse, int in, int at,
                                spc_error *error);
/* Finds the cloud of a layer's outputs (net_points.c). */
spc_status spc__net_resolve_points(int *to, spc_net *net, const spc_geometry *g,
                                   bool inverse, int in, int at,
                                   spc_error *error);
/* Adds a note if the key does not match this map. Called before the layer is
 * added. */
spc_status spc__net_check_key(spc_net *net, const char *key, int map,
                              const char *layer, spc_error *error);

#endif
