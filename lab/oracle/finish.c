/* SPDX-License-Identifier: Apache-2.0 */
/*
 * finish.c - epilogues in double precision, with bounds.
 *
 * Each step of an epilogue takes a number y that a kernel has as y + e, |e| <=
 * E, does its work on that in fp32, and leaves another such pair:
 *
 * scale, bias   |scale| E, and one rounding each, u = 2^-24 of what is rounded
 * activation    L E, where L bounds its slope, and what evaluating it costs
 * residual      E, and one rounding; of i8 another for the product with its
 *               scale
 *
 * A sum of whole numbers (i8) is exact; it and the product of the scales are
 * rounded before they are multiplied: u each. Outputs of i8 are y times 1 /
 * out_scale: u for the quotient and u for the product, in units of out_scale.
 * Saturating moves two numbers no further apart. Rounding to whole numbers may
 * then move by 1/2; two results with an error between them differ only where a
 * half lies between them.
 *
 * Evaluating costs nothing for relu, a rounding for leaky. The others take an
 * exponential or erf of a device's own, a sum and a quotient; the bounds are
 * those of the primitives (spc_device.cuh; CUDA C++ Programming Guide, table
 * "Single-Precision Mathematical Standard Library Functions"; test_epilogue
 * holds the host's to them):
 *
 *   exp, expm1    4 u of the result: both are within 2 units in the last place
 *   quotient      4 u of the result
 *   erf           8 u, absolutely
 *
 * So sigmoid is within (4 + 1 + 4) u of itself, silu and elu within one
 * rounding more: 16 u is allowed. gelu(y) = y / 2 * (1 + erf(y / sqrt(2))): the
 * argument's two roundings move erf by at most 2 u |t erf'(t)| < u, the factor
 * is off by less than 10 u, and the product is rounded twice: 8 u |y| and 2 u
 * of the result. Results that underflow lose up to 2^-118.
 */
#include "lab/oracle/finish.h"

#include "base/dtype.h"
#include "operators/epilogue.h"
#include <math.h>

static const double u = 0x1p-24, underflow = 0x1p-118;

/* ---- activations --------------------------------------------------------- */

/* Comparisons are `y < 0 ?`, so that NaN stays NaN. */
static double activate(const spc_conv *conv, double y)
{
    double slope = (double)spc__conv_slope(conv);

    switch (conv->activation) {
    case SPC_ACT_RELU:
        return y < 0 ? 0 : y;
    case SPC_ACT_LEAKY:
        return y < 0 ? slope * y : y;
    case SPC_ACT_SIGMOID:
        return 1 / (1 + exp(-y));
    case SPC_ACT_SILU:
        return y / (1 + exp(-y));
    case SPC_ACT_GELU:
        return y / 2 * erfc(-y * sqrt(0.5));
    case SPC_ACT_ELU:
        return y < 0 ? slope * expm1(y) : y;
    default:
        return y;
    }
}

/* The largest slope: that of silu is 1.0998, of gelu 1.1289. */
static double steepest(const spc_conv *conv)
{
    switch (conv->activation) {
    case SPC_ACT_SIGMOID:
        return 0.25;
    case SPC_ACT_SILU:
    case SPC_ACT_GELU:
        return 1.13;
    case SPC_ACT_LEAKY:
    case SPC_ACT_ELU:
        return fmax(1, (double)spc__conv_slope(conv));
    default:
        return 1;
    }
}

/* Bounds the error of evaluating `y`, where the result is at most `size`. */
static double evaluating(const spc_conv *conv, double y, double size)
{
    switch (conv->activation) {
    case SPC_ACT_LEAKY:
        return u * size;
    case SPC_ACT_SIGMOID:
    case SPC_ACT_SILU:
    case SPC_ACT_ELU:
        return 16 * u * size + underflow;
    case SPC_ACT_GELU:
        return 8 * u * y + 2 * u * size + underflow;
    default:
        return 0;
    }
}

/* ---- steps --------------------------------------------------------------- */

static spc__bounded scaled(spc__bounded y, double scale, double bias)
{
    double product = y.value * scale, value = product + bias;
    double error = fabs(scale) * y.error;

    error += u * (fabs(product) + fabs(value) + 2 * error) + underflow;
    return (spc__bounded){value, error};
}

static spc__bounded activated(const spc_conv *conv, spc__bounded y)
{
    double value = activate(conv, y.value);
    double error = steepest(conv) * y.error;

    error += evaluating(conv, fabs(y.value) + y.error, fabs(value) + error);
    return (spc__bounded){value, error};
}

/* The sum of whole numbers times two scales, which are multiplied first. */
static spc__bounded dequantised(spc__bounded sum, double scale, double in_scale,
                                double bias)
{
    double product = sum.value * scale * in_scale;
    spc__bounded y = scaled(sum, scale * in_scale, bias);

    return (spc__bounded){y.value, y.error + 2 * u * fabs(product)};
}

static spc__bounded added(spc__bounded y, double residual)
{
    double value = y.value + residual;

    return (spc__bounded){value, y.error + u * (fabs(value) + y.error)};
}

/* Adds the residual; one of whole numbers is scaled before. */
static spc__bounded added_of(const spc_conv *conv, spc__bounded y,
                             const spc__values *values, int64_t at)
{
    double residual = values->residual[at];

    if (!spc__conv_out_is_whole(conv))
        return added(y, residual);
    residual *= (double)values->scales.residual;
    y = added(y, residual);
    return (spc__bounded){y.value, y.error + u * fabs(residual)};
}

static spc__bounded quantised(spc__bounded y, double out_scale)
{
    double value = y.value / out_scale, error = y.error / out_scale;

    error += 2 * u * (fabs(value) + error);
    return (spc__bounded){fmin(fmax(value, -128), 127), error};
}

static bool is_power_of_two(float value)
{
    int exponent;

    return frexpf(value, &exponent) == 0.5f;
}

bool spc__epilogue_is_exact(const spc_conv *conv)
{
    /*
     * Products with the scales of the data sets are exact, as these are powers
     * of two.
     */
    return conv->activation <= SPC_ACT_RELU ||
           (conv->activation == SPC_ACT_LEAKY &&
            is_power_of_two(spc__conv_slope(conv)));
}

spc__bounded spc__finish(const spc_conv *conv, spc__bounded sum,
                         const spc__values *values, int channel, int64_t at)
{
    double scale = conv->scale ? values->scale[channel] : 1;
    double bias = conv->bias && !spc__bias_is_in_sum(conv)
                      ? (double)values->bias[channel]
                      : 0;
    spc__bounded y = sum;

    if (spc__conv_in_is_whole(conv))
        y = dequantised(y, scale, values->scales.in, bias);
    else if (conv->scale)
        y = scaled(y, scale, bias);
    if (conv->add == SPC_ADD_BEFORE)
        y = added_of(conv, y, values, at);
    if (conv->activation != SPC_ACT_NONE)
        y = activated(conv, y);
    if (conv->add == SPC_ADD_AFTER)
        y = added_of(conv, y, values, at);
    return spc__conv_out_is_whole(conv) ? quantised(y, values->scales.out) : y;
}

double spc__stored_error(const spc_conv *conv, spc__bounded number)
{
    const spc__dtype *type = spc__dtype_of(spc__conv_out(conv));

    if (type->stored_bits == 24)
        return number.error;
    if (spc__conv_out_is_whole(conv)) /* tolerances are stored as floats */
        return number.error + type->least_half + 0x1p-22;
    return number.error +
           ldexp(fabs(number.value) + number.error, -type->stored_bits) +
           type->least_half;
}

/*
 * The error of storing a number that is first rounded to fp32, as the oracle's
 * exact results are.
 */
static double rounding(const spc_conv *conv, double value)
{
    const spc__dtype *type = spc__dtype_of(spc__conv_out(conv));
    double single = u * fabs(value) + 0x1p-150;

    if (type->stored_bits == 24)
        return single;
    return single + ldexp(fabs(value) + single, -type->stored_bits) +
           type->least_half;
}

/* For whole numbers, rounds the ends of the bound. */
double spc__stored_slack(const spc_conv *conv, spc__bounded number)
{
    double value = number.value, error = number.error;

    if (!spc__conv_out_is_whole(conv)) /* there are two results, each rounded */
        return spc__stored_error(conv, number) + rounding(conv, value);
    double here = spc__i8_from_float((float)value);
    double low = spc__i8_from_float((float)(value - error));
    double high = spc__i8_from_float((float)(value + error));
    return fmax(high - here, here - low);
}

/* ---- public -------------------------------------------------------------- */

static bool is_complete(const spc_conv *conv, const spc__values *values)
{
    bool has_bias = conv->bias && !spc__bias_is_in_sum(conv);

    return !(conv->scale && values->scale == NULL) &&
           !(has_bias && values->bias == NULL) &&
           !(conv->add != SPC_ADD_NONE && values->residual == NULL);
}

/* Applies the epilogue to sums, without bounds. */
static void finish_all(double *out, const spc_conv *conv, int64_t rows,
                       const spc__values *values)
{
    if (out == NULL || rows <= 0 || spc_conv_check(conv, NULL) != SPC_OK ||
        !is_complete(conv, values))
        return;
    for (int64_t i = 0; i < rows * conv->cout; i++) {
        double y = spc__finish(conv, (spc__bounded){out[i], 0}, values,
                               (int)(i % conv->cout), i)
                       .value;
        /* nearbyint rounds ties to even in the default rounding mode. */
        out[i] = spc__conv_out_is_whole(conv) ? nearbyint(y) : y;
    }
}

void spc_oracle_epilogue(double *out, const spc_conv *conv, int64_t rows,
                         const float *scale, const float *bias,
                         const float *residual)
{
    spc__values values = {NULL, NULL, bias, scale, residual, {1, 1, 1}};

    finish_all(out, conv, rows, &values);
}

void spc_oracle_quantised(double *out, const spc_conv *conv, int64_t rows,
                          const spc_scales *scales, const float *scale,
                          const float *bias, const float *residual)
{
    if (scales == NULL)
        return;
    spc__values values = {NULL, NULL, bias, scale, residual, *scales};

    finish_all(out, conv, rows, &values);
}
