/*
 * net_branches.c - sets and maps side by side, in a graph that is captured.
 *
 * What indexing does is short and waits for memory most of the time, so a level
 * costs nearly as much as all of them. In a graph each set or map waits for the
 * sets that it reads alone. The multiprocessors are shared out among those that
 * lie equally deep, by what each has to do: a block of these kernels takes a
 * whole one, and all blocks of a launch must be there before it begins.
 */
#include "net_plan.h"

#include "coords.h"
#include "ctx.h"
#include "error.h"
#include "indexer.h"
#include "map.h"
#include <math.h>
#include <stdlib.h>

/* The fewest blocks of a launch: with less, the share of one that was guessed
 * too small is what the others wait for. */
enum { BLOCKS_LEAST = 4 };

static bool is_indexing(const spc__net_work *work)
{
    return work->kind == SPC_NET_SET || work->kind == SPC_NET_MAP;
}

/* Works up to the first layer. Sets that follow a layer wait for it. Clouds
 * follow from each other one by one. */
static int count_branches(const spc_net_plan *plan)
{
    int count = 0;

    if (plan->net->sets[0].cloud)
        return 0;
    while (count < plan->work_count && is_indexing(&plan->works[count]))
        count++;
    return count;
}

/* ---- who waits for whom -------------------------------------------------- */

static int filler_of(const spc_net_plan *plan, const spc_coords *set)
{
    for (int i = 0; i < plan->branch_count; i++) {
        const spc__net_work *work = &plan->works[i];
        if ((work->kind == SPC_NET_SET || work->fills) &&
            plan->sets[work->set] == set)
            return i;
    }
    return -1;
}

static void wait_for(spc_net_plan *plan, spc__net_branch *branch,
                     const spc_coords *set)
{
    int i = filler_of(plan, set);

    if (i < 0)
        return;
    branch->after[branch->after_count++] = i;
    plan->branches[i].waited_for = true;
    if (plan->branches[i].depth >= branch->depth)
        branch->depth = plan->branches[i].depth + 1;
}

/* Is it derived from the input, in one step or several? Then the caller's rows
 * do in its place, and it waits for nobody. */
static bool is_of_input(const spc_net_plan *plan, const spc__net_work *work)
{
    int stride[3];

    return work->kind == SPC_NET_SET &&
           plan->net->sets[work->set].kind == SPC__NET_OUTPUTS &&
           spc__coords_root(plan->sets[work->set], stride) == plan->sets[0];
}

static void find_sources(spc_net_plan *plan, int i)
{
    const spc__net_work *work = &plan->works[i];
    const spc__net_set *set = &plan->net->sets[work->set];
    spc__net_branch *branch = &plan->branches[i];
    int stride[3];

    if (work->fills || is_of_input(plan, work))
        return;
    if (work->kind == SPC_NET_MAP) {
        const spc__net_map *map = &plan->net->maps[work->map];
        wait_for(plan, branch, plan->sets[map->to]);
        if (map->in != map->to)
            wait_for(plan, branch, plan->sets[map->in]);
    } else if (set->kind == SPC__NET_OUTPUTS) {
        wait_for(plan, branch, spc__coords_root(plan->sets[work->set], stride));
    } else if (set->kind == SPC__NET_REGROUPED) {
        for (int j = 0; j < set->sources; j++)
            wait_for(plan, branch, plan->sets[set->from[j]]);
    }
}

/* ---- shares ---------------------------------------------------------------
 */

/* Of the sample; without one, a stride of 2 is taken to leave half of the
 * voxels of a surface seen from afar. */
static double rows_of(const spc_coords *set)
{
    double rows = set->capacity;

    if (set->checked && set->rows > 0)
        return set->rows;
    for (; set->from; set = set->from)
        if (set->rule.rule != SPC_RULE_GENERATIVE)
            rows /= 2;
    return rows;
}

/*
 * What of a work's time falls with the blocks it has: us of a step, in which
 * each thread of its blocks has a row; the rest (17 to 25 us of launches,
 * barriers and latency) does not. Fitted to bench_levels of ResN21 and UNet42
 * on kitti@0.05, and for footprints of CenterPoint on kitti (a voxel has up to
 * eight outputs there), on a whole H200 and on parts of it (docs/LABBOOK.md).
 */
static double steps_of(const spc_coords *set, int blocks)
{
    const double frames_differ = 1.03;

    return ceil(frames_differ * rows_of(set) / (1024.0 * blocks));
}

static double time_of_set(const spc_coords *set, int blocks)
{
    const double sort = 3.5,
                 derive = set->rule.rule == SPC_RULE_FOOTPRINT ? 16 : 4.5;
    int stride[3];

    return sort * steps_of(set, blocks) +
           (set->from ? derive * steps_of(spc__coords_root(set, stride), blocks)
                      : 0);
}

static double time_of_map(const spc_net_plan *plan, const spc__net_map *map,
                          int blocks)
{
    const double fixed = 4, run = 1.7, inverse = 0.9;
    int offsets = spc_geometry_offsets(&map->geometry);
    int line = map->geometry.kernel[2];
    double all = map->inverse ? inverse * offsets
                              : run * offsets / (line > 0 ? line : 1);

    return (fixed + all) * steps_of(plan->sets[map->to], blocks);
}

static double time_of(const spc_net_plan *plan, int i, unsigned blocks)
{
    const spc__net_work *work = &plan->works[i];
    double time = 0;

    if (work->kind == SPC_NET_SET || work->fills)
        time += time_of_set(plan->sets[work->set], (int)blocks);
    if (work->kind == SPC_NET_MAP)
        time += time_of_map(plan, &plan->net->maps[work->map], (int)blocks);
    return time;
}

/* The slowest work of a depth, as their shares are. */
static int slowest(const spc_net_plan *plan, int depth)
{
    int at = -1;

    for (int i = 0; i < plan->branch_count; i++) {
        unsigned blocks = plan->branches[i].blocks;
        if (plan->branches[i].depth == depth &&
            (at < 0 || time_of(plan, i, blocks) >
                           time_of(plan, at, plan->branches[at].blocks)))
            at = i;
    }
    return at;
}

/* The fewest blocks with which a work is faster, or 0. */
static unsigned next_share(const spc_net_plan *plan, int i, unsigned most)
{
    unsigned now = plan->branches[i].blocks;

    for (unsigned blocks = now + 1; blocks <= most; blocks++)
        if (time_of(plan, i, blocks) < time_of(plan, i, now))
            return blocks;
    return 0;
}

/* The slowest is given what makes it faster, until nothing is left for it. */
static void share_blocks(spc_net_plan *plan, int depth)
{
    unsigned most = (unsigned)plan->ctx->info.multiprocessors, used = 0;

    for (int i = 0; i < plan->branch_count; i++)
        if (plan->branches[i].depth == depth)
            used += plan->branches[i].blocks = BLOCKS_LEAST;
    for (;;) {
        int i = slowest(plan, depth);
        unsigned next = i < 0 ? 0 : next_share(plan, i, most);
        if (next == 0 || used - plan->branches[i].blocks + next > most)
            return;
        used += next - plan->branches[i].blocks;
        plan->branches[i].blocks = next;
    }
}

spc_status spc__net_plan_branches(spc_net_plan *plan)
{
    int count = count_branches(plan), depth = 0;

    if (!spc__device_ops_of(plan->ctx->device)->graph_mark || count == 0)
        return SPC_OK;
    plan->branches = calloc((size_t)count, sizeof(*plan->branches));
    if (plan->branches == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx),
                                (size_t)count * sizeof(*plan->branches));
    plan->branch_count = count;
    for (int i = 0; i < count; i++) {
        find_sources(plan, i);
        if (plan->branches[i].depth > depth)
            depth = plan->branches[i].depth;
    }
    for (int d = 0; d <= depth; d++)
        share_blocks(plan, d);
    return SPC_OK;
}

/* ---- capturing ------------------------------------------------------------
 */

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

static spc_status wait(spc_net_plan *plan, const spc__net_branch *branch,
                       const spc__mark *begin, void *stream)
{
    spc__mark on[SPC__NET_SOURCES];
    spc_error error = {0};

    on[0] = *begin;
    for (int j = 0; j < branch->after_count; j++)
        on[j] = plan->branches[branch->after[j]].end;
    spc_status status =
        spc__device_ops_of(plan->ctx->device)
            ->graph_depend(plan->ctx->device, on,
                           branch->after_count > 0 ? branch->after_count : 1,
                           stream, &error);
    return status == SPC_OK ? status : spc__ctx_fail(plan->ctx, &error);
}

static spc_status put_mark(spc_net_plan *plan, spc__mark *mark, void *stream)
{
    spc_error error = {0};
    spc_status status =
        spc__device_ops_of(plan->ctx->device)
            ->graph_mark(plan->ctx->device, mark, stream, &error);

    return status == SPC_OK ? status : spc__ctx_fail(plan->ctx, &error);
}

static spc_status run_branch(spc_net_plan *plan, int i, const spc__mark *begin,
                             const spc_net_buffers *b, void *stream)
{
    const spc__net_work *work = &plan->works[i];
    spc__net_branch *branch = &plan->branches[i];
    spc_status status = wait(plan, branch, begin, stream);

    if (status != SPC_OK)
        return status;
    spc__net_limit(plan, i, branch->blocks);
    status = is_of_input(plan, work)
                 ? spc__coords_derive(plan->sets[work->set], b->coords,
                                      b->count, b->rows, stream)
                 : spc__net_work_run(plan, i, b, stream);
    spc__net_limit(plan, i, 0);
    return status == SPC_OK ? put_mark(plan, &branch->end, stream) : status;
}

/* What comes next waits for all of them. */
static spc_status join(spc_net_plan *plan, void *stream)
{
    size_t room = (size_t)plan->branch_count;
    spc__mark *ends = malloc(room * sizeof(*ends));
    spc_error error = {0};
    spc_status status = SPC_OK;
    int count = 0;

    if (ends == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx), room * sizeof(*ends));
    for (int i = 0; i < plan->branch_count; i++)
        if (!plan->branches[i].waited_for)
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
        status = run_branch(plan, i, &begin, buffers, stream);
    return status == SPC_OK ? join(plan, stream) : status;
}
