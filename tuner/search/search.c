/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.c - measures candidates, each as often as needed, until there is a
 * winner.
 *
 * It starts with the seeds: the default of every template (quick); an even
 * sample of the space as well (normal); the whole space (exhaustive). They are
 * screened with a few samples, then halved repeatedly, and each time the
 * survivors get twice as many samples. The best few, and defaults that are not
 * far behind, get all samples. Then the search moves on (moves.c), and new
 * candidates are screened likewise, until no move reaches anything new. Those
 * that may win then are confirmed, and get samples with a cold cache. The
 * remaining work follows from the database's content; so an interrupted run
 * continues where it stopped, and a complete one has nothing to do.
 *
 * Candidates of different batches were timed minutes apart, and a clock under a
 * power limit changes meanwhile. So at the end those that may win get all
 * samples once more, in rounds with each other, with the untuned default, and
 * with the candidate that the database would have served without this run. If
 * one of these proves not to be behind, their new times are kept, and the
 * search continues.
 */
#include "tuner/search/search.h"

#include "base/error.h"
#include "tuner/search/choice.h"
#include "tuner/search/doubt.h"
#include "tuner/search/moves.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- halving ------------------------------------------------------------- */

/* Returns how many of the ranked candidates are measured further. */
static int keep_of(spc__entry *const *ranked, int count, int finalists,
                   int scenes)
{
    double limit = SPC__HOPELESS * spc__entry_score(ranked[0], scenes);
    int keep = (count + 1) / 2;

    if (keep < finalists)
        keep = finalists;
    while (keep > 1 && spc__entry_score(ranked[keep - 1], scenes) > limit)
        keep--;
    return keep;
}

/* Successive halving: most candidates are far behind after a few samples, so
 * they get no more, and the time goes to the few that are close. Candidates
 * that drop out are unloaded, as each holds device memory. */
static spc_status halve(spc__pipeline *p, spc__entry **list, int count)
{
    const spc__effort *effort = spc__request_effort(p->request);
    int scenes = p->request->scene_count, goal = effort->screening;
    spc_status status = SPC_OK;

    count = spc__rank(list, count, scenes);
    while (count > effort->finalists && goal < effort->final &&
           status == SPC_OK) {
        int keep = keep_of(list, count, effort->finalists, scenes);
        for (int i = keep; i < count && status == SPC_OK; i++)
            status = spc__meter_unload(p->meter, list[i]);
        goal *= 2;
        if (status == SPC_OK)
            status = spc__meter_rounds(p->meter, list, keep, goal);
        /* Stores results after each halving, so that a killed run loses at most
         * one halving. */
        spc__record_list(p->record, list, keep);
        count = spc__rank(list, keep, scenes);
    }
    return status;
}

/* ---- finals -------------------------------------------------------------- */

/* True for times from the database, which come without loaded code. */
static bool is_without_code(const spc__entry *entry)
{
    return entry->code == NULL && entry->state == SPC__TIMED;
}

/*
 * The samples in the database are too few, so these are built again. If that is
 * interrupted, the old results stay valid.
 */
static spc_status revive(spc__pipeline *p, spc__entry *const *list, int count)
{
    spc__entry **stale = calloc((size_t)count, sizeof(spc__entry *));
    int found = 0;

    if (stale == NULL)
        return spc__fail_memory(p->request->error, (size_t)count);
    for (int i = 0; i < count; i++) {
        if (!is_without_code(list[i]))
            continue;
        /* The pipeline takes new candidates only. `known` is taken back, since
         * its times will be of this run. */
        list[i]->state = SPC__NEW;
        list[i]->trial.note[0] = '\0';
        list[i]->known = false;
        stale[found++] = list[i];
    }
    spc_status status = spc__pipeline_run(p, stale, found);
    for (int i = 0; i < found && status != SPC_OK; i++)
        if (stale[i]->state != SPC__FAILED)
            stale[i]->state = SPC__TIMED;
    free(stale);
    return status;
}

/* True if only a final comparison can tell which of the two is faster. */
static bool is_near(const spc__pipeline *p, const spc__entry *best,
                    const spc__entry *entry)
{
    int scenes = p->request->scene_count;

    return spc__entry_score(entry, scenes) <=
           SPC__NEAR_BEST * spc__entry_score(best, scenes);
}

/*
 * True if number i of the ranked is one of the best few. They are twice as many
 * if times are so close that a drift of the clock may have ordered them.
 */
static bool is_among_best(const spc__pipeline *p, const spc__entry *best,
                          const spc__entry *entry, int i)
{
    int few = spc__request_effort(p->request)->finalists;

    return i < few || (i < 2 * few && is_near(p, best, entry));
}

/*
 * True for a default whose parameters may gain as much as it is behind: the
 * search moves on from there (moves.c), so its time matters.
 */
static bool is_rival(const spc__pipeline *p, const spc__entry *best,
                     const spc__entry *entry)
{
    int scenes = p->request->scene_count;

    return entry->candidate->is_default &&
           spc__entry_score(entry, scenes) <=
               SPC__RIVAL * spc__entry_score(best, scenes);
}

/*
 * Finds candidates that still need all samples: the best few, the defaults that
 * are not far behind, the untuned one, and the one that serves now.
 */
static int find_unfinished(const spc__pipeline *p, spc__entry **list)
{
    const spc__effort *effort = spc__request_effort(p->request);
    const spc__entry *untuned = spc__untuned(p->request, p->candidates);
    int scenes = p->request->scene_count, found = 0;
    int count = spc__rank_all(p->candidates, list, scenes);
    const spc__entry *best = list[0];

    for (int i = 0; i < count; i++)
        if ((is_among_best(p, best, list[i], i) || is_rival(p, best, list[i]) ||
             list[i] == untuned || list[i]->serves) &&
            (!spc__entry_has(list[i], scenes, effort->final, false) ||
             spc__doubt_is_due(p->meter, list[i])))
            list[found++] = list[i];
    return found;
}

/* Gives all samples to the candidates that need them, until none is left. New
 * samples change the order, so others may come among the best few: hence the
 * loop. */
static spc_status finals(spc__pipeline *p, spc__entry **list)
{
    const spc__effort *effort = spc__request_effort(p->request);
    spc_status status = SPC_OK;
    int count;

    while (status == SPC_OK && (count = find_unfinished(p, list)) > 0) {
        status = revive(p, list, count);
        if (status == SPC_OK)
            status = spc__meter_rounds(p->meter, list, count, effort->final);
        if (status == SPC_OK)
            status = spc__doubt(p->meter, list, count);
        spc__record_list(p->record, list, count);
        spc__report_progress(p->request, &p->pace, SPC_STAGE_TIME);
    }
    return status;
}

/* ---- candidates that may win --------------------------------------------- */

/*
 * Finds the candidates that may win, then those that a plan would use without
 * this run, if this run measured them. Returns the number of all; *near is the
 * number of the first kind.
 */
static int find_finalists(const spc__pipeline *p, spc__entry **list, int *near)
{
    int count = spc__rank_all(p->candidates, list, p->request->scene_count);
    const spc__entry *untuned = spc__untuned(p->request, p->candidates);
    int kept = 0;

    *near = 0;
    for (int i = 0; i < count; i++) {
        bool is_rated = is_near(p, list[0], list[i]);
        bool is_known = list[i]->serves || list[i] == untuned;
        if (is_rated ? is_known || is_among_best(p, list[0], list[i], i)
                     : is_known && !is_without_code(list[i])) {
            list[kept++] = list[i];
            *near += is_rated;
        }
    }
    return kept;
}

/* A cold time marks a confirmed candidate: see confirm(). */
static int only_unconfirmed(spc__entry **list, int count, int scenes)
{
    int kept = 0;

    for (int i = 0; i < count; i++)
        if (!spc__entry_has(list[i], scenes, 0, true))
            list[kept++] = list[i];
    return kept;
}

static bool has_failed(spc__entry *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i]->state == SPC__FAILED)
            return true;
    return false;
}

/*
 * Confirms those that may win, once none is faster, as this takes longer than
 * everything else. *changed is true if one has failed, so that others may win.
 * Cold times are stored for confirmed candidates only, so a run that continues
 * an interrupted one recognises them.
 */
static spc_status confirm(spc__pipeline *p, spc__entry **list, int count,
                          bool *changed)
{
    spc_status status = SPC_OK;

    *changed = false;
    count = only_unconfirmed(list, count, p->request->scene_count);
    if (count == 0)
        return SPC_OK;
    /* Candidates without code are built again. Then all get the last
     * samples. */
    if ((status = revive(p, list, count)) == SPC_OK)
        status = spc__meter_rounds(p->meter, list, count,
                                   spc__request_effort(p->request)->final);
    if (status == SPC_OK)
        /* Before the confirmation: a candidate that fails it loses its cold
         * time with all other samples. */
        status = spc__meter_cold_rounds(p->meter, list, count);
    if (status == SPC_OK)
        status = spc__meter_confirm(p->meter, list, count);
    if (status == SPC_OK)
        spc__record_list(p->record, list, count);
    else
        /* A run that was interrupted stores what it measured. The next run
         * would take cold times for a sign of confirmed candidates. */
        spc__meter_unconfirm(list, count);
    *changed = has_failed(list, count);
    return status;
}

/* ---- side by side -------------------------------------------------------- */

/*
 * True if one of them was measured in this run. Those from one earlier run were
 * already compared side by side.
 */
static bool has_new(spc__entry *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i]->timings[0].all != NULL)
            return true;
    return false;
}

/* Timings that are replaced for a while. */
typedef spc__timing timings[SPC__SCENES_MAX];

/* Saves the timings. Their samples belong to `kept` from now on, and the next
 * rounds must not free them. */
static void put_aside(spc__entry *const *list, int count, timings *kept)
{
    for (int i = 0; i < count; i++) {
        memcpy(kept[i], list[i]->timings, sizeof(kept[i]));
        for (int s = 0; s < SPC__SCENES_MAX; s++)
            list[i]->timings[s].all = NULL;
    }
}

/*
 * Restores these timings, but keeps the new times as side_us: the database, and
 * what a later run makes of it, stay unchanged. With `stay` the new timings
 * remain.
 */
static void put_back(spc__entry *const *list, int count, timings *kept,
                     bool stay, int scenes)
{
    for (int i = 0; i < count; i++) {
        spc__entry *entry = list[i];
        bool is_timed = entry->state == SPC__TIMED;
        if (is_timed)
            entry->side_us = spc__entry_score(entry, scenes);
        for (int s = 0; s < SPC__SCENES_MAX; s++)
            free(is_timed && !stay ? entry->timings[s].all : kept[i][s].all);
        if (is_timed && !stay)
            memcpy(entry->timings, kept[i], sizeof(kept[i]));
    }
}

/* Times the finalists once more, from no samples, in shared rounds. */
static spc_status run_interleaved(spc__pipeline *p,
                                  spc__entry *const *finalists, int count)
{
    int goal = spc__request_effort(p->request)->final;
    spc__entry **list = calloc((size_t)count, sizeof(*list));
    spc_status status;

    if (list == NULL)
        return spc__fail_memory(p->request->error, sizeof(*list));
    /* the copy will be reordered */
    memcpy(list, finalists, (size_t)count * sizeof(*list));
    if ((status = revive(p, list, count)) == SPC_OK)
        status = spc__meter_again(p->meter, list, count, goal);
    if (status == SPC_OK)
        status = spc__doubt(p->meter, list, count);
    free(list);
    return status;
}

/* Returns INFINITY if none is timed; that time beats no candidate. */
static double least_score(spc__entry *const *list, int count, int scenes)
{
    double least = INFINITY;

    for (int i = 0; i < count; i++)
        if (list[i]->state == SPC__TIMED)
            least = fmin(least, spc__entry_score(list[i], scenes));
    return least;
}

/*
 * *overturned: a candidate that was far behind now ties with the fastest, so
 * times of different moments are not comparable. Then the new times replace the
 * old ones, but only if the search continues from them: a later run would
 * otherwise find moves that this one did not make.
 */
static spc_status compare_finalists(spc__pipeline *p, spc__entry **list,
                                    bool continues, bool *overturned)
{
    int scenes = p->request->scene_count, near;
    int count = find_finalists(p, list, &near);
    timings *kept;

    *overturned = false;
    for (int i = 0; i < p->candidates->count; i++)
        /* Times of an earlier comparison are not comparable with those of this
         * one. */
        p->candidates->entries[i].side_us = 0;
    if (count < 2 || !has_new(list, count))
        return SPC_OK;
    if ((kept = calloc((size_t)count, sizeof(*kept))) == NULL)
        return spc__fail_memory(p->request->error, sizeof(*kept));
    put_aside(list, count, kept);
    spc_status status = run_interleaved(p, list, count);
    *overturned = status == SPC_OK &&
                  least_score(list + near, count - near, scenes) <=
                      (1 + SPC__TIE) * least_score(list, near, scenes);
    put_back(list, count, kept, *overturned && continues, scenes);
    /* Incomplete rounds are not comparable. */
    for (int i = 0; i < count && status != SPC_OK; i++)
        list[i]->side_us = 0;
    spc__record_list(p->record, list, count);
    free(kept);
    return status;
}

/* ---- the whole search ---------------------------------------------------- */

/* Drops the seeds that the database knows already. */
static int only_new(spc__entry **list, int count)
{
    int kept = 0;

    for (int i = 0; i < count; i++)
        if (list[i]->state == SPC__NEW)
            list[kept++] = list[i];
    return kept;
}

/* A batch of new candidates: the only work that a time budget may cut short.
 * Finals and confirmation always end, as a search without them has no
 * result. */
static spc_status explore(spc__pipeline *p, spc__entry **batch, int count)
{
    p->explores = true;
    spc_status status = spc__pipeline_run(p, batch, count);
    p->explores = false;
    return status;
}

/*
 * Runs from the first batch until no move reaches anything new, or the time is
 * over.
 */
static spc_status climb(spc__pipeline *p, spc__entry **batch, int count,
                        spc__entry **list)
{
    int scenes = p->request->scene_count;
    spc_status status = SPC_OK;

    do {
        if (count > 0 && (status = explore(p, batch, count)) == SPC_OK)
            status = halve(p, batch, count);
        if (status == SPC_OK)
            status = finals(p, list);
        if (status == SPC_OK)
            count = spc__next_moves(p->candidates, list,
                                    spc__rank_all(p->candidates, list, scenes),
                                    p->request, batch);
        /* With no move left the search is complete, however late it is. */
        p->is_cut |= count > 0 && spc__request_out_of_time(p->request, 0);
    } while (status == SPC_OK && count > 0 && !p->is_cut);
    return status;
}

/* Repeats until no unconfirmed candidate is faster. */
static spc_status climb_and_confirm(spc__pipeline *p, spc__entry **batch,
                                    int count, spc__entry **list)
{
    bool changed;
    spc_status status;
    int near;

    do {
        status = climb(p, batch, count, list);
        if (status == SPC_OK) {
            find_finalists(p, list, &near);
            status = confirm(p, list, near, &changed);
        }
        count = 0;
    } while (status == SPC_OK && changed);
    return status;
}

/* Climbs, confirms and compares; again from the new times if the comparison
 * overturned the order. Limits the number of attempts: on a machine whose clock
 * drifts all the time, each comparison may overturn the previous one. */
static spc_status find_winner(spc__pipeline *p, spc__entry **batch, int count,
                              spc__entry **list)
{
    enum { MOST = 3 };
    int scenes = p->request->scene_count;
    bool overturned = true;
    spc_status status = SPC_OK;

    for (int i = 0; i < MOST && overturned && status == SPC_OK; i++) {
        status = climb_and_confirm(p, batch, i == 0 ? count : 0, list);
        if (status == SPC_OK && spc__rank_all(p->candidates, list, scenes) == 0)
            status = spc__nobody_left(p->candidates, p->request, p->is_cut);
        if (status == SPC_OK)
            status = compare_finalists(p, list, i + 1 < MOST, &overturned);
    }
    return status;
}

/* Measures only the caller's candidates, each equally often. */
static spc_status compare(spc__pipeline *p, spc__entry **list, int count)
{
    int goal = spc__request_effort(p->request)->final;
    spc_status status = spc__pipeline_run(p, list, count);

    if (status == SPC_OK)
        status = spc__meter_again(p->meter, list, count, goal);
    spc__record_list(p->record, list, count);
    if (status == SPC_OK &&
        spc__rank(list, count, p->request->scene_count) == 0)
        status = spc__nobody_left(p->candidates, p->request, p->is_cut);
    return status;
}

spc_status spc__search(spc__pipeline *p)
{
    int count = 0;
    spc__entry **batch = spc__seeds(p->candidates, p->request, &count);
    spc__entry **list = calloc((size_t)p->candidates->count + 1, sizeof(*list));
    spc_status status;

    if (batch == NULL || list == NULL)
        status = spc__fail_memory(p->request->error, sizeof(*list));
    else if (p->request->options.wants != NULL)
        status = compare(p, batch, count);
    else
        status = find_winner(p, batch, only_new(batch, count), list);
    free(batch);
    free(list);
    return status;
}
