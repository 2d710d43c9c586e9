/* record.c - a run and the database: what it knew, what it learns. */
#include "run.h"

#include "error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Trouble with the database costs what it would have kept, not the run. */
static void trouble(spc__run *run, const spc_error *error)
{
    if (!run->told)
        spc__log_printf(&run->ctx->log, SPC_LOG_WARNING,
                        "tuning goes on, but nothing is stored: %s",
                        error->text);
    run->told = true;
}

static bool same_place(const spc__place *a, const spc__place *b)
{
    return spc__bucket_rows(a->key.log2_rows) ==
               spc__bucket_rows(b->key.log2_rows) &&
           spc__bucket_density(a->key.density) ==
               spc__bucket_density(b->key.density);
}

/* Is `s` the first scene of its place? Others share its records. */
static bool leads(const spc__run *run, int s)
{
    for (int i = 0; i < s; i++)
        if (same_place(&run->places[i], &run->places[s]))
            return false;
    return true;
}

/* ---- recalling
 * ---------------------------------------------------------------- */

static int compare(const char *name, const char *config,
                   const spc__entry *entry)
{
    int order = strcmp(name, entry->trial.template_name);
    return order != 0 ? order : strcmp(config, entry->config);
}

spc__entry *spc__run_find(const spc__run *run, const char *template_name,
                          const char *config)
{
    int low = 0, high = run->count;

    while (low < high) {
        int middle = (low + high) / 2;
        int order = compare(template_name, config, run->by_config[middle]);
        if (order == 0)
            return run->by_config[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static spc__entry *entry_of(const spc__run *run, const spc__trial *trial)
{
    spc__buf config = SPC__BUF_INIT;

    spc__attrs_format(&config, &trial->config);
    spc__entry *entry =
        spc__run_find(run, trial->template_name, spc__buf_text(&config));
    spc__buf_release(&config);
    if (entry != NULL &&
        strcmp(entry->trial.template_hash, trial->template_hash) != 0)
        entry = NULL; /* a changed template makes old rows hints only */
    return entry;
}

/* Puts one trial of scene s's place over what is known of its candidate. */
static void take_over(spc__entry *entry, const spc__trial *trial, int s)
{
    spc__timing *timing = &entry->timings[s];

    if (entry->reach == SPC__FAILED)
        return;
    entry->known = true;
    if (s == 0 || trial->status != SPC__TRIAL_OK)
        entry->trial = *trial;
    if (trial->error > entry->trial.error)
        entry->trial.error = trial->error;
    if (trial->status != SPC__TRIAL_OK) {
        entry->reach = SPC__FAILED;
        return;
    }
    timing->count = trial->samples;
    timing->median_us = trial->median_us;
    timing->spread_us = trial->spread_us;
    timing->cold_us = trial->cold_us;
}

/* Known is only what was timed on every scene, or failed on one. */
static void settle(const spc__run *run, spc__entry *entry)
{
    if (!entry->known || entry->reach == SPC__FAILED)
        return;
    for (int s = 0; s < run->scene_count; s++)
        if (entry->timings[s].count == 0)
            entry->known = false;
    if (entry->known)
        entry->reach = SPC__TIMED;
    else
        memset(entry->timings, 0, sizeof(entry->timings));
}

/* A compiler that failed without naming a line of the template may have been
 * short of disk or memory, or killed: that is tried again. */
static bool is_lasting(const spc__trial *trial)
{
    return trial->status != SPC__TRIAL_COMPILE ||
           strstr(trial->note, ".lua:") != NULL;
}

static spc_status recall_place(spc__run *run, int s)
{
    spc__trial *trials = NULL;
    spc_error error;
    int count = 0;

    if (spc__cache_find_trials(run->ctx->cache, &run->places[s].key, &trials,
                               &count, &error) != SPC_OK)
        trouble(run, &error);
    for (int i = 0; i < count; i++) {
        spc__entry *entry =
            is_lasting(&trials[i]) ? entry_of(run, &trials[i]) : NULL;
        if (entry != NULL)
            take_over(entry, &trials[i], s);
    }
    free(trials);
    return SPC_OK;
}

spc_status spc__run_recall(spc__run *run)
{
    spc_status status = SPC_OK;

    if (run->ctx->cache == NULL || run->options.again)
        return SPC_OK;
    for (int s = 0; s < run->scene_count && status == SPC_OK; s++)
        status = recall_place(run, s);
    for (int i = 0; i < run->count; i++) {
        spc__entry *entry = &run->entries[i];
        settle(run, entry);
        run->report->known += entry->known;
    }
    return status;
}

/* ---- recording
 * ------------------------------------------------------------------ */

/* The figures of all scenes of one place, as one. */
static void set_timing(spc__trial *trial, const spc__run *run,
                       const spc__entry *entry, int s)
{
    double logs = 0, cold = 0, relative = 0;
    int scenes = 0, samples = 0;

    for (int i = s; i < run->scene_count; i++) {
        const spc__timing *timing = &entry->timings[i];
        if (!same_place(&run->places[s], &run->places[i]) ||
            timing->median_us <= 0)
            continue;
        logs += log(timing->median_us);
        cold += timing->cold_us > 0 ? log(timing->cold_us) : 0;
        relative = fmax(relative, timing->spread_us / timing->median_us);
        samples =
            scenes == 0 || timing->count < samples ? timing->count : samples;
        scenes++;
    }
    trial->samples = samples;
    trial->median_us = scenes > 0 ? exp(logs / scenes) : 0;
    trial->spread_us = relative * trial->median_us;
    trial->cold_us =
        entry->timings[s].cold_us > 0 && scenes > 0 ? exp(cold / scenes) : 0;
}

static bool writable(const spc__run *run)
{
    return run->ctx->cache != NULL && run->options.target == NULL && !run->told;
}

void spc__run_record(spc__run *run, const spc__entry *entry)
{
    spc__trial *trial = malloc(sizeof(*trial));
    spc_error error;

    for (int s = 0; trial != NULL && s < run->scene_count; s++) {
        if (!writable(run) || !leads(run, s))
            continue;
        *trial = entry->trial;
        set_timing(trial, run, entry, s);
        if (spc__cache_put_trial(run->ctx->cache, &run->places[s].key, trial,
                                 &run->provenance, &error) != SPC_OK)
            trouble(run, &error);
    }
    free(trial);
}

/* The database may have been in trouble only for a while: what it missed is
 * still here. */
static void record_again(spc__run *run)
{
    run->told = false;
    for (int i = 0; i < run->count && !run->told; i++)
        if (!run->entries[i].known && run->entries[i].reach == SPC__TIMED)
            spc__run_record(run, &run->entries[i]);
}

void spc__run_record_choice(spc__run *run, const spc__entry *entry,
                            const char *reason)
{
    spc__trial *trial = malloc(sizeof(*trial));
    spc_error error;

    if (run->told)
        record_again(run);
    for (int s = 0; trial != NULL && s < run->scene_count; s++) {
        if (!writable(run) || !leads(run, s))
            continue;
        *trial = entry->trial;
        set_timing(trial, run, entry, s);
        if (spc__cache_put_choice(run->ctx->cache, &run->places[s].key, trial,
                                  reason, &run->provenance, &error) != SPC_OK)
            trouble(run, &error);
    }
    free(trial);
}

void spc__run_record_code(spc__run *run, const spc__entry *entry)
{
    const char *target = run->options.target != NULL ? run->options.target
                                                     : run->ctx->info.target;
    spc_error error;

    if (run->ctx->cache == NULL || run->told)
        return;
    if (spc__cache_put_artefact(run->ctx->cache, entry->trial.artefact, target,
                                run->provenance.compiler, &entry->trial.launch,
                                &entry->trial.resources, entry->code,
                                entry->code_bytes, &error) != SPC_OK)
        trouble(run, &error);
}
