/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_ply.c - PLY files (ascii, binary little and big endian): rows are x, y,
 * z of the element "vertex", then its other numbers in the file's order; other
 * elements and lists are skipped.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include "base/plural.h"
#include "base/text/names.h"
#include "lab/scene/cell.h"
#include "lab/scene/lines.h"
#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ELEMENTS = 16, MOST_PROPERTIES = 128, MOST_LIST = 1 << 24 };

/* The names in the order of spc__cell from I8 on, then other names of the same
 * types. */
static const char *const type_names[] = {
    "char",  "uchar",  "short",   "ushort",  "int",   "uint",
    "float", "double", "int8",    "uint8",   "int16", "uint16",
    "int32", "uint32", "float32", "float64", NULL};
enum { TYPES = 8 };

typedef struct ply_property {
    spc__cell count; /* type of the count of a list, or SPC__CELL_NONE */
    spc__cell type;
    /* column in a row: 0, 1, 2 are a vertex's x, y, z; -1: not read */
    int column;
} ply_property;

typedef struct ply_element {
    int64_t rows;
    int first; /* index of its first property */
    int properties;
    bool is_vertex;
} ply_element;

typedef struct ply {
    const spc__scene_file *file;
    const char *at; /* the read position */
    const char *end;
    enum { ASCII, LITTLE, BIG } format;
    bool has_format;
    locale_t plain;
    ply_element elements[MOST_ELEMENTS];
    int element_count;
    ply_property properties[MOST_PROPERTIES];
    int property_count;
    bool has_axis[3];
    int columns; /* numbers of a row */
    int line;    /* line of the header */
} ply;

/* ---- the header ---------------------------------------------------------- */

enum { MOST_WORDS = 6 };

typedef struct header_line {
    spc__span words[MOST_WORDS]; /* empty after the last word */
} header_line;

static spc_status bad_header(const ply *p, spc_error *error, const char *what)
{
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': line %d of the header %s",
                     p->file->path, p->line, what);
}

/* Splits the next line; false at the end of the file. */
static bool next_line(ply *p, header_line *line)
{
    spc__span rest = {p->at, (size_t)(p->end - p->at)};

    if (memchr(rest.at, '\n', rest.length) == NULL)
        return false;
    spc__span words = spc__scan_part(&rest, '\n');
    p->at = rest.at;
    p->line++;
    if (words.length > 0 && words.at[words.length - 1] == '\r')
        words.length--;
    for (int i = 0; i < MOST_WORDS; i++)
        line->words[i] =
            words.at != NULL ? spc__scan_word(&words) : (spc__span){"", 0};
    return true;
}

static spc__cell find_type(spc__span name)
{
    int index = spc__name_find(type_names, name);

    return index < 0 ? SPC__CELL_NONE
                     : (spc__cell)(SPC__CELL_I8 + index % TYPES);
}

static spc_status read_format(ply *p, const header_line *line, spc_error *error)
{
    static const char *const names[] = {"ascii", "binary_little_endian",
                                        "binary_big_endian", NULL};
    int format = spc__name_find(names, line->words[1]);

    if (format >= 0) {
        p->format = format;
        p->has_format = true;
        return SPC_OK;
    }
    return bad_header(p, error,
                      "names an unknown format: expected ascii, "
                      "binary_little_endian or binary_big_endian");
}

/* Reads "element NAME COUNT". */
static spc_status read_element(ply *p, const header_line *line,
                               spc_error *error)
{
    uint64_t rows;

    if (p->element_count == MOST_ELEMENTS)
        return bad_header(p, error, "declares more than 16 elements");
    if (!spc__scan_unsigned(&rows, line->words[2], UINT64_MAX))
        return bad_header(p, error, "has no count after 'element NAME'");
    if (rows > SPC__SCENE_MAX_POINTS)
        return spc__fail(error, SPC_ECAPACITY,
                         "cannot read '%s': line %d of the header announces "
                         "%.*s rows; at most 2^31 - 1 are possible",
                         p->file->path, p->line, SPC__SPAN(line->words[2]));
    bool is_vertex = spc__span_is(line->words[1], "vertex");
    for (int i = 0; i < p->element_count; i++)
        if (is_vertex && p->elements[i].is_vertex)
            return bad_header(p, error, "declares the element vertex again");
    ply_element *element = &p->elements[p->element_count++];
    element->rows = (int64_t)rows;
    element->first = p->property_count;
    element->is_vertex = is_vertex;
    return SPC_OK;
}

/* Columns 0 to 2 are x, y and z; others follow as long as there is room. */
static int find_column(ply *p, spc__span name)
{
    int axis = spc__axis_of(name);

    if (axis >= 0 && !p->has_axis[axis]) {
        p->has_axis[axis] = true;
        return axis;
    }
    return p->columns < SPC__COLUMNS_MOST ? p->columns++ : -1;
}

/* Reads "property TYPE NAME" or "property list COUNT_TYPE TYPE NAME". Lists of
 * the vertex are skipped, like all properties of other elements. */
static spc_status read_property(ply *p, const header_line *line,
                                spc_error *error)
{
    bool is_list = spc__span_is(line->words[1], "list");
    spc__span name = line->words[is_list ? 4 : 2];
    ply_property property = {SPC__CELL_NONE, SPC__CELL_NONE, -1};

    if (p->element_count == 0)
        return bad_header(p, error, "has a property before any element");
    if (p->property_count == MOST_PROPERTIES)
        return bad_header(p, error, "declares more than 128 properties");
    property.type = find_type(line->words[is_list ? 3 : 1]);
    if (is_list)
        property.count = find_type(line->words[2]);
    if (property.type == SPC__CELL_NONE || name.length == 0 ||
        (is_list &&
         (property.count == SPC__CELL_NONE || property.count >= SPC__CELL_F32)))
        return bad_header(p, error,
                          "is not a property: expected 'property float x' or "
                          "'property list uchar int NAME'");
    ply_element *element = &p->elements[p->element_count - 1];
    if (element->is_vertex && !is_list)
        property.column = find_column(p, name);
    element->properties++;
    p->properties[p->property_count++] = property;
    return SPC_OK;
}

static spc_status check_header(const ply *p, spc_error *error)
{
    if (!p->has_format)
        return bad_header(p, error, "ends the header without a 'format'");
    if (!p->has_axis[0] || !p->has_axis[1] || !p->has_axis[2])
        return bad_header(p, error,
                          "ends the header without an element vertex with "
                          "properties x, y and z");
    return SPC_OK;
}

/* Reads the header to its end. Numbers of rows are checked against the file's
 * size later. */
static spc_status read_header(ply *p, spc_error *error)
{
    static const char *const words[] = {
        "format", "element", "property", "comment", "obj_info", "", NULL};
    header_line line;
    spc_status status = SPC_OK;

    if (!next_line(p, &line) || !spc__span_is(line.words[0], "ply"))
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': its first line is not 'ply'",
                         p->file->path);
    while (status == SPC_OK) {
        if (!next_line(p, &line))
            return spc__fail(error, SPC_EFORMAT,
                             "cannot read '%s': the header has no line "
                             "'end_header'",
                             p->file->path);
        if (spc__span_is(line.words[0], "end_header"))
            return check_header(p, error);
        int word = spc__name_find(words, line.words[0]);
        status = word < 0 ? bad_header(p, error, "begins with an unknown word")
                 : word == 0 ? read_format(p, &line, error)
                 : word == 1 ? read_element(p, &line, error)
                 : word == 2 ? read_property(p, &line, error)
                             : SPC_OK;
    }
    return status;
}

/* ---- values -------------------------------------------------------------- */

/* Returns false if the file ends before the value does. */
static bool read_binary(double *out, ply *p, spc__cell type)
{
    int bytes = spc__cell_bytes(type);

    if (p->end - p->at < bytes)
        return false;
    *out = spc__cell_read(type, p->at, p->format == BIG);
    p->at += bytes;
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/*
 * Returns false at a word that is not a number, or at the end. A float of an
 * ascii file is rounded to float, so that both forms of a file give the same
 * scene.
 */
static bool read_ascii(double *out, ply *p, spc__cell type)
{
    char *stop;
    while (p->at < p->end && is_space(*p->at))
        p->at++;
    *out = strtod_l(p->at, &stop, p->plain);
    if (stop == p->at || stop > p->end || (stop < p->end && !is_space(*stop)))
        return false;
    if (type == SPC__CELL_F32)
        *out = (float)*out;
    p->at = stop;
    return true;
}

static bool read_value(double *out, ply *p, spc__cell type)
{
    return p->format == ASCII ? read_ascii(out, p, type)
                              : read_binary(out, p, type);
}

/* Skips a list; false at the end of the file, or for a count that cannot be. */
static bool skip_list(ply *p, const ply_property *property)
{
    double count, ignored;
    if (!read_value(&count, p, property->count) || !(count >= 0) ||
        count > MOST_LIST)
        return false;
    for (int64_t i = 0; i < (int64_t)count; i++)
        if (!read_value(&ignored, p, property->type))
            return false;
    return true;
}

/* Reads one row of an element. */
static spc_status read_row(double *numbers, ply *p, const ply_element *element,
                           int64_t row, spc_error *error)
{
    for (int i = 0; i < element->properties; i++) {
        const ply_property *property = &p->properties[element->first + i];
        double value;
        bool good = property->count != SPC__CELL_NONE
                        ? skip_list(p, property)
                        : read_value(&value, p, property->type);
        if (!good)
            return spc__fail(
                error, SPC_EFORMAT,
                "cannot read '%s': property %d of row %lld of element %d "
                "(byte %lld) %s",
                p->file->path, i, (long long)row, (int)(element - p->elements),
                (long long)(p->at - p->file->data),
                p->at >= p->end ? "is missing: the file ends"
                                : "is not a number of its type, or the file "
                                  "ends inside it");
        if (property->column >= 0)
            numbers[property->column] = value;
    }
    return SPC_OK;
}

/*
 * Checks the header's count against the size of the file: each value takes at
 * least one byte, even in text.
 */
static spc_status check_count(const ply *p, const ply_element *element,
                              spc_error *error)
{
    int64_t left = p->end - p->at;
    if (element->properties == 0 || element->rows <= left)
        return SPC_OK;
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': the header announces %s, but only %lld "
                     "bytes follow byte %lld",
                     p->file->path, spc__count(element->rows, "row"),
                     (long long)left, (long long)(p->at - p->file->data));
}

/* Reads all rows of an element; those before the vertices must be read to find
 * where they begin. */
static spc_status read_element_rows(spc__rows *to, ply *p,
                                    const ply_element *element,
                                    spc_error *error)
{
    spc_status status = check_count(p, element, error);
    spc__columns columns;

    spc__columns_count(&columns, p->columns);
    if (status == SPC_OK && element->is_vertex)
        status = to->begin(to, element->rows, &columns, false, error);
    if (element->properties == 0)
        return status;
    for (int64_t row = 0; row < element->rows && status == SPC_OK; row++) {
        double numbers[SPC__COLUMNS_MOST] = {0};
        spc__source_position byte = {p->file->path, row, p->at - p->file->data};
        status = read_row(numbers, p, element, row, error);
        if (status == SPC_OK && element->is_vertex)
            status = to->take(to, numbers, &byte, error);
    }
    return status;
}

spc_status spc__scene_read_ply(spc__rows *to, const spc__scene_file *file,
                               spc_error *error)
{
    ply p = {.file = file,
             .at = file->data,
             .end = file->data + file->bytes,
             .columns = 3};
    spc_status status = read_header(&p, error);

    if (status != SPC_OK)
        return status;
    if (file->columns.count > 0)
        return spc__fail_columns(file, error);
    p.plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (p.plain == (locale_t)0)
        return spc__fail(error, SPC_ENOMEM, "cannot make the C locale");
    for (int i = 0; i < p.element_count && status == SPC_OK; i++) {
        bool is_vertex = p.elements[i].is_vertex;
        status = read_element_rows(to, &p, &p.elements[i], error);
        if (is_vertex)
            break; /* later elements are not needed */
    }
    freelocale(p.plain);
    return status;
}
