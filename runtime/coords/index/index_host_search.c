/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_host_search.c - kernel maps on the cpu device.
 *
 * Along one line of the kernel, the keys to find ascend with the rows. So each
 * chunk and line needs one binary search; from there the cursor only moves
 * forward.
 */
#include "coords/index/index_host.h"
#include <string.h>

/* The position of the first key that is not below the target. */
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

/* Packs coordinates that lie within the set's guard bands; the set need not
 * contain that voxel. */
static uint64_t key_near(const spc_index_key *layout, const int64_t c[4])
{
    uint64_t key = 0;

    for (int i = 0; i < 4; i++)
        key += (uint64_t)(c[i] - layout->low[i] + layout->before[i])
               << layout->shift[i];
    return key;
}

/* Offsets that are neighbours along z: their keys are `stride` apart. */
typedef struct line {
    int first, length;
    uint64_t delta, stride;
} line;

typedef struct search {
    spc_map *map;
    uint64_t *own;  /* position of each row's own key among the searched keys */
    int rows, each; /* all rows, and the rows of a chunk */
    int64_t pairs;
} search;

/* The difference between the keys of two voxels that are this far apart. */
static uint64_t key_of_offset(const spc_index_key *layout, const int voxels[3])
{
    uint64_t key = 0;

    /* Negative offsets wrap around modulo 2^64, which adding them to a key
     * undoes. */
    for (int i = 0; i < 3; i++)
        key += (uint64_t)(int64_t)voxels[i] << layout->shift[1 + i];
    return key;
}

/* A line of the kernel: offsets that differ only along z, the fastest axis of a
 * key. */
static line line_at(const spc_map *map, int number)
{
    const spc_geometry *g = &map->geometry;
    const spc_index_key *layout = &map->in->key;
    /* A list of offsets has no lines, so each offset is a line of length 1. */
    int length = g->offset_count > 0 ? 1 : g->kernel[2], at[3];
    int stride[3] = {0, 0, g->dilation[2]};

    spc_geometry_offset_at(at, g, number * length);
    return (line){number * length, length, key_of_offset(layout, at),
                  key_of_offset(layout, stride)};
}

/* Stores the result of a search: the input's row in the caller's order, or
 * -1. */
static void keep(const spc_map *map, int k, int p, int at)
{
    size_t padded = (size_t)map->to->rows_padded;

    map->plain.index[(size_t)k * padded + (size_t)p] =
        at >= 0 ? map->in->order[at] : -1;
    if (at >= 0)
        map->plain.mask[(size_t)(k / 32) * padded + (size_t)p] |= 1u << k % 32;
}

/* Fills the entries of one line for rows begin..end. Returns how many
 * neighbours it found. */
static int64_t search_line(const search *s, const line *l, int begin, int end)
{
    const spc_map *map = s->map;
    const uint64_t *keys = map->in->keys;
    int rows = *map->in->count;
    /* One binary search a chunk and line. After it, rows and keys ascend
     * together. */
    int cursor = lower_bound(keys, rows, s->own[begin] + l->delta);
    int64_t pairs = 0;

    for (int p = begin; p < end; p++) {
        /* Own keys ascend with p, so the cursor never has to go back. */
        uint64_t want = s->own[p] + l->delta;
        while (cursor < rows && keys[cursor] < want)
            cursor++;
        /* A copy, since the next row may have to look at the same keys
         * again. */
        int at = cursor; /* advances along z */
        for (int i = 0; i < l->length; i++, want += l->stride) {
            while (at < rows && keys[at] < want)
                at++;
            bool there = at < rows && keys[at] == want;
            keep(map, l->first + i, p, there ? at : -1);
            pairs += there;
        }
    }
    return pairs;
}

/* Finds all pairs of some rows, line by line. Returns their number. */
static int64_t search_lines(const search *s, int begin, int end)
{
    const spc_geometry *g = &s->map->geometry;
    int length = g->offset_count > 0 ? 1 : g->kernel[2];
    int64_t pairs = 0;

    for (int i = 0; i < s->map->offsets / length; i++) {
        line l = line_at(s->map, i);
        pairs += search_line(s, &l, begin, end);
    }
    return pairs;
}

/* True if the voxel is within the extent, where it has a key. */
static bool is_inside(const spc_index_key *layout, const int64_t c[4])
{
    for (int i = 0; i < 4; i++)
        if (c[i] < layout->low[i] || c[i] - layout->low[i] > layout->last[i])
            return false;
    return true;
}

/* Finds the inputs of one output of an inverse map: the outputs of the geometry
 * that read it. */
static int64_t search_inverse(const search *s, int p)
{
    const spc_map *map = s->map;
    const spc_geometry *g = &map->geometry;
    const uint64_t *keys = map->in->keys;
    int32_t voxel[4];
    int64_t pairs = 0;

    spc__host_unpack(voxel, &map->to->key,
                     ((const uint64_t *)map->to->keys)[p]);
    for (int k = 0; k < map->offsets; k++) {
        int64_t c[4] = {voxel[0]};
        int at[3], found = -1;
        bool whole = true;
        spc_geometry_offset_at(at, g, k);
        for (int i = 0; i < 3; i++) {
            int64_t value = (int64_t)voxel[1 + i] - at[i];
            c[1 + i] = spc__floor_div(value, g->stride[i]);
            /* Only a multiple of the stride is an output's position. */
            whole &= c[1 + i] * g->stride[i] == value;
        }
        /* A bounded set has no voxel outside its bounds, and the guard bands
         * need not reach so far. */
        if (whole &&
            (!spc__geometry_is_bounded(g) || is_inside(&map->in->key, c))) {
            uint64_t want = key_near(&map->in->key, c);
            found = lower_bound(keys, *map->in->count, want);
            if (found == *map->in->count || keys[found] != want)
                found = -1;
        }
        keep(map, k, p, found);
        pairs += found >= 0;
    }
    return pairs;
}

/* Fills the row order, masks and index of the padding after the last row. */
void spc__host_pad(const spc__map_layout *layout, const spc_map *map, int begin,
                   int end)
{
    size_t padded = (size_t)map->to->rows_padded, first = (size_t)begin;
    size_t count = end > begin ? (size_t)(end - begin) : 0;
    /* The plain layout has no group, so its `end` is 0. */
    int end_offset = layout->sorted ? layout->end : map->offsets;

    if (count == 0)
        return;
    memset(layout->order + first, 0xff, 4 * count);
    for (int k = layout->begin; k < end_offset; k++)
        memset(layout->index + (size_t)k * padded + first, 0xff, 4 * count);
    for (int w = 0; w < map->mask_words; w++)
        memset(layout->mask + (size_t)w * padded + first, 0, 4 * count);
}

/* Clamps a window that lies outside the set's extent to just outside it. Keys
 * then stay inside the guard bands and still ascend with the rows. */
static void move_into_guard(int64_t c[4], const spc_index_key *layout,
                            const int64_t low[3], const int64_t high[3])
{
    int64_t batch = c[0] - layout->low[0];

    /* A batch element that the set lacks becomes a place before its first or
     * after its last voxel. */
    if (batch < 0)
        c[1] = INT64_MIN;
    if (batch > layout->last[0])
        c[1] = INT64_MAX;
    c[0] = layout->low[0] + (batch < 0                 ? 0
                             : batch > layout->last[0] ? layout->last[0]
                                                       : batch);
    for (int i = 0; i < 3; i++) {
        int64_t least = (int64_t)layout->low[1 + i] - high[i] - 1;
        int64_t most =
            (int64_t)layout->low[1 + i] + layout->last[1 + i] - low[i] + 1;
        c[1 + i] = c[1 + i] < least ? least : c[1 + i] > most ? most : c[1 + i];
    }
}

/* Finds each row's own key among the searched keys; it searches for the key of
 * output * stride. */
static void find_own(const search *s, int begin, int end)
{
    const spc_map *map = s->map;
    const uint64_t *keys = map->to->keys;
    bool far = spc__geometry_is_far(&map->geometry);
    int64_t low[3], high[3];

    spc__geometry_span(low, high, &map->geometry);
    for (int p = begin; p < end; p++) {
        int32_t voxel[4];
        int64_t c[4];
        /* A submanifold kernel is centred at the row itself, whatever the
         * stride. */
        if (map->to == map->in && !far) {
            s->own[p] = keys[p];
            continue;
        }
        spc__host_unpack(voxel, &map->to->key, keys[p]);
        c[0] = voxel[0];
        for (int i = 0; i < 3; i++)
            c[1 + i] = (int64_t)voxel[1 + i] * map->geometry.stride[i];
        /* Given and expanded sets may be far from the inputs. Others lie within
         * the guard bands. */
        if (far)
            move_into_guard(c, &map->in->key, low, high);
        s->own[p] = key_near(&map->in->key, c);
    }
}

/* One task of the pool: the pairs of a chunk of rows, and their padding. */
static void search_chunk(void *payload, int64_t chunk)
{
    search *s = payload;
    spc_map *map = s->map;
    int begin = (int)chunk * s->each;
    int padded_end = spc__host_at_most(begin + s->each, map->to->rows_padded);
    int end = spc__host_at_most(padded_end, s->rows);
    int64_t pairs = 0;

    spc__host_pad(&map->plain, map, end > begin ? end : begin, padded_end);
    if (end <= begin)
        return;
    /* keep() sets bits one by one, so the masks start empty. */
    for (int w = 0; w < map->mask_words; w++)
        memset(map->plain.mask + (size_t)w * (size_t)map->to->rows_padded +
                   begin,
               0, 4 * (size_t)(end - begin));
    /* Rows of an inverse map do not ascend with the keys that they search for,
     * so each offset gets a binary search. */
    if (map->inverse) {
        for (int p = begin; p < end; p++)
            pairs += search_inverse(s, p);
    } else {
        find_own(s, begin, end);
        pairs = search_lines(s, begin, end);
    }
    /* Once a chunk, to keep the counter's cache line out of the loops. */
    __atomic_fetch_add(&s->pairs, pairs, __ATOMIC_RELAXED);
}

bool spc__host_search(spc_map *map, int64_t *pairs)
{
    spc__host_scratch *scratch = map->work;
    int rows = *map->to->count, each = spc__host_wide_rows(map);
    int chunks = (map->to->rows_padded + each - 1) / each;
    search s = {map, scratch->keys[0], rows, each, 0};
    bool done = spc__host_spread(map->ctx, chunks, search_chunk, &s);

    *pairs = s.pairs;
    return done;
}
