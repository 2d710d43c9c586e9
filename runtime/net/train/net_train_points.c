/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_train_points.c - maps that only gradients of layers of points read. The
 * clouds of a scene do not change, so such a map is made once.
 */
#include "net/train/net_train.h"

#include "base/error.h"
#include "context/ctx.h"
#include "coords/points/points.h"
#include <stdlib.h>

/* A linear layer's rows are independent. This makes an identity map: a row of
 * voxels without neighbours, one for each point. */
static spc_status make_line(spc_map **out, spc_ctx *ctx, int64_t rows,
                            const spc_geometry *geometry)
{
    size_t bytes = 16 * (size_t)rows + 16;
    int32_t *at = calloc(1, bytes);
    spc_coords *line = NULL;
    void *memory = NULL;
    spc_status status = spc_memory_alloc(&memory, ctx, bytes);

    if (at == NULL)
        status = spc__fail_memory(spc__error_of(ctx), bytes);
    for (int64_t i = 0; i < rows && status == SPC_OK; i++)
        at[4 * i + 1] = (int32_t)i;
    if (status == SPC_OK &&
        (status = spc_memory_upload(memory, ctx, at, bytes)) == SPC_OK &&
        (status = spc_coords_create(&line, ctx, memory, rows, NULL)) ==
            SPC_OK &&
        (status = spc_map_create(out, line, line, geometry)) == SPC_OK &&
        (status = spc_map_update(*out, NULL, NULL, 0, NULL)) == SPC_OK)
        status = spc_map_check(*out, NULL);
    spc_coords_free(line); /* the map holds a reference */
    spc_memory_free(ctx, memory);
    free(at);
    return status;
}

spc_status spc__train_cloud_map(spc_map **out, spc_training *t,
                                const spc_geometry *geometry, bool inverse,
                                int in, int to)
{
    spc_coords *from = t->plan->sets[in], *at = t->plan->sets[to];
    spc_error error = {0};
    spc_status status;

    if (geometry->rule != SPC_RULE_RADIUS)
        return make_line(out, t->ctx, spc_coords_rows(from), geometry);
    status = spc__radius_create(out, spc__points_of(from), spc__points_of(at),
                                geometry, 0, inverse, &error);
    if (status == SPC_OK)
        status = spc__radius_fit(*out, &error);
    return status == SPC_OK ? status : spc__ctx_fail(t->ctx, &error);
}
