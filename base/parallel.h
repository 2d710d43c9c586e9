/* parallel.h - a loop over 0 .. n-1 spread over threads, and their signals. */
#ifndef SPC_BASE_PARALLEL_H
#define SPC_BASE_PARALLEL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Cores that this process may use (sched_getaffinity). */
int spc__cpu_count(void);

/*
 * Calls body(payload, i) for every i in [0, n), handed out one by one to at
 * most `threads` threads (the caller is one; 0 means spc__cpu_count()), and
 * returns when all are done. Falls back to fewer threads when none can be
 * started. The body reports errors through its payload.
 */
void spc__parallel_for(int64_t n, int threads,
                       void (*body)(void *payload, int64_t i), void *payload);

/* The same, but hands out nothing more once *cancel (may be NULL) is set; false
 * if the body was not called for all. */
bool spc__parallel_until(const volatile int *cancel, int64_t n, int threads,
                         void (*body)(void *payload, int64_t i), void *payload);

/*
 * Blocks all signals for threads that are about to be started, since handlers
 * belong to the host's own threads; but not those of a thread's own faults,
 * which a host that reports crashes wants to see. *before is the caller's mask,
 * to be set again with pthread_sigmask.
 */
void spc__signals_block(sigset_t *before);

#endif
