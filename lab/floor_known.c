/* SPDX-License-Identifier: Apache-2.0 */
/* floor_known.c - the floor of a layer on a device that is not installed. */
#include "base/error.h"
#include "context/ceilings.h"
#include "context/ctx.h"
#include "lab/floor.h"
#include "spc/lab.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

void spc__floor_device(spc_device_info *out, const spc_ctx *ctx,
                       const char *device)
{
    spc__attrs facts;
    spc_error error;

    memset(out, 0, sizeof(*out));
    snprintf(out->name, sizeof(out->name), "%s", device);
    if (ctx->cache == NULL ||
        spc__cache_get_device(ctx->cache, device, &facts, &error) != SPC_OK)
        return;
    out->multiprocessors = (int)spc__attrs_number(&facts, "measured_units", 0);
    spc__ceilings_read(out, &facts);
}

spc_status spc_bench_floor(spc_bench_result *out, spc_ctx *ctx,
                           const char *device, const spc_conv *conv,
                           double rows_in, double rows_out, double density)
{
    spc_error *error = spc__error_of(ctx);
    spc_device_info info;
    spc__floor floor;
    spc_status status = spc__need(error, __func__, "out", out, "ctx", ctx,
                                  "device", device, "conv", conv, NULL);

    if (status != SPC_OK || (status = spc_conv_check(conv, error)) != SPC_OK)
        return status;
    memset(out, 0, sizeof(*out));
    int offsets = spc__conv_offsets(conv);
    double pairs = round(density * rows_out * offsets);
    spc__work work = {.conv = conv,
                      .rows_in = (int64_t)fmin(rows_in, pairs),
                      .rows_out = (int64_t)rows_out,
                      .pairs = (int64_t)pairs,
                      .offsets = (int)fmin(offsets, pairs)};
    spc__floor_device(&info, ctx, device);
    spc__floor_compute(&floor, &work, &info);
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
