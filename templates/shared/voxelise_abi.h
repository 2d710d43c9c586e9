/*
 * voxelise_abi.h - the argument struct of the kernels that turn points into
 * voxels.
 *
 * Plain C99, after index_abi.h; included by templates and by the runtime.
 */
#ifndef SPC_VOXELISE_ABI_H
#define SPC_VOXELISE_ABI_H

/*
 * Counts of points: those outside the range; those with a NaN coordinate or an
 * impossible batch element; the first of these, counted down from 2^31-1, so
 * that 0 means none.
 */
#define SPC_VOXELISE_OUTSIDE 0
#define SPC_VOXELISE_BAD 1
#define SPC_VOXELISE_BAD_POINT 2
/* The number of points that got a voxel of their own past the grid. */
#define SPC_VOXELISE_PARKED 3
#define SPC_VOXELISE_STATS 4

/* Points that a block processes together, and the shared memory that this
 * needs. */
#define SPC_VOXELISE_CHUNK 1024
#define SPC_VOXELISE_SHARED (SPC_VOXELISE_CHUNK * (16 + 4 + 4 + 2 * 4))

typedef struct spc_voxelise_args {
    const float *points;
    const int *count; /* the number of points, or null: it is `rows` */
    int rows;
    int capacity; /* most points */
    int pitch;    /* numbers of a point */
    int batched;  /* the first number is its batch element */
    int columns;  /* the others: x, y, z and more */
    float low[3], size[3];
    int cells[3], batches;
    int plane;  /* voxels next to each other past the grid, in y and z */
    int *list;  /* [capacity][4] the voxel of each point; -1 if none */
    int *stats; /* [SPC_VOXELISE_STATS] */
    /* The result of sorting the list. */
    const int *listed; /* number of voxels, including those of parked points */
    int *voxels;       /* written: their number without these */
    const int *sorted; /* statistics of the sort */
    const int *order;  /* first point of each voxel */
    const int *twins, *twin_begin;
    int room;       /* most voxels */
    int most;       /* points of a voxel that count; 0: all */
    int mean;       /* their mean, else the points themselves */
    int half;       /* 1: binary16, 2: bfloat16; 0: binary32 */
    int *coords;    /* [room][4] */
    int *points_of; /* [room] how many points count */
    void *features; /* [room][columns], or [room][most][columns] */
} spc_voxelise_args;

#endif
