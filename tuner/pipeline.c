/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.c - moves one batch of candidates through builder and meter.
 *
 * The builder's threads compile; the caller's thread verifies and times the
 * built candidates one after the other. If compilers would disturb a timing
 * (spc__device_ops), verified candidates wait until nothing compiles, and
 * nothing compiles while they are timed.
 */
#include "tuner/pipeline.h"

#include "base/clock.h"
#include "base/error.h"
#include "coords/layout.h"
#include <stdlib.h>

typedef struct batch {
    spc__entry **list;
    int count;
    int added;    /* number of candidates added to the builder */
    int reported; /* number reported so far, in order */
    /* timing needs an idle processor, so verified candidates are held back */
    bool times_alone;
    spc__entry **held; /* verified candidates to time when nothing compiles */
    int held_count;
} batch;

/* ---- one candidate ------------------------------------------------------- */

/*
 * Stores a failure before measurement, for later runs that time. A compiler's
 * failure says something about a candidate only if the compiler works at all,
 * which is known at the end.
 */
static void record(spc__pipeline *p, spc__entry *entry)
{
    if (entry->state == SPC__FAILED &&
        entry->trial.status != SPC__TRIAL_COMPILE &&
        p->request->options.stage == SPC_STAGE_TIME)
        entry->trial_pending = true;
    spc__record_entry(p->record, entry);
}

/* Takes the first few samples. Unloads a candidate immediately if it is far
 * slower than the best so far, because a long batch would fill the device's
 * memory. */
static spc_status screen(spc__pipeline *p, spc__entry *entry)
{
    int scenes = p->request->scene_count;
    const spc__entry *best = p->pace.best;
    spc_status status = spc__meter_screen(p->meter, entry);

    if (status != SPC_OK || entry->state != SPC__TIMED)
        return status;
    double score = spc__entry_score(entry, scenes);
    if (best == NULL || best->state != SPC__TIMED ||
        score < spc__entry_score(best, scenes))
        p->pace.best = entry;
    else if (score > SPC__HOPELESS * spc__entry_score(best, scenes))
        return spc__meter_unload(p->meter, entry);
    return SPC_OK;
}

static bool is_complete(const spc__entry *entry, spc_stage stage)
{
    return entry->state == SPC__FAILED ||
           entry->state ==
               (stage == SPC_STAGE_BUILD ? SPC__BUILT : SPC__VERIFIED);
}

/* Reports in order, although candidates complete in any order. */
static void report_complete(spc__pipeline *p, batch *b)
{
    spc_stage stage = p->request->options.stage;

    while (b->reported < b->added && is_complete(b->list[b->reported], stage))
        spc__report_entry(p->request, b->list[b->reported++]);
}

/* The last stage of a candidate that has not failed before. */
static spc_status complete(spc__pipeline *p, batch *b, spc__entry *entry)
{
    spc_stage stage = p->request->options.stage;
    spc_status status = SPC_OK;

    if (entry->state == SPC__VERIFIED)
        status = stage == SPC_STAGE_TIME ? screen(p, entry)
                                         : spc__meter_unload(p->meter, entry);
    record(p, entry);
    if (status != SPC_OK)
        return status;
    p->pace.done++;
    spc__report_progress(p->request, &p->pace, stage);
    if (stage != SPC_STAGE_TIME)
        report_complete(p, b);
    return SPC_OK;
}

/*
 * True if no more work should start. A run without a measured candidate gets
 * limit_s more seconds for one.
 */
static bool is_out_of_time(const spc__pipeline *p)
{
    double grace_s = p->pace.best != NULL ? 0 : p->request->options.limit_s;

    return p->explores && spc__request_out_of_time(p->request, grace_s);
}

/* Handles a candidate that the builder has finished. */
static spc_status advance(spc__pipeline *p, batch *b, spc__entry *entry)
{
    spc_status status = SPC_OK;

    record(p, entry);
    if (entry->state == SPC__BUILT && is_out_of_time(p)) {
        p->is_cut = true; /* a later run will find its code */
        return SPC_OK;
    }
    if (entry->state == SPC__BUILT &&
        p->request->options.stage >= SPC_STAGE_VERIFY)
        status = spc__meter_verify(p->meter, entry);
    if (status != SPC_OK)
        return status;
    if (entry->state == SPC__VERIFIED && b->times_alone) {
        b->held[b->held_count++] = entry;
        return SPC_OK;
    }
    return complete(p, b, entry);
}

/* Times the candidates that waited until nothing compiles. */
static spc_status complete_held(spc__pipeline *p, batch *b)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < b->held_count && status == SPC_OK; i++)
        status = complete(p, b, b->held[i]);
    b->held_count = 0;
    return status;
}

/* ---- a batch ------------------------------------------------------------- */

/*
 * Returns how many candidates may be in progress at the same time. It is small
 * at first if all wait for the last, so that there is soon something to report
 * and to estimate the time from.
 */
static int free_slots(const spc__pipeline *p, const batch *b)
{
    bool is_first = b->times_alone && p->pace.done == 0;

    return (is_first ? 2 : 8) * p->request->ctx->threads;
}

/* Adds candidates to the builder until enough are in progress. Once the time is
 * over, no candidate is added. */
static spc_status refill(spc__pipeline *p, batch *b)
{
    int most = free_slots(p, b);
    spc_status status = SPC_OK;

    if (b->added < b->count && is_out_of_time(p)) {
        p->is_cut = true;
        /* The rest of the batch stays new, for a later run. */
        b->count = b->added;
    }
    while (status == SPC_OK && b->added < b->count &&
           spc__builder_pending(p->builder) < most)
        status = spc__builder_add(p->builder, b->list[b->added++]);
    return status;
}

/*
 * The oracle runs while the first candidates compile, and with them the kernels
 * of maps, which the worker would otherwise compile itself.
 */
static spc_status start_measuring(spc__pipeline *p)
{
    if (p->meter->runner != NULL)
        return SPC_OK;
    spc_status status = spc__meter_show(p->meter);
    uint64_t start = spc__now_ns();
    if (status == SPC_OK)
        status = spc__ladder_await(p->ladder);
    p->waits_s += (double)(spc__now_ns() - start) * 1e-9;
    return status == SPC_OK ? spc__meter_start(p->meter) : status;
}

/* Also counts the time that the caller waits for compilers. */
static spc_status next_built(spc__pipeline *p, spc__entry **entry)
{
    uint64_t start = spc__now_ns();
    spc_status status = spc__builder_next(p->builder, entry);

    p->waits_s += (double)(spc__now_ns() - start) * 1e-9;
    return status;
}

/* Runs until all are complete. */
static spc_status work(spc__pipeline *p, batch *b)
{
    spc__entry *entry;
    spc_status status = refill(p, b);

    if (status == SPC_OK && p->request->options.stage >= SPC_STAGE_VERIFY)
        status = start_measuring(p);
    while (status == SPC_OK) {
        if ((status = next_built(p, &entry)) != SPC_OK)
            break;
        if (entry != NULL)
            status = advance(p, b, entry);
        else if (b->held_count == 0 && b->added == b->count)
            break;
        else
            status = complete_held(p, b);
        /* If a timing must be alone, the next ones start when these are
         * complete: a steady refill would leave no moment without compilers. */
        if (status == SPC_OK && (entry == NULL || !b->times_alone))
            status = refill(p, b);
    }
    return status;
}

/* The run fails, but code that is compiled already is kept. */
static void abandon(spc__pipeline *p)
{
    spc__entry *entry = NULL;

    spc__builder_stop(p->builder);
    while (spc__builder_next(p->builder, &entry) == SPC_OK && entry != NULL)
        record(p, entry);
}

/* Stores failures to compile, once it is known that the compiler works. */
static void record_compile_failures(spc__pipeline *p, const batch *b)
{
    if (p->request->options.stage != SPC_STAGE_TIME ||
        !spc__builder_works(p->builder))
        return;
    for (int i = 0; i < b->count; i++)
        if (b->list[i]->state == SPC__FAILED &&
            b->list[i]->trial.status == SPC__TRIAL_COMPILE) {
            b->list[i]->trial_pending = true;
            spc__record_entry(p->record, b->list[i]);
        }
}

/* True if a candidate needs a row order that has a kernel of its own. */
static bool asks_for_apart(const spc__candidates *candidates)
{
    for (int i = 0; i < candidates->count; i++)
        if (spc__row_order_is_apart(spc__attrs_text(
                &candidates->entries[i].candidate->launch, "order", "none")))
            return true;
    return false;
}

spc_status spc__pipeline_begin(spc__pipeline *p)
{
    spc__candidates *all = p->candidates;
    spc_status status =
        spc__ladder_begin(&p->ladder, p->request, all->library, &all->target);

    return status == SPC_OK ? spc__ladder_climb(p->ladder, false) : status;
}

/* Opens the builder once; later batches use it again. */
static spc_status start(spc__pipeline *p)
{
    spc_status status;

    if (p->builder != NULL)
        return SPC_OK;
    status = spc__builder_create(&p->builder, p->request, p->candidates);
    if (status != SPC_OK)
        return status;
    spc__record_note_compiler(p->record, spc__builder_compiler(p->builder));
    /* The pace counts from here: reading the space is not part of it. */
    p->pace.since_ns = spc__now_ns();
    return spc__ladder_climb(p->ladder, asks_for_apart(p->candidates));
}

spc_status spc__pipeline_run(spc__pipeline *p, spc__entry **list, int count)
{
    const spc__request *request = p->request;
    const spc__device_ops *ops = spc__device_ops_of(request->ctx->device);
    batch b = {.list = list, .count = count};
    spc_status status;

    if (count == 0)
        return SPC_OK;
    if ((status = start(p)) != SPC_OK)
        return status;
    b.times_alone =
        ops->measures_alone && request->options.stage == SPC_STAGE_TIME;
    if ((b.held = calloc((size_t)count, sizeof(*b.held))) == NULL)
        return spc__fail_memory(request->error, (size_t)count);
    p->pace.total += count;
    spc__report_progress(request, &p->pace, SPC_STAGE_BUILD);
    status = work(p, &b);
    if (status != SPC_OK)
        abandon(p);
    record_compile_failures(p, &b);
    free(b.held);
    return status;
}

int spc__pipeline_compiled(const spc__pipeline *p)
{
    return p->builder != NULL ? spc__builder_compiled(p->builder) : 0;
}

spc_status spc__pipeline_complete(spc__pipeline *p)
{
    spc_status status =
        spc__ladder_climb(p->ladder, asks_for_apart(p->candidates));

    return status == SPC_OK ? spc__ladder_end(p->ladder) : status;
}

void spc__pipeline_release(spc__pipeline *p)
{
    spc__ladder_free(p->ladder);
    spc__builder_free(p->builder);
}
