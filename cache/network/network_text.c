/* SPDX-License-Identifier: Apache-2.0 */
/* network_text.c - networks as lines of an export (network_text.h). */
#include "cache/network/network_text.h"

#include "base/base64.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/text/scan.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 8, NAME_MOST = 63 };

/* ---- writing ------------------------------------------------------------- */

typedef struct writing {
    spc__layer *layer;
    spc_status (*write)(const char *text, size_t bytes, void *payload);
    void *payload;
    int64_t *damaged;
    spc__buf line;
    spc_error *error;
} writing;

/* Base64, as a text may hold blanks and newlines. No bytes are a "-", since
 * every field of the line must have a word. */
static void add_bytes(spc__buf *out, const void *bytes, size_t count)
{
    spc__buf_puts(out, " ");
    if (count > 0)
        spc__base64_append(out, bytes, count);
    else
        spc__buf_puts(out, "-");
}

static void add_text(spc__buf *out, const char *text)
{
    add_bytes(out, text, strlen(text));
}

/* Ends the line and writes it. The next line reuses the buffer. */
static spc_status write_line(writing *w, spc_error *error)
{
    spc__buf_puts(&w->line, "\n");
    if (w->line.failed)
        return spc__fail_memory(error, w->line.length);
    spc_status status = w->write(w->line.data, w->line.length, w->payload);
    spc__buf_clear(&w->line);
    return status == SPC_OK
               ? status
               : spc__fail(error, status, "cannot write the export");
}

/* Writes the line of the network itself. */
static spc_status write_head(const spc__network *n, void *payload,
                             spc_error *error)
{
    writing *w = payload;

    spc__buf_printf(&w->line, "network %s %" PRId64 " %" PRId64 " %s %" PRId64,
                    n->name, n->parts, n->bytes, n->weights, n->unix_seconds);
    add_text(&w->line, n->version);
    add_text(&w->line, n->source);
    add_text(&w->line, n->graph);
    return write_line(w, error);
}

static spc_status write_part(int64_t part, const void *data, size_t bytes,
                             void *payload, spc_error *error)
{
    writing *w = payload;

    (void)part;
    spc__buf_puts(&w->line, "part");
    add_bytes(&w->line, data, bytes);
    return write_line(w, error);
}

static spc_status write_end(void *payload, spc_error *error)
{
    (void)payload, (void)error;
    return SPC_OK;
}

/* Checks the whole network before writing its first line. */
static spc_status write_network(const spc__network *network, void *payload)
{
    writing *w = payload;
    spc__network_reader lines = {write_head, write_part, write_end, w};

    if (network->fault != NULL ||
        spc__network_check(w->layer, network->name, NULL) != SPC_OK) {
        ++*w->damaged;
        return SPC_OK;
    }
    return spc__network_get(w->layer, network->name, &lines, w->error);
}

spc_status spc__networks_write(spc__layer *layer,
                               spc_status (*write)(const char *text,
                                                   size_t bytes, void *payload),
                               void *payload, int64_t *damaged,
                               spc_error *error)
{
    writing w = {layer, write, payload, damaged, SPC__BUF_INIT, error};
    spc_status status = spc__networks_each(layer, write_network, &w, error);

    spc__buf_release(&w.line);
    return status;
}

/* ---- reading ------------------------------------------------------------- */

/* A network in lines, and the position of its next part. */
typedef struct lines {
    spc__network network;
    spc__buf texts[3]; /* version, source, graph */
    spc__buf part;
    char weights[SPC__SHA256_HEX];
    spc__span parts, rest;
    const char *end;
} lines;

/* Takes a line without its end. After the last line, `at` is NULL. */
static spc__span next_line(spc__span *rest)
{
    if (rest->at == NULL)
        return *rest;
    spc__span line = spc__scan_part(rest, '\n');
    if (line.length > 0 && line.at[line.length - 1] == '\r')
        line.length--;
    return line;
}

/* Takes a line "part ..."; `out` is the text after the blank. */
static bool next_part(spc__span *out, spc__span *rest)
{
    static const char word[] = "part ";
    size_t length = strlen(word);

    *out = next_line(rest);
    if (out->length < length || memcmp(out->at, word, length) != 0)
        return false;
    *out = (spc__span){out->at + length, out->length - length};
    return true;
}

static bool read_count(int64_t *out, spc__span word)
{
    return spc__scan_integer(out, word, 0, INT64_MAX);
}

static bool read_bytes(spc__buf *out, spc__span text)
{
    spc__buf_clear(out);
    return spc__span_is(text, "-") ||
           spc__base64_read(out, text.at, text.length);
}

/* The same rule as for names that users give: no blanks or control characters,
 * no path, and nothing that looks like an option. */
static bool is_name(spc__span text)
{
    for (size_t i = 0; i < text.length; i++)
        if ((unsigned char)text.at[i] <= ' ' || text.at[i] == '/' ||
            text.at[i] == 0x7f)
            return false;
    return text.length >= 1 && text.length <= NAME_MOST && text.at[0] != '-';
}

static bool has_failed(const lines *l)
{
    return l->texts[0].failed || l->texts[1].failed || l->texts[2].failed;
}

/* A zero byte would end a text too early. */
static bool read_texts(lines *l, const spc__span *words)
{
    for (int i = 0; i < 3; i++)
        if (!read_bytes(&l->texts[i], words[i]) ||
            memchr(l->texts[i].data != NULL ? l->texts[i].data : "", '\0',
                   l->texts[i].length) != NULL)
            return false;
    l->network.version = spc__buf_text(&l->texts[0]);
    l->network.source = spc__buf_text(&l->texts[1]);
    l->network.graph = spc__buf_text(&l->texts[2]);
    return true;
}

/* Reads the line of a network. Its name is set early, because a message about
 * the line needs it. */
static spc_status read_head(lines *l, char name[64], spc_error *why)
{
    spc__span line = next_line(&l->rest), rest = line;
    spc__span words[FIELDS + 1] = {{NULL, 0}};
    int count = 0;

    l->parts = l->rest;
    /* The word "network", then the fields; a rest shows a line that is too
     * long. */
    while (rest.at != NULL && count <= FIELDS)
        words[count++] = spc__scan_part(&rest, ' ');
    if (count >= 2 && is_name(words[1]))
        snprintf(name, 64, "%.*s", (int)words[1].length, words[1].at);
    bool good = count == FIELDS + 1 && rest.at == NULL && name[0] != '\0' &&
                read_count(&l->network.parts, words[2]) &&
                read_count(&l->network.bytes, words[3]) &&
                words[4].length == SPC__SHA256_HEX - 1 &&
                read_count(&l->network.unix_seconds, words[5]) &&
                read_texts(l, words + 6);
    if (has_failed(l))
        return spc__fail_memory(why, line.length);
    if (!good)
        return spc__fail(why, SPC_EFORMAT, "its line is not that of a network");
    memcpy(l->weights, words[4].at, words[4].length);
    l->network.weights = l->weights;
    l->network.name = name;
    return SPC_OK;
}

/* A spc__network_source that returns the parts in order. */
static spc_status give_part(const void **data, size_t *bytes, int64_t part,
                            void *payload, spc_error *error)
{
    lines *l = payload;
    spc__span text;
    bool good = next_part(&text, &l->rest) && text.length > 0 &&
                read_bytes(&l->part, text);

    if (l->part.failed)
        return spc__fail_memory(error, text.length);
    if (!good)
        return spc__fail(error, SPC_EFORMAT,
                         "part %" PRId64 " of its weights is missing, or not "
                         "base64",
                         part);
    *data = l->part.data;
    *bytes = l->part.length;
    return SPC_OK;
}

/* Reads all parts once, to check the network before anything is written. */
static spc_status check_parts(lines *l, spc_error *why)
{
    char hex[SPC__SHA256_HEX];
    int64_t all = 0;
    spc__sha256 sha;
    spc_status status = SPC_OK;

    spc__sha256_init(&sha);
    for (int64_t i = 0; i < l->network.parts && status == SPC_OK; i++) {
        const void *data = NULL;
        size_t bytes = 0;
        status = give_part(&data, &bytes, i, l, why);
        if (status == SPC_OK && bytes > 0)
            spc__sha256_update(&sha, data, bytes);
        all += (int64_t)bytes;
    }
    if (status != SPC_OK)
        return status;
    spc__sha256_end(hex, &sha);
    if (all == l->network.bytes && strcmp(hex, l->weights) == 0)
        return SPC_OK;
    return spc__fail(why, SPC_EFORMAT, "its weights do not match its digest");
}

/* Returns the end of the last part, whether the network is accepted or not.
 * *count is the number of its lines. */
static const char *skip_parts(const lines *l, int64_t *count)
{
    spc__span rest = l->parts, part;
    const char *after = rest.at;

    for (*count = 1; next_part(&part, &rest); ++*count)
        after = rest.at;
    return after != NULL ? after : l->end;
}

spc_status spc__network_read_lines(spc__fate *fate, spc_error *why,
                                   char name[64], const char **after,
                                   int64_t *count, spc__layer *to, bool trusts,
                                   const char *text, const char *end,
                                   spc_error *error)
{
    const char *reason = "";
    lines l = {.rest = {text, (size_t)(end - text)}, .end = end};
    spc__network_source source = {give_part, &l};
    spc_status status;

    name[0] = '\0';
    *fate = SPC__FATE_REJECTED;
    if ((status = read_head(&l, name, why)) == SPC_OK &&
        (status = check_parts(&l, why)) == SPC_OK) {
        l.rest = l.parts;
        status = spc__network_offer(fate, &reason, to, &l.network, trusts,
                                    &source, error);
        snprintf(why->text, sizeof(why->text), "%s", reason);
    } else if (status == SPC_EFORMAT) {
        status = SPC_OK; /* the network's fault was reported */
    } else if (error != NULL) {
        *error = *why;
    }
    *after = skip_parts(&l, count);
    for (int i = 0; i < 3; i++)
        spc__buf_release(&l.texts[i]);
    spc__buf_release(&l.part);
    return status;
}
