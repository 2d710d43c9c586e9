/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regroup_host.c - regrouping on the cpu device: the template's steps in C,
 * with threads where features are moved.
 */
#include "base/cancel.h"
#include "base/dtype.h"
#include "base/error.h"
#include "coords/index/index_host.h"
#include "coords/regroup/regroup.h"
#include <stdlib.h>
#include <string.h>

enum { CHUNK_ROWS = 1024, PART = 256 };

/* The work is an array: the position of each source row among its keys. */
static spc_status host_create(spc_coords *c, spc_error *error)
{
    spc__regroup *r = c->regroup;
    size_t bytes = 4 * (size_t)r->first[r->sources];

    r->work = malloc(bytes ? bytes : 1);
    return r->work ? SPC_OK : spc__fail_memory(error, bytes);
}

static void host_destroy(spc_coords *c)
{
    free(c->regroup->work);
    c->regroup->work = NULL;
}

/* ---- listing ---------------------------------------------------------- */

/* Finds the position of each row in the order of the keys. */
static void find_positions(int *at, const spc_coords *source)
{
    /* Rows that merged into another or were out of range keep -1. */
    memset(at, 0xff, 4 * (size_t)source->capacity);
    for (int p = 0; p < *source->count; p++)
        at[((const int *)source->order)[p]] = p;
}

/* The voxel of a key, times the scale. */
static void scaled_voxel(int32_t out[4], const spc_coords *source,
                         const int scale[3], int p)
{
    const spc_index_key *layout = &source->key;
    uint64_t key = ((const uint64_t *)source->keys)[p];

    for (int i = 0; i < 4; i++) {
        uint32_t field = (uint32_t)(key >> layout->shift[i]) & layout->wide[i];
        /* In 64 bits: the field is unsigned and may be below `before`. */
        int64_t value = (int64_t)field - layout->before[i] + layout->low[i];
        out[i] = (int32_t)(i > 0 ? value * scale[i - 1] : value);
    }
}

/* Counts the children of a row that the mask keeps, and lists as many as
 * fit. */
static void list_row(spc_coords *c, const int32_t voxel[4], int row,
                     const uint8_t *mask)
{
    spc__regroup *r = c->regroup;
    const int *split = r->how.split;

    for (int child = 0; child < r->children; child++) {
        int slot = row * r->children + child, listed_as;
        if (mask && !mask[slot])
            continue;
        listed_as = (*r->listed)++;
        /* Still counted, so that the error can name the capacity that would
         * have been enough. */
        if (listed_as >= c->capacity)
            continue;
        int32_t *to = r->list + 4 * (size_t)listed_as;
        to[0] = voxel[0];
        to[1] = voxel[1] + child % split[0];
        to[2] = voxel[2] + child / split[0] % split[1];
        to[3] = voxel[3] + child / split[0] / split[1];
        r->slot[listed_as] = slot;
    }
}

/* Lists the children of a source's rows. */
static void list_source(spc_coords *c, int number, const uint8_t *mask)
{
    const spc__regroup *r = c->regroup;
    const spc_coords *source = r->source[number];
    int *at = r->work;

    find_positions(at, source);
    /* In the order of rows and not of keys, so that the set keeps the order of
     * its sources. */
    for (int row = 0; row < source->capacity; row++) {
        int32_t voxel[4];
        if (at[row] < 0)
            continue;
        scaled_voxel(voxel, source, r->how.scale, at[row]);
        list_row(c, voxel, r->first[number] + row, mask);
    }
}

/* ---- rows ------------------------------------------------------------- */

/* Records rows and slots of a set in which nothing merged. */
static void keep_rows(spc_coords *c)
{
    spc__regroup *r = c->regroup;

    for (int row = 0; row < *c->count; row++) {
        r->begin[row] = row;
        r->slots[row] = r->slot[row];
        /* Nothing merged, so rows and slots correspond one to one. */
        r->of[r->slot[row]] = row;
    }
    r->begin[*c->count] = *c->count;
}

/* Records rows and slots of a set in which equal children became one row. */
static void merge_rows(spc_coords *c)
{
    spc__regroup *r = c->regroup;

    for (int row = 0; row < *c->count; row++) {
        /* In key order from here on, like every derived set. */
        memcpy(c->data + 4 * (size_t)row, r->list + 4 * (size_t)c->order[row],
               16);
        c->order[row] = row;
        r->begin[row] = c->twin_begin[row];
        for (int i = c->twin_begin[row]; i < c->twin_begin[row + 1]; i++) {
            r->slots[i] = r->slot[c->twins[i]];
            r->of[r->slots[i]] = row;
        }
    }
    r->begin[*c->count] = c->twin_begin[*c->count];
}

/* Fills the set as the kernels do on a device. */
static spc_status host_fill(spc_coords *c, const uint8_t *mask, void *stream,
                            spc_error *error)
{
    spc__regroup *r = c->regroup;
    spc__source source = {r->list, r->listed, 0};

    *r->listed = 0;
    /* -1 for children that the mask leaves out. */
    memset(r->of, 0xff, 4 * (size_t)r->first[r->sources] * (size_t)r->children);
    for (int i = 0; i < r->sources; i++)
        list_source(c, i, mask);
    spc_status status = c->indexer->set_build(c, &source, stream, error);
    if (status != SPC_OK)
        return status;
    if (r->merges)
        merge_rows(c);
    else
        keep_rows(c);
    return SPC_OK;
}

/* ---- masks ------------------------------------------------------------ */

/* Makes a mask: the children whose number is above the threshold. */
static spc_status host_mask(const spc_coords *c, const spc_mask_args *args,
                            spc_dtype dtype, void *stream, spc_error *error)
{
    const spc__dtype *type = spc__dtype_of(dtype);
    size_t children = (size_t)args->children;
    float numbers[SPC_REGROUP_CHILDREN];

    (void)c, (void)stream, (void)error;
    for (int s = 0; s < args->sources; s++)
        for (int row = 0; row < *args->count[s]; row++) {
            size_t first = ((size_t)args->first[s] + (size_t)row) * children;
            if (row == args->first[s + 1] - args->first[s])
                break; /* more rows than the capacity: the set is empty */
            type->decode(numbers,
                         (const char *)args->in[s] +
                             (size_t)row * children * type->bytes,
                         children);
            for (size_t i = 0; i < children; i++)
                args->mask[first + i] = numbers[i] > args->above;
        }
    return SPC_OK;
}

/* ---- features --------------------------------------------------------- */

typedef struct moving {
    const spc_coords *c;
    const spc_gather_args *args;
    const spc__dtype *type;
    int64_t rows;
    bool spreads;
} moving;

/* The sum of at most PART channels of a row, and the values to add. Rows are
 * processed in parts, so any width needs no allocation. */
typedef struct part {
    size_t first, count; /* range of channels */
    float sum[PART], row[PART];
} part;

/* The source that has this row. */
static int source_at(const spc_gather_args *args, int64_t row)
{
    int s = 0;

    /* There are at most SPC_REGROUP_SOURCES sources, so a walk is as fast as a
     * search. */
    while (row >= args->first[s + 1])
        s++;
    return s;
}

/* Byte offset of a part of a row. */
static size_t offset_of(const moving *m, const part *p, int64_t row)
{
    return ((size_t)row * (size_t)m->args->channels + p->first) *
           m->type->bytes;
}

/* Adds a part of a row to the sum. */
static void add_row(const moving *m, part *p, const void *from, int64_t row)
{
    m->type->decode(p->row, (const char *)from + offset_of(m, p, row),
                    p->count);
    for (size_t i = 0; i < p->count; i++)
        p->sum[i] += p->row[i];
}

static void store_row(const moving *m, const part *p, void *to, int64_t row)
{
    m->type->encode((char *)to + offset_of(m, p, row), p->sum, p->count);
}

/* A sum starts at -0, since -0 + x is x even for x = -0. */
static void clear_sum(part *p, float to)
{
    for (size_t i = 0; i < p->count; i++)
        p->sum[i] = to;
}

/* Sums the features of all slots that became the row. */
static void gather_row(const moving *m, part *p, int64_t row)
{
    const spc_gather_args *a = m->args;

    clear_sum(p, -0.0f);
    for (int j = a->begin[row]; j < a->begin[row + 1]; j++) {
        int64_t from = a->slots[j] / a->children;
        int s = source_at(a, from / a->slices);
        add_row(m, p, a->in[s], from - (int64_t)a->first[s] * a->slices);
    }
    store_row(m, p, a->out[0], row);
}

/* The gradient of a gather: sums the gradients of all rows that the input's
 * children became. */
static void spread_row(const moving *m, part *p, int64_t row)
{
    const spc_gather_args *a = m->args;
    int s = source_at(a, row / a->slices);
    bool any = false;

    clear_sum(p, -0.0f);
    for (int child = 0; child < a->children; child++) {
        int from = a->of[row * a->children + child];
        if (from < 0)
            continue;
        add_row(m, p, a->in[0], from);
        any = true;
    }
    /* An input without children gets +0, as the kernel writes. */
    if (!any)
        clear_sum(p, 0);
    store_row(m, p, a->out[s], row - (int64_t)a->first[s] * a->slices);
}

/* Moves a row in parts, since the sums have a fixed size. */
static void move_row(const moving *m, part *p, int64_t row)
{
    size_t channels = (size_t)m->args->channels;

    for (p->first = 0; p->first < channels; p->first += PART) {
        size_t left = channels - p->first;
        p->count = left < PART ? left : PART;
        (m->spreads ? spread_row : gather_row)(m, p, row);
    }
}

/* One task of the pool: a chunk of rows. */
static void move_chunk(void *payload, int64_t chunk)
{
    const moving *m = payload;
    int64_t end = (chunk + 1) * CHUNK_ROWS;
    part p;

    for (int64_t row = chunk * CHUNK_ROWS; row < end && row < m->rows; row++)
        move_row(m, &p, row);
}

/* Spreads a move over the threads of the pool. */
static spc_status move(moving *m, spc_error *error)
{
    int64_t chunks = (m->rows + CHUNK_ROWS - 1) / CHUNK_ROWS;

    return spc__host_spread(m->c->ctx, chunks, move_chunk, m)
               ? SPC_OK
               : spc__interrupted(error);
}

static spc_status host_gather(const spc_coords *c, const spc_gather_args *args,
                              spc_dtype dtype, void *stream, spc_error *error)
{
    moving m = {
        .c = c, .args = args, .type = spc__dtype_of(dtype), .rows = *c->count};

    (void)stream;
    return move(&m, error);
}

static spc_status host_spread(const spc_coords *c, const spc_gather_args *args,
                              spc_dtype dtype, void *stream, spc_error *error)
{
    moving m = {.c = c,
                .args = args,
                .type = spc__dtype_of(dtype),
                .rows = (int64_t)args->first[args->sources] * args->slices,
                .spreads = true};

    (void)stream;
    return move(&m, error);
}

const spc__regrouper spc__regrouper_host = {
    .create = host_create,
    .destroy = host_destroy,
    .fill = host_fill,
    .mask = host_mask,
    .gather = host_gather,
    .spread = host_spread,
};
