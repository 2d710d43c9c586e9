/* SPDX-License-Identifier: Apache-2.0 */
/* network_text.c - networks as lines of an export (network_text.h). */
#include "cache/network/network_text.h"

#include "base/base64.h"
#include "base/error.h"
#include "base/sha256.h"
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

static spc_status write_line(writing *w, spc_error *error)
{
    spc__buf_puts(&w->line, "\n");
    if (w->line.failed)
        return spc__fail_memory(error, w->line.length);
    spc_status status = w->write(w->line.data, w->line.length, w->payload);
    spc__buf_clear(&w->line);
    return status == SPC_OK
               ? status
               : spc__fail(error, status, "what is exported cannot be written");
}

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

typedef struct words {
    const char *at[FIELDS + 1];
    size_t length[FIELDS + 1];
    int count;
} words;

/* A network in lines, and the position of its next part. */
typedef struct lines {
    spc__network network;
    spc__buf texts[3]; /* version, source, graph */
    spc__buf part;
    char weights[SPC__SHA256_HEX];
    const char *parts, *at, *end;
} lines;

/* Reads the line at *at, without its end. Returns false at the end of the
 * text. */
static bool next_line(const char **line, size_t *length, const char **at,
                      const char *end)
{
    if (*at >= end)
        return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *line = *at;
    *length = (size_t)((stop != NULL ? stop : end) - *at);
    *at = stop != NULL ? stop + 1 : end;
    if (*length > 0 && (*line)[*length - 1] == '\r')
        --*length;
    return true;
}

/* Splits a line at blanks. Stops after one word more than a line has, to
 * detect an excess. */
static void split(words *out, const char *line, size_t length)
{
    const char *end = line + length;

    out->count = 0;
    while (line < end && out->count <= FIELDS) {
        const char *stop = memchr(line, ' ', (size_t)(end - line));
        const char *next = stop != NULL ? stop : end;
        out->at[out->count] = line;
        out->length[out->count++] = (size_t)(next - line);
        line = next + 1;
    }
}

static bool read_number(int64_t *out, const words *w, int i)
{
    char text[24], *end;

    if (w->length[i] == 0 || w->length[i] >= sizeof(text))
        return false;
    memcpy(text, w->at[i], w->length[i]);
    text[w->length[i]] = '\0';
    *out = strtoll(text, &end, 10);
    return *end == '\0' && *out >= 0;
}

static bool read_bytes(spc__buf *out, const char *text, size_t length)
{
    spc__buf_clear(out);
    return (length == 1 && *text == '-') || spc__base64_read(out, text, length);
}

static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == '/' || text[i] == 0x7f)
            return false;
    return length >= 1 && length <= NAME_MOST && text[0] != '-';
}

static bool has_failed(const lines *l)
{
    return l->texts[0].failed || l->texts[1].failed || l->texts[2].failed;
}

static bool read_texts(lines *l, const words *w)
{
    for (int i = 0; i < 3; i++)
        if (!read_bytes(&l->texts[i], w->at[6 + i], w->length[6 + i]) ||
            memchr(l->texts[i].data != NULL ? l->texts[i].data : "", '\0',
                   l->texts[i].length) != NULL)
            return false;
    l->network.version = spc__buf_text(&l->texts[0]);
    l->network.source = spc__buf_text(&l->texts[1]);
    l->network.graph = spc__buf_text(&l->texts[2]);
    return true;
}

static spc_status read_head(lines *l, char name[64], spc_error *why)
{
    const char *line = "";
    size_t length = 0;
    words w;

    next_line(&line, &length, &l->at, l->end); /* or no words */
    l->parts = l->at;
    split(&w, line, length);
    if (w.count >= 2 && is_name(w.at[1], w.length[1]))
        snprintf(name, 64, "%.*s", (int)w.length[1], w.at[1]);
    bool good = w.count == FIELDS + 1 && name[0] != '\0' &&
                read_number(&l->network.parts, &w, 2) &&
                read_number(&l->network.bytes, &w, 3) &&
                w.length[4] == SPC__SHA256_HEX - 1 &&
                read_number(&l->network.unix_seconds, &w, 5) &&
                read_texts(l, &w);
    if (has_failed(l))
        return spc__fail_memory(why, length);
    if (!good)
        return spc__fail(why, SPC_EFORMAT, "its line is not that of a network");
    memcpy(l->weights, w.at[4], w.length[4]);
    l->network.weights = l->weights;
    l->network.name = name;
    return SPC_OK;
}

/* A spc__network_source that returns the parts in order. */
static spc_status give_part(const void **data, size_t *bytes, int64_t part,
                            void *payload, spc_error *error)
{
    lines *l = payload;
    const char *line = "";
    size_t length = 0;

    bool good = next_line(&line, &length, &l->at, l->end) && length >= 6 &&
                memcmp(line, "part ", 5) == 0 &&
                read_bytes(&l->part, line + 5, length - 5);
    if (l->part.failed)
        return spc__fail_memory(error, length);
    if (!good)
        return spc__fail(error, SPC_EFORMAT,
                         "part %" PRId64 " of its weights is missing, or no "
                         "base64",
                         part);
    *data = l->part.data;
    *bytes = l->part.length;
    return SPC_OK;
}

static spc_status check_parts(lines *l, spc_error *why)
{
    unsigned char digest[SPC__SHA256_BYTES];
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
    spc__sha256_final(&sha, digest);
    spc__sha256_hex(hex, digest);
    if (all == l->network.bytes && strcmp(hex, l->weights) == 0)
        return SPC_OK;
    return spc__fail(why, SPC_EFORMAT,
                     "its weights are not those of its digest");
}

/* Skips all parts, whether the network is accepted or not. */
static void skip_parts(lines *l, int64_t *count)
{
    const char *line, *at = l->parts;
    size_t length;

    *count = 1;
    l->at = at;
    while (next_line(&line, &length, &at, l->end) && length >= 5 &&
           memcmp(line, "part ", 5) == 0) {
        ++*count;
        l->at = at;
    }
}

spc_status spc__network_read_lines(spc__fate *fate, spc_error *why,
                                   char name[64], const char **after,
                                   int64_t *count, spc__layer *to, bool trusts,
                                   const char *text, const char *end,
                                   spc_error *error)
{
    const char *reason = "";
    lines l = {.at = text, .end = end};
    spc__network_source source = {give_part, &l};
    spc_status status;

    name[0] = '\0';
    *fate = SPC__FATE_REJECTED;
    if ((status = read_head(&l, name, why)) == SPC_OK &&
        (status = check_parts(&l, why)) == SPC_OK) {
        l.at = l.parts;
        status = spc__network_offer(fate, &reason, to, &l.network, trusts,
                                    &source, error);
        snprintf(why->text, sizeof(why->text), "%s", reason);
    } else if (status == SPC_EFORMAT) {
        status = SPC_OK; /* the network's fault was reported */
    } else if (error != NULL) {
        *error = *why;
    }
    skip_parts(&l, count);
    *after = l.at;
    for (int i = 0; i < 3; i++)
        spc__buf_release(&l.texts[i]);
    spc__buf_release(&l.part);
    return status;
}
