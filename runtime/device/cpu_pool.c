/*
 * cpu_pool.c - a loop over threads that are kept alive between loops.
 *
 * One slot holds the loop under way. A thread joins it under the lock, by
 * counting itself active, and takes indices from a counter; the caller does
 * the same, then empties the slot, so that nobody joins any more, and waits for
 * those who did. A thread that wakes late finds the slot empty: it delays
 * nobody. After a loop the threads look out for the next one for a moment
 * before they sleep, since waking costs tens of microseconds and layers
 * follow each other.
 */
#include "cpu_pool.h"

#include "clock.h"
#include "error.h"
#include "parallel.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_THREADS = 512, LINGER_NS = 30000 };

typedef struct loop {
    int64_t n;
    void (*body)(void *payload, int64_t i);
    void *payload;
    atomic_int_least64_t next;
} loop;

struct spc__pool {
    pthread_mutex_t one_at_a_time; /* who has the slot */
    pthread_mutex_t lock;          /* of all below */
    pthread_cond_t wake;
    pthread_cond_t done;
    loop *slot; /* NULL: nothing to join */
    atomic_uint generation;
    int active; /* threads that joined the slot's loop */
    bool stopping;
    pid_t owner; /* a forked process has the memory, but not the threads */
    int started;
    pthread_t threads[MOST_THREADS];
};

static void work(loop *l)
{
    int64_t i;
    while ((i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed)) <
           l->n)
        l->body(l->payload, i);
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Waits a moment for a generation other than `seen`, without the lock. */
static void linger(spc__pool *pool, unsigned seen)
{
    uint64_t end = spc__now_ns() + LINGER_NS;
    while (atomic_load_explicit(&pool->generation, memory_order_relaxed) ==
               seen &&
           spc__now_ns() < end)
        for (int i = 0; i < 16; i++)
            relax();
}

static void *serve(void *payload)
{
    spc__pool *pool = payload;
    unsigned seen = 0;

    pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        unsigned now = atomic_load(&pool->generation);
        loop *l = pool->slot;
        if (now == seen || l == NULL) {
            pthread_cond_wait(&pool->wake, &pool->lock);
            continue;
        }
        seen = now;
        pool->active++;
        pthread_mutex_unlock(&pool->lock);
        work(l);
        pthread_mutex_lock(&pool->lock);
        if (--pool->active == 0)
            pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->lock);
        linger(pool, seen);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

void spc__pool_run(spc__pool *pool, int64_t n,
                   void (*body)(void *payload, int64_t i), void *payload)
{
    loop l = {.n = n, .body = body, .payload = payload};

    atomic_init(&l.next, 0);
    if (n <= 1 || pool->started == 0 || pool->owner != getpid() ||
        pthread_mutex_trylock(&pool->one_at_a_time) != 0) {
        work(&l);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->slot = &l;
    atomic_fetch_add(&pool->generation, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    work(&l);
    pthread_mutex_lock(&pool->lock);
    pool->slot = NULL;
    while (pool->active > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->one_at_a_time);
}

spc_status spc__pool_create(spc__pool **out, int threads, spc_error *error)
{
    spc__pool *pool = calloc(1, sizeof(*pool));
    sigset_t before;

    *out = NULL;
    if (pool == NULL)
        return spc__fail_memory(error, sizeof(*pool));
    pthread_mutex_init(&pool->one_at_a_time, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    spc__signals_block(&before);
    while (pool->started < threads - 1 && pool->started < MOST_THREADS &&
           pthread_create(&pool->threads[pool->started], NULL, serve, pool) ==
               0)
        pool->started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool->owner = getpid();
    *out = pool;
    return SPC_OK;
}

void spc__pool_free(spc__pool *pool)
{
    if (pool == NULL)
        return;
    if (pool->owner != getpid()) {
        free(pool); /* its locks may be held for ever */
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->one_at_a_time);
    free(pool);
}
