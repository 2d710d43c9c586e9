/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_rows.c - layouts of rows. Linear layers of one set whose kernels have the
 * same tile size share one layout, which is written once in a run, after the
 * set.
 */
#include "net/net_plan.h"

#include "base/error.h"
#include "context/ctx.h"
#include "coords/coords.h"
#include "plan/plan.h"
#include <stdlib.h>

static int find_layout(const spc_net_plan *plan, int set, int tile_rows)
{
    for (int i = 0; i < plan->layout_count; i++)
        if (plan->layouts[i].set == set &&
            plan->layouts[i].tile_rows == tile_rows)
            return i;
    return -1;
}

/* Adds a layout of a set's rows, for linear layers whose kernels have such
 * tiles. */
static spc_status add_layout(spc_net_plan *plan, int set, int tile_rows,
                             const spc_plan *kernel)
{
    void *layouts = spc__net_grow(plan->layouts, plan->layout_count,
                                  sizeof(*plan->layouts));

    if (layouts == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx),
                                sizeof(*plan->layouts));
    plan->layouts = layouts;
    spc__net_layout *layout = &plan->layouts[plan->layout_count++];
    *layout = (spc__net_layout){set, tile_rows, kernel, NULL};
    return spc_memory_alloc(
        &layout->memory, plan->ctx,
        spc__plan_rows_bytes(kernel, plan->sets[set]->capacity));
}

spc_status spc__net_share_rows(spc_net_plan *plan, spc__net_work *work)
{
    int tile_rows = spc__plan_launch(work->conv_plan)->tile_rows;
    int layout = find_layout(plan, work->set, tile_rows);
    spc_status status = SPC_OK;

    if (layout < 0) {
        status = add_layout(plan, work->set, tile_rows, work->conv_plan);
        layout = plan->layout_count - 1;
    }
    return status == SPC_OK
               ? spc__plan_bind_rows(&work->rows, work->conv_plan,
                                     plan->layouts[layout].memory,
                                     plan->sets[work->set]->capacity)
               : status;
}

spc_status spc__net_lay_rows(const spc_net_plan *plan, int set, void *stream)
{
    const spc_coords *coords = plan->sets[set];
    spc_status status = SPC_OK;

    for (int i = 0; i < plan->layout_count && status == SPC_OK; i++) {
        const spc__net_layout *layout = &plan->layouts[i];
        if (layout->set == set)
            status = spc__plan_lay_rows(layout->plan, layout->memory,
                                        /* The number of rows is on the device,
                                         * and the layout covers the
                                         * capacity. */
                                        coords->capacity,
                                        spc__coords_row_count(coords), stream);
    }
    return status;
}

void spc__net_free_rows(spc_net_plan *plan)
{
    for (int i = 0; i < plan->layout_count; i++)
        spc_memory_free(plan->ctx, plan->layouts[i].memory);
    free(plan->layouts);
}
