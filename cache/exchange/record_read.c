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
#define ORDER_BY_PROBLEM " ORDER BY p.device, p.target, p.layer, p.buckets"

/* The fields of the kind in order, whether the seal matches (NULL: no seal),
 * whether it is in quarantine, and the row. Rows with dangling references are
 * included; their seal shows the damage. */
static const char *const questions[SPC__KINDS] = {
    [SPC__FACT] =
        "SELECT f.device, f.name, f.value, f.unix_seconds,"
        " s.digest = " SPC__DIGEST_FACT
        ", " SET_ASIDE("fact", "f.id") ", f.id FROM fact AS f"
                                       " LEFT JOIN seal AS s ON s.kind = "
                                       "'fact' AND s.record = f.id"
                                       " ORDER BY f.device, f.name",
    [SPC__CODE] =
        "SELECT a.key, a.target, a.compiler, a.launch, a.resources, a.digest,"
        " coalesce(s.identity, ''), '', spc_code(a.code),"
        " s.digest = " SPC__DIGEST_ARTEFACT(
            "s.identity") " AND a.digest = "
                          "spc_sha256(a.code),"
                          " " SET_ASIDE("artefact", "a.id") ", a.id "
                                                            "FROM "
                                                            "artefact"
                                                            " AS a "
                                                            "LEFT "
                                                            "JOIN "
                                                            "seal AS "
                                                            "s"
                                                            " ON "
                                                            "s.kind "
                                                            "= "
                                                            "'artefac"
                                                            "t' AND "
                                                            "s."
                                                            "record "
                                                            "= a.id "
                                                            "ORDER "
                                                            "BY "
                                                            "a.key",
    [SPC__TRIAL] =
        "SELECT p.device, p.target, p.layer, p.buckets, t.template,"
        " t.template_hash, t.config, t.status, t.median_us, t.spread_us,"
        " t.cold_us, t.samples, t.error, t.verified, t.compile_ms, t.features,"
        " t.artefact, t.launch, t.resources, t.note, p.family, t.unix_seconds,"
        " " PROVENANCE("v") ", s.digest = " SPC__DIGEST_TRIAL ", " SET_ASIDE(
            "trial", "t.id") ", t.id FROM trial AS t"
                             " LEFT JOIN problem AS p ON p.id = t.problem"
                             " LEFT JOIN provenance AS v ON v.id = t.provenance"
                             " LEFT JOIN seal AS s ON s.kind = 'trial' AND "
                             "s.record = t.id" ORDER_BY_PROBLEM
                             ", t.template, t.template_hash, t.config",
    [SPC__CHOICE] =
        "SELECT p.device, p.target, p.layer, p.buckets, t.template,"
        " t.template_hash, t.config, c.reason, c.unix_seconds,"
        " " PROVENANCE(
            "u") ", s.digest = " SPC__DIGEST_TRIAL
                 " AND w.digest = " SPC__DIGEST_CHOICE
                 ", " SET_ASIDE("choice", "c.problem") " OR " SET_ASIDE(
                     "trial",
                     "t.id") ", c.problem FROM choice AS c"
                             " LEFT JOIN problem AS p ON p.id = c.problem"
                             " LEFT JOIN trial AS t ON t.id = c.trial AND "
                             "t.problem = c.problem"
                             " LEFT JOIN provenance AS v ON v.id = t.provenance"
                             " LEFT JOIN provenance AS u ON u.id = c.provenance"
                             " LEFT JOIN seal AS s ON s.kind = 'trial' AND "
                             "s.record = t.id"
                             " LEFT JOIN seal AS w ON w.kind = 'choice' AND "
                             "w.record = c.problem" ORDER_BY_PROBLEM,
};

spc_status spc__cursor_open(spc__record_cursor *out, spc__layer *layer,
                            spc__kind kind, spc_error *error)
{
    *out = (spc__record_cursor){.layer = layer, .kind = kind};
    int rc =
        sqlite3_prepare_v2(layer->db, questions[kind], -1, &out->stmt, NULL);
    return rc == SQLITE_OK ? SPC_OK : spc__layer_fail(layer, rc, "read", error);
}

void spc__cursor_close(spc__record_cursor *cursor)
{
    sqlite3_finalize(cursor->stmt);
    cursor->stmt = NULL;
}

static void add_real(spc__record *out, sqlite3_stmt *stmt, int i)
{
    enum { MOSTLY_ENOUGH = 6, BYTES = 40 };
    double value = spc__column_real(stmt, i);
    char text[BYTES] = "";

    if (!isnan(value))
        spc__number_print_exact(text, sizeof(text), MOSTLY_ENOUGH, value);
    spc__record_add(out, text);
}

static void add_column(spc__record *out, sqlite3_stmt *stmt, int i,
                       spc__form form)
{
    char seal[SPC__SHA256_HEX];
    const char *text;

    if (spc__form_is_real(form)) {
        add_real(out, stmt, i);
    } else if (form == SPC__FORM_SEAL) {
        spc__record_seal(seal, out); /* covers the fields before it */
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
