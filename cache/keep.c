/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c - prunes and pins records. */
#include "cache/keep.h"

#include "base/clock.h"
#include "base/error.h"
#include "cache/cache_internal.h"
#include "cache/exchange/record_form.h"
#include <stdio.h>
#include <string.h>

/* ---- pruning ------------------------------------------------------------- */

const char *const spc__prune_quarantined[] = {
    "DELETE FROM choice WHERE problem IN"
    " (SELECT record FROM quarantine WHERE kind = 'choice') OR trial IN"
    " (SELECT record FROM quarantine WHERE kind = 'trial')",
    "DELETE FROM trial WHERE id IN"
    " (SELECT record FROM quarantine WHERE kind = 'trial')",
    NULL,
};

/* A choice that was refused because of its code is not released when its digest
 * matches. For all other kinds the digest covers everything. */
#define RELEASE(kind_is)                                                       \
    "DELETE FROM quarantine WHERE kind = '" kind_is "' AND record IN "
#define WAS_DAMAGED " AND reason GLOB '*: it is damaged, *'"
static const char *const release[] = {
    RELEASE("trial") "(SELECT t.id" SPC__FROM_TRIALS
                     " WHERE s.digest = " SPC__DIGEST_TRIAL ")",
    RELEASE("choice") "(SELECT c.problem" SPC__FROM_CHOICES
                      " WHERE w.digest = " SPC__DIGEST_CHOICE ")" WAS_DAMAGED,
    RELEASE("network") "(SELECT n.id" SPC__FROM_NETWORKS
                       " WHERE s.digest = " SPC__DIGEST_NETWORK
                       " AND n.parts = (SELECT count(*)" SPC__FROM_PARTS
                       " WHERE w.network = n.id"
                       " AND x.digest = " SPC__DIGEST_PART "))",
    NULL,
};

/* The row of the table `table` whose record has gone. The kind comes last, as
 * this is no release: see is_counted(). */
#define DROP_LOST(table, kind, row, from)                                      \
    "DELETE FROM " table " WHERE record NOT IN (SELECT " row from              \
    ") AND kind = '" kind "'",
#define DROP_SEALS(kind, row, s, digest, from)                                 \
    DROP_LOST("seal", kind, row, from) DROP_LOST("quarantine", kind, row, from)
const char *const spc__prune_orphans[] = {
    "DELETE FROM artefact WHERE key NOT IN (SELECT artefact FROM trial)",
    "DELETE FROM problem WHERE id NOT IN (SELECT problem FROM trial)",
    "DELETE FROM provenance WHERE id NOT IN (SELECT provenance FROM trial)"
    " AND id NOT IN (SELECT provenance FROM choice)",
    SPC__SEALED(DROP_SEALS) NULL,
};

#define UNCHOSEN "id NOT IN (SELECT trial FROM choice)"

static const char *const losers[] = {
    "DELETE FROM trial WHERE " UNCHOSEN
    " AND problem IN (SELECT problem FROM choice)",
    NULL,
};

#define NOT_PINNED "reason NOT GLOB '" SPC__PINNED "*'"

/* ?1 is the time limit. */
static const char *const old[] = {
    "DELETE FROM choice WHERE unix_seconds < ?1 AND " NOT_PINNED,
    "DELETE FROM trial WHERE unix_seconds < ?1 AND " UNCHOSEN,
    NULL,
};

/* spc_stale(template, hash) calls the caller's function. */
static const char *const stale[] = {
    "DELETE FROM choice WHERE " NOT_PINNED " AND trial IN (SELECT id FROM trial"
    " WHERE spc_stale(template, template_hash))",
    "DELETE FROM trial WHERE spc_stale(template, template_hash) AND " UNCHOSEN,
    NULL,
};

/* The SQL function spc_stale(): only the caller knows the current hashes of
 * templates. */
static void ask_stale(sqlite3_context *context, int count,
                      sqlite3_value **values)
{
    const spc__prune *what = sqlite3_user_data(context);
    const char *name = (const char *)sqlite3_value_text(values[0]);
    const char *hash = (const char *)sqlite3_value_text(values[1]);

    (void)count;
    sqlite3_result_int(context, name != NULL && hash != NULL &&
                                    what->is_stale(name, hash, what->payload));
}

/* Runs one statement of a list. Statements with a parameter get the time
 * limit. */
static spc_status run_step(spc__layer *layer, const char *sql, int64_t when,
                           spc_error *error)
{
    sqlite3_stmt *stmt = NULL;
    bool row;
    spc_status status = spc__layer_prepare(&stmt, layer, sql, "prune", error);

    if (status != SPC_OK)
        return status;
    if (sqlite3_bind_parameter_count(stmt) > 0)
        sqlite3_bind_int64(stmt, 1, when);
    status = spc__layer_step(&row, layer, stmt, "prune", error);
    sqlite3_finalize(stmt);
    return status;
}

/* True for steps that remove trials, choices or code, or release from
 * quarantine. Only these are reported to the user. */
static bool is_counted(const char *step)
{
    static const char *const tables[] = {"trial", "choice", "artefact",
                                         "quarantine WHERE kind = '"};
    const char *table = step + strlen("DELETE FROM ");

    for (int i = 0; i < 4; i++)
        if (strncmp(table, tables[i], strlen(tables[i])) == 0)
            return true;
    return false;
}

spc_status spc__prune_run(spc__layer *layer, const char *const *steps,
                          int64_t when, int64_t *removed, spc_error *error)
{
    spc_status status = SPC_OK;

    for (; *steps != NULL && status == SPC_OK; steps++) {
        status = run_step(layer, *steps, when, error);
        if (is_counted(*steps))
            *removed += sqlite3_changes(layer->db);
    }
    return status;
}

/* Runs the requested steps in their order inside the caller's transaction. */
static spc_status prune_locked(spc__layer *layer, const spc__prune *what,
                               int64_t *removed, spc_error *error)
{
    /* Orphans come last, as each of the other steps may leave some. */
    const struct {
        bool wanted;
        const char *const *steps;
    } all[] = {{true, spc__prune_quarantined},
               {what->before_unix_seconds > 0, old},
               {what->is_stale != NULL, stale},
               {what->losers, losers},
               {true, spc__prune_orphans}};
    int64_t released = 0;
    /* Records whose digests match again must not be deleted by the next
     * step. */
    spc_status status = spc__prune_run(layer, release, 0, &released, error);

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (all[i].wanted && status == SPC_OK)
            status = spc__prune_run(layer, all[i].steps,
                                    what->before_unix_seconds, removed, error);
    return status;
}

spc_status spc__cache_prune(spc__cache *cache, const spc__prune *what,
                            int64_t *removed, spc_error *error)
{
    static const char *const shrink[] = {"VACUUM", NULL};
    spc__layer *layer;
    spc_status status = spc__cache_writer(&layer, cache, error);

    *removed = 0;
    if (status != SPC_OK)
        return status;
    /* The function exists only while `what` does. */
    sqlite3_create_function(layer->db, "spc_stale", 2, SQLITE_UTF8,
                            (void *)what, ask_stale, NULL, NULL);
    status = spc__layer_begin(layer, error);
    if (status == SPC_OK)
        status = spc__layer_end(
            layer, prune_locked(layer, what, removed, error), error);
    sqlite3_create_function(layer->db, "spc_stale", 2, SQLITE_UTF8, NULL, NULL,
                            NULL, NULL);
    /* VACUUM cannot run inside a transaction. */
    return status == SPC_OK ? spc__layer_execute(layer, shrink, "shrink", error)
                            : status;
}

spc_status spc__cache_release(spc__cache *cache, int64_t *released,
                              spc_error *error)
{
    spc__layer *layer;
    spc_status status = spc__cache_writer(&layer, cache, error);

    *released = 0;
    if (status == SPC_OK && (status = spc__layer_begin(layer, error)) == SPC_OK)
        status = spc__layer_end(
            layer, spc__prune_run(layer, release, 0, released, error), error);
    return status;
}

/* ---- pinning ------------------------------------------------------------- */

/* Finds the trial of the problem ?1 that is listed as ?2, its state, and
 * whether the problem exists. */
static const char find_listed[] =
    "SELECT t.id, t.status, s.digest = " SPC__DIGEST_TRIAL SPC__FROM_TRIALS
    " WHERE t.problem = ?1 AND rtrim(t.template || ' ' || t.config) = ?2"
    " ORDER BY t.unix_seconds DESC, t.id DESC";

static const char let_go[] =
    "UPDATE choice SET reason = 'was ' || reason, unix_seconds = ?2"
    " WHERE problem = ?1 AND reason GLOB '" SPC__PINNED "*'";

static const char choose[] =
    "INSERT INTO choice (problem, trial, reason, provenance, unix_seconds)"
    " SELECT ?1, id, '" SPC__PINNED " by hand', provenance, ?3 FROM trial"
    " WHERE id = ?2 ON CONFLICT (problem) DO UPDATE SET"
    " trial = excluded.trial, reason = excluded.reason,"
    " provenance = excluded.provenance, unix_seconds = excluded.unix_seconds";

/* A pinned choice is served before all others, so a failed or damaged trial
 * must not become one. */
static spc_status check_listed(spc__layer *layer, sqlite3_stmt *stmt, bool row,
                               const char *choice, spc_error *error)
{
    const char *state = row ? (const char *)sqlite3_column_text(stmt, 1) : NULL;

    if (state == NULL)
        return spc__fail(error, SPC_ENOTFOUND,
                         "the problem has no trial '%.300s' in '%s': db show "
                         "lists its trials",
                         choice, layer->path);
    if (strcmp(state, "ok") != 0)
        return spc__fail(error, SPC_EINVAL,
                         "cannot choose '%.300s': its trial ended in '%s'",
                         choice, state);
    return spc__seal_check(layer, stmt, 2, "trial",
                           sqlite3_column_int64(stmt, 0), error);
}

/* Finds a trial by its text in 'db show'. If two versions of a template have
 * the same text, the newest counts. */
static spc_status find_trial(int64_t *trial, spc__layer *layer, int64_t problem,
                             const char *choice, spc_error *error)
{
    sqlite3_stmt *stmt = NULL;
    bool row = false;
    spc_status status =
        spc__layer_prepare(&stmt, layer, find_listed, "read", error);

    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, problem);
    spc__bind_text(stmt, 2, choice);
    status = spc__layer_step(&row, layer, stmt, "read", error);
    if (status == SPC_OK)
        status = check_listed(layer, stmt, row, choice, error);
    *trial = row ? sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_finalize(stmt);
    return status;
}

/* Binds up to three numbers and runs the statement. */
static spc_status run_with(spc__layer *layer, const char *sql,
                           const int64_t *numbers, int count, spc_error *error)
{
    sqlite3_stmt *stmt = NULL;
    bool row;
    spc_status status = spc__layer_prepare(&stmt, layer, sql, "write", error);

    if (status != SPC_OK)
        return status;
    for (int i = 0; i < count; i++)
        sqlite3_bind_int64(stmt, i + 1, numbers[i]);
    status = spc__layer_step(&row, layer, stmt, "write", error);
    sqlite3_finalize(stmt);
    return status;
}

/* Pins a choice, or releases the pinned one if `choice` is NULL. */
static spc_status pin_locked(spc__layer *layer, int64_t problem,
                             const char *choice, spc_error *error)
{
    int64_t trial = 0, now = spc__unix_seconds();
    spc_status status;

    if (choice == NULL) {
        status = run_with(layer, let_go, (int64_t[]){problem, now}, 2, error);
        /* The statement changes pinned choices only. */
        if (status == SPC_OK && sqlite3_changes(layer->db) == 0)
            return spc__fail(error, SPC_ENOTFOUND,
                             "problem %lld has no pinned choice in '%s'",
                             (long long)problem, layer->path);
    } else {
        status = find_trial(&trial, layer, problem, choice, error);
        if (status == SPC_OK)
            status = run_with(layer, choose, (int64_t[]){problem, trial, now},
                              3, error);
    }
    if (status == SPC_OK)
        status = spc__layer_run_on(layer, SPC__SQL_SEAL_CHOICE, problem, error);
    /* A choice that was damaged is replaced, so it leaves the quarantine. */
    return status == SPC_OK
               ? spc__layer_run_on(layer, SPC__SQL_FREE_CHOICE, problem, error)
               : status;
}

spc_status spc__cache_pin(spc__cache *cache, int64_t problem,
                          const char *choice, spc_error *error)
{
    spc__layer *layer;
    spc_status status = spc__cache_writer(&layer, cache, error);

    if (status == SPC_OK)
        status = spc__layer_begin(layer, error);
    return status == SPC_OK
               ? spc__layer_end(
                     layer, pin_locked(layer, problem, choice, error), error)
               : status;
}

/* ---- damage -------------------------------------------------------------- */

static const char choose_next_best[] =
    "INSERT INTO choice (problem, trial, reason, provenance, unix_seconds)"
    " SELECT p.id, t.id, '" SPC__NEXT_REASON
    "', t.provenance, ?2" SPC__FROM_NEXT
    " ON CONFLICT (problem) DO UPDATE SET trial = excluded.trial,"
    " reason = excluded.reason, provenance = excluded.provenance,"
    " unix_seconds = excluded.unix_seconds";

/* Makes the next best trial the choice, and seals it. */
static spc_status choose_next(spc__layer *layer, int64_t problem, bool *chosen)
{
    int64_t now = spc__unix_seconds();
    spc_status status =
        run_with(layer, choose_next_best, (int64_t[]){problem, now}, 2, NULL);

    *chosen = status == SPC_OK && sqlite3_changes(layer->db) > 0;
    if (*chosen)
        status = spc__layer_run_on(layer, SPC__SQL_SEAL_CHOICE, problem, NULL);
    if (*chosen && status == SPC_OK)
        status = spc__layer_run_on(layer, SPC__SQL_FREE_CHOICE, problem, NULL);
    return status;
}

bool spc__choose_next(spc__layer *layer, int64_t problem)
{
    bool chosen = false;
    spc_status status = SPC_EDB;

    if (!layer->writable)
        return false;
    /* A look-up must not wait for another writer. */
    sqlite3_busy_timeout(layer->db, 0);
    if (spc__layer_begin(layer, NULL) == SPC_OK)
        status =
            spc__layer_end(layer, choose_next(layer, problem, &chosen), NULL);
    sqlite3_busy_timeout(layer->db, SPC__BUSY_MS);
    return status == SPC_OK && chosen;
}
