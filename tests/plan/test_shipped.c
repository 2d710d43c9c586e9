/* SPDX-License-Identifier: Apache-2.0 */
/* test_shipped.c - records that are installed with the library, below the
 * user's own records. */
#include "harness/layer_harness.h"
#include "spc/tune.h"

#include "base/error.h"
#include "base/file.h"
#include "context/problem_key.h"
#include "context/shipped.h"
#include "harness/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAYER "subm,cin=8,cout=8,dtype=f32"
#define SCENE "gen:uniform,n=300,extent=9"
#define TEMPLATES SPC_TEST_DATA "/templates/lookup"

static spc_error error;
static spc__buf folder = SPC__BUF_INIT;
static char own[400], shipped[400], warning[600];

static void set_up(void)
{
    spc_ctx *ctx = open_ctx("cpu", "", TEMPLATES);
    spc_device_info info;

    warning[0] = '\0';
    assert_ok(spc__temp_dir_create(&folder, &error), error.text);
    snprintf(own, sizeof(own), "%s/own.db", spc__buf_text(&folder));
    assert_ok(spc_ctx_device(&info, ctx), spc_ctx_error(ctx));
    snprintf(shipped, sizeof(shipped), "%s/%s.db", spc__buf_text(&folder),
             info.name);
    *strchr(shipped + folder.length, ' ') = '-'; /* "cpu avx512" */
    spc_ctx_free(ctx);
}

static void tear_down(void)
{
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
}

static void note_warning(int level, const char *text, void *payload)
{
    (void)payload;
    if (level >= SPC_LOG_WARNING)
        snprintf(warning, sizeof(warning), "%s", text);
}

static spc_ctx *open_above(const char *database, const char *key,
                           const char *ships)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_ctx *ctx;

    options.device = "cpu";
    options.database = database;
    options.template_dir = TEMPLATES;
    options.key = key;
    options.shipped = ships;
    options.log = note_warning;
    assert_ok(spc_ctx_create(&ctx, &options, &error), error.text);
    return ctx;
}

/* A choice for the layer as a tuner stores it, for a scene that is this many
 * octaves of rows away. */
typedef struct choice {
    double octaves;
    int tile; /* 0: no choice */
    double us;
    bool stale;
} choice;

static void put(const char *file, const choice *from)
{
    spc__provenance provenance;
    spc__problem_key key;
    spc__trial trial = {
        .template_name = "probe", .samples = 9, .verified = true};
    char config[64];
    harness r;

    if (from->tile == 0)
        return;
    harness_open(&r, open_above(file, NULL, ""), LAYER, SCENE);
    spc__problem_key_init(&key, r.ctx, &r.conv, spc_map_rows_out(r.map),
                          spc_map_rows_out(r.map), spc_map_density(r.map));
    key.features[0].value += from->octaves;
    spc__ctx_provenance(&provenance, r.ctx);
    spc__ctx_template_hash(trial.template_hash, r.ctx, "probe");
    if (from->stale)
        memset(trial.template_hash, 'e', sizeof(trial.template_hash) - 1);
    snprintf(config, sizeof(config), "tile=%d,order=none,arrival=0",
             from->tile);
    assert_ok(spc__attrs_parse(&trial.config, config, &error), error.text);
    trial.median_us = from->us;
    assert_ok(
        spc__cache_put_trial(r.ctx->cache, &key, &trial, &provenance, &error),
        error.text);
    assert_ok(spc__cache_put_choice(r.ctx->cache, &key, &trial, "for a test",
                                    &provenance, &error),
              error.text);
    harness_close(&r);
}

static const struct {
    choice own, shipped;
    int serves; /* tile of the expected record */
    spc_match origin;
    bool is_shipped;
    const char *says;
} cases[] = {
    {{0, 0, 0, false},
     {0, 32, 5, false},
     32,
     SPC_MATCH_EXACT,
     true,
     "shipped with"},
    {{0, 0, 0, false},
     {6, 32, 5, false},
     32,
     SPC_MATCH_NEAREST,
     true,
     "shipped with"},
    /* The record's time was measured on another machine. */
    {{0, 64, 9, false}, {0, 32, 5, false}, 64, SPC_MATCH_EXACT, false, "9.0"},
    {{6, 64, 9, false}, {6, 32, 5, false}, 64, SPC_MATCH_NEAREST, false, "9."},
    {{6, 64, 9, false}, {0, 32, 5, false}, 32, SPC_MATCH_EXACT, true, "5.0"},
    {{0, 0, 0, false},
     {0, 32, 5, true},
     32,
     SPC_MATCH_NEAREST,
     true,
     "by an earlier version of its kernel"},
    /* The template no longer has this configuration. */
    {{0, 0, 0, false}, {0, 48, 5, true}, 16, SPC_MATCH_DEFAULT, false, "tile"},
};

START_TEST(what_ships_comes_behind_what_is_known_as_nearly)
{
    char tile[16];
    harness r;

    put(own, &cases[_i].own);
    put(shipped, &cases[_i].shipped);
    harness_open(&r, open_above(own, NULL, spc__buf_text(&folder)), LAYER,
                 SCENE);
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, 0),
              spc_ctx_error(r.ctx));
    ck_assert_msg(spc_plan_match(r.plan) == cases[_i].origin, "%s",
                  spc_plan_reason(r.plan));
    snprintf(tile, sizeof(tile), "tile=%d,", cases[_i].serves);
    assert_says(spc_plan_config(r.plan), tile);
    assert_says(spc_plan_reason(r.plan), cases[_i].says);
    ck_assert(spc_plan_is_shipped(r.plan) == cases[_i].is_shipped);
    harness_close(&r);
}
END_TEST

/* The record is only a hint, so the tuning thread tunes the layer on this
 * machine. */
START_TEST(in_the_background_a_stale_choice_is_tuned_anew)
{
    spc_background_options options = {.bytes = sizeof(spc_background_options),
                                      .tune = spc_tune,
                                      .effort = SPC_EFFORT_QUICK};
    const choice stale = {0, 32, 5, true};
    harness r;

    put(shipped, &stale);
    harness_open(&r, open_above(own, NULL, spc__buf_text(&folder)), LAYER,
                 SCENE);
    assert_ok(spc_background_start(r.ctx, &options), spc_ctx_error(r.ctx));
    for (int tuned = 0; tuned < 2; tuned++) {
        spc_plan_free(r.plan);
        assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map,
                                  SPC_PLAN_BACKGROUND),
                  spc_ctx_error(r.ctx));
        ck_assert_msg(spc_plan_match(r.plan) ==
                          (tuned ? SPC_MATCH_EXACT : SPC_MATCH_NEAREST),
                      "%s", spc_plan_reason(r.plan));
        ck_assert(spc_plan_is_shipped(r.plan) == !tuned);
        spc_background_wait(r.ctx);
    }
    harness_close(&r);
}
END_TEST

static void expect_shipped(spc_ctx *ctx, bool wanted)
{
    ck_assert((ctx->shipped != NULL) == wanted);
    spc_ctx_free(ctx);
}

START_TEST(who_wants_none_has_none)
{
    const choice one = {0, 32, 5, false};
    const char *key = "untrusted comment: none\nRWQf6LRCGA9i53mlYecO4IzT51TGPp"
                      "vWucNSCh1CBM0QTaLn73Y7GFO3\n";

    put(shipped, &one);
    expect_shipped(open_above(own, NULL, spc__buf_text(&folder)), true);
    expect_shipped(open_above(own, NULL, ""), false);
    expect_shipped(open_above("", NULL, spc__buf_text(&folder)), false);
    expect_shipped(open_above(own, key, spc__buf_text(&folder)), false);
    setenv("SPC_SHIPPED", spc__buf_text(&folder), 1);
    expect_shipped(open_above(own, NULL, NULL), true);
    setenv("SPC_SHIPPED", "", 1);
    expect_shipped(open_above(own, NULL, NULL), false);
    unsetenv("SPC_SHIPPED");
}
END_TEST

START_TEST(what_ships_damaged_is_left_out)
{
    const char text[] = "no database";

    assert_ok(spc__file_write(shipped, text, sizeof(text), &error), error.text);
    spc_ctx *ctx = open_above(own, NULL, spc__buf_text(&folder));
    ck_assert_ptr_null(ctx->shipped);
    ck_assert(ctx->stores);
    assert_says(warning, "continuing without shipped databases: cannot open");
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(each_class_of_device_has_a_file_of_its_own)
{
    const char *names[][2] = {
        {"NVIDIA H200", "nvidia-h200.db"},
        {"NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3.db"},
        {"../a (b)/c ", "..-a-b-c.db"}};

    for (int i = 0; i < LENGTH(names); i++) {
        spc__buf found = SPC__BUF_INIT, path = SPC__BUF_INIT;
        spc__shipped_file(&found, spc__buf_text(&folder), names[i][0]);
        ck_assert_int_eq(found.length, 0);
        spc__buf_printf(&path, "%s/%s", spc__buf_text(&folder), names[i][1]);
        assert_ok(spc__file_write(spc__buf_text(&path), "x", 1, &error),
                  error.text);
        spc__shipped_file(&found, spc__buf_text(&folder), names[i][0]);
        ck_assert_str_eq(spc__buf_text(&found), spc__buf_text(&path));
        spc__buf_release(&found);
        spc__buf_release(&path);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shipped");
    TCase *all = tcase_create("what ships");

    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_loop_test(all, what_ships_comes_behind_what_is_known_as_nearly, 0,
                        LENGTH(cases));
    tcase_add_test(all, in_the_background_a_stale_choice_is_tuned_anew);
    tcase_add_test(all, who_wants_none_has_none);
    tcase_add_test(all, what_ships_damaged_is_left_out);
    tcase_add_test(all, each_class_of_device_has_a_file_of_its_own);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
