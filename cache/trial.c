/*
 * trial.c - trials and the choice among them: writing, and listing all trials
 * of one problem.
 */
#include "cache_internal.h"

#include "error.h"
#include <stdlib.h>
#include <string.h>

static spc_status insert_trial(spc__layer *layer, const spc__cache *cache,
                               const spc__problem_key *key,
                               const spc__trial *trial, int64_t problem,
                               int64_t provenance, int64_t unix_seconds,
                               spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_PUT_TRIAL, error);
    if (status != SPC_OK)
        return status;

    sqlite3_bind_int64(stmt, 1, problem);
    spc__bind_text(stmt, 2, trial->template_name);
    spc__bind_text(stmt, 3, trial->template_hash);
    spc__bind_text(stmt, 4, spc__buf_text(&cache->config_text));
    spc__bind_text(stmt, 5, spc__buf_text(&cache->launch_text));
    spc__bind_text(stmt, 6, spc__buf_text(&cache->resources_text));
    spc__bind_text(stmt, 7, trial->artefact);
    spc__bind_text(stmt, 8, spc__trial_status_name(trial->status));
    spc__bind_text(stmt, 9, trial->note);
    spc__bind_real(stmt, 10, trial->median_us);
    spc__bind_real(stmt, 11, trial->spread_us);
    spc__bind_real(stmt, 12, trial->cold_us);
    sqlite3_bind_int(stmt, 13, trial->samples);
    spc__bind_real(stmt, 14, trial->error);
    sqlite3_bind_int(stmt, 15, trial->verified);
    spc__bind_real(stmt, 16, trial->compile_ms);
    spc__bind_real(stmt, 17, key->log2_rows);
    spc__bind_real(stmt, 18, key->density);
    sqlite3_bind_int64(stmt, 19, provenance);
    sqlite3_bind_int64(stmt, 20, unix_seconds);
    return spc__layer_run(layer, stmt, error);
}

spc_status spc__cache_put_trial(spc__cache *cache, const spc__problem_key *key,
                                const spc__trial *trial,
                                const spc__provenance *provenance,
                                spc_error *error)
{
    spc__layer *layer;
    int64_t problem, from;
    spc_status status;

    if ((status = spc__cache_writer(&layer, cache, error)) != SPC_OK ||
        (status = spc__cache_key_text(cache, key, error)) != SPC_OK ||
        (status = spc__cache_trial_text(cache, trial, error)) != SPC_OK ||
        (status = spc__layer_begin(layer, error)) != SPC_OK)
        return status;

    status = spc__problem_claim(&problem, layer, cache, key, error);
    if (status != SPC_OK)
        goto done;
    status = spc__provenance_claim(&from, layer, provenance, error);
    if (status != SPC_OK)
        goto done;
    status = insert_trial(layer, cache, key, trial, problem, from,
                          provenance->unix_seconds, error);
done:
    return spc__layer_end(layer, status, error);
}

/* The chosen trial must be there, and must have run. */
static spc_status find_winner(int64_t *id, spc__layer *layer,
                              const spc__cache *cache, int64_t problem,
                              const spc__trial *trial, spc_error *error)
{
    const char *config = spc__buf_text(&cache->config_text);
    spc__trial_status found = SPC__TRIAL_OK;
    spc_status status =
        spc__trial_find(id, &found, layer, problem, trial->template_name,
                        trial->template_hash, config, error);

    if (status != SPC_OK)
        return status;
    if (*id == 0)
        return spc__fail(error, SPC_ENOTFOUND,
                         "cannot choose '%s' with %s: it has no trial for this "
                         "problem in '%s'; put the trial first",
                         trial->template_name, config, layer->path);
    if (found != SPC__TRIAL_OK)
        return spc__fail(error, SPC_EINVAL,
                         "cannot choose '%s' with %s: its trial ended in "
                         "'%s', not 'ok'",
                         trial->template_name, config,
                         spc__trial_status_name(found));
    return SPC_OK;
}

static spc_status insert_choice(spc__layer *layer, int64_t problem,
                                int64_t winner, const char *reason,
                                int64_t provenance, int64_t unix_seconds,
                                spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_PUT_CHOICE, error);
    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, problem);
    sqlite3_bind_int64(stmt, 2, winner);
    spc__bind_text(stmt, 3, reason != NULL ? reason : "");
    sqlite3_bind_int64(stmt, 4, provenance);
    sqlite3_bind_int64(stmt, 5, unix_seconds);
    return spc__layer_run(layer, stmt, error);
}

spc_status spc__cache_put_choice(spc__cache *cache, const spc__problem_key *key,
                                 const spc__trial *trial, const char *reason,
                                 const spc__provenance *provenance,
                                 spc_error *error)
{
    spc__layer *layer;
    int64_t problem, winner, from;
    spc_status status;

    if ((status = spc__cache_writer(&layer, cache, error)) != SPC_OK ||
        (status = spc__cache_key_text(cache, key, error)) != SPC_OK ||
        (status = spc__cache_trial_text(cache, trial, error)) != SPC_OK ||
        (status = spc__layer_begin(layer, error)) != SPC_OK)
        return status;

    status = spc__problem_find(&problem, layer, cache, key, error);
    if (status != SPC_OK)
        goto done;
    status = find_winner(&winner, layer, cache, problem, trial, error);
    if (status != SPC_OK)
        goto done;
    status = spc__provenance_claim(&from, layer, provenance, error);
    if (status != SPC_OK)
        goto done;
    status = insert_choice(layer, problem, winner, reason, from,
                           provenance->unix_seconds, error);
done:
    return spc__layer_end(layer, status, error);
}

/* A growing array of trials; `problems` has the row of the problem in each
 * layer already read. */
typedef struct gathering {
    spc__trial *trials;
    int count;
    int capacity;
    int64_t *problems;
} gathering;

static spc_status reserve_one(gathering *all, spc_error *error)
{
    if (all->count < all->capacity)
        return SPC_OK;
    int capacity = all->capacity ? all->capacity * 2 : 16;
    size_t bytes = (size_t)capacity * sizeof(*all->trials);
    spc__trial *trials = realloc(all->trials, bytes);
    if (trials == NULL)
        return spc__fail_memory(error, bytes);
    all->trials = trials;
    all->capacity = capacity;
    return SPC_OK;
}

/* Has one of the first `upper` layers the candidate in `stmt`'s row? */
static spc_status is_hidden(bool *hidden, spc__cache *cache,
                            const gathering *all, int upper, sqlite3_stmt *stmt,
                            spc_error *error)
{
    *hidden = false;
    for (int i = 0; i < upper && !*hidden; i++) {
        int64_t id = 0;
        spc__trial_status ignored;
        if (all->problems[i] == 0)
            continue;
        spc_status status =
            spc__trial_find(&id, &ignored, &cache->layers[i], all->problems[i],
                            (const char *)sqlite3_column_text(stmt, 0),
                            (const char *)sqlite3_column_text(stmt, 1),
                            (const char *)sqlite3_column_text(stmt, 2), error);
        if (status != SPC_OK)
            return status;
        *hidden = id != 0;
    }
    return SPC_OK;
}

static spc_status gather_row(gathering *all, spc__cache *cache, int at,
                             sqlite3_stmt *stmt, spc_error *error)
{
    bool hidden;
    spc_status status = is_hidden(&hidden, cache, all, at, stmt, error);

    if (status != SPC_OK || hidden)
        return status;
    if ((status = reserve_one(all, error)) != SPC_OK)
        return status;
    spc__trial *next = &all->trials[all->count];
    memset(next, 0, sizeof(*next));
    status = spc__read_trial(next, &cache->layers[at], stmt, 0, error);
    all->count += status == SPC_OK;
    return status;
}

static spc_status gather_layer(gathering *all, spc__cache *cache, int at,
                               const spc__problem_key *key, spc_error *error)
{
    spc__layer *layer = &cache->layers[at];
    sqlite3_stmt *stmt;
    spc_status status;
    bool row = true;

    status = spc__problem_find(&all->problems[at], layer, cache, key, error);
    if (status != SPC_OK || all->problems[at] == 0)
        return status;
    status = spc__layer_statement(&stmt, layer, SPC__SQL_ALL_TRIALS, error);
    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, all->problems[at]);
    while (status == SPC_OK && row) {
        status = spc__layer_step(&row, layer, stmt, "read", error);
        if (status == SPC_OK && row)
            status = gather_row(all, cache, at, stmt, error);
    }
    spc__sql_done(stmt);
    return status;
}

spc_status spc__cache_find_trials(spc__cache *cache,
                                  const spc__problem_key *key, spc__trial **out,
                                  int *count, spc_error *error)
{
    gathering all = {0};
    spc_status status;

    *out = NULL;
    *count = 0;
    if ((status = spc__cache_key_text(cache, key, error)) != SPC_OK)
        goto done;
    all.problems = calloc((size_t)cache->count + 1, sizeof(*all.problems));
    if (all.problems == NULL) {
        status = spc__fail_memory(error, sizeof(*all.problems));
        goto done;
    }
    for (int i = 0; i < cache->count && status == SPC_OK; i++)
        status = gather_layer(&all, cache, i, key, error);
    if (status != SPC_OK)
        goto done;
    *out = all.trials; /* ownership moves to the caller */
    *count = all.count;
    all.trials = NULL;
done:
    free(all.problems);
    free(all.trials);
    return status;
}
