/* SPDX-License-Identifier: Apache-2.0 */
/* attrs.c - ordered name = value lists and their canonical text. */
#include "base/attrs.h"

#include "base/error.h"
#include "base/text/scan.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Aborts if an attribute does not fit. Cutting it off could give two problems
 * the same key. An overflow is a bug in the library, so this also aborts in
 * release builds: the database and compiled kernels depend on these texts. */
static void require(bool fits, const char *name, const char *what)
{
    if (fits)
        return;
    fprintf(stderr, "libspc: internal error: attribute '%.40s': %s\n", name,
            what);
    abort();
}

/* True for ASCII letters and digits, whatever the locale. */
static bool is_word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-' ||
           c == ':';
}

/* The length of the word at the beginning of a text. */
static size_t word_length(const char *text)
{
    size_t length = 0;
    while (is_word_byte(text[length]))
        length++;
    return length;
}

static spc__attr *find(spc__attrs *attrs, const char *name)
{
    for (int i = 0; i < attrs->count; i++)
        if (strcmp(attrs->at[i].name, name) == 0)
            return &attrs->at[i];
    return NULL;
}

/* Copies by length and avoids printf, because every lookup sets attributes. */
static void set_value(spc__attr *attr, const char *value, size_t length)
{
    memcpy(attr->text, value, length);
    attr->text[length] = '\0';
    attr->number = 0;
    /* Decides this once, as texts are set once and read often. */
    attr->is_number = spc__scan_integer(
        &attr->number, (spc__span){attr->text, length}, INT64_MIN, INT64_MAX);
}

/* Appends an attribute without a value. The caller has checked that it fits. */
static spc__attr *append(spc__attrs *attrs, const char *name, size_t length)
{
    spc__attr *attr = &attrs->at[attrs->count++];

    memcpy(attr->name, name, length);
    attr->name[length] = '\0';
    return attr;
}

/* Returns the attribute of this name, which is appended if new. */
static spc__attr *claim(spc__attrs *attrs, const char *name)
{
    size_t length = word_length(name);

    require(length > 0 && name[length] == '\0', name, "no word");
    require(length < SPC__ATTR_NAME, name, "the name is too long");
    spc__attr *attr = find(attrs, name);
    if (attr != NULL)
        return attr;
    require(attrs->count < SPC__ATTRS_MAX, name, "the list is full");
    return append(attrs, name, length);
}

void spc__attrs_set_number(spc__attrs *attrs, const char *name, int64_t value)
{
    spc__attr *attr = claim(attrs, name);

    snprintf(attr->text, sizeof(attr->text), "%" PRId64, value);
    attr->number = value;
    attr->is_number = true;
}

void spc__attrs_set_text(spc__attrs *attrs, const char *name, const char *value)
{
    size_t length = word_length(value);

    require(value[length] == '\0', name, "its value is not a word");
    require(length < SPC__ATTR_TEXT, name, "its value is too long");
    set_value(claim(attrs, name), value, length);
}

const spc__attr *spc__attrs_find(const spc__attrs *attrs, const char *name)
{
    for (int i = 0; i < attrs->count; i++)
        if (strcmp(attrs->at[i].name, name) == 0)
            return &attrs->at[i];
    return NULL;
}

int64_t spc__attrs_number(const spc__attrs *attrs, const char *name,
                          int64_t otherwise)
{
    const spc__attr *attr = spc__attrs_find(attrs, name);
    return attr != NULL && attr->is_number ? attr->number : otherwise;
}

const char *spc__attrs_text(const spc__attrs *attrs, const char *name,
                            const char *otherwise)
{
    const spc__attr *attr = spc__attrs_find(attrs, name);
    return attr != NULL ? attr->text : otherwise;
}

bool spc__attrs_equal(const spc__attrs *a, const spc__attrs *b)
{
    if (a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->at[i].name, b->at[i].name) != 0 ||
            strcmp(a->at[i].text, b->at[i].text) != 0)
            return false;
    return true;
}

void spc__attrs_format(spc__buf *out, const spc__attrs *attrs)
{
    for (int i = 0; i < attrs->count; i++) {
        if (i > 0)
            spc__buf_append(out, ",", 1);
        spc__buf_puts(out, attrs->at[i].name);
        spc__buf_append(out, "=", 1);
        spc__buf_puts(out, attrs->at[i].text);
    }
}

/* Like find(), for a name within a longer text. */
static bool has_name(const spc__attrs *attrs, const char *name, size_t length)
{
    for (int i = 0; i < attrs->count; i++)
        if (memcmp(attrs->at[i].name, name, length) == 0 &&
            attrs->at[i].name[length] == '\0')
            return true;
    return false;
}

/* Reads one "name=value" at text + *position and advances the position. */
static spc_status parse_one(spc__attrs *out, const char *text, size_t *position,
                            spc_error *error)
{
    const char *name = text + *position;
    size_t name_length = word_length(name);
    if (name_length == 0 || name[name_length] != '=')
        return spc__fail(error, SPC_EFORMAT,
                         "expected name=value at position %zu, found '%.40s'",
                         *position, name);

    const char *value = name + name_length + 1;
    size_t value_length = word_length(value);
    char end = value[value_length];
    if (end != '\0' && end != ',')
        return spc__fail(error, SPC_EFORMAT,
                         "unexpected character '%c' in the value of '%.*s' at "
                         "position %zu",
                         end, (int)name_length, name,
                         (size_t)(value + value_length - text));
    if (name_length >= SPC__ATTR_NAME || value_length >= SPC__ATTR_TEXT)
        return spc__fail(error, SPC_EFORMAT,
                         "'%.40s' at position %zu is too long: names hold %d "
                         "bytes, values %d",
                         name, *position, SPC__ATTR_NAME - 1,
                         SPC__ATTR_TEXT - 1);

    if (has_name(out, name, name_length))
        return spc__fail(error, SPC_EFORMAT,
                         "'%.*s' appears twice, again at position %zu",
                         (int)name_length, name, *position);
    if (out->count >= SPC__ATTRS_MAX)
        return spc__fail(error, SPC_EFORMAT,
                         "more than %d attributes, '%.*s' at position %zu",
                         SPC__ATTRS_MAX, (int)name_length, name, *position);
    set_value(append(out, name, name_length), value, value_length);
    *position += name_length + 1 + value_length;
    return SPC_OK;
}

spc_status spc__attrs_parse(spc__attrs *out, const char *text, spc_error *error)
{
    size_t position = 0;

    out->count = 0;
    if (text[0] == '\0')
        return SPC_OK;
    for (;;) {
        spc_status status = parse_one(out, text, &position, error);
        if (status != SPC_OK)
            return status;
        if (text[position] == '\0')
            return SPC_OK;
        position++; /* skips the comma; another pair must follow */
    }
}
