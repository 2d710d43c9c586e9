/* SPDX-License-Identifier: Apache-2.0 */
/* expect.c - expected results and their tolerances. */
#include "lab/sample/expect.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/parallel.h"
#include "context/ctx.h"
#include "lab/oracle/oracle.h"
#include "lab/sample/dataset_full.h"
#include "operators/epilogue.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Turns the oracle's magnitudes into tolerances, one row at a time. */
struct bounds {
    const spc_conv *conv;
    const spc__seen *seen;
    int64_t rows;
    const spc__values *values;
    const double *magnitude;
    double *reference; /* the oracle's sums, replaced by its results */
    float *tolerance;
    int64_t *products; /* [cout] weights that are not zero; NULL: all count */
};

/* Products by zero do not round sums in fp16. */
static int64_t *count_products(const spc_conv *conv, const float *weights)
{
    int64_t each =
        (int64_t)spc__conv_offsets(conv) * spc__conv_group_in(conv);
    int64_t *products = calloc((size_t)conv->cout, sizeof(*products));

    for (int c = 0; c < conv->cout && products != NULL; c++)
        for (int64_t i = 0; i < each; i++)
            products[c] += weights[c * each + i] != 0;
    return products;
}

static int64_t terms_of(const struct bounds *b, int64_t terms, int c)
{
    return b->products != NULL && b->products[c] < terms ? b->products[c]
                                                         : terms;
}

/* Finishes a row of reference sums, with the bound of its error: the more
 * terms, the wider. */
static void bound_row(void *payload, int64_t row)
{
    const struct bounds *b = payload;
    int64_t terms = 0;

    for (int64_t s = 0; s < b->seen->slots; s++)
        terms += b->seen->index[s * b->rows + row] >= 0;
    terms *= spc__conv_group_in(b->conv);
    for (int c = 0; c < b->conv->cout; c++) {
        int64_t i = row * b->conv->cout + c;
        spc__bounded sum = {b->reference[i],
                            spc__sum_error(b->conv, b->magnitude[i],
                                           terms_of(b, terms, c))};
        spc__bounded result = spc__finish(b->conv, sum, b->values, c, i);
        b->reference[i] = result.value;
        b->tolerance[i] = (float)spc__stored_error(b->conv, result);
    }
}

spc_status spc__expect(double *reference, float *tolerance,
                       const spc_conv *conv, const spc__seen *seen,
                       int64_t rows, const spc__values *values, int threads,
                       const volatile int *cancel, spc_error *error)
{
    size_t bytes = (size_t)rows * (size_t)conv->cout * sizeof(double);
    /* Allocates one byte more, as malloc(0) may return NULL. */
    double *magnitude = malloc(bytes + 1);

    if (magnitude == NULL)
        return spc__fail_memory(error, bytes);
    spc_status status =
        spc__oracle(reference, magnitude, conv, seen, rows, values->in,
                    values->weights, values->bias, threads, cancel, error);
    struct bounds bounds = {conv,      seen,      rows,     values,
                            magnitude, reference, tolerance, NULL};
    if (status == SPC_OK && conv->accumulator == SPC_ACCUMULATOR_F16 &&
        (bounds.products = count_products(conv, values->weights)) == NULL)
        status =
            spc__fail_memory(error, (size_t)conv->cout * sizeof(int64_t));
    if (status == SPC_OK)
        spc__parallel_for(rows, threads, bound_row, &bounds);
    free(bounds.products);
    free(magnitude);
    return status;
}

struct finishing {
    float *sums, *slack;
    const spc_conv *conv;
    const spc__values *values;
};

/* Finishes a row of exact sums. */
static void finish_row(void *payload, int64_t row)
{
    const struct finishing *f = payload;

    for (int c = 0; c < f->conv->cout; c++) {
        int64_t i = row * f->conv->cout + c;
        spc__bounded sum = {f->sums[i], 0};
        spc__bounded result = spc__finish(f->conv, sum, f->values, c, i);
        f->sums[i] = (float)result.value;
        if (f->slack != NULL)
            f->slack[i] = (float)spc__stored_slack(f->conv, result);
    }
}

void spc__finish_exact(float *sums, float *slack, const spc_conv *conv,
                       int64_t rows, const spc__values *values, int threads)
{
    struct finishing f = {sums, slack, conv, values};

    if (spc__has_epilogue(conv))
        spc__parallel_for(rows, threads, finish_row, &f);
}

/* Returns the slack of a result; 0 if it is exact. */
static float slack_of(const spc_conv *conv, bool is_exact,
                      const spc__bounded *result)
{
    return is_exact ? 0 : (float)spc__stored_slack(conv, *result);
}

float spc__full_slack(const spc_conv *conv, double sum)
{
    spc__bounded all = {sum, spc__full_error(conv, sum)};

    return slack_of(conv, all.error == 0, &all);
}

void spc__finish_full(float *out, float *slack, const spc_conv *conv,
                      int64_t rows, const double *sums,
                      const spc__values *values)
{
    bool whole = spc__conv_in_is_whole(conv);

    for (int64_t i = 0; i < rows * conv->cout; i++) {
        /* Kernels convert a whole sum to fp32, which rounds it. */
        double sum = whole ? (double)(float)sums[i] : sums[i];
        spc__bounded of = {sum, spc__full_error(conv, sum)};
        bool exact = of.error == 0 && !whole && spc__epilogue_is_exact(conv);
        of = spc__finish(conv, of, values, (int)(i % conv->cout), i);
        out[i] = (float)of.value;
        slack[i] = slack_of(conv, exact, &of);
    }
}
