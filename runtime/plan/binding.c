/* SPDX-License-Identifier: Apache-2.0 */
/* binding.c - computes once the launch arguments that all launches of a plan on
 * a map share. */
#include "plan/binding.h"

#include "base/error.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- the life of a plan -------------------------------------------------- */

/* The plan holds it, and so does every binding. Its address identifies the
 * plan. Unlike the plan's address, it cannot be reused for a later plan while a
 * binding exists. */
struct spc__plan_life {
    int holders;
    bool ended;          /* the plan was freed */
    spc__binding *spare; /* memory for spc__binding_keep; NULL: already used */
};

spc_status spc__plan_life_create(spc__plan_life **out, spc_error *error)
{
    spc__plan_life *life = calloc(1, sizeof(*life));
    spc__binding *spare = calloc(1, sizeof(*spare));

    *out = NULL;
    if (life == NULL || spare == NULL) {
        free(life);
        free(spare);
        return spc__fail_memory(error, sizeof(*life) + sizeof(*spare));
    }
    life->holders = 1;
    life->spare = spare;
    *out = life;
    return SPC_OK;
}

/* Ends a holder's use of the record. */
static void leave(spc__plan_life *life)
{
    /* The last holder frees it. Acquire and release order the frees after every
     * other holder's last use. */
    if (life == NULL ||
        __atomic_sub_fetch(&life->holders, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    free(life->spare);
    free(life);
}

void spc__plan_life_end(spc__plan_life *life)
{
    if (life == NULL)
        return;
    __atomic_store_n(&life->ended, true, __ATOMIC_RELEASE);
    leave(life);
}

static bool has_ended(const spc__binding *binding)
{
    return __atomic_load_n(&binding->life->ended, __ATOMIC_ACQUIRE);
}

/* ---- what is decided ----------------------------------------------------- */

/* The number of blocks of a launch. */
static unsigned grid_of(const spc__launch_geometry *geometry, int tiles)
{
    unsigned per_block = (unsigned)geometry->tiles_per_block;
    unsigned blocks = ((unsigned)tiles + per_block - 1) / per_block;

    if (geometry->grid_x > 0)
        return geometry->grid_x;
    /* A persistent grid is not larger than its work, unless blocks share the
     * steps of one tile. */
    if (geometry->persistent > 0 &&
        (geometry->shares_tiles ||
         geometry->persistent < blocks * geometry->cluster))
        return geometry->persistent;
    return blocks * geometry->cluster;
}

/* If blocks loop over tiles, launches no more than fill the device. */
static unsigned sum_grid_of(const spc_plan *plan, int tiles)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    unsigned most =
        geometry->sum_per_sm * (unsigned)plan->ctx->info.multiprocessors;

    if (geometry->sum_grid_x > 0)
        return geometry->sum_grid_x;
    return most > 0 && most < (unsigned)tiles ? most : (unsigned)tiles;
}

void spc__binding_measure(spc__binding *binding, const spc_plan *plan)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    const spc_map_view *map = &binding->args.map;
    int rows = geometry->first_rows;

    binding->run_blocks = grid_of(geometry, map->tiles);
    binding->first_blocks = (unsigned)((map->rows_padded + rows - 1) / rows);
    binding->sum_blocks = sum_grid_of(plan, map->tiles);
    binding->out_bytes =
        spc__operand_of(&plan->conv, SPC_OPERAND_OUT, map->rows).bytes;
    binding->work_bytes = spc__plan_work_bytes(geometry, map->rows_padded, 0);
}

bool spc__binding_make(spc__binding *out, const spc_plan *plan,
                       const spc_map *map)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    int groups = geometry->groups;

    assert(groups <= SPC__ORDER_GROUPS);
    memset(&out->args, 0, sizeof(out->args));
    if (!spc__plan_view_map(&out->args, map, geometry))
        return false;
    for (int g = 0; g < groups && groups > 1; g++)
        spc__map_view_group(&out->groups[g], map, geometry->order,
                            geometry->tile_rows, g);
    /* The sum reads all rows in key order instead of a group's order. */
    if (groups > 1)
        spc__map_view_rows(&out->groups[groups], map, geometry->tile_rows);
    spc__binding_measure(out, plan);
    return true;
}

/* ---- attached to a map --------------------------------------------------- */

/* Multiplying by the golden ratio spreads addresses, whatever their distances,
 * over the highest bits. */
static int list_of(const spc_plan *plan)
{
    /* Addresses of allocations are multiples of 16, so the lowest bits have no
     * information. */
    uint32_t spread = (uint32_t)((uintptr_t)plan->life >> 4) * 0x9e3779b9u;

    return (int)(spread / (UINT32_MAX / SPC__ATTACHMENTS + 1));
}

/* The plan's binding, which may have been made for other capacities. */
static spc__binding *find_own(const spc_plan *plan, const spc_map *map)
{
    /* Acquire: the binding was written before it was linked or got its
     * owner. */
    spc__attachment *at =
        __atomic_load_n(&map->attached[list_of(plan)], __ATOMIC_ACQUIRE);

    while (at != NULL &&
           __atomic_load_n(&at->owner, __ATOMIC_ACQUIRE) != plan->life)
        at = at->next;
    return (spc__binding *)(void *)at;
}

/* True if the map still has the capacities and the lists of pairs with which
 * the binding was made. */
static bool is_current(const spc__binding *binding, const spc_plan *plan,
                       const spc_map *map)
{
    const spc_map_view *view = &binding->args.map;
    spc_pairs_view pairs;

    if (view->rows != map->to->capacity || view->rows_in != map->in->capacity)
        return false;
    /* Of the arrays only the pairs move: they are sized for the pairs of a
     * filling. */
    return !plan->geometry.reads_pairs ||
           (spc__map_pairs_view(&pairs, map) &&
            memcmp(&pairs, &binding->args.pairs, sizeof(pairs)) == 0);
}

const spc__binding *spc__binding_find(const spc_plan *plan, const spc_map *map)
{
    const spc__binding *own = find_own(plan, map);

    return own != NULL && is_current(own, plan, map) ? own : NULL;
}

static void release(spc__attachment *attachment)
{
    spc__binding *binding = (spc__binding *)(void *)attachment;

    leave(binding->life);
    free(binding);
}

/* Returns a binding of this list whose plan was freed, or NULL. Other threads
 * may search the list, but not for this binding. */
static spc__binding *find_ended(const spc_map *map, int list)
{
    spc__attachment *at =
        __atomic_load_n(&map->attached[list], __ATOMIC_ACQUIRE);

    while (at != NULL && !has_ended((spc__binding *)(void *)at))
        at = at->next;
    return (spc__binding *)(void *)at;
}

/* Searches do not find it any more. */
static void take(spc__binding *binding)
{
    __atomic_store_n(&binding->attachment.owner, NULL, __ATOMIC_RELAXED);
    leave(binding->life);
}

/* Makes it the plan's binding. Searches may find it from now on. */
static void give(spc__binding *binding, const spc_plan *plan)
{
    binding->life = plan->life;
    /* The caller holds the plan, so its life cannot end meanwhile and no order
     * is needed. */
    __atomic_add_fetch(&plan->life->holders, 1, __ATOMIC_RELAXED);
    /* Release: a search that sees the owner also sees the binding's
     * contents. */
    __atomic_store_n(&binding->attachment.owner, plan->life, __ATOMIC_RELEASE);
}

/* Other threads may add to the list at the same time. */
static void add(spc_map *map, int list, spc__binding *binding)
{
    spc__attachment **first = &map->attached[list];

    binding->attachment.release = release;
    /* Bindings are only ever added in front and never removed, so searches need
     * no lock. */
    binding->attachment.next = __atomic_load_n(first, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(first, &binding->attachment.next,
                                        &binding->attachment, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

spc_status spc__binding_attach(const spc_plan *plan, spc_map *map,
                               spc_error *error)
{
    int list = list_of(plan);
    spc__binding *listed = find_own(plan, map), *binding;
    bool prepared;

    if (listed != NULL && is_current(listed, plan, map))
        return SPC_OK;
    /* Reused memory keeps the list from growing when plans are made and freed
     * in turn. */
    if (listed == NULL)
        listed = find_ended(map, list);
    if (listed != NULL)
        take(listed);
    binding = listed != NULL ? listed : calloc(1, sizeof(*binding));
    if (binding == NULL)
        return spc__fail_memory(error, sizeof(*binding));
    prepared = spc__binding_make(binding, plan, map);
    /* spc_map_prepare() has just prepared it. */
    assert(prepared);
    (void)prepared;
    give(binding, plan);
    if (listed == NULL)
        add(map, list, binding);
    return SPC_OK;
}

void spc__binding_keep(const spc__binding *binding, const spc_plan *plan,
                       const spc_map *map)
{
    spc__binding *spare = NULL;

    /* Only spc_map_prepare() makes a binding for other capacities. Two threads
     * may get here at once, and only one of them gets the memory. */
    if (find_own(plan, map) == NULL)
        spare = __atomic_exchange_n(&plan->life->spare, NULL, __ATOMIC_ACQ_REL);
    if (spare == NULL)
        return;
    *spare = *binding;
    give(spare, plan);
    /* Callers cannot see that a const map has another attachment. */
    add((spc_map *)(uintptr_t)map, list_of(plan), spare);
}
