/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_backward.c - the passes of a training step. Compares them with each
 * other instead of the oracle, and tests their text form and accumulated
 * gradients.
 *
 *     test_backward [sim|cpu|cuda]
 */
#include "base/dtype.h"
#include "base/random.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"
#include "operators/offset_store.h"

#include <stdlib.h>

static const char *const devices[] = {"cpu", "sim"};
enum { DEVICES = 2, VOXELS = 60, CASES = 100, GPU_CASES = 16 };

/* Returns how many cases run: fewer on a GPU, unless all were requested. */
static int cases(void)
{
    return suite_is_gpu() && !suite_wants_all() ? GPU_CASES : CASES;
}

static spc_error error;

/* ---- layers -------------------------------------------------------------- */

static int below(spc__random *random, int count)
{
    return (int)spc__random_below(random, (uint32_t)count);
}

/* Each operator with its possible rules. */
static const struct {
    spc_operator op;
    spc_rule rule;
} kinds[] = {
    {SPC_SUBM, SPC_RULE_SUBM},        {SPC_CONV, SPC_RULE_FLOOR},
    {SPC_CONV, SPC_RULE_FOOTPRINT},   {SPC_CONV, SPC_RULE_GIVEN},
    {SPC_INVERSE, SPC_RULE_FLOOR},    {SPC_INVERSE, SPC_RULE_FOOTPRINT},
    {SPC_TRANSPOSED, SPC_RULE_GIVEN}, {SPC_GENERATIVE, SPC_RULE_GENERATIVE},
    {SPC_POINTS, SPC_RULE_RADIUS},    {SPC_INVERSE, SPC_RULE_RADIUS},
};

static void draw_axis(spc_geometry *g, int axis, spc__random *random)
{
    g->kernel[axis] = 1 + below(random, axis == 0 ? 4 : 3);
    g->dilation[axis] = 1 + below(random, 4) / 3;
    if (g->rule != SPC_RULE_SUBM)
        g->stride[axis] = 1 + below(random, 2);
    if (g->rule == SPC_RULE_FOOTPRINT)
        g->padding[axis] = below(random, g->kernel[axis]);
    else if (below(random, 4) == 0)
        g->origin[axis] = below(random, 4) - 2;
    if (g->rule == SPC_RULE_GENERATIVE && below(random, 2))
        g->shape[axis] = 5 + below(random, 8);
}

/* Coordinates of points are multiples of 1/1024, and a radius is one to three
 * of these units. */
static void draw_cells(spc_geometry *g, spc__random *random)
{
    for (int axis = 0; axis < 3; axis++)
        g->kernel[axis] = 1 + below(random, 5);
    g->radius = (float)(9 + below(random, 16)) / 8192;
    g->nearest = below(random, 3) == 0 ? 1 + below(random, 5) : 0;
    g->voxel = below(random, 3) == 0 ? 2.0f / 1024 : 0;
}

/* Adds a single offset for each input channel, or an asymmetric list of
 * offsets. */
static void draw_list(spc_geometry *g, spc__random *random)
{
    int16_t list[5][3];

    g->offset_count = 1 + below(random, 5);
    for (int k = 0; k < g->offset_count; k++) {
        list[k][0] = (int16_t)(k - 2);
        list[k][1] = (int16_t)(below(random, 3) - 1);
        list[k][2] = (int16_t)below(random, 2);
    }
    g->offsets = list[0];
    ck_assert_int_eq(spc__geometry_keep(g, NULL), SPC_OK);
}

/* These types hold sums of small integers exactly. */
static spc_conv draw_layer(spc__random *random)
{
    spc_conv conv = SPC_CONV_INIT;
    int kind = below(random, LENGTH(kinds));

    conv.op = kinds[kind].op;
    conv.geometry.rule = kinds[kind].rule;
    conv.groups = below(random, 3) == 0 ? 1 + below(random, 4) : 1;
    conv.cin = conv.groups * (1 + below(random, 9));
    conv.cout = conv.groups * (1 + below(random, 9));
    conv.dtype = below(random, 2) ? SPC_F32 : SPC_TF32;
    if (conv.op == SPC_SUBM && below(random, 3) == 0)
        draw_list(&conv.geometry, random);
    else if (conv.geometry.rule == SPC_RULE_RADIUS)
        draw_cells(&conv.geometry, random);
    else
        for (int axis = 0; axis < 3; axis++)
            draw_axis(&conv.geometry, axis, random);
    return conv;
}

/* Samples cells of two batch elements, each once. */
static spc_scene *draw_scene(spc__random *random)
{
    int32_t at[VOXELS][4];
    spc_scene *scene = NULL;

    for (int i = 0, cell = below(random, 3); i < VOXELS;
         i++, cell += 1 + below(random, 6)) {
        at[i][0] = cell / 216;
        at[i][1] = cell / 36 % 6 - 3;
        at[i][2] = cell / 6 % 6 - 3;
        at[i][3] = cell % 6 - 3;
    }
    assert_ok(spc_scene_create(&scene, &at[0][0], VOXELS, "drawn", &error),
              error.text);
    return scene;
}

static float *draw(int64_t count, spc__random *random)
{
    float *out = malloc((size_t)count * sizeof(*out) + 4);

    for (int64_t i = 0; i < count; i++)
        out[i] = (float)below(random, 7) - 3;
    return out;
}

/* ---- a pass -------------------------------------------------------------- */

/* Returns this many bytes of device memory, filled from `values` or with 0xff
 * (NaN). */
static void *upload(spc_ctx *ctx, const void *values, size_t bytes)
{
    void *out = NULL, *ones = malloc(bytes + 16);

    memset(ones, 0xff, bytes + 16);
    assert_ok(spc_memory_alloc(&out, ctx, bytes + 16), spc_ctx_error(ctx));
    assert_ok(
        spc_memory_upload(out, ctx, values != NULL ? values : ones, bytes),
        spc_ctx_error(ctx));
    free(ones);
    return out;
}

/* Makes a plan and its workspace. */
typedef struct running {
    spc_ctx *ctx;
    const spc_map *map;
    spc_plan *plan;
    void *packed, *work;
} running;

static running run_open(spc_ctx *ctx, const spc_conv *conv, spc_map *map)
{
    running r = {.ctx = ctx, .map = map};

    assert_ok(spc_plan_create(&r.plan, ctx, conv, map, SPC_PLAN_ESTIMATE),
              spc_ctx_error(ctx));
    assert_ok(
        spc_memory_alloc(&r.packed, ctx, spc_plan_weights_bytes(r.plan) + 16),
        spc_ctx_error(ctx));
    assert_ok(spc_memory_alloc(&r.work, ctx,
                               spc_plan_workspace_bytes(r.plan, map) + 16),
              spc_ctx_error(ctx));
    return r;
}

static void run_close(running *r)
{
    spc_memory_free(r->ctx, r->packed);
    spc_memory_free(r->ctx, r->work);
    spc_plan_free(r->plan);
}

/* Returns the result of the pass on `in` and the weights, or dy. The caller
 * frees it. */
static float *run_plan(spc_ctx *ctx, const spc_conv *conv, spc_map *map,
                       const void *in, const void *other, int64_t *count)
{
    bool wgrad = conv->pass == SPC_WGRAD;
    spc_operand second = wgrad ? SPC_OPERAND_RESIDUAL : SPC_OPERAND_WEIGHTS;
    size_t bytes =
        spc_conv_operand_bytes(conv, SPC_OPERAND_OUT, spc_map_rows_out(map));
    running r = run_open(ctx, conv, map);
    void *x = upload(
        ctx, in,
        spc_conv_operand_bytes(conv, SPC_OPERAND_IN, spc_map_rows_in(map)));
    void *w =
        upload(ctx, other,
               spc_conv_operand_bytes(conv, second, spc_map_rows_out(map)));
    void *y = upload(ctx, NULL, bytes);
    spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                           .in = x,
                           .out = y,
                           .weights = r.packed,
                           .workspace = r.work};

    if (wgrad)
        buffers.grad = w;
    else
        assert_ok(spc_plan_pack(r.packed, r.plan, w, SPC_RSCK, NULL),
                  spc_ctx_error(ctx));
    assert_ok(spc_plan_execute(r.plan, map, &buffers, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_ctx_synchronize(ctx), spc_ctx_error(ctx));
    float *out = malloc(bytes + 4);
    assert_ok(spc_memory_download(out, ctx, y, bytes), spc_ctx_error(ctx));
    *count = (int64_t)(bytes / sizeof(float));
    spc_memory_free(ctx, x);
    spc_memory_free(ctx, w);
    spc_memory_free(ctx, y);
    run_close(&r);
    return out;
}

/* ---- one training step --------------------------------------------------- */

typedef struct step {
    spc_ctx *ctx;
    spc_scene *scene;
    spc_conv passes[3];
    spc_map *map, *back; /* the same map for a submanifold layer */
} step;

static const char *device_of(int i)
{
    return suite_device != NULL ? suite_device : devices[i % DEVICES];
}

static void step_open(step *s, const char *device, const spc_conv *layer,
                      spc__random *random)
{
    s->ctx = open_ctx(device, suite_database(), NULL);
    s->scene = draw_scene(random);
    for (int p = 0; p < 3; p++)
        assert_ok(spc_conv_pass(&s->passes[p], layer, (spc_pass)p, &error),
                  error.text);
    assert_ok(spc_map_create_from_scene(&s->map, s->ctx, layer, s->scene),
              spc_ctx_error(s->ctx));
    assert_ok(spc_map_create_from_scene(&s->back, s->ctx, &s->passes[SPC_DGRAD],
                                        s->scene),
              spc_ctx_error(s->ctx));
}

static void step_close(step *s)
{
    spc_map_free(s->map);
    spc_map_free(s->back);
    spc_scene_free(s->scene);
    spc_ctx_free(s->ctx);
}

static double dot(const float *a, const float *b, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* The loss <dy, y> is linear in x and in w, so the gradients predict it
 * exactly. */
static void check_step(step *s, spc__random *random, const char *text)
{
    const spc_conv *layer = &s->passes[SPC_FORWARD];
    int64_t ins = spc_map_rows_in(s->map) * layer->cin, outs, inputs, weights;
    int64_t taps =
        (int64_t)(spc_conv_operand_bytes(layer, SPC_OPERAND_WEIGHTS, 0) / 4);
    float *x = draw(ins, random), *w = draw(taps, random);
    float *y = run_plan(s->ctx, layer, s->map, x, w, &outs);
    float *dy = draw(outs, random);
    float *dx =
        run_plan(s->ctx, &s->passes[SPC_DGRAD], s->back, dy, w, &inputs);
    float *dw =
        run_plan(s->ctx, &s->passes[SPC_WGRAD], s->map, x, dy, &weights);
    double loss = dot(dy, y, outs);

    ck_assert_int_eq(inputs, ins);
    ck_assert_int_eq(weights, taps);
    ck_assert_msg(loss == dot(dx, x, ins),
                  "%s: <dy, y> is %.17g, <dx, x> %.17g", text, loss,
                  dot(dx, x, ins));
    ck_assert_msg(loss == dot(dw, w, taps),
                  "%s: <dy, y> is %.17g, <dw, w> %.17g", text, loss,
                  dot(dw, w, taps));
    float *all[] = {x, w, y, dy, dx, dw};
    for (int i = 0; i < LENGTH(all); i++)
        free(all[i]);
}

START_TEST(gradients_say_what_the_loss_is)
{
    char text[240];
    spc__random random;
    step s;
    if (!suite_takes(_i))
        return;
    spc__random_init(&random, (uint64_t)_i + 1);
    spc_conv layer = draw_layer(&random);

    spc_conv_format(text, sizeof(text), &layer);
    step_open(&s, device_of(_i), &layer, &random);
    check_step(&s, &random, text);
    step_close(&s);
}
END_TEST

/* The kernel is not its own mirror image, and the gradient mirrors it. Random
 * samples rarely have such kernels. */
static const char *const lopsided[] = {
    "subm,cin=2,cout=3,k=4x2x1,dtype=f32",
    "subm,cin=2,cout=3,k=3,origin=0,dtype=f32",
    "subm,cin=2,cout=3,offsets=0x0x0+1x0x2+-1x1x0+2x0x0,dtype=f32",
};

START_TEST(lopsided_kernels_have_their_gradient)
{
    spc__random random;
    spc_conv layer;
    step s;

    spc__random_init(&random, (uint64_t)_i + 501);
    assert_ok(spc_conv_parse(&layer, lopsided[_i], &error), error.text);
    step_open(&s, device_of(0), &layer, &random);
    check_step(&s, &random, lopsided[_i]);
    step_close(&s);
}
END_TEST

/* ---- 16-bit types -------------------------------------------------------- */

static uint16_t *halves_of(const float *values, int64_t count, spc_dtype dtype)
{
    uint16_t *out = malloc((size_t)count * sizeof(*out) + 4);

    for (int64_t i = 0; i < count; i++)
        out[i] = dtype == SPC_F16 ? spc__half_from_float(values[i])
                                  : spc__bfloat_from_float(values[i]);
    return out;
}

/* Returns the gradient by the cpu device's kernel, which shares no code with
 * the GPU's. */
static float *run_on_cpu(const step *s, const float *x, const float *dy,
                         int64_t *count)
{
    spc_ctx *cpu = open_ctx("cpu", suite_database(), NULL);
    spc_map *map = NULL;

    assert_ok(
        spc_map_create_from_scene(&map, cpu, &s->passes[SPC_FORWARD], s->scene),
        spc_ctx_error(cpu));
    float *out = run_plan(cpu, &s->passes[SPC_WGRAD], map, x, dy, count);
    spc_map_free(map);
    spc_ctx_free(cpu);
    return out;
}

/* Both types hold sums of small integers exactly, so 16-bit kernels must give
 * the same result as the 32-bit kernel. */
static void check_halves(step *s, spc_dtype dtype, spc__random *random,
                         const char *text)
{
    spc_conv short_one = s->passes[SPC_WGRAD];
    int64_t ins = spc_map_rows_in(s->map) * short_one.cin, count, same;
    int64_t outs = spc_map_rows_out(s->map) * short_one.cout;
    float *x = draw(ins, random), *dy = draw(outs, random);
    float *want = run_on_cpu(s, x, dy, &count);

    short_one.dtype = dtype;
    short_one.out = SPC_OUT_F32;
    uint16_t *short_x = halves_of(x, ins, dtype);
    uint16_t *short_dy = halves_of(dy, outs, dtype);
    float *got = run_plan(s->ctx, &short_one, s->map, short_x, short_dy, &same);
    ck_assert_int_eq(same, count);
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(got[i] == want[i], "%s, %s: weight %lld has %g, not %g",
                      text, dtype == SPC_F16 ? "f16" : "bf16", (long long)i,
                      (double)got[i], (double)want[i]);
    void *all[] = {x, dy, want, short_x, short_dy, got};
    for (int i = 0; i < LENGTH(all); i++)
        free(all[i]);
}

/* Rows are multiples of 16 bytes, as wide kernels need. Only one case runs,
 * since each compiles a kernel. */
START_TEST(halves_have_the_gradient_of_singles)
{
    char text[240];
    spc__random random;
    step s;
    if (!suite_takes(_i) ||
        (suite_one_in > 1 && _i / suite_one_in != suite_variant() % 2))
        return;
    spc__random_init(&random, (uint64_t)_i + 1001);
    spc_conv layer = draw_layer(&random);

    layer.groups = 1;
    layer.dtype = SPC_F32;
    layer.cin = 8 * (1 + below(&random, _i % 4 == 0 ? 18 : 5));
    layer.cout = 8 * (1 + below(&random, _i % 4 == 0 ? 18 : 5));
    layer.bias = below(&random, 2);
    spc_conv_format(text, sizeof(text), &layer);
    step_open(&s, suite_device != NULL ? suite_device : "sim", &layer, &random);
    check_halves(&s, below(&random, 2) ? SPC_F16 : SPC_BF16, &random, text);
    step_close(&s);
}
END_TEST

/* ---- existing gradients -------------------------------------------------- */

/* Accumulating in place doubles the result. The bias gradient follows that of
 * the weights. */
START_TEST(a_gradient_is_added_to_where_it_lies)
{
    const char *text = "subm,cin=3,cout=5,k=3,dtype=f32,bias=1,pass=wgrad";
    spc__random random;
    int64_t count;
    spc_conv once, more;
    spc_ctx *ctx = open_ctx(device_of(0), suite_database(), NULL);
    spc_map *map = NULL;

    spc__random_init(&random, 3);
    assert_ok(spc_conv_parse(&once, text, &error), error.text);
    more = once;
    more.accumulate = true;
    spc_scene *scene = draw_scene(&random);
    assert_ok(spc_map_create_from_scene(&map, ctx, &once, scene),
              spc_ctx_error(ctx));
    float *x = draw((int64_t)VOXELS * 3, &random),
          *dy = draw((int64_t)VOXELS * 5, &random);
    float *want = run_plan(ctx, &once, map, x, dy, &count);
    ck_assert_int_eq(count, (27 * 3 + 1) * 5);
    for (int co = 0; co < 5; co++) {
        float sum = 0;
        for (int row = 0; row < VOXELS; row++)
            sum += dy[row * 5 + co];
        ck_assert(want[27 * 3 * 5 + co] == sum);
    }

    running r = run_open(ctx, &more, map);
    void *in = upload(ctx, x, (size_t)VOXELS * 12);
    void *grad = upload(ctx, dy, (size_t)VOXELS * 20);
    void *out = upload(ctx, want, (size_t)count * 4);
    spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                           .in = in,
                           .out = out,
                           .weights = out,
                           .grad = grad,
                           .workspace = r.work};
    assert_ok(spc_plan_execute(r.plan, map, &buffers, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_ctx_synchronize(ctx), spc_ctx_error(ctx));
    float *got = malloc((size_t)count * 4);
    assert_ok(spc_memory_download(got, ctx, out, (size_t)count * 4),
              spc_ctx_error(ctx));
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(got[i] == 2 * want[i], "element %lld", (long long)i);
    buffers.weights = (char *)out + 16; /* overlaps the output's second half */
    ck_assert_int_eq(spc_plan_execute(r.plan, map, &buffers, NULL), SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "`out` and `weights` overlap");
    ck_assert_int_eq(spc_plan_pack(r.packed, r.plan, out, SPC_KRSC, NULL),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(ctx), "nothing to pack");

    run_close(&r);
    void *memory[] = {in, grad, out};
    float *all[] = {x, dy, want, got};
    for (int i = 0; i < LENGTH(memory); i++)
        spc_memory_free(ctx, memory[i]);
    for (int i = 0; i < LENGTH(all); i++)
        free(all[i]);
    spc_map_free(map);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- the same bits ------------------------------------------------------- */

static const char *const repeated[] = {
    "subm,cin=12,cout=20,k=3,dtype=f32,bias=1,deterministic=1",
    "subm,cin=24,cout=24,groups=24,k=3,dtype=f32,bias=1,deterministic=1",
    ("conv,cin=12,cout=8,k=3,stride=2,padding=1,rule=footprint,dtype=tf32,"
     "deterministic=1"),
    "points,cin=8,cout=12,k=3,radius=0.0025,dtype=f32,deterministic=1",
};

/* Sums of real numbers depend on their order. */
static float *draw_reals(int64_t count, spc__random *random)
{
    float *out = malloc((size_t)count * sizeof(*out) + 4);

    for (int64_t i = 0; i < count; i++)
        out[i] = (float)(2 * spc__random_unit(random) - 1);
    return out;
}

/* Compares the results of three runs with operands at different addresses. */
static void check_runs(int threads, const spc_conv *pass,
                       const spc_scene *scene, float **want)
{
    spc_ctx_options o = SPC_CTX_OPTIONS_INIT;
    spc_conv layer = *pass;
    spc_ctx *ctx = NULL;
    spc_map *map = NULL;
    spc__random random;
    void *between;

    o.device = device_of(0);
    o.database = suite_database();
    o.threads = threads;
    assert_ok(spc_ctx_create(&ctx, &o, &error), error.text);
    layer.pass = SPC_FORWARD;
    layer.add_pitch = 0;
    assert_ok(spc_map_create_from_scene(&map, ctx, &layer, scene),
              spc_ctx_error(ctx));
    spc__random_init(&random, 77);
    float *x = draw_reals(spc_map_rows_in(map) * pass->cin, &random);
    float *dy = draw_reals(spc_map_rows_out(map) * pass->cout, &random);
    for (int i = 0; i < 3; i++) {
        int64_t count;
        assert_ok(
            spc_memory_alloc(&between, ctx, 48 + 4096 * (size_t)(threads + i)),
            spc_ctx_error(ctx));
        float *got = run_plan(ctx, pass, map, x, dy, &count);
        if (*want == NULL)
            *want = got;
        else
            ck_assert_mem_eq(got, *want, (size_t)count * sizeof(*got));
        if (got != *want)
            free(got);
        spc_memory_free(ctx, between);
    }
    free(x);
    free(dy);
    spc_map_free(map);
    spc_ctx_free(ctx);
}

START_TEST(a_deterministic_gradient_has_the_same_bits_with_any_threads)
{
    static const int threads[] = {1, 2, 7};
    spc__random random;
    spc_conv layer, wgrad;
    float *want = NULL;

    spc__random_init(&random, 5);
    assert_ok(spc_conv_parse(&layer, repeated[_i], &error), error.text);
    assert_ok(spc_conv_pass(&wgrad, &layer, SPC_WGRAD, &error), error.text);
    spc_scene *scene = draw_scene(&random);
    for (int i = 0; i < LENGTH(threads); i++)
        check_runs(threads[i], &wgrad, scene, &want);
    free(want);
    spc_scene_free(scene);
}
END_TEST

/* ---- words --------------------------------------------------------------- */

/* A layer and a pass, and the problem's text or the expected error. */
static const struct {
    const char *layer;
    spc_pass pass;
    const char *text, *says;
} derived[] = {
    {"subm,cin=8,cout=12,k=3,dtype=f16,bias=1", SPC_DGRAD,
     "subm,cin=8,cout=12,k=3,dtype=f16,pass=dgrad", NULL},
    {"subm,cin=8,cout=12,k=3,dtype=f16,bias=1", SPC_WGRAD,
     "subm,cin=8,cout=12,k=3,dtype=f16,bias=1,pass=wgrad", NULL},
    {"subm,cin=8,cout=12,k=4x1x1,dtype=f16,in_pitch=16", SPC_DGRAD,
     "subm,cin=8,cout=12,k=4x1x1,dtype=f16,out_pitch=16,pass=dgrad", NULL},
    {"conv,cin=8,cout=12,rule=floor,k=2,stride=2,dtype=f32,out_pitch=20",
     SPC_WGRAD,
     "conv,cin=8,cout=12,rule=floor,k=2,stride=2,dtype=f32,add_pitch=20,"
     "pass=wgrad",
     NULL},
    {"generative,cin=8,cout=12,k=2,stride=2,dtype=f32", SPC_DGRAD,
     "generative,cin=8,cout=12,k=2,stride=2,dtype=f32,pass=dgrad", NULL},
    {"conv,cin=8,cout=12,rule=expand,k=3,stride=2,dtype=f32", SPC_DGRAD,
     "conv,cin=8,cout=12,rule=expand,k=3,stride=2,dtype=f32,pass=dgrad", NULL},
    {"subm,cin=8,cout=12,k=3,dtype=f16", SPC_FORWARD,
     "subm,cin=8,cout=12,k=3,dtype=f16", NULL},
    {"subm,cin=8,cout=12,k=3,dtype=f16,epilogue=relu", SPC_DGRAD, NULL,
     "an epilogue besides its bias"},
    {"subm,cin=8,cout=12,k=3,dtype=i8,out=f32", SPC_WGRAD, NULL,
     "has integers"},
    {"subm,cin=8,cout=12,k=3,dtype=f16,pass=wgrad", SPC_DGRAD, NULL,
     "pass=wgrad itself"},
};

START_TEST(a_pass_follows_from_its_layer)
{
    char text[240];
    spc_conv layer, pass, again;

    assert_ok(spc_conv_parse(&layer, derived[_i].layer, &error), error.text);
    if (derived[_i].says != NULL) {
        ck_assert_int_eq(spc_conv_pass(&pass, &layer, derived[_i].pass, &error),
                         SPC_EINVAL);
        assert_says(error.text, derived[_i].says);
        return;
    }
    assert_ok(spc_conv_pass(&pass, &layer, derived[_i].pass, &error),
              error.text);
    spc_conv_format(text, sizeof(text), &pass);
    ck_assert_str_eq(text, derived[_i].text);
    assert_ok(spc_conv_parse(&again, text, &error), error.text);
    ck_assert_int_eq(again.cin, pass.cin);
    ck_assert_int_eq(again.op, pass.op);
    ck_assert_int_eq(again.geometry.origin[0], pass.geometry.origin[0]);
}
END_TEST

static const char *const wrong[][2] = {
    {"subm,cin=8,cout=8,pass=wgrad,epilogue=relu", "no epilogue except a bias"},
    {"subm,cin=8,cout=8,pass=wgrad,out_pitch=16", "no out_pitch"},
    {"subm,cin=8,cout=8,pass=dgrad,dtype=i8", "needs real numbers"},
    {"subm,cin=8,cout=8,accumulate=1", "accumulate=1 is for pass=wgrad"},
    {"subm,cin=8,cout=8,pass=sgrad", "did you mean 'dgrad'"},
};

START_TEST(what_is_no_pass_has_its_sentence)
{
    spc_conv conv;

    ck_assert_int_eq(spc_conv_parse(&conv, wrong[_i][0], &error), SPC_EINVAL);
    assert_says(error.text, wrong[_i][1]);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

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
    suite_sample(suite_is_gpu() ? 4 : 49);
    Suite *suite = suite_create("backward");

    add(suite, "steps", gradients_say_what_the_loss_is, cases());
    add(suite, "lopsided", lopsided_kernels_have_their_gradient,
        LENGTH(lopsided));
    add(suite, "halves", halves_have_the_gradient_of_singles, cases());
    add(suite, "accumulate", a_gradient_is_added_to_where_it_lies, 1);
    add(suite, "repeats",
        a_deterministic_gradient_has_the_same_bits_with_any_threads,
        LENGTH(repeated));
    add(suite, "passes", a_pass_follows_from_its_layer, LENGTH(derived));
    add(suite, "words", what_is_no_pass_has_its_sentence, LENGTH(wrong));
    return run_suite(suite);
}
