/* SPDX-License-Identifier: Apache-2.0 */
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
 *   triplets          (input, offset) of each output, grouped by output
 *                     (spc_triplets_view): the form of a map of points, which
 *                     needs no preparation
 *   bundles           the triplets of 16 consecutive outputs, by offset. Made
 *                     by spc__map_prepare_bundles
 *   by inputs         (output, offset) of each input, grouped by input. Inputs
 *                     are ordered so that neighbours are close. Made by
 *                     spc__map_prepare_inputs
 *   pairs by offset   (input, output) of each offset, grouped by offset
 *                     (spc_pairs_view): for kernels that work offset by
 *                     offset. Made by spc__map_prepare_pairs
 *
 * Tables and pairs live in the map and are filled again whenever it is rebuilt.
 * Their memory has room for the rows that its sets reserved. They keep their
 * addresses until the map is freed, so that a plan may remember a view
 * (plan/binding.h). A layout that is prepared before the map is filled gets its
 * contents with the map. Lists of pairs that fit one filling
 * (spc_map_fit_lists) are the exception: the next filling makes them stale, and
 * they may move when they are prepared again.
 */
#ifndef SPC_RUNTIME_LAYOUT_H
#define SPC_RUNTIME_LAYOUT_H

#include "coords/keys.h"
#include "operators/geometry.h"
#include "templates/shared/spc_abi.h"

/* Finds a sorted row order (order.c). Returns NULL for an unknown name and for
 * "none", which is not a sorted order. */
typedef struct spc__row_order spc__row_order;
const spc__row_order *spc__row_order_find(const char *name);
const char *spc__row_order_names(void);

/* True if the order needs other device code than "gray". */
bool spc__row_order_is_apart(const char *name);

/* Number of groups of offsets, each with a separate layout; 1 for NULL. */
enum { SPC__ORDER_GROUPS = 4 }; /* maximum number of groups */
int spc__row_order_groups(const spc__row_order *order);
/* The first offset of a group; group `groups` begins after the last offset. */
int spc__group_begin(int group, int groups, int offsets);

/* Bits of a digest, for kernels of up to 27 offsets and for larger ones. They
 * take two and three passes of the sort. */
enum { SPC__DIGEST_FEW = 18, SPC__DIGEST_MANY = 27 };

/* Sets the digest bits of every offset: 0 for the centre and for offsets
 * outside the group. Returns the number of bits. Only "planes" gives an offset
 * several bits. */
int spc__row_order_bits(uint32_t *bit_of, const spc__row_order *order,
                        const spc_geometry *geometry, int group);

/* One tile size of a layout. */
typedef struct spc__map_tiles {
    struct spc__map_tiles *next;
    int rows;   /* rows of a tile */
    int *order; /* entries after the last tile are cleared */
    unsigned *mask;
    int *begin;
} spc__map_tiles;

/* The pairs of a map; the pairs of offset k are begin[k] to begin[k + 1] -
 * 1. */
typedef struct spc__map_pairs {
    int *in, *out, *place;
    int *first;
    int *begin;
    size_t entries; /* entries of `in`, `out` and `place` */
    bool fits;      /* allocated for the pairs of one fill */
    bool is_stale;  /* if `fits`: the map was filled again since */
} spc__map_pairs;

/* Maximum number of bits of a key. */
enum { SPC__KEY_BITS = 64 };

/*
 * One row order of a map. The plain order is the set's order, and it gets an
 * index only when a kernel reads one. An order in groups has one layout for
 * each group of offsets: its masks have only those offsets, and its tiles only
 * rows with any of them. All groups share one index, since no group reads the
 * offsets of another.
 */
typedef struct spc__map_layout {
    struct spc__map_layout *next;
    const spc__row_order *sorted; /* NULL: key order */
    int by;                       /* the SPC_INDEX_BY_ of a sorted order */
    int group, groups;
    int begin, end;   /* offsets of the group */
    uint32_t *bit_of; /* [offsets], or [SPC__KEY_BITS] for orders by key */
    int bits;
    int *order;
    int *index;
    bool borrows_index; /* uses the index of group 0 */
    unsigned *mask;
    spc__map_tiles *tiles;
    spc__map_pairs *pairs; /* pairs of the plain order; NULL: not prepared */
} spc__map_layout;

/*
 * Prepares the layout; does nothing if it exists. Row orders:
 *   "none"  rows in ascending key order: order[p] is the caller's row of the
 *           p-th smallest key
 *   "gray", "gray_x", "gray_y", "planes"
 *           rows sorted by the Gray rank of a digest of their offset mask,
 *           stable. A bit of the digest is set if any of its offsets is
 *           present; the four orders differ in which offsets share a bit
 *           (order.c)
 *   "gray2", "gray3", "gray4"
 *           the same, separately for each of 2, 3 or 4 groups of offsets
 *   "dense" rows with most inputs first, stable
 *   "morton"
 *           along a Morton curve through the extent of the set
 * tile_rows 0: no tile table.
 */
spc_status spc__map_prepare(spc_map *map, const char *order, int tile_rows,
                            void *stream);

/* Entries of a table of tiles: as many as the capacity of the rows needs. */
int spc__map_tile_count(const spc_map *map, int tile_rows);

/* Returns the prepared layout of the first group of offsets; false if it was
 * never prepared. */
bool spc__map_view(spc_map_view *out, const spc_map *map, const char *order,
                   int tile_rows);

/* The same for any group. The tile table ends before tiles without an offset of
 * the group; the rows of such tiles have no offset of the group either. */
bool spc__map_view_group(spc_map_view *out, const spc_map *map,
                         const char *order, int tile_rows, int group);

/* Returns the rows in key order with their masks, but without an index or tile
 * table. Tile t starts at position t * tile_rows. */
void spc__map_view_rows(spc_map_view *out, const spc_map *map, int tile_rows);

/* Prepares the list of pairs; does nothing if it exists and is not stale. */
spc_status spc__map_prepare_pairs(spc_map *map, void *stream);

/* Returns the prepared list; false if it was never prepared. */
bool spc__map_pairs_view(spc_pairs_view *out, const spc_map *map);

/* Returns the triplets of a map of points; false for other maps. */
bool spc__map_triplets_view(spc_triplets_view *out, const spc_map *map);

/* The triplets of a map of points by bundles: prepares them once, fills them
 * again, and returns the view that kernels read (false if they were never
 * prepared). */
spc_status spc__map_prepare_bundles(spc_map *map, void *stream);
spc_status spc__map_rebundle(const spc_map *map, void *stream);
bool spc__map_bundles_view(spc_triplets_view *out, const spc_map *map);

/* The triplets of a map of points by inputs, likewise: the same relation
 * grouped by the other side. In `inputs` only two members are set: `in`, the
 * row of each position or -1, and `capacity`, the number of positions. */
spc_status spc__map_prepare_inputs(spc_map *map, void *stream);
spc_status spc__map_reinput(const spc_map *map, void *stream);
bool spc__map_inputs_view(spc_triplets_view *out, spc_pairs_view *inputs,
                          const spc_map *map);

/* Maximum number of pairs of the map; the exact count if the map is never
 * filled again. */
int64_t spc__map_pair_capacity(const spc_map *map);

/*
 * Creates the map of the inverse relation between the same sets. Its table is
 * the transpose: if offset k of output j is input i in `map`, then offset k of
 * output i is input j in the new map. The map is not filled yet; the caller
 * frees it.
 */
spc_status spc__map_create_transposed(spc_map **out, const spc_map *map);

/* Builds one prepared layout again, for timing. */
spc_status spc__map_relayout(spc_map *map, const char *order, int tile_rows,
                             void *stream);
spc_status spc__map_relist(spc_map *map, void *stream);

/* Describes the sort key of `group` for outputs with these keys. */
spc_status spc__row_order_describe(spc__map_layout *out,
                                   const spc__row_order *order,
                                   const spc_geometry *geometry,
                                   const spc_index_key *key, int group,
                                   spc_error *error);

/* Allocate the arrays of the plain layout and of all layouts, and release them,
 * even if only some were allocated. */
spc_status spc__map_layout_alloc(spc__map_layout *layout, const spc_map *map,
                                 spc_error *error);
spc_status spc__map_index_alloc(spc__map_layout *layout, const spc_map *map,
                                spc_error *error);
void spc__map_layout_release(const spc_map *map, spc__map_layout *layout);

/* Refills all layouts of a rebuilt map except the first sorted one. */
spc_status spc__map_refill(const spc_map *map, bool first_is_filled,
                           void *stream, spc_error *error);

#endif
