/*
 * feature_plan.c - operators on features bound to loaded kernels: made once,
 * then only run.
 *
 * An operator is one launch, or a few one after the other (the table `kinds`).
 * Where code is found, and what happens without a compiler, is code.c's matter:
 * kernels of features are kept as code records.
 */
#include "feature.h"

#include "ctx.h"
#include "dtype.h"
#include "error.h"
#include "map.h"
#include "operands.h"
#include "space.h"

#include "feature_abi.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MOST = 3, WARP = 32 };

typedef struct sizes sizes;

/* One launch. Of a kernel that moves rows there is a second, for rows at any
 * address. */
typedef struct step {
    const char *name;
    bool moves_rows;
    int64_t (*threads)(const spc_feature *f, const sizes *s);
    size_t shared_bytes;
} step;

/* What a launch's grid and the workspace depend on. */
struct sizes {
    int64_t rows; /* capacity */
    int64_t batches;
};

/* Operators that run alike. */
typedef struct kind {
    const char *template_name;
    unsigned ops;
    step steps[STEPS_MOST];
} kind;

struct spc_feature_plan {
    spc_ctx *ctx;
    spc_feature feature;
    const kind *kind;
    spc__kernel *wide[STEPS_MOST];   /* for rows that are aligned */
    spc__kernel *single[STEPS_MOST]; /* for any; may be the same */
    unsigned resident[STEPS_MOST];   /* blocks that run at the same time */
};

/* ---- how much there is to do --------------------------------------------- */

/* The largest power of two up to 16 that divides a row: what feature.lua calls
 * natural. */
static size_t natural(const spc_feature *f, int64_t elements)
{
    size_t bytes = (size_t)elements * spc__dtype_of(f->dtype)->bytes, at = 16;

    while (bytes % at != 0)
        at /= 2;
    return at;
}

/* A thread for each piece of an output row. */
static int64_t by_pieces(const spc_feature *f, const sizes *s)
{
    int64_t outputs = spc__feature_outputs(f);
    int64_t bytes = outputs * (int64_t)spc__dtype_of(f->dtype)->bytes;

    return s->rows * (bytes / (int64_t)natural(f, outputs));
}

static int64_t by_warps(const spc_feature *f, const sizes *s)
{
    (void)f;
    return s->rows * WARP;
}

static int64_t by_rows(const spc_feature *f, const sizes *s)
{
    (void)f;
    return s->rows;
}

static int64_t by_parts(const spc_feature *f, const sizes *s)
{
    (void)f;
    return s->batches * SPC_FEATURE_PARTS * SPC_FEATURE_THREADS;
}

static int64_t by_channels(const spc_feature *f, const sizes *s)
{
    return s->batches * ((f->channels + WARP - 1) / WARP) * SPC_FEATURE_THREADS;
}

static int64_t by_groups(const spc_feature *f, const sizes *s)
{
    return s->batches * f->groups * WARP;
}

static int64_t layer_cells(const spc_feature *f)
{
    return (int64_t)f->shape[0] * f->shape[1] * f->shape[2];
}

static int64_t by_cells(const spc_feature *f, const sizes *s)
{
    return s->batches * layer_cells(f);
}

#define OP(name) (1u << SPC_FEATURE_##name)

/* What a block of global pooling keeps of every warp. */
enum {
    PART_BYTES = SPC_FEATURE_THREADS / WARP * WARP * 8 * sizeof(float),
    JOIN_BYTES = SPC_FEATURE_THREADS / WARP * WARP * sizeof(float)
};

static const kind kinds[] = {
    {"feature_pool", OP(POOL) | OP(UNPOOL), {{"spc_pool", true, by_pieces, 0}}},
    {"feature_rows",
     OP(ADD) | OP(ACT) | OP(ACTGRAD) | OP(GROUPSUM) | OP(GROUPMEAN) |
         OP(REPEAT),
     {{"spc_rows", true, by_pieces, 0}}},
    {"feature_norm", OP(LAYERNORM), {{"spc_norm", true, by_warps, 0}}},
    {"feature_batch",
     OP(GLOBAL),
     {{"spc_part", true, by_parts, PART_BYTES},
      {"spc_join", false, by_channels, JOIN_BYTES}}},
    {"feature_batch",
     OP(GROUPNORM),
     {{"spc_part", true, by_parts, 0},
      {"spc_join", false, by_groups, 0},
      {"spc_apply", true, by_pieces, 0}}},
    {"feature_bev",
     OP(BEV),
     {{"spc_place", false, by_rows, 0}, {"spc_dense", true, by_cells, 0}}},
};

static const kind *kind_of(spc_feature_op op)
{
    const kind *at = kinds;

    while (!(at->ops >> op & 1))
        at++;
    return at;
}

/* ---- making -------------------------------------------------------------- */

static bool is_for_processor(const spc_ctx *ctx)
{
    return strcmp(spc__target_templates(&ctx->target), "cpu") == 0;
}

/* One template serves a processor, some a GPU. */
static const char *template_for(const spc_ctx *ctx, const kind *k)
{
    return is_for_processor(ctx) ? "feature_cpu" : k->template_name;
}

/* Is there a second kernel? Not for a processor, whose loads may lie anywhere,
 * and not where a piece is one element. */
static bool has_single(const spc_feature_plan *plan, const step *s)
{
    const spc_feature *f = &plan->feature;
    size_t element = spc__dtype_of(f->dtype)->bytes;

    return s->moves_rows && !is_for_processor(plan->ctx) &&
           (natural(f, f->channels) > element ||
            natural(f, spc__feature_outputs(f)) > element);
}

/* More blocks than run at the same time would gain nothing. */
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

static spc_status load_step(spc_feature_plan *plan, int i,
                            const spc__code *code)
{
    const step *s = &plan->kind->steps[i];
    char name[16];
    spc_status status = spc__ctx_kernel(&plan->wide[i], plan->ctx, code,
                                        s->name, s->shared_bytes);

    plan->single[i] = plan->wide[i];
    snprintf(name, sizeof(name), "%s_1", s->name);
    if (status == SPC_OK && has_single(plan, s))
        status = spc__ctx_kernel(&plan->single[i], plan->ctx, code, name,
                                 s->shared_bytes);
    return status == SPC_OK ? set_resident(&plan->resident[i], plan->ctx,
                                           plan->wide[i], s->shared_bytes)
                            : status;
}

static spc_status load(spc_feature_plan *plan, unsigned flags)
{
    spc__attrs problem;
    spc__code code;

    spc__feature_attrs(&problem, &plan->feature);
    spc_status status =
        spc__ctx_code(&code, plan->ctx, template_for(plan->ctx, plan->kind),
                      &problem, NULL, flags);

    for (int i = 0; i < STEPS_MOST && status == SPC_OK; i++)
        if (plan->kind->steps[i].name != NULL)
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
    if (flags & ~(unsigned)SPC_PLAN_CACHED_ONLY)
        return spc__fail(error, SPC_EINVAL,
                         "an operator on features has the plan flags "
                         "SPC_PLAN_JIT and SPC_PLAN_CACHED_ONLY");
    spc_feature_plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return spc__fail_memory(error, sizeof(*plan));
    plan->ctx = ctx;
    plan->feature = *feature;
    plan->kind = kind_of(feature->op);
    if ((status = load(plan, flags)) == SPC_OK) {
        *out = plan;
        plan = NULL;
    }
    spc_feature_plan_free(plan);
    return status;
}

void spc_feature_plan_free(spc_feature_plan *plan)
{
    free(plan); /* the kernels belong to the context's modules */
}

/* ---- questions ----------------------------------------------------------- */

const char *spc__feature_plan_template(const spc_feature_plan *plan)
{
    return template_for(plan->ctx, plan->kind);
}

int64_t spc_coords_batches(const spc_coords *coords)
{
    return coords != NULL ? (int64_t)spc__key_high(&coords->key, 0) + 1 : 0;
}

/* 256 bytes are what each array of a workspace begins at a multiple of. */
static size_t padded(int64_t bytes)
{
    return ((size_t)bytes + 255) / 256 * 256;
}

static size_t parts_bytes(const spc_feature *f, int64_t batches)
{
    int64_t floats =
        f->op == SPC_FEATURE_GLOBAL ? f->channels : 2 * (int64_t)f->groups;

    return padded(batches * SPC_FEATURE_PARTS * floats * 4);
}

static size_t workspace_bytes(const spc_feature *f, int64_t batches)
{
    switch (f->op) {
    case SPC_FEATURE_GLOBAL:
        return parts_bytes(f, batches);
    case SPC_FEATURE_GROUPNORM:
        return parts_bytes(f, batches) + padded(batches * f->groups * 8);
    case SPC_FEATURE_BEV:
        return padded(batches * layer_cells(f) * 4);
    default:
        return 0;
    }
}

size_t spc_feature_workspace_bytes(const spc_feature_plan *plan,
                                   const spc_coords *set)
{
    if (plan == NULL || set == NULL)
        return 0;
    return workspace_bytes(&plan->feature, spc_coords_batches(set));
}

/* ---- maps ---------------------------------------------------------------- */

static spc_status check_map(const spc_feature_plan *plan, const spc_map *map,
                            spc_error *error)
{
    const spc_feature *f = &plan->feature;
    bool back = f->op == SPC_FEATURE_UNPOOL;

    if (!spc__feature_takes_map(f))
        return spc__fail(error, SPC_EINVAL,
                         "the operator takes a set, and no map");
    if (spc__map_ctx(map) != plan->ctx)
        return spc__fail(error, SPC_EINVAL,
                         "the map belongs to another context than the plan");
    if (map->inverse != back)
        return spc__fail(error, SPC_EINVAL,
                         back ? "un-pooling takes the inverse map "
                                "(spc_map_create_inverse)"
                              : "pooling takes a map that is not inverse");
    if (!spc__geometry_equal(&map->geometry, &f->geometry))
        return spc__fail(error, SPC_EINVAL,
                         "the map was built for another rule, kernel, stride, "
                         "padding or origin than the operator has");
    return SPC_OK;
}

static spc_status fail(const spc_feature_plan *plan, spc_error *error)
{
    spc__fail_prefix(error, "'%s': ", plan->kind->template_name);
    return spc__ctx_fail(plan->ctx, error);
}

spc_status spc_feature_prepare(const spc_feature_plan *plan, spc_map *map,
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
    return spc__map_prepare(map, "none", 0, stream);
}

/* ---- the execute path: no allocation, no synchronisation, no file -------- */

/* What a launch is made from. */
typedef struct run {
    const spc_feature_plan *plan;
    spc_feature_args args;
    sizes sizes;
    bool aligned; /* all rows lie at multiples of their pieces */
} run;

/* A buffer of rows: its pitch, and whether the large pieces can move it. */
static spc_status take_rows(run *r, long long *pitch, const char *name,
                            const void *memory, int64_t given, int64_t row,
                            int64_t together, spc_error *error)
{
    size_t element = spc__dtype_of(r->plan->feature.dtype)->bytes;
    size_t piece = natural(&r->plan->feature, together);
    uintptr_t address = (uintptr_t)memory;

    *pitch = given != 0 ? given : row;
    if (memory == NULL)
        return spc__fail(error, SPC_EINVAL, "buffer `%s` is NULL", name);
    if (address % element != 0)
        return spc__fail(error, SPC_EINVAL,
                         "buffer `%s` is at %p: it must be %d-byte aligned",
                         name, memory, (int)element);
    if (*pitch < row)
        return spc__fail(error, SPC_EINVAL,
                         "`%s_pitch` is %lld: a row has %lld elements", name,
                         *pitch, (long long)row);
    if (address % piece != 0 || (size_t)*pitch * element % piece != 0)
        r->aligned = false;
    return SPC_OK;
}

static bool has_index(const spc_feature *f)
{
    return f->index && spc__feature_takes_map(f);
}

static bool is_affine(const spc_feature *f)
{
    return f->affine &&
           (f->op == SPC_FEATURE_LAYERNORM || f->op == SPC_FEATURE_GROUPNORM);
}

static spc_status take_buffers(run *r, const spc_feature_buffers *b,
                               spc_error *error)
{
    const spc_feature *f = &r->plan->feature;
    spc_feature_args *a = &r->args;
    spc_status status;

    r->aligned = true;
    if ((status = take_rows(r, &a->in_pitch, "in", b->in, b->in_pitch,
                            f->channels, f->channels, error)) ||
        (status =
             take_rows(r, &a->out_pitch, "out", b->out, b->out_pitch,
                       spc_feature_row_out(f), spc__feature_outputs(f), error)))
        return status;
    if (spc__feature_adds(f) &&
        (status = take_rows(r, &a->add_pitch, "add", b->add, b->add_pitch,
                            f->channels, f->channels, error)))
        return status;
    if ((has_index(f) &&
         (status = spc__check_buffer("index", b->index, 16, error))) ||
        (is_affine(f) &&
         ((status = spc__check_buffer("scale", b->scale, 4, error)) ||
          (status = spc__check_buffer("shift", b->shift, 4, error)))) ||
        (workspace_bytes(f, r->sizes.batches) > 0 &&
         (status = spc__check_buffer("workspace", b->workspace, 256, error))))
        return status;
    a->in = b->in;
    a->add = b->add;
    a->out = b->out;
    a->index = b->index;
    a->scale = b->scale;
    a->shift = b->shift;
    return SPC_OK;
}

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
    r->sizes = (sizes){set->capacity, a->batches};
}

static spc_status take_map(run *r, const spc_map *map, spc_error *error)
{
    spc_map_view view;
    spc_status status = check_map(r->plan, map, error);

    if (status != SPC_OK)
        return status;
    if (!spc__map_view(&view, map, "none", 0))
        return spc__fail(error, SPC_ESTATE,
                         "the map is not prepared for this plan: call "
                         "spc_feature_prepare first");
    take_set(r, map->to);
    r->args.map = view.index;
    r->args.rows_padded = view.rows_padded;
    return SPC_OK;
}

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
    return SPC_OK;
}

/* Where its arrays lie in the workspace; cells begin empty. */
static spc_status set_workspace(run *r, void *workspace, void *stream,
                                spc_error *error)
{
    const spc_feature *f = &r->plan->feature;
    spc__device *device = r->plan->ctx->device;
    size_t bytes = workspace_bytes(f, r->sizes.batches);

    if (f->op == SPC_FEATURE_BEV) {
        r->args.cells = workspace;
        return spc__device_ops_of(device)->fill(device, workspace, 0xff, bytes,
                                                stream, error);
    }
    r->args.parts = workspace;
    if (f->op == SPC_FEATURE_GROUPNORM)
        r->args.moments =
            (float *)((char *)workspace + parts_bytes(f, r->sizes.batches));
    return SPC_OK;
}

static unsigned grid_of(const run *r, int i)
{
    int64_t threads =
        r->plan->kind->steps[i].threads(&r->plan->feature, &r->sizes);
    int64_t blocks = (threads + SPC_FEATURE_THREADS - 1) / SPC_FEATURE_THREADS;
    unsigned most = r->plan->resident[i];

    return blocks < 1 ? 1 : blocks < most ? (unsigned)blocks : most;
}

static spc_status enqueue(run *r, void *stream, spc_error *error)
{
    const spc_feature_plan *plan = r->plan;
    spc__device *device = plan->ctx->device;
    spc_status status = SPC_OK;

    for (int i = 0; i < STEPS_MOST && status == SPC_OK; i++) {
        const step *s = &plan->kind->steps[i];
        if (s->name == NULL)
            break;
        spc__launch launch = {.grid_x = grid_of(r, i),
                              .grid_y = 1,
                              .block = SPC_FEATURE_THREADS,
                              .shared_bytes = s->shared_bytes};
        r->args.blocks = (int)launch.grid_x;
        status = spc__device_ops_of(device)->launch(
            device, r->aligned ? plan->wide[i] : plan->single[i], &launch,
            &r->args, sizeof(r->args), stream, error);
    }
    return status;
}

spc_status spc_feature_execute(const spc_feature_plan *plan,
                               const spc_coords *set, const spc_map *map,
                               const spc_feature_buffers *buffers, void *stream)
{
    run r = {.plan = plan};
    spc_error error = {0};
    spc_status status =
        spc__need(plan != NULL ? spc__error_of(plan->ctx) : NULL, __func__,
                  "plan", plan, NULL);

    if (status != SPC_OK)
        return status;
    r.args.eps = plan->feature.eps;
    r.args.slope = plan->feature.slope;
    if ((status = take_place(&r, set, map, &error)) == SPC_OK) {
        int64_t rows =
            spc_feature_rows_out(&plan->feature, r.sizes.rows, r.sizes.batches);
        if (rows == 0) /* buffers of no rows may well be NULL */
            return SPC_OK;
        if (buffers == NULL)
            status = spc__fail(&error, SPC_EINVAL, "the buffers are NULL");
        else if ((status = take_buffers(&r, buffers, &error)) == SPC_OK &&
                 (status = set_workspace(&r, buffers->workspace, stream,
                                         &error)) == SPC_OK)
            status = enqueue(&r, stream, &error);
    }
    return status == SPC_OK ? SPC_OK : fail(plan, &error);
}
