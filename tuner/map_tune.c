/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map_tune.c - spc_tune_map: finds the fastest configuration that builds a
 * layer's map.
 *
 * The space is small and every candidate makes the same map, so the search is a
 * simple loop, with one map for each scene. Each candidate searches it, its
 * entries are compared with the relation that the oracle finds by hashing, and
 * it is timed. All this runs in the caller's process, as users do not write
 * these kernels.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/sized.h"
#include "compiler/space.h"
#include "coords/map_choice.h"
#include "lab/oracle/relation.h"
#include "spc/tune.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 31 };
/* limit for the samples of a candidate on a scene */
static const double limit_s = 1;

typedef struct run {
    spc_ctx *ctx;
    const spc_conv *conv;
    const spc_scene *const *scenes;
    int scene_count;
    const spc_tune_options *options;
    spc_tune_report *report;
    spc_error *error;
    spc__space *space;
    spc_map **maps; /* [scene_count] */
    spc__problem_key key;
    spc__trial best;
} run;

static bool is_inverse(const run *r)
{
    return spc__conv_is_inverse(r->conv);
}

/* ---- one candidate on one scene ------------------------------------------ */

/*
 * Searches as a frame does: a submanifold map together with its set, other maps
 * alone.
 */
static spc_status search(void *payload, void *stream)
{
    spc_map *map = payload;

    if (spc__map_is_subm(map))
        return spc__map_rebuild(map, spc__map_coords(map),
                                spc_map_rows_out(map), true, stream);
    return spc_map_update(map, NULL, NULL, 0, stream);
}

/* Overwrites the map, so that an earlier result cannot look like a new one. */
static spc_status poison(const run *r, const spc_map *map)
{
    size_t words = (size_t)map->to->rows_padded * (size_t)map->mask_words;

    return spc__device_ops_of(r->ctx->device)
        ->fill(r->ctx->device, map->plain.mask, 0x5a, 4 * words, NULL,
               r->error);
}

/* Compares the row of each offset separately: rows are `capacity` entries apart
 * on the device, and packed in the oracle's relation. */
static bool is_relation(const int32_t *index, const spc_map *map,
                        const spc_relation *want)
{
    size_t rows = (size_t)want->rows_out;
    size_t capacity = (size_t)spc_coords_capacity(spc_map_out(map));

    if (spc_map_rows_out(map) != want->rows_out ||
        spc_map_pairs(map) != want->pairs)
        return false;
    for (size_t k = 0; k < (size_t)want->offsets; k++)
        if (memcmp(index + k * capacity, want->index + k * rows, 4 * rows) != 0)
            return false;
    return true;
}

/* Returns SPC_EWRONG unless the map equals the layer's relation. */
static spc_status compare(const run *r, const spc_map *map,
                          const spc_scene *scene)
{
    size_t capacity = (size_t)spc_coords_capacity(spc_map_out(map));
    size_t bytes = 4 * (size_t)map->offsets * (capacity + 1);
    int32_t *index = malloc(bytes);
    spc__relation want = {0};
    spc_status status =
        index ? spc__relation_init(&want, r->conv, scene, r->ctx->threads,
                                   r->ctx->cancel, r->error)
              : spc__fail_memory(r->error, bytes);

    if (status == SPC_OK)
        status = spc_map_download(index, map);
    if (status == SPC_OK && !is_relation(index, map, &want))
        status = spc__fail(r->error, SPC_EWRONG,
                           "the map of scene '%.60s' is not the relation",
                           spc_scene_name(scene));
    spc__relation_release(&want);
    free(index);
    return status;
}

/* Searches the map once, and compares it with the oracle's relation. */
static spc_status verify(const run *r, spc_map *map, const spc_scene *scene)
{
    spc_status status = poison(r, map);

    if (status == SPC_OK)
        status = search(map, NULL);
    if (status == SPC_OK)
        status = spc_map_check(map, NULL);
    return status == SPC_OK ? compare(r, map, scene) : status;
}

/* Times the search of one map; keeps the largest spread of all scenes. */
static spc_status measure(const run *r, spc_map *map, spc__trial *trial,
                          double *median)
{
    spc__measure what = {search, map, SAMPLES, limit_s, false, NULL};
    double samples[SAMPLES];
    int taken = SAMPLES;
    spc_status status =
        spc__device_ops_of(r->ctx->device)
            ->measure(r->ctx->device, &what, samples, &taken, r->error);

    if (status != SPC_OK)
        return status;
    *median = spc__median(samples, taken);
    trial->samples = taken;
    trial->spread_us = fmax(trial->spread_us, spc__half_iqr(samples, taken));
    return SPC_OK;
}

/* ---- one candidate ------------------------------------------------------- */

/* Reports a candidate as spc_tune() does. */
static void report_trial(const run *r, const spc__trial *trial, bool is_default)
{
    spc__buf config = SPC__BUF_INIT;

    spc__attrs_format(&config, &trial->config);
    spc_trial out = {
        .template_name = trial->template_name,
        .config = spc__buf_text(&config),
        .status = spc__trial_status_name(trial->status),
        .note = trial->note,
        .is_default = is_default,
        .verified = trial->verified,
        .median_us = trial->median_us,
        .spread_us = trial->spread_us,
        .samples = trial->samples,
    };
    if (r->options->on_trial != NULL)
        r->options->on_trial(&out, r->options->payload);
    spc__buf_release(&config);
}

/* The median is the geometric mean over the scenes. */
static spc_status try_scenes(const run *r, spc__trial *trial)
{
    double sum = 0, median = 0;
    spc_status status = SPC_OK;

    for (int i = 0; i < r->scene_count && status == SPC_OK; i++) {
        spc_map *map = r->maps[i];
        if ((status = spc__map_configure(map, &trial->config, r->error)) ==
                SPC_OK &&
            (status = verify(r, map, r->scenes[i])) == SPC_OK &&
            (status = measure(r, map, trial, &median)) == SPC_OK)
            sum += log(median);
    }
    if (status == SPC_OK)
        trial->median_us = exp(sum / r->scene_count);
    return status;
}

/* Returns the verdict that the database stores. */
static spc__trial_status fate_of(spc_status status)
{
    return status == SPC_OK         ? SPC__TRIAL_OK
           : status == SPC_EWRONG   ? SPC__TRIAL_WRONG
           : status == SPC_ECOMPILE ? SPC__TRIAL_COMPILE
                                    : SPC__TRIAL_FAULT;
}

/* Counts a trial, and keeps it if it is the fastest so far. */
static void count(run *r, const spc__trial *trial, bool is_default)
{
    spc_tune_report *report = r->report;
    bool ok = trial->status == SPC__TRIAL_OK;

    report->verified += ok;
    report->timed += ok;
    report->failed += !ok;
    if (ok && is_default)
        report->default_us = trial->median_us;
    if (ok && (r->best.median_us == 0 || trial->median_us < r->best.median_us))
        r->best = *trial;
}

/*
 * A candidate that is wrong or does not compile loses. A failure of the device
 * or of the run ends the loop.
 */
static spc_status try_candidate(run *r, const spc__candidate *candidate)
{
    spc__trial trial = {.config = candidate->config};
    spc__provenance provenance;
    spc_status status = spc__ctx_check_cancel(r->ctx);

    if (status != SPC_OK)
        return status;
    snprintf(trial.template_name, sizeof trial.template_name, "%s",
             spc__template_name(candidate->tpl));
    snprintf(trial.template_hash, sizeof trial.template_hash, "%s",
             spc__template_hash(candidate->tpl));
    status = try_scenes(r, &trial);
    trial.status = fate_of(status);
    trial.verified = status == SPC_OK;
    if (status != SPC_OK)
        snprintf(trial.note, sizeof trial.note, "%.191s", r->error->text);
    count(r, &trial, candidate->is_default);
    report_trial(r, &trial, candidate->is_default);
    if (status != SPC_OK && status != SPC_EWRONG && status != SPC_ECOMPILE)
        return status;
    if (r->ctx->cache == NULL)
        return SPC_OK;
    spc__ctx_provenance(&provenance, r->ctx);
    snprintf(provenance.scenes, sizeof provenance.scenes, "%s",
             spc_scene_name(r->scenes[0]));
    return spc__cache_put_trial(r->ctx->cache, &r->key, &trial, &provenance,
                                r->error);
}

/* ---- the run ------------------------------------------------------------- */

/* Finds the space, and makes a map for each scene. */
static spc_status open_run(run *r)
{
    spc__library *library;
    spc__attrs problem;
    spc_status status;

    if (r->scene_count < 1)
        return spc__fail(r->error, SPC_EINVAL, "no scene was given");
    if (spc__conv_has_triplets(r->conv))
        return spc__fail(r->error, SPC_EUNSUPPORTED,
                         "maps of points are searched in one way: there is "
                         "nothing to choose");
    spc__map_attrs(&problem, &r->conv->geometry, is_inverse(r));
    spc__map_key(&r->key, r->ctx, &r->conv->geometry, is_inverse(r));
    if ((status = spc__ctx_library(&library, r->ctx)) != SPC_OK ||
        (status = spc__space_create(&r->space, library, "map", "index",
                                    &problem, &r->ctx->target, r->error)) !=
            SPC_OK)
        return status;
    if (!(r->maps = calloc((size_t)r->scene_count, sizeof(spc_map *))))
        return spc__fail_memory(r->error, sizeof(spc_map *));
    for (int i = 0; i < r->scene_count && status == SPC_OK; i++)
        status = spc_map_create_from_scene(&r->maps[i], r->ctx, r->conv,
                                           r->scenes[i]);
    return status;
}

static void close_run(run *r)
{
    for (int i = 0; r->maps && i < r->scene_count; i++)
        spc_map_free(r->maps[i]);
    free(r->maps);
    spc__space_free(r->space);
}

static spc_status store_winner(run *r)
{
    spc__provenance provenance;

    spc__ctx_provenance(&provenance, r->ctx);
    return spc__cache_put_choice(r->ctx->cache, &r->key, &r->best,
                                 "least time on all scenes", &provenance,
                                 r->error);
}

static void name_winner(run *r)
{
    spc__buf config = SPC__BUF_INIT;

    spc__attrs_format(&config, &r->best.config);
    snprintf(r->report->winner, sizeof r->report->winner, "%s %s",
             r->best.template_name, spc__buf_text(&config));
    r->report->winner_us = r->best.median_us;
    spc__buf_release(&config);
}

/* Tries every admitted candidate. The space is small enough for that. */
static spc_status try_all(run *r)
{
    spc_status status = SPC_OK;

    r->report->candidates = r->space->admitted;
    r->report->refused = r->space->count - r->space->admitted;
    for (int i = 0; i < r->space->count && status == SPC_OK; i++)
        if (r->space->candidates[i].admitted)
            status = try_candidate(r, &r->space->candidates[i]);
    if (status != SPC_OK)
        return status;
    if (r->best.median_us == 0)
        return r->error->status; /* the failure of the last candidate */
    name_winner(r);
    return r->ctx->cache != NULL ? store_winner(r) : SPC_OK;
}

spc_status spc_tune_map(spc_tune_report *report, spc_ctx *ctx,
                        const spc_conv *conv, const spc_scene *const *scenes,
                        int scene_count, const spc_tune_options *options)
{
    const spc_tune_options usual = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report unwanted;
    int64_t begun = spc__now_ns(), compiled;
    spc_status status =
        spc__need(ctx ? spc__error_of(ctx) : NULL, __func__, "ctx", ctx, "conv",
                  conv, "scenes", scenes, NULL);

    if (status != SPC_OK ||
        (status = SPC__TAKE(spc_tune_options, options, spc__error_of(ctx))) !=
            SPC_OK ||
        (status = spc_conv_check(conv, spc__error_of(ctx))) != SPC_OK)
        return status;
    report = report ? report : &unwanted;
    memset(report, 0, sizeof *report);
    run r = {.ctx = ctx,
             .conv = conv,
             .scenes = scenes,
             .scene_count = scene_count,
             .options = options ? options : &usual,
             .report = report,
             .error = spc__error_of(ctx)};
    /* The context compiles the kernels of maps and counts all compilations; the
     * difference belongs to this run. */
    compiled = ctx->stats.compiles;
    if ((status = open_run(&r)) == SPC_OK)
        status = try_all(&r);
    close_run(&r);
    report->compiled = (int)(ctx->stats.compiles - compiled);
    report->elapsed_s = (double)(spc__now_ns() - begun) * 1e-9;
    return status;
}
