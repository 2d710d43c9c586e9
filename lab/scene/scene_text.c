/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_text.c - text with a point in each line (.xyz, .txt, .csv): numbers
 * between blanks, tabs, commas or semicolons.
 *
 * The first three numbers are x, y and z, unless the specification states the
 * columns or a first line names them. Empty lines, and lines that begin with
 * '#' or "//", are left out; such a line just before the first row names the
 * columns too if it has as many words as the row, and x, y and z among them.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include "base/plural.h"
#include "lab/scene/lines.h"
#include <strings.h>

typedef struct text {
    const spc__scene_file *file;
    spc__lines lines;
    spc__span names; /* the line that may name the columns, or empty */
    bool must_name;  /* the line is not a comment */
    const char *first_row;
    int64_t first_line;
    int64_t rows;
    int columns; /* count of numbers in the first row */
} text;

static bool is_comment(spc__span line)
{
    spc__span word = spc__lines_word(&line);

    return word.length == 0 || word.at[0] == '#' ||
           (word.length > 1 && word.at[0] == '/' && word.at[1] == '/');
}

static bool starts_with_number(spc__span line)
{
    double ignored;

    return spc__scan_real(&ignored, spc__lines_word(&line));
}

/* Returns the words of a comment, without its sign. */
static spc__span words_of(spc__span line)
{
    while (line.length > 0 &&
           (line.at[0] == '#' || line.at[0] == '/' || line.at[0] == ' '))
        line.at++, line.length--;
    return line;
}

/* Finds the first row, and counts the rows. */
static spc_status survey(text *t, spc_error *error)
{
    spc__span line;

    while (spc__lines_next(&t->lines, &line)) {
        if (is_comment(line)) {
            if (t->rows == 0 && !t->must_name && line.length > 0)
                t->names = words_of(line);
            continue;
        }
        if (t->rows == 0 && !t->must_name && !starts_with_number(line)) {
            t->names = line;
            t->must_name = true;
            continue;
        }
        if (t->rows++ == 0) {
            t->first_row = line.at;
            t->first_line = t->lines.line - 1;
            t->columns = spc__lines_count(line);
        }
    }
    if (t->rows > SPC__SCENE_MAX_POINTS)
        return spc__fail(error, SPC_ECAPACITY,
                         "cannot read '%s': it has %lld rows; at most 2^31 - 1 "
                         "are possible",
                         t->file->path, (long long)t->rows);
    return SPC_OK;
}

/* Returns false unless the words name each column, with x, y and z among
 * them. */
static bool read_names(spc__columns *out, spc__span names, int count)
{
    *out = (spc__columns){count, {-1, -1, -1, -1}};
    if (spc__lines_count(names) != count)
        return false;
    for (int c = 0; c < count; c++) {
        spc__span name = spc__lines_word(&names);
        int axis = spc__axis_of(name);
        int *place = axis >= 0 ? &out->at[1 + axis] : &out->at[0];
        if (axis < 0 &&
            !(name.length == 5 && strncasecmp(name.at, "batch", 5) == 0))
            continue;
        if (*place >= 0)
            return false; /* a column is named twice */
        *place = c;
    }
    return out->at[1] >= 0 && out->at[2] >= 0 && out->at[3] >= 0;
}

static spc_status choose_columns(spc__columns *out, const text *t,
                                 spc_error *error)
{
    const spc__columns *stated = &t->file->columns;

    if (t->columns < 3 || t->columns > SPC__COLUMNS_MOST)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': line %lld has %s; expected 3 to "
                         "%d, among them x, y and z",
                         t->file->path, (long long)t->first_line + 1,
                         spc__count(t->columns, "number"), SPC__COLUMNS_MOST);
    if (stated->count > 0 && stated->count != t->columns)
        return spc__fail(error, SPC_EINVAL,
                         "cannot read '%s': its rows have %s, columns= states "
                         "%d",
                         t->file->path, spc__count(t->columns, "number"),
                         stated->count);
    if (stated->count > 0)
        *out = *stated;
    else if (!read_names(out, t->names, t->columns)) {
        if (t->must_name)
            return spc__fail(error, SPC_EFORMAT,
                             "cannot read '%s': its first line is neither "
                             "numbers nor a name for each of %s, with x, y and "
                             "z once; say what they are by ,columns=xyz and a "
                             "letter for each other",
                             t->file->path, spc__count(t->columns, "column"));
        spc__columns_count(out, t->columns);
    }
    return SPC_OK;
}

static spc_status take_rows(spc__rows *to, text *t, int columns,
                            spc_error *error)
{
    spc__span line;
    int64_t row = 0;
    spc_status status = SPC_OK;

    t->lines.at = t->first_row;
    t->lines.line = t->first_line;
    while (status == SPC_OK && spc__lines_next(&t->lines, &line)) {
        double numbers[SPC__COLUMNS_MOST];
        spc__source_position place = {t->file->path, row,
                                      line.at - t->file->data};
        if (is_comment(line))
            continue;
        status = spc__lines_numbers(numbers, columns, columns, &t->lines, line,
                                    error);
        if (status == SPC_OK)
            status = to->take(to, numbers, &place, error);
        row++;
    }
    return status;
}

spc_status spc__scene_read_text(spc__rows *to, const spc__scene_file *file,
                                spc_error *error)
{
    text t = {.file = file,
              .lines = {file->path, file->data, file->data,
                        file->data + file->bytes, 0},
              .names = {"", 0}};
    spc__columns columns;
    spc_status status = survey(&t, error);

    if (status == SPC_OK && t.rows == 0)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': no line of it is a row of numbers",
                         file->path);
    if (status == SPC_OK)
        status = choose_columns(&columns, &t, error);
    if (status == SPC_OK)
        status = to->begin(to, t.rows, &columns, false, error);
    return status == SPC_OK ? take_rows(to, &t, columns.count, error) : status;
}
