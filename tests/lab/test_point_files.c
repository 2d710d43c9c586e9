/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_point_files.c - the same points give the same scene in every format and
 * form. Cut or changed files are refused with a message.
 */
#include "base/file.h"
#include "base/random.h"
#include "harness/comma_locale.h"
#include "harness/folder_harness.h"
#include "harness/mutate.h"
#include "harness/suite.h"
#include "lab/scene/cell.h"
#include "lab/scene/lzf.h"
#include "lab/scene/scene.h"

#include <math.h>

static spc_error error;

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))
#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

/* Writes the file, and returns its specification. */
static const char *write_file(const char *name, const spc__buf *file,
                              const char *suffix)
{
    return write_at(name, file->data, file->length, suffix);
}

/* ---- the points ---------------------------------------------------------- */

enum { POINTS = 300, COLUMNS = 4 };

/* Returns points at multiples of 1/4, which every format holds exactly. Some
 * points are repeated, so that compressed data have repetitions. */
static void point_at(double out[COLUMNS], int i)
{
    out[0] = (i % 7 - 3) * 0.25;
    out[1] = (i / 50) * 1.5 - 4;
    out[2] = i % 13 * -0.75;
    out[3] = i % 100;
}

static void put(spc__buf *out, spc__cell type, double value, bool big)
{
    int bytes = spc__cell_bytes(type);
    float narrow = (float)value;
    int64_t whole = (int64_t)value;
    char raw[8];

    memcpy(raw, &whole, 8);
    if (type == SPC__CELL_F32)
        memcpy(raw, &narrow, 4);
    if (type == SPC__CELL_F64)
        memcpy(raw, &value, 8);
    for (int i = 0; i < bytes; i++)
        spc__buf_append(out, raw + (big ? bytes - 1 - i : i), 1);
}

/* Checks that the scene of `spec` and its points are those of point_at(). */
static void assert_points(const char *spec, const char *size)
{
    char with_size[600];
    spc_point_rows got;
    spc_scene *scene;
    spc_scene_info info;
    int64_t voxels = 0;

    snprintf(with_size, sizeof(with_size), "%s%s", spec, size);
    assert_ok(spc_point_rows_load(&got, spec, COLUMNS, &error));
    ck_assert_int_eq(got.rows, POINTS);
    for (int i = 0; i < POINTS; i++) {
        double at[COLUMNS];
        point_at(at, i);
        for (int c = 0; c < COLUMNS; c++)
            ck_assert_msg(got.values[i * COLUMNS + c] == (float)at[c],
                          "%s: column %d of point %d is %g, not %g", spec, c, i,
                          (double)got.values[i * COLUMNS + c], at[c]);
    }
    spc_point_rows_release(&got);
    assert_ok(spc_scene_load(&scene, with_size, &error));
    spc_scene_describe(&info, scene);
    ck_assert_int_eq(info.points, POINTS);
    ck_assert_int_eq(info.bad, 0);
    /* Checks that the scene has the voxels of the points and no others. */
    const int32_t *rows = spc_scene_coords(scene);
    for (int64_t r = 0; r < spc_scene_rows(scene); r++)
        for (int i = 0; i < POINTS; i++) {
            double at[COLUMNS];
            point_at(at, i);
            if (rows[4 * r + 1] == (int)floor(at[0] / 0.5) &&
                rows[4 * r + 2] == (int)floor(at[1] / 1) &&
                rows[4 * r + 3] == (int)floor(at[2] / 0.25)) {
                voxels++;
                break;
            }
        }
    ck_assert_int_eq(voxels, spc_scene_rows(scene));
    ck_assert_int_gt(voxels, 50);
    spc_scene_free(scene);
}

#define SIZES "@0.5,1,0.25"

/* ---- writers ------------------------------------------------------------- */

/* Compresses up to 9 bytes as a repetition of the nearest equal bytes, else as
 * literals. */
static void compress_lzf(spc__buf *out, const unsigned char *in, size_t bytes)
{
    size_t start = 0, at = 0;

    while (at <= bytes) {
        size_t length = 0, distance = 0;
        for (size_t d = 1; d <= at && d <= 600 && length < 3; d++)
            for (distance = d, length = 0;
                 length < 9 && at + length < bytes &&
                 in[at + length - d] == in[at + length];)
                length++;
        if (length >= 3 || at == bytes || at - start == 32) {
            if (at > start) {
                spc__buf_append(out, (char[1]){(char)(at - start - 1)}, 1);
                spc__buf_append(out, in + start, at - start);
            }
            start = at;
            if (at == bytes)
                return;
        }
        if (length < 3) {
            at++;
            continue;
        }
        unsigned char long_code = length - 2 >= 7;
        unsigned char first =
            (unsigned char)((long_code ? 7 : length - 2) << 5 |
                            (distance - 1) >> 8);
        spc__buf_append(out, &first, 1);
        if (long_code)
            spc__buf_append(out, (char[1]){(char)(length - 2 - 7)}, 1);
        spc__buf_append(out, (char[1]){(char)((distance - 1) & 255)}, 1);
        at += length;
        start = at;
    }
}

static const struct pcd_case {
    const char *data;
    bool wide;  /* x, y and z are doubles */
    bool extra; /* with padding and a field of three numbers */
} pcd_cases[] = {
    {"ascii", false, false},
    {"ascii", true, true},
    {"binary", false, false},
    {"binary", true, true},
    {"binary_compressed", false, false},
    {"binary_compressed", true, true},
};

/* Writes the fields: name, type, count. Names of one letter are x, y, z and
 * i. */
typedef struct field {
    const char *name;
    spc__cell cell;
    int count;
} field;

static int fields_of(field out[8], const struct pcd_case *c)
{
    spc__cell cell = c->wide ? SPC__CELL_F64 : SPC__CELL_F32;
    int n = 0;

    if (c->extra)
        out[n++] = (field){"_", SPC__CELL_U8, 3};
    out[n++] = (field){"x", cell, 1};
    if (c->extra)
        out[n++] = (field){"Z", cell, 1};
    out[n++] = (field){"y", cell, 1};
    if (!c->extra)
        out[n++] = (field){"z", cell, 1};
    out[n++] =
        (field){"intensity", c->extra ? SPC__CELL_U16 : SPC__CELL_F32, 1};
    if (c->extra)
        out[n++] = (field){"normal", SPC__CELL_I16, 3};
    return n;
}

static double value_of(const field *f, int point, int number)
{
    double at[COLUMNS];

    point_at(at, point);
    return f->name[0] == 'x'          ? at[0]
           : f->name[0] == 'y'        ? at[1]
           : (f->name[0] | 32) == 'z' ? at[2]
           : f->name[0] == 'i'        ? at[3]
                                      : number;
}

static void put_header(spc__buf *out, const field *fields, int n,
                       const char *data)
{
    spc__buf_printf(out, "# .PCD v0.7 - by a test\nVERSION 0.7\nFIELDS");
    for (int f = 0; f < n; f++)
        spc__buf_printf(out, " %s", fields[f].name);
    spc__buf_printf(out, "\nSIZE");
    for (int f = 0; f < n; f++)
        spc__buf_printf(out, " %d", spc__cell_bytes(fields[f].cell));
    spc__buf_printf(out, "\nTYPE");
    for (int f = 0; f < n; f++)
        spc__buf_printf(out, " %c",
                        fields[f].cell == SPC__CELL_F32 ||
                                fields[f].cell == SPC__CELL_F64
                            ? 'F'
                        : fields[f].cell == SPC__CELL_I16 ? 'I'
                                                          : 'U');
    spc__buf_printf(out, "\nCOUNT");
    for (int f = 0; f < n; f++)
        spc__buf_printf(out, " %d", fields[f].count);
    spc__buf_printf(out,
                    "\nWIDTH %d\nHEIGHT 2\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS "
                    "%d\nDATA %s\n",
                    POINTS / 2, POINTS, data);
}

static void put_by_field(spc__buf *out, const field *fields, int n)
{
    spc__buf raw = SPC__BUF_INIT, packed = SPC__BUF_INIT;

    for (int f = 0; f < n; f++)
        for (int i = 0; i < POINTS; i++)
            for (int k = 0; k < fields[f].count; k++)
                put(&raw, fields[f].cell, value_of(&fields[f], i, k), false);
    compress_lzf(&packed, (const unsigned char *)raw.data, raw.length);
    put(out, SPC__CELL_U32, (double)packed.length, false);
    put(out, SPC__CELL_U32, (double)raw.length, false);
    spc__buf_append(out, packed.data, packed.length);
    ck_assert_int_lt(packed.length, raw.length / 2);
    spc__buf_release(&raw);
    spc__buf_release(&packed);
}

static void put_pcd(spc__buf *out, const struct pcd_case *c)
{
    field fields[8];
    int n = fields_of(fields, c);

    put_header(out, fields, n, c->data);
    if (strcmp(c->data, "binary_compressed") == 0) {
        put_by_field(out, fields, n);
        return;
    }
    for (int i = 0; i < POINTS; i++) {
        for (int f = 0; f < n; f++)
            for (int k = 0; k < fields[f].count; k++)
                if (c->data[0] == 'a')
                    spc__buf_printf(out, "%s%.17g", f + k > 0 ? " " : "",
                                    value_of(&fields[f], i, k));
                else
                    put(out, fields[f].cell, value_of(&fields[f], i, k), false);
        if (c->data[0] == 'a')
            spc__buf_append(out, "\n", 1);
    }
}

/* The layout follows the LAS specification 1.4. */
static const int record_bytes[] = {20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67};

static void set(spc__buf *file, size_t at, spc__cell type, double value)
{
    spc__buf cell = SPC__BUF_INIT;

    put(&cell, type, value, false);
    memcpy(file->data + at, cell.data, cell.length);
    spc__buf_release(&cell);
}

/* `extra` bytes follow each record, and a gap precedes the first record. */
static void put_las(spc__buf *out, int minor, int format, int extra)
{
    static const double scale[3] = {0.25, 0.5, 0.125}, offset[3] = {1, -4, 0};
    int header = minor == 4 ? 375 : minor == 3 ? 235 : 227;
    int bytes = record_bytes[format] + extra;
    size_t first = (size_t)header + 10;
    char zeros[512] = {0};

    spc__buf_append(out, zeros, first);
    memcpy(out->data, "LASF", 4);
    set(out, 24, SPC__CELL_U8, 1);
    set(out, 25, SPC__CELL_U8, minor);
    set(out, 94, SPC__CELL_U16, header);
    set(out, 96, SPC__CELL_U32, (double)first);
    set(out, 104, SPC__CELL_U8, format);
    set(out, 105, SPC__CELL_U16, bytes);
    set(out, 107, SPC__CELL_U32, format < 6 ? POINTS : 0);
    for (int a = 0; a < 3; a++) {
        set(out, 131 + 8 * (size_t)a, SPC__CELL_F64, scale[a]);
        set(out, 155 + 8 * (size_t)a, SPC__CELL_F64, offset[a]);
    }
    if (minor == 4)
        set(out, 247, SPC__CELL_U64, POINTS);
    for (int i = 0; i < POINTS; i++) {
        double at[COLUMNS];
        size_t point = out->length;
        point_at(at, i);
        spc__buf_append(out, zeros, (size_t)bytes);
        for (int a = 0; a < 3; a++)
            set(out, point + 4 * (size_t)a, SPC__CELL_I32,
                (at[a] - offset[a]) / scale[a]);
        set(out, point + 12, SPC__CELL_U16, at[3]);
        set(out, point + 14, SPC__CELL_U8, format < 6 ? 2 + 5 * 8 : 2 + 5 * 16);
        set(out, point + (format < 6 ? 15 : 16), SPC__CELL_U8, 9);
        if (format >= 6 || (format % 2 == 1 || format == 4))
            set(out, point + (format < 6 ? 20 : 22), SPC__CELL_F64, 77.5);
    }
}

static void put_ply(spc__buf *out, bool big, bool ascii)
{
    /* A second x is an ordinary column. */
    spc__buf_printf(out,
                    "ply\nformat %s 1.0\nelement vertex %d\n"
                    "property double X\nproperty float y\nproperty float z\n"
                    "property uchar intensity\nproperty list uchar int a\n"
                    "property short x\nend_header\n",
                    ascii ? "ascii"
                    : big ? "binary_big_endian"
                          : "binary_little_endian",
                    POINTS);
    for (int i = 0; i < POINTS; i++) {
        double at[COLUMNS];
        point_at(at, i);
        if (ascii) {
            spc__buf_printf(out, "%g %g %g %g 2 5 6 9\n", at[0], at[1], at[2],
                            at[3]);
            continue;
        }
        put(out, SPC__CELL_F64, at[0], big);
        put(out, SPC__CELL_F32, at[1], big);
        put(out, SPC__CELL_F32, at[2], big);
        put(out, SPC__CELL_U8, at[3], big);
        put(out, SPC__CELL_U8, 1, big);
        put(out, SPC__CELL_I32, 12345, big);
        put(out, SPC__CELL_I16, 9, big);
    }
}

static const struct text_case {
    const char *name, *start, *order, *gap, *end, *words;
} text_cases[] = {
    {"a.xyz", "", "xyzi", " ", "\n", ""},
    {"a.txt", "# points of a test\n\n", "xyzi", "\t", "\r\n", ""},
    {"a.csv", "x,y,z,intensity\n", "xyzi", ",", "\n", ""},
    {"a.csv", "\"Z\";\"intensity\";\"X\";\"Y\"\n", "zixy", ";", "\n", ""},
    {"a.txt", "//Intensity X Y Z\n", "ixyz", " ", "\n", ""},
    {"a.txt", "# not a name\n", "yxzi", "  ", "\n", ",columns=yxzi"},
    {"a.XYZ", "", "xyzi", " , ", "\n", ""},
};

static void put_text(spc__buf *out, const struct text_case *c)
{
    spc__buf_printf(out, "%s", c->start);
    for (int i = 0; i < POINTS; i++) {
        double at[COLUMNS];
        point_at(at, i);
        for (int k = 0; k < COLUMNS; k++)
            spc__buf_printf(out, "%s%g", k > 0 ? c->gap : "",
                            at[strchr("xyzi", c->order[k]) - "xyzi"]);
        /* The last line may lack its line end. */
        if (i < POINTS - 1)
            spc__buf_printf(out, "%s", c->end);
    }
}

/* ---- every form ---------------------------------------------------------- */

START_TEST(every_form_of_pcd_is_read)
{
    spc__buf file = SPC__BUF_INIT;

    put_pcd(&file, &pcd_cases[_i]);
    assert_points(write_file("a.pcd", &file, ""), SIZES);
    use_decimal_comma();
    assert_points(write_file("a.pcd", &file, ""), SIZES);
    spc__buf_release(&file);
}
END_TEST

START_TEST(old_pcd_headers_are_read)
{
    static const char text[] = "COLUMNS x y z\nPOINTS 2\nDATA ascii\n"
                               "1 2 3\n\n4 5 6\n";
    spc__buf file = SPC__BUF_INIT;
    spc_scene *scene;

    spc__buf_append(&file, text, sizeof(text) - 1);
    assert_ok(spc_scene_load(&scene, write_file("o.pcd", &file, "@1"), &error));
    ck_assert_int_eq(spc_scene_rows(scene), 2);
    spc_scene_free(scene);
    spc__buf_release(&file);
}
END_TEST

START_TEST(every_point_format_of_las_is_read)
{
    spc__buf file = SPC__BUF_INIT;
    int format = _i % 11, minor = format >= 6 ? 4 : _i / 11 % 5;
    static const int columns[] = {7, 8, 10, 11, 8, 11, 8, 11, 12, 8, 12};
    spc_point_rows got;

    put_las(&file, minor, format, _i % 3);
    const char *spec = write_file("a.las", &file, "");
    assert_points(spec, SIZES);
    assert_ok(spc_point_rows_load(&got, spec, columns[format], &error));
    ck_assert_int_eq(got.found, columns[format]);
    ck_assert_float_eq(got.values[4], 2);
    ck_assert_float_eq(got.values[5], 5);
    ck_assert_float_eq(got.values[6], 9);
    if (columns[format] % 10 != 0 && columns[format] > 7)
        ck_assert_float_eq(got.values[7], 77.5f);
    spc_point_rows_release(&got);
    /* Uncompressed points are also read from files with the other ending. */
    assert_points(write_file("a.laz", &file, ""), SIZES);
    spc__buf_release(&file);
}
END_TEST

START_TEST(every_form_of_ply_is_read)
{
    spc__buf file = SPC__BUF_INIT;

    put_ply(&file, _i == 1, _i == 2);
    assert_points(write_file("a.ply", &file, ""), SIZES);
    spc__buf_release(&file);
}
END_TEST

START_TEST(every_form_of_text_is_read)
{
    const struct text_case *c = &text_cases[_i];
    spc__buf file = SPC__BUF_INIT;
    char spec[600], sizes[64];

    put_text(&file, c);
    snprintf(spec, sizeof(spec), "%s", write_file(c->name, &file, ""));
    if (c->words[0] == '\0') {
        assert_points(spec, SIZES);
    } else {
        spc_scene *scene;
        snprintf(sizes, sizeof(sizes), "%s%s", SIZES, c->words);
        assert_ok(
            spc_scene_load(&scene, write_file(c->name, &file, sizes), &error));
        spc_scene_free(scene);
        spc_point_rows got;
        assert_ok(spc_point_rows_load(
            &got, write_file(c->name, &file, c->words), 4, &error));
        double at[COLUMNS];
        point_at(at, 99);
        for (int k = 0; k < COLUMNS; k++)
            ck_assert_float_eq(got.values[99 * COLUMNS + k], (float)at[k]);
        spc_point_rows_release(&got);
    }
    spc__buf_release(&file);
}
END_TEST

/* ---- the same rules for all formats -------------------------------------- */

START_TEST(no_numbers_are_left_out_and_counted_in_every_format)
{
    static const char *const names[] = {"n.xyz", "n.pcd", "n.ply"};
    static const char *const starts[] = {
        "", "FIELDS x y z\nPOINTS 4\nDATA ascii\n",
        "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\n"
        "property float y\nproperty float z\nend_header\n"};
    spc__buf file = SPC__BUF_INIT;
    spc_scene *scene;
    spc_scene_info info;

    spc__buf_printf(&file, "%s1 2 3\nnan 2 3\n1 inf 3\n1 2 -NaN\n", starts[_i]);
    assert_ok(
        spc_scene_load(&scene, write_file(names[_i], &file, "@1"), &error));
    spc_scene_describe(&info, scene);
    ck_assert_int_eq(info.points, 4);
    ck_assert_int_eq(info.bad, 3);
    ck_assert_int_eq(info.first_bad, 1);
    ck_assert_int_eq(spc_scene_rows(scene), 1);
    spc_scene_free(scene);
    spc__buf_release(&file);
}
END_TEST

#define PCD "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\n"

static const struct bad_text {
    const char *name, *text, *suffix;
    spc_status status;
    const char *said;
} bad_texts[] = {
    {"b.xyz", "1 2 3\n4 5\n", "@1", SPC_EFORMAT,
     "line 2 has 2 numbers; a row has 3"},
    {"b.xyz", "1 2\n", "@1", SPC_EFORMAT, "line 1 has 2 numbers; expected 3"},
    {"b.xyz", "1 2 3\n4 5 x\n", "@1", SPC_EFORMAT, "'x' in line 2"},
    {"b.xyz", "#\n\n", "@1", SPC_EFORMAT, "no line of it is a row"},
    {"b.xyz", "a b c\n1 2 3\n", "@1", SPC_EFORMAT, "neither numbers nor"},
    {"b.xyz", "x y x z\n1 2 3 4\n", "@1", SPC_EFORMAT, "neither numbers nor"},
    {"b.xyz", "1 2 3\n", "@1,columns=4", SPC_EINVAL, "columns= states 4"},
    {"b.xyz", "1 2 3\n", "", SPC_EINVAL, "needs a voxel size"},
    {"b.pcd", "PCD\n", "@1", SPC_EFORMAT, "line 1 of the header begins"},
    {"b.pcd", "VERSION 0.7\n", "@1", SPC_EFORMAT, "has no line 'DATA'"},
    {"b.pcd", PCD "WIDTH 2\nHEIGHT 1\nPOINTS 3\nDATA ascii\n1 2 3\n", "@1",
     SPC_EFORMAT, "3 POINTS, but a WIDTH of 2 and a HEIGHT of 1"},
    {"b.pcd", PCD "POINTS 3\nDATA ascii\n1 2 3\n4 5 6\n", "@1", SPC_EFORMAT,
     "ends after 2 of them"},
    {"b.pcd", PCD "POINTS 1\nDATA ascii\n1 2 3\n4 5 6\n", "@1", SPC_EFORMAT,
     "has one more"},
    {"b.pcd", PCD "POINTS 1\nDATA ascii\n1 2 3 4\n", "@1", SPC_EFORMAT,
     "line 7 has 4 numbers; a row has 3"},
    {"b.pcd", PCD "POINTS 9\nDATA binary\n123456789012345678901234567890", "@1",
     SPC_EFORMAT, "ends after 2 of them"},
    {"b.pcd", PCD "POINTS 9\nDATA binary_compressed\n1234", "@1", SPC_EFORMAT,
     "ends after 0"},
    {"b.pcd", PCD "POINTS 9\nDATA binary_compressed\n12345678", "@1",
     SPC_EFORMAT, "are stated to hold"},
    {"b.pcd", PCD "POINTS 99999999999\nDATA binary\n", "@1", SPC_ECAPACITY,
     "more than 2^31 - 1"},
    {"b.pcd", PCD "WIDTH 99999\nHEIGHT 99999\nDATA binary\n", "@1",
     SPC_ECAPACITY, "9999800001 points"},
    {"b.pcd", PCD "DATA ascii\n", "@1", SPC_EFORMAT, "without WIDTH"},
    {"b.pcd", PCD "POINTS 1\nDATA zip\n", "@1", SPC_EFORMAT,
     "unknown form of data"},
    {"b.pcd", "FIELDS x y\nPOINTS 1\nDATA ascii\n1 2\n", "@1", SPC_EFORMAT,
     "without fields x, y and z"},
    {"b.pcd", "FIELDS x y z\nSIZE 4 4 3\nPOINTS 1\nDATA ascii\n", "@1",
     SPC_EFORMAT, "the field 'z' has 3 bytes of type F"},
    {"b.pcd", "FIELDS x y z\nCOUNT 1 1 2\nPOINTS 1\nDATA ascii\n", "@1",
     SPC_EFORMAT, "several numbers for x, y or z"},
    {"b.pcd", PCD "POINTS 1\nDATA ascii\n1 2 3\n", "@1,columns=4", SPC_EINVAL,
     "names its columns itself"},
    {"b.las", "LAS", "@1", SPC_EFORMAT, "does not begin with 'LASF'"},
    {"b.las", "LASF", "@1", SPC_EFORMAT, "ends inside its header"},
    {"b.pcd", "", "@1", SPC_EFORMAT, "the file is empty"},
};

static void assert_refused(const char *spec, spc_status status,
                           const char *said)
{
    spc_scene *scene = NULL;
    spc_status got = spc_scene_load(&scene, spec, &error);

    ck_assert_msg(got == status, "%s: %s, not %s: %s", spec,
                  spc_status_name(got), spc_status_name(status), error.text);
    ck_assert_ptr_null(scene);
    ck_assert_msg(strstr(error.text, said) != NULL, "'%s' lacks '%s'",
                  error.text, said);
}

START_TEST(a_bad_text_is_refused_in_one_sentence)
{
    const struct bad_text *c = &bad_texts[_i];
    spc__buf file = SPC__BUF_INIT;

    spc__buf_append(&file, c->text, strlen(c->text));
    assert_refused(write_file(c->name, &file, c->suffix), c->status, c->said);
    spc__buf_release(&file);
}
END_TEST

static const struct bad_las {
    size_t at;
    spc__cell cell;
    double value;
    spc_status status;
    const char *said;
} bad_las[] = {
    {24, SPC__CELL_U8, 2, SPC_EUNSUPPORTED, "version 2.2"},
    {25, SPC__CELL_U8, 5, SPC_EUNSUPPORTED, "version 1.5"},
    {94, SPC__CELL_U16, 226, SPC_EFORMAT, "stated to have 226 bytes"},
    {94, SPC__CELL_U16, 60000, SPC_EFORMAT, "stated to have 60000 bytes"},
    {96, SPC__CELL_U32, 0, SPC_EFORMAT, "from byte 0 on"},
    {96, SPC__CELL_U32, 4e9, SPC_EFORMAT, "from byte 4000000000 on"},
    {104, SPC__CELL_U8, 11, SPC_EUNSUPPORTED, "format 11"},
    {104, SPC__CELL_U8, 130,
#ifdef SPC_WITH_LASZIP
     SPC_EFORMAT, "laszip"},
#else
     SPC_EUNSUPPORTED, "built without laszip"},
#endif
    {105, SPC__CELL_U16, 25, SPC_EFORMAT, "have at least 26"},
    {107, SPC__CELL_U32, POINTS + 1, SPC_EFORMAT, "announces 301 points"},
    {107, SPC__CELL_U32, 4e9, SPC_ECAPACITY, "announces 4000000000 points"},
    {131, SPC__CELL_F64, 0, SPC_EFORMAT, "the scale of x is 0"},
    {163, SPC__CELL_F64, INFINITY, SPC_EFORMAT, "offset inf"},
    {147, SPC__CELL_F64, NAN, SPC_EFORMAT, "the scale of z is"},
};

START_TEST(a_bad_las_header_is_refused_in_one_sentence)
{
    const struct bad_las *c = &bad_las[_i];
    spc__buf file = SPC__BUF_INIT;

    put_las(&file, 2, 2, 0);
    set(&file, c->at, c->cell, c->value);
    assert_refused(write_file("b.las", &file, "@1"), c->status, c->said);
    spc__buf_release(&file);
}
END_TEST

/* ---- cuts and flips ------------------------------------------------------ */

typedef struct counter {
    spc__rows rows;
    int64_t announced, taken;
    double sum;
    int columns;
} counter;

static spc_status begin_count(spc__rows *to, int64_t rows,
                              const spc__columns *columns, bool whole,
                              spc_error *unused)
{
    counter *c = (counter *)to;

    (void)whole, (void)unused;
    c->announced = rows;
    c->columns = columns->count;
    ck_assert(columns->count >= 3 && columns->count <= SPC__COLUMNS_MOST);
    return SPC_OK;
}

static spc_status take_count(spc__rows *to, const double *numbers,
                             const spc__source_position *place,
                             spc_error *unused)
{
    counter *c = (counter *)to;

    (void)place, (void)unused;
    ck_assert_int_lt(c->taken++, c->announced);
    for (int i = 0; i < c->columns; i++)
        c->sum += numbers[i];
    return SPC_OK;
}

/* Reads a copy of exactly this size, so that a sanitizer detects every access
 * beyond it. Returns the number of points, or -1 if the reader refused the
 * copy. */
static int64_t read_copy(spc__scene_reader read, const char *data, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    counter to = {{begin_count, take_count}, 0, 0, 0, 0};

    memcpy(copy, data, bytes);
    copy[bytes] = '\0'; /* like a file that was read */
    spc__scene_file file = {"cut", copy, bytes, {0, {0}}, {4, 0}};
    memset(&error, 0, sizeof(error));
    spc_status status = read(&to.rows, &file, &error);
    ck_assert(status == SPC_OK ||
              (error.status == status && error.text[0] != '\0'));
    free(copy);
    if (status == SPC_OK)
        ck_assert_int_eq(to.taken, to.announced);
    return status == SPC_OK ? to.taken : -1;
}

enum { SAMPLES = 17 };

/* Makes a file of each kind. Returns its reader. */
static spc__scene_reader put_sample(spc__buf *out, int i)
{
    if (i < LENGTH(pcd_cases))
        return put_pcd(out, &pcd_cases[i]), spc__scene_read_pcd;
    if (i < 10)
        return put_las(out, i - 5, i == 9 ? 8 : i - 5, i % 2),
               spc__scene_read_las;
    if (i < 13)
        return put_ply(out, i == 10, i == 12), spc__scene_read_ply;
    return put_text(out, &text_cases[i - 13]), spc__scene_read_text;
}

/* A cut file must not be read as the whole file. In text, the last line or
 * number may be cut short unnoticed. */
START_TEST(a_file_cut_anywhere_is_refused)
{
    spc__buf file = SPC__BUF_INIT;
    spc__scene_reader read = put_sample(&file, _i);
    bool is_text = _i < 2 || _i >= 12;

    ck_assert_int_eq(read_copy(read, file.data, file.length), POINTS);
    for (size_t bytes = 0; bytes < file.length;
         bytes += bytes < 500 || bytes + 60 > file.length ? 1 : 397) {
        int64_t points = read_copy(read, file.data, bytes);
        ck_assert_msg(points < POINTS || (is_text && bytes + 4 > file.length),
                      "sample %d cut at byte %zu of %zu has %lld points", _i,
                      bytes, file.length, (long long)points);
        /* Text files have no count of points. */
        ck_assert(points == -1 || _i >= 13 || bytes + 4 > file.length);
    }
    spc__buf_release(&file);
}
END_TEST

START_TEST(a_file_with_flipped_bits_is_read_or_refused)
{
    spc__buf file = SPC__BUF_INIT;
    spc__scene_reader read = put_sample(&file, _i);

    for (size_t at = 0; at < file.length; at += at < 450 ? 1 : 397)
        for (int bit = 0; bit < 9; bit++) {
            char was = file.data[at];
            file.data[at] = (char)(bit < 8 ? was ^ 1 << bit : ~was);
            read_copy(read, file.data, file.length);
            file.data[at] = was;
        }
    spc__buf_release(&file);
}
END_TEST

START_TEST(mutated_files_are_read_or_refused)
{
    spc__buf file = SPC__BUF_INIT;
    spc__scene_reader read = put_sample(&file, _i);
    size_t room = file.length + 256;
    char *data = malloc(room);
    spc__random random;

    spc__random_init(&random, suite_seed(NULL) + (uint64_t)_i);
    for (int i = 0; i < 250; i++) {
        memcpy(data, file.data, file.length);
        size_t bytes = mutate(data, file.length, room, &random);
        read_copy(read, data, bytes);
    }
    free(data);
    spc__buf_release(&file);
}
END_TEST

/* ---- LZF ----------------------------------------------------------------- */

START_TEST(lzf_is_decompressed_to_exactly_its_size)
{
    /* "abc", then 12 bytes from 3 back, then "z". */
    static const char in[] = "\2abc\xe0\3\2\0z";
    char out[17] = "................";

    ck_assert(spc__lzf_decompress(out, 16, in, sizeof(in) - 1));
    ck_assert_mem_eq(out, "abcabcabcabcabcz", 16);
    ck_assert(!spc__lzf_decompress(out, 15, in, sizeof(in) - 1));
    ck_assert(!spc__lzf_decompress(out, 17, in, sizeof(in) - 1));
    ck_assert(!spc__lzf_decompress(out, 3, "\x20\0", 2)); /* before the start */
    ck_assert(!spc__lzf_decompress(out, 3, "\xe0", 1));
    ck_assert(!spc__lzf_decompress(out, 3, "\x20", 1));
    ck_assert(spc__lzf_decompress(out, 0, "", 0));
    for (size_t cut = 0; cut < sizeof(in) - 1; cut++)
        ck_assert(!spc__lzf_decompress(out, 16, in, cut));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("point files");
    TCase *all = tcase_create("files");

    tcase_add_checked_fixture(all, make_folder, remove_folder);
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, every_form_of_pcd_is_read, 0, LENGTH(pcd_cases));
    tcase_add_test(all, old_pcd_headers_are_read);
    tcase_add_loop_test(all, every_point_format_of_las_is_read, 0, 55);
    tcase_add_loop_test(all, every_form_of_ply_is_read, 0, 3);
    tcase_add_loop_test(all, every_form_of_text_is_read, 0, LENGTH(text_cases));
    tcase_add_loop_test(
        all, no_numbers_are_left_out_and_counted_in_every_format, 0, 3);
    tcase_add_loop_test(all, a_bad_text_is_refused_in_one_sentence, 0,
                        LENGTH(bad_texts));
    tcase_add_loop_test(all, a_bad_las_header_is_refused_in_one_sentence, 0,
                        LENGTH(bad_las));
    tcase_add_loop_test(all, a_file_cut_anywhere_is_refused, 0, SAMPLES);
    tcase_add_loop_test(all, a_file_with_flipped_bits_is_read_or_refused, 0,
                        SAMPLES);
    tcase_add_loop_test(all, mutated_files_are_read_or_refused, 0, SAMPLES);
    tcase_add_test(all, lzf_is_decompressed_to_exactly_its_size);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
