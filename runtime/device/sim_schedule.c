/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_schedule.c - chooses the next fiber; barriers and collectives.
 *
 * A warp has one bit for each lane in each of its sets (ready, yielded,
 * arrived, held, done). A block has one bit for each warp with a ready lane. A
 * fiber that must wait removes itself from `ready`, picks another by the
 * launch's order and switches to it. The pick stays within the warp while the
 * warp has ready lanes. A collective then costs only 32 switches between
 * neighbours.
 *
 * The hardware requires all lanes of a warp to be at the same collective or
 * barrier, which is checked at each arrival. Any other state without a runnable
 * thread is a deadlock. It is reported with the positions of two of its
 * threads.
 */
#include "base/clock.h"
#include "device/sim.h"

#include <sched.h>
#include <stdio.h>

/* ---- picking --------------------------------------------------------- */

/* A random number. */
static uint64_t draw(spc__sim_worker *worker)
{
    /* SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). */
    uint64_t z = worker->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int lowest(uint32_t set)
{
    return __builtin_ctz(set);
}

static int highest(uint32_t set)
{
    return 31 - __builtin_clz(set);
}

/* Returns the first member from a random position on, in a ring. Members after
 * a gap are chosen more often, but every member can be chosen. Counting to a
 * random member took a fifth of the total time. */
static int any_of(spc__sim_worker *worker, uint32_t set)
{
    unsigned by = (unsigned)(draw(worker) >> 59);
    /* The mask keeps the shift below 32 for a rotation by 0. */
    uint32_t rotated = set >> by | set << ((32 - by) & 31);

    return (int)((by + (unsigned)lowest(rotated)) & 31);
}

/* Chooses one of a set of lanes by the order of the schedule. */
static int choose(spc__sim_worker *worker, uint32_t set)
{
    switch (worker->launch->options->order) {
    case SPC__SIM_REVERSE:
        return highest(set);
    case SPC__SIM_RANDOM:
        return any_of(worker, set);
    default:
        return lowest(set);
    }
}

static inline void make_ready(spc__sim_warp *warp, uint32_t lanes)
{
    warp->ready |= lanes;
    warp->block->ready |= 1u << warp->index;
}

/* Removes a lane from the set of ready lanes. */
static inline spc_sim_thread *take(spc__sim_warp *warp, int lane)
{
    warp->ready &= ~(1u << lane);
    if (!warp->ready)
        warp->block->ready &= ~(1u << warp->index);
    return warp->lanes[lane];
}

static spc_sim_thread *take_from(spc__sim_worker *worker, spc__sim_block *block)
{
    spc__sim_warp *warp = &block->warps[choose(worker, block->ready)];
    return take(warp, choose(worker, warp->ready));
}

/* Searches the blocks in a ring from `start`. Returns NULL if none has a ready
 * thread. */
static spc_sim_thread *search(spc__sim_worker *worker, int start)
{
    int count = worker->block_count, at = start;
    bool reverse = worker->launch->options->order == SPC__SIM_REVERSE;
    for (int i = 0; i < count; i++) {
        if (worker->blocks[at].ready)
            return take_from(worker, &worker->blocks[at]);
        if (reverse)
            at = at > 0 ? at - 1 : count - 1;
        else
            at = at + 1 < count ? at + 1 : 0;
    }
    return NULL;
}

/* Makes threads ready again that gave way while they polled. True if there are
 * any. */
static bool revive(spc__sim_worker *worker)
{
    bool any = false;
    for (int i = 0; i < worker->block_count; i++) {
        spc__sim_block *block = &worker->blocks[i];
        for (int w = 0; w < block->warp_count; w++) {
            uint32_t lanes = block->warps[w].yielded;
            block->warps[w].yielded = 0;
            if (lanes)
                make_ready(&block->warps[w], lanes);
            any |= lanes != 0;
        }
    }
    return any;
}

/* ---- deadlocks ------------------------------------------------------- */

enum {
    /* rounds of polling; without other threads it would never end */
    MANY_ROUNDS = 1 << 14,
    ALL_SECONDS = 1,  /* limit for polling by all workers */
    SOME_SECONDS = 20 /* limit for polling while other workers run without
                       * progress */
};

/* Finds a thread that has ended, or one that waits at another place than
 * `other`. */
static spc_sim_thread *first_thread(spc__sim_worker *worker, bool done,
                                    const spc_sim_place *other)
{
    for (int i = 0; i < worker->block_count; i++)
        for (int w = 0; w < worker->blocks[i].warp_count; w++) {
            spc__sim_warp *warp = &worker->blocks[i].warps[w];
            for (int lane = 0; lane < 32; lane++) {
                if (!(warp->members & 1u << lane))
                    continue;
                spc_sim_thread *thread = warp->lanes[lane];
                if (((warp->done >> lane & 1u) != 0) == done &&
                    (done || (thread->place && thread->place != other)))
                    return thread;
            }
        }
    return NULL;
}

/* Reports a deadlock: where a thread waits, and where another thread waits
 * instead. */
static void deadlock(spc_sim_thread *self)
{
    spc__sim_worker *worker = spc__sim_block_of(self)->worker;
    spc_sim_thread *waiter = first_thread(worker, false, NULL);
    if (!waiter)
        waiter = self;
    const spc_sim_place *place = waiter->place;
    spc_sim_thread *other = first_thread(worker, false, place);
    spc_sim_thread *ended = first_thread(worker, true, NULL);
    char rest[256];

    if (other)
        snprintf(rest, sizeof(rest), "thread %d in %s at %s:%d", other->thread,
                 other->place->primitive, other->place->file,
                 other->place->line);
    else if (ended)
        snprintf(rest, sizeof(rest), "thread %d has ended", ended->thread);
    else
        snprintf(rest, sizeof(rest), "all others with it");
    spc__sim_fault(waiter, "deadlock: it waits in %s at %s:%d, %s",
                   place ? place->primitive : "?", place ? place->file : "?",
                   place ? place->line : 0, rest);
}

void spc__sim_progress(spc__sim_launch *launch)
{
    atomic_fetch_add_explicit(&launch->progress, 1, memory_order_relaxed);
}

static void set_polling(spc__sim_worker *worker, bool polling)
{
    if (worker->polling != polling)
        atomic_fetch_add(&worker->launch->polling, polling ? 1 : -1);
    worker->polling = polling;
}

/* True if no worker has progressed for so long that the launch must have
 * deadlocked. */
static bool hopeless(const spc__sim_worker *worker)
{
    const spc__sim_launch *launch = worker->launch;
    int workers = atomic_load(&launch->workers);
    /* A single worker that polls in vain will never get out. With others, only
     * time can tell. */
    if (worker->idle_rounds < MANY_ROUNDS || workers == 1)
        return worker->idle_rounds >= MANY_ROUNDS;
    uint64_t idle_ns = spc__now_ns() - worker->idle_since_ns;
    bool all = atomic_load(&launch->polling) == workers;
    return idle_ns > (all ? ALL_SECONDS : SOME_SECONDS) * 1000000000ull;
}

/* All threads of this worker poll. Other workers may still end the wait. */
static void idle(spc_sim_thread *self)
{
    spc__sim_worker *worker = spc__sim_block_of(self)->worker;
    spc__sim_launch *launch = worker->launch;
    long long progress =
        atomic_load_explicit(&launch->progress, memory_order_relaxed);

    if (atomic_load(&launch->failed))
        spc__sim_fault(self, "stopped, because another block failed");
    if (progress != worker->seen_progress) {
        worker->seen_progress = progress;
        worker->idle_rounds = 0;
        set_polling(worker, false);
        return;
    }
    if (worker->idle_rounds++ == 0)
        worker->idle_since_ns = spc__now_ns();
    set_polling(worker, worker->idle_rounds >= MANY_ROUNDS);
    if (hopeless(worker))
        deadlock(self);
    /* Another worker may need this core to make the progress that this one
     * waits for. */
    if (atomic_load(&launch->workers) > 1)
        sched_yield();
}

/* Picks the next thread among all warps, from this block on. */
static spc_sim_thread *pick_far(spc_sim_thread *self)
{
    spc__sim_block *here = spc__sim_block_of(self);
    spc__sim_worker *worker = here->worker;
    int start = (int)(here - worker->blocks);
    if (worker->launch->options->order == SPC__SIM_RANDOM)
        start = (int)(draw(worker) % (uint64_t)worker->block_count);
    for (;;) {
        spc_sim_thread *next = search(worker, start);
        if (next)
            return next;
        if (!revive(worker))
            deadlock(self);
        idle(self);
    }
}

/* Picks the next thread. */
static inline spc_sim_thread *pick(spc_sim_thread *self)
{
    spc__sim_warp *warp = spc__sim_warp_of(self);
    spc__sim_order order = warp->block->worker->launch->options->order;
    /* The common cases stay in the warp and need no search. For a random order,
     * all warps are considered. */
    if (warp->ready && order == SPC__SIM_FORWARD)
        return take(warp, lowest(warp->ready));
    if (warp->ready && order == SPC__SIM_REVERSE)
        return take(warp, highest(warp->ready));
    return pick_far(self);
}

spc_sim_thread *spc__sim_schedule_first(spc__sim_worker *worker)
{
    int start = 0;
    if (worker->launch->options->order == SPC__SIM_REVERSE)
        start = worker->block_count - 1;
    return search(worker, start);
}

/* Runs other fibers until one makes this thread ready. */
static inline void leave(spc_sim_thread *self)
{
    spc_sim_thread *next = pick(self);
    if (next != self)
        spc__sim_fiber_switch(self, next);
}

/* ---- waiting --------------------------------------------------------- */

_Noreturn static void diverged(spc_sim_thread *self, const spc_sim_place *place)
{
    const spc__sim_warp *warp = spc__sim_warp_of(self);
    spc__sim_fault(self,
                   "divergence: it is in %s at %s:%d, but thread %d of its "
                   "warp waits in %s at %s:%d",
                   place->primitive, place->file, place->line,
                   warp->lanes[warp->first]->thread, warp->place->primitive,
                   warp->place->file, warp->place->line);
}

_Noreturn static void deserted(spc_sim_thread *self, const spc_sim_place *place)
{
    const spc__sim_warp *warp = spc__sim_warp_of(self);
    spc__sim_fault(self,
                   "divergence: it is in %s at %s:%d, but thread %d of its "
                   "warp has ended",
                   place->primitive, place->file, place->line,
                   warp->lanes[lowest(warp->done)]->thread);
}

/* Enters a wait that all lanes of the warp must join at one source position
 * (only __syncwarp() may be called from several). */
static inline void join(spc_sim_thread *self, int op,
                        const spc_sim_place *place)
{
    spc__sim_warp *warp = spc__sim_warp_of(self);
    /* The first lane to arrive decides where the warp is. */
    if (!(warp->arrived | warp->held)) {
        warp->place = place;
        warp->op = op;
        warp->first = self->lane;
    } else if (warp->place != place &&
               !(op == SPC_SIM_SYNC && warp->op == SPC_SIM_SYNC)) {
        diverged(self, place);
    }
    self->place = place;
}

void spc__sim_gather(spc_sim_thread *self, int op, const spc_sim_place *place)
{
    spc__sim_warp *warp = spc__sim_warp_of(self);
    /* Shuffles and votes order nothing, as on the device. */
    char *token = op == SPC_SIM_SYNC || op == SPC_SIM_ORDERED
                      ? &warp->sync[self->turn]
                      : NULL;

    join(self, op, place);
    if (warp->done)
        deserted(self, place);
    /* Lanes release before the last lane can continue, and acquire after it. */
    if (token)
        spc__sim_release(token);
    warp->arrived |= 1u << self->lane;
    if (warp->arrived == warp->members) {
        warp->arrived = 0;
        /* The last lane computes the result for all. */
        if (op >= SPC_SIM_BALLOT)
            spc__sim_complete(self, op, place, __builtin_return_address(0));
        make_ready(warp, warp->members);
    }
    leave(self);
    self->place = NULL;
    if (token)
        spc__sim_acquire(token);
    /* The wgmma belongs to all lanes of the warp, so each lane acquires its
     * reads. */
    if (op == SPC_SIM_WGMMA_WAIT)
        spc__sim_acquire(&warp->sync[2]);
}

/* Releases the threads that wait at a barrier. */
static void open_barrier(spc__sim_block *block, spc__sim_barrier *barrier)
{
    for (int w = 0; w < block->warp_count; w++) {
        spc__sim_warp *warp = &block->warps[w];
        if (!barrier->waiting[w])
            continue;
        warp->held &= ~barrier->waiting[w];
        make_ready(warp, barrier->waiting[w]);
        barrier->waiting[w] = 0;
    }
    barrier->arrived = 0;
    /* Two tokens in turn: a thread that is already at the next barrier must not
     * be ordered before those that still leave this one. */
    barrier->phase ^= 1;
    spc__sim_progress(block->worker->launch);
}

void spc__sim_barrier_wait(spc_sim_thread *self, int id, int threads,
                           const spc_sim_place *place)
{
    spc__sim_warp *warp = spc__sim_warp_of(self);
    spc__sim_block *block = warp->block;
    if (id < 0 || id >= SPC__SIM_BARRIERS ||
        (threads % 32 != 0 && threads != block->threads) ||
        threads > block->threads || threads <= 0)
        spc__sim_fault(self,
                       "%s at %s:%d: barrier %d for %d threads; right would be "
                       "0 to 15 and a multiple of 32 up to %d",
                       place->primitive, place->file, place->line, id, threads,
                       block->threads);

    spc__sim_barrier *barrier = &block->barriers[id];
    /* Reads the phase before the barrier can open, which changes it. */
    char *token = &barrier->sync[barrier->phase];
    join(self, SPC_SIM_EXCHANGE, place);
    if (barrier->arrived == 0)
        barrier->expected = threads;
    else if (barrier->expected != threads)
        spc__sim_fault(self,
                       "%s at %s:%d: barrier %d for %d threads, which others "
                       "wait at for %d",
                       place->primitive, place->file, place->line, id, threads,
                       barrier->expected);
    spc__sim_release(token);
    spc__sim_phases_meet(self, id, false);
    warp->held |= 1u << self->lane;
    barrier->waiting[warp->index] |= 1u << self->lane;
    if (++barrier->arrived == barrier->expected)
        open_barrier(block, barrier);
    leave(self);
    self->place = NULL;
    spc__sim_acquire(token);
    spc__sim_phases_meet(self, id, true);
}

void spc__sim_yield(spc_sim_thread *self, const spc_sim_place *place)
{
    spc__sim_warp *warp = spc__sim_warp_of(self);
    self->place = place;
    /* The lane is not ready again until no other thread is: polling must not
     * starve the threads that it waits for. */
    warp->yielded |= 1u << self->lane;
    leave(self);
    self->place = NULL;
}

/* Threads that have ended do not arrive and are not waited for. */
static bool all_arrived(const spc__sim_worker *worker)
{
    int live = 0;

    for (int i = 0; i < worker->block_count; i++)
        live += worker->blocks[i].live;
    return worker->cluster_arrived == live;
}

void spc__sim_cluster_sync(spc_sim_thread *self, const spc_sim_place *place)
{
    spc__sim_worker *worker = spc__sim_block_of(self)->worker;
    int phase = worker->cluster_phase;
    char *token = &worker->blocks[0].cluster_sync[phase];

    spc__sim_release(token);
    spc__sim_phases_meet_cluster(self, false);
    worker->cluster_arrived++;
    /* Also checked by threads that wait, since a thread may end and thereby
     * complete the barrier. */
    while (worker->cluster_phase == phase) {
        if (all_arrived(worker)) {
            worker->cluster_arrived = 0;
            worker->cluster_phase ^= 1;
            spc__sim_progress(worker->launch);
        } else {
            spc__sim_yield(self, place);
        }
    }
    spc__sim_acquire(token);
    spc__sim_phases_meet_cluster(self, true);
}

void spc__sim_schedule_end(spc_sim_thread *self)
{
    spc__sim_warp *warp = spc__sim_warp_of(self);
    spc__sim_block *block = warp->block;
    spc__sim_worker *worker = block->worker;

    warp->done |= 1u << self->lane;
    /* The other lanes wait for one that never comes. */
    if (warp->arrived) {
        spc_sim_thread *waiting = warp->lanes[warp->first];
        deserted(waiting, warp->place);
    }
    spc__sim_release(&worker->launch->end);
    if (warp->done == warp->members)
        spc__sim_progress(worker->launch);
    if (--block->live == 0 && --worker->live_blocks == 0)
        spc__sim_fiber_leave(self, &worker->main);
    else
        spc__sim_fiber_leave(self, pick(self));
}
