/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gradient_layout.c - gradients of weights as KRSC. Each template of role
 * "wgrad" must give the bits of the gradient as RSCK, which is transposed here.
 *
 *     test_gradient_layout [sim|cpu|cuda]
 */
#include "base/dtype.h"
#include "base/random.h"
#include "compiler/template.h"
#include "operators/conv.h"
#include "operators/operands.h"
#include "operators/pass.h"
#include "plan/plan_parts.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"

#include <stdlib.h>

static spc_error error;

static const struct {
    const char *template_name, *layer;
} cases[] = {
    {"wgrad_mma", "subm,cin=24,cout=40,k=3,dtype=f16,bias=1"},
    {"wgrad_mma", "subm,cin=12,cout=20,k=3,dtype=tf32,accumulate=1"},
    {"wgrad_wgmma", "subm,cin=64,cout=72,k=3,dtype=bf16,out=f32"},
    {"wgrad_tiles", "subm,cin=16,cout=32,k=3,dtype=f16"},
    {"wgrad_rows", "subm,cin=16,cout=32,k=3,dtype=bf16,accumulate=1"},
    {"wgrad_channels", "subm,cin=40,cout=40,groups=40,k=3,dtype=f16,bias=1"},
    {"wgrad_channels", "subm,cin=16,cout=32,groups=8,k=2,dtype=f32"},
    {"wgrad_generic", "subm,cin=3,cout=5,k=4x1x2,dtype=f32,bias=1"},
    {"wgrad_generic",
     "conv,cin=12,cout=8,groups=4,k=2,stride=2,rule=floor,dtype=bf16,"
     "accumulate=1,bias=1"},
    {"wgrad_generic", "points,cin=9,cout=37,k=2,radius=0.0025,dtype=f16"},
    {"wgrad_cpu", "subm,cin=3,cout=37,k=3,dtype=f32,bias=1,accumulate=1"},
    {"wgrad_cpu", "subm,cin=34,cout=34,groups=34,k=3,dtype=f16,bias=1"},
    {"wgrad_cpu", "subm,cin=40,cout=33,k=1,dtype=bf16,accumulate=1"},
    {"wgrad_cpu", "inverse,cin=8,cout=12,groups=2,k=2,stride=2,rule=floor,"
                  "dtype=tf32"},
    {"wgrad_cpu", "points,cin=8,cout=12,k=3,radius=0.0025,dtype=f32"},
};

/* ---- a plan of a template ------------------------------------------------ */

typedef struct trial {
    spc_ctx *ctx;
    spc_conv conv;
    spc_scene *scene;
    spc_map *map;
    spc__operand out; /* elements as RSCK, then the bias */
    int64_t elements;
    size_t element_bytes;
} trial;

static const char *device_for(const char *template_name)
{
    if (suite_device != NULL)
        return suite_device;
    return strcmp(template_name, "wgrad_cpu") == 0 ? "cpu" : "sim";
}

static void open_trial(trial *t, const char *device, const char *text)
{
    char words[200];

    snprintf(words, sizeof(words), "%s,pass=wgrad", text);
    assert_ok(spc_conv_parse(&t->conv, words, &error), error.text);
    t->ctx = open_ctx(device, suite_database(), NULL);
    assert_ok(spc_scene_load(&t->scene, "gen:uniform,n=90,extent=6,seed=3",
                             &error),
              error.text);
    assert_ok(spc_map_create_from_scene(&t->map, t->ctx, &t->conv, t->scene),
              spc_ctx_error(t->ctx));
    t->out = spc__operand_of(&t->conv, SPC_OPERAND_OUT, 0);
    t->element_bytes = spc__dtype_of(t->out.dtype)->bytes;
    t->elements = t->out.rows * t->out.columns;
}

static void close_trial(trial *t)
{
    spc_map_free(t->map);
    spc_scene_free(t->scene);
    spc_ctx_free(t->ctx);
}

/* Returns the template's default configuration, or NULL if the device cannot
 * run the template. */
static spc_plan *plan_of(trial *t, const char *template_name)
{
    spc__library *library = NULL;
    spc__attrs problem = {0}, target = {0};
    spc__code code;
    spc_plan *plan = NULL;

    assert_ok(spc__ctx_library(&library, t->ctx), spc_ctx_error(t->ctx));
    spc__template *tpl = spc__library_find(library, template_name);
    ck_assert_msg(tpl != NULL, "there is no template %s", template_name);
    spc__conv_attrs(&problem, &t->conv);
    spc__device_ops_of(t->ctx->device)->target(t->ctx->device, &target);
    if (spc__template_accepts(tpl, &problem, &target, &error) != SPC_OK)
        return NULL;
    assert_ok(spc__ctx_code(&code, t->ctx, template_name, &problem, NULL,
                            SPC_PLAN_JIT),
              spc_ctx_error(t->ctx));
    assert_ok(spc__plan_create_from(&plan, t->ctx, &t->conv, &code,
                                    template_name, ""),
              spc_ctx_error(t->ctx));
    assert_ok(spc__plan_prepare(plan, t->map), spc_ctx_error(t->ctx));
    return plan;
}

/* ---- runs ---------------------------------------------------------------- */

/* Returns device memory with these bytes, and 16 more that must stay 0xff. */
static char *upload(const trial *t, const void *from, size_t bytes)
{
    char *out = NULL, *host = malloc(bytes + 16);

    memset(host, 0xff, bytes + 16);
    if (from != NULL)
        memcpy(host, from, bytes);
    assert_ok(spc_memory_alloc((void **)&out, t->ctx, bytes + 16),
              spc_ctx_error(t->ctx));
    assert_ok(spc_memory_upload(out, t->ctx, host, bytes + 16),
              spc_ctx_error(t->ctx));
    free(host);
    return out;
}

static char *download(const trial *t, const char *from, size_t bytes)
{
    char *host = malloc(bytes + 16);

    assert_ok(spc_ctx_synchronize(t->ctx), spc_ctx_error(t->ctx));
    assert_ok(spc_memory_download(host, t->ctx, from, bytes + 16),
              spc_ctx_error(t->ctx));
    for (int i = 0; i < 16; i++)
        ck_assert_msg(host[bytes + (size_t)i] == (char)0xff,
                      "byte %d after the gradient was written", i);
    return host;
}

static char *draw(spc_dtype dtype, int64_t count, uint64_t seed)
{
    const spc__dtype *type = spc__dtype_of(dtype);
    float *values = malloc((size_t)count * sizeof(*values) + 4);
    char *out = malloc((size_t)count * type->bytes + 4);
    spc__random random;

    spc__random_init(&random, seed);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(2 * spc__random_unit(&random) - 1);
    type->encode(out, values, (size_t)count);
    free(values);
    return out;
}

/* Returns the gradient. If the layer accumulates, it is added to `before`, in
 * place or from another array. */
static char *run_plan(const trial *t, const spc_plan *plan, const char *before,
                      bool in_place)
{
    size_t bytes = (size_t)t->elements * t->element_bytes;
    int64_t ins = spc_map_rows_in(t->map), outs = spc_map_rows_out(t->map);
    char *x = draw(t->conv.dtype, ins * t->conv.cin, 5);
    char *dy = draw(t->conv.dtype, outs * t->conv.cout, 6);
    char *in =
        upload(t, x, spc_conv_operand_bytes(&t->conv, SPC_OPERAND_IN, ins));
    char *grad = upload(
        t, dy, spc_conv_operand_bytes(&t->conv, SPC_OPERAND_RESIDUAL, outs));
    char *out = upload(t, in_place ? before : NULL, bytes);
    char *other = upload(t, before, bytes);
    char *work = upload(t, NULL, spc_plan_workspace_bytes(plan, t->map));
    spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                           .in = in,
                           .out = out,
                           .grad = grad,
                           .weights = in_place ? out : other,
                           .workspace = work};

    assert_ok(spc_plan_execute(plan, t->map, &buffers, NULL),
              spc_ctx_error(t->ctx));
    free(download(t, work, spc_plan_workspace_bytes(plan, t->map)));
    char *result = download(t, out, bytes);
    void *const memory[] = {in, grad, out, other, work};
    for (int i = 0; i < LENGTH(memory); i++)
        spc_memory_free(t->ctx, memory[i]);
    free(x);
    free(dy);
    return result;
}

/* Transposes RSCK to KRSC by the definitions of both. */
static char *transposed(const trial *t, const char *rsck)
{
    int64_t in = spc__conv_group_in(&t->conv), cout = t->conv.cout;
    int64_t offsets = spc__conv_offsets(&t->conv);
    size_t bytes = t->element_bytes;
    char *krsc = malloc((size_t)t->elements * bytes);

    memcpy(krsc, rsck, (size_t)t->elements * bytes); /* copies the bias */
    for (int64_t co = 0; co < cout; co++)
        for (int64_t k = 0; k < offsets; k++)
            for (int64_t ci = 0; ci < in; ci++)
                memcpy(krsc + (size_t)((co * offsets + k) * in + ci) * bytes,
                       rsck + (size_t)((k * in + ci) * cout + co) * bytes,
                       bytes);
    return krsc;
}

static void compare(const trial *t, const char *got, const char *want,
                    const char *text)
{
    for (int64_t i = 0; i < t->elements; i++) {
        size_t at = (size_t)i * t->element_bytes;
        ck_assert_msg(memcmp(got + at, want + at, t->element_bytes) == 0,
                      "%s: element %lld of %lld differs", text, (long long)i,
                      (long long)t->elements);
    }
}

static void check_layouts(const trial *t, spc_plan *plan, const char *text)
{
    size_t work = spc_plan_workspace_bytes(plan, t->map);
    char *rsck_before = draw(t->out.dtype, t->elements, 7);
    char *krsc_before = transposed(t, rsck_before);
    char *rsck = run_plan(t, plan, rsck_before, false);
    char *want = transposed(t, rsck);

    assert_ok(spc__plan_set_krsc(plan, SPC_PLAN_JIT), spc_ctx_error(t->ctx));
    ck_assert_uint_eq(spc_plan_workspace_bytes(plan, t->map),
                      (work + 255) / 256 * 256 +
                          (size_t)t->elements * t->element_bytes);
    for (int in_place = 0; in_place <= t->conv.accumulate; in_place++) {
        char *krsc = run_plan(t, plan, krsc_before, in_place);
        compare(t, krsc, want, text);
        free(krsc);
    }
    free(rsck_before);
    free(krsc_before);
    free(rsck);
    free(want);
}

START_TEST(krsc_is_rsck_transposed)
{
    const char *name = cases[_i].template_name, *device = device_for(name);
    bool is_cpu = strcmp(name, "wgrad_cpu") == 0;
    trial t;

    if (is_cpu != (strcmp(device, "cpu") == 0))
        return;
    open_trial(&t, device, cases[_i].layer);
    spc_plan *plan = plan_of(&t, name);
    if (plan != NULL)
        check_layouts(&t, plan, cases[_i].layer);
    else
        suite_note_skip(error.text);
    spc_plan_free(plan);
    close_trial(&t);
}
END_TEST

/* ---- all templates ------------------------------------------------------- */

static bool is_tested(const char *template_name)
{
    for (int i = 0; i < LENGTH(cases); i++)
        if (strcmp(cases[i].template_name, template_name) == 0)
            return true;
    return false;
}

START_TEST(each_template_has_a_case)
{
    spc__library *library = NULL;

    assert_ok(spc__library_open(&library, NULL, NULL, &error), error.text);
    for (int i = 0; i < spc__library_count(library); i++) {
        spc__template *tpl = spc__library_at(library, i);
        if (strcmp(spc__template_role(tpl), "wgrad") == 0)
            ck_assert_msg(is_tested(spc__template_name(tpl)),
                          "no case has the template %s",
                          spc__template_name(tpl));
    }
    spc__library_close(library);
}
END_TEST

/* ---- the plan's flag ----------------------------------------------------- */

static const char plain[] = "subm,cin=8,cout=12,k=3,dtype=f32";

/* Acts like training code: sets one flag, and uses buffers with the parameter's
 * shape. */
START_TEST(a_flag_of_the_plan_asks_for_it)
{
    trial t;
    spc_plan *rsck = NULL, *krsc = NULL;

    open_trial(&t, _i == 0 ? device_for("") : device_for("wgrad_cpu"), plain);
    assert_ok(
        spc_plan_create(&rsck, t.ctx, &t.conv, t.map, SPC_PLAN_ESTIMATE),
        spc_ctx_error(t.ctx));
    assert_ok(spc_plan_create(&krsc, t.ctx, &t.conv, t.map,
                              SPC_PLAN_ESTIMATE | SPC_PLAN_KRSC),
              spc_ctx_error(t.ctx));
    ck_assert_str_eq(spc_plan_template(rsck), spc_plan_template(krsc));
    ck_assert_str_eq(spc_plan_config(rsck), spc_plan_config(krsc));
    char *a = run_plan(&t, rsck, NULL, false),
         *b = run_plan(&t, krsc, NULL, false);
    char *want = transposed(&t, a);
    compare(&t, b, want, plain);
    free(a);
    free(b);
    free(want);
    spc_plan_free(rsck);
    spc_plan_free(krsc);
    close_trial(&t);
}
END_TEST

/* A plan that needs no workspace otherwise needs one for the result as RSCK. */
START_TEST(the_workspace_is_checked)
{
    trial t;
    spc_plan *plan = NULL;

    open_trial(&t, device_for("wgrad_cpu"), plain);
    assert_ok(spc_plan_create(&plan, t.ctx, &t.conv, t.map,
                              SPC_PLAN_ESTIMATE | SPC_PLAN_KRSC),
              spc_ctx_error(t.ctx));
    char *memory = upload(&t, NULL, 1 << 20);
    spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                           .in = memory,
                           .out = memory + (1 << 19),
                           .grad = memory};
    ck_assert_int_eq(spc_plan_execute(plan, t.map, &buffers, NULL), SPC_EINVAL);
    assert_says(spc_ctx_error(t.ctx), "`workspace` is NULL");
    buffers.workspace = buffers.out;
    ck_assert_int_eq(spc_plan_execute(plan, t.map, &buffers, NULL), SPC_EINVAL);
    assert_says(spc_ctx_error(t.ctx), "`out` and `workspace` overlap");
    spc_memory_free(t.ctx, memory);
    spc_plan_free(plan);
    close_trial(&t);
}
END_TEST

static const struct {
    spc_pass pass;
    unsigned flags;
    spc_status status;
    const char *says;
} refused[] = {
    {SPC_FORWARD, SPC_PLAN_KRSC, SPC_EINVAL, "=forward: expected pass=wgrad"},
    {SPC_DGRAD, SPC_PLAN_KRSC, SPC_EINVAL, "pass=dgrad: expected pass=wgrad"},
    {SPC_WGRAD, SPC_PLAN_KRSC | SPC_PLAN_BACKGROUND, SPC_ESTATE,
     "call spc_background_start first"},
    {SPC_WGRAD, SPC_PLAN_KRSC | SPC_PLAN_BACKGROUND | SPC_PLAN_ESTIMATE,
     SPC_EINVAL, "SPC_PLAN_BACKGROUND cannot be combined"},
    {SPC_WGRAD, SPC_PLAN_KRSC << 1, SPC_EINVAL, "unknown plan flags"},
};

START_TEST(wrong_flags_have_their_sentence)
{
    spc_plan *plan = (spc_plan *)&plan;
    spc_conv conv;
    trial t;

    open_trial(&t, device_for("wgrad_cpu"), plain);
    assert_ok(spc_conv_parse(&conv, plain, &error), error.text);
    assert_ok(spc_conv_pass(&conv, &conv, refused[_i].pass, &error),
              error.text);
    ck_assert_int_eq(
        spc_plan_create(&plan, t.ctx, &conv, t.map, refused[_i].flags),
        refused[_i].status);
    ck_assert_ptr_null(plan);
    assert_says(spc_ctx_error(t.ctx), refused[_i].says);
    close_trial(&t);
}
END_TEST

static void add(Suite *suite, const char *name, const TTest *test, int count)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test, 0, count);
    suite_add_tcase(suite, tcase);
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    Suite *suite = suite_create("gradient_layout");

    add(suite, "transposed", krsc_is_rsck_transposed, LENGTH(cases));
    add(suite, "templates", each_template_has_a_case, 1);
    add(suite, "flag", a_flag_of_the_plan_asks_for_it, 2);
    add(suite, "workspace", the_workspace_is_checked, 1);
    add(suite, "refused", wrong_flags_have_their_sentence, LENGTH(refused));
    return run_suite(suite);
}
