/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/context.h - contexts on devices, the memory of devices, the version of
 * the library.
 */
#ifndef SPC_CONTEXT_H
#define SPC_CONTEXT_H

#include "status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version ------------------------------------------------------------- */

/* The version of these headers. A release increases SPC_VERSION_NUMBER, so that
 * a program can compare: #if SPC_VERSION_NUMBER >= 10200 (1.2.0). */
#define SPC_VERSION_MAJOR 1
#define SPC_VERSION_MINOR 0
#define SPC_VERSION_PATCH 0
#define SPC_VERSION_NUMBER                                                     \
    (SPC_VERSION_MAJOR * 10000 + SPC_VERSION_MINOR * 100 + SPC_VERSION_PATCH)
#define SPC_VERSION_TEXT "1.0.0-rc.1"

/* Returns the SPC_VERSION_NUMBER of the loaded library. It may differ from the
 * SPC_VERSION_NUMBER of the headers at compile time. */
SPC_API int spc_version(void);

/*
 * Returns the size in bytes of the struct `name` in the loaded library, as in
 * spc_struct_bytes("spc_conv"). Covers every struct of these headers except
 * those of spc_import.h. Returns 0 for an unknown name or NULL. A binding in
 * another language should compare these sizes with the sizes of its
 * declarations once, before the first call.
 */
SPC_API size_t spc_struct_bytes(const char *name);

/* ---- contexts and devices ------------------------------------------------ */

typedef struct spc_ctx spc_ctx;       /* a device, a database, templates */
typedef struct spc_scene spc_scene;   /* coordinates on the host */
typedef struct spc_coords spc_coords; /* a coordinate set on the device */
typedef struct spc_map spc_map;       /* a kernel map on the device */
typedef struct spc_points spc_points; /* clouds of points on the device */
typedef struct spc_plan spc_plan;     /* a problem bound to one loaded kernel */

/*
 * A caller's allocator for device memory (host memory for cpu and sim). It
 * serves sets, clouds, voxels, maps, networks, trainings, the laboratory's
 * samples, and spc_memory_alloc. It does not serve code, the driver's internal
 * memory, or the scratch buffer that a benchmark uses to flush the cache.
 *
 * Both functions are called on the thread that calls the library, during that
 * call; on cuda the context's CUcontext is current. They must not call the
 * library. Two threads may call them at once where two threads use the library.
 */
typedef struct spc_memory_hook {
    /* Returns at least `bytes` (more than 0) at a multiple of 256 bytes. No
     * enqueued work may still use this memory. NULL means out of memory: the
     * call of the library then returns SPC_ENOMEM and keeps nothing. `stream`
     * is the stream that uses the memory first; NULL means any stream. */
    void *(*alloc)(size_t bytes, void *stream, void *payload);
    /* Frees memory that `alloc` returned; `bytes` is the same as in that
     * call. */
    void (*free)(void *memory, size_t bytes, void *stream, void *payload);
    void *payload;
    /* False: the library waits for the device before each `free`, as cuMemFree
     * does. True: it does not wait, so enqueued work may still use the memory,
     * and the allocator must not reuse the memory before this work has ended. A
     * stream-ordered allocator satisfies this if the caller uses one stream for
     * everything. */
    bool ordered;
} spc_memory_hook;

typedef struct spc_ctx_options {
    size_t bytes; /* sizeof this struct: SPC_CTX_OPTIONS_INIT sets it */
    /* "cuda:0", "cuda", "cpu", "sim"; NULL: the best device present. A target
     * such as "sm_87" is a GPU that is absent: plans compile and store kernels
     * for it, nothing runs, and downloads return SPC_EUNSUPPORTED. */
    const char *device;
    /* Read-write database. NULL: $SPC_DATABASE, else
     * $XDG_CACHE_HOME/spctune/spctune.db, else ~/.cache/...; "": none. A
     * program with a limit on file sizes should ignore SIGXFSZ. A database that
     * reaches the limit then gives an error, as a full disk does. */
    const char *database;
    /* Read-only (shipped) databases with lower priority than `database`, in
     * descending priority. "pack.db" also loads "pack.TARGET.db", the code for
     * the device's target, if this file exists. */
    const char *const *layers;
    int layer_count;
    /* Folder of templates that replace the built-in ones; NULL: the built-in
     * templates. */
    const char *template_dir;
    int threads;        /* for compiling and for the cpu device; 0: all cores */
    bool need_database; /* fail if the database cannot be opened; else the error
                          is logged and the context works without a database,
                          except that spc_tune fails */
    /* Receives progress and warnings, from any thread; level: 0 debug, 1 info,
     * 2 warning. */
    void (*log)(int level, const char *text, void *payload);
    void *log_payload;
    /* Any thread or signal handler may set it to non-zero. Long operations of
     * the context (templates, maps, compiling, tuning, benchmarking) then end
     * soon with SPC_EINTERRUPTED. May be NULL. */
    const volatile int *cancel;
    /* Write access to a database is control over the code that runs. If false,
     * a database that a user other than the caller and root owns or may write
     * fails with SPC_EDB; GPU code from `layers` is used, but host code from
     * them is compiled anew. True: such databases and host code from `layers`
     * are trusted. */
    bool trust;
    /* The text of a minisign public key. The context uses only `layers` whose
     * manifest (spc_db_pack) was signed with this key, and only records that
     * the manifest lists. NULL: no signature is required. */
    const char *key;
    /* Folder of the tuned databases shipped with the library, one for each
     * class of device. The database of this device's class, if any, has the
     * lowest priority: an equally close record of any other file wins. NULL:
     * $SPC_SHIPPED, else the installed folder. "": no shipped database; also
     * none with `key` or with a `database` of "". */
    const char *shipped;
    /* Allocates device memory in place of the driver or malloc. All members
     * NULL: the driver or malloc allocates. It must outlive the context and all
     * objects made with the context. */
    spc_memory_hook memory;
    /*
     * The templates that layers may use, by pass, as
     * "forward=os_mma+os_warp,dgrad=os_mma,wgrad=wgrad_rows". A pass that is
     * not named may use all. A named pass uses nothing else: plans, explain and
     * the tuner ignore other records and candidates, and a layer that none of
     * these templates serves is SPC_EUNSUPPORTED. An unknown pass or template,
     * or an empty list, fails with SPC_EINVAL. NULL: $SPC_ALLOW, else all.
     */
    const char *allow;
} spc_ctx_options;

#define SPC_CTX_OPTIONS_INIT                                                   \
    {                                                                          \
        sizeof(spc_ctx_options), NULL, NULL, NULL, 0, NULL, 0, false, NULL,    \
            NULL, NULL, false, NULL, NULL, {NULL, NULL, NULL, false}, NULL     \
    }

/*
 * Opens a context. A cuda device uses the caller's current CUcontext, or
 * retains the primary one if no context is current. `options` may be NULL. On
 * failure *error (may be NULL) holds the message. SPC_ENODEVICE: the device
 * does not exist; SPC_EINVAL: an unknown device word, a memory hook with only
 * one of its functions, or an `allow` that is wrong; SPC_ENOTFOUND: a file of
 * `layers`, or template_dir, does not exist; SPC_EDB, SPC_EDBVERSION with
 * need_database; SPC_ETEMPLATE: a template does not load; SPC_EINTERRUPTED. The
 * caller frees *out.
 */
SPC_API spc_status spc_ctx_create(spc_ctx **out, const spc_ctx_options *options,
                                  spc_error *error);
/* Sets, clouds, voxels, maps, plans and trainings keep their context open: it
 * closes with the last of them, and they remain usable until then. The handle
 * is invalid at once, and the background thread ends. The caller must free
 * memory of spc_memory_alloc beforehand. */
SPC_API void spc_ctx_free(spc_ctx *ctx);

/*
 * Returns the message of the calling thread's last failure with this context,
 * "" if there was none. Threads that execute plans of one context never see or
 * overwrite each other's message. The message stays until the same thread's
 * next call with the context, at most until the context is freed.
 */
SPC_API const char *spc_ctx_error(const spc_ctx *ctx);

/*
 * Returns the message of a call that has just failed: the text of *error if it
 * holds a failure, else spc_ctx_error(ctx). A program that stops at its first
 * failure can use one spc_error for all calls. Either argument may be NULL.
 */
SPC_API const char *spc_error_text(const spc_error *error, const spc_ctx *ctx);

/*
 * True if the calling process made the context. False in a child of fork(), and
 * for NULL. A driver's state does not survive fork(): with a cuda context of
 * its parent, a child gets SPC_ESTATE from every call that needs the driver,
 * its free functions release nothing, and the parent is not disturbed. The
 * child must make a new context, which CUDA allows only if the parent had not
 * used CUDA before the fork; start such workers by exec. Contexts of cpu and
 * sim work in a child if the parent's threads were idle at the fork, but the
 * two processes must not use one database through the same context.
 */
SPC_API bool spc_ctx_is_from_this_process(const spc_ctx *ctx);

/* Returns the context that the object was made with. The pointer lives as long
 * as the object and may be compared, but it must not be used after its
 * spc_ctx_free. NULL for NULL.
 */
SPC_API const spc_ctx *spc_plan_ctx(const spc_plan *plan);
SPC_API const spc_ctx *spc_map_ctx(const spc_map *map);
SPC_API const spc_ctx *spc_coords_ctx(const spc_coords *coords);

typedef struct spc_stats {
    int64_t lookups;          /* plans requested */
    int64_t hits;             /* served by a record of exactly this problem */
    int64_t near_hits;        /* served by a record of a neighbouring problem */
    int64_t misses;           /* served by a template's default */
    int64_t compiles;         /* kernels compiled, maps' kernels included */
    int64_t artefacts_loaded; /* compiled code taken from the database */
    int64_t reserved[4];      /* 0 */
} spc_stats;

/* Returns the counters of a context; all 0 for NULL. */
SPC_API spc_stats spc_ctx_stats(const spc_ctx *ctx);

/* The highest rates in GB/s between the multiprocessors and memory or a cache:
 * read only, write only, and half reads and half writes (their sum).
 */
typedef struct spc_bandwidth {
    double read_gbps, write_gbps, copy_gbps;
} spc_bandwidth;

enum { SPC_GATHER_SIZES = 8 }; /* rows of 8 << i bytes: 8, 16, ... 1024 */

typedef struct spc_device_info {
    char id[16];         /* "cuda:0" */
    char name[64];       /* device class: "NVIDIA H200", "cpu avx512" */
    char target[24];     /* the target of compiled code: "sm_90a", "avx512" */
    char driver[32];     /* "13.0", "" if none */
    int multiprocessors; /* cores for the cpu */
    size_t memory_bytes;
    size_t cache_bytes; /* the last cache before memory (for a cpu the sum of
                           its caches); 0: unknown */
    /*
     * The device's measured upper bounds, 0 until measured
     * (spc_device_measure). Each is the fastest sample over several shapes,
     * orders and sizes, so no kernel should exceed it.
     */
    spc_bandwidth memory; /* of working sets far larger than any cache */
    spc_bandwidth cache;  /* of working sets well inside the cache */
    /* Gathered rows: neighbouring rows read repeatedly, which the cache of the
     * multiprocessor serves; random rows of a table well inside the last cache;
     * random rows of a table far larger than the last cache. */
    double gather_near_gbps[SPC_GATHER_SIZES];
    double gather_far_gbps[SPC_GATHER_SIZES];
    double gather_cold_gbps[SPC_GATHER_SIZES];
    /* Multiply-adds in registers, at the clock rate of a short run. */
    double f16_tflops;
    double tf32_tflops;
    double f32_tflops;
    double i8_tflops; /* 10^12 integer operations a second */
    double launch_us; /* launch of an empty kernel in a graph of empty
                         kernels */
    bool emulates; /* emulates another device, to verify kernels; its times are
                    * meaningless
                    */
    int64_t reserved[4]; /* 0 */
} spc_device_info;

/* Writes up to `capacity` devices of this machine, best first, and returns how
 * many there are. Opens no context. */
SPC_API int spc_devices_list(spc_device_info *out, int capacity);
/* The device of a context. SPC_EINVAL: an argument is NULL. */
SPC_API spc_status spc_ctx_device(spc_device_info *out, const spc_ctx *ctx);

/* Allocates device memory, for callers without an allocator: at least `bytes`
 * bytes at a multiple of 256. The caller frees *out with spc_memory_free and
 * the same context. SPC_ENOMEM or SPC_EDEVICE: the device has not enough
 * memory. */
SPC_API spc_status spc_memory_alloc(void **out, spc_ctx *ctx, size_t bytes);
SPC_API void spc_memory_free(spc_ctx *ctx, void *memory); /* NULL is fine */
/* Copy `bytes` bytes between host and device, in the order of the default
 * stream, and wait for the copy. SPC_EDEVICE: an address is wrong, or earlier
 * work on the device failed. */
SPC_API spc_status spc_memory_upload(void *device, spc_ctx *ctx,
                                     const void *host, size_t bytes);
SPC_API spc_status spc_memory_download(void *host, spc_ctx *ctx,
                                       const void *device, size_t bytes);
/* Waits for all work of the device. SPC_EDEVICE: some of the work failed. */
SPC_API spc_status spc_ctx_synchronize(spc_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
