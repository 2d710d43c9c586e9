/*
 * points_host.c - the steps of points on the cpu device, in threaded C.
 *
 * Each does what the kernel of its arguments does (points.cu.lua), and gives
 * the same bits: nothing here is fused. Keys of cells are u64 on this device.
 */
#include "coords/points/points_steps.h"

#include "base/parallel.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256 };

static int chunks_of(int n)
{
    return (n + CHUNK - 1) / CHUNK;
}

static int chunk_end(int64_t chunk, int n)
{
    int64_t end = (chunk + 1) * CHUNK;

    return end < n ? (int)end : n;
}

/* ---- clouds -------------------------------------------------------------- */

/* Rows in turn: the first that is wrong is the one that is noted. */
static void note_bad(const spc_place_args *a, int field, int row)
{
    int *noted = &a->stats[SPC_POINTS_BAD_ROW + field];

    if (*noted == 0)
        *noted = SPC_INDEX_NO_ROW - row;
}

static bool check_point(const spc_place_args *a, const float *p, int batch,
                        int row)
{
    bool inside = batch >= 0 && batch < a->batches;

    if (!inside)
        note_bad(a, 3, row);
    for (int i = 0; i < 3; i++)
        if (!(p[i] >= a->low[i] && p[i] <= a->high[i])) {
            inside = false;
            note_bad(a, i, row);
        }
    a->stats[SPC_POINTS_BAD_ROWS] += !inside;
    return inside;
}

static void place(const spc_ctx *ctx, const void *args)
{
    const spc_place_args *a = args;
    int asked = a->source ? *a->source : a->rows;
    int rows = asked < 0 || asked > a->to.capacity ? 0 : asked;

    (void)ctx;
    *a->to.count = rows;
    a->stats[SPC_POINTS_ROWS] = asked;
    for (int row = 0; row < rows; row++) {
        const int *step = a->steps ? a->steps + 4 * (size_t)row : NULL;
        int batch = step ? step[0] : a->batch ? a->batch[row] : 0;
        float *to = a->to.at + 4 * (size_t)row;
        for (int i = 0; i < 3; i++)
            to[i] = step ? (float)step[1 + i] * SPC_POINTS_STEP
                         : a->xyz[3 * (size_t)row + (size_t)i];
        if (!check_point(a, to, batch, row))
            batch = -1;
        memcpy(to + 3, &batch, sizeof batch);
    }
}

static void pick(const spc_ctx *ctx, const void *args)
{
    const spc_place_args *a = args;
    int asked = *a->source, rows = asked > a->to.capacity ? 0 : asked;

    (void)ctx;
    *a->to.count = rows;
    a->stats[SPC_POINTS_ROWS] = asked;
    for (int row = 0; row < rows; row++) {
        a->sources[row] = a->picked[row];
        memcpy(a->to.at + 4 * (size_t)row, a->from + 4 * (size_t)a->picked[row],
               16);
    }
}

static int floor_of(float v)
{
    int whole = (int)v;

    return whole - (v < (float)whole);
}

static void find_cells(const spc_ctx *ctx, const void *args)
{
    const spc_cells_args *a = args;
    int rows = *a->of.count;

    (void)ctx;
    for (int row = 0; row < rows; row++) {
        const float *p = a->of.at + 4 * (size_t)row;
        int *c = a->coords + 4 * (size_t)row;
        memcpy(c, p + 3, sizeof *c);
        for (int i = 0; i < 3; i++)
            c[1 + i] = c[0] >= 0 ? floor_of(p[i] * a->inverse) : 0;
    }
}

static void sort_points(const spc_ctx *ctx, const void *args)
{
    const spc_sort_points_args *a = args;
    int cells = *a->to.cells;

    (void)ctx;
    memcpy(a->to.begin, a->twin_begin, 4 * ((size_t)cells + 1));
    for (int i = 0; i < a->to.begin[cells]; i++) {
        float *to = a->to.points + 4 * (size_t)i;
        memcpy(to, a->of.at + 4 * (size_t)a->twins[i], 12);
        memcpy(to + 3, &a->twins[i], 4);
    }
}

/* ---- looking about an output --------------------------------------------- */

typedef struct query {
    const spc_radius_args *a;
    float at[3];
    int row, batch, position;
    int low[3], high[3]; /* cells */
    float limit;         /* with `nearest`: squares below it count, */
    int ties;            /* and so many that are equal */
} query;

static uint64_t key_of(const spc_radius_args *a, int batch, int x, int y, int z)
{
    const spc_index_key *layout = &a->key;
    const int c[4] = {batch, x, y, z};
    uint64_t key = 0;

    for (int i = 0; i < 4; i++)
        key += ((uint64_t)((unsigned)c[i] - (unsigned)layout->low[i]) +
                layout->before[i])
               << layout->shift[i];
    return key;
}

static int find_cell(const spc_radius_args *a, uint64_t key)
{
    const uint64_t *keys = a->in.keys;
    int low = 0, high = *a->in.cells;

    while (low < high) {
        int middle = low + (high - low) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* False where nothing can be near. */
static bool clip(query *q)
{
    const spc_radius_args *a = q->a;

    for (int i = 0; i < 3; i++) {
        int first = a->key.low[1 + i];
        int last = (int)((unsigned)first + a->key.last[1 + i]);
        q->low[i] = floor_of((q->at[i] - a->reach) * a->inverse);
        q->high[i] = floor_of((q->at[i] + a->reach) * a->inverse);
        q->low[i] = q->low[i] < first ? first : q->low[i];
        q->high[i] = q->high[i] > last ? last : q->high[i];
        if (q->low[i] > q->high[i])
            return false;
    }
    return q->batch >= a->key.low[0] &&
           (unsigned)(q->batch - a->key.low[0]) <= a->key.last[0];
}

static bool ask(query *q, const spc_radius_args *a, int position)
{
    const float *p = a->out.points + 4 * (size_t)position;

    q->a = a;
    q->position = position;
    memcpy(q->at, p, sizeof q->at);
    memcpy(&q->row, p + 3, sizeof q->row);
    memcpy(&q->batch, a->out_at + 4 * (size_t)q->row + 3, sizeof q->batch);
    q->limit = INFINITY;
    q->ties = 0;
    return clip(q);
}

/* A point that is seen, and its place among the sorted ones. */
typedef struct seen {
    int row, k, place;
    float square;
} seen;

typedef void visitor(query *q, const seen *s, void *payload);

static int cell_along(const spc_radius_args *a, int axis, float d)
{
    float scaled = (a->backwards ? -d : d) * a->scale[axis];
    int cell = floor_of(scaled + a->half[axis]);

    return cell < 0 ? 0 : cell < a->kernel[axis] ? cell : a->kernel[axis] - 1;
}

/* Does the query's point count for the one that was found? */
static bool counts_there(const query *q, const seen *s)
{
    const unsigned *last = q->a->limits + 2 * (size_t)s->row;
    unsigned square;

    memcpy(&square, &s->square, sizeof square); /* in the order of numbers */
    return square < last[0] ||
           (square == last[0] && q->position <= (int)last[1]);
}

static void look(query *q, const float *p, visitor *visit, void *payload)
{
    const spc_radius_args *a = q->a;
    float dx = p[0] - q->at[0], dy = p[1] - q->at[1], dz = p[2] - q->at[2];
    float xx = dx * dx, yy = dy * dy, zz = dz * dz;
    float xy = xx + yy;
    seen s = {.square = xy + zz};

    if (!(s.square <= a->square))
        return;
    memcpy(&s.row, p + 3, sizeof s.row);
    s.place = (int)((p - a->in.points) / 4);
    if (a->backwards && a->limits && !counts_there(q, &s))
        return;
    s.k = (cell_along(a, 0, dx) * a->kernel[1] + cell_along(a, 1, dy)) *
              a->kernel[2] +
          cell_along(a, 2, dz);
    visit(q, &s, payload);
}

static void visit_column(query *q, int x, int y, visitor *visit, void *payload)
{
    const spc_radius_args *a = q->a;
    const uint64_t *keys = a->in.keys;
    uint64_t last = key_of(a, q->batch, x, y, q->high[2]);
    int cells = *a->in.cells;

    for (int c = find_cell(a, key_of(a, q->batch, x, y, q->low[2]));
         c < cells && keys[c] <= last; c++)
        for (int i = a->in.begin[c]; i < a->in.begin[c + 1]; i++)
            look(q, a->in.points + 4 * (size_t)i, visit, payload);
}

static void visit_all(query *q, visitor *visit, void *payload)
{
    for (int x = q->low[0]; x <= q->high[0]; x++)
        for (int y = q->low[1]; y <= q->high[1]; y++)
            visit_column(q, x, y, visit, payload);
}

static void count_one(query *q, const seen *s, void *payload)
{
    (void)q;
    (void)s;
    ++*(int *)payload;
}

/* ---- counting ------------------------------------------------------------ */

static void count_chunk(void *payload, int64_t chunk)
{
    const spc_radius_args *a = payload;
    int outputs = a->out.begin[*a->out.cells];

    for (int p = (int)chunk * CHUNK; p < chunk_end(chunk, a->rows_padded);
         p++) {
        int count = 0;
        query q = {.row = -1};
        if (p < outputs && ask(&q, a, p))
            visit_all(&q, count_one, &count);
        a->order[p] = q.row;
        a->first[p] = a->nearest > 0 && count > a->nearest ? a->nearest : count;
    }
}

static void count_all(const spc_ctx *ctx, const void *args)
{
    const spc_radius_args *a = args;

    spc__parallel_for(chunks_of(a->rows_padded), ctx->threads, count_chunk,
                      (void *)(uintptr_t)a);
}

/* Where the triplets of each position begin. Of too many none is held. */
static void sum(const spc_radius_args *a)
{
    int64_t all = 0;

    for (int p = 0; p < a->rows_padded; p++)
        all += a->first[p];
    a->total[0] = all < SPC_INDEX_NO_ROW ? (int)all : SPC_INDEX_NO_ROW;
    a->total[1] = all <= a->capacity ? (int)all : 0;
    int before = 0, fits = a->total[0] == a->total[1];
    for (int p = 0; p < a->rows_padded; p++) {
        int own = fits ? a->first[p] : 0;
        a->first[p] = before;
        before += own;
    }
    a->first[a->rows_padded] = before;
}

/* ---- writing ------------------------------------------------------------- */

/* What is seen of one output, in the order of the search. */
typedef struct collected {
    seen *at;
    int count;
} collected;

static void collect(query *q, const seen *s, void *payload)
{
    collected *c = payload;

    (void)q;
    c->at[c->count++] = *s;
}

static int compare_squares(const void *a, const void *b)
{
    float left = *(const float *)a, right = *(const float *)b;

    return (left > right) - (left < right);
}

/* The square of the last that counts, and how many equal ones do. */
static void keep_nearest(query *q, const collected *c, float *squares)
{
    int nearest = q->a->nearest, below = 0;

    if (nearest == 0 || c->count <= nearest)
        return;
    for (int i = 0; i < c->count; i++)
        squares[i] = c->at[i].square;
    qsort(squares, (size_t)c->count, sizeof *squares, compare_squares);
    q->limit = squares[nearest - 1];
    while (squares[below] < q->limit)
        below++;
    q->ties = nearest - below;
}

static bool counts(query *q, const seen *s)
{
    return s->square < q->limit || (s->square == q->limit && q->ties-- > 0);
}

/* Stable by offset. */
static void write_sorted(query *q, const collected *c, int *list, int *places)
{
    const int *kernel = q->a->kernel;
    int offsets = kernel[0] * kernel[1] * kernel[2], kept = 0, place_of = 0;

    memset(places, 0, sizeof *places * (size_t)offsets);
    for (int i = 0; i < c->count; i++)
        if (counts(q, &c->at[i])) {
            c->at[kept] = c->at[i];
            places[c->at[kept++].k]++;
        }
    for (int k = 0; k < offsets; k++) {
        int own = places[k];
        places[k] = place_of;
        place_of += own;
    }
    for (int i = 0; i < kept; i++) {
        int *to = list + 2 * (size_t)places[c->at[i].k]++;
        to[0] = c->at[i].row;
        to[1] = c->at[i].k;
    }
}

/* ---- limits -------------------------------------------------------------- */

/* The last that counts for an output: without limit, if all do. */
static void find_limit(const spc_radius_args *a, query *q, collected *c,
                       float *squares)
{
    unsigned *last = a->limits + 2 * (size_t)q->row;

    keep_nearest(q, c, squares);
    last[0] = UINT_MAX;
    last[1] = INT_MAX;
    if (q->limit == INFINITY)
        return;
    memcpy(last, &q->limit, sizeof q->limit);
    for (int i = 0; i < c->count && q->ties > 0; i++)
        if (c->at[i].square == q->limit) {
            last[1] = (unsigned)c->at[i].place;
            q->ties--;
        }
}

/* Without memory nobody counts for it. */
static void limit_output(const spc_radius_args *a, int position)
{
    query q;
    int count = 0;
    bool some = ask(&q, a, position);

    if (some)
        visit_all(&q, count_one, &count);
    collected c = {malloc(((size_t)count + 1) * sizeof *c.at), 0};
    float *squares = malloc(((size_t)count + 1) * sizeof *squares);
    if (c.at && squares) {
        if (some)
            visit_all(&q, collect, &c);
        find_limit(a, &q, &c, squares);
    } else {
        memset(a->limits + 2 * (size_t)q.row, 0, 8);
    }
    free(c.at);
    free(squares);
}

static void limit_chunk(void *payload, int64_t chunk)
{
    const spc_radius_args *a = payload;
    int outputs = a->out.begin[*a->out.cells];

    for (int p = (int)chunk * CHUNK; p < chunk_end(chunk, outputs); p++)
        limit_output(a, p);
}

static void limit_all(const spc_ctx *ctx, const void *args)
{
    const spc_radius_args *a = args;

    spc__parallel_for(chunks_of(a->out.begin[*a->out.cells]), ctx->threads,
                      limit_chunk, (void *)(uintptr_t)a);
}

/* ---- lists --------------------------------------------------------------- */

/* Without memory for what one output sees nothing can be said of it: the map
 * then holds nothing, which its total tells. */
static void write_output(const spc_radius_args *a, int position)
{
    query q;
    int count = 0, places[SPC_INDEX_OFFSETS];

    if (!ask(&q, a, position))
        return;
    visit_all(&q, count_one, &count);
    collected c = {malloc(((size_t)count + 1) * sizeof *c.at), 0};
    float *squares = malloc(((size_t)count + 1) * sizeof *squares);
    if (c.at && squares) {
        visit_all(&q, collect, &c);
        keep_nearest(&q, &c, squares);
        write_sorted(&q, &c, a->list + 2 * (size_t)a->first[position], places);
    } else {
        __atomic_store_n(&a->total[1], -1, __ATOMIC_RELAXED);
    }
    free(c.at);
    free(squares);
}

static void write_chunk(void *payload, int64_t chunk)
{
    const spc_radius_args *a = payload;
    int outputs = a->out.begin[*a->out.cells];

    for (int p = (int)chunk * CHUNK; p < chunk_end(chunk, outputs); p++)
        write_output(a, p);
}

static void write_all(const spc_ctx *ctx, const void *args)
{
    const spc_radius_args *a = args;
    int outputs = a->out.begin[*a->out.cells];

    sum(a);
    if (a->total[0] != a->total[1])
        return;
    spc__parallel_for(chunks_of(outputs), ctx->threads, write_chunk,
                      (void *)(uintptr_t)a);
    if (a->total[1] < 0) {
        a->total[1] = 0;
        memset(a->first, 0, 4 * ((size_t)a->rows_padded + 1));
    }
}

/* ---- by step -------------------------------------------------------------- */

static void nothing(const spc_ctx *ctx, const void *args)
{
    (void)ctx;
    (void)args;
}

spc__points_function *const spc__points_host[SPC__POINTS_STEPS] = {
    [SPC__POINTS_PLACE] = place,
    [SPC__POINTS_PICK] = pick,
    [SPC__POINTS_CELLS] = find_cells,
    [SPC__POINTS_SORT] = sort_points,
    [SPC__RADIUS_LIMITS] = limit_all,
    [SPC__RADIUS_COUNT] = count_all,
    [SPC__RADIUS_WRITE] = write_all,
    [SPC__OFFSETS_COUNT] = nothing,
    [SPC__OFFSETS_SUM] = nothing,
    [SPC__OFFSETS_WRITE] = spc__points_list_by_offset,
    [SPC__POINTS_BUNDLE] = spc__points_bundle,
    [SPC__BUNDLE_TILES] = spc__points_order_tiles,
};
