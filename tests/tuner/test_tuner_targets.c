/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tuner_targets.c - candidates for GPUs that are not installed. Tests
 * their space and their defaults, and compiles them.
 */
#include "harness/tune_harness.h"

#include "device/targets.h"
#include <inttypes.h>

/* ---- other targets ------------------------------------------------------- */

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

/* Layers that must compile for all other targets. */
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

/* Row counts of maps (0: unknown). Some leave parts of a large GPU idle. */
static const int64_t map_rows[] = {0,    1,     129,   1000,  1700,  3800,
                                   5000, 10277, 16000, 30000, 252392};

/*
 * Checks that a template that accepts a layer has a default for any map. `seed`
 * selects the row count.
 */
static void check_defaults(spc__library *library, const char *target,
                           const char *layer, int seed)
{
    int64_t rows = map_rows[seed % LENGTH(map_rows)];
    spc__attrs facts, of_map, problem, config;
    spc_error error = {0};
    spc_conv conv;

    assert_ok(spc__target_facts(&facts, target, &error), error.text);
    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    spc__conv_attrs(&problem, &conv);
    of_map = facts;
    spc__attrs_set_number(&of_map, "multiprocessors", 132);
    if (rows > 0) {
        spc__attrs_set_number(&of_map, "rows", rows);
        spc__attrs_set_number(&of_map, "pairs",
                              rows * spc__conv_offsets(&conv) / 2);
    }
    for (int i = 0; i < spc__library_count(library); i++) {
        spc__template *tpl = spc__library_at(library, i);
        if (strcmp(spc__template_role(tpl),
                   strstr(layer, "wgrad") ? "wgrad" : "conv") != 0 ||
            strcmp(spc__template_device(tpl), "cuda") != 0 ||
            spc__template_accepts(tpl, &problem, &facts, &error) != SPC_OK)
            continue;
        if (spc__template_default(&config, tpl, &problem, &of_map, &error) !=
            SPC_OK)
            ck_abort_msg("%s of %" PRId64 " rows for %s: %s", layer, rows,
                         target, error.text);
    }
}

START_TEST(defaults_are_legal_wherever_a_template_serves)
{
    static const char *const types[] = {"f16", "f32", "tf32"};
    static const char *const more[] = {"", ",epilogue=scale+bias+add+relu",
                                       ",pass=wgrad"};
    static const int in[] = {3,  4,   16,  18,  24,  48, 64,
                             96, 128, 160, 256, 320, 384};
    static const int out[] = {3,   8,   16,  24,  32,  40,  64,  96,  112,
                              128, 136, 160, 200, 256, 264, 320, 384, 448};
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    spc__library *library;
    char layer[100];
    int seed = suite_variant();

    assert_ok(spc__ctx_library(&library, ctx), spc_ctx_error(ctx));
    for (int i = 0; i < LENGTH(in); i++) {
        for (int o = 0; o < LENGTH(out); o++) {
            for (int t = 0; t < LENGTH(types); t++) {
                if (o == i) {
                    snprintf(layer, sizeof(layer),
                             "subm,cin=%d,cout=%d,groups=%d,k=%d,dtype=%s%s",
                             in[i], in[i], in[i], 1 + 2 * (t % 3), types[t],
                             more[t % 2]);
                    check_defaults(library, targets[_i], layer, seed++);
                }
                for (int m = 0; m < LENGTH(more); m++) {
                    snprintf(layer, sizeof(layer),
                             "subm,cin=%d,cout=%d,k=%d,dtype=%s%s", in[i],
                             out[o], 1 + 2 * ((i + o + t) % 3), types[t],
                             more[m]);
                    check_defaults(library, targets[_i], layer, seed++);
                }
            }
        }
    }
    spc_ctx_free(ctx);
}
END_TEST

/*
 * Checks that a template's default for a map of `rows` rows compiles and keeps
 * its values in registers.
 */
static void check_spills(const char *name, const char *layer,
                         const char *target, int64_t rows)
{
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    spc__library *library;
    spc__compiler *nvrtc = NULL;
    spc__attrs facts, problem, config;
    spc__artefact artefact = {0};
    spc__buf source = SPC__BUF_INIT, words = SPC__BUF_INIT;
    spc_error error = {0};
    spc_conv conv;

    assert_ok(spc__ctx_library(&library, ctx), spc_ctx_error(ctx));
    spc__template *tpl = spc__library_find(library, name);
    assert_ok(spc__target_facts(&facts, target, &error), error.text);
    if (rows > 0) {
        spc__attrs_set_number(&facts, "rows", rows);
        spc__attrs_set_number(&facts, "multiprocessors", 132);
    }
    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    spc__conv_attrs(&problem, &conv);
    assert_ok(spc__template_accepts(tpl, &problem, &facts, &error), error.text);
    assert_ok(spc__template_default(&config, tpl, &problem, &facts, &error),
              error.text);
    spc__attrs_format(&words, &config);
    printf("%s, %s for %s, %" PRId64 " rows: %s\n", name, layer, target, rows,
           spc__buf_text(&words));
    assert_ok(
        spc__template_render(&source, tpl, &problem, &facts, &config, &error),
        error.text);
    spc__compile_job job = {
        spc__buf_text(&source), name, target, "", library, NULL};
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
    spc__buf_release(&words);
    spc_ctx_free(ctx);
}

/* Kernels for layers that other kernels refuse or run slowly. */
static const struct {
    const char *template_name, *layer;
} defaults[] = {
    {"os_depthwise", "subm,cin=256,cout=256,groups=256,k=3,bias=1"},
    {"os_depthwise", "subm,cin=22,cout=22,groups=22,k=5"},
    {"os_diagonal", "subm,cin=96,cout=96,groups=96,k=3,epilogue=scale+gelu"},
    {"os_walk", "subm,cin=256,cout=256,groups=256,k=3,bias=1"},
    {"os_walk", "subm,cin=72,cout=72,groups=72,k=5,epilogue=scale+gelu"},
    {"os_warp", "subm,cin=32,cout=64,k=5,bias=1"},
    {"os_warp", "subm,cin=64,cout=32,k=5"},
    {"os_warp", "subm,cin=56,cout=20,k=5"},
    {"os_warp", "subm,cin=40,cout=32,k=5,epilogue=scale+bias+add+relu"},
    {"os_packed", "subm,cin=4,cout=32,k=3"},
    {"os_packed", "subm,cin=5,cout=61,k=5,bias=1"},
    {"os_mma", "subm,cin=81,cout=61,k=3,bias=1"},
    {"os_mma", "subm,cin=64,cout=96,groups=4,k=3"},
};

/* Tests one pair of the table for each target, chosen by the seed. */
START_TEST(defaults_for_any_channels_compile_and_do_not_spill)
{
    int which = (suite_variant() + _i) % LENGTH(defaults);

    check_spills(defaults[which].template_name, defaults[which].layer,
                 targets[_i], 0);
}
END_TEST

/*
 * Small maps of wide layers: blocks of a cluster finish their tiles next to
 * rows of the next tile.
 */
static const struct {
    int cin, cout;
    int64_t rows;
} shared_tiles[] = {
    {32, 256, 3000},  {64, 256, 10000}, {128, 128, 10000}, {128, 256, 3000},
    {256, 256, 1000}, {256, 256, 3800}, {256, 256, 10000}, {384, 256, 10000},
    {512, 512, 1500}, {160, 320, 2000}, {192, 192, 3000},
};

START_TEST(defaults_that_share_tiles_do_not_spill)
{
    static const char *const more[] = {"", ",bias=1",
                                       ",epilogue=scale+bias+add+relu"};
    static const char *const types[] = {"f16", "bf16", "tf32"};
    int variant = suite_variant() + _i;
    char layer[100];

    snprintf(layer, sizeof(layer), "subm,cin=%d,cout=%d,k=3,dtype=%s%s",
             shared_tiles[_i].cin, shared_tiles[_i].cout,
             types[variant % LENGTH(types)], more[variant / 3 % LENGTH(more)]);
    check_spills("os_wgmma", layer, "sm_90a", shared_tiles[_i].rows);
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

int main(void)
{
    suite_sample(LENGTH(elsewhere));
    Suite *suite = suite_create("tuner_targets");
    TCase *absent = tcase_create("absent");

    tcase_set_timeout(absent, 240);
    tcase_add_loop_test(absent, candidates_compile_for_gpus_that_are_not_here,
                        0, LENGTH(elsewhere));
    tcase_add_loop_test(absent, what_spills_is_refused_before_any_launch, 0, 2);
    tcase_add_loop_test(absent,
                        the_space_of_a_gpu_that_is_not_here_is_not_empty, 0,
                        LENGTH(targets));
    tcase_add_loop_test(absent,
                        defaults_for_any_channels_compile_and_do_not_spill, 0,
                        LENGTH(targets));
    tcase_add_loop_test(absent, defaults_that_share_tiles_do_not_spill, 0,
                        LENGTH(shared_tiles));
    tcase_add_loop_test(absent, defaults_are_legal_wherever_a_template_serves,
                        0, LENGTH(targets));
    tcase_add_loop_test(absent, every_known_target_has_facts, 0,
                        LENGTH(targets));
    tcase_add_loop_test(absent,
                        an_unknown_target_is_refused_with_the_known_ones, 0,
                        LENGTH(no_targets));
    suite_add_tcase(suite, absent);
    return run_suite(suite);
}
