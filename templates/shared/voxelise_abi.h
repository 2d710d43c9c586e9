/*
 * voxelise_abi.h - the argument struct of the kernels that turn points into
 * voxels.
 *
 * Plain C99, after index_abi.h; included by templates and by the runtime.
 */
#ifndef SPC_VOXELISE_ABI_H
#define SPC_VOXELISE_ABI_H

/* What is counted of the points: those outside the range; those with a
 * coordinate that is no number, or a batch element that cannot be; the first of
 * them, counted back from 2^31-1, so that 0 is none. */
#define SPC_VOXELISE_OUTSIDE 0
#define SPC_VOXELISE_BAD 1
#define SPC_VOXELISE_BAD_POINT 2
/* Points that were given a voxel of their own, behind the grid. */
#define SPC_VOXELISE_PARKED 3
#define SPC_VOXELISE_STATS 4

/* Points that a block looks at together; and the shared memory it takes. */
#define SPC_VOXELISE_CHUNK 1024
#define SPC_VOXELISE_SHARED (SPC_VOXELISE_CHUNK * (16 + 4 + 4 + 2 * 4))

typedef struct spc_voxelise_args {
    const float *points;
    const int *count; /* of them, or null: `rows` counts */
    int rows;
    int capacity; /* most points */
    int pitch;    /* numbers of a point */
    int batched;  /* its batch element is the first of them */
    int columns;  /* the others: x, y, z and more */
    float low[3], size[3];
    int cells[3], batches;
    int plane;  /* voxels side by side behind the grid, along y and z */
    int *list;  /* [capacity][4] the voxel of each point; -1 if none */
    int *stats; /* [SPC_VOXELISE_STATS] */
    /* What the sort has made of the list. */
    const int *listed; /* how many there are, with those of parked points */
    int *voxels;       /* without them: written */
    const int *sorted; /* stats of the sort */
    const int *order;  /* first point of each */
    const int *twins, *twin_begin;
    int room;       /* most voxels */
    int most;       /* points of a voxel that count; 0: all */
    int mean;       /* of them, else they themselves */
    int half;       /* 1: binary16, 2: bfloat16; 0: binary32 */
    int *coords;    /* [room][4] */
    int *points_of; /* [room] how many points count */
    void *features; /* [room][columns], or [room][most][columns] */
} spc_voxelise_args;

#endif
