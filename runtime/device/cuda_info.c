/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_info.c - lists the cuda devices and their properties. */
#include "base/error.h"
#include "device/cuda_device.h"
#include <stdio.h>
#include <string.h>

/* If the driver does not report a property, the call fails. Otherwise the
 * device would be tuned, and recorded, as a different one. */
spc_status spc__cuda_attribute(int *out, const spc__cuda *api, CUdevice device,
                               int which, spc_error *error)
{
    *out = 0;
    return spc__cuda_check(api, api->DeviceGetAttribute(out, which, device),
                           error, "read the device's attributes");
}

spc_status spc__cuda_capability(int *out, const spc__cuda *api, CUdevice device,
                                spc_error *error)
{
    int major, minor = 0;
    spc_status status = spc__cuda_attribute(
        &major, api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        error);

    if (status == SPC_OK)
        status = spc__cuda_attribute(
            &minor, api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            error);
    *out = 10 * major + minor;
    return status;
}

spc_status spc__cuda_describe(spc_device_info *out, const spc__cuda *api,
                              CUdevice device, int ordinal, spc_error *error)
{
    int sm, version = 0, cache_bytes;
    spc_status status;

    memset(out, 0, sizeof *out);
    snprintf(out->id, sizeof out->id, "cuda:%d", ordinal);
    if (api->DriverGetVersion(&version) == CUDA_SUCCESS)
        snprintf(out->driver, sizeof out->driver, "%d.%d", version / 1000,
                 version % 1000 / 10);
    if ((status = spc__cuda_check(
             api, api->DeviceGetName(out->name, sizeof out->name - 1, device),
             error, "read the device's name")) != SPC_OK ||
        (status = spc__cuda_check(
             api, api->DeviceTotalMem(&out->memory_bytes, device), error,
             "read the size of the device's memory")) != SPC_OK ||
        (status = spc__cuda_attribute(&out->multiprocessors, api, device,
                                      CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                      error)) != SPC_OK ||
        (status = spc__cuda_attribute(&cache_bytes, api, device,
                                      CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
                                      error)) != SPC_OK ||
        (status = spc__cuda_capability(&sm, api, device, error)) != SPC_OK)
        return status;
    out->cache_bytes = (size_t)cache_bytes;
    /* Only the "a" target of compute capability 9.0 has instructions (wgmma)
     * that our templates use; its code runs on 9.0 alone anyway. */
    snprintf(out->target, sizeof out->target, "sm_%d%s", sm,
             sm == 90 ? "a" : "");
    return SPC_OK;
}

/* Two transfers a clock (in kHz), of the bus (in bits). A driver that does not
 * report them leaves the bandwidth unknown: it only orders other devices by how
 * near they are. */
double spc__cuda_memory_gbps(const spc__device *device)
{
    const spc__cuda_device *d = (const spc__cuda_device *)device;
    int clock = 0, bits = 0;

    if (spc__cuda_attribute(&clock, &d->api, d->handle,
                            CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
                            NULL) != SPC_OK ||
        spc__cuda_attribute(&bits, &d->api, d->handle,
                            CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
                            NULL) != SPC_OK)
        return 0;
    return 2e3 * clock * (bits / 8.0) / 1e9;
}

/* Stops at the first device that does not answer. */
int spc__cuda_list(spc_device_info *out, int capacity)
{
    spc__cuda api;
    CUdevice device;
    int count = 0;

    if (spc__cuda_open(&api, NULL) != SPC_OK)
        return 0;
    if (api.DeviceGetCount(&count) != CUDA_SUCCESS)
        count = 0;
    for (int i = 0; i < count && i < capacity; i++)
        if (api.DeviceGet(&device, i) != CUDA_SUCCESS ||
            spc__cuda_describe(&out[i], &api, device, i, NULL) != SPC_OK)
            count = i;
    spc__cuda_close(&api);
    return count;
}
