/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgrad.c - the gradient of weights in double precision: for each offset the
 * sum over its pairs of the outer product of two rows. Shares no code with a
 * device.
 */
#include "lab/oracle/wgrad.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/parallel.h"
#include "lab/oracle/oracle.h"
#include "operators/conv.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Rows of the result (input channels at an offset) that are summed in one pass
 * over the pairs.
 */
enum { ROWS = 8 };

typedef struct problem {
    const spc_conv *conv;
    const spc__seen *seen;
    int64_t rows;
    const spc__values *values;
    double *sum; /* [taps][cout] */
    /* sums of absolute products; NULL if results are exact */
    double *size;
    float *tolerance;   /* NULL for data sets of integers */
    int cin, group_out, offsets, blocks; /* channels of a group; blocks of ROWS
                                          * rows */
    const volatile int *cancel;
} problem;

/* ---- sums ---------------------------------------------------------------- */

/* Every machine has registers of two doubles. */
typedef double pair __attribute__((vector_size(16)));
typedef int64_t bits __attribute__((vector_size(16)));

/* sum[i] += x * dy[i] for consecutive columns. */
static void add_row(double *sum, double x, const float *dy, int columns)
{
    pair both = {x, x};
    int i = 0;

    for (; i + 2 <= columns; i += 2) {
        pair s, d = {dy[i], dy[i + 1]};
        memcpy(&s, sum + i, sizeof(s));
        s += both * d;
        memcpy(sum + i, &s, sizeof(s));
    }
    if (i < columns)
        sum[i] += x * (double)dy[i];
}

/* Like the function above; size[i] gets the sum of the absolute products. */
static void add_row_and_size(double *sum, double *size, double x,
                             const float *dy, int columns)
{
    /* Clears the signs, like fabs() of two numbers. */
    const bits keep = {INT64_MAX, INT64_MAX};
    pair both = {x, x};
    int i = 0;

    for (; i + 2 <= columns; i += 2) {
        pair s, m, d = {dy[i], dy[i + 1]}, product = both * d;
        memcpy(&s, sum + i, sizeof(s));
        memcpy(&m, size + i, sizeof(m));
        s += product;
        m += (pair)((bits)product & keep);
        memcpy(sum + i, &s, sizeof(s));
        memcpy(size + i, &m, sizeof(m));
    }
    if (i < columns) {
        sum[i] += x * (double)dy[i];
        size[i] += fabs(x * (double)dy[i]);
    }
}

/* The columns of a group see only the inputs of that group. */
static void add_products(const problem *p, int64_t to, int count,
                         const float *x, const float *dy)
{
    int cout = p->conv->cout;

    for (int r = 0; r < count; r++)
        for (int first = 0; first < cout; first += p->group_out) {
            int64_t at = (to + r) * cout + first;
            double in = x[first / p->group_out * p->cin + r];
            if (p->size != NULL)
                add_row_and_size(p->sum + at, p->size + at, in, dy + first,
                                 p->group_out);
            else
                add_row(p->sum + at, in, dy + first, p->group_out);
        }
}

/*
 * The first slot of offset k's inputs, and the end: a table has a slot for each
 * offset, triplets may use any slot.
 */
static int64_t first_slot(const problem *p, int64_t k)
{
    return p->seen->cells == NULL ? k : 0;
}

static int64_t end_slot(const problem *p, int64_t k)
{
    return p->seen->cells == NULL ? k + 1 : p->seen->slots;
}

/* Returns how many pairs the offset has. */
static int64_t sum_block(const problem *p, int64_t k, int first, int count)
{
    int cin = p->conv->cin, cout = p->conv->cout;
    int64_t pairs = 0;

    for (int64_t at = first_slot(p, k) * p->rows;
         at < end_slot(p, k) * p->rows && !spc__cancelled(p->cancel); at++) {
        int64_t from = p->seen->index[at];
        if (from < 0 || (p->seen->cells != NULL && p->seen->cells[at] != k))
            continue;
        pairs++;
        add_products(p, k * p->cin + first, count,
                     p->values->in + from * cin + first,
                     p->values->residual + at % p->rows * cout);
    }
    return pairs;
}

/* Computes the gradient of the bias: the sum of all output gradients. */
static void sum_bias(const problem *p, int64_t to)
{
    int cout = p->conv->cout;

    for (int64_t row = 0; row < p->rows; row++)
        for (int co = 0; co < cout; co++) {
            double dy = (double)p->values->residual[row * cout + co];
            p->sum[to * cout + co] += dy;
            if (p->size != NULL)
                p->size[to * cout + co] += fabs(dy);
        }
}

/* ---- bounds -------------------------------------------------------------- */

/* An existing gradient is added to the sum, which rounds once more. */
static void finish_row(const problem *p, int64_t row, int64_t terms)
{
    for (int co = 0; co < p->conv->cout; co++) {
        int64_t i = row * p->conv->cout + co;
        double error =
            p->size != NULL ? spc__sum_error(p->conv, p->size[i], terms) : 0;
        if (p->conv->accumulate) {
            p->sum[i] += (double)p->values->weights[i];
            error += (fabs(p->sum[i]) + error) * 0x1p-23;
        }
        if (p->tolerance != NULL)
            p->tolerance[i] = (float)spc__stored_error(
                p->conv, (spc__bounded){p->sum[i], error});
    }
}

/* ---- the gradient -------------------------------------------------------- */

/* Computes ROWS rows of the gradient for one offset. The item past the last
 * offset is the bias. */
static void run_block(void *payload, int64_t item)
{
    const problem *p = payload;
    int64_t k = item / p->blocks;
    int first = (int)(item % p->blocks) * ROWS;
    int count = p->cin - first < ROWS ? p->cin - first : ROWS;
    int64_t row = k * p->cin + first, terms;

    if (k == p->offsets) { /* the bias, which only one block computes */
        if (first == 0) {
            sum_bias(p, row);
            finish_row(p, row, p->rows);
        }
        return;
    }
    terms = sum_block(p, k, first, count);
    for (int r = 0; r < count; r++)
        finish_row(p, row + r, terms);
}

static spc_status compute(problem *p, int threads, spc_error *error)
{
    int64_t items = (int64_t)(p->offsets + p->conv->bias) * p->blocks;

    if (!spc__parallel_until(p->cancel, items, threads, run_block, p))
        return spc__interrupted(error);
    return SPC_OK;
}

static problem problem_of(const spc_conv *conv, const spc__seen *seen,
                          int64_t rows, const spc__values *values,
                          const volatile int *cancel)
{
    int cin = spc__conv_group_in(conv);

    return (problem){
        .conv = conv,
        .seen = seen,
        .rows = rows,
        .values = values,
        .cin = cin,
        .group_out = spc__conv_group_out(conv),
        .offsets = spc__conv_offsets(conv),
        .blocks = (cin + ROWS - 1) / ROWS,
        .cancel = cancel,
    };
}

static size_t count_of(const spc_conv *conv)
{
    return ((size_t)spc__conv_offsets(conv) * (size_t)spc__conv_group_in(conv) +
            conv->bias) *
           (size_t)conv->cout;
}

spc_status spc__wgrad_expect(double *reference, float *tolerance,
                             const spc_conv *conv, const spc__seen *seen,
                             int64_t rows, const spc__values *values,
                             int threads, const volatile int *cancel,
                             spc_error *error)
{
    problem p = problem_of(conv, seen, rows, values, cancel);
    size_t count = count_of(conv);
    spc_status status;

    if ((p.size = calloc(count, sizeof(*p.size))) == NULL)
        return spc__fail_memory(error, count * sizeof(*p.size));
    for (size_t i = 0; i < count; i++)
        reference[i] = 0;
    p.sum = reference;
    p.tolerance = tolerance;
    status = compute(&p, threads, error);
    free(p.size);
    return status;
}

spc_status spc__wgrad_exact(float *out, const spc_conv *conv,
                            const spc__seen *seen, int64_t rows,
                            const spc__values *values, int threads,
                            const volatile int *cancel, spc_error *error)
{
    problem p = problem_of(conv, seen, rows, values, cancel);
    size_t count = count_of(conv), bytes = count * sizeof(double);
    spc_status status;

    if ((p.sum = calloc(count, sizeof(double))) == NULL)
        return spc__fail_memory(error, bytes);
    status = compute(&p, threads, error);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)p.sum[i];
    free(p.sum);
    return status;
}
