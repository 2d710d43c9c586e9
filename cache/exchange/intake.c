/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake.c - takes records from other files.
 *
 * For every key the file keeps the highest record that it was ever offered
 * (spc__record_compare), so the order and repetition of merges do not matter. A
 * choice is accepted if its trial exists, even if that trial has a newer, worse
 * result; look-ups then do not find it.
 */
#include "cache/exchange/records.h"

#include "base/error.h"
#include "base/number.h"
#include "base/sha256.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- writing ------------------------------------------------------------- */

/* Binds a field by its form, so that numbers are stored as numbers. */
static void bind_field(sqlite3_stmt *stmt, int at, const spc__record *record,
                       const char *name)
{
    const spc__record_kind *kind = spc__record_kind_of(record->kind);
    int i = 0;
    double real;

    /* The loop ends, as all names are fields of the kind. */
    while (strcmp(kind->fields[i].name, name) != 0)
        i++;
    const char *value = spc__record_value(record, i);
    if (kind->fields[i].form == SPC__FORM_INTEGER)
        sqlite3_bind_int64(stmt, at, strtoll(value, NULL, 10));
    else if (!spc__form_is_real(kind->fields[i].form))
        spc__bind_text(stmt, at, value);
    /* An empty text binds NULL. Reading gives NaN for it. */
    else if (spc__number_read(&real, value))
        sqlite3_bind_double(stmt, at, real);
}

static void bind_fields(sqlite3_stmt *stmt, const spc__record *record,
                        const char *const *names)
{
    for (int i = 0; names[i] != NULL; i++)
        if (names[i][0] != '\0')
            bind_field(stmt, i + 1, record, names[i]);
}

/* Reads the number in the first row, or 0 without a row. */
static spc_status take_id(int64_t *id, spc__intake *intake, sqlite3_stmt *stmt,
                          spc_error *error)
{
    bool row = false;
    spc_status status =
        spc__layer_step(&row, intake->layer, stmt, "read", error);

    *id = row ? sqlite3_column_int64(stmt, 0) : 0;
    spc__sql_done(stmt);
    return status;
}

/* Finds a row by fields of the record. */
static spc_status find_id(int64_t *id, spc__intake *intake, spc__sql sql,
                          const spc__record *record, const char *const *names,
                          spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status = spc__layer_statement(&stmt, intake->layer, sql, error);

    if (status != SPC_OK)
        return status;
    bind_fields(stmt, record, names);
    return take_id(id, intake, stmt, error);
}

/* Runs a statement whose parameters are fields of the record, in the order of
 * `names`. */
static spc_status run_named(spc__intake *intake, spc__sql sql,
                            const spc__record *record, const char *const *names,
                            spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status = spc__layer_statement(&stmt, intake->layer, sql, error);

    if (status != SPC_OK)
        return status;
    bind_fields(stmt, record, names);
    return spc__layer_run(intake->layer, stmt, error);
}

/* Finds the row, adding it if needed. */
static spc_status claim(int64_t *id, spc__intake *intake, spc__sql find,
                        spc__sql add, const spc__record *record,
                        const char *const *names, spc_error *error)
{
    spc_status status = find_id(id, intake, find, record, names, error);

    if (status != SPC_OK || *id != 0)
        return status;
    status = run_named(intake, add, record, names, error);
    *id = sqlite3_last_insert_rowid(intake->layer->db);
    return status;
}

static const char *const provenance_names[] = {
    "version", "compiler", "driver", "host", "scenes", "seed", NULL};
static const char *const problem_names[] = {"device", "layer", "target",
                                            "buckets", NULL};
static const char *const new_problem_names[] = {"device",  "layer",  "target",
                                                "buckets", "family", NULL};

/* Runs a statement for a problem, or for one of its candidates. */
static spc_status run_with_problem(spc__intake *intake, spc__sql sql,
                                   const spc__record *record, int64_t problem,
                                   spc_error *error)
{
    static const char *const candidate[] = {"", "template", "hash", "config",
                                            NULL};
    bool whole = sql == SPC__SQL_SEAL_CHOICE || sql == SPC__SQL_FREE_CHOICE;
    sqlite3_stmt *stmt;
    spc_status status = spc__layer_statement(&stmt, intake->layer, sql, error);

    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, problem);
    if (!whole)
        bind_fields(stmt, record, candidate);
    return spc__layer_run(intake->layer, stmt, error);
}

/* ---- families ------------------------------------------------------------ */

/* Three steps: find damaged trials of the problem ?1, set its family to ?2, and
 * seal it again. */
static const char *const family_steps[] = {
    "SELECT count(*)" SPC__FROM_TRIALS
    " WHERE t.problem = ?1 AND s.digest IS NOT " SPC__DIGEST_TRIAL,
    "UPDATE problem SET family = ?2 WHERE id = ?1 AND family < ?2",
    SPC__SEAL_TRIALS " WHERE t.problem = ?1",
};

/*
 * Files of different versions may have different families for a problem. The
 * higher one wins for all trials of the problem, which are sealed again. If one
 * of them is damaged, nothing changes, because sealing would make it look
 * intact.
 */
static spc_status raise_family(spc__intake *intake, const spc__record *record,
                               int64_t problem, spc_error *error)
{
    int64_t damaged = 0;
    spc_status status;

    sqlite3_bind_int64(intake->reseal[0], 1, problem);
    status = take_id(&damaged, intake, intake->reseal[0], error);
    if (status != SPC_OK || damaged > 0)
        return status;
    sqlite3_bind_int64(intake->reseal[1], 1, problem);
    spc__bind_text(intake->reseal[1], 2, spc__record_named(record, "family"));
    status = spc__layer_run(intake->layer, intake->reseal[1], error);
    if (status != SPC_OK || sqlite3_changes(intake->layer->db) == 0)
        return status;
    sqlite3_bind_int64(intake->reseal[2], 1, problem);
    status = spc__layer_run(intake->layer, intake->reseal[2], error);
    return status == SPC_OK ? run_with_problem(intake, SPC__SQL_SEAL_CHOICE,
                                               record, problem, error)
                            : status;
}

/* ---- the kinds ----------------------------------------------------------- */

/* Writes a trial. The problem and the provenance are added if they are new.
 * Then the trial is sealed and released from quarantine, and the problem's
 * choice is sealed again, because its seal includes that of its trial. */
static spc_status put_trial(spc__intake *intake, const spc__record *record,
                            spc_error *error)
{
    static const char *const names[] = {
        "",           "template", "hash",    "config", "launch",
        "resources",  "artefact", "status",  "note",   "median_us",
        "spread_us",  "cold_us",  "samples", "error",  "verified",
        "compile_ms", "features", "",        "at",     NULL};
    static const spc__sql after[] = {SPC__SQL_SEAL_TRIAL, SPC__SQL_FREE_TRIAL,
                                     SPC__SQL_SEAL_CHOICE};
    int64_t problem = 0, provenance = 0;
    sqlite3_stmt *stmt;
    spc_status status;

    if ((status = claim(&problem, intake, SPC__SQL_FIND_PROBLEM,
                        SPC__SQL_ADD_PROBLEM, record, new_problem_names,
                        error)) != SPC_OK ||
        (status = claim(&provenance, intake, SPC__SQL_FIND_PROVENANCE,
                        SPC__SQL_ADD_PROVENANCE, record, provenance_names,
                        error)) != SPC_OK ||
        (status = spc__layer_statement(&stmt, intake->layer, SPC__SQL_PUT_TRIAL,
                                       error)) != SPC_OK)
        return status;
    bind_fields(stmt, record, names);
    sqlite3_bind_int64(stmt, 1, problem);
    sqlite3_bind_int64(stmt, 18, provenance);
    status = spc__layer_run(intake->layer, stmt, error);
    for (int i = 0; i < 3 && status == SPC_OK; i++)
        status = run_with_problem(intake, after[i], record, problem, error);
    return status == SPC_OK ? raise_family(intake, record, problem, error)
                            : status;
}

/* A known trial may have a higher family. */
static spc_status compare_families(spc__intake *intake,
                                   const spc__record *record, spc_error *error)
{
    int64_t problem = 0;
    spc_status status = SPC_OK;

    if (record->kind == SPC__TRIAL)
        status = find_id(&problem, intake, SPC__SQL_FIND_PROBLEM, record,
                         problem_names, error);
    return status == SPC_OK && problem != 0
               ? raise_family(intake, record, problem, error)
               : status;
}

/* Writes a choice if the trial that it chooses exists, and seals it. Otherwise
 * the record is rejected, which is not an error. */
static spc_status put_choice(spc__fate *fate, spc_error *why,
                             spc__intake *intake, const spc__record *record,
                             spc_error *error)
{
    int64_t problem = 0, trial = 0, provenance = 0;
    static const char *const candidate[] = {"", "template", "hash", "config",
                                            NULL};
    sqlite3_stmt *stmt;
    spc_status status = find_id(&problem, intake, SPC__SQL_FIND_PROBLEM, record,
                                problem_names, error);

    if (status == SPC_OK)
        status = spc__layer_statement(&stmt, intake->layer, SPC__SQL_FIND_TRIAL,
                                      error);
    if (status != SPC_OK)
        return status;
    bind_fields(stmt, record, candidate);
    sqlite3_bind_int64(stmt, 1, problem);
    status = take_id(&trial, intake, stmt, error);
    if (status == SPC_OK && trial == 0) {
        *fate = SPC__FATE_REJECTED;
        spc__fail(why, SPC_EFORMAT, "the trial that it chooses is not there");
        return SPC_OK;
    }
    if (status != SPC_OK ||
        (status = claim(&provenance, intake, SPC__SQL_FIND_PROVENANCE,
                        SPC__SQL_ADD_PROVENANCE, record, provenance_names,
                        error)) != SPC_OK ||
        (status = spc__layer_statement(&stmt, intake->layer,
                                       SPC__SQL_PUT_CHOICE, error)) != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, problem);
    sqlite3_bind_int64(stmt, 2, trial);
    bind_field(stmt, 3, record, "reason");
    sqlite3_bind_int64(stmt, 4, provenance);
    bind_field(stmt, 5, record, "at");
    status = spc__layer_run(intake->layer, stmt, error);
    if (status == SPC_OK)
        status = run_with_problem(intake, SPC__SQL_SEAL_CHOICE, record, problem,
                                  error);
    return status == SPC_OK ? run_with_problem(intake, SPC__SQL_FREE_CHOICE,
                                               record, problem, error)
                            : status;
}

/* Writes a fact and seals it. */
static spc_status put_fact(spc__intake *intake, const spc__record *record,
                           spc_error *error)
{
    static const char *const names[] = {"device", "name", "value", "at", NULL};
    static const char *const keys[] = {"device", "name", NULL};
    spc_status status =
        run_named(intake, SPC__SQL_PUT_FACT, record, names, error);

    return status == SPC_OK
               ? run_named(intake, SPC__SQL_SEAL_FACT, record, keys, error)
               : status;
}

/* Writes code and seals it. */
static spc_status put_code(spc__intake *intake, const spc__record *record,
                           spc_error *error)
{
    static const char *const names[] = {
        "key", "target", "compiler", "launch", "resources", "sha256", NULL};
    static const char *const keys[] = {"key", "is", NULL};
    const spc__buf *code = &record->code;
    sqlite3_stmt *stmt;
    spc_status status = spc__layer_statement(&stmt, intake->layer,
                                             SPC__SQL_PUT_ARTEFACT, error);

    if (status != SPC_OK)
        return status;
    bind_fields(stmt, record, names);
    sqlite3_bind_blob64(stmt, 7, code->length > 0 ? code->data : "",
                        code->length, SQLITE_STATIC);
    status = spc__layer_run(intake->layer, stmt, error);
    return status == SPC_OK
               ? run_named(intake, SPC__SQL_SEAL_ARTEFACT, record, keys, error)
               : status;
}

/* ---- permission ---------------------------------------------------------- */

/* https://refspecs.linuxfoundation.org/elf: magic, and the machine at 18. */
bool spc__is_gpu_code(const void *code, size_t bytes)
{
    enum { MACHINE = 18, EM_CUDA = 190 };
    const unsigned char *at = code;

    return bytes > MACHINE + 2 && memcmp(at, "\177ELF", 4) == 0 &&
           at[MACHINE] == EM_CUDA && at[MACHINE + 1] == 0;
}

static void digest_code(char hex[SPC__SHA256_HEX], const spc__buf *code)
{
    spc__sha256 sha;

    spc__sha256_init(&sha);
    spc__sha256_update(&sha, code->data != NULL ? code->data : "",
                       code->length);
    spc__sha256_end(hex, &sha);
}

/* True if the code may be accepted at all. */
static bool permit_code(const spc__intake *intake, const spc__record *record,
                        spc_error *why)
{
    const spc__buf *code = &record->code;
    char hex[SPC__SHA256_HEX];

    if (!record->has_code) {
        spc__fail(why, SPC_EFORMAT, "its code was left out of the file");
        return false;
    }
    digest_code(hex, code);
    if (strcmp(hex, spc__record_named(record, "sha256")) != 0) {
        spc__fail(why, SPC_EFORMAT, "its code does not fit its digest");
        return false;
    }
    const char *seal = spc__record_named(record, "seal");
    if (seal[0] == '\0' && !intake->trusts) {
        spc__fail(why, SPC_EFORMAT,
                  "it has no seal, so it may have been edited: export it "
                  "again, or trust the file");
        return false;
    }
    spc__record_seal(hex, record);
    if (seal[0] != '\0' && strcmp(hex, seal) != 0) {
        spc__fail(
            why, SPC_EFORMAT,
            "it does not match its seal: its launch or its origin was edited");
        return false;
    }
    if (intake->trusts || spc__is_gpu_code(code->data, code->length))
        return true;
    spc__fail(why, SPC_EFORMAT,
              "it is code for the host, which runs with your rights: compile "
              "it here, or trust the file");
    return false;
}

const char spc__future_reason[] =
    "it is dated more than a day from now, and would be the newest for ever: "
    "is a clock wrong?";

bool spc__is_from_the_future(int64_t unix_seconds)
{
    enum { DAY = 86400 };

    return unix_seconds - DAY > (int64_t)time(NULL);
}

/*
 * Decides whether to accept a record that is higher than the file's own. The
 * newest record wins, so records dated in the future are refused. Records from
 * an untrusted file may not outrank all later ones, as a pinned choice does, or
 * change the code of an existing key.
 */
static bool permit(const spc__intake *intake, const spc__record *record,
                   bool is_there, spc_error *why)
{
    const char *reason = spc__record_named(record, "reason");

    if (spc__is_from_the_future(
            strtoll(spc__record_named(record, "at"), NULL, 10))) {
        spc__fail(why, SPC_EFORMAT, "%s", spc__future_reason);
        return false;
    }
    if (record->kind == SPC__CODE && is_there && !intake->trusts) {
        spc__fail(why, SPC_EFORMAT,
                  "there is other code of this key here, which stays, as the "
                  "file is not trusted");
        return false;
    }
    if (record->kind == SPC__CHOICE && !intake->trusts &&
        strncmp(reason, SPC__PINNED, strlen(SPC__PINNED)) == 0) {
        spc__fail(why, SPC_EFORMAT,
                  "it was pinned there, and tuning would not replace it: pin "
                  "it here, or trust the file");
        return false;
    }
    return record->kind != SPC__CODE || permit_code(intake, record, why);
}

static bool is_stale(const spc__intake *intake, const spc__record *record)
{
    return intake->is_stale != NULL &&
           (record->kind == SPC__TRIAL || record->kind == SPC__CHOICE) &&
           intake->is_stale(spc__record_named(record, "template"),
                            spc__record_named(record, "hash"), intake->payload);
}

static spc_status put(spc__fate *fate, spc_error *why, spc__intake *intake,
                      const spc__record *record, spc_error *error)
{
    switch (record->kind) {
    case SPC__FACT:
        return put_fact(intake, record, error);
    case SPC__CODE:
        return put_code(intake, record, error);
    case SPC__TRIAL:
        return put_trial(intake, record, error);
    default:
        return put_choice(fate, why, intake, record, error);
    }
}

spc_status spc__intake_take(spc__fate *fate, spc_error *why,
                            spc__intake *intake, const spc__record *record,
                            spc_error *error)
{
    bool found = false;
    int order = 1;
    spc_status status = spc__cursor_find(
        &found, &intake->there, &intake->find[record->kind], record, error);

    if (status != SPC_OK)
        return status;
    if (found)
        order = spc__record_compare(record, &intake->there);
    *fate = order == 0  ? SPC__FATE_KNOWN
            : order < 0 ? SPC__FATE_OLDER
                        : SPC__FATE_ACCEPTED;
    if (order <= 0)
        return compare_families(intake, record, error);
    if (!permit(intake, record, found, why)) {
        *fate = SPC__FATE_REJECTED;
        return SPC_OK;
    }
    if (is_stale(intake, record))
        *fate = SPC__FATE_STALE;
    return put(fate, why, intake, record, error);
}

/* ---- the transaction ----------------------------------------------------- */

/* Releases the statements, before the transaction ends. */
static void release(spc__intake *intake)
{
    for (int i = 0; i < SPC__KINDS; i++)
        spc__cursor_close(&intake->find[i]);
    for (int i = 0; i < 3; i++)
        sqlite3_finalize(intake->reseal[i]);
    memset(intake->find, 0, sizeof(intake->find));
    memset(intake->reseal, 0, sizeof(intake->reseal));
    spc__record_release(&intake->there);
}

/* Prepares the statements that each record needs. */
static spc_status prepare(spc__intake *intake, spc_error *error)
{
    spc_status status = SPC_OK;
    int rc = SQLITE_OK;

    for (int i = 0; i < SPC__KINDS && status == SPC_OK; i++)
        status = spc__cursor_open_by_key(&intake->find[i], intake->layer,
                                         (spc__kind)i, error);
    for (int i = 0; i < 3 && status == SPC_OK && rc == SQLITE_OK; i++)
        rc = sqlite3_prepare_v2(intake->layer->db, family_steps[i], -1,
                                &intake->reseal[i], NULL);
    return rc == SQLITE_OK ? status
                           : spc__layer_fail(intake->layer, rc, "use", error);
}

spc_status spc__intake_begin(spc__intake *intake, spc__cache *cache,
                             spc_error *error)
{
    spc_status status = spc__cache_writer(&intake->layer, cache, error);

    if (status == SPC_OK)
        status = prepare(intake, error);
    if (status == SPC_OK)
        status = spc__layer_begin(intake->layer, error);
    if (status != SPC_OK)
        release(intake);
    return status;
}

spc_status spc__intake_end(spc__intake *intake, spc_status status,
                           spc_error *error)
{
    release(intake);
    return spc__layer_end(intake->layer, status, error);
}
