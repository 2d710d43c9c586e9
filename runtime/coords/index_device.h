/*
 * index_device.h - what the files that launch indexing kernels share.
 */
#ifndef SPC_RUNTIME_INDEX_DEVICE_H
#define SPC_RUNTIME_INDEX_DEVICE_H

#include "indexer.h"

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

#endif
