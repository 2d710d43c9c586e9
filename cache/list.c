/*
 * list.c - all problems of all layers.
 */
#include "cache_internal.h"

#include "error.h"
#include <string.h>

/* A problem without a choice is shown with its newest trial's scene and
 * provenance. */
static const char listing[] =
    "SELECT " SPC__KEY_COLUMNS ", " SPC__TRIAL_COLUMNS ","
    " p.id, (SELECT count(*) FROM trial WHERE problem = p.id),"
    " (SELECT count(*) FROM trial WHERE problem = p.id AND status = 'ok'),"
    " c.trial IS NOT NULL, coalesce(c.reason, ''),"
    " coalesce(c.unix_seconds, t.unix_seconds),"
    " v.version, v.compiler, v.driver, v.host, v.scenes, v.seed"
    " FROM problem AS p LEFT JOIN choice AS c ON c.problem = p.id"
    " JOIN trial AS t ON t.id = coalesce(c.trial, (SELECT id FROM trial"
    "  WHERE problem = p.id ORDER BY unix_seconds DESC, id DESC LIMIT 1))"
    " JOIN provenance AS v ON v.id = coalesce(c.provenance, t.provenance)"
    " ORDER BY p.device, p.target, p.layer, p.rows_bucket, p.density_bucket";

static void read_provenance(spc__provenance *out, sqlite3_stmt *stmt, int first)
{
#define TEXT(field, i)                                                         \
    spc__column_text(out->field, sizeof(out->field), stmt, first + (i))
    out->unix_seconds = sqlite3_column_int64(stmt, first);
    TEXT(version, 1);
    TEXT(compiler, 2);
    TEXT(driver, 3);
    TEXT(host, 4);
    TEXT(scenes, 5);
    out->seed = (uint64_t)sqlite3_column_int64(stmt, first + 6);
#undef TEXT
}

static spc_status read_row(spc__cache_row *row, const spc__layer *layer,
                           sqlite3_stmt *stmt, spc_error *error)
{
    int next = SPC__KEY_WIDTH + SPC__TRIAL_WIDTH;
    spc_status status;

    memset(row, 0, sizeof(*row));
    row->file = layer->path;
    status = spc__read_key(&row->key, layer, stmt, 0, error);
    if (status != SPC_OK)
        return status;
    row->problem_id = sqlite3_column_int64(stmt, next);
    row->trials = sqlite3_column_int(stmt, next + 1);
    row->trials_ok = sqlite3_column_int(stmt, next + 2);
    row->has_choice = sqlite3_column_int(stmt, next + 3) != 0;
    spc__column_text(row->reason, sizeof(row->reason), stmt, next + 4);
    read_provenance(&row->provenance, stmt, next + 5);
    if (row->has_choice)
        status =
            spc__read_trial(&row->choice, layer, stmt, SPC__KEY_WIDTH, error);
    return status;
}

/* Not a kept statement: the callback may list again. */
static spc_status each_of_layer(spc__layer *layer,
                                spc_status (*each)(const spc__cache_row *row,
                                                   void *payload),
                                void *payload, spc_error *error)
{
    sqlite3_stmt *stmt = NULL;
    spc__cache_row row;
    bool more = true;
    spc_status status = SPC_OK;
    int rc = sqlite3_prepare_v2(layer->db, listing, -1, &stmt, NULL);

    if (rc != SQLITE_OK)
        return spc__layer_fail(layer, rc, "read", error);
    while (status == SPC_OK && more) {
        status = spc__layer_step(&more, layer, stmt, "read", error);
        if (status != SPC_OK || !more)
            break;
        status = read_row(&row, layer, stmt, error);
        if (status == SPC_OK)
            status = each(&row, payload);
    }
    sqlite3_finalize(stmt);
    return status;
}

spc_status spc__cache_each(spc__cache *cache,
                           spc_status (*each)(const spc__cache_row *row,
                                              void *payload),
                           void *payload, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < cache->count && status == SPC_OK; i++)
        status = each_of_layer(&cache->layers[i], each, payload, error);
    return status;
}
