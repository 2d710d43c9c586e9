/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_sets.c - reserves the sets and maps of a planned network once: their
 * capacities and extents, and their sizes in a sample.
 */
#include "net/net_plan.h"

#include "base/error.h"
#include "base/random.h"
#include "context/ctx.h"
#include "coords/map.h"
#include "coords/voxelise.h"
#include "operators/geometry.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- points -------------------------------------------------------------- */

/* Number of voxels along an axis: the network's shape. */
static int cells_of(const spc_net *net, int axis)
{
    const spc_net_input *input = &net->input;
    int cells = spc__voxel_cells(input->low[axis], input->high[axis],
                                 input->voxel[axis]);

    /* A shape smaller than the grid cuts it off at the far end. */
    return input->shape[axis] > 0 && input->shape[axis] < cells
               ? input->shape[axis]
               : cells;
}

spc_status spc_net_voxelisation(spc_voxelisation *out, const spc_net *net,
                                int batches, spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "out", out, "net", net, NULL);

    if (status != SPC_OK)
        return status;
    const spc_net_input *input = &net->input;
    *out = (spc_voxelisation)SPC_VOXELISATION_INIT;
    if (!(input->voxel[0] > 0))
        return spc__fail(error, SPC_EINVAL,
                         "network '%s' cannot turn points into voxels: its "
                         "input has no voxel, low and high",
                         net->name);
    for (int a = 0; a < 3; a++) {
        out->voxel[a] = input->voxel[a];
        out->low[a] = input->low[a];
        /* Computes the bound from the number of voxels, so that rounding cannot
         * add or lose one. */
        out->high[a] = input->low[a] + input->voxel[a] * cells_of(net, a);
    }
    out->columns = input->channels;
    out->points = input->points;
    out->dtype = input->dtype;
    out->batched = batches > 1;
    out->batches = batches;
    return spc_voxelisation_check(out, error);
}

spc_status spc__net_make_voxels(spc_net_plan *plan)
{
    spc_voxelisation how;
    spc_status status;

    if (plan->options.points == 0)
        return SPC_OK;
    status = spc_net_voxelisation(&how, plan->net, plan->options.high[0] + 1,
                                  spc__error_of(plan->ctx));
    if (status == SPC_OK)
        status =
            spc_voxels_create(&plan->voxels, plan->ctx, &how,
                              plan->options.points, plan->options.capacity);
    return status == SPC_OK
               ? status
               : spc__fail_prefix(spc__error_of(plan->ctx), "the points: ");
}

/* ---- sets ---------------------------------------------------------------- */

/* How far maps look past the voxels of a set. */
static int widest(const spc_net_plan *plan)
{
    /* A halo of 0 would mean the default of a set. */
    int64_t most = 1;

    for (int i = 0; i < plan->net->map_count; i++) {
        const spc__net_map *map = &plan->net->maps[i];
        spc__guard guard;
        spc__guard_for(&guard, &map->geometry, map->inverse);
        for (int a = 1; a < 4; a++) {
            most = guard.before[a] > most ? guard.before[a] : most;
            most = guard.after[a] > most ? guard.after[a] : most;
        }
    }
    return (int)most;
}

/* Reserves the input's set. */
static spc_status reserve_input(spc_net_plan *plan)
{
    const spc__net_set *set = &plan->net->sets[0];
    spc_coords_options o = {
        .bytes = sizeof(spc_coords_options),
        .capacity = plan->options.capacity,
        /* Derived sets inherit these guard bands, so they must be wide enough
         * for the maps of all levels. */
        .halo = widest(plan),
        .duplicates = plan->options.duplicates,
    };

    memcpy(o.low, plan->options.low, sizeof(o.low));
    memcpy(o.high, plan->options.high, sizeof(o.high));
    bool gridded = plan->options.points > 0;
    for (int a = 0; a < 3 && (set->shape[0] > 0 || gridded); a++) {
        /* A network with a shape or a grid numbers its voxels from 0, whatever
         * the options say. */
        o.low[1 + a] = 0;
        o.high[1 + a] =
            (set->shape[a] > 0 ? set->shape[a] : cells_of(plan->net, a)) - 1;
    }
    return spc_coords_create_reserved(&plan->sets[0], plan->ctx, &o);
}

/* Along an axis with a stride, voxels merge. Along an axis of stride 1 each
 * voxel makes as many as the kernel is long. `growth` was observed on strided
 * levels of scans, so it is too small there. */
double spc__net_set_times(double *scale, const spc__net_set *set, double growth)
{
    const spc_geometry *g = &set->rule;
    double dilation = 1;
    bool strided = false;

    for (int a = 0; a < 3; a++) {
        strided |= g->stride[a] > 1;
        dilation *= g->stride[a] > 1 ? 1 : g->kernel[a];
    }
    *scale = strided ? dilation : 1;
    if (strided)
        return growth;
    dilation = spc__geometry_fan_out(g); /* also correct for lists of offsets */
    return growth > dilation ? growth : dilation;
}

/* Returns 0 for the rule's bound: rules that never make more voxels than their
 * inputs, and generative rules, get capacity for all. */
static int64_t outputs_capacity(const spc_net_plan *plan,
                                const spc__net_set *set)
{
    const spc_net_options *o = &plan->options;
    int64_t bound = spc_coords_capacity(plan->sets[set->from[0]]) *
                    spc__geometry_fan_out(&set->rule);
    double scale, times = spc__net_set_times(&scale, set, o->growth);
    double most = times * scale * (double)o->capacity;
    int64_t positions = (int64_t)o->high[0] - o->low[0] + 1;

    if (set->rule.rule != SPC_RULE_FOOTPRINT || o->growth == 0)
        return 0;
    /* The loop stops at the bound, so the product cannot overflow. */
    for (int a = 0; a < 3; a++)
        positions = positions < bound ? positions * set->shape[a] : positions;
    /* In double: the product of capacity and growth may exceed 64 bits. */
    if (most >= (double)bound || (positions > 0 && most >= (double)positions))
        return 0;
    return (int64_t)most;
}

/* Number of slots: rows of the sources times children. */
static int64_t slots_of(const spc_net_plan *plan, const spc__net_set *set)
{
    int64_t rows = 0;

    for (int i = 0; i < set->sources; i++)
        rows += spc_coords_capacity(plan->sets[set->from[i]]);
    return rows * set->how.split[0] * set->how.split[1] * set->how.split[2];
}

/* Returns 0 for as many rows as slots. */
static int64_t regrouped_capacity(const spc_net_plan *plan,
                                  const spc__net_set *set)
{
    double wanted = ceil(set->room * (double)plan->options.capacity);

    return wanted < (double)slots_of(plan, set) ? (int64_t)wanted : 0;
}

static spc_status reserve_regrouped(spc_net_plan *plan, spc_coords **out,
                                    const spc__net_set *set)
{
    spc_coords *sources[SPC__NET_SOURCES];

    for (int i = 0; i < set->sources; i++)
        sources[i] = plan->sets[set->from[i]];
    return spc_coords_create_regrouped_reserved(
        out, sources, set->sources, &set->how, regrouped_capacity(plan, set));
}

/* Reserves a set by its kind. */
static spc_status reserve_set(spc_net_plan *plan, int i)
{
    const spc__net_set *set = &plan->net->sets[i];
    spc_status status;

    if (set->cloud)
        status = spc__net_reserve_cloud(plan, i);
    else if (set->kind == SPC__NET_INPUT)
        status = reserve_input(plan);
    else if (set->kind == SPC__NET_REGROUPED)
        status = reserve_regrouped(plan, &plan->sets[i], set);
    else
        status = spc_coords_create_outputs_reserved(
            &plan->sets[i], plan->sets[set->from[0]], &set->rule,
            outputs_capacity(plan, set));
    /* Works and memory were sized by this capacity. */
    if (status == SPC_OK)
        plan->sets[i]->fixed = "it belongs to a network's plan";
    return status == SPC_OK
               ? status
               : spc__fail_prefix(spc__error_of(plan->ctx), "set %d: ", i);
}

/* An inverse map shares the search of the map that it inverts, if the plan
 * builds that map first. */
static void derive_maps(spc_net_plan *plan, int i)
{
    for (int j = 0; j < plan->net->map_count; j++)
        if (plan->maps[j] != NULL && j != i)
            spc__map_derive(plan->maps[j], plan->maps[i]);
}

/* Makes a map. An inverse map is derived from the map of the layer that it
 * inverts, if that map exists. */
static spc_status make_map(spc_net_plan *plan, int i)
{
    const spc__net_map *map = &plan->net->maps[i];
    spc_coords *in = plan->sets[map->in], *to = plan->sets[map->to];
    spc_status status =
        map->geometry.rule == SPC_RULE_RADIUS ? spc__net_make_radius(plan, i)
        : map->inverse
            ? spc_map_create_inverse(&plan->maps[i], in, to, &map->geometry)
            : spc_map_create(&plan->maps[i], in, to, &map->geometry);

    if (status != SPC_OK)
        return spc__fail_prefix(spc__error_of(plan->ctx), "map %d: ", i);
    if (map->inverse)
        derive_maps(plan, i);
    return SPC_OK;
}

/* A set that is filled together with a map has no separate work. Sets and maps
 * that no work names are not made. */
spc_status spc__net_make_sets(spc_net_plan *plan)
{
    spc_error *error = spc__error_of(plan->ctx);
    spc_status status = SPC_OK;

    plan->sets = calloc((size_t)plan->net->set_count + 1, sizeof(spc_coords *));
    plan->maps = calloc((size_t)plan->net->map_count + 1, sizeof(spc_map *));
    if (plan->sets == NULL || plan->maps == NULL)
        return spc__fail_memory(error, sizeof(spc_map *));
    for (int i = 0; i < plan->work_count && status == SPC_OK; i++) {
        spc__net_work *work = &plan->works[i];
        if (work->kind == SPC_NET_SET || work->fills)
            status = reserve_set(plan, work->set);
        if (status == SPC_OK && work->kind == SPC_NET_SET &&
            plan->net->sets[work->set].masked) /* memory for the mask */
            work->bytes = (size_t)slots_of(plan, &plan->net->sets[work->set]);
        if (work->kind == SPC_NET_MAP && status == SPC_OK)
            status = make_map(plan, work->map);
    }
    return status == SPC_OK ? spc__net_make_batches(plan) : status;
}

/* ---- the sample ---------------------------------------------------------- */

/* The sample has no features, so the result of a mask is unknown. This samples
 * slots until three quarters of the capacity are used. */
static void draw_mask(uint8_t *mask, int64_t slots, int64_t rows)
{
    spc__random random;
    double stays = 0.75 * (double)rows / (double)slots;

    /* A fixed seed: the same network gets the same kernels every time. */
    spc__random_init(&random, 1);
    for (int64_t i = 0; i < slots; i++)
        mask[i] = (double)spc__random_unit(&random) < stays;
}

/* Fills a masked set of the sample at random: the real mask needs features,
 * which a sample does not have. */
static spc_status sample_masked(spc_net_plan *plan, int set)
{
    int64_t slots = slots_of(plan, &plan->net->sets[set]);
    uint8_t *host = malloc((size_t)slots + 1);
    void *mask = NULL;
    spc_status status;

    if (host == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx), (size_t)slots);
    draw_mask(host, slots, spc_coords_capacity(plan->sets[set]));
    if ((status = spc_memory_alloc(&mask, plan->ctx, (size_t)slots + 1)) ==
            SPC_OK &&
        (status = spc_memory_upload(mask, plan->ctx, host, (size_t)slots)) ==
            SPC_OK &&
        (status = spc_coords_update_regrouped(plan->sets[set], mask, NULL)) ==
            SPC_OK)
        status = spc_ctx_synchronize(plan->ctx); /* before the mask is freed */
    spc_memory_free(plan->ctx, mask);
    free(host);
    return status;
}

/* Fills one set or map of the sample. */
static spc_status index_one(spc_net_plan *plan, int i,
                            const spc_net_buffers *buffers)
{
    const spc__net_work *work = &plan->works[i];

    if (work->kind == SPC_NET_SET && plan->net->sets[work->set].masked)
        return sample_masked(plan, work->set);
    if (work->kind == SPC_NET_MAP &&
        plan->net->maps[work->map].geometry.rule == SPC_RULE_RADIUS)
        return spc__net_fit_radius(plan, work->map);
    if (work->kind == SPC_NET_SET || work->kind == SPC_NET_MAP)
        return spc__net_work_run(plan, i, buffers, NULL);
    return SPC_OK;
}

/* A sampled mask may exceed the capacity. The sample is not wrong then; such
 * levels stay empty. */
static spc_status check_sample(spc_net_plan *plan)
{
    plan->ran = true; /* makes its sets and maps count as filled */
    spc_status status = spc_net_plan_check(plan, NULL);

    if (status != SPC_ECAPACITY)
        return status;
    /* Repeats the check for its message, which the check of the set has
     * replaced. */
    for (int i = 0; i < plan->net->set_count; i++)
        if (plan->sets[i] != NULL && !spc__net_set_is_late(plan->net, i) &&
            spc_coords_check(plan->sets[i], NULL) != SPC_OK)
            return spc_net_plan_check(plan, NULL);
    return SPC_OK;
}

/* Fills sets and maps with the sample, so that kernels are chosen for its
 * levels. Without a sample they are filled with no voxels and never checked, so
 * kernels are chosen by capacity. Layouts can be prepared only after a fill. */
spc_status spc__net_index_sample(spc_net_plan *plan)
{
    size_t bytes = 16 * (size_t)plan->options.sample_rows;
    spc_net_buffers buffers = {.bytes = sizeof(spc_net_buffers),
                               .rows = plan->options.sample_rows};
    void *coords = NULL;
    spc_status status;

    /* 16 bytes more, as an empty sample needs a pointer as well. */
    if ((status = spc_memory_alloc(&coords, plan->ctx, bytes + 16)) != SPC_OK ||
        (status = spc_memory_upload(coords, plan->ctx, plan->options.sample,
                                    bytes)) != SPC_OK)
        goto done;
    buffers.coords = coords;
    for (int i = 0; i < plan->work_count && status == SPC_OK; i++)
        status = index_one(plan, i, &buffers);
    if (status == SPC_OK)
        status = plan->options.sample_rows > 0 ? check_sample(plan)
                                               : spc_ctx_synchronize(plan->ctx);
    if (status != SPC_OK)
        spc__fail_prefix(spc__error_of(plan->ctx), "the sample: ");
done:
    spc_memory_free(plan->ctx, coords);
    return status;
}
