/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_splits.c - configurations by name: splits of the offsets into groups,
 * and row orders. Each must pass the whole gate on layers of every operator.
 *
 *     test_splits [sim|cuda|nvrtc]
 *
 * "nvrtc" checks that they compile for GPUs that are not installed, without
 * spills.
 */
#include "compiler/artefact.h"
#include "compiler/template.h"
#include "context/ctx.h"
#include "harness/layer_harness.h"
#include "harness/nvrtc_harness.h"
#include "harness/suite.h"
#include "lab/gate/gate.h"
#include "lab/sample/fixture.h"
#include "operators/conv.h"
#include "plan/plan.h"
#include "device/targets.h"

#include <stdio.h>

static spc_error error;

static const struct {
    const char *layer, *template_name, *values;
} cases[] = {
    {"subm,cin=16,cout=32,k=3", "os_mma", "split=mask2,order=gray"},
    {"subm,cin=64,cout=64,k=3", "os_wgmma", "split=mask2,order=gray,groups=2"},
    {"subm,cin=24,cout=20,k=3,dtype=f32,epilogue=scale+bias+relu+add,"
     "out=bf16",
     "os_mma", "split=mask4,order=gray"},
    /* Two groups share mask words; some groups lack the centre. */
    {"subm,cin=16,cout=24,k=4,dtype=bf16,bias=1", "os_mma",
     "split=mask3,order=gray"},
    {"conv,cin=16,cout=32,k=3,stride=2,rule=footprint,padding=1", "os_mma",
     "split=mask2,order=gray,m=1"},
    {"inverse,cin=32,cout=64,k=2x3x3,stride=2,rule=floor,dtype=tf32,bias=1",
     "os_wgmma", "split=mask3,order=gray,groups=2"},
    /* Rows have odd lengths; one layer uses a slice. */
    {"subm,cin=7,cout=13,k=3,epilogue=silu,out_pitch=24,out=f32", "os_mma",
     "split=mask2,order=gray"},
    {"generative,cin=16,cout=16,k=3", "os_mma",
     "split=mask4,order=gray,warps=8,m=1"},
    {"subm,cin=64,cout=96,k=3,dtype=bf16,epilogue=scale+bias+gelu", "os_wgmma",
     "split=mask4,order=gray,gather=shared,groups=2"},
    /* Rows are multiples of 4 and 8 bytes, and outputs have any length. */
    {"conv,cin=50,cout=61,k=3,stride=2,rule=floor,dtype=bf16,epilogue=scale+"
     "bias+relu+add",
     "os_wgmma", "split=stream,groups=2"},
    /* There are fewer tiles than blocks that order rows. */
    {"subm,cin=16,cout=16,k=3x3x1", "os_wgmma", "groups=4,order=gray"},
    {"subm,cin=20,cout=35,k=3,dtype=f32,bias=1", "os_wgmma", "split=atomic"},
    /* Rows are copied before and after, between bytes and words. */
    {"subm,cin=81,cout=61,k=3,dtype=bf16,epilogue=scale+bias+relu+add",
     "os_wgmma", "groups=2"},
    {"subm,cin=77,cout=99,k=2,dtype=i8,epilogue=scale,in_pitch=79", "os_wgmma",
     "gather=shared"},
    {"subm,cin=40,cout=37,k=2,dtype=bf16,epilogue=add+gelu,out_pitch=41",
     "os_wgmma", "groups=2,pieces=1"},
    {"linear,cin=41,cout=66,dtype=f32,epilogue=scale+bias+add,out=f16",
     "os_wgmma", ""},
    {"subm,cin=44,cout=99,k=3,dtype=i8,epilogue=scale+relu,out=i8", "os_wgmma",
     "split=cluster2,groups=2"},
    {"conv,cin=20,cout=45,k=3,stride=2,rule=floor,in_pitch=22,epilogue=silu+"
     "add",
     "os_group", ""},
    {"subm,cin=40,cout=35,k=3", "os_wgmma", "split=mask2,order=gray,groups=2"},
    /* Residual, scale and bias are buffered in shared memory, in parts of 16
     * and 8 bytes. */
    {"subm,cin=128,cout=128,k=3,epilogue=scale+bias+relu+add", "os_wgmma",
     "gather=shared,groups=2,pieces=2,stages=4"},
    {"conv,cin=64,cout=44,k=3,stride=2,rule=floor,dtype=bf16,epilogue=scale+"
     "bias+silu+add,add_pitch=52",
     "os_wgmma", "groups=2"},
    {"subm,cin=32,cout=40,k=3,epilogue=scale+bias+add+relu,out=f32", "os_group",
     "depth=2"},
    /* Clusters loop over tiles, because there are more tiles than clusters. */
    {"subm,cin=64,cout=64,k=3", "os_wgmma", "split=cluster4,groups=2"},
    {"conv,cin=128,cout=96,k=3,stride=2,rule=footprint,padding=1,dtype=bf16,"
     "epilogue=scale+bias+relu+add",
     "os_wgmma", "split=cluster2,groups=2,n=96,pieces=2,stages=4"},
    {"subm,cin=64,cout=64,k=3,dtype=tf32,bias=1", "os_wgmma",
     "split=cluster8,groups=2"},
    /* Sums are cleared after each tile but the last. */
    {"subm,cin=128,cout=256,k=3,epilogue=scale+bias+add+relu", "os_wgmma",
     "split=cluster2,groups=2,n=256,pieces=4,stages=2"},
    {"subm,cin=64,cout=256,k=3,bias=1", "os_wgmma",
     "split=cluster4,groups=2,n=256,pieces=2,stages=2"},
    /* All blocks but one, half of them, or some have no column to finish. Some
     * blocks have one more than others. */
    {"subm,cin=16,cout=32,k=3", "os_wgmma",
     "split=cluster2,groups=2,n=32,pieces=1,stages=8,order=planes"},
    {"subm,cin=64,cout=128,k=3,bias=1", "os_wgmma",
     "split=cluster8,groups=2,n=128,pieces=2,stages=4"},
    {"subm,cin=128,cout=32,k=3", "os_wgmma",
     "split=cluster8,groups=2,n=32,pieces=1,stages=8"},
    {"conv,cin=64,cout=96,k=3,stride=2,rule=floor,dtype=f32,bias=1", "os_wgmma",
     "split=cluster8,groups=2,n=96,pieces=1,stages=4"},
    {"subm,cin=128,cout=96,k=3,dtype=i8,epilogue=scale+bias+add+relu,out=i8",
     "os_wgmma", "split=cluster4,groups=2,n=96,pieces=1,stages=8"},
    {"subm,cin=64,cout=64,k=3,epilogue=scale+bias+relu+add", "os_mma",
     "split=cluster4,m=1,stages=2"},
    {"inverse,cin=160,cout=64,k=3,stride=2,rule=floor,dtype=bf16", "os_mma",
     "split=cluster2,m=1,stages=3"},
    {"subm,cin=32,cout=64,k=1x3x1,dtype=f32", "os_mma",
     "split=cluster8,m=1,stages=3"},
    {"subm,cin=16,cout=32,k=3", "os_mma", "order=dense"},
    /* Parts of groups begin inside a word, or have one input each. */
    {"subm,cin=15,cout=21,groups=3,k=3,epilogue=scale+bias+relu+add", "os_mma",
     ""},
    {"conv,cin=66,cout=50,groups=2,k=3,stride=2,rule=floor,dtype=bf16,bias=1",
     "os_mma", "m=1"},
    {"subm,cin=10,cout=30,groups=10,k=1x3x1,dtype=i8,epilogue=scale,out=i8",
     "os_mma", ""},
    {"conv,cin=16,cout=32,k=3,stride=2,rule=floor", "os_warp", "order=morton"},
    {"subm,cin=32,cout=32,k=3", "os_group", "order=dense"},
    /* Depthwise layers with an epilogue, slices, bf16, several outputs per
     * channel, and partial vectors. */
    {"subm,cin=32,cout=32,groups=32,k=3,dtype=bf16,epilogue=scale+bias+add+"
     "relu",
     "os_depthwise", "order=morton"},
    {"conv,cin=24,cout=48,groups=24,k=2,stride=2,rule=floor,bias=1,"
     "in_pitch=40",
     "os_depthwise", "rows_a_thread=1"},
    {"subm,cin=6,cout=48,groups=6,k=3,dtype=tf32,epilogue=gelu,out=f16",
     "os_depthwise", ""},
    {"inverse,cin=16,cout=64,groups=16,k=3,stride=2,rule=floor,out=f32,"
     "out_pitch=68,epilogue=scale+leaky+add,add_pitch=66",
     "os_depthwise", "weights=global"},
    {"subm,cin=36,cout=72,groups=36,k=3,dtype=i8,epilogue=scale+bias+add+relu,"
     "out=i8",
     "os_depthwise", ""},
    {"conv,cin=16,cout=16,groups=16,k=2,stride=2,rule=floor,dtype=i8,"
     "epilogue=scale+silu,out=bf16",
     "os_depthwise", "weights=global"},
    /* Depthwise layers by tensor cores. Warps or rows of the grid share the
     * channels of a row, which do not fill the last part. */
    {"subm,cin=64,cout=64,groups=64,k=3,epilogue=scale+bias+add+relu",
     "os_diagonal", "channels=32,rows=32,depth=2"},
    {"conv,cin=160,cout=160,groups=160,k=3,stride=2,rule=footprint,padding=1,"
     "dtype=bf16,bias=1",
     "os_diagonal", "channels=32,depth=3"},
    {"inverse,cin=40,cout=40,groups=40,k=2x3x3,stride=2,rule=floor,in_pitch=48,"
     "out_pitch=45,out=f32,epilogue=silu",
     "os_diagonal", "order=gray_x"},
    {"subm,cin=264,cout=264,groups=264,k=3", "os_diagonal", "weights=shared"},
    /* Each row is summed alone. Channels come in parts, the last of which is
     * partial, and rows have several mask words. */
    {"subm,cin=64,cout=64,groups=64,k=3,epilogue=scale+bias+add+relu",
     "os_walk", "lanes=8,waves=1"},
    {"conv,cin=160,cout=160,groups=160,k=3,stride=2,rule=footprint,padding=1,"
     "dtype=bf16,bias=1",
     "os_walk", "weights=f32,rows=32,threads=128,blocks=6"},
    {"inverse,cin=40,cout=40,groups=40,k=2x3x3,stride=2,rule=floor,in_pitch=48,"
     "out_pitch=45,out=f32,epilogue=silu",
     "os_walk", "threads=128,blocks=6"},
    {"subm,cin=36,cout=36,groups=36,k=5,dtype=f32,bias=1", "os_walk", ""},
    {"subm,cin=36,cout=36,groups=36,k=3,dtype=bf16,epilogue=scale+bias+add+"
     "relu,in_pitch=38",
     "depthwise", "order=morton"},
    {"subm,cin=21,cout=63,groups=21,k=3,bias=1,out_pitch=70,out=f32",
     "depthwise", "vectors=1"},
    {"conv,cin=40,cout=80,groups=40,k=2,stride=2,rule=floor,dtype=f32,"
     "epilogue=bias+elu+add,out=bf16",
     "depthwise", ""},
};

/* Returns the template's default with some of its values replaced by
 * `values`. */
static void configure(spc__attrs *out, spc__template *tpl,
                      const spc__attrs *problem, const spc__attrs *target,
                      const char *text)
{
    spc__attrs values = {0};

    assert_ok(spc__template_default(out, tpl, problem, target, &error),
              error.text);
    if (text[0] == '\0')
        return;
    assert_ok(spc__attrs_parse(&values, text, &error), error.text);
    for (int i = 0; i < values.count; i++)
        if (values.at[i].is_number)
            spc__attrs_set_number(out, values.at[i].name, values.at[i].number);
        else
            spc__attrs_set_text(out, values.at[i].name, values.at[i].text);
    ck_assert_msg(spc__template_check(tpl, problem, target, out, &error) ==
                      SPC_OK,
                  "%s: %s", text, error.text);
}

static void verify(spc__fixture *fixture, int i)
{
    const char *name = cases[i].template_name;
    spc_ctx *ctx = fixture->ctx;
    spc__attrs problem = {0}, config = {0};
    spc__tested tested = {0};
    spc__library *library;
    spc__verdict verdict;
    spc_plan *plan;
    spc__code code;

    spc__conv_attrs(&problem, &fixture->sample->conv);
    assert_ok(spc__ctx_library(&library, ctx), spc_ctx_error(ctx));
    configure(&config, spc__library_find(library, name), &problem, &ctx->target,
              cases[i].values);
    assert_ok(spc__ctx_code(&code, ctx, name, &problem, &config, SPC_PLAN_JIT),
              spc_ctx_error(ctx));
    assert_ok(spc__plan_create_from(&plan, ctx, &fixture->sample->conv, &code,
                                    name, cases[i].values),
              spc_ctx_error(ctx));
    assert_ok(spc__gate_enter(&tested, fixture, plan), spc_ctx_error(ctx));
    spc__gate_verify(&verdict, fixture, &tested);
    ck_assert_msg(verdict.status == SPC__TRIAL_OK, "%s %s %s: %s",
                  cases[i].layer, name, cases[i].values, verdict.note);
    spc__gate_leave(&tested, fixture);
    spc_plan_free(plan);
}

START_TEST(a_configuration_passes_the_gate)
{
    bool is_host = strcmp(cases[_i].template_name, "depthwise") == 0;
    if (!suite_takes(_i) || (is_host && suite_device != NULL))
        return;
    const char *device = suite_device != NULL ? suite_device
                         : is_host            ? "cpu"
                                              : "sim";
    setenv("SPC_SIM_ASYNC", _i % 3 == 1 ? "eager" : "deferred", 1);
    spc_ctx *ctx = open_ctx(device, suite_database(), NULL);
    spc__sample_options options = {1, true, 2, NULL, 0};
    spc__sample_source source = {0};
    spc_scene *scene = NULL;
    spc__sample sample;
    spc__fixture *fixture;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, cases[_i].layer, &error), error.text);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=300,extent=9", &error),
              error.text);
    source.scene = scene;
    assert_ok(spc__sample_init(&sample, &conv, &source, 1, &options, &error),
              error.text);
    assert_ok(spc__fixture_create(&fixture, ctx, &sample), spc_ctx_error(ctx));
    verify(fixture, _i);
    spc__fixture_free(fixture);
    spc__sample_release(&sample);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- code for GPUs that are not installed ------------------------------- */

static const struct {
    const char *gpu, *template_name, *layer, *values;
} compiled[] = {
    {"sm_75", "os_mma", "subm,cin=64,cout=64,k=3", "split=mask2,order=gray"},
    {"sm_80", "os_mma", "subm,cin=128,cout=128,k=3,dtype=bf16",
     "split=mask3,order=gray"},
    {"sm_86", "os_mma", "subm,cin=64,cout=64,k=3,dtype=f32",
     "split=mask4,order=gray"},
    {"sm_89", "os_mma", "subm,cin=20,cout=44,k=5,epilogue=scale+bias+relu+add",
     "split=mask2,order=gray"},
    {"sm_90a", "os_wgmma", "subm,cin=128,cout=128,k=3",
     "split=mask2,order=gray"},
    {"sm_90a", "os_wgmma", "subm,cin=64,cout=64,k=3,dtype=tf32",
     "split=mask4,order=gray"},
    {"sm_90a", "os_wgmma",
     "subm,cin=162,cout=163,k=3,epilogue=scale+bias+relu+add", ""},
    {"sm_90a", "os_group",
     "subm,cin=20,cout=45,k=3,epilogue=scale+bias+relu+add", ""},
    /* Values are read at the end of a tile, in shared memory and before a
     * join. */
    {"sm_90a", "os_wgmma",
     "subm,cin=256,cout=256,k=3,epilogue=scale+bias+relu+add",
     "split=cluster4"},
    {"sm_90a", "os_wgmma",
     "subm,cin=256,cout=256,k=3,dtype=bf16,epilogue=scale+bias+gelu+add", ""},
    {"sm_90a", "os_wgmma",
     "inverse,cin=128,cout=128,k=3,stride=2,rule=floor,epilogue=scale+bias+"
     "relu+add",
     "gather=shared,stages=3"},
    {"sm_90a", "os_group",
     "subm,cin=64,cout=64,k=3,epilogue=scale+bias+relu+add", ""},
    {"sm_100", "os_mma", "conv,cin=64,cout=128,k=3,stride=2,rule=floor",
     "split=mask2,order=gray"},
    {"sm_120", "os_mma", "subm,cin=256,cout=256,k=3", "split=mask2,order=gray"},
    {"sm_75", "os_depthwise",
     "subm,cin=64,cout=64,groups=64,k=3,epilogue=scale+bias+relu+add", ""},
    {"sm_80", "os_depthwise",
     "subm,cin=32,cout=128,groups=32,k=3,dtype=bf16,epilogue=scale+bias+silu",
     ""},
    {"sm_86", "os_depthwise",
     "subm,cin=64,cout=64,groups=64,k=3,dtype=i8,epilogue=scale+bias+add+relu,"
     "out=i8",
     ""},
    {"sm_90a", "os_depthwise", "subm,cin=64,cout=512,groups=64,k=3,bias=1", ""},
    {"sm_120", "os_depthwise", "subm,cin=64,cout=128,groups=64,k=3,dtype=f32",
     ""},
    {"sm_75", "os_diagonal",
     "subm,cin=256,cout=256,groups=256,k=7,epilogue=scale+bias+gelu+add", ""},
    {"sm_80", "os_diagonal",
     "conv,cin=96,cout=96,groups=96,k=3,stride=2,rule=floor,dtype=bf16,"
     "epilogue=scale+bias+relu+add",
     ""},
    {"sm_90a", "os_diagonal", "subm,cin=40,cout=40,groups=40,k=3,out=f32",
     "channels=64,depth=2"},
    {"sm_75", "os_walk",
     "subm,cin=256,cout=256,groups=256,k=5,epilogue=scale+bias+gelu+add", ""},
    {"sm_80", "os_walk",
     "conv,cin=96,cout=96,groups=96,k=3,stride=2,rule=floor,dtype=bf16,"
     "epilogue=scale+bias+relu+add",
     ""},
    {"sm_90a", "os_walk", "subm,cin=256,cout=256,groups=256,k=3", ""},
    {"sm_120", "os_walk", "subm,cin=128,cout=128,groups=128,k=5,dtype=f32", ""},
};

START_TEST(a_configuration_compiles_without_spills)
{
    if (!suite_takes(_i))
        return;
    spc__attrs problem = {0}, target, config = {0};
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__library *library;
    spc__compiler *nvrtc;
    spc__artefact artefact;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, compiled[_i].layer, &error), error.text);
    spc__conv_attrs(&problem, &conv);
    assert_ok(spc__library_open(&library, NULL, NULL, &error), error.text);
    assert_ok(spc__target_facts(&target, compiled[_i].gpu, &error), error.text);
    spc__template *tpl = spc__library_find(library, compiled[_i].template_name);
    configure(&config, tpl, &problem, &target, compiled[_i].values);
    assert_ok(
        spc__template_render(&text, tpl, &problem, &target, &config, &error),
        error.text);
    spc__compile_job job = {.source = text.data,
                            .name = compiled[_i].template_name,
                            .target = compiled[_i].gpu,
                            .headers = library};
    assert_ok(spc__nvrtc_open(&nvrtc, &error), error.text);
    assert_ok(spc__compile(&artefact, nvrtc, &job, &log, &error), error.text);
    ck_assert_int_eq(spc__attrs_number(&artefact.resources, "spill_bytes", -1),
                     0);
    spc__artefact_release(&artefact);
    spc__compiler_close(nvrtc);
    spc__library_close(library);
    spc__buf_release(&text);
    spc__buf_release(&log);
}
END_TEST

int main(int argc, char **argv)
{
    bool is_code = suite_is_part(argc, argv, "nvrtc");
    int status = is_code ? 0 : suite_open(argc, argv);

    if (status != 0)
        return status;
    if (is_code && !has_nvrtc(&error))
        return suite_skip(error.text);
    if (is_code)
        suite_sample(6);
    Suite *suite = suite_create("splits");
    TCase *tcase = tcase_create("splits");
    tcase_set_timeout(tcase, 600);
    if (is_code)
        tcase_add_loop_test(tcase, a_configuration_compiles_without_spills, 0,
                            LENGTH(compiled));
    else
        tcase_add_loop_test(tcase, a_configuration_passes_the_gate, 0,
                            LENGTH(cases));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
