/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_device.h - shared by the files that launch indexing kernels.
 */
#ifndef SPC_RUNTIME_INDEX_DEVICE_H
#define SPC_RUNTIME_INDEX_DEVICE_H

#include "coords/index/indexer.h"
#include "coords/map.h"

/* How the search walks the kernel's offsets (index_runs.cuh): runs of `length`
 * neighbours along z, `batch` runs at once, in `batches` batches. */
typedef struct spc__index_runs {
    int length, batch, batches;
} spc__index_runs;

spc__index_runs spc__index_choose_runs(const spc_geometry *geometry,
                                       bool inverse);

/* The key widths that the code of a launch depends on, in addition to the
 * geometry. `key` is the width of the searched keys, `other` the width of the
 * rows' keys. For a derived set they are the widths of its keys and of its
 * inputs' keys. */
typedef struct spc__index_width {
    int key, other;
    unsigned threads;
} spc__index_width;

/* Fills in the problems of the templates "index" and "coords". */
void spc__index_problem(spc__attrs *out, const spc__index_width *width,
                        const spc_geometry *geometry, bool inverse);
/* Fills in the problem of the kernel spc_layout, which reads only the keys of
 * the rows. */
void spc__layout_problem(spc__attrs *out, const spc__index_width *width,
                         const spc_geometry *geometry, bool inverse);
void spc__coords_problem(spc__attrs *out, const spc__index_width *width,
                         const spc_geometry *geometry);

/* Fills in the problem of the template "rows" (rows.h). */
void spc__rows_problem(spc__attrs *out);

/* The geometry for a launch that only sorts: it has one offset, so there is no
 * search. */
spc_geometry spc__index_sorting_only(void);

/* Loads a kernel of a template of role "map". With `config` NULL it uses the
 * default configuration. */
spc_status spc__index_load(spc__kernel **out, spc_ctx *ctx,
                           const char *template, const spc__attrs *problem,
                           const spc__attrs *config, const char *name,
                           size_t shared, spc_error *error);

/* Checks that all blocks can be resident at once, as a cooperative launch
 * requires. */
spc_status spc__index_check_resident(const spc_ctx *ctx, spc__kernel *kernel,
                                     const char *name, unsigned block,
                                     size_t shared, spc_error *error);

/* Scratch memory and sizes of an indexing launch. */
typedef struct spc__index_scratch {
    char *keys; /* two arrays of keys, later used for digests and tile masks */
    size_t key_bytes;
    int *rows[2];
    int *tables;
    spc_index_sync *sync;
    unsigned grid, block;
    unsigned blocks; /* blocks of this launch: `grid`, or fewer if others run
                      * beside it */
    size_t shared;
    spc__kernel *kernel;
} spc__index_scratch;

/* Scratch of a coordinate set. */
typedef struct spc__index_set_work {
    spc__index_scratch s;
    unsigned *bins;
    int *begins, *shares;
    int bin_bits;
    /* For a derived set: */
    void *table;
    unsigned slots;
    int32_t *list; /* outputs, unordered */
    int *listed;   /* number of outputs in the list */
    /* offset list of a rule whose kernel is not a box; else NULL */
    int32_t *offsets;
    spc__kernel *derive;
    spc__kernel *merge;
} spc__index_set_work;

/* ---- shared by sets and maps --------------------------------------------- */

/* Allocates memory that is zero when the first kernel runs. */
spc_status spc__index_alloc_clear(void *out, const spc_coords *c, size_t bytes,
                                  spc_error *error);

/* Uploads the offset list of a kernel that is not a box. Leaves *out unchanged
 * if the kernel is a box. */
spc_status spc__index_upload_list(int32_t **out, const spc_coords *c,
                                  const spc_geometry *g, spc_error *error);

/* Computes the sizes for a set's capacity. */
void spc__index_scratch_init(spc__index_scratch *s, const spc_coords *c,
                             int key_bits, int offsets);
/* Bytes of `keys` for each row. */
size_t spc__index_scratch_row(const spc__index_scratch *s, int mask_words);
/* Limits launches to `blocks`; 0 restores the set's own grid. */
void spc__index_scratch_limit(spc__index_scratch *s, unsigned blocks);
spc_status spc__index_scratch_alloc(spc__index_scratch *s, const spc_coords *c,
                                    int mask_words, spc_error *error);
void spc__index_scratch_release(const spc_coords *c, spc__index_scratch *s);

spc__index_width spc__index_width_of(const spc__index_scratch *s,
                                     const spc_coords *other);

/* Loads the kernel of the template "index" that searches by `config`. */
spc_status spc__index_load_search(spc__kernel **out,
                                  const spc__index_scratch *s,
                                  const spc_coords *to, const spc_geometry *g,
                                  bool inverse, const spc__attrs *config,
                                  spc_error *error);

spc_index_set spc__index_set_args(const spc_coords *c);
void spc__index_add_scratch(spc_index_args *args, const spc__index_scratch *s,
                            int rows_padded);

/* Adds the stage that builds a set. */
spc_status spc__index_add_build(spc_index_args *args, const spc_coords *c,
                                const spc__source *source, spc_error *error);

spc_status spc__index_launch(const spc_ctx *ctx, spc__kernel *kernel,
                             const spc__index_scratch *s,
                             const spc_index_args *args, void *stream,
                             spc_error *error);

/* ---- spc__indexer_device ------------------------------------------------- */

spc_status spc__device_set_create(spc_coords *c, spc_error *error);
void spc__device_set_destroy(spc_coords *c);
void spc__device_set_limit(spc_coords *c, unsigned blocks);
spc_status spc__device_set_build(spc_coords *c, const spc__source *source,
                                 void *stream, spc_error *error);
spc_status spc__device_set_derive(spc_coords *c, const spc__source *rows,
                                  void *stream, spc_error *error);
spc_status spc__device_set_merge(const spc_coords *c, void *features,
                                 spc_dtype dtype, int channels, void *stream,
                                 spc_error *error);
spc_status spc__device_map_create(spc_map *map, spc_error *error);
void spc__device_map_destroy(spc_map *map);
void spc__device_map_limit(spc_map *map, unsigned blocks);
spc_status spc__device_map_configure(spc_map *map, const spc__attrs *config,
                                     spc_error *error);
spc_status spc__device_map_build(spc_map *map, const spc__source *source,
                                 const spc__map_layout *sorted, void *stream,
                                 spc_error *error);
spc_status spc__device_map_order_create(spc_map *map,
                                        const spc__map_layout *layout,
                                        spc_error *error);
spc_status spc__device_map_fill(const spc_map *map,
                                const spc__map_layout *layout, void *stream,
                                spc_error *error);
spc_status spc__device_map_tile(const spc_map *map,
                                const spc__map_layout *layout,
                                const spc__map_tiles *tiles, void *stream,
                                spc_error *error);
int spc__device_map_tables(const spc_map *map, const spc__map_tiles *tiles);
spc_status spc__device_map_list_create(spc_map *map, spc_error *error);
spc_status spc__device_map_list(const spc_map *map, const spc__map_pairs *pairs,
                                void *stream, spc_error *error);
const int *spc__device_map_pairs(const spc_map *map, size_t *words);

#endif
