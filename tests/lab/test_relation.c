/* SPDX-License-Identifier: Apache-2.0 */
/* test_relation.c - the relation of a layer against its definition. */
#include "base/random.h"
#include "harness/counted_allocations.h"
#include "harness/suite.h"
#include "lab/oracle/relation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static spc_error error;

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

/* Check reports every assertion to its parent process, which is slow in
 * loops. */
#define require(condition, ...)                                                \
    do {                                                                       \
        if (!(condition))                                                      \
            ck_abort_msg(__VA_ARGS__);                                         \
    } while (0)

/* ---- the definition, by exhaustive search -------------------------------- */

static int64_t floor_of(int64_t value, int64_t by)
{
    int64_t q = value / by;
    return q * by > value ? q - 1 : q;
}

/* Returns the first input coordinate that output 0 sees, by the rule that spc.h
 * documents. */
static int64_t origin_of(const spc_geometry *g, int axis)
{
    int k = g->kernel[axis];
    if (g->origin[axis] != SPC_ORIGIN_AUTO)
        return g->origin[axis];
    if (g->rule == SPC_RULE_FOOTPRINT)
        return -g->padding[axis];
    if (g->rule >= SPC_RULE_FLOOR && k % 2 == 0)
        return 0;
    return -(int64_t)g->dilation[axis] * ((k - 1) / 2);
}

/* Lists the displacement of every offset; z varies fastest. */
static int list_offsets(int64_t out[][3], const spc_geometry *g)
{
    int count = 0;
    if (g->offset_count > 0)
        for (; count < g->offset_count; count++)
            for (int axis = 0; axis < 3; axis++)
                out[count][axis] = g->offsets[3 * count + axis];
    else
        for (int i = 0; i < g->kernel[0]; i++)
            for (int j = 0; j < g->kernel[1]; j++)
                for (int l = 0; l < g->kernel[2]; l++, count++) {
                    int tap[3] = {i, j, l};
                    for (int a = 0; a < 3; a++)
                        out[count][a] =
                            origin_of(g, a) + g->dilation[a] * tap[a];
                }
    return count;
}

/* True if output o sees input i at this displacement. */
static bool sees(const spc_geometry *g, const int32_t o[4], const int32_t i[4],
                 const int64_t offset[3])
{
    bool seen = o[0] == i[0];
    for (int a = 0; a < 3; a++)
        seen &= (int64_t)o[1 + a] * g->stride[a] + offset[a] == i[1 + a];
    return seen;
}

typedef struct rows {
    int32_t (*at)[4];
    int count;
} rows;

static int compare(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    for (int i = 0; i < 4; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static bool inside_shape(const spc_geometry *g, const int32_t o[4])
{
    for (int a = 0; a < 3; a++) {
        if (g->shape[a] == 0)
            continue;
        int64_t ends = 2 * g->padding[a] - g->dilation[a] * (g->kernel[a] - 1);
        int low = 0, high = 0;
        for (int k = 0; k < g->offset_count; k++) {
            int at = g->offsets[3 * k + a];
            low = k == 0 || at < low ? at : low;
            high = k == 0 || at > high ? at : high;
        }
        if (g->offset_count > 0)
            ends = -low - high;
        int64_t most = (g->shape[a] + ends - 1) / g->stride[a] + 1;
        if (o[1 + a] < 0 || o[1 + a] >= most)
            return false;
    }
    return true;
}

static bool inside_generated(const spc_geometry *g, const int32_t o[4])
{
    for (int a = 0; a < 3; a++)
        if (g->shape[a] > 0 && (o[1 + a] < 0 || o[1 + a] >= g->shape[a]))
            return false;
    return true;
}

/* True if `o` is at this displacement from the coarse voxel of `i`. */
static bool surrounds(const spc_geometry *g, const int32_t o[4],
                      const int32_t i[4], const int64_t offset[3])
{
    bool is = o[0] == i[0];
    for (int a = 0; a < 3; a++)
        is &= floor_of(i[1 + a], g->stride[a]) + offset[a] == o[1 + a];
    return is;
}

/* True if `o` is an output of the layer, as spc_rule defines it. */
static bool is_output(const spc_geometry *g, const int32_t o[4], const rows *in)
{
    int64_t offsets[SPC_MAX_OFFSETS][3];
    int k = list_offsets(offsets, g);
    for (int i = 0; i < in->count; i++) {
        const int32_t *at = in->at[i];
        bool floored = at[0] == o[0];
        for (int a = 0; a < 3; a++)
            floored &= floor_of(at[1 + a], g->stride[a]) == o[1 + a];
        if (g->rule == SPC_RULE_FLOOR && floored)
            return true;
        for (int n = 0; n < k && g->rule == SPC_RULE_FOOTPRINT; n++)
            if (sees(g, o, at, offsets[n]))
                return inside_shape(g, o);
        for (int n = 0; n < k && g->rule == SPC_RULE_GENERATIVE; n++)
            if (sees(g, at, o, offsets[n]))
                return inside_generated(g, o);
        for (int n = 0; n < k && g->rule == SPC_RULE_EXPAND; n++)
            if (surrounds(g, o, at, offsets[n]))
                return true;
    }
    return false;
}

/* Finds the outputs: tests every cell of a box that contains all of them, in
 * ascending order. */
static rows strided_rows(const spc_geometry *g, const rows *in, int from,
                         int to)
{
    rows out = {malloc(sizeof(int32_t[4]) * 2 * (size_t)(to - from) *
                       (size_t)(to - from) * (size_t)(to - from)),
                0};
    for (int b = 0; b < 2; b++)
        for (int x = from; x < to; x++)
            for (int y = from; y < to; y++)
                for (int z = from; z < to; z++) {
                    int32_t at[4] = {b, x, y, z};
                    if (is_output(g, at, in))
                        memcpy(out.at[out.count++], at, sizeof(at));
                }
    return out;
}

static void assert_rows(const int32_t *got, int64_t count, const rows *want,
                        const char *which)
{
    ck_assert_msg(count == want->count, "%lld %s rows, not %d",
                  (long long)count, which, want->count);
    for (int i = 0; i < want->count; i++)
        require(memcmp(got + 4 * i, want->at[i], 16) == 0,
                "%s row %d is (%d, %d, %d) of batch %d", which, i,
                got[4 * i + 1], got[4 * i + 2], got[4 * i + 3], got[4 * i]);
}

/* Compares every entry of the index with the definition. */
static void assert_index(const spc_relation *r, const spc_conv *conv)
{
    int64_t offsets[SPC_MAX_OFFSETS][3], pairs = 0;
    int count = list_offsets(offsets, &conv->geometry);

    ck_assert_int_eq(r->offsets, count);
    for (int k = 0; k < count; k++)
        for (int64_t o = 0; o < r->rows_out; o++) {
            const int32_t *to = r->coords_out + 4 * o;
            int64_t want = -1;
            for (int64_t i = 0; i < r->rows_in; i++) {
                const int32_t *from = r->coords_in + 4 * i;
                bool pair = conv->op >= SPC_INVERSE
                                ? sees(&conv->geometry, from, to, offsets[k])
                                : sees(&conv->geometry, to, from, offsets[k]);
                want = pair ? i : want;
            }
            require(r->index[k * r->rows_out + o] == want,
                    "offset %d of output %lld: %d, not %lld", k, (long long)o,
                    r->index[k * r->rows_out + o], (long long)want);
            pairs += want >= 0;
        }
    ck_assert_int_eq(r->pairs, pairs);
}

/* ---- all rules ----------------------------------------------------------- */

enum { LOW = -5, HIGH = 6 };

/*
 * Makes distinct voxels of two batch elements in a box around the origin,
 * unordered and including the corners of the box.
 */
static rows random_rows(int count, uint64_t seed)
{
    enum { EDGE = HIGH - LOW };
    rows out = {malloc(sizeof(int32_t[4]) * (size_t)count), 0};
    spc__random random;

    spc__random_init(&random, seed);
    while (out.count < count) {
        int32_t *at = out.at[out.count];
        at[0] = (int32_t)spc__random_below(&random, 2);
        for (int a = 1; a < 4; a++)
            at[a] = out.count < 2
                        ? (out.count == 0 ? LOW : HIGH - 1)
                        : LOW + (int32_t)spc__random_below(&random, EDGE);
        bool known = false;
        for (int i = 0; i < out.count; i++)
            known |= compare(out.at[i], at) == 0;
        out.count += !known;
    }
    return out;
}

static const char *const layers[] = {
    "subm,cin=1,cout=1,k=1",
    "subm,cin=1,cout=1,k=2",
    "subm,cin=1,cout=1,k=3",
    "subm,cin=1,cout=1,k=4x1x3",
    "subm,cin=1,cout=1,k=5",
    "subm,cin=1,cout=1,k=7",
    "subm,cin=1,cout=1,k=3x2x1,dilation=2x3x1",
    "subm,cin=1,cout=1,k=3,origin=0x-2x1",
    "conv,cin=1,cout=1,rule=floor,k=1,stride=2",
    "conv,cin=1,cout=1,rule=floor,k=2,stride=2",
    "conv,cin=1,cout=1,rule=floor,k=3,stride=2",
    "conv,cin=1,cout=1,rule=floor,k=3,stride=1",
    "conv,cin=1,cout=1,rule=floor,k=4,stride=3",
    "conv,cin=1,cout=1,rule=floor,k=5,stride=3",
    "conv,cin=1,cout=1,rule=floor,k=2x3x1,stride=2x3x1,dilation=1x2x1",
    "conv,cin=1,cout=1,rule=floor,k=3,stride=2,origin=0",
    "conv,cin=1,cout=1,rule=floor,k=2,stride=2,origin=-1x1x0",
    "conv,cin=1,cout=1,rule=footprint,k=1,stride=2",
    "conv,cin=1,cout=1,rule=footprint,k=2,stride=2",
    "conv,cin=1,cout=1,rule=footprint,k=2,stride=3",
    "conv,cin=1,cout=1,rule=footprint,k=3,stride=1,padding=1",
    "conv,cin=1,cout=1,rule=footprint,k=3x3x1,stride=1,padding=1x1x0",
    "conv,cin=1,cout=1,rule=footprint,k=3,stride=2,padding=1",
    "conv,cin=1,cout=1,rule=footprint,k=3,stride=2,padding=1x1x0",
    "conv,cin=1,cout=1,rule=footprint,k=4,stride=2,padding=1",
    "conv,cin=1,cout=1,rule=footprint,k=5,stride=3,padding=2",
    "conv,cin=1,cout=1,rule=footprint,k=1x1x3,stride=1x1x2",
    "conv,cin=1,cout=1,rule=footprint,k=3x3x2,stride=2,dilation=2x1x3,"
    "padding=2x0x3",
    /* shapes that clip: even, odd, on one axis, smaller than the scene */
    "conv,cin=1,cout=1,rule=footprint,k=2,stride=2,shape=6",
    "conv,cin=1,cout=1,rule=footprint,k=2,stride=2,shape=5",
    "conv,cin=1,cout=1,rule=footprint,k=3,stride=2,padding=1,shape=6x5x3",
    "conv,cin=1,cout=1,rule=footprint,k=3,stride=1,padding=1,shape=6",
    "conv,cin=1,cout=1,rule=footprint,k=3,stride=3,dilation=2,padding=2,"
    "shape=6x6x7",
};

static spc_scene *scene_of(const rows *r)
{
    spc_scene *scene = NULL;
    assert_ok(
        spc_scene_create(&scene, r->at[0], r->count, "some voxels", &error));
    return scene;
}

/* Checks the layer and, if it is strided, its inverse. */
static void check_layer(spc_conv *conv, const rows *in, int threads)
{
    spc_scene *scene = scene_of(in);
    spc_relation forward, inverse;
    rows out = *in;

    assert_ok(spc_oracle_relation(&forward, conv, scene, threads, &error));
    if (conv->op == SPC_CONV)
        out = strided_rows(&conv->geometry, in, LOW - 3, HIGH + 3);
    assert_rows(forward.coords_in, forward.rows_in, in, "input");
    assert_rows(forward.coords_out, forward.rows_out, &out, "output");
    assert_index(&forward, conv);
    if (conv->op == SPC_CONV) {
        conv->op = SPC_INVERSE;
        assert_ok(spc_oracle_relation(&inverse, conv, scene, threads, &error));
        assert_rows(inverse.coords_in, inverse.rows_in, &out, "input");
        assert_rows(inverse.coords_out, inverse.rows_out, in, "output");
        assert_index(&inverse, conv);
        ck_assert_int_eq(inverse.pairs, forward.pairs);
        spc_relation_release(&inverse);
        free(out.at);
    }
    spc_relation_release(&forward);
    spc_scene_free(scene);
}

START_TEST(every_rule_relates_as_its_definition_says)
{
    static const int counts[] = {2, 40, 150};
    for (int c = 0; c < LENGTH(counts); c++) {
        rows in = random_rows(counts[c], (uint64_t)_i * 8 + (uint64_t)c);
        spc_conv conv;
        assert_ok(spc_conv_parse(&conv, layers[_i], &error));
        check_layer(&conv, &in, c + 1);
        free(in.at);
    }
}
END_TEST

/* Makes distinct voxels with coordinates from 0 to `edge` - 1. */
static rows box_rows(int edge)
{
    rows out = {malloc(sizeof(int32_t[4]) * (size_t)(edge * edge * edge)), 0};

    for (int i = 0; i < edge * edge * edge; i += 1 + i % 2) {
        int32_t at[4] = {0, i / edge / edge, i / edge % edge, i % edge};
        memcpy(out.at[out.count++], at, 16);
    }
    return out;
}

static void relate(spc_relation *out, const char *text, const rows *in)
{
    spc_scene *scene = scene_of(in);
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, text, &error));
    assert_ok(spc_oracle_relation(out, &conv, scene, 2, &error));
    spc_scene_free(scene);
}

static int64_t pairs_of_row(const spc_relation *r, int64_t row)
{
    int64_t pairs = 0;

    for (int k = 0; k < r->offsets; k++)
        pairs += r->index[k * r->rows_out + row] >= 0;
    return pairs;
}

/*
 * spconv's layers of kernel and stride 2 equal MinkowskiEngine's if the shape
 * is even. If it is odd, no output sees the last plane, and the inverse layer
 * gives it only the bias.
 */
START_TEST(a_kernel_of_two_is_that_of_the_floor_rule_in_an_even_shape)
{
    rows even = box_rows(6), odd = box_rows(5);
    spc_relation floor, footprint, back;

    relate(&floor, "conv,cin=1,cout=1,rule=floor,k=2,stride=2", &even);
    relate(&footprint, "conv,cin=1,cout=1,rule=footprint,k=2,stride=2,shape=6",
           &even);
    ck_assert_int_eq(floor.rows_out, footprint.rows_out);
    ck_assert_mem_eq(floor.coords_out, footprint.coords_out,
                     (size_t)floor.rows_out * 16);
    ck_assert_mem_eq(floor.index, footprint.index,
                     (size_t)floor.rows_out * 8 * sizeof(*floor.index));
    relate(&back, "inverse,cin=1,cout=1,rule=footprint,k=2,stride=2,shape=5",
           &odd);
    ck_assert_int_eq(back.rows_out, odd.count);
    for (int64_t row = 0; row < back.rows_out; row++) {
        const int32_t *at = back.coords_out + 4 * row;
        bool last = at[1] == 4 || at[2] == 4 || at[3] == 4;
        ck_assert_int_eq(pairs_of_row(&back, row), last ? 0 : 1);
    }
    spc_relation_release(&floor);
    spc_relation_release(&footprint);
    spc_relation_release(&back);
    free(even.at);
    free(odd.at);
}
END_TEST

/* ---- generated and given sets ----------------------------------- */

/* Layers by the conventions of MinkowskiEngine and of others. */
static const char *const generative[] = {
    "generative,cin=1,cout=1,k=2,stride=2",
    "generative,cin=1,cout=1,k=4,stride=2",
    "generative,cin=1,cout=1,k=3",
    "generative,cin=1,cout=1,k=3x1x2,stride=1x3x2,dilation=2x1x1,origin=-1",
    "generative,cin=1,cout=1,k=3,stride=2,origin=-1,shape=7x6x9",
    "generative,cin=1,cout=1,k=2x3x1,stride=2x1x3,dilation=3x1x1,shape=5x9x4",
    "generative,cin=1,cout=1,offsets=1x0x1+-2x1x0+0x0x0",
    "generative,cin=1,cout=1,offsets=1x0x1+-2x1x0+0x0x0+3x0x0,stride=2x3x1",
    "generative,cin=1,cout=1,offsets=1x0x1+-2x1x0+0x0x0,stride=2,shape=7x6x9",
};

/* Compares sets and index with the definition, in a box that holds all
 * outputs. */
static void check_made(const char *layer, int count, uint64_t seed)
{
    rows in = random_rows(count, seed);
    spc_scene *scene = scene_of(&in);
    spc_relation r;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, layer, &error));
    rows out = strided_rows(&conv.geometry, &in, 3 * LOW - 2, 3 * HIGH + 2);
    assert_ok(spc_oracle_relation(&r, &conv, scene, 2, &error));
    assert_rows(r.coords_in, r.rows_in, &in, "input");
    assert_rows(r.coords_out, r.rows_out, &out, "output");
    assert_index(&r, &conv);
    spc_relation_release(&r);
    spc_scene_free(scene);
    free(in.at);
    free(out.at);
}

START_TEST(a_generative_layer_makes_all_that_sees_an_input)
{
    check_made(generative[_i], _i == 1 ? 5 : 9, (uint64_t)_i + 31);
}
END_TEST

static const char *const expanded[] = {
    "conv,cin=1,cout=1,rule=expand,k=3,stride=2",
    "conv,cin=1,cout=1,rule=expand,k=3",
    "conv,cin=1,cout=1,rule=expand,k=2,stride=3",
    "conv,cin=1,cout=1,rule=expand,k=3x1x2,stride=1x3x2,dilation=2x1x1,"
    "origin=-1",
    "conv,cin=1,cout=1,rule=expand,offsets=1x0x1+-2x1x0+0x0x0,stride=2x3x1",
};

START_TEST(an_expanded_layer_surrounds_each_coarse_voxel)
{
    check_made(expanded[_i], 9, (uint64_t)_i + 41);
}
END_TEST

static const char *const given[] = {
    "conv,cin=1,cout=1,rule=given,k=3,stride=2",
    ("conv,cin=1,cout=1,rule=given,k=2x3x1,stride=1x2x3,dilation=1x2x1,"
     "origin=-1x0x2"),
    "transposed,cin=1,cout=1,k=2,stride=2",
    "transposed,cin=1,cout=1,k=3,stride=1x2x3,dilation=2x1x1",
};

START_TEST(given_sets_relate_as_the_formula_says)
{
    rows mine = random_rows(500, (uint64_t)_i + 51);
    rows theirs = random_rows(300, (uint64_t)_i + 61);
    spc_scene *scene = scene_of(&mine), *other = scene_of(&theirs);
    spc_relation r;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, given[_i], &error));
    bool ends = conv.op == SPC_TRANSPOSED;
    assert_ok(
        spc__relation_init_between(&r, &conv, scene, other, 2, NULL, &error));
    assert_rows(r.coords_in, r.rows_in, ends ? &theirs : &mine, "input");
    assert_rows(r.coords_out, r.rows_out, ends ? &mine : &theirs, "output");
    assert_index(&r, &conv);
    ck_assert_int_gt(r.pairs, 5);
    spc_relation_release(&r);
    spc_scene_free(scene);
    spc_scene_free(other);
    free(mine.at);
    free(theirs.at);
}
END_TEST

/*
 * The set that is sampled for a scene has voxels that see many, few, or no
 * inputs, and some inputs that no voxel sees. It does not depend on the order
 * of the scene's rows.
 */
START_TEST(a_drawn_set_is_that_of_the_scene)
{
    rows in = random_rows(150, 7), back = random_rows(150, 7);
    spc_relation r, again;
    spc_conv conv;

    for (int i = 0; i < in.count; i++)
        memcpy(back.at[in.count - 1 - i], in.at[i], 16);
    spc_scene *scene = scene_of(&in), *reversed = scene_of(&back);
    assert_ok(spc_conv_parse(&conv, given[0], &error));
    assert_ok(spc_oracle_relation(&r, &conv, scene, 2, &error));
    assert_ok(spc_oracle_relation(&again, &conv, reversed, 2, &error));
    assert_index(&r, &conv);
    ck_assert_int_eq(again.rows_out, r.rows_out);
    require(memcmp(r.coords_out, again.coords_out, 16 * (size_t)r.rows_out) ==
                0,
            "another order of rows, another set");
    int falls = 0;
    for (int64_t row = 1; row < r.rows_out; row++)
        falls +=
            compare(r.coords_out + 4 * row - 4, r.coords_out + 4 * row) > 0;
    ck_assert_int_gt(falls, 10);
    spc_relation_release(&r);
    spc_relation_release(&again);
    spc_scene_free(scene);
    spc_scene_free(reversed);
    free(in.at);
    free(back.at);
}
END_TEST

/* A hyper-cross, and a list without a centre or symmetry. */
static const struct {
    spc_rule rule;
    int stride, count;
    int16_t offsets[7][3];
    int shape;
} lists[] = {
    {SPC_RULE_SUBM,
     1,
     7,
     {{0, 0, 0},
      {1, 0, 0},
      {-1, 0, 0},
      {0, 1, 0},
      {0, -1, 0},
      {0, 0, 1},
      {0, 0, -1}},
     0},
    {SPC_RULE_SUBM, 1, 2, {{3, -2, 1}, {0, 4, -4}}, 0},
    {SPC_RULE_FLOOR, 2, 3, {{1, 0, 1}, {-2, 1, 0}, {0, 0, 0}}, 0},
    {SPC_RULE_FOOTPRINT, 1, 3, {{1, 0, 1}, {-2, 1, 0}, {0, 0, 0}}, 0},
    {SPC_RULE_FOOTPRINT,
     2,
     4,
     {{1, 0, 1}, {-2, 1, 0}, {0, 0, 0}, {2, 2, -2}},
     0},
    {SPC_RULE_FOOTPRINT, 3, 3, {{0, 3, 1}, {-2, 1, 0}, {1, 0, 0}}, 5},
    {SPC_RULE_FOOTPRINT, 1, 2, {{1, 2, 1}, {2, 2, 3}}, 7},
};

START_TEST(a_list_of_offsets_relates_in_its_own_order)
{
    rows in = random_rows(120, 77);
    spc_conv conv = SPC_CONV_INIT;

    conv.op = lists[_i].rule == SPC_RULE_SUBM ? SPC_SUBM : SPC_CONV;
    conv.geometry.rule = lists[_i].rule;
    for (int a = 0; a < 3; a++) {
        conv.geometry.stride[a] = lists[_i].stride;
        conv.geometry.shape[a] = lists[_i].shape;
    }
    conv.geometry.offset_count = lists[_i].count;
    conv.geometry.offsets = lists[_i].offsets[0];
    check_layer(&conv, &in, 2);
    free(in.at);
}
END_TEST

START_TEST(the_number_of_threads_changes_nothing)
{
    spc_scene *scene;
    spc_relation one, many;
    spc_conv conv;

    assert_ok(spc_scene_load(&scene, "gen:uniform,n=20000,extent=60", &error));
    assert_ok(spc_conv_parse(
        &conv, "conv,cin=1,cout=1,k=3,stride=2,padding=1,rule=footprint",
        &error));
    assert_ok(spc_oracle_relation(&one, &conv, scene, 1, &error));
    assert_ok(spc_oracle_relation(&many, &conv, scene, 7, &error));
    ck_assert_int_eq(one.pairs, many.pairs);
    ck_assert_int_eq(one.rows_out, many.rows_out);
    ck_assert_int_gt(one.rows_out, 8192); /* several tiles */
    ck_assert_mem_eq(one.coords_out, many.coords_out,
                     (size_t)one.rows_out * 16);
    ck_assert_mem_eq(one.index, many.index, (size_t)one.rows_out * 27 * 4);
    spc_relation_release(&one);
    spc_relation_release(&many);
    spc_scene_free(scene);
}
END_TEST

/* Voxels by both rules, and points. An output of points may see several inputs
 * at an offset. */
static const char *const partly[] = {
    "subm,cin=1,cout=1,k=3",
    "conv,cin=1,cout=1,k=3,stride=2,padding=1,rule=footprint",
    "inverse,cin=1,cout=1,k=2,stride=2,rule=floor",
    "points,cin=1,cout=1,k=3,radius=0.003",
    "points,cin=1,cout=1,k=3,radius=0.003,nearest=2",
    "inverse,cin=1,cout=1,k=3,rule=radius,radius=0.003,nearest=2",
};

START_TEST(some_outputs_see_what_they_see_among_all)
{
    spc_relation all, some;
    int64_t at[64];
    spc__row_list only = {at, 0};
    spc_scene *scene;
    spc_conv conv;

    assert_ok(spc_scene_load(&scene, "gen:uniform,n=200,extent=8", &error));
    assert_ok(spc_conv_parse(&conv, partly[_i], &error));
    assert_ok(spc__relation_init(&all, &conv, scene, 2, NULL, &error));
    for (int64_t row = 1; row < all.rows_out && only.count < 64; row += 3)
        at[only.count++] = row;
    assert_ok(
        spc__relation_init_rows(&some, &conv, scene, &only, 2, NULL, &error));
    ck_assert_int_eq(some.rows_out, only.count);
    ck_assert_int_eq(some.rows_in, all.rows_in);
    for (int s = 0; s < all.slots; s++)
        for (int64_t i = 0; i < only.count; i++) {
            int64_t of_all = s * all.rows_out + at[i];
            int64_t here = s * some.rows_out + i;
            int32_t want = all.index[of_all];
            int32_t got = s < some.slots ? some.index[here] : -1;
            require(got == want, "slot %d of row %d: %d for %d", s, (int)at[i],
                    got, want);
            require(want < 0 || all.cells == NULL ||
                        some.cells[here] == all.cells[of_all],
                    "slot %d of row %d: another offset", s, (int)at[i]);
        }
    spc_relation_release(&some);
    spc_relation_release(&all);
    spc_scene_free(scene);
}
END_TEST

START_TEST(the_shell_has_its_known_number_of_pairs)
{
    spc_conv conv = SPC_CONV_INIT;
    spc_relation r;
    spc_scene *scene;

    assert_ok(spc_scene_load(&scene, "gen:shell,r=256", &error));
    assert_ok(spc_oracle_relation(&r, &conv, scene, 0, &error));
    ck_assert_int_eq(r.pairs, 3203048);
    spc_relation_release(&r);
    spc_scene_free(scene);
}
END_TEST

/* ---- gradients ----------------------------------------------------------- */

static const char *const trained[] = {
    "subm,cin=1,cout=1,k=3",
    "subm,cin=1,cout=1,k=2",
    "subm,cin=1,cout=1,k=4x1x2,dilation=2x1x1",
    "subm,cin=1,cout=1,k=2,origin=-3x0x1",
    "subm,cin=1,cout=1,offsets=0x0x0+1x0x0+0x2x-1",
    "conv,cin=1,cout=1,rule=floor,k=2,stride=2",
    "conv,cin=1,cout=1,rule=footprint,k=3x2x1,stride=2,padding=1x0x0",
    "inverse,cin=1,cout=1,rule=floor,k=3,stride=2",
    "generative,cin=1,cout=1,k=2,stride=2",
    "conv,cin=1,cout=1,rule=expand,k=3,stride=2",
    "transposed,cin=1,cout=1,k=3,stride=2",
};

/*
 * The gradient's relation is that of the layer, seen from the inputs. A
 * submanifold layer's gradient is also submanifold, and the layer's offset k is
 * its offset K - 1 - k.
 */
START_TEST(the_gradient_of_inputs_relates_as_its_layer_backwards)
{
    spc_conv layer, dgrad;
    spc_relation forth, back;
    spc_scene *scene = NULL;

    assert_ok(spc_conv_parse(&layer, trained[_i], &error));
    assert_ok(spc_conv_pass(&dgrad, &layer, SPC_DGRAD, &error));
    assert_ok(
        spc_scene_load(&scene, "gen:uniform,n=80,extent=5,batch=2", &error));
    assert_ok(spc_oracle_relation(&forth, &layer, scene, 2, &error));
    assert_ok(spc_oracle_relation(&back, &dgrad, scene, 2, &error));
    ck_assert_int_eq(back.rows_in, forth.rows_out);
    ck_assert_int_eq(back.rows_out, forth.rows_in);
    ck_assert_int_eq(back.pairs, forth.pairs);
    ck_assert_int_gt(forth.pairs, 20);
    for (int k = 0; k < forth.offsets; k++)
        for (int64_t o = 0; o < forth.rows_out; o++) {
            int64_t i = forth.index[k * forth.rows_out + o];
            int at = layer.op == SPC_SUBM ? forth.offsets - 1 - k : k;
            require(i < 0 || back.index[at * back.rows_out + i] == o,
                    "%s: output %d sees %d at %d", trained[_i], (int)o, (int)i,
                    k);
        }
    spc_relation_release(&forth);
    spc_relation_release(&back);
    spc_scene_free(scene);
}
END_TEST

/* ---- limits of int32 -------------------------------------------------- */

static const int32_t edges[][4] = {{0, INT32_MAX, 0, INT32_MIN},
                                   {0, INT32_MIN, 0, INT32_MIN},
                                   {0, INT32_MAX - 1, 0, INT32_MIN},
                                   {1, INT32_MAX, 0, INT32_MIN},
                                   {-7, INT32_MIN, 0, INT32_MAX}};

/* Coordinates that do not fit int32 are refused with a message. */
static const struct {
    const char *layer, *says;
} edge_layers[] = {
    {"subm,cin=1,cout=1,k=3", NULL},
    {"subm,cin=1,cout=1,k=3,dilation=65536", NULL},
    {"conv,cin=1,cout=1,rule=floor,k=2,stride=2", NULL},
    {"conv,cin=1,cout=1,rule=floor,k=3,stride=1", NULL},
    {"conv,cin=1,cout=1,rule=floor,k=3,stride=65536,dilation=65536", NULL},
    {"inverse,cin=1,cout=1,rule=floor,k=3,stride=65536,dilation=65536", NULL},
    {"conv,cin=1,cout=1,rule=footprint,k=3,stride=2,padding=1", NULL},
    {"inverse,cin=1,cout=1,rule=footprint,k=3,stride=2,padding=1", NULL},
    {"conv,cin=1,cout=1,rule=footprint,k=3,stride=1,padding=1",
     "an input at 2147483647 along x has an output at 2147483648"},
    {"inverse,cin=1,cout=1,rule=footprint,k=1x1x3,stride=1",
     "along z has an output at -2147483649"},
};

START_TEST(coordinates_at_the_edge_of_int32_do_not_wrap)
{
    rows in = {(int32_t(*)[4])edges, LENGTH(edges)};
    spc_scene *scene = scene_of(&in);
    spc_relation r;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, edge_layers[_i].layer, &error));
    spc_status status = spc_oracle_relation(&r, &conv, scene, 2, &error);
    if (edge_layers[_i].says == NULL) {
        ck_assert_msg(status == SPC_OK, "%s", error.text);
        assert_index(&r, &conv);
        ck_assert_int_gt(r.pairs, 0);
    } else {
        ck_assert_int_eq(status, SPC_ERANGE);
        ck_assert_msg(strstr(error.text, edge_layers[_i].says) != NULL, "%s",
                      error.text);
        ck_assert_ptr_null(r.index);
    }
    spc_relation_release(&r);
    spc_scene_free(scene);
}
END_TEST

/* ---- missing and impossible input ---------------------------------------- */

START_TEST(an_empty_scene_has_an_empty_relation)
{
    static const char *const texts[] = {
        "subm,cin=1,cout=1", "conv,cin=1,cout=1,k=3,stride=2,rule=footprint",
        "inverse,cin=1,cout=1,k=2,stride=2,rule=floor"};
    spc_relation r;
    spc_scene *scene;
    spc_conv conv;

    assert_ok(spc_conv_parse(&conv, texts[_i], &error));
    assert_ok(spc_scene_create(&scene, NULL, 0, "none", &error));
    assert_ok(spc_oracle_relation(&r, &conv, scene, 0, &error));
    ck_assert_int_eq(r.rows_in, 0);
    ck_assert_int_eq(r.rows_out, 0);
    ck_assert_int_eq(r.pairs, 0);
    spc_relation_release(&r);
    spc_scene_free(scene);
}
END_TEST

START_TEST(equal_coordinates_are_reported_with_their_rows)
{
    static const int32_t twice[][4] = {
        {0, 1, 2, 3}, {1, 1, 2, 3}, {0, 4, 5, 6}, {0, 1, 2, 3}};
    rows in = {(int32_t(*)[4])twice, 4};
    spc_scene *scene = scene_of(&in);
    spc_conv conv = SPC_CONV_INIT;
    spc_relation r;

    ck_assert_int_eq(spc_oracle_relation(&r, &conv, scene, 1, &error),
                     SPC_EDUPLICATE);
    ck_assert_ptr_nonnull(strstr(error.text, "rows 0 and 3"));
    ck_assert_ptr_nonnull(strstr(error.text, "(1, 2, 3) of batch 0"));
    spc_scene_free(scene);
}
END_TEST

static const struct {
    spc_operator op;
    spc_rule rule;
    int kernel[3], dilation;
    const char *says;
} impossible[] = {
    {SPC_SUBM, SPC_RULE_SUBM, {3, 0, 3}, 1, "kernel size 0 along y"},
    {SPC_SUBM, SPC_RULE_SUBM, {3, 3, 3}, 0, "dilation 0 along z"},
    {SPC_SUBM, SPC_RULE_SUBM, {7, 7, 8}, 1, "more than 343 offsets"},
    {SPC_SUBM,
     SPC_RULE_SUBM,
     {1 << 30, 1 << 30, 1 << 30},
     1,
     "more than 343 offsets"},
    {SPC_SUBM, SPC_RULE_FLOOR, {3, 3, 3}, 1, "a submanifold layer"},
    {SPC_CONV, SPC_RULE_SUBM, {3, 3, 3}, 1, "has the rule floor"},
    {SPC_INVERSE, SPC_RULE_GIVEN, {3, 3, 3}, 1, "floor, footprint, expand or"},
    {SPC_TRANSPOSED, SPC_RULE_FLOOR, {3, 3, 3}, 1, "has the rule given"},
    {SPC_GENERATIVE, SPC_RULE_GIVEN, {3, 3, 3}, 1, "has the rule generative"},
    {(spc_operator)99, SPC_RULE_FLOOR, {3, 3, 3}, 1, "unknown operator 99"},
    {SPC_CONV, (spc_rule)9, {3, 3, 3}, 1, "unknown rule 9"},
};

START_TEST(an_impossible_layer_is_refused)
{
    rows in = {(int32_t(*)[4])edges, 1};
    spc_scene *scene = scene_of(&in);
    spc_conv conv = SPC_CONV_INIT;
    spc_relation r;

    conv.op = impossible[_i].op;
    conv.geometry.rule = impossible[_i].rule;
    memcpy(conv.geometry.kernel, impossible[_i].kernel, sizeof(int[3]));
    conv.geometry.dilation[2] = impossible[_i].dilation;
    ck_assert_int_eq(spc_oracle_relation(&r, &conv, scene, 1, &error),
                     SPC_EINVAL);
    ck_assert_msg(strstr(error.text, impossible[_i].says) != NULL, "%s",
                  error.text);
    spc_scene_free(scene);
}
END_TEST

START_TEST(what_is_null_is_named)
{
    rows in = {(int32_t(*)[4])edges, 1};
    spc_scene *scene = scene_of(&in);
    spc_conv conv = SPC_CONV_INIT;
    spc_relation r;

    ck_assert_int_eq(spc_oracle_relation(NULL, &conv, scene, 1, &error),
                     SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "`out`"));
    ck_assert_int_eq(spc_oracle_relation(&r, NULL, scene, 1, &error),
                     SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "`conv`"));
    ck_assert_int_eq(spc_oracle_relation(&r, &conv, NULL, 1, &error),
                     SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "`scene`"));
    spc_relation_release(&r);
    spc_relation_release(NULL);
    spc_scene_free(scene);
}
END_TEST

START_TEST(a_cancelled_relation_ends_soon)
{
    const volatile int cancel = 1;
    rows in = {(int32_t(*)[4])edges, 2};
    spc_scene *scene = scene_of(&in);
    spc_conv conv = SPC_CONV_INIT;
    spc_relation r;

    ck_assert_int_eq(spc__relation_init(&r, &conv, scene, 1, &cancel, &error),
                     SPC_EINTERRUPTED);
    ck_assert_ptr_null(r.index);
    spc_scene_free(scene);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    rows in = random_rows(30, 5);
    spc_scene *scene = scene_of(&in);
    spc_relation r;
    spc_conv conv;
    int failed = 0;

    assert_ok(spc_conv_parse(
        &conv, "conv,cin=1,cout=1,k=5,stride=1,rule=footprint", &error));
    for (;; failed++) {
        fail_allocation(failed + 1);
        spc_status status = spc_oracle_relation(&r, &conv, scene, 1, &error);
        fail_allocation(0);
        if (status == SPC_OK)
            break;
        ck_assert_int_eq(status, SPC_ENOMEM);
        ck_assert_ptr_nonnull(strstr(error.text, "bytes"));
        ck_assert_ptr_null(r.coords_in);
        ck_assert_ptr_null(r.index);
    }
    ck_assert_int_gt(failed, 8); /* the set of outputs is larger */
    spc_relation_release(&r);
    spc_scene_free(scene);
    free(in.at);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("relation");
    TCase *rules = tcase_create("rules"), *limits = tcase_create("limits");

    tcase_set_timeout(rules, 120);
    tcase_add_loop_test(rules, every_rule_relates_as_its_definition_says, 0,
                        LENGTH(layers));
    tcase_add_loop_test(rules, a_list_of_offsets_relates_in_its_own_order, 0,
                        LENGTH(lists));
    tcase_add_loop_test(rules, a_generative_layer_makes_all_that_sees_an_input,
                        0, LENGTH(generative));
    tcase_add_loop_test(rules, an_expanded_layer_surrounds_each_coarse_voxel, 0,
                        LENGTH(expanded));
    tcase_add_loop_test(rules, given_sets_relate_as_the_formula_says, 0,
                        LENGTH(given));
    tcase_add_test(rules,
                   a_kernel_of_two_is_that_of_the_floor_rule_in_an_even_shape);
    tcase_add_test(rules, a_drawn_set_is_that_of_the_scene);
    tcase_add_loop_test(rules,
                        the_gradient_of_inputs_relates_as_its_layer_backwards,
                        0, LENGTH(trained));
    tcase_add_test(rules, the_number_of_threads_changes_nothing);
    tcase_add_loop_test(rules, some_outputs_see_what_they_see_among_all, 0,
                        LENGTH(partly));
    tcase_add_test(rules, the_shell_has_its_known_number_of_pairs);
    suite_add_tcase(s, rules);
    tcase_add_loop_test(limits, coordinates_at_the_edge_of_int32_do_not_wrap, 0,
                        LENGTH(edge_layers));
    tcase_add_loop_test(limits, an_empty_scene_has_an_empty_relation, 0, 3);
    tcase_add_test(limits, equal_coordinates_are_reported_with_their_rows);
    tcase_add_loop_test(limits, an_impossible_layer_is_refused, 0,
                        LENGTH(impossible));
    tcase_add_test(limits, what_is_null_is_named);
    tcase_add_test(limits, a_cancelled_relation_ends_soon);
    tcase_add_test(limits, every_allocation_may_fail);
    suite_add_tcase(s, limits);
    return run_suite(s);
}
