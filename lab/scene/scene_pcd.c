/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_pcd.c - PCD files of the Point Cloud Library (ascii, binary, and
 * compressed): rows are x, y, z, then the other numbers of the fields in the
 * file's order. Fields named "_" are padding.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include "base/plural.h"
#include "base/text/names.h"
#include "lab/scene/cell.h"
#include "lab/scene/lines.h"
#include "lab/scene/lzf.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_FIELDS = 128, MOST_COUNT = 1 << 20 };

typedef struct pcd_field {
    char type; /* 'I', 'U' or 'F' */
    int64_t size, count;
    spc__cell cell;
    int64_t byte; /* offset in a row, in bytes */
    int column;   /* column of its first number; -1: not read */
    int kept;     /* count of numbers that are read */
} pcd_field;

typedef struct pcd {
    const spc__scene_file *file;
    spc__lines lines;
    pcd_field fields[MOST_FIELDS];
    int field_count;
    int64_t width, height, points; /* -1: not stated */
    int64_t rows, row_bytes, row_numbers;
    int columns; /* numbers of a row of the result */
    bool has_axis[3];
    enum { ASCII, BINARY, COMPRESSED } data;
} pcd;

/* ---- the header ---------------------------------------------------------- */

static spc_status bad_header(const pcd *p, spc_error *error, const char *what)
{
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': line %lld of the header %s",
                     p->file->path, (long long)p->lines.line, what);
}

static int find_column(pcd *p, spc__span name)
{
    int axis = spc__axis_of(name);

    if (axis >= 0 && !p->has_axis[axis]) {
        p->has_axis[axis] = true;
        return axis;
    }
    if (spc__span_is(name, "_") || p->columns == SPC__COLUMNS_MOST)
        return -1;
    return p->columns++;
}

/* The other numbers of a field with several get columns once COUNT is known. */
static spc_status read_fields(pcd *p, spc__span words, spc_error *error)
{
    if (p->field_count > 0)
        return bad_header(p, error, "names the fields again");
    for (;;) {
        spc__span name = spc__lines_word(&words);
        if (name.length == 0)
            break;
        if (p->field_count == MOST_FIELDS)
            return bad_header(p, error, "names more than 128 fields");
        p->fields[p->field_count++] =
            (pcd_field){'F', 4, 1, SPC__CELL_NONE, 0, 0, 1};
    }
    return p->field_count > 0 ? SPC_OK
                              : bad_header(p, error, "names no fields");
}

static spc_status read_types(pcd *p, spc__span words, spc_error *error)
{
    for (int i = 0; i < p->field_count; i++) {
        spc__span word = spc__lines_word(&words);
        if (word.length != 1 || memchr("IUF", word.at[0], 3) == NULL)
            return bad_header(p, error,
                              "is not a type for each field: I, U or F");
        p->fields[i].type = word.at[0];
    }
    return SPC_OK;
}

/* Reads a number for each field into its `size` or `count`. */
static spc_status read_sizes(pcd *p, spc__span words, size_t place,
                             uint64_t most, spc_error *error)
{
    for (int i = 0; i < p->field_count; i++) {
        uint64_t number;
        if (!spc__scan_unsigned(&number, spc__lines_word(&words), most) ||
            number == 0)
            return bad_header(p, error,
                              "is not a number above 0 for each field");
        *(int64_t *)((char *)&p->fields[i] + place) = (int64_t)number;
    }
    return SPC_OK;
}

static spc_status read_extent(int64_t *out, pcd *p, spc__span words,
                              spc_error *error)
{
    uint64_t number;

    if (!spc__scan_unsigned(&number, spc__lines_word(&words), UINT64_MAX))
        return bad_header(p, error, "has no number of points");
    if (number > SPC__SCENE_MAX_POINTS)
        return spc__fail(error, SPC_ECAPACITY,
                         "cannot read '%s': line %lld of the header announces "
                         "more than 2^31 - 1 points",
                         p->file->path, (long long)p->lines.line);
    *out = (int64_t)number;
    return SPC_OK;
}

static spc_status read_data(pcd *p, spc__span words, spc_error *error)
{
    static const char *const names[] = {"ascii", "binary", "binary_compressed",
                                        NULL};
    int data = spc__name_find(names, spc__lines_word(&words));

    if (data < 0)
        return bad_header(p, error,
                          "names an unknown form of data: expected ascii, "
                          "binary or binary_compressed");
    p->data = data;
    return SPC_OK;
}

enum {
    VERSION,
    VIEWPOINT,
    FIELDS,
    COLUMNS,
    SIZE,
    TYPE,
    COUNT,
    WIDTH,
    HEIGHT,
    POINTS,
    DATA
};

static const char *const header_words[] = {
    "VERSION", "VIEWPOINT", "FIELDS", "COLUMNS", "SIZE", "TYPE",
    "COUNT",   "WIDTH",     "HEIGHT", "POINTS",  "DATA", NULL};

static spc_status read_line(pcd *p, int word, spc__span rest, spc_error *error)
{
    switch (word) {
    case FIELDS:
    case COLUMNS: /* this was the name until version 0.5 */
        return read_fields(p, rest, error);
    case SIZE:
        return read_sizes(p, rest, offsetof(pcd_field, size), 8, error);
    case TYPE:
        return read_types(p, rest, error);
    case COUNT:
        return read_sizes(p, rest, offsetof(pcd_field, count), MOST_COUNT,
                          error);
    case WIDTH:
        return read_extent(&p->width, p, rest, error);
    case HEIGHT:
        return read_extent(&p->height, p, rest, error);
    case POINTS:
        return read_extent(&p->points, p, rest, error);
    case DATA:
        return read_data(p, rest, error);
    default:
        return SPC_OK;
    }
}

static spc__cell cell_of(char type, int64_t size)
{
    static const struct {
        char type;
        int size;
        spc__cell cell;
    } cells[] = {
        {'I', 1, SPC__CELL_I8},  {'U', 1, SPC__CELL_U8},
        {'I', 2, SPC__CELL_I16}, {'U', 2, SPC__CELL_U16},
        {'I', 4, SPC__CELL_I32}, {'U', 4, SPC__CELL_U32},
        {'I', 8, SPC__CELL_I64}, {'U', 8, SPC__CELL_U64},
        {'F', 4, SPC__CELL_F32}, {'F', 8, SPC__CELL_F64},
    };

    for (size_t i = 0; i < sizeof(cells) / sizeof(*cells); i++)
        if (cells[i].type == type && cells[i].size == size)
            return cells[i].cell;
    return SPC__CELL_NONE;
}

/* Finds the position of each field in a row of the file, and in the rows that
 * are passed on. */
static spc_status place_fields(pcd *p, spc__span names, spc_error *error)
{
    for (int i = 0; i < p->field_count; i++) {
        pcd_field *field = &p->fields[i];
        spc__span name = spc__lines_word(&names);
        field->cell = cell_of(field->type, field->size);
        if (field->cell == SPC__CELL_NONE)
            return spc__fail(error, SPC_EFORMAT,
                             "cannot read '%s': the field '%.*s' has %s of "
                             "type %c; expected I or U of 1, 2, 4 or 8 bytes, "
                             "or F of 4 or 8",
                             p->file->path, SPC__SPAN(name),
                             spc__count(field->size, "byte"), field->type);
        if (spc__axis_of(name) >= 0 && field->count != 1)
            return bad_header(p, error, "has several numbers for x, y or z");
        field->byte = p->row_bytes;
        field->column = find_column(p, name);
        while (field->column >= 0 && field->kept < field->count &&
               p->columns < SPC__COLUMNS_MOST)
            field->kept++, p->columns++;
        /* At most 128 fields of 2^20 numbers of 8 bytes: 2^30, and times 2^31
         * rows this fits 64 bits. */
        p->row_bytes += field->size * field->count;
        p->row_numbers += field->count;
    }
    if (!p->has_axis[0] || !p->has_axis[1] || !p->has_axis[2])
        return bad_header(p, error, "ends a header without fields x, y and z");
    return SPC_OK;
}

/* WIDTH times HEIGHT must equal POINTS. */
static spc_status count_rows(pcd *p, spc_error *error)
{
    int64_t height = p->height >= 0 ? p->height : 1;

    if (p->width < 0 && p->points < 0)
        return bad_header(p, error,
                          "ends a header without WIDTH and without POINTS");
    p->rows = p->width < 0 ? p->points : p->width * height;
    if (p->rows > SPC__SCENE_MAX_POINTS)
        return spc__fail(error, SPC_ECAPACITY,
                         "cannot read '%s': its header announces %lld points; "
                         "at most 2^31 - 1 are possible",
                         p->file->path, (long long)p->rows);
    if (p->points >= 0 && p->points != p->rows)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': its header has %lld POINTS, but a "
                         "WIDTH of %lld and a HEIGHT of %lld",
                         p->file->path, (long long)p->points,
                         (long long)p->width, (long long)height);
    return SPC_OK;
}

static spc_status read_header(pcd *p, spc_error *error)
{
    spc__span line, names = {"", 0};
    spc_status status = SPC_OK;
    int word = -1;

    while (status == SPC_OK && word != DATA) {
        if (!spc__lines_next(&p->lines, &line))
            return spc__fail(error, SPC_EFORMAT,
                             "cannot read '%s': the header has no line 'DATA'",
                             p->file->path);
        spc__span rest = line;
        spc__span first = spc__lines_word(&rest);
        if (first.length == 0 || first.at[0] == '#')
            continue;
        word = spc__name_find(header_words, first);
        if (word < 0)
            return bad_header(p, error,
                              "begins with an unknown word; a PCD file has "
                              "VERSION, FIELDS, SIZE, TYPE, COUNT, WIDTH, "
                              "HEIGHT, VIEWPOINT, POINTS, DATA");
        status = read_line(p, word, rest, error);
        if (word == FIELDS || word == COLUMNS)
            names = rest;
    }
    if (status == SPC_OK)
        status = place_fields(p, names, error);
    return status == SPC_OK ? count_rows(p, error) : status;
}

/* ---- rows ---------------------------------------------------------------- */

static spc_status fail_size(const pcd *p, int64_t rows, spc_error *error)
{
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': its header announces %s of %lld "
                     "bytes, but the file ends after %lld of them (byte %zu)",
                     p->file->path, spc__count(p->rows, "point"),
                     (long long)p->row_bytes, (long long)rows, p->file->bytes);
}

static spc_status begin(spc__rows *to, const pcd *p, spc_error *error)
{
    spc__columns columns;

    spc__columns_count(&columns, p->columns);
    return to->begin(to, p->rows, &columns, false, error);
}

/*
 * Rows of numbers: field f of row r begins at data + at[f] + r * step[f].
 * Uncompressed rows follow each other; compressed files have all of a field,
 * then all of the next.
 */
static spc_status take_cells(spc__rows *to, const pcd *p, const char *data,
                             bool by_field, spc_error *error)
{
    int64_t first = p->lines.at - p->file->data;
    spc_status status = begin(to, p, error);

    for (int64_t row = 0; row < p->rows && status == SPC_OK; row++) {
        double numbers[SPC__COLUMNS_MOST] = {0};
        spc__source_position place = {
            p->file->path, row, by_field ? first : first + row * p->row_bytes};
        for (int f = 0; f < p->field_count; f++) {
            const pcd_field *field = &p->fields[f];
            const char *at = by_field ? data + field->byte * p->rows +
                                            row * field->size * field->count
                                      : data + row * p->row_bytes + field->byte;
            for (int c = 0; c < field->kept && field->column >= 0; c++)
                numbers[field->column + c] =
                    spc__cell_read(field->cell, at + c * field->size, false);
        }
        status = to->take(to, numbers, &place, error);
    }
    return status;
}

static spc_status take_binary(spc__rows *to, const pcd *p, spc_error *error)
{
    int64_t left = p->lines.end - p->lines.at;

    if (left / p->row_bytes < p->rows)
        return fail_size(p, left / p->row_bytes, error);
    return take_cells(to, p, p->lines.at, false, error);
}

/* Two sizes, compressed and not, precede the data. */
static spc_status take_compressed(spc__rows *to, const pcd *p, spc_error *error)
{
    size_t left = (size_t)(p->lines.end - p->lines.at), packed, whole;
    const char *at = p->lines.at;
    spc_status status;

    if (left < 8)
        return fail_size(p, 0, error);
    packed = (size_t)spc__cell_read(SPC__CELL_U32, at, false);
    whole = (size_t)spc__cell_read(SPC__CELL_U32, at + 4, false);
    /* The last test bounds the memory that a small, forged file can demand. */
    if (packed > left - 8 || whole != (size_t)(p->rows * p->row_bytes) ||
        whole > spc__lzf_most(packed))
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': %zu compressed bytes at byte %zu "
                         "are stated to hold %zu; %zu bytes follow, and %s "
                         "have %lld",
                         p->file->path, packed, p->file->bytes - left, whole,
                         left - 8, spc__count(p->rows, "point"),
                         (long long)(p->rows * p->row_bytes));
    char *data = malloc(whole + 1);
    if (data == NULL)
        return spc__fail_memory(error, whole);
    status = spc__lzf_decompress(data, whole, at + 8, packed)
                 ? take_cells(to, p, data, true, error)
                 : spc__fail(error, SPC_EFORMAT,
                             "cannot read '%s': its compressed data (byte %zu) "
                             "are damaged",
                             p->file->path, p->file->bytes - left + 8);
    free(data);
    return status;
}

/* Reads the numbers of a line by field, including fields that are not used. */
static void arrange(double *numbers, const pcd *p, const double *words)
{
    int64_t word = 0;

    for (int f = 0; f < p->field_count; f++) {
        const pcd_field *field = &p->fields[f];
        for (int c = 0; c < field->kept && field->column >= 0; c++) {
            double value = words[word + c];
            numbers[field->column + c] =
                /* Rounds as in a binary file, so that both forms of a cloud
                 * give the same voxels. */
                field->cell == SPC__CELL_F32 ? (float)value : value;
        }
        word += field->count;
    }
}

static spc_status take_lines(spc__rows *to, pcd *p, double *words,
                             spc_error *error)
{
    spc__span line;
    int64_t row = 0;
    spc_status status = begin(to, p, error);

    while (status == SPC_OK && spc__lines_next(&p->lines, &line)) {
        double numbers[SPC__COLUMNS_MOST] = {0};
        spc__source_position place = {p->file->path, row,
                                      line.at - p->file->data};
        /* Writers may end a file with empty lines. */
        if (spc__lines_count(line) == 0)
            continue;
        if (row == p->rows)
            return spc__fail(error, SPC_EFORMAT,
                             "cannot read '%s': its header announces %s, but "
                             "line %lld has one more",
                             p->file->path, spc__count(p->rows, "point"),
                             (long long)p->lines.line);
        status = spc__lines_numbers(words, (int)p->row_numbers, p->row_numbers,
                                    &p->lines, line, error);
        if (status != SPC_OK)
            return status;
        arrange(numbers, p, words);
        status = to->take(to, numbers, &place, error);
        row++;
    }
    if (status == SPC_OK && row < p->rows)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': its header announces %s, but the "
                         "file ends after %lld of them",
                         p->file->path, spc__count(p->rows, "point"),
                         (long long)row);
    return status;
}

static spc_status take_ascii(spc__rows *to, pcd *p, spc_error *error)
{
    int64_t left = p->lines.end - p->lines.at;

    /* Each number takes at least a byte and its separator. */
    if (p->row_numbers > left && p->rows > 0)
        return fail_size(p, 0, error);
    if (p->rows > left)
        return fail_size(p, left, error);
    double *words = malloc(((size_t)p->row_numbers + 1) * sizeof(*words));
    if (words == NULL)
        return spc__fail_memory(error, (size_t)p->row_numbers * sizeof(*words));
    spc_status status = take_lines(to, p, words, error);
    free(words);
    return status;
}

spc_status spc__scene_read_pcd(spc__rows *to, const spc__scene_file *file,
                               spc_error *error)
{
    pcd p = {.file = file,
             .lines = {file->path, file->data, file->data,
                       file->data + file->bytes, 0},
             .width = -1,
             .height = -1,
             .points = -1,
             .columns = 3};
    spc_status status = read_header(&p, error);

    if (status != SPC_OK)
        return status;
    if (file->columns.count > 0)
        return spc__fail_columns(file, error);
    return p.data == ASCII    ? take_ascii(to, &p, error)
           : p.data == BINARY ? take_binary(to, &p, error)
                              : take_compressed(to, &p, error);
}
