/*
 * lookup.c - from a problem to the choices that fit it.
 *
 * Two ways. The hot one asks every layer for the exact key by the unique
 * index. The other walks all choices whose layer differs at most in channels
 * (similar.c), ranks them by match, distance, median and layer, and reads in
 * full only those that will be returned. The distance is taken to the middle of
 * a record's buckets, so that equal keys are equally far in every layer.
 */
#include "cache_internal.h"

#include "error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_BUCKET = 128, OCTAVE = 2 /* buckets */ };

static int bucket(double log2_value)
{
    double rounded = round(2 * log2_value);
    if (!(rounded > -LAST_BUCKET)) /* and NaN */
        return -LAST_BUCKET;
    return rounded < LAST_BUCKET ? (int)rounded : LAST_BUCKET;
}

int spc__bucket_rows(double log2_rows)
{
    return bucket(log2_rows);
}

int spc__bucket_density(double density)
{
    return bucket(density > 0 ? log2(density) : -INFINITY);
}

/* A candidate in its place. */
typedef struct found {
    spc__similar_choice record;
    spc__match match;
    double distance;
} found;

typedef struct top_list {
    found *best; /* sorted, best first */
    int count;
    int capacity;
} top_list;

/* What is asked for, as numbers. */
typedef struct question {
    const spc__problem_key *key;
    double log2_rows, log2_density;
    int rows_bucket, density_bucket;
    int64_t cin, cout;
    double log2_cin, log2_cout;
} question;

static double clamped(double log2_value)
{
    double limit = LAST_BUCKET / (double)OCTAVE;
    return log2_value > -limit ? fmin(log2_value, limit) : -limit;
}

static question ask(const spc__problem_key *key)
{
    double density = key->density > 0 ? log2(key->density) : -INFINITY;
    int64_t cin = spc__attrs_number(&key->layer, "cin", 0);
    int64_t cout = spc__attrs_number(&key->layer, "cout", 0);
    return (question){
        .key = key,
        .log2_rows = clamped(key->log2_rows),
        .log2_density = clamped(density),
        .rows_bucket = spc__bucket_rows(key->log2_rows),
        .density_bucket = spc__bucket_density(key->density),
        .cin = cin,
        .cout = cout,
        .log2_cin = spc__octave_of(cin),
        .log2_cout = spc__octave_of(cout),
    };
}

static double distance_of(const spc__similar_choice *record,
                          const question *ask, bool same_target)
{
    double rows = fabs(record->rows_bucket / 2.0 - ask->log2_rows);
    double density = fabs(record->density_bucket / 2.0 - ask->log2_density);
    double channels = fabs(record->log2_cin - ask->log2_cin) +
                      fabs(record->log2_cout - ask->log2_cout);

    return SPC__DISTANCE_ROWS * rows + SPC__DISTANCE_DENSITY * density +
           SPC__DISTANCE_CHANNELS * channels +
           (same_target ? 0 : SPC__DISTANCE_TARGET);
}

/* Similar layers of the same channels are the same layer. */
static spc__match match_of(const spc__similar_choice *record,
                           const question *ask, bool same_target)
{
    int rows = abs(record->rows_bucket - ask->rows_bucket);
    int density = abs(record->density_bucket - ask->density_bucket);

    if (!same_target || record->cin != ask->cin || record->cout != ask->cout ||
        rows > OCTAVE || density > OCTAVE)
        return SPC__MATCH_NEAREST;
    return rows == 0 && density == 0 ? SPC__MATCH_EXACT : SPC__MATCH_BUCKET;
}

/* Is the record, which would be placed so, better than `other`? */
static bool is_better(const spc__similar_choice *record, spc__match match,
                      double distance, const found *other)
{
    if (match != other->match)
        return match < other->match;
    if (distance != other->distance)
        return distance < other->distance;
    if (record->median_us != other->record.median_us)
        return record->median_us < other->record.median_us;
    return record->layer < other->record.layer;
}

/* Inserts in order. Of one problem each layer's record stays: which of them can
 * serve, only the caller finds out. */
static void rank(top_list *top, const spc__similar_choice *record,
                 spc__match match, double distance)
{
    found *best = top->best;
    int at = top->count;

    while (at > 0 && is_better(record, match, distance, &best[at - 1]))
        at--;
    if (at == top->capacity)
        return;
    if (top->count < top->capacity)
        top->count++;
    memmove(&best[at + 1], &best[at],
            (size_t)(top->count - 1 - at) * sizeof(*best));
    best[at] = (found){*record, match, distance};
}

void spc__similar_read(spc__similar_choice *out, sqlite3_stmt *stmt, int layer)
{
    double median = spc__column_real(stmt, 1);
    bool timed = sqlite3_column_int(stmt, 2) > 0 && !isnan(median);

    *out = (spc__similar_choice){
        .problem = sqlite3_column_int64(stmt, 0),
        .layer = layer,
        .median_us = timed ? median : INFINITY,
    };
}

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
        spc__similar_choice record;
        spc__similar_read(&record, stmt, at);
        rank(top, &record, SPC__MATCH_EXACT, 0);
    }
    spc__sql_done(stmt);
    return status;
}

/* Where the next trouble goes: only the first is reported. */
static spc_error *unless(spc_status trouble, spc_error *error)
{
    return trouble == SPC_OK ? error : NULL;
}

/* Asks every layer, also after one failed: the other layers' records count. */
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

static spc_status rank_all_similar(top_list *top, spc__cache *cache,
                                   const question *ask, spc_error *error)
{
    const spc__similar_choice *records;
    int64_t count;
    spc_status status =
        spc__similar_get(&records, &count, cache, ask->key->device, error);

    for (int64_t i = 0; i < count; i++) {
        bool same_target = strcmp(records[i].target, ask->key->target) == 0;
        spc__match match = match_of(&records[i], ask, same_target);
        double distance = match == SPC__MATCH_EXACT
                              ? 0
                              : distance_of(&records[i], ask, same_target);
        rank(top, &records[i], match, distance);
    }
    return status;
}

/* *got is false if the record went away since it was ranked. */
static spc_status fetch(spc__choice *out, bool *got, spc__cache *cache,
                        const found *from, spc_error *error)
{
    spc__layer *layer = &cache->layers[from->record.layer];
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_CHOICE_OF, error);

    *got = false;
    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, from->record.problem);
    status = spc__layer_step(got, layer, stmt, "read", error);
    if (*got) {
        out->match = from->match;
        out->distance = from->distance;
        out->file = layer->path;
        out->problem = from->record.problem;
        spc__column_text(out->reason, sizeof(out->reason), stmt,
                         SPC__KEY_WIDTH + SPC__TRIAL_WIDTH);
        status = spc__read_key(&out->key, layer, stmt, 0, error);
        if (status == SPC_OK)
            status = spc__read_trial(&out->trial, layer, stmt, SPC__KEY_WIDTH,
                                     error);
    }
    spc__sql_done(stmt);
    return status;
}

static spc_status fetch_all(const top_list *top, spc__cache *cache,
                            spc__choice *out, int *count, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < top->count; i++) {
        bool got;
        spc_error *into = unless(status, error);
        spc_status one = fetch(&out[*count], &got, cache, &top->best[i], into);
        if (one == SPC_OK && got)
            (*count)++;
        if (status == SPC_OK)
            status = one;
    }
    return status;
}

int spc__cache_files(const spc__cache *cache)
{
    return cache->count;
}

spc_status spc__cache_find_choices(spc__cache *cache,
                                   const spc__problem_key *key,
                                   spc__choice *out, int capacity, int *count,
                                   spc_error *error)
{
    question asked = ask(key);
    found one;
    top_list top = {&one, 0, 1};
    spc_status status = SPC_OK, next;

    *count = 0;
    if (capacity <= 0)
        return SPC_OK;
    if ((status = spc__cache_key_text(cache, key, error)) != SPC_OK)
        return status;
    if (capacity > 1) {
        size_t bytes = (size_t)capacity * sizeof(*top.best);
        top.best = malloc(bytes);
        top.capacity = capacity;
        if (top.best == NULL)
            return spc__fail_memory(error, bytes);
    } else {
        status = rank_all_exact(&top, cache, &asked, error);
    }
    if (top.count == 0) {
        next = rank_all_similar(&top, cache, &asked, unless(status, error));
        status = status == SPC_OK ? next : status;
    }
    next = fetch_all(&top, cache, out, count, unless(status, error));
    status = status == SPC_OK ? next : status;
    if (top.best != &one)
        free(top.best);
    return status;
}
