/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - measures the plan of a layer and compares it with the floor. */
#include "coords/map.h"
#include "plan/plan_parts.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "lab/floor.h"
#include "lab/gate/gate.h"
#include "operators/conv.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_SAMPLES = 31, COLD_SAMPLES = 21, INDEX_SAMPLES = 21 };
static const double limit_s = 3;      /* limit for each kind of measurement */
static const double confirm_s = 0.05; /* the same as in the tuner */

typedef struct bench {
    spc_ctx *ctx;
    const spc_conv *conv;
    const spc_scene *scene;
    int64_t capacity; /* 0: the number of voxels in the scene */
    spc__sample sample;
    spc__fixture *fixture;
    spc_plan *plan;
    spc__tested tested;
    /*
     * A second map of the same rows, shuffled, so that sorting has real work to
     * do.
     */
    spc_map *shuffled;
    int32_t *coords; /* coordinates on the device */
    /* The function that is measured. */
    spc_status (*run)(const struct bench *b, void *stream);
} bench;

/* ---- measurements -------------------------------------------------------- */

static spc_status run_plan(const bench *b, void *stream)
{
    return spc__fixture_execute(b->fixture, b->plan, 0, SPC__REAL,
                                b->tested.packed.data, stream);
}

static spc_status run_index(const bench *b, void *stream)
{
    return spc__map_rebuild(b->shuffled, b->coords, spc_scene_rows(b->scene),
                            true, stream);
}

static spc_status run_map(const bench *b, void *stream)
{
    return spc__map_rebuild(b->shuffled, b->coords, spc_scene_rows(b->scene),
                            false, stream);
}

static spc_status run_layout(const bench *b, void *stream)
{
    return spc__plan_relayout(b->plan, b->fixture->maps[0], stream);
}

/* Checks for cancellation before each run. */
static spc_status enqueue(void *payload, void *stream)
{
    const bench *b = payload;
    spc_status status = spc__ctx_check_cancel(b->ctx);

    return status == SPC_OK ? b->run(b, stream) : status;
}

/*
 * Measures up to `wanted` samples of `run` and returns their median and spread.
 * *count is the number of samples.
 */
static spc_status measure(bench *b,
                          spc_status (*run)(const bench *b, void *stream),
                          int wanted, bool cold, double *median, double *spread,
                          int *count)
{
    spc_ctx *ctx = b->ctx;
    double samples[WARM_SAMPLES];
    spc__measure what = {enqueue, b, wanted, limit_s, cold, NULL};
    int taken = wanted;

    b->run = run;
    spc_status status = spc__ctx_check_cancel(b->ctx);

    if (status == SPC_OK)
        status = spc__device_ops_of(ctx->device)
                     ->measure(ctx->device, &what, samples, &taken,
                               spc__error_of(ctx));
    if (status != SPC_OK)
        return status;
    *median = spc__median(samples, taken);
    if (spread != NULL)
        *spread = spc__half_iqr(samples, taken);
    if (count != NULL)
        *count = taken;
    return SPC_OK;
}

/* ---- preparation --------------------------------------------------------- */

/* Uploads the data and computes the oracle's answers. */
static spc_status prepare_sample(bench *b, uint64_t seed)
{
    spc__sample_source source = {.scene = b->scene};
    bool emulates = spc__device_ops_of(b->ctx->device)->is_emulation;
    spc__sample_options options = {seed, true, b->ctx->threads, b->ctx->cancel,
                                   emulates ? SPC__FEW_SIZES : SPC__SIZES};
    spc_status status = spc__sample_init(&b->sample, b->conv, &source, 1,
                                         &options, spc__error_of(b->ctx));

    if (status == SPC_OK)
        status = spc__fixture_create(&b->fixture, b->ctx, &b->sample);
    return status == SPC_OK && b->capacity > 0
               ? spc__fixture_set_capacity(b->fixture, b->capacity)
               : status;
}

/* Makes the plan that a program would get, and prepares it for the gate. */
static spc_status prepare_plan(bench *b, spc_bench_result *out)
{
    spc_status status =
        spc_conv_is_linear(b->conv)
            ? spc_plan_create_linear(&b->plan, b->ctx, b->conv,
                                     spc_scene_rows(b->scene), SPC_PLAN_JIT)
            : spc_plan_create(&b->plan, b->ctx, b->conv, b->fixture->maps[0],
                              SPC_PLAN_JIT);

    if (status != SPC_OK)
        return status;
    out->match = spc_plan_match(b->plan);
    out->is_shipped = spc_plan_is_shipped(b->plan);
    snprintf(out->plan, sizeof(out->plan), "%s %.220s",
             spc_plan_template(b->plan), spc_plan_config(b->plan));
    if (b->capacity > 0 && b->plan->geometry.clear)
        return spc__fail(spc__error_of(b->ctx), SPC_EUNSUPPORTED,
                         "'%s' clears all rows that its map has room for, and "
                         "the outputs here have those of the scene alone",
                         out->plan);
    return spc__gate_enter(&b->tested, b->fixture, b->plan);
}

/* Uploads the scene's rows in an order that depends on `seed`. */
static spc_status prepare_shuffled(bench *b, uint64_t seed)
{
    spc_ctx *ctx = b->ctx;
    int64_t rows = spc_scene_rows(b->scene);
    size_t bytes = (size_t)rows * 4 * sizeof(int32_t);
    int32_t(*coords)[4] = malloc(bytes);
    spc__random random;
    spc_status status;

    if (coords == NULL)
        return spc__fail_memory(spc__error_of(ctx), bytes);
    memcpy(coords, spc_scene_coords(b->scene), bytes);
    spc__random_init(&random, seed);
    for (int64_t i = rows - 1; i > 0; i--) {
        int64_t j = spc__random_below(&random, (uint32_t)i + 1);
        int32_t row[4];
        memcpy(row, coords[i], sizeof(row));
        memcpy(coords[i], coords[j], sizeof(row));
        memcpy(coords[j], row, sizeof(row));
    }
    if ((status = spc_memory_alloc((void **)&b->coords, ctx, bytes)) ==
            SPC_OK &&
        (status = spc_memory_upload(b->coords, ctx, coords, bytes)) == SPC_OK)
        status = spc_map_create_from_rows(&b->shuffled, ctx, b->conv, b->coords,
                                          rows, NULL);
    free(coords);
    return status;
}

/* ---- checks -------------------------------------------------------------- */

/*
 * Fails unless the result is correct, because the time of a wrong result means
 * nothing.
 */
static spc_status require_right(const bench *b, const spc__verdict *verdict,
                                const char *plan)
{
    spc_status status =
        verdict->status == SPC__TRIAL_WRONG ? SPC_EWRONG : SPC_EDEVICE;

    if (verdict->status == SPC__TRIAL_OK)
        return SPC_OK;
    if (spc__ctx_check_cancel(b->ctx) != SPC_OK)
        return SPC_EINTERRUPTED;
    return spc__fail(spc__error_of(b->ctx), status, "'%s' is wrong: %s", plan,
                     verdict->note);
}

static spc_status check(bench *b, spc_bench_result *out)
{
    spc__verdict verdict;

    spc__gate_verify(&verdict, b->fixture, &b->tested);
    out->error = verdict.error;
    return require_right(b, &verdict, out->plan);
}

/*
 * Fills the output with a wrong result, times the plan, and verifies the output
 * afterwards. This finds kernels that stop working after a few runs.
 */
static spc_status time_plan(bench *b, int wanted, bool cold, double *median,
                            double *spread, spc_bench_result *out)
{
    spc__verdict verdict;
    spc_status status;

    spc__gate_before_timing(&verdict, b->fixture, &b->tested, 0);
    if ((status = require_right(b, &verdict, out->plan)) != SPC_OK ||
        (status = measure(b, run_plan, wanted, cold, median, spread,
                          cold ? NULL : &out->samples)) != SPC_OK)
        return status;
    spc__gate_after_timing(&verdict, b->fixture, &b->tested, 0);
    return require_right(b, &verdict, out->plan);
}

static spc_status confirm(bench *b, const spc_bench_result *out)
{
    spc__verdict verdict;

    spc__gate_confirm(&verdict, b->fixture, &b->tested, confirm_s);
    return require_right(b, &verdict, out->plan);
}

/* ---- timing -------------------------------------------------------------- */

/*
 * Times a map of points. Its triplets are one layout; other layouts are made
 * from them.
 */
static spc_status time_points(bench *b, spc_bench_result *out)
{
    const spc__launch_geometry *launch = spc__plan_launch(b->plan);
    spc_status status = SPC_OK;

    if (launch->reads_pairs || launch->reads_bundles || launch->reads_inputs)
        status = measure(b, run_layout, INDEX_SAMPLES, false, &out->layout_us,
                         NULL, NULL);
    if (status == SPC_OK)
        status = measure(b, run_map, INDEX_SAMPLES, false, &out->map_us,
                         &out->map_spread_us, NULL);
    out->index_us = out->map_us;
    out->index_spread_us = out->map_spread_us;
    return status == SPC_OK ? spc_map_check(b->shuffled, NULL) : status;
}

/*
 * Times the map and the layout that the plan reads. A linear layer has no map
 * and no layout.
 */
static spc_status time_index(bench *b, spc_bench_result *out)
{
    spc_status status;

    if (spc_conv_is_linear(b->conv))
        return SPC_OK;
    if (spc__conv_has_triplets(b->conv))
        return time_points(b, out);
    if ((status = measure(b, run_layout, INDEX_SAMPLES, false, &out->layout_us,
                          NULL, NULL)) != SPC_OK ||
        (status = spc_map_prepare(b->shuffled, b->plan, NULL)) != SPC_OK ||
        (status = measure(b, run_map, INDEX_SAMPLES, false, &out->map_us,
                          &out->map_spread_us, NULL)) != SPC_OK ||
        (status = spc__map_prepare(b->shuffled, "none", 0, NULL)) != SPC_OK ||
        (status = measure(b, run_index, INDEX_SAMPLES, false, &out->index_us,
                          &out->index_spread_us, NULL)) != SPC_OK)
        return status;
    return spc_map_check(b->shuffled, NULL);
}

/* Times the plan warm, then cold, then checks its result once more: a kernel
 * that is wrong only now and then must not get a figure. */
static spc_status time_all(bench *b, spc_bench_result *out)
{
    spc_status status;

    if ((status = time_plan(b, WARM_SAMPLES, false, &out->warm_us,
                            &out->warm_spread_us, out)) != SPC_OK ||
        (status = time_plan(b, COLD_SAMPLES, true, &out->cold_us,
                            &out->cold_spread_us, out)) != SPC_OK ||
        (status = confirm(b, out)) != SPC_OK)
        return status;
    return time_index(b, out);
}

/* Fills in the floor, and the work from which it is computed. */
static void compute_floor(const bench *b, spc_bench_result *out)
{
    spc__work work = spc__sample_work(&b->sample, 0);
    spc__floor floor;

    spc__floor_compute(&floor, &work, &b->ctx->info);
    out->flops = floor.flops;
    out->gathered_bytes = floor.gathered_bytes;
    out->compulsory_bytes = floor.read_bytes + floor.written_bytes;
    out->warm_floor_us = floor.warm_us;
    out->warm_floor_by = floor.warm_by;
    out->cold_floor_us = floor.cold_us;
    out->cold_floor_by = floor.cold_by;
    out->floor_measured = floor.measured;
}

/* ---- entry --------------------------------------------------------------- */

/* Prepares, checks and times. Compares the result with the oracle before the
 * first timing. */
static spc_status run_bench(const char *name, spc_ctx *ctx,
                            const spc_conv *conv, const spc_scene *scene,
                            uint64_t seed, int64_t capacity,
                            spc_bench_result *out)
{
    bench b = {.ctx = ctx, .conv = conv, .scene = scene, .capacity = capacity};
    spc_error *error = spc__error_of(ctx);
    spc_status status = spc__need(error, name, "out", out, "ctx", ctx, "conv",
                                  conv, "scene", scene, NULL);

    if (out != NULL) {
        memset(out, 0, sizeof(*out));
        /* Sets the texts, even after a failure. */
        out->warm_floor_by = out->cold_floor_by = "";
    }
    if (status != SPC_OK || (status = spc_conv_check(conv, error)) != SPC_OK)
        return status;
    if ((status = spc__sample_scene_check(scene, error)) != SPC_OK)
        return status;
    if ((status = prepare_sample(&b, seed)) == SPC_OK &&
        (status = prepare_plan(&b, out)) == SPC_OK &&
        (status = check(&b, out)) == SPC_OK &&
        (spc_conv_is_linear(conv) ||
         (status = prepare_shuffled(&b, seed)) == SPC_OK)) {
        compute_floor(&b, out);
        status = time_all(&b, out);
    }
    spc_map_free(b.shuffled);
    spc_memory_free(ctx, b.coords);
    if (b.fixture != NULL)
        spc__gate_leave(&b.tested, b.fixture);
    spc_plan_free(b.plan);
    spc__fixture_free(b.fixture);
    spc__sample_release(&b.sample);
    return status;
}

spc_status spc_bench(spc_bench_result *out, spc_ctx *ctx, const spc_conv *conv,
                     const spc_scene *scene, uint64_t seed)
{
    return run_bench(__func__, ctx, conv, scene, seed, 0, out);
}

spc_status spc_bench_capacity(spc_bench_result *out, spc_ctx *ctx,
                              const spc_conv *conv, const spc_scene *scene,
                              uint64_t seed, int64_t capacity)
{
    if (capacity <= 0 && out != NULL && ctx != NULL)
        return spc__fail(spc__error_of(ctx), SPC_EINVAL,
                         "a capacity of %lld rows: expected at least 1",
                         (long long)capacity);
    return run_bench(__func__, ctx, conv, scene, seed, capacity, out);
}
