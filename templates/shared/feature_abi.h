/*
 * feature_abi.h - the argument struct of the kernels of operators on features,
 * and the sizes that kernels and runtime must agree on.
 *
 * Plain C99, after index_abi.h; included by templates and by the runtime.
 */
#ifndef SPC_FEATURE_ABI_H
#define SPC_FEATURE_ABI_H

/* Threads of a block. */
#define SPC_FEATURE_THREADS 256

/* The voxels of a batch element are summed in at most so many parts, each of
 * the same number of them and of so many at least: by that the order of a sum
 * depends on the number of voxels alone. */
#define SPC_FEATURE_PARTS 256
#define SPC_FEATURE_PART_ROWS 32

typedef struct spc_feature_args {
    const void *in;
    const void *add;
    void *out;
    long long in_pitch, add_pitch, out_pitch; /* elements */
    int *index;         /* [rows][channels], input rows of maxima */
    const float *scale; /* [channels] */
    const float *shift;
    float eps, slope;
    int blocks;      /* of the grid */
    const int *rows; /* how many rows there are, if at most `capacity` */
    int capacity;
    int batches;
    const int *count; /* voxels */
    const int *order; /* the row of each, by ascending key */
    const void *keys;
    spc_index_key key;
    const int *map; /* [offsets][rows_padded], the input rows of each voxel */
    int rows_padded;
    /* Working memory. */
    float *parts;   /* [batches][SPC_FEATURE_PARTS], by channel or group */
    float *moments; /* [batches][groups][2]: mean, 1 / sqrt(var + eps) */
    int *cells;     /* [batches][z][plane], the row there or -1 */
} spc_feature_args;

#endif
