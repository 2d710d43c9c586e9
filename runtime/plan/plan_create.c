/* SPDX-License-Identifier: Apache-2.0 */
/* plan_create.c - plans: a layer bound to a loaded kernel. A plan is made once
 * and then only run. */
#include "plan/plan_parts.h"
#include "spc/tune.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/sized.h"
#include "base/text/names.h"
#include "coords/map.h"
#include "coords/rows.h"
#include "operators/offset_store.h"
#include "operators/operands.h"
#include "operators/pass.h"
#include "plan/background.h"
#include "plan/binding.h"
#include "plan/lookup.h"
#include "plan/transpose.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- grids --------------------------------------------------------------- */

/* Rounds down to whole clusters. The blocks of a cluster must share a part of
 * the device, so fewer may be resident than multiprocessors times blocks. */
static spc_status set_clusters(spc_plan *plan)
{
    const spc__device_ops *ops = spc__device_ops_of(plan->ctx->device);
    spc__launch_geometry *geometry = &plan->geometry;
    spc__launch launch = {
        .grid_x = geometry->cluster,
        .grid_y = 1,
        .block = geometry->block,
        .shared_bytes = geometry->shared_bytes,
        .cluster = geometry->cluster,
    };
    int clusters = (int)(geometry->persistent / geometry->cluster),
        resident = 0;
    spc_status status = SPC_OK;

    /* `launch` is a single cluster: the question is how many fit. */
    if (ops->clusters != NULL)
        status = ops->clusters(plan->ctx->device, &resident, plan->run, &launch,
                               spc__error_of(plan->ctx));
    if (resident > 0 && clusters > resident)
        clusters = resident;
    geometry->persistent =
        (unsigned)(clusters > 0 ? clusters : 1) * geometry->cluster;
    return status;
}

/* Blocks beyond the resident ones would start only after others end, which a
 * persistent grid must avoid. */
static spc_status set_grid(spc_plan *plan, const spc__attrs *launch)
{
    const spc__device_ops *ops = spc__device_ops_of(plan->ctx->device);
    spc__launch_geometry *geometry = &plan->geometry;
    int wanted = geometry->blocks_per_sm;
    int processors = plan->ctx->info.multiprocessors;
    int resident;
    spc_status status;

    /* A grid of tiles follows the map's size, and a grid with a number is the
     * template's choice. */
    if (strcmp(spc__attrs_text(launch, "grid", "tiles"), "tiles") == 0 ||
        geometry->grid_x > 0)
        return SPC_OK;
    status =
        ops->occupancy(plan->ctx->device, &resident, plan->run, geometry->block,
                       geometry->shared_bytes, spc__error_of(plan->ctx));
    if (status != SPC_OK)
        return status;
    /* The template may ask for fewer blocks than fit, but not for more. */
    if (resident > 0 && (wanted <= 0 || wanted > resident))
        wanted = resident;
    if (wanted <= 0)
        wanted = 1;
    geometry->persistent =
        (unsigned)wanted * (unsigned)(processors > 0 ? processors : 1);
    return geometry->cluster > 1 ? set_clusters(plan) : SPC_OK;
}

/* A kernel with a product between its launches needs the device's library. */
static spc_status check_gemm(const spc_plan *plan)
{
    if (plan->geometry.gemm_depth == 0 ||
        spc__device_has_gemm(plan->ctx->device))
        return SPC_OK;
    return spc__fail(spc__error_of(plan->ctx), SPC_EUNSUPPORTED,
                     "no library for products of matrices is present");
}

/* ---- creating ------------------------------------------------------------ */

/* Finds the kernels of the plan in its code. */
static spc_status get_kernels(spc_plan *plan, const spc__code *code)
{
    /* The template has this kernel if its block size is above 0. */
    spc_status status = spc__ctx_kernel(&plan->run, plan->ctx, code, "spc_conv",
                                        plan->geometry.shared_bytes);
    if (status == SPC_OK && plan->geometry.first_block > 0)
        status = spc__ctx_kernel(&plan->first, plan->ctx, code, "spc_first", 0);
    if (status == SPC_OK && plan->geometry.sum_block > 0)
        status = spc__ctx_kernel(&plan->sum, plan->ctx, code, "spc_sum",
                                 plan->geometry.sum_shared_bytes);
    if (status == SPC_OK && !plan->geometry.gradient)
        status = spc__ctx_kernel(&plan->pack, plan->ctx, code, "spc_pack", 0);
    return status;
}

/* Clearing also zeroes the memory between the rows of a slice, which belongs to
 * other slices. */
static spc_status check_clear(const spc_plan *plan)
{
    spc__operand out = spc__operand_of(&plan->conv, SPC_OPERAND_OUT, 2);

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
    /* From here on spc_plan_free() releases all parts made so far. */
    plan->ctx = spc__ctx_share(ctx);
    plan->conv = *conv;
    plan->statics = code->statics;
    plan->origin = SPC_MATCH_DEFAULT;
    plan->level = SPC_LEVEL_DEFAULT;
    snprintf(plan->template_name, sizeof(plan->template_name), "%s",
             template_name);
    snprintf(plan->config, sizeof(plan->config), "%s", config);
    /* Launch attributes are read first, as the checks and kernels depend on
     * them. The grid needs the loaded kernel. */
    if ((status = spc__plan_life_create(&plan->life, spc__error_of(ctx))) !=
            SPC_OK ||
        (status = spc__geometry_keep(&plan->conv.geometry,
                                     spc__error_of(ctx))) != SPC_OK ||
        (status = spc__launch_read(&plan->geometry, &code->launch,
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
    spc__buffers_list(&plan->buffers, conv, &plan->geometry);
    *out = plan;
    return SPC_OK;
}

/* Prepares on the default stream. It may not synchronise with the stream that
 * last filled the map, nor with the streams that the plan will run on, so the
 * host waits for both. Enqueues nothing if the map is already prepared. */
spc_status spc__plan_prepare(const spc_plan *plan, spc_map *map)
{
    const spc__launch_geometry *geometry = &plan->geometry;
    spc_conv_args args;
    spc_status status;

    if (spc__plan_view_map(&args, map, geometry))
        return spc__binding_attach(plan, map, spc__error_of(plan->ctx));
    if ((status = spc__coords_land(plan->ctx, map->in_flight,
                                   spc__error_of(plan->ctx))) != SPC_OK)
        return status;
    status = spc_map_prepare(map, plan, NULL);
    return status == SPC_OK ? spc_ctx_synchronize(plan->ctx) : status;
}

spc_status spc__plan_set_krsc(spc_plan *plan, unsigned flags)
{
    plan->is_krsc = true;
    return spc__transpose_load(&plan->transpose, plan->ctx, flags);
}

/* The flags that decide how a kernel is found. */
static unsigned lookup_flags(unsigned flags)
{
    return flags & ~(unsigned)SPC_PLAN_KRSC;
}

/* Checks the flags and which of them exclude each other. */
static spc_status check_flags(unsigned flags, const spc_conv *conv,
                              spc_error *error)
{
    const unsigned known = SPC_PLAN_CACHED_ONLY | SPC_PLAN_ESTIMATE |
                           SPC_PLAN_BACKGROUND | SPC_PLAN_KRSC;

    /* SPC_PLAN_KRSC only changes a layout, so it goes with every way of finding
     * a kernel. */
    if (flags & SPC_PLAN_BACKGROUND &&
        lookup_flags(flags) != SPC_PLAN_BACKGROUND)
        return spc__fail(error, SPC_EINVAL,
                         "SPC_PLAN_BACKGROUND cannot be combined: it takes "
                         "what the database has, and compiles the rest");
    if (flags & SPC_PLAN_KRSC && conv->pass != SPC_WGRAD)
        return spc__fail(
            error, SPC_EINVAL,
            "SPC_PLAN_KRSC is a layout of the gradient of weights, but the "
            "layer has pass=%s: expected pass=wgrad",
            spc__name_at(spc__pass_names, (unsigned)conv->pass));
    if ((flags & ~known) == 0)
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "unknown plan flags: expected SPC_PLAN_* of spc.h");
}

/* In background mode, first tries code that needs no compiler. */
static spc_status look_up(spc__pick *pick, spc_ctx *ctx, const spc__lack *lack,
                          unsigned flags)
{
    spc_status status = SPC_ENOTFOUND;

    if (flags & SPC_PLAN_BACKGROUND && ctx->background == NULL)
        return spc__fail(spc__error_of(ctx), SPC_ESTATE,
                         "background mode was not started: call "
                         "spc_background_start first");
    /* A plan is needed at once, and the thread compiles a better one. */
    if (flags & SPC_PLAN_BACKGROUND)
        status =
            spc__lookup(pick, ctx, lack->conv, lack->rows_in, lack->rows_out,
                        lack->density, SPC_PLAN_CACHED_ONLY, lack->allow);
    /* Only now may the caller's thread compile: without any stored code, there
     * would be no plan. */
    return status == SPC_ENOTFOUND
               ? spc__lookup(pick, ctx, lack->conv, lack->rows_in,
                             lack->rows_out, lack->density,
                             flags & ~(unsigned)SPC_PLAN_BACKGROUND,
                             lack->allow)
               : status;
}

/* Makes a plan for maps like the given one; prepares no map. */
static spc_status create_looked_up(spc_plan **out, spc_ctx *ctx,
                                   const spc__lack *lack, unsigned flags)
{
    spc__pick pick;
    spc_status status = look_up(&pick, ctx, lack, lookup_flags(flags));

    if (status == SPC_OK)
        status = spc__plan_create_from(out, ctx, lack->conv, &pick.code,
                                       pick.template_name, pick.config);
    if (status == SPC_OK && flags & SPC_PLAN_KRSC &&
        (status = spc__plan_set_krsc(*out, flags & SPC_PLAN_CACHED_ONLY)) !=
            SPC_OK) {
        spc_plan_free(*out);
        *out = NULL;
    }
    if (status != SPC_OK)
        return status;
    (*out)->scene =
        spc__scene_buckets_of(lack->rows_in, lack->rows_out, lack->density);
    (*out)->origin = pick.origin;
    (*out)->level = pick.level;
    (*out)->is_shipped = pick.is_shipped;
    memcpy((*out)->reason, pick.reason, sizeof((*out)->reason));
    /* After an exact hit there is nothing better to wait for. */
    if (flags & SPC_PLAN_BACKGROUND && pick.origin != SPC_MATCH_EXACT)
        (*out)->outdated = spc__background_ask(ctx, lack);
    return SPC_OK;
}

bool spc_plan_is_outdated(const spc_plan *plan)
{
    return plan != NULL && plan->outdated != NULL &&
           /* Pairs with the release in background.c: the database has the new
            * record when the flag is seen. */
           __atomic_load_n(plan->outdated, __ATOMIC_ACQUIRE) != 0;
}

static spc_status create_unprepared(spc_plan **out, spc_ctx *ctx,
                                    const spc_conv *conv, spc_map *map,
                                    unsigned flags, const spc__allow *allow)
{
    spc_error *error = spc__error_of(ctx);
    spc_status status;

    if (out != NULL)
        *out = NULL;
    if ((status = spc__need(error, "spc_plan_create", "out", out, "ctx", ctx,
                            "conv", conv, "map", map, NULL)) != SPC_OK ||
        (status = spc_conv_check(conv, error)) != SPC_OK ||
        (status = check_flags(flags, conv, error)) != SPC_OK ||
        (status = spc__plan_check_map(ctx, conv, map, error)) != SPC_OK)
        return status;
    spc__lack lack = {conv,
                      map,
                      spc__plan_rows(map->in),
                      spc__plan_rows(map->to),
                      spc_map_density(map),
                      allow};
    return create_looked_up(out, ctx, &lack, flags);
}

spc_status spc__plan_create_unprepared(spc_plan **out, spc_ctx *ctx,
                                       const spc_conv *conv, spc_map *map,
                                       unsigned flags)
{
    return create_unprepared(out, ctx, conv, map, flags, NULL);
}

static spc_status create_for_map(spc_plan **out, spc_ctx *ctx,
                                 const spc_conv *conv, spc_map *map,
                                 unsigned flags, const spc__allow *allow)
{
    spc_plan *plan = NULL;
    spc_status status = create_unprepared(&plan, ctx, conv, map, flags, allow);

    if (out != NULL)
        *out = NULL;
    if (status == SPC_OK && out == NULL)
        status = spc__need(spc__error_of(ctx), __func__, "out", out, NULL);
    if (status == SPC_OK)
        status = spc__plan_prepare(plan, map);
    if (status == SPC_OK) {
        *out = plan;
        plan = NULL;
    }
    spc_plan_free(plan);
    return status;
}

spc_status spc_plan_create(spc_plan **out, spc_ctx *ctx, const spc_conv *conv,
                           spc_map *map, unsigned flags)
{
    return create_for_map(out, ctx, conv, map, flags, NULL);
}

/* Replaces the order in the text of a configuration: order=gray_x,... */
static void replace_order(char *config, size_t bytes, const char *order)
{
    char rest[256];
    char *at = strstr(config, "order=");

    if (at == NULL)
        return;
    snprintf(rest, sizeof(rest), "%s", at + strcspn(at, ","));
    /* `rest` is a copy, since the text moves within its own array. */
    snprintf(at, bytes - (size_t)(at - config), "order=%s%s", order, rest);
}

void spc__plan_reorder(spc_plan *plan, const char *order)
{
    snprintf(plan->geometry.order, sizeof(plan->geometry.order), "%s", order);
    replace_order(plan->config, sizeof(plan->config), order);
}

/* ---- without a map ------------------------------------------------------- */

spc_status spc__plan_take_rows(spc_plan *plan)
{
    spc_status status =
        spc__rows_load(&plan->lay_rows, plan->ctx, spc__error_of(plan->ctx));

    plan->takes_rows = status == SPC_OK;
    return status;
}

/* Checks a layer that is to run without a map. */
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

static spc_status create_linear(spc_plan **out, spc_ctx *ctx,
                                const spc_conv *conv, int64_t rows,
                                unsigned flags, const spc__allow *allow)
{
    spc_error *error = spc__error_of(ctx);
    spc_plan *plan = NULL;
    spc_status status;

    if (out != NULL)
        *out = NULL;
    spc__lack lack = {conv, NULL, rows, rows, 1, allow};
    if ((status = spc__need(error, "spc_plan_create_linear", "out", out, "ctx",
                            ctx, "conv", conv, NULL)) != SPC_OK ||
        (status = check_linear(conv, rows, error)) != SPC_OK ||
        (status = check_flags(flags, conv, error)) != SPC_OK ||
        (status = create_looked_up(&plan, ctx, &lack, flags)) != SPC_OK)
        return status;
    if ((status = spc__plan_take_rows(plan)) == SPC_OK) {
        *out = plan;
        plan = NULL;
    }
    spc_plan_free(plan);
    return status;
}

spc_status spc_plan_create_linear(spc_plan **out, spc_ctx *ctx,
                                  const spc_conv *conv, int64_t rows,
                                  unsigned flags)
{
    return create_linear(out, ctx, conv, rows, flags, NULL);
}

/* ---- with options -------------------------------------------------------- */

static spc_status check_options(const spc_plan_options *options,
                                const spc_map *map, spc_error *error)
{
    if (map != NULL && options->rows != 0)
        return spc__fail(error, SPC_EINVAL,
                         "spc_plan_options.rows is %lld, but rows are those of "
                         "the map: expected 0",
                         (long long)options->rows);
    if (options->allow != NULL && options->flags & SPC_PLAN_BACKGROUND)
        return spc__fail(error, SPC_EINVAL,
                         "spc_plan_options.allow cannot be combined with "
                         "SPC_PLAN_BACKGROUND, whose thread knows the lists of "
                         "the context only: use spc_ctx_options.allow");
    return SPC_OK;
}

spc_status spc_plan_create_with(spc_plan **out, spc_ctx *ctx,
                                const spc_conv *conv, spc_map *map,
                                const spc_plan_options *options)
{
    static const spc_plan_options standard = SPC_PLAN_OPTIONS_INIT;
    spc_error *error = spc__error_of(ctx);
    spc__allow allow = {0};
    spc_status status;

    if (out != NULL)
        *out = NULL;
    if ((status = spc__need(error, __func__, "out", out, "ctx", ctx, "conv",
                            conv, NULL)) != SPC_OK ||
        (status = SPC__TAKE(spc_plan_options, options, error)) != SPC_OK)
        return status;
    if (options == NULL)
        options = &standard;
    if ((status = check_options(options, map, error)) == SPC_OK &&
        options->allow != NULL)
        status = spc__ctx_allow(&allow, ctx, options->allow, "allow", error);
    if (status == SPC_OK && map != NULL)
        status = create_for_map(out, ctx, conv, map, options->flags, &allow);
    else if (status == SPC_OK)
        status = create_linear(out, ctx, conv, options->rows, options->flags,
                               &allow);
    spc__allow_release(&allow);
    return status;
}

void spc_plan_free(spc_plan *plan)
{
    if (plan == NULL)
        return;
    /* Maps may still have bindings of this plan. They hold its life, and their
     * memory serves the next plan. */
    spc__plan_life_end(plan->life);
    /* needed, as the context owns the kernels' modules */
    spc__ctx_leave(plan->ctx);
    free(plan);
}

/* ---- queries ------------------------------------------------------------- */

const spc_ctx *spc_plan_ctx(const spc_plan *plan)
{
    return plan != NULL ? plan->ctx : NULL;
}

spc_match spc_plan_match(const spc_plan *plan)
{
    return plan != NULL ? plan->origin : SPC_MATCH_DEFAULT;
}

spc_level spc_plan_level(const spc_plan *plan)
{
    return plan != NULL ? plan->level : SPC_LEVEL_DEFAULT;
}

bool spc_plan_is_shipped(const spc_plan *plan)
{
    return plan != NULL && plan->is_shipped;
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

bool spc_plan_fits(const spc_plan *plan, const spc_map *map)
{
    if (plan == NULL || map == NULL ||
        spc__plan_check_map(plan->ctx, &plan->conv, map, NULL) != SPC_OK)
        return false;
    /* Records are found by these buckets, so within them a new plan would be
     * the same. */
    const spc__scene_buckets *made = &plan->scene;
    spc__scene_buckets now = spc__scene_buckets_of(
        spc__plan_rows(map->in), spc__plan_rows(map->to), spc_map_density(map));
    return made->rows == now.rows && made->ratio == now.ratio &&
           made->density == now.density;
}

size_t spc_plan_weights_bytes(const spc_plan *plan)
{
    if (plan == NULL)
        return 0;
    return plan->geometry.gradient
               ? spc__operand_of(&plan->conv, SPC_OPERAND_WEIGHTS, 0).bytes
               : plan->geometry.packed_bytes;
}
