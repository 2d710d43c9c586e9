/* expect.c - tolerances, and the comparison. */
#include "expect.h"

#include "ctx.h"
#include "dtype.h"
#include "error.h"
#include "oracle.h"
#include "parallel.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    terms *= spc__conv_group_in(b->conv);
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

/* Results are decoded so many at a time. */
enum { SPAN = 1024 };

typedef struct element {
    int64_t at; /* -1: none */
    double got, error;
} element;

/* Is it worse than the worst so far? A difference to what is exact, or what is
 * no number, is infinitely wrong. */
static void judge(element *worst, int64_t at, double got, double reference,
                  double tolerance)
{
    double off = fabs(got - reference);
    double error = off == 0 ? 0 : off / tolerance;

    if (!(error <= worst->error)) /* true for NaN as well */
        *worst = (element){at, got, isnan(error) ? INFINITY : error};
}

static spc__worst describe(const element *worst, const spc_conv *conv,
                           double reference)
{
    if (worst->at < 0)
        return (spc__worst){0};
    return (spc__worst){worst->error, worst->at / conv->cout,
                        (int)(worst->at % conv->cout), worst->got, reference};
}

spc__worst spc__compare(const void *out, const spc_conv *conv, int64_t rows,
                        const double *reference, const float *tolerance)
{
    const spc__dtype *type = spc__dtype_of(conv->dtype);
    element worst = {.at = -1};
    int64_t count = rows * conv->cout;
    float got[SPAN];

    for (int64_t first = 0; first < count; first += SPAN) {
        int64_t n = count - first < SPAN ? count - first : SPAN;
        type->decode(got, (const char *)out + (size_t)first * type->bytes,
                     (size_t)n);
        for (int64_t i = 0; i < n; i++)
            judge(&worst, first + i, got[i], reference[first + i],
                  tolerance[first + i]);
    }
    return describe(&worst, conv, worst.at < 0 ? 0 : reference[worst.at]);
}

spc__worst spc__compare_exact(const void *out, const spc_conv *conv,
                              int64_t rows, const void *exact)
{
    const spc__dtype *type = spc__dtype_of(conv->dtype);
    element worst = {.at = -1};
    double reference = 0;

    for (int64_t i = 0; i < rows * conv->cout && worst.at < 0; i++) {
        size_t at = (size_t)i * type->bytes;
        float got, want;
        if (memcmp((const char *)out + at, (const char *)exact + at,
                   type->bytes) == 0)
            continue;
        type->decode(&got, (const char *)out + at, 1);
        type->decode(&want, (const char *)exact + at, 1);
        judge(&worst, i, got, want, 0); /* zeros of either sign are equal */
        reference = want;
    }
    return describe(&worst, conv, reference);
}
