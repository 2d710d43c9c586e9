/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - writes, reads and queries a manifest. */
#include "cache/pack/manifest.h"

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "cache/exchange/records.h"
#include "cache/network/network.h"
#include "cache/pack/signature.h"
#include <stdlib.h>
#include <string.h>

static const char heading[] = "# spctune manifest 1\n";

enum { DIGEST = SPC__SHA256_HEX - 1, MOST_BYTES = 1 << 30 };

struct spc__manifest {
    spc__buf text;
};

void spc__beside(spc__buf *out, const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');

    if (slash != NULL)
        spc__buf_append(out, path, (size_t)(slash - path) + 1);
    spc__buf_puts(out, name);
}

/* ---- queries ------------------------------------------------------------- */

/* The first line is the heading; the search starts after it. */
bool spc__manifest_has(const spc__manifest *manifest, const char *digest)
{
    const char *text = manifest->text.data;
    size_t low = sizeof(heading) - 1, high = manifest->text.length;

    /* The text itself is searched, without a table of its lines. */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        /* The lines are sorted. A binary search lands inside a line, so it goes
         * back to the start of the line. */
        while (middle > low && text[middle - 1] != '\n')
            middle--;
        size_t length = strcspn(text + middle, "\n");
        /* Only damage makes a line so short. It counts as greater than any
         * digest. */
        int order = length < DIGEST ? 1 : memcmp(text + middle, digest, DIGEST);
        if (order == 0)
            return true;
        if (order < 0)
            low = middle + length + 1;
        else
            high = middle;
    }
    return false;
}

int64_t spc__manifest_count(const spc__manifest *manifest, const char *file)
{
    size_t name = strlen(file);
    int64_t count = 0;

    for (const char *at = manifest->text.data; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        count += length > DIGEST + 2 + name &&
                 memcmp(at + DIGEST + 2, file, name) == 0 &&
                 at[DIGEST + 2 + name] == ' ';
        at += length + (at[length] == '\n');
    }
    return count;
}

/* ---- reading ------------------------------------------------------------- */

/* Reads the name from the table `meta`. It is a file name without a path, in
 * the folder of the file. */
static spc_status find_name(spc__buf *out, spc__layer *layer, spc_error *error)
{
    static const char question[] =
        "SELECT value FROM meta WHERE name = 'manifest'";
    sqlite3_stmt *stmt = NULL;
    bool row = false;
    spc_status status =
        spc__layer_prepare(&stmt, layer, question, "read", error);

    if (status != SPC_OK)
        return status;
    status = spc__layer_step(&row, layer, stmt, "read", error);
    const char *name = row ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    /* A path could lead out of the folder, to a file of another owner. */
    if (name != NULL && strchr(name, '/') == NULL)
        spc__beside(out, layer->path, name);
    sqlite3_finalize(stmt);
    if (status == SPC_OK && out->length == 0)
        status = spc__fail(error, SPC_EDB,
                           "cannot use '%s': a signature is required, and it "
                           "names no manifest; 'spctune db pack' makes one",
                           layer->path);
    return status;
}

static spc_status fail_unsigned(const spc__layer *layer, const char *why,
                                spc_error *error)
{
    return spc__fail(error, SPC_EDB,
                     "cannot use '%s', because its manifest is not signed with "
                     "the required key: %.400s",
                     layer->path, why);
}

/* Refuses pipes: the file's author may have placed one there to block the
 * reader. */
static spc_status read_plain(spc__buf *out, const char *path,
                             size_t limit_bytes, spc_error *error)
{
    if (!spc__sibling_is_plain(path, ""))
        return spc__fail(error, SPC_EIO, "'%s' is not a plain file", path);
    return spc__file_read(out, path, limit_bytes, error);
}

/* Reads the manifest and its signature, and checks one by the other. */
static spc_status read_signed(spc__manifest *out, spc__layer *layer,
                              const char *key, spc_error *error)
{
    enum { MOST_SIGNATURE = 1 << 16 };
    spc__buf name = SPC__BUF_INIT, signature = SPC__BUF_INIT;
    spc_error why = {0};
    spc_status status = find_name(&name, layer, error);

    if (status != SPC_OK)
        goto done;
    status = read_plain(&out->text, spc__buf_text(&name), MOST_BYTES, &why);
    spc__buf_puts(&name, ".minisig");
    if (status == SPC_OK)
        status =
            read_plain(&signature, spc__buf_text(&name), MOST_SIGNATURE, &why);
    if (status == SPC_OK)
        status = spc__signature_check(key, spc__buf_text(&signature),
                                      spc__buf_text(&out->text),
                                      out->text.length, &why);
    if (status == SPC_OK &&
        strncmp(spc__buf_text(&out->text), heading, sizeof(heading) - 1) != 0)
        status = spc__fail(&why, SPC_EFORMAT, "it is not a manifest");
    if (status != SPC_OK)
        status = fail_unsigned(layer, why.text, error);
done:
    spc__buf_release(&name);
    spc__buf_release(&signature);
    return status;
}

spc_status spc__manifest_open(spc__manifest **out, spc__layer *layer,
                              const char *key, spc_error *error)
{
    spc__manifest *manifest = calloc(1, sizeof(*manifest));
    spc_status status;

    *out = NULL;
    if (manifest == NULL)
        return spc__fail_memory(error, sizeof(*manifest));
    status = read_signed(manifest, layer, key, error);
    if (status == SPC_OK)
        *out = manifest;
    else
        spc__manifest_free(manifest);
    return status;
}

void spc__manifest_free(spc__manifest *manifest)
{
    if (manifest == NULL)
        return;
    spc__buf_release(&manifest->text);
    free(manifest);
}

/* ---- writing ------------------------------------------------------------- */

static const char *const seal_kinds[SPC__KINDS] = {
    [SPC__FACT] = "fact",
    [SPC__CODE] = "artefact",
    [SPC__TRIAL] = "trial",
    [SPC__CHOICE] = "choice",
};

/* Adds a line for the record: its digest, the file, and its key. */
static spc_status list_record(spc__buf *out, sqlite3_stmt *find,
                              const spc__record_cursor *cursor,
                              const spc__record *record, const char *name,
                              spc_error *error)
{
    bool row = false;

    spc__bind_text(find, 1, seal_kinds[record->kind]);
    sqlite3_bind_int64(find, 2, cursor->row);
    spc_status status =
        spc__layer_step(&row, cursor->layer, find, "read", error);
    if (row) {
        spc__buf_printf(out, "%s  %s ", sqlite3_column_text(find, 0), name);
        spc__record_format_key(out, record);
        spc__buf_puts(out, "\n");
    }
    spc__sql_done(find);
    return status;
}

/* Lists all records of a kind; damaged ones have no valid digest and are left
 * out. */
static spc_status list_kind(spc__buf *out, spc__layer *layer, spc__kind kind,
                            sqlite3_stmt *find, const char *name,
                            spc_error *error)
{
    spc__record_cursor cursor;
    spc__record record = {0};
    bool more = true;
    spc_status status = spc__cursor_open(&cursor, layer, kind, error);

    while (status == SPC_OK && more) {
        status = spc__cursor_next(&more, &record, &cursor, error);
        if (status == SPC_OK && more)
            status = list_record(out, find, &cursor, &record, name, error);
    }
    spc__cursor_close(&cursor);
    spc__record_release(&record);
    return status;
}

spc_status spc__manifest_list(spc__buf *out, spc__layer *layer,
                              const char *name, spc_error *error)
{
    static const char question[] =
        "SELECT digest FROM seal WHERE kind = ?1 AND record = ?2";
    sqlite3_stmt *find = NULL;
    spc_status status =
        spc__layer_prepare(&find, layer, question, "read", error);

    for (int kind = 0; kind < SPC__KINDS && status == SPC_OK; kind++)
        status = list_kind(out, layer, (spc__kind)kind, find, name, error);
    if (status == SPC_OK)
        status = spc__networks_list(out, layer, name, error);
    sqlite3_finalize(find);
    return status;
}

static int by_text(const void *a, const void *b)
{
    const char *const *one = a, *const *two = b;

    return strcmp(*one, *two);
}

/* Splits the text into lines. The caller owns the array. */
static char **cut(spc__buf *text, size_t *count)
{
    size_t lines = 0;

    for (size_t i = 0; i < text->length; i++)
        lines += text->data[i] == '\n';
    char **out = malloc((lines + 1) * sizeof(*out));
    *count = 0;
    for (char *at = text->data; out != NULL && *count < lines;) {
        char *end = strchr(at, '\n');
        *end = '\0';
        out[(*count)++] = at;
        at = end + 1;
    }
    return out;
}

spc_status spc__manifest_finish(spc__buf *text, spc_error *error)
{
    spc__buf sorted = SPC__BUF_INIT;
    size_t count = 0;
    char **lines = text->failed ? NULL : cut(text, &count);

    if (lines == NULL)
        return spc__fail_memory(error, text->length);
    /* Sorts the lines for the binary search, and so that equal databases have
     * equal manifests. */
    qsort(lines, count, sizeof(*lines), by_text);
    spc__buf_puts(&sorted, heading);
    for (size_t i = 0; i < count; i++)
        spc__buf_printf(&sorted, "%s\n", lines[i]);
    free(lines);
    spc__buf_release(text);
    *text = sorted;
    return text->failed ? spc__fail_memory(error, text->length) : SPC_OK;
}
