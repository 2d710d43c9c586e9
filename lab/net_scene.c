/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_scene.c - uses files of points as scenes of a network, and the network's
 * levels as scenes of layers.
 */
#include "net/net_plan.h"

#include "base/error.h"
#include "context/ctx.h"
#include "coords/points/points.h"
#include "lab/scene/scene.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Makes the grid of the network's range, possibly with another voxel size. The
 * grid has the voxels of the range. A shape may have one voxel more, which
 * stays empty.
 */
static void grid_of(spc__grid *out, const spc_net_input *input,
                    const double size[3])
{
    for (int a = 0; a < 3; a++) {
        double extent = input->high[a] - input->low[a];
        bool given = size[a] > 0;
        out->low[a] = (float)input->low[a];
        out->size[a] = (float)(given ? size[a] : input->voxel[a]);
        out->cells[a] = given ? (int)fmin(ceil(extent / size[a]), INT32_MAX)
                              : (int)lround(extent / input->voxel[a]);
    }
}

spc_status spc_net_load_scene(spc_scene **out, const spc_net *net,
                              const char *spec, spc_error *error)
{
    spc__scene_spec read;
    spc__grid grid;
    spc_status status =
        spc__need(error, __func__, "out", out, "net", net, "spec", spec, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    *out = NULL;
    if ((status = spc__scene_spec_read(&read, spec, error)) != SPC_OK)
        return status;
    spc__scene_range range = {.shape = net->input.shape};
    if (net->input.voxel[0] > 0) {
        grid_of(&grid, &net->input, read.voxel);
        range.grid = &grid;
        range.channels = net->input.channels;
    }
    status = spc__scene_load(out, spec, &read, &range, error);
    spc__scene_spec_release(&read);
    return status;
}

spc_status spc_net_plan_scene_of_set(spc_scene **out, const spc_net_plan *plan,
                                     int set)
{
    spc_error *error = plan != NULL ? spc__error_of(plan->ctx) : NULL;
    spc_status status =
        spc__need(error, __func__, "out", out, "plan", plan, NULL);
    char name[24];

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    if (set < 1 || set >= plan->net->set_count || plan->sets[set] == NULL)
        return spc__fail(error, SPC_EINVAL,
                         "the network fills no set %d from others", set);
    if (!plan->checked)
        return spc__fail(error, SPC_ESTATE, "there is no run that was checked");
    int64_t rows = spc_coords_rows(plan->sets[set]);
    int32_t *coords;
    snprintf(name, sizeof(name), "set %d", set);
    status =
        plan->net->sets[set].cloud
            ? spc__points_units(&coords, spc__points_of(plan->sets[set]), error)
            : spc__coords_fetch(&coords, plan->ctx,
                                spc_coords_data(plan->sets[set]), rows, NULL,
                                error);
    if (status == SPC_OK)
        status = spc_scene_create(out, coords, rows, name, error);
    free(coords);
    return status;
}
