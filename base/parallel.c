/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.c - a pool for one loop. */
#include "base/parallel.h"

#include "base/pool.h"
#include <sched.h>
#include <unistd.h>

int spc__cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        return CPU_COUNT(&set);
    /* There may be more processors than cpu_set_t has bits. */
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

bool spc__parallel_until(const volatile int *cancel, int64_t n, int threads,
                         void (*body)(void *payload, int64_t i), void *payload)
{
    spc__pool *pool = NULL; /* NULL runs the loop on the caller alone */
    spc_error error;

    if (threads <= 0)
        threads = spc__cpu_count();
    if (threads > n)
        threads = (int)n;
    if (threads > 1)
        spc__pool_create(&pool, threads, &error);
    bool all = spc__pool_run_until(pool, cancel, n, body, payload);
    spc__pool_free(pool);
    return all;
}

void spc__parallel_for(int64_t n, int threads,
                       void (*body)(void *payload, int64_t i), void *payload)
{
    spc__parallel_until(NULL, n, threads, body, payload);
}
