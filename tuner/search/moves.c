/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moves.c - chooses the first candidates of the search, and the next ones.
 *
 * A move changes one parameter, or two if constraints refuse the change of one
 * alone or if it fails. Parameters share the resources of a multiprocessor:
 * tiles of more rows may be legal only with a shorter pipeline, which single
 * moves never reach. Moves start at the best, at those that tie with it and
 * have no better neighbour, and at the best of every template that is not far
 * behind, as another template may gain more from its parameters.
 */
#include "tuner/search/moves.h"

#include "tuner/search/choice.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Quick skips a change that cost at least this much wherever it was tried:
 * parameters interact, but rarely enough to turn such a loss into a gain.
 */
static const double costly = 1.07;

static bool has_value_of(const spc__entry *a, const spc__entry *b, int i)
{
    return strcmp(a->candidate->config.at[i].text,
                  b->candidate->config.at[i].text) == 0;
}

/* The number of parameters in which two candidates differ; INT_MAX if they are
 * not of one template. */
static int distance(const spc__entry *a, const spc__entry *b)
{
    int count = a->candidate->config.count, differ = 0;

    if (a->candidate->tpl != b->candidate->tpl ||
        b->candidate->config.count != count)
        return INT_MAX;
    for (int i = 0; i < count; i++)
        differ += !has_value_of(a, b, i);
    return differ;
}

/*
 * True if `from` can take `to`'s value of parameter i alone. A failed candidate
 * counts as impossible only if `from` itself works.
 */
static bool can_take(const spc__candidates *candidates, const spc__entry *from,
                     const spc__entry *to, int i)
{
    for (int k = 0; k < candidates->count; k++) {
        const spc__entry *entry = &candidates->entries[k];
        if (distance(from, entry) == 1 && has_value_of(entry, to, i))
            return entry->state != SPC__FAILED || from->state == SPC__FAILED;
    }
    return false;
}

/* True if one parameter changes; or two, if one of them cannot change alone. */
static bool is_move(const spc__candidates *candidates, const spc__entry *from,
                    const spc__entry *to)
{
    int far = distance(from, to);

    if (far != 2)
        return far == 1;
    for (int i = 0; i < to->candidate->config.count; i++)
        if (!has_value_of(from, to, i) && !can_take(candidates, from, to, i))
            return true;
    return false;
}

/* The default of the entry's own template, or NULL if it is not admitted. */
static const spc__entry *default_of(const spc__candidates *candidates,
                                    const spc__entry *entry)
{
    for (int i = 0; i < candidates->count; i++)
        if (candidates->entries[i].candidate->tpl == entry->candidate->tpl &&
            candidates->entries[i].candidate->is_default)
            return &candidates->entries[i];
    return NULL;
}

/* True if candidate i belongs to the effort's sample of the space. A sample
 * below zero takes all; zero takes none, except of a template that has no
 * default here. */
static bool is_seed(const spc__candidates *candidates,
                    const spc__request *request, int i)
{
    const spc__entry *entry = &candidates->entries[i];
    const spc__entry *own = default_of(candidates, entry);
    int sample = spc__request_effort(request)->sample;

    /* A template without a default gives no start from which moves could reach
     * its candidates, so they all are seeds. */
    if (sample < 0 || candidates->count <= sample || own == NULL)
        return true;
    /* True for `sample` indices, spread evenly over the order of the space,
     * which lists one template after the other. */
    if (sample > 0 && (int64_t)i * sample / candidates->count !=
                          (int64_t)(i + 1) * sample / candidates->count)
        return true;
    /*
     * Stages that time nothing cannot climb, so they take the first moves
     * blindly.
     */
    return request->options.stage != SPC_STAGE_TIME &&
           is_move(candidates, own, entry);
}

/* Lists the caller's candidates, in the order of the space. */
static int list_wanted(spc__entry **list, const spc__candidates *candidates,
                       const spc_tune_options *options)
{
    int count = 0;

    for (int i = 0; i < candidates->count; i++) {
        spc__entry *entry = &candidates->entries[i];
        if (options->wants(entry->trial.template_name, entry->config,
                           options->payload))
            list[count++] = entry;
    }
    return count;
}

/* Ranks of seeds: lower ones are compiled first. */
enum { DEFAULTS, KNOWN, STEPS, SAMPLED, RANKS };

/*
 * The likely start of the search: the candidate that serves now or won on near
 * problems, otherwise the untuned one. Its moves are added to the seeds, and
 * compile while the worker starts.
 */
static const spc__entry *likely_start(const spc__candidates *candidates,
                                      const spc__entry *untuned)
{
    for (int i = 0; i < candidates->count; i++)
        if (candidates->entries[i].serves)
            return &candidates->entries[i];
    for (int i = 0; i < candidates->count; i++)
        if (candidates->entries[i].won_near)
            return &candidates->entries[i];
    return untuned;
}

/* Returns the rank of candidate i, or RANKS if it is not a seed. */
static int rank_of(const spc__candidates *candidates,
                   const spc__request *request, const spc__entry *untuned,
                   const spc__entry *start, int i)
{
    const spc__entry *entry = &candidates->entries[i];

    if (entry->candidate->is_default)
        /* The untuned one is measured even so: the report compares the winner
         * with it. */
        return entry->lost_near && entry != untuned ? RANKS : DEFAULTS;
    if (entry->serves || entry->won_near)
        return KNOWN;
    if (request->options.stage == SPC_STAGE_TIME && start != NULL &&
        /* A start that is not new already has times, so the search finds its
         * moves itself and can skip some. */
        start->state == SPC__NEW && !entry->lost_near &&
        is_move(candidates, start, entry))
        return STEPS;
    return is_seed(candidates, request, i) ? SAMPLED : RANKS;
}

spc__entry **spc__seeds(const spc__candidates *candidates,
                        const spc__request *request, int *count)
{
    spc__entry **list = calloc((size_t)candidates->count + 1, sizeof(*list));
    const spc__entry *untuned = spc__untuned(request, candidates);
    const spc__entry *start = likely_start(candidates, untuned);

    *count = 0;
    if (list != NULL && request->options.wants != NULL) {
        *count = list_wanted(list, candidates, &request->options);
        return list;
    }
    for (int rank = 0; list != NULL && rank < RANKS; rank++)
        for (int i = 0; i < candidates->count; i++)
            if (rank_of(candidates, request, untuned, start, i) == rank)
                list[(*count)++] = &candidates->entries[i];
    return list;
}

static bool contains(spc__entry *const *list, int count,
                     const spc__entry *entry)
{
    int i = 0;

    while (i < count && list[i] != entry)
        i++;
    return i < count;
}

/* The parameter in which the two differ, if it is only one; otherwise -1. */
static int changed(const spc__entry *from, const spc__entry *to)
{
    int i = 0;

    if (distance(from, to) != 1)
        return -1;
    /* Ends, as exactly one parameter differs. */
    while (has_value_of(from, to, i))
        i++;
    return i;
}

/*
 * The time of the other relative to `before`, reduced by the uncertainty of
 * their spread.
 */
static double cost_of(const spc__entry *before, const spc__entry *after,
                      int scenes)
{
    return spc__entry_score(after, scenes) / spc__entry_score(before, scenes) *
           (1 - spc__relative_spread(after, scenes)) /
           (1 + spc__relative_spread(before, scenes));
}

/*
 * The least cost of the same change of parameter i elsewhere; INFINITY if it
 * was not tried.
 */
static double least_cost(const spc__candidates *candidates,
                         const spc__entry *from, const spc__entry *to, int i,
                         int scenes)
{
    double least = INFINITY;

    for (int b = 0; b < candidates->count; b++) {
        const spc__entry *after = &candidates->entries[b];
        if (after->state != SPC__TIMED || distance(after, to) == INT_MAX ||
            !has_value_of(after, to, i))
            continue;
        for (int a = 0; a < candidates->count; a++) {
            const spc__entry *before = &candidates->entries[a];
            if (before->state == SPC__TIMED && changed(before, after) == i &&
                has_value_of(before, from, i))
                least = fmin(least, cost_of(before, after, scenes));
        }
    }
    return least;
}

/*
 * True if a move is not worth trying: the candidate lost on near problems, or
 * the same change cost too much wherever it was tried.
 */
static bool is_spared(const spc__candidates *candidates, const spc__entry *from,
                      const spc__entry *to, int scenes)
{
    int i = changed(from, to);

    if (to->lost_near)
        return true;
    if (i < 0)
        return false;
    /* If it was tried nowhere, its cost is unknown, which is a reason to try
     * it. */
    double cost = least_cost(candidates, from, to, i, scenes);
    return isfinite(cost) && cost > costly;
}

/* Appends the new candidates that a move from `from` reaches. */
static int add_moves(const spc__candidates *candidates, const spc__entry *from,
                     int scenes, bool spares, spc__entry **list, int count)
{
    for (int i = 0; i < candidates->count; i++) {
        spc__entry *to = &candidates->entries[i];
        if (to->state == SPC__NEW && is_move(candidates, from, to) &&
            !contains(list, count, to) &&
            !(spares && is_spared(candidates, from, to, scenes)))
            list[count++] = to;
    }
    return count;
}

/* True if the search should continue from number i of all timed ones. */
static bool is_start(spc__entry *const *ranked, int i, int scenes)
{
    double behind = spc__entry_score(ranked[i], scenes) /
                    spc__entry_score(ranked[0], scenes);
    bool first = true; /* first entry of its template */

    /* A faster neighbour is the better start, as it reaches nearly the same
     * candidates. */
    for (int k = 0; k < i && behind <= SPC__RIVAL; k++) {
        int far = distance(ranked[k], ranked[i]);
        if (far == 1)
            return false;
        first &= far == INT_MAX;
    }
    return behind <= (first ? SPC__RIVAL : 1 + SPC__TIE);
}

/* A failed default says nothing about its template's other candidates. */
static bool is_failed_start(const spc__candidates *candidates,
                            const spc__entry *entry)
{
    if (!entry->candidate->is_default || entry->state != SPC__FAILED)
        return false;
    for (int i = 0; i < candidates->count; i++)
        if (candidates->entries[i].state == SPC__TIMED &&
            distance(&candidates->entries[i], entry) != INT_MAX)
            return false;
    return true;
}

int spc__next_moves(const spc__candidates *candidates,
                    spc__entry *const *ranked, int ranked_count,
                    const spc__request *request, spc__entry **list)
{
    bool spares = request->options.effort == SPC_EFFORT_QUICK;
    int scenes = request->scene_count, count = 0;

    for (int i = 0; i < ranked_count; i++)
        if (is_start(ranked, i, scenes))
            count =
                add_moves(candidates, ranked[i], scenes, spares, list, count);
    for (int i = 0; i < candidates->count; i++)
        if (is_failed_start(candidates, &candidates->entries[i]))
            count = add_moves(candidates, &candidates->entries[i], scenes,
                              spares, list, count);
    return count;
}
