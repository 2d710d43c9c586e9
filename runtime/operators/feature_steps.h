/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_steps.h - the launches of an operator on features as values: a row of
 * the table has them (feature_table.h).
 */
#ifndef SPC_RUNTIME_FEATURE_STEPS_H
#define SPC_RUNTIME_FEATURE_STEPS_H

#include "spc.h"

#include "templates/shared/spc_abi.h"

#include "templates/shared/index_abi.h"

#include "templates/shared/feature_abi.h"

enum { SPC__FEATURE_STEPS = 5, SPC__WARP = 32 };

/* Bytes that a block keeps in shared memory: a sum for every warp; two sums for
 * every warp; the partial sums that a block joins. */
enum {
    SPC__PART_BYTES =
        SPC_FEATURE_THREADS / SPC__WARP * SPC__WARP * 8 * sizeof(float),
    SPC__PAIR_BYTES = 2 * SPC__PART_BYTES,
    SPC__JOIN_BYTES =
        SPC_FEATURE_THREADS / SPC__WARP * SPC__WARP * sizeof(float)
};

/* The sizes that determine a launch's grid and the workspace. */
typedef struct spc__feature_sizes {
    int64_t rows; /* capacity in rows */
    int64_t batches;
    int64_t seen; /* if a map is read: capacity of the set of inputs */
} spc__feature_sizes;

/* One launch. A kernel that moves rows has a second form for unaligned rows. */
typedef struct spc__feature_step {
    const char *name;
    bool moves_rows;
    int64_t (*threads)(const spc_feature *f, const spc__feature_sizes *s);
    size_t shared_bytes;
} spc__feature_step;

/* The launches of one pass, and the template with their kernels. */
typedef struct spc__feature_launches {
    const char *on_gpu, *on_host; /* names of the templates */
    spc__feature_step steps[SPC__FEATURE_STEPS];
} spc__feature_launches;

/* The bytes of each array in the workspace. `parts` are partial results;
 * `moments` and `cells` are passed between kernels. */
typedef struct spc__feature_arrays {
    int64_t parts, moments, cells;
    int empty; /* initial value of every byte of `cells` */
} spc__feature_arrays;

#endif
