/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset_full.c - numbers of all bits and of many magnitudes, one product an
 * output.
 *
 * A sum of many products is exact only if its terms are alike, as integers are.
 * A sum of one product has a known result for any numbers. So an output channel
 * has weights at one offset, and an input row has one nonzero element in each
 * group of channels. The operands have all bits that their type multiplies, and
 * exponents over the whole promised range: a kernel that rounds or clamps them,
 * takes small ones for zero, or only works for small integers, gives other
 * results. Numbers cycle through four quarters: near one, anywhere, at the
 * upper end, at the lower end. So every pair of quarters meets, and the outputs
 * hold most products.
 *
 * f16    from the least nonzero number, 2^-24, to the largest, for both
 * factors.
 *        Products have 22 bits and lie above 2^-48: exact in fp32. Products too
 *        large for fp16 become infinite.
 * bf16,  2^-44 to 2^44: products are far from the ends of fp32's range. Three
 * tf32,  tf32 products for one of f32 keep terms of 2^-22 relative size
 * f32    above 2^-126.
 *
 * f32 by three tf32 products is not exact: factors lose up to 2^-22 each, the
 * omitted product is 2^-22, and up to 2^-23 of the sum of the three is cut off
 * twice. Six times 2^-22 is allowed, 30 times less than the possible cost of
 * rounding one factor to 16 bits.
 *
 * Some channels have no weights. They have only a bias, or only a residual, of
 * all bits; others have neither. A nonlinear activation keeps all numbers near
 * one, as it has a range of its own.
 *
 * If sums may be in fp16, products stay below 2^15, so that none is infinite in
 * some kernels only, and lose their lower bits: 2^-10 of them, if cut off, is
 * allowed, or the spacing of the least numbers, 2^-24. Results too large for
 * fp16 are not compared.
 *
 * Gradients of weights sum over rows: for each output channel, one row has a
 * nonzero gradient.
 *
 * I8: see dataset.c. Sums are as large as possible.
 */
#include "lab/sample/dataset_full.h"

#include "base/dtype.h"
#include "lab/oracle/finish.h"
#include "operators/conv.h"
#include "operators/epilogue.h"
#include <math.h>
#include <string.h>

bool spc__full_is_for(const spc_conv *conv)
{
    if (spc__conv_in_is_whole(conv))
        return conv->pass != SPC_WGRAD;
    /* An output of a layer of points may see several inputs at one offset. */
    return !spc__conv_out_is_whole(conv) && !spc__conv_has_triplets(conv);
}

/* ---- whole numbers ------------------------------------------------------- */

/* Depends on the input channel only: inputs and weights agree on it. */
static float sign_of_channel(int channel)
{
    return (uint32_t)channel * 0x9e3779b1u >> 31 ? -1 : 1;
}

static float sign_of(spc__random *random)
{
    return spc__random_u64(random) >> 63 ? -1 : 1;
}

/* Draws i8 near the limits, but such that no sum overflows 32 bits. All numbers
 * have the channel's sign, so that products do not cancel. */
static float draw_whole(const spc_conv *conv, int channel, spc__random *random)
{
    double products =
        (double)spc__conv_offsets(conv) * spc__conv_group_in(conv);
    if (spc__conv_has_triplets(conv))
        products = (double)SPC__POINTS_SEEN * spc__conv_group_in(conv);
    float most = (float)fmin(127, floor(sqrt(0x1p31 / products)) - 1);
    float sign = sign_of_channel(channel);
    uint32_t less = spc__random_below(random, 8);

    return most == 127 && less == 0 && sign < 0 ? -128
                                                : sign * (most - (float)less);
}

static float draw_whole_weight(const spc_conv *conv, int co, int channel,
                               spc__random *random)
{
    float sign = co % 3 == 0 ? 1 : co % 3 == 1 ? -1 : sign_of(random);
    float value = sign * draw_whole(conv, channel, random);

    return value > 127 ? 127 : value;
}

/* ---- numbers of all bits ------------------------------------------------- */

/* A range of exponents; each end has `few` + 1 of them. */
typedef struct span {
    int low, high, few;
} span;

typedef struct spans {
    span in, weights, results;
} spans;

static bool is_line(const spc_conv *conv)
{
    return conv->activation <= SPC_ACT_RELU ||
           conv->activation == SPC_ACT_LEAKY;
}

/* True if products are exact, so that one close to overflow is known. */
static bool is_exact(const spc_conv *conv)
{
    return spc__dtype_of(conv->dtype)->factor_bits < 24 &&
           conv->accumulator == SPC_ACCUMULATOR_DEFAULT &&
           spc__epilogue_is_exact(conv);
}

/* The exponents of inputs, weights and results that the layer's types can
 * hold. */
static spans spans_of(const spc_conv *conv)
{
    bool to_half = spc__conv_out(conv) == SPC_F16;
    spans s = {{-44, 44, 3}, {-44, 44, 3}, {-44, 44, 3}};

    if (!is_line(conv))
        return (spans){{-3, 2, 3}, {-3, 1, 3}, {-3, 2, 3}};
    if (conv->dtype == SPC_F16)
        s.in = s.weights = (span){-24, 15, 3};
    if (to_half)
        s.results = (span){-24, 13, 3};
    if (to_half && !is_exact(conv)) {
        s.in.high = 13;
        s.weights.high = 0;
    }
    if (conv->accumulator == SPC_ACCUMULATOR_F16) {
        s.in = (span){-24, 15, 0};
        s.weights = (span){-24, -2, 0};
    }
    return s;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* A quarter each: near one, anywhere, the largest, the smallest. */
static span quarter_of(span all, int64_t index)
{
    switch (index % 4) {
    case 0:
        return (span){-4, least(3, all.high), all.few};
    case 1:
        return all;
    case 2:
        return (span){all.high - all.few, all.high, all.few};
    default:
        return (span){all.low, least(all.low + all.few, all.high), all.few};
    }
}

/* Draws from the quarter of index `index`. */
static float draw_number(span exponents, int64_t index, int bits,
                         spc__random *random)
{
    span of = quarter_of(exponents, index);
    uint32_t half = 1u << (bits - 1); /* the least number with this many bits */
    float sign = sign_of(random);
    float significand = (float)(half + spc__random_below(random, half));
    int e = of.low +
            (int)spc__random_below(random, (uint32_t)(of.high - of.low + 1));

    return sign * ldexpf(significand, e - (bits - 1));
}

static int factor_bits(const spc_conv *conv)
{
    return spc__dtype_of(conv->dtype)->factor_bits;
}

/* One channel of each group is nonzero. */
static void draw_row(float *out, const spc_conv *conv, span exponents,
                     int64_t row, spc__random *random)
{
    int in = spc__conv_group_in(conv);

    for (int c = 0; c < conv->cin; c++)
        out[c] = 0;
    for (int first = 0; first < conv->cin; first += in)
        out[first + (int)spc__random_below(random, (uint32_t)in)] =
            draw_number(exponents, row, factor_bits(conv), random);
}

static bool is_bias_alone(const spc_conv *conv, int co)
{
    return conv->bias && co % 8 == 3;
}

static bool is_residual_alone(const spc_conv *conv, int co)
{
    return conv->add != SPC_ADD_NONE && co % 8 == 6;
}

/*
 * The offset of a channel alternates: the one in the middle, which most rows
 * see, then any.
 */
static void draw_channel(float *out, const spc_conv *conv, int co,
                         spc__random *random)
{
    int offsets = spc__conv_offsets(conv), in = spc__conv_group_in(conv);
    int any = (int)spc__random_below(random, (uint32_t)offsets);
    int offset = co % 2 == 0 ? offsets / 2 : any;
    bool has_none = is_bias_alone(conv, co) || is_residual_alone(conv, co);

    for (int k = 0; k < offsets; k++)
        for (int ci = 0; ci < in; ci++)
            *out++ = k != offset || has_none
                         ? 0
                         : draw_number(spans_of(conv).weights, co / 2 + ci,
                                       factor_bits(conv), random);
}

/* ---- whole arrays -------------------------------------------------------- */

void spc__full_in(float *out, const spc_conv *conv, int64_t rows,
                  spc__random *random)
{
    if (!spc__conv_in_is_whole(conv)) {
        for (int64_t row = 0; row < rows; row++)
            draw_row(out + row * conv->cin, conv, spans_of(conv).in, row,
                     random);
        return;
    }
    for (int64_t i = 0; i < rows * conv->cin; i++)
        out[i] = draw_whole(conv, (int)(i % conv->cin), random);
}

void spc__full_weights(float *out, const spc_conv *conv, spc__random *random)
{
    int64_t offsets = spc__conv_offsets(conv);
    int in = spc__conv_group_in(conv), out_of = spc__conv_group_out(conv);

    for (int co = 0; co < conv->cout; co++, out += offsets * in) {
        if (!spc__conv_in_is_whole(conv)) {
            draw_channel(out, conv, co, random);
            continue;
        }
        for (int64_t i = 0; i < offsets * in; i++)
            out[i] = draw_whole_weight(
                conv, co, co / out_of * in + (int)(i % in), random);
    }
}

/*
 * Few channels have a bias, and all scenes have the same one, so its lower bits
 * alternate: rounding it to any fewer bits loses at least a third of the last
 * one. With random bits, one draw in ten would lose less than the tolerance.
 */
static float alternate(float number)
{
    uint32_t bits;

    memcpy(&bits, &number, sizeof(bits));
    bits = (bits & ~0xfffu) | (bits & 0x1000 ? 0x555 : 0xaaa);
    memcpy(&number, &bits, sizeof(bits));
    return number;
}

void spc__full_bias(float *out, const spc_conv *conv, spc__random *random)
{
    for (int co = 0; co < conv->cout; co++)
        out[co] = is_bias_alone(conv, co)
                      ? alternate(draw_number(spans_of(conv).results, co / 8,
                                              24, random))
                      : 0;
}

void spc__full_residual(float *out, const spc_conv *conv, int64_t rows,
                        spc__random *random)
{
    int bits = spc__dtype_of(spc__conv_out(conv))->stored_bits;

    for (int64_t i = 0; i < rows * conv->cout; i++)
        out[i] = is_residual_alone(conv, (int)(i % conv->cout))
                     ? draw_number(spans_of(conv).results, i / conv->cout, bits,
                                   random)
                     : 0;
}

void spc__full_pair(float *x, float *dy, const spc_conv *conv, int64_t rows_in,
                    int64_t rows_out, spc__random *random)
{
    spans s = spans_of(conv);
    int bits = factor_bits(conv);

    for (int64_t i = 0; i < rows_in * conv->cin; i++)
        x[i] = draw_number(s.in, i / conv->cin, bits, random);
    for (int64_t i = 0; i < rows_out * conv->cout; i++)
        dy[i] = 0;
    for (int co = 0; co < conv->cout && rows_out > 0; co++) {
        int64_t row = spc__random_below(random, (uint32_t)rows_out);
        dy[row * conv->cout + co] = draw_number(s.weights, co, bits, random);
    }
}

/* ---- expected results ---------------------------------------------------- */

double spc__full_error(const spc_conv *conv, double sum)
{
    if (conv->accumulator == SPC_ACCUMULATOR_F16)
        return 0x1p-10 * fabs(sum) + 0x1p-24;
    return factor_bits(conv) == 24 ? 6 * 0x1p-22 * fabs(sum) : 0;
}
