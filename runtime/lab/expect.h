/*
 * expect.h - random data, what the oracle expects of it, and how far a result
 * is from that: for the bench and the tuner alike.
 */
#ifndef SPC_RUNTIME_EXPECT_H
#define SPC_RUNTIME_EXPECT_H

#include "random.h"
#include "spc.h"

/* Fills `raw` with values in [-1, 1) of the layer's type and `plain` with the
 * same values as float: the oracle sees what the kernel sees. */
void spc__draw(void *raw, float *plain, size_t n, spc_dtype dtype,
               spc__random *random);

/* Values in [-1, 1) for a bias. */
void spc__draw_bias(float *out, int n, spc__random *random);

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

#endif
