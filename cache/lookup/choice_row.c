/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choice_row.c - reads a complete choice and its trial, and checks their seals.
 *
 * A look-up waits for this code, so each column is read from SQLite once, and
 * the digests are computed here. As arguments of spc_digest() all columns would
 * be copied again. The provenance is the same for all records of one tuning, so
 * its last few rows are cached, in the form that is hashed, until their file
 * changes.
 *
 * The digest of a choice includes that of its trial. If it matches with the
 * digest computed from the trial's row, the trial is unchanged since it was
 * chosen, and its own seal need not be read. This saves a search in a table
 * that is not in memory yet. Only on a mismatch are both seals read, to find
 * which of the two records is damaged.
 */
#include "cache/cache_internal.h"

#include "base/error.h"
#include "base/sha256.h"
#include "cache/pack/manifest.h"
#include <string.h>

/* The columns of WHOLE in statement.c. The last two are only read in case of
 * doubt. */
enum {
    KEY = 0,
    LAYER = KEY,
    DEVICE,
    TARGET,
    FEATURES,
    TRIAL = SPC__KEY_WIDTH,
    TEMPLATE = TRIAL,
    HASH,
    CONFIG,
    LAUNCH,
    RESOURCES,
    ARTEFACT,
    STATUS,
    NOTE,
    MEDIAN,
    SPREAD,
    COLD,
    SAMPLES,
    ERROR,
    VERIFIED,
    COMPILE,
    BUCKETS,
    FAMILY,
    TRIAL_TIME,
    TRIAL_PROVENANCE,
    REASON,
    CHOICE_TIME,
    CHOICE_PROVENANCE,
    TRIAL_ID,
    PROBLEM_ID,
    CHOICE_SEAL,
    TRIAL_SEAL,
    CHOICE_ID
};

/* The same text as in SPC__DIGEST_TRIAL and SPC__DIGEST_CHOICE, up to
 * provenance. */
static const unsigned char trial_words[] = {
    DEVICE,  LAYER,     TARGET,   BUCKETS,    FAMILY,   TEMPLATE,
    HASH,    CONFIG,    STATUS,   MEDIAN,     SPREAD,   COLD,
    SAMPLES, ERROR,     VERIFIED, COMPILE,    FEATURES, ARTEFACT,
    LAUNCH,  RESOURCES, NOTE,     TRIAL_TIME,
};
static const unsigned char choice_words[] = {REASON, CHOICE_TIME};

enum { PROVENANCE_WIDTH = 6 };

/* ---- digests ------------------------------------------------------------- */

/* Reads SQLite's values, which requires that only one thread uses the
 * handle. */
static void put_column(spc__buf *out, sqlite3_stmt *stmt, int i)
{
    sqlite3_value *value = sqlite3_column_value(stmt, i);
    int type = sqlite3_value_type(value);
    const void *bytes;

    if (type == SQLITE_INTEGER) {
        spc__seal_put_integer(out, sqlite3_value_int64(value));
    } else if (type == SQLITE_FLOAT) {
        spc__seal_put_real(out, sqlite3_value_double(value));
    } else if (type == SQLITE_NULL) {
        spc__seal_put_null(out);
    } else {
        bytes = sqlite3_value_blob(value);
        size_t count = (size_t)sqlite3_value_bytes(value);
        if (bytes == NULL && count > 0)
            out->failed = true;
        spc__seal_put_bytes(out, type, bytes, bytes != NULL ? count : 0);
    }
}

/* Finds the row in the cache. */
static spc__kept_provenance *find_kept(spc__layer *layer, int64_t id)
{
    for (int i = 0; i < SPC__KEPT_PROVENANCES; i++) {
        spc__kept_provenance *kept = &layer->provenances[i];
        if (kept->id == id && kept->at.others == layer->seen.others &&
            kept->at.own == layer->seen.own && kept->at.others >= 0)
            return kept;
    }
    return NULL;
}

/* Reads the columns of a provenance in the form that is hashed. */
static spc_status read_provenance(spc__kept_provenance *out, spc__layer *layer,
                                  int64_t id, spc_error *error)
{
    sqlite3_stmt *stmt;
    bool row = false;
    spc_status status =
        spc__layer_statement(&stmt, layer, SPC__SQL_GET_PROVENANCE, error);

    out->id = id;
    /* The entry is invalid until all of it has been read. */
    out->at = (spc__file_version){-1, -1};
    spc__buf_clear(&out->bytes);
    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(stmt, 1, id);
    status = spc__layer_step(&row, layer, stmt, "read", error);
    for (int i = 0; i < PROVENANCE_WIDTH && status == SPC_OK; i++)
        if (row)
            put_column(&out->bytes, stmt, i);
        else
            spc__seal_put_null(&out->bytes);
    spc__sql_done(stmt);
    if (status == SPC_OK && out->bytes.failed)
        status = spc__layer_fail(layer, SQLITE_NOMEM, "read", error);
    if (status == SPC_OK)
        out->at = layer->seen;
    return status;
}

/* Appends the bytes of a provenance, from the cache if they are there. The
 * oldest entry is replaced. */
static spc_status put_provenance(spc__buf *out, spc__layer *layer, int64_t id,
                                 spc_error *error)
{
    spc__kept_provenance *kept = find_kept(layer, id);
    spc_status status = SPC_OK;

    if (kept == NULL) {
        kept = &layer->provenances[layer->next_provenance++ %
                                   SPC__KEPT_PROVENANCES];
        status = read_provenance(kept, layer, id, error);
    }
    if (status == SPC_OK)
        spc__buf_append(out, kept->bytes.data, kept->bytes.length);
    return status;
}

/* A digest of some columns and their provenance. That of a choice starts with
 * the digest of its trial. */
typedef struct recipe {
    const char *what;
    const unsigned char *words;
    int count;
    int provenance; /* column of the provenance */
} recipe;

static const recipe of_trial = {"trial", trial_words, sizeof(trial_words),
                                TRIAL_PROVENANCE};
static const recipe of_choice = {"choice", choice_words, sizeof(choice_words),
                                 CHOICE_PROVENANCE};

static void begin(spc__buf *bytes, const recipe *from)
{
    spc__buf_clear(bytes);
    spc__seal_put_bytes(bytes, SQLITE_TEXT, from->what, strlen(from->what));
}

/* Appends the recipe's columns and hashes all bytes. */
static spc_status finish(char hex[SPC__SHA256_HEX], spc__buf *bytes,
                         spc__layer *layer, sqlite3_stmt *stmt,
                         const recipe *from, spc_error *error)
{
    spc_status status;

    for (int i = 0; i < from->count; i++)
        put_column(bytes, stmt, from->words[i]);
    status = put_provenance(
        bytes, layer, sqlite3_column_int64(stmt, from->provenance), error);
    if (status != SPC_OK)
        return status;
    if (bytes->failed)
        return spc__layer_fail(layer, SQLITE_NOMEM, "read", error);
    spc__sha256_of(hex, bytes->data, bytes->length);
    return SPC_OK;
}

static bool is_signed(const spc__layer *layer, const char *hex)
{
    return layer->manifest == NULL || spc__manifest_has(layer->manifest, hex);
}

/* Returns the seal in a column, or NULL if it is not a valid seal. */
static const char *seal_in(sqlite3_stmt *stmt, int i)
{
    const char *digest = sqlite3_column_blob(stmt, i);

    return sqlite3_column_type(stmt, i) == SQLITE_TEXT && digest != NULL &&
                   sqlite3_column_bytes(stmt, i) == SPC__SHA256_HEX - 1
               ? digest
               : NULL;
}

/* True if the digest matches the seal and, if required, is signed. */
static bool fits(const spc__layer *layer, const char *seal, const char *hex)
{
    return seal != NULL && memcmp(seal, hex, SPC__SHA256_HEX - 1) == 0 &&
           is_signed(layer, hex);
}

/* ---- reading ------------------------------------------------------------- */

/* A damaged record. */
typedef struct unsound {
    const char *kind; /* NULL if no record is damaged */
    int64_t record;
    const char *fault;
} unsound;

static bool has_seal(sqlite3_stmt *stmt, int seal)
{
    return sqlite3_column_type(stmt, seal) != SQLITE_NULL;
}

/* Checks the choice's seal against the current two rows. */
static spc_status is_sound(bool *out, spc__cache *cache, spc__layer *layer,
                           sqlite3_stmt *stmt, const char *seal,
                           spc_error *error)
{
    spc__buf *bytes = &cache->sealed_bytes;
    char trial[SPC__SHA256_HEX], choice[SPC__SHA256_HEX];
    spc_status status;

    *out = false;
    if (seal == NULL)
        return SPC_OK;
    begin(bytes, &of_trial);
    status = finish(trial, bytes, layer, stmt, &of_trial, error);
    if (status != SPC_OK)
        return status;
    begin(bytes, &of_choice);
    spc__seal_put_bytes(bytes, SQLITE_TEXT, trial, SPC__SHA256_HEX - 1);
    status = finish(choice, bytes, layer, stmt, &of_choice, error);
    *out = status == SPC_OK && is_signed(layer, trial) &&
           fits(layer, seal, choice);
    return status;
}

/* A record without a seal is damaged. */
static spc_status check_seal(unsound *out, spc__cache *cache, spc__layer *layer,
                             sqlite3_stmt *stmt, const recipe *from, int seal,
                             int record, spc_error *error)
{
    spc__buf *bytes = &cache->sealed_bytes;
    bool sealed = has_seal(stmt, seal);
    bool sound = false;
    char hex[SPC__SHA256_HEX];
    spc_status status = SPC_OK;

    if (sealed) {
        begin(bytes, from);
        if (from == &of_choice)
            put_column(bytes, stmt, TRIAL_SEAL);
        status = finish(hex, bytes, layer, stmt, from, error);
        sound = status == SPC_OK && fits(layer, seal_in(stmt, seal), hex);
    }
    if (status == SPC_OK && !sound)
        *out = (unsound){from->what, sqlite3_column_int64(stmt, record),
                         spc__seal_fault(layer, sealed)};
    return status;
}

static bool is_there(sqlite3_stmt *stmt, int id)
{
    return sqlite3_column_type(stmt, id) != SQLITE_NULL;
}

/* Checks the choice first, since it may refer to an intact trial of another
 * problem. */
static spc_status find_unsound(unsound *out, spc__cache *cache,
                               spc__layer *layer, sqlite3_stmt *stmt,
                               spc_error *error)
{
    spc_status status;

    *out = (unsound){0};
    if (!is_there(stmt, TRIAL_ID)) {
        *out = (unsound){of_choice.what, sqlite3_column_int64(stmt, PROBLEM_ID),
                         is_there(stmt, CHOICE_ID) ? "its trial is gone"
                                                   : "it is gone"};
        return SPC_OK;
    }
    status = check_seal(out, cache, layer, stmt, &of_choice, CHOICE_SEAL,
                        PROBLEM_ID, error);
    if (status != SPC_OK || out->kind != NULL)
        return status;
    return check_seal(out, cache, layer, stmt, &of_trial, TRIAL_SEAL, TRIAL_ID,
                      error);
}

static spc_status read_row(spc__choice *out, const spc__layer *layer,
                           sqlite3_stmt *stmt, spc_error *error)
{
    spc_status status = spc__read_key(&out->key, layer, stmt, KEY, error);

    spc__column_text(out->reason, sizeof(out->reason), stmt, REASON);
    return status == SPC_OK
               ? spc__read_trial(&out->trial, layer, stmt, TRIAL, error)
               : status;
}

/* Ends the reading before it writes. */
static spc_status set_aside(spc__cache *cache, spc__layer *layer,
                            const unsound *what, spc_error *error)
{
    spc_error why = {0};

    spc__seal_fail(layer, what->fault, what->kind, what->record, &why);
    /* A read transaction cannot become a write transaction if another process
     * has written since. */
    spc__cache_end_reading(cache);
    spc__quarantine(layer, what->kind, what->record, why.text);
    spc__cache_begin_reading(cache);
    return spc__fail(error, why.status, "%s", why.text);
}

static spc_status read_sound(spc__choice *out, const spc__layer *layer,
                             sqlite3_stmt *stmt, spc_error *error)
{
    out->file = layer->path;
    out->problem = sqlite3_column_int64(stmt, PROBLEM_ID);
    return read_row(out, layer, stmt, error);
}

static spc_status ask_of(sqlite3_stmt **out, bool *got, spc__layer *layer,
                         spc__sql question, int64_t problem, spc_error *error)
{
    spc_status status = spc__layer_statement(out, layer, question, error);

    *got = false;
    if (status != SPC_OK)
        return status;
    sqlite3_bind_int64(*out, 1, problem);
    return spc__layer_step(got, layer, *out, "read", error);
}

/* Reads the problem's choice, if any. `what` tells whether it is damaged. A
 * choice whose trial was later found to be wrong does not count. */
static spc_status read_checked(spc__choice *out, bool *got, unsound *what,
                               spc__cache *cache, spc__layer *layer,
                               int64_t problem, spc_error *error)
{
    sqlite3_stmt *stmt;
    spc_status status =
        ask_of(&stmt, got, layer, SPC__SQL_CHOICE_IN_DOUBT, problem, error);

    *what = (unsound){0};
    if (status == SPC_OK && *got)
        status = find_unsound(what, cache, layer, stmt, error);
    if (status == SPC_OK && *got && what->kind == NULL)
        status = read_sound(out, layer, stmt, error);
    spc__sql_done(stmt);
    *got = *got && status == SPC_OK && what->kind == NULL &&
           out->trial.status == SPC__TRIAL_OK;
    return status;
}

/* If the file is read-only, the next trial serves only this time. */
static void read_next(spc__choice *out, bool *got, spc__cache *cache,
                      spc__layer *layer, int64_t problem)
{
    sqlite3_stmt *stmt;
    unsound what;

    spc__cache_end_reading(cache);
    bool chosen = spc__choose_next(layer, problem);
    spc__cache_begin_reading(cache);
    if (chosen) {
        read_checked(out, got, &what, cache, layer, problem, NULL);
        return;
    }
    spc_status status =
        ask_of(&stmt, got, layer, SPC__SQL_NEXT_CHOICE, problem, NULL);
    if (status == SPC_OK && *got)
        status = read_sound(out, layer, stmt, NULL);
    *got = *got && status == SPC_OK;
    spc__sql_done(stmt);
}

spc_status spc__choice_read_doubtful(spc__choice *out, bool *got,
                                     spc__cache *cache, spc__layer *layer,
                                     int64_t problem, spc_error *error)
{
    unsound what;
    spc_status status =
        read_checked(out, got, &what, cache, layer, problem, error);

    if (status != SPC_OK || what.kind == NULL)
        return status;
    status = set_aside(cache, layer, &what, error);
    read_next(out, got, cache, layer, problem);
    return status;
}

spc_status spc__choice_read(spc__choice *out, bool *got, spc__cache *cache,
                            spc__layer *layer, sqlite3_stmt *stmt,
                            const char *seal, spc_error *error)
{
    bool sound;
    spc_status status =
        is_sound(&sound, cache, layer, stmt,
                 seal != NULL ? seal : seal_in(stmt, CHOICE_SEAL), error);
    int64_t problem = sqlite3_column_int64(stmt, PROBLEM_ID);

    if (status == SPC_OK && sound)
        status = read_sound(out, layer, stmt, error);
    spc__sql_done(stmt);
    *got = status == SPC_OK;
    return status == SPC_OK && !sound
               ? spc__choice_read_doubtful(out, got, cache, layer, problem,
                                           error)
               : status;
}
