/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.h - the largest difference between a correct kernel and the oracle. */
#ifndef SPC_RUNTIME_ORACLE_H
#define SPC_RUNTIME_ORACLE_H

#include "lab/oracle/seen.h"

/*
 * The largest error that rounding alone can explain in one output of `conv`,
 * for inputs and weights drawn uniformly from [-1, 1): `reference` and
 * `magnitude` are the oracle's, for values as they are stored; `terms` is the
 * number of products in the sum (pairs of the output times cin). oracle.c
 * derives it, and the probability that a correct kernel exceeds it.
 */
double spc__tolerance(const spc_conv *conv, double reference, double magnitude,
                      int64_t terms);

/*
 * The same for the fp32 sum, before the epilogue and the rounding to the stored
 * type.
 */
double spc__sum_error(const spc_conv *conv, double magnitude, int64_t terms);

/*
 * Like spc_oracle_sums, but returns SPC_EINTERRUPTED soon after *cancel is set
 * (NULL: never).
 */
spc_status spc__oracle(double *out, double *magnitude, const spc_conv *conv,
                       const spc__seen *seen, int64_t rows, const float *in,
                       const float *weights, const float *bias, int threads,
                       const volatile int *cancel, spc_error *error);

#endif
