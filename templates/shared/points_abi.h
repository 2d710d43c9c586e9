/*
 * points_abi.h - the argument structs of the kernels that keep clouds of points
 * and find who sees whom.
 *
 * Plain C99, after index_abi.h; included by templates and by the runtime.
 */
#ifndef SPC_POINTS_ABI_H
#define SPC_POINTS_ABI_H

#define SPC_POINTS_THREADS 256
#define SPC_POINTS_WARPS (SPC_POINTS_THREADS / 32)
/* Shared memory of a block, in bytes: a counter for each warp and offset. */
#define SPC_POINTS_SHARED(offsets) (4 * SPC_POINTS_WARPS * (offsets))
/* Points and triplets that a warp of a search has in shared memory, and all
 * that it needs. */
#define SPC_POINTS_STAGED 256
#define SPC_POINTS_KEPT 128
#define SPC_RADIUS_SHARED(offsets)                                             \
    (SPC_POINTS_WARPS *                                                        \
     (16 * SPC_POINTS_STAGED + 8 * SPC_POINTS_KEPT + 4 * (offsets)))

/* What is wrong with the rows of a cloud: for x, y, z and the batch element
 * SPC_INDEX_NO_ROW less the first row outside, 0 if there is none; how many are
 * outside; how many rows there were to be. */
#define SPC_POINTS_BAD_ROW 0
#define SPC_POINTS_BAD_ROWS 4
#define SPC_POINTS_ROWS 5
#define SPC_POINTS_STATS 6

/* What whole coordinates of a scene count: 1/1024, exact in binary. */
#define SPC_POINTS_STEP 0x1p-10f

/* A cloud: four words of each row, x, y, z as floats and the batch element, -1
 * for a row that takes part in nothing. */
typedef struct spc_cloud {
    float *at;
    int *count;
    int capacity;
} spc_cloud;

/* Filling a cloud: from the caller's points, or from rows of another. */
typedef struct spc_place_args {
    spc_cloud to;
    const float *xyz;
    const int *batch;  /* null: all are 0 */
    const int *steps;  /* instead of both: batch, x, y, z in SPC_POINTS_STEP */
    const int *source; /* how many; null: `rows` */
    int rows;
    int batches;
    float low[3], high[3];
    int *stats; /* zero before the launch */
    const float *from;
    const int *picked; /* row of `from` of each */
    int *sources;
} spc_place_args;

/* The cell of every point, floor(p * inverse), as a row of coordinates. */
typedef struct spc_cells_args {
    spc_cloud of;
    float inverse;
    int *coords; /* [capacity][4] */
} spc_cells_args;

/* A cloud sorted by cells. */
typedef struct spc_sorted_cloud {
    const void *keys; /* of the cells, ascending */
    const int *cells; /* how many */
    int *begin;       /* [cells + 1] the first point of each */
    float *points;    /* [capacity] four words: x, y, z, row */
    int capacity;
} spc_sorted_cloud;

typedef struct spc_sort_points_args {
    spc_cloud of;
    spc_sorted_cloud to;
    const int *stats; /* of the set of cells */
    const int *order, *twins, *twin_begin;
} spc_sort_points_args;

/* Who sees whom. Positions are those of the outputs sorted by cells. */
typedef struct spc_radius_args {
    spc_sorted_cloud in;
    spc_index_key key; /* of its cells */
    spc_sorted_cloud out;
    const float *out_at; /* of the outputs' cloud */
    float inverse;       /* of the edge of a cell */
    float reach;         /* a hair more than the radius */
    float square;        /* of the radius */
    float scale[3], half[3];
    int kernel[3];
    int backwards; /* the cell is about the point that is found */
    int nearest;   /* 0: all */
    /* Of a search whose other side has the nearest only, by row of `in`: the
     * square of the last that counts for it, and the place of that among the
     * sorted outputs. One search writes them, with the clouds exchanged; the
     * other reads them. NULL: all count. */
    unsigned *limits;
    int rows_padded;
    int blocks;   /* of the kernels that count and write */
    int capacity; /* of triplets */
    int *order;   /* [rows_padded] row of each position; -1 past the last */
    int *first;   /* [rows_padded + 1] */
    int *sums;    /* [blocks] */
    int *total;   /* [0] triplets that there are, [1] that are held */
    int *list;    /* [capacity][2] input row, offset */
} spc_radius_args;

/* The triplets once more, by offset. */
typedef struct spc_by_offset_args {
    const int *order, *first, *list;
    int rows_padded;
    int offsets;
    int warps;   /* of the kernels that count and write */
    int *counts; /* [offsets][warps] */
    int *in, *out, *place, *first_of_row, *begin;
} spc_by_offset_args;

/* The triplets of SPC_BUNDLE outputs that follow each other, by offset and then
 * by output, where those of the first of them begin in the list by output. */
#define SPC_BUNDLE 16
#define SPC_BUNDLE_TILE 64
/* Tiles are told apart by so many levels of their cost. A bundle costs so much
 * for 16 triplets of an offset, and besides for each offset that it has. */
#define SPC_BUNDLE_LEVELS 32
#define SPC_BUNDLE_STEP 1
#define SPC_BUNDLE_OFFSET 2
#define SPC_BUNDLE_SHARED                                                      \
    (4 * (SPC_POINTS_THREADS * SPC_BUNDLE_LEVELS + SPC_POINTS_WARPS))
typedef struct spc_bundle_args {
    const int *first, *list;
    int rows_padded;
    int offsets;
    int warps; /* of the launch */
    int *to;   /* [capacity][2] input row, offset * SPC_BUNDLE + output */
    /* Behind the list: tiles of SPC_BUNDLE_TILE positions, the most costly ones
     * first, and -1; and what each bundle costs. */
    const int *order;
    int *tiles; /* [rows_padded / SPC_BUNDLE_TILE] */
    int *costs; /* [rows_padded / SPC_BUNDLE] */
} spc_bundle_args;

#endif
