/* SPDX-License-Identifier: Apache-2.0 */
/* launch_geometry.h - how the kernels of a template are launched. */
#ifndef SPC_RUNTIME_LAUNCH_GEOMETRY_H
#define SPC_RUNTIME_LAUNCH_GEOMETRY_H

#include "base/attrs.h"
#include "spc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Launch geometry (templates/README.md). */
typedef struct spc__launch_geometry {
    char order[8]; /* row order (map.h) */
    int groups;    /* groups of offsets with a launch each; 1: a single
                    * launch */
    unsigned block;
    unsigned grid_x; /* fixed grid size; 0: it depends on the map */
    unsigned grid_y;
    unsigned persistent; /* blocks of a persistent grid; 0: one per tile */
    int blocks_per_sm;   /* maximum of a persistent grid; 0: as many as fit */
    bool shares_tiles;   /* uses the whole persistent grid even if there are few
                          * tiles */
    unsigned cluster;    /* blocks that share a tile; 1: none share */
    unsigned first_block; /* block size of the preceding kernel; 0: none */
    int first_rows;       /* map positions of each of its blocks */
    unsigned sum_block;   /* block size of the kernel that sums partial tiles;
                           * 0: none */
    unsigned sum_grid_x;  /* grid of that kernel; 0: one block per tile */
    unsigned sum_per_sm;  /* limit of its blocks per multiprocessor, if there is
                           * one */
    unsigned sum_grid_y;
    size_t sum_shared_bytes;
    bool reads_table;    /* reads the map's row order, index and tile table */
    bool reads_pairs;    /* reads the map's pairs by offset */
    bool reads_triplets; /* reads a point map's triplets by output */
    bool reads_bundles;  /* reads a point map's bundles of outputs */
    bool reads_inputs;   /* reads a point map's triplets by input */
    int tile_rows;
    int tiles_per_block;
    size_t shared_bytes;
    size_t packed_bytes;
    int64_t pack_threads;
    size_t workspace_bytes;
    size_t workspace_row_bytes;
    /* bytes for each block of a persistent grid */
    size_t workspace_block_bytes;
    size_t workspace_pair_bytes;
    int gemm_depth; /* depth of a library's product between the kernels; 0:
                     * none */
    bool clear;
    bool clear_workspace;
    bool pdl;
    bool gradient; /* weight gradient: packs no weights and writes even without
                    * rows */
    bool atomics;  /* results depend on the order of atomic additions */
} spc__launch_geometry;

/* Reads the attributes of templates/README.md. Returns SPC_ETEMPLATE and names
 * the wrong one. */
spc_status spc__launch_read(spc__launch_geometry *out, const spc__attrs *launch,
                            spc_error *error);

/* Checks that a plan can be made with this launch geometry. A damaged record
 * may contain an invalid one. Returns SPC_ETEMPLATE and names the fault. */
spc_status spc__launch_check(const spc__attrs *launch, spc_error *error);

#endif
