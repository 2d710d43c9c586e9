/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dtype.h - the one table of number formats: their names, their bytes in
 * memory, and how precise they are.
 */
#ifndef SPC_BASE_DTYPE_H
#define SPC_BASE_DTYPE_H

#include "spc.h"

/*
 * One row per spc_dtype, in its order: name, bytes of an element in memory,
 * significant bits (including the hidden one) as stored and as a factor of a
 * product, the unit whose rate bounds it (spc_rate_UNIT of templates of role
 * "measure"), its form in memory, and half of the smallest positive number that
 * can be stored, which bounds the rounding error of small numbers. Products
 * accumulate in fp32. Only i8 accumulates in int32, without rounding; its
 * values are multiplied by a scale that belongs to the tensor.
 */
#define SPC__DTYPE_LIST(X)                                                     \
    X(SPC_F16, "f16", 2, 11, 11, "f16", f16, 0x1p-25)                          \
    X(SPC_F32, "f32", 4, 24, 24, "f32", f32, 0x1p-150)                         \
    X(SPC_TF32, "tf32", 4, 24, 11, "tf32", f32, 0x1p-150)                      \
    X(SPC_BF16, "bf16", 2, 8, 8, "f16", bf16, 0x1p-134)                        \
    X(SPC_I8, "i8", 1, 7, 7, "i8", i8, 0.5)

enum {
#define SPC__DTYPE_COUNT(...) +1
    SPC__DTYPES = 0 SPC__DTYPE_LIST(SPC__DTYPE_COUNT)
#undef SPC__DTYPE_COUNT
};

typedef struct spc__dtype {
    const char *name;
    size_t bytes;
    int stored_bits;
    int factor_bits;
    const char *unit;
    double least_half;
    void (*encode)(void *to, const float *from, size_t n);
    void (*decode)(float *to, const void *from, size_t n);
} spc__dtype;

/* True for integer formats, whose tensors have a scale. */
bool spc__dtype_is_whole(spc_dtype dtype);

/* Returns NULL for an invalid value, since an enum may hold any number. */
const spc__dtype *spc__dtype_of(spc_dtype dtype);

extern const char *const spc__dtype_names[]; /* by spc_dtype; ends with NULL */

/* Returns the greatest finite number of the type. */
float spc__dtype_greatest(spc_dtype dtype);

/* Returns SPC_ERANGE if finite numbers would become infinite when stored as
 * `dtype`. The sentence names `what` ("'conv1.weight'"), how many numbers
 * overflow, the greatest of them, and a type that can hold them. */
spc_status spc__dtype_check(spc_dtype dtype, const float *values, int64_t count,
                            const char *what, spc_error *error);

/* Counts the values that are NaN or infinite. */
int64_t spc__not_finite(const float *values, int64_t count);

/* IEEE binary16, round to nearest even. */
uint16_t spc__half_from_float(float value);
float spc__half_to_float(uint16_t bits);

/* Rounds to the nearest integer from -128 to 127, ties to even. NaN becomes
 * 0. */
int8_t spc__i8_from_float(float value);

/* bfloat16, the upper half of an fp32, round to nearest even. */
uint16_t spc__bfloat_from_float(float value);
float spc__bfloat_to_float(uint16_t bits);

#endif
