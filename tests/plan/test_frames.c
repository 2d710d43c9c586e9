/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_frames.c - the second frame: sets and maps are filled again for every
 * frame, and layers run on them.
 *
 * A fake driver counts the driver calls of a frame (fake_cuda.c; ctest sets
 * LD_LIBRARY_PATH for it). Results are compared on "cpu" and "sim" with small
 * frames, or on the device given as argument with frames as large as real
 * scans.
 */
#include "harness/fake_driver.h"
#include "spc/lab.h"
#include "spc/tune.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/random.h"
#include "harness/counted_allocations.h"
#include "harness/map_harness.h"
#include "plan/plan.h"
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

enum { LEAST = 10803, MOST = 135306, CAPACITY = 150000, LAYERS = 3 };
enum { CHANNELS = 16, SMALL = 200 };

/* ---- a network of three layers on two levels ----------------------------- */

/* The layers stay on the fine level, go down to the coarse one, and back up. */
static const char *const words[LAYERS] = {
    "subm,cin=16,cout=16,k=3,dtype=f32",
    "conv,cin=16,cout=16,k=3,stride=2,padding=1,rule=footprint,dtype=f32",
    "inverse,cin=16,cout=16,k=3,stride=2,padding=1,rule=footprint,dtype=f32",
};

typedef struct network {
    spc_ctx *ctx;
    int capacity;
    spc_conv layers[LAYERS];
    spc_coords *fine, *coarse;
    spc_map *maps[LAYERS];
    spc_plan *plans[LAYERS];
    spc_buffers
        buffers[LAYERS];     /* the output of one is the input of the next */
    float *weights[LAYERS];  /* in host memory */
    int32_t *coords, *count; /* rows of the frame, in device memory */
    float *in;
    void *memory[20]; /* all device memory */
    int pieces;
} network;

static void *memory(network *n, size_t bytes)
{
    void *out;

    ck_assert_int_lt(n->pieces, 20);
    assert_ok(n->ctx, spc_memory_alloc(&out, n->ctx, bytes + 16));
    return n->memory[n->pieces++] = out;
}

static void open_context(network *n, const char *device, const char *database)
{
    spc_ctx_options options = SPC_CTX_OPTIONS_INIT;
    spc_error error = {0};

    options.device = device;
    options.database = database;
    options.threads = 2;
    ck_assert_msg(spc_ctx_create(&n->ctx, &options, &error) == SPC_OK, "%s",
                  error.text);
}

/* The extent is 80 m at 5 cm. The coarse level has capacity for scans, but not
 * for voxels with eight separate outputs each. */
static void reserve(network *n, int capacity)
{
    spc_coords_options set = {.bytes = sizeof(spc_coords_options),
                              .capacity = capacity,
                              .low = {0, -1600, -1600, -100},
                              .high = {0, 1600, 1600, 100}};

    n->capacity = capacity;
    for (int i = 0; i < LAYERS; i++)
        assert_ok(n->ctx, spc_conv_parse(&n->layers[i], words[i], NULL));
    assert_ok(n->ctx, spc_coords_create_reserved(&n->fine, n->ctx, &set));
    assert_ok(n->ctx, spc_coords_create_outputs_reserved(
                          &n->coarse, n->fine, &n->layers[1].geometry,
                          4 * (int64_t)capacity));
    assert_ok(n->ctx, spc_map_create(&n->maps[0], n->fine, n->fine,
                                     &n->layers[0].geometry));
    assert_ok(n->ctx, spc_map_create(&n->maps[1], n->fine, n->coarse,
                                     &n->layers[1].geometry));
    assert_ok(n->ctx, spc_map_create_inverse(&n->maps[2], n->coarse, n->fine,
                                             &n->layers[2].geometry));
    n->coords = memory(n, 16 * (size_t)capacity);
    n->count = memory(n, 4);
    n->in = memory(n, 4 * CHANNELS * (size_t)capacity);
}

/* Values are -1, 0 and 1, so results are integers that fp32 holds exactly. */
static float *draw_values(size_t count, uint64_t seed)
{
    float *values = malloc(4 * count + 4);
    spc__random random;

    spc__random_init(&random, seed);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)spc__random_below(&random, 3) - 1;
    return values;
}

static void make_plan(network *n, int i)
{
    size_t bytes =
        spc_conv_operand_bytes(&n->layers[i], SPC_OPERAND_WEIGHTS, 0);
    int64_t rows = spc_coords_capacity(spc_map_out(n->maps[i]));
    spc_buffers *b = &n->buffers[i];
    void *canonical = memory(n, bytes);

    n->weights[i] = draw_values(bytes / 4, (uint64_t)i + 1);
    assert_ok(n->ctx,
              spc_memory_upload(canonical, n->ctx, n->weights[i], bytes));
    assert_ok(n->ctx, spc_map_check(n->maps[i], NULL));
    assert_ok(n->ctx, spc_plan_create(&n->plans[i], n->ctx, &n->layers[i],
                                      n->maps[i], SPC_PLAN_JIT));
    void *packed = memory(n, spc_plan_weights_bytes(n->plans[i]));
    assert_ok(n->ctx,
              spc_plan_pack(packed, n->plans[i], canonical, SPC_KRSC, NULL));
    b->bytes = sizeof(*b);
    b->in = i == 0 ? n->in : n->buffers[i - 1].out;
    b->out =
        memory(n, spc_conv_operand_bytes(&n->layers[i], SPC_OPERAND_OUT, rows));
    b->weights = packed;
    b->workspace = memory(n, spc_plan_workspace_bytes(n->plans[i], n->maps[i]));
}

static spc_status update(network *n, void *stream)
{
    spc_status status =
        spc_map_update(n->maps[0], n->coords, n->count, 0, stream);

    if (status == SPC_OK)
        status = spc_coords_update(n->coarse, NULL, NULL, 0, stream);
    if (status == SPC_OK)
        status = spc_map_update(n->maps[1], NULL, NULL, 0, stream);
    if (status == SPC_OK)
        status = spc_map_update(n->maps[2], NULL, NULL, 0, stream);
    return status;
}

static spc_status execute(network *n, void *stream)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < LAYERS && status == SPC_OK; i++)
        status =
            spc_plan_execute(n->plans[i], n->maps[i], &n->buffers[i], stream);
    return status;
}

static void close_network(network *n)
{
    for (int i = 0; i < LAYERS; i++) {
        spc_plan_free(n->plans[i]);
        spc_map_free(n->maps[i]);
        free(n->weights[i]);
    }
    spc_coords_free(n->coarse);
    spc_coords_free(n->fine);
    for (int i = 0; i < n->pieces; i++)
        spc_memory_free(n->ctx, n->memory[i]);
    spc_ctx_free(n->ctx);
}

/* ---- driver calls of a frame --------------------------------------------- */

static const int *nvrtc_compiles;
static spc__cuda api; /* the driver as a host application sees it */

static void open_doubles(void)
{
    void *nvrtc = dlopen(SPC_TEST_NVRTC, RTLD_NOW);
    spc_error error = {0};

    ck_assert_msg(nvrtc != NULL, "%s", dlerror());
    nvrtc_compiles = dlsym(nvrtc, "fake_nvrtc_compiles");
    ck_assert_ptr_nonnull(nvrtc_compiles);
    load_fake_driver();
    ck_assert_msg(spc__cuda_open(&api, &error) == SPC_OK, "%s", error.text);
}

/* A network on the fake driver, ready for its second frame. The fake kernels do
 * nothing, and device memory is host memory, so callers copy by assignment. */
static void open_on_double(network *n)
{
    memset(n, 0, sizeof(*n));
    open_doubles();
    open_context(n, "cuda", "");
    reserve(n, CAPACITY);
    *n->count = LEAST;
    assert_ok(n->ctx, update(n, NULL));
    for (int i = 0; i < LAYERS; i++)
        make_plan(n, i);
    assert_ok(n->ctx, spc_ctx_synchronize(n->ctx));
}

/* Checks that only launches occurred, and queries of the current context. All
 * other driver calls allocate, wait, copy, load or create something. */
static bool may_be_called(int call)
{
    return call == FAKE_LaunchKernelEx || call == FAKE_MemsetD8Async ||
           call == FAKE_CtxGetCurrent || call == FAKE_CtxPushCurrent ||
           call == FAKE_CtxPopCurrent;
}

static void check_calls(const int before[FAKE_CALLS], int frame)
{
    for (int call = 0; call < FAKE_CALLS; call++)
        require(may_be_called(call) || fake->count[call] == before[call],
                "frame %d calls %s %d times", frame, fake_symbols[call],
                fake->count[call] - before[call]);
}

/* Checks the last launches: they are on the caller's stream, their size is
 * unchanged, and the kernel that builds the set reads the count from memory. */
static void check_launches(const network *n, int launches, CUstream stream)
{
    int builds = 0;

    ck_assert_int_le(launches, FAKE_LAUNCHES);
    for (int i = fake->launches - launches; i < fake->launches; i++) {
        const fake_launch *it = &fake->launch[i % FAKE_LAUNCHES];
        const spc_index_args *index = &it->args.index;
        require(it->stream == stream, "a launch of %s on another stream",
                it->kernel);
        require(it->unwaited == 0, "%s does not wait for what it needs",
                it->kernel);
        if (strcmp(it->kernel, "spc_index") == 0 &&
            index->coords == n->coords) {
            require(index->source == n->count, "the count is no device's");
            builds++;
        }
    }
    ck_assert_int_eq(builds, 1);
}

START_TEST(a_thousand_frames_are_nothing_but_launches)
{
    int before[FAKE_CALLS], launches = 0;
    spc__random random;
    CUcontext context;
    CUstream stream;
    network n;

    open_on_double(&n);
    ck_assert_int_eq(api.DevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ck_assert_int_eq(api.CtxPushCurrent(context), CUDA_SUCCESS);
    ck_assert_int_eq(api.StreamCreate(&stream, 1), CUDA_SUCCESS);
    spc_stats stats = spc_ctx_stats(n.ctx);
    int compiled = *nvrtc_compiles;
    ck_assert_int_gt(compiled, 0);
    spc__random_init(&random, 1);
    atomic_store(&allocations, 0);
    for (int f = 0; f < 1000; f++) {
        *n.count = LEAST + (int)spc__random_below(&random, MOST - LEAST + 1);
        int launched = fake->launches;
        memcpy(before, fake->count, sizeof(before));
        atomic_store(&watching, 1);
        spc_status updated = update(&n, stream);
        spc_status executed = execute(&n, stream);
        atomic_store(&watching, 0);
        assert_ok(n.ctx, updated);
        assert_ok(n.ctx, executed);
        check_calls(before, f);
        if (f == 0)
            launches = fake->launches - launched;
        ck_assert_int_eq(fake->launches - launched, launches);
        check_launches(&n, launches, stream);
    }
    ck_assert_int_eq(atomic_load(&allocations), 0);
    ck_assert_int_eq(*nvrtc_compiles, compiled);
    spc_stats after = spc_ctx_stats(n.ctx);
    ck_assert_mem_eq(&after, &stats, sizeof(stats));
    /* One set is built, one is derived and built. There are three maps and
     * three layers. */
    ck_assert_int_ge(launches, 8);
    api.StreamDestroy(stream);
    api.CtxPopCurrent(&context);
    close_network(&n);
    api.DevicePrimaryCtxRelease(0);
}
END_TEST

/* The first layer runs by pairs of offsets, but by tiles near the middle of its
 * kernel. */
static void go_by_pairs(network *n)
{
    spc_map *map = n->maps[0];
    spc__attrs problem, config = {0};
    spc__code code;

    spc__conv_attrs(&problem, &n->layers[0]);
    ck_assert_int_eq(spc__attrs_parse(&config,
                                      "m=2,n=32,pieces=1,stages=2,weights=stay,"
                                      "join=places,near=2",
                                      NULL),
                     SPC_OK);
    spc_plan_free(n->plans[0]);
    assert_ok(n->ctx, spc__ctx_code(&code, n->ctx, "pairs_mma", &problem,
                                    &config, SPC_PLAN_JIT));
    assert_ok(n->ctx, spc__plan_create_from(&n->plans[0], n->ctx, &n->layers[0],
                                            &code, "pairs_mma", ""));
    assert_ok(n->ctx, spc_map_prepare(map, n->plans[0], NULL));
    n->buffers[0].weights = memory(n, spc_plan_weights_bytes(n->plans[0]));
    n->buffers[0].workspace =
        memory(n, spc_plan_workspace_bytes(n->plans[0], map));
    assert_ok(n->ctx, spc_ctx_synchronize(n->ctx));
}

static int count_kernels(const char *name, int launches)
{
    int count = 0;

    for (int i = fake->launches - launches; i < fake->launches; i++)
        count += strcmp(fake->launch[i % FAKE_LAUNCHES].kernel, name) == 0;
    return count;
}

START_TEST(frames_by_pairs_are_nothing_but_launches)
{
    int before[FAKE_CALLS];
    CUcontext context;
    CUstream stream;
    network n;

    open_on_double(&n);
    go_by_pairs(&n);
    ck_assert_int_eq(api.DevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ck_assert_int_eq(api.CtxPushCurrent(context), CUDA_SUCCESS);
    ck_assert_int_eq(api.StreamCreate(&stream, 1), CUDA_SUCCESS);
    atomic_store(&allocations, 0);
    for (int f = 0; f < 10; f++) {
        *n.count = LEAST + 1000 * f;
        int launched = fake->launches;
        memcpy(before, fake->count, sizeof(before));
        atomic_store(&watching, 1);
        spc_status updated = update(&n, stream);
        spc_status executed = execute(&n, stream);
        atomic_store(&watching, 0);
        assert_ok(n.ctx, updated);
        assert_ok(n.ctx, executed);
        check_calls(before, f);
        launched = fake->launches - launched;
        check_launches(&n, launched, stream);
        ck_assert_int_eq(count_kernels("spc_pairs", launched), 1);
        ck_assert_int_eq(count_kernels("spc_sum", launched), 1);
    }
    ck_assert_int_eq(atomic_load(&allocations), 0);
    api.StreamDestroy(stream);
    api.CtxPopCurrent(&context);
    close_network(&n);
    api.DevicePrimaryCtxRelease(0);
}
END_TEST

/* The same calls invalidate a capture of the fake driver and of the real
 * one. */
START_TEST(a_frame_can_be_captured_into_a_graph)
{
    CUcontext context;
    CUstream stream;
    CUgraph graph;
    network n;

    open_on_double(&n);
    ck_assert_int_eq(api.DevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ck_assert_int_eq(api.CtxPushCurrent(context), CUDA_SUCCESS);
    ck_assert_int_eq(api.StreamCreate(&stream, 1), CUDA_SUCCESS);
    ck_assert_int_eq(api.StreamBeginCapture(stream, 0), CUDA_SUCCESS);
    assert_ok(n.ctx, update(&n, stream));
    assert_ok(n.ctx, execute(&n, stream));
    ck_assert_int_eq(api.StreamEndCapture(stream, &graph), CUDA_SUCCESS);
    api.GraphDestroy(graph);
    api.StreamDestroy(stream);
    api.CtxPopCurrent(&context);
    close_network(&n);
    api.DevicePrimaryCtxRelease(0);
}
END_TEST

/* Checking two sets and a map makes three copies, into the memory that the
 * first check allocated. */
START_TEST(a_check_waits_once)
{
    int before[FAKE_CALLS];
    network n;

    open_on_double(&n);
    assert_ok(n.ctx, spc_map_check(n.maps[1], NULL));
    memcpy(before, fake->count, sizeof(before));
    assert_ok(n.ctx, spc_map_check(n.maps[1], NULL));
    ck_assert_int_eq(fake->count[FAKE_StreamSynchronize] -
                         before[FAKE_StreamSynchronize],
                     1);
    ck_assert_int_eq(
        fake->count[FAKE_MemcpyDtoHAsync] - before[FAKE_MemcpyDtoHAsync], 3);
    ck_assert_int_eq(fake->count[FAKE_MemHostAlloc] - before[FAKE_MemHostAlloc],
                     0);
    close_network(&n);
}
END_TEST

/* Runs in a second thread, which checks a map while the first one waits. */
static struct {
    const spc_map *map;
    pthread_t thread;
    sem_t done;
    bool ended_in_time; /* only the first thread writes it */
} second;

static void *check_second(void *nothing)
{
    (void)nothing;
    fake->on_wait = NULL;
    spc_status status = spc_map_check(second.map, NULL);
    sem_post(&second.done);
    return (void *)(intptr_t)status;
}

static void start_second(void)
{
    struct timespec end;

    if (pthread_create(&second.thread, NULL, check_second, NULL) != 0)
        abort();
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20;
    second.ended_in_time = sem_timedwait(&second.done, &end) == 0;
}

/* One stream may have long work enqueued while another thread's stream is
 * idle. */
START_TEST(checks_of_two_threads_do_not_wait_for_each_other)
{
    void *status;
    network n;

    open_on_double(&n);
    second.map = n.maps[0];
    ck_assert_int_eq(sem_init(&second.done, 0, 0), 0);
    fake->on_wait = start_second;
    assert_ok(n.ctx, spc_map_check(n.maps[1], NULL));
    ck_assert_int_eq(pthread_join(second.thread, &status), 0);
    ck_assert_ptr_null(status);
    ck_assert(second.ended_in_time);
    sem_destroy(&second.done);
    close_network(&n);
    ck_assert_int_eq(fake->live.memory, 0);
}
END_TEST

static void build_far_away(const char *database, const spc_conv *layer)
{
    spc_tune_options tune = SPC_TUNE_OPTIONS_INIT;
    network n = {0};

    tune.stage = SPC_STAGE_BUILD;
    tune.effort = SPC_EFFORT_QUICK;
    tune.target = "sm_90a";
    open_context(&n, "cpu", database);
    assert_ok(n.ctx, spc_tune(NULL, n.ctx, layer, NULL, 0, &tune));
    close_network(&n);
}

/* Widths of the keys of inputs and outputs: both narrow, inputs wide, both
 * wide. */
static const char *const extents[] = {
    "gen:uniform,n=500,extent=16",
    "gen:uniform,n=500,extent=2000",
    "gen:uniform,n=500,extent=100000",
};

START_TEST(maps_of_any_extent_need_no_compiler_after_a_build)
{
    spc__buf path = SPC__BUF_INIT;
    spc_error error = {0};
    network n = {0};
    spc_scene *scene;
    spc_map *map;

    open_doubles();
    assert_ok(NULL, spc__temp_dir_create(&path, &error));
    char *folder = spc__buf_detach(&path);
    spc__buf_printf(&path, "%s/far.db", folder);
    assert_ok(NULL, spc_conv_parse(&n.layers[0], words[_i], &error));
    build_far_away(spc__buf_text(&path), &n.layers[0]);
    open_context(&n, "cuda", spc__buf_text(&path));
    for (int i = 0; i < 3; i++) {
        assert_ok(NULL, spc_scene_load(&scene, extents[i], &error));
        assert_ok(n.ctx,
                  spc_map_create_from_scene(&map, n.ctx, &n.layers[0], scene));
        spc_map_free(map);
        spc_scene_free(scene);
    }
    ck_assert_int_eq(spc_ctx_stats(n.ctx).compiles, 0);
    ck_assert_int_ge(spc_ctx_stats(n.ctx).artefacts_loaded, 2);
    close_network(&n);
    spc__temp_dir_remove(folder);
    free(folder);
    spc__buf_release(&path);
}
END_TEST

/* ---- results of frames --------------------------------------------------- */

static const char *device_of(int loop)
{
    return suite_device ? suite_device : loop == 0 ? "cpu" : "sim";
}

/* Frames on the host are smaller by this factor. */
static int scale(void)
{
    bool is_gpu = suite_device && strncmp(suite_device, "cuda", 4) == 0;

    return is_gpu ? 1 : SMALL;
}

static spc_scene *load_scan(void)
{
    spc_error error = {0};
    spc_scene *scan;

    ck_assert_msg(spc_scene_load(&scan, "gen:lidar,beams=128@0.05", &error) ==
                      SPC_OK,
                  "%s", error.text);
    ck_assert_int_ge(spc_scene_rows(scan), CAPACITY);
    return scan;
}

/* Fills a frame with adjacent rows of the scan. */
static spc_scene *frame_of(const spc_scene *scan, int first, int count)
{
    spc_scene *frame;

    ck_assert_int_le(first + count, spc_scene_rows(scan));
    ck_assert_int_eq(spc_scene_create(&frame,
                                      spc_scene_coords(scan) + 4 * first, count,
                                      "a frame", NULL),
                     SPC_OK);
    return frame;
}

static void upload(network *n, const int32_t *coords, int rows, int count)
{
    assert_ok(n->ctx,
              spc_memory_upload(n->coords, n->ctx, coords, 16 * (size_t)rows));
    assert_ok(n->ctx, spc_memory_upload(n->count, n->ctx, &count, 4));
}

static void upload_frame(network *n, const spc_scene *frame)
{
    int rows = (int)spc_scene_rows(frame);

    upload(n, spc_scene_coords(frame), rows, rows);
}

static void open_network(network *n, const char *device, const spc_scene *scan)
{
    spc_scene *first = frame_of(scan, 0, LEAST / scale());

    memset(n, 0, sizeof(*n));
    open_context(n, device, "");
    reserve(n, CAPACITY / scale());
    size_t values = CHANNELS * (size_t)n->capacity;
    float *in = draw_values(values, 9);
    assert_ok(n->ctx, spc_memory_upload(n->in, n->ctx, in, 4 * values));
    free(in);
    upload_frame(n, first);
    assert_ok(n->ctx, update(n, NULL));
    for (int i = 0; i < LAYERS; i++)
        make_plan(n, i);
    spc_scene_free(first);
}

/* Overwrites results, so that an earlier frame's do not pass for this
 * frame's. */
static void poison(network *n)
{
    for (int i = 0; i < LAYERS; i++) {
        int64_t rows = spc_coords_capacity(spc_map_out(n->maps[i]));
        size_t bytes =
            spc_conv_operand_bytes(&n->layers[i], SPC_OPERAND_OUT, rows);
        void *nonsense = malloc(bytes);
        memset(nonsense, 0xff, bytes);
        assert_ok(n->ctx, spc_memory_upload(n->buffers[i].out, n->ctx, nonsense,
                                            bytes));
        free(nonsense);
    }
}

/* Checks that the map's index, without its padding, equals the relation's. */
static void check_index(network *n, int i, const spc_relation *want)
{
    size_t capacity = (size_t)spc_coords_capacity(spc_map_out(n->maps[i]));
    size_t rows = (size_t)want->rows_out;
    int32_t *index = malloc(4 * capacity * (size_t)want->offsets);

    ck_assert_int_eq(spc_map_rows_out(n->maps[i]), want->rows_out);
    ck_assert_int_eq(spc_map_pairs(n->maps[i]), want->pairs);
    assert_ok(n->ctx, spc_map_download(index, n->maps[i]));
    for (size_t k = 0; k < (size_t)want->offsets; k++)
        require(
            memcmp(index + k * capacity, want->index + k * rows, 4 * rows) == 0,
            "layer %d: the map differs at offset %d", i, (int)k);
    free(index);
}

/* Checks the layer's result from these inputs; returns it as input of the
 * next. */
static float *check_output(network *n, int i, const spc_relation *relation,
                           const float *in)
{
    size_t count = CHANNELS * (size_t)relation->rows_out;
    double *want = malloc(8 * count + 8), *magnitude = malloc(8 * count + 8);
    float *got = fetch(n->ctx, n->buffers[i].out, count);

    spc_oracle_sums(want, magnitude, &n->layers[i], relation->index,
                    relation->rows_out, in, n->weights[i], NULL, 0);
    for (size_t j = 0; j < count; j++) {
        require(magnitude[j] < 1 << 24, "fp32 may round this");
        require((double)got[j] == want[j],
                "layer %d, row %d, channel %d: %g, not %g", i,
                (int)(j / CHANNELS), (int)(j % CHANNELS), (double)got[j],
                want[j]);
    }
    free(want);
    free(magnitude);
    return got;
}

/* Runs a frame like a vehicle, and reads results only at the end. */
static void check_frame(network *n, const spc_scene *frame, uint64_t seed)
{
    size_t values = CHANNELS * (size_t)spc_scene_rows(frame);
    float *in = draw_values(values, seed);
    spc_relation relation;

    upload_frame(n, frame);
    assert_ok(n->ctx, spc_memory_upload(n->in, n->ctx, in, 4 * values));
    poison(n);
    assert_ok(n->ctx, update(n, NULL));
    assert_ok(n->ctx, execute(n, NULL));
    for (int i = 0; i < LAYERS; i++) {
        assert_ok(n->ctx, spc_map_check(n->maps[i], NULL));
        ck_assert_int_eq(
            spc_oracle_relation(&relation, &n->layers[i], frame, 0, NULL),
            SPC_OK);
        check_index(n, i, &relation);
        float *out = check_output(n, i, &relation, in);
        free(in);
        in = out;
        spc_relation_release(&relation);
    }
    free(in);
}

START_TEST(frames_of_differing_sizes_come_out_as_the_oracle_says)
{
    static const int sizes[] = {LEAST, MOST, 45678, 0, MOST, 20000};
    spc_scene *scan = load_scan();
    network n;

    open_network(&n, device_of(_i), scan);
    spc_stats stats = spc_ctx_stats(n.ctx);
    for (int f = 0; f < 6; f++) {
        spc_scene *frame = frame_of(scan, 3000 * f, sizes[f] / scale());
        check_frame(&n, frame, (uint64_t)f);
        spc_scene_free(frame);
    }
    ck_assert_int_eq(spc_ctx_stats(n.ctx).compiles, stats.compiles);
    close_network(&n);
    spc_scene_free(scan);
}
END_TEST

/* ---- bad frames ---------------------------------------------------------- */

/* Makes a frame of `capacity` rows invalid. Returns the count to use. */
typedef int spoiler(int32_t (*rows)[4], int capacity);

static int leave_extent(int32_t (*rows)[4], int capacity)
{
    rows[7][2] = 1601;
    rows[9][3] = INT32_MIN;
    return capacity;
}

static int repeat_rows(int32_t (*rows)[4], int capacity)
{
    memcpy(rows[7], rows[3], 16);
    memcpy(rows[9], rows[3], 16);
    return capacity;
}

static int exceed_capacity(int32_t (*rows)[4], int capacity)
{
    return capacity + 5;
}

static int count_below_zero(int32_t (*rows)[4], int capacity)
{
    return -1;
}

/* Makes all coordinates odd and without neighbours: they have more outputs than
 * the coarse level's capacity. */
static int scatter(int32_t (*rows)[4], int capacity)
{
    for (int i = 0; i < capacity; i++) {
        rows[i][1] = -1599 + 4 * (i % 700);
        rows[i][2] = -1599 + 4 * (i / 700);
        rows[i][3] = 1;
    }
    return capacity;
}

/* Counts rows of the fine level whose output was not written. */
typedef enum unwritten { NO_ROW, ROWS_7_AND_9, EVERY_ROW } unwritten;

static const struct {
    spoiler *spoil;
    spc_status fine, coarse;
    const char *says;
    unwritten rows;
} bad[] = {
    {leave_extent, SPC_ERANGE, SPC_OK, "row 7: its y is outside", ROWS_7_AND_9},
    {repeat_rows, SPC_EDUPLICATE, SPC_OK, "2 rows with the coordinate of an",
     ROWS_7_AND_9},
    {exceed_capacity, SPC_ECAPACITY, SPC_OK, "would have fitted", EVERY_ROW},
    {count_below_zero, SPC_ECAPACITY, SPC_OK, "the set holds none", EVERY_ROW},
    {scatter, SPC_OK, SPC_ECAPACITY, "would have fitted", NO_ROW},
};

/* the poison is NaN */
static void check_written(network *n, unwritten rows)
{
    float *got =
        fetch(n->ctx, n->buffers[0].out, CHANNELS * (size_t)n->capacity);

    for (int i = 0; i < n->capacity; i++) {
        bool is_left =
            rows == EVERY_ROW || (rows == ROWS_7_AND_9 && (i == 7 || i == 9));
        for (int c = 0; c < CHANNELS; c++)
            require(isnan(got[CHANNELS * i + c]) == is_left,
                    "row %d, channel %d: %g", i, c,
                    (double)got[CHANNELS * i + c]);
    }
    free(got);
}

enum { BAD = sizeof(bad) / sizeof(bad[0]) };

/* Runs a bad frame to its end and reads the statuses after it. */
static void run_bad(network *n, int kind, const spc_scene *scan)
{
    size_t bytes = 16 * (size_t)n->capacity;
    int32_t(*rows)[4] = malloc(bytes);

    memcpy(rows, spc_scene_coords(scan), bytes);
    int count = bad[kind].spoil(rows, n->capacity);
    upload(n, &rows[0][0], n->capacity, count);
    poison(n);
    assert_ok(n->ctx, update(n, NULL));
    assert_ok(n->ctx, execute(n, NULL));
    assert_ok(n->ctx, spc_ctx_synchronize(n->ctx));
    check_written(n, bad[kind].rows);
    ck_assert_int_eq(spc_coords_check(n->coarse, NULL), bad[kind].coarse);
    if (bad[kind].coarse == SPC_OK)
        ck_assert_int_eq(spc_coords_check(n->fine, NULL), bad[kind].fine);
    ck_assert_msg(strstr(spc_ctx_error(n->ctx), bad[kind].says) != NULL, "%s",
                  spc_ctx_error(n->ctx));
    free(rows);
}

START_TEST(a_bad_frame_is_reported_and_does_not_harm_the_next)
{
    spc_scene *scan = load_scan();
    spc_scene *good = frame_of(scan, 500, 50000 / scale());
    network n;

    open_network(&n, device_of(_i), scan);
    for (int kind = 0; kind < BAD; kind++) {
        run_bad(&n, kind, scan);
        check_frame(&n, good, 7);
    }
    close_network(&n);
    spc_scene_free(good);
    spc_scene_free(scan);
}
END_TEST

static TCase *add(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 120);
    suite_add_tcase(suite, tc);
    return tc;
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    Suite *suite = suite_create("frames");
    int devices = suite_device ? 1 : 2;
    if (!suite_device) {
        TCase *tc = add(suite, "driver");
        tcase_add_test(tc, a_thousand_frames_are_nothing_but_launches);
        tcase_add_test(tc, frames_by_pairs_are_nothing_but_launches);
        tcase_add_test(tc, a_frame_can_be_captured_into_a_graph);
        tcase_add_test(tc, a_check_waits_once);
        tcase_add_test(tc, checks_of_two_threads_do_not_wait_for_each_other);
        tcase_add_loop_test(
            tc, maps_of_any_extent_need_no_compiler_after_a_build, 0, LAYERS);
    }
    tcase_add_loop_test(add(suite, "results"),
                        frames_of_differing_sizes_come_out_as_the_oracle_says,
                        0, devices);
    tcase_add_loop_test(add(suite, "trouble"),
                        a_bad_frame_is_reported_and_does_not_harm_the_next, 0,
                        devices);
    return run_suite(suite);
}
