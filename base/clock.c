/* clock.c - monotonic time, and order statistics of samples. */
#include "clock.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

uint64_t spc__now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
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

/* The q-quantile of sorted samples, linear between neighbours (type 7 of
 * Hyndman and Fan 1996, the usual one). */
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
