/* SPDX-License-Identifier: Apache-2.0 */
/*
 * near.c - uses what the database knows about problems near that of a run.
 *
 * The same layer on another scene, or with a few more channels, has other
 * times, but a candidate that is far behind there is rarely the best here.
 * Replays of recorded searches gave both limits (docs/dev/experiments.md,
 * tuning).
 */
#include "tuner/search/near.h"

#include "context/related.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROBLEMS = 12, /* how many of the nearest problems are used */
    WINNERS = 3    /* problems whose winners start a search */
};

/* Problems farther than this (spc__choice.distance) are ignored. */
static const double far = 8;
/* A candidate this many times slower than the third best has lost. */
static const double lost = 1.3;

static bool is_timed(const spc__trial *trial)
{
    return trial->status == SPC__TRIAL_OK && trial->samples > 0;
}

/*
 * The third best time: on a busy host the best may be an outlier, by which all
 * others would lose. INFINITY if there are fewer trials, which say too little.
 */
static double third_of(const spc__trial *trials, int count)
{
    double best[3] = {INFINITY, INFINITY, INFINITY};

    for (int i = 0; i < count; i++) {
        double us = is_timed(&trials[i]) ? trials[i].median_us : INFINITY;
        for (int k = 0; k < 3; k++)
            /* Insertion into a sorted list of three. */
            if (us < best[k]) {
                double kept = best[k];
                best[k] = us;
                us = kept;
            }
    }
    return best[2];
}

/*
 * The least ratio of its time to `good`; infinite if the compiler's report
 * refused it, as its code would be much the same here. 0: no information.
 */
static double ratio_of(const spc__trial *trial, double good, bool same_channels)
{
    if (trial->status == SPC__TRIAL_CONSTRAINT)
        return same_channels ? INFINITY : 0;
    return is_timed(trial) ? (trial->median_us - trial->spread_us) / good : 0;
}

static bool have_same_channels(const spc__problem_key *a,
                               const spc__problem_key *b)
{
    return spc__attrs_number(&a->layer, "cin", 0) ==
               spc__attrs_number(&b->layer, "cin", 0) &&
           spc__attrs_number(&a->layer, "cout", 0) ==
               spc__attrs_number(&b->layer, "cout", 0);
}

/* Keeps the best known ratio of each candidate. */
static void note_trials(const spc__candidates *candidates,
                        const spc__trial *trials, int count, bool same_channels)
{
    double good = third_of(trials, count);

    for (int i = 0; i < count && isfinite(good); i++) {
        spc__entry *entry = spc__record_entry_of(candidates, &trials[i]);
        double ratio = ratio_of(&trials[i], good, same_channels);
        if (entry != NULL && ratio > 0 &&
            (entry->near_ratio == 0 || ratio < entry->near_ratio))
            entry->near_ratio = ratio;
    }
}

/* Notes how the candidates did on one near problem. */
static void note_problem(spc__cache *cache, const spc__problem_key *key,
                         const spc__candidates *candidates,
                         const spc__choice *choice)
{
    spc__trial *trials = NULL;
    spc_error error;
    int count = 0;

    /* Unreadable trials are ignored. */
    spc__cache_trials_of(cache, choice->file, choice->problem, &trials, &count,
                         &error);
    note_trials(candidates, trials, count,
                have_same_channels(&choice->key, key));
    free(trials);
}

/* True for another, near problem of this device, or for any near problem of
 * another device of its architecture. */
static bool is_near(const spc__choice *choice, const spc__problem_key *key)
{
    bool is_own = strcmp(choice->key.device, key->device) == 0;

    return (choice->match != SPC__MATCH_EXACT || !is_own) &&
           choice->distance <= far &&
           strcmp(choice->key.target, key->target) == 0;
}

/* Marks the winners of the nearest problems as starts, and collects ratios.
 * Choices come nearest first. */
static void recall_near(spc_ctx *ctx, const spc__problem_key *key,
                        const spc__candidates *candidates)
{
    spc__choice *found = calloc(PROBLEMS, sizeof(*found));
    spc_error error;
    int count = 0, winners = 0;

    if (found != NULL)
        spc__ctx_find_choices(ctx, key, found, PROBLEMS, &count, &error);
    for (int i = 0; i < count; i++) {
        if (!is_near(&found[i], key))
            continue;
        spc__entry *entry = spc__record_alike(candidates, &found[i].trial);
        if (entry != NULL && winners++ < WINNERS)
            entry->won_near = true;
        note_problem(ctx->cache, key, candidates, &found[i]);
    }
    free(found);
}

void spc__near_recall(const spc__record *record,
                      const spc__candidates *candidates)
{
    if (record->ctx->cache == NULL)
        return;
    for (int s = 0; s < record->scene_count; s++)
        recall_near(record->ctx, &record->keys[s], candidates);
    for (int i = 0; i < candidates->count; i++) {
        spc__entry *entry = &candidates->entries[i];
        /* A winner of a near problem is tried, even if it was slow on
         * another. */
        entry->lost_near = entry->near_ratio > lost && !entry->won_near;
    }
}
