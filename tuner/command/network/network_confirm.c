/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_confirm.c - tests the layers' own choices in the network.
 *
 * The time of a replay decides. First the layers that read one map choose its
 * layouts together. If the network is faster untuned, the search starts from
 * there. Then kernels that are nearly as fast alone are tried layer by layer.
 * Each change is kept if it makes a replay faster.
 */
#include "base/plural.h"
#include "command/cli/phase.h"
#include "command/network/network_tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLAYS = 21 };

/* ---- the time of a replay ------------------------------------------------ */

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of several replays of a scene. */
static spc_status time_scene(double *us, network *n, int scene)
{
    double times[REPLAYS];
    spc_status status = network_upload(n, scene);

    for (int i = 0; i < REPLAYS && status == SPC_OK; i++)
        status = *cli_cancel_flag() ? cli_fail(SPC_EINTERRUPTED, "interrupted")
                                    : network_replay(n, &times[i]);
    if (status != SPC_OK)
        return status;
    /* Checks after the replays: a level that exceeded its capacity would have
     * been fast and wrong. */
    if ((status = network_check(n)) != SPC_OK)
        return network_fail(n, status);
    qsort(times, REPLAYS, sizeof(*times), compare_times);
    *us = times[REPLAYS / 2];
    return SPC_OK;
}

/* Returns the geometric mean over the scenes, with the database's current
 * kernels. */
static spc_status time_network(double *us, network *n, unsigned flags)
{
    double sum = 0, one = 0;
    spc_status status = network_replan(n, flags);

    if (status != SPC_OK)
        return status;
    /* network_replan() has made a new plan, so the graph is new as well. */
    if ((status = spc_net_plan_capture(n->plan, &n->buffers)) != SPC_OK)
        return cli_fail_ctx(status, n->ctx);
    for (int i = 0; i < n->scene_count && status == SPC_OK; i++) {
        status = time_scene(&one, n, i);
        sum += log(one);
    }
    *us = exp(sum / n->scene_count);
    return status;
}

/* The same with progress, as all kernels may have to be compiled. */
static spc_status time_shown(tuning *t, double *us, unsigned flags)
{
    phase timing;

    phase_begin(&timing, t->job.self, "timing the network", 0);
    spc_status status = time_network(us, &t->net, flags);
    phase_end(&timing);
    return status;
}

/* ---- other kernels of a layer -------------------------------------------- */

/*
 * Stores this kernel as a layer's choice without measuring. `back`: restores
 * the earlier choice, even after an interrupt. The caller prints a failure.
 */
static spc_status store_choice(tuning *t, const problem *p, const char *kernel,
                               bool back)
{
    tuning_args *args = t->job.args;
    spc_tune_report report;
    trials found;

    network_bring_scenes(t, p);
    args->chosen = kernel;
    args->at_any_rate = back;
    spc_status status =
        tuning_run(&found, &report, &t->job, &p->layer, SPC_STAGE_TIME, NULL);
    /* Later runs with the same arguments measure again. */
    args->chosen = NULL;
    trials_release(&found);
    return status;
}

/* Calls store_choice() and prints its failure. */
static spc_status choose(tuning *t, const problem *p, const char *kernel,
                         bool back)
{
    spc_status status = store_choice(t, p, kernel, back);

    return status == SPC_OK ? status : cli_fail_ctx(status, t->job.ctx);
}

/* ---- layouts that layers share ------------------------------------------- */

/* True if the joint choice differs from the one made alone. */
static bool is_changed(const problem *p)
{
    return p->known.chosen != p->known.own;
}

/* Gives changed layers their joint choice. */
static spc_status choose_together(tuning *t)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < t->count && status == SPC_OK; i++) {
        const problem *p = &t->problems[i];
        if (is_changed(p))
            status =
                choose(t, p, p->known.options[p->known.chosen].kernel, false);
    }
    return status;
}

/*
 * Restores the own choice of each layer; if one fails, the others are still
 * restored.
 */
static spc_status choose_alone(tuning *t)
{
    spc_status first = SPC_OK;

    for (int i = 0; i < t->count; i++) {
        problem *p = &t->problems[i];
        if (!is_changed(p))
            continue;
        p->known.chosen = p->known.own;
        spc_status status =
            choose(t, p, p->known.options[p->known.own].kernel, true);
        first = first == SPC_OK ? status : first;
    }
    return first;
}

/* Returns the number of layers that would have another kernel. */
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

/*
 * Chooses layouts for the layers of each map together, and keeps them if a
 * replay is faster.
 */
static spc_status share_layouts(tuning *t, double *us)
{
    double alone = *us, gain, together;
    int changed = find_joint(t, &gain);
    spc_status status;

    if (changed == 0)
        return SPC_OK;
    if ((status = choose_together(t)) == SPC_OK)
        status = time_shown(t, &together, SPC_PLAN_JIT);
    if (status == SPC_OK && t->job.json == NULL)
        printf(
            "\n%s %s a layout with others, which should save %.1f us:\n"
            "a replay takes %.1f us, and %.1f us if each layer has its own\n",
            spc__count(changed, "layer"),
            spc__either(changed, "shares", "share"), gain, together, alone);
    if (status == SPC_OK && together <= alone) {
        *us = together;
        return SPC_OK;
    }
    /* Also after a failure: the database must not keep choices that were not
     * measured together. */
    spc_status back = choose_alone(t);
    return status != SPC_OK ? status : back;
}

/*
 * Notes the current kernel of each layer; a layer without one has no rivals
 * either.
 */
static spc_status note_kernels(tuning *t)
{
    for (int i = 0; i < t->count; i++) {
        const joint_layer *known = &t->problems[i].known;
        if (known->chosen < 0)
            continue;
        char *now = strdup(known->options[known->chosen].kernel);
        if ((t->problems[i].rivals.now = now) == NULL)
            return cli_fail(SPC_ENOMEM, "out of memory");
    }
    return SPC_OK;
}

/* ---- untuned ------------------------------------------------------------- */

/* The untuned kernel of a layer is its first rival. */
static spc_status note_untuned(tuning *t)
{
    spc_net_step step;

    for (int i = 0; spc_net_plan_step_at(&step, t->net.plan, i) == SPC_OK;
         i++) {
        problem *p =
            step.kind == SPC_NET_CONV ? network_find_problem(t, &step) : NULL;
        if (p == NULL || p->untuned != NULL)
            continue;
        if ((p->untuned = strdup(step.kernel)) == NULL)
            return cli_fail(SPC_ENOMEM, "out of memory");
        rivals_put_first(&p->rivals, step.kernel);
    }
    return SPC_OK;
}

/*
 * Gives all layers their untuned kernels, except layers whose untuned kernel
 * was not timed.
 */
static spc_status take_untuned(tuning *t)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < t->count && status == SPC_OK; i++) {
        problem *p = &t->problems[i];
        const char *now = p->rivals.now;
        if (now == NULL || p->untuned == NULL || strcmp(now, p->untuned) == 0)
            continue;
        status = store_choice(t, p, p->untuned, false);
        p->gives_way = status != SPC_ENOTFOUND;
        if (status == SPC_ENOTFOUND)
            status = SPC_OK;
        else if (status != SPC_OK)
            cli_fail_ctx(status, t->job.ctx);
        else if (!rivals_give_way(&p->rivals, p->untuned))
            status = cli_fail(SPC_ENOMEM, "out of memory");
    }
    return status;
}

/* Restores the replaced kernels, even if storing others failed. */
static spc_status take_tuned(tuning *t)
{
    spc_status first = SPC_OK;

    for (int i = 0; i < t->count; i++) {
        problem *p = &t->problems[i];
        if (!p->gives_way)
            continue;
        bool is_away = strcmp(p->rivals.now, p->untuned) == 0;
        const char *kernel = is_away ? p->rivals.other[0] : p->rivals.now;
        spc_status status = choose(t, p, kernel, true);
        if (status == SPC_OK && is_away && !rivals_give_way(&p->rivals, kernel))
            status = cli_fail(SPC_ENOMEM, "out of memory");
        first = first == SPC_OK ? status : first;
    }
    return first;
}

/*
 * If the layers are faster alone but the network is not, starts from the
 * untuned network, and tries each tuned kernel in it.
 */
static spc_status fall_back(tuning *t, double untuned_us, double *us)
{
    double now = 0;
    spc_status status;

    if (untuned_us <= 0 || !rivals_is_faster(untuned_us, *us))
        return SPC_OK;
    if ((status = take_untuned(t)) == SPC_OK)
        status = time_shown(t, &now, SPC_PLAN_JIT);
    /* Times the network again, since layers without times of their untuned
     * kernel keep the tuned one. */
    if (status != SPC_OK || !rivals_is_faster(now, *us)) {
        spc_status back = take_tuned(t);
        return status != SPC_OK ? status : back;
    }
    if (t->job.json == NULL)
        printf("\na replay takes %.1f us with the tuned kernels, %.1f us with "
               "the untuned ones,\nand %.1f us when these are timed again: "
               "starting from these, each tuned kernel is\ntried in the "
               "network\n",
               *us, untuned_us, now);
    *us = now;
    return SPC_OK;
}

/* ---- rivals -------------------------------------------------------------- */

/* The trials may take this part of the time that the layers took. */
static const double part_for_rivals = 0.1;

typedef struct trying {
    tuning *t;
    double ends_ms;
} trying;

static spc_status take_kernel(void *payload, int layer, const char *kernel,
                              bool back)
{
    tuning *t = ((trying *)payload)->t;

    return choose(t, &t->problems[layer], kernel, back);
}

static spc_status time_replay(void *payload, double *us)
{
    return time_network(us, &((trying *)payload)->t->net, SPC_PLAN_JIT);
}

/* Returns false to end the trials. See part_for_rivals. */
static bool has_time(void *payload)
{
    return network_clock_ms() < ((trying *)payload)->ends_ms;
}

/* Tries the near alternatives of each layer in the network, the best of all
 * layers first. */
static spc_status try_rivals(tuning *t, double *us)
{
    trying it = {t, network_clock_ms() + part_for_rivals * t->spent_ms};
    const rivals_network how = {take_kernel, time_replay, has_time, &it};
    rivals *list = calloc((size_t)t->count + 1, sizeof(*list));
    double before = *us;
    int changed = 0;
    phase swaps;

    if (list == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < t->count; i++)
        list[i] = t->problems[i].rivals;
    phase_begin(&swaps, t->job.self, "trying other kernels in the network",
                part_for_rivals * t->spent_ms * 1e-3);
    spc_status status = rivals_try(list, t->count, &how, us, &changed);
    phase_end(&swaps);
    for (int i = 0; i < t->count; i++)
        t->problems[i].rivals = list[i];
    free(list);
    if (changed > 0 && t->job.json == NULL)
        printf("\n%s %s slower alone, and faster in the network: %.1f us "
               "a replay, %.1f us before\n",
               spc__count(changed, "layer"),
               spc__either(changed, "has a kernel that is",
                           "have kernels that are"),
               *us, before);
    return status;
}

/* ---- entry --------------------------------------------------------------- */

/* True if all layers keep their untuned kernels: the two times of a replay then
 * differ by chance. */
static bool keeps_untuned(const tuning *t)
{
    for (int i = 0; i < t->count; i++) {
        const problem *p = &t->problems[i];
        if (p->rivals.now != NULL && p->untuned != NULL &&
            strcmp(p->rivals.now, p->untuned) != 0)
            return false;
    }
    return true;
}

static void print(const tuning *t, double us, double untuned_us)
{
    const network *n = &t->net;
    spc__json *json = t->job.json;
    char scenes[280];

    if (n->scene_count == 1)
        snprintf(scenes, sizeof(scenes), "%s", spc_scene_name(n->scenes[0]));
    else
        snprintf(scenes, sizeof(scenes), "%s",
                 spc__count(n->scene_count, "scene"));
    if (json == NULL) {
        printf("\n%s on %s: a replay takes %.1f us", n->info.name, scenes, us);
        if (untuned_us > 0)
            printf(", untuned %.1f us%s", untuned_us,
                   keeps_untuned(t) ? " with the same kernels" : "");
        putchar('\n');
        return;
    }
    spc__json_object(json, NULL);
    spc__json_text(json, "network", n->info.name);
    spc__json_text(json, "scene", scenes);
    spc__json_real(json, "replay_us", us);
    if (untuned_us > 0)
        spc__json_real(json, "untuned_us", untuned_us);
    spc__json_end_object(json);
}

/*
 * Times the network without tuned kernels. Skips this if the budget ended the
 * tuning early, as all untuned kernels would have to be compiled.
 */
static spc_status time_untuned(tuning *t, double *us)
{
    spc_status status = time_shown(t, us, SPC_PLAN_ESTIMATE);

    return status == SPC_OK ? note_untuned(t) : status;
}

spc_status network_confirm(tuning *t)
{
    double before = 0, after;
    spc_status status = SPC_OK;

    if (!t->is_cut)
        status = time_untuned(t, &before);
    if (status != SPC_OK ||
        (status = time_shown(t, &after, SPC_PLAN_JIT)) != SPC_OK ||
        (status = share_layouts(t, &after)) != SPC_OK ||
        (status = note_kernels(t)) != SPC_OK ||
        (status = fall_back(t, before, &after)) != SPC_OK ||
        (status = try_rivals(t, &after)) != SPC_OK)
        return status;
    print(t, after, before);
    return SPC_OK;
}
