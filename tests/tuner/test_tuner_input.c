/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tuner_input.c - input of a run: the caller's choices, and mistakes,
 * which have different messages.
 */
#include "harness/tune_harness.h"
#include "tuner/request.h"

/* ---- bad input ----------------------------------------------------------- */

static const struct {
    const char *templates; /* NULL: built-in ones */
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
    int what; /* value of the enum above; negative: only options */
    int stage, effort;
    double limit_s;
    const char *worker; /* program of workers; "none": no argument */
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
    (void)payload; /* returned by the other callbacks */
    return strcmp(template_name, "plain") == 0 &&
           strstr(config, "tile=128") != NULL;
}

/* This candidate is neither the default nor one of the effort's seeds. */
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
        spc_tune(NULL, what == NO_CONTEXT ? NULL : ctx,
                 what == NO_LAYER ? NULL : &conv,
                 what == NO_SCENES ? NULL : (const spc_scene *const *)scenes,
                 what == NO_SCENES || what == NO_SCENE ? 2
                 : what == FEWER                       ? -1
                 : what == MORE                        ? 1000
                                                       : 1,
                 &options),
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
        ck_assert_int_eq(spc_tune(NULL, ctx, &wrong[i], NULL, 0, &options),
                         SPC_EINVAL);
        ck_assert_str_ne(spc_ctx_error(ctx), "");
        ck_assert_int_eq(spc_candidate_render(&text, ctx, &wrong[i], NULL, 0),
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
    options.on_trial = NULL; /* more than fit */
    options.cancel = &flag;
    assert_ok(spc_tune(NULL, ctx, &conv, NULL, 0, &options),
              spc_ctx_error(ctx));
    flag = 1; /* the caller may reuse the memory */
    options.cancel = NULL;
    assert_ok(spc_tune(NULL, ctx, &conv, NULL, 0, &options),
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
    ck_assert_int_eq(spc_tune(&report, ctx, &conv,
                              (const spc_scene *const *)&scene, 1, &options),
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
    ck_assert_int_eq(spc_tune(NULL, ctx, &conv,
                              (const spc_scene *const *)&scene, 1, &options),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "no voxels");
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

/* Candidates that are only verified may be slow. */
START_TEST(a_limit_is_as_long_as_its_stage_needs)
{
    static const struct {
        spc_stage stage;
        double said, wanted;
    } limits[] = {
        {SPC_STAGE_TIME, 0, 10},
        {SPC_STAGE_VERIFY, 0, 120},
        {SPC_STAGE_VERIFY, 3, 3},
    };
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES "plain");

    for (int i = 0; i < LENGTH(limits); i++) {
        spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
        spc__request request;
        options.stage = limits[i].stage;
        options.limit_s = limits[i].said;
        spc__request_init(&request, ctx, NULL, NULL, 0, &options);
        ck_assert_double_eq(request.options.limit_s, limits[i].wanted);
    }
    spc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tuner_input");
    TCase *input = tcase_create("input");

    tcase_set_timeout(input, 240);
    tcase_add_loop_test(input, a_mistake_gets_one_sentence_and_its_status, 0,
                        LENGTH(mistakes));
    tcase_add_test(input, a_layer_that_cannot_be_is_refused_with_a_sentence);
    tcase_add_test(input, the_flag_of_a_run_is_forgotten_with_it);
    tcase_add_test(input, a_caller_may_choose_among_candidates);
    tcase_add_test(input, a_limit_is_as_long_as_its_stage_needs);
    tcase_add_loop_test(input, nonsense_is_refused_with_a_sentence, 0,
                        LENGTH(nonsense));
    tcase_add_test(
        input,
        coordinates_that_fit_no_key_are_refused_before_anything_is_compiled);
    tcase_add_test(input, a_scene_without_voxels_is_nothing_to_tune_on);
    tcase_add_loop_test(input, without_a_compiler_a_run_says_so, 0, 2);
    suite_add_tcase(suite, input);
    return run_suite(suite);
}
