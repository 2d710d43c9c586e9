/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_binding.c - the data that a plan keeps about a map, while plans and maps
 * are made and freed, and maps are filled again.
 */
#include "plan/binding.h"

#include "harness/counted_allocations.h"
#include "harness/layer_harness.h"

#include "base/error.h"
#include "harness/suite.h"
#include <pthread.h>
#include <stdlib.h>

#define LAYER "subm,cin=8,cout=8,dtype=f32"

static spc_error error;

/* Opens a layer with a template that has several layouts. */
static void open_layer(harness *r)
{
    spc_ctx *ctx =
        open_ctx("cpu", suite_database(), suite_path("templates/lookup"));

    harness_open(r, ctx, LAYER, "gen:uniform,n=300,extent=9");
    assert_ok(spc_plan_create(&r->plan, ctx, &r->conv, r->map, 0),
              spc_ctx_error(ctx));
    ck_assert_str_eq(spc_plan_template(r->plan), "probe");
    harness_prepare(r, SPC_KRSC);
}

/* Makes a plan with this configuration, and prepares nothing. */
static spc_plan *make_plan(harness *r, const char *config)
{
    spc__attrs problem, words;
    spc_plan *plan = NULL;
    spc__code code;

    spc__conv_attrs(&problem, &r->conv);
    assert_ok(spc__attrs_parse(&words, config, &error), error.text);
    assert_ok(spc__ctx_code(&code, r->ctx, "probe", &problem, &words, 0),
              spc_ctx_error(r->ctx));
    assert_ok(
        spc__plan_create_from(&plan, r->ctx, &r->conv, &code, "probe", config),
        spc_ctx_error(r->ctx));
    return plan;
}

/* Compares a plan's results on the harness's map with the oracle's. */
static void check_plan(harness *r, const spc_plan *plan)
{
    harness_poison(r);
    assert_ok(spc_plan_execute(plan, r->map, &r->buffers, NULL),
              spc_ctx_error(r->ctx));
    harness_compare(r);
}

static int count_bindings(const spc_map *map)
{
    int count = 0;

    for (int i = 0; i < SPC__ATTACHMENTS; i++)
        for (const spc__attachment *at = map->attached[i]; at; at = at->next)
            count++;
    return count;
}

START_TEST(a_plan_is_bound_to_the_map_that_is_prepared_for_it)
{
    spc_plan *plan;
    harness r;

    open_layer(&r);
    ck_assert_ptr_nonnull(spc__binding_find(r.plan, r.map));
    plan = make_plan(&r, "tile=32,order=gray,arrival=0");
    ck_assert_ptr_null(spc__binding_find(plan, r.map));
    ck_assert_int_eq(spc_plan_execute(plan, r.map, &r.buffers, NULL),
                     SPC_ESTATE);
    assert_ok(spc_map_prepare(r.map, plan, NULL), spc_ctx_error(r.ctx));
    ck_assert_ptr_nonnull(spc__binding_find(plan, r.map));
    assert_ok(spc_map_prepare(r.map, plan, NULL), spc_ctx_error(r.ctx));
    ck_assert_int_eq(count_bindings(r.map), 2);
    check_plan(&r, plan);
    check_plan(&r, r.plan);
    spc_plan_free(plan);
    harness_close(&r);
}
END_TEST

/* Other plans have prepared everything that this plan reads. It is bound to the
 * first map without an allocation, and still runs on the second one. */
START_TEST(the_first_launch_binds_a_map_and_allocates_nothing)
{
    spc_map *second;
    spc_plan *plan;
    harness r;

    open_layer(&r);
    plan = make_plan(&r, "tile=16,order=none,arrival=0");
    atomic_store(&watching, 1);
    spc_status status = spc_plan_execute(plan, r.map, &r.buffers, NULL);
    atomic_store(&watching, 0);
    assert_ok(status, spc_ctx_error(r.ctx));
    ck_assert_int_eq(atomic_load(&allocations), 0);
    ck_assert_ptr_nonnull(spc__binding_find(plan, r.map));
    check_plan(&r, plan);
    assert_ok(spc_map_create_from_scene(&second, r.ctx, &r.conv, r.scene),
              spc_ctx_error(r.ctx));
    assert_ok(spc_map_prepare(second, r.plan, NULL), spc_ctx_error(r.ctx));
    harness_poison(&r);
    assert_ok(spc_plan_execute(plan, second, &r.buffers, NULL),
              spc_ctx_error(r.ctx));
    harness_compare(&r);
    ck_assert_ptr_null(spc__binding_find(plan, second));
    r.buffers.in = NULL;
    ck_assert_int_eq(spc_plan_execute(plan, second, &r.buffers, NULL),
                     SPC_EINVAL);
    assert_says(spc_ctx_error(r.ctx), "'probe': buffer `in` is NULL");
    if (_i == 0) {
        spc_plan_free(plan);
        spc_map_free(second);
    } else {
        spc_map_free(second);
        spc_map_free(r.map);
        r.map = NULL;
        spc_plan_free(plan);
    }
    harness_close(&r);
}
END_TEST

/* If several arrays are missing, the error names the first one in this
 * order. */
START_TEST(missing_buffers_are_named_in_a_fixed_order)
{
    static const char *const names[] = {"in", "out", "weights", "workspace"};
    harness r;

    open_layer(&r);
    spc_buffers given = SPC_BUFFERS_INIT;
    for (int i = 0; i < LENGTH(names); i++) {
        char says[64];
        snprintf(says, sizeof(says), "'probe': buffer `%s` is NULL", names[i]);
        ck_assert_int_eq(spc_plan_execute(r.plan, r.map, &given, NULL),
                         SPC_EINVAL);
        ck_assert_str_eq(spc_ctx_error(r.ctx), says);
        if (i == 0)
            given.in = r.buffers.in;
        else if (i == 1)
            given.out = r.buffers.out;
        else
            given.weights = r.buffers.weights;
    }
    given.workspace = r.workspace;
    assert_ok(spc_plan_execute(r.plan, r.map, &given, NULL),
              spc_ctx_error(r.ctx));
    harness_close(&r);
}
END_TEST

/* Plans of one map are made and freed, so a new plan often gets the address of
 * a freed one. Their layouts differ, so the freed plan's binding would give
 * wrong results or be refused. */
START_TEST(a_new_plan_never_gets_the_binding_of_one_that_was_freed)
{
    static const char *const configs[] = {"tile=16,order=gray,arrival=0",
                                          "tile=32,order=none,arrival=0",
                                          "tile=64,order=gray,arrival=1"};
    harness r;

    open_layer(&r);
    for (int i = 0; i < 200; i++) {
        spc_plan *plan = make_plan(&r, configs[i % LENGTH(configs)]);
        ck_assert_ptr_null(spc__binding_find(plan, r.map));
        assert_ok(spc_map_prepare(r.map, plan, NULL), spc_ctx_error(r.ctx));
        const spc__binding *binding = spc__binding_find(plan, r.map);
        ck_assert_int_eq(binding->args.map.tile_rows,
                         spc__plan_launch(plan)->tile_rows);
        if (i % 20 == 0)
            check_plan(&r, plan);
        spc_plan_free(plan);
    }
    /* r.plan's binding stays, and each list keeps at most one for reuse. */
    ck_assert_int_le(count_bindings(r.map), 1 + SPC__ATTACHMENTS);
    check_plan(&r, r.plan);
    harness_close(&r);
}
END_TEST

/* A new map may have the address of a freed one, but it has no layouts yet. */
START_TEST(a_new_map_is_bound_to_nothing)
{
    spc_scene *scene;
    bool same = false;
    harness r;

    open_layer(&r);
    assert_ok(spc_scene_load(&scene, "gen:uniform,n=40,extent=7", &error),
              error.text);
    for (int i = 0; i < 20; i++) {
        spc_map *map;
        assert_ok(spc_map_create_from_scene(&map, r.ctx, &r.conv, scene),
                  spc_ctx_error(r.ctx));
        ck_assert_ptr_null(spc__binding_find(r.plan, map));
        ck_assert_int_eq(spc_plan_execute(r.plan, map, &r.buffers, NULL),
                         SPC_ESTATE);
        assert_says(spc_ctx_error(r.ctx), "spc_map_prepare first");
        assert_ok(spc_map_prepare(map, r.plan, NULL), spc_ctx_error(r.ctx));
        assert_ok(spc_plan_execute(r.plan, map, &r.buffers, NULL),
                  spc_ctx_error(r.ctx));
        uintptr_t at = (uintptr_t)map;
        spc_map_free(map);
        assert_ok(spc_map_create_from_scene(&map, r.ctx, &r.conv, scene),
                  spc_ctx_error(r.ctx));
        same |= (uintptr_t)map == at;
        ck_assert_int_eq(count_bindings(map), 0);
        spc_map_free(map);
    }
    if (!same)
        fprintf(stderr, "no map got the address of a freed one\n");
    spc_scene_free(scene);
    harness_close(&r);
}
END_TEST

/* A plan may be freed before or after its maps. */
START_TEST(maps_and_plans_are_freed_in_any_order)
{
    spc_plan *plan;
    harness r;

    open_layer(&r);
    plan = make_plan(&r, "tile=32,order=gray,arrival=0");
    assert_ok(spc_map_prepare(r.map, plan, NULL), spc_ctx_error(r.ctx));
    if (_i == 0)
        spc_plan_free(plan);
    spc_map_free(r.map);
    r.map = NULL;
    if (_i == 1)
        spc_plan_free(plan);
    harness_close(&r);
}
END_TEST

/* ---- maps that are filled again ------------------------------------------ */

enum { CAPACITY = 64, FEW = 8 };

/* A map with capacity for ROOM voxels, and a plan that is made before the map
 * is filled. */
typedef struct spacious {
    spc_ctx *ctx;
    spc_conv conv;
    spc_coords *set;
    spc_map *map;
    spc_plan *plan;
    int32_t coords[CAPACITY][4];
    float *both; /* inputs; outputs follow the first FEW of them */
    void *weights, *packed, *workspace;
    spc_buffers buffers;
} spacious;

static void *need(size_t bytes)
{
    size_t whole = (bytes + 256) / 256 * 256;
    void *memory = aligned_alloc(256, whole);

    ck_assert_ptr_nonnull(memory);
    return memset(memory, 0, whole);
}

static void fill(spacious *r, int64_t rows)
{
    assert_ok(spc_coords_update(r->set, r->coords[0], NULL, rows, NULL),
              spc_ctx_error(r->ctx));
    assert_ok(spc_map_update(r->map, NULL, NULL, 0, NULL),
              spc_ctx_error(r->ctx));
}

static void open_spacious(spacious *r)
{
    spc_coords_options options = SPC_COORDS_OPTIONS_INIT;

    memset(r, 0, sizeof(*r));
    r->ctx = open_ctx("cpu", suite_database(), suite_path("templates/lookup"));
    options.capacity = CAPACITY;
    options.high[1] = options.high[2] = options.high[3] = CAPACITY;
    assert_ok(spc_conv_parse(&r->conv, LAYER, &error), error.text);
    assert_ok(spc_coords_create_reserved(&r->set, r->ctx, &options),
              spc_ctx_error(r->ctx));
    assert_ok(spc_map_create(&r->map, r->set, r->set, &r->conv.geometry),
              spc_ctx_error(r->ctx));
    assert_ok(spc_plan_create(&r->plan, r->ctx, &r->conv, r->map, 0),
              spc_ctx_error(r->ctx));
    for (int i = 0; i < CAPACITY; i++)
        r->coords[i][1 + i % 3] = i;
    r->both = need(2 * CAPACITY * 8 * sizeof(float));
    r->weights = need(27 * 64 * sizeof(float));
    r->packed = need(spc_plan_weights_bytes(r->plan));
    r->workspace = need(spc_plan_workspace_bytes(r->plan, r->map));
    for (int i = 0; i < 27 * 64; i++)
        ((float *)r->weights)[i] = 1;
    for (int i = 0; i < CAPACITY * 8; i++)
        r->both[i] = 1;
    assert_ok(spc_plan_pack(r->packed, r->plan, r->weights, SPC_KRSC, NULL),
              spc_ctx_error(r->ctx));
    r->buffers = (spc_buffers){.bytes = sizeof(spc_buffers),
                               .in = r->both,
                               .out = r->both + FEW * 8,
                               .weights = r->packed,
                               .workspace = r->workspace};
}

static void close_spacious(spacious *r)
{
    spc_plan_free(r->plan);
    spc_map_free(r->map);
    spc_coords_free(r->set);
    spc_ctx_free(r->ctx);
    free(r->both);
    free(r->weights);
    free(r->packed);
    free(r->workspace);
}

static spc_status run_plan(spacious *r)
{
    return spc_plan_execute(r->plan, r->map, &r->buffers, NULL);
}

static void expect_overlap(spacious *r)
{
    ck_assert_int_eq(run_plan(r), SPC_EINVAL);
    ck_assert_str_eq(
        spc_ctx_error(r->ctx),
        "'probe': buffers `out` and `in` overlap: a buffer that is "
        "written must not overlap others");
}

/* Arrays have as many rows as the host knows of, else the capacity. A binding
 * stays valid in both cases. */
START_TEST(the_sizes_of_arrays_follow_the_rows_of_the_map)
{
    spacious r;

    open_spacious(&r);
    ck_assert_ptr_nonnull(spc__binding_find(r.plan, r.map));
    ck_assert_int_eq(run_plan(&r), SPC_ESTATE);
    assert_says(spc_ctx_error(r.ctx), "spc_map_update first");
    fill(&r, FEW);
    expect_overlap(&r);
    assert_ok(spc_map_check(r.map, NULL), spc_ctx_error(r.ctx));
    assert_ok(run_plan(&r), spc_ctx_error(r.ctx));
    fill(&r, FEW + 1);
    expect_overlap(&r);
    assert_ok(spc_map_check(r.map, NULL), spc_ctx_error(r.ctx));
    expect_overlap(&r);
    fill(&r, FEW);
    assert_ok(spc_map_check(r.map, NULL), spc_ctx_error(r.ctx));
    assert_ok(run_plan(&r), spc_ctx_error(r.ctx));
    close_spacious(&r);
}
END_TEST

/* The binding is made anew in its own memory. */
START_TEST(a_binding_follows_the_capacity_of_the_sets)
{
    spacious r;

    open_spacious(&r);
    r.buffers.out = r.both + CAPACITY * 8;
    for (int i = 0; i < 6; i++) {
        int rows = i % 2 == 0 ? FEW : CAPACITY;
        assert_ok(spc_coords_set_capacity(r.set, rows), spc_ctx_error(r.ctx));
        fill(&r, rows);
        ck_assert_ptr_null(spc__binding_find(r.plan, r.map));
        assert_ok(run_plan(&r), spc_ctx_error(r.ctx));
        ck_assert_ptr_null(spc__binding_find(r.plan, r.map));
        ck_assert_int_eq(count_bindings(r.map), 1);
        assert_ok(spc_map_prepare(r.map, r.plan, NULL), spc_ctx_error(r.ctx));
        const spc__binding *binding = spc__binding_find(r.plan, r.map);
        ck_assert_ptr_nonnull(binding);
        ck_assert_int_eq(binding->args.map.rows, rows);
        ck_assert_int_eq(count_bindings(r.map), 1);
        assert_ok(run_plan(&r), spc_ctx_error(r.ctx));
    }
    close_spacious(&r);
}
END_TEST

/* After the second fill, rows have other neighbours than after the first. All
 * weights and inputs are 1, so an output is the number of its neighbours times
 * the channels. */
START_TEST(a_launch_reads_the_latest_filling)
{
    spacious r;

    open_spacious(&r);
    r.buffers.out = r.both + CAPACITY * 8;
    for (int i = 0; i < CAPACITY; i++)
        memset(r.coords[i], 0, sizeof(r.coords[i]));
    for (int gap = 1; gap <= 2; gap++) {
        for (int i = 0; i < FEW; i++)
            r.coords[i][1] = gap * i;
        fill(&r, FEW);
        assert_ok(run_plan(&r), spc_ctx_error(r.ctx));
        const float *out = r.buffers.out;
        ck_assert_float_eq(out[0], gap == 1 ? 16 : 8);
        ck_assert_float_eq(out[8], gap == 1 ? 24 : 8);
    }
    close_spacious(&r);
}
END_TEST

/* ---- threads ------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 200 };

typedef struct runner {
    const harness *r;
    const spc_plan *plan;
    spc_buffers buffers;
    int failed;
} runner;

static void *run_often(void *payload)
{
    runner *self = payload;

    for (int i = 0; i < ROUNDS; i++)
        self->failed += spc_plan_execute(self->plan, self->r->map,
                                         &self->buffers, NULL) != SPC_OK;
    return NULL;
}

/* Bound and unbound plans may run on one map at the same time. */
START_TEST(threads_execute_several_plans_on_one_map)
{
    static const char *const configs[THREADS] = {
        "tile=16,order=gray,arrival=0", "tile=32,order=none,arrival=0",
        "tile=16,order=none,arrival=0", "tile=16,order=gray,arrival=1"};
    runner runners[THREADS];
    pthread_t threads[THREADS];
    spc_plan *plans[THREADS];
    harness r;

    open_layer(&r);
    size_t bytes = r.fixture->out.bytes;
    size_t work = spc_plan_workspace_bytes(r.plan, r.map);
    for (int i = 0; i < THREADS; i++) {
        plans[i] = make_plan(&r, configs[i]);
        if (i < 2)
            assert_ok(spc_map_prepare(r.map, plans[i], NULL),
                      spc_ctx_error(r.ctx));
    }
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (runner){.r = &r, .plan = plans[i], .buffers = r.buffers};
        assert_ok(spc_memory_alloc(&runners[i].buffers.out, r.ctx, bytes), "");
        assert_ok(spc_memory_alloc(&runners[i].buffers.workspace, r.ctx, work),
                  "");
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, run_often, &runners[i]), 0);
    }
    harness_check(&r);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(runners[i].failed, 0);
        ck_assert_mem_eq(runners[i].buffers.out, r.fixture->out.data, bytes);
        spc_memory_free(r.ctx, runners[i].buffers.out);
        spc_memory_free(r.ctx, runners[i].buffers.workspace);
        spc_plan_free(plans[i]);
    }
    harness_close(&r);
}
END_TEST

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    Suite *suite = suite_create("binding");
    TCase *tc = tcase_create("binding");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_plan_is_bound_to_the_map_that_is_prepared_for_it);
    tcase_add_loop_test(tc, the_first_launch_binds_a_map_and_allocates_nothing,
                        0, 2);
    tcase_add_test(tc, missing_buffers_are_named_in_a_fixed_order);
    tcase_add_test(tc, a_new_plan_never_gets_the_binding_of_one_that_was_freed);
    tcase_add_test(tc, a_new_map_is_bound_to_nothing);
    tcase_add_loop_test(tc, maps_and_plans_are_freed_in_any_order, 0, 2);
    tcase_add_test(tc, the_sizes_of_arrays_follow_the_rows_of_the_map);
    tcase_add_test(tc, a_binding_follows_the_capacity_of_the_sets);
    tcase_add_test(tc, a_launch_reads_the_latest_filling);
    tcase_add_test(tc, threads_execute_several_plans_on_one_map);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
