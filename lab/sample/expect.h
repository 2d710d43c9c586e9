/* SPDX-License-Identifier: Apache-2.0 */
/* expect.h - expected results and their tolerances. */
#ifndef SPC_RUNTIME_EXPECT_H
#define SPC_RUNTIME_EXPECT_H

#include "lab/oracle/finish.h"
#include "lab/oracle/relation.h"

/*
 * Asks the oracle for the result [rows][cout] and the tolerance of each
 * element. `index` is the plain map. Returns SPC_EINTERRUPTED once *cancel (may
 * be NULL) is set.
 */
spc_status spc__expect(double *reference, float *tolerance,
                       const spc_conv *conv, const spc__seen *seen,
                       int64_t rows, const spc__values *values, int threads,
                       const volatile int *cancel, spc_error *error);

/*
 * Applies the layer's epilogue to exact sums [rows][cout], in place. `slack`
 * [rows][cout], NULL if the epilogue is exact, receives the largest difference
 * of two correct results after rounding to the type of the outputs.
 */
void spc__finish_exact(float *sums, float *slack, const spc_conv *conv,
                       int64_t rows, const spc__values *values, int threads);

/* The same for sums of the data set FULL, into `out`; the slack is never
 * NULL. */
void spc__finish_full(float *out, float *slack, const spc_conv *conv,
                      int64_t rows, const double *sums,
                      const spc__values *values);
/* Computes the slack of a layer without an epilogue. */
float spc__full_slack(const spc_conv *conv, double sum);

#endif
