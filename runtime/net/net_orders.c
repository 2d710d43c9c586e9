/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_orders.c - lets layers of one map share a row order if that is faster.
 *
 * Records name the best row order for each layer alone, but every order that a
 * layer of a map reads is sorted again for every scene. The Gray orders use the
 * same kernels and differ only in which offsets share a bit, so a layer is
 * hardly slower in another one. The layers with the smaller part of a map's
 * time therefore take the order of the others. So do layers in key order if
 * they are few and have few channels: any kernel can read any order.
 */
#include "net/net_plan.h"

#include "context/ctx.h"
#include "plan/plan.h"
#include <string.h>

static const char *const alike[] = {"gray", "gray_x", "gray_y"};
enum { ALIKE = sizeof(alike) / sizeof(*alike) };

/*
 * Measured on an H200 with kitti@0.05 (docs/dev/experiments.md): a second order
 * adds 18 us to a K3 map on every level (3,820 to 82,658 rows), partly hidden
 * by work that runs at the same time. Another order costs a layer 1 % there,
 * and 15 % at a thousand rows.
 */
static const double price_us = 12, loss = 0.05;
/* Neighbours by key are neighbours in memory. With few channels all inputs fit
 * in caches; with more the loss would be larger. */
static const double loss_of_keys = 0.3;

/* True if the kernel reads rows in key order from a map that kernels sort. */
static bool reads_keys(const spc_net_plan *plan, const spc__net_work *work)
{
    const spc__launch_geometry *geometry;

    if (work->kind != SPC_NET_CONV || work->map < 0 ||
        spc__device_ops_of(plan->ctx->device)->builds_maps_on_host)
        return false;
    /* Kernels that read more than the table in key order would need their other
     * layouts in the new order as well. */
    geometry = spc__plan_launch(work->conv_plan);
    return geometry->reads_table && !geometry->reads_pairs &&
           !geometry->reads_triplets && geometry->tile_rows > 0 &&
           geometry->gemm_depth == 0 && strcmp(geometry->order, "none") == 0;
}

/* Index of the order that the work's kernel reads, or -1. */
static int order_of(const spc__net_work *work)
{
    const spc__launch_geometry *geometry;

    if (work->kind != SPC_NET_CONV || work->map < 0)
        return -1;
    geometry = spc__plan_launch(work->conv_plan);
    for (int o = 0; o < ALIKE && geometry->reads_table; o++)
        if (strcmp(geometry->order, alike[o]) == 0)
            return o;
    return -1;
}

/* Adds up the times of a map's layers by the row order that they read. */
static void find_times(double us[ALIKE], const spc_net_plan *plan, int map)
{
    memset(us, 0, ALIKE * sizeof(*us));
    for (int i = 0; i < plan->work_count; i++) {
        const spc__net_work *work = &plan->works[i];
        int order = work->map == map ? order_of(work) : -1;
        if (order >= 0)
            us[order] += spc__net_layer_us(plan, work);
    }
}

/* The time of the map's layers that read rows in key order. */
static double time_by_keys(const spc_net_plan *plan, int map)
{
    double us = 0;

    for (int i = 0; i < plan->work_count; i++)
        if (plan->works[i].map == map && reads_keys(plan, &plan->works[i]))
            us += spc__net_layer_us(plan, &plan->works[i]);
    return us;
}

/* Moves the layers of a map to one row order where this saves a sort. */
static void share_order(const spc_net_plan *plan, int map)
{
    double us[ALIKE], by_keys = time_by_keys(plan, map);
    int best = 0;

    find_times(us, plan, map);
    for (int o = 1; o < ALIKE; o++)
        best = us[o] > us[best] ? o : best;
    /* Nothing is shared if no layer reads a sorted order. */
    for (int i = 0; i < plan->work_count && us[best] > 0; i++) {
        const spc__net_work *work = &plan->works[i];
        int order = work->map == map ? order_of(work) : -1;
        /* Changes the order only if the layer loses less than the sort of a
         * second order costs. */
        if ((order >= 0 && order != best && loss * us[order] < price_us) ||
            (work->map == map && reads_keys(plan, work) &&
             loss_of_keys * by_keys < price_us))
            spc__plan_reorder(work->conv_plan, alike[best]);
    }
}

void spc__net_share_orders(const spc_net_plan *plan)
{
    for (int m = 0; m < plan->net->map_count; m++)
        if (plan->maps[m] != NULL)
            share_order(plan, m);
}
