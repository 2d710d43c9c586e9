/* record.c - a run and the database: what it knew, what it learns. */
#include "run.h"

#include "clock.h"
#include "error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A lock takes seconds to notice: after trouble the database is left alone for
 * so long. */
static const uint64_t rest_ns = 30 * 1000000000ull;

/* Trouble with the database costs no measurement: what it does not take is
 * owed, and written at the end. */
static void trouble(spc__run *run, const spc_error *error)
{
    if (!run->told)
        spc__log_printf(&run->ctx->log, SPC_LOG_WARNING,
                        "the run goes on, but nothing is stored for now: %s",
                        error->text);
    run->told = true;
    run->trouble = *error;
    run->trouble_ns = spc__now_ns();
}

bool spc__run_keeps(const spc__run *run)
{
    return run->ctx->stores || run->ctx->no_store.status != SPC_OK;
}

/* Is it worth trying to write? */
static bool answers(const spc__run *run)
{
    return run->ctx->stores && (run->trouble.status == SPC_OK ||
                                spc__now_ns() - run->trouble_ns >= rest_ns);
}

static bool same_place(const spc__place *a, const spc__place *b)
{
    return spc__same_buckets(&a->key, &b->key);
}

/* Is `s` the first scene of its place? Others share its records. */
static bool leads(const spc__run *run, int s)
{
    for (int i = 0; i < s; i++)
        if (same_place(&run->places[i], &run->places[s]))
            return false;
    return true;
}

/* ---- recalling ----------------------------------------------------------- */

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

    if (entry->state == SPC__FAILED)
        return;
    entry->known = true;
    if (s == 0 || trial->status != SPC__TRIAL_OK)
        entry->trial = *trial;
    if (trial->error > entry->trial.error)
        entry->trial.error = trial->error;
    if (trial->status != SPC__TRIAL_OK) {
        entry->state = SPC__FAILED;
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
    if (!entry->known || entry->state == SPC__FAILED)
        return;
    for (int s = 0; s < run->scene_count; s++)
        if (entry->timings[s].count == 0)
            entry->known = false;
    if (entry->known)
        entry->state = SPC__TIMED;
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

/* What cannot be read is measured again. It says nothing about writing. */
static void recall_place(spc__run *run, int s)
{
    spc__trial *trials = NULL;
    spc_error error;
    int count = 0;

    if (spc__cache_find_trials(run->ctx->cache, &run->places[s].key, &trials,
                               &count, &error) != SPC_OK &&
        leads(run, s))
        spc__log_printf(&run->ctx->log, SPC_LOG_WARNING,
                        "not everything that is known can be used: %s",
                        error.text);
    for (int i = 0; i < count; i++) {
        spc__entry *entry =
            is_lasting(&trials[i]) ? entry_of(run, &trials[i]) : NULL;
        if (entry != NULL)
            take_over(entry, &trials[i], s);
    }
    free(trials);
}

void spc__run_recall(spc__run *run)
{
    if (run->ctx->cache == NULL || run->options.again)
        return;
    for (int s = 0; s < run->scene_count; s++)
        recall_place(run, s);
    for (int i = 0; i < run->count; i++) {
        spc__entry *entry = &run->entries[i];
        settle(run, entry);
        run->report->known += entry->known;
    }
}

/* ---- recording ----------------------------------------------------------- */

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

/* What a candidate came to in the place that scene `s` leads. */
static void sum_up(spc__trial *trial, const spc__run *run,
                   const spc__entry *entry, int s)
{
    *trial = entry->trial;
    set_timing(trial, run, entry, s);
}

static spc_status put_trial(spc__run *run, spc__entry *entry, spc_error *error)
{
    spc__trial *trial = malloc(sizeof(*trial));
    spc_status status = SPC_OK;

    if (trial == NULL)
        return spc__fail_memory(error, sizeof(*trial));
    for (int s = 0; s < run->scene_count && status == SPC_OK; s++) {
        if (!leads(run, s))
            continue;
        sum_up(trial, run, entry, s);
        status = spc__cache_put_trial(run->ctx->cache, &run->places[s].key,
                                      trial, &run->provenance, error);
    }
    free(trial);
    entry->trial_pending = status != SPC_OK;
    return status;
}

static spc_status put_code(spc__run *run, spc__entry *entry, spc_error *error)
{
    const char *target = run->options.target != NULL ? run->options.target
                                                     : run->ctx->info.target;
    spc_status status = spc__cache_put_artefact(
        run->ctx->cache, entry->trial.artefact, target,
        run->provenance.compiler, &entry->trial.launch, &entry->trial.resources,
        entry->code, entry->code_bytes, error);

    entry->code_pending = status != SPC_OK;
    return status;
}

/* Writes now if that is worth trying. */
static void try_to(spc__run *run, spc__entry *entry,
                   spc_status (*put)(spc__run *run, spc__entry *entry,
                                     spc_error *error))
{
    spc_error error;

    if (!answers(run))
        return;
    if (put(run, entry, &error) == SPC_OK)
        run->trouble.status = SPC_OK;
    else
        trouble(run, &error);
}

void spc__run_record(spc__run *run, spc__entry *entry)
{
    entry->trial_pending = spc__run_keeps(run);
    try_to(run, entry, put_trial);
}

void spc__run_record_code(spc__run *run, spc__entry *entry)
{
    /* To verify is not about storing: it would only keep code in memory. */
    entry->code_pending =
        spc__run_keeps(run) && run->options.stage != SPC_STAGE_VERIFY;
    try_to(run, entry, put_code);
}

/* ---- at the end ---------------------------------------------------------- */

/* A database that may only be read may hold this very choice already. */
static bool has_choice(const spc__run *run, int s, const spc__trial *trial)
{
    spc__choice *found = malloc(sizeof(*found));
    spc_error error;
    int count = 0;
    bool same = false;

    if (found != NULL && run->ctx->cache != NULL &&
        spc__cache_find_choices(run->ctx->cache, &run->places[s].key, found, 1,
                                &count, &error) == SPC_OK &&
        count == 1 && found->match == SPC__MATCH_EXACT)
        same = strcmp(found->trial.template_name, trial->template_name) == 0 &&
               strcmp(found->trial.template_hash, trial->template_hash) == 0 &&
               spc__attrs_equal(&found->trial.config, &trial->config);
    free(found);
    return same;
}

static spc_status put_choice(const spc__run *run, spc_error *error)
{
    spc_ctx *ctx = run->ctx;
    spc__trial *trial = malloc(sizeof(*trial));
    spc_status status = SPC_OK;

    if (trial == NULL)
        return spc__fail_memory(error, sizeof(*trial));
    for (int s = 0; s < run->scene_count && status == SPC_OK; s++) {
        if (!leads(run, s))
            continue;
        sum_up(trial, run, run->winner, s);
        if (ctx->stores)
            status = spc__cache_put_choice(ctx->cache, &run->places[s].key,
                                           trial, run->winner_reason,
                                           &run->provenance, error);
        else
            status = spc__fail(error, ctx->no_store.status, "%s",
                               ctx->no_store.text);
        if (status != SPC_OK && has_choice(run, s, trial))
            status = SPC_OK;
    }
    free(trial);
    return status;
}

/* Until one does not go: then the others would not either. */
static spc_status put_owed(spc__run *run, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < run->count && status == SPC_OK; i++) {
        spc__entry *entry = &run->entries[i];
        if (!run->ctx->stores && (entry->code_pending || entry->trial_pending))
            return spc__fail(error, run->ctx->no_store.status, "%s",
                             run->ctx->no_store.text);
        if (entry->code_pending)
            status = put_code(run, entry, error);
        if (entry->trial_pending && status == SPC_OK)
            status = put_trial(run, entry, error);
    }
    return status;
}

static void add_count(spc__buf *out, int count, const char *what)
{
    if (count > 0)
        spc__buf_printf(out, "%s%d %s%s", out->length > 0 ? " and " : "", count,
                        what, count == 1 ? "" : "s");
}

/* "the choice and 12 measurements" */
static void list_lost(spc__buf *out, const spc__run *run, bool is_choice_lost)
{
    int trials = 0, codes = 0;

    for (int i = 0; i < run->count; i++) {
        trials += run->entries[i].trial_pending;
        codes += run->entries[i].code_pending;
    }
    if (is_choice_lost)
        spc__buf_puts(out, "the choice");
    add_count(out, trials, "measurement");
    if (trials == 0) /* whose code it mostly is */
        add_count(out, codes, "compiled candidate");
}

spc_status spc__run_store(spc__run *run, spc_error *lost)
{
    bool choose = run->winner != NULL && spc__run_keeps(run);
    spc__buf what = SPC__BUF_INIT;
    spc_error error;
    spc_status status = put_owed(run, &error);

    if (status == SPC_OK && choose)
        status = put_choice(run, &error);
    if (status == SPC_OK)
        return SPC_OK;
    list_lost(&what, run, choose);
    spc__fail(lost, status, "%s could not be stored: %s", spc__buf_text(&what),
              error.text);
    spc__buf_release(&what);
    return status;
}
