/*
 * spc_here.cuh - an instruction that stays where it is written, among loads, products and
 * other such instructions: the compiler would gather what prepares operands before the
 * first product, and so wait there for the loads of all.
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
