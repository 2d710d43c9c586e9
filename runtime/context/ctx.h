/* SPDX-License-Identifier: Apache-2.0 */
/* ctx.h - the members of a context, and how to get kernels from it. */
#ifndef SPC_RUNTIME_CTX_H
#define SPC_RUNTIME_CTX_H

#include "base/log.h"
#include "cache/cache.h"
#include "compiler/template.h"
#include "context/allow.h"
#include "device/device.h"
#include "operators/conv.h"
#include "spc.h"
#include <pthread.h>

typedef struct spc__modules spc__modules; /* loaded modules by artefact key */
typedef struct spc__failure spc__failure; /* the last failure of a thread */
typedef struct spc__related_list spc__related_list; /* related.c */

struct spc_ctx {
    unsigned forks; /* spc__forks() when it was created */
    int users; /* counts the caller's handle and every set, cloud and plan */
    spc__log log;
    spc__device *device;
    spc__library *library; /* use spc__ctx_library, which opens it on first
                            * use */
    spc__cache *cache;     /* NULL: no database */
    bool stores;           /* one of its layers is writable */
    /* why nothing is stored; SPC_OK: the caller's wish */
    spc_error no_store;
    spc__modules *modules;
    spc__attrs target; /* facts about the device for templates */
    spc_device_info info;
    spc_stats stats;
    int threads;
    size_t zone_bytes;   /* guard zone with a pattern around arrays of new sets
                          * and maps, checked by lab/gate */
    bool allows_statics; /* set by tests: accept code with static memory */
    /* runs host code of all layers, whoever owns the files */
    bool trusts_layers;
    spc__allow allow; /* templates that layers may use */
    char *template_dir;
    char *key;                          /* public key for signatures, or NULL */
    char *shipped;                      /* the lowest database file, or NULL */
    char *shipped_folder;               /* as given by the caller, or NULL */
    spc__related_list *related;         /* NULL: never asked for */
    struct spc__background *background; /* NULL: not started */
    const volatile int *cancel;         /* the caller's, or NULL */
    /* guards the list, but not its records */
    pthread_mutex_t failures_lock;
    spc__failure *failures; /* one for each thread on which a call failed */
};

/* Adds and removes one user of the context. Removing the last one closes it.
 * Maps, voxels and trainings hold sets or plans that keep it open. Any thread
 * may free a plan. */
spc_ctx *spc__ctx_share(spc_ctx *ctx);
void spc__ctx_leave(spc_ctx *ctx);

/* Returns the record for failures of the calling thread with this context. No
 * other thread uses it. Returns NULL for no context. */
spc_error *spc__error_of(spc_ctx *ctx);

/* Copies a failure into that record and returns its status. */
spc_status spc__ctx_fail(spc_ctx *ctx, const spc_error *error);

/* Returns SPC_EINTERRUPTED once the caller's flag is set. Called before every
 * measured run. */
spc_status spc__ctx_check_cancel(spc_ctx *ctx);

/* Reads lists of allowed templates (allow.h). */
spc_status spc__ctx_allow(spc__allow *out, spc_ctx *ctx, const char *text,
                          const char *what, spc_error *error);

/* Returns the templates, opened on first use. A plan served from the database
 * never needs Lua. */
spc_status spc__ctx_library(spc__library **out, spc_ctx *ctx);

/* One kernel module with everything needed to launch it. */
typedef struct spc__code {
    spc__module *module; /* owned by the context */
    spc__attrs launch;
    spc__attrs resources;
    size_t statics; /* see spc__code_statics */
    char artefact[65];
} spc__code;

/*
 * Gets the module of one candidate: from memory, else from the database by its
 * artefact key, else rendered, compiled and stored. With SPC_PLAN_CACHED_ONLY,
 * it returns SPC_ENOTFOUND instead of compiling. `config` NULL means the
 * template's default. Works for every role; for role "map" the launch is empty.
 */
spc_status spc__ctx_code(spc__code *out, spc_ctx *ctx,
                         const char *template_name, const spc__attrs *problem,
                         const spc__attrs *config, unsigned flags);

/* A flag in addition to those of spc.h: compile, render and load nothing. Of
 * spc__code, only `launch` is set, and `artefact` if the database has the code.
 * Otherwise `artefact` is empty, or the call returns SPC_ENOTFOUND with
 * SPC_PLAN_CACHED_ONLY. */
enum { SPC__PLAN_UNLOADED = 1 << 16 };

/* With SPC_PLAN_CACHED_ONLY: accept only code that a record of exactly this
 * problem names. No template is queried, so Lua stays closed. */
enum { SPC__PLAN_RECORDED = 1 << 17 };

/* Gets the module that a trial of the database names, without Lua or a
 * compiler. Returns SPC_ENOTFOUND if the template has changed or the code is
 * missing, SPC_EWRONG if the named code was compiled for another problem. */
spc_status spc__ctx_recorded(spc__code *out, spc_ctx *ctx,
                             const spc__attrs *problem, const spc__trial *trial,
                             unsigned flags);

/* Gets the latest stored code of a template for the problem, whatever its
 * configuration, which *config receives. Needs neither Lua nor a compiler.
 * Returns SPC_ENOTFOUND, or SPC_EWRONG as above. */
spc_status spc__ctx_stored_code(spc__code *out, spc__attrs *config,
                                spc_ctx *ctx, const char *template_name,
                                const spc__attrs *problem, unsigned flags);

/* Writes the purpose of the code as text. It is stored with the code and
 * compared on loading. */
void spc__code_identity(spc__buf *out, const char *template_name,
                        const spc__attrs *problem, const spc__attrs *config);

/* True if host code must come from the user's own file, because it runs with
 * all rights of the user. */
bool spc__ctx_wants_own_code(const spc_ctx *ctx);

/* Loads a module from an existing artefact (used by the tuner). */
spc_status spc__ctx_load(spc__code *out, spc_ctx *ctx, const char *artefact_key,
                         const void *code, size_t bytes,
                         const spc__attrs *launch);

/* Undoes one spc__ctx_load (used by the tuner after a candidate has lost). The
 * module stays if a plan or a map uses the same code. */
void spc__ctx_unload(spc_ctx *ctx, const char *artefact_key);

/* Returns a kernel of loaded code. Repeated calls return the same kernel. Its
 * name has at most 15 bytes. */
spc_status spc__ctx_kernel(spc__kernel **out, spc_ctx *ctx,
                           const spc__code *code, const char *name,
                           size_t shared_bytes);

/* Writes the hash of the template; built-in ones need no Lua. Returns false if
 * there is no such template. It equals spc__template_hash. */
bool spc__ctx_template_hash(char hex[SPC__SHA256_HEX], spc_ctx *ctx,
                            const char *template_name);

/* True if templates written for `tpl`'s device can run on the context's
 * device. */
bool spc__ctx_serves(const spc_ctx *ctx, const spc__template *tpl);

/* Returns the device's compiler, and a job for it that lacks only name and
 * source. */
spc_status spc__ctx_compiler(spc__compiler **compiler, spc__compile_job *job,
                             spc_ctx *ctx);

/* Fills in the provenance of measurements and code made by this process. The
 * rest of *out is zero. */
void spc__ctx_provenance(spc__provenance *out, const spc_ctx *ctx);

/* pack_layers.c: opens the database files of a context. A pack also brings the
 * code for the context's target. The shipped database is the lowest layer. If
 * it cannot be opened, it is left out and the log gives the reason. */
spc_status spc__ctx_open_cache(spc__cache **out, spc_ctx *ctx, const char *path,
                               const char *const *layers, int count,
                               const char *key, spc_error *error);

/* shipped.c: the shipped file for the device of `ctx` (shipped.h), else that of
 * the nearest related device in the first folder that has one (related.h).
 * Opens the files of the folder in that case, under a millisecond each. */
void spc__ctx_find_shipped(spc__buf *out, const char *folder,
                           const spc_ctx *ctx);

/* related.c: frees the list of related devices. */
void spc__ctx_related_free(spc_ctx *ctx);

/* code.c: the table of modules, created and freed with the context. */
spc__modules *spc__modules_create(void);
void spc__modules_free(spc__modules *modules, spc__device *device);

/* Returns SPC_ENOTFOUND, with the reason, if the context has no database. */
spc_status spc__ctx_check_database(const spc_ctx *ctx, spc_error *error);

/* The same, but first SPC_EINVAL if ctx or the named argument is NULL. */
spc_status spc__ctx_need_database(spc_ctx *ctx, const char *function,
                                  const char *name, const void *needed);

#endif
