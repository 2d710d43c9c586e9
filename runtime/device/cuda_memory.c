/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_memory.c - memory of the cuda device, and waiting for its streams. */
#include "base/error.h"
#include "device/cuda_device.h"
#include <stdio.h>
#include <stdlib.h>
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

/* A block of pinned memory, as a member of the device's list. */
struct spc__cuda_staging {
    spc__cuda_staging *next;
    size_t bytes;
    void *memory;
};

static void free_block(const spc__cuda_device *d, spc__cuda_staging *block)
{
    if (block->memory != NULL)
        d->api.MemFreeHost(block->memory);
    free(block);
}

void spc__cuda_free_staging(spc__cuda_device *d)
{
    bool pushed;

    if (d->staging == NULL || spc__cuda_enter(d, &pushed, NULL) != SPC_OK)
        return;
    while (d->staging != NULL) {
        spc__cuda_staging *block = d->staging;

        d->staging = block->next;
        free_block(d, block);
    }
    spc__cuda_leave(d, pushed);
}

/*
 * Gives the caller a block of at least this size, which it alone uses. Each
 * copy to pageable memory waits for the stream, so several copies are as slow
 * as several synchronisations.
 */
static CUresult take_block(spc__cuda_staging **out, spc__cuda_device *d,
                           size_t bytes)
{
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&d->staging_lock);
    spc__cuda_staging *block = d->staging;
    if (block != NULL)
        d->staging = block->next;
    pthread_mutex_unlock(&d->staging_lock);
    if (block != NULL && block->bytes < bytes) {
        free_block(d, block);
        block = NULL;
    }
    if (block == NULL) {
        block = calloc(1, sizeof(*block));
        if (block == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        block->bytes = bytes > STAGING_LEAST ? bytes : STAGING_LEAST;
        result = d->api.MemHostAlloc(&block->memory, block->bytes, 0);
        if (result != CUDA_SUCCESS) {
            free(block);
            return result;
        }
    }
    *out = block;
    return CUDA_SUCCESS;
}

/* There are never more blocks than calls that ran at the same time. */
static void return_block(spc__cuda_device *d, spc__cuda_staging *block)
{
    pthread_mutex_lock(&d->staging_lock);
    block->next = d->staging;
    d->staging = block;
    pthread_mutex_unlock(&d->staging_lock);
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
    spc__cuda_staging *block;
    CUresult waited, result = take_block(&block, d, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    char *staging = block->memory;
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
    return_block(d, block);
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
    return end_call(d, pushed, copy_parts(d, parts, count, stream),
                    "copy from the device", error);
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
