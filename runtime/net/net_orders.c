/*
 * net_orders.c - layers of one map read one row order, where that is faster.
 *
 * Records say which row order suits a layer alone; but each order that some
 * layer of a map reads is sorted anew for every scene. The Gray orders differ
 * in which offsets share a bit, their kernels are the same, and a layer is
 * hardly slower in another of them: so those that have the lesser part of a
 * map's time take the order of the others.
 */
#include "net_plan.h"

#include "plan.h"
#include <string.h>

static const char *const alike[] = {"gray", "gray_x", "gray_y"};
enum { ALIKE = sizeof(alike) / sizeof(*alike) };

/* Of H200 and kitti@0.05: a second order makes a map of 3 x 3 x 3 take 18 us
 * longer on each of its levels (3,820 to 82,658 rows), of which what goes side
 * by side hides a part; another order costs a layer 1 % there, and 15 % where
 * there are a thousand rows (docs/LABBOOK.md). */
static const double price_us = 12, loss = 0.05;

/* Which of those the work's kernel reads; -1: another, or none. */
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

static void share_order(const spc_net_plan *plan, int map)
{
    double us[ALIKE];
    int best = 0;

    find_times(us, plan, map);
    for (int o = 1; o < ALIKE; o++)
        best = us[o] > us[best] ? o : best;
    for (int i = 0; i < plan->work_count; i++) {
        const spc__net_work *work = &plan->works[i];
        int order = work->map == map ? order_of(work) : -1;
        if (order >= 0 && order != best && loss * us[order] < price_us)
            spc__plan_reorder(work->conv_plan, alike[best]);
    }
}

void spc__net_share_orders(const spc_net_plan *plan)
{
    for (int m = 0; m < plan->net->map_count; m++)
        if (plan->maps[m] != NULL)
            share_order(plan, m);
}
