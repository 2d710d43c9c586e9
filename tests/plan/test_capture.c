/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_capture.c - spc_record_layer writes each layer and scene once, and the
 * result can be read as a list of layers.
 */
#include "harness/suite.h"
#include "spc/lab.h"
#include "spc/tune.h"

#include "base/file.h"
#include <sys/wait.h>
#include <unistd.h>

static spc_error error;
static spc__buf folder = SPC__BUF_INIT;
static spc_ctx *ctx;

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, spc_ctx_error(ctx))
#define assert_good(call)                                                      \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

static void open_all(void)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;

    options.device = "cpu";
    options.database = suite_database();
    options.threads = 1;
    assert_good(spc_ctx_create(&ctx, &options, &error));
    assert_good(spc__temp_dir_create(&folder, &error));
}

static void close_all(void)
{
    spc_ctx_free(ctx);
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
}

static spc_conv layer(const char *text)
{
    spc_conv conv;

    assert_good(spc_conv_parse(&conv, text, &error));
    return conv;
}

/* Reads the lines of the list. A missing list has 0 lines. */
static int read_list(char lines[8][800])
{
    char path[400];
    int count = 0;

    snprintf(path, sizeof(path), "%s/layers.txt", spc__buf_text(&folder));
    FILE *file = fopen(path, "r");
    while (file != NULL && count < 8 && fgets(lines[count], 800, file) != NULL)
        count++;
    if (file != NULL)
        fclose(file);
    return count;
}

/* Checks a line "LAYER --scene FILE\n" and that FILE has these voxels. */
static void check_line(char *line, const char *text, const int32_t *coords,
                       int64_t rows)
{
    char *file = strstr(line, " --scene ");
    spc_scene *scene;

    ck_assert_ptr_nonnull(file);
    *file = '\0';
    file += strlen(" --scene ");
    file[strcspn(file, "\n")] = '\0';
    ck_assert_str_eq(line, text);
    ck_assert_int_eq(file[0], '/');
    assert_good(spc_scene_load(&scene, file, &error));
    ck_assert_int_eq(spc_scene_rows(scene), rows);
    ck_assert_mem_eq(spc_scene_coords(scene), coords, 16 * (size_t)rows);
    spc_scene_free(scene);
}

/* Rows are in ascending order, like those of all scenes. */
static const int32_t some[3][4] = {
    {0, -5, 2, 1 << 20}, {0, 1, 2, 3}, {1, 0, 0, 0}};

START_TEST(a_layer_on_a_scene_is_a_line_and_a_file)
{
    const char *subm = "subm,cin=4,cout=4,offsets=0x0x0+-1x0x2,dtype=f32,"
                       "epilogue=scale+bias";
    const char *conv = "conv,cin=4,cout=8,rule=footprint,k=3,stride=2,padding=1"
                       ",dtype=f16";
    const char *to = spc__buf_text(&folder);
    spc_conv one = layer(subm), two = layer(conv);
    char lines[8][800];

    for (int i = 0; i < 2; i++) { /* each layer is written once */
        assert_ok(spc_record_layer(ctx, to, &one, some[0], 3, NULL));
        assert_ok(spc_record_layer(ctx, to, &two, some[0], 3, NULL));
        assert_ok(spc_record_layer(ctx, to, &one, some[0], 2, NULL));
    }
    ck_assert_int_eq(read_list(lines), 3);
    ck_assert_str_eq(strstr(lines[0], " --scene "),
                     strstr(lines[1], " --scene "));
    check_line(lines[0], subm, some[0], 3);
    check_line(lines[1], conv, some[0], 3);
    check_line(lines[2], subm, some[0], 2);
}
END_TEST

START_TEST(what_cannot_be_captured_is_refused)
{
    spc_conv one = layer("subm,cin=4,cout=4,k=3");
    char path[400];
    char lines[8][800];

    ck_assert_int_eq(
        spc_record_layer(ctx, spc__buf_text(&folder), &one, some[0], 0, NULL),
        SPC_EINVAL);
    ck_assert_str_eq(spc_ctx_error(ctx), "cannot tune on a scene of 0 voxels");
    snprintf(path, sizeof(path), "%s/a b", spc__buf_text(&folder));
    ck_assert_int_eq(spc_record_layer(ctx, path, &one, some[0], 3, NULL),
                     SPC_EINVAL);
    rmdir(path);
    ck_assert_int_eq(
        spc_record_layer(ctx, "/proc/none/at/all", &one, some[0], 3, NULL),
        SPC_EIO);
    ck_assert_int_eq(spc_record_layer(ctx, NULL, &one, some[0], 3, NULL),
                     SPC_EINVAL);
    ck_assert_int_eq(read_list(lines), 0);
}
END_TEST

/* Four processes record layers of their own and a common one. */
START_TEST(processes_that_write_one_folder_lose_nothing)
{
    enum { PROCESSES = 4, LAYERS = 40 };
    char path[400], *list, wanted[200];
    spc__buf text = SPC__BUF_INIT;
    int result, lines = 0;

    for (int p = 0; p < PROCESSES; p++)
        if (fork() == 0) {
            for (int i = 1; i <= LAYERS; i++) {
                snprintf(wanted, sizeof(wanted), "subm,cin=%d,cout=%d,k=3", i,
                         i == LAYERS ? 1 : 1 + p);
                spc_conv conv = layer(wanted);
                if (spc_record_layer(ctx, spc__buf_text(&folder), &conv,
                                     some[0], 3, NULL) != SPC_OK)
                    _exit(1);
            }
            _exit(0);
        }
    for (int p = 0; p < PROCESSES; p++) {
        ck_assert_int_gt(wait(&result), 0);
        ck_assert_int_eq(result, 0);
    }
    snprintf(path, sizeof(path), "%s/layers.txt", spc__buf_text(&folder));
    assert_good(spc__file_read(&text, path, 1 << 20, &error));
    for (list = text.data; (list = strchr(list, '\n')) != NULL; list++)
        lines++;
    ck_assert_int_eq(lines, PROCESSES * (LAYERS - 1) + 1);
    for (int p = 0; p < PROCESSES; p++)
        for (int i = 1; i < LAYERS; i++) {
            snprintf(wanted, sizeof(wanted), "subm,cin=%d,cout=%d,", i, 1 + p);
            ck_assert_ptr_nonnull(strstr(text.data, wanted));
        }
    spc__buf_release(&text);
}
END_TEST

/* Each convolution is recorded with the voxels of its own level. */
START_TEST(a_network_is_captured_level_by_level)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;
    spc_net_buffers buffers = SPC_NET_BUFFERS_INIT;
    spc_net *net;
    spc_net_plan *plan;
    spc_scene *scene, *level;
    char lines[8][800];
    void *features, *memory;

    assert_good(
        spc_net_load(&net, suite_path("networks/chain.lua"), SPC_F32, &error));
    assert_good(spc_net_init_params(net, 1, &error));
    assert_good(spc_scene_load(&scene, "gen:uniform,n=60,extent=10", &error));
    o.capacity = 60;
    o.high[1] = o.high[2] = o.high[3] = 10;
    assert_ok(spc_net_plan_create(&plan, ctx, net, &o));
    assert_ok(spc_memory_alloc(&features, ctx, 60 * 8 * 4));
    memset(features, 0, 60 * 8 * 4);
    assert_ok(spc_memory_alloc(&memory, ctx, spc_net_plan_memory_bytes(plan)));
    buffers = (spc_net_buffers){.bytes = sizeof(spc_net_buffers),
                                .coords = spc_scene_coords(scene),
                                .rows = 60,
                                .features = features,
                                .memory = memory};
    ck_assert_int_eq(spc_record_layers(plan, spc__buf_text(&folder), &buffers),
                     SPC_ESTATE);
    assert_ok(spc_net_plan_execute(plan, &buffers, NULL));
    assert_ok(spc_net_plan_check(plan, NULL));
    assert_ok(spc_record_layers(plan, spc__buf_text(&folder), &buffers));
    ck_assert_int_eq(read_list(lines), 5);
    assert_ok(spc_net_plan_scene_of_set(&level, plan, 1));
    /* Layers a and b have the scene's voxels, c has those of the coarse level,
     * and e inverts a layer that reads the scene. */
    check_line(lines[0],
               "subm,cin=8,cout=8,k=3,dtype=f32,epilogue=scale+bias+relu,"
               "out_pitch=16",
               spc_scene_coords(scene), 60);
    check_line(lines[2],
               "subm,cin=8,cout=8,k=3,dtype=f32,epilogue=scale+bias+relu",
               spc_scene_coords(level), spc_scene_rows(level));
    ck_assert(strncmp(lines[3], "inverse,", 8) == 0);
    ck_assert_str_eq(strstr(lines[3], " --scene "),
                     strstr(lines[1], " --scene "));
    spc_scene_free(level);
    spc_scene_free(scene);
    spc_memory_free(ctx, features);
    spc_memory_free(ctx, memory);
    spc_net_plan_free(plan);
    spc_net_free(net);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("capture");
    TCase *tc = tcase_create("folder");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, open_all, close_all);
    tcase_add_test(tc, a_layer_on_a_scene_is_a_line_and_a_file);
    tcase_add_test(tc, what_cannot_be_captured_is_refused);
    tcase_add_test(tc, processes_that_write_one_folder_lose_nothing);
    tcase_add_test(tc, a_network_is_captured_level_by_level);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
