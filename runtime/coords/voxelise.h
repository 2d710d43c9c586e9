/* SPDX-License-Identifier: Apache-2.0 */
/*
 * voxelise.h - turns points into voxels on a device. Public part: the section
 * "voxelisation" of spc/coords.h.
 *
 * The voxel of each point is listed. A coordinate set sorts the list, which
 * finds the voxels and the points of each in their order. Then coordinates and
 * features are written.
 */
#ifndef SPC_RUNTIME_VOXELISE_H
#define SPC_RUNTIME_VOXELISE_H

#include "coords/coords.h"
/* Must follow coords.h. */
#include "templates/shared/voxelise_abi.h"

struct spc_voxels {
    spc_ctx *ctx;
    spc_voxelisation how;
    spc_coords *set; /* set of the listed voxels; may also hold parked points */
    int plane;       /* voxels of a plane of parked points behind the grid */
    int cells[3];
    int pitch; /* floats from one point to the next */
    int capacity;
    int32_t *list; /* voxels of the points, [points][4] */
    int32_t *stats;
    int32_t *count; /* number of voxels */
    int32_t *coords;
    int32_t *points_of;
    void *features;
    void *work; /* private to the voxeliser */
};

/* The device's part of voxelisation; belongs to an indexer. Only `create` may
 * allocate, synchronise or compile. */
typedef struct spc__voxeliser {
    spc_status (*create)(spc_voxels *voxels, spc_error *error);
    void (*destroy)(spc_voxels *voxels); /* also called after a failed
                                          * creation */
    /* Lists the voxel of each point. */
    spc_status (*list)(const spc_voxels *voxels, const spc_voxelise_args *args,
                       void *stream, spc_error *error);
    /* Writes coordinates and features of the voxels that the set found. */
    spc_status (*fill)(const spc_voxels *voxels, const spc_voxelise_args *args,
                       void *stream, spc_error *error);
} spc__voxeliser;

/* Checks a grid along axis 0, 1 or 2. Returns SPC_EINVAL if there are too few
 * or too many voxels, or if a value is not finite. */
spc_status spc__voxel_axis_check(double low, double high, double voxel,
                                 int axis, spc_error *error);
/* Number of voxels of such a grid. */
int spc__voxel_cells(double low, double high, double voxel);

#endif
