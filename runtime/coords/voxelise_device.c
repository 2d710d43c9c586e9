/* SPDX-License-Identifier: Apache-2.0 */
/*
 * voxelise_device.c - voxelisation on cuda and sim: the template "voxelise".
 */
#include "base/error.h"
#include "coords/index/index_device.h"
#include "coords/index/indexer.h"
#include "coords/voxelise.h"
#include <stdlib.h>

/* The emulation runs each thread as a fiber, so it gets smaller blocks. */
enum { THREADS = 256, EMULATED_THREADS = 64 };

typedef struct voxelise_work {
    unsigned block;
    spc__kernel *list, *fill;
} voxelise_work;

static const spc__device_ops *ops_of(const spc_voxels *v)
{
    return spc__device_ops_of(v->ctx->device);
}

static void device_destroy(spc_voxels *v)
{
    free(v->work);
    v->work = NULL;
}

/* Loads the two kernels. */
static spc_status device_create(spc_voxels *v, spc_error *error)
{
    voxelise_work *w = v->work = calloc(1, sizeof *w);
    spc__attrs problem = {0};
    spc_status status;

    if (!w)
        return spc__fail_memory(error, sizeof *w);
    w->block = ops_of(v)->is_emulation ? EMULATED_THREADS : THREADS;
    spc__attrs_set_text(&problem, "op", "voxelise");
    spc__attrs_set_number(&problem, "threads", w->block);
    status = spc__index_load(&w->list, v->ctx, "voxelise", &problem, NULL,
                             "spc_voxel_list", SPC_VOXELISE_SHARED, error);
    return status == SPC_OK
               ? spc__index_load(&w->fill, v->ctx, "voxelise", &problem, NULL,
                                 "spc_voxel_fill", 0, error)
               : status;
}

/* As many blocks as asked, but at most eight per multiprocessor. */
static spc_status launch(const spc_voxels *v, spc__kernel *kernel,
                         int64_t useful, size_t shared,
                         const spc_voxelise_args *args, void *stream,
                         spc_error *error)
{
    const voxelise_work *w = v->work;
    int64_t most = 8 * (int64_t)v->ctx->info.multiprocessors;
    spc__launch how = {.grid_y = 1, .block = w->block, .shared_bytes = shared};

    most = most > 0 ? most : 1;
    how.grid_x = (unsigned)(useful < 1 ? 1 : useful < most ? useful : most);
    return ops_of(v)->launch(v->ctx->device, kernel, &how, args, sizeof *args,
                             stream, error);
}

/* Starts the kernel that finds the voxel of each point. */
static spc_status device_list(const spc_voxels *v,
                              const spc_voxelise_args *args, void *stream,
                              spc_error *error)
{
    const voxelise_work *w = v->work;
    /* The host does not know a count on the device, so the grid covers the
     * capacity. */
    int64_t points = args->count ? args->capacity : args->rows;

    return launch(v, w->list,
                  (points + SPC_VOXELISE_CHUNK - 1) / SPC_VOXELISE_CHUNK,
                  SPC_VOXELISE_SHARED, args, stream, error);
}

/* Starts the kernel that fills the voxels. */
static spc_status device_fill(const spc_voxels *v,
                              const spc_voxelise_args *args, void *stream,
                              spc_error *error)
{
    const voxelise_work *w = v->work;
    /* a thread for each item */
    int64_t items = (int64_t)args->room * args->columns;

    return launch(v, w->fill, (items + w->block - 1) / w->block, 0, args,
                  stream, error);
}

const spc__voxeliser spc__voxeliser_device = {
    .create = device_create,
    .destroy = device_destroy,
    .list = device_list,
    .fill = device_fill,
};
