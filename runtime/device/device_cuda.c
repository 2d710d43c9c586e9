/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_cuda.c - the cuda device: device.h implemented with the driver API.
 *
 * The device works in the context that is current when it is opened, so the
 * host application's allocations and streams are usable. Without one it retains
 * the primary context. Each entry makes that context current and restores the
 * calling thread's context afterwards.
 */
#include "base/error.h"
#include "base/forks.h"
#include "device/cuda_device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct spc__kernel {
    CUfunction function;
    size_t shared_bytes;
    spc__kernel *next;
};

struct spc__module {
    CUmodule handle;
    spc__kernel *kernels; /* freed with the module */
};

static spc__cuda_device *self(spc__device *device)
{
    return (spc__cuda_device *)device;
}

/* ---- contexts --------------------------------------------------------- */

spc_status spc__cuda_enter(const spc__cuda_device *device, bool *pushed,
                           spc_error *error)
{
    CUcontext current = NULL;

    *pushed = false;
    /* Every call checks this, as the driver's state is not valid in a child
     * process. */
    if (device->forks != spc__forks())
        return spc__fail(error, SPC_ESTATE,
                         "%s was opened before fork(): CUDA does not work in a "
                         "child process; start it by exec and make a context "
                         "there",
                         device->info.id);
    /* The usual case: the host application already works in this context. */
    if (device->api.CtxGetCurrent(&current) == CUDA_SUCCESS &&
        current == device->context)
        return SPC_OK;
    CUresult result = device->api.CtxPushCurrent(device->context);
    *pushed = result == CUDA_SUCCESS;
    return spc__cuda_check(&device->api, result, error,
                           "make the device's context current");
}

void spc__cuda_leave(const spc__cuda_device *device, bool pushed)
{
    CUcontext popped;

    if (pushed)
        device->api.CtxPopCurrent(&popped);
}

/* ---- properties ------------------------------------------------------- */

static void cuda_info(const spc__device *device, spc_device_info *out)
{
    *out = ((const spc__cuda_device *)device)->info;
}

/* The limits of the device, which templates read. */
static void cuda_target(const spc__device *device, spc__attrs *out)
{
    const spc__cuda_device *d = (const spc__cuda_device *)device;

    memset(out, 0, sizeof *out);
    spc__attrs_set_text(out, "device", "cuda");
    spc__attrs_set_text(out, "target", d->info.target);
    spc__attrs_set_number(out, "sm", d->sm);
    spc__attrs_set_number(out, "shared_block", d->shared_block);
    spc__attrs_set_number(out, "shared_sm", d->shared_sm);
    spc__attrs_set_number(out, "registers_sm", d->registers_sm);
    spc__attrs_set_number(out, "max_threads", d->max_threads);
    spc__attrs_set_number(out, "multiprocessors", d->multiprocessors);
}

/* ---- opening and closing ---------------------------------------------- */

/* Without a current context, the library's CUDA runtime would leave one
 * current. */
static void close_cublas(spc__cuda_device *d)
{
    bool pushed = false;

    if (d->cublas)
        spc__cuda_enter(d, &pushed, NULL);
    spc__cublas_close(d->cublas);
    spc__cuda_leave(d, pushed);
}

/* Closes a device, also one that was opened only in part. */
static void cuda_close(spc__device *device)
{
    spc__cuda_device *d = self(device);

    if (!d)
        return;
    spc__compiler_close(d->compiler);
    close_cublas(d);
    pthread_mutex_destroy(&d->gemm_lock);
    spc__cuda_free_staging(d);
    pthread_mutex_destroy(&d->staging_lock);
    spc__hooked_release(&d->memory);
    /* Last: everything above may need the context. */
    if (d->retained)
        d->api.DevicePrimaryCtxRelease(d->handle);
    spc__cuda_close(&d->api);
    free(d);
}

/* Returns the caller's current context and its device. Returns NULL and -1 if
 * there is no context or it was destroyed. If the driver does not report the
 * device, the call fails: another context would know neither the caller's
 * memory nor its streams. */
static spc_status find_current(CUcontext *context, CUdevice *device,
                               const spc__cuda *api, spc_error *error)
{
    spc_status status;

    *context = NULL;
    *device = -1;
    status = spc__cuda_check(api, api->CtxGetCurrent(context), error,
                             "find the caller's context");
    if (status != SPC_OK || !*context)
        return status;
    CUresult result = api->CtxGetDevice(device);
    if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
        *context = NULL;
        return SPC_OK;
    }
    return spc__cuda_check(api, result, error,
                           "find the device of the caller's context");
}

/*
 * Retains the primary context, which lives while one of its users holds it. It
 * is also retained if it is the caller's current one, because its creator may
 * release it first.
 */
static spc_status hold_primary(spc__cuda_device *d, spc_error *error)
{
    CUcontext primary = NULL;
    unsigned flags;
    int active = 0;

    if (d->api.DevicePrimaryCtxGetState(d->handle, &flags, &active) !=
            CUDA_SUCCESS ||
        !active)
        return SPC_OK;
    spc_status status = spc__cuda_check(
        &d->api, d->api.DevicePrimaryCtxRetain(&primary, d->handle), error,
        "retain the device's primary context");
    d->retained = status == SPC_OK && primary == d->context;
    /* The caller's context is another one of the same device. */
    if (status == SPC_OK && !d->retained)
        d->api.DevicePrimaryCtxRelease(d->handle);
    return status;
}

/*
 * Takes the caller's context if it is on the wanted device, otherwise that
 * device's primary context. A negative ordinal selects the caller's device, or
 * 0.
 */
static spc_status take_context(spc__cuda_device *d, int ordinal,
                               spc_error *error)
{
    CUcontext current;
    CUdevice device;
    spc_status status = find_current(&current, &device, &d->api, error);

    if (status != SPC_OK)
        return status;
    if (current && (ordinal < 0 || device == ordinal)) {
        d->context = current;
        d->ordinal = device; /* a CUdevice is its ordinal */
        d->handle = device;
        return hold_primary(d, error);
    }
    d->ordinal = ordinal < 0 ? 0 : ordinal;
    status = spc__cuda_check(&d->api, d->api.DeviceGet(&d->handle, d->ordinal),
                             error, "find the device");
    if (status != SPC_OK)
        return status;
    status = spc__cuda_check(
        &d->api, d->api.DevicePrimaryCtxRetain(&d->context, d->handle), error,
        "retain the device's primary context");
    d->retained = status == SPC_OK;
    return status;
}

/* Fails if no device has this number. */
static spc_status check_ordinal(const spc__cuda_device *d, int ordinal,
                                spc_error *error)
{
    int count = 0;
    spc_status status = spc__cuda_check(&d->api, d->api.DeviceGetCount(&count),
                                        error, "count the devices");

    if (status != SPC_OK || ordinal < count)
        return status;
    return spc__fail(error, SPC_ENODEVICE,
                     "no device cuda:%d: this machine has %d (cuda:0 to "
                     "cuda:%d)",
                     ordinal, count, count - 1);
}

/* Asks the driver for the limits of the device. */
static spc_status read_limits(spc__cuda_device *d, spc_error *error)
{
    int l2_bytes = 0;
    const struct {
        int which;
        int *to;
    } limits[] = {
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &d->multiprocessors},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
         &d->shared_block},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
         &d->shared_sm},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
         &d->registers_sm},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &d->max_threads},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2_bytes},
    };
    spc_status status = spc__cuda_capability(&d->sm, &d->api, d->handle, error);

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (status == SPC_OK)
            status = spc__cuda_attribute(limits[i].to, &d->api, d->handle,
                                         limits[i].which, error);
    d->l2_bytes = (size_t)l2_bytes;
    return status;
}

/* Opens the device in the primary context, which other libraries of the process
 * use as well. */
static spc_status cuda_open(spc__device **out, int ordinal,
                            const spc__device_options *options,
                            spc_error *error)
{
    spc__cuda_device *d = calloc(1, sizeof *d);
    spc_status status;

    *out = NULL;
    if (!d)
        return spc__fail_memory(error, sizeof *d);
    d->ops = &spc__device_cuda;
    d->forks = spc__forks();
    /* cuda_close() releases both of these, so they exist before anything can
     * fail. */
    spc__hooked_init(&d->memory, options != NULL ? &options->memory : NULL);
    pthread_mutex_init(&d->gemm_lock, NULL);
    pthread_mutex_init(&d->staging_lock, NULL);
    if ((status = spc__cuda_open(&d->api, error)) != SPC_OK)
        goto done;
    if ((status = check_ordinal(d, ordinal, error)) != SPC_OK)
        goto done;
    if ((status = take_context(d, ordinal, error)) != SPC_OK)
        goto done;
    if ((status = read_limits(d, error)) != SPC_OK)
        goto done;
    if ((status = spc__cuda_describe(&d->info, &d->api, d->handle, d->ordinal,
                                     error)) != SPC_OK)
        goto done;
    *out = (spc__device *)d;
    d = NULL;
done:
    cuda_close((spc__device *)d);
    return status;
}

/* ---- code ------------------------------------------------------------- */

/* The compiler, NVRTC. */
static spc_status cuda_compiler(spc__device *device, spc__compiler **out,
                                const char **options, spc_error *error)
{
    spc__cuda_device *d = self(device);
    spc_status status;

    *out = NULL;
    *options = "";
    /* Opens the compiler on first use, as a device that finds all code in the
     * database needs none. */
    if (!d->compiler &&
        (status = spc__nvrtc_open(&d->compiler, error)) != SPC_OK)
        return status;
    *out = d->compiler;
    return SPC_OK;
}

/* Loads a cubin. */
static spc_status cuda_module_load(spc__device *device, spc__module **out,
                                   const void *code, size_t bytes,
                                   spc_error *error)
{
    spc__cuda_device *d = self(device);
    spc__module *module = calloc(1, sizeof *module);
    bool pushed;
    spc_status status;

    *out = NULL;
    if (!module)
        return spc__fail_memory(error, sizeof *module);
    /* The driver trusts the sizes in a cubin, so check them first. */
    if ((status = spc__cubin_check(code, bytes, d->sm, error)) != SPC_OK ||
        (status = spc__cuda_enter(d, &pushed, error)) != SPC_OK) {
        free(module);
        return status;
    }
    status =
        spc__cuda_check(&d->api, d->api.ModuleLoadData(&module->handle, code),
                        error, "load a compiled module");
    spc__cuda_leave(d, pushed);
    if (status == SPC_OK)
        *out = module;
    else
        free(module);
    return status;
}

/* Unloads a module and frees the records of its kernels. */
static void cuda_module_unload(spc__device *device, spc__module *module)
{
    spc__cuda_device *d = self(device);
    bool pushed;

    if (!module)
        return;
    if (spc__cuda_enter(d, &pushed, NULL) == SPC_OK) {
        d->api.ModuleUnload(module->handle);
        spc__cuda_leave(d, pushed);
    }
    /* Frees the records even if the context cannot be entered, since they are
     * host memory. */
    for (spc__kernel *next, *kernel = module->kernels; kernel; kernel = next) {
        next = kernel->next;
        free(kernel);
    }
    free(module);
}

/*
 * Requests only the shared memory that the resident blocks use. The rest of the
 * multiprocessor's memory remains L1, which gathers depend on.
 */
static void prefer_carveout(const spc__cuda_device *d, CUfunction function,
                            size_t shared_bytes)
{
    enum { RESERVED = 1024 }; /* reserved in each block by the system */
    int threads = 0, fixed = 0, blocks = 0;

    d->api.FuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                            function);
    d->api.FuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                            function);
    if (shared_bytes + (size_t)fixed == 0 || d->shared_sm <= 0 ||
        d->api.OccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, function, threads, shared_bytes) != CUDA_SUCCESS)
        return;
    size_t used = (size_t)blocks * (shared_bytes + (size_t)fixed + RESERVED);
    /* Rounds up, as the driver may choose the next smaller size for a
     * fraction. */
    size_t percent =
        (used * 100 + (size_t)d->shared_sm - 1) / (size_t)d->shared_sm;
    d->api.FuncSetAttribute(function,
                            CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                            percent > 100 ? 100 : (int)percent);
}

/* The limit belongs to the function, which others may use too, so it is never
 * lowered. */
static spc_status raise_shared(const spc__cuda_device *d, CUfunction function,
                               const char *name, size_t bytes, spc_error *error)
{
    char what[160];
    int limit = 0;

    d->api.FuncGetAttribute(
        &limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
    if (bytes <= (size_t)limit)
        return SPC_OK;
    snprintf(what, sizeof what,
             "give kernel '%.60s' %zu bytes of shared memory a block", name,
             bytes);
    return spc__cuda_check(
        &d->api,
        d->api.FuncSetAttribute(function,
                                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                (int)bytes),
        error, what);
}

/* Finds a kernel and permits it the shared memory that it asks for. */
static spc_status kernel_find(const spc__cuda_device *d, spc__kernel *kernel,
                              const spc__module *module, const char *name,
                              spc_error *error)
{
    char what[160];
    CUresult result =
        d->api.ModuleGetFunction(&kernel->function, module->handle, name);
    spc_status status;

    if (result == CUDA_ERROR_NOT_FOUND)
        return spc__fail(error, SPC_ENOTFOUND,
                         "the module has no kernel named '%s'", name);
    snprintf(what, sizeof what, "find kernel '%.100s'", name);
    if ((status = spc__cuda_check(&d->api, result, error, what)) != SPC_OK)
        return status;
    status =
        raise_shared(d, kernel->function, name, kernel->shared_bytes, error);
    if (status == SPC_OK)
        prefer_carveout(d, kernel->function, kernel->shared_bytes);
    return status;
}

/* Returns the existing kernel on a repeated request, so that a long run that
 * makes many maps does not accumulate kernels. */
static spc__kernel *keep_one(spc__module *module, spc__kernel *kernel)
{
    for (spc__kernel *old = module->kernels; old; old = old->next)
        if (old->function == kernel->function &&
            old->shared_bytes == kernel->shared_bytes) {
            free(kernel);
            return old;
        }
    kernel->next = module->kernels;
    module->kernels = kernel;
    return kernel;
}

/* Finds a kernel in a module, once for all callers. */
static spc_status cuda_kernel_get(spc__device *device, spc__module *module,
                                  const char *name, size_t shared_bytes,
                                  spc__kernel **out, spc_error *error)
{
    spc__cuda_device *d = self(device);
    spc__kernel *kernel = calloc(1, sizeof *kernel);
    bool pushed;
    spc_status status;

    *out = NULL;
    if (!kernel)
        return spc__fail_memory(error, sizeof *kernel);
    kernel->shared_bytes = shared_bytes;
    if ((status = spc__cuda_enter(d, &pushed, error)) == SPC_OK) {
        status = kernel_find(d, kernel, module, name, error);
        spc__cuda_leave(d, pushed);
    }
    if (status != SPC_OK) {
        free(kernel);
        return status;
    }
    *out = keep_one(module, kernel);
    return SPC_OK;
}

/* The number of blocks that run at once on a multiprocessor. */
static spc_status cuda_occupancy(spc__device *device, int *out,
                                 spc__kernel *kernel, unsigned block,
                                 size_t shared_bytes, spc_error *error)
{
    spc__cuda_device *d = self(device);
    bool pushed;
    spc_status status = spc__cuda_enter(d, &pushed, error);

    *out = 0;
    if (status != SPC_OK)
        return status;
    status =
        spc__cuda_check(&d->api,
                        d->api.OccupancyMaxActiveBlocksPerMultiprocessor(
                            out, kernel->function, (int)block, shared_bytes),
                        error, "count the resident blocks of a kernel");
    spc__cuda_leave(d, pushed);
    return status;
}

/* Fills the attributes that `launch` needs and returns their number. */
static unsigned launch_attributes(const spc__cuda_device *d,
                                  const spc__launch *launch,
                                  CUlaunchAttribute attributes[3])
{
    unsigned count = 0;

    memset(attributes, 0, 3 * sizeof *attributes);
    /* Older devices refuse the attribute. There, the kernel starts after the
     * previous one as usual. */
    if (launch->pdl && d->sm >= 90) {
        attributes[count].id =
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    if (launch->cooperative) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes[count++].value.cooperative = 1;
    }
    if (launch->cluster > 1) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attributes[count].value.clusterDim.x = launch->cluster;
        attributes[count].value.clusterDim.y = 1;
        attributes[count++].value.clusterDim.z = 1;
    }
    return count;
}

/* Describes a launch to the driver. The result points to the caller's
 * attributes. */
static CUlaunchConfig launch_config(const spc__cuda_device *d,
                                    const spc__launch *launch,
                                    CUlaunchAttribute attributes[3])
{
    return (CUlaunchConfig){
        .gridDimX = launch->grid_x,
        .gridDimY = launch->grid_y ? launch->grid_y : 1,
        .gridDimZ = 1,
        .blockDimX = launch->block,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = (unsigned)launch->shared_bytes,
        .attrs = attributes,
        .numAttrs = launch_attributes(d, launch, attributes),
    };
}

/* The number of clusters that run at once on the device. */
static spc_status cuda_clusters(spc__device *device, int *out,
                                spc__kernel *kernel, const spc__launch *launch,
                                spc_error *error)
{
    spc__cuda_device *d = self(device);
    CUlaunchAttribute attributes[3];
    CUlaunchConfig config = launch_config(d, launch, attributes);
    bool pushed;
    spc_status status = spc__cuda_enter(d, &pushed, error);

    *out = 0;
    if (status != SPC_OK)
        return status;
    status = spc__cuda_check(
        &d->api,
        d->api.OccupancyMaxActiveClusters(out, kernel->function, &config),
        error, "count the resident clusters of a kernel");
    spc__cuda_leave(d, pushed);
    return status;
}

/* Puts a kernel on the stream and returns without waiting. */
static spc_status cuda_launch(spc__device *device, spc__kernel *kernel,
                              const spc__launch *launch, const void *args,
                              size_t args_bytes, void *stream, spc_error *error)
{
    spc__cuda_device *d = self(device);
    CUlaunchAttribute attributes[3];
    CUlaunchConfig config = launch_config(d, launch, attributes);
    void *params[1] = {(void *)(uintptr_t)args}; /* the driver only reads */
    bool pushed;
    spc_status status;

    config.hStream = stream;
    (void)args_bytes; /* the kernel knows the size of its parameter */
    /* The driver refuses an empty grid. */
    if (launch->grid_x == 0)
        return SPC_OK;
    if ((status = spc__cuda_enter(d, &pushed, error)) != SPC_OK)
        return status;
    status = spc__cuda_check(
        &d->api, d->api.LaunchKernelEx(&config, kernel->function, params, NULL),
        error, "launch a kernel");
    spc__cuda_leave(d, pushed);
    return status;
}

const spc__device_ops spc__device_cuda = {
    .name = "cuda",
    .list = spc__cuda_list,
    .open = cuda_open,
    .close = cuda_close,
    .info = cuda_info,
    .target = cuda_target,
    .memory_gbps = spc__cuda_memory_gbps,
    .stays_in_process = true,
    .alloc = spc__cuda_alloc,
    .dealloc = spc__cuda_dealloc,
    .copy_in = spc__cuda_copy_in,
    .copy_out = spc__cuda_copy_out,
    .collect = spc__cuda_collect,
    .fill = spc__cuda_fill,
    .sync = spc__cuda_sync,
    .drain = spc__cuda_drain,
    .compiler = cuda_compiler,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .kernel_get = cuda_kernel_get,
    .occupancy = cuda_occupancy,
    .clusters = cuda_clusters,
    .launch = cuda_launch,
    .has_gemm = spc__cuda_has_gemm,
    .gemm = spc__cuda_gemm,
    .measure = spc__cuda_measure,
    .graph_create = spc__cuda_graph_create,
    .graph_launch = spc__cuda_graph_launch,
    .graph_mark = spc__cuda_graph_mark,
    .graph_depend = spc__cuda_graph_depend,
    .graph_free = spc__cuda_graph_free,
};
