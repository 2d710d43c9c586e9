/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_updates.c - filling sets, maps, clouds and voxels again on the cpu
 * device allocates no memory and starts no threads. The device's thread pool
 * serves several threads and contexts, but not a forked process.
 */
#include "harness/coords_harness.h"

#include "coords/map.h"
#include "harness/counted_allocations.h"
#include "net/net_plan.h"
#include "plan/plan.h"
#include <sys/wait.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

/* More rows than a chunk of any loop. */
enum { ROWS = 9000, CHANNELS = 300, PIECES = 8, FORKED_OK = 42 };

/* ---- objects that are filled again --------------------------------------- */

typedef struct bench {
    spc_ctx *ctx;
    int32_t *coords; /* in device memory */
    spc_coords *set, *made;
    spc_points *cloud;
    spc_voxels *voxels;
    spc_map *map;
    spc_plan *plan;
    spc_buffers buffers;
    spc_net *net;
    spc_net_plan *net_plan;
    spc_net_buffers net_buffers;
    void *memory[PIECES]; /* in device memory */
    int pieces;
} bench;

/* A copy of a run's results. */
typedef struct bytes {
    char *at;
    size_t count;
} bytes;

static void append(bytes *to, const void *from, size_t count)
{
    to->at = realloc(to->at, to->count + count + 1);
    memcpy(to->at + to->count, from, count);
    to->count += count;
}

/* Allocations of setup and run are counted. Check's assertions allocate memory,
 * so the code below uses none. */
static spc_geometry geometry_of(const char *text)
{
    spc_conv conv;

    return spc_conv_parse(&conv, text, NULL) == SPC_OK
               ? conv.geometry
               : (spc_geometry)SPC_GEOMETRY_INIT;
}

static spc_status take(bench *b, void *out, size_t count)
{
    spc_status status =
        b->pieces < PIECES
            ? spc_memory_alloc(&b->memory[b->pieces], b->ctx, count)
            : SPC_EINVAL;

    if (status == SPC_OK)
        memset(b->memory[b->pieces], 0, count); /* device memory is host
                                                 * memory */
    memcpy(out, &b->memory[b->pieces], sizeof(void *));
    b->pieces += status == SPC_OK;
    return status;
}

static spc_status reserve_set(bench *b, spc_duplicates duplicates)
{
    spc_coords_options o = {.bytes = sizeof(spc_coords_options),
                            .capacity = ROWS,
                            .low = {0, -40, -40, -40},
                            .high = {1, 40, 40, 40},
                            .duplicates = duplicates};

    return spc_coords_create_reserved(&b->set, b->ctx, &o);
}

static const char strided[] = "conv,cin=4,cout=4,k=3,stride=2,padding=1,"
                              "rule=footprint,dtype=f32";

static spc_status reserve_outputs(bench *b, const spc_geometry *geometry)
{
    spc_status status = reserve_set(b, SPC_DUPLICATES_FIRST);

    return status == SPC_OK ? spc_coords_create_outputs_reserved(
                                  &b->made, b->set, geometry, 0)
                            : status;
}

/* ---- sets ---------------------------------------------------------------- */

static spc_status make_set(bench *b)
{
    spc_status status = reserve_set(b, SPC_DUPLICATES_SUM);
    float *features;

    return status == SPC_OK ? take(b, &features, 4 * ROWS * CHANNELS) : status;
}

static spc_status run_set(bench *b)
{
    float *features = b->memory[0];
    spc_status status = spc_coords_update(b->set, b->coords, NULL, ROWS, NULL);

    for (int i = 0; i < ROWS * CHANNELS; i++)
        features[i] = (float)(i % 1009);
    return status == SPC_OK ? spc_coords_merge_features(b->set, features,
                                                        SPC_F32, CHANNELS, NULL)
                            : status;
}

static void read_set(bytes *out, bench *b)
{
    append(out, b->set->order, 4 * (size_t)*b->set->count);
    append(out, b->memory[0], 4 * ROWS * CHANNELS);
}

static spc_status make_outputs(bench *b)
{
    spc_geometry geometry = geometry_of(strided);

    return reserve_outputs(b, &geometry);
}

static spc_status run_outputs(bench *b)
{
    spc_status status = spc_coords_update(b->set, b->coords, NULL, ROWS, NULL);

    return status == SPC_OK ? spc_coords_update(b->made, NULL, NULL, 0, NULL)
                            : status;
}

static void read_outputs(bytes *out, bench *b)
{
    append(out, spc_coords_data(b->made), 16 * (size_t)*b->made->count);
}

/* ---- maps ---------------------------------------------------------------- */

/* Prepares pairs, a sorted order and tiles of several sizes. */
static spc_status prepare(spc_map *map)
{
    spc_status status = spc__map_prepare(map, "gray", 64, NULL);

    if (status == SPC_OK)
        status = spc__map_prepare(map, "gray2", 16, NULL);
    if (status == SPC_OK)
        status = spc__map_prepare(map, "none", 32, NULL);
    return status == SPC_OK ? spc__map_prepare_pairs(map, NULL) : status;
}

static spc_status make_map(bench *b)
{
    spc_geometry geometry = geometry_of("subm,cin=4,cout=4,k=3");
    spc_status status = reserve_set(b, SPC_DUPLICATES_FIRST);

    if (status == SPC_OK)
        status = spc_map_create(&b->map, b->set, b->set, &geometry);
    if (status == SPC_OK)
        status = spc_map_update(b->map, b->coords, NULL, ROWS, NULL);
    return status == SPC_OK ? prepare(b->map) : status;
}

static spc_status run_map(bench *b)
{
    return spc_map_update(b->map, b->coords, NULL, ROWS, NULL);
}

static void read_map(bytes *out, bench *b)
{
    size_t padded = (size_t)b->map->to->rows_padded;
    size_t entries = padded * (size_t)b->map->offsets;
    spc_pairs_view pairs;
    spc_map_view view;

    ck_assert(spc__map_view(&view, b->map, "gray", 64));
    append(out, view.index, 4 * entries);
    append(out, view.order, 4 * padded);
    append(out, view.tile_mask, 4 * (size_t)view.tiles);
    ck_assert(spc__map_pairs_view(&pairs, b->map));
    append(out, pairs.in, 4 * (size_t)pairs.begin[b->map->offsets]);
    append(out, b->map->plain.index, 4 * entries);
}

static spc_status make_inverse(bench *b)
{
    spc_geometry geometry = geometry_of(strided);
    spc_status status = reserve_outputs(b, &geometry);

    if (status == SPC_OK)
        status = spc_map_create_inverse(&b->map, b->made, b->set, &geometry);
    if (status == SPC_OK)
        status = run_outputs(b);
    if (status == SPC_OK)
        status = spc_map_update(b->map, NULL, NULL, 0, NULL);
    return status == SPC_OK ? prepare(b->map) : status;
}

static spc_status run_inverse(bench *b)
{
    spc_status status = run_outputs(b);

    return status == SPC_OK ? spc_map_update(b->map, NULL, NULL, 0, NULL)
                            : status;
}

/* ---- points -------------------------------------------------------------- */

static spc_status make_cloud(bench *b, int nearest, bool inverse)
{
    spc_points_options o = {.bytes = sizeof(spc_points_options),
                            ROWS,
                            2,
                            {-50, -50, -50},
                            {50, 50, 50}};
    spc_geometry geometry = geometry_of("points,cin=4,cout=4,k=3,radius=1.5");
    float *xyz;
    spc_status status = take(b, &xyz, 12 * ROWS);

    geometry.nearest = nearest;
    for (int i = 0; i < 3 * ROWS && status == SPC_OK; i++)
        xyz[i] = (float)b->coords[4 * (i / 3) + 1 + i % 3];
    if (status == SPC_OK)
        status = spc_points_create_reserved(&b->cloud, b->ctx, &o);
    if (status != SPC_OK)
        return status;
    return (inverse ? spc_map_create_radius_inverse : spc_map_create_radius)(
        &b->map, b->cloud, b->cloud, &geometry, 100 * ROWS);
}

static spc_status make_points(bench *b)
{
    return make_cloud(b, 0, false);
}

static spc_status make_nearest(bench *b)
{
    return make_cloud(b, 5, false);
}

static spc_status make_limits(bench *b)
{
    return make_cloud(b, 3, true);
}

static spc_status run_points(bench *b)
{
    spc_status status =
        spc_points_update(b->cloud, b->memory[0], NULL, NULL, ROWS, NULL);

    return status == SPC_OK ? spc_map_update(b->map, NULL, NULL, 0, NULL)
                            : status;
}

static void read_points(bytes *out, bench *b)
{
    spc_triplet *all;

    assert_ok(b->ctx, spc_map_check(b->map, NULL));
    size_t count = sizeof *all * (size_t)spc_map_pairs(b->map);
    ck_assert_uint_gt(count, ROWS);
    all = malloc(count);
    assert_ok(b->ctx, spc_map_download_triplets(all, b->map));
    append(out, all, count);
    free(all);
}

static spc_status make_voxels(bench *b)
{
    spc_voxelisation how = SPC_VOXELISATION_INIT;
    float *points;
    spc_status status = take(b, &points, 16 * ROWS);

    for (int i = 0; i < 4 * ROWS && status == SPC_OK; i++)
        points[i] = (float)b->coords[4 * (i / 4) + (i + 1) % 4];
    for (int a = 0; a < 3; a++) {
        how.voxel[a] = 2;
        how.low[a] = -30;
        how.high[a] = 30;
    }
    return status == SPC_OK
               ? spc_voxels_create(&b->voxels, b->ctx, &how, ROWS, ROWS)
               : status;
}

static spc_status run_voxels(bench *b)
{
    return spc_voxels_update(b->voxels, b->memory[0], NULL, ROWS, NULL);
}

static void read_voxels(bytes *out, bench *b)
{
    size_t count = (size_t)*spc_voxels_device_count(b->voxels);

    ck_assert_uint_gt(count, 1000);
    append(out, spc_voxels_coords(b->voxels), 16 * count);
    append(out, spc_voxels_features(b->voxels), 8 * count);
}

/* ---- sets made of other sets --------------------------------------------- */

/* Two of eight voxels are kept and merged into one. Features move in both
 * directions. */
static spc_status make_regrouped(bench *b)
{
    const spc_regrouping how = {{0, 1, 1}, {1, 2, 1}};
    size_t slots = 2 * ROWS;
    spc_status status = reserve_set(b, SPC_DUPLICATES_FIRST);
    void *memory;

    if (status == SPC_OK)
        status =
            spc_coords_create_regrouped_reserved(&b->made, &b->set, 1, &how, 0);
    if (status == SPC_OK)
        status = take(b, &memory, slots);
    for (int i = 0; i < 3 && status == SPC_OK; i++)
        status = take(b, &memory, 4 * slots * CHANNELS);
    for (size_t i = 0; i < ROWS * CHANNELS && status == SPC_OK; i++)
        ((float *)b->memory[1])[i] = (float)(i % 1009) - 500;
    return status;
}

static spc_status run_regrouped(bench *b)
{
    const spc_gather how = {SPC_F32, CHANNELS, false};
    const void *in[1] = {b->memory[1]};
    void *out[1] = {b->memory[3]};
    spc_status status = spc_coords_update(b->set, b->coords, NULL, ROWS, NULL);

    if (status == SPC_OK) /* the mask reads two numbers per row */
        status = spc_coords_mask_above(b->memory[0], b->made, in, SPC_F32, -400,
                                       NULL);
    if (status == SPC_OK)
        status = spc_coords_update_regrouped(b->made, b->memory[0], NULL);
    if (status == SPC_OK)
        status =
            spc_coords_gather_features(b->memory[2], b->made, in, &how, NULL);
    return status == SPC_OK ? spc_coords_scatter_features(
                                  out, b->made, b->memory[2], &how, NULL)
                            : status;
}

static void read_regrouped(bytes *out, bench *b)
{
    size_t count = (size_t)*b->made->count;

    ck_assert_uint_gt(count, 1000);
    append(out, spc_coords_data(b->made), 16 * count);
    append(out, b->memory[2], 4 * count * CHANNELS);
    append(out, b->memory[3], 4 * ROWS * CHANNELS);
}

/* ---- layers and networks ------------------------------------------------- */

static spc_status make_layer(bench *b)
{
    spc_conv conv = parse("subm,cin=4,cout=4,k=3,dtype=f32");
    spc_status status = make_map(b);
    float *in, *weights;
    void *packed;

    if (status == SPC_OK)
        status = spc_plan_create(&b->plan, b->ctx, &conv, b->map, 0);
    if (status == SPC_OK)
        status = take(b, &in, 16 * ROWS);
    if (status == SPC_OK)
        status = take(b, &weights, 4 * 27 * 16);
    if (status == SPC_OK)
        status = take(b, &packed, spc_plan_weights_bytes(b->plan));
    if (status != SPC_OK)
        return status;
    for (int i = 0; i < 4 * ROWS; i++)
        in[i] = (float)(i % 11) - 5;
    for (int i = 0; i < 27 * 16; i++)
        weights[i] = (float)(i % 7) - 3;
    b->buffers = (spc_buffers){
        .bytes = sizeof(spc_buffers), .in = in, .weights = packed};
    status = take(b, &b->buffers.out, 16 * ROWS);
    if (status == SPC_OK)
        status = take(b, &b->buffers.workspace,
                      spc_plan_workspace_bytes(b->plan, b->map) + 1);
    return status == SPC_OK
               ? spc_plan_pack(packed, b->plan, weights, SPC_KRSC, NULL)
               : status;
}

static spc_status run_layer(bench *b)
{
    spc_status status = run_map(b);

    return status == SPC_OK
               ? spc_plan_execute(b->plan, b->map, &b->buffers, NULL)
               : status;
}

static void read_layer(bytes *out, bench *b)
{
    append(out, b->buffers.out, 16 * ROWS);
}

static spc_status make_network(bench *b)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;
    spc_error error = {0};
    spc_status status = spc_net_load(&b->net, suite_path("networks/every.lua"),
                                     SPC_F32, &error);

    ck_assert_msg(status == SPC_OK, "%s", error.text);
    assert_ok(b->ctx, spc_net_init_params(b->net, 3, &error));
    o.capacity = ROWS;
    o.high[0] = 1;
    for (int a = 1; a < 4; a++)
        o.high[a] = 23;
    b->net_buffers = (spc_net_buffers)SPC_NET_BUFFERS_INIT;
    status = spc_net_plan_create(&b->net_plan, b->ctx, b->net, &o);
    if (status == SPC_OK)
        status = take(b, &b->net_buffers.features, 4 * 8 * ROWS);
    if (status == SPC_OK)
        status = take(b, &b->net_buffers.memory,
                      spc_net_plan_memory_bytes(b->net_plan));
    if (status == SPC_OK)
        status = take(b, &b->net_buffers.coords, 16 * ROWS);
    if (status != SPC_OK)
        return status;
    rows drawn = draw(3000, 0, 16, 2, 5);
    b->net_buffers.rows = drawn.count;
    memcpy(b->memory[2], drawn.at, 16 * (size_t)drawn.count);
    for (int i = 0; i < 8 * ROWS; i++)
        ((float *)b->memory[0])[i] = (float)(i % 5) - 2;
    free(drawn.at);
    return SPC_OK;
}

static spc_status run_network(bench *b)
{
    return spc_net_plan_execute(b->net_plan, &b->net_buffers, NULL);
}

static void read_network(bytes *out, bench *b)
{
    spc_net_output o;

    assert_ok(b->ctx, spc_net_plan_check(b->net_plan, NULL));
    for (int i = 0; spc_net_plan_output_at(&o, b->net_plan, i) == SPC_OK; i++)
        append(out, (char *)b->net_buffers.memory + o.offset,
               4 * (size_t)((o.dense ? o.batches : spc_coords_rows(o.set)) *
                            o.elements));
}

/* ---- all updates --------------------------------------------------------- */

static const struct update {
    const char *name;
    spc_status (*make)(bench *b);
    spc_status (*run)(bench *b);
    void (*read)(bytes *out, bench *b);
} updates[] = {
    {"a set", make_set, run_set, read_set},
    {"a set of outputs", make_outputs, run_outputs, read_outputs},
    {"a map", make_map, run_map, read_map},
    {"an inverse map", make_inverse, run_inverse, read_map},
    {"a map of points", make_points, run_points, read_points},
    {"the nearest points", make_nearest, run_points, read_points},
    {"whose nearest they are", make_limits, run_points, read_points},
    {"voxels", make_voxels, run_voxels, read_voxels},
    {"a regrouped set", make_regrouped, run_regrouped, read_regrouped},
    {"a layer", make_layer, run_layer, read_layer},
    {"a network", make_network, run_network, read_network},
};

/* The first updates compile nothing; the last two do. */
enum { UPDATES = LENGTH(updates), OF_ARRAYS = UPDATES - 2 };

/* A context whose device has this number of threads. */
static spc_ctx *open_threads(int threads)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error = {0};
    spc_ctx *ctx;

    options.device = "cpu";
    options.database = suite_database();
    options.threads = threads;
    spc_status status = spc_ctx_create(&ctx, &options, &error);
    ck_assert_msg(status == SPC_OK, "%s", error.text);
    return ctx;
}

/* Rows with some duplicates and some outside. */
static int32_t *draw_coords(void)
{
    int32_t *coords = malloc(16 * ROWS);
    spc__random random;

    spc__random_init(&random, 7);
    for (int i = 0; i < ROWS; i++) {
        coords[4 * i] = (int32_t)spc__random_below(&random, 2);
        for (int a = 1; a < 4; a++)
            coords[4 * i + a] = (int32_t)spc__random_below(&random, 24) - 12;
    }
    return coords;
}

static bench begin(spc_ctx *ctx)
{
    return (bench){.ctx = ctx, .coords = draw_coords()};
}

static void end(bench *b)
{
    spc_net_plan_free(b->net_plan);
    spc_net_free(b->net);
    spc_plan_free(b->plan);
    spc_map_free(b->map);
    spc_voxels_free(b->voxels);
    spc_points_free(b->cloud);
    spc_coords_free(b->made);
    spc_coords_free(b->set);
    for (int i = 0; i < b->pieces; i++)
        spc_memory_free(b->ctx, b->memory[i]);
    free(b->coords);
}

static void check_result(const struct update *u, bench *b, const bytes *want)
{
    bytes got = {0};

    u->read(&got, b);
    ck_assert_msg(got.count == want->count &&
                      memcmp(got.at, want->at, got.count) == 0,
                  "%s has another result", u->name);
    free(got.at);
}

/* Returns the result of one thread. */
static bytes expected(const struct update *u)
{
    bench b = begin(open_threads(1));
    bytes want = {0};

    assert_ok(b.ctx, u->make(&b));
    assert_ok(b.ctx, u->run(&b));
    u->read(&want, &b);
    ck_assert_uint_gt(want.count, 0);
    end(&b);
    spc_ctx_free(b.ctx);
    return want;
}

/* ---- tests --------------------------------------------------------------- */

/* Between watch(true) and watch(false) all allocations fail, and no thread can
 * be started. */
static void watch(bool on)
{
    atomic_store(&refused_allocation, on ? ALL_ALLOCATIONS : 0);
    atomic_store(&refuses_threads, on);
    atomic_store(&watching, on);
}

START_TEST(an_update_allocates_nothing_and_starts_no_thread)
{
    const struct update *u = &updates[_i];
    bytes want = expected(u);
    bench b = begin(open_threads(4));

    assert_ok(b.ctx, u->make(&b));
    assert_ok(b.ctx, u->run(&b));
    check_result(u, &b, &want);
    for (int i = 0; i < 3; i++) {
        watch(true);
        spc_status status = u->run(&b);
        watch(false);
        ck_assert_msg(status == SPC_OK, "%s: %s", u->name,
                      spc_ctx_error(b.ctx));
        check_result(u, &b, &want);
    }
    ck_assert_msg(atomic_load(&allocations) == 0 &&
                      atomic_load(&threads_started) == 0,
                  "%s: %d allocations, %d threads", u->name,
                  atomic_load(&allocations), atomic_load(&threads_started));
    end(&b);
    spc_ctx_free(b.ctx);
    free(want.at);
}
END_TEST

/* Each allocation of the setup and first fill fails once. The call must return
 * an error, or the result must be right. */
START_TEST(each_allocation_fails_once)
{
    const struct update *u = &updates[_i];
    bytes want = expected(u);
    spc_ctx *ctx = open_threads(4);
    int nth = 0, counted, failed = 0;

    do {
        bench b = begin(ctx);
        fail_allocation(++nth);
        spc_status status = u->make(&b);
        if (status == SPC_OK)
            status = u->run(&b);
        counted = atomic_load(&allocations);
        fail_allocation(0);
        failed += status != SPC_OK;
        ck_assert_msg(
            status == SPC_OK || status == SPC_ENOMEM || status == SPC_EDEVICE,
            "%s, allocation %d: %s", u->name, nth, spc_ctx_error(ctx));
        if (status == SPC_OK)
            check_result(u, &b, &want);
        end(&b);
    } while (counted >= nth);
    ck_assert_int_gt(failed, 5);
    spc_ctx_free(ctx);
    free(want.at);
}
END_TEST

/* A device works without threads if they cannot be started. */
START_TEST(without_threads_the_caller_works_alone)
{
    const struct update *u = &updates[_i];
    bytes want = expected(u);

    atomic_store(&refuses_threads, 1);
    bench b = begin(open_threads(4));
    assert_ok(b.ctx, u->make(&b));
    assert_ok(b.ctx, u->run(&b));
    check_result(u, &b, &want);
    end(&b);
    spc_ctx_free(b.ctx);
    free(want.at);
}
END_TEST

/* Rows are moved and merged in parts. Rows wider than a part must give the same
 * result as separate columns. */
START_TEST(wide_features_are_merged_as_narrow_ones)
{
    enum { NARROW = 100 };
    bench b = begin(open_threads(4));
    float *one = malloc(4 * ROWS * NARROW);

    assert_ok(b.ctx, make_set(&b));
    assert_ok(b.ctx, run_set(&b));
    ck_assert_int_lt(*b.set->count, ROWS - 100); /* equal rows were merged */
    for (int first = 0; first < CHANNELS; first += NARROW) {
        for (int i = 0; i < ROWS * NARROW; i++)
            one[i] =
                (float)((i / NARROW * CHANNELS + first + i % NARROW) % 1009);
        assert_ok(b.ctx,
                  spc_coords_merge_features(b.set, one, SPC_F32, NARROW, NULL));
        for (int i = 0; i < ROWS * NARROW; i++)
            ck_assert(one[i] == ((float *)b.memory[0])[i / NARROW * CHANNELS +
                                                       first + i % NARROW]);
    }
    free(one);
    end(&b);
    spc_ctx_free(b.ctx);
}
END_TEST

START_TEST(wide_features_are_moved_as_narrow_ones)
{
    enum { NARROW = 100 };
    const spc_gather how = {SPC_F32, NARROW, false};
    bench b = begin(open_threads(4));
    float *in = malloc(4 * ROWS * NARROW), *out = malloc(8 * ROWS * NARROW);
    const void *sources[1] = {in};

    assert_ok(b.ctx, make_regrouped(&b));
    assert_ok(b.ctx, run_regrouped(&b));
    const float *wide_in = b.memory[1], *wide = b.memory[2];
    for (int first = 0; first < CHANNELS; first += NARROW) {
        for (int i = 0; i < ROWS * NARROW; i++)
            in[i] = wide_in[i / NARROW * CHANNELS + first + i % NARROW];
        assert_ok(b.ctx,
                  spc_coords_gather_features(out, b.made, sources, &how, NULL));
        for (int i = 0; i < *b.made->count * NARROW; i++)
            ck_assert(out[i] ==
                      wide[i / NARROW * CHANNELS + first + i % NARROW]);
    }
    free(in);
    free(out);
    end(&b);
    spc_ctx_free(b.ctx);
}
END_TEST

/* ---- several threads ----------------------------------------------------- */

/* A thread that fills its own objects repeatedly. It makes and reads nothing,
 * since this would lock the context, and Check supports only one thread. */
typedef struct worker {
    const struct update *u;
    bench b;
    const atomic_bool *ends; /* set: stop; NULL: stop after some runs */
} worker;

static void *work(void *payload)
{
    worker *w = payload;
    spc_status status = SPC_OK;

    for (int i = 0;
         status == SPC_OK && (w->ends ? !atomic_load(w->ends) : i < 5); i++)
        status = w->u->run(&w->b);
    return status == SPC_OK ? payload : NULL;
}

static worker employ(const struct update *u, spc_ctx *ctx,
                     const atomic_bool *ends)
{
    worker w = {u, begin(ctx), ends};

    assert_ok(ctx, u->make(&w.b));
    assert_ok(ctx, u->run(&w.b));
    return w;
}

static pthread_t start(worker *w)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, work, w), 0);
    return thread;
}

static void finish(worker *w, pthread_t thread, const bytes *want)
{
    void *payload;

    pthread_join(thread, &payload);
    ck_assert_msg(payload != NULL, "%s: %s", w->u->name,
                  spc_ctx_error(w->b.ctx));
    check_result(w->u, &w->b, want);
}

/* Two contexts with three threads each. */
START_TEST(threads_and_contexts_do_not_wait_for_each_other)
{
    enum { EACH = 3, ALL_OF = 2 * EACH, ROUNDS = 3 };
    spc_ctx *ctx[2] = {open_threads(3), open_threads(3)};
    pthread_t threads[ALL_OF];
    worker workers[ALL_OF];
    bytes want[ALL_OF];

    for (int i = 0; i < ALL_OF; i++) {
        const struct update *u = &updates[(i * 4 + _i) % OF_ARRAYS];
        want[i] = expected(u);
        workers[i] = employ(u, ctx[i / EACH], NULL);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ALL_OF; i++)
            threads[i] = start(&workers[i]);
        for (int i = 0; i < ALL_OF; i++)
            finish(&workers[i], threads[i], &want[i]);
    }
    for (int i = 0; i < ALL_OF; i++) {
        end(&workers[i].b);
        free(want[i].at);
    }
    spc_ctx_free(ctx[0]);
    spc_ctx_free(ctx[1]);
}
END_TEST

/* In the child: the parent's objects, and a new context. */
static void run_forked(const struct update *u, bench *b, const bytes *want)
{
    assert_ok(b->ctx, u->run(b));
    check_result(u, b, want);
#ifndef __SANITIZE_THREAD__ /* which has no threads after fork() */
    bench own = begin(open_threads(4));
    assert_ok(own.ctx, u->make(&own));
    assert_ok(own.ctx, u->run(&own));
    check_result(u, &own, want);
    end(&own);
    spc_ctx_free(own.ctx);
#endif
    _exit(FORKED_OK);
}

/* The parent's threads are running loops when it forks. */
START_TEST(a_forked_process_fills_what_it_inherits)
{
    const struct update *u = &updates[_i];
    bytes want = expected(u);
    bench b = begin(open_threads(4));
    atomic_bool ends = false;
    worker other = employ(u, b.ctx, &ends);

    assert_ok(b.ctx, u->make(&b));
    pthread_t thread = start(&other);
    for (int i = 0; i < 3; i++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            run_forked(u, &b, &want);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == FORKED_OK);
        assert_ok(b.ctx, u->run(&b));
        check_result(u, &b, &want);
    }
    atomic_store(&ends, true);
    finish(&other, thread, &want);
    end(&other.b);
    end(&b);
    spc_ctx_free(b.ctx);
    free(want.at);
}
END_TEST

static void add_updates(Suite *suite, const char *name, const TTest *test,
                        int count)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test, 0, count);
    suite_add_tcase(suite, tc);
}

int main(void)
{
    Suite *suite = suite_create("updates");

    add_updates(suite, "nothing",
                an_update_allocates_nothing_and_starts_no_thread, UPDATES);
    add_updates(suite, "memory", each_allocation_fails_once, OF_ARRAYS);
    add_updates(suite, "alone", without_threads_the_caller_works_alone,
                UPDATES);
    add_updates(suite, "merged", wide_features_are_merged_as_narrow_ones, 1);
    add_updates(suite, "moved", wide_features_are_moved_as_narrow_ones, 1);
    add_updates(suite, "together",
                threads_and_contexts_do_not_wait_for_each_other, 2);
    add_updates(suite, "forked", a_forked_process_fills_what_it_inherits,
                OF_ARRAYS);
    return run_suite(suite);
}
