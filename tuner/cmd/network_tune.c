/*
 * network_tune.c - spctune tune --network: the layers of a network, each on the
 * voxels that its level has in the scenes.
 *
 * What a level has is found by running the network. Equal layers of one level
 * are one problem; equal ones of two levels are two, as rows and density
 * differ.
 */
#include "network.h"
#include "tuning.h"

#include "clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLAYS = 21 };

/* A layer of a level. */
typedef struct problem {
    char text[320];
    spc_conv layer;
    int set; /* whose voxels are its scene; 0: the network's own */
} problem;

typedef struct tuning {
    network net;
    cli_job job;
    problem *problems;
    int count;
    bool is_cut;         /* the budget was over before the layers were */
    spc_scene ***levels; /* [scenes][sets]; NULL: no layer's */
} tuning;

/* ---- problems ------------------------------------------------------------ */

static bool ends_at_scene(const spc_conv *layer)
{
    return layer->op == SPC_INVERSE || layer->op == SPC_TRANSPOSED;
}

static bool is_known(const tuning *t, const char *text, int set)
{
    for (int i = 0; i < t->count; i++)
        if (t->problems[i].set == set && strcmp(t->problems[i].text, text) == 0)
            return true;
    return false;
}

static spc_status add_problem(tuning *t, const spc_net_step *step)
{
    problem *p = &t->problems[t->count];
    spc_error error = {0};
    spc_status status = spc_conv_parse(&p->layer, step->text, &error);

    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    p->set = ends_at_scene(&p->layer) ? step->set : step->set_in;
    snprintf(p->text, sizeof(p->text), "%s", step->text);
    t->count += !is_known(t, p->text, p->set);
    return SPC_OK;
}

static spc_status find_problems(tuning *t)
{
    int steps = spc_net_steps(t->net.plan);
    spc_status status = SPC_OK;

    t->problems = calloc((size_t)steps + 1, sizeof(*t->problems));
    if (t->problems == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < steps && status == SPC_OK; i++) {
        spc_net_step step;
        if (spc_net_step_at(&step, t->net.plan, i) == SPC_OK &&
            step.kind == SPC_NET_CONV)
            status = add_problem(t, &step);
    }
    return status;
}

/* ---- levels -------------------------------------------------------------- */

/* The sets of one scene that layers are tuned on. */
static spc_status find_levels(tuning *t, int scene)
{
    network *n = &t->net;
    spc_scene **levels = calloc((size_t)n->info.sets + 1, sizeof(*levels));
    spc_status status;

    if ((t->levels[scene] = levels) == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if ((status = network_upload(n, scene)) != SPC_OK)
        return status;
    if ((status = spc_net_execute(n->plan, &n->buffers, NULL)) == SPC_OK)
        status = spc_net_check(n->plan, NULL);
    for (int i = 0; i < t->count && status == SPC_OK; i++) {
        int set = t->problems[i].set;
        if (set > 0 && levels[set] == NULL)
            status = spc_net_set_scene(&levels[set], n->plan, set);
    }
    return status == SPC_OK ? status : cli_fail_ctx(status, n->ctx);
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

/* ---- tuning -------------------------------------------------------------- */

static spc_status tune_problem(tuning *t, const problem *p)
{
    spc_scene **scenes = t->job.scenes.at;

    for (int i = 0; i < t->net.scene_count; i++)
        scenes[i] = p->set > 0 ? t->levels[i][p->set] : t->net.scenes[i];
    if (t->job.json == NULL)
        printf("level of set %d: ", p->set);
    return tune_layer(&t->job, &p->layer, p->text);
}

static double now_s(void)
{
    return (double)spc__now_ns() * 1e-9;
}

/* A budget is shared by the layers that are left. */
static bool has_time(tuning *t, int i, double ends_s)
{
    tuning_args *args = t->job.args;
    double left_s = ends_s - now_s();

    if (args->budget_s <= 0)
        return true;
    t->is_cut = left_s <= 0;
    if (t->is_cut) {
        cli_say(t->job.self,
                "spctune: the time is over: %d of %d layers of '%s' are not "
                "begun",
                t->count - i, t->count, t->net.info.name);
        return false;
    }
    args->budget_s = left_s / (t->count - i);
    return true;
}

/* A layer that fails does not keep the others from their turn. */
static spc_status tune_problems(tuning *t)
{
    spc_status first = SPC_OK;

    t->job.scenes.count = t->net.scene_count;
    t->job.scenes.at =
        calloc((size_t)t->net.scene_count, sizeof(*t->job.scenes.at));
    if (t->job.scenes.at == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    double ends_s = now_s() + ((tuning_args *)t->job.args)->budget_s;
    for (int i = 0; i < t->count && first != SPC_EINTERRUPTED; i++) {
        if (!has_time(t, i, ends_s))
            break;
        if (i > 0 && t->job.json == NULL)
            putchar('\n');
        spc_status status = *cli_cancel_flag()
                                ? cli_fail(SPC_EINTERRUPTED, "interrupted")
                                : tune_problem(t, &t->problems[i]);
        if (first == SPC_OK || status == SPC_EINTERRUPTED)
            first = status;
    }
    free(t->job.scenes.at); /* the scenes themselves are the network's */
    return first;
}

/* ---- the network itself -------------------------------------------------- */

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of some replays of the first scene. */
static spc_status time_network(double *us, network *n, unsigned flags)
{
    double times[REPLAYS];
    spc_status status = network_replan(n, flags);

    if (status != SPC_OK || (status = network_upload(n, 0)) != SPC_OK)
        return status;
    if ((status = spc_net_capture(n->plan, &n->buffers)) != SPC_OK)
        return cli_fail_ctx(status, n->ctx);
    for (int i = 0; i < REPLAYS && status == SPC_OK; i++)
        status = network_replay(n, &times[i]);
    if (status == SPC_OK && (status = spc_net_check(n->plan, NULL)) != SPC_OK)
        cli_fail_ctx(status, n->ctx);
    qsort(times, REPLAYS, sizeof(*times), compare_times);
    *us = times[REPLAYS / 2];
    return status;
}

static spc_status confirm(tuning *t)
{
    const char *scene = spc_scene_name(t->net.scenes[0]);
    double before, after;
    spc_status status = time_network(&before, &t->net, SPC_PLAN_ESTIMATE);

    if (status != SPC_OK ||
        (status = time_network(&after, &t->net, SPC_PLAN_JIT)) != SPC_OK)
        return status;
    if (t->job.json == NULL) {
        printf("\n%s on %s: a replay takes %.1f us, untuned %.1f us\n",
               t->net.info.name, scene, after, before);
        return SPC_OK;
    }
    spc__json_object(t->job.json, NULL);
    spc__json_text(t->job.json, "network", t->net.info.name);
    spc__json_text(t->job.json, "scene", scene);
    spc__json_real(t->job.json, "replay_us", after);
    spc__json_real(t->job.json, "untuned_us", before);
    spc__json_end_object(t->job.json);
    return SPC_OK;
}

/* ---- entry --------------------------------------------------------------- */

static spc_status tune_network(tuning *t)
{
    spc_status status = find_problems(t), confirmed;

    if (status != SPC_OK || (status = find_all_levels(t)) != SPC_OK ||
        (status = tune_problems(t)) == SPC_EINTERRUPTED)
        return status;
    const tuning_args *args = t->job.args;
    bool is_old = args->missing && args->timed == 0;
    confirmed = t->is_cut || is_old ? SPC_OK : confirm(t);
    return status != SPC_OK ? status : confirmed;
}

static void release(tuning *t)
{
    for (int i = 0; t->levels != NULL && i < t->net.scene_count; i++) {
        for (int s = 0; t->levels[i] != NULL && s < t->net.info.sets; s++)
            spc_scene_free(t->levels[i][s]);
        free(t->levels[i]);
    }
    free(t->levels);
    free(t->problems);
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
        .seed = args->seed,
        .growth = 2,
    };
    tuning t = {0};
    spc_status status;

    if ((status = network_open(&t.net, self, &net)) == SPC_OK) {
        t.job = (cli_job){
            .self = self, .args = args, .ctx = t.net.ctx, .json = json};
        status = tune_network(&t);
    }
    release(&t);
    return status;
}
