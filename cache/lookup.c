/*
 * lookup.c - from a problem to the choices that fit it.
 *
 * Two ways. The hot one asks every layer for the exact key by the unique
 * index. The other scans all choices whose layer differs at most in channels,
 * ranks them by match, distance, median and layer, and reads in full only
 * those that will be returned. The distance is taken to the middle of a
 * record's buckets, so that equal keys are equally far in every layer.
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

/* A choice that is a candidate for the answer. */
typedef struct found {
    spc__match match;
    double distance;
    double median_us; /* infinite if it was never timed */
    int layer;
    int64_t problem;
    int64_t cin, cout;
    int rows_bucket, density_bucket;
    char target[sizeof(((spc__problem_key *)0)->target)];
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
} question;

static double clamped(double log2_value)
{
    double limit = LAST_BUCKET / (double)OCTAVE;
    return log2_value > -limit ? fmin(log2_value, limit) : -limit;
}

static question ask(const spc__problem_key *key)
{
    double density = key->density > 0 ? log2(key->density) : -INFINITY;
    return (question){
        .key = key,
        .log2_rows = clamped(key->log2_rows),
        .log2_density = clamped(density),
        .rows_bucket = spc__bucket_rows(key->log2_rows),
        .density_bucket = spc__bucket_density(key->density),
        .cin = spc__attrs_number(&key->layer, "cin", 0),
        .cout = spc__attrs_number(&key->layer, "cout", 0),
    };
}

static double octaves(int64_t a, int64_t b)
{
    return fabs(log2((double)(a > 1 ? a : 1)) - log2((double)(b > 1 ? b : 1)));
}

/* Match and distance of a record; `same_layer`: its text is that asked for. */
static void place(found *record, const question *ask, bool same_layer)
{
    int rows = abs(record->rows_bucket - ask->rows_bucket);
    int density = abs(record->density_bucket - ask->density_bucket);
    bool same = same_layer && strcmp(record->target, ask->key->target) == 0;

    record->match = SPC__MATCH_NEAREST;
    if (same && rows <= OCTAVE && density <= OCTAVE)
        record->match = SPC__MATCH_BUCKET;
    if (same && rows == 0 && density == 0) {
        record->match = SPC__MATCH_EXACT;
        record->distance = 0;
        return;
    }
    record->distance =
        SPC__DISTANCE_ROWS * fabs(record->rows_bucket / 2.0 - ask->log2_rows) +
        SPC__DISTANCE_DENSITY *
            fabs(record->density_bucket / 2.0 - ask->log2_density) +
        SPC__DISTANCE_CHANNELS *
            (octaves(record->cin, ask->cin) + octaves(record->cout, ask->cout));
    if (strcmp(record->target, ask->key->target) != 0)
        record->distance += SPC__DISTANCE_TARGET;
}

static bool is_better(const found *a, const found *b)
{
    if (a->match != b->match)
        return a->match < b->match;
    if (a->distance != b->distance)
        return a->distance < b->distance;
    if (a->median_us != b->median_us)
        return a->median_us < b->median_us;
    return a->layer < b->layer;
}

static bool is_same_problem(const found *a, const found *b)
{
    return a->match == b->match && a->cin == b->cin && a->cout == b->cout &&
           a->rows_bucket == b->rows_bucket &&
           a->density_bucket == b->density_bucket &&
           strcmp(a->target, b->target) == 0;
}

/* Inserts in order; of one problem only the better record stays. */
static void rank(top_list *top, const found *record)
{
    found *best = top->best;

    for (int i = 0; i < top->count; i++)
        if (is_same_problem(&best[i], record)) {
            if (!is_better(record, &best[i]))
                return;
            memmove(&best[i], &best[i + 1],
                    (size_t)(top->count - i - 1) * sizeof(*best));
            top->count--;
            break;
        }
    int at = top->count;
    while (at > 0 && is_better(record, &best[at - 1]))
        at--;
    if (at == top->capacity)
        return;
    if (top->count < top->capacity)
        top->count++;
    memmove(&best[at + 1], &best[at],
            (size_t)(top->count - at - 1) * sizeof(*best));
    best[at] = *record;
}

/* The columns that both statements begin with. */
static void read_found(found *out, sqlite3_stmt *stmt, int layer)
{
    double median = spc__column_real(stmt, 1);
    bool timed = sqlite3_column_int(stmt, 2) > 0 && !isnan(median);

    *out = (found){
        .match = SPC__MATCH_EXACT,
        .median_us = timed ? median : INFINITY,
        .layer = layer,
        .problem = sqlite3_column_int64(stmt, 0),
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
        found record;
        read_found(&record, stmt, at);
        rank(top, &record);
    }
    spc__sql_done(stmt);
    return status;
}

static spc_status rank_similar(top_list *top, spc__cache *cache, int at,
                               const question *ask, spc_error *error)
{
    spc__layer *layer = &cache->layers[at];
    sqlite3_stmt *stmt;
    bool row = true;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_SIMILAR_CHOICES, error);

    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, ask->key->device);
    spc__bind_text(stmt, 2, spc__buf_text(&cache->shape_text));
    spc__bind_text(stmt, 3, spc__buf_text(&cache->layer_text));
    while (status == SPC_OK && row) {
        found record;
        status = spc__layer_step(&row, layer, stmt, "read", error);
        if (status != SPC_OK || !row)
            break;
        read_found(&record, stmt, at);
        spc__column_text(record.target, sizeof(record.target), stmt, 4);
        record.rows_bucket = sqlite3_column_int(stmt, 5);
        record.density_bucket = sqlite3_column_int(stmt, 6);
        record.cin = sqlite3_column_int64(stmt, 7);
        record.cout = sqlite3_column_int64(stmt, 8);
        place(&record, ask, sqlite3_column_int(stmt, 3) != 0);
        rank(top, &record);
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
static spc_status rank_all(top_list *top, spc__cache *cache,
                           const question *ask, bool exact, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < cache->count; i++) {
        spc_error *into = unless(status, error);
        spc_status one = exact ? rank_exact(top, cache, i, ask, into)
                               : rank_similar(top, cache, i, ask, into);
        if (status == SPC_OK)
            status = one;
    }
    return status;
}

/* *got is false if the record went away since it was ranked. */
static spc_status fetch(spc__choice *out, bool *got, spc__cache *cache,
                        const found *record, spc_error *error)
{
    spc__layer *layer = &cache->layers[record->layer];
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_CHOICE_OF, error);

    *got = false;
    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, record->problem);
    status = spc__layer_step(got, layer, stmt, "read", error);
    if (*got) {
        out->match = record->match;
        out->distance = record->distance;
        out->file = layer->path;
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
        status = rank_all(&top, cache, &asked, true, error);
    }
    if (top.count == 0) {
        next = rank_all(&top, cache, &asked, false, unless(status, error));
        status = status == SPC_OK ? next : status;
    }
    next = fetch_all(&top, cache, out, count, unless(status, error));
    status = status == SPC_OK ? next : status;
    if (top.best != &one)
        free(top.best);
    return status;
}
