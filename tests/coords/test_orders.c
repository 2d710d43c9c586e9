/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_orders.c - the row orders other than by Gray rank, and orders for each
 * group of offsets. Their guarantees hold on cpu and sim alike, also after the
 * map is filled again.
 *
 *     test_orders [cuda|nvrtc]
 *
 * "nvrtc" checks that their code compiles for GPUs that are not installed.
 */
#include "base/random.h"
#include "compiler/artefact.h"
#include "compiler/template.h"
#include "context/ctx.h"
#include "coords/index/index_device.h"
#include "coords/map.h"
#include "harness/map_harness.h"
#include "spc/lab.h"
#include "device/targets.h"
#include <stdlib.h>
#include <string.h>

enum { ROWS = 900 };

/* Voxels of two batch elements in random order; duplicates are replaced. `far`
 * puts one at a distance that needs 64-bit keys. */
static void draw_voxels(int32_t out[ROWS][4], bool far, uint64_t seed)
{
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < ROWS; i++) {
        out[i][0] = (int32_t)spc__random_below(&random, 2);
        for (int a = 1; a < 4; a++)
            out[i][a] = (int32_t)spc__random_below(&random, 13) - 6;
        for (int j = 0; j < i; j++)
            if (memcmp(out[i], out[j], sizeof out[i]) == 0) {
                i--;
                break;
            }
    }
    if (far)
        memcpy(out[ROWS / 2], (int32_t[]){1, 90000, 70000, 90000}, 16);
}

/* ---- guarantees of orders ------------------------------------------------ */

typedef struct promise {
    const spc_map *map;
    int32_t (*at)[4];
    const int32_t *plain; /* [offsets][ROWS] */
    int begin, end;       /* range of the group's offsets */
} promise;

static int count_inputs(const promise *p, int row)
{
    int count = 0;

    for (int k = 0; k < p->map->offsets; k++)
        count += p->plain[(size_t)k * ROWS + (size_t)row] >= 0;
    return count;
}

/* True if row a comes before row b: it has more inputs or, at a tie, the lower
 * voxel. */
static bool dense_is_before(const promise *p, int a, int b)
{
    int one = count_inputs(p, a), two = count_inputs(p, b);
    int order = 0;

    for (int i = 0; i < 4 && order == 0; i++)
        order = (p->at[a][i] > p->at[b][i]) - (p->at[a][i] < p->at[b][i]);
    return one > two || (one == two && order < 0);
}

/* Returns a coordinate as stored in the map's keys. */
static uint32_t field(const promise *p, int row, int i)
{
    const spc_index_key *key = &p->map->to->key;

    return (uint32_t)(p->at[row][i] - key->low[i]) + key->before[i];
}

/* Returns how many of the low bit levels do not fit into a digest of 32 bits,
 * wholly or in part. */
static int levels_left_out(const promise *p)
{
    int bits = p->map->to->key.bits;

    return bits > 32 ? (bits - 32 + 2) / 3 : 0;
}

/* True if row a comes before row b in Morton order. At the highest bit in which
 * they differ on any axis (x before y before z for the same bit), the first
 * voxel has a 0. */
static bool morton_is_before(const promise *p, int a, int b)
{
    uint32_t most = 0;
    int axis = 0;

    if (p->at[a][0] != p->at[b][0])
        return p->at[a][0] < p->at[b][0];
    for (int i = 1; i < 4; i++) {
        uint32_t differ = field(p, a, i) ^ field(p, b, i);
        if (differ > most && (differ ^ most) > most) {
            most = differ;
            axis = i;
        }
    }
    return most >> levels_left_out(p) == 0 ||
           field(p, a, axis) < field(p, b, axis);
}

/* Returns the mask of the group's offsets as a number, without the centre. */
static uint64_t group_mask(const promise *p, int row)
{
    uint64_t mask = 0;

    for (int k = p->begin; k < p->end; k++)
        if (k != p->map->centre)
            mask = mask << 1 | (p->plain[(size_t)k * ROWS + (size_t)row] >= 0);
    return mask;
}

/* Checks that rows with equal masks are neighbours: no mask occurs in two
 * places. */
static void check_neighbours(const promise *p, const int *order)
{
    for (int i = 2; i < ROWS; i++) {
        uint64_t mask = group_mask(p, order[i]);
        if (mask == group_mask(p, order[i - 1]))
            continue;
        for (int j = 0; j < i; j++)
            require(mask != group_mask(p, order[j]),
                    "the mask of rows %d and %d is apart", order[i], order[j]);
    }
}

static void check_promise(const promise *p, const char *name, const int *order)
{
    bool dense = strcmp(name, "dense") == 0;

    if (!dense && strcmp(name, "morton") != 0) {
        check_neighbours(p, order);
        return;
    }
    for (int i = 1; i < ROWS; i++)
        require(dense ? dense_is_before(p, order[i - 1], order[i])
                      : morton_is_before(p, order[i - 1], order[i]),
                "%s: row %d before row %d", name, order[i - 1], order[i]);
}

/* ---- maps of both devices ------------------------------------------------ */

typedef struct order_case {
    const char *layer, *order;
    int tile_rows;
    bool far;
} order_case;

/* The digests of the gray orders here have one bit for each offset, so rows
 * with equal masks are together. */
static const order_case order_cases[] = {
    {"subm,cin=4,cout=4,k=3", "dense", 32, false},
    {"subm,cin=4,cout=4,k=3", "morton", 64, false},
    {"subm,cin=4,cout=4,k=3", "morton", 16, true},
    {"subm,cin=4,cout=4,k=3", "gray2", 16, false},
    {"subm,cin=4,cout=4,k=3", "gray4", 6, true},
    {"subm,cin=4,cout=4,k=4", "gray3", 32, false},
};

enum { CASES = sizeof order_cases / sizeof *order_cases };

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

/* Compares every group of the layout with the oracle's relation. Returns the
 * orders, [groups][ROWS]. */
static int *check_orders(spc_ctx *ctx, const spc_map *map, const order_case *c,
                         const spc_relation *relation)
{
    int groups = spc__row_order_groups(spc__row_order_find(c->order));
    int *all = malloc(sizeof *all * (size_t)groups * ROWS);

    for (int g = 0; g < groups; g++) {
        int *order =
            check_group(ctx, map, c->order, c->tile_rows, g, relation->index);
        promise p = {map, (int32_t(*)[4])relation->coords_out, relation->index,
                     spc__group_begin(g, groups, map->offsets),
                     spc__group_begin(g + 1, groups, map->offsets)};
        check_promise(&p, c->order, order);
        memcpy(all + g * ROWS, order, sizeof *all * ROWS);
        free(order);
    }
    return all;
}

static int *orders_of(spc_ctx *ctx, spc_map *map, const order_case *c,
                      const spc_conv *conv, const spc_scene *scene)
{
    spc_relation relation;
    spc_error error;

    ck_assert_msg(spc_oracle_relation(&relation, conv, scene, 2, &error) ==
                      SPC_OK,
                  "%s", error.text);
    int *orders = check_orders(ctx, map, c, &relation);
    spc_relation_release(&relation);
    return orders;
}

static spc_scene *make_scene(int32_t at[ROWS][4])
{
    spc_scene *scene;
    spc_error error;

    ck_assert_msg(spc_scene_create(&scene, at[0], ROWS, "test", &error) ==
                      SPC_OK,
                  "%s", error.text);
    return scene;
}

/* Fills the map again with other voxels inside the extent. */
static void fill_anew(spc_ctx *ctx, spc_map *map, int32_t at[ROWS][4])
{
    void *coords;

    assert_ok(ctx, spc_memory_alloc(&coords, ctx, 16 * ROWS));
    assert_ok(ctx, spc_memory_upload(coords, ctx, at, 16 * ROWS));
    assert_ok(ctx, spc_map_update(map, coords, NULL, ROWS, NULL));
    assert_ok(ctx, spc_map_check(map, NULL));
    spc_memory_free(ctx, coords);
}

START_TEST(rows_are_in_the_order_that_was_asked_for)
{
    const char *devices[] = {"cpu", suite_device ? suite_device : "sim"};
    const order_case *c = &order_cases[_i];
    static int32_t voxels[ROWS][4];
    if (!suite_takes(_i))
        return;
    int *orders[2];
    spc_error error;
    spc_conv conv;

    ck_assert_msg(spc_conv_parse(&conv, c->layer, &error) == SPC_OK, "%s",
                  error.text);
    for (int d = 0; d < 2; d++) {
        spc_ctx *ctx = open_ctx(devices[d]);
        spc_map *map;
        draw_voxels(voxels, c->far, 3);
        spc_scene *scene = make_scene(voxels);
        assert_ok(ctx, spc_map_create_from_scene(&map, ctx, &conv, scene));
        assert_ok(ctx, spc__map_prepare(map, c->order, c->tile_rows, NULL));
        assert_ok(ctx, spc__map_prepare(map, c->order, 192, NULL));
        assert_ok(ctx, spc_ctx_synchronize(ctx));
        orders[d] = orders_of(ctx, map, c, &conv, scene);
        spc_scene_free(scene);

        draw_voxels(voxels, c->far, 4);
        scene = make_scene(voxels);
        fill_anew(ctx, map, voxels);
        free(orders_of(ctx, map, c, &conv, scene));
        assert_ok(ctx, spc__map_relayout(map, c->order, 192, NULL));
        order_case other = *c;
        other.tile_rows = 192;
        free(orders_of(ctx, map, &other, &conv, scene));
        spc_scene_free(scene);
        spc_map_free(map);
        spc_ctx_free(ctx);
    }
    int groups = spc__row_order_groups(spc__row_order_find(c->order));
    ck_assert_mem_eq(orders[0], orders[1], sizeof(int) * (size_t)groups * ROWS);
    free(orders[0]);
    free(orders[1]);
}
END_TEST

/* Layouts that were never filled have no view for any group. */
START_TEST(a_group_that_is_not_there_has_no_view)
{
    static int32_t voxels[ROWS][4];
    spc_ctx *ctx = open_ctx("cpu");
    spc_conv conv;
    spc_map *map;
    spc_map_view view;

    draw_voxels(voxels, false, 3);
    spc_scene *scene = make_scene(voxels);
    ck_assert_int_eq(spc_conv_parse(&conv, order_cases[0].layer, NULL), SPC_OK);
    assert_ok(ctx, spc_map_create_from_scene(&map, ctx, &conv, scene));
    ck_assert(!spc__map_view_group(&view, map, "gray2", 16, 0));
    assert_ok(ctx, spc__map_prepare(map, "gray2", 16, NULL));
    ck_assert(spc__map_view_group(&view, map, "gray2", 16, 1));
    ck_assert(!spc__map_view_group(&view, map, "gray2", 16, 2));
    ck_assert(!spc__map_view_group(&view, map, "gray2", 32, 1));
    ck_assert_int_eq(spc__map_prepare(map, "gray5", 16, NULL), SPC_EINVAL);
    ck_assert_int_eq(spc__map_relayout(map, "dense", 16, NULL), SPC_ESTATE);
    spc_map_free(map);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- code for GPUs that are not installed ------------------------------- */

static const char *const gpus[] = {"sm_75",  "sm_80",  "sm_86", "sm_89",
                                   "sm_90a", "sm_100", "sm_120"};

enum { GPUS = sizeof gpus / sizeof *gpus };

static void compile(spc__library *library, const char *gpu, const char *name,
                    const spc__attrs *problem)
{
    spc__attrs target, config = {0};
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__template *tpl = spc__library_find(library, name);
    spc__compiler *nvrtc;
    spc__artefact artefact;
    spc_error error;

    ck_assert(spc__target_facts(&target, gpu, &error) == SPC_OK);
    ck_assert(spc__template_default(&config, tpl, problem, &target, &error) ==
              SPC_OK);
    ck_assert_msg(spc__template_render(&text, tpl, problem, &target, &config,
                                       &error) == SPC_OK,
                  "%s", error.text);
    spc__compile_job job = {
        .source = text.data, .name = name, .target = gpu, .headers = library};
    ck_assert(spc__nvrtc_open(&nvrtc, &error) == SPC_OK);
    ck_assert_msg(spc__compile(&artefact, nvrtc, &job, &log, &error) == SPC_OK,
                  "%s", error.text);
    ck_assert_int_eq(spc__attrs_number(&artefact.resources, "spill_bytes", -1),
                     0);
    spc__artefact_release(&artefact);
    spc__compiler_close(nvrtc);
    spc__buf_release(&text);
    spc__buf_release(&log);
}

START_TEST(layouts_compile_for_gpus_that_are_not_here)
{
    spc_geometry g = SPC_GEOMETRY_INIT;
    spc__index_width width = {32, _i % 2 ? 64 : 32, 1024};
    spc__library *library;
    spc__attrs problem;
    spc_error error;

    if (!suite_takes(_i))
        return;
    if (_i % 3 == 0)
        g.kernel[0] = g.kernel[1] = g.kernel[2] = 5;
    ck_assert(spc__library_open(&library, NULL, NULL, &error) == SPC_OK);
    spc__layout_problem(&problem, &width, &g, _i % 4 == 3);
    compile(library, gpus[_i], "index", &problem);
    spc__rows_problem(&problem);
    compile(library, gpus[_i], "rows", &problem);
    spc__library_close(library);
}
END_TEST

static int run_nvrtc(void)
{
    spc__compiler *nvrtc = NULL;
    bool present = spc__nvrtc_open(&nvrtc, NULL) == SPC_OK;

    spc__compiler_close(nvrtc);
    if (!present)
        return suite_skip("there is no NVRTC on this machine");
    suite_sample(GPUS);
    Suite *suite = suite_create("orders, NVRTC");
    TCase *tcase = tcase_create("nvrtc");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, layouts_compile_for_gpus_that_are_not_here, 0,
                        GPUS);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}

int main(int argc, char **argv)
{
    int status;

    if (suite_is_part(argc, argv, "nvrtc"))
        return run_nvrtc();
    if ((status = suite_open(argc, argv)) != 0)
        return status;
    suite_sample(3);
    Suite *suite = suite_create("orders");
    TCase *tcase = tcase_create("orders");

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, rows_are_in_the_order_that_was_asked_for, 0,
                        CASES);
    tcase_add_test(tcase, a_group_that_is_not_there_has_no_view);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
