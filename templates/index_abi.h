/*
 * index_abi.h - the argument structs of the voxel-indexing kernels, and the
 * sizes that kernels and runtime must agree on.
 *
 * Plain C99, after spc_abi.h; included by templates and by the runtime.
 */
#ifndef SPC_INDEX_ABI_H
#define SPC_INDEX_ABI_H

/* What a build reports (runtime/map_builder.h): first bad row by field, rows
 * equal to their predecessor, pairs of each offset. */
#define SPC_INDEX_BAD_ROW 0
#define SPC_INDEX_DUPLICATES 4
#define SPC_INDEX_MOST_KEYS 5 /* of one bin, if more than SPC_INDEX_CROWDED */
#define SPC_INDEX_PAIRS 8
#define SPC_INDEX_NO_ROW 0x7fffffff

/* Rows whose masks a block of the map search holds in shared memory. */
#define SPC_INDEX_CHUNK 1024
/* The bins are summed in so many shares. */
#define SPC_INDEX_SHARES 128
/* Keys of one bin from which a radix sort is faster. */
#define SPC_INDEX_CROWDED 1024
/* Rows or tiles that a block of the row order works on at once; a multiple of
 * every tile size. */
#define SPC_ORDER_CHUNK 768

/* Digits of the radix sorts, in bits: of keys, of mask digests and tiles. */
#define SPC_KEY_DIGIT 8
#define SPC_ORDER_DIGIT 9

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
#define SPC_SORT_SHARED(threads, digits)                                       \
    (8 * (digits) + 160 + 2 * ((threads) / 32) * (digits))
#define SPC_INDEX_SEARCH_SHARED(offsets)                                       \
    (4 * SPC_INDEX_CHUNK * (((offsets) + 31) / 32) + 4 * (offsets))
/* Keys that a block ranks at a time: its chunk, with a crowded bin on each side. */
#define SPC_INDEX_RANK_KEYS (SPC_INDEX_CHUNK + 2 * SPC_INDEX_CROWDED + 64)
#define SPC_LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SPC_INDEX_SHARED(threads, offsets, key_bytes)                          \
    (4 * (SPC_INDEX_SHARES + 4) +                                              \
     SPC_LARGER((key_bytes) * SPC_INDEX_RANK_KEYS,                             \
                SPC_LARGER(SPC_SORT_SHARED(threads, 1 << SPC_KEY_DIGIT),       \
                           SPC_INDEX_SEARCH_SHARED(offsets))))
#define SPC_ORDER_COPY_SHARED(offsets)                                         \
    (4 * SPC_ORDER_CHUNK * (1 + ((offsets) + 31) / 32))
#define SPC_ORDER_SHARED(threads, offsets)                                     \
    (8 * (offsets) +                                                           \
     SPC_LARGER(SPC_SORT_SHARED(threads, 1 << SPC_ORDER_DIGIT),                \
                SPC_ORDER_COPY_SHARED(offsets)))

/*
 * The grid barrier of spc_sync_grid needs a counter that starts at zero: two
 * take turns, each launch clears the other one. [0], [1]: counters, [2]: whose
 * turn it is. All words start at zero.
 */
typedef struct spc_index_sync {
    unsigned counter[2];
    unsigned turn;
    unsigned unused;
} spc_index_sync;

typedef struct spc_index_args {
    const int *coords; /* [rows][4], 16-byte aligned */
    int rows;
    int rows_padded;
    int low[4];       /* batch, x, y, z */
    unsigned last[4]; /* largest coordinate - low */
    int bin_shift;    /* key bits below those that number the bin */
    int share_shift;  /* bin_bits less those that number the share */
    /* Working memory. Keys are u32 or u64. */
    void *keys_a; /* in the caller's order */
    void *keys_b; /* by bin */
    int *rows_a;  /* rank within the bin */
    int *rows_b;
    unsigned *bins; /* [2^bin_bits], zero between launches */
    int *begins;    /* [2^bin_bits + 1], the last 0 */
    int *shares;    /* [SPC_INDEX_SHARES] */
    int *tables;    /* [SPC_SORT_TABLES], all but the last zero between
                       launches */
    spc_index_sync *sync;
    /* Results. */
    void *keys;     /* ascending */
    int *order;     /* [rows_padded] the caller's rows by ascending key */
    int *index;     /* [offsets][rows_padded] */
    unsigned *mask; /* [mask_words][rows_padded] */
    int *stats;
} spc_index_args;

/* One tile table: sorts the tiles of a row order by falling cost. */
typedef struct spc_tiles_args {
    const unsigned *mask; /* [mask_words][rows_padded] */
    int rows_padded;
    int tile_rows; /* 0: no table is wanted */
    int tiles;
    unsigned *scratch; /* [mask_words][tiles] masks by tile number */
    int *tile_order;
    unsigned *tile_mask;
    int *tables; /* as above */
    spc_index_sync *sync;
} spc_tiles_args;

typedef struct spc_order_args {
    const int *plain_order;
    const int *plain_index;
    const unsigned *plain_mask;
    const int *stats;
    int rows;
    unsigned *digests_a, *digests_b; /* [rows_padded] */
    int *rows_a, *rows_b;
    int *order;
    int *index;
    unsigned *mask;
    spc_tiles_args tile; /* of the order made here */
} spc_order_args;

#endif
