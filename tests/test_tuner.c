/* test_tuner.c - the tuning engine, on the cpu and the sim device. */
#include "layer_rig.h"

#include "builder.h"
#include "cache_internal.h"
#include "clock.h"
#include "file.h"
#include "lookup.h"
#include "relation.h"
#include "rig.h"
#include "suite.h"
#include "targets.h"
#include "worker_limits.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TEMPLATES SPC_TEST_DATA "/templates/tuner/"
#define LAYER "subm,cin=4,cout=6,k=3,dtype=f32"
#define SCENE "gen:uniform,n=300,extent=12"

/* ---- a run and what it reports ----------------------------------------------
 */

enum { MOST = 512 };

typedef struct recorded {
    int count;
    struct {
        char candidate[200], status[16], note[200];
        bool from_database, verified;
        int samples;
        double us, cold_us, error;
    } at[MOST];
    volatile int cancel;
    int cancel_after; /* trials timed; 0: never */
    sqlite3 *locker;  /* rolled back after the first trial is timed */
} recorded;

static void on_trial(const spc_trial *trial, void *payload)
{
    recorded *t = payload;

    if (t->count == MOST)
        return;
    snprintf(t->at[t->count].candidate, 200, "%s %s", trial->template_name,
             trial->config);
    snprintf(t->at[t->count].status, 16, "%s", trial->status);
    snprintf(t->at[t->count].note, 200, "%s", trial->note);
    t->at[t->count].from_database = trial->from_database;
    t->at[t->count].verified = trial->verified;
    t->at[t->count].samples = trial->samples;
    t->at[t->count].us = trial->median_us;
    t->at[t->count].cold_us = trial->cold_us;
    t->at[t->count].error = trial->error;
    t->count++;
}

static void on_progress(const spc_progress *progress, void *payload)
{
    recorded *t = payload;

    ck_assert_int_le(progress->done, progress->total);
    if (t->cancel_after > 0 && progress->stage == SPC_STAGE_TIME &&
        progress->done >= t->cancel_after)
        t->cancel = 1;
    if (t->locker != NULL && progress->stage == SPC_STAGE_TIME)
        sqlite3_exec(t->locker, "ROLLBACK", NULL, NULL, NULL);
}

static int find(const recorded *t, const char *candidate)
{
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->at[i].candidate, candidate) == 0)
            return i;
    ck_abort_msg("no report of '%s'", candidate);
    return -1;
}

static spc_tune_options options_for(recorded *t)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;

    memset(t, 0, sizeof(*t));
    options.effort = SPC_EFFORT_QUICK;
    options.on_trial = on_trial;
    options.on_progress = on_progress;
    options.payload = t;
    options.cancel = &t->cancel;
    return options;
}

static spc_status tune_on(spc_ctx *ctx, const char *layer,
                          const char *const *specs, int count,
                          const spc_tune_options *options,
                          spc_tune_report *report)
{
    spc_scene *scenes[4] = {NULL};
    spc_error error = {0};
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    for (int s = 0; s < count; s++)
        assert_ok(spc_scene_load(&scenes[s], specs[s], &error), error.text);
    spc_status status = spc_tune(ctx, &conv, (const spc_scene *const *)scenes,
                                 count, options, report);
    for (int s = 0; s < count; s++)
        spc_scene_free(scenes[s]);
    return status;
}

static spc_status tune(spc_ctx *ctx, const char *layer, const char *scene,
                       const spc_tune_options *options, spc_tune_report *report)
{
    return tune_on(ctx, layer, &scene, 1, options, report);
}

/* A database of one's own, gone afterwards. */
static char *make_database(void)
{
    static char path[300];
    spc__buf folder = SPC__BUF_INIT;
    spc_error error = {0};

    assert_ok(spc__temp_dir_create(&folder, &error), error.text);
    snprintf(path, sizeof(path), "%s/tuner.db", spc__buf_text(&folder));
    spc__buf_release(&folder);
    return path;
}

static void remove_database(char *path)
{
    *strrchr(path, '/') = '\0';
    spc__temp_dir_remove(path);
}

/* ---- the main job -------------------------------------------------------- */

static const struct {
    const char *device, *templates, *layer, *scene;
} jobs[] = {
    {"cpu", TEMPLATES "plain", LAYER, SCENE},
    {"cpu", TEMPLATES "plain", "subm,cin=7,cout=9,k=2x3x1,dtype=f32,bias=1",
     "gen:shell,r=16"},
    {"cpu", NULL, "subm,cin=8,cout=8,k=3,dtype=f16,dilation=2", SCENE},
    {"sim", NULL, "subm,cin=16,cout=16,k=3,dtype=f16",
     "gen:uniform,n=60,extent=6"},
};

/* What a program gets from the database that was just filled. */
static void check_plan(spc_ctx *ctx, int job, const char *winner)
{
    int64_t before = spc_ctx_stats(ctx).compiles;
    char plan[300];
    rig r;

    rig_open(&r, ctx, jobs[job].layer, jobs[job].scene);
    assert_ok(
        spc_plan_create(&r.plan, ctx, &r.conv, r.map, SPC_PLAN_CACHED_ONLY),
        spc_ctx_error(ctx));
    ck_assert_int_eq(spc_plan_origin(r.plan), SPC_ORIGIN_EXACT);
    if (strcmp(jobs[job].device, "cpu") == 0) /* maps need no kernel there */
        ck_assert_int_eq(spc_ctx_stats(ctx).compiles, before);
    snprintf(plan, sizeof(plan), "%s %s", spc_plan_template(r.plan),
             spc_plan_config(r.plan));
    ck_assert_str_eq(plan, winner);
    rig_close(&r);
}

/* Jobs 2 and 3 and the emulation's overlap take long: one of the three a day.
 */
START_TEST(a_second_tune_measures_nothing_and_a_plan_runs_the_winner)
{
    if (_i >= 2 && !suite_takes(_i))
        return;
    char *database = make_database();
    spc_ctx *ctx = open_ctx(jobs[_i].device, database, jobs[_i].templates);
    spc_tune_report first, second;
    recorded t;
    spc_tune_options options = options_for(&t);

    assert_ok(tune(ctx, jobs[_i].layer, jobs[_i].scene, &options, &first),
              spc_ctx_error(ctx));
    ck_assert_int_gt(first.timed, 0);
    ck_assert_int_eq(first.known, 0);
    ck_assert_str_ne(first.winner, "");
    ck_assert(first.winner_us > 0 && first.default_us > 0);
    spc_ctx_free(ctx);

    ctx = open_ctx(jobs[_i].device, database, jobs[_i].templates);
    memset(&t, 0, sizeof(t));
    assert_ok(tune(ctx, jobs[_i].layer, jobs[_i].scene, &options, &second),
              spc_ctx_error(ctx));
    ck_assert_int_eq(second.compiled, 0);
    ck_assert_int_eq(second.verified, 0);
    ck_assert_int_eq(second.timed, 0);
    ck_assert_int_ge(second.known, first.timed);
    ck_assert_str_eq(second.winner, first.winner);
    for (int i = 0; i < t.count; i++)
        ck_assert(t.at[i].from_database);
    check_plan(ctx, _i, first.winner); /* frees the context */
    remove_database(database);
}
END_TEST

START_TEST(the_default_and_the_winner_have_all_samples)
{
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "plain");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    int i = find(&t, report.winner);
    ck_assert_str_eq(t.at[i].status, "ok");
    ck_assert(t.at[i].verified && t.at[i].error <= 1);
    ck_assert_int_ge(t.at[i].samples, 15);
    ck_assert(t.at[i].cold_us > 0);
    i = find(&t, "plain tile=64,step=1,order=none");
    ck_assert_int_ge(t.at[i].samples, 15);
    spc_ctx_free(ctx);
}
END_TEST

/* The default that an untuned plan runs, and not that of another template. */
START_TEST(untuned_is_what_a_plan_takes_without_a_database)
{
    static const char *const only[] = {"few", "many", NULL};
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "tied");
    spc_tune_report report;
    rig r;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.only = only[_i];
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    rig_open(&r, ctx, LAYER, SCENE);
    assert_ok(spc_plan_create(&r.plan, ctx, &r.conv, r.map, SPC_PLAN_ESTIMATE),
              spc_ctx_error(ctx));
    ck_assert_str_eq(spc_plan_template(r.plan), "many");
    if (_i == 0) {
        ck_assert_double_eq(report.default_us, 0);
    } else {
        int i = find(&t, "many tile=64,step=1");
        ck_assert_double_eq(report.default_us, t.at[i].us);
    }
    rig_close(&r); /* frees the context */
}
END_TEST

START_TEST(several_scenes_share_one_winner_and_the_worst_is_named)
{
    static const char *const scenes[] = {SCENE, "gen:uniform,n=301,extent=12",
                                         "gen:shell,r=20"};
    char *database = make_database();
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    assert_ok(tune_on(ctx, LAYER, scenes, 3, &options, &report),
              spc_ctx_error(ctx));
    ck_assert(report.worst_ratio >= 1);
    ck_assert_str_ne(report.worst_scene, "");
    /* The first two fall into one bucket: that is one record, not two. */
    memset(&t, 0, sizeof(t));
    assert_ok(tune_on(ctx, LAYER, scenes, 3, &options, &report),
              spc_ctx_error(ctx));
    ck_assert_int_eq(report.timed, 0);
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

START_TEST(a_time_below_the_floor_is_not_believed)
{
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "plain");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    /* A device that takes seconds for what this one does in microseconds. */
    spc_device_info *info = &ctx->info;
    info->launch_us = 1e-3;
    info->memory = info->cache = (spc_bandwidth){1e-6, 1e-6, 1e-6};
    for (int i = 0; i < SPC_GATHER_SIZES; i++)
        info->gather_near_gbps[i] = info->gather_far_gbps[i] =
            info->gather_cold_gbps[i] = 1e-6;
    info->f32_tflops = info->tf32_tflops = info->f16_tflops = 1e-9;
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report), SPC_EWRONG);
    assert_says(spc_ctx_error(ctx), "below the floor: not believed");
    ck_assert_str_eq(report.winner, "");
    for (int i = 0; i < t.count; i++) {
        ck_assert_str_eq(t.at[i].status, "wrong");
        assert_says(t.at[i].note, "below the floor:");
    }
    spc_ctx_free(ctx);
}
END_TEST

/* ---- climbing ------------------------------------------------------------ */

/* What keeps the best candidate of `hills` two parameters from its default. */
static const char *const hills[] = {
    LAYER,
    LAYER ",bias=1",
    /* Its default fails, so that but for what is one step from it `slow` would
     * be the best there is at first. */
    "subm,cin=1,cout=6,k=3,dtype=f32,bias=1",
};

START_TEST(quick_finds_what_one_parameter_at_a_time_does_not_lead_to)
{
    char *database = make_database();
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "hills");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);
    int slow = 0;

    assert_ok(tune(ctx, hills[_i], SCENE, &options, &report),
              spc_ctx_error(ctx));
    ck_assert_str_eq(report.winner, "hills tile=128,depth=1");
    /* Who may win is confirmed, and has a cold time; who is far behind not. */
    ck_assert(t.at[find(&t, report.winner)].cold_us > 0);
    for (int i = 0; i < t.count; i++) {
        if (strncmp(t.at[i].candidate, "slow ", 5) != 0)
            continue;
        ck_assert(t.at[i].cold_us <= 0);
        slow++;
    }
    ck_assert_int_eq(slow, 1); /* its default, and nothing from there */
    memset(&t, 0, sizeof(t));
    assert_ok(tune(ctx, hills[_i], SCENE, &options, &report),
              spc_ctx_error(ctx));
    ck_assert_int_eq(report.compiled, 0);
    ck_assert_int_eq(report.timed, 0);
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

START_TEST(stages_that_time_nothing_take_the_first_step_from_every_default)
{
    static const spc_stage stages[] = {SPC_STAGE_BUILD, SPC_STAGE_VERIFY};
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "hills");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.stage = stages[_i];
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(t.count, 7);
    find(&t, "hills tile=64,depth=1");
    find(&t, "hills tile=128,depth=1");
    find(&t, "slow tile=32");
    spc_ctx_free(ctx);
}
END_TEST

/* ---- interruption -------------------------------------------------------- */

START_TEST(an_interrupted_tune_goes_on_where_it_was)
{
    char *database = make_database();
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
    spc_tune_report first, second;
    recorded t;
    spc_tune_options options = options_for(&t);

    t.cancel_after = 3;
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &first),
                     SPC_EINTERRUPTED);
    assert_says(spc_ctx_error(ctx), "what was measured is kept");
    ck_assert_int_ge(first.timed, 3);
    ck_assert_str_eq(first.winner, ""); /* nobody was confirmed yet */
    spc_ctx_free(ctx);

    ctx = open_ctx("cpu", database, TEMPLATES "plain");
    memset(&t, 0, sizeof(t));
    assert_ok(tune(ctx, LAYER, SCENE, &options, &second), spc_ctx_error(ctx));
    ck_assert_int_ge(second.known + second.timed, first.timed);
    ck_assert_int_gt(second.known, 0);
    ck_assert_int_gt(second.timed, 0);
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

START_TEST(a_changed_template_makes_old_records_worth_nothing)
{
    char *database = make_database();
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "changed");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);
    static const char *const worker[] = {
        SPC_TEST_COMMAND, "-d", "cpu", "--database", "", "worker", NULL};

    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    spc_ctx_free(ctx);
    ctx = open_ctx("cpu", database, TEMPLATES "unruly");
    memset(&t, 0, sizeof(t));
    options.worker = worker;
    options.limit_s = 1;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.known, 0);
    ck_assert_int_eq(report.timed, 1);
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

/* ---- a database in trouble ----------------------------------------------- */

/* Another process that keeps the database to itself. */
static sqlite3 *lock(spc_ctx *ctx, const char *path)
{
    sqlite3 *locker = NULL;

    /* Nobody here wants to wait as long as a user would. */
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

/* A run that reads the file beside the database has nothing to measure. */
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
    /* One of the run, one of the kernel that digests results. */
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
    check_plan(ctx, 0, first.winner); /* frees the context */
    remove_database(database);
}
END_TEST

/* Runs SQL behind everybody's back. */
static void sql(const char *path, const char *text)
{
    sqlite3 *db = NULL;

    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(spc__seal_open(db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* As if it had been measured so. */
static void reseal(const char *path)
{
    for (int i = 0; spc__seal_everything[i] != NULL; i++)
        sql(path, spc__seal_everything[i]);
}

/* As if all were slow, and had been measured as often as can be: what is
 * measured from here on does not hang on the clock. */
#define SETTLED                                                                \
    "UPDATE trial SET median_us = 1e9, spread_us = 0, cold_us = 1e9,"          \
    " samples = 99 WHERE samples > 0;"

START_TEST(a_damaged_record_costs_one_measurement_once)
{
    char *database = make_database();
    int warnings;
    spc_ctx *ctx = open_counting(database, &warnings);
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.effort = SPC_EFFORT_EXHAUSTIVE;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.timed, 12);
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
        ck_assert_int_eq(warnings, round == 0 ? 1 : 0); /* set aside */
    }
    check_plan(ctx, 0, report.winner); /* frees the context */
    remove_database(database);
}
END_TEST

/* A compiler that was short of memory may have more of it now; a mistake of
 * the template stays one. */
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
    char *database = make_database();
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.effort = SPC_EFFORT_EXHAUSTIVE;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.timed, 12);
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

/* Who wins where all but the named trials are equally fast. */
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
    char *database = make_database();
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.effort = SPC_EFFORT_EXHAUSTIVE;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    sql(database, "UPDATE trial SET median_us = 50, spread_us = 1,"
                  " cold_us = 70, samples = 99 WHERE samples > 0");
    sql(database, ties[_i].harm);
    sql(database, "DELETE FROM choice"); /* which would stay */
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
    char *database = make_database();
    int warnings;
    spc_ctx *ctx = open_counting(database, &warnings);
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    sqlite3 *locker = lock(ctx, database);
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.timed, 0);
    sqlite3_close(locker);
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

static const struct {
    const char *variable; /* of the environment: where the database is */
    const char *value;    /* NULL: unset */
    spc_status status;
} places[] = {
    {"SPC_DATABASE", "newer", SPC_EDBVERSION},
    {"SPC_DATABASE", "", SPC_OK}, /* none is wanted */
    {"HOME", NULL, SPC_EDB},
};

/* A file that a later version may have written. */
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
    const char *value = places[_i].value;
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    unsetenv("SPC_DATABASE");
    unsetenv("XDG_CACHE_HOME");
    if (value != NULL && strcmp(value, "newer") == 0)
        make_newer(value = database);
    if (value != NULL)
        setenv(places[_i].variable, value, 1);
    else
        unsetenv(places[_i].variable);
    spc_ctx *ctx = open_ctx("cpu", NULL, TEMPLATES "plain");
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report),
                     places[_i].status);
    ck_assert_str_ne(report.winner, "");
    if (places[_i].status != SPC_OK)
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

/* ---- candidates that misbehave ------------------------------------------- */

static const struct {
    const char *candidate, *status, *note;
} moods[] = {
    {"unruly tile=64,mood=good", "ok", ""},
    {"unruly tile=64,mood=crash", "fault", "signal 11"},
    {"unruly tile=64,mood=hang", "timeout", "the limit of 0.5 s"},
    {"unruly tile=64,mood=wrong", "wrong", "row 1, channel 1"},
    {"unruly tile=64,mood=lazy", "wrong", "nan"},
    {"unruly tile=64,mood=broken", "compile", "unruly.c.lua:30"},
};

START_TEST(a_candidate_that_misbehaves_costs_a_worker_and_not_the_run)
{
    static const char *const worker[] = {
        SPC_TEST_COMMAND, "-d", "cpu", "--database", "", "worker", NULL};
    static const spc_stage stages[] = {SPC_STAGE_TIME, SPC_STAGE_VERIFY};
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "unruly");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.worker = worker;
    options.limit_s = 0.5;
    options.stage = stages[_i];
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.failed, LENGTH(moods) - 1);
    ck_assert_int_eq(report.verified, 1);
    for (int m = 0; m < LENGTH(moods); m++) {
        int i = find(&t, moods[m].candidate);
        ck_assert_str_eq(t.at[i].status, moods[m].status);
        assert_says(t.at[i].note, moods[m].note);
    }
    if (stages[_i] == SPC_STAGE_TIME)
        ck_assert_str_eq(report.winner, moods[0].candidate);
    spc_ctx_free(ctx);
}
END_TEST

/* What one candidate does to its process, or somebody else does to it, is not
 * the next one's fault. */
static const struct {
    const char *candidate, *status, *note;
} spoilers[] = {
    {"nasty tile=64,mood=good", "ok", ""},
    {"nasty tile=64,mood=careful", "ok", ""},
    {"nasty tile=64,mood=babble", "fault", "descriptor"},
    {"nasty tile=64,mood=next", "ok", ""},
    {"nasty tile=64,mood=flaky", "ok", ""},
    {"nasty tile=64,mood=starved", "ok", ""},
    {"nasty tile=64,mood=greedy", "fault", "signal 11"},
    {"nasty tile=64,mood=spent", "timeout", "had all processors"},
    {"nasty tile=64,mood=grown", "fault", "GiB of memory"},
};

static const char *const nasty_worker[] = {
    SPC_TEST_COMMAND, "-d", "cpu", "--database", "", "worker", NULL};

static void set_mark(char mark[400], const char *database)
{
    snprintf(mark, 400, "%s.mark", database);
    setenv("SPC_TEST_MARK", mark, 1);
}

START_TEST(a_spoiled_process_is_no_verdict_on_the_next_candidate)
{
    char *database = make_database(), mark[400];
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "nasty");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    set_mark(mark, database);
    options.worker = nasty_worker;
    options.stage = SPC_STAGE_VERIFY;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    for (int m = 0; m < LENGTH(spoilers); m++) {
        int i = find(&t, spoilers[m].candidate);
        ck_assert_msg(strcmp(t.at[i].status, spoilers[m].status) == 0,
                      "%s: %s: %s", t.at[i].candidate, t.at[i].status,
                      t.at[i].note);
        assert_says(t.at[i].note, spoilers[m].note);
    }
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

/* What a process does under a limit, and how it ends. */
static int end_of(void (*body)(void))
{
    int code = 0;
    pid_t child = fork();

    if (child == 0) {
        body();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &code, 0), child);
    return code;
}

static void compute_for_ever(void)
{
    spc__limits_compute(0);
    for (volatile int forever = 1; forever;)
        ;
}

enum { MUCH = 64 << 20 };

static void fill_memory(void)
{
    const struct timespec second = {1, 0};

    if (!spc__limits_grow(MUCH / 4, true))
        _exit(1);
    char *much = mmap(NULL, MUCH, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(much, 1, MUCH);
    nanosleep(&second, NULL);
}

/* With a limit of the address space the process is told, and lives. */
static void ask_for_space(void)
{
    if (!spc__limits_grow(MUCH / 4, false))
        _exit(1);
    if (mmap(NULL, MUCH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
        MAP_FAILED)
        _exit(2);
    if (mmap(NULL, MUCH / 8, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
        MAP_FAILED)
        _exit(3);
}

START_TEST(a_worker_has_limits_of_its_own)
{
    int code = end_of(compute_for_ever);

    ck_assert(WIFSIGNALED(code) && WTERMSIG(code) == SIGXCPU);
    code = end_of(fill_memory);
    ck_assert(WIFEXITED(code) && WEXITSTATUS(code) == SPC__LIMITS_GROWN);
    code = end_of(ask_for_space);
    ck_assert(WIFEXITED(code));
    ck_assert_int_eq(WEXITSTATUS(code), 0);
}
END_TEST

/* What must come through before anyone is judged after a killed worker. */
START_TEST(a_device_that_answers_runs_an_empty_kernel)
{
    spc_ctx *ctx = open_ctx("sim", suite_database(), NULL);
    spc__sample_options options = {1, false, 1, NULL, 0};
    spc_error error = {0};
    spc__sample_source source;
    spc_relation relation;
    spc__outcome outcome;
    spc__sample sample;
    spc_scene *scene;
    spc_conv conv;
    spc__rig *measuring;

    assert_ok(spc_conv_parse(&conv, LAYER, &error), error.text);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=20,extent=4", &error),
              error.text);
    assert_ok(spc__relation_init(&relation, &conv, scene, 1, NULL, &error),
              error.text);
    source = (spc__sample_source){scene, &relation};
    assert_ok(spc__sample_init(&sample, &conv, &source, 1, &options, &error),
              error.text);
    assert_ok(spc__rig_create(&measuring, ctx, &sample, &error), error.text);
    spc__rig_probe(&outcome, measuring);
    ck_assert_msg(outcome.status == SPC__TRIAL_OK && !outcome.dead, "%s",
                  outcome.note);
    ck_assert_int_eq(outcome.trouble, SPC_OK);
    spc__rig_free(measuring);
    spc__sample_release(&sample);
    spc__relation_release(&relation);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

static int faults_in(const char *path)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;

    sqlite3_open(path, &db);
    sqlite3_prepare_v2(db,
                       "SELECT count(*) FROM trial WHERE status NOT IN"
                       " ('ok', 'constraint')",
                       -1, &stmt, NULL);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    int count = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return count;
}

/* As where the kernel ends processes because memory runs out. */
START_TEST(a_rig_that_fails_ends_the_run_and_leaves_no_verdict)
{
    char *database = make_database(), mark[400];
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "nasty");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    set_mark(mark, database);
    setenv("SPC_TEST_DOOM", "1", 1);
    options.worker = nasty_worker;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report), SPC_ENOMEM);
    assert_says(spc_ctx_error(ctx), "not the candidates");
    assert_says(spc_ctx_error(ctx), "signal 9");
    unsetenv("SPC_TEST_DOOM");
    spc_ctx_free(ctx);
    ck_assert_int_le(faults_in(database), 1); /* the babbler's */
    remove_database(database);
}
END_TEST

START_TEST(failures_are_known_the_second_time)
{
    static const char *const worker[] = {
        SPC_TEST_COMMAND, "-d", "cpu", "--database", "", "worker", NULL};
    char *database = make_database(), mark[400];
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "nasty");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.worker = worker;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    set_mark(mark, database);
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    memset(&t, 0, sizeof(t));
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.known, 10);
    ck_assert_int_eq(report.compiled, 0);
    ck_assert_str_eq(t.at[find(&t, spoilers[2].candidate)].status, "fault");
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

START_TEST(a_worker_that_is_no_worker_is_said_to_be_none)
{
    static const char *const workers[][3] = {
        {"/bin/false", NULL},
        {"/nonexistent/worker", NULL},
    };
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    recorded t;
    spc_tune_options options = options_for(&t);
    spc_tune_report report;

    options.worker = workers[_i];
    ck_assert_int_ne(tune(ctx, LAYER, SCENE, &options, &report), SPC_OK);
    assert_says(spc_ctx_error(ctx), workers[_i][0]);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(equal_code_is_measured_once)
{
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "changed");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.compiled, 1);
    ck_assert_int_eq(report.timed, 1);
    int i = find(&t, "unruly tile=64,mood=same");
    ck_assert_str_eq(t.at[i].status, "constraint");
    assert_says(t.at[i].note, "unruly tile=64,mood=good");
    spc_ctx_free(ctx);
}
END_TEST

/* ---- targets that are not here ------------------------------------------- */

static bool has_nvrtc(void)
{
    spc__compiler *compiler = NULL;
    spc_error error;
    bool found = spc__nvrtc_open(&compiler, &error) == SPC_OK;

    if (!found)
        suite_note_skip(error.text);
    spc__compiler_close(compiler);
    return found;
}

START_TEST(what_spills_is_refused_before_any_launch)
{
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "spilling");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.stage = SPC_STAGE_BUILD;
    options.target = "sm_90";
    options.allow_spills = _i == 1;
    if (has_nvrtc()) {
        assert_ok(tune_on(ctx, LAYER, NULL, 0, &options, &report),
                  spc_ctx_error(ctx));
        int i = find(&t, "spilling spill=1");
        ck_assert_str_eq(t.at[i].status, _i == 1 ? "ok" : "constraint");
        if (_i == 0)
            assert_says(t.at[i].note, "spills");
        ck_assert_int_eq(report.refused, _i == 1 ? 0 : 1);
    }
    spc_ctx_free(ctx);
}
END_TEST

static const char *const targets[] = {"sm_75",  "sm_80",   "sm_86", "sm_89",
                                      "sm_90a", "sm_100a", "sm_120"};

START_TEST(the_space_of_a_gpu_that_is_not_here_is_not_empty)
{
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.stage = SPC_STAGE_LIST;
    options.target = targets[_i];
    assert_ok(tune_on(ctx, "subm,cin=32,cout=32,k=3,dtype=f16", NULL, 0,
                      &options, &report),
              spc_ctx_error(ctx));
    ck_assert_int_gt(report.candidates, 0);
    spc_ctx_free(ctx);
}
END_TEST

/* Layers that other targets than this machine's compile without a mistake. */
static const struct {
    const char *target, *layer;
} elsewhere[] = {
    {"sm_75", "subm,cin=32,cout=32,k=3,dtype=f16"},
    {"sm_80", "subm,cin=64,cout=64,k=3,dtype=f16"},
    {"sm_80", "subm,cin=32,cout=32,k=3,dtype=tf32"},
    {"sm_89", "subm,cin=24,cout=40,k=3,dtype=f32"},
    {"sm_90a", "subm,cin=32,cout=32,k=3,dtype=tf32"},
    {"sm_100a", "subm,cin=16,cout=32,k=3,dtype=f16"},
    {"sm_120", "subm,cin=32,cout=64,k=3,dtype=f16"},
};

START_TEST(candidates_compile_for_gpus_that_are_not_here)
{
    if (!suite_takes(_i))
        return;
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.stage = SPC_STAGE_BUILD;
    options.effort = SPC_EFFORT_QUICK;
    options.target = elsewhere[_i].target;
    if (has_nvrtc()) {
        assert_ok(tune_on(ctx, elsewhere[_i].layer, NULL, 0, &options, &report),
                  spc_ctx_error(ctx));
        for (int i = 0; i < t.count; i++)
            if (strcmp(t.at[i].status, "compile") == 0)
                ck_abort_msg("%s: %s", t.at[i].candidate, t.at[i].note);
        ck_assert_int_eq(report.failed, 0);
        ck_assert_int_gt(report.compiled, 2); /* more than the generic ones */
    }
    spc_ctx_free(ctx);
}
END_TEST

/* A template that takes a layer has a default for it. */
static void check_defaults(spc__library *library, const char *target,
                           const char *layer)
{
    spc__attrs facts, problem, config;
    spc_error error = {0};
    spc_conv conv;

    assert_ok(spc__target_facts(&facts, target, &error), error.text);
    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    spc__conv_attrs(&problem, &conv);
    for (int i = 0; i < spc__library_count(library); i++) {
        spc__template *tpl = spc__library_at(library, i);
        if (strcmp(spc__template_role(tpl), "conv") != 0 ||
            strcmp(spc__template_device(tpl), "cuda") != 0 ||
            spc__template_accepts(tpl, &problem, &facts, &error) != SPC_OK)
            continue;
        if (spc__template_default(&config, tpl, &problem, &facts, &error) !=
            SPC_OK)
            ck_abort_msg("%s for %s: %s", layer, target, error.text);
    }
}

START_TEST(defaults_are_legal_wherever_a_template_serves)
{
    static const char *const types[] = {"f16", "f32", "tf32"};
    static const int in[] = {3, 4, 16, 18, 24, 48, 64, 96, 128, 160, 256};
    static const int out[] = {3,   8,   16,  24,  32,  40,  64,  96,  112,
                              128, 136, 160, 200, 256, 264, 320, 384, 448};
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    spc__library *library;
    char layer[100];

    assert_ok(spc__ctx_library(&library, ctx), spc_ctx_error(ctx));
    for (int i = 0; i < LENGTH(in); i++) {
        for (int o = 0; o < LENGTH(out); o++) {
            for (int t = 0; t < LENGTH(types); t++) {
                if (o == i) {
                    snprintf(layer, sizeof(layer),
                             "subm,cin=%d,cout=%d,groups=%d,k=%d,dtype=%s",
                             in[i], in[i], in[i], 1 + 2 * (t % 3), types[t]);
                    check_defaults(library, targets[_i], layer);
                }
                snprintf(layer, sizeof(layer),
                         "subm,cin=%d,cout=%d,k=%d,dtype=%s", in[i], out[o],
                         1 + 2 * ((i + o + t) % 3), types[t]);
                check_defaults(library, targets[_i], layer);
            }
        }
    }
    spc_ctx_free(ctx);
}
END_TEST

/* Kernels for layers that others do not take, or not well. */
static const struct {
    const char *template_name, *layer;
} defaults[] = {
    {"os_depthwise", "subm,cin=256,cout=256,groups=256,k=3,bias=1"},
    {"os_depthwise", "subm,cin=22,cout=22,groups=22,k=5"},
    {"os_diagonal", "subm,cin=96,cout=96,groups=96,k=3,epilogue=scale+gelu"},
    {"os_packed", "subm,cin=4,cout=32,k=3"},
    {"os_packed", "subm,cin=5,cout=61,k=5,bias=1"},
    {"os_mma", "subm,cin=81,cout=61,k=3,bias=1"},
    {"os_mma", "subm,cin=64,cout=96,groups=4,k=3"},
};

/* A pair of the table for a target, another one each day. */
START_TEST(defaults_for_any_channels_compile_and_do_not_spill)
{
    time_t day = time(NULL) / 86400;
    int which = (int)((day + _i) % LENGTH(defaults));
    const char *name = defaults[which].template_name;
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    spc__library *library;
    spc__compiler *nvrtc = NULL;
    spc__attrs facts, problem, config;
    spc__artefact artefact = {0};
    spc__buf source = SPC__BUF_INIT;
    spc_error error = {0};
    spc_conv conv;

    printf("%s, %s for %s\n", name, defaults[which].layer, targets[_i]);
    assert_ok(spc__ctx_library(&library, ctx), spc_ctx_error(ctx));
    spc__template *tpl = spc__library_find(library, name);
    assert_ok(spc__target_facts(&facts, targets[_i], &error), error.text);
    assert_ok(spc_conv_parse(&conv, defaults[which].layer, &error), error.text);
    spc__conv_attrs(&problem, &conv);
    assert_ok(spc__template_default(&config, tpl, &problem, &facts, &error),
              error.text);
    assert_ok(
        spc__template_render(&source, tpl, &problem, &facts, &config, &error),
        error.text);
    spc__compile_job job = {
        spc__buf_text(&source), name, targets[_i], "", library, NULL};
    if (has_nvrtc()) {
        assert_ok(spc__nvrtc_open(&nvrtc, &error), error.text);
        assert_ok(spc__compile(&artefact, nvrtc, &job, NULL, &error),
                  error.text);
        ck_assert_int_eq(
            spc__attrs_number(&artefact.resources, "spill_bytes", -1), 0);
    }
    spc__artefact_release(&artefact);
    spc__compiler_close(nvrtc);
    spc__buf_release(&source);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(every_known_target_has_facts)
{
    spc__attrs facts;
    spc_error error = {0};

    assert_ok(spc__target_facts(&facts, targets[_i], &error), error.text);
    ck_assert_str_eq(spc__attrs_text(&facts, "target", ""), targets[_i]);
    ck_assert_int_eq(spc__attrs_number(&facts, "sm", 0), atoi(targets[_i] + 3));
    ck_assert_int_ge(spc__attrs_number(&facts, "shared_block", 0), 65536);
}
END_TEST

static const char *const no_targets[] = {"sm_42",  "sm_",     "90",  "sm_80a",
                                         "sm_90f", "sm_90ab", "gfx", ""};

START_TEST(an_unknown_target_is_refused_with_the_known_ones)
{
    spc__attrs facts;
    spc_error error = {0};

    ck_assert_int_eq(spc__target_facts(&facts, no_targets[_i], &error),
                     SPC_EUNSUPPORTED);
    assert_says(error.text, "sm_90");
}
END_TEST

/* ---- bad input ----------------------------------------------------------- */

static const struct {
    const char *templates; /* NULL: built in */
    const char *layer, *scene;
    spc_stage stage;
    const char *target, *only;
    spc_status status;
    const char *says;
} mistakes[] = {
    {NULL, LAYER, NULL, SPC_STAGE_TIME, NULL, NULL, SPC_EINVAL,
     "sample scenes"},
    {NULL, LAYER, SCENE, SPC_STAGE_VERIFY, "sm_90", NULL, SPC_EINVAL, "sm_90"},
    {NULL, LAYER, NULL, SPC_STAGE_LIST, "sm_1", NULL, SPC_EUNSUPPORTED,
     "unknown target 'sm_1'"},
    {NULL, LAYER, SCENE, SPC_STAGE_TIME, NULL, "nobody", SPC_EUNSUPPORTED,
     "nobody"},
    {TEMPLATES "mistakes", LAYER, SCENE, SPC_STAGE_TIME, NULL, NULL,
     SPC_EUNSUPPORTED, "nothing is good enough"},
    {TEMPLATES "mistakes", "subm,cin=4,cout=6,k=3,dtype=f16", SCENE,
     SPC_STAGE_LIST, NULL, NULL, SPC_EUNSUPPORTED, "f32 only"},
};

START_TEST(a_mistake_gets_one_sentence_and_its_status)
{
    spc_ctx *ctx = open_ctx("cpu", "", mistakes[_i].templates);
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.stage = mistakes[_i].stage;
    options.target = mistakes[_i].target;
    options.only = mistakes[_i].only;
    ck_assert_int_eq(tune_on(ctx, mistakes[_i].layer, &mistakes[_i].scene,
                             mistakes[_i].scene != NULL, &options, &report),
                     mistakes[_i].status);
    assert_says(spc_ctx_error(ctx), mistakes[_i].says);
    spc_ctx_free(ctx);
}
END_TEST

enum { NO_CONTEXT, NO_LAYER, NO_SCENES, NO_SCENE, FEWER, MORE };

static const struct {
    int what; /* see above; below zero: the options alone */
    int stage, effort;
    double limit_s;
    const char *worker; /* its program; "none": no argument at all */
    const char *says;
} nonsense[] = {
    {NO_CONTEXT, SPC_STAGE_TIME, 0, 0, NULL, NULL},
    {NO_LAYER, SPC_STAGE_TIME, 0, 0, NULL, "layer to tune is NULL"},
    {NO_SCENES, SPC_STAGE_TIME, 0, 0, NULL, "sample scene 1 of 2 is NULL"},
    {NO_SCENE, SPC_STAGE_TIME, 0, 0, NULL, "sample scene 2 of 2 is NULL"},
    {NO_SCENE, SPC_STAGE_LIST, 0, 0, NULL, "sample scene 2 of 2 is NULL"},
    {FEWER, SPC_STAGE_TIME, 0, 0, NULL, "-1 sample scenes"},
    {FEWER, SPC_STAGE_LIST, 0, 0, NULL, "-1 sample scenes"},
    {MORE, SPC_STAGE_LIST, 0, 0, NULL, "1000 sample scenes"},
    {-1, -1, 0, 0, NULL, "stage -1"},
    {-1, 4, 0, 0, NULL, "stage 4"},
    {-1, SPC_STAGE_TIME, -1, 0, NULL, "effort -1"},
    {-1, SPC_STAGE_LIST, 3, 0, NULL, "effort 3"},
    {-1, SPC_STAGE_TIME, 0, -1, NULL, "a limit of -1 s"},
    {-1, SPC_STAGE_TIME, 0, 0.0 / 0.0, NULL, "a limit of "},
    {-1, SPC_STAGE_TIME, 0, 0, "", "no program's name"},
    {-1, SPC_STAGE_TIME, 0, 0, "none", "no program's name"},
};

static bool wants_tile_128(const char *template_name, const char *config,
                           void *payload)
{
    (void)payload; /* that of the other callbacks */
    return strcmp(template_name, "plain") == 0 &&
           strstr(config, "tile=128") != NULL;
}

/* Neither the default nor what an effort begins with. */
START_TEST(a_caller_may_choose_among_candidates)
{
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "plain");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.stage = SPC_STAGE_VERIFY;
    options.wants = wants_tile_128;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.verified, 4);
    ck_assert_int_eq(t.count, 4);
    for (int i = 0; i < t.count; i++)
        assert_says(t.at[i].candidate, "tile=128");
    options.stage = SPC_STAGE_LIST;
    ck_assert_int_eq(tune(ctx, LAYER, SCENE, &options, &report), SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "`wants` chooses among candidates");
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(nonsense_is_refused_with_a_sentence)
{
    int what = nonsense[_i].what;
    const char *worker[] = {nonsense[_i].worker, NULL};
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "plain");
    spc_scene *scenes[2] = {NULL};
    spc_error error = {0};
    spc_conv conv;
    recorded t;
    spc_tune_options options = options_for(&t);

    assert_ok(spc_conv_parse(&conv, LAYER, &error), error.text);
    assert_ok(spc_scene_load(&scenes[0], SCENE, &error), error.text);
    options.stage = (spc_stage)nonsense[_i].stage;
    options.effort = (spc_effort)nonsense[_i].effort;
    options.limit_s = nonsense[_i].limit_s;
    if (nonsense[_i].worker != NULL)
        options.worker = worker;
    if (nonsense[_i].worker != NULL && strcmp(worker[0], "none") == 0)
        worker[0] = NULL;
    ck_assert_int_eq(
        spc_tune(what == NO_CONTEXT ? NULL : ctx,
                 what == NO_LAYER ? NULL : &conv,
                 what == NO_SCENES ? NULL : (const spc_scene *const *)scenes,
                 what == NO_SCENES || what == NO_SCENE ? 2
                 : what == FEWER                       ? -1
                 : what == MORE                        ? 1000
                                                       : 1,
                 &options, NULL),
        SPC_EINVAL);
    if (nonsense[_i].says != NULL)
        assert_says(spc_ctx_error(ctx), nonsense[_i].says);
    spc_scene_free(scenes[0]);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(a_layer_that_cannot_be_is_refused_with_a_sentence)
{
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "plain");
    spc_conv wrong[] = {SPC_CONV_INIT, SPC_CONV_INIT, SPC_CONV_INIT};
    recorded t;
    spc_tune_options options = options_for(&t);
    char *text = NULL;

    for (int i = 0; i < LENGTH(wrong); i++)
        wrong[i].cin = wrong[i].cout = 8;
    wrong[0].op = 1000000;
    wrong[1].dtype = (spc_dtype)1000000;
    wrong[2].cin = 0;
    options.stage = SPC_STAGE_LIST;
    for (int i = 0; i < LENGTH(wrong); i++) {
        ck_assert_int_eq(spc_tune(ctx, &wrong[i], NULL, 0, &options, NULL),
                         SPC_EINVAL);
        ck_assert_str_ne(spc_ctx_error(ctx), "");
        ck_assert_int_eq(spc_space_render(&text, ctx, &wrong[i], NULL, 0),
                         SPC_EINVAL);
        ck_assert_ptr_null(text);
    }
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(the_flag_of_a_run_is_forgotten_with_it)
{
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    volatile int flag = 0;
    spc_error error = {0};
    spc_conv conv;
    recorded t;
    spc_tune_options options = options_for(&t);

    assert_ok(spc_conv_parse(&conv, "subm,cin=64,cout=64,dtype=f32", &error),
              error.text);
    options.stage = SPC_STAGE_LIST;
    options.on_trial = NULL; /* there are more than there is room for */
    options.cancel = &flag;
    assert_ok(spc_tune(ctx, &conv, NULL, 0, &options, NULL),
              spc_ctx_error(ctx));
    flag = 1; /* its memory is the caller's again */
    options.cancel = NULL;
    assert_ok(spc_tune(ctx, &conv, NULL, 0, &options, NULL),
              spc_ctx_error(ctx));
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(coordinates_that_fit_no_key_are_refused_before_anything_is_compiled)
{
    static const int32_t coords[][4] = {
        {0, INT32_MIN / 2, INT32_MIN / 2, INT32_MIN / 2},
        {0, INT32_MAX / 2, INT32_MAX / 2, INT32_MAX / 2}};
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "plain");
    spc_scene *scene = NULL;
    spc_error error = {0};
    spc_tune_report report;
    spc_conv conv;
    recorded t;
    spc_tune_options options = options_for(&t);

    assert_ok(spc_conv_parse(&conv, LAYER, &error), error.text);
    assert_ok(spc_scene_create(&scene, coords[0], 2, "vast", &error),
              error.text);
    ck_assert_int_eq(spc_tune(ctx, &conv, (const spc_scene *const *)&scene, 1,
                              &options, &report),
                     SPC_ERANGE);
    assert_says(spc_ctx_error(ctx), "scene 'vast': the coordinates do not fit");
    ck_assert_int_eq(report.compiled, 0);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(a_scene_without_voxels_is_nothing_to_tune_on)
{
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    spc_scene *scene = NULL;
    spc_error error = {0};
    spc_conv conv;
    recorded t;
    spc_tune_options options = options_for(&t);

    assert_ok(spc_conv_parse(&conv, LAYER, &error), error.text);
    assert_ok(spc_scene_create(&scene, NULL, 0, "void", &error), error.text);
    ck_assert_int_eq(spc_tune(ctx, &conv, (const spc_scene *const *)&scene, 1,
                              &options, NULL),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "no voxels");
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(one_and_two_voxels_can_be_tuned_on)
{
    static const int32_t coords[][4] = {{0, 5, -3, 7}, {0, 6, -3, 7}};
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "plain");
    spc_scene *scene = NULL;
    spc_error error = {0};
    spc_tune_report report;
    spc_conv conv;
    recorded t;
    spc_tune_options options = options_for(&t);

    assert_ok(spc_conv_parse(&conv, LAYER, &error), error.text);
    assert_ok(spc_scene_create(&scene, coords[0], _i, "few", &error),
              error.text);
    assert_ok(spc_tune(ctx, &conv, (const spc_scene *const *)&scene, 1,
                       &options, &report),
              spc_ctx_error(ctx));
    ck_assert_str_ne(report.winner, "");
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(without_a_compiler_a_run_says_so)
{
    static const char *const names[] = {"SPC_CC", "SPC_NVRTC"};
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    setenv(names[_i], "/nonexistent", 1);
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    options.stage = SPC_STAGE_BUILD;
    options.target = _i == 0 ? NULL : "sm_90";
    ck_assert_int_eq(tune_on(ctx, "subm,cin=32,cout=32,k=3,dtype=f16", NULL, 0,
                             &options, &report),
                     SPC_EUNSUPPORTED);
    assert_says(spc_ctx_error(ctx), names[_i]);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- compiling meanwhile --------------------------------------------------
 */

/* Runs the shell lines of `before`, then the system's compiler, then `after`;
 * $HERE is the folder that all of it lies in. */
static void write_compiler(const char *folder, const char *before,
                           const char *after)
{
    char path[320];

    snprintf(path, sizeof(path), "%s/cc", folder);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file,
            "#!/bin/sh\n"
            "HERE='%s'\n"
            "[ \"$1\" = --version ] && exec cc --version\n"
            "%s\ncc \"$@\"\nstatus=$?\n%s\nexit $status\n",
            folder, before, after);
    fclose(file);
    ck_assert_int_eq(chmod(path, 0700), 0);
    setenv("SPC_CC", path, 1);
}

typedef struct watch {
    char log[320]; /* a line for every compilation begun, and for its end */
    int looks, compiling;
} watch;

static int count_lines(const char *path, const char *line)
{
    FILE *file = fopen(path, "r");
    char text[16];
    int count = 0;

    while (file != NULL && fgets(text, sizeof(text), file) != NULL)
        count += strcmp(text, line) == 0;
    if (file != NULL)
        fclose(file);
    return count;
}

/* Has a candidate been timed while something was being compiled? */
static void look_around(const spc_progress *progress, void *payload)
{
    watch *w = payload;

    if (progress->stage != SPC_STAGE_TIME)
        return;
    w->looks++;
    w->compiling +=
        count_lines(w->log, "end\n") < count_lines(w->log, "begin\n");
}

static const struct {
    const char *device, *templates, *layer, *scene, *only;
    bool overlaps;
} overlaps[] = {
    {"cpu", TEMPLATES "plain", LAYER, SCENE, NULL, false},
    {"sim", NULL, "subm,cin=16,cout=16,k=3,dtype=f16",
     "gen:uniform,n=60,extent=6", "os_warp", true},
};

START_TEST(others_compile_during_a_timing_unless_that_disturbs_it)
{
    if (_i > 0 && !suite_takes(_i))
        return;
    char *folder = make_database();
    watch w = {.looks = 0};

    *strrchr(folder, '/') = '\0';
    write_compiler(folder, "echo begin >>$HERE/log", "echo end >>$HERE/log");
    snprintf(w.log, sizeof(w.log), "%s/log", folder);
    spc_ctx *ctx = open_ctx(overlaps[_i].device, "", overlaps[_i].templates);
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    options.effort = SPC_EFFORT_QUICK;
    options.only = overlaps[_i].only;
    options.on_progress = look_around;
    options.payload = &w;
    assert_ok(tune(ctx, overlaps[_i].layer, overlaps[_i].scene, &options, NULL),
              spc_ctx_error(ctx));
    ck_assert_int_gt(w.looks, 3);
    ck_assert_int_eq(w.compiling > 0, overlaps[_i].overlaps);
    spc_ctx_free(ctx);
    spc__temp_dir_remove(folder);
}
END_TEST

typedef struct workshop { /* a builder whose compiler waits for a file */
    char folder[300], go[320];
    volatile int cancel;
    spc_ctx *ctx;
    spc_conv conv;
    spc__request request;
    spc__candidates candidates;
    spc__builder *builder;
} workshop;

static void workshop_open(workshop *w)
{
    char *folder = make_database();
    spc_error error = {0};

    memset(w, 0, sizeof(*w));
    *strrchr(folder, '/') = '\0';
    snprintf(w->folder, sizeof(w->folder), "%s", folder);
    snprintf(w->go, sizeof(w->go), "%s/go", folder);
    write_compiler(folder,
                   "for i in $(seq 100); do\n"
                   "    [ -e $HERE/go ] && break\n    sleep 0.1\ndone\n"
                   "[ -e $HERE/go ] || exit 1",
                   "");
    w->ctx = open_ctx("cpu", "", TEMPLATES "plain");
    w->ctx->cancel = &w->cancel;
    assert_ok(spc_conv_parse(&w->conv, LAYER, &error), error.text);
    spc__request_init(&w->request, w->ctx, &w->conv, NULL, 0, NULL);
    assert_ok(spc__candidates_open(&w->candidates, &w->request),
              w->request.error->text);
    assert_ok(spc__candidates_admit(&w->candidates, &w->request),
              w->request.error->text);
    assert_ok(spc__builder_create(&w->builder, &w->request, &w->candidates),
              w->request.error->text);
    for (int i = 0; i < 3; i++)
        assert_ok(spc__builder_add(w->builder, &w->candidates.entries[i]),
                  w->request.error->text);
    ck_assert_int_eq(spc__builder_pending(w->builder), 3);
}

static void workshop_close(workshop *w)
{
    spc__builder_free(w->builder);
    spc__candidates_release(&w->candidates);
    spc_ctx_free(w->ctx);
    spc__temp_dir_remove(w->folder);
}

START_TEST(a_builder_compiles_while_its_caller_goes_on)
{
    spc__entry *entry;
    workshop w;

    workshop_open(&w);
    fclose(fopen(w.go, "w"));
    for (int i = 0; i < 3; i++) {
        assert_ok(spc__builder_next(w.builder, &entry), w.request.error->text);
        ck_assert_ptr_nonnull(entry);
        ck_assert_int_eq(entry->state, SPC__BUILT);
        ck_assert_int_gt(entry->code_bytes, 0);
    }
    assert_ok(spc__builder_next(w.builder, &entry), w.request.error->text);
    ck_assert_ptr_null(entry);
    /* Two of them differ in the row order only. */
    ck_assert_int_eq(spc__builder_compiled(w.builder), 2);
    workshop_close(&w);
}
END_TEST

START_TEST(what_a_cancelled_builder_has_not_compiled_is_new_again)
{
    spc__entry *entry;
    workshop w;

    workshop_open(&w);
    __atomic_store_n(&w.cancel, 1, __ATOMIC_RELAXED);
    uint64_t since = spc__now_ns();
    ck_assert_int_eq(spc__builder_next(w.builder, &entry), SPC_EINTERRUPTED);
    spc__builder_stop(w.builder);
    ck_assert_msg(spc__now_ns() - since < 5000000000ull, "it waited");
    assert_ok(spc__builder_next(w.builder, &entry), w.request.error->text);
    ck_assert_ptr_null(entry);
    ck_assert_int_eq(spc__builder_pending(w.builder), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(w.candidates.entries[i].state, SPC__NEW);
    workshop_close(&w);
}
END_TEST

START_TEST(a_candidate_is_rendered_by_its_number)
{
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "unruly");
    spc_conv conv;
    spc_error error = {0};
    char *source = NULL;

    assert_ok(spc_conv_parse(&conv, LAYER, &error), error.text);
    assert_ok(spc_space_render(&source, ctx, &conv, NULL, 3),
              spc_ctx_error(ctx));
    assert_says(source, "mood=wrong");
    free(source);
    ck_assert_int_eq(spc_space_render(&source, ctx, &conv, NULL, 6),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "0 to 5");
    spc_ctx_free(ctx);
}
END_TEST

/* Flushing the cache goes through shadow memory there. */
static bool is_slow_at_timing(void)
{
#ifdef SPC_SANITIZE
    return strcmp(SPC_SANITIZE, "thread") == 0;
#else
    return false;
#endif
}

static void add_option(const char *variable, const char *option)
{
    const char *old = getenv(variable);
    char text[512];

    snprintf(text, sizeof(text), "%s:%s", old != NULL ? old : "", option);
    setenv(variable, text, 1);
}

/* A sanitizer takes minutes: there one case of the suite a day, and of threads,
 * which the builder has, that of the builder. */
static void choose_case(void)
{
    static const char *const cases[] = {"work", "trouble"};

    if (is_slow_at_timing())
        setenv("CK_RUN_CASE", "meanwhile", 0);
#ifdef SPC_SANITIZE
    else if (suite_one_in > 1)
        setenv("CK_RUN_CASE", cases[suite_day % 2], 0);
#endif
    (void)cases;
}

int main(void)
{
    /* Workers that are meant to crash do, under a sanitizer too. */
    add_option("ASAN_OPTIONS", "handle_segv=0");
    add_option("TSAN_OPTIONS", "handle_segv=0");
    suite_sample(3);
    choose_case();
    Suite *suite = suite_create("tuner");
    TCase *work = tcase_create("work");
    TCase *meanwhile = tcase_create("meanwhile");
    TCase *trouble = tcase_create("trouble");
    TCase *workers = tcase_create("workers");

    tcase_set_timeout(work, 240);
    tcase_set_timeout(meanwhile, 240);
    tcase_set_timeout(trouble, 240);
    tcase_set_timeout(workers, 240);
    tcase_add_loop_test(
        work, a_second_tune_measures_nothing_and_a_plan_runs_the_winner, 0,
        LENGTH(jobs));
    tcase_add_test(work, a_time_below_the_floor_is_not_believed);
    tcase_add_test(work, the_default_and_the_winner_have_all_samples);
    tcase_add_test(work,
                   several_scenes_share_one_winner_and_the_worst_is_named);
    tcase_add_loop_test(work, untuned_is_what_a_plan_takes_without_a_database,
                        0, 3);
    tcase_add_loop_test(
        work, quick_finds_what_one_parameter_at_a_time_does_not_lead_to, 0,
        LENGTH(hills));
    tcase_add_loop_test(
        work, stages_that_time_nothing_take_the_first_step_from_every_default,
        0, 2);
    tcase_add_test(work, an_interrupted_tune_goes_on_where_it_was);
    tcase_add_loop_test(
        work, what_cannot_be_stored_is_measured_reported_and_a_failure, 0,
        LENGTH(losses));
    tcase_add_test(work, what_a_passing_lock_kept_out_is_stored_at_the_end);
    tcase_add_test(work, a_damaged_record_costs_one_measurement_once);
    tcase_add_loop_test(work,
                        a_compiler_that_failed_without_a_line_is_tried_again, 0,
                        LENGTH(failures));
    tcase_add_loop_test(work, among_equals_the_documented_one_wins, 0,
                        LENGTH(ties));
    tcase_add_test(work, a_choice_that_is_there_already_need_not_be_stored);
    tcase_add_loop_test(
        work, a_tune_without_its_database_fails_unless_none_was_wanted, 0,
        LENGTH(places));
    tcase_add_test(work,
                   an_interrupted_tune_without_a_database_promises_nothing);
    tcase_add_test(work, a_changed_template_makes_old_records_worth_nothing);
    tcase_add_test(work, equal_code_is_measured_once);
    tcase_add_loop_test(work, one_and_two_voxels_can_be_tuned_on, 1, 3);
    tcase_add_test(work, a_candidate_is_rendered_by_its_number);
    tcase_add_test(meanwhile, a_builder_compiles_while_its_caller_goes_on);
    tcase_add_test(meanwhile,
                   what_a_cancelled_builder_has_not_compiled_is_new_again);
    if (!is_slow_at_timing())
        tcase_add_loop_test(
            meanwhile, others_compile_during_a_timing_unless_that_disturbs_it,
            0, LENGTH(overlaps));
    suite_add_tcase(suite, meanwhile);
    suite_add_tcase(suite, work);
    suite_add_tcase(suite, trouble);
    suite_add_tcase(suite, workers);

    tcase_add_loop_test(trouble, candidates_compile_for_gpus_that_are_not_here,
                        0, LENGTH(elsewhere));
    tcase_add_loop_test(
        workers, a_candidate_that_misbehaves_costs_a_worker_and_not_the_run, 0,
        2);
    tcase_add_test(workers, failures_are_known_the_second_time);
    tcase_add_test(workers, a_worker_has_limits_of_its_own);
    tcase_add_test(workers, a_device_that_answers_runs_an_empty_kernel);
    tcase_add_test(workers,
                   a_spoiled_process_is_no_verdict_on_the_next_candidate);
    tcase_add_test(workers,
                   a_rig_that_fails_ends_the_run_and_leaves_no_verdict);
    tcase_add_loop_test(trouble, a_worker_that_is_no_worker_is_said_to_be_none,
                        0, 2);
    tcase_add_loop_test(trouble, what_spills_is_refused_before_any_launch, 0,
                        2);
    tcase_add_loop_test(trouble,
                        the_space_of_a_gpu_that_is_not_here_is_not_empty, 0,
                        LENGTH(targets));
    tcase_add_loop_test(trouble,
                        defaults_for_any_channels_compile_and_do_not_spill, 0,
                        LENGTH(targets));
    tcase_add_loop_test(trouble, defaults_are_legal_wherever_a_template_serves,
                        0, LENGTH(targets));
    tcase_add_loop_test(trouble, every_known_target_has_facts, 0,
                        LENGTH(targets));
    tcase_add_loop_test(trouble,
                        an_unknown_target_is_refused_with_the_known_ones, 0,
                        LENGTH(no_targets));
    tcase_add_loop_test(trouble, a_mistake_gets_one_sentence_and_its_status, 0,
                        LENGTH(mistakes));
    tcase_add_test(trouble, a_layer_that_cannot_be_is_refused_with_a_sentence);
    tcase_add_test(trouble, the_flag_of_a_run_is_forgotten_with_it);
    tcase_add_test(trouble, a_caller_may_choose_among_candidates);
    tcase_add_loop_test(trouble, nonsense_is_refused_with_a_sentence, 0,
                        LENGTH(nonsense));
    tcase_add_test(
        trouble,
        coordinates_that_fit_no_key_are_refused_before_anything_is_compiled);
    tcase_add_test(trouble, a_scene_without_voxels_is_nothing_to_tune_on);
    tcase_add_loop_test(trouble, without_a_compiler_a_run_says_so, 0, 2);
    return run_suite(suite);
}
