/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_oracle.c - operators on features by their definition.
 *
 * Nothing here shares code with a device. Tolerances follow oracle.c: a sum of
 * n numbers in fp32, in any order, has an error of at most n u times the sum of
 * their magnitudes (Higham, Accuracy and Stability of Numerical Algorithms,
 * section 4.2). If errors have random signs, 8 sqrt(n) u of it is exceeded with
 * a probability below 1e-13 (Higham, Mary, 2019). u is 2^-24: these kernels add
 * on units that round to nearest.
 */
#include "lab/oracle/feature_oracle.h"

#include "lab/oracle/feature_grad_oracle.h"

#include "base/dtype.h"
#include "operators/feature.h"
#include "operators/feature_table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double unit = 0x1p-24;

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* ---- activations --------------------------------------------------------- */

static double activate(const spc_feature *f, double x)
{
    switch (f->activation) {
    case SPC_ACT_RELU:
        return x > 0 ? x : 0;
    case SPC_ACT_LEAKY:
        return x > 0 ? x : x * (double)f->slope;
    case SPC_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    case SPC_ACT_SILU:
        return x / (1 + exp(-x));
    case SPC_ACT_GELU:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case SPC_ACT_ELU:
        return x > 0 ? x : (double)f->slope * expm1(x);
    default:
        return x;
    }
}

/*
 * The largest slope of an activation; those of silu and gelu are 1.0998 and
 * 1.1290.
 */
static double steepest(const spc_feature *f)
{
    double slope = fabs((double)f->slope);

    switch (f->activation) {
    case SPC_ACT_LEAKY:
    case SPC_ACT_ELU:
        return slope > 1 ? slope : 1;
    case SPC_ACT_SIGMOID:
        return 0.25;
    case SPC_ACT_SILU:
        return 1.1;
    case SPC_ACT_GELU:
        return 1.13;
    default:
        return 1;
    }
}

/*
 * The error of evaluating an activation at an exact x, derived in finish.c from
 * the primitives that both use.
 */
static double evaluation(const spc_feature *f, double x)
{
    double y = fabs(activate(f, x));

    switch (f->activation) {
    case SPC_ACT_LEAKY:
        return unit * y;
    case SPC_ACT_SIGMOID:
    case SPC_ACT_SILU:
        return 16 * unit * y + 0x1p-118;
    case SPC_ACT_GELU:
        return 8 * unit * fabs(x) + 2 * unit * y + 0x1p-118;
    case SPC_ACT_ELU:
        return x > 0 ? 0 : 16 * unit * y + 0x1p-118;
    default:
        return 0;
    }
}

/* Applies the last step of an operator, whose argument x has the error
 * `error`. */
static void finish(double *out, double *tolerance, const spc_feature *f,
                   double x, double error)
{
    *out = activate(f, x);
    *tolerance = steepest(f) * error + evaluation(f, x);
}

/* The derivative at x. The derivative of ReLU at 0 is 0, as in PyTorch. */
static double derivative(const spc_feature *f, double x)
{
    double s = 1 / (1 + exp(-x));

    switch (f->activation) {
    case SPC_ACT_RELU:
        return x > 0;
    case SPC_ACT_LEAKY:
        return x > 0 ? 1 : (double)f->slope;
    case SPC_ACT_SIGMOID:
        return s * (1 - s);
    case SPC_ACT_SILU:
        return s * (1 + x * (1 - s));
    case SPC_ACT_GELU:
        return (1 + erf(x / sqrt(2))) / 2 +
               x * exp(-x * x / 2) * 0.3989422804014327;
    case SPC_ACT_ELU:
        return x > 0 ? 1 : (double)f->slope * exp(x);
    default:
        return 1;
    }
}

/*
 * Each of the few steps to a derivative rounds a value of at most 1 + |x|, or
 * the slope, by the primitives' 8 units; products with a derivative of 0 or 1
 * are exact.
 */
static void differentiate(double *out, double *tolerance, const spc_feature *f,
                          double x, double dy)
{
    double slope = fabs((double)f->slope);
    double size = (1 + fabs(x)) * (slope > 1 ? slope : 1);

    *out = dy * derivative(f, x);
    *tolerance = 0;
    if (f->activation == SPC_ACT_LEAKY)
        *tolerance = unit * fabs(*out);
    else if (f->activation != SPC_ACT_RELU)
        *tolerance = 24 * unit * size * fabs(dy) + 0x1p-118;
}

/* ---- over a map ---------------------------------------------------------- */

/* Pools one element. A maximum is exact, and the first of equal ones counts;
 * sums get a bound of their rounding. */
static void pool_one(double *out, double *tolerance, int32_t *index,
                     const spc_feature *f, const spc__feature_case *of,
                     int64_t row, int c)
{
    int offsets = spc_geometry_offset_count(&f->geometry), present = 0;
    double sum = 0, magnitude = 0, most = -INFINITY;
    int32_t from = -1;

    for (int k = 0; k < offsets; k++) {
        int32_t i = of->map[(int64_t)k * of->rows_out + row];
        if (i < 0)
            continue;
        double x = (double)of->in[(int64_t)i * f->channels + c];
        present++;
        sum += x;
        magnitude += fabs(x);
        if (x > most) {
            most = x;
            from = i;
        }
    }
    *out = *tolerance = 0;
    if (present > 0 && f->reduction == SPC_REDUCE_MAX)
        *out = most;
    else if (present > 0) {
        double n = f->reduction == SPC_REDUCE_MEAN ? present : 1;
        *out = sum / n;
        *tolerance =
            (spc__feature_growth(present) * magnitude) / n + unit * fabs(*out);
    }
    if (index != NULL)
        *index = from;
}

/* Unpools one element: the first output that sees it, or with an index the sum
 * of those that chose it. */
static void unpool_one(double *out, double *tolerance, const spc_feature *f,
                       const spc__feature_case *of, int64_t row, int c)
{
    int offsets = spc_geometry_offset_count(&f->geometry), present = 0;
    double magnitude = 0;

    *out = 0;
    for (int k = 0; k < offsets; k++) {
        int32_t o = of->map[(int64_t)k * of->rows_out + row];
        if (o < 0 || (!f->index && present > 0))
            continue;
        int64_t at = (int64_t)o * f->channels + c;
        if (f->index && of->index[at] != row)
            continue;
        present++;
        *out += (double)of->in[at];
        magnitude += fabs((double)of->in[at]);
    }
    *tolerance = present > 1 ? spc__feature_growth(present) * magnitude : 0;
}

/*
 * Returns the slice of offset k: cells are numbered with x fastest, like the
 * children of regrouped sets; a list has its own order.
 */
static int64_t slice_of(const spc_geometry *g, int k)
{
    int tap[3] = {k / (g->kernel[1] * g->kernel[2]),
                  k / g->kernel[2] % g->kernel[1], k % g->kernel[2]};

    return g->offset_count > 0
               ? k
               : tap[0] + g->kernel[0] * (tap[1] + g->kernel[1] * tap[2]);
}

/* A row of outputs holds every input that it sees, each in its slice. */
static void slice_row(double *out, const spc_feature *f,
                      const spc__feature_case *of, int64_t row)
{
    int offsets = spc_geometry_offset_count(&f->geometry);

    for (int k = 0; k < offsets; k++) {
        int32_t i = of->map[(int64_t)k * of->rows_out + row];
        for (int64_t c = 0; i >= 0 && c < f->channels; c++)
            out[slice_of(&f->geometry, k) * f->channels + c] =
                (double)of->in[i * f->channels + c];
    }
}

/* A row of outputs is the sum of the slices that it was written to. */
static void unslice_row(double *out, double *tolerance, const spc_feature *f,
                        const spc__feature_case *of, int64_t row)
{
    int offsets = spc_geometry_offset_count(&f->geometry), present = 0;
    int64_t outputs = f->channels / offsets;

    for (int k = 0; k < offsets; k++) {
        int32_t o = of->map[(int64_t)k * of->rows_out + row];
        int64_t from =
            o * (int64_t)f->channels + slice_of(&f->geometry, k) * outputs;
        present += o >= 0;
        for (int64_t c = 0; o >= 0 && c < outputs; c++) {
            out[c] += (double)of->in[from + c];
            tolerance[c] += fabs((double)of->in[from + c]);
        }
    }
    for (int64_t c = 0; c < outputs; c++)
        tolerance[c] *= present > 1 ? spc__feature_growth(present) : 0;
}

static void slice(double *out, double *tolerance, int32_t *index,
                  const spc_feature *f, const spc__feature_case *of)
{
    (void)tolerance;
    (void)index;
    for (int64_t row = 0; row < of->rows_out; row++)
        slice_row(out + row * spc_feature_elements_out(f), f, of, row);
}

static void unslice(double *out, double *tolerance, int32_t *index,
                    const spc_feature *f, const spc__feature_case *of)
{
    int64_t outputs = spc_feature_elements_out(f);

    (void)index;
    for (int64_t row = 0; row < of->rows_out; row++)
        unslice_row(out + row * outputs, tolerance + row * outputs, f, of, row);
}

static void pool(double *out, double *tolerance, int32_t *index,
                 const spc_feature *f, const spc__feature_case *of)
{
    for (int64_t at = 0; at < of->rows_out * f->channels; at++)
        pool_one(out + at, tolerance + at, index != NULL ? index + at : NULL, f,
                 of, at / f->channels, (int)(at % f->channels));
}

static void unpool(double *out, double *tolerance, int32_t *index,
                   const spc_feature *f, const spc__feature_case *of)
{
    (void)index;
    for (int64_t at = 0; at < of->rows_out * f->channels; at++)
        unpool_one(out + at, tolerance + at, f, of, at / f->channels,
                   (int)(at % f->channels));
}

/* ---- single rows --------------------------------------------------------- */

/* Computes element `at` of the outputs. */
typedef void element_of(double *out, double *tolerance, const spc_feature *f,
                        const spc__feature_case *of, int64_t at);

static void act_one(double *out, double *tolerance, const spc_feature *f,
                    const spc__feature_case *of, int64_t at)
{
    finish(out, tolerance, f, (double)of->in[at], 0);
}

static void actgrad_one(double *out, double *tolerance, const spc_feature *f,
                        const spc__feature_case *of, int64_t at)
{
    differentiate(out, tolerance, f, (double)of->in[at], (double)of->add[at]);
}

static void add_one(double *out, double *tolerance, const spc_feature *f,
                    const spc__feature_case *of, int64_t at)
{
    double x = (double)of->in[at] + (double)of->add[at];

    finish(out, tolerance, f, x, unit * fabs(x));
}

static void multiply_one(double *out, double *tolerance, const spc_feature *f,
                         const spc__feature_case *of, int64_t at)
{
    int64_t batch = of->coords[4 * (at / f->channels)];
    int64_t c = at % f->channels;

    *out = (double)of->in[at] * (double)of->add[batch * f->channels + c];
    *tolerance = unit * fabs(*out);
}

static void affine_one(double *out, double *tolerance, const spc_feature *f,
                       const spc__feature_case *of, int64_t at)
{
    double product = (double)of->in[at] * (double)of->scale[at % f->channels];
    double x = product + (double)of->shift[at % f->channels];

    finish(out, tolerance, f, x, unit * (fabs(product) + fabs(x)));
}

static void repeat_one(double *out, double *tolerance, const spc_feature *f,
                       const spc__feature_case *of, int64_t at)
{
    *out = (double)of->in[at / f->by];
    *tolerance = 0;
}

/* The sum of `by` neighbours over n. */
static void group_one(double *out, double *tolerance, const spc_feature *f,
                      const spc__feature_case *of, int64_t at, double n)
{
    double sum = 0, magnitude = 0;

    for (int64_t q = at * f->by; q < (at + 1) * f->by; q++) {
        sum += (double)of->in[q];
        magnitude += fabs((double)of->in[q]);
    }
    *out = sum / n;
    *tolerance = spc__feature_growth(f->by) * magnitude / n + unit * fabs(*out);
}

static void groupsum_one(double *out, double *tolerance, const spc_feature *f,
                         const spc__feature_case *of, int64_t at)
{
    group_one(out, tolerance, f, of, at, 1);
}

static void groupmean_one(double *out, double *tolerance, const spc_feature *f,
                          const spc__feature_case *of, int64_t at)
{
    group_one(out, tolerance, f, of, at, f->by);
}

/* ---- normalisation ------------------------------------------------------- */

typedef spc__feature_moments moments;

/* (x - mean) / sqrt(var + eps), then scale, shift and activation. */
static void normalise(double *out, double *tolerance, const spc_feature *f,
                      const spc__feature_case *of, const moments *m, double x,
                      int c)
{
    double variance = m->variance + (double)f->eps;
    double low = variance - m->variance_error;
    double scale = variance > 0 ? 1 / sqrt(variance) : 0;
    /* The kernels' 1 / sqrt is within 2^-21 of the value. */
    double off = (low > 0 ? sqrt(variance / low) - 1 : INFINITY) + 0x1p-21;
    double y = (x - m->mean) * scale;
    double error =
        fabs(y) * (off + 2 * unit) +
        (m->mean_error + unit * fabs(x - m->mean)) * scale * (1 + off);

    if (f->affine) {
        double g = (double)of->scale[c], b = (double)of->shift[c];
        error = fabs(g) * error + unit * (2 * fabs(g * y) + fabs(b));
        y = g * y + b;
    }
    finish(out, tolerance, f, y, error);
}

/* Normalises each row over its channels. */
static void layer_norm(double *out, double *tolerance, int32_t *index,
                       const spc_feature *f, const spc__feature_case *of)
{
    (void)index;
    for (int64_t row = 0; row < of->rows_out; row++) {
        int64_t at = row * f->channels;
        moments m;
        spc__feature_moments_of(&m, f, of, row, 0, 0);
        for (int c = 0; c < f->channels; c++)
            normalise(out + at + c, tolerance + at + c, f, of, &m,
                      (double)of->in[at + c], c);
    }
}

/* Normalises one group of one batch element. */
static void one_group(double *out, double *tolerance, const spc_feature *f,
                      const spc__feature_case *of, int batch, int group)
{
    int size = f->channels / f->groups;
    int first = group * size, last = first + size;
    moments m;

    spc__feature_moments_of(&m, f, of, 0, batch, group);
    for (int64_t row = 0; row < of->rows_in; row++)
        for (int c = first; c < last && of->coords[4 * row] == batch; c++) {
            int64_t at = row * f->channels + c;
            normalise(out + at, tolerance + at, f, of, &m, (double)of->in[at],
                      c);
        }
}

static void group_norm(double *out, double *tolerance, int32_t *index,
                       const spc_feature *f, const spc__feature_case *of)
{
    (void)index;
    for (int batch = 0; batch < of->batches; batch++)
        for (int group = 0; group < f->groups; group++)
            one_group(out, tolerance, f, of, batch, group);
}

/* ---- batch elements ------------------------------------------------------ */

/* Pools a channel over all rows of a batch element. */
static void global_one(double *out, double *tolerance, const spc_feature *f,
                       const spc__feature_case *of, int batch, int c)
{
    double sum = 0, magnitude = 0, most = -INFINITY, n = 0;

    for (int64_t row = 0; row < of->rows_in; row++) {
        if (of->coords[4 * row] != batch)
            continue;
        double x = (double)of->in[row * f->channels + c];
        n++;
        sum += x;
        magnitude += fabs(x);
        most = x > most ? x : most;
    }
    *out = *tolerance = 0;
    if (n == 0)
        return;
    if (f->reduction == SPC_REDUCE_MAX) {
        *out = most;
        return;
    }
    double by = f->reduction == SPC_REDUCE_MEAN ? n : 1;
    *out = sum / by;
    *tolerance = spc__feature_growth(n) * magnitude / by + unit * fabs(*out);
}

/* Scatters rows into a dense plane. Values are copied, so they are exact. */
static void bev(double *out, double *tolerance, int32_t *index,
                const spc_feature *f, const spc__feature_case *of)
{
    int64_t plane = (int64_t)f->shape[0] * f->shape[1] * f->shape[2];

    (void)tolerance;
    (void)index;
    for (int64_t row = 0; row < of->rows_in; row++) {
        int64_t tap = spc__feature_bev_cell(f, of->coords + 4 * row);
        for (int64_t c = 0; tap >= 0 && c < f->channels; c++)
            out[tap + c * plane] = (double)of->in[row * f->channels + c];
    }
}

static void global(double *out, double *tolerance, int32_t *index,
                   const spc_feature *f, const spc__feature_case *of)
{
    (void)index;
    for (int64_t at = 0; at < of->batches * f->channels; at++)
        global_one(out + at, tolerance + at, f, of, (int)(at / f->channels),
                   (int)(at % f->channels));
}

/* ---- the table ----------------------------------------------------------- */

/* The definition of an operator and its gradients; NULL: the operator has no
 * such pass. An operator on single rows defines one element. `rounds`: even
 * integers have more than one correct result. */
static const struct definition {
    void (*all)(double *out, double *tolerance, int32_t *index,
                const spc_feature *f, const spc__feature_case *of);
    element_of *one;
    spc__feature_gradient *dgrad, *wgrad;
    bool rounds;
} definitions[] = {
    [SPC_FEATURE_POOL] = {pool, .dgrad = spc__map_gradient},
    [SPC_FEATURE_UNPOOL] = {unpool, .dgrad = spc__map_gradient},
    [SPC_FEATURE_SLICE] = {slice},
    [SPC_FEATURE_UNSLICE] = {unslice},
    [SPC_FEATURE_GLOBAL] = {global, .dgrad = spc__global_gradient},
    [SPC_FEATURE_ADD] = {.one = add_one},
    [SPC_FEATURE_ACT] = {.one = act_one},
    [SPC_FEATURE_ACTGRAD] = {.one = actgrad_one},
    [SPC_FEATURE_AFFINE] = {NULL, affine_one, spc__affine_gradient,
                            spc__affine_sums},
    [SPC_FEATURE_LAYERNORM] = {layer_norm, NULL, spc__norm_gradient,
                               spc__norm_sums, .rounds = true},
    [SPC_FEATURE_GROUPNORM] = {group_norm, NULL, spc__norm_gradient,
                               spc__norm_sums, .rounds = true},
    [SPC_FEATURE_GROUPSUM] = {.one = groupsum_one},
    [SPC_FEATURE_GROUPMEAN] = {.one = groupmean_one,
                               .dgrad = spc__mean_gradient},
    [SPC_FEATURE_REPEAT] = {.one = repeat_one},
    [SPC_FEATURE_BEV] = {bev, .dgrad = spc__planes_gradient},
    [SPC_FEATURE_MULTIPLY] = {.one = multiply_one, .wgrad = spc__multiply_sums},
};
_Static_assert(sizeof(definitions) / sizeof(definitions[0]) == SPC__FEATURES,
               "each operator has a definition");

bool spc__feature_is_defined(const spc_feature *f)
{
    const struct definition *of = &definitions[f->op];

    return f->pass == SPC_DGRAD   ? of->dgrad != NULL
           : f->pass == SPC_WGRAD ? of->wgrad != NULL
                                  : (of->all != NULL) != (of->one != NULL);
}

spc_status spc__feature_oracle(double *out, double *tolerance, int32_t *index,
                               const spc_feature *f,
                               const spc__feature_case *of)
{
    const struct definition *by = &definitions[f->op];
    int64_t all = spc_feature_rows_out(f, of->rows_out, of->batches) *
                  spc_feature_elements_out(f);

    memset(out, 0, (size_t)all * sizeof(*out));
    memset(tolerance, 0, (size_t)all * sizeof(*tolerance));
    if (f->pass == SPC_DGRAD)
        return by->dgrad(out, tolerance, f, of);
    if (f->pass == SPC_WGRAD)
        return by->wgrad(out, tolerance, f, of);
    if (by->all != NULL)
        by->all(out, tolerance, index, f, of);
    for (int64_t at = 0; by->one != NULL && at < all; at++)
        by->one(out + at, tolerance + at, f, of, at);
    return SPC_OK;
}

/* Half a unit in the last place, or half of the least number above zero. */
double spc__feature_tolerance(const spc_feature *f, double reference,
                              double tolerance)
{
    const spc__dtype *type = spc__dtype_of(spc__feature_out_dtype(f));
    double size = fabs(reference) + tolerance;

    return tolerance + ldexp(size, -type->stored_bits) + type->least_half;
}

bool spc__feature_is_exact(const spc_feature *f)
{
    if (definitions[f->op].rounds)
        return false;
    /* A sum of quotients has more than one rounding. */
    if (f->pass == SPC_DGRAD && f->op == SPC_FEATURE_POOL)
        return f->reduction != SPC_REDUCE_MEAN;
    return f->activation <= SPC_ACT_LEAKY;
}

/* ---- compulsory bytes ---------------------------------------------------- */

static double index_bytes(const spc_feature *f, int64_t rows_out, int64_t pairs)
{
    double offsets = spc_geometry_offset_count(&f->geometry),
           rows = (double)rows_out;

    return least(4 * (double)pairs + rows * offsets / 8, 4 * rows * offsets);
}

void spc__feature_bytes(double *read, double *written, const spc_feature *f,
                        int64_t rows_in, int64_t rows_out, int64_t batches,
                        int64_t pairs)
{
    double element = (double)spc__dtype_of(f->dtype)->bytes;
    double result = (double)spc__dtype_of(spc__feature_out_dtype(f))->bytes;
    double stored = f->index ? 4.0 * f->channels : 0;
    bool back = f->pass != SPC_FORWARD;

    *read = (double)spc_feature_rows_in(f, rows_in, batches) *
                (double)spc_feature_elements_in(f) * element +
            (double)spc_feature_rows_add(f, rows_in, batches) *
                (double)f->channels * element;
    *written = (double)spc_feature_rows_out(f, rows_out, batches) *
               (double)spc_feature_elements_out(f) * result;
    if (spc__feature_has_scale(f))
        *read += (spc__feature_has_shift(f) ? 8.0 : 4.0) * f->channels;
    if (spc__feature_takes_map(f))
        *read += index_bytes(f, rows_out, pairs);
    if (spc__feature_stores_index(f))
        *written += (double)rows_out * stored;
    if (spc__feature_reads_index(f))
        *read += (double)(back ? rows_out : rows_in) * stored;
}
