/* SPDX-License-Identifier: Apache-2.0 */
/* lookup_default.c - the defaults of templates, for layers that no record
 * serves. */
#include "plan/lookup_parts.h"

#include "base/error.h"
#include "device/architecture.h"
#include "operators/pass.h"
#include "plan/lookup.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of templates that are considered. */
enum { MOST_TEMPLATES = 32 };

/* A template that accepts the problem, with the launch geometry of its
 * default. */
typedef struct fallback {
    spc__template *tpl;
    spc__attrs config;
    int64_t preference;
} fallback;

/* The order in which templates without a record are tried. */
static int by_preference(const void *a, const void *b)
{
    const fallback *first = a, *second = b;
    if (first->preference != second->preference)
        return first->preference > second->preference ? -1 : 1;
    /* Tie: prefer the template with more parameters, as it was written for
     * speed. */
    if (first->config.count != second->config.count)
        return first->config.count > second->config.count ? -1 : 1;
    return strcmp(spc__template_name(first->tpl),
                  spc__template_name(second->tpl));
}

/* Returns SPC_EUNSUPPORTED with the template's reason if it refuses the
 * problem. */
static spc_status question(fallback *out, spc__look *look, spc__template *tpl,
                           spc_error *error)
{
    const spc__attrs *target = &look->ctx->target;
    spc__attrs of_map = *target, launch = {0};
    spc_status status;

    out->tpl = tpl;
    /* Templates may choose a default by the size of the map. 0 means unknown,
     * and then the attribute is absent. */
    if (look->rows > 0)
        spc__attrs_set_number(&of_map, "rows", look->rows);
    if (look->pairs > 0)
        spc__attrs_set_number(&of_map, "pairs", look->pairs);
    if ((status = spc__template_accepts(tpl, &look->problem, target, error)) !=
            SPC_OK ||
        (status = spc__template_default(&out->config, tpl, &look->problem,
                                        &of_map, error)) != SPC_OK ||
        (status = spc__template_launch(&launch, tpl, &look->problem, &of_map,
                                       &out->config, error)) != SPC_OK)
        return status;
    /* The launch attributes name atomics, so this check needs no kernel. */
    if ((status = spc__look_check_order(look, &launch, error)) != SPC_OK)
        return spc__fail_prefix(error, "'%s': ", spc__template_name(tpl));
    out->preference = spc__attrs_number(&launch, "preference", 0);
    return SPC_OK;
}

/* Collects the templates that accept the problem, best first. `why` collects
 * the reasons of the others. */
static int collect(fallback *out, spc__look *look, spc__library *library,
                   spc__buf *why)
{
    const char *role = spc__problem_role(&look->problem);
    spc_error error = {0};
    int count = 0;

    for (int i = 0; i < spc__library_count(library); i++) {
        spc__template *tpl = spc__library_at(library, i);
        if (strcmp(spc__template_role(tpl), role) != 0 ||
            !spc__ctx_serves(look->ctx, tpl) || count == MOST_TEMPLATES ||
            !spc__look_is_allowed(look, spc__template_name(tpl)))
            continue;
        spc_status status = question(&out[count], look, tpl, &error);
        if (status == SPC_OK)
            count++;
        else
            spc__buf_printf(why, "%s%s", why->length > 0 ? "; " : "",
                            error.text);
        /* A refusal is normal. Any other failure is a fault of the template,
         * reported only if no other template serves; an interruption always
         * is. */
        if ((status != SPC_OK && status != SPC_EUNSUPPORTED &&
             look->fault.status == SPC_OK) ||
            status == SPC_EINTERRUPTED)
            look->fault = error;
    }
    qsort(out, (size_t)count, sizeof(out[0]), by_preference);
    return count;
}

/* True if the default's template, which is the first choice here, works on the
 * other device too. A search there otherwise never saw the kernels that are
 * the best here. */
bool spc__look_knows_best_template(spc__look *look)
{
    const spc__architecture *there =
        spc__architecture_find(look->device->of.target);
    fallback *all = malloc(MOST_TEMPLATES * sizeof(*all));
    spc__buf why = SPC__BUF_INIT;
    spc__attrs target = look->ctx->target;
    spc__library *library;
    bool knows = false;

    if (all != NULL && there != NULL &&
        spc__ctx_library(&library, look->ctx) == SPC_OK &&
        collect(all, look, library, &why) > 0) {
        spc__attrs_set_text(&target, "target", there->name);
        spc__attrs_set_number(&target, "sm", there->sm);
        spc__attrs_set_number(&target, "shared_block", there->shared_block);
        spc__attrs_set_number(&target, "shared_sm", there->shared_sm);
        knows = spc__template_accepts(all[0].tpl, &look->problem, &target,
                                      NULL) == SPC_OK;
    }
    spc__buf_release(&why);
    free(all);
    return knows;
}

/* A record that an earlier lookup set aside is not found again, so this adds it
 * to the reason. */
static void note_set_aside(spc__look *look)
{
    spc_ctx *ctx = look->ctx;
    char why[160] = "";

    if (look->refused[0] == '\0' && ctx->cache != NULL)
        spc__cache_set_aside(ctx->cache, &look->key, why, sizeof(why));
    if (why[0] != '\0')
        snprintf(look->refused, sizeof(look->refused),
                 "its record was set aside: %s", why);
}

/* Says why an untuned kernel was chosen. */
static void explain_default(spc__look *look, const char *template_name)
{
    const char *why = "the database has no record near this problem";

    note_set_aside(look);

    if (look->flags & SPC_PLAN_ESTIMATE)
        why = "an estimate was requested";
    else if (look->ctx->cache == NULL)
        why = "there is no database";
    else if (look->refused[0] != '\0')
        why = look->refused;
    snprintf(look->out->reason, sizeof(look->out->reason),
             "the default of '%s', untuned: %s", template_name, why);
}

/* If a default's kernel is not available, tries the next template that accepts
 * the problem. */
static spc_status try_defaults(spc__look *look, const fallback *all, int count)
{
    spc_ctx *ctx = look->ctx;
    spc_status status = SPC_ENOTFOUND;

    for (int i = 0; i < count; i++) {
        const char *name = spc__template_name(all[i].tpl);
        status = spc__ctx_code(&look->out->code, ctx, name, &look->problem,
                               &all[i].config, look->flags);
        if (status == SPC_OK)
            status = spc__look_check_library(look, &look->out->code.launch,
                                             spc__error_of(ctx));
        if (status == SPC_OK) {
            look->out->origin = SPC_MATCH_DEFAULT;
            look->out->level = SPC_LEVEL_DEFAULT;
            spc__look_set_config(look->out, name, &all[i].config);
            explain_default(look, name);
            return SPC_OK;
        }
        /* The last failure becomes the caller's error, so only earlier failures
         * are logged. */
        if (i + 1 < count)
            spc__log_printf(&ctx->log, SPC_LOG_INFO,
                            "the default of '%s' cannot be had: %s", name,
                            spc__error_of(ctx)->text);
    }
    return status;
}

/* Uses a default without asking templates: stored code that was compiled for
 * this problem. The one with the highest preference wins. */
spc_status spc__look_at_stored_defaults(spc__look *look)
{
    char name[SPC__TEMPLATE_NAME];
    int64_t best = INT64_MIN;
    spc_status status = SPC_ENOTFOUND;

    for (int i = 0; spc__builtin_template_name(name, i); i++) {
        spc__code code = {0};
        spc__attrs config = {0};
        if (!spc__look_is_allowed(look, name) ||
            spc__ctx_stored_code(&code, &config, look->ctx, name,
                                 &look->problem, look->flags) != SPC_OK ||
            spc__look_check_order(look, &code.launch, NULL) != SPC_OK ||
            spc__look_check_library(look, &code.launch, NULL) != SPC_OK)
            continue;
        int64_t preference = spc__attrs_number(&code.launch, "preference", 0);
        /* Ties go to the first name, which is a fixed order. */
        if (preference <= best)
            continue;
        best = preference;
        look->out->code = code;
        look->out->origin = SPC_MATCH_DEFAULT;
        look->out->level = SPC_LEVEL_DEFAULT;
        spc__look_set_config(look->out, name, &config);
        explain_default(look, name);
        status = SPC_OK;
    }
    return status;
}

/* Runs code that another library stored, since this one has no templates. */
static spc_status from_stored_defaults(spc__look *look)
{
    if (spc__look_at_stored_defaults(look) == SPC_OK)
        return SPC_OK;
    return spc__fail(spc__error_of(look->ctx), SPC_ENOTFOUND,
                     "no compiled code for '%s' on %s (%s) in the database, "
                     "and this libspc has no compiler: tune the layer, or run "
                     "it, with one that has",
                     look->layer, look->ctx->info.name, look->ctx->info.target);
}

/* No template that may be used accepts the layer; `why` has their reasons. */
static spc_status fail_unserved(spc__look *look, spc__buf *why)
{
    spc__span list = look->allow->lists[look->pass];
    spc_ctx *ctx = look->ctx;
    const char *reasons =
        why->length > 0 ? spc__buf_text(why) : "there is none for this device";

    if (list.at == NULL)
        return spc__fail(spc__error_of(ctx), SPC_EUNSUPPORTED,
                         "no template serves '%s' on %s: %s", look->layer,
                         ctx->info.id, reasons);
    return spc__fail(spc__error_of(ctx), SPC_EUNSUPPORTED,
                     "no allowed template (%.*s) serves '%s' on %s: %s",
                     (int)list.length, list.at, look->layer, ctx->info.id,
                     reasons);
}

/* Tries the templates, best first, with their default configurations. */
spc_status spc__look_at_defaults(spc__look *look)
{
    spc_ctx *ctx = look->ctx;
    spc__library *library;
    spc__buf why = SPC__BUF_INIT;
    fallback *all = NULL;
    spc_status status = spc__ctx_library(&library, ctx);

    /* This library was built without templates. */
    if (status == SPC_EUNSUPPORTED)
        return from_stored_defaults(look);
    if (status != SPC_OK)
        return status;
    if ((all = malloc(MOST_TEMPLATES * sizeof(*all))) == NULL)
        return spc__fail_memory(spc__error_of(ctx),
                                MOST_TEMPLATES * sizeof(*all));
    int count = collect(all, look, library, &why);
    if (count > 0)
        status = try_defaults(look, all, count);
    else if (look->fault.status != SPC_OK)
        status = spc__fail(spc__error_of(ctx), look->fault.status, "%s",
                           look->fault.text);
    else
        status = fail_unserved(look, &why);
    if (status == SPC_ENOTFOUND && look->flags & SPC_PLAN_CACHED_ONLY)
        status = spc__fail(spc__error_of(ctx), SPC_ENOTFOUND,
                           "no compiled code for '%s' on %s (%s) in the "
                           "database, and compiling was not permitted: tune "
                           "the layer first, or permit it",
                           look->layer, ctx->info.name, ctx->info.target);
    spc__buf_release(&why);
    free(all);
    return status;
}

spc_status spc__lookup_default(spc__pick *out, spc_ctx *ctx,
                               const spc_conv *conv, int64_t rows, int n)
{
    spc__look look = {.out = out,
                      .ctx = ctx,
                      .allow = &ctx->allow,
                      .pass = conv->pass,
                      .rows = rows,
                      .deterministic = conv->deterministic};
    spc__library *library;
    spc__buf why = SPC__BUF_INIT;
    fallback *all = malloc(MOST_TEMPLATES * sizeof(*all));
    spc_status status = spc__ctx_library(&library, ctx);

    spc__conv_attrs(&look.problem, conv);
    if (status == SPC_OK &&
        (all == NULL || collect(all, &look, library, &why) <= n))
        status = SPC_ENOTFOUND;
    if (status == SPC_OK)
        spc__look_set_config(out, spc__template_name(all[n].tpl),
                             &all[n].config);
    spc__buf_release(&why);
    free(all);
    return status;
}
