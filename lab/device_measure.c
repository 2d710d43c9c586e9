/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_measure.c - measures the ceilings of a device with the kernels of role
 * "measure" and stores them by device class.
 *
 * A ceiling is a rate that no kernel should exceed. The best of several shapes,
 * orders and sizes counts, and the fastest sample of each shape. The code does
 * not assume how fast the device is or which kernels its template has: it
 * raises the repetitions until a run is long enough to be measured well.
 */
#include "context/ctx.h"
#include "spc/lab.h"

#include "base/clock.h"
#include "base/error.h"
#include "context/ceilings.h"
#include "templates/shared/spc_measure.h"
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES = 15,
    NEAR_BYTES = 16 << 10,  /* fits any cache next to a multiprocessor */
    LEAST_BYTES = 16 << 20, /* bytes of memory, if the size of the cache is
                             * unknown */
    MOST_BYTES = 512 << 20, /* more than any cache holds */
    MOST_BLOCKS = 65536,
    MOST_REPEATS = 1 << 20,
};

/* Shorter runs, or runs with fewer launches, would measure the launches too. */
static const double least_us = 300, least_launches = 30;
static const double limit_s = 0.15; /* time for the samples of one shape */

typedef struct fixture {
    spc_ctx *ctx;
    spc__code code;
    spc__kernel *kernel;
    spc__launch launch;
    spc_measure_args args;
    double least_us; /* shortest time of a run */
    size_t bytes;    /* sizes of `from` and `to` */
    void *from, *to, *work;
} fixture;

/* ---- running one kernel -------------------------------------------------- */

/* Launches the chosen kernel once. A cancel ends the measurement here. */
static spc_status enqueue(void *payload, void *stream)
{
    const fixture *b = payload;
    spc__device *device = b->ctx->device;
    spc_status status = spc__ctx_check_cancel(b->ctx);

    if (status != SPC_OK)
        return status;
    return spc__device_ops_of(device)->launch(device, b->kernel, &b->launch,
                                              &b->args, sizeof(b->args), stream,
                                              spc__error_of(b->ctx));
}

/*
 * Returns the fastest sample, as other load on the machine only slows samples.
 * `apart` lets the device rest between samples, so that its clock does not
 * drop.
 */
static spc_status fastest(fixture *b, bool apart, double *us)
{
    spc__device *device = b->ctx->device;
    spc__measure what = {enqueue, b, SAMPLES, limit_s, apart, NULL};
    double samples[SAMPLES];
    int count = SAMPLES;
    spc_status status = spc__device_ops_of(device)->measure(
        device, &what, samples, &count, spc__error_of(b->ctx));

    for (int i = 0; i < count && status == SPC_OK; i++)
        if (i == 0 || samples[i] < *us)
            *us = samples[i];
    return status;
}

/*
 * Selects a kernel and fills every multiprocessor with one wave of resident
 * blocks. SPC_ENOTFOUND: the device's template has no such kernel.
 */
static spc_status choose(fixture *b, const char *name, unsigned block,
                         size_t shared_bytes)
{
    spc__device *device = b->ctx->device;
    int resident;
    spc_status status =
        spc__ctx_kernel(&b->kernel, b->ctx, &b->code, name, shared_bytes);

    if (status == SPC_OK)
        status = spc__device_ops_of(device)->occupancy(
            device, &resident, b->kernel, block, shared_bytes,
            spc__error_of(b->ctx));
    if (status != SPC_OK)
        return status;
    int blocks = b->ctx->info.multiprocessors * (resident > 0 ? resident : 1);
    /* The device may not state its multiprocessors. */
    if (blocks < 1)
        blocks = 1;
    if (blocks > MOST_BLOCKS)
        blocks = MOST_BLOCKS;
    b->args = (spc_measure_args){
        .from = b->from, .to = b->to, .work = b->work, .blocks = blocks};
    b->launch = (spc__launch){.grid_x = (unsigned)blocks,
                              .grid_y = 1,
                              .block = block,
                              .shared_bytes = shared_bytes};
    return SPC_OK;
}

/* Sums the work that the blocks report. */
static spc_status work_done(fixture *b, double *out)
{
    size_t bytes = (size_t)b->args.blocks * sizeof(long long);
    long long *work = malloc(bytes);
    spc_status status;

    if (work == NULL)
        return spc__fail_memory(spc__error_of(b->ctx), bytes);
    status = spc_memory_download(work, b->ctx, b->work, bytes);
    *out = 0;
    for (int i = 0; i < b->args.blocks && status == SPC_OK; i++)
        *out += (double)work[i];
    free(work);
    return status;
}

/* Raises *best to the work per nanosecond of the chosen kernel. */
static spc_status raise(fixture *b, double *best, bool apart)
{
    double us = 0, apart_us, work = 0;
    spc_status status;

    b->args.repeat = 1;
    while ((status = fastest(b, false, &us)) == SPC_OK && us < b->least_us &&
           b->args.repeat < MOST_REPEATS)
        b->args.repeat *= 4;
    apart_us = us;
    if (status == SPC_OK && apart)
        status = fastest(b, true, &apart_us);
    if (status != SPC_OK || (status = work_done(b, &work)) != SPC_OK)
        return status;
    double rate = work / (1e3 * (apart_us < us ? apart_us : us));
    spc__log_printf(&b->ctx->log, SPC_LOG_DEBUG,
                    "%lld items, row shift %d, scattered %d: %.1f a ns",
                    b->args.items, b->args.row_shift, b->args.scattered, rate);
    if (rate > *best)
        *best = rate;
    return SPC_OK;
}

/* ---- launches ------------------------------------------------------------ */

/*
 * Uses the fastest way to start kernels: each may let its successor start
 * early.
 */
static spc_status measure_launch(fixture *b, double *us)
{
    double plain_us = 0, early_us = 0;
    spc_status status = choose(b, "spc_empty", 32, 0);

    b->launch.grid_x = 1;
    if (status == SPC_OK)
        status = fastest(b, false, &plain_us);
    b->launch.pdl = true;
    if (status == SPC_OK)
        status = fastest(b, false, &early_us);
    *us = early_us < plain_us ? early_us : plain_us;
    if (b->least_us < least_launches * *us)
        b->least_us = least_launches * *us;
    return status;
}

/* ---- memory and caches --------------------------------------------------- */

/* The kinds of streaming, and the figure that each raises. */
static const struct {
    const char *kernel;
    unsigned block;
    size_t shared_bytes;
    size_t figure;
} streams[] = {
    {"spc_read", 256, 0, offsetof(spc_bandwidth, read_gbps)},
    {"spc_read2", 32, 65536 + 64, offsetof(spc_bandwidth, read_gbps)},
    {"spc_write", 256, 0, offsetof(spc_bandwidth, write_gbps)},
    {"spc_copy", 256, 0, offsetof(spc_bandwidth, copy_gbps)},
};

/* Measures read, write and copy with every kernel that the device has; each
 * figure keeps its maximum. */
static spc_status stream(fixture *b, spc_bandwidth *out, size_t bytes,
                         bool scattered)
{
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        spc_status status = choose(b, streams[i].kernel, streams[i].block,
                                   streams[i].shared_bytes);
        if (status == SPC_ENOTFOUND)
            continue;
        b->args.items = (long long)(bytes / 16);
        b->args.scattered = scattered;
        if (status == SPC_OK)
            status =
                raise(b, (double *)((char *)out + streams[i].figure), false);
        if (status != SPC_OK)
            return status;
    }
    return SPC_OK;
}

/*
 * Sizes range from 16 KiB a multiprocessor to a quarter of the cache: a copy
 * has two sets, and a cache in two halves may keep a set twice.
 */
static spc_status measure_cache(fixture *b, spc_bandwidth *out)
{
    size_t bytes = 4096, most = b->ctx->info.cache_bytes / 4;
    spc_status status = SPC_OK;

    while (bytes < (size_t)b->ctx->info.multiprocessors * (8 << 10))
        bytes *= 2;
    do
        status = stream(b, out, bytes, true);
    while (status == SPC_OK && (bytes *= 4) <= most);
    return status;
}

/* ---- gathering ----------------------------------------------------------- */

/* Gathers narrow rows by loads of 8 bytes and others by loads of 16. */
static spc_status gather(fixture *b, double *out, size_t table_bytes, int size,
                         bool scattered)
{
    spc_status status =
        choose(b, size == 0 ? "spc_gather8" : "spc_gather16", 256, 0);

    b->args.row_shift = size == 0 ? 0 : size - 1;
    b->args.items = (long long)(table_bytes >> (size + 3));
    b->args.scattered = scattered;
    return status == SPC_OK ? raise(b, out, false) : status;
}

/* Measures gathers of rows of each size from three distances: from a near
 * cache, from the last-level cache, and from memory. */
static spc_status measure_gather(fixture *b, spc_device_info *out)
{
    size_t far_bytes = 8 << 20;
    spc_status status = SPC_OK;

    /* At most a quarter of the cache, so that the rows stay in it. */
    while (out->cache_bytes > 0 && far_bytes > out->cache_bytes / 4)
        far_bytes /= 2;
    for (int size = 0; size < SPC_GATHER_SIZES; size++)
        if ((status = gather(b, &out->gather_near_gbps[size], NEAR_BYTES, size,
                             false)) != SPC_OK ||
            (status = gather(b, &out->gather_far_gbps[size], far_bytes, size,
                             true)) != SPC_OK ||
            (status = gather(b, &out->gather_cold_gbps[size], b->bytes, size,
                             true)) != SPC_OK)
            break;
    return status;
}

/* ---- multiplying --------------------------------------------------------- */

/* A type without units on the device is computed in fp32. */
static const struct {
    const char *kernel;
    size_t figure;
} shapes[] = {
    {"spc_f32_fma", offsetof(spc_device_info, f32_tflops)},
    {"spc_tf32_256", offsetof(spc_device_info, tf32_tflops)},
    {"spc_tf32_128", offsetof(spc_device_info, tf32_tflops)},
    {"spc_tf32_mma", offsetof(spc_device_info, tf32_tflops)},
    {"spc_f16_256", offsetof(spc_device_info, f16_tflops)},
    {"spc_f16_128", offsetof(spc_device_info, f16_tflops)},
    {"spc_f16_mma", offsetof(spc_device_info, f16_tflops)},
    {"spc_i8_256", offsetof(spc_device_info, i8_tflops)},
    {"spc_i8_128", offsetof(spc_device_info, i8_tflops)},
    {"spc_i8_mma", offsetof(spc_device_info, i8_tflops)},
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/*
 * Bounds the rate of bytes, which no kernel here measures: four bytes take the
 * space of one fp32 (dp4a, vpdpbusd), and matrix units with bytes multiply at
 * least twice as many of them as of binary16.
 */
static void bound_bytes(spc_device_info *out)
{
    out->i8_tflops = larger(out->i8_tflops,
                            larger(2 * out->f16_tflops, 4 * out->f32_tflops));
}

/* Measures the arithmetic of each type, with every shape that the device
 * supports. */
static spc_status measure_rates(fixture *b, spc_device_info *out)
{
    spc_status status = SPC_OK;

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        double *figure = (double *)((char *)out + shapes[i].figure);
        double rate = 0;
        status = choose(b, shapes[i].kernel, 128, 8192);
        if (status == SPC_OK)
            status = raise(b, &rate, true);
        if (status != SPC_OK && status != SPC_ENOTFOUND)
            return status;
        if (rate / 1e3 > *figure)
            *figure = rate / 1e3;
    }
    /* A device without units for a type computes it in f32. */
    if (out->tf32_tflops < out->f32_tflops)
        out->tf32_tflops = out->f32_tflops;
    if (out->f16_tflops < out->f32_tflops)
        out->f16_tflops = out->f32_tflops;
    bound_bytes(out);
    return SPC_OK;
}

static spc_status measure_all(fixture *b, spc_device_info *out)
{
    spc_status status;

    /*
     * Measures rates at the start and at the end: another program on a
     * processor rarely slows both.
     */
    if ((status = measure_launch(b, &out->launch_us)) != SPC_OK ||
        (status = measure_rates(b, out)) != SPC_OK ||
        (status = stream(b, &out->memory, b->bytes, false)) != SPC_OK ||
        (status = measure_cache(b, &out->cache)) != SPC_OK ||
        (status = measure_gather(b, out)) != SPC_OK)
        return status;
    return measure_rates(b, out);
}

/* ---- preparation --------------------------------------------------------- */

/* Returns the module of the device's template with role "measure". */
static spc_status measure_code(spc__code *out, spc_ctx *ctx)
{
    spc__library *library;
    spc__attrs problem = {0};
    spc_status status = spc__ctx_library(&library, ctx);

    spc__attrs_set_text(&problem, "op", "measure");
    for (int i = 0; status == SPC_OK && i < spc__library_count(library); i++) {
        spc__template *tpl = spc__library_at(library, i);
        if (strcmp(spc__template_role(tpl), "measure") == 0 &&
            spc__ctx_serves(ctx, tpl))
            return spc__ctx_code(out, ctx, spc__template_name(tpl), &problem,
                                 NULL, SPC_PLAN_JIT);
    }
    if (status != SPC_OK)
        return status;
    return spc__fail(spc__error_of(ctx), SPC_EUNSUPPORTED,
                     "there is no template of role \"measure\" for %s",
                     ctx->info.id);
}

/* Eight times the cache, but at most an eighth of the memory. */
static size_t bytes_of(const spc_device_info *info)
{
    size_t bytes = LEAST_BYTES;

    while (bytes < MOST_BYTES && bytes < 8 * info->cache_bytes)
        bytes *= 2;
    while (info->memory_bytes > 0 && bytes > info->memory_bytes / 8)
        bytes /= 2;
    return bytes;
}

/* Allocates and fills the arrays. */
static spc_status allocate(fixture *b)
{
    spc__device *device = b->ctx->device;
    const spc__device_ops *ops = spc__device_ops_of(device);
    const struct {
        void **to;
        size_t bytes;
        int byte;
    } blocks[] = {
        {&b->from, b->bytes, 1},
        {&b->to, b->bytes, 1},
        {&b->work, MOST_BLOCKS * sizeof(long long), 0},
    };
    spc_status status = SPC_OK;

    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        if (status == SPC_OK)
            status = spc_memory_alloc(blocks[i].to, b->ctx, blocks[i].bytes);
        if (status == SPC_OK)
            status = ops->fill(device, *blocks[i].to, blocks[i].byte,
                               blocks[i].bytes, NULL, spc__error_of(b->ctx));
    }
    return status;
}

static void release(fixture *b)
{
    spc_memory_free(b->ctx, b->from);
    spc_memory_free(b->ctx, b->to);
    spc_memory_free(b->ctx, b->work);
}

/* ---- storing ------------------------------------------------------------- */

/* Stores the figures for later contexts on devices of this name. */
static void store(spc_ctx *ctx)
{
    spc__attrs facts = {0};
    spc_error error;

    if (ctx->cache == NULL)
        return;
    spc__ceilings_write(&facts, &ctx->info);
    if (spc__cache_put_device(ctx->cache, ctx->info.name, &facts, &error) !=
        SPC_OK)
        spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                        "the device's figures hold for this context only: %s",
                        error.text);
}

spc_status spc_device_measure(spc_ctx *ctx)
{
    spc_status status = spc__need(NULL, __func__, "ctx", ctx, NULL);

    if (status != SPC_OK)
        return status;
    fixture b = {
        .ctx = ctx, .least_us = least_us, .bytes = bytes_of(&ctx->info)};
    spc_device_info info = ctx->info;
    const spc__attrs nothing = {0};

    spc__ceilings_read(&info, &nothing); /* discard earlier measurements */
    if ((status = measure_code(&b.code, b.ctx)) == SPC_OK &&
        (status = allocate(&b)) == SPC_OK &&
        (status = measure_all(&b, &info)) == SPC_OK) {
        ctx->info = info;
        store(ctx);
    }
    release(&b);
    return status;
}
