/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_edited.c - a database that was edited by hand: errors are reported with
 * the file's name, and intact records remain available.
 */
#include "harness/cache_harness.h"

#include <sys/stat.h>

Suite *suite(void);

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

static void edit(const char *name, const char *sql)
{
    sqlite3 *db = NULL;
    char *message = NULL;

    ck_assert_int_eq(sqlite3_open(at(name), &db), SQLITE_OK);
    sqlite3_create_collation(db, "spc_buckets", SQLITE_UTF8, NULL,
                             spc__compare_buckets);
    sqlite3_exec(db, sql, NULL, NULL, &message);
    ck_assert_msg(message == NULL, "%s: %s", sql, message);
    sqlite3_close(db);
}

static void make(const char *name)
{
    uint64_t seed = 5;

    make_drawn(name, &seed, 40);
}

/* ---- tables -------------------------------------------------------------- */

static spc_status note_fault(const spc__fault *fault, void *payload)
{
    spc__buf_printf(payload, "%s: %s\n", fault->kind, fault->reason);
    ck_assert_ptr_nonnull(strstr(fault->file, "edited.db"));
    return SPC_OK;
}

static const struct {
    const char *sql;
    const char *says; /* the whole report; "": no fault */
} tables[] = {
    {"DROP TABLE fact", "table: the table 'fact' is missing\n"},
    {"DROP TABLE lease", "table: the table 'lease' is missing\n"},
    {"DROP INDEX problem_family",
     "table: the index 'problem_family' is missing\n"},
    {"ALTER TABLE trial RENAME COLUMN launch TO lunch",
     "table: the table 'trial' has no column 'launch'\n"},
    {"ALTER TABLE trial RENAME TO other",
     "table: the table 'trial' is missing\n"
     "table: the table 'other' is unknown\n"},
    {"CREATE TABLE mine (a)", "table: the table 'mine' is unknown\n"},
    {"CREATE TRIGGER late AFTER INSERT ON trial BEGIN DELETE FROM choice; END",
     "table: the trigger 'late' is unknown\n"},
    {"DROP TABLE lease; CREATE VIEW lease AS SELECT 1 AS work",
     "table: 'lease' is a view, not a table\n"},
    {"DROP TABLE lease; CREATE TABLE lease (work TEXT PRIMARY KEY NOT NULL,"
     " owner BLOB, until INTEGER NOT NULL)",
     "table: the column 'owner' of the table 'lease' is declared as 'BLOB', "
     "not 'TEXT'\n"},
    {"ALTER TABLE trial ADD COLUMN more TEXT", ""},
    {"PRAGMA optimize; ANALYZE", ""},
};

START_TEST(what_is_wrong_with_the_tables_is_named)
{
    spc__buf said = SPC__BUF_INIT;
    int64_t checked;

    make("edited.db");
    edit("edited.db", tables[_i].sql);
    spc__cache *cache = open_user("edited.db");
    assert_ok(spc__cache_verify(cache, &checked, note_fault, &said, &error));
    spc__cache_close(cache);
    ck_assert_str_eq(spc__buf_text(&said), tables[_i].says);
    spc__buf_release(&said);
}
END_TEST

/* The message names the object that SQLite misses. */
START_TEST(who_needs_what_is_missing_names_it)
{
    make("edited.db");
    edit("edited.db", "ALTER TABLE trial RENAME COLUMN note TO remark");
    spc__cache *cache = open_user("edited.db");
    spc__choice found;
    int got = 0;
    uint64_t seed = 5;
    spc__problem_key key = draw_key(&seed);
    assert_status(spc__cache_find_choices(cache, &key, &found, 1, &got, &error),
                  SPC_EDB);
    ck_assert_ptr_nonnull(strstr(error.text, "edited.db"));
    ck_assert_ptr_nonnull(strstr(error.text, "note"));
    spc__cache_close(cache);
}
END_TEST

static spc_status count_row(const spc__cache_row *row, void *payload)
{
    ck_assert(!row->has_choice || row->choice.samples < 1000);
    ++*(int *)payload;
    return SPC_OK;
}

/* ---- hostile files ------------------------------------------------------- */

/* Each statement plants a view with endless rows, or a trigger that makes
 * hidden changes. */
static const char *const traps[] = {
    "ALTER TABLE choice RENAME TO old; CREATE VIEW choice AS WITH RECURSIVE"
    " many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many)"
    " SELECT n AS problem, -n AS trial, '' AS reason, 1 AS provenance,"
    " 1 AS unix_seconds FROM many",
    "ALTER TABLE problem RENAME TO old; CREATE VIEW problem AS WITH RECURSIVE"
    " many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many)"
    " SELECT -n AS id, '' AS device, '' AS layer, '' AS target, '' AS buckets,"
    " '' AS family FROM many",
    "ALTER TABLE quarantine RENAME TO old; CREATE VIEW quarantine AS"
    " WITH RECURSIVE many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many)"
    " SELECT '' AS kind, n AS record, '' AS reason, 1 AS unix_seconds FROM"
    " many",
    "DROP TABLE seal; CREATE TABLE seal (kind TEXT, record INTEGER, identity"
    " TEXT, digest TEXT AS (hex(zeroblob(999999999))))",
    "ALTER TABLE trial DROP COLUMN note; ALTER TABLE trial ADD COLUMN note TEXT"
    " AS (printf('%.*c', 999999999, 'x'))",
};

static void look_everywhere(spc__cache *cache)
{
    spc__buf said = SPC__BUF_INIT;
    spc__choice found;
    int64_t checked;
    int got, listed = 0;

    for (uint64_t seed = 5; seed < 9; seed++) {
        uint64_t drawn = seed;
        spc__problem_key key = draw_key(&drawn);
        spc__cache_find_choices(cache, &key, &found, 1, &got, &error);
        spc__cache_find_exact(cache, &key, &found, &(bool){false}, &error);
    }
    spc__cache_each(cache, count_row, &listed, &error);
    spc__cache_verify(cache, &checked, note_fault, &said, &error);
    spc__buf_release(&said);
}

START_TEST(rows_without_an_end_are_not_waited_for)
{
    const char *file = at("edited.db");
    spc__cache *cache = NULL;

    make("edited.db");
    edit("edited.db", traps[_i]);
    if (spc__cache_open(&cache, NULL, &file, 1, &error) == SPC_OK)
        look_everywhere(cache);
    spc__cache_close(cache);
    if (spc__cache_open(&cache, file, NULL, 0, &error) == SPC_OK)
        look_everywhere(cache);
    spc__cache_close(cache);
}
END_TEST

START_TEST(a_trigger_of_a_stranger_does_not_fire)
{
    spc__provenance from = {.version = "0.1.0", .unix_seconds = 1};
    uint64_t seed = 77;
    int before = 0, after = 0;

    make("edited.db");
    edit("edited.db", "CREATE TRIGGER late AFTER INSERT ON trial BEGIN"
                      " DELETE FROM choice; END;"
                      "CREATE TRIGGER soon BEFORE INSERT ON problem BEGIN"
                      " DELETE FROM choice; END");
    spc__cache *cache = open_user("edited.db");
    assert_ok(spc__cache_each(cache, count_row, &before, &error));
    spc__problem_key key = draw_key(&seed);
    strcpy(key.device, "a new one");
    spc__trial trial = draw_trial(&seed);
    assert_ok(spc__cache_put_trial(cache, &key, &trial, &from, &error));
    assert_ok(spc__cache_each(cache, count_row, &after, &error));
    ck_assert_int_ge(after, before);
    spc__cache_close(cache);
}
END_TEST

/* Opening a pipe blocks until a process writes to it. */
START_TEST(a_pipe_beside_a_file_is_not_waited_for)
{
    static const char *const suffixes[] = {"-wal", "-journal", "-shm"};
    const char *file = at("edited.db");
    spc__cache *cache = NULL;
    char beside[450];

    make("edited.db");
    snprintf(beside, sizeof(beside), "%s%s", file, suffixes[_i]);
    unlink(beside);
    ck_assert_int_eq(mkfifo(beside, 0600), 0);
    assert_status(spc__cache_open(&cache, NULL, &file, 1, &error), SPC_EDB);
    ck_assert_ptr_nonnull(strstr(error.text, "is not a plain file"));
    assert_status(spc__cache_open(&cache, file, NULL, 0, &error), SPC_EDB);
    ck_assert_ptr_nonnull(strstr(error.text, suffixes[_i]));
}
END_TEST

/* ---- records ------------------------------------------------------------- */

static int listed(spc_status expected)
{
    int count = 0;
    spc__cache *cache = open_user("edited.db");

    error.text[0] = '\0';
    assert_status(spc__cache_each(cache, count_row, &count, &error), expected);
    spc__cache_close(cache);
    return count;
}

/* Selects the trial of one choice. */
#define CHOSEN "(SELECT trial FROM choice ORDER BY problem LIMIT 1)"
static const char *const records[] = {
    "UPDATE trial SET samples = 4711 WHERE id = " CHOSEN,
    "UPDATE trial SET samples = 'many' WHERE id = " CHOSEN,
    "UPDATE trial SET status = 'great' WHERE id = " CHOSEN,
    "UPDATE trial SET median_us = 'fast' WHERE id = " CHOSEN,
    "UPDATE trial SET config = 'tile' WHERE id = " CHOSEN,
    "UPDATE trial SET features = 'rows=' WHERE id = " CHOSEN,
    "UPDATE choice SET reason = 'I like it' WHERE trial = " CHOSEN,
    "UPDATE choice SET trial = 9999 WHERE trial = " CHOSEN,
    "UPDATE problem SET layer = 'nonsense' WHERE id ="
    " (SELECT problem FROM choice ORDER BY problem LIMIT 1)",
    "DELETE FROM seal WHERE kind = 'choice' AND record ="
    " (SELECT problem FROM choice ORDER BY problem LIMIT 1)",
};

START_TEST(a_record_that_was_edited_is_named_and_hides_no_other)
{
    make("edited.db");
    int whole = listed(SPC_OK);
    ck_assert_int_gt(whole, 2);
    edit("edited.db", records[_i]);
    ck_assert_int_eq(listed(SPC_EDB), whole - 1);
    ck_assert_ptr_nonnull(strstr(error.text, "edited.db"));
    ck_assert_msg(strstr(error.text, "cannot use trial ") != NULL ||
                      strstr(error.text, "cannot use choice ") != NULL,
                  "%s", error.text);
}
END_TEST

Suite *suite(void)
{
    Suite *all = suite_create("edited");
    TCase *part = tcase_create("edited");

    tcase_add_checked_fixture(part, make_fast_folder, remove_folder);
    tcase_add_loop_test(part, what_is_wrong_with_the_tables_is_named, 0,
                        LENGTH(tables));
    tcase_add_test(part, who_needs_what_is_missing_names_it);
    tcase_add_loop_test(part,
                        a_record_that_was_edited_is_named_and_hides_no_other, 0,
                        LENGTH(records));
    tcase_add_loop_test(part, rows_without_an_end_are_not_waited_for, 0,
                        LENGTH(traps));
    tcase_add_test(part, a_trigger_of_a_stranger_does_not_fire);
    tcase_add_loop_test(part, a_pipe_beside_a_file_is_not_waited_for, 0, 3);
    suite_add_tcase(all, part);
    return all;
}

int main(void)
{
    return run_suite(suite());
}
