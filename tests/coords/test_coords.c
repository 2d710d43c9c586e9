/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_coords.c - coordinate sets and maps of every kind, compared with the
 * relation that the oracle finds by hashing; and the frame loop: sets and maps
 * that are filled again with counts that only the device knows.
 *
 * Runs on "cpu" and "sim", or on the device given as argument.
 */
#include "coords/index/indexer.h"
#include "coords/map_choice.h"
#include "harness/coords_harness.h"
#include "operators/offset_store.h"
#include <limits.h>
#include <time.h>

static const struct {
    const char *layer;
    int count, low, extent, batches;
} cases[] = {
    {"conv,cin=4,cout=4,k=2,stride=2,rule=floor", 700, -9, 19, 2},
    {"conv,cin=4,cout=4,k=3,stride=2,rule=floor", 900, -12, 20, 1},
    {"conv,cin=4,cout=4,k=3,stride=2,padding=1,rule=footprint", 900, -7, 16, 2},
    {"conv,cin=4,cout=4,k=3,stride=2,padding=1,rule=footprint,shape=15x16x9",
     900, 0, 16, 2},
    {"conv,cin=4,cout=4,k=2,stride=2,rule=footprint,shape=15", 600, 0, 16, 1},
    {"conv,cin=4,cout=4,k=1x1x3,stride=1x1x2,rule=footprint,shape=20x20x41",
     900, 0, 20, 3},
    {"conv,cin=4,cout=4,k=3,stride=1,padding=1,rule=footprint", 60, -3, 9, 1},
    {"conv,cin=4,cout=4,k=3x3x1,stride=1,padding=1x1x0,rule=footprint", 300, -3,
     12, 2},
    {"conv,cin=4,cout=4,k=5x4x3,stride=3x2x1,dilation=1x2x3,padding=2x3x1,"
     "rule=footprint",
     300, -11, 17, 2},
    {"conv,cin=4,cout=4,k=4,stride=3,padding=1,rule=footprint", 250, -5, 11, 1},
    {"conv,cin=4,cout=4,k=5,stride=2,dilation=2,rule=floor", 400, -20, 33, 1},
    {"conv,cin=4,cout=4,k=3,stride=2,dilation=2,padding=2,rule=footprint", 1, 0,
     1, 1},
    {"conv,cin=4,cout=4,k=5x2x3,stride=6x2x3,dilation=4x2x3,rule=footprint",
     200, -50, 100, 1},
    {"conv,cin=4,cout=4,k=2,stride=2,origin=-1x0x3,rule=floor", 400, 5, 14, 1},
    {"conv,cin=4,cout=4,k=3,stride=5,rule=floor", 1, INT32_MIN + 40, 1, 1},
    {"inverse,cin=4,cout=4,k=2,stride=2,rule=floor", 700, -9, 19, 2},
    {"inverse,cin=4,cout=4,k=3,stride=2,padding=1,rule=footprint", 900, -7, 16,
     2},
    {"inverse,cin=4,cout=4,k=2,stride=2,rule=footprint,shape=15", 600, 0, 16,
     1},
    {"inverse,cin=4,cout=4,k=5x4x3,stride=3x2x1,dilation=1x2x3,padding=2x3x1,"
     "rule=footprint",
     300, -11, 17, 2},
    {"inverse,cin=4,cout=4,k=3x1x2,stride=2x3x2,origin=1x-1x0,rule=floor", 500,
     -6, 15, 1},
    {"subm,cin=4,cout=4,k=3,origin=-2x0x1", 800, -6, 12, 1},
    {"subm,cin=4,cout=4,k=4x2x3,dilation=1x2x3", 500, -6, 14, 2},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(maps_of_every_kind_are_their_relations)
{
    int n = case_of(_i);

    if (!suite_takes(n))
        return;
    spc_conv conv = parse(cases[n].layer);
    spc_ctx *ctx = open_ctx(device_of(_i));
    rows r = draw(cases[n].count, cases[n].low, cases[n].extent,
                  cases[n].batches, (uint64_t)n + 1);
    spc_scene *scene = scene_of(&r);
    spc_map *map;

    assert_ok(ctx, spc_map_create_from_scene(&map, ctx, &conv, scene));
    check_map(ctx, map, &conv, &r);
    if (conv.op == SPC_CONV)
        check_outputs(ctx, spc_map_out(map), &conv, &r);
    spc_map_free(map);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
    free(r.at);
}
END_TEST

/* A box written as a list gives the same sets and maps. */
static const char *const boxes[] = {
    "conv,cin=4,cout=4,k=3,stride=2,padding=1,rule=footprint",
    "conv,cin=4,cout=4,k=3x2x5,padding=1x0x3,rule=footprint",
    "conv,cin=4,cout=4,k=3,stride=2,dilation=3,padding=2,rule=footprint",
    "conv,cin=4,cout=4,k=3,stride=2,padding=1,rule=footprint,shape=13x11x9",
    "conv,cin=4,cout=4,k=2x1x4,stride=2x1x3,rule=footprint,shape=12",
    "conv,cin=4,cout=4,k=3,stride=2,rule=floor",
    "inverse,cin=4,cout=4,k=3,stride=2,padding=1,rule=footprint",
    "inverse,cin=4,cout=4,k=3,stride=3,padding=1,rule=footprint,shape=13",
    "generative,cin=4,cout=4,k=2,stride=2",
    "generative,cin=4,cout=4,k=3x2x1,stride=1x2x3",
    "generative,cin=4,cout=4,k=3,stride=2,origin=-1,shape=20x9x31",
    "conv,cin=4,cout=4,k=3x2x1,stride=1x2x3,rule=expand",
    "inverse,cin=4,cout=4,k=3,stride=2,rule=expand",
};
enum { BOXES = sizeof boxes / sizeof *boxes };

static spc_conv as_list(const spc_conv *box)
{
    spc_conv conv = *box;
    spc_geometry plain = SPC_GEOMETRY_INIT, *g = &conv.geometry;
    int16_t list[SPC__LIST_NUMBERS];

    g->offset_count = spc_geometry_offset_count(&box->geometry);
    for (int k = 0; k < g->offset_count; k++) {
        int at[3];
        spc_geometry_offset_at(at, &box->geometry, k);
        for (int a = 0; a < 3; a++)
            list[3 * k + a] = (int16_t)at[a];
    }
    g->offsets = list;
    ck_assert_int_eq(spc__geometry_keep(g, NULL), SPC_OK);
    memcpy(g->kernel, plain.kernel, sizeof g->kernel);
    memcpy(g->dilation, plain.dilation, sizeof g->dilation);
    memcpy(g->padding, plain.padding, sizeof g->padding);
    memcpy(g->origin, plain.origin, sizeof g->origin);
    return conv;
}

START_TEST(a_box_as_a_list_of_offsets_is_the_same_layer)
{
    spc_ctx *ctx = open_ctx(device_of(_i));

    for (int n = 0; n < BOXES; n++) {
        spc_conv box = parse(boxes[n]), list = as_list(&box);
        rows r =
            draw(220, box.geometry.shape[0] > 0 ? 0 : -5, 11, 2, (uint64_t)n);
        spc_scene *scene = scene_of(&r);
        spc_map *map;

        assert_ok(ctx, spc_map_create_from_scene(&map, ctx, &list, scene));
        check_map(ctx, map, &box, &r);
        if (box.op == SPC_CONV || box.op == SPC_GENERATIVE)
            check_outputs(ctx, spc_map_out(map), &box, &r);
        spc_map_free(map);
        spc_scene_free(scene);
        free(r.at);
    }
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(a_list_of_offsets_is_a_kernel)
{
    static const int16_t cross[7][3] = {{0, 0, 0},  {2, 0, 0}, {-1, 0, 0},
                                        {0, -3, 0}, {0, 1, 1}, {0, 0, -1},
                                        {1, 2, 3}};
    spc_ctx *ctx = open_ctx(device_of(_i));
    rows r = draw(800, -7, 13, 2, 5);
    spc_scene *scene = scene_of(&r);
    spc_conv conv = SPC_CONV_INIT;
    int16_t own[7][3];
    spc_map *map;

    conv.cin = conv.cout = 4;
    conv.geometry.offset_count = 7;
    for (int kind = 0; kind < 3; kind++) {
        conv.op = (spc_operator)kind;
        conv.geometry.rule = kind == 0 ? SPC_RULE_SUBM : SPC_RULE_FLOOR;
        for (int a = 0; a < 3; a++)
            conv.geometry.stride[a] = kind == 0 ? 1 : 2;
        memcpy(own, cross, sizeof own);
        conv.geometry.offsets = own[0];
        assert_ok(ctx, spc_map_create_from_scene(&map, ctx, &conv, scene));
        memset(own, 0, sizeof own); /* the map and its sets keep copies */
        assert_ok(ctx, spc_map_update(map, NULL, NULL, 0, NULL));
        assert_ok(ctx, spc_map_check(map, NULL));
        conv.geometry.offsets = cross[0];
        check_map(ctx, map, &conv, &r);
        spc_map_free(map);
    }
    spc_scene_free(scene);
    spc_ctx_free(ctx);
    free(r.at);
}
END_TEST

/* ---- the frame loop --------------------------------------------------- */

/* One level of a network and the next: a set with new rows in each frame, its
 * submanifold map, its outputs, and the maps between them. */
typedef struct level {
    spc_ctx *ctx;
    spc_conv subm, down, up;
    spc_coords *fine, *coarse;
    spc_map *same, *strided, *inverse;
} level;

static void open_level(level *l, const char *device, int capacity)
{
    l->ctx = open_ctx(device);
    l->subm = parse("subm,cin=4,cout=4,k=3");
    l->down = parse("conv,cin=4,cout=4,k=3,stride=2,padding=1,rule=footprint");
    l->up = parse("inverse,cin=4,cout=4,k=3,stride=2,padding=1,rule=footprint");
    l->fine = reserve(l->ctx, capacity, -400, 400, SPC_DUPLICATES_FIRST);
    assert_ok(l->ctx, spc_coords_create_outputs_reserved(&l->coarse, l->fine,
                                                         &l->down.geometry, 0));
    assert_ok(l->ctx,
              spc_map_create(&l->same, l->fine, l->fine, &l->subm.geometry));
    assert_ok(l->ctx, spc_map_create(&l->strided, l->fine, l->coarse,
                                     &l->down.geometry));
    assert_ok(l->ctx, spc_map_create_inverse(&l->inverse, l->coarse, l->fine,
                                             &l->up.geometry));
    spc_map *const maps[] = {l->same, l->strided, l->inverse};
    for (int i = 0; i < 3; i++)
        assert_ok(l->ctx, spc__map_prepare(maps[i], "gray", 64, NULL));
}

static void close_level(level *l)
{
    spc_map_free(l->same);
    spc_map_free(l->strided);
    spc_map_free(l->inverse);
    spc_coords_free(l->coarse);
    spc_coords_free(l->fine);
    spc_ctx_free(l->ctx);
}

static void update_level(level *l, const int32_t *coords, const int32_t *count)
{
    assert_ok(l->ctx, spc_map_update(l->same, coords, count, 0, NULL));
    assert_ok(l->ctx, spc_coords_update(l->coarse, NULL, NULL, 0, NULL));
    assert_ok(l->ctx, spc_map_update(l->strided, NULL, NULL, 0, NULL));
    assert_ok(l->ctx, spc_map_update(l->inverse, NULL, NULL, 0, NULL));
}

/* Frames have different sizes, with the count on the device. */
START_TEST(frames_are_filled_with_counts_that_live_on_the_device)
{
    static const int sizes[] = {900, 31, 2000, 0, 1, 1500, 64, 2000};
    level l;

    open_level(&l, device_of(_i), 2000);
    for (size_t f = 0; f < sizeof sizes / sizeof *sizes; f++) {
        rows r = draw(sizes[f] ? sizes[f] : 1, -400 + 50 * (int)f, 12, 2, f);
        int32_t count = sizes[f] ? r.count : 0;
        int32_t *coords = upload(l.ctx, r.at, 16 * (size_t)r.count);
        int32_t *device_count = upload(l.ctx, &count, 4);
        r.count = count;
        update_level(&l, coords, device_count);
        assert_ok(l.ctx, spc_map_check(l.same, NULL));
        assert_ok(l.ctx, spc_map_check(l.strided, NULL));
        assert_ok(l.ctx, spc_map_check(l.inverse, NULL));
        check_map(l.ctx, l.same, &l.subm, &r);
        check_map(l.ctx, l.strided, &l.down, &r);
        check_map(l.ctx, l.inverse, &l.up, &r);
        spc_memory_free(l.ctx, coords);
        spc_memory_free(l.ctx, device_count);
        free(r.at);
    }
    close_level(&l);
}
END_TEST

/* This number of rows has more groups of bins than one block can sum. */
START_TEST(a_large_set_is_sorted_by_bins_that_are_summed_apart)
{
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_conv conv = parse("subm,cin=4,cout=4,k=1x1x3");
    spc_coords *set = reserve(ctx, 600000, -400, 400, SPC_DUPLICATES_FIRST);
    spc_map *map;

    ck_assert_int_gt(600000, SPC_INDEX_GROUPS << SPC_INDEX_GROUP_BITS);
    assert_ok(ctx, spc_map_create(&map, set, set, &conv.geometry));
    for (int frame = 0; frame < 2; frame++) {
        rows r = draw(900 - 500 * frame, -400 + 300 * frame, 12, 2, 7);
        int32_t *coords = upload(ctx, r.at, 16 * (size_t)r.count);
        assert_ok(ctx, spc_map_update(map, coords, NULL, r.count, NULL));
        assert_ok(ctx, spc_map_check(map, NULL));
        check_map(ctx, map, &conv, &r);
        spc_memory_free(ctx, coords);
        free(r.at);
    }
    spc_map_free(map);
    spc_coords_free(set);
    spc_ctx_free(ctx);
}
END_TEST

/* Levels of the floor rule: each layer, and the layer that leads from the first
 * set to the same level in one step. */
static const char *const levels[3][2] = {
    {"conv,cin=4,cout=4,k=2,stride=2,rule=floor",
     "conv,cin=4,cout=4,k=2,stride=2,rule=floor"},
    {"conv,cin=4,cout=4,k=3,stride=3x1x2,rule=floor",
     "conv,cin=4,cout=4,k=2,stride=6x2x4,rule=floor"},
    {"conv,cin=4,cout=4,k=2,stride=2,origin=1,rule=floor",
     "conv,cin=4,cout=4,k=2,stride=12x4x8,rule=floor"},
};

static void check_levels(spc_ctx *ctx, spc_coords *const sets[4], const rows *r)
{
    for (int l = 1; l < 4; l++) {
        spc_conv all = parse(levels[l - 1][1]);
        assert_ok(ctx, spc_coords_check(sets[l], NULL));
        check_outputs(ctx, sets[l], &all, r);
    }
}

/* Derives sets from the caller's rows before the first set is filled. Two of
 * the rows are invalid. */
static void derive_levels(spc_ctx *ctx, spc_coords *const sets[4],
                          const rows *r)
{
    int32_t more[2][4] = {{0, 0, 91, 0}, {0, 0, 0, 0}};
    int32_t count = r->count + 2;
    int32_t *coords = upload(ctx, r->at, 16 * (size_t)count);
    int32_t *device_count = upload(ctx, &count, 4);

    memcpy(more[1], r->at[r->count / 2], 16);
    assert_ok(ctx, spc_memory_upload(coords + 4 * (size_t)r->count, ctx, more,
                                     sizeof more));
    for (int l = 1; l < 4; l++)
        assert_ok(ctx,
                  spc__coords_derive(sets[l], coords, device_count, 0, NULL));
    check_levels(ctx, sets, r);
    spc_memory_free(ctx, coords);
    spc_memory_free(ctx, device_count);
}

START_TEST(levels_by_the_floor_rule_follow_from_the_first_set)
{
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_coords *sets[4] = {reserve(ctx, 1202, -90, 90, SPC_DUPLICATES_ERROR)};

    for (int l = 0; l < 3; l++) {
        spc_conv conv = parse(levels[l][0]);
        assert_ok(ctx, spc_coords_create_outputs_reserved(&sets[l + 1], sets[l],
                                                          &conv.geometry, 0));
    }
    for (int frame = 0; frame < 2; frame++) {
        rows r = draw(1200 - 900 * frame, -37, 50, 2, (uint64_t)frame);
        r.at = realloc(r.at, 16 * ((size_t)r.count + 2));
        int32_t *coords = upload(ctx, r.at, 16 * (size_t)r.count);
        if (sets[0]->indexer->set_limit != NULL)
            derive_levels(ctx, sets, &r);
        assert_ok(ctx, spc_coords_update(sets[0], coords, NULL, r.count, NULL));
        for (int l = 1; l < 4; l++)
            assert_ok(ctx, spc_coords_update(sets[l], NULL, NULL, 0, NULL));
        check_levels(ctx, sets, &r);
        spc_memory_free(ctx, coords);
        free(r.at);
    }
    for (int l = 0; l < 4; l++)
        spc_coords_free(sets[l]);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- footprints of footprints -------------------------------------------- */

enum { CHAIN = 3 };

/* `up` is the number of levels from the last set to its root; -1: not
 * checked. */
typedef struct chain {
    const char *layers[CHAIN];
    int shape, up;
} chain;

/* The chains have bounds that matter (k2 s2 of an odd shape drops the last
 * plane, k3 of an even shape adds a row after it), kernels that leave gaps,
 * alternating rules, and sequences that no single rule describes. */
static const chain chains[] = {
    {{"k=3,stride=2,padding=1,rule=footprint",
      "k=3,stride=2,padding=1,rule=footprint",
      "k=3,stride=2,padding=0x1x1,rule=footprint"},
     41,
     3},
    {{"k=3,stride=2,padding=1,rule=footprint",
      "k=3,stride=2,padding=1,rule=footprint",
      "k=1x1x3,stride=1x1x2,padding=0,rule=footprint"},
     40,
     3},
    {{"k=2,stride=2,padding=0,rule=footprint",
      "k=2,stride=2,padding=0,rule=footprint", "k=2,stride=2,rule=floor"},
     39,
     1},
    {{"k=2,stride=2,rule=floor", "k=5,stride=2,padding=2,rule=footprint",
      "k=3,stride=1,padding=1,rule=footprint"},
     0,
     3},
    {{"k=1,stride=2,padding=0,rule=footprint",
      "k=3,stride=2,padding=1,rule=footprint", "k=2,stride=2,rule=floor"},
     41,
     2},
    {{"k=3,stride=1,padding=1,dilation=2,rule=footprint",
      "k=3,stride=2,padding=1,dilation=1,rule=footprint",
      "k=3,stride=2,padding=1,rule=footprint"},
     0,
     2},
    {{"k=3,stride=2,padding=1,rule=footprint",
      "k=3,stride=1,padding=3,rule=footprint",
      "k=3,stride=3,padding=2,rule=footprint"},
     41,
     -1},
    {{"k=4,stride=3,padding=0,rule=footprint",
      "k=2,stride=1,padding=1,rule=footprint",
      "k=7,stride=2,padding=4,rule=footprint"},
     38,
     -1},
};

enum { CHAINS = sizeof chains / sizeof *chains };

static spc_conv layer_of(const chain *c, int l)
{
    char text[128];

    snprintf(text, sizeof text, "conv,cin=4,cout=4,%s", c->layers[l]);
    return parse(text);
}

/* The rows of the next level by definition; the caller frees them. */
static rows next_rows(const spc_conv *conv, const rows *r)
{
    spc_scene *scene = scene_of(r);
    spc__relation want;
    spc_error error = {0};

    ck_assert(spc__relation_init(&want, conv, scene, 2, NULL, &error) ==
              SPC_OK);
    rows next = {calloc((size_t)want.rows_out + 1, 16), (int)want.rows_out};
    memcpy(next.at, want.coords_out, 16 * (size_t)want.rows_out);
    spc__relation_release(&want);
    spc_scene_free(scene);
    return next;
}

static void check_chain(spc_ctx *ctx, const chain *c, spc_coords *const *sets,
                        const spc_conv *convs, const rows *r)
{
    rows now = {malloc(16 * (size_t)r->count), r->count};

    memcpy(now.at, r->at, 16 * (size_t)r->count);
    for (int l = 0; l < CHAIN; l++) {
        assert_ok(ctx, spc_coords_check(sets[l + 1], NULL));
        check_outputs(ctx, sets[l + 1], &convs[l], &now);
        rows next = next_rows(&convs[l], &now);
        free(now.at);
        now = next;
    }
    free(now.at);
    if (c->up >= 0)
        ck_assert_ptr_eq(sets[CHAIN]->by.root, sets[CHAIN - c->up]);
}

START_TEST(a_footprint_of_footprints_is_one)
{
    spc_ctx *ctx = open_ctx(device_of(_i));
    const chain *c = &chains[case_of(_i)];
    int shape = c->shape, extent = shape > 0 ? shape : 35;
    spc_coords *sets[CHAIN + 1] = {reserve(ctx, 900, shape > 0 ? 0 : -17,
                                           shape > 0 ? shape - 1 : 40,
                                           SPC_DUPLICATES_ERROR)};
    spc_conv convs[CHAIN];
    int out[3] = {shape, shape, shape};

    for (int l = 0; l < CHAIN; l++) {
        spc_geometry *g = &convs[l].geometry;
        convs[l] = layer_of(c, l);
        for (int a = 0; a < 3 && g->rule == SPC_RULE_FOOTPRINT; a++) {
            g->shape[a] = out[a];
            out[a] = (int)spc__geometry_out_shape(g, a);
        }
        assert_ok(ctx, spc_coords_create_outputs_reserved(&sets[l + 1], sets[l],
                                                          g, 0));
    }
    for (int frame = 0; frame < 2; frame++) {
        rows r = draw(900 - 700 * frame, shape > 0 ? 0 : -17, extent, 2,
                      (uint64_t)(_i + frame));
        int32_t *coords = upload(ctx, r.at, 16 * (size_t)r.count);
        assert_ok(ctx, spc_coords_update(sets[0], coords, NULL, r.count, NULL));
        for (int l = 1; l <= CHAIN; l++)
            assert_ok(ctx, spc_coords_update(sets[l], NULL, NULL, 0, NULL));
        check_chain(ctx, c, sets, convs, &r);
        spc_memory_free(ctx, coords);
        free(r.at);
    }
    for (int l = 0; l <= CHAIN; l++)
        spc_coords_free(sets[l]);
    spc_ctx_free(ctx);
}
END_TEST

/* Links maps; only a map and its own inverse accept the link. */
static void derive(level *l)
{
    spc__map_derive(l->same, l->inverse);
    spc__map_derive(l->inverse, l->strided);
    ck_assert_ptr_null(l->inverse->derived_from);
    spc__map_derive(l->strided, l->inverse);
    ck_assert_ptr_eq(l->inverse->derived_from,
                     l->fine->indexer->derives ? l->strided : NULL);
}

/* Checks a frame of `size` rows; 0 is an empty frame. */
static void check_derived_frame(level *l, int size, uint64_t seed)
{
    rows r = draw(size ? size : 1, -7, 11, 2, seed);
    int32_t count = size ? r.count : 0;
    int32_t *coords = upload(l->ctx, r.at, 16 * (size_t)r.count);

    r.count = count;
    assert_ok(l->ctx, spc_coords_update(l->fine, coords, NULL, count, NULL));
    assert_ok(l->ctx, spc_coords_update(l->coarse, NULL, NULL, 0, NULL));
    if (l->strided)
        assert_ok(l->ctx, spc_map_update(l->strided, NULL, NULL, 0, NULL));
    assert_ok(l->ctx, spc_map_update(l->inverse, NULL, NULL, 0, NULL));
    assert_ok(l->ctx, spc_map_check(l->inverse, NULL));
    check_map(l->ctx, l->inverse, &l->up, &r);
    spc_memory_free(l->ctx, coords);
    free(r.at);
}

/* Switches the search configuration if the device has any. */
static void search_by_hash(level *l)
{
    spc__attrs config = {0};
    spc_error error;

    spc__attrs_set_text(&config, "search", "hash");
    if (l->fine->indexer->map_configure)
        ck_assert_int_eq(spc__map_configure(l->strided, &config, &error),
                         SPC_OK);
}

/* A launch on a part of the device gives the same result as one on all of it,
 * and so does the next launch. A map and its inverse share one search; if the
 * searching map is freed, the other one searches itself. */
START_TEST(launches_of_fewer_blocks_find_the_same)
{
    static const unsigned blocks[] = {0, 2, 1, 0};
    level l;

    open_level(&l, device_of(_i), 1500);
    derive(&l);
    const spc__indexer *indexer = l.fine->indexer;
    for (size_t f = 0; f < sizeof blocks / sizeof *blocks; f++) {
        rows r = draw(900 - 200 * (int)f, -7, 11, 2, 7 + f);
        int32_t count = r.count;
        int32_t *coords = upload(l.ctx, r.at, 16 * (size_t)r.count);
        int32_t *device_count = upload(l.ctx, &count, 4);
        spc_map *const maps[] = {l.same, l.strided, l.inverse};
        for (int i = 0; i < 3 && indexer->map_limit != NULL; i++)
            indexer->map_limit(maps[i], blocks[f]);
        if (indexer->set_limit != NULL)
            indexer->set_limit(l.coarse, blocks[f]);
        update_level(&l, coords, device_count);
        for (int i = 0; i < 3; i++)
            assert_ok(l.ctx, spc_map_check(maps[i], NULL));
        check_map(l.ctx, l.same, &l.subm, &r);
        check_map(l.ctx, l.strided, &l.down, &r);
        check_map(l.ctx, l.inverse, &l.up, &r);
        spc_memory_free(l.ctx, coords);
        spc_memory_free(l.ctx, device_count);
        free(r.at);
    }
    search_by_hash(&l);
    check_derived_frame(&l, 33, 17);
    check_derived_frame(&l, 0, 18);
    spc_map_free(l.strided);
    l.strided = NULL;
    ck_assert_ptr_null(l.inverse->derived_from);
    check_derived_frame(&l, 300, 19);
    close_level(&l);
}
END_TEST

/* ---- invalid rows ----------------------------------------------------- */

/* Repeats every third row and adds `bad` rows outside the extent. */
static rows spoil(const rows *clean, int bad)
{
    int again = clean->count / 3;
    rows r = {calloc((size_t)(clean->count + again + bad + 1), 16), 0};

    for (int i = 0; i < clean->count; i++) {
        memcpy(r.at[r.count++], clean->at[i], 16);
        if (i % 3 == 2)
            memcpy(r.at[r.count++], clean->at[i - 1], 16);
        if (i < bad) {
            memcpy(r.at[r.count], clean->at[i], 16);
            r.at[r.count++][1 + i % 3] = i % 2 ? 401 : -401;
        }
    }
    return r;
}

/* The index of the caller's row for each clean row. */
static int *first_rows(const rows *spoilt, const rows *clean)
{
    int *first = malloc(4 * (size_t)clean->count + 4);

    for (int i = 0, at = 0; i < clean->count; i++) {
        while (compare(spoilt->at[at], clean->at[i]) != 0)
            at++;
        first[i] = at;
    }
    return first;
}

START_TEST(equal_rows_and_rows_out_of_range_take_no_part)
{
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_conv conv = parse("subm,cin=4,cout=4,k=3");
    rows clean = draw(1000, -8, 13, 2, 3), r = spoil(&clean, 40);
    spc_scene *scene = scene_of(&clean);
    int *first = first_rows(&r, &clean);
    spc__relation want;
    spc_map *map;
    spc_coords *set = reserve(ctx, r.count, -400, 400, SPC_DUPLICATES_ERROR);
    int32_t *coords = upload(ctx, r.at, 16 * (size_t)r.count);

    ck_assert(spc__relation_init(&want, &conv, scene, 2, NULL, NULL) == SPC_OK);
    assert_ok(ctx, spc_map_create(&map, set, set, &conv.geometry));
    assert_ok(ctx, spc_map_update(map, coords, NULL, r.count, NULL));
    ck_assert_int_eq(spc_map_check(map, NULL), SPC_ERANGE);
    ck_assert_msg(strstr(spc_ctx_error(ctx), "outside the set's extent") !=
                      NULL,
                  "%s", spc_ctx_error(ctx));
    ck_assert_int_eq(spc_coords_rows(set), clean.count);
    int32_t *got = malloc(4 * 27 * (size_t)r.count);
    assert_ok(ctx, spc_map_download(got, map));
    for (int k = 0; k < 27; k++)
        for (int i = 0; i < clean.count; i++) {
            int source = want.index[k * clean.count + i];
            int wanted = source < 0 ? -1 : first[source];
            require(got[k * r.count + first[i]] == wanted,
                    "offset %d of row %d: %d, not %d", k, first[i],
                    got[k * r.count + first[i]], wanted);
        }
    free(got);
    free(first);
    spc__relation_release(&want);
    spc_memory_free(ctx, coords);
    spc_map_free(map);
    spc_coords_free(set);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
    free(r.at);
    free(clean.at);
}
END_TEST

START_TEST(duplicates_follow_the_policy_of_the_set)
{
    spc_ctx *ctx = open_ctx(device_of(_i));
    rows clean = draw(300, -8, 9, 1, 7), r = spoil(&clean, 0);
    int *first = first_rows(&r, &clean);
    int32_t *coords = upload(ctx, r.at, 16 * (size_t)r.count);
    float *features = malloc(8 * (size_t)r.count);

    for (int policy = 0; policy <= SPC_DUPLICATES_MEAN; policy++) {
        spc_coords *set =
            reserve(ctx, r.count, -400, 400, (spc_duplicates)policy);
        for (int i = 0; i < 2 * r.count; i++)
            features[i] = (float)(i % 1000 + 1);
        float *device = upload(ctx, features, 8 * (size_t)r.count);
        assert_ok(ctx, spc_coords_update(set, coords, NULL, r.count, NULL));
        spc_status status = spc_coords_check(set, NULL);
        ck_assert_int_eq(status, policy ? SPC_OK : SPC_EDUPLICATE);
        ck_assert_int_eq(spc_coords_rows(set), clean.count);
        assert_ok(ctx,
                  spc_coords_merge_features(set, device, SPC_F32, 2, NULL));
        assert_ok(ctx, spc_ctx_synchronize(ctx));
        float *got = fetch(ctx, device, 2 * (size_t)r.count);
        for (int i = 0; i < clean.count; i++) {
            float want = 0, count = 0;
            for (int j = 0; j < r.count; j++)
                if (compare(r.at[j], clean.at[i]) == 0 &&
                    (count == 0 || policy >= SPC_DUPLICATES_SUM)) {
                    want += features[2 * j + 1];
                    count++;
                }
            if (policy == SPC_DUPLICATES_MEAN)
                want /= count;
            require(got[2 * first[i] + 1] == want,
                    "policy %d, row %d: %g, not "
                    "%g",
                    policy, first[i], (double)got[2 * first[i] + 1],
                    (double)want);
        }
        free(got);
        spc_memory_free(ctx, device);
        spc_coords_free(set);
    }
    free(first);
    free(features);
    free(r.at);
    free(clean.at);
    spc_memory_free(ctx, coords);
    spc_ctx_free(ctx);
}
END_TEST

/* With too many rows or outputs the set is empty and reports the capacity that
 * would have been enough. */
START_TEST(what_does_not_fit_leaves_the_set_empty)
{
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_conv down =
        parse("conv,cin=4,cout=4,k=3,stride=2,padding=1,rule=footprint");
    rows r = draw(500, -8, 30, 1, 7);
    int32_t *coords = upload(ctx, r.at, 16 * (size_t)r.count);
    int32_t many = r.count, *count = upload(ctx, &many, 4);
    spc_coords *small = reserve(ctx, r.count - 1, -400, 400, 0);
    spc_coords *set = reserve(ctx, r.count, -400, 400, 0), *out;
    char text[64];

    assert_ok(ctx, spc_coords_update(small, coords, count, 0, NULL));
    ck_assert_int_eq(spc_coords_check(small, NULL), SPC_ECAPACITY);
    snprintf(text, sizeof text, "a capacity of %d would have fitted", r.count);
    ck_assert_msg(strstr(spc_ctx_error(ctx), text), "%s", spc_ctx_error(ctx));
    ck_assert_int_eq(spc_coords_rows(small), 0);
    ck_assert_int_eq(spc_coords_update(small, coords, NULL, r.count, NULL),
                     SPC_ECAPACITY);

    assert_ok(ctx, spc_coords_create_outputs_reserved(&out, set, &down.geometry,
                                                      100));
    assert_ok(ctx, spc_coords_update(set, coords, count, 0, NULL));
    assert_ok(ctx, spc_coords_update(out, NULL, NULL, 0, NULL));
    ck_assert_int_eq(spc_coords_check(out, NULL), SPC_ECAPACITY);
    ck_assert_int_eq(spc_coords_rows(out), 0);
    ck_assert_int_eq(spc_coords_rows(set), 0); /* 0 until it is checked */
    spc_coords_free(out);
    spc_coords_free(set);
    spc_coords_free(small);
    spc_memory_free(ctx, coords);
    spc_memory_free(ctx, count);
    spc_ctx_free(ctx);
    free(r.at);
}
END_TEST

START_TEST(impossible_sets_and_maps_are_refused_with_a_sentence)
{
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_conv subm = parse("subm,cin=4,cout=4,k=7"),
             wide = parse("subm,cin=4,cout=4,k=7,dilation=9"),
             down = parse("conv,cin=4,cout=4,k=2,stride=2,rule=floor");
    spc_coords *set = reserve(ctx, 10, 0, 10, 0), *out, *none;
    spc_coords_options options = SPC_COORDS_OPTIONS_INIT;
    spc_map *map;

#define refused(wanted, says, call)                                            \
    do {                                                                       \
        ck_assert_int_eq(call, wanted);                                        \
        ck_assert_msg(strstr(spc_ctx_error(ctx), says), "%s",                  \
                      spc_ctx_error(ctx));                                     \
    } while (0)
    assert_ok(ctx,
              spc_coords_create_outputs_reserved(&out, set, &down.geometry, 0));
    options.capacity = -1;
    refused(SPC_EINVAL, "-1 rows",
            spc_coords_create_reserved(&none, ctx, &options));
    options.capacity = 10;
    options.low[2] = 5;
    refused(SPC_EINVAL, "extent of y runs from 5 to 0",
            spc_coords_create_reserved(&none, ctx, &options));
    options.high[2] = INT32_MAX;
    options.high[1] = INT32_MAX;
    options.high[3] = INT32_MAX;
    refused(SPC_ERANGE, "do not fit a 64-bit key",
            spc_coords_create_reserved(&none, ctx, &options));
    refused(SPC_ERANGE, "reserve it with halo=27",
            spc_map_create(&map, set, set, &wide.geometry));
    refused(SPC_EINVAL, "these are two",
            spc_map_create(&map, set, out, &subm.geometry));
    refused(SPC_EINVAL, "inputs and outputs are one set",
            spc_map_create(&map, set, set, &down.geometry));
    refused(SPC_EINVAL, "use their set",
            spc_coords_create_outputs(&none, set, &subm.geometry));
    refused(SPC_EINVAL, "derived from its inputs",
            spc_coords_update(out, (int32_t *)set, NULL, 1, NULL));
    refused(SPC_EINVAL, "without coordinates",
            spc_coords_update(set, NULL, NULL, 1, NULL));
    assert_ok(ctx, spc_map_create(&map, set, out, &down.geometry));
    refused(SPC_EINVAL, "only a submanifold map fills its set",
            spc_map_update(map, (int32_t *)set, NULL, 1, NULL));
    spc_map_free(map);
    spc_coords_free(out);
    spc_coords_free(set);
    spc_ctx_free(ctx);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
#ifdef SPC_SANITIZE /* ten times slower */
    suite_sample(3);
#endif
    Suite *suite = suite_create("coords");
    add(suite, "relations", maps_of_every_kind_are_their_relations, CASES);
    add(suite, "list", a_list_of_offsets_is_a_kernel, 1);
    add(suite, "box", a_box_as_a_list_of_offsets_is_the_same_layer, 1);
    add(suite, "frames", frames_are_filled_with_counts_that_live_on_the_device,
        1);
    add(suite, "large", a_large_set_is_sorted_by_bins_that_are_summed_apart, 1);
    add(suite, "levels", levels_by_the_floor_rule_follow_from_the_first_set, 1);
    add(suite, "chains", a_footprint_of_footprints_is_one, CHAINS);
    add(suite, "blocks", launches_of_fewer_blocks_find_the_same, 1);
    add(suite, "rows", equal_rows_and_rows_out_of_range_take_no_part, 1);
    add(suite, "policies", duplicates_follow_the_policy_of_the_set, 1);
    add(suite, "capacity", what_does_not_fit_leaves_the_set_empty, 1);
    add(suite, "refused", impossible_sets_and_maps_are_refused_with_a_sentence,
        1);
    return run_suite(suite);
}
