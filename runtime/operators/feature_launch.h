/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_launch.h - the launches of an operator on features: one kernel or a
 * few in sequence, their numbers of threads, and their workspace.
 */
#ifndef SPC_RUNTIME_FEATURE_LAUNCH_H
#define SPC_RUNTIME_FEATURE_LAUNCH_H

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
    int64_t rows; /* capacity */
    int64_t batches;
    int64_t seen; /* capacity of the set of inputs, if a map is read */
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
    const char *on_gpu, *on_host; /* templates */
    spc__feature_step steps[SPC__FEATURE_STEPS];
} spc__feature_launches;

const spc__feature_launches *spc__feature_launches_of(const spc_feature *f);

/* True for gradients that first need data of other rows: how many inputs a mean
 * had, or the source of an un-pooled row or of a maximum. */
bool spc__feature_counts(const spc_feature *f);

/* Threads of a launch: one for each piece of an output row, each input element
 * or each row; a warp for each row; a block for each part of a batch element,
 * for each part of all rows, or for 32 channels of a batch element; one for
 * each sum over rows. */
int64_t spc__by_pieces(const spc_feature *f, const spc__feature_sizes *s);
int64_t spc__by_elements(const spc_feature *f, const spc__feature_sizes *s);
int64_t spc__by_rows(const spc_feature *f, const spc__feature_sizes *s);
int64_t spc__by_warps(const spc_feature *f, const spc__feature_sizes *s);
int64_t spc__by_parts(const spc_feature *f, const spc__feature_sizes *s);
int64_t spc__by_row_parts(const spc_feature *f, const spc__feature_sizes *s);
int64_t spc__by_channels(const spc_feature *f, const spc__feature_sizes *s);
int64_t spc__by_sums(const spc_feature *f, const spc__feature_sizes *s);

/* Returns the largest power of two up to 16 that divides a row, called natural
 * in feature.lua. */
size_t spc__feature_natural(const spc_feature *feature, int64_t elements);

/* The bytes of each array in the workspace. `parts` are partial results;
 * `moments` and `cells` are passed between kernels. */
typedef struct spc__feature_arrays {
    int64_t parts, moments, cells;
    int empty; /* every byte of `cells` before the first kernel */
} spc__feature_arrays;

/* The partial sums of spc_channels, which a WGRAD needs. */
int64_t spc__feature_sums_bytes(const spc_feature *f);

/* The offsets of arrays in the workspace. */
typedef struct spc__feature_room {
    size_t moments, cells; /* `parts` come first */
    size_t bytes;
    size_t cells_bytes; /* filled with `empty` */
    int empty;
} spc__feature_room;

void spc__feature_room_of(spc__feature_room *out, const spc_feature *feature,
                          const spc__feature_sizes *sizes);

#endif
