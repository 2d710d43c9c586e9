/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.c - checks the tables of each file, then every record by its seal.
 *
 * Only this library writes the tables, but a file can be edited or made by
 * another program. Each missing, different or additional object is named, which
 * SQLite's "logic error" does not. A database in memory has the expected
 * tables; the objects of the file are copied to it and compared there.
 */
#include "cache/cache_internal.h"

#include "base/error.h"
#include "cache/pack/manifest.h"
#include <stdio.h>
#include <string.h>

typedef struct verification {
    spc_status (*each)(const spc__fault *fault, void *payload);
    void *payload;
    int64_t checked, listed; /* listed records that were found */
} verification;

static spc_status report(verification *v, const spc__layer *layer,
                         const char *kind, int64_t record, const char *reason)
{
    spc__fault fault = {layer->path, kind, record, reason};

    return kind != NULL && reason != NULL ? v->each(&fault, v->payload)
                                          : SPC_ENOMEM;
}

/* ---- tables -------------------------------------------------------------- */

/* All objects and the declaration of each column (column '': the object
 * itself), except SQLite's own objects. */
#define THINGS                                                                 \
    "SELECT m.type AS type, m.name AS name, '' AS col, '' AS declared"         \
    " FROM main.sqlite_master AS m WHERE m.name NOT GLOB 'sqlite_*' UNION ALL" \
    " SELECT m.type, m.name, c.name, c.type FROM main.sqlite_master AS m"      \
    " JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table'"              \
    " AND m.name NOT GLOB 'sqlite_*'"

/*
 * A message for each kind of difference, and whether the file remains usable.
 * Additional columns and objects are harmless, since our statements name their
 * columns.
 */
static const char differences[] =
    "WITH ours AS (" THINGS ") SELECT usable, said FROM ("
    "SELECT 0 AS usable, o.name, o.col, CASE"
    " WHEN t.name IS NOT NULL AND t.type <> o.type THEN"
    "  printf('''%s'' is a %s, not a %s', o.name, t.type, o.type)"
    " WHEN t.name IS NOT NULL AND t.declared <> o.declared THEN"
    "  printf('the column ''%s'' of the table ''%s'' is declared as ''%s'', "
    "not ''%s''', o.col, o.name, t.declared, o.declared)"
    " WHEN t.name IS NULL AND o.col = '' THEN"
    "  printf('the %s ''%s'' is missing', o.type, o.name)"
    " WHEN t.name IS NULL AND w.type = 'table' THEN"
    "  printf('the table ''%s'' has no column ''%s''', o.name, o.col)"
    " END AS said FROM ours AS o"
    " LEFT JOIN temp.there AS t ON t.name = o.name AND t.col = o.col"
    " LEFT JOIN temp.there AS w ON w.name = o.name AND w.col = ''"
    " UNION ALL "
    "SELECT 1, t.name, t.col, printf('the %s ''%s'' is unknown', t.type,"
    " t.name) FROM temp.there AS t WHERE t.col = ''"
    " AND NOT EXISTS (SELECT 1 FROM ours AS o WHERE o.name = t.name)"
    ") WHERE said IS NOT NULL ORDER BY usable, name, col";

/* Creates a database in memory with the tables of this version, and a table for
 * the objects of the file. */
static int create_ours(sqlite3 **out)
{
    int rc = sqlite3_open(":memory:", out);

    for (const char *const *sql = spc__schema_creation;
         *sql != NULL && rc == SQLITE_OK; sql++)
        rc = sqlite3_exec(*out, *sql, NULL, NULL, NULL);
    return rc != SQLITE_OK
               ? rc
               : sqlite3_exec(*out,
                              "CREATE TEMP TABLE there (type TEXT, name TEXT,"
                              " col TEXT, declared TEXT)",
                              NULL, NULL, NULL);
}

static int copy_row(sqlite3_stmt *to, sqlite3_stmt *from)
{
    for (int i = 0; i < sqlite3_column_count(from); i++)
        sqlite3_bind_value(to, i + 1, sqlite3_column_value(from, i));
    sqlite3_step(to);
    return sqlite3_reset(to);
}

/* Copies what the file has to the database in memory. */
static int copy_things(sqlite3 *ours, sqlite3 *file)
{
    sqlite3_stmt *from = NULL, *to = NULL;
    int rc = sqlite3_prepare_v2(file, THINGS, -1, &from, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(
            ours, "INSERT INTO temp.there VALUES (?, ?, ?, ?)", -1, &to, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(from)) == SQLITE_ROW)
        rc = copy_row(to, from);
    sqlite3_finalize(from);
    sqlite3_finalize(to);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Reports each difference. *usable is false if one of our tables or columns is
 * missing or of another kind. */
static spc_status verify_tables(bool *usable, verification *v,
                                spc__layer *layer, spc_error *error)
{
    sqlite3 *ours = NULL;
    sqlite3_stmt *stmt = NULL;
    spc_status status = SPC_OK;
    int rc = create_ours(&ours);

    *usable = true;
    if (rc == SQLITE_OK)
        rc = copy_things(ours, layer->db);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(ours, differences, -1, &stmt, NULL);
    while (rc == SQLITE_OK && status == SPC_OK &&
           (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        *usable &= sqlite3_column_int(stmt, 0) != 0;
        status = report(v, layer, "table", 0,
                        (const char *)sqlite3_column_text(stmt, 1));
        rc = SQLITE_OK;
    }
    sqlite3_finalize(stmt);
    sqlite3_close(ours);
    return rc == SQLITE_OK || rc == SQLITE_DONE
               ? status
               : spc__layer_fail(layer, rc, "verify", error);
}

/* ---- records ------------------------------------------------------------- */

/* Kind, row, and whether the record is intact (NULL: unknown). */
#define QUESTION(kind, row, s, digest, from)                                   \
    "SELECT '" kind "', " row ", " s ".digest = " digest from,
static const char *const questions[] = {
    SPC__SEALED(QUESTION)
    /* A seal without a choice means a lost choice, because removing a choice
     * also removes its seal. */
    "SELECT 'choice', record, 0 FROM seal WHERE kind = 'choice'"
    " AND record NOT IN (SELECT problem FROM choice)",
    "SELECT 'code', a.id, a.digest = spc_sha256(a.code) FROM artefact AS a",
};
#undef QUESTION

/* Counts a record, and reports it if it is damaged. The quarantine lists its
 * records with their reasons. */
static spc_status verify_row(verification *v, spc__layer *layer,
                             sqlite3_stmt *stmt)
{
    bool sealed = sqlite3_column_type(stmt, 2) != SQLITE_NULL;
    const char *kind = (const char *)sqlite3_column_text(stmt, 0);
    int64_t record = sqlite3_column_int64(stmt, 1);
    char aside[160];

    v->checked++;
    if (sealed && sqlite3_column_int(stmt, 2) != 0) {
        /* The code of an artefact is checked by a second query on the same
         * record. */
        v->listed += kind != NULL && strcmp(kind, "code") != 0;
        return SPC_OK;
    }
    snprintf(aside, sizeof(aside),
             "SELECT 1 FROM quarantine WHERE kind = ?1 AND record = %lld",
             (long long)record);
    return spc__layer_has(layer, aside, kind)
               ? SPC_OK
               : report(v, layer, kind, record, spc__seal_fault(layer, sealed));
}

static spc_status quarantine_row(verification *v, spc__layer *layer,
                                 sqlite3_stmt *stmt)
{
    return report(v, layer, (const char *)sqlite3_column_text(stmt, 0),
                  sqlite3_column_int64(stmt, 1),
                  (const char *)sqlite3_column_text(stmt, 2));
}

/* Calls `row` for each row of a query. */
static spc_status ask(verification *v, spc__layer *layer, const char *question,
                      spc_status (*row)(verification *v, spc__layer *layer,
                                        sqlite3_stmt *stmt),
                      spc_error *error)
{
    sqlite3_stmt *stmt = NULL;
    bool more = true;
    spc_status status =
        spc__layer_prepare(&stmt, layer, question, "verify", error);

    while (status == SPC_OK && more) {
        status = spc__layer_step(&more, layer, stmt, "verify", error);
        if (status == SPC_OK && more)
            status = row(v, layer, stmt);
    }
    sqlite3_finalize(stmt);
    return status;
}

/* Checks that no listed record is missing. Removing records does not alter the
 * others, so their seals cannot show it. */
static spc_status verify_manifest(verification *v, const spc__layer *layer)
{
    const char *slash = strrchr(layer->path, '/');
    const char *name = slash != NULL ? slash + 1 : layer->path;
    int64_t missing =
        layer->manifest != NULL
            ? spc__manifest_count(layer->manifest, name) - v->listed
            : 0;

    return missing == 0 ? SPC_OK
                        : report(v, layer, "manifest", missing,
                                 "records that it lists are missing");
}

spc_status spc__cache_verify(spc__cache *cache, int64_t *checked,
                             spc_status (*each)(const spc__fault *fault,
                                                void *payload),
                             void *payload, spc_error *error)
{
    enum { QUESTIONS = sizeof(questions) / sizeof(*questions) };
    verification v = {each, payload, 0, 0};
    spc_status status = SPC_OK;

    for (int i = 0; i < cache->count && status == SPC_OK; i++) {
        bool usable = true;
        v.listed = 0;
        status = verify_tables(&usable, &v, &cache->layers[i], error);
        /* The queries below would fail on the missing columns. */
        if (!usable)
            continue;
        for (int q = 0; q < QUESTIONS && status == SPC_OK; q++)
            status =
                ask(&v, &cache->layers[i], questions[q], verify_row, error);
        if (status == SPC_OK)
            status = verify_manifest(&v, &cache->layers[i]);
        if (status == SPC_OK)
            status = ask(&v, &cache->layers[i],
                         "SELECT kind, record, reason FROM quarantine",
                         quarantine_row, error);
    }
    *checked = v.checked;
    return status;
}
