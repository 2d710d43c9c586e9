/* SPDX-License-Identifier: Apache-2.0 */
/* table_read.c - reads the table of an export (table.h). */
#include "cache/exchange/table_read.h"

#include "base/base64.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* The rest of a line. */
typedef struct scan {
    const char *at, *end;
    spc_error *error;
} scan;

/* The length of a text in a message. */
static int shown(size_t length)
{
    return length < 40 ? (int)length : 40;
}

/* ---- words --------------------------------------------------------------- */

/* Reads the next word up to a space, or `stop`, into `out` of `bytes`. */
static bool read_word(char *out, size_t bytes, scan *in, char stop)
{
    size_t length = 0;

    while (in->at + length < in->end && in->at[length] != ' ' &&
           in->at[length] != stop)
        length++;
    if (length == 0 || length >= bytes)
        return false;
    memcpy(out, in->at, length);
    out[length] = '\0';
    in->at += length;
    return true;
}

/* Steps over the space before a word. Returns false at the end. */
static bool step(scan *in)
{
    in->at += in->at < in->end && *in->at == ' ';
    return in->at < in->end;
}

/* Reads NAME= of a line that gives fields. */
static bool read_name(char *out, size_t bytes, scan *in)
{
    if (!read_word(out, bytes, in, '=') || in->at == in->end || *in->at != '=')
        return false;
    in->at++;
    return true;
}

/* ---- cells --------------------------------------------------------------- */

/* Finds the note of a key. */
static spc_status find_note(spc__table_note *out, const spc__table_reader *r,
                            const char *at, size_t length, spc_error *error)
{
    char key[16] = "";

    if (length < sizeof(key))
        memcpy(key, at, length);
    int id = key[0] != '\0' ? spc__texts_find(&r->keys, key) : -1;
    if (id < 0)
        return spc__fail(error, SPC_EFORMAT, "there is no note '%.*s'",
                         shown(length), at);
    *out = r->notes[id];
    return SPC_OK;
}

/* Appends the text of a digest in hexadecimal digits. */
static spc_status add_digest(spc__buf *out, const char *text, spc_error *error)
{
    spc__buf bytes = SPC__BUF_INIT;
    char hex[SPC__SHA256_HEX];
    bool good = spc__base64_read(&bytes, text, strlen(text)) &&
                bytes.length == SPC__SHA256_BYTES;

    if (good) {
        spc__sha256_hex(hex, (const unsigned char *)bytes.data);
        spc__buf_puts(out, hex);
    }
    spc__buf_release(&bytes);
    return good ? SPC_OK
                : spc__fail(error, SPC_EFORMAT, "'~%.40s' is not a digest",
                            text);
}

/* Appends a value of an attribute: the text, the usual one, or a note's. */
static spc_status add_value(spc__buf *out, const spc__table_reader *r,
                            const char *text, size_t length, spc_error *error)
{
    spc__table_note note = {text, text + length};
    spc_status status = SPC_OK;

    if (length > 0 && text[0] == '$')
        status = find_note(&note, r, text + 1, length - 1, error);
    if (status == SPC_OK)
        spc__buf_append(out, note.at, (size_t)(note.end - note.at));
    return status;
}

/* Appends the attributes whose values the cell has. */
static spc_status add_list(spc__buf *out, const spc__table_reader *r,
                           const spc__columns *columns, const char *text,
                           spc_error *error)
{
    const char *before = "";
    spc_status status = SPC_OK;

    /* A lone comma is an empty cell: see put_values() in table_write.c. */
    if (strcmp(text, ",") == 0)
        text = "";
    for (int i = 0; i < columns->count && status == SPC_OK; i++) {
        const char *usual = columns->at[i].usual;
        size_t length = strcspn(text, ",");
        if (length > 0 ? *text != '!' : usual[0] != '\0') {
            spc__buf_printf(out, "%s%s=", before, columns->at[i].name);
            status = length > 0
                         ? add_value(out, r, text, length, error)
                         : add_value(out, r, usual, strlen(usual), error);
            before = ",";
        }
        text += length;
        text += *text == ',';
    }
    if (status == SPC_OK && *text != '\0')
        return spc__fail(error, SPC_EFORMAT,
                         "it has more values than its template has names for, "
                         "at '%.40s'",
                         text);
    return status;
}

/* Reads one value into `out`. */
static spc_status read_token(spc__buf *out, bool *quoted, const char **at,
                             const char *end, spc_error *error)
{
    spc__buf_clear(out);
    *quoted = *at < end && **at == '"';
    return spc__value_read(out, at, end, error);
}

/* Appends the value of a cell. */
static spc_status add_cell(spc__buf *out, const spc__table_reader *r,
                           const spc__columns *columns, bool quoted,
                           spc_error *error)
{
    const char *text = spc__buf_text(&r->cell);

    if (!quoted && strcmp(text, "-") == 0)
        return SPC_OK;
    if (!quoted && text[0] == '~')
        return add_digest(out, text + 1, error);
    if (!quoted && columns != NULL && strchr(text, '=') == NULL)
        return add_list(out, r, columns, text, error);
    spc__buf_puts(out, text);
    return SPC_OK;
}

/* A note may also precede a list of values. */
static bool is_note(const char *cell)
{
    return cell[0] == '$' && strchr(cell, ',') == NULL;
}

/* Reads a cell into `out`. For '.' it sets *usual instead. */
static spc_status read_cell(spc__buf *out, bool *usual, spc__table_reader *r,
                            const spc__columns *columns, scan *in)
{
    spc__table_note note;
    const char *start = in->at;
    bool quoted;
    spc_status status =
        read_token(&r->cell, &quoted, &in->at, in->end, in->error);

    *usual = !quoted && strcmp(spc__buf_text(&r->cell), ".") == 0;
    spc__buf_clear(out);
    if (status == SPC_OK && in->at < in->end && *in->at != ' ')
        return spc__fail(in->error, SPC_EFORMAT,
                         "a space is missing after '%.*s'",
                         shown((size_t)(in->at - start)), start);
    if (status == SPC_OK && !quoted && is_note(spc__buf_text(&r->cell))) {
        status = find_note(&note, r, start + 1, (size_t)(in->at - start) - 1,
                           in->error);
        if (status == SPC_OK)
            status =
                read_token(&r->cell, &quoted, &note.at, note.end, in->error);
    }
    if (status == SPC_OK && !*usual)
        status = add_cell(out, r, columns, quoted, in->error);
    if (status == SPC_OK && (out->failed || r->cell.failed))
        status = spc__fail_memory(in->error, out->length);
    return status;
}

/* Reads a cell that has no usual value. */
static spc_status read_full_cell(spc__buf *out, spc__table_reader *r, scan *in)
{
    bool usual;
    spc_status status = read_cell(out, &usual, r, NULL, in);

    return status == SPC_OK && usual
               ? spc__fail(in->error, SPC_EFORMAT,
                           "'.' is used where there is no usual value")
               : status;
}

/* ---- templates and notes ------------------------------------------------- */

static const spc__table_template *find_label(const spc__table_reader *r,
                                             const char *label)
{
    for (int i = 0; i < r->template_count; i++)
        if (strcmp(r->templates[i].label, label) == 0)
            return &r->templates[i];
    return NULL;
}

/* Reads the names of a field's attributes, with their usual values. */
static bool read_columns(spc__columns *out, scan *in)
{
    size_t bytes = sizeof(out->at[0].usual);

    do {
        if (out->count == SPC__ATTRS_MAX)
            return false;
        char *usual = out->at[out->count].usual;
        char word[SPC__ATTR_NAME + SPC__ATTR_TEXT];
        if (!read_word(word, sizeof(word), in, ','))
            return false;
        size_t length = strcspn(word, "=");
        if (length == 0 || length >= sizeof(out->at[0].name))
            return false;
        memcpy(out->at[out->count].name, word, length);
        if (word[length] == '=' && strlen(word + length + 1) >= bytes)
            return false;
        if (word[length] == '=')
            memcpy(usual, word + length + 1, strlen(word + length + 1));
        out->count++;
    } while (in->at < in->end && *in->at == ',' && in->at++);
    return true;
}

/* Reads a short text of a template's line. */
static spc_status read_short(char *out, size_t bytes, spc__table_reader *r,
                             scan *in)
{
    spc_status status = read_full_cell(&r->trial[0], r, in);

    if (status != SPC_OK)
        return status;
    if (r->trial[0].length >= bytes)
        return spc__fail(in->error, SPC_EFORMAT, "'%.40s' is too long",
                         r->trial[0].data);
    memcpy(out, spc__buf_text(&r->trial[0]), r->trial[0].length + 1);
    return SPC_OK;
}

/* Reads a line that describes a template: its label, name, hash, and the names
 * and usual values of its attributes. */
static spc_status read_template(spc__table_template *out, spc__table_reader *r,
                                scan *in)
{
    char name[SPC__ATTR_NAME];
    spc_status status = SPC_OK;

    if (!read_word(out->label, sizeof(out->label), in, ' '))
        return spc__fail(in->error, SPC_EFORMAT, "the template has no label");
    if (find_label(r, out->label) != NULL)
        return spc__fail(in->error, SPC_EFORMAT,
                         "another line describes the template '%s'",
                         out->label);
    while (status == SPC_OK && step(in)) {
        const char *start = in->at;
        int list =
            read_name(name, sizeof(name), in) ? spc__table_list_of(name) : -1;
        bool good = true;
        if (start == in->at)
            good = false;
        else if (strcmp(name, "template") == 0)
            status = read_short(out->name, sizeof(out->name), r, in);
        else if (strcmp(name, "hash") == 0)
            status = read_short(out->hash, sizeof(out->hash), r, in);
        else
            good = list >= 0 && out->lists[list].count == 0 &&
                   read_columns(&out->lists[list], in);
        if (!good)
            status = spc__fail(in->error, SPC_EFORMAT,
                               "'%.*s' is not a field of a template",
                               shown((size_t)(in->end - start)), start);
    }
    return status;
}

static spc_status define_template(spc__table_reader *r, scan *in)
{
    spc__table_template *all =
        realloc(r->templates, ((size_t)r->template_count + 1) * sizeof(*all));

    if (all == NULL)
        return spc__fail_memory(in->error, sizeof(*all));
    r->templates = all;
    memset(&all[r->template_count], 0, sizeof(*all));
    spc_status status = read_template(&all[r->template_count], r, in);
    /* If the line is refused, the next template overwrites this entry. */
    r->template_count += status == SPC_OK;
    return status;
}

/* Keeps where the text of a note is. The text itself stays in the import. */
static spc_status keep_note(spc__table_reader *r, const char *key,
                            const char *at, scan *in)
{
    int capacity = r->keys.capacity, before = r->keys.count, id;

    if (!spc__texts_claim(&id, &r->keys, key))
        return spc__fail_memory(in->error, sizeof(*r->notes));
    if (r->keys.count == before)
        return spc__fail(in->error, SPC_EFORMAT,
                         "another line has the note '%s'", key);
    if (r->keys.capacity != capacity) {
        spc__table_note *all =
            realloc(r->notes, (size_t)r->keys.capacity * sizeof(*r->notes));
        if (all == NULL)
            return spc__fail_memory(in->error, sizeof(*all));
        r->notes = all;
    }
    r->notes[id] = (spc__table_note){at, in->end};
    return SPC_OK;
}

static spc_status define_note(spc__table_reader *r, scan *in)
{
    char key[16];
    bool quoted;

    if (!read_word(key, sizeof(key), in, ' ') || !step(in))
        return spc__fail(in->error, SPC_EFORMAT, "a note has a key and a text");
    const char *start = in->at;
    spc_status status =
        read_token(&r->cell, &quoted, &in->at, in->end, in->error);
    if (status != SPC_OK)
        return status;
    /* A note must not refer to a note, as it could refer to itself. */
    if (in->at != in->end || (!quoted && *start == '$'))
        return spc__fail(in->error, SPC_EFORMAT,
                         "the note '%s' is not one text", key);
    return keep_note(r, key, start, in);
}

static bool starts_with(scan *in, const char *word)
{
    size_t length = strlen(word);

    if ((size_t)(in->end - in->at) <= length ||
        memcmp(in->at, word, length) != 0)
        return false;
    in->at += length;
    return true;
}

spc_status spc__table_define(spc__table_reader *r, const char *line,
                             size_t length, spc_error *error)
{
    scan in = {line, line + length, error};

    if (starts_with(&in, "note "))
        return define_note(r, &in);
    if (starts_with(&in, "template "))
        return define_template(r, &in);
    return spc__fail(error, SPC_EFORMAT,
                     "the line is neither a note nor a template");
}

/* ---- values from above --------------------------------------------------- */

static int above_of(const char *name)
{
    for (int i = 0; i < SPC__TABLE_ABOVE; i++)
        if (strcmp(spc__table_above[i], name) == 0)
            return i;
    return -1;
}

static void forget(spc__table_reader *r)
{
    for (int i = 0; i < SPC__TABLE_ABOVE; i++)
        spc__buf_clear(&r->above[i]);
}

/* Writes NAME*=VALUE as three attributes. */
static spc_status expand_axes(spc__buf *field, spc_error *error)
{
    spc__buf out = SPC__BUF_INIT;

    for (const char *at = spc__buf_text(field); *at != '\0';) {
        int length = (int)strcspn(at, ","), name = (int)strcspn(at, "*,");
        const char *value = at + name + 1;
        if (name < length)
            for (const char *axis = "xyz"; *axis != '\0'; axis++)
                spc__buf_printf(&out, "%.*s%c%.*s%s", name, at, *axis,
                                (int)(at + length - value), value,
                                *axis != 'z' ? "," : "");
        else
            spc__buf_append(&out, at, (size_t)length);
        at += length;
        at += *at == ',';
        spc__buf_puts(&out, *at != '\0' ? "," : "");
    }
    spc__buf_release(field);
    *field = out;
    return out.failed ? spc__fail_memory(error, out.length) : SPC_OK;
}

spc_status spc__table_set(spc__table_reader *r, const char *line, size_t length,
                          spc_error *error)
{
    scan in = {line, line + length, error};
    spc_status status = SPC_OK;
    char name[SPC__ATTR_NAME];

    if (!starts_with(&in, "for "))
        status = spc__fail(error, SPC_EFORMAT, "'for' has no fields");
    while (status == SPC_OK && step(&in)) {
        const char *start = in.at;
        int i = read_name(name, sizeof(name), &in) ? above_of(name) : -1;
        status = i >= 0 ? read_full_cell(&r->above[i], r, &in)
                        : spc__fail(error, SPC_EFORMAT,
                                    "'%.*s' is not a field of a line 'for'",
                                    shown((size_t)(in.end - start)), start);
        if (status == SPC_OK && i >= SPC__TABLE_LAYER)
            status = expand_axes(&r->above[i], error);
    }
    if (status != SPC_OK)
        /* Rows below must not be read with half of the values of a refused
         * line. */
        forget(r);
    return status;
}

/* ---- rows ---------------------------------------------------------------- */

static int field_of(spc__kind kind, const char *name)
{
    const spc__record_kind *of = spc__record_kind_of(kind);
    int i = 0;

    while (i < of->count && strcmp(of->fields[i].name, name) != 0)
        i++;
    return i;
}

static void set_field(spc__table_reader *r, const char *name, const char *value)
{
    spc__buf *field = &r->trial[field_of(SPC__TRIAL, name)];

    spc__buf_clear(field);
    spc__buf_puts(field, value);
}

/* The value of the cell's field if the cell is left out, or NULL. */
static const char *usual_of(const spc__table_reader *r,
                            const spc__table_field *fixed, bool chosen)
{
    if (!chosen || strcmp(fixed->field, "reason") == 0)
        return fixed->usual;
    return spc__buf_text(&r->trial[field_of(SPC__TRIAL, fixed->field)]);
}

/* Reads the cell of a field. A missing cell, or '.', gives the usual value. */
static spc_status read_fixed(spc__buf *out, spc__table_reader *r,
                             const spc__table_template *of,
                             const spc__table_field *fixed, bool chosen,
                             scan *in)
{
    int list = spc__table_list_of(fixed->field);
    const char *other = usual_of(r, fixed, chosen);
    bool usual = true;
    spc_status status = SPC_OK;

    if (step(in))
        status =
            read_cell(out, &usual, r, list >= 0 ? &of->lists[list] : NULL, in);
    if (status != SPC_OK || !usual)
        return status;
    if (other == NULL)
        return spc__fail(in->error, SPC_EFORMAT, "the row has no '%s'",
                         fixed->field);
    spc__buf_clear(out);
    spc__buf_puts(out, other);
    return out->failed ? spc__fail_memory(in->error, out->length) : SPC_OK;
}

/* Finds the template of a row, whose label is the second cell. */
static spc_status find_template(const spc__table_template **out,
                                const spc__table_reader *r, scan in)
{
    char word[SPC__ATTRS_MAX * SPC__ATTR_TEXT];
    bool good = step(&in) && read_word(word, sizeof(word), &in, ' ') &&
                step(&in) && read_word(word, sizeof(word), &in, ' ');

    *out = good ? find_label(r, word) : NULL;
    if (*out != NULL)
        return SPC_OK;
    return good ? spc__fail(in.error, SPC_EFORMAT,
                            "no line describes the template '%.40s'", word)
                : spc__fail(in.error, SPC_EFORMAT,
                            "the row has no buckets and template");
}

static spc_status check_end(scan *in)
{
    if (!step(in))
        return SPC_OK;
    return spc__fail(in->error, SPC_EFORMAT,
                     "the row continues after its last cell, at '%.*s'",
                     shown((size_t)(in->end - in->at)), in->at);
}

static spc_status read_trial_cells(spc__table_reader *r,
                                   const spc__table_template *of,
                                   const spc__table_field *all_fixed, int count,
                                   scan *in)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < count && status == SPC_OK; i++)
        status = read_fixed(&r->trial[field_of(SPC__TRIAL, all_fixed[i].field)],
                            r, of, &all_fixed[i], false, in);
    return status;
}

/* Reads both lines of a row into the fields of a trial and, for a choice, into
 * those that differ from its trial's. */
static spc_status read_cells(spc__table_reader *r, bool is_choice, scan *line,
                             scan *details)
{
    const spc__table_template *of;
    spc_status status = find_template(&of, r, *line);

    if (status != SPC_OK)
        return status;
    if (r->above[0].length == 0)
        return spc__fail(line->error, SPC_EFORMAT,
                         "no line 'for' above it gives its device");
    for (int i = 0; i < SPC__TABLE_ABOVE; i++)
        set_field(r, spc__table_above[i], spc__buf_text(&r->above[i]));
    status = read_trial_cells(r, of, spc__table_first, SPC__TABLE_FIRST, line);
    if (status == SPC_OK)
        status = read_trial_cells(r, of, spc__table_second, SPC__TABLE_SECOND,
                                  details);
    set_field(r, "template", of->name);
    set_field(r, "hash", of->hash);
    for (int i = 0; i < SPC__TABLE_CHOSEN && is_choice && status == SPC_OK; i++)
        status =
            read_fixed(&r->chosen[i], r, of, &spc__table_chosen[i], true, line);
    if (status == SPC_OK)
        status = check_end(line);
    return status == SPC_OK ? check_end(details) : status;
}

/* The value of a field of the row, as a trial or a choice. */
static const spc__buf *value_of(const spc__table_reader *r, spc__kind kind,
                                const char *name)
{
    for (int i = 0; i < SPC__TABLE_CHOSEN && kind == SPC__CHOICE; i++)
        if (strcmp(spc__table_chosen[i].field, name) == 0)
            return &r->chosen[i];
    return &r->trial[field_of(SPC__TRIAL, name)];
}

spc_status spc__table_read(spc__record *out, spc__table_reader *r,
                           spc__kind kind, const char *line, size_t length,
                           const char *details, size_t details_length,
                           spc_error *error)
{
    scan first = {line, line + length, error};
    scan second = {details, details + details_length, error};
    const spc__record_kind *of = spc__record_kind_of(kind);
    bool is_choice = starts_with(&first, "choice");

    if (!is_choice && !starts_with(&first, "trial"))
        return spc__fail(error, SPC_EFORMAT,
                         "the line is neither a trial nor a choice");
    /* A zero byte would end a value early, unseen. */
    if (memchr(line, '\0', length) != NULL ||
        memchr(details, '\0', details_length) != NULL)
        return spc__fail(error, SPC_EFORMAT, "the row has a byte of value 0");
    spc_status status = read_cells(r, is_choice, &first, &second);
    spc__record_clear(out, kind);
    for (int i = 0; i < of->count && status == SPC_OK; i++) {
        const spc__buf *value = value_of(r, kind, of->fields[i].name);
        if (value->failed)
            status = spc__fail_memory(error, value->length);
        spc__record_add(out, spc__buf_text(value));
    }
    return status == SPC_OK ? spc__record_check(out, error) : status;
}

void spc__table_reader_release(spc__table_reader *r)
{
    for (int i = 0; i < SPC__TABLE_ABOVE; i++)
        spc__buf_release(&r->above[i]);
    for (int i = 0; i < SPC__RECORD_FIELDS; i++)
        spc__buf_release(&r->trial[i]);
    for (int i = 0; i < SPC__TABLE_CHOSEN; i++)
        spc__buf_release(&r->chosen[i]);
    spc__buf_release(&r->cell);
    spc__texts_release(&r->keys);
    free(r->templates);
    free(r->notes);
}
