/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_gemm.c - multiplies matrices with cuBLASLt. The library is opened on
 * first use and is optional.
 *
 * Its descriptors are opaque but have a known size, so they live on the stack.
 * A product allocates nothing, and any number of threads may call it. Only the
 * functions used are declared, as in cublasLt.h.
 */
#include "base/error.h"
#include "device/cuda_device.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Values of cublas_api.h, cublasLt.h and library_types.h. */
enum { COMPUTE_32F = 68, OP_T = 1, DESC_TRANSA = 3 };
enum { R_32F = 0, R_16F = 2, R_16BF = 14 };

/* At least as large as in any version of the library. */
typedef struct layout {
    uint64_t data[16];
} layout;
typedef struct desc {
    uint64_t data[64];
} desc;

struct spc__cublas {
    void *library;
    void *handle;
    int (*Create)(void **handle);
    int (*Destroy)(void *handle);
    int (*DescInit)(desc *out, size_t bytes, int compute, int scale);
    int (*DescSet)(desc *to, int attribute, const void *value, size_t bytes);
    int (*LayoutInit)(layout *out, size_t bytes, int type, uint64_t rows,
                      uint64_t columns, int64_t pitch);
    int (*Matmul)(void *handle, const desc *how, const void *alpha,
                  const void *a, const layout *la, const void *b,
                  const layout *lb, const void *beta, const void *c,
                  const layout *lc, void *d, const layout *ld,
                  const void *algorithm, void *workspace, size_t bytes,
                  void *stream);
};

/* ---- opening ---------------------------------------------------------- */

/* If an explicit path is given and fails, no other path is tried. */
static void *open_library(void)
{
    static const char *const usual[] = {
        "libcublasLt.so.13",
        "libcublasLt.so.12",
        "/usr/local/cuda/lib64/libcublasLt.so",
    };
    const char *path = getenv("SPC_CUBLASLT");
    void *library = NULL;

    if (path != NULL && path[0] != '\0')
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !library; i++)
        library = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

/* Finds the library's functions. False if one is missing, as in another
 * version. */
static bool resolve(spc__cublas *c)
{
    const struct {
        const char *symbol;
        void *member;
    } table[] = {
        {"cublasLtCreate", &c->Create},
        {"cublasLtDestroy", &c->Destroy},
        {"cublasLtMatmulDescInit_internal", &c->DescInit},
        {"cublasLtMatmulDescSetAttribute", &c->DescSet},
        {"cublasLtMatrixLayoutInit_internal", &c->LayoutInit},
        {"cublasLtMatmul", &c->Matmul},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        void *address = dlsym(c->library, table[i].symbol);
        if (!address)
            return false;
        /* ISO C has no cast from object to function pointer. */
        memcpy(table[i].member, &address, sizeof address);
    }
    return true;
}

void spc__cublas_close(spc__cublas *cublas)
{
    if (!cublas)
        return;
    if (cublas->handle)
        cublas->Destroy(cublas->handle);
    if (cublas->library)
        dlclose(cublas->library);
    free(cublas);
}

/* Returns NULL if the library is missing or does not work. */
static spc__cublas *open_cublas(const spc__cuda_device *d)
{
    spc__cublas *cublas = calloc(1, sizeof *cublas);
    bool pushed, works = false;

    if (!cublas)
        return NULL;
    cublas->library = open_library();
    if (cublas->library && resolve(cublas) &&
        spc__cuda_enter(d, &pushed, NULL) == SPC_OK) {
        works = cublas->Create(&cublas->handle) == 0;
        spc__cuda_leave(d, pushed);
    }
    if (works)
        return cublas;
    /* Closing must not destroy a handle that was not made. */
    cublas->handle = NULL;
    spc__cublas_close(cublas);
    return NULL;
}

bool spc__cuda_has_gemm(spc__device *device)
{
    spc__cuda_device *d = (spc__cuda_device *)device;

    /* Two plans of two threads may ask at once. */
    pthread_mutex_lock(&d->gemm_lock);
    if (!d->cublas_sought)
        d->cublas = open_cublas(d);
    /* Also after a failure, so that a missing library is looked for only
     * once. */
    d->cublas_sought = true;
    pthread_mutex_unlock(&d->gemm_lock);
    return d->cublas != NULL;
}

/* ---- a product -------------------------------------------------------- */

static int type_of(spc_dtype dtype)
{
    return dtype == SPC_F16 ? R_16F : dtype == SPC_BF16 ? R_16BF : R_32F;
}

/*
 * cuBLASLt is column major, so one of our rows is one of its columns. It
 * therefore computes the transpose of c, [columns][rows], from the transpose of
 * b, and a. It chooses an algorithm that needs no workspace.
 */
static int multiply(const spc__cublas *l, const spc__gemm *g, void *stream)
{
    const float one = 1, zero = 0;
    const int transposed = OP_T, type = type_of(g->dtype);
    uint64_t rows = (uint64_t)g->rows, columns = (uint64_t)g->columns;
    uint64_t depth = (uint64_t)g->depth;
    layout a, b, c;
    desc how;
    int result = l->DescInit(&how, sizeof how, COMPUTE_32F, R_32F);

    if (result == 0)
        result = l->DescSet(&how, DESC_TRANSA, &transposed, sizeof transposed);
    if (result == 0)
        result = l->LayoutInit(&b, sizeof b, type, depth, columns, g->depth);
    if (result == 0)
        result = l->LayoutInit(&a, sizeof a, type, depth, rows, g->depth);
    if (result == 0)
        result = l->LayoutInit(&c, sizeof c, R_32F, columns, rows, g->columns);
    return result != 0
               ? result
               : l->Matmul(l->handle, &how, &one, g->b, &b, g->a, &a, &zero,
                           g->c, &c, g->c, &c, NULL, NULL, 0, stream);
}

spc_status spc__cuda_gemm(spc__device *device, const spc__gemm *gemm,
                          void *stream, spc_error *error)
{
    const spc__cuda_device *d = (const spc__cuda_device *)device;
    bool pushed;
    spc_status status;

    if (!spc__cuda_has_gemm(device))
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "this machine has no cuBLASLt");
    if ((status = spc__cuda_enter(d, &pushed, error)) != SPC_OK)
        return status;
    int result = multiply(d->cublas, gemm, stream);
    spc__cuda_leave(d, pushed);
    return result == 0 ? SPC_OK
                       : spc__fail(error, SPC_EDEVICE,
                                   "cuBLASLt cannot multiply %lld x %d by %d x "
                                   "%d: status %d",
                                   (long long)gemm->rows, gemm->depth,
                                   gemm->depth, gemm->columns, result);
}
