/* SPDX-License-Identifier: Apache-2.0 */
/*
 * points_steps.h - the steps that process clouds of points on a device: kernels
 * of the template "points", or on the cpu device functions with the same
 * arguments (points_host.c).
 */
#ifndef SPC_RUNTIME_POINTS_STEPS_H
#define SPC_RUNTIME_POINTS_STEPS_H

#include "context/ctx.h"

#include "templates/shared/spc_abi.h"

#include "templates/shared/index_abi.h"
#include "templates/shared/points_abi.h"

typedef enum spc__points_step {
    SPC__POINTS_PLACE, /* arguments: spc_place_args */
    SPC__POINTS_PICK,
    SPC__POINTS_CELLS,  /* spc_cells_args */
    SPC__POINTS_SORT,   /* spc_sort_points_args */
    SPC__RADIUS_LIMITS, /* spc_radius_args */
    SPC__RADIUS_COUNT,
    SPC__RADIUS_WRITE,
    SPC__OFFSETS_COUNT, /* spc_by_offset_args */
    SPC__OFFSETS_SUM,
    SPC__OFFSETS_WRITE,
    SPC__POINTS_BUNDLE, /* spc_bundle_args */
    SPC__BUNDLE_TILES,
    SPC__POINTS_STEPS
} spc__points_step;

/* The steps as code for a context's device. */
typedef struct spc__points_code {
    spc_ctx *ctx;
    spc__kernel *kernels[SPC__POINTS_STEPS]; /* NULL on the cpu device */
    int blocks;                              /* blocks of a large launch */
} spc__points_code;

/* The template's problem for keys of `key_bits` bits. */
void spc__points_problem(spc__attrs *out, int key_bits);

/* Loads the steps for cells with keys of `key_bits` bits. */
spc_status spc__points_code_load(spc__points_code *out, spc_ctx *ctx,
                                 int key_bits, spc_error *error);

/* Enqueues a step with this number of blocks and this much shared memory for
 * each. */
spc_status spc__points_run(const spc__points_code *code, spc__points_step step,
                           const void *args, size_t bytes, int blocks,
                           size_t shared, void *stream, spc_error *error);

/* Functions of the cpu device, by step. */
typedef void spc__points_function(const spc_ctx *ctx, const void *args);
extern spc__points_function *const spc__points_host[SPC__POINTS_STEPS];
/* Those that make lists (points_host_lists.c). */
spc__points_function spc__points_list_by_offset, spc__points_bundle,
    spc__points_order_tiles;

#endif
