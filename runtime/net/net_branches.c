/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_branches.c - captures a run as a graph. Sets and maps are on separate
 * branches, and each layer waits only for its map.
 *
 * Indexing kernels are short and mostly wait for memory, so one level takes
 * nearly as long as all of them. Levels therefore run side by side, each with a
 * share of the multiprocessors (net_shares.c). A layer needs only its own
 * level, so later levels are built while earlier layers run. Independent layers
 * run side by side, too (net_waits.c).
 */
#include "net/net_plan.h"

#include "base/error.h"
#include "context/ctx.h"
#include "coords/coords.h"
#include "coords/index/indexer.h"
#include "coords/map.h"
#include <stdlib.h>

static bool is_indexing(const spc__net_work *work)
{
    return work->kind == SPC_NET_VOXELS || work->kind == SPC_NET_SET ||
           work->kind == SPC_NET_MAP;
}

/* Counts the works before the first layer. Sets that follow a layer wait for
 * it. Clouds depend on each other one by one, so they get no branches. */
static int count_branches(const spc_net_plan *plan)
{
    int count = 0;

    if (plan->net->sets[0].cloud)
        return 0;
    while (count < plan->work_count && is_indexing(&plan->works[count]))
        count++;
    return count;
}

/* ---- dependences --------------------------------------------------------- */

/* The branch that fills a set, or -1. */
static int filler_of(const spc_net_plan *plan, int set)
{
    for (int i = 0; i < plan->branch_count; i++) {
        const spc__net_work *work = &plan->works[i];
        if ((work->kind == SPC_NET_SET || work->fills) && work->set == set)
            return i;
    }
    return -1;
}

/* The branch that fills a map, or -1. */
static int filler_of_map(const spc_net_plan *plan, int map)
{
    for (int i = 0; i < plan->branch_count; i++)
        if (plan->works[i].kind == SPC_NET_MAP && plan->works[i].map == map)
            return i;
    return -1;
}

/* Makes a branch wait for branch i, once. */
static void wait_for(spc__net_branch *branch, int i)
{
    /* -1: no branch fills it, so it is ready. */
    if (i < 0)
        return;
    for (int j = 0; j < branch->after_count; j++)
        if (branch->after[j] == i)
            return;
    branch->after[branch->after_count++] = i;
}

/* True if the set derives from the input, in one or several steps. The rows of
 * the input's set then suffice to derive it. */
static bool is_of_input(const spc_net_plan *plan, const spc__net_work *work)
{
    return work->kind == SPC_NET_SET &&
           plan->net->sets[work->set].kind == SPC__NET_OUTPUTS &&
           plan->sets[work->set]->by.root == plan->sets[0];
}

/* Waits for the rows that points are derived into. */
static void wait_for_rows(const spc_net_plan *plan, spc__net_branch *branch)
{
    if (plan->works[0].kind == SPC_NET_VOXELS)
        wait_for(branch, 0);
}

/* The number of the set from which this one is derived in one step. */
static int index_of_root(const spc_net_plan *plan, int set)
{
    const spc_coords *root = plan->sets[set]->by.root;

    /* The root is one of the sets that this one was derived from, step by
     * step. */
    while (plan->sets[set] != root)
        set = plan->net->sets[set].from[0];
    return set;
}

/* Finds the sets and maps that must be filled before a map. */
static void find_sources_of_map(const spc_net_plan *plan, spc__net_branch *out,
                                const spc__net_work *work)
{
    const spc__net_map *map = &plan->net->maps[work->map];

    if (work->fills) {
        wait_for_rows(plan, out);
        return;
    }
    const spc_map *by = plan->maps[work->map]->derived_from;
    for (int i = 0; by != NULL && i < plan->net->map_count; i++)
        if (plan->maps[i] == by) { /* the map already waits for both sets */
            wait_for(out, filler_of_map(plan, i));
            return;
        }
    wait_for(out, filler_of(plan, map->to));
    wait_for(out, filler_of(plan, map->in));
}

/* Finds the sets that must be filled before a set. */
static void find_sources_of_set(const spc_net_plan *plan, spc__net_branch *out,
                                const spc__net_work *work)
{
    const spc__net_set *set = &plan->net->sets[work->set];

    if (set->kind == SPC__NET_REGROUPED)
        for (int j = 0; j < set->sources; j++)
            wait_for(out, filler_of(plan, set->from[j]));
    else if (set->kind == SPC__NET_OUTPUTS && !is_of_input(plan, work))
        wait_for(out, filler_of(plan, index_of_root(plan, work->set)));
    else
        wait_for_rows(plan, out);
}

/* In addition to tensors, a layer reads its map, or its set and the set of its
 * input. */
static void find_sources_of_layer(const spc_net_plan *plan,
                                  spc__net_branch *out,
                                  const spc__net_work *work)
{
    if (work->map >= 0) {
        wait_for(out, filler_of_map(plan, work->map));
        return;
    }
    wait_for(out, filler_of(plan, work->set));
    if (work->in != SPC_NO_TENSOR)
        wait_for(out, filler_of(plan, plan->net->tensors[work->in].set));
}

/* Finds the branches that a work waits for; the work may be a branch itself. */
static void find_sources(const spc_net_plan *plan, spc__net_branch *out, int i)
{
    const spc__net_work *work = &plan->works[i];

    out->after_count = 0;
    if (work->kind == SPC_NET_MAP)
        find_sources_of_map(plan, out, work);
    else if (work->kind == SPC_NET_SET)
        find_sources_of_set(plan, out, work);
    else if (work->kind != SPC_NET_VOXELS)
        find_sources_of_layer(plan, out, work);
}

/* Finds the first layer that waits for each branch, directly or indirectly. A
 * set or map comes before the works that read it. */
static void find_needs(const spc_net_plan *plan)
{
    spc__net_branch layer;

    for (int i = 0; i < plan->branch_count; i++)
        plan->branches[i].need = plan->work_count;
    for (int w = plan->work_count - 1; w >= plan->branch_count; w--) {
        /* Backwards, so that the earliest layer that waits is written last. */
        find_sources(plan, &layer, w);
        for (int j = 0; j < layer.after_count; j++)
            plan->branches[layer.after[j]].need = w;
    }
    /* Sources come before the branches that wait for them, so one pass
     * backwards reaches all. */
    for (int i = plan->branch_count - 1; i >= 0; i--) {
        const spc__net_branch *branch = &plan->branches[i];
        for (int j = 0; j < branch->after_count; j++) {
            spc__net_branch *source = &plan->branches[branch->after[j]];
            if (branch->need < source->need)
                source->need = branch->need;
        }
    }
}

/* ---- planning ------------------------------------------------------------ */

/* Orders the branches by the first layer that needs them. A set or map comes
 * before the branches that wait for it. */
static void order_branches(spc_net_plan *plan)
{
    int number = 0;

    for (int need = 0; need <= plan->work_count; need++)
        for (int i = 0; i < plan->branch_count; i++)
            if (plan->branches[i].need == need)
                plan->branches[number++].captured = i;
}

spc_status spc__net_plan_branches(spc_net_plan *plan)
{
    int count = count_branches(plan);

    if (!spc__device_ops_of(plan->ctx->device)->graph_mark || count == 0)
        return SPC_OK;
    plan->branches = calloc((size_t)count, sizeof(*plan->branches));
    if (plan->branches == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx),
                                (size_t)count * sizeof(*plan->branches));
    plan->branch_count = count;
    for (int i = 0; i < count; i++)
        find_sources(plan, &plan->branches[i], i);
    find_needs(plan);
    order_branches(plan);
    return spc__net_share_device(plan);
}

/* ---- capturing ----------------------------------------------------------- */

void spc__net_limit(const spc_net_plan *plan, int i, unsigned blocks)
{
    const spc__net_work *work = &plan->works[i];
    spc_coords *set = plan->sets[work->set];
    const spc__indexer *indexer = set->indexer;

    if (indexer->set_limit == NULL)
        return;
    if (work->kind == SPC_NET_MAP)
        indexer->map_limit(plan->maps[work->map], blocks);
    else
        indexer->set_limit(set, blocks);
}

/* The next work waits for these branches and for `also`; without any it waits
 * for nothing. */
static spc_status wait(spc_net_plan *plan, const spc__net_branch *branch,
                       const spc__mark *also, void *stream)
{
    spc__mark on[SPC__NET_SOURCES + 2];
    spc_error error = {0};
    int count = 0;

    if (also != NULL)
        on[count++] = *also;
    for (int j = 0; j < branch->after_count; j++)
        on[count++] = plan->branches[branch->after[j]].end;
    spc_status status =
        spc__device_ops_of(plan->ctx->device)
            ->graph_depend(plan->ctx->device, on, count, stream, &error);
    return status == SPC_OK ? status : spc__ctx_fail(plan->ctx, &error);
}

/* Notes the current place of the capture. */
static spc_status put_mark(spc_net_plan *plan, spc__mark *mark, void *stream)
{
    spc_error error = {0};
    spc_status status =
        spc__device_ops_of(plan->ctx->device)
            ->graph_mark(plan->ctx->device, mark, stream, &error);

    return status == SPC_OK ? status : spc__ctx_fail(plan->ctx, &error);
}

/* Derives a set from the caller's rows, so that it need not wait for the set of
 * the input. */
static spc_status derive_from_rows(spc_net_plan *plan,
                                   const spc__net_work *work,
                                   const spc_net_buffers *b, void *stream)
{
    spc_net_buffers rows = spc__net_rows(plan, b);

    spc_status status = spc__coords_derive(plan->sets[work->set], rows.coords,
                                           rows.count, rows.rows, stream);
    return status == SPC_OK ? spc__net_lay_rows(plan, work->set, stream)
                            : status;
}

/* Puts the indexing of a branch on the stream, as a branch of the graph under
 * capture. */
static spc_status run_branch(spc_net_plan *plan, int i, const spc__mark *begin,
                             const spc_net_buffers *b, void *stream)
{
    const spc__net_work *work = &plan->works[i];
    spc__net_branch *branch = &plan->branches[i];
    /* The first branches wait for the beginning; the other branches wait for
     * these. */
    spc_status status =
        wait(plan, branch, branch->after_count > 0 ? NULL : begin, stream);

    if (status != SPC_OK)
        return status;
    /* The limit is part of the captured launch. It is removed so that a plain
     * run uses the whole device. */
    spc__net_limit(plan, i, branch->blocks);
    status = is_of_input(plan, work) ? derive_from_rows(plan, work, b, stream)
                                     : spc__net_work_run(plan, i, b, stream);
    spc__net_limit(plan, i, 0);
    return status == SPC_OK ? put_mark(plan, &branch->end, stream) : status;
}

/* True if another branch waits for this one. Only the others must be joined at
 * the end. */
static bool is_waited_for(const spc_net_plan *plan, int branch)
{
    for (int i = 0; i < plan->branch_count; i++)
        for (int j = 0; j < plan->branches[i].after_count; j++)
            if (plan->branches[i].after[j] == branch)
                return true;
    return false;
}

/* The next work waits for all branches. */
static spc_status join(spc_net_plan *plan, void *stream)
{
    size_t bytes = (size_t)plan->branch_count * sizeof(spc__mark);
    spc__mark *ends = malloc(bytes);
    spc_error error = {0};
    spc_status status;
    int count = 0;

    if (ends == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx), bytes);
    /* A branch that another waits for has ended when that one has. */
    for (int i = 0; i < plan->branch_count; i++)
        if (!is_waited_for(plan, i))
            ends[count++] = plan->branches[i].end;
    status = spc__device_ops_of(plan->ctx->device)
                 ->graph_depend(plan->ctx->device, ends, count, stream, &error);
    free(ends);
    return status == SPC_OK ? status : spc__ctx_fail(plan->ctx, &error);
}

spc_status spc__net_run_branches(spc_net_plan *plan,
                                 const spc_net_buffers *buffers, void *stream)
{
    spc__mark begin;
    spc_status status;

    if (plan->branch_count == 0)
        return SPC_OK;
    status = put_mark(plan, &begin, stream);
    for (int i = 0; i < plan->branch_count && status == SPC_OK; i++)
        status = run_branch(plan, plan->branches[i].captured, &begin, buffers,
                            stream);
    return status == SPC_OK ? join(plan, stream) : status;
}

/* ---- layers -------------------------------------------------------------- */

/* Removes the branches that an earlier layer has already waited for. */
static void keep_new(const spc_net_plan *plan, spc__net_branch *layer, int i)
{
    int count = 0;

    for (int j = 0; j < layer->after_count; j++)
        if (plan->branches[layer->after[j]].need >= i)
            layer->after[count++] = layer->after[j];
    layer->after_count = count;
}

/* The first layer waits only for its branches, the others also for the
 * preceding layer. */
static spc_status wait_for_branches(spc_net_plan *plan, int i, void *stream)
{
    bool first = i == plan->branch_count;
    spc__net_branch layer;
    spc__mark before;
    spc_status status = SPC_OK;

    find_sources(plan, &layer, i);
    keep_new(plan, &layer, i);
    if (layer.after_count == 0)
        return SPC_OK;
    /* A wait replaces everything that the stream would wait for, and so it must
     * name the preceding layer as well. */
    if (!first)
        status = put_mark(plan, &before, stream);
    return status == SPC_OK ? wait(plan, &layer, first ? NULL : &before, stream)
                            : status;
}

/* Puts the layers on the stream in their order. */
static spc_status run_in_order(spc_net_plan *plan,
                               const spc_net_buffers *buffers, void *stream)
{
    spc_status status = SPC_OK;

    for (int i = plan->branch_count; i < plan->work_count && status == SPC_OK;
         i++) {
        if (plan->branch_count > 0)
            status = wait_for_branches(plan, i, stream);
        if (status == SPC_OK)
            status = spc__net_work_run(plan, i, buffers, stream);
    }
    return status;
}

/* ---- concurrent layers --------------------------------------------------- */

/* Layers of a graph during the capture. */
typedef struct lanes {
    spc_net_plan *plan;
    spc__net_waits waits;
    spc__mark *ends; /* one for each work */
    bool *seen;      /* [works][branches]: branches that a layer waits for,
                      * directly or indirectly */
    int *list;       /* a list of works */
    spc__mark *on;   /* marks for which the next layer waits */
} lanes;

static void lanes_release(lanes *l)
{
    free(l->waits.follows);
    free(l->ends);
    free(l->seen);
    free(l->list);
    free(l->on);
}

/* Allocates the records of a run side by side. On failure lanes_release() frees
 * the allocated parts. */
static spc_status lanes_init(lanes *l, spc_net_plan *plan)
{
    size_t works = (size_t)plan->work_count,
           branches = (size_t)plan->branch_count;

    *l = (lanes){.plan = plan};
    l->ends = calloc(works + 1, sizeof(*l->ends));
    /* One more of each, since calloc() of no elements may return NULL. */
    l->seen = calloc(works * branches + 1, sizeof(*l->seen));
    l->list = calloc(works + 1, sizeof(*l->list));
    l->on = calloc(works + branches + 1, sizeof(*l->on));
    if (l->ends == NULL || l->seen == NULL || l->list == NULL || l->on == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx),
                                works * sizeof(*l->ends));
    return spc__net_find_waits(&l->waits, plan);
}

/* Adds the ends of the branches that layer i waits for, except those that a
 * layer before it has already waited for. */
static int add_branches(lanes *l, int i, int layers, int count)
{
    const spc_net_plan *plan = l->plan;
    size_t branches = (size_t)plan->branch_count;
    bool *seen = l->seen + (size_t)i * branches;
    spc__net_branch own;

    /* Work that earlier layers have waited for is done. */
    for (int k = 0; k < layers; k++)
        for (size_t b = 0; b < branches; b++)
            seen[b] |= l->seen[(size_t)l->list[k] * branches + b];
    find_sources(plan, &own, i);
    for (int j = 0; j < own.after_count; j++) {
        int b = own.after[j];
        if (!seen[b])
            l->on[count++] = plan->branches[b].end;
        seen[b] = true;
    }
    return count;
}

/* Makes the next work depend on the first `count` nodes of `on`. */
static spc_status depend_on(lanes *l, int count, void *stream)
{
    spc_ctx *ctx = l->plan->ctx;
    spc_error error = {0};
    spc_status status =
        spc__device_ops_of(ctx->device)
            ->graph_depend(ctx->device, l->on, count, stream, &error);

    return status == SPC_OK ? status : spc__ctx_fail(ctx, &error);
}

/* A layer that waits only for the one captured just before it needs no explicit
 * wait. */
static spc_status wait_in_lane(lanes *l, int i, void *stream)
{
    int layers = spc__net_waits_of(l->list, &l->waits, i);

    for (int k = 0; k < layers; k++)
        l->on[k] = l->ends[l->list[k]];
    int count = add_branches(l, i, layers, layers);
    /* The capture makes each launch wait for the previous one on the stream. */
    bool is_there = count == 1 && layers == 1 && l->list[0] == i - 1;
    return is_there ? SPC_OK : depend_on(l, count, stream);
}

/* The next work waits for the layers that no other layer follows. */
static spc_status join_lanes(lanes *l, void *stream)
{
    int count = 0;

    for (int i = l->plan->branch_count; i < l->plan->work_count; i++) {
        bool last = true;
        for (int j = i + 1; j < l->plan->work_count && last; j++)
            last = !spc__net_follows(&l->waits, j, i);
        if (last)
            l->on[count++] = l->ends[i];
    }
    return count > 0 ? depend_on(l, count, stream) : SPC_OK;
}

/* Lets each layer wait only for the branches that it needs. */
static spc_status run_side_by_side(spc_net_plan *plan,
                                   const spc_net_buffers *buffers, void *stream)
{
    lanes l;
    spc_status status = lanes_init(&l, plan);

    for (int i = plan->branch_count; i < plan->work_count && status == SPC_OK;
         i++)
        if ((status = wait_in_lane(&l, i, stream)) == SPC_OK &&
            (status = spc__net_work_run(plan, i, buffers, stream)) == SPC_OK)
            status = put_mark(plan, &l.ends[i], stream);
    if (status == SPC_OK)
        status = join_lanes(&l, stream);
    lanes_release(&l);
    return status;
}

spc_status spc__net_run_layers(spc_net_plan *plan,
                               const spc_net_buffers *buffers, void *stream)
{
    return spc__net_layers_branch(plan)
               ? run_side_by_side(plan, buffers, stream)
               : run_in_order(plan, buffers, stream);
}
