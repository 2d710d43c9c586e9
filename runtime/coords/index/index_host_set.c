/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_host_set.c - coordinate sets on the cpu device: packs, sorts and merges
 * rows, and derives outputs.
 */
#include "base/cancel.h"
#include "base/dtype.h"
#include "base/error.h"
#include "coords/index/index_host.h"
#include <string.h>

typedef struct build {
    spc_coords *c;
    const int32_t *coords;
    uint64_t *keys; /* destination of packing */
    int *rows;
    int count;
} build;

/* An atomic minimum. */
static void note_least(int32_t *first, int row)
{
    /* Relaxed order is enough: the pool joins its threads before the value is
     * read. */
    int32_t seen = __atomic_load_n(first, __ATOMIC_RELAXED);

    while (row < seen &&
           !__atomic_compare_exchange_n(first, &seen, row, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* Packs a row into its key. A row out of range gets a key above all others. */
static uint64_t pack_row(const build *b, int row)
{
    const spc_index_key *layout = &b->c->key;
    uint64_t key = 0;
    bool outside = false;

    for (int i = 0; i < 4; i++) {
        /* In unsigned arithmetic a coordinate below `low` wraps around to a
         * large value, so one comparison checks both ends. */
        uint32_t value = (uint32_t)b->coords[4 * (size_t)row + (size_t)i] -
                         (uint32_t)layout->low[i];
        if (value > layout->last[i]) {
            note_least(&b->c->stats[SPC_INDEX_BAD_ROW + i], row);
            outside = true;
        }
        /* Fields outside may overlap here, but then the key is not used. */
        key |= ((uint64_t)value + layout->before[i]) << layout->shift[i];
    }
    if (outside)
        __atomic_fetch_add(&b->c->stats[SPC_INDEX_BAD_ROWS], 1,
                           __ATOMIC_RELAXED);
    /* This key sorts to the end, where merge_rows() never looks. */
    return outside ? layout->none : key;
}

/* Writes the keys of a chunk of rows. */
static void pack_chunk(void *payload, int64_t chunk)
{
    const build *b = payload;
    int begin = (int)chunk * SPC__HOST_CHUNK_ROWS;
    int end = spc__host_at_most(begin + SPC__HOST_CHUNK_ROWS, b->count);

    for (int row = begin; row < end; row++) {
        b->keys[row] = pack_row(b, row);
        b->rows[row] = row;
    }
}

/* Resets the statistics. Those that keep a minimum start at the largest row. */
static void clear_stats(spc_coords *c, int rows)
{
    memset(c->stats, 0, 4 * SPC_INDEX_STATS);
    for (int i = 0; i < 4; i++)
        c->stats[SPC_INDEX_BAD_ROW + i] = SPC_INDEX_NO_ROW;
    c->stats[SPC_INDEX_DUPLICATE_ROW] = SPC_INDEX_NO_ROW;
    c->stats[SPC_INDEX_ROWS] = rows;
}

/* Keeps the first of equal keys. Returns the number of unique keys. */
static int merge_rows(spc_coords *c, uint64_t *keys, int *order, int rows)
{
    int kept = 0;

    /* The sort is stable, so the first of equal keys is the first row. */
    for (int p = 0; p < rows; p++) {
        if (c->twins)
            c->twins[p] = order[p];
        if (kept > 0 && keys[p] == keys[kept - 1]) {
            c->stats[SPC_INDEX_DUPLICATES]++;
            note_least(&c->stats[SPC_INDEX_DUPLICATE_ROW], order[p]);
            continue;
        }
        if (c->twins)
            c->twin_begin[kept] = p;
        keys[kept] = keys[p];
        order[kept++] = order[p];
    }
    if (c->twins)
        c->twin_begin[kept] = rows;
    return kept;
}

/* Sorts the given or proposed rows in the spc__host_scratch and drops invalid
 * ones. */
static bool sort_rows(spc_coords *c, const int32_t *coords, int rows, int *kept)
{
    const spc__host_set *w = c->work;
    /* The sort alternates between two buffers. Starting in this one makes it
     * end in buffer 0. */
    int first = spc__host_passes(c->key.bits) & 1;
    uint64_t *keys[2] = {w->s.keys[0], w->s.keys[1]};
    int *order[2] = {w->s.rows[0], w->s.rows[1]};
    build b = {c, coords, keys[first], order[first], rows};

    if (!spc__host_spread(c->ctx, spc__host_chunks(rows), pack_chunk, &b) ||
        !spc__host_sort(c->ctx, &w->s, keys, order, rows, c->key.bits))
        return false;
    /* Rows out of range have the largest key and are left out by the count. */
    *kept =
        merge_rows(c, keys[0], order[0], rows - c->stats[SPC_INDEX_BAD_ROWS]);
    return true;
}

void spc__host_unpack(int32_t out[4], const spc_index_key *layout, uint64_t key)
{
    for (int i = 0; i < 4; i++)
        out[i] =
            (int32_t)(((uint32_t)(key >> layout->shift[i]) & layout->wide[i]) -
                      layout->before[i] + (uint32_t)layout->low[i]);
}

/* Copies the sorted rows from the spc__host_scratch to the set. */
static void finish_set(spc_coords *c, int rows)
{
    const spc__host_set *w = c->work;
    size_t left = (size_t)(c->rows_padded - rows);

    memcpy(c->keys, w->s.keys[0], 8 * (size_t)rows);
    memcpy(c->order, w->s.rows[0], 4 * (size_t)rows);
    /* -1 marks padding. */
    memset(c->order + rows, 0xff, 4 * left);
    /* The rows of a derived set are numbered in key order. */
    for (int p = 0; p < rows && c->from; p++) {
        c->order[p] = p;
        spc__host_unpack(c->data + 4 * (size_t)p, &c->key, w->s.keys[0][p]);
    }
    *c->count = rows;
}

spc_status spc__host_set_build(spc_coords *c, const spc__source *source,
                               void *stream, spc_error *error)
{
    int rows = source->count ? *source->count : source->rows, kept = 0;

    (void)stream;
    clear_stats(c, rows);
    /* The statistics keep the impossible count, so that a check can report
     * it. */
    if (rows < 0 || rows > c->capacity)
        rows = 0;
    if (!sort_rows(c, source->coords, rows, &kept))
        return spc__interrupted(error);
    finish_set(c, kept);
    return SPC_OK;
}

/* ---- outputs ---------------------------------------------------------- */

static bool is_within(int64_t o, int64_t bound)
{
    return bound == 0 || (o >= 0 && o < bound);
}

/* For rules that make a voxel for each offset: the coordinate that the offsets
 * are added to. */
static int64_t spread(const spc_geometry *g, int axis, int64_t i)
{
    return g->rule == SPC_RULE_EXPAND ? spc__floor_div(i, g->stride[axis])
                                      : i * g->stride[axis];
}

/* Lists the outputs along an axis that read coordinate i. Returns how many. */
static int outputs_of(int *out, const spc_geometry *g, int axis, int64_t i)
{
    int64_t s = g->stride[axis], bound = spc__geometry_out_shape(g, axis);
    int count = 0;

    if (g->rule == SPC_RULE_FLOOR) {
        out[0] = (int)spc__floor_div(i, s);
        return 1;
    }
    for (int tap = 0; tap < g->kernel[axis] && spc__geometry_expands(g);
         tap++) {
        int64_t o = spread(g, axis, i) + spc__geometry_origin(g, axis) +
                    (int64_t)g->dilation[axis] * tap;
        if (is_within(o, bound))
            out[count++] = (int)o;
    }
    for (int tap = 0; tap < g->kernel[axis] && g->rule == SPC_RULE_FOOTPRINT;
         tap++) {
        int64_t at = i + g->padding[axis] - (int64_t)g->dilation[axis] * tap;
        /* Only exact multiples of the stride are outputs. */
        int64_t o = spc__floor_div(at, s);
        if (o * s == at && is_within(o, bound))
            out[count++] = (int)o;
    }
    return count;
}

/* For an offset list: each offset proposes the voxel that reads this one, or
 * that this one generates. */
static int propose_listed(int32_t *to, const spc_geometry *g,
                          const int32_t c[4])
{
    int written = 0;

    for (int k = 0; k < g->offset_count; k++) {
        int32_t *row = to + 4 * (size_t)written;
        const int16_t *by = g->offsets + 3 * k;
        bool is = true;
        row[0] = c[0];
        for (int i = 0; i < 3; i++) {
            int64_t s = g->stride[i], at = (int64_t)c[1 + i] - by[i];
            bool expands = spc__geometry_expands(g);
            int64_t o = expands ? spread(g, i, c[1 + i]) + by[i]
                                : spc__floor_div(at, s);
            is &= (expands || o * s == at) &&
                  is_within(o, spc__geometry_out_shape(g, i));
            row[1 + i] = (int32_t)o;
        }
        written += is;
    }
    return written;
}

/* Lists the outputs that read an input: the product of the outputs along each
 * axis. Returns their number. */
static int propose(int32_t *to, const spc_geometry *g, const int32_t c[4])
{
    if (spc__geometry_derives_by_list(g))
        return propose_listed(to, g, c);
    int axis[3][SPC_MAX_OFFSETS], count[3], written = 0;

    for (int i = 0; i < 3; i++)
        count[i] = outputs_of(axis[i], g, i, c[1 + i]);
    for (int x = 0; x < count[0]; x++)
        for (int y = 0; y < count[1]; y++)
            for (int z = 0; z < count[2]; z++, written++) {
                int32_t *row = to + 4 * (size_t)written;
                row[0] = c[0];
                row[1] = axis[0][x];
                row[2] = axis[1][y];
                row[3] = axis[2][z];
            }
    return written;
}

spc_status spc__host_set_derive(spc_coords *c, const spc__source *rows,
                                void *stream, spc_error *error)
{
    const spc__host_set *w = c->work;
    const spc_coords *in = c->from;
    const uint64_t *keys = in->keys;
    int proposed = 0, kept = 0;

    (void)rows; /* unused: this device works synchronously, so the inputs are
                 * filled */
    (void)stream;
    for (int p = 0; p < *in->count; p++) {
        int32_t voxel[4];
        spc__host_unpack(voxel, &in->key, keys[p]);
        proposed +=
            propose(w->proposed + 4 * (size_t)proposed, &c->rule, voxel);
    }
    /* The first call clears the counters of the sort. The second call drops the
     * duplicates that the sort counted: several inputs may propose the same
     * output, which is not an error. */
    clear_stats(c, 0);
    if (!sort_rows(c, w->proposed, proposed, &kept))
        return spc__interrupted(error);
    clear_stats(c, kept);
    /* Too many outputs leave an empty set, as on the device. The statistics
     * keep the number of outputs. */
    finish_set(c, kept <= c->capacity ? kept : 0);
    return SPC_OK;
}

/* ---- merging features ------------------------------------------------- */

enum { PART = 256 };

/* Features of every type are decoded, summed and encoded. This works on PART
 * channels of a voxel at a time, so it allocates nothing. */
typedef struct merging {
    const spc_coords *c;
    const spc__dtype *type;
    char *features;
    size_t width;        /* channels of a row */
    size_t first, count; /* channels of this part */
    float sum[PART], row[PART];
} merging;

static char *part_of(const merging *m, int row)
{
    return m->features + ((size_t)row * m->width + m->first) * m->type->bytes;
}

/* Sums or averages a piece of the features of equal rows into the first of
 * them. */
static void merge_part(merging *m, int begin, int end)
{
    const int *rows = m->c->twins;
    bool mean = m->c->duplicates == SPC_DUPLICATES_MEAN;

    /* Sums are in f32 and rounded once, at the end. */
    memset(m->sum, 0, sizeof m->sum);
    for (int i = begin; i < end; i++) {
        m->type->decode(m->row, part_of(m, rows[i]), m->count);
        for (size_t j = 0; j < m->count; j++)
            m->sum[j] += m->row[j];
    }
    for (size_t j = 0; j < m->count && mean; j++)
        m->sum[j] /= (float)(end - begin);
    m->type->encode(part_of(m, rows[begin]), m->sum, m->count);
}

/* Merges the rows of a voxel, part by part. */
static void merge_voxel(merging *m, int begin, int end)
{
    for (m->first = 0; m->first < m->width; m->first += PART) {
        size_t left = m->width - m->first;
        m->count = left < PART ? left : PART;
        merge_part(m, begin, end);
    }
}

spc_status spc__host_set_merge(const spc_coords *c, void *features,
                               spc_dtype dtype, int channels, void *stream,
                               spc_error *error)
{
    merging m = {.c = c,
                 .type = spc__dtype_of(dtype),
                 .features = features,
                 .width = (size_t)channels};

    (void)stream;
    (void)error;
    /* A voxel with one row keeps its features bit by bit. */
    for (int p = 0; p < *c->count; p++)
        if (c->twin_begin[p + 1] - c->twin_begin[p] > 1)
            merge_voxel(&m, c->twin_begin[p], c->twin_begin[p + 1]);
    return SPC_OK;
}
