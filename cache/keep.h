/* SPDX-License-Identifier: Apache-2.0 */
/* keep.h - what a file keeps: pruning it, pinning a choice, its version. */
#ifndef SPC_CACHE_KEEP_H
#define SPC_CACHE_KEEP_H

#include "cache/cache.h"

typedef struct spc__prune {
    bool losers; /* trials that were not chosen, where something was */
    int64_t
        before_unix_seconds; /* trials and choices older than that; 0: none */
    /* Trials of templates that have another hash now. NULL: none. */
    bool (*is_stale)(const char *template_name, const char *hash,
                     void *payload);
    void *payload;
} spc__prune;

/* Removes from the writable file what the request names, what is in
 * quarantine, and what nothing refers to any more; then gives the space back.
 * Pinned choices stay. *removed counts trials, choices and code. */
spc_status spc__cache_prune(spc__cache *cache, const spc__prune *what,
                            int64_t *removed, spc_error *error);

/* Uses again what was set aside as damaged and is what its digest was made of,
 * as a copy of the file was restored, or reading it had gone wrong; not what
 * was refused for its code. */
spc_status spc__cache_release(spc__cache *cache, int64_t *released,
                              spc_error *error);

/* Chooses a trial of the problem of this row by hand ("TEMPLATE CONFIG", as
 * listed): no tuning and no merge replaces it. NULL lets the choice go: the
 * next tuning replaces it. SPC_ENOTFOUND; SPC_EINVAL: the trial is not ok. */
spc_status spc__cache_pin(spc__cache *cache, int64_t problem,
                          const char *choice, spc_error *error);

/* Brings the file to our schema, where it is of an older one. */
spc_status spc__cache_migrate(const char *path, int *from, int *to,
                              spc_error *error);

#endif
