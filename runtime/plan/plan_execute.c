/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_execute.c - runs a plan without allocating, synchronising or opening
 * files.
 */
#include "plan/plan_parts.h"

#include "base/dtype.h"
#include "base/error.h"
#include "coords/map.h"
#include "coords/rows.h"
#include "operators/operands.h"
#include "operators/pass.h"
#include "plan/transpose.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Block size of packing kernels. */
enum { PACK_BLOCK = 256 };

/* Keeps the message for the calling thread, as other threads may fail at the
 * same time. */
static spc_status fail(const spc_plan *plan, spc_error *error)
{
    spc__fail_prefix(error, "'%s': ", plan->template_name);
    return spc__ctx_fail(plan->ctx, error);
}

/* Each thread reads one part of the weights while others write, so packing in
 * place would be a race. */
static spc_status check_packing(const spc_plan *plan, const void *packed,
                                const void *weights, spc_weights_layout layout,
                                spc_error *error)
{
    spc__operand as = spc__operand_of(&plan->conv, SPC_OPERAND_WEIGHTS, 0);
    uintptr_t from = (uintptr_t)weights, to = (uintptr_t)packed;
    spc_status status;

    if (plan->geometry.gradient)
        return spc__fail(error, SPC_EINVAL,
                         "a gradient of weights reads none: there is nothing "
                         "to pack");
    if (layout != SPC_KRSC && layout != SPC_RSCK)
        return spc__fail(error, SPC_EINVAL,
                         "weights layout %d is unknown: SPC_KRSC or SPC_RSCK "
                         "is right",
                         (int)layout);
    if ((status = spc__check_buffer("weights", weights,
                                    spc__dtype_of(as.dtype)->bytes, error)) !=
            SPC_OK ||
        (status = spc__check_buffer("packed", packed, 256, error)) != SPC_OK)
        return status;
    if (from >= to + spc_plan_weights_bytes(plan) ||
        to >= from + as.dense_bytes)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "buffers `packed` and `weights` overlap: what is written "
                     "must lie apart from all others");
}

/* After check_packing. */
static spc_status enqueue_packing(const spc_plan *plan, void *packed,
                                  const void *weights,
                                  spc_weights_layout layout, void *stream,
                                  spc_error *error)
{
    const spc__device_ops *ops = spc__device_ops_of(plan->ctx->device);
    spc_pack_args args = {.weights = weights, .packed = packed};
    spc__launch launch = {.grid_y = 1, .block = PACK_BLOCK};

    spc__pass_strides(&args, &plan->conv, layout);
    launch.grid_x =
        (unsigned)((plan->geometry.pack_threads + PACK_BLOCK - 1) / PACK_BLOCK);
    return ops->launch(plan->ctx->device, plan->pack, &launch, &args,
                       sizeof(args), stream, error);
}

spc_status spc_plan_pack_weights(const spc_plan *plan, void *packed,
                                 const void *weights, spc_weights_layout layout,
                                 void *stream)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "plan", plan, NULL);

    if (status != SPC_OK)
        return status;
    status = check_packing(plan, packed, weights, layout, &error);
    if (status == SPC_OK)
        status = enqueue_packing(plan, packed, weights, layout, stream, &error);
    return status == SPC_OK ? SPC_OK : fail(plan, &error);
}

/* SPC_EINVAL for arrays that cannot be read. The sentence goes to the context
 * of the first plan that there is. */
static spc_status check_plans(const spc_plan *const *plans, void *const *packed,
                              const void *const *weights, int count)
{
    spc_error *to = NULL;

    for (int i = 0; to == NULL && plans != NULL && i < count; i++)
        if (plans[i] != NULL)
            to = spc__error_of(plans[i]->ctx);
    if (count < 0)
        return spc__fail(to, SPC_EINVAL,
                         "spc_plans_pack_weights: %d plans are impossible",
                         count);
    if (count == 0)
        return SPC_OK;
    spc_status status = spc__need(to, "spc_plans_pack_weights", "plans", plans,
                                  "packed", packed, "weights", weights, NULL);
    for (int i = 0; status == SPC_OK && i < count; i++)
        if (plans[i] == NULL)
            status = spc__fail(to, SPC_EINVAL,
                               "spc_plans_pack_weights: `plans[%d]` must not "
                               "be NULL",
                               i);
    return status;
}

spc_status spc_plans_pack_weights(int *failed, const spc_plan *const *plans,
                                  void *const *packed,
                                  const void *const *weights, int count,
                                  spc_weights_layout layout, void *stream)
{
    spc_error error = {0};
    spc_status status = check_plans(plans, packed, weights, count);
    int i = 0;

    if (failed != NULL)
        *failed = -1;
    if (status != SPC_OK)
        return status;
    for (i = 0; i < count && status == SPC_OK; i++)
        status = check_packing(plans[i], packed[i], weights[i], layout, &error);
    if (status == SPC_OK)
        for (i = 0; i < count && status == SPC_OK; i++)
            status = enqueue_packing(plans[i], packed[i], weights[i], layout,
                                     stream, &error);
    if (status == SPC_OK)
        return SPC_OK;
    if (failed != NULL)
        *failed = i - 1;
    return fail(plans[i - 1], &error);
}

/* Memory of an array: rows of `width` bytes at a distance of `pitch`. */
typedef struct extent {
    const char *name;
    uintptr_t start;
    size_t bytes, width, pitch;
} extent;

static extent extent_of(const spc__operand *operand, const void *memory)
{
    size_t element = operand->columns > 0 && operand->rows > 0
                         ? operand->dense_bytes / (size_t)operand->rows /
                               (size_t)operand->columns
                         : 0;

    return (extent){operand->name, (uintptr_t)memory, operand->bytes,
                    (size_t)operand->columns * element,
                    (size_t)operand->pitch * element};
}

/* Slices of one buffer interleave: one lies between the rows of the other, so
 * their address ranges intersect although they do not overlap. */
static bool overlap(const extent *a, const extent *b)
{
    if (a->bytes == 0 || b->bytes == 0 || a->start >= b->start + b->bytes ||
        b->start >= a->start + a->bytes)
        return false;
    if (a->pitch != b->pitch || a->pitch == 0)
        return true;
    ptrdiff_t pitch = (ptrdiff_t)a->pitch;
    ptrdiff_t between = (ptrdiff_t)(b->start - a->start) % pitch;
    if (between < 0)
        between += pitch;
    /* Rows of b begin `between` bytes after those of a. They are free of a if
     * they begin after its row and end before its next one. */
    return between < (ptrdiff_t)a->width ||
           between + (ptrdiff_t)b->width > pitch;
}

/* The arguments of an execution. */
typedef struct execution {
    int64_t rows_in, rows_out;
    size_t workspace_bytes;
} execution;

/* Lists the arrays, written ones first. Returns their number. */
static int list_extents(extent out[SPC_OPERANDS + 1],
                        const spc__operand operands[SPC_OPERANDS],
                        const execution *e,
                        const void *const given[SPC_OPERANDS],
                        const void *workspace)
{
    int count = 2;

    out[0] = extent_of(&operands[SPC_OPERAND_OUT], given[SPC_OPERAND_OUT]);
    out[1] =
        (extent){"workspace", (uintptr_t)workspace, e->workspace_bytes, 0, 0};
    for (int i = 0; i < SPC_OPERANDS; i++)
        if (i != SPC_OPERAND_OUT && operands[i].present)
            out[count++] = extent_of(&operands[i], given[i]);
    return count;
}

/* A gradient may be accumulated in place. */
static bool may_be_one(const spc__operand *operand, const extent *a,
                       const extent *b)
{
    return operand->in_place && a->start == b->start && a->bytes == b->bytes;
}

/* Blocks run in any order: one may write while others still read. */
static spc_status check_overlaps(const spc__operand operands[SPC_OPERANDS],
                                 const execution *e,
                                 const void *const given[SPC_OPERANDS],
                                 const void *workspace, spc_error *error)
{
    extent all[SPC_OPERANDS + 1];
    int count = list_extents(all, operands, e, given, workspace);

    for (int written = 0; written < 2; written++)
        for (int i = written + 1; i < count; i++)
            if (overlap(&all[written], &all[i]) &&
                !may_be_one(&operands[SPC_OPERAND_WEIGHTS], &all[written],
                            &all[i]))
                return spc__fail(error, SPC_EINVAL,
                                 "buffers `%s` and `%s` overlap: what is "
                                 "written must lie apart from all others",
                                 all[written].name, all[i].name);
    return SPC_OK;
}

/* A weight gradient is written even if there are no rows. */
static bool needs_memory(const spc_plan *plan, const spc__operand *operand)
{
    return operand->bytes > 0 || !plan->geometry.gradient;
}

static spc_status check_buffers(const spc_plan *plan, const execution *e,
                                const spc_buffers *buffers, spc_error *error)
{
    const void *const given[SPC_OPERANDS] = {
        buffers->in,       buffers->out,       buffers->weights,
        buffers->bias,     buffers->scale,     buffers->residual,
        buffers->in_scale, buffers->out_scale, buffers->residual_scale};
    spc__operand operands[SPC_OPERANDS];

    spc__operands(operands, &plan->conv, e->rows_in, e->rows_out);
    operands[SPC_OPERAND_WEIGHTS].bytes = spc_plan_weights_bytes(plan);
    operands[SPC_OPERAND_WEIGHTS].pitch = 0;
    for (int i = 0; i < SPC_OPERANDS; i++)
        if (operands[i].present && needs_memory(plan, &operands[i]) &&
            spc__check_buffer(operands[i].name, given[i], operands[i].alignment,
                              error) != SPC_OK)
            return error->status;
    if (e->workspace_bytes > 0 &&
        spc__check_buffer("workspace", buffers->workspace, 256, error) !=
            SPC_OK)
        return error->status;
    return check_overlaps(operands, e, given, buffers->workspace, error);
}

static unsigned grid_of(const spc__launch_geometry *geometry, int tiles)
{
    unsigned per_block = (unsigned)geometry->tiles_per_block;
    unsigned blocks = ((unsigned)tiles + per_block - 1) / per_block;

    if (geometry->grid_x > 0)
        return geometry->grid_x;
    if (geometry->persistent > 0 &&
        (geometry->shares_tiles ||
         geometry->persistent < blocks * geometry->cluster))
        return geometry->persistent;
    return blocks * geometry->cluster;
}

/* Blocks that loop over tiles: not more than fill the device. */
static unsigned sum_grid_of(const spc_plan *plan, int tiles)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    unsigned most =
        geometry->sum_per_sm * (unsigned)plan->ctx->info.multiprocessors;

    if (geometry->sum_grid_x > 0)
        return geometry->sum_grid_x;
    return most > 0 && most < (unsigned)tiles ? most : (unsigned)tiles;
}

/* Enqueues the kernel that sums partial results: parts of tiles, or parts of
 * rows by pairs. */
static spc_status enqueue_sum(const spc_plan *plan, const spc_conv_args *args,
                              void *stream, spc_error *error)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    spc__launch launch = {
        .grid_x = sum_grid_of(plan, args->map.tiles),
        .grid_y = geometry->sum_grid_y,
        .block = geometry->sum_block,
        .shared_bytes = geometry->sum_shared_bytes,
        .pdl = geometry->pdl,
    };

    return spc__device_ops_of(plan->ctx->device)
        ->launch(plan->ctx->device, plan->sum, &launch, args, sizeof(*args),
                 stream, error);
}

/* Zeroes the arrays that kernels accumulate into. */
static spc_status enqueue_clear(const spc_plan *plan, const spc_map *map,
                                const spc_conv_args *args, void *stream,
                                spc_error *error)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    spc__device *device = plan->ctx->device;
    const spc__device_ops *ops = spc__device_ops_of(device);
    int64_t pairs = map ? spc__map_pair_capacity(map) : 0;
    spc_status status = SPC_OK;

    if (geometry->clear)
        status = ops->fill(
            device, args->out, 0,
            spc__operand_of(&plan->conv, SPC_OPERAND_OUT, args->map.rows).bytes,
            stream, error);
    if (status == SPC_OK && geometry->clear_workspace)
        status = ops->fill(
            device, args->workspace, 0,
            spc__plan_work_bytes(geometry, args->map.rows_padded, pairs),
            stream, error);
    return status;
}

/* Multiplies the matrix that the first kernel left at the start of the
 * workspace by the weights. The product follows the matrix. */
static spc_status enqueue_gemm(const spc_plan *plan, const spc_conv_args *args,
                               void *stream, spc_error *error)
{
    spc__device *device = plan->ctx->device;
    int depth = plan->geometry.gemm_depth;
    size_t row = (size_t)depth * spc__dtype_of(plan->conv.dtype)->bytes;
    spc__gemm gemm = {
        .a = args->workspace,
        .b = args->weights,
        .c = (float *)(void *)((char *)args->workspace +
                               (size_t)args->map.rows_padded * row),
        .rows = args->map.rows_padded,
        .columns = plan->conv.cout,
        .depth = depth,
        .dtype = plan->conv.dtype,
    };

    return spc__device_ops_of(device)->gemm(device, &gemm, stream, error);
}

static spc_status enqueue_conv(const spc_plan *plan, const spc_conv_args *args,
                               void *stream, spc_error *error)
{
    spc__device *device = plan->ctx->device;
    const spc__device_ops *ops = spc__device_ops_of(device);
    const spc__launch_geometry *geometry = &plan->geometry;
    spc__launch launch = {
        .grid_x = grid_of(geometry, args->map.tiles),
        .grid_y = geometry->grid_y,
        .block = geometry->block,
        .shared_bytes = geometry->shared_bytes,
        .pdl = geometry->pdl,
        .cluster = geometry->cluster,
    };

    return ops->launch(device, plan->run, &launch, args, sizeof(*args), stream,
                       error);
}

/* Enqueues the kernel that prepares input for the main kernel. */
static spc_status enqueue_first(const spc_plan *plan, const spc_conv_args *args,
                                void *stream, spc_error *error)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    int rows = geometry->first_rows;
    spc__launch launch = {
        .grid_x = (unsigned)((args->map.rows_padded + rows - 1) / rows),
        .grid_y = 1,
        .block = geometry->first_block,
        .pdl = geometry->pdl,
    };

    if (plan->first == NULL || launch.grid_x == 0)
        return SPC_OK;
    return spc__device_ops_of(plan->ctx->device)
        ->launch(plan->ctx->device, plan->first, &launch, args, sizeof(*args),
                 stream, error);
}

/* Runs each group of offsets into its part of the workspace, then the kernel
 * that sums them, which needs only the rows. Only the first group writes the
 * output, so the others need not wait for the preceding kernel. */
static spc_status enqueue_groups(const spc_plan *plan, const spc_map *map,
                                 const spc_conv_args *all, void *stream,
                                 spc_error *error)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    int groups = geometry->groups;
    size_t part = (size_t)all->map.rows_padded *
                  (geometry->workspace_row_bytes / (size_t)groups);
    spc_conv_args args = *all;
    spc_status status = SPC_OK;

    for (int g = 0; g < groups && status == SPC_OK; g++) {
        spc__map_view_group(&args.map, map, geometry->order,
                            geometry->tile_rows, g);
        args.workspace = (char *)all->workspace + (size_t)g * part;
        args.out = g == 0 ? all->out : NULL;
        status = enqueue_conv(plan, &args, stream, error);
    }
    /* The sum reads all rows in key order instead of a group's order. */
    args = *all;
    spc__map_view_rows(&args.map, map, geometry->tile_rows);
    return status == SPC_OK ? enqueue_sum(plan, &args, stream, error) : status;
}

static spc_status enqueue(const spc_plan *plan, const spc_map *map,
                          const spc_conv_args *args, void *stream,
                          spc_error *error)
{
    spc_status status = enqueue_clear(plan, map, args, stream, error);

    if (status != SPC_OK)
        return status;
    if (plan->geometry.groups > 1)
        return enqueue_groups(plan, map, args, stream, error);
    status = enqueue_first(plan, args, stream, error);
    if (status == SPC_OK)
        status = enqueue_conv(plan, args, stream, error);
    if (status == SPC_OK && plan->geometry.gemm_depth > 0)
        status = enqueue_gemm(plan, args, stream, error);
    return status == SPC_OK && plan->sum != NULL
               ? enqueue_sum(plan, args, stream, error)
               : status;
}

/* A gradient in KRSC: the kernels write RSCK behind their workspace, which is
 * then transposed. A gradient that they add to is transposed first. */
static spc_status enqueue_krsc(const spc_plan *plan, const spc_map *map,
                               const spc_conv_args *args, void *stream,
                               spc_error *error)
{
    const spc_conv *conv = &plan->conv;
    spc__operand out = spc__operand_of(conv, SPC_OPERAND_OUT, 0);
    size_t at = spc_plan_workspace_bytes(plan, map) - out.bytes;
    spc_conv_args rsck = *args;
    spc_status status = SPC_OK;

    rsck.out = (char *)args->workspace + at;
    spc_transpose_args there = {.from = rsck.out,
                                .to = args->out,
                                .rows = out.rows - conv->bias,
                                .columns = conv->cout,
                                .tail = conv->bias ? conv->cout : 0,
                                .element_bytes =
                                    (int)spc__dtype_of(out.dtype)->bytes};
    if (conv->accumulate) {
        spc_transpose_args back = there;
        back.from = args->weights;
        back.to = rsck.out;
        back.rows = there.columns;
        back.columns = there.rows;
        rsck.weights = rsck.out;
        status = spc__transpose(plan->ctx, plan->transpose, &back,
                                plan->geometry.pdl, stream, error);
    }
    if (status == SPC_OK)
        status = enqueue(plan, map, &rsck, stream, error);
    return status == SPC_OK
               ? spc__transpose(plan->ctx, plan->transpose, &there,
                                plan->geometry.pdl, stream, error)
               : status;
}

/* Sets all arguments except the map. */
static void set_buffers(spc_conv_args *args, const spc_plan *plan,
                        const spc_buffers *buffers)
{
    const spc_conv *conv = &plan->conv;
    bool adds = conv->add != SPC_ADD_NONE || plan->geometry.gradient;

    args->in = buffers->in;
    args->out = buffers->out;
    args->weights = buffers->weights;
    args->bias = conv->bias && !plan->geometry.gradient ? buffers->bias : NULL;
    args->scale = conv->scale ? buffers->scale : NULL;
    args->residual = adds ? buffers->residual : NULL;
    args->in_scale = buffers->in_scale;
    args->out_scale = buffers->out_scale;
    args->residual_scale = buffers->residual_scale;
    args->workspace = buffers->workspace;
}

static spc_status check_map_buffers(const spc_plan *plan, const spc_map *map,
                                    const spc_buffers *buffers,
                                    spc_error *error)
{
    execution e = {spc__plan_rows(map->in), spc__plan_rows(map->to),
                   spc_plan_workspace_bytes(plan, map)};

    return check_buffers(plan, &e, buffers, error);
}

spc_status spc_plan_execute(const spc_plan *plan, const spc_map *map,
                            const spc_buffers *buffers, void *stream)
{
    const spc__launch_geometry *geometry;
    spc_conv_args args;
    spc_error error = {0};
    spc_status status = SPC_OK;

    if (plan == NULL || map == NULL)
        return spc__need(spc__plan_error(plan, map), __func__, "plan", plan,
                         "map", map, NULL);
    if ((status = spc__plan_check_map(plan->ctx, &plan->conv, map, &error)) !=
        SPC_OK)
        return fail(plan, &error);
    geometry = &plan->geometry;
    if ((status = spc__map_need_filled(map, &error)) != SPC_OK)
        return fail(plan, &error);
    if (!spc__plan_view_map(&args, map, geometry))
        status = spc__fail(&error, SPC_ESTATE,
                           "the map is not prepared for this plan: call "
                           "spc_map_prepare first");
    else if (args.map.rows == 0 && !geometry->gradient)
        return SPC_OK; /* buffers without rows may be NULL */
    else if (buffers == NULL)
        status = spc__fail(&error, SPC_EINVAL, "the buffers are NULL");
    else if ((status = check_map_buffers(plan, map, buffers, &error)) ==
             SPC_OK) {
        set_buffers(&args, plan, buffers);
        status = plan->is_krsc
                     ? enqueue_krsc(plan, map, &args, stream, &error)
                     : enqueue(plan, map, &args, stream, &error);
    }
    return status == SPC_OK ? SPC_OK : fail(plan, &error);
}

static spc_status check_rows(const spc_plan *plan, const spc__row_count *rows,
                             size_t workspace, const spc_buffers *buffers,
                             spc_error *error)
{
    spc_status status = spc__rows_check(rows, error);

    if (status == SPC_OK && !plan->takes_rows)
        status = spc__fail(error, SPC_ESTATE,
                           "the plan was made for maps: spc_plan_create_linear "
                           "makes one that needs none");
    if (status != SPC_OK || rows->rows == 0)
        return status;
    if (buffers == NULL)
        return spc__fail(error, SPC_EINVAL, "the buffers are NULL");
    execution e = {rows->rows, rows->rows, workspace};
    return check_buffers(plan, &e, buffers, error);
}

spc_status spc_plan_execute_linear(const spc_plan *plan, int64_t rows,
                                   const int32_t *count,
                                   const spc_buffers *buffers, void *stream)
{
    spc__row_count how_many = {rows, count};
    spc_error error = {0};
    spc_conv_args args = {0}; /* without pairs */
    spc_status status = spc__need(NULL, __func__, "plan", plan, NULL);

    if (status != SPC_OK)
        return status;
    status =
        check_rows(plan, &how_many, spc_plan_workspace_bytes_linear(plan, rows),
                   buffers, &error);
    if (status == SPC_OK && rows > 0) {
        set_buffers(&args, plan, buffers);
        char *layout = (char *)args.workspace + spc__plan_layout_at(plan, rows);
        status =
            spc__rows_fill(&args.map, plan->ctx, plan->lay_rows, layout,
                           &how_many, plan->geometry.tile_rows, stream, &error);
        if (status == SPC_OK)
            status = enqueue(plan, NULL, &args, stream, &error);
    }
    return status == SPC_OK ? SPC_OK : fail(plan, &error);
}

/* ---- layouts of rows that plans share ------------------------------------ */

size_t spc__plan_rows_bytes(const spc_plan *plan, int64_t rows)
{
    return spc__rows_bytes(rows, plan->geometry.tile_rows);
}

size_t spc__plan_workspace_laid(const spc_plan *plan, int64_t rows)
{
    return spc__plan_work_bytes(&plan->geometry, spc__rows_padded(rows), 0);
}

spc_status spc__plan_lay_rows(const spc_plan *plan, void *layout, int64_t rows,
                              const int32_t *count, void *stream)
{
    spc__row_count how_many = {rows, count};
    spc_map_view view;
    spc_error error = {0};
    spc_status status =
        spc__rows_fill(&view, plan->ctx, plan->lay_rows, layout, &how_many,
                       plan->geometry.tile_rows, stream, &error);

    return status == SPC_OK ? SPC_OK : fail(plan, &error);
}

spc_status spc__plan_execute_laid(const spc_plan *plan, void *layout,
                                  int64_t rows, const spc_buffers *buffers,
                                  void *stream)
{
    spc__row_count how_many = {rows, NULL};
    spc_error error = {0};
    spc_conv_args args = {0};
    spc_status status = check_rows(
        plan, &how_many, spc__plan_workspace_laid(plan, rows), buffers, &error);

    if (status == SPC_OK && rows > 0) {
        set_buffers(&args, plan, buffers);
        spc__rows_view(&args.map, layout, &how_many, plan->geometry.tile_rows);
        status = enqueue(plan, NULL, &args, stream, &error);
    }
    return status == SPC_OK ? SPC_OK : fail(plan, &error);
}
