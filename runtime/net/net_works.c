/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_works.c - converts layers to a list of works: removes unused layers,
 * fuses layers, orders them, and chooses which tensors are stored side by side.
 */
#include "net/net_plan.h"

#include "base/dtype.h"
#include "base/error.h"
#include "context/ctx.h"
#include "operators/conv.h"
#include "operators/feature.h"
#include <stdlib.h>
#include <string.h>

size_t spc__net_element(const spc__net_tensor *tensor)
{
    return spc__dtype_of(tensor->dtype)->bytes;
}

/* State during the conversion. */
typedef struct draft {
    spc_net_plan *plan;
    const spc_net *net;
    bool *node_used;
    bool *set_used;
    bool *map_used;
    bool *set_there; /* the set already has a work in the list */
    bool *map_there;
    int *readers;   /* by tensor: number of layers and outputs that read it */
    int *fused;     /* by node: the convolution that this ADD is fused into, or
                     * -1 */
    bool *absorbed; /* by node: a convolution that is fused with an ADD */
    bool *joined;   /* indexed by node: true if computed with an earlier
                       layer */
    bool *may_join; /* indexed by node: true if the layer may be merged */
    bool *plain;    /* by tensor: its rows must be contiguous */
} draft;

/* Frees a draft, also one that is not complete. */
static void draft_release(draft *d)
{
    free(d->node_used);
    free(d->set_used);
    free(d->map_used);
    free(d->set_there);
    free(d->map_there);
    free(d->readers);
    free(d->fused);
    free(d->absorbed);
    free(d->joined);
    free(d->may_join);
    free(d->plain);
}

static void *zeros(int count, size_t bytes)
{
    /* One more, since calloc() of no elements may return NULL. */
    return calloc((size_t)count + 1, bytes);
}

/* Allocates a draft. */
static spc_status draft_init(draft *d, spc_net_plan *plan, spc_error *error)
{
    const spc_net *net = plan->net;
    size_t all = (size_t)net->node_count + (size_t)net->tensor_count;

    *d = (draft){.plan = plan, .net = net};
    d->node_used = zeros(net->node_count, sizeof(bool));
    d->set_used = zeros(net->set_count, sizeof(bool));
    d->map_used = zeros(net->map_count, sizeof(bool));
    d->set_there = zeros(net->set_count, sizeof(bool));
    d->map_there = zeros(net->map_count, sizeof(bool));
    d->readers = zeros(net->tensor_count, sizeof(int));
    d->fused = zeros(net->node_count, sizeof(int));
    d->absorbed = zeros(net->node_count, sizeof(bool));
    d->joined = zeros(net->node_count, sizeof(bool));
    d->may_join = zeros(net->node_count, sizeof(bool));
    d->plain = zeros(net->tensor_count, sizeof(bool));
    if (d->node_used && d->set_used && d->map_used && d->set_there &&
        d->map_there && d->readers && d->fused && d->absorbed && d->joined &&
        d->may_join && d->plain)
        return SPC_OK;
    return spc__fail_memory(error, all * sizeof(int));
}

/* ---- used layers --------------------------------------------------------- */

/* Marks the masks of a set and of the sets that it is made from. */
static void read_masks(draft *d, int set)
{
    const spc__net_set *s = &d->net->sets[set];

    for (int i = 0; i < s->sources; i++)
        read_masks(d, s->from[i]);
    if (!s->masked)
        return;
    /* A mask is read like a tensor of a layer, and its kernel knows no
     * pitch. */
    d->readers[s->mask]++;
    d->plain[s->mask] = true;
}

/* Marks the masks of all sets that a layer needs as tensors that are read. */
static void read_masks_of(draft *d, const spc__net_node *node)
{
    read_masks(d, d->net->tensors[node->out].set);
    if (node->map >= 0) {
        read_masks(d, d->net->maps[node->map].in);
        read_masks(d, d->net->maps[node->map].to);
    }
}

/* Goes backwards, as readers of a tensor come after its maker. */
static void mark_nodes(draft *d)
{
    const spc_net *net = d->net;

    for (int i = 0; i < net->out_count; i++) {
        d->readers[net->outs[i].tensor]++;
        d->plain[net->outs[i].tensor] = true;
    }
    for (int i = net->node_count - 1; i >= 0; i--) {
        const spc__net_node *node = &net->nodes[i];
        d->fused[i] = -1;
        /* A layer that nothing reads is not computed. */
        if (!(d->node_used[i] = d->readers[node->out] > 0))
            continue;
        read_masks_of(d, node);
        for (int j = 0; j < node->ins; j++) {
            d->readers[node->in[j]]++;
            d->plain[node->in[j]] |= node->kind == SPC__NODE_REGROUP;
        }
        if (node->add != SPC_NO_TENSOR)
            d->readers[node->add]++;
        d->plain[node->out] |=
            node->kind == SPC__NODE_REGROUP || net->tensors[node->out].dense;
    }
}

/* Marks the sets and maps that any layer needs. */
static void mark_sets(draft *d)
{
    const spc_net *net = d->net;

    /* The input's set is filled in every run, so that a check can report errors
     * in the rows. */
    d->set_used[0] = true;
    for (int i = 0; i < net->node_count; i++) {
        if (!d->node_used[i])
            continue;
        d->set_used[net->tensors[net->nodes[i].out].set] = true;
        if (net->nodes[i].map >= 0)
            d->map_used[net->nodes[i].map] = true;
    }
    /* A set is made after its sources, so going backwards marks whole
     * chains. */
    for (int i = net->set_count - 1; i >= 0; i--)
        for (int j = 0; j < net->sets[i].sources && d->set_used[i]; j++)
            d->set_used[net->sets[i].from[j]] = true;
}

/* ---- fused additions ----------------------------------------------------- */

/* True if a convolution makes `tensor`, only one layer reads it, and an ADD can
 * be fused into the convolution. */
static bool can_add(const draft *d, int tensor)
{
    int n = d->net->tensors[tensor].node;
    const spc__net_node *node = n >= 0 ? &d->net->nodes[n] : NULL;

    return node != NULL && node->kind == SPC__NODE_CONV &&
           d->readers[tensor] == 1 && node->conv.add == SPC_ADD_NONE &&
           node->conv.activation == SPC_ACT_NONE;
}

static bool has_slope(const spc_feature *f)
{
    return f->activation == SPC_ACT_LEAKY || f->activation == SPC_ACT_ELU;
}

/* Slopes of epilogues must be above 0 and at most 16. */
static bool is_epilogue(const spc_feature *f)
{
    return !has_slope(f) || (f->slope > 0 && f->slope <= 16);
}

/* Fuses into the later of two convolutions, since the other's result exists by
 * then. */
static void fuse(draft *d, int add)
{
    const spc__net_node *node = &d->net->nodes[add];
    int a = node->in[0], b = node->add;

    if (a == b || !is_epilogue(&node->feature))
        return;
    bool first = can_add(d, a), second = can_add(d, b);
    if (first && second)
        first = d->net->tensors[a].node > d->net->tensors[b].node;
    if (!first && !second)
        return;
    d->fused[add] = d->net->tensors[first ? a : b].node;
    d->absorbed[d->fused[add]] = true;
}

/* Tries to fuse each addition with a convolution. */
static void fuse_all(draft *d)
{
    for (int i = 0; i < d->net->node_count; i++) {
        const spc__net_node *node = &d->net->nodes[i];
        if (d->node_used[i] && node->kind == SPC__NODE_FEATURE &&
            node->feature.op == SPC_FEATURE_ADD)
            fuse(d, i);
    }
}

/* ---- merged layers ------------------------------------------------------- */

static spc_status join_layers(draft *d, spc_error *error)
{
    /* An absorbed convolution has another epilogue than its siblings, and a
     * plain output cannot be a part of a wide row. */
    for (int i = 0; i < d->net->node_count; i++)
        d->may_join[i] = d->node_used[i] && !d->absorbed[i] &&
                         !d->plain[d->net->nodes[i].out];
    return spc__net_find_siblings(d->plan, d->joined, d->may_join, error);
}

/* ---- tensors side by side ------------------------------------------------ */

/* True if `tensor` can be written directly into a row of a concatenation. */
static bool in_place(const draft *d, int tensor, int64_t channel)
{
    const spc__net_tensor *t = &d->net->tensors[tensor];
    const spc__net_position *position = &d->plan->positions[tensor];

    /* Kernels store 16 bytes at once, so a part must begin at a multiple of
     * 16. */
    return t->node >= 0 && d->net->nodes[t->node].kind != SPC__NODE_CONCAT &&
           !d->plain[tensor] && position->piece < 0 &&
           (size_t)channel * spc__net_element(t) % 16 == 0;
}

/* Places the parts of a concatenation in its output, so that nothing has to be
 * copied. */
static void position_parts(draft *d, const spc__net_node *node, int piece)
{
    const spc__net_tensor *whole = &d->net->tensors[node->out];
    int64_t channel = 0;

    for (int i = 0; i < node->ins; i++) {
        spc__net_position *position = &d->plan->positions[node->in[i]];
        if (in_place(d, node->in[i], channel))
            *position = (spc__net_position){piece, channel, whole->elements};
        channel += d->net->tensors[node->in[i]].channels;
    }
}

/* Places the outputs of merged layers side by side. */
static void position_siblings(draft *d, int first, int piece)
{
    int64_t channel = 0, pitch = spc__net_wide_channels(d->plan, first);

    for (int i = first; i >= 0; i = d->plan->siblings[i]) {
        const spc__net_node *node = &d->net->nodes[i];
        /* One wide layer writes all outputs as parts of one row. */
        d->plan->positions[node->out] =
            (spc__net_position){piece, channel, pitch};
        channel += node->conv.cout;
    }
}

/* Goes backwards: if two concatenations want a tensor, the later one has more
 * parts. */
static void position_tensors(draft *d)
{
    spc_net_plan *plan = d->plan;

    for (int i = 0; i < d->net->tensor_count; i++)
        plan->positions[i].piece = -1;
    for (int i = d->net->node_count - 1; i >= 0; i--) {
        const spc__net_node *node = &d->net->nodes[i];
        spc__net_position *position = &plan->positions[node->out];
        if (!d->node_used[i] || d->absorbed[i] || d->joined[i])
            continue;
        if (plan->siblings[i] >= 0)
            position_siblings(d, i, plan->piece_count++);
        if (position->piece < 0)
            *position = (spc__net_position){
                plan->piece_count++, 0, d->net->tensors[node->out].elements};
        if (node->kind == SPC__NODE_CONCAT)
            position_parts(d, node, position->piece);
        /* A pooling that stores indices has a second output. */
        int index = spc__net_index(node);
        if (index == node->out + 1)
            plan->positions[index] = (spc__net_position){
                plan->piece_count++, 0, d->net->tensors[index].elements};
    }
}

/* ---- works --------------------------------------------------------------- */

/* Adds a work of the plan. The pointer holds until the next one is added. */
static spc__net_work *add_work(spc_net_plan *plan, spc_net_step_kind kind,
                               spc_error *error)
{
    void *works =
        spc__net_grow(plan->works, plan->work_count, sizeof(*plan->works));

    if (works == NULL) {
        spc__fail_memory(error, sizeof(*plan->works));
        return NULL;
    }
    plan->works = works;
    spc__net_work *work = &plan->works[plan->work_count++];
    work->kind = kind;
    /* 0 is a valid node, map and tensor, so "none" must be set. */
    work->node = work->map = -1;
    work->in = work->add = work->out = work->index = SPC_NO_TENSOR;
    return work;
}

/* True if any set is derived from the input's. */
static bool has_levels(const draft *d)
{
    for (int i = 1; i < d->net->set_count; i++)
        if (d->set_used[i] && d->net->sets[i].kind != SPC__NET_BATCHES)
            return true;
    return false;
}

/* A submanifold map of the input's set can fill that set as well, which is
 * faster than two works. With branches in a graph this is not done: other
 * levels would wait for the map. */
static int map_that_fills(const draft *d)
{
    const spc__device_ops *ops = spc__device_ops_of(d->plan->ctx->device);

    if (ops->graph_mark != NULL && has_levels(d))
        return -1;
    for (int i = 0; i < d->net->map_count; i++)
        if (d->map_used[i] && d->net->maps[i].to == 0 &&
            d->net->maps[i].geometry.rule == SPC_RULE_SUBM)
            return i;
    return -1;
}

/* Adds the filling of a map, which may fill its set as well. */
static spc_status add_map(draft *d, int i, bool fills, spc_error *error)
{
    spc__net_work *work = add_work(d->plan, SPC_NET_MAP, error);

    if (work == NULL)
        return SPC_ENOMEM;
    work->map = i;
    work->set = d->net->maps[i].to;
    work->fills = fills;
    d->map_there[i] = true;
    d->set_there[work->set] |= fills;
    return SPC_OK;
}

/* Adds a set and the sets that it is made from, unless they are in the list.
 * The set of BATCHES is filled once, and not by a work. */
static spc_status bring_set(draft *d, int i, spc_error *error)
{
    const spc__net_set *set = &d->net->sets[i];
    spc__net_work *work;

    if (d->set_there[i] || set->kind == SPC__NET_BATCHES)
        return SPC_OK;
    /* Depth first, so that a set comes after its sources. */
    for (int j = 0; j < set->sources; j++)
        if (bring_set(d, set->from[j], error) != SPC_OK)
            return SPC_ENOMEM;
    if ((work = add_work(d->plan, SPC_NET_SET, error)) == NULL)
        return SPC_ENOMEM;
    work->set = i;
    work->in = set->masked ? set->mask : SPC_NO_TENSOR;
    d->set_there[i] = true;
    return SPC_OK;
}

/* Adds the filling of a map and of its sets, unless they are there. */
static spc_status bring_map(draft *d, int i, spc_error *error)
{
    spc_status status = SPC_OK;

    if (i < 0 || d->map_there[i])
        return SPC_OK;
    if ((status = bring_set(d, d->net->maps[i].in, error)) != SPC_OK ||
        (status = bring_set(d, d->net->maps[i].to, error)) != SPC_OK)
        return status;
    return add_map(d, i, false, error);
}

static bool map_is_late(const spc_net *net, int i)
{
    return spc__net_set_is_late(net, net->maps[i].in) ||
           spc__net_set_is_late(net, net->maps[i].to);
}

/* Adds all sets and maps that do not depend on features. */
static spc_status add_indexing(draft *d, spc_error *error)
{
    int filling = map_that_fills(d);
    spc_status status = SPC_OK;

    if (d->plan->options.points > 0 &&
        add_work(d->plan, SPC_NET_VOXELS, error) == NULL)
        return SPC_ENOMEM;
    /* First of all: the map fills the input's set, from which the others
     * derive. */
    if (filling >= 0)
        status = add_map(d, filling, true, error);
    for (int i = 0; i < d->net->set_count && status == SPC_OK; i++)
        if (d->set_used[i] && !spc__net_set_is_late(d->net, i))
            status = bring_set(d, i, error);
    for (int i = 0; i < d->net->map_count && status == SPC_OK; i++)
        if (d->map_used[i] && !map_is_late(d->net, i))
            status = bring_map(d, i, error);
    return status;
}

/* Adds the set and map of a layer if they depend on features. */
static spc_status add_late_indexing(draft *d, int i, spc_error *error)
{
    const spc__net_node *node = &d->net->nodes[i];
    spc_status status = bring_set(d, d->net->tensors[node->out].set, error);

    if (status == SPC_OK)
        status = bring_map(d, node->map, error);
    /* A fused layer reads the convolution's map and not its own. */
    if (status == SPC_OK && d->fused[i] >= 0)
        status = bring_map(d, d->net->nodes[d->fused[i]].map, error);
    return status;
}

/* Replaces the fused ADD by the convolution. */
static void take_add(draft *d, spc__net_work *work, int add)
{
    const spc__net_node *node = &d->net->nodes[add];
    const spc__net_node *conv = &d->net->nodes[work->node];

    /* The ADD's activation follows the sum. An epilogue without an activation
     * accepts only AFTER. */
    work->conv.add = SPC_ADD_BEFORE;
    work->conv.activation = node->feature.activation;
    work->conv.slope = has_slope(&node->feature) ? node->feature.slope : 0;
    if (work->conv.activation == SPC_ACT_NONE)
        work->conv.add = SPC_ADD_AFTER;
    /* The operand that the convolution does not compute. */
    work->add = node->in[0] == conv->out ? node->add : node->in[0];
    work->out = node->out;
}

/* Returns 0 for contiguous rows, as layers without a pitch have it. */
static int pitch_of(const draft *d, int tensor)
{
    const spc__net_position *position = &d->plan->positions[tensor];

    if (tensor == SPC_NO_TENSOR || position->piece < 0 ||
        position->pitch == d->net->tensors[tensor].elements)
        return 0;
    return (int)position->pitch;
}

/* Adds a convolution, with the layer that was fused into it. */
static spc_status add_conv(draft *d, int i, spc_error *error)
{
    bool fused = d->fused[i] >= 0;
    const spc__net_node *node = &d->net->nodes[fused ? d->fused[i] : i];
    spc__net_work *work = add_work(d->plan, SPC_NET_CONV, error);

    if (work == NULL)
        return SPC_ENOMEM;
    work->node = fused ? d->fused[i] : i;
    work->map = node->map;
    work->conv = node->conv;
    work->in = node->in[0];
    work->add = node->add;
    work->out = node->out;
    if (fused)
        take_add(d, work, i);
    work->set = d->net->tensors[work->out].set;
    work->conv.cout = spc__net_wide_channels(d->plan, work->node);
    work->conv.in_pitch = pitch_of(d, work->in);
    work->conv.out_pitch = pitch_of(d, work->out);
    if (work->conv.out_pitch == work->conv.cout) /* the outputs fill the whole
                                                  * row */
        work->conv.out_pitch = 0;
    work->conv.add_pitch =
        work->add != SPC_NO_TENSOR ? pitch_of(d, work->add) : 0;
    return SPC_OK;
}

/* Adds a layer of another kind. */
static spc_status add_layer(draft *d, int i, spc_net_step_kind kind,
                            spc_error *error)
{
    const spc__net_node *node = &d->net->nodes[i];
    spc__net_work *work = add_work(d->plan, kind, error);

    if (work == NULL)
        return SPC_ENOMEM;
    work->node = i;
    work->map = node->map;
    work->feature = node->feature;
    work->in = node->in[0];
    work->index = spc__net_index(node);
    /* An un-pooling names the pooled tensor only to find its indices. */
    work->add = work->index == SPC_NO_TENSOR ? node->add : SPC_NO_TENSOR;
    work->out = node->out;
    work->set =
        d->net
            ->tensors[spc__feature_is_by_batch(&node->feature) ? work->in
                                                               : node->out]
            .set;
    return SPC_OK;
}

/* Copies a part that could not be written directly. */
static spc_status add_copy(draft *d, int i, int part, int64_t channel,
                           spc_error *error)
{
    const spc__net_tensor *t = &d->net->tensors[part];
    spc__net_work *work;

    if ((work = add_work(d->plan, SPC_NET_FEATURE, error)) == NULL)
        return SPC_ENOMEM;
    work->node = i;
    work->feature = (spc_feature)SPC_FEATURE_INIT;
    work->feature.op = SPC_FEATURE_REPEAT;
    work->feature.channels = t->channels;
    work->feature.dtype = t->dtype;
    work->in = part;
    work->out = d->net->nodes[i].out;
    work->channel = channel;
    work->set = t->set;
    return SPC_OK;
}

/* Adds the copies that a concatenation still needs. */
static spc_status add_concat(draft *d, int i, spc_error *error)
{
    const spc__net_node *node = &d->net->nodes[i];
    const spc__net_position *positions = d->plan->positions;
    int64_t channel = 0;
    spc_status status = SPC_OK;

    for (int j = 0; j < node->ins && status == SPC_OK; j++) {
        const spc__net_position *at = &positions[node->in[j]];
        /* Parts that lie in their place already need no work. */
        if (at->piece != positions[node->out].piece || at->channel != channel)
            status = add_copy(d, i, node->in[j], channel, error);
        channel += d->net->tensors[node->in[j]].channels;
    }
    return status;
}

/* Adds the sets, maps and works that a layer needs, unless the layer was merged
 * into another. */
static spc_status add_node_work(draft *d, int i, spc_error *error)
{
    const spc__net_node *node = &d->net->nodes[i];

    if (!d->node_used[i] || d->absorbed[i] || d->joined[i])
        return SPC_OK;
    if (add_late_indexing(d, i, error) != SPC_OK)
        return SPC_ENOMEM;
    if (node->kind == SPC__NODE_CONCAT)
        return add_concat(d, i, error);
    if (node->kind == SPC__NODE_CONV || d->fused[i] >= 0)
        return add_conv(d, i, error);
    return add_layer(d, i,
                     node->kind == SPC__NODE_REGROUP ? SPC_NET_GATHER
                                                     : SPC_NET_FEATURE,
                     error);
}

/* ---- entry --------------------------------------------------------------- */

static spc_status alloc_positions(spc_net_plan *plan, spc_error *error)
{
    size_t bytes = (size_t)plan->net->tensor_count * sizeof(*plan->positions);

    plan->positions = calloc(1, bytes + 1);
    return plan->positions != NULL ? SPC_OK : spc__fail_memory(error, bytes);
}

spc_status spc__net_works(spc_net_plan *plan, spc_error *error)
{
    draft d;
    spc_status status;

    if (plan->net->out_count == 0)
        return spc__fail(
            error, SPC_EINVAL,
            "network '%s' has no output, so there is nothing to run",
            plan->net->name);
    if ((status = draft_init(&d, plan, error)) == SPC_OK &&
        /* Each step relies on the marks of the previous step: fusing needs the
         * readers, merging needs the fused layers, and placing the merged
         * ones. */
        (status = alloc_positions(plan, error)) == SPC_OK) {
        mark_nodes(&d);
        mark_sets(&d);
        fuse_all(&d);
        if ((status = join_layers(&d, error)) == SPC_OK) {
            position_tensors(&d);
            status = add_indexing(&d, error);
        }
        for (int i = 0; i < plan->net->node_count && status == SPC_OK; i++)
            status = add_node_work(&d, i, error);
    }
    draft_release(&d);
    return status;
}
