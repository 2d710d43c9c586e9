/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - stores networks by name: their layers as text, their weights in
 * parts.
 *
 * A network's record has the digest of all its weights and the number of parts.
 * The seal of each part includes the network's own seal. A part that is
 * missing, or belongs to another network or to an older one of the same name,
 * is therefore detected like a changed byte. Parts are read one at a time, so
 * that memory never holds a network twice.
 */
#include "cache/network/network.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/sha256.h"
#include "cache/exchange/records.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---------------------------------------------------------------- */

/* Columns of SPC__NETWORK_COLUMNS. */
enum { SOUND = 9, REASON = 10 };

static const char *text_at(sqlite3_stmt *stmt, int i)
{
    const char *text = (const char *)sqlite3_column_text(stmt, i);

    return text != NULL ? text : "";
}

/* Why the row cannot be used, or NULL. A record that was set aside keeps the
 * reason of that time. */
static const char *fault_of(const spc__layer *layer, sqlite3_stmt *stmt)
{
    if (sqlite3_column_type(stmt, REASON) != SQLITE_NULL)
        return text_at(stmt, REASON);
    return spc__seal_check(layer, stmt, SOUND, "network",
                           sqlite3_column_int64(stmt, 0), NULL) == SPC_OK
               ? NULL
               : "it does not match its digest";
}

static void read_row(spc__network *out, const spc__layer *layer,
                     sqlite3_stmt *stmt)
{
    *out = (spc__network){
        .file = layer->path,
        .id = sqlite3_column_int64(stmt, 0),
        .name = text_at(stmt, 1),
        .graph = text_at(stmt, 2),
        .weights = text_at(stmt, 3),
        .bytes = sqlite3_column_int64(stmt, 4),
        .parts = sqlite3_column_int64(stmt, 5),
        .source = text_at(stmt, 6),
        .version = text_at(stmt, 7),
        .unix_seconds = sqlite3_column_int64(stmt, 8),
        .fault = fault_of(layer, stmt),
    };
}

/* Finds the row of that name, or 0. */
static spc_status find(int64_t *id, spc__layer *layer, const char *name,
                       spc_error *error)
{
    sqlite3_stmt *stmt;
    bool row = false;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_FIND_NETWORK, error);

    *id = 0;
    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, name);
    status = spc__layer_step(&row, layer, stmt, "read", error);
    if (status == SPC_OK && row)
        *id = sqlite3_column_int64(stmt, 0);
    spc__sql_done(stmt);
    return status;
}

/* ---- reading ------------------------------------------------------------- */

/* Sets the record aside and reports it. */
static spc_status refuse(spc__layer *layer, int64_t id, const char *name,
                         const char *reason, spc_error *error)
{
    spc__quarantine(layer, "network", id, reason);
    return spc__fail(error, SPC_EDB,
                     "cannot use the network '%s' of '%s': %s; add it again, "
                     "or restore a copy of the file",
                     name, layer->path, reason);
}

typedef struct reading {
    spc__layer *layer;
    const spc__network_reader *reader;
    int64_t id, parts, bytes; /* from the record */
    int64_t next, got;        /* read so far */
    char weights[SPC__SHA256_HEX];
    spc__sha256 sha;
} reading;

/* Returns SPC_EFORMAT and the reason if the part is not the next one or is
 * damaged. */
static spc_status check_part(reading *r, sqlite3_stmt *stmt, size_t bytes,
                             spc_error *error)
{
    /* Parts are read in order, so a gap shows at the next one. */
    if (sqlite3_column_int64(stmt, 0) != r->next || r->next >= r->parts)
        return spc__fail(error, SPC_EFORMAT,
                         "part %lld of its weights is missing",
                         (long long)r->next);
    if (sqlite3_column_type(stmt, 2) == SQLITE_NULL ||
        sqlite3_column_int(stmt, 2) == 0 ||
        /* Refuses parts with more bytes than the record announces. */
        bytes > (uint64_t)(r->bytes - r->got))
        return spc__fail(error, SPC_EFORMAT,
                         "part %lld of its weights does not match its digest",
                         (long long)r->next);
    return SPC_OK;
}

/* Checks a part and passes it on. */
static spc_status take_part(reading *r, sqlite3_stmt *stmt, spc_error *error)
{
    const void *data = sqlite3_column_blob(stmt, 1);
    size_t bytes = (size_t)sqlite3_column_bytes(stmt, 1);
    spc_status status = check_part(r, stmt, bytes, error);

    if (status != SPC_OK)
        return status;
    /* SQLite gives no pointer for an empty blob. */
    if (data == NULL)
        data = "";
    spc__sha256_update(&r->sha, data, bytes);
    status = r->reader->part(r->next++, data, bytes, r->reader->payload, error);
    r->got += (int64_t)bytes;
    return status;
}

/* Checks that no part is missing at the end, and the digest of all weights. */
static spc_status check_whole(reading *r, spc_error *error)
{
    char hex[SPC__SHA256_HEX];

    spc__sha256_end(hex, &r->sha);
    if (r->next != r->parts || r->got != r->bytes)
        return spc__fail(error, SPC_EFORMAT, "%lld of its %lld parts are left",
                         (long long)r->next, (long long)r->parts);
    if (strcmp(hex, r->weights) != 0)
        return spc__fail(error, SPC_EFORMAT,
                         "its weights do not match its digest");
    return r->reader->end(r->reader->payload, error);
}

/* Passes all parts on, each after its check. */
static spc_status read_parts(reading *r, spc_error *error)
{
    sqlite3_stmt *stmt;
    bool row = true;
    spc_status status =
        spc__layer_statement(&stmt, r->layer, SPC__SQL_GET_PARTS, error);

    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, r->id);
    while (status == SPC_OK && row) {
        status = spc__layer_step(&row, r->layer, stmt, "read", error);
        if (status == SPC_OK && row)
            status = take_part(r, stmt, error);
    }
    spc__sql_done(stmt);
    return status == SPC_OK ? check_whole(r, error) : status;
}

/* Reads the current row of stmt, except its parts. */
static spc_status read_head(reading *r, sqlite3_stmt *stmt, spc_error *error)
{
    spc__network network;

    read_row(&network, r->layer, stmt);
    r->id = network.id;
    r->parts = network.parts;
    r->bytes = network.bytes;
    snprintf(r->weights, sizeof(r->weights), "%s", network.weights);
    spc__sha256_init(&r->sha);
    if (network.fault != NULL)
        return spc__fail(error, SPC_EFORMAT, "%s", network.fault);
    return r->reader->begin(&network, r->reader->payload, error);
}

/* Returns SPC_ENOTFOUND without a sentence if this layer lacks the network. */
spc_status spc__network_get(spc__layer *layer, const char *name,
                            const spc__network_reader *reader, spc_error *error)
{
    reading r = {.layer = layer, .reader = reader};
    spc_error why = {0};
    sqlite3_stmt *stmt;
    bool row = false;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_FIND_NETWORK, error);

    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, name);
    status = spc__layer_step(&row, layer, stmt, "read", &why);
    if (status == SPC_OK)
        status = row ? read_head(&r, stmt, &why) : SPC_ENOTFOUND;
    spc__sql_done(stmt);
    if (status == SPC_OK)
        status = read_parts(&r, &why);
    /* A fault of the record sets it aside. A failure of the reader, or of
     * memory, does not. */
    if (status == SPC_EFORMAT)
        return refuse(layer, r.id, name, why.text, error);
    return status == SPC_OK || status == SPC_ENOTFOUND
               ? status
               : spc__fail(error, status, "%s", why.text);
}

/* Names the file, as a wrong path may have made a new, empty one. */
static spc_status fail_missing(const spc__layer *layer, const char *name,
                               spc_error *error)
{
    return spc__fail(error, SPC_ENOTFOUND,
                     "the database '%s' has no network '%s': 'spctune net ls' "
                     "lists its networks",
                     layer->path, name);
}

spc_status spc__cache_get_network(spc__cache *cache, const char *name,
                                  const spc__network_reader *reader,
                                  spc_error *error)
{
    spc_status trouble = SPC_ENOTFOUND;

    for (int i = 0; i < cache->count; i++) {
        spc_status status =
            spc__network_get(&cache->layers[i], name, reader,
                             trouble == SPC_ENOTFOUND ? error : NULL);
        if (status == SPC_OK || status == SPC_ENOMEM)
            return status;
        if (trouble == SPC_ENOTFOUND)
            trouble = status;
    }
    return trouble == SPC_ENOTFOUND ? fail_missing(cache->layers, name, error)
                                    : trouble;
}

/* ---- writing ------------------------------------------------------------- */

/* Removes the network of this row and all its parts. */
static spc_status drop(spc__layer *layer, int64_t id, spc_error *error)
{
    /* Removes the seals first, because the parts are needed to find them. */
    static const spc__sql steps[] = {SPC__SQL_DROP_SEALS, SPC__SQL_DROP_PARTS,
                                     SPC__SQL_DROP_NETWORK,
                                     SPC__SQL_FREE_NETWORK};
    spc_status status = SPC_OK;

    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
        if (status == SPC_OK)
            status = spc__layer_run_on(layer, steps[i], id, error);
    return status;
}

/* Writes the row of a network and seals it, before its parts: their seals
 * include this one. */
static spc_status add_row(int64_t *id, spc__layer *layer,
                          const spc__network *network, spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_ADD_NETWORK, error);

    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, network->name);
    spc__bind_text(stmt, 2, network->graph);
    spc__bind_text(stmt, 3, network->weights);
    sqlite3_bind_int64(stmt, 4, network->bytes);
    sqlite3_bind_int64(stmt, 5, network->parts);
    spc__bind_text(stmt, 6, network->source);
    spc__bind_text(stmt, 7, network->version);
    sqlite3_bind_int64(stmt, 8, network->unix_seconds);
    if ((status = spc__layer_run(layer, stmt, error)) != SPC_OK)
        return status;
    *id = sqlite3_last_insert_rowid(layer->db);
    return spc__layer_run_on(layer, SPC__SQL_SEAL_NETWORK, *id, error);
}

/* Writes a part and seals it. */
static spc_status add_part(spc__layer *layer, int64_t id, int64_t part,
                           const spc__network_source *source, spc_error *error)
{
    const void *data;
    size_t bytes;
    sqlite3_stmt *stmt;
    spc_status status =
        source->part(&data, &bytes, part, source->payload, error);

    if (status != SPC_OK ||
        (status = spc__layer_statement(&stmt, layer, SPC__SQL_ADD_PART,
                                       error)) != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, id);
    sqlite3_bind_int64(stmt, 2, part);
    sqlite3_bind_blob64(stmt, 3, bytes > 0 ? data : "", bytes, SQLITE_STATIC);
    if ((status = spc__layer_run(layer, stmt, error)) != SPC_OK)
        return status;
    return spc__layer_run_on(layer, SPC__SQL_SEAL_PART,
                             sqlite3_last_insert_rowid(layer->db), error);
}

/* Writes a network inside the caller's transaction. An existing one is removed
 * first, or refused. */
static spc_status put_locked(spc__layer *layer, const spc__network *network,
                             const spc__network_source *source, bool replace,
                             spc_error *error)
{
    int64_t id;
    spc_status status = find(&id, layer, network->name, error);

    if (status == SPC_OK && id != 0 && !replace)
        return spc__fail(error, SPC_ESTATE,
                         "'%s' already has a network '%s': remove it first, or "
                         "allow its replacement",
                         layer->path, network->name);
    if (status == SPC_OK && id != 0)
        status = drop(layer, id, error);
    if (status == SPC_OK)
        status = add_row(&id, layer, network, error);
    for (int64_t i = 0; i < network->parts && status == SPC_OK; i++)
        status = add_part(layer, id, i, source, error);
    return status;
}

spc_status spc__cache_put_network(spc__cache *cache,
                                  const spc__network *network,
                                  const spc__network_source *source,
                                  bool replace, spc_error *error)
{
    spc__layer *layer;
    spc_status status = spc__cache_writer(&layer, cache, error);

    if (status != SPC_OK || (status = spc__layer_begin(layer, error)) != SPC_OK)
        return status;
    return spc__layer_end(
        layer, put_locked(layer, network, source, replace, error), error);
}

static spc_status drop_named(spc__layer *layer, const char *name,
                             spc_error *error)
{
    int64_t id;
    spc_status status = find(&id, layer, name, error);

    if (status == SPC_OK && id == 0)
        return fail_missing(layer, name, error);
    return status == SPC_OK ? drop(layer, id, error) : status;
}

spc_status spc__cache_drop_network(spc__cache *cache, const char *name,
                                   spc_error *error)
{
    spc__layer *layer;
    spc_status status = spc__cache_writer(&layer, cache, error);

    if (status != SPC_OK || (status = spc__layer_begin(layer, error)) != SPC_OK)
        return status;
    return spc__layer_end(layer, drop_named(layer, name, error), error);
}

/* ---- listing ------------------------------------------------------------- */

spc_status spc__networks_each(spc__layer *layer,
                              spc_status (*each)(const spc__network *at,
                                                 void *payload),
                              void *payload, spc_error *error)
{
    sqlite3_stmt *stmt;
    spc__network network;
    bool row = true;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_ALL_NETWORKS, error);

    while (status == SPC_OK && row) {
        status = spc__layer_step(&row, layer, stmt, "read", error);
        if (status == SPC_OK && row) {
            read_row(&network, layer, stmt);
            status = each(&network, payload);
        }
    }
    spc__sql_done(stmt);
    return status;
}

spc_status spc__cache_each_network(spc__cache *cache,
                                   spc_status (*each)(const spc__network *at,
                                                      void *payload),
                                   void *payload, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < cache->count && status == SPC_OK; i++)
        status = spc__networks_each(&cache->layers[i], each, payload, error);
    return status;
}

/* ---- adding a network ---------------------------------------------------- */

/* Orders networks by time, and those of one second by their contents, so that
 * merging in any order gives the same result. */
static int compare(const spc__network *a, const spc__network *b)
{
    const char *const one[] = {a->weights, a->graph, a->source, a->version};
    const char *const two[] = {b->weights, b->graph, b->source, b->version};
    int order = (a->unix_seconds > b->unix_seconds) -
                (a->unix_seconds < b->unix_seconds);

    for (int i = 0; i < 4 && order == 0; i++)
        order = strcmp(one[i], two[i]);
    return order;
}

/* Decides about a network if the file has one of its name, with the reason. */
static spc__fate judge_beside(const char **reason, const spc__network *network,
                              const spc__network *there, bool trusts)
{
    int order = compare(network, there);

    /* A damaged network may always be replaced. */
    if (there->fault != NULL || (order > 0 && trusts))
        return SPC__FATE_ACCEPTED;
    if (order == 0)
        return SPC__FATE_KNOWN;
    *reason = order < 0 ? "the existing one is newer"
                        : "there is another network of this name here, which "
                          "stays, as the file is not trusted";
    return order < 0 ? SPC__FATE_OLDER : SPC__FATE_REJECTED;
}

/* Decides about an intact network. A damaged one in the file is replaced. */
static spc_status decide_fate(spc__fate *fate, const char **reason,
                              spc__layer *to, const spc__network *network,
                              bool trusts, spc_error *error)
{
    sqlite3_stmt *stmt;
    spc__network there;
    bool row = false;
    spc_status status =
        spc__layer_statement(&stmt, to, SPC__SQL_FIND_NETWORK, error);

    *fate = SPC__FATE_ACCEPTED;
    *reason = "";
    if (status != SPC_OK)
        return status;
    spc__bind_text(stmt, 1, network->name);
    status = spc__layer_step(&row, to, stmt, "read", error);
    if (status == SPC_OK && row) {
        read_row(&there, to, stmt);
        *fate = judge_beside(reason, network, &there, trusts);
    }
    spc__sql_done(stmt);
    return status;
}

spc_status spc__network_offer(spc__fate *fate, const char **reason,
                              spc__layer *to, const spc__network *network,
                              bool trusts, const spc__network_source *source,
                              spc_error *error)
{
    spc_status status = decide_fate(fate, reason, to, network, trusts, error);

    return status == SPC_OK && *fate == SPC__FATE_ACCEPTED
               ? put_locked(to, network, source, true, error)
               : status;
}
