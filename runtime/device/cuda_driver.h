/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_driver.h - the part of the CUDA driver API that the cuda device uses,
 * declared by hand and resolved with dlopen.
 *
 * Building needs no CUDA files, and nothing is linked. A machine without a
 * driver simply finds no device. Names and layouts follow cuda.h of CUDA 12,
 * whose ABI later versions keep. Symbols carry the suffix that cuda.h adds.
 */
#ifndef SPC_RUNTIME_CUDA_DRIVER_H
#define SPC_RUNTIME_CUDA_DRIVER_H

#include "spc/status.h"
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709
};

enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};

enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9
};

enum {
    CU_STREAM_NON_BLOCKING = 1,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_SET_CAPTURE_DEPENDENCIES = 1,
    CU_EVENT_DEFAULT = 0
};

enum {
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};

typedef struct CUlaunchAttribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int cooperative;
        int programmaticStreamSerializationAllowed;
        struct {
            unsigned x, y, z;
        } clusterDim;
    } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

/* One list for the members of spc__cuda and the symbols to resolve: member,
 * symbol, parameters. */
#define SPC__CUDA_MAP(X)                                                       \
    X(Init, "cuInit", (unsigned flags))                                        \
    X(DriverGetVersion, "cuDriverGetVersion", (int *version))                  \
    X(GetErrorName, "cuGetErrorName", (CUresult e, const char **text))         \
    X(GetErrorString, "cuGetErrorString", (CUresult e, const char **text))     \
    X(DeviceGetCount, "cuDeviceGetCount", (int *count))                        \
    X(DeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))              \
    X(DeviceGetName, "cuDeviceGetName", (char *name, int len, CUdevice d))     \
    X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice d))     \
    X(DeviceGetAttribute, "cuDeviceGetAttribute",                              \
      (int *value, int attribute, CUdevice d))                                 \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain",                      \
      (CUcontext * context, CUdevice d))                                       \
    X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice d))   \
    X(DevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState",                  \
      (CUdevice d, unsigned *flags, int *active))                              \
    X(CtxGetCurrent, "cuCtxGetCurrent", (CUcontext * context))                 \
    X(CtxGetDevice, "cuCtxGetDevice", (CUdevice * d))                          \
    X(CtxSynchronize, "cuCtxSynchronize", (void))                              \
    X(CtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context))              \
    X(CtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext * context))              \
    X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * memory, size_t bytes))         \
    X(MemFree, "cuMemFree_v2", (CUdeviceptr memory))                           \
    X(MemHostAlloc, "cuMemHostAlloc",                                          \
      (void **memory, size_t bytes, unsigned flags))                           \
    X(MemFreeHost, "cuMemFreeHost", (void *memory))                            \
    X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                 \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))       \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                 \
      (void *to, CUdeviceptr from, size_t bytes, CUstream stream))             \
    X(MemsetD8Async, "cuMemsetD8Async",                                        \
      (CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream))     \
    X(StreamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))     \
    X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                  \
    X(StreamSynchronize, "cuStreamSynchronize", (CUstream stream))             \
    X(StreamBeginCapture, "cuStreamBeginCapture_v2",                           \
      (CUstream stream, int mode))                                             \
    X(StreamEndCapture, "cuStreamEndCapture",                                  \
      (CUstream stream, CUgraph * graph))                                      \
    X(StreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2",                       \
      (CUstream stream, int *state, unsigned long long *id, CUgraph *graph,    \
       const CUgraphNode **nodes, size_t *count))                              \
    X(StreamUpdateCaptureDependencies, "cuStreamUpdateCaptureDependencies",    \
      (CUstream stream, CUgraphNode * nodes, size_t count, unsigned flags))    \
    X(GraphInstantiate, "cuGraphInstantiateWithFlags",                         \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))           \
    X(GraphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))       \
    X(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec))              \
    X(GraphDestroy, "cuGraphDestroy", (CUgraph graph))                         \
    X(EventCreate, "cuEventCreate", (CUevent * event, unsigned flags))         \
    X(EventDestroy, "cuEventDestroy_v2", (CUevent event))                      \
    X(EventRecord, "cuEventRecord", (CUevent event, CUstream stream))          \
    X(EventQuery, "cuEventQuery", (CUevent event))                             \
    X(EventElapsedTime, "cuEventElapsedTime",                                  \
      (float *ms, CUevent start, CUevent end))                                 \
    X(ModuleLoadData, "cuModuleLoadData",                                      \
      (CUmodule * module, const void *image))                                  \
    X(ModuleUnload, "cuModuleUnload", (CUmodule module))                       \
    X(ModuleGetFunction, "cuModuleGetFunction",                                \
      (CUfunction * function, CUmodule module, const char *name))              \
    X(FuncGetAttribute, "cuFuncGetAttribute",                                  \
      (int *value, int attribute, CUfunction function))                        \
    X(FuncSetAttribute, "cuFuncSetAttribute",                                  \
      (CUfunction function, int attribute, int value))                         \
    X(OccupancyMaxActiveBlocksPerMultiprocessor,                               \
      "cuOccupancyMaxActiveBlocksPerMultiprocessor",                           \
      (int *blocks, CUfunction function, int threads, size_t shared))          \
    X(OccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters",              \
      (int *clusters, CUfunction function, const CUlaunchConfig *config))      \
    X(LaunchKernelEx, "cuLaunchKernelEx",                                      \
      (const CUlaunchConfig *config, CUfunction function, void **params,       \
       void **extra))

typedef struct spc__cuda {
    void *handle;
#define X(member, symbol, params) CUresult(*member) params;
    SPC__CUDA_MAP(X)
#undef X
} spc__cuda;

/*
 * Opens and initialises the driver (libcuda.so.1). Returns SPC_ENODEVICE if it
 * is not installed, is too old (the sentence names the missing symbol) or finds
 * no device.
 */
spc_status spc__cuda_open(spc__cuda *out, spc_error *error);
void spc__cuda_close(spc__cuda *cuda);

/* Turns a driver's result into a status. `what` names the failed operation:
 * "cannot load a module: CUDA_ERROR_...: text". */
spc_status spc__cuda_check(const spc__cuda *cuda, CUresult result,
                           spc_error *error, const char *what);

#endif
