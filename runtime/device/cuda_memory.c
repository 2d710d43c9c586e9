/* cuda_memory.c - memory of the cuda device, and waiting for its streams. */
#include "cuda_device.h"
#include "error.h"
#include <stdio.h>

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
    snprintf(what, sizeof what, "allocate %zu bytes on %s", bytes, d->info.id);
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
    d->api.MemFree((CUdeviceptr)(uintptr_t)memory);
    spc__cuda_leave(d, pushed);
}

spc_status spc__cuda_copy_in(spc__device *device, void *to, const void *from,
                             size_t bytes, void *stream, spc_error *error)
{
    spc__cuda_device *d = (spc__cuda_device *)device;
    bool pushed;
    spc_status status;

    if (bytes == 0)
        return SPC_OK;
    if ((status = spc__cuda_enter(d, &pushed, error)) != SPC_OK)
        return status;
    status = spc__cuda_check(
        &d->api,
        d->api.MemcpyHtoDAsync((CUdeviceptr)(uintptr_t)to, from, bytes, stream),
        error, "copy to the device");
    spc__cuda_leave(d, pushed);
    return status;
}

spc_status spc__cuda_copy_out(spc__device *device, void *to, const void *from,
                              size_t bytes, void *stream, spc_error *error)
{
    spc__cuda_device *d = (spc__cuda_device *)device;
    bool pushed;
    spc_status status;

    if (bytes == 0)
        return SPC_OK;
    if ((status = spc__cuda_enter(d, &pushed, error)) != SPC_OK)
        return status;
    status = spc__cuda_check(
        &d->api,
        d->api.MemcpyDtoHAsync(to, (CUdeviceptr)(uintptr_t)from, bytes, stream),
        error, "copy from the device");
    spc__cuda_leave(d, pushed);
    return status;
}

spc_status spc__cuda_fill(spc__device *device, void *to, int byte, size_t bytes,
                          void *stream, spc_error *error)
{
    spc__cuda_device *d = (spc__cuda_device *)device;
    bool pushed;
    spc_status status;

    if (bytes == 0)
        return SPC_OK;
    if ((status = spc__cuda_enter(d, &pushed, error)) != SPC_OK)
        return status;
    status = spc__cuda_check(&d->api,
                             d->api.MemsetD8Async((CUdeviceptr)(uintptr_t)to,
                                                  (unsigned char)byte, bytes,
                                                  stream),
                             error, "fill device memory");
    spc__cuda_leave(d, pushed);
    return status;
}

spc_status spc__cuda_sync(spc__device *device, void *stream, spc_error *error)
{
    spc__cuda_device *d = (spc__cuda_device *)device;
    bool pushed;
    spc_status status = spc__cuda_enter(d, &pushed, error);

    if (status != SPC_OK)
        return status;
    status = spc__cuda_check(&d->api, d->api.StreamSynchronize(stream), error,
                             "finish the work on the stream");
    spc__cuda_leave(d, pushed);
    return status;
}
