/*
 * spc_here.cuh - masking that the compiler front end keeps where it is written,
 * between products and loads. Otherwise it would move all preparation of operands
 * before the first product. The assembler still moves it by a few products, so the
 * machine code of a step has to be inspected.
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
