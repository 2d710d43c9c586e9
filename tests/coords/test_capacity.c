/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_capacity.c - reserved sets whose capacity changes with every scene: maps
 * and layers equal those of sets of exactly that size, no memory is allocated,
 * and stale objects are refused.
 *
 *     test_capacity [sim|cpu|cuda]
 */
#include "harness/coords_harness.h"
#include "harness/counting_hook.h"

enum { RESERVED = 2000, LOW = -12, HIGH = 12, PASSES = 3, GUARD = 16 };

/* ---- a layer with its three passes --------------------------------------- */

/* The passes of a layer share these objects: two sets (one for a submanifold
 * layer), and the maps of both directions (one if they are equal). */
typedef struct layer {
    spc_ctx *ctx;
    spc_conv passes[PASSES];
    spc_coords *in, *out;
    spc_map *map, *back;
} layer;

static bool is_subm(const layer *l)
{
    return l->in == l->out;
}

static spc_map *map_of(const layer *l, int pass)
{
    return pass == SPC_DGRAD ? l->back : l->map;
}

static void make_maps(layer *l)
{
    const spc_geometry *g = &l->passes[SPC_FORWARD].geometry;

    assert_ok(l->ctx, spc_map_create(&l->map, l->in, l->out, g));
    l->back = l->map;
    if (!is_subm(l))
        assert_ok(l->ctx, spc_map_create_inverse(&l->back, l->out, l->in, g));
}

/* Makes the sets and maps of a layer, without filling them. */
static void open_layer(layer *l, spc_ctx *ctx, const char *text, int capacity,
                       int64_t outputs)
{
    spc_conv conv = parse(text);
    spc_error error = {0};

    memset(l, 0, sizeof *l);
    l->ctx = ctx;
    for (int p = 0; p < PASSES; p++)
        ck_assert_msg(
            spc_conv_pass(&l->passes[p], &conv, (spc_pass)p, &error) == SPC_OK,
            "%s", error.text);
    l->in = l->out = reserve(ctx, capacity, LOW, HIGH, SPC_DUPLICATES_ERROR);
    if (conv.op != SPC_SUBM)
        assert_ok(ctx, spc_coords_create_outputs_reserved(
                           &l->out, l->in, &conv.geometry, outputs));
    make_maps(l);
}

static void close_layer(layer *l)
{
    if (!is_subm(l)) {
        spc_map_free(l->back);
        spc_coords_free(l->out);
    }
    spc_map_free(l->map);
    spc_coords_free(l->in);
}

static void fill_maps(const layer *l)
{
    assert_ok(l->ctx, spc_map_update(l->map, NULL, NULL, 0, NULL));
    if (!is_subm(l))
        assert_ok(l->ctx, spc_map_update(l->back, NULL, NULL, 0, NULL));
}

static void check_maps(const layer *l)
{
    assert_ok(l->ctx, spc_map_check(l->map, NULL));
    if (!is_subm(l))
        assert_ok(l->ctx, spc_map_check(l->back, NULL));
}

/* Fills the sets with a new scene. Afterwards capacities are the numbers of
 * voxels. */
static void fill(const layer *l, const rows *r, const int32_t *coords)
{
    assert_ok(l->ctx, spc_coords_set_capacity(l->in, r->count));
    assert_ok(l->ctx, spc_coords_update(l->in, coords, NULL, r->count, NULL));
    if (!is_subm(l)) {
        assert_ok(l->ctx,
                  spc_coords_set_capacity(l->out, spc_coords_reserved(l->out)));
        assert_ok(l->ctx, spc_coords_update(l->out, NULL, NULL, 0, NULL));
        assert_ok(l->ctx, spc_coords_check(l->out, NULL));
        assert_ok(l->ctx,
                  spc_coords_set_capacity(l->out, spc_coords_rows(l->out)));
    }
    fill_maps(l);
}

/* ---- execution ----------------------------------------------------------- */

static char *bytes_of(spc_ctx *ctx, size_t bytes, uint64_t seed)
{
    float *values = malloc(bytes + 4);
    spc__random random;

    spc__random_init(&random, seed);
    for (size_t i = 0; i < bytes / 4; i++)
        values[i] = (float)spc__random_below(&random, 7) - 3;
    char *out = upload(ctx, values, bytes);
    free(values);
    return out;
}

/* Runs a pass with buffers of exactly its rows. Returns the result, and checks
 * that nothing after it was written. */
static char *run_plan(const layer *l, int pass, const spc_plan *plan,
                      size_t *bytes)
{
    const spc_conv *conv = &l->passes[pass];
    spc_map *map = map_of(l, pass);
    int64_t ins = spc_coords_capacity(spc_map_in(map));
    int64_t outs = spc_coords_capacity(spc_map_out(map));
    size_t other =
        pass == SPC_WGRAD
            ? spc_conv_operand_bytes(conv, SPC_OPERAND_RESIDUAL, outs)
            : spc_conv_operand_bytes(conv, SPC_OPERAND_WEIGHTS, 0);
    char *x =
        bytes_of(l->ctx, spc_conv_operand_bytes(conv, SPC_OPERAND_IN, ins), 3);
    char *w = bytes_of(l->ctx, other, 4), *packed = NULL, *work, *y;

    *bytes = spc_conv_operand_bytes(conv, SPC_OPERAND_OUT, outs);
    char *host = malloc(*bytes + GUARD);
    memset(host, 0x7f, *bytes + GUARD);
    assert_ok(l->ctx, spc_memory_alloc((void **)&y, l->ctx, *bytes + GUARD));
    assert_ok(l->ctx, spc_memory_upload(y, l->ctx, host, *bytes + GUARD));
    assert_ok(l->ctx,
              spc_memory_alloc((void **)&work, l->ctx,
                               spc_plan_workspace_bytes(plan, map) + 1));
    spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                           .in = x,
                           .out = y,
                           .workspace = work,
                           .grad = w};
    if (pass != SPC_WGRAD) {
        assert_ok(l->ctx, spc_memory_alloc((void **)&packed, l->ctx,
                                           spc_plan_weights_bytes(plan)));
        assert_ok(l->ctx, spc_plan_pack(packed, plan, w, SPC_KRSC, NULL));
        buffers.weights = packed;
        buffers.grad = NULL;
    }
    assert_ok(l->ctx, spc_plan_execute(plan, map, &buffers, NULL));
    assert_ok(l->ctx, spc_ctx_synchronize(l->ctx));
    assert_ok(l->ctx, spc_memory_download(host, l->ctx, y, *bytes + GUARD));
    for (int i = 0; i < GUARD; i++)
        ck_assert_msg(host[*bytes + (size_t)i] == 0x7f,
                      "byte %d after the output was written", i);
    void *const memory[] = {x, w, y, work, packed};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        spc_memory_free(l->ctx, memory[i]);
    return host;
}

/* Compares results with those on sets that are created with exactly this
 * capacity. */
static void compare_exact(const layer *l, spc_plan *const plans[PASSES],
                          const char *text, const rows *r,
                          const int32_t *coords)
{
    layer exact;

    open_layer(&exact, l->ctx, text, r->count,
               is_subm(l) ? 0 : spc_coords_capacity(l->out));
    assert_ok(l->ctx,
              spc_coords_update(exact.in, coords, NULL, r->count, NULL));
    if (!is_subm(l))
        assert_ok(l->ctx, spc_coords_update(exact.out, NULL, NULL, 0, NULL));
    fill_maps(&exact);
    for (int p = 0; p < PASSES; p++) {
        size_t bytes, want_bytes;
        spc_map *map = map_of(&exact, p);
        assert_ok(l->ctx, spc_map_prepare(map, plans[p], NULL));
        /* Odd scenes run the plan without preparing the map again. */
        if (r->count % 2 == 0)
            assert_ok(l->ctx, spc_map_prepare(map_of(l, p), plans[p], NULL));
        ck_assert_uint_eq(spc_plan_workspace_bytes(plans[p], map_of(l, p)),
                          spc_plan_workspace_bytes(plans[p], map));
        char *got = run_plan(l, p, plans[p], &bytes);
        char *want = run_plan(&exact, p, plans[p], &want_bytes);
        ck_assert_uint_eq(bytes, want_bytes);
        ck_assert_msg(memcmp(got, want, bytes) == 0, "%s, %d rows: pass %d",
                      text, r->count, p);
        free(got);
        free(want);
    }
    close_layer(&exact);
}

/* ---- scene after scene --------------------------------------------------- */

static const char *const layers[] = {
    "subm,cin=8,cout=12,k=3,dtype=f32,deterministic=1",
    "conv,cin=8,cout=12,k=3,stride=2,padding=1,rule=footprint,dtype=f32,"
    "deterministic=1",
    "conv,cin=4,cout=8,k=2,stride=2,rule=floor,dtype=f32,deterministic=1",
};
enum { LAYERS = sizeof layers / sizeof *layers };

/* Sizes below and above the unit of padding, empty, and the whole capacity. */
static const int scenes[] = {300, 1700, 0, 768, 1, 769, RESERVED, 40};

static spc_ctx *open_hooked(const char *device, counting_hook *hook)
{
    spc_ctx_options o = SPC_CTX_OPTIONS_INIT;
    spc_error error = {0};
    spc_ctx *ctx;

    o.device = device;
    o.database = suite_database();
    o.threads = 2;
    if (hook)
        o.memory =
            (spc_memory_hook){counting_alloc, counting_free, hook, false};
    ck_assert_msg(spc_ctx_create(&ctx, &o, &error) == SPC_OK, "%s", error.text);
    return ctx;
}

/* Prepares layouts of all kinds. Some are added while the capacity is small;
 * they must still have room for all reserved rows. */
static void prepare_more(const layer *l, int scene)
{
    static const char *const orders[] = {"gray", "gray2", "dense", "morton"};
    spc_map *const maps[] = {l->map, l->back};

    for (int m = 0; m < (is_subm(l) ? 1 : 2); m++) {
        for (int i = 0; i < 4 && scene == 0; i++)
            assert_ok(l->ctx,
                      spc__map_prepare(maps[m], orders[i], 16 << i, NULL));
        if (scene == 1)
            assert_ok(l->ctx, spc__map_prepare_pairs(maps[m], NULL));
    }
}

static void check_scene(layer *l, const rows *r)
{
    check_maps(l);
    ck_assert_int_eq(spc_map_rows_out(l->map), spc_coords_capacity(l->out));
    check_map(l->ctx, l->map, &l->passes[SPC_FORWARD], r);
    if (is_subm(l))
        return;
    check_outputs(l->ctx, l->out, &l->passes[SPC_FORWARD], r);
    check_map(l->ctx, l->back, &l->passes[SPC_DGRAD], r);
}

START_TEST(a_map_is_that_of_its_capacity)
{
    const char *text = layers[case_of(_i)];
    spc_ctx *ctx = open_hooked(device_of(_i), NULL);
    spc_plan *plans[PASSES];
    layer l;

    open_layer(&l, ctx, text, RESERVED, 0);
    for (int p = 0; p < PASSES; p++)
        assert_ok(ctx, spc_plan_create(&plans[p], ctx, &l.passes[p],
                                       map_of(&l, p), SPC_PLAN_ESTIMATE));
    for (size_t s = 0; s < sizeof scenes / sizeof *scenes; s++) {
        rows r = draw(scenes[s], LOW, HIGH - LOW, 2, s + 1);
        int32_t *coords = upload(ctx, r.at, 16 * (size_t)r.count);
        fill(&l, &r, coords);
        prepare_more(&l, (int)s);
        check_scene(&l, &r);
        compare_exact(&l, plans, text, &r, coords);
        spc_memory_free(ctx, coords);
        free(r.at);
    }
    for (int p = 0; p < PASSES; p++)
        spc_plan_free(plans[p]);
    close_layer(&l);
    spc_ctx_free(ctx);
}
END_TEST

/* The hook serves devices whose memory is the host's. */
START_TEST(a_scene_allocates_nothing)
{
    const char *text = layers[_i / 2], *device = devices[_i % 2];
    counting_hook hook = {0};
    spc_ctx *ctx = open_hooked(device, &hook);
    spc_plan *plans[PASSES];
    layer l;

    open_layer(&l, ctx, text, RESERVED, 0);
    for (int p = 0; p < PASSES; p++)
        assert_ok(ctx, spc_plan_create(&plans[p], ctx, &l.passes[p],
                                       map_of(&l, p), SPC_PLAN_ESTIMATE));
    for (size_t s = 0; s < sizeof scenes / sizeof *scenes; s++) {
        rows r = draw(scenes[s], LOW, HIGH - LOW, 2, s + 1);
        int32_t *coords = upload(ctx, r.at, 16 * (size_t)r.count);
        int before = hook.calls;
        fill(&l, &r, coords);
        for (int p = 0; p < PASSES; p++)
            assert_ok(ctx, spc_map_prepare(map_of(&l, p), plans[p], NULL));
        ck_assert_msg(hook.calls == before, "%s: %d allocations for scene %d",
                      text, hook.calls - before, (int)s);
        spc_memory_free(ctx, coords);
        free(r.at);
    }
    for (int p = 0; p < PASSES; p++)
        spc_plan_free(plans[p]);
    close_layer(&l);
    spc_ctx_free(ctx);
    assert_hook_is_empty(&hook);
}
END_TEST

/* ---- stale and refused objects ---------------------------------- */

#define refuses(call, status, words)                                           \
    do {                                                                       \
        ck_assert_int_eq(call, status);                                        \
        ck_assert_msg(strstr(spc_ctx_error(ctx), words) != NULL,               \
                      "'%s' does not say '%s'", spc_ctx_error(ctx), words);    \
    } while (0)

START_TEST(what_has_another_capacity_is_filled_again)
{
    spc_ctx *ctx = open_hooked(device_of(_i), NULL);
    rows r = draw(900, LOW, HIGH - LOW, 2, 7);
    int32_t *coords = upload(ctx, r.at, 16 * (size_t)r.count);
    int32_t *index = malloc(4 * 27 * RESERVED);
    spc_plan *plan;
    layer l;

    open_layer(&l, ctx, layers[0], RESERVED, 0);
    assert_ok(ctx, spc_plan_create(&plan, ctx, &l.passes[0], l.map,
                                   SPC_PLAN_ESTIMATE));
    fill(&l, &r, coords);
    check_maps(&l);
    ck_assert_int_eq(spc_coords_capacity(l.in), r.count);
    ck_assert_int_eq(spc_coords_reserved(l.in), RESERVED);

    /* A smaller capacity leaves the set valid, but not its map. */
    assert_ok(ctx, spc_coords_set_capacity(l.in, r.count + 1));
    refuses(spc_plan_execute(plan, l.map, &(spc_buffers)SPC_BUFFERS_INIT, NULL),
            SPC_ESTATE,
            "with the new capacity of its sets: call spc_map_update");
    refuses(spc_map_check(l.map, NULL), SPC_ESTATE, "spc_map_update");
    refuses(spc_map_download(index, l.map), SPC_ESTATE, "spc_map_update");
    assert_ok(ctx, spc_map_update(l.map, NULL, NULL, 0, NULL));
    assert_ok(ctx, spc_map_check(l.map, NULL));
    ck_assert_int_eq(spc_map_rows_out(l.map), r.count);

    /* The map is valid at the capacity at which it was filled. */
    assert_ok(ctx, spc_coords_set_capacity(l.in, r.count));
    refuses(spc_map_check(l.map, NULL), SPC_ESTATE, "spc_map_update");
    assert_ok(ctx, spc_coords_set_capacity(l.in, r.count + 1));
    assert_ok(ctx, spc_map_check(l.map, NULL));

    /* One capacity is too small for the voxels, the other includes unwritten
     * padding. */
    const int other[] = {r.count - 1, RESERVED};
    for (int i = 0; i < 2; i++) {
        assert_ok(ctx, spc_coords_set_capacity(l.in, other[i]));
        refuses(spc_map_update(l.map, NULL, NULL, 0, NULL), SPC_ESTATE,
                "call spc_coords_update first");
        fill(&l, &r, coords);
        check_maps(&l);
    }
    spc_plan_free(plan);
    close_layer(&l);
    spc_memory_free(ctx, coords);
    spc_ctx_free(ctx);
    free(index);
    free(r.at);
}
END_TEST

/* The result of an earlier check concerns other voxels. */
START_TEST(a_set_that_its_map_fills_must_be_checked_again)
{
    spc_ctx *ctx = open_hooked(device_of(_i), NULL);
    rows few = draw(100, LOW, HIGH - LOW, 2, 7);
    rows many = draw(700, LOW, HIGH - LOW, 2, 8);
    int32_t *first = upload(ctx, few.at, 16 * (size_t)few.count);
    int32_t *second = upload(ctx, many.at, 16 * (size_t)many.count);
    layer l;

    open_layer(&l, ctx, layers[0], RESERVED, 0);
    assert_ok(ctx, spc_coords_update(l.in, first, NULL, few.count, NULL));
    assert_ok(ctx, spc_coords_check(l.in, NULL));
    assert_ok(ctx, spc_map_update(l.map, second, NULL, many.count, NULL));
    assert_ok(ctx, spc_coords_set_capacity(l.in, few.count));
    refuses(spc_coords_check(l.in, NULL), SPC_ESTATE,
            "call spc_coords_update first");
    refuses(spc_map_update(l.map, NULL, NULL, 0, NULL), SPC_ESTATE,
            "call spc_coords_update first");

    /* After a check, the voxels stay valid if they fit the new capacity. */
    assert_ok(ctx, spc_coords_set_capacity(l.in, RESERVED));
    assert_ok(ctx, spc_map_update(l.map, second, NULL, many.count, NULL));
    assert_ok(ctx, spc_coords_check(l.in, NULL));
    assert_ok(ctx, spc_coords_set_capacity(l.in, many.count));
    assert_ok(ctx, spc_map_update(l.map, NULL, NULL, 0, NULL));
    assert_ok(ctx, spc_map_check(l.map, NULL));
    check_map(ctx, l.map, &l.passes[SPC_FORWARD], &many);
    close_layer(&l);
    spc_memory_free(ctx, first);
    spc_memory_free(ctx, second);
    spc_ctx_free(ctx);
    free(few.at);
    free(many.at);
}
END_TEST

START_TEST(a_capacity_that_cannot_be_has_its_sentence)
{
    spc_ctx *ctx = open_hooked(device_of(_i), NULL);
    spc_coords *set = reserve(ctx, 50, LOW, HIGH, SPC_DUPLICATES_ERROR);
    spc_regrouping how = SPC_REGROUPING_INIT;
    spc_coords *pruned;

    ck_assert_int_eq(spc_coords_set_capacity(NULL, 1), SPC_EINVAL);
    ck_assert_int_eq(spc_coords_reserved(NULL), 0);
    refuses(spc_coords_set_capacity(set, -1), SPC_EINVAL,
            "a capacity of -1 rows: the set has memory for 50");
    refuses(spc_coords_set_capacity(set, 51), SPC_ECAPACITY,
            "a capacity of 51 rows: the set has memory for 50");
    ck_assert_int_eq(spc_coords_capacity(set), 50);
    assert_ok(ctx, spc_coords_set_capacity(set, 20));
    rows r = draw(21, LOW, HIGH - LOW, 2, 7);
    int32_t *coords = upload(ctx, r.at, 16 * (size_t)r.count);
    refuses(spc_coords_update(set, coords, NULL, 21, NULL), SPC_ECAPACITY,
            "its capacity is 20");
    spc_coords *const sources[] = {set};
    assert_ok(ctx, spc_coords_create_regrouped_reserved(&pruned, sources, 1,
                                                        &how, 0));
    ck_assert_int_eq(spc_coords_capacity(pruned), 20);
    refuses(spc_coords_set_capacity(set, 20), SPC_ESTATE,
            "a set made of it numbers its rows");
    assert_ok(ctx, spc_coords_set_capacity(pruned, 3));
    spc_coords_free(pruned);
    spc_coords_free(set);
    spc_memory_free(ctx, coords);
    free(r.at);
    spc_ctx_free(ctx);
}
END_TEST

/* Most of the time goes into compiling; with sanitizers it takes minutes. */
static void add_long(Suite *suite, const char *name, const TTest *test,
                     int count)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, test, 0, count);
    suite_add_tcase(suite, tc);
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    Suite *suite = suite_create("capacity");

    add_long(suite, "scenes", a_map_is_that_of_its_capacity, loops(LAYERS));
    if (!suite_is_gpu())
        add_long(suite, "memory", a_scene_allocates_nothing, 2 * LAYERS);
    add(suite, "stale", what_has_another_capacity_is_filled_again, 1);
    add(suite, "refilled", a_set_that_its_map_fills_must_be_checked_again, 1);
    add(suite, "refused", a_capacity_that_cannot_be_has_its_sentence, 1);
    return run_suite(suite);
}
