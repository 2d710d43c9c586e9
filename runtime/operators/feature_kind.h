/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_kind.h - the launches of an operator on features: one kernel or a few
 * in sequence, and their workspace.
 */
#ifndef SPC_RUNTIME_FEATURE_KIND_H
#define SPC_RUNTIME_FEATURE_KIND_H

#include "spc.h"

enum { SPC__FEATURE_STEPS = 5 };

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

/* Operators with the same launches. */
typedef struct spc__feature_kind {
    const char *template_name;
    unsigned ops; /* one bit for each operator */
    spc_pass pass;
    bool counts; /* spc__feature_counts */
    spc__feature_step steps[SPC__FEATURE_STEPS];
} spc__feature_kind;

const spc__feature_kind *spc__feature_kind_of(const spc_feature *feature);

/* True for gradients that first need data of other rows: how many inputs a mean
 * had, or the source of an un-pooled row or a maximum. */
bool spc__feature_counts(const spc_feature *feature);

/* Returns the largest power of two up to 16 that divides a row, called natural
 * in feature.lua. */
size_t spc__feature_natural(const spc_feature *feature, int64_t elements);

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
