/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_net_together.c - concurrency: networks on the caller's stream, several
 * networks in one process, and independent layers of a graph.
 */
#include "harness/net_harness.h"
#include "harness/suite.h"
#include "plan/plan.h"

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
    spc_net_options o = options_for(1000);
    CUstream stream;
    harness r;

    open_doubles();
    load(&r, "chain.lua", SPC_F16);
    open_context(&r, "cuda");
    plan_net(&r, &o);
    CUcontext context = enter();
    ck_assert_int_eq(api.StreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                     CUDA_SUCCESS);
    int before = fake->launches;
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, stream));
    /* two sets, two maps, five layers */
    ck_assert_int_ge(fake->launches - before, 8);
    ck_assert_int_le(fake->launches - before, FAKE_LAUNCHES);
    for (int i = before; i < fake->launches; i++) {
        const fake_launch *it = &fake->launch[i % FAKE_LAUNCHES];
        require(it->stream == stream, "%s is on another stream", it->kernel);
        require(it->unwaited == 0, "%s does not wait for what it needs",
                it->kernel);
    }
    assert_ok(r.ctx, spc_net_plan_capture(r.plan, &r.buffers));
    assert_ok(r.ctx, spc_net_plan_replay(r.plan, stream));
    ck_assert_ptr_eq(fake->replayed, stream);
    api.StreamDestroy(stream);
    leave(context);
    close_harness(&r);
}
END_TEST

/* ---- layers -------------------------------------------------------------- */

static void load_words(harness *r, const char *words, spc_dtype dtype)
{
    memset(r, 0, sizeof(*r));
    ck_assert_msg(load_text(&r->net, words, dtype) == SPC_OK, "%s", error.text);
    assert_net(spc_net_init_params(r->net, 3, &error));
    spc_net_describe(&r->info, r->net);
}

/* Builds a layer, then heads of two layers each. The first layers of the heads
 * are all alike or all different. */
static const char text[] =
    "network 'heads'\n"
    "local x = conv(input {channels = 8}, 'subm,cout=8,k=3')\n"
    "for i = 1, %d do\n"
    "  local slope = 1 / (1 + i * %d)\n"
    "  local y = conv(x, 'subm,k=1,cout=8,epilogue=bias+leaky,slope=' .. "
    "slope)\n"
    "  output(conv(y, 'subm,k=1,cout=2,bias=1'), 'head' .. i)\n"
    "end\n";

static void load_heads(harness *r, int heads, bool alike)
{
    char words[sizeof(text) + 16];

    snprintf(words, sizeof(words), text, heads, !alike);
    load_words(r, words, SPC_F16);
}

/* Lists the nodes of convolutions, in the order of the run. */
static int find_convs(const fake_launch *out[FAKE_LAUNCHES])
{
    int count = 0;

    for (size_t n = 1; launch_at(n) != NULL; n++)
        if (is_kernel(launch_at(n), "spc_conv"))
            out[count++] = launch_at(n);
    return count;
}

static bool has(const spc_conv_args *args, const void *data, bool written)
{
    return data != NULL &&
           (args->out == data ||
            (!written && (args->in == data || args->residual == data)));
}

/* True if two launches must not run at the same time, because one writes memory
 * of the other. */
static bool collide(const spc_conv_args *a, const spc_conv_args *b)
{
    return has(a, b->out, false) || has(b, a->out, false) ||
           (a->workspace != NULL && a->workspace == b->workspace);
}

/* Layers that use the same memory must be ordered. The networks have residuals,
 * shortcuts, and enough heads that some share memory. */
START_TEST(layers_that_share_memory_are_in_order)
{
    const fake_launch *convs[FAKE_LAUNCHES];
    spc_net_options o = options_for(1000);
    int collisions = 0;
    harness r;

    open_doubles();
    if (_i == 0)
        load(&r, "unet42.lua", SPC_F16);
    else
        load_heads(&r, 14, false);
    open_context(&r, "cuda");
    plan_net(&r, &o);
    assert_ok(r.ctx, spc_net_plan_capture(r.plan, &r.buffers));
    int count = find_convs(convs);
    ck_assert_int_ge(count, _i == 0 ? 42 : 29);
    for (int j = 0; j < count; j++)
        for (int i = 0; i < j; i++) {
            bool together = collide(&convs[i]->args.conv, &convs[j]->args.conv);
            collisions += together;
            require(!together || follows(convs[j], convs[i]->node),
                    "layer %d does not wait for %d", j, i);
        }
    ck_assert_int_ge(collisions, count - 1);
    close_harness(&r);
}
END_TEST

/* Counts the launches that lay out rows. Every linear layer must wait for
 * one. */
static int count_layouts(const fake_launch *const convs[FAKE_LAUNCHES],
                         int count)
{
    size_t last = 0;
    int found = 0;

    for (size_t n = 1; launch_at(n) != NULL; n++)
        if (is_kernel(launch_at(n), "spc_rows")) {
            last = n;
            found++;
        }
    for (int i = 1; i < count; i++)
        ck_assert(follows(convs[i], last));
    return found;
}

/* The first layers of the heads are merged into one, which writes the inputs of
 * the last layers side by side. Rows are laid out once for each tile size. */
START_TEST(heads_begin_with_one_layer_and_do_not_wait_for_each_other)
{
    const fake_launch *convs[FAKE_LAUNCHES];
    spc_net_options o = options_for(1000);
    harness r;

    open_doubles();
    load_heads(&r, 5, true);
    open_context(&r, "cuda");
    plan_net(&r, &o);
    assert_ok(r.ctx, spc_net_plan_capture(r.plan, &r.buffers));
    ck_assert_int_eq(find_convs(convs), 7);
    ck_assert_int_eq(count_layouts(convs, 7), r.plan->layout_count);
    ck_assert_int_le(r.plan->layout_count, 2); /* 10 layers of two kinds */
    ck_assert(follows(convs[1], convs[0]->node));
    for (int a = 0; a < 5; a++) {
        const fake_launch *last = convs[2 + a];
        const char *in = last->args.conv.in, *out = convs[1]->args.conv.out;
        ck_assert(follows(last, convs[1]->node));
        ck_assert_int_eq(in - out, 16 * a);
        for (int b = 0; b < a; b++)
            require(!follows(last, convs[2 + b]->node),
                    "head %d waits for head %d", a, b);
    }
    close_harness(&r);
}
END_TEST

/* These layers read one tensor: two heads, two with a larger kernel, and two
 * that stay separate because one is an output and one is a part of a
 * concatenation. */
static const char siblings[] =
    "network 'siblings'\n"
    "local x = conv(input {channels = 8}, 'subm,cout=8,k=3')\n"
    "local function head(words) return conv(x, 'subm,cout=8,' .. words) end\n"
    "local function tail(y) output(conv(y, 'subm,k=1,cout=8')) end\n"
    "local fold = 'k=1,epilogue=scale+bias+relu'\n"
    "local a, b, c, d = head(fold), head(fold), head('k=3'), head('k=3')\n"
    "tail(a) tail(b) tail(c) tail(d)\n"
    "output(head(fold))\n"
    "output(cat(head(fold), head(fold)))\n";

static int count_wide(const harness *r, int width)
{
    int count = 0;

    for (int i = 0; i < r->plan->work_count; i++)
        count += r->plan->works[i].kind == SPC_NET_CONV &&
                 r->plan->works[i].conv.cout == width;
    return count;
}

START_TEST(layers_that_read_one_tensor_are_one_layer)
{
    spc_net_options o = options_for(300);
    spc_scene *scene = scene_of(4);
    harness r;

    load_words(&r, siblings, suite_is_gpu() ? SPC_F16 : SPC_F32);
    open_context(&r, device_of(0));
    o.keep = true;
    plan_net(&r, &o);
    ck_assert_int_eq(count_wide(&r, 16), 2);
    ck_assert_int_eq(r.plan->work_count, 1 + 10); /* a map with its set */
    upload(&r, scene, 1);
    poison(&r);
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
    check_run(&r, scene, false);
    spc_scene_free(scene);
    close_harness(&r);
}
END_TEST

/* If layers have more than 1024 channels in total, they are merged into several
 * layers. */
START_TEST(a_wide_layer_ends_at_some_width)
{
    spc_net_options o = options_for(1000);
    harness r;

    open_doubles();
    load_heads(&r, 130, true);
    open_context(&r, "cuda");
    plan_net(&r, &o);
    ck_assert_int_eq(count_wide(&r, 1024), 1);
    ck_assert_int_eq(count_wide(&r, 16), 1);
    close_harness(&r);
}
END_TEST

/* ---- row orders ---------------------------------------------------------- */

static spc__net_work *work_of(harness *r, const char *name)
{
    for (int i = 0; i < r->plan->work_count; i++) {
        spc__net_work *work = &r->plan->works[i];
        if (work->kind == SPC_NET_CONV &&
            strcmp(r->net->nodes[work->node].name, name) == 0)
            return work;
    }
    ck_abort_msg("no layer '%s'", name);
    return NULL;
}

/* Sets the row order of a layer, like a record. */
static void set_order(harness *r, const char *name, const char *order)
{
    spc__plan_reorder(work_of(r, name)->conv_plan, order);
}

static void expect_order(harness *r, const char *name, const char *order)
{
    const spc_plan *plan = work_of(r, name)->conv_plan;
    char words[32];

    snprintf(words, sizeof(words), "order=%s", order);
    ck_assert_str_eq(spc__plan_launch(plan)->order, order);
    require(strstr(spc_plan_config(plan), "order=") == NULL ||
                strstr(spc_plan_config(plan), words) != NULL,
            "'%s' says %s", name, spc_plan_config(plan));
}

/* Layers a and f read one map, and f has twice the inputs; c reads another
 * map. */
START_TEST(layers_of_a_map_read_one_order_where_that_pays)
{
    spc_net_options o = options_for(1000);
    harness r;

    open_doubles();
    load(&r, "chain.lua", SPC_F16);
    open_context(&r, "cuda");
    plan_net(&r, &o);
    ck_assert_int_eq(work_of(&r, "a")->map, work_of(&r, "f")->map);
    spc_map *map = r.plan->maps[work_of(&r, "a")->map];
    set_order(&r, "a", "gray_x");
    set_order(&r, "f", "gray_y");
    set_order(&r, "c", "gray_x");
    map->pairs = 1000000000000; /* here orders cost almost nothing */
    spc__net_share_orders(r.plan);
    expect_order(&r, "a", "gray_x");
    expect_order(&r, "f", "gray_y");
    map->pairs = 10000000;
    set_order(&r, "a", "dense"); /* not a Gray order */
    spc__net_share_orders(r.plan);
    expect_order(&r, "a", "dense");
    set_order(&r, "a", "none"); /* not sorted */
    set_order(&r, "c", "none");
    spc__net_share_orders(r.plan);
    expect_order(&r, "a", "gray_y");
    expect_order(&r, "c", "none"); /* the only layer of its map */
    set_order(&r, "c", "gray_x");
    set_order(&r, "a", "gray_x");
    spc__net_share_orders(r.plan);
    expect_order(&r, "a", "gray_y");
    expect_order(&r, "f", "gray_y");
    expect_order(&r, "c", "gray_x");
    close_harness(&r);
}
END_TEST

/* ---- several ------------------------------------------------------------- */

static void plan_in(harness *r, spc_ctx *ctx, const char *name)
{
    spc_net_options o = options_for(300);

    load(r, name, SPC_F32);
    make_deterministic(r->net);
    r->ctx = ctx;
    o.growth = 0;
    plan_net(r, &o);
    assert_ok(ctx, spc_net_plan_capture(r->plan, &r->buffers));
}

static void drop(harness *r)
{
    close_plan(r);
    spc_net_free(r->net);
}

/* Several runs are enqueued before any result is read, two of them of the same
 * network. The bits must equal those of separate runs. */
START_TEST(networks_of_one_context_do_not_meet)
{
    static const char *const names[] = {"chain.lua", "masked.lua", "chain.lua"};
    char *alone[LENGTH(names)];
    size_t bytes[LENGTH(names)], again;
    harness all[LENGTH(names)], first;

    memset(&first, 0, sizeof(first));
    open_context(&first, device_of(_i));
    for (int n = 0; n < LENGTH(names); n++) {
        spc_scene *scene = scene_of(n == 0 ? 4 : 0);
        plan_in(&all[n], first.ctx, names[n]);
        upload(&all[n], scene, (uint64_t)n);
        poison(&all[n]);
        assert_ok(first.ctx, spc_net_plan_replay(all[n].plan, NULL));
        alone[n] = outputs_of(&all[n], &bytes[n]);
        ck_assert_uint_gt(bytes[n], 0);
        poison(&all[n]);
        spc_scene_free(scene);
    }
    for (int n = LENGTH(names) - 1; n >= 0; n--)
        assert_ok(first.ctx, n % 2 ? spc_net_plan_execute(all[n].plan,
                                                          &all[n].buffers, NULL)
                                   : spc_net_plan_replay(all[n].plan, NULL));
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
    if (suite_device == NULL) {
        tcase_add_test(tc, a_run_and_a_replay_are_on_the_callers_stream);
        tcase_add_loop_test(tc, layers_that_share_memory_are_in_order, 0, 2);
        tcase_add_test(
            tc, heads_begin_with_one_layer_and_do_not_wait_for_each_other);
        tcase_add_test(tc, a_wide_layer_ends_at_some_width);
        tcase_add_test(tc, layers_of_a_map_read_one_order_where_that_pays);
    }
    tcase_add_loop_test(tc, networks_of_one_context_do_not_meet, 0, 1);
    tcase_add_test(tc, layers_that_read_one_tensor_are_one_layer);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
