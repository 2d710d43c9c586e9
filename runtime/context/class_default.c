/* SPDX-License-Identifier: Apache-2.0 */
/*
 * class_default.c - chooses one configuration for each class of layers from the
 * measurements.
 *
 * For each problem, a configuration is rated by how much slower it is than the
 * best one. A configuration that was not timed on a problem counts as twice as
 * slow, so that one lucky problem does not decide.
 */
#include "context/class_default.h"

#include "base/buf.h"
#include "base/error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ---------------------------------------------------------------- */

static const char channels[] = "class_channels";

/* Returns the smallest power of two that is not below it. */
static int64_t width_class(int64_t wide)
{
    int64_t power = 1;

    while (power < wide)
        power *= 2;
    return power;
}

void spc__class_key(spc__problem_key *out, const spc__problem_key *key)
{
    static const char *const kept[] = {"op", "dtype", "pass"};
    int64_t in = spc__attrs_number(&key->layer, "cin", 0);
    int64_t wide = spc__attrs_number(&key->layer, "cout", 0);

    memset(out, 0, sizeof(*out));
    spc__attrs_set_number(&out->layer, channels,
                          width_class(in > wide ? in : wide));
    for (int i = 0; i < 3; i++)
        if (spc__attrs_find(&key->layer, kept[i]) != NULL)
            spc__attrs_set_text(&out->layer, kept[i],
                                spc__attrs_text(&key->layer, kept[i], ""));
    if (spc__attrs_number(&key->layer, "groups", 1) > 1)
        spc__attrs_set_number(&out->layer, "grouped", 1);
    memcpy(out->device, key->device, sizeof(out->device));
    memcpy(out->target, key->target, sizeof(out->target));
}

bool spc__class_is(const spc__problem_key *key)
{
    return spc__attrs_find(&key->layer, channels) != NULL;
}

/* True for layers, which have channels, unlike maps and code. */
static bool is_layer(const spc__problem_key *key)
{
    return spc__attrs_find(&key->layer, "cin") != NULL &&
           spc__attrs_find(&key->layer, "template") == NULL;
}

/* ---- the problems of each class ------------------------------------------ */

typedef struct member {
    char *class; /* the key of the class as text */
    spc__problem_key key;
    spc__provenance from;
    const char *file;
    int64_t problem;
} member;

typedef struct members {
    member *at;
    int64_t count, capacity;
    spc_error *error;
} members;

/* The class as one text, for sorting. The caller frees it. */
static char *class_text(const spc__problem_key *class)
{
    spc__buf text = SPC__BUF_INIT;

    spc__buf_printf(&text, "%s|%s|", class->device, class->target);
    spc__attrs_format(&text, &class->layer);
    char *copy = text.failed ? NULL : strdup(spc__buf_text(&text));
    spc__buf_release(&text);
    return copy;
}

static spc_status reserve(members *all)
{
    if (all->count < all->capacity)
        return SPC_OK;
    int64_t capacity = all->capacity > 0 ? 2 * all->capacity : 64;
    size_t bytes = (size_t)capacity * sizeof(*all->at);
    member *at = realloc(all->at, bytes);
    if (at == NULL)
        return spc__fail_memory(all->error, bytes);
    all->at = at;
    all->capacity = capacity;
    return SPC_OK;
}

/* Collects the problems of layers that have a choice. */
static spc_status add_member(const spc__cache_row *row, void *payload)
{
    members *all = payload;
    spc_status status;

    if (!row->has_choice || !is_layer(&row->key))
        return SPC_OK;
    if ((status = reserve(all)) != SPC_OK)
        return status;
    member *next = &all->at[all->count];
    spc__class_key(&next->key, &row->key);
    if ((next->class = class_text(&next->key)) == NULL)
        return spc__fail_memory(all->error, sizeof(next->key));
    next->from = row->provenance;
    next->file = row->file;
    next->problem = row->problem_id;
    all->count++;
    return SPC_OK;
}

/* Sorts members so that those of a class are neighbours. */
static int by_class(const void *a, const void *b)
{
    const member *one = a, *two = b;
    int order = strcmp(one->class, two->class);

    /* Problems of a class keep the order of the database, so that the result is
     * reproducible. */
    return order != 0 ? order : (one->problem > two->problem) * 2 - 1;
}

static void release(members *all)
{
    for (int64_t i = 0; i < all->count; i++)
        free(all->at[i].class);
    free(all->at);
}

/* ---- the best of a class ------------------------------------------------- */

typedef struct contender {
    spc__trial trial; /* trial of the first problem that timed it */
    double behind;    /* sum of log(time / best time) */
    int measured;
} contender;

typedef struct contest {
    contender *at;
    int count, capacity;
} contest;

/* Finds the kernel of a trial among those counted so far. */
static contender *find(contest *all, const spc__trial *trial)
{
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->at[i].trial.template_name, trial->template_name) == 0 &&
            strcmp(all->at[i].trial.template_hash, trial->template_hash) == 0 &&
            spc__attrs_equal(&all->at[i].trial.config, &trial->config))
            return &all->at[i];
    return NULL;
}

/* Finds or adds the kernel of a trial. Returns NULL if memory ran out. */
static contender *claim(contest *all, const spc__trial *trial)
{
    contender *found = find(all, trial);

    if (found != NULL)
        return found;
    if (all->count == all->capacity) {
        int capacity = all->capacity > 0 ? 2 * all->capacity : 64;
        contender *at = realloc(all->at, (size_t)capacity * sizeof(*at));
        if (at == NULL)
            return NULL;
        all->at = at;
        all->capacity = capacity;
    }
    all->at[all->count] = (contender){.trial = *trial};
    return &all->at[all->count++];
}

/* True if the trial has a time that can be compared. */
static bool was_timed(const spc__trial *trial)
{
    return trial->status == SPC__TRIAL_OK && trial->samples > 0 &&
           trial->median_us > 0;
}

/* The fastest median of a problem. */
static double best_of(const spc__trial *trials, int count)
{
    double best = INFINITY;

    for (int i = 0; i < count; i++)
        if (was_timed(&trials[i]))
            best = fmin(best, trials[i].median_us);
    return best;
}

/* Adds to each kernel's score how far it is behind the fastest one of this
 * problem. */
static spc_status count_problem(contest *all, spc__cache *cache,
                                const member *of, spc_error *error)
{
    spc__trial *trials = NULL;
    int count = 0;
    spc_status status = spc__cache_trials_of(cache, of->file, of->problem,
                                             &trials, &count, error);
    double best = best_of(trials, count);

    for (int i = 0; i < count && status == SPC_OK; i++) {
        if (!was_timed(&trials[i]))
            continue;
        contender *it = claim(all, &trials[i]);
        if (it == NULL) {
            status = spc__fail_memory(error, sizeof(*it));
            break;
        }
        /* In logarithms: being twice as slow on one problem weighs as much as
         * being twice as fast on another. */
        it->behind += log(trials[i].median_us / best);
        it->measured++;
    }
    free(trials);
    return status;
}

/* A problem on which the kernel was not measured counts as if it were twice as
 * slow as the best one. */
static double score(const contender *it, int problems)
{
    return it->behind + (problems - it->measured) * log(2);
}

/* The kernel with the lowest score, or NULL. */
static const contender *winner(const contest *all, int problems)
{
    const contender *best = NULL;

    for (int i = 0; i < all->count; i++)
        if (best == NULL ||
            /* The first of equal scores wins, which is a fixed order. */
            score(&all->at[i], problems) < score(best, problems))
            best = &all->at[i];
    return best;
}

/* Code and launch belong to one layer, so they are not stored for the class. */
static spc_status store(spc__cache *cache, const member *of,
                        const contender *best, int problems, spc_error *error)
{
    spc__trial trial = best->trial;
    char reason[128];

    trial.artefact[0] = '\0';
    trial.launch.count = trial.resources.count = 0;
    snprintf(reason, sizeof(reason),
             "within %.1f %% of the best in the mean of %d problems",
             100 * (exp(score(best, problems) / problems) - 1), problems);
    spc_status status =
        spc__cache_put_trial(cache, &of->key, &trial, &of->from, error);
    return status == SPC_OK ? spc__cache_put_choice(cache, &of->key, &trial,
                                                    reason, &of->from, error)
                            : status;
}

/* Chooses for the problems at `of`, which are one class. */
static spc_status choose(spc__cache *cache, const member *of, int problems,
                         spc_error *error)
{
    contest all = {0};
    spc_status status = SPC_OK;

    for (int i = 0; i < problems && status == SPC_OK; i++)
        status = count_problem(&all, cache, &of[i], error);
    const contender *best = winner(&all, problems);
    if (status == SPC_OK && best != NULL)
        status = store(cache, of, best, problems, error);
    free(all.at);
    return status;
}

spc_status spc__class_defaults_add(spc__cache *cache, spc_error *error)
{
    members all = {.error = error};
    spc_status status = spc__cache_each(cache, add_member, &all, error);

    if (status == SPC_EDB) /* damaged records are skipped */
        status = SPC_OK;

    if (all.count > 0)
        qsort(all.at, (size_t)all.count, sizeof(*all.at), by_class);
    /* Members of a class are neighbours after the sort. */
    for (int64_t i = 0, end; i < all.count && status == SPC_OK; i = end) {
        for (end = i + 1; end < all.count &&
                          strcmp(all.at[end].class, all.at[i].class) == 0;)
            end++;
        status = choose(cache, &all.at[i], (int)(end - i), error);
    }
    release(&all);
    return status;
}
