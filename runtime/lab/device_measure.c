/*
 * device_measure.c - a device's ceilings, measured with the kernels of role
 * "measure" and stored by device class.
 *
 * Nothing here knows how fast the device is: sizes and repetitions grow until
 * a run takes long enough to be measured well, or a bound is reached.
 */
#include "ctx.h"

#include "clock.h"
#include "error.h"
#include "number.h"
#include "random.h"
#include "spc_measure.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES = 9,
    COPY_BYTES = 512 << 20, /* far more than any cache */
    TABLE_BYTES = 8 << 20,  /* well inside the last-level cache */
    LIST_ROWS = 1 << 19,
    WINDOW_ROWS = 16, /* neighbouring rows, as a scene's are */
    MOST_BLOCKS = 65536,
    MOST_REPEATS = 1 << 20,
};

/* A run shorter than this is mostly launch; a copy shorter than that may
 * still be in a cache. */
static const double least_us = 300, least_copy_us = 20000;

typedef struct bed {
    spc_ctx *ctx;
    spc__code code;
    spc__kernel *kernel;
    spc__launch launch;
    spc_measure_args args;
    size_t copy_bytes;
    void *from, *to, *table, *rows, *work;
} bed;

/* ---- running one kernel -------------------------------------------------- */

static spc_status enqueue(void *payload, void *stream)
{
    const bed *b = payload;
    spc__device *device = b->ctx->device;
    spc_status status = spc__ctx_check_cancel(b->ctx);

    if (status != SPC_OK)
        return status;
    return spc__device_ops_of(device)->launch(device, b->kernel, &b->launch,
                                              &b->args, sizeof(b->args), stream,
                                              spc__error_of(b->ctx));
}

static spc_status run(bed *b, double *us)
{
    spc__device *device = b->ctx->device;
    spc__measure what = {enqueue, b, SAMPLES, 0.2, false};
    double samples[SAMPLES];
    int count = SAMPLES;
    spc_status status = spc__device_ops_of(device)->measure(
        device, &what, samples, &count, spc__error_of(b->ctx));

    if (status == SPC_OK)
        *us = spc__median(samples, count);
    return status;
}

/* Every multiprocessor is full: one wave of resident blocks. */
static spc_status choose(bed *b, const char *name, unsigned block,
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
    if (blocks < 1)
        blocks = 1;
    if (blocks > MOST_BLOCKS)
        blocks = MOST_BLOCKS;
    b->args.blocks = blocks;
    b->args.repeat = 1;
    b->launch = (spc__launch){.grid_x = (unsigned)blocks,
                              .grid_y = 1,
                              .block = block,
                              .shared_bytes = shared_bytes};
    return SPC_OK;
}

/* Repeats more and more until a run is long enough. */
static spc_status run_long(bed *b, double *us)
{
    spc_status status;

    while ((status = run(b, us)) == SPC_OK && *us < least_us &&
           b->args.repeat < MOST_REPEATS)
        b->args.repeat *= 4;
    return status;
}

/* ---- the figures --------------------------------------------------------- */

static spc_status measure_launch(bed *b, double *us)
{
    spc_status status = choose(b, "spc_empty", 32, 0);

    b->launch.grid_x = 1;
    return status == SPC_OK ? run(b, us) : status;
}

static spc_status measure_copy(bed *b, double *gbps)
{
    double us = 0;
    spc_status status = choose(b, "spc_copy", 256, 0);

    b->args.from = b->from;
    b->args.to = b->to;
    for (b->args.items = 4096; status == SPC_OK; b->args.items *= 4) {
        if ((size_t)b->args.items * 16 > b->copy_bytes)
            b->args.items = (long long)(b->copy_bytes / 16);
        status = run(b, &us);
        if (us >= least_copy_us || (size_t)b->args.items * 16 >= b->copy_bytes)
            break;
    }
    if (status == SPC_OK)
        *gbps = 2.0 * 16.0 * (double)b->args.items / (us * 1e3);
    return status;
}

/* Row numbers that walk through the table, shuffled within windows of a few
 * rows. Each row comes once in a walk: a repeated one would be answered by the
 * first-level cache. */
static spc_status fill_rows(bed *b, int row_bytes)
{
    int32_t *rows = malloc(LIST_ROWS * sizeof(*rows));
    int table_rows = TABLE_BYTES / row_bytes;
    spc__random random;
    spc_status status;

    if (rows == NULL)
        return spc__fail_memory(spc__error_of(b->ctx),
                                LIST_ROWS * sizeof(*rows));
    spc__random_init(&random, 1);
    for (int i = 0; i < LIST_ROWS; i++) {
        int other = i - (int)spc__random_below(&random, i % WINDOW_ROWS + 1);
        rows[i] = rows[other]; /* Fisher and Yates, inside out */
        rows[other] = i & (table_rows - 1);
    }
    status =
        spc_copy_to_device(b->ctx, b->rows, rows, LIST_ROWS * sizeof(*rows));
    free(rows);
    return status;
}

/* Sums what the blocks say they have done. */
static spc_status work_done(bed *b, double *out)
{
    size_t bytes = (size_t)b->args.blocks * sizeof(long long);
    long long *work = malloc(bytes);
    spc_status status;

    if (work == NULL)
        return spc__fail_memory(spc__error_of(b->ctx), bytes);
    status = spc_copy_to_host(b->ctx, work, b->work, bytes);
    *out = 0;
    for (int i = 0; i < b->args.blocks && status == SPC_OK; i++)
        *out += (double)work[i];
    free(work);
    return status;
}

/* The best of rows of 64 to 512 bytes. */
static spc_status measure_gather(bed *b, double *gbps)
{
    spc_status status = choose(b, "spc_gather", 256, 0);

    b->args.from = b->table;
    b->args.to = b->to;
    b->args.rows = b->rows;
    b->args.items = LIST_ROWS;
    for (int shift = 2; shift <= 5 && status == SPC_OK; shift++) {
        double us = 0, bytes = 0;
        b->args.row_shift = shift;
        b->args.repeat = 1;
        if ((status = fill_rows(b, 16 << shift)) != SPC_OK ||
            (status = run_long(b, &us)) != SPC_OK ||
            (status = work_done(b, &bytes)) != SPC_OK)
            break;
        spc__log_printf(&b->ctx->log, SPC_LOG_DEBUG,
                        "gather of %d-byte rows: %.0f GB/s", 16 << shift,
                        bytes / (us * 1e3));
        if (bytes / (us * 1e3) > *gbps)
            *gbps = bytes / (us * 1e3);
    }
    return status;
}

/* A type that the device has no units for is computed in fp32: *tflops keeps
 * what it holds. */
static spc_status measure_rate(bed *b, const char *name, double *tflops)
{
    double us = 0, done = 0;
    spc_status status = choose(b, name, 128, 8192);

    if (status == SPC_ENOTFOUND)
        return SPC_OK;
    b->args.to = b->to;
    b->args.row_shift = 0;
    if (status == SPC_OK && (status = run_long(b, &us)) == SPC_OK)
        status = work_done(b, &done);
    if (status == SPC_OK)
        *tflops = done / (us * 1e6);
    return status;
}

static spc_status measure_all(bed *b, spc_device_info *out)
{
    spc_status status;

    if ((status = measure_launch(b, &out->launch_us)) != SPC_OK ||
        (status = measure_copy(b, &out->copy_gbps)) != SPC_OK ||
        (status = measure_gather(b, &out->gather_gbps)) != SPC_OK ||
        (status = measure_rate(b, "spc_rate_f32", &out->f32_tflops)) != SPC_OK)
        return status;
    out->f16_tflops = out->tf32_tflops = out->f32_tflops;
    if ((status = measure_rate(b, "spc_rate_tf32", &out->tf32_tflops)) !=
        SPC_OK)
        return status;
    return measure_rate(b, "spc_rate_f16", &out->f16_tflops);
}

/* ---- preparation --------------------------------------------------------- */

static spc_status find_code(bed *b)
{
    spc_ctx *ctx = b->ctx;
    spc__library *library;
    spc__attrs problem = {0};
    spc_status status = spc__ctx_library(&library, ctx);

    spc__attrs_set_text(&problem, "op", "measure");
    for (int i = 0; status == SPC_OK && i < spc__library_count(library); i++) {
        spc__template *tpl = spc__library_at(library, i);
        if (strcmp(spc__template_role(tpl), "measure") == 0 &&
            spc__ctx_serves(ctx, tpl))
            return spc__ctx_code(&b->code, ctx, spc__template_name(tpl),
                                 &problem, NULL, SPC_PLAN_JIT);
    }
    if (status != SPC_OK)
        return status;
    return spc__fail(spc__error_of(ctx), SPC_EUNSUPPORTED,
                     "there is no template of role \"measure\" for %s",
                     ctx->info.id);
}

/* At most an eighth of the memory for each side of the copy. */
static size_t copy_bytes_of(const spc_device_info *info)
{
    size_t bytes = COPY_BYTES;
    while (info->memory_bytes > 0 && bytes > info->memory_bytes / 8)
        bytes /= 2;
    return bytes;
}

static spc_status allocate(bed *b)
{
    spc__device *device = b->ctx->device;
    const spc__device_ops *ops = spc__device_ops_of(device);
    const struct {
        void **to;
        size_t bytes;
    } blocks[] = {
        {&b->from, b->copy_bytes},
        {&b->to, b->copy_bytes},
        {&b->table, TABLE_BYTES},
        {&b->rows, LIST_ROWS * sizeof(int32_t)},
        {&b->work, MOST_BLOCKS * sizeof(long long)},
    };
    spc_status status = SPC_OK;

    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        if (status == SPC_OK)
            status = spc_alloc(blocks[i].to, b->ctx, blocks[i].bytes);
        if (status == SPC_OK)
            status = ops->fill(device, *blocks[i].to, 1, blocks[i].bytes, NULL,
                               spc__error_of(b->ctx));
    }
    b->args.work = b->work;
    return status;
}

static void release(bed *b)
{
    spc_dealloc(b->ctx, b->from);
    spc_dealloc(b->ctx, b->to);
    spc_dealloc(b->ctx, b->table);
    spc_dealloc(b->ctx, b->rows);
    spc_dealloc(b->ctx, b->work);
}

/* ---- storing ------------------------------------------------------------- */

static void set_figure(spc__attrs *facts, const char *name, double value)
{
    char text[SPC__ATTR_TEXT];

    spc__number_print(text, sizeof(text), 6, value);
    /* "+" of an exponent is no attribute character; such values are absurd. */
    if (strchr(text, '+') == NULL)
        spc__attrs_set_text(facts, name, text);
}

static void store(spc_ctx *ctx)
{
    const spc_device_info *info = &ctx->info;
    spc__attrs facts = {0};
    spc_error error;

    if (ctx->cache == NULL)
        return;
    set_figure(&facts, "copy_gbps", info->copy_gbps);
    set_figure(&facts, "gather_gbps", info->gather_gbps);
    set_figure(&facts, "f16_tflops", info->f16_tflops);
    set_figure(&facts, "tf32_tflops", info->tf32_tflops);
    set_figure(&facts, "f32_tflops", info->f32_tflops);
    set_figure(&facts, "launch_us", info->launch_us);
    if (spc__cache_put_device(ctx->cache, info->name, &facts, &error) != SPC_OK)
        spc__log_printf(&ctx->log, SPC_LOG_WARNING,
                        "the device's figures hold for this context only: %s",
                        error.text);
}

spc_status spc_device_measure(spc_ctx *ctx)
{
    spc_status status = spc__need(NULL, __func__, "ctx", ctx, NULL);

    if (status != SPC_OK)
        return status;
    bed b = {.ctx = ctx, .copy_bytes = copy_bytes_of(&ctx->info)};
    spc_device_info info = ctx->info;

    info.gather_gbps = 0; /* the best of several is kept */
    if ((status = find_code(&b)) == SPC_OK &&
        (status = allocate(&b)) == SPC_OK &&
        (status = measure_all(&b, &info)) == SPC_OK) {
        ctx->info = info;
        store(ctx);
    }
    release(&b);
    return status;
}
