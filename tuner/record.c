/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.c - reads from the database what a run can reuse, and stores its
 * results.
 */
#include "tuner/record.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/plural.h"
#include "context/problem_key.h"
#include "context/related.h"
#include "tuner/work_lease.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * A locked database takes seconds to fail, so after a failure it is not tried
 * for this long.
 */
static const uint64_t rest_ns = 30 * 1000000000ull;

/*
 * A failure of the database loses no measurement: unwritten results stay
 * pending and are written at the end.
 */
static void note_trouble(spc__record *record, const spc_error *error)
{
    if (!record->has_warned)
        spc__log_printf(&record->ctx->log, SPC_LOG_WARNING,
                        "the run goes on, but nothing is stored for now: %s",
                        error->text);
    record->has_warned = true;
    record->trouble = *error;
    record->trouble_ns = spc__now_ns();
}

bool spc__record_keeps(const spc__record *record)
{
    return record->ctx->stores || record->ctx->no_store.status != SPC_OK;
}

/* True if a write should be tried. */
static bool answers(const spc__record *record)
{
    return record->ctx->stores &&
           (record->trouble.status == SPC_OK ||
            spc__now_ns() - record->trouble_ns >= rest_ns);
}

/* ---- keys ---------------------------------------------------------------- */

/*
 * True if `s` is the first scene of its buckets; later scenes of the same
 * buckets share its records.
 */
static bool leads(const spc__record *record, int s)
{
    for (int i = 0; i < s; i++)
        if (spc__same_buckets(&record->keys[i], &record->keys[s]))
            return false;
    return true;
}

void spc__record_init(spc__record *out, const spc__request *request)
{
    memset(out, 0, sizeof(*out));
    out->ctx = request->ctx;
    out->target = request->target;
    /* The stage `verify` stores no code, which would only stay in memory. */
    out->keeps_code = request->options.stage != SPC_STAGE_VERIFY;
    spc__ctx_provenance(&out->provenance, request->ctx);
    out->provenance.seed = request->options.seed;
}

/* Scenes are named without their folder, which differs between machines. */
static const char *without_folder(const char *name)
{
    const char *slash = strncmp(name, "gen:", 4) ? strrchr(name, '/') : NULL;

    return slash != NULL ? slash + 1 : name;
}

static void note_scene(spc__provenance *provenance, const char *name)
{
    size_t used = strlen(provenance->scenes);

    snprintf(provenance->scenes + used, sizeof(provenance->scenes) - used,
             "%s%s", used > 0 ? " " : "", without_folder(name));
}

void spc__record_add_scene(spc__record *record, const spc_conv *conv,
                           const spc_relation *relation, const char *name)
{
    double entries = (double)relation->rows_out * relation->offsets;

    spc__problem_key_init(&record->keys[record->scene_count++], record->ctx,
                          conv, relation->rows_in, relation->rows_out,
                          entries > 0 ? (double)relation->pairs / entries : 0);
    note_scene(&record->provenance, name);
}

void spc__record_note_compiler(spc__record *record, const char *identity)
{
    snprintf(record->provenance.compiler, sizeof(record->provenance.compiler),
             "%s", identity);
}

/* ---- recalling ----------------------------------------------------------- */

spc__entry *spc__record_alike(const spc__candidates *candidates,
                              const spc__trial *trial)
{
    spc__buf config = SPC__BUF_INIT;

    spc__attrs_format(&config, &trial->config);
    spc__entry *entry = spc__candidates_find(candidates, trial->template_name,
                                             spc__buf_text(&config));
    spc__buf_release(&config);
    return entry;
}

spc__entry *spc__record_entry_of(const spc__candidates *candidates,
                                 const spc__trial *trial)
{
    spc__entry *entry = spc__record_alike(candidates, trial);

    if (entry != NULL &&
        strcmp(entry->trial.template_hash, trial->template_hash) != 0)
        entry = NULL; /* rows of an older template are only hints */
    return entry;
}

/* Merges one trial of scene s's key into its candidate. */
static void take_over(spc__entry *entry, const spc__trial *trial, int s)
{
    spc__timing *timing = &entry->timings[s];

    if (entry->state == SPC__FAILED)
        return;
    entry->known = true;
    /* The failure of any scene is the candidate's; otherwise the first scene's
     * trial gives what all have in common. */
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

/*
 * A candidate is known only if it was timed on every scene, or failed on one.
 */
static void settle(spc__entry *entry, int scenes)
{
    if (!entry->known || entry->state == SPC__FAILED)
        return;
    for (int s = 0; s < scenes; s++)
        if (entry->timings[s].count == 0)
            entry->known = false;
    if (entry->known)
        entry->state = SPC__TIMED;
    else
        /* Times of some scenes only would mix measurements of different
         * moments. */
        memset(entry->timings, 0, sizeof(entry->timings));
}

/*
 * True for a failure that need not be tried again. A compiler that failed
 * without naming a line of the template may have been short of disk or memory,
 * or killed; older versions noted a process that was short of memory as a
 * fault. A timeout is lasting after a second run has repeated it. Older
 * versions treated a time below the floor as a wrong result.
 */
static bool is_lasting(const spc__trial *trial)
{
    switch (trial->status) {
    case SPC__TRIAL_COMPILE:
        return strstr(trial->note, ".lua:") != NULL;
    case SPC__TRIAL_FAULT:
    case SPC__TRIAL_LAUNCH:
        return strstr(trial->note, "out of memory") == NULL &&
               strstr(trial->note, "OUT_OF_MEMORY") == NULL &&
               strstr(trial->note, "signal 9 ") == NULL;
    case SPC__TRIAL_TIMEOUT:
        return strstr(trial->note, SPC__LATE_AGAIN) != NULL;
    case SPC__TRIAL_WRONG:
        return strncmp(trial->note, "skips:", 6) != 0 &&
               strncmp(trial->note, "below the floor:", 16) != 0;
    default:
        return true;
    }
}

/*
 * Unreadable records are measured again. A read failure does not predict a
 * write failure.
 */
static void recall_key(const spc__record *record,
                       const spc__candidates *candidates, int s)
{
    spc__trial *trials = NULL;
    spc_error error;
    int count = 0;

    if (spc__cache_find_trials(record->ctx->cache, &record->keys[s], &trials,
                               &count, &error) != SPC_OK &&
        leads(record, s))
        spc__log_printf(&record->ctx->log, SPC_LOG_WARNING,
                        "not everything that is known can be used: %s",
                        error.text);
    for (int i = 0; i < count; i++) {
        spc__entry *entry = spc__record_entry_of(candidates, &trials[i]);
        if (entry != NULL && is_lasting(&trials[i]))
            take_over(entry, &trials[i], s);
        else if (entry != NULL && trials[i].status == SPC__TRIAL_TIMEOUT)
            entry->was_late = true;
    }
    free(trials);
}

int spc__record_recall(const spc__record *record,
                       const spc__candidates *candidates)
{
    int known = 0;

    if (record->ctx->cache == NULL)
        return 0;
    for (int s = 0; s < record->scene_count; s++)
        recall_key(record, candidates, s);
    for (int i = 0; i < candidates->count; i++) {
        settle(&candidates->entries[i], record->scene_count);
        known += candidates->entries[i].known;
    }
    return known;
}

/* ---- earlier choices ----------------------------------------------------- */

/* The choice that a scene would be served with. */
typedef struct served {
    spc__entry *entry; /* NULL: no entry in the database */
    /* True if the choice is of exactly this problem, of an unfinished search,
     * of a network. */
    bool exact, is_cut, in_network;
} served;

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/*
 * A choice that was made with an older version of its template, or on another
 * device, is only a starting point, not an exact hit.
 */
static served serving(const spc__record *record,
                      const spc__candidates *candidates, int s)
{
    enum { MOST = 4 }; /* farther choices are no better than a default */
    spc__choice *found = calloc(MOST, sizeof(*found));
    served out = {0};
    spc_error error;
    int count = 0;

    /* Unreadable choices are ignored. */
    if (found != NULL && record->ctx->cache != NULL)
        spc__ctx_find_choices(record->ctx, &record->keys[s], found, MOST,
                              &count, &error);
    for (int i = 0; i < count && out.entry == NULL; i++) {
        out.entry = spc__record_alike(candidates, &found[i].trial);
        out.exact =
            out.entry != NULL && found[i].match == SPC__MATCH_EXACT &&
            strcmp(found[i].key.device, record->keys[s].device) == 0 &&
            out.entry == spc__record_entry_of(candidates, &found[i].trial);
        out.is_cut = ends_with(found[i].reason, SPC__CUT_SHORT);
        out.in_network = strncmp(found[i].reason, SPC__IN_NETWORK,
                                 strlen(SPC__IN_NETWORK)) == 0;
    }
    free(found);
    return out;
}

void spc__record_find_serving(const spc__record *record,
                              const spc__candidates *candidates)
{
    for (int s = 0; s < record->scene_count; s++) {
        spc__entry *entry = serving(record, candidates, s).entry;
        if (entry != NULL)
            entry->serves = true;
    }
}

/* The timed candidate that is the exact choice on every scene, or NULL. */
static served chosen_before(const spc__record *record,
                            const spc__candidates *candidates)
{
    served kept = {.in_network = true};

    for (int s = 0; s < record->scene_count; s++) {
        served one = serving(record, candidates, s);
        if (!one.exact || one.entry->state != SPC__TIMED ||
            (kept.entry != NULL && one.entry != kept.entry))
            return (served){0};
        kept.entry = one.entry;
        kept.is_cut |= one.is_cut;
        kept.in_network &= one.in_network;
    }
    return kept;
}

void spc__record_mark_network(const spc__record *record,
                              const spc__candidates *candidates)
{
    served kept = chosen_before(record, candidates);

    if (kept.entry != NULL)
        kept.entry->in_network = kept.in_network;
}

spc__entry *spc__record_chosen(const spc__record *record,
                               const spc__candidates *candidates)
{
    served kept = chosen_before(record, candidates);

    return kept.is_cut ? NULL : kept.entry;
}

/* True if another candidate is faster by more than SPC__NEAR_BEST, so that even
 * a new comparison would not save the choice. */
static bool is_far_behind(const spc__entry *entry,
                          const spc__candidates *candidates, int scenes)
{
    double limit = spc__entry_score(entry, scenes) / SPC__NEAR_BEST;

    for (int i = 0; i < candidates->count; i++)
        if (candidates->entries[i].state == SPC__TIMED &&
            spc__entry_score(&candidates->entries[i], scenes) < limit)
            return true;
    return false;
}

void spc__record_keep_choice(const spc__record *record,
                             const spc__candidates *candidates)
{
    spc__entry *kept = chosen_before(record, candidates).entry;

    if (kept != NULL && !is_far_behind(kept, candidates, record->scene_count))
        kept->side_us = spc__entry_score(kept, record->scene_count);
}

/* ---- recording ----------------------------------------------------------- */

/* Merges the figures of all scenes that share the key of scene `s`. */
static void set_timing(spc__trial *trial, const spc__record *record,
                       const spc__entry *entry, int s)
{
    double logs = 0, cold = 0, relative = 0;
    int scenes = 0, samples = 0;

    for (int i = s; i < record->scene_count; i++) {
        const spc__timing *timing = &entry->timings[i];
        if (!spc__same_buckets(&record->keys[s], &record->keys[i]) ||
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

/* Summarises a candidate on the scenes that share the key of scene `s`. */
static void sum_up(spc__trial *trial, const spc__record *record,
                   const spc__entry *entry, int s)
{
    *trial = entry->trial;
    set_timing(trial, record, entry, s);
}

/* Stores a trial once for each bucket of scenes. A failure leaves it
 * pending. */
static spc_status put_trial(const spc__record *record, spc__entry *entry,
                            spc_error *error)
{
    spc__trial *trial = malloc(sizeof(*trial));
    spc_status status = SPC_OK;

    if (trial == NULL)
        return spc__fail_memory(error, sizeof(*trial));
    for (int s = 0; s < record->scene_count && status == SPC_OK; s++) {
        if (!leads(record, s))
            continue;
        sum_up(trial, record, entry, s);
        status = spc__cache_put_trial(record->ctx->cache, &record->keys[s],
                                      trial, &record->provenance, error);
    }
    free(trial);
    entry->trial_pending = status != SPC_OK;
    return status;
}

/* Stores code by the hash of its source, and by its configuration, by which a
 * plan without a compiler finds it. */
static spc_status put_code(const spc__record *record, spc__entry *entry,
                           spc_error *error)
{
    spc__buf identity = SPC__BUF_INIT;

    spc__code_identity(&identity, entry->trial.template_name, &record->problem,
                       &entry->candidate->config);
    spc_status status = spc__cache_put_artefact(
        record->ctx->cache, entry->trial.artefact, record->target,
        record->provenance.compiler, spc__buf_text(&identity),
        &entry->trial.launch, &entry->trial.resources, entry->code,
        entry->code_bytes, error);
    spc__buf_release(&identity);
    entry->code_pending = status != SPC_OK;
    return status;
}

/* Writes now if a write should be tried. */
static void try_to(spc__record *record, spc__entry *entry,
                   spc_status (*put)(const spc__record *record,
                                     spc__entry *entry, spc_error *error))
{
    spc_error error;

    if (!answers(record))
        return;
    if (put(record, entry, &error) == SPC_OK)
        /* The database responds again, so the next write need not wait. */
        record->trouble.status = SPC_OK;
    else
        note_trouble(record, &error);
}

void spc__record_entry(spc__record *record, spc__entry *entry)
{
    if (entry->code_pending)
        try_to(record, entry, put_code);
    /* Without a database nothing may stay pending, or the end would report a
     * loss. */
    entry->code_pending &= spc__record_keeps(record) && record->keeps_code;
    if (entry->trial_pending)
        try_to(record, entry, put_trial);
    entry->trial_pending &= spc__record_keeps(record);
    /* Here, as this is called steadily while a run works: see work_lease.c. */
    if (record->lease != NULL)
        spc__work_lease_renew(record->lease);
}

void spc__record_list(spc__record *record, spc__entry *const *list, int count)
{
    for (int i = 0; i < count; i++)
        spc__record_entry(record, list[i]);
}

/* ---- at the end ---------------------------------------------------------- */

/* A read-only database may already have exactly this choice. */
static bool has_choice(const spc__record *record, int s,
                       const spc__trial *trial)
{
    spc__choice *found = malloc(sizeof(*found));
    spc_error error;
    int count = 0;
    bool same = false;

    if (found != NULL && record->ctx->cache != NULL &&
        spc__cache_find_choices(record->ctx->cache, &record->keys[s], found, 1,
                                &count, &error) == SPC_OK &&
        count == 1 && found->match == SPC__MATCH_EXACT)
        same = strcmp(found->trial.template_name, trial->template_name) == 0 &&
               strcmp(found->trial.template_hash, trial->template_hash) == 0 &&
               spc__attrs_equal(&found->trial.config, &trial->config);
    free(found);
    return same;
}

/* Stores the winner for each bucket of scenes. In a database that cannot be
 * written this succeeds only if it already holds that choice. */
static spc_status put_choice(const spc__record *record,
                             const spc__winner *winner, spc_error *error)
{
    const spc_ctx *ctx = record->ctx;
    spc__trial *trial = malloc(sizeof(*trial));
    spc_status status = SPC_OK;

    if (trial == NULL)
        return spc__fail_memory(error, sizeof(*trial));
    for (int s = 0; s < record->scene_count && status == SPC_OK; s++) {
        if (!leads(record, s))
            continue;
        sum_up(trial, record, winner->entry, s);
        if (ctx->stores)
            status = spc__cache_put_choice(ctx->cache, &record->keys[s], trial,
                                           winner->reason, &record->provenance,
                                           error);
        else
            status = spc__fail(error, ctx->no_store.status, "%s",
                               ctx->no_store.text);
        if (status != SPC_OK && has_choice(record, s, trial))
            status = SPC_OK;
    }
    if (status == SPC_OK)
        spc__ctx_note_facts(record->ctx);
    free(trial);
    return status;
}

/* Stops at the first failure, as later writes would fail as well. */
static spc_status put_pending(const spc__record *record,
                              const spc__candidates *candidates,
                              spc_error *error)
{
    const spc_ctx *ctx = record->ctx;
    spc_status status = SPC_OK;

    for (int i = 0; i < candidates->count && status == SPC_OK; i++) {
        spc__entry *entry = &candidates->entries[i];
        if (!ctx->stores && (entry->code_pending || entry->trial_pending))
            return spc__fail(error, ctx->no_store.status, "%s",
                             ctx->no_store.text);
        if (entry->code_pending)
            status = put_code(record, entry, error);
        if (entry->trial_pending && status == SPC_OK)
            status = put_trial(record, entry, error);
    }
    return status;
}

static void add_count(spc__buf *out, int count, const char *what)
{
    if (count > 0)
        spc__buf_printf(out, "%s%s", out->length > 0 ? " and " : "",
                        spc__count(count, what));
}

/* "the choice and 12 measurements" */
static void list_lost(spc__buf *out, const spc__candidates *candidates,
                      bool is_choice_lost)
{
    int trials = 0, codes = 0;

    for (int i = 0; i < candidates->count; i++) {
        trials += candidates->entries[i].trial_pending;
        codes += candidates->entries[i].code_pending;
    }
    if (is_choice_lost)
        spc__buf_puts(out, "the choice");
    add_count(out, trials, "measurement");
    if (trials == 0) /* usually only code is pending */
        add_count(out, codes, "compiled candidate");
}

/* A choice needs its trial in the same file. */
static spc_status put_winner(const spc__record *record,
                             const spc__winner *winner, spc_error *error)
{
    spc__entry *copy = malloc(sizeof(*copy));
    spc_status status = SPC_OK;

    if (copy == NULL)
        return spc__fail_memory(error, sizeof(*copy));
    if (winner->entry != NULL) {
        *copy = *winner->entry;
        status = put_trial(record, copy, error);
    }
    free(copy);
    return status;
}

/* Writes everything that is pending, and the choice. */
static spc_status put_rest(const spc__record *record,
                           const spc__candidates *candidates,
                           const spc__winner *winner, spc_error *error)
{
    spc_status status = put_pending(record, candidates, error);

    if (status == SPC_OK && winner->entry != NULL)
        status = put_choice(record, winner, error);
    return status;
}

/* On a full disk the substitute file may have a name and no content. */
static void remove_empty(const char *name)
{
    struct stat facts;

    if (stat(name, &facts) == 0 && facts.st_size == 0)
        unlink(name);
}

/*
 * If a database is locked, the measurements of a long run go to a file next to
 * it.
 */
static spc_status keep_beside(spc__buf *name, const spc__record *record,
                              const spc__candidates *candidates,
                              const spc__winner *winner)
{
    spc_ctx *ctx = record->ctx;
    spc__cache *own = ctx->cache, *beside = NULL;
    spc_error error;

    if (!ctx->stores || spc__cache_user_file(own) == NULL)
        return SPC_EDB;
    /* The process number keeps two runs from sharing a substitute. */
    spc__buf_printf(name, "%s.kept-%ld", spc__cache_user_file(own),
                    (long)getpid());
    if (name->failed)
        return SPC_EDB;
    spc_status status = spc__cache_open(&beside, name->data, NULL, 0, &error);
    if (status == SPC_OK) {
        ctx->cache = beside;
        status = put_winner(record, winner, &error);
        if (status == SPC_OK)
            status = put_rest(record, candidates, winner, &error);
        ctx->cache = own;
        spc__cache_close(beside);
    }
    if (status != SPC_OK)
        remove_empty(name->data);
    return status;
}

/* Reports results that are lost, or stored elsewhere. */
static void report_lost(spc_error *lost, const spc__record *record,
                        const spc__candidates *candidates,
                        const spc__winner *winner, const spc_error *why)
{
    spc__buf what = SPC__BUF_INIT, name = SPC__BUF_INIT;

    list_lost(&what, candidates, winner->entry != NULL);
    bool kept = keep_beside(&name, record, candidates, winner) == SPC_OK;
    spc__fail(lost, why->status, "%s could not be stored: %s%s%s%s",
              spc__buf_text(&what), why->text, kept ? "; kept in '" : "",
              kept ? spc__buf_text(&name) : "",
              kept ? "', which --layer-db reads" : "");
    spc__buf_release(&what);
    spc__buf_release(&name);
}

spc_status spc__record_finish(const spc__record *record,
                              const spc__candidates *candidates,
                              const spc__winner *winner, spc_error *lost)
{
    spc_error error;

    if (!spc__record_keeps(record))
        return SPC_OK;
    spc_status status = put_rest(record, candidates, winner, &error);
    if (status != SPC_OK)
        report_lost(lost, record, candidates, winner, &error);
    return status;
}
