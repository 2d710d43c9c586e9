/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_execute.c - runs a plan without allocating, synchronising or opening
 * files.
 */
#include "plan/plan_parts.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/sized.h"
#include "coords/map.h"
#include "coords/rows.h"
#include "operators/operands.h"
#include "operators/pass.h"
#include "plan/binding.h"
#include "plan/transpose.h"
#include <stdint.h>
#include <stdlib.h>
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
        return spc__fail(
            error, SPC_EINVAL,
            "unknown weights layout %d: expected SPC_KRSC or SPC_RSCK",
            (int)layout);
    if ((status = spc__check_buffer("weights", weights,
                                    spc__dtype_of(as.dtype)->bytes, error)) !=
            SPC_OK ||
        (status = spc__check_buffer("packed", packed, 256, error)) != SPC_OK)
        return status;
    /* Two ranges are apart if one begins where the other ends or later. */
    if (from >= to + spc_plan_weights_bytes(plan) ||
        to >= from + as.dense_bytes)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "buffers `packed` and `weights` overlap: a buffer that is "
                     "written must not overlap others");
}

/* Called after check_packing. */
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

spc_status spc_plan_pack(void *packed, const spc_plan *plan,
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

/* SPC_EINVAL for arrays that cannot be read. The message goes to the context of
 * the first plan that is not NULL. */
static spc_status check_plans(const spc_plan *const *plans, void *const *packed,
                              const void *const *weights, int count)
{
    spc_error *to = NULL;

    for (int i = 0; to == NULL && plans != NULL && i < count; i++)
        if (plans[i] != NULL)
            to = spc__error_of(plans[i]->ctx);
    if (count < 0)
        return spc__fail(to, SPC_EINVAL,
                         "spc_plan_pack_many: %d plans are impossible", count);
    if (count == 0)
        return SPC_OK;
    spc_status status = spc__need(to, "spc_plan_pack_many", "plans", plans,
                                  "packed", packed, "weights", weights, NULL);
    for (int i = 0; status == SPC_OK && i < count; i++)
        if (plans[i] == NULL)
            status = spc__fail(to, SPC_EINVAL,
                               "spc_plan_pack_many: `plans[%d]` must not "
                               "be NULL",
                               i);
    return status;
}

spc_status spc_plan_pack_many(int *failed, void *const *packed,
                              const spc_plan *const *plans,
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
    /* All are checked before any is enqueued, so a caller's mistake leaves
     * every array untouched. */
    for (i = 0; i < count && status == SPC_OK; i++)
        status = check_packing(plans[i], packed[i], weights[i], layout, &error);
    if (status == SPC_OK)
        for (i = 0; i < count && status == SPC_OK; i++)
            status = enqueue_packing(plans[i], packed[i], weights[i], layout,
                                     stream, &error);
    if (status == SPC_OK)
        return SPC_OK;
    /* The loop has already advanced past the plan that failed. */
    if (failed != NULL)
        *failed = i - 1;
    return fail(plans[i - 1], &error);
}

/* One call: the plan with its binding, and the arguments of this launch. */
typedef struct call {
    const spc_plan *plan;
    const spc__binding *binding;
    spc_conv_args args;
    size_t work_bytes; /* bytes of the workspace */
    void *stream;
} call;

static spc_status launch(const call *c, spc__kernel *kernel,
                         const spc__launch *how, const spc_conv_args *args,
                         spc_error *error)
{
    spc__device *device = c->plan->ctx->device;

    return spc__device_ops_of(device)->launch(device, kernel, how, args,
                                              sizeof(*args), c->stream, error);
}

/* Enqueues the kernel that sums partial results: parts of tiles, or parts of
 * rows by pairs. */
static spc_status enqueue_sum(const call *c, const spc_conv_args *args,
                              spc_error *error)
{
    const spc__launch_geometry *geometry = &c->plan->geometry;
    spc__launch how = {
        .grid_x = c->binding->sum_blocks,
        .grid_y = geometry->sum_grid_y,
        .block = geometry->sum_block,
        .shared_bytes = geometry->sum_shared_bytes,
        /* With programmatic dependent launch, this kernel may start before the
         * previous one has ended. */
        .pdl = geometry->pdl,
    };

    return launch(c, c->plan->sum, &how, args, error);
}

/* Zeroes the arrays that kernels accumulate into. */
static spc_status enqueue_clear(const call *c, spc_error *error)
{
    const spc__launch_geometry *geometry = &c->plan->geometry;
    spc__device *device = c->plan->ctx->device;
    const spc__device_ops *ops = spc__device_ops_of(device);
    spc_status status = SPC_OK;

    /* On the same stream, so the kernels run after it. */
    if (geometry->clear)
        status = ops->fill(device, c->args.out, 0, c->binding->out_bytes,
                           c->stream, error);
    if (status == SPC_OK && geometry->clear_workspace)
        status = ops->fill(device, c->args.workspace, 0, c->work_bytes,
                           c->stream, error);
    return status;
}

/* Multiplies the matrix that the first kernel left at the start of the
 * workspace by the weights. The product follows the matrix. */
static spc_status enqueue_gemm(const call *c, spc_error *error)
{
    const spc_conv *conv = &c->plan->conv;
    const spc_conv_args *args = &c->args;
    spc__device *device = c->plan->ctx->device;
    int depth = c->plan->geometry.gemm_depth;
    size_t row = (size_t)depth * spc__dtype_of(conv->dtype)->bytes;
    spc__gemm gemm = {
        .a = args->workspace,
        .b = args->weights,
        .c = (float *)(void *)((char *)args->workspace +
                               (size_t)args->map.rows_padded * row),
        /* Padded rows are multiplied as well: the first kernel filled them, and
         * one product of fixed size needs no count on the host. */
        .rows = args->map.rows_padded,
        .columns = conv->cout,
        .depth = depth,
        .dtype = conv->dtype,
    };

    return spc__device_ops_of(device)->gemm(device, &gemm, c->stream, error);
}

/* Puts the main kernel on the stream. */
static spc_status enqueue_conv(const call *c, const spc_conv_args *args,
                               spc_error *error)
{
    const spc__launch_geometry *geometry = &c->plan->geometry;
    spc__launch how = {
        .grid_x = c->binding->run_blocks,
        .grid_y = geometry->grid_y,
        .block = geometry->block,
        .shared_bytes = geometry->shared_bytes,
        .pdl = geometry->pdl,
        .cluster = geometry->cluster,
    };

    return launch(c, c->plan->run, &how, args, error);
}

/* Enqueues the kernel that prepares input for the main kernel. */
static spc_status enqueue_first(const call *c, spc_error *error)
{
    const spc__launch_geometry *geometry = &c->plan->geometry;
    spc__launch how = {
        .grid_x = c->binding->first_blocks,
        .grid_y = 1,
        .block = geometry->first_block,
        .pdl = geometry->pdl,
    };

    /* A grid of no blocks is an error of the driver. */
    if (c->plan->first == NULL || how.grid_x == 0)
        return SPC_OK;
    return launch(c, c->plan->first, &how, &c->args, error);
}

/* Runs each group of offsets into its part of the workspace, then the kernel
 * that sums them, which needs only the rows. Only the first group writes the
 * output, so the others need not wait for the preceding kernel. */
static spc_status enqueue_groups(const call *c, spc_error *error)
{
    const spc__launch_geometry *geometry = &c->plan->geometry;
    const spc_conv_args *all = &c->args;
    int groups = geometry->groups;
    size_t part = (size_t)all->map.rows_padded *
                  (geometry->workspace_row_bytes / (size_t)groups);
    /* A copy a launch: arguments are read when the launch is enqueued. */
    spc_conv_args args = *all;
    spc_status status = SPC_OK;

    for (int g = 0; g < groups && status == SPC_OK; g++) {
        args.map = c->binding->groups[g];
        args.workspace = (char *)all->workspace + (size_t)g * part;
        args.out = g == 0 ? all->out : NULL;
        status = enqueue_conv(c, &args, error);
    }
    args = *all;
    args.map = c->binding->groups[groups];
    return status == SPC_OK ? enqueue_sum(c, &args, error) : status;
}

/* Puts all kernels of a layer on the stream. */
static spc_status enqueue(const call *c, spc_error *error)
{
    spc_status status = enqueue_clear(c, error);

    if (status != SPC_OK)
        return status;
    if (c->plan->geometry.groups > 1)
        return enqueue_groups(c, error);
    status = enqueue_first(c, error);
    if (status == SPC_OK)
        status = enqueue_conv(c, &c->args, error);
    if (status == SPC_OK && c->plan->geometry.gemm_depth > 0)
        status = enqueue_gemm(c, error);
    return status == SPC_OK && c->plan->sum != NULL
               ? enqueue_sum(c, &c->args, error)
               : status;
}

/* A gradient in KRSC: the kernels write RSCK behind their workspace, which is
 * then transposed. A gradient that they add to is transposed first. */
static spc_status enqueue_krsc(const call *c, spc_error *error)
{
    const spc_plan *plan = c->plan;
    const spc_conv *conv = &plan->conv;
    spc__operand out = spc__operand_of(conv, SPC_OPERAND_OUT, 0);
    call rsck = *c;
    spc_status status = SPC_OK;

    /* The address is aligned, as kernels write 16 bytes at once. */
    rsck.args.out = (char *)c->args.workspace + spc__plan_align(c->work_bytes);
    spc_transpose_args there = {.from = rsck.args.out,
                                .to = c->args.out,
                                /* The gradient of the bias is an additional
                                 * row, which is copied and not transposed. */
                                .rows = out.rows - conv->bias,
                                .columns = conv->cout,
                                .tail = conv->bias ? conv->cout : 0,
                                .element_bytes =
                                    (int)spc__dtype_of(out.dtype)->bytes};
    if (conv->accumulate) {
        spc_transpose_args back = there;
        /* The caller's gradient is in KRSC and the kernels add to RSCK. */
        back.from = c->args.weights;
        back.to = rsck.args.out;
        back.rows = there.columns;
        back.columns = there.rows;
        rsck.args.weights = rsck.args.out;
        status = spc__transpose(plan->ctx, plan->transpose, &back,
                                plan->geometry.pdl, c->stream, error);
    }
    if (status == SPC_OK)
        status = enqueue(&rsck, error);
    return status == SPC_OK
               ? spc__transpose(plan->ctx, plan->transpose, &there,
                                plan->geometry.pdl, c->stream, error)
               : status;
}

/* Sets all arguments except the map. */
static void set_buffers(spc_conv_args *args, const spc_plan *plan,
                        const spc_buffers *buffers)
{
    const spc_conv *conv = &plan->conv;
    /* A layer that adds nothing must not see the caller's pointer, which may be
     * anything. */
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

/* ---- on maps ------------------------------------------------------------- */

static spc_status check_buffers(const spc_plan *plan,
                                const spc__buffer_sizes *sizes,
                                const spc_buffers *buffers, spc_error *error)
{
    if (buffers == NULL)
        return spc__fail(error, SPC_EINVAL, "the buffers are NULL");
    return spc__buffers_check(&plan->buffers, sizes, buffers, error);
}

/* Called after the buffers were checked. `work` is the size of the kernels'
 * workspace.
 */
static spc_status start(const spc_plan *plan, const spc__binding *binding,
                        size_t work, const spc_buffers *buffers, void *stream,
                        spc_error *error)
{
    call c;

    c.plan = plan;
    c.binding = binding;
    c.args = binding->args;
    c.work_bytes = work;
    c.stream = stream;
    set_buffers(&c.args, plan, buffers);
    return plan->is_krsc ? enqueue_krsc(&c, error) : enqueue(&c, error);
}

/* Runs the plan; it fits the map, and the binding belongs to both. */
static spc_status execute(const spc_plan *plan, const spc_map *map,
                          const spc__binding *binding,
                          const spc_buffers *buffers, void *stream,
                          spc_error *error)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    size_t work = geometry->workspace_pair_bytes == 0
                      /* The number of pairs changes with every fill, so a
                       * workspace that depends on it is measured in each
                       * call. */
                      ? binding->work_bytes
                      : spc__plan_work_bytes(geometry, map->to->rows_padded,
                                             spc__map_pair_capacity(map));
    spc__buffer_sizes sizes = {
        {1, spc__plan_rows(map->in), spc__plan_rows(map->to)},
        spc__plan_whole_bytes(plan, work)};
    spc_status status;

    /* A gradient of weights without rows is zeros, which must still be
     * written. */
    if (binding->args.map.rows == 0 && !geometry->gradient)
        return SPC_OK; /* buffers without rows may be NULL */
    if ((status = SPC__TAKE(spc_buffers, buffers, error)) == SPC_OK &&
        (status = check_buffers(plan, &sizes, buffers, error)) == SPC_OK)
        status = start(plan, binding, work, buffers, stream, error);
    return status;
}

/* Runs on a map that was not prepared for the plan. The layouts may be there
 * all the same, as other plans use them. */
static spc_status execute_unbound(const spc_plan *plan, const spc_map *map,
                                  const spc_buffers *buffers, void *stream,
                                  spc_error *error)
{
    spc__binding binding;
    spc_status status = spc__plan_check_map(plan->ctx, &plan->conv, map, error);

    if (status != SPC_OK ||
        (status = spc__map_need_filled(map, error)) != SPC_OK)
        return status;
    if (!spc__binding_make(&binding, plan, map))
        return spc__fail(error, SPC_ESTATE,
                         "the map is not prepared for this plan: call "
                         "spc_map_prepare first");
    /* The next call finds it, if the plan's reserved memory was not used up. */
    spc__binding_keep(&binding, plan, map);
    return execute(plan, map, &binding, buffers, stream, error);
}

spc_status spc_plan_execute(const spc_plan *plan, const spc_map *map,
                            const spc_buffers *buffers, void *stream)
{
    const spc__binding *binding;
    spc_error error; /* filled only by a failure, because its text is long */
    spc_status status;

    /* The common path has only these two comparisons before the binding is
     * found. */
    if (plan == NULL || map == NULL)
        return spc__need(spc__plan_error(plan, map), __func__, "plan", plan,
                         "map", map, NULL);
    spc__error_clear(&error);
    binding = spc__binding_find(plan, map);
    if (binding == NULL)
        status = execute_unbound(plan, map, buffers, stream, &error);
    else if ((status = spc__map_need_filled(map, &error)) == SPC_OK)
        status = execute(plan, map, binding, buffers, stream, &error);
    return status == SPC_OK ? SPC_OK : fail(plan, &error);
}

/* ---- on rows without a map ----------------------------------------------- */

/* Checks the arguments of a layer that runs without a map. */
static spc_status check_rows(const spc_plan *plan, const spc__row_count *rows,
                             size_t workspace, const spc_buffers *buffers,
                             spc_error *error)
{
    spc__buffer_sizes sizes = {{1, rows->rows, rows->rows}, workspace};
    spc_status status = spc__rows_check(rows, error);

    if (status == SPC_OK && !plan->takes_rows)
        status = spc__fail(error, SPC_ESTATE,
                           "the plan was made for maps: spc_plan_create_linear "
                           "makes one that needs none");
    if (status != SPC_OK || rows->rows == 0)
        return status;
    return check_buffers(plan, &sizes, buffers, error);
}

spc_status spc_plan_execute_linear(const spc_plan *plan, int64_t rows,
                                   const int32_t *count,
                                   const spc_buffers *buffers, void *stream)
{
    spc__row_count how_many = {rows, count};
    spc__binding binding;
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "plan", plan, NULL);

    if (status != SPC_OK)
        return status;
    if ((status = SPC__TAKE(spc_buffers, buffers, &error)) == SPC_OK)
        status = check_rows(plan, &how_many,
                            spc_plan_workspace_bytes_linear(plan, rows),
                            buffers, &error);
    if (status == SPC_OK && rows > 0) {
        /* The layout follows the kernels' workspace, so a linear layer needs
         * only one array. */
        char *layout =
            (char *)buffers->workspace + spc__plan_layout_at(plan, rows);
        /* the map has no pairs */
        memset(&binding.args, 0, sizeof(binding.args));
        status =
            spc__rows_fill(&binding.args.map, plan->ctx, plan->lay_rows, layout,
                           &how_many, plan->geometry.tile_rows, stream, &error);
        spc__binding_measure(&binding, plan);
        if (status == SPC_OK)
            status = start(plan, &binding, binding.work_bytes, buffers, stream,
                           &error);
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

spc_status spc__plan_bind_rows(spc__binding **out, const spc_plan *plan,
                               void *layout, int64_t rows)
{
    spc__row_count how_many = {rows, NULL};
    spc__binding *binding = calloc(1, sizeof(*binding));

    *out = binding;
    if (binding == NULL)
        return spc__fail_memory(spc__error_of(plan->ctx), sizeof(*binding));
    spc__rows_view(&binding->args.map, layout, &how_many,
                   plan->geometry.tile_rows);
    spc__binding_measure(binding, plan);
    return SPC_OK;
}

spc_status spc__plan_execute_bound(const spc_plan *plan,
                                   const spc__binding *binding,
                                   const spc_buffers *buffers, void *stream)
{
    int rows = binding->args.map.rows;
    spc__buffer_sizes sizes = {{1, rows, rows}, binding->work_bytes};
    spc_error error;
    spc_status status;

    if (rows == 0)
        return SPC_OK;
    spc__error_clear(&error);
    status = check_buffers(plan, &sizes, buffers, &error);
    if (status == SPC_OK)
        status =
            start(plan, binding, binding->work_bytes, buffers, stream, &error);
    return status == SPC_OK ? SPC_OK : fail(plan, &error);
}
