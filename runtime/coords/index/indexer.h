/*
 * indexer.h - who builds coordinate sets, maps and layouts on a device.
 *
 * coords.c, map.c and layout.c own the objects and the public interface; an
 * indexer fills them in. A new one is a file (index_<name>.c) that exports one
 * spc__indexer, and a row in coords.c's table.
 *
 * Nothing below but the creating functions allocates, synchronises, compiles or
 * reads anything back: what they enqueue can be captured into a CUDA graph.
 */
#ifndef SPC_RUNTIME_INDEXER_H
#define SPC_RUNTIME_INDEXER_H

#include "coords/coords.h"
#include "coords/layout.h"
#include "coords/map.h"
#include "coords/regroup/regroup.h"
#include "coords/voxelise.h"

/* Coordinates to build a set from: [n][4] on the device with n = *count, or
 * `rows` if that is NULL. */
typedef struct spc__source {
    const int32_t *coords;
    const int32_t *count;
    int rows;
} spc__source;

struct spc__indexer {
    const char *name;
    bool (*serves)(const spc_ctx *ctx);

    /* Allocates what building needs, for the capacity. The destroying functions
     * are called after a failed creation too. */
    spc_status (*set_create)(spc_coords *coords, spc_error *error);
    void (*set_destroy)(spc_coords *coords);
    /* Fills keys, order, count and stats; of outputs also data. */
    spc_status (*set_build)(spc_coords *coords, const spc__source *source,
                            void *stream, spc_error *error);
    /* The same of a set of outputs, from the set they are derived from. With
     * rows, what its root (root.h) is made of: then that need not be
     * filled before. */
    spc_status (*set_derive)(spc_coords *coords, const spc__source *rows,
                             void *stream, spc_error *error);
    /* Adds the features of equal rows to those of the first, or their mean. */
    spc_status (*set_merge)(const spc_coords *coords, void *features,
                            spc_dtype dtype, int channels, void *stream,
                            spc_error *error);

    /* Can a map be built beside the one that is read the other way round
     * (spc__map_turn)? */
    bool turns;
    spc_status (*map_create)(spc_map *map, spc_error *error);
    void (*map_destroy)(spc_map *map);
    /* As spc__map_configure; NULL: maps have no configurations. */
    spc_status (*map_configure)(spc_map *map, const spc__attrs *config,
                                spc_error *error);
    /* Fills the plain layout (its index if it has one) and the pair count, then
     * `sorted`, if not NULL, as `fill` does. With a source, the set of a
     * submanifold map is built first, in the same launch where that is faster.
     */
    spc_status (*map_build)(spc_map *map, const spc__source *source,
                            const spc__map_layout *sorted, void *stream,
                            spc_error *error);
    /* Prepares filling a sorted layout, whatever it is sorted by; once, or
     * again after a failure. */
    spc_status (*order_create)(spc_map *map, const spc__map_layout *layout,
                               spc_error *error);
    /* Fills a layout of the map as it was built: the index of a plain one; a
     * sorted one with its first tile tables, if it has any. */
    spc_status (*fill)(const spc_map *map, const spc__map_layout *layout,
                       void *stream, spc_error *error);
    /* Makes a tile table, and those after it that go with it. */
    spc_status (*tile)(const spc_map *map, const spc__map_layout *layout,
                       const spc__map_tiles *tiles, void *stream,
                       spc_error *error);
    /* How many tables from this one on are made at once; NULL: it alone. */
    int (*tables)(const spc_map *map, const spc__map_tiles *tiles);
    /* Prepares listing the pairs of a map; once, or again after a failure. */
    spc_status (*list_create)(spc_map *map, spc_error *error);
    /* Lists the pairs of the map as it was built. */
    spc_status (*list)(const spc_map *map, const spc__map_pairs *pairs,
                       void *stream, spc_error *error);
    /* Pairs of the last build; synchronises `stream`. */
    spc_status (*pairs)(const spc_map *map, int64_t *out, void *stream,
                        spc_error *error);
    /* From now on launches take so many blocks at most, so that others can run
     * beside them; 0: as many as are of use. Results are the same. NULL: there
     * are no blocks. */
    void (*set_limit)(spc_coords *coords, unsigned blocks);
    void (*map_limit)(spc_map *map, unsigned blocks);
    const spc__regrouper *regrouper;
    const spc__voxeliser *voxeliser;
};

/* The first that serves the context's device. */
const spc__indexer *spc__indexer_for(const spc_ctx *ctx);

/* A kernel's code: of which template, for which problem. */
typedef struct spc__index_code {
    const char *template_name;
    spc__attrs problem;
} spc__index_code;

/* Code depends on the geometry and on the widths of keys: of inputs and outputs
 * four pairs, with two kernels each; sorting, at two widths; and layouts of
 * their own, at two; and what lays out rows without a map. */
enum { SPC__LADDER_MOST = 13 };

typedef struct spc__index_ladder {
    spc__index_code at[SPC__LADDER_MOST];
    int count;
} spc__index_ladder;

/* All the code that maps of this geometry, and their sets, can come to need on
 * a device that builds them by kernels, whatever the extents; with `apart`, for
 * row orders of which spc__row_order_is_apart too. */
void spc__index_ladder_init(spc__index_ladder *out, unsigned block,
                            const spc_geometry *geometry, bool inverse,
                            bool apart);

/* Threads of a block there: `block`, what the device wants (index_block), or if
 * that is 0 what the target can have. */
unsigned spc__index_block(const spc__attrs *target, unsigned block);

/* Blocks of the indexing kernel: `most`, or fewer where a block has no room in
 * `shared` bytes for the digit counts of so many (kernels of 343 offsets on a
 * GPU with 64 KiB). */
int spc__index_grid(int most, int threads, int offsets, int key_bytes,
                    int64_t shared);

#endif
