/* parallel.c - a loop over threads; the work is handed out by a counter. */
#include "parallel.h"

#include "cancel.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST_THREADS = 256 };

typedef struct shared_loop {
    atomic_int_least64_t next;
    int64_t n;
    const volatile int *cancel;
    void (*body)(void *payload, int64_t i);
    void *payload;
} shared_loop;

int spc__cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        return CPU_COUNT(&set);
    /* More processors than cpu_set_t has bits. */
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

static void *work(void *payload)
{
    shared_loop *loop = payload;
    while (!spc__cancelled(loop->cancel)) {
        int64_t i = atomic_fetch_add(&loop->next, 1);
        if (i >= loop->n)
            break;
        loop->body(loop->payload, i);
    }
    return NULL;
}

void spc__signals_block(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS,  SIGFPE,
                                 SIGILL,  SIGTRAP, SIGABRT};
    sigset_t set;

    sigfillset(&set);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&set, faults[i]);
    pthread_sigmask(SIG_SETMASK, &set, before);
}

static int start(pthread_t *threads, int wanted, shared_loop *loop)
{
    sigset_t before;
    int started = 0;

    spc__signals_block(&before);
    while (started < wanted &&
           pthread_create(&threads[started], NULL, work, loop) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

bool spc__parallel_until(const volatile int *cancel, int64_t n, int threads,
                         void (*body)(void *payload, int64_t i), void *payload)
{
    shared_loop loop = {
        .n = n, .cancel = cancel, .body = body, .payload = payload};
    pthread_t helpers[MOST_THREADS];
    int started = 0;

    atomic_init(&loop.next, 0);
    if (threads <= 0)
        threads = spc__cpu_count();
    if (threads > MOST_THREADS)
        threads = MOST_THREADS;
    if (threads > n)
        threads = (int)n;
    if (threads > 1)
        started = start(helpers, threads - 1, &loop);
    work(&loop);
    for (int i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    return atomic_load(&loop.next) >= n;
}

void spc__parallel_for(int64_t n, int threads,
                       void (*body)(void *payload, int64_t i), void *payload)
{
    spc__parallel_until(NULL, n, threads, body, payload);
}
