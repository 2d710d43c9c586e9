/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_code.c - the code of indexing kernels: maps a geometry to the problems
 * of their templates, lists those that its maps may need, and loads them.
 */
#include "base/error.h"
#include "coords/index/index_device.h"
#include "coords/map_choice.h"
#include "coords/points/points_steps.h"
#include <string.h>

/* The loops of a kernel over offsets. */
static void box_of(int out[3], const spc_geometry *g)
{
    /* A list counts as a box of length offset_count along x, so that templates
     * loop over both in the same way. */
    for (int i = 0; i < 3; i++)
        out[i] = g->offset_count == 0 ? g->kernel[i]
                 : i == 0             ? g->offset_count
                                      : 1;
}

/* Divides runs of offsets into batches that a thread searches together. */
static spc__index_runs flat_runs(int count, int length)
{
    /* Batches of 2 or 3 runs. 2 only where 3 leaves a remainder and 2 does
     * not. */
    int batch = count % 3 != 0 && count % 2 == 0 ? 2 : count < 3 ? count : 3;

    return (spc__index_runs){length, batch, (count + batch - 1) / batch};
}

/* Each window covers the runs of one plane of equal x. No batch spans two
 * planes, and the batches of a plane are as even as possible. */
static spc__index_runs runs_of_planes(int planes, int runs, int length)
{
    enum { MOST = 4 };
    int batches = (runs + MOST - 1) / MOST;

    return (spc__index_runs){length, (runs + batches - 1) / batches,
                             planes * batches};
}

spc__index_runs spc__index_choose_runs(const spc_geometry *g, bool inverse)
{
    /* Consecutive keys along z are one apart only without dilation. An inverse
     * map searches each offset separately. */
    bool single = inverse || g->dilation[2] > 1;
    int k[3];

    box_of(k, g);
    /* The kernel loads at most 8 keys of a run at once (SPC_INDEX_SLACK). */
    int length = single ? 1 : k[2] < 8 ? k[2] : 8;
    int plane = k[1] * ((k[2] + length - 1) / length);
    return inverse || g->offset_count > 0 ? flat_runs(k[0] * plane, length)
                                          : runs_of_planes(k[0], plane, length);
}

/* ---- problems of templates ----------------------------------------------- */

static void set_axes(spc__attrs *out, const char *const names[3],
                     const int value[3])
{
    for (int i = 0; i < 3; i++)
        spc__attrs_set_number(out, names[i], value[i]);
}

/* The word for the search in the template. */
static const char *kind_of(const spc_geometry *g, bool inverse)
{
    if (g->rule == SPC_RULE_SUBM)
        return inverse ? "subm_inverse" : "subm";
    if (inverse)
        return spc__geometry_is_bounded(g) ? "transposed" : "inverse";
    return spc__geometry_is_far(g) ? "given" : "strided";
}

/* For sets that may be far from the inputs: the span of displacements that the
 * search covers. */
static void set_span(spc__attrs *out, const spc_geometry *g)
{
    static const char *const names[6] = {"lx", "ly", "lz", "hx", "hy", "hz"};
    int64_t span[2][3];

    spc__geometry_span(span[0], span[1], g);
    for (int i = 0; i < 6; i++)
        spc__attrs_set_number(out, names[i], span[i / 3][i % 3]);
}

void spc__map_attrs(spc__attrs *out, const spc_geometry *g, bool inverse)
{
    static const char *const k[3] = {"kx", "ky", "kz"},
                             *const d[3] = {"dx", "dy", "dz"},
                             *const st[3] = {"sx", "sy", "sz"},
                             *const o[3] = {"ox", "oy", "oz"};
    int box[3], origin[3];

    box_of(box, g);
    for (int i = 0; i < 3; i++)
        origin[i] = g->offset_count == 0 ? spc__geometry_origin(g, i) : 0;
    memset(out, 0, sizeof *out);
    spc__attrs_set_text(out, "op", "index");
    spc__attrs_set_text(out, "kind", kind_of(g, inverse));
    set_axes(out, k, box);
    set_axes(out, d, g->dilation);
    set_axes(out, st, g->stride);
    set_axes(out, o, origin);
    spc__attrs_set_number(out, "list", g->offset_count > 0);
    if (spc__geometry_is_far(g) && !inverse)
        set_span(out, g);
}

void spc__index_problem(spc__attrs *out, const spc__index_width *w,
                        const spc_geometry *g, bool inverse)
{
    spc__index_runs r = spc__index_choose_runs(g, inverse);

    spc__map_attrs(out, g, inverse);
    spc__attrs_set_number(out, "key", w->key);
    spc__attrs_set_number(out, "row_key", w->other);
    spc__attrs_set_number(out, "run", r.length);
    spc__attrs_set_number(out, "batch", r.batch);
    spc__attrs_set_number(out, "digit", SPC_SORT_DIGIT);
    spc__attrs_set_number(out, "threads", w->threads);
}

void spc__layout_problem(spc__attrs *out, const spc__index_width *w,
                         const spc_geometry *g, bool inverse)
{
    /* The layout kernel reads masks and keys of the rows, but no searched keys,
     * so the width of searched keys does not matter. */
    spc__index_width width = {32, w->other, w->threads};

    spc__index_problem(out, &width, g, inverse);
    spc__attrs_set_number(out, "layout", 1);
}

void spc__coords_problem(spc__attrs *out, const spc__index_width *w,
                         const spc_geometry *g)
{
    memset(out, 0, sizeof *out);
    spc__attrs_set_text(out, "op", "coords");
    spc__attrs_set_number(out, "key", w->key);
    spc__attrs_set_number(out, "in_key", w->other);
    spc__attrs_set_number(out, "threads", w->threads);
    if (g->rule == SPC_RULE_GENERATIVE)
        spc__attrs_set_number(out, "generative", 1);
    if (g->rule == SPC_RULE_EXPAND)
        spc__attrs_set_number(out, "expand", 1);
    if (spc__geometry_derives_by_list(g))
        spc__attrs_set_number(out, "list", 1);
}

spc_geometry spc__index_sorting_only(void)
{
    spc_geometry g = SPC_GEOMETRY_INIT;

    /* A kernel of one offset never searches, so its code only sorts. */
    g.kernel[0] = g.kernel[1] = g.kernel[2] = 1;
    return g;
}

/* ---- all code of a geometry --------------------------------------------- */

static void add_coords(spc__index_ladder *out, const spc__index_width *w,
                       const spc_geometry *g)
{
    spc__index_code *code = &out->at[out->count++];

    code->template_name = "coords";
    spc__coords_problem(&code->problem, w, g);
}

static void add_index(spc__index_ladder *out, const spc__index_width *w,
                      const spc_geometry *g, bool inverse)
{
    spc__index_code *code = &out->at[out->count++];

    code->template_name = "index";
    spc__index_problem(&code->problem, w, g, inverse);
}

static void add_rows(spc__index_ladder *out)
{
    spc__index_code *code = &out->at[out->count++];

    code->template_name = "rows";
    spc__rows_problem(&code->problem);
}

static void add_points(spc__index_ladder *out, int key)
{
    spc__index_code *code = &out->at[out->count++];

    code->template_name = "points";
    spc__points_problem(&code->problem, key);
}

/* A map of points needs sets of cells, their sorting, and the search in
 * them. */
static void init_points(spc__index_ladder *out, unsigned block)
{
    const spc_geometry sorting = spc__index_sorting_only();

    for (int key = 32; key <= 64; key += 32) {
        spc__index_width w = {key, key, block};
        add_index(out, &w, &sorting, false);
        add_coords(out, &w, &sorting);
        add_points(out, key);
    }
}

static void add_layouts(spc__index_ladder *out, unsigned block,
                        const spc_geometry *g, bool inverse)
{
    for (int key = 32; key <= 64; key += 32) {
        spc__index_width w = {key, key, block};
        spc__index_code *code = &out->at[out->count++];
        code->template_name = "index";
        spc__layout_problem(&code->problem, &w, g, inverse);
    }
}

void spc__index_ladder_init(spc__index_ladder *out, unsigned block,
                            const spc_geometry *g, bool inverse, bool apart)
{
    const spc_geometry sorting = spc__index_sorting_only();

    out->count = 0;
    if (g->rule == SPC_RULE_RADIUS) {
        init_points(out, block);
        return;
    }
    for (int key = 32; key <= 64; key += 32)
        for (int other = 32; other <= 64; other += 32) {
            spc__index_width w = {key, other, block};
            /* A submanifold map has a single set, so one key width is
             * enough. */
            if (g->rule == SPC_RULE_SUBM && key != other)
                continue;
            add_index(out, &w, g, inverse);
            add_coords(out, &w, g);
            if (key == other)
                add_index(out, &w, &sorting, false);
        }
    if (g->rule == SPC_RULE_SUBM && spc_geometry_offset_count(g) == 1)
        add_rows(out);
    if (apart)
        add_layouts(out, block, g, inverse);
}

/* ---- loading ------------------------------------------------------------- */

/* The context formats its own failures; this copies them to `error`, where
 * callers expect them. */
spc_status spc__index_load(spc__kernel **out, spc_ctx *ctx,
                           const char *template, const spc__attrs *problem,
                           const spc__attrs *config, const char *name,
                           size_t shared, spc_error *error)
{
    spc__code code;
    spc_status status =
        spc__ctx_code(&code, ctx, template, problem, config, SPC_PLAN_JIT);

    if (status != SPC_OK) {
        *error = *spc__error_of(ctx);
        return status;
    }
    return spc__device_ops_of(ctx->device)
        ->kernel_get(ctx->device, code.module, name, shared, out, error);
}

spc_status spc__index_check_resident(const spc_ctx *ctx, spc__kernel *kernel,
                                     const char *name, unsigned block,
                                     size_t shared, spc_error *error)
{
    int resident;
    spc_status status =
        spc__device_ops_of(ctx->device)
            ->occupancy(ctx->device, &resident, kernel, block, shared, error);

    if (status != SPC_OK || resident >= 1)
        return status;
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "kernel '%s' with %u threads and %zu bytes of shared "
                     "memory does not fit a multiprocessor of %s",
                     name, block, shared, ctx->info.name);
}
