/*
 * map_host.c - the map builder of the cpu device: threaded C.
 *
 * The same steps as the templates': pack, radix sort, z-delta search, masks.
 * Rows are worked on in chunks; within a chunk the targets of one (x, y) column
 * of the kernel ascend with the rows, so one binary search a chunk and column
 * is enough: after it the cursor only moves forward.
 */
#include "cancel.h"
#include "error.h"
#include "map_builder.h"
#include "parallel.h"
#include <stdlib.h>
#include <string.h>

enum {
    DIGIT_BITS = 11,
    DIGITS = 1 << DIGIT_BITS,
    CHUNK_ROWS = 4096,
    CHUNK_TILES = 256,
    SORT_CHUNKS = 64 /* at most; each has a table of DIGITS counts */
};

typedef struct work {
    uint64_t *keys[2]; /* sorting ping-pong; also digests */
    int *rows[2];
    int *counts; /* [SORT_CHUNKS][DIGITS] */
} work;

static bool host_serves(const spc_ctx *ctx)
{
    return spc__device_ops_of(ctx->device)->builds_maps_on_host;
}

static void host_destroy(spc_map *map)
{
    work *w = map->work;

    if (!w)
        return;
    for (int i = 0; i < 2; i++) {
        free(w->keys[i]);
        free(w->rows[i]);
    }
    free(w->counts);
    free(w);
    map->work = NULL;
}

static spc_status host_create(spc_map *map, spc_error *error)
{
    work *w = map->work = calloc(1, sizeof *w);
    size_t rows = (size_t)map->rows_padded;
    bool all = w != NULL;

    for (int i = 0; i < 2 && all; i++) {
        w->keys[i] = malloc(rows * sizeof *w->keys[i]);
        w->rows[i] = malloc(rows * sizeof *w->rows[i]);
        all = w->keys[i] && w->rows[i];
    }
    if (all)
        all = (w->counts = malloc(sizeof(int) * SORT_CHUNKS * DIGITS)) != NULL;
    /* Row orders are copied from the plain index. */
    return all ? spc__map_index_alloc(&map->plain, map, error)
               : spc__fail_memory(error, 24 * rows);
}

static int chunk_count(int rows)
{
    return (rows + CHUNK_ROWS - 1) / CHUNK_ROWS;
}

static int tile_chunk_count(int tiles)
{
    return (tiles + CHUNK_TILES - 1) / CHUNK_TILES;
}

static int at_most(int value, int limit)
{
    return value < limit ? value : limit;
}

/* Spreads over the context's threads; false if its flag has ended it early. */
static bool spread(const spc_map *map, int chunks,
                   void (*body)(void *payload, int64_t i), void *payload)
{
    return spc__parallel_until(map->ctx->cancel, chunks, map->ctx->threads,
                               body, payload);
}

/* ---- radix sort ------------------------------------------------------- */

/* One stable pass by DIGIT_BITS at `shift`; chunks are contiguous and keep
 * their order. */
typedef struct pass {
    const uint64_t *from_keys;
    const int *from_rows;
    uint64_t *to_keys;
    int *to_rows;
    int *counts; /* then the next place of each digit of each chunk */
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

static void count_chunk(void *payload, int64_t chunk)
{
    const pass *p = payload;
    int *counts = p->counts + chunk * DIGITS;
    int end = pass_begin(p, chunk + 1);

    memset(counts, 0, DIGITS * sizeof *counts);
    for (int i = pass_begin(p, chunk); i < end; i++)
        counts[digit_of(p, i)]++;
}

static void scatter_chunk(void *payload, int64_t chunk)
{
    const pass *p = payload;
    int *places = p->counts + chunk * DIGITS;
    int end = pass_begin(p, chunk + 1);

    for (int i = pass_begin(p, chunk); i < end; i++) {
        int place = places[digit_of(p, i)]++;
        p->to_keys[place] = p->from_keys[i];
        p->to_rows[place] = p->from_rows[i];
    }
}

static bool run_pass(const spc_map *map, pass *p)
{
    int place = 0;

    if (!spread(map, p->chunks, count_chunk, p))
        return false;
    for (int d = 0; d < DIGITS; d++)
        for (int c = 0; c < p->chunks; c++) {
            int count = p->counts[c * DIGITS + d];
            p->counts[c * DIGITS + d] = place;
            place += count;
        }
    return spread(map, p->chunks, scatter_chunk, p);
}

static int pass_count(int bits)
{
    return (bits + DIGIT_BITS - 1) / DIGIT_BITS;
}

/* Sorts the map's rows by `bits`-bit keys that are in keys[parity of the
 * passes]; the result is in keys[0], order[0]. */
static bool sort(const spc_map *map, uint64_t *keys[2], int *order[2], int bits)
{
    work *w = map->work;
    int from = pass_count(bits) & 1;

    for (int shift = 0; shift < bits; shift += DIGIT_BITS, from ^= 1) {
        pass p = {
            .from_keys = keys[from],
            .from_rows = order[from],
            .to_keys = keys[from ^ 1],
            .to_rows = order[from ^ 1],
            .counts = w->counts,
            .rows = map->rows,
            .chunks = at_most(chunk_count(map->rows), SORT_CHUNKS),
            .shift = shift,
        };
        if (!run_pass(map, &p))
            return false;
    }
    return true;
}

/* ---- building --------------------------------------------------------- */

typedef struct build {
    spc_map *map;
    const int32_t *coords;
    uint64_t *keys; /* where packing writes */
    int *rows;
    int64_t pairs;
} build;

static void note_bad(spc_map *map, int field, int row)
{
    int32_t *first = map->stats + SPC__MAP_BAD_ROW + field;
    int32_t seen = __atomic_load_n(first, __ATOMIC_RELAXED);

    while (row < seen &&
           !__atomic_compare_exchange_n(first, &seen, row, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void pack_chunk(void *payload, int64_t chunk)
{
    const build *b = payload;
    const spc__key_layout *layout = &b->map->key;
    int begin = (int)chunk * CHUNK_ROWS;
    int end = at_most(begin + CHUNK_ROWS, b->map->rows);

    for (int row = begin; row < end; row++) {
        uint64_t key = 0;
        for (int i = 0; i < 4; i++) {
            uint32_t c = (uint32_t)b->coords[4 * (size_t)row + (size_t)i] -
                         (uint32_t)layout->low[i];
            if (c > layout->last[i]) {
                note_bad(b->map, i, row);
                c = layout->last[i];
            }
            if (layout->bits[i]) /* a shift by 64 is undefined */
                key = (layout->bits[i] < 64 ? key << layout->bits[i] : 0) |
                      (c + (uint64_t)layout->before[i]);
        }
        b->keys[row] = key;
        b->rows[row] = row;
    }
}

static int lower_bound(const uint64_t *keys, int rows, uint64_t target)
{
    int low = 0, high = rows;

    while (low < high) {
        int middle = low + (high - low) / 2;
        if (keys[middle] < target)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What is added to a key to reach the first voxel of kernel column (i, j), in
 * wrapping arithmetic. */
static uint64_t column_delta(const spc_map *map, int i, int j)
{
    const spc_conv *conv = &map->conv;
    const int *bits = map->key.bits, *kernel = conv->geometry.kernel;
    uint64_t x = (uint64_t)((int64_t)(i - (kernel[0] - 1) / 2) *
                            conv->geometry.dilation[0]);
    uint64_t y = (uint64_t)((int64_t)(j - (kernel[1] - 1) / 2) *
                            conv->geometry.dilation[1]);

    x = bits[2] + bits[3] < 64 ? x << (bits[2] + bits[3]) : 0;
    y = bits[3] < 64 ? y << bits[3] : 0;
    return x + y - (uint64_t)map->key.before[3];
}

/* Fills the entries of one kernel column for rows begin..end; returns how many
 * are present. */
static int64_t search_column(const spc_map *map, int column, int begin, int end)
{
    const uint64_t *keys = map->keys;
    const int *kernel = map->conv.geometry.kernel;
    uint64_t delta = column_delta(map, column / kernel[1], column % kernel[1]);
    uint64_t step = (uint64_t)map->conv.geometry.dilation[2];
    size_t padded = (size_t)map->rows_padded;
    int cursor = lower_bound(keys, map->rows, keys[begin] + delta);
    int64_t pairs = 0;

    for (int p = begin; p < end; p++) {
        uint64_t want = keys[p] + delta;
        while (cursor < map->rows && keys[cursor] < want)
            cursor++;
        int at = cursor; /* the walk along z */
        for (int l = 0; l < kernel[2]; l++, want += step) {
            int k = column * kernel[2] + l;
            while (at < map->rows && keys[at] < want)
                at++;
            if (at < map->rows && keys[at] == want) {
                map->plain.index[(size_t)k * padded + (size_t)p] =
                    map->plain.order[at];
                map->plain.mask[(size_t)(k / 32) * padded + (size_t)p] |=
                    1u << k % 32;
                pairs++;
            } else {
                map->plain.index[(size_t)k * padded + (size_t)p] = -1;
            }
        }
    }
    return pairs;
}

/* Row order, masks and index of positions past the rows. */
static void pad_chunk(const spc__map_layout *layout, const spc_map *map,
                      int begin, int end)
{
    size_t padded = (size_t)map->rows_padded, first = (size_t)begin;
    size_t count = end > begin ? (size_t)(end - begin) : 0;

    if (count == 0)
        return;
    memset(layout->order + first, 0xff, 4 * count);
    for (int k = 0; k < map->offsets; k++)
        memset(layout->index + (size_t)k * padded + first, 0xff, 4 * count);
    for (int w = 0; w < map->mask_words; w++)
        memset(layout->mask + (size_t)w * padded + first, 0, 4 * count);
}

static void count_duplicates(spc_map *map, int begin, int end)
{
    const uint64_t *keys = map->keys;
    int32_t found = 0;

    for (int p = begin ? begin : 1; p < end; p++)
        found += keys[p] == keys[p - 1];
    if (found)
        __atomic_fetch_add(&map->stats[SPC__MAP_DUPLICATES], found,
                           __ATOMIC_RELAXED);
}

static void search_chunk(void *payload, int64_t chunk)
{
    build *b = payload;
    spc_map *map = b->map;
    int begin = (int)chunk * CHUNK_ROWS;
    int padded_end = at_most(begin + CHUNK_ROWS, map->rows_padded);
    int end = at_most(padded_end, map->rows);
    int64_t pairs = 0;

    pad_chunk(&map->plain, map, end > begin ? end : begin, padded_end);
    if (end <= begin)
        return;
    count_duplicates(map, begin, end);
    for (int w = 0; w < map->mask_words; w++)
        memset(map->plain.mask + (size_t)w * (size_t)map->rows_padded + begin,
               0, 4 * (size_t)(end - begin));
    for (int c = 0;
         c < map->conv.geometry.kernel[0] * map->conv.geometry.kernel[1]; c++)
        pairs += search_column(map, c, begin, end);
    __atomic_fetch_add(&b->pairs, pairs, __ATOMIC_RELAXED);
}

/* ---- row order -------------------------------------------------------- */

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
} ordering;

static void digest_chunk(void *payload, int64_t chunk)
{
    const ordering *o = payload;
    const spc_map *map = o->map;
    int begin = (int)chunk * CHUNK_ROWS;
    int end = at_most(begin + CHUNK_ROWS, map->rows);

    for (int p = begin; p < end; p++) {
        uint32_t digest = 0;
        for (int w = 0; w < map->mask_words; w++) {
            uint32_t mask =
                map->plain
                    .mask[(size_t)w * (size_t)map->rows_padded + (size_t)p];
            for (; mask; mask &= mask - 1)
                digest |= o->bit_of[32 * w + __builtin_ctz(mask)];
        }
        o->digests[p] = gray_rank(digest);
        o->positions[p] = p;
    }
}

static void permute_chunk(void *payload, int64_t chunk)
{
    const ordering *o = payload;
    const spc_map *map = o->map;
    const spc__map_layout *from = &map->plain, *to = o->layout;
    size_t padded = (size_t)map->rows_padded;
    int begin = (int)chunk * CHUNK_ROWS;
    int padded_end = at_most(begin + CHUNK_ROWS, map->rows_padded);
    int end = at_most(padded_end, map->rows);

    pad_chunk(to, map, end > begin ? end : begin, padded_end);
    for (int p = begin; p < end; p++)
        to->order[p] = from->order[o->sorted[p]];
    for (int w = 0; w < map->mask_words; w++)
        for (int p = begin; p < end; p++)
            to->mask[(size_t)w * padded + (size_t)p] =
                from->mask[(size_t)w * padded + (size_t)o->sorted[p]];
    for (int k = 0; k < map->offsets; k++)
        for (int p = begin; p < end; p++)
            to->index[(size_t)k * padded + (size_t)p] =
                from->index[(size_t)k * padded + (size_t)o->sorted[p]];
}

/* ---- tiles ------------------------------------------------------------ */

typedef struct tiling {
    const spc_map *map;
    const spc__map_layout *layout;
    const spc__map_tiles *tiles;
    int count;
    int *cost;
} tiling;

static uint32_t tile_word(const tiling *t, int tile, int word)
{
    const unsigned *mask = t->layout->mask +
                           (size_t)word * (size_t)t->map->rows_padded +
                           (size_t)tile * (size_t)t->tiles->rows;
    uint32_t all = 0;

    for (int i = 0; i < t->tiles->rows; i++)
        all |= mask[i];
    return all;
}

static void cost_chunk(void *payload, int64_t chunk)
{
    const tiling *t = payload;
    int begin = (int)chunk * CHUNK_TILES;
    int end = at_most(begin + CHUNK_TILES, t->count);

    for (int tile = begin; tile < end; tile++) {
        t->cost[tile] = 0;
        for (int w = 0; w < t->map->mask_words; w++)
            t->cost[tile] += __builtin_popcount(tile_word(t, tile, w));
    }
}

static void mask_chunk(void *payload, int64_t chunk)
{
    const tiling *t = payload;
    int begin = (int)chunk * CHUNK_TILES;
    int end = at_most(begin + CHUNK_TILES, t->count);

    for (int w = 0; w < t->map->mask_words; w++)
        for (int i = begin; i < end; i++)
            t->tiles->mask[(size_t)w * (size_t)t->count + (size_t)i] =
                tile_word(t, t->tiles->order[i], w);
}

/* Tiles by falling cost; of equal ones the first comes first. */
static void sort_tiles(const tiling *t)
{
    int place[SPC_MAX_OFFSETS + 2] = {0}, *next = place + 1;

    /* next[c] counts tiles of cost K - c; summed, the place of the first. */
    for (int tile = 0; tile < t->count; tile++)
        next[t->map->offsets - t->cost[tile]]++;
    for (int c = 0; c < t->map->offsets; c++)
        next[c + 1] += next[c];
    memcpy(t->tiles->begin, place,
           (size_t)t->map->offsets * sizeof *t->tiles->begin);
    for (int tile = 0; tile < t->count; tile++)
        t->tiles->order[place[t->map->offsets - t->cost[tile]]++] = tile;
}

static spc_status host_tile(const spc_map *map, const spc__map_layout *layout,
                            const spc__map_tiles *tiles, void *stream,
                            spc_error *error)
{
    tiling t = {map, layout, tiles, spc__map_tile_count(map, tiles->rows),
                ((work *)map->work)->rows[0]};

    (void)stream;
    if (!spread(map, tile_chunk_count(t.count), cost_chunk, &t))
        return spc__interrupted(error);
    sort_tiles(&t);
    if (!spread(map, tile_chunk_count(t.count), mask_chunk, &t))
        return spc__interrupted(error);
    return SPC_OK;
}

static spc_status host_fill(const spc_map *map, const spc__map_layout *layout,
                            void *stream, spc_error *error)
{
    work *w = map->work;
    int first = pass_count(layout->bits) & 1;
    ordering o = {
        map,       layout, w->keys[first], w->rows[first], layout->bit_of,
        w->rows[0]};

    if (!layout->sorted)
        return SPC_OK; /* building fills it */
    if (!spread(map, chunk_count(map->rows), digest_chunk, &o) ||
        !sort(map, w->keys, w->rows, layout->bits) ||
        !spread(map, chunk_count(map->rows_padded), permute_chunk, &o))
        return spc__interrupted(error);
    if (layout->tiles)
        return host_tile(map, layout, layout->tiles, stream, error);
    return SPC_OK;
}

static spc_status host_build(spc_map *map, const int32_t *coords,
                             const spc__map_layout *sorted, void *stream,
                             spc_error *error)
{
    work *w = map->work;
    uint64_t *keys[2] = {map->keys, w->keys[0]};
    int *order[2] = {map->plain.order, w->rows[0]};
    int first = pass_count(map->key.total_bits) & 1;
    build b = {map, coords, keys[first], order[first], 0};

    memset(map->stats, 0, 4 * (size_t)SPC__MAP_STATS);
    for (int i = 0; i < 4; i++)
        map->stats[SPC__MAP_BAD_ROW + i] = SPC__MAP_NO_ROW;
    if (!spread(map, chunk_count(map->rows), pack_chunk, &b) ||
        !sort(map, keys, order, map->key.total_bits) ||
        !spread(map, chunk_count(map->rows_padded), search_chunk, &b))
        return spc__interrupted(error);
    map->stats[SPC__MAP_PAIRS] = (int32_t)(b.pairs & 0xffff);
    map->stats[SPC__MAP_PAIRS + 1] = (int32_t)(b.pairs >> 16);
    return sorted ? host_fill(map, sorted, stream, error) : SPC_OK;
}

const spc__map_builder spc__map_builder_host = {
    .name = "host",
    .serves = host_serves,
    .create = host_create,
    .destroy = host_destroy,
    .build = host_build,
    .fill = host_fill,
    .tile = host_tile,
};
