/* SPDX-License-Identifier: Apache-2.0 */
/* modules.h - loaded code (modules.c). */
#ifndef SPC_RUNTIME_MODULES_H
#define SPC_RUNTIME_MODULES_H

#include "context/ctx.h"

typedef struct spc__loaded spc__loaded;

/* Returns the module of that artefact, or NULL if it is not loaded. */
spc__loaded *spc__modules_find(const spc__modules *modules,
                               const char *artefact);
/* Loads `code` under its key, or finds it loaded. Counts one use. */
spc_status spc__modules_load(spc__loaded **out, spc_ctx *ctx,
                             const char *artefact, const void *code,
                             size_t bytes, const spc__attrs *resources,
                             spc_error *error);
/* Counts one more use. */
void spc__loaded_use(spc__loaded *module);
/* Fills in the caller's view of a module. `launch` may be NULL. */
void spc__loaded_code(spc__code *out, const spc__loaded *module,
                      const spc__attrs *launch);

/* Gets the code stored under a name and counts one use. Returns false if the
 * name is unknown. */
bool spc__modules_named(spc__code *out, spc_ctx *ctx, const char *name);
/* Stores the name. A failure is ignored, since it only costs time later. */
void spc__modules_name(spc__modules *modules, const char *name,
                       const spc__code *code);

/* Returns true on the first database failure of a context. */
bool spc__modules_first_trouble(spc__modules *modules);

#endif
