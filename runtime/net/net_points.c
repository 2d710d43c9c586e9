/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_points.c - networks of clouds: finds the points of a layer's outputs,
 * makes clouds and maps with room for the sample, and fills them.
 */
#include "net/net_nodes.h"
#include "net/net_plan.h"

#include "base/error.h"
#include "base/plural.h"
#include "context/ctx.h"
#include "coords/map.h"
#include "coords/points/points.h"
#include <math.h>
#include <string.h>

/* Capacity as a multiple of the sample's size, as scenes differ. */
static const double slack = 2, neighbours_unknown = 32;

/* ---- which points -------------------------------------------------------- */

/* The cloud that an inverse layer returns to: the one from which its inputs
 * were sampled with its voxel size. */
static spc_status find_back(int *to, const spc_net *net, const spc_geometry *g,
                            int in, int at, spc_error *error)
{
    const spc__net_set *set = &net->sets[in];
    spc__net_set sampled;

    if (at == SPC_NO_TENSOR && set->kind != SPC__NET_OUTPUTS)
        return spc__fail(error, SPC_EINVAL,
                         "its inputs were sampled from no other cloud: there "
                         "is nothing to go back to");
    *to = at == SPC_NO_TENSOR ? set->from[0] : net->tensors[at].set;
    /* The set that this layer's voxel would sample from the candidate: it must
     * be the set of the inputs. */
    spc__net_outputs_of(&sampled, net, *to, g);
    if (g->voxel == 0 ? *to == in : spc__net_set_equal(set, &sampled))
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "its inputs are not the points that its voxel keeps of "
                     "the cloud that it goes back to");
}

spc_status spc__net_resolve_points(int *to, spc_net *net, const spc_geometry *g,
                                   bool inverse, int in, int at,
                                   spc_error *error)
{
    spc_status status = at != SPC_NO_TENSOR
                            ? spc__net_check_rows(net, at, "at", error)
                            : SPC_OK;
    spc__net_set sampled;

    if (status != SPC_OK || (status = spc_geometry_check(g, error)) != SPC_OK)
        return status;
    if (inverse)
        return find_back(to, net, g, in, at, error);
    *to = at != SPC_NO_TENSOR ? net->tensors[at].set : in;
    if (g->voxel == 0)
        return SPC_OK;
    if (at != SPC_NO_TENSOR)
        return spc__fail(
            error, SPC_EINVAL,
            "its voxel determines its outputs: `at` is for layers without one");
    spc__net_outputs_of(&sampled, net, in, g);
    *to = spc__net_find_set(net, &sampled, error);
    return *to >= 0 ? SPC_OK : SPC_ENOMEM;
}

/* ---- clouds -------------------------------------------------------------- */

static spc_points *cloud_of(const spc_net_plan *plan, int set)
{
    return spc__points_of(plan->sets[set]);
}

static bool has_sample(const spc_net_plan *plan)
{
    return plan->options.sample_rows > 0;
}

/* Scales a number from the sample to the plan's capacity, with slack. */
static double capacity_for(const spc_net_plan *plan, double of_sample)
{
    const spc_net_options *o = &plan->options;

    return ceil(slack * of_sample * (double)o->capacity /
                (double)o->sample_rows);
}

/* Waits, since the sample's rows are freed afterwards. */
static spc_status fill_with_sample(spc_net_plan *plan, spc_points *cloud,
                                   spc_error *error)
{
    const spc_net_options *o = &plan->options;
    size_t bytes = 16 * (size_t)o->sample_rows;
    void *units = NULL;
    spc_status status = spc_memory_alloc(&units, plan->ctx, bytes + 16);

    if (status == SPC_OK)
        status = spc_memory_upload(units, plan->ctx, o->sample, bytes);
    if (status != SPC_OK)
        *error = *spc__error_of(plan->ctx);
    else
        status = spc__points_fill_units(cloud, units, NULL, (int)o->sample_rows,
                                        NULL, error);
    if (status == SPC_OK)
        status = spc__points_inspect(cloud, NULL, error);
    spc_memory_free(plan->ctx, units);
    return status;
}

/* Bounds and points are multiples of 1/1024 and round alike, so fp32 rounding
 * moves no point out of the extent. */
static spc_status reserve_input(spc_points **out, spc_net_plan *plan,
                                spc_error *error)
{
    const spc_net_options *n = &plan->options;
    spc_points_options o = {.bytes = sizeof(spc_points_options),
                            n->capacity,
                            n->high[0] + 1,
                            {0},
                            {0}};
    spc_status status;

    for (int a = 0; a < 3; a++) {
        o.low[a] = (float)n->low[1 + a] * SPC_POINTS_STEP;
        o.high[a] = (float)n->high[1 + a] * SPC_POINTS_STEP;
    }
    status = spc__points_check_extent(&o, error);
    if (status == SPC_OK)
        status = spc__points_make(out, plan->ctx, &o, NULL, error);
    return status == SPC_OK && has_sample(plan)
               ? fill_with_sample(plan, *out, error)
               : status;
}

/* Samples a cloud, to count the points that a level would have. */
static spc_status sample(spc_points **out, spc_points *from, float edge,
                         int64_t capacity, spc_error *error)
{
    spc_status status =
        spc__points_make_sampled(out, from, edge, capacity, false, error);

    if (status == SPC_OK)
        status = spc__points_pick(*out, NULL, error);
    return status == SPC_OK ? spc__points_inspect(*out, NULL, error) : status;
}

/* Samples twice: first with the largest possible capacity, then with the final
 * one. */
static spc_status reserve_sampled(spc_points **out, spc_net_plan *plan,
                                  const spc__net_set *set, spc_error *error)
{
    spc_points *from = cloud_of(plan, set->from[0]), *wide;
    int64_t most = from->rows.capacity;
    float edge = set->rule.voxel;
    spc_status status;

    /* Without a sample, the capacity of the source is the only safe number. */
    if (!has_sample(plan))
        return spc__points_make_sampled(out, from, edge, most, false, error);
    *out = NULL;
    if ((status = sample(&wide, from, edge, most, error)) == SPC_OK) {
        double wanted = capacity_for(plan, (double)wide->rows.rows);
        status = sample(out, from, edge,
                        wanted < (double)most ? (int64_t)wanted : most, error);
    }
    /* The cloud with the final capacity was sampled from the source itself, so
     * the wide one is not needed. */
    spc_points_free(wide);
    return status;
}

spc_status spc__net_reserve_cloud(spc_net_plan *plan, int i)
{
    const spc__net_set *set = &plan->net->sets[i];
    spc_points *cloud = NULL;
    spc_error error = {0};
    spc_status status = set->kind == SPC__NET_INPUT
                            ? reserve_input(&cloud, plan, &error)
                            : reserve_sampled(&cloud, plan, set, &error);

    plan->sets[i] = cloud ? &cloud->rows : NULL; /* the plan frees the set */
    return status == SPC_OK ? status : spc__ctx_fail(plan->ctx, &error);
}

/* A caller's points are floats; points of a sample or scene are units. */
spc_status spc__net_fill_cloud(const spc_net_plan *plan, int set,
                               const spc_net_buffers *b, void *stream)
{
    spc_points *cloud = cloud_of(plan, set);
    spc_error error = {0};
    spc_status status;

    /* Only the input's cloud is filled by the caller; others are sampled from
     * it. */
    if (set != 0 || b->points)
        return set != 0 ? spc_points_update(cloud, NULL, NULL, NULL, 0, stream)
                        : spc_points_update(cloud, b->points, b->batch,
                                            b->count, b->rows, stream);
    if (!b->count && (b->rows < 0 || b->rows > cloud->rows.capacity))
        status = spc__fail(&error, SPC_ECAPACITY,
                           "cannot fill a cloud with %s: its capacity is %d",
                           spc__count(b->rows, "point"), cloud->rows.capacity);
    else
        status = spc__points_fill_units(cloud, b->coords, b->count,
                                        (int)b->rows, stream, &error);
    return status == SPC_OK ? status : spc__ctx_fail(plan->ctx, &error);
}

/* ---- maps ---------------------------------------------------------------- */

spc_status spc__net_make_radius(spc_net_plan *plan, int i)
{
    const spc__net_map *map = &plan->net->maps[i];
    spc_points *in = cloud_of(plan, map->in), *to = cloud_of(plan, map->to);

    return map->inverse ? spc_map_create_radius_inverse(&plan->maps[i], in, to,
                                                        &map->geometry, 0)
                        : spc_map_create_radius(&plan->maps[i], in, to,
                                                &map->geometry, 0);
}

/* The room of a map of points: stated by the user, derived from the sample, or
 * guessed. */
static int64_t triplets_for(const spc_net_plan *plan, const spc_map *map)
{
    const spc_net_options *o = &plan->options;
    /* In double, as rows times neighbours may exceed an int. */
    double rows = map->to->capacity, most = SPC_INDEX_NO_ROW - 1, wanted;

    if (o->neighbours > 0)
        wanted = o->neighbours * rows;
    else
        wanted = has_sample(plan) ? capacity_for(plan, (double)map->pairs)
                                  : neighbours_unknown * rows;
    return (int64_t)(wanted < most ? wanted : most);
}

/* Fills the map with the sample first, as its size determines the capacity. */
spc_status spc__net_fit_radius(spc_net_plan *plan, int i)
{
    spc_map *map = plan->maps[i];
    spc_error error = {0};
    spc_status status =
        has_sample(plan) ? spc__radius_fit(map, &error) : SPC_OK;

    /* A new list is empty, so the map is filled again below. */
    if (status == SPC_OK)
        status = spc__radius_reserve(map, triplets_for(plan, map), &error);
    if (status != SPC_OK)
        return spc__ctx_fail(plan->ctx, &error);
    return spc_map_update(map, NULL, NULL, 0, NULL);
}
