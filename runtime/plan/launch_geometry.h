/* SPDX-License-Identifier: Apache-2.0 */
/* launch_geometry.h - how the kernels of a template are launched. */
#ifndef SPC_RUNTIME_LAUNCH_GEOMETRY_H
#define SPC_RUNTIME_LAUNCH_GEOMETRY_H

#include "base/attrs.h"
#include "spc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Launch geometry (templates/README.md), read once. */
typedef struct spc__launch_geometry {
    char order[8]; /* row order (map.h) */
    int groups;    /* of offsets, each with a launch; 1: they are all one */
    unsigned block;
    unsigned grid_x; /* of a grid that does not depend on the map; 0: it does */
    unsigned grid_y;
    unsigned persistent; /* blocks of a persistent grid; 0: one block a tile */
    int blocks_per_sm;   /* that a persistent grid asks for; 0: what fits */
    bool shares_tiles;   /* it has them all, however few tiles there are */
    unsigned cluster;    /* blocks that share a tile; 1: a block has it alone */
    unsigned first_block; /* of the kernel before it; 0: none */
    int first_rows;       /* positions of the map for a block of that */
    unsigned sum_block;   /* of the kernel that adds parts of tiles; 0: none */
    unsigned sum_grid_x;  /* 0: one block a tile */
    unsigned sum_per_sm;  /* or, of those, at most so many a multiprocessor */
    unsigned sum_grid_y;
    size_t sum_shared_bytes;
    bool reads_table;    /* of the map: row order, index and tile table */
    bool reads_pairs;    /* of the map: pairs by offset */
    bool reads_triplets; /* of a map of points: triplets by output, */
    bool reads_bundles;  /* or by bundles of outputs */
    bool reads_inputs;   /* of a map of points: triplets by inputs */
    int tile_rows;
    int tiles_per_block;
    size_t shared_bytes;
    size_t packed_bytes;
    int64_t pack_threads;
    size_t workspace_bytes;
    size_t workspace_row_bytes;
    size_t workspace_block_bytes; /* of a persistent grid */
    size_t workspace_pair_bytes;
    int gemm_depth; /* of a library's product between the kernels; 0: none */
    bool clear;
    bool clear_workspace;
    bool pdl;
    bool gradient; /* of weights: none are packed, and no rows are no result */
    bool atomics;  /* results depend on the order of arrival */
} spc__launch_geometry;

/* The words of templates/README.md. SPC_ETEMPLATE: what is wrong in them. */
spc_status spc__launch_read(spc__launch_geometry *out, const spc__attrs *launch,
                            spc_error *error);

/* Can a plan be made with this launch geometry? SPC_ETEMPLATE: what is wrong in
 * it, as a damaged record may have it. */
spc_status spc__launch_check(const spc__attrs *launch, spc_error *error);

#endif
