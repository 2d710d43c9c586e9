/*
 * tune.c - a tuning run from its arguments to its report.
 *
 * The stages of spc.h one after the other; what they do is in build.c, record.c
 * and search.c.
 */
#include "run.h"

#include "cancel.h"
#include "clock.h"
#include "error.h"
#include "map_builder.h"
#include "oracle.h"
#include "spc_abi.h"
#include "targets.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double default_limit_s = 10;

/* ---- telling the caller -------------------------------------------------- */

int spc__run_batch(const spc__run *run, int left)
{
    int batch = (run->measures == 0 ? 2 : 8) * run->ctx->threads;

    return left < batch ? left : batch;
}

bool spc__run_cancelled(const spc__run *run)
{
    return spc__cancelled(run->ctx->cancel);
}

/* Seconds left for what is known to be left; below zero: not known yet. */
static double time_left(const spc__run *run)
{
    double left = 0;

    if (run->builds > 0)
        left += (run->to_build - run->built) * run->build_s / run->builds;
    if (run->options.stage == SPC_STAGE_BUILD)
        return run->builds > 0 ? left : -1;
    if (run->measures == 0)
        return -1;
    double each = (run->build_s + run->measure_s) / run->measures;
    return (run->to_measure - run->measured) * each;
}

void spc__run_progress(spc__run *run, spc_stage stage, int done, int total)
{
    char best[256];
    spc_progress progress = {
        .stage = stage,
        .done = done,
        .total = total,
        .elapsed_s = (double)(spc__now_ns() - run->started_ns) * 1e-9,
        .left_s = time_left(run),
    };

    if (run->options.on_progress == NULL)
        return;
    if (run->best != NULL && run->best->reach == SPC__TIMED) {
        snprintf(best, sizeof(best), "%s %s", run->best->trial.template_name,
                 run->best->config);
        progress.best = best;
        progress.best_us = spc__entry_score(run, run->best);
    }
    run->options.on_progress(&progress, run->options.payload);
}

static void fill_timing(spc_trial *out, const spc__run *run,
                        const spc__entry *entry)
{
    double cold = 0;

    out->median_us = spc__entry_score(run, entry);
    out->samples = entry->timings[0].count;
    for (int s = 0; s < run->scene_count; s++) {
        const spc__timing *timing = &entry->timings[s];
        out->spread_us =
            fmax(out->spread_us, timing->spread_us / timing->median_us);
        cold += timing->cold_us > 0 ? log(timing->cold_us) : -INFINITY;
        if (timing->count < out->samples)
            out->samples = timing->count;
    }
    out->spread_us *= out->median_us;
    out->cold_us = exp(cold / run->scene_count);
}

void spc__run_tell(spc__run *run, const spc__entry *entry)
{
    const spc__attrs *resources = &entry->trial.resources;
    spc_trial trial = {
        .template_name = entry->trial.template_name,
        .config = entry->config,
        .status = spc__trial_status_name(entry->trial.status),
        .note = entry->trial.note,
        .is_default = entry->candidate->is_default,
        .from_database = entry->known,
        .verified = entry->trial.verified,
        .error = entry->trial.error,
        .registers = (int)spc__attrs_number(resources, "registers", 0),
        .spill_bytes = (int)spc__attrs_number(resources, "spill_bytes", 0),
        .shared_bytes =
            (int)(spc__attrs_number(&entry->trial.launch, "shared", 0) +
                  spc__attrs_number(resources, "static_shared_bytes", 0)),
        .compile_ms = entry->trial.compile_ms,
    };

    if (run->options.on_trial == NULL)
        return;
    if (entry->reach == SPC__TIMED)
        fill_timing(&trial, run, entry);
    run->options.on_trial(&trial, run->options.payload);
}

/* ---- the space ----------------------------------------------------------- */

/* Is it what the context's own compiler compiles for? The emulation's is not:
 * it only says which GPU it takes the part of. */
static bool is_native(const spc_ctx *ctx, const char *target)
{
    return target == NULL ||
           (strcmp(target, ctx->info.target) == 0 &&
            strcmp(spc__attrs_text(&ctx->target, "device", ""), "sim") != 0);
}

static spc_status find_target(spc__attrs *out, spc_ctx *ctx, const char *target)
{
    if (is_native(ctx, target)) {
        *out = ctx->target;
        return SPC_OK;
    }
    return spc__target_facts(out, target, spc__error_of(ctx));
}

static spc_status open_space(spc__run *run)
{
    spc_ctx *ctx = run->ctx;
    spc_status status;

    spc__conv_attrs(&run->problem, run->conv);
    if ((status = spc_conv_check(run->conv, run->error)) != SPC_OK ||
        (status = find_target(&run->target, ctx, run->options.target)) !=
            SPC_OK ||
        (status = spc__ctx_library(&run->library, ctx)) != SPC_OK)
        return status;
    return spc__space_create(&run->space, run->library, "conv",
                             run->options.only, &run->problem, &run->target,
                             run->error);
}

/* What no template's constraints know: a layer that must give the same sums
 * always takes no atomics, and the rows of a map are padded to a multiple of
 * SPC_ROW_PAD, which tiles must divide for every number of rows. */
static const char *refuse(const spc__run *run, const spc__attrs *launch)
{
    int64_t tile_rows = spc__attrs_number(launch, "tile_rows", 1);

    if (run->conv->deterministic &&
        spc__attrs_number(launch, "atomics", 0) != 0)
        return "its sums depend on the order of arrival";
    if (tile_rows < 1 || SPC_ROW_PAD % tile_rows != 0)
        return "the rows of a tile do not divide the padding of a map";
    return NULL;
}

static void refuse_more(spc__run *run)
{
    for (int i = 0; i < run->space->count; i++) {
        spc__candidate *candidate = &run->space->candidates[i];
        const char *why =
            candidate->admitted ? refuse(run, &candidate->launch) : NULL;
        if (why == NULL)
            continue;
        candidate->admitted = false;
        run->space->admitted--;
        snprintf(candidate->why, sizeof(candidate->why), "%s", why);
    }
}

static spc_status init_entry(spc__run *run, spc__entry *entry,
                             const spc__candidate *candidate)
{
    spc__buf config = SPC__BUF_INIT;
    spc__trial *trial = &entry->trial;

    spc__attrs_format(&config, &candidate->config);
    entry->config = spc__buf_detach(&config);
    if (entry->config == NULL && (entry->config = strdup("")) == NULL)
        return spc__fail_memory(run->error, 1);
    entry->candidate = candidate;
    snprintf(trial->template_name, sizeof(trial->template_name), "%s",
             spc__template_name(candidate->tpl));
    snprintf(trial->template_hash, sizeof(trial->template_hash), "%s",
             spc__template_hash(candidate->tpl));
    trial->config = candidate->config;
    trial->launch = candidate->launch;
    return SPC_OK;
}

static int by_config(const void *a, const void *b)
{
    const spc__entry *one = *(spc__entry *const *)a;
    const spc__entry *two = *(spc__entry *const *)b;
    int order = strcmp(one->trial.template_name, two->trial.template_name);

    return order != 0 ? order : strcmp(one->config, two->config);
}

static spc_status make_entries(spc__run *run)
{
    size_t count = (size_t)run->space->admitted;
    spc_status status = SPC_OK;

    run->entries = calloc(count + 1, sizeof(*run->entries));
    run->by_config = calloc(count + 1, sizeof(*run->by_config));
    if (run->entries == NULL || run->by_config == NULL)
        return spc__fail_memory(run->error, count * sizeof(*run->entries));
    for (int i = 0; i < run->space->count && status == SPC_OK; i++) {
        const spc__candidate *candidate = &run->space->candidates[i];
        if (!candidate->admitted)
            continue;
        spc__entry *entry = &run->entries[run->count];
        run->by_config[run->count++] = entry;
        status = init_entry(run, entry, candidate);
    }
    if (status == SPC_OK)
        qsort(run->by_config, (size_t)run->count, sizeof(*run->by_config),
              by_config);
    return status;
}

static void tell_refused(spc__run *run, const char *template_name,
                         const char *config, spc__trial_status status,
                         const char *why)
{
    spc_trial trial = {.template_name = template_name,
                       .config = config,
                       .status = spc__trial_status_name(status),
                       .note = why};

    if (run->options.on_trial != NULL)
        run->options.on_trial(&trial, run->options.payload);
}

static void tell_template(spc__run *run, const struct spc__refusal *refusal)
{
    tell_refused(run, refusal->template_name, "",
                 refusal->is_mistake ? SPC__TRIAL_TEMPLATE
                                     : SPC__TRIAL_CONSTRAINT,
                 refusal->why);
}

/* Others serve without them, but whoever wrote them wants to know. */
static void tell_mistakes(spc__run *run)
{
    const spc__space *space = run->space;

    for (int i = 0; i < space->refusal_count; i++)
        if (space->refusals[i].is_mistake)
            tell_template(run, &space->refusals[i]);
}

/* Every candidate in the order of the space, then whole templates. */
static void list_space(spc__run *run)
{
    const spc__space *space = run->space;
    spc__buf config = SPC__BUF_INIT;
    int admitted = 0;

    for (int i = 0; i < space->count; i++) {
        const spc__candidate *candidate = &space->candidates[i];
        if (candidate->admitted) {
            spc__run_tell(run, &run->entries[admitted++]);
            continue;
        }
        spc__buf_clear(&config);
        spc__attrs_format(&config, &candidate->config);
        tell_refused(run, spc__template_name(candidate->tpl),
                     spc__buf_text(&config), SPC__TRIAL_CONSTRAINT,
                     candidate->why);
    }
    for (int i = 0; i < space->refusal_count; i++)
        tell_template(run, &space->refusals[i]);
    spc__buf_release(&config);
}

/* ---- stages that measure no time ----------------------------------------- */

static spc_status build_batch(spc__run *run, spc__entry **list, int count)
{
    spc_status status = spc__run_build(run, list, count);

    for (int i = 0; i < count && status == SPC_OK; i++) {
        if (run->options.stage == SPC_STAGE_VERIFY) {
            status = spc__run_verify(run, &list[i], 1);
            if (status == SPC_OK && list[i]->reach == SPC__VERIFIED)
                status = spc__runner_unload(
                    run->runner, (int)(list[i] - run->entries), run->error);
        }
        if (status != SPC_OK)
            break;
        run->measured++;
        run->measures++;
        spc__run_progress(run, run->options.stage, run->measured,
                          run->to_measure);
        spc__run_tell(run, list[i]);
    }
    return status;
}

/* Builds, and with SPC_STAGE_VERIFY verifies, the candidates of the effort. */
static spc_status build_all(spc__run *run)
{
    spc__entry **list = spc__run_seeds(run, &run->to_measure);
    int count = run->to_measure, batch;
    spc_status status = SPC_OK;

    if (list == NULL)
        return spc__fail_memory(run->error, sizeof(*list));
    for (int i = 0; i < count && status == SPC_OK; i += batch) {
        batch = spc__run_batch(run, count - i);
        status = build_batch(run, list + i, batch);
    }
    free(list);
    return status;
}

/* ---- scenes -------------------------------------------------------------- */

static spc_status check_scenes(const spc__run *run)
{
    if (run->scene_count < 0 || run->scene_count > SPC__SCENES_MAX ||
        (run->scene_count == 0 && run->options.stage >= SPC_STAGE_VERIFY))
        return spc__fail(run->error, SPC_EINVAL,
                         "%d sample scenes: 1 to %d are right",
                         run->scene_count, SPC__SCENES_MAX);
    for (int s = 0; s < run->scene_count; s++)
        if (run->scenes == NULL || run->scenes[s] == NULL)
            return spc__fail(run->error, SPC_EINVAL,
                             "sample scene %d of %d is NULL", s + 1,
                             run->scene_count);
    if (run->options.stage < SPC_STAGE_VERIFY)
        return SPC_OK;
    if (run->options.target != NULL)
        return spc__fail(run->error, SPC_EINVAL,
                         "a layer can be built for '%s', but not measured "
                         "without that device",
                         run->options.target);
    for (int s = 0; s < run->scene_count; s++)
        if (spc_scene_rows(run->scenes[s]) < 1)
            return spc__fail(run->error, SPC_EINVAL,
                             "scene '%s' has no voxels: there is nothing to "
                             "measure",
                             spc_scene_name(run->scenes[s]));
    return SPC_OK;
}

/* Do the coordinates fit the keys of a map? Told before anything is compiled.
 */
static spc_status check_keys(const spc__run *run)
{
    spc__key_layout key;
    int32_t low[4], high[4];

    for (int s = 0; s < run->scene_count; s++) {
        const spc_scene *scene = run->scenes[s];
        spc__coords_extent(low, high, spc_scene_coords(scene),
                           spc_scene_rows(scene));
        if (spc__key_layout_choose(&key, run->conv, low, high, run->error) !=
            SPC_OK)
            return spc__fail_prefix(run->error,
                                    "scene '%s': ", spc_scene_name(scene));
    }
    return SPC_OK;
}

static spc_status place_scene(spc__run *run, int s)
{
    int64_t rows = spc_scene_rows(run->scenes[s]);
    int64_t entries = rows * spc__conv_offsets(run->conv), pairs = 0;
    spc_status status;

    if ((run->index[s] = malloc((size_t)entries * sizeof(int32_t))) == NULL)
        return spc__fail_memory(run->error, (size_t)entries * 4);
    if ((status = spc__oracle_map(run->index[s], run->conv, run->scenes[s],
                                  run->ctx->threads, run->ctx->cancel,
                                  run->error)) != SPC_OK)
        return status;
    for (int64_t i = 0; i < entries; i++)
        pairs += run->index[s][i] >= 0;
    spc__conv_key(&run->places[s].key, run->ctx, run->conv, rows,
                  (double)pairs / (double)entries);
    return SPC_OK;
}

static void note_scenes(spc__run *run)
{
    char *to = run->provenance.scenes;
    size_t room = sizeof(run->provenance.scenes);

    for (int s = 0; s < run->scene_count && room > 1; s++) {
        int used = snprintf(to, room, "%s%s", s > 0 ? " " : "",
                            spc_scene_name(run->scenes[s]));
        if (used < 0 || (size_t)used >= room)
            break;
        to += used;
        room -= (size_t)used;
    }
}

static spc_status place_scenes(spc__run *run)
{
    spc_status status = SPC_OK;

    for (int s = 0; s < run->scene_count && status == SPC_OK; s++)
        status = place_scene(run, s);
    return status;
}

/* ---- the run ------------------------------------------------------------- */

static void count_failures(spc__run *run)
{
    spc_tune_report *report = run->report;

    if (run->space == NULL)
        return;
    report->candidates = run->space->admitted;
    report->refused = run->space->count - run->space->admitted;
    for (int i = 0; i < run->space->refusal_count; i++)
        report->failed += run->space->refusals[i].is_mistake;
    for (int i = 0; i < run->count; i++) {
        if (run->entries[i].reach != SPC__FAILED)
            continue;
        if (run->entries[i].trial.status == SPC__TRIAL_CONSTRAINT)
            report->refused++;
        else
            report->failed++;
    }
}

static void tell_all(spc__run *run)
{
    for (int i = 0; i < run->count; i++)
        if (run->entries[i].reach == SPC__TIMED ||
            run->entries[i].reach == SPC__FAILED)
            spc__run_tell(run, &run->entries[i]);
}

static spc_status check_options(const spc__run *run)
{
    const spc_tune_options *options = &run->options;
    const char *const *worker = options->worker;

    if (run->conv == NULL)
        return spc__fail(run->error, SPC_EINVAL, "the layer to tune is NULL");
    if ((unsigned)options->stage > SPC_STAGE_TIME)
        return spc__fail(run->error, SPC_EINVAL,
                         "stage %d: SPC_STAGE_LIST (%d) to SPC_STAGE_TIME (%d) "
                         "are right",
                         (int)options->stage, SPC_STAGE_LIST, SPC_STAGE_TIME);
    if ((unsigned)options->effort > SPC_EFFORT_EXHAUSTIVE)
        return spc__fail(run->error, SPC_EINVAL,
                         "effort %d: SPC_EFFORT_QUICK (%d) to "
                         "SPC_EFFORT_EXHAUSTIVE (%d) are right",
                         (int)options->effort, SPC_EFFORT_QUICK,
                         SPC_EFFORT_EXHAUSTIVE);
    if (!(options->limit_s >= 0))
        return spc__fail(run->error, SPC_EINVAL,
                         "a limit of %g s: a time from 0 on is right (0: %g s)",
                         options->limit_s, default_limit_s);
    if (worker != NULL && (worker[0] == NULL || worker[0][0] == '\0'))
        return spc__fail(run->error, SPC_EINVAL,
                         "the worker's arguments begin with no program's name");
    return SPC_OK;
}

static spc_status go(spc__run *run)
{
    spc_status status;

    if ((status = check_options(run)) != SPC_OK ||
        (status = check_scenes(run)) != SPC_OK ||
        (status = open_space(run)) != SPC_OK ||
        (status = check_keys(run)) != SPC_OK)
        return status;
    refuse_more(run);
    if (run->space->admitted == 0)
        return spc__fail(run->error, SPC_EUNSUPPORTED,
                         "no candidate is left: '%s' is refused because %s",
                         spc__template_name(run->space->candidates[0].tpl),
                         run->space->candidates[0].why);
    if ((status = make_entries(run)) != SPC_OK)
        return status;
    if (run->options.stage == SPC_STAGE_LIST) {
        list_space(run);
        return SPC_OK;
    }
    tell_mistakes(run);
    spc__ctx_provenance(&run->provenance, run->ctx);
    run->provenance.seed = run->options.seed;
    if (run->options.stage == SPC_STAGE_BUILD)
        return build_all(run);
    note_scenes(run);
    if ((status = place_scenes(run)) != SPC_OK)
        return status;
    if (run->options.stage == SPC_STAGE_VERIFY)
        return build_all(run);
    if ((status = spc__run_recall(run)) == SPC_OK)
        status = spc__run_search(run);
    tell_all(run);
    return status;
}

/* How an interrupted run ends depends on what became of its measurements. */
static spc_status tell_interrupted(spc__run *run, const spc_error *lost)
{
    if (run->options.stage != SPC_STAGE_TIME)
        return spc__interrupted(run->error);
    if (lost->status != SPC_OK)
        return spc__fail(run->error, SPC_EINTERRUPTED, "interrupted, and %s",
                         lost->text);
    return spc__fail(run->error, SPC_EINTERRUPTED, "interrupted: %s",
                     spc__run_keeps(run)
                         ? "what was measured is kept"
                         : "there is no database to keep what was measured");
}

/* Stores what is still owed to the database; that this cannot be done is a
 * failure of its own where all else went well. */
static spc_status finish(spc__run *run, spc_status status)
{
    spc_error lost = {0};

    spc__run_store(run, &lost);
    if (status == SPC_EINTERRUPTED)
        return tell_interrupted(run, &lost);
    if (lost.status == SPC_OK)
        return status;
    if (status == SPC_OK)
        return spc__fail(run->error, lost.status, "%s", lost.text);
    spc__log_printf(&run->ctx->log, SPC_LOG_WARNING, "%s", lost.text);
    return status;
}

static void release_run(spc__run *run)
{
    spc__runner_free(run->runner);
    spc__subject_release(&run->subject);
    for (int i = 0; i < run->count; i++) {
        free(run->entries[i].config);
        free(run->entries[i].source);
        free(run->entries[i].code);
        for (int s = 0; s < run->scene_count; s++)
            free(run->entries[i].timings[s].all);
    }
    for (int s = 0; s < SPC__SCENES_MAX; s++)
        free(run->index[s]);
    free(run->entries);
    free(run->by_config);
    spc__space_free(run->space);
    spc__compiler_close(run->own_compiler);
}

spc_status spc_tune(spc_ctx *ctx, const spc_conv *conv,
                    const spc_scene *const *scenes, int scene_count,
                    const spc_tune_options *options, spc_tune_report *report)
{
    static const spc_tune_options standard = SPC_TUNE_OPTIONS_INIT;
    spc_tune_report unwanted;

    if (ctx == NULL)
        return SPC_EINVAL;
    spc__run run = {
        .ctx = ctx,
        .conv = conv,
        .scenes = scenes,
        .scene_count = scene_count,
        .options = options != NULL ? *options : standard,
        .report = report != NULL ? report : &unwanted,
        .error = spc__error_of(ctx),
        .started_ns = spc__now_ns(),
    };
    const volatile int *cancel = ctx->cancel;

    memset(run.report, 0, sizeof(*run.report));
    if (run.options.limit_s == 0)
        run.options.limit_s = default_limit_s;
    if (is_native(ctx, run.options.target))
        run.options.target = NULL;
    /* All that works for this run heeds its flag. */
    if (run.options.cancel != NULL)
        ctx->cancel = run.options.cancel;
    spc_status status = finish(&run, go(&run));
    ctx->cancel = cancel;
    count_failures(&run);
    release_run(&run);
    run.report->elapsed_s = (double)(spc__now_ns() - run.started_ns) * 1e-9;
    return status;
}

spc_status spc_space_render(char **out, spc_ctx *ctx, const spc_conv *conv,
                            const char *target, int i)
{
    spc_error *error = spc__error_of(ctx);
    spc__run run = {.ctx = ctx, .conv = conv, .error = error};
    spc__buf source = SPC__BUF_INIT;
    spc_status status =
        spc__need(error, __func__, "out", out, "ctx", ctx, "conv", conv, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    run.options.target = target;
    if ((status = open_space(&run)) != SPC_OK)
        return status;
    if (i < 0 || i >= run.space->count) {
        status = spc__fail(error, SPC_EINVAL,
                           "there is no candidate %d: 0 to %d are right", i,
                           run.space->count - 1);
        goto done;
    }
    const spc__candidate *candidate = &run.space->candidates[i];
    if (!candidate->admitted)
        status = spc__fail(error, SPC_EUNSUPPORTED,
                           "candidate %d is refused by: %s", i, candidate->why);
    else
        status = spc__template_render(&source, candidate->tpl, &run.problem,
                                      &run.target, &candidate->config, error);
    if (status == SPC_OK && (*out = spc__buf_detach(&source)) == NULL)
        status = spc__fail_memory(error, 1);
done:
    spc__buf_release(&source);
    spc__space_free(run.space);
    return status;
}
