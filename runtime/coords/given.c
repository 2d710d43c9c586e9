/* SPDX-License-Identifier: Apache-2.0 */
/* given.c - generates a second set for a scene. */
#include "coords/given.h"

#include "base/error.h"
#include "operators/geometry.h"
#include <stdlib.h>
#include <string.h>

typedef struct target {
    uint64_t rank; /* in generated order */
    int32_t at[4];
} target;

/* Depends only on the voxel, so equal voxels get equal hashes. */
static uint64_t hash(const int32_t at[4])
{
    uint64_t h = 0x243f6a8885a308d3ull;

    for (int i = 0; i < 4; i++) {
        h = (h ^ (uint32_t)at[i]) * 0x9e3779b97f4a7c15ull;
        h ^= h >> 29;
    }
    return h;
}

/* Sorts targets by rank, and equal ranks by voxel, so that equal voxels are
 * neighbours. */
static int by_rank(const void *a, const void *b)
{
    const target *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return memcmp(x->at, y->at, sizeof x->at);
}

/* Adds a voxel with its rank, a hash. */
static void add(target *all, int64_t *count, const int32_t at[4])
{
    target *t = &all[(*count)++];

    memcpy(t->at, at, sizeof t->at);
    t->rank = hash(at);
}

/* A voxel of the scene adds up to two targets. */
static void add_targets(target *all, int64_t *count, const spc_geometry *g,
                        const int32_t voxel[4])
{
    int32_t at[4] = {voxel[0], 0, 0, 0};

    for (int i = 0; i < 3; i++)
        at[1 + i] = (int32_t)spc__floor_div(voxel[1 + i], g->stride[i]);
    /* The choice is by the hash of the output voxel, so all inputs of a voxel
     * agree on it. The upper half is used for the choice; the whole hash ranks
     * the result. */
    uint64_t draw = hash(at) >> 32;
    int axis = 1 + (int)(draw / 4 % 3);
    if (draw % 4 == 0)
        return;
    add(all, count, at);
    if (draw % 4 != 1 || at[axis] == INT32_MAX)
        return;
    at[axis]++;
    add(all, count, at);
}

/* Writes each voxel of a sorted list once and returns their number. */
static int64_t keep_distinct(int32_t *out, const target *all, int64_t count)
{
    int64_t kept = 0;

    /* Equal voxels have equal ranks and are neighbours after the sort. */
    for (int64_t i = 0; i < count; i++)
        if (i == 0 || memcmp(all[i].at, all[i - 1].at, sizeof all[i].at) != 0)
            memcpy(out + 4 * kept++, all[i].at, sizeof all[i].at);
    return kept;
}

spc_status spc__given_draw(int32_t **out, int64_t *rows,
                           const spc_geometry *geometry, const int32_t *coords,
                           int64_t count, spc_error *error)
{
    /* Two targets a voxel at most. One byte more, since malloc(0) may return
     * NULL. */
    size_t bytes = 2 * (size_t)count * sizeof(target) + 1;
    target *all = malloc(bytes);
    int64_t added = 0;

    *rows = 0;
    *out = malloc(2 * (size_t)count * 4 * sizeof(int32_t) + 1);
    if (all == NULL || *out == NULL) {
        free(all);
        free(*out);
        *out = NULL;
        return spc__fail_memory(error, bytes);
    }
    for (int64_t row = 0; row < count; row++)
        add_targets(all, &added, geometry, coords + 4 * row);
    qsort(all, (size_t)added, sizeof *all, by_rank);
    *rows = keep_distinct(*out, all, added);
    free(all);
    return SPC_OK;
}
