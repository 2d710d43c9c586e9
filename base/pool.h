/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - persistent threads that share the iterations of a loop.
 *
 * All threads of the library are started here, except one in background mode.
 * The devices cpu and sim have one pool each, which runs kernels. On the cpu
 * device it also fills sets, maps, clouds and voxels, so no update starts a
 * thread. A tuning run has a pool for compiling. The oracles create a pool for
 * each loop (parallel.h).
 *
 * A forked process inherits the memory of a pool but not its threads. In the
 * child the caller does all the work. A device opened by the child has its own
 * threads.
 */
#ifndef SPC_BASE_POOL_H
#define SPC_BASE_POOL_H

#include "spc/status.h"
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct spc__pool spc__pool;

/* Starts `threads` - 1 threads, since the caller of a loop is one more. Uses
 * fewer if no more can be started. */
spc_status spc__pool_create(spc__pool **out, int threads, spc_error *error);

/*
 * Calls body(payload, i) for every i in [0, n), one index at a time, and
 * returns when all calls are done. Several threads may call this at once: the
 * pool helps one of them, and the others work alone. The caller never waits for
 * a thread that has not joined yet. The caller also works alone in the body of
 * another loop, in a forked process, and with a NULL pool.
 */
void spc__pool_run(spc__pool *pool, int64_t n,
                   void (*body)(void *payload, int64_t i), void *payload);

/* Like spc__pool_run, but starts no further call once *cancel (may be NULL) is
 * set. Returns false if some indices were skipped. */
bool spc__pool_run_until(spc__pool *pool, const volatile int *cancel, int64_t n,
                         void (*body)(void *payload, int64_t i), void *payload);

/*
 * Runs bodies that wait for each other. Each call gets its own thread, or
 * starts after an earlier call has returned. Returns false, without any call,
 * if the pool cannot provide n - 1 threads at the moment.
 */
bool spc__pool_run_together(spc__pool *pool, int n,
                            void (*body)(void *payload, int64_t i),
                            void *payload);

/*
 * Starts a loop in the background: the pool's threads work while the caller
 * continues. The same thread must call spc__pool_finish, which runs the
 * remaining iterations and waits for the others. Meanwhile other loops of this
 * pool run on their callers alone.
 */
void spc__pool_start(spc__pool *pool, int64_t n,
                     void (*body)(void *payload, int64_t i), void *payload);
void spc__pool_finish(spc__pool *pool);

/* Returns how many threads help the caller: 0 in a forked process and for
 * NULL. */
int spc__pool_helpers(const spc__pool *pool);

/* No loop may be running. NULL is fine. */
void spc__pool_free(spc__pool *pool);

/*
 * Blocks all signals for threads that are about to be started, because handlers
 * belong to the host's own threads. Signals of a thread's own faults stay
 * unblocked for hosts that report crashes. *before receives the caller's mask,
 * to be restored with pthread_sigmask.
 */
void spc__signals_block(sigset_t *before);

#endif
