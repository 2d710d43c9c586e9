/*
 * ctx.h - what a context holds, and how kernels are had from it.
 */
#ifndef SPC_RUNTIME_CTX_H
#define SPC_RUNTIME_CTX_H

#include "cache.h"
#include "device.h"
#include "log.h"
#include "spc.h"
#include "template.h"

typedef struct spc__modules spc__modules; /* loaded modules by artefact key */

struct spc_ctx {
    spc_error error;
    spc__log log;
    spc__device *device;
    spc__library *library; /* through spc__ctx_library: opened on first use */
    spc__cache *cache;     /* NULL: works without a database */
    spc__modules *modules;
    spc__attrs target; /* facts for templates */
    spc_device_info info;
    spc_stats stats;
    int threads;
    char *template_dir;
};

/* The templates, opened on first use: a plan served from the database never
 * needs Lua. */
spc_status spc__ctx_library(spc__library **out, spc_ctx *ctx);

/* A layer as attrs, in canonical order: op, cin, cout, kx, ky, kz, dx, dy, dz,
 * dtype, bias, deterministic, and for the templates the derived `offsets`
 * (kx*ky*kz) and `centre`. */
void spc__conv_attrs(spc__attrs *out, const spc_conv *conv);

/* The key of a measurement of `conv` on a map of this size and density. */
void spc__conv_key(spc__problem_key *out, const spc_ctx *ctx,
                   const spc_conv *conv, int64_t rows, double density);

/* One kernel module with what is needed to launch it. */
typedef struct spc__code {
    spc__module *module; /* the context's */
    spc__attrs launch;
    spc__attrs resources;
    char artefact[65];
} spc__code;

/*
 * The module of one candidate: from memory, else from the database by its
 * artefact key, else rendered and compiled (and stored). With
 * SPC_PLAN_CACHED_ONLY a compile becomes SPC_ENOTFOUND. `config` NULL means the template's
 * default. Works for every role: launch is empty for role "map".
 */
spc_status spc__ctx_code(spc__code *out, spc_ctx *ctx, const char *template_name,
                         const spc__attrs *problem, const spc__attrs *config,
                         unsigned flags);

/* Loads a module whose artefact is already in hand (the tuner's way in). */
spc_status spc__ctx_load(spc__code *out, spc_ctx *ctx, const char *artefact_key,
                         const void *code, size_t bytes,
                         const spc__attrs *launch);

/* Unloads one module (the tuner, after a candidate has lost). */
void spc__ctx_unload(spc_ctx *ctx, const char *artefact_key);

#endif
