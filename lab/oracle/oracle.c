/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oracle.c - the layer in double precision, and the tolerance.
 *
 * Nothing here shares code with a device, so that the two do not have the same
 * fault.
 */
#include "lab/oracle/oracle.h"

#include "base/cancel.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/parallel.h"
#include "lab/oracle/finish.h"
#include "lab/oracle/panels.h"
#include "operators/conv.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- tolerance ----------------------------------------------------------- */

/*
 * The effect of rounding on a sum of n products p_i of independent factors that
 * are uniform in [-1, 1), as tests draw them. All bounds hold with a stated
 * probability; what is beyond them is not rounding.
 *
 * 1. Partial sums. Q^2 is the sum of all p_i^2; as |p_i| <= 1, it is at most
 *    the sum of |p_i|, the oracle's magnitude. Signs are random, so in whatever
 *    order the sum is taken, no partial sum exceeds S = L Q but with
 *    probability 4 exp(-L^2 / 2) (Hoeffding's and Levy's inequalities).
 * 2. Rounding to nearest, unit roundoff u: errors d_i s_i of random sign and
 *    |d_i| <= u. After Higham and Mary (A new approach to probabilistic
 *    rounding error analysis, SIAM J. Sci. Comput. 41, 2019) their sum is
 *    within L u sqrt(sum of s_i^2) <= L u sqrt(n) S, but with probability
 *    2 exp(-L^2 / 2); rounding the products besides adds L u Q.
 * 3. Truncation. Tensor cores add products of a step to the accumulator with
 *    all terms cut off 24 bits below the largest (Fasi, Higham, Mikaitis,
 *    Pranesh, Numerical behavior of NVIDIA tensor cores, 2021): u = 2^-23.
 *    The part cut from products has a random sign, as in 2. The part cut
 *    from the accumulator always draws it towards zero: a bias, which adds up
 *    linearly, u S for each step; the shortest steps known have 4 products.
 *    Which unit a candidate runs on is not known here: truncation is allowed
 *    for every type.
 * 4. Factors rounded to tf32, 11 bits: an error of up to 2^-10 + 2^-22 in each
 *    product, of random sign as the product: within L of that times Q. fp32 by
 *    three tf32 products sums three times as many, and drops one product of
 *    low halves and the bits below both: 3 * 2^-22 in each.
 *
 * With L = 8 one of these fails for an element with probability at most
 * 8 exp(-32) = 1e-13: for one of 1e7 elements in one draw of a million. Where n
 * is small the certain bound n u / (1 - n u) times the magnitude (Higham,
 * Accuracy and Stability of Numerical Algorithms, section 3.1) is less, and
 * holds as well. n counts one more for the bias and a few for partial sums that
 * are joined.
 *
 * Where sums may be in fp16 (accumulator=f16) they are cut off to it after each
 * product at worst: u = 2^-10 in 1 to 3, for each product, and 2^-24 where the
 * sum is subnormal. Only products whose weight is not zero count, as adding
 * zero rounds nothing.
 *
 * Sums of whole numbers (i8) are int32, and exact.
 *
 * The result is rounded to its type in memory, 2^-11 for fp16 and 2^-8 for
 * bf16, with half the smallest subnormal as the least step. Products that
 * underflow in fp32 lose up to 2^-126 each.
 */
static const double sure = 8;
static const double truncation = 0x1p-23, step_products = 4;

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double half_sum_error(double magnitude, int64_t terms)
{
    const double unit = 0x1p-10, step = 0x1p-24;
    double n = (double)terms + 8, q = sqrt(magnitude), sum = sure * q;
    double likely = sure * unit * (sqrt(n) * sum + q) + n * unit * sum;
    double certain = expm1(n * log1p(unit)) * magnitude;

    return least(likely, certain) + n * step;
}

double spc__sum_error(const spc_conv *conv, double magnitude, int64_t terms)
{
    const spc__dtype *type = spc__dtype_of(conv->dtype);

    if (spc__conv_in_is_whole(conv))
        return 0;
    if (conv->accumulator == SPC_ACCUMULATOR_F16)
        return half_sum_error(magnitude, terms);
    /* fp32 may be split into three products */
    bool split = type->factor_bits == 24;
    double n = ((double)terms + 8) * (split ? 3 : 1);
    double q = sqrt(magnitude), sum = sure * q;
    double factors = split                                   ? 3 * 0x1p-22
                     : type->factor_bits < type->stored_bits ? 0x1p-10 + 0x1p-22
                                                             : 0;
    double likely = sure * truncation * (sqrt(n) * sum + q) +
                    n / step_products * truncation * sum;
    double gamma = n * truncation / (1 - n * truncation);

    return least(likely, gamma * magnitude) +
           least(sure * q, magnitude) * factors + n * 0x1p-126;
}

double spc__tolerance(const spc_conv *conv, double reference, double magnitude,
                      int64_t terms)
{
    spc__bounded sum = {reference, spc__sum_error(conv, magnitude, terms)};

    return spc__stored_error(conv, sum);
}

/* ---- convolution --------------------------------------------------------- */

/*
 * Every machine has registers of two doubles; four registers fill its pipeline.
 */
typedef double pair __attribute__((vector_size(16)));
typedef int64_t bits __attribute__((vector_size(16)));

enum { LANES = 8, TILE = 64 };

typedef struct layer_sums {
    spc__panels panels;
    double *out;
    double *magnitude; /* magnitudes of the sums, or NULL */
    double *blocked;   /* weights in panels; NULL if too large */
} layer_sums;

/* Copies the weights of one offset into panels, short ones filled with zeros.
 */
static void block_weights(void *payload, int64_t k)
{
    const layer_sums *p = payload;
    double *to = p->blocked + spc__panel_at(&p->panels, k, 0);

    for (int panel = 0; panel < p->panels.panels; panel++)
        for (int ci = 0; ci < p->panels.cin; ci++)
            for (int lane = 0; lane < LANES; lane++)
                *to++ = spc__panel_weight(&p->panels, k, panel, ci, lane);
}

/* sum[l] = weights[ci][l] * in[ci]: products of floats are exact in double. */
static void dot_panel(double sum[LANES], const double *weights, const float *in,
                      int cin)
{
    pair s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    for (int ci = 0; ci < cin; ci++) {
        const pair *w = (const pair *)(weights + (int64_t)ci * LANES);
        pair x = {in[ci], in[ci]};
        s0 += w[0] * x;
        s1 += w[1] * x;
        s2 += w[2] * x;
        s3 += w[3] * x;
    }
    pair all[4] = {s0, s1, s2, s3};
    memcpy(sum, all, sizeof(all));
}

/* Like dot_panel; size[l] gets the sum of the absolute products. */
static void dot_panel_and_size(double sum[LANES], double size[LANES],
                               const double *weights, const float *in, int cin)
{
    const bits keep = {INT64_MAX, INT64_MAX};
    pair s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    pair m0 = {0}, m1 = {0}, m2 = {0}, m3 = {0};
    for (int ci = 0; ci < cin; ci++) {
        const pair *w = (const pair *)(weights + (int64_t)ci * LANES);
        pair x = {in[ci], in[ci]};
        pair p0 = w[0] * x, p1 = w[1] * x, p2 = w[2] * x, p3 = w[3] * x;
        s0 += p0;
        s1 += p1;
        s2 += p2;
        s3 += p3;
        m0 += (pair)((bits)p0 & keep);
        m1 += (pair)((bits)p1 & keep);
        m2 += (pair)((bits)p2 & keep);
        m3 += (pair)((bits)p3 & keep);
    }
    pair sums[4] = {s0, s1, s2, s3}, sizes[4] = {m0, m1, m2, m3};
    memcpy(sum, sums, sizeof(sums));
    memcpy(size, sizes, sizeof(sizes));
}

/* Adds one pair to all output channels. */
static void add_pair(const layer_sums *to, int64_t row, int64_t k,
                     int64_t source)
{
    const spc__panels *p = &to->panels;
    double *magnitude = to->magnitude;

    for (int panel = 0; panel < p->panels; panel++) {
        const double *weights = to->blocked + spc__panel_at(p, k, panel);
        int first = spc__panel_first(p, panel);
        int lanes = spc__panel_lanes(p, panel);
        const float *in = spc__panel_in(p, source, first);
        int64_t at = row * p->cout + first;
        double sum[LANES], size[LANES] = {0};
        if (magnitude != NULL)
            dot_panel_and_size(sum, size, weights, in, p->cin);
        else
            dot_panel(sum, weights, in, p->cin);
        for (int lane = 0; lane < lanes; lane++) {
            to->out[at + lane] += sum[lane];
            if (magnitude != NULL)
                magnitude[at + lane] += size[lane];
        }
    }
}

/* Like add_pair, but reads unpacked weights: slow, but needs no memory. */
static void add_pair_slowly(const layer_sums *to, int64_t row, int64_t k,
                            int64_t source)
{
    const spc__panels *p = &to->panels;

    for (int64_t co = 0; co < p->cout; co++) {
        const float *in = spc__panel_in(p, source, co);
        const float *weights = p->weights + (co * p->offsets + k) * p->cin;
        double sum = 0, size = 0;
        for (int ci = 0; ci < p->cin; ci++) {
            sum += (double)weights[ci] * in[ci];
            size += fabs((double)weights[ci] * in[ci]);
        }
        to->out[row * p->cout + co] += sum;
        if (to->magnitude != NULL)
            to->magnitude[row * p->cout + co] += size;
    }
}

/* Starts a row with the bias, as a kernel does. */
static void start_row(const layer_sums *p, int64_t row)
{
    int cout = p->panels.cout;

    for (int co = 0; co < cout; co++) {
        double bias = p->panels.bias != NULL ? p->panels.bias[co] : 0;
        p->out[row * cout + co] = bias;
        if (p->magnitude != NULL)
            p->magnitude[row * cout + co] = fabs(bias);
    }
}

/*
 * Processes a few rows offset by offset, so that the weights stay in the cache.
 */
static void run_tile(void *payload, int64_t tile)
{
    const layer_sums *to = payload;
    const spc__panels *p = &to->panels;
    int64_t first = tile * TILE;
    int64_t last = first + TILE < p->rows ? first + TILE : p->rows;

    for (int64_t row = first; row < last; row++)
        start_row(to, row);
    for (int64_t s = 0; s < p->seen->slots && !spc__cancelled(p->cancel); s++)
        for (int64_t row = first; row < last; row++) {
            int32_t source = p->seen->index[s * p->rows + row];
            if (source < 0)
                continue;
            int64_t k = spc__panel_cell(p, s, row);
            if (to->blocked != NULL)
                add_pair(to, row, k, source);
            else
                add_pair_slowly(to, row, k, source);
        }
}

spc_status spc__oracle(double *out, double *magnitude, const spc_conv *conv,
                       const spc__seen *seen, int64_t rows, const float *in,
                       const float *weights, const float *bias, int threads,
                       const volatile int *cancel, spc_error *error)
{
    layer_sums p = {spc__panels_of(conv, LANES), out, magnitude, NULL};

    spc__panels_read(&p.panels, conv, seen, rows, in, weights, bias);
    p.panels.cancel = cancel;
    p.blocked =
        aligned_alloc(64, spc__panels_weights(&p.panels) * sizeof(double));
    if (p.blocked != NULL)
        spc__parallel_for(p.panels.offsets, threads, block_weights, &p);
    spc__parallel_for((rows + TILE - 1) / TILE, threads, run_tile, &p);
    free(p.blocked);
    return spc__cancelled(cancel) ? spc__interrupted(error) : SPC_OK;
}

void spc_oracle_sums(double *out, double *magnitude, const spc_conv *conv,
                     const int32_t *index, int64_t rows, const float *in,
                     const float *weights, const float *bias, int threads)
{
    spc__seen seen = {index, NULL,
                      conv ? spc_geometry_offset_count(&conv->geometry) : 0};

    if (out && index && in && weights && rows > 0 &&
        spc_conv_check(conv, NULL) == SPC_OK)
        spc__oracle(out, magnitude, conv, &seen, rows, in, weights, bias,
                    threads, NULL, NULL);
}
