/*
 * spc_cluster.cuh - data exchange between the blocks of a cluster, for
 * os_wgmma.
 */
#ifndef SPC_CLUSTER_CUH
#define SPC_CLUSTER_CUH

#include "spc_device.cuh"

/*
 * Sends 16 bytes into the shared memory of the cluster's block `block`, at the address that
 * `p` has in this block. The bytes count towards those that the barrier at `bar` in that
 * block expects (spc_mbar_expect). Threads that have waited for the barrier
 * (spc_cluster_wait) see them. The sender does not wait. The other block must not have
 * ended.
 */
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

/*
 * Like spc_cluster_arrive, but signals only that memory of this block has been read
 * and may be overwritten. No stores of this block need to be visible, so no thread
 * waits for stores.
 */
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
