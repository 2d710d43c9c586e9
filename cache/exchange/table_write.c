/* SPDX-License-Identifier: Apache-2.0 */
/* table_write.c - writes the table of an export (table.h). */
#include "cache/exchange/table_write.h"

#include "base/base64.h"
#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A template, and how often its attributes have their most frequent value. */
typedef struct spc__table_names {
    spc__table_template template;
    int uses;
    int usual_uses[SPC__TABLE_LISTS][SPC__ATTRS_MAX];
} spc__table_names;

/* For a shorter text, a note saves nothing. */
enum { NOTE_LEAST = 12 };

static spc_status fail_memory(spc_error *error)
{
    return spc__fail_memory(error, sizeof(spc__table_names));
}

/* ---- names --------------------------------------------------------------- */

/* A piece NAME=VALUE of a list of attributes. */
typedef struct piece {
    const char *name, *value;
    int name_length, value_length;
} piece;

/* Reads the next piece. Returns false at the end, or if there is no valid
 * piece. */
static bool next_piece(piece *out, const char **at)
{
    size_t length = strcspn(*at, ",");
    const char *equals = memchr(*at, '=', length);

    if (equals == NULL)
        return false;
    *out = (piece){*at, equals + 1, (int)(equals - *at),
                   (int)(*at + length - equals - 1)};
    *at += length + ((*at)[length] == ',');
    return out->value_length > 0;
}

static bool is_named(const char *name, const piece *p)
{
    return strlen(name) == (size_t)p->name_length &&
           memcmp(name, p->name, (size_t)p->name_length) == 0;
}

/* The column of this name, from `from` on, or -1. */
static int find_column(const spc__columns *columns, int from, const piece *p)
{
    for (int i = from; i < columns->count; i++)
        if (is_named(columns->at[i].name, p))
            return i;
    return -1;
}

/* Adds a column at `at`. A list that is full stays as it is, and its records
 * are written with names. */
static void insert_column(spc__table_names *names, int list, int at,
                          const piece *p)
{
    spc__columns *columns = &names->template.lists[list];
    int *uses = names->usual_uses[list];
    size_t behind = (size_t)(columns->count - at);

    if (columns->count == SPC__ATTRS_MAX || p->name_length >= SPC__ATTR_NAME)
        return;
    /* Columns and their counts are parallel arrays, and move together. */
    memmove(&columns->at[at + 1], &columns->at[at],
            behind * sizeof(columns->at[0]));
    memmove(&uses[at + 1], &uses[at], behind * sizeof(*uses));
    columns->count++;
    memset(&columns->at[at], 0, sizeof(columns->at[at]));
    memcpy(columns->at[at].name, p->name, (size_t)p->name_length);
    uses[at] = 0;
}

/* Counts a text. Returns its number of uses, or 0 if out of memory. */
static int count_value(spc__table_writer *w, const char *text)
{
    int capacity = w->values.capacity, id;

    if (!spc__texts_claim(&id, &w->values, text))
        return 0;
    /* The counts grow with the texts, and new ones begin at zero. */
    if (w->values.capacity != capacity) {
        size_t all = (size_t)w->values.capacity;
        int *uses = realloc(w->value_uses, all * sizeof(*uses));
        if (uses == NULL)
            return 0;
        memset(uses + capacity, 0, (all - (size_t)capacity) * sizeof(*uses));
        w->value_uses = uses;
    }
    return ++w->value_uses[id];
}

/* Only attributes of kernels have usual values. Attributes that people read are
 * complete. */
static bool has_usual(int list)
{
    return strcmp(spc__table_lists[list], "launch") == 0 ||
           strcmp(spc__table_lists[list], "resources") == 0;
}

/* Counts a value of an attribute, and keeps the most frequent one. */
static bool count_piece(spc__table_writer *w, spc__table_names *names, int list,
                        int column, const piece *p)
{
    char *usual = names->template.lists[list].at[column].usual;
    int *most = &names->usual_uses[list][column];

    if (!has_usual(list) || p->value_length >= SPC__ATTR_TEXT)
        return true;
    spc__buf_clear(&w->cell);
    spc__buf_printf(&w->cell, "%s %s %.*s=%.*s", names->template.label,
                    spc__table_lists[list], p->name_length, p->name,
                    p->value_length, p->value);
    int uses = w->cell.failed ? 0 : count_value(w, w->cell.data);
    if (uses > *most) {
        *most = uses;
        snprintf(usual, SPC__ATTR_TEXT, "%.*s", p->value_length, p->value);
    }
    return uses > 0;
}

/* Inserts a new name after the one that precedes it here. */
static bool learn_list(spc__table_writer *w, spc__table_names *names, int list,
                       const char *text)
{
    spc__columns *columns = &names->template.lists[list];
    int at = 0;
    piece p;

    while (next_piece(&p, &text)) {
        int found = find_column(columns, 0, &p);
        if (found < 0) {
            insert_column(names, list, at, &p);
            found = find_column(columns, at, &p);
        }
        if (found >= 0 && !count_piece(w, names, list, found, &p))
            return false;
        at = found >= 0 ? found + 1 : at;
    }
    return true;
}

static spc__table_names *find_template(const spc__table_writer *w,
                                       const char *name, const char *hash)
{
    for (int i = 0; i < w->template_count; i++) {
        const spc__table_template *t = &w->templates[i].template;
        if (strcmp(t->name, name) == 0 && strcmp(t->hash, hash) == 0)
            return &w->templates[i];
    }
    return NULL;
}

/* True if the template's label is free. */
static bool is_label_free(const spc__table_writer *w, const char *label)
{
    for (int i = 0; i < w->template_count; i++)
        if (strcmp(w->templates[i].template.label, label) == 0)
            return false;
    return true;
}

/* Finds the template, adding it if needed. Labels are names, with a number for
 * another hash of the same name. */
static spc__table_names *claim_template(spc__table_writer *w, const char *name,
                                        const char *hash)
{
    spc__table_names *found = find_template(w, name, hash);

    if (found != NULL)
        return found;
    spc__table_names *all =
        realloc(w->templates, ((size_t)w->template_count + 1) * sizeof(*all));
    if (all == NULL)
        return NULL;
    w->templates = all;
    found = &all[w->template_count];
    memset(found, 0, sizeof(*found));
    spc__table_template *t = &found->template;
    snprintf(t->name, sizeof(t->name), "%s", name);
    snprintf(t->hash, sizeof(t->hash), "%s", hash);
    snprintf(t->label, sizeof(t->label), "%s", t->name);
    for (int i = 1; !is_label_free(w, t->label); i++)
        snprintf(t->label, sizeof(t->label), "%s.%d", t->name, i);
    w->template_count++;
    return found;
}

/* The first pass: learns which attributes the template's records have, and
 * their usual values. */
static spc_status learn(spc__table_writer *w, const spc__record *trial,
                        spc_error *error)
{
    spc__table_names *names =
        claim_template(w, spc__record_named(trial, "template"),
                       spc__record_named(trial, "hash"));

    if (names == NULL)
        return fail_memory(error);
    names->uses++;
    for (int i = 0; i < SPC__TABLE_LISTS; i++)
        if (!learn_list(w, names, i,
                        spc__record_named(trial, spc__table_lists[i])))
            return fail_memory(error);
    return SPC_OK;
}

/* A value that less than half of the records have is not usual. */
static void drop_rare(spc__table_names *names)
{
    for (int list = 0; list < SPC__TABLE_LISTS; list++)
        for (int i = 0; i < names->template.lists[list].count; i++)
            if (2 * names->usual_uses[list][i] < names->uses)
                names->template.lists[list].at[i].usual[0] = '\0';
}

/* ---- notes --------------------------------------------------------------- */

/* Counts the text of a cell. Returns false if out of memory. */
static bool count_text(spc__table_writer *w, const char *text)
{
    int capacity = w->texts.capacity, id;

    if (!spc__texts_claim(&id, &w->texts, text))
        return false;
    if (w->texts.capacity != capacity) {
        size_t all = (size_t)w->texts.capacity;
        spc__table_use *uses = realloc(w->uses, all * sizeof(*uses));
        if (uses == NULL)
            return false;
        memset(uses + capacity, 0, (all - (size_t)capacity) * sizeof(*uses));
        w->uses = uses;
    }
    w->uses[id].count++;
    return true;
}

/* Writes a text, or its key, to the line. In the pass of notes it is counted
 * instead. */
static bool put_text(spc__table_writer *w, const char *text)
{
    bool may_be_note = strlen(text) >= NOTE_LEAST;

    if (w->pass == SPC__TABLE_NOTES)
        return !may_be_note || count_text(w, text);
    int id = may_be_note ? spc__texts_find(&w->texts, text) : -1;
    if (id >= 0 && w->uses[id].key[0] != '\0')
        spc__buf_printf(&w->line, "$%s", w->uses[id].key);
    else
        spc__buf_puts(&w->line, text);
    return true;
}

/* A key depends on the text alone (FNV-1a, in base 36), so that a new record
 * changes no other line. If two texts have the same one, the second gets the
 * next free key. */
static spc_status name_notes(spc__table_writer *w, spc_error *error)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    enum { KEYS = 36 * 36 * 36 * 36 };
    spc__texts keys = {0};
    bool good = true;

    for (int i = 0; i < w->texts.count && good; i++) {
        unsigned number = 2166136261u;
        char *key = w->uses[i].key;
        int id, before = keys.count;
        /* A text that occurs once is shorter without a note. */
        if (w->uses[i].count < 2)
            continue;
        for (const char *at = w->texts.at[i]; *at != '\0'; at++)
            number = (number ^ (unsigned char)*at) * 16777619u;
        /* A key that exists adds none, and the next number is tried. */
        for (; good && keys.count == before; number++) {
            unsigned rest = number % KEYS;
            for (int d = 4; d-- > 0; rest /= 36)
                key[d] = digits[rest % 36];
            good = spc__texts_claim(&id, &keys, key) && keys.count < KEYS;
        }
    }
    spc__texts_release(&keys);
    return good ? SPC_OK : fail_memory(error);
}

/* ---- cells --------------------------------------------------------------- */

/* Writes the values of attributes without their names. Returns false if the
 * columns do not fit. */
static bool put_values(spc__buf *out, const spc__columns *columns,
                       const char *text)
{
    size_t start = out->length;
    int at = 0;
    piece p;

    while (*text != '\0') {
        int found = next_piece(&p, &text) ? find_column(columns, at, &p) : -1;
        if (found < 0)
            return false;
        for (; at < found; at++)
            spc__buf_puts(out, columns->at[at].usual[0] != '\0' ? "!," : ",");
        const char *usual = columns->at[at++].usual;
        if (strlen(usual) != (size_t)p.value_length ||
            memcmp(usual, p.value, (size_t)p.value_length) != 0)
            spc__buf_append(out, p.value, (size_t)p.value_length);
        spc__buf_puts(out, ",");
    }
    for (; at < columns->count; at++)
        spc__buf_puts(out, columns->at[at].usual[0] != '\0' ? "!," : ",");
    /* Empty values at the end are left out. One comma stays, because an empty
     * cell would be no cell. */
    while (out->length > start + 1 && out->data[out->length - 1] == ',')
        out->data[--out->length] = '\0';
    const char *cell = spc__buf_text(out) + (out->failed ? 0 : start);
    /* These two stand for an empty and for a usual value. */
    return strcmp(cell, "-") != 0 && strcmp(cell, ".") != 0;
}

/* Writes hexadecimal digits as base64, which is a third shorter. */
static bool put_digest(spc__buf *out, const char *text)
{
    unsigned char bytes[SPC__SHA256_BYTES];
    static const char digits[] = "0123456789abcdef";

    if (strlen(text) != 2 * sizeof(bytes) || strspn(text, digits) != 64)
        return false;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)((strchr(digits, text[2 * i]) - digits) * 16 +
                                   (strchr(digits, text[2 * i + 1]) - digits));
    spc__buf_puts(out, "~");
    spc__base64_append(out, bytes, sizeof(bytes));
    while (!out->failed && out->data[out->length - 1] == '=')
        out->data[--out->length] = '\0';
    return true;
}

/* Makes the text of a cell. */
static const char *make_cell(spc__table_writer *w, const spc__columns *columns,
                             const char *value)
{
    spc__buf *out = &w->cell;

    spc__buf_clear(out);
    if (value[0] == '\0') {
        spc__buf_puts(out, "-");
    } else if (columns != NULL && strchr(value, '=') != NULL) {
        if (!put_values(out, columns, value)) {
            spc__buf_clear(out);
            spc__value_put(out, value, false);
        }
    } else if (!put_digest(out, value)) {
        /* Quotes a text that would be read as something else. */
        spc__value_put(out, value,
                       columns != NULL || strcmp(value, "-") == 0 ||
                           strcmp(value, ".") == 0);
    }
    return spc__buf_text(out);
}

/* Features are measured, so that single numbers occur again. */
static bool put_pieces(spc__table_writer *w, const char *text)
{
    char word[64];

    for (;; text++) {
        size_t length = strcspn(text, ",");
        if (length >= sizeof(word)) {
            spc__buf_append(&w->line, text, length);
        } else {
            memcpy(word, text, length);
            word[length] = '\0';
            if (!put_text(w, word))
                return false;
        }
        text += length;
        if (*text == '\0')
            return true;
        spc__buf_puts(&w->line, ",");
    }
}

/* Writes a cell. Features are written piece by piece, because single values
 * repeat. */
static bool put_cell(spc__table_writer *w, const spc__table_template *of,
                     const char *field, const char *value, bool may_be_note)
{
    int list = spc__table_list_of(field);
    const char *cell = make_cell(w, list >= 0 ? &of->lists[list] : NULL, value);

    spc__buf_puts(&w->line, " ");
    if (strcmp(field, "features") == 0 && strpbrk(cell, "=\"") == NULL)
        return put_pieces(w, cell);
    if (may_be_note)
        return put_text(w, cell);
    spc__buf_puts(&w->line, cell);
    return true;
}

/* Writes cells. Those at the end that have their usual values are left out. */
static bool put_cells(spc__table_writer *w, const spc__table_template *of,
                      const spc__table_field *all_fixed, int count,
                      const spc__record *record, const spc__record *usual,
                      bool may_be_note)
{
    size_t end = w->line.length;
    bool good = true;

    for (int i = 0; i < count && good; i++) {
        const char *field = all_fixed[i].field;
        const char *value = spc__record_named(record, field);
        const char *other = usual != NULL && strcmp(field, "reason") != 0
                                ? spc__record_named(usual, field)
                                : all_fixed[i].usual;
        if (other != NULL && strcmp(other, value) == 0) {
            spc__buf_puts(&w->line, " .");
            continue;
        }
        if (strcmp(field, "template") == 0)
            spc__buf_printf(&w->line, " %s", of->label);
        else
            good = put_cell(w, of, field, value, may_be_note);
        end = w->line.length;
    }
    if (!w->line.failed && w->line.data != NULL) {
        w->line.length = end;
        w->line.data[end] = '\0';
    }
    return good;
}

/* True if the second piece is of the next axis, with the value of the first. */
static bool is_next_axis(const piece *a, const piece *b)
{
    return a->name_length == b->name_length &&
           memcmp(a->name, b->name, (size_t)a->name_length - 1) == 0 &&
           b->name[b->name_length - 1] == a->name[a->name_length - 1] + 1 &&
           a->value_length == b->value_length &&
           memcmp(a->value, b->value, (size_t)a->value_length) == 0;
}

/* Writes attributes with those of equal axes as one: k*=3 for kx=3,ky=3,kz=3.
 * No name has a '*'. */
static void put_axes(spc__buf *out, const char *text)
{
    piece p[3] = {{0}};

    while (*text != '\0') {
        const char *at = text;
        bool three = next_piece(&p[0], &at) && p[0].name_length > 0 &&
                     p[0].name[p[0].name_length - 1] == 'x';
        size_t length = strcspn(text, ",");
        for (int i = 1; i < 3 && three; i++)
            three = next_piece(&p[i], &at) && is_next_axis(&p[i - 1], &p[i]);
        if (three)
            spc__buf_printf(out, "%.*s*=%.*s", p[0].name_length - 1, p[0].name,
                            p[0].value_length, p[0].value);
        else
            spc__buf_append(out, text, length);
        text = three ? at : text + length + (text[length] == ',');
        spc__buf_puts(out, *text != '\0' ? "," : "");
    }
}

/* Writes the cell of a field in a line 'for'. */
static bool put_above(spc__table_writer *w, int field, const char *value)
{
    const char *cell = make_cell(w, NULL, value);
    spc__buf short_form = SPC__BUF_INIT;
    bool good = true;

    if (field < SPC__TABLE_LAYER || cell[0] == '"') {
        spc__buf_puts(&w->line, cell);
        return true;
    }
    put_axes(&short_form, cell);
    if (field == SPC__TABLE_LAYER)
        spc__buf_puts(&w->line, spc__buf_text(&short_form));
    else
        good = put_text(w, spc__buf_text(&short_form));
    good = good && !short_form.failed;
    spc__buf_release(&short_form);
    return good;
}

/* ---- lines --------------------------------------------------------------- */

static spc_status write_line(spc__table_writer *w, spc_error *error)
{
    spc_status status = SPC_OK;

    spc__buf_puts(&w->line, "\n");
    if (w->line.failed || w->cell.failed)
        return fail_memory(error);
    if (w->pass == SPC__TABLE_ROWS)
        status = w->write(w->line.data, w->line.length, w->payload);
    spc__buf_clear(&w->line);
    return status == SPC_OK
               ? status
               : spc__fail(error, status, "the export cannot be written");
}

static void put_columns(spc__buf *out, const spc__columns *columns)
{
    for (int i = 0; i < columns->count; i++) {
        spc__buf_printf(out, "%s%s", i > 0 ? "," : "", columns->at[i].name);
        if (columns->at[i].usual[0] != '\0')
            spc__buf_printf(out, "=%s", columns->at[i].usual);
    }
}

static spc_status write_template(spc__table_writer *w,
                                 const spc__table_template *t, spc_error *error)
{
    spc__buf_printf(&w->line, "template %s template=", t->label);
    spc__value_put(&w->line, t->name, false);
    spc__buf_printf(&w->line, " hash=%s", make_cell(w, NULL, t->hash));
    for (int i = 0; i < SPC__TABLE_LISTS; i++)
        if (t->lists[i].count > 0) {
            spc__buf_printf(&w->line, " %s=", spc__table_lists[i]);
            put_columns(&w->line, &t->lists[i]);
        }
    return write_line(w, error);
}

static spc_status write_notes(spc__table_writer *w, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < w->texts.count && status == SPC_OK; i++)
        if (w->uses[i].key[0] != '\0') {
            spc__buf_printf(&w->line, "note %s %s", w->uses[i].key,
                            w->texts.at[i]);
            status = write_line(w, error);
        }
    return status;
}

/* Writes a line 'for' with the fields, of those from `from` to `end`, that are
 * other than above. */
static spc_status write_above(spc__table_writer *w, const spc__record *trial,
                              int from, int end, spc_error *error)
{
    bool any = false, good = true;

    for (int i = from; i < end; i++) {
        const char *field = spc__table_above[i];
        const char *value = spc__record_named(trial, field);
        if (strcmp(spc__buf_text(&w->above[i]), value) == 0)
            continue;
        spc__buf_clear(&w->above[i]);
        spc__buf_puts(&w->above[i], value);
        spc__buf_printf(&w->line, "%s %s=", any ? "" : "for", field);
        good = good && put_above(w, i, value) && !w->above[i].failed;
        any = true;
    }
    if (!good)
        return fail_memory(error);
    return any ? write_line(w, error) : SPC_OK;
}

/* Writes the lines 'for' whose fields have changed, then both lines of the
 * row. */
static spc_status write_row(spc__table_writer *w, const spc__table_template *of,
                            const spc__record *trial, const spc__record *choice,
                            spc_error *error)
{
    spc_status status = write_above(w, trial, 0, SPC__TABLE_LAYER, error);

    if (status == SPC_OK)
        status =
            write_above(w, trial, SPC__TABLE_LAYER, SPC__TABLE_ABOVE, error);
    if (status != SPC_OK)
        return status;
    spc__buf_puts(&w->line, choice != NULL ? "choice" : "trial");
    bool good =
        put_cells(w, of, spc__table_first, SPC__TABLE_FIRST, trial, NULL,
                  false) &&
        (choice == NULL || put_cells(w, of, spc__table_chosen,
                                     SPC__TABLE_CHOSEN, choice, trial, true));
    if (!good)
        return fail_memory(error);
    if ((status = write_line(w, error)) != SPC_OK)
        return status;
    return put_cells(w, of, spc__table_second, SPC__TABLE_SECOND, trial, NULL,
                     true)
               ? write_line(w, error)
               : fail_memory(error);
}

/* ---- passes -------------------------------------------------------------- */

spc_status spc__table_add(spc__table_writer *w, const spc__record *trial,
                          const spc__record *choice, spc_error *error)
{
    if (w->pass == SPC__TABLE_NAMES)
        return learn(w, trial, error);
    const spc__table_names *names =
        find_template(w, spc__record_named(trial, "template"),
                      spc__record_named(trial, "hash"));
    return names != NULL
               ? write_row(w, &names->template, trial, choice, error)
               : spc__fail(error, SPC_EINTERNAL, "the file changes meanwhile");
}

static void put_fixed(spc__buf *out, const spc__table_field *all_fixed,
                      int count)
{
    for (int i = 0; i < count; i++)
        spc__buf_printf(out, " %s", all_fixed[i].field);
}

/* Writes remarks with the order of cells, and the templates. */
static spc_status write_head(spc__table_writer *w, spc_error *error)
{
    spc_status status = SPC_OK;

    if (w->template_count == 0)
        return SPC_OK;
    spc__buf_puts(&w->line, "# trial:");
    put_fixed(&w->line, spc__table_first, SPC__TABLE_FIRST);
    spc__buf_puts(&w->line, "\n# choice: as a trial, and");
    put_fixed(&w->line, spc__table_chosen, SPC__TABLE_CHOSEN);
    spc__buf_puts(&w->line, "\n# second line:");
    put_fixed(&w->line, spc__table_second, SPC__TABLE_SECOND);
    status = write_line(w, error);
    for (int i = 0; i < w->template_count && status == SPC_OK; i++)
        status = write_template(w, &w->templates[i].template, error);
    return status;
}

spc_status spc__table_next(spc__table_writer *w, spc_error *error)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < SPC__TABLE_ABOVE; i++)
        spc__buf_clear(&w->above[i]);
    if (w->pass == SPC__TABLE_NAMES)
        for (int i = 0; i < w->template_count; i++)
            drop_rare(&w->templates[i]);
    else if (w->pass == SPC__TABLE_NOTES)
        status = name_notes(w, error);
    else
        status = write_notes(w, error);
    w->pass++;
    return status == SPC_OK && w->pass == SPC__TABLE_ROWS ? write_head(w, error)
                                                          : status;
}

void spc__table_writer_release(spc__table_writer *w)
{
    for (int i = 0; i < SPC__TABLE_ABOVE; i++)
        spc__buf_release(&w->above[i]);
    spc__buf_release(&w->line);
    spc__buf_release(&w->cell);
    spc__texts_release(&w->values);
    spc__texts_release(&w->texts);
    free(w->templates);
    free(w->value_uses);
    free(w->uses);
}
