/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables.c - checks whether the tables of a file match those of this version.
 *
 * Only this library writes them, but a file can be edited or made by another
 * program. The check names each missing, different or additional object, and
 * the file, which SQLite's "logic error" does not. The expected tables are
 * created in memory and queried in the same way.
 */
#include "cache/cache_internal.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* Lists all objects and the declaration of each column, except SQLite's own
 * objects. */
static const char things[] =
    "SELECT m.type, m.name, '', '' FROM sqlite_master AS m"
    " WHERE m.name NOT GLOB 'sqlite_*' UNION ALL "
    "SELECT m.type, m.name, c.name, c.type FROM sqlite_master AS m"
    " JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table'"
    " AND m.name NOT GLOB 'sqlite_*' ORDER BY 2, 3";

typedef struct thing {
    char *type, *name, *column, *declared; /* column "": the object itself */
} thing;

typedef struct thing_list {
    thing *at;
    int count, capacity;
} thing_list;

static void free_things(thing_list *all)
{
    for (int i = 0; i < all->count; i++) {
        free(all->at[i].type);
        free(all->at[i].name);
        free(all->at[i].column);
        free(all->at[i].declared);
    }
    free(all->at);
    *all = (thing_list){0};
}

static char *column_copy(sqlite3_stmt *stmt, int i)
{
    const char *text = (const char *)sqlite3_column_text(stmt, i);

    return strdup(text != NULL ? text : "");
}

static int add_thing(thing_list *all, sqlite3_stmt *stmt)
{
    if (all->count == all->capacity) {
        int capacity = all->capacity > 0 ? 2 * all->capacity : 64;
        thing *at = realloc(all->at, (size_t)capacity * sizeof(*at));
        if (at == NULL)
            return SQLITE_NOMEM;
        all->at = at;
        all->capacity = capacity;
    }
    thing *next = &all->at[all->count++];
    *next = (thing){column_copy(stmt, 0), column_copy(stmt, 1),
                    column_copy(stmt, 2), column_copy(stmt, 3)};
    return next->type && next->name && next->column && next->declared
               ? SQLITE_OK
               : SQLITE_NOMEM;
}

static int read_things(thing_list *all, sqlite3 *db)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, things, -1, &stmt, NULL);

    while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
        rc = add_thing(all, stmt);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int read_ours(thing_list *all)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open(":memory:", &db);

    for (const char *const *sql = spc__schema_creation;
         *sql != NULL && rc == SQLITE_OK; sql++)
        rc = sqlite3_exec(db, *sql, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = read_things(all, db);
    sqlite3_close(db);
    return rc;
}

static const thing *find(const thing_list *all, const thing *like)
{
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->at[i].name, like->name) == 0 &&
            strcmp(all->at[i].column, like->column) == 0)
            return &all->at[i];
    return NULL;
}

static void say_missing(spc__buf *out, const thing *ours, const thing *table)
{
    if (ours->column[0] == '\0')
        spc__buf_printf(out, "the %s '%s' is missing", ours->type, ours->name);
    else if (table != NULL && strcmp(table->type, "table") == 0)
        spc__buf_printf(out, "the table '%s' has no column '%s'", ours->name,
                        ours->column);
}

/* Reports an expected object that is missing or different. Empty if it
 * matches. */
static void compare_one(spc__buf *out, const thing *ours,
                        const thing_list *there)
{
    const thing *same = find(there, ours);
    thing itself = *ours;

    itself.column = "";
    if (same == NULL)
        say_missing(out, ours, find(there, &itself));
    else if (strcmp(same->type, ours->type) != 0)
        spc__buf_printf(out, "'%s' is a %s, not a %s", ours->name, same->type,
                        ours->type);
    else if (strcmp(same->declared, ours->declared) != 0)
        spc__buf_printf(out,
                        "the column '%s' of the table '%s' is declared as "
                        "'%s', not '%s'",
                        ours->column, ours->name, same->declared,
                        ours->declared);
}

/* Reports an unexpected object. Additional columns are harmless, since our
 * statements name their columns. */
static void compare_other(spc__buf *out, const thing *other,
                          const thing_list *ours)
{
    if (other->column[0] == '\0' && find(ours, other) == NULL)
        spc__buf_printf(out, "the %s '%s' is unknown", other->type,
                        other->name);
}

static spc_status report(spc__buf *said, const spc__layer *layer,
                         spc_status (*each)(const spc__fault *fault,
                                            void *payload),
                         void *payload)
{
    spc__fault fault = {layer->path, "table", 0, said->data};

    if (said->failed)
        return SPC_ENOMEM;
    if (said->length == 0)
        return SPC_OK;
    spc_status status = each(&fault, payload);
    spc__buf_clear(said);
    return status;
}

spc_status spc__tables_verify(bool *usable, spc__layer *layer,
                              spc_status (*each)(const spc__fault *fault,
                                                 void *payload),
                              void *payload, spc_error *error)
{
    thing_list ours = {0}, there = {0};
    spc__buf said = SPC__BUF_INIT;
    spc_status status = SPC_OK;
    int rc;

    *usable = true;
    if ((rc = read_ours(&ours)) != SQLITE_OK ||
        (rc = read_things(&there, layer->db)) != SQLITE_OK)
        status = spc__layer_fail(layer, rc, "verify", error);
    for (int i = 0; i < ours.count && status == SPC_OK; i++) {
        compare_one(&said, &ours.at[i], &there);
        *usable &= said.length == 0;
        status = report(&said, layer, each, payload);
    }
    for (int i = 0; i < there.count && status == SPC_OK; i++) {
        compare_other(&said, &there.at[i], &ours);
        status = report(&said, layer, each, payload);
    }
    spc__buf_release(&said);
    free_things(&ours);
    free_things(&there);
    return status;
}
