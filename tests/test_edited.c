/*
 * test_edited.c - a database that somebody has edited by hand: what is wrong is
 * named, with the file, and what is sound is still had.
 */
#include "cache_rig.h"

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
    const char *says; /* the whole of it; "": nothing is wrong */
} tables[] = {
    {"DROP TABLE fact", "table: the table 'fact' is missing\n"},
    {"DROP TABLE lease", "table: the table 'lease' is missing\n"},
    {"DROP INDEX problem_family",
     "table: the index 'problem_family' is missing\n"},
    {"ALTER TABLE trial RENAME COLUMN launch TO lunch",
     "table: the table 'trial' has no column 'launch'\n"},
    {"ALTER TABLE trial RENAME TO other",
     "table: the table 'trial' is missing\n"
     "table: the table 'other' is none of ours\n"},
    {"CREATE TABLE mine (a)", "table: the table 'mine' is none of ours\n"},
    {"CREATE TRIGGER late AFTER INSERT ON trial BEGIN DELETE FROM choice; END",
     "table: the trigger 'late' is none of ours\n"},
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

/* The name of what SQLite misses is in the sentence of who needs it. */
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

/* ---- records ------------------------------------------------------------- */

static spc_status count_row(const spc__cache_row *row, void *payload)
{
    ck_assert(!row->has_choice || row->choice.samples < 1000);
    ++*(int *)payload;
    return SPC_OK;
}

static int listed(spc_status expected)
{
    int count = 0;
    spc__cache *cache = open_user("edited.db");

    error.text[0] = '\0';
    assert_status(spc__cache_each(cache, count_row, &count, &error), expected);
    spc__cache_close(cache);
    return count;
}

/* Of one record that is listed. */
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

    tcase_add_checked_fixture(part, make_folder, remove_folder);
    tcase_add_loop_test(part, what_is_wrong_with_the_tables_is_named, 0,
                        LENGTH(tables));
    tcase_add_test(part, who_needs_what_is_missing_names_it);
    tcase_add_loop_test(part,
                        a_record_that_was_edited_is_named_and_hides_no_other, 0,
                        LENGTH(records));
    suite_add_tcase(all, part);
    return all;
}

int main(void)
{
    return run_suite(suite());
}
