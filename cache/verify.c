/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.c - checks every record of every file against its seal, after checking
 * the tables.
 */
#include "cache/cache_internal.h"

#include "base/error.h"
#include "cache/pack/manifest.h"
#include <string.h>

/* Kind, row, and whether the record is intact (NULL: unknown). */
static const char *const questions[] = {
    "SELECT 'trial', t.id, s.digest = " SPC__DIGEST_TRIAL " FROM trial AS t"
    " LEFT JOIN problem AS p ON p.id = t.problem"
    " LEFT JOIN provenance AS v ON v.id = t.provenance"
    " LEFT JOIN seal AS s ON s.kind = 'trial' AND s.record = t.id",
    "SELECT 'choice', c.problem, w.digest = " SPC__DIGEST_CHOICE
    " AND t.id IS NOT NULL"
    " FROM choice AS c LEFT JOIN provenance AS u ON u.id = c.provenance"
    " LEFT JOIN trial AS t ON t.id = c.trial"
    " LEFT JOIN seal AS s ON s.kind = 'trial' AND s.record = c.trial"
    " LEFT JOIN seal AS w ON w.kind = 'choice' AND w.record = c.problem",
    /* A seal without a choice means a lost choice, because removing a choice
     * also removes its seal. */
    "SELECT 'choice', record, 0 FROM seal WHERE kind = 'choice'"
    " AND record NOT IN (SELECT problem FROM choice)",
    "SELECT 'artefact', a.id, s.digest = " SPC__DIGEST_ARTEFACT(
        "s.identity") " FROM artefact AS a LEFT JOIN seal AS s"
                      " ON s.kind = 'artefact' AND s.record = a.id",
    "SELECT 'code', a.id, a.digest = spc_sha256(a.code) FROM artefact AS a",
    "SELECT 'fact', f.id, s.digest = " SPC__DIGEST_FACT " FROM fact AS f"
    " LEFT JOIN seal AS s ON s.kind = 'fact' AND s.record = f.id",
    "SELECT 'network', n.id, s.digest = " SPC__DIGEST_NETWORK
    " FROM network AS n"
    " LEFT JOIN seal AS s ON s.kind = 'network' AND s.record = n.id",
    "SELECT 'part', w.id, x.digest = " SPC__DIGEST_PART
    " FROM network_part AS w"
    " LEFT JOIN seal AS s ON s.kind = 'network' AND s.record = w.network"
    " LEFT JOIN seal AS x ON x.kind = 'part' AND x.record = w.id",
};

typedef struct verification {
    spc_status (*each)(const spc__fault *fault, void *payload);
    void *payload;
    int64_t checked, listed; /* listed records that were found */
} verification;

static spc_status report(verification *v, const spc__layer *layer,
                         sqlite3_stmt *stmt, const char *reason)
{
    spc__fault fault = {
        .file = layer->path,
        .kind = (const char *)sqlite3_column_text(stmt, 0),
        .record = sqlite3_column_int64(stmt, 1),
        .reason = reason,
    };

    return fault.kind != NULL && reason != NULL ? v->each(&fault, v->payload)
                                                : SPC_ENOMEM;
}

/* True if the record is in quarantine, which lists it with its reason. */
static bool is_set_aside(const spc__layer *layer, sqlite3_stmt *record)
{
    sqlite3_stmt *stmt = NULL;
    bool found = false;

    if (sqlite3_prepare_v2(layer->db,
                           "SELECT 1 FROM quarantine WHERE kind = ?1 AND "
                           "record = ?2",
                           -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_value(stmt, 1, sqlite3_column_value(record, 0));
        sqlite3_bind_value(stmt, 2, sqlite3_column_value(record, 1));
        found = sqlite3_step(stmt) == SQLITE_ROW;
    }
    sqlite3_finalize(stmt);
    return found;
}

/* Counts a record, and reports it if it is damaged and not yet in
 * quarantine. */
static spc_status verify_row(verification *v, const spc__layer *layer,
                             sqlite3_stmt *stmt)
{
    bool sealed = sqlite3_column_type(stmt, 2) != SQLITE_NULL;
    const char *kind = (const char *)sqlite3_column_text(stmt, 0);

    v->checked++;
    if (sealed && sqlite3_column_int(stmt, 2) != 0) {
        /* The code of an artefact is checked by a second query on the same
         * record. */
        v->listed += kind != NULL && strcmp(kind, "code") != 0;
        return SPC_OK;
    }
    if (is_set_aside(layer, stmt))
        return SPC_OK;
    return report(v, layer, stmt, spc__seal_fault(layer, sealed));
}

static spc_status quarantine_row(verification *v, const spc__layer *layer,
                                 sqlite3_stmt *stmt)
{
    return report(v, layer, stmt, (const char *)sqlite3_column_text(stmt, 2));
}

/* Calls `row` for each row of a query. */
static spc_status ask(verification *v, spc__layer *layer, const char *question,
                      spc_status (*row)(verification *v,
                                        const spc__layer *layer,
                                        sqlite3_stmt *stmt),
                      spc_error *error)
{
    sqlite3_stmt *stmt = NULL;
    bool more = true;
    spc_status status = SPC_OK;
    int rc = sqlite3_prepare_v2(layer->db, question, -1, &stmt, NULL);

    if (rc != SQLITE_OK)
        return spc__layer_fail(layer, rc, "verify", error);
    while (status == SPC_OK && more) {
        status = spc__layer_step(&more, layer, stmt, "verify", error);
        if (status == SPC_OK && more)
            status = row(v, layer, stmt);
    }
    sqlite3_finalize(stmt);
    return status;
}

/* Checks that no listed record is missing. Removing records does not alter the
 * others, so their seals cannot show it. */
static spc_status verify_manifest(verification *v, const spc__layer *layer)
{
    const char *slash = strrchr(layer->path, '/');
    const char *name = slash != NULL ? slash + 1 : layer->path;
    spc__fault fault = {layer->path, "manifest", 0,
                        "not all records that it lists are there"};

    if (layer->manifest == NULL)
        return SPC_OK;
    fault.record = spc__manifest_count(layer->manifest, name) - v->listed;
    return fault.record != 0 ? v->each(&fault, v->payload) : SPC_OK;
}

spc_status spc__cache_verify(spc__cache *cache, int64_t *checked,
                             spc_status (*each)(const spc__fault *fault,
                                                void *payload),
                             void *payload, spc_error *error)
{
    enum { QUESTIONS = sizeof(questions) / sizeof(*questions) };
    verification v = {each, payload, 0, 0};
    spc_status status = SPC_OK;

    for (int i = 0; i < cache->count && status == SPC_OK; i++) {
        bool usable = true;
        v.listed = 0;
        status = spc__tables_verify(&usable, &cache->layers[i], each, payload,
                                    error);
        /* The queries below would fail on the missing columns. */
        if (!usable)
            continue;
        for (int q = 0; q < QUESTIONS && status == SPC_OK; q++)
            status =
                ask(&v, &cache->layers[i], questions[q], verify_row, error);
        if (status == SPC_OK)
            status = verify_manifest(&v, &cache->layers[i]);
        if (status == SPC_OK)
            status = ask(&v, &cache->layers[i],
                         "SELECT kind, record, reason FROM quarantine",
                         quarantine_row, error);
    }
    *checked = v.checked;
    return status;
}
