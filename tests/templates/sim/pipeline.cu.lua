%-- Kernels that need every barrier and every wait for a correct result, and variants
%-- with one mistake each.
%template = {
%  summary = "small pipelines, whole or broken",
%  role = "map",
%  device = "cuda",
%  accepts = function() return true end,
%  params = {
%    {"bug", {"none", "no_barrier", "early_barrier", "no_warp_sync",
%             "wait_one_late", "no_commit", "wgmma_no_wait", "bulk_no_wait",
%             "outside_primitive", "outside_plain", "outside_global",
%             "misaligned", "divergent", "early_exit", "two_barriers",
%             "never_arrives", "spins", "grid_race", "bad_named",
%             "no_cluster_sync", "outside_cluster", "skips_phase", "runs_ahead"},
%     "the mistake"},
%  },
%  default = function() return {bug = "none"} end,
%  launch = function() return {block = 128} end,
%}
#include "spc_device.cuh"

#include "primitives_args.h"

/* Four times, each thread gets the value of a thread of another warp. */
SPC_KERNEL(rotate, primitive_args, 1024, 1)
{
    unsigned *cell = (unsigned *)spc_shared();
    int thread = spc_thread(), threads = spc_threads();
    unsigned v = args->in[spc_block_x() * threads + thread];
    for (int i = 0; i < 4; i++) {
% if config.bug == "early_barrier" then
        spc_sync_block();
% end
        cell[thread] = v + 1;
% if config.bug ~= "no_barrier" and config.bug ~= "early_barrier" then
        spc_sync_block();
% end
        v = cell[(thread + 33) % threads]; /* races: no_barrier early_barrier */
        spc_sync_block();
    }
    args->out[spc_block_x() * threads + thread] = v;
}

/* Exchanges values within a warp. */
SPC_KERNEL(rotate_warp, primitive_args, 1024, 1)
{
    unsigned *cell = (unsigned *)spc_shared() + 32 * spc_warp();
    int lane = spc_lane(), at = spc_block_x() * spc_threads() + spc_thread();
    unsigned v = args->in[at];
    for (int i = 0; i < 4; i++) {
        cell[lane] = v + 1;
% if config.bug ~= "no_warp_sync" then
        spc_sync_warp();
% end
        v = cell[(lane + 5) % 32]; /* races: no_warp_sync */
        spc_sync_warp();
    }
    args->out[at] = v;
}

/* Sums rows of 16 bytes that come through a ring of three slots. */
SPC_KERNEL(ring, primitive_args, 128, 1)
{
    spc_u8 *mine = spc_shared() + 16 * spc_thread();
    const unsigned *in = args->in + 4 * spc_thread();
    unsigned sum = 0;
    for (int i = 0; i < 2; i++) {
        spc_copy_async16(mine + 2048 * i, in + 512 * i, 16);
        spc_copy_commit();
    }
    for (int i = 0; i < 8; i++) {
        if (i + 2 < 8)
            spc_copy_async16(mine + 2048 * ((i + 2) % 3), in + 512 * (i + 2),
                             16);
% if config.bug ~= "no_commit" then
        spc_copy_commit();
% else
        if (i + 2 < 7)
            spc_copy_commit();
% end
% if config.bug == "wait_one_late" then
        spc_copy_wait(3);
% else
        spc_copy_wait(2);
% end
        spc_b16 row = spc_shared_load16(mine + 2048 * (i % 3));
        sum = 3 * sum + (row.x ^ row.y ^ row.z ^ row.w);
    }
    args->out[spc_thread()] = sum;
}

/* Multiplies ones by ones, twice, so that every element is 32. */
SPC_KERNEL(product, primitive_args, 128, 1)
{
    spc_u32 a[4], ones = spc_pack_f16(1.0f, 1.0f);
    spc_b16 row;
    float d[8];
    row.x = row.y = row.z = row.w = ones;
    if (spc_thread() < 32)
        spc_shared_store16(spc_shared() + 16 * spc_thread(), row);
    SPC_UNROLL for (int i = 0; i < 4; i++) a[i] = ones;
    spc_fence_async();
    spc_sync_block();
    spc_u64 b = spc_wgmma_descriptor(spc_shared(), 128, 256);
    SPC_UNROLL for (int i = 0; i < 8; i++) d[i] = 0.0f;
    spc_wgmma_fence();
    spc_wgmma_16_f16(d, a, b, 0);
    spc_wgmma_commit();
    spc_wgmma_16_f16(d, a, b, 1);
    spc_wgmma_commit();
% if config.bug == "wgmma_no_wait" then
    spc_wgmma_wait(1);
% else
    spc_wgmma_wait(0);
% end
    SPC_UNROLL for (int i = 0; i < 8; i++)
        args->out[8 * spc_thread() + i] = (unsigned)d[i];
}

/* One warp copies 512 bytes at a time, three others use them. */
SPC_KERNEL(producer, primitive_args, 128, 1)
{
    spc_u64 *full = (spc_u64 *)(spc_shared() + 1024), *empty = full + 2;
    unsigned sum = 0;
    if (spc_thread() == 0) {
        for (int i = 0; i < 2; i++) {
            spc_mbar_init(full + i, 1);
            spc_mbar_init(empty + i, 96);
        }
        spc_mbar_fence();
    }
    spc_sync_block();
    for (int i = 0; i < 8; i++) {
        int slot = i % 2, round = i / 2;
        spc_u8 *to = spc_shared() + 512 * slot;
        if (spc_warp() == 0) {
            if (spc_lane() == 0) {
                if (round > 0)
                    spc_mbar_wait(empty + slot, (round - 1) & 1);
                spc_mbar_expect(full + slot, 512);
                spc_bulk_copy(to, args->in + 128 * i, 512, full + slot);
            }
        } else {
% if config.bug ~= "bulk_no_wait" then
            spc_mbar_wait(full + slot, round & 1);
% end
            for (int j = 0; j < 4; j++) {
                unsigned v = ((unsigned *)to)[spc_thread() % 32 + 32 * j];
                sum = 3 * sum + v;
            }
            spc_mbar_arrive(empty + slot);
        }
    }
    spc_sync_warp();
    args->out[spc_thread()] = sum;
}

/*
 * A ring of two slots. Two warps read the second slot, and alternate at the
 * first. A warp that did not read the first slot in the previous round must
 * still have seen its arrival. Copies may arrive in any order.
 */
SPC_KERNEL(rounds, primitive_args, 128, 1)
{
    spc_u64 *full = (spc_u64 *)(spc_shared() + 1024), *empty = full + 2;
    unsigned sum = 0;
    if (spc_thread() == 0) {
        for (int i = 0; i < 2; i++) {
            spc_mbar_init(full + i, 1);
            spc_mbar_init(empty + i, 32 + 32 * i);
        }
        spc_mbar_fence();
    }
    spc_sync_block();
    for (int i = 0; i < 12; i++) {
        int slot = i % 2, round = i / 2;
        spc_u8 *to = spc_shared() + 512 * slot;
        if (spc_thread() == 64) {
            spc_mbar_wait(empty + slot, (round & 1) ^ 1);
            spc_mbar_expect(full + slot, 512);
            spc_bulk_copy(to, args->in + 128 * i, 512, full + slot);
        }
        if (spc_warp() == round % 2 || (spc_warp() < 2 && slot == 1)) {
% if config.bug == "runs_ahead" then
            if (slot == 1) /* the copier need not wait for the warps that wait here */
                spc_mbar_arrive(empty + slot);
% end
            spc_mbar_wait(full + slot, round & 1);
            for (int j = 0; j < 4; j++)
                sum = 3 * sum + ((unsigned *)to)[spc_lane() + 32 * j];
            if ($(config.bug == "runs_ahead" and "slot == 0" or "1"))
                spc_mbar_arrive(empty + slot);
        }
% if config.bug ~= "skips_phase" then
        if (spc_warp() < 2)
            spc_sync_named(1, 64);
% end
    }
    spc_sync_warp();
    args->out[spc_thread()] = sum;
}

/* Errors that the emulation must detect. */
SPC_KERNEL(misuse, primitive_args, 128, 1)
{
    int thread = spc_thread();
    spc_u8 *shared = spc_shared();
    unsigned v = (unsigned)thread;
    spc_b16 zero;
    zero.x = zero.y = zero.z = zero.w = 0;
% if config.bug == "outside_primitive" then
    spc_shared_store16(shared + args->n + 16 * thread - 16 * 127, zero);
% elseif config.bug == "outside_plain" then
    ((unsigned *)shared)[args->n / 4 + thread - 127] = v;
% elseif config.bug == "outside_global" then
    v = args->in[args->n + thread - 127];
% elseif config.bug == "misaligned" then
    v = spc_load16((const spc_u8 *)args->in + 4 * thread).x;
% elseif config.bug == "divergent" then
    if (thread % 32 < 16)
        v = (unsigned)spc_shfl(thread, 3);
    else
        spc_sync_warp();
% elseif config.bug == "early_exit" then
    if (thread >= 96)
        return;
    spc_sync_block();
% elseif config.bug == "two_barriers" then
    if (spc_warp() < 2)
        spc_sync_named(1, 128);
    else
        spc_sync_named(2, 128);
% elseif config.bug == "never_arrives" then
    spc_u64 *bar = (spc_u64 *)shared;
    if (thread == 0)
        spc_mbar_init(bar, 2);
    spc_sync_block();
    if (thread == 0)
        spc_mbar_arrive(bar);
    spc_mbar_wait(bar, 0);
% elseif config.bug == "spins" then
    while (spc_load_acquire(args->flags) == 0) {
    }
% elseif config.bug == "bad_named" then
    spc_sync_named(3, 100);
% end
    args->out[thread] = v + zero.x + shared[0] * 0u;
}

/* Blocks pass a running sum along (decoupled look-back with tickets). */
SPC_KERNEL(chain, primitive_args, 128, 1)
{
    unsigned *ticket = (unsigned *)spc_shared();
    unsigned *ready = args->flags + 1, *total = args->out;
    if (spc_thread() == 0)
        ticket[0] = spc_atomic_add_u32(args->flags, 1);
    spc_sync_block();
    unsigned block = ticket[0], before = 0;
    if (spc_thread() == 0) {
        if (block > 0) {
% if config.bug ~= "grid_race" then
            while (spc_load_acquire(ready + block - 1) == 0) {
            }
% end
            before = total[block - 1]; /* races: grid_race */
        }
        total[block] = before + args->in[block];
        spc_store_release(ready + block, 1);
    }
}

/* All blocks synchronise between the steps of a scan. */
SPC_KERNEL(meet, primitive_args, 128, 1)
{
    spc_u32 round = 0;
    int blocks = spc_grid_x(), n = blocks * spc_threads();
    int at = spc_block_x() * spc_threads() + spc_thread();
    args->out[at] = args->in[at];
    for (int step = 1; step < 64; step *= 2) {
        spc_arrive_grid(args->flags);
        spc_wait_grid(args->flags, &round);
        unsigned v = args->out[at] + args->out[(at + step * 37) % n];
        spc_arrive_grid(args->flags);
        spc_wait_grid(args->flags, &round);
        args->out[at] = v;
    }
}

/* Sums over the blocks of a cluster, three times. One warp of each block has
 * ended. */
SPC_KERNEL(cluster, primitive_args, 128, 1)
{
    spc_u8 *cells = spc_shared();
    int thread = spc_thread();
    int at = (spc_block_y() * spc_grid_x() + spc_block_x()) * 96 + thread;
    if (thread >= 96)
        return;
    unsigned sum = args->in[at];
    for (int round = 0; round < 3; round++) {
        spc_b16 v = {sum, 0, 0, 0};
        spc_shared_store16(cells + 16 * thread, v); /* races: no_cluster_sync */
% if config.bug ~= "no_cluster_sync" then
        spc_cluster_sync();
% end
        for (int b = 0; b < 4; b++)
            sum = 3 * sum + spc_cluster_load16(cells + 16 * ((thread + 37 * b) % 96), b$(config.bug == "outside_cluster" and " + 1" or "")).x;
        spc_cluster_sync();
    }
    args->out[at] = sum;
}

/* Does nothing but switch between threads. */
SPC_KERNEL(switches, primitive_args, 1024, 1)
{
    unsigned v = (unsigned)spc_thread();
    for (int i = 0; i < args->n; i++)
        v += (unsigned)spc_shfl((int)v, i);
    if (spc_block_x() == 0)
        args->out[spc_thread()] = v;
}
