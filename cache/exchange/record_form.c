/* SPDX-License-Identifier: Apache-2.0 */
/* record_form.c - records as lines: the table of kinds, writing, reading. */
#include "cache/exchange/record_form.h"

#include "base/attrs.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/number.h"
#include "base/text/names.h"
#include "cache/cache_internal.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the kinds ----------------------------------------------------------- */

enum { ATTRS_MOST = 4000, FEATURES_MOST = 400 };

#define TEXT(name, most)                                                       \
    {                                                                          \
        name, SPC__FORM_TEXT, (most)-1                                         \
    }
#define ATTRS(name)                                                            \
    {                                                                          \
        name, SPC__FORM_ATTRS, ATTRS_MOST                                      \
    }
#define REAL(name)                                                             \
    {                                                                          \
        name, SPC__FORM_REAL, 40                                               \
    }
#define INTEGER(name)                                                          \
    {                                                                          \
        name, SPC__FORM_INTEGER, 24                                            \
    }
#define PROBLEM                                                                \
    TEXT("device", 64), TEXT("target", 24), ATTRS("layer"),                    \
    {                                                                          \
        "buckets", SPC__FORM_FEATURES, FEATURES_MOST                           \
    }
#define CANDIDATE TEXT("template", 32), TEXT("hash", 65), ATTRS("config")
#define PROVENANCE                                                             \
    TEXT("version", 24), TEXT("compiler", 64), TEXT("driver", 32),             \
        TEXT("host", 64), TEXT("scenes", 128), INTEGER("seed")

static const spc__field fact[] = {
    TEXT("device", 64),
    TEXT("name", SPC__ATTR_NAME),
    TEXT("value", SPC__ATTR_TEXT),
    INTEGER("at"),
};
static const spc__field code[] = {
    TEXT("key", 65),  TEXT("target", 24),           TEXT("compiler", 64),
    ATTRS("launch"),  ATTRS("resources"),           TEXT("sha256", 65),
    TEXT("is", 8192), {"seal", SPC__FORM_SEAL, 64}, {"code", SPC__FORM_CODE, 0},
};
static const spc__field trial[] = {
    PROBLEM,
    CANDIDATE,
    {"status", SPC__FORM_STATUS, 15},
    REAL("median_us"),
    REAL("spread_us"),
    REAL("cold_us"),
    INTEGER("samples"),
    {"error", SPC__FORM_EXCESS, 40},
    INTEGER("verified"),
    REAL("compile_ms"),
    {"features", SPC__FORM_FEATURES, FEATURES_MOST},
    TEXT("artefact", 65),
    ATTRS("launch"),
    ATTRS("resources"),
    TEXT("note", 192),
    ATTRS("family"),
    INTEGER("at"),
    PROVENANCE,
};
static const spc__field choice[] = {
    PROBLEM, CANDIDATE, TEXT("reason", 128), INTEGER("at"), PROVENANCE,
};

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

static const spc__record_kind kinds[SPC__KINDS] = {
    [SPC__FACT] = {"fact", fact, LENGTH(fact), 2, 3},
    [SPC__CODE] = {"code", code, LENGTH(code), 1, -1},
    [SPC__TRIAL] = {"trial", trial, LENGTH(trial), 7, 21},
    [SPC__CHOICE] = {"choice", choice, LENGTH(choice), 4, 8},
};

const spc__record_kind *spc__record_kind_of(spc__kind kind)
{
    return &kinds[kind];
}

/* ---- values -------------------------------------------------------------- */

void spc__record_clear(spc__record *record, spc__kind kind)
{
    record->kind = kind;
    record->filled = 0;
    record->has_code = false;
    spc__buf_clear(&record->text);
    spc__buf_clear(&record->code);
}

void spc__record_release(spc__record *record)
{
    spc__buf_release(&record->text);
    spc__buf_release(&record->code);
}

void spc__record_add(spc__record *record, const char *value)
{
    /* All values are in one buffer, each with its zero byte. */
    record->start[record->filled++] = record->text.length;
    spc__buf_append(&record->text, value, strlen(value) + 1);
}

const char *spc__record_value(const spc__record *record, int i)
{
    return i < record->filled && !record->text.failed
               ? record->text.data + record->start[i]
               : "";
}

const char *spc__record_named(const spc__record *record, const char *name)
{
    const spc__record_kind *kind = &kinds[record->kind];

    for (int i = 0; i < kind->count; i++)
        if (strcmp(kind->fields[i].name, name) == 0)
            return spc__record_value(record, i);
    return "";
}

void spc__record_blank(spc__record *record, const char *name)
{
    const spc__record_kind *kind = &kinds[record->kind];

    for (int i = 0; i < record->filled && !record->text.failed; i++)
        if (strcmp(kind->fields[i].name, name) == 0)
            record->text.data[record->start[i]] = '\0';
}

/* ---- writing ------------------------------------------------------------- */

/* Bytes that need no quotes. Letters are compared by range, as isalpha()
 * depends on the locale. */
static bool is_plain(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || strchr("_.:+,/=-", byte) != NULL;
}

static void put_escaped(spc__buf *out, char byte)
{
    if (byte == '"' || byte == '\\')
        spc__buf_printf(out, "\\%c", byte);
    else if ((unsigned char)byte < ' ' || byte == 127)
        spc__buf_printf(out, "\\x%02x", (unsigned char)byte);
    else
        spc__buf_append(out, &byte, 1);
}

void spc__value_put(spc__buf *out, const char *value, bool quoted)
{
    bool plain = !quoted;

    for (const char *at = value; *at != '\0'; at++)
        plain = plain && is_plain(*at);
    if (plain) {
        spc__buf_puts(out, value);
        return;
    }
    spc__buf_puts(out, "\"");
    for (; *value != '\0'; value++)
        put_escaped(out, *value);
    spc__buf_puts(out, "\"");
}

/* Writes the first `count` fields that are not empty. */
static void put_fields(spc__buf *out, const spc__record *record, int count)
{
    const spc__record_kind *kind = &kinds[record->kind];

    spc__buf_puts(out, kind->name);
    for (int i = 0; i < count; i++) {
        const char *value = spc__record_value(record, i);
        if (value[0] == '\0' || kind->fields[i].form == SPC__FORM_SEAL)
            continue;
        spc__buf_printf(out, " %s=", kind->fields[i].name);
        spc__value_put(out, value, false);
    }
}

void spc__record_seal(char hex[SPC__SHA256_HEX], const spc__record *record)
{
    const spc__record_kind *kind = &kinds[record->kind];
    spc__sha256 sha;

    spc__sha256_init(&sha);
    for (int i = 0; i < kind->count; i++) {
        const char *value = spc__record_value(record, i);
        /* A seal cannot cover itself; code has its digest among the fields. */
        if (kind->fields[i].form != SPC__FORM_SEAL &&
            kind->fields[i].form != SPC__FORM_CODE)
            spc__sha256_field(&sha, value, strlen(value));
    }
    spc__sha256_end(hex, &sha);
}

void spc__record_format(spc__buf *out, const spc__record *record,
                        bool with_code)
{
    const char *seal = spc__record_named(record, "seal");

    put_fields(out, record, kinds[record->kind].count);
    if (!with_code || !record->has_code)
        return;
    if (seal[0] != '\0')
        spc__buf_printf(out, " seal=%s", seal);
    spc__buf_puts(out, " code=");
    spc__base64_append(out, record->code.data, record->code.length);
}

void spc__record_format_key(spc__buf *out, const spc__record *record)
{
    put_fields(out, record, kinds[record->kind].keys);
}

/* ---- checking ------------------------------------------------------------ */

static bool is_status(const char *text)
{
    static const char *const names[] = {
#define X(name, text) text,
        SPC__TRIAL_STATUS_MAP(X)
#undef X
            NULL};

    return spc__name_index(names, text) >= 0;
}

static bool is_integer(const char *text)
{
    char *stop, again[24];

    errno = 0;
    long long number = strtoll(text, &stop, 10);
    snprintf(again, sizeof(again), "%lld", number);
    /* a value may have only one text */
    return errno == 0 && strcmp(again, text) == 0;
}

/* Empty is a value that was not measured. */
static bool is_real(const char *text)
{
    double value;

    return text[0] == '\0' ||
           (spc__number_read(&value, text) && isfinite(value));
}

/* True for the canonical text of attrs. */
static bool is_attrs(const char *text)
{
    spc__attrs attrs;
    spc__buf again = SPC__BUF_INIT;
    /* Parses and formats the text: order and spelling must be those of this
     * library. */
    bool same = spc__attrs_parse(&attrs, text, NULL) == SPC_OK;

    spc__attrs_format(&again, &attrs);
    same = same && strcmp(spc__buf_text(&again), text) == 0;
    spc__buf_release(&again);
    return same;
}

/* True if the text is one that this library would write for a value of this
 * form. Only then do equal values have equal texts. */
static bool is_of_form(const char *text, spc__form form)
{
    spc__problem_key key;

    switch (form) {
    case SPC__FORM_ATTRS:
        return is_attrs(text);
    case SPC__FORM_FEATURES:
        return spc__features_parse(&key, text);
    case SPC__FORM_STATUS:
        return is_status(text);
    case SPC__FORM_REAL:
        return is_real(text);
    case SPC__FORM_EXCESS:
        return is_real(text) || strcmp(text, "inf") == 0;
    case SPC__FORM_INTEGER:
        return is_integer(text);
    default:
        return true;
    }
}

spc_status spc__record_check(const spc__record *record, spc_error *error)
{
    const spc__record_kind *kind = &kinds[record->kind];

    if (record->text.failed || record->code.failed)
        return spc__fail_memory(error, record->text.length);
    for (int i = 0; i < kind->count; i++) {
        const spc__field *field = &kind->fields[i];
        const char *value = spc__record_value(record, i);
        if (field->form == SPC__FORM_CODE)
            continue;
        if (strlen(value) > (size_t)field->most)
            return spc__fail(error, SPC_EFORMAT, "'%s' has more than %d bytes",
                             field->name, field->most);
        if (!is_of_form(value, field->form))
            return spc__fail(error, SPC_EFORMAT, "%s='%.80s' makes no sense",
                             field->name, value);
    }
    /* The identifying fields must be present. A layer may have no buckets. */
    for (int i = 0; i < kind->keys; i++)
        if (spc__record_value(record, i)[0] == '\0' &&
            kind->fields[i].form == SPC__FORM_TEXT)
            return spc__fail(error, SPC_EFORMAT, "it has no '%s'",
                             kind->fields[i].name);
    return SPC_OK;
}

/* ---- reading ------------------------------------------------------------- */

typedef struct reader {
    const char *at, *end;
    spc_error *error;
} reader;

static int hex_of(char digit)
{
    const char *digits = "0123456789abcdef";
    const char *found = digit != '\0' ? strchr(digits, digit) : NULL;

    return found != NULL ? (int)(found - digits) : -1;
}

/* Decodes the character after a backslash. Returns NUL for an invalid one. */
static char read_escape(reader *in)
{
    if (in->at == in->end)
        return '\0';
    char byte = *in->at++;
    if (byte == '"' || byte == '\\')
        return byte;
    if (byte != 'x' || in->end - in->at < 2)
        return '\0';
    int high = hex_of(in->at[0]), low = hex_of(in->at[1]);
    in->at += 2;
    return high < 0 || low < 0 ? '\0' : (char)(high * 16 + low);
}

/* Reads up to the closing quote. A zero byte cannot be in a value, so it marks
 * an escape that is wrong. */
static spc_status read_quoted(spc__buf *out, reader *in)
{
    while (in->at < in->end && *in->at != '"') {
        char byte = *in->at++;
        if (byte == '\\')
            byte = read_escape(in);
        if (byte == '\0')
            return spc__fail(in->error, SPC_EFORMAT,
                             "an invalid escape follows '\\'");
        spc__buf_append(out, &byte, 1);
    }
    if (in->at == in->end)
        return spc__fail(in->error, SPC_EFORMAT, "a '\"' is missing");
    in->at++;
    return SPC_OK;
}

static spc_status read_value(spc__buf *out, reader *in)
{
    if (in->at < in->end && *in->at == '"') {
        in->at++;
        return read_quoted(out, in);
    }
    while (in->at < in->end && *in->at != ' ')
        spc__buf_append(out, in->at++, 1);
    return SPC_OK;
}

spc_status spc__value_read(spc__buf *out, const char **at, const char *end,
                           spc_error *error)
{
    reader in = {*at, end, error};
    spc_status status = read_value(out, &in);

    *at = in.at;
    return status;
}

/* Code is long, so it is not stored among the values. */
static spc_status read_code(spc__record *out, reader *in)
{
    const char *start = in->at;

    while (in->at < in->end && *in->at != ' ')
        in->at++;
    if (!spc__base64_read(&out->code, start, (size_t)(in->at - start)))
        return spc__fail(in->error, SPC_EFORMAT, "its code is not base64");
    out->has_code = true;
    return SPC_OK;
}

/* Finds the field, from `from` on, that the word before '=' names. */
static int find_field(const spc__record_kind *kind, int from, reader *in)
{
    const char *equals = memchr(in->at, '=', (size_t)(in->end - in->at));
    size_t length = equals != NULL ? (size_t)(equals - in->at) : 0;

    for (int i = from; i < kind->count && equals != NULL; i++)
        if (strlen(kind->fields[i].name) == length &&
            memcmp(kind->fields[i].name, in->at, length) == 0) {
            in->at = equals + 1;
            return i;
        }
    return -1;
}

/* Reads the fields, which must come in the order of the kind. Missing ones are
 * empty. */
static spc_status read_fields(spc__record *out, reader *in)
{
    const spc__record_kind *kind = &kinds[out->kind];
    spc__buf value = SPC__BUF_INIT;
    spc_status status = SPC_OK;

    while (status == SPC_OK && in->at < in->end) {
        in->at += *in->at == ' ';
        int found = find_field(kind, out->filled, in);
        if (found < 0) {
            status = spc__fail(
                in->error, SPC_EFORMAT,
                "'%.*s' is not a field of a %s, or is in the wrong position",
                (int)(in->end - in->at < 20 ? in->end - in->at : 20), in->at,
                kind->name);
            break;
        }
        while (out->filled < found)
            spc__record_add(out, "");
        spc__buf_clear(&value);
        if (kind->fields[found].form == SPC__FORM_CODE)
            status = read_code(out, in);
        else
            status = read_value(&value, in);
        spc__record_add(out, spc__buf_text(&value));
        if (status == SPC_OK && in->at < in->end && *in->at != ' ')
            status = spc__fail(in->error, SPC_EFORMAT,
                               "a space is missing after '%s'",
                               kind->fields[found].name);
    }
    while (out->filled < kind->count)
        spc__record_add(out, "");
    if (value.failed)
        status = spc__fail_memory(in->error, value.length);
    spc__buf_release(&value);
    return status;
}

spc_status spc__record_parse(spc__record *out, const char *line, size_t length,
                             spc_error *error)
{
    reader in = {line, line + length, error};
    int kind = 0;

    for (; kind < SPC__KINDS; kind++) {
        size_t bytes = strlen(kinds[kind].name);
        if (length > bytes && memcmp(line, kinds[kind].name, bytes) == 0 &&
            line[bytes] == ' ') {
            in.at += bytes;
            break;
        }
    }
    /* A zero byte would cut a value short, and the rest of it would go
     * unchecked. */
    if (kind == SPC__KINDS || memchr(line, '\0', length) != NULL)
        return spc__fail(error, SPC_EFORMAT,
                         "the line is not a fact, code, trial or choice");
    spc__record_clear(out, (spc__kind)kind);
    spc_status status = read_fields(out, &in);
    return status == SPC_OK ? spc__record_check(out, error) : status;
}

/* ---- order --------------------------------------------------------------- */

static int compare_first(const spc__record *a, const spc__record *b, int count)
{
    int order = 0;

    for (int i = 0; i < count && order == 0; i++)
        order = strcmp(spc__record_value(a, i), spc__record_value(b, i));
    return order;
}

int spc__record_compare_keys(const spc__record *a, const spc__record *b)
{
    int order = (a->kind > b->kind) - (a->kind < b->kind);

    return order != 0 ? order : compare_first(a, b, kinds[a->kind].keys);
}

int spc__record_compare_problems(const spc__record *a, const spc__record *b)
{
    return compare_first(a, b, kinds[SPC__CHOICE].keys);
}

bool spc__record_same_candidate(const spc__record *a, const spc__record *b)
{
    return compare_first(a, b, kinds[SPC__TRIAL].keys) == 0;
}

static bool is_pinned(const spc__record *record)
{
    const char *reason = spc__record_named(record, "reason");

    return strncmp(reason, SPC__PINNED, strlen(SPC__PINNED)) == 0;
}

static long long time_of(const spc__record *record)
{
    int at = kinds[record->kind].at;

    return at < 0 ? 0 : strtoll(spc__record_value(record, at), NULL, 10);
}

int spc__record_compare(const spc__record *a, const spc__record *b)
{
    /* A choice that a person has pinned wins over a measured one, however old
     * it is. */
    int order = is_pinned(a) - is_pinned(b);
    long long one = time_of(a), two = time_of(b);

    if (order == 0)
        order = (one > two) - (one < two);
    /* The family belongs to the problem, not to one of its trials, and the seal
     * belongs to the line. Neither takes part in the comparison. */
    for (int i = 0; i < kinds[a->kind].count && order == 0; i++)
        if (strcmp(kinds[a->kind].fields[i].name, "family") != 0 &&
            kinds[a->kind].fields[i].form != SPC__FORM_SEAL)
            order = strcmp(spc__record_value(a, i), spc__record_value(b, i));
    return order;
}
