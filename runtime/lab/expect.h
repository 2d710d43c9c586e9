/* expect.h - what the oracle expects, and how far a result is from that. */
#ifndef SPC_RUNTIME_EXPECT_H
#define SPC_RUNTIME_EXPECT_H

#include "spc.h"

/*
 * Asks the oracle what the result [rows][cout] must be, and how far from it
 * each element may lie. `index` is the plain map. Once *cancel (may be NULL) is
 * set: SPC_EINTERRUPTED.
 */
spc_status spc__expect(double *reference, float *tolerance,
                       const spc_conv *conv, const int32_t *index, int64_t rows,
                       const float *in, const float *weights, const float *bias,
                       int threads, const volatile int *cancel,
                       spc_error *error);

/* The element of a result that is worst by |got - reference| / tolerance; what
 * is not a number is infinitely wrong. */
typedef struct spc__worst {
    double error;
    int64_t row;
    int channel;
    double got, reference;
} spc__worst;

spc__worst spc__compare(const void *out, const spc_conv *conv, int64_t rows,
                        const double *reference, const float *tolerance);

/* The first element of a result that is not `exact`, both of the layer's type;
 * its error is infinite. */
spc__worst spc__compare_exact(const void *out, const spc_conv *conv,
                              int64_t rows, const void *exact);

#endif
