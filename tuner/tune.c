/*
 * tune.c - a tuning run from its arguments to its report.
 *
 * The stages of spc.h one after the other; run.h names the files that do what
 * is in them.
 */
#include "search.h"

#include "cancel.h"
#include "clock.h"
#include "error.h"
#include "map_builder.h"
#include "oracle.h"
#include "sample.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double default_limit_s = 10;

int spc__run_batch(const spc__run *run, int left)
{
    int batch = (run->measures == 0 ? 2 : 8) * run->ctx->threads;

    return left < batch ? left : batch;
}

bool spc__run_cancelled(const spc__run *run)
{
    return spc__cancelled(run->ctx->cancel);
}

/* ---- stages that measure no time ----------------------------------------- */

static spc_status build_batch(spc__run *run, spc__entry **list, int count)
{
    spc_status status = spc__run_build(run, list, count);

    for (int i = 0; i < count && status == SPC_OK; i++) {
        if (run->options.stage == SPC_STAGE_VERIFY) {
            status = spc__run_verify(run, &list[i], 1);
            if (status == SPC_OK && list[i]->state == SPC__VERIFIED)
                status = spc__sample_unload(run, list[i]);
        }
        if (status != SPC_OK)
            break;
        run->measured++;
        run->measures++;
        spc__run_progress(run, run->options.stage, run->measured,
                          run->to_measure);
        spc__run_report(run, list[i]);
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
    spc_status status = SPC_OK;
    for (int s = 0; s < run->scene_count && status == SPC_OK; s++)
        status = spc__sample_scene_check(run->scenes[s], run->error);
    return status;
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
        if (run->entries[i].state != SPC__FAILED)
            continue;
        if (run->entries[i].trial.status == SPC__TRIAL_CONSTRAINT)
            report->refused++;
        else
            report->failed++;
    }
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
        (status = spc__run_open_space(run)) != SPC_OK ||
        (status = check_keys(run)) != SPC_OK)
        return status;
    spc__run_refuse(run);
    if (run->space->admitted == 0)
        return spc__fail(run->error, SPC_EUNSUPPORTED,
                         "no candidate is left: '%s' is refused because %s",
                         spc__template_name(run->space->candidates[0].tpl),
                         run->space->candidates[0].why);
    if ((status = spc__run_make_entries(run)) != SPC_OK)
        return status;
    if (run->options.stage == SPC_STAGE_LIST) {
        spc__run_report_space(run);
        return SPC_OK;
    }
    spc__run_report_mistakes(run);
    spc__ctx_provenance(&run->provenance, run->ctx);
    run->provenance.seed = run->options.seed;
    if (run->options.stage == SPC_STAGE_BUILD)
        return build_all(run);
    note_scenes(run);
    if ((status = place_scenes(run)) != SPC_OK)
        return status;
    if (run->options.stage == SPC_STAGE_VERIFY)
        return build_all(run);
    spc__run_recall(run);
    status = spc__run_search(run);
    spc__run_report_all(run);
    return status;
}

/* How an interrupted run ends depends on what became of its measurements. */
static spc_status report_interrupted(spc__run *run, const spc_error *lost)
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
        return report_interrupted(run, &lost);
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
    spc__sample_release(&run->sample);
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
    if (spc__run_is_native(ctx, run.options.target))
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
