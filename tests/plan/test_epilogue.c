/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_epilogue.c - epilogues, output types, slices and bf16. Tests their text
 * form and keys, the functions of the host, and every template's default on
 * layers sampled by a seed.
 *
 *     test_epilogue [sim|cpu|cuda|nvrtc [SEED [LAYERS]]]
 *
 * "nvrtc" checks that defaults compile for GPUs that are not installed, without
 * spills.
 *
 * Each run samples other layers. The seed is printed; pass it to repeat a run.
 */
#include "base/random.h"
#include "context/ctx.h"
#include "context/problem_key.h"
#include "harness/layer_harness.h"
#include "harness/nvrtc_harness.h"
#include "harness/suite.h"
#include "harness/template_harness.h"
#include "lab/gate/gate.h"
#include "operators/conv.h"
#include "operators/epilogue.h"
#include "plan/plan.h"
#include "spc/tune.h"
#include "templates/shared/spc_host_math.h"

#include <math.h>
#include <stdio.h>

static spc_error error;

/* ---- words --------------------------------------------------------------- */

static const struct {
    const char *text, *canonical; /* NULL: the same as `text` */
} written[] = {
    {"subm,cin=8,cout=8,k=3,dtype=bf16", NULL},
    {"subm,cin=8,cout=8,k=3,dtype=f16,bias=1", NULL},
    {"subm,cin=8,cout=8,epilogue=bias",
     "subm,cin=8,cout=8,k=3,dtype=f16,bias=1"},
    {"subm,cin=8,cout=8,k=3,dtype=f16,epilogue=scale+bias+relu+add", NULL},
    {"subm,cin=8,cout=8,k=3,dtype=f16,epilogue=scale+add+silu", NULL},
    {"subm,cin=8,cout=8,k=3,dtype=f16,epilogue=add", NULL},
    {"subm,cin=8,cout=8,k=3,dtype=f16,epilogue=scale", NULL},
    {"subm,cin=8,cout=8,k=3,dtype=f16,epilogue=leaky,slope=0.25", NULL},
    {"subm,cin=8,cout=8,k=3,dtype=f16,epilogue=bias+elu,slope=2", NULL},
    {"subm,cin=8,cout=8,epilogue=elu,slope=1",
     "subm,cin=8,cout=8,k=3,dtype=f16,epilogue=elu"},
    {"subm,cin=8,cout=8,k=3,dtype=f32,out=f16", NULL},
    {"subm,cin=8,cout=8,k=3,dtype=tf32,out=f32",
     "subm,cin=8,cout=8,k=3,dtype=tf32"},
    {"subm,cin=8,cout=6,k=3,dtype=f16,epilogue=gelu+add,in_pitch=24,"
     "out_pitch=16,add_pitch=8,deterministic=1",
     "subm,cin=8,cout=6,k=3,dtype=f16,epilogue=gelu+add,in_pitch=24,"
     "out_pitch=16,add_pitch=8,deterministic=1"},
    {"subm,cin=8,cout=6,in_pitch=8,out_pitch=6",
     "subm,cin=8,cout=6,k=3,dtype=f16"},
};

START_TEST(a_layer_is_written_and_read_back)
{
    const char *want = written[_i].canonical != NULL ? written[_i].canonical
                                                     : written[_i].text;
    spc__attrs attrs = {0}, again = {0};
    char text[320], back[320];
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, written[_i].text, &error), error.text);
    spc_conv_format(text, sizeof(text), &conv);
    ck_assert_str_eq(text, want);
    spc__conv_attrs(&attrs, &conv);
    ck_assert(spc__conv_from_attrs(&conv, &attrs));
    spc_conv_format(back, sizeof(back), &conv);
    ck_assert_str_eq(back, want);
    spc__conv_attrs(&again, &conv);
    ck_assert(spc__attrs_equal(&attrs, &again));
}
END_TEST

static const struct {
    const char *words, *says;
} refused[] = {
    {"epilogue=relu+scale", "unexpected 'scale'; expected scale and bias first"},
    {"epilogue=bias+scale", "unexpected 'scale'"},
    {"epilogue=relu+silu", "unexpected 'silu'"},
    {"epilogue=add+relu+add", "unexpected 'add'"},
    {"epilogue=tanh", "unexpected 'tanh'"},
    {"epilogue=none", "unexpected 'none'"},
    {"epilogue=scale+", "unexpected ''"},
    {"epilogue", "'epilogue' needs a value, as in epilogue=scale+bias+relu"},
    {"epilogue=relu,bias=1", "'bias' and 'epilogue' are both given"},
    {"slope=0.5", "slope=0.5 is for the activations leaky and elu"},
    {"epilogue=leaky,slope=-1", "slope=-1: expected a number above 0"},
    {"epilogue=leaky,slope=nan", "slope=nan: expected a number above 0"},
    {"out=f64",
     "unknown out 'f64': did you mean 'f16'? (f16, bf16, f32, i8)"},
    {"out=own", "unknown out 'own' (f16, bf16, f32, i8)"},
    {"in_pitch=7", "in_pitch=7: expected 8 (the channels) to 1048576 elements"},
    {"out_pitch=0", "out_pitch=0: expected 1 to 1048576 elements"},
    {"add_pitch=16", "add_pitch=16 needs a residual, as in epilogue=add"},
};

START_TEST(what_is_no_epilogue_is_said_in_a_sentence)
{
    char text[160];
    spc_conv conv;

    snprintf(text, sizeof(text), "subm,cin=8,cout=8,%s", refused[_i].words);
    ck_assert_int_eq(spc_conv_parse(&conv, text, &error), SPC_EINVAL);
    assert_says(error.text, refused[_i].says);
}
END_TEST

START_TEST(what_a_caller_fills_in_is_checked)
{
    spc_conv good = SPC_CONV_INIT;
    good.cin = good.cout = 8;
    spc_conv bad[] = {good, good, good, good, good};

    bad[0].activation = (spc_activation)7;
    bad[1].add = SPC_ADD_BEFORE;
    bad[2].out = (spc_out_type)5;
    bad[3].activation = SPC_ACT_ELU;
    bad[3].slope = NAN;
    bad[4].dtype = (spc_dtype)5;
    assert_ok(spc_conv_check(&good, &error), error.text);
    for (int i = 0; i < LENGTH(bad); i++)
        ck_assert_int_eq(spc_conv_check(&bad[i], &error), SPC_EINVAL);
}
END_TEST

/* Records have a layer's attributes as their key, so existing records are found
 * only if these stay the same. */
START_TEST(keys_without_an_epilogue_are_as_they_were)
{
    spc_ctx *ctx = open_ctx("cpu", "", NULL);
    spc__problem_key plain, other;
    spc__buf text = SPC__BUF_INIT;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, "subm,cin=8,cout=9,bias=1", &error),
              error.text);
    spc__problem_key_init(&plain, ctx, &conv, 100, 100, 0.3);
    spc__attrs_format(&text, &plain.layer);
    ck_assert_str_eq(spc__buf_text(&text),
                     "op=subm,cin=8,cout=9,kx=3,ky=3,kz=3,dx=1,dy=1,dz=1,"
                     "dtype=f16,bias=1,deterministic=0");
    /* An epilogue changes the key but not the family. */
    conv.activation = SPC_ACT_RELU;
    conv.out_pitch = 16;
    spc__problem_key_init(&other, ctx, &conv, 100, 100, 0.3);
    ck_assert(!spc__attrs_equal(&plain.layer, &other.layer));
    ck_assert(spc__attrs_equal(&plain.family, &other.family));
    conv.out = SPC_OUT_F32;
    spc__problem_key_init(&other, ctx, &conv, 100, 100, 0.3);
    ck_assert(!spc__attrs_equal(&plain.family, &other.family));
    spc__buf_release(&text);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- functions of the host ----------------------------------------------- */

/* Returns the distance in units of 2^-24 of the larger of `want` and
 * `least`. */
static double distance(float got, double want, double least)
{
    if ((float)want == got) /* includes zeros and infinities */
        return 0;
    if (isnan(got))
        return INFINITY;
    return fabs(got - want) / (fmax(fabs(want), least) * 0x1p-24);
}

START_TEST(functions_of_the_host_are_within_their_bounds)
{
    double exp_most = 0, expm1_most = 0, erf_most = 0;

    for (int i = -1000000; i <= 1000000; i++) {
        float v = (float)i * 1.1e-4f;
        float small = v * 1e-3f, erf_at = v * 0.05f;
        exp_most = fmax(exp_most, distance(spc_exp(v), exp(v), 0x1p-120));
        if (v < 88)
            expm1_most =
                fmax(expm1_most, distance(spc_expm1(v), expm1(v), 0x1p-120));
        expm1_most =
            fmax(expm1_most, distance(spc_expm1(small), expm1(small), 0));
        erf_most = fmax(erf_most, distance(spc_erf(erf_at), erf(erf_at), 1));
    }
    printf("in units of 2^-24: exp %.2f, expm1 %.2f, erf %.2f\n", exp_most,
           expm1_most, erf_most);
    ck_assert_double_le(exp_most, 4);
    ck_assert_double_le(expm1_most, 4);
    ck_assert_double_le(erf_most, 8);
}
END_TEST

START_TEST(what_is_no_number_or_infinite_stays_so)
{
    ck_assert(isnan(spc_exp(NAN)) && isnan(spc_expm1(NAN)));
    ck_assert(isnan(spc_erf(NAN)));
    ck_assert(isinf(spc_exp(INFINITY)) && spc_exp(-INFINITY) == 0);
    ck_assert(spc_expm1(-INFINITY) == -1);
    ck_assert(spc_erf(INFINITY) == 1 && spc_erf(-INFINITY) == -1);
    ck_assert(spc_exp(0) == 1 && spc_expm1(0) == 0);
}
END_TEST

/* ---- the oracle ---------------------------------------------------------- */

static const struct {
    const char *epilogue;
    double want[3]; /* for sums -2, 0 and 3, scale 2, bias 1, residual 0.5 */
} finished[] = {
    {"scale", {-4, 0, 6}},
    {"scale+bias", {-3, 1, 7}},
    {"relu", {0, 0, 3}},
    {"leaky", {-0.02, 0, 3}},
    {"scale+bias+relu+add", {0.5, 1.5, 7.5}},
    {"scale+bias+add+relu", {0, 1.5, 7.5}},
    {"add", {-1.5, 0.5, 3.5}},
    {"sigmoid", {0.11920292202, 0.5, 0.95257412682}},
    {"silu", {-0.23840584404, 0, 2.85772238047}},
    {"gelu", {-0.04550026390, 0, 2.99595030590}},
    {"elu", {-0.86466471676, 0, 3}},
    {"add+gelu", {-0.10021080191, 0.34573123063, 3.49918579822}},
};

START_TEST(the_oracle_finishes_sums_by_the_definition)
{
    const float scale[] = {2, 2, 2}, bias[] = {1, 1, 1};
    const float residual[] = {0.5f, 0.5f, 0.5f};
    double sums[] = {-2, 0, 3};
    char text[120];
    spc_conv conv;

    snprintf(text, sizeof(text), "subm,cin=1,cout=3,epilogue=%s",
             finished[_i].epilogue);
    assert_ok(spc_conv_parse(&conv, text, &error), error.text);
    spc_oracle_epilogue(sums, &conv, 1, scale, bias, residual);
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq_tol(sums[i], finished[_i].want[i], 1e-8);
}
END_TEST

/* ---- buffers ------------------------------------------------------------- */

/* The gate's expected value is rounded too, so the slack must cover every
 * result that the bounds of an epilogue allow. */
START_TEST(the_slack_has_room_for_the_rounding_of_both)
{
    enum { COUNT = 4000 };
    static float sums[COUNT], slack[COUNT], exact[COUNT], residual[COUNT];
    const spc__values values = {.residual = residual};
    spc__random random;
    spc_conv conv;
    int met = 0;

    assert_ok(spc_conv_parse(&conv,
                             "subm,cin=1,cout=1,dtype=f32,"
                             "epilogue=silu+add",
                             &error),
              error.text);
    spc__random_init(&random, 1);
    for (int i = 0; i < COUNT; i++) {
        sums[i] = exact[i] = (float)spc__random_below(&random, 40) - 20;
        residual[i] = (float)spc__random_below(&random, 9) - 4;
    }
    spc__finish_exact(exact, slack, &conv, COUNT, &values, 1);
    for (int i = 0; i < COUNT; i++) {
        spc__bounded right =
            spc__finish(&conv, (spc__bounded){sums[i], 0}, &values, 0, i);
        for (int up = 0; up < 2; up++) {
            float got = nextafterf(exact[i], up ? INFINITY : -INFINITY);
            if (fabs(got - right.value) > right.error)
                continue;
            met++;
            ck_assert_msg(fabs((double)got - exact[i]) <= slack[i],
                          "%.9g is right, but %.9g is held to within %.3g",
                          (double)got, (double)exact[i], (double)slack[i]);
        }
    }
    ck_assert_int_gt(met, COUNT / 4);
}
END_TEST

START_TEST(missing_and_misaligned_buffers_are_named)
{
    char base[64] __attribute__((aligned(16)));
    harness r;

    harness_open(&r, open_ctx("cpu", "", NULL),
                 "subm,cin=4,cout=4,dtype=f32,epilogue=scale+add",
                 "gen:uniform,n=20,extent=4");
    assert_ok(spc_plan_create(&r.plan, r.ctx, &r.conv, r.map, SPC_PLAN_JIT),
              spc_ctx_error(r.ctx));
    harness_prepare(&r, SPC_KRSC);
    spc_buffers bad = r.buffers;
    bad.scale = NULL;
    ck_assert_int_eq(spc_plan_execute(r.plan, r.map, &bad, NULL), SPC_EINVAL);
    assert_says(spc_ctx_error(r.ctx), "`scale` is NULL");
    bad = r.buffers;
    bad.residual = NULL;
    ck_assert_int_eq(spc_plan_execute(r.plan, r.map, &bad, NULL), SPC_EINVAL);
    assert_says(spc_ctx_error(r.ctx), "`residual` is NULL");
    bad.residual = base + 8;
    ck_assert_int_eq(spc_plan_execute(r.plan, r.map, &bad, NULL), SPC_EINVAL);
    assert_says(spc_ctx_error(r.ctx), "must be 16-byte aligned");
    assert_ok(spc_plan_execute(r.plan, r.map, &r.buffers, NULL),
              spc_ctx_error(r.ctx));
    harness_close(&r);
}
END_TEST

/* ---- kernels with a fault ------------------------------------------------ */

static void on_faulty(const spc_trial *trial, void *payload)
{
    int *seen = payload;
    bool right = strcmp(trial->config, "fault=none") == 0;

    ck_assert_msg(strcmp(trial->status, right ? "ok" : "wrong") == 0,
                  "%s: %s %s", trial->config, trial->status, trial->note);
    if (strcmp(trial->config, "fault=gap_written") == 0)
        assert_says(trial->note, "canary: something is written between");
    if (strcmp(trial->config, "fault=residual_written") == 0)
        assert_says(trial->note, "read-only: residual is written to");
    if (strcmp(trial->config, "fault=scale_written") == 0)
        assert_says(trial->note, "read-only: scale is written to");
    ++*seen;
}

/* Each kernel but the first has one fault. */
START_TEST(the_gate_finds_every_fault_of_an_epilogue)
{
    static const char *const layers[] = {
        "subm,cin=3,cout=6,k=3x3x1,dtype=f32,epilogue=scale+bias+silu+add,"
        "in_pitch=5,out_pitch=9,add_pitch=7",
        "subm,cin=3,cout=6,k=3x3x1,dtype=f32,epilogue=scale+bias+relu+add,"
        "in_pitch=5,out_pitch=9,add_pitch=7",
    };
    spc_ctx *ctx = open_ctx("cpu", "", suite_path("templates/epilogue"));
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    spc_scene *scene = NULL;
    spc_conv conv;
    int seen = 0;

    options.stage = SPC_STAGE_VERIFY;
    options.effort = SPC_EFFORT_EXHAUSTIVE;
    options.on_trial = on_faulty;
    options.payload = &seen;
    assert_ok(spc_conv_parse(&conv, layers[_i], &error), error.text);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=40,extent=5", &error),
              error.text);
    assert_ok(spc_tune(&report, ctx, &conv, (const spc_scene *const *)&scene, 1,
                       &options),
              spc_ctx_error(ctx));
    ck_assert_int_eq(seen, 16);
    ck_assert_int_eq(report.verified, 1);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- templates ----------------------------------------------------------- */

static uint64_t seed;
static int layers_drawn = 1;

static const char *pick(const char *const *from, int count, spc__random *random)
{
    return from[spc__random_below(random, (uint32_t)count)];
}
#define PICK(random, ...)                                                      \
    pick((const char *const[]){__VA_ARGS__},                                   \
         LENGTH(((const char *const[]){__VA_ARGS__})), random)

/* Gives some layers a pitch. Half of these have rows that are aligned as fast
 * kernels need it. */
static void draw_pitch(char *out, size_t bytes, const char *name, int channels,
                       spc__random *random)
{
    size_t length = strlen(out);
    int more = (int)spc__random_below(random, 20);

    if (more >= 10)
        return;
    snprintf(out + length, bytes - length, ",%s=%d", name,
             more < 5 ? (channels + 15) / 8 * 8 : channels + more);
}

static void draw_layer(char *out, size_t bytes, spc__random *random)
{
    static const int channels[][2] = {{16, 24}, {8, 16}, {32, 32}, {40, 72},
                                      {18, 20}, {5, 7},  {64, 8},  {12, 36}};
    const int *c = channels[spc__random_below(random, LENGTH(channels))];
    const char *list =
        PICK(random, "scale+", "bias+", "scale+bias+", "scale+bias+", "");
    const char *act = PICK(random, "relu", "leaky", "sigmoid", "silu", "gelu",
                           "elu", "relu", "scale");
    bool bare = strcmp(act, "scale") == 0; /* without an activation */
    bool adds = spc__random_below(random, 2) || bare;
    bool before = adds && !bare && spc__random_below(random, 2);

    snprintf(out, bytes, "%s,cin=%d,cout=%d,dtype=%s,epilogue=%s%s%s%s%s",
             PICK(random, "subm,k=3x3x1", "conv,k=2,stride=2,rule=floor",
                  "inverse,k=2,stride=2,rule=floor"),
             c[0], c[1], PICK(random, "f16", "bf16", "f32", "tf32"), list,
             before ? "add+" : "", bare ? "" : act,
             adds && !before && !bare ? "+" : "", adds && !before ? "add" : "");
    if (spc__random_below(random, 2))
        snprintf(out + strlen(out), bytes - strlen(out), ",out=%s",
                 PICK(random, "f16", "bf16", "f32", "i8"));
    if ((act[0] == 'l' || act[0] == 'e') && spc__random_below(random, 2))
        snprintf(out + strlen(out), bytes - strlen(out), ",slope=0.5");
    draw_pitch(out, bytes, "in_pitch", c[0], random);
    draw_pitch(out, bytes, "out_pitch", c[1], random);
    if (adds)
        draw_pitch(out, bytes, "add_pitch", c[1], random);
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
        ck_assert_int_gt(taken, 0); /* every layer was tested */
    }
    spc_ctx_free(ctx);
}
END_TEST

/* ---- code for GPUs that are not here ------------------------------------- */

/* Samples a layer with common numbers of channels. */
static void draw_used_layer(spc_conv *conv, char *text, size_t bytes,
                            spc__random *random)
{
    static const int channels[] = {16, 20, 32, 64, 96, 128, 256};

    draw_layer(text, bytes, random);
    assert_ok(spc_conv_parse(conv, text, &error), error.text);
    conv->in_pitch = conv->out_pitch = conv->add_pitch = 0;
    conv->cin = channels[spc__random_below(random, LENGTH(channels))];
    conv->cout = channels[spc__random_below(random, LENGTH(channels))];
    spc_conv_format(text, bytes, conv);
}

/* Compiles one template for each layer, for one GPU. The seed selects both. */
START_TEST(defaults_compile_without_spills_for_gpus_that_are_not_here)
{
    spc__library *library;
    spc__random random;
    char layer[200];
    spc_conv conv;

    spc__random_init(&random, seed + (uint64_t)_i);
    draw_used_layer(&conv, layer, sizeof(layer), &random);
    const char *gpu =
        template_gpus[spc__random_below(&random, LENGTH(template_gpus))];
    assert_ok(spc__library_open(&library, NULL, NULL, &error), error.text);
    /* The last template accepts every layer. */
    const char *names[] = {"os_warp", "os_group", "os_mma", "os_wgmma",
                           "os_generic"};
    int first = (int)spc__random_below(&random, 4), i = 0;
    while (i <= 4 &&
           !compile_default(
               library,
               spc__library_find(library, names[i < 4 ? (first + i) % 4 : 4]),
               &conv, gpu, layer))
        i++;
    ck_assert_int_le(i, 4); /* every layer was compiled */
    spc__library_close(library);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static void add_parts(Suite *suite)
{
    TCase *words = tcase_create("words");
    TCase *values = tcase_create("values");
    TCase *faults = tcase_create("faults");

    tcase_add_loop_test(words, a_layer_is_written_and_read_back, 0,
                        LENGTH(written));
    tcase_add_loop_test(words, what_is_no_epilogue_is_said_in_a_sentence, 0,
                        LENGTH(refused));
    tcase_add_test(words, what_a_caller_fills_in_is_checked);
    tcase_add_test(words, keys_without_an_epilogue_are_as_they_were);
    suite_add_tcase(suite, words);

    tcase_set_timeout(values, 60);
    tcase_add_test(values, functions_of_the_host_are_within_their_bounds);
    tcase_add_test(values, what_is_no_number_or_infinite_stays_so);
    tcase_add_test(values, the_slack_has_room_for_the_rounding_of_both);
    tcase_add_loop_test(values, the_oracle_finishes_sums_by_the_definition, 0,
                        LENGTH(finished));
    tcase_add_test(values, missing_and_misaligned_buffers_are_named);
    suite_add_tcase(suite, values);

    tcase_set_timeout(faults, 120);
    tcase_add_loop_test(faults, the_gate_finds_every_fault_of_an_epilogue, 0,
                        2);
    suite_add_tcase(suite, faults);
}

static void add_code(Suite *suite)
{
    TCase *code = tcase_create("code");

    tcase_set_timeout(code, 600);
    tcase_add_loop_test(
        code, defaults_compile_without_spills_for_gpus_that_are_not_here, 0,
        layers_drawn);
    suite_add_tcase(suite, code);
}

static void add_templates(Suite *suite)
{
    TCase *templates = tcase_create("templates");

    tcase_set_timeout(templates, 3000);
    tcase_add_loop_test(templates,
                        every_template_is_right_on_layers_that_are_drawn, 0,
                        suite_device != NULL ? 1 : 2);
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
    Suite *suite = suite_create("epilogue");
    if (is_code)
        add_code(suite);
    else
        add_templates(suite);
    if (argc == 1)
        add_parts(suite);
    return run_suite(suite);
}
