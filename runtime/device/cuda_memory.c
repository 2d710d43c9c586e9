/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_memory.c - memory of the cuda device, and waiting for its streams. */
#include "base/error.h"
#include "device/cuda_device.h"
#include <stdio.h>
#include <string.h>

/* Sets and maps of a large network leave some 100 KB. */
#define STAGING_LEAST (64 << 10)

spc_status spc__cuda_alloc(spc__device *device, void **out, size_t bytes,
                           spc_error *error)
{
    spc__cuda_device *d = (spc__cuda_device *)device;
    CUdeviceptr memory = 0;
    char what[80];
    bool pushed;
    spc_status status = spc__cuda_enter(d, &pushed, error);

    *out = NULL;
    if (status != SPC_OK)
        return status;
    if (spc__is_hooked(&d->memory)) {
        status = spc__hooked_alloc(&d->memory, out, bytes, error);
        spc__cuda_leave(d, pushed);
        return status;
    }
    snprintf(what, sizeof what, "allocate %zu bytes on %s", bytes, d->info.id);
    /* The driver refuses 0 bytes, while an empty set is valid. */
    status = spc__cuda_check(
        &d->api, d->api.MemAlloc(&memory, bytes ? bytes : 1), error, what);
    if (status == SPC_OK)
        *out = (void *)(uintptr_t)memory;
    spc__cuda_leave(d, pushed);
    return status;
}

void spc__cuda_dealloc(spc__device *device, void *memory)
{
    spc__cuda_device *d = (spc__cuda_device *)device;
    bool pushed;

    if (!memory || spc__cuda_enter(d, &pushed, NULL) != SPC_OK)
        return;
    if (spc__is_hooked(&d->memory)) {
        /* cuMemFree waits for all work; an ordered allocator need not. */
        if (!d->memory.hook.ordered)
            d->api.CtxSynchronize();
        spc__hooked_free(&d->memory, memory);
    } else {
        d->api.MemFree((CUdeviceptr)(uintptr_t)memory);
    }
    spc__cuda_leave(d, pushed);
}

/* Leaves the context after the call that returned `result`. */
static spc_status end_call(const spc__cuda_device *d, bool pushed,
                           CUresult result, const char *what, spc_error *error)
{
    spc_status status = spc__cuda_check(&d->api, result, error, what);

    spc__cuda_leave(d, pushed);
    return status;
}

spc_status spc__cuda_copy_in(spc__device *device, void *to, const void *from,
                             size_t bytes, void *stream, spc_error *error)
{
    spc__cuda_device *d = (spc__cuda_device *)device;
    bool pushed;
    spc_status status = SPC_OK;

    if (bytes == 0 || (status = spc__cuda_enter(d, &pushed, error)) != SPC_OK)
        return status;
    return end_call(
        d, pushed,
        d->api.MemcpyHtoDAsync((CUdeviceptr)(uintptr_t)to, from, bytes, stream),
        "copy to the device", error);
}

spc_status spc__cuda_copy_out(spc__device *device, void *to, const void *from,
                              size_t bytes, void *stream, spc_error *error)
{
    spc__cuda_device *d = (spc__cuda_device *)device;
    bool pushed;
    spc_status status = SPC_OK;

    if (bytes == 0 || (status = spc__cuda_enter(d, &pushed, error)) != SPC_OK)
        return status;
    return end_call(
        d, pushed,
        d->api.MemcpyDtoHAsync(to, (CUdeviceptr)(uintptr_t)from, bytes, stream),
        "copy from the device", error);
}

/* ---- small copies -------------------------------------------------------- */

void spc__cuda_free_staging(spc__cuda_device *d)
{
    bool pushed;

    if (d->staging == NULL || spc__cuda_enter(d, &pushed, NULL) != SPC_OK)
        return;
    d->api.MemFreeHost(d->staging);
    spc__cuda_leave(d, pushed);
    d->staging = NULL;
    d->staging_bytes = 0;
}

/*
 * Gives the device pinned memory of this size. Each copy to pageable memory
 * waits for the stream, so several copies are as slow as several
 * synchronisations.
 */
static CUresult need_staging(spc__cuda_device *d, size_t bytes)
{
    size_t room = bytes > STAGING_LEAST ? bytes : STAGING_LEAST;

    if (bytes <= d->staging_bytes)
        return CUDA_SUCCESS;
    spc__cuda_free_staging(d);
    CUresult result = d->api.MemHostAlloc(&d->staging, room, 0);
    if (result == CUDA_SUCCESS)
        d->staging_bytes = room;
    else
        d->staging = NULL;
    return result;
}

static size_t padded(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

static CUresult copy_parts(spc__cuda_device *d, const spc__part *parts,
                           int count, CUstream stream)
{
    size_t bytes = 0, at = 0;

    for (int i = 0; i < count; i++)
        bytes += padded(parts[i].bytes);
    CUresult waited, result = need_staging(d, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    char *staging = d->staging;
    for (int i = 0; i < count && result == CUDA_SUCCESS; i++) {
        if (parts[i].bytes > 0)
            result = d->api.MemcpyDtoHAsync(
                staging + at, (CUdeviceptr)(uintptr_t)parts[i].from,
                parts[i].bytes, stream);
        at += padded(parts[i].bytes);
    }
    /* Also after a failure: copies that were begun write to this memory. */
    waited = d->api.StreamSynchronize(stream);
    if (result == CUDA_SUCCESS)
        result = waited;
    at = 0;
    for (int i = 0; i < count && result == CUDA_SUCCESS; i++) {
        memcpy(parts[i].to, staging + at, parts[i].bytes);
        at += padded(parts[i].bytes);
    }
    return result;
}

spc_status spc__cuda_collect(spc__device *device, const spc__part *parts,
                             int count, void *stream, spc_error *error)
{
    spc__cuda_device *d = (spc__cuda_device *)device;
    bool pushed;
    spc_status status = spc__cuda_enter(d, &pushed, error);

    if (status != SPC_OK)
        return status;
    /* The staging memory is shared by all streams. */
    pthread_mutex_lock(&d->staging_lock);
    CUresult result = copy_parts(d, parts, count, stream);
    pthread_mutex_unlock(&d->staging_lock);
    return end_call(d, pushed, result, "copy from the device", error);
}

spc_status spc__cuda_fill(spc__device *device, void *to, int byte, size_t bytes,
                          void *stream, spc_error *error)
{
    spc__cuda_device *d = (spc__cuda_device *)device;
    bool pushed;
    spc_status status = SPC_OK;

    if (bytes == 0 || (status = spc__cuda_enter(d, &pushed, error)) != SPC_OK)
        return status;
    return end_call(d, pushed,
                    d->api.MemsetD8Async((CUdeviceptr)(uintptr_t)to,
                                         (unsigned char)byte, bytes, stream),
                    "fill device memory", error);
}

spc_status spc__cuda_sync(spc__device *device, void *stream, spc_error *error)
{
    spc__cuda_device *d = (spc__cuda_device *)device;
    bool pushed;
    spc_status status = spc__cuda_enter(d, &pushed, error);

    return status != SPC_OK
               ? status
               : end_call(d, pushed, d->api.StreamSynchronize(stream),
                          "finish the work on the stream", error);
}

spc_status spc__cuda_drain(spc__device *device, spc_error *error)
{
    spc__cuda_device *d = (spc__cuda_device *)device;
    bool pushed;
    spc_status status = spc__cuda_enter(d, &pushed, error);

    return status != SPC_OK ? status
                            : end_call(d, pushed, d->api.CtxSynchronize(),
                                       "finish the work on all streams", error);
}
