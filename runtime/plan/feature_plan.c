/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_plan.c - plans of operators on features: made once, then only run.
 *
 * An operator is one launch or a few in sequence (feature_table.h). code.c
 * finds the code and handles the case without a compiler; feature kernels are
 * kept as code records.
 */
#include "operators/feature.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/plural.h"
#include "base/sized.h"
#include "compiler/space.h"
#include "context/ctx.h"
#include "coords/map.h"
#include "operators/feature_launch.h"
#include "operators/feature_table.h"
#include "operators/offset_store.h"
#include "operators/operands.h"

#include "templates/shared/feature_abi.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef spc__feature_step step;

struct spc_feature_plan {
    spc_ctx *ctx;
    spc_feature feature;
    /* elements of a row of inputs, and of outputs */
    int64_t elements_in, elements_out;
    const spc__feature_launches *launches;
    spc__kernel *wide[SPC__FEATURE_STEPS];   /* kernels for aligned rows */
    spc__kernel *single[SPC__FEATURE_STEPS]; /* for any rows; may be the same
                                              * kernel */
    unsigned resident[SPC__FEATURE_STEPS];   /* number of blocks that can be
                                              * resident */
};

/* ---- creating ------------------------------------------------------------ */

static bool is_for_processor(const spc_ctx *ctx)
{
    return strcmp(spc__target_templates(&ctx->target), "cpu") == 0;
}

static const char *template_of(const spc_feature_plan *plan)
{
    return is_for_processor(plan->ctx) ? plan->launches->on_host
                                       : plan->launches->on_gpu;
}

/* True if there is a second kernel. A processor does not need one, since it
 * loads from any address; neither do pieces of one element. */
static bool has_single(const spc_feature_plan *plan, const step *s)
{
    const spc_feature *f = &plan->feature;
    size_t element = spc__dtype_of(f->dtype)->bytes;

    return s->moves_rows && !is_for_processor(plan->ctx) &&
           (spc__feature_natural(f, spc__feature_inputs(f)) > element ||
            spc__feature_natural(f, spc__feature_outputs(f)) > element);
}

/* Blocks beyond the resident ones would gain nothing. */
static spc_status set_resident(unsigned *out, spc_ctx *ctx, spc__kernel *kernel,
                               size_t shared_bytes)
{
    int blocks = 0, processors = ctx->info.multiprocessors;
    spc_status status =
        spc__device_ops_of(ctx->device)
            ->occupancy(ctx->device, &blocks, kernel, SPC_FEATURE_THREADS,
                        shared_bytes, spc__error_of(ctx));

    *out = (unsigned)(blocks > 0 ? blocks : 1) *
           (unsigned)(processors > 0 ? processors : 1);
    return status;
}

/* Loads the kernels of a step: one for wide loads, and one for single elements
 * if rows are not aligned. */
static spc_status load_step(spc_feature_plan *plan, int i,
                            const spc__code *code)
{
    const step *s = &plan->launches->steps[i];
    char name[16];
    spc_status status = spc__ctx_kernel(&plan->wide[i], plan->ctx, code,
                                        s->name, s->shared_bytes);

    /* The code below replaces it if there is a separate kernel for single
     * elements. */
    plan->single[i] = plan->wide[i];
    snprintf(name, sizeof(name), "%s_1", s->name);
    if (status == SPC_OK && has_single(plan, s))
        status = spc__ctx_kernel(&plan->single[i], plan->ctx, code, name,
                                 s->shared_bytes);
    return status == SPC_OK ? set_resident(&plan->resident[i], plan->ctx,
                                           plan->wide[i], s->shared_bytes)
                            : status;
}

/* Finds the code of the operator and loads its steps. */
static spc_status load(spc_feature_plan *plan, unsigned flags)
{
    spc__attrs problem;
    spc__code code;

    spc__feature_attrs(&problem, &plan->feature);
    spc_status status = spc__ctx_code(&code, plan->ctx, template_of(plan),
                                      &problem, NULL, flags);

    for (int i = 0; i < SPC__FEATURE_STEPS && status == SPC_OK; i++)
        if (plan->launches->steps[i].name != NULL)
            status = load_step(plan, i, &code);
    return status;
}

spc_status spc_feature_plan_create(spc_feature_plan **out, spc_ctx *ctx,
                                   const spc_feature *feature, unsigned flags)
{
    spc_error *error = spc__error_of(ctx);
    spc_status status;

    if (out != NULL)
        *out = NULL;
    if ((status = spc__need(error, __func__, "out", out, "ctx", ctx, "feature",
                            feature, NULL)) != SPC_OK ||
        (status = spc_feature_check(feature, error)) != SPC_OK)
        return status;
    /* Each operator has one template, so there is nothing to choose and the
     * other flags have no meaning. */
    if (flags & ~(unsigned)SPC_PLAN_CACHED_ONLY)
        return spc__fail(error, SPC_EINVAL,
                         "an operator on features accepts only the plan flags "
                         "SPC_PLAN_JIT and SPC_PLAN_CACHED_ONLY");
    spc_feature_plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return spc__fail_memory(error, sizeof(*plan));
    plan->ctx = spc__ctx_share(ctx);
    plan->feature = *feature;
    plan->elements_in = spc_feature_elements_in(feature);
    plan->elements_out = spc_feature_elements_out(feature);
    plan->launches = spc__feature_launches_of(feature);
    if ((status = spc__geometry_keep(&plan->feature.geometry, error)) ==
            SPC_OK &&
        (status = load(plan, flags)) == SPC_OK) {
        *out = plan;
        plan = NULL;
    }
    spc_feature_plan_free(plan);
    return status;
}

void spc_feature_plan_free(spc_feature_plan *plan)
{
    if (plan == NULL)
        return;
    spc__ctx_leave(plan->ctx); /* the context owns the kernels' modules */
    free(plan);
}

/* ---- queries ------------------------------------------------------------- */

const char *spc__feature_plan_template(const spc_feature_plan *plan)
{
    return template_of(plan);
}

int64_t spc_coords_batches(const spc_coords *coords)
{
    return coords != NULL ? (int64_t)spc__key_high(&coords->key, 0) + 1 : 0;
}

size_t spc_feature_plan_workspace_bytes(const spc_feature_plan *plan,
                                        const spc_coords *set)
{
    spc__feature_scratch scratch;

    if (plan == NULL || set == NULL)
        return 0;
    spc__feature_sizes sizes = {set->capacity, spc_coords_batches(set),
                                set->capacity};
    spc__feature_scratch_of(&scratch, &plan->feature, &sizes);
    return scratch.bytes;
}

/* ---- maps ---------------------------------------------------------------- */

/* Checks that the map is one of this operator. */
static spc_status check_map(const spc_feature_plan *plan, const spc_map *map,
                            spc_error *error)
{
    const spc_feature *f = &plan->feature;
    bool back = spc__feature_takes_inverse(f);
    const char *pooling =
        spc__feature_row_of(f->op)->inverse ? "un-pooling" : "pooling";
    const char *of = f->pass == SPC_FORWARD ? "" : "the gradient of ";

    if (!spc__feature_takes_map(f))
        return spc__fail(error, SPC_EINVAL,
                         "the operator takes a set, and no map");
    if (spc__map_ctx(map) != plan->ctx)
        return spc__fail(error, SPC_EINVAL,
                         "the map belongs to another context than the plan");
    if (map->inverse != back)
        return spc__fail(error, SPC_EINVAL,
                         back ? "%s%s takes the inverse map "
                                "(spc_map_create_inverse)"
                              : "%s%s takes a map that is not inverse",
                         of, pooling);
    if (!spc__geometry_equal(&map->geometry, &f->geometry))
        return spc__fail(error, SPC_EINVAL,
                         "the map was built for another rule, kernel, stride, "
                         "padding or origin than the operator has");
    return SPC_OK;
}

static spc_status fail(const spc_feature_plan *plan, spc_error *error)
{
    spc__fail_prefix(error, "'%s': ", plan->launches->on_gpu);
    return spc__ctx_fail(plan->ctx, error);
}

spc_status spc_feature_plan_prepare(const spc_feature_plan *plan, spc_map *map,
                                    void *stream)
{
    spc_error error = {0};
    spc_status status =
        spc__need(plan != NULL ? spc__error_of(plan->ctx) : NULL, __func__,
                  "plan", plan, "map", map, NULL);

    if (status != SPC_OK)
        return status;
    if ((status = check_map(plan, map, &error)) != SPC_OK)
        return fail(plan, &error);
    /* Operators on features walk rows in key order, and no kernel of theirs
     * uses tiles. */
    return spc__map_prepare(map, "none", 0, stream);
}

/* ---- executing: no allocation, no synchronisation, no file --------------- */

/* Arguments of a launch while they are collected. */
typedef struct run {
    const spc_feature_plan *plan;
    spc_feature_args args;
    spc__feature_sizes sizes;
    spc__feature_scratch scratch;
    bool aligned; /* all rows are aligned to their pieces */
} run;

/* Sets the pitch of a buffer of rows, and checks if it is aligned for large
 * pieces. */
static spc_status take_rows(run *r, long long *pitch, const char *name,
                            const void *memory, int64_t given, int64_t row,
                            int64_t together, spc_error *error)
{
    size_t element = spc__dtype_of(r->plan->feature.dtype)->bytes;
    size_t piece = spc__feature_natural(&r->plan->feature, together);
    uintptr_t address = (uintptr_t)memory;

    /* A pitch of 0 means rows without gaps. */
    *pitch = given != 0 ? given : row;
    if (memory == NULL)
        return spc__fail(error, SPC_EINVAL, "buffer `%s` is NULL", name);
    if (address % element != 0)
        return spc__fail(error, SPC_EINVAL,
                         "buffer `%s` is at %p: it must be %d-byte aligned",
                         name, memory, (int)element);
    if (*pitch < row)
        return spc__fail(error, SPC_EINVAL, "`%s_pitch` is %lld: a row has %s",
                         name, *pitch, spc__count(row, "element"));
    /* Not an error: the kernel for single elements takes any address. */
    if (address % piece != 0 || (size_t)*pitch * element % piece != 0)
        r->aligned = false;
    return SPC_OK;
}

/* Scales or shifts. Large pieces read them 16 bytes at a time. */
static spc_status take_floats(run *r, const float **to, const char *name,
                              const float *given, spc_error *error)
{
    *to = given;
    if ((uintptr_t)given % 16 != 0)
        r->aligned = false;
    return spc__check_buffer(name, given, 4, error);
}

/* Checks the caller's buffers and puts them into the arguments. */
static spc_status take_buffers(run *r, const spc_feature_buffers *b,
                               spc_error *error)
{
    const spc_feature *f = &r->plan->feature;
    spc_feature_args *a = &r->args;
    spc_status status;

    r->aligned = true;
    if ((status =
             take_rows(r, &a->in_pitch, "in", b->in, b->in_pitch,
                       r->plan->elements_in, spc__feature_inputs(f), error)) ||
        (status =
             take_rows(r, &a->out_pitch, "out", b->out, b->out_pitch,
                       r->plan->elements_out, spc__feature_outputs(f), error)))
        return status;
    if (spc__feature_adds(f) &&
        (status = take_rows(r, &a->add_pitch, "add", b->add, b->add_pitch,
                            f->channels, f->channels, error)))
        return status;
    if ((spc__feature_has_index(f) &&
         (status = spc__check_buffer("index", b->index, 16, error))) ||
        (spc__feature_has_scale(f) &&
         (status = take_floats(r, &a->scale, "scale", b->scale, error))) ||
        (spc__feature_has_shift(f) &&
         (status = take_floats(r, &a->shift, "shift", b->shift, error))) ||
        /* The gradient of weights is f32, whatever the type of the features. */
        (f->pass == SPC_WGRAD && !spc__feature_is_of_add(f) &&
         (status = spc__check_buffer("out", b->out, 4, error))) ||
        (r->scratch.bytes > 0 &&
         (status = spc__check_buffer("workspace", b->workspace, 256, error))))
        return status;
    a->in = b->in;
    a->add = b->add;
    a->out = b->out;
    a->index = b->index;
    return SPC_OK;
}

/* Puts a set into the arguments. */
static void take_set(run *r, const spc_coords *set)
{
    spc_feature_args *a = &r->args;

    a->rows = spc__coords_row_count(set);
    a->capacity = set->capacity;
    a->count = set->count;
    a->order = set->order;
    a->keys = set->keys;
    a->key = set->key;
    a->batches = (int)spc_coords_batches(set);
    r->sizes = (spc__feature_sizes){set->capacity, a->batches, set->capacity};
}

/* Puts a map into the arguments. */
static spc_status take_map(run *r, const spc_map *map, spc_error *error)
{
    spc_map_view view;
    spc_status status = check_map(r->plan, map, error);

    if (status != SPC_OK)
        return status;
    if (!spc__map_view(&view, map, "none", 0))
        return spc__fail(error, SPC_ESTATE,
                         "the map is not prepared for this plan: call "
                         "spc_feature_plan_prepare first");
    if ((status = spc__map_need_filled(map, error)) != SPC_OK)
        return status;
    take_set(r, map->to);
    r->sizes.seen = map->in->capacity;
    r->args.map = view.index;
    r->args.rows_padded = view.rows_padded;
    return SPC_OK;
}

/* Takes the set or the map, depending on the operator. */
static spc_status take_place(run *r, const spc_coords *set, const spc_map *map,
                             spc_error *error)
{
    const spc_feature_plan *plan = r->plan;
    bool mapped = spc__feature_takes_map(&plan->feature);

    if (mapped ? map == NULL || set != NULL : set == NULL || map != NULL)
        return spc__fail(error, SPC_EINVAL,
                         mapped ? "the operator takes a map, and no set"
                                : "the operator takes a set, and no map");
    if (mapped)
        return take_map(r, map, error);
    if (set->ctx != plan->ctx)
        return spc__fail(error, SPC_EINVAL,
                         "the set belongs to another context than the plan");
    take_set(r, set);
    return spc__coords_need_filled(set, error);
}

/* Places the arrays in the workspace and clears the cells. */
static spc_status set_workspace(run *r, char *workspace, void *stream,
                                spc_error *error)
{
    spc__device *device = r->plan->ctx->device;
    const spc__feature_scratch *scratch = &r->scratch;

    if (scratch->bytes == 0)
        return SPC_OK;
    r->args.parts = (float *)workspace;
    r->args.moments = (float *)(workspace + scratch->moments);
    r->args.cells = (int *)(workspace + scratch->cells);
    /* Kernels count in the cells or take a minimum, so they begin with the
     * operator's neutral value. */
    return scratch->cells_bytes > 0 ? spc__device_ops_of(device)->fill(
                                          device, r->args.cells, scratch->empty,
                                          scratch->cells_bytes, stream, error)
                                    : SPC_OK;
}

/* Enough blocks for the threads, and not more than run at once, as the kernels
 * loop. */
static unsigned grid_of(const run *r, int i)
{
    int64_t threads =
        r->plan->launches->steps[i].threads(&r->plan->feature, &r->sizes);
    int64_t blocks = (threads + SPC_FEATURE_THREADS - 1) / SPC_FEATURE_THREADS;
    unsigned most = r->plan->resident[i];

    return blocks < 1 ? 1 : blocks < most ? (unsigned)blocks : most;
}

/* Puts the steps on the stream. */
static spc_status enqueue(run *r, void *stream, spc_error *error)
{
    const spc_feature_plan *plan = r->plan;
    spc__device *device = plan->ctx->device;
    spc_status status = SPC_OK;

    for (int i = 0; i < SPC__FEATURE_STEPS && status == SPC_OK; i++) {
        const step *s = &plan->launches->steps[i];
        if (s->name == NULL)
            break;
        spc__launch launch = {.grid_x = grid_of(r, i),
                              .grid_y = 1,
                              .block = SPC_FEATURE_THREADS,
                              .shared_bytes = s->shared_bytes};
        /* Kernels leave one partial result a block, and the next step must know
         * how many. */
        r->args.blocks = (int)launch.grid_x;
        status = spc__device_ops_of(device)->launch(
            device, r->aligned ? plan->wide[i] : plan->single[i], &launch,
            &r->args, sizeof(r->args), stream, error);
    }
    return status;
}

spc_status spc_feature_plan_execute(const spc_feature_plan *plan,
                                    const spc_coords *set, const spc_map *map,
                                    const spc_feature_buffers *buffers,
                                    void *stream)
{
    run r = {.plan = plan};
    spc_error error; /* filled only by a failure, because its text is long */
    spc_status status;

    if (plan == NULL)
        return spc__need(NULL, __func__, "plan", plan, NULL);
    spc__error_clear(&error);
    r.args.eps = plan->feature.eps;
    r.args.slope = plan->feature.slope;
    if ((status = take_place(&r, set, map, &error)) == SPC_OK) {
        /* After take_place(), which sets the sizes that it depends on. */
        spc__feature_scratch_of(&r.scratch, &plan->feature, &r.sizes);
        int64_t rows = spc__feature_rows_out(&plan->feature, r.sizes.rows,
                                             r.sizes.batches);
        if (rows == 0) /* buffers without rows may be NULL */
            return SPC_OK;
        if (buffers == NULL)
            status = spc__fail(&error, SPC_EINVAL, "the buffers are NULL");
        else if ((status = SPC__TAKE(spc_feature_buffers, buffers, &error)) ==
                     SPC_OK &&
                 (status = take_buffers(&r, buffers, &error)) == SPC_OK &&
                 (status = set_workspace(&r, buffers->workspace, stream,
                                         &error)) == SPC_OK)
            status = enqueue(&r, stream, &error);
    }
    return status == SPC_OK ? SPC_OK : fail(plan, &error);
}
