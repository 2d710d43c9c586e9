/*
 * finish.c - epilogues in double precision, with bounds.
 *
 * Each step of an epilogue takes a number y that a kernel has as y + e, |e| <=
 * E, does its work on that in fp32, and leaves another such pair:
 *
 * scale, bias   |scale| E, and one rounding each, u = 2^-24 of what is rounded
 * activation    L E, where L bounds its slope, and what evaluating it costs
 * residual      E, and one rounding
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
#include "finish.h"

#include "dtype.h"
#include "epilogue.h"
#include <math.h>

static const double u = 0x1p-24, underflow = 0x1p-118;

/* ---- activations --------------------------------------------------------- */

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

/* What evaluating costs, at most, where the result is at most `size` and the
 * argument `y`. */
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

static spc__bounded added(spc__bounded y, double residual)
{
    double value = y.value + residual;

    return (spc__bounded){value, y.error + u * (fabs(value) + y.error)};
}

static bool is_power_of_two(float value)
{
    int exponent;

    return frexpf(value, &exponent) == 0.5f;
}

bool spc__epilogue_is_exact(const spc_conv *conv)
{
    return conv->activation <= SPC_ACT_RELU ||
           (conv->activation == SPC_ACT_LEAKY &&
            is_power_of_two(spc__conv_slope(conv)));
}

spc__bounded spc__finish(const spc_conv *conv, spc__bounded sum,
                         const spc__values *values, int channel, int64_t at)
{
    spc__bounded y = sum;

    if (conv->scale)
        y = scaled(y, values->scale[channel],
                   conv->bias ? values->bias[channel] : 0);
    if (conv->add == SPC_ADD_BEFORE)
        y = added(y, values->residual[at]);
    if (conv->activation != SPC_ACT_NONE)
        y = activated(conv, y);
    if (conv->add == SPC_ADD_AFTER)
        y = added(y, values->residual[at]);
    return y;
}

double spc__stored_error(const spc_conv *conv, spc__bounded number)
{
    const spc__dtype *type = spc__dtype_of(spc__conv_out(conv));

    if (type->stored_bits == 24)
        return number.error;
    return number.error +
           ldexp(fabs(number.value) + number.error, -type->stored_bits) +
           type->least_half;
}

/* What storing costs a number that is rounded to fp32 first, as the oracle's
 * exact results are. */
static double rounding(const spc_conv *conv, double value)
{
    const spc__dtype *type = spc__dtype_of(spc__conv_out(conv));
    double single = u * fabs(value) + 0x1p-150;

    if (type->stored_bits == 24)
        return single;
    return single + ldexp(fabs(value) + single, -type->stored_bits) +
           type->least_half;
}

/* A kernel's, and the oracle's, which is rounded like it. */
double spc__stored_slack(const spc_conv *conv, spc__bounded number)
{
    return spc__stored_error(conv, number) + rounding(conv, number.value);
}

/* ---- public -------------------------------------------------------------- */

void spc_oracle_epilogue(double *out, const spc_conv *conv, int64_t rows,
                         const float *scale, const float *bias,
                         const float *residual)
{
    spc__values values = {NULL, NULL, bias, scale, residual};

    if (out == NULL || conv == NULL || (conv->scale && scale == NULL) ||
        (conv->scale && conv->bias && bias == NULL) ||
        (conv->add != SPC_ADD_NONE && residual == NULL))
        return;
    for (int64_t i = 0; i < rows * conv->cout; i++)
        out[i] = spc__finish(conv, (spc__bounded){out[i], 0}, &values,
                             (int)(i % conv->cout), i)
                     .value;
}
