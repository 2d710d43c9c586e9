/* SPDX-License-Identifier: Apache-2.0 */
/*
 * similar.c - keeps the choices that may replace one another in memory.
 *
 * A near look-up compares a problem with the choices of its device and family.
 * A new SQLite join of thousands of them takes milliseconds. They are therefore
 * kept as numbers, sorted by target and layer. Those of the problem's own
 * layer, which rank first at any distance, are adjacent. The others of each
 * target are in a tree (kd_tree.c), of which a look-up visits a few leaves. A
 * set is read on the first near look-up of its kind, and again after any file
 * has changed, by this handle or by another one (SQLite's data_version).
 */
#include "cache/cache_internal.h"

#include "base/error.h"
#include "base/sha256.h"
#include "cache/exchange/texts.h"
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Exceeds the number of kinds of layers in any network, on a few devices. If
 * there are more, all sets are dropped. */
enum { MOST_SETS = 64 };

enum { SEAL = SPC__SHA256_HEX - 1 };

struct spc__similar {
    spc__similar *next;
    char *device, *family;
    /* names and widths of the features */
    spc__feature features[SPC__FEATURES_MAX];
    int feature_count;
    spc__file_version *read_at; /* of each layer */
    bool whole;                 /* every layer was readable */
    spc__similar_choice *at;
    int64_t count, capacity;
    char (*seals)[SEAL]; /* one for each record, in the order of reading */
    spc__texts words;    /* layers and targets */
    spc__kd_trees trees;
    spc__similar_root *roots; /* a tree for each target */
    int root_count, root_capacity;
    /* for each root, the first record of each layer word, then the end */
    int32_t *starts;
};

/* Returns the number of a column's text, adding it if needed. */
static spc_status claim_word(int *out, spc__texts *all, sqlite3_stmt *stmt,
                             int i, spc_error *error)
{
    const char *text = (const char *)sqlite3_column_text(stmt, i);

    if (text == NULL)
        text = "";
    if (spc__texts_claim(out, all, text))
        return SPC_OK;
    return spc__fail_memory(error, strlen(text) + 1);
}

/* ---- create and free --------------------------------------------------- */

static void free_set(spc__similar *set)
{
    if (set == NULL)
        return;
    free(set->device);
    free(set->family);
    free(set->read_at);
    free(set->at);
    free(set->seals);
    free(set->roots);
    free(set->starts);
    spc__kd_release(&set->trees);
    spc__texts_release(&set->words);
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
                          const spc__problem_key *key, spc_error *error)
{
    spc__similar *set = calloc(1, sizeof(*set));

    *out = NULL;
    if (cache->similar_count == MOST_SETS)
        spc__similar_free(cache);
    if (set != NULL) {
        set->device = strdup(key->device);
        set->family = strdup(spc__buf_text(&cache->family_text));
        set->read_at = calloc((size_t)cache->count + 1, sizeof(*set->read_at));
    }
    if (set == NULL || !set->device || !set->family || !set->read_at) {
        free_set(set);
        return spc__fail_memory(error, sizeof(*set));
    }
    memcpy(set->features, key->features, sizeof(set->features));
    set->feature_count = key->feature_count;
    set->next = cache->similar;
    cache->similar = set;
    cache->similar_count++;
    *out = set;
    return SPC_OK;
}

/* True if the set's records are placed by the key's features. */
static bool has_features(const spc__similar *set, const spc__problem_key *key)
{
    bool same = set->feature_count == key->feature_count;

    for (int i = 0; i < key->feature_count && same; i++)
        same = set->features[i].width == key->features[i].width &&
               strcmp(set->features[i].name, key->features[i].name) == 0;
    return same;
}

/* Finds the set for the key, whose family is in the scratch text. */
static spc__similar *find_set(const spc__cache *cache,
                              const spc__problem_key *key)
{
    spc__similar *set = cache->similar;

    while (set != NULL &&
           (strcmp(set->family, spc__buf_text(&cache->family_text)) != 0 ||
            strcmp(set->device, key->device) != 0 || !has_features(set, key)))
        set = set->next;
    return set;
}

/* ---- freshness --------------------------------------------------------- */

/* True if no file has changed since the set was read. */
static bool is_fresh(const spc__similar *set, const spc__cache *cache)
{
    bool fresh = set->whole;

    for (int i = 0; i < cache->count && fresh; i++) {
        const spc__file_version *now = &cache->layers[i].seen;
        const spc__file_version *then = &set->read_at[i];
        fresh = now->others >= 0 && now->others == then->others &&
                now->own == then->own;
    }
    return fresh;
}

bool spc__similar_is_known(const spc__cache *cache, const spc__problem_key *key)
{
    const spc__similar *set = find_set(cache, key);

    return set != NULL && is_fresh(set, cache);
}

const char *spc__similar_seal(const spc__cache *cache,
                              const spc__problem_key *key,
                              const spc__similar_choice *record)
{
    if (record->seal < 0)
        return NULL;
    const spc__similar *set = find_set(cache, key);
    return set != NULL && is_fresh(set, cache) ? set->seals[record->seal]
                                               : NULL;
}

/* ---- reading ----------------------------------------------------------- */

static spc_status reserve_one(spc__similar *set, spc_error *error)
{
    if (set->count < set->capacity)
        return SPC_OK;
    int64_t capacity = set->capacity > 0 ? 2 * set->capacity : 64;
    size_t bytes = (size_t)capacity * sizeof(*set->at);
    spc__similar_choice *at = realloc(set->at, bytes);
    char(*seals)[SEAL] = realloc(set->seals, (size_t)capacity * SEAL);
    /* One of the two may have moved even if the other failed. */
    if (at != NULL)
        set->at = at;
    if (seals != NULL)
        set->seals = seals;
    if (at == NULL || seals == NULL)
        return spc__fail_memory(error, bytes);
    set->capacity = capacity;
    return SPC_OK;
}

/* An invalid seal counts as missing. Reading the record in full reports it. */
static void keep_seal(spc__similar_choice *record, spc__similar *set,
                      sqlite3_stmt *stmt, int i)
{
    const void *digest = sqlite3_column_blob(stmt, i);

    if (sqlite3_column_type(stmt, i) != SQLITE_TEXT || digest == NULL ||
        sqlite3_column_bytes(stmt, i) != SEAL || set->count > INT_MAX)
        return;
    record->seal = (int)set->count;
    memcpy(set->seals[set->count], digest, SEAL);
}

/* Computes a record's position from the features of the key. Invalid parts of
 * its text count as missing; reading the whole record reports them. */
static void locate(spc__similar_choice *out, const spc__similar *set,
                   const char *text)
{
    spc__problem_key record;

    spc__features_parse(&record, text != NULL ? text : "");
    for (int i = 0; i < set->feature_count; i++) {
        spc__feature asked = set->features[i];
        asked.value = spc__feature_value(&record, asked.name);
        out->middles[i] = spc__feature_middle(&asked);
    }
}

/* Adds the choice in the current row. */
static spc_status read_record(spc__similar *set, sqlite3_stmt *stmt, int layer,
                              spc_error *error)
{
    spc_status status = reserve_one(set, error);

    if (status != SPC_OK)
        return status;
    spc__similar_choice *next = &set->at[set->count];
    spc__similar_read(next, stmt, layer);
    locate(next, set, (const char *)sqlite3_column_text(stmt, 5));
    keep_seal(next, set, stmt, 6);
    if ((status = claim_word(&next->layer_word, &set->words, stmt, 3, error)) ==
            SPC_OK &&
        (status = claim_word(&next->target_word, &set->words, stmt, 4,
                             error)) == SPC_OK)
        set->count++;
    return status;
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
    spc__bind_text(stmt, 2, set->family);
    while ((status = spc__layer_step(&row, layer, stmt, "read", error)) ==
               SPC_OK &&
           row && (status = read_record(set, stmt, at, error)) == SPC_OK)
        continue;
    spc__sql_done(stmt);
    return status;
}

/* Reads every layer, even after one fails, since the records of the others
 * count. */
static spc_status read_all(spc__similar *set, spc__cache *cache,
                           spc_error *error)
{
    spc_status status = SPC_OK;

    set->count = 0;
    spc__texts_release(&set->words);
    for (int i = 0; i < cache->count; i++) {
        spc_status one =
            read_layer(set, cache, i, status == SPC_OK ? error : NULL);
        if (status == SPC_OK)
            status = one;
    }
    return status;
}

/* ---- order --------------------------------------------------------------- */

/* Orders by target, layer, and order of reading. */
static int compare(const void *a, const void *b)
{
    const spc__similar_choice *x = a, *y = b;

    if (x->target_word != y->target_word)
        return x->target_word < y->target_word ? -1 : 1;
    if (x->layer_word != y->layer_word)
        return x->layer_word < y->layer_word ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return x->problem < y->problem ? -1 : x->problem > y->problem;
}

static spc_status add_root(spc__similar *set, spc__similar_root root,
                           spc_error *error)
{
    if (set->root_count == set->root_capacity) {
        int capacity = set->root_capacity > 0 ? 2 * set->root_capacity : 4;
        size_t bytes = (size_t)capacity * sizeof(*set->roots);
        spc__similar_root *roots = realloc(set->roots, bytes);
        if (roots == NULL)
            return spc__fail_memory(error, bytes);
        set->roots = roots;
        set->root_capacity = capacity;
    }
    set->roots[set->root_count++] = root;
    return SPC_OK;
}

/* Returns the weights of the features, which the key defines. */
static spc__kd_point scale_of(const spc__problem_key *key)
{
    spc__kd_point out = {.count = key->feature_count};

    for (int i = 0; i < key->feature_count; i++)
        out.weight[i] = key->features[i].weight;
    return out;
}

/* Sorts the records and makes a tree for each target. */
static spc_status make_trees(spc__similar *set, const spc__problem_key *key,
                             spc_error *error)
{
    enum { STRIDE = sizeof(spc__similar_choice) / sizeof(double) };
    static_assert(STRIDE * sizeof(double) == sizeof(spc__similar_choice),
                  "records are as far apart as a whole number of doubles");
    spc__kd_point scale = scale_of(key);
    spc_status status = SPC_OK;

    set->root_count = 0;
    spc__kd_release(&set->trees);
    if (set->count == 0)
        return SPC_OK;
    qsort(set->at, (size_t)set->count, sizeof(*set->at), compare);
    if (!spc__kd_begin(&set->trees, set->at[0].middles, STRIDE, set->count,
                       key->feature_count))
        return spc__fail_memory(error, (size_t)set->count * sizeof(int32_t));
    for (int64_t i = 0, end; i < set->count && status == SPC_OK; i = end) {
        int target = set->at[i].target_word;
        for (end = i; end < set->count && set->at[end].target_word == target;)
            end++;
        int node = spc__kd_add(&set->trees, i, end, &scale);
        status = node < 0
                     ? spc__fail_memory(error, 0)
                     : add_root(set, (spc__similar_root){target, node}, error);
    }
    return status;
}

/* The records are sorted, so one pass finds where each word begins. */
static spc_status find_starts(spc__similar *set, spc_error *error)
{
    size_t row = (size_t)set->words.count + 1;
    size_t bytes = (size_t)set->root_count * row * sizeof(*set->starts);
    int64_t at = 0;

    free(set->starts);
    /* malloc(0) may return NULL. */
    set->starts = malloc(bytes + 1);
    if (set->starts == NULL)
        return spc__fail_memory(error, bytes);
    for (int r = 0; r < set->root_count; r++)
        for (int word = 0; word <= set->words.count; word++) {
            while (at < set->count &&
                   set->at[at].target_word == set->roots[r].target_word &&
                   set->at[at].layer_word < word)
                at++;
            set->starts[(size_t)r * row + (size_t)word] = (int32_t)at;
        }
    return SPC_OK;
}

/* Finds the records of the key's own layer and target, which are adjacent. */
static void find_own(spc__similar_list *out, const spc__similar *set, int layer)
{
    size_t row = (size_t)set->words.count + 1;

    for (int r = 0; r < set->root_count && layer >= 0; r++)
        if (set->roots[r].target_word == out->target_word) {
            const int32_t *start =
                &set->starts[(size_t)r * row + (size_t)layer];
            out->own_first = start[0];
            out->own_end = start[1];
        }
}

/* Reads and sorts the set anew. A set of which a part could not be read still
 * serves, but is read again the next time. */
static spc_status read_again(spc__similar *set, spc__cache *cache,
                             const spc__problem_key *key, spc_error *error)
{
    spc_status status = read_all(set, cache, error);
    spc_status trees = make_trees(set, key, status == SPC_OK ? error : NULL);

    for (int i = 0; i < cache->count; i++)
        /* The version at the start of this look-up. A later change makes the
         * set stale. */
        set->read_at[i] = cache->layers[i].seen;

    if (trees == SPC_OK)
        trees = find_starts(set, status == SPC_OK ? error : NULL);
    if (trees != SPC_OK)
        set->root_count = 0;
    if (status == SPC_OK)
        status = trees;
    set->whole = status == SPC_OK;
    return status;
}

spc_status spc__similar_get(spc__similar_list *out, spc__cache *cache,
                            const spc__problem_key *key, spc_error *error)
{
    spc__similar *set = find_set(cache, key);
    spc_status status = SPC_OK;

    *out = (spc__similar_list){0};
    if (set == NULL && (status = add_set(&set, cache, key, error)) != SPC_OK)
        return status;
    if (!is_fresh(set, cache))
        status = read_again(set, cache, key, error);
    int layer = spc__texts_find(&set->words, spc__buf_text(&cache->layer_text));
    int target = spc__texts_find(&set->words, key->target);
    *out = (spc__similar_list){
        .at = set->at,
        .trees = &set->trees,
        .roots = set->roots,
        .root_count = set->root_count,
        .target_word = target,
    };
    find_own(out, set, layer);
    return status;
}
