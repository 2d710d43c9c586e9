/*
 * list.c - all problems of all layers.
 */
#include "cache_internal.h"

#include "error.h"
#include <string.h>

/* ---- the order of buckets ------------------------------------------------ */

static bool is_digit(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

/* Reads a whole number and moves behind it; false, and *at stays, where there
 * is none. What is too long for one is as good as the largest. */
static bool take_number(int64_t *out, const char **at, const char *end)
{
    const char *digit = *at + (*at < end && **at == '-');
    int sign = digit > *at ? -1 : 1;

    if (!is_digit(digit, end))
        return false;
    for (*out = 0; is_digit(digit, end); digit++)
        if (*out < INT32_MAX)
            *out = *out * 10 + (*digit - '0');
    *out *= sign;
    *at = digit;
    return true;
}

/* A collation: as bytes, but numbers by their value, so that rows=9 comes
 * before rows=10. */
int spc__compare_buckets(void *unused, int a_bytes, const void *a_text,
                         int b_bytes, const void *b_text)
{
    const char *a = a_text, *a_end = a + a_bytes;
    const char *b = b_text, *b_end = b + b_bytes;

    (void)unused;
    while (a < a_end && b < b_end) {
        const char *a_start = a, *b_start = b;
        int64_t one = 0, two = 0;
        if (take_number(&one, &a, a_end) && take_number(&two, &b, b_end)) {
            if (one != two)
                return one < two ? -1 : 1;
        } else if (*a_start != *b_start) {
            return (unsigned char)*a_start < (unsigned char)*b_start ? -1 : 1;
        } else {
            a = a_start + 1;
            b = b_start + 1;
        }
    }
    return (a < a_end) - (b < b_end);
}

/* ---- listing ------------------------------------------------------------- */

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
    " ORDER BY p.device, p.target, p.layer, p.buckets COLLATE spc_buckets";

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
