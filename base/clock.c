/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - monotonic time, and order statistics of samples. */
#include "base/clock.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

/* Returns nanoseconds of a clock that changes of the date do not affect. */
static uint64_t read_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * Some virtual machines step even the monotonic clock back. Callers subtract
 * two times as unsigned numbers, so a smaller one would look like centuries.
 * After a step of more than a second, all later results include the lost time.
 * After a smaller step, the last result is repeated until the clock catches up.
 */
uint64_t spc__now_ns(void)
{
    enum { STEP_NS = 1000000000 };
    static uint64_t latest, lost;
    uint64_t added = __atomic_load_n(&lost, __ATOMIC_RELAXED);
    uint64_t now = read_clock() + added;
    uint64_t before = __atomic_load_n(&latest, __ATOMIC_RELAXED);

    if (now + STEP_NS < before) /* if this fails, another thread has done it */
        __atomic_compare_exchange_n(&lost, &added, added + before - now, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    while (now > before &&
           !__atomic_compare_exchange_n(&latest, &before, now, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return now > before ? now : before;
}

int64_t spc__unix_seconds(void)
{
    return (int64_t)time(NULL);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the q-quantile of sorted samples, linear between neighbours (type 7
 * of Hyndman and Fan 1996, the usual one). */
static double quantile(const double *sorted, int n, double q)
{
    double at = q * (n - 1);
    int below = (int)floor(at);
    int above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

double spc__median(double *samples, int n)
{
    if (n <= 0)
        return 0;
    qsort(samples, (size_t)n, sizeof(*samples), by_value);
    return quantile(samples, n, 0.5);
}

double spc__half_iqr(double *samples, int n)
{
    if (n <= 0)
        return 0;
    qsort(samples, (size_t)n, sizeof(*samples), by_value);
    return 0.5 * (quantile(samples, n, 0.75) - quantile(samples, n, 0.25));
}
