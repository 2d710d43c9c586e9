/* net_scene.c - files of points as scenes of a network. */
#include "net.h"

#include "error.h"
#include "scene.h"
#include <math.h>

/* The voxels of the range: a shape may have one more, which stays empty. */
static void grid_of(spc__grid *out, const spc_net_input *input)
{
    for (int a = 0; a < 3; a++) {
        out->low[a] = (float)input->low[a];
        out->size[a] = (float)input->voxel[a];
        out->cells[a] =
            (int)lround((input->high[a] - input->low[a]) / input->voxel[a]);
    }
}

spc_status spc_net_scene(spc_scene **out, const spc_net *net, const char *spec,
                         spc_error *error)
{
    spc__grid grid;
    spc_status status =
        spc__need(error, __func__, "out", out, "net", net, "spec", spec, NULL);

    if (status != SPC_OK)
        return status;
    if (!(net->input.voxel[0] > 0) || !spc__scene_is_file(spec))
        return spc_scene_load(out, spec, error);
    grid_of(&grid, &net->input);
    return spc__scene_load_grid(out, spec, &grid, error);
}
