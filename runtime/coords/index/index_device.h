/*
 * index_device.h - what the files that launch indexing kernels share.
 */
#ifndef SPC_RUNTIME_INDEX_DEVICE_H
#define SPC_RUNTIME_INDEX_DEVICE_H

#include "coords/index/indexer.h"

/* How the search takes the kernel's offsets (index_runs.cuh): in runs of so
 * many neighbours along z, so many runs at once, in so many batches. */
typedef struct spc__index_runs {
    int length, batch, batches;
} spc__index_runs;

spc__index_runs spc__index_choose_runs(const spc_geometry *geometry,
                                       bool inverse);

/* What the code of a launch depends on besides the geometry: bits of the keys
 * that are searched, and of those of the rows (of a set that is derived: its
 * own, and those of its inputs). */
typedef struct spc__index_width {
    int key, other;
    unsigned threads;
} spc__index_width;

/* The problems of the templates "index" and "coords". */
void spc__index_problem(spc__attrs *out, const spc__index_width *width,
                        const spc_geometry *geometry, bool inverse);
/* Of the kernel spc_layout, which looks into the keys of the rows alone. */
void spc__layout_problem(spc__attrs *out, const spc__index_width *width,
                         const spc_geometry *geometry, bool inverse);
void spc__coords_problem(spc__attrs *out, const spc__index_width *width,
                         const spc_geometry *geometry);

/* Of the template "rows" (rows.h). */
void spc__rows_problem(spc__attrs *out);

/* Sorting alone is what the map of a kernel of one offset does before it
 * searches. */
spc_geometry spc__index_sorting_only(void);

/* A kernel of a template of role "map"; `config` NULL: the default. */
spc_status spc__index_load(spc__kernel **out, spc_ctx *ctx,
                           const char *template, const spc__attrs *problem,
                           const spc__attrs *config, const char *name,
                           size_t shared, spc_error *error);

/* A cooperative launch needs all its blocks resident. */
spc_status spc__index_check_resident(const spc_ctx *ctx, spc__kernel *kernel,
                                     const char *name, unsigned block,
                                     size_t shared, spc_error *error);

/* What a launch of the indexing kernel works with. */
typedef struct spc__index_scratch {
    char *keys; /* two orders of keys; then digests, and tile masks */
    size_t key_bytes;
    int *rows[2];
    int *tables;
    spc_index_sync *sync;
    unsigned grid, block;
    unsigned blocks; /* of a launch: `grid`, or fewer beside others */
    size_t shared;
    spc__kernel *kernel;
} spc__index_scratch;

/* Of a coordinate set. */
typedef struct spc__index_set_work {
    spc__index_scratch s;
    unsigned *bins;
    int *begins, *shares;
    int bin_bits;
    /* Of one that is derived. */
    void *table;
    unsigned slots;
    int32_t *list; /* outputs in no order */
    int *listed;   /* how many */
    int32_t *offsets; /* of a rule by a list; else NULL */
    spc__kernel *derive;
    spc__kernel *merge;
} spc__index_set_work;

/* ---- what sets and maps share --------------------------------------------
 */

/* Memory whose words are zero when the first kernel runs. */
spc_status spc__index_alloc_clear(void *out, const spc_coords *c, size_t bytes,
                                  spc_error *error);

/* The displacements of a kernel that is no box, beside the set: what `*out` is
 * left as where it is a box. */
spc_status spc__index_upload_list(int32_t **out, const spc_coords *c,
                                  const spc_geometry *g, spc_error *error);

/* Sizes for a set's capacity. */
void spc__index_scratch_init(spc__index_scratch *s, const spc_coords *c,
                             int key_bits, int offsets);
/* Bytes of `keys` that a row has. */
size_t spc__index_scratch_row(const spc__index_scratch *s, int mask_words);
/* Of `blocks` at most; 0: the set's own grid. */
void spc__index_scratch_limit(spc__index_scratch *s, unsigned blocks);
spc_status spc__index_scratch_alloc(spc__index_scratch *s, const spc_coords *c,
                                    int mask_words, spc_error *error);
void spc__index_scratch_release(const spc_coords *c, spc__index_scratch *s);

spc__index_width spc__index_width_of(const spc__index_scratch *s,
                                     const spc_coords *other);

/* The kernel of the template "index" that searches by `config`. */
spc_status spc__index_load_search(spc__kernel **out,
                                  const spc__index_scratch *s,
                                  const spc_coords *to, const spc_geometry *g,
                                  bool inverse, const spc__attrs *config,
                                  spc_error *error);

spc_index_set spc__index_set_args(const spc_coords *c);
void spc__index_add_scratch(spc_index_args *args, const spc__index_scratch *s,
                            int rows_padded);

/* The stage that builds a set. */
spc_status spc__index_add_build(spc_index_args *args, const spc_coords *c,
                                const spc__source *source, spc_error *error);

spc_status spc__index_launch(const spc_ctx *ctx, spc__kernel *kernel,
                             const spc__index_scratch *s,
                             const spc_index_args *args, void *stream,
                             spc_error *error);

/* ---- what spc__indexer_device is made of --------------------------------- */

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
spc_status spc__device_map_pairs(const spc_map *map, int64_t *out, void *stream,
                                 spc_error *error);

#endif
