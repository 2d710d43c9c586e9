/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - the common interface of the devices cuda, cpu and sim.
 *
 * A device is a file (device_<name>.c) that exports one spc__device_ops, and a
 * row in device_table.c. Every kernel takes exactly one argument, a struct by
 * value (spc_abi.h). A launch is therefore a kernel, a geometry and a block of
 * bytes.
 */
#ifndef SPC_RUNTIME_DEVICE_H
#define SPC_RUNTIME_DEVICE_H

#include "base/attrs.h"
#include "base/log.h"
#include "compiler/artefact.h"
#include "spc.h"

#include <stdio.h>

/* each device's struct begins with const spc__device_ops ops; */
typedef struct spc__device spc__device;
typedef struct spc__module spc__module;
typedef struct spc__kernel spc__kernel;
typedef struct spc__pool spc__pool; /* base/pool.h */
/* captured runs that are launched together */
typedef struct spc__graph spc__graph;

/* A position in a graph under capture: after these nodes. */
enum { SPC__MARK_NODES = 32 };

typedef struct spc__mark {
    void *nodes[SPC__MARK_NODES];
    int count;
} spc__mark;

typedef struct spc__launch {
    unsigned grid_x, grid_y;
    unsigned block;
    size_t shared_bytes;
    bool pdl;         /* programmatic dependent launch, if supported */
    bool cooperative; /* all blocks resident: spc_grid_sync may be used */
    unsigned cluster; /* blocks in x of one cluster; 0 or 1: no clusters */
} spc__launch;

/* How to measure. `enqueue` puts one run on the stream and is called many
 * times. */
typedef struct spc__measure {
    spc_status (*enqueue)(void *payload, void *stream);
    void *payload;
    int samples;    /* number of samples */
    double limit_s; /* time limit for all samples together */
    bool cold;      /* flush the last-level cache before each run */
    /* Enqueues untimed work before each run. A sample is then a single run.
     * NULL: nothing. */
    spc_status (*before)(void *payload, void *stream);
} spc__measure;

typedef struct spc__device_options {
    int threads;
    const spc__log *log;
    /* the caller's allocator; all NULL: the device's own */
    spc_memory_hook memory;
} spc__device_options;

/* c[rows][columns] = a[rows][depth] times the transpose of b[columns][depth].
 * Rows have no gaps. */
typedef struct spc__gemm {
    const void *a, *b; /* f16, bf16 or f32 */
    float *c;
    int64_t rows;
    int columns, depth;
    spc_dtype dtype;
} spc__gemm;

/* A part of device memory, and its destination on the host. */
typedef struct spc__part {
    void *to;
    const void *from;
    size_t bytes;
} spc__part;

typedef struct spc__device_ops {
    const char *name; /* such as "cuda" */

    /* Properties that callers need instead of comparing the device's name. */
    /* only verifies kernels: never chosen by default, and has another device's
     * target */
    bool is_emulation;
    bool runs_on_host_cores;  /* kernels compete with compilers for cores */
    bool measures_alone;      /* no compilation during a timing */
    bool stays_in_process;    /* a forked child cannot use it */
    bool builds_maps_on_host; /* builds maps with host threads instead of
                                 kernels */
    unsigned index_block;     /* threads of a block that builds a map; 0: the
                               * maximum of the kernel */

    /* Fills up to `capacity` infos and returns the number of devices. It is
     * cheap, and silent if the driver is missing. */
    int (*list)(spc_device_info *out, int capacity);
    spc_status (*open)(spc__device **out, int ordinal,
                       const spc__device_options *options, spc_error *error);
    void (*close)(spc__device *device);
    void (*info)(const spc__device *device, spc_device_info *out);

    /* Facts for templates. cuda, sim: device, templates (whose templates it
     * runs, if not its own), target, sm, shared_block, shared_sm, registers_sm,
     * max_threads, multiprocessors. cpu: device, target, isa, vector_bytes. */
    void (*target)(const spc__device *device, spc__attrs *out);
    /* Returns the peak bandwidth of its memory in GB/s as the driver reports
     * it, or 0 if unknown. NULL: unknown. */
    double (*memory_gbps)(const spc__device *device);
    /* Returns the threads that run its kernels, for loops that build maps on
     * the host. Set if builds_maps_on_host is set. */
    spc__pool *(*pool)(spc__device *device);

    spc_status (*alloc)(spc__device *device, void **out, size_t bytes,
                        spc_error *error);
    void (*dealloc)(spc__device *device, void *memory);
    spc_status (*copy_in)(spc__device *device, void *to, const void *from,
                          size_t bytes, void *stream, spc_error *error);
    spc_status (*copy_out)(spc__device *device, void *to, const void *from,
                           size_t bytes, void *stream, spc_error *error);
    /* Copies small parts of device memory to the host, and waits for them. */
    spc_status (*collect)(spc__device *device, const spc__part *parts,
                          int count, void *stream, spc_error *error);
    spc_status (*fill)(spc__device *device, void *to, int byte, size_t bytes,
                       void *stream, spc_error *error);
    spc_status (*sync)(spc__device *device, void *stream, spc_error *error);
    /* Waits for all streams, including those of the host. NULL: each call
     * completes its work before it returns. */
    spc_status (*drain)(spc__device *device, spc_error *error);

    /* Returns the compiler for this device's templates (opened on first use),
     * the extra options it needs, and the -arch or -m target string. */
    spc_status (*compiler)(spc__device *device, spc__compiler **out,
                           const char **options, spc_error *error);

    spc_status (*module_load)(spc__device *device, spc__module **out,
                              const void *code, size_t bytes, spc_error *error);
    void (*module_unload)(spc__device *device, spc__module *module);
    /* Returns SPC_ENOTFOUND if the module has no such kernel. */
    spc_status (*kernel_get)(spc__device *device, spc__module *module,
                             const char *name, size_t shared_bytes,
                             spc__kernel **out, spc_error *error);
    /* Returns the resident blocks per multiprocessor, as the driver computes
     * them. */
    spc_status (*occupancy)(spc__device *device, int *out, spc__kernel *kernel,
                            unsigned block, size_t shared_bytes,
                            spc_error *error);
    /* Returns the resident clusters of such launches on the whole device. NULL:
     * derived from the resident blocks. */
    spc_status (*clusters)(spc__device *device, int *out, spc__kernel *kernel,
                           const spc__launch *launch, spc_error *error);
    spc_status (*launch)(spc__device *device, spc__kernel *kernel,
                         const spc__launch *launch, const void *args,
                         size_t args_bytes, void *stream, spc_error *error);

    /* Matrix products by a library. has_gemm opens the library on first use and
     * returns whether it is available. Both are NULL if the device never has
     * one. */
    bool (*has_gemm)(spc__device *device);
    spc_status (*gemm)(spc__device *device, const spc__gemm *gemm, void *stream,
                       spc_error *error);

    /* Writes microseconds of one run into samples[0 .. *count). cuda: replays
     * a graph of many runs between events (warm), or one run between events
     * after a flush (cold). */
    spc_status (*measure)(spc__device *device, const spc__measure *measure,
                          double *samples, int *count, spc_error *error);

    /* Records the work that `enqueue` puts on a stream, so that one launch can
     * repeat it on any stream. A device without streams calls `enqueue` at each
     * launch. Freeing accepts NULL. */
    spc_status (*graph_create)(spc__device *device, spc__graph **out,
                               spc_status (*enqueue)(void *payload,
                                                     void *stream),
                               void *payload, spc_error *error);
    spc_status (*graph_launch)(spc__device *device, spc__graph *graph,
                               void *stream, spc_error *error);
    void (*graph_free)(spc__device *device, spc__graph *graph);

    /* Branches of a graph, called inside `enqueue` of graph_create. graph_mark
     * returns the current position of its stream. After graph_depend, later
     * work waits only for the given marks and no longer for all earlier work.
     * Without marks it waits for nothing. Outside of a capture both do nothing,
     * and both are NULL if the device has no branches. */
    spc_status (*graph_mark)(spc__device *device, spc__mark *out, void *stream,
                             spc_error *error);
    spc_status (*graph_depend)(spc__device *device, const spc__mark *on,
                               int count, void *stream, spc_error *error);
} spc__device_ops;

struct spc__device_head {
    const spc__device_ops *ops;
};

static inline const spc__device_ops *spc__device_ops_of(const spc__device *d)
{
    return ((const struct spc__device_head *)d)->ops;
}

/* True if a library for matrix products is available. */
static inline bool spc__device_has_gemm(spc__device *d)
{
    const spc__device_ops *ops = spc__device_ops_of(d);

    return ops->has_gemm != NULL && ops->has_gemm(d);
}

/* The peak bandwidth of its memory in GB/s; 0: unknown. */
static inline double spc__device_memory_gbps(const spc__device *d)
{
    const spc__device_ops *ops = spc__device_ops_of(d);

    return ops->memory_gbps != NULL ? ops->memory_gbps(d) : 0;
}

/* The name under which kernels of an absent GPU are stored: they serve any
 * device of the target that has no kernels of its own. */
static inline void spc__any_device(char *out, size_t bytes, const char *target)
{
    snprintf(out, bytes, "any %s", target);
}

/* All devices, best first. Ends with NULL. */
extern const spc__device_ops *const spc__device_table[];

/* Opens "cuda:0", "cpu", and so on; "sm_87" opens a GPU that is not here, for
 * its kernels. NULL opens the first device that is present, but never "sim". */
spc_status spc__device_open(spc__device **out, const char *id,
                            const spc__device_options *options,
                            spc_error *error);
void spc__device_close(spc__device *device);

#endif
