/*
 * sim_phases.c - what warps know of the phases of barriers in shared memory.
 *
 * A wait is for a parity, so it must not meet a barrier that is a phase behind:
 * that shows the parity of the phase before the one that is still to end, and
 * the wait returns though nothing has come. Whether a barrier is ever behind in
 * a run is a matter of the schedule, and most schedules of the emulation are
 * fair. So each wait is held to what its warp can know: that the phase before
 * the one it awaits has ended, from waits of its own, or of others who arrived,
 * having seen it, at a barrier that it waited for. Where it does not know, some
 * schedule has the barrier a phase behind.
 *
 * Of what a lane knows its warp does. Knowledge that goes through memory alone
 * is not followed; no kernel's waits depend on such.
 */
#include "device/sim.h"

#include <stdlib.h>
#include <string.h>

enum { PARITIES = 2 };

/* Of each barrier by its number, how many phases have ended. */
typedef struct seen {
    uint32_t ended[SPC__SIM_MBARS];
} seen;

struct spc__sim_phases {
    int blocks;
    int count; /* of barriers that were initialised */
    uint32_t ended[SPC__SIM_MBARS];
    /* What those knew who arrived. */
    seen told[SPC__SIM_MBARS][PARITIES];
    seen block_barriers[SPC__SIM_CLUSTER][SPC__SIM_BARRIERS], cluster;
    seen warps[SPC__SIM_CLUSTER][SPC__SIM_WARPS];
};

spc__sim_phases *spc__sim_phases_create(void)
{
    return calloc(1, sizeof(spc__sim_phases));
}

/* Between blocks: the race checker sees what memset() does. */
void spc__sim_phases_reset(spc__sim_phases *all, int blocks)
{
    size_t used = (size_t)all->blocks, count = (size_t)all->count;

    all->blocks = blocks;
    all->count = 0;
    if (count == 0)
        return;
    memset(all->ended, 0, sizeof(all->ended));
    memset(all->told, 0, count * sizeof(all->told[0]));
    memset(all->block_barriers, 0, used * sizeof(all->block_barriers[0]));
    memset(&all->cluster, 0, sizeof(all->cluster));
    memset(all->warps, 0, used * sizeof(all->warps[0]));
}

static spc__sim_phases *phases_of(const spc_sim_thread *self)
{
    return spc__sim_block_of(self)->worker->phases;
}

static seen *warp_of(spc__sim_phases *all, const spc_sim_thread *self)
{
    const spc__sim_warp *warp = spc__sim_warp_of(self);

    return &all->warps[warp->block - warp->block->worker->blocks][warp->index];
}

static void add(seen *to, const seen *from, int count)
{
    for (int i = 0; i < count; i++)
        if (from->ended[i] > to->ended[i])
            to->ended[i] = from->ended[i];
}

/* A barrier without spc_mbar_init may have any number. */
static bool is_followed(const spc__sim_phases *all, int bar)
{
    return all != NULL && bar < all->count;
}

int spc__sim_phases_begin(const spc_sim_thread *self)
{
    spc__sim_phases *all = phases_of(self);

    return all != NULL && all->count < SPC__SIM_MBARS ? all->count++
                                                      : SPC__SIM_MBARS;
}

void spc__sim_phases_arrive(const spc_sim_thread *self, int bar)
{
    spc__sim_phases *all = phases_of(self);

    if (is_followed(all, bar))
        add(&all->told[bar][all->ended[bar] % PARITIES], warp_of(all, self),
            all->count);
}

void spc__sim_phases_end(const spc_sim_thread *self, int bar)
{
    spc__sim_phases *all = phases_of(self);

    if (is_followed(all, bar))
        all->ended[bar]++;
}

int64_t spc__sim_phases_await(spc_sim_thread *self, int bar, int parity,
                              const spc_sim_place *place)
{
    spc__sim_phases *all = phases_of(self);

    if (!is_followed(all, bar))
        return 0;
    int64_t now = all->ended[bar];
    int64_t awaited = now % PARITIES == parity ? now : now - 1;
    if (awaited > warp_of(all, self)->ended[bar])
        spc__sim_fault(
            self,
            "%s at %s:%d: it awaits phase %lld of the barrier, by its parity, "
            "but nothing that its warp has waited for says that phase %lld has "
            "ended: before that, the wait returns for the phase before",
            place->primitive, place->file, place->line, (long long)awaited,
            (long long)awaited - 1);
    return awaited;
}

void spc__sim_phases_see(const spc_sim_thread *self, int bar, int64_t phase)
{
    spc__sim_phases *all = phases_of(self);

    if (!is_followed(all, bar) || phase < 0)
        return;
    seen *warp = warp_of(all, self);
    add(warp, &all->told[bar][phase % PARITIES], all->count);
    if (warp->ended[bar] < phase + 1)
        warp->ended[bar] = (uint32_t)phase + 1;
}

/* Who leaves a barrier of the block or of the cluster knows what those knew who
 * arrived. */
static void meet(const spc_sim_thread *self, seen *at, bool leaves)
{
    spc__sim_phases *all = phases_of(self);
    seen *warp = warp_of(all, self);

    add(leaves ? warp : at, leaves ? at : warp, all->count);
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
