/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - loops over threads that are kept alive between them.
 *
 * One slot holds the current loop. A thread joins the loop under the lock by
 * incrementing `active`, then takes indices from a counter. The caller does the
 * same. When the indices are used up, the caller empties the slot, so that no
 * further thread can join, and waits for the threads that joined. A thread that
 * wakes late finds the slot empty and causes no delay. After a loop the threads
 * spin briefly before they sleep, because waking costs tens of microseconds and
 * layers follow each other closely.
 */
#include "base/pool.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* LINGER_NS is about the time that a sleeping thread needs to wake. */
enum { MOST_THREADS = 512, LINGER_NS = 30000 };

typedef struct loop {
    int64_t n;
    const volatile int *cancel;
    void (*body)(void *payload, int64_t i);
    void *payload;
    atomic_int_least64_t next;
} loop;

struct spc__pool {
    pthread_mutex_t one_at_a_time; /* held by the owner of the slot */
    pthread_mutex_t lock;          /* guards all fields below */
    pthread_cond_t wake;
    pthread_cond_t done;
    loop *slot; /* NULL: nothing to join */
    atomic_uint generation;
    int active; /* threads that joined the slot's loop */
    bool stopping;
    pid_t owner;        /* a fork copies the memory, not the threads */
    loop background;    /* valid between start and finish */
    bool in_background; /* the slot holds the background loop */
    int started;
    pthread_t threads[]; /* the threads that were started */
};

/* True while this thread runs the body of a loop. A nested loop runs on this
 * thread alone, since the cores are already busy. */
static _Thread_local bool in_body;

/* Runs iterations until none is left. A loop that starts within one sees
 * `in_body` and runs on this thread alone. */
static void work(loop *l)
{
    bool was_in_body = in_body;
    int64_t i = l->n;

    in_body = true;
    /* Relaxed order is enough, as the counter only hands out indices. The lock
     * orders the work itself (withdraw). */
    while (!spc__cancelled(l->cancel) &&
           (i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed)) <
               l->n)
        l->body(l->payload, i);
    in_body = was_in_body;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Spins briefly, without the lock, until the generation differs from `seen`. */
static void linger(spc__pool *pool, unsigned seen)
{
    uint64_t end = spc__now_ns() + LINGER_NS;
    /* The clock is read only once for several pauses. */
    while (atomic_load_explicit(&pool->generation, memory_order_relaxed) ==
               seen &&
           spc__now_ns() < end)
        for (int i = 0; i < 16; i++)
            relax();
}

/* A thread of the pool: helps with one loop after the other until the pool
 * stops. */
static void *serve(void *payload)
{
    spc__pool *pool = payload;
    unsigned seen = 0;

    pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        unsigned now = atomic_load(&pool->generation);
        loop *l = pool->slot;
        /* The generation tells a new loop from one that this thread already
         * helped with, even at the same address. */
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

/* ---- loops --------------------------------------------------------------- */

/* Puts a loop into the slot if it is free and there are threads to join it. */
static bool offer(spc__pool *pool, loop *l)
{
    /* trylock: another thread's loop has the slot, and waiting for it would
     * take longer than working alone. */
    if (pool == NULL || in_body || pool->started == 0 ||
        pool->owner != getpid() ||
        pthread_mutex_trylock(&pool->one_at_a_time) != 0)
        return false;
    pthread_mutex_lock(&pool->lock);
    pool->slot = l;
    atomic_fetch_add(&pool->generation, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    return true;
}

/* Empties the slot and waits for the threads that joined. */
static void withdraw(spc__pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    /* Under the lock, so that no thread joins a loop on this stack frame
     * afterwards. */
    pool->slot = NULL;
    while (pool->active > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->one_at_a_time);
}

/* A loop of one index is often a small layer, whose body takes less time than
 * the atomic operations that hand out indices. */
static bool run_one(const loop *l)
{
    bool was_in_body = in_body;

    if (spc__cancelled(l->cancel))
        return false;
    in_body = true;
    l->body(l->payload, 0);
    in_body = was_in_body;
    return true;
}

bool spc__pool_run_until(spc__pool *pool, const volatile int *cancel, int64_t n,
                         void (*body)(void *payload, int64_t i), void *payload)
{
    loop l = {.n = n, .cancel = cancel, .body = body, .payload = payload};

    if (n == 1)
        return run_one(&l);
    atomic_init(&l.next, 0);
    bool is_shared = n > 1 && offer(pool, &l);
    work(&l);
    if (is_shared)
        withdraw(pool);
    /* Less than n only if the loop was cancelled. */
    return atomic_load(&l.next) >= n;
}

void spc__pool_run(spc__pool *pool, int64_t n,
                   void (*body)(void *payload, int64_t i), void *payload)
{
    spc__pool_run_until(pool, NULL, n, body, payload);
}

bool spc__pool_run_together(spc__pool *pool, int n,
                            void (*body)(void *payload, int64_t i),
                            void *payload)
{
    loop l = {.n = n, .body = body, .payload = payload};

    atomic_init(&l.next, 0);
    if (spc__pool_helpers(pool) < n - 1 || !offer(pool, &l))
        return false;
    work(&l);
    withdraw(pool);
    return true;
}

void spc__pool_start(spc__pool *pool, int64_t n,
                     void (*body)(void *payload, int64_t i), void *payload)
{
    loop *l = &pool->background;

    l->n = n;
    l->body = body;
    l->payload = payload;
    atomic_store(&l->next, 0);
    pool->in_background = offer(pool, l);
}

void spc__pool_finish(spc__pool *pool)
{
    work(&pool->background);
    if (pool->in_background)
        withdraw(pool);
    pool->in_background = false;
}

/* ---- create and free ----------------------------------------------------- */

int spc__pool_helpers(const spc__pool *pool)
{
    return pool != NULL && pool->owner == getpid() ? pool->started : 0;
}

void spc__signals_block(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS,  SIGFPE,
                                 SIGILL,  SIGTRAP, SIGABRT};
    sigset_t set;

    sigfillset(&set);
    /* A fault must reach the thread that caused it: blocking it is
     * undefined. */
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&set, faults[i]);
    pthread_sigmask(SIG_SETMASK, &set, before);
}

/* Starts up to `wanted` threads. Fewer are enough, as the caller works too. */
static void start_threads(spc__pool *pool, int wanted)
{
    sigset_t before;

    /* Threads inherit the mask, so the program's signals go to its own
     * threads. */
    spc__signals_block(&before);
    while (pool->started < wanted &&
           pthread_create(&pool->threads[pool->started], NULL, serve, pool) ==
               0)
        pool->started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

spc_status spc__pool_create(spc__pool **out, int threads, spc_error *error)
{
    int wanted = threads < 1 ? 0 : threads - 1;
    if (wanted > MOST_THREADS)
        wanted = MOST_THREADS;
    size_t bytes =
        sizeof(spc__pool) + (size_t)wanted * sizeof((*out)->threads[0]);
    spc__pool *pool = calloc(1, bytes);

    *out = NULL;
    if (pool == NULL)
        return spc__fail_memory(error, bytes);
    pthread_mutex_init(&pool->one_at_a_time, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    start_threads(pool, wanted);
    pool->owner = getpid();
    *out = pool;
    return SPC_OK;
}

void spc__pool_free(spc__pool *pool)
{
    if (pool == NULL)
        return;
    if (pool->owner != getpid()) {
        free(pool); /* a thread of the parent may hold its locks */
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    atomic_fetch_add(&pool->generation, 1); /* ends the spinning */
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
