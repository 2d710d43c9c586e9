/*
 * index_abi.h - the argument structs of the voxel-indexing kernels, and the
 * sizes that kernels and runtime must agree on.
 *
 * Plain C99, after spc_abi.h; included by templates and by the runtime.
 */
#ifndef SPC_INDEX_ABI_H
#define SPC_INDEX_ABI_H

/* What a build reports (runtime/coords/map_builder.h): first bad row by field,
 * rows equal to their predecessor, pairs (the first word and 65536 times the
 * second). */
#define SPC_INDEX_BAD_ROW 0
#define SPC_INDEX_DUPLICATES 4
#define SPC_INDEX_MOST_KEYS 5 /* of one bin, if more than SPC_INDEX_CROWDED */
#define SPC_INDEX_PAIRS 8
#define SPC_INDEX_NO_ROW 0x7fffffff

/* The most offsets of a kernel. */
#define SPC_INDEX_OFFSETS 343
/* Rows whose masks a block holds in shared memory. */
#define SPC_INDEX_CHUNK 1024
/* Keys past the last that the search may load. */
#define SPC_INDEX_SLACK 8
/* The bins are summed in so many shares. */
#define SPC_INDEX_SHARES 128
/* Keys of one bin from which a radix sort is faster. */
#define SPC_INDEX_CROWDED 1024

/* Digits of the radix sorts, in bits; a tile's cost must fit one. */
#define SPC_SORT_DIGIT 9

/* Blocks whose digit counts are summed, so that a block looks at groups before
 * its own and at blocks inside it, not at all blocks. */
#define SPC_SORT_GROUP 12
/* Three take turns in a sort, the fourth is for tiles. */
#define SPC_SORT_TABLES 4

#define SPC_SORT_GROUPS(grid) (((grid) + SPC_SORT_GROUP - 1) / SPC_SORT_GROUP)
/* Integers of one table of digit counts. */
#define SPC_SORT_TABLE(grid, digits)                                           \
    (((grid) + SPC_SORT_GROUPS(grid)) * (digits))

/* Shared memory, in bytes. */
#define SPC_SORT_COUNTS(grid, digits)                                          \
    (4 * (SPC_SORT_GROUPS(grid) * (digits) + (grid)))
#define SPC_SORT_SHARED(threads, digits)                                       \
    (8 * (digits) + 160 + 2 * ((threads) / 32) * (digits))
#define SPC_INDEX_MASKS_SHARED(offsets)                                        \
    (4 * SPC_INDEX_CHUNK * (2 + ((offsets) + 31) / 32))
/* Keys that a block ranks at a time: its chunk, with a crowded bin on each
 * side. */
#define SPC_INDEX_RANK_KEYS (SPC_INDEX_CHUNK + 2 * SPC_INDEX_CROWDED + 64)
#define SPC_LARGER(a, b) ((a) > (b) ? (a) : (b))
/* For a block of a grid of blocks; SPC_SORT_COUNTS come last. */
#define SPC_INDEX_SHARED(threads, offsets, key_bytes, grid)                    \
    (4 * (SPC_INDEX_SHARES + 4) + 4 * ((offsets) + ((offsets)&1)) +            \
     SPC_SORT_COUNTS(grid, 1 << SPC_SORT_DIGIT) +                              \
     SPC_LARGER((key_bytes)*SPC_INDEX_RANK_KEYS,                               \
                SPC_LARGER(SPC_SORT_SHARED(threads, 1 << SPC_SORT_DIGIT),      \
                           SPC_INDEX_MASKS_SHARED(offsets))))

/*
 * The grid barrier of spc_arrive_grid needs a counter that starts at zero: two
 * take turns, each launch clears the other one. [0], [1]: counters, [2]: whose
 * turn it is. All words start at zero.
 */
typedef struct spc_index_sync {
    unsigned counter[2];
    unsigned turn;
    unsigned unused;
} spc_index_sync;

/* The map's arrays in a sorted row order; null pointers where none is wanted.
 */
typedef struct spc_index_sorted {
    int *order;     /* [rows_padded] */
    int *index;     /* [offsets][rows_padded] */
    unsigned *mask; /* [mask_words][rows_padded] */
    int passes;     /* of the sort, by so many digits of the digest */
    unsigned bit_of[SPC_INDEX_OFFSETS]; /* the digest's bit of each offset */
} spc_index_sorted;

/* A tile table. */
typedef struct spc_index_tiles {
    const unsigned *of; /* the masks of its row order */
    int rows;           /* of a tile; 0: no table is wanted */
    int count;
    int *order;     /* [count] */
    unsigned *mask; /* [mask_words][count] */
    int *begin;     /* [offsets], where each cost begins */
} spc_index_tiles;

/*
 * Stages of a launch: building, with coordinates; the plain index, if `index`
 * is not null; a sorted order, if `sorted.index` is not null; a tile table, if
 * tile.rows is not zero. Without coordinates, what they read was built before.
 */
typedef struct spc_index_args {
    const int *coords; /* [rows][4], 16-byte aligned, or NULL */
    int rows;
    int rows_padded;
    int low[4];       /* batch, x, y, z */
    unsigned last[4]; /* largest coordinate - low */
    int bin_shift;    /* key bits below those that number the bin */
    int share_shift;  /* bin_bits less those that number the share */
    /* Working memory. Keys are u32 or u64. */
    void *keys_a; /* in the caller's order; then digests, then tile masks */
    void *keys_b; /* by bin */
    int *rows_a;  /* rank within the bin */
    int *rows_b;
    unsigned *bins; /* [2^bin_bits], zero between launches */
    int *begins;    /* [2^bin_bits + 1], the last 0 */
    int *shares;    /* [SPC_INDEX_SHARES] */
    int *tables;    /* [SPC_SORT_TABLES], all but the last zero between
                       launches */
    spc_index_sync *sync;
    /* The plain map. */
    void *keys;     /* ascending; SPC_INDEX_SLACK more may be read */
    int *order;     /* [rows_padded] the caller's rows by ascending key */
    int *first;     /* [rows_padded][batches][4] (index_search.cuh) */
    unsigned *mask; /* [mask_words][rows_padded] */
    int *index;     /* [offsets][rows_padded], or NULL */
    int *stats;
    spc_index_sorted sorted;
    spc_index_tiles tile;
} spc_index_args;

#endif
