/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trial.c - writes trials and the choice among them, and lists all trials of
 * one problem.
 */
#include "cache/cache_internal.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* Binds the candidate of a problem as ?1 to ?4, from the scratch texts. */
static void bind_candidate(sqlite3_stmt *stmt, const spc__cache *cache,
                           int64_t problem, const spc__trial *trial)
{
    sqlite3_bind_int64(stmt, 1, problem);
    spc__bind_text(stmt, 2, trial->template_name);
    spc__bind_text(stmt, 3, trial->template_hash);
    spc__bind_text(stmt, 4, spc__buf_text(&cache->config_text));
}

/* Writes the row of a trial. The texts of its attributes are in the scratch
 * buffers. */
static spc_status insert_trial(spc__layer *layer, const spc__cache *cache,
                               const spc__trial *trial, int64_t problem,
                               int64_t provenance, int64_t unix_seconds,
                               spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_PUT_TRIAL, error);
    if (status != SPC_OK)
        return status;

    bind_candidate(stmt, cache, problem, trial);
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
    spc__bind_text(stmt, 17, spc__buf_text(&cache->features_text));
    sqlite3_bind_int64(stmt, 18, provenance);
    sqlite3_bind_int64(stmt, 19, unix_seconds);
    return spc__layer_run(layer, stmt, error);
}

/* Runs a statement on the trial of a candidate. */
static spc_status run_for_candidate(spc__sql sql, spc__layer *layer,
                                    const spc__cache *cache, int64_t problem,
                                    const spc__trial *trial, spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status = spc__layer_statement(&stmt, layer, sql, error);

    if (status != SPC_OK)
        return status;
    bind_candidate(stmt, cache, problem, trial);
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
        (status = spc__cache_features_text(cache, key, error)) != SPC_OK ||
        (status = spc__cache_trial_text(cache, trial, error)) != SPC_OK ||
        (status = spc__layer_begin(layer, error)) != SPC_OK)
        return status;

    /* All statements run within one transaction: record and seal change
     * together, or a crash in between would make a good record look damaged. */
    status = spc__problem_claim(&problem, layer, cache, key, error);
    if (status != SPC_OK)
        goto done;
    status = spc__provenance_claim(&from, layer, provenance, error);
    if (status != SPC_OK)
        goto done;
    status = insert_trial(layer, cache, trial, problem, from,
                          provenance->unix_seconds, error);
    if (status == SPC_OK)
        status = run_for_candidate(SPC__SQL_SEAL_TRIAL, layer, cache, problem,
                                   trial, error);
    if (status == SPC_OK) /* a rewritten record is usable again */
        status = run_for_candidate(SPC__SQL_FREE_TRIAL, layer, cache, problem,
                                   trial, error);
    if (status == SPC_OK) /* the trial may be the chosen one */
        status = spc__layer_run_on(layer, SPC__SQL_SEAL_CHOICE, problem, error);
done:
    return spc__layer_end(layer, status, error);
}

/* Writes the name and the resources of the code into the row of the trial. */
static spc_status update_code(spc__layer *layer, const spc__cache *cache,
                              int64_t problem, const spc__trial *trial,
                              spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_NAME_CODE, error);

    if (status != SPC_OK)
        return status;
    bind_candidate(stmt, cache, problem, trial);
    spc__bind_text(stmt, 5, trial->artefact);
    spc__bind_text(stmt, 6, spc__buf_text(&cache->resources_text));
    return spc__layer_run(layer, stmt, error);
}

spc_status spc__cache_name_code(spc__cache *cache, const spc__cache_row *row,
                                spc_error *error)
{
    const spc__trial *trial = &row->choice;
    spc__layer *layer;
    spc_status status;

    if ((status = spc__cache_writer(&layer, cache, error)) != SPC_OK)
        return status;
    if (strcmp(layer->path, row->file) != 0)
        return SPC_OK; /* a read-only file stores nothing */
    if ((status = spc__cache_trial_text(cache, trial, error)) != SPC_OK ||
        (status = spc__layer_begin(layer, error)) != SPC_OK)
        return status;
    /* Record and seal change together, as in spc__cache_put_trial(). */
    status = update_code(layer, cache, row->problem_id, trial, error);
    if (status == SPC_OK)
        status = run_for_candidate(SPC__SQL_SEAL_TRIAL, layer, cache,
                                   row->problem_id, trial, error);
    if (status == SPC_OK)
        status = spc__layer_run_on(layer, SPC__SQL_SEAL_CHOICE, row->problem_id,
                                   error);
    return spc__layer_end(layer, status, error);
}

/* Finds the chosen trial, which must exist and have status ok. */
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

/* Writes the row of a choice. The statement leaves a pinned one as it is. */
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
    if (status == SPC_OK)
        status = spc__layer_run_on(layer, SPC__SQL_SEAL_CHOICE, problem, error);
    if (status == SPC_OK)
        status = spc__layer_run_on(layer, SPC__SQL_FREE_CHOICE, problem, error);
done:
    return spc__layer_end(layer, status, error);
}

/* ---- all trials of one problem ------------------------------------------- */

/* A row that could not be read. It does not hide rows of lower layers. */
typedef struct damaged_row {
    int layer;
    int64_t trial;
} damaged_row;

/* A growing array of trials. `problems` has the problem's row in each layer
 * read so far. */
typedef struct gathering {
    spc__trial *trials;
    int count, capacity;
    damaged_row *damaged;
    int damaged_count, damaged_capacity;
    int64_t *problems;
    spc_status status; /* the first failure, which *error reports */
    spc_error *error;
} gathering;

/* Returns where to report a failure: only the first one is reported. */
static spc_error *first_error(const gathering *all)
{
    return all->status == SPC_OK ? all->error : NULL;
}

/* Keeps the first failure, and passes each one on. */
static spc_status note(gathering *all, spc_status status)
{
    if (all->status == SPC_OK)
        all->status = status;
    return status;
}

/* Returns the array with room for one more element. If out of memory, returns
 * NULL and the array is unchanged. */
static void *grow(void *array, int count, int *capacity, size_t element_bytes,
                  spc_error *error)
{
    int more = *capacity > 0 ? *capacity * 2 : 16;

    if (count < *capacity)
        return array;
    void *moved = realloc(array, (size_t)more * element_bytes);
    if (moved != NULL)
        *capacity = more;
    else
        spc__fail_memory(error, (size_t)more * element_bytes);
    return moved;
}

static bool is_damaged(const gathering *all, int layer, int64_t trial)
{
    for (int i = 0; i < all->damaged_count; i++)
        if (all->damaged[i].layer == layer && all->damaged[i].trial == trial)
            return true;
    return false;
}

/* True if one of the first `upper` layers has the candidate in `stmt`'s row. */
static bool is_hidden(spc__cache *cache, const gathering *all, int upper,
                      sqlite3_stmt *stmt)
{
    for (int i = 0; i < upper; i++) {
        int64_t id = 0;
        spc__trial_status ignored;
        if (all->problems[i] == 0)
            continue;
        /* Failures there were reported when that layer was read. */
        spc__trial_find(&id, &ignored, &cache->layers[i], all->problems[i],
                        (const char *)sqlite3_column_text(stmt, 0),
                        (const char *)sqlite3_column_text(stmt, 1),
                        (const char *)sqlite3_column_text(stmt, 2), NULL);
        if (id != 0 && !is_damaged(all, i, id))
            return true;
    }
    return false;
}

/* Skips a damaged row and continues. */
static spc_status leave_out(gathering *all, int layer, int64_t trial)
{
    damaged_row *rows =
        grow(all->damaged, all->damaged_count, &all->damaged_capacity,
             sizeof(*rows), first_error(all));

    if (rows == NULL)
        return note(all, SPC_ENOMEM);
    all->damaged = rows;
    all->damaged[all->damaged_count++] = (damaged_row){layer, trial};
    return SPC_OK;
}

/* Checks the seal before the row is read, because no part of a damaged row is
 * reliable. */
static spc_status read_sealed(spc__trial *out, const spc__layer *layer,
                              sqlite3_stmt *stmt, spc_error *error)
{
    spc_status status =
        spc__seal_check(layer, stmt, SPC__TRIAL_WIDTH + 1, "trial",
                        sqlite3_column_int64(stmt, SPC__TRIAL_WIDTH), error);

    return status == SPC_OK ? spc__read_trial(out, layer, stmt, 0, error)
                            : status;
}

/* Adds the trial in the current row, unless an upper layer has the same
 * candidate. */
static spc_status gather_row(gathering *all, spc__cache *cache, int at,
                             sqlite3_stmt *stmt)
{
    /* The user's file is layer 0, and its trials replace those below. */
    if (is_hidden(cache, all, at, stmt))
        return SPC_OK;
    spc__trial *trials = grow(all->trials, all->count, &all->capacity,
                              sizeof(*trials), first_error(all));
    if (trials == NULL)
        return note(all, SPC_ENOMEM);
    all->trials = trials;
    spc__trial *next = &all->trials[all->count];
    memset(next, 0, sizeof(*next));
    spc_status status = note(
        all, read_sealed(next, &cache->layers[at], stmt, first_error(all)));
    /* A damaged row is overwritten by the next one. */
    all->count += status == SPC_OK;
    if (status == SPC_EDB)
        status =
            leave_out(all, at, sqlite3_column_int64(stmt, SPC__TRIAL_WIDTH));
    return status;
}

/* Adds the problem's trials of one layer. */
static spc_status gather_problem(gathering *all, spc__cache *cache, int at)
{
    spc__layer *layer = &cache->layers[at];
    sqlite3_stmt *stmt;
    bool row = true;
    spc_status status = spc__layer_statement(&stmt, layer, SPC__SQL_ALL_TRIALS,
                                             first_error(all));

    if (status != SPC_OK)
        return note(all, status);
    sqlite3_bind_int64(stmt, 1, all->problems[at]);
    while (status == SPC_OK && row) {
        status = note(
            all, spc__layer_step(&row, layer, stmt, "read", first_error(all)));
        if (status == SPC_OK && row)
            status = gather_row(all, cache, at, stmt);
    }
    spc__sql_done(stmt);
    return status;
}

/* One problem row for each layer; zero means that the layer lacks the
 * problem. */
static spc_status gathering_init(gathering *all, const spc__cache *cache,
                                 spc_error *error)
{
    size_t bytes = ((size_t)cache->count + 1) * sizeof(*all->problems);

    *all = (gathering){.error = error, .problems = calloc(1, bytes)};
    if (all->problems == NULL)
        return note(all, spc__fail_memory(error, bytes));
    return SPC_OK;
}

/* Finishes. The caller owns the trials. */
static spc_status finish(gathering *all, spc__trial **out, int *count)
{
    /* The caller gets NULL if there are no trials. */
    if (all->count == 0) {
        free(all->trials);
        all->trials = NULL;
    }
    *out = all->trials;
    *count = all->count;
    free(all->damaged);
    free(all->problems);
    return all->status;
}

spc_status spc__cache_find_trials(spc__cache *cache,
                                  const spc__problem_key *key, spc__trial **out,
                                  int *count, spc_error *error)
{
    gathering all;

    if (gathering_init(&all, cache, error) != SPC_OK ||
        note(&all, spc__cache_key_text(cache, key, error)) != SPC_OK)
        return finish(&all, out, count);
    /* Continue after a layer fails, since the records of the others count. */
    for (int i = 0; i < cache->count; i++)
        if (note(&all, spc__problem_find(&all.problems[i], &cache->layers[i],
                                         cache, key, first_error(&all))) ==
                SPC_OK &&
            all.problems[i] != 0)
            gather_problem(&all, cache, i);
    return finish(&all, out, count);
}

spc_status spc__cache_trials_of(spc__cache *cache, const char *file,
                                int64_t problem, spc__trial **out, int *count,
                                spc_error *error)
{
    gathering all;
    int at = 0;

    while (at < cache->count && strcmp(cache->layers[at].path, file) != 0)
        at++;
    if (gathering_init(&all, cache, error) == SPC_OK && at < cache->count) {
        all.problems[at] = problem;
        gather_problem(&all, cache, at);
    }
    return finish(&all, out, count);
}
