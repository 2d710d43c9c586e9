/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relation_harness.h - for tests: relations of input and output rows, found by
 * brute force, and map views of them, laid out as spc_abi.h describes.
 *
 * Nothing here shares code with the runtime. Memory that a kernel must not read
 * is poisoned.
 */
#ifndef SPC_TESTS_RELATION_HARNESS_H
#define SPC_TESTS_RELATION_HARNESS_H

#include "base/random.h"
#include "context/ctx.h"
#include "templates/shared/spc_abi.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static inline void *harness_allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    assert(memory != NULL);
    return memory;
}

/* ---- sets of coordinates ------------------------------------------------- */

/* A box around the origin that contains any test's voxels and their
 * neighbours. */
enum { BOX = 64, BOX_FIRST = -16 };

typedef struct points {
    int count;
    int (*at)[3];
    int *row_of; /* row of each cell of the box, or -1 */
} points;

static inline int cell_in_box(const int at[3])
{
    int cell = 0;
    for (int i = 0; i < 3; i++) {
        assert(at[i] >= BOX_FIRST && at[i] < BOX_FIRST + BOX);
        cell = cell * BOX + at[i] - BOX_FIRST;
    }
    return cell;
}

static inline void points_init(points *p, int capacity)
{
    p->count = 0;
    p->at = harness_allocate((size_t)capacity, sizeof(*p->at));
    p->row_of = harness_allocate(BOX * BOX * BOX, sizeof(int));
    memset(p->row_of, 0xff, BOX * BOX * BOX * sizeof(int));
}

static inline void points_release(points *p)
{
    free(p->at);
    free(p->row_of);
}

static inline void points_add(points *p, const int at[3])
{
    int *row = &p->row_of[cell_in_box(at)];
    if (*row >= 0)
        return;
    *row = p->count++;
    memcpy(p->at[*row], at, sizeof(p->at[0]));
}

static inline void points_draw(points *p, int count, int extent, uint64_t seed)
{
    spc__random random;

    assert(count <= extent * extent * extent);
    points_init(p, count);
    spc__random_init(&random, seed);
    while (p->count < count) {
        int at[3];
        for (int i = 0; i < 3; i++)
            at[i] = (int)spc__random_below(&random, (uint32_t)extent);
        points_add(p, at);
    }
}

/* ---- relations ----------------------------------------------------------- */

typedef struct relation {
    int rows_in, rows, offsets, centre;
    int32_t *from; /* [offsets][rows]: the input row, or -1 */
} relation;

static inline void relation_init(relation *r, const spc_conv *conv, int rows_in,
                                 int rows)
{
    spc__attrs problem;

    spc__conv_attrs(&problem, conv);
    r->rows_in = rows_in;
    r->rows = rows;
    r->offsets = spc__conv_offsets(conv);
    r->centre = (int)spc__attrs_number(&problem, "centre", -1);
    r->from =
        harness_allocate((size_t)rows * (size_t)r->offsets, sizeof(int32_t));
    memset(r->from, 0xff, (size_t)rows * (size_t)r->offsets * sizeof(int32_t));
}

static inline void relation_release(relation *r)
{
    free(r->from);
}

static inline int32_t *relation_at(const relation *r, int offset, int row)
{
    return &r->from[(int64_t)offset * r->rows + row];
}

/* Finds the output that sees the input at offset k. Returns false if there is
 * none. */
static inline bool output_of(int out[3], const spc_geometry *g, const int in[3],
                             int k)
{
    int offset[3];

    spc_geometry_offset_at(offset, g, k);
    for (int i = 0; i < 3; i++) {
        int at = in[i] - offset[i], s = g->stride[i];
        if (((at % s) + s) % s != 0)
            return false;
        out[i] = at / s;
    }
    return true;
}

/* Makes the outputs: the inputs themselves, those of the floor rule, or all
 * that see an input. */
static inline void points_of_rule(points *out, const points *in,
                                  const spc_geometry *g)
{
    int offsets = spc_geometry_offset_count(g);

    points_init(out, in->count * (offsets + 1));
    for (int row = 0; row < in->count; row++) {
        int at[3];
        for (int i = 0; i < 3 && g->rule == SPC_RULE_FLOOR; i++)
            at[i] = in->at[row][i] / g->stride[i];
        if (g->rule == SPC_RULE_FLOOR)
            points_add(out, at);
        if (g->rule == SPC_RULE_SUBM)
            points_add(out, in->at[row]);
        for (int k = 0; k < offsets && g->rule == SPC_RULE_FOOTPRINT; k++)
            if (output_of(at, g, in->at[row], k))
                points_add(out, at);
    }
}

static inline void relate(relation *r, const spc_conv *conv, const points *in,
                          const points *out)
{
    bool inverse = conv->op == SPC_INVERSE;
    relation_init(r, conv, inverse ? out->count : in->count,
                  inverse ? in->count : out->count);
    for (int k = 0; k < r->offsets; k++)
        for (int row = 0; row < in->count; row++) {
            int at[3], seen_by;
            if (!output_of(at, &conv->geometry, in->at[row], k))
                continue;
            seen_by = out->row_of[cell_in_box(at)];
            if (seen_by < 0)
                continue;
            if (inverse)
                *relation_at(r, k, row) = seen_by;
            else
                *relation_at(r, k, seen_by) = row;
        }
}

/* Makes the layer's relation over `count` random voxels of a cube. */
static inline void relation_of_layer(relation *r, const spc_conv *conv,
                                     int count, int extent, uint64_t seed)
{
    points in, out;

    points_draw(&in, count, extent, seed);
    points_of_rule(&out, &in, &conv->geometry);
    relate(r, conv, &in, &out);
    points_release(&in);
    points_release(&out);
}

/* Makes a random table with the layer's number of offsets. A share `density` of
 * the entries is present, and every third row is empty. */
static inline void relation_draw(relation *r, const spc_conv *conv, int rows_in,
                                 int rows, double density, uint64_t seed)
{
    spc__random random;

    spc__random_init(&random, seed);
    relation_init(r, conv, rows_in, rows);
    assert(r->centre < 0);
    for (int k = 0; k < r->offsets && rows_in > 0; k++)
        for (int row = 0; row < rows; row++)
            if (row % 3 != 1 && spc__random_unit(&random) < density)
                *relation_at(r, k, row) =
                    (int)spc__random_below(&random, (uint32_t)rows_in);
}

static inline int64_t relation_pairs(const relation *r)
{
    int64_t pairs = 0;
    for (int64_t i = 0; i < (int64_t)r->offsets * r->rows; i++)
        pairs += r->from[i] >= 0;
    return pairs;
}

/* ---- layouts ------------------------------------------------------------- */

enum row_order { OWN_ORDER, RANDOM_ORDER, MASK_ORDER };

/* Poison for memory that must not be read: row numbers far outside any
 * array. */
enum { POISON = 0x3f3f3f3f };

typedef struct layout {
    spc_map_view view;
    int *index, *order, *tile_order, *tile_begin;
    unsigned *mask, *tile_mask;
} layout;

static inline void layout_release(layout *l)
{
    free(l->index);
    free(l->order);
    free(l->tile_order);
    free(l->tile_begin);
    free(l->mask);
    free(l->tile_mask);
    memset(l, 0, sizeof(*l));
}

typedef struct keyed_row {
    uint64_t key;
    int row;
} keyed_row;

static inline int by_key(const void *a, const void *b)
{
    const keyed_row *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static inline uint64_t key_of(const relation *r, enum row_order order, int row,
                              spc__random *random)
{
    uint64_t key = 0;

    if (order == RANDOM_ORDER)
        return spc__random_u64(random);
    for (int k = 0; k < r->offsets && k < 64 && order == MASK_ORDER; k++)
        key |= (uint64_t)(*relation_at(r, k, row) >= 0) << k;
    return key;
}

static inline void order_rows(int *out, const relation *r, enum row_order order)
{
    keyed_row *rows = harness_allocate((size_t)r->rows, sizeof(*rows));
    spc__random random;

    spc__random_init(&random, 7);
    for (int row = 0; row < r->rows; row++)
        rows[row] = (keyed_row){key_of(r, order, row, &random), row};
    qsort(rows, (size_t)r->rows, sizeof(*rows), by_key);
    for (int p = 0; p < r->rows; p++)
        out[p] = rows[p].row;
    free(rows);
}

/* Positions up to the rows of the tiles hold rows, then -1. Later positions,
 * the spare capacity, are poisoned. */
static inline void lay_out_rows(layout *l, const relation *r, int tiles,
                                enum row_order order)
{
    int padded = l->view.rows_padded, end = tiles * l->view.tile_rows;

    order_rows(l->order, r, order);
    if (end == 0)
        end = l->view.tile_rows;
    for (int p = r->rows; p < padded; p++)
        l->order[p] = p < end ? -1 : POISON;
    for (int k = 0; k < r->offsets; k++)
        for (int p = 0; p < padded; p++) {
            int from = p < end ? -1 : POISON;
            if (p < r->rows)
                from = *relation_at(r, k, l->order[p]);
            l->index[(int64_t)k * padded + p] = from;
            if (p < r->rows && from >= 0)
                l->mask[k / 32 * padded + p] |= 1u << k % 32;
        }
}

static inline unsigned mask_of_tile(const layout *l, int tile, int word)
{
    const unsigned *mask = l->mask + word * l->view.rows_padded;
    unsigned all = 0;
    for (int i = 0; i < l->view.tile_rows; i++)
        all |= mask[tile * l->view.tile_rows + i];
    return all;
}

static inline int cost_of_tile(const layout *l, int tile)
{
    int cost = 0;
    for (int w = 0; w < l->view.mask_words; w++)
        cost += __builtin_popcount(mask_of_tile(l, tile, w));
    return cost;
}

/* Lists tiles by descending cost, then -1. */
static inline void lay_out_tiles(layout *l, int tiles)
{
    const spc_map_view *v = &l->view;
    int rank = 0;

    for (int d = 0; d <= v->offsets; d++) {
        if (d < v->offsets)
            l->tile_begin[d] = rank;
        for (int tile = 0; tile < tiles; tile++)
            if (cost_of_tile(l, tile) == v->offsets - d)
                l->tile_order[rank++] = tile;
    }
    assert(rank == tiles);
    for (int t = 0; t < v->tiles; t++)
        for (int w = 0; w < v->mask_words && t < tiles; w++)
            l->tile_mask[w * v->tiles + t] =
                mask_of_tile(l, l->tile_order[t], w);
    for (int t = tiles; t < v->tiles; t++)
        l->tile_order[t] = -1;
}

/* Makes a view with capacity for `more_rows` additional rows. */
static inline void layout_create(layout *l, const relation *r, int tile_rows,
                                 int more_rows, enum row_order order)
{
    int pad = SPC_ROW_PAD % tile_rows == 0 ? SPC_ROW_PAD : tile_rows;
    int padded = (r->rows + more_rows + pad - 1) / pad * pad;
    int tiles = (r->rows + tile_rows - 1) / tile_rows;
    int words = (r->offsets + 31) / 32;
    size_t rows = (size_t)padded, table = (size_t)(padded / tile_rows);

    l->index = harness_allocate(rows * (size_t)r->offsets, sizeof(int));
    l->order = harness_allocate(rows, sizeof(int));
    l->mask = harness_allocate(rows * (size_t)words, sizeof(unsigned));
    l->tile_order = harness_allocate(table, sizeof(int));
    l->tile_mask = harness_allocate(table * (size_t)words, sizeof(unsigned));
    l->tile_begin = harness_allocate((size_t)r->offsets, sizeof(int));
    l->view = (spc_map_view){
        .index = l->index,
        .order = l->order,
        .mask = l->mask,
        .tile_order = l->tile_order,
        .tile_mask = l->tile_mask,
        .tile_begin = l->tile_begin,
        .rows = r->rows + more_rows, /* tiles of the capacity */
        .rows_padded = padded,
        .rows_in = r->rows_in,
        .offsets = r->offsets,
        .mask_words = words,
        .centre = r->centre,
        .tile_rows = tile_rows,
        .tiles = padded / tile_rows,
    };
    lay_out_rows(l, r, tiles, order);
    lay_out_tiles(l, tiles);
}

#endif
