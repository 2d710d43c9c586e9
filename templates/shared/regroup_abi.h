/*
 * regroup_abi.h - the argument structs of the kernels that make a set from the
 * voxels of other sets and move features between their rows.
 *
 * Plain C99, after index_abi.h; included by templates and by the runtime.
 */
#ifndef SPC_REGROUP_ABI_H
#define SPC_REGROUP_ABI_H

/* The most sources of a set, and the most children of a voxel. */
#define SPC_REGROUP_SOURCES 8
#define SPC_REGROUP_CHILDREN 64
/* Shared memory of a block, in bytes: sums over its warps. */
#define SPC_REGROUP_SHARED 192

/*
 * The rows of all sources are numbered consecutively. The rows of a source
 * start after the capacities of all earlier sources. A slot is such a row
 * together with the number of a child.
 */
typedef struct spc_regroup_source {
    const void *keys;
    const int *order;
    const int *count;
    int wide;  /* keys have 64 bits, else 32 */
    int first; /* number of its first row among all sources */
    spc_index_key key;
} spc_regroup_source;

typedef struct spc_regroup_args {
    spc_regroup_source source[SPC_REGROUP_SOURCES];
    int sources;
    int rows; /* rows of all sources together */
    int scale[3], split[3];
    int children;              /* the product of split */
    const unsigned char *mask; /* [rows * children], or null: all are kept */
    int *at;                   /* [rows] position of a row in its source */
    int *counts;               /* [blocks] */
    int *of;     /* [rows * children] the set's row of each slot, or -1 */
    int *listed; /* the number of voxels proposed, even if above capacity */
    int *list;   /* [capacity][4] in the order of slots */
    int *slot;   /* [capacity] slot of each voxel */
    int capacity;
    spc_index_sync *sync;
    /* The result of sorting the list. */
    int merges; /* voxels may coincide: rows are in ascending order */
    const int *count;
    const int *stats;
    int *order;
    const int *twins, *twin_begin;
    int *data;  /* [capacity][4] coordinates of the set's rows */
    int *begin; /* [capacity + 1] start of each row in `slots` */
    int *slots; /* [capacity] */
} spc_regroup_args;

/* A mask from numbers: one byte for each slot, 1 if its number is above the
 * threshold. */
typedef struct spc_mask_args {
    const void *in[SPC_REGROUP_SOURCES]; /* [rows of each source][children] */
    const int *count[SPC_REGROUP_SOURCES]; /* numbers of rows given for each */
    int first[SPC_REGROUP_SOURCES + 1]; /* first row of each; last: total */
    int sources;
    int children;
    int half; /* as below */
    float above;
    unsigned char *mask; /* [rows * children] */
} spc_mask_args;

/* Features of the set's rows are sums of the features of slots, and the
 * reverse. */
typedef struct spc_gather_args {
    const void *in[SPC_REGROUP_SOURCES]; /* of the sources; or [0] of the set */
    void *out[SPC_REGROUP_SOURCES];
    int first[SPC_REGROUP_SOURCES + 1]; /* first row of each; last: total */
    int sources;
    int children; /* that share the features of a row: 1 where each has its own
                     slice */
    int slices;   /* slots of a row of the slices */
    int channels; /* channels of a slot */
    int half;     /* 1: binary16, 2: bfloat16; 0: binary32 */
    int piece;    /* channels that a thread takes at once: 16 bytes, or 1 */
    const int *count; /* number of rows of the set */
    const int *begin, *slots, *of;
} spc_gather_args;

#endif
