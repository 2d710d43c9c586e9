/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_resolve.c - finds the set of a layer's outputs and its map, and checks them
 * against a file's key.
 */
#include "net/net_nodes.h"

#include "base/error.h"
#include "operators/geometry.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which sets a layer is between --------------------------------------- */

/* Completes and checks a geometry that derives a set, since the shape of that
 * set is a quotient by the stride. The outputs of a FOOTPRINT are limited by
 * the shape of its input set. */
static spc_status complete_geometry(spc_geometry *g, const spc__net_set *from,
                                    spc_error *error)
{
    bool limited = g->rule == SPC_RULE_FOOTPRINT && from->shape[0] > 0;

    if (limited && g->shape[0] == 0)
        memcpy(g->shape, from->shape, sizeof(g->shape));
    if (limited && memcmp(g->shape, from->shape, sizeof(g->shape)) != 0)
        return spc__fail(error, SPC_EINVAL,
                         "shape=%dx%dx%d: its inputs have %dx%dx%d",
                         g->shape[0], g->shape[1], g->shape[2], from->shape[0],
                         from->shape[1], from->shape[2]);
    return spc_geometry_check(g, error);
}

static bool derives(const spc_geometry *g)
{
    return g->rule != SPC_RULE_SUBM && g->rule != SPC_RULE_GIVEN;
}

/* The set that an inverse layer returns to. Its inputs must be the outputs of
 * that set by this geometry. */
static spc_status find_back(int *to, spc_net *net, spc_geometry *g, int in,
                            int at, spc_error *error)
{
    const spc__net_set *set = &net->sets[in];
    spc__net_set outputs;
    spc_status status;

    if (at == SPC_NO_TENSOR && set->kind != SPC__NET_OUTPUTS)
        return spc__fail(error, SPC_EINVAL,
                         "its inputs were derived from no other set: there is "
                         "nothing to go back to");
    if (at != SPC_NO_TENSOR &&
        (status = spc__net_check_rows(net, at, "at", error)) != SPC_OK)
        return status;
    *to = at == SPC_NO_TENSOR ? set->from[0] : net->tensors[at].set;
    if ((status = complete_geometry(g, &net->sets[*to], error)) != SPC_OK)
        return status;
    /* The way back exists only if this geometry, forwards, gives the set of the
     * inputs. */
    spc__net_outputs_of(&outputs, net, *to, g);
    if (set->kind != SPC__NET_OUTPUTS || !spc__net_set_equal(set, &outputs))
        return spc__fail(error, SPC_EINVAL,
                         "its inputs are not what its geometry derives from "
                         "the set that it goes back to");
    return SPC_OK;
}

/* Finds the set of a layer's outputs and its map. */
spc_status spc__net_resolve_set(int *to, int *map, spc_net *net, spc_geometry *g,
                               bool inverse, int in, int at, spc_error *error)
{
    spc__net_set outputs;
    spc__net_map made = {.in = in, .inverse = inverse};
    spc_status status = SPC_OK;

    *to = in;
    if ((g->rule == SPC_RULE_RADIUS) != net->sets[in].cloud)
        return spc__fail(error, SPC_EINVAL,
                         net->sets[in].cloud
                             ? "its inputs are points: layers of voxels take "
                               "none"
                             : "its inputs are voxels: layers of points take "
                               "those of an input with cloud = true");
    if (g->rule == SPC_RULE_RADIUS) {
        status = spc__net_resolve_points(to, net, g, inverse, in, at, error);
    } else if (inverse && g->rule != SPC_RULE_GENERATIVE &&
               g->rule != SPC_RULE_GIVEN) {
        status = find_back(to, net, g, in, at, error);
    } else if (g->rule == SPC_RULE_GIVEN) {
        if ((status = spc__net_check_rows(net, at, "at", error)) == SPC_OK)
            *to = net->tensors[at].set;
    } else if (derives(g)) {
        status = complete_geometry(g, &net->sets[in], error);
        if (status == SPC_OK) {
            spc__net_outputs_of(&outputs, net, in, g);
            if ((*to = spc__net_find_set(net, &outputs, error)) < 0)
                status = SPC_ENOMEM;
        }
    }
    /* Geometries of the other rules are checked here. */
    if (status != SPC_OK || (status = spc_geometry_check(g, error)) != SPC_OK)
        return status;
    made.to = *to;
    made.geometry = *g;
    *map = spc__net_find_map(net, &made, error);
    return *map < 0 ? SPC_ENOMEM : SPC_OK;
}

/* ---- keys ---------------------------------------------------------------- */

/* An inverse layer has the key of the layer that it inverts. */
static bool same_relation(const spc__net_map *a, const spc__net_map *b)
{
    bool swapped = a->inverse != b->inverse;

    return a->in == (swapped ? b->to : b->in) &&
           a->to == (swapped ? b->in : b->to) &&
           spc__geometry_equal(&a->geometry, &b->geometry);
}

/* Notes a key that two different maps were given, as a hint to a mistake in the
 * user's model. */
static spc_status note_key(spc_net *net, const spc__net_key *key,
                           const char *layer, spc_error *error)
{
    char text[320];

    snprintf(text, sizeof(text),
             "layers '%.60s' and '%.60s' have the key '%.60s', but their maps "
             "differ: the key is not followed",
             net->nodes[key->node].name, layer, key->name);
    return spc_net_add_note(net, text, error);
}

/* Adds a note if the key does not match this map. Called before the layer is
 * added. */
spc_status spc__net_check_key(spc_net *net, const char *key, int map,
                              const char *layer, spc_error *error)
{
    spc__net_key made = {NULL, map, net->node_count};
    void *keys;
    spc_status status;

    if (key == NULL || key[0] == '\0')
        return SPC_OK;
    /* A key is only compared: maps are found by their contents (net.c). */
    for (int i = 0; i < net->key_count; i++)
        if (strcmp(net->keys[i].name, key) == 0)
            return same_relation(&net->maps[net->keys[i].map], &net->maps[map])
                       ? SPC_OK
                       : note_key(net, &net->keys[i], layer, error);
    if ((status = spc__net_text(&made.name, key, error)) != SPC_OK)
        return status;
    keys = spc__net_grow(net->keys, net->key_count, sizeof(made));
    if (keys == NULL) {
        free(made.name);
        return spc__fail_memory(error, sizeof(made));
    }
    net->keys = keys;
    net->keys[net->key_count++] = made;
    return SPC_OK;
}
