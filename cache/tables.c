/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables.c - checks whether the tables of a file match those of this version.
 *
 * Only this library writes them, but a file can be edited or made by another
 * program. The check names each missing, different or additional object, and
 * the file, which SQLite's "logic error" does not. A database in memory has the
 * expected tables; the objects of the file are copied to it and compared there.
 */
#include "cache/cache_internal.h"

#include <string.h>

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

static spc_status
report(bool *usable, const spc__layer *layer, sqlite3_stmt *stmt,
       spc_status (*each)(const spc__fault *fault, void *payload),
       void *payload)
{
    spc__fault fault = {layer->path, "table", 0,
                        (const char *)sqlite3_column_text(stmt, 1)};

    *usable &= sqlite3_column_int(stmt, 0) != 0;
    return fault.reason != NULL ? each(&fault, payload) : SPC_ENOMEM;
}

spc_status spc__tables_verify(bool *usable, spc__layer *layer,
                              spc_status (*each)(const spc__fault *fault,
                                                 void *payload),
                              void *payload, spc_error *error)
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
        status = report(usable, layer, stmt, each, payload);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(stmt);
    sqlite3_close(ours);
    return rc == SQLITE_OK || rc == SQLITE_DONE
               ? status
               : spc__layer_fail(layer, rc, "verify", error);
}
