/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - converts keys, trials and provenance between C and rows. */
#include "cache/cache_internal.h"

#include "base/error.h"
#include <string.h>

/* Texts are made in buffers of the cache, which are used again. */
static void reformat(spc__buf *out, const spc__attrs *attrs)
{
    spc__buf_clear(out);
    spc__attrs_format(out, attrs);
}

spc_status spc__cache_key_text(spc__cache *cache, const spc__problem_key *key,
                               spc_error *error)
{
    reformat(&cache->layer_text, &key->layer);
    spc__buckets_format(&cache->buckets_text, key);
    if (cache->layer_text.failed || cache->buckets_text.failed)
        return spc__fail_memory(error, sizeof(key->layer));
    return SPC_OK;
}

spc_status spc__cache_family_text(spc__cache *cache,
                                  const spc__problem_key *key, spc_error *error)
{
    reformat(&cache->family_text,
             /* A layer without a family is its own. */
             key->family.count > 0 ? &key->family : &key->layer);
    return cache->family_text.failed
               ? spc__fail_memory(error, sizeof(key->family))
               : SPC_OK;
}

spc_status spc__cache_features_text(spc__cache *cache,
                                    const spc__problem_key *key,
                                    spc_error *error)
{
    spc__features_format(&cache->features_text, key);
    return cache->features_text.failed
               ? spc__fail_memory(error, sizeof(key->features))
               : SPC_OK;
}

spc_status spc__cache_code_text(spc__cache *cache, const spc__attrs *launch,
                                const spc__attrs *resources, spc_error *error)
{
    reformat(&cache->launch_text, launch);
    reformat(&cache->resources_text, resources);
    if (cache->launch_text.failed || cache->resources_text.failed)
        return spc__fail_memory(error, sizeof(*launch));
    return SPC_OK;
}

spc_status spc__cache_trial_text(spc__cache *cache, const spc__trial *trial,
                                 spc_error *error)
{
    reformat(&cache->config_text, &trial->config);
    if (cache->config_text.failed)
        return spc__fail_memory(error, sizeof(trial->config));
    return spc__cache_code_text(cache, &trial->launch, &trial->resources,
                                error);
}

void spc__bind_key(sqlite3_stmt *stmt, const spc__cache *cache,
                   const spc__problem_key *key)
{
    spc__bind_text(stmt, 1, key->device);
    spc__bind_text(stmt, 2, spc__buf_text(&cache->layer_text));
    spc__bind_text(stmt, 3, key->target);
    spc__bind_text(stmt, 4, spc__buf_text(&cache->buckets_text));
}

/* Reads the id in the only row of a bound statement, or 0. */
static spc_status take_id(int64_t *id, spc__layer *layer, sqlite3_stmt *stmt,
                          spc_error *error)
{
    bool row;
    spc_status status = spc__layer_step(&row, layer, stmt, "read", error);
    *id = row ? sqlite3_column_int64(stmt, 0) : 0;
    spc__sql_done(stmt);
    return status;
}

/* Runs a bound INSERT and returns the id of its row. */
static spc_status insert(int64_t *id, spc__layer *layer, sqlite3_stmt *stmt,
                         spc_error *error)
{
    spc_status status = spc__layer_run(layer, stmt, error);
    *id = sqlite3_last_insert_rowid(layer->db);
    return status;
}

spc_status spc__problem_find(int64_t *id, spc__layer *layer,
                             const spc__cache *cache,
                             const spc__problem_key *key, spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_FIND_PROBLEM, error);

    *id = 0;
    if (status != SPC_OK)
        return status;
    spc__bind_key(stmt, cache, key);
    return take_id(id, layer, stmt, error);
}

spc_status spc__problem_claim(int64_t *id, spc__layer *layer, spc__cache *cache,
                              const spc__problem_key *key, spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status = spc__problem_find(id, layer, cache, key, error);

    if (status != SPC_OK || *id != 0)
        return status;
    if ((status = spc__cache_family_text(cache, key, error)) != SPC_OK)
        return status;
    status = spc__layer_statement(&stmt, layer, SPC__SQL_ADD_PROBLEM, error);
    if (status != SPC_OK)
        return status;
    spc__bind_key(stmt, cache, key);
    spc__bind_text(stmt, 5, spc__buf_text(&cache->family_text));
    return insert(id, layer, stmt, error);
}

/* The same parameters serve both statements: to find a row, and to add it. */
static void bind_provenance(sqlite3_stmt *stmt, const spc__provenance *from)
{
    spc__bind_text(stmt, 1, from->version);
    spc__bind_text(stmt, 2, from->compiler);
    spc__bind_text(stmt, 3, from->driver);
    spc__bind_text(stmt, 4, from->host);
    spc__bind_text(stmt, 5, from->scenes);
    sqlite3_bind_int64(stmt, 6, (int64_t)from->seed);
}

spc_status spc__provenance_claim(int64_t *id, spc__layer *layer,
                                 const spc__provenance *provenance,
                                 spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_FIND_PROVENANCE, error);

    if (status != SPC_OK)
        return status;
    bind_provenance(stmt, provenance);
    /* Many trials share one provenance, so it is stored once. */
    status = take_id(id, layer, stmt, error);
    if (status != SPC_OK || *id != 0)
        return status;
    status = spc__layer_statement(&stmt, layer, SPC__SQL_ADD_PROVENANCE, error);
    if (status != SPC_OK)
        return status;
    bind_provenance(stmt, provenance);
    return insert(id, layer, stmt, error);
}

static const char *const status_names[] = {
#define X(name, text) text,
    SPC__TRIAL_STATUS_MAP(X)
#undef X
};

enum { STATUS_COUNT = sizeof(status_names) / sizeof(*status_names) };

const char *spc__trial_status_name(spc__trial_status status)
{
    return (unsigned)status < STATUS_COUNT ? status_names[status] : "?";
}

/* Reads a status. Only a damaged record has an unknown name. */
static spc_status read_status(spc__trial_status *out, const spc__layer *layer,
                              sqlite3_stmt *stmt, int i, spc_error *error)
{
    char name[16];
    spc__column_text(name, sizeof(name), stmt, i);
    for (int status = 0; status < STATUS_COUNT; status++)
        if (strcmp(name, status_names[status]) == 0) {
            *out = (spc__trial_status)status;
            return SPC_OK;
        }
    return spc__fail(error, SPC_EDB,
                     "cannot read '%s': it is damaged, a trial's status is "
                     "'%s'; tune the layer again, or restore a copy",
                     layer->path, name);
}

spc_status spc__trial_find(int64_t *id, spc__trial_status *found,
                           spc__layer *layer, int64_t problem,
                           const char *template_name, const char *template_hash,
                           const char *config, spc_error *error)
{
    sqlite3_stmt *stmt;
    bool row = false;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_FIND_TRIAL, error);

    *id = 0;
    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, problem);
    spc__bind_text(stmt, 2, template_name);
    spc__bind_text(stmt, 3, template_hash);
    spc__bind_text(stmt, 4, config);
    status = spc__layer_step(&row, layer, stmt, "read", error);
    if (row) {
        *id = sqlite3_column_int64(stmt, 0);
        status = read_status(found, layer, stmt, 1, error);
    }
    spc__sql_done(stmt);
    return status;
}

/* Reads the features. SQLite returns NULL both for NULL and if memory runs out,
 * which is not a damage. */
static spc_status read_features(spc__problem_key *out, const spc__layer *layer,
                                sqlite3_stmt *stmt, int i, spc_error *error)
{
    const char *text = (const char *)sqlite3_column_text(stmt, i);

    if (text != NULL && spc__features_parse(out, text))
        return SPC_OK;
    if (text == NULL && sqlite3_errcode(layer->db) == SQLITE_NOMEM)
        return spc__layer_fail(layer, SQLITE_NOMEM, "read", error);
    return spc__fail(error, SPC_EDB,
                     "cannot read '%s': it is damaged, a trial's features are "
                     "'%.60s'; tune the layer again, or restore a copy",
                     layer->path, text != NULL ? text : "");
}

spc_status spc__read_key(spc__problem_key *out, const spc__layer *layer,
                         sqlite3_stmt *stmt, int first, spc_error *error)
{
    spc_status status =
        spc__column_attrs(&out->layer, layer, stmt, first, error);

    /* The family only serves to find similar problems, and is not read. */
    out->family.count = 0;
    spc__column_text(out->device, sizeof(out->device), stmt, first + 1);
    spc__column_text(out->target, sizeof(out->target), stmt, first + 2);
    if (status == SPC_OK)
        status = read_features(out, layer, stmt, first + 3, error);
    return status;
}

spc_status spc__read_trial(spc__trial *out, const spc__layer *layer,
                           sqlite3_stmt *stmt, int first, spc_error *error)
{
    spc_status status;

#define TEXT(field, i)                                                         \
    spc__column_text(out->field, sizeof(out->field), stmt, first + (i))
    TEXT(template_name, 0);
    TEXT(template_hash, 1);
    TEXT(artefact, 5);
    TEXT(note, 7);
#undef TEXT
    out->median_us = spc__column_real(stmt, first + 8);
    out->spread_us = spc__column_real(stmt, first + 9);
    out->cold_us = spc__column_real(stmt, first + 10);
    out->samples = sqlite3_column_int(stmt, first + 11);
    out->error = spc__column_real(stmt, first + 12);
    out->verified = sqlite3_column_int(stmt, first + 13) != 0;
    out->compile_ms = spc__column_real(stmt, first + 14);

    /* These come last, because they can fail. */
    status = spc__column_attrs(&out->config, layer, stmt, first + 2, error);
    if (status == SPC_OK)
        status = spc__column_attrs(&out->launch, layer, stmt, first + 3, error);
    if (status == SPC_OK)
        status =
            spc__column_attrs(&out->resources, layer, stmt, first + 4, error);
    if (status == SPC_OK)
        status = read_status(&out->status, layer, stmt, first + 6, error);
    return status;
}
