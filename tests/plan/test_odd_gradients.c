/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_odd_gradients.c - weight gradients with inputs or output gradients that
 * are infinite or NaN. Exactly the sums that contain such values must be
 * infinite or NaN. Kernels that multiply by zeros for absent rows must take
 * care of this. All values are small integers, so that sums are exact.
 *
 *     test_odd_gradients [sim|cpu|cuda]
 */
#include "base/dtype.h"
#include "base/random.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"
#include "operators/operands.h"
#include "plan/plan.h"
#include "spc/tune.h"

#include <math.h>
#include <stdlib.h>

static const char *const devices[] = {"cpu", "sim"};
enum { DEVICES = 2 };

static spc_error error;

static const char *const layers[] = {
    "subm,cin=16,cout=16,k=3,dtype=f16,out=f32,pass=wgrad",
    "subm,cin=8,cout=24,k=3,dtype=bf16,pass=wgrad",
    ("conv,cin=32,cout=64,k=3,stride=2,padding=1,rule=footprint,dtype=f16,"
     "pass=wgrad"),
    "inverse,cin=64,cout=16,k=2,stride=2,rule=floor,dtype=bf16,pass=wgrad",
    "subm,cin=32,cout=16,k=5,dtype=f16,pass=wgrad",
    "subm,cin=10,cout=6,k=3,dtype=f32,pass=wgrad",
    "subm,cin=16,cout=8,k=3,dtype=tf32,pass=wgrad",
    "subm,cin=12,cout=8,groups=2,k=3,dtype=f16,bias=1,pass=wgrad",
};

/* The rows fill two tiles and a part of a third. Cells have neighbours at some
 * offsets only. */
#define SCENE "gen:uniform,n=150,extent=9"

/* A value that is not finite: its array, its position among the rows, and the
 * value. */
static const struct odd {
    bool of_dy;
    struct {
        double row; /* 0: the first, 1: the last */
        float value;
    } at[2];
} odds[] = {
    {true, {{0.4, NAN}}},
    {true, {{0.6, INFINITY}, {1, -INFINITY}}},
    {true, {{0, NAN}, {0.9, INFINITY}}},
    {false, {{0.3, NAN}}},
    {false, {{0, INFINITY}, {0.7, -INFINITY}}},
    {false, {{1, NAN}, {0.5, -INFINITY}}},
};

/* ---- candidates ---------------------------------------------------------- */

enum { MOST = 2000 };

typedef struct candidate {
    char template_name[32], config[256];
    bool is_default;
} candidate;

typedef struct candidates {
    candidate at[MOST];
    int count;
} candidates;

static void note(const spc_trial *trial, void *payload)
{
    candidates *all = payload;

    if (strcmp(trial->status, "ok") != 0)
        return;
    ck_assert_int_lt(all->count, MOST);
    candidate *next = &all->at[all->count++];
    snprintf(next->template_name, sizeof(next->template_name), "%s",
             trial->template_name);
    snprintf(next->config, sizeof(next->config), "%s", trial->config);
    next->is_default = trial->is_default;
}

static void list(candidates *out, spc_ctx *ctx, const spc_conv *conv)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;

    out->count = 0;
    options.stage = SPC_STAGE_LIST;
    options.on_trial = note;
    options.payload = out;
    assert_ok(spc_tune(&report, ctx, conv, NULL, 0, &options),
              spc_ctx_error(ctx));
    ck_assert_int_gt(out->count, 0);
}

/* Parameter values of earlier candidates, each with its template: "wgrad_mma
 * stages=3". */
typedef struct values {
    char at[400][128];
    int count;
} values;

/* Adds a value. Returns false if it exists already. */
static bool add_value(values *to, const char *template_name, const char *word,
                      int length)
{
    char *next = to->at[to->count];

    ck_assert_int_lt(to->count, LENGTH(to->at));
    snprintf(next, sizeof(to->at[0]), "%s %.*s", template_name, length, word);
    for (int i = 0; i < to->count; i++)
        if (strcmp(to->at[i], next) == 0)
            return false;
    to->count++;
    return true;
}

/* True if the candidate has a parameter value that no earlier one had. */
static bool adds_values(values *to, const candidate *which)
{
    const char *word = which->config;
    bool adds = false;

    while (*word != '\0') {
        int length = (int)strcspn(word, ",");
        adds |= add_value(to, which->template_name, word, length);
        word += length + (word[length] == ',');
    }
    return adds;
}

static spc_plan *plan_of(spc_ctx *ctx, const spc_conv *conv, spc_map *map,
                         const candidate *which)
{
    spc__attrs problem = {0}, config;
    spc__code code = {0};
    spc_plan *plan;

    spc__conv_attrs(&problem, conv);
    assert_ok(spc__attrs_parse(&config, which->config, &error), error.text);
    assert_ok(
        spc__ctx_code(&code, ctx, which->template_name, &problem, &config, 0),
        spc_ctx_error(ctx));
    assert_ok(spc__plan_create_from(&plan, ctx, conv, &code,
                                    which->template_name, which->config),
              spc_ctx_error(ctx));
    assert_ok(spc__plan_prepare(plan, map), spc_ctx_error(ctx));
    return plan;
}

/* ---- data ---------------------------------------------------------------- */

/* An array of rows on the host and on the device. */
typedef struct array {
    float *values;
    int64_t rows;
    int columns;
    spc_dtype dtype;
    void *device;
} array;

static array make_array(spc_ctx *ctx, int64_t rows, int columns,
                        spc_dtype dtype, spc__random *random)
{
    size_t n = (size_t)rows * (size_t)columns;
    array out = {malloc(n * sizeof(float)), rows, columns, dtype, NULL};

    for (size_t i = 0; i < n; i++)
        out.values[i] = (float)spc__random_below(random, 7) - 3;
    assert_ok(
        spc_memory_alloc(&out.device, ctx, n * spc__dtype_of(dtype)->bytes),
        spc_ctx_error(ctx));
    return out;
}

static void upload(const array *from, spc_ctx *ctx)
{
    const spc__dtype *type = spc__dtype_of(from->dtype);
    size_t n = (size_t)from->rows * (size_t)from->columns;
    void *bytes = malloc(n * type->bytes);

    type->encode(bytes, from->values, n);
    assert_ok(spc_memory_upload(from->device, ctx, bytes, n * type->bytes),
              spc_ctx_error(ctx));
    free(bytes);
}

static void download(const array *to, spc_ctx *ctx)
{
    const spc__dtype *type = spc__dtype_of(to->dtype);
    size_t n = (size_t)to->rows * (size_t)to->columns;
    void *bytes = malloc(n * type->bytes);

    assert_ok(spc_memory_download(bytes, ctx, to->device, n * type->bytes),
              spc_ctx_error(ctx));
    type->decode(to->values, bytes, n);
    free(bytes);
}

static void free_array(array *from, spc_ctx *ctx)
{
    spc_memory_free(ctx, from->device);
    free(from->values);
}

/* Returns element i of an odd value. All are in one column, so that sums
 * contain several. */
static float *element_of(const array *of, const struct odd *odd, int i)
{
    int64_t row = (int64_t)(odd->at[i].row * (double)(of->rows - 1));

    return &of->values[row * of->columns + of->columns / 3];
}

/* ---- expected values ----------------------------------------------------- */

static void add_pair(double *sums, const spc_conv *conv, int64_t k,
                     const float *x, const float *dy)
{
    int in = conv->cin / conv->groups, out = conv->cout / conv->groups;

    for (int ci = 0; ci < in; ci++)
        for (int co = 0; co < conv->cout; co++)
            sums[(k * in + ci) * conv->cout + co] +=
                (double)x[co / out * in + ci] * (double)dy[co];
}

/* Computes the gradient by definition as [K][cin / groups][cout], and a row for
 * a bias. */
static void expect(double *sums, int64_t count, const spc_conv *conv,
                   const spc_relation *relation, const array *x,
                   const array *dy)
{
    int64_t bias = count - conv->cout;

    for (int64_t i = 0; i < count; i++)
        sums[i] = 0;
    for (int64_t row = 0; row < relation->rows_out; row++) {
        const float *gradient = dy->values + row * conv->cout;
        for (int64_t k = 0; k < relation->slots; k++) {
            int64_t from = relation->index[k * relation->rows_out + row];
            if (from >= 0)
                add_pair(sums, conv, k, x->values + from * conv->cin, gradient);
        }
        for (int co = 0; co < conv->cout && conv->bias; co++)
            sums[bias + co] += (double)gradient[co];
    }
}

/* A kernel may turn an infinity into NaN. */
static bool is_right(float got, float want)
{
    return isnan(want)   ? isnan(got)
           : isinf(want) ? isnan(got) || got == want
                         : got == want;
}

/* ---- one layer ----------------------------------------------------------- */

typedef struct bench {
    spc_ctx *ctx;
    spc_conv conv;
    spc_map *map;
    spc_relation relation;
    array x, dy, dw;
    float *want[LENGTH(odds)];
    int64_t count;
} bench;

static void swap_odd(const bench *b, const struct odd *odd, float *kept)
{
    const array *of = odd->of_dy ? &b->dy : &b->x;

    for (int i = 0; i < LENGTH(odd->at); i++) {
        float *at = element_of(of, odd, i), value = odd->at[i].value;
        if (value != 0) {
            kept[i] = *at;
            *at = value;
        }
    }
}

static void put_back(const bench *b, const struct odd *odd, const float *kept)
{
    const array *of = odd->of_dy ? &b->dy : &b->x;

    for (int i = LENGTH(odd->at) - 1; i >= 0; i--)
        if (odd->at[i].value != 0)
            *element_of(of, odd, i) = kept[i];
}

/* Returns the numbers in the result's type. The caller frees them. */
static float *expect_odd(const bench *b, const struct odd *odd)
{
    const spc__dtype *type = spc__dtype_of(b->dw.dtype);
    size_t n = (size_t)b->count;
    double *sums = malloc(n * sizeof(*sums));
    float *want = malloc(n * sizeof(*want)), kept[2];
    void *stored = malloc(n * type->bytes);

    swap_odd(b, odd, kept);
    expect(sums, b->count, &b->conv, &b->relation, &b->x, &b->dy);
    put_back(b, odd, kept);
    for (size_t i = 0; i < n; i++)
        want[i] = (float)sums[i];
    type->encode(stored, want, n);
    type->decode(want, stored, n);
    free(stored);
    free(sums);
    return want;
}

static void open_bench(bench *b, const char *device, const char *layer)
{
    spc_scene *scene;
    spc__random random;

    b->ctx = open_ctx(device, suite_database(), NULL);
    spc__random_init(&random, 11);
    assert_ok(spc_conv_parse(&b->conv, layer, &error), error.text);
    assert_ok(spc_scene_load(&scene, SCENE, &error), error.text);
    assert_ok(spc_map_create_from_scene(&b->map, b->ctx, &b->conv, scene),
              spc_ctx_error(b->ctx));
    assert_ok(spc_oracle_relation(&b->relation, &b->conv, scene, 0, &error),
              error.text);
    spc_scene_free(scene);
    b->x = make_array(b->ctx, b->relation.rows_in, b->conv.cin, b->conv.dtype,
                      &random);
    b->dy = make_array(b->ctx, b->relation.rows_out, b->conv.cout,
                       b->conv.dtype, &random);
    b->dw = make_array(
        b->ctx, spc__operand_of(&b->conv, SPC_OPERAND_OUT, 0).rows,
        b->conv.cout, spc__operand_of(&b->conv, SPC_OPERAND_OUT, 0).dtype,
        &random);
    b->count = b->dw.rows * b->dw.columns;
    for (int i = 0; i < LENGTH(odds); i++)
        b->want[i] = expect_odd(b, &odds[i]);
}

static void close_bench(bench *b)
{
    for (int i = 0; i < LENGTH(odds); i++)
        free(b->want[i]);
    free_array(&b->x, b->ctx);
    free_array(&b->dy, b->ctx);
    free_array(&b->dw, b->ctx);
    spc_relation_release(&b->relation);
    spc_map_free(b->map);
    spc_ctx_free(b->ctx);
}

/* Each value must occur in some sums but not in nearly all; otherwise the test
 * would show nothing. */
static void assert_asks(const bench *b)
{
    for (int i = 0; i < LENGTH(odds); i++) {
        int64_t numbers = 0;
        for (int64_t at = 0; at < b->count; at++)
            numbers += isfinite(b->want[i][at]) != 0;
        ck_assert_int_lt(numbers, b->count);
        ck_assert_int_gt(numbers, b->count / 2);
    }
}

static void check(const bench *b, const candidate *which, int odd,
                  const spc_plan *plan, void *work)
{
    spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                           .in = b->x.device,
                           .grad = b->dy.device,
                           .out = b->dw.device,
                           .workspace = work};
    float kept[2];

    swap_odd(b, &odds[odd], kept);
    upload(&b->x, b->ctx);
    upload(&b->dy, b->ctx);
    put_back(b, &odds[odd], kept);
    assert_ok(spc_plan_execute(plan, b->map, &buffers, NULL),
              spc_ctx_error(b->ctx));
    assert_ok(spc_ctx_synchronize(b->ctx), spc_ctx_error(b->ctx));
    download(&b->dw, b->ctx);
    for (int64_t i = 0; i < b->count; i++)
        ck_assert_msg(is_right(b->dw.values[i], b->want[odd][i]),
                      "%s %s, odd %d: element %lld is %g, must be %g",
                      which->template_name, which->config, odd, (long long)i,
                      (double)b->dw.values[i], (double)b->want[odd][i]);
}

static void check_candidate(const bench *b, const candidate *which)
{
    spc_plan *plan = plan_of(b->ctx, &b->conv, b->map, which);
    void *work;

    assert_ok(spc_memory_alloc(&work, b->ctx,
                               spc_plan_workspace_bytes(plan, b->map) + 16),
              spc_ctx_error(b->ctx));
    for (int odd = 0; odd < LENGTH(odds); odd++)
        check(b, which, odd, plan, work);
    spc_memory_free(b->ctx, work);
    spc_plan_free(plan);
}

/* The default of each template and a sample. A layer has up to a thousand
 * candidates, and compiling takes most of the time. A GPU therefore runs only
 * candidates with a new parameter value, so that every value runs once. */
static bool takes(const candidate *which, int number, values *taken)
{
    bool adds = suite_is_gpu() && adds_values(taken, which);

    return adds || which->is_default || suite_takes(number);
}

START_TEST(what_is_no_number_shows_in_the_sums_that_see_it)
{
    static candidates all;
    values taken = {.count = 0};
    bench b;

    open_bench(&b, suite_device != NULL ? suite_device : devices[_i % DEVICES],
               layers[suite_device != NULL ? _i : _i / DEVICES]);
    assert_asks(&b);
    list(&all, b.ctx, &b.conv);
    for (int i = 0; i < all.count; i++)
        if (takes(&all.at[i], i + _i, &taken))
            check_candidate(&b, &all.at[i]);
    close_bench(&b);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    suite_sample_everywhere(151);
    Suite *suite = suite_create("odd_gradients");
    TCase *tcase = tcase_create("gradients");

    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, what_is_no_number_shows_in_the_sums_that_see_it,
                        0,
                        LENGTH(layers) * (suite_device != NULL ? 1 : DEVICES));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
