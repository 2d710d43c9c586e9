/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - answers which kernel a plan would get, without making the
 * plan. */
#include "base/error.h"
#include "base/sized.h"
#include "coords/rows.h"
#include "operators/conv.h"
#include "plan/lookup.h"
#include "plan/plan_parts.h"
#include <stdio.h>
#include <string.h>

/* Checks the question. */
static spc_status check_question(const spc_explain_question *ask,
                                 unsigned flags, spc_error *error)
{
    spc_status status = spc_conv_check(ask->conv, error);

    if (status != SPC_OK)
        return status;
    if ((flags & ~(unsigned)(SPC_PLAN_CACHED_ONLY | SPC_PLAN_ESTIMATE)) != 0)
        return spc__fail(error, SPC_EINVAL,
                         "to explain, SPC_PLAN_CACHED_ONLY and "
                         "SPC_PLAN_ESTIMATE are the flags that there are");
    if (ask->pairs < 0 || ask->pairs > INT32_MAX)
        return spc__fail(
            error, SPC_EINVAL,
            "%lld pairs: expected 0 to %d, as many as a map can have",
            (long long)ask->pairs, INT32_MAX);
    spc__row_count in = {ask->rows_in, NULL}, to = {ask->rows_out, NULL};
    if ((status = spc__rows_check(&in, error)) == SPC_OK)
        status = spc__rows_check(&to, error);
    return status;
}

/* Density as spc_map_density defines it; for a linear layer as
 * spc_plan_create_linear does. */
static double density_of(const spc_explain_question *ask)
{
    double all =
        (double)ask->rows_out * spc_geometry_offset_count(&ask->conv->geometry);

    if (spc_conv_is_linear(ask->conv))
        return 1;
    return all > 0 ? (double)ask->pairs / all : 0;
}

/* The workspace of a persistent grid depends on the number of resident blocks,
 * which is known only after the code is loaded. */
static int64_t workspace_of(const spc_plan *plan,
                            const spc_explain_question *ask)
{
    if (plan->geometry.workspace_block_bytes > 0)
        return -1;
    if (spc_conv_is_linear(ask->conv))
        return (int64_t)spc_plan_workspace_bytes_linear(plan, ask->rows_out);
    return (int64_t)spc__plan_work_bytes(
        &plan->geometry, spc__rows_padded(ask->rows_out), ask->pairs);
}

/* Names the form of the map that the kernels read (coords/layout.h). */
static void name_layout(char out[64], const spc__launch_geometry *geometry,
                        const spc_conv *conv)
{
    const char *pairs = spc__conv_has_triplets(conv) ? "triplets" : "pairs";
    bool sorted = strcmp(geometry->order, "none") != 0;

    if (geometry->reads_bundles)
        snprintf(out, 64, "triplets of 16 outputs by offset");
    else if (geometry->reads_triplets || geometry->reads_inputs)
        snprintf(out, 64, "triplets by %s",
                 geometry->reads_inputs ? "input" : "output");
    else if (!geometry->reads_table)
        snprintf(out, 64, "%s by offset", pairs);
    else
        snprintf(out, 64, "table, rows in %s%s%s",
                 sorted ? "the order " : "the order of keys",
                 sorted ? geometry->order : "",
                 geometry->reads_pairs ? "; pairs by offset" : "");
}

/* Describes the kernel that a plan would use. */
static spc_status describe(spc_explanation *out, const spc__pick *pick,
                           const spc_explain_question *ask, spc_error *error)
{
    /* No kernel is loaded, so this plan has only the members that the queries
     * below read. */
    spc_plan plan = {.conv = *ask->conv};
    spc_status status =
        spc__launch_read(&plan.geometry, &pick->code.launch, error);

    if (status != SPC_OK)
        return spc__fail_prefix(
            error, "cannot use '%s' (%s): ", pick->template_name, pick->config);
    memset(out, 0, sizeof(*out));
    out->match = pick->origin;
    out->level = pick->level;
    out->has_code = pick->code.artefact[0] != '\0';
    snprintf(out->template_name, sizeof(out->template_name), "%s",
             pick->template_name);
    snprintf(out->config, sizeof(out->config), "%s", pick->config);
    snprintf(out->reason, sizeof(out->reason), "%s", pick->reason);
    out->weights_bytes = spc_plan_weights_bytes(&plan);
    out->workspace_bytes = workspace_of(&plan, ask);
    name_layout(out->layout, &plan.geometry, ask->conv);
    return SPC_OK;
}

spc_status spc_explain(spc_explanation *out, spc_ctx *ctx,
                       const spc_explain_question *ask, unsigned flags)
{
    spc_error *error = spc__error_of(ctx);
    spc__pick pick;
    spc__allow allow = {0};
    spc_status status =
        spc__need(error, __func__, "out", out, "ctx", ctx, "ask", ask, "conv",
                  ask != NULL ? ask->conv : NULL, NULL);

    if (status != SPC_OK ||
        (status = SPC__TAKE(spc_explain_question, ask, error)) != SPC_OK ||
        (status = check_question(ask, flags, error)) != SPC_OK)
        return status;
    /* The same lookup as for a plan, but without loading code. */
    if (ask->allow != NULL &&
        (status = spc__ctx_allow(&allow, ctx, ask->allow, "allow", error)) !=
            SPC_OK)
        return status;
    status = spc__lookup(&pick, ctx, ask->conv, ask->rows_in, ask->rows_out,
                         density_of(ask), flags | SPC__PLAN_UNLOADED, &allow);
    spc__allow_release(&allow);
    return status == SPC_OK ? describe(out, &pick, ask, error) : status;
}
