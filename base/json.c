/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - a JSON writer: commas, nesting and escaping in one place. */
#include "base/json.h"

#include "base/number.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 32 };

/* A double holds every integer up to this value exactly. */
#define MOST_WHOLE 9007199254740992.0

/*
 * Returns the length of the well-formed UTF-8 sequence at `s`, or 0. The bounds
 * of the second byte exclude overlong forms, surrogates and code points past
 * U+10FFFF (Unicode, table 3-7). The terminator ends every sequence.
 */
static size_t utf8_length(const unsigned char *s)
{
    size_t length = s[0] < 0x80   ? 1
                    : s[0] < 0xc2 ? 0
                    : s[0] < 0xe0 ? 2
                    : s[0] < 0xf0 ? 3
                    : s[0] < 0xf5 ? 4
                                  : 0;
    unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;

    if (length > 1 && (s[1] < low || s[1] > high))
        return 0;
    for (size_t i = 2; i < length; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return length;
}

/* Writes a byte below 128, escaped if JSON or a terminal would take it for a
 * control character. */
static void escape_ascii(spc__buf *out, unsigned char c)
{
    static const char special[] = "\"\\\b\f\n\r\t";
    static const char letter[] = "\"\\bfnrt";
    const char *at = strchr(special, c);

    if (at != NULL) {
        char pair[2] = {'\\', letter[at - special]};
        spc__buf_append(out, pair, sizeof(pair));
    } else if (c < 0x20 || c == 0x7f) {
        spc__buf_printf(out, "\\u%04x", c);
    } else {
        spc__buf_append(out, &c, 1);
    }
}

/* Writes a string. Bytes that are not UTF-8 become U+FFFD, so that the document
 * stays valid. */
static void quote(spc__buf *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    spc__buf_append(out, "\"", 1);
    while (*s != '\0') {
        size_t length = utf8_length(s);
        if (length == 0)
            spc__buf_puts(out, "\xef\xbf\xbd"); /* U+FFFD */
        else if (length == 1)
            escape_ascii(out, *s);
        else
            spc__buf_append(out, s, length);
        s += length ? length : 1;
    }
    spc__buf_append(out, "\"", 1);
}

/* Writes a comma after an earlier value, then the key, if any. */
static void begin(spc__json *json, const char *key)
{
    if (json->need_comma)
        spc__buf_append(json->out, ",", 1);
    /* Values outside of all brackets are documents of their own. */
    json->need_comma = json->depth > 0;
    if (key != NULL) {
        quote(json->out, key);
        spc__buf_append(json->out, ":", 1);
    }
}

/* Opens an object or a list. */
static void open(spc__json *json, const char *key, const char *bracket)
{
    assert(json->depth < DEEPEST);
    begin(json, key);
    spc__buf_puts(json->out, bracket);
    json->depth++;
    json->need_comma = false;
}

/* Closes an object or a list. */
static void close(spc__json *json, const char *bracket)
{
    assert(json->depth > 0);
    spc__buf_puts(json->out, bracket);
    json->depth--;
    json->need_comma = json->depth > 0;
}

void spc__json_init(spc__json *json, spc__buf *out)
{
    *json = (spc__json){.out = out};
}

void spc__json_object(spc__json *json, const char *key)
{
    open(json, key, "{");
}

void spc__json_array(spc__json *json, const char *key)
{
    open(json, key, "[");
}

void spc__json_end_object(spc__json *json)
{
    close(json, "}");
}

void spc__json_end_array(spc__json *json)
{
    close(json, "]");
}

void spc__json_text(spc__json *json, const char *key, const char *value)
{
    begin(json, key);
    quote(json->out, value);
}

void spc__json_int(spc__json *json, const char *key, int64_t value)
{
    begin(json, key);
    spc__buf_printf(json->out, "%" PRId64, value);
}

/* Writes integral values without an exponent, since many readers do not accept
 * 2e+07 as an integer. */
void spc__json_real(spc__json *json, const char *key, double value)
{
    char text[32];

    begin(json, key);
    if (!isfinite(value)) {
        spc__buf_puts(json->out, "null");
        return;
    }
    if (value == trunc(value) && fabs(value) < MOST_WHOLE)
        snprintf(text, sizeof(text), "%.0f", value);
    else
        spc__number_print_exact(text, sizeof(text), 6, value);
    spc__buf_puts(json->out, text);
}

void spc__json_bool(spc__json *json, const char *key, bool value)
{
    begin(json, key);
    spc__buf_puts(json->out, value ? "true" : "false");
}
