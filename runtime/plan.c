/* plan.c - a layer bound to one loaded kernel: made once, then only run. */
#include "plan.h"

#include "dtype.h"
#include "error.h"
#include "lookup.h"
#include "map.h"
#include "operands.h"
#include "rows.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Packing kernels are written for blocks of this many threads. */
enum { PACK_BLOCK = 256 };

static const char axes[] = "xyz";

struct spc_plan {
    spc_ctx *ctx; /* the device, and where a failure is kept */
    spc_conv conv;
    spc__launch_geometry geometry;
    spc__kernel *run;
    spc__kernel *sum; /* after it, or NULL */
    spc__kernel *pack;
    bool takes_rows;       /* it runs without a map, too */
    spc__kernel *lay_rows; /* then before it, where the host does not */
    spc_origin origin;
    char template_name[32];
    char config[256];
    char reason[512];
};

/* ---- launch geometry ----------------------------------------------------- */

/* A number of the launch attrs within [low, high]; a template that says
 * something else is a mistake in the template. */
static spc_status read_number(int64_t *out, const spc__attrs *launch,
                              const char *name, int64_t otherwise, int64_t low,
                              int64_t high, spc_error *error)
{
    *out = spc__attrs_number(launch, name, otherwise);
    if (*out >= low && *out <= high)
        return SPC_OK;
    return spc__fail(error, SPC_ETEMPLATE,
                     "its launch geometry has %s=%lld: %lld to %lld is right",
                     name, (long long)*out, (long long)low, (long long)high);
}

static spc_status read_order(char out[8], const spc__attrs *launch,
                             spc_error *error)
{
    const char *order = spc__attrs_text(launch, "order", "none");
    if (strcmp(order, "none") != 0 && !spc__row_order_find(order))
        return spc__fail(error, SPC_ETEMPLATE,
                         "its launch geometry has order=%s: %s is right", order,
                         spc__row_order_names());
    snprintf(out, 8, "%s", order);
    return SPC_OK;
}

static spc_status check_grid(const spc__attrs *launch, spc_error *error)
{
    const char *grid = spc__attrs_text(launch, "grid", "tiles");
    if (strcmp(grid, "tiles") == 0 || strcmp(grid, "persistent") == 0 ||
        strcmp(grid, "steps") == 0)
        return SPC_OK;
    return spc__fail(error, SPC_ETEMPLATE,
                     "its launch geometry has grid=%s: tiles, persistent or "
                     "steps is right",
                     grid);
}

static spc_status read_layout(spc__launch_geometry *out,
                              const spc__attrs *launch, spc_error *error)
{
    const char *layout = spc__attrs_text(launch, "layout", "table");
    bool both = strcmp(layout, "both") == 0;

    out->reads_table = both || strcmp(layout, "table") == 0;
    out->reads_pairs = both || strcmp(layout, "pairs") == 0;
    if (out->reads_table || out->reads_pairs)
        return SPC_OK;
    return spc__fail(error, SPC_ETEMPLATE,
                     "its launch geometry has layout=%s: table, pairs or both "
                     "is right",
                     layout);
}

/* Groups of offsets, each with a launch; 1: they are all one. */
static int offset_groups(const spc__launch_geometry *geometry)
{
    return spc__row_order_groups(spc__row_order_find(geometry->order));
}

/* The words of templates/README.md. Kernels number threads in 32 bits, and a
 * grid has at most 65535 rows of blocks. */
static spc_status read_geometry(spc__launch_geometry *out,
                                const spc__attrs *launch, spc_error *error)
{
    int64_t block, grid_y, tile_rows, per_block, clear, pdl, atomics;
    int64_t shared, packed, work, row_work, block_work, per_sm;
    int64_t cluster, sum_block, sum_grid_y, sum_shared, pair_work, clear_work;
    int64_t depth;
    const struct {
        int64_t *to;
        const char *name;
        int64_t otherwise, low, high;
    } numbers[] = {
        {&block, "block", 0, 1, 1024},
        {&shared, "shared", 0, 0, INT_MAX},
        {&tile_rows, "tile_rows", 0, 1, SPC_ROW_PAD},
        {&per_block, "tiles_per_block", 1, 1, INT_MAX},
        {&grid_y, "grid_y", 1, 1, 65535},
        {&packed, "packed_bytes", 0, 1, INT64_MAX},
        {&out->pack_threads, "pack_threads", 0, 1, INT_MAX},
        {&per_sm, "blocks_per_sm", 0, 0, 1024},
        {&work, "workspace_bytes", 0, 0, INT64_MAX},
        {&row_work, "workspace_row_bytes", 0, 0, INT_MAX},
        {&block_work, "workspace_block_bytes", 0, 0, INT_MAX},
        {&cluster, "cluster", 1, 1, 8},
        {&sum_block, "sum_block", 0, 0, 1024},
        {&sum_grid_y, "sum_grid_y", 1, 1, 65535},
        {&sum_shared, "sum_shared", 0, 0, INT_MAX},
        {&pair_work, "workspace_pair_bytes", 0, 0, INT_MAX},
        {&clear_work, "clear_workspace", 0, 0, 1},
        {&depth, "gemm_depth", 0, 0, INT_MAX},
        {&clear, "clear", 0, 0, 1},
        {&pdl, "pdl", 0, 0, 1},
        {&atomics, "atomics", 0, 0, 1},
    };
    spc_status status = read_order(out->order, launch, error);

    if (status == SPC_OK)
        status = check_grid(launch, error);
    if (status == SPC_OK)
        status = read_layout(out, launch, error);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (status == SPC_OK)
            status = read_number(numbers[i].to, launch, numbers[i].name,
                                 numbers[i].otherwise, numbers[i].low,
                                 numbers[i].high, error);
    if (status != SPC_OK)
        return status;
    if (SPC_ROW_PAD % tile_rows != 0)
        return spc__fail(error, SPC_ETEMPLATE,
                         "its launch geometry has tile_rows=%lld: a divisor of "
                         "%d is right",
                         (long long)tile_rows, SPC_ROW_PAD);
    if (offset_groups(out) > 1 && (sum_block == 0 || row_work == 0))
        return spc__fail(error, SPC_ETEMPLATE,
                         "its launch geometry has order=%s, but no kernel "
                         "spc_sum or no workspace for the sums of each group",
                         out->order);
    out->block = (unsigned)block;
    out->shared_bytes = (size_t)shared;
    out->tile_rows = (int)tile_rows;
    out->tiles_per_block = (int)per_block;
    out->grid_y = (unsigned)grid_y;
    out->packed_bytes = (size_t)packed;
    out->workspace_bytes = (size_t)work;
    out->workspace_row_bytes = (size_t)row_work;
    out->workspace_block_bytes = (size_t)block_work;
    out->shares_tiles =
        strcmp(spc__attrs_text(launch, "grid", "tiles"), "steps") == 0;
    out->cluster = (unsigned)cluster;
    out->sum_block = (unsigned)sum_block;
    out->sum_grid_y = (unsigned)sum_grid_y;
    out->sum_shared_bytes = (size_t)sum_shared;
    out->workspace_pair_bytes = (size_t)pair_work;
    out->clear_workspace = clear_work != 0;
    out->gemm_depth = (int)depth;
    out->clear = clear != 0;
    out->pdl = pdl != 0;
    out->atomics = atomics != 0;
    out->persistent = 0;
    out->blocks_per_sm = (int)per_sm;
    return SPC_OK;
}

spc_status spc__launch_check(const spc__attrs *launch, spc_error *error)
{
    spc__launch_geometry ignored;
    return read_geometry(&ignored, launch, error);
}

/* More blocks than are resident would wait for the first ones to end, which is
 * what a persistent grid is there to avoid. */
static spc_status set_grid(spc_plan *plan, const spc__attrs *launch)
{
    const spc__device_ops *ops = spc__device_ops_of(plan->ctx->device);
    spc__launch_geometry *geometry = &plan->geometry;
    int wanted = geometry->blocks_per_sm;
    int processors = plan->ctx->info.multiprocessors;
    int resident;
    spc_status status;

    if (strcmp(spc__attrs_text(launch, "grid", "tiles"), "tiles") == 0)
        return SPC_OK;
    status =
        ops->occupancy(plan->ctx->device, &resident, plan->run, geometry->block,
                       geometry->shared_bytes, spc__error_of(plan->ctx));
    if (status != SPC_OK)
        return status;
    if (resident > 0 && (wanted <= 0 || wanted > resident))
        wanted = resident;
    if (wanted <= 0)
        wanted = 1;
    geometry->persistent =
        (unsigned)wanted * (unsigned)(processors > 0 ? processors : 1);
    return SPC_OK;
}

/* Products by a library need one. */
static spc_status check_gemm(const spc_plan *plan)
{
    if (plan->geometry.gemm_depth == 0 ||
        spc__device_has_gemm(plan->ctx->device))
        return SPC_OK;
    return spc__fail(spc__error_of(plan->ctx), SPC_EUNSUPPORTED,
                     "there is no library for products of matrices here");
}

/* ---- making -------------------------------------------------------------- */

static spc_status get_kernels(spc_plan *plan, const spc__code *code)
{
    spc_status status = spc__ctx_kernel(&plan->run, plan->ctx, code, "spc_conv",
                                        plan->geometry.shared_bytes);
    if (status == SPC_OK && plan->geometry.sum_block > 0)
        status = spc__ctx_kernel(&plan->sum, plan->ctx, code, "spc_sum",
                                 plan->geometry.sum_shared_bytes);
    if (status == SPC_OK)
        status = spc__ctx_kernel(&plan->pack, plan->ctx, code, "spc_pack", 0);
    return status;
}

/* Clearing goes over what lies between the rows of a slice, too. */
static spc_status check_clear(const spc_plan *plan)
{
    spc__operand out = spc__operand_of(&plan->conv, SPC_OUT, 2);

    if (!plan->geometry.clear || out.bytes == out.dense_bytes)
        return SPC_OK;
    return spc__fail(spc__error_of(plan->ctx), SPC_ETEMPLATE,
                     "its launch geometry has clear=1, which a layer with "
                     "out_pitch=%d does not allow: the template should refuse "
                     "it",
                     plan->conv.out_pitch);
}

spc_status spc__plan_create_from(spc_plan **out, spc_ctx *ctx,
                                 const spc_conv *conv, const spc__code *code,
                                 const char *template_name, const char *config)
{
    spc_plan *plan = calloc(1, sizeof(*plan));
    spc_status status;

    *out = NULL;
    if (plan == NULL)
        return spc__fail_memory(spc__error_of(ctx), sizeof(*plan));
    plan->ctx = ctx;
    plan->conv = *conv;
    plan->origin = SPC_ORIGIN_DEFAULT;
    snprintf(plan->template_name, sizeof(plan->template_name), "%s",
             template_name);
    snprintf(plan->config, sizeof(plan->config), "%s", config);
    if ((status = read_geometry(&plan->geometry, &code->launch,
                                spc__error_of(ctx))) != SPC_OK ||
        (status = check_clear(plan)) != SPC_OK ||
        (status = check_gemm(plan)) != SPC_OK ||
        (status = get_kernels(plan, code)) != SPC_OK ||
        (status = set_grid(plan, &code->launch)) != SPC_OK) {
        spc_plan_free(plan);
        return spc__fail_prefix(spc__error_of(ctx),
                                "cannot use '%s' (%s): ", template_name,
                                config);
    }
    *out = plan;
    return SPC_OK;
}

/* The axis on which two geometries differ in what people vary most, or -1. */
static int differing_axis(const spc_geometry *a, const spc_geometry *b)
{
    for (int i = 0; i < 3; i++)
        if (a->kernel[i] != b->kernel[i] || a->dilation[i] != b->dilation[i] ||
            a->stride[i] != b->stride[i])
            return i;
    return -1;
}

/* A map serves the layers of its own context and geometry, read its way. */
static spc_status check_map(const spc_ctx *ctx, const spc_conv *conv,
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
                         "shape or list of offsets than the layer has");
    return spc__fail(error, SPC_EINVAL,
                     "the map was built for kernel size %d, dilation %d, "
                     "stride %d on axis %c, the layer has %d, %d, %d",
                     built->kernel[axis], built->dilation[axis],
                     built->stride[axis], axes[axis], g->kernel[axis],
                     g->dilation[axis], g->stride[axis]);
}

/* What of the map the plan's kernels read; false if it was never prepared. Of
 * groups of offsets the last: those before it are there too. */
static bool view_map(spc_conv_args *args, const spc_map *map,
                     const spc__launch_geometry *geometry)
{
    memset(&args->pairs, 0, sizeof(args->pairs));
    if (!geometry->reads_table)
        spc__map_view_rows(&args->map, map, geometry->tile_rows);
    else if (!spc__map_view_group(&args->map, map, geometry->order,
                                  geometry->tile_rows,
                                  offset_groups(geometry) - 1))
        return false;
    return !geometry->reads_pairs || spc__map_pairs_view(&args->pairs, map);
}

/* Prepares on the default stream, for which the streams that the plan will run
 * on need not wait: so this does. A map that is prepared already costs
 * nothing. */
static spc_status prepare_map(spc_map *map, const spc_plan *plan)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    spc_conv_args args;
    spc_status status;

    if (view_map(&args, map, geometry))
        return SPC_OK;
    status = spc_map_prepare(map, plan, NULL);
    return status == SPC_OK ? spc_synchronize(plan->ctx) : status;
}

/* Of a set that was never checked the capacity is all that is known. */
static int64_t expected_rows(const spc_coords *set)
{
    return set->checked ? set->rows : set->capacity;
}

static spc_status check_flags(unsigned flags, spc_error *error)
{
    const unsigned known = SPC_PLAN_CACHED_ONLY | SPC_PLAN_ESTIMATE;

    if ((flags & ~known) == 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "unknown plan flags: SPC_PLAN_* of spc.h are right");
}

/* A plan with the kernel for such maps; none of them is prepared. */
static spc_status create_looked_up(spc_plan **out, spc_ctx *ctx,
                                   const spc_conv *conv, int64_t rows_in,
                                   int64_t rows_out, double density,
                                   unsigned flags)
{
    spc__pick pick;
    spc_status status =
        spc__lookup(&pick, ctx, conv, rows_in, rows_out, density, flags);

    if (status == SPC_OK)
        status = spc__plan_create_from(out, ctx, conv, &pick.code,
                                       pick.template_name, pick.config);
    if (status != SPC_OK)
        return status;
    (*out)->origin = pick.origin;
    memcpy((*out)->reason, pick.reason, sizeof((*out)->reason));
    return SPC_OK;
}

spc_status spc_plan_create(spc_plan **out, spc_ctx *ctx, const spc_conv *conv,
                           spc_map *map, unsigned flags)
{
    spc_error *error = spc__error_of(ctx);
    spc_plan *plan = NULL;
    spc_status status;

    if (out != NULL)
        *out = NULL;
    if ((status = spc__need(error, __func__, "out", out, "ctx", ctx, "conv",
                            conv, "map", map, NULL)) != SPC_OK ||
        (status = spc_conv_check(conv, error)) != SPC_OK ||
        (status = check_flags(flags, error)) != SPC_OK ||
        (status = check_map(ctx, conv, map, error)) != SPC_OK)
        return status;
    status =
        create_looked_up(&plan, ctx, conv, expected_rows(map->in),
                         expected_rows(map->to), spc_map_density(map), flags);
    if (status == SPC_OK)
        status = prepare_map(map, plan);
    if (status == SPC_OK) {
        *out = plan;
        plan = NULL;
    }
    spc_plan_free(plan);
    return status;
}

/* ---- without a map --------------------------------------------------------
 */

spc_status spc__plan_take_rows(spc_plan *plan)
{
    spc_status status =
        spc__rows_load(&plan->lay_rows, plan->ctx, spc__error_of(plan->ctx));

    plan->takes_rows = status == SPC_OK;
    return status;
}

static spc_status check_linear(const spc_conv *conv, int64_t rows,
                               spc_error *error)
{
    spc__row_count count = {rows, NULL};
    spc_status status = spc_conv_check(conv, error);

    if (status == SPC_OK && !spc_conv_is_linear(conv))
        status = spc__fail(error, SPC_EINVAL,
                           "the layer needs a map, as its outputs see more "
                           "than their own row: spc_plan_create takes one");
    return status == SPC_OK ? spc__rows_check(&count, error) : status;
}

spc_status spc_plan_create_rows(spc_plan **out, spc_ctx *ctx,
                                const spc_conv *conv, int64_t rows,
                                unsigned flags)
{
    spc_error *error = spc__error_of(ctx);
    spc_plan *plan = NULL;
    spc_status status;

    if (out != NULL)
        *out = NULL;
    if ((status = spc__need(error, __func__, "out", out, "ctx", ctx, "conv",
                            conv, NULL)) != SPC_OK ||
        (status = check_linear(conv, rows, error)) != SPC_OK ||
        (status = check_flags(flags, error)) != SPC_OK ||
        (status = create_looked_up(&plan, ctx, conv, rows, rows, 1, flags)) !=
            SPC_OK)
        return status;
    if ((status = spc__plan_take_rows(plan)) == SPC_OK) {
        *out = plan;
        plan = NULL;
    }
    spc_plan_free(plan);
    return status;
}

void spc_plan_free(spc_plan *plan)
{
    free(plan); /* the kernels belong to the context's modules */
}

/* ---- questions ----------------------------------------------------------- */

spc_origin spc_plan_origin(const spc_plan *plan)
{
    return plan != NULL ? plan->origin : SPC_ORIGIN_DEFAULT;
}

const char *spc_plan_reason(const spc_plan *plan)
{
    return plan != NULL ? plan->reason : "";
}

const char *spc_plan_template(const spc_plan *plan)
{
    return plan != NULL ? plan->template_name : "";
}

const char *spc_plan_config(const spc_plan *plan)
{
    return plan != NULL ? plan->config : "";
}

const spc__launch_geometry *spc__plan_launch(const spc_plan *plan)
{
    return &plan->geometry;
}

size_t spc_plan_weights_bytes(const spc_plan *plan)
{
    return plan != NULL ? plan->geometry.packed_bytes : 0;
}

/* What the kernel works in, for so many rows with padding. */
static size_t work_bytes(const spc__launch_geometry *geometry, int64_t padded,
                         int64_t pairs)
{
    return geometry->workspace_bytes +
           (size_t)padded * geometry->workspace_row_bytes +
           (size_t)geometry->persistent * geometry->grid_y *
               geometry->workspace_block_bytes +
           (size_t)pairs * geometry->workspace_pair_bytes;
}

size_t spc_plan_workspace_bytes(const spc_plan *plan, const spc_map *map)
{
    return plan != NULL && map != NULL
               ? work_bytes(&plan->geometry, map->to->rows_padded,
                            spc__map_pair_capacity(map))
               : 0;
}

/* Behind it lies the layout of the rows, at a multiple of 256 bytes. */
static size_t layout_at(const spc_plan *plan, int64_t rows)
{
    size_t work = work_bytes(&plan->geometry, spc__rows_padded(rows), 0);

    return (work + 255) / 256 * 256;
}

size_t spc_plan_workspace_rows(const spc_plan *plan, int64_t rows)
{
    return plan != NULL && rows >= 0
               ? layout_at(plan, rows) +
                     spc__rows_bytes(rows, plan->geometry.tile_rows)
               : 0;
}

/* Where a failure of a call with either of them is kept. */
static spc_error *error_of(const spc_plan *plan, const spc_map *map)
{
    if (plan != NULL)
        return spc__error_of(plan->ctx);
    return map != NULL ? spc__error_of(spc__map_ctx(map)) : NULL;
}

spc_status spc_map_prepare(spc_map *map, const spc_plan *plan, void *stream)
{
    spc_error *error = error_of(plan, map);
    spc_status status =
        spc__need(error, __func__, "map", map, "plan", plan, NULL);

    if (status != SPC_OK ||
        (status = check_map(plan->ctx, &plan->conv, map, error)) != SPC_OK)
        return status;
    if (plan->geometry.reads_table)
        status = spc__map_prepare(map, plan->geometry.order,
                                  plan->geometry.tile_rows, stream);
    if (status == SPC_OK && plan->geometry.reads_pairs)
        status = spc__map_prepare_pairs(map, stream);
    return status;
}

spc_status spc__plan_relayout(const spc_plan *plan, spc_map *map, void *stream)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    spc_status status = SPC_OK;

    if (geometry->reads_table)
        status = spc__map_relayout(map, geometry->order, geometry->tile_rows,
                                   stream);
    if (status == SPC_OK && geometry->reads_pairs)
        status = spc__map_relist(map, stream);
    return status;
}

/* ---- the execute path: no allocation, no synchronisation, no file -------- */

/* Keeps the sentence for the calling thread: others may fail as well. */
static spc_status fail(const spc_plan *plan, spc_error *error)
{
    spc__fail_prefix(error, "'%s': ", plan->template_name);
    return spc__ctx_fail(plan->ctx, error);
}

static spc_status check_buffer(const char *name, const void *memory,
                               size_t alignment, spc_error *error)
{
    if (memory == NULL)
        return spc__fail(error, SPC_EINVAL, "buffer `%s` is NULL", name);
    if ((uintptr_t)memory % alignment != 0)
        return spc__fail(error, SPC_EINVAL,
                         "buffer `%s` is at %p: it must be %d-byte aligned",
                         name, memory, (int)alignment);
    return SPC_OK;
}

spc_status spc_plan_pack_weights(const spc_plan *plan, void *packed,
                                 const void *weights, spc_weights_layout layout,
                                 void *stream)
{
    spc_error error = {0};
    spc_status status = spc__need(NULL, __func__, "plan", plan, NULL);

    if (status != SPC_OK)
        return status;
    const spc__device_ops *ops = spc__device_ops_of(plan->ctx->device);
    long long cin = spc__conv_group_in(&plan->conv), cout = plan->conv.cout;
    long long offsets = spc__conv_offsets(&plan->conv);
    spc_pack_args args = {weights, packed, cin, 1, offsets * cin};
    spc__launch launch = {.grid_y = 1, .block = PACK_BLOCK};

    if (layout == SPC_RSCK) {
        args.stride_k = cin * cout;
        args.stride_in = cout;
        args.stride_out = 1;
    }
    launch.grid_x =
        (unsigned)((plan->geometry.pack_threads + PACK_BLOCK - 1) / PACK_BLOCK);
    if (layout != SPC_KRSC && layout != SPC_RSCK)
        status = spc__fail(&error, SPC_EINVAL,
                           "weights layout %d is unknown: SPC_KRSC or "
                           "SPC_RSCK is right",
                           (int)layout);
    else if ((status = check_buffer("weights", weights, 1, &error)) == SPC_OK &&
             (status = check_buffer("packed", packed, 256, &error)) == SPC_OK)
        status = ops->launch(plan->ctx->device, plan->pack, &launch, &args,
                             sizeof(args), stream, &error);
    return status == SPC_OK ? SPC_OK : fail(plan, &error);
}

/* Memory of an array: rows of `width` bytes, `pitch` apart. */
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

/* Slices of one buffer, side by side, lie between each other's rows. */
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
    return between < (ptrdiff_t)a->width ||
           between + (ptrdiff_t)b->width > pitch;
}

/* What an execution runs on. */
typedef struct execution {
    int64_t rows_in, rows_out;
    size_t workspace_bytes;
} execution;

/* Its arrays: first those that are written. Returns how many.
 */
static int list_extents(extent out[SPC_OPERANDS + 1], const spc_plan *plan,
                        const execution *e,
                        const void *const given[SPC_OPERANDS],
                        const void *workspace)
{
    spc__operand operands[SPC_OPERANDS];
    int count = 2;

    spc__operands(operands, &plan->conv, e->rows_in, e->rows_out);
    operands[SPC_WEIGHTS].bytes = plan->geometry.packed_bytes;
    operands[SPC_WEIGHTS].pitch = 0;
    out[0] = extent_of(&operands[SPC_OUT], given[SPC_OUT]);
    out[1] = (extent){"workspace", (uintptr_t)workspace,
                      e->workspace_bytes, 0, 0};
    for (int i = 0; i < SPC_OPERANDS; i++)
        if (i != SPC_OUT && operands[i].present)
            out[count++] = extent_of(&operands[i], given[i]);
    return count;
}

/* While one block writes, others still read. */
static spc_status check_overlaps(const spc_plan *plan, const execution *e,
                                 const void *const given[SPC_OPERANDS],
                                 const void *workspace, spc_error *error)
{
    extent all[SPC_OPERANDS + 1];
    int count = list_extents(all, plan, e, given, workspace);

    for (int written = 0; written < 2; written++)
        for (int i = written + 1; i < count; i++)
            if (overlap(&all[written], &all[i]))
                return spc__fail(error, SPC_EINVAL,
                                 "buffers `%s` and `%s` overlap: what is "
                                 "written must lie apart from all others",
                                 all[written].name, all[i].name);
    return SPC_OK;
}

static spc_status check_buffers(const spc_plan *plan, const execution *e,
                                const spc_buffers *buffers, spc_error *error)
{
    const void *const given[SPC_OPERANDS] = {
        buffers->in,       buffers->out,       buffers->weights,
        buffers->bias,     buffers->scale,     buffers->residual,
        buffers->in_scale, buffers->out_scale, buffers->residual_scale};
    spc__operand operands[SPC_OPERANDS];

    spc__operands(operands, &plan->conv, 0, 0);
    for (int i = 0; i < SPC_OPERANDS; i++)
        if (operands[i].present &&
            check_buffer(operands[i].name, given[i], operands[i].alignment,
                         error) != SPC_OK)
            return error->status;
    if (e->workspace_bytes > 0 &&
        check_buffer("workspace", buffers->workspace, 256, error) != SPC_OK)
        return error->status;
    return check_overlaps(plan, e, given, buffers->workspace, error);
}

static unsigned grid_of(const spc__launch_geometry *geometry, int tiles)
{
    unsigned per_block = (unsigned)geometry->tiles_per_block;
    unsigned blocks = ((unsigned)tiles + per_block - 1) / per_block;

    if (geometry->persistent > 0 &&
        (geometry->shares_tiles || geometry->persistent < blocks))
        return geometry->persistent;
    return blocks * geometry->cluster;
}

/* What adds what blocks left: parts of tiles, or of rows by pairs. */
static spc_status enqueue_sum(const spc_plan *plan, const spc_conv_args *args,
                              void *stream, spc_error *error)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    spc__launch launch = {
        .grid_x = (unsigned)args->map.tiles,
        .grid_y = geometry->sum_grid_y,
        .block = geometry->sum_block,
        .shared_bytes = geometry->sum_shared_bytes,
        .pdl = geometry->pdl,
    };

    return spc__device_ops_of(plan->ctx->device)
        ->launch(plan->ctx->device, plan->sum, &launch, args, sizeof(*args),
                 stream, error);
}

/* Zeroes what the kernels add to. */
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
            spc__operand_of(&plan->conv, SPC_OUT, args->map.rows).bytes, stream,
            error);
    if (status == SPC_OK && geometry->clear_workspace)
        status = ops->fill(device, args->workspace, 0,
                           work_bytes(geometry, args->map.rows_padded, pairs),
                           stream, error);
    return status;
}

/* The matrix that the first kernel left at the beginning of the workspace,
 * times the weights; what comes of it lies behind the matrix. */
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

/* Each group of offsets into its part of the workspace; then what adds them
 * up, which sees the rows alone. */
static spc_status enqueue_groups(const spc_plan *plan, const spc_map *map,
                                 const spc_conv_args *all, void *stream,
                                 spc_error *error)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    int groups = offset_groups(geometry);
    size_t part = (size_t)all->map.rows_padded *
                  (geometry->workspace_row_bytes / (size_t)groups);
    spc_conv_args args = *all;
    spc_status status = SPC_OK;

    for (int g = 0; g < groups && status == SPC_OK; g++) {
        spc__map_view_group(&args.map, map, geometry->order,
                            geometry->tile_rows, g);
        args.workspace = (char *)all->workspace + (size_t)g * part;
        status = enqueue_conv(plan, &args, stream, error);
    }
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
    if (offset_groups(&plan->geometry) > 1)
        return enqueue_groups(plan, map, args, stream, error);
    status = enqueue_conv(plan, args, stream, error);
    if (status == SPC_OK && plan->geometry.gemm_depth > 0)
        status = enqueue_gemm(plan, args, stream, error);
    return status == SPC_OK && plan->sum != NULL
               ? enqueue_sum(plan, args, stream, error)
               : status;
}

/* All but the map. */
static void set_buffers(spc_conv_args *args, const spc_plan *plan,
                        const spc_buffers *buffers)
{
    const spc_conv *conv = &plan->conv;

    args->in = buffers->in;
    args->out = buffers->out;
    args->weights = buffers->weights;
    args->bias = conv->bias ? buffers->bias : NULL;
    args->scale = conv->scale ? buffers->scale : NULL;
    args->residual = conv->add != SPC_ADD_NONE ? buffers->residual : NULL;
    args->in_scale = buffers->in_scale;
    args->out_scale = buffers->out_scale;
    args->residual_scale = buffers->residual_scale;
    args->workspace = buffers->workspace;
}

static spc_status check_map_buffers(const spc_plan *plan, const spc_map *map,
                                    const spc_buffers *buffers,
                                    spc_error *error)
{
    execution e = {expected_rows(map->in), expected_rows(map->to),
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
        return spc__need(error_of(plan, map), __func__, "plan", plan, "map",
                         map, NULL);
    if ((status = check_map(plan->ctx, &plan->conv, map, &error)) != SPC_OK)
        return fail(plan, &error);
    geometry = &plan->geometry;
    if (!view_map(&args, map, geometry))
        status = spc__fail(&error, SPC_ESTATE,
                           "the map is not prepared for this plan: call "
                           "spc_map_prepare first");
    else if (args.map.rows == 0) /* buffers of no rows may well be NULL */
        return SPC_OK;
    else if (buffers == NULL)
        status = spc__fail(&error, SPC_EINVAL, "the buffers are NULL");
    else if ((status = check_map_buffers(plan, map, buffers, &error)) ==
             SPC_OK) {
        set_buffers(&args, plan, buffers);
        status = enqueue(plan, map, &args, stream, &error);
    }
    return status == SPC_OK ? SPC_OK : fail(plan, &error);
}

static spc_status check_rows(const spc_plan *plan, const spc__row_count *rows,
                             const spc_buffers *buffers, spc_error *error)
{
    spc_status status = spc__rows_check(rows, error);

    if (status == SPC_OK && !plan->takes_rows)
        status = spc__fail(error, SPC_ESTATE,
                           "the plan was made for maps: spc_plan_create_rows "
                           "makes one that needs none");
    if (status != SPC_OK || rows->rows == 0)
        return status;
    if (buffers == NULL)
        return spc__fail(error, SPC_EINVAL, "the buffers are NULL");
    execution e = {rows->rows, rows->rows,
                   spc_plan_workspace_rows(plan, rows->rows)};
    return check_buffers(plan, &e, buffers, error);
}

spc_status spc_plan_execute_rows(const spc_plan *plan, int64_t rows,
                                 const int32_t *count,
                                 const spc_buffers *buffers, void *stream)
{
    spc__row_count how_many = {rows, count};
    spc_error error = {0};
    spc_conv_args args = {0}; /* no pairs */
    spc_status status = spc__need(NULL, __func__, "plan", plan, NULL);

    if (status != SPC_OK)
        return status;
    if ((status = check_rows(plan, &how_many, buffers, &error)) == SPC_OK &&
        rows > 0) {
        set_buffers(&args, plan, buffers);
        char *layout = (char *)args.workspace + layout_at(plan, rows);
        status =
            spc__rows_fill(&args.map, plan->ctx, plan->lay_rows, layout,
                           &how_many, plan->geometry.tile_rows, stream, &error);
        if (status == SPC_OK)
            status = enqueue(plan, NULL, &args, stream, &error);
    }
    return status == SPC_OK ? SPC_OK : fail(plan, &error);
}
