/*
 * network_tune.c - spctune tune --network: the layers of a network, each on the
 * voxels that its level has in the scenes.
 *
 * What a level has is found by running the network. Equal layers of one level
 * are one problem; equal ones of two levels are two, as rows and density
 * differ. The first to be tuned is that by which a replay can gain most.
 */
#include "joint_layouts.h"
#include "network.h"
#include "tuning.h"

#include "clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLAYS = 21 };

/* A layer of a level. */
typedef struct problem {
    char text[320];
    spc_conv layer;
    int set;             /* whose voxels are its scene; 0: the network's own */
    int steps;           /* that are this layer on this level, */
    double us, floor_us; /* what all of them take, and could */
    joint_layer known;   /* its fastest kernels, by the order that they read */
} problem;

typedef struct tuning {
    network net;
    cli_job job;
    problem *problems;
    int count;
    double *price_us;    /* by map: of one order of it */
    bool is_cut;         /* the budget was over before the layers were */
    spc_scene ***levels; /* [scenes][sets]; NULL: no layer's */
} tuning;

/* ---- problems ------------------------------------------------------------ */

static bool ends_at_scene(const spc_conv *layer)
{
    return layer->op == SPC_INVERSE || layer->op == SPC_TRANSPOSED;
}

static problem *find_problem(const tuning *t, const char *text, int set)
{
    for (int i = 0; i < t->count; i++)
        if (t->problems[i].set == set && strcmp(t->problems[i].text, text) == 0)
            return &t->problems[i];
    return NULL;
}

/* The set of a step whose voxels are its layer's scene. */
static int scene_of(const spc_conv *layer, const spc_net_step *step)
{
    return ends_at_scene(layer) ? step->set : step->set_in;
}

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
    t->count += find_problem(t, p->text, p->set) == NULL;
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

/* ---- what matters most --------------------------------------------------- */

static void add_time(tuning *t, const spc_net_step *step,
                     const spc_net_time *time)
{
    spc_conv layer;
    problem *p = spc_conv_parse(&layer, step->text, NULL) == SPC_OK
                     ? find_problem(t, step->text, scene_of(&layer, step))
                     : NULL;

    if (p == NULL)
        return;
    p->known.steps++;
    p->us += time->warm_us;
    p->floor_us += time->floor_us;
}

/* Is the order of this step's kernel that of one before it on its map? */
static bool is_new_order(const tuning *t, const spc_net_step *step, int i)
{
    char order[JOINT_NAME], other[JOINT_NAME];
    spc_net_step before;

    joint_order_of(order, step->kernel, step->kernel);
    for (int j = 0; j < i; j++) {
        if (spc_net_step_at(&before, t->net.plan, j) != SPC_OK ||
            before.kind != SPC_NET_CONV || before.map != step->map)
            continue;
        joint_order_of(other, before.kernel, before.kernel);
        if (strcmp(order, other) == 0)
            return false;
    }
    return strcmp(order, "none") != 0;
}

/* What one order of each map costs: a map takes about as long for each of them
 * as for being searched (docs/LABBOOK.md, voxel indexing). */
static spc_status find_prices(tuning *t, const spc_net_time *times, int steps)
{
    double *price = calloc((size_t)t->net.info.maps + 1, sizeof(*price));
    int *orders = calloc((size_t)t->net.info.maps + 1, sizeof(*orders));

    t->price_us = price;
    for (int i = 0; i < steps && price != NULL && orders != NULL; i++) {
        spc_net_step step;
        if (spc_net_step_at(&step, t->net.plan, i) != SPC_OK || step.map < 0)
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

/* The most that a replay can gain by it. */
static double gain_of(const problem *p)
{
    return p->us > p->floor_us ? p->us - p->floor_us : 0;
}

static int by_gain(const void *a, const void *b)
{
    double x = gain_of(a), y = gain_of(b);

    return (x < y) - (x > y);
}

/* Times the steps as they would run now, and puts first what takes longest
 * above its floor. */
static spc_status weigh_problems(tuning *t)
{
    network *n = &t->net;
    int steps = spc_net_steps(n->plan);
    spc_net_time *times = calloc((size_t)steps + 1, sizeof(*times));
    spc_status status = SPC_OK;

    if (times == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    /* The last scene is there: its levels were looked for. */
    if ((status = spc_net_profile(times, n->plan, &n->buffers)) != SPC_OK)
        cli_fail_ctx(status, n->ctx);
    for (int i = 0; i < steps && status == SPC_OK; i++) {
        spc_net_step step;
        if (spc_net_step_at(&step, n->plan, i) == SPC_OK &&
            step.kind == SPC_NET_CONV)
            add_time(t, &step, &times[i]);
    }
    qsort(t->problems, (size_t)t->count, sizeof(*t->problems), by_gain);
    if (status == SPC_OK)
        status = find_prices(t, times, steps);
    free(times);
    return status;
}

/* ---- tuning -------------------------------------------------------------- */

static void say_problem(const problem *p)
{
    printf("level of set %d: %d step%s, %.1f us", p->set, p->known.steps,
           p->known.steps == 1 ? "" : "s", p->us);
    if (p->floor_us > 0)
        printf(" (floors %.1f us)", p->floor_us);
    printf(": ");
}

/* The scenes of its level. */
static void bring_scenes(tuning *t, const problem *p)
{
    for (int i = 0; i < t->net.scene_count; i++)
        t->job.scenes.at[i] =
            p->set > 0 ? t->levels[i][p->set] : t->net.scenes[i];
}

static bool is_winner(const spc_trial *trial, const spc_tune_report *report)
{
    size_t name = strlen(trial->template_name);

    return strncmp(report->winner, trial->template_name, name) == 0 &&
           report->winner[name] == ' ' &&
           strcmp(report->winner + name + 1, trial->config) == 0;
}

/* What the layer could have instead. */
static spc_status keep_known(problem *p, const trials *found,
                             const spc_tune_report *report)
{
    for (int i = 0; i < found->count; i++) {
        const spc_trial *trial = &found->at[i];
        bool own = is_winner(trial, report);
        if (!trial_is_ok(trial) || !(trial->median_us > 0))
            continue;
        if (!joint_layer_add(&p->known, trial->template_name, trial->config,
                             own ? report->winner_us : trial->median_us, own))
            return cli_fail(SPC_ENOMEM, "out of memory");
    }
    return SPC_OK;
}

static spc_status tune_problem(tuning *t, problem *p)
{
    spc_tune_report report;
    trials found;

    bring_scenes(t, p);
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

/* Of all that the layers which are left can gain, the part of number i. */
static double part_of(const tuning *t, int i)
{
    double all = 0;

    for (int j = i; j < t->count; j++)
        all += gain_of(&t->problems[j]);
    return all > 0 ? gain_of(&t->problems[i]) / all : 1.0 / (t->count - i);
}

/* A budget is shared by the layers that are left, by what each can gain; less
 * than the least would find nothing out. */
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
                "spctune: the time is over: %d of %d layers of '%s' are not "
                "begun",
                t->count - i, t->count, t->net.info.name);
        return false;
    }
    args->budget_s = fmin(left_s, fmax(least_s, left_s * part_of(t, i)));
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

/* ---- layouts that layers share ------------------------------------------- */

/* Stores that a layer has this kernel; nothing is measured. */
static spc_status choose(tuning *t, const problem *p, int option)
{
    tuning_args *args = t->job.args;
    spc_tune_report report;
    trials found;

    bring_scenes(t, p);
    args->chosen = p->known.options[option].kernel;
    spc_status status =
        tuning_run(&found, &report, &t->job, &p->layer, SPC_STAGE_TIME, NULL);
    args->chosen = NULL;
    trials_release(&found);
    return status == SPC_OK ? status : cli_fail_ctx(status, t->job.ctx);
}

static bool is_changed(const problem *p)
{
    return p->known.chosen != p->known.own;
}

/* Of those that change, all that they have together or each alone. */
static spc_status choose_all(tuning *t, bool together)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < t->count && status == SPC_OK; i++) {
        const problem *p = &t->problems[i];
        if (is_changed(p))
            status = choose(t, p, together ? p->known.chosen : p->known.own);
    }
    return status;
}

/* Returns how many layers have another kernel so. */
static int find_joint(tuning *t, double *gain_us)
{
    joint_layer *layers = calloc((size_t)t->count + 1, sizeof(*layers));
    int changed = 0;

    *gain_us = 0;
    for (int i = 0; i < t->count && layers != NULL; i++)
        layers[i] = t->problems[i].known;
    for (int m = 0; m < t->net.info.maps && layers != NULL; m++)
        *gain_us += joint_choose(layers, t->count, m, t->price_us[m]);
    for (int i = 0; i < t->count && layers != NULL; i++) {
        t->problems[i].known.chosen = layers[i].chosen;
        changed += is_changed(&t->problems[i]);
    }
    free(layers);
    return changed;
}

/* The layers of a map choose together, and keep that if a replay is faster. */
static spc_status share_layouts(tuning *t, double *us)
{
    double alone = *us, gain, together;
    int changed = find_joint(t, &gain);
    spc_status status;

    if (changed == 0)
        return SPC_OK;
    if ((status = choose_all(t, true)) != SPC_OK ||
        (status = time_network(&together, &t->net, SPC_PLAN_JIT)) != SPC_OK)
        return status;
    if (t->job.json == NULL)
        printf("\n%d layers share the layouts of others: by their times and "
               "those of layouts\n%.1f us less; a replay takes %.1f us so, "
               "%.1f us where each has its own\n",
               changed, gain, together, alone);
    if (together > alone)
        return choose_all(t, false);
    *us = together;
    return SPC_OK;
}

/* ---- confirming ---------------------------------------------------------- */

/* What the network takes; untuned only where the layers' time was not cut
 * short, as all the kernels that nobody wants are compiled for it. */
static spc_status confirm(tuning *t)
{
    const char *scene = spc_scene_name(t->net.scenes[0]);
    double before = 0, after;
    spc_status status = SPC_OK;

    if (!t->is_cut)
        status = time_network(&before, &t->net, SPC_PLAN_ESTIMATE);
    if (status != SPC_OK ||
        (status = time_network(&after, &t->net, SPC_PLAN_JIT)) != SPC_OK ||
        (status = share_layouts(t, &after)) != SPC_OK)
        return status;
    if (t->job.json == NULL) {
        printf("\n%s on %s: a replay takes %.1f us", t->net.info.name, scene,
               after);
        if (before > 0)
            printf(", untuned %.1f us", before);
        putchar('\n');
        return SPC_OK;
    }
    spc__json_object(t->job.json, NULL);
    spc__json_text(t->job.json, "network", t->net.info.name);
    spc__json_text(t->job.json, "scene", scene);
    spc__json_real(t->job.json, "replay_us", after);
    if (before > 0)
        spc__json_real(t->job.json, "untuned_us", before);
    spc__json_end_object(t->job.json);
    return SPC_OK;
}

/* ---- entry --------------------------------------------------------------- */

static spc_status tune_network(tuning *t)
{
    spc_status status = find_problems(t), confirmed;

    if (status != SPC_OK || (status = find_all_levels(t)) != SPC_OK ||
        (status = weigh_problems(t)) != SPC_OK ||
        (status = tune_problems(t)) == SPC_EINTERRUPTED)
        return status;
    const tuning_args *args = t->job.args;
    bool is_old = args->missing && args->timed == 0;
    confirmed = is_old ? SPC_OK : confirm(t);
    return status != SPC_OK ? status : confirmed;
}

static void release(tuning *t)
{
    for (int i = 0; t->levels != NULL && i < t->net.scene_count; i++) {
        for (int s = 0; t->levels[i] != NULL && s < t->net.info.sets; s++)
            spc_scene_free(t->levels[i][s]);
        free(t->levels[i]);
    }
    for (int i = 0; i < t->count; i++)
        joint_layer_release(&t->problems[i].known);
    free(t->levels);
    free(t->problems);
    free(t->price_us);
    free(t->job.scenes.at); /* the scenes themselves are the network's */
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
