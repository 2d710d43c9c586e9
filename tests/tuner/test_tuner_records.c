/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tuner_records.c - how a run uses records: some cannot be stored, some
 * are damaged, and some decide ties.
 */
#include "harness/tune_harness.h"

#include <sys/stat.h>
#include <unistd.h>

/* ---- storing ------------------------------------------------------------- */

/* Locks the database like another process. */
static sqlite3 *lock(spc_ctx *ctx, const char *path)
{
    sqlite3 *locker = NULL;

    /* Sets a shorter timeout than a user's, to save time. */
    sqlite3_busy_timeout(ctx->cache->layers[0].db, 50);
    ck_assert_int_eq(sqlite3_open(path, &locker), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(locker, "BEGIN IMMEDIATE", NULL, NULL, NULL),
                     SQLITE_OK);
    return locker;
}

static void count_warnings(int level, const char *text, void *payload)
{
    (void)text;
    *(int *)payload += level >= SPC_LOG_WARNING;
}

static spc_ctx *open_counting(const char *database, int *warnings)
{
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");

    *warnings = 0;
    ctx->log = (spc__log){count_warnings, warnings};
    return ctx;
}

static const struct {
    spc_stage stage;
    const char *says;
} losses[] = {
    {SPC_STAGE_TIME, "the choice and "},
    {SPC_STAGE_BUILD, "12 compiled candidates could not be stored"},
};

/* A run that reads the substitute file has nothing to measure. */
static void assert_kept_beside(const char *database)
{
    spc_ctx_options with = SPC_CTX_OPTIONS_INIT;
    spc_tune_report report;
    spc_error error;
    recorded t;
    spc_tune_options options = options_for(&t);
    char kept[400];
    const char *layer = kept;
    spc_ctx *ctx;

    snprintf(kept, sizeof(kept), "%s.kept-%ld", database, (long)getpid());
    with.device = "cpu";
    with.database = database;
    with.layers = &layer;
    with.layer_count = 1;
    with.template_dir = TEMPLATES "plain";
    assert_ok(spc_ctx_create(&ctx, &with, &error), error.text);
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.known, 12);
    ck_assert_int_eq(report.timed, 0);
    spc_ctx_free(ctx);
}

START_TEST(what_cannot_be_stored_is_measured_reported_and_a_failure)
{
    char *database = make_database();
    int warnings;
    spc_ctx *ctx = open_counting(database, &warnings);
    sqlite3 *locker = lock(ctx, database);
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.stage = losses[_i].stage;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report), SPC_EDB);
    assert_says(spc_ctx_error(ctx), losses[_i].says);
    assert_says(spc_ctx_error(ctx), database);
    assert_says(spc_ctx_error(ctx), "keeps it locked; wait for it to end");
    /* The run compiles once for its candidate, and once for the kernel that
     * digests results. */
    ck_assert_int_eq(warnings, losses[_i].stage == SPC_STAGE_TIME ? 2 : 1);
    ck_assert_int_eq(report.candidates, 12);
    ck_assert_int_eq(t.count, 12);
    if (losses[_i].stage == SPC_STAGE_TIME) {
        ck_assert_str_ne(report.winner, "");
        ck_assert_int_eq(report.timed, 12);
    }
    sqlite3_close(locker);
    assert_says(spc_ctx_error(ctx), ".kept-");
    spc_ctx_free(ctx);
    if (losses[_i].stage == SPC_STAGE_TIME)
        assert_kept_beside(database);
    remove_database(database);
}
END_TEST

/*
 * Folders with the names of the journals make writing fail. As on a full disk,
 * the substitute file stays empty.
 */
START_TEST(a_file_beside_that_keeps_nothing_is_not_left)
{
    char *database = make_database(), kept[400], journal[420];
    int warnings;
    spc_ctx *ctx = open_counting(database, &warnings);
    sqlite3 *locker = lock(ctx, database);
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    snprintf(kept, sizeof(kept), "%s.kept-%ld", database, (long)getpid());
    snprintf(journal, sizeof(journal), "%s-wal", kept);
    mkdir(journal, 0700);
    snprintf(journal, sizeof(journal), "%s-journal", kept);
    mkdir(journal, 0700);
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report), SPC_EDB);
    ck_assert_ptr_null(strstr(spc_ctx_error(ctx), ".kept-"));
    ck_assert_int_ne(access(kept, F_OK), 0);
    rmdir(journal);
    snprintf(journal, sizeof(journal), "%s-wal", kept);
    rmdir(journal);
    sqlite3_close(locker);
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

START_TEST(what_a_passing_lock_kept_out_is_stored_at_the_end)
{
    char *database = make_database();
    int warnings;
    spc_ctx *ctx = open_counting(database, &warnings);
    spc_tune_report first, second;
    recorded t;
    spc_tune_options options = options_for(&t);

    t.locker = lock(ctx, database);
    assert_ok(tune(ctx, LAYER, SCENE, &options, &first), spc_ctx_error(ctx));
    ck_assert_int_eq(warnings, 2);
    sqlite3_close(t.locker);
    t.locker = NULL;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &second), spc_ctx_error(ctx));
    ck_assert_int_eq(second.compiled, 0);
    ck_assert_int_eq(second.known, first.timed);
    ck_assert_str_eq(second.winner, first.winner);
    check_plan(ctx, LAYER, SCENE, first.winner);
    remove_database(database);
}
END_TEST

static const struct {
    /* environment variables for the database's location */
    const char *variable;
    const char *value; /* NULL: unset */
    spc_status status;
} databases[] = {
    {"SPC_DATABASE", "newer", SPC_EDBVERSION},
    {"SPC_DATABASE", "", SPC_OK}, /* the run uses no database */
    {"HOME", NULL, SPC_EDB},
};

/* Makes a file that a later version may have written. */
static void make_newer(const char *path)
{
    spc_error error = {0};
    spc__cache *cache = NULL;
    sqlite3 *db = NULL;

    assert_ok(spc__cache_open(&cache, path, NULL, 0, &error), error.text);
    spc__cache_close(cache);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(
        sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
}

START_TEST(a_tune_without_its_database_fails_unless_none_was_wanted)
{
    char *database = make_database();
    const char *value = databases[_i].value;
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    unsetenv("SPC_DATABASE");
    unsetenv("XDG_CACHE_HOME");
    if (value != NULL && strcmp(value, "newer") == 0)
        make_newer(value = database);
    if (value != NULL)
        setenv(databases[_i].variable, value, 1);
    else
        unsetenv(databases[_i].variable);
    spc_ctx *ctx = open_ctx("cpu", NULL, TEMPLATES "plain");
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report),
                     databases[_i].status);
    ck_assert_str_ne(report.winner, "");
    if (databases[_i].status != SPC_OK)
        assert_says(spc_ctx_error(ctx), "could not be stored");
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

START_TEST(an_interrupted_tune_without_a_database_promises_nothing)
{
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "plain");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    t.cancel_after = 1;
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report),
                     SPC_EINTERRUPTED);
    assert_says(spc_ctx_error(ctx), "no database");
    spc_ctx_free(ctx);
}
END_TEST

/* ---- what is stored ------------------------------------------------------ */

/* Times all 12 candidates and chooses one, once for all tests below. */
static char tuned[300];

static void make_tuned(void)
{
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    snprintf(tuned, sizeof(tuned), "%s", make_database());
    spc_ctx *ctx = open_ctx("cpu", tuned, TEMPLATES "plain");
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.timed, 12);
    spc_ctx_free(ctx);
}

static void remove_tuned(void)
{
    remove_database(tuned);
}

static char *copy_of_tuned(void)
{
    spc__buf bytes = SPC__BUF_INIT;
    spc_error error = {0};
    char *path = make_database();

    assert_ok(spc__file_read(&bytes, tuned, 1 << 28, &error), error.text);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes.data, 1, bytes.length, file), bytes.length);
    fclose(file);
    spc__buf_release(&bytes);
    return path;
}

/* Runs SQL directly on the file. */
static void sql(const char *path, const char *text)
{
    sqlite3 *db = NULL;

    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(spc__seal_open(db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* Renews the seals of edited rows. */
static void reseal(const char *path)
{
    for (int i = 0; spc__seal_everything[i] != NULL; i++)
        sql(path, spc__seal_everything[i]);
}

/*
 * Makes all candidates slow, with the full number of samples, so that later
 * steps do not depend on the clock.
 */
#define SETTLED                                                                \
    "UPDATE trial SET median_us = 1e9, spread_us = 0, cold_us = 1e9,"          \
    " samples = 99 WHERE samples > 0;"

START_TEST(a_damaged_record_costs_one_measurement_once)
{
    char *database = copy_of_tuned();
    int warnings;
    spc_ctx *ctx = open_counting(database, &warnings);
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.effort = SPC_EFFORT_EXHAUSTIVE;
    sql(database, SETTLED);
    reseal(database);
    sql(database, "UPDATE trial SET config = '!!' WHERE id IN "
                  "(SELECT trial FROM choice JOIN trial AS t"
                  " ON t.id = trial WHERE t.samples > 0)");
    for (int round = 0; round < 2; round++) {
        warnings = 0;
        assert_ok(tune(ctx, LAYER, SCENE, &options, &report),
                  spc_ctx_error(ctx));
        ck_assert_int_eq(report.known, round == 0 ? 11 : 12);
        ck_assert_int_eq(report.timed, round == 0 ? 1 : 0);
        /* the trial is set aside */
        ck_assert_int_eq(warnings, round == 0 ? 1 : 0);
    }
    check_plan(ctx, LAYER, SCENE, report.winner);
    remove_database(database);
}
END_TEST

/*
 * A compiler that was short of memory may succeed now. A mistake of the
 * template remains.
 */
static const struct {
    const char *harm;
    int known;
} failures[] = {
    {"UPDATE trial SET status = 'compile', note = 'cc: out of memory'"
     " WHERE samples > 0 AND config = 'tile=32,step=2,order=gray'",
     11},
    {"UPDATE trial SET status = 'compile', note = 'plain.c.lua:30: error'"
     " WHERE samples > 0 AND config = 'tile=32,step=2,order=gray'",
     12},
};

START_TEST(a_compiler_that_failed_without_a_line_is_tried_again)
{
    char *database = copy_of_tuned();
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.effort = SPC_EFFORT_EXHAUSTIVE;
    sql(database, SETTLED);
    sql(database, failures[_i].harm);
    reseal(database);
    memset(&t, 0, sizeof(t));
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.known, failures[_i].known);
    ck_assert_int_eq(report.timed, 12 - failures[_i].known);
    int i = find(&t, "plain tile=32,step=2,order=gray");
    ck_assert_str_eq(t.at[i].status, _i == 0 ? "ok" : "compile");
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

#define MORE_REGISTERS                                                         \
    "UPDATE trial SET resources = 'registers=' ||"                             \
    " (CASE config WHEN 'tile=128,step=2,order=gray' THEN 9 ELSE 20 END)"      \
    " WHERE samples > 0;"
#define SLOW_DEFAULT                                                           \
    "UPDATE trial SET median_us = 60 WHERE samples > 0"                        \
    " AND config = 'tile=64,step=1,order=none';"
#define SLOW_FIRST                                                             \
    "UPDATE trial SET median_us = 50.9 WHERE samples > 0"                      \
    " AND config = 'tile=32,step=1,order=none';"

/* Returns the winner if all trials except the named ones are equally fast. */
static const struct {
    const char *harm, *winner;
} ties[] = {
    {"", "plain tile=64,step=1,order=none"},
    {MORE_REGISTERS, "plain tile=64,step=1,order=none"},
    {SLOW_DEFAULT, "plain tile=32,step=1,order=none"},
    {SLOW_DEFAULT SLOW_FIRST, "plain tile=32,step=1,order=none"},
    {SLOW_DEFAULT MORE_REGISTERS, "plain tile=128,step=2,order=gray"},
};

START_TEST(among_equals_the_documented_one_wins)
{
    char *database = copy_of_tuned();
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.effort = SPC_EFFORT_EXHAUSTIVE;
    sql(database, "UPDATE trial SET median_us = 50, spread_us = 1,"
                  " cold_us = 70, samples = 99 WHERE samples > 0");
    sql(database, ties[_i].harm);
    /* This choice would stay. If its record is lost, another one replaces
     * it. */
    sql(database, "DELETE FROM choice; DELETE FROM seal WHERE kind = 'choice'");
    reseal(database);
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.known, 12);
    ck_assert_int_eq(report.timed, 0);
    ck_assert_str_eq(report.winner, ties[_i].winner);
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

START_TEST(a_choice_that_is_there_already_need_not_be_stored)
{
    char *database = copy_of_tuned();
    int warnings;
    spc_ctx *ctx = open_counting(database, &warnings);
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.effort = SPC_EFFORT_EXHAUSTIVE;
    sqlite3 *locker = lock(ctx, database);
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.timed, 0);
    sqlite3_close(locker);
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

int main(void)
{
    static const char *const cases[] = {"storing", "stored"};

    choose_case(cases, LENGTH(cases));
    Suite *suite = suite_create("tuner_records");
    TCase *storing = tcase_create("storing");
    TCase *stored = tcase_create("stored");

    tcase_set_timeout(storing, 240);
    tcase_set_timeout(stored, 240);
    tcase_add_unchecked_fixture(stored, make_tuned, remove_tuned);
    tcase_add_loop_test(
        storing, what_cannot_be_stored_is_measured_reported_and_a_failure, 0,
        LENGTH(losses));
    tcase_add_test(storing, a_file_beside_that_keeps_nothing_is_not_left);
    tcase_add_test(storing, what_a_passing_lock_kept_out_is_stored_at_the_end);
    tcase_add_loop_test(
        storing, a_tune_without_its_database_fails_unless_none_was_wanted, 0,
        LENGTH(databases));
    tcase_add_test(storing,
                   an_interrupted_tune_without_a_database_promises_nothing);
    tcase_add_test(stored, a_damaged_record_costs_one_measurement_once);
    tcase_add_loop_test(stored,
                        a_compiler_that_failed_without_a_line_is_tried_again, 0,
                        LENGTH(failures));
    tcase_add_loop_test(stored, among_equals_the_documented_one_wins, 0,
                        LENGTH(ties));
    tcase_add_test(stored, a_choice_that_is_there_already_need_not_be_stored);
    suite_add_tcase(suite, storing);
    suite_add_tcase(suite, stored);
    return run_suite(suite);
}
