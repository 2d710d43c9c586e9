/*
 * spc_cluster.cuh - what os_wgmma's blocks of a cluster send each other.
 */
#ifndef SPC_CLUSTER_CUH
#define SPC_CLUSTER_CUH

#include "spc_device.cuh"

/* Stores 16 bytes in the shared memory of the cluster's block `block`, where `p`
 * points to in this one's. The other block must not have ended: it waits for this
 * one, by spc_cluster_arrive and spc_cluster_wait. */
#ifdef __CUDACC__
SPC_DEVICE void spc_cluster_store16(void *p, int block, spc_b16 v)
{
    asm volatile("{\n.reg .b32 at;\nmapa.shared::cluster.u32 at, %0, %1;\n"
                 "st.shared::cluster.v4.b32 [at], {%2,%3,%4,%5};\n}" ::"r"(spc_shared_address(p)),
                 "r"(block), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
#else
SPC_DEVICE void spc_sim_cluster_store16(void *p, int block, spc_b16 v, const spc_sim_place *place)
{
    spc_sim_check_shared(p, 16, 16, place);
    *(spc_b16 *)((spc_u8 *)p + spc_sim_cluster_offset(block, place)) = v;
}
#define spc_cluster_store16(p, block, v)                                                           \
    spc_sim_cluster_store16(p, block, v, SPC_SIM_HERE("spc_cluster_store16"))
#endif

#endif
