/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_launch.h - the launches of an operator on features: one kernel or a
 * few in sequence, their numbers of threads, and their workspace.
 */
#ifndef SPC_RUNTIME_FEATURE_LAUNCH_H
#define SPC_RUNTIME_FEATURE_LAUNCH_H

#include "operators/feature_steps.h"

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

/* The partial sums of spc_channels, which a WGRAD needs. */
int64_t spc__feature_sums_bytes(const spc_feature *f);

/* The offsets of arrays in the workspace. */
typedef struct spc__feature_scratch {
    size_t moments, cells; /* offsets; `parts` come first */
    size_t bytes;
    size_t cells_bytes; /* bytes to fill with `empty` */
    int empty;
} spc__feature_scratch;

void spc__feature_scratch_of(spc__feature_scratch *out,
                             const spc_feature *feature,
                             const spc__feature_sizes *sizes);

#endif
