/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune.c - a tuning run from its arguments to its report.
 *
 * The parts of a run, by their lifetime:
 *
 *   request.h     the caller's options: constant
 *   candidates.h  the space, and the state of each candidate
 *   record.h      earlier and new results in the database
 *   meter.h       measurement: oracle, worker process, samples
 *   builder.h     compilation in the background
 *   pipeline.h    moves candidates through builder and meter
 *   search.h      which candidates, how often; moves.h: the next ones
 *   choice.h      the winner
 *   work_lease.h  waiting for other processes that tune the same layer
 *   refer.h       choices, and the code that was built for them
 *   report.h      progress and candidates, for the caller
 *   ladder.h      the code of maps that other scenes will need
 */
#include "tuner/search/search.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sized.h"
#include "tuner/refer.h"
#include "tuner/search/moves.h"
#include "tuner/search/near.h"
#include "tuner/work_lease.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    spc__request request;
    spc__candidates candidates;
    spc__record record;
    spc__meter meter;
    spc__pipeline pipeline; /* connects these three */
    spc__work_lease lease;
    spc__winner winner;
    double layout_us; /* the winner's; 0: unknown */
    bool was_there;   /* the database has the winner: nothing to do */
    int known;        /* number of candidates from the database */
} run;

/* ---- stages -------------------------------------------------------------- */

/* Finds the relation of each scene: its density is part of the problem's key,
 * so the database can be asked only afterwards. */
static spc_status relate_scenes(run *r)
{
    const spc__request *request = &r->request;
    spc_status status = SPC_OK;

    for (int s = 0; s < request->scene_count && status == SPC_OK; s++) {
        const spc_relation *relation = &r->meter.relations[s];
        if ((status = spc__meter_relate(&r->meter, s)) == SPC_OK)
            spc__record_add_scene(&r->record, request->conv, relation,
                                  spc_scene_name(request->scenes[s]));
    }
    return status;
}

/*
 * Builds the candidates of the effort, and verifies them in the stages that
 * verify.
 */
static spc_status build_all(run *r)
{
    int count;
    spc__entry **list = spc__seeds(&r->candidates, &r->request, &count);
    spc_status status = list != NULL
                            ? spc__pipeline_run(&r->pipeline, list, count)
                            : spc__fail_memory(r->request.error, sizeof(*list));

    free(list);
    return status;
}

/*
 * A search that ended early may have timed almost nothing; its fastest could
 * replace a better untuned plan, so it is not stored.
 */
static void forget_hasty_winner(run *r, spc_status status)
{
    const spc__entry *untuned = spc__untuned(&r->request, &r->candidates);
    bool early = r->pipeline.is_cut || status != SPC_OK;

    /* A timed candidate was compared, and a failed one cannot be a better
     * plan. */
    if (early && untuned != NULL && untuned->state != SPC__TIMED &&
        untuned->state != SPC__FAILED)
        memset(&r->winner, 0, sizeof(r->winner));
}

/* Stores the caller's choice, if the database has times of it. */
static spc_status choose_named(run *r)
{
    const char *name = r->request.options.chosen;
    const char *blank = strchr(name, ' ');
    char template_name[64];
    spc__entry *entry = NULL;

    r->known = spc__record_recall(&r->record, &r->candidates);
    if (blank != NULL && blank - name < (long)sizeof(template_name)) {
        snprintf(template_name, sizeof(template_name), "%.*s",
                 (int)(blank - name), name);
        entry = spc__candidates_find(&r->candidates, template_name, blank + 1);
    }
    if (entry == NULL || entry->state != SPC__TIMED)
        return spc__fail(r->request.error, SPC_ENOTFOUND,
                         "the database has no times of '%.300s' for this "
                         "problem",
                         name);
    r->winner.entry = entry;
    r->winner.us = spc__entry_score(entry, r->request.scene_count);
    snprintf(r->winner.reason, sizeof(r->winner.reason),
             SPC__IN_NETWORK ", whose replay was the fastest with it");
    return SPC_OK;
}

/*
 * A choice is only as good as its search, so its record notes if that was cut
 * short.
 */
static void mark_haste(run *r, spc_status status)
{
    size_t used = strlen(r->winner.reason);

    if (r->winner.entry != NULL && (r->pipeline.is_cut || status != SPC_OK))
        snprintf(r->winner.reason + used, sizeof(r->winner.reason) - used, "%s",
                 SPC__CUT_SHORT);
}

/* True if there is nothing to do, because the caller wants only missing
 * choices. */
static bool take_what_is_there(run *r)
{
    const spc__entry *entry = spc__record_chosen(&r->record, &r->candidates);

    if (entry == NULL)
        return false;
    r->was_there = true;
    r->winner.entry = entry;
    r->winner.us = spc__entry_score(entry, r->request.scene_count);
    spc__report_all(&r->request, &r->candidates);
    return true;
}

/*
 * The same check before the space is known: in a long list of layers most may
 * be done, and finding the space of each would take longer than all else.
 */
static spc_status find_what_is_there(run *r)
{
    spc__trial *trials = NULL;
    spc_error error;
    int count = 0;
    spc_status status = spc__candidates_begin(&r->candidates, &r->request);

    if (status != SPC_OK ||
        (status = spc__request_check_keys(&r->request)) != SPC_OK ||
        (status = relate_scenes(r)) != SPC_OK)
        return status;
    spc__cache_find_trials(r->request.ctx->cache, &r->record.keys[0], &trials,
                           /* unreadable records are not used */
                           &count, &error);
    status = spc__candidates_tried(&r->candidates, &r->request, trials, count);
    free(trials);
    if (status == SPC_OK)
        r->known = spc__record_recall(&r->record, &r->candidates);
    if (status == SPC_OK && take_what_is_there(r))
        return SPC_OK;
    /* Drops these candidates, as the search needs the whole space, not only
     * candidates that were tried once. */
    spc__candidates_release(&r->candidates);
    memset(&r->candidates, 0, sizeof(r->candidates));
    return status;
}

/* The search of one layer: recalls results, searches, chooses, reports.
 * Recalled results come first, as they decide where the search starts. */
static spc_status tune_all(run *r)
{
    bool again = r->request.options.again;

    /* The caller compares candidates, so no result is recalled and no choice is
     * made. */
    if (r->request.options.wants != NULL) {
        spc_status compared = spc__search(&r->pipeline);
        spc__report_all(&r->request, &r->candidates);
        return compared;
    }
    if (!again) {
        r->known = spc__record_recall(&r->record, &r->candidates);
        spc__record_mark_network(&r->record, &r->candidates);
    }
    if (r->request.options.missing && take_what_is_there(r))
        return SPC_OK; /* another process has done the work */
    spc__record_find_serving(&r->record, &r->candidates);
    /* A larger effort than quick takes no short cuts. */
    if (!again && r->request.options.effort == SPC_EFFORT_QUICK)
        spc__near_recall(&r->record, &r->candidates);
    spc_status status = spc__search(&r->pipeline);
    /* Nothing was timed, so nothing was compared either: the earlier choice
     * stays, instead of one by the noise of old times. */
    if (r->meter.timed == 0)
        spc__record_keep_choice(&r->record, &r->candidates);
    /*
     * An interrupted run also chooses, unless it was in the middle of a new
     * measurement.
     */
    if (status == SPC_OK || !again) {
        spc_error kept = *r->request.error;
        spc_status chosen =
            spc__choose(&r->winner, &r->request, &r->candidates);
        forget_hasty_winner(r, status);
        mark_haste(r, status);
        /* The reason of the interruption is the run's error; a failure to
         * choose would hide it. */
        if (status == SPC_OK)
            status = chosen;
        else
            *r->request.error = kept;
    }
    if (status == SPC_OK && !spc_conv_is_linear(r->request.conv) &&
        !spc__conv_has_triplets(r->request.conv))
        r->layout_us = spc__meter_layout(&r->meter, r->winner.entry);
    spc__report_all(&r->request, &r->candidates);
    return status;
}

static bool asks_what_is_there(const spc__request *request)
{
    const spc_tune_options *options = &request->options;

    return options->missing && options->stage == SPC_STAGE_TIME &&
           options->chosen == NULL && options->wants == NULL &&
           !options->again && request->ctx->cache != NULL;
}

/* These compile longest, and need no candidates. */
static spc_status begin_maps(run *r)
{
    spc_stage stage = r->request.options.stage;
    spc_status status = spc__candidates_begin(&r->candidates, &r->request);

    return status == SPC_OK &&
                   (stage == SPC_STAGE_BUILD || stage == SPC_STAGE_TIME)
               ? spc__pipeline_begin(&r->pipeline)
               : status;
}

/* The stages of a run, each up to the stage that the caller asks for. Cheap
 * checks come first; maps begin to compile before the space is found, as they
 * take longest. */
static spc_status go(run *r)
{
    const spc__request *request = &r->request;
    spc_status status = spc__request_check(request);

    if (status == SPC_OK && asks_what_is_there(request))
        status = find_what_is_there(r);
    if (status != SPC_OK || r->was_there)
        return status;
    if ((status = begin_maps(r)) != SPC_OK ||
        (status = spc__candidates_open(&r->candidates, request)) != SPC_OK ||
        (status = spc__request_check_keys(request)) != SPC_OK ||
        (status = spc__candidates_admit(&r->candidates, request)) != SPC_OK)
        return status;
    r->record.problem = r->candidates.problem;
    if (request->options.stage == SPC_STAGE_LIST) {
        spc__report_space(request, &r->candidates);
        return SPC_OK;
    }
    spc__report_mistakes(request, r->candidates.space);
    if (request->options.stage == SPC_STAGE_BUILD) {
        status = build_all(r);
        /* Named candidates are those of choices. */
        return status == SPC_OK && request->options.wants != NULL
                   ? spc__refer(&r->record, &r->candidates, request)
                   : status;
    }
    /* Waits for the lease before recalling records, because another process may
     * be about to store the needed results. */
    if (request->options.stage == SPC_STAGE_TIME &&
        (status = spc__work_lease_take(&r->lease, request)) != SPC_OK)
        return status;
    /* find_what_is_there() may have related them. */
    if (r->record.scene_count == 0 && (status = relate_scenes(r)) != SPC_OK)
        return status;
    if (request->options.stage == SPC_STAGE_VERIFY)
        return build_all(r);
    return request->options.chosen != NULL ? choose_named(r) : tune_all(r);
}

/* ---- the end ------------------------------------------------------------- */

/*
 * The message of an interrupted run depends on whether its measurements are
 * stored.
 */
static spc_status report_interrupted(const run *r, const spc_error *lost)
{
    spc_error *error = r->request.error;

    if (r->request.options.stage != SPC_STAGE_TIME)
        return spc__interrupted(error);
    if (lost->status != SPC_OK)
        return spc__fail(error, SPC_EINTERRUPTED, "interrupted, and %s",
                         lost->text);
    return spc__fail(error, SPC_EINTERRUPTED, "interrupted: %s",
                     spc__record_keeps(&r->record)
                         ? "measurements are kept"
                         : "no database to keep the measurements");
}

/*
 * Stores what is still pending. A failure to store is returned only if
 * everything else succeeded.
 */
static spc_status finish(run *r, spc_status status)
{
    static const spc__winner nobody = {0};
    spc_error lost = {0};

    spc__record_finish(&r->record, &r->candidates,
                       r->was_there ? &nobody : &r->winner, &lost);
    if (status == SPC_EINTERRUPTED)
        return report_interrupted(r, &lost);
    if (lost.status == SPC_OK)
        return status;
    if (status == SPC_OK)
        return spc__fail(r->request.error, lost.status, "%s", lost.text);
    spc__log_printf(&r->request.ctx->log, SPC_LOG_WARNING, "%s", lost.text);
    return status;
}

/* Counts what was refused and what failed. A candidate whose resources do not
 * fit is refused: it has not failed. */
static void count_failures(spc_tune_report *report,
                           const spc__candidates *candidates)
{
    const spc__space *space = candidates->space;

    if (space == NULL)
        return;
    report->candidates = space->admitted;
    report->refused = space->count - space->admitted;
    for (int i = 0; i < space->refusal_count; i++)
        report->failed += space->refusals[i].is_mistake;
    for (int i = 0; i < candidates->count; i++) {
        if (candidates->entries[i].state != SPC__FAILED)
            continue;
        if (candidates->entries[i].trial.status == SPC__TRIAL_CONSTRAINT)
            report->refused++;
        else
            report->failed++;
    }
}

/* Without a winner its fields stay empty. */
static void name_winner(spc_tune_report *report, const spc__winner *winner,
                        const spc__request *request)
{
    if (winner->entry == NULL)
        return;
    snprintf(report->winner, sizeof(report->winner), "%s %s",
             winner->entry->trial.template_name, winner->entry->config);
    report->winner_us = winner->us;
    report->default_us = winner->default_us;
    report->worst_ratio = winner->worst_ratio;
    snprintf(report->worst_scene, sizeof(report->worst_scene), "%s",
             spc_scene_name(request->scenes[winner->worst_scene]));
}

/* Called after the work and before anything is released. */
static void fill_report(spc_tune_report *report, const run *r)
{
    memset(report, 0, sizeof(*report));
    count_failures(report, &r->candidates);
    report->compiled = spc__pipeline_compiled(&r->pipeline);
    report->verified = r->meter.verified;
    report->timed = r->meter.timed;
    report->gate_s = r->meter.gate_s;
    report->draw_s = r->meter.draw_s;
    report->start_s = r->meter.start_s;
    report->verify_s = r->meter.verify_s;
    report->time_s = r->meter.time_s;
    report->wait_s = r->pipeline.waits_s;
    report->known = r->known;
    name_winner(report, &r->winner, &r->request);
    report->layout_us = r->layout_us;
    report->out_of_time = r->pipeline.is_cut;
    report->was_there = r->was_there;
}

spc_status spc_tune(spc_tune_report *report, spc_ctx *ctx, const spc_conv *conv,
                    const spc_scene *const *scenes, int scene_count,
                    const spc_tune_options *options)
{
    spc_tune_report unwanted;
    run r = {0};

    if (ctx == NULL ||
        SPC__TAKE(spc_tune_options, options, spc__error_of(ctx)) != SPC_OK)
        return SPC_EINVAL;
    const volatile int *cancel = ctx->cancel;
    spc__request_init(&r.request, ctx, conv, scenes, scene_count, options);
    spc__record_init(&r.record, &r.request);
    r.record.lease = &r.lease;
    spc__meter_init(&r.meter, &r.request);
    r.pipeline = (spc__pipeline){.request = &r.request,
                                 .candidates = &r.candidates,
                                 .meter = &r.meter,
                                 .record = &r.record};
    /* All parts of this run read the request's flag. */
    if (r.request.options.cancel != NULL)
        ctx->cancel = r.request.options.cancel;
    spc_status status = finish(&r, go(&r));
    /* After finish(): another process that waits for the turn reads the results
     * next. */
    spc__work_lease_drop(&r.lease);
    if (status == SPC_OK && !r.was_there) /* otherwise nothing was started */
        status = spc__pipeline_complete(&r.pipeline);
    ctx->cancel = cancel;
    if (report == NULL)
        report = &unwanted;
    fill_report(report, &r);
    spc__pipeline_release(&r.pipeline);
    spc__meter_release(&r.meter);
    spc__candidates_release(&r.candidates);
    report->elapsed_s = (double)(spc__now_ns() - r.request.started_ns) * 1e-9;
    return status;
}
