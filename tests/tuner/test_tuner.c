/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tuner.c - the tuning engine on the cpu and sim devices: the winner, the
 * measurements, and the records for the next run.
 */
#include "harness/tune_harness.h"

/* ---- the main job -------------------------------------------------------- */

static const struct {
    const char *device, *templates, *layer, *scene, *only;
} jobs[] = {
    {"cpu", TEMPLATES "plain", LAYER, SCENE, NULL},
    {"cpu", TEMPLATES "plain", "subm,cin=7,cout=9,k=2x3x1,dtype=f32,bias=1",
     "gen:shell,r=16", NULL},
    {"cpu", NULL, "subm,cin=8,cout=8,k=3,dtype=f16,dilation=2", SCENE, NULL},
    {"sim", NULL, "subm,cin=16,cout=16,k=3,dtype=f16",
     "gen:uniform,n=60,extent=6", "os_group"},
};

/* The first run's result for a candidate that the second run measures. */
static void explain_new(const recorded *first, const recorded *second)
{
    for (int i = 0; i < second->count; i++) {
        if (second->at[i].from_database)
            continue;
        printf("new in the second run: '%s': %s, %.4g us\n",
               second->at[i].candidate, second->at[i].status,
               second->at[i].us);
        for (int k = 0; k < first->count; k++)
            if (strcmp(first->at[k].candidate, second->at[i].candidate) == 0)
                printf("  in the first: %s, %.4g us, %s\n",
                       first->at[k].status, first->at[k].us,
                       first->at[k].note);
    }
}

/*
 * Jobs 2 and 3 and the overlap on the emulation take long, so only one of the
 * three runs.
 */
START_TEST(a_second_tune_measures_nothing_and_a_plan_runs_the_winner)
{
    if (_i >= 2 && !suite_takes(_i))
        return;
    char *database = make_database();
    spc_ctx *ctx = open_ctx(jobs[_i].device, database, jobs[_i].templates);
    static recorded earlier;
    spc_tune_report first, second;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.only = jobs[_i].only;
    assert_ok(tune(ctx, jobs[_i].layer, jobs[_i].scene, &options, &first),
              spc_ctx_error(ctx));
    ck_assert_int_gt(first.timed, 0);
    ck_assert_int_eq(first.known, 0);
    ck_assert_str_ne(first.winner, "");
    ck_assert(first.winner_us > 0 && first.default_us > 0);
    spc_ctx_free(ctx);

    ctx = open_ctx(jobs[_i].device, database, jobs[_i].templates);
    earlier = t;
    memset(&t, 0, sizeof(t));
    assert_ok(tune(ctx, jobs[_i].layer, jobs[_i].scene, &options, &second),
              spc_ctx_error(ctx));
    explain_new(&earlier, &t);
    ck_assert_int_eq(second.compiled, 0);
    ck_assert_int_eq(second.verified, 0);
    ck_assert_int_eq(second.timed, 0);
    ck_assert_int_ge(second.known, first.timed);
    ck_assert_str_eq(second.winner, first.winner);
    for (int i = 0; i < t.count; i++)
        ck_assert(t.at[i].from_database);
    check_plan(ctx, jobs[_i].layer, jobs[_i].scene, first.winner);
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

/* Checks that the default is the one that an untuned plan runs, not another
 * template's. */
START_TEST(untuned_is_what_a_plan_takes_without_a_database)
{
    static const char *const only[] = {"few", "many", NULL};
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "tied");
    spc_tune_report report;
    harness r;
    recorded t;
    spc_tune_options options = options_for(&t);

    options.only = only[_i];
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    harness_open(&r, ctx, LAYER, SCENE);
    assert_ok(spc_plan_create(&r.plan, ctx, &r.conv, r.map, SPC_PLAN_ESTIMATE),
              spc_ctx_error(ctx));
    ck_assert_str_eq(spc_plan_template(r.plan), "many");
    if (_i == 0) {
        ck_assert_double_eq(report.default_us, 0);
    } else {
        int i = find(&t, "many tile=64,step=1");
        ck_assert_double_eq(report.default_us, t.at[i].us);
    }
    harness_close(&r); /* frees the context */
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
    /* The first two scenes are in one bucket, so they have one record. */
    memset(&t, 0, sizeof(t));
    assert_ok(tune_on(ctx, LAYER, scenes, 3, &options, &report),
              spc_ctx_error(ctx));
    ck_assert_int_eq(report.timed, 0);
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

static void count_doubt(int level, const char *text, void *payload)
{
    int *doubts = payload;

    *doubts +=
        level == SPC_LOG_WARNING && strstr(text, "below the floor of") != NULL;
}

/* If a correct kernel is below the floor, the floor is wrong. */
START_TEST(a_time_below_the_floor_is_reported_and_no_verdict)
{
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "plain");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);
    int doubts = 0;

    ctx->log = (spc__log){count_doubt, &doubts};
    /* This device takes seconds instead of microseconds. */
    spc_device_info *info = &ctx->info;
    info->launch_us = 1e-3;
    info->memory = info->cache = (spc_bandwidth){1e-6, 1e-6, 1e-6};
    for (int i = 0; i < SPC_GATHER_SIZES; i++)
        info->gather_near_gbps[i] = info->gather_far_gbps[i] =
            info->gather_cold_gbps[i] = 1e-6;
    info->f32_tflops = info->tf32_tflops = info->f16_tflops = 1e-9;
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(doubts, 1);
    ck_assert_str_ne(report.winner, "");
    for (int i = 0; i < t.count; i++)
        ck_assert_str_eq(t.at[i].status, "ok");
    spc_ctx_free(ctx);
}
END_TEST

/* ---- climbing ------------------------------------------------------------ */

/* Keeps the best candidate of `hills`, which is two parameters away from the
 * default. */
static const char *const hills[] = {
    LAYER,
    LAYER ",bias=1",
    /*
     * The default of `hills` fails, so at first `slow` would be the best
     * without the default's neighbours.
     */
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
    /*
     * Candidates that may win are confirmed and have a cold time. Those far
     * behind have none.
     */
    ck_assert(t.at[find(&t, report.winner)].cold_us > 0);
    for (int i = 0; i < t.count; i++) {
        if (strncmp(t.at[i].candidate, "slow ", 5) != 0)
            continue;
        ck_assert(t.at[i].cold_us <= 0);
        slow++;
    }
    ck_assert_int_eq(slow, 1); /* its default, and none of its neighbours */
    memset(&t, 0, sizeof(t));
    assert_ok(tune(ctx, hills[_i], SCENE, &options, &report),
              spc_ctx_error(ctx));
    ck_assert_int_eq(report.compiled, 0);
    ck_assert_int_eq(report.timed, 0);
    spc_ctx_free(ctx);
    remove_database(database);
}
END_TEST

/*
 * The default takes eight times as long as the winner. There is no ratio if
 * this run measures nothing.
 */
START_TEST(the_winner_beats_what_runs_untuned_in_the_same_turns)
{
    char *database = make_database();
    spc_ctx *ctx = open_ctx("cpu", database, TEMPLATES "hills");
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);

    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    int winner = find(&t, report.winner);
    int untuned = find(&t, "hills tile=64,depth=2");
    ck_assert(t.at[winner].is_finalist && t.at[untuned].is_finalist);
    ck_assert(!t.at[find(&t, "slow tile=64")].is_finalist);
    ck_assert_double_eq(report.winner_us, t.at[winner].us);
    ck_assert_double_eq(report.default_us, t.at[untuned].us);
    ck_assert_double_ge(report.default_us, report.winner_us);
    memset(&t, 0, sizeof(t));
    assert_ok(tune(ctx, LAYER, SCENE, &options, &report), spc_ctx_error(ctx));
    ck_assert_int_eq(report.timed, 0);
    ck_assert_double_eq(report.default_us, 0);
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
    assert_says(spc_ctx_error(ctx), "measurements are kept");
    ck_assert_int_ge(first.timed, 3);
    ck_assert_str_eq(first.winner, ""); /* no candidate was confirmed yet */
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

/* The code that transposes a gradient is stored with the choice. */
START_TEST(a_tuned_gradient_needs_no_compiler_in_either_layout)
{
    static const char layer[] = "subm,cin=3,cout=5,k=2,dtype=f32,pass=wgrad";
    static const char scene[] = "gen:uniform,n=40,extent=5";
    static const unsigned flags[] = {SPC_PLAN_CACHED_ONLY,
                                     SPC_PLAN_CACHED_ONLY | SPC_PLAN_KRSC};
    char *database = make_database();
    spc_ctx *ctx = open_ctx("sim", database, NULL);
    spc_tune_report report;
    recorded t;
    spc_tune_options options = options_for(&t);
    harness r;

    options.only = "wgrad_generic";
    assert_ok(tune(ctx, layer, scene, &options, &report), spc_ctx_error(ctx));
    spc_ctx_free(ctx);
    harness_open(&r, open_ctx("sim", database, NULL), layer, scene);
    for (int i = 0; i < LENGTH(flags); i++) {
        spc_plan *plan = NULL;
        assert_ok(spc_plan_create(&plan, r.ctx, &r.conv, r.map, flags[i]),
                  spc_ctx_error(r.ctx));
        ck_assert_str_eq(spc_plan_template(plan), "wgrad_generic");
        spc_plan_free(plan);
    }
    harness_close(&r);
    remove_database(database);
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
    assert_ok(spc_tune(&report, ctx, &conv, (const spc_scene *const *)&scene, 1,
                       &options),
              spc_ctx_error(ctx));
    ck_assert_str_ne(report.winner, "");
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(a_candidate_is_rendered_by_its_number)
{
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "unruly");
    spc_conv conv;
    spc_error error = {0};
    char *source = NULL;

    assert_ok(spc_conv_parse(&conv, LAYER, &error), error.text);
    assert_ok(spc_candidate_render(&source, ctx, &conv, NULL, 3),
              spc_ctx_error(ctx));
    assert_says(source, "mood=wrong");
    free(source);
    ck_assert_int_eq(spc_candidate_render(&source, ctx, &conv, NULL, 6),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "0 to 5");
    spc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    static const char *const cases[] = {"work", "climbing"};

    choose_case(cases, LENGTH(cases));
    suite_sample(3);
    Suite *suite = suite_create("tuner");
    TCase *work = tcase_create("work");
    TCase *climbing = tcase_create("climbing");

    tcase_set_timeout(work, 240);
    tcase_set_timeout(climbing, 240);
    tcase_add_loop_test(
        work, a_second_tune_measures_nothing_and_a_plan_runs_the_winner, 0,
        LENGTH(jobs));
    tcase_add_test(work, a_time_below_the_floor_is_reported_and_no_verdict);
    tcase_add_test(work, the_default_and_the_winner_have_all_samples);
    tcase_add_test(work,
                   several_scenes_share_one_winner_and_the_worst_is_named);
    tcase_add_loop_test(work, untuned_is_what_a_plan_takes_without_a_database,
                        0, 3);
    tcase_add_loop_test(
        climbing, quick_finds_what_one_parameter_at_a_time_does_not_lead_to, 0,
        LENGTH(hills));
    tcase_add_loop_test(
        climbing,
        stages_that_time_nothing_take_the_first_step_from_every_default, 0, 2);
    tcase_add_test(climbing,
                   the_winner_beats_what_runs_untuned_in_the_same_turns);
    tcase_add_test(climbing, an_interrupted_tune_goes_on_where_it_was);
    tcase_add_test(climbing,
                   a_changed_template_makes_old_records_worth_nothing);
    tcase_add_test(climbing, equal_code_is_measured_once);
    tcase_add_test(climbing,
                   a_tuned_gradient_needs_no_compiler_in_either_layout);
    tcase_add_loop_test(climbing, one_and_two_voxels_can_be_tuned_on, 1, 3);
    tcase_add_test(climbing, a_candidate_is_rendered_by_its_number);
    suite_add_tcase(suite, work);
    suite_add_tcase(suite, climbing);
    return run_suite(suite);
}
