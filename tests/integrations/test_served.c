/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_served.c - a frame of an operator of another runtime makes only launches
 * and copies, and nothing that waits or allocates. Runs on the double of the
 * driver.
 */
#include "harness/net_harness.h"
#include "integrations/served/served.h"

enum { CAPACITY = 300 };

static spc__buf folder = SPC__BUF_INIT; /* path of the database */
static served net;
static served_frame frame;

static void *on_device(size_t bytes)
{
    void *out;

    assert_ok(net.ctx, spc_memory_alloc(&out, net.ctx, bytes));
    return out;
}

/* Stores a network and opens one of its outputs. The caller's context is
 * current, as in a runtime. */
static void open_served(const char *output)
{
    served_options options = SERVED_OPTIONS_INIT;
    spc_ctx_options where = SPC_CTX_OPTIONS_INIT;
    spc_ctx *ctx;
    spc_net *stored;
    spc__buf path = SPC__BUF_INIT;

    open_doubles();
    assert_net(spc__temp_dir_create(&folder, &error));
    spc__buf_printf(&path, "%s/served.db", spc__buf_text(&folder));
    where.device = "cpu";
    where.database = options.database = spc__buf_text(&path);
    assert_net(spc_ctx_create(&ctx, &where, &error));
    assert_net(
        spc_net_load(&stored, network_path("points.lua"), SPC_F16, &error));
    assert_net(spc_net_init_params(stored, 1, &error));
    assert_ok(ctx, spc_net_store(ctx, stored, "served", NULL, true));
    spc_net_free(stored);
    spc_ctx_free(ctx);
    ck_assert_ptr_nonnull(fake->context_create(0));
    options.network = "served";
    options.device = "cuda:0";
    options.output = output;
    options.capacity = CAPACITY;
    assert_net(served_open(&net, &options, &error));
    spc__buf_release(&path);
    frame = (served_frame){
        .features = on_device(CAPACITY * 16),
        .coords = on_device(CAPACITY * 16),
        .count = on_device(4),
        .out = on_device(net.out_bytes),
        .out_coords =
            net.output.dense ? NULL : on_device(16 * (size_t)net.shape[0]),
        .out_count = net.output.dense ? NULL : on_device(4),
    };
}

static void close_served(void)
{
    const void *const owned[] = {frame.features, frame.coords,
                                 frame.count,    frame.out_coords,
                                 frame.out,      frame.out_count};

    for (int i = 0; i < LENGTH(owned); i++)
        spc_memory_free(net.ctx, (void *)owned[i]);
    served_release(&net);
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
}

static void run_once(CUstream stream)
{
    atomic_store(&watching, 1);
    spc_status status = served_run(&net, &frame, stream, &error);
    atomic_store(&watching, 0);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
}

static const struct {
    const char *output;
    int64_t rows;
    int copies; /* outputs, and staging below the capacity */
} cases[] = {
    {"bev", CAPACITY, 1},  {"bev", CAPACITY - 1, 3}, {"bev", 0, 1},
    {"rows", CAPACITY, 3}, {"rows", 7, 5},
};

START_TEST(a_frame_only_enqueues)
{
    int before[FAKE_CALLS];

    open_served(cases[_i].output);
    frame.rows = cases[_i].rows;
    atomic_store(&allocations, 0);
    for (int i = 0; i < 20; i++) {
        int copies = fake->copies;
        memcpy(before, fake->count, sizeof(before));
        run_once(NULL);
        check_calls(before, FAKE_LaunchKernelEx, FAKE_MemsetD8Async);
        ck_assert_int_eq(fake->copies - copies, cases[_i].copies);
    }
    ck_assert_int_eq(atomic_load(&allocations), 0);
    close_served();
}
END_TEST

/* Like the driver, the double invalidates a capture if a call waits. */
START_TEST(a_frame_can_be_captured)
{
    CUstream stream;
    CUgraph graph;

    open_served(cases[_i].output);
    frame.rows = cases[_i].rows;
    ck_assert_int_eq(api.StreamCreate(&stream, 1), CUDA_SUCCESS);
    ck_assert_int_eq(api.StreamBeginCapture(stream, 0), CUDA_SUCCESS);
    run_once(stream);
    ck_assert_int_eq(api.StreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ck_assert_int_eq(api.GraphDestroy(graph), CUDA_SUCCESS);
    ck_assert_int_eq(api.StreamDestroy(stream), CUDA_SUCCESS);
    close_served();
}
END_TEST

START_TEST(a_failed_copy_is_reported)
{
    open_served("bev");
    frame.rows = CAPACITY;
    void *kept = frame.out;
    frame.out = (void *)&net; /* not device memory */
    ck_assert_int_eq(served_run(&net, &frame, NULL, &error), SPC_EDEVICE);
    ck_assert_str_eq(error.text, "a copy on the device failed with error 1 of "
                                 "the driver");
    frame.out = kept;
    run_once(NULL);
    close_served();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("served");
    TCase *tcase = tcase_create("frames");

    tcase_add_loop_test(tcase, a_frame_only_enqueues, 0, LENGTH(cases));
    tcase_add_loop_test(tcase, a_frame_can_be_captured, 0, LENGTH(cases));
    tcase_add_test(tcase, a_failed_copy_is_reported);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
