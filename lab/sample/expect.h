/* SPDX-License-Identifier: Apache-2.0 */
/* expect.h - what the oracle expects, and how far a result is from that. */
#ifndef SPC_RUNTIME_EXPECT_H
#define SPC_RUNTIME_EXPECT_H

#include "lab/oracle/finish.h"
#include "lab/oracle/relation.h"

/*
 * Asks the oracle what the result [rows][cout] must be, and how far from it
 * each element may lie. `index` is the plain map. Once *cancel (may be NULL) is
 * set: SPC_EINTERRUPTED.
 */
spc_status spc__expect(double *reference, float *tolerance,
                       const spc_conv *conv, const spc__seen *seen,
                       int64_t rows, const spc__values *values, int threads,
                       const volatile int *cancel, spc_error *error);

/*
 * Puts the layer's epilogue to exact sums [rows][cout], in place. `slack`
 * [rows][cout], NULL where the epilogue is exact, receives how far apart two
 * results may be that are both rounded to the type of the outputs.
 */
void spc__finish_exact(float *sums, float *slack, const spc_conv *conv,
                       int64_t rows, const spc__values *values, int threads);

/* The same to sums of the draw FULL, into `out`; there always is slack. */
void spc__finish_full(float *out, float *slack, const spc_conv *conv,
                      int64_t rows, const double *sums,
                      const spc__values *values);
/* What of one that has no epilogue. */
float spc__full_slack(const spc_conv *conv, double sum);

/* The element of a result that is worst by |got - reference| / tolerance; what
 * is not a number is infinitely wrong. */
typedef struct spc__worst {
    double error;
    int64_t row;
    int channel;
    double got, reference;
} spc__worst;

/* A result lies as the layer's outputs do, with gaps between rows where it is a
 * slice; references and tolerances lie without. */
spc__worst spc__compare(const void *out, const spc_conv *conv, int64_t rows,
                        const double *reference, const float *tolerance);

/* The first element of a result that is not `exact`, which lies as a result
 * does; its error is infinite. With `slack` the worst by that. */
spc__worst spc__compare_exact(const void *out, const spc_conv *conv,
                              int64_t rows, const void *exact,
                              const float *slack);

/* Element i of a result, of rows without gaps; and its value. */
const void *spc__result_at(const void *out, const spc_conv *conv, int64_t i);
float spc__result_value(const void *out, const spc_conv *conv, int64_t i);

#endif
