/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_finals.c - the end of a search: comparing candidates that may win,
 * earlier choices, budgets, candidates that a caller compares or chooses, and
 * layouts of a map that its layers choose together.
 */
#include "harness/layer_harness.h"

#include "base/file.h"
#include "cache/cache_internal.h"
#include "command/network/joint_layouts.h"
#include "command/network/rivals.h"
#include "harness/suite.h"
#include "tuner/search/choice.h"
#include "tuner/search/moves.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TEMPLATES SPC_TEST_DATA "/templates/tuner/"
#define LAYER "subm,cin=4,cout=6,k=3,dtype=f32"
#define SCENE "gen:uniform,n=300,extent=12"
/* A scene in different but near buckets. */
#define NEIGHBOUR "gen:uniform,n=600,extent=15"

/*
 * One database for all tests, made before the first, so that kernels are
 * compiled once.
 */
static char database[300];

/* ---- runs ---------------------------------------------------------------- */

enum { MOST = 16 };

typedef struct seen {
    int count, timed;
    char name[MOST][160];
    int samples[MOST];
    double us[MOST];
} seen;

static void on_trial(const spc_trial *trial, void *payload)
{
    seen *s = payload;

    ck_assert_int_lt(s->count, MOST);
    snprintf(s->name[s->count], sizeof(s->name[0]), "%s %s",
             trial->template_name, trial->config);
    s->samples[s->count] = trial->samples;
    s->us[s->count] = trial->median_us;
    s->timed += trial->samples > 0 && !trial->from_database;
    s->count++;
}

static bool wants_tiles_of_32(const char *template_name, const char *config,
                              void *payload)
{
    (void)template_name;
    (void)payload;
    return strstr(config, "tile=32") != NULL;
}

static spc_status tune_layer(spc_ctx *ctx, const char *layer, const char *spec,
                             seen *s, const spc_tune_options *how,
                             spc_tune_report *report)
{
    spc_tune_options options = *how;
    spc_scene *scene = NULL;
    spc_error error = {0};
    spc_conv conv;

    memset(s, 0, sizeof(*s));
    options.on_trial = on_trial;
    options.payload = s;
    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    assert_ok(spc_scene_load(&scene, spec, &error), error.text);
    spc_status status = spc_tune(report, ctx, &conv,
                                 (const spc_scene *const *)&scene, 1, &options);
    spc_scene_free(scene);
    return status;
}

static spc_status tune(spc_ctx *ctx, const char *spec, seen *s,
                       const spc_tune_options *how, spc_tune_report *report)
{
    return tune_layer(ctx, LAYER, spec, s, how, report);
}

static int64_t count(const char *what)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    char sql[200];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", what);
    ck_assert_int_eq(sqlite3_open(database, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &statement, NULL),
                     SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
    int64_t found = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return found;
}

/* ---- comparing ----------------------------------------------------------- */

START_TEST(who_compares_measures_all_alike_and_chooses_none)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    seen s;

    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
    options.effort = SPC_EFFORT_QUICK;
    options.wants = wants_tiles_of_32;
    /* the second run does not use the first one's times */
    for (int again = 0; again < 2; again++) {
        assert_ok(tune(ctx, SCENE, &s, &options, &report), spc_ctx_error(ctx));
        ck_assert_int_eq(s.count, 4);
        ck_assert_int_eq(s.timed, 4);
        for (int i = 0; i < s.count; i++) {
            assert_says(s.name[i], "tile=32");
            ck_assert_int_eq(s.samples[i], 15);
        }
        ck_assert_str_eq(report.winner, "");
    }
    spc_ctx_free(ctx);
    /* no test before this one stores a choice */
    ck_assert_int_eq(count("choice"), 0);
    ck_assert_int_eq(count("trial WHERE samples = 15"), 4);
}
END_TEST

/* ---- budgets ------------------------------------------------------------- */

/*
 * A budget that is used up at once leaves time for the default only. A run
 * without a budget continues from there.
 */
START_TEST(a_spent_budget_leaves_something_that_a_later_run_goes_on_from)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report first, second, third;
    seen s;

    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    options.budget_s = 1e-9;
    assert_ok(tune(ctx, SCENE, &s, &options, &first), spc_ctx_error(ctx));
    ck_assert(first.out_of_time);
    ck_assert_int_ge(first.timed, 1);
    ck_assert_int_lt(first.timed, 12);
    ck_assert_str_ne(first.winner, "");
    ck_assert_int_eq(count("choice"), 1);
    /* Counts all trials except the code of maps, which is not timed. */
    int64_t stored = count("trial WHERE samples > 0 OR status <> 'ok'");
    ck_assert_int_ge(stored, first.timed);
    options.budget_s = 0;
    assert_ok(tune(ctx, SCENE, &s, &options, &second), spc_ctx_error(ctx));
    ck_assert(!second.out_of_time);
    ck_assert_int_eq(second.known, stored);
    ck_assert_int_eq(s.count, 12);
    options.budget_s = 1e-9; /* no effect, because everything is known */
    assert_ok(tune(ctx, SCENE, &s, &options, &third), spc_ctx_error(ctx));
    ck_assert(!third.out_of_time);
    ck_assert_int_eq(third.known, 12);
    ck_assert_str_eq(third.winner, second.winner);
    options.budget_s = NAN;
    ck_assert_int_eq(tune(ctx, SCENE, &s, &options, &third), SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "budget");
    spc_ctx_free(ctx);
}
END_TEST

/* ---- earlier choices ----------------------------------------------------- */

/* Changes the stored choice to this configuration. */
static void choose(const char *config)
{
    char *sql = sqlite3_mprintf(
        "UPDATE choice SET trial = (SELECT id FROM trial WHERE config = %Q "
        "AND problem = choice.problem)",
        config);
    sqlite3 *db;

    ck_assert_int_eq(sqlite3_open(database, &db), SQLITE_OK);
    ck_assert_int_eq(spc__seal_open(db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    for (int i = 0; spc__seal_everything[i] != NULL; i++)
        ck_assert_int_eq(
            sqlite3_exec(db, spc__seal_everything[i], NULL, NULL, NULL),
            SQLITE_OK);
    sqlite3_close(db);
    sqlite3_free(sql);
}

/*
 * Uses the problem that the previous test tuned. A quick search begins at the
 * default, and the stored choice is more than one move away from it.
 */
START_TEST(a_neighbours_choice_is_measured_with_all_samples)
{
    static const char far[] = "tile=128,step=2,order=gray";
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    char name[200];
    int at = -1;
    seen s;

    choose(far);
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
    options.effort = SPC_EFFORT_QUICK;
    options.budget_s = 1e-9; /* only seeds are measured */
    assert_ok(tune(ctx, NEIGHBOUR, &s, &options, &report), spc_ctx_error(ctx));
    snprintf(name, sizeof(name), "plain %s", far);
    for (int i = 0; i < s.count; i++)
        if (strcmp(s.name[i], name) == 0)
            at = i;
    ck_assert_int_ge(at, 0);
    ck_assert_int_ge(s.samples[at], 15);
    spc_ctx_free(ctx);
}
END_TEST

/*
 * The tuner repeats the same `done` once all samples are taken. From then on
 * the default runs fast, so only a second timing can show it.
 */
static void raise_clock(const spc_progress *progress, void *payload)
{
    static int done;

    (void)payload;
    if (progress->stage == SPC_STAGE_TIME && progress->done == done)
        strcpy(getenv("SPC_TEST_LATE"), "fast");
    done = progress->done;
}

START_TEST(the_untuned_stands_beside_the_best_however_far_behind_it_was)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    seen s;

    setenv("SPC_TEST_LATE", "slow", 1);
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "late");
    options.effort = SPC_EFFORT_QUICK;
    options.on_progress = raise_clock;
    assert_ok(tune(ctx, SCENE, &s, &options, &report), spc_ctx_error(ctx));
    ck_assert_str_eq(getenv("SPC_TEST_LATE"), "fast");
    ck_assert_str_eq(report.winner, "late tile=64");
    ck_assert_double_eq(report.winner_us, report.default_us);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- near problems ------------------------------------------------------- */

static int count_of(const seen *s, const char *template_name)
{
    size_t length = strlen(template_name);
    int found = 0;

    for (int i = 0; i < s->count; i++)
        found += strncmp(s->name[i], template_name, length) == 0;
    return found;
}

/* `slow` takes 15 times as long as most of `hills` on every scene, so that a
 * busy machine does not change the order. */
START_TEST(what_lost_on_a_near_problem_is_not_tried_again)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report first, second, third;
    seen s;

    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "hills");
    options.effort = SPC_EFFORT_QUICK;
    assert_ok(tune(ctx, SCENE, &s, &options, &first), spc_ctx_error(ctx));
    ck_assert_int_eq(count_of(&s, "slow "), 1);
    assert_ok(tune(ctx, NEIGHBOUR, &s, &options, &second), spc_ctx_error(ctx));
    ck_assert_int_eq(count_of(&s, "slow "), 0);
    ck_assert_str_eq(second.winner, "hills tile=128,depth=1");
    ck_assert_int_lt(second.timed, first.timed);
    assert_ok(tune(ctx, NEIGHBOUR, &s, &options, &third), spc_ctx_error(ctx));
    ck_assert_int_eq(third.timed, 0);
    options.effort = SPC_EFFORT_NORMAL; /* a larger effort tries the
                                         * candidate */
    assert_ok(tune(ctx, NEIGHBOUR, &s, &options, &third), spc_ctx_error(ctx));
    ck_assert_int_ge(count_of(&s, "slow "), 1);
    spc_ctx_free(ctx);
}
END_TEST

/* Does not list the space, as the trials show the choice. */
START_TEST(a_choice_that_is_there_is_found_without_the_space)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report first, second;
    seen s;

    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "hills");
    options.effort = SPC_EFFORT_QUICK;
    options.missing = true;
    assert_ok(tune(ctx, SCENE, &s, &options, &first), spc_ctx_error(ctx));
    ck_assert(first.was_there);
    ck_assert_str_eq(first.winner, "hills tile=128,depth=1");
    ck_assert_double_gt(first.winner_us, 0);
    ck_assert_int_eq(s.count, first.known);
    ck_assert_int_eq(first.candidates, first.known);
    options.only = "slow"; /* the stored choice is of another template */
    assert_ok(tune(ctx, SCENE, &s, &options, &second), spc_ctx_error(ctx));
    ck_assert(!second.was_there);
    ck_assert_str_ne(second.winner, first.winner);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- chosen by the caller ------------------------------------------------ */

#define CHOSEN                                                                 \
    "choice JOIN trial ON trial.id = choice.trial "                            \
    "WHERE choice.reason LIKE '%in a network%' AND trial.config = "

/* Uses the same problem. The candidate is chosen although it is slower, and
 * remains the choice. */
START_TEST(a_caller_chooses_what_was_measured_and_nothing_else)
{
    static const char wanted[] = "plain tile=128,step=2,order=gray";
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    seen s;

    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "plain");
    options.chosen = "plain tile=32,step=1,order=none";
    assert_ok(tune(ctx, SCENE, &s, &options, &report), spc_ctx_error(ctx));
    ck_assert_str_eq(report.winner, options.chosen);
    options.chosen = wanted;
    assert_ok(tune(ctx, SCENE, &s, &options, &report), spc_ctx_error(ctx));
    ck_assert_str_eq(report.winner, wanted);
    ck_assert_int_eq(report.timed, 0);
    ck_assert_int_eq(count(CHOSEN "'tile=128,step=2,order=gray'"), 1);
    /*
     * After an interrupt a caller may still restore a choice: it replaces the
     * flag by one that is not set.
     */
    static const int called_off = 1, never = 0;
    ctx->cancel = &called_off;
    options.chosen = "plain tile=32,step=1,order=none";
    ck_assert_int_eq(tune(ctx, SCENE, &s, &options, &report), SPC_EINTERRUPTED);
    ck_assert_int_eq(count(CHOSEN "'tile=32,step=1,order=none'"), 0);
    options.cancel = &never;
    assert_ok(tune(ctx, SCENE, &s, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(count(CHOSEN "'tile=32,step=1,order=none'"), 1);
    ctx->cancel = NULL;
    options.chosen = "plain tile=129,step=2,order=gray";
    ck_assert_int_eq(tune(ctx, SCENE, &s, &options, &report), SPC_ENOTFOUND);
    assert_says(spc_ctx_error(ctx), "has no times of 'plain tile=129");
    spc_ctx_free(ctx);
}
END_TEST

/* ---- layers without a map ------------------------------------------------ */

/*
 * Rows of linear layers are not sorted, and half of the candidates differ only
 * in the order.
 */
START_TEST(row_orders_of_a_linear_layer_are_one)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    seen s;

    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "plain");
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    assert_ok(tune_layer(ctx, "linear,cin=4,cout=6,dtype=f32", SCENE, &s,
                         &options, &report),
              spc_ctx_error(ctx));
    ck_assert_int_eq(s.count, 12);
    ck_assert_int_eq(report.timed, 6);
    for (int i = 0; i < s.count; i++)
        ck_assert((s.samples[i] > 0) ==
                  (strstr(s.name[i], "order=none") != NULL));
    spc_ctx_free(ctx);
}
END_TEST

/* ---- layouts that layers share ------------------------------------------- */

static void set_layer(joint_layer *layer, int map, int uses, double none,
                      double gray, double dense)
{
    double least = fmin(none, fmin(gray, dense));

    *layer = (joint_layer){.map = map, .uses = uses, .own = -1, .chosen = -1};
    joint_layer_add(layer, "k", "rows=1,order=none,x=2", none, none == least);
    joint_layer_add(layer, "k", "order=gray", gray, gray == least);
    joint_layer_add(layer, "k", "rows=9,order=dense", dense, dense == least);
    joint_layer_add(layer, "k", "rows=8,order=dense", dense + 1, false);
}

/*
 * Each row has the times of two layers by order, the number of times that a run
 * has the first layer, and the cost of an order; then the expected orders and
 * the expected gain. Layers of other maps are not affected.
 */
START_TEST(an_order_that_layers_share_is_paid_for_once)
{
    static const struct {
        double one[3], other[3];
        int uses;
        double price;
        const char *takes[2];
        double gain;
    } rows[] = {
        /* each layer keeps its own order, as both gain more than they cost */
        {{50, 10, 40}, {50, 40, 10}, 1, 20, {"gray", "dense"}, 0},
        /* no order gains more than it costs */
        {{15, 10, 11}, {15, 12, 10}, 1, 20, {"none", "none"}, 30},
        /* both layers share an order */
        {{50, 10, 12}, {50, 40, 10}, 1, 20, {"dense", "dense"}, 18},
        /* the first layer occurs so often that it decides */
        {{50, 10, 12}, {50, 11, 10}, 9, 20, {"gray", "gray"}, 19},
        /* an order that costs nothing is kept */
        {{50, 10, 12}, {50, 40, 10}, 1, 0, {"gray", "dense"}, 0},
    };

    for (int r = 0; r < LENGTH(rows); r++) {
        joint_layer all[3];
        set_layer(&all[0], 4, rows[r].uses, rows[r].one[0], rows[r].one[1],
                  rows[r].one[2]);
        set_layer(&all[1], 4, 1, rows[r].other[0], rows[r].other[1],
                  rows[r].other[2]);
        set_layer(&all[2], 3, 1, 9, 8, 7);
        double gain = joint_choose(all, 3, 4, rows[r].price);
        for (int i = 0; i < 2; i++)
            ck_assert_msg(strcmp(all[i].options[all[i].chosen].order,
                                 rows[r].takes[i]) == 0,
                          "row %d, layer %d: %s", r, i,
                          all[i].options[all[i].chosen].order);
        ck_assert_msg(fabs(gain - rows[r].gain) < 1e-9, "row %d: %g", r, gain);
        ck_assert_str_eq(all[2].options[all[2].chosen].kernel,
                         "k rows=9,order=dense");
        for (int i = 0; i < 3; i++)
            joint_layer_release(&all[i]);
    }
}
END_TEST

/* A layer alone takes the hybrid, whose two layouts cost 12. If another layer
 * reads one of them, only the other one counts. */
START_TEST(a_hybrid_pays_for_both_of_its_layouts)
{
    static const struct {
        double other; /* time of the second layer by pairs alone */
        const char *takes;
        double gain;
    } rows[] = {{0, "none", 8}, {5, "gray+pairs", 0}};

    for (int r = 0; r < LENGTH(rows); r++) {
        joint_layer all[2] = {{.map = 4, .uses = 1, .own = -1, .chosen = -1},
                              {.map = 4, .uses = 1, .own = -1, .chosen = -1}};
        ck_assert(joint_layer_add(&all[0], "pairs_mma", "near=3", 10, true));
        ck_assert(joint_layer_add(&all[0], "os_warp", "order=none", 14, false));
        ck_assert(joint_layer_add(&all[0], "os_warp", "order=gray", 30, false));
        ck_assert(joint_layer_add(&all[0], "pairs_mma", "near=0", 40, false));
        if (rows[r].other > 0) {
            ck_assert(joint_layer_add(&all[1], "pairs_mma", "near=0",
                                      rows[r].other, true));
            ck_assert(joint_layer_add(&all[1], "k", "order=gray", 50, false));
        }
        double gain = joint_choose(all, 2, 4, rows[r].other > 0 ? 3 : 6);
        ck_assert_str_eq(all[0].options[all[0].chosen].order, rows[r].takes);
        ck_assert_msg(fabs(gain - rows[r].gain) < 1e-9, "row %d: %g", r, gain);
        for (int i = 0; i < 2; i++)
            joint_layer_release(&all[i]);
    }
}
END_TEST

START_TEST(a_kernel_that_names_no_order_reads_a_layout_of_its_own)
{
    static const char *const rows[][3] = {
        {"os_warp", "rows=16,order=gray_x,depth=2", "gray_x"},
        {"os_warp", "order=none", "none"},
        {"pairs_mma", "rows=16,border=3", "pairs_mma"},
        {"k", "k border=3,order=dense", "dense"},
        {"pairs_mma", "join=places,near=0", "pairs"},
        {"pairs_mma", "pairs_mma near=10,m=1", "gray+pairs"},
    };
    char order[JOINT_NAME];

    for (int r = 0; r < LENGTH(rows); r++) {
        joint_order_of(order, rows[r][0], rows[r][1]);
        ck_assert_str_eq(order, rows[r][2]);
    }
}
END_TEST

/* ---- rivals in a network ------------------------------------------------- */

/*
 * A network of two layers. Has the time of a replay with each of their kernels,
 * and the error of the first timing.
 */
typedef struct pretended {
    double us[2][3], first_by;
    int now[2], timed, most;
} pretended;

static spc_status pretend_take(void *payload, int layer, const char *kernel,
                               bool back)
{
    (void)back;
    ((pretended *)payload)->now[layer] = kernel[1] - '0';
    return SPC_OK;
}

static spc_status pretend_time(void *payload, double *us)
{
    pretended *p = payload;

    *us = p->us[0][p->now[0]] + p->us[1][p->now[1]];
    *us += p->timed++ == 0 ? p->first_by : 0;
    return SPC_OK;
}

static bool pretend_has_time(void *payload)
{
    const pretended *p = payload;

    return p->timed < p->most;
}

/* Kernels k1 and k2 are the rivals of k0 in both layers. */
START_TEST(a_kernel_that_is_slower_alone_is_taken_if_the_network_is_faster)
{
    static const struct {
        pretended p;
        int takes[2], changed;
        double us;
    } rows[] = {
        /* no rival is faster */
        {{.us = {{50, 50, 51}, {50, 55, 50}}, .most = 99}, {0, 0}, 0, 100},
        /* one layer's second rival wins, and the other's first */
        {{.us = {{50, 52, 40}, {50, 45, 48}}, .most = 99}, {2, 1}, 2, 85},
        /* the gain is below the noise of replays */
        {{.us = {{50, 49.9, 50}, {50, 50, 50}}, .most = 99}, {0, 0}, 0, 100},
        /* the first timing was too fast by chance */
        {{.us = {{50, 50, 50}, {50, 50, 50}}, .first_by = -20, .most = 99},
         {0, 0},
         0,
         100},
        /* the budget ends before the first layer's second rival */
        {{.us = {{50, 52, 40}, {50, 45, 48}}, .most = 2}, {0, 1}, 1, 95},
        {{.us = {{50, 40, 40}, {50, 45, 48}}, .most = 0}, {0, 0}, 0, 100},
    };

    for (int r = 0; r < LENGTH(rows); r++) {
        rivals layers[2] = {{.now = strdup("k0")}, {.now = strdup("k0")}};
        pretended p = rows[r].p;
        rivals_network network = {pretend_take, pretend_time, pretend_has_time,
                                  &p};
        double us = 100;
        int changed;
        for (int l = 0; l < 2; l++)
            ck_assert(rivals_add(&layers[l], "k2", 12) &&
                      rivals_add(&layers[l], "k1", 11));
        assert_ok(rivals_try(layers, 2, &network, &us, &changed), "");
        for (int l = 0; l < 2; l++) {
            ck_assert_msg(p.now[l] == rows[r].takes[l],
                          "row %d, layer %d has kernel %d", r, l, p.now[l]);
            ck_assert_int_eq(layers[l].now[1] - '0', p.now[l]);
            rivals_release(&layers[l]);
        }
        ck_assert_int_eq(changed, rows[r].changed);
        ck_assert_msg(fabs(us - rows[r].us) < 1e-9, "row %d: %g", r, us);
    }
}
END_TEST

START_TEST(the_fastest_rivals_are_kept_and_one_is_put_first)
{
    static const double us[] = {15, 11, 14, 12, 16, 13};
    static const char *const order[] = {"k12", "k11", "k13", "k14"};
    rivals layer = {0};
    char name[24];

    for (int i = 0; i < LENGTH(us); i++) {
        snprintf(name, sizeof(name), "k%g", us[i]);
        ck_assert(rivals_add(&layer, name, us[i]));
    }
    rivals_put_first(&layer, "k12");
    rivals_put_first(&layer, "k15");           /* not among the kernels */
    ck_assert(!rivals_give_way(&layer, "k0")); /* an unknown kernel */
    ck_assert_int_eq(layer.count, RIVALS_MOST);
    for (int i = 0; i < RIVALS_MOST; i++)
        ck_assert_str_eq(layer.other[i], order[i]);
    layer.now = strdup("k10");
    ck_assert(rivals_give_way(&layer, "k11"));
    ck_assert_str_eq(layer.now, "k11");
    ck_assert_str_eq(layer.other[0], "k10");
    ck_assert_str_eq(layer.other[1], "k12");
    ck_assert(rivals_give_way(&layer, "k99"));
    ck_assert_str_eq(layer.now, "k99");
    ck_assert_str_eq(layer.other[0], "k11");
    ck_assert_int_eq(layer.count, RIVALS_MOST);
    rivals_release(&layer);
}
END_TEST

/* ---- the winner ---------------------------------------------------------- */

/* Sets an entry with its own time, and its time beside the other finalists. */
static void set_entry(spc__entry *entry, spc__candidate *candidate, double us,
                      double side_us)
{
    memset(entry, 0, sizeof(*entry));
    memset(candidate, 0, sizeof(*candidate));
    entry->candidate = candidate;
    entry->config = (char *)"";
    entry->state = SPC__TIMED;
    entry->side_us = side_us;
    entry->timings[0] = (spc__timing){
        .count = 99, .median_us = us, .spread_us = 0.001, .cold_us = us};
}

/* ---- moves --------------------------------------------------------------- */

/* Candidates a=1|2, b=1|2|3; those with a time are timed. */
typedef struct grid {
    spc__entry entries[6];
    spc__candidate kinds[6];
    spc__candidates all;
} grid;

static void set_grid(grid *g, const double us[6], double spread)
{
    memset(g, 0, sizeof(*g));
    for (int i = 0; i < 6; i++) {
        set_entry(&g->entries[i], &g->kinds[i], us[i], 0);
        g->entries[i].timings[0].spread_us = spread * us[i];
        g->entries[i].state = us[i] > 0 ? SPC__TIMED : SPC__NEW;
        g->kinds[i].is_default = i == 0;
        spc__attrs_set_number(&g->kinds[i].config, "a", 1 + i / 3);
        spc__attrs_set_number(&g->kinds[i].config, "b", 1 + i % 3);
    }
    g->all = (spc__candidates){.entries = g->entries, .count = 6};
}

/* a=2 cost twice as much at b=1. The best is a=1,b=2; b=3 was not tried. */
START_TEST(a_change_that_cost_much_elsewhere_is_not_tried_again)
{
    static const double us[6] = {10, 8, 0, 20, 0, 0};
    static const struct {
        double spread;
        spc_effort effort;
        bool tries; /* expects a=2 at b=2 */
    } rows[] = {
        {0.001, SPC_EFFORT_QUICK, false},
        {0.6, SPC_EFFORT_QUICK, true},
        {0.001, SPC_EFFORT_NORMAL, true},
    };
    spc__request request = {.scene_count = 1};
    spc__entry *ranked[6], *next[7];
    grid g;

    for (int r = 0; r < LENGTH(rows); r++) {
        request.options.effort = rows[r].effort;
        set_grid(&g, us, rows[r].spread);
        int count = spc__rank_all(&g.all, ranked, 1);
        count = spc__next_moves(&g.all, ranked, count, &request, next);
        ck_assert_int_eq(count, rows[r].tries ? 2 : 1);
        ck_assert_ptr_eq(next[0], &g.entries[2]);
        if (rows[r].tries)
            ck_assert_ptr_eq(next[1], &g.entries[4]);
    }
}
END_TEST

/* Three candidates of one layer and scene, for spc__choose. */
typedef struct trio {
    spc_ctx *ctx;
    spc_scene *scene;
    spc_conv conv;
    spc_error error;
    spc__request request;
    spc__entry *entries;
    spc__candidate *kinds;
} trio;

static void open_trio(trio *t)
{
    *t = (trio){.ctx = open_ctx("cpu", "", TEMPLATES "plain")};
    assert_ok(spc_conv_parse(&t->conv, LAYER, &t->error), t->error.text);
    assert_ok(spc_scene_load(&t->scene, "gen:shell,r=4", &t->error),
              t->error.text);
    t->entries = calloc(3, sizeof(*t->entries));
    t->kinds = calloc(3, sizeof(*t->kinds));
    ck_assert(t->entries != NULL && t->kinds != NULL);
    t->request = (spc__request){.ctx = t->ctx,
                                .conv = &t->conv,
                                .scenes = (const spc_scene *const *)&t->scene,
                                .scene_count = 1,
                                .error = &t->error};
}

static void set_trio(trio *t, const double us[3], const double side_us[3])
{
    memset(t->entries, 0, 3 * sizeof(*t->entries));
    memset(t->kinds, 0, 3 * sizeof(*t->kinds));
    for (int i = 0; i < 3; i++)
        set_entry(&t->entries[i], &t->kinds[i], us[i], side_us[i]);
}

static void choose_one(spc__winner *out, trio *t)
{
    spc__entry *named[] = {&t->entries[0], &t->entries[1], &t->entries[2]};
    spc__candidates all = {
        .entries = t->entries, .count = 3, .by_config = named};

    assert_ok(spc__choose(out, &t->request, &all), t->error.text);
}

static void close_trio(trio *t)
{
    free(t->entries);
    free(t->kinds);
    spc_scene_free(t->scene);
    spc_ctx_free(t->ctx);
}

START_TEST(the_fastest_side_by_side_wins_whatever_other_moments_say)
{
    static const struct {
        double us[3], side_us[3];
        int winner;
        int of_network; /* the choice in a network, counted from 1; 0: none */
    } rows[] = {
        {{10, 11, 12}, {0, 0, 0}, 0, 0},
        {{10, 11, 12}, {13, 12, 0}, 1, 0},
        {{10, 10.5, 10.2}, {14, 14.5, 0}, 0, 0},
        {{10, 11, 12}, {14, 13.5, 13}, 2, 0},
        /* A choice that is nearly as fast as the fastest stays, whatever the
         * finalists. */
        {{10, 10.9, 12}, {0, 0, 0}, 1, 2},
        {{10, 10.9, 12}, {10, 0, 12}, 1, 2},
        {{10, 11.1, 12}, {0, 0, 0}, 0, 2},
        {{10, 10.9, 12}, {0, 0, 0}, 0, 1},
    };
    trio t;

    open_trio(&t);
    for (int r = 0; r < LENGTH(rows); r++) {
        spc__winner winner;
        set_trio(&t, rows[r].us, rows[r].side_us);
        if (rows[r].of_network > 0)
            t.entries[rows[r].of_network - 1].in_network = true;
        choose_one(&winner, &t);
        ck_assert_int_eq(winner.entry - t.entries, rows[r].winner);
        ck_assert((strstr(winner.reason, SPC__IN_NETWORK) != NULL) ==
                  (rows[r].of_network == rows[r].winner + 1));
    }
    close_trio(&t);
}
END_TEST

/*
 * The last entry is the untuned kernel. All are defaults. The second has the
 * fewest registers, so it wins ties.
 */
START_TEST(no_winner_is_slower_than_what_runs_untuned)
{
    static const char *const configs[] = {"tile=128,step=1,order=none",
                                          "tile=32,step=1,order=none",
                                          "tile=64,step=1,order=none"};
    static const struct {
        double us[3], side_us[3];
        int winner;
        double default_us;
    } rows[] = {
        {{10, 10, 10}, {10, 10.03, 10.05}, 1, 10.05},
        {{10, 10, 10}, {10, 10.08, 10.05}, 0, 10.05},
        {{10, 10, 30}, {10, 10.08, 30}, 1, 30},
        {{10, 10, 9}, {10, 10.08, 10.5}, 1, 10.5}, /* 9 was timed earlier */
        {{10, 10, 9}, {10, 0, 0}, 0, 0},           /* not timed together */
        {{10, 10.08, 10.05}, {0, 0, 0}, 0, 10.05},
        {{10, 10.03, 10.05}, {0, 0, 0}, 1, 10.05},
    };
    trio t;

    open_trio(&t);
    for (int r = 0; r < LENGTH(rows); r++) {
        spc__winner winner;
        set_trio(&t, rows[r].us, rows[r].side_us);
        for (int i = 0; i < 3; i++) {
            spc__entry *entry = &t.entries[i];
            entry->config = (char *)configs[i];
            strcpy(entry->trial.template_name, "plain");
            entry->timings[0].spread_us = 1;
            t.kinds[i].is_default = true;
            spc__attrs_set_number(&entry->trial.resources, "registers",
                                  i == 1 ? 32 : 64);
        }
        choose_one(&winner, &t);
        ck_assert_msg(winner.entry - t.entries == rows[r].winner,
                      "row %d: %d wins", r, (int)(winner.entry - t.entries));
        ck_assert_msg(fabs(winner.default_us - rows[r].default_us) < 1e-9,
                      "row %d: untuned %g", r, winner.default_us);
    }
    close_trio(&t);
}
END_TEST

int main(void)
{
    spc__buf folder = SPC__BUF_INIT;
    spc_error error = {0};
    Suite *suite = suite_create("finals");
    TCase *tcase = tcase_create("finals");

    if (spc__temp_dir_create(&folder, &error) != SPC_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    snprintf(database, sizeof(database), "%s/finals.db",
             spc__buf_text(&folder));
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, who_compares_measures_all_alike_and_chooses_none);
    tcase_add_test(
        tcase, a_spent_budget_leaves_something_that_a_later_run_goes_on_from);
    tcase_add_test(tcase, a_neighbours_choice_is_measured_with_all_samples);
    tcase_add_test(
        tcase, the_untuned_stands_beside_the_best_however_far_behind_it_was);
    tcase_add_test(tcase, what_lost_on_a_near_problem_is_not_tried_again);
    tcase_add_test(tcase, a_choice_that_is_there_is_found_without_the_space);
    tcase_add_test(tcase, a_change_that_cost_much_elsewhere_is_not_tried_again);
    tcase_add_test(tcase, a_caller_chooses_what_was_measured_and_nothing_else);
    tcase_add_test(tcase, row_orders_of_a_linear_layer_are_one);
    tcase_add_test(tcase, an_order_that_layers_share_is_paid_for_once);
    tcase_add_test(tcase, a_hybrid_pays_for_both_of_its_layouts);
    tcase_add_test(tcase,
                   a_kernel_that_names_no_order_reads_a_layout_of_its_own);
    tcase_add_test(
        tcase, a_kernel_that_is_slower_alone_is_taken_if_the_network_is_faster);
    tcase_add_test(tcase, the_fastest_rivals_are_kept_and_one_is_put_first);
    tcase_add_test(tcase,
                   the_fastest_side_by_side_wins_whatever_other_moments_say);
    tcase_add_test(tcase, no_winner_is_slower_than_what_runs_untuned);
    suite_add_tcase(suite, tcase);
    int status = run_suite(suite);
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
    return status;
}
