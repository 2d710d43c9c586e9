/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - tables for people. */
#include "command/cli/table.h"

#include "base/printable.h"
#include "command/cli/terminal.h"
#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    GAP = 2,         /* spaces between two columns */
    LEAST_TEXT = 20, /* least width to which a column of text is wrapped */
};

void table_init(table *t, const char *const *titles)
{
    memset(t, 0, sizeof(*t));
    for (; titles[t->columns] != NULL && t->columns < TABLE_COLUMNS;
         t->columns++) {
        const char *title = titles[t->columns];
        for (; *title == '>' || *title == '-'; title++) {
            t->right[t->columns] |= *title == '>';
            t->rank[t->columns] += *title == '-';
        }
        t->titles[t->columns] = title;
    }
    /* a larger count would need a larger TABLE_COLUMNS */
    assert(titles[t->columns] == NULL);
}

/* Rows are added by their first cell. */
static void add_row(table *t)
{
    size_t cells = (size_t)(t->rows + 1) * (size_t)t->columns;
    char **more = realloc(t->cells, cells * sizeof(*more));

    if (more == NULL) {
        t->failed = true;
        return;
    }
    memset(more + (size_t)t->rows * (size_t)t->columns, 0,
           (size_t)t->columns * sizeof(*more));
    t->cells = more;
    t->rows++;
}

/* Takes ownership of the text. NULL: an empty cell. */
static void put(table *t, char *text)
{
    if (t->at == 0)
        add_row(t);
    if (t->failed)
        free(text);
    else
        t->cells[(t->rows - 1) * t->columns + t->at] = text;
    t->at = (t->at + 1) % t->columns;
}

/* A cell must be one line. */
static void join_lines(char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\n' || *text == '\t')
            *text = ' ';
}

void table_cell(table *t, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    if (text != NULL) {
        spc__make_printable(text);
        join_lines(text);
    }
    put(t, text);
}

void table_blank(table *t)
{
    put(t, NULL);
}

void table_us(table *t, double us)
{
    if (us <= 0)
        table_blank(t);
    else
        table_cell(t, "%.*f", us < 100 ? 2 : us < 10000 ? 1 : 0, us);
}

void table_release(table *t)
{
    for (int i = 0; i < t->rows * t->columns; i++)
        free(t->cells[i]);
    free(t->cells);
    memset(t, 0, sizeof(*t));
}

/* ---- widths -------------------------------------------------------------- */

static const char *cell(const table *t, int row, int column)
{
    const char *text =
        row < 0 ? t->titles[column] : t->cells[row * t->columns + column];
    return text != NULL ? text : "";
}

/*
 * Characters in the first `bytes` of UTF-8. This is the width on the screen, as
 * our texts have no wide ones.
 */
static int characters(const char *text, size_t bytes)
{
    int count = 0;

    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

static int length_of(const char *text)
{
    return characters(text, strlen(text));
}

/*
 * The widest cell of a column; 0 if all rows are empty there: then the column
 * is not printed.
 */
static int width_of(const table *t, int column)
{
    int width = 0, title = length_of(t->titles[column]);

    for (int r = 0; r < t->rows; r++)
        if (length_of(cell(t, r, column)) > width)
            width = length_of(cell(t, r, column));
    return (width > 0 || t->rows == 0) && title > width ? title : width;
}

/* Returns the width of a line if text columns have at most `most`
 * characters. */
static int line_width(const table *t, const int *width, int most)
{
    int sum = -GAP;

    for (int c = 0; c < t->columns; c++)
        if (width[c] > 0)
            sum += GAP + (t->right[c] || width[c] < most ? width[c] : most);
    return sum;
}

/* Returns the next column to leave out; -1 if the table needs all that are
 * left. */
static int least_important(const table *t, const int *width)
{
    int found = -1;

    for (int c = 0; c < t->columns; c++)
        if (width[c] > 0 && t->rank[c] > 0 &&
            (found < 0 || t->rank[c] >= t->rank[found]))
            found = c;
    return found;
}

/*
 * Narrows columns, or hides them (0), until a line has at most `wanted`
 * characters. Returns false if the needed columns do not fit.
 */
static bool fit(const table *t, int *width, int wanted)
{
    int most = wanted, out;

    while (line_width(t, width, LEAST_TEXT) > wanted) {
        if ((out = least_important(t, width)) < 0)
            return false;
        width[out] = 0;
    }
    while (line_width(t, width, most) > wanted)
        most--;
    for (int c = 0; c < t->columns; c++)
        if (!t->right[c] && width[c] > most)
            width[c] = most;
    return true;
}

/* ---- lines --------------------------------------------------------------- */

static bool is_break(char c)
{
    return c == ' ' || c == ',' || c == '/' || c == ';' || c == '+';
}

/*
 * Bytes of `text` for a line of `width` characters: it ends after a blank or a
 * comma, or within a word that is longer than the line.
 */
static size_t take_line(const char *text, int width)
{
    size_t end = 0, last = 0;

    if (length_of(text) <= width)
        return strlen(text);
    while (characters(text, end + 1) <= width)
        if (is_break(text[end++]))
            last = end;
    if (text[end] == ' ')
        return end;
    return last > 0 ? last : end;
}

/*
 * Prints `*pad` blanks and one line of a cell of `width` characters. *pad gets
 * the blanks that follow; the next cell prints them, so no line ends with
 * blanks. Returns the rest of the cell.
 */
static const char *print_part(FILE *to, const char *text, int width, bool right,
                              int *pad)
{
    size_t bytes = take_line(text, width), shown = bytes;

    while (shown > 0 && text[shown - 1] == ' ')
        shown--;
    int free = width - characters(text, shown);
    if (shown > 0) {
        fprintf(to, "%*s%.*s", *pad + (right ? free : 0), "", (int)shown, text);
        *pad = right ? 0 : free;
    } else {
        *pad += width;
    }
    text += bytes;
    return text + strspn(text, " ");
}

static void print_row(const table *t, FILE *to, int row, const int *width)
{
    const char *rest[TABLE_COLUMNS];
    bool more = true;

    for (int c = 0; c < t->columns; c++)
        rest[c] = cell(t, row, c);
    while (more) {
        int pad = 0;
        more = false;
        for (int c = 0; c < t->columns; c++) {
            if (width[c] == 0)
                continue;
            rest[c] = print_part(to, rest[c], width[c], t->right[c], &pad);
            more |= rest[c][0] != '\0';
            pad += GAP;
        }
        fputc('\n', to);
    }
}

/* Prints a row as a block: a line for each cell, after its column's title. */
static void print_block(const table *t, FILE *to, int row, int width)
{
    int head = 0;

    for (int c = 0; c < t->columns; c++)
        if (length_of(t->titles[c]) > head)
            head = length_of(t->titles[c]);
    int wide = width - head - GAP > 1 ? width - head - GAP : 1;
    for (int c = 0; c < t->columns; c++) {
        const char *rest = cell(t, row, c);
        for (bool first = true; rest[0] != '\0'; first = false) {
            int pad = 0;
            print_part(to, first ? t->titles[c] : "", head, false, &pad);
            pad += GAP;
            rest = print_part(to, rest, wide, false, &pad);
            fputc('\n', to);
        }
    }
    if (row + 1 < t->rows)
        fputc('\n', to);
}

/* Names the columns that were left out. */
static void print_rest(const table *t, FILE *to, const int *width)
{
    const char *before = "(not shown in this width: ";

    for (int c = 0; c < t->columns; c++)
        if (width[c] == 0 && width_of(t, c) > 0) {
            fprintf(to, "%s%s", before, t->titles[c]);
            before = ", ";
        }
    if (before[0] == ',')
        fputs(")\n", to);
}

void table_print_width(const table *t, FILE *to, int wanted)
{
    int width[TABLE_COLUMNS];

    for (int c = 0; c < t->columns; c++)
        width[c] = width_of(t, c);
    if (wanted > 0 && !fit(t, width, wanted)) {
        for (int r = 0; r < t->rows; r++)
            print_block(t, to, r, wanted);
        return;
    }
    for (int r = -1; r < t->rows; r++)
        print_row(t, to, r, width);
    print_rest(t, to, width);
}

void table_print(const table *t, FILE *to)
{
    table_print_width(t, to, terminal_width(to));
}
