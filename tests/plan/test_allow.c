/* SPDX-License-Identifier: Apache-2.0 */
/* test_allow.c - lists of the templates that layers may use: nothing else is
 * used, and a wrong list is refused. */
#include "harness/layer_harness.h"
#include "spc/tune.h"

#include "base/error.h"
#include "base/file.h"
#include "context/problem_key.h"
#include "harness/suite.h"
#include <stdio.h>
#include <stdlib.h>

#define LAYER "subm,cin=8,cout=8,dtype=f32"
#define SCENE "gen:uniform,n=300,extent=9"

static spc_error error;
static char folder[300], database[400];

static void set_up(void)
{
    spc__buf path = SPC__BUF_INIT;

    unsetenv("SPC_ALLOW");
    setenv("SPC_SHIPPED", "", 1);
    assert_ok(spc__temp_dir_create(&path, &error), error.text);
    snprintf(folder, sizeof(folder), "%s", spc__buf_text(&path));
    snprintf(database, sizeof(database), "%s/own.db", folder);
    spc__buf_release(&path);
}

static void tear_down(void)
{
    spc__temp_dir_remove(folder);
}

static spc_status try_open(spc_ctx **out, const char *allow)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;

    options.device = "cpu";
    options.database = database;
    options.threads = 2;
    options.allow = allow;
    return spc_ctx_create(out, &options, &error);
}

static spc_ctx *open_allowing(const char *allow)
{
    spc_ctx *ctx = NULL;

    assert_ok(try_open(&ctx, allow), error.text);
    return ctx;
}

static spc_status ask(spc_explanation *out, spc_ctx *ctx, const char *layer,
                      const char *allow, unsigned flags)
{
    spc_explain_question question = SPC_EXPLAIN_QUESTION_INIT;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    question.conv = &conv;
    question.rows_in = question.rows_out = 300;
    question.pairs = 3000;
    question.allow = allow;
    return spc_explain(out, ctx, &question, flags);
}

/* ---- what is used -------------------------------------------------------- */

static const struct {
    const char *of_context, *of_plan, *layer, *template_name;
} uses[] = {
    {NULL, NULL, LAYER, "rowgemm"},
    {"forward=generic", NULL, LAYER, "generic"},
    {"forward=rowgemm+generic", NULL, LAYER, "rowgemm"},
    {"forward=generic+rowgemm", NULL, LAYER, "rowgemm"},
    {NULL, "forward=generic", LAYER, "generic"},
    /* A plan's list replaces that of the context, for the passes it names. */
    {"forward=generic", "forward=rowgemm", LAYER, "rowgemm"},
    {"forward=generic", "dgrad=rowgemm", LAYER, "generic"},
    /* A pass without a list may use all. */
    {"dgrad=generic", NULL, LAYER, "rowgemm"},
    {"dgrad=generic", NULL, LAYER ",pass=dgrad", "generic"},
    {"forward=generic", NULL, LAYER ",pass=dgrad", "rowgemm"},
    {"wgrad=wgrad_cpu,forward=generic", NULL, LAYER ",pass=wgrad", "wgrad_cpu"},
};

START_TEST(only_templates_of_the_list_are_used)
{
    spc_explanation is;
    spc_ctx *ctx = open_allowing(uses[_i].of_context);

    assert_ok(ask(&is, ctx, uses[_i].layer, uses[_i].of_plan, 0),
              spc_ctx_error(ctx));
    ck_assert_str_eq(is.template_name, uses[_i].template_name);
    spc_ctx_free(ctx);
    /* The same from the environment. */
    if (uses[_i].of_context != NULL)
        setenv("SPC_ALLOW", uses[_i].of_context, 1);
    ctx = open_allowing(NULL);
    assert_ok(ask(&is, ctx, uses[_i].layer, uses[_i].of_plan, 0),
              spc_ctx_error(ctx));
    ck_assert_str_eq(is.template_name, uses[_i].template_name);
    spc_ctx_free(ctx);
}
END_TEST

static const struct {
    const char *list, *says;
} wrong[] = {
    {"", "is empty, which would allow nothing"},
    {"forward=", "the list of pass forward has an empty name"},
    {"forward=generic+", "the list of pass forward has an empty name"},
    {"forward=+generic", "the list of pass forward has an empty name"},
    {"generic", "'generic' is no list of templates for a pass"},
    {"forward=generic,", "'' is no list of templates for a pass"},
    {"sideways=generic", "unknown pass 'sideways'"},
    {"forward=genric", "unknown template 'genric'"},
    {"forward=generic,dgrad=generic+nothing",
     "pass dgrad: unknown template 'nothing'"},
    /* Templates for other work. */
    {"forward=wgrad_cpu", "unknown template 'wgrad_cpu'"},
    {"wgrad=generic", "unknown template 'generic'"},
    {"forward=index", "unknown template 'index'"},
    {"forward=generic,forward=rowgemm", "two lists for pass forward"},
};

START_TEST(a_wrong_list_is_refused)
{
    const char *list = wrong[_i].list;
    spc_explanation is;
    spc_ctx *ctx = NULL;

    ck_assert_int_eq(try_open(&ctx, list), SPC_EINVAL);
    ck_assert_ptr_null(ctx);
    assert_says(error.text, wrong[_i].says);
    ck_assert_int_eq(strncmp(error.text, "allow", 5), 0);
    setenv("SPC_ALLOW", list, 1);
    ck_assert_int_eq(try_open(&ctx, NULL), SPC_EINVAL);
    assert_says(error.text, wrong[_i].says);
    ck_assert_int_eq(strncmp(error.text, "SPC_ALLOW", 9), 0);
    /* The caller's list precedes the variable, which is not read. */
    ctx = open_allowing("forward=generic");
    ck_assert_int_eq(ask(&is, ctx, LAYER, list, 0), SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), wrong[_i].says);
    spc_ctx_free(ctx);
}
END_TEST

/* A template of another device, or one that refuses the layer. */
START_TEST(a_layer_that_no_allowed_template_serves_fails)
{
    static const struct {
        const char *list, *layer, *says;
    } rows[] = {
        {"forward=os_mma", LAYER, "no allowed template (os_mma) serves 'subm"},
        {"forward=depthwise+os_mma", LAYER,
         "no allowed template (depthwise+os_mma) serves"},
    };
    spc_explanation is;

    for (int i = 0; i < LENGTH(rows); i++)
        for (int cached = 0; cached < 2; cached++) {
            spc_ctx *ctx = open_allowing(rows[i].list);
            spc_status status =
                ask(&is, ctx, rows[i].layer, NULL,
                    cached ? SPC_PLAN_CACHED_ONLY : SPC_PLAN_JIT);
            ck_assert_msg(status == SPC_EUNSUPPORTED, "%s", spc_ctx_error(ctx));
            assert_says(spc_ctx_error(ctx), rows[i].says);
            spc_ctx_free(ctx);
        }
}
END_TEST

/* ---- records ------------------------------------------------------------- */

static void put_trial(spc_ctx *ctx, const char *template_name, double us,
                      bool chosen)
{
    spc__trial trial = {.median_us = us, .samples = 9, .verified = true};
    spc__problem_key key;
    spc__provenance from;
    spc_explanation is;
    spc_conv conv;
    char list[60];

    assert_ok(spc_conv_parse(&conv, LAYER, &error), error.text);
    spc__problem_key_init(&key, ctx, &conv, 300, 300, 3000 / (300 * 27.0));
    spc__ctx_provenance(&from, ctx);
    snprintf(trial.template_name, sizeof(trial.template_name), "%s",
             template_name);
    spc__ctx_template_hash(trial.template_hash, ctx, template_name);
    /* Any legal configuration: that of the default. */
    snprintf(list, sizeof(list), "forward=%s", template_name);
    assert_ok(ask(&is, ctx, LAYER, list, SPC_PLAN_ESTIMATE),
              spc_ctx_error(ctx));
    assert_ok(spc__attrs_parse(&trial.config, is.config, &error), error.text);
    assert_ok(spc__cache_put_trial(ctx->cache, &key, &trial, &from, &error),
              error.text);
    if (chosen)
        assert_ok(spc__cache_put_choice(ctx->cache, &key, &trial, "for a test",
                                        &from, &error),
                  error.text);
}

START_TEST(a_record_of_another_template_does_not_serve)
{
    spc_explanation is;
    spc_ctx *ctx = open_allowing(NULL);

    put_trial(ctx, "rowgemm", 5, true);
    assert_ok(ask(&is, ctx, LAYER, NULL, 0), spc_ctx_error(ctx));
    ck_assert_int_eq(is.match, SPC_MATCH_EXACT);
    assert_ok(ask(&is, ctx, LAYER, "forward=generic", 0), spc_ctx_error(ctx));
    ck_assert_int_eq(is.match, SPC_MATCH_DEFAULT);
    ck_assert_str_eq(is.template_name, "generic");
    assert_says(is.reason, "'rowgemm', is not allowed");
    /* The search has also timed an allowed one. */
    put_trial(ctx, "generic", 9, false);
    assert_ok(ask(&is, ctx, LAYER, "forward=generic", 0), spc_ctx_error(ctx));
    ck_assert_int_eq(is.match, SPC_MATCH_EXACT);
    ck_assert_str_eq(is.template_name, "generic");
    assert_says(is.reason, "took 9.0 us");
    /* Without a list nothing has changed. */
    assert_ok(ask(&is, ctx, LAYER, NULL, 0), spc_ctx_error(ctx));
    ck_assert_str_eq(is.template_name, "rowgemm");
    spc_ctx_free(ctx);
}
END_TEST

/* ---- plans --------------------------------------------------------------- */

START_TEST(plans_with_options_run_what_is_allowed)
{
    spc_plan_options options = SPC_PLAN_OPTIONS_INIT;
    harness r;

    harness_open(&r, open_allowing(NULL), LAYER, SCENE);
    options.allow = "forward=generic";
    assert_ok(spc_plan_create_with(&r.plan, r.ctx, &r.conv, r.map, &options),
              spc_ctx_error(r.ctx));
    ck_assert_str_eq(spc_plan_template(r.plan), "generic");
    harness_prepare(&r, SPC_KRSC);
    harness_check(&r);
    /* Its code is stored, and serves only those who allow it. */
    spc_plan *plan = NULL;
    options.flags = SPC_PLAN_CACHED_ONLY;
    assert_ok(spc_plan_create_with(&plan, r.ctx, &r.conv, r.map, &options),
              spc_ctx_error(r.ctx));
    ck_assert_str_eq(spc_plan_template(plan), "generic");
    spc_plan_free(plan);
    options.allow = "forward=rowgemm";
    ck_assert_int_eq(
        spc_plan_create_with(&plan, r.ctx, &r.conv, r.map, &options),
        SPC_ENOTFOUND);
    ck_assert_ptr_null(plan);
    options.flags = SPC_PLAN_BACKGROUND;
    ck_assert_int_eq(
        spc_plan_create_with(&plan, r.ctx, &r.conv, r.map, &options),
        SPC_EINVAL);
    assert_says(spc_ctx_error(r.ctx), "cannot be combined");
    options.flags = 0;
    options.rows = 5;
    ck_assert_int_eq(
        spc_plan_create_with(&plan, r.ctx, &r.conv, r.map, &options),
        SPC_EINVAL);
    assert_says(spc_ctx_error(r.ctx), "rows are those of the map");
    assert_ok(spc_plan_create_with(&plan, r.ctx, &r.conv, r.map, NULL),
              spc_ctx_error(r.ctx));
    ck_assert_str_eq(spc_plan_template(plan), "rowgemm");
    spc_plan_free(plan);
    harness_close(&r);
}
END_TEST

START_TEST(a_linear_layer_needs_no_map)
{
    spc_plan_options options = SPC_PLAN_OPTIONS_INIT;
    spc_ctx *ctx = open_allowing("forward=generic");
    spc_plan *plan = NULL;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, "linear,cin=8,cout=8,dtype=f32", &error),
              error.text);
    options.rows = 100;
    assert_ok(spc_plan_create_with(&plan, ctx, &conv, NULL, &options),
              spc_ctx_error(ctx));
    ck_assert_str_eq(spc_plan_template(plan), "generic");
    spc_plan_free(plan);
    spc_ctx_free(ctx);
}
END_TEST

/* The tuner has no other candidates, and finds its default among them. */
START_TEST(the_tuner_measures_only_what_is_allowed)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report all, some;
    spc_scene *scene;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, LAYER, &error), error.text);
    assert_ok(spc_scene_load(&scene, SCENE, &error), error.text);
    const spc_scene *scenes[] = {scene};
    options.effort = SPC_EFFORT_QUICK;
    options.stage = SPC_STAGE_LIST;
    spc_ctx *ctx = open_allowing(NULL);
    assert_ok(spc_tune(&all, ctx, &conv, scenes, 1, &options),
              spc_ctx_error(ctx));
    spc_ctx_free(ctx);
    ctx = open_allowing("forward=generic");
    assert_ok(spc_tune(&some, ctx, &conv, scenes, 1, &options),
              spc_ctx_error(ctx));
    ck_assert_int_lt(some.candidates, all.candidates);
    ck_assert_int_eq(some.candidates + some.refused,
                     all.candidates + all.refused);
    options.stage = SPC_STAGE_TIME;
    assert_ok(spc_tune(&some, ctx, &conv, scenes, 1, &options),
              spc_ctx_error(ctx));
    ck_assert_msg(strncmp(some.winner, "generic ", 8) == 0, "%s", some.winner);
    ck_assert(some.default_us > 0);
    options.only = "rowgemm";
    ck_assert_int_eq(spc_tune(&some, ctx, &conv, scenes, 1, &options),
                     SPC_EUNSUPPORTED);
    assert_says(spc_ctx_error(ctx),
                "no candidate of the allowed templates (generic) is left");
    spc_ctx_free(ctx);
    spc_scene_free(scene);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("allow");
    TCase *all = tcase_create("allowed templates");

    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_set_timeout(all, 300);
    tcase_add_loop_test(all, only_templates_of_the_list_are_used, 0,
                        LENGTH(uses));
    tcase_add_loop_test(all, a_wrong_list_is_refused, 0, LENGTH(wrong));
    tcase_add_test(all, a_layer_that_no_allowed_template_serves_fails);
    tcase_add_test(all, a_record_of_another_template_does_not_serve);
    tcase_add_test(all, plans_with_options_run_what_is_allowed);
    tcase_add_test(all, a_linear_layer_needs_no_map);
    tcase_add_test(all, the_tuner_measures_only_what_is_allowed);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
