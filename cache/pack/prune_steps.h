/* SPDX-License-Identifier: Apache-2.0 */
/* prune_steps.h - statements that remove unneeded records. */
#ifndef SPC_CACHE_PRUNE_STEPS_H
#define SPC_CACHE_PRUNE_STEPS_H

#include "cache/cache_internal.h"

/* Lists end with NULL. */
extern const char *const spc__prune_quarantined[];
extern const char *const spc__prune_orphans[]; /* records without references */

/* Runs the steps within a transaction. ?1 is the time limit. Adds the removed
 * trials, choices and pieces of code to *removed. */
spc_status spc__prune_run(spc__layer *layer, const char *const *steps,
                          int64_t when, int64_t *removed, spc_error *error);

#endif
