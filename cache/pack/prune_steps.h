/* SPDX-License-Identifier: Apache-2.0 */
/* prune_steps.h - statements that remove what a file can do without. */
#ifndef SPC_CACHE_PRUNE_STEPS_H
#define SPC_CACHE_PRUNE_STEPS_H

#include "cache/cache_internal.h"

/* Lists end with NULL. */
extern const char *const spc__prune_quarantined[];
extern const char *const spc__prune_orphans[]; /* what nothing refers to */

/* Runs them, within a transaction; ?1 is a time. Adds to *removed how many
 * trials, choices and pieces of code went. */
spc_status spc__prune_run(spc__layer *layer, const char *const *steps,
                          int64_t when, int64_t *removed, spc_error *error);

#endif
