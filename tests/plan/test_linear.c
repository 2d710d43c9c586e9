/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_linear.c - linear layers without a map process as many rows as a count
 * on the host or device says, and write nothing after these rows.
 *
 *     test_linear [sim|cpu|cuda]
 */
#include "base/random.h"
#include "context/ctx.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"
#include "plan/plan.h"

#include <stdlib.h>

enum { ROWS = 200, CIN = 12, COUT = 20 };

static const char layer[] = "linear,cin=12,cout=20,dtype=f32,bias=1";

static spc_error error;

typedef struct run {
    spc_ctx *ctx;
    spc_conv conv;
    spc_plan *plan;
    spc_buffers buffers;
    void *packed, *in, *out, *weights, *bias, *work;
    float host_in[ROWS][CIN], host_weights[COUT][CIN], host_bias[COUT];
} run;

static void *upload(const run *r, const void *from, size_t bytes)
{
    void *to = NULL;

    assert_ok(spc_memory_alloc(&to, r->ctx, bytes), spc_ctx_error(r->ctx));
    assert_ok(spc_memory_upload(to, r->ctx, from, bytes),
              spc_ctx_error(r->ctx));
    return to;
}

/* Returns a small integer, so that sums are exact. */
static void draw(float *out, size_t n, spc__random *random)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)spc__random_below(random, 9) - 4;
}

static void open_run(run *r, const char *device)
{
    spc__random random;

    memset(r, 0, sizeof(*r));
    r->ctx = open_ctx(device, suite_database(), NULL);
    assert_ok(spc_conv_parse(&r->conv, layer, &error), error.text);
    ck_assert(spc_conv_is_linear(&r->conv));
    assert_ok(spc_plan_create_linear(&r->plan, r->ctx, &r->conv, ROWS,
                                     SPC_PLAN_ESTIMATE),
              spc_ctx_error(r->ctx));
    spc__random_init(&random, 5);
    draw(r->host_in[0], ROWS * CIN, &random);
    draw(r->host_weights[0], COUT * CIN, &random);
    draw(r->host_bias, COUT, &random);
    r->in = upload(r, r->host_in, sizeof(r->host_in));
    r->weights = upload(r, r->host_weights, sizeof(r->host_weights));
    r->bias = upload(r, r->host_bias, sizeof(r->host_bias));
    assert_ok(spc_memory_alloc(&r->out, r->ctx, ROWS * COUT * 4),
              spc_ctx_error(r->ctx));
    assert_ok(spc_memory_alloc(&r->work, r->ctx,
                               spc_plan_workspace_bytes_linear(r->plan, ROWS)),
              spc_ctx_error(r->ctx));
    assert_ok(
        spc_memory_alloc(&r->packed, r->ctx, spc_plan_weights_bytes(r->plan)),
        spc_ctx_error(r->ctx));
    assert_ok(spc_plan_pack(r->packed, r->plan, r->weights, SPC_KRSC, NULL),
              spc_ctx_error(r->ctx));
    r->buffers = (spc_buffers){.bytes = sizeof(spc_buffers),
                               .in = r->in,
                               .out = r->out,
                               .weights = r->packed,
                               .bias = r->bias,
                               .workspace = r->work};
}

static void close_run(run *r)
{
    void *const all[] = {r->in,   r->out,  r->weights,
                         r->bias, r->work, r->packed};

    for (int i = 0; i < LENGTH(all); i++)
        spc_memory_free(r->ctx, all[i]);
    spc_plan_free(r->plan);
    spc_ctx_free(r->ctx);
}

static float expected(const run *r, int row, int co)
{
    float sum = r->host_bias[co];

    for (int ci = 0; ci < CIN; ci++)
        sum += r->host_in[row][ci] * r->host_weights[co][ci];
    return sum;
}

/* Returns the value that `poison` gives to each output. */
static float before_run(void)
{
    float value;

    memset(&value, 0x7f, sizeof(value));
    return value;
}

static void poison(const run *r)
{
    static float out[ROWS][COUT];

    memset(out, 0x7f, sizeof(out));
    assert_ok(spc_memory_upload(r->out, r->ctx, out, sizeof(out)),
              spc_ctx_error(r->ctx));
}

/* Checks that the first `count` rows are computed, and that the other rows are
 * unchanged. */
static void check_output(const run *r, int rows, int count)
{
    static float out[ROWS][COUT];
    float before = before_run();

    assert_ok(spc_ctx_synchronize(r->ctx), spc_ctx_error(r->ctx));
    assert_ok(spc_memory_download(out, r->ctx, r->out, sizeof(out)),
              spc_ctx_error(r->ctx));
    for (int row = 0; row < ROWS; row++)
        for (int co = 0; co < COUT; co++) {
            float want = row < count ? expected(r, row, co) : before;
            if (out[row][co] != want)
                ck_abort_msg("of %d rows, %d there: row %d, channel %d is %g, "
                             "must be %g",
                             rows, count, row, co, (double)out[row][co],
                             (double)want);
        }
}

/* Runs with capacity `rows`, of which `count` are used. */
static void check_rows(const run *r, int rows, const int32_t *device_count,
                       int count)
{
    poison(r);
    assert_ok(
        spc_plan_execute_linear(r->plan, rows, device_count, &r->buffers, NULL),
        spc_ctx_error(r->ctx));
    check_output(r, rows, count);
}

static const char *device_of(int i)
{
    return suite_device != NULL ? suite_device : i == 0 ? "sim" : "cpu";
}

START_TEST(a_linear_layer_runs_on_so_many_rows)
{
    static const int32_t counts[] = {0, 1, 63, 64, 129, ROWS, -1, ROWS + 1};
    run r;

    open_run(&r, device_of(_i));
    for (int i = 0; i < LENGTH(counts); i++) {
        int32_t count = counts[i];
        bool fits = count >= 0 && count <= ROWS;
        void *device = upload(&r, &count, sizeof(count));
        check_rows(&r, ROWS, device, fits ? count : 0);
        if (fits)
            check_rows(&r, count, NULL, count);
        spc_memory_free(r.ctx, device);
    }
    close_run(&r);
}
END_TEST

/* Fills the layout separately from the launch, like a network. */
START_TEST(a_plan_that_is_bound_to_a_layout_runs_on_so_many_rows)
{
    static const int32_t counts[] = {ROWS, 0, 65};
    spc__binding *binding;
    run r;

    open_run(&r, device_of(_i));
    void *layout = NULL;
    assert_ok(
        spc_memory_alloc(&layout, r.ctx, spc__plan_rows_bytes(r.plan, ROWS)),
        spc_ctx_error(r.ctx));
    assert_ok(spc__plan_bind_rows(&binding, r.plan, layout, ROWS),
              spc_ctx_error(r.ctx));
    for (int i = 0; i < LENGTH(counts); i++) {
        void *count = upload(&r, &counts[i], sizeof(counts[i]));
        poison(&r);
        assert_ok(spc__plan_lay_rows(r.plan, layout, ROWS, count, NULL),
                  spc_ctx_error(r.ctx));
        assert_ok(spc__plan_execute_bound(r.plan, binding, &r.buffers, NULL),
                  spc_ctx_error(r.ctx));
        check_output(&r, ROWS, counts[i]);
        spc_memory_free(r.ctx, count);
    }
    r.buffers.out = r.in;
    ck_assert_int_eq(spc__plan_execute_bound(r.plan, binding, &r.buffers, NULL),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(r.ctx), "buffers `out` and `in` overlap");
    free(binding);
    spc_memory_free(r.ctx, layout);
    close_run(&r);
}
END_TEST

/* The same plan runs with a map. */
START_TEST(the_same_plan_runs_on_a_map)
{
    if (!suite_takes(_i))
        return;
    run r;
    spc_scene *scene = NULL;
    spc_map *map = NULL;
    static int32_t coords[ROWS][4];
    static float out[ROWS][COUT];

    open_run(&r, device_of(_i));
    for (int i = 0; i < ROWS; i++)
        coords[i][1] = (i * 77) % ROWS;
    assert_ok(spc_scene_create(&scene, coords[0], ROWS, "", &error),
              error.text);
    assert_ok(spc_map_create_from_scene(&map, r.ctx, &r.conv, scene),
              spc_ctx_error(r.ctx));
    assert_ok(spc_map_prepare(map, r.plan, NULL), spc_ctx_error(r.ctx));
    ck_assert_uint_le(spc_plan_workspace_bytes(r.plan, map),
                      spc_plan_workspace_bytes_linear(r.plan, ROWS));
    assert_ok(spc_plan_execute(r.plan, map, &r.buffers, NULL),
              spc_ctx_error(r.ctx));
    assert_ok(spc_ctx_synchronize(r.ctx), spc_ctx_error(r.ctx));
    assert_ok(spc_memory_download(out, r.ctx, r.out, sizeof(out)),
              spc_ctx_error(r.ctx));
    for (int row = 0; row < ROWS; row++)
        for (int co = 0; co < COUT; co++)
            ck_assert_float_eq(out[row][co], expected(&r, row, co));
    spc_map_free(map);
    spc_scene_free(scene);
    close_run(&r);
}
END_TEST

static void refuse(const run *r, spc_status got, spc_status want,
                   const char *says)
{
    ck_assert_int_eq(got, want);
    assert_says(spc_ctx_error(r->ctx), says);
}

START_TEST(what_cannot_run_on_rows_is_refused_with_a_sentence)
{
    if (!suite_takes(_i))
        return;
    run r;
    spc_conv conv = SPC_CONV_INIT;
    spc_plan *plan = NULL;
    spc_scene *scene = NULL;
    spc_map *map = NULL;
    spc_buffers none = SPC_BUFFERS_INIT;

    open_run(&r, device_of(_i));
    conv.cin = conv.cout = 8;
    ck_assert(!spc_conv_is_linear(&conv) && !spc_conv_is_linear(NULL));
    refuse(&r, spc_plan_create_linear(&plan, r.ctx, &conv, 10, 0), SPC_EINVAL,
           "the layer needs a map");
    refuse(&r, spc_plan_create_linear(&plan, r.ctx, &r.conv, -1, 0), SPC_EINVAL,
           "cannot run on -1 rows");
    refuse(&r, spc_plan_create_linear(&plan, r.ctx, &r.conv, 1, 64), SPC_EINVAL,
           "unknown plan flags");
    refuse(&r, spc_plan_create_linear(&plan, r.ctx, NULL, 1, 0), SPC_EINVAL,
           "conv");
    refuse(&r,
           spc_plan_execute_linear(r.plan, 3000000000, NULL, &r.buffers, NULL),
           SPC_EINVAL, "3000000000 rows");
    refuse(&r, spc_plan_execute_linear(r.plan, 5, NULL, NULL, NULL), SPC_EINVAL,
           "the buffers are NULL");
    none.in = r.in;
    refuse(&r, spc_plan_execute_linear(r.plan, 5, NULL, &none, NULL),
           SPC_EINVAL, "buffer `out` is NULL");
    none = r.buffers;
    none.workspace = NULL;
    refuse(&r, spc_plan_execute_linear(r.plan, 5, NULL, &none, NULL),
           SPC_EINVAL, "buffer `workspace` is NULL");
    assert_ok(spc_plan_execute_linear(r.plan, 0, NULL, NULL, NULL),
              spc_ctx_error(r.ctx));

    assert_ok(spc_scene_load(&scene, "gen:uniform,n=9,extent=4", &error),
              error.text);
    assert_ok(spc_map_create_from_scene(&map, r.ctx, &r.conv, scene),
              spc_ctx_error(r.ctx));
    assert_ok(spc_plan_create(&plan, r.ctx, &r.conv, map, SPC_PLAN_ESTIMATE),
              spc_ctx_error(r.ctx));
    refuse(&r, spc_plan_execute_linear(plan, 5, NULL, &r.buffers, NULL),
           SPC_ESTATE, "spc_plan_create_linear makes one");
    spc_plan_free(plan);
    spc_map_free(map);
    spc_scene_free(scene);
    close_run(&r);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    suite_sample(2);
    Suite *suite = suite_create("linear");
    TCase *tcase = tcase_create("linear");
    int devices = suite_device != NULL ? 1 : 2;

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_linear_layer_runs_on_so_many_rows, 0, devices);
    tcase_add_loop_test(tcase,
                        a_plan_that_is_bound_to_a_layout_runs_on_so_many_rows,
                        0, devices);
    tcase_add_loop_test(tcase, the_same_plan_runs_on_a_map, 0, devices);
    tcase_add_loop_test(
        tcase, what_cannot_run_on_rows_is_refused_with_a_sentence, 0, devices);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
