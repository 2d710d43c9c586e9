/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - the one interface behind which cuda, cpu and sim stand.
 *
 * A device is a file (device_<name>.c) that exports one spc__device_ops, and a
 * row in device_table.c. Every kernel takes exactly one argument: a struct by
 * value (spc_abi.h), so a launch is a kernel, a geometry and a block of bytes.
 */
#ifndef SPC_RUNTIME_DEVICE_H
#define SPC_RUNTIME_DEVICE_H

#include "base/attrs.h"
#include "base/log.h"
#include "compiler/artefact.h"
#include "spc.h"

typedef struct spc__device
    spc__device; /* each implementation's own struct begins
                    with: const spc__device_ops *ops; */
typedef struct spc__module spc__module;
typedef struct spc__kernel spc__kernel;
typedef struct spc__pool spc__pool;   /* base/pool.h */
typedef struct spc__graph spc__graph; /* runs that are launched as one */

/* A place in a graph that is being captured: behind these nodes. */
enum { SPC__MARK_NODES = 32 };

typedef struct spc__mark {
    void *nodes[SPC__MARK_NODES];
    int count;
} spc__mark;

typedef struct spc__launch {
    unsigned grid_x, grid_y;
    unsigned block;
    size_t shared_bytes;
    bool pdl;         /* programmatic dependent launch, where the device can */
    bool cooperative; /* all blocks resident: spc_grid_sync may be used */
    unsigned cluster; /* blocks in x that form one; 0, 1: there are none */
} spc__launch;

/* How to measure: `enqueue` puts one run on the stream and is called many
 * times. */
typedef struct spc__measure {
    spc_status (*enqueue)(void *payload, void *stream);
    void *payload;
    int samples;    /* how many to take */
    double limit_s; /* for all samples together */
    bool cold;      /* flush the last-level cache before each run */
    /* What is put on the stream before each run, and not timed; a sample is one
     * run then. NULL: nothing. */
    spc_status (*before)(void *payload, void *stream);
} spc__measure;

typedef struct spc__device_options {
    int threads;
    const spc__log *log;
    spc_memory_hook memory; /* of the caller; all NULL: the device's own */
} spc__device_options;

/* c[rows][columns] = a[rows][depth] times the transposition of
 * b[columns][depth]; rows follow each other without gaps. */
typedef struct spc__gemm {
    const void *a, *b; /* f16, bf16 or f32 */
    float *c;
    int64_t rows;
    int columns, depth;
    spc_dtype dtype;
} spc__gemm;

typedef struct spc__device_ops {
    const char *name; /* "cuda" */

    /* What others must know of a device, and would else ask its name for. */
    bool is_emulation;       /* verifies kernels, is never chosen by itself, and
                                its target is another device's */
    bool runs_on_host_cores; /* kernels and compilers share them */
    bool measures_alone;     /* nothing may compile during a timing */
    bool stays_in_process; /* a child of fork() cannot use it */
    bool builds_maps_on_host; /* by threads, not by kernels */
    unsigned index_block; /* threads of a block that builds a map; 0: as many
                             as it takes */

    /* Fills up to `capacity` infos; returns the number of devices. Cheap and
     * silent when the driver is missing. */
    int (*list)(spc_device_info *out, int capacity);
    spc_status (*open)(spc__device **out, int ordinal,
                       const spc__device_options *options, spc_error *error);
    void (*close)(spc__device *device);
    void (*info)(const spc__device *device, spc_device_info *out);

    /* Facts for templates: device, templates (whose it runs, if not its own),
     * target, sm, shared_block, shared_sm,
     * registers_sm, max_threads, multiprocessors (cuda, sim); device, target,
     * isa, vector_bytes (cpu). */
    void (*target)(const spc__device *device, spc__attrs *out);
    /* The threads that run its kernels, for loops that build maps on the host;
     * there where builds_maps_on_host is set. */
    spc__pool *(*pool)(spc__device *device);

    spc_status (*alloc)(spc__device *device, void **out, size_t bytes,
                        spc_error *error);
    void (*dealloc)(spc__device *device, void *memory);
    spc_status (*copy_in)(spc__device *device, void *to, const void *from,
                          size_t bytes, void *stream, spc_error *error);
    spc_status (*copy_out)(spc__device *device, void *to, const void *from,
                           size_t bytes, void *stream, spc_error *error);
    spc_status (*fill)(spc__device *device, void *to, int byte, size_t bytes,
                       void *stream, spc_error *error);
    spc_status (*sync)(spc__device *device, void *stream, spc_error *error);
    /* Waits for all streams, whoever made them. NULL: work is done when the
     * call that enqueues it returns. */
    spc_status (*drain)(spc__device *device, spc_error *error);

    /* The compiler for this device's templates (opened on first use), the
     * extra options it needs, and the -arch or -m target string. */
    spc_status (*compiler)(spc__device *device, spc__compiler **out,
                           const char **options, spc_error *error);

    spc_status (*module_load)(spc__device *device, spc__module **out,
                              const void *code, size_t bytes, spc_error *error);
    void (*module_unload)(spc__device *device, spc__module *module);
    /* SPC_ENOTFOUND if the module has no such kernel. */
    spc_status (*kernel_get)(spc__device *device, spc__module *module,
                             const char *name, size_t shared_bytes,
                             spc__kernel **out, spc_error *error);
    /* Resident blocks of a multiprocessor (the driver's occupancy answer). */
    spc_status (*occupancy)(spc__device *device, int *out, spc__kernel *kernel,
                            unsigned block, size_t shared_bytes,
                            spc_error *error);
    /* Resident clusters of such launches, on the whole device; NULL: as many as
     * the resident blocks make. */
    spc_status (*clusters)(spc__device *device, int *out, spc__kernel *kernel,
                           const spc__launch *launch, spc_error *error);
    spc_status (*launch)(spc__device *device, spc__kernel *kernel,
                         const spc__launch *launch, const void *args,
                         size_t args_bytes, void *stream, spc_error *error);

    /* A library's product of matrices. has_gemm: is there one? It is opened
     * when this is first asked. Both NULL: there never is. */
    bool (*has_gemm)(spc__device *device);
    spc_status (*gemm)(spc__device *device, const spc__gemm *gemm, void *stream,
                       spc_error *error);

    /* Writes microseconds of one run into samples[0 .. *count). cuda: replays
     * a graph of many runs between events (warm), or one run between events
     * after a flush (cold). */
    spc_status (*measure)(spc__device *device, const spc__measure *measure,
                          double *samples, int *count, spc_error *error);

    /* Keeps what `enqueue` puts on a stream, to be put on others as often as
     * wanted by one launch; where a device has no streams, calling it is that.
     * Freeing accepts NULL. */
    spc_status (*graph_create)(spc__device *device, spc__graph **out,
                               spc_status (*enqueue)(void *payload,
                                                     void *stream),
                               void *payload, spc_error *error);
    spc_status (*graph_launch)(spc__device *device, spc__graph *graph,
                               void *stream, spc_error *error);
    void (*graph_free)(spc__device *device, spc__graph *graph);

    /* Branches of a graph, for `enqueue` of graph_create: where its stream
     * stands; and what comes next waits for these marks alone (none: for
     * nothing), not for all that was enqueued. On a stream that is not captured
     * they do nothing. Both NULL: there are no branches. */
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

/* Can it have matrices multiplied by a library? */
static inline bool spc__device_has_gemm(spc__device *d)
{
    const spc__device_ops *ops = spc__device_ops_of(d);

    return ops->has_gemm != NULL && ops->has_gemm(d);
}

/* All devices, best first; ends with NULL. */
extern const spc__device_ops *const spc__device_table[];

/* Opens "cuda:0", "cpu", ... or, for NULL, the first that is present ("sim" is
 * never chosen by itself). */
spc_status spc__device_open(spc__device **out, const char *id,
                            const spc__device_options *options,
                            spc_error *error);
void spc__device_close(spc__device *device);

#endif
