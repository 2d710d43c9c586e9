/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_order.c - calls out of order: objects that were never filled or run, and
 * contexts that are freed before their objects. Also tests which object gets an
 * error message. Runs on "cpu".
 */
#include "harness/counting_hook.h"
#include "harness/suite.h"
#include "spc.h"
#include "spc/tune.h"

#include <pthread.h>
#include <stdint.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

static spc_error error;
static spc_ctx *ctx;

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call,                           \
                  spc_error_text(&error, ctx))

static void open_hooked(const spc_memory_hook *memory)
{
    spc_ctx_options o = SPC_CTX_OPTIONS_INIT;

    o.device = "cpu";
    o.threads = 1;
    o.database = suite_database();
    o.shipped = "";
    if (memory != NULL)
        o.memory = *memory;
    assert_ok(spc_ctx_create(&ctx, &o, &error));
}

static void open_ctx(void)
{
    open_hooked(NULL);
}

static const int32_t voxels[4][4] = {
    {0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 1, 0}, {0, 1, 1, 1}};
static _Alignas(256) float memory[1 << 14];

/* ---- never filled -------------------------------------------------------- */

/* Every kind of object that can be reserved, unfilled. */
typedef struct reserved {
    spc_coords *set, *out, *regrouped;
    spc_map *map, *radius;
    spc_points *cloud, *sampled;
    spc_voxels *voxels;
    spc_plan *plan, *points_plan;
    spc_feature_plan *act, *pool;
    spc_net *net;
    spc_net_plan *net_plan;
    spc_map *down;
} reserved;

static void reserve_sets(reserved *r)
{
    spc_coords_options o = SPC_COORDS_OPTIONS_INIT;
    spc_points_options p = SPC_POINTS_OPTIONS_INIT;
    spc_voxelisation v = SPC_VOXELISATION_INIT;
    spc_regrouping how = SPC_REGROUPING_INIT;
    spc_conv down;

    o.capacity = p.capacity = 8;
    for (int i = 0; i < 3; i++) {
        o.high[1 + i] = 7;
        p.high[i] = 7;
        v.voxel[i] = 1;
        v.high[i] = 8;
    }
    o.duplicates = SPC_DUPLICATES_SUM;
    assert_ok(spc_coords_create_reserved(&r->set, ctx, &o));
    assert_ok(spc_conv_parse(
        &down, "conv,cin=8,cout=8,k=2,stride=2,rule=floor,dtype=f32", &error));
    assert_ok(
        spc_coords_create_outputs_reserved(&r->out, r->set, &down.geometry, 0));
    assert_ok(spc_map_create(&r->down, r->set, r->out, &down.geometry));
    assert_ok(spc_coords_create_regrouped_reserved(&r->regrouped, &r->set, 1,
                                                   &how, 0));
    assert_ok(spc_points_create_reserved(&r->cloud, ctx, &p));
    assert_ok(spc_points_create_sampled(&r->sampled, r->cloud, 1));
    assert_ok(spc_voxels_create(&r->voxels, ctx, &v, 8, 8));
}

static void reserve_plans(reserved *r)
{
    spc_conv conv;
    spc_feature f;

    assert_ok(spc_conv_parse(&conv, "subm,cin=8,cout=8,k=3,dtype=f32", &error));
    assert_ok(spc_map_create(&r->map, r->set, r->set, &conv.geometry));
    assert_ok(spc_plan_create(&r->plan, ctx, &conv, r->map, 0));
    assert_ok(spc_conv_parse(
        &conv, "points,cin=8,cout=8,k=3,radius=1.5,dtype=f32", &error));
    assert_ok(spc_map_create_radius(&r->radius, r->cloud, r->cloud,
                                    &conv.geometry, 64));
    assert_ok(spc_plan_create(&r->points_plan, ctx, &conv, r->radius, 0));
    assert_ok(spc_feature_parse(&f, "act=relu,c=8,dtype=f32", &error));
    assert_ok(spc_feature_plan_create(&r->act, ctx, &f, 0));
    assert_ok(spc_feature_parse(
        &f, "pool=max,c=8,rule=floor,k=2,stride=2,dtype=f32", &error));
    assert_ok(spc_feature_plan_create(&r->pool, ctx, &f, 0));
    assert_ok(spc_feature_plan_prepare(r->pool, r->down, NULL));
}

static void reserve_net(reserved *r)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;
    char path[4400];

    snprintf(path, sizeof(path), "%s/networks/chain.lua", SPC_TEST_DATA);
    assert_ok(spc_net_load(&r->net, path, SPC_F32, &error));
    assert_ok(spc_net_init_params(r->net, 1, &error));
    o.capacity = 4;
    o.high[1] = o.high[2] = o.high[3] = 3;
    assert_ok(spc_net_plan_create(&r->net_plan, ctx, r->net, &o));
}

static void release(reserved *r)
{
    spc_net_plan_free(r->net_plan);
    spc_net_free(r->net);
    spc_feature_plan_free(r->act);
    spc_feature_plan_free(r->pool);
    spc_plan_free(r->plan);
    spc_plan_free(r->points_plan);
    spc_map_free(r->map);
    spc_map_free(r->down);
    spc_map_free(r->radius);
    spc_voxels_free(r->voxels);
    spc_points_free(r->sampled);
    spc_points_free(r->cloud);
    spc_coords_free(r->regrouped);
    spc_coords_free(r->out);
    spc_coords_free(r->set);
}

static const spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                                    .in = memory,
                                    .out = memory + 4096,
                                    .weights = memory + 8192,
                                    .workspace = memory + 12288};
static const spc_feature_buffers feature_buffers = {
    .bytes = sizeof(spc_feature_buffers), .in = memory, .out = memory + 4096};
static const void *const in[] = {memory};
static void *const out[] = {memory};
static const spc_gather gather = {SPC_F32, 8, false};

/* Calls that need a filled object, and the call that is missing before each. */
#define EARLY(X)                                                               \
    X(spc_coords_check(r->set, NULL), "spc_coords_update")                     \
    X(spc_coords_merge_features(r->set, memory, SPC_F32, 8, NULL),             \
      "spc_coords_update")                                                     \
    X(spc_coords_update(r->out, NULL, NULL, 0, NULL), "spc_coords_update")     \
    X(spc_coords_check(r->out, NULL), "spc_coords_update")                     \
    X(spc_coords_create_outputs(&made, r->set, &floor_rule),                   \
      "spc_coords_update")                                                     \
    X(spc_coords_update_regrouped(r->regrouped, NULL, NULL),                   \
      "spc_coords_update")                                                     \
    X(spc_coords_create_regrouped(&made, &r->set, 1, &same, NULL),             \
      "spc_coords_update")                                                     \
    X(spc_coords_check(r->regrouped, NULL), "spc_coords_update_regrouped")     \
    X(spc_coords_mask_above(mask, r->regrouped, in, SPC_F32, 0, NULL),         \
      "spc_coords_update")                                                     \
    X(spc_coords_gather_features(memory, r->regrouped, in, &gather, NULL),     \
      "spc_coords_update_regrouped")                                           \
    X(spc_coords_scatter_features(out, r->regrouped, memory, &gather, NULL),   \
      "spc_coords_update_regrouped")                                           \
    X(spc_points_check(r->cloud, NULL), "spc_points_update")                   \
    X(spc_points_update(r->sampled, NULL, NULL, NULL, 0, NULL),                \
      "spc_points_update")                                                     \
    X(spc_points_check(r->sampled, NULL), "spc_points_update")                 \
    X(spc_voxels_check(NULL, r->voxels, NULL), "spc_voxels_update")            \
    X(spc_map_update(r->map, NULL, NULL, 0, NULL), "spc_coords_update")        \
    X(spc_map_update(r->down, NULL, NULL, 0, NULL), "spc_coords_update")       \
    X(spc_map_update(r->radius, NULL, NULL, 0, NULL), "spc_points_update")     \
    X(spc_map_check(r->map, NULL), "spc_map_update")                           \
    X(spc_map_download(index, r->map), "spc_map_update")                       \
    X(spc_map_download_triplets(triplets, r->radius), "spc_map_update")        \
    X(spc_plan_execute(r->plan, r->map, &buffers, NULL), "spc_map_update")     \
    X(spc_plan_execute(r->points_plan, r->radius, &buffers, NULL),             \
      "spc_map_update")                                                        \
    X(spc_feature_plan_execute(r->act, r->set, NULL, &feature_buffers, NULL),  \
      "spc_coords_update")                                                     \
    X(spc_feature_plan_execute(r->pool, NULL, r->down, &feature_buffers,       \
                               NULL),                                          \
      "spc_map_update")                                                        \
    X(spc_net_plan_check(r->net_plan, NULL), "spc_net_plan_execute")           \
    X(spc_net_plan_replay(r->net_plan, NULL), "spc_net_plan_capture")

typedef struct early {
    const char *call;
    spc_status status;
    const char *needs;
    char text[1024];
} early;

static int call_early(early found[64], const reserved *r)
{
    static const spc_regrouping same = SPC_REGROUPING_INIT;
    static int32_t index[27 * 8];
    static spc_triplet triplets[64];
    static uint8_t mask[8];
    spc_geometry floor_rule = SPC_GEOMETRY_INIT;
    spc_coords *made = NULL;
    int count = 0;

    floor_rule.rule = SPC_RULE_FLOOR;
    for (int i = 0; i < 3; i++)
        floor_rule.kernel[i] = floor_rule.stride[i] = 2;
#define X(call_of, needs_call)                                                 \
    found[count] = (early){#call_of, call_of, needs_call, ""};                 \
    snprintf(found[count].text, sizeof(found[count].text), "%s",               \
             spc_ctx_error(ctx));                                              \
    count++;
    EARLY(X)
#undef X
    return count;
}

START_TEST(what_was_never_filled_is_a_call_out_of_order)
{
    static early found[64];
    reserved r = {0};

    open_ctx();
    reserve_sets(&r);
    reserve_plans(&r);
    reserve_net(&r);
    int count = call_early(found, &r);
    for (int i = 0; i < count; i++) {
        ck_assert_msg(found[i].status == SPC_ESTATE, "%s: %s", found[i].call,
                      spc_status_name(found[i].status));
        ck_assert_msg(strstr(found[i].text, found[i].needs) != NULL,
                      "%s: '%s' does not name %s", found[i].call, found[i].text,
                      found[i].needs);
    }
    release(&r);
    spc_ctx_free(ctx);
}
END_TEST

/* Must not use the number from an earlier count. */
START_TEST(a_download_has_the_rows_of_a_map_that_was_never_checked)
{
    spc_coords_options o = SPC_COORDS_OPTIONS_INIT;
    spc_geometry g = SPC_GEOMETRY_INIT;
    static int32_t index[27 * 8];
    spc_coords *set;
    spc_map *map;
    int pairs = 0;

    open_ctx();
    o.capacity = 8;
    o.high[1] = o.high[2] = o.high[3] = 7;
    assert_ok(spc_coords_create_reserved(&set, ctx, &o));
    assert_ok(spc_map_create(&map, set, set, &g));
    assert_ok(spc_map_update(map, voxels[0], NULL, 4, NULL));
    assert_ok(spc_map_download(index, map));
    for (int i = 0; i < LENGTH(index); i++)
        pairs += index[i] >= 0;
    ck_assert_int_eq(index[13 * 8 + 3], 3); /* the centre is its own row */
    assert_ok(spc_map_check(map, NULL));
    ck_assert_int_eq(pairs, spc_map_pairs(map));
    spc_map_free(map);
    spc_coords_free(set);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- an extent that was never set ---------------------------------------- */

START_TEST(an_extent_that_was_never_set_is_refused_at_creation)
{
    spc_net_options n = SPC_NET_OPTIONS_INIT;
    spc_coords_options c = SPC_COORDS_OPTIONS_INIT;
    spc_points_options p = SPC_POINTS_OPTIONS_INIT;
    reserved r = {0};

    open_ctx();
    reserve_net(&r);
    spc_net_plan *plan = NULL;
    n.capacity = c.capacity = p.capacity = 1000;
    ck_assert_int_eq(spc_net_plan_create(&plan, ctx, r.net, &n), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(ctx), "`low` and `high`"));
    ck_assert_int_eq(spc_coords_create_reserved(&r.set, ctx, &c), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(ctx), "`low` and `high`"));
    ck_assert_int_eq(spc_points_create_reserved(&r.cloud, ctx, &p), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(ctx), "`low` and `high`"));
    c.capacity = p.capacity = 1; /* one voxel has room for one row */
    assert_ok(spc_coords_create_reserved(&r.set, ctx, &c));
    assert_ok(spc_points_create_reserved(&r.cloud, ctx, &p));
    release(&r);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- a context that is freed first --------------------------------------- */

START_TEST(a_context_may_be_freed_before_what_was_made_with_it)
{
    reserved r = {0};
    int32_t index[27 * 8];

    open_ctx();
    reserve_sets(&r);
    reserve_plans(&r);
    reserve_net(&r);
    spc_ctx_free(ctx);
    ck_assert_int_eq(spc_map_update(r.map, voxels[0], NULL, 4, NULL), SPC_OK);
    ck_assert_int_eq(spc_map_check(r.map, NULL), SPC_OK);
    ck_assert_int_eq(spc_map_download(index, r.map), SPC_OK);
    ck_assert_int_eq(spc_plan_execute(r.plan, r.map, &buffers, NULL), SPC_OK);
    ck_assert_int_eq(
        spc_feature_plan_execute(r.act, r.set, NULL, &feature_buffers, NULL),
        SPC_OK);
    ck_assert(!spc_plan_is_outdated(r.plan));
    release(&r);
}
END_TEST

/* ---- error messages ------------------------------------------------------ */

/* Without a GPU, opening the device "" must not leave the GPU driver's
 * message. */
START_TEST(success_clears_the_error_of_an_earlier_call)
{
    spc_ctx_options o = SPC_CTX_OPTIONS_INIT;
    spc_conv conv;

    o.database = o.shipped = "";
    error.status = SPC_EINTERNAL;
    snprintf(error.text, sizeof(error.text), "stale");
    ck_assert_int_eq(spc_ctx_create(&ctx, &o, &error), SPC_OK);
    ck_assert_int_eq(error.status, SPC_OK);
    ck_assert_str_eq(error.text, "");
    ck_assert_int_eq(spc_conv_parse(&conv, "nothing", &error), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(spc_error_text(&error, ctx), "nothing"));
    ck_assert_int_eq(spc_conv_parse(&conv, "subm,cin=1,cout=1,k=3", &error),
                     SPC_OK);
    ck_assert_int_eq(spc_memory_alloc(NULL, ctx, 1), SPC_EINVAL);
    ck_assert_str_eq(spc_error_text(&error, ctx),
                     "spc_memory_alloc: `out` must not be NULL");
    ck_assert_str_eq(spc_error_text(NULL, ctx), spc_ctx_error(ctx));
    ck_assert_str_eq(spc_error_text(NULL, NULL), "");
    spc_ctx_free(ctx);
}
END_TEST

static void *fail_once(void *unused)
{
    spc_map_create_from_scene(NULL, ctx, NULL, NULL);
    return strdup(spc_ctx_error(ctx));
}

static void *ask(void *unused)
{
    return strdup(spc_ctx_error(ctx));
}

static char *run_on_a_thread(void *(*body)(void *), pthread_t *thread)
{
    void *text;

    ck_assert_int_eq(pthread_create(thread, NULL, body, NULL), 0);
    ck_assert_int_eq(pthread_join(*thread, &text), 0);
    return text;
}

/* glibc reuses the memory of an ended thread and therefore its id. */
START_TEST(a_new_thread_does_not_see_its_predecessors_sentence)
{
    pthread_t first, second;

    open_ctx();
    char *one = run_on_a_thread(fail_once, &first);
    char *two = run_on_a_thread(ask, &second);
    ck_assert_str_ne(one, "");
    if (!pthread_equal(first, second))
        suite_note_skip("no thread got the id of the one before");
    ck_assert_str_eq(two, "");
    free(one);
    free(two);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- memory from the caller ---------------------------------------------- */

START_TEST(whatever_is_reserved_gives_all_its_memory_back)
{
    counting_hook count = {0};
    spc_memory_hook hook = {counting_alloc, counting_free, &count, false};
    reserved r = {0};

    open_hooked(&hook);
    reserve_sets(&r);
    reserve_plans(&r);
    reserve_net(&r);
    ck_assert_int_gt(count.live, 50);
    release(&r);
    assert_hook_is_empty(&count);
    spc_ctx_free(ctx);
    assert_hook_is_empty(&count);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("order");
    TCase *all = tcase_create("all");

    tcase_set_timeout(all, 60);
    tcase_add_test(all, what_was_never_filled_is_a_call_out_of_order);
    tcase_add_test(all,
                   a_download_has_the_rows_of_a_map_that_was_never_checked);
    tcase_add_test(all, an_extent_that_was_never_set_is_refused_at_creation);
    tcase_add_test(all, a_context_may_be_freed_before_what_was_made_with_it);
    tcase_add_test(all, success_clears_the_error_of_an_earlier_call);
    tcase_add_test(all, a_new_thread_does_not_see_its_predecessors_sentence);
    tcase_add_test(all, whatever_is_reserved_gives_all_its_memory_back);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
