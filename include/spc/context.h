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

/* The SPC_VERSION_NUMBER of the library that is loaded, which may differ from
 * that of the headers that the program was compiled with. */
SPC_API int spc_version(void);

/*
 * sizeof the struct of that name in the library that is loaded, in bytes, as in
 * spc_struct_bytes("spc_conv"). It knows every struct that these headers
 * define, without those of spc_import.h. 0: it knows no such struct, or `name`
 * is NULL. A binding that declares the structs in another language compares
 * these sizes with its own once, before the first call.
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
 * A caller's allocator for device memory (host memory for cpu and sim): of
 * sets, clouds, voxels, maps, networks, trainings, the laboratory's samples,
 * and of spc_memory_alloc. Code, and what the driver itself needs, do not go
 * through it, nor does the scratch buffer by which a benchmark empties the
 * cache.
 *
 * Both functions are called on the thread that calls the library, during that
 * call; on cuda the context's CUcontext is current. They must not call the
 * library. Two threads may call them at once where two threads use the library.
 */
typedef struct spc_memory_hook {
    /* Returns at least `bytes` (more than 0) at a multiple of 256 bytes, which
     * no enqueued work uses any more. NULL means out of memory: the call of the
     * library then returns SPC_ENOMEM and keeps nothing. `stream` is the stream
     * that uses the memory first; NULL means any stream. */
    void *(*alloc)(size_t bytes, void *stream, void *payload);
    /* Takes back what `alloc` returned, with the same `bytes`. */
    void (*free)(void *memory, size_t bytes, void *stream, void *payload);
    void *payload;
    /* False: the library waits for the device before each `free`, as cuMemFree
     * does. True: it does not, and enqueued work may still use the memory: the
     * allocator reuses it only behind that work. An allocator that orders by
     * stream does so if the caller uses one stream for everything. */
    bool ordered;
} spc_memory_hook;

typedef struct spc_ctx_options {
    size_t bytes; /* sizeof this struct: SPC_CTX_OPTIONS_INIT sets it */
    /* "cuda:0", "cuda", "cpu", "sim"; NULL: the best device present. */
    const char *device;
    /* Read-write database. NULL: $SPC_DATABASE, else
     * $XDG_CACHE_HOME/spctune/spctune.db, else ~/.cache/...; "": none. A host
     * that runs under a limit on the size of files should ignore SIGXFSZ, so
     * that a database at the limit is an error like a full disk. */
    const char *database;
    /* Read-only (shipped) databases below it, best first. With "pack.db" comes
     * "pack.TARGET.db", the code for the device's target, where it is there. */
    const char *const *layers;
    int layer_count;
    /* Folder whose kernels replace those built in; NULL: those built in. */
    const char *template_dir;
    int threads;        /* for compiling and for the cpu device; 0: all cores */
    bool need_database; /* fail if the database cannot be opened; otherwise a
                          database trouble is logged and the context works
                          without one; but spc_tune ends with it */
    /* Receives progress and warnings, from any thread; level: 0 debug, 1 info,
     * 2 warning. */
    void (*log)(int level, const char *text, void *payload);
    void *log_payload;
    /* Non-zero, set by any thread or a signal handler: what takes long in this
     * context (templates, maps, compiling, tuning, benchmarking) soon ends with
     * SPC_EINTERRUPTED. May be NULL. */
    const volatile int *cancel;
    /* Anyone who can write a database decides which code runs. So a database
     * that a user other than the caller and root owns or may write fails with
     * SPC_EDB. GPU code from `layers` is run, but host code from them is
     * compiled anew. True: both are trusted. */
    bool trust;
    /* The text of a minisign public key. Only those `layers` are used whose
     * manifest (spc_db_pack) was signed with it, and only the records that the
     * manifest lists. NULL: no signature is required. */
    const char *key;
    /* Folder of the tuned databases shipped with the library, one for each
     * class of device. The database of this device's class, if any, has the
     * lowest priority: an equally close record of any other file wins. NULL:
     * $SPC_SHIPPED, else the installed folder. "": no shipped database; also
     * none with `key` or with a `database` of "". */
    const char *shipped;
    /* Allocates device memory in place of the driver or malloc. All NULL: those
     * do. It must outlive the context and all that was made with it. */
    spc_memory_hook memory;
} spc_ctx_options;

#define SPC_CTX_OPTIONS_INIT                                                   \
    {                                                                          \
        sizeof(spc_ctx_options), NULL, NULL, NULL, 0, NULL, 0, false, NULL,    \
            NULL, NULL, false, NULL, NULL,                                     \
        {                                                                      \
            NULL, NULL, NULL, false                                            \
        }                                                                      \
    }

/*
 * Opens a context. A cuda device uses the caller's current CUcontext, or
 * retains the primary one if no context is current. `options` may be NULL. On
 * failure *error (may be NULL) holds the sentence. SPC_ENODEVICE: no such
 * device; SPC_EINVAL: an unknown device word; SPC_ENOTFOUND: a file of
 * `layers`, or template_dir, is not there; SPC_EDB, SPC_EDBVERSION with
 * need_database; SPC_EINVAL also for a memory hook with one of its functions
 * alone; SPC_ETEMPLATE: a template does not load; SPC_EINTERRUPTED. The caller
 * frees *out.
 */
SPC_API spc_status spc_ctx_create(spc_ctx **out, const spc_ctx_options *options,
                                  spc_error *error);
/* Sets, clouds, voxels, maps, plans and trainings that were made with the
 * context keep it open: it closes with the last of them, and they may be used
 * until then. The handle is gone at once, with its background thread. Memory of
 * spc_memory_alloc is the caller's to give back before. */
SPC_API void spc_ctx_free(spc_ctx *ctx);

/*
 * The calling thread's last failure with this context, "" if it had none.
 * Threads that execute plans of one context never see, or overwrite, each
 * other's sentence. It stays until the same thread's next call with the
 * context, and is gone with the context.
 */
SPC_API const char *spc_ctx_error(const spc_ctx *ctx);

/*
 * The sentence of a call that has just failed, whichever kind of call it was:
 * that of *error if there is one, else spc_ctx_error(ctx). A program that stops
 * at its first failure passes the one spc_error that it gave to every call that
 * takes one. Either argument may be NULL.
 */
SPC_API const char *spc_error_text(const spc_error *error, const spc_ctx *ctx);

/*
 * Was the context made by the calling process? False in a child of fork(), and
 * for NULL. A driver's state does not survive fork(): with a cuda context of
 * its parent, a child gets SPC_ESTATE from every call that needs the driver,
 * its free functions release nothing, and the parent is not disturbed. The
 * child makes a context of its own, which CUDA allows only if the parent had
 * not used CUDA before it forked; start such workers by exec. Contexts of cpu
 * and sim serve a child whose parent's threads were idle, but one database must
 * not be used through one context in both processes.
 */
SPC_API bool spc_ctx_is_from_this_process(const spc_ctx *ctx);

/* The context that the object was made with: to be compared, and not to be used
 * after its spc_ctx_free, though it lives as long as the object. NULL for NULL.
 */
SPC_API const spc_ctx *spc_plan_ctx(const spc_plan *plan);
SPC_API const spc_ctx *spc_map_ctx(const spc_map *map);
SPC_API const spc_ctx *spc_coords_ctx(const spc_coords *coords);

typedef struct spc_stats {
    int64_t lookups;          /* plans asked for */
    int64_t hits;             /* answered by a record of exactly this problem */
    int64_t near_hits;        /* answered by a neighbouring record */
    int64_t misses;           /* answered by a template's default */
    int64_t compiles;         /* kernels compiled, maps' kernels included */
    int64_t artefacts_loaded; /* compiled code taken from the database */
    int64_t reserved[4];      /* 0 */
} spc_stats;

/* Returns the counters of a context; all 0 for NULL. */
SPC_API spc_stats spc_ctx_stats(const spc_ctx *ctx);

/* The most bytes a nanosecond (GB/s) between the multiprocessors and memory or
 * a cache: reading only, writing only, and doing as much of both (their sum).
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
    size_t cache_bytes; /* of the cache before memory (for a cpu all its caches
                           together); 0: not known */
    /*
     * The device's measured ceilings, 0 until measured (spc_device_measure).
     * Each is the best of several shapes, orders and sizes, and of its samples
     * the fastest: no kernel should do better.
     */
    spc_bandwidth memory; /* of sets far larger than any cache */
    spc_bandwidth cache;  /* of sets well inside it */
    /* Rows gathered: neighbouring ones, again and again, which the cache next
     * to the multiprocessor serves; rows anywhere in a table well inside the
     * last cache; rows anywhere in a table far larger than it. */
    double gather_near_gbps[SPC_GATHER_SIZES];
    double gather_far_gbps[SPC_GATHER_SIZES];
    double gather_cold_gbps[SPC_GATHER_SIZES];
    /* Products and sums in registers, at the clock of a short run. */
    double f16_tflops;
    double tf32_tflops;
    double f32_tflops;
    double i8_tflops; /* 10^12 whole ones a second */
    double launch_us; /* launch of an empty kernel in a graph of such */
    bool emulates; /* another device, to verify kernels: its times say nothing
                    */
    int64_t reserved[4]; /* 0 */
} spc_device_info;

/* Writes up to `capacity` devices of this machine, best first, and returns how
 * many there are. Opens no context. */
SPC_API int spc_devices_list(spc_device_info *out, int capacity);
/* The device of a context. SPC_EINVAL: an argument is NULL. */
SPC_API spc_status spc_ctx_device(spc_device_info *out, const spc_ctx *ctx);

/* Memory on the device, for callers without an allocator of their own: at least
 * `bytes` bytes at a multiple of 256. The caller frees *out with
 * spc_memory_free and the same context. SPC_ENOMEM or SPC_EDEVICE: the device
 * has not as much. */
SPC_API spc_status spc_memory_alloc(void **out, spc_ctx *ctx, size_t bytes);
SPC_API void spc_memory_free(spc_ctx *ctx, void *memory); /* NULL is fine */
/* Copy `bytes` bytes between the host and the device, after all that the
 * default stream has enqueued, and wait for it. SPC_EDEVICE: an address is
 * wrong, or earlier work on the device failed. */
SPC_API spc_status spc_memory_upload(void *device, spc_ctx *ctx,
                                     const void *host, size_t bytes);
SPC_API spc_status spc_memory_download(void *host, spc_ctx *ctx,
                                       const void *device, size_t bytes);
/* Waits for all work of the device. SPC_EDEVICE: some of it failed. */
SPC_API spc_status spc_ctx_synchronize(spc_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
