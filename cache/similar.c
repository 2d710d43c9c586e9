/*
 * similar.c - the choices that may stand in for one another, kept in memory.
 *
 * A near lookup compares a problem with every choice of its device whose layer
 * differs at most in channels. Joined by SQLite anew for each, thousands of
 * them take milliseconds; from an array, some tens of microseconds. A set is
 * read on the first near lookup of its kind, and again after any file has
 * changed: by this handle or, as SQLite's data_version tells, by another.
 */
#include "cache_internal.h"

#include "error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More kinds of layers than any network has; then all sets start anew. */
enum { MOST_SETS = 16 };

/* When a file was read. */
typedef struct version {
    int64_t others; /* commits of other handles */
    int own;        /* rows this handle changed */
} version;

struct spc__similar {
    spc__similar *next;
    char *device, *shape;
    version *read_at; /* of each layer */
    bool whole;       /* every layer could be read */
    spc__similar_choice *at;
    int64_t count, capacity;
};

/* ---- life -------------------------------------------------------------- */

static void free_set(spc__similar *set)
{
    if (set == NULL)
        return;
    free(set->device);
    free(set->shape);
    free(set->read_at);
    free(set->at);
    free(set);
}

void spc__similar_free(spc__cache *cache)
{
    while (cache->similar != NULL) {
        spc__similar *next = cache->similar->next;
        free_set(cache->similar);
        cache->similar = next;
    }
    cache->similar_count = 0;
}

static spc_status add_set(spc__similar **out, spc__cache *cache,
                          const char *device, spc_error *error)
{
    spc__similar *set = calloc(1, sizeof(*set));

    *out = NULL;
    if (cache->similar_count == MOST_SETS)
        spc__similar_free(cache);
    if (set != NULL) {
        set->device = strdup(device);
        set->shape = strdup(spc__buf_text(&cache->shape_text));
        set->read_at = calloc((size_t)cache->count + 1, sizeof(*set->read_at));
    }
    if (set == NULL || !set->device || !set->shape || !set->read_at) {
        free_set(set);
        return spc__fail_memory(error, sizeof(*set));
    }
    set->next = cache->similar;
    cache->similar = set;
    cache->similar_count++;
    *out = set;
    return SPC_OK;
}

static spc__similar *find_set(const spc__cache *cache, const char *device)
{
    spc__similar *set = cache->similar;

    while (set != NULL &&
           (strcmp(set->shape, spc__buf_text(&cache->shape_text)) != 0 ||
            strcmp(set->device, device) != 0))
        set = set->next;
    return set;
}

/* ---- freshness --------------------------------------------------------- */

static spc_status read_version(version *out, spc__layer *layer,
                               spc_error *error)
{
    sqlite3_stmt *stmt;
    bool row = false;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_DATA_VERSION, error);

    *out = (version){-1, -1};
    if (status != SPC_OK)
        return status;
    status = spc__layer_step(&row, layer, stmt, "read", error);
    if (row)
        *out = (version){sqlite3_column_int64(stmt, 0),
                         sqlite3_total_changes(layer->db)};
    spc__sql_done(stmt);
    return status;
}

/* Notes the layers' present versions: before they are read, so that what is
 * written meanwhile shows next time. False if one has changed. */
static bool is_fresh(spc__similar *set, spc__cache *cache)
{
    bool fresh = set->whole;

    for (int i = 0; i < cache->count; i++) {
        version now, then = set->read_at[i];
        if (read_version(&now, &cache->layers[i], NULL) != SPC_OK)
            fresh = false; /* reading it will tell why */
        fresh = fresh && now.others == then.others && now.own == then.own;
        set->read_at[i] = now;
    }
    return fresh;
}

/* ---- reading ----------------------------------------------------------- */

static spc_status reserve_one(spc__similar *set, spc_error *error)
{
    if (set->count < set->capacity)
        return SPC_OK;
    int64_t capacity = set->capacity > 0 ? 2 * set->capacity : 64;
    size_t bytes = (size_t)capacity * sizeof(*set->at);
    spc__similar_choice *at = realloc(set->at, bytes);
    if (at == NULL)
        return spc__fail_memory(error, bytes);
    set->at = at;
    set->capacity = capacity;
    return SPC_OK;
}

double spc__octave_of(int64_t channels)
{
    return log2((double)(channels > 1 ? channels : 1));
}

/* As it would have been stored: buckets are twice a log2. */
static int read_bucket(sqlite3_stmt *stmt, int i)
{
    return spc__bucket_rows((double)sqlite3_column_int64(stmt, i) / 2);
}

static void read_candidate(spc__similar_choice *out, sqlite3_stmt *stmt,
                           int layer)
{
    spc__similar_read(out, stmt, layer);
    spc__column_text(out->target, sizeof(out->target), stmt, 3);
    out->rows_bucket = read_bucket(stmt, 4);
    out->density_bucket = read_bucket(stmt, 5);
    out->cin = sqlite3_column_int64(stmt, 6);
    out->cout = sqlite3_column_int64(stmt, 7);
    out->log2_cin = spc__octave_of(out->cin);
    out->log2_cout = spc__octave_of(out->cout);
}

static spc_status read_layer(spc__similar *set, spc__cache *cache, int at,
                             spc_error *error)
{
    spc__layer *layer = &cache->layers[at];
    sqlite3_stmt *stmt;
    bool row = true;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_SIMILAR_CHOICES, error);

    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, set->device);
    spc__bind_text(stmt, 2, set->shape);
    while ((status = spc__layer_step(&row, layer, stmt, "read", error)) ==
               SPC_OK &&
           row && (status = reserve_one(set, error)) == SPC_OK)
        read_candidate(&set->at[set->count++], stmt, at);
    spc__sql_done(stmt);
    return status;
}

/* Reads every layer, also after one failed: the other layers' records count. */
static spc_status read_all(spc__similar *set, spc__cache *cache,
                           spc_error *error)
{
    spc_status status = SPC_OK;

    set->count = 0;
    for (int i = 0; i < cache->count; i++) {
        spc_status one =
            read_layer(set, cache, i, status == SPC_OK ? error : NULL);
        if (status == SPC_OK)
            status = one;
    }
    set->whole = status == SPC_OK;
    return status;
}

spc_status spc__similar_get(const spc__similar_choice **out, int64_t *count,
                            spc__cache *cache, const char *device,
                            spc_error *error)
{
    spc__similar *set = find_set(cache, device);
    spc_status status = SPC_OK;

    *out = NULL;
    *count = 0;
    if (set == NULL && (status = add_set(&set, cache, device, error)) != SPC_OK)
        return status;
    if (!is_fresh(set, cache))
        status = read_all(set, cache, error);
    *out = set->at;
    *count = set->count;
    return status;
}
