/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_int8.c - integer layers. Tests their text form, arrays, the oracle
 * compared with its definition, kernels with a fault, sums that fp32 cannot
 * hold, and every template's default on layers sampled by a seed.
 *
 *     test_int8 [sim|cpu|cuda|nvrtc [SEED [LAYERS]]]
 *
 * "nvrtc" checks that defaults compile for GPUs that are not installed, without
 * spills. Each run samples other layers. The seed is printed; pass it to repeat
 * a run.
 */
#include "base/random.h"
#include "harness/nvrtc_harness.h"
#include "harness/suite.h"
#include "harness/template_harness.h"
#include "operators/epilogue.h"
#include "operators/operands.h"
#include "spc/tune.h"

#include <math.h>
#include <stdio.h>

static spc_error error;
static uint64_t seed;
static int layers_drawn = 1;

/* ---- words --------------------------------------------------------------- */

static const struct {
    const char *text, *canonical; /* NULL: the same as `text` */
} written[] = {
    {"subm,cin=8,cout=8,k=3,dtype=i8", NULL},
    {"subm,cin=8,cout=8,dtype=i8,out=i8", "subm,cin=8,cout=8,k=3,dtype=i8"},
    {"subm,cin=8,cout=8,k=3,dtype=i8,bias=1,out=f16", NULL},
    {"subm,cin=8,cout=8,k=3,dtype=i8,epilogue=scale+bias+relu+add,out=f32",
     NULL},
    {"subm,cin=8,cout=8,k=3,dtype=f16,epilogue=scale+bias+relu,out=i8", NULL},
    {"subm,cin=8,cout=8,k=3,dtype=bf16,out=i8", NULL},
    {"conv,cin=3,cout=5,rule=floor,k=2,stride=2,dtype=i8,out=bf16", NULL},
};

START_TEST(a_layer_is_written_and_read_back)
{
    const char *want = written[_i].canonical != NULL ? written[_i].canonical
                                                     : written[_i].text;
    spc__attrs attrs = {0};
    char text[320];
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, written[_i].text, &error), error.text);
    spc__conv_attrs(&attrs, &conv);
    ck_assert(spc__conv_from_attrs(&conv, &attrs));
    spc_conv_format(text, sizeof(text), &conv);
    ck_assert_str_eq(text, want);
}
END_TEST

/* ---- arrays -------------------------------------------------------------- */

static const struct {
    const char *layer;
    size_t bytes[SPC_OPERANDS]; /* bytes of 10 rows */
} arrays[] = {
    {"subm,cin=3,cout=5,k=3,dtype=i8,epilogue=scale+bias+add",
     {30, 50, 405, 20, 20, 50, 4, 4, 4}},
    {"subm,cin=3,cout=5,k=3,dtype=i8,out=f16,epilogue=add,in_pitch=7",
     {66, 100, 405, 0, 0, 100, 4, 0, 0}},
    {"subm,cin=3,cout=5,k=3,dtype=f16,out=i8", {60, 50, 810, 0, 0, 0, 0, 4, 0}},
    {"subm,cin=3,cout=5,k=3,dtype=f16,epilogue=add",
     {60, 100, 810, 0, 0, 100, 0, 0, 0}},
};

START_TEST(arrays_have_as_many_bytes_as_their_numbers)
{
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, arrays[_i].layer, &error), error.text);
    for (int i = 0; i < SPC_OPERANDS; i++)
        ck_assert_msg(spc_conv_operand_bytes(&conv, (spc_operand)i, 10) ==
                          arrays[_i].bytes[i],
                      "%s: array %d has %zu bytes, not %zu", arrays[_i].layer,
                      i, spc_conv_operand_bytes(&conv, (spc_operand)i, 10),
                      arrays[_i].bytes[i]);
}
END_TEST

START_TEST(scales_that_are_missing_are_named)
{
    harness r;

    harness_open(&r, open_ctx("cpu", "", NULL),
                 "subm,cin=4,cout=4,dtype=i8,epilogue=scale+add",
                 "gen:uniform,n=20,extent=4");
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_JIT),
              spc_ctx_error(r.ctx));
    harness_prepare(&r, SPC_KRSC);
    for (int i = 0; i < 3; i++) {
        static const char *const says[] = {"`in_scale` is NULL",
                                           "`out_scale` is NULL",
                                           "`residual_scale` is NULL"};
        spc_buffers bad = r.buffers;
        const float **scales[] = {&bad.in_scale, &bad.out_scale,
                                  &bad.residual_scale};
        const float *there = *scales[i];
        *scales[i] = NULL;
        ck_assert_int_eq(spc_plan_execute(r.plan, r.map, &bad, NULL),
                         SPC_EINVAL);
        assert_says(spc_ctx_error(r.ctx), says[i]);
        *scales[i] = (const float *)((const char *)there + 2);
        ck_assert_int_eq(spc_plan_execute(r.plan, r.map, &bad, NULL),
                         SPC_EINVAL);
        assert_says(spc_ctx_error(r.ctx), "must be 4-byte aligned");
    }
    harness_check(&r);
    harness_close(&r);
}
END_TEST

START_TEST(rows_of_whole_numbers_are_not_merged)
{
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    spc_coords_options options = SPC_COORDS_OPTIONS_INIT;
    spc_coords *coords;
    char features[16] = {0};

    options.capacity = 4;
    for (int axis = 0; axis < 3; axis++)
        options.high[axis] = 3;
    options.duplicates = SPC_DUPLICATES_SUM;
    assert_ok(spc_coords_create_reserved(&coords, ctx, &options),
              spc_ctx_error(ctx));
    ck_assert_int_eq(
        spc_coords_merge_features(coords, features, SPC_I8, 4, NULL),
        SPC_EUNSUPPORTED);
    assert_says(spc_ctx_error(ctx), "quantised features (i8)");
    spc_coords_free(coords);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- the oracle ---------------------------------------------------------- */

/* Calculated by hand for sums of -6, 5 and 200, a scale of 2, in_scale 1/4, a
 * bias of 1, a residual of 3 times 1/2, and out_scale 1/2. */
static const struct {
    const char *words;
    double want[3];
} finished[] = {
    {"dtype=i8,out=f32", {-1.5, 1.25, 50}},
    {"dtype=i8", {-3, 2, 100}}, /* exact: -3, 2.5, 100 */
    {"dtype=i8,epilogue=scale", {-6, 5, 127}},
    {"dtype=i8,epilogue=bias", {-1, 4, 102}}, /* exact: -1, 4.5, 102 */
    {"dtype=i8,epilogue=scale+bias+relu,out=f32", {0, 3.5, 101}},
    {"dtype=i8,epilogue=scale+bias+relu", {0, 7, 127}},
    {"dtype=i8,epilogue=scale+add", {-3, 8, 127}},
    {"dtype=i8,epilogue=scale+add,out=f16", {0, 5.5, 103}},
    {"dtype=f32,out=i8", {-12, 10, 127}},
    {"dtype=f32,epilogue=scale+bias+add+relu,out=i8", {0, 25, 127}},
};

START_TEST(the_oracle_finishes_sums_by_the_definition)
{
    const float scale[] = {2, 2, 2}, bias[] = {1, 1, 1};
    const float residual[] = {3, 3, 3};
    const spc_scales scales = {0.25f, 0.5f, 0.5f};
    double sums[] = {-6, 5, 200};
    char text[120];
    spc_conv conv;

    snprintf(text, sizeof(text), "subm,cin=1,cout=3,%s", finished[_i].words);
    assert_ok(spc_conv_parse(&conv, text, &error), error.text);
    spc_oracle_quantised(sums, &conv, 1, &scales, scale, bias, residual);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(sums[i] == finished[_i].want[i],
                      "%s: %d is %g and must be %g", text, i, sums[i],
                      finished[_i].want[i]);
}
END_TEST

/* Samples must saturate and contain halfway cases; otherwise the gate would
 * test neither. */
START_TEST(draws_saturate_and_have_ties)
{
    spc__sample_options options = {seed, true, 2, NULL, 0};
    spc__sample_source source = {0};
    spc_scene *scene;
    spc__sample sample;
    spc_conv conv;
    int ends = 0, inner = 0;

    assert_ok(spc_conv_parse(&conv, "subm,cin=8,cout=8,dtype=i8,epilogue=scale",
                             &error),
              error.text);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=100,extent=5", &error),
              error.text);
    source.scene = scene;
    assert_ok(spc__sample_init(&sample, &conv, &source, 1, &options, &error),
              error.text);
    const int8_t *wide = sample.scenes[0].exact[SPC__WIDE];
    for (int64_t i = 0; i < 100 * 8; i++) {
        ends += wide[i] == -128 || wide[i] == 127;
        inner += wide[i] > -64 && wide[i] < 64;
    }
    ck_assert_int_gt(ends, 5);
    ck_assert_int_gt(inner, 400);
    for (int d = 0; d < SPC__REAL; d++) {
        int exponent;
        ck_assert(frexpf(sample.scales[d].in, &exponent) == 0.5f);
        ck_assert(frexpf(sample.scales[d].out, &exponent) == 0.5f);
        ck_assert(frexpf(sample.scales[d].residual, &exponent) == 0.5f);
    }
    spc__sample_release(&sample);
    spc_scene_free(scene);
}
END_TEST

/* ---- kernels with a fault ------------------------------------------------ */

static void on_faulty(const spc_trial *trial, void *payload)
{
    int *seen = payload;
    bool right = strcmp(trial->config, "fault=none") == 0;

    ck_assert_msg(strcmp(trial->status, right ? "ok" : "wrong") == 0,
                  "%s: %s %s", trial->config, trial->status, trial->note);
    if (strcmp(trial->config, "fault=scale_written") == 0)
        assert_says(trial->note, "read-only: a tensor's scale is written to");
    ++*seen;
}

/* Each kernel but the first has one fault. */
START_TEST(the_gate_finds_every_fault_of_whole_numbers)
{
    spc_ctx *ctx = open_ctx("cpu", "", suite_path("templates/int8"));
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    spc_scene *scene = NULL;
    spc_conv conv;
    int seen = 0;

    options.stage = SPC_STAGE_VERIFY;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    options.on_trial = on_faulty;
    options.payload = &seen;
    options.seed = seed;
    assert_ok(spc_conv_parse(
                  &conv, "subm,cin=9,cout=7,dtype=i8,epilogue=scale+bias+add",
                  &error),
              error.text);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=60,extent=5", &error),
              error.text);
    assert_ok(spc_tune(&report, ctx, &conv, (const spc_scene *const *)&scene, 1,
                       &options),
              spc_ctx_error(ctx));
    ck_assert_int_eq(seen, 24);
    ck_assert_int_eq(report.verified, 1);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- sums that fp32 does not hold ---------------------------------------- */

enum { LARGE_IN = 128, LARGE_OUT = 8 };

/* Returns numbers near the largest int8, even and odd. */
static int8_t large_number(int64_t i)
{
    return (int8_t)(127 - i * 7919 % 5);
}

/* Computes the sum by definition. */
static int64_t large_sum(const spc_relation *relation, int64_t row, int co)
{
    int64_t sum = 0;

    for (int64_t k = 0; k < relation->offsets; k++) {
        int64_t from = relation->index[k * relation->rows_out + row];
        for (int64_t ci = 0; from >= 0 && ci < LARGE_IN; ci++)
            sum += large_number(from * LARGE_IN + ci) *
                   large_number((co * relation->offsets + k) * LARGE_IN + ci);
    }
    return sum;
}

static void fill_large(harness *r)
{
    size_t in = spc_conv_operand_bytes(&r->conv, SPC_OPERAND_IN,
                                       spc_scene_rows(r->scene));
    size_t weights = spc_conv_operand_bytes(&r->conv, SPC_OPERAND_WEIGHTS, 0);
    size_t most = in > weights ? in : weights;
    int8_t *numbers = malloc(most);
    const float one = 1;
    void *to = r->fixture->in[0][SPC__REAL].data;
    void *canonical = r->fixture->weights[SPC__REAL].data;

    for (size_t i = 0; i < most; i++)
        numbers[i] = large_number((int64_t)i);
    assert_ok(spc_memory_upload(to, r->ctx, numbers, in),
              spc_ctx_error(r->ctx));
    assert_ok(spc_memory_upload(canonical, r->ctx, numbers, weights),
              spc_ctx_error(r->ctx));
    assert_ok(spc_memory_upload(r->fixture->scales[SPC__REAL].data, r->ctx,
                                &one, sizeof(one)),
              spc_ctx_error(r->ctx));
    assert_ok(spc_plan_pack(r->packed, r->plan, canonical, SPC_KRSC, NULL),
              spc_ctx_error(r->ctx));
    free(numbers);
}

/* The block is full, so inner rows have all offsets and sums up to 2.6e8. fp32
 * represents only one in 16 integers there. */
START_TEST(sums_are_exact_far_beyond_what_fp32_holds)
{
    const char *devices[] = {"sim", "cpu"};
    const char *device = suite_device != NULL ? suite_device : devices[_i];
    spc_relation relation;
    float *got;
    bool beyond = false;
    harness r;

    harness_open(&r, open_ctx(device, "", NULL),
                 "subm,cin=128,cout=8,k=5,dtype=i8,out=f32",
                 "gen:uniform,n=125,extent=5");
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_JIT),
              spc_ctx_error(r.ctx));
    harness_prepare(&r, SPC_KRSC);
    fill_large(&r);
    harness_poison(&r);
    assert_ok(spc_plan_execute(r.plan, r.map, &r.buffers, NULL),
              spc_ctx_error(r.ctx));
    assert_ok(spc_ctx_synchronize(r.ctx), spc_ctx_error(r.ctx));
    assert_ok(spc__fixture_fetch(r.fixture), spc_ctx_error(r.ctx));
    assert_ok(spc_oracle_relation(&relation, &r.conv, r.scene, 2, &error),
              error.text);
    got = r.fixture->host;
    for (int64_t row = 0; row < relation.rows_out; row++)
        for (int co = 0; co < LARGE_OUT; co++) {
            int64_t sum = large_sum(&relation, row, co);
            beyond |= (int64_t)(float)sum != sum;
            ck_assert_msg(got[row * LARGE_OUT + co] == (float)sum,
                          "%s: row %lld, channel %d is %.9g and must be %lld",
                          device, (long long)row, co,
                          (double)got[row * LARGE_OUT + co], (long long)sum);
        }
    ck_assert(beyond);
    spc_relation_release(&relation);
    harness_close(&r);
}
END_TEST

/* ---- templates ----------------------------------------------------------- */

static const char *pick(const char *const *from, int count, spc__random *random)
{
    return from[spc__random_below(random, (uint32_t)count)];
}
#define PICK(random, ...)                                                      \
    pick((const char *const[]){__VA_ARGS__},                                   \
         LENGTH(((const char *const[]){__VA_ARGS__})), random)

static void draw_layer(char *out, size_t bytes, spc__random *random)
{
    static const int channels[][2] = {{16, 24}, {5, 7},   {32, 32},
                                      {41, 81}, {20, 37}, {64, 10},
                                      {12, 16}, {36, 22}, {130, 33}};
    const int *c = channels[spc__random_below(random, LENGTH(channels))];

    snprintf(out, bytes, "%s,cin=%d,cout=%d,dtype=i8%s%s%s",
             PICK(random, "subm,k=3x3x1", "conv,k=2,stride=2,rule=floor",
                  "inverse,k=2,stride=2,rule=floor"),
             c[0], c[1],
             PICK(random, ",epilogue=scale+bias+relu+add", ",epilogue=scale",
                  ",epilogue=bias+add+relu", ",epilogue=scale+bias+silu",
                  ",epilogue=scale+add+leaky,slope=0.25", ""),
             PICK(random, "", "", ",out=f16", ",out=f32", ",out=bf16"),
             c[0] % 4 == 0
                 ? PICK(random, "", ",deterministic=1", ",in_pitch=77",
                        ",in_pitch=80,out_pitch=83", ",out_pitch=86")
                 : "");
}

START_TEST(every_template_is_right_on_layers_that_are_drawn)
{
    const char *devices[] = {"sim", "cpu"};
    const char *device = suite_device != NULL ? suite_device : devices[_i];
    spc_ctx *ctx = open_ctx(device, "", NULL);
    spc__random random;

    spc__random_init(&random, seed + (uint64_t)_i);
    for (int i = 0; i < layers_drawn; i++) {
        char layer[200];
        draw_layer(layer, sizeof(layer), &random);
        int taken = check_layer(ctx, layer, seed);
        printf("%s %s: %d templates\n", device, layer, taken);
        fflush(stdout);
        ck_assert_int_gt(taken, strcmp(device, "cpu") == 0 ? 0 : 1);
    }
    spc_ctx_free(ctx);
}
END_TEST

/* ---- code for GPUs that are not installed -------------------------------- */

static const char *const compiled[] = {
    "subm,cin=64,cout=64,dtype=i8,epilogue=scale+bias+relu+add",
    "subm,cin=5,cout=9,dtype=i8,epilogue=scale+bias+silu,out=f16",
    "subm,cin=256,cout=256,dtype=i8,epilogue=scale+bias+relu",
    "subm,cin=16,cout=32,dtype=i8,epilogue=scale+bias+silu+add",
    "subm,cin=64,cout=64,groups=4,dtype=i8,epilogue=scale+add,out=f32",
    "subm,cin=20,cout=41,dtype=f16,epilogue=scale+bias+relu+add,out=i8",
};

/* Lists templates that accept some of the layers on some of the GPUs. */
static const char *const others[] = {"os_warp", "os_group", "os_wgmma"};

START_TEST(defaults_compile_without_spills_for_gpus_that_are_not_here)
{
    spc__library *library;
    spc_conv conv;

    if (!suite_takes(_i))
        return;
    const char *layer = compiled[_i % LENGTH(compiled)];
    const char *gpu = template_gpus[_i / LENGTH(compiled)];
    assert_ok(spc_conv_parse(&conv, layer, &error), error.text);
    assert_ok(spc__library_open(&library, NULL, NULL, &error), error.text);
    ck_assert(compile_default(library, spc__library_find(library, "os_mma"),
                              &conv, gpu, layer));
    ck_assert(compile_default(library, spc__library_find(library, "os_generic"),
                              &conv, gpu, layer));
    for (int i = 0; i < LENGTH(others); i++)
        compile_default(library, spc__library_find(library, others[i]), &conv,
                        gpu, layer);
    spc__library_close(library);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static void add_parts(Suite *suite)
{
    TCase *words = tcase_create("words");
    TCase *faults = tcase_create("faults");

    tcase_add_loop_test(words, a_layer_is_written_and_read_back, 0,
                        LENGTH(written));
    tcase_add_loop_test(words, arrays_have_as_many_bytes_as_their_numbers, 0,
                        LENGTH(arrays));
    tcase_add_test(words, scales_that_are_missing_are_named);
    tcase_add_test(words, rows_of_whole_numbers_are_not_merged);
    tcase_add_loop_test(words, the_oracle_finishes_sums_by_the_definition, 0,
                        LENGTH(finished));
    tcase_add_test(words, draws_saturate_and_have_ties);
    suite_add_tcase(suite, words);
    tcase_set_timeout(faults, 120);
    tcase_add_test(faults, the_gate_finds_every_fault_of_whole_numbers);
    suite_add_tcase(suite, faults);
}

static void add_code(Suite *suite)
{
    TCase *code = tcase_create("code");

    suite_sample(LENGTH(compiled) * LENGTH(template_gpus) / 3);
    tcase_set_timeout(code, 600);
    tcase_add_loop_test(
        code, defaults_compile_without_spills_for_gpus_that_are_not_here, 0,
        LENGTH(compiled) * LENGTH(template_gpus));
    suite_add_tcase(suite, code);
}

static void add_templates(Suite *suite)
{
    TCase *templates = tcase_create("templates");
    int devices = suite_device != NULL ? 1 : 2;

    tcase_set_timeout(templates, 3000);
    tcase_add_loop_test(templates, sums_are_exact_far_beyond_what_fp32_holds, 0,
                        devices);
    tcase_add_loop_test(templates,
                        every_template_is_right_on_layers_that_are_drawn, 0,
                        devices);
    suite_add_tcase(suite, templates);
}

int main(int argc, char **argv)
{
    bool is_code = suite_is_part(argc, argv, "nvrtc");
    int status = is_code ? 0 : suite_open(argc, argv);
    if (status != 0)
        return status;
    if (is_code && !has_nvrtc(&error))
        return suite_skip(error.text);
    seed = suite_seed(argc > 2 ? argv[2] : NULL);
    if (argc > 3)
        layers_drawn = atoi(argv[3]);
    else if (suite_is_gpu()) /* one process runs all templates */
        layers_drawn = 12;
    Suite *suite = suite_create("int8");
    if (is_code)
        add_code(suite);
    else
        add_templates(suite);
    if (argc == 1)
        add_parts(suite);
    return run_suite(suite);
}
