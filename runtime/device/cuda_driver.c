/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_driver.c - opens libcuda and words its errors. */
#include "device/cuda_driver.h"
#include "base/error.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A driver that lacks some calls may still have the calls that count GPUs. */
static bool has_gpu(const spc__cuda *cuda)
{
    int count = 0;

    return cuda->Init != NULL && cuda->DeviceGetCount != NULL &&
           cuda->Init(0) == CUDA_SUCCESS &&
           cuda->DeviceGetCount(&count) == CUDA_SUCCESS && count > 0;
}

/* Finds the driver's functions and names one that is missing. */
static spc_status resolve(spc__cuda *cuda, spc_error *error)
{
    const char *missing = NULL;
    struct {
        const char *symbol;
        void *member;
    } table[] = {
#define X(member, symbol, params) {symbol, &cuda->member},
        SPC__CUDA_MAP(X)
#undef X
    };

    /* All symbols are looked up even after a missing one, since has_gpu() uses
     * the symbols that were found. */
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        void *address = dlsym(cuda->handle, table[i].symbol);
        if (!address)
            missing = table[i].symbol;
        /* ISO C has no cast from object to function pointer. */
        memcpy(table[i].member, &address, sizeof address);
    }
    if (missing == NULL)
        return SPC_OK;
    return spc__fail(error, has_gpu(cuda) ? SPC_EDEVICE : SPC_ENODEVICE,
                     "the CUDA driver is too old: it has no %s; version 520 "
                     "(CUDA 11.8) or newer is needed",
                     missing);
}

spc_status spc__cuda_check(const spc__cuda *cuda, CUresult result,
                           spc_error *error, const char *what)
{
    const char *name = NULL, *text = NULL;

    if (result == CUDA_SUCCESS)
        return SPC_OK;
    cuda->GetErrorName(result, &name);
    cuda->GetErrorString(result, &text);
    return spc__fail(
        error, result == CUDA_ERROR_OUT_OF_MEMORY ? SPC_ENOMEM : SPC_EDEVICE,
        "cannot %s: %s (%d): %s", what, name ? name : "unknown CUDA error",
        result, text ? text : "no description");
}

/* True if the driver reports that there is no GPU, or no supported one. Any
 * other error means that there is a GPU that does not work. */
static bool is_absent(CUresult result)
{
    enum { STUB_LIBRARY = 34, NO_DEVICE = 100 };

    return (int)result == NO_DEVICE || (int)result == STUB_LIBRARY;
}

spc_status spc__cuda_open(spc__cuda *out, spc_error *error)
{
    spc_status status;
    CUresult result;
    int count = 0;

    memset(out, 0, sizeof *out);
    /* NODELETE: the driver starts threads and must not be unmapped. */
    out->handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NODELETE);
    if (!out->handle)
        return spc__fail(error, SPC_ENODEVICE,
                         "no CUDA driver on this machine: libcuda.so.1 cannot "
                         "be opened; install the NVIDIA driver, or use the "
                         "device \"cpu\"");
    if ((status = resolve(out, error)) != SPC_OK)
        goto failed;
    if ((result = out->Init(0)) != CUDA_SUCCESS ||
        (result = out->DeviceGetCount(&count)) != CUDA_SUCCESS) {
        status =
            spc__cuda_check(out, result, error, "initialise the CUDA driver");
        if (is_absent(result))
            status = SPC_ENODEVICE;
        if (error)
            error->status = status;
        goto failed;
    }
    if (count == 0) {
        status = spc__fail(error, SPC_ENODEVICE,
                           "the CUDA driver finds no GPU on this machine");
        goto failed;
    }
    return SPC_OK;
failed:
    spc__cuda_close(out);
    return status;
}

void spc__cuda_close(spc__cuda *cuda)
{
    if (cuda->handle)
        dlclose(cuda->handle);
    cuda->handle = NULL;
}
