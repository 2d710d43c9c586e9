/*
 * search.c - how often which candidate is measured, until the winner stands.
 *
 * The seeds come first: of every template its default (quick); besides those an
 * even sample of the space (normal); the whole space (exhaustive). They are
 * screened with a few samples, then halved again and again, the survivors
 * measured twice as often each time. The best few and all defaults are
 * finalists: they get all samples, and samples with a cold cache. Then the
 * search moves on (moves.c), and what is new is screened likewise, until
 * nothing new is in reach. The state that decides what is left to do is what
 * the database holds; so a run that was interrupted goes on where it was, and
 * one that was complete has nothing to do.
 */
#include "search.h"

#include "error.h"
#include <stdlib.h>

static const spc__effort efforts[] = {
    [SPC_EFFORT_QUICK] = {3, 3, 15, 7, 0},
    [SPC_EFFORT_NORMAL] = {5, 4, 31, 11, 160},
    [SPC_EFFORT_EXHAUSTIVE] = {5, 6, 61, 21, -1},
};

/* So many times the best will not come back. */
static const double hopeless = 2;

const spc__effort *spc__effort_of(const spc__run *run)
{
    return &efforts[run->options.effort];
}

/* ---- screening and halving ----------------------------------------------- */

static spc_status screen_one(spc__run *run, spc__entry *entry)
{
    spc_status status;

    if ((status = spc__run_verify(run, &entry, 1)) != SPC_OK ||
        entry->state != SPC__VERIFIED)
        return status;
    status =
        spc__sample_once(run, entry, spc__effort_of(run)->screening, false);
    if (status != SPC_OK || entry->state == SPC__FAILED)
        return status;
    entry->state = SPC__TIMED;
    run->report->timed++;
    spc__run_record(run, entry);
    if (run->best == NULL || run->best->state != SPC__TIMED ||
        spc__entry_score(run, entry) < spc__entry_score(run, run->best))
        run->best = entry;
    else if (spc__entry_score(run, entry) >
             hopeless * spc__entry_score(run, run->best))
        return spc__sample_unload(run, entry);
    return SPC_OK;
}

/* Compile failures say something about a candidate only if the compiler can
 * do better at all. */
static void record_failures(spc__run *run, spc__entry **list, int count)
{
    bool compiler_works = false;

    for (int i = 0; i < run->count; i++)
        compiler_works |= run->entries[i].code != NULL;
    for (int i = 0; i < count; i++) {
        if (list[i]->state == SPC__FAILED &&
            (list[i]->trial.status != SPC__TRIAL_COMPILE || compiler_works))
            spc__run_record(run, list[i]);
    }
}

static spc_status screen_batch(spc__run *run, spc__entry **list, int count)
{
    spc_status status = spc__run_build(run, list, count);

    if (status == SPC_OK || status == SPC_EINTERRUPTED)
        record_failures(run, list, count);
    for (int i = 0; i < count && status == SPC_OK; i++) {
        if (list[i]->state == SPC__BUILT)
            status = screen_one(run, list[i]);
        run->measured++;
        run->measures++;
        spc__run_progress(run, SPC_STAGE_TIME, run->measured, run->to_measure);
    }
    return status;
}

/* Compiles, verifies and times those of the list that are new. */
static spc_status screen(spc__run *run, spc__entry **list, int count)
{
    int batch;
    spc_status status = SPC_OK;

    run->to_measure += count;
    for (int i = 0; i < count && status == SPC_OK; i += batch) {
        batch = spc__run_batch(run, count - i);
        status = screen_batch(run, list + i, batch);
    }
    return status;
}

static void record_all(spc__run *run, spc__entry **list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i]->state == SPC__TIMED)
            spc__run_record(run, list[i]);
}

static spc_status halve(spc__run *run, spc__entry **list, int count)
{
    const spc__effort *effort = spc__effort_of(run);
    int wanted = effort->screening;
    spc_status status = SPC_OK;

    count = spc__rank(run, list, count);
    while (count > effort->finalists && wanted < effort->final &&
           status == SPC_OK) {
        int keep = (count + 1) / 2;
        if (keep < effort->finalists)
            keep = effort->finalists;
        double limit = hopeless * spc__entry_score(run, list[0]);
        while (keep > 1 && spc__entry_score(run, list[keep - 1]) > limit)
            keep--;
        for (int i = keep; i < count && status == SPC_OK; i++)
            status = spc__sample_unload(run, list[i]);
        wanted *= 2;
        if (status == SPC_OK)
            status = spc__sample_rounds(run, list, keep, wanted, false);
        record_all(run, list, keep);
        count = spc__rank(run, list, keep);
    }
    return status;
}

/* ---- finals -------------------------------------------------------------- */

/* What the database knew of this candidate is not enough: build it again. */
static spc_status revive(spc__run *run, spc__entry *entry)
{
    spc_status status;

    if (entry->code != NULL || entry->state != SPC__TIMED)
        return SPC_OK;
    entry->state = SPC__NEW;
    entry->trial.note[0] = '\0';
    entry->known = false;
    if ((status = spc__run_build(run, &entry, 1)) == SPC_OK) {
        if (entry->state == SPC__FAILED)
            record_failures(run, &entry, 1);
        for (int s = 0; s < run->scene_count; s++)
            entry->timings[s].cold_us = 0;
        status = screen_one(run, entry);
    }
    /* Interrupted on the way: what was known of it still holds. */
    if (status != SPC_OK && entry->state != SPC__FAILED)
        entry->state = SPC__TIMED;
    return status;
}

/* Who must have all samples and has not: the best few, and the defaults. */
static int unfinished(const spc__run *run, spc__entry **list)
{
    const spc__effort *effort = spc__effort_of(run);
    int count = spc__rank_all(run, list), found = 0;

    for (int i = 0; i < count; i++)
        if ((i < effort->finalists || list[i]->candidate->is_default) &&
            (!spc__entry_has(run, list[i], effort->final, true) ||
             spc__entry_is_doubtful(run, list[i])))
            list[found++] = list[i];
    return found;
}

static spc_status finals(spc__run *run, spc__entry **list)
{
    const spc__effort *effort = spc__effort_of(run);
    spc_status status = SPC_OK;
    int count;

    while (status == SPC_OK && (count = unfinished(run, list)) > 0) {
        for (int i = 0; i < count && status == SPC_OK; i++)
            status = revive(run, list[i]);
        if (status == SPC_OK)
            status = spc__sample_rounds(run, list, count, effort->final, false);
        if (status == SPC_OK)
            status = spc__run_doubt(run, list, count);
        record_all(run, list, count);
        if (status == SPC_OK)
            status = spc__sample_rounds(run, list, count, 0, true);
        /* Cold times are stored of what is confirmed: a run that goes on
         * where another was interrupted knows by them. */
        if (status == SPC_OK)
            status = spc__run_confirm(run, list, count);
        if (status == SPC_OK)
            record_all(run, list, count);
        spc__run_progress(run, SPC_STAGE_TIME, run->measured, run->to_measure);
    }
    return status;
}

/* ---- the whole search ---------------------------------------------------- */

static int only_new(spc__entry **list, int count)
{
    int kept = 0;

    for (int i = 0; i < count; i++)
        if (list[i]->state == SPC__NEW)
            list[kept++] = list[i];
    return kept;
}

spc_status spc__run_search(spc__run *run)
{
    int count = 0;
    spc__entry **batch = spc__run_seeds(run, &count);
    spc__entry **list = calloc((size_t)run->count + 1, sizeof(*list));
    spc_status status = SPC_OK;

    if (batch == NULL || list == NULL) {
        status = spc__fail_memory(run->error, sizeof(*list));
        goto done;
    }
    count = only_new(batch, count);
    do {
        if (count > 0 && (status = screen(run, batch, count)) == SPC_OK)
            status = halve(run, batch, count);
        if (status == SPC_OK)
            status = finals(run, list);
        count = spc__next_moves(run, list, spc__rank_all(run, list), batch);
    } while (status == SPC_OK && count > 0);
    if (status == SPC_OK && spc__rank_all(run, list) == 0)
        status = spc__nobody_left(run);
    else if (status == SPC_OK || !run->options.again)
        spc__choose(run, list); /* also what an interrupted run knows */
done:
    free(batch);
    free(list);
    return status;
}
