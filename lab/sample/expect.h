/* SPDX-License-Identifier: Apache-2.0 */
/* expect.h - the expected result, and the error of a result. */
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

/* The same for sums of the draw FULL, into `out`; there always is slack. */
void spc__finish_full(float *out, float *slack, const spc_conv *conv,
                      int64_t rows, const double *sums,
                      const spc__values *values);
/* The slack of a layer without an epilogue. */
float spc__full_slack(const spc_conv *conv, double sum);

/*
 * The worst element of a result by |got - reference| / tolerance; NaN counts as
 * infinite.
 */
typedef struct spc__worst {
    double error;
    int64_t row;
    int channel;
    double got, reference;
} spc__worst;

/*
 * A result has the layout of the layer's outputs, with gaps between rows if it
 * is a slice; references and tolerances have none.
 */
spc__worst spc__compare(const void *out, const spc_conv *conv, int64_t rows,
                        const double *reference, const float *tolerance);

/*
 * The first element of a result that differs from `exact`, which has the layout
 * of a result; its error is infinite. With `slack`, the worst by that.
 */
spc__worst spc__compare_exact(const void *out, const spc_conv *conv,
                              int64_t rows, const void *exact,
                              const float *slack);

/* Element i of a result, counted in rows without gaps; and its value. */
const void *spc__result_at(const void *out, const spc_conv *conv, int64_t i);
float spc__result_value(const void *out, const spc_conv *conv, int64_t i);

#endif
