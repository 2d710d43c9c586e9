/* SPDX-License-Identifier: Apache-2.0 */
/* feature_case.c - moments of elements, and places in a dense plane. */
#include "lab/oracle/feature_case.h"

#include <math.h>

typedef spc__feature_moments moments;

static const double unit = 0x1p-24;

double spc__feature_growth(double n)
{
    return fmin(n, 8 * sqrt(n)) * unit;
}

/*
 * `roundings`: their number in the longest chain of a sum; at most n, and eight
 * for every part that is joined. If the mean has the error m, a difference d
 * has m
 * + u |d|, and its square 2 d times that. Joining parts squares differences of
 * their means, each with an error of 2 m and at most twice the largest element.
 */
static void bound(moments *of, double parts)
{
    double roundings =
               spc__feature_growth(of->n) + spc__feature_growth(8 * parts),
           most = of->largest;

    of->mean_error = roundings * most + unit * fabs(of->mean);
    double differ = of->mean_error + 2 * unit * most;
    of->variance_error = (roundings + 4 * unit) * of->variance +
                         2 * sqrt(of->variance) * differ + differ * differ;
    if (parts > 1)
        of->variance_error +=
            8 * most * of->mean_error + roundings * most * most;
}

static void add_to(moments *m, double x)
{
    m->n++;
    m->mean += x;
    m->largest = fabs(x) > m->largest ? fabs(x) : m->largest;
}

/* Computes mean and variance of one row, in two passes: a sum of squares would
 * cancel. */
static void layer_moments(moments *m, const spc_feature *f,
                          const spc__feature_case *of, int64_t row)
{
    const float *x = of->in + row * f->channels;

    for (int c = 0; c < f->channels; c++)
        add_to(m, (double)x[c]);
    m->mean /= m->n;
    for (int c = 0; c < f->channels; c++)
        m->variance += pow((double)x[c] - m->mean, 2) / m->n;
    bound(m, 1);
}

/* Runs its body for every element of a batch element's group. */
#define FOR_GROUP(row, c)                                                      \
    for (int64_t row = 0; row < of->rows_in; row++)                            \
        for (int c = first; c < last && of->coords[4 * row] == batch; c++)

/* Computes mean and variance of a group of channels over a batch element. */
static void group_moments(moments *m, const spc_feature *f,
                          const spc__feature_case *of, int batch, int group)
{
    int size = f->channels / f->groups;
    int first = group * size, last = first + size;

    FOR_GROUP(row, c)
    add_to(m, (double)of->in[row * f->channels + c]);
    if (m->n == 0)
        return;
    m->mean /= m->n;
    FOR_GROUP(row, c)
    m->variance +=
        pow((double)of->in[row * f->channels + c] - m->mean, 2) / m->n;
    bound(m, ceil(m->n / size / 32));
}

void spc__feature_moments_of(moments *out, const spc_feature *f,
                             const spc__feature_case *of, int64_t row,
                             int batch, int group)
{
    *out = (moments){0};
    if (f->op == SPC_FEATURE_LAYERNORM)
        layer_moments(out, f, of, row);
    else
        group_moments(out, f, of, batch, group);
}

int64_t spc__feature_bev_cell(const spc_feature *f, const int32_t at[4])
{
    int64_t x = f->shape[0], y = f->shape[1], z = f->shape[2];

    if (at[1] < 0 || at[1] >= x || at[2] < 0 || at[2] >= y || at[3] < 0 ||
        at[3] >= z)
        return -1;
    /* Computes it directly, so that it does not share the kernels' table. */
    switch (f->order) {
    case SPC_BEV_ZYX:
        return ((at[0] * f->channels * z + at[3]) * y + at[2]) * x + at[1];
    case SPC_BEV_XYZ:
        return ((at[0] * f->channels * z + at[3]) * x + at[1]) * y + at[2];
    default:
        return ((at[0] * f->channels * x + at[1]) * y + at[2]) * z + at[3];
    }
}
