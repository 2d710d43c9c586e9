/*
 * moves.c - what the search measures first, and where it goes on from there.
 *
 * A move changes one parameter; or two, where one alone is refused by the
 * constraints or fails. For parameters share what a multiprocessor has: tiles
 * of more rows may be legal only with a shorter pipeline, and who moves one
 * parameter at a time never gets there. Moves start at the best, at what ties
 * with it and has no better neighbour, and at the best of every template that
 * is not far behind: another template may gain more from its parameters.
 */
#include "search.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The best of a template this far behind the best of all is not given up: its
 * own parameters have been seen to gain as much. */
static const double rival = 1.15;

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

/* Can `from` take the value that `to` has of parameter i, and nothing else? A
 * failure says that it cannot only if `from` itself works. */
static bool can_take(const spc__run *run, const spc__entry *from,
                     const spc__entry *to, int i)
{
    for (int k = 0; k < run->count; k++) {
        const spc__entry *entry = &run->entries[k];
        if (distance(from, entry) == 1 && has_value_of(entry, to, i))
            return entry->state != SPC__FAILED || from->state == SPC__FAILED;
    }
    return false;
}

/* One parameter changes; or two, of which one cannot change alone. */
static bool is_move(const spc__run *run, const spc__entry *from,
                    const spc__entry *to)
{
    int far = distance(from, to);

    if (far != 2)
        return far == 1;
    for (int i = 0; i < to->candidate->config.count; i++)
        if (!has_value_of(from, to, i) && !can_take(run, from, to, i))
            return true;
    return false;
}

static const spc__entry *default_of(const spc__run *run,
                                    const spc__entry *entry)
{
    for (int i = 0; i < run->count; i++)
        if (run->entries[i].candidate->tpl == entry->candidate->tpl &&
            run->entries[i].candidate->is_default)
            return &run->entries[i];
    return NULL;
}

static bool is_seed(const spc__run *run, int i)
{
    const spc__entry *entry = &run->entries[i];
    const spc__entry *own = default_of(run, entry);
    int sample = spc__effort_of(run)->sample;

    if (sample < 0 || run->count <= sample || own == NULL)
        return true;
    if (sample > 0 && (int64_t)i * sample / run->count !=
                          (int64_t)(i + 1) * sample / run->count)
        return true;
    /* Who times nothing cannot climb: the first step is taken blindly. */
    return run->options.stage != SPC_STAGE_TIME && is_move(run, own, entry);
}

spc__entry **spc__run_seeds(const spc__run *run, int *count)
{
    spc__entry **list = calloc((size_t)run->count + 1, sizeof(*list));

    *count = 0;
    for (int i = 0; list != NULL && i < run->count; i++)
        if (run->entries[i].candidate->is_default)
            list[(*count)++] = &run->entries[i];
    for (int i = 0; list != NULL && i < run->count; i++)
        if (!run->entries[i].candidate->is_default && is_seed(run, i))
            list[(*count)++] = &run->entries[i];
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

/* Unknown ones that a move from `from` leads to, appended to list. */
static int add_moves(const spc__run *run, const spc__entry *from,
                     spc__entry **list, int count)
{
    for (int i = 0; i < run->count; i++) {
        spc__entry *to = &run->entries[i];
        if (to->state == SPC__NEW && is_move(run, from, to) &&
            !contains(list, count, to))
            list[count++] = to;
    }
    return count;
}

/* Does the search climb on from number i of all timed ones? */
static bool is_start(const spc__run *run, spc__entry *const *ranked, int i)
{
    double behind =
        spc__entry_score(run, ranked[i]) / spc__entry_score(run, ranked[0]);
    bool first = true; /* of its template */

    for (int k = 0; k < i && behind <= rival; k++) {
        int far = distance(ranked[k], ranked[i]);
        if (far == 1)
            return false;
        first &= far == INT_MAX;
    }
    return behind <= (first ? rival : 1 + SPC__TIE);
}

/* A default that fails says nothing about its template's other candidates. */
static bool is_failed_start(const spc__run *run, const spc__entry *entry)
{
    if (!entry->candidate->is_default || entry->state != SPC__FAILED)
        return false;
    for (int i = 0; i < run->count; i++)
        if (run->entries[i].state == SPC__TIMED &&
            distance(&run->entries[i], entry) != INT_MAX)
            return false;
    return true;
}

int spc__next_moves(const spc__run *run, spc__entry *const *ranked,
                    int ranked_count, spc__entry **list)
{
    int count = 0;

    for (int i = 0; i < ranked_count; i++)
        if (is_start(run, ranked, i))
            count = add_moves(run, ranked[i], list, count);
    for (int i = 0; i < run->count; i++)
        if (is_failed_start(run, &run->entries[i]))
            count = add_moves(run, &run->entries[i], list, count);
    return count;
}
