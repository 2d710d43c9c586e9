/*
 * index_host.c - the indexer of the cpu device: threaded C.
 *
 * The same steps as the templates': pack, radix sort, merge, z-delta search,
 * masks. Rows are worked on in chunks; within a chunk the keys that are looked
 * for along one line of the kernel ascend with the rows, so one binary search a
 * chunk and line is enough: after it the cursor only moves forward.
 */
#include "cancel.h"
#include "dtype.h"
#include "error.h"
#include "indexer.h"
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

extern const spc__regrouper spc__regrouper_host; /* regroup_host.c */
extern const spc__voxeliser spc__voxeliser_host;

/* What sorting works with. */
typedef struct scratch {
    uint64_t *keys[2]; /* ping-pong; also digests */
    int *rows[2];
    int *counts; /* [SORT_CHUNKS][DIGITS] */
} scratch;

/* Of a coordinate set. */
typedef struct set_work {
    scratch s;
    int32_t *proposed; /* of outputs: [capacity of the inputs * fan-out][4] */
} set_work;

static bool host_serves(const spc_ctx *ctx)
{
    return spc__device_ops_of(ctx->device)->builds_maps_on_host;
}

/* ---- memory ----------------------------------------------------------- */

static void scratch_release(scratch *s)
{
    for (int i = 0; i < 2; i++) {
        free(s->keys[i]);
        free(s->rows[i]);
    }
    free(s->counts);
}

static spc_status scratch_alloc(scratch *s, size_t rows, spc_error *error)
{
    bool all = true;

    for (int i = 0; i < 2 && all; i++) {
        s->keys[i] = malloc(rows * sizeof *s->keys[i]);
        s->rows[i] = malloc(rows * sizeof *s->rows[i]);
        all = s->keys[i] && s->rows[i];
    }
    if (all)
        all = (s->counts = malloc(sizeof(int) * SORT_CHUNKS * DIGITS)) != NULL;
    return all ? SPC_OK : spc__fail_memory(error, 24 * rows);
}

static void set_destroy(spc_coords *c)
{
    set_work *w = c->work;

    if (!w)
        return;
    scratch_release(&w->s);
    free(w->proposed);
    free(w);
    c->work = NULL;
}

/* Rows that are sorted: of a set of outputs all that are proposed. */
static size_t rows_sorted(const spc_coords *c)
{
    size_t rows = (size_t)c->rows_padded;
    size_t proposed = c->from ? (size_t)c->from->capacity *
                                    (size_t)spc__geometry_fan_out(&c->rule)
                              : 0;

    return rows > proposed ? rows : proposed;
}

static spc_status set_create(spc_coords *c, spc_error *error)
{
    set_work *w = c->work = calloc(1, sizeof *w);
    size_t rows = rows_sorted(c);

    if (!w)
        return spc__fail_memory(error, sizeof *w);
    if (c->from && !(w->proposed = malloc(16 * rows)))
        return spc__fail_memory(error, 16 * rows);
    return scratch_alloc(&w->s, rows, error);
}

static void map_destroy(spc_map *map)
{
    if (!map->work)
        return;
    scratch_release(map->work);
    free(map->work);
    map->work = NULL;
}

static spc_status map_create(spc_map *map, spc_error *error)
{
    scratch *s = map->work = calloc(1, sizeof *s);
    spc_status status;

    if (!s)
        return spc__fail_memory(error, sizeof *s);
    status = scratch_alloc(s, (size_t)map->to->rows_padded, error);
    /* Row orders are copied from the plain index. */
    return status == SPC_OK ? spc__map_index_alloc(&map->plain, map, error)
                            : status;
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
static bool spread(const spc_ctx *ctx, int chunks,
                   void (*body)(void *payload, int64_t i), void *payload)
{
    return spc__parallel_until(ctx->cancel, chunks, ctx->threads, body,
                               payload);
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

static bool run_pass(const spc_ctx *ctx, pass *p)
{
    int place = 0;

    if (!spread(ctx, p->chunks, count_chunk, p))
        return false;
    for (int d = 0; d < DIGITS; d++)
        for (int c = 0; c < p->chunks; c++) {
            int count = p->counts[c * DIGITS + d];
            p->counts[c * DIGITS + d] = place;
            place += count;
        }
    return spread(ctx, p->chunks, scatter_chunk, p);
}

static int pass_count(int bits)
{
    return (bits + DIGIT_BITS - 1) / DIGIT_BITS;
}

/* Sorts `rows` rows by `bits`-bit keys that are in keys[parity of the passes];
 * the result is in keys[0], order[0]. */
static bool sort(const spc_ctx *ctx, const scratch *s, uint64_t *keys[2],
                 int *order[2], int rows, int bits)
{
    int from = pass_count(bits) & 1;

    for (int shift = 0; shift < bits; shift += DIGIT_BITS, from ^= 1) {
        pass p = {
            .from_keys = keys[from],
            .from_rows = order[from],
            .to_keys = keys[from ^ 1],
            .to_rows = order[from ^ 1],
            .counts = s->counts,
            .rows = rows,
            .chunks = at_most(chunk_count(rows), SORT_CHUNKS),
            .shift = shift,
        };
        if (!run_pass(ctx, &p))
            return false;
    }
    return true;
}

/* ---- building a set --------------------------------------------------- */

typedef struct build {
    spc_coords *c;
    const int32_t *coords;
    uint64_t *keys; /* where packing writes */
    int *rows;
    int count;
} build;

static void note_least(int32_t *first, int row)
{
    int32_t seen = __atomic_load_n(first, __ATOMIC_RELAXED);

    while (row < seen &&
           !__atomic_compare_exchange_n(first, &seen, row, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* The key of a row; above all others for one out of range. */
static uint64_t pack_row(const build *b, int row)
{
    const spc_index_key *layout = &b->c->key;
    uint64_t key = 0;
    bool outside = false;

    for (int i = 0; i < 4; i++) {
        uint32_t value = (uint32_t)b->coords[4 * (size_t)row + (size_t)i] -
                         (uint32_t)layout->low[i];
        if (value > layout->last[i]) {
            note_least(&b->c->stats[SPC_INDEX_BAD_ROW + i], row);
            outside = true;
        }
        key |= ((uint64_t)value + layout->before[i]) << layout->shift[i];
    }
    if (outside)
        __atomic_fetch_add(&b->c->stats[SPC_INDEX_BAD_ROWS], 1,
                           __ATOMIC_RELAXED);
    return outside ? layout->none : key;
}

static void pack_chunk(void *payload, int64_t chunk)
{
    const build *b = payload;
    int begin = (int)chunk * CHUNK_ROWS;
    int end = at_most(begin + CHUNK_ROWS, b->count);

    for (int row = begin; row < end; row++) {
        b->keys[row] = pack_row(b, row);
        b->rows[row] = row;
    }
}

static void clear_stats(spc_coords *c, int rows)
{
    memset(c->stats, 0, 4 * SPC_INDEX_STATS);
    for (int i = 0; i < 4; i++)
        c->stats[SPC_INDEX_BAD_ROW + i] = SPC_INDEX_NO_ROW;
    c->stats[SPC_INDEX_DUPLICATE_ROW] = SPC_INDEX_NO_ROW;
    c->stats[SPC_INDEX_ROWS] = rows;
}

/* Keeps the first of equal keys; returns how many are left. */
static int merge_rows(spc_coords *c, uint64_t *keys, int *order, int rows)
{
    int kept = 0;

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

/* Sorts what is proposed, or given, in the scratch, and keeps what fits. */
static bool sort_rows(spc_coords *c, const int32_t *coords, int rows, int *kept)
{
    const set_work *w = c->work;
    int first = pass_count(c->key.bits) & 1;
    uint64_t *keys[2] = {w->s.keys[0], w->s.keys[1]};
    int *order[2] = {w->s.rows[0], w->s.rows[1]};
    build b = {c, coords, keys[first], order[first], rows};

    if (!spread(c->ctx, chunk_count(rows), pack_chunk, &b) ||
        !sort(c->ctx, &w->s, keys, order, rows, c->key.bits))
        return false;
    *kept =
        merge_rows(c, keys[0], order[0], rows - c->stats[SPC_INDEX_BAD_ROWS]);
    return true;
}

static void unpack(int32_t out[4], const spc_index_key *layout, uint64_t key)
{
    for (int i = 0; i < 4; i++)
        out[i] =
            (int32_t)(((uint32_t)(key >> layout->shift[i]) & layout->wide[i]) -
                      layout->before[i] + (uint32_t)layout->low[i]);
}

/* From the scratch to the set. */
static void finish_set(spc_coords *c, int rows)
{
    const set_work *w = c->work;
    size_t left = (size_t)(c->rows_padded - rows);

    memcpy(c->keys, w->s.keys[0], 8 * (size_t)rows);
    memcpy(c->order, w->s.rows[0], 4 * (size_t)rows);
    memset(c->order + rows, 0xff, 4 * left);
    for (int p = 0; p < rows && c->from; p++) {
        c->order[p] = p;
        unpack(c->data + 4 * (size_t)p, &c->key, w->s.keys[0][p]);
    }
    *c->count = rows;
}

static spc_status set_build(spc_coords *c, const spc__source *source,
                            void *stream, spc_error *error)
{
    int rows = source->count ? *source->count : source->rows, kept = 0;

    (void)stream;
    clear_stats(c, rows);
    if (rows < 0 || rows > c->capacity)
        rows = 0;
    if (!sort_rows(c, source->coords, rows, &kept))
        return spc__interrupted(error);
    finish_set(c, kept);
    return SPC_OK;
}

/* ---- outputs ---------------------------------------------------------- */

/* The outputs on an axis that see coordinate i; returns how many. */
static int outputs_of(int *out, const spc_geometry *g, int axis, int64_t i)
{
    int64_t s = g->stride[axis], bound = spc__geometry_out_shape(g, axis);
    int count = 0;

    if (g->rule == SPC_RULE_FLOOR) {
        out[0] = (int)spc__floor_div(i, s);
        return 1;
    }
    if (g->rule == SPC_RULE_GENERATIVE) {
        for (; count < g->kernel[axis]; count++)
            out[count] = (int)(i * s + spc__geometry_origin(g, axis) +
                               g->dilation[axis] * count);
        return count;
    }
    for (int place = 0; place < g->kernel[axis]; place++) {
        int64_t at = i + g->padding[axis] - (int64_t)g->dilation[axis] * place;
        int64_t o = spc__floor_div(at, s);
        if (o * s == at && (bound == 0 || (o >= 0 && o < bound)))
            out[count++] = (int)o;
    }
    return count;
}

static int propose(int32_t *to, const spc_geometry *g, const int32_t c[4])
{
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

static spc_status set_derive(spc_coords *c, void *stream, spc_error *error)
{
    const set_work *w = c->work;
    const spc_coords *in = c->from;
    const uint64_t *keys = in->keys;
    int proposed = 0, kept = 0;

    (void)stream;
    for (int p = 0; p < *in->count; p++) {
        int32_t voxel[4];
        unpack(voxel, &in->key, keys[p]);
        proposed +=
            propose(w->proposed + 4 * (size_t)proposed, &c->rule, voxel);
    }
    clear_stats(c, 0);
    if (!sort_rows(c, w->proposed, proposed, &kept))
        return spc__interrupted(error);
    clear_stats(c, kept);
    finish_set(c, kept <= c->capacity ? kept : 0);
    return SPC_OK;
}

/* ---- merging features ------------------------------------------------- */

/* One row's features are decoded, added up, encoded: any type of the table. */
typedef struct merging {
    const spc_coords *c;
    const spc__dtype *type;
    char *features;
    size_t width;
    float *sum, *row;
} merging;

static void add_row(const merging *m, int row)
{
    m->type->decode(m->row,
                    m->features + (size_t)row * m->width * m->type->bytes,
                    m->width);
    for (size_t i = 0; i < m->width; i++)
        m->sum[i] += m->row[i];
}

static void merge_voxel(const merging *m, int begin, int end)
{
    const int *rows = m->c->twins;
    bool mean = m->c->duplicates == SPC_DUPLICATES_MEAN;

    memset(m->sum, 0, m->width * sizeof *m->sum);
    for (int i = begin; i < end; i++)
        add_row(m, rows[i]);
    for (size_t i = 0; i < m->width && mean; i++)
        m->sum[i] /= (float)(end - begin);
    m->type->encode(m->features +
                        (size_t)rows[begin] * m->width * m->type->bytes,
                    m->sum, m->width);
}

static spc_status set_merge(const spc_coords *c, void *features,
                            spc_dtype dtype, int channels, void *stream,
                            spc_error *error)
{
    size_t width = (size_t)channels;
    float *room = malloc(2 * width * sizeof *room);
    merging m = {c,    spc__dtype_of(dtype),      features, width,
                 room, room ? room + width : NULL};

    (void)stream;
    if (!room)
        return spc__fail_memory(error, 2 * width * sizeof *room);
    for (int p = 0; p < *c->count; p++)
        if (c->twin_begin[p + 1] - c->twin_begin[p] > 1)
            merge_voxel(&m, c->twin_begin[p], c->twin_begin[p + 1]);
    free(room);
    return SPC_OK;
}

/* ---- searching -------------------------------------------------------- */

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

/* The key in a set of coordinates that need not be a voxel of it, but lie
 * within its guard bands. */
static uint64_t key_near(const spc_index_key *layout, const int64_t c[4])
{
    uint64_t key = 0;

    for (int i = 0; i < 4; i++)
        key += (uint64_t)(c[i] - layout->low[i] + layout->before[i])
               << layout->shift[i];
    return key;
}

/* Offsets that follow one another along z: keys `step` apart. */
typedef struct line {
    int first, length;
    uint64_t delta, step;
} line;

typedef struct search {
    spc_map *map;
    uint64_t *own; /* of each row, among the keys that are searched */
    int rows;
    int64_t pairs;
} search;

static uint64_t key_of_step(const spc_index_key *layout, const int voxels[3])
{
    uint64_t key = 0;

    for (int i = 0; i < 3; i++)
        key += (uint64_t)(int64_t)voxels[i] << layout->shift[1 + i];
    return key;
}

static line line_at(const spc_map *map, int number)
{
    const spc_geometry *g = &map->geometry;
    const spc_index_key *layout = &map->in->key;
    int length = g->offset_count > 0 ? 1 : g->kernel[2], at[3];
    int step[3] = {0, 0, g->dilation[2]};

    spc_geometry_offset(at, g, number * length);
    return (line){number * length, length, key_of_step(layout, at),
                  key_of_step(layout, step)};
}

static void keep(const spc_map *map, int k, int p, int at)
{
    size_t padded = (size_t)map->to->rows_padded;

    map->plain.index[(size_t)k * padded + (size_t)p] =
        at >= 0 ? map->in->order[at] : -1;
    if (at >= 0)
        map->plain.mask[(size_t)(k / 32) * padded + (size_t)p] |= 1u << k % 32;
}

/* Fills the entries of one line for rows begin..end; returns how many are
 * present. */
static int64_t search_line(const search *s, const line *l, int begin, int end)
{
    const spc_map *map = s->map;
    const uint64_t *keys = map->in->keys;
    int rows = *map->in->count;
    int cursor = lower_bound(keys, rows, s->own[begin] + l->delta);
    int64_t pairs = 0;

    for (int p = begin; p < end; p++) {
        uint64_t want = s->own[p] + l->delta;
        while (cursor < rows && keys[cursor] < want)
            cursor++;
        int at = cursor; /* the walk along z */
        for (int i = 0; i < l->length; i++, want += l->step) {
            while (at < rows && keys[at] < want)
                at++;
            bool there = at < rows && keys[at] == want;
            keep(map, l->first + i, p, there ? at : -1);
            pairs += there;
        }
    }
    return pairs;
}

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

static bool is_inside(const spc_index_key *layout, const int64_t c[4])
{
    for (int i = 0; i < 4; i++)
        if (c[i] < layout->low[i] || c[i] - layout->low[i] > layout->last[i])
            return false;
    return true;
}

/* The inputs of one output of an inverse map: those outputs of the geometry
 * that see it. */
static int64_t search_inverse(const search *s, int p)
{
    const spc_map *map = s->map;
    const spc_geometry *g = &map->geometry;
    const uint64_t *keys = map->in->keys;
    int32_t voxel[4];
    int64_t pairs = 0;

    unpack(voxel, &map->to->key, ((const uint64_t *)map->to->keys)[p]);
    for (int k = 0; k < map->offsets; k++) {
        int64_t c[4] = {voxel[0]};
        int at[3], place = -1;
        bool whole = true;
        spc_geometry_offset(at, g, k);
        for (int i = 0; i < 3; i++) {
            int64_t value = (int64_t)voxel[1 + i] - at[i];
            c[1 + i] = spc__floor_div(value, g->stride[i]);
            whole &= c[1 + i] * g->stride[i] == value;
        }
        if (whole &&
            (!spc__geometry_is_bounded(g) || is_inside(&map->in->key, c))) {
            uint64_t want = key_near(&map->in->key, c);
            place = lower_bound(keys, *map->in->count, want);
            if (place == *map->in->count || keys[place] != want)
                place = -1;
        }
        keep(map, k, p, place);
        pairs += place >= 0;
    }
    return pairs;
}

/* Row order, masks and index of positions past the rows. */
static void pad_chunk(const spc__map_layout *layout, const spc_map *map,
                      int begin, int end)
{
    size_t padded = (size_t)map->to->rows_padded, first = (size_t)begin;
    size_t count = end > begin ? (size_t)(end - begin) : 0;
    int end_offset = layout->sorted ? layout->end : map->offsets;

    if (count == 0)
        return;
    memset(layout->order + first, 0xff, 4 * count);
    for (int k = layout->begin; k < end_offset; k++)
        memset(layout->index + (size_t)k * padded + first, 0xff, 4 * count);
    for (int w = 0; w < map->mask_words; w++)
        memset(layout->mask + (size_t)w * padded + first, 0, 4 * count);
}

/* A window that misses the extent of the set is moved to where it just misses
 * it: keys stay inside the guard bands, and ascend as far as it matters. */
static void move_into_guard(int64_t c[4], const spc_index_key *layout,
                            const int64_t low[3], const int64_t high[3])
{
    int64_t batch = c[0] - layout->low[0];

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

/* The rows' own keys among those that are searched: of output * stride. */
static void find_own(const search *s, int begin, int end)
{
    const spc_map *map = s->map;
    const uint64_t *keys = map->to->keys;
    bool given = map->geometry.rule == SPC_RULE_GIVEN;
    int64_t low[3], high[3];

    spc__geometry_span(low, high, &map->geometry);
    for (int p = begin; p < end; p++) {
        int32_t voxel[4];
        int64_t c[4];
        if (map->to == map->in && !given) {
            s->own[p] = keys[p];
            continue;
        }
        unpack(voxel, &map->to->key, keys[p]);
        c[0] = voxel[0];
        for (int i = 0; i < 3; i++)
            c[1 + i] = (int64_t)voxel[1 + i] * map->geometry.stride[i];
        if (given)
            move_into_guard(c, &map->in->key, low, high);
        s->own[p] = key_near(&map->in->key, c);
    }
}

static void search_chunk(void *payload, int64_t chunk)
{
    search *s = payload;
    spc_map *map = s->map;
    int begin = (int)chunk * CHUNK_ROWS;
    int padded_end = at_most(begin + CHUNK_ROWS, map->to->rows_padded);
    int end = at_most(padded_end, s->rows);
    int64_t pairs = 0;

    pad_chunk(&map->plain, map, end > begin ? end : begin, padded_end);
    if (end <= begin)
        return;
    for (int w = 0; w < map->mask_words; w++)
        memset(map->plain.mask + (size_t)w * (size_t)map->to->rows_padded +
                   begin,
               0, 4 * (size_t)(end - begin));
    if (map->inverse) {
        for (int p = begin; p < end; p++)
            pairs += search_inverse(s, p);
    } else {
        find_own(s, begin, end);
        pairs = search_lines(s, begin, end);
    }
    __atomic_fetch_add(&s->pairs, pairs, __ATOMIC_RELAXED);
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

static uint32_t word_at(const spc_map *map, int w, int p)
{
    return map->plain
        .mask[(size_t)w * (size_t)map->to->rows_padded + (size_t)p];
}

static uint32_t digest_by_gray(const ordering *o, int p)
{
    uint32_t digest = 0;

    for (int w = 0; w < o->map->mask_words; w++)
        for (uint32_t mask = word_at(o->map, w, p); mask; mask &= mask - 1)
            digest |= o->bit_of[32 * w + __builtin_ctz(mask)];
    return gray_rank(digest);
}

static uint32_t digest_by_count(const ordering *o, int p)
{
    int count = 0;

    for (int w = 0; w < o->map->mask_words; w++)
        count += __builtin_popcount(word_at(o->map, w, p));
    return (uint32_t)(o->map->offsets - count);
}

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

static void digest_chunk(void *payload, int64_t chunk)
{
    const ordering *o = payload;
    int begin = (int)chunk * CHUNK_ROWS;
    int end = at_most(begin + CHUNK_ROWS, *o->map->to->count);

    for (int p = begin; p < end; p++) {
        o->digests[p] = digest_of(o, p);
        o->positions[p] = p;
    }
}

/* The offsets of word w of a mask that a layout has. */
static uint32_t layout_word(const spc__map_layout *layout, int w)
{
    int64_t begin = layout->begin - 32 * w, end = layout->end - 32 * w;
    uint64_t below = end > 0 ? ((uint64_t)1 << (end < 32 ? end : 32)) - 1 : 0;

    return begin >= 32
               ? 0
               : (uint32_t)(below & ~(uint64_t)0 << (begin > 0 ? begin : 0));
}

static void permute_chunk(void *payload, int64_t chunk)
{
    const ordering *o = payload;
    const spc_map *map = o->map;
    const spc__map_layout *from = &map->plain, *to = o->layout;
    size_t padded = (size_t)map->to->rows_padded;
    int begin = (int)chunk * CHUNK_ROWS;
    int padded_end = at_most(begin + CHUNK_ROWS, map->to->rows_padded);
    int end = at_most(padded_end, *map->to->count);

    pad_chunk(to, map, end > begin ? end : begin, padded_end);
    for (int p = begin; p < end; p++)
        to->order[p] = from->order[o->sorted[p]];
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
    int count;
    int *cost;
} tiling;

static uint32_t tile_word(const tiling *t, int tile, int word)
{
    const unsigned *mask = t->layout->mask +
                           (size_t)word * (size_t)t->map->to->rows_padded +
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
            t->tiles->mask[(size_t)w * (size_t)t->tiles->capacity + (size_t)i] =
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

/* Of a group of offsets: tiles without any are the last, and not there. */
static int tiles_of_group(const tiling *t)
{
    int some = 0;

    for (int tile = 0; tile < t->count; tile++)
        some += t->cost[tile] > 0;
    return some;
}

/* Entries past the last tile: kernels end there. */
static void clear_tiles(const tiling *t)
{
    size_t left = (size_t)(t->tiles->capacity - t->count);

    memset(t->tiles->order + t->count, 0xff, 4 * left);
    for (int w = 0; w < t->map->mask_words; w++)
        memset(t->tiles->mask + (size_t)w * (size_t)t->tiles->capacity +
                   t->count,
               0, 4 * left);
}

static spc_status host_tile(const spc_map *map, const spc__map_layout *layout,
                            const spc__map_tiles *tiles, void *stream,
                            spc_error *error)
{
    int count = (*map->to->count + tiles->rows - 1) / tiles->rows;
    tiling t = {map, layout, tiles, count, ((scratch *)map->work)->rows[0]};

    (void)stream;
    if (!spread(map->ctx, tile_chunk_count(t.count), cost_chunk, &t))
        return spc__interrupted(error);
    sort_tiles(&t);
    if (layout->sorted && layout->groups > 1)
        t.count = tiles_of_group(&t);
    if (!spread(map->ctx, tile_chunk_count(t.count), mask_chunk, &t))
        return spc__interrupted(error);
    clear_tiles(&t);
    return SPC_OK;
}

static spc_status host_fill(const spc_map *map, const spc__map_layout *layout,
                            void *stream, spc_error *error)
{
    const scratch *s = map->work;
    int first = pass_count(layout->bits) & 1, rows = *map->to->count;
    uint64_t *keys[2] = {s->keys[0], s->keys[1]};
    int *order[2] = {s->rows[0], s->rows[1]};
    ordering o = {
        map,       layout, s->keys[first], s->rows[first], layout->bit_of,
        s->rows[0]};

    if (!layout->sorted)
        return SPC_OK; /* building fills it */
    if (!spread(map->ctx, chunk_count(rows), digest_chunk, &o) ||
        !sort(map->ctx, s, keys, order, rows, layout->bits) ||
        !spread(map->ctx, chunk_count(map->to->rows_padded), permute_chunk, &o))
        return spc__interrupted(error);
    if (layout->tiles)
        return host_tile(map, layout, layout->tiles, stream, error);
    return SPC_OK;
}

static spc_status map_build(spc_map *map, const spc__source *source,
                            const spc__map_layout *sorted, void *stream,
                            spc_error *error)
{
    search s = {map, ((scratch *)map->work)->keys[0], 0, 0};

    if (source) {
        spc_status status = set_build(map->to, source, stream, error);
        if (status != SPC_OK)
            return status;
    }
    s.rows = *map->to->count;
    if (!spread(map->ctx, chunk_count(map->to->rows_padded), search_chunk, &s))
        return spc__interrupted(error);
    map->pairs = s.pairs;
    return sorted ? host_fill(map, sorted, stream, error) : SPC_OK;
}

/* ---- pairs by offset -------------------------------------------------- */

typedef struct listing {
    const spc_map *map;
    const spc__map_pairs *pairs;
} listing;

static spc_status order_create(spc_map *map, const spc__map_layout *layout,
                               spc_error *error)
{
    (void)map;
    (void)layout;
    (void)error;
    return SPC_OK; /* there is nothing to prepare */
}

static spc_status list_create(spc_map *map, spc_error *error)
{
    (void)map;
    (void)error;
    return SPC_OK; /* the index is there, and no more is needed */
}

static const int *inputs_at(const spc_map *map, int64_t k)
{
    return map->plain.index + (size_t)k * (size_t)map->to->rows_padded;
}

/* An offset's pairs, counted where the next one will begin. */
static void count_offset(void *payload, int64_t k)
{
    const listing *l = payload;
    const int *in = inputs_at(l->map, k);
    int rows = *l->map->to->count, count = 0;

    for (int p = 0; p < rows; p++)
        count += in[p] >= 0;
    l->pairs->begin[k + 1] = count;
}

/* The offsets before `k` that the row at position p has. */
static int count_below(const spc_map *map, int64_t k, int p)
{
    size_t padded = (size_t)map->to->rows_padded;
    const unsigned *mask = map->plain.mask + p;
    int count = 0;

    for (int64_t w = 0; w < k / 32; w++)
        count += __builtin_popcount(mask[(size_t)w * padded]);
    if (k % 32 != 0)
        count += __builtin_popcount(mask[(size_t)(k / 32) * padded] &
                                    ((1u << k % 32) - 1u));
    return count;
}

static void place_rows(const listing *l)
{
    int next = 0;

    for (int p = 0; p < *l->map->to->count; p++) {
        l->pairs->first[l->map->plain.order[p]] = next;
        next += count_below(l->map, l->map->offsets, p);
    }
}

static void list_offset(void *payload, int64_t k)
{
    const listing *l = payload;
    const int *in = inputs_at(l->map, k);
    int rows = *l->map->to->count, at = l->pairs->begin[k];

    for (int p = 0; p < rows; p++)
        if (in[p] >= 0) {
            int row = l->map->plain.order[p];
            l->pairs->in[at] = in[p];
            l->pairs->out[at] = row;
            l->pairs->place[at++] =
                l->pairs->first[row] + count_below(l->map, k, p);
        }
}

static spc_status host_list(const spc_map *map, const spc__map_pairs *pairs,
                            void *stream, spc_error *error)
{
    listing l = {map, pairs};

    (void)stream;
    if (!spread(map->ctx, map->offsets, count_offset, &l))
        return spc__interrupted(error);
    pairs->begin[0] = 0;
    for (int k = 0; k < map->offsets; k++)
        pairs->begin[k + 1] += pairs->begin[k];
    place_rows(&l);
    return spread(map->ctx, map->offsets, list_offset, &l)
               ? SPC_OK
               : spc__interrupted(error);
}

/* Known since the build: nothing here runs later than it is asked for. */
static spc_status map_pairs(const spc_map *map, int64_t *out, void *stream,
                            spc_error *error)
{
    (void)stream;
    (void)error;
    *out = map->pairs;
    return SPC_OK;
}

const spc__indexer spc__indexer_host = {
    .name = "host",
    .serves = host_serves,
    .set_create = set_create,
    .set_destroy = set_destroy,
    .set_build = set_build,
    .set_derive = set_derive,
    .set_merge = set_merge,
    .map_create = map_create,
    .map_destroy = map_destroy,
    .map_build = map_build,
    .order_create = order_create,
    .fill = host_fill,
    .tile = host_tile,
    .list_create = list_create,
    .list = host_list,
    .pairs = map_pairs,
    .regrouper = &spc__regrouper_host,
    .voxeliser = &spc__voxeliser_host,
};
