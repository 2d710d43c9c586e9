/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_handles.c - functions for language bindings: the owner of a handle,
 * memory from the caller, whether a plan still fits, packing many plans.
 *
 * Runs on "cpu".
 */
#include "harness/counting_hook.h"
#include "harness/suite.h"
#include "spc.h"
#include "spc/lab.h"

#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))
#define LAYER "subm,cin=8,cout=8,k=3,dtype=f32"

static spc_error error;
static spc_ctx *ctx;

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call,                           \
                  spc_error_text(&error, ctx))

static void open_ctx(const char *device, counting_hook *hook)
{
    spc_ctx_options o = SPC_CTX_OPTIONS_INIT;

    o.device = device;
    o.threads = 1;
    o.database = suite_database();
    o.shipped = "";
    if (hook != NULL)
        o.memory =
            (spc_memory_hook){counting_alloc, counting_free, hook, false};
    assert_ok(spc_ctx_create(&ctx, &o, &error));
}

static spc_conv layer_of(const char *text)
{
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, text, &error));
    return conv;
}

static spc_map *map_of(const char *layer, const char *spec)
{
    spc_conv conv = layer_of(layer);
    spc_scene *scene = NULL;
    spc_map *map = NULL;

    assert_ok(spc_scene_load(&scene, spec, &error));
    assert_ok(spc_map_create_from_scene(&map, ctx, &conv, scene));
    spc_scene_free(scene);
    return map;
}

/* ---- plans and maps ------------------------------------------------------ */

/* Buckets are half octaves of rows, of the ratio of rows, and of the density.
 */
START_TEST(a_plan_fits_maps_of_its_bucket)
{
    static const struct {
        const char *layer, *scene;
        bool fits;
    } maps[] = {
        {LAYER, "gen:uniform,n=1024,extent=16,seed=1", true},
        {LAYER, "gen:uniform,n=1024,extent=16,seed=2", true},
        {LAYER, "gen:uniform,n=1100,extent=16,seed=1", true},
        {LAYER, "gen:uniform,n=4096,extent=25,seed=1", false}, /* rows */
        {LAYER, "gen:uniform,n=1024,extent=40,seed=1", false}, /* density */
        {"subm,cin=8,cout=8,k=1,dtype=f32",
         "gen:uniform,n=1024,extent=16,seed=1", false}, /* another layer */
    };

    open_ctx("cpu", NULL);
    spc_map *made_for = map_of(maps[0].layer, maps[0].scene);
    spc_conv conv = layer_of(LAYER);
    spc_plan *plan = NULL;
    assert_ok(spc_plan_create(&plan, ctx, &conv, made_for, 0));
    ck_assert(spc_plan_fits(plan, made_for));
    for (int i = 0; i < LENGTH(maps); i++) {
        spc_map *map = map_of(maps[i].layer, maps[i].scene);
        ck_assert_msg(spc_plan_fits(plan, map) == maps[i].fits, "%s on %s",
                      maps[i].layer, maps[i].scene);
        spc_map_free(map);
    }
    ck_assert(!spc_plan_fits(NULL, made_for) && !spc_plan_fits(plan, NULL));
    spc_plan_free(plan);
    spc_map_free(made_for);
    spc_ctx_free(ctx);
}
END_TEST

enum { PLANS = 3, WEIGHTS = 27 * 16 * 8 };

/* Makes plans with weights of several shapes. */
static void make_plans(spc_plan *plans[PLANS], void *packed[PLANS],
                       size_t bytes[PLANS])
{
    static const char *const layers[PLANS] = {
        LAYER, "subm,cin=8,cout=16,k=3,dtype=f32",
        "subm,cin=16,cout=8,k=3,dtype=f32"};

    for (int i = 0; i < PLANS; i++) {
        spc_conv conv = layer_of(layers[i]);
        spc_map *map = map_of(layers[i], "gen:uniform,n=64,extent=6");
        assert_ok(spc_plan_create(&plans[i], ctx, &conv, map, 0));
        spc_map_free(map);
        bytes[i] = spc_plan_weights_bytes(plans[i]);
        assert_ok(spc_memory_alloc(&packed[i], ctx, bytes[i]));
    }
}

START_TEST(many_plans_are_packed_as_each_by_itself)
{
    static float weights[WEIGHTS];
    const void *from[PLANS] = {weights, weights, weights};
    spc_plan *plans[PLANS];
    void *packed[PLANS], *alone = NULL;
    size_t bytes[PLANS];
    int failed = 7;

    open_ctx("cpu", NULL);
    for (int i = 0; i < WEIGHTS; i++)
        weights[i] = (float)i;
    make_plans(plans, packed, bytes);
    assert_ok(spc_plan_pack_many(&failed, packed,
                                 (const spc_plan *const *)plans, from, PLANS,
                                 SPC_RSCK, NULL));
    ck_assert_int_eq(failed, -1);
    for (int i = 0; i < PLANS; i++) {
        assert_ok(spc_memory_alloc(&alone, ctx, bytes[i]));
        memset(alone, 0x55, bytes[i]);
        assert_ok(spc_plan_pack(alone, plans[i], weights, SPC_RSCK, NULL));
        ck_assert_mem_eq(packed[i], alone, bytes[i]);
        spc_memory_free(ctx, alone);
    }
    /* If one plan is wrong, the error names it and no weights are written. */
    memset(packed[0], 0x33, bytes[0]);
    memset(alone = malloc(bytes[0]), 0x33, bytes[0]);
    from[1] = (const char *)weights + 1;
    ck_assert_int_eq(spc_plan_pack_many(&failed, packed,
                                        (const spc_plan *const *)plans, from,
                                        PLANS, SPC_RSCK, NULL),
                     SPC_EINVAL);
    ck_assert_int_eq(failed, 1);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(ctx), "aligned"));
    ck_assert_mem_eq(packed[0], alone, bytes[0]);
    free(alone);
    for (int i = 0; i < PLANS; i++) {
        spc_memory_free(ctx, packed[i]);
        spc_plan_free(plans[i]);
    }
    spc_ctx_free(ctx);
}
END_TEST

/* ---- the owner of a handle ----------------------------------------------- */

START_TEST(a_handle_says_which_context_and_process_it_belongs_to)
{
    int status = -1;

    open_ctx("cpu", NULL);
    spc_conv conv = layer_of(LAYER);
    spc_map *map = map_of(LAYER, "gen:uniform,n=64,extent=6");
    spc_plan *plan = NULL;
    assert_ok(spc_plan_create(&plan, ctx, &conv, map, 0));
    ck_assert_ptr_eq(spc_plan_ctx(plan), ctx);
    ck_assert_ptr_eq(spc_map_ctx(map), ctx);
    ck_assert_ptr_eq(spc_coords_ctx(spc_map_in(map)), ctx);
    ck_assert(spc_ctx_is_from_this_process(ctx) &&
              !spc_ctx_is_from_this_process(NULL));
    pid_t child = fork();
    if (child == 0) {
        bool belongs = spc_ctx_is_from_this_process(ctx);
        spc_plan_free(plan);
        spc_map_free(map);
        spc_ctx_free(ctx);
        _exit(belongs ? 1 : 0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert(spc_ctx_is_from_this_process(ctx));
    spc_plan_free(plan);
    spc_map_free(map);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- memory from the caller ---------------------------------------------- */

static const char *const devices[] = {"cpu", "sim"};

START_TEST(memory_comes_from_the_hook_and_goes_back_to_it)
{
    counting_hook hook = {0};
    void *memory = NULL;

    open_ctx(devices[_i], &hook);
    assert_ok(spc_memory_alloc(&memory, ctx, 1000));
    ck_assert_int_eq(hook.live, 1);
    ck_assert_uint_eq(hook.live_bytes, 1000);
    memset(memory, 1, 1000);
    spc_memory_free(ctx, memory);
    assert_hook_is_empty(&hook);
    hook.fail = hook.calls + 1;
    ck_assert_int_eq(spc_memory_alloc(&memory, ctx, 1000), SPC_ENOMEM);
    ck_assert_ptr_null(memory);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(ctx), "memory hook"));
    hook.skewed = 16;
    ck_assert_int_eq(spc_memory_alloc(&memory, ctx, 1000), SPC_ENOMEM);
    ck_assert_ptr_null(memory);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(ctx), "256"));
    spc_ctx_free(ctx);
    assert_hook_is_empty(&hook);
}
END_TEST

START_TEST(a_hook_needs_both_functions)
{
    spc_ctx_options o = SPC_CTX_OPTIONS_INIT;

    o.device = "cpu";
    o.database = "";
    o.memory.alloc = counting_alloc;
    ck_assert_int_eq(spc_ctx_create(&ctx, &o, &error), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "without `free`"));
    o.memory = (spc_memory_hook){NULL, counting_free, NULL, false};
    ck_assert_int_eq(spc_ctx_create(&ctx, &o, &error), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "without `alloc`"));
}
END_TEST

/* Makes and uses a set with outputs, a map, a plan and a network. Returns at
 * the first failure.
 */
static spc_status live(const spc_scene *scene, const spc_net *net)
{
    spc_conv conv = layer_of("conv,cin=8,cout=8,k=2,stride=2,rule=floor,"
                             "dtype=f32");
    spc_net_options o = SPC_NET_OPTIONS_INIT;
    spc_map *map = NULL;
    spc_plan *plan = NULL;
    spc_net_plan *net_plan = NULL;
    spc_status status = spc_map_create_from_scene(&map, ctx, &conv, scene);

    if (status == SPC_OK)
        status = spc_plan_create(&plan, ctx, &conv, map, 0);
    o.capacity = 64;
    o.high[1] = o.high[2] = o.high[3] = 7;
    if (status == SPC_OK)
        status = spc_net_plan_create(&net_plan, ctx, net, &o);
    spc_net_plan_free(net_plan);
    spc_plan_free(plan);
    spc_map_free(map);
    return status;
}

START_TEST(when_any_allocation_fails_nothing_is_left)
{
    counting_hook hook = {0};
    spc_scene *scene = NULL;
    spc_net *net = NULL;
    char path[4400];

    snprintf(path, sizeof(path), "%s/networks/chain.lua", SPC_TEST_DATA);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=64,extent=6", &error));
    assert_ok(spc_net_load(&net, path, SPC_F32, &error));
    assert_ok(spc_net_init_params(net, 1, &error));
    open_ctx("cpu", &hook);
    assert_ok(live(scene, net));
    int calls = hook.calls;
    ck_assert_int_gt(calls, 20);
    assert_hook_is_empty(&hook);
    for (int number = 1; number <= calls; number++) {
        hook.calls = 0;
        hook.fail = number;
        spc_status status = live(scene, net);
        ck_assert_msg(status == SPC_ENOMEM, "allocation %d: %s (%s)", number,
                      spc_status_name(status), spc_ctx_error(ctx));
        ck_assert_ptr_nonnull(strstr(spc_ctx_error(ctx), "memory hook"));
        assert_hook_is_empty(&hook);
    }
    spc_net_free(net);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handles");
    TCase *all = tcase_create("all");

    tcase_set_timeout(all, 60);
    tcase_add_test(all, a_plan_fits_maps_of_its_bucket);
    tcase_add_test(all, many_plans_are_packed_as_each_by_itself);
    tcase_add_test(all, a_handle_says_which_context_and_process_it_belongs_to);
    tcase_add_loop_test(all, memory_comes_from_the_hook_and_goes_back_to_it, 0,
                        LENGTH(devices));
    tcase_add_test(all, a_hook_needs_both_functions);
    tcase_add_test(all, when_any_allocation_fails_nothing_is_left);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
