/*
 * test_net_replays.c - one graph, a hundred replays of scenes of differing size
 * in random order: each is what a run without a graph gave, bit by bit, and
 * that is as the oracle says.
 *
 * Without an argument on "cpu", small; given a device, networks in full at a
 * capacity of 160,000, and all others of examples/networks on a small scene,
 * but for those whose sets features choose and those of clouds, which have
 * suites of their own.
 */
#include "net_rig.h"

/* Voxels of a sweep, over the frames of a data set: least, 5 and 25 of a
 * hundred, half, most. */
static const int sizes[] = {10803, 30552, 68831, 91090, 135306};
static const int small_sizes[] = {1, 17, 90, 220, 300};
enum { SCENES = LENGTH(sizes) };

static const char *const networks[] = {"resn21.lua", "centerpoint.lua",
                                       "voxelnext.lua"};

typedef struct stage {
    spc_scene *scenes[SCENES];
    char *want[SCENES]; /* outputs of a run without a graph */
    size_t bytes[SCENES];
} stage;

/* ---- scenes -------------------------------------------------------------- */

static void swap_rows(int32_t *a, int32_t *b)
{
    int32_t kept[4];

    memcpy(kept, a, sizeof(kept));
    memcpy(a, b, sizeof(kept));
    memcpy(b, kept, sizeof(kept));
}

/* A wavy ground with holes, in one batch element or two, rows in no order. */
static spc_scene *ground(int rows, int batches, uint64_t seed)
{
    int32_t *coords = malloc(16 * (size_t)rows);
    int side = 1, made = 0;
    spc_scene *scene;
    spc__random random;

    spc__random_init(&random, seed);
    while (side * side * 3 / 5 < rows / batches + 1)
        side++;
    for (int at = 0; made < rows; at++) {
        int x = at % side, y = at / side % side, b = at / side / side;
        int32_t row[4] = {b % batches, x, y, 12 + (x / 9 + y / 13) % 11};
        row[3] += 12 * (b / batches); /* another storey, if it must be */
        if (spc__random_below(&random, 10) < 7)
            memcpy(coords + 4 * made++, row, sizeof(row));
    }
    for (int i = rows - 1; i > 0; i--)
        swap_rows(coords + 4 * i,
                  coords + 4 * spc__random_below(&random, (uint32_t)i + 1));
    assert_net(spc_scene_create(&scene, coords, rows, "ground", &error));
    free(coords);
    return scene;
}

static void make_scenes(stage *s)
{
    const int *rows = suite_is_gpu() ? sizes : small_sizes;

    for (int i = 0; i < SCENES; i++)
        s->scenes[i] = ground(rows[i], 1 + i % 2, (uint64_t)i + 1);
}

static spc_net_options room_for_all(void)
{
    spc_net_options o = room_for(suite_is_gpu() ? 160000 : 300);

    for (int a = 1; a < 4; a++) {
        o.low[a] = 0;
        o.high[a] = 1023;
    }
    return o;
}

/* ---- runs ---------------------------------------------------------------- */

static void run_each(rig *r, stage *s)
{
    spc_net_options o = room_for_all();

    o.keep = true;
    plan_net(r, &o);
    for (int i = 0; i < SCENES; i++) {
        upload(r, s->scenes[i], (uint64_t)i);
        assert_ok(r->ctx, spc_net_execute(r->plan, &r->buffers, NULL));
        check_run(r, s->scenes[i], false);
        s->want[i] = outputs_of(r, &s->bytes[i]);
    }
    close_plan(r);
}

static void replay_one(rig *r, const stage *s, int i)
{
    size_t bytes;

    upload(r, s->scenes[i], (uint64_t)i);
    assert_ok(r->ctx, spc_net_replay(r->plan, NULL));
    char *got = outputs_of(r, &bytes);
    ck_assert_uint_eq(bytes, s->bytes[i]);
    require(memcmp(got, s->want[i], bytes) == 0, "scene %d differs", i);
    free(got);
}

/* Memory is shared now; what an earlier scene left there is in the way. */
static void replay_all(rig *r, const stage *s)
{
    spc_net_options o = room_for_all();
    spc__random random;

    plan_net(r, &o);
    assert_ok(r->ctx, spc_net_capture(r->plan, &r->buffers));
    poison(r);
    spc__random_init(&random, 17);
    for (int turn = 0; turn < 100; turn++)
        replay_one(r, s, (int)spc__random_below(&random, SCENES));
    close_plan(r);
}

static void test_network(const char *name, spc_dtype dtype)
{
    stage s = {.scenes = {NULL}};
    rig r;

    load(&r, name, dtype);
    make_deterministic(r.net);
    open_context(&r, device_of(0));
    make_scenes(&s);
    run_each(&r, &s);
    replay_all(&r, &s);
    for (int i = 0; i < SCENES; i++) {
        spc_scene_free(s.scenes[i]);
        free(s.want[i]);
    }
    spc_net_free(r.net);
    spc_ctx_free(r.ctx);
}

START_TEST(a_hundred_replays_of_scenes_of_all_sizes_are_right)
{
    if (suite_is_gpu())
        test_network(networks[_i], SPC_F16);
    else
        test_network("chain.lua", SPC_F32);
}
END_TEST

/* ---- all files ----------------------------------------------------------- */

static const char *const others[] = {
    "second.lua",       "unetv2.lua",      "largekernel3d.lua",
    "minkunet18a.lua",  "minkunet34c.lua", "minkunet_w20.lua",
    "spunet.lua",       "ptv3.lua",        "resnl.lua",
    "trellis_mesh.lua", "unet42.lua",
};

START_TEST(every_other_network_is_as_the_oracle_says)
{
    spc_net_options o = room_for_all();
    spc_scene *scene;
    rig r;

    if (!suite_takes(_i))
        return;
    scene = ground(300, 2, (uint64_t)_i);
    load(&r, others[_i], SPC_F16);
    open_context(&r, suite_device);
    o.capacity = 400;
    o.growth = 8;
    o.keep = true;
    plan_net(&r, &o);
    upload(&r, scene, 1);
    poison(&r);
    assert_ok(r.ctx, spc_net_execute(r.plan, &r.buffers, NULL));
    check_run(&r, scene, false);
    spc_scene_free(scene);
    close_rig(&r);
}
END_TEST

static void add_others(Suite *suite)
{
    TCase *tc = tcase_create("others");

    suite_sample(4);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, every_other_network_is_as_the_oracle_says, 0,
                        LENGTH(others));
    suite_add_tcase(suite, tc);
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    Suite *suite = suite_create("net_replays");
    int count = suite_is_gpu() ? LENGTH(networks) : 1;
    for (int i = 0; i < count; i++) {
        TCase *tc = tcase_create(suite_is_gpu() ? networks[i] : "small");
        tcase_set_timeout(tc, 300);
        tcase_add_loop_test(
            tc, a_hundred_replays_of_scenes_of_all_sizes_are_right, i, i + 1);
        suite_add_tcase(suite, tc);
    }
    if (suite_is_gpu())
        add_others(suite);
    return run_suite(suite);
}
