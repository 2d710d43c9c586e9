/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - lists all problems of all layers. */
#include "cache/cache_internal.h"

#include "base/error.h"
#include <string.h>

/* ---- the order of buckets ------------------------------------------------ */

static bool is_digit(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

/* Reads an integer and advances *at. Without one it returns false and keeps
 * *at. A number that is too long becomes the largest one. */
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

/* A collation that compares bytes, but numbers by value, so that rows=9 comes
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

/* A problem without a choice is shown with the scene and provenance of its
 * newest trial. */
static const char listing[] =
    "SELECT " SPC__KEY_COLUMNS ", " SPC__TRIAL_COLUMNS ","
    " p.id, (SELECT count(*) FROM trial WHERE problem = p.id),"
    " (SELECT count(*) FROM trial WHERE problem = p.id AND status = 'ok'),"
    " c.trial IS NOT NULL, coalesce(c.reason, ''),"
    " coalesce(c.unix_seconds, t.unix_seconds),"
    " coalesce(u.version, v.version), coalesce(u.compiler, v.compiler),"
    " coalesce(u.driver, v.driver), coalesce(u.host, v.host),"
    " coalesce(u.scenes, v.scenes), coalesce(u.seed, v.seed),"
    " t.id, s.digest = " SPC__DIGEST_TRIAL ", w.digest = " SPC__DIGEST_CHOICE
    " FROM problem AS p LEFT JOIN choice AS c ON c.problem = p.id"
    " LEFT JOIN trial AS t ON t.id = coalesce(c.trial, (SELECT id FROM trial"
    "  WHERE problem = p.id ORDER BY unix_seconds DESC, id DESC LIMIT 1))"
    " LEFT JOIN provenance AS v ON v.id = t.provenance"
    " LEFT JOIN provenance AS u ON u.id = c.provenance" SPC__JOIN_SEAL(
        "s", "trial", "t.id")
        SPC__JOIN_SEAL(
            "w", "choice",
            "c.problem") " WHERE t.id IS NOT NULL OR c.problem IS NOT NULL"
                         " ORDER BY p.device, p.target, p.layer, p.buckets "
                         "COLLATE spc_buckets";

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

/* Checks the seals of the choice, if any, and of the trial that is shown. */
static spc_status check_seals(const spc__layer *layer, sqlite3_stmt *stmt,
                              bool has_choice, int64_t problem,
                              spc_error *error)
{
    int next = SPC__KEY_WIDTH + SPC__TRIAL_WIDTH + 12;
    spc_status status =
        spc__seal_check(layer, stmt, next + 1, "trial",
                        sqlite3_column_int64(stmt, next), error);

    if (status == SPC_OK && has_choice)
        status =
            spc__seal_check(layer, stmt, next + 2, "choice", problem, error);
    return status;
}

/* Reads a row of the list after checking its seals. */
static spc_status read_row(spc__cache_row *row, const spc__layer *layer,
                           sqlite3_stmt *stmt, spc_error *error)
{
    int next = SPC__KEY_WIDTH + SPC__TRIAL_WIDTH;
    spc_status status;

    memset(row, 0, sizeof(*row));
    row->file = layer->path;
    row->problem_id = sqlite3_column_int64(stmt, next);
    if ((status =
             check_seals(layer, stmt, sqlite3_column_int(stmt, next + 3) != 0,
                         row->problem_id, error)) != SPC_OK ||
        (status = spc__read_key(&row->key, layer, stmt, 0, error)) != SPC_OK)
        return status;
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

/* Prepares its own statement, since the callback may list again. Damaged
 * records are skipped; the first one is returned in `trouble` after all are
 * listed. */
static spc_status each_of_layer(spc__layer *layer, spc_error *trouble,
                                spc_status (*each)(const spc__cache_row *row,
                                                   void *payload),
                                void *payload, spc_error *error)
{
    spc_error damage = {0};
    sqlite3_stmt *stmt = NULL;
    spc__cache_row row;
    bool more = true;
    spc_status status =
        spc__layer_prepare(&stmt, layer, listing, "read", error);

    while (status == SPC_OK && more) {
        status = spc__layer_step(&more, layer, stmt, "read", error);
        if (status != SPC_OK || !more)
            break;
        spc_status read = read_row(&row, layer, stmt, &damage);
        if (read == SPC_OK)
            status = each(&row, payload);
        else if (read != SPC_EDB)
            status = spc__fail(error, read, "%s", damage.text);
        else if (trouble->status == SPC_OK)
            *trouble = damage;
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
    spc_error trouble = {0};

    for (int i = 0; i < cache->count && status == SPC_OK; i++)
        status =
            each_of_layer(&cache->layers[i], &trouble, each, payload, error);
    if (status != SPC_OK || trouble.status == SPC_OK)
        return status;
    return spc__fail(error, trouble.status, "%s", trouble.text);
}
