/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_memory.c - asynchronous copies and barriers in shared memory.
 *
 * In deferred mode a copy reaches its destination as late as the rules allow. A
 * cp.async arrives when its own thread waits for its group, a bulk copy when a
 * thread waits for its barrier. Until then the destination is poisoned. A copy
 * that is never waited for never arrives, which exposes a wrong wait count.
 */
#include "device/sim.h"

#include <assert.h>
#include <string.h>

#define CALLER __builtin_return_address(0)

void spc__sim_fence(spc_sim_thread *self)
{
    spc__sim_launch *launch = spc__sim_launch_of(self);
    atomic_thread_fence(memory_order_seq_cst);
    /* A fence by itself orders nothing. For the race checker each fence
     * synchronises with all others, so that a flag passed by a relaxed atomic
     * between two fences counts. This may hide a race but never reports a false
     * one. */
    spc__sim_acquire(&launch->fence);
    spc__sim_release(&launch->fence);
}

/* ---- cp.async -------------------------------------------------------- */

void spc__sim_copy_issue(spc_sim_thread *self, void *to, const void *from,
                         int bytes, int valid)
{
    spc__sim_fiber *fiber = self->fiber;
    if (fiber->copy_count == SPC__SIM_COPIES)
        spc__sim_fault(self,
                       "more than %d asynchronous copies are under way; wait "
                       "for some",
                       SPC__SIM_COPIES);
    int last = (fiber->copy_first + fiber->copy_count++) % SPC__SIM_COPIES;
    fiber->copies[last] = (spc__sim_copy){to, from, bytes, valid, fiber->group};
    /* A kernel that reads before it waits gets poison instead of the right
     * data. */
    memset(to, SPC_SIM_POISON, (size_t)bytes);
}

void spc__sim_copy_commit(spc_sim_thread *self)
{
    ((spc__sim_fiber *)self->fiber)->group++;
}

/* Carries out an asynchronous copy. */
static void deliver(const spc__sim_copy *copy)
{
    size_t valid =
        (size_t)(copy->valid < copy->bytes ? copy->valid : copy->bytes);
    if (valid > 0)
        memcpy(copy->to, copy->from, valid);
    /* Bytes past the valid ones become zeros, as cp.async defines it. */
    memset((char *)copy->to + valid, 0, (size_t)copy->bytes - valid);
}

/* Copies after the last commit are in no group yet, so no wait completes them.
 * The queue is a ring: moving its elements would be an access that the race
 * checker sees, by fibers that share it. */
void spc__sim_copy_wait(spc_sim_thread *self, int groups)
{
    spc__sim_fiber *fiber = self->fiber;
    while (fiber->copy_count > 0 &&
           fiber->copies[fiber->copy_first].group < fiber->group - groups) {
        deliver(&fiber->copies[fiber->copy_first]);
        fiber->copy_first = (fiber->copy_first + 1) % SPC__SIM_COPIES;
        fiber->copy_count--;
    }
}

/* ---- mbarrier -------------------------------------------------------- */

/* Our own layout of the 64 bits. */
typedef struct mbar {
    uint64_t pending : 15; /* arrivals still to come in this phase */
    uint64_t count : 15;   /* arrivals of a phase */
    uint64_t parity : 1;
    uint64_t number : 11; /* number for sim_phases.c */
    int64_t bytes : 22;   /* bytes still expected from bulk copies */
} mbar;

/* A barrier as its fields. */
static mbar read_mbar(const spc_u64 *bar)
{
    mbar m;
    static_assert(sizeof(m) == sizeof(*bar), "a barrier is a word");
    memcpy(&m, bar, sizeof(m));
    return m;
}

static void write_mbar(spc_u64 *bar, mbar m)
{
    memcpy(bar, &m, sizeof(m));
}

static int parity_of(const spc_u64 *bar)
{
    return read_mbar(bar).parity;
}

/* Arrivals of a phase synchronise with the waits for it. */
static void *token(spc_u64 *bar, int parity)
{
    return (char *)bar + 4 * parity;
}

/* Ends a barrier's phase if all have arrived. */
static void settle(spc_sim_thread *self, spc_u64 *bar, mbar m)
{
    /* Both the threads and the bytes must have arrived. */
    if (m.pending == 0 && m.bytes == 0) {
        m.parity ^= 1;
        m.pending = m.count;
        spc__sim_phases_end(self, m.number);
        spc__sim_progress(spc__sim_launch_of(self));
    }
    write_mbar(bar, m);
}

void spc__sim_mbar_init(spc_sim_thread *self, spc_u64 *bar, int count)
{
    if (count < 1 || count > 0x7fff)
        spc__sim_fault(self, "spc_mbar_init: a count of %d arrivals", count);
    mbar m = {
        .pending = (unsigned)count & 0x7fff,
        .count = (unsigned)count & 0x7fff,
        .number = (unsigned)spc__sim_phases_begin(self) & 0x7ff,
    };
    write_mbar(bar, m);
}

void spc__sim_mbar_arrive(spc_sim_thread *self, spc_u64 *bar, int bytes,
                          const spc_sim_place *place)
{
    mbar m = read_mbar(bar);
    if (m.pending == 0)
        spc__sim_fault(self,
                       "%s at %s:%d: more arrivals than the barrier's %d, or "
                       "a barrier without spc_mbar_init",
                       place->primitive, place->file, place->line,
                       (int)m.count);
    /* Before the phase can end, so that a wait sees everything that came before
     * the arrival. */
    spc__sim_release(token(bar, m.parity));
    spc__sim_phases_arrive(self, m.number);
    m.pending--;
    m.bytes += bytes;
    settle(self, bar, m);
}

/* Carries out a bulk copy and reports its bytes to the barrier. */
static void bring(spc_sim_thread *self, const spc__sim_bulk *bulk,
                  const void *caller)
{
    /* The race checker does not see memcpy() of this file, so the accesses are
     * reported to it. */
    spc__sim_reads(bulk->from, (size_t)bulk->bytes, caller);
    spc__sim_writes(bulk->to, (size_t)bulk->bytes, caller);
    memcpy(bulk->to, bulk->from, (size_t)bulk->bytes);
    spc__sim_release(token(bulk->bar, parity_of(bulk->bar)));
    mbar m = read_mbar(bulk->bar);
    m.bytes -= bulk->bytes;
    settle(self, bulk->bar, m);
}

/* True for this block's shared memory. A copy to another block of the cluster
 * completes immediately, because that block has no record of it. */
static bool is_own(const spc_sim_thread *self, const void *p)
{
    const spc_u8 *at = p, *shared = self->shared;

    return at >= shared && at < shared + self->shared_bytes;
}

void spc__sim_bulk_copy(spc_sim_thread *self, void *to, const void *from,
                        int bytes, spc_u64 *bar, const spc_sim_place *place)
{
    spc__sim_block *block = spc__sim_block_of(self);
    spc__sim_bulk bulk = {to, from, bytes, bar};
    /* The arrival of the bytes carries what the thread knows now. */
    spc__sim_phases_arrive(self, read_mbar(bar).number);
    if (!self->deferred || !is_own(self, to)) {
        bring(self, &bulk, CALLER);
        return;
    }
    if (block->bulk_count == SPC__SIM_BULKS)
        spc__sim_fault(self, "more than %d bulk copies are under way",
                       SPC__SIM_BULKS);
    spc__sim_writes(to, (size_t)bytes, CALLER);
    memset(to, SPC_SIM_POISON, (size_t)bytes);
    spc__sim_release(token(bar, parity_of(bar)));
    block->bulks[block->bulk_count++] = bulk;
}

/* Completes the copies that the current phase of `bar` waits for, in order of
 * issue. */
static void bring_deferred(spc_sim_thread *self, spc_u64 *bar, int parity,
                           const void *caller)
{
    spc__sim_block *block = spc__sim_block_of(self);
    int kept = 0;
    for (int i = 0; i < block->bulk_count; i++) {
        /* A copy, since the list is compacted in place. */
        spc__sim_bulk bulk = block->bulks[i];
        if (bulk.bar == bar && parity_of(bar) == parity) {
            spc__sim_acquire(token(bar, parity));
            bring(self, &bulk, caller);
        } else {
            block->bulks[kept++] = bulk;
        }
    }
    block->bulk_count = kept;
}

void spc__sim_mbar_wait(spc_sim_thread *self, spc_u64 *bar, int parity,
                        const spc_sim_place *place)
{
    const void *caller = CALLER;
    int number = read_mbar(bar).number;
    parity &= 1;
    int64_t phase = spc__sim_phases_await(self, number, parity, place);
    while (parity_of(bar) == parity) {
        /* As late as possible: only now that a thread waits for them. */
        if (self->deferred)
            bring_deferred(self, bar, parity, caller);
        if (parity_of(bar) == parity)
            spc__sim_yield(self, place);
    }
    spc__sim_acquire(token(bar, parity));
    spc__sim_phases_see(self, number, phase);
}
