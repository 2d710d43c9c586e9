/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset.c - test data that makes faulty arithmetic visible.
 *
 * A draw of integers (times a power of two) is summed without any rounding as
 * long as every partial sum stays below 2^24 units, the least integer that fp32
 * cannot increase by one. Tensor cores cut off bits that are 24 below the
 * largest term, so the bound here is 2^23. Then there is one correct result for
 * any order of the sum, and the comparison needs no tolerance: fp16 results are
 * that sum rounded once. No product is zero, except where COUNT tests that
 * zeros are handled.
 *
 * COUNT   Integers of magnitude 1 to 3, or 1 if there are many: the sum fits
 *         the 11 bits of fp16 as well. A product that is lost or added twice
 *         always changes it by at least one unit. One weight in 32 is zero, one
 *         bias in three, and in some scenes of sizes many inputs.
 * WIDE    Odd integers of all the bits that the type must multiply exactly.
 *         fp16 and tf32: 11 bits, of which bf16 keeps 8 (bf16 itself: those);
 *         sums are far beyond the 11 bits that an fp16 accumulator keeps. fp32:
 *         13 bits, of which tf32 keeps 11. Each wide value meets narrow ones (1
 *         and 3) only: then a sum of three tf32 products, which drops the
 *         product of the two low halves, is exact too, since the narrow value's
 *         low half is zero, and 13 bits split into two halves of 11 without
 *         loss. Inputs are wide in some channels and weights in others, so that
 *         rounding either shows. Rounding any odd wide value gives an odd
 *         error: for an odd number of them times odd narrow values the sum of
 *         errors is odd, so not zero. fp32 data is scaled by 2^-30, which fp16
 *         flushes to zero.
 *
 * An epilogue keeps all that: scales are 1 and 1/2 of either sign, or 0, so
 * that sums stay whole halves of a unit; a bias and a residual are whole
 * numbers of units. In bf16 even COUNT's results are rounded if there are many
 * products: a lost product then shows in the results that are small.
 *
 * If sums may be in fp16 (accumulator=f16), its 11 bits limit all values: the
 * partial sums of COUNT fit them, and WIDE has the widest values that they
 * allow, if necessary only ones. If even 25000 ones exceed them, all further
 * weights are zero. REAL has 16 products an output, spread over all offsets and
 * channels: with many, the bound would be wider than the effect of a lost
 * product.
 *
 * Whole numbers (i8) are drawn as they are; COUNT and WIDE give results, and
 * REAL all of the type; for WIDE -127 is replaced by -128, the end of the type.
 * Scales are powers of two, which keeps the properties above: in_scale is the
 * unit. out_scale is such that 1.5 to 3 deviations of the sum of a third of all
 * products reach the ends of i8: some results saturate. With scales of 1/2 many
 * results lie halfway between two whole numbers.
 *
 * FULL    For f16 and the like: numbers of all bits and of many magnitudes, one
 *         product an output (dataset_full.c). For i8: magnitudes of 120 to 127,
 *         and -128, with signs by which all products of an output channel in
 *         three are positive, in three negative: where all offsets are seen,
 *         sums are nearly 2^14 for each product, which an accumulator of less
 *         than 32 bits does not hold, or one of fp32. The oracle adds in
 *         double; int32 holds fewer than 2^17 products, and for more products
 *         the magnitudes are smaller.
 *
 * With random signs the bound on sums is not certain, but nearly so. A sum of n
 * terms with random signs and mean square m exceeds t with probability at most
 * 2 exp(-t^2 / (2 n m)) (Hoeffding), and so does any fixed part of it. At t =
 * 9.2 sqrt(n m) that is 8e-19: for 1e7 results of 1e4 partial sums each, one
 * draw in 1e7 may round.
 */
#include "lab/sample/dataset.h"

#include "base/dtype.h"
#include "context/ctx.h"
#include "lab/sample/dataset_full.h"
#include "operators/epilogue.h"
#include <math.h>

static const double sure = 9.2, sums_below = 0x1p23;
/*
 * Where sums must fit fp16, COUNT bounds the results only: one in 1e9 exceeds
 * 6.5 deviations. Such a result is rounded, as in WIDE.
 */
static const double likely = 6.5, halves_below = 2048;

/* The units that both fp16 and the type of the results can represent. */
static double results_below(const spc_conv *conv)
{
    int bits = spc__dtype_of(spc__conv_out(conv))->stored_bits;

    return fmin(halves_below, ldexp(1, bits));
}

/* ---- single values ------------------------------------------------------- */

static float sign_of(spc__random *random)
{
    return spc__random_u64(random) >> 63 ? -1 : 1;
}

/* Returns 1 to `most`, with a random sign. */
static float draw_small(int most, spc__random *random)
{
    float sign = sign_of(random);

    return sign * (float)(1 + spc__random_below(random, (uint32_t)most));
}

/* Returns 1 or 3, with a random sign. */
static float draw_narrow(spc__random *random)
{
    float sign = sign_of(random);

    return sign * (float)(1 + 2 * spc__random_below(random, 2));
}

/* Returns an odd number of exactly `bits` bits. */
static float draw_wide(int bits, spc__random *random)
{
    float sign = sign_of(random);
    uint32_t inner = spc__random_below(random, 1u << (bits - 2));

    return sign * (float)((1u << (bits - 1)) + 2 * inner + 1);
}

static float draw_real(spc__random *random)
{
    return (float)(2 * spc__random_unit(random) - 1);
}

/* ---- ranges of a layer --------------------------------------------------- */

typedef struct style {
    int most; /* COUNT: the largest integer */
    int bits; /* WIDE: bits of wide values */
    /* WIDE: channels 0 and 1 of each period have wide inputs and wide
     * weights */
    int period;
    bool whole;        /* WIDE: the lowest number of i8 is the even one */
    bool ones;         /* WIDE: no wide values; narrow ones are 1 */
    int of;            /* COUNT and WIDE: one weight in `of` is not zero */
    float in, weights; /* units of inputs and weights */
} style;

static double longest_sum(const spc_conv *conv)
{
    int seen = spc__conv_has_triplets(conv) ? SPC__POINTS_SEEN
                                            : spc__conv_offsets(conv);

    return (double)seen * spc__conv_group_in(conv);
}

static bool sums_in_half(const spc_conv *conv)
{
    return conv->accumulator == SPC_ACCUMULATOR_F16;
}

/*
 * Finds the least period with which sums stay below `below`, if there is one.
 * Wide values are uniform in [2^(bits - 1), 2^bits), so their mean square is
 * 7/3 of the square of the least; narrow ones have mean square 5.
 */
static bool find_period(int *period, const spc_conv *conv, int bits,
                        double below)
{
    double n = longest_sum(conv), wide = ldexp(1, 2 * bits - 2) * 7 / 3;
    bool fits;

    *period = 2;
    while (
        !(fits = sure * sqrt(n * 2 / *period * wide * 5 + n * 25) <= below) &&
        *period < conv->cin)
        *period *= 2;
    return fits;
}

/* For sums of 11 bits: the widest values that fit. */
static void narrow_style(style *s, const spc_conv *conv)
{
    enum { ONES = 25000 }; /* makes sure * sqrt(ONES) 1455 */

    while (s->bits > 2 && !find_period(&s->period, conv, s->bits, halves_below))
        s->bits--;
    s->ones = !find_period(&s->period, conv, s->bits, halves_below);
    s->of = (int)ceil(longest_sum(conv) / ONES);
}

/* Chooses the range of numbers such that every sum of the layer is exact. */
static style style_of(const spc_conv *conv, spc__dataset dataset)
{
    const spc__dtype *type = spc__dtype_of(conv->dtype);
    double sigmas = sums_in_half(conv) ? sure : likely;
    /* The products of integers up to 3 have mean square (14 / 3)^2. */
    bool fits_larger =
        sigmas * sqrt(longest_sum(conv)) * 14 / 3 <= results_below(conv);
    style s = {.most = fits_larger ? 3 : 1, .of = 1, .in = 1, .weights = 1};

    s.bits = type->factor_bits < 24 ? type->factor_bits : 13;
    if (sums_in_half(conv))
        narrow_style(&s, conv);
    else
        find_period(&s.period, conv, s.bits, sums_below);
    s.whole = spc__conv_in_is_whole(conv);
    if (s.whole)
        s.in = s.weights = dataset == SPC__REAL ? 127 : 1;
    else if (dataset == SPC__WIDE && type->bytes == 2)
        s.in = s.weights = 0x1p-4f; /* fp16 holds 2^23 units */
    else if (dataset == SPC__WIDE)
        s.in = 0x1p-30f;
    return s;
}

bool spc__dataset_is_for(const spc_conv *conv, spc__dataset dataset)
{
    return dataset != SPC__FULL || spc__full_is_for(conv);
}

/* ---- scales of whole numbers --------------------------------------------- */

/* Returns the mean square of a product of a data set, in units. */
static double mean_square(const style *s, spc__dataset dataset)
{
    double wide = ldexp(1, 2 * s->bits - 2) * 7 / 3,
           small = (s->most + 1) / 2.0;

    if (dataset == SPC__REAL)
        return 1.0 / 9;
    if (dataset == SPC__COUNT)
        return small * small * small * small;
    return s->ones ? 1 : 2.0 / s->period * wide * 5 + 25;
}

static double power_of_two_from(double value)
{
    return exp2(ceil(log2(value)));
}

/* Returns the unit of sums and of the bias. */
static float unit_of(const spc_conv *conv, const style *s,
                     const spc_scales *scales)
{
    float unit = s->in * s->weights;

    return spc__conv_in_is_whole(conv) ? unit * scales->in : unit;
}

/* Assumes that rows see about a third of the offsets. */
void spc__draw_scales(spc_scales *out, const spc_conv *conv,
                      spc__dataset dataset)
{
    style s = style_of(conv, dataset);
    double deviation, reach = 127 / 1.5;

    *out = (spc_scales){1, 1, 1};
    if (dataset == SPC__FULL && !spc__conv_in_is_whole(conv))
        return;
    if (spc__conv_in_is_whole(conv)) /* fp16 holds the sums of WIDE */
        out->in = dataset == SPC__REAL ? 1.0f / (127 * 127) : 0x1p-8f;
    if (dataset == SPC__FULL) /* results are at most 2^14, quantised 2^6 */
        *out = (spc_scales){
            .in = (float)(1 / power_of_two_from(longest_sum(conv))),
            .out = 0x1p8f,
            .residual = 0x1p8f};
    if (!spc__conv_out_is_whole(conv) || dataset == SPC__FULL)
        return;
    deviation = sqrt(longest_sum(conv) / 3 * mean_square(&s, dataset)) *
                (double)unit_of(conv, &s, out);
    if (dataset == SPC__REAL) {
        out->out = (float)(deviation / reach);
        out->residual = 0.7f * out->out;
        return;
    }
    out->out = (float)fmax(power_of_two_from(deviation / reach),
                           (double)unit_of(conv, &s, out));
    out->residual = out->out;
}

/* ---- whole arrays -------------------------------------------------------- */

/* Channel `wide_at` of each period is wide. */
static float draw_one(const style *s, spc__dataset dataset, int channel,
                      int wide_at, spc__random *random)
{
    if (dataset == SPC__REAL)
        return draw_real(random);
    /* the bias of an i8 layer */
    if (dataset == SPC__COUNT || dataset == SPC__FULL)
        return draw_small(s->most, random);
    if (s->ones)
        return sign_of(random);
    if (channel % s->period != wide_at)
        return draw_narrow(random);
    float wide = draw_wide(s->bits, random);
    return s->whole && wide == -127 ? -128 : wide;
}

/* Rounds to what the type can hold. */
static void settle(float *values, size_t n, spc_dtype dtype)
{
    const spc__dtype *type = spc__dtype_of(dtype);
    unsigned char stored[sizeof(float)];

    for (size_t i = 0; i < n && type->stored_bits < 24; i++) {
        type->encode(stored, &values[i], 1);
        type->decode(&values[i], stored, 1);
    }
}

void spc__draw_in(float *out, const spc_conv *conv, spc__dataset dataset,
                  int64_t rows, spc__random *random)
{
    style s = style_of(conv, dataset);

    if (dataset == SPC__FULL)
        spc__full_in(out, conv, rows, random);
    else
        for (int64_t i = 0; i < rows * conv->cin; i++)
            out[i] =
                s.in * draw_one(&s, dataset, (int)(i % conv->cin), 0, random);
    settle(out, (size_t)(rows * conv->cin), conv->dtype);
}

/*
 * Makes one value in `of` zero, with a random sign; or all but one. Uses a copy
 * of the generator, so that later numbers do not depend on this function.
 */
static void draw_zeros(float *values, int64_t n, uint32_t of, bool but_one,
                       const spc__random *random)
{
    spc__random own = *random;

    for (int64_t i = 0; i < n; i++) {
        bool is_one = spc__random_below(&own, of) == 0;
        float zero = copysignf(0, sign_of(&own));
        if (is_one != but_one)
            values[i] = zero;
    }
}

void spc__draw_thinned(float *values, const spc_conv *conv, int64_t rows,
                       int columns, bool few, const spc__random *random)
{
    enum { FEW = 8, ROWS = 7 };
    uint32_t of = few ? (uint32_t)fmax(3, longest_sum(conv) / FEW) : 3;

    draw_zeros(values, rows * columns, of, few, random);
    for (int64_t row = 3; row < rows; row += ROWS)
        for (int c = 0; c < columns; c++)
            values[row * columns + c] = 0;
}

/*
 * Makes all but `keep` of a channel's weights zero: one stays in each of `keep`
 * parts.
 */
static void keep_few(float *values, int64_t n, int keep, spc__random *random)
{
    for (int64_t part = 0; part < keep && n > keep; part++) {
        int64_t first = part * n / keep, end = (part + 1) * n / keep;
        int64_t kept =
            first + spc__random_below(random, (uint32_t)(end - first));
        for (int64_t i = first; i < end; i++)
            values[i] = i == kept ? values[i] : 0;
    }
}

/* Makes those weights zero that would overflow sums of 11 bits. */
static void thin_weights(float *out, const spc_conv *conv, spc__dataset dataset,
                         const style *s, spc__random *random)
{
    enum { REAL_PRODUCTS = 16 };
    int64_t each = (int64_t)spc__conv_offsets(conv) * spc__conv_group_in(conv);

    if (!sums_in_half(conv) || dataset == SPC__FULL)
        return;
    for (int64_t co = 0; co < conv->cout && dataset == SPC__REAL; co++)
        keep_few(out + co * each, each, REAL_PRODUCTS, random);
    if (dataset != SPC__REAL && s->of > 1)
        draw_zeros(out, conv->cout * each, (uint32_t)s->of, true, random);
}

/*
 * Draws weights by the input channel that they meet. Each group's channels
 * follow those of the group before, so that wide meets narrow in groups of any
 * size.
 */
void spc__draw_weights(float *out, const spc_conv *conv, spc__dataset dataset,
                       spc__random *random)
{
    int64_t offsets = spc__conv_offsets(conv);
    int in = spc__conv_group_in(conv), out_of = spc__conv_group_out(conv);
    int64_t n = conv->cout * offsets * in;
    float *at = out;
    style s = style_of(conv, dataset);

    if (dataset == SPC__FULL)
        spc__full_weights(out, conv, random);
    else
        for (int co = 0; co < conv->cout; co++)
            for (int64_t i = 0; i < offsets * in; i++) {
                int channel = co / out_of * in + (int)(i % in);
                *at++ = s.weights * draw_one(&s, dataset, channel, 1, random);
            }
    if (dataset == SPC__COUNT)
        draw_zeros(out, n, 32, false, random);
    thin_weights(out, conv, dataset, &s, random);
    settle(out, (size_t)n, conv->dtype);
}

void spc__layer_weights(float *out, const float *weights, const spc_conv *conv)
{
    int64_t offsets = spc__conv_offsets(conv);
    int in = spc__conv_group_in(conv), out_of = spc__conv_group_out(conv);

    for (int co = 0; co < conv->cout; co++)
        for (int64_t k = 0; k < offsets; k++)
            for (int c = 0; c < in; c++) {
                int64_t from = co / out_of * in + c; /* the layer's output */
                int64_t of = conv->op == SPC_SUBM ? offsets - 1 - k : k;
                out[(from * offsets + of) * out_of + co % out_of] = *weights++;
            }
}

/* A bias is fp32, and added to the sum. */
void spc__draw_bias(float *out, const spc_conv *conv, spc__dataset dataset,
                    spc__random *random)
{
    style s = style_of(conv, dataset);
    spc_scales scales;
    spc__draw_scales(&scales, conv, dataset);
    float unit = unit_of(conv, &s, &scales);

    if (dataset == SPC__FULL && !spc__conv_in_is_whole(conv)) {
        spc__full_bias(out, conv, random);
        return;
    }
    for (int c = 0; c < conv->cout; c++)
        out[c] = unit * draw_one(&s, dataset, 0, 0, random);
    for (int c = 1; c < conv->cout && dataset == SPC__COUNT; c += 3)
        out[c] = 0;
}

/*
 * The range of powers of two of the real data's scales: as large as that of
 * folded norms, if results stay within their type.
 */
static int scale_powers(const spc_conv *conv)
{
    if (spc__conv_out_is_whole(conv))
        return 2;
    return spc__conv_out(conv) == SPC_F16 ? 6 : 10;
}

/* The scales that the first channels of the real data are sure to have. */
typedef enum end { LARGE, TINY, OTHER_END } end;

/*
 * One channel in eight is zero, except in draws of wide values, which find most
 * faults. Random powers alone would often leave few channels without a large
 * scale or a tiny one, so the first three channels of the real data have both,
 * in an order by seed: a large one; a tiny one of the other sign; and a large
 * one of the other sign, or zero where the channel that is zero is missing.
 * Two channels have the first two of these, and one has the first.
 */
void spc__draw_scale(float *out, const spc_conv *conv, spc__dataset dataset,
                     spc__random *random)
{
    enum { ZEROS_APART = 8, FIRST_ZERO = 3, ENDS = 3 };
    int powers = scale_powers(conv);
    int ends = conv->cout < ENDS ? conv->cout : ENDS;
    /* A copy, so that later numbers do not depend on the order. */
    spc__random own = *random;
    int first = (int)spc__random_below(&own, (uint32_t)ends);
    float sign_of_first = sign_of(&own);

    for (int c = 0; c < conv->cout; c++) {
        float sign = sign_of(random);
        float whole = spc__random_below(random, 2) ? 1 : 0.5f;
        float real = (float)(1 + spc__random_unit(random));
        int power =
            (int)spc__random_below(random, 2 * (uint32_t)powers + 1) - powers;
        end which = (end)((c - first + ends) % ends);
        bool is_zero = c % ZEROS_APART == FIRST_ZERO;
        if (dataset == SPC__REAL && c < ends) {
            sign = which == LARGE ? sign_of_first : -sign_of_first;
            power = which == TINY ? -powers : powers;
            is_zero = which == OTHER_END && conv->cout <= FIRST_ZERO;
        }
        out[c] = sign * (dataset == SPC__REAL ? ldexpf(real, power) : whole);
        if (is_zero && (dataset == SPC__REAL || dataset == SPC__COUNT))
            out[c] = 0;
    }
}

void spc__draw_residual(float *out, const spc_conv *conv, spc__dataset dataset,
                        int64_t rows, spc__random *random)
{
    style s = style_of(conv, dataset);
    spc_dtype type = spc__conv_out(conv);
    spc_scales scales;
    spc__draw_scales(&scales, conv, dataset);
    float unit = unit_of(conv, &s, &scales);

    if (spc__conv_out_is_whole(conv))
        unit = dataset == SPC__REAL ? 127 : 1;

    if (s.bits > spc__dtype_of(type)->stored_bits)
        s.bits = spc__dtype_of(type)->stored_bits;
    if (dataset == SPC__FULL && !spc__conv_in_is_whole(conv))
        spc__full_residual(out, conv, rows, random);
    else
        for (int64_t i = 0; i < rows * conv->cout; i++)
            out[i] = unit * draw_one(&s, dataset, 0, (int)(i % 2), random);
    settle(out, (size_t)(rows * conv->cout), type);
}

/* ---- the ends of a type -------------------------------------------------- */

/*
 * True if nothing is added to sums, and later steps have no range of their own.
 */
static bool scales_freely(const spc_conv *conv)
{
    return !conv->bias && conv->add == SPC_ADD_NONE &&
           (conv->activation <= SPC_ACT_RELU ||
            conv->activation == SPC_ACT_LEAKY);
}

static bool has_ends(const spc_conv *conv)
{
    return conv->pass != SPC_WGRAD && !spc__conv_in_is_whole(conv) &&
           !spc__conv_out_is_whole(conv);
}

/*
 * fp16 only: numbers below 2^-14 are kept, as inputs and as results, since
 * weights and activations of networks are that small, and every instruction
 * that reads or makes fp16 keeps them. Subnormals of the other types begin
 * below 2^-126, where no real data are, and a kernel may treat them as zero;
 * these types are tested with numbers that fp16 could not hold instead.
 */
int spc__draw_tiny(const spc_conv *conv)
{
    if (!has_ends(conv) || !scales_freely(conv))
        return 0;
    if (conv->dtype == SPC_F16)
        return -24;
    return spc__conv_out(conv) == SPC_F16 ? 0 : -60;
}

/*
 * fp16: results up to 60000, of 65504, so that a bias and a residual, which are
 * small whole numbers, may be added; inputs are at most three.
 */
int spc__draw_huge(const spc_conv *conv, double largest)
{
    bool half = conv->dtype == SPC_F16 || spc__conv_out(conv) == SPC_F16;

    if (!has_ends(conv))
        return 0;
    if (sums_in_half(conv)) /* partial sums must also be finite */
        largest = fmax(largest, halves_below);
    if (half)
        return (int)fmin(14, floor(log2(60000 / fmax(largest, 1))));
    return scales_freely(conv) ? 60 : 0;
}

/* ---- gradients of weights ------------------------------------------------ */

/*
 * Sums go over rows, so wide values meet narrow ones only if all of x, or all
 * of dy, is narrow; long sums leave fewer bits to the values.
 */
static style wgrad_style(const spc_conv *conv, spc__dataset dataset,
                         int64_t rows)
{
    style s = style_of(conv, dataset);
    double n = (double)rows + 1;
    bool fits_larger = likely * sqrt(n) * 14 / 3 <= results_below(conv);

    s.most = fits_larger ? 3 : 1;
    s.period = 2;
    while (s.bits > 3 &&
           sure * sqrt(n * 5 * ldexp(1, 2 * s.bits - 2) * 7 / 3) > sums_below)
        s.bits--;
    return s;
}

static void draw_side(float *out, const style *s, spc__dataset dataset,
                      float unit, int64_t rows, int columns, bool wide,
                      spc__random *random)
{
    for (int64_t i = 0; i < rows * columns; i++) {
        int channel = (int)(i % columns);
        out[i] = unit * draw_one(s, dataset, channel, wide ? 0 : -1, random);
    }
}

void spc__draw_pair(float *x, float *dy, const spc_conv *conv,
                    spc__dataset dataset, int64_t rows_in, int64_t rows_out,
                    int wide, spc__random *random)
{
    style s = wgrad_style(conv, dataset, rows_out);

    if (dataset == SPC__FULL)
        spc__full_pair(x, dy, conv, rows_in, rows_out, random);
    else {
        draw_side(x, &s, dataset, s.in, rows_in, conv->cin, wide == 0, random);
        draw_side(dy, &s, dataset, s.weights, rows_out, conv->cout, wide == 1,
                  random);
    }
    settle(x, (size_t)(rows_in * conv->cin), conv->dtype);
    settle(dy, (size_t)(rows_out * conv->cout), conv->dtype);
}

/* Small in units of the gradient; the last row is that of a bias. */
void spc__draw_gradient(float *out, const spc_conv *conv, spc__dataset dataset,
                        int64_t rows, spc__random *random)
{
    style s = style_of(conv, dataset);

    for (int64_t i = 0; i < rows * conv->cout; i++) {
        bool bias = conv->bias && i / conv->cout == rows - 1;
        float unit = bias ? s.weights : s.in * s.weights;
        out[i] = dataset == SPC__FULL
                     ? 0
                     : unit * (dataset == SPC__REAL ? draw_real(random)
                                                    : draw_small(3, random));
    }
    settle(out, (size_t)(rows * conv->cout), spc__conv_out(conv));
}
