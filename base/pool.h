/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - threads that stay, and take the parts of a loop one by one.
 *
 * The library starts threads here, and one in background mode. The devices cpu
 * and sim have a pool each, which runs kernels; on the cpu device it also fills
 * sets, maps, clouds and voxels, so no update starts a thread. A tuning run has
 * a pool for compiling. The oracles take a pool for one loop (parallel.h).
 *
 * A forked process has the memory of a pool and none of its threads. There the
 * caller does all the work; a device that the child opens has its own threads.
 */
#ifndef SPC_BASE_POOL_H
#define SPC_BASE_POOL_H

#include "spc_status.h"
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct spc__pool spc__pool;

/* Starts `threads` - 1 threads: the caller of a loop is one more. Makes do with
 * fewer if no more can be started. */
spc_status spc__pool_create(spc__pool **out, int threads, spc_error *error);

/*
 * Calls body(payload, i) for every i in [0, n), handed out one by one, and
 * returns when all are done. Any thread may call, several at once: the pool
 * helps one of them, the others do their work alone. The caller never waits
 * for a thread that has not yet joined in. In the body of another loop, in a
 * forked process, and with NULL for a pool it works alone.
 */
void spc__pool_run(spc__pool *pool, int64_t n,
                   void (*body)(void *payload, int64_t i), void *payload);

/* The same, but hands out nothing more once *cancel (may be NULL) is set; false
 * if the body was not called for all. */
bool spc__pool_run_until(spc__pool *pool, const volatile int *cancel, int64_t n,
                         void (*body)(void *payload, int64_t i), void *payload);

/*
 * For bodies that wait for each other: every call has a thread to itself, or
 * comes when an earlier one has returned. False, and nothing was called, where
 * the pool has fewer than n - 1 threads to give just now.
 */
bool spc__pool_run_together(spc__pool *pool, int n,
                            void (*body)(void *payload, int64_t i),
                            void *payload);

/*
 * A loop in the background: the pool's threads work while the caller goes on,
 * until the same thread calls spc__pool_finish, which does what nobody has
 * begun and waits for the rest. Meanwhile other loops of this pool run alone.
 */
void spc__pool_start(spc__pool *pool, int64_t n,
                     void (*body)(void *payload, int64_t i), void *payload);
void spc__pool_finish(spc__pool *pool);

/* How many threads work beside the caller; in a forked process none. NULL is
 * fine. */
int spc__pool_helpers(const spc__pool *pool);

/* No loop may be under way; NULL is fine. */
void spc__pool_free(spc__pool *pool);

/*
 * Blocks all signals for threads that are about to be started, since handlers
 * belong to the host's own threads; but not those of a thread's own faults,
 * which a host that reports crashes wants to see. *before is the caller's mask,
 * to be set again with pthread_sigmask.
 */
void spc__signals_block(sigset_t *before);

#endif
