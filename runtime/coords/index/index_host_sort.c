/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_host_sort.c - the radix sort of the cpu device, for keys of sets and
 * digests of rows.
 */
#include "coords/index/index_host.h"
#include <string.h>

enum {
    DIGITS = 1 << SPC__HOST_DIGIT_BITS,
    FEW = 64, /* so few rows are inserted faster than digits are counted */
};

/* One stable pass over the SPC__HOST_DIGIT_BITS bits at `shift`. Chunks are
 * contiguous and stay in order. */
typedef struct pass {
    const uint64_t *from_keys;
    const int *from_rows;
    uint64_t *to_keys;
    int *to_rows;
    int *counts; /* counts, then the next position of each digit of each
                  * chunk */
    int rows, chunks, shift;
} pass;

static int pass_begin(const pass *p, int64_t chunk)
{
    return (int)((int64_t)p->rows * chunk / p->chunks);
}

static int digit_of(const pass *p, int i)
{
    return (int)(p->from_keys[i] >> p->shift) & (DIGITS - 1);
}

/* Counts the digits of a chunk. */
static void count_chunk(void *payload, int64_t chunk)
{
    const pass *p = payload;
    int *counts = p->counts + chunk * DIGITS;
    int end = pass_begin(p, chunk + 1);

    memset(counts, 0, DIGITS * sizeof *counts);
    for (int i = pass_begin(p, chunk); i < end; i++)
        counts[digit_of(p, i)]++;
}

/* Moves the entries of a chunk to the places of their digits. */
static void scatter_chunk(void *payload, int64_t chunk)
{
    const pass *p = payload;
    int *next = p->counts + chunk * DIGITS;
    int end = pass_begin(p, chunk + 1);

    for (int i = pass_begin(p, chunk); i < end; i++) {
        int target = next[digit_of(p, i)]++;
        p->to_keys[target] = p->from_keys[i];
        p->to_rows[target] = p->from_rows[i];
    }
}

/* One pass of a stable radix sort, by one digit, in parallel chunks. */
static bool run_pass(const spc_ctx *ctx, pass *p)
{
    int target = 0;

    if (!spc__host_spread(ctx, p->chunks, count_chunk, p))
        return false;
    /* Exclusive prefix sum, digits outside and chunks inside: within a digit,
     * rows of an earlier chunk come first, which keeps the pass stable. */
    for (int d = 0; d < DIGITS; d++)
        for (int c = 0; c < p->chunks; c++) {
            int count = p->counts[c * DIGITS + d];
            p->counts[c * DIGITS + d] = target;
            target += count;
        }
    return spc__host_spread(ctx, p->chunks, scatter_chunk, p);
}

/* Stable, as the passes are. */
static void insert_rows(uint64_t *keys, int *order, int rows)
{
    for (int i = 1; i < rows; i++) {
        uint64_t key = keys[i];
        int row = order[i], at = i;
        for (; at > 0 && keys[at - 1] > key; at--) {
            keys[at] = keys[at - 1];
            order[at] = order[at - 1];
        }
        keys[at] = key;
        order[at] = row;
    }
}

int spc__host_passes(int bits)
{
    return (bits + SPC__HOST_DIGIT_BITS - 1) / SPC__HOST_DIGIT_BITS;
}

/* Sorts `rows` rows by keys of `bits` bits. The input is in keys[n & 1] for n
 * passes, so the result is always in keys[0] and order[0]. */
bool spc__host_sort(const spc_ctx *ctx, const spc__host_scratch *s,
                    uint64_t *keys[2], int *order[2], int rows, int bits)
{
    int from = spc__host_passes(bits) & 1;

    if (rows <= FEW) {
        if (from == 1) {
            memcpy(keys[0], keys[1], (size_t)rows * sizeof *keys[0]);
            memcpy(order[0], order[1], (size_t)rows * sizeof *order[0]);
        }
        insert_rows(keys[0], order[0], rows);
        return true;
    }
    for (int shift = 0; shift < bits;
         shift += SPC__HOST_DIGIT_BITS, from ^= 1) {
        pass p = {
            .from_keys = keys[from],
            .from_rows = order[from],
            .to_keys = keys[from ^ 1],
            .to_rows = order[from ^ 1],
            .counts = s->counts,
            .rows = rows,
            /* The counters were allocated for this many chunks. */
            .chunks = spc__host_at_most(spc__host_chunks(rows),
                                        SPC__HOST_SORT_CHUNKS),
            .shift = shift,
        };
        if (!run_pass(ctx, &p))
            return false;
    }
    return true;
}
