/* SPDX-License-Identifier: Apache-2.0 */
/* plan_map.c - the parts of a map that a plan reads, and its workspace. */
#include "plan/plan_parts.h"

#include "base/error.h"
#include "coords/map.h"
#include "coords/rows.h"
#include "operators/operands.h"
#include "plan/binding.h"
#include <string.h>

static const char axes[] = "xyz";

/* The first axis on which two geometries differ in kernel, dilation or stride,
 * or -1. */
static int differing_axis(const spc_geometry *a, const spc_geometry *b)
{
    for (int i = 0; i < 3; i++)
        if (a->kernel[i] != b->kernel[i] || a->dilation[i] != b->dilation[i] ||
            a->stride[i] != b->stride[i])
            return i;
    return -1;
}

/* A map fits layers of the same context, geometry and direction. */
spc_status spc__plan_check_map(const spc_ctx *ctx, const spc_conv *conv,
                               const spc_map *map, spc_error *error)
{
    const spc_geometry *built = &map->geometry, *g = &conv->geometry;
    int axis;

    if (spc__map_ctx(map) != ctx)
        return spc__fail(error, SPC_EINVAL,
                         "the map belongs to another context than the plan");
    if (map->inverse != spc__conv_is_inverse(conv))
        return spc__fail(error, SPC_EINVAL,
                         "the map is %s an inverse layer, the layer is %s",
                         map->inverse ? "for" : "not for",
                         map->inverse ? "not one" : "one");
    if (spc__geometry_equal(built, g))
        return SPC_OK;
    if (built->rule != g->rule || (axis = differing_axis(built, g)) < 0)
        return spc__fail(error, SPC_EINVAL,
                         "the map was built for another rule, padding, origin, "
                         "shape, list of offsets or radius than the layer has");
    return spc__fail(error, SPC_EINVAL,
                     "the map was built for kernel size %d, dilation %d, "
                     "stride %d on axis %c, the layer has %d, %d, %d",
                     built->kernel[axis], built->dilation[axis],
                     built->stride[axis], axes[axis], g->kernel[axis],
                     g->dilation[axis], g->stride[axis]);
}

/* Returns the parts of the map that the plan's kernels read; false if they were
 * never prepared. With groups of offsets it checks the last group, which is
 * prepared after the others. */
bool spc__plan_view_map(spc_conv_args *args, const spc_map *map,
                        const spc__launch_geometry *geometry)
{
    /* Kernels that read neither form get empty views. */
    memset(&args->pairs, 0, sizeof(args->pairs));
    memset(&args->triplets, 0, sizeof(args->triplets));
    if (!geometry->reads_table)
        spc__map_view_rows(&args->map, map, geometry->tile_rows);
    else if (!spc__map_view_group(&args->map, map, geometry->order,
                                  geometry->tile_rows, geometry->groups - 1))
        return false;
    /* Called in any case: a map of points always has triplets, and they cost
     * nothing. */
    if (spc__map_triplets_view(&args->triplets, map) == false &&
        geometry->reads_triplets)
        return false;
    if (geometry->reads_bundles && !spc__map_bundles_view(&args->triplets, map))
        return false;
    if (geometry->reads_inputs &&
        !spc__map_inputs_view(&args->triplets, &args->pairs, map))
        return false;
    return !geometry->reads_pairs || spc__map_pairs_view(&args->pairs, map);
}

/* For a set that was never checked, only the capacity is known. */
int64_t spc__plan_rows(const spc_coords *set)
{
    return set->checked ? set->rows : set->capacity;
}

/* If the sum would overflow, returns a size that no caller can allocate. */
static void add_product(size_t *sum, size_t a, size_t b)
{
    /* A quarter, so that callers may still add a few such sizes. */
    const size_t most = SIZE_MAX / 4;
    size_t product;

    if (__builtin_mul_overflow(a, b, &product) ||
        __builtin_add_overflow(*sum, product, sum) || *sum > most)
        *sum = most;
}

size_t spc__plan_work_bytes(const spc__launch_geometry *geometry,
                            int64_t padded, int64_t pairs)
{
    size_t sum = 0;

    add_product(&sum, geometry->workspace_bytes, 1);
    add_product(&sum, (size_t)padded, geometry->workspace_row_bytes);
    add_product(&sum, (size_t)geometry->persistent * geometry->grid_y,
                geometry->workspace_block_bytes);
    add_product(&sum, (size_t)pairs, geometry->workspace_pair_bytes);
    return sum;
}

/* A gradient that is wanted in KRSC is first computed in RSCK behind the
 * workspace, and then transposed. */
size_t spc__plan_whole_bytes(const spc_plan *plan, size_t work)
{
    return plan->is_krsc
               ? spc__plan_align(work) +
                     spc__operand_of(&plan->conv, SPC_OPERAND_OUT, 0).bytes
               : work;
}

size_t spc_plan_workspace_bytes(const spc_plan *plan, const spc_map *map)
{
    if (plan == NULL || map == NULL)
        return 0;
    return spc__plan_whole_bytes(
        plan, spc__plan_work_bytes(&plan->geometry, map->to->rows_padded,
                                   spc__map_pair_capacity(map)));
}

size_t spc__plan_layout_at(const spc_plan *plan, int64_t rows)
{
    size_t work =
        spc__plan_work_bytes(&plan->geometry, spc__rows_padded(rows), 0);

    return spc__plan_align(work);
}

size_t spc_plan_workspace_bytes_linear(const spc_plan *plan, int64_t rows)
{
    spc__row_count count = {rows, NULL};

    return plan != NULL && spc__rows_check(&count, NULL) == SPC_OK
               ? spc__plan_layout_at(plan, rows) +
                     spc__rows_bytes(rows, plan->geometry.tile_rows)
               : 0;
}

spc_error *spc__plan_error(const spc_plan *plan, const spc_map *map)
{
    if (plan != NULL)
        return spc__error_of(plan->ctx);
    return map != NULL ? spc__error_of(spc__map_ctx(map)) : NULL;
}

spc_status spc_map_prepare(spc_map *map, const spc_plan *plan, void *stream)
{
    spc_error *error = spc__plan_error(plan, map);
    spc_status status =
        spc__need(error, __func__, "map", map, "plan", plan, NULL);

    if (status != SPC_OK || (status = spc__plan_check_map(
                                 plan->ctx, &plan->conv, map, error)) != SPC_OK)
        return status;
    if (plan->geometry.reads_table)
        status = spc__map_prepare(map, plan->geometry.order,
                                  plan->geometry.tile_rows, stream);
    if (status == SPC_OK && plan->geometry.reads_pairs)
        status = spc__map_prepare_pairs(map, stream);
    if (status == SPC_OK && plan->geometry.reads_bundles)
        status = spc__map_prepare_bundles(map, stream);
    if (status == SPC_OK && plan->geometry.reads_inputs)
        status = spc__map_prepare_inputs(map, stream);
    /* Last: a binding remembers the views, so all of them must exist. */
    return status == SPC_OK ? spc__binding_attach(plan, map, error) : status;
}

/* Fills again what spc_map_prepare() made, for timing. */
spc_status spc__plan_relayout(const spc_plan *plan, spc_map *map, void *stream)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    spc_status status = SPC_OK;

    if (geometry->reads_table)
        status = spc__map_relayout(map, geometry->order, geometry->tile_rows,
                                   stream);
    if (status == SPC_OK && geometry->reads_pairs)
        status = spc__map_relist(map, stream);
    if (status == SPC_OK && geometry->reads_bundles)
        status = spc__map_rebundle(map, stream);
    if (status == SPC_OK && geometry->reads_inputs)
        status = spc__map_reinput(map, stream);
    return status;
}
