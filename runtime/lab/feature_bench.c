/* feature_bench.c - how fast an operator on features is, and how fast it could
 * be. */
#include "feature.h"
#include "feature_oracle.h"

#include "clock.h"
#include "ctx.h"
#include "dtype.h"
#include "error.h"
#include "floor.h"
#include "random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_SAMPLES = 31, COLD_SAMPLES = 21, ARRAYS = 4 };
static const double limit_s = 3; /* for one kind of measurement */

/* An operator on a scene: on the device, and what the oracle says of it. */
typedef struct bench {
    spc_ctx *ctx;
    const spc_feature *feature;
    const spc_scene *scene;
    spc_feature_plan *plan;
    spc_coords *set;
    spc_map *map;
    spc__feature_case of;
    int64_t elements; /* of the result */
    spc_feature_buffers buffers;
    void *memory[8]; /* on the device, to be freed */
    int memories;
    float *host[ARRAYS]; /* in, add, scale, shift */
    int32_t *index;      /* of the map, on the host */
    int32_t *stored;     /* rows of maxima */
    double *reference, *tolerance;
} bench;

/* ---- where it runs ------------------------------------------------------- */

/* The convolution whose map the operator reads. */
static spc_conv layer_of(const spc_feature *f)
{
    spc_conv conv = SPC_CONV_INIT;

    conv.geometry = f->geometry;
    conv.cin = conv.cout = 1;
    if (f->geometry.rule != SPC_RULE_SUBM)
        conv.op = f->op == SPC_FEATURE_UNPOOL ? SPC_INVERSE : SPC_CONV;
    return conv;
}

static spc_status allocate(void *out, spc_ctx *ctx, size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);

    memcpy(out, &memory, sizeof(memory));
    return memory != NULL ? SPC_OK
                          : spc__fail_memory(spc__error_of(ctx), count * bytes);
}

static spc_status open_map(bench *b)
{
    spc_conv conv = layer_of(b->feature);
    spc_status status =
        spc_map_create_from_scene(&b->map, b->ctx, &conv, b->scene);

    if (status != SPC_OK)
        return status;
    b->of.rows_in = spc_map_rows_in(b->map);
    b->of.rows_out = spc_map_rows(b->map);
    size_t entries = (size_t)b->of.rows_out *
                     (size_t)spc_geometry_offsets(&b->feature->geometry);
    if ((status = allocate(&b->index, b->ctx, entries, 4)) == SPC_OK &&
        (status = spc_map_download(b->map, b->index)) == SPC_OK)
        status = spc_feature_prepare(b->plan, b->map, NULL);
    b->of.map = b->index;
    return status;
}

static spc_status open_place(bench *b)
{
    spc_status status;

    b->of.rows_in = b->of.rows_out = spc_scene_rows(b->scene);
    b->of.coords = spc_scene_coords(b->scene);
    if (spc__feature_takes_map(b->feature)) {
        status = open_map(b);
    } else {
        status = spc_coords_create_from_scene(&b->set, b->ctx, b->scene);
        b->of.batches = spc_coords_batches(b->set);
    }
    b->elements =
        spc_feature_rows_out(b->feature, b->of.rows_out, b->of.batches) *
        spc_feature_row_out(b->feature);
    return status;
}

/* ---- its data ------------------------------------------------------------ */

/* Device memory that is freed at the end. */
static spc_status take(void *out, bench *b, size_t bytes)
{
    void *memory;
    spc_status status = spc_alloc(&memory, b->ctx, bytes + 16);

    if (status == SPC_OK)
        b->memory[b->memories++] = memory;
    memcpy(out, &memory, sizeof(memory));
    return status;
}

/* Numbers uniform in [-1, 1), as the type holds them, here and there. */
static spc_status draw(float **host, void *device, bench *b, size_t count,
                       spc_dtype dtype, spc__random *random)
{
    const spc__dtype *type = spc__dtype_of(dtype);
    void *stored = NULL, *memory = NULL;
    spc_status status;

    if ((status = allocate(host, b->ctx, count, sizeof(float))) != SPC_OK ||
        (status = allocate(&stored, b->ctx, count, type->bytes)) != SPC_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        (*host)[i] = (float)(2 * spc__random_unit(random) - 1);
    type->encode(stored, *host, count);
    type->decode(*host, stored, count);
    if ((status = take(&memory, b, count * type->bytes)) == SPC_OK)
        status =
            spc_copy_to_device(b->ctx, memory, stored, count * type->bytes);
    memcpy(device, &memory, sizeof(memory));
    free(stored);
    return status;
}

/* Of every row that is un-pooled the voxels that see it take turns. */
static void fill_stored(bench *b)
{
    int channels = b->feature->channels;
    int offsets = spc_geometry_offsets(&b->feature->geometry);

    for (int k = 0; k < offsets; k++)
        for (int64_t row = 0; row < b->of.rows_out; row++) {
            int64_t from = b->index[k * b->of.rows_out + row];
            for (int64_t c = k; from >= 0 && c < channels; c += offsets)
                b->stored[from * channels + c] = (int32_t)row;
        }
}

static spc_status draw_index(bench *b)
{
    const spc_feature *f = b->feature;
    bool back = f->op == SPC_FEATURE_UNPOOL;
    int64_t rows = back ? b->of.rows_in : b->of.rows_out;
    size_t count = (size_t)rows * (size_t)f->channels;
    spc_status status;

    if (!f->index || !spc__feature_takes_map(f))
        return SPC_OK;
    if ((status = allocate(&b->stored, b->ctx, count, 4)) != SPC_OK ||
        (status = take(&b->buffers.index, b, count * 4)) != SPC_OK)
        return status;
    memset(b->stored, 0xff, count * 4);
    if (!back)
        return SPC_OK;
    fill_stored(b);
    b->of.index = b->stored;
    return spc_copy_to_device(b->ctx, b->buffers.index, b->stored, count * 4);
}

static spc_status prepare_data(bench *b, uint64_t seed)
{
    const spc_feature *f = b->feature;
    size_t all = (size_t)b->of.rows_in * (size_t)f->channels;
    size_t row = (size_t)f->channels;
    spc_feature_buffers *to = &b->buffers;
    spc__random random;
    spc_status status;

    spc__random_init(&random, seed);
    if ((status = draw(&b->host[0], &to->in, b, all, f->dtype, &random)) ||
        (status =
             draw(&b->host[1], &to->add, b, f->op == SPC_FEATURE_ADD ? all : 0,
                  f->dtype, &random)) ||
        (status = draw(&b->host[2], &to->scale, b, row, SPC_F32, &random)) ||
        (status = draw(&b->host[3], &to->shift, b, row, SPC_F32, &random)) ||
        (status = draw_index(b)) ||
        (status = take(&to->workspace, b,
                       spc_feature_workspace_bytes(b->plan, b->set))))
        return status;
    b->of.in = b->host[0];
    b->of.add = b->host[1];
    b->of.scale = b->host[2];
    b->of.shift = b->host[3];
    return take(&to->out, b,
                (size_t)b->elements * spc__dtype_of(f->dtype)->bytes);
}

static spc_status ask_oracle(bench *b)
{
    spc_status status;

    if ((status = allocate(&b->reference, b->ctx, (size_t)b->elements, 8)) ||
        (status = allocate(&b->tolerance, b->ctx, (size_t)b->elements, 8)))
        return status;
    spc__feature_oracle(b->reference, b->tolerance,
                        b->feature->op == SPC_FEATURE_POOL ? b->stored : NULL,
                        b->feature, &b->of);
    return SPC_OK;
}

/* ---- running ------------------------------------------------------------- */

/* Every run may be the last one that somebody waits for. */
static spc_status enqueue(void *payload, void *stream)
{
    const bench *b = payload;
    spc_status status = spc__ctx_check_cancel(b->ctx);

    return status == SPC_OK ? spc_feature_execute(b->plan, b->set, b->map,
                                                  &b->buffers, stream)
                            : status;
}

static spc_status clear(const bench *b)
{
    return spc__device_ops_of(b->ctx->device)
        ->fill(b->ctx->device, b->buffers.out, 0xff,
               (size_t)b->elements * spc__dtype_of(b->feature->dtype)->bytes,
               NULL, spc__error_of(b->ctx));
}

/* The worst element's error over its tolerance. What is no number is infinitely
 * wrong, and must not be lost in a comparison. */
static double worst_of(const bench *b, const char *result)
{
    const spc__dtype *type = spc__dtype_of(b->feature->dtype);
    double worst = 0;

    for (int64_t i = 0; i < b->elements; i++) {
        float got;
        type->decode(&got, result + (size_t)i * type->bytes, 1);
        double differ = fabs((double)got - b->reference[i]);
        double error =
            differ / spc__feature_tolerance(b->feature, b->reference[i],
                                            b->tolerance[i]);
        if (!(error <= worst))
            worst = isnan(error) ? INFINITY : error;
    }
    return worst;
}

static spc_status check(const bench *b, spc_bench_result *out)
{
    size_t bytes =
        (size_t)b->elements * spc__dtype_of(b->feature->dtype)->bytes;
    char *result = NULL;
    spc_status status = allocate(&result, b->ctx, bytes, 1);

    if (status == SPC_OK && (status = spc_synchronize(b->ctx)) == SPC_OK &&
        (status = spc_copy_to_host(b->ctx, result, b->buffers.out, bytes)) ==
            SPC_OK) {
        double error = worst_of(b, result);
        out->error = error > out->error ? error : out->error;
    }
    free(result);
    if (status == SPC_OK && out->error > 1)
        status = spc__fail(spc__error_of(b->ctx), SPC_EWRONG,
                           "'%s' is wrong: an element is %.3g times as far "
                           "from the definition as rounding explains",
                           out->plan, out->error);
    return status;
}

/* Times over a result that is none, and looks at what that left. */
static spc_status time_runs(bench *b, int wanted, bool cold, double *median,
                            double *spread, spc_bench_result *out)
{
    spc_ctx *ctx = b->ctx;
    double samples[WARM_SAMPLES];
    spc__measure what = {enqueue, b, wanted, limit_s, cold};
    int taken = wanted;
    spc_status status = clear(b);

    if (status == SPC_OK)
        status = spc__device_ops_of(ctx->device)
                     ->measure(ctx->device, &what, samples, &taken,
                               spc__error_of(ctx));
    if (status != SPC_OK)
        return status;
    *median = spc__median(samples, taken);
    *spread = spc__half_iqr(samples, taken);
    if (!cold)
        out->samples = taken;
    return check(b, out);
}

static void compute_floor(const bench *b, spc_bench_result *out)
{
    double read, written;
    spc__floor floor;

    spc__feature_bytes(&read, &written, b->feature, b->of.rows_in,
                       b->of.rows_out, b->of.batches, spc_map_pairs(b->map));
    spc__floor_of_bytes(&floor, read, written, &b->ctx->info);
    out->compulsory_bytes = read + written;
    out->warm_floor_us = floor.warm_us;
    out->warm_floor_by = floor.warm_by;
    out->cold_floor_us = floor.cold_us;
    out->cold_floor_by = floor.cold_by;
    out->floor_measured = floor.measured;
}

static spc_status run(bench *b, uint64_t seed, spc_bench_result *out)
{
    spc_status status =
        spc_feature_plan_create(&b->plan, b->ctx, b->feature, SPC_PLAN_JIT);

    if (status != SPC_OK)
        return status;
    snprintf(out->plan, sizeof(out->plan), "%s",
             spc__feature_plan_template(b->plan));
    out->origin = SPC_ORIGIN_DEFAULT;
    if ((status = open_place(b)) || (status = prepare_data(b, seed)) ||
        (status = ask_oracle(b)) || (status = clear(b)) ||
        (status = enqueue(b, NULL)) || (status = check(b, out)))
        return status;
    compute_floor(b, out);
    if ((status = time_runs(b, WARM_SAMPLES, false, &out->warm_us,
                            &out->warm_spread_us, out)) != SPC_OK)
        return status;
    return time_runs(b, COLD_SAMPLES, true, &out->cold_us, &out->cold_spread_us,
                     out);
}

static void release(bench *b)
{
    for (int i = 0; i < b->memories; i++)
        spc_dealloc(b->ctx, b->memory[i]);
    for (int i = 0; i < ARRAYS; i++)
        free(b->host[i]);
    free(b->index);
    free(b->stored);
    free(b->reference);
    free(b->tolerance);
    spc_map_free(b->map);
    spc_coords_free(b->set);
    spc_feature_plan_free(b->plan);
}

spc_status spc_feature_bench(spc_ctx *ctx, const spc_feature *feature,
                             const spc_scene *scene, uint64_t seed,
                             spc_bench_result *out)
{
    bench b = {.ctx = ctx, .feature = feature, .scene = scene};
    spc_error *error = spc__error_of(ctx);
    spc_status status = spc__need(error, __func__, "out", out, "ctx", ctx,
                                  "feature", feature, "scene", scene, NULL);

    if (out != NULL) {
        memset(out, 0, sizeof(*out));
        out->warm_floor_by = out->cold_floor_by = "";
    }
    if (status != SPC_OK ||
        (status = spc_feature_check(feature, error)) != SPC_OK)
        return status;
    if (spc_scene_rows(scene) == 0)
        return spc__fail(error, SPC_EINVAL,
                         "the scene '%.100s' has no voxels: there is nothing "
                         "to time",
                         spc_scene_name(scene));
    status = run(&b, seed, out);
    release(&b);
    return status;
}
