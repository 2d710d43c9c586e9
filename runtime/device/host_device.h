/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_device.h - shared by the devices cpu and sim: host memory, the system's
 * C compiler, and modules that are shared objects.
 *
 * Each device starts its own struct with an spc__host_device. Its table holds
 * the functions below or wrappers around them.
 */
#ifndef SPC_RUNTIME_HOST_DEVICE_H
#define SPC_RUNTIME_HOST_DEVICE_H

#include "device/cpu_module.h"
#include "device/device.h"
#include "device/hooked.h"
#include <pthread.h>

typedef struct spc__host_device {
    const spc__device_ops *ops;
    int threads;
    const char *flags;    /* added to the compiler's defaults */
    pthread_mutex_t lock; /* guards all fields below and the modules' kernels */
    spc__compiler *compiler;
    spc__hooked memory; /* the pool has a separate lock */
} spc__host_device;

/* A device's spc__kernel begins with this. */
typedef struct spc__host_kernel {
    struct spc__host_kernel *next;
} spc__host_kernel;

struct spc__module {
    spc__object *object;
    spc__host_kernel *kernels; /* freed with the module */
};

/* Fills in *out. `options` may be NULL. Returns SPC_ENODEVICE for any ordinal
 * except 0. */
spc_status spc__host_init(spc__host_device *out, const spc__device_ops *ops,
                          int ordinal, const spc__device_options *options,
                          spc_error *error);
void spc__host_release(spc__host_device *host);

/* Bytes of memory that the machine has; 0: not known. */
size_t spc__host_memory(void);

/* Memory is aligned to 256 bytes and has the exact size, so that
 * AddressSanitizer detects an overrun. */
spc_status spc__host_alloc(spc__device *device, void **out, size_t bytes,
                           spc_error *error);
void spc__host_dealloc(spc__device *device, void *memory);
spc_status spc__host_copy(spc__device *device, void *to, const void *from,
                          size_t bytes, void *stream, spc_error *error);
spc_status spc__host_collect(spc__device *device, const spc__part *parts,
                             int count, void *stream, spc_error *error);
spc_status spc__host_fill(spc__device *device, void *to, int byte, size_t bytes,
                          void *stream, spc_error *error);
spc_status spc__host_sync(spc__device *device, void *stream, spc_error *error);

spc_status spc__host_compiler(spc__device *device, spc__compiler **out,
                              const char **options, spc_error *error);
spc_status spc__host_module_load(spc__device *device, spc__module **out,
                                 const void *code, size_t bytes,
                                 spc_error *error);
void spc__host_module_unload(spc__device *device, spc__module *module);

/* A graph is only the function itself. */
spc_status spc__host_graph_create(spc__device *device, spc__graph **out,
                                  spc_status (*enqueue)(void *payload,
                                                        void *stream),
                                  void *payload, spc_error *error);
spc_status spc__host_graph_launch(spc__device *device, spc__graph *graph,
                                  void *stream, spc_error *error);
void spc__host_graph_free(spc__device *device, spc__graph *graph);

/* Returns SPC_ENOTFOUND: the module has no kernel `name`. */
spc_status spc__host_fail_kernel(const char *name, spc_error *error);

/* Gives a kernel to its module, which frees it. */
void spc__host_keep(spc__device *device, spc__module *module,
                    spc__host_kernel *kernel);

#endif
