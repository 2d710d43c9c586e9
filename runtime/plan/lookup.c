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
#include "context/related.h"
#include "device/architecture.h"
#include "operators/pass.h"
#include "plan/other_size.h"
#include "plan/plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of records and templates to try before the default. Records farther
 * away are no better than the template author's default. */
enum { MOST_CHOICES = 8, MOST_TEMPLATES = 32 };

typedef struct lookup {
    spc__pick *out;
    spc_ctx *ctx;
    unsigned flags;
    bool deterministic;
    spc__problem_key key;
    /* The forward layer of a gradient, if has_forward. */
    spc__problem_key forward_key;
    bool has_forward;
    const spc__related *device; /* whose records are tried; NULL: the own */
    /* The other devices of the database; -1: not asked for yet. */
    const spc__related *related;
    int related_count;
    bool close_only; /* records of other layers have to wait */
    int refusals;
    spc__attrs problem;
    int64_t rows;      /* output rows; 0: unknown */
    int64_t pairs;     /* pairs of the map; 0: unknown */
    char layer[200];   /* canonical text of the layer, for messages */
    char refused[200]; /* why the first record was refused */
    spc_error unread;  /* the last read error that was reported */
    const char *file;  /* file and row of the last refused record */
    int64_t record;
    bool default_is_better; /* better than the nearest record */
    spc_error fault;        /* status of the first faulty template, or SPC_OK */
} lookup;

/* ---- records of the database --------------------------------------------- */

/* Sets the template and the text of its configuration. */
static void set_config(spc__pick *out, const char *template_name,
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
static void layer_text(char *out, size_t bytes, const lookup *look,
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
static bool is_stale(lookup *look, const spc__trial *trial)
{
    char now[SPC__SHA256_HEX];

    return spc__ctx_template_hash(now, look->ctx, trial->template_name) &&
           strcmp(now, trial->template_hash) != 0;
}

static bool is_shipped(const lookup *look, const spc__choice *choice)
{
    const char *shipped = look->ctx->shipped;

    return shipped != NULL && strcmp(choice->file, shipped) == 0;
}

/* A gradient of inputs is a convolution with exchanged channels, and more
 * records exist for that forward layer. */
static bool is_of_forward(const lookup *look, const spc__choice *choice)
{
    return look->has_forward &&
           strcmp(choice->key.target, look->forward_key.target) == 0 &&
           spc__attrs_equal(&choice->key.layer, &look->forward_key.layer);
}

/* Adds why a nearer record was not used. */
static void add_refusal(lookup *look)
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
static spc_level level_of(const lookup *look)
{
    return look->device != NULL ? look->device->level : SPC_LEVEL_DEVICE;
}

/* How a record matches. Its origin does not tell, as that is "nearest" for all
 * records of other devices. */
static int match_of(const lookup *look, const spc__choice *choice, bool stale)
{
    if (look->out->level == SPC_LEVEL_DEVICE)
        return look->out->origin;
    if (stale || choice->match == SPC__MATCH_NEAREST)
        return SPC_MATCH_NEAREST;
    return choice->match == SPC__MATCH_EXACT ? SPC_MATCH_EXACT
                                             : SPC_MATCH_BUCKET;
}

/* Explains the record that was chosen. */
static void explain_record(lookup *look, const spc__choice *choice, bool stale)
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
static void explain_class(lookup *look, const spc__choice *choice)
{
    look->out->origin = SPC_MATCH_DEFAULT;
    snprintf(look->out->reason, sizeof(look->out->reason),
             "the measured default of its class, %s", choice->reason);
    add_refusal(look);
}

static void note_refusal(lookup *look, const char *why)
{
    if (look->refused[0] == '\0')
        snprintf(look->refused, sizeof(look->refused), "%.199s", why);
}

/* Notes a record that cannot serve, and why. */
static void refuse(lookup *look, const spc__choice *choice, const char *why)
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
static void refuse_unread(lookup *look, const spc_error *why)
{
    if (strcmp(why->text, look->unread.text) == 0)
        return;
    look->unread = *why;
    spc__log_printf(&look->ctx->log, SPC_LOG_WARNING,
                    "the database does not answer fully: %s", why->text);
    note_refusal(look, why->text);
}

static bool was_refused(const lookup *look, const spc__choice *choice)
{
    return choice->file == look->file && choice->problem == look->record;
}

/* Checks that the current template accepts the record's configuration. A record
 * of exactly this problem was checked when it was made. */
static spc_status permit(lookup *look, const spc__trial *trial)
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
static bool same_layer(const lookup *look, const spc__choice *choice)
{
    return strcmp(choice->key.target, look->ctx->info.target) == 0 &&
           spc__attrs_equal(&choice->key.layer, &look->key.layer);
}

/* A deterministic layer must not use kernels with atomics. */
static spc_status check_order(const lookup *look, const spc__attrs *launch,
                              spc_error *error)
{
    if (look->deterministic && spc__attrs_number(launch, "atomics", 0) != 0)
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "its sums depend on the order of arrival");
    return SPC_OK;
}

/* Checks that the library for products is installed. This comes last, since it
 * opens the library, which is slow. */
static spc_status check_library(const lookup *look, const spc__attrs *launch,
                                spc_error *error)
{
    if (spc__attrs_number(launch, "gemm_depth", 0) != 0 &&
        !spc__device_has_gemm(look->ctx->device))
        return spc__fail(error, SPC_EUNSUPPORTED,
                         "no library for products of matrices is present");
    return SPC_OK;
}

/* Uses the record's own code if it can be launched as the record says. */
static spc_status take_recorded(lookup *look, const spc__trial *trial)
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
static spc_match origin_of(const lookup *look, const spc__choice *choice,
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
static spc_status try_choice(lookup *look, const spc__choice *choice)
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
        status = check_order(look, &code->launch, spc__error_of(ctx));
    if (status == SPC_OK)
        status = check_library(look, &code->launch, spc__error_of(ctx));
    if (status != SPC_OK) {
        refuse(look, choice, spc__error_of(ctx)->text);
        return status;
    }
    bool stale = is_stale(look, trial);
    look->out->origin = origin_of(look, choice, stale);
    look->out->level = level_of(look);
    look->out->is_shipped = is_shipped(look, choice);
    set_config(look->out, trial->template_name, &trial->config);
    explain_record(look, choice, stale);
    return SPC_OK;
}

/* True if the kernel would divide its work in another way than it was measured
 * with. Notes this for the reason. */
static bool is_of_other_size(lookup *look, const spc__choice *choice)
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
static double channels_apart(const lookup *look, const spc__choice *choice)
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
static bool is_of_far_channels(lookup *look, const spc__choice *choice)
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
static bool knows_less_than_default(lookup *look, const spc__choice *choice)
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

/* The other devices, asked for only once it is known that no record of this
 * device and layer is close. */
static int related_count(lookup *look)
{
    if (look->related_count < 0)
        look->related_count = spc__ctx_related(&look->related, look->ctx);
    return look->related_count;
}

/* True if a record of another layer has to wait until the close records of
 * other devices were tried. */
static bool waits(lookup *look, const spc__choice *choice)
{
    return look->close_only && choice->match == SPC__MATCH_NEAREST &&
           related_count(look) > 0;
}

/* Tries at most `capacity` records. */
static spc_status try_choices(lookup *look, int capacity)
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
        refuse_unread(look, &error);
    /* Nearest first, so the first record that is too far ends the search. */
    for (int i = 0; i < count && status != SPC_OK; i++)
        if (waits(look, &choices[i]) ||
            knows_less_than_default(look, &choices[i]))
            break;
        else if (!was_refused(look, &choices[i]))
            status = try_choice(look, &choices[i]);
    free(choices);
    return status;
}

/* The measured default of the layer's class, if a pack has one. */
static spc_status try_class(lookup *look)
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
    if (found)
        status = try_choice(look, choice);
    if (status == SPC_OK)
        explain_class(look, choice);
    free(choice);
    return status;
}

/* An exact hit is one fast query; only other layers need a scan. */
static spc_status try_device(lookup *look)
{
    int refusals = look->refusals;

    look->default_is_better = false;
    if (try_choices(look, 1) == SPC_OK)
        return SPC_OK;
    /* Without a refusal the best record waits, and so do all others. */
    if (look->close_only && look->refusals == refusals &&
        related_count(look) > 0)
        return SPC_ENOTFOUND;
    return try_choices(look, MOST_CHOICES * spc__cache_files(look->ctx->cache));
}

/* Makes the keys those of another device; NULL: of this one. */
static void set_device(lookup *look, const spc__related *device)
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

static bool knows_best_template(lookup *look);

/* A device of another architecture gives only its best record. If that needs
 * instructions or memory that this device lacks, the next ones were slower
 * there for reasons that do not hold here. */
static spc_status try_facts(lookup *look)
{
    return knows_best_template(look) ? try_choices(look, 1) : SPC_ENOTFOUND;
}

/* Tries the other devices of one level, the nearest first. */
static spc_status try_related(lookup *look, spc_level level,
                              spc_status (*try)(lookup *look))
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

static spc_status try_all_devices(lookup *look)
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

static spc_status from_database(lookup *look)
{
    if (look->ctx->cache == NULL || look->flags & SPC_PLAN_ESTIMATE)
        return SPC_ENOTFOUND;
    return try_all_devices(look);
}

/* ---- defaults ------------------------------------------------------------ */

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
static spc_status question(fallback *out, lookup *look, spc__template *tpl,
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
    if ((status = check_order(look, &launch, error)) != SPC_OK)
        return spc__fail_prefix(error, "'%s': ", spc__template_name(tpl));
    out->preference = spc__attrs_number(&launch, "preference", 0);
    return SPC_OK;
}

/* Collects the templates that accept the problem, best first. `why` collects
 * the reasons of the others. */
static int collect(fallback *out, lookup *look, spc__library *library,
                   spc__buf *why)
{
    const char *role = spc__problem_role(&look->problem);
    spc_error error = {0};
    int count = 0;

    for (int i = 0; i < spc__library_count(library); i++) {
        spc__template *tpl = spc__library_at(library, i);
        if (strcmp(spc__template_role(tpl), role) != 0 ||
            !spc__ctx_serves(look->ctx, tpl) || count == MOST_TEMPLATES)
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
static bool knows_best_template(lookup *look)
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
static void note_set_aside(lookup *look)
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
static void explain_default(lookup *look, const char *template_name)
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
static spc_status try_defaults(lookup *look, const fallback *all, int count)
{
    spc_ctx *ctx = look->ctx;
    spc_status status = SPC_ENOTFOUND;

    for (int i = 0; i < count; i++) {
        const char *name = spc__template_name(all[i].tpl);
        status = spc__ctx_code(&look->out->code, ctx, name, &look->problem,
                               &all[i].config, look->flags);
        if (status == SPC_OK)
            status = check_library(look, &look->out->code.launch,
                                   spc__error_of(ctx));
        if (status == SPC_OK) {
            look->out->origin = SPC_MATCH_DEFAULT;
            look->out->level = SPC_LEVEL_DEFAULT;
            set_config(look->out, name, &all[i].config);
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
static spc_status try_stored_defaults(lookup *look)
{
    char name[SPC__TEMPLATE_NAME];
    int64_t best = INT64_MIN;
    spc_status status = SPC_ENOTFOUND;

    for (int i = 0; spc__builtin_template_name(name, i); i++) {
        spc__code code = {0};
        spc__attrs config = {0};
        if (spc__ctx_stored_code(&code, &config, look->ctx, name,
                                 &look->problem, look->flags) != SPC_OK ||
            check_order(look, &code.launch, NULL) != SPC_OK ||
            check_library(look, &code.launch, NULL) != SPC_OK)
            continue;
        int64_t preference = spc__attrs_number(&code.launch, "preference", 0);
        /* Ties go to the first name, which is a fixed order. */
        if (preference <= best)
            continue;
        best = preference;
        look->out->code = code;
        look->out->origin = SPC_MATCH_DEFAULT;
        look->out->level = SPC_LEVEL_DEFAULT;
        set_config(look->out, name, &config);
        explain_default(look, name);
        status = SPC_OK;
    }
    return status;
}

/* Runs code that another library stored, since this one has no templates. */
static spc_status from_stored_defaults(lookup *look)
{
    if (try_stored_defaults(look) == SPC_OK)
        return SPC_OK;
    return spc__fail(spc__error_of(look->ctx), SPC_ENOTFOUND,
                     "no compiled code for '%s' on %s (%s) in the database, "
                     "and this libspc has no compiler: tune the layer, or run "
                     "it, with one that has",
                     look->layer, look->ctx->info.name, look->ctx->info.target);
}

/* Tries the templates, best first, with their default configurations. */
static spc_status from_defaults(lookup *look)
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
        status = spc__fail(spc__error_of(ctx), SPC_EUNSUPPORTED,
                           "no template serves '%s' on %s: %s", look->layer,
                           ctx->info.id,
                           why.length > 0 ? spc__buf_text(&why)
                                          : "there is none for this device");
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

/* ---- records alone ------------------------------------------------------- */

/* Without a compiler only stored code can be used, and a record of this problem
 * nearly always names it. Asking and rendering all templates takes tens of
 * milliseconds, so that is done only if no record has code. */
static spc_status from_records(lookup *look)
{
    spc_status status;

    if (!(look->flags & SPC_PLAN_CACHED_ONLY) ||
        look->flags & SPC_PLAN_ESTIMATE || look->ctx->cache == NULL)
        return SPC_ENOTFOUND;
    /* Set only for this pass: afterwards, the normal order may compile or ask
     * templates. */
    look->flags |= SPC__PLAN_RECORDED;
    status = from_database(look);
    /* With templates of the caller, stored code of a built-in one may be the
     * wrong kernel. */
    if (status != SPC_OK && look->ctx->template_dir == NULL)
        status = try_stored_defaults(look);
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
static void find_forward(lookup *look, const spc_conv *conv, int64_t rows_in,
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

spc_status spc__lookup(spc__pick *out, spc_ctx *ctx, const spc_conv *conv,
                       int64_t rows_in, int64_t rows_out, double density,
                       unsigned flags)
{
    lookup look = {
        .out = out,
        .ctx = ctx,
        .flags = flags,
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
        status = from_defaults(&look);
    if (status == SPC_OK) {
        count(&ctx->stats, out->origin);
        spc__make_printable(out->reason); /* the reason quotes text from
                                           * records */
    }
    return status;
}

spc_status spc__lookup_default(spc__pick *out, spc_ctx *ctx,
                               const spc_conv *conv, int64_t rows, int n)
{
    lookup look = {.out = out,
                   .ctx = ctx,
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
        set_config(out, spc__template_name(all[n].tpl), &all[n].config);
    spc__buf_release(&why);
    free(all);
    return status;
}
