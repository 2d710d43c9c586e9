/* SPDX-License-Identifier: Apache-2.0 */
/* keep.h - pruning a file, pinning a choice, and upgrading its version. */
#ifndef SPC_CACHE_KEEP_H
#define SPC_CACHE_KEEP_H

#include "cache/cache.h"

typedef struct spc__prune {
    bool losers; /* removes trials that lost to a choice */
    /* removes trials and choices older than this; 0: none */
    int64_t before_unix_seconds;
    /* Selects trials of templates whose hash has changed. NULL: none. */
    bool (*is_stale)(const char *template_name, const char *hash,
                     void *payload);
    void *payload;
} spc__prune;

/* Removes the requested records from the writable file, everything in
 * quarantine, and records without references, then shrinks the file. Pinned
 * choices stay. *removed counts trials, choices and code. */
spc_status spc__cache_prune(spc__cache *cache, const spc__prune *what,
                            int64_t *removed, spc_error *error);

/* Releases records that were set aside as damaged but now match their digest,
 * for example after a copy of the file was restored or after a faulty read.
 * Choices refused because of their code stay in quarantine. */
spc_status spc__cache_release(spc__cache *cache, int64_t *released,
                              spc_error *error);

/* Pins a trial ("TEMPLATE CONFIG", as listed) of the problem with this row. No
 * tuning or merge replaces it. NULL unpins the choice, so that the next tuning
 * replaces it. Returns SPC_ENOTFOUND, or SPC_EINVAL if the trial's status is
 * not ok. */
spc_status spc__cache_pin(spc__cache *cache, int64_t problem,
                          const char *choice, spc_error *error);

#endif
