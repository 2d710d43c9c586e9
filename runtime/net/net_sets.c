/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_sets.c - the sets and maps of a planned network, reserved once: their
 * capacities and extents, and what a sample says of their sizes.
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

/* Voxels of the grid along an axis, as far as the network's shape goes. */
static int cells_of(const spc_net *net, int axis)
{
    const spc_net_input *input = &net->input;
    int cells = spc__voxel_cells(input->low[axis], input->high[axis],
                                 input->voxel[axis]);

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
                         "network '%s' does not say how points become voxels: "
                         "its input has no voxel, low and high",
                         net->name);
    for (int a = 0; a < 3; a++) {
        out->voxel[a] = input->voxel[a];
        out->low[a] = input->low[a];
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

static spc_status reserve_input(spc_net_plan *plan)
{
    const spc__net_set *set = &plan->net->sets[0];
    spc_coords_options o = {
        .capacity = plan->options.capacity,
        .halo = widest(plan),
        .duplicates = plan->options.duplicates,
    };

    memcpy(o.low, plan->options.low, sizeof(o.low));
    memcpy(o.high, plan->options.high, sizeof(o.high));
    bool gridded = plan->options.points > 0;
    for (int a = 0; a < 3 && (set->shape[0] > 0 || gridded); a++) {
        o.low[1 + a] = 0;
        o.high[1 + a] =
            (set->shape[a] > 0 ? set->shape[a] : cells_of(plan->net, a)) - 1;
    }
    return spc_coords_reserve(&plan->sets[0], plan->ctx, &o);
}

/* Voxels merge where an axis has a stride. Along an axis of stride 1 each voxel
 * makes as many as the kernel is long, so `growth`, which is what scans show on
 * strided levels, is too little there. */
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
    dilation = spc__geometry_fan_out(g); /* also of lists of offsets */
    return growth > dilation ? growth : dilation;
}

/* 0: the rule's bound. Rules that make no more voxels than they find, or that
 * are there to make more, have room for all. */
static int64_t outputs_capacity(const spc_net_plan *plan,
                                const spc__net_set *set)
{
    const spc_net_options *o = &plan->options;
    int64_t bound = spc_coords_capacity(plan->sets[set->from[0]]) *
                    spc__geometry_fan_out(&set->rule);
    double scale, times = spc__net_set_times(&scale, set, o->growth);
    double most = times * scale * (double)o->capacity;
    int64_t places = (int64_t)o->high[0] - o->low[0] + 1;

    if (set->rule.rule != SPC_RULE_FOOTPRINT || o->growth == 0)
        return 0;
    for (int a = 0; a < 3; a++)
        places = places < bound ? places * set->shape[a] : places;
    if (most >= (double)bound || (places > 0 && most >= (double)places))
        return 0;
    return (int64_t)most;
}

/* So many slots there are: rows of the sources times their children. */
static int64_t slots_of(const spc_net_plan *plan, const spc__net_set *set)
{
    int64_t rows = 0;

    for (int i = 0; i < set->sources; i++)
        rows += spc_coords_capacity(plan->sets[set->from[i]]);
    return rows * set->how.split[0] * set->how.split[1] * set->how.split[2];
}

/* 0: as many as there are slots. */
static int64_t regrouped_capacity(const spc_net_plan *plan,
                                  const spc__net_set *set)
{
    double room = ceil(set->room * (double)plan->options.capacity);

    return room < (double)slots_of(plan, set) ? (int64_t)room : 0;
}

static spc_status reserve_regrouped(spc_net_plan *plan, spc_coords **out,
                                    const spc__net_set *set)
{
    spc_coords *sources[SPC__NET_SOURCES];

    for (int i = 0; i < set->sources; i++)
        sources[i] = plan->sets[set->from[i]];
    return spc_coords_reserve_regrouped(out, sources, set->sources, &set->how,
                                        regrouped_capacity(plan, set));
}

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
        status =
            spc_coords_reserve_outputs(&plan->sets[i], plan->sets[set->from[0]],
                                       &set->rule, outputs_capacity(plan, set));
    return status == SPC_OK
               ? status
               : spc__fail_prefix(spc__error_of(plan->ctx), "set %d: ", i);
}

/* An inverse map has the pairs of the map that it inverts, if that is made
 * before it. */
static void turn_map(spc_net_plan *plan, int i)
{
    for (int j = 0; j < plan->net->map_count; j++)
        if (plan->maps[j] != NULL && j != i)
            spc__map_turn(plan->maps[j], plan->maps[i]);
}

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
        turn_map(plan, i);
    return SPC_OK;
}

/* A set that is filled within a map has no work of its own; what neither names
 * is not needed. */
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
            plan->net->sets[work->set].masked) /* room for the mask */
            work->bytes = (size_t)slots_of(plan, &plan->net->sets[work->set]);
        if (work->kind == SPC_NET_MAP && status == SPC_OK)
            status = make_map(plan, work->map);
    }
    return status;
}

/* ---- the sample ---------------------------------------------------------- */

/* Without features nobody knows what a mask would leave: slots are drawn, so
 * many that they fill three quarters of the room. */
static void draw_mask(uint8_t *mask, int64_t slots, int64_t room)
{
    spc__random random;
    double stays = 0.75 * (double)room / (double)slots;

    spc__random_init(&random, 1);
    for (int64_t i = 0; i < slots; i++)
        mask[i] = (double)spc__random_unit(&random) < stays;
}

static spc_status sample_masked(spc_net_plan *plan, int set)
{
    int64_t slots = slots_of(plan, &plan->net->sets[set]);
    uint8_t *host = malloc((size_t)slots + 1);
    void *mask = NULL;
    spc_status status;

    if (host == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx), (size_t)slots);
    draw_mask(host, slots, spc_coords_capacity(plan->sets[set]));
    if ((status = spc_alloc(&mask, plan->ctx, (size_t)slots + 1)) == SPC_OK &&
        (status = spc_copy_to_device(plan->ctx, mask, host, (size_t)slots)) ==
            SPC_OK &&
        (status = spc_coords_regroup(plan->sets[set], mask, NULL)) == SPC_OK)
        status = spc_synchronize(plan->ctx); /* before the mask goes */
    spc_dealloc(plan->ctx, mask);
    free(host);
    return status;
}

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

/* A drawn mask may ask for more than there is room for, which is no mistake of
 * the sample: such levels stay empty. */
static spc_status check_sample(spc_net_plan *plan)
{
    plan->ran = true; /* as far as its sets and maps */
    spc_status status = spc_net_check(plan, NULL);

    if (status != SPC_ECAPACITY)
        return status;
    for (int i = 0; i < plan->net->set_count; i++)
        if (plan->sets[i] != NULL && !spc__net_set_is_late(plan->net, i) &&
            spc_coords_check(plan->sets[i], NULL) != SPC_OK)
            return spc_net_check(plan, NULL);
    return SPC_OK;
}

/* Sets and maps of the sample, so that kernels are chosen by its levels; or of
 * no voxels at all, which nobody checks: then capacities choose. They must have
 * been filled before layouts of them are prepared. */
spc_status spc__net_index_sample(spc_net_plan *plan)
{
    size_t bytes = 16 * (size_t)plan->options.sample_rows;
    spc_net_buffers buffers = {.rows = plan->options.sample_rows};
    void *coords = NULL;
    spc_status status;

    if ((status = spc_alloc(&coords, plan->ctx, bytes + 16)) != SPC_OK ||
        (status = spc_copy_to_device(plan->ctx, coords, plan->options.sample,
                                     bytes)) != SPC_OK)
        goto done;
    buffers.coords = coords;
    for (int i = 0; i < plan->work_count && status == SPC_OK; i++)
        status = index_one(plan, i, &buffers);
    if (status == SPC_OK)
        status = plan->options.sample_rows > 0 ? check_sample(plan)
                                               : spc_synchronize(plan->ctx);
    if (status != SPC_OK)
        spc__fail_prefix(spc__error_of(plan->ctx), "the sample: ");
done:
    spc_dealloc(plan->ctx, coords);
    return status;
}
