/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_net_clouds.c - networks of clouds of points.
 *
 * Without an argument it runs on "cpu" and "sim", small, and on the fake driver
 * (ctest sets LD_LIBRARY_PATH for it); with a device as argument it runs there.
 */
#include "harness/net_harness.h"

#include "net/form/net_text.h"

enum { MOST = 64, STEPS = 900 };

/* ---- scenes and plans ---------------------------------------------------- */

/* Makes points in two batch elements, on a grid so coarse that some
 * coincide. */
static spc_scene *draw_points(int rows, uint64_t seed)
{
    int32_t *at = malloc(16 * (size_t)rows + 16);
    spc_scene *scene;
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < 4 * rows; i++)
        at[i] = i % 4 == 0
                    ? (int32_t)spc__random_below(&random, 2)
                    : (int32_t)spc__random_below(&random, STEPS / 64) * 64 -
                          STEPS / 2;
    assert_net(spc_scene_create(&scene, at, rows, "points", &error));
    free(at);
    return scene;
}

static spc_net_options options_of(const spc_scene *sample)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;

    o.capacity = MOST;
    o.high[0] = 1;
    for (int a = 1; a < 4; a++) {
        o.low[a] = -STEPS;
        o.high[a] = STEPS;
    }
    o.keep = true;
    o.sample = sample != NULL ? spc_scene_coords(sample) : NULL;
    o.sample_rows = sample != NULL ? spc_scene_rows(sample) : 0;
    return o;
}

static void open_clouds(harness *r, const char *device, spc_dtype dtype,
                        const spc_scene *sample)
{
    spc_net_options o = options_of(sample);

    load(r, "cloud.lua", dtype);
    open_context(r, device);
    plan_net(r, &o);
}

static void run_net(harness *r)
{
    poison(r);
    assert_ok(r->ctx, spc_net_plan_execute(r->plan, &r->buffers, NULL));
}

/* ---- properties ---------------------------------------------------------- */

/* Networks with and without sampling. If kernels are emulated, only one
 * runs. */
START_TEST(every_layer_is_as_the_oracle_says)
{
    static const int rows[] = {MOST, 0, 1};
    harness r;

    if (_i >= 2 && !suite_takes(_i))
        return;
    spc_scene *sample = draw_points(MOST, 5);
    open_clouds(&r, device_of(_i / 2), _i % 2 ? SPC_F16 : SPC_F32,
                _i % 2 ? sample : NULL);
    for (int i = 0; i < LENGTH(rows); i++) {
        spc_scene *scene = draw_points(rows[i], (uint64_t)(10 * _i + i));
        upload(&r, scene, (uint64_t)i);
        run_net(&r);
        check_run(&r, scene, false);
        spc_scene_free(scene);
    }
    close_harness(&r);
    spc_scene_free(sample);
}
END_TEST

/* Passes points as floats, with a separate array of batch elements. */
static void give_floats(harness *r, const spc_scene *scene, void **points,
                        void **batch)
{
    int rows = (int)spc_scene_rows(scene);
    const int32_t *at = spc_scene_coords(scene);
    float xyz[3 * MOST];
    int32_t of[MOST];

    for (int i = 0; i < rows; i++) {
        of[i] = at[4 * i];
        for (int a = 0; a < 3; a++)
            xyz[3 * i + a] = (float)at[4 * i + 1 + a] / 1024;
    }
    *points = take(r, sizeof(xyz));
    *batch = take(r, sizeof(of));
    assert_ok(r->ctx,
              spc_memory_upload(*points, r->ctx, xyz, 12 * (size_t)rows));
    assert_ok(r->ctx, spc_memory_upload(*batch, r->ctx, of, 4 * (size_t)rows));
    r->buffers.coords = NULL;
    r->buffers.points = *points;
    r->buffers.batch = *batch;
}

START_TEST(floats_steps_and_a_replay_give_the_same_bits)
{
    spc_scene *scene = draw_points(MOST, 3);
    size_t bytes, again;
    void *points, *batch;
    harness r;

    open_clouds(&r, device_of(0), SPC_F16, scene);
    upload(&r, scene, 1);
    run_net(&r);
    char *first = outputs_of(&r, &bytes);
    assert_ok(r.ctx, spc_net_plan_capture(r.plan, &r.buffers));
    poison(&r);
    assert_ok(r.ctx, spc_net_plan_replay(r.plan, NULL));
    char *second = outputs_of(&r, &again);
    ck_assert_uint_eq(bytes, again);
    ck_assert_mem_eq(first, second, bytes);
    free(second);
    give_floats(&r, scene, &points, &batch);
    run_net(&r);
    second = outputs_of(&r, &again);
    ck_assert_uint_eq(bytes, again);
    ck_assert_mem_eq(first, second, bytes);
    spc_memory_free(r.ctx, points);
    spc_memory_free(r.ctx, batch);
    free(first);
    free(second);
    close_harness(&r);
    spc_scene_free(scene);
}
END_TEST

/* Runs with a level that was smaller in the sample, points outside, and too
 * many points. */
START_TEST(what_does_not_fit_is_said)
{
    int32_t near[4 * MOST] = {0}, far[4] = {0, 0, 0, 2 * STEPS};
    spc_scene *sample, *wide = draw_points(MOST, 1), *out;
    harness r;

    assert_net(spc_scene_create(&sample, near, MOST, "near", &error));
    assert_net(spc_scene_create(&out, far, 1, "far", &error));
    open_clouds(&r, "cpu", SPC_F32, sample);
    upload(&r, wide, 1);
    run_net(&r);
    ck_assert_int_eq(spc_net_plan_check(r.plan, NULL), SPC_ECAPACITY);
    ck_assert_msg(strstr(spc_ctx_error(r.ctx), "set 1, of layer 'down': ") !=
                          NULL &&
                      strstr(spc_ctx_error(r.ctx), "points for a cloud of 2"),
                  "%s", spc_ctx_error(r.ctx));
    upload(&r, out, 1);
    run_net(&r);
    ck_assert_int_eq(spc_net_plan_check(r.plan, NULL), SPC_ERANGE);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(r.ctx), "the input: row 0: "));
    close_harness(&r);
    spc_scene_free(sample);
    spc_scene_free(wide);
    spc_scene_free(out);
}
END_TEST

/* Writing, reading and writing again gives the same text. */
START_TEST(a_network_of_clouds_can_be_stored)
{
    spc__buf first = SPC__BUF_INIT, second = SPC__BUF_INIT;
    spc__net_array *arrays;
    int64_t bytes = 0;
    int count;
    spc_net *again;
    harness r;

    load(&r, "cloud.lua", SPC_F16);
    assert_net(spc__net_arrays(&arrays, &count, r.net, &error));
    for (int i = 0; i < count; i++)
        bytes += (int64_t)spc__net_array_bytes(&arrays[i]);
    assert_net(spc__net_write(&first, r.net, arrays, count, &error));
    ck_assert_ptr_nonnull(strstr(spc__buf_text(&first), "\tcloud\n"));
    free(arrays);
    assert_net(spc__net_read(&again, &arrays, &count, spc__buf_text(&first),
                             bytes, &error));
    assert_net(spc__net_write(&second, again, arrays, count, &error));
    ck_assert_str_eq(spc__buf_text(&first), spc__buf_text(&second));
    ck_assert_int_eq(again->set_count, r.net->set_count);
    ck_assert_int_eq(again->map_count, r.net->map_count);
    free(arrays);
    spc__buf_release(&first);
    spc__buf_release(&second);
    spc_net_free(again);
    spc_net_free(r.net);
}
END_TEST

static const struct {
    const char *text, *says;
} refused[] = {
    {"input {channels = 4, cloud = true, shape = {8, 8, 8}}",
     "a network of clouds has no voxels"},
    {"conv(input {channels = 4, cloud = true}, 'subm,cout=8,k=3')",
     "its inputs are points: layers of voxels take none"},
    {"conv(input {channels = 4}, 'points,cout=8,k=3,radius=1')",
     "its inputs are voxels"},
    {"feature(input {channels = 4, cloud = true}, 'global=max')",
     "operators that take each row by itself"},
    {"regroup({input {channels = 4, cloud = true}}, {scale = {2, 2, 2}})",
     "voxels alone are regrouped"},
    {"conv(input {channels = 4, cloud = true}, "
     "'inverse,cout=8,k=3,rule=radius,radius=1,voxel=1')",
     "its inputs were sampled from no other cloud"},
    {"local x = input {channels = 4, cloud = true} "
     "local y = conv(x, 'points,cout=8,k=3,radius=1,voxel=1') "
     "conv(y, 'inverse,cout=8,k=3,rule=radius,radius=1,voxel=2')",
     "not the points that its voxel keeps"},
    {"local x = input {channels = 4, cloud = true} "
     "conv(x, 'points,cout=8,k=3,radius=1,voxel=1', {at = x})",
     "`at` is for layers without one"},
};

START_TEST(what_makes_no_sense_is_refused)
{
    spc_net *net;

    ck_assert_int_eq(load_text(&net, refused[_i].text, SPC_F32), SPC_ETEMPLATE);
    ck_assert_msg(strstr(error.text, refused[_i].says) != NULL, "%s",
                  error.text);
}
END_TEST

/* Unsupported uses of such a network must give an error and no wrong result. */
START_TEST(other_ways_to_run_it_say_no)
{
    float ranges[32] = {0};
    spc_net_options o = options_of(NULL);
    harness r;

    load(&r, "cloud.lua", SPC_F16);
    open_context(&r, "cpu");
    ck_assert_int_eq(spc_net_quantise(NULL, r.net, ranges, &error),
                     SPC_EUNSUPPORTED);
    o.points = 5;
    ck_assert_int_eq(spc_net_plan_create(&r.plan, r.ctx, r.net, &o),
                     SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(r.ctx), "makes no voxels"));
    spc_net_free(r.net);
    spc_ctx_free(r.ctx);
}
END_TEST

START_TEST(a_run_is_nothing_but_launches_and_a_replay_is_one)
{
    harness r;

    open_doubles();
    open_clouds(&r, "cuda", SPC_F16, NULL);
    count_calls(&r, 8);
    close_harness(&r);
    ck_assert_int_eq(fake->live.memory, 0);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    suite_sample(2);
    TCase *tc = tcase_create("clouds");
    Suite *suite = suite_create("net_clouds");
    tcase_set_timeout(tc, 300);
    suite_add_tcase(suite, tc);
    tcase_add_loop_test(tc, every_layer_is_as_the_oracle_says, 0,
                        suite_device != NULL ? 2 : 4);
    tcase_add_test(tc, floats_steps_and_a_replay_give_the_same_bits);
    if (suite_device == NULL) {
        tcase_add_test(tc, what_does_not_fit_is_said);
        tcase_add_test(tc, a_network_of_clouds_can_be_stored);
        tcase_add_loop_test(tc, what_makes_no_sense_is_refused, 0,
                            LENGTH(refused));
        tcase_add_test(tc, other_ways_to_run_it_say_no);
        tcase_add_test(tc, a_run_is_nothing_but_launches_and_a_replay_is_one);
    }
    return run_suite(suite);
}
