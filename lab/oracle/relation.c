/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relation.c - finds the input that each output of a layer sees, by hashing.
 *
 * Shares no code with any device's map builder, so that the two do not have the
 * same fault. Outputs that a layer derives from its scene are collected in a
 * set and sorted; given outputs keep their order. Then every output looks up
 * its input at every offset. Layers that are read in the other direction look
 * up the voxel that saw them. So does the gradient of a submanifold layer, by
 * the layer's own offsets, whichever way its map is built.
 */
#include "lab/oracle/relation.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/parallel.h"
#include "coords/given.h"
#include "lab/oracle/points_oracle.h"
#include "lab/oracle/row_set.h"
#include "operators/conv.h"
#include "operators/geometry.h"
#include "operators/pass.h"
#include <stdlib.h>
#include <string.h>

enum { TILE = 4096, ROW_BYTES = 4 * sizeof(int32_t) };

static const char axes[] = "xyz";

static bool fits(int64_t value)
{
    return value >= INT32_MIN && value <= INT32_MAX;
}

/* ---- the rows of the scene ----------------------------------------------- */

/* Adds all voxels of a scene, and refuses one that occurs twice. */
static spc_status add_scene(spc__row_set *set, const spc_scene *scene,
                            const volatile int *cancel, spc_error *error)
{
    const int32_t *coords = spc_scene_coords(scene);
    int64_t rows = spc_scene_rows(scene);

    if (spc__cancelled(cancel))
        return spc__interrupted(error);
    for (int64_t row = 0, found; row < rows; row++) {
        const int32_t *at = coords + 4 * row;
        spc_status status = spc__row_set_add(&found, set, at, error);
        if (status != SPC_OK)
            return status;
        if (found < row)
            return spc__fail(error, SPC_EDUPLICATE,
                             "rows %lld and %lld of the scene are both voxel "
                             "(%d, %d, %d) of batch %d; every voxel may occur "
                             "once",
                             (long long)found, (long long)row, at[1], at[2],
                             at[3], at[0]);
        if (row % TILE == 0 && spc__cancelled(cancel))
            return spc__interrupted(error);
    }
    return SPC_OK;
}

/* ---- the outputs of a layer ---------------------------------------------- */

/* The outputs along one axis that see an input, or that an input sees. */
typedef struct line {
    int64_t at[SPC_MAX_OFFSETS];
    int count;
} line;

/* Rounds down also below zero, where C rounds towards zero. */
static int64_t floor_divide(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}

/* Adds an output unless it lies outside the spatial shape. */
static void add_within(line *out, int64_t at, int64_t bound)
{
    if (bound == 0 || (at >= 0 && at < bound))
        out->at[out->count++] = at;
}

/* Solves o * stride - padding + dilation * cell = i for every cell. */
static void footprint_line(line *out, const spc_geometry *g, int axis,
                           int64_t i)
{
    int64_t bound = spc__geometry_out_shape(g, axis);

    out->count = 0;
    for (int tap = 0; tap < g->kernel[axis]; tap++) {
        int64_t at = i + g->padding[axis] - (int64_t)g->dilation[axis] * tap;
        if (at % g->stride[axis] != 0)
            continue;
        add_within(out, at / g->stride[axis], bound);
    }
}

/* All voxels that the kernel's offsets lead to from a coordinate of the output
 * grid. */
static void expanded_line(line *out, const spc_geometry *g, int axis,
                          int64_t from)
{
    int64_t first = from + spc__geometry_origin(g, axis);

    out->count = 0;
    for (int tap = 0; tap < g->kernel[axis]; tap++)
        add_within(out, first + (int64_t)g->dilation[axis] * tap,
                   g->shape[axis]);
}

/* The outputs of an input along one axis: the rules treat axes one by one. */
static void rule_line(line *out, const spc_geometry *g, int axis, int64_t i)
{
    if (g->rule == SPC_RULE_FOOTPRINT) {
        footprint_line(out, g, axis, i);
        return;
    }
    if (g->rule == SPC_RULE_GENERATIVE) {
        expanded_line(out, g, axis, i * g->stride[axis]);
        return;
    }
    if (g->rule == SPC_RULE_EXPAND) {
        expanded_line(out, g, axis, floor_divide(i, g->stride[axis]));
        return;
    }
    out->at[0] = floor_divide(i, g->stride[axis]);
    out->count = 1;
}

static spc_status check_fits(int64_t at, int axis, int64_t i, spc_error *error)
{
    if (fits(at))
        return SPC_OK;
    return spc__fail(error, SPC_ERANGE,
                     "an input at %lld along %c has an output at %lld, which "
                     "does not fit 32 bits",
                     (long long)i, axes[axis], (long long)at);
}

static spc_status check_line(const line *l, int axis, int64_t i,
                             spc_error *error)
{
    spc_status status = SPC_OK;

    for (int n = 0; n < l->count && status == SPC_OK; n++)
        status = check_fits(l->at[n], axis, i, error);
    return status;
}

/* The outputs of one input: the product of three lines. */
static spc_status add_outputs(spc__row_set *set, const spc_geometry *g,
                              const int32_t in[4], line lines[3],
                              spc_error *error)
{
    spc_status status = SPC_OK;
    int64_t row;

    for (int axis = 0; axis < 3; axis++) {
        rule_line(&lines[axis], g, axis, in[1 + axis]);
        status = check_line(&lines[axis], axis, in[1 + axis], error);
        if (status != SPC_OK)
            return status;
    }
    for (int x = 0; x < lines[0].count; x++)
        for (int y = 0; y < lines[1].count; y++)
            for (int z = 0; z < lines[2].count && status == SPC_OK; z++) {
                int32_t out[4] = {in[0], (int32_t)lines[0].at[x],
                                  (int32_t)lines[1].at[y],
                                  (int32_t)lines[2].at[z]};
                status = spc__row_set_add(&row, set, out, error);
            }
    return status;
}

/* For a list of offsets: the voxel that an offset leads from or to, if it
 * exists. */
static bool listed_output(int64_t out[3], const spc_geometry *g, int k,
                          const int32_t in[4])
{
    for (int axis = 0; axis < 3; axis++) {
        int64_t i = in[1 + axis], by = g->offsets[3 * k + axis];
        int64_t bound = spc__geometry_out_shape(g, axis);
        if (g->rule == SPC_RULE_GENERATIVE)
            out[axis] = i * g->stride[axis] + by;
        else if (g->rule == SPC_RULE_EXPAND)
            out[axis] = floor_divide(i, g->stride[axis]) + by;
        else if ((i - by) % g->stride[axis] == 0)
            out[axis] = (i - by) / g->stride[axis];
        else
            return false;
        if (bound > 0 && (out[axis] < 0 || out[axis] >= bound))
            return false;
    }
    return true;
}

/* Adds the outputs of an input for a list of offsets, which need not form a
 * box. */
static spc_status add_listed(spc__row_set *set, const spc_geometry *g,
                             const int32_t in[4], spc_error *error)
{
    spc_status status = SPC_OK;
    int64_t row, at[3];

    for (int k = 0; k < g->offset_count && status == SPC_OK; k++) {
        if (!listed_output(at, g, k, in))
            continue;
        for (int axis = 0; axis < 3 && status == SPC_OK; axis++)
            status = check_fits(at[axis], axis, in[1 + axis], error);
        int32_t out[4] = {in[0], (int32_t)at[0], (int32_t)at[1],
                          (int32_t)at[2]};
        if (status == SPC_OK)
            status = spc__row_set_add(&row, set, out, error);
    }
    return status;
}

/* Adds the outputs of all inputs, and sorts them, as the device does. */
static spc_status add_derived(spc__row_set *out, const spc_geometry *g,
                              const spc__row_set *in,
                              const volatile int *cancel, spc_error *error)
{
    line lines[3];

    for (int64_t row = 0; row < in->rows; row++) {
        const int32_t *at = in->coords + 4 * row;
        spc_status status = spc__geometry_derives_by_list(g)
                                ? add_listed(out, g, at, error)
                                : add_outputs(out, g, at, lines, error);
        if (status == SPC_OK && row % TILE == 0 && spc__cancelled(cancel))
            status = spc__interrupted(error);
        if (status != SPC_OK)
            return status;
    }
    spc__row_set_sort(out);
    return SPC_OK;
}

/* ---- pairs --------------------------------------------------------------- */

typedef struct search {
    const spc_geometry *geometry;
    const spc__row_set *from; /* the relation's inputs */
    const spc__row_set *to;   /* the relation's outputs */
    bool inverse;
    /* the offsets are in reverse order: see SPC_DGRAD in spc.h */
    bool mirrored;
    const spc__row_list *only; /* rows of the outputs; NULL: all rows */
    int64_t rows;              /* rows of the index */
    int32_t *index;
    int64_t pairs;
} search;

/*
 * Returns the coordinate that `at` sees along an axis, or for an inverse layer
 * the coordinate that saw it; INT64_MAX if it does not exist.
 */
static int64_t seen_from(const search *s, int axis, int64_t at, int64_t offset)
{
    int64_t stride = s->geometry->stride[axis];

    if (!s->inverse)
        return at * stride + offset;
    return (at - offset) % stride == 0 ? (at - offset) / stride : INT64_MAX;
}

/* The input that an output sees at an offset, or -1. */
static int64_t find_input(const search *s, int64_t row, const int offset[3])
{
    const int32_t *at = s->to->coords + 4 * row;
    int32_t wanted[4] = {at[0], 0, 0, 0};

    for (int axis = 0; axis < 3; axis++) {
        int64_t seen = seen_from(s, axis, at[1 + axis], offset[axis]);
        if (!fits(seen))
            return -1;
        wanted[1 + axis] = (int32_t)seen;
    }
    return spc__row_set_find(s->from, wanted);
}

/* Searches one offset for a tile of outputs. */
static void search_tile(void *payload, int64_t i)
{
    search *s = payload;
    int offsets = spc_geometry_offset_count(s->geometry),
        k = (int)(i % offsets);
    int64_t rows = s->rows, first = i / offsets * TILE;
    int64_t last = first + TILE < rows ? first + TILE : rows;
    int64_t pairs = 0;
    int offset[3];

    spc_geometry_offset_at(offset, s->geometry,
                           s->mirrored ? offsets - 1 - k : k);
    for (int64_t row = first; row < last; row++) {
        int64_t output = s->only != NULL ? s->only->at[row] : row;
        int64_t input = find_input(s, output, offset);
        s->index[k * rows + row] = (int32_t)input;
        pairs += input >= 0;
    }
    /* Tiles run on all threads. Checks for cancellation once a tile, so that
     * threads do not wait for each other. */
    __atomic_fetch_add(&s->pairs, pairs, __ATOMIC_RELAXED);
}

/* ---- relations ----------------------------------------------------------- */

static spc_status check_layer(const spc_conv *conv, spc_error *error)
{
    spc_status status = spc_geometry_check(&conv->geometry, error);

    if (status != SPC_OK)
        return status;
    return spc__operator_check(conv, error);
}

/* Copies the set's coordinates; one set may be both sides of a relation. */
static spc_status copy_coords(int32_t **out, int64_t *rows,
                              const spc__row_set *set, spc_error *error)
{
    size_t bytes = (size_t)set->rows * ROW_BYTES;

    *rows = set->rows;
    /* Allocates one byte more, as an empty set needs a pointer too. */
    *out = malloc(bytes + 1);
    if (*out == NULL)
        return spc__fail_memory(error, bytes);
    memcpy(*out, set->coords, bytes);
    return SPC_OK;
}

/* Finds the index of a relation by hashing, in tiles on all threads. */
static spc_status relate(spc__relation *out, const spc_conv *conv,
                         const spc__row_set *from, const spc__row_set *to,
                         const spc__row_list *only, int threads,
                         const volatile int *cancel, spc_error *error)
{
    bool mirrored = conv->op == SPC_SUBM && conv->pass == SPC_DGRAD;
    spc_conv layer = *conv;
    int16_t room[SPC__LIST_NUMBERS];
    search s = {
        .geometry = &layer.geometry,
        .from = from,
        .to = to,
        .inverse = spc__conv_is_inverse(conv) || mirrored,
        .mirrored = mirrored,
        .only = only,
        .rows = only != NULL ? only->count : to->rows,
    };
    spc_status status;

    if (mirrored)
        spc__conv_exchange(&layer, room);
    out->offsets = out->slots = spc_geometry_offset_count(&conv->geometry);
    if ((status = copy_coords(&out->coords_in, &out->rows_in, from, error)) ||
        (status = copy_coords(&out->coords_out, &out->rows_out, to, error)))
        return status;
    size_t bytes = (size_t)out->offsets * (size_t)s.rows * sizeof(*out->index);
    s.index = out->index = malloc(bytes + 1);
    if (out->index == NULL)
        return spc__fail_memory(error, bytes);
    if (!spc__parallel_until(cancel, (s.rows + TILE - 1) / TILE * out->offsets,
                             threads, search_tile, &s))
        return spc__interrupted(error);
    out->pairs = s.pairs;
    out->rows_out = s.rows;
    return SPC_OK;
}

/* Makes the second set of a layer: derived from its scene, or given. */
static spc_status make_other(spc__row_set *out, const spc_conv *conv,
                             const spc__row_set *voxels, const spc_scene *given,
                             const volatile int *cancel, spc_error *error)
{
    spc_status status = spc__row_set_init(
        out, given ? spc_scene_rows(given) : voxels->rows, error);

    if (status != SPC_OK)
        return status;
    return given ? add_scene(out, given, cancel, error)
                 : add_derived(out, &conv->geometry, voxels, cancel, error);
}

/* Makes both sets, then the relation between them. */
static spc_status make(spc__relation *out, const spc_conv *conv,
                       const spc_scene *scene, const spc_scene *given,
                       const spc__row_list *only, int threads,
                       const volatile int *cancel, spc_error *error)
{
    spc__row_set voxels = {0}, other = {0};
    bool subm = conv->op == SPC_SUBM, ends = spc__conv_ends_at_scene(conv);
    spc_status status =
        spc__row_set_init(&voxels, spc_scene_rows(scene), error);

    if (status == SPC_OK)
        status = add_scene(&voxels, scene, cancel, error);
    if (status == SPC_OK && !subm)
        status = make_other(&other, conv, &voxels, given, cancel, error);
    if (status == SPC_OK)
        status = relate(out, conv, ends ? &other : &voxels,
                        ends || subm ? &voxels : &other, only, threads, cancel,
                        error);
    spc__row_set_release(&voxels);
    spc__row_set_release(&other);
    return status;
}

/* Generates a set in place of the caller's set. */
static spc_status draw_given(spc_scene **out, const spc_conv *conv,
                             const spc_scene *scene, spc_error *error)
{
    int32_t *drawn;
    int64_t rows;
    spc_status status =
        spc__given_draw(&drawn, &rows, &conv->geometry, spc_scene_coords(scene),
                        spc_scene_rows(scene), error);

    if (status == SPC_OK)
        status = spc_scene_create(out, drawn, rows, "drawn", error);
    free(drawn);
    return status;
}

spc_status spc__relation_init_between(spc__relation *out, const spc_conv *conv,
                                      const spc_scene *scene,
                                      const spc_scene *given, int threads,
                                      const volatile int *cancel,
                                      spc_error *error)
{
    spc_status status;

    memset(out, 0, sizeof(*out));
    if ((status = check_layer(conv, error)) == SPC_OK)
        status = make(out, conv, scene, given, NULL, threads, cancel, error);
    if (status != SPC_OK)
        spc__relation_release(out);
    return status;
}

spc_status spc__relation_init(spc__relation *out, const spc_conv *conv,
                              const spc_scene *scene, int threads,
                              const volatile int *cancel, spc_error *error)
{
    return spc__relation_init_rows(out, conv, scene, NULL, threads, cancel,
                                   error);
}

spc_status spc__relation_init_rows(spc__relation *out, const spc_conv *conv,
                                   const spc_scene *scene,
                                   const spc__row_list *only, int threads,
                                   const volatile int *cancel, spc_error *error)
{
    spc_scene *given = NULL;
    spc_status status = check_layer(conv, error);

    memset(out, 0, sizeof(*out));
    if (status == SPC_OK && spc__conv_has_triplets(conv)) {
        status = spc__points_relation(out, conv, scene, only, threads, cancel,
                                      error);
    } else if (status == SPC_OK) {
        if (conv->geometry.rule == SPC_RULE_GIVEN)
            status = draw_given(&given, conv, scene, error);
        if (status == SPC_OK)
            status =
                make(out, conv, scene, given, only, threads, cancel, error);
    }
    if (status != SPC_OK)
        spc__relation_release(out);
    spc_scene_free(given);
    return status;
}

void spc__relation_release(spc__relation *relation)
{
    free(relation->coords_in);
    free(relation->coords_out);
    free(relation->index);
    free(relation->cells);
    memset(relation, 0, sizeof(*relation));
}

/* ---- public -------------------------------------------------------------- */

spc_status spc_oracle_relation(spc_relation *out, const spc_conv *conv,
                               const spc_scene *scene, int threads,
                               spc_error *error)
{
    spc_status status = spc__need(error, __func__, "out", out, NULL);

    if (status != SPC_OK)
        return status;
    memset(out, 0, sizeof(*out));
    status = spc__need(error, __func__, "conv", conv, "scene", scene, NULL);
    if (status != SPC_OK)
        return status;
    return spc__relation_init(out, conv, scene, threads, NULL, error);
}

void spc_relation_release(spc_relation *relation)
{
    if (relation != NULL)
        spc__relation_release(relation);
}
