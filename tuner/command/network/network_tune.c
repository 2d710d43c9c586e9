/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_tune.c - spctune tune --network: tunes the layers of a network, each
 * on the voxels of its level in the scenes.
 *
 * The voxels of a level are found by running the network. Equal layers of one
 * level are one problem; equal ones of two levels are two, as rows and density
 * differ. The layer with the largest possible gain for a replay is tuned first.
 */
#include "command/network/network_tune.h"

#include "base/clock.h"
#include "base/plural.h"
#include "command/cli/phase.h"
#include "command/database.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- problems ------------------------------------------------------------ */

/* True for layers from coarse to fine voxels. They use the map of a strided
 * layer, so they are tuned on the finer set. */
static bool ends_at_scene(const spc_conv *layer)
{
    return layer->op == SPC_INVERSE || layer->op == SPC_TRANSPOSED;
}

/* Returns the problem of this layer on this set, or NULL. */
static problem *find_text(const tuning *t, const char *text, int set)
{
    for (int i = 0; i < t->count; i++)
        if (t->problems[i].set == set && strcmp(t->problems[i].text, text) == 0)
            return &t->problems[i];
    return NULL;
}

/* Returns the set whose voxels are the scene of a step's layer. */
static int scene_of(const spc_conv *layer, const spc_net_step *step)
{
    return ends_at_scene(layer) ? step->set : step->set_in;
}

problem *network_find_problem(const tuning *t, const spc_net_step *step)
{
    spc_conv layer;

    return spc_conv_parse(&layer, step->text, NULL) == SPC_OK
               ? find_text(t, step->text, scene_of(&layer, step))
               : NULL;
}

/* Adds a step's layer, unless it is there already. The array has room for one
 * problem a step. */
static spc_status add_problem(tuning *t, const spc_net_step *step)
{
    problem *p = &t->problems[t->count];
    spc_error error = {0};
    spc_status status = spc_conv_parse(&p->layer, step->text, &error);

    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    p->set = scene_of(&p->layer, step);
    p->known = (joint_layer){.map = step->map, .own = -1, .chosen = -1};
    snprintf(p->text, sizeof(p->text), "%s", step->text);
    /* If the layer is already listed, the next layer overwrites this entry. */
    t->count += find_text(t, p->text, p->set) == NULL;
    return SPC_OK;
}

/* Lists the distinct layers of the network, each with its set. */
static spc_status find_problems(tuning *t)
{
    int steps = spc_net_plan_step_count(t->net.plan);
    spc_status status = SPC_OK;

    t->problems = calloc((size_t)steps + 1, sizeof(*t->problems));
    if (t->problems == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < steps && status == SPC_OK; i++) {
        spc_net_step step;
        if (spc_net_plan_step_at(&step, t->net.plan, i) == SPC_OK &&
            step.kind == SPC_NET_CONV)
            status = add_problem(t, &step);
    }
    return status;
}

/* ---- levels -------------------------------------------------------------- */

/* Finds the sets of one scene that layers are tuned on. */
static spc_status find_levels(tuning *t, int scene)
{
    network *n = &t->net;
    spc_scene **levels = calloc((size_t)n->info.sets + 1, sizeof(*levels));
    spc_status status;

    if ((t->levels[scene] = levels) == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if ((status = network_upload(n, scene)) != SPC_OK)
        return status;
    if ((status = spc_net_plan_execute(n->plan, &n->buffers, NULL)) == SPC_OK)
        status = network_check(n);
    for (int i = 0; i < t->count && status == SPC_OK; i++) {
        int set = t->problems[i].set;
        if (set > 0 && levels[set] == NULL)
            status = spc_net_plan_scene_of_set(&levels[set], n->plan, set);
    }
    return status == SPC_OK ? status : network_fail(n, status);
}

static spc_status find_all_levels(tuning *t)
{
    spc_status status = SPC_OK;

    t->levels = calloc((size_t)t->net.scene_count, sizeof(*t->levels));
    if (t->levels == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < t->net.scene_count && status == SPC_OK; i++)
        status = find_levels(t, i);
    return status;
}

/* ---- priorities ---------------------------------------------------------- */

/* Adds a step's time to its problem: equal steps gain together. */
static void add_time(tuning *t, const spc_net_step *step,
                     const spc_net_time *time)
{
    problem *p = network_find_problem(t, step);

    if (p == NULL)
        return;
    p->known.uses++;
    p->us += time->warm_us;
    p->floor_us += time->floor_us;
}

/* True if no earlier step on the map uses this kernel's row order. */
static bool is_new_order(const tuning *t, const spc_net_step *step, int i)
{
    char order[JOINT_NAME], other[JOINT_NAME];
    spc_net_step before;

    joint_order_of(order, step->kernel, step->kernel);
    for (int j = 0; j < i; j++) {
        if (spc_net_plan_step_at(&before, t->net.plan, j) != SPC_OK ||
            before.kind != SPC_NET_CONV || before.map != step->map)
            continue;
        joint_order_of(other, before.kernel, before.kernel);
        if (strcmp(order, other) == 0)
            return false;
    }
    return strcmp(order, "none") != 0;
}

/*
 * The cost of one order of each map. A map takes about as long for each order
 * as for its search (docs/dev/experiments.md, maps and indexing).
 */
static spc_status find_prices(tuning *t, const spc_net_time *times, int steps)
{
    double *price = calloc((size_t)t->net.info.maps + 1, sizeof(*price));
    int *orders = calloc((size_t)t->net.info.maps + 1, sizeof(*orders));

    t->price_us = price;
    for (int i = 0; i < steps && price != NULL && orders != NULL; i++) {
        spc_net_step step;
        if (spc_net_plan_step_at(&step, t->net.plan, i) != SPC_OK ||
            step.map < 0)
            continue;
        if (step.kind == SPC_NET_MAP)
            price[step.map] = times[i].warm_us;
        else if (step.kind == SPC_NET_CONV)
            orders[step.map] += is_new_order(t, &step, i);
    }
    for (int m = 0; m < t->net.info.maps && price != NULL && orders != NULL;
         m++)
        price[m] /= 1 + orders[m];
    bool failed = price == NULL || orders == NULL;
    free(orders);
    return failed ? cli_fail(SPC_ENOMEM, "out of memory") : SPC_OK;
}

/* Returns an upper bound of the time that a replay can gain from this layer. */
static double gain_of(const problem *p)
{
    return p->us > p->floor_us ? p->us - p->floor_us : 0;
}

static int by_gain(const void *a, const void *b)
{
    double x = gain_of(a), y = gain_of(b);

    return (x < y) - (x > y);
}

/*
 * Times the steps as they run now, and sorts them by their time above the
 * floor.
 */
static spc_status weigh_problems(tuning *t)
{
    network *n = &t->net;
    int steps = spc_net_plan_step_count(n->plan);
    spc_net_time *times = calloc((size_t)steps + 1, sizeof(*times));
    spc_status status = SPC_OK;

    if (times == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    /* The last scene is still loaded, from finding its levels. */
    if ((status = spc_net_plan_profile(times, n->plan, &n->buffers)) != SPC_OK)
        cli_fail_ctx(status, n->ctx);
    for (int i = 0; i < steps && status == SPC_OK; i++) {
        spc_net_step step;
        if (spc_net_plan_step_at(&step, n->plan, i) == SPC_OK &&
            step.kind == SPC_NET_CONV)
            add_time(t, &step, &times[i]);
    }
    /* Sorts the largest gain first, as time may run out before the last
     * layer. */
    qsort(t->problems, (size_t)t->count, sizeof(*t->problems), by_gain);
    if (status == SPC_OK)
        status = find_prices(t, times, steps);
    free(times);
    return status;
}

/* ---- tuning -------------------------------------------------------------- */

static void say_problem(const problem *p)
{
    printf("level of set %d: %s, %.1f us", p->set,
           spc__count(p->known.uses, "step"), p->us);
    if (p->floor_us > 0)
        printf(" (floors %.1f us)", p->floor_us);
    printf(": ");
}

/*
 * Collects the scenes of the layer's level. A frame without a voxel cannot be
 * measured, so it is left out unless there is no other.
 */
void network_bring_scenes(tuning *t, const problem *p)
{
    int count = 0;

    for (int i = 0; i < t->net.scene_count; i++) {
        spc_scene *scene = p->set > 0 ? t->levels[i][p->set] : t->net.scenes[i];
        bool is_last = i + 1 == t->net.scene_count;
        if (spc_scene_rows(scene) > 0 || (is_last && count == 0))
            t->job.scenes.at[count++] = scene;
    }
    t->job.scenes.count = count;
}

/* True if the report's winner, "TEMPLATE CONFIG", is this trial. */
static bool is_winner(const spc_trial *trial, const spc_tune_report *report)
{
    size_t name = strlen(trial->template_name);

    return strncmp(report->winner, trial->template_name, name) == 0 &&
           report->winner[name] == ' ' &&
           strcmp(report->winner + name + 1, trial->config) == 0;
}

/* Keeps a kernel if it is nearly as fast alone, as a slower kernel cannot win
 * in the network. False without memory. */
static bool keep_rival(problem *p, const spc_trial *trial, double winner_us)
{
    const double nearly = 1.1;
    char kernel[400];

    if (trial->median_us > nearly * winner_us)
        return true;
    snprintf(kernel, sizeof(kernel), "%s %s", trial->template_name,
             trial->config);
    return rivals_add(&p->rivals, kernel, trial->median_us);
}

/* Keeps a trial as an option of its layer, and as a rival if it is near the
 * winner. False without memory. */
static bool keep_trial(problem *p, const spc_trial *trial,
                       const spc_tune_report *report)
{
    bool own = is_winner(trial, report);
    double us = own ? report->winner_us : trial->median_us;

    return joint_layer_add(&p->known, trial->template_name, trial->config, us,
                           own) &&
           (own || keep_rival(p, trial, report->winner_us));
}

/* Keeps the alternatives of the layer. */
static spc_status keep_known(problem *p, const trials *found,
                             const spc_tune_report *report)
{
    for (int i = 0; i < found->count; i++) {
        const spc_trial *trial = &found->at[i];
        if (trial_is_ok(trial) && trial->median_us > 0 &&
            !keep_trial(p, trial, report))
            return cli_fail(SPC_ENOMEM, "out of memory");
    }
    return SPC_OK;
}

/* Tunes one layer, and keeps its near alternatives for the replays. */
static spc_status tune_problem(tuning *t, problem *p)
{
    spc_tune_report report;
    trials found;

    network_bring_scenes(t, p);
    if (t->job.json == NULL)
        say_problem(p);
    spc_status status =
        tune_and_keep(&found, &report, &t->job, &p->layer, p->text);
    if (status == SPC_OK)
        status = keep_known(p, &found, &report);
    trials_release(&found);
    return status;
}

static double now_s(void)
{
    return (double)spc__now_ns() * 1e-9;
}

/* Returns the share of layer i in the possible gain of all remaining layers. */
static double part_of(const tuning *t, int i)
{
    double all = 0;

    for (int j = i; j < t->count; j++)
        all += gain_of(&t->problems[j]);
    return all > 0 ? gain_of(&t->problems[i]) / all : 1.0 / (t->count - i);
}

/*
 * The remaining layers share the budget by their possible gains; each gets at
 * least `least_s`, as less would measure nothing.
 */
static bool has_time(tuning *t, int i, double ends_s)
{
    const double least_s = 2;
    tuning_args *args = t->job.args;
    double left_s = ends_s - now_s();

    if (args->budget_s <= 0)
        return true;
    t->is_cut = left_s <= 0;
    if (t->is_cut) {
        cli_say(t->job.self,
                "spctune: the budget has ended: %d of %s of '%s' are not "
                "started",
                t->count - i, spc__count(t->count, "layer"), t->net.info.name);
        return false;
    }
    args->budget_s = fmin(left_s, fmax(least_s, left_s * part_of(t, i)));
    return true;
}

/*
 * Updates the board after a layer: only timed layers predict the time of the
 * others.
 */
static void note_end(progress_board *board, double took_s, int timed)
{
    board->ended++;
    if (timed > 0) {
        board->timed++;
        board->timed_ns += (int64_t)(took_s * 1e9);
    }
}

/* Tunes layer i, and updates the board before and after. */
static spc_status tune_next(tuning *t, progress_board *board, int i)
{
    tuning_args *args = t->job.args;
    double began_s = now_s();
    int timed = args->timed;
    progress shown;

    progress_init(&shown, t->job.self);
    board->begun++;
    progress_item(&shown, board, i, t->problems[i].text);
    spc_status status = tune_problem(t, &t->problems[i]);
    note_end(board, now_s() - began_s, args->timed - timed);
    return status;
}

/* If a layer fails, the others are still tuned. */
static spc_status tune_problems(tuning *t)
{
    double budget_s = ((tuning_args *)t->job.args)->budget_s;
    double start_s = now_s(), ends_s = start_s + budget_s;
    const progress_board *outer = t->job.self->board;
    progress_board board = {.items = t->count,
                            .lanes = 1,
                            .started_ns = spc__now_ns(),
                            .budget_s = budget_s};
    spc_status first = SPC_OK;

    t->job.scenes.at =
        calloc((size_t)t->net.scene_count, sizeof(*t->job.scenes.at));
    if (t->job.scenes.at == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    t->job.self->board = &board;
    for (int i = 0; i < t->count && first != SPC_EINTERRUPTED; i++) {
        if (!has_time(t, i, ends_s))
            break;
        if (i > 0 && t->job.json == NULL)
            putchar('\n');
        spc_status status = *cli_cancel_flag()
                                ? cli_fail(SPC_EINTERRUPTED, "interrupted")
                                : tune_next(t, &board, i);
        if (first == SPC_OK || status == SPC_EINTERRUPTED)
            first = status;
    }
    /* The board is a local variable, so no pointer to it may remain. */
    t->job.self->board = outer;
    t->spent_ms = 1e3 * (now_s() - start_s);
    return first;
}

/* ---- entry --------------------------------------------------------------- */

/* A replay finds its layers' kernels in the database. */
static bool can_confirm(const tuning *t)
{
    if (cli_has_database(t->job.self))
        return true;
    cli_say(t->job.self,
            "spctune: without a database, no measurement is kept: each layer "
            "of '%s' was tuned by itself, and none was tried in the network",
            t->net.info.name);
    return false;
}

/* Finds the layers, their voxels, and their priorities. */
static spc_status look_at_network(tuning *t)
{
    spc_status status = network_need_voxels(&t->net);
    phase untuned;

    if (status == SPC_OK)
        status = find_problems(t);
    phase_begin(&untuned, t->job.self, "running the network untuned", 0);
    if (status == SPC_OK && (status = find_all_levels(t)) == SPC_OK)
        status = weigh_problems(t);
    phase_end(&untuned);
    return status;
}

/* Tunes the layers alone, then together. The replays run even if a layer
 * failed, as the other layers have choices. */
static spc_status tune_network(tuning *t)
{
    spc_status status = look_at_network(t), confirmed;

    if (status != SPC_OK || (status = tune_problems(t)) == SPC_EINTERRUPTED)
        return status;
    const tuning_args *args = t->job.args;
    bool is_old = args->missing && args->timed == 0;
    /* If no kernel was timed, an earlier run has compared these choices in the
     * network. */
    confirmed = is_old || !can_confirm(t) ? SPC_OK : network_confirm(t);
    return status != SPC_OK ? status : confirmed;
}

static void release(tuning *t)
{
    for (int i = 0; t->levels != NULL && i < t->net.scene_count; i++) {
        for (int s = 0; t->levels[i] != NULL && s < t->net.info.sets; s++)
            spc_scene_free(t->levels[i][s]);
        free(t->levels[i]);
    }
    for (int i = 0; i < t->count; i++) {
        joint_layer_release(&t->problems[i].known);
        rivals_release(&t->problems[i].rivals);
        free(t->problems[i].untuned);
    }
    free(t->levels);
    free(t->problems);
    free(t->price_us);
    free(t->job.scenes.at); /* the network owns the scenes themselves */
    network_close(&t->net);
}

spc_status network_tune(cli *self, tuning_args *args, spc__json *json)
{
    network_args net = {
        .file = args->network,
        .dtype = args->dtype,
        .scenes = args->scenes,
        .points = args->points,
        .int8 = args->int8,
        .capacity = args->capacity,
        .growth = args->growth,
        .seed = args->seed,
    };
    tuning t = {0};
    phase opening;
    spc_status status;

    phase_begin(&opening, self, "planning the network", 0);
    status = network_open(&t.net, self, &net);
    phase_end(&opening);
    if (status == SPC_OK) {
        t.job = (cli_job){.self = self,
                          .args = args,
                          .ctx = t.net.ctx,
                          .json = json,
                          .is_alone = true};
        status = tune_network(&t);
    }
    release(&t);
    return status;
}
