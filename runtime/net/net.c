/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.c - networks: create, free, share sets and maps, and answer queries.
 *
 * Sets and maps are found by their contents. So layers share them whatever keys
 * a file has, and a network without keys has no more maps than it needs.
 */
#include "net/net.h"

#include "base/error.h"
#include "operators/geometry.h"
#include <stdlib.h>
#include <string.h>

const spc_operand spc__net_operands[SPC__NET_PARAMS] = {
    SPC_OPERAND_WEIGHTS, SPC_OPERAND_SCALE, SPC_OPERAND_BIAS};

/* ---- memory -------------------------------------------------------------- */

/* The capacity of arrays is a power of two. */
void *spc__net_grow(void *array, int count, size_t bytes)
{
    size_t used = (size_t)count;

    /* Full at every power of two, so no capacity has to be stored. */
    if ((used & (used - 1)) == 0)
        array = realloc(array, (used > 0 ? 2 * used : 1) * bytes);
    if (array != NULL)
        memset((char *)array + used * bytes, 0, bytes);
    return array;
}

spc_status spc__net_text(char **out, const char *text, spc_error *error)
{
    size_t bytes = text != NULL ? strlen(text) + 1 : 0;

    *out = NULL;
    if (text == NULL)
        return SPC_OK;
    if ((*out = malloc(bytes)) == NULL)
        return spc__fail_memory(error, bytes);
    memcpy(*out, text, bytes);
    return SPC_OK;
}

spc_status spc_net_create(spc_net **out, const char *name, spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "out", out, "name", name, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    spc_net *net = calloc(1, sizeof(*net));
    if (net == NULL)
        return spc__fail_memory(error, sizeof(*net));
    net->users = 1;
    if ((status = spc__net_text(&net->name, name, error)) == SPC_OK) {
        *out = net;
        return SPC_OK;
    }
    spc_net_free(net);
    return status;
}

static void release_node(spc__net_node *node)
{
    for (int i = 0; i < SPC__NET_PARAMS; i++) {
        free(node->params[i]);
        free(node->notes[i]);
    }
    free(node->name);
    free(node->norm);
}

void spc_net_free(spc_net *net)
{
    /* Plans of several threads may hold the network, and the last one frees
     * it. */
    if (net == NULL || __atomic_sub_fetch(&net->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (int i = 0; i < net->node_count; i++)
        release_node(&net->nodes[i]);
    for (int i = 0; i < net->key_count; i++)
        free(net->keys[i].name);
    for (int i = 0; i < net->out_count; i++)
        free(net->outs[i].name);
    for (int i = 0; i < net->note_count; i++)
        free(net->notes[i]);
    free(net->sets);
    free(net->maps);
    free(net->keys);
    free(net->tensors);
    free(net->nodes);
    free(net->outs);
    free(net->notes);
    free(net->input_name);
    free(net->name);
    free(net);
}

/* Plans only read a network and count references, so const is cast away only
 * for the count. */
const spc_net *spc__net_share(const spc_net *net)
{
    __atomic_add_fetch(&((spc_net *)(uintptr_t)net)->users, 1,
                       __ATOMIC_RELAXED);
    return net;
}

/* ---- sets and maps ------------------------------------------------------- */

static bool same3(const int a[3], const int b[3])
{
    return memcmp(a, b, 3 * sizeof(*a)) == 0;
}

/* With rule FLOOR the outputs depend only on the stride, for points only on the
 * voxel size. */
static bool same_rule(const spc_geometry *a, const spc_geometry *b)
{
    if (a->rule == SPC_RULE_FLOOR && b->rule == SPC_RULE_FLOOR)
        return same3(a->stride, b->stride);
    if (a->rule == SPC_RULE_RADIUS && b->rule == SPC_RULE_RADIUS)
        return a->voxel == b->voxel;
    return spc__geometry_equal(a, b);
}

bool spc__net_set_equal(const spc__net_set *a, const spc__net_set *b)
{
    if (a->kind != b->kind || a->sources != b->sources ||
        /* Unused entries are zero in every set (spc__net_outputs_of and
         * regrouped_set clear them). */
        memcmp(a->from, b->from, sizeof(a->from)) != 0)
        return false;
    if (a->kind == SPC__NET_OUTPUTS)
        return same_rule(&a->rule, &b->rule);
    if (a->masked != b->masked ||
        (a->masked && (a->mask != b->mask || a->above != b->above)))
        return false;
    return same3(a->how.scale, b->how.scale) &&
           same3(a->how.split, b->how.split);
}

bool spc__net_set_is_late(const spc_net *net, int set)
{
    /* Sets are made from earlier ones, so the recursion ends. */
    const spc__net_set *s = &net->sets[set];

    for (int i = 0; i < s->sources; i++)
        if (spc__net_set_is_late(net, s->from[i]))
            return true;
    return s->masked;
}

/* Shape of the outputs along one axis; 0 if it is unknown or a generative layer
 * does not state it. */
static int outputs_shape(const spc_geometry *g, int shape, int axis)
{
    if (g->rule == SPC_RULE_GENERATIVE)
        return g->shape[axis];
    if (shape == 0)
        return 0;
    if (g->rule == SPC_RULE_FLOOR)
        return (shape + g->stride[axis] - 1) / g->stride[axis];
    return g->rule == SPC_RULE_FOOTPRINT ? (int)spc__geometry_out_shape(g, axis)
                                         : 0;
}

void spc__net_outputs_of(spc__net_set *out, const spc_net *net, int from,
                         const spc_geometry *geometry)
{
    memset(out, 0, sizeof(*out));
    out->kind = SPC__NET_OUTPUTS;
    out->from[0] = from;
    out->sources = 1;
    out->rule = *geometry;
    out->cloud = geometry->rule == SPC_RULE_RADIUS;
    for (int i = 0; i < 3; i++)
        out->shape[i] = outputs_shape(geometry, net->sets[from].shape[i], i);
}

int spc__net_find_set(spc_net *net, const spc__net_set *set, spc_error *error)
{
    void *sets;

    /* The input's set is never the result of a layer. */
    for (int i = 0; i < net->set_count; i++)
        if (net->sets[i].kind != SPC__NET_INPUT &&
            spc__net_set_equal(&net->sets[i], set))
            return i;
    sets = spc__net_grow(net->sets, net->set_count, sizeof(*set));
    if (sets == NULL)
        return spc__fail_memory(error, sizeof(*set)), -1;
    net->sets = sets;
    net->sets[net->set_count] = *set;
    return net->set_count++;
}

int spc__net_find_map(spc_net *net, const spc__net_map *map, spc_error *error)
{
    void *maps;

    for (int i = 0; i < net->map_count; i++) {
        const spc__net_map *at = &net->maps[i];
        if (at->in == map->in && at->to == map->to &&
            at->inverse == map->inverse &&
            spc__geometry_equal(&at->geometry, &map->geometry))
            return i;
    }
    maps = spc__net_grow(net->maps, net->map_count, sizeof(*map));
    if (maps == NULL)
        return spc__fail_memory(error, sizeof(*map)), -1;
    net->maps = maps;
    net->maps[net->map_count] = *map;
    return net->map_count++;
}

/* ---- queries ------------------------------------------------------------- */

/* Counts the arrays that a caller can set. Layers that share weights have them
 * once. */
static int count_params(const spc_net *net)
{
    int count = 0;

    for (int i = 0; i < net->node_count; i++)
        for (int j = 0; j < SPC__NET_PARAMS; j++)
            count += spc__net_owns(net, i, j);
    return count;
}

static int count_convs(const spc_net *net)
{
    int count = 0;

    for (int i = 0; i < net->node_count; i++)
        count += net->nodes[i].kind == SPC__NODE_CONV;
    return count;
}

void spc_net_describe(spc_net_info *out, const spc_net *net)
{
    static const spc_net_input nothing = {0};

    if (out == NULL)
        return;
    *out = (spc_net_info){.name = "", .input = &nothing};
    if (net == NULL)
        return;
    *out = (spc_net_info){
        .name = net->name,
        .layers = count_convs(net),
        .tensors = net->tensor_count,
        .sets = net->set_count,
        .maps = net->map_count,
        .outputs = net->out_count,
        .params = count_params(net),
        .input = &net->input,
    };
}

spc_status spc_net_add_note(spc_net *net, const char *text, spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "net", net, "text", text, NULL);
    char *note = NULL;

    if (status != SPC_OK ||
        (status = spc__net_text(&note, text, error)) != SPC_OK)
        return status;
    void *notes = spc__net_grow(net->notes, net->note_count, sizeof(note));
    if (notes == NULL) {
        free(note);
        return spc__fail_memory(error, sizeof(note));
    }
    net->notes = notes;
    net->notes[net->note_count++] = note;
    return SPC_OK;
}

/* Notes of keys come first, then notes of arrays in the order of layers. */
const char *spc_net_note_at(const spc_net *net, int i)
{
    if (net == NULL || i < 0)
        return NULL;
    if (i < net->note_count)
        return net->notes[i];
    i -= net->note_count;
    for (int n = 0; n < net->node_count; n++)
        for (int j = 0; j < SPC__NET_PARAMS; j++)
            if (net->nodes[n].notes[j] != NULL && i-- == 0)
                return net->nodes[n].notes[j];
    return NULL;
}

spc_status spc_net_tensor_at(spc_tensor_info *out, const spc_net *net,
                             spc_tensor tensor, spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "out", out, "net", net, NULL);

    if (status != SPC_OK)
        return status;
    if (tensor < 0 || tensor >= net->tensor_count)
        return spc__fail(error, SPC_EINVAL,
                         "there is no tensor %d: the network has %d", tensor,
                         net->tensor_count);
    const spc__net_tensor *t = &net->tensors[tensor];
    *out = (spc_tensor_info){
        .set = t->set,
        .channels = t->channels,
        .dtype = t->dtype,
        .dense = t->dense,
        .elements = t->elements,
    };
    memcpy(out->shape, net->sets[t->set].shape, sizeof(out->shape));
    return SPC_OK;
}
