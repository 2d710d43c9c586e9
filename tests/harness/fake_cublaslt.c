/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cublaslt.c - a double of cuBLASLt, which only records its arguments.
 * Descriptors hold their values in their first words.
 */
#include "harness/fake_cublaslt.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT extern fake_cublaslt the_fake_cublaslt;
fake_cublaslt the_fake_cublaslt;

EXPORT int cublasLtCreate(void **handle);
EXPORT int cublasLtDestroy(void *handle);
EXPORT int cublasLtMatmulDescInit_internal(int64_t *out, size_t bytes,
                                           int compute, int scale);
EXPORT int cublasLtMatmulDescSetAttribute(int64_t *to, int attribute,
                                          const void *value, size_t bytes);
EXPORT int cublasLtMatrixLayoutInit_internal(int64_t *out, size_t bytes,
                                             int type, uint64_t rows,
                                             uint64_t columns, int64_t pitch);
EXPORT int cublasLtMatmul(void *handle, const int64_t *how, const float *alpha,
                          const void *a, const int64_t *la, const void *b,
                          const int64_t *lb, const float *beta, const void *c,
                          const int64_t *lc, void *d, const int64_t *ld,
                          const void *algorithm, void *workspace, size_t bytes,
                          void *stream);

int cublasLtCreate(void **handle)
{
    *handle = &the_fake_cublaslt;
    /* At the end the test checks that `handles` is 0: each handle must be
     * destroyed. */
    the_fake_cublaslt.handles += the_fake_cublaslt.fails_to_start == 0;
    return the_fake_cublaslt.fails_to_start;
}

int cublasLtDestroy(void *handle)
{
    the_fake_cublaslt.handles -= handle == &the_fake_cublaslt;
    return 0;
}

int cublasLtMatmulDescInit_internal(int64_t *out, size_t bytes, int compute,
                                    int scale)
{
    memset(out, 0, bytes);
    out[0] = compute;
    out[1] = scale;
    /* The caller states the size of its descriptor. cuBLASLt would overrun one
     * that is too small. */
    return bytes >= 32 * sizeof(int64_t) ? 0 : 7;
}

int cublasLtMatmulDescSetAttribute(int64_t *to, int attribute,
                                   const void *value, size_t bytes)
{
    /* only the transposition of a is supported */
    if (attribute != 3 || bytes != sizeof(int))
        return 7;
    to[2] = *(const int *)value;
    return 0;
}

int cublasLtMatrixLayoutInit_internal(int64_t *out, size_t bytes, int type,
                                      uint64_t rows, uint64_t columns,
                                      int64_t pitch)
{
    memset(out, 0, bytes);
    out[0] = type;
    out[1] = (int64_t)rows;
    out[2] = (int64_t)columns;
    out[3] = pitch;
    return bytes >= 8 * sizeof(int64_t) ? 0 : 7;
}

/* d[m][n] = a transposed [m][k] * b[k][n], all column-major. */
static int fits(const int64_t *how, const int64_t *a, const int64_t *b,
                const int64_t *d)
{
    return how[2] == 1 && a[1] == b[1] && a[2] == d[1] && b[2] == d[2] &&
           a[3] >= a[1] && b[3] >= b[1] && d[3] >= d[1] && a[0] == b[0];
}

int cublasLtMatmul(void *handle, const int64_t *how, const float *alpha,
                   const void *a, const int64_t *la, const void *b,
                   const int64_t *lb, const float *beta, const void *c,
                   const int64_t *lc, void *d, const int64_t *ld,
                   const void *algorithm, void *workspace, size_t bytes,
                   void *stream)
{
    fake_cublaslt *fake = &the_fake_cublaslt;

    (void)algorithm, (void)workspace, (void)bytes;
    if (handle != fake || *alpha != 1 || *beta != 0 || c != d ||
        memcmp(lc, ld, 4 * sizeof(*lc)) != 0 || !fits(how, la, lb, ld))
        return 7; /* CUBLAS_STATUS_INVALID_VALUE */
    fake->products++;
    fake->compute = (int)how[0];
    fake->type = (int)la[0];
    fake->result_type = (int)ld[0];
    fake->rows = lb[2];
    fake->columns = la[2];
    fake->depth = la[1];
    fake->matrix = b;
    fake->weights = a;
    fake->result = d;
    fake->stream = stream;
    return fake->fails_with;
}
