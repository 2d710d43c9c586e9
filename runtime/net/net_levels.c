/* SPDX-License-Identifier: Apache-2.0 */
/* net_levels.c - records the layers of a run with the voxels of their levels
 * (capture.h). */
#include "base/sized.h"
#include "net/net_plan.h"
#include "spc/tune.h"

#include "base/error.h"
#include "context/ctx.h"
#include "coords/coords.h"
#include "operators/conv.h"
#include "plan/capture.h"
#include <stdlib.h>

/* Rows of a set. The rows of the input's set come from the caller or from the
 * points that became voxels. */
static const int32_t *rows_of(const spc_net_plan *plan,
                              const spc_net_buffers *buffers, int set)
{
    const int32_t *data = spc_coords_data(plan->sets[set]);

    if (data == NULL && plan->voxels != NULL)
        return spc_voxels_coords(plan->voxels);
    return data != NULL ? data : buffers->coords;
}

/* Writes a layer with the coordinates of its scene, so that it can be tuned
 * elsewhere. */
static spc_status capture_layer(const spc_net_plan *plan, const char *folder,
                                const spc_net_buffers *buffers,
                                const spc__net_work *work, spc_error *error)
{
    int set = spc__conv_ends_at_scene(&work->conv)
                  ? work->set
                  : plan->net->tensors[work->in].set;
    int64_t rows = spc_coords_rows(plan->sets[set]);
    int32_t *host = NULL;
    spc_status status;

    if (rows == 0) /* an empty level cannot be tuned on */
        return SPC_OK;
    status = spc__coords_fetch(&host, plan->ctx, rows_of(plan, buffers, set),
                               rows, NULL, error);
    if (status == SPC_OK)
        status = spc__capture_write(folder, &work->conv, host, rows, error);
    free(host);
    return status;
}

spc_status spc_record_layers(const spc_net_plan *plan, const char *folder,
                             const spc_net_buffers *buffers)
{
    spc_error error = {0};
    spc_status status =
        spc__need(plan != NULL ? spc__error_of(plan->ctx) : NULL, __func__,
                  "plan", plan, "folder", folder, "buffers", buffers, NULL);

    if (status != SPC_OK)
        return status;
    if (!plan->checked)
        status =
            spc__fail(&error, SPC_ESTATE, "there is no run that was checked");
    else if (plan->net->sets[0].cloud)
        status = spc__fail(&error, SPC_EUNSUPPORTED,
                           "layers of points are not written down: the voxels "
                           "of a scene are");
    else if ((status = SPC__TAKE(spc_net_buffers, buffers, &error)) == SPC_OK)
        status = spc__net_check_buffers(plan, buffers, &error);
    for (int i = 0; i < plan->work_count && status == SPC_OK; i++)
        if (plan->works[i].kind == SPC_NET_CONV)
            status =
                capture_layer(plan, folder, buffers, &plan->works[i], &error);
    return status == SPC_OK ? status : spc__ctx_fail(plan->ctx, &error);
}
