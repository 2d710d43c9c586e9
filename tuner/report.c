/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - the figures of progress and candidates. */
#include "tuner/report.h"

#include "base/clock.h"
#include "tuner/search/choice.h"
#include <math.h>
#include <stdio.h>

/*
 * Estimates the seconds left; below zero if unknown. All stages overlap, so it
 * counts finished candidates over time.
 */
static double time_left(const spc__pace *pace)
{
    double spent = (double)(spc__now_ns() - pace->since_ns) * 1e-9;

    if (pace->done == 0)
        return -1;
    return (pace->total - pace->done) * spent / pace->done;
}

void spc__report_progress(const spc__request *request, const spc__pace *pace,
                          spc_stage stage)
{
    const spc__entry *best = pace->best;
    char name[256];
    spc_progress progress = {
        .stage = stage,
        .done = pace->done,
        .total = pace->total,
        .elapsed_s = (double)(spc__now_ns() - request->started_ns) * 1e-9,
        .left_s = time_left(pace),
    };

    if (request->options.on_progress == NULL)
        return;
    if (best != NULL && best->state == SPC__TIMED) {
        snprintf(name, sizeof(name), "%s %s", best->trial.template_name,
                 best->config);
        progress.best = name;
        progress.best_us = spc__entry_score(best, request->scene_count);
    }
    request->options.on_progress(&progress, request->options.payload);
}

/* Figures of all scenes in one: geometric means, the largest relative spread,
 * the least number of samples. */
static void fill_timing(spc_trial *out, const spc__entry *entry, int scenes)
{
    double cold = 0;

    out->median_us = spc__final_score(entry, scenes);
    out->is_finalist = entry->side_us > 0;
    out->samples = entry->timings[0].count;
    for (int s = 0; s < scenes; s++) {
        const spc__timing *timing = &entry->timings[s];
        out->spread_us =
            fmax(out->spread_us, timing->spread_us / timing->median_us);
        /* If a scene has no cold time, the mean becomes exp(-INFINITY) = 0,
         * which means unknown. */
        cold += timing->cold_us > 0 ? log(timing->cold_us) : -INFINITY;
        if (timing->count < out->samples)
            out->samples = timing->count;
    }
    out->spread_us *= out->median_us;
    out->cold_us = exp(cold / scenes);
}

void spc__report_entry(const spc__request *request, const spc__entry *entry)
{
    const spc__attrs *resources = &entry->trial.resources;
    spc_trial trial = {
        .template_name = entry->trial.template_name,
        .config = entry->config,
        .status = spc__trial_status_name(entry->trial.status),
        .note = entry->trial.note,
        .is_default = entry->candidate->is_default,
        .from_database = entry->known,
        .verified = entry->trial.verified,
        .error = entry->trial.error,
        .registers = (int)spc__attrs_number(resources, "registers", 0),
        .spill_bytes = (int)spc__attrs_number(resources, "spill_bytes", 0),
        .shared_bytes =
            (int)(spc__attrs_number(&entry->trial.launch, "shared", 0) +
                  spc__attrs_number(resources, "static_shared_bytes", 0)),
        .compile_ms = entry->trial.compile_ms,
    };

    if (request->options.on_trial == NULL)
        return;
    if (entry->state == SPC__TIMED)
        fill_timing(&trial, entry, request->scene_count);
    request->options.on_trial(&trial, request->options.payload);
}

void spc__report_all(const spc__request *request,
                     const spc__candidates *candidates)
{
    for (int i = 0; i < candidates->count; i++)
        if (candidates->entries[i].state == SPC__TIMED ||
            candidates->entries[i].state == SPC__FAILED)
            spc__report_entry(request, &candidates->entries[i]);
}

/* A candidate that was never built. */
static void report_refused(const spc__request *request,
                           const char *template_name, const char *config,
                           spc__trial_status status, const char *why)
{
    spc_trial trial = {.template_name = template_name,
                       .config = config,
                       .status = spc__trial_status_name(status),
                       .note = why};

    if (request->options.on_trial != NULL)
        request->options.on_trial(&trial, request->options.payload);
}

static void report_template(const spc__request *request,
                            const struct spc__refusal *refusal)
{
    report_refused(request, refusal->template_name, "",
                   refusal->is_mistake ? SPC__TRIAL_TEMPLATE
                                       : SPC__TRIAL_CONSTRAINT,
                   refusal->why);
}

/*
 * Other templates still serve, but the author of the faulty one needs to know.
 */
void spc__report_mistakes(const spc__request *request, const spc__space *space)
{
    for (int i = 0; i < space->refusal_count; i++)
        if (space->refusals[i].is_mistake)
            report_template(request, &space->refusals[i]);
}

void spc__report_space(const spc__request *request,
                       const spc__candidates *candidates)
{
    const spc__space *space = candidates->space;
    spc__buf config = SPC__BUF_INIT;
    int admitted = 0;

    for (int i = 0; i < space->count; i++) {
        const spc__candidate *candidate = &space->candidates[i];
        if (candidate->admitted) {
            spc__report_entry(request, &candidates->entries[admitted++]);
            continue;
        }
        spc__buf_clear(&config);
        spc__attrs_format(&config, &candidate->config);
        report_refused(request, spc__template_name(candidate->tpl),
                       spc__buf_text(&config), SPC__TRIAL_CONSTRAINT,
                       candidate->why);
    }
    for (int i = 0; i < space->refusal_count; i++)
        report_template(request, &space->refusals[i]);
    spc__buf_release(&config);
}
