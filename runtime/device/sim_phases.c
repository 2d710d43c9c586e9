/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_phases.c - tracks what warps know about the phases of barriers in shared
 * memory.
 *
 * A wait names a phase only by its parity, so it can go wrong in two ways. If
 * the barrier is one phase behind, it shows the parity of the phase before the
 * awaited one, and the wait returns although nothing has arrived. If the
 * barrier is one phase ahead, the awaited phase and the next one have ended, or
 * the wait waits for the next one instead, usually forever.
 *
 * Whether either happens in a run depends on the schedule, and most schedules
 * of the emulation are fair. Both cases are therefore checked by conditions
 * that must hold in all schedules:
 *
 *   behind  The warp must know that the phase before the awaited one is over,
 *           from its own waits, or from those of other threads that later
 *           arrived at a barrier that the warp waited for.
 *   ahead   A phase may end only if the threads that arrived in it know that
 *           every wait for the previous phase is over.
 *
 * Each warp's knowledge is the union of what its lanes know: the phases that
 * have ended of each barrier, and a vector clock of waits. Knowledge that
 * passes only through memory is not tracked; no kernel's waits depend on it.
 */
#include "device/sim.h"

#include <stdlib.h>
#include <string.h>

enum { PARITIES = 2, WARPS = SPC__SIM_CLUSTER * SPC__SIM_WARPS };

typedef struct seen {
    uint32_t ended[SPC__SIM_MBARS]; /* phases of each barrier, by its number */
    uint32_t waits[WARPS];          /* finished waits of each warp */
} seen;

struct spc__sim_phases {
    int blocks;
    int count;     /* number of initialised barriers */
    bool too_many; /* too many barriers to track, so tracking is off */
    uint32_t ended[SPC__SIM_MBARS];
    /* The number of each warp's last wait for a phase of that parity, or 0. */
    uint32_t last_wait[SPC__SIM_MBARS][PARITIES][WARPS];
    /* The knowledge of the threads that arrived. */
    seen told[SPC__SIM_MBARS][PARITIES];
    seen block_barriers[SPC__SIM_CLUSTER][SPC__SIM_BARRIERS], cluster;
    seen warps[SPC__SIM_CLUSTER][SPC__SIM_WARPS];
};

spc__sim_phases *spc__sim_phases_create(void)
{
    return calloc(1, sizeof(spc__sim_phases));
}

/* Called between blocks, because the race checker sees memset(). */
void spc__sim_phases_reset(spc__sim_phases *all, int blocks)
{
    size_t used = (size_t)all->blocks, count = (size_t)all->count;

    all->blocks = blocks;
    all->count = 0;
    all->too_many = false;
    if (count == 0)
        return;
    /* Only the part that was used is cleared, as the whole takes megabytes. */
    memset(all->ended, 0, sizeof(all->ended));
    memset(all->last_wait, 0, count * sizeof(all->last_wait[0]));
    memset(all->told, 0, count * sizeof(all->told[0]));
    memset(all->block_barriers, 0, used * sizeof(all->block_barriers[0]));
    memset(&all->cluster, 0, sizeof(all->cluster));
    memset(all->warps, 0, used * sizeof(all->warps[0]));
}

static spc__sim_phases *phases_of(const spc_sim_thread *self)
{
    return spc__sim_block_of(self)->worker->phases;
}

/* Returns the number of its warp in the cluster. */
static int number_of(const spc_sim_thread *self)
{
    const spc__sim_warp *warp = spc__sim_warp_of(self);
    long block = warp->block - warp->block->worker->blocks;

    return (int)block * SPC__SIM_WARPS + warp->index;
}

static seen *warp_of(spc__sim_phases *all, const spc_sim_thread *self)
{
    return &all->warps[0][0] + number_of(self);
}

static void join(uint32_t *to, const uint32_t *from, int count)
{
    /* Knowledge never shrinks, so joining takes the later of both. */
    for (int i = 0; i < count; i++)
        to[i] = from[i] > to[i] ? from[i] : to[i];
}

static void add(const spc__sim_phases *all, seen *to, const seen *from)
{
    join(to->ended, from->ended, all->count);
    join(to->waits, from->waits, all->blocks * SPC__SIM_WARPS);
}

/* A barrier without spc_mbar_init may have any number. */
static bool is_followed(const spc__sim_phases *all, int bar)
{
    return all != NULL && !all->too_many && bar < all->count;
}

int spc__sim_phases_begin(const spc_sim_thread *self)
{
    spc__sim_phases *all = phases_of(self);

    if (all == NULL || all->count == SPC__SIM_MBARS) {
        if (all != NULL)
            all->too_many = true;
        return SPC__SIM_MBARS;
    }
    return all->count++;
}

void spc__sim_phases_arrive(const spc_sim_thread *self, int bar)
{
    spc__sim_phases *all = phases_of(self);

    /* Arrivals count for the phase that is now under way. */
    if (is_followed(all, bar))
        add(all, &all->told[bar][all->ended[bar] % PARITIES],
            warp_of(all, self));
}

/* Faults if a wait for the phase before the ending one may still be active. */
static void check_ahead(spc__sim_phases *all, spc_sim_thread *self, int bar)
{
    uint32_t phase = all->ended[bar];
    const seen *told = &all->told[bar][phase % PARITIES];
    /* The previous phase has the other parity. */
    const uint32_t *last = all->last_wait[bar][(phase + 1) % PARITIES];

    for (int w = 0; w < all->blocks * SPC__SIM_WARPS; w++)
        if (last[w] > told->waits[w])
            spc__sim_fault(
                self,
                "it ends phase %lld of a barrier, but no thread that arrived "
                "for it is ordered after the wait of warp %d of the cluster's "
                "block %d for the previous phase: with a later wait, the warp "
                "would wait for a phase that has passed",
                (long long)phase, w % SPC__SIM_WARPS, w / SPC__SIM_WARPS);
}

void spc__sim_phases_end(spc_sim_thread *self, int bar)
{
    spc__sim_phases *all = phases_of(self);

    if (!is_followed(all, bar))
        return;
    check_ahead(all, self, bar);
    all->ended[bar]++;
}

int64_t spc__sim_phases_await(spc_sim_thread *self, int bar, int parity,
                              const spc_sim_place *place)
{
    spc__sim_phases *all = phases_of(self);

    if (!is_followed(all, bar))
        return 0;
    int64_t now = all->ended[bar];
    /* If the parity is not that of the current phase, the wait is for the
     * previous phase, which is over. */
    int64_t awaited = now % PARITIES == parity ? now : now - 1;
    if (awaited > warp_of(all, self)->ended[bar])
        spc__sim_fault(self,
                       "%s at %s:%d: it waits for phase %lld of the barrier by "
                       "parity, but no earlier wait of its warp is ordered "
                       "after phase %lld: the wait may return too early, or "
                       "the barrier is a phase ahead of the warp",
                       place->primitive, place->file, place->line,
                       (long long)awaited, (long long)awaited - 1);
    /* Other lanes may be waiting too. Each of them counts. */
    int warp = number_of(self);
    uint32_t over = warp_of(all, self)->waits[warp];
    uint32_t *last = &all->last_wait[bar][awaited & 1][warp];
    *last = (*last > over ? *last : over) + 1;
    return awaited;
}

void spc__sim_phases_see(const spc_sim_thread *self, int bar, int64_t phase)
{
    spc__sim_phases *all = phases_of(self);

    if (!is_followed(all, bar))
        return;
    seen *warp = warp_of(all, self);
    int number = number_of(self);
    uint32_t *last = &all->last_wait[bar][phase & 1][number];
    if (++warp->waits[number] > *last)
        *last = warp->waits[number];
    /* A wait for the phase before the first returns at once and teaches
     * nothing. */
    if (phase < 0)
        return;
    add(all, warp, &all->told[bar][phase % PARITIES]);
    if (warp->ended[bar] < phase + 1)
        warp->ended[bar] = (uint32_t)phase + 1;
}

/* A thread that leaves a barrier of the block or of the cluster gets the
 * knowledge of the threads that arrived. */
static void meet(const spc_sim_thread *self, seen *at, bool leaves)
{
    spc__sim_phases *all = phases_of(self);
    seen *warp = warp_of(all, self);

    add(all, leaves ? warp : at, leaves ? at : warp);
}

void spc__sim_phases_meet(const spc_sim_thread *self, int id, bool leaves)
{
    spc__sim_phases *all = phases_of(self);
    const spc__sim_block *block = spc__sim_block_of(self);

    if (all != NULL && all->count > 0)
        meet(self, &all->block_barriers[block - block->worker->blocks][id],
             leaves);
}

void spc__sim_phases_meet_cluster(const spc_sim_thread *self, bool leaves)
{
    spc__sim_phases *all = phases_of(self);

    if (all != NULL && all->count > 0)
        meet(self, &all->cluster, leaves);
}
