/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_net_points.c - networks that first turn points into voxels.
 *
 * Without an argument it runs on "cpu" and "sim", small, and on the fake driver
 * (ctest sets LD_LIBRARY_PATH for it); with a device as argument it runs there.
 */
#include "harness/net_harness.h"

#include <math.h>

enum { POINTS = 500, NUMBERS = 5 };

/* Makes points within the grid and some outside. They have batch elements if
 * `numbers` is 5. */
static void draw_points(float *out, int rows, int numbers, uint64_t seed)
{
    static const float low[3] = {-6.5f, -4.25f, -1}, wide[3] = {13, 9, 2};
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < rows; i++) {
        float *at = out + i * numbers + (numbers == NUMBERS);
        out[i * numbers] = (float)spc__random_below(&random, 2);
        for (int a = 0; a < 3; a++)
            at[a] = low[a] + wide[a] * (float)spc__random_unit(&random);
        at[3] = (float)spc__random_unit(&random);
    }
}

static spc_net_options options_of(int batches)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;

    o.capacity = POINTS;
    o.points = POINTS;
    o.growth = 0;
    o.high[0] = batches - 1;
    o.keep = true;
    return o;
}

/* Plans with points instead of coordinates and features. */
static void give_points(harness *r, const float *points, int rows, int numbers)
{
    int32_t count = rows;
    size_t bytes = 4 * (size_t)rows * (size_t)numbers;

    r->buffers.points = r->features;
    assert_ok(r->ctx, spc_memory_upload(r->features, r->ctx, points, bytes));
    assert_ok(r->ctx, spc_memory_upload(r->count, r->ctx, &count, 4));
}

/* With f32 features a row has room for all numbers of a point. */
static void open_points(harness *r, int device, spc_dtype dtype, int batches)
{
    spc_net_options o = options_of(batches);

    load(r, "points.lua", dtype);
    open_context(r, device < 0 ? "cuda" : device_of(device));
    plan_net(r, &o);
    spc_memory_free(r->ctx, r->features);
    r->features = take(r, 4 * POINTS * NUMBERS);
}

START_TEST(points_go_in_and_all_is_as_the_oracle_says)
{
    static const int rows[] = {POINTS, 0, 1, 130};
    float points[POINTS * NUMBERS];
    int batches = 1 + _i % 2, numbers = batches > 1 ? 5 : 4;
    spc_net_verdict verdict;
    spc_net_step step;
    harness r;

    open_points(&r, _i / 2, _i % 2 ? SPC_F16 : SPC_F32, batches);
    for (int i = 0; i < LENGTH(rows); i++) {
        draw_points(points, rows[i], numbers, (uint64_t)(10 * _i + i));
        give_points(&r, points, rows[i], numbers);
        poison(&r);
        assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
        assert_ok(r.ctx, spc_net_plan_check(r.plan, NULL));
        assert_ok(r.ctx,
                  spc_net_plan_verify(&verdict, r.plan, &r.buffers, NULL));
        ck_assert_int_eq(verdict.layers, 3);
        ck_assert_int_eq(spc_net_plan_step_at(&step, r.plan, 0), SPC_OK);
        ck_assert_str_eq(step.name, "voxels");
        ck_assert_int_eq(step.rows_in, rows[i]);
        if (rows[i] != 1) /* row 0 may be outside */
            ck_assert((step.rows_out > 0) == (rows[i] > 0));
    }
    close_harness(&r);
}
END_TEST

/* A NaN point is left out and reported. */
START_TEST(bad_points_do_no_harm)
{
    float points[POINTS * NUMBERS];
    spc_net_verdict verdict;
    int32_t many = POINTS + 1;
    harness r;

    open_points(&r, 0, SPC_F32, 1);
    draw_points(points, POINTS, 4, 5);
    points[4 * 77 + 1] = NAN;
    give_points(&r, points, POINTS, 4);
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
    ck_assert_int_eq(spc_net_plan_check(r.plan, NULL), SPC_ERANGE);
    ck_assert_ptr_nonnull(strstr(
        spc_ctx_error(r.ctx), "the points: 1 point left out: NaN or infinite "
                              "coordinate; the first is point 77"));
    assert_ok(r.ctx, spc_net_plan_verify(&verdict, r.plan, &r.buffers, NULL));
    assert_ok(r.ctx, spc_memory_upload(r.count, r.ctx, &many, 4));
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
    ck_assert_int_eq(spc_net_plan_check(r.plan, NULL), SPC_ECAPACITY);
    r.buffers.points = NULL;
    ck_assert_int_eq(spc_net_plan_execute(r.plan, &r.buffers, NULL),
                     SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(r.ctx), "`points` is NULL"));
    close_harness(&r);
}
END_TEST

static void refuse(const char *text, int64_t points, const char *says)
{
    spc_net_options o = options_of(1);
    harness r = {0};

    assert_net(load_text(&r.net, text, SPC_F32));
    assert_net(spc_net_init_params(r.net, 1, &error));
    open_context(&r, "cpu");
    o.points = points;
    ck_assert_int_eq(spc_net_plan_create(&r.plan, r.ctx, r.net, &o),
                     SPC_EINVAL);
    ck_assert_msg(strstr(spc_ctx_error(r.ctx), says) != NULL, "%s",
                  spc_ctx_error(r.ctx));
    spc_net_free(r.net);
    spc_ctx_free(r.ctx);
}

START_TEST(networks_without_a_grid_take_no_points)
{
    static const char end[] = " output(conv(x, 'subm,cout=4,k=1'))";
    char text[400];
    spc_net *net;

    snprintf(text, sizeof(text), "local x = input {channels = 4}%s", end);
    refuse(text, 5, "cannot turn points into voxels");
    refuse(text, -1, "scenes of -1 points");
    ck_assert_int_eq(
        load_text(&net, "input {channels = 4, points = -2}", SPC_F32),
        SPC_ETEMPLATE);
    ck_assert_ptr_nonnull(strstr(error.text, "-2 points of a voxel"));
}
END_TEST

START_TEST(a_run_is_nothing_but_launches_and_a_replay_is_one)
{
    harness r;

    open_doubles();
    open_points(&r, -1, SPC_F16, 1);
    r.buffers.points = r.features;
    count_calls(&r, 8);
    close_harness(&r);
    ck_assert_int_eq(fake->live.memory, 0);
}
END_TEST

/* Returns the last launch of this kernel in the graph. */
static size_t last_node(const char *kernel, size_t nodes)
{
    size_t found = 0;

    for (size_t n = 1; n <= nodes; n++)
        if (is_kernel(launch_at(n), kernel))
            found = n;
    ck_assert_uint_gt(found, 0);
    return found;
}

/* All sets of a graph, and therefore all maps and layers, depend on the voxels
 * of the points. */
START_TEST(in_a_graph_all_waits_for_the_voxels)
{
    harness r;

    open_doubles();
    open_points(&r, -1, SPC_F16, 1);
    r.buffers.points = r.features;
    r.buffers.count = r.count;
    int launched = fake->launches;
    assert_ok(r.ctx, spc_net_plan_capture(r.plan, &r.buffers));
    size_t nodes = (size_t)(fake->launches - launched);
    size_t voxels = last_node("spc_voxel_fill", nodes);
    for (size_t n = voxels + 1; n <= nodes; n++)
        ck_assert(follows(launch_at(n), voxels));
    ck_assert_uint_gt(nodes, voxels + 5);
    const fake_launch *derive = launch_at(last_node("spc_derive", nodes));
    ck_assert_ptr_eq(derive->args.derive.source,
                     spc_voxels_device_count(r.plan->voxels));
    close_harness(&r);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    TCase *tc = tcase_create("points");
    Suite *suite = suite_create("net_points");
    tcase_set_timeout(tc, 300);
    suite_add_tcase(suite, tc);
    tcase_add_loop_test(tc, points_go_in_and_all_is_as_the_oracle_says, 0,
                        suite_device != NULL ? 2 : 4);
    tcase_add_test(tc, bad_points_do_no_harm);
    if (suite_device == NULL) {
        tcase_add_test(tc, networks_without_a_grid_take_no_points);
        tcase_add_test(tc, a_run_is_nothing_but_launches_and_a_replay_is_one);
        tcase_add_test(tc, in_a_graph_all_waits_for_the_voxels);
    }
    return run_suite(suite);
}
