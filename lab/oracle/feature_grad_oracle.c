/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_grad_oracle.c - gradients of operators on features by their
 * definition: dx[i] is the sum over all outputs y[o] of dy[o] * dy[o]/dx[i].
 *
 * The loops go output by output, where kernels go input by input. Tolerances
 * follow feature_oracle.c; u is 2^-24.
 */
#include "lab/oracle/feature_grad_oracle.h"

#include "operators/feature.h"
#include <math.h>
#include <stdlib.h>

static const double unit = 0x1p-24;

/* The sums of dx, and of the magnitudes of their terms. */
typedef struct sums {
    double *sum, *size;
} sums;

static void add_to(const sums *s, int64_t at, double v)
{
    s->sum[at] += v;
    s->size[at] += fabs(v);
}

/* Bounds a sum of n numbers, each of which was rounded once or twice. */
static void set_tolerance(double *size, int64_t count, double n)
{
    double growth = n > 1 ? spc__feature_growth(n) : 0;

    for (int64_t i = 0; i < count; i++)
        size[i] *= growth + 2 * unit;
}

/* ---- over a map ---------------------------------------------------------- */

/* The map belongs to the gradient: it leads from of->in, which is dy, to dx. */
static int32_t seen(const spc__feature_case *of, int64_t row, int k)
{
    return of->map[(int64_t)k * of->rows_out + row];
}

/*
 * Counts the inputs of each mean. For an un-pooled row, finds the first offset,
 * by which the row was filled.
 */
static void count_all(double *count, const spc_feature *f,
                      const spc__feature_case *of)
{
    bool pooled = f->op == SPC_FEATURE_POOL;
    int offsets = spc_geometry_offset_count(&f->geometry);

    for (int64_t i = 0; i < of->rows_in; i++)
        count[i] = pooled ? 0 : offsets;
    for (int64_t row = 0; row < of->rows_out; row++)
        for (int k = 0; k < offsets; k++) {
            int32_t from = seen(of, row, k);
            if (from >= 0 && pooled)
                count[from]++;
            else if (from >= 0 && k < count[from])
                count[from] = k;
        }
}

/* Adds the contribution of a pair to a pooling's gradient. */
static void pool_pair(const sums *s, const spc_feature *f,
                      const spc__feature_case *of, const double *count,
                      int64_t row, int k)
{
    int32_t from = seen(of, row, k);

    for (int c = 0; from >= 0 && c < f->channels; c++) {
        int64_t at = row * f->channels + c;
        double dy = (double)of->in[(int64_t)from * f->channels + c];
        bool counts = f->op == SPC_FEATURE_POOL ? true
                      : f->index                ? of->index[at] == from
                                                : count[from] == k;
        double share =
            f->op == SPC_FEATURE_POOL && f->reduction == SPC_REDUCE_MEAN
                ? count[from]
                : 1;
        if (counts)
            add_to(s, at, dy / share);
    }
}

spc_status spc__map_gradient(double *out, double *tolerance,
                             const spc_feature *f, const spc__feature_case *of)
{
    sums s = {out, tolerance};
    int offsets = spc_geometry_offset_count(&f->geometry);
    double *count = calloc((size_t)of->rows_in + 1, sizeof(*count));

    if (count == NULL)
        return SPC_ENOMEM;
    count_all(count, f, of);
    for (int64_t row = 0; row < of->rows_out; row++)
        for (int k = 0; k < offsets; k++)
            pool_pair(&s, f, of, count, row, k);
    set_tolerance(tolerance, of->rows_out * f->channels, offsets);
    free(count);
    return SPC_OK;
}

/* ---- batch elements ------------------------------------------------------ */

static bool comes_before(const int32_t *a, const int32_t *b)
{
    for (int i = 1; i < 4; i++)
        if (a[i] != b[i])
            return a[i] < b[i];
    return false;
}

/* Returns the first voxel with the largest number, or -1 if there are no
 * voxels. */
static int64_t find_most(const spc_feature *f, const spc__feature_case *of,
                         int64_t batch, int c)
{
    int64_t best = -1;

    for (int64_t i = 0; i < of->rows_in; i++) {
        float x = of->in[i * f->channels + c];
        float most = best >= 0 ? of->in[best * f->channels + c] : 0;
        if (of->coords[4 * i] != batch)
            continue;
        if (best < 0 || x > most ||
            (x == most &&
             comes_before(of->coords + 4 * i, of->coords + 4 * best)))
            best = i;
    }
    return best;
}

static double voxels_of(const spc__feature_case *of, int64_t batch)
{
    double n = 0;

    for (int64_t i = 0; i < of->rows_out; i++)
        n += of->coords[4 * i] == batch;
    return n;
}

static void spread(const sums *s, const spc_feature *f,
                   const spc__feature_case *of, int64_t batch)
{
    double n = f->reduction == SPC_REDUCE_MEAN ? voxels_of(of, batch) : 1;

    for (int64_t i = 0; i < of->rows_out; i++)
        for (int c = 0; c < f->channels && of->coords[4 * i] == batch; c++)
            add_to(s, i * f->channels + c,
                   (double)of->in[batch * f->channels + c] / n);
}

spc_status spc__global_gradient(double *out, double *tolerance,
                                const spc_feature *f,
                                const spc__feature_case *of)
{
    sums s = {out, tolerance};

    for (int64_t b = 0; b < of->batches; b++) {
        if (f->reduction != SPC_REDUCE_MAX) {
            spread(&s, f, of, b);
            continue;
        }
        for (int c = 0; c < f->channels; c++) {
            int64_t i = find_most(f, of, b, c);
            if (i >= 0)
                add_to(&s, i * f->channels + c,
                       (double)of->add[b * f->channels + c]);
        }
    }
    set_tolerance(tolerance, of->rows_out * f->channels, 1);
    return SPC_OK;
}

/* Reads every cell of the planes that has a voxel. */
spc_status spc__planes_gradient(double *out, double *tolerance,
                                const spc_feature *f,
                                const spc__feature_case *of)
{
    sums s = {out, tolerance};
    int64_t step = (int64_t)f->shape[0] * f->shape[1] * f->shape[2];

    for (int64_t row = 0; row < of->rows_out; row++) {
        int64_t cell = spc__feature_bev_cell(f, of->coords + 4 * row);
        for (int64_t c = 0; cell >= 0 && c < f->channels; c++)
            add_to(&s, row * f->channels + c, (double)of->in[cell + c * step]);
    }
    set_tolerance(tolerance, of->rows_out * f->channels, 1);
    return SPC_OK;
}

/* ---- single rows --------------------------------------------------------- */

spc_status spc__mean_gradient(double *out, double *tolerance,
                              const spc_feature *f, const spc__feature_case *of)
{
    sums s = {out, tolerance};

    for (int64_t at = 0; at < of->rows_out * f->channels; at++)
        add_to(&s, at, (double)of->in[at / f->by] / f->by);
    set_tolerance(tolerance, of->rows_out * f->channels, 1);
    return SPC_OK;
}

spc_status spc__affine_gradient(double *out, double *tolerance,
                                const spc_feature *f,
                                const spc__feature_case *of)
{
    sums s = {out, tolerance};

    for (int64_t at = 0; at < of->rows_out * f->channels; at++)
        add_to(&s, at,
               (double)of->in[at] * (double)of->scale[at % f->channels]);
    set_tolerance(tolerance, of->rows_out * f->channels, 1);
    return SPC_OK;
}

/* ---- normalisation ------------------------------------------------------- */

/*
 * xhat of one element, g = dy times the scale, and the error bound of xhat in
 * fp32.
 */
typedef struct element {
    double xhat, g, off;
} element;

/*
 * Returns the error of 1 / sqrt(var + eps): the error of the variance, plus
 * 2^-21 for the kernels.
 */
static double root_error(const spc_feature *f, const spc__feature_moments *m)
{
    double variance = m->variance + (double)f->eps;
    double low = variance - m->variance_error;

    return (low > 0 ? sqrt(variance / low) - 1 : INFINITY) + 0x1p-21;
}

static double root(const spc_feature *f, const spc__feature_moments *m)
{
    double variance = m->variance + (double)f->eps;

    return variance > 0 ? 1 / sqrt(variance) : 0;
}

/* One element of a normalisation's gradient: its normalised value, its upstream
 * gradient, and the error bound of the former. */
static element element_of(const spc_feature *f, const spc__feature_case *of,
                          const spc__feature_moments *m, int64_t at)
{
    double differ = (double)of->in[at] - m->mean, scale = root(f, m);
    double off = root_error(f, m);
    bool scaled = f->affine && f->pass == SPC_DGRAD;
    element e = {differ * scale, (double)of->add[at], 0};

    if (scaled)
        e.g *= (double)of->scale[at % f->channels];
    e.off = fabs(e.xhat) * (off + 2 * unit) +
            (m->mean_error + unit * fabs(differ)) * scale * (1 + off);
    return e;
}

/*
 * The elements that are normalised as one group: a row, or the channels of a
 * group in a batch element.
 */
typedef struct group {
    int64_t row; /* -1: all rows of `batch` */
    int batch, first, last;
    spc__feature_moments m;
    double all, along;         /* means of g and of g xhat */
    double all_off, along_off; /* error bounds of these means */
} group;

#define FOR_GROUP(g, at)                                                       \
    for (int64_t row_ = (g)->row < 0 ? 0 : (g)->row;                           \
         row_ < ((g)->row < 0 ? of->rows_in : (g)->row + 1); row_++)           \
        for (int64_t at = row_ * f->channels + (g)->first;                     \
             at < row_ * f->channels + (g)->last &&                            \
             ((g)->row >= 0 || of->coords[4 * row_] == (g)->batch);            \
             at++)

/* A product has the errors of its factors, and two roundings by u. */
static void sum_group(group *g, const spc_feature *f,
                      const spc__feature_case *of)
{
    double size = 0, along_size = 0, off = 0, n = g->m.n;

    FOR_GROUP(g, at)
    {
        element e = element_of(f, of, &g->m, at);
        g->all += e.g / n;
        g->along += e.g * e.xhat / n;
        size += fabs(e.g) / n;
        along_size += fabs(e.g * e.xhat) / n;
        off += fabs(e.g) * e.off / n;
    }
    double grown = spc__feature_growth(n) + 4 * unit;
    g->all_off = grown * size;
    g->along_off = grown * (along_size + off) + off;
}

/*
 * dx = root * (g - mean of g - xhat * mean of g xhat): the error of each term,
 * then of their sum, which has four roundings.
 */
static void backward_group(double *out, double *tolerance, group *g,
                           const spc_feature *f, const spc__feature_case *of)
{
    double scale = root(f, &g->m), off = root_error(f, &g->m);

    sum_group(g, f, of);
    FOR_GROUP(g, at)
    {
        element e = element_of(f, of, &g->m, at);
        double size = fabs(e.g) + fabs(g->all) + fabs(e.xhat * g->along);
        double inside = g->all_off + (fabs(e.xhat) + e.off) * g->along_off +
                        e.off * fabs(g->along) + 5 * unit * size;
        out[at] = scale * (e.g - g->all - e.xhat * g->along);
        tolerance[at] = fabs(out[at]) * off + scale * (1 + off) * inside;
    }
}

/* Calls backward_group for every group. */
static void for_groups(double *out, double *tolerance, const spc_feature *f,
                       const spc__feature_case *of,
                       void (*each)(double *out, double *tolerance, group *g,
                                    const spc_feature *f,
                                    const spc__feature_case *of))
{
    bool by_row_alone = f->op == SPC_FEATURE_LAYERNORM;
    int groups = by_row_alone ? 1 : f->groups, size = f->channels / groups;
    int64_t count = by_row_alone ? of->rows_in : of->batches;

    for (int64_t i = 0; i < count; i++)
        for (int j = 0; j < groups; j++) {
            group g = {.row = by_row_alone ? i : -1,
                       .batch = (int)i,
                       .first = j * size,
                       .last = (j + 1) * size};
            spc__feature_moments_of(&g.m, f, of, i, (int)i, j);
            if (g.m.n > 0)
                each(out, tolerance, &g, f, of);
        }
}

spc_status spc__norm_gradient(double *out, double *tolerance,
                              const spc_feature *f, const spc__feature_case *of)
{
    for_groups(out, tolerance, f, of, backward_group);
    return SPC_OK;
}

/* ---- gradients of scale and shift ---------------------------------------- */

/*
 * `tolerance` accumulates the rounding errors and the growth of the sum; `out`
 * + channels holds the sum's magnitude meanwhile.
 */
static void add_products(double *out, double *tolerance, group *g,
                         const spc_feature *f, const spc__feature_case *of)
{
    double grown = spc__feature_growth((double)of->rows_in) + 2 * unit;

    FOR_GROUP(g, at)
    {
        element e = element_of(f, of, &g->m, at);
        int64_t c = at % f->channels;
        out[c] += e.g * e.xhat;
        tolerance[c] +=
            fabs(e.g) * e.off * (1 + grown) + grown * fabs(e.g * e.xhat);
    }
}

/* The sums of dy, for the shift. */
static void add_shifts(double *out, double *tolerance, const spc_feature *f,
                       const spc__feature_case *of)
{
    double grown = spc__feature_growth((double)of->rows_in);

    for (int64_t at = 0; at < of->rows_in * f->channels; at++) {
        int64_t c = f->channels + at % f->channels;
        out[c] += (double)of->add[at];
        tolerance[c] += grown * fabs((double)of->add[at]);
    }
}

spc_status spc__affine_sums(double *out, double *tolerance,
                            const spc_feature *f, const spc__feature_case *of)
{
    double grown = spc__feature_growth((double)of->rows_in) + unit;

    for (int64_t at = 0; at < of->rows_in * f->channels; at++) {
        double product = (double)of->add[at] * (double)of->in[at];
        out[at % f->channels] += product;
        tolerance[at % f->channels] += grown * fabs(product);
    }
    add_shifts(out, tolerance, f, of);
    return SPC_OK;
}

spc_status spc__norm_sums(double *out, double *tolerance, const spc_feature *f,
                          const spc__feature_case *of)
{
    for_groups(out, tolerance, f, of, add_products);
    add_shifts(out, tolerance, f, of);
    return SPC_OK;
}

/* ---- gradients of rows that multiply ------------------------------------- */

spc_status spc__multiply_sums(double *out, double *tolerance,
                              const spc_feature *f, const spc__feature_case *of)
{
    sums s = {out, tolerance};

    for (int64_t at = 0; at < of->rows_in * f->channels; at++)
        add_to(&s,
               of->coords[4 * (at / f->channels)] * (int64_t)f->channels +
                   at % f->channels,
               (double)of->in[at] * (double)of->add[at]);
    set_tolerance(tolerance, of->batches * f->channels, (double)of->rows_in);
    return SPC_OK;
}
