/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_targets.c - every CUDA template, at its default, compiles without spills
 * for GPUs that this machine lacks.
 *
 *     test_targets          checks that every template is compiled below, and
 *                           that every dataflow is documented
 *     test_targets nvrtc    compiles a sample of (template, problem, GPU) that
 *                           depends on the seed; $SPC_TEST_ALL compiles all
 */
#include "base/file.h"
#include "compiler/artefact.h"
#include "compiler/template.h"
#include "coords/index/index_device.h"
#include "coords/points/points_steps.h"
#include "device/targets.h"
#include "harness/layer_harness.h"
#include "harness/nvrtc_harness.h"
#include "harness/suite.h"
#include "operators/conv.h"
#include "operators/feature.h"

#include <stdio.h>

static const char *const gpus[] = {"sm_75",  "sm_80",  "sm_86",  "sm_87",
                                   "sm_89",  "sm_90a", "sm_100", "sm_101",
                                   "sm_110", "sm_120"};

static spc_error error;

/* ---- problems ------------------------------------------------------------ */

static void layer_problem(spc__attrs *out, const char *text)
{
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, text, &error), error.text);
    spc__conv_attrs(out, &conv);
}

static void feature_problem(spc__attrs *out, const char *text)
{
    spc_feature feature;

    assert_ok(spc_feature_parse(&feature, text, &error), error.text);
    spc__feature_attrs(out, &feature);
}

/* The index width of a layer's map: 32-bit keys, or 64-bit ones if the layer is
 * not submanifold. */
static spc__index_width width_of(const spc_conv *conv)
{
    int key = conv->op == SPC_SUBM ? 32 : 64;

    return (spc__index_width){key, key, 1024};
}

static void points_problem(spc__attrs *out, const char *text)
{
    spc__points_problem(out, atoi(text));
}

static void index_problem(spc__attrs *out, const char *text)
{
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, text, &error), error.text);
    spc__index_width width = width_of(&conv);
    spc__index_problem(out, &width, &conv.geometry,
                       spc__conv_is_inverse(&conv));
}

/* Makes the problem of indexing a layer with 64-bit keys. */
static void wide_problem(spc__attrs *out, const char *text)
{
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, text, &error), error.text);
    spc__index_width width = {64, 64, 1024};
    spc__index_problem(out, &width, &conv.geometry,
                       spc__conv_is_inverse(&conv));
}

static void coords_problem(spc__attrs *out, const char *text)
{
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, text, &error), error.text);
    spc__index_width width = width_of(&conv);
    spc__coords_problem(out, &width, &conv.geometry);
}

static void named_problem(spc__attrs *out, const char *text)
{
    memset(out, 0, sizeof(*out));
    spc__attrs_set_text(out, "op", text);
    spc__attrs_set_number(out, "threads", 1024);
}

/* A template, or NULL for all templates of role "conv" that accept the
 * layer. */
static const struct {
    const char *template_name;
    void (*fill)(spc__attrs *out, const char *text);
    const char *text;
} problems[] = {
    {NULL, layer_problem, "subm,cin=64,cout=64,k=3,dtype=f16"},
    {NULL, layer_problem, "subm,cin=32,cout=64,k=5,dtype=f16"},
    {NULL, layer_problem,
     "subm,cin=128,cout=128,k=3,dtype=bf16,epilogue=scale+bias+relu+add"},
    {NULL, layer_problem, "subm,cin=256,cout=256,k=3,dtype=f16"},
    {NULL, layer_problem, "subm,cin=4,cout=32,k=3,dtype=f16"},
    {NULL, layer_problem, "subm,cin=3,cout=18,k=5,dtype=f32"},
    {NULL, layer_problem, "subm,cin=32,cout=32,k=3,dtype=tf32"},
    {NULL, layer_problem, "subm,cin=64,cout=64,k=3,dtype=f32,bias=1"},
    {NULL, layer_problem, "subm,cin=64,cout=64,groups=64,k=3,dtype=f16"},
    {NULL, layer_problem, "subm,cin=81,cout=163,k=3,dtype=f16,out=f32"},
    {NULL, layer_problem,
     "conv,cin=32,cout=64,k=3,stride=2,padding=1,rule=footprint,dtype=f16"},
    {NULL, layer_problem, "inverse,cin=64,cout=32,k=2,stride=2,rule=floor"},
    {NULL, layer_problem, "linear,cin=96,cout=384,epilogue=bias+gelu"},
    {"os_mma", layer_problem, "subm,cin=64,cout=64,k=3,accumulator=f16"},
    {"wgrad_mma", layer_problem, "subm,cin=64,cout=64,k=3,pass=wgrad,bias=1"},
    {"wgrad_mma", layer_problem,
     "subm,cin=20,cout=96,k=3,dtype=f32,pass=wgrad,accumulate=1"},
    {"wgrad_wgmma", layer_problem,
     "subm,cin=256,cout=256,k=3,pass=wgrad,bias=1"},
    {"wgrad_rows", layer_problem, "subm,cin=32,cout=32,k=3,pass=wgrad"},
    {"wgrad_tiles", layer_problem, "subm,cin=32,cout=32,k=3,pass=wgrad"},
    {"wgrad_mma", layer_problem,
     "subm,cin=64,cout=64,groups=4,k=3,pass=wgrad,bias=1"},
    {"wgrad_channels", layer_problem,
     "subm,cin=64,cout=64,groups=64,k=3,pass=wgrad"},
    {"wgrad_channels", layer_problem,
     "subm,cin=128,cout=128,groups=32,k=3,pass=wgrad,bias=1"},
    {"wgrad_channels", layer_problem,
     "subm,cin=24,cout=48,groups=24,k=3,dtype=f32,pass=wgrad,accumulate=1"},
    {"wgrad_generic", layer_problem, "subm,cin=24,cout=48,groups=8,pass=wgrad"},
    {NULL, layer_problem, "subm,cin=32,cout=64,groups=4,k=3,pass=dgrad"},
    {NULL, layer_problem, "points,cin=64,cout=128,k=3,radius=0.1"},
    {NULL, layer_problem, "points,cin=160,cout=72,k=5,radius=0.1,dtype=f32"},
    {"points", points_problem, "32"},
    {"points", points_problem, "64"},
    {"index", index_problem, "subm,cin=1,cout=1,k=3"},
    {"index", index_problem, "subm,cin=1,cout=1,k=5"},
    {"index", index_problem, "subm,cin=1,cout=1,k=7"},
    {"index", wide_problem, "subm,cin=1,cout=1,k=3"},
    {"index", wide_problem, "subm,cin=1,cout=1,k=5"},
    {"index", index_problem, "conv,cin=1,cout=1,k=3,stride=2,rule=floor"},
    {"index", index_problem, "conv,cin=1,cout=1,k=3,stride=2,rule=given"},
    {"index", index_problem, "inverse,cin=1,cout=1,k=2,stride=2,rule=floor"},
    {"index", index_problem, "transposed,cin=1,cout=1,k=3,stride=2"},
    {"coords", coords_problem, "subm,cin=1,cout=1,k=3"},
    {"coords", coords_problem, "conv,cin=1,cout=1,k=3,stride=2,rule=floor"},
    {"coords", coords_problem, "generative,cin=1,cout=1,k=2,stride=2"},
    {"coords", coords_problem,
     "conv,cin=1,cout=1,offsets=0x0x0+1x0x0,rule=footprint"},
    {"coords", coords_problem, "generative,cin=1,cout=1,offsets=0x0x0+1x0x0"},
    {"regroup", named_problem, "regroup"},
    {"voxelise", named_problem, "voxelise"},
    {"rows", named_problem, "rows"},
    {"transpose", named_problem, "transpose"},
    {"digest", named_problem, "digest"},
    {"measure", named_problem, "measure"},
    {"feature_pool", feature_problem, "pool=max,c=64,rule=floor,k=2,stride=2"},
    {"feature_pool", feature_problem, "unpool=index,c=64,rule=floor,k=2"},
    {"feature_slices", feature_problem, "pool=slices,c=64,rule=floor,k=2"},
    {"feature_slices", feature_problem, "unpool=slices,c=512,rule=floor,k=2"},
    {"feature_rows", feature_problem, "add,c=64,act=gelu"},
    {"feature_rows", feature_problem, "groupmean,c=1024,by=64"},
    {"feature_norm", feature_problem, "norm=layer,c=1024,affine=1,act=silu"},
    {"feature_batch", feature_problem, "norm=group,c=768,groups=32"},
    {"feature_batch", feature_problem, "global=mean,c=163,dtype=f32"},
    {"feature_multiply", feature_problem, "multiply,c=64"},
    {"feature_multiply", feature_problem, "multiply,c=64,pass=wgrad"},
    {"feature_bev", feature_problem, "bev,c=128,shape=176x200x2"},
};

/* ---- templates ----------------------------------------------------------- */

typedef struct harness_of {
    spc__library *library;
    spc__compiler *nvrtc;
} harness_of;

static bool is_cuda(const spc__template *tpl)
{
    return strcmp(spc__template_device(tpl), "cuda") == 0;
}

/* True if problem `p` uses code of the template on this GPU. */
static bool serves(spc__template *tpl, int p, const spc__attrs *problem,
                   const spc__attrs *target)
{
    const char *name = problems[p].template_name;
    bool wgrad = strcmp(spc__template_role(tpl), "wgrad") == 0;

    if (!is_cuda(tpl))
        return false;
    if (name != NULL)
        return strcmp(name, spc__template_name(tpl)) == 0 &&
               (!wgrad ||
                spc__template_accepts(tpl, problem, target, NULL) == SPC_OK);
    return strcmp(spc__template_role(tpl), "conv") == 0 &&
           spc__template_accepts(tpl, problem, target, NULL) == SPC_OK;
}

static spc__attrs facts_of(const char *gpu)
{
    spc__attrs target;

    assert_ok(spc__target_facts(&target, gpu, &error), error.text);
    return target;
}

/* Finds a problem that is compiled with the template on some GPU, and its
 * default there. */
static bool find_default(spc__attrs *config, spc__template *tpl)
{
    for (int p = 0; p < LENGTH(problems); p++)
        for (int g = 0; g < LENGTH(gpus); g++) {
            spc__attrs problem, target = facts_of(gpus[g]);
            problems[p].fill(&problem, problems[p].text);
            if (!serves(tpl, p, &problem, &target))
                continue;
            assert_ok(
                spc__template_default(config, tpl, &problem, &target, &error),
                error.text);
            return true;
        }
    return false;
}

/* A template that is not compiled here needs a row in `problems`. */
START_TEST(no_template_is_left_out)
{
    spc__library *library;
    spc__attrs config;

    assert_ok(spc__library_open(&library, NULL, NULL, &error), error.text);
    for (int i = 0; i < spc__library_count(library); i++) {
        spc__template *tpl = spc__library_at(library, i);
        ck_assert_msg(!is_cuda(tpl) || find_default(&config, tpl),
                      "no problem is compiled by template '%s'",
                      spc__template_name(tpl));
    }
    spc__library_close(library);
}
END_TEST

/* A hybrid's threshold reaches from all offsets by pairs (0) to none: one more
 * than the farthest distance, 3 (kernel - 1) / 2. */
START_TEST(thresholds_have_their_whole_range)
{
    int kernel = 3 + 2 * _i, farthest = 3 * (kernel - 1) / 2;
    char layer[64];
    spc__library *library;
    spc__attrs problem, target, config;

    snprintf(layer, sizeof(layer), "subm,cin=64,cout=64,k=%d", kernel);
    layer_problem(&problem, layer);
    assert_ok(spc__target_facts(&target, "sm_90a", &error), error.text);
    assert_ok(spc__library_open(&library, NULL, NULL, &error), error.text);
    spc__template *tpl = spc__library_find(library, "pairs_mma");
    assert_ok(spc__template_default(&config, tpl, &problem, &target, &error),
              error.text);
    spc__attrs_set_text(&config, "weights", "stream");
    for (int near = 0; near <= farthest + 2; near++) {
        spc__attrs_set_number(&config, "near", near);
        spc_status status =
            spc__template_check(tpl, &problem, &target, &config, &error);
        ck_assert_msg((status == SPC_OK) == (near <= farthest + 1),
                      "k=%d, near=%d: %s", kernel, near, error.text);
    }
    spc__library_close(library);
}
END_TEST

/* ---- documentation ------------------------------------------------------- */

static bool says(const char *text, const char *name)
{
    char quoted[80];

    snprintf(quoted, sizeof(quoted), "`%s`", name);
    return strstr(text, quoted) != NULL;
}

/* Checks all roles. Templates that read triplets are checked only for their
 * device. */
START_TEST(points_are_for_those_that_read_triplets)
{
    static const struct {
        const char *layer, *name;
        bool reads;
    } pairs[] = {
        {"points,cin=16,cout=32,k=3,radius=0.1", "points_mma", true},
        {"points,cin=16,cout=32,k=3,radius=0.1", "os_group", false},
        {"points,cin=16,cout=32,k=3,radius=0.1,pass=wgrad", "wgrad_mma", true},
        {"points,cin=16,cout=32,k=3,radius=0.1,pass=wgrad", "wgrad_rows",
         false},
    };
    spc__attrs problem, target = facts_of("sm_90a");
    spc__library *library;

    assert_ok(spc__library_open(&library, NULL, NULL, &error), error.text);
    for (int i = 0; i < LENGTH(pairs); i++) {
        layer_problem(&problem, pairs[i].layer);
        spc_status status =
            spc__template_accepts(spc__library_find(library, pairs[i].name),
                                  &problem, &target, &error);
        ck_assert_msg((status == SPC_OK) == pairs[i].reads, "%s: %s",
                      pairs[i].name, error.text);
        if (!pairs[i].reads)
            ck_assert_ptr_nonnull(strstr(error.text, "reads no triplets"));
    }
    spc__library_close(library);
}
END_TEST

/* docs/dataflows.md names every dataflow and its parameters. */
START_TEST(every_dataflow_is_described)
{
    spc__buf text = SPC__BUF_INIT;
    spc__library *library;

    assert_ok(spc__file_read(&text, suite_path("../docs/dataflows.md"), 1 << 20,
                             &error),
              error.text);
    assert_ok(spc__library_open(&library, NULL, NULL, &error), error.text);
    for (int i = 0; i < spc__library_count(library); i++) {
        spc__template *tpl = spc__library_at(library, i);
        const char *name = spc__template_name(tpl);
        if (strcmp(spc__template_role(tpl), "conv") != 0 &&
            strcmp(spc__template_role(tpl), "wgrad") != 0)
            continue;
        ck_assert_msg(says(spc__buf_text(&text), name), "nothing is said of %s",
                      name);
        spc__attrs config = {0};
        if (is_cuda(tpl))
            ck_assert(find_default(&config, tpl));
        for (int c = 0; c < config.count; c++)
            ck_assert_msg(says(spc__buf_text(&text), config.at[c].name),
                          "nothing is said of %s, a parameter of %s",
                          config.at[c].name, name);
    }
    spc__library_close(library);
    spc__buf_release(&text);
}
END_TEST

/* ---- compiling ----------------------------------------------------------- */

/* Returns the bytes that the kernels spill to memory, from the compiler's
 * log. */
static int spilled_of(const char *log)
{
    int all = 0, kernels = 0, stores, loads;

    while ((log = strstr(log, "bytes stack frame,")) != NULL) {
        ck_assert_int_eq(sscanf(log,
                                "bytes stack frame, %d bytes spill stores, "
                                "%d bytes spill loads",
                                &stores, &loads),
                         2);
        all += stores + loads;
        kernels++;
        log++;
    }
    ck_assert_int_gt(kernels, 0);
    return all;
}

/* Compiles the default of a template. Returns true if no kernel spills. */
static bool compiles(const harness_of *r, spc__template *tpl, int p,
                     const char *gpu)
{
    const char *name = spc__template_name(tpl);
    spc__attrs problem, target = facts_of(gpu), config = {0};
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__artefact artefact;

    problems[p].fill(&problem, problems[p].text);
    assert_ok(spc__template_default(&config, tpl, &problem, &target, &error),
              error.text);
    assert_ok(
        spc__template_render(&text, tpl, &problem, &target, &config, &error),
        error.text);
    spc__compile_job job = {.source = text.data,
                            .name = name,
                            .target = gpu,
                            .headers = r->library};
    assert_ok(spc__compile(&artefact, r->nvrtc, &job, &log, &error),
              error.text);
    int spilled = spilled_of(spc__buf_text(&log));
    printf("%s %s %s: %d registers, %d bytes spilled\n", gpu, name,
           problems[p].text,
           (int)spc__attrs_number(&artefact.resources, "registers", 0),
           spilled);
    fflush(stdout);
    ck_assert_uint_eq(spc__code_statics(artefact.code, artefact.code_bytes), 0);
    spc__artefact_release(&artefact);
    spc__buf_release(&text);
    spc__buf_release(&log);
    return spilled == 0;
}

/* Compiles the templates that serve problem `p`. `number` counts them. Returns
 * how many spill. */
static int compile_problem(const harness_of *r, int p, const char *gpu,
                           int *number)
{
    spc__attrs problem, target = facts_of(gpu);
    int spill = 0;

    problems[p].fill(&problem, problems[p].text);
    for (int i = 0; i < spc__library_count(r->library); i++) {
        spc__template *tpl = spc__library_at(r->library, i);
        if (serves(tpl, p, &problem, &target) && suite_takes((*number)++))
            spill += !compiles(r, tpl, p, gpu);
    }
    return spill;
}

START_TEST(defaults_compile_without_spills)
{
    int number = 9 * _i; /* so that each GPU gets other problems */
    int spill = 0;
    harness_of r;

    assert_ok(spc__nvrtc_open(&r.nvrtc, &error), error.text);
    /* sm_101 became sm_110 with CUDA 13: no NVRTC knows all. */
    if (spc__nvrtc_check_target(r.nvrtc, gpus[_i], &error) != SPC_OK) {
        suite_note_skip(error.text);
        spc__compiler_close(r.nvrtc);
        return;
    }
    assert_ok(spc__library_open(&r.library, NULL, NULL, &error), error.text);
    for (int p = 0; p < LENGTH(problems); p++)
        spill += compile_problem(&r, p, gpus[_i], &number);
    ck_assert_msg(spill == 0, "%d defaults spill on %s", spill, gpus[_i]);
    ck_assert_int_gt(number - 9 * _i, LENGTH(problems));
    spc__library_close(r.library);
    spc__compiler_close(r.nvrtc);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

int main(int argc, char **argv)
{
    bool nvrtc = suite_is_part(argc, argv, "nvrtc");
    Suite *suite = suite_create(nvrtc ? "targets, NVRTC" : "targets");
    TCase *tcase = tcase_create("all");

    if (nvrtc && !has_nvrtc(&error))
        return suite_skip(error.text);
    tcase_set_timeout(tcase, 900);
    if (nvrtc) {
        suite_sample(61);
        tcase_add_loop_test(tcase, defaults_compile_without_spills, 0,
                            LENGTH(gpus));
    } else {
        tcase_add_test(tcase, no_template_is_left_out);
        tcase_add_test(tcase, points_are_for_those_that_read_triplets);
        tcase_add_test(tcase, every_dataflow_is_described);
        tcase_add_loop_test(tcase, thresholds_have_their_whole_range, 0, 3);
    }
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
