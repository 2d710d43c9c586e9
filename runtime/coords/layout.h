/*
 * layout.h - the forms of a kernel map that kernels read.
 *
 * A table layout is a row order with, for each offset, the input of every row,
 * its masks, and tile tables of any number of sizes (spc_abi.h, spc_map_view).
 * A map's table is transposed by making the map of the inverse relation.
 */
#ifndef SPC_RUNTIME_LAYOUT_H
#define SPC_RUNTIME_LAYOUT_H

#include "geometry.h"
#include "spc_abi.h"

/* A sorted row order (order.c); NULL for an unknown name, and for "none", which
 * is no sorted one. */
typedef struct spc__row_order spc__row_order;
const spc__row_order *spc__row_order_find(const char *name);
const char *spc__row_order_names(void);

/* Bits of a digest, for kernels of up to 27 offsets and for larger ones: two
 * passes of a sort, or three. */
enum { SPC__DIGEST_FEW = 18, SPC__DIGEST_MANY = 27 };

/* The bit of every offset, 0 for the centre; returns how many bits there are.
 */
int spc__row_order_bits(uint32_t *bit_of, const spc__row_order *order,
                        const spc_geometry *geometry);

/* One tile size of a layout. */
typedef struct spc__map_tiles {
    struct spc__map_tiles *next;
    int rows;     /* of a tile */
    int capacity; /* entries of the table; those past the last tile say so */
    int *order;
    unsigned *mask;
    int *begin;
} spc__map_tiles;

/* One row order of a map. The plain one shares the order of its set, and has no
 * index until somebody reads it. */
typedef struct spc__map_layout {
    struct spc__map_layout *next;
    const spc__row_order *sorted; /* NULL: the order of keys */
    uint32_t *bit_of;             /* [offsets] of a sorted one */
    int bits;
    int *order;
    int *index;
    unsigned *mask;
    spc__map_tiles *tiles;
} spc__map_layout;

/*
 * Prepares the layout; does nothing if it is there. Row orders:
 *   "none"  rows in ascending key order: order[p] is the caller's row of the
 *           p-th smallest key
 *   "gray", "gray_x", "gray_y"
 *           rows sorted by the Gray rank of a digest of their offset mask,
 *           stable; the three differ in which offsets share a bit of the digest
 *           (order.c), which is set if any of them is present
 * tile_rows 0: no tile table.
 */
spc_status spc__map_prepare(spc_map *map, const char *order, int tile_rows,
                            void *stream);

/* The prepared layout; false if it was never prepared. */
bool spc__map_view(spc_map_view *out, const spc_map *map, const char *order,
                   int tile_rows);

/* Builds one prepared layout again (to be timed). */
spc_status spc__map_relayout(spc_map *map, const char *order, int tile_rows,
                             void *stream);

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
