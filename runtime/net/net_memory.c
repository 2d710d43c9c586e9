/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_memory.c - places tensors in memory: pieces that are not live at the same
 * time share it.
 *
 * Largest first, each at the lowest offset where it does not overlap a piece
 * that is live at the same time (greedy by size; Pisarchyk, Lee, "Efficient
 * Memory Management for Deep Neural Net Inference", 2020, section 5.1).
 */
#include "net/net_plan.h"

#include <stdlib.h>

enum { ALIGNMENT = 256 };

static size_t padded(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool meet_in_time(const spc__net_piece *a, const spc__net_piece *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static bool meet_in_memory(const spc__net_piece *a, const spc__net_piece *b)
{
    return a->offset < b->offset + padded(b->bytes) &&
           b->offset < a->offset + padded(a->bytes);
}

/* A placed piece that overlaps, or NULL. */
static const spc__net_piece *obstacle(const spc__net_piece *piece,
                                      spc__net_piece *const *placed, int count)
{
    for (int i = 0; i < count; i++)
        if (meet_in_time(piece, placed[i]) && meet_in_memory(piece, placed[i]))
            return placed[i];
    return NULL;
}

static bool fits_at(spc__net_piece *piece, size_t offset,
                    spc__net_piece *const *placed, int count)
{
    piece->offset = offset;
    return obstacle(piece, placed, count) == NULL;
}

/* The lowest free offset is 0 or the end of a placed piece. */
static void assign_offset(spc__net_piece *piece, spc__net_piece *const *placed,
                          int count)
{
    size_t best = 0;
    bool found = fits_at(piece, 0, placed, count);

    for (int i = 0; i < count; i++) {
        size_t end = placed[i]->offset + padded(placed[i]->bytes);
        /* A piece that is not live at the same time is not in the way, so its
         * end is not a candidate. */
        if (meet_in_time(piece, placed[i]) && (!found || end < best) &&
            fits_at(piece, end, placed, count)) {
            best = end;
            found = true;
        }
    }
    piece->offset = best;
}

/* Ties keep the order of creation, so the plan is the same on every machine. */
static int larger_first(const void *a, const void *b)
{
    const spc__net_piece *x = *(spc__net_piece *const *)a;
    const spc__net_piece *y = *(spc__net_piece *const *)b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x > y) - (x < y);
}

/* Without memory for the sort, no pieces share memory. */
static size_t arrange_apart(spc__net_piece *pieces, int count)
{
    size_t total = 0;

    for (int i = 0; i < count; i++) {
        pieces[i].offset = total;
        total += padded(pieces[i].bytes);
    }
    return total;
}

size_t spc__net_arrange(spc__net_piece *pieces, int count)
{
    spc__net_piece **sorted =
        malloc(((size_t)count + 1) * sizeof(spc__net_piece *));
    size_t total = 0;

    if (sorted == NULL)
        return arrange_apart(pieces, count);
    for (int i = 0; i < count; i++)
        sorted[i] = &pieces[i];
    qsort(sorted, (size_t)count, sizeof(spc__net_piece *), larger_first);
    /* place() looks only at the first i pieces, which have an offset. */
    for (int i = 0; i < count; i++) {
        assign_offset(sorted[i], sorted, i);
        size_t end = sorted[i]->offset + padded(sorted[i]->bytes);
        total = end > total ? end : total;
    }
    free(sorted);
    return total;
}
