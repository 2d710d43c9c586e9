/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dtype.c - the table of number formats. The short formats are converted by
 * integer arithmetic on the bits of a float, so that neither compiler flags nor
 * the rounding mode matter.
 */
#include "base/dtype.h"

#include "base/error.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* ---- binary16 ------------------------------------------------------------ */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Returns value >> shift, rounded to nearest, ties to even. 1 <= shift <=
 * 31. */
static uint32_t shift_even(uint32_t value, int shift)
{
    uint32_t half = 1u << (shift - 1);
    uint32_t odd = (value >> shift) & 1;
    /* A tie gets exactly `half` if the quotient is odd, and one less if it is
     * even, so only odd quotients are rounded up. */
    return (value + half - 1 + odd) >> shift;
}

/*
 * The rounded magnitude may carry into the exponent. This is correct up to
 * infinity, because exponent and fraction are adjacent.
 */
uint16_t spc__half_from_float(float value)
{
    uint32_t bits = bits_of(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7fffffff;

    if (magnitude > 0x7f800000) /* nan: keep its top bits, make it quiet */
        return sign | 0x7e00 | (uint16_t)(magnitude >> 13 & 0x1ff);
    if (magnitude >= 0x47800000) /* 65536 and more, infinity */
        return sign | 0x7c00;
    if (magnitude >= 0x38800000) /* normal in binary16: rebias by 112 */
        return sign | (uint16_t)shift_even(magnitude - (112u << 23), 13);

    /* Denormal: the fraction counts units of 2^-24. Below 2^-25 it is zero. */
    int exponent = (int)(magnitude >> 23);
    if (exponent < 102)
        return sign;
    uint32_t fraction = (magnitude & 0x7fffff) | 0x800000;
    return sign | (uint16_t)shift_even(fraction, 126 - exponent);
}

float spc__half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1f;
    uint32_t fraction = half & 0x3ff;

    if (exponent == 0x1f)
        return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent != 0)
        return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = (float)fraction * 0x1p-24f; /* exact */
    return sign ? -magnitude : magnitude;
}

/* ---- bfloat16 ------------------------------------------------------------ */

uint16_t spc__bfloat_from_float(float value)
{
    uint32_t bits = bits_of(value);

    if ((bits & 0x7fffffff) > 0x7f800000) /* nan: keep its top bits, quiet */
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)shift_even(bits, 16);
}

float spc__bfloat_to_float(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

/* ---- int8 ---------------------------------------------------------------- */

int8_t spc__i8_from_float(float value)
{
    uint32_t magnitude = bits_of(value) & 0x7fffffff;
    int most = value < 0 ? 128 : 127, exponent = (int)(magnitude >> 23) - 127;

    if (magnitude > 0x7f800000 || exponent < -1) /* nan, or below 1/2 */
        return 0;
    int whole = most;
    /* From 128 on the value is clipped: a large exponent would make the shift
     * negative. */
    if (exponent < 7)
        whole =
            (int)shift_even((magnitude & 0x7fffff) | 0x800000, 23 - exponent);
    if (whole > most)
        whole = most;
    return (int8_t)(value < 0 ? -whole : whole);
}

/* ---- the table ----------------------------------------------------------- */

static void encode_f16(void *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)to)[i] = spc__half_from_float(from[i]);
}

static void decode_f16(float *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = spc__half_to_float(((const uint16_t *)from)[i]);
}

static void encode_bf16(void *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)to)[i] = spc__bfloat_from_float(from[i]);
}

static void decode_bf16(float *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = spc__bfloat_to_float(((const uint16_t *)from)[i]);
}

static void encode_f32(void *to, const float *from, size_t n)
{
    memcpy(to, from, n * sizeof(float));
}

static void decode_f32(float *to, const void *from, size_t n)
{
    memcpy(to, from, n * sizeof(float));
}

static void encode_i8(void *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((int8_t *)to)[i] = spc__i8_from_float(from[i]);
}

static void decode_i8(float *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = ((const int8_t *)from)[i];
}

const char *const spc__dtype_names[] = {
#define NAME(type, name, ...) [type] = name,
    SPC__DTYPE_LIST(NAME)
#undef NAME
        [SPC__DTYPES] = NULL};

static const spc__dtype table[] = {
#define ROW(type, name, bytes, stored, factor, unit, form, least)              \
    [type] = {name, bytes, stored,        factor,                              \
              unit, least, encode_##form, decode_##form},
    SPC__DTYPE_LIST(ROW)
#undef ROW
};

const spc__dtype *spc__dtype_of(spc_dtype dtype)
{
    return (unsigned)dtype < SPC__DTYPES ? &table[dtype] : NULL;
}

bool spc__dtype_is_whole(spc_dtype dtype)
{
    return dtype == SPC_I8;
}

/* ---- overflow ------------------------------------------------------------ */

float spc__dtype_greatest(spc_dtype dtype)
{
    switch (dtype) {
    case SPC_F16:
        return spc__half_to_float(0x7bff);
    case SPC_BF16:
        return spc__bfloat_to_float(0x7f7f);
    case SPC_I8:
        return 127;
    default:
        return FLT_MAX;
    }
}

/* Values slightly above the greatest number are still rounded to it, so the
 * encoder decides where infinity begins. */
static bool becomes_infinite(const spc__dtype *type, float value)
{
    unsigned char stored[sizeof(float)];
    float back;

    type->encode(stored, &value, 1);
    type->decode(&back, stored, 1);
    return !isfinite(back);
}

spc_status spc__dtype_check(spc_dtype dtype, const float *values, int64_t count,
                            const char *what, spc_error *error)
{
    const spc__dtype *type = spc__dtype_of(dtype);
    float end = spc__dtype_greatest(dtype), most = 0;
    int64_t lost = 0;

    for (int64_t i = 0; i < count; i++) {
        /* The cheap test comes first; almost all numbers pass it. */
        if (!(fabsf(values[i]) > end) || !isfinite(values[i]) ||
            !becomes_infinite(type, values[i]))
            continue;
        lost++;
        most = fabsf(values[i]) > fabsf(most) ? values[i] : most;
    }
    if (lost == 0)
        return SPC_OK;
    bool fits_bf16 =
        dtype != SPC_BF16 && !becomes_infinite(spc__dtype_of(SPC_BF16), most);
    return spc__fail(
        error, SPC_ERANGE,
        "%lld of the %lld numbers of %s would be infinite as %s, "
        "which ends at %g; the greatest is %g: dtype=%sf32 (--dtype) "
        "holds them",
        (long long)lost, (long long)count, what, type->name, (double)end,
        (double)most, fits_bf16 ? "bf16 or " : "");
}

int64_t spc__not_finite(const float *values, int64_t count)
{
    int64_t odd = 0;

    for (int64_t i = 0; i < count; i++)
        odd += !isfinite(values[i]);
    return odd;
}
