/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_map.c - kernel maps on every device, compared with the oracle's hash
 * map.
 *
 * Runs on "cpu" (threaded C) and "sim" (the CUDA templates), or on the device
 * given as argument: `test_map cuda:0`.
 */
#include "base/random.h"
#include "context/ctx.h"
#include "coords/index/indexer.h"
#include "coords/map.h"
#include "harness/map_harness.h"
#include "spc/lab.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const devices[2] = {"cpu", "sim"};
static const char *only_device; /* from the command line; NULL: both */

enum { DEVICES = 2 };

/* ---- scenes ----------------------------------------------------------- */

typedef struct points {
    int32_t (*at)[4];
    int rows;
} points;

typedef void fill_points(points *out, int rows, uint64_t seed);

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, 16);
}

/* Fisher-Yates shuffle: no indexer may rely on sorted input. */
static void shuffle(points *p, uint64_t seed)
{
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = p->rows - 1; i > 0; i--) {
        int j = (int)spc__random_below(&random, (uint32_t)i + 1);
        int32_t swap[4];
        memcpy(swap, p->at[i], 16);
        memcpy(p->at[i], p->at[j], 16);
        memcpy(p->at[j], swap, 16);
    }
}

static void deduplicate(points *p, uint64_t seed)
{
    int kept = 0;

    qsort(p->at, (size_t)p->rows, 16, compare);
    for (int i = 0; i < p->rows; i++)
        if (!kept || memcmp(p->at[kept - 1], p->at[i], 16) != 0)
            memmove(p->at[kept++], p->at[i], 16);
    p->rows = kept;
    shuffle(p, seed);
}

static void fill_box(points *p, const int32_t low[4], const uint32_t extent[4],
                     uint64_t seed)
{
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < p->rows; i++)
        for (int a = 0; a < 4; a++)
            p->at[i][a] =
                low[a] + (int32_t)spc__random_below(&random, extent[a]);
    deduplicate(p, seed + 1);
}

/* Dense enough that most offsets occur; includes negative coordinates. */
static void fill_cube(points *p, int rows, uint64_t seed)
{
    p->rows = rows;
    fill_box(p, (int32_t[]){0, -7, -3, -9}, (uint32_t[]){1, 14, 12, 10}, seed);
}

static void fill_batches(points *p, int rows, uint64_t seed)
{
    p->rows = rows;
    fill_box(p, (int32_t[]){0, -4, 0, -2}, (uint32_t[]){4, 9, 8, 7}, seed);
}

static void fill_sparse(points *p, int rows, uint64_t seed)
{
    p->rows = rows;
    fill_box(p, (int32_t[]){0, -500, -500, -40}, (uint32_t[]){1, 1000, 900, 80},
             seed);
}

static void fill_plane(points *p, int rows, uint64_t seed)
{
    p->rows = rows;
    fill_box(p, (int32_t[]){3, 5, -60, -60}, (uint32_t[]){1, 1, 120, 120},
             seed);
}

/* Makes a tall and dense scene. The neighbours of 32 rows in one plane of the
 * kernel are more keys than a window of the search holds; for kernels of 3 they
 * fill more than half of it. */
static void fill_walls(points *p, int rows, uint64_t seed)
{
    p->rows = rows;
    fill_box(p, (int32_t[]){0, 9, -2, -30}, (uint32_t[]){1, 3, 9, 60}, seed);
}

/* Makes two clusters at opposite limits of int32, which need 64-bit keys and
 * crowd the bins. */
static void fill_far(points *p, int rows, uint64_t seed)
{
    spc__random random;

    spc__random_init(&random, seed);
    p->rows = rows;
    for (int i = 0; i < rows; i++) {
        bool far = i % 7 == 0;
        p->at[i][0] = far ? 2 : 0;
        for (int a = 1; a < 4; a++)
            p->at[i][a] = (far ? 300000 : -1000) +
                          (int32_t)spc__random_below(&random, 16);
    }
    deduplicate(p, seed);
}

/* Makes a scene with an outlier, which moves all other voxels into one bin of
 * 32-bit keys. */
static void fill_outlier(points *p, int rows, uint64_t seed)
{
    p->rows = rows;
    fill_box(p, (int32_t[]){0, 0, 0, 0}, (uint32_t[]){1, 15, 15, 15}, seed);
    memcpy(p->at[p->rows / 2], (int32_t[]){0, 60000, 7, 7}, 16);
}

/* Makes the faces of a box, so that voxels are at the extremes of every axis.
 * Without guard bands an offset there would reach the opposite face, the next
 * row or the next batch. */
static void fill_faces(points *p, int rows, uint64_t seed)
{
    int n = 0;

    for (int b = 0; b < 2; b++)
        for (int x = 0; x < 8; x++)
            for (int y = 0; y < 8; y++)
                for (int z = 0; z < 8; z++)
                    if ((x % 7 == 0 || y % 7 == 0 || z % 7 == 0) && n < rows)
                        memcpy(p->at[n++], (int32_t[]){b, x - 8, y - 8, z - 8},
                               16);
    p->rows = n;
    shuffle(p, seed);
}

/* Makes enough rows for many bins. Keys have 32 bits or, with an outlier, 64
 * bits. */
static void fill_large(points *p, int rows, uint64_t seed)
{
    p->rows = rows;
    fill_box(p, (int32_t[]){0, 0, 0, 0}, (uint32_t[]){1, 40, 40, 40}, seed);
}

static void fill_large_wide(points *p, int rows, uint64_t seed)
{
    fill_large(p, rows, seed);
    memcpy(p->at[p->rows / 2], (int32_t[]){0, 90000, 90000, 90000}, 16);
}

/* Makes eight voxels at the corners of the int32 range. */
static void fill_corners(points *p, int rows, uint64_t seed)
{
    (void)rows;
    p->rows = 8;
    for (int i = 0; i < 8; i++) {
        p->at[i][0] = 0;
        p->at[i][1] = i & 1 ? INT32_MAX : INT32_MAX - 1;
        p->at[i][2] = i & 2 ? INT32_MIN : INT32_MIN + 1;
        p->at[i][3] = i & 4 ? INT32_MAX : 0;
    }
    shuffle(p, seed);
}

/* ---- contexts and maps ------------------------------------------------ */

typedef struct scene_case {
    const char *name;
    int kernel[3];
    int dilation[3];
    fill_points *fill;
    int rows;
} scene_case;

static const scene_case cases[] = {
    {"K 3 in a cube", {3, 3, 3}, {1, 1, 1}, fill_cube, 700},
    {"K 1", {1, 1, 1}, {1, 1, 1}, fill_cube, 300},
    {"K 2", {2, 2, 2}, {1, 1, 1}, fill_cube, 500},
    {"K 4, dilated", {4, 4, 4}, {2, 1, 3}, fill_cube, 500},
    {"K 3x1x5", {3, 1, 5}, {1, 1, 1}, fill_cube, 500},
    {"K 2x3x4, dilated", {2, 3, 4}, {3, 2, 1}, fill_batches, 600},
    {"K 5", {5, 5, 5}, {1, 1, 1}, fill_batches, 400},
    {"K 7, 343 offsets", {7, 7, 7}, {1, 1, 1}, fill_cube, 300},
    {"K 1x1x343", {1, 1, 343}, {1, 1, 1}, fill_plane, 200},
    {"K 33 deep", {3, 1, 33}, {1, 1, 2}, fill_plane, 300},
    {"K 3, batches", {3, 3, 3}, {1, 1, 1}, fill_batches, 900},
    {"K 3, sparse", {3, 3, 3}, {1, 1, 1}, fill_sparse, 1500},
    {"K 3, dilation 5", {3, 3, 3}, {5, 5, 5}, fill_cube, 600},
    {"K 3, a plane", {3, 3, 3}, {1, 1, 1}, fill_plane, 2500},
    {"K 3, walls", {3, 3, 3}, {1, 1, 1}, fill_walls, 2400},
    {"K 7, walls", {7, 7, 7}, {1, 1, 1}, fill_walls, 2400},
    {"K 3, far apart", {3, 3, 3}, {1, 1, 1}, fill_far, 3000},
    {"K 5, far apart, dilated", {5, 5, 5}, {2, 2, 2}, fill_far, 500},
    {"K 3, an outlier", {3, 3, 3}, {1, 1, 1}, fill_outlier, 2600},
    {"K 3, faces", {3, 3, 3}, {1, 1, 1}, fill_faces, 600},
    {"K 2, faces", {2, 2, 2}, {1, 1, 1}, fill_faces, 600},
    {"K 5, faces", {5, 5, 5}, {3, 3, 3}, fill_faces, 600},
    {"K 7, faces", {7, 7, 7}, {1, 1, 1}, fill_faces, 600},
    {"K 3, corners of the world", {3, 3, 1}, {1, 1, 1}, fill_corners, 8},
    {"K 3, twelve thousand voxels", {3, 3, 3}, {1, 1, 1}, fill_large, 12000},
    {"K 1, wide keys", {1, 1, 1}, {1, 1, 1}, fill_large_wide, 12000},
    {"K 3, no voxel", {3, 3, 3}, {1, 1, 1}, fill_cube, 0},
    {"K 3, one voxel", {3, 3, 3}, {1, 1, 1}, fill_cube, 1},
    {"K 3, two voxels", {3, 3, 3}, {1, 1, 1}, fill_cube, 2},
};

enum { CASES = sizeof cases / sizeof *cases };

static spc_conv conv_of(const scene_case *c)
{
    spc_conv conv = SPC_CONV_INIT;

    conv.cin = conv.cout = 16;
    memcpy(conv.geometry.kernel, c->kernel, sizeof conv.geometry.kernel);
    memcpy(conv.geometry.dilation, c->dilation, sizeof conv.geometry.dilation);
    return conv;
}

static points make_points(const scene_case *c, uint64_t seed)
{
    points p = {calloc((size_t)c->rows + 8, 16), 0};

    ck_assert_ptr_nonnull(p.at);
    c->fill(&p, c->rows, seed);
    return p;
}

static spc_scene *make_scene(const points *p)
{
    spc_scene *scene;
    spc_error error;
    spc_status status =
        spc_scene_create(&scene, p->at[0], p->rows, "test", &error);

    ck_assert_msg(status == SPC_OK, "%s", error.text);
    return scene;
}

static spc_ctx *open_ctx(const char *device)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error;
    spc_ctx *ctx;

    options.device = device;
    options.database = suite_database();
    spc_status status = spc_ctx_create(&ctx, &options, &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
    return ctx;
}

/* Returns how many runs a loop over cases and devices has. */
static int loops(int count)
{
    return only_device ? count : count * DEVICES;
}

static int case_of(int loop)
{
    return only_device ? loop : loop / DEVICES;
}

static const char *device_of(int loop)
{
    return only_device ? only_device : devices[loop % DEVICES];
}

/* ---- reading a map back ----------------------------------------------- */

/* Compares the index with the oracle's. Returns it, [offsets][rows]. */
static int32_t *check_index(spc_ctx *ctx, const spc_map *map,
                            const spc_conv *conv, const spc_scene *scene)
{
    int64_t rows = spc_scene_rows(scene);
    int64_t capacity = spc_coords_capacity(spc_map_out(map));
    size_t entries = (size_t)(map->offsets * rows);
    size_t most = (size_t)(map->offsets * capacity);
    int32_t *got = malloc(4 * most + 4);
    spc_relation want;
    spc_error error;

    assert_ok(ctx, spc_map_download(got, map));
    for (int64_t k = 1; k < map->offsets && rows < capacity; k++)
        memmove(got + k * rows, got + k * capacity, 4 * (size_t)rows);
    spc_status status = spc_oracle_relation(&want, conv, scene, 2, &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
    for (size_t i = 0; i < entries; i++)
        require(got[i] == want.index[i], "offset %d of row %d: %d, not %d",
                (int)(i / (size_t)rows), (int)(i % (size_t)rows), got[i],
                want.index[i]);
    ck_assert_int_eq(spc_map_pairs(map), want.pairs);
    ck_assert_int_eq(spc_map_rows_out(map), want.rows_out);
    spc_relation_release(&want);
    return got;
}

/* The sorted orders are the same on every device. */
static void check_same_order(spc_ctx *ctx, spc_map *map, const spc_conv *conv,
                             const spc_scene *scene, const int32_t *plain)
{
    static const char *const orders[] = {"gray", "gray_x", "gray_y", "planes"};
    spc_ctx *cpu = open_ctx("cpu");
    spc_map *other;

    assert_ok(cpu, spc_map_create_from_scene(&other, cpu, conv, scene));
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        assert_ok(cpu, spc__map_prepare(other, orders[i], 0, NULL));
        assert_ok(ctx, spc__map_prepare(map, orders[i], 0, NULL));
        assert_ok(ctx, spc_ctx_synchronize(ctx));
        int *want = check_view(cpu, other, orders[i], 0, plain);
        int *got = check_view(ctx, map, orders[i], 0, plain);
        for (int64_t p = 0; p < spc_map_rows_out(map); p++)
            require(got[p] == want[p], "%s, position %d: row %d, not %d",
                    orders[i], (int)p, got[p], want[p]);
        free(got);
        free(want);
    }
    spc_map_free(other);
    spc_ctx_free(cpu);
}

/* ---- tests ------------------------------------------------------------ */

/* Offsets that share a bit by the rule of the order; the centre has no bit. */
static const struct {
    const char *order;
    int kernel[3];
    int bits;
    int a[3], b[3]; /* two offsets */
    int shared;     /* 1: the same bit; 0: a has the higher bit */
} digests[] = {
    {"gray", {3, 3, 3}, 18, {1, 1, 1}, {-1, -1, -1}, 1},
    {"gray", {3, 3, 3}, 18, {0, 0, 1}, {1, 0, 0}, 0},
    {"gray", {3, 3, 3}, 18, {1, 1, -1}, {1, 1, 0}, 0},
    {"gray", {2, 2, 2}, 7, {1, 1, 1}, {1, 1, 0}, 0},
    {"gray", {1, 1, 1}, 0, {0, 0, 0}, {0, 0, 0}, 1},
    {"gray", {5, 5, 5}, 27, {2, 2, 2}, {-2, -2, -2}, 1},
    {"gray_x", {3, 3, 3}, 14, {-1, 1, 1}, {1, 1, 1}, 1},
    {"gray_x", {3, 3, 3}, 14, {0, 0, 1}, {1, 1, 0}, 0},
    {"gray_x", {3, 3, 3}, 14, {1, 1, 0}, {-1, 0, 0}, 0},
    {"gray_y", {3, 3, 3}, 14, {1, -1, 1}, {1, 1, 1}, 1},
    {"gray_x", {5, 5, 5}, 27, {1, 1, 0}, {2, 1, 0}, 1},
    {"gray_x", {3, 3, 1}, 8, {1, 1, 0}, {0, 1, 0}, 0},
    {"planes", {3, 3, 3}, 18, {1, 0, 1}, {-1, 0, 1}, 0},
    {"planes", {3, 3, 3}, 18, {0, 0, 1}, {1, 1, 0}, 0},
    {"planes", {5, 5, 5}, 27, {0, 0, 1}, {0, 0, 2}, 0},
    {"planes", {5, 5, 5}, 27, {2, 0, 0}, {1, 0, 0}, 0},
    {"planes", {7, 7, 1}, 27, {1, 3, 0}, {1, 2, 0}, 0},
    {"gray2", {3, 3, 3}, 13, {-1, -1, -1}, {-1, -1, 0}, 0},
    {"gray4", {5, 5, 5}, 27, {-2, -2, -2}, {-2, -2, 2}, 1},
};

static int number_of(const int kernel[3], const int at[3])
{
    int k = 0;

    for (int i = 0; i < 3; i++)
        k = k * kernel[i] + at[i] + (kernel[i] - 1) / 2;
    return k;
}

START_TEST(digests_join_what_their_order_says)
{
    const spc__row_order *order = spc__row_order_find(digests[_i].order);
    spc_conv conv = SPC_CONV_INIT;
    uint32_t bit_of[SPC_MAX_OFFSETS], all = 0;
    const int *kernel = digests[_i].kernel, centre[3] = {0};

    memcpy(conv.geometry.kernel, kernel, sizeof conv.geometry.kernel);
    ck_assert_int_eq(spc__row_order_bits(bit_of, order, &conv.geometry, 0),
                     digests[_i].bits);
    for (int k = 0; k < kernel[0] * kernel[1] * kernel[2]; k++)
        all |= bit_of[k];
    ck_assert_uint_eq(all, (1u << digests[_i].bits) - 1);
    ck_assert_uint_eq(bit_of[number_of(kernel, centre)], 0);
    uint32_t a = bit_of[number_of(kernel, digests[_i].a)];
    uint32_t b = bit_of[number_of(kernel, digests[_i].b)];
    ck_assert(digests[_i].shared ? a == b : a > b);
}
END_TEST

/* Returns the number of offsets of all tiles of 64 rows. */
static int64_t steps_of(spc_ctx *ctx, spc_map *map, const char *order)
{
    spc_map_view view;
    int64_t steps = 0;

    assert_ok(ctx, spc__map_prepare(map, order, 64, NULL));
    ck_assert(spc__map_view(&view, map, order, 64));
    for (int i = 0; i < view.tiles * view.mask_words; i++)
        steps += __builtin_popcount(view.tile_mask[i]);
    return steps;
}

/* The orders must reduce the steps. Each saves about twice as much as required
 * here. */
START_TEST(scans_need_fewer_steps_by_lines_and_fewest_by_planes)
{
    spc_conv conv = {0};
    spc_ctx *ctx = open_ctx("cpu");
    spc_scene *scene;
    spc_map *map;
    spc_error error;

    assert_ok(ctx, spc_conv_parse(&conv, "subm,cin=1,cout=1,k=5", &error));
    assert_ok(ctx, spc_scene_load(&scene, "gen:lidar@0.4", &error));
    assert_ok(ctx, spc_map_create_from_scene(&map, ctx, &conv, scene));
    int64_t none = steps_of(ctx, map, "none");
    int64_t gray = steps_of(ctx, map, "gray");
    int64_t lines = steps_of(ctx, map, "gray_x");
    int64_t planes = steps_of(ctx, map, "planes");
    printf("steps of %lld rows: none %lld, gray %lld, gray_x %lld, planes "
           "%lld\n",
           (long long)spc_map_rows_out(map), (long long)none, (long long)gray,
           (long long)lines, (long long)planes);
    ck_assert_int_lt(gray * 4, none * 3);
    ck_assert_int_lt(lines * 20, gray * 19);
    ck_assert_int_lt(planes * 30, lines * 29);
    spc_map_free(map);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

START_TEST(map_and_layouts_agree_with_the_oracle)
{
    if (!suite_takes(case_of(_i)))
        return;
    const scene_case *c = &cases[case_of(_i)];
    spc_conv conv = conv_of(c);
    points p = make_points(c, 11);
    spc_scene *scene = make_scene(&p);
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_map *map;

    assert_ok(ctx, spc_map_create_from_scene(&map, ctx, &conv, scene));
    int32_t *plain = check_index(ctx, map, &conv, scene);
    check_layouts(ctx, map, plain);
    check_same_order(ctx, map, &conv, scene, plain);
    free(plain);
    spc_map_free(map);
    spc_ctx_free(ctx);
    spc_scene_free(scene);
    free(p.at);
}
END_TEST

/* The padding up to the capacity has no neighbours. */
static void check_capacity(spc_ctx *ctx, const spc_map *map)
{
    spc_map_view v;

    spc__map_view_rows(&v, map, 32);
    int *order = fetch(ctx, v.order, (size_t)v.rows_padded);
    for (int p = (int)spc_map_rows_out(map); p < v.rows_padded; p++)
        require(order[p] == -1, "order[%d] is %d", p, order[p]);
    free(order);
}

/* Rebuilds a map for other rows, fewer rows, and the same rows again. No old
 * data may remain. */
START_TEST(rebuilt_maps_equal_new_ones)
{
    static const int chosen[] = {0, 6, 10, 16};
    scene_case c = cases[chosen[case_of(_i)]];
    spc_conv conv = conv_of(&c);
    spc_ctx *ctx = open_ctx(device_of(_i));
    points first = make_points(&c, 1);
    spc_scene *scene = make_scene(&first);
    spc_map *map;

    assert_ok(ctx, spc_map_create_from_scene(&map, ctx, &conv, scene));
    assert_ok(ctx, spc__map_prepare(map, "gray", 64, NULL));
    assert_ok(ctx, spc__map_prepare(map, "gray", 16, NULL));
    assert_ok(ctx, spc__map_prepare(map, "none", 32, NULL));
    spc_scene_free(scene);
    for (int round = 0; round < 3; round++) {
        points p = {first.at, first.rows - round * (first.rows / 3)};
        void *coords;
        shuffle(&p, (uint64_t)round);
        scene = make_scene(&p);
        assert_ok(ctx, spc_memory_alloc(&coords, ctx, 16 * (size_t)p.rows));
        assert_ok(ctx,
                  spc_memory_upload(coords, ctx, p.at, 16 * (size_t)p.rows));
        assert_ok(ctx, spc__map_rebuild(map, coords, p.rows, false, NULL));
        assert_ok(ctx, spc_map_check(map, NULL));
        check_capacity(ctx, map);
        int32_t *plain = check_index(ctx, map, &conv, scene);
        free(check_view(ctx, map, "gray", 64, plain));
        free(check_view(ctx, map, "gray", 16, plain));
        free(check_view(ctx, map, "none", 32, plain));
        assert_ok(ctx, spc__map_relayout(map, "gray", 16, NULL));
        assert_ok(ctx, spc_ctx_synchronize(ctx));
        free(check_view(ctx, map, "gray", 16, plain));
        check_same_order(ctx, map, &conv, scene, plain);
        free(plain);
        spc_memory_free(ctx, coords);
        spc_scene_free(scene);
    }
    spc_map_free(map);
    spc_ctx_free(ctx);
    free(first.at);
}
END_TEST

START_TEST(coordinates_on_the_device_give_the_same_map)
{
    spc_conv conv = conv_of(&cases[0]);
    points p = make_points(&cases[0], 5);
    spc_scene *scene = make_scene(&p);
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_map *map;
    void *coords;

    assert_ok(ctx, spc_memory_alloc(&coords, ctx, 16 * (size_t)p.rows));
    assert_ok(ctx, spc_memory_upload(coords, ctx, p.at, 16 * (size_t)p.rows));
    assert_ok(ctx,
              spc_map_create_from_rows(&map, ctx, &conv, coords, p.rows, NULL));
    free(check_index(ctx, map, &conv, scene));
    ck_assert_ptr_null(spc__map_coords(map));
    spc_map_free(map);
    spc_memory_free(ctx, coords);
    spc_ctx_free(ctx);
    spc_scene_free(scene);
    free(p.at);
}
END_TEST

static void expect_failure(spc_ctx *ctx, const spc_conv *conv, const points *p,
                           spc_status want, const char *words)
{
    spc_scene *scene = make_scene(p);
    spc_map *map = (spc_map *)ctx; /* any pointer other than NULL */

    ck_assert_int_eq(spc_map_create_from_scene(&map, ctx, conv, scene), want);
    ck_assert_ptr_null(map);
    ck_assert_msg(strstr(spc_ctx_error(ctx), words), "\"%s\" lacks \"%s\"",
                  spc_ctx_error(ctx), words);
    spc_scene_free(scene);
}

START_TEST(duplicates_are_reported_with_their_rows)
{
    /* Runs with and without crowded bins (the outlier scene). The error names
     * the pair with the smallest second row. */
    scene_case c = cases[case_of(_i) ? 16 : 10];
    spc_conv conv = conv_of(&c);
    points p = make_points(&c, 3);
    spc_ctx *ctx = open_ctx(device_of(_i));

    memcpy(p.at[300], p.at[100], 16);
    memcpy(p.at[p.rows - 1], p.at[7], 16);
    expect_failure(ctx, &conv, &p, SPC_EDUPLICATE,
                   "rows 100 and 300 have the same coordinate");
    spc_ctx_free(ctx);
    free(p.at);
}
END_TEST

START_TEST(many_equal_rows_are_one_error)
{
    points p = {calloc(1500, 16), 1500};
    spc_conv conv = conv_of(&cases[0]);
    spc_ctx *ctx = open_ctx(device_of(_i));

    expect_failure(ctx, &conv, &p, SPC_EDUPLICATE, "rows 0 and 1 have");
    spc_ctx_free(ctx);
    free(p.at);
}
END_TEST

START_TEST(an_extent_beyond_64_bits_names_the_axis)
{
    points p = make_points(&cases[0], 3);
    spc_conv conv = conv_of(&cases[0]);
    spc_ctx *ctx = open_ctx(device_of(_i));

    p.at[0][1] = 100000000;
    p.at[1][2] = INT32_MAX;
    p.at[2][2] = INT32_MIN;
    p.at[3][3] = 100000;
    expect_failure(ctx, &conv, &p, SPC_ERANGE, "64-bit key: y, from");
    spc_ctx_free(ctx);
    free(p.at);
}
END_TEST

START_TEST(batches_count_from_zero_and_without_large_gaps)
{
    points p = make_points(&cases[0], 3);
    spc_conv conv = conv_of(&cases[0]);
    spc_ctx *ctx = open_ctx(device_of(_i));

    p.at[5][0] = -1;
    expect_failure(ctx, &conv, &p, SPC_ERANGE, "the batch of row 5 is -1");
    p.at[5][0] = INT32_MAX;
    p.at[6][1] = p.at[7][2] = 1 << 20;
    expect_failure(ctx, &conv, &p, SPC_ERANGE, "number the batches 0, 1, 2");
    spc_ctx_free(ctx);
    free(p.at);
}
END_TEST

START_TEST(a_rebuild_outside_the_key_layout_is_reported)
{
    points p = make_points(&cases[0], 3);
    spc_conv conv = conv_of(&cases[0]);
    spc_scene *scene = make_scene(&p);
    spc_ctx *ctx = open_ctx(device_of(_i));
    spc_map *map;
    void *coords;

    assert_ok(ctx, spc_map_create_from_scene(&map, ctx, &conv, scene));
    p.at[9][2] = 5000;
    p.at[4][3] = -10; /* just below the lowest z, inside the guard band */
    p.at[200][0] = INT32_MIN;
    assert_ok(ctx, spc_memory_alloc(&coords, ctx, 16 * (size_t)p.rows));
    assert_ok(ctx, spc_memory_upload(coords, ctx, p.at, 16 * (size_t)p.rows));
    assert_ok(ctx, spc__map_rebuild(map, coords, p.rows, true, NULL));
    ck_assert_int_eq(spc_map_check(map, NULL), SPC_ERANGE);
    ck_assert_msg(strstr(spc_ctx_error(ctx), "row 4: its z"), "%s",
                  spc_ctx_error(ctx));
    ck_assert_int_eq(spc__map_rebuild(map, coords, p.rows + 1, true, NULL),
                     SPC_ECAPACITY);
    spc_map_free(map);
    spc_memory_free(ctx, coords);
    spc_ctx_free(ctx);
    spc_scene_free(scene);
    free(p.at);
}
END_TEST

START_TEST(impossible_requests_are_refused)
{
    spc_conv conv = conv_of(&cases[0]);
    spc_ctx *ctx = open_ctx(device_of(_i));
    points p = make_points(&cases[0], 3);
    spc_scene *scene = make_scene(&p);
    spc_map *map;
    spc_map_view view;
    int32_t coords[4] = {0};

    ck_assert_int_eq(
        spc_map_create_from_rows(&map, ctx, &conv, coords, -1, NULL),
        SPC_EINVAL);
    ck_assert_int_eq(spc_map_create_from_rows(&map, ctx, &conv, NULL, 5, NULL),
                     SPC_EINVAL);
    ck_assert_int_eq(
        spc_map_create_from_rows(&map, ctx, &conv, coords, 100000000, NULL),
        SPC_EINVAL);
    conv.geometry.kernel[1] = 0;
    ck_assert_int_eq(
        spc_map_create_from_rows(&map, ctx, &conv, coords, 1, NULL),
        SPC_EINVAL);
    conv.geometry.kernel[1] = 200;
    ck_assert_int_eq(
        spc_map_create_from_rows(&map, ctx, &conv, coords, 1, NULL),
        SPC_EINVAL);
    ck_assert_ptr_null(map);
    for (int a = 0; a < 3; a++)
        conv.geometry.kernel[a] = 1 << 30; /* the 64-bit product overflows to
                                            * 0 */
    expect_failure(ctx, &conv, &p, SPC_EINVAL, "more than 343 offsets");
    conv = conv_of(&cases[0]);
    conv.geometry.dilation[2] = 1 << 30;
    expect_failure(ctx, &conv, &p, SPC_EINVAL, "dilation 1073741824 along z");
    conv = conv_of(&cases[0]);
    assert_ok(ctx, spc_map_create_from_scene(&map, ctx, &conv, scene));
    ck_assert_int_eq(spc__map_prepare(map, "hilbert", 0, NULL), SPC_EINVAL);
    ck_assert_int_eq(spc__map_prepare(map, "gray", 100, NULL), SPC_EINVAL);
    ck_assert_int_eq(spc__map_prepare(map, "gray", -16, NULL), SPC_EINVAL);
    ck_assert(!spc__map_view(&view, map, "none", 64));
    ck_assert_int_eq(spc__map_relayout(map, "none", 64, NULL), SPC_ESTATE);
    spc_map_free(map);
    spc_map_free(NULL);
    spc_ctx_free(ctx);
    spc_scene_free(scene);
    free(p.at);
}
END_TEST

/* Every pair of axes that fits: guard bands count towards the bits. */
START_TEST(key_layouts_leave_guard_bands_on_both_sides)
{
    static const struct {
        int32_t high[4];
        int bits[4];
    } table[] = {
        {{0, 0, 0, 0}, {0, 3, 2, 1}},
        {{1, 2, 0, 7}, {1, 3, 2, 4}},
        {{3, 3, 1, 8}, {2, 3, 2, 4}},
        {{4, 4, 2, 0}, {3, 4, 3, 1}},
    };
    spc_conv conv =
        conv_of(&(scene_case){.kernel = {3, 2, 1}, .dilation = {2, 2, 9}});
    int32_t low[4] = {0};
    spc__guard guard;

    spc__guard_for(&guard, &conv.geometry, false);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        spc_index_key key;
        ck_assert_int_eq(
            spc__key_layout_choose(&key, low, table[i].high, &guard, NULL),
            SPC_OK);
        for (int a = 0; a < 4; a++)
            ck_assert_uint_eq(key.wide[a], (1u << table[i].bits[a]) - 1);
        ck_assert_int_eq(key.before[1], 2);
        ck_assert_int_eq(key.before[2], 0);
        ck_assert_uint_ge(key.last[1], (uint32_t)table[i].high[1]);
        ck_assert_uint_le(key.last[1] + 4, key.wide[1]);
    }
}
END_TEST

/* Skips a device that this machine lacks. */
static bool is_present(const char *device)
{
    spc_device_info info[16];
    int count = spc_devices_list(info, 16);

    for (int i = 0; i < count && i < 16; i++)
        if (strncmp(info[i].id, device, strlen(device)) == 0)
            return true;
    return false;
}

/* Shared memory and multiprocessors of GPUs, and the numbers of blocks that
 * fit. */
START_TEST(the_blocks_of_indexing_fit_every_shared_memory)
{
    static const struct {
        int multiprocessors, shared, offsets, blocks;
    } gpus[] = {
        {72, 65536, 27, 72},   {72, 65536, 343, 60},    {40, 65536, 343, 40},
        {84, 101376, 343, 84}, {170, 101376, 343, 170}, {132, 232448, 343, 132},
        {4, 1024, 343, 4}, /* does not fit: the device reports an error */
    };

    for (size_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++) {
        int blocks = spc__index_grid(gpus[i].multiprocessors, 1024,
                                     gpus[i].offsets, 8, gpus[i].shared);
        ck_assert_int_eq(blocks, gpus[i].blocks);
        if (gpus[i].shared > 1024)
            ck_assert_int_le(SPC_INDEX_SHARED(1024, gpus[i].offsets, 8, blocks),
                             gpus[i].shared);
    }
}
END_TEST

int main(int argc, char **argv)
{
    enum { SKIPPED = 77 };
    only_device = argc > 1 ? argv[1] : NULL;
    if (only_device && !is_present(only_device)) {
        printf("skipped: no device \"%s\" on this machine\n", only_device);
        return SKIPPED;
    }
#ifdef SPC_SANITIZE /* ten times slower */
    suite_sample(3);
#endif
    Suite *suite = suite_create("map");
    TCase *agree = tcase_create("agreement"), *other = tcase_create("other");
    tcase_set_timeout(agree, 300);
    tcase_add_loop_test(agree, map_and_layouts_agree_with_the_oracle, 0,
                        loops(CASES));
    tcase_add_loop_test(agree, rebuilt_maps_equal_new_ones, 0, loops(4));
    tcase_set_timeout(other, 300);
    tcase_add_loop_test(other, coordinates_on_the_device_give_the_same_map, 0,
                        loops(1));
    tcase_add_loop_test(other, duplicates_are_reported_with_their_rows, 0,
                        loops(2));
    tcase_add_loop_test(other, many_equal_rows_are_one_error, 0, loops(1));
    tcase_add_loop_test(other, an_extent_beyond_64_bits_names_the_axis, 0,
                        loops(1));
    tcase_add_loop_test(other, batches_count_from_zero_and_without_large_gaps,
                        0, loops(1));
    tcase_add_loop_test(other, a_rebuild_outside_the_key_layout_is_reported, 0,
                        loops(1));
    tcase_add_loop_test(other, impossible_requests_are_refused, 0, loops(1));
    tcase_add_loop_test(other, digests_join_what_their_order_says, 0,
                        (int)(sizeof digests / sizeof *digests));
    tcase_add_test(other, scans_need_fewer_steps_by_lines_and_fewest_by_planes);
    tcase_add_test(other, key_layouts_leave_guard_bands_on_both_sides);
    tcase_add_test(other, the_blocks_of_indexing_fit_every_shared_memory);
    suite_add_tcase(suite, agree);
    suite_add_tcase(suite, other);
    if (only_device) /* a GPU's driver does not survive fork() */
        setenv("CK_FORK", "no", 1);
    return run_suite(suite);
}
