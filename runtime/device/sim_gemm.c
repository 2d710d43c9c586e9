/* SPDX-License-Identifier: Apache-2.0 */
/* sim_gemm.c - the emulated GPU's library for matrix products. */
#include "device/sim_gemm.h"
#include "base/dtype.h"
#include "base/error.h"
#include <stdlib.h>

bool spc__sim_has_gemm(spc__device *device)
{
    (void)device;
    return true;
}

static float dot(const float *a, const float *b, int count)
{
    float sum = 0;

    for (int i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

spc_status spc__sim_gemm(spc__device *device, const spc__gemm *gemm,
                         void *stream, spc_error *error)
{
    const spc__dtype *type = spc__dtype_of(gemm->dtype);
    size_t depth = (size_t)gemm->depth, columns = (size_t)gemm->columns;
    float *b = malloc((columns + 1) * depth * sizeof(*b));

    (void)device;
    (void)stream; /* each call completes its work */
    if (b == NULL)
        return spc__fail_memory(error, (columns + 1) * depth * sizeof(*b));
    float *a = b + columns * depth;
    type->decode(b, gemm->b, columns * depth);
    for (size_t row = 0; row < (size_t)gemm->rows; row++) {
        type->decode(a, (const char *)gemm->a + row * depth * type->bytes,
                     depth);
        for (size_t c = 0; c < columns; c++)
            gemm->c[row * columns + c] = dot(a, b + c * depth, gemm->depth);
    }
    free(b);
    return SPC_OK;
}
