/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meter.c - verifies candidates, and times them in rounds.
 *
 * Each round times all candidates in shuffled order, so that a drift of the
 * clock affects all alike.
 */
#include "tuner/meter.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "lab/oracle/relation.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Time limits in seconds for one candidate on one scene: for one request, and
 * for all of them together. It is left with the samples it has by then.
 */
static const double request_s = 0.5;
static const double enough_s = 2.0;

/* A request's description of a candidate. The code itself is not copied. */
static spc__harness_code code_of(const spc__entry *entry)
{
    spc__harness_code code = {.config = entry->candidate->config,
                              .launch = entry->trial.launch,
                              .code = entry->code,
                              .code_bytes = entry->code_bytes};

    memcpy(code.template_name, entry->trial.template_name,
           sizeof(code.template_name));
    memcpy(code.artefact, entry->trial.artefact, sizeof(code.artefact));
    return code;
}

/* A failed candidate needs neither its code nor its samples any more. */
static void drop_code(spc__entry *entry)
{
    for (int s = 0; s < SPC__SCENES_MAX; s++) {
        free(entry->timings[s].all);
        memset(&entry->timings[s], 0, sizeof(entry->timings[s]));
    }
    free(entry->code);
    entry->code = NULL;
    entry->code_pending = false;
}

void spc__meter_fail(spc__entry *entry, const spc__outcome *outcome)
{
    /* A first timeout may be due to a busy machine; only a second, in another
     * run, is taken for lasting (record.c, is_lasting). */
    bool again = outcome->status == SPC__TRIAL_TIMEOUT && entry->was_late;
    char note[sizeof(entry->trial.note)];

    snprintf(note, sizeof(note), "%.140s%s", outcome->note,
             again ? SPC__LATE_AGAIN : "");
    spc__entry_fail(entry, outcome->status, again ? note : outcome->note);
    entry->trial_pending = true;
    drop_code(entry);
}

/* ---- life ---------------------------------------------------------------- */

void spc__meter_init(spc__meter *out, const spc__request *request)
{
    memset(out, 0, sizeof(*out));
    out->request = request;
}

static void free_relations(spc__meter *meter)
{
    for (int s = 0; s < SPC__SCENES_MAX; s++)
        spc__relation_release(&meter->relations[s]);
}

void spc__meter_release(spc__meter *meter)
{
    spc__runner_free(meter->runner);
    spc__sample_release(&meter->sample);
    free_relations(meter);
}

spc_status spc__meter_relate(spc__meter *meter, int s)
{
    const spc__request *request = meter->request;

    return spc__relation_init(&meter->relations[s], request->conv,
                              request->scenes[s], request->ctx->threads,
                              request->ctx->cancel, request->error);
}

/* Draws the arrays of the layer and the oracle's results on them. An emulation
 * gets fewer sizes, as its kernels are slow. */
static spc_status make_sample(spc__meter *meter)
{
    const spc__request *request = meter->request;
    spc__sample_source sources[SPC__SCENES_MAX];
    bool emulates = spc__device_ops_of(request->ctx->device)->is_emulation;
    spc__sample_options options = {request->options.seed, true,
                                   request->ctx->threads, request->ctx->cancel,
                                   emulates ? SPC__FEW_SIZES : SPC__SIZES};

    for (int s = 0; s < request->scene_count; s++)
        sources[s] = (spc__sample_source){.scene = request->scenes[s],
                                          .relation = &meter->relations[s]};
    spc_status status =
        spc__sample_init(&meter->sample, request->conv, sources,
                         request->scene_count, &options, request->error);
    for (int s = 0; s < request->scene_count && status == SPC_OK; s++)
        meter->works[s] = spc__sample_work(&meter->sample, s);
    return status;
}

static double seconds_since(uint64_t start_ns)
{
    return (double)(spc__now_ns() - start_ns) * 1e-9;
}

spc_status spc__meter_show(spc__meter *meter)
{
    uint64_t start = spc__now_ns();

    if (meter->has_sample)
        return SPC_OK;
    spc_status status = make_sample(meter);
    meter->has_sample = status == SPC_OK;
    /* The sample holds all that is still needed of them, and they are large. */
    free_relations(meter);
    meter->draw_s = seconds_since(start);
    return status;
}

spc_status spc__meter_start(spc__meter *meter)
{
    const spc__request *request = meter->request;
    const char *const *worker = request->options.worker;
    spc__runner_options options = {worker != NULL, worker,
                                   request->options.limit_s};
    spc_status status;

    if (meter->runner != NULL)
        return SPC_OK;
    if ((status = spc__meter_show(meter)) != SPC_OK)
        return status;
    uint64_t start = spc__now_ns();
    if ((status =
             spc__runner_create(&meter->runner, request->ctx, &meter->sample,
                                &options, request->error)) != SPC_OK)
        return status;
    status = spc__runner_start(meter->runner, request->error);
    meter->start_s = seconds_since(start);
    return status;
}

/* ---- verifying ----------------------------------------------------------- */

spc_status spc__meter_verify(spc__meter *meter, spc__entry *entry)
{
    spc__harness_code code = code_of(entry);
    spc__outcome outcome;
    uint64_t start = spc__now_ns();
    spc_status status = spc__runner_verify(
        &outcome, meter->runner, entry->number, &code, meter->request->error);

    meter->verify_s += seconds_since(start);
    if (status != SPC_OK)
        return status;
    meter->gate_s += outcome.gate_s;
    entry->trial.error = outcome.error;
    entry->trial.verified = outcome.status == SPC__TRIAL_OK;
    entry->state = SPC__VERIFIED;
    meter->verified += entry->trial.verified;
    if (!entry->trial.verified)
        spc__meter_fail(entry, &outcome);
    return SPC_OK;
}

/* ---- timing -------------------------------------------------------------- */

/* Appends samples and computes the figures anew; false without memory. */
static bool add_samples(spc__timing *timing, const spc__outcome *outcome)
{
    if (timing->all == NULL) /* new samples replace those of the database */
        timing->count = timing->capacity = 0;
    if (timing->count + outcome->count > timing->capacity) {
        int capacity = 2 * (timing->count + outcome->count);
        double *more = realloc(timing->all, (size_t)capacity * sizeof(*more));
        if (more == NULL)
            return false;
        timing->all = more;
        timing->capacity = capacity;
    }
    memcpy(timing->all + timing->count, outcome->samples,
           (size_t)outcome->count * sizeof(double));
    timing->count += outcome->count;
    timing->median_us = spc__median(timing->all, timing->count);
    timing->spread_us = spc__half_iqr(timing->all, timing->count);
    return true;
}

/* Makes one request: takes `samples` more samples of a candidate on scene s. */
static spc_status take(spc__meter *meter, spc__entry *entry, int s, int samples,
                       bool cold)
{
    spc__harness_order order = {s, samples, cold, request_s, false};
    spc__harness_code code = code_of(entry);
    spc__timing *timing = &entry->timings[s];
    spc__outcome outcome;
    uint64_t start = spc__now_ns();
    spc_status status = spc__runner_time(&outcome, meter->runner, entry->number,
                                         &code, &order, meter->request->error);

    meter->time_s += seconds_since(start);
    if (status != SPC_OK)
        return status;
    /* A median of no samples would be 0, and win. */
    if (outcome.status == SPC__TRIAL_OK && outcome.count == 0) {
        outcome.status = SPC__TRIAL_FAULT;
        snprintf(outcome.note, sizeof(outcome.note), "gave no sample");
    }
    if (outcome.status != SPC__TRIAL_OK)
        spc__meter_fail(entry, &outcome);
    else if (cold)
        timing->cold_us = spc__median(outcome.samples, outcome.count);
    else if (!add_samples(timing, &outcome))
        return spc__fail_memory(meter->request->error, sizeof(outcome));
    return SPC_OK;
}

double spc__meter_layout(spc__meter *meter, const spc__entry *entry)
{
    const spc__request *request = meter->request;
    int samples = spc__request_effort(request)->screening;
    double sum = 0;

    if (entry == NULL || entry->timings[0].all == NULL)
        return 0;
    for (int s = 0; s < request->scene_count; s++) {
        spc__harness_order order = {s, samples, false, request_s, true};
        spc__harness_code code = code_of(entry);
        spc__outcome outcome;
        spc_error error = {0};
        if (spc__runner_time(&outcome, meter->runner, entry->number, &code,
                             &order, &error) != SPC_OK ||
            outcome.status != SPC__TRIAL_OK || outcome.count == 0)
            return 0;
        sum += log(spc__median(outcome.samples, outcome.count));
    }
    return exp(sum / request->scene_count);
}

/*
 * True if there are `goal` samples, or if the candidate is too slow for that
 * many.
 */
static bool has_enough(const spc__timing *timing, int goal)
{
    return timing->count >= goal ||
           timing->count * timing->median_us >= enough_s * 1e6;
}

bool spc__entry_has(const spc__entry *entry, int scenes, int goal, bool cold)
{
    for (int s = 0; s < scenes; s++)
        if (!has_enough(&entry->timings[s], goal) ||
            (cold && entry->timings[s].cold_us <= 0))
            return false;
    return true;
}

/* Takes samples of a candidate on every scene that has fewer than `goal`. */
static spc_status take_samples(spc__meter *meter, spc__entry *entry, int goal)
{
    const spc__request *request = meter->request;
    int samples = spc__request_effort(request)->screening;
    spc_status status = SPC_OK;

    for (int s = 0; s < request->scene_count && status == SPC_OK; s++) {
        spc__timing *timing = &entry->timings[s];
        if (entry->state != SPC__FAILED &&
            (timing->all == NULL || !has_enough(timing, goal)))
            status = take(meter, entry, s, samples, false);
    }
    return status;
}

/* Takes cold samples on every scene without any. */
static spc_status take_cold_samples(spc__meter *meter, spc__entry *entry)
{
    const spc__request *request = meter->request;
    int samples = spc__request_effort(request)->cold;
    spc_status status = SPC_OK;

    for (int s = 0; s < request->scene_count && status == SPC_OK; s++)
        if (entry->state != SPC__FAILED && entry->timings[s].cold_us <= 0)
            status = take(meter, entry, s, samples, true);
    return status;
}

static void forget_cold(spc__entry *entry)
{
    for (int s = 0; s < SPC__SCENES_MAX; s++)
        entry->timings[s].cold_us = 0;
}

void spc__meter_unconfirm(spc__entry **list, int count)
{
    for (int i = 0; i < count; i++)
        forget_cold(list[i]);
}

spc_status spc__meter_screen(spc__meter *meter, spc__entry *entry)
{
    const spc__effort *effort = spc__request_effort(meter->request);
    spc_status status = take_samples(meter, entry, effort->screening);

    if (status != SPC_OK || entry->state == SPC__FAILED)
        return status;
    /* Cold times from the database belong to another measurement. */
    forget_cold(entry);
    entry->state = SPC__TIMED;
    entry->trial_pending = true;
    meter->timed++;
    return SPC_OK;
}

/* Fisher and Yates. Without it a candidate would always follow the same one,
 * and find the cache and the clock as that left them. */
static void shuffle(spc__entry **list, int count, spc__random *random)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)spc__random_below(random, (uint32_t)i + 1);
        spc__entry *kept = list[i];
        list[i] = list[j];
        list[j] = kept;
    }
}

spc_status spc__meter_rounds(spc__meter *meter, spc__entry **list, int count,
                             int goal)
{
    int scenes = meter->request->scene_count;
    spc__random random;
    spc_status status = SPC_OK;
    bool more = true;

    spc__random_init(&random, meter->request->options.seed);
    while (more && status == SPC_OK) {
        more = false;
        shuffle(list, count, &random);
        for (int i = 0; i < count && status == SPC_OK; i++) {
            if (list[i]->state != SPC__TIMED ||
                spc__entry_has(list[i], scenes, goal, false))
                continue;
            status = take_samples(meter, list[i], goal);
            list[i]->trial_pending = true;
            more = true;
        }
    }
    return status;
}

/* One round is enough, as it takes all cold samples of a candidate. */
spc_status spc__meter_cold_rounds(spc__meter *meter, spc__entry **list,
                                  int count)
{
    int scenes = meter->request->scene_count;
    spc__random random;
    spc_status status = SPC_OK;

    spc__random_init(&random, meter->request->options.seed);
    shuffle(list, count, &random);
    for (int i = 0; i < count && status == SPC_OK; i++) {
        if (list[i]->state != SPC__TIMED ||
            spc__entry_has(list[i], scenes, 0, true))
            continue;
        status = take_cold_samples(meter, list[i]);
        list[i]->trial_pending = true;
    }
    return status;
}

/* ---- candidates that may win --------------------------------------------- */

spc_status spc__meter_confirm(spc__meter *meter, spc__entry **list, int count)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < count && status == SPC_OK; i++) {
        spc__entry *entry = list[i];
        spc__outcome outcome;
        if (entry->state != SPC__TIMED)
            continue;
        spc__harness_code code = code_of(entry);
        uint64_t start = spc__now_ns();
        status = spc__runner_confirm(&outcome, meter->runner, entry->number,
                                     &code, meter->request->error);
        meter->verify_s += seconds_since(start);
        if (status == SPC_OK)
            meter->gate_s += outcome.gate_s;
        if (status == SPC_OK && outcome.status != SPC__TRIAL_OK)
            spc__meter_fail(entry, &outcome);
    }
    return status;
}

/* Keeps the medians, which are valid until the first new samples arrive. */
static void drop_samples(spc__entry *entry)
{
    for (int s = 0; s < SPC__SCENES_MAX; s++) {
        free(entry->timings[s].all);
        entry->timings[s].all = NULL;
        entry->timings[s].count = entry->timings[s].capacity = 0;
    }
}

spc_status spc__meter_again(spc__meter *meter, spc__entry **list, int count,
                            int goal)
{
    for (int i = 0; i < count; i++)
        drop_samples(list[i]);
    return spc__meter_rounds(meter, list, count, goal);
}

spc_status spc__meter_unload(spc__meter *meter, const spc__entry *entry)
{
    return meter->runner == NULL
               ? SPC_OK
               : spc__runner_unload(meter->runner, entry->number,
                                    meter->request->error);
}
