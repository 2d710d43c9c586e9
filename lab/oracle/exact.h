/* SPDX-License-Identifier: Apache-2.0 */
/* exact.h - the oracle for data whose sums need no rounding. */
#ifndef SPC_RUNTIME_EXACT_H
#define SPC_RUNTIME_EXACT_H

#include "lab/oracle/relation.h"

/*
 * As spc_oracle_sums, but in fp32: on the data sets of integers (dataset.h) it
 * is exact in any order, and several times faster than double with magnitudes.
 * Returns SPC_EINTERRUPTED once *cancel (may be NULL) is set.
 */
spc_status spc__oracle_exact(float *out, const spc_conv *conv,
                             const spc__seen *seen, int64_t rows,
                             const float *in, const float *weights,
                             const float *bias, int threads,
                             const volatile int *cancel, spc_error *error);

#endif
