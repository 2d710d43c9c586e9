/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_batches.c - the set with a row for each batch element, over which global
 * pooling makes its outputs. Row b has the voxel (b, 0, 0, 0), also if element
 * b is empty. No scene changes it, so it is filled when the network is planned
 * and takes no time in a run.
 */
#include "net/net_plan.h"

#include "base/error.h"
#include "context/ctx.h"
#include <stdlib.h>

/* Fills the set with one voxel a batch element. Its rows never change, so this
 * happens once. */
static spc_status fill(spc_net_plan *plan, spc_coords *set, int64_t rows)
{
    size_t bytes = 4 * sizeof(int32_t) * (size_t)rows;
    int32_t *voxels = calloc(1, bytes);
    void *memory = NULL;
    spc_status status;

    if (voxels == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx), bytes);
    for (int64_t b = 0; b < rows; b++)
        voxels[4 * b] = (int32_t)b;
    if ((status = spc_memory_alloc(&memory, plan->ctx, bytes)) == SPC_OK &&
        (status = spc_memory_upload(memory, plan->ctx, voxels, bytes)) ==
            SPC_OK &&
        (status = spc_coords_update(set, memory, NULL, rows, NULL)) == SPC_OK)
        status = spc_coords_check(set, NULL); /* this also waits for the copy */
    spc_memory_free(plan->ctx, memory);
    free(voxels);
    return status;
}

/* Makes the set of layers that work on whole batch elements. */
static spc_status make_set(spc_net_plan *plan, int i)
{
    int64_t rows = (int64_t)plan->options.high[0] + 1;
    spc_coords_options o = SPC_COORDS_OPTIONS_INIT;
    spc_status status;

    o.capacity = rows;
    o.high[0] = plan->options.high[0];
    status = spc_coords_create_reserved(&plan->sets[i], plan->ctx, &o);
    if (status == SPC_OK)
        status = fill(plan, plan->sets[i], rows);
    return status == SPC_OK
               ? status
               : spc__fail_prefix(spc__error_of(plan->ctx), "set %d: ", i);
}

spc_status spc__net_make_batches(spc_net_plan *plan)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < plan->net->set_count && status == SPC_OK; i++)
        if (plan->net->sets[i].kind == SPC__NET_BATCHES)
            status = make_set(plan, i);
    return status;
}

spc_status spc__net_lay_batches(spc_net_plan *plan)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < plan->net->set_count && status == SPC_OK; i++)
        if (plan->net->sets[i].kind == SPC__NET_BATCHES &&
            (status = spc__net_lay_rows(plan, i, NULL)) == SPC_OK)
            status = spc_ctx_synchronize(plan->ctx);
    return status;
}
