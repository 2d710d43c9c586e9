/* report.c - what a run tells its caller: progress, and every candidate. */
#include "run.h"

#include "clock.h"
#include <math.h>
#include <stdio.h>

/* Seconds left for what is known to be left; below zero: not known yet. */
static double time_left(const spc__run *run)
{
    double left = 0;

    if (run->builds > 0)
        left += (run->to_build - run->built) * run->build_s / run->builds;
    if (run->options.stage == SPC_STAGE_BUILD)
        return run->builds > 0 ? left : -1;
    if (run->measures == 0)
        return -1;
    double each = (run->build_s + run->measure_s) / run->measures;
    return (run->to_measure - run->measured) * each;
}

void spc__run_progress(spc__run *run, spc_stage stage, int done, int total)
{
    char best[256];
    spc_progress progress = {
        .stage = stage,
        .done = done,
        .total = total,
        .elapsed_s = (double)(spc__now_ns() - run->started_ns) * 1e-9,
        .left_s = time_left(run),
    };

    if (run->options.on_progress == NULL)
        return;
    if (run->best != NULL && run->best->state == SPC__TIMED) {
        snprintf(best, sizeof(best), "%s %s", run->best->trial.template_name,
                 run->best->config);
        progress.best = best;
        progress.best_us = spc__entry_score(run, run->best);
    }
    run->options.on_progress(&progress, run->options.payload);
}

static void fill_timing(spc_trial *out, const spc__run *run,
                        const spc__entry *entry)
{
    double cold = 0;

    out->median_us = spc__entry_score(run, entry);
    out->samples = entry->timings[0].count;
    for (int s = 0; s < run->scene_count; s++) {
        const spc__timing *timing = &entry->timings[s];
        out->spread_us =
            fmax(out->spread_us, timing->spread_us / timing->median_us);
        cold += timing->cold_us > 0 ? log(timing->cold_us) : -INFINITY;
        if (timing->count < out->samples)
            out->samples = timing->count;
    }
    out->spread_us *= out->median_us;
    out->cold_us = exp(cold / run->scene_count);
}

void spc__run_report(spc__run *run, const spc__entry *entry)
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

    if (run->options.on_trial == NULL)
        return;
    if (entry->state == SPC__TIMED)
        fill_timing(&trial, run, entry);
    run->options.on_trial(&trial, run->options.payload);
}

void spc__run_report_all(spc__run *run)
{
    for (int i = 0; i < run->count; i++)
        if (run->entries[i].state == SPC__TIMED ||
            run->entries[i].state == SPC__FAILED)
            spc__run_report(run, &run->entries[i]);
}

static void report_refused(spc__run *run, const char *template_name,
                           const char *config, spc__trial_status status,
                           const char *why)
{
    spc_trial trial = {.template_name = template_name,
                       .config = config,
                       .status = spc__trial_status_name(status),
                       .note = why};

    if (run->options.on_trial != NULL)
        run->options.on_trial(&trial, run->options.payload);
}

static void report_template(spc__run *run, const struct spc__refusal *refusal)
{
    report_refused(run, refusal->template_name, "",
                   refusal->is_mistake ? SPC__TRIAL_TEMPLATE
                                       : SPC__TRIAL_CONSTRAINT,
                   refusal->why);
}

/* Others serve without them, but whoever wrote them wants to know. */
void spc__run_report_mistakes(spc__run *run)
{
    const spc__space *space = run->space;

    for (int i = 0; i < space->refusal_count; i++)
        if (space->refusals[i].is_mistake)
            report_template(run, &space->refusals[i]);
}

void spc__run_report_space(spc__run *run)
{
    const spc__space *space = run->space;
    spc__buf config = SPC__BUF_INIT;
    int admitted = 0;

    for (int i = 0; i < space->count; i++) {
        const spc__candidate *candidate = &space->candidates[i];
        if (candidate->admitted) {
            spc__run_report(run, &run->entries[admitted++]);
            continue;
        }
        spc__buf_clear(&config);
        spc__attrs_format(&config, &candidate->config);
        report_refused(run, spc__template_name(candidate->tpl),
                       spc__buf_text(&config), SPC__TRIAL_CONSTRAINT,
                       candidate->why);
    }
    for (int i = 0; i < space->refusal_count; i++)
        report_template(run, &space->refusals[i]);
    spc__buf_release(&config);
}
