/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cropped.c - scenes that are cropped for a network: the network's range
 * and shape, and the columns of files.
 */
#include "base/file.h"
#include "harness/folder_harness.h"
#include "harness/suite.h"
#include "spc.h"
#include "spc/lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static spc_error error;

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

/* A detector: x from 0 to 8, y from -4 to 4, z from -1 to 1, voxels of 0.5; all
 * times `scale`. */
static spc_net *make_detector(int channels, const int shape[3], double scale)
{
    spc_net_input input = SPC_NET_INPUT_INIT;
    spc_net *net;
    spc_tensor x;
    const double low[3] = {0, -4, -1}, high[3] = {8, 4, 1};

    input.channels = channels;
    for (int a = 0; a < 3; a++) {
        input.shape[a] = shape[a];
        input.voxel[a] = 0.5 * scale;
        input.low[a] = low[a] * scale;
        input.high[a] = high[a] * scale;
    }
    assert_ok(spc_net_create(&net, "detector", &error));
    assert_ok(spc_net_add_input(&x, net, &input, &error));
    return net;
}

static void assert_scene(const spc_net *net, const char *spec,
                         const int32_t (*rows)[4], int count, int64_t outside)
{
    spc_scene *scene;
    spc_scene_info info;

    assert_ok(spc_net_load_scene(&scene, net, spec, &error));
    spc_scene_describe(&info, scene);
    ck_assert_int_eq(spc_scene_rows(scene), count);
    if (count > 0)
        ck_assert_mem_eq(spc_scene_coords(scene), rows,
                         (size_t)count * sizeof(*rows));
    ck_assert_int_eq(info.outside, outside);
    spc_scene_free(scene);
}

static const int whole[3] = {16, 16, 5}, low_half[3] = {8, 16, 5};

START_TEST(points_outside_the_range_are_left_out_and_counted)
{
    static const float points[][4] = {
        {0.1f, -4, -1, 0},  /* at the low corner */
        {7.9f, 3.9f, 0, 0}, /* at the high corner, except z */
        {-0.1f, 0, 0, 0},   /* behind the sensor */
        {1, 4.1f, 0, 0},    {1, 0, 1.1f, 0}, {NAN, 0, 0, 0},
    };
    static const int32_t own[][4] = {{0, 0, 0, 0}, {0, 15, 15, 2}};
    static const int32_t coarse[][4] = {{0, 0, 0, 0}, {0, 7, 7, 1}};
    static const int32_t flat[][4] = {{0, 0, 0, 0}, {0, 15, 3, 0}};
    spc_net *net = make_detector(4, whole, 1),
            *half = make_detector(4, low_half, 1);

    assert_scene(net, write_at("p.bin", points, sizeof(points), ""), own, 2, 3);
    /* Voxels of another size are also counted from the low corner. */
    assert_scene(net, write_at("p.bin", points, sizeof(points), "@1"), coarse,
                 2, 3);
    assert_scene(net, write_at("p.bin", points, sizeof(points), "@0.5,2,2"),
                 flat, 2, 3);
    /* The shape is smaller than the range. */
    assert_scene(half, write_at("p.bin", points, sizeof(points), ""), own, 1,
                 4);
    spc_net_free(net);
    spc_net_free(half);
}
END_TEST

START_TEST(generated_scans_are_cropped_too)
{
    static const char *const specs[] = {"gen:lidar,beams=8",
                                        "gen:lidar,beams=8@3", "gen:room",
                                        "gen:lidar,beams=8@1,level=1"};
    spc_net *net = make_detector(4, whole, 4);
    spc_scene *scene;
    spc_scene_info info;

    assert_ok(spc_net_load_scene(&scene, net, specs[_i], &error));
    spc_scene_describe(&info, scene);
    ck_assert_int_gt(spc_scene_rows(scene), 0);
    ck_assert_int_gt(info.outside, 0);
    ck_assert_int_lt(info.outside, info.points);
    for (int64_t i = 0; i < spc_scene_rows(scene); i++)
        for (int a = 0; a < 3; a++) {
            int32_t at = spc_scene_coords(scene)[4 * i + 1 + a];
            ck_assert(at >= 0 && at < whole[a]);
        }
    spc_scene_free(scene);
    spc_net_free(net);
}
END_TEST

START_TEST(voxels_outside_a_shape_without_a_range_are_left_out)
{
    static const float points[][4] = {
        {0, 0, 0, 0}, {-1, 0, 0, 0}, {3, 3, 3, 0}, {3, 3, 4, 0}, {3, 4, 3, 0}};
    static const int32_t rows[][4] = {{0, 0, 0, 0}, {0, 3, 3, 3}};
    spc_net_input input = SPC_NET_INPUT_INIT;
    spc_net *net;
    spc_tensor x;

    input.channels = 4;
    for (int a = 0; a < 3; a++)
        input.shape[a] = 4;
    assert_ok(spc_net_create(&net, "shape", &error));
    assert_ok(spc_net_add_input(&x, net, &input, &error));
    assert_scene(net, write_at("p.bin", points, sizeof(points), "@1"), rows, 2,
                 3);
    spc_net_free(net);
}
END_TEST

/*
 * Two row lengths match the network's channels; the file's values decide.
 */
START_TEST(rows_may_have_as_many_numbers_as_the_network_has_channels)
{
    enum { POINTS = 1000 };
    spc_net *net = make_detector(5, whole, 1);
    float rows[POINTS][6];
    int columns = 4 + _i, inside = 0;
    int32_t(*seen)[16][16][4] = calloc(1, sizeof(*seen));
    spc__buf data = SPC__BUF_INIT;
    spc_scene *scene;

    for (int i = 0; i < POINTS; i++) {
        const float row[6] = {(float)(i * 37 % 160) * 0.05f,
                              (float)(i * 53 % 160) * 0.05f - 4,
                              (float)(i * 11 % 40) * 0.05f - 1,
                              (float)(i % 256),
                              (float)(i % 32),
                              -100};
        memcpy(rows[i], row, sizeof(row));
        spc__buf_append(&data, row, sizeof(float) * (size_t)columns);
        int32_t *cell =
            &(*seen)[(int)(row[0] / 0.5f)][(int)((row[1] + 4) / 0.5f)]
                    [(int)((row[2] + 1) / 0.5f)];
        inside += *cell == 0;
        *cell = 1;
    }
    spc_status status = spc_net_load_scene(
        &scene, net, write_at("p.bin", data.data, data.length, ""), &error);
    if (columns < 6) {
        ck_assert_msg(status == SPC_OK, "%s", error.text);
        ck_assert_int_eq(spc_scene_rows(scene), inside);
        spc_scene_free(scene);
    } else {
        ck_assert_int_eq(status, SPC_EFORMAT);
        ck_assert_msg(strstr(error.text, "columns=6") != NULL, "%s",
                      error.text);
    }
    spc__buf_release(&data);
    free(seen);
    spc_net_free(net);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("cropped");
    TCase *tc = tcase_create("range");

    (void)argc, (void)argv;
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, points_outside_the_range_are_left_out_and_counted);
    tcase_add_loop_test(tc, generated_scans_are_cropped_too, 0, 4);
    tcase_add_test(tc, voxels_outside_a_shape_without_a_range_are_left_out);
    tcase_add_loop_test(
        tc, rows_may_have_as_many_numbers_as_the_network_has_channels, 0, 3);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
