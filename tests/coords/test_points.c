/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_points.c - clouds of points and their maps on every device, compared
 * with a definition in double precision that visits all pairs; and layers of
 * points.
 *
 * Coordinates are multiples of 1/1024 and radii powers of two, so that neither
 * side rounds: many points lie exactly on the radius or on a cell border. Other
 * cases do round; they are compared by the rule in spc.h, which defines the
 * rounding of each operation. Runs on "cpu" and "sim", or on the device given
 * as argument.
 */
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "context/ctx.h"
#include "coords/map.h"
#include "coords/points/points.h"
#include "coords/points/points_steps.h"
#include "device/device.h"
#include "harness/suite.h"
#include "spc/lab.h"
#include "spc/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static spc_ctx *contexts[2];
static int context_count;
static spc_error error;

#define assert_done(call)                                                      \
    do {                                                                       \
        spc_status is = (call);                                                \
        ck_assert_msg(is == SPC_OK, "%s: status %d: %s", #call, (int)is,       \
                      spc_ctx_error(ctx));                                     \
    } while (0)

#define assert_sound(call)                                                     \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

/* ---- clouds on the host -------------------------------------------------- */

typedef struct cloud {
    float (*at)[3];
    int32_t *batch;
    int rows, batches;
} cloud;

static void release(cloud *c)
{
    free(c->at);
    free(c->batch);
}

/* Samples points on a grid of `step`, so that some distances are equal. If
 * there is more than one row, some points are copies of others. */
static cloud draw_cloud(int rows, int batches, int extent, float step,
                        spc__random *random)
{
    cloud c = {calloc((size_t)rows + 1, sizeof *c.at),
               calloc((size_t)rows + 1, sizeof *c.batch), rows, batches};

    for (int i = 0; i < rows; i++) {
        c.batch[i] = (int32_t)spc__random_below(random, (uint32_t)batches);
        for (int a = 0; a < 3; a++)
            c.at[i][a] =
                step *
                (float)((int)spc__random_below(random, (uint32_t)extent) -
                        extent / 3);
        if (i > 0 && spc__random_below(random, 8) == 0) {
            memcpy(c.at[i], c.at[i - 1], sizeof c.at[i]);
            c.batch[i] = c.batch[i - 1];
        }
    }
    return c;
}

static cloud line_of(int rows, float apart)
{
    cloud c = {calloc((size_t)rows + 1, sizeof *c.at),
               calloc((size_t)rows + 1, sizeof *c.batch), rows, 1};

    for (int i = 0; i < rows; i++)
        c.at[i][0] = apart * (float)i;
    return c;
}

/* ---- the definition ------------------------------------------------------ */

typedef struct found {
    spc_triplet at;
    double square;
    double cell[3]; /* cell size of the search */
} found;

typedef struct relation {
    found *all;
    int count;
} relation;

static int compare_found(const void *left, const void *right)
{
    const found *a = left, *b = right;

    if (a->at.out != b->at.out)
        return a->at.out < b->at.out ? -1 : 1;
    if (a->at.in != b->at.in)
        return a->at.in < b->at.in ? -1 : 1;
    return (a->at.k > b->at.k) - (a->at.k < b->at.k);
}

/* Nearest first; ties by the order of the search. */
static int compare_near(const void *left, const void *right)
{
    const found *a = left, *b = right;

    if (a->square != b->square)
        return a->square < b->square ? -1 : 1;
    for (int i = 0; i < 3; i++)
        if (a->cell[i] != b->cell[i])
            return a->cell[i] < b->cell[i] ? -1 : 1;
    return (a->at.in > b->at.in) - (a->at.in < b->at.in);
}

static int cell_of(const spc_geometry *g, int axis, double d)
{
    double r = (double)g->radius;
    int cell = (int)floor((d + r) * g->kernel[axis] / (2 * r));

    return cell < g->kernel[axis] ? cell : g->kernel[axis] - 1;
}

/* The rule of spc.h, operation by operation: a product is rounded before it is
 * added. */
static bool round_pair(found *f, const spc_geometry *g, const float *in,
                       const float *out, bool inverse)
{
    volatile float square[3], scaled, plane, r = g->radius * g->radius;

    f->at.k = 0;
    for (int i = 0; i < 3; i++) {
        float d = in[i] - out[i], half = (float)g->kernel[i] / 2;
        square[i] = d * d;
        scaled = (inverse ? -d : d) * ((float)g->kernel[i] / (2 * g->radius));
        float cell = floorf(scaled + half), last = (float)g->kernel[i] - 1;
        cell = cell < 0 ? 0 : cell > last ? last : cell;
        f->at.k = f->at.k * g->kernel[i] + (int)cell;
        scaled = in[i] * (1 / g->radius);
        f->cell[i] = (double)floorf(scaled);
    }
    plane = square[0] + square[1];
    plane += square[2];
    f->square = (double)plane;
    return plane <= r;
}

/* True: compare by the rule with rounding. */
static bool is_rounded;

static bool define_pair(found *f, const spc_geometry *g, const float *in,
                        const float *out, bool inverse)
{
    double r = (double)g->radius;

    if (is_rounded)
        return round_pair(f, g, in, out, inverse);

    f->square = 0;
    f->at.k = 0;
    for (int i = 0; i < 3; i++) {
        double d = (double)in[i] - (double)out[i];
        f->square += d * d;
        f->cell[i] = floor((double)in[i] / r);
        f->at.k = f->at.k * g->kernel[i] + cell_of(g, i, inverse ? -d : d);
    }
    return f->square <= r * r;
}

static int define_output(found *to, const spc_geometry *g, const cloud *in,
                         const cloud *out, int row, bool inverse)
{
    int count = 0;

    for (int i = 0; i < in->rows; i++) {
        to[count].at.out = row;
        to[count].at.in = i;
        if (in->batch[i] == out->batch[row])
            count +=
                define_pair(&to[count], g, in->at[i], out->at[row], inverse);
    }
    if (g->nearest > 0 && count > g->nearest) {
        qsort(to, (size_t)count, sizeof *to, compare_near);
        count = g->nearest;
    }
    return count;
}

/* The outputs choose which points are among their nearest. */
static relation define_forth(const spc_geometry *g, const cloud *in,
                             const cloud *out, bool inverse)
{
    relation r = {
        calloc((size_t)in->rows * (size_t)out->rows + 1, sizeof *r.all), 0};

    for (int row = 0; row < out->rows; row++)
        r.count += define_output(r.all + r.count, g, in, out, row, inverse);
    qsort(r.all, (size_t)r.count, sizeof *r.all, compare_found);
    return r;
}

static relation define(const spc_geometry *g, const cloud *in, const cloud *out,
                       bool inverse)
{
    if (!inverse || g->nearest == 0)
        return define_forth(g, in, out, inverse);
    relation r = define_forth(g, out, in, false);
    for (int i = 0; i < r.count; i++) {
        int row = r.all[i].at.in;
        r.all[i].at.in = r.all[i].at.out;
        r.all[i].at.out = row;
    }
    qsort(r.all, (size_t)r.count, sizeof *r.all, compare_found);
    return r;
}

/* ---- clouds on a device -------------------------------------------------- */

static void *upload(spc_ctx *ctx, const void *from, size_t bytes)
{
    void *to;

    assert_done(spc_memory_alloc(&to, ctx, bytes + 16));
    if (bytes > 0)
        assert_done(spc_memory_upload(to, ctx, from, bytes));
    return to;
}

static spc_points *make_points(spc_ctx *ctx, const cloud *c)
{
    void *xyz = upload(ctx, c->at, 12 * (size_t)c->rows);
    void *batch = upload(ctx, c->batch, 4 * (size_t)c->rows);
    spc_points *points;

    assert_done(spc_points_create(&points, ctx, xyz, batch, c->rows, NULL));
    spc_memory_free(ctx, xyz);
    spc_memory_free(ctx, batch);
    return points;
}

static void check_order(const spc_triplet *got, int count)
{
    for (int i = 1; i < count; i++)
        if (got[i].out == got[i - 1].out)
            ck_assert_int_ge(got[i].k, got[i - 1].k);
}

/* The triplets of 16 consecutive outputs by offset, stable. */
static int *define_bundles(const spc_triplet *all, const int *first, int rows,
                           int offsets)
{
    int *list = calloc(2 * (size_t)first[rows] + 2, sizeof *list), *to = list;

    for (int p = 0; p < rows; p += 16)
        for (int k = 0; k < offsets; k++)
            for (int q = p; q < p + 16; q++)
                for (int t = first[q]; t < first[q + 1]; t++)
                    if (all[t].k == k) {
                        *to++ = all[t].in;
                        *to++ = k * 16 + q % 16;
                    }
    return list;
}

/* Returns the cost of 64 outputs: that of their most expensive 16. These cost 2
 * for each offset that occurs, and 1 for each 16 triplets of an offset. */
static int define_cost(const spc_triplet *all, const int *first, int at)
{
    int most = 0;

    for (int p = at; p < at + 64; p += 16) {
        int counts[SPC_MAX_OFFSETS] = {0}, cost = 0;
        for (int t = first[p]; t < first[p + 16]; t++) {
            int before = counts[all[t].k]++;
            cost += (before == 0 ? 2 : 0) + (before % 16 == 0);
        }
        most = cost > most ? cost : most;
    }
    return most;
}

/* The highest of 32 cost levels first, stable within a level. */
static void check_tiles(const spc_triplet *all, const int *first,
                        const int *order, int rows, const int *tiles,
                        const char *what)
{
    int most = 0, at = 0, count = rows / 64;

    for (int t = 0; t < count; t++)
        if (define_cost(all, first, 64 * t) > most)
            most = define_cost(all, first, 64 * t);
    for (int level = 31; level >= 0; level--)
        for (int t = 0; t < count; t++)
            if (order[64 * t] >= 0 &&
                define_cost(all, first, 64 * t) * 32 / (most + 1) == level) {
                ck_assert_msg(tiles[at] == t, "%s: tile %d is %d, not %d", what,
                              at, tiles[at], t);
                at++;
            }
    for (; at < count; at++)
        ck_assert_int_eq(tiles[at], -1);
}

/* The list is made once, and filled again with the map. */
static void check_bundles(spc_ctx *ctx, spc_map *map, const spc_triplet *all,
                          const char *what)
{
    int rows = map->to->rows_padded, offsets = map->offsets;
    size_t bytes = 8 * (size_t)spc_map_pairs(map);
    int *first = calloc((size_t)rows + 1, sizeof *first);
    int *order = calloc((size_t)rows, sizeof *order);
    int *tiles = calloc((size_t)rows / 64, sizeof *tiles);
    int *got = calloc(1, bytes + 8);
    spc_triplets_view view;

    assert_done(spc__map_prepare_bundles(map, NULL));
    ck_assert(spc__map_bundles_view(&view, map));
    assert_done(
        spc_memory_download(first, ctx, view.first, 4 * ((size_t)rows + 1)));
    if (bytes > 0)
        assert_done(spc_memory_download(got, ctx, view.list, bytes));
    assert_done(
        spc_memory_download(order, ctx, map->plain.order, 4 * (size_t)rows));
    assert_done(spc_memory_download(tiles, ctx, view.list + 2 * view.capacity,
                                    4 * (size_t)rows / 64));
    check_tiles(all, first, order, rows, tiles, what);
    int *want = define_bundles(all, first, rows, offsets);
    for (int i = 0; i < (int)(bytes / 4); i++)
        ck_assert_msg(got[i] == want[i], "%s: word %d of bundles: %d, not %d",
                      what, i, got[i], want[i]);
    free(want);
    free(got);
    free(tiles);
    free(order);
    free(first);
}

static int by_input(const void *a, const void *b)
{
    const spc_triplet *x = a, *y = b;

    return x->in != y->in ? (x->in > y->in) - (x->in < y->in)
           : x->k != y->k ? (x->k > y->k) - (x->k < y->k)
                          : (x->out > y->out) - (x->out < y->out);
}

/* Reads triplets as a kernel does that walks the inputs, which may be in any
 * order, each once. `to` has room for `count`. */
static int read_inputs(spc_triplet *to, int count, const int *order,
                       const int *first, const int *list, int positions)
{
    int at = 0;

    for (int p = 0; p < positions; p++) {
        if (order[p] < 0)
            ck_assert_int_eq(first[p], first[p + 1]);
        for (int t = first[p]; t < first[p + 1]; t++) {
            ck_assert_int_lt(at, count);
            to[at++] = (spc_triplet){list[2 * t], order[p], list[2 * t + 1]};
            if (t > first[p]) /* offsets ascend, as kernels walk them once */
                ck_assert_int_ge(list[2 * t + 1], list[2 * t - 1]);
        }
    }
    return at;
}

/* The list by inputs has the same triplets. It is made once, and filled again
 * with the map. */
static void check_inputs(spc_ctx *ctx, spc_map *map, const spc_triplet *all,
                         const char *what)
{
    size_t count = (size_t)spc_map_pairs(map), rows;
    spc_triplet *got = calloc(count + 1, sizeof *got);
    spc_triplet *want = calloc(count + 1, sizeof *want);
    spc_triplets_view view;
    spc_pairs_view inputs;

    assert_done(spc__map_prepare_inputs(map, NULL));
    ck_assert(spc__map_inputs_view(&view, &inputs, map));
    rows = (size_t)inputs.capacity;
    int *order = calloc(rows, sizeof *order);
    int *first = calloc(rows + 1, sizeof *first);
    int *list = calloc(2 * count + 1, sizeof *list);
    assert_done(spc_memory_download(order, ctx, inputs.in, 4 * rows));
    assert_done(spc_memory_download(first, ctx, view.first, 4 * (rows + 1)));
    if (count > 0)
        assert_done(spc_memory_download(list, ctx, view.list, 8 * count));
    ck_assert_int_eq(
        read_inputs(got, (int)count, order, first, list, (int)rows),
        (int)count);
    if (count > 0)
        memcpy(want, all, count * sizeof *want);
    qsort(want, count, sizeof *want, by_input);
    qsort(got, count, sizeof *got, by_input);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(memcmp(&got[i], &want[i], sizeof *got) == 0,
                      "%s: by inputs (%d, %d, %d) and not (%d, %d, %d)", what,
                      got[i].out, got[i].in, got[i].k, want[i].out, want[i].in,
                      want[i].k);
    free(list);
    free(first);
    free(order);
    free(want);
    free(got);
}

static void check_map(spc_ctx *ctx, spc_map *map, const relation *want,
                      const char *what)
{
    spc_triplet *got = calloc((size_t)want->count + 1, sizeof *got);
    found *sorted = calloc((size_t)want->count + 1, sizeof *sorted);

    ck_assert_msg(spc_map_pairs(map) == want->count,
                  "%s: %lld triplets and not %d", what,
                  (long long)spc_map_pairs(map), want->count);
    assert_done(spc_map_download_triplets(got, map));
    check_order(got, want->count);
    check_bundles(ctx, map, got, what);
    check_inputs(ctx, map, got, what);
    for (int i = 0; i < want->count; i++)
        sorted[i].at = got[i];
    qsort(sorted, (size_t)want->count, sizeof *sorted, compare_found);
    for (int i = 0; i < want->count; i++)
        ck_assert_msg(
            memcmp(&sorted[i].at, &want->all[i].at, sizeof sorted[i].at) == 0,
            "%s: (%d, %d, %d) and not (%d, %d, %d)", what, sorted[i].at.out,
            sorted[i].at.in, sorted[i].at.k, want->all[i].at.out,
            want->all[i].at.in, want->all[i].at.k);
    free(got);
    free(sorted);
}

static spc_geometry geometry_of(const char *layer)
{
    spc_conv conv;

    ck_assert_msg(spc_conv_parse(&conv, layer, &error) == SPC_OK, "%s",
                  error.text);
    return conv.geometry;
}

/* ---- maps ---------------------------------------------------------------- */

static const char *const layers[] = {
    "points,cin=1,cout=1,k=3,radius=0.03125",
    "points,cin=1,cout=1,k=5x4x1,radius=0.015625",
    "points,cin=1,cout=1,k=2,radius=0.0625,nearest=3",
    "points,cin=1,cout=1,k=1,radius=0.03125,nearest=1",
    "points,cin=1,cout=1,k=7,radius=1",
};

/* Checks the map of one direction against the definition. */
static void check_way(spc_ctx *ctx, const spc_geometry *g, const cloud *in,
                      const cloud *out, spc_points *inputs, spc_points *outputs,
                      bool inverse, const char *what)
{
    relation want = define(g, in, out, inverse);
    spc_map *map;

    assert_done((inverse ? spc_map_create_radius_inverse
                         : spc_map_create_radius)(&map, inputs, outputs, g,
                                                  want.count));
    assert_done(spc_map_update(map, NULL, NULL, 0, NULL));
    assert_done(spc_map_check(map, NULL));
    check_map(ctx, map, &want, what);
    spc_map_free(map);
    free(want.all);
}

static void check_clouds(spc_ctx *ctx, int number, uint64_t seed)
{
    static const int sizes[] = {0, 1, 2, 17, 64, 150};
    spc__random random;
    spc_geometry g = geometry_of(layers[number % 5]);
    char what[96];

    spc__random_init(&random, seed + (uint64_t)number);
    float step = number % 3 == 0 ? 1.0f / 128 : 1.0f / 1024;
    int extent = number % 3 == 0 ? 12 : 90;
    int batches = 1 + number % 3;
    cloud in = draw_cloud(sizes[number % 6], batches, extent, step, &random);
    cloud out =
        draw_cloud(sizes[number / 6 % 6], batches, extent + 9, step, &random);
    spc_points *inputs = make_points(ctx, &in);
    spc_points *outputs = make_points(ctx, &out);
    for (int way = 0; way < 3; way++) {
        bool one = way == 0, inverse = way == 2;
        snprintf(what, sizeof what, "cloud %d, way %d, seed %llu", number, way,
                 (unsigned long long)seed);
        check_way(ctx, &g, &in, one ? &in : &out, inputs,
                  one ? inputs : outputs, inverse, what);
    }
    spc_points_free(inputs);
    spc_points_free(outputs);
    release(&in);
    release(&out);
}

/* True if kernels are emulated. Such contexts get an eighth of the clouds and
 * candidates. */
static bool is_slow(int context)
{
    spc_device_info info;

    spc_ctx_device(&info, contexts[context]);
    return strncmp(info.id, "sim", 3) == 0;
}

START_TEST(maps_of_fifty_clouds_are_those_of_the_definition)
{
    uint64_t seed = 20261122;

    for (int number = 0; number < 50; number++)
        if (!is_slow(_i) || suite_takes(number))
            check_clouds(contexts[_i], number, seed);
}
END_TEST

/*
 * Cases in which every operation rounds: a radius and steps that are inexact in
 * fp32, so that distances equal the radius up to the last bit and points lie on
 * cell borders; points far from the origin, where a step is a few units in the
 * last place and some differences vanish; radii near the smallest and largest
 * allowed; values with few digits left, and zeros of both signs.
 */
static const struct {
    const char *what;
    float radius, step, from; /* coordinates are from + step * integer */
    int extent;
} awkward[] = {
    {"tenths", 0.1f, 0.1f, 0, 6},
    {"thirds of a radius", 0.3f, 0.1f, -0.7f, 14},
    {"cells' borders", 0.7f, 0.7f / 6, -5, 25},
    {"a million away", 0.1f, 0.01f, 1e6f, 60},
    {"minus a million", 0.25f, 0.1f, -1e6f, 12},
    {"units in the last place", 0.0625f, 0.0625f, 1e6f, 5},
    {"a radius of half a unit", 0.5f, 1, 12582912, 6},
    {"a radius below a unit", 0.6f, 1, 16777210, 12},
    {"denormal", 0.1f, 1e-42f, 0, 9},
    {"the least radius", 0x1p-60f, 0x1p-61f, -0x1p-59f, 9},
    {"the least radius, and squares of nothing", 0x1p-60f, 0x1p-100f, 0, 9},
    {"the greatest radius", 0x1p60f, 0x1p59f, -0x1p61f, 9},
};
enum { AWKWARD = sizeof awkward / sizeof *awkward };

static cloud draw_awkward(int number, int rows, spc__random *random)
{
    cloud c = draw_cloud(rows, 5, awkward[number].extent, 1, random);

    for (int i = 0; i < rows; i++) {
        c.batch[i] = c.batch[i] / 2 * 2; /* batch elements 1 and 3 are empty */
        for (int a = 0; a < 3; a++) {
            c.at[i][a] =
                awkward[number].from + awkward[number].step * c.at[i][a];
            if (c.at[i][a] == 0 && spc__random_below(random, 2))
                c.at[i][a] = -0.0f;
        }
    }
    return c;
}

static void check_awkward(spc_ctx *ctx, int number)
{
    spc__random random;
    spc_geometry g = geometry_of(layers[number % 3]);
    cloud in, out;

    spc__random_init(&random, 20261124 + (uint64_t)number);
    in = draw_awkward(number, 110, &random);
    out = draw_awkward(number, 60, &random);
    spc_points *inputs = make_points(ctx, &in);
    spc_points *outputs = make_points(ctx, &out);
    g.radius = awkward[number].radius;
    is_rounded = true;
    for (int way = 0; way < 3; way++)
        check_way(ctx, &g, &in, way == 0 ? &in : &out, inputs,
                  way == 0 ? inputs : outputs, way == 2, awkward[number].what);
    is_rounded = false;
    spc_points_free(inputs);
    spc_points_free(outputs);
    release(&in);
    release(&out);
}

START_TEST(awkward_coordinates_are_seen_as_the_rule_rounds)
{
    for (int number = 0; number < AWKWARD; number++)
        if (!is_slow(_i) || suite_takes(number))
            check_awkward(contexts[_i], number);
}
END_TEST

/* Pairs at a distance of just the radius, with one point a little before a cell
 * border and the other just as far before the next. A search that covers
 * slightly less than the radius misses it. */
START_TEST(points_on_the_radius_are_found_behind_a_border)
{
    enum { PAIRS = 48 };
    spc_ctx *ctx = contexts[_i];
    spc_geometry g = geometry_of(layers[4]);
    cloud ends[2];

    for (int side = 0; side < 2; side++) {
        ends[side] = line_of(PAIRS, 0);
        for (int i = 0; i < PAIRS; i++) {
            float before = ldexpf(1, -10 - 2 * (i / 6));
            ends[side].at[i][i % 3] =
                i % 6 < 3 ? (float)side - before : before - (float)side;
        }
    }
    spc_points *in = make_points(ctx, &ends[0]);
    spc_points *out = make_points(ctx, &ends[1]);
    is_rounded = true; /* squares of other distances are not exact */
    check_way(ctx, &g, &ends[0], &ends[1], in, out, false, "on the radius");
    check_way(ctx, &g, &ends[1], &ends[0], out, in, true, "on the radius");
    is_rounded = false;
    spc_points_free(in);
    spc_points_free(out);
    release(&ends[0]);
    release(&ends[1]);
}
END_TEST

/* A warp holds SPC_POINTS_STAGED of them. */
START_TEST(points_that_lie_densely_are_all_found)
{
    spc_ctx *ctx = contexts[_i];
    spc__random random;

    spc__random_init(&random, 7);
    cloud in = draw_cloud(SPC_POINTS_STAGED + 44, 1, 12, 1.0f / 1024, &random);
    cloud out = draw_cloud(3, 1, 12, 1.0f / 1024, &random);
    spc_points *inputs = make_points(ctx, &in);
    spc_points *outputs = make_points(ctx, &out);
    for (int nearest = 0; nearest < 100; nearest += 99) {
        spc_geometry g = SPC_GEOMETRY_INIT;
        g.rule = SPC_RULE_RADIUS;
        g.radius = 1.0f / 128;
        g.nearest = nearest;
        check_way(ctx, &g, &in, &out, inputs, outputs, false, "dense");
        if (nearest > 0)
            check_way(ctx, &g, &out, &in, outputs, inputs, true, "dense");
    }
    spc_points_free(inputs);
    spc_points_free(outputs);
    release(&in);
    release(&out);
}
END_TEST

/* ---- cells --------------------------------------------------------------- */

/* By output, then by input. */
static int compare_pairs(const void *a, const void *b)
{
    const spc_triplet *x = a, *y = b;

    return x->out != y->out ? (x->out > y->out) - (x->out < y->out)
                            : (x->in > y->in) - (x->in < y->in);
}

/* The triplets of a map with this many cells, as pairs; the caller frees
 * them. */
static spc_triplet *pairs_by_cells(spc_ctx *ctx, spc_points *points, int cells,
                                   int *count)
{
    spc_geometry g = geometry_of(layers[0]);
    spc_map *map;

    for (int a = 0; a < 3; a++)
        g.kernel[a] = cells;
    assert_done(spc_map_create_radius(&map, points, points, &g, 100000));
    assert_done(spc_map_update(map, NULL, NULL, 0, NULL));
    assert_done(spc_map_check(map, NULL));
    *count = (int)spc_map_pairs(map);
    spc_triplet *out = calloc((size_t)*count + 1, sizeof *out);
    assert_done(spc_map_download_triplets(out, map));
    qsort(out, (size_t)*count, sizeof *out, compare_pairs);
    spc_map_free(map);
    return out;
}

/* The radius determines the pairs, the cells only their weights: a point itself
 * is in the middle cell. */
START_TEST(one_radius_makes_sense_with_any_number_of_cells)
{
    static const int cells[] = {3, 5, 7};
    spc_ctx *ctx = contexts[_i];
    spc__random random;
    spc_triplet *first = NULL;
    int pairs = 0;

    spc__random_init(&random, 23);
    cloud c = draw_cloud(200, 1, 160, 1.0f / 1024, &random);
    spc_points *points = make_points(ctx, &c);
    for (int i = 0; i < 3; i++) {
        int count, volume = cells[i] * cells[i] * cells[i], used = 0;
        char *seen = calloc((size_t)volume, 1);
        spc_triplet *all = pairs_by_cells(ctx, points, cells[i], &count);
        ck_assert(first == NULL || count == pairs);
        for (int t = 0; t < count; t++) {
            ck_assert(first == NULL || compare_pairs(&first[t], &all[t]) == 0);
            ck_assert(all[t].out != all[t].in || all[t].k == volume / 2);
            used += !seen[all[t].k]++;
        }
        /* cells at the corners are outside the radius */
        ck_assert_int_gt(used, volume / 3);
        free(seen);
        if (first == NULL) {
            first = all;
            pairs = count;
        } else {
            free(all);
        }
    }
    ck_assert_int_gt(pairs, 400);
    free(first);
    spc_points_free(points);
    release(&c);
}
END_TEST

/* ---- capacities and frames ----------------------------------------------- */

START_TEST(a_map_without_room_holds_nothing_and_says_what_would_fit)
{
    spc_ctx *ctx = contexts[_i];
    cloud c = line_of(10, 0.03125f);
    spc_points *points = make_points(ctx, &c);
    spc_geometry g = geometry_of(layers[0]);
    spc_map *map;

    assert_done(spc_map_create_radius(&map, points, points, &g, 27));
    assert_done(spc_map_update(map, NULL, NULL, 0, NULL));
    ck_assert_int_eq(spc_map_check(map, NULL), SPC_ECAPACITY);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(ctx), "28 triplets"));
    ck_assert_int_eq(spc_map_pairs(map), 0);
    spc_map_free(map);
    assert_done(spc_map_create_radius(&map, points, points, &g, 28));
    assert_done(spc_map_update(map, NULL, NULL, 0, NULL));
    assert_done(spc_map_check(map, NULL));
    ck_assert_int_eq(spc_map_pairs(map), 28);
    spc_map_free(map);
    spc_points_free(points);
    release(&c);
}
END_TEST

/* Fills two frames of one cloud. Counts are on the device, and invalid rows are
 * ignored. */
START_TEST(clouds_are_filled_anew_by_a_count_on_the_device)
{
    spc_ctx *ctx = contexts[_i];
    spc_points_options o = SPC_POINTS_OPTIONS_INIT;
    cloud c = line_of(12, 0.03125f);
    spc_geometry g = geometry_of(layers[0]);
    int32_t counts[] = {12, 5, 17};
    spc_points *points;
    spc_map *map;

    o.capacity = 12;
    o.high[0] = 1;
    assert_done(spc_points_create_reserved(&points, ctx, &o));
    assert_done(spc_map_create_radius(&map, points, points, &g, 40));
    void *xyz = upload(ctx, c.at, 12 * 12);
    void *count = upload(ctx, counts, sizeof counts);
    for (int i = 0; i < 2; i++) {
        cloud part = {c.at, c.batch, counts[i], 1};
        relation want = define(&g, &part, &part, false);
        assert_done(spc_points_update(points, xyz, NULL, (int32_t *)count + i,
                                      0, NULL));
        assert_done(spc_map_update(map, NULL, NULL, 0, NULL));
        assert_done(spc_map_check(map, NULL));
        ck_assert_int_eq(spc_points_rows(points), counts[i]);
        check_map(ctx, map, &want, "a frame");
        free(want.all);
    }
    assert_done(
        spc_points_update(points, xyz, NULL, (int32_t *)count + 2, 0, NULL));
    ck_assert_int_eq(spc_points_check(points, NULL), SPC_ECAPACITY);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(ctx), "17"));
    ck_assert_int_eq(spc_points_rows(points), 0);
    spc_memory_free(ctx, xyz);
    spc_memory_free(ctx, count);
    spc_map_free(map);
    spc_points_free(points);
    release(&c);
}
END_TEST

static void refuse_update(spc_ctx *ctx, spc_points *points, const float *xyz,
                          const int32_t *count, const char *says)
{
    spc_status status = spc_points_update(points, xyz, NULL, count, 3, NULL);

    if (status == SPC_OK)
        status = spc_points_check(points, NULL);
    ck_assert_int_ne(status, SPC_OK);
    ck_assert_msg(strstr(spc_ctx_error(ctx), says) != NULL, "%s",
                  spc_ctx_error(ctx));
}

/* The error comes before anything is read from the pointers. */
static void refuse_create(spc_ctx *ctx, const float *xyz, const int32_t *batch,
                          int64_t rows, const char *says)
{
    spc_points *points = (spc_points *)&error;

    ck_assert_int_eq(spc_points_create(&points, ctx, xyz, batch, rows, NULL),
                     SPC_EINVAL);
    ck_assert_ptr_null(points);
    ck_assert_msg(strstr(spc_ctx_error(ctx), says) != NULL, "%s",
                  spc_ctx_error(ctx));
}

START_TEST(what_is_no_cloud_is_refused)
{
    static const int32_t counts[] = {-4, INT32_MIN, 7};
    static const char *const said[] = {"a count of -4 points", "a count of -",
                                       "a capacity of 7 would have fitted"};
    spc_ctx *ctx = contexts[_i];
    spc_points_options o = SPC_POINTS_OPTIONS_INIT;
    cloud c = line_of(6, 0.03125f);
    spc_points *points;

    o.capacity = 6;
    o.high[0] = 1;
    assert_done(spc_points_create_reserved(&points, ctx, &o));
    float *xyz = upload(ctx, c.at, 12 * 6);
    int32_t *count = upload(ctx, counts, sizeof counts);
    for (int i = 0; i < 3; i++)
        refuse_update(ctx, points, xyz, count + i, said[i]);
    refuse_update(ctx, points, NULL, NULL, "without points");
    refuse_update(ctx, points, (float *)((char *)xyz + 2), NULL,
                  "a multiple of 4 bytes");
    refuse_update(ctx, points, xyz, (int32_t *)((char *)count + 1),
                  "a multiple of 4 bytes");
    assert_done(spc_points_update(points, xyz, NULL, NULL, 6, NULL));
    assert_done(spc_points_check(points, NULL));
    spc_points_free(points);
    c.batch[2] = INT32_MAX;
    int32_t *batch = upload(ctx, c.batch, 4 * 6);
    ck_assert_int_eq(spc_points_create(&points, ctx, xyz, batch, 6, NULL),
                     SPC_ERANGE);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(ctx), "row 2: its batch"));
    refuse_create(ctx, NULL, NULL, 1, "without their coordinates");
    refuse_create(ctx, xyz, NULL, -1, "a cloud of -1 points");
    refuse_create(ctx, xyz, NULL, (int64_t)1 << 31, "of 2147483648 points");
    refuse_create(ctx, xyz, batch, (int64_t)1 << 62, "points: expected 0 to");
    refuse_create(ctx, (float *)((char *)xyz + 2), NULL, 5,
                  "a multiple of 4 bytes");
    refuse_create(ctx, xyz, (int32_t *)((char *)batch + 1), 5,
                  "a multiple of 4 bytes");
    spc_memory_free(ctx, xyz);
    spc_memory_free(ctx, count);
    spc_memory_free(ctx, batch);
    release(&c);
}
END_TEST

START_TEST(rows_that_are_no_points_are_seen_by_nobody)
{
    spc_ctx *ctx = contexts[_i];
    spc_points_options o = SPC_POINTS_OPTIONS_INIT;
    cloud c = line_of(6, 0.03125f);
    spc_geometry g = geometry_of(layers[0]);
    spc_points *points;
    spc_map *map;

    c.at[1][1] = NAN;
    c.at[3][2] = 2;
    c.batch[5] = 1;
    o.capacity = 6;
    o.high[0] = 1;
    assert_done(spc_points_create_reserved(&points, ctx, &o));
    assert_done(spc_map_create_radius(&map, points, points, &g, 40));
    void *xyz = upload(ctx, c.at, 12 * 6);
    void *batch = upload(ctx, c.batch, 4 * 6);
    assert_done(spc_points_update(points, xyz, batch, NULL, 6, NULL));
    ck_assert_int_eq(spc_points_check(points, NULL), SPC_ERANGE);
    ck_assert_ptr_nonnull(strstr(spc_ctx_error(ctx), "row 1: its y"));
    assert_done(spc_map_update(map, NULL, NULL, 0, NULL));
    ck_assert_int_eq(spc_map_check(map, NULL), SPC_ERANGE);
    spc_triplet got[3];
    const float line[6][3] = {{0, 0, 0}, {0.0625f, 0, 0}, {0.125f, 0, 0}};
    assert_done(spc_memory_upload(xyz, ctx, line, sizeof line));
    assert_done(spc_points_update(points, xyz, NULL, NULL, 3, NULL));
    assert_done(spc_map_update(map, NULL, NULL, 0, NULL));
    assert_done(spc_map_check(map, NULL));
    ck_assert_int_eq(spc_map_pairs(map), 3);
    assert_done(spc_map_download_triplets(got, map));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(got[i].in, got[i].out);
    spc_memory_free(ctx, xyz);
    spc_memory_free(ctx, batch);
    spc_map_free(map);
    spc_points_free(points);
    release(&c);
}
END_TEST

/* ---- sampling ------------------------------------------------------------ */

static int voxel_along(float at, float edge)
{
    volatile float scaled = at * (1 / edge);

    return (int)floorf(scaled);
}

/* The first row of each voxel: every row has a kept row in its voxel that does
 * not come after it, and no two kept rows share a voxel. */
static void check_sampled(const cloud *c, const int32_t *kept, int count,
                          float edge)
{
    for (int i = 0; i < c->rows; i++) {
        int in_voxel = 0;
        for (int k = 0; k < count; k++) {
            bool same = c->batch[kept[k]] == c->batch[i];
            for (int a = 0; a < 3; a++)
                same &= voxel_along(c->at[kept[k]][a], edge) ==
                        voxel_along(c->at[i][a], edge);
            in_voxel += same;
            ck_assert(!same || kept[k] <= i);
        }
        ck_assert_int_eq(in_voxel, 1);
    }
}

static void check_down(spc_ctx *ctx, const cloud *c, float edge)
{
    int32_t kept[150];
    float at[150][4];
    spc_points *points = make_points(ctx, c), *sampled;

    assert_done(spc_points_create_sampled(&sampled, points, edge));
    spc_points_free(points); /* the sampled cloud holds a reference */
    assert_done(spc_points_update(sampled, NULL, NULL, NULL, 0, NULL));
    assert_done(spc_points_check(sampled, NULL));
    int count = (int)spc_points_rows(sampled);
    ck_assert_int_gt(count, 1);
    assert_done(spc_memory_download(kept, ctx, spc_points_sources(sampled),
                                    4 * (size_t)count));
    assert_done(spc_memory_download(at, ctx, spc_points_data(sampled),
                                    16 * (size_t)count));
    check_sampled(c, kept, count, edge);
    for (int i = 0; i < count; i++)
        ck_assert_mem_eq(at[i], c->at[kept[i]], 12);
    spc_points_free(sampled);
}

START_TEST(down_sampling_keeps_the_first_point_of_each_voxel)
{
    spc__random random;

    spc__random_init(&random, 7);
    cloud c = draw_cloud(150, 2, 120, 1.0f / 1024, &random);
    check_down(contexts[_i], &c, 0.03125f);
    release(&c);
    for (int number = 0; number < AWKWARD; number++)
        if (!is_slow(_i) || suite_takes(number)) {
            c = draw_awkward(number, 100, &random);
            check_down(contexts[_i], &c, awkward[number].radius);
            release(&c);
        }
}
END_TEST

static float from_centre(const cloud *c, int row, float edge)
{
    float sum = 0;

    for (int a = 0; a < 3; a++) {
        volatile float scaled = c->at[row][a] * (1 / edge);
        volatile float d = scaled - floorf(scaled) - 0.5f;
        volatile float square = d * d;
        volatile float so_far = sum + square;
        sum = so_far;
    }
    return sum;
}

/* No point of a voxel is nearer to its centre than the kept one, and no earlier
 * one is as near. Returns how many kept points are not the first of their
 * voxels. */
static int check_centred(const cloud *c, const int32_t *kept, int count,
                         float edge)
{
    int others = 0;

    for (int k = 0; k < count; k++) {
        bool is_first = true;
        for (int i = 0; i < c->rows; i++) {
            bool same = c->batch[kept[k]] == c->batch[i];
            for (int a = 0; a < 3; a++)
                same &= voxel_along(c->at[kept[k]][a], edge) ==
                        voxel_along(c->at[i][a], edge);
            if (!same)
                continue;
            float at = from_centre(c, i, edge),
                  best = from_centre(c, kept[k], edge);
            ck_assert(at > best || (at == best && i >= kept[k]));
            is_first &= i >= kept[k];
        }
        others += !is_first;
    }
    return others;
}

/* Both ways of sampling keep a point of the same voxels. */
static int check_both(spc_ctx *ctx, const cloud *c, float edge)
{
    int32_t kept[150];
    float at[150][4];
    spc_points *points = make_points(ctx, c), *first, *centred;

    assert_done(spc_points_create_sampled(&first, points, edge));
    assert_done(spc_points_create_centred(&centred, points, edge));
    for (int frame = 0; frame < 2; frame++) {
        assert_done(spc_points_update(first, NULL, NULL, NULL, 0, NULL));
        assert_done(spc_points_update(centred, NULL, NULL, NULL, 0, NULL));
        assert_done(spc_points_check(first, NULL));
        assert_done(spc_points_check(centred, NULL));
    }
    int count = (int)spc_points_rows(centred);
    ck_assert_int_eq(count, spc_points_rows(first));
    assert_done(spc_memory_download(kept, ctx, spc_points_sources(centred),
                                    4 * (size_t)count));
    assert_done(spc_memory_download(at, ctx, spc_points_data(centred),
                                    16 * (size_t)count));
    for (int i = 0; i < count; i++)
        ck_assert_mem_eq(at[i], c->at[kept[i]], 12);
    int others = check_centred(c, kept, count, edge);
    spc_points_free(centred);
    spc_points_free(first);
    spc_points_free(points);
    return others;
}

START_TEST(centred_sampling_keeps_the_point_nearest_to_the_centre)
{
    spc__random random;

    spc__random_init(&random, 17);
    cloud c = draw_cloud(150, 2, 120, 1.0f / 1024, &random);
    ck_assert_int_gt(check_both(contexts[_i], &c, 0.03125f), 0);
    /* Every voxel has a single point, so there is no list of others. */
    check_both(contexts[_i], &c, 1.0f / 4096);
    release(&c);
    for (int number = 0; number < AWKWARD; number++)
        if (!is_slow(_i) || suite_takes(number)) {
            c = draw_awkward(number, 100, &random);
            check_both(contexts[_i], &c, awkward[number].radius);
            release(&c);
        }
}
END_TEST

/* ---- layers -------------------------------------------------------------- */

/* A layer with everything it needs on a device. */
typedef struct layer {
    spc_conv conv;
    spc_map *map;
    spc_plan *plan;
    void *in, *out, *weights, *packed, *work;
    size_t out_bytes;
} layer;

static void fill_with(spc_ctx *ctx, void *to, size_t floats, uint64_t seed)
{
    float *values = malloc(floats * sizeof *values);
    spc__random random;

    spc__random_init(&random, seed);
    for (size_t i = 0; i < floats; i++)
        values[i] = (float)((int)spc__random_below(&random, 7) - 3);
    assert_done(spc_memory_upload(to, ctx, values, floats * sizeof *values));
    free(values);
}

static layer make_layer(spc_ctx *ctx, const char *text, const spc_scene *scene)
{
    layer l;

    ck_assert_msg(spc_conv_parse(&l.conv, text, &error) == SPC_OK, "%s",
                  error.text);
    assert_done(spc_map_create_from_scene(&l.map, ctx, &l.conv, scene));
    assert_done(spc_plan_create(&l.plan, ctx, &l.conv, l.map, SPC_PLAN_JIT));
    size_t in =
        spc_conv_operand_bytes(&l.conv, SPC_OPERAND_IN, spc_map_rows_in(l.map));
    bool wgrad = l.conv.pass == SPC_WGRAD;
    size_t weights =
        wgrad ? spc_conv_operand_bytes(&l.conv, SPC_OPERAND_RESIDUAL,
                                       spc_map_rows_out(l.map))
              : spc_conv_operand_bytes(&l.conv, SPC_OPERAND_WEIGHTS, 0);
    l.out_bytes = spc_conv_operand_bytes(&l.conv, SPC_OPERAND_OUT,
                                         spc_map_rows_out(l.map));
    assert_done(spc_memory_alloc(&l.in, ctx, in));
    assert_done(spc_memory_alloc(&l.out, ctx, l.out_bytes));
    assert_done(spc_memory_alloc(&l.weights, ctx, weights));
    assert_done(
        spc_memory_alloc(&l.packed, ctx, spc_plan_weights_bytes(l.plan)));
    assert_done(spc_memory_alloc(&l.work, ctx,
                                 spc_plan_workspace_bytes(l.plan, l.map) + 1));
    fill_with(ctx, l.in, in / 4, 1);
    fill_with(ctx, l.weights, weights / 4, 2);
    if (!wgrad)
        assert_done(spc_plan_pack(l.packed, l.plan, l.weights, SPC_KRSC, NULL));
    return l;
}

static void *run_layer(spc_ctx *ctx, layer *l)
{
    bool wgrad = l->conv.pass == SPC_WGRAD; /* its second operand is dy */
    spc_buffers buffers = {.bytes = sizeof(spc_buffers),
                           .in = l->in,
                           .out = l->out,
                           .weights = wgrad ? NULL : l->packed,
                           .grad = wgrad ? l->weights : NULL,
                           .workspace = l->work};
    void *host = malloc(l->out_bytes);

    assert_done(spc_plan_execute(l->plan, l->map, &buffers, NULL));
    assert_done(spc_ctx_synchronize(ctx));
    assert_done(spc_memory_download(host, ctx, l->out, l->out_bytes));
    return host;
}

static void free_layer(spc_ctx *ctx, layer *l)
{
    spc_plan_free(l->plan);
    spc_map_free(l->map);
    spc_memory_free(ctx, l->in);
    spc_memory_free(ctx, l->out);
    spc_memory_free(ctx, l->weights);
    spc_memory_free(ctx, l->packed);
    spc_memory_free(ctx, l->work);
}

/* With whole steps, a radius of 1.75 steps contains exactly the cube of 27. */
START_TEST(voxel_convolution_is_a_special_case_bit_by_bit)
{
    spc_ctx *ctx = contexts[_i];
    spc_scene *scene;

    ck_assert_int_eq(
        spc_scene_load(&scene, "gen:uniform,n=200,extent=9", &error), SPC_OK);
    layer voxels = make_layer(ctx, "subm,cin=16,cout=24,k=3,dtype=f32", scene);
    layer points = make_layer(
        ctx, "points,cin=16,cout=24,k=3,radius=0.001708984375,dtype=f32",
        scene);
    ck_assert_int_eq(spc_map_pairs(voxels.map), spc_map_pairs(points.map));
    void *want = run_layer(ctx, &voxels), *got = run_layer(ctx, &points);
    ck_assert_mem_eq(want, got, voxels.out_bytes);
    free(want);
    free(got);
    free_layer(ctx, &voxels);
    free_layer(ctx, &points);
    spc_scene_free(scene);
}
END_TEST

static float *fetch_floats(spc_ctx *ctx, const void *from, size_t floats)
{
    float *to = malloc(floats * sizeof *to);

    assert_done(spc_memory_download(to, ctx, from, floats * sizeof *to));
    return to;
}

/* Gives `back` the weights of `forth` with inputs and outputs exchanged. */
static void swap_weights(spc_ctx *ctx, layer *back, const layer *forth)
{
    size_t in = (size_t)forth->conv.cin, out = (size_t)forth->conv.cout;
    size_t offsets = (size_t)spc_geometry_offset_count(&forth->conv.geometry);
    float *from = fetch_floats(ctx, forth->weights, in * out * offsets);
    float *to = malloc(in * out * offsets * sizeof *to);

    for (size_t i = 0; i < in; i++)
        for (size_t k = 0; k < offsets; k++)
            for (size_t o = 0; o < out; o++)
                to[(i * offsets + k) * out + o] =
                    from[(o * offsets + k) * in + i];
    assert_done(spc_memory_upload(back->weights, ctx, to,
                                  in * out * offsets * sizeof *to));
    assert_done(
        spc_plan_pack(back->packed, back->plan, back->weights, SPC_KRSC, NULL));
    free(from);
    free(to);
}

/* Returns <result of run, in of other>, in integers. */
static double product(spc_ctx *ctx, layer *run, const layer *other)
{
    float *result = run_layer(ctx, run);
    float *in = fetch_floats(ctx, other->in, run->out_bytes / 4);
    double sum = 0;

    for (size_t i = 0; i < run->out_bytes / 4; i++)
        sum += (double)result[i] * (double)in[i];
    free(result);
    free(in);
    return sum;
}

static const struct {
    const char *forth, *back;
} adjoints[] = {
    {"points,cin=8,cout=12,k=3,radius=0.003,dtype=f32",
     "inverse,cin=12,cout=8,k=3,rule=radius,radius=0.003,dtype=f32"},
    {"points,cin=8,cout=12,k=5,radius=0.004,voxel=0.002,dtype=f32",
     "inverse,cin=12,cout=8,k=5,rule=radius,radius=0.004,voxel=0.002,"
     "dtype=f32"},
    {"points,cin=8,cout=12,k=3,radius=0.003,nearest=4,dtype=f32",
     "inverse,cin=12,cout=8,k=3,rule=radius,radius=0.003,nearest=4,dtype=f32"},
};
enum { ADJOINTS = sizeof adjoints / sizeof *adjoints };

/* The adjoint: <y, conv x> = <inverse y, x>. */
START_TEST(the_inverse_with_swapped_weights_is_the_adjoint)
{
    spc_ctx *ctx = contexts[_i % context_count];
    int pair = _i / context_count;
    spc_scene *scene;

    ck_assert_int_eq(
        spc_scene_load(&scene, "gen:uniform,n=150,extent=8", &error), SPC_OK);
    layer forth = make_layer(ctx, adjoints[pair].forth, scene);
    layer back = make_layer(ctx, adjoints[pair].back, scene);
    ck_assert_int_eq(spc_map_pairs(forth.map), spc_map_pairs(back.map));
    swap_weights(ctx, &back, &forth);
    double there = product(ctx, &forth, &back);
    ck_assert_double_ne(there, 0);
    ck_assert_double_eq(there, product(ctx, &back, &forth));
    free_layer(ctx, &forth);
    free_layer(ctx, &back);
    spc_scene_free(scene);
}
END_TEST

/* Five equal points have features of 60000. Their sum exceeds f16, but the
 * result does not. */
static void add_large_inputs(spc_ctx *ctx)
{
    enum { ROWS = 5, CHANNELS = 8, OUT = 96 };
    const int32_t coords[ROWS][4] = {{0}};
    uint16_t in[ROWS * CHANNELS], weights[CHANNELS * OUT];
    spc_scene *scene;

    ck_assert_int_eq(spc_scene_create(&scene, coords[0], ROWS, "equal", &error),
                     SPC_OK);
    layer l = make_layer(
        ctx, "points,cin=8,cout=96,k=1,radius=0.01,dtype=f16,out=f32", scene);
    for (int i = 0; i < ROWS * CHANNELS; i++)
        in[i] = 0x7b53; /* 60000 rounded to f16 */
    for (int i = 0; i < CHANNELS * OUT; i++)
        weights[i] = 0x1400; /* 2^-10 */
    assert_done(spc_memory_upload(l.in, ctx, in, sizeof in));
    assert_done(spc_memory_upload(l.weights, ctx, weights, sizeof weights));
    assert_done(spc_plan_pack(l.packed, l.plan, l.weights, SPC_KRSC, NULL));
    float *out = run_layer(ctx, &l);
    for (int i = 0; i < ROWS * OUT; i++)
        ck_assert_float_eq(out[i], 60000.0f / 1024 * ROWS * CHANNELS);
    free(out);
    free_layer(ctx, &l);
    spc_scene_free(scene);
}

START_TEST(sums_of_inputs_may_be_more_than_their_type_holds)
{
    add_large_inputs(contexts[_i]);
}
END_TEST

/* Copies the templates of points into a folder. */
static void copy_templates(const char *folder, const char *const *names)
{
    for (; *names; names++) {
        spc__buf text = SPC__BUF_INIT, from = SPC__BUF_INIT, to = SPC__BUF_INIT;
        spc__buf_printf(&from, "%s/%s", suite_path("../templates/points"),
                        *names);
        spc__buf_printf(&to, "%s/%s", folder, *names);
        assert_sound(
            spc__file_read(&text, spc__buf_text(&from), 1 << 20, &error));
        assert_sound(spc__file_write(spc__buf_text(&to), text.data, text.length,
                                     &error));
        spc__buf_release(&text);
        spc__buf_release(&from);
        spc__buf_release(&to);
    }
}

/* Tests points_mma, the preferred kernel on GPUs without wgmma. */
START_TEST(sums_are_multiplied_in_parts_until_nothing_is_left)
{
    static const char *const names[] = {"points_mma.cu.lua", NULL};
    spc_ctx_options o = SPC_CTX_OPTIONS_INIT;
    spc__buf folder = SPC__BUF_INIT;
    spc_ctx *ctx;

    assert_sound(spc__temp_dir_create(&folder, &error));
    copy_templates(spc__buf_text(&folder), names);
    o.device = "sim";
    o.database = "";
    o.template_dir = spc__buf_text(&folder);
    assert_sound(spc_ctx_create(&ctx, &o, &error));
    add_large_inputs(ctx);
    spc_ctx_free(ctx);
    spc__temp_dir_remove(spc__buf_text(&folder));
    spc__buf_release(&folder);
}
END_TEST

/* Counts the bytes that are allocated on a device; frees are not subtracted. */
static const spc__device_ops *counted;
static size_t counted_bytes;

static spc_status count_alloc(spc__device *device, void **out, size_t bytes,
                              spc_error *e)
{
    counted_bytes += bytes;
    return counted->alloc(device, out, bytes, e);
}

static void set_ops(spc_ctx *ctx, const spc__device_ops *ops)
{
    ((struct spc__device_head *)ctx->device)->ops = ops;
}

/* Returns the bytes that a pass of a layer allocates until it has run. The
 * second run must allocate nothing. */
static size_t bytes_of(spc_ctx *ctx, const char *text, spc_pass pass,
                       const spc_scene *scene, int64_t *triplets)
{
    char of_pass[240];
    spc_conv conv;

    assert_sound(spc_conv_parse(&conv, text, &error));
    assert_sound(spc_conv_pass(&conv, &conv, pass, &error));
    spc_conv_format(of_pass, sizeof of_pass, &conv);
    counted_bytes = 0;
    layer l = make_layer(ctx, of_pass, scene);
    size_t made = counted_bytes;
    for (int i = 0; i < 2; i++)
        free(run_layer(ctx, &l));
    ck_assert_uint_eq(counted_bytes, made);
    if (pass != SPC_WGRAD)
        ck_assert_uint_eq(spc_plan_workspace_bytes(l.plan, l.map), 0);
    *triplets = spc_map_pairs(l.map);
    free_layer(ctx, &l);
    return made;
}

/*
 * The features of a triplet would take 64 and 96 bytes. The list of triplets
 * takes two numbers for each. A weight gradient has a second list, in the order
 * in which the kernel reads it, with four numbers for each. The partial sums of
 * its blocks have the size of the weights and do not grow with the triplets.
 */
START_TEST(a_layer_needs_no_memory_besides_triplets_and_operands)
{
    static const char *const layers_of[] = {
        "points,cin=32,cout=48,k=3,radius=0.002",
        "points,cin=32,cout=48,k=3,radius=0.006"};
    static const int64_t most[] = {16, 16, 24};
    spc_ctx *ctx = contexts[_i % context_count];
    int pass = _i / context_count;
    spc__device_ops counting = *spc__device_ops_of(ctx->device);
    int64_t triplets[2];
    size_t bytes[2];
    spc_scene *scene;

    ck_assert_int_eq(
        spc_scene_load(&scene, "gen:uniform,n=200,extent=9", &error), SPC_OK);
    counted = spc__device_ops_of(ctx->device);
    counting.alloc = count_alloc;
    set_ops(ctx, &counting);
    for (int i = 0; i < 2; i++)
        bytes[i] =
            bytes_of(ctx, layers_of[i], (spc_pass)pass, scene, &triplets[i]);
    set_ops(ctx, counted);
    ck_assert_int_gt(triplets[1], 5 * triplets[0]);
    ck_assert_int_le((int64_t)(bytes[1] - bytes[0]),
                     most[pass] * (triplets[1] - triplets[0]));
    spc_scene_free(scene);
}
END_TEST

/* ---- failures of the device ---------------------------------------------- */

/* Passes calls on to the device, until one of them fails. */
static const spc__device_ops *whole;
static int calls_left;

static spc_status fails_now(spc_error *e)
{
    return --calls_left == 0
               ? spc__fail(e, SPC_EDEVICE, "this call was made to fail")
               : SPC_OK;
}

static spc_status failing_alloc(spc__device *device, void **out, size_t bytes,
                                spc_error *e)
{
    spc_status status = fails_now(e);

    *out = NULL;
    return status == SPC_OK ? whole->alloc(device, out, bytes, e) : status;
}

static spc_status failing_launch(spc__device *device, spc__kernel *kernel,
                                 const spc__launch *launch, const void *args,
                                 size_t args_bytes, void *stream, spc_error *e)
{
    spc_status status = fails_now(e);

    return status == SPC_OK ? whole->launch(device, kernel, launch, args,
                                            args_bytes, stream, e)
                            : status;
}

/* Prepares a list; the `nth` allocation or launch fails. */
static spc_status
prepare_failing(spc_map *map, spc_status (*prepare)(spc_map *, void *), int nth)
{
    spc__device_ops failing = *spc__device_ops_of(map->ctx->device);

    whole = spc__device_ops_of(map->ctx->device);
    failing.alloc = failing_alloc;
    failing.launch = failing_launch;
    calls_left = nth;
    set_ops(map->ctx, &failing);
    spc_status status = prepare(map, NULL);
    set_ops(map->ctx, whole);
    return status;
}

/* Each call fails once. Then the list does not exist, and the next preparation
 * makes it. */
START_TEST(a_list_that_failed_is_made_by_the_next_preparation)
{
    static spc_status (*const prepares[])(spc_map *, void *) = {
        spc__map_prepare_bundles, spc__map_prepare_inputs};
    spc_ctx *ctx = contexts[_i % context_count];
    int which = _i / context_count, failed = 0;
    spc_geometry g = geometry_of(layers[0]);
    cloud c = line_of(10, 0.03125f);
    spc_points *points = make_points(ctx, &c);
    relation want = define(&g, &c, &c, false);
    spc_triplets_view view;
    spc_pairs_view inputs;

    for (spc_status status = SPC_EDEVICE; status != SPC_OK; failed++) {
        spc_map *map;
        assert_done(
            spc_map_create_radius(&map, points, points, &g, want.count));
        assert_done(spc_map_update(map, NULL, NULL, 0, NULL));
        assert_done(spc_map_check(map, NULL));
        status = prepare_failing(map, prepares[which], failed + 1);
        if (status != SPC_OK)
            ck_assert(!spc__map_bundles_view(&view, map) &&
                      !spc__map_inputs_view(&view, &inputs, map));
        check_map(ctx, map, &want, "after a failure");
        spc_map_free(map);
    }
    ck_assert_int_gt(failed, 1); /* only the last round has no failure */
    spc_points_free(points);
    free(want.all);
    release(&c);
}
END_TEST

/* Accepts the first candidate of each 64, and those in the sample. */
static bool wants(const char *template_name, const char *config, void *payload)
{
    int number = (*(int *)payload)++;

    (void)template_name;
    (void)config;
    return number % 64 == 0 || suite_takes(number);
}

static const char *const verified[] = {
    "points,cin=16,cout=24,k=3,radius=0.003",
    "points,cin=40,cout=72,k=3x1x2,radius=0.004,nearest=7,dtype=f32,"
    "epilogue=scale+bias+relu",
    "points,cin=12,cout=20,groups=4,k=2,radius=0.003,voxel=0.002,dtype=i8",
    "points,cin=16,cout=24,k=3,radius=0.004,nearest=6,voxel=0.002,dtype=bf16,"
    "deterministic=1,pass=dgrad",
    "points,cin=16,cout=24,k=3,radius=0.003,nearest=9,dtype=f16,pass=wgrad",
};
enum { VERIFIED = sizeof verified / sizeof *verified };

START_TEST(every_candidate_passes_the_gate)
{
    spc_ctx *ctx = contexts[_i % context_count];
    const char *text = verified[_i / context_count];
    bool slow = is_slow(_i % context_count);
    spc_tune_options o = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report report;
    spc_scene *scene;
    spc_conv conv;
    int seen = 0;

    if (slow && _i >= context_count && !suite_takes(_i / context_count))
        return;

    ck_assert_msg(spc_conv_parse(&conv, text, &error) == SPC_OK, "%s",
                  error.text);
    ck_assert_int_eq(
        spc_scene_load(&scene, "gen:uniform,n=90,extent=12,batch=2", &error),
        SPC_OK);
    const spc_scene *scenes[] = {scene};
    o.stage = SPC_STAGE_VERIFY;
    if (slow) {
        o.wants = wants;
        o.payload = &seen;
    }
    assert_done(spc_tune(&report, ctx, &conv, scenes, 1, &o));
    ck_assert_int_gt(report.verified, 0);
    ck_assert_int_eq(report.failed, 0);
    spc_scene_free(scene);
}
END_TEST

/* ---- error messages ------------------------------------------------------ */

static const struct {
    const char *layer, *says;
} refused[] = {
    {"points,cin=8,cout=8,k=3", "'radius' is missing"},
    {"points,cin=8,cout=8,k=3,radius=-1", "radius=-1: expected a number"},
    {"points,cin=8,cout=8,k=3,radius=1e-30",
     "radius=1e-30: expected a length from 8.67e-19 to 1.15e+18"},
    {"points,cin=8,cout=8,k=3,radius=0.1,voxel=1e30", "voxel=1e+30: expected"},
    {"points,cin=8,cout=8,k=3,radius=0.1,stride=2", "layers of points have "
                                                    "none"},
    {"subm,cin=8,cout=8,k=3,radius=0.1",
     "only layers of points, which have the rule"},
    {"points,cin=8,cout=8,k=3,radius=0.1,nearest=0",
     "nearest=0: expected 1 to 1048576 points"},
};
enum { REFUSED = sizeof refused / sizeof *refused };

START_TEST(what_cannot_be_a_layer_of_points_is_refused_with_a_sentence)
{
    spc_conv conv;

    ck_assert_int_eq(spc_conv_parse(&conv, refused[_i].layer, &error),
                     SPC_EINVAL);
    ck_assert_msg(strstr(error.text, refused[_i].says) != NULL, "%s",
                  error.text);
}
END_TEST

START_TEST(a_layer_reads_back_what_it_writes)
{
    const char *const text = "points,cin=64,cout=128,k=3,radius=0.1,"
                             "nearest=16,voxel=0.05,dtype=f16";
    spc_conv conv;
    char written[200];

    ck_assert_int_eq(spc_conv_parse(&conv, text, &error), SPC_OK);
    spc_conv_format(written, sizeof written, &conv);
    ck_assert_str_eq(written, text);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

/* Loads the code of maps once for all processes that follow. */
static void load_maps(spc_ctx *ctx)
{
    const int32_t origin[4] = {0};
    spc_scene *scene;
    spc_conv conv;
    spc_map *map;

    if (spc_scene_create(&scene, origin, 1, "", &error) == SPC_OK &&
        spc_conv_parse(&conv, layers[0], &error) == SPC_OK &&
        spc_map_create_from_scene(&map, ctx, &conv, scene) == SPC_OK) {
        spc_map_free(map);
        spc_scene_free(scene);
    }
}

static void open_contexts(void)
{
    const char *const both[] = {"cpu", "sim"};
    spc_ctx_options o = SPC_CTX_OPTIONS_INIT;

    context_count = suite_device ? 1 : 2;
    o.database = suite_database();
    o.threads = 2;
    for (int i = 0; i < context_count; i++) {
        o.device = suite_device ? suite_device : both[i];
        if (spc_ctx_create(&contexts[i], &o, &error) != SPC_OK) {
            fprintf(stderr, "%s\n", error.text);
            exit(EXIT_FAILURE);
        }
        load_maps(contexts[i]);
    }
}

int main(int argc, char **argv)
{
    int status = suite_open(argc, argv);

    if (status != 0)
        return status;
    Suite *suite = suite_create("points");
    TCase *cases = tcase_create("clouds"), *of_layers = tcase_create("layers");
    tcase_set_timeout(cases, 300);
    tcase_set_timeout(of_layers, 300);
    suite_share_skips(); /* before the emulation poisons its stacks */
    open_contexts();
#ifdef SPC_SANITIZE
    suite_sample(16);
#else
    suite_sample(8);
#endif
    suite_add_tcase(suite, cases);
    suite_add_tcase(suite, of_layers);
    tcase_add_loop_test(cases, maps_of_fifty_clouds_are_those_of_the_definition,
                        0, context_count);
    tcase_add_loop_test(cases, awkward_coordinates_are_seen_as_the_rule_rounds,
                        0, context_count);
    tcase_add_loop_test(cases, points_on_the_radius_are_found_behind_a_border,
                        0, context_count);
    tcase_add_loop_test(cases, points_that_lie_densely_are_all_found, 0,
                        context_count);
    tcase_add_loop_test(cases, one_radius_makes_sense_with_any_number_of_cells,
                        0, context_count);
    tcase_add_loop_test(
        cases, a_map_without_room_holds_nothing_and_says_what_would_fit, 0,
        context_count);
    tcase_add_loop_test(cases, clouds_are_filled_anew_by_a_count_on_the_device,
                        0, context_count);
    tcase_add_loop_test(cases, rows_that_are_no_points_are_seen_by_nobody, 0,
                        context_count);
    tcase_add_loop_test(cases, what_is_no_cloud_is_refused, 0, context_count);
    tcase_add_loop_test(cases,
                        down_sampling_keeps_the_first_point_of_each_voxel, 0,
                        context_count);
    tcase_add_loop_test(cases,
                        centred_sampling_keeps_the_point_nearest_to_the_centre,
                        0, context_count);
    tcase_add_loop_test(of_layers,
                        voxel_convolution_is_a_special_case_bit_by_bit, 0,
                        context_count);
    tcase_add_loop_test(of_layers,
                        sums_of_inputs_may_be_more_than_their_type_holds, 0,
                        context_count);
    if (suite_device == NULL)
        tcase_add_test(of_layers,
                       sums_are_multiplied_in_parts_until_nothing_is_left);
    tcase_add_loop_test(of_layers,
                        a_layer_needs_no_memory_besides_triplets_and_operands,
                        0, 3 * context_count);
    tcase_add_loop_test(of_layers,
                        a_list_that_failed_is_made_by_the_next_preparation, 0,
                        2 * context_count);
    tcase_add_loop_test(of_layers,
                        the_inverse_with_swapped_weights_is_the_adjoint, 0,
                        context_count * ADJOINTS);
    tcase_add_loop_test(of_layers, every_candidate_passes_the_gate, 0,
                        context_count * VERIFIED);
    tcase_add_loop_test(
        of_layers, what_cannot_be_a_layer_of_points_is_refused_with_a_sentence,
        0, REFUSED);
    tcase_add_test(of_layers, a_layer_reads_back_what_it_writes);
    status = run_suite(suite);
    for (int i = 0; i < context_count; i++)
        spc_ctx_free(contexts[i]);
    return status;
}
