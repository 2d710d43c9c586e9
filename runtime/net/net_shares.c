/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_shares.c - chooses the number of multiprocessors of each branch of a
 * graph by search over a model of the run.
 *
 * An indexing launch takes a whole multiprocessor for each block and needs all
 * of them at once. So the share of one branch delays others, and a branch that
 * no layer needs yet may be slow. The model simulates a run. A branch begins
 * when the branches it waits for have ended and its multiprocessors are free;
 * branches that layers need first come first. A layer begins when the preceding
 * layer and its branches have ended.
 *
 * The search starts with the fewest blocks and changes the share of one branch
 * at a time as long as the run gets shorter. The model ignores that layers need
 * multiprocessors, too: a model that included them found slower shares
 * (docs/dev/experiments.md, networks).
 */
#include "net/net_plan.h"

#include "base/error.h"
#include "context/ctx.h"
#include "coords/coords.h"
#include "coords/map.h"
#include <math.h>
#include <stdlib.h>

enum { TERMS = 3, BLOCKS_LEAST = 4, ROUNDS_MOST = 100 };

/* Time of a branch in us: a fixed part for its launches, and a part for each
 * step, in which each thread of its blocks handles one row. */
typedef struct cost {
    double fixed, step[TERMS], rows[TERMS];
    int terms;
} cost;

typedef struct model {
    spc_net_plan *plan;
    cost *costs;  /* cost of each branch */
    double *rest; /* us of a work and all later works */
    bool *runs;   /* for each branch: true while it runs in the simulation */
    int blocks;   /* number of multiprocessors of the device */
} model;

/* ---- times --------------------------------------------------------------- */

/* Rows in the sample. Without a sample, a stride of 2 is assumed to halve the
 * voxels, as for a distant surface. */
static double rows_of(const spc_coords *set)
{
    double rows = set->capacity;

    if (set->checked && set->rows > 0)
        return set->rows;
    for (; set->from; set = set->from)
        if (!spc__geometry_expands(&set->rule))
            rows /= 2;
    return rows;
}

/* Adds a part of a branch's cost that grows with the rows of a set. */
static void add_term(cost *c, double step, const spc_coords *set)
{
    const double frames_differ = 1.03;

    c->step[c->terms] = step;
    c->rows[c->terms++] = frames_differ * rows_of(set);
}

/*
 * Fitted to bench_levels of ResN21 and UNet42 on kitti@0.05, on a whole H200
 * and on 16 to 100 of its multiprocessors. For footprints 4 was chosen from 4,
 * 6, 8 and 16, as it gave the shortest replays of SECOND and CenterPoint on
 * kitti (docs/dev/experiments.md).
 */
static void add_set(cost *c, const spc_coords *set)
{
    const double sort = 3.5,
                 derive = set->rule.rule == SPC_RULE_FOOTPRINT ? 4 : 4.5;
    c->fixed += 12;
    add_term(c, sort, set);
    if (set->from == NULL)
        return;
    c->fixed += 5;
    add_term(c, derive, set->by.root);
}

/* Adds the time of filling a map: its own, and a search of its lines or offsets
 * unless it is derived from another map. */
static void add_map(cost *c, const spc_net_plan *plan, int i)
{
    const spc__net_map *map = &plan->net->maps[i];
    const spc_map *built = plan->maps[i];
    const double fixed = 4, run = 1.7, inverse = 0.9;
    int offsets = spc_geometry_offset_count(&map->geometry);
    int line = map->geometry.kernel[2];

    bool searched = built->derived_from == NULL;
    double search = map->inverse ? inverse * offsets
                                 : run * offsets / (line > 0 ? line : 1);

    c->fixed += 16;
    add_term(c, fixed + (searched ? search : 0), plan->sets[map->to]);
}

/* Sums the costs of a branch. */
static void find_cost(cost *c, const spc_net_plan *plan, int i)
{
    const spc__net_work *work = &plan->works[i];

    if (work->kind == SPC_NET_VOXELS)
        c->fixed = 30;
    if (work->kind == SPC_NET_SET || work->fills)
        add_set(c, plan->sets[work->set]);
    if (work->kind == SPC_NET_MAP)
        add_map(c, plan, work->map);
}

/* The time of a branch on a number of blocks. */
static double time_of(const cost *c, unsigned blocks)
{
    double time = c->fixed;

    /* A block has 1024 threads, and a step is whole even if it is partly
     * filled. */
    for (int t = 0; t < c->terms; t++)
        time += c->step[t] * ceil(c->rows[t] / (1024.0 * blocks));
    return time;
}

/* A layer of a scan takes some us in any case, and runs at about a fifth of an
 * H200's f16 rate. */
double spc__net_layer_us(const spc_net_plan *plan, const spc__net_work *work)
{
    const double least = 4, products_per_us = 1e8;
    int64_t pairs = work->map >= 0 ? spc_map_pairs(plan->maps[work->map]) : 0;

    if (work->kind != SPC_NET_CONV)
        return least;
    return least + (double)pairs * work->conv.cin * work->conv.cout /
                       work->conv.groups / products_per_us;
}

/* ---- a run of the model -------------------------------------------------- */

/* True if all branches that it waits for have ended. */
static bool is_ready(const spc_net_plan *plan, int i, double now)
{
    const spc__net_branch *branch = &plan->branches[i];

    for (int j = 0; j < branch->after_count; j++)
        if (plan->branches[branch->after[j]].ends > now)
            return false;
    return true;
}

/* Starts the branches that can start. Returns the number of free
 * multiprocessors. */
static int begin_branches(model *m, double now, int free)
{
    spc_net_plan *plan = m->plan;

    for (int number = 0; number < plan->branch_count; number++) {
        int i = plan->branches[number].captured;
        spc__net_branch *branch = &plan->branches[i];
        /* It has started already, or its blocks do not fit: they must all be
         * resident at once. */
        if (branch->ends < INFINITY || (int)branch->blocks > free ||
            !is_ready(plan, i, now))
            continue;
        branch->ends = now + time_of(&m->costs[i], branch->blocks);
        m->runs[i] = true;
        free -= (int)branch->blocks;
    }
    return free;
}

/* When the next running branch ends; INFINITY if none runs. */
static double next_end(const model *m)
{
    double next = INFINITY;

    for (int i = 0; i < m->plan->branch_count; i++)
        if (m->runs[i])
            next = fmin(next, m->plan->branches[i].ends);
    return next;
}

/* Ends the branches that are done and returns their blocks. */
static int end_branches(model *m, double now)
{
    int freed = 0;

    for (int i = 0; i < m->plan->branch_count; i++)
        if (m->runs[i] && m->plan->branches[i].ends <= now) {
            m->runs[i] = false;
            freed += (int)m->plan->branches[i].blocks;
        }
    return freed;
}

/* Simulates the branches: a branch begins when its predecessors have ended and
 * enough blocks are free. */
static void run_branches(model *m)
{
    int free = m->blocks;

    for (int i = 0; i < m->plan->branch_count; i++)
        m->plan->branches[i].ends = INFINITY;
    /* Nothing changes between two ends, so the model jumps from one to the
     * next. */
    for (double now = 0; now < INFINITY; now = next_end(m)) {
        free += end_branches(m, now);
        free = begin_branches(m, now, free);
    }
}

/* Simulates the run; returns when the last layer ends. The end of every branch
 * is added with a small weight: often two branches end last, and shortening
 * only one of them would not show otherwise. */
static double play(model *m)
{
    const spc_net_plan *plan = m->plan;
    const double part = 0.02;
    double end = 0, sum = 0;

    run_branches(m);
    for (int i = 0; i < plan->branch_count; i++) {
        const spc__net_branch *branch = &plan->branches[i];
        /* The layer that needs the branch and all layers after it follow its
         * end. */
        end = fmax(end, branch->ends + m->rest[branch->need]);
        sum += branch->ends;
    }
    return end + part * sum;
}

/* ---- trying -------------------------------------------------------------- */

/* The next larger or smaller share that changes the time of a branch; 0: no
 * such share. */
static unsigned next_share(const model *m, int i, int by)
{
    const cost *c = &m->costs[i];
    int now = (int)m->plan->branches[i].blocks;
    double time = time_of(c, (unsigned)now);

    /* Shares between two steps of the cost would only take blocks from
     * others. */
    for (int b = now + by; b >= BLOCKS_LEAST && b <= m->blocks; b += by)
        if (time_of(c, (unsigned)b) != time)
            return (unsigned)b;
    return 0;
}

/* Applies the change of one share that shortens the run most. Returns false if
 * no change does. */
static bool improve(model *m, double *best)
{
    spc__net_branch *branches = m->plan->branches;
    unsigned share = 0;
    int which = -1;

    for (int i = 0; i < m->plan->branch_count; i++)
        for (int by = -1; by <= 1; by += 2) {
            unsigned before = branches[i].blocks, now = next_share(m, i, by);
            if (now == 0)
                continue;
            branches[i].blocks = now;
            double end = play(m);
            branches[i].blocks = before;
            /* The margin keeps rounding from being taken for an improvement. */
            if (end < *best - 1e-6) {
                *best = end;
                which = i;
                share = now;
            }
        }
    if (which >= 0)
        branches[which].blocks = share;
    return which >= 0;
}

/* Searches for the blocks of each branch, from the fewest on, as long as a
 * change helps. */
static void find_shares(model *m)
{
    int least = m->blocks < BLOCKS_LEAST ? m->blocks : BLOCKS_LEAST;

    for (int i = 0; i < m->plan->branch_count; i++)
        m->plan->branches[i].blocks = (unsigned)least;
    double best = play(m);
    for (int round = 0; round < ROUNDS_MOST && improve(m, &best); round++)
        ;
}

/* ---- entry --------------------------------------------------------------- */

/* Finds the costs of the branches and the time of the layers from each one
 * on. */
static void find_times(model *m)
{
    const spc_net_plan *plan = m->plan;

    for (int i = 0; i < plan->branch_count; i++)
        find_cost(&m->costs[i], plan, i);
    /* rest[work_count] is 0 for branches that no layer needs. */
    for (int i = plan->work_count - 1; i >= plan->branch_count; i--)
        m->rest[i] = m->rest[i + 1] + spc__net_layer_us(plan, &plan->works[i]);
}

spc_status spc__net_share_device(spc_net_plan *plan)
{
    size_t count = (size_t)plan->work_count + 1;
    model m = {
        .plan = plan,
        .costs = calloc(count, sizeof(*m.costs)),
        .rest = calloc(count, sizeof(*m.rest)),
        .runs = calloc(count, sizeof(*m.runs)),
        .blocks = plan->ctx->info.multiprocessors > 0
                      ? plan->ctx->info.multiprocessors
                      : 1,
    };
    spc_status status = SPC_OK;

    if (m.costs == NULL || m.rest == NULL || m.runs == NULL) {
        status = spc__fail_memory(spc__error_of(plan->ctx),
                                  count * sizeof(*m.costs));
    } else {
        find_times(&m);
        find_shares(&m);
    }
    free(m.costs);
    free(m.rest);
    free(m.runs);
    return status;
}
