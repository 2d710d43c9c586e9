/*
 * test_net_together.c - networks beside others: on the caller's stream, and
 * several of one process.
 */
#include "net_rig.h"
#include "suite.h"

/* ---- the caller's stream ------------------------------------------------- */

static CUcontext enter(void)
{
    CUcontext context;

    ck_assert_int_eq(api.DevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ck_assert_int_eq(api.CtxPushCurrent(context), CUDA_SUCCESS);
    return context;
}

static void leave(CUcontext context)
{
    api.CtxPopCurrent(&context);
    api.DevicePrimaryCtxRelease(0);
}

START_TEST(a_run_and_a_replay_are_on_the_callers_stream)
{
    spc_net_options o = room_for(1000);
    CUstream stream;
    rig r;

    open_doubles();
    load(&r, "chain.lua", SPC_F16);
    open_context(&r, "cuda");
    plan_net(&r, &o);
    CUcontext context = enter();
    ck_assert_int_eq(api.StreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                     CUDA_SUCCESS);
    int before = fake->launches;
    assert_ok(r.ctx, spc_net_execute(r.plan, &r.buffers, stream));
    ck_assert_int_ge(fake->launches - before, 8); /* sets, maps, five layers */
    ck_assert_int_le(fake->launches - before, FAKE_LAUNCHES);
    for (int i = before; i < fake->launches; i++) {
        const fake_launch *it = &fake->launch[i % FAKE_LAUNCHES];
        require(it->stream == stream, "%s is on another stream", it->kernel);
        require(it->unwaited == 0, "%s does not wait for what it needs",
                it->kernel);
    }
    assert_ok(r.ctx, spc_net_capture(r.plan, &r.buffers));
    assert_ok(r.ctx, spc_net_replay(r.plan, stream));
    ck_assert_ptr_eq(fake->replayed, stream);
    api.StreamDestroy(stream);
    leave(context);
    close_rig(&r);
}
END_TEST

/* ---- several ------------------------------------------------------------- */

static void plan_in(rig *r, spc_ctx *ctx, const char *name)
{
    spc_net_options o = room_for(300);

    load(r, name, SPC_F32);
    make_deterministic(r->net);
    r->ctx = ctx;
    o.growth = 0;
    plan_net(r, &o);
    assert_ok(ctx, spc_net_capture(r->plan, &r->buffers));
}

static void drop(rig *r)
{
    close_plan(r);
    spc_net_free(r->net);
}

/* Runs of several are under way before anybody looks at what came of one: the
 * same bits as if each had been alone. Two of them are one network twice. */
START_TEST(networks_of_one_context_do_not_meet)
{
    static const char *const names[] = {"chain.lua", "masked.lua", "chain.lua"};
    char *alone[LENGTH(names)];
    size_t bytes[LENGTH(names)], again;
    rig all[LENGTH(names)], first;

    memset(&first, 0, sizeof(first));
    open_context(&first, device_of(_i));
    for (int n = 0; n < LENGTH(names); n++) {
        spc_scene *scene = scene_of(n == 0 ? 4 : 0);
        plan_in(&all[n], first.ctx, names[n]);
        upload(&all[n], scene, (uint64_t)n);
        poison(&all[n]);
        assert_ok(first.ctx, spc_net_replay(all[n].plan, NULL));
        alone[n] = outputs_of(&all[n], &bytes[n]);
        ck_assert_uint_gt(bytes[n], 0);
        poison(&all[n]);
        spc_scene_free(scene);
    }
    for (int n = LENGTH(names) - 1; n >= 0; n--)
        assert_ok(first.ctx,
                  n % 2 ? spc_net_execute(all[n].plan, &all[n].buffers, NULL)
                        : spc_net_replay(all[n].plan, NULL));
    for (int n = 0; n < LENGTH(names); n++) {
        char *got = outputs_of(&all[n], &again);
        ck_assert_uint_eq(again, bytes[n]);
        require(memcmp(got, alone[n], again) == 0, "network %d differs", n);
        free(got);
        free(alone[n]);
        drop(&all[n]);
    }
    spc_ctx_free(first.ctx);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    Suite *suite = suite_create("net_together");
    TCase *tc = tcase_create("together");
    tcase_set_timeout(tc, 300);
    if (suite_device == NULL)
        tcase_add_test(tc, a_run_and_a_replay_are_on_the_callers_stream);
    tcase_add_loop_test(tc, networks_of_one_context_do_not_meet, 0, 1);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
