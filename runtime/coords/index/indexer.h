/* SPDX-License-Identifier: Apache-2.0 */
/*
 * indexer.h - the interface that builds coordinate sets, maps and layouts on a
 * device.
 *
 * coords_create.c, map.c and map_layout.c own the objects and the public
 * interface; an indexer fills them. A new indexer is a file (index_<name>.c)
 * that exports one spc__indexer, and a row in the table in coords_create.c.
 *
 * Only the creating functions may allocate, synchronise, compile or read
 * anything back. All work that the other functions enqueue can be captured into
 * a CUDA graph.
 */
#ifndef SPC_RUNTIME_INDEXER_H
#define SPC_RUNTIME_INDEXER_H

#include "base/attrs.h"
#include "spc.h"
#include "templates/shared/spc_abi.h"

/* Its users know these types; it only passes pointers to them on. */
typedef struct spc__map_layout spc__map_layout;
typedef struct spc__map_tiles spc__map_tiles;
typedef struct spc__map_pairs spc__map_pairs;
typedef struct spc__regrouper spc__regrouper;
typedef struct spc__voxeliser spc__voxeliser;

/* Coordinates to build a set from: [n][4] on the device. n is *count (device),
 * or `rows` if count is NULL. */
typedef struct spc__source {
    const int32_t *coords;
    const int32_t *count;
    int rows;
} spc__source;

/* Functions that only maps of points have; these maps list triplets, not
 * pairs. */
typedef struct spc__triplet_ops {
    /* Fills the clouds from these rows in units of a scene, and the map. */
    spc_status (*rebuild)(spc_map *map, const int32_t *steps, int64_t rows,
                          void *stream, spc_error *error);
    /* Reads the counts and reports errors, as spc_map_check. */
    spc_status (*inspect)(spc_map *map, void *stream, spc_error *error);
    /* Triplets that the map has room for. */
    int64_t (*capacity)(const spc_map *map);
    /* Returns the triplets by output, as kernels read them. */
    void (*view)(spc_triplets_view *out, const spc_map *map);
} spc__triplet_ops;

typedef struct spc__indexer {
    const char *name;
    bool (*serves)(const spc_ctx *ctx);

    /* Allocates the memory that building needs, for the capacity. The destroy
     * functions are also called after a failed creation. */
    spc_status (*set_create)(spc_coords *coords, spc_error *error);
    void (*set_destroy)(spc_coords *coords);
    /* Fills keys, order, count and stats; for outputs also data. */
    spc_status (*set_build)(spc_coords *coords, const spc__source *source,
                            void *stream, spc_error *error);
    /* Like set_build, for a set of outputs, which it derives from its inputs.
     * With `rows` it derives from the rows of the root (root.h); the root
     * itself need not be filled then. */
    spc_status (*set_derive)(spc_coords *coords, const spc__source *rows,
                             void *stream, spc_error *error);
    /* Adds the features of equal rows to those of the first one, or computes
     * their mean. */
    spc_status (*set_merge)(const spc_coords *coords, void *features,
                            spc_dtype dtype, int channels, void *stream,
                            spc_error *error);

    /* True if one search can build a map and the same map in reverse direction
     * (spc__map_derive). */
    bool derives;
    spc_status (*map_create)(spc_map *map, spc_error *error);
    void (*map_destroy)(spc_map *map);
    /* See spc__map_configure. NULL: maps have no configurations. */
    spc_status (*map_configure)(spc_map *map, const spc__attrs *config,
                                spc_error *error);
    /* Fills the plain layout (with its index if it has one) and the pair count,
     * then fills `sorted` like `fill`, if not NULL. With a source, it first
     * builds the set of a submanifold map, in the same launch if that is
     * faster. */
    spc_status (*map_build)(spc_map *map, const spc__source *source,
                            const spc__map_layout *sorted, void *stream,
                            spc_error *error);
    /* Prepares sorted layouts of any order. Called once, and again after a
     * failure. */
    spc_status (*order_create)(spc_map *map, const spc__map_layout *layout,
                               spc_error *error);
    /* Fills a layout from the built map: the index of a plain layout, or a
     * sorted layout with its first tile tables, if any. */
    spc_status (*fill)(const spc_map *map, const spc__map_layout *layout,
                       void *stream, spc_error *error);
    /* Makes a tile table, and the following tables that are made with it. */
    spc_status (*tile)(const spc_map *map, const spc__map_layout *layout,
                       const spc__map_tiles *tiles, void *stream,
                       spc_error *error);
    /* Number of tables from this one on that one call makes; NULL: one. */
    int (*tables)(const spc_map *map, const spc__map_tiles *tiles);
    /* Prepares listing the pairs of a map. Called once, and again after a
     * failure. */
    spc_status (*list_create)(spc_map *map, spc_error *error);
    /* Lists the pairs of the built map. */
    spc_status (*list)(const spc_map *map, const spc__map_pairs *pairs,
                       void *stream, spc_error *error);
    /* Returns the counters on the device, *words in number. Their sum is the
     * number of pairs of the last build. NULL: map->pairs is already exact. */
    const int *(*pairs)(const spc_map *map, size_t *words);
    /* Limits later launches to `blocks` blocks, so that other kernels can run
     * at the same time; 0 removes the limit. Results do not change. NULL: the
     * device has no blocks. */
    void (*set_limit)(spc_coords *coords, unsigned blocks);
    void (*map_limit)(spc_map *map, unsigned blocks);
    const spc__regrouper *regrouper;
    const spc__voxeliser *voxeliser;
    /* operations of maps of points; else NULL */
    const spc__triplet_ops *triplets;
} spc__indexer;

/* Returns the first indexer that supports the context's device. */
const spc__indexer *spc__indexer_for(const spc_ctx *ctx);

/* Identifies a kernel's code: its template and problem. */
typedef struct spc__index_code {
    const char *template_name;
    spc__attrs problem;
} spc__index_code;

/* Code depends on the geometry and on key widths. Two kernels for each of the
 * four pairs of input and output widths, sorting and layouts at two widths
 * each, the layout of rows without a map, and a kernel that the tuner adds. */
enum { SPC__LADDER_MOST = 14 };

typedef struct spc__index_ladder {
    spc__index_code at[SPC__LADDER_MOST];
    int count;
} spc__index_ladder;

/* Lists all code that maps of this geometry and their sets may need, whatever
 * their extents, on a device that builds them by kernels. With `apart` this
 * includes row orders with separate kernels (spc__row_order_is_apart). */
void spc__index_ladder_init(spc__index_ladder *out, unsigned block,
                            const spc_geometry *geometry, bool inverse,
                            bool apart);

/* Threads of a block for the target: `block` if the device asks for a size
 * (index_block), else (0) the target's maximum. */
unsigned spc__index_block(const spc__attrs *target, unsigned block);

/* Blocks of the indexing kernel: `most`, or fewer if `shared` bytes cannot hold
 * the digit counts of that many blocks. This happens with 343 offsets on a GPU
 * with 64 KiB. */
int spc__index_grid(int most, int threads, int offsets, int key_bytes,
                    int64_t shared);

#endif
