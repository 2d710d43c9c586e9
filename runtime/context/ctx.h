/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctx.h - what a context holds, and how kernels are had from it.
 */
#ifndef SPC_RUNTIME_CTX_H
#define SPC_RUNTIME_CTX_H

#include "base/log.h"
#include "cache/cache.h"
#include "compiler/template.h"
#include "device/device.h"
#include "operators/conv.h"
#include "spc.h"
#include <pthread.h>

typedef struct spc__modules spc__modules; /* loaded modules by artefact key */
typedef struct spc__failure spc__failure; /* a thread's last */

struct spc_ctx {
    int users; /* the caller's handle, and every set, cloud and plan */
    spc__log log;
    spc__device *device;
    spc__library *library; /* through spc__ctx_library: opened on first use */
    spc__cache *cache;     /* NULL: works without a database */
    bool stores;           /* one of its layers may be written to */
    spc_error no_store;    /* why not; SPC_OK: none was asked for */
    spc__modules *modules;
    spc__attrs target; /* facts for templates */
    spc_device_info info;
    spc_stats stats;
    int threads;
    size_t zone_bytes; /* around arrays of sets and maps that are made from now
                          on, of a pattern: for who watches that (lab/bed.h) */
    bool allows_statics; /* set by tests: the gate admits static memory */
    bool trusts_layers;  /* runs their host code, and a file of others */
    char *template_dir;
    char *key;            /* for signatures, or NULL */
    char *shipped;        /* the file below all others; NULL: there is none */
    char *shipped_folder; /* as the caller said it, or NULL */
    struct spc__background *background; /* NULL: not started */
    const volatile int *cancel;         /* the caller's; NULL: nobody cancels */
    pthread_mutex_t failures_lock;      /* of the list, not of what it holds */
    spc__failure *failures; /* plans execute, and fail, on any thread */
};

/* One more user of the context, and one less: the last one closes it. Maps,
 * voxels and trainings have sets or plans that keep it open. Any thread may
 * free a plan. */
spc_ctx *spc__ctx_share(spc_ctx *ctx);
void spc__ctx_leave(spc_ctx *ctx);

/* Where the calling thread's failures with this context are kept, and nobody
 * else's. NULL for no context. */
spc_error *spc__error_of(spc_ctx *ctx);

/* Copies a failure there; returns its status. */
spc_status spc__ctx_fail(spc_ctx *ctx, const spc_error *error);

/* SPC_EINTERRUPTED once the caller's flag is set: asked before every run of
 * what is measured. */
spc_status spc__ctx_check_cancel(spc_ctx *ctx);

/* The templates, opened on first use: a plan served from the database never
 * needs Lua. */
spc_status spc__ctx_library(spc__library **out, spc_ctx *ctx);

/* One kernel module with what is needed to launch it. */
typedef struct spc__code {
    spc__module *module; /* the context's */
    spc__attrs launch;
    spc__attrs resources;
    size_t statics; /* spc__code_statics */
    char artefact[65];
} spc__code;

/*
 * The module of one candidate: from memory, else from the database by its
 * artefact key, else rendered and compiled (and stored). With
 * SPC_PLAN_CACHED_ONLY a compile becomes SPC_ENOTFOUND. `config` NULL means the
 * template's default. Works for every role: launch is empty for role "map".
 */
spc_status spc__ctx_code(spc__code *out, spc_ctx *ctx,
                         const char *template_name, const spc__attrs *problem,
                         const spc__attrs *config, unsigned flags);

/* A flag beside those of spc.h: nothing is compiled, rendered or loaded. Of
 * spc__code then only `launch` is known, and `artefact` where the database has
 * the code; else it is empty, or, with SPC_PLAN_CACHED_ONLY, SPC_ENOTFOUND. */
enum { SPC__PLAN_UNLOADED = 1 << 16 };

/* With SPC_PLAN_CACHED_ONLY: only code that a record of this very problem
 * names. No template is asked, so Lua stays closed. */
enum { SPC__PLAN_RECORDED = 1 << 17 };

/* The module that a trial of the database names, without Lua or a compiler:
 * SPC_ENOTFOUND if its template has changed since or its code is not there;
 * SPC_EWRONG if what it names is the code of something else. */
spc_status spc__ctx_recorded(spc__code *out, spc_ctx *ctx,
                             const spc__attrs *problem, const spc__trial *trial,
                             unsigned flags);

/* Code that the database has of a template for the problem, whatever its
 * configuration, which *config receives: that which was stored last. Needs
 * neither Lua nor a compiler. SPC_ENOTFOUND; SPC_EWRONG as above. */
spc_status spc__ctx_stored_code(spc__code *out, spc__attrs *config,
                                spc_ctx *ctx, const char *template_name,
                                const spc__attrs *problem, unsigned flags);

/* What code is compiled for, in words: it is stored with the code, and compared
 * when that is loaded. */
void spc__code_identity(spc__buf *out, const char *template_name,
                        const spc__attrs *problem, const spc__attrs *config);

/* Code of the host runs with all that its user may do: must it come from the
 * user's own file? */
bool spc__ctx_wants_own_code(const spc_ctx *ctx);

/* Loads a module whose artefact is already there (the tuner's way in). */
spc_status spc__ctx_load(spc__code *out, spc_ctx *ctx, const char *artefact_key,
                         const void *code, size_t bytes,
                         const spc__attrs *launch);

/* Undoes one spc__ctx_load (the tuner, after a candidate has lost). The module
 * stays if a plan or a map came to the same code. */
void spc__ctx_unload(spc_ctx *ctx, const char *artefact_key);

/* A kernel of loaded code; the same one when asked again. Its name has at most
 * 15 bytes. */
spc_status spc__ctx_kernel(spc__kernel **out, spc_ctx *ctx,
                           const spc__code *code, const char *name,
                           size_t shared_bytes);

/* The hash of the template named, without Lua for the built-in ones; false if
 * there is no such template. It equals spc__template_hash. */
bool spc__ctx_template_hash(char hex[SPC__SHA256_HEX], spc_ctx *ctx,
                            const char *template_name);

/* May templates written for `tpl`'s device run on the context's? */
bool spc__ctx_serves(const spc_ctx *ctx, const spc__template *tpl);

/* The device's compiler, and a job for it that lacks only name and source. */
spc_status spc__ctx_compiler(spc__compiler **compiler, spc__compile_job *job,
                             spc_ctx *ctx);

/* Who measures or compiles here and now; the rest of *out is zero. */
void spc__ctx_provenance(spc__provenance *out, const spc_ctx *ctx);

/* pack_layers.c: opens the files of a context: of packs, the code for its
 * target as well. What ships lies below them, unless it does not open: then it
 * is left out, and the log says why. */
spc_status spc__ctx_open_cache(spc__cache **out, spc_ctx *ctx, const char *path,
                               const char *const *layers, int count,
                               const char *key, spc_error *error);

/* code.c: the table of modules, made and freed with the context. */
spc__modules *spc__modules_create(void);
void spc__modules_free(spc__modules *modules, spc__device *device);

/* SPC_EINVAL if ctx, or the argument of that name, is NULL; SPC_ENOTFOUND: the
 * context has no database. */
spc_status spc__ctx_need_database(spc_ctx *ctx, const char *function,
                                  const char *name, const void *needed);

#endif
