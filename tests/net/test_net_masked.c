/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_net_masked.c - networks with sets that depend on features: pruning,
 * predicted children; and masks made from features.
 *
 * Without an argument it runs on "cpu" and "sim", small, and on the fake driver
 * (ctest sets LD_LIBRARY_PATH for it); with a device as argument it runs there.
 */
#include "harness/net_harness.h"

#include "coords/regroup/regroup.h"
#include <math.h>

/* ---- narrow forms of example networks ------------------------------------ */

/* Files of examples/networks. Each line given here replaces the file's line
 * with the same beginning. */
static const struct {
    const char *file, *lines[3];
} narrow[] = {
    {"completion.lua", {"local widths = {8, 8, 16}", "local room = 20", NULL}},
    {"trellis2_shape.lua",
     {"local widths = {32, 16, 8}", "local blocks = {1, 1, 0}",
      "local rooms = {8, 64}"}},
};

/* True if `with` replaces `line`. */
static bool same_name(const char *line, const char *with)
{
    size_t length = (size_t)(strchr(with, '=') - with) + 1;

    return strncmp(line, with, length) == 0;
}

static void append_line(spc__buf *out, const char *line, size_t length, int i)
{
    for (int j = 0; j < 3 && narrow[i].lines[j] != NULL; j++)
        if (same_name(line, narrow[i].lines[j])) {
            spc__buf_printf(out, "%s\n", narrow[i].lines[j]);
            return;
        }
    spc__buf_printf(out, "%.*s\n", (int)length, line);
}

static void load_narrow(harness *r, int i, spc_dtype dtype)
{
    spc__buf text = SPC__BUF_INIT, out = SPC__BUF_INIT;

    memset(r, 0, sizeof(*r));
    assert_net(
        spc__file_read(&text, network_path(narrow[i].file), 1 << 20, &error));
    for (const char *at = spc__buf_text(&text); *at != '\0';) {
        size_t length = strcspn(at, "\n");
        append_line(&out, at, length, i);
        at += length + (at[length] == '\n');
    }
    ck_assert_msg(load_text(&r->net, spc__buf_text(&out), dtype) == SPC_OK,
                  "%s: %s", narrow[i].file, error.text);
    assert_net(spc_net_init_params(r->net, 3, &error));
    spc_net_describe(&r->info, r->net);
    spc__buf_release(&text);
    spc__buf_release(&out);
}

static const spc_dtype dtypes[] = {SPC_F32, SPC_F16, SPC_BF16};

/* ---- results ------------------------------------------------------------ */

static void run_scenes(harness *r, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        spc_scene *scene = scene_of(i);
        upload(r, scene, (uint64_t)i);
        poison(r);
        assert_ok(r->ctx, spc_net_plan_execute(r->plan, &r->buffers, NULL));
        check_run(r, scene, false);
        spc_scene_free(scene);
    }
}

/* A GPU runs all files, but the examples in one type only, since compiling is
 * slow. */
static bool takes(int i)
{
    int kind = i / LENGTH(dtypes);

    if (suite_is_gpu())
        return kind == 0 || (kind > 1 && i % LENGTH(dtypes) == 1);
    return suite_takes(i);
}

/* Runs `masked.lua` for each type and device, and the examples for each type on
 * a processor. A part of these cases runs. */
START_TEST(sets_that_features_choose_are_as_the_oracle_says)
{
    spc_net_options o = options_for(300);
    int kind = _i / LENGTH(dtypes);
    spc_scene *sample = scene_of(1);
    harness r;

    if (takes(_i)) {
        if (kind < 2)
            load(&r, "masked.lua", dtypes[_i % LENGTH(dtypes)]);
        else
            load_narrow(&r, kind - 2, dtypes[_i % LENGTH(dtypes)]);
        open_context(&r, device_of(kind == 1));
        o.keep = true;
        o.sample = spc_scene_coords(sample);
        o.sample_rows = spc_scene_rows(sample);
        plan_net(&r, &o);
        run_scenes(&r, 0, 6);
        close_harness(&r);
    }
    spc_scene_free(sample);
}
END_TEST

static int rows_of_set(harness *r, int set)
{
    return (int)spc_coords_rows(r->plan->sets[set]);
}

/* The mask is a layer's output. With a large bias all voxels stay, with a very
 * negative one none. */
START_TEST(a_layer_decides_which_voxels_stay)
{
    spc_net_options o = options_for(300);
    spc_scene *scene = scene_of(1);
    int rows = (int)spc_scene_rows(scene);
    harness r;

    for (int all = 0; all < 2; all++) {
        float bias = all ? 1e4f : -1e4f;
        load(&r, "masked.lua", SPC_F32);
        assert_net(spc_net_set_param(r.net, "keep", SPC_OPERAND_BIAS, &bias, 1,
                                     &error));
        open_context(&r, device_of(0));
        o.keep = true;
        plan_net(&r, &o);
        upload(&r, scene, 1);
        assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
        check_run(&r, scene, false);
        ck_assert_int_eq(rows_of_set(&r, 1), all ? rows : 0);
        ck_assert((rows_of_set(&r, 2) > 0) == all);
        close_harness(&r);
    }
    spc_scene_free(scene);
}
END_TEST

START_TEST(a_replay_gives_the_bits_of_a_run)
{
    spc_net_options o = options_for(300);
    harness r;

    load(&r, "masked.lua", SPC_F32);
    if (suite_is_gpu())
        make_deterministic(r.net);
    open_context(&r, device_of(0));
    compare_replays(&r, &o, suite_is_gpu() ? 100 : 4);
    close_harness(&r);
}
END_TEST

/* ---- errors -------------------------------------------------------------- */

START_TEST(more_than_there_is_room_for_is_said_with_the_layer)
{
    spc_net_options o = options_for(300);
    spc_scene *scene = scene_of(1), *small = scene_of(5);
    float bias = 1e4f;
    harness r;

    load(&r, "masked.lua", SPC_F32);
    /* All 300 voxels stay in set 1, and each keeps half of its children. */
    assert_net(
        spc_net_set_param(r.net, "keep", SPC_OPERAND_BIAS, &bias, 1, &error));
    r.net->sets[2].room = 2;
    open_context(&r, device_of(0));
    o.keep = true;
    plan_net(&r, &o);
    upload(&r, scene, 1);
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
    ck_assert_int_eq(spc_net_plan_check(r.plan, NULL), SPC_ECAPACITY);
    ck_assert_msg(
        strstr(spc_ctx_error(r.ctx), "set 2, of layer 'layer7' of network "),
        "%s", spc_ctx_error(r.ctx));
    ck_assert_msg(strstr(spc_ctx_error(r.ctx),
                         "for a set of 600, which is room 2 times "),
                  "%s", spc_ctx_error(r.ctx));
    ck_assert_msg(strstr(spc_ctx_error(r.ctx), " would have fitted"), "%s",
                  spc_ctx_error(r.ctx));
    upload(&r, small, 2); /* the next run is unaffected */
    assert_ok(r.ctx, spc_net_plan_execute(r.plan, &r.buffers, NULL));
    check_run(&r, small, false);
    spc_scene_free(scene);
    spc_scene_free(small);
    close_harness(&r);
}
END_TEST

/* Texts that follow an input of four channels and its mask. */
static const struct {
    const char *text, *says;
} refused[] = {
    {"regroup({x}, {mask = 9})", "its `mask` is tensor 9"},
    {"regroup({x}, {mask = x})",
     "its mask has 4 channels, but a voxel 1 child"},
    {"regroup({x}, {mask = m, split = {2, 2, 2}})",
     "its mask has 1 channel, but a voxel 8 children"},
    {"regroup({x, x}, {mask = m})", "a mask chooses among the voxels of one"},
    {"regroup({x}, {above = 1})", "above and room belong to a mask"},
    {"regroup({x}, {mask = m, room = -1})", "a room of -1"},
    {"regroup({x}, {mask = m, above = 0/0})", "the threshold is NaN"},
    {"regroup({conv(x, 'conv,cout=4,k=2,stride=2,rule=floor')}, {mask = m})",
     "its mask has another coordinate set"},
    {"regroup({x}, {mask = feature(m, 'global=max')})", "its `mask` is dense"},
};

START_TEST(a_mask_that_does_not_fit_is_refused)
{
    char text[600];
    spc_net *net;

    snprintf(text, sizeof(text),
             "local x = input {channels = 4}\n"
             "local m = conv(x, 'subm,cout=1,k=1')\n%s\n",
             refused[_i].text);
    ck_assert_int_eq(load_text(&net, text, SPC_F32), SPC_ETEMPLATE);
    ck_assert_msg(strstr(error.text, refused[_i].says) != NULL, "'%s' says: %s",
                  refused[_i].text, error.text);
}
END_TEST

/* Maps depend only on sets: two layers that select by one mask share a set. */
START_TEST(layers_that_choose_alike_share_a_set)
{
    harness r;

    load(&r, "masked.lua", SPC_F32);
    /* The sets are the input's, the pruned one, the children, their level, the
     * union, and the unused one. */
    ck_assert_int_eq(r.info.sets, 6);
    ck_assert(!spc__net_set_is_late(r.net, 0));
    for (int i = 1; i < r.info.sets; i++)
        ck_assert(spc__net_set_is_late(r.net, i));
    spc_net_free(r.net);
}
END_TEST

/* ---- masks --------------------------------------------------------------- */

enum { SOURCES = 2, CHILDREN = 8, ROWS = 60 };

/* Fills features with numbers around a threshold of 0.5 and some NaN. */
static float number_of(int i)
{
    static const float numbers[] = {0.5f,     0.50390625f, 0.49609375f, -3,
                                    INFINITY, -INFINITY,   NAN,         0};

    return numbers[(i * 7 + i / 8) % LENGTH(numbers)];
}

static void compare_masks(spc_ctx *ctx, const spc_coords *set, spc_dtype dtype)
{
    const spc__dtype *type = spc__dtype_of(dtype);
    size_t count = ROWS * CHILDREN;
    float numbers[ROWS * CHILDREN];
    uint8_t got[SOURCES * ROWS * CHILDREN + 1];
    void *in[SOURCES], *mask, *stored = malloc(count * 4);

    memset(got, 7, sizeof(got));
    assert_ok(ctx, spc_memory_alloc(&mask, ctx, sizeof(got)));
    assert_ok(ctx, spc_memory_upload(mask, ctx, got, sizeof(got)));
    for (int s = 0; s < SOURCES; s++) {
        for (size_t i = 0; i < count; i++)
            numbers[i] = number_of((int)i + s);
        type->encode(stored, numbers, count);
        assert_ok(ctx, spc_memory_alloc(&in[s], ctx, count * type->bytes));
        assert_ok(ctx,
                  spc_memory_upload(in[s], ctx, stored, count * type->bytes));
    }
    assert_ok(ctx, spc_coords_mask_above(mask, set, (const void *const *)in,
                                         dtype, 0.5f, NULL));
    assert_ok(ctx, spc_memory_download(got, ctx, mask, sizeof(got)));
    for (int s = 0; s < SOURCES; s++)
        for (int i = 0; i < (int)count; i++) {
            bool there = i / CHILDREN < ROWS - 10 * s;
            int want = there ? number_of(i + s) > 0.5f : 7;
            require(got[s * (int)count + i] == want, "%s: source %d, slot %d",
                    spc_dtype_name(dtype), s, i);
        }
    ck_assert_int_eq(got[SOURCES * count], 7);
    spc_memory_free(ctx, mask);
    for (int s = 0; s < SOURCES; s++)
        spc_memory_free(ctx, in[s]);
    free(stored);
}

/* The set has capacity for ROWS, ten free rows, and one invalid row. */
static spc_coords *source(spc_ctx *ctx, int rows)
{
    spc_coords_options o = SPC_COORDS_OPTIONS_INIT;
    int32_t coords[ROWS][4];
    spc_coords *set;
    void *device;

    o.capacity = ROWS;
    o.high[1] = o.high[2] = o.high[3] = 63;
    for (int i = 0; i < rows; i++) {
        int32_t row[4] = {0, i, i % 3, i == 5 ? 99 : 1};
        memcpy(coords[i], row, sizeof(row));
    }
    assert_ok(ctx, spc_coords_create_reserved(&set, ctx, &o));
    assert_ok(ctx, spc_memory_alloc(&device, ctx, sizeof(coords)));
    assert_ok(ctx, spc_memory_upload(device, ctx, coords, sizeof(coords)));
    assert_ok(ctx, spc_coords_update(set, device, NULL, rows, NULL));
    assert_ok(ctx, spc_ctx_synchronize(ctx));
    spc_memory_free(ctx, device);
    return set;
}

START_TEST(a_mask_has_what_is_above_the_threshold)
{
    spc_regrouping how = {{2, 2, 2}, {2, 2, 2}};
    spc_coords *sources[SOURCES], *set;
    void *dummy = &how;
    harness r = {0};

    open_context(&r, device_of(_i));
    for (int s = 0; s < SOURCES; s++)
        sources[s] = source(r.ctx, ROWS - 10 * s);
    assert_ok(r.ctx, spc_coords_create_regrouped_reserved(&set, sources,
                                                          SOURCES, &how, 0));
    for (int i = 0; i < LENGTH(dtypes); i++)
        compare_masks(r.ctx, set, dtypes[i]);
    ck_assert_int_eq(spc_coords_mask_above(dummy, set,
                                           (const void *const *)sources, SPC_I8,
                                           0, NULL),
                     SPC_EINVAL);
    ck_assert_int_eq(spc_coords_mask_above(dummy, sources[0],
                                           (const void *const *)sources,
                                           SPC_F32, 0, NULL),
                     SPC_EINVAL);
    spc_coords_free(set);
    for (int s = 0; s < SOURCES; s++)
        spc_coords_free(sources[s]);
    spc_ctx_free(r.ctx);
}
END_TEST

/* ---- driver calls of a run ----------------------------------------------- */

START_TEST(a_run_is_nothing_but_launches_and_a_replay_is_one)
{
    spc_net_options o = options_for(2000);
    harness r;

    open_doubles();
    load_narrow(&r, _i, SPC_F16);
    open_context(&r, "cuda");
    plan_net(&r, &o);
    count_calls(&r, 40);
    close_harness(&r);
    ck_assert_int_eq(fake->live.graph_execs, 0);
    ck_assert_int_eq(fake->live.memory, 0);
}
END_TEST

static TCase *add(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 300);
    suite_add_tcase(suite, tc);
    return tc;
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    TCase *tc;

    if (status != 0)
        return status;
    Suite *suite = suite_create("net_masked");
    suite_sample(12);
    if (suite_device == NULL) {
        tc = add(suite, "graph");
        tcase_add_loop_test(tc, a_mask_that_does_not_fit_is_refused, 0,
                            LENGTH(refused));
        tcase_add_test(tc, layers_that_choose_alike_share_a_set);
        tc = add(suite, "driver");
        tcase_add_loop_test(tc,
                            a_run_is_nothing_but_launches_and_a_replay_is_one,
                            0, LENGTH(narrow));
    }
    tc = add(suite, "results");
    tcase_add_loop_test(tc, sets_that_features_choose_are_as_the_oracle_says, 0,
                        4 * LENGTH(dtypes));
    tcase_add_test(tc, a_layer_decides_which_voxels_stay);
    tcase_add_test(tc, more_than_there_is_room_for_is_said_with_the_layer);
    tcase_add_test(tc, a_replay_gives_the_bits_of_a_run);
    tcase_add_loop_test(tc, a_mask_has_what_is_above_the_threshold, 0,
                        suite_device != NULL ? 1 : 2);
    return run_suite(suite);
}
