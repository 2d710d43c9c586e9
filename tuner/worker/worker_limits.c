/* SPDX-License-Identifier: Apache-2.0 */
/* worker_limits.c - limits relative to what the worker has used so far. */
#include "tuner/worker/worker_limits.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- memory -------------------------------------------------------------- */

int64_t spc__limits_memory(void)
{
    const int64_t least = (int64_t)4 << 30;
    int64_t half =
        (int64_t)sysconf(_SC_PHYS_PAGES) / 2 * (int64_t)sysconf(_SC_PAGESIZE);

    return half > least ? half : least;
}

/* Reads the sizes of the address space and of the resident memory, in bytes. */
static bool read_size(int64_t *space, int64_t *resident)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long long pages[2] = {0, 0};
    bool read =
        file != NULL && fscanf(file, "%lld %lld", &pages[0], &pages[1]) == 2;

    if (file != NULL)
        fclose(file);
    *space = pages[0] * (int64_t)sysconf(_SC_PAGESIZE);
    *resident = pages[1] * (int64_t)sysconf(_SC_PAGESIZE);
    return read;
}

/*
 * Ten times a second: a process that fills gigabytes a second is still stopped
 * long before the machine runs out.
 */
static void *watch(void *payload)
{
    const struct timespec pause = {0, 100 * 1000 * 1000};
    int64_t most = (int64_t)(intptr_t)payload, space, resident;

    while (read_size(&space, &resident) && resident <= most)
        nanosleep(&pause, NULL);
    /* Uses _exit(), as the heap may be in any state and no handler should
     * run. */
    if (resident > most)
        _exit(SPC__LIMITS_GROWN);
    return NULL;
}

/* The thread lives as long as the process. */
static bool start_watch(int64_t most)
{
    pthread_t thread;
    bool started =
        pthread_create(&thread, NULL, watch, (void *)(intptr_t)most) == 0;

    if (started)
        pthread_detach(thread);
    return started;
}

bool spc__limits_grow(int64_t bytes, bool reserves)
{
    int64_t space, resident;
    struct rlimit limit;

    if (!read_size(&space, &resident))
        return false;
    /* A GPU's driver reserves address space far beyond what it uses, so a limit
     * on that space would stop it: memory in use is watched instead. */
    if (reserves)
        return start_watch(resident + bytes);
    if (getrlimit(RLIMIT_AS, &limit) != 0)
        return false;
    if (limit.rlim_max == RLIM_INFINITY ||
        (rlim_t)(space + bytes) < limit.rlim_max)
        limit.rlim_cur = (rlim_t)(space + bytes);
    return setrlimit(RLIMIT_AS, &limit) == 0;
}

/* ---- processors ---------------------------------------------------------- */

void spc__limits_compute(double seconds)
{
    struct timespec used;
    struct rlimit limit;

    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0 ||
        getrlimit(RLIMIT_CPU, &limit) != 0)
        return;
    /* The limit is in whole seconds, and 0 would mean no limit. */
    rlim_t most = (rlim_t)used.tv_sec + 1 + (rlim_t)ceil(seconds);
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || most < limit.rlim_max
                         ? most
                         : limit.rlim_max;
    setrlimit(RLIMIT_CPU, &limit);
}
