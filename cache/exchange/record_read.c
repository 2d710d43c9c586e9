/* SPDX-License-Identifier: Apache-2.0 */
/* record_read.c - reads the rows of a file as records. */
#include "cache/exchange/records.h"

#include "base/error.h"
#include "base/number.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SET_ASIDE(kind_is, row)                                                \
    "EXISTS (SELECT 1 FROM quarantine WHERE kind = '" kind_is                  \
    "' AND record = " row ")"
#define PROVENANCE(v)                                                          \
    v ".version, " v ".compiler, " v ".driver, " v ".host, " v ".scenes, " v   \
      ".seed"
#define CANDIDATE                                                              \
    "p.device, p.target, p.layer, p.buckets, t.template, t.template_hash,"     \
    " t.config"

/* clang-format off */

/*
 * How the records of a kind are read: the columns of its fields in order,
 * whether the seal matches (NULL: no seal), whether it is in quarantine, and
 * the row; the condition that selects the record of a key; and the order. Rows
 * with dangling references are included; their seal shows the damage.
 */
static const struct {
    const char *select, *of_key, *order;
} questions[SPC__KINDS] = {
    [SPC__FACT] = {
        "SELECT f.device, f.name, f.value, f.unix_seconds,"
        " s.digest = " SPC__DIGEST_FACT ", " SET_ASIDE("fact", "f.id") ", f.id"
        SPC__FROM_FACTS,
        " WHERE f.device = ?1 AND f.name = ?2",
        " ORDER BY f.device, f.name"},
    [SPC__CODE] = {
        "SELECT a.key, a.target, a.compiler, a.launch, a.resources, a.digest,"
        " coalesce(s.identity, ''), '', spc_code(a.code),"
        " s.digest = " SPC__DIGEST_ARTEFACT("s.identity")
        " AND a.digest = spc_sha256(a.code),"
        " " SET_ASIDE("artefact", "a.id") ", a.id"
        SPC__FROM_ARTEFACTS,
        " WHERE a.key = ?1",
        " ORDER BY a.key"},
    [SPC__TRIAL] = {
        "SELECT " CANDIDATE ", t.status, t.median_us, t.spread_us,"
        " t.cold_us, t.samples, t.error, t.verified, t.compile_ms, t.features,"
        " t.artefact, t.launch, t.resources, t.note, p.family, t.unix_seconds,"
        " " PROVENANCE("v") ", s.digest = " SPC__DIGEST_TRIAL ","
        " " SET_ASIDE("trial", "t.id") ", t.id" SPC__FROM_TRIALS,
        " WHERE p.device = ?1 AND p.target = ?2 AND p.layer = ?3"
        " AND p.buckets = ?4 AND t.template = ?5 AND t.template_hash = ?6"
        " AND t.config = ?7",
        " ORDER BY " CANDIDATE},
    [SPC__CHOICE] = {
        "SELECT " CANDIDATE ", c.reason, c.unix_seconds, " PROVENANCE("u") ","
        " s.digest = " SPC__DIGEST_TRIAL " AND w.digest = " SPC__DIGEST_CHOICE
        ", " SET_ASIDE("choice", "c.problem")
        " OR " SET_ASIDE("trial", "t.id") ", c.problem FROM choice AS c"
        " LEFT JOIN problem AS p ON p.id = c.problem"
        " LEFT JOIN trial AS t ON t.id = c.trial AND t.problem = c.problem"
        " LEFT JOIN provenance AS v ON v.id = t.provenance"
        " LEFT JOIN provenance AS u ON u.id = c.provenance"
        SPC__JOIN_SEAL("s", "trial", "t.id")
        SPC__JOIN_SEAL("w", "choice", "c.problem"),
        " WHERE p.device = ?1 AND p.target = ?2 AND p.layer = ?3"
        " AND p.buckets = ?4",
        " ORDER BY p.device, p.target, p.layer, p.buckets"},
};

/* clang-format on */

static spc_status prepare(spc__record_cursor *out, spc__layer *layer,
                          spc__kind kind, const char *end, spc_error *error)
{
    spc__buf sql = SPC__BUF_INIT;
    int rc = SQLITE_NOMEM;

    *out = (spc__record_cursor){.layer = layer, .kind = kind};
    spc__buf_printf(&sql, "%s%s", questions[kind].select, end);
    if (!sql.failed)
        rc = sqlite3_prepare_v2(layer->db, sql.data, -1, &out->stmt, NULL);
    spc__buf_release(&sql);
    return rc == SQLITE_OK ? SPC_OK : spc__layer_fail(layer, rc, "read", error);
}

spc_status spc__cursor_open(spc__record_cursor *out, spc__layer *layer,
                            spc__kind kind, spc_error *error)
{
    return prepare(out, layer, kind, questions[kind].order, error);
}

spc_status spc__cursor_open_by_key(spc__record_cursor *out, spc__layer *layer,
                                   spc__kind kind, spc_error *error)
{
    return prepare(out, layer, kind, questions[kind].of_key, error);
}

spc_status spc__cursor_find(bool *found, spc__record *out,
                            spc__record_cursor *cursor, const spc__record *like,
                            spc_error *error)
{
    int keys = spc__record_kind_of(like->kind)->keys;

    for (int i = 0; i < keys; i++)
        spc__bind_text(cursor->stmt, i + 1, spc__record_value(like, i));
    spc_status status = spc__cursor_next(found, out, cursor, error);
    spc__sql_done(cursor->stmt);
    return status;
}

void spc__cursor_close(spc__record_cursor *cursor)
{
    sqlite3_finalize(cursor->stmt);
    cursor->stmt = NULL;
}

/* Adds a number as the shortest text that reads back as the same value. NaN is
 * empty. */
static void add_real(spc__record *out, sqlite3_stmt *stmt, int i)
{
    enum { MOSTLY_ENOUGH = 6, BYTES = 40 };
    double value = spc__column_real(stmt, i);
    char text[BYTES] = "";

    if (!isnan(value))
        spc__number_print_exact(text, sizeof(text), MOSTLY_ENOUGH, value);
    spc__record_add(out, text);
}

/* Adds a column in the form of its field. */
static void add_column(spc__record *out, sqlite3_stmt *stmt, int i,
                       spc__form form)
{
    char seal[SPC__SHA256_HEX];
    const char *text;

    if (spc__form_is_real(form)) {
        add_real(out, stmt, i);
    } else if (form == SPC__FORM_SEAL) {
        spc__record_seal(seal, out); /* covers the preceding fields */
        spc__record_add(out, seal);
    } else if (form == SPC__FORM_CODE) {
        spc__record_add(out, "");
        out->has_code = true;
        const void *code = sqlite3_column_blob(stmt, i);
        spc__buf_append(&out->code, code != NULL ? code : "",
                        (size_t)sqlite3_column_bytes(stmt, i));
    } else {
        text = (const char *)sqlite3_column_text(stmt, i);
        spc__record_add(out, text != NULL ? text : "");
    }
}

static void read_row(spc__record *out, spc__record_cursor *cursor)
{
    const spc__record_kind *kind = spc__record_kind_of(cursor->kind);

    spc__record_clear(out, cursor->kind);
    for (int i = 0; i < kind->count; i++)
        add_column(out, cursor->stmt, i, kind->fields[i].form);
    cursor->row = sqlite3_column_int64(cursor->stmt, kind->count + 2);
}

static bool is_sound(const spc__record_cursor *cursor)
{
    int next = spc__record_kind_of(cursor->kind)->count;

    return sqlite3_column_int(cursor->stmt, next + 1) == 0 &&
           sqlite3_column_int(cursor->stmt, next) != 0;
}

spc_status spc__cursor_next(bool *more, spc__record *out,
                            spc__record_cursor *cursor, spc_error *error)
{
    spc_status status;

    while ((status = spc__layer_step(more, cursor->layer, cursor->stmt, "read",
                                     error)) == SPC_OK &&
           *more && !is_sound(cursor))
        cursor->damaged++;
    if (status != SPC_OK || !*more)
        return status;
    read_row(out, cursor);
    return out->text.failed || out->code.failed
               ? spc__fail_memory(error, out->code.length)
               : SPC_OK;
}
