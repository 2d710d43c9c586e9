/*
 * sampling.c - candidates are verified, and timed in rounds.
 *
 * All of a round have their turn in shuffled order, so that a drift of the
 * clock meets all alike.
 */
#include "search.h"

#include "clock.h"
#include "error.h"
#include "random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Measuring one candidate on one scene ends after this long, in seconds, with
 * whatever samples there are: a request, and all of them together. */
static const double request_s = 0.5;
static const double enough_s = 2.0;

static spc__rig_code code_of(const spc__entry *entry)
{
    spc__rig_code code = {.config = entry->candidate->config,
                          .launch = entry->trial.launch,
                          .code = entry->code,
                          .code_bytes = entry->code_bytes};

    memcpy(code.template_name, entry->trial.template_name,
           sizeof(code.template_name));
    memcpy(code.artefact, entry->trial.artefact, sizeof(code.artefact));
    return code;
}

static int slot_of(const spc__run *run, const spc__entry *entry)
{
    return (int)(entry - run->entries);
}

static void drop(spc__run *run, spc__entry *entry)
{
    for (int s = 0; s < run->scene_count; s++) {
        free(entry->timings[s].all);
        memset(&entry->timings[s], 0, sizeof(entry->timings[s]));
    }
    free(entry->code);
    entry->code = NULL;
    entry->code_pending = false;
}

void spc__entry_fail(spc__run *run, spc__entry *entry,
                     const spc__outcome *outcome)
{
    entry->state = SPC__FAILED;
    entry->trial.status = outcome->status;
    memcpy(entry->trial.note, outcome->note, sizeof(entry->trial.note));
    drop(run, entry);
    spc__run_record(run, entry);
}

/* The oracle runs, and the measuring side starts, when something must be
 * verified: not at all if everything is known. */
static spc_status prepare(spc__run *run)
{
    spc__runner_options runner = {run->options.worker, run->options.limit_s};
    spc__sample_options options = {run->options.seed, true, run->ctx->threads,
                                   run->ctx->cancel};
    spc__sample_source sources[SPC__SCENES_MAX];
    spc_status status;

    if (run->runner != NULL)
        return SPC_OK;
    for (int s = 0; s < run->scene_count; s++) {
        int64_t rows = spc_scene_rows(run->scenes[s]);
        sources[s] =
            (spc__sample_source){run->scenes[s], run->index[s], rows, rows};
    }
    if ((status = spc__sample_init(&run->sample, run->conv, sources,
                                   run->scene_count, &options, run->error)) !=
        SPC_OK)
        return status;
    for (int s = 0; s < run->scene_count; s++) {
        free(run->index[s]);
        run->index[s] = NULL;
    }
    return spc__runner_create(&run->runner, run->ctx, &run->sample, &runner,
                              run->error);
}

spc_status spc__run_verify(spc__run *run, spc__entry **list, int count)
{
    spc__outcome outcome;
    spc_status status = prepare(run);

    for (int i = 0; i < count && status == SPC_OK; i++) {
        spc__entry *entry = list[i];
        if (entry->state != SPC__BUILT)
            continue;
        spc__rig_code code = code_of(entry);
        status = spc__runner_verify(&outcome, run->runner, slot_of(run, entry),
                                    &code, run->error);
        if (status != SPC_OK)
            break;
        entry->trial.error = outcome.error;
        entry->trial.verified = outcome.status == SPC__TRIAL_OK;
        entry->state = SPC__VERIFIED;
        run->report->verified += entry->trial.verified;
        if (!entry->trial.verified)
            spc__entry_fail(run, entry, &outcome);
    }
    return status;
}

spc_status spc__run_confirm(spc__run *run, spc__entry **list, int count)
{
    spc__outcome outcome;
    spc_status status = SPC_OK;

    for (int i = 0; i < count && status == SPC_OK; i++) {
        spc__entry *entry = list[i];
        if (entry->state != SPC__TIMED)
            continue;
        spc__rig_code code = code_of(entry);
        status = spc__runner_confirm(&outcome, run->runner, slot_of(run, entry),
                                     &code, run->error);
        if (status == SPC_OK && outcome.status != SPC__TRIAL_OK)
            spc__entry_fail(run, entry, &outcome);
    }
    return status;
}

static bool add_samples(spc__timing *timing, const spc__outcome *outcome)
{
    if (timing->all == NULL) /* what the database knew gives way */
        timing->count = timing->room = 0;
    if (timing->count + outcome->count > timing->room) {
        int room = 2 * (timing->count + outcome->count);
        double *more = realloc(timing->all, (size_t)room * sizeof(*more));
        if (more == NULL)
            return false;
        timing->all = more;
        timing->room = room;
    }
    memcpy(timing->all + timing->count, outcome->samples,
           (size_t)outcome->count * sizeof(double));
    timing->count += outcome->count;
    timing->median_us = spc__median(timing->all, timing->count);
    timing->spread_us = spc__half_iqr(timing->all, timing->count);
    return true;
}

/* One request: `samples` more of a candidate on scene s. */
static spc_status take(spc__run *run, spc__entry *entry, int s, int samples,
                       bool cold)
{
    spc__rig_order order = {s, samples, cold, request_s};
    spc__rig_code code = code_of(entry);
    spc__timing *timing = &entry->timings[s];
    spc__outcome outcome;
    spc_status status = spc__runner_time(
        &outcome, run->runner, slot_of(run, entry), &code, &order, run->error);

    if (status != SPC_OK)
        return status;
    if (outcome.status == SPC__TRIAL_OK && outcome.count == 0) {
        outcome.status = SPC__TRIAL_FAULT;
        snprintf(outcome.note, sizeof(outcome.note), "gave no sample");
    }
    if (outcome.status != SPC__TRIAL_OK)
        spc__entry_fail(run, entry, &outcome);
    else if (cold)
        timing->cold_us = spc__median(outcome.samples, outcome.count);
    else if (!add_samples(timing, &outcome))
        return spc__fail_memory(run->error, sizeof(outcome));
    return SPC_OK;
}

/* Enough samples for `wanted`, or too slow for so many? */
static bool has_enough(const spc__timing *timing, int wanted)
{
    return timing->count >= wanted ||
           timing->count * timing->median_us >= enough_s * 1e6;
}

bool spc__entry_has(const spc__run *run, const spc__entry *entry, int wanted,
                    bool cold)
{
    for (int s = 0; s < run->scene_count; s++)
        if (!has_enough(&entry->timings[s], wanted) ||
            (cold && entry->timings[s].cold_us <= 0))
            return false;
    return true;
}

spc_status spc__sample_once(spc__run *run, spc__entry *entry, int wanted,
                            bool cold)
{
    const spc__effort *effort = spc__effort_of(run);
    uint64_t since = spc__now_ns();
    spc_status status = SPC_OK;

    for (int s = 0; s < run->scene_count && status == SPC_OK; s++) {
        spc__timing *timing = &entry->timings[s];
        if (entry->state == SPC__FAILED)
            break;
        if (cold && timing->cold_us <= 0)
            status = take(run, entry, s, effort->cold, true);
        else if (!cold && (timing->all == NULL || !has_enough(timing, wanted)))
            status = take(run, entry, s, effort->screening, false);
    }
    run->measure_s += (double)(spc__now_ns() - since) * 1e-9;
    return status;
}

static void shuffle(spc__entry **list, int count, spc__random *random)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)spc__random_below(random, (uint32_t)i + 1);
        spc__entry *kept = list[i];
        list[i] = list[j];
        list[j] = kept;
    }
}

spc_status spc__sample_rounds(spc__run *run, spc__entry **list, int count,
                              int wanted, bool cold)
{
    spc__random random;
    spc_status status = SPC_OK;
    bool more = true;

    spc__random_init(&random, run->options.seed);
    while (more && status == SPC_OK) {
        more = false;
        shuffle(list, count, &random);
        for (int i = 0; i < count && status == SPC_OK; i++) {
            if (list[i]->state != SPC__TIMED ||
                spc__entry_has(run, list[i], wanted, cold))
                continue;
            status = spc__sample_once(run, list[i], wanted, cold);
            more = true;
        }
    }
    return status;
}

spc_status spc__sample_unload(spc__run *run, const spc__entry *entry)
{
    return spc__runner_unload(run->runner, slot_of(run, entry), run->error);
}
