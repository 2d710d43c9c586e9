/*
 * record_primitives.cu - records tests/golden/primitives.txt on a GPU.
 *
 *   nvcc -gencode arch=compute_90a,code=sm_90a -cudart static -I templates \
 *        -I tests/templates/sim -I tests/golden -o record \
 *        tests/golden/record_primitives.cu
 *   ./record > tests/golden/primitives.txt
 *
 * Each case is a line "case NAME WORDS HASH", then, for short outputs, the words
 * in hexadecimal, eight to a line.
 */
/* nvcc's host pass must see the same kernels as its device pass. */
#ifndef __CUDA_ARCH_FEAT_SM90_ALL
#define __CUDA_ARCH_FEAT_SM90_ALL
#endif
#ifdef __CUDA_ARCH__
#include "primitives.cuh"
#else
#define __CUDA_ARCH__ 900
#include "primitives.cuh"
#undef __CUDA_ARCH__
#endif
#include "primitives.h"

#include <stdio.h>
#include <stdlib.h>

static void check(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}

typedef void (*kernel_fn)(primitive_args);

static const struct {
    const char *name;
    kernel_fn kernel;
} kernels[] = {
    {"lanes", lanes},
    {"bits", bits},
    {"atomics", atomics},
    {"numbers", numbers},
    {"moves", moves},
    {"copies", copies},
    {"bytes", bytes},
    {"mma_i8", mma_i8},
    {"bulk", bulk},
    {"mma_f16", mma_f16},
    {"mma_sums_f16", mma_sums_f16},
    {"mma_tf32", mma_tf32},
#define ROW(n, type) {"wgmma_" #n "_" #type, wgmma_##n##_##type},
#define ROWS(n) ROW(n, f16) ROW(n, i8) ROW(n, tf32)
    ROWS(16) ROWS(32) ROWS(48) ROWS(64) ROWS(96) ROWS(128) ROWS(192)
    ROWS(256) ROW(rows_64, f16) ROW(rows_128, f16) ROW(rows_256, f16)
    ROW(both_64, f16) ROW(both_128, f16) ROW(both_256, f16)
};

static kernel_fn find(const char *name)
{
    for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
        if (strcmp(kernels[i].name, name) == 0)
            return kernels[i].kernel;
    fprintf(stderr, "no kernel '%s'\n", name);
    exit(1);
}

static void print(const golden_case *c, const uint32_t *out)
{
    printf("case %s %d %016llx\n", c->name, c->out_words,
           (unsigned long long)golden_hash(out, c->out_words));
    for (int i = 0; i < c->out_words && c->out_words <= GOLDEN_LISTED; i++)
        printf("%08x%c", out[i],
               i % 8 == 7 || i == c->out_words - 1 ? '\n' : ' ');
}

int main(void)
{
    static uint32_t in[GOLDEN_WORDS], out[GOLDEN_WORDS];
    primitive_args args = {};
    cudaDeviceProp device;

    check(cudaGetDeviceProperties(&device, 0), "no device");
    printf("# %s, sm_%d%d\n", device.name, device.major, device.minor);
    check(cudaMalloc((void **)&args.in, sizeof(in)), "cudaMalloc");
    check(cudaMalloc((void **)&args.out, sizeof(out)), "cudaMalloc");
    check(cudaMalloc((void **)&args.flags, 4096), "cudaMalloc");
    for (int i = 0; i < GOLDEN_CASES; i++) {
        const golden_case *c = &golden_cases[i];
        golden_fill(in, c);
        check(cudaMemcpy((void *)args.in, in, sizeof(in),
                         cudaMemcpyHostToDevice), "copy in");
        check(cudaMemset(args.out, 0, sizeof(out)), "clear");
        check(cudaMemset(args.flags, 0, 4096), "clear");
        find(c->kernel)<<<1, c->threads, GOLDEN_SHARED>>>(args);
        check(cudaDeviceSynchronize(), c->name);
        check(cudaMemcpy(out, args.out, sizeof(out), cudaMemcpyDeviceToHost),
              "copy out");
        print(c, out);
    }
    return 0;
}
