/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_shares.c - how many multiprocessors each branch of a graph has, found by
 * trying on a model of the run.
 *
 * A launch of indexing takes a whole multiprocessor for each of its blocks and
 * needs all of them at once, so what one branch has others wait for; and a
 * branch that no layer needs yet may be slow. So the model plays a run: each
 * branch begins when what it waits for has ended and its multiprocessors are
 * free, those that layers need first before others; a layer begins when the one
 * before it and its branches have ended. From the fewest blocks on, the share
 * of one branch after the other is changed as long as the run gets shorter.
 * The model ignores that layers need multiprocessors too. A model with them
 * found slower shares (docs/dev/experiments.md, networks).
 */
#include "net/net_plan.h"

#include "base/error.h"
#include "context/ctx.h"
#include "coords/coords.h"
#include "coords/map.h"
#include <math.h>
#include <stdlib.h>

enum { TERMS = 3, BLOCKS_LEAST = 4, ROUNDS_MOST = 100 };

/* Time of a branch: what its launches take whatever they do, and what each step
 * takes, in which each thread of its blocks has a row. us. */
typedef struct cost {
    double fixed, step[TERMS], rows[TERMS];
    int terms;
} cost;

typedef struct model {
    spc_net_plan *plan;
    cost *costs;  /* by branch */
    double *rest; /* us of a work and all that come after it */
    bool *runs;   /* by branch, while a run is played */
    int blocks;   /* of the device */
} model;

/* ---- times ---------------------------------------------------------------
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

static void add_term(cost *c, double step, const spc_coords *set)
{
    const double frames_differ = 1.03;

    c->step[c->terms] = step;
    c->rows[c->terms++] = frames_differ * rows_of(set);
}

/*
 * Fitted to bench_levels of ResN21 and UNet42 on kitti@0.05 on a whole H200 and
 * on 16 to 100 of its multiprocessors. For footprints, 4 gave the shortest
 * replays of SECOND and CenterPoint on kitti among 4, 6, 8 and 16
 * (docs/dev/experiments.md).
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

static void add_map(cost *c, const spc_net_plan *plan, int i)
{
    const spc__net_map *map = &plan->net->maps[i];
    const spc_map *built = plan->maps[i];
    const double fixed = 4, run = 1.7, inverse = 0.9;
    int offsets = spc_geometry_offsets(&map->geometry);
    int line = map->geometry.kernel[2];

    bool searched = built->turned_by == NULL;
    double search = map->inverse ? inverse * offsets
                                 : run * offsets / (line > 0 ? line : 1);

    c->fixed += 16;
    add_term(c, fixed + (searched ? search : 0), plan->sets[map->to]);
}

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

static double time_of(const cost *c, unsigned blocks)
{
    double time = c->fixed;

    for (int t = 0; t < c->terms; t++)
        time += c->step[t] * ceil(c->rows[t] / (1024.0 * blocks));
    return time;
}

/* A layer of a scan takes some us whatever it does, and then about a fifth of
 * an H200's rate of f16. */
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

static bool is_ready(const spc_net_plan *plan, int i, double now)
{
    const spc__net_branch *branch = &plan->branches[i];

    for (int j = 0; j < branch->after_count; j++)
        if (plan->branches[branch->after[j]].ends > now)
            return false;
    return true;
}

/* Begins what can begin; returns the multiprocessors that stay free. */
static int begin_branches(model *m, double now, int free)
{
    spc_net_plan *plan = m->plan;

    for (int turn = 0; turn < plan->branch_count; turn++) {
        int i = plan->branches[turn].turn;
        spc__net_branch *branch = &plan->branches[i];
        if (branch->ends < INFINITY || (int)branch->blocks > free ||
            !is_ready(plan, i, now))
            continue;
        branch->ends = now + time_of(&m->costs[i], branch->blocks);
        m->runs[i] = true;
        free -= (int)branch->blocks;
    }
    return free;
}

/* When the next of those that run ends; INFINITY: none runs. */
static double next_end(const model *m)
{
    double next = INFINITY;

    for (int i = 0; i < m->plan->branch_count; i++)
        if (m->runs[i])
            next = fmin(next, m->plan->branches[i].ends);
    return next;
}

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

static void run_branches(model *m)
{
    int free = m->blocks;

    for (int i = 0; i < m->plan->branch_count; i++)
        m->plan->branches[i].ends = INFINITY;
    for (double now = 0; now < INFINITY; now = next_end(m)) {
        free += end_branches(m, now);
        free = begin_branches(m, now, free);
    }
}

/* When the last layer ends. How early each branch is counts a little too: what
 * ends last is often two of them, of which neither alone makes a difference. */
static double play(model *m)
{
    const spc_net_plan *plan = m->plan;
    const double part = 0.02;
    double end = 0, sum = 0;

    run_branches(m);
    for (int i = 0; i < plan->branch_count; i++) {
        const spc__net_branch *branch = &plan->branches[i];
        end = fmax(end, branch->ends + m->rest[branch->need]);
        sum += branch->ends;
    }
    return end + part * sum;
}

/* ---- trying --------------------------------------------------------------
 */

/* The next share up or down with which a branch is faster or slower; 0: none.
 */
static unsigned next_share(const model *m, int i, int by)
{
    const cost *c = &m->costs[i];
    int now = (int)m->plan->branches[i].blocks;
    double time = time_of(c, (unsigned)now);

    for (int b = now + by; b >= BLOCKS_LEAST && b <= m->blocks; b += by)
        if (time_of(c, (unsigned)b) != time)
            return (unsigned)b;
    return 0;
}

/* The change of one share that makes the run shortest; false: none does. */
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

static void find_times(model *m)
{
    const spc_net_plan *plan = m->plan;

    for (int i = 0; i < plan->branch_count; i++)
        find_cost(&m->costs[i], plan, i);
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
