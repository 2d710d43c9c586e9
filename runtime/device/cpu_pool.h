/*
 * cpu_pool.h - threads that stay, and hand each other the parts of a loop.
 */
#ifndef SPC_RUNTIME_CPU_POOL_H
#define SPC_RUNTIME_CPU_POOL_H

#include "spc_status.h"
#include <stdint.h>

typedef struct spc__pool spc__pool;

/* Starts `threads` - 1 threads: the caller of spc__pool_run is one more. Makes
 * do with fewer if no more can be started. */
spc_status spc__pool_create(spc__pool **out, int threads, spc_error *error);
void spc__pool_free(
    spc__pool *pool); /* no run may be under way; NULL is fine */

/*
 * Calls body(payload, i) for every i in [0, n), handed out one by one, and
 * returns when all are done. Any thread may call, several at once: the pool
 * helps one of them, the others do their work alone. The caller never waits
 * for a thread that has not yet joined in. In a forked process it works alone.
 */
void spc__pool_run(spc__pool *pool, int64_t n,
                   void (*body)(void *payload, int64_t i), void *payload);

#endif
