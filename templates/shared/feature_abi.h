/*
 * feature_abi.h - the argument struct of the kernels of operators on features,
 * and the sizes that kernels and runtime share.
 *
 * Plain C99, after index_abi.h; included by templates and by the runtime.
 */
#ifndef SPC_FEATURE_ABI_H
#define SPC_FEATURE_ABI_H

/* Threads of a block. */
#define SPC_FEATURE_THREADS 256

/*
 * The voxels of a batch element are summed in at most SPC_FEATURE_PARTS parts
 * of equal size, each with at least SPC_FEATURE_PART_ROWS voxels. The order of
 * a sum therefore depends only on the number of voxels.
 */
#define SPC_FEATURE_PARTS 256
#define SPC_FEATURE_PART_ROWS 32

typedef struct spc_feature_args {
    const void *in;
    const void *add;
    void *out;
    long long in_pitch, add_pitch, out_pitch; /* elements */
    int *index;         /* [rows][channels], input rows of the maxima */
    const float *scale; /* [channels] */
    const float *shift;
    float eps, slope;
    int blocks;      /* blocks of the grid */
    const int *rows; /* number of rows, if at most `capacity` */
    int capacity;
    int batches;
    const int *count; /* number of voxels */
    const int *order; /* the row of each voxel, by ascending key */
    const void *keys;
    spc_index_key key;
    const int *map; /* [offsets][rows_padded], the input rows of each voxel */
    int rows_padded;
    /* Working memory. */
    float *parts;   /* [batches][SPC_FEATURE_PARTS], by channel or group */
    float *moments; /* [batches][groups][2]: mean, 1 / sqrt(var + eps) */
    int *cells;     /* [batches][z][plane], the row in each cell, or -1 */
} spc_feature_args;

#endif
