/* plan.h - plans inside the library: how their kernels are launched. */
#ifndef SPC_RUNTIME_PLAN_H
#define SPC_RUNTIME_PLAN_H

#include "ctx.h"

/* Launch geometry (templates/README.md), read once. */
typedef struct spc__launch_geometry {
    char order[8]; /* row order (map.h) */
    unsigned block;
    unsigned grid_y;
    unsigned persistent; /* blocks of a persistent grid; 0: one block a tile */
    int blocks_per_sm;   /* that a persistent grid asks for; 0: what fits */
    bool shares_tiles;   /* it has them all, however few tiles there are */
    unsigned cluster;    /* blocks that share a tile; 1: a block has it alone */
    unsigned sum_block;  /* of the kernel that adds parts of tiles; 0: none */
    unsigned sum_grid_y;
    size_t sum_shared_bytes;
    bool reads_table; /* of the map: row order, index and tile table */
    bool reads_pairs; /* of the map: pairs by offset */
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
    bool atomics; /* results depend on the order of arrival */
} spc__launch_geometry;

/*
 * Makes a plan from code that is already there (the tuner's way in). The map is
 * not prepared. `origin` is SPC_ORIGIN_DEFAULT and the reason empty.
 */
spc_status spc__plan_create_from(spc_plan **out, spc_ctx *ctx,
                                 const spc_conv *conv, const spc__code *code,
                                 const char *template_name, const char *config);

/* Makes a plan of a linear layer ready for spc_plan_execute_rows. */
spc_status spc__plan_take_rows(spc_plan *plan);

/* Can a plan be made with this launch geometry? SPC_ETEMPLATE: what is wrong in
 * it, as a damaged record may have it. */
spc_status spc__launch_check(const spc__attrs *launch, spc_error *error);

const spc__launch_geometry *spc__plan_launch(const spc_plan *plan);

/* Builds again what of the map this plan reads (to be timed). */
spc_status spc__plan_relayout(const spc_plan *plan, spc_map *map, void *stream);

#endif
