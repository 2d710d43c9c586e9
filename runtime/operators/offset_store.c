/* SPDX-License-Identifier: Apache-2.0 */
/* offset_store.c - a hash table of lists that only grows, without a lock. */
#include "operators/offset_store.h"

#include "base/error.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 64 };

typedef struct stored {
    struct stored *next;
    int count;
    int16_t offsets[];
} stored;

/* Stored lists never change or move, so readers need no lock, and a child after
 * fork() finds the table in order. */
static _Atomic(stored *) buckets[BUCKETS];

static size_t bytes_of(int count)
{
    return 3 * (size_t)count * sizeof(int16_t);
}

/* FNV-1a over the numbers. */
static unsigned bucket_of(const spc_geometry *g)
{
    uint32_t hash = 2166136261u;

    for (int i = 0; i < 3 * g->offset_count; i++)
        hash = (hash ^ (uint16_t)g->offsets[i]) * 16777619u;
    return hash % BUCKETS;
}

/* Searches a bucket from its newest list to the oldest. */
static stored *find(stored *at, const spc_geometry *g)
{
    while (at != NULL &&
           (at->count != g->offset_count ||
            memcmp(at->offsets, g->offsets, bytes_of(at->count)) != 0))
        at = at->next;
    return at;
}

/* Adds a list. If another thread adds it first, uses that one. */
static stored *add(_Atomic(stored *) *bucket, stored *first,
                   const spc_geometry *g)
{
    stored *made = malloc(sizeof(*made) + bytes_of(g->offset_count)), *other;

    if (made == NULL)
        return NULL;
    made->count = g->offset_count;
    memcpy(made->offsets, g->offsets, bytes_of(g->offset_count));
    made->next = first;
    /* A failed exchange loads the lists of other threads into made->next. */
    while (!atomic_compare_exchange_weak(bucket, &made->next, made))
        if ((other = find(made->next, g)) != NULL) {
            free(made);
            return other;
        }
    return made;
}

spc_status spc__geometry_keep(spc_geometry *g, spc_error *error)
{
    if (g->offset_count == 0)
        g->offsets = NULL;
    if (g->offsets == NULL || g->offset_count < 0 ||
        g->offset_count > SPC_MAX_OFFSETS)
        return SPC_OK;
    _Atomic(stored *) *bucket = &buckets[bucket_of(g)];
    stored *first = atomic_load(bucket), *at = find(first, g);

    if (at == NULL && (at = add(bucket, first, g)) == NULL)
        return spc__fail_memory(error, bytes_of(g->offset_count));
    g->offsets = at->offsets;
    return SPC_OK;
}
