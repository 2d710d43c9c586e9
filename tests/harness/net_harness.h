/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_harness.h - plans a network on a device, runs it on scenes, and compares
 * it with the oracle. Also runs networks on the double of the driver, which
 * counts calls.
 */
#ifndef SPC_TESTS_NET_HARNESS_H
#define SPC_TESTS_NET_HARNESS_H

#include "harness/fake_driver.h"
#include "spc/lab.h"

#include "base/dtype.h"
#include "base/file.h"
#include "base/random.h"
#include "context/ctx.h"
#include "harness/counted_allocations.h"
#include "harness/map_harness.h"
#include "net/net_plan.h"
#include <dlfcn.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

static spc_error error;

#define assert_net(call)                                                       \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

/* ---- a network on a device ----------------------------------------------- */

typedef struct harness {
    spc_ctx *ctx;
    spc_net *net;
    spc_net_plan *plan;
    spc_net_info info;
    int64_t capacity;
    spc_net_buffers buffers;
    void *coords, *count, *features;
} harness;

/* Some networks are in the tests' own folder. */
static inline const char *network_path(const char *name)
{
    static char path[4400];
    static const char *const own[] = {"every.lua",  "chain.lua",
                                      "masked.lua", "points.lua",
                                      "cloud.lua",  "operators.lua",
                                      "batches.lua"};
    const char *folder = "../examples/networks";

    for (int i = 0; i < LENGTH(own); i++)
        if (strcmp(name, own[i]) == 0)
            folder = "networks";

    snprintf(path, sizeof(path), "%s/%s", suite_path(folder), name);
    return path;
}

static inline void open_context(harness *r, const char *device)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;

    options.device = device;
    options.database = suite_database();
    /* the oracle takes long for whole scenes */
    options.threads = suite_is_gpu() ? 0 : 2;
    assert_net(spc_ctx_create(&r->ctx, &options, &error));
}

static inline void load(harness *r, const char *name, spc_dtype dtype)
{
    memset(r, 0, sizeof(*r));
    assert_net(spc_net_load(&r->net, network_path(name), dtype, &error));
    assert_net(spc_net_init_params(r->net, 3, &error));
    spc_net_describe(&r->info, r->net);
}

/* Returns options for `capacity` voxels in two batch elements, with coordinates
 * from -64 to 63 or within the network's shape. */
static inline spc_net_options options_for(int64_t capacity)
{
    spc_net_options o = SPC_NET_OPTIONS_INIT;

    o.capacity = capacity;
    for (int a = 1; a < 4; a++) {
        o.low[a] = -64;
        o.high[a] = 63;
    }
    o.high[0] = 1;
    return o;
}

static inline void *take(harness *r, size_t bytes)
{
    void *memory;

    assert_ok(r->ctx, spc_memory_alloc(&memory, r->ctx, bytes + 16));
    return memory;
}

static inline void plan_net(harness *r, const spc_net_options *o)
{
    size_t element = spc__dtype_of(r->info.input->dtype)->bytes;

    r->capacity = o->capacity;
    assert_ok(r->ctx, spc_net_plan_create(&r->plan, r->ctx, r->net, o));
    r->coords = take(r, 16 * (size_t)o->capacity);
    r->count = take(r, 4);
    r->features = take(r, (size_t)o->capacity *
                              (size_t)r->info.input->channels * element);
    r->buffers = (spc_net_buffers){
        .bytes = sizeof(spc_net_buffers),
        .coords = r->coords,
        .count = r->count,
        .features = r->features,
        .memory = take(r, spc_net_plan_memory_bytes(r->plan)),
    };
}

static inline void close_plan(harness *r)
{
    spc_memory_free(r->ctx, r->coords);
    spc_memory_free(r->ctx, r->count);
    spc_memory_free(r->ctx, r->features);
    spc_memory_free(r->ctx, r->buffers.memory);
    spc_net_plan_free(r->plan);
}

static inline void close_harness(harness *r)
{
    close_plan(r);
    spc_net_free(r->net);
    spc_ctx_free(r->ctx);
}

/* Fills features with integers from -2 to 2, different for each scene. */
static inline void upload(harness *r, const spc_scene *scene, uint64_t seed)
{
    const spc__dtype *type = spc__dtype_of(r->info.input->dtype);
    int32_t rows = (int32_t)spc_scene_rows(scene);
    size_t count = (size_t)rows * (size_t)r->info.input->channels;
    float *values = malloc((count + 1) * sizeof(*values));
    void *stored = malloc((count + 1) * type->bytes);
    spc__random random;

    spc__random_init(&random, seed);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)spc__random_below(&random, 5) - 2;
    type->encode(stored, values, count);
    assert_ok(r->ctx, spc_memory_upload(r->features, r->ctx, stored,
                                        count * type->bytes));
    assert_ok(r->ctx,
              spc_memory_upload(r->coords, r->ctx, spc_scene_coords(scene),
                                16 * (size_t)rows));
    assert_ok(r->ctx, spc_memory_upload(r->count, r->ctx, &rows, 4));
    free(values);
    free(stored);
}

/* Overwrites the results, so that those of an earlier run are not taken for new
 * ones. */
static inline void poison(harness *r)
{
    size_t bytes = spc_net_plan_memory_bytes(r->plan);
    void *nonsense = malloc(bytes);

    memset(nonsense, 0xff, bytes);
    assert_ok(r->ctx,
              spc_memory_upload(r->buffers.memory, r->ctx, nonsense, bytes));
    free(nonsense);
}

/*
 * Makes `rows` voxels from 0 to 23 (z: to 15) in `batches` batch elements, in
 * random order.
 */
static inline spc_scene *draw_scene(int rows, int batches, uint64_t seed)
{
    char *there = calloc(2 * 24 * 24 * 16, 1);
    int32_t *coords = malloc(16 * (size_t)rows + 16);
    spc_scene *scene;
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < rows;) {
        int b = (int)spc__random_below(&random, (uint32_t)batches);
        int x = (int)spc__random_below(&random, 24);
        int y = (int)spc__random_below(&random, 24);
        int z = (int)spc__random_below(&random, 16);
        if (there[((b * 24 + x) * 24 + y) * 16 + z]++)
            continue;
        int32_t row[4] = {b, x, y, z};
        memcpy(coords + 4 * i++, row, sizeof(row));
    }
    assert_net(spc_scene_create(&scene, coords, rows, "drawn", &error));
    free(coords);
    free(there);
    return scene;
}

/* Loads a network from text, through a file in a temporary folder. */
static inline spc_status load_text(spc_net **out, const char *text,
                                   spc_dtype dtype)
{
    spc__buf folder = SPC__BUF_INIT, path = SPC__BUF_INIT;
    spc_status status;

    ck_assert_int_eq(spc__temp_dir_create(&folder, &error), SPC_OK);
    spc__buf_printf(&path, "%s/net.lua", spc__buf_text(&folder));
    assert_net(
        spc__file_write(spc__buf_text(&path), text, strlen(text), &error));
    status = spc_net_load(out, spc__buf_text(&path), dtype, &error);
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
    spc__buf_release(&path);
    return status;
}

/* ---- runs --------------------------------------------------------------- */

static inline const char *device_of(int loop)
{
    return suite_device != NULL ? suite_device : loop == 0 ? "cpu" : "sim";
}

static inline spc_scene *scene_of(int i)
{
    static const int rows[] = {90, 300, 1, 0, 220, 17};

    return draw_scene(rows[i % LENGTH(rows)], 1 + i % 2, (uint64_t)i + 1);
}

/* Compares the run with the oracle; integers must be equal. */
static inline void check_run(harness *r, const spc_scene *scene, bool exact)
{
    spc_net_verdict verdict;

    assert_ok(r->ctx, spc_net_plan_check(r->plan, NULL));
    assert_ok(r->ctx,
              spc_net_plan_verify(&verdict, r->plan, &r->buffers, scene));
    ck_assert_int_gt(verdict.layers, 0);
    ck_assert_msg(!exact || verdict.error == 0, "layer '%s' is not exact",
                  verdict.worst);
}

/* Returns the bytes of all outputs, one after the other. The caller owns
 * them. */
static inline char *outputs_of(harness *r, size_t *bytes)
{
    char *out = NULL;
    spc_net_output o;

    assert_ok(r->ctx, spc_net_plan_check(r->plan, NULL));
    *bytes = 0;
    for (int i = 0; spc_net_plan_output_at(&o, r->plan, i) == SPC_OK; i++) {
        int64_t rows = o.dense ? o.batches : spc_coords_rows(o.set);
        size_t more =
            (size_t)(rows * o.elements) * spc__dtype_of(o.dtype)->bytes;
        out = realloc(out, *bytes + more + 1);
        assert_ok(r->ctx, spc_memory_download(
                              out + *bytes, r->ctx,
                              (char *)r->buffers.memory + o.offset, more));
        *bytes += more;
    }
    return out;
}

/* Restricts the network to kernels whose results do not depend on the order of
 * blocks. */
static inline void make_deterministic(spc_net *net)
{
    for (int i = 0; i < net->node_count; i++)
        if (net->nodes[i].kind == SPC__NODE_CONV)
            net->nodes[i].conv.deterministic = true;
}

/*
 * Plans with and without shared memory, runs and replays. All results must have
 * the same bits, and agree with the oracle within rounding errors. A GPU
 * replays a hundred scenes.
 */
static inline void compare_replays(harness *r, const spc_net_options *o,
                                   int scenes)
{
    harness other = *r;
    spc__random random;
    size_t want_bytes, bytes;

    plan_net(&other,
             &(spc_net_options){
                 .bytes = sizeof(spc_net_options),
                 .capacity = o->capacity,
                 .low = {o->low[0], o->low[1], o->low[2], o->low[3]},
                 .high = {o->high[0], o->high[1], o->high[2], o->high[3]},
                 .growth = o->growth,
                 .keep = true});
    plan_net(r, o);
    ck_assert_uint_lt(spc_net_plan_memory_bytes(r->plan),
                      spc_net_plan_memory_bytes(other.plan));
    ck_assert_int_eq(spc_net_plan_replay(r->plan, NULL), SPC_ESTATE);
    assert_ok(r->ctx, spc_net_plan_capture(r->plan, &r->buffers));
    spc__random_init(&random, 11);
    for (int i = 0; i < scenes; i++) {
        spc_scene *scene = scene_of((int)spc__random_below(&random, 60));
        upload(&other, scene, (uint64_t)i);
        upload(r, scene, (uint64_t)i);
        poison(r);
        assert_ok(r->ctx,
                  spc_net_plan_execute(other.plan, &other.buffers, NULL));
        assert_ok(r->ctx, spc_net_plan_replay(r->plan, NULL));
        char *want = outputs_of(&other, &want_bytes);
        char *got = outputs_of(r, &bytes);
        ck_assert_uint_eq(bytes, want_bytes);
        require(memcmp(got, want, bytes) == 0, "scene %d differs", i);
        check_run(&other, scene, false); /* so the replay agrees too */
        free(want);
        free(got);
        spc_scene_free(scene);
    }
    close_plan(&other);
}

/* ---- the double of the driver -------------------------------------------- */

static spc__cuda api; /* the driver as a host application sees it */

static inline void open_doubles(void)
{
    load_fake_driver();
    assert_net(spc__cuda_open(&api, &error));
}

/* Returns the launch that is this node of the last graph. */
static inline const fake_launch *launch_at(size_t node)
{
    for (int i = fake->launches - 1; i >= 0; i--)
        if (fake->launch[i % FAKE_LAUNCHES].node == node)
            return &fake->launch[i % FAKE_LAUNCHES];
    return NULL;
}

static inline bool is_kernel(const fake_launch *it, const char *name)
{
    return strcmp(it->kernel, name) == 0;
}

/* True if a launch of a graph depends on this node, directly or not. */
static inline bool follows(const fake_launch *it, size_t node)
{
    for (int i = 0; i < it->after_count; i++)
        if (it->after[i] == node || follows(launch_at(it->after[i]), node))
            return true;
    return false;
}

static inline bool is_about_contexts(int call)
{
    return call == FAKE_CtxGetCurrent || call == FAKE_CtxPushCurrent ||
           call == FAKE_CtxPopCurrent;
}

/* Checks that all calls since `before` are of these kinds. */
static inline void check_calls(const int before[FAKE_CALLS], int one, int other)
{
    for (int call = 0; call < FAKE_CALLS; call++)
        require(call == one || call == other || is_about_contexts(call) ||
                    fake->count[call] == before[call],
                "%s is called %d times", fake_symbols[call],
                fake->count[call] - before[call]);
}

/* Checks that each of twenty runs makes nothing but launches, always equally
 * many and at least `least`, and that each of twenty replays is one graph
 * launch. Neither may allocate memory. */
static inline void count_calls(harness *r, int least)
{
    int before[FAKE_CALLS], launches = 0;

    atomic_store(&allocations, 0);
    for (int i = 0; i < 20; i++) {
        int launched = fake->launches;
        memcpy(before, fake->count, sizeof(before));
        atomic_store(&watching, 1);
        spc_status status = spc_net_plan_execute(r->plan, &r->buffers, NULL);
        atomic_store(&watching, 0);
        assert_ok(r->ctx, status);
        check_calls(before, FAKE_LaunchKernelEx, FAKE_MemsetD8Async);
        launches = i == 0 ? fake->launches - launched : launches;
        ck_assert_int_eq(fake->launches - launched, launches);
    }
    ck_assert_int_ge(launches, least);
    assert_ok(r->ctx, spc_net_plan_capture(r->plan, &r->buffers));
    ck_assert_int_eq(fake->live.graphs, 0);
    ck_assert_int_eq(fake->live.graph_execs, 1);
    for (int i = 0; i < 20; i++) {
        memcpy(before, fake->count, sizeof(before));
        atomic_store(&watching, 1);
        spc_status status = spc_net_plan_replay(r->plan, NULL);
        atomic_store(&watching, 0);
        assert_ok(r->ctx, status);
        check_calls(before, FAKE_GraphLaunch, -1);
        ck_assert_int_eq(fake->count[FAKE_GraphLaunch],
                         before[FAKE_GraphLaunch] + 1);
    }
    ck_assert_int_eq(atomic_load(&allocations), 0);
}

#endif
