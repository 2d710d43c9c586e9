/*
 * spc_arrive.cuh - copies that signal a barrier when they arrive, for kernels with
 * warps that load.
 */
#ifndef SPC_ARRIVE_CUH
#define SPC_ARRIVE_CUH

#include "spc_device.cuh"

/* The lane's arrival at a barrier takes effect when its previous copies have
 * arrived. */
SPC_DEVICE void spc_arrive_with_copies(spc_u64 *barrier)
{
#ifdef __CUDACC__
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(spc_shared_address(barrier))
                 : "memory");
#else
    spc_copy_commit();
    spc_copy_wait(0);
    spc_mbar_arrive(barrier);
#endif
}

#endif
