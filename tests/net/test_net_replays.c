/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_net_replays.c - one graph, replayed a hundred times on scenes of
 * different sizes in random order. Each result must equal that of a run without
 * a graph bit by bit, and that run is compared with the oracle.
 *
 * Without an argument it runs two small networks on "cpu"; given a GPU, full
 * networks at a capacity of 160,000. All others run on a small scene
 * (test_net_files.c).
 */
#include "harness/net_harness.h"

/* Voxels per sweep in a data set: minimum, 5th and 25th percentile, median,
 * maximum. */
static const int sizes[] = {10803, 30552, 68831, 91090, 135306};
static const int small_sizes[] = {1, 17, 90, 220, 300};
enum { SCENES = LENGTH(sizes) };

/* Each network is a separate case, so that they can run in parallel. */
static const char *const networks[] = {
    "resn21",      "centerpoint", "voxelnext", "second",
    "minkunet34c", "resnl",       "unet42",
};
/* every.lua has levels that are larger than the preceding ones. */
static const char *const small_networks[] = {"chain", "every"};

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

/* Makes a wavy ground with holes, in one or two batch elements and random
 * order. */
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
        row[3] += 12 * (b / batches); /* starts another storey if necessary */
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

static spc_net_options options_for_all(void)
{
    spc_net_options o = options_for(suite_is_gpu() ? 160000 : 300);

    o.growth = suite_is_gpu() ? o.growth : 0;
    for (int a = 1; a < 4; a++) {
        o.low[a] = 0;
        o.high[a] = 1023;
    }
    return o;
}

/* ---- runs ---------------------------------------------------------------- */

static void run_each(harness *r, stage *s)
{
    spc_net_options o = options_for_all();

    o.keep = true;
    plan_net(r, &o);
    for (int i = 0; i < SCENES; i++) {
        upload(r, s->scenes[i], (uint64_t)i);
        assert_ok(r->ctx, spc_net_plan_execute(r->plan, &r->buffers, NULL));
        check_run(r, s->scenes[i], false);
        s->want[i] = outputs_of(r, &s->bytes[i]);
    }
    close_plan(r);
}

static void replay_one(harness *r, const stage *s, int i)
{
    size_t bytes;

    upload(r, s->scenes[i], (uint64_t)i);
    assert_ok(r->ctx, spc_net_plan_replay(r->plan, NULL));
    char *got = outputs_of(r, &bytes);
    ck_assert_uint_eq(bytes, s->bytes[i]);
    require(memcmp(got, s->want[i], bytes) == 0, "scene %d differs", i);
    free(got);
}

/* Shared memory may still hold results of an earlier scene. */
static void replay_all(harness *r, const stage *s)
{
    spc_net_options o = options_for_all();
    spc__random random;

    plan_net(r, &o);
    assert_ok(r->ctx, spc_net_plan_capture(r->plan, &r->buffers));
    poison(r);
    spc__random_init(&random, 17);
    for (int loop = 0; loop < 100; loop++)
        replay_one(r, s, (int)spc__random_below(&random, SCENES));
    close_plan(r);
}

static void test_network(const char *name, spc_dtype dtype)
{
    stage s = {.scenes = {NULL}};
    char file[64];
    harness r;

    snprintf(file, sizeof(file), "%s.lua", name);
    load(&r, file, dtype);
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
        test_network(small_networks[_i], SPC_F32);
}
END_TEST

/* ---- random networks ----------------------------------------------------- */

enum { LAYERS = 16, DRAWN = 24 };

typedef struct drawing {
    spc_net *net;
    spc_tensor tensors[LAYERS + 1];
    int count;
    spc__random random;
} drawing;

static spc_tensor any(drawing *d)
{
    return d->tensors[spc__random_below(&d->random, (uint32_t)d->count)];
}

static spc_status draw_conv(spc_tensor *out, drawing *d, const char *text,
                            spc_tensor in, bool adds)
{
    spc_net_layer layer = SPC_NET_LAYER_INIT;

    layer.in = in;
    layer.residual = adds ? any(d) : SPC_NO_TENSOR;
    assert_net(spc_conv_parse(&layer.conv, text, &error));
    layer.conv.cin = d->net->tensors[layer.in].channels;
    return spc_net_add_conv(out, d->net, &layer, NULL);
}

static spc_status draw_feature(spc_tensor *out, drawing *d, const char *text,
                               bool adds)
{
    spc_feature feature = SPC_FEATURE_INIT;
    spc_tensor in = any(d);

    assert_net(spc_feature_parse(&feature, text, &error));
    feature.channels = d->net->tensors[in].channels;
    return spc_net_add_feature(out, d->net, NULL, &feature, in,
                               adds ? any(d) : SPC_NO_TENSOR, SPC_NO_TENSOR,
                               NULL);
}

/* Adds a random layer over any of the tensors. If these do not fit, the layer
 * must be refused and leave the network unchanged. */
static spc_status draw_layer(spc_tensor *out, drawing *d)
{
    static const char *const convs[] = {
        "subm,cin=8,cout=8,k=3,dtype=f32,epilogue=relu",
        "subm,cin=8,cout=8,k=3,dtype=f32,epilogue=add",
        "subm,cin=8,cout=8,k=1,dtype=f32",
        "conv,cin=8,cout=8,k=2,stride=2,rule=floor,dtype=f32",
        "inverse,cin=8,cout=8,k=2,stride=2,rule=floor,dtype=f32",
    };
    int kind = (int)spc__random_below(&d->random, 9);

    if (kind < LENGTH(convs))
        return draw_conv(out, d, convs[kind], any(d), kind == 1);
    if (kind == 5 || kind == 6)
        return draw_feature(out, d, "add,c=8,dtype=f32", true);
    if (kind == 7)
        return draw_feature(out, d, "act=relu,c=8,dtype=f32", false);
    spc_tensor parts[2] = {any(d), any(d)};
    bool are_narrow = d->net->tensors[parts[0]].channels == 8 &&
                      d->net->tensors[parts[1]].channels == 8;
    return are_narrow ? spc_net_add_concat(out, d->net, parts, 2, NULL)
                      : SPC_EINVAL;
}

/* Ends with a chain of four layers, which certainly share memory. */
static spc_net *draw_net(uint64_t seed)
{
    static const char relu[] = "subm,cin=8,cout=8,k=3,dtype=f32,epilogue=relu";
    spc_net_input input = SPC_NET_INPUT_INIT;
    drawing d = {.count = 1};
    spc_tensor last;

    spc__random_init(&d.random, seed);
    assert_net(spc_net_create(&d.net, "drawn", &error));
    input.channels = 8;
    input.dtype = SPC_F32;
    assert_net(spc_net_add_input(&d.tensors[0], d.net, &input, &error));
    while (d.count <= LAYERS)
        d.count += draw_layer(&d.tensors[d.count], &d) == SPC_OK;
    last = d.tensors[LAYERS];
    for (int i = 0; i < 4; i++)
        assert_net(draw_conv(&last, &d, relu, last, false));
    assert_net(spc_net_add_output(d.net, last, "last", &error));
    last = d.tensors[1 + spc__random_below(&d.random, LAYERS)];
    assert_net(spc_net_add_output(d.net, last, "other", &error));
    assert_net(spc_net_init_params(d.net, seed, &error));
    return d.net;
}

/* Finds the range of works in which a piece of memory is live, by the tensors
 * in it that works read or write. Outputs are read after all works. */
typedef struct life {
    int first, last;
} life;

static void live(life *lives, const spc_net_plan *plan, int tensor, int at)
{
    int piece = tensor >= 0 ? plan->positions[tensor].piece : -1;

    if (piece < 0)
        return;
    lives[piece].first = at < lives[piece].first ? at : lives[piece].first;
    lives[piece].last = at > lives[piece].last ? at : lives[piece].last;
}

static void find_lives(life *lives, const spc_net_plan *plan)
{
    for (int i = 0; i < plan->piece_count; i++)
        lives[i] = (life){plan->work_count + 1, -1};
    for (int i = 0; i < plan->work_count; i++) {
        const spc__net_work *w = &plan->works[i];
        if (w->kind != SPC_NET_CONV && w->kind != SPC_NET_FEATURE)
            continue;
        live(lives, plan, w->in, i);
        live(lives, plan, w->add, i);
        live(lives, plan, w->out, i);
    }
    for (int i = 0; i < plan->net->out_count; i++)
        live(lives, plan, plan->net->outs[i].tensor, plan->work_count);
}

static void check_apart(const spc_net_plan *plan)
{
    life *lives = malloc((size_t)plan->piece_count * sizeof(*lives) + 1);

    find_lives(lives, plan);
    for (int i = 0; i < plan->piece_count; i++)
        for (int j = 0; j < i; j++) {
            const spc__net_piece *a = &plan->pieces[i], *b = &plan->pieces[j];
            bool in_time = lives[i].first <= lives[j].last &&
                           lives[j].first <= lives[i].last;
            bool in_place = a->offset < b->offset + b->bytes &&
                            b->offset < a->offset + a->bytes;
            require(!in_time || !in_place, "pieces %d and %d", j, i);
        }
    free(lives);
}

/* Tensors that share memory must not be live at the same time, according to the
 * layers' reads and writes. Results must equal those of a plan that shares
 * nothing. */
START_TEST(tensors_of_drawn_networks_lie_apart)
{
    spc_net_options o = options_for(300);
    harness r = {0};

    if (!suite_takes(_i))
        return;
    r.net = draw_net((uint64_t)_i + 1);
    spc_net_describe(&r.info, r.net);
    make_deterministic(r.net);
    open_context(&r, device_of(0));
    compare_replays(&r, &o, 2);
    check_apart(r.plan);
    close_harness(&r);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    Suite *suite = suite_create("net_replays");
    bool gpu = suite_is_gpu();
    int count = gpu ? LENGTH(networks) : LENGTH(small_networks);
    for (int i = 0; i < count; i++) {
        TCase *tc = tcase_create(gpu ? networks[i] : small_networks[i]);
        /* the oracle needs this for a million voxels */
        tcase_set_timeout(tc, 900);
        tcase_add_loop_test(
            tc, a_hundred_replays_of_scenes_of_all_sizes_are_right, i, i + 1);
        suite_add_tcase(suite, tc);
    }
    TCase *drawn = tcase_create("drawn");
    suite_sample(DRAWN / 6);
    tcase_set_timeout(drawn, 300);
    tcase_add_loop_test(drawn, tensors_of_drawn_networks_lie_apart, 0, DRAWN);
    suite_add_tcase(suite, drawn);
    return run_suite(suite);
}
