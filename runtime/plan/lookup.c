/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.c - the lookup order: exact, bucket, nearest, default.
 *
 * The device's own records come first. A record of another device of the same
 * architecture precedes the own records of other layers, which are the less
 * certain of the two: a shipped choice of this layer still serves after the
 * first other layer was tuned here. Devices of other architectures come last
 * before the default.
 */
#include "plan/lookup.h"

#include "base/error.h"
#include "base/printable.h"
#include "context/class_default.h"
#include "context/problem_key.h"
#include "plan/lookup_parts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of records to try before the default. Records farther away are no
 * better than the template author's default. */
enum { MOST_CHOICES = 8 };

/* The other devices, asked for only once it is known that no record of this
 * device and layer is close. */
static int related_count(spc__look *look)
{
    if (look->related_count < 0)
        look->related_count = spc__ctx_related(&look->related, look->ctx);
    return look->related_count;
}

/* True if a record of another layer has to wait until the close records of
 * other devices were tried. */
static bool waits(spc__look *look, const spc__choice *choice)
{
    return look->close_only && choice->match == SPC__MATCH_NEAREST &&
           related_count(look) > 0;
}

/* Tries at most `capacity` records. */
static spc_status try_choices(spc__look *look, int capacity)
{
    spc__choice *choices = malloc((size_t)capacity * sizeof(*choices));
    spc_status status = SPC_ENOTFOUND;
    spc_error error = {0};
    int count = 0;

    /* Records only make a plan faster, so a lack of memory here falls back to
     * the default. */
    if (choices == NULL)
        return SPC_ENOTFOUND;
    if (spc__cache_find_choices_of(look->ctx->cache, &look->key,
                                   look->has_forward ? &look->forward_key
                                                     : NULL,
                                   choices, capacity, &count, &error) != SPC_OK)
        spc__look_refuse_unread(look, &error);
    /* Nearest first, so the first record that is too far ends the search. */
    for (int i = 0; i < count && status != SPC_OK; i++)
        if (waits(look, &choices[i]))
            break;
        else if (spc__look_was_refused(look, &choices[i]))
            continue;
        else if (!spc__look_is_allowed(look, choices[i].trial.template_name))
            status = spc__look_replace_choice(look, &choices[i]);
        else if (spc__look_knows_less_than_default(look, &choices[i]))
            break;
        else
            status = spc__look_try_choice(look, &choices[i]);
    free(choices);
    return status;
}

/* The measured default of the layer's class, if a pack has one. */
static spc_status try_class(spc__look *look)
{
    spc__problem_key key;
    spc__choice *choice = malloc(sizeof(*choice));
    spc_status status = SPC_ENOTFOUND;
    bool found = false;

    /* A default of a class is stored under a key that names the class instead
     * of the layer. */
    spc__class_key(&key, &look->key);
    if (choice != NULL)
        spc__cache_find_exact(look->ctx->cache, &key, choice, &found, NULL);
    if (found && spc__look_is_allowed(look, choice->trial.template_name))
        status = spc__look_try_choice(look, choice);
    if (status == SPC_OK)
        spc__look_explain_class(look, choice);
    free(choice);
    return status;
}

/* An exact hit is one fast query; only other layers need a scan. */
static spc_status try_device(spc__look *look)
{
    int refusals = look->refusals;

    look->default_is_better = false;
    if (try_choices(look, 1) == SPC_OK)
        return SPC_OK;
    /* Without a refusal, the best record and all others are left for later. */
    if (look->close_only && look->refusals == refusals &&
        related_count(look) > 0)
        return SPC_ENOTFOUND;
    return try_choices(look, MOST_CHOICES * spc__cache_files(look->ctx->cache));
}

/* Makes the keys those of another device; NULL: of this one. */
static void set_device(spc__look *look, const spc__related *device)
{
    const char *name =
        device != NULL ? device->of.device : look->ctx->info.name;
    const char *target =
        device != NULL ? device->of.target : look->ctx->info.target;

    look->device = device;
    snprintf(look->key.device, sizeof(look->key.device), "%s", name);
    snprintf(look->key.target, sizeof(look->key.target), "%s", target);
    if (!look->has_forward)
        return;
    memcpy(look->forward_key.device, look->key.device,
           sizeof(look->key.device));
    memcpy(look->forward_key.target, look->key.target,
           sizeof(look->key.target));
}

/* A device of another architecture gives only its best record. If that needs
 * instructions or memory that this device lacks, the next ones were slower
 * there for reasons that do not hold here. */
static spc_status try_facts(spc__look *look)
{
    return spc__look_knows_best_template(look) ? try_choices(look, 1)
                                               : SPC_ENOTFOUND;
}

/* Tries the other devices of one level, the nearest first. */
static spc_status try_related(spc__look *look, spc_level level,
                              spc_status (*try)(spc__look *look))
{
    spc_status status = SPC_ENOTFOUND;

    for (int i = 0; i < related_count(look) && status != SPC_OK; i++)
        if (look->related[i].level == level) {
            set_device(look, &look->related[i]);
            status = try(look);
        }
    set_device(look, NULL);
    return status;
}

static spc_status try_all_devices(spc__look *look)
{
    bool better;

    look->close_only = true;
    if (try_device(look) == SPC_OK)
        return SPC_OK;
    if (related_count(look) == 0)
        return look->default_is_better ? SPC_ENOTFOUND : try_class(look);
    if (try_related(look, SPC_LEVEL_ARCHITECTURE, try_device) == SPC_OK)
        return SPC_OK;
    look->close_only = false;
    if (try_device(look) == SPC_OK)
        return SPC_OK;
    better = look->default_is_better;
    if (try_related(look, SPC_LEVEL_ARCHITECTURE, try_device) == SPC_OK)
        return SPC_OK;
    better |= look->default_is_better;
    if (!better &&
        (try_class(look) == SPC_OK ||
         try_related(look, SPC_LEVEL_ARCHITECTURE, try_class) == SPC_OK))
        return SPC_OK;
    /* Code for another architecture does not run here, so stored code is of no
     * use. */
    return look->flags & SPC__PLAN_RECORDED
               ? SPC_ENOTFOUND
               : try_related(look, SPC_LEVEL_FACTS, try_facts);
}

static spc_status from_database(spc__look *look)
{
    if (look->ctx->cache == NULL || look->flags & SPC_PLAN_ESTIMATE)
        return SPC_ENOTFOUND;
    return try_all_devices(look);
}

/* ---- records alone ------------------------------------------------------- */

/* Without a compiler only stored code can be used, and a record of this problem
 * nearly always names it. Asking and rendering all templates takes tens of
 * milliseconds, so that is done only if no record has code. */
static spc_status from_records(spc__look *look)
{
    spc_status status;

    if (!(look->flags & SPC_PLAN_CACHED_ONLY) ||
        look->flags & SPC_PLAN_ESTIMATE || look->ctx->cache == NULL)
        return SPC_ENOTFOUND;
    /* The flag is set only for this pass. Afterwards the normal order may
     * compile or query templates. */
    look->flags |= SPC__PLAN_RECORDED;
    status = from_database(look);
    /* With templates of the caller, stored code of a built-in one may be the
     * wrong kernel. */
    if (status != SPC_OK && look->ctx->template_dir == NULL)
        status = spc__look_at_stored_defaults(look);
    look->flags &= ~(unsigned)SPC__PLAN_RECORDED;
    if (status == SPC_OK)
        return SPC_OK;
    look->refused[0] = '\0'; /* the next pass asks about all records again */
    look->file = NULL;
    return status;
}

/* Finds the forward layer that computes the same as this gradient of inputs.
 * The problem already has its operator, channels and geometry, and its weights
 * are packed transposed, so only the name differs. */
static void find_forward(spc__look *look, const spc_conv *conv, int64_t rows_in,
                         int64_t rows_out, double density)
{
    spc_conv forward = *conv;

    if (conv->pass != SPC_DGRAD)
        return;
    forward.pass = SPC_FORWARD;
    spc__problem_key_init(&look->forward_key, look->ctx, &forward, rows_in,
                          rows_out, density);
    look->has_forward = true;
}

/* ---- entry --------------------------------------------------------------- */

/* Counts the origin of a plan's kernel. */
static void count(spc_stats *stats, spc_match origin)
{
    if (origin == SPC_MATCH_EXACT)
        stats->hits++;
    else if (origin == SPC_MATCH_DEFAULT)
        stats->misses++;
    else
        stats->near_hits++;
}

/* The plan's list if it names the pass, else that of the context. */
static const spc__allow *allow_of(const spc_ctx *ctx, const spc_conv *conv,
                                  const spc__allow *of_plan)
{
    return of_plan != NULL && of_plan->lists[conv->pass].at != NULL
               ? of_plan
               : &ctx->allow;
}

spc_status spc__lookup(spc__pick *out, spc_ctx *ctx, const spc_conv *conv,
                       int64_t rows_in, int64_t rows_out, double density,
                       unsigned flags, const spc__allow *allow)
{
    spc__look look = {
        .out = out,
        .ctx = ctx,
        .flags = flags,
        .allow = allow_of(ctx, conv, allow),
        .pass = conv->pass,
        .related_count = -1,
        .rows = rows_out,
        .pairs = llround(density * (double)rows_out * spc__conv_offsets(conv)),
        .deterministic = conv->deterministic};
    spc_status status;

    ctx->stats.lookups++;
    out->is_shipped = false;
    spc_conv_format(look.layer, sizeof(look.layer), conv);
    spc__problem_key_init(&look.key, ctx, conv, rows_in, rows_out, density);
    find_forward(&look, conv, rows_in, rows_out, density);
    spc__conv_attrs(&look.problem, conv);
    if ((status = from_records(&look)) != SPC_OK &&
        (status = from_database(&look)) != SPC_OK)
        status = spc__look_at_defaults(&look);
    if (status == SPC_OK) {
        count(&ctx->stats, out->origin);
        spc__make_printable(out->reason); /* the reason quotes text from
                                           * records */
    }
    return status;
}
