/* choice.c - who is faster than whom, and who wins. */
#include "search.h"

#include "error.h"
#include "lookup.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double spc__entry_score(const spc__run *run, const spc__entry *entry)
{
    double logs = 0;

    for (int s = 0; s < run->scene_count; s++)
        logs += log(entry->timings[s].median_us);
    return exp(logs / run->scene_count);
}

static double relative_spread(const spc__run *run, const spc__entry *entry)
{
    double most = 0;

    for (int s = 0; s < run->scene_count; s++)
        most = fmax(most,
                    entry->timings[s].spread_us / entry->timings[s].median_us);
    return most;
}

static int by_score(const void *a, const void *b, void *payload)
{
    const spc__run *run = payload;
    spc__entry *const *first = a, *const *second = b;
    double one = spc__entry_score(run, *first);
    double two = spc__entry_score(run, *second);

    if (one != two)
        return one < two ? -1 : 1;
    return *first < *second ? -1 : *first > *second;
}

int spc__rank(const spc__run *run, spc__entry **list, int count)
{
    int kept = 0;

    for (int i = 0; i < count; i++)
        if (list[i]->state == SPC__TIMED)
            list[kept++] = list[i];
    qsort_r(list, (size_t)kept, sizeof(*list), by_score, (void *)run);
    return kept;
}

int spc__rank_all(const spc__run *run, spc__entry **list)
{
    for (int i = 0; i < run->count; i++)
        list[i] = &run->entries[i];
    return spc__rank(run, list, run->count);
}

/* ---- the winner ---------------------------------------------------------- */

/* Among equals: a default before others (it must be beaten by something), then
 * fewer registers, less shared memory, and the order of the space. */
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

static bool are_tied(const spc__run *run, const spc__entry *best,
                     const spc__entry *other)
{
    double spread =
        fmax(relative_spread(run, best), relative_spread(run, other));

    return spc__entry_score(run, other) <=
           spc__entry_score(run, best) * (1 + fmin(spread, SPC__TIE));
}

/* The winner by rule among those that tie with the fastest. */
static const spc__entry *pick(const spc__run *run, spc__entry **ranked,
                              int count, char *reason, size_t bytes)
{
    const spc__entry *winner = ranked[0];
    int tied = 0;

    for (int i = 1; i < count; i++) {
        if (!spc__entry_has(run, ranked[i], spc__effort_of(run)->final, true) ||
            !are_tied(run, ranked[0], ranked[i]))
            continue;
        tied++;
        if (is_preferred(ranked[i], winner))
            winner = ranked[i];
    }
    int used =
        snprintf(reason, bytes,
                 "the fastest of %d by geometric mean "
                 "over %d scene%s",
                 count, run->scene_count, run->scene_count == 1 ? "" : "s");
    if (tied > 0)
        snprintf(reason + used, bytes - (size_t)used,
                 "; chosen by rule among %d within %.3g %%", tied + 1,
                 100 * SPC__TIE);
    return winner;
}

/* The default that a plan would take untuned: the first that compiles. NULL: it
 * is not among the candidates. */
static const spc__entry *untuned(const spc__run *run)
{
    const spc__entry *found = NULL;
    spc__pick *pick = calloc(1, sizeof(*pick));
    bool more = pick != NULL;

    for (int i = 0; more; i++) {
        found = NULL;
        if (spc__lookup_default(pick, run->ctx, run->conv, i) == SPC_OK)
            found = spc__run_find(run, pick->template_name, pick->config);
        more = found != NULL && found->trial.status == SPC__TRIAL_COMPILE;
    }
    free(pick);
    return found;
}

/* Where does the winner lose most against a scene's own best? */
static void find_worst(spc__run *run, const spc__entry *winner,
                       spc__entry **ranked, int count)
{
    spc_tune_report *report = run->report;

    for (int s = 0; s < run->scene_count; s++) {
        double best = winner->timings[s].median_us;
        for (int i = 0; i < count; i++)
            best = fmin(best, ranked[i]->timings[s].median_us);
        double ratio = winner->timings[s].median_us / best;
        if (ratio <= report->worst_ratio)
            continue;
        report->worst_ratio = ratio;
        snprintf(report->worst_scene, sizeof(report->worst_scene), "%s",
                 spc_scene_name(run->scenes[s]));
    }
}

void spc__choose(spc__run *run, spc__entry **list)
{
    spc_tune_report *report = run->report;
    int count = spc__rank_all(run, list);

    if (count == 0)
        return;
    const spc__entry *winner =
        pick(run, list, count, run->winner_reason, sizeof(run->winner_reason));
    const spc__entry *start = untuned(run);
    run->winner = winner;
    snprintf(report->winner, sizeof(report->winner), "%s %s",
             winner->trial.template_name, winner->config);
    report->winner_us = spc__entry_score(run, winner);
    if (start != NULL && start->state == SPC__TIMED)
        report->default_us = spc__entry_score(run, start);
    find_worst(run, winner, list, count);
}

spc_status spc__nobody_left(const spc__run *run)
{
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

    for (int i = 0; i < run->count; i++) {
        const spc__entry *entry = &run->entries[i];
        if (entry->state == SPC__FAILED)
            return spc__fail(
                run->error, of[entry->trial.status],
                "none of %d candidates can be used; '%s %s' "
                "fails (%s): %s",
                run->count, entry->trial.template_name, entry->config,
                spc__trial_status_name(entry->trial.status), entry->trial.note);
    }
    return spc__fail(run->error, SPC_EINTERNAL, "no candidate was tried");
}
