/*
 * test_candidates.c - every shipped candidate against the oracle.
 *
 * Each row verifies the whole space of one layer, or the part that effort quick
 * tries: on the sim device the CUDA templates, on the cpu device its own. Given
 * a GPU (`test_candidates cuda`), the rows of the sim device run there.
 * Compiling uses all cores, and so does the emulation.
 */
#include "layer_rig.h"
#include "parallel.h"
#include "suite.h"

#include <stdio.h>

static const struct {
    const char *device, *layer, *scene;
    /* exhaustive, but for layers that only differ in their edges */
    spc_effort effort;
} rows[] = {
    {"sim", "subm,cin=4,cout=32,k=3,dtype=f16", "gen:uniform,n=500,extent=14",
     SPC_EFFORT_EXHAUSTIVE},
    {"sim", "subm,cin=16,cout=32,k=3,dtype=f16,bias=1",
     "gen:uniform,n=500,extent=14", SPC_EFFORT_EXHAUSTIVE},
    {"sim", "subm,cin=64,cout=64,k=3,dtype=f16", "gen:shell,r=14",
     SPC_EFFORT_EXHAUSTIVE},
    {"sim", "subm,cin=128,cout=128,k=3,dtype=f16", "gen:shell,r=14",
     SPC_EFFORT_EXHAUSTIVE},
    {"sim", "subm,cin=32,cout=32,k=3,dtype=tf32", "gen:uniform,n=500,extent=14",
     SPC_EFFORT_EXHAUSTIVE},
    {"sim", "subm,cin=24,cout=40,k=3,dtype=f32", "gen:uniform,n=500,extent=14",
     SPC_EFFORT_EXHAUSTIVE},
    {"cpu", "subm,cin=32,cout=32,k=3,dtype=f16", "gen:shell,r=14",
     SPC_EFFORT_EXHAUSTIVE},
    {"cpu", "subm,cin=24,cout=40,k=3,dtype=f32,bias=1",
     "gen:uniform,n=500,extent=14", SPC_EFFORT_EXHAUSTIVE},
    /* Rows in pieces of 16 and of 4 bytes, and of 4 alone; more offsets than a
     * mask word; rows that end inside a block of input channels. */
    {"sim", "subm,cin=36,cout=40,k=5,dtype=f16", "gen:uniform,n=200,extent=9",
     SPC_EFFORT_QUICK},
    {"sim", "subm,cin=18,cout=20,k=2,dtype=f16", "gen:uniform,n=200,extent=9",
     SPC_EFFORT_QUICK},
    {"sim", "subm,cin=72,cout=96,k=3,dtype=f16", "gen:shell,r=10",
     SPC_EFFORT_QUICK},
    {"sim", "subm,cin=20,cout=36,k=3,dtype=tf32,bias=1",
     "gen:uniform,n=200,extent=9", SPC_EFFORT_QUICK},
};

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
    spc_ctx *ctx = open_ctx(device, "", NULL);
    if (suite_device != NULL) /* there compiling takes most of the time */
        ctx->threads = spc__cpu_count();
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    spc_scene *scene = NULL;
    spc_error error = {0};
    spc_conv conv;
    int failed = 0;

    options.stage = SPC_STAGE_VERIFY;
    options.effort = rows[_i].effort;
    options.on_trial = on_trial;
    options.payload = &failed;
    assert_ok(spc_conv_parse(&conv, rows[_i].layer, &error), error.text);
    assert_ok(spc_scene_load(&scene, rows[_i].scene, &error), error.text);
    assert_ok(spc_tune(ctx, &conv, (const spc_scene *const *)&scene, 1,
                       &options, &report),
              spc_ctx_error(ctx));
    printf("%s %s: %d verified, %d failed, %d refused in %.1f s\n", device,
           rows[_i].layer, report.verified, failed, report.refused,
           report.elapsed_s);
    ck_assert_int_gt(report.verified, 0);
    ck_assert_int_eq(failed, 0);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

static bool has_row(int i)
{
    return suite_device == NULL || strcmp(rows[i].device, "sim") == 0;
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
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
