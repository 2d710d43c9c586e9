/*
 * index_abi.h - the argument structs of the voxel-indexing kernels, and the
 * sizes that kernels and runtime share.
 *
 * Plain C99, after spc_abi.h; included by templates and by the runtime.
 */
#ifndef SPC_INDEX_ABI_H
#define SPC_INDEX_ABI_H

/*
 * Statistics of building a coordinate set: for each field (batch, x, y, z) the
 * first row out of range; the number of rows whose voxel an earlier row has;
 * the most keys of one bin, if more than SPC_INDEX_CROWDED; the first row whose
 * voxel an earlier row has; the number of rows out of range; the number of rows
 * requested.
 */
#define SPC_INDEX_BAD_ROW 0
#define SPC_INDEX_DUPLICATES 4
#define SPC_INDEX_MOST_KEYS 5
#define SPC_INDEX_DUPLICATE_ROW 6
#define SPC_INDEX_BAD_ROWS 7
#define SPC_INDEX_ROWS 8
#define SPC_INDEX_STATS 9
#define SPC_INDEX_NO_ROW 0x7fffffff

/* The most offsets of a kernel. */
#define SPC_INDEX_OFFSETS 343
/* Rows whose masks a block holds in shared memory. */
#define SPC_INDEX_CHUNK 1024
/* Keys past the last that the search may load: a run of 8, and the three keys
 * that precede it. */
#define SPC_INDEX_SLACK 11
/* The bins are summed in this many shares. */
#define SPC_INDEX_SHARES 128
/* From this many keys in one bin on, a radix sort is faster. */
#define SPC_INDEX_CROWDED 1024

/*
 * Bins are also counted in groups of 2^GROUP_BITS, if there are at most GROUPS
 * groups. The array of bins is followed by the groups, and by the most keys of
 * one bin if more than CROWDED.
 */
#define SPC_INDEX_GROUP_BITS 5
#define SPC_INDEX_GROUPS 8192
#define SPC_INDEX_BEHIND_BINS (SPC_INDEX_GROUPS + 4)

/*
 * Bits of a digit of the radix sorts. The cost of a tile must fit in one digit.
 */
#define SPC_SORT_DIGIT 9

/*
 * Blocks whose digit counts are summed as a group. A block reads the sums of
 * the groups before its own and the counts of blocks inside its group, instead
 * of the counts of all blocks.
 */
#define SPC_SORT_GROUP 12
/* Tile tables that one launch can make. */
#define SPC_INDEX_TILES 3
/* A sort rotates through three tables; the others are for tiles. */
#define SPC_SORT_TABLES (3 + SPC_INDEX_TILES)

#define SPC_SORT_GROUPS(grid) (((grid) + SPC_SORT_GROUP - 1) / SPC_SORT_GROUP)
/* Integers in one table of digit counts. */
#define SPC_SORT_TABLE(grid, digits)                                           \
    (((grid) + SPC_SORT_GROUPS(grid)) * (digits))

/* Shared memory, in bytes. */
#define SPC_SORT_COUNTS(grid, digits)                                          \
    (4 * (SPC_SORT_GROUPS(grid) * (digits) + (grid)))
#define SPC_SORT_SHARED(threads, digits)                                       \
    (8 * (digits) + 160 + 2 * ((threads) / 32) * (digits))
#define SPC_INDEX_MASKS_SHARED(offsets)                                        \
    (4 * SPC_INDEX_CHUNK * (2 + ((offsets) + 31) / 32))
#define SPC_INDEX_GROUPS_SHARED (4 * (40 + SPC_INDEX_GROUPS))
/* Digit counts, the bits of digests, the key of each run, and 1 KB for the
 * window of each warp. */
#define SPC_INDEX_SEARCH_SHARED(threads, offsets, key_bytes)                   \
    ((4 << SPC_SORT_DIGIT) + 512 * (((offsets) + 31) / 32) +                   \
     (key_bytes) * 2 * ((offsets) + 1) + 32 * (threads))
/*
 * Keys that a block ranks at a time: its chunk, and a crowded bin on each side.
 */
#define SPC_INDEX_RANK_KEYS (SPC_INDEX_CHUNK + 2 * SPC_INDEX_CROWDED + 64)
#define SPC_LARGER(a, b) ((a) > (b) ? (a) : (b))
/* Counts for the next pass, and then those of tiles, for which three groups are
 * enough. */
#define SPC_INDEX_COUNTS_SHARED(grid)                                          \
    ((grid) > 0 ? SPC_SORT_COUNTS(SPC_LARGER(grid, 3 * SPC_SORT_GROUP),        \
                                  1 << SPC_SORT_DIGIT)                         \
                : 0)
/* For a block of a grid of several blocks; the counts come last. */
#define SPC_INDEX_SHARED(threads, offsets, key_bytes, grid)                    \
    (4 * (SPC_INDEX_SHARES + 4) +                                              \
     SPC_INDEX_COUNTS_SHARED(grid) +                                           \
     SPC_LARGER((key_bytes)*SPC_INDEX_RANK_KEYS,                               \
                SPC_LARGER(                                                    \
                    SPC_INDEX_SEARCH_SHARED(threads, offsets, key_bytes),      \
                    SPC_LARGER(SPC_SORT_SHARED(threads, 1 << SPC_SORT_DIGIT),  \
                               SPC_LARGER(SPC_INDEX_GROUPS_SHARED,             \
                                          SPC_INDEX_MASKS_SHARED(offsets))))))

/* Shared memory of a block that lists pairs. */
#define SPC_PAIRS_SHARED(threads, offsets) (8 * (offsets) + 4 * (threads) + 4)

/* Slots of the smallest hash table. A table has at least twice as many slots as
 * keys. */
#define SPC_INDEX_TABLE_LEAST 64

/*
 * The grid barrier of spc_arrive_grid needs a counter that starts at zero. Two
 * counters alternate, and each launch clears the other one. [0], [1]: the
 * counters; [2]: which counter is used next. All words start at zero.
 */
typedef struct spc_index_sync {
    unsigned counter[2];
    unsigned turn;
    unsigned unused;
} spc_index_sync;

/*
 * The conversion of coordinates to keys: field i (batch, x, y, z) of coordinate
 * c is c - low + before, at bit `shift`; its largest value is `wide`. `last` is
 * the largest c - low that is accepted. The sum of a key and an offset of a map
 * stays within its fields. The key with ones in every field (`none`) belongs to
 * no voxel.
 */
typedef struct spc_index_key {
    int low[4];
    unsigned last[4];
    unsigned before[4];
    int shift[4];
    unsigned wide[4];
    spc_u64 none;
    int bits; /* bits of all fields together */
} spc_index_key;

/* A coordinate set on the device. Arrays are sized for its capacity. */
typedef struct spc_index_set {
    void *keys;  /* ascending, u32 or u64; SPC_INDEX_SLACK more may be read */
    int *order;  /* [rows_padded] the caller's row of each; -1 past the last, up
                    to a multiple of SPC_ROW_PAD */
    int *begins; /* [2^bin_bits + 1], the last 0 */
    int *shares; /* [SPC_INDEX_SHARES] */
    int *count;  /* number of voxels */
    int rows;    /* capacity */
    int rows_padded;
    int bin_shift;   /* key bits below those of the bin number */
    int share_shift; /* bin_bits minus those of the share number */
    spc_index_key key;
} spc_index_set;

/* The map's arrays in a sorted row order. A null pointer means that the array
 * is not wanted. */
typedef struct spc_index_sorted {
    int *order;     /* [rows_padded] */
    int *index;     /* [offsets][rows_padded] */
    unsigned *mask; /* [mask_words][rows_padded] */
    int passes;     /* passes of the sort, one for each digit */
    unsigned bit_of[SPC_INDEX_OFFSETS]; /* the digest's bit for each offset */
} spc_index_sorted;

/* The digest of a row: the Gray rank of its mask's bits, the number of offsets
 * that it lacks, or bits of its key. */
#define SPC_INDEX_BY_GRAY 0
#define SPC_INDEX_BY_COUNT 1
#define SPC_INDEX_BY_KEY 2

/*
 * A sorted row order that is not by Gray rank or that covers a group of
 * offsets. The layout of a group has only the group's offsets, and its tiles
 * have only rows with at least one of them.
 */
typedef struct spc_index_way {
    int by;       /* if by key, sorted.bit_of has the bits of the key */
    int is_group; /* only offsets begin to end - 1 */
    int begin, end;
} spc_index_way;

/* A tile table. */
typedef struct spc_index_tiles {
    int *table;         /* of digit counts; cleared first */
    unsigned *scratch;  /* [mask_words][tiles], working memory */
    const unsigned *of; /* masks in row order */
    int rows;           /* of a tile; 0: no table from here on is wanted */
    int capacity;
    int *order;     /* [capacity], -1 past the last tile */
    unsigned *mask; /* [mask_words][capacity] */
    int *begin;     /* [offsets], where the tiles of each cost begin */
} spc_index_tiles;

/* The short form of the map in the opposite direction, which has the same
 * pairs. One search writes both. */
typedef struct spc_index_turned {
    int *first;     /* as that map's own; NULL: not wanted */
    unsigned *mask; /* [mask_words][rows_padded of its rows] */
    int rows_padded;
} spc_index_turned;

/* The pairs of a map, grouped by offset. */
typedef struct spc_index_by_offset {
    int *in, *out; /* input and output row of each pair */
    int *place;    /* place of each pair among its output's */
    int *first;    /* [rows_padded] the first place of each output row */
    int *begin;    /* [offsets + 1] */
    int *counts;   /* [offsets][blocks], working memory */
} spc_index_by_offset;

/*
 * Stages of a launch. An earlier launch has done the stages that are left out.
 */
#define SPC_INDEX_BUILD 1  /* the set of the rows, from coordinates */
#define SPC_INDEX_SEARCH 2 /* the map: masks, short form */
#define SPC_INDEX_PLAIN 4  /* the index in coordinate order, after a search */
#define SPC_INDEX_SORT 8   /* a sorted row order */
#define SPC_INDEX_TILE 16  /* a tile table */

typedef struct spc_index_args {
    int stages;
    /* Building: [n][4], 16-byte aligned, n = *source, or source_rows if that is
     * null. */
    const int *coords;
    const int *source;
    int source_rows;
    int *stats; /* [SPC_INDEX_STATS] */
    int *data;  /* [rows][4]: rows of the set are in ascending order of keys and
                   their coordinates are written here; null: in the caller's */
    int *
        twins; /* [rows] rows by key, before equal ones are merged; */
    int *twin_begin; /* [rows + 1] the first of each voxel's; or null */
    /* Working memory. */
    void *keys_a; /* in the caller's order; then digests, then tile masks */
    void *keys_b; /* keys by bin */
    int *rows_a;  /* [2 rows] rank within the bin; digests with rows */
    int *rows_b;  /* [2 rows] by bin, with keys of 32 bits; digests with rows */
    unsigned *bins; /* [2^bin_bits + SPC_INDEX_BEHIND_BINS], zero between
                       launches */
    int *tables;    /* three in rotation, zero between launches */
    spc_index_sync *sync;
    spc_index_set set; /* the set whose voxels are the rows */
    spc_index_set in;  /* the set in which inputs are searched */
    /* The map in coordinate order. */
    int *first;     /* [batches][rows_padded][4] (index_runs.cuh) */
    unsigned *mask; /* [mask_words][rows_padded] */
    unsigned *fours; /* the same, [(mask_words + 3) / 4][rows_padded][4]; of a
                        mask of one word, and where another map's search finds
                        this one's, there are none */
    int *index;     /* [offsets][rows_padded], or NULL */
    int *pairs;     /* [pair_words]: their sum is the number of pairs */
    int pair_words;
    spc_index_turned turned;
    const int *list; /* displacements [offsets][3] if the kernel is no box */
    spc_index_sorted sorted;
    spc_index_tiles tile[SPC_INDEX_TILES];
    int unit; /* positions of a layout that one block writes together: a
                 multiple of 32 and of all tiles' rows */
    /* For the hash search: the keys and the position of each key. */
    void *table;
    int *table_places;
    spc_index_by_offset by_offset; /* for the kernel spc_pairs only */
    spc_index_way way;             /* for the kernel spc_layout only */
} spc_index_args;

/* The layout of a layer in which each row sees only itself. */
#define SPC_ROWS_THREADS 256

typedef struct spc_rows_args {
    const int *count; /* number of rows; null: `rows` */
    int rows;         /* maximum number of rows */
    int rows_padded;
    int tile_rows;
    int tiles;
    int *order;     /* [rows_padded], also the index */
    unsigned *mask; /* [rows_padded] */
    int *tile_order;
    unsigned *tile_mask; /* [tiles] */
    int *tile_begin;     /* [1] */
} spc_rows_args;

/* Derives the outputs of a strided rule from a set's voxels. */
typedef struct spc_derive_args {
    spc_index_set in;
    /*
     * Instead of the keys of `in`, the coordinates that it is made from:
     * [n][4], 16-byte aligned, n = *source, or source_rows if that is null. Or
     * null.
     */
    const int *rows;
    const int *source;
    int source_rows;
    spc_index_key key; /* key layout of the outputs */
    int rule;          /* 0: floor, 1: footprint; unused by generative code */
    int kernel[3], stride[3], dilation[3], padding[3]; /* -origin */
    int bound[3];       /* number of outputs on each axis; 0: any */
    const int *offsets; /* for code of lists: [offset_count][3] */
    int offset_count;
    void *table;    /* [slots] of keys, open addressing */
    unsigned slots; /* a power of two */
    int capacity;
    int *coords; /* [capacity][4] every output once, in any order */
    int *count;  /* number of outputs, even above capacity */
    spc_index_sync *sync;
} spc_derive_args;

/* Adds up the features of rows that belong to one voxel. */
typedef struct spc_merge_args {
    void *features; /* [rows][channels] of the caller's rows */
    int channels;
    int half; /* 1: binary16, 2: bfloat16; 0: binary32 */
    int mean;
    const int *twins;
    const int *twin_begin;
    const int *count;
    const int *stats;
} spc_merge_args;

#endif
