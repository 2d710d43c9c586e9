/* SPDX-License-Identifier: Apache-2.0 */
/*
 * statement.c - prepared statements, transactions, and messages for SQLite's
 * results.
 */
#include "cache/cache_internal.h"

#include "base/error.h"
#include "cache/exchange/record_form.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PROBLEM_IS                                                             \
    " WHERE p.device = ?1 AND p.layer = ?2 AND p.target = ?3"                  \
    " AND p.buckets = ?4"

#define FROM_CHOICE                                                            \
    " FROM problem AS p JOIN choice AS c ON c.problem = p.id"                  \
    " JOIN trial AS t ON t.id = c.trial"

#define NOT_IN_QUARANTINE(kind_is, row)                                        \
    " AND NOT EXISTS (SELECT 1 FROM quarantine WHERE kind = '" kind_is         \
    "' AND record = " row ")"

/* The condition for a usable choice. */
#define IS_USABLE                                                              \
    " AND t.status = 'ok'" NOT_IN_QUARANTINE("trial", "t.id")                  \
        NOT_IN_QUARANTINE("choice", "p.id")

/* A pinned choice stays, and takes precedence over faster measurements. */
#define IS_PINNED "choice.reason GLOB '" SPC__PINNED "*'"
#define RANKED_BY                                                              \
    "CASE WHEN c.reason GLOB '" SPC__PINNED "*' THEN -1.0 ELSE t.median_us "   \
    "END"

#define IS_CHOSEN " WHERE p.id = ?1 AND t.status = 'ok'"

/* The trial of the candidate ?2, ?3, ?4 of the problem ?1. */
#define CANDIDATE_IS                                                           \
    " WHERE t.problem = ?1 AND t.template = ?2 AND t.template_hash = ?3"       \
    " AND t.config = ?4"

/* The columns of a network, whether it is intact, and why it was set aside, if
 * so. */
#define SPC__NETWORK_COLUMNS                                                   \
    "n.id, n.name, n.graph, n.weights, n.bytes, n.parts, n.source, n.version," \
    " n.unix_seconds, s.digest = " SPC__DIGEST_NETWORK                         \
    ", q.reason" SPC__FROM_NETWORKS                                            \
    " LEFT JOIN quarantine AS q ON q.kind = 'network' AND q.record = n.id"

/* All columns of a choice and its trial except their provenance, with the
 * choice's seal. choice_row.c names them. */
#define WHOLE(choice, seal)                                                    \
    "SELECT " SPC__KEY_COLUMNS ", " SPC__TRIAL_COLUMNS                         \
    ", p.buckets, p.family, t.unix_seconds, t.provenance, " choice             \
    ", t.id, p.id, " seal
#define WHOLE_CHOICE(seal) WHOLE("c.reason, c.unix_seconds, c.provenance", seal)
#define JOIN_SEAL SPC__JOIN_SEAL("w", "choice", "p.id")

/* Choices, including lost ones, which left a seal. */
#define FROM_WHAT_WAS_CHOSEN                                                   \
    " FROM problem AS p LEFT JOIN choice AS c ON c.problem = p.id"             \
    " LEFT JOIN trial AS t ON t.id = c.trial" JOIN_SEAL
#define WAS_CHOSEN " AND (t.id IS NOT NULL OR w.digest IS NOT NULL)"

/* The usable choices among them, and choices to be checked: the trial is
 * missing, or its status differs from the stored one. */
#define IS_USABLE_OR_LOST                                                      \
    WAS_CHOSEN                                                                 \
    " AND (t.id IS NULL OR t.status = 'ok' OR EXISTS (SELECT 1"                \
    " FROM seal AS s LEFT JOIN provenance AS v ON v.id = t.provenance"         \
    " WHERE s.kind = 'trial' AND s.record = t.id"                              \
    " AND s.digest <> " SPC__DIGEST_TRIAL                                      \
    "))" NOT_IN_QUARANTINE("trial", "t.id")                                    \
        NOT_IN_QUARANTINE("choice", "p.id")

static const char *const texts[SPC__SQL_COUNT] = {
    /* IMMEDIATE takes the write lock at once: a transaction that reads first
     * and then writes could fail in the middle, when another process has
     * written. */
    [SPC__SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SPC__SQL_COMMIT] = "COMMIT",

    [SPC__SQL_FIND_PROBLEM] = "SELECT p.id FROM problem AS p" PROBLEM_IS,
    [SPC__SQL_ADD_PROBLEM] =
        "INSERT INTO problem (device, layer, target, buckets, family)"
        " VALUES (?1, ?2, ?3, ?4, ?5)",

    [SPC__SQL_FIND_PROVENANCE] =
        "SELECT id FROM provenance WHERE version = ?1 AND compiler = ?2"
        " AND driver = ?3 AND host = ?4 AND scenes = ?5 AND seed = ?6",
    [SPC__SQL_ADD_PROVENANCE] =
        "INSERT INTO provenance (version, compiler, driver, host, scenes, seed)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6)",

    [SPC__SQL_GET_PROVENANCE] = "SELECT version, compiler, driver, host,"
                                " scenes, seed FROM provenance WHERE id = ?1",

    [SPC__SQL_PUT_TRIAL] =
        "INSERT INTO trial (problem, template, template_hash, config, launch,"
        " resources, artefact, status, note, median_us, spread_us, cold_us,"
        " samples, error, verified, compile_ms, features, provenance,"
        " unix_seconds) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
        " ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"
        " ON CONFLICT (problem, template, template_hash, config) DO UPDATE SET"
        " launch = ?5, resources = ?6, artefact = ?7, status = ?8, note = ?9,"
        " median_us = ?10, spread_us = ?11, cold_us = ?12, samples = ?13,"
        " error = ?14, verified = ?15, compile_ms = ?16, features = ?17,"
        " provenance = ?18, unix_seconds = ?19",
    [SPC__SQL_FIND_TRIAL] =
        "SELECT t.id, t.status FROM trial AS t" CANDIDATE_IS NOT_IN_QUARANTINE(
            "trial", "t.id"),
    [SPC__SQL_ALL_TRIALS] =
        "SELECT " SPC__TRIAL_COLUMNS
        ", t.id, s.digest = " SPC__DIGEST_TRIAL SPC__FROM_TRIALS
        " WHERE t.problem = ?1" NOT_IN_QUARANTINE("trial",
                                                  "t.id") " ORDER BY t.id",

    [SPC__SQL_PUT_CHOICE] =
        "INSERT INTO choice (problem, trial, reason, provenance, unix_seconds)"
        " VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (problem) DO UPDATE SET"
        " trial = ?2, reason = ?3, provenance = ?4, unix_seconds = ?5"
        " WHERE NOT " IS_PINNED " OR ?3 GLOB '" SPC__PINNED "*'",
    [SPC__SQL_EXACT_CHOICE] = "SELECT p.id, " RANKED_BY
                              ", t.samples" FROM_CHOICE PROBLEM_IS IS_USABLE,
    [SPC__SQL_SIMILAR_CHOICES] =
        "SELECT p.id, " RANKED_BY ", t.samples, p.layer, p.target,"
        " coalesce(t.features, (SELECT n.features FROM trial AS n"
        " WHERE n.problem = p.id LIMIT 1)), w.digest" FROM_WHAT_WAS_CHOSEN
        " WHERE p.device = ?1 AND p.family = ?2" IS_USABLE_OR_LOST,
    [SPC__SQL_DATA_VERSION] = "PRAGMA data_version",
    [SPC__SQL_CHOICE_OF] =
        WHOLE_CHOICE("w.digest") FROM_CHOICE JOIN_SEAL IS_CHOSEN,
    [SPC__SQL_CHOICE_ROWS] = WHOLE_CHOICE("NULL") FROM_CHOICE IS_CHOSEN,
    [SPC__SQL_CHOICE_AT] =
        WHOLE_CHOICE("w.digest") FROM_CHOICE JOIN_SEAL PROBLEM_IS IS_USABLE,
    [SPC__SQL_CHOICE_IN_DOUBT] = WHOLE_CHOICE("w.digest, s.digest, c.problem")
        FROM_WHAT_WAS_CHOSEN SPC__JOIN_SEAL(
            "s", "trial", "t.id") " WHERE p.id = ?1" WAS_CHOSEN,
    [SPC__SQL_NEXT_CHOICE] =
        WHOLE("'" SPC__NEXT_REASON "', 0, 0", "NULL") SPC__FROM_NEXT,

    [SPC__SQL_GET_ARTEFACT] =
        "SELECT a.code, a.digest, a.launch, a.resources, a.target,"
        " coalesce(s.identity, ''),"
        " s.digest = " SPC__DIGEST_ARTEFACT(
            "s.identity") ", a.id" SPC__FROM_ARTEFACTS " WHERE a.key = ?1",
    [SPC__SQL_PUT_ARTEFACT] =
        "INSERT INTO artefact (key, target, compiler, launch, resources,"
        " digest, code) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
        " ON CONFLICT (key) DO UPDATE SET target = ?2, compiler = ?3,"
        " launch = ?4, resources = ?5, digest = ?6, code = ?7",

    [SPC__SQL_PUT_FACT] =
        "INSERT INTO fact (device, name, value, unix_seconds)"
        " VALUES (?1, ?2, ?3, ?4) ON CONFLICT (device, name) DO UPDATE SET"
        " value = ?3, unix_seconds = ?4",
    [SPC__SQL_ALL_FACTS] =
        "SELECT f.name, f.value, s.digest = " SPC__DIGEST_FACT
        ", f.id" SPC__FROM_FACTS " WHERE f.device = ?1 ORDER BY f.id",

    [SPC__SQL_NAME_CODE] =
        "UPDATE trial AS t SET artefact = ?5, resources = ?6" CANDIDATE_IS,
    [SPC__SQL_SEAL_TRIAL] = SPC__SEAL_TRIALS CANDIDATE_IS,
    [SPC__SQL_SEAL_CHOICE] =
        "REPLACE INTO seal SELECT 'choice', p.id, " SPC__DIGEST_CHOICE
        ", ''" FROM_CHOICE " JOIN seal AS s ON s.kind = 'trial'"
        " AND s.record = t.id JOIN provenance AS u ON u.id = c.provenance"
        " WHERE p.id = ?1",
    [SPC__SQL_SEAL_ARTEFACT] =
        "REPLACE INTO seal SELECT 'artefact', a.id, " SPC__DIGEST_ARTEFACT(
            "?2") ", ?2 FROM artefact AS a WHERE a.key = ?1",
    [SPC__SQL_SEAL_FACT] =
        "REPLACE INTO seal SELECT 'fact', f.id, " SPC__DIGEST_FACT
        ", '' FROM fact AS f WHERE f.device = ?1 AND f.name = ?2",

    [SPC__SQL_QUARANTINE] = "REPLACE INTO quarantine VALUES (?1, ?2, ?3, ?4)",
    [SPC__SQL_FREE_TRIAL] =
        "DELETE FROM quarantine WHERE kind = 'trial' AND record IN"
        " (SELECT t.id FROM trial AS t" CANDIDATE_IS ")",
    [SPC__SQL_FREE_CHOICE] =
        "DELETE FROM quarantine WHERE kind = 'choice' AND record = ?1",

    [SPC__SQL_ADD_NETWORK] =
        "INSERT INTO network (name, graph, weights, bytes, parts, source,"
        " version, unix_seconds) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [SPC__SQL_ADD_PART] =
        "INSERT INTO network_part (network, part, bytes) VALUES (?1, ?2, ?3)",
    [SPC__SQL_FIND_NETWORK] =
        "SELECT " SPC__NETWORK_COLUMNS " WHERE n.name = ?1",
    [SPC__SQL_GET_PARTS] =
        "SELECT w.part, w.bytes, x.digest = " SPC__DIGEST_PART SPC__FROM_PARTS
        " WHERE w.network = ?1 ORDER BY w.part",
    [SPC__SQL_ALL_NETWORKS] = "SELECT " SPC__NETWORK_COLUMNS " ORDER BY n.name",
    [SPC__SQL_DROP_PARTS] = "DELETE FROM network_part WHERE network = ?1",
    [SPC__SQL_DROP_NETWORK] = "DELETE FROM network WHERE id = ?1",
    [SPC__SQL_SEAL_NETWORK] =
        "REPLACE INTO seal SELECT 'network', n.id, " SPC__DIGEST_NETWORK ", ''"
        " FROM network AS n WHERE n.id = ?1",
    [SPC__SQL_SEAL_PART] =
        "REPLACE INTO seal SELECT 'part', w.id, " SPC__DIGEST_PART ", ''"
        " FROM network_part AS w JOIN seal AS s"
        " ON s.kind = 'network' AND s.record = w.network WHERE w.id = ?1",
    [SPC__SQL_DROP_SEALS] =
        "DELETE FROM seal WHERE (kind = 'network' AND record = ?1) OR"
        " (kind = 'part' AND record IN"
        "  (SELECT id FROM network_part WHERE network = ?1))",
    [SPC__SQL_FREE_NETWORK] =
        "DELETE FROM quarantine WHERE kind = 'network' AND record = ?1",
    [SPC__SQL_SET_ASIDE] =
        "SELECT q.reason FROM problem AS p LEFT JOIN choice AS c"
        " ON c.problem = p.id JOIN quarantine AS q"
        " ON (q.kind = 'choice' AND q.record = p.id)"
        " OR (q.kind = 'trial' AND q.record = c.trial)" PROBLEM_IS,

    /* From each device to the next, as DISTINCT would read all problems. */
    [SPC__SQL_ALL_DEVICES] =
        "WITH RECURSIVE each(device) AS (SELECT min(device) FROM problem"
        " UNION ALL SELECT (SELECT min(device) FROM problem"
        "  WHERE device > each.device) FROM each WHERE device IS NOT NULL)"
        " SELECT device, (SELECT target FROM problem AS p"
        "  WHERE p.device = each.device LIMIT 1)"
        " FROM each WHERE device IS NOT NULL",
};

/* The meaning of each result, and how to correct it. */
static const struct {
    int rc; /* primary result code; an extended one takes precedence */
    const char *says;
} causes[] = {
    {SQLITE_FULL,
     "the disk is full; free some space (earlier records are kept)"},
    {SQLITE_READONLY, "it is read-only; make the file and its folder writable, "
                      "or name another file"},
    {SQLITE_BUSY, "another process keeps it locked; wait for it to end, or "
                  "name another file"},
    {SQLITE_CORRUPT, "it is damaged; move it away and tune again, or restore "
                     "a copy"},
    {SQLITE_NOTADB, "it is not a SQLite database, or it is damaged; name "
                    "another file, or restore a copy"},
    {SQLITE_PROTOCOL, "its file system does not lock files properly (a network "
                      "share?); put it on a local disk"},
    {SQLITE_CANTOPEN, "the file or its journal cannot be opened; make both and "
                      "their folder accessible, or name another file"},
    {SQLITE_PERM,
     "access was refused; make the file and its folder accessible"},
    {SQLITE_IOERR, "its disk or file system failed; check its space and its "
                   "health (earlier records are kept)"},
    {SQLITE_ERROR, "its tables are not those of this version; move it away and "
                   "tune again, or restore a copy"},
    {SQLITE_READONLY_ROLLBACK,
     "another process left or holds its journal; open the file once with write "
     "access: spctune db ls --database FILE"},
};

/* Returns SQLite's message. If the last call failed with this result, it
 * includes the names of the objects involved. */
static const char *words_of(const spc__layer *layer, int rc)
{
    if (layer->db != NULL && (sqlite3_errcode(layer->db) & 0xff) == (rc & 0xff))
        return sqlite3_errmsg(layer->db);
    return sqlite3_errstr(rc);
}

spc_status spc__layer_fail(const spc__layer *layer, int rc, const char *action,
                           spc_error *error)
{
    const char *says = "SQLite failed";
    int primary = rc & 0xff;

    if (primary == SQLITE_NOMEM)
        return spc__fail(error, SPC_ENOMEM, "cannot %s '%s': out of memory",
                         action, layer->path);
    for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++)
        /* No break: extended codes come last in the table, and win. */
        if (causes[i].rc == primary || causes[i].rc == rc)
            says = causes[i].says;

    int cause = layer->db ? sqlite3_system_errno(layer->db) : 0;
    /* SQLite reports these as a failed write. */
    if (primary == SQLITE_IOERR && (cause == ENOSPC || cause == EDQUOT))
        says = causes[0].says;
    bool has_cause =
        cause != 0 && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN);
    return spc__fail(error, SPC_EDB, "cannot %s '%s': %s [SQLite %d: %s%s%s]",
                     action, layer->path, says, rc, words_of(layer, rc),
                     has_cause ? ", " : "", has_cause ? strerror(cause) : "");
}

spc_status spc__layer_statement(sqlite3_stmt **out, spc__layer *layer,
                                spc__sql id, spc_error *error)
{
    /* Prepares a statement at its first use and keeps it, as most runs use only
     * a few. */
    *out = layer->statements[id];
    if (*out != NULL)
        return SPC_OK;
    int rc =
        sqlite3_prepare_v3(layer->db, texts[id], -1, SQLITE_PREPARE_PERSISTENT,
                           &layer->statements[id], NULL);
    *out = layer->statements[id];
    return rc == SQLITE_OK ? SPC_OK : spc__layer_fail(layer, rc, "use", error);
}

spc_status spc__layer_prepare(sqlite3_stmt **out, spc__layer *layer,
                              const char *sql, const char *action,
                              spc_error *error)
{
    int rc = sqlite3_prepare_v2(layer->db, sql, -1, out, NULL);

    return rc == SQLITE_OK ? SPC_OK : spc__layer_fail(layer, rc, action, error);
}

bool spc__layer_has(spc__layer *layer, const char *sql, const char *text)
{
    sqlite3_stmt *stmt = NULL;
    bool found = false;

    if (spc__layer_prepare(&stmt, layer, sql, "read", NULL) == SPC_OK) {
        if (text != NULL)
            spc__bind_text(stmt, 1, text);
        found = sqlite3_step(stmt) == SQLITE_ROW;
    }
    sqlite3_finalize(stmt);
    return found;
}

/* Also clears the bindings, which point into memory of other objects. */
void spc__sql_done(sqlite3_stmt *stmt)
{
    sqlite3_reset(stmt);
    if (stmt != NULL)
        sqlite3_clear_bindings(stmt);
}

spc_status spc__layer_step(bool *row, spc__layer *layer, sqlite3_stmt *stmt,
                           const char *action, spc_error *error)
{
    int rc = sqlite3_step(stmt);
    *row = rc == SQLITE_ROW;
    if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        return SPC_OK;
    return spc__layer_fail(layer, rc, action, error);
}

/* SQLite keeps its lock on a file until the last statement has ended. */
static void begin_reading(spc__layer *layer)
{
    sqlite3_stmt *stmt;

    /* The state is unknown until the file has been read, so nothing in memory
     * counts as fresh. */
    layer->seen = (spc__file_version){-1, -1};
    if (spc__layer_statement(&stmt, layer, SPC__SQL_DATA_VERSION, NULL) ==
            SPC_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        layer->seen = (spc__file_version){sqlite3_column_int64(stmt, 0),
                                          sqlite3_total_changes(layer->db)};
    else
        sqlite3_reset(stmt);
}

void spc__cache_begin_reading(spc__cache *cache)
{
    for (int i = 0; i < cache->count; i++)
        begin_reading(&cache->layers[i]);
}

void spc__cache_end_reading(spc__cache *cache)
{
    for (int i = 0; i < cache->count; i++) {
        sqlite3_reset(cache->layers[i].statements[SPC__SQL_DATA_VERSION]);
        cache->layers[i].seen = (spc__file_version){-1, -1};
    }
}

spc_status spc__layer_run(spc__layer *layer, sqlite3_stmt *stmt,
                          spc_error *error)
{
    bool row;
    spc_status status = spc__layer_step(&row, layer, stmt, "write", error);
    spc__sql_done(stmt);
    return status;
}

spc_status spc__layer_run_on(spc__layer *layer, spc__sql id, int64_t row,
                             spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status = spc__layer_statement(&stmt, layer, id, error);

    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, row);
    return spc__layer_run(layer, stmt, error);
}

spc_status spc__layer_execute(spc__layer *layer, const char *const *sql,
                              const char *action, spc_error *error)
{
    int rc = SQLITE_OK;

    for (; *sql != NULL && rc == SQLITE_OK; sql++)
        rc = sqlite3_exec(layer->db, *sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? SPC_OK : spc__layer_fail(layer, rc, action, error);
}

/* Binding a pointer with SQLITE_STATIC allocates nothing and cannot fail for an
 * existing parameter. */
void spc__bind_text(sqlite3_stmt *stmt, int i, const char *text)
{
    sqlite3_bind_text(stmt, i, text, -1, SQLITE_STATIC);
}

void spc__bind_real(sqlite3_stmt *stmt, int i, double value)
{
    sqlite3_bind_double(stmt, i, value);
}

double spc__column_real(sqlite3_stmt *stmt, int i)
{
    if (sqlite3_column_type(stmt, i) == SQLITE_NULL)
        /* SQLite has no NaN, so NaN is stored as NULL. */
        return NAN;
    return sqlite3_column_double(stmt, i);
}

void spc__column_text(char *out, size_t size, sqlite3_stmt *stmt, int i)
{
    const char *text = (const char *)sqlite3_column_text(stmt, i);
    size_t length = text != NULL ? (size_t)sqlite3_column_bytes(stmt, i) : 0;

    /* A text that is too long is cut. */
    if (length >= size)
        length = size - 1;
    if (length > 0)
        memcpy(out, text, length);
    out[length] = '\0';
}

spc_status spc__column_attrs(spc__attrs *out, const spc__layer *layer,
                             sqlite3_stmt *stmt, int i, spc_error *error)
{
    const char *text = (const char *)sqlite3_column_text(stmt, i);
    if (text == NULL)
        return spc__layer_fail(layer,
                               sqlite3_errcode(layer->db) == SQLITE_NOMEM
                                   ? SQLITE_NOMEM
                                   : SQLITE_CORRUPT,
                               "read", error);
    if (spc__attrs_parse(out, text, error) == SPC_OK)
        return SPC_OK;
    spc__fail_prefix(error, "cannot read '%s', one of its records is damaged: ",
                     layer->path);
    if (error != NULL)
        error->status = SPC_EDB;
    return SPC_EDB;
}

spc_status spc__cache_writer(spc__layer **out, spc__cache *cache,
                             spc_error *error)
{
    *out = cache->has_user ? &cache->layers[0] : NULL;
    if (*out == NULL)
        return spc__fail(error, SPC_EDB,
                         "cannot store: no writable database file is open; "
                         "name one");
    if ((*out)->refused.status != SPC_OK)
        return spc__fail(error, (*out)->refused.status, "%s",
                         (*out)->refused.text);
    if (!(*out)->writable)
        return spc__layer_fail(*out, SQLITE_READONLY, "write", error);
    return SPC_OK;
}

static spc_status run_plain(spc__layer *layer, spc__sql id, spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status = spc__layer_statement(&stmt, layer, id, error);
    return status == SPC_OK ? spc__layer_run(layer, stmt, error) : status;
}

spc_status spc__layer_begin(spc__layer *layer, spc_error *error)
{
    return run_plain(layer, SPC__SQL_BEGIN, error);
}

/* After a full disk the transaction may already be rolled back. A failed commit
 * leaves it open. */
spc_status spc__layer_end(spc__layer *layer, spc_status status,
                          spc_error *error)
{
    if (status == SPC_OK)
        status = run_plain(layer, SPC__SQL_COMMIT, error);
    if (status != SPC_OK && !sqlite3_get_autocommit(layer->db))
        sqlite3_exec(layer->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}
