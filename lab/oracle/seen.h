/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seen.h - which input each output sees. relation.h computes this table; the
 * oracle of voxels and points reads it.
 */
#ifndef SPC_LAB_SEEN_H
#define SPC_LAB_SEEN_H

#include "spc.h"
#include "spc/lab.h"

typedef spc_relation spc__relation;

/*
 * The inputs of the outputs, as in spc_relation: entry s * rows + row of
 * `index` is an input or -1; the same entry of `cells` is its offset, which is
 * s if `cells` is NULL.
 */
typedef struct spc__seen {
    const int32_t *index;
    const uint16_t *cells;
    int slots;
} spc__seen;

static inline spc__seen spc__relation_seen(const spc_relation *of)
{
    return (spc__seen){of->index, of->cells, of->slots};
}

/* A list of rows in ascending order. */
typedef struct spc__row_list {
    const int64_t *at;
    int64_t count;
} spc__row_list;

#endif
