/* SPDX-License-Identifier: Apache-2.0 */
/* modules.h - compiled code that is loaded (modules.c). */
#ifndef SPC_RUNTIME_MODULES_H
#define SPC_RUNTIME_MODULES_H

#include "context/ctx.h"

typedef struct spc__loaded spc__loaded;

/* The module of that artefact; NULL: it is not loaded. */
spc__loaded *spc__modules_find(const spc__modules *modules,
                               const char *artefact);
/* Loads `code` under its key, or finds it loaded; counts one use. */
spc_status spc__modules_load(spc__loaded **out, spc_ctx *ctx,
                             const char *artefact, const void *code,
                             size_t bytes, const spc__attrs *resources,
                             spc_error *error);
/* Counts one more. */
void spc__loaded_use(spc__loaded *module);
/* It as a caller sees it; `launch` may be NULL. */
void spc__loaded_code(spc__code *out, const spc__loaded *module,
                      const spc__attrs *launch);

/* The code that was kept under a name, with a use more; false: none is. */
bool spc__modules_named(spc__code *out, spc_ctx *ctx, const char *name);
/* A name that cannot be kept only costs time later. */
void spc__modules_name(spc__modules *modules, const char *name,
                       const spc__code *code);

/* True once for a context: has there been trouble with the database? */
bool spc__modules_first_trouble(spc__modules *modules);

#endif
