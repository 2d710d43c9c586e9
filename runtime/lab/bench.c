/* bench.c - how fast the plan for a layer is, and how fast it could be. */
#include "map.h"
#include "plan.h"

#include "clock.h"
#include "error.h"
#include "floor.h"
#include "random.h"
#include "sample.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_SAMPLES = 31, COLD_SAMPLES = 21, INDEX_SAMPLES = 21 };
static const double limit_s = 3; /* for one kind of measurement */

typedef struct bench {
    spc_ctx *ctx;
    const spc_conv *conv;
    const spc_scene *scene;
    spc__sample sample;
    spc_map *map;
    spc_plan *plan;
    spc_buffers buffers;
    void *packed, *workspace;
    /* A second map, of the same rows shuffled: sorting has real work to do. */
    spc_map *shuffled;
    int32_t *coords; /* on the device */
    /* What is being measured. */
    spc_status (*run)(const struct bench *b, void *stream);
} bench;

/* ---- what is measured ---------------------------------------------------- */

static spc_status run_plan(const bench *b, void *stream)
{
    return spc_plan_execute(b->plan, b->map, &b->buffers, stream);
}

static spc_status run_index(const bench *b, void *stream)
{
    return spc__map_rebuild(b->shuffled, b->coords, b->sample.rows, true,
                            stream);
}

static spc_status run_map(const bench *b, void *stream)
{
    return spc__map_rebuild(b->shuffled, b->coords, b->sample.rows, false,
                            stream);
}

static spc_status run_order(const bench *b, void *stream)
{
    const spc__launch_geometry *geometry = spc__plan_launch(b->plan);
    return spc__map_relayout(b->map, geometry->order, geometry->tile_rows,
                             stream);
}

/* Every run may be the last one that somebody waits for. */
static spc_status enqueue(void *payload, void *stream)
{
    const bench *b = payload;
    spc_status status = spc__ctx_check_cancel(b->ctx);

    return status == SPC_OK ? b->run(b, stream) : status;
}

/* Median and spread of up to `wanted` samples of `run`; returns their number in
 * *count. */
static spc_status measure(bench *b,
                          spc_status (*run)(const bench *b, void *stream),
                          int wanted, bool cold, double *median, double *spread,
                          int *count)
{
    spc_ctx *ctx = b->ctx;
    double samples[WARM_SAMPLES];
    spc__measure what = {enqueue, b, wanted, limit_s, cold};
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

static spc_status prepare_plan(bench *b, spc_bench_result *out)
{
    spc_ctx *ctx = b->ctx;
    spc_status status;

    if ((status = spc_map_create_from_scene(&b->map, ctx, b->conv, b->scene)) !=
            SPC_OK ||
        (status = spc_plan_create(&b->plan, ctx, b->conv, b->map,
                                  SPC_PLAN_JIT)) != SPC_OK ||
        (status = spc_alloc(&b->packed, ctx,
                            spc_plan_weights_bytes(b->plan))) != SPC_OK ||
        (status = spc_alloc(&b->workspace, ctx,
                            spc_plan_workspace_bytes(b->plan, b->map))) !=
            SPC_OK ||
        (status =
             spc_plan_pack_weights(b->plan, b->packed, b->sample.device_weights,
                                   SPC_KRSC, NULL)) != SPC_OK)
        return status;
    b->buffers = (spc_buffers){b->sample.device_in, b->sample.device_out,
                               b->packed, b->sample.device_bias, b->workspace};
    out->origin = spc_plan_origin(b->plan);
    snprintf(out->plan, sizeof(out->plan), "%s %.220s",
             spc_plan_template(b->plan), spc_plan_config(b->plan));
    return SPC_OK;
}

/* The scene's rows in an order that `seed` decides, on the device. */
static spc_status prepare_shuffled(bench *b, uint64_t seed)
{
    spc_ctx *ctx = b->ctx;
    int64_t rows = b->sample.rows;
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
    if ((status = spc_alloc((void **)&b->coords, ctx, bytes)) == SPC_OK &&
        (status = spc_copy_to_device(ctx, b->coords, coords, bytes)) == SPC_OK)
        status = spc_map_create_from_coords(&b->shuffled, ctx, b->conv,
                                            b->coords, rows, NULL);
    free(coords);
    return status;
}

/* ---- comparing ----------------------------------------------------------- */

/* What lies in the result now must be right; `when` is for the sentence. */
static spc_status compare(bench *b, const char *when, spc_bench_result *out)
{
    double error = 0;
    spc_status status = spc__sample_compare(&error, &b->sample, b->ctx);

    if (error > out->error)
        out->error = error;
    if (status == SPC_EWRONG)
        spc__fail_prefix(spc__error_of(b->ctx), "'%s' is wrong%s: ", out->plan,
                         when);
    return status;
}

/* No time is worth reporting of a wrong result. */
static spc_status check(bench *b, const char *when, spc_bench_result *out)
{
    spc_status status;

    if ((status = spc__sample_poison(&b->sample, b->ctx)) != SPC_OK ||
        (status = spc_plan_execute(b->plan, b->map, &b->buffers, NULL)) !=
            SPC_OK ||
        (status = spc_synchronize(b->ctx)) != SPC_OK)
        return status;
    return compare(b, when, out);
}

/* Times the plan over a result that is none, looks at what the timed runs left
 * of it, and runs the plan once more: a kernel that works a few times and then
 * no more is fast. */
static spc_status time_plan(bench *b, int wanted, bool cold, double *median,
                            double *spread, spc_bench_result *out)
{
    static const char when[] = " after it was timed, though right before";
    spc_status status;

    if ((status = spc__sample_poison(&b->sample, b->ctx)) != SPC_OK ||
        (status = measure(b, run_plan, wanted, cold, median, spread,
                          cold ? NULL : &out->samples)) != SPC_OK ||
        (status = compare(b, when, out)) != SPC_OK)
        return status;
    return check(b, when, out);
}

/* ---- timing -------------------------------------------------------------- */

static spc_status time_all(bench *b, spc_bench_result *out)
{
    spc_status status;

    if ((status = time_plan(b, WARM_SAMPLES, false, &out->warm_us,
                            &out->warm_spread_us, out)) != SPC_OK ||
        (status = time_plan(b, COLD_SAMPLES, true, &out->cold_us,
                            &out->cold_spread_us, out)) != SPC_OK ||
        (status = measure(b, run_order, INDEX_SAMPLES, false, &out->order_us,
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

/* ---- the floor ----------------------------------------------------------- */

static int32_t last_of(const int32_t *index, int64_t entries)
{
    int32_t last = -1;

    for (int64_t i = 0; i < entries; i++)
        if (index[i] > last)
            last = index[i];
    return last;
}

/* What of inputs and offsets some pair uses: `used` has a byte for each input
 * row. */
static void count_used(spc__work *work, const int32_t *index, int offsets,
                       char *used)
{
    for (int k = 0; k < offsets; k++) {
        int64_t before = work->pairs;
        for (int64_t row = 0; row < work->rows_out; row++) {
            int32_t from = index[k * work->rows_out + row];
            if (from < 0)
                continue;
            work->pairs++;
            work->rows_in += !used[from];
            used[from] = 1;
        }
        work->offsets += work->pairs > before;
    }
}

static spc_status count_work(spc__work *work, const bench *b)
{
    int offsets = spc__conv_offsets(b->conv);
    int64_t rows = spc_map_rows(b->map), entries = offsets * rows;
    size_t bytes = (size_t)entries * sizeof(int32_t);
    int32_t *index = malloc(bytes);
    char *used = NULL;
    spc_status status = SPC_OK;

    *work = (spc__work){.conv = b->conv, .rows_out = rows};
    if (index == NULL)
        return spc__fail_memory(spc__error_of(b->ctx), bytes);
    if ((status = spc_map_download(b->map, index)) == SPC_OK) {
        size_t ins = (size_t)last_of(index, entries) + 2;
        used = calloc(ins, 1);
        if (used != NULL)
            count_used(work, index, offsets, used);
        else
            status = spc__fail_memory(spc__error_of(b->ctx), ins);
    }
    free(used);
    free(index);
    return status;
}

static spc_status compute_floor(const bench *b, spc_bench_result *out)
{
    spc__work work;
    spc__floor floor;
    spc_status status = count_work(&work, b);

    if (status != SPC_OK)
        return status;
    spc__floor_compute(&floor, &work, &b->ctx->info);
    out->flops = floor.flops;
    out->gathered_bytes = floor.gathered_bytes;
    out->compulsory_bytes = floor.read_bytes + floor.written_bytes;
    out->warm_floor_us = floor.warm_us;
    out->warm_floor_by = floor.warm_by;
    out->cold_floor_us = floor.cold_us;
    out->cold_floor_by = floor.cold_by;
    out->floor_measured = floor.measured;
    return SPC_OK;
}

/* ---- entry --------------------------------------------------------------- */

spc_status spc_bench(spc_ctx *ctx, const spc_conv *conv, const spc_scene *scene,
                     uint64_t seed, spc_bench_result *out)
{
    bench b = {.ctx = ctx, .conv = conv, .scene = scene};
    spc_error *error = spc__error_of(ctx);
    spc_status status = spc__need(error, __func__, "out", out, "ctx", ctx,
                                  "conv", conv, "scene", scene, NULL);

    if (out != NULL) {
        memset(out, 0, sizeof(*out));
        out->warm_floor_by = out->cold_floor_by = "";
    }
    if (status != SPC_OK || (status = spc_conv_check(conv, error)) != SPC_OK)
        return status;
    if ((status = spc__sample_scene_check(scene, error)) != SPC_OK)
        return status;
    if ((status = spc__sample_init(&b.sample, ctx, conv, scene, seed)) ==
            SPC_OK &&
        (status = prepare_plan(&b, out)) == SPC_OK &&
        (status = check(&b, "", out)) == SPC_OK &&
        (status = prepare_shuffled(&b, seed)) == SPC_OK &&
        (status = compute_floor(&b, out)) == SPC_OK)
        status = time_all(&b, out);
    spc_map_free(b.shuffled);
    spc_dealloc(ctx, b.coords);
    spc_dealloc(ctx, b.packed);
    spc_dealloc(ctx, b.workspace);
    spc_plan_free(b.plan);
    spc_map_free(b.map);
    spc__sample_release(&b.sample, ctx);
    return status;
}
