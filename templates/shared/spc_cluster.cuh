/*
 * spc_cluster.cuh - what os_wgmma's blocks of a cluster send each other.
 */
#ifndef SPC_CLUSTER_CUH
#define SPC_CLUSTER_CUH

#include "spc_device.cuh"

/* Sends 16 bytes to where `p` points to in this block, in the shared memory of the
 * cluster's block `block`: they count there among the bytes that the barrier which is
 * `bar` here expects (spc_mbar_expect), and are seen by who has waited for it
 * (spc_cluster_wait). The sender waits for nothing; the other block must not have ended. */
#ifdef __CUDACC__
SPC_DEVICE void spc_cluster_send16(void *p, int block, spc_b16 v, spc_u64 *bar)
{
    asm volatile("{\n.reg .b32 at, there;\n"
                 "mapa.shared::cluster.u32 at, %0, %2;\n"
                 "mapa.shared::cluster.u32 there, %1, %2;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
                 "[at], {%3,%4,%5,%6}, [there];\n}" ::"r"(spc_shared_address(p)),
                 "r"(spc_shared_address(bar)), "r"(block), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
#else
SPC_DEVICE void spc_sim_cluster_send16(void *p, int block, spc_b16 v, spc_u64 *bar,
                                       const spc_sim_place *place)
{
    spc_sim_thread *self = spc_sim_self();
    long long there = spc_sim_cluster_offset(block, place);
    spc_sim_check_shared(p, 16, 16, place);
    spc_sim_check_shared(bar, 8, 8, place);
    self->api->bulk_copy(self, (spc_u8 *)p + there, &v, 16, (spc_u64 *)((spc_u8 *)bar + there),
                         place);
}
#define spc_cluster_send16(p, block, v, bar)                                                       \
    spc_sim_cluster_send16(p, block, v, bar, SPC_SIM_HERE("spc_cluster_send16"))
#endif

/* As spc_cluster_arrive, to say that memory of this block has been read and may be
 * written: nothing that this block wrote need be seen, so nobody waits for stores. */
#ifdef __CUDACC__
SPC_DEVICE void spc_cluster_release(spc_u64 *bar, int block)
{
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cta.shared::cluster.b64 _, [there];\n}" ::"r"(
                     spc_shared_address(bar)),
                 "r"(block)
                 : "memory");
}
#else
#define spc_cluster_release(bar, block) spc_cluster_arrive(bar, block)
#endif

#endif
