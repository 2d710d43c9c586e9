/*
 * layout.h - the forms of a kernel map that kernels read.
 *
 *   table             for each offset the input of every output row, in some
 *                     row order, with masks and tile tables of any number of
 *                     sizes (spc_abi.h, spc_map_view): for kernels that gather.
 *                     Made by spc__map_prepare
 *   transposed table  for each offset the output of every input row: the table
 *                     of the inverse relation's map. Made by
 *                     spc__map_create_transposed, and prepared as any table
 *   triplets          (input, offset) of each output, those of one output
 *                     together (spc_triplets_view): what a map of points has,
 *                     with nothing to prepare
 *   bundles           the triplets of 16 outputs that follow each other, by
 *                     offset. Made by spc__map_prepare_bundles
 *   by inputs         (output, offset) of each input, those of one input
 *                     together, and the inputs in an order in which neighbours
 *                     are near. Made by spc__map_prepare_inputs
 *   pairs by offset   (input, output) of each offset, those of one offset
 *                     together (spc_pairs_view): for kernels that work offset
 *                     by offset. Made by spc__map_prepare_pairs
 *
 * Tables and pairs live in the map, are filled again whenever it is rebuilt,
 * and are sized for the capacity of its sets.
 */
#ifndef SPC_RUNTIME_LAYOUT_H
#define SPC_RUNTIME_LAYOUT_H

#include "coords/keys.h"
#include "operators/geometry.h"
#include "templates/shared/spc_abi.h"

/* A sorted row order (order.c); NULL for an unknown name, and for "none", which
 * is no sorted one. */
typedef struct spc__row_order spc__row_order;
const spc__row_order *spc__row_order_find(const char *name);
const char *spc__row_order_names(void);

/* Is its code on a device another kernel's than that of "gray"? */
bool spc__row_order_is_apart(const char *name);

/* In so many groups are the offsets of its kernel, each with a layout of its
 * own; 1 for NULL. */
int spc__row_order_groups(const spc__row_order *order);
/* The first offset of a group; group `groups` begins behind the last. */
int spc__group_begin(int group, int groups, int offsets);

/* Bits of a digest, for kernels of up to 27 offsets and for larger ones: two
 * passes of a sort, or three. */
enum { SPC__DIGEST_FEW = 18, SPC__DIGEST_MANY = 27 };

/* The bits of every offset, 0 for the centre and outside the group; returns how
 * many bits there are. Only "planes" gives an offset several. */
int spc__row_order_bits(uint32_t *bit_of, const spc__row_order *order,
                        const spc_geometry *geometry, int group);

/* One tile size of a layout. */
typedef struct spc__map_tiles {
    struct spc__map_tiles *next;
    int rows;     /* of a tile */
    int capacity; /* entries of the table; those past the last tile say so */
    int *order;
    unsigned *mask;
    int *begin;
} spc__map_tiles;

/* The pairs of a map, those of offset k at begin[k] to begin[k + 1] - 1. */
typedef struct spc__map_pairs {
    int *in, *out, *place;
    int *first;
    int *begin;
} spc__map_pairs;

/* The most bits of a key. */
enum { SPC__KEY_BITS = 64 };

/*
 * One row order of a map. The plain one shares the order of its set, and has no
 * index until somebody reads it. Of an order in groups each group of offsets
 * has a layout: with a mask of those offsets alone, and tiles of the rows that
 * have any. The index is one for all groups, as none needs another's offsets.
 */
typedef struct spc__map_layout {
    struct spc__map_layout *next;
    const spc__row_order *sorted; /* NULL: the order of keys */
    int by;                       /* SPC_INDEX_BY_ of a sorted one */
    int group, groups;
    int begin, end;   /* the offsets of the group */
    uint32_t *bit_of; /* [offsets], or [SPC__KEY_BITS] where it goes by keys */
    int bits;
    int *order;
    int *index;
    bool borrows_index; /* that of group 0 */
    unsigned *mask;
    spc__map_tiles *tiles;
    spc__map_pairs *pairs; /* of the plain one; NULL: not prepared */
} spc__map_layout;

/*
 * Prepares the layout; does nothing if it is there. Row orders:
 *   "none"  rows in ascending key order: order[p] is the caller's row of the
 *           p-th smallest key
 *   "gray", "gray_x", "gray_y", "planes"
 *           rows sorted by the Gray rank of a digest of their offset mask,
 *           stable; the four differ in which offsets share a bit of the digest
 *           (order.c), which is set if any of them is present
 *   "gray2", "gray3", "gray4"
 *           the same for each of so many groups of offsets by itself
 *   "dense" rows with most inputs first, stable
 *   "morton"
 *           along a Morton curve through the extent of the set
 * tile_rows 0: no tile table.
 */
spc_status spc__map_prepare(spc_map *map, const char *order, int tile_rows,
                            void *stream);

/* The prepared layout, of the first group of its offsets; false if it was never
 * prepared. */
bool spc__map_view(spc_map_view *out, const spc_map *map, const char *order,
                   int tile_rows);

/* The same of any group. The tile table ends before tiles without an offset of
 * the group; rows of those tiles have none either. */
bool spc__map_view_group(spc_map_view *out, const spc_map *map,
                         const char *order, int tile_rows, int group);

/* The rows in the order of keys with their masks, and with no index and no tile
 * table. Tile t is positions t * tile_rows on. */
void spc__map_view_rows(spc_map_view *out, const spc_map *map, int tile_rows);

/* Prepares the list of pairs; does nothing if it is there. */
spc_status spc__map_prepare_pairs(spc_map *map, void *stream);

/* The prepared list; false if it was never prepared. */
bool spc__map_pairs_view(spc_pairs_view *out, const spc_map *map);

/* The triplets of a map of points; false for other maps. */
bool spc__map_triplets_view(spc_triplets_view *out, const spc_map *map);

/* The triplets of a map of points by bundles: made, once; made again; what
 * kernels read, false if they were never made. */
spc_status spc__map_prepare_bundles(spc_map *map, void *stream);
spc_status spc__map_rebundle(const spc_map *map, void *stream);
bool spc__map_bundles_view(spc_triplets_view *out, const spc_map *map);

/* The triplets of a map of points by inputs, likewise: the relation searched from
 * the other side. In `inputs` only `in`, the row of each position or -1, and
 * `capacity`, how many positions there are, say something. */
spc_status spc__map_prepare_inputs(spc_map *map, void *stream);
spc_status spc__map_reinput(const spc_map *map, void *stream);
bool spc__map_inputs_view(spc_triplets_view *out, spc_pairs_view *inputs,
                          const spc_map *map);

/* Pairs that the map can come to have: as many as were counted, if it is never
 * filled anew. */
int64_t spc__map_pair_capacity(const spc_map *map);

/*
 * The map of the inverse relation, between the same sets: its table is the
 * transposition of map's. Where offset k of output j is input i, there offset k
 * of output i is input j. Not filled yet; the caller frees it.
 */
spc_status spc__map_create_transposed(spc_map **out, const spc_map *map);

/* Builds one prepared layout again (to be timed). */
spc_status spc__map_relayout(spc_map *map, const char *order, int tile_rows,
                             void *stream);
spc_status spc__map_relist(spc_map *map, void *stream);

/* What a sorted layout of `group` is sorted by, where the outputs have these
 * keys. */
spc_status spc__row_order_describe(spc__map_layout *out,
                                   const spc__row_order *order,
                                   const spc_geometry *geometry,
                                   const spc_index_key *key, int group,
                                   spc_error *error);

/* Arrays of the plain layout, and of all; released also when only some were
 * allocated. */
spc_status spc__map_layout_alloc(spc__map_layout *layout, const spc_map *map,
                                 spc_error *error);
spc_status spc__map_index_alloc(spc__map_layout *layout, const spc_map *map,
                                spc_error *error);
void spc__map_layout_release(const spc_map *map, spc__map_layout *layout);

/* Everything that a rebuilt map's layouts need besides the first sorted one. */
spc_status spc__map_refill(const spc_map *map, bool first_is_filled,
                           void *stream, spc_error *error);

#endif
