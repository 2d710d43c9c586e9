/* SPDX-License-Identifier: Apache-2.0 */
/* choice.c - ranks candidates and picks the winner. */
#include "tuner/search/choice.h"

#include "base/error.h"
#include "base/plural.h"
#include "plan/lookup.h"
#include "tuner/meter.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double spc__relative_spread(const spc__entry *entry, int scenes)
{
    double most = 0;

    for (int s = 0; s < scenes; s++)
        most = fmax(most,
                    entry->timings[s].spread_us / entry->timings[s].median_us);
    return most;
}

/* Equal scores follow the order of the space, since qsort_r is not stable and a
 * resumed run must rank as the first one did. */
static int by_score(const void *a, const void *b, void *payload)
{
    const int *scenes = payload;
    spc__entry *const *first = a, *const *second = b;
    double one = spc__entry_score(*first, *scenes);
    double two = spc__entry_score(*second, *scenes);

    if (one != two)
        return one < two ? -1 : 1;
    return *first < *second ? -1 : *first > *second;
}

int spc__rank(spc__entry **list, int count, int scenes)
{
    int kept = 0;

    for (int i = 0; i < count; i++)
        if (list[i]->state == SPC__TIMED)
            list[kept++] = list[i];
    qsort_r(list, (size_t)kept, sizeof(*list), by_score, &scenes);
    return kept;
}

int spc__rank_all(const spc__candidates *candidates, spc__entry **list,
                  int scenes)
{
    for (int i = 0; i < candidates->count; i++)
        list[i] = &candidates->entries[i];
    return spc__rank(list, candidates->count, scenes);
}

/* ---- the winner ---------------------------------------------------------- */

/*
 * Ties prefer a default (another candidate must be faster to replace it), then
 * fewer registers, less shared memory, and the order of the space.
 */
static bool is_preferred(const spc__entry *a, const spc__entry *b)
{
    int64_t ra = spc__attrs_number(&a->trial.resources, "registers", 0);
    int64_t rb = spc__attrs_number(&b->trial.resources, "registers", 0);
    int64_t sa = spc__attrs_number(&a->trial.launch, "shared", 0);
    int64_t sb = spc__attrs_number(&b->trial.launch, "shared", 0);

    if (a->candidate->is_default != b->candidate->is_default)
        return a->candidate->is_default;
    if (ra != rb)
        return ra < rb;
    return sa != sb ? sa < sb : a < b;
}

double spc__final_score(const spc__entry *entry, int scenes)
{
    return entry->side_us > 0 ? entry->side_us
                              : spc__entry_score(entry, scenes);
}

/* True if their distance is within the spread of their samples, and within
 * SPC__TIE however noisy the host is. */
static bool are_tied(const spc__entry *best, const spc__entry *other,
                     int scenes)
{
    double spread = fmax(spc__relative_spread(best, scenes),
                         spc__relative_spread(other, scenes));

    return spc__final_score(other, scenes) <=
           spc__final_score(best, scenes) * (1 + fmin(spread, SPC__TIE));
}

/*
 * Picks the winner by that rule among those that tie with the fastest of the
 * first `finalists` and are not slower than the untuned plan; `count` have been
 * timed.
 */
static void pick(spc__winner *out, const spc__request *request,
                 spc__entry *const *ranked, int finalists, int count,
                 double untuned_us)
{
    int final = spc__request_effort(request)->final;
    int scenes = request->scene_count, tied = 0;

    out->entry = ranked[0];
    for (int i = 1; i < finalists; i++) {
        /* A tie counts only between candidates with all samples: few samples
         * have wide spreads, which tie by chance. */
        if (!spc__entry_has(ranked[i], scenes, final, true) ||
            !are_tied(ranked[0], ranked[i], scenes) ||
            (untuned_us > 0 &&
             spc__final_score(ranked[i], scenes) > untuned_us))
            continue;
        tied++;
        if (is_preferred(ranked[i], out->entry))
            out->entry = ranked[i];
    }
    int used = snprintf(out->reason, sizeof(out->reason),
                        "the fastest of %d by geometric mean over %s", count,
                        spc__count(scenes, "scene"));
    if (tied > 0)
        snprintf(out->reason + used, sizeof(out->reason) - (size_t)used,
                 "; chosen by rule among %d within %.3g %%", tied + 1,
                 100 * SPC__TIE);
}

const spc__entry *spc__untuned(const spc__request *request,
                               const spc__candidates *candidates)
{
    const spc__entry *found = NULL;
    spc__pick *pick = calloc(1, sizeof(*pick));
    bool more = pick != NULL;

    for (int i = 0; more; i++) {
        found = NULL;
        if (spc__lookup_default(pick, request->ctx, request->conv,
                                spc__request_rows(request), i) == SPC_OK)
            found = spc__candidates_find(candidates, pick->template_name,
                                         pick->config);
        /* Skips defaults that do not compile, as a plan does. */
        more = found != NULL && found->trial.status == SPC__TRIAL_COMPILE;
    }
    free(pick);
    return found;
}

/* By the times of the comparison side by side. */
static int by_side(const void *a, const void *b)
{
    double one = (*(spc__entry *const *)a)->side_us;
    double two = (*(spc__entry *const *)b)->side_us;

    return (one > two) - (one < two);
}

/*
 * Moves candidates that have passed every test to the front, in order. An
 * interrupted search may have timed others. Returns their number.
 */
static int confirmed_first(spc__entry **ranked, int count, int scenes)
{
    int found = 0;

    for (int i = 0; i < count; i++) {
        spc__entry *entry = ranked[i];
        if (!spc__entry_has(entry, scenes, 0, true))
            continue;
        memmove(ranked + found + 1, ranked + found,
                (size_t)(i - found) * sizeof(*ranked));
        ranked[found++] = entry;
    }
    return found;
}

/*
 * Moves the finalists to the front, best first, and returns their number; all
 * if there are no finalists.
 */
static int finalists_first(spc__entry **ranked, int count)
{
    int found = 0;

    for (int i = 0; i < count; i++) {
        spc__entry *entry = ranked[i];
        if (entry->side_us <= 0)
            continue;
        memmove(ranked + found + 1, ranked + found,
                (size_t)(i - found) * sizeof(*ranked));
        ranked[found++] = entry;
    }
    if (found == 0)
        return count;
    qsort(ranked, (size_t)found, sizeof(*ranked), by_side);
    return found;
}

/* Finds the scene on which the winner loses most against the scene's best. */
static void find_worst(spc__winner *out, int scenes, spc__entry *const *ranked,
                       int count)
{
    for (int s = 0; s < scenes; s++) {
        double own = out->entry->timings[s].median_us, best = own;
        for (int i = 0; i < count; i++)
            best = fmin(best, ranked[i]->timings[s].median_us);
        if (own / best <= out->worst_ratio)
            continue;
        out->worst_ratio = own / best;
        out->worst_scene = s;
    }
}

/*
 * Keeps the choice of a network's replays even if another is slightly faster
 * alone: only another replay may change it.
 */
static void keep_networks(spc__winner *out, spc__entry *const *confirmed,
                          int count, int scenes)
{
    double most = spc__final_score(out->entry, scenes) * SPC__NEAR_BEST;

    for (int i = 0; i < count; i++)
        if (confirmed[i]->in_network &&
            spc__final_score(confirmed[i], scenes) <= most) {
            out->entry = confirmed[i];
            snprintf(out->reason, sizeof(out->reason),
                     SPC__IN_NETWORK ", and near the fastest alone");
        }
}

/*
 * The time of the untuned kernel from the same comparison, as times of
 * different moments give no valid ratio. 0 if it was not part of it.
 */
static double untuned_beside(const spc__entry *start, const spc__entry *entry,
                             int scenes)
{
    bool is_comparable =
        start != NULL && start->state == SPC__TIMED &&
        (start == entry || (start->side_us > 0) == (entry->side_us > 0));

    return is_comparable ? spc__final_score(start, scenes) : 0;
}

spc_status spc__choose(spc__winner *out, const spc__request *request,
                       const spc__candidates *candidates)
{
    spc__entry **ranked =
        calloc((size_t)candidates->count + 1, sizeof(spc__entry *));
    int scenes = request->scene_count;

    memset(out, 0, sizeof(*out));
    if (ranked == NULL)
        return spc__fail_memory(request->error, sizeof(spc__entry *));
    int count = spc__rank_all(candidates, ranked, scenes);
    /* Without a confirmed candidate there is no winner, which is no error: an
     * interrupted run stores its trials and chooses the next time. */
    int confirmed = confirmed_first(ranked, count, scenes);
    if (confirmed > 0) {
        const spc__entry *start = spc__untuned(request, candidates);
        int finalists = finalists_first(ranked, confirmed);
        pick(out, request, ranked, finalists, count,
             untuned_beside(start, ranked[0], scenes));
        keep_networks(out, ranked, confirmed, scenes);
        out->us = spc__final_score(out->entry, scenes);
        out->default_us = untuned_beside(start, out->entry, scenes);
        find_worst(out, scenes, ranked, count);
    }
    free(ranked);
    return SPC_OK;
}

spc_status spc__nobody_left(const spc__candidates *candidates,
                            const spc__request *request, bool is_cut)
{
    spc_error *error = request->error;
    static const spc_status of[] = {
        [SPC__TRIAL_OK] = SPC_EINTERNAL,
        [SPC__TRIAL_CONSTRAINT] = SPC_EUNSUPPORTED,
        [SPC__TRIAL_TEMPLATE] = SPC_ETEMPLATE,
        [SPC__TRIAL_COMPILE] = SPC_ECOMPILE,
        [SPC__TRIAL_TIMEOUT] = SPC_ETIMEOUT,
        [SPC__TRIAL_LAUNCH] = SPC_EDEVICE,
        [SPC__TRIAL_FAULT] = SPC_EDEVICE,
        [SPC__TRIAL_WRONG] = SPC_EWRONG,
    };

    for (int i = 0; i < candidates->count; i++) {
        const spc__entry *entry = &candidates->entries[i];
        if (entry->state == SPC__FAILED)
            return spc__fail(
                error, of[entry->trial.status],
                "none of %d candidates can be used; '%s %s' "
                "fails (%s): %s",
                candidates->count, entry->trial.template_name, entry->config,
                spc__trial_status_name(entry->trial.status), entry->trial.note);
    }
    if (is_cut)
        return spc__fail(error, SPC_ETIMEOUT,
                         "no candidate could be measured within the budget of "
                         "%g s and the limit of %g s for each: compiled code "
                         "is kept for a run with more time",
                         request->options.budget_s, request->options.limit_s);
    return spc__fail(error, SPC_EINTERNAL, "no candidate was tried");
}
