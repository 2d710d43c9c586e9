/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_kind.h - what is launched for an operator on features: a kernel, or a
 * few one after the other, and what they work in.
 */
#ifndef SPC_RUNTIME_FEATURE_KIND_H
#define SPC_RUNTIME_FEATURE_KIND_H

#include "spc.h"

enum { SPC__FEATURE_STEPS = 5 };

/* What a launch's grid and the workspace depend on. */
typedef struct spc__feature_sizes {
    int64_t rows; /* capacity */
    int64_t batches;
    int64_t seen; /* capacity of the set of the inputs, where a map is read */
} spc__feature_sizes;

/* One launch. Of a kernel that moves rows there is a second, for rows at any
 * address. */
typedef struct spc__feature_step {
    const char *name;
    bool moves_rows;
    int64_t (*threads)(const spc_feature *f, const spc__feature_sizes *s);
    size_t shared_bytes;
} spc__feature_step;

/* Operators that run alike. */
typedef struct spc__feature_kind {
    const char *template_name;
    unsigned ops; /* a bit each */
    spc_pass pass;
    bool counts; /* spc__feature_counts */
    spc__feature_step steps[SPC__FEATURE_STEPS];
} spc__feature_kind;

const spc__feature_kind *spc__feature_kind_of(const spc_feature *feature);

/* A gradient that must know first what lies elsewhere: how many inputs a mean
 * was of, where an un-pooled row or a maximum was from. */
bool spc__feature_counts(const spc_feature *feature);

/* The largest power of two up to 16 that divides a row: what feature.lua calls
 * natural. */
size_t spc__feature_natural(const spc_feature *feature, int64_t elements);

/* Where arrays lie in the workspace. */
typedef struct spc__feature_room {
    size_t moments, cells; /* `parts` come first */
    size_t bytes;
    size_t cells_bytes; /* which are filled with `empty` */
    int empty;
} spc__feature_room;

void spc__feature_room_of(spc__feature_room *out, const spc_feature *feature,
                          const spc__feature_sizes *sizes);

#endif
