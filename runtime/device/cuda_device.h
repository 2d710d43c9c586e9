/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_device.h - declarations shared by the files of the cuda device. */
#ifndef SPC_RUNTIME_CUDA_DEVICE_H
#define SPC_RUNTIME_CUDA_DEVICE_H

#include "device/cuda_driver.h"
#include "device/device.h"
#include "device/hooked.h"
#include <pthread.h>

typedef struct spc__cublas spc__cublas;
typedef struct spc__cuda_staging spc__cuda_staging;

typedef struct spc__cuda_device {
    const spc__device_ops *ops;
    spc__cuda api;
    CUdevice handle;
    CUcontext context;
    bool retained; /* this device must release the primary context */
    int ordinal;
    int sm; /* for example 90 */
    int multiprocessors;
    spc__hooked memory;
    unsigned forks; /* spc__forks() at the time of opening */
    int shared_block, shared_sm, registers_sm, max_threads;
    size_t l2_bytes;
    spc_device_info info;
    spc__compiler *compiler; /* NULL until first used */
    pthread_mutex_t staging_lock;
    /* Blocks of pinned memory that no call uses at this moment. */
    spc__cuda_staging *staging;
    pthread_mutex_t gemm_lock;
    spc__cublas *cublas; /* NULL until first used, or if not available */
    bool cublas_sought;
} spc__cuda_device;

/*
 * Makes the device's context current unless it already is. *pushed tells
 * spc__cuda_leave whether to pop it, so callers keep their own context.
 */
spc_status spc__cuda_enter(const spc__cuda_device *device, bool *pushed,
                           spc_error *error);
void spc__cuda_leave(const spc__cuda_device *device, bool pushed);

extern const spc__device_ops spc__device_cuda;

/* Reads an attribute of a device from the driver (cuda_info.c), and its compute
 * capability as a number such as 90. */
spc_status spc__cuda_attribute(int *out, const spc__cuda *api, CUdevice device,
                               int which, spc_error *error);
spc_status spc__cuda_capability(int *out, const spc__cuda *api, CUdevice device,
                                spc_error *error);
spc_status spc__cuda_describe(spc_device_info *out, const spc__cuda *api,
                              CUdevice device, int ordinal, spc_error *error);
int spc__cuda_list(spc_device_info *out, int capacity);
double spc__cuda_memory_gbps(const spc__device *device);

/* spc__device_ops.has_gemm and .gemm (cuda_gemm.c). */
bool spc__cuda_has_gemm(spc__device *device);
spc_status spc__cuda_gemm(spc__device *device, const spc__gemm *gemm,
                          void *stream, spc_error *error);
void spc__cublas_close(spc__cublas *cublas);

/* spc__device_ops.measure (cuda_measure.c). */
spc_status spc__cuda_measure(spc__device *device, const spc__measure *measure,
                             double *samples, int *count, spc_error *error);

/* Memory and streams (cuda_memory.c). */
spc_status spc__cuda_alloc(spc__device *device, void **out, size_t bytes,
                           spc_error *error);
void spc__cuda_dealloc(spc__device *device, void *memory);
spc_status spc__cuda_copy_in(spc__device *device, void *to, const void *from,
                             size_t bytes, void *stream, spc_error *error);
spc_status spc__cuda_copy_out(spc__device *device, void *to, const void *from,
                              size_t bytes, void *stream, spc_error *error);
spc_status spc__cuda_collect(spc__device *device, const spc__part *parts,
                             int count, void *stream, spc_error *error);
void spc__cuda_free_staging(spc__cuda_device *device);
spc_status spc__cuda_fill(spc__device *device, void *to, int byte, size_t bytes,
                          void *stream, spc_error *error);
spc_status spc__cuda_sync(spc__device *device, void *stream, spc_error *error);
spc_status spc__cuda_drain(spc__device *device, spc_error *error);

/* Graphs (cuda_graph.c). */
spc_status spc__cuda_graph_create(spc__device *device, spc__graph **out,
                                  spc_status (*enqueue)(void *payload,
                                                        void *stream),
                                  void *payload, spc_error *error);
spc_status spc__cuda_graph_launch(spc__device *device, spc__graph *graph,
                                  void *stream, spc_error *error);
void spc__cuda_graph_free(spc__device *device, spc__graph *graph);
spc_status spc__cuda_graph_mark(spc__device *device, spc__mark *out,
                                void *stream, spc_error *error);
spc_status spc__cuda_graph_depend(spc__device *device, const spc__mark *on,
                                  int count, void *stream, spc_error *error);

#endif
