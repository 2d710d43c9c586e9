/* SPDX-License-Identifier: Apache-2.0 */
/* test_oracle.c - the oracle against the definition, and the tolerance. */
#include "base/clock.h"
#include "base/dtype.h"
#include "base/random.h"
#include "harness/suite.h"
#include "lab/oracle/oracle.h"
#include "spc.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Fills the other fields of a submanifold geometry. */
#define UNIT                                                                   \
    .stride = {1, 1, 1},                                                       \
    .origin = {SPC_ORIGIN_AUTO, SPC_ORIGIN_AUTO, SPC_ORIGIN_AUTO}

static spc_error error;

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

/* ---- the convolution ----------------------------------------------------- */

static int offsets_of(const spc_conv *conv)
{
    return spc_geometry_offset_count(&conv->geometry);
}

typedef struct layer {
    spc_conv conv;
    spc_scene *scene;
    int64_t rows;
    spc_relation relation;
    const int32_t *index; /* the voxel itself */
    float *in, *weights, *bias;
    double *out, *magnitude;
} layer;

static void fill(float *values, size_t n, uint64_t seed)
{
    spc__random random;
    spc__random_init(&random, seed);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(2 * spc__random_unit(&random) - 1);
}

static void layer_create(layer *l, const char *scene, const char *text)
{
    memset(l, 0, sizeof(*l));
    assert_ok(spc_conv_parse(&l->conv, text, &error));
    assert_ok(spc_scene_load(&l->scene, scene, &error));
    l->rows = spc_scene_rows(l->scene);
    size_t rows = (size_t)l->rows, k = (size_t)offsets_of(&l->conv);
    size_t cin = (size_t)l->conv.cin, cout = (size_t)l->conv.cout;
    l->in = malloc(rows * cin * sizeof(float));
    l->weights = malloc(k * cin * cout * sizeof(float));
    l->bias = malloc(cout * sizeof(float));
    l->out = malloc(rows * cout * sizeof(double));
    l->magnitude = malloc(rows * cout * sizeof(double));
    fill(l->in, rows * cin, 1);
    fill(l->weights, k * cin * cout, 2);
    fill(l->bias, cout, 3);
    assert_ok(spc_oracle_relation(&l->relation, &l->conv, l->scene, 2, &error));
    l->index = l->relation.index;
}

static void layer_free(layer *l)
{
    spc_scene_free(l->scene);
    spc_relation_release(&l->relation);
    free(l->in);
    free(l->weights);
    free(l->bias);
    free(l->out);
    free(l->magnitude);
}

/* Computes one output by the definition, with the sum in double or in float. */
static double define(const layer *l, int64_t row, int co, bool in_float,
                     double *magnitude, int64_t *terms)
{
    double sum = l->conv.bias ? l->bias[co] : 0, size = fabs(sum);
    float narrow = (float)sum;
    int offsets = offsets_of(&l->conv), groups = l->conv.groups;
    int cin = l->conv.cin / groups, group = co / (l->conv.cout / groups);

    *terms = 0;
    for (int k = 0; k < offsets; k++) {
        int32_t from = l->index[k * l->rows + row];
        for (int ci = 0; ci < cin && from >= 0; ci++, ++*terms) {
            float x = l->in[((int64_t)from * groups + group) * cin + ci];
            float w = l->weights[((int64_t)co * offsets + k) * cin + ci];
            sum += (double)x * w;
            size += fabs((double)x * w);
            narrow += x * w;
        }
    }
    *magnitude = size;
    return in_float ? narrow : sum;
}

static const struct {
    const char *scene, *layer;
} layers[] = {
    {"gen:uniform,n=300,extent=10", "subm,cin=16,cout=16,k=3,dtype=f32"},
    {"gen:uniform,n=300,extent=10", "subm,cin=5,cout=3,k=3,dtype=f32,bias=1"},
    {"gen:uniform,n=300,extent=10", "subm,cin=1,cout=1,k=2,dtype=f16"},
    {"gen:uniform,n=200,extent=8", "subm,cin=7,cout=17,k=3x1x2,dtype=f16"},
    {"gen:uniform,n=100,extent=6,batch=3", "subm,cin=4,cout=9,k=5,dtype=tf32"},
    {"gen:uniform,n=1", "subm,cin=3,cout=8,k=3,dtype=f32,bias=1"},
    {"gen:uniform,n=60,extent=5", "subm,cin=2,cout=2,k=7,dtype=f32"},
    {"gen:uniform,n=200,extent=8",
     "subm,cin=6,cout=22,groups=2,k=3,dtype=f32,bias=1"},
    {"gen:uniform,n=200,extent=8", "subm,cin=19,cout=19,groups=19,k=3"},
    {"gen:uniform,n=200,extent=8",
     "subm,cin=5,cout=9,offsets=0x0x0+2x0x-1+0x-1x0,dtype=f32"},
};

START_TEST(the_oracle_computes_the_definition)
{
    layer l;
    layer_create(&l, layers[_i].scene, layers[_i].layer);
    for (int threads = 1; threads <= 4; threads++) {
        spc_oracle_sums(l.out, threads == 3 ? NULL : l.magnitude, &l.conv,
                        l.index, l.rows, l.in, l.weights, l.bias, threads);
        for (int64_t i = 0; i < l.rows * l.conv.cout; i++) {
            double size;
            int64_t terms;
            double want = define(&l, i / l.conv.cout, (int)(i % l.conv.cout),
                                 false, &size, &terms);
            ck_assert_double_eq_tol(l.out[i], want, 1e-13 * size);
            ck_assert_double_eq_tol(l.magnitude[i], size, 1e-13 * size);
        }
    }
    layer_free(&l);
}
END_TEST

START_TEST(the_number_of_threads_changes_no_bit)
{
    layer l;
    layer_create(&l, "gen:uniform,n=3000,extent=20",
                 "subm,cin=12,cout=20,k=3,dtype=f32");
    size_t bytes = (size_t)l.rows * 20 * sizeof(double);
    double *other = malloc(bytes);
    spc_oracle_sums(l.out, NULL, &l.conv, l.index, l.rows, l.in, l.weights,
                    NULL, 1);
    spc_oracle_sums(other, l.magnitude, &l.conv, l.index, l.rows, l.in,
                    l.weights, NULL, 4);
    ck_assert_mem_eq(l.out, other, bytes);
    free(other);
    layer_free(&l);
}
END_TEST

static void *cancel_soon(void *payload)
{
    nanosleep(&(struct timespec){0, 100 * 1000 * 1000}, NULL);
    __atomic_store_n((volatile int *)payload, 1, __ATOMIC_RELAXED);
    return NULL;
}

START_TEST(a_cancelled_oracle_ends_soon)
{
    enum { ROWS = 20000, CHANNELS = 256, OFFSETS = 27 };
    spc_conv conv = {.cin = CHANNELS,
                     .cout = CHANNELS,
                     .groups = 1,
                     .geometry = {.kernel = {3, 3, 3}, UNIT}};
    /* Every neighbour is row 0, so the oracle would need half a minute. */
    int32_t *index = calloc((size_t)ROWS * OFFSETS, sizeof(*index));
    float *weights = calloc((size_t)OFFSETS * CHANNELS * CHANNELS, 4);
    double *out = malloc((size_t)ROWS * CHANNELS * sizeof(*out));
    float in[CHANNELS] = {0};
    volatile int cancel = 0;
    pthread_t thread;

    uint64_t start = spc__now_ns();
    ck_assert_int_eq(
        pthread_create(&thread, NULL, cancel_soon, (void *)&cancel), 0);
    spc__seen seen = {index, NULL, OFFSETS};
    ck_assert_int_eq(spc__oracle(out, NULL, &conv, &seen, ROWS, in, weights,
                                 NULL, 2, &cancel, &error),
                     SPC_EINTERRUPTED);
    ck_assert_double_lt((double)(spc__now_ns() - start) * 1e-9, 5);
    pthread_join(thread, NULL);
    free(index);
    free(weights);
    free(out);
}
END_TEST

START_TEST(no_rows_are_no_work)
{
    spc_conv conv = SPC_CONV_INIT;
    float weights[27] = {0};
    conv.cin = conv.cout = 1;
    spc_oracle_sums(NULL, NULL, &conv, NULL, 0, NULL, weights, NULL, 0);
}
END_TEST

/* ---- the tolerance ------------------------------------------------------- */

START_TEST(a_sum_in_float_is_within_the_tolerance)
{
    layer l;
    double worst = 0;
    layer_create(&l, layers[_i].scene, layers[_i].layer);
    spc_oracle_sums(l.out, l.magnitude, &l.conv, l.index, l.rows, l.in,
                    l.weights, l.bias, 2);
    for (int64_t i = 0; i < l.rows * l.conv.cout; i++) {
        double size;
        int64_t terms;
        double got = define(&l, i / l.conv.cout, (int)(i % l.conv.cout), true,
                            &size, &terms);
        if (l.conv.dtype == SPC_F16)
            got = spc__half_to_float(spc__half_from_float((float)got));
        double limit = spc__tolerance(&l.conv, l.out[i], l.magnitude[i], terms);
        double ratio = fabs(got - l.out[i]) / limit;
        worst = ratio > worst ? ratio : worst;
    }
    ck_assert_double_le(worst, 1);
    layer_free(&l);
}
END_TEST

START_TEST(a_missing_product_is_beyond_the_tolerance)
{
    layer l;
    layer_create(&l, "gen:uniform,n=300,extent=8",
                 "subm,cin=32,cout=4,k=3,dtype=f32");
    spc_oracle_sums(l.out, l.magnitude, &l.conv, l.index, l.rows, l.in,
                    l.weights, NULL, 2);
    int caught = 0;
    for (int64_t i = 0; i < l.rows * 4; i++) {
        double size;
        int64_t terms, row = i / 4;
        double got = define(&l, row, (int)(i % 4), true, &size, &terms);
        int32_t self = l.index[13 * l.rows + row];
        got -= l.in[self * 32] * l.weights[((i % 4) * 27 + 13) * 32];
        caught += fabs(got - l.out[i]) >
                  spc__tolerance(&l.conv, l.out[i], l.magnitude[i], terms);
    }
    ck_assert_int_gt(caught, (int)(l.rows * 4 * 9 / 10));
    layer_free(&l);
}
END_TEST

START_TEST(types_with_fewer_bits_have_wider_tolerances)
{
    spc_conv f32 = {.dtype = SPC_F32}, tf32 = {.dtype = SPC_TF32};
    spc_conv f16 = {.dtype = SPC_F16};
    double narrow = spc__tolerance(&f32, 1, 1, 100);
    ck_assert_double_lt(narrow, spc__tolerance(&f16, 1, 1, 100));
    ck_assert_double_lt(spc__tolerance(&f16, 1, 1, 100),
                        spc__tolerance(&tf32, 1, 1, 100));
    ck_assert_double_lt(narrow, 1e-4);
    ck_assert_double_gt(spc__tolerance(&f16, 0, 0, 0), 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("oracle");
    TCase *conv = tcase_create("convolution");
    TCase *tolerance = tcase_create("tolerance");

    tcase_set_timeout(conv, 60);
    tcase_add_loop_test(conv, the_oracle_computes_the_definition, 0,
                        LENGTH(layers));
    tcase_add_test(conv, the_number_of_threads_changes_no_bit);
    tcase_add_test(conv, no_rows_are_no_work);
    tcase_add_test(conv, a_cancelled_oracle_ends_soon);
    suite_add_tcase(s, conv);

    tcase_add_loop_test(tolerance, a_sum_in_float_is_within_the_tolerance, 0,
                        LENGTH(layers));
    tcase_add_test(tolerance, a_missing_product_is_beyond_the_tolerance);
    tcase_add_test(tolerance, types_with_fewer_bits_have_wider_tolerances);
    suite_add_tcase(s, tolerance);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
