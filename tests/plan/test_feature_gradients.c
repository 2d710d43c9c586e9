/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_feature_gradients.c - gradients of operators on features: their
 * definitions compared with those of the operators, kernels compared with the
 * definitions, and their text form.
 *
 *     test_feature_gradients [sim|cpu|cuda]
 *
 * Samples depend on a seed, which is printed; $SPC_SEED sets it.
 */
#include "base/random.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"
#include "lab/oracle/feature_oracle.h"
#include "operators/feature.h"

#include <math.h>
#include <stdlib.h>

enum { VOXELS = 90, BATCHES = 2 };

static spc_error error;
static uint64_t seed;

/* ---- one operator and its gradients -------------------------------------- */

/* These operators are linear in their input or select from it: <dy, op x> =
 * <dgrad dy, x>. Sums of integers are exact. */
static const char *const linear[] = {
    "pool=sum,c=6,rule=floor,k=2,stride=2",
    "pool=sum,c=6,rule=footprint,k=3,stride=2,padding=1",
    "pool=sum,c=6,rule=subm,k=3x2x1",
    "pool=mean,c=6,rule=footprint,k=3x3x1,stride=2x2x1,padding=1x1x0",
    "pool=mean,c=6,rule=subm,k=3",
    "pool=max,c=6,rule=floor,k=2,stride=2,index=1",
    "pool=max,c=6,rule=footprint,k=3,stride=2,padding=1,index=1",
    "unpool=nearest,c=6,rule=floor,k=2,stride=2",
    "unpool=nearest,c=6,rule=footprint,k=3,stride=2,padding=1",
    "pool=slices,c=6,rule=floor,k=2,stride=2",
    "pool=slices,c=2,rule=subm,k=3x2x1",
    "pool=slices,c=2,rule=footprint,k=3,stride=2,padding=1",
    "unpool=slices,c=16,rule=floor,k=2,stride=2",
    "unpool=slices,c=18,rule=footprint,k=3x3x1,stride=2x2x1,padding=1x1x0",
    "global=max,c=6",
    "global=mean,c=6",
    "global=sum,c=6",
    "add,c=6",
    "groupsum,c=6,by=3",
    "groupmean,c=6,by=2",
    "repeat,c=6,by=3",
    "bev,c=6,shape=9x7x3,order=zyx",
    "bev,c=6,shape=7x10x2,order=xyz",
    "bev,c=6,shape=7x10x2,order=volume",
};

/* These operators are nonlinear: their gradients are compared with
 * differences. */
static const char *const curved[] = {
    "norm=layer,c=6,eps=0.01,affine=1",
    "norm=layer,c=7,eps=0.01",
    "norm=group,c=6,groups=2,eps=0.01,affine=1",
    "norm=group,c=6,groups=6,eps=0.01",
    "affine,c=6",
    "act=relu,c=6",
    "act=leaky,c=6,slope=0.25",
    "act=silu,c=6",
    "act=gelu,c=6",
    "act=elu,c=6",
    "act=sigmoid,c=6",
};

/* The rows of an operator: a scene and, if there is a map, its two sides. */
typedef struct fixture {
    spc_feature feature, back;
    spc_scene *scene;
    spc_relation forward, reversed;
    int64_t near, far; /* rows of the inputs, rows of the outputs */
} fixture;

static float *draw(int64_t count, bool integers, spc__random *random)
{
    float *out = malloc((size_t)count * sizeof(*out) + 4);

    for (int64_t i = 0; i < count; i++)
        out[i] = integers ? (float)spc__random_below(random, 9) - 4
                          : (float)(2 * spc__random_unit(random) - 1);
    return out;
}

/* Samples distinct cells of two batch elements, some outside the planes of
 * bev. */
static spc_scene *draw_scene(spc__random *random)
{
    int32_t at[VOXELS][4];
    spc_scene *scene = NULL;

    for (int i = 0, cell = 0; i < VOXELS; i++) {
        cell += 1 + (int)spc__random_below(random, 10);
        at[i][0] = cell / 512;
        at[i][1] = cell / 64 % 8 - 1;
        at[i][2] = cell / 8 % 8 - 1;
        at[i][3] = cell % 8 - 1;
    }
    assert_ok(spc_scene_create(&scene, &at[0][0], VOXELS, "drawn", &error),
              error.text);
    return scene;
}

/* Returns an operator on one set with inputs and outputs exchanged. */
static void reverse_relation(spc_relation *r)
{
    size_t entries = (size_t)r->offsets * (size_t)r->rows_out;
    int32_t *reversed = malloc(entries * sizeof(*reversed));

    for (size_t i = 0; i < entries; i++)
        reversed[i] = -1;
    for (int k = 0; k < r->offsets; k++)
        for (int64_t o = 0; o < r->rows_out; o++) {
            int32_t i = r->index[k * r->rows_out + o];
            if (i >= 0)
                reversed[k * r->rows_out + i] = (int32_t)o;
        }
    free(r->index);
    r->index = reversed;
}

static void relate(spc_relation *out, const fixture *p, const spc_feature *f)
{
    bool subm = f->geometry.rule == SPC_RULE_SUBM;
    spc_conv conv = SPC_CONV_INIT;

    conv.op = subm                            ? SPC_SUBM
              : spc__feature_takes_inverse(f) ? SPC_INVERSE
                                              : SPC_CONV;
    conv.cin = conv.cout = 1;
    conv.geometry = f->geometry;
    assert_ok(spc_oracle_relation(out, &conv, p->scene, 1, &error), error.text);
    if (subm && spc__feature_takes_inverse(f))
        reverse_relation(out);
}

static void open_fixture(fixture *p, const char *text, spc__random *random)
{
    memset(p, 0, sizeof(*p));
    assert_ok(spc_feature_parse(&p->feature, text, &error), error.text);
    assert_ok(spc_feature_pass(&p->back, &p->feature, SPC_DGRAD, &error),
              error.text);
    p->scene = draw_scene(random);
    p->near = p->far = VOXELS;
    if (!spc__feature_takes_map(&p->feature))
        return;
    relate(&p->forward, p, &p->feature);
    relate(&p->reversed, p, &p->back);
    p->near = p->forward.rows_in;
    p->far = p->forward.rows_out;
    ck_assert_int_eq(p->reversed.rows_in, p->far);
    ck_assert_int_eq(p->reversed.rows_out, p->near);
}

static void close_fixture(fixture *p)
{
    spc_relation_release(&p->forward);
    spc_relation_release(&p->reversed);
    spc_scene_free(p->scene);
}

/* ---- by definition ------------------------------------------------------- */

static spc__feature_case case_of(const fixture *p, bool reversed)
{
    return (spc__feature_case){
        .rows_in = reversed ? p->far : p->near,
        .rows_out = reversed ? p->near : p->far,
        .batches = BATCHES,
        .map = reversed ? p->reversed.index : p->forward.index,
        .coords = spc_scene_coords(p->scene),
    };
}

static int64_t count_out(const spc_feature *f, const spc__feature_case *of)
{
    return spc_feature_rows_out(f, of->rows_out, of->batches) *
           spc_feature_elements_out(f);
}

/* Returns the result. The caller frees it. */
static double *define(const spc_feature *f, const spc__feature_case *of,
                      int32_t *index)
{
    size_t count = (size_t)count_out(f, of);
    double *out = malloc(count * sizeof(*out) + 8);
    double *tolerance = malloc(count * sizeof(*tolerance) + 8);

    assert_ok(spc__feature_oracle(out, tolerance, index, f, of), "no memory");
    free(tolerance);
    return out;
}

static double dot(const double *a, const float *b, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += a[i] * (double)b[i];
    return sum;
}

/* Counts the nonzero terms of the sum, because the sum itself may be 0. */
static int64_t count_terms(const double *a, const float *b, int64_t count)
{
    int64_t terms = 0;

    for (int64_t i = 0; i < count; i++)
        terms += a[i] * (double)b[i] != 0;
    return terms;
}

/* Inputs of the gradient: dy and, if it needs it, x. */
static void give_gradient(spc__feature_case *of, const spc_feature *back,
                          const float *x, const float *dy)
{
    bool adds = spc__feature_adds(back);

    of->in = adds ? x : dy;
    of->add = adds ? dy : NULL;
}

START_TEST(a_gradient_is_the_operator_turned_round)
{
    spc__random random;
    fixture p;

    spc__random_init(&random, seed + (uint64_t)_i);
    open_fixture(&p, linear[_i], &random);
    const spc_feature *f = &p.feature;
    spc__feature_case of = case_of(&p, false), reversed = case_of(&p, true);
    int64_t ins = p.near * f->channels, outs = count_out(f, &of);
    float *x = draw(ins, true, &random), *dy = draw(outs, true, &random);
    float *zeros = calloc((size_t)ins, sizeof(*zeros));
    int32_t *index = malloc((size_t)(p.far * f->channels) * 4);
    of.in = x;
    of.add = zeros;
    double *y = define(f, &of, index);
    give_gradient(&reversed, &p.back, x, dy);
    reversed.index = index;
    double *dx = define(&p.back, &reversed, NULL);
    double there = dot(y, dy, outs), back = dot(dx, x, ins);
    ck_assert_msg(fabs(there - back) <= 1e-9 * (1 + fabs(there)),
                  "%s: <dy, y> is %.12g, <dx, x> %.12g, seed %llu", linear[_i],
                  there, back, (unsigned long long)seed);
    ck_assert_msg(count_terms(y, dy, outs) > 0, "%s: nothing was compared",
                  linear[_i]);
    free(x);
    free(dy);
    free(zeros);
    free(index);
    free(y);
    free(dx);
    close_fixture(&p);
}
END_TEST

/* Returns <dy, op(x + by * way)>. */
static double loss_at(const fixture *p, spc__feature_case of, const float *x,
                      const float *way, float by, const float *dy)
{
    int64_t ins = p->near * p->feature.channels;
    float *moved = malloc((size_t)ins * sizeof(*moved));

    for (int64_t i = 0; i < ins; i++)
        moved[i] = x[i] + by * way[i];
    of.in = moved;
    double *y = define(&p->feature, &of, NULL);
    double loss = dot(y, dy, count_out(&p->feature, &of));
    free(moved);
    free(y);
    return loss;
}

/* The loss is linear in scale and shift: <dscale, scale> + <dshift, shift> =
 * <dy, y>. */
static void check_wgrad(const fixture *p, spc__feature_case of, const float *x,
                        const float *dy, double y_dy)
{
    spc_feature sums;
    int64_t channels = p->feature.channels;

    if (!spc__feature_has_shift(&p->feature))
        return;
    assert_ok(spc_feature_pass(&sums, &p->feature, SPC_WGRAD, &error),
              error.text);
    of.in = x;
    of.add = dy;
    double *change = define(&sums, &of, NULL);
    double along = dot(change, of.scale, channels) +
                   dot(change + channels, of.shift, channels);
    ck_assert_msg(fabs(along - y_dy) <= 1e-9 * (1 + fabs(y_dy)),
                  "<dy, y> is %.12g, by scale and shift %.12g", y_dy, along);
    free(change);
}

/* Rounds to a grid, so that steps are exact and none crosses 0: the second
 * derivative of elu jumps there, and differences would be wrong by a fraction
 * of the step. */
static float on_grid(float x, float farthest)
{
    float at = roundf(x * 4096) / 4096;

    return fabsf(at) < farthest ? copysignf(farthest, at) : at;
}

/* Step sizes are exact in fp32 and the definition uses double, so the remaining
 * error of two extrapolated differences is the cube of the step size. */
START_TEST(a_gradient_is_the_limit_of_differences)
{
    const float by = 0x1p-8f, farthest = 4 * by; /* |way| is at most 4 */
    spc__random random;
    fixture p;

    spc__random_init(&random, seed + (uint64_t)_i);
    open_fixture(&p, curved[_i], &random);
    int64_t count = p.near * p.feature.channels;
    spc__feature_case of = case_of(&p, false), reversed = of;
    float *x = draw(count, false, &random), *way = draw(count, true, &random);
    float *dy = draw(count, false, &random);
    float *scale = draw(p.feature.channels, false, &random);
    float *shift = draw(p.feature.channels, false, &random);
    for (int64_t i = 0; i < count; i++)
        x[i] = on_grid(x[i], farthest);
    of.scale = reversed.scale = scale;
    of.shift = shift;
    give_gradient(&reversed, &p.back, x, dy);
    double *dx = define(&p.back, &reversed, NULL);
    double slope = dot(dx, way, count), found[2];
    for (int i = 0; i < 2; i++) {
        float step = i == 0 ? by : by / 2;
        found[i] = (loss_at(&p, of, x, way, step, dy) -
                    loss_at(&p, of, x, way, -step, dy)) /
                   (2 * (double)step);
    }
    double difference = (4 * found[1] - found[0]) / 3;
    ck_assert_msg(fabs(slope - difference) <= 1e-3 * (1 + fabs(slope)),
                  "%s: the slope is %.9g, by differences %.9g, seed %llu",
                  curved[_i], slope, difference, (unsigned long long)seed);
    check_wgrad(&p, of, x, dy, loss_at(&p, of, x, way, 0, dy));
    free(x);
    free(way);
    free(dy);
    free(scale);
    free(shift);
    free(dx);
    close_fixture(&p);
}
END_TEST

/* y = x * s is linear in either: <dy, y> = <dx, x> = <ds, s>. Sums of integers
 * are exact. */
START_TEST(both_gradients_of_a_product_are_the_operator_turned_round)
{
    enum { CHANNELS = 6, ALL = VOXELS * CHANNELS };
    spc__random random;
    spc_feature sums;
    fixture p;

    spc__random_init(&random, seed);
    open_fixture(&p, "multiply,c=6", &random);
    assert_ok(spc_feature_pass(&sums, &p.feature, SPC_WGRAD, &error),
              error.text);
    float *x = draw(ALL, true, &random), *dy = draw(ALL, true, &random);
    float *s = draw(BATCHES * CHANNELS, true, &random);
    spc__feature_case of = case_of(&p, false);
    of.in = x;
    of.add = s;
    double *y = define(&p.feature, &of, NULL);
    for (int at = 0; at < ALL; at++) /* multiplies as defined */
        ck_assert(
            y[at] ==
            (double)x[at] *
                (double)
                    s[spc_scene_coords(p.scene)[at / CHANNELS * 4] * CHANNELS +
                      at % CHANNELS]);
    of.in = dy;
    double *dx = define(&p.back, &of, NULL);
    of.in = x;
    of.add = dy;
    ck_assert_int_eq(count_out(&sums, &of), BATCHES * CHANNELS);
    double *ds = define(&sums, &of, NULL);
    ck_assert(dot(y, dy, ALL) == dot(dx, x, ALL));
    ck_assert(dot(y, dy, ALL) == dot(ds, s, BATCHES * CHANNELS));
    ck_assert_int_gt(count_terms(ds, s, BATCHES * CHANNELS), 0);
    free(x);
    free(dy);
    free(s);
    free(y);
    free(dx);
    free(ds);
    close_fixture(&p);
}
END_TEST

/* ---- kernels ------------------------------------------------------------- */

static const char *const devices[] = {"cpu", "sim"};

/* Makes the numbers of channels valid: multiples of `channels`. */
static const struct {
    const char *words;
    int multiple;
} gradients[] = {
    {"pool=sum,rule=footprint,k=3,stride=2,padding=1,pass=dgrad", 1},
    {"pool=mean,rule=subm,k=3x2x1,pass=dgrad", 1},
    {"pool=mean,rule=floor,k=2,stride=2,pass=dgrad", 1},
    {"unpool=nearest,rule=footprint,k=3,stride=2,padding=1,pass=dgrad", 1},
    {"unpool=index,rule=floor,k=2,stride=2,pass=dgrad", 1},
    {"global=max,pass=dgrad", 1},
    {"global=mean,pass=dgrad", 1},
    {"global=sum,pass=dgrad", 1},
    {"multiply,pass=dgrad", 1},
    {"multiply,pass=wgrad", 1},
    {"affine,pass=dgrad", 1},
    {"affine,pass=wgrad", 1},
    {"norm=layer,eps=1e-3,affine=1,pass=dgrad", 1},
    {"norm=layer,eps=1e-3,affine=1,pass=wgrad", 1},
    {"norm=group,groups=1,eps=1e-3,affine=1,pass=dgrad", 1},
    {"norm=group,groups=1,eps=1e-3,affine=1,pass=wgrad", 1},
    {"norm=group,groups=3,eps=1e-3,affine=1,pass=dgrad", 3},
    {"norm=group,groups=3,eps=1e-3,affine=1,pass=wgrad", 3},
    {"groupmean,by=1,pass=dgrad", 1},
    {"groupmean,by=3,pass=dgrad", 3},
    {"bev,shape=9x7x3,order=zyx,pass=dgrad", 1},
    {"bev,shape=9x7x3,order=xyz,pass=dgrad", 1},
};

static void verify_one(spc_ctx *ctx, const char *words, const char *dtype,
                       int channels)
{
    char text[160];
    spc_feature f;
    double worst;

    snprintf(text, sizeof(text), "%s,c=%d,dtype=%s", words, channels, dtype);
    assert_ok(spc_feature_parse(&f, text, &error), error.text);
    spc_status status = spc_feature_verify(&worst, ctx, &f, NULL, 0, seed);
    ck_assert_msg(status == SPC_OK, "%s: %s, seed %llu", text,
                  spc_ctx_error(ctx), (unsigned long long)seed);
}

/* Runs all cases, or a sample if kernels are emulated. */
START_TEST(kernels_give_what_the_definition_gives)
{
    static const int channels[] = {1, 5, 20, 64, 163};
    static const char *const dtypes[] = {"f16", "bf16", "f32"};
    const char *device = suite_device != NULL ? suite_device : devices[_i];
    bool emulated = strcmp(device, "sim") == 0;
    spc_ctx *ctx = open_ctx(device, suite_database(), NULL);
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < LENGTH(gradients); i++) {
        const char *dtype = dtypes[spc__random_below(&random, 3)];
        int c = channels[spc__random_below(&random, LENGTH(channels))];
        if (!emulated || suite_takes(i))
            verify_one(ctx, gradients[i].words, dtype,
                       c * gradients[i].multiple);
    }
    spc_ctx_free(ctx);
}
END_TEST

/* ---- capacities ---------------------------------------------------------- */

/* These operators sum over rows. Their partial sums must not depend on the
 * set's capacity. */
static const char *const summed[] = {
    "norm=group,c=12,groups=3,affine=1,pass=dgrad,dtype=f32",
    "norm=group,c=12,groups=3,affine=1,pass=wgrad,dtype=f32",
    "affine,c=12,pass=wgrad,dtype=f32",
    "global=max,c=12,pass=dgrad,dtype=f32",
    "multiply,c=12,pass=wgrad,dtype=f32",
};

enum { WIDTH = 12, ROWS = 500 };

/* Makes voxels of one batch element in ascending order, in a set with spare
 * capacity. */
static spc_coords *fill_set(spc_ctx *ctx, int64_t spare)
{
    spc_coords_options o = SPC_COORDS_OPTIONS_INIT;
    int32_t at[ROWS][4];
    spc_coords *set = NULL;
    void *rows = NULL;

    for (int i = 0; i < ROWS; i++)
        memcpy(at[i], (int32_t[]){0, i / 64, i / 8 % 8, i % 8}, sizeof(at[i]));
    assert_ok(spc_memory_alloc(&rows, ctx, sizeof(at)), spc_ctx_error(ctx));
    assert_ok(spc_memory_upload(rows, ctx, at, sizeof(at)), spc_ctx_error(ctx));
    o.capacity = ROWS + spare;
    for (int i = 1; i < 4; i++)
        o.high[i] = 7;
    assert_ok(spc_coords_create_reserved(&set, ctx, &o), spc_ctx_error(ctx));
    assert_ok(spc_coords_update(set, rows, NULL, ROWS, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_coords_check(set, NULL), spc_ctx_error(ctx));
    spc_memory_free(ctx, rows);
    return set;
}

/* Returns the result on `arrays` (in, add, scale). The caller frees it. */
static float *run_in(spc_ctx *ctx, const spc_feature *f, int64_t spare,
                     void *const *arrays, int64_t count)
{
    spc_feature_plan *plan = NULL;
    spc_coords *set = fill_set(ctx, spare);
    float *result = malloc((size_t)count * sizeof(*result));
    void *out = NULL, *work = NULL;

    assert_ok(spc_feature_plan_create(&plan, ctx, f, SPC_PLAN_JIT),
              spc_ctx_error(ctx));
    assert_ok(spc_memory_alloc(&out, ctx, (size_t)(ROWS + spare) * WIDTH * 4),
              spc_ctx_error(ctx));
    assert_ok(spc_memory_alloc(&work, ctx,
                               spc_feature_plan_workspace_bytes(plan, set) + 1),
              spc_ctx_error(ctx));
    spc_feature_buffers b = {.bytes = sizeof(spc_feature_buffers),
                             .in = arrays[0],
                             .add = arrays[1],
                             .scale = arrays[2],
                             .out = out,
                             .workspace = work};
    assert_ok(spc_feature_plan_execute(plan, set, NULL, &b, NULL),
              spc_ctx_error(ctx));
    assert_ok(spc_ctx_synchronize(ctx), spc_ctx_error(ctx));
    assert_ok(spc_memory_download(result, ctx, out, (size_t)count * 4),
              spc_ctx_error(ctx));
    spc_memory_free(ctx, out);
    spc_memory_free(ctx, work);
    spc_feature_plan_free(plan);
    spc_coords_free(set);
    return result;
}

START_TEST(a_gradient_does_not_depend_on_the_capacity)
{
    spc_ctx *ctx = open_ctx(suite_device != NULL ? suite_device : "cpu",
                            suite_database(), NULL);
    void *arrays[3];
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < 3; i++) {
        float *values = draw(ROWS * WIDTH, false, &random);
        assert_ok(spc_memory_alloc(&arrays[i], ctx, ROWS * WIDTH * 4),
                  spc_ctx_error(ctx));
        assert_ok(spc_memory_upload(arrays[i], ctx, values, ROWS * WIDTH * 4),
                  spc_ctx_error(ctx));
        free(values);
    }
    for (int i = 0; i < LENGTH(summed); i++) {
        spc_feature f;
        assert_ok(spc_feature_parse(&f, summed[i], &error), error.text);
        int64_t count =
            spc_feature_rows_out(&f, ROWS, 1) * spc_feature_elements_out(&f);
        float *tight = run_in(ctx, &f, 0, arrays, count);
        float *roomy = run_in(ctx, &f, 20000, arrays, count);
        ck_assert_msg(memcmp(tight, roomy, (size_t)count * 4) == 0,
                      "%s depends on the capacity, seed %llu", summed[i],
                      (unsigned long long)seed);
        free(tight);
        free(roomy);
    }
    for (int i = 0; i < 3; i++)
        spc_memory_free(ctx, arrays[i]);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- words --------------------------------------------------------------- */

static const struct {
    const char *text, *means;
} meanings[] = {
    {"act=silu,c=4,pass=dgrad", "actgrad=silu,c=4,dtype=f16"},
    {"add,c=4,pass=dgrad", "repeat,c=4,by=1,dtype=f16"},
    {"groupsum,c=6,by=3,pass=dgrad", "repeat,c=2,by=3,dtype=f16"},
    {"repeat,c=2,by=3,dtype=f32,pass=dgrad", "groupsum,c=6,by=3,dtype=f32"},
    {"pool=max,c=4,rule=floor,k=2,stride=2,pass=dgrad",
     "unpool=index,c=4,rule=floor,k=2,stride=2,dtype=f16"},
    {"pool=sum,c=4,rule=subm,k=2x3x1,pass=dgrad",
     "pool=sum,c=4,rule=subm,k=2x3x1,dtype=f16,pass=dgrad"},
    {"pool=slices,c=4,rule=floor,k=2,stride=2,pass=dgrad",
     "unpool=slices,c=32,rule=floor,k=2,stride=2,dtype=f16"},
    {"unpool=slices,c=12,rule=subm,k=3x2x1,dtype=f32,pass=dgrad",
     "pool=slices,c=2,rule=subm,k=3x2x1,dtype=f32"},
    {"norm=layer,c=4,affine=1,pass=wgrad",
     "norm=layer,c=4,eps=1e-05,affine=1,dtype=f16,pass=wgrad"},
    {"affine,c=4,pass=forward", "affine,c=4,dtype=f16"},
};

START_TEST(words_mean_the_operator_that_is_the_gradient)
{
    char written[160];
    spc_feature f, again;

    assert_ok(spc_feature_parse(&f, meanings[_i].text, &error), error.text);
    spc_feature_format(written, sizeof(written), &f);
    ck_assert_str_eq(written, meanings[_i].means);
    assert_ok(spc_feature_parse(&again, written, &error), error.text);
    for (int axis = 0; axis < 3; axis++)
        ck_assert_int_eq(again.geometry.origin[axis], f.geometry.origin[axis]);
}
END_TEST

static const struct {
    const char *text, *says;
} bad[] = {
    {"norm=layer,c=4,act=relu,pass=dgrad", "operator of its own"},
    {"norm=layer,c=4,pass=wgrad", "affine and, with affine=1, the norms have"},
    {"act=relu,c=4,pass=wgrad", "pass=wgrad is the gradient of scale"},
    {"actgrad=relu,c=4,pass=dgrad", "unknown word 'pass'"},
    {"affine,c=4,pass=back", "unknown pass 'back'"},
};

START_TEST(what_has_no_gradient_says_so)
{
    spc_feature f;

    ck_assert_int_eq(spc_feature_parse(&f, bad[_i].text, &error), SPC_EINVAL);
    assert_says(error.text, bad[_i].says);
    assert_ok(spc_feature_parse(&f, "affine,c=4,pass=dgrad", &error),
              error.text);
    ck_assert_int_eq(spc_feature_pass(&f, &f, SPC_DGRAD, &error), SPC_EINVAL);
    assert_says(error.text, "a gradient itself");
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
    suite_sample(8);
    seed = suite_seed(NULL);
    Suite *suite = suite_create("feature gradients");
    add(suite, "adjoint", a_gradient_is_the_operator_turned_round,
        LENGTH(linear));
    add(suite, "differences", a_gradient_is_the_limit_of_differences,
        LENGTH(curved));
    add(suite, "products",
        both_gradients_of_a_product_are_the_operator_turned_round, 1);
    add(suite, "kernels", kernels_give_what_the_definition_gives,
        suite_device != NULL ? 1 : LENGTH(devices));
    add(suite, "capacity", a_gradient_does_not_depend_on_the_capacity, 1);
    add(suite, "meanings", words_mean_the_operator_that_is_the_gradient,
        LENGTH(meanings));
    add(suite, "bad", what_has_no_gradient_says_so, LENGTH(bad));
    return run_suite(suite);
}
