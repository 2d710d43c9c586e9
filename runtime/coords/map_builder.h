/*
 * map_builder.h - what a kernel map is made of, and who builds it.
 *
 * map.c owns maps, their layouts and the public interface; a builder fills
 * them in. A new builder is a file (map_<name>.c) that exports one
 * spc__map_builder, and a row in map.c's table.
 *
 * All arrays live on the device. Positions p of a row order run to
 * rows_padded, a multiple of SPC_ROW_PAD, fixed when the map is created;
 * positions past the rows hold order -1, mask 0, index -1.
 */
#ifndef SPC_RUNTIME_MAP_BUILDER_H
#define SPC_RUNTIME_MAP_BUILDER_H

#include "map.h"

/*
 * How a coordinate row becomes a key: four fields, batch highest, z lowest. A
 * coordinate c is held as c - low + before. Field values below `before` and
 * above before + last never occur in a scene: these guard bands are as wide as
 * the kernel reaches, so that adding an offset to a key never borrows from
 * or carries into the next field.
 */
typedef struct spc__key_layout {
    int32_t low[4];    /* batch, x, y, z */
    uint32_t last[4];  /* largest c - low accepted */
    int64_t before[4]; /* width of the lower guard band */
    int bits[4];
    int total_bits;
} spc__key_layout;

/*
 * The narrowest layout for coordinates low..high and the kernel of `conv`.
 * SPC_ERANGE, naming the axis at fault, if 64 bits are not enough.
 */
spc_status spc__key_layout_choose(spc__key_layout *out, const spc_conv *conv,
                                  const int32_t low[4], const int32_t high[4],
                                  spc_error *error);

/* Smallest and largest coordinate of each field; zeros for no rows. */
void spc__coords_extent(int32_t low[4], int32_t high[4], const int32_t *coords,
                        int64_t rows);

/* Bits of a digest, for kernels of up to 27 offsets and for larger ones: two
 * passes of a sort, or three. */
enum { SPC__DIGEST_FEW = 18, SPC__DIGEST_MANY = 27 };

/* The bit of every offset, 0 for the centre; returns how many bits there are.
 */
int spc__row_order_bits(uint32_t *bit_of, const spc__row_order *order,
                        const spc_conv *conv);

/*
 * Words that a build leaves on the device, for spc__map_check: the first row
 * out of range by field (batch, x, y, z), SPC__MAP_NO_ROW if none; how many
 * rows equal their predecessor in key order; then how many pairs there are.
 */
enum {
    SPC__MAP_BAD_ROW = 0,
    SPC__MAP_DUPLICATES = 4,
    SPC__MAP_PAIRS = 8, /* pairs % 65536, summed, and pairs / 65536 */
    SPC__MAP_STATS = 10,
    SPC__MAP_NO_ROW = 0x7fffffff
};

/* One tile size of a layout. */
typedef struct spc__map_tiles {
    struct spc__map_tiles *next;
    int rows;     /* of a tile */
    int capacity; /* tiles allocated for */
    int *order;
    unsigned *mask;
    int *begin;
} spc__map_tiles;

/* Keys past the last that a builder may read, whatever they are. */
enum { SPC__KEY_SLACK = 8 };

/* One row order of a map. The plain one has no index until somebody reads it.
 */
typedef struct spc__map_layout {
    struct spc__map_layout *next;
    const spc__row_order *sorted; /* NULL: coordinate order */
    uint32_t *bit_of;             /* [offsets] of a sorted one */
    int bits;
    int *order;
    int *index;
    unsigned *mask;
    spc__map_tiles *tiles;
} spc__map_layout;

typedef struct spc__map_builder spc__map_builder;

struct spc_map {
    spc_ctx *ctx;
    const spc__map_builder *builder;
    void *work; /* the builder's own */
    spc_conv conv;
    int offsets, mask_words, centre;
    spc__key_layout key;
    int rows, capacity, rows_padded;
    int64_t pairs;
    int32_t *coords;         /* a copy of our own, or NULL */
    spc__map_layout plain;   /* coordinate order */
    spc__map_layout *sorted; /* the sorted orders that were prepared */
    void *keys;              /* ascending; u32 or u64; builders may pad */
    int32_t *stats;          /* [SPC__MAP_STATS] */
};

struct spc__map_builder {
    const char *name;
    bool (*serves)(const spc_ctx *ctx);

    /* Allocates what building needs, for map->capacity rows. */
    spc_status (*create)(spc_map *map, spc_error *error);
    void (*destroy)(spc_map *map); /* also after a failed create */

    /* None of the three allocates or synchronises.
     * Fills keys, stats and the plain layout (its index, if it has one) from
     * coords; then, if not NULL, `sorted` as `fill` does. */
    spc_status (*build)(spc_map *map, const int32_t *coords,
                        const spc__map_layout *sorted, void *stream,
                        spc_error *error);
    /* Fills a layout of the map as it was built: the index of a plain one; a
     * sorted one with its first tile table, if it has one. */
    spc_status (*fill)(const spc_map *map, const spc__map_layout *layout,
                       void *stream, spc_error *error);
    spc_status (*tile)(const spc_map *map, const spc__map_layout *layout,
                       const spc__map_tiles *tiles, void *stream,
                       spc_error *error);
};

/* Blocks of the indexing kernel: `most`, or fewer where a block has no room in
 * `shared` bytes for the digit counts of so many (kernels of 343 offsets on a
 * GPU with 64 KiB). */
int spc__index_grid(int most, int threads, int offsets, int key_bytes,
                    int64_t shared);

/* Tiles in use for the map's present rows. */
static inline int spc__map_tile_count(const spc_map *map, int tile_rows)
{
    return (map->rows + tile_rows - 1) / tile_rows;
}

/* Arrays of one layout; released also when only some were allocated. */
spc_status spc__map_layout_alloc(spc__map_layout *layout, const spc_map *map,
                                 spc_error *error);
spc_status spc__map_index_alloc(spc__map_layout *layout, const spc_map *map,
                                spc_error *error);
void spc__map_layout_release(const spc_map *map, spc__map_layout *layout);

/* Device memory through the map's context. */
spc_status spc__map_alloc(void **out, const spc_map *map, size_t bytes,
                          spc_error *error);
void spc__map_dealloc(const spc_map *map, void *memory);

#endif
