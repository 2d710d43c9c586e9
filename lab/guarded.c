/* SPDX-License-Identifier: Apache-2.0 */
/* guarded.c - arrays on a device between guard zones. */
#include "lab/guarded.h"

#include "base/error.h"
#include "lab/judge.h"
#include <stdlib.h>
#include <string.h>

enum { LEAST_ZONE = 4096, LEAST_FAR_ZONE = 64 * 1024, ZONE_ROWS = 256 };

static size_t round_up(size_t bytes)
{
    return (bytes + SPC__ALIGN_TIMED - 1) / SPC__ALIGN_TIMED * SPC__ALIGN_TIMED;
}

void spc__guards_init(spc__guards *out, spc_ctx *ctx, size_t row_bytes)
{
    size_t rows = ZONE_ROWS * row_bytes;

    *out = (spc__guards){
        .ctx = ctx,
        .ops = spc__device_ops_of(ctx->device),
        .zone_bytes = {
            round_up(rows > LEAST_ZONE ? rows : LEAST_ZONE),
            round_up(rows > LEAST_FAR_ZONE ? rows : LEAST_FAR_ZONE)}};
}

static spc_status fill(const spc__guards *guards, void *to, int byte,
                       size_t bytes)
{
    if (bytes == 0)
        return SPC_OK;
    return guards->ops->fill(guards->ctx->device, to, byte, bytes, NULL,
                             spc__error_of(guards->ctx));
}

void spc__guarded_release(const spc__guards *guards, spc__guarded *arrays,
                          int count)
{
    for (int i = 0; i < count; i++) {
        spc_memory_free(guards->ctx, arrays[i].base);
        arrays[i] = (spc__guarded){.is_far = arrays[i].is_far};
    }
}

/* A candidate that needs more than the device has at all is refused. A failed
 * allocation of less is trouble of the device and not the candidate's. */
static spc_status check_size(spc_ctx *ctx, size_t bytes)
{
    const spc_device_info *info = &ctx->info;

    return info->memory_bytes == 0 || bytes <= info->memory_bytes
               ? SPC_OK
               : spc__fail(spc__error_of(ctx), SPC_ECAPACITY,
                           "memory: an array needs %zu bytes, and %s has %zu",
                           bytes, info->id, info->memory_bytes);
}

spc_status spc__guarded_reserve(const spc__guards *guards, spc__guarded *to,
                                size_t bytes)
{
    size_t zone = guards->zone_bytes[to->is_far];

    if (to->base != NULL && bytes <= to->capacity)
        return SPC_OK;
    if (check_size(guards->ctx, bytes) != SPC_OK)
        return SPC_ECAPACITY;
    /* Frees the old array first, as the device may not have room for both. */
    spc__guarded_release(guards, to, 1);
    to->capacity = round_up(bytes);
    /* SPC__ALIGN_TIMED more, as the data may begin up to that far behind the
     * zone. */
    spc_status status =
        spc_memory_alloc((void **)&to->base, guards->ctx,
                         to->capacity + 2 * zone + SPC__ALIGN_TIMED);
    to->data = status == SPC_OK ? to->base + zone : NULL;
    return status;
}

char *spc__guarded_zone(const spc__guards *guards, const spc__guarded *of)
{
    return of->data - guards->zone_bytes[of->is_far];
}

char *spc__guarded_end(const spc__guarded *of)
{
    /* Digests count in units of two bytes. */
    return of->data + (of->bytes + 1) / 2 * 2;
}

spc_status spc__guarded_lay(const spc__guards *guards, spc__guarded *to,
                            size_t bytes, size_t behind)
{
    spc_status status = spc__guarded_reserve(guards, to, bytes);

    if (status != SPC_OK)
        return status;
    size_t zone = guards->zone_bytes[to->is_far];
    to->bytes = bytes;
    to->data = to->base + zone + behind;
    /* Fills the zones each time: the data has moved, so a zone may contain old
     * data. */
    if ((status = fill(guards, to->data - zone, SPC__ZONE_BYTE, zone)) !=
        SPC_OK)
        return status;
    return fill(guards, to->data + bytes, SPC__ZONE_BYTE, zone + bytes % 2);
}

spc_status spc__guarded_fill(const spc__guards *guards, const spc__guarded *to,
                             int byte)
{
    return fill(guards, to->data, byte, to->bytes);
}

spc_status spc__guarded_clear(const spc__guards *guards, spc__guarded *to,
                              size_t bytes, size_t behind)
{
    spc_status status = spc__guarded_lay(guards, to, bytes, behind);

    return status == SPC_OK ? spc__guarded_fill(guards, to, SPC__ZONE_BYTE)
                            : status;
}

spc_status spc__guarded_encode(const spc__guards *guards, spc__guarded *to,
                               const spc__operand *as, const float *from,
                               size_t behind)
{
    char *image = malloc(as->bytes + 1);
    spc_status status;

    if (image == NULL)
        return spc__fail_memory(spc__error_of(guards->ctx), as->bytes);
    spc__encode_rows(image, as, from);
    if ((status = spc__guarded_lay(guards, to, as->bytes, behind)) == SPC_OK)
        status = spc_memory_upload(to->data, guards->ctx, image, as->bytes);
    free(image);
    return status;
}

static bool is_pattern(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != SPC__ZONE_BYTE)
            return false;
    return true;
}

/* *written: -1 for a write before the array, 1 for a write after it. */
static spc_status check_one(int *written, const spc__guards *guards,
                            const spc__guarded *of)
{
    size_t zone = guards->zone_bytes[of->is_far];
    /* The second zone may begin with the byte between. */
    size_t behind = zone + of->bytes % 2;
    unsigned char *copy = malloc(behind);
    spc_status status;

    *written = 0;
    if (copy == NULL)
        return spc__fail_memory(spc__error_of(guards->ctx), behind);
    status = spc_memory_download(copy, guards->ctx,
                                 spc__guarded_zone(guards, of), zone);
    if (status == SPC_OK && !is_pattern(copy, zone))
        *written = -1;
    else if (status == SPC_OK)
        status = spc_memory_download(copy, guards->ctx, of->data + of->bytes,
                                     behind);
    if (status == SPC_OK && *written == 0 && !is_pattern(copy, behind))
        *written = 1;
    free(copy);
    return status;
}

spc_status spc__guarded_check(int *written, int *which,
                              const spc__guards *guards,
                              const spc__guarded *arrays, int count)
{
    spc_status status = SPC_OK;

    *written = 0;
    for (int i = 0; i < count && status == SPC_OK && *written == 0; i++) {
        status = check_one(written, guards, &arrays[i]);
        *which = i;
    }
    return status;
}
