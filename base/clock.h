/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - monotonic time, and order statistics of samples. */
#ifndef SPC_BASE_CLOCK_H
#define SPC_BASE_CLOCK_H

#include <stdint.h>

uint64_t spc__now_ns(void);      /* never decreases */
int64_t spc__unix_seconds(void); /* the wall clock, for provenance */

/* Returns the median of n samples, and half of the interquartile range.
 * Reorders the samples in place. Returns 0 for n = 0. */
double spc__median(double *samples, int n);
double spc__half_iqr(double *samples, int n);

#endif
