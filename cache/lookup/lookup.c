/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.c - finds the choices that match a problem.
 *
 * There are two ways. The fast one queries every layer for the exact key with
 * the unique index. The other ranks the choices of the family (similar.c) by
 * match, distance, median and layer, and reads only the returned ones in full.
 * It ranks the records of the problem's own layer and target and, unless these
 * fill the list with better matches, the near ones from the trees. Distances
 * are measured to the middle of a record's buckets, so equal keys are equally
 * far in every layer.
 *
 * A problem may have a substitute, another problem that the same configurations
 * serve. If the problem's own layer has no match, the substitute is ranked into
 * the same list. Records of both are read in full at the end, so a second query
 * costs a ranking but no reading.
 */
#include "cache/cache_internal.h"

#include "base/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEIGHBOURS = 2 /* buckets */ };

/* The query, as numbers. */
typedef struct question {
    const spc__problem_key *key;
    bool is_substitute;
    spc__kd_point point;
    double middles[SPC__FEATURES_MAX];
} question;

/* A candidate and its rank. */
typedef struct found {
    spc__similar_choice record;
    const question *ask;
    spc__match match;
    double distance;
    bool yields; /* ranks after equally near ones */
} found;

typedef struct top_list {
    found *best; /* sorted, best first */
    int count;
    int capacity;
} top_list;

/* Computes once what each comparison with a record needs. */
static question ask(const spc__problem_key *key, bool is_substitute)
{
    question out = {.key = key,
                    .is_substitute = is_substitute,
                    .point.count = key->feature_count};

    for (int i = 0; i < key->feature_count; i++) {
        out.point.at[i] = spc__feature_coordinate(&key->features[i]);
        out.point.weight[i] = key->features[i].weight;
        out.middles[i] = spc__feature_middle(&key->features[i]);
    }
    return out;
}

/* Rates a record of the same layer and target by the farthest of its
 * buckets. */
static spc__match match_of(const spc__similar_choice *record,
                           const question *ask)
{
    double farthest = 0;

    for (int i = 0; i < ask->key->feature_count; i++) {
        double width = ask->key->features[i].width;
        if (width > 0)
            farthest = fmax(farthest,
                            fabs(record->middles[i] - ask->middles[i]) / width);
    }
    if (farthest > NEIGHBOURS + 0.5) /* 0.5 allows for rounding */
        return SPC__MATCH_NEAREST;
    return farthest < 0.5 ? SPC__MATCH_EXACT : SPC__MATCH_BUCKET;
}

/* The order of the list. Later rules decide ties of the earlier ones; the last
 * makes the order total, so a look-up gives the same result each time. */
static bool is_better(const found *one, const found *other)
{
    if (one->match != other->match)
        return one->match < other->match;
    if (one->distance != other->distance)
        return one->distance < other->distance;
    if (one->ask->is_substitute != other->ask->is_substitute)
        return other->ask->is_substitute;
    if (one->yields != other->yields)
        return other->yields;
    if (one->record.median_us != other->record.median_us)
        return one->record.median_us < other->record.median_us;
    if (one->record.layer != other->record.layer)
        return one->record.layer < other->record.layer;
    return one->record.problem < other->record.problem;
}

/* Inserts in order. Keeps the records of one problem from several layers, since
 * only the caller can find out which can serve. */
static void rank(top_list *top, const found *next)
{
    found *best = top->best;
    int at = top->count;

    while (at > 0 && is_better(next, &best[at - 1]))
        at--;
    /* The record is worse than all records of a full list. */
    if (at == top->capacity)
        return;
    if (top->count < top->capacity)
        top->count++;
    memmove(&best[at + 1], &best[at],
            (size_t)(top->count - 1 - at) * sizeof(*best));
    best[at] = *next;
}

void spc__similar_read(spc__similar_choice *out, sqlite3_stmt *stmt, int layer)
{
    double median = spc__column_real(stmt, 1);
    bool timed = sqlite3_column_int(stmt, 2) > 0 && !isnan(median);

    *out = (spc__similar_choice){
        .problem = sqlite3_column_int64(stmt, 0),
        .layer = layer,
        .seal = -1,
        /* Untimed choices rank last. */
        .median_us = timed ? median : INFINITY,
    };
}

/* Ranks the choice of exactly this key in one layer, if there is one. */
static spc_status rank_exact(top_list *top, spc__cache *cache, int at,
                             const question *ask, spc_error *error)
{
    spc__layer *layer = &cache->layers[at];
    sqlite3_stmt *stmt;
    bool row = false;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_EXACT_CHOICE, error);

    if (status != SPC_OK)
        return status;
    spc__bind_key(stmt, cache, ask->key);
    status = spc__layer_step(&row, layer, stmt, "read", error);
    if (row) {
        found next = {
            .ask = ask, .match = SPC__MATCH_EXACT, .yields = layer->yields};
        spc__similar_read(&next.record, stmt, at);
        rank(top, &next);
    }
    spc__sql_done(stmt);
    return status;
}

/* Returns where to report the next failure: only the first one is reported. */
static spc_error *unless(spc_status trouble, spc_error *error)
{
    return trouble == SPC_OK ? error : NULL;
}

/* Queries every layer, even after one fails, since the records of the others
 * count. */
static spc_status rank_all_exact(top_list *top, spc__cache *cache,
                                 const question *ask, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < cache->count; i++) {
        spc_status one = rank_exact(top, cache, i, ask, unless(status, error));
        if (status == SPC_OK)
            status = one;
    }
    return status;
}

/* ---- near records -------------------------------------------------------- */

/* The state of ranking the choices of one target. */
typedef struct ranking {
    top_list *top;
    const spc__cache *cache;
    const spc__similar_list *all;
    const question *ask;
    double extra; /* distance that another target adds */
} ranking;

static void rank_own(top_list *top, const spc__cache *cache,
                     const spc__similar_choice *record, const question *ask)
{
    spc__match match = match_of(record, ask);
    double distance = match == SPC__MATCH_EXACT
                          ? 0
                          : spc__kd_distance(&ask->point, record->middles);

    rank(top, &(found){*record, ask, match, distance,
                       cache->layers[record->layer].yields});
}

/* Returns the largest distance at which a record of another layer can enter the
 * list, or a negative number if none can. */
static double reach_of(const top_list *top, double extra)
{
    const double rounding = 1e-9; /* rank() rejects records that are too far */
    const found *worst = &top->best[top->count - 1];

    if (top->count < top->capacity)
        return INFINITY;
    return worst->match == SPC__MATCH_NEAREST
               ? worst->distance - extra + rounding
               : -1;
}

/* Ranks a record that the tree has found. Returns the distance up to which the
 * search continues. */
static double rank_other(int64_t i, void *payload)
{
    const ranking *to = payload;
    const spc__similar_choice *record = &to->all->at[i];

    /* The problem's own records were ranked by rank_own. */
    if (i < to->all->own_first || i >= to->all->own_end)
        rank(to->top, &(found){*record, to->ask, SPC__MATCH_NEAREST,
                               to->extra + spc__kd_distance(&to->ask->point,
                                                            record->middles),
                               to->cache->layers[record->layer].yields});
    return reach_of(to->top, to->extra);
}

/* Searches the key's own target first, as its matches keep the later searches
 * short. */
static void rank_targets(top_list *top, const spc__cache *cache,
                         const spc__similar_list *all, const question *ask,
                         bool own_target)
{
    for (int i = 0; i < all->root_count; i++) {
        bool is_own = all->roots[i].target_word == all->target_word;
        ranking to = {top, cache, all, ask, is_own ? 0 : SPC__DISTANCE_TARGET};
        double reach = reach_of(top, to.extra);
        if (is_own == own_target && reach >= 0)
            spc__kd_walk(all->trees, all->roots[i].node, &ask->point, reach,
                         rank_other, &to);
    }
}

/* Ranks the choices of the family. Those of the problem's own layer come first,
 * because they shorten the search among the others. */
static spc_status rank_all_similar(top_list *top, spc__cache *cache,
                                   const question *ask, spc_error *error)
{
    spc__similar_list all;
    spc_status status = spc__similar_get(&all, cache, ask->key, error);

    for (int64_t i = all.own_first; i < all.own_end; i++)
        rank_own(top, cache, &all.at[i], ask);
    rank_targets(top, cache, &all, ask, true);
    rank_targets(top, cache, &all, ask, false);
    return status;
}

/* ---- substitutes --------------------------------------------------------- */

/* Writes the texts of the key that is queried next. */
static spc_status put_texts(spc__cache *cache, const spc__problem_key *key,
                            spc_error *error)
{
    spc_status status = spc__cache_key_text(cache, key, error);

    return status == SPC_OK ? spc__cache_family_text(cache, key, error)
                            : status;
}

/* True if there is a record of the layer itself for a similar scene. */
static bool has_own(const top_list *top)
{
    return top->count > 0 && top->best[0].match != SPC__MATCH_NEAREST;
}

/* The exact query is fast. The other reads a family on first use. */
static spc_status rank_substitute(top_list *top, spc__cache *cache,
                                  const question *substitute, spc_error *error)
{
    spc_status status, next;

    if (substitute == NULL || has_own(top))
        return SPC_OK;
    if ((status = put_texts(cache, substitute->key, error)) != SPC_OK)
        return status;
    if (top->capacity == 1 && !spc__similar_is_known(cache, substitute->key))
        status = rank_all_exact(top, cache, substitute, error);
    if (top->capacity == 1 && has_own(top))
        return status;
    next = rank_all_similar(top, cache, substitute, unless(status, error));
    return status == SPC_OK ? next : status;
}

/* ---- reading in full ----------------------------------------------------- */

/* A record that is not found is lost or was removed after the ranking. The
 * scratch texts must hold the family of the key used for the ranking. */
static spc_status fetch(spc__choice *out, bool *got, spc__cache *cache,
                        const found *from, spc_error *error)
{
    spc__layer *layer = &cache->layers[from->record.layer];
    const char *seal = spc__similar_seal(cache, from->ask->key, &from->record);
    sqlite3_stmt *stmt;
    spc_status status = spc__layer_statement(
        &stmt, layer, seal != NULL ? SPC__SQL_CHOICE_ROWS : SPC__SQL_CHOICE_OF,
        error);

    *got = false;
    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, from->record.problem);
    status = spc__layer_step(got, layer, stmt, "read", error);
    out->match = from->match;
    out->distance = from->distance;
    if (status == SPC_OK && *got)
        return spc__choice_read(out, got, cache, layer, stmt, seal, error);
    spc__sql_done(stmt);
    return status == SPC_OK
               ? spc__choice_read_doubtful(out, got, cache, layer,
                                           from->record.problem, error)
               : status;
}

/* Returns the only file that can have choices, or NULL if there are several. */
static spc__layer *only_layer(spc__cache *cache)
{
    spc__layer *only = NULL;

    for (int i = 0; i < cache->count; i++) {
        if (cache->layers[i].is_only_code)
            continue;
        if (only != NULL)
            return NULL;
        only = &cache->layers[i];
    }
    return only;
}

/* An exact hit in one file needs no ranking. */
static spc_status fetch_exact(spc__choice *out, bool *got, spc__layer *layer,
                              spc__cache *cache, const spc__problem_key *key,
                              spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_CHOICE_AT, error);

    *got = false;
    if (status != SPC_OK)
        return status;
    spc__bind_key(stmt, cache, key);
    status = spc__layer_step(got, layer, stmt, "read", error);
    out->match = SPC__MATCH_EXACT;
    out->distance = 0;
    if (status == SPC_OK && *got)
        return spc__choice_read(out, got, cache, layer, stmt, NULL, error);
    spc__sql_done(stmt);
    return status;
}

/* `substitute` is the second query, whose texts may be in the scratch buffers.
 */
static spc_status fetch_all(const top_list *top, spc__cache *cache,
                            const question *substitute, spc__choice *out,
                            int *count, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < top->count; i++) {
        bool got = false;
        const found *from = &top->best[i];
        spc_error *into = unless(status, error);
        spc_status one = SPC_OK;
        if (substitute != NULL)
            one = put_texts(cache, from->ask->key, into);
        if (one == SPC_OK)
            one = fetch(&out[*count], &got, cache, from, into);
        *count += got;
        if (status == SPC_OK)
            status = one;
    }
    return status;
}

int spc__cache_files(const spc__cache *cache)
{
    return cache->count;
}

/* If the similar choices are in memory, they include the exact one. */
static spc_status find_known(spc__cache *cache, const question *ask,
                             const question *substitute, spc__choice *out,
                             int *count, spc_error *error)
{
    found one;
    top_list top = {&one, 0, 1};
    spc_status status = rank_all_similar(&top, cache, ask, error);

    if (status == SPC_OK)
        status = rank_substitute(&top, cache, substitute, error);
    return status == SPC_OK
               ? fetch_all(&top, cache, substitute, out, count, error)
               : status;
}

/* Finds the best choice. A damaged record does not stop others from serving,
 * but its failure is reported. */
static spc_status find_one(spc__cache *cache, const question *ask,
                           const question *substitute, spc__choice *out,
                           int *count, spc_error *error)
{
    found one;
    top_list top = {&one, 0, 1};
    spc__layer *only = only_layer(cache);
    spc_status first = SPC_OK, status = SPC_OK, next;
    bool got = false;

    if (spc__similar_is_known(cache, ask->key))
        first = find_known(cache, ask, substitute, out, count, error);
    if (*count > 0)
        return first;
    if (substitute != NULL) /* the buffers may have the substitute's texts */
        status = put_texts(cache, ask->key, error);
    if (status != SPC_OK)
        return status;
    if (only != NULL)
        first = fetch_exact(out, &got, only, cache, ask->key, error);
    if (got) {
        *count = 1;
        return first;
    }
    error = unless(first, error);
    /* otherwise the file was already queried */
    if (only == NULL || first != SPC_OK)
        status = rank_all_exact(&top, cache, ask, error);
    if (top.count == 0) {
        next = rank_all_similar(&top, cache, ask, unless(status, error));
        status = status == SPC_OK ? next : status;
        next = rank_substitute(&top, cache, substitute, unless(status, error));
        status = status == SPC_OK ? next : status;
    }
    next =
        fetch_all(&top, cache, substitute, out, count, unless(status, error));
    status = status == SPC_OK ? next : status;
    return first == SPC_OK ? status : first;
}

static spc_status find_several(spc__cache *cache, const question *ask,
                               const question *substitute, spc__choice *out,
                               int capacity, int *count, spc_error *error)
{
    size_t bytes = (size_t)capacity * sizeof(found);
    top_list top = {malloc(bytes), 0, capacity};

    if (top.best == NULL)
        return spc__fail_memory(error, bytes);
    spc_status status = rank_all_similar(&top, cache, ask, error);
    spc_status next =
        rank_substitute(&top, cache, substitute, unless(status, error));
    status = status == SPC_OK ? next : status;
    next =
        fetch_all(&top, cache, substitute, out, count, unless(status, error));
    free(top.best);
    return status == SPC_OK ? next : status;
}

spc_status spc__cache_find_choices_of(spc__cache *cache,
                                      const spc__problem_key *key,
                                      const spc__problem_key *substitute,
                                      spc__choice *out, int capacity,
                                      int *count, spc_error *error)
{
    question asked = ask(key, false), other = {0};
    const question *second = NULL;
    spc_status status;

    *count = 0;
    if (capacity <= 0)
        return SPC_OK;
    if (substitute != NULL) {
        other = ask(substitute, true);
        second = &other;
    }
    if ((status = put_texts(cache, key, error)) != SPC_OK)
        return status;
    spc__cache_begin_reading(cache);
    status = capacity == 1 ? find_one(cache, &asked, second, out, count, error)
                           : find_several(cache, &asked, second, out, capacity,
                                          count, error);
    spc__cache_end_reading(cache);
    return status;
}

spc_status spc__cache_find_choices(spc__cache *cache,
                                   const spc__problem_key *key,
                                   spc__choice *out, int capacity, int *count,
                                   spc_error *error)
{
    return spc__cache_find_choices_of(cache, key, NULL, out, capacity, count,
                                      error);
}

spc_status spc__cache_find_exact(spc__cache *cache, const spc__problem_key *key,
                                 spc__choice *out, bool *got, spc_error *error)
{
    question asked = ask(key, false);
    found one;
    top_list top = {&one, 0, 1};
    int count = 0;
    spc_status status = spc__cache_key_text(cache, key, error);

    spc__cache_begin_reading(cache);
    if (status == SPC_OK)
        status = rank_all_exact(&top, cache, &asked, error);
    if (status == SPC_OK)
        status = fetch_all(&top, cache, NULL, out, &count, error);
    spc__cache_end_reading(cache);
    *got = count > 0;
    return status;
}

void spc__cache_set_aside(spc__cache *cache, const spc__problem_key *key,
                          char *reason, size_t bytes)
{
    bool row = false;

    reason[0] = '\0';
    if (spc__cache_key_text(cache, key, NULL) != SPC_OK)
        return;
    for (int i = 0; i < cache->count && !row; i++) {
        sqlite3_stmt *stmt = NULL;
        if (spc__layer_statement(&stmt, &cache->layers[i], SPC__SQL_SET_ASIDE,
                                 NULL) != SPC_OK)
            continue;
        spc__bind_key(stmt, cache, key);
        spc__layer_step(&row, &cache->layers[i], stmt, "read", NULL);
        if (row)
            spc__column_text(reason, bytes, stmt, 0);
        spc__sql_done(stmt);
    }
}
