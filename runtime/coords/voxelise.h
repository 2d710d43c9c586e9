/*
 * voxelise.h - points that become voxels, on a device.
 *
 * Public part: the section "voxelisation" of spc.h. The voxel of each point is
 * listed; a coordinate set sorts the list and so finds the voxels, and the
 * points of each in their order; then coordinates and features are written.
 */
#ifndef SPC_RUNTIME_VOXELISE_H
#define SPC_RUNTIME_VOXELISE_H

#include "coords/coords.h"
/* After coords.h. */
#include "templates/shared/voxelise_abi.h"

struct spc_voxels {
    spc_ctx *ctx;
    spc_voxelisation how;
    spc_coords *set; /* of the list; it may hold parked points too */
    int plane;       /* voxels side by side behind the grid */
    int cells[3];
    int pitch; /* numbers of a point */
    int capacity;
    int32_t *list; /* [points][4] */
    int32_t *stats;
    int32_t *count; /* voxels */
    int32_t *coords;
    int32_t *points_of;
    void *features;
    void *work; /* the voxeliser's own */
};

/* Who does it on a device: part of an indexer. Nothing but creating allocates,
 * synchronises or compiles. */
typedef struct spc__voxeliser {
    spc_status (*create)(spc_voxels *voxels, spc_error *error);
    void (*destroy)(spc_voxels *voxels); /* after a failed creation too */
    /* The voxel of each point. */
    spc_status (*list)(const spc_voxels *voxels, const spc_voxelise_args *args,
                       void *stream, spc_error *error);
    /* Coordinates and features of the voxels that the set has found. */
    spc_status (*fill)(const spc_voxels *voxels, const spc_voxelise_args *args,
                       void *stream, spc_error *error);
} spc__voxeliser;

/* Can a grid be so along axis 0, 1 or 2? SPC_EINVAL: neither too few nor too
 * many voxels, and nothing that is no number. */
spc_status spc__voxel_axis_check(double low, double high, double voxel,
                                 int axis, spc_error *error);
/* So many voxels it then has. */
int spc__voxel_cells(double low, double high, double voxel);

#endif
