/*
 * points_abi.h - the argument structs of the kernels that keep point clouds and
 * search neighbours.
 *
 * Plain C99, after index_abi.h; included by templates and by the runtime.
 */
#ifndef SPC_POINTS_ABI_H
#define SPC_POINTS_ABI_H

#define SPC_POINTS_THREADS 256
#define SPC_POINTS_WARPS (SPC_POINTS_THREADS / 32)
/* Shared memory of a block, in bytes: a counter for each warp and offset. */
#define SPC_POINTS_SHARED(offsets) (4 * SPC_POINTS_WARPS * (offsets))
/* Points and triplets that a search warp holds in shared memory, and all shared
 * memory that it needs. */
#define SPC_POINTS_STAGED 256
#define SPC_POINTS_KEPT 128
#define SPC_RADIUS_SHARED(offsets)                                             \
    (SPC_POINTS_WARPS *                                                        \
     (16 * SPC_POINTS_STAGED + 8 * SPC_POINTS_KEPT + 4 * (offsets)))

/*
 * Errors in the rows of a cloud: for x, y, z and the batch element,
 * SPC_INDEX_NO_ROW minus the first row out of range, or 0 if all rows are in
 * range; the number of rows out of range; the number of rows requested.
 */
#define SPC_POINTS_BAD_ROW 0
#define SPC_POINTS_BAD_ROWS 4
#define SPC_POINTS_ROWS 5
#define SPC_POINTS_STATS 6

/* The unit of integer coordinates of a scene: 1/1024, exact in binary. */
#define SPC_POINTS_STEP 0x1p-10f

/* A cloud. Each row has four words: x, y, z as floats and the batch element, or
 * -1 for a row that is ignored. */
typedef struct spc_cloud {
    float *at;
    int *count;
    int capacity;
} spc_cloud;

/* Fills a cloud from the caller's points or from rows of another cloud. */
typedef struct spc_place_args {
    spc_cloud to;
    const float *xyz;
    const int *batch;  /* null: all elements are 0 */
    const int *steps;  /* replaces both: batch, x, y, z in SPC_POINTS_STEP */
    const int *source; /* the number of points; null: `rows` */
    int rows;
    int batches;
    float low[3], high[3];
    int *stats; /* zero before the launch */
    const float *from;
    const int *picked; /* row of `from` for each point */
    int *sources;
    /* If `twins` is not null, each point is the one nearest to the centre of
     * its voxel, floor(p * inverse): those of voxel v are the rows twins[i] for
     * twin_begin[v] <= i < twin_begin[v + 1]. Without duplicates in `merged`,
     * the statistics of the voxels, `picked` has the only point of each. */
    const int *twins, *twin_begin, *merged;
    float inverse;
} spc_place_args;

/* The cell of every point, floor(p * inverse), as a row of coordinates. */
typedef struct spc_cells_args {
    spc_cloud of;
    float inverse;
    int *coords; /* [capacity][4] */
} spc_cells_args;

/* A cloud sorted by cells. */
typedef struct spc_sorted_cloud {
    const void *keys; /* keys of the cells, ascending */
    const int *cells; /* number of cells */
    int *begin;       /* [cells + 1] the first point of each */
    float *points;    /* [capacity] four words: x, y, z, row */
    int capacity;
} spc_sorted_cloud;

typedef struct spc_sort_points_args {
    spc_cloud of;
    spc_sorted_cloud to;
    const int *stats; /* statistics of the set of cells */
    const int *order, *twins, *twin_begin;
} spc_sort_points_args;

/* The neighbour search. Positions are those of the outputs sorted by cells. */
typedef struct spc_radius_args {
    spc_sorted_cloud in;
    spc_index_key key; /* key layout of its cells */
    spc_sorted_cloud out;
    const float *out_at; /* points of the outputs' cloud */
    float inverse;       /* 1 / edge length of a cell */
    float reach;         /* slightly more than the radius */
    float square;        /* radius squared */
    float scale[3], half[3];
    int kernel[3];
    int backwards; /* the cell is centred on the point that is found */
    int nearest;   /* most neighbours that count; 0: all */
    /*
     * For a search whose other side keeps only the nearest: for each row of
     * `in`, the squared distance of the last neighbour that counts, and that
     * neighbour's position among the sorted outputs. One search, with the
     * clouds exchanged, writes them; the other reads them. NULL: all neighbours
     * count.
     */
    unsigned *limits;
    int rows_padded;
    int blocks;   /* blocks that count and write */
    int capacity; /* capacity in triplets */
    int *order;   /* [rows_padded] row of each position; -1 past the last */
    int *first;   /* [rows_padded + 1] */
    int *sums;    /* [blocks] */
    int *total;   /* [0] triplets found, [1] triplets stored */
    int *list;    /* [capacity][2] input row, offset */
} spc_radius_args;

/* The triplets, grouped by offset. */
typedef struct spc_by_offset_args {
    const int *order, *first, *list;
    int rows_padded;
    int offsets;
    int warps;   /* warps that count and write */
    int *counts; /* [offsets][warps] */
    int *in, *out, *place, *first_of_row, *begin;
} spc_by_offset_args;

/*
 * The triplets of SPC_BUNDLE consecutive outputs, by offset and then by output.
 * They begin where the triplets of the first of these outputs begin in the list
 * by output.
 */
#define SPC_BUNDLE 16
#define SPC_BUNDLE_TILE 64
/*
 * The number of levels by which tiles are sorted by cost, and the cost of a
 * bundle: one cost for each 16 triplets of an offset, and one for each offset
 * that the bundle has.
 */
#define SPC_BUNDLE_LEVELS 32
#define SPC_BUNDLE_STEP 1
#define SPC_BUNDLE_OFFSET 2
#define SPC_BUNDLE_SHARED                                                      \
    (4 * (SPC_POINTS_THREADS * SPC_BUNDLE_LEVELS + SPC_POINTS_WARPS))
typedef struct spc_bundle_args {
    const int *first, *list;
    int rows_padded;
    int offsets;
    int warps; /* warps of the launch */
    int *to;   /* [capacity][2] input row, offset * SPC_BUNDLE + output */
    /* After the list: tiles of SPC_BUNDLE_TILE positions, the most costly
     * first, then -1; and the cost of each bundle. */
    const int *order;
    int *tiles; /* [rows_padded / SPC_BUNDLE_TILE] */
    int *costs; /* [rows_padded / SPC_BUNDLE] */
} spc_bundle_args;

#endif
