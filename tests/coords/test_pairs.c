/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pairs.c - dataflows on pairs by offset, hybrids of pairs and tiles, and
 * the explicit GEMM. Checks their results, that they repeat bit by bit where
 * promised, and the layouts that they need.
 *
 *     test_pairs [sim|cuda|nvrtc]
 *
 * "nvrtc" checks that they compile for GPUs that are not installed, without
 * spills.
 */
#include "base/random.h"
#include "compiler/template.h"
#include "coords/map.h"
#include "harness/layer_harness.h"
#include "harness/suite.h"
#include "plan/plan.h"
#include "spc/tune.h"
#include "device/targets.h"

#include <stdio.h>

static const char *device(void)
{
    return suite_device ? suite_device : "sim";
}

/* True if case `i` runs. If kernels take long to compile, only one case in `of`
 * does. */
static bool takes(int i, int of)
{
    return suite_one_in == 1 || (i + suite_variant()) % of == 0;
}

/* ---- a plan of a given candidate ---------------------------------------- */

/* The template's default with some parameters changed. */
static spc__attrs config_of(spc__template *tpl, const spc__attrs *problem,
                            const spc__attrs *target, const char *values)
{
    spc__attrs config, changes = {0};
    spc_error error = {0};

    assert_ok(spc__template_default(&config, tpl, problem, target, &error),
              error.text);
    if (values[0] != '\0')
        assert_ok(spc__attrs_parse(&changes, values, &error), error.text);
    for (int i = 0; i < changes.count; i++) {
        const spc__attr *at = &changes.at[i];
        if (at->is_number)
            spc__attrs_set_number(&config, at->name, at->number);
        else
            spc__attrs_set_text(&config, at->name, at->text);
    }
    ck_assert_msg(spc__template_check(tpl, problem, target, &config, &error) ==
                      SPC_OK,
                  "%s: %s", values, error.text);
    return config;
}

static spc_plan *plan_of(spc_ctx *ctx, const spc_conv *conv, const char *name,
                         const char *values)
{
    spc__library *library;
    spc__attrs problem;
    spc_plan *plan;
    spc__code code;

    spc__conv_attrs(&problem, conv);
    assert_ok(spc__ctx_library(&library, ctx), spc_ctx_error(ctx));
    spc__attrs config = config_of(spc__library_find(library, name), &problem,
                                  &ctx->target, values);
    assert_ok(spc__ctx_code(&code, ctx, name, &problem, &config, SPC_PLAN_JIT),
              spc_ctx_error(ctx));
    assert_ok(spc__plan_create_from(&plan, ctx, conv, &code, name, values),
              spc_ctx_error(ctx));
    return plan;
}

/* A layer on a scene, with the gate's fixture for its samples. */
typedef struct bench {
    spc_ctx *ctx;
    spc_conv conv;
    spc_scene *scene;
    spc__sample sample;
    spc__fixture *fixture;
} bench;

static void bench_open(bench *b, const char *layer, const char *scene,
                       bool judges)
{
    spc__sample_options options = {7, judges, 2, NULL, 0};
    spc_error error = {0};

    memset(b, 0, sizeof(*b));
    b->ctx = open_ctx(device(), suite_database(), NULL);
    assert_ok(spc_conv_parse(&b->conv, layer, &error), error.text);
    assert_ok(spc_scene_load(&b->scene, scene, &error), error.text);
    spc__sample_source source = {.scene = b->scene};
    assert_ok(
        spc__sample_init(&b->sample, &b->conv, &source, 1, &options, &error),
        error.text);
    assert_ok(spc__fixture_create(&b->fixture, b->ctx, &b->sample),
              spc_ctx_error(b->ctx));
}

static void bench_close(bench *b)
{
    spc__fixture_free(b->fixture);
    spc__sample_release(&b->sample);
    spc_scene_free(b->scene);
    spc_ctx_free(b->ctx);
}

/* ---- results ------------------------------------------------------------ */

static const struct {
    const char *layer, *scene, *template_name, *values;
} cases[] = {
    /* Gather, multiply and scatter, by positions or by atomics. There are
     * several blocks of input and output channels, rows of 8 and 4 bytes, and
     * all types. */
    {"subm,cin=64,cout=64,k=3", "gen:uniform,n=200,extent=9", "pairs_mma", ""},
    {"subm,cin=128,cout=160,k=2,bias=1", "gen:uniform,n=150,extent=8",
     "pairs_mma", "weights=stream,pieces=1,n=96"},
    {"subm,cin=36,cout=41,k=3,dtype=bf16,epilogue=scale+bias+relu+add",
     "gen:uniform,n=150,extent=8", "pairs_mma", "stages=2"},
    {"subm,cin=18,cout=20,k=5", "gen:uniform,n=90,extent=7", "pairs_mma",
     "join=atomic"},
    {"subm,cin=24,cout=40,k=3,dtype=f32,bias=1", "gen:uniform,n=150,extent=8",
     "pairs_mma", "join=atomic"},
    {"subm,cin=16,cout=33,k=3,dtype=tf32,epilogue=bias+add+gelu",
     "gen:uniform,n=150,extent=8", "pairs_mma", "join=atomic,weights=stream"},
    /* Output rows that differ from the input rows, some without any pair. */
    {"conv,cin=32,cout=64,k=3,stride=2,padding=1,rule=footprint,dtype=bf16",
     "gen:uniform,n=200,extent=9", "pairs_mma", ""},
    {"inverse,cin=64,cout=32,k=2,stride=2,rule=floor,bias=1",
     "gen:uniform,n=200,extent=9", "pairs_mma", "join=atomic"},
    {"transposed,cin=16,cout=24,k=3,stride=2,dtype=f32",
     "gen:uniform,n=150,extent=9", "pairs_mma", ""},
    {"generative,cin=32,cout=16,k=2,stride=2", "gen:uniform,n=60,extent=7",
     "pairs_mma", "near=2"},
    {"conv,cin=32,cout=16,k=3,stride=2,rule=expand",
     "gen:uniform,n=60,extent=7", "pairs_mma", "near=2"},
    {"conv,cin=32,cout=16,k=3,stride=2,rule=expand,pass=dgrad",
     "gen:uniform,n=60,extent=7", "pairs_mma", ""},
    /* Hybrids of both kinds, masks of several words, slices. */
    {"subm,cin=64,cout=64,k=3,epilogue=scale+bias+relu",
     "gen:uniform,n=200,extent=9", "pairs_mma", "near=2"},
    {"subm,cin=64,cout=96,k=3,dtype=f32,bias=1", "gen:uniform,n=120,extent=8",
     "pairs_mma", "near=1,join=atomic,weights=stream"},
    {"subm,cin=36,cout=40,k=5,out_pitch=48,in_pitch=44",
     "gen:uniform,n=90,extent=7", "pairs_mma", "near=3"},
    {"conv,cin=128,cout=64,k=3,stride=2,padding=1,rule=footprint",
     "gen:uniform,n=150,extent=9", "pairs_mma", "near=2,pieces=1"},
    {"subm,cin=64,cout=64,k=3", "gen:uniform,n=200,extent=9", "pairs_mma",
     "near=4,weights=stream"},
    {"subm,cin=16,cout=24,k=5", "gen:uniform,n=90,extent=7", "pairs_mma",
     "near=5,join=atomic"},
    {"subm,cin=16,cout=24,k=5", "gen:uniform,n=90,extent=7", "pairs_mma",
     "near=6"},
    {"subm,cin=16,cout=16,k=7", "gen:uniform,n=60,extent=9", "pairs_mma",
     "near=8"},
    {"subm,cin=16,cout=16,k=7", "gen:uniform,n=60,extent=9", "pairs_mma",
     "near=9,join=atomic"},
    /* Rows of any length, some of which begin inside a word. */
    {"subm,cin=21,cout=41,k=3,epilogue=scale+bias+relu+add",
     "gen:uniform,n=150,extent=8", "explicit_mma", ""},
    {"subm,cin=96,cout=128,k=2,dtype=f32,bias=1", "gen:uniform,n=90,extent=7",
     "explicit_mma", "pieces=1,stages=2"},
    {"inverse,cin=32,cout=16,k=3,stride=2,padding=1,rule=footprint,dtype=tf32",
     "gen:uniform,n=150,extent=9", "explicit_mma", ""},
    /* A library multiplies; the epilogue is complete. */
    {"subm,cin=21,cout=41,k=3,epilogue=scale+bias+relu+add",
     "gen:uniform,n=150,extent=8", "explicit_library", ""},
    {"conv,cin=20,cout=24,k=3,stride=2,padding=1,rule=footprint,dtype=f32",
     "gen:uniform,n=150,extent=9", "explicit_library", ""},
    {"inverse,cin=64,cout=32,k=2,stride=2,rule=floor,dtype=bf16",
     "gen:uniform,n=200,extent=9", "explicit_library", ""},
};

START_TEST(every_dataflow_gives_what_the_oracle_gives)
{
    if (!suite_takes(_i))
        return;
    spc__tested tested = {0};
    spc__verdict verdict;
    bench b;

    bench_open(&b, cases[_i].layer, cases[_i].scene, true);
    if (strcmp(cases[_i].template_name, "explicit_library") == 0 &&
        !spc__device_has_gemm(b.ctx->device)) {
        bench_close(&b);
        skip_test("there is no library for products of matrices");
    }
    spc_plan *plan =
        plan_of(b.ctx, &b.conv, cases[_i].template_name, cases[_i].values);
    assert_ok(spc__gate_enter(&tested, b.fixture, plan), spc_ctx_error(b.ctx));
    spc__gate_verify(&verdict, b.fixture, &tested);
    ck_assert_msg(verdict.status == SPC__TRIAL_OK, "%s %s, %s: %s",
                  cases[_i].template_name, cases[_i].values, cases[_i].layer,
                  verdict.note);
    spc__gate_leave(&tested, b.fixture);
    spc_plan_free(plan);
    bench_close(&b);
}
END_TEST

/* ---- equal bits ---------------------------------------------------------- */

/* Returns the result of a candidate on the given scene. The caller frees it. */
static void *result_of(bench *b, const char *name, const char *values,
                       spc__dataset dataset, int poison, size_t *bytes)
{
    spc_plan *plan = plan_of(b->ctx, &b->conv, name, values);
    spc__guarded packed = {0};
    void *result;

    assert_ok(spc__fixture_prepare(b->fixture, plan), spc_ctx_error(b->ctx));
    assert_ok(spc__fixture_pack(b->fixture, &packed, plan, dataset),
              spc_ctx_error(b->ctx));
    assert_ok(spc__fixture_set(b->fixture, plan, 0), spc_ctx_error(b->ctx));
    assert_ok(spc__fixture_fill_out(b->fixture, poison), spc_ctx_error(b->ctx));
    if (b->fixture->workspace.bytes > 0)
        assert_ok(b->fixture->ops->fill(
                      b->ctx->device, b->fixture->workspace.data, poison,
                      b->fixture->workspace.bytes, NULL, spc__error_of(b->ctx)),
                  spc_ctx_error(b->ctx));
    assert_ok(
        spc__fixture_execute(b->fixture, plan, 0, dataset, packed.data, NULL),
        spc_ctx_error(b->ctx));
    assert_ok(spc__fixture_fetch(b->fixture), spc_ctx_error(b->ctx));
    *bytes = b->fixture->out.bytes;
    result = malloc(*bytes);
    memcpy(result, b->fixture->host, *bytes);
    spc__guarded_release(&b->fixture->guards, &packed, 1);
    spc_plan_free(plan);
    return result;
}

/* Hybrids from all offsets by pairs to all offsets by tiles. The latter equals
 * os_mma. */
static const char *const ends[] = {"near=0", "near=2", "near=4,weights=stream"};

START_TEST(a_hybrid_is_both_pure_dataflows_at_its_ends)
{
    size_t bytes, again;
    bench b;

    bench_open(&b, "subm,cin=32,cout=32,k=3,dtype=f32,bias=1",
               "gen:uniform,n=300,extent=9", true);
    char *want = result_of(&b, "os_mma", "", SPC__WIDE, 0x5a, &bytes);
    for (int i = 0; i < LENGTH(ends); i++) {
        char *got =
            result_of(&b, "pairs_mma", ends[i], SPC__WIDE, 0xff, &again);
        ck_assert_uint_eq(again, bytes);
        ck_assert_msg(memcmp(want, got, bytes) == 0, "%s differs", ends[i]);
        free(got);
    }
    free(want);
    bench_close(&b);
}
END_TEST

/* Real numbers, so that sums depend on their order. */
START_TEST(places_are_added_in_the_same_order_in_every_run)
{
    static const char *const values[] = {"", "near=2"};
    static const char *const schedules[] = {"forward", "random:3"};
    void *result[2];
    size_t bytes[2];

    if (!takes(_i, LENGTH(values)))
        return;
    for (int i = 0; i < 2; i++) {
        bench b;
        setenv("SPC_SIM_SCHEDULE", schedules[i], 1);
        setenv("SPC_SIM_ASYNC", i ? "eager" : "deferred", 1);
        bench_open(&b, "subm,cin=32,cout=32,k=3,dtype=tf32",
                   "gen:uniform,n=300,extent=9", false);
        result[i] = result_of(&b, "pairs_mma", values[_i], SPC__REAL,
                              i ? 0x5a : 0xff, &bytes[i]);
        bench_close(&b);
    }
    ck_assert_uint_eq(bytes[0], bytes[1]);
    ck_assert_mem_eq(result[0], result[1], bytes[0]);
    free(result[0]);
    free(result[1]);
}
END_TEST

static void note_atomics(const spc_trial *trial, void *payload)
{
    int *seen = payload;
    bool atomic = strstr(trial->config, "join=atomic") != NULL;

    if (strcmp(trial->status, "ok") == 0)
        seen[atomic]++;
    else if (atomic && strstr(trial->note, "order of arrival") != NULL)
        seen[2]++;
}

/* Searches must find these dataflows, and refuse the atomic ones if a layer
 * must be deterministic. */
START_TEST(a_deterministic_layer_takes_places_and_no_atomics)
{
    spc_tune_options options = SPC_TUNE_OPTIONS_INIT;
    spc_ctx *ctx = open_ctx(device(), "", NULL);
    int seen[3] = {0};
    spc_error error = {0};
    spc_conv conv;

    options.stage = SPC_STAGE_LIST;
    options.only = "pairs_mma";
    options.on_trial = note_atomics;
    options.payload = seen;
    assert_ok(spc_conv_parse(&conv, "subm,cin=32,cout=32,k=3,deterministic=1",
                             &error),
              error.text);
    assert_ok(spc_tune(NULL, ctx, &conv, NULL, 0, &options),
              spc_ctx_error(ctx));
    ck_assert_int_gt(seen[0] + seen[1], 0);
    ck_assert_int_eq(seen[1], 0);
    ck_assert_int_gt(seen[2], 0);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- maps ---------------------------------------------------------------- */

/* A known number of pairs bounds the workspace. If the map is filled again,
 * only its capacity does. */
START_TEST(the_workspace_holds_all_pairs_that_can_come)
{
    const size_t row = 32 * sizeof(float);
    bench b;

    bench_open(&b, "subm,cin=32,cout=32,k=3", "gen:uniform,n=300,extent=9",
               false);
    spc_map *map = b.fixture->maps[0];
    spc_plan *plan = plan_of(b.ctx, &b.conv, "pairs_mma", "");
    size_t most = row * 27 * (size_t)map->to->rows_padded;

    ck_assert_uint_eq(spc_plan_workspace_bytes(plan, map),
                      row * (size_t)spc_map_pairs(map));
    ck_assert_uint_lt(spc_plan_workspace_bytes(plan, map), most);
    assert_ok(spc_map_update(map, NULL, NULL, 0, NULL), spc_ctx_error(b.ctx));
    ck_assert_uint_eq(spc_plan_workspace_bytes(plan, map), most);
    assert_ok(spc_map_check(map, NULL), spc_ctx_error(b.ctx));
    ck_assert_uint_eq(spc_plan_workspace_bytes(plan, map), most);
    spc_plan_free(plan);
    bench_close(&b);
}
END_TEST

START_TEST(a_map_without_pairs_is_not_prepared)
{
    bench b;

    bench_open(&b, "subm,cin=32,cout=32,k=3", "gen:uniform,n=90,extent=7",
               false);
    spc_plan *plan = plan_of(b.ctx, &b.conv, "pairs_mma", "near=2");
    spc_buffers none = SPC_BUFFERS_INIT;

    assert_ok(spc__map_prepare(b.fixture->maps[0], "gray",
                               spc__plan_launch(plan)->tile_rows, NULL),
              spc_ctx_error(b.ctx));
    ck_assert_int_eq(spc_plan_execute(plan, b.fixture->maps[0], &none, NULL),
                     SPC_ESTATE);
    assert_says(spc_ctx_error(b.ctx), "not prepared");
    ck_assert_int_eq(spc__plan_relayout(plan, b.fixture->maps[0], NULL),
                     SPC_ESTATE);
    assert_says(spc_ctx_error(b.ctx), "pairs by offset were never prepared");
    assert_ok(spc_map_prepare(b.fixture->maps[0], plan, NULL),
              spc_ctx_error(b.ctx));
    assert_ok(spc__plan_relayout(plan, b.fixture->maps[0], NULL),
              spc_ctx_error(b.ctx));
    spc_plan_free(plan);
    bench_close(&b);
}
END_TEST

/* The call fails before a launch, so buffers may be missing. */
START_TEST(a_map_without_rows_has_nothing_to_run)
{
    static const char *const values[] = {"", "near=2", "join=atomic"};
    spc_ctx *ctx = open_ctx(device(), suite_database(), NULL);
    spc_scene *scene = NULL;
    spc_error error = {0};
    spc_conv conv;
    spc_map *map;

    assert_ok(
        spc_conv_parse(&conv, "subm,cin=32,cout=32,k=3,dtype=f32", &error),
        error.text);
    assert_ok(spc_scene_create(&scene, NULL, 0, "none", &error), error.text);
    assert_ok(spc_map_create_from_scene(&map, ctx, &conv, scene),
              spc_ctx_error(ctx));
    for (int i = 0; i < LENGTH(values); i++) {
        spc_plan *plan = plan_of(ctx, &conv, "pairs_mma", values[i]);
        assert_ok(spc_map_prepare(map, plan, NULL), spc_ctx_error(ctx));
        ck_assert_uint_eq(spc_plan_workspace_bytes(plan, map), 0);
        assert_ok(spc_plan_execute(plan, map, NULL, NULL), spc_ctx_error(ctx));
        spc_plan_free(plan);
    }
    spc_map_free(map);
    spc_scene_free(scene);
    spc_ctx_free(ctx);
}
END_TEST

/* ---- frames -------------------------------------------------------------- */

enum { CAPACITY = 400, CHANNELS = 32 };

/* A set and a map with spare capacity; inputs are integers. */
typedef struct frames {
    spc_ctx *ctx;
    spc_conv conv;
    spc_coords *set;
    spc_map *map;
    int32_t *coords;
    void *in, *weights, *memory[8];
    int pieces;
} frames;

static void *memory(frames *f, size_t bytes)
{
    void *out;

    ck_assert_int_lt(f->pieces, LENGTH(f->memory));
    assert_ok(spc_memory_alloc(&out, f->ctx, bytes + 16),
              spc_ctx_error(f->ctx));
    return f->memory[f->pieces++] = out;
}

static void *drawn(frames *f, size_t count)
{
    float *values = malloc(4 * count);
    void *out = memory(f, 4 * count);
    spc__random random;

    spc__random_init(&random, count);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)spc__random_below(&random, 5) - 2;
    assert_ok(spc_memory_upload(out, f->ctx, values, 4 * count),
              spc_ctx_error(f->ctx));
    free(values);
    return out;
}

static void frames_open(frames *f)
{
    spc_coords_options options = SPC_COORDS_OPTIONS_INIT;
    spc_error error = {0};

    memset(f, 0, sizeof(*f));
    f->ctx = open_ctx(device(), suite_database(), NULL);
    assert_ok(
        spc_conv_parse(&f->conv, "subm,cin=32,cout=32,k=3,dtype=f32", &error),
        error.text);
    options.capacity = CAPACITY;
    options.high[1] = options.high[2] = options.high[3] = 9;
    assert_ok(spc_coords_create_reserved(&f->set, f->ctx, &options),
              spc_ctx_error(f->ctx));
    assert_ok(spc_map_create(&f->map, f->set, f->set, &f->conv.geometry),
              spc_ctx_error(f->ctx));
    f->coords = memory(f, 16 * CAPACITY);
    f->in = drawn(f, CAPACITY * CHANNELS);
    f->weights = drawn(f, 27 * CHANNELS * CHANNELS);
}

/* The first `rows` cells of a grid with holes. */
static void next_frame(frames *f, int rows)
{
    int32_t host[CAPACITY][4] = {0};

    for (int i = 0, cell = 0; i < rows; i++, cell += 1 + i % 2) {
        host[i][1] = cell % 9;
        host[i][2] = cell / 9 % 9;
        host[i][3] = cell / 81;
    }
    assert_ok(spc_memory_upload(f->coords, f->ctx, host, sizeof(host)),
              spc_ctx_error(f->ctx));
    assert_ok(spc_map_update(f->map, f->coords, NULL, rows, NULL),
              spc_ctx_error(f->ctx));
}

typedef struct runner {
    spc_plan *plan;
    void *packed, *work, *out;
} runner;

static runner runner_of(frames *f, const char *name, const char *values)
{
    runner r = {.plan = plan_of(f->ctx, &f->conv, name, values)};

    assert_ok(spc_map_prepare(f->map, r.plan, NULL), spc_ctx_error(f->ctx));
    assert_ok(
        spc_memory_alloc(&r.packed, f->ctx, spc_plan_weights_bytes(r.plan)),
        spc_ctx_error(f->ctx));
    assert_ok(spc_memory_alloc(&r.work, f->ctx,
                               spc_plan_workspace_bytes(r.plan, f->map) + 16),
              spc_ctx_error(f->ctx));
    assert_ok(spc_memory_alloc(&r.out, f->ctx, 4 * CAPACITY * CHANNELS),
              spc_ctx_error(f->ctx));
    assert_ok(spc_plan_pack(r.packed, r.plan, f->weights, SPC_KRSC, NULL),
              spc_ctx_error(f->ctx));
    return r;
}

static void runner_run(const runner *r, frames *f, float *result, int rows)
{
    spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                           .in = f->in,
                           .out = r->out,
                           .weights = r->packed,
                           .workspace = r->work};

    assert_ok(spc_plan_execute(r->plan, f->map, &buffers, NULL),
              spc_ctx_error(f->ctx));
    assert_ok(spc_memory_download(result, f->ctx, r->out,
                                  4 * CHANNELS * (size_t)rows),
              spc_ctx_error(f->ctx));
}

static void runner_close(const runner *r, frames *f)
{
    spc_memory_free(f->ctx, r->packed);
    spc_memory_free(f->ctx, r->work);
    spc_memory_free(f->ctx, r->out);
    spc_plan_free(r->plan);
}

/* Grids are sized for the capacity, and only the device knows the counts.
 * Frames have fewer rows, more rows, and none. */
START_TEST(frames_of_any_size_run_on_the_pairs_that_they_have)
{
    static const char *const values[] = {"", "join=atomic", "near=2"};
    static const int rows[] = {250, CAPACITY, 1, 0, 90};
    static float want[CAPACITY * CHANNELS], got[CAPACITY * CHANNELS];
    frames f;

    if (!takes(_i, LENGTH(values)))
        return;
    frames_open(&f);
    next_frame(&f, rows[0]);
    runner plain = runner_of(&f, "os_generic", "");
    runner pairs = runner_of(&f, "pairs_mma", values[_i]);
    for (int i = 0; i < LENGTH(rows); i++) {
        next_frame(&f, rows[i]);
        runner_run(&plain, &f, want, rows[i]);
        runner_run(&pairs, &f, got, rows[i]);
        for (int at = 0; at < rows[i] * CHANNELS; at++)
            ck_assert_msg(got[at] == want[at],
                          "%s, frame of %d: row %d channel %d is %g, not %g",
                          values[_i], rows[i], at / CHANNELS, at % CHANNELS,
                          (double)got[at], (double)want[at]);
    }
    runner_close(&plain, &f);
    runner_close(&pairs, &f);
    spc_map_free(f.map);
    spc_coords_free(f.set);
    for (int i = 0; i < f.pieces; i++)
        spc_memory_free(f.ctx, f.memory[i]);
    spc_ctx_free(f.ctx);
}
END_TEST

/* ---- compiled for GPUs that are not here --------------------------------- */

static const char *const gpus[] = {"sm_75",  "sm_80",  "sm_86", "sm_89",
                                   "sm_90a", "sm_100", "sm_120"};

static const struct {
    const char *layer, *template_name, *values;
} compiled[] = {
    {"subm,cin=64,cout=64,k=3", "pairs_mma", ""},
    {"subm,cin=128,cout=128,k=3,epilogue=scale+bias+relu", "pairs_mma",
     "near=2,stages=2"},
    {"subm,cin=64,cout=96,k=3", "pairs_mma", "join=atomic"},
    {"subm,cin=256,cout=256,k=5", "pairs_mma", ""},
    {"subm,cin=32,cout=64,k=3", "explicit_mma", ""},
    {"subm,cin=32,cout=64,k=3,bias=1", "explicit_library", ""},
    {"subm,cin=64,cout=64,k=3,dtype=f32,bias=1", "pairs_mma", "join=atomic"},
    {"conv,cin=32,cout=64,k=2,stride=2,rule=floor,dtype=tf32", "pairs_mma", ""},
    {"subm,cin=128,cout=256,k=3,dtype=bf16", "explicit_mma", ""},
};

static void compile_case(int i, const char *gpu, spc__compiler *nvrtc,
                         spc__library *library)
{
    spc__template *tpl = spc__library_find(library, compiled[i].template_name);
    spc__buf text = SPC__BUF_INIT, log = SPC__BUF_INIT;
    spc__attrs problem, target;
    spc__artefact artefact;
    spc_error error = {0};
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, compiled[i].layer, &error), error.text);
    assert_ok(spc__target_facts(&target, gpu, &error), error.text);
    spc__conv_attrs(&problem, &conv);
    if (spc__template_accepts(tpl, &problem, &target, NULL) != SPC_OK) {
        ck_assert_str_eq(gpu, "sm_75"); /* sm_75 has only f16 */
        return;
    }
    spc__attrs config = config_of(tpl, &problem, &target, compiled[i].values);
    assert_ok(
        spc__template_render(&text, tpl, &problem, &target, &config, &error),
        error.text);
    spc__compile_job job = {.source = text.data,
                            .name = compiled[i].template_name,
                            .target = gpu,
                            .headers = library};
    assert_ok(spc__compile(&artefact, nvrtc, &job, &log, &error), error.text);
    ck_assert_msg(spc__attrs_number(&artefact.resources, "spill_bytes", -1) ==
                      0,
                  "%s %s on %s spills: %s", compiled[i].template_name,
                  compiled[i].values, gpu, compiled[i].layer);
    spc__artefact_release(&artefact);
    spc__buf_release(&text);
    spc__buf_release(&log);
}

START_TEST(code_for_gpus_that_are_not_here_does_not_spill)
{
    int i = _i % LENGTH(compiled);
    if (!suite_takes(_i))
        return;
    spc__library *library;
    spc__compiler *nvrtc;
    spc_error error = {0};

    assert_ok(spc__nvrtc_open(&nvrtc, &error), error.text);
    assert_ok(spc__library_open(&library, NULL, NULL, &error), error.text);
    compile_case(i, gpus[_i / LENGTH(compiled)], nvrtc, library);
    spc__library_close(library);
    spc__compiler_close(nvrtc);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static void add(Suite *suite, const char *name, const TTest *test, int count)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test, 0, count);
    suite_add_tcase(suite, tcase);
}

static int run_nvrtc(void)
{
    spc__compiler *nvrtc = NULL;

    if (spc__nvrtc_open(&nvrtc, NULL) != SPC_OK)
        return suite_skip("there is no NVRTC on this machine");
    spc__compiler_close(nvrtc);
    suite_sample(9);
    Suite *suite = suite_create("pairs, NVRTC");
    add(suite, "nvrtc", code_for_gpus_that_are_not_here_does_not_spill,
        LENGTH(gpus) * LENGTH(compiled));
    return run_suite(suite);
}

int main(int argc, char **argv)
{
    if (suite_is_part(argc, argv, "nvrtc"))
        return run_nvrtc();
    int status = suite_open(argc, argv);
    if (status != 0)
        return status;
    suite_sample(9);
    Suite *suite = suite_create("pairs");
    add(suite, "oracle", every_dataflow_gives_what_the_oracle_gives,
        LENGTH(cases));
    add(suite, "ends", a_hybrid_is_both_pure_dataflows_at_its_ends, 1);
    add(suite, "runs", places_are_added_in_the_same_order_in_every_run, 2);
    add(suite, "deterministic",
        a_deterministic_layer_takes_places_and_no_atomics, 1);
    add(suite, "workspace", the_workspace_holds_all_pairs_that_can_come, 1);
    add(suite, "empty", a_map_without_rows_has_nothing_to_run, 1);
    add(suite, "prepared", a_map_without_pairs_is_not_prepared, 1);
    add(suite, "frames", frames_of_any_size_run_on_the_pairs_that_they_have, 3);
    return run_suite(suite);
}
