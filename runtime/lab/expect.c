/* expect.c - random data, tolerances, and the comparison. */
#include "expect.h"

#include "ctx.h"
#include "error.h"
#include "dtype.h"
#include "oracle.h"
#include "parallel.h"
#include <math.h>
#include <stdlib.h>

static float draw_one(spc__random *random)
{
    return (float)(2 * spc__random_unit(random) - 1);
}

void spc__draw(void *raw, float *plain, size_t n, spc_dtype dtype,
               spc__random *random)
{
    for (size_t i = 0; i < n; i++) {
        float value = draw_one(random);
        if (dtype == SPC_F16) {
            uint16_t half = spc__half_from_float(value);
            ((uint16_t *)raw)[i] = half;
            plain[i] = spc__half_to_float(half);
        } else {
            ((float *)raw)[i] = plain[i] = value;
        }
    }
}

void spc__draw_bias(float *out, int n, spc__random *random)
{
    for (int i = 0; i < n; i++)
        out[i] = draw_one(random);
}

/* Turns the oracle's magnitudes into tolerances, one row at a time. */
struct bounds {
    const spc_conv *conv;
    const int32_t *index;
    int64_t rows;
    const double *reference, *magnitude;
    float *tolerance;
};

static void bound_row(void *payload, int64_t row)
{
    const struct bounds *b = payload;
    int offsets = spc__conv_offsets(b->conv);
    int64_t terms = 0;

    for (int k = 0; k < offsets; k++)
        terms += b->index[k * b->rows + row] >= 0;
    terms *= b->conv->cin;
    for (int c = 0; c < b->conv->cout; c++) {
        int64_t i = row * b->conv->cout + c;
        b->tolerance[i] = (float)spc__tolerance(b->conv, b->reference[i],
                                                b->magnitude[i], terms);
    }
}

spc_status spc__expect(double *reference, float *tolerance,
                       const spc_conv *conv, const int32_t *index, int64_t rows,
                       const float *in, const float *weights, const float *bias,
                       int threads, const volatile int *cancel,
                       spc_error *error)
{
    size_t bytes = (size_t)rows * (size_t)conv->cout * sizeof(double);
    double *magnitude = malloc(bytes + 1);

    if (magnitude == NULL)
        return spc__fail_memory(error, bytes);
    spc_status status = spc__oracle(reference, magnitude, conv, index, rows, in,
                                    weights, bias, threads, cancel, error);
    struct bounds bounds = {conv, index, rows, reference, magnitude, tolerance};
    if (status == SPC_OK)
        spc__parallel_for(rows, threads, bound_row, &bounds);
    free(magnitude);
    return status;
}

spc__worst spc__compare(const void *out, const spc_conv *conv, int64_t rows,
                        const double *reference, const float *tolerance)
{
    bool half = conv->dtype == SPC_F16;
    spc__worst worst = {0};

    for (int64_t i = 0; i < rows * conv->cout; i++) {
        double got = half ? spc__half_to_float(((const uint16_t *)out)[i])
                          : ((const float *)out)[i];
        double off = fabs(got - reference[i]);
        double error = off == 0 ? 0 : off / tolerance[i];
        if (!(error <= worst.error)) /* true for NaN as well */
            worst =
                (spc__worst){isnan(error) ? INFINITY : error, i / conv->cout,
                             (int)(i % conv->cout), got, reference[i]};
    }
    return worst;
}
