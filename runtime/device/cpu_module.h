/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_module.h - shared objects loaded from memory. */
#ifndef SPC_RUNTIME_CPU_MODULE_H
#define SPC_RUNTIME_CPU_MODULE_H

#include "spc/status.h"
#include <stddef.h>

typedef struct spc__object spc__object;

/*
 * Loads the bytes of a shared object. Returns SPC_EFORMAT if they are for
 * another machine or truncated, SPC_EDEVICE if the loader refuses them.
 */
spc_status spc__object_load(spc__object **out, const void *code, size_t bytes,
                            spc_error *error);
void spc__object_unload(spc__object *object); /* NULL is fine */

/* Returns a symbol's address, or NULL. */
void *spc__object_find(const spc__object *object, const char *name);

#endif
