/* SPDX-License-Identifier: Apache-2.0 */
/* host_device.c - memory, compiler and modules of the devices cpu and sim. */
#include "device/host_device.h"

#include "base/error.h"
#include "base/parallel.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static spc__host_device *self(spc__device *device)
{
    return (spc__host_device *)device;
}

spc_status spc__host_init(spc__host_device *out, const spc__device_ops *ops,
                          int ordinal, const spc__device_options *options,
                          spc_error *error)
{
    if (ordinal > 0)
        return spc__fail(error, SPC_ENODEVICE,
                         "there is no device %s:%d; the only one is \"%s\"",
                         ops->name, ordinal, ops->name);
    out->ops = ops;
    out->threads = options != NULL ? options->threads : 0;
    if (out->threads <= 0)
        out->threads = spc__cpu_count();
    spc__hooked_init(&out->memory, options != NULL ? &options->memory : NULL);
    pthread_mutex_init(&out->lock, NULL);
    return SPC_OK;
}

void spc__host_release(spc__host_device *host)
{
    spc__compiler_close(host->compiler);
    spc__hooked_release(&host->memory);
    pthread_mutex_destroy(&host->lock);
}

/* ---- memory -------------------------------------------------------------- */

size_t spc__host_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
}

spc_status spc__host_alloc(spc__device *device, void **out, size_t bytes,
                           spc_error *error)
{
    if (spc__is_hooked(&self(device)->memory))
        return spc__hooked_alloc(&self(device)->memory, out, bytes, error);
    /* Packed weights and workspaces require 256. */
    if (posix_memalign(out, 256, bytes > 0 ? bytes : 1) == 0)
        return SPC_OK;
    *out = NULL;
    return spc__fail_memory(error, bytes);
}

void spc__host_dealloc(spc__device *device, void *memory)
{
    if (memory != NULL && spc__is_hooked(&self(device)->memory))
        spc__hooked_free(&self(device)->memory, memory);
    else
        free(memory);
}

/* Work on these devices ends before its call returns. Streams are ignored, and
 * there is nothing to wait for. */
spc_status spc__host_copy(spc__device *device, void *to, const void *from,
                          size_t bytes, void *stream, spc_error *error)
{
    if (bytes > 0)
        memcpy(to, from, bytes);
    return SPC_OK;
}

spc_status spc__host_collect(spc__device *device, const spc__part *parts,
                             int count, void *stream, spc_error *error)
{
    for (int i = 0; i < count; i++)
        spc__host_copy(device, parts[i].to, parts[i].from, parts[i].bytes,
                       stream, error);
    return SPC_OK;
}

spc_status spc__host_fill(spc__device *device, void *to, int byte, size_t bytes,
                          void *stream, spc_error *error)
{
    if (bytes > 0)
        memset(to, byte, bytes);
    return SPC_OK;
}

spc_status spc__host_sync(spc__device *device, void *stream, spc_error *error)
{
    return SPC_OK;
}

/* ---- code ---------------------------------------------------------------- */

spc_status spc__host_compiler(spc__device *device, spc__compiler **out,
                              const char **options, spc_error *error)
{
    spc__host_device *host = self(device);
    spc_status status = SPC_OK;

    /* Background compilation calls this from another thread. */
    pthread_mutex_lock(&host->lock);
    if (host->compiler == NULL)
        status = spc__hostcc_open(&host->compiler, error);
    *out = host->compiler;
    *options = host->flags;
    pthread_mutex_unlock(&host->lock);
    return status;
}

spc_status spc__host_module_load(spc__device *device, spc__module **out,
                                 const void *code, size_t bytes,
                                 spc_error *error)
{
    spc__module *module = calloc(1, sizeof(*module));
    spc_status status;

    *out = NULL;
    if (module == NULL)
        return spc__fail_memory(error, sizeof(*module));
    if ((status = spc__object_load(&module->object, code, bytes, error)) !=
        SPC_OK) {
        free(module);
        return status;
    }
    *out = module;
    return SPC_OK;
}

void spc__host_module_unload(spc__device *device, spc__module *module)
{
    if (module == NULL)
        return;
    while (module->kernels != NULL) {
        spc__host_kernel *kernel = module->kernels;
        module->kernels = kernel->next;
        free(kernel);
    }
    /* After the records of its kernels, which point into it. */
    spc__object_unload(module->object);
    free(module);
}

spc_status spc__host_fail_kernel(const char *name, spc_error *error)
{
    return spc__fail(error, SPC_ENOTFOUND,
                     "the compiled code has no kernel '%s'", name);
}

/* Under the lock, as two threads may find kernels of one module. */
void spc__host_keep(spc__device *device, spc__module *module,
                    spc__host_kernel *kernel)
{
    spc__host_device *host = self(device);

    pthread_mutex_lock(&host->lock);
    kernel->next = module->kernels;
    module->kernels = kernel;
    pthread_mutex_unlock(&host->lock);
}

/* ---- graphs ----------------------------------------------------------- */

struct spc__graph {
    spc_status (*enqueue)(void *payload, void *stream);
    void *payload;
};

spc_status spc__host_graph_create(spc__device *device, spc__graph **out,
                                  spc_status (*enqueue)(void *payload,
                                                        void *stream),
                                  void *payload, spc_error *error)
{
    spc__graph *graph = malloc(sizeof *graph);

    (void)device;
    *out = graph;
    if (!graph)
        return spc__fail_memory(error, sizeof *graph);
    /* A launch calls the function again: this device has nothing to capture. */
    *graph = (spc__graph){enqueue, payload};
    return SPC_OK;
}

spc_status spc__host_graph_launch(spc__device *device, spc__graph *graph,
                                  void *stream, spc_error *error)
{
    (void)device;
    (void)error; /* the payload reports its own failures */
    return graph->enqueue(graph->payload, stream);
}

void spc__host_graph_free(spc__device *device, spc__graph *graph)
{
    (void)device;
    free(graph);
}
