/*
 * spc_here.cuh - masking that the first compiler leaves where it is written, between
 * products and loads; it would gather what prepares operands before the first product.
 * The assembler still moves it, by a few products: what a step's machine code is like
 * has to be looked at.
 */
#ifndef SPC_HERE_CUH
#define SPC_HERE_CUH

#include "spc_device.cuh"

SPC_DEVICE spc_u32 spc_and_here(spc_u32 v, spc_u32 mask)
{
#ifdef __CUDACC__
    spc_u32 masked;
    asm volatile("and.b32 %0, %1, %2;" : "=r"(masked) : "r"(v), "r"(mask));
    return masked;
#else
    return v & mask;
#endif
}

#endif
