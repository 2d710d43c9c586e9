/*
 * spc_tiles.cuh - for wgrad_tiles: copies to shared memory of rows that may be
 * absent, and products with fewer than 64 columns and both operands in shared memory
 * (spc_wgmma_both of spc_device.cuh).
 */
#ifndef SPC_TILES_CUH
#define SPC_TILES_CUH

#include "spc_device.cuh"

#ifndef __CUDACC__
#define spc_copy_row16(to, from, row) spc_copy_async16(to, (row) < 0 ? to : from, (row) < 0 ? 0 : 16)
#define spc_copy_near_row16(to, from, row) spc_copy_near16(to, (row) < 0 ? to : from, (row) < 0 ? 0 : 16)
#define spc_wgmma_both_16_f16(d, a, b, c) SPC_SIM_WGMMA_BOTH(16, F16, d, a, b, c)
#define spc_wgmma_both_32_f16(d, a, b, c) SPC_SIM_WGMMA_BOTH(32, F16, d, a, b, c)
#define spc_wgmma_both_16_bf16(d, a, b, c) SPC_SIM_WGMMA_BOTH(16, BF16, d, a, b, c)
#define spc_wgmma_both_32_bf16(d, a, b, c) SPC_SIM_WGMMA_BOTH(32, BF16, d, a, b, c)
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
/* Copies 16 bytes of row `row`. A negative row gives zeroes and nothing is
 * read. */
SPC_DEVICE void spc_copy_row16(void *to, const void *from, int row)
{
    asm volatile("{\n.reg .pred none;\nsetp.lt.s32 none, %2, 0;\n"
                 "cp.async.cg.shared.global [%0], [%1], 16, none;\n}" ::"r"(spc_shared_address(to)),
                 "l"(from), "r"(row)
                 : "memory");
}
/* The same, through the multiprocessor's L1 cache, for data that other blocks on
 * the multiprocessor read as well. */
SPC_DEVICE void spc_copy_near_row16(void *to, const void *from, int row)
{
    asm volatile("{\n.reg .pred none;\nsetp.lt.s32 none, %2, 0;\n"
                 "cp.async.ca.shared.global [%0], [%1], 16, none;\n}" ::"r"(spc_shared_address(to)),
                 "l"(from), "r"(row)
                 : "memory");
}

SPC_WGMMA_BOTH(16, f16, SPC_T8, "%8", "%9", "%10", SPC_D8(0))
SPC_WGMMA_BOTH(32, f16, SPC_T16, "%16", "%17", "%18", SPC_D16(0))
SPC_WGMMA_BOTH(16, bf16, SPC_T8, "%8", "%9", "%10", SPC_D8(0))
SPC_WGMMA_BOTH(32, bf16, SPC_T16, "%16", "%17", "%18", SPC_D16(0))
#endif

#endif
