/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_host_order.c - row orders and tile tables on the cpu device.
 */
#include "base/cancel.h"
#include "coords/index/index_host.h"
#include <string.h>

enum { CHUNK_TILES = 256 };

static int tile_chunk_count(int tiles)
{
    return (tiles + CHUNK_TILES - 1) / CHUNK_TILES;
}

/* The rank is the prefix exclusive-or of the bits, computed in log2(32)
 * steps. */
static uint32_t gray_rank(uint32_t code)
{
    for (int shift = 1; shift < 32; shift *= 2)
        code ^= code >> shift;
    return code;
}

typedef struct ordering {
    const spc_map *map;
    const spc__map_layout *layout;
    uint64_t *digests;
    int *positions;
    const uint32_t *bit_of;
    const int *sorted;
    int each; /* rows of a chunk to permute */
} ordering;

static uint32_t word_at(const spc_map *map, int w, int p)
{
    return map->plain
        .mask[(size_t)w * (size_t)map->to->rows_padded + (size_t)p];
}

/* The Gray rank of the mask, after its bits were put into the order of the
 * layout. */
static uint32_t digest_by_gray(const ordering *o, int p)
{
    uint32_t digest = 0;

    for (int w = 0; w < o->map->mask_words; w++)
        for (uint32_t mask = word_at(o->map, w, p); mask; mask &= mask - 1)
            digest |= o->bit_of[32 * w + __builtin_ctz(mask)];
    return gray_rank(digest);
}

/* Sorts by the number of offsets that a row uses. */
static uint32_t digest_by_count(const ordering *o, int p)
{
    int count = 0;

    for (int w = 0; w < o->map->mask_words; w++)
        count += __builtin_popcount(word_at(o->map, w, p));
    /* The sort is ascending and rows with most offsets come first. */
    return (uint32_t)(o->map->offsets - count);
}

/* Sorts by chosen bits of the key. */
static uint32_t digest_by_key(const ordering *o, int p)
{
    uint64_t key = ((const uint64_t *)o->map->to->keys)[p];
    uint32_t digest = 0;

    for (; key; key &= key - 1)
        digest |= o->bit_of[__builtin_ctzll(key)];
    return digest;
}

static uint32_t digest_of(const ordering *o, int p)
{
    return o->layout->by == SPC_INDEX_BY_COUNT ? digest_by_count(o, p)
           : o->layout->by == SPC_INDEX_BY_KEY ? digest_by_key(o, p)
                                               : digest_by_gray(o, p);
}

/* Writes the numbers by which a chunk of rows is sorted. */
static void digest_chunk(void *payload, int64_t chunk)
{
    const ordering *o = payload;
    int begin = (int)chunk * SPC__HOST_CHUNK_ROWS;
    int end =
        spc__host_at_most(begin + SPC__HOST_CHUNK_ROWS, *o->map->to->count);

    for (int p = begin; p < end; p++) {
        o->digests[p] = digest_of(o, p);
        o->positions[p] = p;
    }
}

/* The bits of mask word w that belong to the layout's offsets. */
static uint32_t layout_word(const spc__map_layout *layout, int w)
{
    /* In 64 bits, since a shift by 32 of a 32-bit word is undefined. */
    int64_t begin = layout->begin - 32 * w, end = layout->end - 32 * w;
    uint64_t below = end > 0 ? ((uint64_t)1 << (end < 32 ? end : 32)) - 1 : 0;

    return begin >= 32
               ? 0
               : (uint32_t)(below & ~(uint64_t)0 << (begin > 0 ? begin : 0));
}

/* Copies a chunk of rows into the sorted order. */
static void permute_chunk(void *payload, int64_t chunk)
{
    const ordering *o = payload;
    const spc_map *map = o->map;
    const spc__map_layout *from = &map->plain, *to = o->layout;
    size_t padded = (size_t)map->to->rows_padded;
    int begin = (int)chunk * o->each;
    int padded_end = spc__host_at_most(begin + o->each, map->to->rows_padded);
    int end = spc__host_at_most(padded_end, *map->to->count);

    spc__host_pad(to, map, end > begin ? end : begin, padded_end);
    for (int p = begin; p < end; p++)
        to->order[p] = from->order[o->sorted[p]];
    /* One array at a time: each is contiguous, while the arrays of words and
     * offsets are far apart. */
    for (int w = 0; w < map->mask_words; w++)
        for (int p = begin; p < end; p++)
            to->mask[(size_t)w * padded + (size_t)p] =
                word_at(map, w, o->sorted[p]) & layout_word(to, w);
    for (int k = to->begin; k < to->end; k++)
        for (int p = begin; p < end; p++)
            to->index[(size_t)k * padded + (size_t)p] =
                from->index[(size_t)k * padded + (size_t)o->sorted[p]];
}

/* ---- tiles ------------------------------------------------------------ */

typedef struct tiling {
    const spc_map *map;
    const spc__map_layout *layout;
    const spc__map_tiles *tiles;
    int capacity, count;
    int *cost;
} tiling;

/* The offsets that any row of the tile uses, in one word of the mask. */
static uint32_t tile_word(const tiling *t, int tile, int word)
{
    const unsigned *mask = t->layout->mask +
                           (size_t)word * (size_t)t->map->to->rows_padded +
                           (size_t)tile * (size_t)t->tiles->rows;
    uint32_t all = 0;

    /* The last tile may go past the last row, where the padding has empty
     * masks. */
    for (int i = 0; i < t->tiles->rows; i++)
        all |= mask[i];
    return all;
}

/* Counts the offsets of each tile, which are its cost. */
static void cost_chunk(void *payload, int64_t chunk)
{
    const tiling *t = payload;
    int begin = (int)chunk * CHUNK_TILES;
    int end = spc__host_at_most(begin + CHUNK_TILES, t->count);

    for (int tile = begin; tile < end; tile++) {
        t->cost[tile] = 0;
        for (int w = 0; w < t->map->mask_words; w++)
            t->cost[tile] += __builtin_popcount(tile_word(t, tile, w));
    }
}

/* Writes the masks of the tiles in their order. */
static void mask_chunk(void *payload, int64_t chunk)
{
    const tiling *t = payload;
    int begin = (int)chunk * CHUNK_TILES;
    int end = spc__host_at_most(begin + CHUNK_TILES, t->count);

    for (int w = 0; w < t->map->mask_words; w++)
        for (int i = begin; i < end; i++)
            t->tiles->mask[(size_t)w * (size_t)t->capacity + (size_t)i] =
                tile_word(t, t->tiles->order[i], w);
}

/* Sorts tiles by descending cost. The sort is stable. */
static void sort_tiles(const tiling *t)
{
    /* `next` is `starts` shifted by one, so after the prefix sum place[c] is
     * the first position of cost K - c, without another pass. */
    int starts[SPC_MAX_OFFSETS + 2] = {0}, *next = starts + 1;

    /* next[c] counts the tiles of cost K - c; the prefix sum then gives the
     * position of the first of them. */
    for (int tile = 0; tile < t->count; tile++)
        next[t->map->offsets - t->cost[tile]]++;
    for (int c = 0; c < t->map->offsets; c++)
        next[c + 1] += next[c];
    /* Copies the positions before the loop below advances them. */
    memcpy(t->tiles->begin, starts,
           (size_t)t->map->offsets * sizeof *t->tiles->begin);
    for (int tile = 0; tile < t->count; tile++)
        t->tiles->order[starts[t->map->offsets - t->cost[tile]]++] = tile;
}

/* Counts the tiles of a group that have any of its offsets. The others come
 * last and are dropped. */
static int tiles_of_group(const tiling *t)
{
    int some = 0;

    for (int tile = 0; tile < t->count; tile++)
        some += t->cost[tile] > 0;
    return some;
}

/* Clears the entries after the last tile; kernels stop at the first one. */
static void clear_tiles(const tiling *t)
{
    size_t left = (size_t)(t->capacity - t->count);

    memset(t->tiles->order + t->count, 0xff, 4 * left);
    for (int w = 0; w < t->map->mask_words; w++)
        memset(t->tiles->mask + (size_t)w * (size_t)t->capacity + t->count, 0,
               4 * left);
}

spc_status spc__host_map_tile(const spc_map *map, const spc__map_layout *layout,
                              const spc__map_tiles *tiles, void *stream,
                              spc_error *error)
{
    int count = (*map->to->count + tiles->rows - 1) / tiles->rows;
    tiling t = {map,
                layout,
                tiles,
                spc__map_tile_count(map, tiles->rows),
                count,
                /* The rows were sorted before, so their scratch memory is free.
                 * There are at most as many tiles as rows. */
                ((spc__host_scratch *)map->work)->rows[0]};

    (void)stream;
    if (!spc__host_spread(map->ctx, tile_chunk_count(t.count), cost_chunk, &t))
        return spc__interrupted(error);
    sort_tiles(&t);
    /* Only a group can have tiles without any offset. */
    if (layout->sorted && layout->groups > 1)
        t.count = tiles_of_group(&t);
    if (!spc__host_spread(map->ctx, tile_chunk_count(t.count), mask_chunk, &t))
        return spc__interrupted(error);
    clear_tiles(&t);
    return SPC_OK;
}

spc_status spc__host_map_fill(const spc_map *map, const spc__map_layout *layout,
                              void *stream, spc_error *error)
{
    const spc__host_scratch *s = map->work;
    /* See sort_rows() in index_host_set.c: the result is in buffer 0. */
    int first = spc__host_passes(layout->bits) & 1, rows = *map->to->count;
    uint64_t *keys[2] = {s->keys[0], s->keys[1]};
    int *order[2] = {s->rows[0], s->rows[1]};
    ordering o = {.map = map,
                  .layout = layout,
                  .digests = s->keys[first],
                  .positions = s->rows[first],
                  .bit_of = layout->bit_of,
                  .sorted = s->rows[0],
                  .each = spc__host_wide_rows(map)};
    int chunks = (map->to->rows_padded + o.each - 1) / o.each;

    if (!layout->sorted)
        return SPC_OK; /* the build fills the table */
    if (!spc__host_spread(map->ctx, spc__host_chunks(rows), digest_chunk, &o) ||
        !spc__host_sort(map->ctx, s, keys, order, rows, layout->bits) ||
        !spc__host_spread(map->ctx, chunks, permute_chunk, &o))
        return spc__interrupted(error);
    if (layout->tiles)
        return spc__host_map_tile(map, layout, layout->tiles, stream, error);
    return SPC_OK;
}
