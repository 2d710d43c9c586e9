/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - the kernel of role "digest", and its computation on the host. */
#include "lab/sample/digest.h"

#include "base/error.h"
#include "templates/shared/spc_digest.h"
#include <stdlib.h>
#include <string.h>

/* The least units for a thread, and the most blocks for each processor. */
enum { UNITS_PER_THREAD = 16, BLOCKS_PER_PROCESSOR = 4 };

struct spc__digester {
    spc_ctx *ctx;
    spc__kernel *kernel; /* NULL: digests are computed on the host */
    unsigned *sums;      /* results on the device, two for each array */
    uint64_t at_host[SPC__DIGESTS_MAX];
    int count;
};

static uint64_t join(unsigned first, unsigned second)
{
    return (uint64_t)first << 32 | second;
}

uint64_t spc__digest_host(const void *data, size_t bytes)
{
    const unsigned char *all = data;
    unsigned first = 0, second = 0;
    unsigned short unit;

    for (size_t i = 0; i < bytes / sizeof(unit); i++) {
        memcpy(&unit, all + i * sizeof(unit), sizeof(unit));
        SPC_DIGEST_ADD(first, second, unit, i);
    }
    /* An odd array: the device reads a byte of its zone together with the last
     * one. */
    if (bytes % sizeof(unit) != 0) {
        unsigned last = all[bytes - 1] | (unsigned)SPC__DIGEST_PAD << 8;
        SPC_DIGEST_ADD(first, second, last, bytes / sizeof(unit));
    }
    return join(first, second);
}

/* Finds the device's digest kernel. A device without one has its arrays
 * digested on the host. */
static spc_status find_kernel(spc__digester *d)
{
    spc_ctx *ctx = d->ctx;
    spc__library *library;
    spc__attrs problem = {0};
    spc__code code;
    spc_status status = spc__ctx_library(&library, ctx);

    spc__attrs_set_text(&problem, "op", "digest");
    for (int i = 0; status == SPC_OK && i < spc__library_count(library); i++) {
        spc__template *tpl = spc__library_at(library, i);
        if (strcmp(spc__template_role(tpl), "digest") != 0 ||
            !spc__ctx_serves(ctx, tpl))
            continue;
        status = spc__ctx_code(&code, ctx, spc__template_name(tpl), &problem,
                               NULL, SPC_PLAN_JIT);
        return status == SPC_OK
                   ? spc__ctx_kernel(&d->kernel, ctx, &code, "spc_digest", 0)
                   : status;
    }
    return status == SPC_OK ? SPC_ENOTFOUND : status;
}

spc_status spc__digester_create(spc__digester **out, spc_ctx *ctx)
{
    spc__digester *d = calloc(1, sizeof(*d));
    spc_status status;

    *out = d;
    if (d == NULL)
        return spc__fail_memory(spc__error_of(ctx), sizeof(*d));
    d->ctx = ctx;
    if ((status = find_kernel(d)) != SPC_OK) {
        /* Otherwise a device without the kernel compares on the host. */
        if (status == SPC_EINTERRUPTED)
            return status;
        spc__log_printf(&ctx->log, SPC_LOG_DEBUG,
                        "results are compared on the host: %s",
                        spc_ctx_error(ctx));
        d->kernel = NULL;
        return SPC_OK;
    }
    return spc_memory_alloc((void **)&d->sums, ctx,
                            SPC__DIGESTS_MAX * 2 * sizeof(*d->sums));
}

void spc__digester_free(spc__digester *d)
{
    if (d == NULL)
        return;
    spc_memory_free(d->ctx, d->sums);
    free(d);
}

spc_status spc__digester_begin(spc__digester *d)
{
    d->count = 0;
    if (d->kernel == NULL)
        return SPC_OK;
    return spc__device_ops_of(d->ctx->device)
        ->fill(d->ctx->device, d->sums, 0,
               SPC__DIGESTS_MAX * 2 * sizeof(*d->sums), NULL,
               spc__error_of(d->ctx));
}

/* Digests an array on the host; this must wait for the device. */
static spc_status add_at_host(spc__digester *d, const void *data, size_t bytes)
{
    void *copy = malloc(bytes + 1);
    spc_status status;

    if (copy == NULL)
        return spc__fail_memory(spc__error_of(d->ctx), bytes);
    if ((status = spc_ctx_synchronize(d->ctx)) == SPC_OK &&
        (status = spc_memory_download(copy, d->ctx, data, bytes)) == SPC_OK)
        d->at_host[d->count++] = spc__digest_host(copy, bytes);
    free(copy);
    return status;
}

static int blocks_for(const spc_ctx *ctx, long long units)
{
    long long wanted = units / (UNITS_PER_THREAD * SPC_DIGEST_THREADS) + 1;
    long long most =
        (long long)BLOCKS_PER_PROCESSOR *
        (ctx->info.multiprocessors > 0 ? ctx->info.multiprocessors : 1);
    return (int)(wanted < most ? wanted : most);
}

spc_status spc__digester_add(spc__digester *d, const void *data, size_t bytes)
{
    spc__device *device = d->ctx->device;
    spc_digest_args args = {data, NULL, (long long)(bytes + 1) / 2, 1};

    if (d->count == SPC__DIGESTS_MAX)
        return spc__fail(spc__error_of(d->ctx), SPC_EINTERNAL,
                         "more than %d digests at once", SPC__DIGESTS_MAX);
    if (d->kernel == NULL)
        return add_at_host(d, data, bytes);
    /* Each array has its own sums, so that nothing waits before the end. */
    args.sums = d->sums + 2 * d->count++;
    args.blocks = blocks_for(d->ctx, args.units);
    spc__launch launch = {.grid_x = (unsigned)args.blocks,
                          .grid_y = 1,
                          .block = SPC_DIGEST_THREADS};
    return spc__device_ops_of(device)->launch(device, d->kernel, &launch, &args,
                                              sizeof(args), NULL,
                                              spc__error_of(d->ctx));
}

spc_status spc__digester_end(spc__digester *d, uint64_t *out)
{
    unsigned sums[2 * SPC__DIGESTS_MAX];
    spc_status status = spc_ctx_synchronize(d->ctx);

    if (status != SPC_OK)
        return status;
    if (d->kernel == NULL) {
        memcpy(out, d->at_host, (size_t)d->count * sizeof(*out));
        return SPC_OK;
    }
    status = spc_memory_download(sums, d->ctx, d->sums,
                                 (size_t)d->count * 2 * sizeof(*sums));
    for (int i = 0; i < d->count && status == SPC_OK; i++)
        out[i] = join(sums[2 * i], sums[2 * i + 1]);
    return status;
}
