/* SPDX-License-Identifier: Apache-2.0 */
/* lookup_record.c - whether a record of the database serves a layer, and why.
 */
#include "plan/lookup_parts.h"

#include "base/error.h"
#include "context/problem_key.h"
#include "plan/other_size.h"
#include "plan/plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets the template and the text of its configuration. */
void spc__look_set_config(spc__pick *out, const char *template_name,
                          const spc__attrs *config)
{
    spc__buf text = SPC__BUF_INIT;

    spc__attrs_format(&text, config);
    snprintf(out->template_name, sizeof(out->template_name), "%s",
             template_name);
    snprintf(out->config, sizeof(out->config), "%s", spc__buf_text(&text));
    spc__buf_release(&text);
}

/* If the layer has a list of offsets, a record contains only its digest. */
static void layer_text(char *out, size_t bytes, const spc__look *look,
                       const spc__attrs *layer)
{
    spc_conv conv;

    if (spc__conv_from_attrs(&conv, layer))
        spc_conv_format(out, bytes, &conv);
    else
        snprintf(out, bytes, "%s",
                 spc__attrs_equal(layer, &look->key.layer)
                     ? look->layer
                     : "a layer with another list of offsets");
}

/* Describes a scene in a sentence. */
static void scene_text(char *out, size_t bytes, const spc__problem_key *key)
{
    double rows_in, rows_out, density;
    char from[40] = "";

    spc__problem_key_scene(&rows_in, &rows_out, &density, key);
    if (rows_in != rows_out)
        snprintf(from, sizeof(from), " from %.0f", rows_in);
    snprintf(out, bytes, "%.0f rows%s and density %.3f", rows_out, from,
             density);
}

/* True if the record was measured with another version of its template. Its
 * time is then not that of the current kernel, and another kernel may be faster
 * now. A template that is not installed cannot be compared. */
static bool is_stale(spc__look *look, const spc__trial *trial)
{
    char now[SPC__SHA256_HEX];

    return spc__ctx_template_hash(now, look->ctx, trial->template_name) &&
           strcmp(now, trial->template_hash) != 0;
}

static bool is_shipped(const spc__look *look, const spc__choice *choice)
{
    const char *shipped = look->ctx->shipped;

    return shipped != NULL && strcmp(choice->file, shipped) == 0;
}

/* A gradient of inputs is a convolution with exchanged channels, and more
 * records exist for that forward layer. */
static bool is_of_forward(const spc__look *look, const spc__choice *choice)
{
    return look->has_forward &&
           strcmp(choice->key.target, look->forward_key.target) == 0 &&
           spc__attrs_equal(&choice->key.layer, &look->forward_key.layer);
}

/* Adds why a nearer record was not used. */
static void add_refusal(spc__look *look)
{
    /* Appended: the reason already has the sentence on the record that
     * serves. */
    char *reason = look->out->reason;
    size_t used = strlen(reason);

    if (look->refused[0] != '\0')
        snprintf(reason + used, sizeof(look->out->reason) - used,
                 "; one before it cannot serve: %s", look->refused);
}

/* The level of the records that are tried. */
static spc_level level_of(const spc__look *look)
{
    return look->device != NULL ? look->device->level : SPC_LEVEL_DEVICE;
}

/* How a record matches. Its origin does not tell, as that is "nearest" for all
 * records of other devices. */
static int match_of(const spc__look *look, const spc__choice *choice,
                    bool stale)
{
    if (look->out->level == SPC_LEVEL_DEVICE)
        return look->out->origin;
    if (stale || choice->match == SPC__MATCH_NEAREST)
        return SPC_MATCH_NEAREST;
    return choice->match == SPC__MATCH_EXACT ? SPC_MATCH_EXACT
                                             : SPC_MATCH_BUCKET;
}

/* Explains the record that was chosen. */
static void explain_record(spc__look *look, const spc__choice *choice,
                           bool stale)
{
    enum { OF_FORWARD = SPC_MATCH_DEFAULT + 1 };
    static const char *const levels[] = {
        [SPC_LEVEL_DEVICE] = "",
        [SPC_LEVEL_ARCHITECTURE] = "not tuned on this device; on another one "
                                   "of its architecture, ",
        [SPC_LEVEL_FACTS] = "not tuned on this architecture; on the nearest "
                            "device, ",
    };
    static const char *const how[] = {
        [SPC_MATCH_EXACT] = "measured for exactly this problem",
        [SPC_MATCH_BUCKET] = "measured for this layer on a similar scene",
        [SPC_MATCH_NEAREST] = ("the nearest measured problem whose "
                               "configuration is legal here"),
        [OF_FORWARD] = ("measured for the forward layer that this gradient "
                        "computes as"),
    };
    char layer[200], scene[80];

    layer_text(layer, sizeof(layer), look, &choice->key.layer);
    scene_text(scene, sizeof(scene), &choice->key);
    snprintf(look->out->reason, sizeof(look->out->reason),
             "%s%s%s: '%.120s' at %s on %.40s took %.1f us%s (distance %.2f)",
             look->out->is_shipped ? "shipped with the library, " : "",
             levels[look->out->level],
             how[is_of_forward(look, choice) ? OF_FORWARD
                                             : match_of(look, choice, stale)],
             layer, scene, choice->key.device, choice->trial.median_us,
             stale ? " by an earlier version of its kernel" : "",
             choice->distance);
    add_refusal(look);
}

/* Says that the class's default was chosen. */
void spc__look_explain_class(spc__look *look, const spc__choice *choice)
{
    look->out->origin = SPC_MATCH_DEFAULT;
    snprintf(look->out->reason, sizeof(look->out->reason),
             "the measured default of its class, %s", choice->reason);
    add_refusal(look);
}

static void note_refusal(spc__look *look, const char *why)
{
    if (look->refused[0] == '\0')
        snprintf(look->refused, sizeof(look->refused), "%.199s", why);
}

/* Notes a record that cannot serve, and why. */
static void refuse(spc__look *look, const spc__choice *choice, const char *why)
{
    spc__log_printf(&look->ctx->log, SPC_LOG_INFO,
                    "a record of '%s' cannot serve '%s': %s",
                    choice->trial.template_name, look->layer, why);
    note_refusal(look, why);
    look->refusals++;
    look->file = choice->file;
    look->record = choice->problem;
}

/* A record that cannot be read is skipped. The next query meets the same error
 * again, so it is reported once. */
void spc__look_refuse_unread(spc__look *look, const spc_error *why)
{
    if (strcmp(why->text, look->unread.text) == 0)
        return;
    look->unread = *why;
    spc__log_printf(&look->ctx->log, SPC_LOG_WARNING,
                    "the database does not answer fully: %s", why->text);
    note_refusal(look, why->text);
}

bool spc__look_is_allowed(const spc__look *look, const char *template_name)
{
    return spc__allow_has(look->allow, look->pass, template_name);
}

bool spc__look_was_refused(const spc__look *look, const spc__choice *choice)
{
    return choice->file == look->file && choice->problem == look->record;
}

/* Checks that the current template accepts the record's configuration. A record
 * of exactly this problem was checked when it was made. */
static spc_status permit(spc__look *look, const spc__trial *trial)
{
    spc_ctx *ctx = look->ctx;
    spc__library *library;
    spc__template *tpl;
    spc_status status;

    /* This pass uses only stored code, which the record names, so it does not
     * query templates. */
    if (look->flags & SPC__PLAN_RECORDED)
        return SPC_OK;
    /* Without templates only stored code can be used. */
    if ((status = spc__ctx_library(&library, ctx)) != SPC_OK)
        return status == SPC_EUNSUPPORTED ? SPC_OK : status;
    if ((tpl = spc__library_find(library, trial->template_name)) == NULL)
        return spc__fail(spc__error_of(ctx), SPC_EUNSUPPORTED,
                         "template '%s' no longer exists",
                         trial->template_name);
    if (!spc__ctx_serves(ctx, tpl))
        return spc__fail(spc__error_of(ctx), SPC_EUNSUPPORTED,
                         "template '%s' is for %s", trial->template_name,
                         spc__template_device(tpl));
    status = spc__template_accepts(tpl, &look->problem, &ctx->target,
                                   spc__error_of(ctx));
    if (status == SPC_OK)
        status = spc__template_check(tpl, &look->problem, &ctx->target,
                                     &trial->config, spc__error_of(ctx));
    return status;
}

/* The record has code that this device runs. The key may be that of another
 * device, so the record's target is compared with that of this one. */
static bool same_layer(const spc__look *look, const spc__choice *choice)
{
    return strcmp(choice->key.target, look->ctx->info.target) == 0 &&
           spc__attrs_equal(&choice->key.layer, &look->key.layer);
}

/* A deterministic layer must not use kernels with atomics. */
spc_status spc__look_check_order(const spc__look *look,
                                 const spc__attrs *launch, spc_error *error)
{
    if (look->deterministic && spc__attrs_number(launch, "atomics", 0) != 0)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "its sums depend on the order of arrival");
    return SPC_OK;
}

/* Checks that the library for products is installed. This comes last, since it
 * opens the library, which is slow. */
spc_status spc__look_check_library(const spc__look *look,
                                   const spc__attrs *launch, spc_error *error)
{
    if (spc__attrs_number(launch, "gemm_depth", 0) != 0 &&
        !spc__device_has_gemm(look->ctx->device))
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "no library for products of matrices is present");
    return SPC_OK;
}

/* Uses the record's own code if it can be launched as the record says. */
static spc_status take_recorded(spc__look *look, const spc__trial *trial)
{
    spc_ctx *ctx = look->ctx;
    spc_status status = spc__ctx_recorded(&look->out->code, ctx, &look->problem,
                                          trial, look->flags);

    if (status != SPC_OK)
        return status;
    status = spc__launch_check(&trial->launch, spc__error_of(ctx));
    if (status != SPC_OK)
        spc__log_printf(&ctx->log, SPC_LOG_INFO,
                        "a record of '%s' is damaged, its code is made anew: "
                        "%s",
                        trial->template_name, spc__error_of(ctx)->text);
    return status;
}

/* A stale record was the best configuration of an older template, so it ranks
 * as a nearest record, like one of a neighbouring problem. The time of the
 * forward layer does not apply to the gradient. */
static spc_match origin_of(const spc__look *look, const spc__choice *choice,
                           bool stale)
{
    if (stale || choice->match == SPC__MATCH_NEAREST ||
        is_of_forward(look, choice) || look->device != NULL)
        return SPC_MATCH_NEAREST;
    return choice->match == SPC__MATCH_EXACT ? SPC_MATCH_EXACT
                                             : SPC_MATCH_BUCKET;
}

/* Code does not depend on the scene, so a record of the same layer has code
 * that needs neither Lua nor a compiler. For other records, and if the code is
 * stale or missing, this tries to compile the configuration. */
spc_status spc__look_try_choice(spc__look *look, const spc__choice *choice)
{
    spc_ctx *ctx = look->ctx;
    const spc__trial *trial = &choice->trial;
    spc__code *code = &look->out->code;
    spc_status status = SPC_ENOTFOUND;

    /* Stored code comes first: it needs neither templates nor a compiler. */
    if (same_layer(look, choice))
        status = take_recorded(look, trial);
    /* a damaged record's configuration is not trusted either */
    if (status == SPC_EWRONG)
        spc__cache_refuse(ctx->cache, choice, spc__error_of(ctx)->text);
    else if (status != SPC_OK && (status = permit(look, trial)) == SPC_OK)
        status = spc__ctx_code(code, ctx, trial->template_name, &look->problem,
                               &trial->config, look->flags);
    /* Checked on the launch that was found: the current template may have other
     * attributes than the record's. */
    if (status == SPC_OK)
        status = spc__look_check_order(look, &code->launch, spc__error_of(ctx));
    if (status == SPC_OK)
        status =
            spc__look_check_library(look, &code->launch, spc__error_of(ctx));
    if (status != SPC_OK) {
        refuse(look, choice, spc__error_of(ctx)->text);
        return status;
    }
    bool stale = is_stale(look, trial);
    look->out->origin = origin_of(look, choice, stale);
    look->out->level = level_of(look);
    look->out->is_shipped = is_shipped(look, choice);
    spc__look_set_config(look->out, trial->template_name, &trial->config);
    explain_record(look, choice, stale);
    return SPC_OK;
}

/* True if the kernel would divide its work in another way than it was measured
 * with. Notes this for the reason. */
static bool is_of_other_size(spc__look *look, const spc__choice *choice)
{
    char scene[80];

    if (!spc__is_of_other_size(look->ctx, &look->problem, choice, look->rows))
        return false;
    scene_text(scene, sizeof(scene), &choice->key);
    snprintf(look->refused, sizeof(look->refused),
             "the nearest record is of %s, where '%s' divides its work in "
             "another way",
             scene, choice->trial.template_name);
    return true;
}

/* Distance in octaves of channels between a record's layer and this layer. */
static double channels_apart(const spc__look *look, const spc__choice *choice)
{
    static const char *const channels[] = {"cin", "cout"};
    double apart = 0;

    for (int i = 0; i < 2; i++) {
        double there =
            (double)spc__attrs_number(&choice->key.layer, channels[i], 1);
        double here =
            (double)spc__attrs_number(&look->key.layer, channels[i], 1);
        /* Octaves of both add up: twice as many on each side are 2. */
        apart += fabs(log2(there / here));
    }
    return apart;
}

/* Tile and stage sizes are chosen for a number of channels. With twice as many
 * channels on both sides, the default was faster in every comparison
 * (docs/dev/experiments.md, tuning). */
static bool is_of_far_channels(spc__look *look, const spc__choice *choice)
{
    /* Rounding of the two logarithms must not accept a layer with twice as many
     * channels on both sides. */
    const double far = 2, rounding = 1e-9;
    char layer[200];

    if (channels_apart(look, choice) < far - rounding)
        return false;
    layer_text(layer, sizeof(layer), look, &choice->key.layer);
    snprintf(
        look->refused, sizeof(look->refused),
        "the nearest record is of channels far from these, '%.100s' (distance "
        "%.2f)",
        layer, choice->distance);
    return true;
}

/* Applies only if the default may be used instead. */
bool spc__look_knows_less_than_default(spc__look *look,
                                       const spc__choice *choice)
{
    if (choice->match != SPC__MATCH_NEAREST ||
        look->flags & (SPC_PLAN_CACHED_ONLY | SPC__PLAN_RECORDED))
        return false;
    /* Channels are compared first, as the sizes need two calls of the
     * template. */
    look->default_is_better =
        is_of_far_channels(look, choice) || is_of_other_size(look, choice);
    return look->default_is_better;
}

/* The fastest trial whose template is allowed and has not changed since, or
 * NULL. */
static const spc__trial *best_allowed(spc__look *look, const spc__trial *trials,
                                      int count)
{
    const spc__trial *best = NULL;

    for (int i = 0; i < count; i++) {
        const spc__trial *trial = &trials[i];
        if (trial->status == SPC__TRIAL_OK && trial->verified &&
            trial->samples > 0 &&
            spc__look_is_allowed(look, trial->template_name) &&
            !is_stale(look, trial) &&
            (best == NULL || trial->median_us < best->median_us))
            best = trial;
    }
    return best;
}

/* A choice whose template is not allowed. If it is of this layer, the search
 * has timed other templates too, and the fastest allowed one serves. */
spc_status spc__look_replace_choice(spc__look *look, const spc__choice *choice)
{
    spc__choice *other = malloc(sizeof(*other));
    spc__trial *trials = NULL;
    spc_status status = SPC_ENOTFOUND;
    char why[120];
    int count = 0;

    if (other != NULL && choice->match != SPC__MATCH_NEAREST) {
        spc__cache_trials_of(look->ctx->cache, choice->file, choice->problem,
                             &trials, &count, NULL);
        const spc__trial *best = best_allowed(look, trials, count);
        if (best != NULL) {
            *other = *choice;
            other->trial = *best;
            status = spc__look_try_choice(look, other);
        }
    }
    free(trials);
    free(other);
    if (status != SPC_OK) {
        snprintf(why, sizeof(why),
                 "the template of its record, '%s', is not "
                 "allowed",
                 choice->trial.template_name);
        refuse(look, choice, why);
    }
    return status;
}
