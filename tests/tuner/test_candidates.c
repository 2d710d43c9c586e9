/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_candidates.c - compares every shipped candidate with the oracle.
 *
 *     test_candidates [sim|cpu|cuda [all|SEED]]
 *
 * Each row verifies the candidates of effort quick for one layer, or the whole
 * space. The sim device runs the CUDA templates, the cpu device its own. Whole
 * spaces take minutes, so the seed selects a few of these rows. "all" verifies
 * all whole spaces, as a run on a GPU does (`test_candidates cuda`: the rows of
 * the sim device, on the GPU). Compilation and emulation use all cores.
 */
#include "base/parallel.h"
#include "base/random.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"
#include "spc/tune.h"

#include <stdio.h>
#include <time.h>

static const struct {
    const char *device, *layer, *scene;
    bool whole; /* runs only sometimes, as similar layers differ little */
} rows[] = {
    /* Clusters over several tiles, in which some blocks finish no column. */
    {"sim", "subm,cin=16,cout=32,k=3,dtype=f16", "gen:shell,r=12", false},
    {"sim", "subm,cin=4,cout=32,k=3,dtype=f16", "gen:uniform,n=500,extent=14",
     true},
    {"sim", "subm,cin=16,cout=32,k=3,dtype=f16,bias=1",
     "gen:uniform,n=500,extent=14", true},
    {"sim", "subm,cin=64,cout=64,k=3,dtype=f16", "gen:shell,r=14", true},
    {"sim", "subm,cin=128,cout=128,k=3,dtype=f16", "gen:shell,r=14", true},
    {"sim", "subm,cin=32,cout=32,k=3,dtype=tf32", "gen:uniform,n=500,extent=14",
     true},
    {"sim", "subm,cin=24,cout=40,k=3,dtype=f32", "gen:uniform,n=500,extent=14",
     true},
    {"cpu", "subm,cin=32,cout=32,k=3,dtype=f16", "gen:shell,r=14", true},
    {"cpu", "subm,cin=24,cout=40,k=3,dtype=f32,bias=1",
     "gen:uniform,n=500,extent=14", true},
    {"sim", "subm,cin=64,cout=64,k=3,dtype=i8,epilogue=scale+bias+relu+add",
     "gen:shell,r=10", true},
    {"cpu", "subm,cin=37,cout=41,k=3,dtype=i8,epilogue=scale+bias+relu+add",
     "gen:uniform,n=300,extent=12", true},
    /* Rows consist of pieces of 16 and 4 bytes, or only of 4 bytes. There are
     * more offsets than bits of a mask word, and rows that end inside a block
     * of input channels. */
    {"sim", "subm,cin=36,cout=40,k=5,dtype=f16", "gen:uniform,n=120,extent=8",
     false},
    {"sim", "subm,cin=18,cout=20,k=2,dtype=f16", "gen:uniform,n=200,extent=9",
     false},
    {"sim", "subm,cin=72,cout=96,k=3,dtype=f16", "gen:shell,r=10", false},
    {"sim", "subm,cin=20,cout=36,k=3,dtype=tf32,bias=1",
     "gen:uniform,n=200,extent=9", false},
    /*
     * Strided layers and their inverses have fewer or more rows out than rows
     * in. Some kernels have no centre, or one offset for each row (the inverse
     * of k=2, stride=2).
     */
    {"sim", "conv,cin=8,cout=8,k=2,stride=2,rule=floor,dtype=f16",
     "gen:uniform,n=300,extent=12", true},
    {"sim",
     "conv,cin=16,cout=24,k=3,stride=2,padding=1,rule=footprint,dtype=f32",
     "gen:uniform,n=200,extent=9", true},
    {"sim", "inverse,cin=32,cout=16,k=2,stride=2,rule=floor,dtype=f16,bias=1",
     "gen:uniform,n=300,extent=12", true},
    {"sim",
     "inverse,cin=24,cout=40,k=3,stride=2,padding=1,rule=footprint,dtype=f32",
     "gen:uniform,n=200,extent=9", false},
    {"sim",
     "conv,cin=64,cout=64,k=3,stride=2,padding=1,rule=footprint,dtype=bf16,"
     "epilogue=scale+bias+relu+add",
     "gen:shell,r=10", false},
    {"sim",
     "conv,cin=7,cout=9,k=3,stride=2,padding=1,rule=footprint,dtype=f32,bias=1",
     "gen:uniform,n=200,extent=9", false},
    {"sim", "inverse,cin=9,cout=7,k=2,stride=2,rule=floor,dtype=f16",
     "gen:uniform,n=200,extent=9", false},
    {"sim",
     "inverse,cin=8,cout=16,k=5x4x3,stride=3x2x1,padding=2x3x1,"
     "rule=footprint,dtype=tf32",
     "gen:uniform,n=150,extent=9", false},
    /* Depthwise layers with parts of 16, 8 and 4 bytes. */
    {"sim", "subm,cin=64,cout=64,groups=64,k=3,dtype=f16",
     "gen:uniform,n=200,extent=9", true},
    {"sim", "subm,cin=22,cout=22,groups=22,k=3,dtype=f16,bias=1",
     "gen:uniform,n=200,extent=9", false},
    {"cpu", "subm,cin=37,cout=37,groups=37,k=3,dtype=f16,bias=1",
     "gen:uniform,n=300,extent=12", true},
    /*
     * Weight gradients with groups. A lane has one group or several, a block
     * has several or a part of one.
     */
    {"sim", "subm,cin=22,cout=22,groups=22,k=3,bias=1,pass=wgrad",
     "gen:uniform,n=200,extent=9", false},
    {"sim", "subm,cin=40,cout=40,groups=10,k=3,dtype=f32,bias=1,pass=wgrad",
     "gen:uniform,n=200,extent=9", false},
    {"sim",
     "conv,cin=80,cout=40,groups=2,k=2,stride=2,rule=floor,dtype=bf16,bias=1,"
     "pass=wgrad,accumulate=1",
     "gen:uniform,n=200,extent=9", false},
    {"cpu",
     "conv,cin=16,cout=24,k=3,stride=2,padding=1,rule=footprint,dtype=f16",
     "gen:uniform,n=300,extent=12", true},
    {"cpu", "inverse,cin=9,cout=7,k=2,stride=2,rule=floor,dtype=f16,bias=1",
     "gen:uniform,n=300,extent=12", true},
    {"cpu", "conv,cin=7,cout=9,k=2,stride=2,rule=floor,dtype=f32",
     "gen:uniform,n=200,extent=9", false},
    {"cpu",
     "inverse,cin=7,cout=20,k=3,stride=2,padding=1,rule=footprint,dtype=f32,"
     "epilogue=scale+add+gelu,out=f16,out_pitch=32",
     "gen:uniform,n=200,extent=9", false},
    /* Combinations of odd channels, groups, slices and epilogues. */
    {"sim", "subm,cin=20,cout=41,k=3,epilogue=scale+bias+relu+add",
     "gen:uniform,n=200,extent=9", false},
    {"sim",
     "subm,cin=3,cout=18,k=3,epilogue=add+relu,in_pitch=4,out_pitch=21,"
     "add_pitch=19",
     "gen:uniform,n=200,extent=9", false},
    {"sim",
     "conv,cin=5,cout=9,k=2,stride=2,rule=floor,dtype=f32,epilogue=bias+add",
     "gen:uniform,n=200,extent=9", false},
    {"sim",
     "subm,cin=12,cout=24,groups=4,k=3,epilogue=scale+bias+leaky,slope=0.25,"
     "in_pitch=20,out=f32",
     "gen:uniform,n=150,extent=8", false},
    {"sim", "subm,cin=24,cout=24,groups=24,k=3,epilogue=scale+add+relu",
     "gen:uniform,n=150,extent=8", false},
    {"cpu", "subm,cin=24,cout=24,groups=24,k=3,epilogue=scale+add+relu",
     "gen:uniform,n=150,extent=8", false},
    {"cpu",
     "subm,cin=12,cout=24,groups=4,k=3,epilogue=scale+bias+leaky,slope=0.25,"
     "in_pitch=20,out=f32",
     "gen:uniform,n=150,extent=8", false},
};

/* The row that every selection includes. */
enum { CLUSTERS = 0 };

/* How many whole spaces a run verifies. */
enum { DRAWN = 2 };

static bool verify_whole[LENGTH(rows)];

/* ---- one row ------------------------------------------------------------- */

static void on_trial(const spc_trial *trial, void *payload)
{
    int *failed = payload;

    if (strcmp(trial->status, "ok") == 0 ||
        strcmp(trial->status, "constraint") == 0)
        return;
    printf("%s: %s %s: %s\n", trial->status, trial->template_name,
           trial->config, trial->note);
    ++*failed;
}

START_TEST(every_candidate_of_the_space_gives_what_the_oracle_gives)
{
    const char *device = suite_device ? suite_device : rows[_i].device;
    if (_i != CLUSTERS && !suite_takes(_i))
        return;
    spc_ctx *ctx = open_ctx(device, "", NULL);
    if (suite_device != NULL) /* compiling takes most of the time there */
        ctx->threads = spc__cpu_count();
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    spc_scene *scene = NULL;
    spc_error error = {0};
    spc_conv conv;
    int failed = 0;

    options.stage = SPC_STAGE_VERIFY;
    options.effort =
        verify_whole[_i] ? SPC_EFFORT_EXHAUSTIVE : SPC_EFFORT_QUICK;
    options.on_trial = on_trial;
    options.payload = &failed;
    assert_ok(spc_conv_parse(&conv, rows[_i].layer, &error), error.text);
    assert_ok(spc_scene_load(&scene, rows[_i].scene, &error), error.text);
    assert_ok(spc_tune(&report, ctx, &conv, (const spc_scene *const *)&scene, 1,
                       &options),
              spc_ctx_error(ctx));
    printf("%s %s: %d verified%s, %d failed, %d refused in %.1f s\n", device,
           rows[_i].layer, report.verified,
           verify_whole[_i] ? ", the whole space" : "", failed, report.refused,
           report.elapsed_s);
    ck_assert_int_gt(report.verified, 0);
    ck_assert_int_eq(failed, 0);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- all rows ------------------------------------------------------------ */

static bool has_row(int i)
{
    return suite_device == NULL || strcmp(rows[i].device, suite_device) == 0 ||
           (suite_is_gpu() && strcmp(rows[i].device, "sim") == 0);
}

/* Selects the rows with `whole` that are part of this run. */
static int list_whole(int *list)
{
    int count = 0;

    for (int i = 0; i < LENGTH(rows); i++)
        if (rows[i].whole && has_row(i))
            list[count++] = i;
    return count;
}

static void draw_whole(uint64_t seed, int wanted)
{
    int list[LENGTH(rows)], count = list_whole(list);
    spc__random random;

    spc__random_init(&random, seed);
    for (int drawn = 0; drawn < wanted && count > 0; drawn++) {
        int at = (int)spc__random_below(&random, (uint32_t)count);
        verify_whole[list[at]] = true;
        list[at] = list[--count];
    }
}

static void choose(const char *word)
{
    if (word != NULL ? strcmp(word, "all") == 0 : suite_is_gpu()) {
        draw_whole(0, LENGTH(rows));
        return;
    }
    if (suite_one_in > 1)
        return; /* a whole space takes minutes */
    printf("whole spaces of %d rows: ", DRAWN);
    draw_whole(suite_seed(word), DRAWN);
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    if (argc < 3 || strcmp(argv[2], "all") != 0)
        suite_sample(29);
    choose(argc > 2 ? argv[2] : NULL);
    fflush(stdout);
    Suite *suite = suite_create("candidates");
    TCase *tcase = tcase_create("all");

    tcase_set_timeout(tcase, 900);
    for (int i = 0; i < LENGTH(rows); i++)
        if (has_row(i))
            tcase_add_loop_test(
                tcase, every_candidate_of_the_space_gives_what_the_oracle_gives,
                i, i + 1);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
