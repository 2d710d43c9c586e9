/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.h - a loop over 0 .. n-1 spread over threads of its own. */
#ifndef SPC_BASE_PARALLEL_H
#define SPC_BASE_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

/* Cores that this process may use (sched_getaffinity). */
int spc__cpu_count(void);

/*
 * Calls body(payload, i) for every i in [0, n), handed out one by one to at
 * most `threads` threads (the caller is one; 0 means spc__cpu_count()), and
 * returns when all are done: a pool (pool.h) made for one loop. Falls back to
 * fewer threads when none can be started; in the body of another loop it has
 * none. The body reports errors through its payload.
 */
void spc__parallel_for(int64_t n, int threads,
                       void (*body)(void *payload, int64_t i), void *payload);

/* The same, but hands out nothing more once *cancel (may be NULL) is set; false
 * if the body was not called for all. */
bool spc__parallel_until(const volatile int *cancel, int64_t n, int threads,
                         void (*body)(void *payload, int64_t i), void *payload);

#endif
