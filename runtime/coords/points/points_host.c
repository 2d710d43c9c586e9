/* SPDX-License-Identifier: Apache-2.0 */
/*
 * points_host.c - the steps of points on the cpu device, in threaded C.
 *
 * Each step does what the kernel with the same arguments does (points.cu.lua)
 * and gives the same bits, so nothing here uses fused multiply-add. Keys of
 * cells are u64 on this device.
 */
#include "coords/points/points_steps.h"

#include "base/pool.h"
#include <assert.h>
#include <limits.h>
#include <math.h>
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

/* Walks the rows in order, so that the first bad row is the one reported. */
static void note_bad(const spc_place_args *a, int field, int row)
{
    int *noted = &a->stats[SPC_POINTS_BAD_ROW + field];

    if (*noted == 0)
        *noted = SPC_INDEX_NO_ROW - row;
}

/* True if the point is inside the cloud's extent. Otherwise notes its row. */
static bool check_point(const spc_place_args *a, const float *p, int batch,
                        int row)
{
    /* Both checks run, so that each field notes its own first bad row. */
    bool inside = batch >= 0 && batch < a->batches;

    if (!inside)
        note_bad(a, 3, row);
    /* The negation makes NaN count as outside. */
    for (int i = 0; i < 3; i++)
        if (!(p[i] >= a->low[i] && p[i] <= a->high[i])) {
            inside = false;
            note_bad(a, i, row);
        }
    a->stats[SPC_POINTS_BAD_ROWS] += !inside;
    return inside;
}

/* Fills a cloud from coordinates, or from a scene's integers in units of
 * SPC_POINTS_STEP. */
static void assign_cells(const spc_ctx *ctx, const void *args)
{
    const spc_place_args *a = args;
    int asked = a->source ? *a->source : a->rows;
    /* A count on the device was not checked on the host. */
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
        /* The fourth float of a point holds its batch element as an integer. */
        memcpy(to + 3, &batch, sizeof batch);
    }
}

/* The largest integer that is not above v. */
static int floor_of(float v)
{
    /* A cast truncates towards 0, so negative fractions need one less. floorf()
     * may be a library call. */
    int whole = (int)v;

    return whole - (v < (float)whole);
}

/* The squared distance of a point to the centre of its voxel, in edges. */
static float from_centre(const spc_place_args *a, int row)
{
    const float *at = a->from + 4 * (size_t)row;
    float sum = 0;

    for (int i = 0; i < 3; i++) {
        float v = at[i] * a->inverse;
        float d = v - (float)floor_of(v) - 0.5f;
        sum += d * d;
    }
    return sum;
}

/* The row of `from` that a voxel keeps. */
static int kept_of(const spc_place_args *a, int voxel)
{
    int kept = a->picked[voxel];

    if (!a->twins)
        return kept;
    float least = from_centre(a, kept);
    for (int i = a->twin_begin[voxel]; i < a->twin_begin[voxel + 1]; i++) {
        float square = from_centre(a, a->twins[i]);
        if (square < least) {
            least = square;
            kept = a->twins[i];
        }
    }
    return kept;
}

/* Fills a sampled cloud with the points that were picked. */
static void pick(const spc_ctx *ctx, const void *args)
{
    const spc_place_args *a = args;
    int asked = *a->source, rows = asked > a->to.capacity ? 0 : asked;

    (void)ctx;
    *a->to.count = rows;
    a->stats[SPC_POINTS_ROWS] = asked;
    for (int row = 0; row < rows; row++) {
        int from = kept_of(a, row);
        a->sources[row] = from;
        memcpy(a->to.at + 4 * (size_t)row, a->from + 4 * (size_t)from, 16);
    }
}

/* Finds the cell of each point. */
static void find_cells(const spc_ctx *ctx, const void *args)
{
    const spc_cells_args *a = args;
    int rows = *a->of.count;

    (void)ctx;
    for (int row = 0; row < rows; row++) {
        const float *p = a->of.at + 4 * (size_t)row;
        int *c = a->coords + 4 * (size_t)row;
        memcpy(c, p + 3, sizeof *c);
        /* A point that was left out may be NaN, and casting that is
         * undefined. */
        for (int i = 0; i < 3; i++)
            c[1 + i] = c[0] >= 0 ? floor_of(p[i] * a->inverse) : 0;
    }
}

/* Copies the points in the order of their cells, so that a cell's points lie
 * side by side. */
static void sort_points(const spc_ctx *ctx, const void *args)
{
    const spc_sort_points_args *a = args;
    int cells = *a->to.cells;

    (void)ctx;
    memcpy(a->to.begin, a->twin_begin, 4 * ((size_t)cells + 1));
    for (int i = 0; i < a->to.begin[cells]; i++) {
        float *to = a->to.points + 4 * (size_t)i;
        memcpy(to, a->of.at + 4 * (size_t)a->twins[i], 12);
        /* The copy has the point's row in the fourth float and no batch
         * element. */
        memcpy(to + 3, &a->twins[i], 4);
    }
}

/* ---- searching around an output ------------------------------------------ */

/* The edge of a cell is the radius, so an output sees three or four cells along
 * an axis, and rarely five by rounding. */
enum { COLUMNS = 32 };

/* An output and the runs of sorted points in the cells around it, one run for
 * each column of cells. Consecutive outputs mostly look at the same cells and
 * then reuse the runs. */
typedef struct query {
    const spc_radius_args *a;
    float at[3];
    int row, batch, position;
    int low[3], high[3]; /* cells; an empty range before the first output */
    int columns;
    int begin[COLUMNS], end[COLUMNS];
    float limit; /* with `nearest`: squares below the limit count, */
    int ties;    /* and this many that are equal to it */
} query;

/* The key of a cell. */
static uint64_t key_of(const spc_radius_args *a, int batch, int x, int y, int z)
{
    const spc_index_key *layout = &a->key;
    const int c[4] = {batch, x, y, z};
    uint64_t key = 0;

    /* In unsigned arithmetic: the difference of two ints may not fit an int. */
    for (int i = 0; i < 4; i++)
        key += ((uint64_t)((unsigned)c[i] - (unsigned)layout->low[i]) +
                layout->before[i])
               << layout->shift[i];
    return key;
}

/* Returns the first cell whose key is at least `key`. */
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

/* Adds the points of a column of cells, which are consecutive in the sorted
 * cloud. */
static void add_run(query *q, int x, int y)
{
    const spc_radius_args *a = q->a;
    const uint64_t *keys = a->in.keys;
    uint64_t last = key_of(a, q->batch, x, y, q->high[2]);
    int begin = find_cell(a, key_of(a, q->batch, x, y, q->low[2]));
    int end = begin, cells = *a->in.cells;

    /* Cells of a column are consecutive keys, so a run ends at the first key
     * after `last`. */
    while (end < cells && keys[end] <= last)
        end++;
    if (end == begin)
        return;
    /* At most 5 x 5 columns (above). */
    assert(q->columns < COLUMNS);
    q->begin[q->columns] = a->in.begin[begin];
    q->end[q->columns++] = a->in.begin[end];
}

/* Finds the runs of points that may be within the radius. */
static void find_runs(query *q)
{
    q->columns = 0;
    for (int x = q->low[0]; x <= q->high[0]; x++)
        for (int y = q->low[1]; y <= q->high[1]; y++)
            add_run(q, x, y);
}

/* Computes the cells to look at; false if no point can be near. */
static bool clip(const query *q, int low[3], int high[3])
{
    const spc_radius_args *a = q->a;

    for (int i = 0; i < 3; i++) {
        /* Keys outside the set's extent would wrap into another field. */
        int first = a->key.low[1 + i];
        int last = (int)((unsigned)first + a->key.last[1 + i]);
        low[i] = floor_of((q->at[i] - a->reach) * a->inverse);
        high[i] = floor_of((q->at[i] + a->reach) * a->inverse);
        low[i] = low[i] < first ? first : low[i];
        high[i] = high[i] > last ? last : high[i];
        if (low[i] > high[i])
            return false;
    }
    return q->batch >= a->key.low[0] &&
           (unsigned)(q->batch - a->key.low[0]) <= a->key.last[0];
}

/* Begins a series of queries, which reuse the runs if they are in one cell. */
static void begin_asking(query *q, const spc_radius_args *a)
{
    memset(q, 0, sizeof *q);
    q->a = a;
    q->high[2] = -1; /* an empty range, so that the next output computes its
                      * own */
}

/* Moves the query to the output at a position; false if it cannot see any
 * point. */
static bool ask(query *q, int position)
{
    const spc_radius_args *a = q->a;
    const float *p = a->out.points + 4 * (size_t)position;
    int low[3], high[3], batch = q->batch;

    q->position = position;
    memcpy(q->at, p, sizeof q->at);
    memcpy(&q->row, p + 3, sizeof q->row);
    /* The sorted copy has the row instead, so the batch element is read from
     * the cloud. */
    memcpy(&q->batch, a->out_at + 4 * (size_t)q->row + 3, sizeof q->batch);
    q->limit = INFINITY;
    q->ties = 0;
    if (!clip(q, low, high)) {
        q->columns = 0;
        /* The next output must not take these runs for its own. */
        q->high[2] = q->low[2] - 1;
        return false;
    }
    if (batch == q->batch && memcmp(low, q->low, sizeof low) == 0 &&
        memcmp(high, q->high, sizeof high) == 0)
        return true;
    memcpy(q->low, low, sizeof low);
    memcpy(q->high, high, sizeof high);
    find_runs(q);
    return true;
}

/* A visible point and its position among the sorted points. */
typedef struct seen {
    int row, k, assign_cells;
    float square;
} seen;

typedef void visitor(query *q, const seen *s, void *payload);

/* The kernel's cell of a neighbour at this distance along an axis. */
static int cell_along(const spc_radius_args *a, int axis, float d)
{
    float scaled = (a->backwards ? -d : d) * a->scale[axis];
    int cell = floor_of(scaled + a->half[axis]);

    /* A point at exactly the radius may round to the cell before the first or
     * after the last. */
    return cell < 0 ? 0 : cell < a->kernel[axis] ? cell : a->kernel[axis] - 1;
}

/* Squares are not negative, so their bits have the order of their values. */
static unsigned bits_of(float square)
{
    unsigned bits;

    memcpy(&bits, &square, sizeof bits);
    return bits;
}

/* True if the query's point is among the nearest of the point it found. */
static bool counts_there(const query *q, const seen *s)
{
    const unsigned *last = q->a->limits + 2 * (size_t)s->row;
    unsigned square = bits_of(s->square);

    return square < last[0] ||
           (square == last[0] && q->position <= (int)last[1]);
}

/* Visits a point if it is within the radius. */
static void look(query *q, int assign_cells, visitor *visit, void *payload)
{
    const spc_radius_args *a = q->a;
    const float *p = a->in.points + 4 * (size_t)assign_cells;
    float dx = p[0] - q->at[0], dy = p[1] - q->at[1], dz = p[2] - q->at[2];
    /* One operation a statement, as a compiler may fuse a product and a sum of
     * one statement: both devices must round alike. */
    float xx = dx * dx, yy = dy * dy, zz = dz * dz;
    float xy = xx + yy;
    seen s = {.assign_cells = assign_cells, .square = xy + zz};

    if (!(s.square <= a->square))
        return;
    memcpy(&s.row, p + 3, sizeof s.row);
    if (a->backwards && a->limits && !counts_there(q, &s))
        return;
    s.k = (cell_along(a, 0, dx) * a->kernel[1] + cell_along(a, 1, dy)) *
              a->kernel[2] +
          cell_along(a, 2, dz);
    visit(q, &s, payload);
}

/* Visits all visible points, always in the same order. */
static void visit_all(query *q, visitor *visit, void *payload)
{
    for (int c = 0; c < q->columns; c++)
        for (int i = q->begin[c]; i < q->end[c]; i++)
            look(q, i, visit, payload);
}

static void spread(const spc_ctx *ctx, int rows,
                   void (*body)(void *payload, int64_t i),
                   const spc_radius_args *a)
{
    spc__pool *pool = spc__device_ops_of(ctx->device)->pool(ctx->device);

    spc__pool_run(pool, chunks_of(rows), body, (void *)(uintptr_t)a);
}

/* ---- counting ------------------------------------------------------------ */

static void count_one(query *q, const seen *s, void *payload)
{
    (void)q;
    (void)s;
    ++*(int *)payload;
}

/* Counts the triplets of a chunk of outputs. */
static void count_chunk(void *payload, int64_t chunk)
{
    const spc_radius_args *a = payload;
    int outputs = a->out.begin[*a->out.cells];
    query q;

    begin_asking(&q, a);
    for (int p = (int)chunk * CHUNK; p < chunk_end(chunk, a->rows_padded);
         p++) {
        int count = 0;
        if (p < outputs && ask(&q, p))
            visit_all(&q, count_one, &count);
        a->order[p] = p < outputs ? q.row : -1;
        /* At most `nearest` points are listed. */
        a->first[p] = a->nearest > 0 && count > a->nearest ? a->nearest : count;
    }
}

static void count_all(const spc_ctx *ctx, const void *args)
{
    const spc_radius_args *a = args;

    spread(ctx, a->rows_padded, count_chunk, a);
}

/* Computes where the triplets of each position begin. If there are too many,
 * the list is left empty. */
static void sum(const spc_radius_args *a)
{
    int64_t all = 0;

    for (int p = 0; p < a->rows_padded; p++)
        all += a->first[p];
    /* 64 bits above: the total of a dense cloud may exceed an int. */
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

/* ---- the nearest --------------------------------------------------------- */

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

/* Counts, by their next digit, the squares whose upper bits are `found`. */
typedef struct digits {
    unsigned found, known; /* the upper bits so far, and their mask */
    int shift;
    int counts[DIGITS];
} digits;

/* Counts the next digit of a point whose upper digits equal those found so
 * far. */
static void count_digit(query *q, const seen *s, void *payload)
{
    digits *d = payload;
    unsigned bits = bits_of(s->square);

    (void)q;
    if ((bits & d->known) == d->found)
        d->counts[bits >> d->shift & (DIGITS - 1)]++;
}

/*
 * Finds the square of the last of the nearest points, and how many points with
 * an equal square count. There is no limit if all count. It finds the square
 * digit by digit, the highest first, and visits all points for each digit: a
 * list of them would need memory.
 */
static void keep_nearest(query *q)
{
    digits d = {0};
    int left = q->a->nearest;

    if (left == 0)
        return;
    for (d.shift = 32 - DIGIT_BITS; d.shift >= 0; d.shift -= DIGIT_BITS) {
        unsigned digit = 0;
        memset(d.counts, 0, sizeof d.counts);
        visit_all(q, count_digit, &d);
        /* `left` becomes the rank of the last one among the points with this
         * digit. */
        while (digit < DIGITS && d.counts[digit] < left)
            left -= d.counts[digit++];
        if (digit == DIGITS)
            return; /* happens at the first digit: fewer than `nearest` are
                     * visible */
        d.found |= digit << d.shift;
        d.known |= (unsigned)(DIGITS - 1) << d.shift;
    }
    memcpy(&q->limit, &d.found, sizeof q->limit);
    /* All bits are known now, so the rest of the rank is among equal
     * squares. */
    q->ties = left;
}

static bool counts(query *q, const seen *s)
{
    /* The order of visits is fixed, so the first ties always win. */
    return s->square < q->limit || (s->square == q->limit && q->ties-- > 0);
}

/* ---- limits -------------------------------------------------------------- */

/* Notes the position of the last equal one that counts. */
static void note_tie(query *q, const seen *s, void *payload)
{
    unsigned *assign_cells = payload;

    if (s->square == q->limit && q->ties-- > 0)
        *assign_cells = (unsigned)s->assign_cells;
}

/* Stores the last point that counts for an output; no limit if all count. */
static void limit_output(query *q, int position)
{
    bool some = ask(q, position);
    unsigned *last = q->a->limits + 2 * (size_t)q->row;

    /* As bits, this is above the square of any point, so all count. */
    last[0] = UINT_MAX;
    last[1] = INT_MAX;
    if (some)
        keep_nearest(q);
    if (q->limit == INFINITY)
        return;
    last[0] = bits_of(q->limit);
    visit_all(q, note_tie, &last[1]);
}

/* Finds the limits of a chunk of outputs, for the map backwards. */
static void limit_chunk(void *payload, int64_t chunk)
{
    const spc_radius_args *a = payload;
    int outputs = a->out.begin[*a->out.cells];
    query q;

    begin_asking(&q, a);
    for (int p = (int)chunk * CHUNK; p < chunk_end(chunk, outputs); p++)
        limit_output(&q, p);
}

static void limit_all(const spc_ctx *ctx, const void *args)
{
    const spc_radius_args *a = args;

    spread(ctx, a->out.begin[*a->out.cells], limit_chunk, a);
}

/* ---- lists --------------------------------------------------------------- */

/* The triplets of an output, sorted by offset. The first visit counts the
 * triplets of each offset, the second writes them. */
typedef struct sorting {
    int *list;
    int places[SPC_INDEX_OFFSETS]; /* counts, then the next position of each
                                    * offset */
} sorting;

static void count_offset(query *q, const seen *s, void *payload)
{
    sorting *to = payload;

    to->places[s->k] += counts(q, s);
}

/* Writes a triplet to the next place of its offset. */
static void write_triplet(query *q, const seen *s, void *payload)
{
    sorting *to = payload;

    if (!counts(q, s))
        return;
    int *at = to->list + 2 * (size_t)to->places[s->k]++;
    at[0] = s->row;
    at[1] = s->k;
}

/* Writes an output's triplets, sorted by offset. It counts first, since a sort
 * by counting needs the size of each part. */
static void write_output(query *q, sorting *to, int position)
{
    const spc_radius_args *a = q->a;
    int offsets = a->kernel[0] * a->kernel[1] * a->kernel[2], before = 0;

    if (a->first[position] == a->first[position + 1] || !ask(q, position))
        return;
    to->list = a->list + 2 * (size_t)a->first[position];
    memset(to->places, 0, sizeof *to->places * (size_t)offsets);
    keep_nearest(q);
    /* counts() uses the ties up, and the second visit must find them again. */
    int ties = q->ties;
    visit_all(q, count_offset, to);
    for (int k = 0; k < offsets; k++) {
        int own = to->places[k];
        to->places[k] = before;
        before += own;
    }
    q->ties = ties;
    visit_all(q, write_triplet, to);
}

/* Writes the triplets of a chunk of outputs. */
static void write_chunk(void *payload, int64_t chunk)
{
    const spc_radius_args *a = payload;
    int outputs = a->out.begin[*a->out.cells];
    sorting to;
    query q;

    begin_asking(&q, a);
    for (int p = (int)chunk * CHUNK; p < chunk_end(chunk, outputs); p++)
        write_output(&q, &to, p);
}

/* Writes all triplets if they fit. */
static void write_all(const spc_ctx *ctx, const void *args)
{
    const spc_radius_args *a = args;

    sum(a);
    /* If the triplets did not fit, the list is not written and `first` marks it
     * as empty. */
    if (a->total[0] == a->total[1])
        spread(ctx, a->out.begin[*a->out.cells], write_chunk, a);
}

/* ---- the table of kernels
 * ------------------------------------------------------------- */

static void nothing(const spc_ctx *ctx, const void *args)
{
    (void)ctx;
    (void)args;
}

spc__points_function *const spc__points_host[SPC__POINTS_STEPS] = {
    [SPC__POINTS_PLACE] = assign_cells,
    [SPC__POINTS_PICK] = pick,
    [SPC__POINTS_CELLS] = find_cells,
    [SPC__POINTS_SORT] = sort_points,
    [SPC__RADIUS_LIMITS] = limit_all,
    [SPC__RADIUS_COUNT] = count_all,
    [SPC__RADIUS_WRITE] = write_all,
    /* One thread lists by offset, so it needs no counts of blocks and no sum of
     * them. */
    [SPC__OFFSETS_COUNT] = nothing,
    [SPC__OFFSETS_SUM] = nothing,
    [SPC__OFFSETS_WRITE] = spc__points_list_by_offset,
    [SPC__POINTS_BUNDLE] = spc__points_bundle,
    [SPC__BUNDLE_TILES] = spc__points_order_tiles,
};
