/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.h - a loop over 0 .. n-1 with its own threads. */
#ifndef SPC_BASE_PARALLEL_H
#define SPC_BASE_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the number of cores that this process may use (sched_getaffinity). */
int spc__cpu_count(void);

/*
 * Calls body(payload, i) for every i in [0, n), one index at a time, on at most
 * `threads` threads including the caller (0 means spc__cpu_count()). Returns
 * when all calls are done. It creates a pool (pool.h) for this one loop and
 * uses fewer threads if no more can be started. Inside the body of another loop
 * the caller works alone. The body reports errors through its payload.
 */
void spc__parallel_for(int64_t n, int threads,
                       void (*body)(void *payload, int64_t i), void *payload);

/* Like spc__parallel_for, but starts no further call once *cancel (may be NULL)
 * is set. Returns false if some indices were skipped. */
bool spc__parallel_until(const volatile int *cancel, int64_t n, int threads,
                         void (*body)(void *payload, int64_t i), void *payload);

#endif
