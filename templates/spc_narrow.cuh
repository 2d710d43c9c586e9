/*
 * spc_narrow.cuh - products of both operands in shared memory (spc_wgmma_both
 * of spc_device.cuh) that have fewer than 64 columns.
 */
#ifndef SPC_NARROW_CUH
#define SPC_NARROW_CUH

#include "spc_device.cuh"

#ifndef __CUDACC__
#define spc_wgmma_both_16_f16(d, a, b, c) SPC_SIM_WGMMA_BOTH(16, F16, d, a, b, c)
#define spc_wgmma_both_32_f16(d, a, b, c) SPC_SIM_WGMMA_BOTH(32, F16, d, a, b, c)
#define spc_wgmma_both_16_bf16(d, a, b, c)                                     \
    SPC_SIM_WGMMA_BOTH(16, BF16, d, a, b, c)
#define spc_wgmma_both_32_bf16(d, a, b, c)                                     \
    SPC_SIM_WGMMA_BOTH(32, BF16, d, a, b, c)
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
SPC_WGMMA_BOTH(16, f16, SPC_T8, "%8", "%9", "%10", SPC_D8(0))
SPC_WGMMA_BOTH(32, f16, SPC_T16, "%16", "%17", "%18", SPC_D16(0))
SPC_WGMMA_BOTH(16, bf16, SPC_T8, "%8", "%9", "%10", SPC_D8(0))
SPC_WGMMA_BOTH(32, bf16, SPC_T16, "%16", "%17", "%18", SPC_D16(0))
#endif

#endif
