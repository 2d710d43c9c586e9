/*
 * spc_cpu.h - vectors of floats and 16-bit types for the cpu templates.
 *
 * Plain C with the vector extension of GCC and Clang. It has no includes,
 * because <immintrin.h> alone would triple the time of a compilation. The
 * including file defines SPC_LANES, the floats of a vector (4, 8, 16).
 */
#ifndef SPC_CPU_H
#define SPC_CPU_H

#include "spc_abi.h"
#include "spc_host_math.h"

/* Vectors need no alignment, because rows of odd length have none. */
typedef float spc_vector
    __attribute__((vector_size(4 * SPC_LANES), aligned(4), may_alias));

typedef unsigned short spc_half;   /* the bits of a binary16 */
typedef unsigned short spc_bfloat; /* the upper half of an fp32 */

#define SPC_INLINE static inline __attribute__((always_inline))

SPC_INLINE spc_vector spc_load(const float *from)
{
    return *(const spc_vector *)from;
}

SPC_INLINE void spc_store(float *to, spc_vector value)
{
    *(spc_vector *)to = value;
}

SPC_INLINE float spc_float_of_bits(unsigned bits)
{
    union {
        unsigned bits;
        float value;
    } u = {bits};
    return u.value;
}

SPC_INLINE unsigned spc_bits_of_float(float value)
{
    union {
        float value;
        unsigned bits;
    } u = {value};
    return u.bits;
}

/*
 * Shifting puts exponent and fraction in place, but the result is 112 powers of
 * two too small. The product corrects that, for subnormals as well. Infinities
 * and NaN are kept.
 */
SPC_INLINE float spc_float_of_half(spc_half half)
{
    unsigned shifted = (half & 0x7fffu) << 13;
    unsigned sign = (half & 0x8000u) << 16;
    unsigned scaled = spc_bits_of_float(spc_float_of_bits(shifted) * 0x1p112f);
    unsigned special = (shifted & 0x0f800000u) == 0x0f800000u ? 0x7f800000u : 0;
    return spc_float_of_bits(scaled | special | sign);
}

/*
 * To nearest, ties to even. The last place of 0.5 is the spacing of subnormals,
 * so adding it makes the adder round small numbers. Larger numbers are rounded
 * as integers; a carry moves into the exponent and up to infinity.
 */
SPC_INLINE spc_half spc_half_of_float(float value)
{
    unsigned bits = spc_bits_of_float(value);
    unsigned sign = bits >> 16 & 0x8000u;
    unsigned size = bits & 0x7fffffffu;
    unsigned small =
        spc_bits_of_float(spc_float_of_bits(size) + 0.5f) - 0x3f000000u;
    unsigned large = (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13;
    unsigned special = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
    unsigned half = size < 0x38800000u   ? small
                    : size < 0x47800000u ? large
                                         : special;
    return (spc_half)(half | sign);
}

SPC_INLINE float spc_float_of_bfloat(spc_bfloat value)
{
    return spc_float_of_bits((unsigned)value << 16);
}

/* To nearest, ties to even; a carry may run into the exponent. */
SPC_INLINE spc_bfloat spc_bfloat_of_float(float value)
{
    unsigned bits = spc_bits_of_float(value);
    unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1);
    unsigned is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return (spc_bfloat)(is_nan ? bits >> 16 | 0x40 : rounded >> 16);
}

SPC_INLINE void spc_row_from_bfloat(float *to, const spc_bfloat *from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = spc_float_of_bfloat(from[i]);
}

SPC_INLINE void spc_row_to_bfloat(spc_bfloat *to, const float *from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = spc_bfloat_of_float(from[i]);
}

/* int8: rounds to the nearest integer from -128 to 127, ties to even, NaN to 0.
 * The last place of 1.5 * 2^23 is 1, so the sum is rounded to an integer. */
SPC_INLINE signed char spc_i8_of_float(float value)
{
    float low = value > -128.0f ? value : value == value ? -128.0f : 0.0f;
    float held = low < 127.0f ? low : 127.0f;
    return (signed char)(spc_bits_of_float(held + 12582912.0f) -
                         spc_bits_of_float(12582912.0f));
}

SPC_INLINE float spc_float_of_i8(signed char value)
{
    return value;
}

/* Adds a vector of integers below 2^31. */
typedef int spc_wholes
    __attribute__((vector_size(4 * SPC_LANES), aligned(4), may_alias));

SPC_INLINE void spc_add_whole(int *to, spc_vector value)
{
    *(spc_wholes *)to += __builtin_convertvector(value, spc_wholes);
}

SPC_INLINE void spc_row_from_i8(float *to, const signed char *from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = from[i];
}

SPC_INLINE void spc_row_to_i8(signed char *to, const float *from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = spc_i8_of_float(from[i]);
}

SPC_INLINE float spc_fma(float a, float b, float c)
{
    return a * b + c; /* with one rounding or two */
}

/* Converts one vector from and to binary16. */
#if defined(__AVX512F__) && SPC_LANES == 16
typedef short spc_halves
    __attribute__((vector_size(32), aligned(2), may_alias));
typedef float spc_full __attribute__((vector_size(64)));
typedef short spc_half_full __attribute__((vector_size(32)));

SPC_INLINE spc_vector spc_load_half(const spc_half *from)
{
    spc_half_full bits = *(const spc_halves *)from;
    return __builtin_ia32_vcvtph2ps512_mask(bits, (spc_full){0},
                                            (unsigned short)-1, 4);
}

SPC_INLINE void spc_store_half(spc_half *to, spc_vector value)
{
    *(spc_halves *)to = (spc_half_full)__builtin_ia32_vcvtps2ph512_mask(
        (spc_full)value, 0, (spc_half_full){0}, (unsigned short)-1);
}
#elif defined(__F16C__) && SPC_LANES == 8
typedef short spc_halves
    __attribute__((vector_size(16), aligned(2), may_alias));
typedef float spc_full __attribute__((vector_size(32)));
typedef short spc_half_full __attribute__((vector_size(16)));

SPC_INLINE spc_vector spc_load_half(const spc_half *from)
{
    spc_half_full bits = *(const spc_halves *)from;
    return __builtin_ia32_vcvtph2ps256(bits);
}

SPC_INLINE void spc_store_half(spc_half *to, spc_vector value)
{
    *(spc_halves *)to =
        (spc_half_full)__builtin_ia32_vcvtps2ph256((spc_full)value, 0);
}
#else
SPC_INLINE spc_vector spc_load_half(const spc_half *from)
{
    spc_vector value;
    for (int i = 0; i < SPC_LANES; i++)
        value[i] = spc_float_of_half(from[i]);
    return value;
}

SPC_INLINE void spc_store_half(spc_half *to, spc_vector value)
{
    for (int i = 0; i < SPC_LANES; i++)
        to[i] = spc_half_of_float(value[i]);
}
#endif

/* Converts a whole row, of any length. */
SPC_INLINE void spc_row_from_half(float *to, const spc_half *from, int n)
{
    int i = 0;
    for (; i + SPC_LANES <= n; i += SPC_LANES)
        spc_store(to + i, spc_load_half(from + i));
    for (; i < n; i++)
        to[i] = spc_float_of_half(from[i]);
}

SPC_INLINE void spc_row_to_half(spc_half *to, const float *from, int n)
{
    int i = 0;
    for (; i + SPC_LANES <= n; i += SPC_LANES)
        spc_store_half(to + i, spc_load(from + i));
    for (; i < n; i++)
        to[i] = spc_half_of_float(from[i]);
}

#endif
