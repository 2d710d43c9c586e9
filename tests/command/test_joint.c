/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_joint.c - trying the layers' choices in the whole network: which choices
 * are stored at the end, also after an interrupt.
 *
 * Network and database are simulated. The time of a replay is a sum of numbers
 * given here, so the expected choices are known. An interrupt at any moment
 * must leave either the earlier choices or others that make the network faster.
 */
#include "command/network/network_tune.h"
#include "harness/suite.h"

#include <math.h>
#include <stdarg.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

enum { LAYERS = 3, KERNELS = 4, NAME = 24 };

/* ---- the network --------------------------------------------------------- */

/*
 * A kernel of a layer: the row order that it reads, and its time alone and in
 * the network. Tuning the layer finds the first kernel with the least time
 * alone.
 */
typedef struct kernel {
    const char *order; /* NULL: no kernel */
    double alone, in_network;
    bool is_untimed; /* the database has no times of the kernel */
} kernel;

typedef struct layer {
    int map, untuned;
    kernel kernels[KERNELS];
} layer;

/* Layers 0 and 1 read one map, layer 2 reads another. */
typedef struct scene_of_action {
    layer layers[LAYERS];
    /* what an order that a layer reads costs in a replay */
    double price;
    double said; /* the tuner's measurement of `price` */
    /* added to the replay time of a plan without records */
    double untuned_extra;
    int want[LAYERS]; /* kernels expected at the end */
} scene_of_action;

static struct world {
    const scene_of_action *is;
    int stored[LAYERS]; /* choices in the database */
    int planned[LAYERS];
    double extra;
    /* a signal comes, or every call fails, at event number ends_at */
    int events, ends_at;
    spc_status ends_with;
    volatile int cancel;
} world;

static problem problems[LAYERS];

static const char *name_of(int l, int k)
{
    static char name[NAME];

    snprintf(name, sizeof(name), "k %d,order=%s", k,
             world.is->layers[l].kernels[k].order);
    return name;
}

static double replay_us(const int taken[LAYERS])
{
    double us = 0;

    for (int l = 0; l < LAYERS; l++) {
        const layer *a = &world.is->layers[l];
        const char *order = a->kernels[taken[l]].order;
        bool is_new = strcmp(order, "none") != 0;
        for (int m = 0; m < l; m++)
            if (world.is->layers[m].map == a->map &&
                strcmp(world.is->layers[m].kernels[taken[m]].order, order) == 0)
                is_new = false;
        us += a->kernels[taken[l]].in_network + is_new * world.is->price;
    }
    return us;
}

/* Counts an event; true if it is the last one that succeeds. */
static spc_status event(void)
{
    if (++world.events != world.ends_at)
        return SPC_OK;
    world.cancel = world.ends_with == SPC_EINTERRUPTED;
    return world.ends_with;
}

/* ---- replacements of the rest of the command ----------------------------- */

spc_status cli_fail(spc_status status, const char *format, ...)
{
    (void)format;
    return status;
}

spc_status cli_fail_ctx(spc_status status, const spc_ctx *ctx)
{
    (void)ctx;
    return status;
}

const volatile int *cli_cancel_flag(void)
{
    return &world.cancel;
}

spc_status network_fail(const network *n, spc_status status)
{
    (void)n;
    return status;
}

spc_status network_check(network *n)
{
    (void)n;
    return SPC_OK;
}

spc_status network_upload(network *n, int i)
{
    (void)n;
    (void)i;
    return SPC_OK;
}

/* Plans with the stored kernels, or with the untuned ones. */
spc_status network_replan(network *n, unsigned flags)
{
    bool untuned = flags == SPC_PLAN_ESTIMATE;

    (void)n;
    for (int l = 0; l < LAYERS; l++)
        world.planned[l] =
            untuned ? world.is->layers[l].untuned : world.stored[l];
    world.extra = untuned ? world.is->untuned_extra : 0;
    return event();
}

spc_status network_replay(network *n, double *us)
{
    (void)n;
    *us = replay_us(world.planned) + world.extra;
    return SPC_OK;
}

/* Time stands still, so there is always time for another rival. */
double network_clock_ms(void)
{
    return 0;
}

static int brought; /* the layer whose scenes the job has */

void network_bring_scenes(tuning *t, const problem *p)
{
    brought = (int)(p - t->problems);
}

problem *network_find_problem(const tuning *t, const spc_net_step *step)
{
    return &t->problems[step->set];
}

void trials_release(trials *t)
{
    (void)t;
}

/* Stores a choice, even if the run ends with this event. */
spc_status tuning_run(trials *found, spc_tune_report *report, cli_job *job,
                      const spc_conv *conv, spc_stage stage,
                      const cli_list *wanted)
{
    const tuning_args *args = job->args;

    (void)found;
    (void)report;
    (void)conv;
    ck_assert(args->chosen != NULL && stage == SPC_STAGE_TIME &&
              wanted == NULL);
    if (world.cancel && !args->at_any_rate)
        return SPC_EINTERRUPTED;
    for (int k = 0; k < KERNELS; k++) {
        const kernel *a = &world.is->layers[brought].kernels[k];
        if (a->order == NULL || strcmp(args->chosen, name_of(brought, k)) != 0)
            continue;
        if (a->is_untimed)
            return SPC_ENOTFOUND;
        world.stored[brought] = k;
        return event();
    }
    ck_abort_msg("layer %d has no kernel '%s'", brought, args->chosen);
}

spc_status __wrap_spc_net_plan_capture(spc_net_plan *plan,
                                       const spc_net_buffers *buffers);
spc_status __wrap_spc_net_plan_capture(spc_net_plan *plan,
                                       const spc_net_buffers *buffers)
{
    (void)plan;
    (void)buffers;
    return SPC_OK;
}

spc_status __wrap_spc_net_plan_step_at(spc_net_step *out,
                                       const spc_net_plan *plan, int i);
spc_status __wrap_spc_net_plan_step_at(spc_net_step *out,
                                       const spc_net_plan *plan, int i)
{
    (void)plan;
    if (i >= LAYERS)
        return SPC_ENOTFOUND;
    *out = (spc_net_step){.kind = SPC_NET_CONV,
                          .set = i,
                          .map = world.is->layers[i].map,
                          .kernel = name_of(i, world.planned[i])};
    return SPC_OK;
}

/* ---- tuned layers -------------------------------------------------------- */

static int fastest_alone(const layer *a)
{
    int best = 0;

    for (int k = 0; k < KERNELS; k++)
        if (a->kernels[k].order != NULL && !a->kernels[k].is_untimed &&
            a->kernels[k].alone < a->kernels[best].alone)
            best = k;
    return best;
}

/* Treats the reports of a tuning run like network_tune.c. */
static void tune_layer_alone(int l)
{
    const layer *a = &world.is->layers[l];
    problem *p = &problems[l];
    int own = fastest_alone(a);

    *p = (problem){
        .known = {.map = a->map, .uses = 1, .own = -1, .chosen = -1}};
    world.stored[l] = own;
    for (int k = 0; k < KERNELS; k++) {
        const kernel *one = &a->kernels[k];
        if (one->order == NULL || one->is_untimed)
            continue;
        ck_assert(joint_layer_add(&p->known, "k", name_of(l, k) + 2, one->alone,
                                  k == own));
        ck_assert(k == own || one->alone > 1.1 * a->kernels[own].alone ||
                  rivals_add(&p->rivals, name_of(l, k), one->alone));
    }
}

/* Runs until event `ends_at` ends the run early. Returns its status. */
static spc_status confirm(const scene_of_action *is, int ends_at,
                          spc_status ends_with)
{
    double price_us[] = {is->said, is->said};
    tuning_args args = {0};
    cli quiet = {.globals = {.quiet = true}};
    tuning t = {
        .net = {.info = {.name = "pretended", .maps = 2}, .scene_count = 2},
        .job = {.self = &quiet, .args = &args},
        .problems = problems,
        .count = LAYERS,
        .price_us = price_us,
        .spent_ms = 1000};

    memset(&world, 0, sizeof(world));
    world.is = is;
    for (int l = 0; l < LAYERS; l++)
        tune_layer_alone(l);
    world.ends_at = ends_at;
    world.ends_with = ends_with;
    spc_status status = network_confirm(&t);
    for (int l = 0; l < LAYERS; l++) {
        joint_layer_release(&problems[l].known);
        rivals_release(&problems[l].rivals);
        free(problems[l].untuned);
    }
    return status;
}

/* ---- requirements -------------------------------------------------------- */

#define NONE(alone, in_network)                                                \
    {                                                                          \
        "none", alone, in_network, false                                       \
    }
#define GRAY(alone, in_network)                                                \
    {                                                                          \
        "gray", alone, in_network, false                                       \
    }
#define DENSE(alone, in_network)                                               \
    {                                                                          \
        "dense", alone, in_network, false                                      \
    }
/* A layer that starts with its first kernel and keeps it. */
#define PLAIN(map)                                                             \
    {                                                                          \
        map, 0,                                                                \
        {                                                                      \
            NONE(10, 10), NONE(20, 20)                                         \
        }                                                                      \
    }

static const struct {
    const char *what;
    scene_of_action is;
} rows[] = {
    {"nothing is better than what each has alone",
     {{{0, 0, {GRAY(10, 10), NONE(40, 40)}}, PLAIN(0), PLAIN(1)},
      20,
      20,
      0,
      {0, 0, 0}}},
    {"an order is paid for once, so both layers of a map read one",
     {{{0, 2, {GRAY(10, 10), DENSE(12, 12), NONE(50, 50)}},
       {0, 2, {GRAY(13, 13), DENSE(10, 10), NONE(50, 50)}},
       PLAIN(1)},
      20,
      20,
      0,
      {1, 1, 0}}},
    {"a layer of another map pays for its own",
     {{{0, 0, {GRAY(10, 10), NONE(40, 40)}},
       PLAIN(0),
       {1, 0, {GRAY(10, 10), NONE(15, 15)}}},
      20,
      20,
      0,
      {0, 0, 1}}},
    {"what layers share by their times makes a replay slower: each its own",
     {{{0, 0, {GRAY(10, 10), DENSE(12, 30)}},
       {0, 1, {GRAY(12, 12), DENSE(10, 10)}},
       PLAIN(1)},
      1,
      20,
      0,
      {0, 1, 0}}},
    {"one wins alone and loses in the network: its rival has its place",
     {{PLAIN(0),
       PLAIN(0),
       {1, 0, {NONE(10, 30), NONE(10.5, 12), NONE(10.2, 29.99)}}},
      20,
      20,
      0,
      {0, 0, 1}}},
    {"a rival wins by no more than replays differ",
     {{PLAIN(0), PLAIN(0), {1, 0, {NONE(10, 30), NONE(10.5, 29.9)}}},
      20,
      20,
      0,
      {0, 0, 0}}},
    {"all is faster untuned but for one layer, which keeps what it has",
     {{{0, 1, {NONE(10, 30), NONE(20, 20)}},
       {0, 1, {NONE(10, 30), NONE(20, 20)}},
       {1, 1, {NONE(10, 10), NONE(20, 15)}}},
      20,
      20,
      0,
      {1, 1, 0}}},
    {"what a layer would have untuned was never timed: it keeps its own",
     {{{0, 1, {NONE(10, 30), NONE(20, 20)}},
       {0, 1, {NONE(10, 30), NONE(20, 20)}},
       {1, 1, {NONE(10, 10), {"none", 10, 9, true}}}},
      20,
      20,
      0,
      {1, 1, 0}}},
    {"untuned plans are faster, their kernels as choices are not",
     {{{0, 1, {NONE(10, 10), NONE(20, 20)}},
       {0, 1, {NONE(10, 10), NONE(20, 20)}},
       {1, 1, {NONE(10, 10), NONE(20, 20)}}},
      20,
      20,
      -45,
      {0, 0, 0}}},
};

START_TEST(what_is_stored_is_what_makes_a_replay_fastest)
{
    const scene_of_action *is = &rows[_i].is;

    ck_assert_int_eq(confirm(is, 0, SPC_OK), SPC_OK);
    for (int l = 0; l < LAYERS; l++)
        ck_assert_msg(world.stored[l] == is->want[l],
                      "%s: layer %d has kernel %d, not %d", rows[_i].what, l,
                      world.stored[l], is->want[l]);
}
END_TEST

static const spc_status ends[] = {SPC_EINTERRUPTED, SPC_EDEVICE};

/* The run is interrupted, or fails, at each event in turn. */
START_TEST(an_early_end_leaves_what_was_there_or_what_is_faster)
{
    const scene_of_action *is = &rows[_i / LENGTH(ends)].is;
    spc_status how = ends[_i % LENGTH(ends)];
    int before[LAYERS];

    ck_assert_int_eq(confirm(is, 0, SPC_OK), SPC_OK);
    int all = world.events;
    for (int l = 0; l < LAYERS; l++)
        before[l] = fastest_alone(&is->layers[l]);
    ck_assert_int_ge(all, 2);
    for (int at = 1; at <= all; at++) {
        ck_assert_int_eq(confirm(is, at, how), how);
        double now = replay_us(world.stored), then = replay_us(before);
        bool is_as_before = memcmp(world.stored, before, sizeof(before)) == 0;
        ck_assert_msg(is_as_before || now < then,
                      "%s: ended at event %d of %d it takes %g us, %g before",
                      rows[_i / LENGTH(ends)].what, at, all, now, then);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("joint");
    TCase *tcase = tcase_create("joint");

    tcase_add_loop_test(tcase, what_is_stored_is_what_makes_a_replay_fastest, 0,
                        LENGTH(rows));
    tcase_add_loop_test(tcase,
                        an_early_end_leaves_what_was_there_or_what_is_faster, 0,
                        LENGTH(rows) * LENGTH(ends));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
