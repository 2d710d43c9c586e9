/* SPDX-License-Identifier: Apache-2.0 */
/* test_scene.c - scene files, generators, and errors for bad ones. */
#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "base/sha256.h"
#include "harness/comma_locale.h"
#include "harness/folder_harness.h"
#include "harness/mutate.h"
#include "harness/suite.h"
#include "lab/scene/scene.h"
#include "spc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static spc_error error;

#define LENGTH(array) ((int)(sizeof(array) / sizeof(*(array))))

#define assert_ok(call)                                                        \
    ck_assert_msg((call) == SPC_OK, "%s: %s", #call, error.text)

static void assert_rows(const char *spec, const int32_t (*rows)[4], int count)
{
    spc_scene *scene;
    assert_ok(spc_scene_load(&scene, spec, &error));
    ck_assert_int_eq(spc_scene_rows(scene), count);
    if (count > 0)
        ck_assert_mem_eq(spc_scene_coords(scene), rows,
                         (size_t)count * sizeof(*rows));
    ck_assert_str_eq(spc_scene_name(scene), spec);
    spc_scene_free(scene);
}

#define TEXT(text) text, sizeof(text) - 1
#define ROW16 "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define V1(length) "\x93NUMPY\1\0" length "\0"
#define PLY(body) "ply\nformat ascii 1.0\n" body
#define XYZ "property float x\nproperty float y\nproperty float z\n"

/* ---- files --------------------------------------------------------------- */

static const int32_t two_voxels[][4] = {{0, -1, 0, 2}, {0, 0, -3, 1}};

START_TEST(kitti_rows_are_floored_ordered_and_merged)
{
    static const float rows[][4] = {
        {0.05f, -0.25f, 0.1f, 0.5f},
        {-0.01f, 0.05f, 0.25f, 0.1f},
        {0.0f, -0.21f, 0.19f, 0.9f},
    };
    assert_rows(write_at("a.bin", rows, sizeof(rows), "@0.1"), two_voxels, 2);
}
END_TEST

START_TEST(one_point_is_a_scene)
{
    static const float row[4] = {1, 2, 3, 4};
    static const int32_t voxel[][4] = {{0, 1, 2, 3}};
    assert_rows(write_at("one.bin", row, sizeof(row), "@1"), voxel, 1);
}
END_TEST

/* Writes a .npy file of format version `version`. */
static const char *write_npy(int version, const char *header, const void *data,
                             size_t bytes, const char *suffix)
{
    spc__buf file = SPC__BUF_INIT;
    size_t length = strlen(header);
    char sizes[4] = {(char)(length & 255), (char)(length >> 8), 0, 0};

    spc__buf_append(&file, "\x93NUMPY", 6);
    spc__buf_append(&file, (char[2]){(char)version, 0}, 2);
    spc__buf_append(&file, sizes, version == 1 ? 2 : 4);
    spc__buf_append(&file, header, length);
    spc__buf_append(&file, data, bytes);
    const char *spec = write_at("a.npy", file.data, file.length, suffix);
    spc__buf_release(&file);
    return spec;
}

static const struct npy_case {
    int version;
    const char *descr;
    const char *order;
    const char *suffix;
    int columns;
} npy_cases[] = {
    {1, "<f4", "False", "@0.5", 3}, {2, "<f8", "False", "@0.5", 3},
    {3, "<f4", "True", "@0.5", 4},  {1, ">f4", "False", "@0.5", 3},
    {1, ">f8", "True", "@0.5", 4},  {1, "|i1", "False", "", 3},
    {1, "<i2", "False", "", 4},     {2, "<i4", "True", "", 3},
    {1, "<i8", "False", "", 4},     {1, ">i8", "True", "", 4},
    {1, ">i2", "False", "", 3},     {1, "<f2", "False", "@0.5", 3},
    {1, ">f2", "True", "@0.5", 4},
};

/* Appends `value` in the element type. */
static void put(spc__buf *out, const char *descr, double value)
{
    int bytes = descr[2] - '0';
    char raw[8], *at = raw;
    float narrow = (float)value;
    uint16_t half = spc__half_from_float(narrow);
    int64_t integer = (int64_t)value;

    if (descr[1] == 'i')
        memcpy(raw, &integer, 8);
    else if (bytes == 2)
        memcpy(raw, &half, 2);
    else if (bytes == 4)
        memcpy(raw, &narrow, 4);
    else
        memcpy(raw, &value, 8);
    for (int i = 0; i < bytes; i++)
        spc__buf_append(out, at + (descr[0] == '>' ? bytes - 1 - i : i), 1);
}

START_TEST(numpy_arrays_of_every_kind_give_the_same_voxels)
{
    const struct npy_case *c = &npy_cases[_i];
    static const int32_t points[3][4] = {
        {0, 0, -3, 1}, {0, -1, 0, 2}, {0, 0, -3, 1}};
    bool integers = c->descr[1] == 'i', fortran = c->order[0] == 'T';
    int skip = integers ? 4 - c->columns : 1;
    spc__buf data = SPC__BUF_INIT;
    char header[128];

    for (int i = 0; i < 3 * c->columns; i++) {
        int row = fortran ? i % 3 : i / c->columns;
        int column = fortran ? i / 3 : i % c->columns;
        double value = column + skip < 4 ? points[row][column + skip] : 9;
        put(&data, c->descr, integers ? value : value * 0.5 + 0.25);
    }
    snprintf(header, sizeof(header),
             "{'descr': '%s', 'fortran_order': %s, 'shape': (3, %d), }\n",
             c->descr, c->order, c->columns);
    assert_rows(
        write_npy(c->version, header, data.data, data.length, c->suffix),
        two_voxels, 2);
    spc__buf_release(&data);
}
END_TEST

START_TEST(an_array_of_no_rows_is_an_empty_scene)
{
    assert_rows(write_npy(1,
                          "{'descr': '<i4', 'fortran_order': False, 'shape': "
                          "(0, 3), }\n",
                          "", 0, ""),
                NULL, 0);
}
END_TEST

START_TEST(batches_of_an_array_are_kept_apart)
{
    static const int16_t data[][4] = {{1, 0, 0, 0}, {0, 5, 0, 0}, {0, 0, 0, 0}};
    static const int32_t rows[][4] = {{0, 0, 0, 0}, {0, 5, 0, 0}, {1, 0, 0, 0}};
    assert_rows(write_npy(1,
                          "{'descr': '<i2', 'fortran_order': False, 'shape': "
                          "(3, 4), }\n",
                          data, sizeof(data), ""),
                rows, 3);
}
END_TEST

START_TEST(extreme_voxels_are_ordered_without_a_packed_key)
{
    static const int32_t data[][4] = {{INT32_MAX, INT32_MAX, 0, 0},
                                      {0, INT32_MIN, 0, 0},
                                      {INT32_MAX, INT32_MAX, 0, 0},
                                      {0, INT32_MAX, INT32_MIN, INT32_MAX}};
    static const int32_t rows[][4] = {{0, INT32_MIN, 0, 0},
                                      {0, INT32_MAX, INT32_MIN, INT32_MAX},
                                      {INT32_MAX, INT32_MAX, 0, 0}};
    assert_rows(write_npy(1,
                          "{'descr': '<i4', 'fortran_order': False, 'shape': "
                          "(4, 4), }\n",
                          data, sizeof(data), ""),
                rows, 3);
}
END_TEST

static const char ascii_ply[] =
    "ply\nformat ascii 1.0\ncomment by hand\nelement camera 1\n"
    "property float view\nproperty list uchar int marks\n"
    "element vertex 3\nproperty uchar red\nproperty float x\n"
    "property double y\nproperty list uchar short tags\nproperty float z\n"
    "element face 1\nproperty list uchar int vertex_indices\nend_header\n"
    "1.5 3 7 8 9\n"
    "255 0.05 -0.25 2 1 2 0.1\n"
    "0 -1e-2 0.05 0 0.25\n"
    "0 0.0 -0.21 1 5 0.19\n"
    "3 0 1 2\n";

START_TEST(ascii_ply_is_read_around_other_elements_and_lists)
{
    assert_rows(write_at("a.ply", ascii_ply, sizeof(ascii_ply) - 1, "@0.1"),
                two_voxels, 2);
}
END_TEST

START_TEST(decimal_points_do_not_depend_on_the_locale)
{
    use_decimal_comma();
    assert_rows(write_at("a.ply", ascii_ply, sizeof(ascii_ply) - 1, "@0.1"),
                two_voxels, 2);
}
END_TEST

START_TEST(binary_ply_is_read_in_either_byte_order)
{
    bool big = _i == 1;
    const char *f4 = big ? ">f4" : "<f4", *f8 = big ? ">f8" : "<f8";
    const char *i2 = big ? ">i2" : "<i2", *i4 = big ? ">i4" : "<i4";
    static const double points[3][3] = {
        {0.05, -0.25, 0.1}, {-0.01, 0.05, 0.25}, {0, -0.21, 0.19}};
    spc__buf file = SPC__BUF_INIT;

    spc__buf_printf(&file,
                    "ply\r\nformat binary_%s_endian 1.0\r\n"
                    "element extra 1\r\nproperty list ushort int32 l\r\n"
                    "element vertex 3\r\nproperty float x\r\n"
                    "property list uchar short l\r\nproperty float64 y\r\n"
                    "property float32 z\r\nend_header\n",
                    big ? "big" : "little");
    put(&file, i2, 2);
    put(&file, i4, 1000000);
    put(&file, i4, -1);
    for (int i = 0; i < 3; i++) {
        put(&file, f4, points[i][0]);
        put(&file, "|i1", i);
        for (int j = 0; j < i; j++)
            put(&file, i2, 300);
        put(&file, f8, points[i][1]);
        put(&file, f4, points[i][2]);
    }
    assert_rows(write_at("b.ply", file.data, file.length, "@0.1"), two_voxels,
                2);
    spc__buf_release(&file);
}
END_TEST

/* ---- points of files ----------------------------------------------------- */

/* Returns 3000 points of a flat scene as [n][columns]: x, y, z, an intensity, a
 * ring, then further numbers. */
enum { DRAWN = 3000 };

static float *draw_rows(int columns, uint64_t seed)
{
    float *rows = malloc(sizeof(float) * DRAWN * (size_t)columns);
    spc__random random;

    spc__random_init(&random, seed);
    for (int i = 0; i < DRAWN; i++)
        for (int c = 0; c < columns; c++) {
            double u = spc__random_unit(&random);
            double value = c < 2    ? 100 * u - 50
                           : c == 2 ? 3 * u - 2
                           : c == 4 ? i % 32
                                    : u;
            rows[i * columns + c] = (float)value;
        }
    return rows;
}

/* Returns the voxels of x, y and z. */
static int64_t count_voxels(const float *rows, int columns, double size)
{
    int32_t(*at)[4] = calloc(DRAWN, sizeof(*at));
    spc__voxels voxels = {.at = at[0], .count = DRAWN, .capacity = DRAWN};

    for (int i = 0; i < DRAWN; i++)
        for (int a = 0; a < 3; a++)
            at[i][1 + a] = (int32_t)floor(rows[i * columns + a] / size);
    assert_ok(spc__voxels_sort(&voxels, &error));
    int64_t count = voxels.count;
    spc__voxels_release(&voxels);
    return count;
}

/* DRAWN is a multiple of 4, so the size of a file does not determine its
 * columns. */
START_TEST(raw_rows_have_as_many_numbers_as_the_specification_states)
{
    int columns = 3 + _i;
    float *rows = draw_rows(columns, 7);
    size_t bytes = sizeof(float) * DRAWN * (size_t)columns;
    char words[40];
    spc_scene *scene;

    snprintf(words, sizeof(words), "@0.5,columns=%d", columns);
    assert_ok(
        spc_scene_load(&scene, write_at("n.bin", rows, bytes, words), &error));
    ck_assert_int_eq(spc_scene_rows(scene), count_voxels(rows, columns, 0.5));
    spc_scene_free(scene);
    spc_status status =
        spc_scene_load(&scene, write_at("n.bin", rows, bytes, "@0.5"), &error);
    if (columns == 4) {
        ck_assert_int_eq(status, SPC_OK);
        ck_assert_int_eq(spc_scene_rows(scene), count_voxels(rows, 4, 0.5));
        spc_scene_free(scene);
    } else {
        snprintf(words, sizeof(words), "columns=%d or columns=4", columns);
        ck_assert_int_eq(status, SPC_EFORMAT);
        ck_assert_msg(strstr(error.text, words) != NULL, "%s", error.text);
    }
    free(rows);
}
END_TEST

START_TEST(a_size_that_four_numbers_do_not_divide_names_what_fits)
{
    float *rows = draw_rows(5, 7);

    ck_assert_int_eq(spc_scene_load(&(spc_scene *){NULL},
                                    write_at("n.bin", rows,
                                             sizeof(float) * 5 * 2999, "@0.5"),
                                    &error),
                     SPC_EFORMAT);
    ck_assert_msg(strstr(error.text, "5 a row would fit: columns=5") != NULL,
                  "%s", error.text);
    free(rows);
}
END_TEST

START_TEST(letters_say_what_the_numbers_of_a_row_are)
{
    static const float rows[][5] = {{1, 0.3f, 7, 2.5f, -0.5f},
                                    {0, 0.1f, 8, 1.5f, 3.5f}};
    static const int32_t voxels[][4] = {{0, 3, 1, 0}, {1, -1, 2, 0}};

    assert_rows(write_at("l.bin", rows, sizeof(rows), "@1,columns=bzryx"),
                voxels, 2);
    assert_rows(write_npy(1,
                          "{'descr': '<f4', 'fortran_order': False, 'shape': "
                          "(2, 5), }\n",
                          rows, sizeof(rows), "@1,columns=bzryx"),
                voxels, 2);
}
END_TEST

START_TEST(further_numbers_of_an_array_are_left_aside)
{
    static const float rows[][6] = {{0.5f, 1.5f, 2.5f, 9, 9, 9}};
    static const int16_t whole[][5] = {{7, 2, 1, 0, 3}};
    static const int32_t voxel[][4] = {{0, 0, 1, 2}},
                         other[][4] = {{3, 0, 1, 2}};

    assert_rows(write_npy(1,
                          "{'descr': '<f4', 'fortran_order': False, 'shape': "
                          "(1, 6), }\n",
                          rows, sizeof(rows), "@1"),
                voxel, 1);
    assert_rows(write_npy(1,
                          "{'descr': '<i2', 'fortran_order': False, 'shape': "
                          "(1, 5), }\n",
                          whole, sizeof(whole), ",columns=izyxb"),
                other, 1);
}
END_TEST

START_TEST(records_name_their_columns)
{
    static const char header[] =
        "{'descr': [('intensity', '|u1'), ('z', '<f4'), ('x', '<f4'), ('y', "
        "'<f4'), ('batch', '<i2')], 'fortran_order': False, 'shape': (1,), }\n";
    static const unsigned char row[] = {
        9,    0, 0, 0x20, 0x40, 0, 0, 0,
        0x3f, 0, 0, 0xc0, 0x3f, 1, 0}; /* 2.5 .5 1.5 */
    static const int32_t voxel[][4] = {{1, 0, 1, 2}};

    assert_rows(write_npy(1, header, row, sizeof(row), "@1"), voxel, 1);
}
END_TEST

START_TEST(a_voxel_may_have_another_size_along_each_axis)
{
    static const float row[4] = {1, 2, 3, 4};
    static const int32_t voxel[][4] = {{0, 10, 4, 3}};

    assert_rows(write_at("s.bin", row, sizeof(row), "@0.1,0.5,1"), voxel, 1);
    assert_rows(write_at("s.bin", row, sizeof(row), "@0.1,0.5,1,level=0"),
                voxel, 1);
}
END_TEST

START_TEST(points_that_are_no_numbers_are_left_out_and_counted)
{
    static const float rows[][4] = {{1, 2, 3, 4},
                                    {1, NAN, 3, 4},
                                    {1, 2, -INFINITY, 4},
                                    {1, 2, 3, NAN}};
    static const int32_t voxel[][4] = {{0, 1, 2, 3}};
    static const char text[] = PLY("element vertex 3\n" XYZ "end_header\n"
                                   "1 2 3\n1 nan 3\n1 1e99 3\n");
    const char *header = "{'descr': '<f4', 'fortran_order': False, 'shape': "
                         "(4, 4), }\n";
    const char *spec = _i == 0 ? write_at("n.bin", rows, sizeof(rows), "@1")
                       : _i == 1
                           ? write_npy(1, header, rows, sizeof(rows), "@1")
                           : write_at("n.ply", text, sizeof(text) - 1, "@1");
    spc_scene *scene;
    spc_scene_info info;

    assert_rows(spec, voxel, 1);
    assert_ok(spc_scene_load(&scene, spec, &error));
    spc_scene_describe(&info, scene);
    ck_assert_int_eq(info.points, _i < 2 ? 4 : 3);
    ck_assert_int_eq(info.bad, 2);
    ck_assert_int_eq(info.first_bad, 1);
    ck_assert_int_eq(info.outside, 0);
    spc_scene_free(scene);
    spc_scene_describe(&info, NULL);
    ck_assert_int_eq(info.points, 0);
}
END_TEST

START_TEST(a_file_of_no_points_is_an_empty_scene)
{
    static const float row[4] = {NAN, 2, 3, 4};

    assert_rows(write_at("e.bin", "", 0, "@1"), NULL, 0);
    assert_rows(write_at("e.bin", row, sizeof(row), "@1"), NULL, 0);
}
END_TEST

START_TEST(names_of_files_may_hold_what_specifications_do)
{
    static const float row[4] = {1, 2, 3, 4};
    static const int32_t voxel[][4] = {{0, 1, 2, 3}};
    static const char *const names[] = {
        "a@2.bin",      "SCAN.BIN",  "scan.Bin",    "s,level=1.bin",
        "s,columns=3.bin", "x.npy.bin", "gen:room.bin", "n+1 (2).bin"};

    assert_rows(write_at(names[_i], row, sizeof(row), "@1"), voxel, 1);
    assert_rows(write_at(names[_i], row, sizeof(row), "@1,columns=4"), voxel,
                1);
}
END_TEST

START_TEST(points_are_read_as_scenes_are)
{
    float *rows = draw_rows(5, 8);
    size_t bytes = sizeof(float) * DRAWN * 5;
    spc_point_rows got;

    assert_ok(spc_point_rows_load(&got, write_at("p.bin", rows, bytes, ""), 5,
                                  &error));
    ck_assert_int_eq(got.rows, DRAWN);
    ck_assert_mem_eq(got.values, rows, bytes);
    spc_point_rows_release(&got);
    /* Reads the first four of five columns. */
    assert_ok(spc_point_rows_load(
        &got, write_at("p.raw", rows, bytes, ",columns=5"), 4, &error));
    ck_assert_int_eq(got.found, 5);
    for (int i = 0; i < DRAWN; i++)
        ck_assert_mem_eq(got.values + 4 * i, rows + 5 * i, 4 * sizeof(float));
    spc_point_rows_release(&got);
    ck_assert_int_eq(spc_point_rows_load(
                         &got, write_at("p.bin", rows, bytes, ""), 4, &error),
                     SPC_EFORMAT);
    ck_assert_msg(strstr(error.text, "columns=5 or columns=4") != NULL, "%s",
                  error.text);
    ck_assert_int_eq(
        spc_point_rows_load(&got, write_at("p.bin", rows, bytes, ",columns=5"),
                            6, &error),
        SPC_EINVAL);
    ck_assert_ptr_null(got.values);
    free(rows);
}
END_TEST

START_TEST(an_at_sign_in_a_path_is_no_voxel_size)
{
    static const float row[4] = {1, 2, 3, 4};
    static const int32_t voxel[][4] = {{0, 1, 2, 3}};
    spc_scene *scene;
    const char *spec = write_at("a@2.bin", row, sizeof(row), "");
    ck_assert_int_eq(spc_scene_load(&scene, spec, &error), SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "needs a voxel size"));
    assert_rows(write_at("a@2.bin", row, sizeof(row), "@1"), voxel, 1);
}
END_TEST

/* ---- bad files ----------------------------------------------------------- */

#define NPY(descr, shape)                                                      \
    "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }\n"

typedef struct bad_file {
    const char *name;
    const char *data;
    size_t bytes;
    const char *suffix;
    spc_status status;
    const char *said;
} bad_file;

static const bad_file bad_files[] = {
    {"a.bin", TEXT(ROW16 "12345"), "@1", SPC_EFORMAT,
     "ends at byte 21 in the middle of row 1"},
    {"a.bin", TEXT(ROW16), "@1,columns=5", SPC_EFORMAT,
     "in the middle of row 0 if rows have 5"},
    {"a.bin", TEXT(ROW16), "@1,columns=2", SPC_EINVAL, "their number, 3 to 64"},
    {"a.bin", TEXT(ROW16), "@1,columns=65", SPC_EINVAL, "columns=65: expected"},
    {"a.bin", TEXT(ROW16), "@1,columns=xyyi", SPC_EINVAL,
     "columns=xyyi: expected"},
    {"a.bin", TEXT(ROW16), "@1,columns=xyi", SPC_EINVAL,
     "columns=xyi: expected"},
    {"a.bin", TEXT(ROW16), "@1,columns=xyz!", SPC_EINVAL,
     "columns=xyz!: expected"},
    {"a.bin", TEXT(ROW16), "@1,columns=4,columns=4", SPC_EINVAL,
     "'columns' is given twice"},
    {"a.bin", TEXT(ROW16), "@1,rows=4", SPC_EINVAL,
     "unknown word 'rows' (level, columns)"},
    {"a.bin", TEXT(ROW16), "@1,2", SPC_EINVAL, "two voxel sizes"},
    {"a.bin", TEXT(ROW16), "@1,1,1,1", SPC_EINVAL, "unknown word '1'"},
    {"a.bin", TEXT(ROW16), "@1,0,1", SPC_EINVAL,
     "voxel size '0': expected a number above 0"},
    {"a.bin", TEXT("\0\0\0\xbf" ROW16), "@1,columns=bxyzi", SPC_EFORMAT,
     "the batch of row 0 (byte 0) is -0.5"},
    {"a.bin", TEXT("\0\0\0\x4f\0\0\0\0\0\0\0\0\0\0\0\0"), "@0.5", SPC_ERANGE,
     "does not fit 32 bits"},
    {"a.bin", TEXT(ROW16), "", SPC_EINVAL, "needs a voxel size"},
    {"a.bin", TEXT(ROW16), "@0", SPC_EINVAL, "expected a number above 0"},
    {"a.bin", TEXT(ROW16), "@-0.05", SPC_EINVAL, "expected a number above 0"},
    {"a.bin", TEXT(ROW16), "@nan", SPC_EINVAL, "expected a number above 0"},
    {"a.bin", TEXT(ROW16), "@inf", SPC_EINVAL, "expected a number above 0"},
    {"a.bin", TEXT(ROW16), "@", SPC_EINVAL, "voxel size '': expected"},
    {"a.bin", TEXT(ROW16), "@5cm", SPC_EINVAL, "voxel size '5cm': expected"},
    {"a.bin", TEXT(ROW16), "@ 1", SPC_EINVAL, "voxel size ' 1': expected"},
    {"a.doc", TEXT(ROW16), "@1", SPC_EINVAL,
     "expected a file .bin, .npy, .ply, .pcd"},
    {"a.npy", "", 0, "@1", SPC_EFORMAT, "empty"},
    {"a.npy", TEXT("\x93NUMP"), "@1", SPC_EFORMAT, "byte 0"},
    {"a.npy", TEXT("\x93NUMPY\1\0\x10"), "@1", SPC_EFORMAT,
     "ends at byte 9 inside the header"},
    {"a.npy", TEXT("\x93NUMPY\4\0\x10\0\0\0"), "@1", SPC_EFORMAT, "version 4"},
    {"a.npy", TEXT(V1("\x7f") "{}"), "@1", SPC_EFORMAT,
     "announces a header of 127 bytes, but only 2 follow"},
    {"a.npy", TEXT(V1("\x02") "{}"), "@1", SPC_EFORMAT, "'descr'"},
    {"a.npy", TEXT(V1("\x10") "{'descr': '<f4'}"), "@1", SPC_EFORMAT,
     "'fortran_order'"},
    {"a.npy", TEXT(V1("\x3a") NPY("<f4", "(4,)") ROW16), "@1", SPC_EFORMAT,
     "it has 1 dimensions; a table has two"},
    {"a.npy", TEXT(V1("\x3c") NPY("<f4", "(0, 2)")), "@1", SPC_EFORMAT,
     "its rows have 2 numbers; expected 3 to 64"},
    {"a.npy", TEXT(V1("\x3c") NPY("<f4", "(0, 5)")), "@1,columns=xyzi",
     SPC_EINVAL, "its rows have 5 numbers, columns= states 4"},
    {"a.npy", TEXT(V1("\x3c") NPY("|i1", "(0, 5)")), "", SPC_EFORMAT,
     "a.npy,columns=bxyz and one letter more"},
    {"a.npy", TEXT(V1("\x3c") NPY("<f4", "(2, 3)") ROW16), "@1", SPC_EFORMAT,
     "16 bytes of data follow"},
    {"a.npy", TEXT(V1("\x3c") NPY("<c8", "(2, 3)")), "@1", SPC_EUNSUPPORTED,
     "complex numbers (<c8)"},
    {"a.npy", TEXT(V1("\x45") NPY("<f4", "(9999999999, 3)")), "@1", SPC_EFORMAT,
     "0 bytes of data follow"},
    {"a.npy", TEXT(V1("\x54") NPY("<f4", "(99999999999999999999999999999, 3)")),
     "@1", SPC_EFORMAT, "bytes of data follow"},
    {"a.npy", TEXT(V1("\x45") NPY("<f8", "(2147483647, 4)")), "@1", SPC_EFORMAT,
     "0 bytes of data follow"},
    {"a.npy", TEXT(V1("\x3c") NPY("|i1", "(1, 3)") "abc"), "@1", SPC_EINVAL,
     "integer voxels, which take no voxel size"},
    {"a.npy", TEXT(V1("\x3c") NPY("<f4", "(1, 3)") "123456789012"), "",
     SPC_EINVAL, "needs a voxel size"},
    {"a.npy", TEXT(V1("\x3c") NPY("|i1", "(1, 4)") "\xff\0\0\0"), "",
     SPC_EFORMAT, "batch of row 0 (byte 70) is -1"},
    {"a.npy",
     TEXT(V1("\x3c") NPY("<i8", "(1, 3)") "\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0"
                                          "\0\0\0\0\0\0\0\0"),
     "", SPC_ERANGE, "column 1 of row 0 does not fit"},
    {"a.ply", "", 0, "@1", SPC_EFORMAT, "empty"},
    {"a.ply", TEXT("plx\n"), "@1", SPC_EFORMAT, "not 'ply'"},
    {"a.ply", TEXT("ply\nformat ascii 1.0\n"), "@1", SPC_EFORMAT,
     "no line 'end_header'"},
    {"a.ply", TEXT("ply\nformat binary 1.0\n"), "@1", SPC_EFORMAT,
     "line 2 of the header names an unknown format"},
    {"a.ply", TEXT(PLY("wat\n")), "@1", SPC_EFORMAT, "unknown word"},
    {"a.ply", TEXT(PLY("property float x\n")), "@1", SPC_EFORMAT,
     "before any element"},
    {"a.ply", TEXT(PLY("element vertex -1\n")), "@1", SPC_EFORMAT, "no count"},
    {"a.ply", TEXT(PLY("element vertex 99999999999\n")), "@1", SPC_ECAPACITY,
     "at most 2^31 - 1"},
    {"a.ply", TEXT(PLY("element vertex 1\nproperty half x\n")), "@1",
     SPC_EFORMAT, "is not a property"},
    {"a.ply", TEXT(PLY("element vertex 1\nproperty list float int x\n")), "@1",
     SPC_EFORMAT, "is not a property"},
    {"a.ply", TEXT(PLY("element vertex 2147483647\nelement vertex 1\n" XYZ)),
     "@1", SPC_EFORMAT, "line 4 of the header declares the element vertex"},
    {"a.ply", TEXT("ply\nend_header\n"), "@1", SPC_EFORMAT,
     "without a 'format'"},
    {"a.ply", TEXT(PLY("element vertex 1\nproperty float x\nend_header\n1\n")),
     "@1", SPC_EFORMAT, "properties x, y and z"},
    {"a.ply", TEXT(PLY("element vertex 1000000\n" XYZ "end_header\n1 2 3\n")),
     "@1", SPC_EFORMAT, "announces 1000000 rows, but only 6 bytes"},
    {"a.ply", TEXT(PLY("element vertex 2\n" XYZ "end_header\n1 2 3\n4 5\n")),
     "@1", SPC_EFORMAT, "property 2 of row 1 of element 0"},
    {"a.ply", TEXT(PLY("element vertex 1\n" XYZ "end_header\n1 two 3\n")), "@1",
     SPC_EFORMAT, "property 1 of row 0"},
    {"a.ply", TEXT(PLY("element vertex 1\n" XYZ "end_header\n1 1 3\n")),
     "@1,columns=4", SPC_EINVAL, "names its columns itself"},
    {"a.ply", TEXT(PLY("element vertex 1\n" XYZ "end_header\n1 2 3\n")), "",
     SPC_EINVAL, "needs a voxel size"},
    {"a.ply",
     TEXT("ply\nformat binary_little_endian 1.0\nelement vertex 1\n" XYZ
          "end_header\n1234567890"),
     "@1", SPC_EFORMAT, "property 2 of row 0"},
    {"a.ply",
     TEXT("ply\nformat binary_little_endian 1.0\nelement e 1\n"
          "property list int char l\nelement vertex 1\n" XYZ
          "end_header\n\xff\xff\xff\xff 1234567890123456"),
     "@1", SPC_EFORMAT, "property 0 of row 0 of element 0"},
};

static void assert_refused(const char *spec, spc_status status,
                           const char *said)
{
    spc_scene *scene = (spc_scene *)&error;
    memset(&error, 0, sizeof(error));
    spc_status got = spc_scene_load(&scene, spec, &error);
    ck_assert_msg(got == status, "%s: %s, not %s: %s", spec,
                  spc_status_name(got), spc_status_name(status), error.text);
    ck_assert_int_eq(error.status, status);
    ck_assert_ptr_null(scene);
    ck_assert_msg(strstr(error.text, said) != NULL, "'%s' lacks '%s'",
                  error.text, said);
}

START_TEST(a_bad_file_is_refused_in_one_sentence)
{
    const bad_file *c = &bad_files[_i];
    assert_refused(write_at(c->name, c->data, c->bytes, c->suffix), c->status,
                   c->said);
}
END_TEST

START_TEST(what_is_no_file_is_refused_in_one_sentence)
{
    char spec[520], path[512];

    assert_refused("", SPC_EINVAL, "needs a specification");
    assert_refused("nothing", SPC_EINVAL, "is not a scene");
    snprintf(spec, sizeof(spec), "%s/none.bin@1", spc__buf_text(&folder));
    assert_refused(spec, SPC_ENOTFOUND, "none.bin");
    snprintf(path, sizeof(path), "%s/dir.bin", spc__buf_text(&folder));
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(spec, sizeof(spec), "%s@1", path);
    assert_refused(spec, SPC_EIO, "is a directory");
    rmdir(path);
}
END_TEST

/* Reading these files would block or take all memory. */
START_TEST(a_pipe_or_a_device_is_refused_unread)
{
    char spec[520], path[512];

    snprintf(path, sizeof(path), "%s/odd.npy", spc__buf_text(&folder));
    if (_i == 0)
        ck_assert_int_eq(mkfifo(path, 0600), 0);
    else
        ck_assert_int_eq(symlink("/dev/zero", path), 0);
    snprintf(spec, sizeof(spec), "%s@1", path);
    assert_refused(spec, SPC_EIO, "not a plain file");
    unlink(path);
}
END_TEST

START_TEST(a_file_of_too_many_points_is_refused_unread)
{
    char spec[512];
    const char *path = write_at("huge.bin", "", 0, "");
    if (truncate(path, (off_t)1 << 36) != 0)
        skip_test("a file system that holds no file of 64 GiB");
    snprintf(spec, sizeof(spec), "%s@1", path);
    assert_refused(spec, SPC_ECAPACITY, "2^31 - 1 points");
}
END_TEST

static const struct {
    const char *spec;
    const char *said;
} bad_specs[] = {
    {"gen:", "unknown generator '' (shell, lidar, room, uniform)"},
    {"gen:cube", "unknown generator 'cube' (shell"},
    {"gen:shells", "did you mean 'shell'?"},
    {"gen:shell,q=1", "gen:shell: unknown word 'q' (r)"},
    {"gen:shell,", "an empty word at position 6"},
    {"gen:shell,r", "'r' needs a value, as in r=256"},
    {"gen:shell,r=", "r=: expected 1 to 2048 voxels"},
    {"gen:shell,r=0", "r=0: expected"},
    {"gen:shell,r=-4", "r=-4: expected"},
    {"gen:shell,r=1e2", "r=1e2: expected"},
    {"gen:shell,r=99999999999999999999", "expected 1 to 2048"},
    {"gen:shell,r=4096", "r=4096: expected"},
    {"gen:shell@0.1", "take no voxel size; drop the @0.1"},
    {"gen:uniform,n=0", "n=0: expected 1 to 2147483647 voxels"},
    {"gen:uniform,n=9,extent=2", "too many for extent=2"},
    {"gen:uniform,n=2000000000,extent=2048,batch=2", "too many"},
    {"gen:uniform@1", "take no voxel size"},
    {"gen:lidar@0", "expected a number above 0"},
    {"gen:lidar,beams=0@1", "beams=0: expected 1 to 1024 beams"},
    {"gen:room,seed=x@1", "seed=x: expected 0 to"},
    {"gen:room@1,level=", "level=: expected 0 to 30"},
    {"gen:room@1,level=31", "level=31: expected"},
    {"gen:room@1,level=1.5", "level=1.5: expected"},
    {"gen:room@1,level=-1", "level=-1: expected"},
    {"gen:room,level=1@1", "level=1@1: expected"},
};

START_TEST(a_bad_generator_is_refused_in_one_sentence)
{
    assert_refused(bad_specs[_i].spec, SPC_EINVAL, bad_specs[_i].said);
}
END_TEST

START_TEST(a_voxel_size_too_small_for_a_generated_scene_is_out_of_range)
{
    assert_refused("gen:lidar@1e-12", SPC_ERANGE, "does not fit 32 bits");
}
END_TEST

/* ---- mutations ----------------------------------------------------------- */

typedef struct adder {
    spc__rows rows;
    spc__columns columns;
    int64_t left;
    double sum;
} adder;

static spc_status begin_sum(spc__rows *to, int64_t rows,
                            const spc__columns *columns, bool whole,
                            spc_error *unused)
{
    adder *a = (adder *)to;

    (void)whole, (void)unused;
    a->columns = *columns;
    a->left = rows;
    ck_assert_int_ge(rows, 0);
    ck_assert(columns->count >= 3 && columns->count <= SPC__COLUMNS_MOST);
    for (int i = 0; i < 4; i++)
        ck_assert(columns->at[i] >= -(i == 0) &&
                  columns->at[i] < columns->count);
    return SPC_OK;
}

static spc_status take_sum(spc__rows *to, const double *numbers,
                           const spc__source_position *source,
                           spc_error *unused)
{
    adder *a = (adder *)to;

    (void)source, (void)unused;
    ck_assert_int_gt(a->left--, 0);
    for (int c = 0; c < a->columns.count; c++)
        a->sum += numbers[c];
    return SPC_OK;
}

static void fuzz(spc__scene_reader read, const char *seed_data,
                 size_t seed_bytes, uint64_t seed)
{
    char data[4096];
    spc__random random;

    spc__random_init(&random, seed);
    memcpy(data, seed_data, seed_bytes);
    size_t bytes = mutate(data, seed_bytes, sizeof(data), &random);
    /*
     * The allocation has the exact size, so that a sanitizer detects every
     * access beyond the end.
     */
    char *copy = malloc(bytes + 1);
    memcpy(copy, data, bytes);
    copy[bytes] = '\0';
    spc__scene_file file = {"mutated", copy, bytes, {0, {0}}, {4, 0}};
    adder to = {{begin_sum, take_sum}, {0, {0}}, 0, 0};
    if (spc__random_below(&random, 4) == 0)
        spc__columns_count(&file.columns,
                           3 + (int)spc__random_below(&random, 6));
    memset(&error, 0, sizeof(error));
    spc_status status = read(&to.rows, &file, &error);
    ck_assert_msg(
        status == SPC_OK || (error.status == status && error.text[0] != '\0'),
        "seed %llu: status without a sentence", (unsigned long long)seed);
    free(copy);
}

START_TEST(mutated_files_are_read_or_refused_and_nothing_else)
{
    static const char binary[] =
        "ply\nformat binary_little_endian 1.0\nelement e 1\n"
        "property list uchar int l\nelement vertex 2\n" XYZ
        "property list uchar uchar m\nend_header\n"
        "\2\1\0\0\0\2\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x80\x40\2\1\1"
        "\0\0\x80\x3f\0\0\0\x40\0\0\x80\x40\0";
    static const char floats[] =
        V1("\x3c") NPY("<f4", "(2, 3)") ROW16 "\0\0\x80\x3f\0\0\0";
    static const char integers[] =
        V1("\x3c") NPY("<i2", "(2, 4)") "\0\0\0\1\0\2\0\3\0\1\1\1\1\1\1";
    uint64_t seed = 20240601;

    printf("mutations from seed %llu on\n", (unsigned long long)seed);
    for (int i = 0; i < 4000; i++, seed++) {
        fuzz(spc__scene_read_ply, ascii_ply, sizeof(ascii_ply) - 1, seed);
        fuzz(spc__scene_read_ply, binary, sizeof(binary) - 1, seed);
        fuzz(spc__scene_read_npy, floats, sizeof(floats), seed);
        fuzz(spc__scene_read_npy, integers, sizeof(integers), seed);
        fuzz(spc__scene_read_raw, integers, sizeof(integers), seed);
    }
}
END_TEST

/* ---- generators ---------------------------------------------------------- */

static void digest_of(char hex[SPC__SHA256_HEX], const spc_scene *scene)
{
    unsigned char digest[SPC__SHA256_BYTES];
    spc__sha256 sha;
    spc__sha256_init(&sha);
    spc__sha256_update(&sha, spc_scene_coords(scene),
                       (size_t)spc_scene_rows(scene) * 4 * sizeof(int32_t));
    spc__sha256_final(&sha, digest);
    spc__sha256_hex(hex, digest);
}

static const struct {
    const char *spec;
    int64_t rows;
    const char *digest; /* start of the SHA-256 of the rows */
} generated[] = {
    {"gen:shell,r=1", 1, ""},
    {"gen:shell,r=2", 8, ""},
    {"gen:shell,r=256", 252392, ""},
    {"gen:shell", 252392, ""},
    {"gen:shell,r=512", 1026536, ""},
    {"gen:uniform", 1000, "8f74fc839b1b469d"},
    {"gen:uniform,n=1", 1, ""},
    {"gen:uniform,n=2,extent=2", 2, ""},
    {"gen:uniform,n=8,extent=2", 8, ""},
    {"gen:uniform,n=500,extent=1000000,seed=9,batch=3", 1500, ""},
    {"gen:lidar", 85099, "b57f22e198f0acde"},
    {"gen:lidar,seed=1,beams=64@0.05", 85099, "b57f22e198f0acde"},
    {"gen:lidar,seed=5,beams=32@0.1", 26364, "f177dfae3888b8a8"},
    {"gen:room,seed=1@0.02", 162624, "6120357de5590d89"},
};

START_TEST(a_generated_scene_is_the_same_everywhere)
{
    spc_scene *scene;
    char hex[SPC__SHA256_HEX];

    assert_ok(spc_scene_load(&scene, generated[_i].spec, &error));
    digest_of(hex, scene);
    ck_assert_int_eq(spc_scene_rows(scene), generated[_i].rows);
    ck_assert_msg(
        strncmp(hex, generated[_i].digest, strlen(generated[_i].digest)) == 0,
        "%s is now %.16s", generated[_i].spec, hex);
    spc_scene_free(scene);
}
END_TEST

START_TEST(rows_of_a_scene_are_distinct_and_ascending)
{
    spc_scene *scene;
    assert_ok(spc_scene_load(&scene, generated[_i].spec, &error));
    const int32_t *at = spc_scene_coords(scene);
    for (int64_t row = 1; row < spc_scene_rows(scene); row++, at += 4) {
        int field = 0;
        while (field < 3 && at[field] == at[field + 4])
            field++;
        ck_assert_int_lt(at[field], at[field + 4]);
    }
    spc_scene_free(scene);
}
END_TEST

static int find_row(const spc_scene *scene, const int32_t wanted[4])
{
    const int32_t *at = spc_scene_coords(scene);
    int rows = (int)spc_scene_rows(scene), row = 0;

    while (row < rows && memcmp(at + 4 * row, wanted, 4 * sizeof(*at)) != 0)
        row++;
    return row < rows ? row : -1;
}

/* Batch elements are kept, and a scan has voxels on both sides of 0. */
START_TEST(a_level_has_the_voxels_divided_and_rounded_down)
{
    static const char *const specs[][2] = {
        {"gen:lidar,beams=4@4", "gen:lidar,beams=4@4,level=2"},
        {"gen:uniform,n=200,extent=9,batch=2",
         "gen:uniform,n=200,extent=9,batch=2,level=2"},
    };
    spc_scene *fine, *level;
    bool *hit;
    int lowest = 0;

    assert_ok(spc_scene_load(&fine, specs[_i][0], &error));
    assert_ok(spc_scene_load(&level, specs[_i][1], &error));
    ck_assert_str_eq(spc_scene_name(level), specs[_i][1]);
    hit = calloc((size_t)spc_scene_rows(level), sizeof(*hit));
    for (int64_t row = 0; row < spc_scene_rows(fine); row++) {
        const int32_t *from = spc_scene_coords(fine) + 4 * row;
        int32_t at[4] = {from[0]};
        for (int axis = 1; axis < 4; axis++) {
            at[axis] = (int32_t)floor(from[axis] / 4.0);
            lowest = at[axis] < lowest ? at[axis] : lowest;
        }
        int found = find_row(level, at);
        ck_assert_int_ge(found, 0);
        hit[found] = true;
    }
    ck_assert(_i > 0 || lowest < 0);
    for (int64_t row = 0; row < spc_scene_rows(level); row++)
        ck_assert(hit[row]);
    free(hit);
    spc_scene_free(fine);
    spc_scene_free(level);
}
END_TEST

START_TEST(angles_are_right_to_the_last_few_bits)
{
    for (int i = -500; i <= 500; i++) {
        double turns = i / 167.0, c, s;
        spc__scene_sincos(&c, &s, turns);
        ck_assert_double_eq_tol(c, cos(turns * 6.283185307179586), 5e-15);
        ck_assert_double_eq_tol(s, sin(turns * 6.283185307179586), 5e-15);
    }
}
END_TEST

/* ---- scenes by hand ------------------------------------------------------ */

START_TEST(a_scene_by_hand_keeps_order_and_duplicates)
{
    static const int32_t rows[][4] = {{1, 5, 5, 5}, {0, 1, 1, 1}, {1, 5, 5, 5}};
    spc_scene *scene;

    assert_ok(spc_scene_create(&scene, rows[0], 3, "mine", &error));
    ck_assert_int_eq(spc_scene_rows(scene), 3);
    ck_assert_mem_eq(spc_scene_coords(scene), rows, sizeof(rows));
    ck_assert_str_eq(spc_scene_name(scene), "mine");
    spc_scene_free(scene);
    assert_ok(spc_scene_create(&scene, NULL, 0, NULL, &error));
    ck_assert_int_eq(spc_scene_rows(scene), 0);
    ck_assert_str_eq(spc_scene_name(scene), "");
    spc_scene_free(scene);
    spc_scene_free(NULL);
    ck_assert_int_eq(spc_scene_create(&scene, NULL, 1, "x", &error),
                     SPC_EINVAL);
    ck_assert_ptr_null(scene);
    ck_assert_int_eq(spc_scene_create(&scene, rows[0], -1, "x", &error),
                     SPC_EINVAL);
}
END_TEST

/* ---- recorded scenes, if they are installed ------------------------------ */

static const struct {
    const char *file;
    int64_t rows;
} real[] = {
    {"kitti_hdl64_full.bin@0.05", 82658},
    {"kitti_hdl64_full.bin@0.1", 50196},
    {"kitti_hdl64_full.bin@0.2", 24275},
    {"waymo_frame.bin@0.05", 173112},
    {"waymo_frame.bin@0.1", 125565},
    {"waymo_frame.bin@0.2", 67099},
    {"nuscenes_sweep1.bin@0.05", 23112},
    {"nuscenes_sweep1.bin@0.1", 17885},
    {"nuscenes_sweep1.bin@0.2", 12641},
    {"indoor_rgbd_fragment.bin@0.01", 32637},
    {"indoor_rgbd_fragment.bin@0.02", 9161},
    {"indoor_rgbd_fragment.bin@0.05", 1639},
};

START_TEST(real_scenes_have_their_known_counts)
{
    char spec[4200];
    spc_scene *scene;

    snprintf(spec, sizeof(spec), "%s/%s", suite_scenes(), real[_i].file);
    assert_ok(spc_scene_load(&scene, spec, &error));
    ck_assert_int_eq(spc_scene_rows(scene), real[_i].rows);
    spc_scene_free(scene);
}
END_TEST

/* The same scans with other numbers of columns. */
START_TEST(real_scenes_of_other_columns_are_refused_or_read_right)
{
    static const char *const files[] = {
        "kitti_hdl64_full.bin", "waymo_frame.bin", "nuscenes_sweep1.bin",
        "indoor_rgbd_fragment.bin", "object_bunny_vertices.bin"};
    const int columns[] = {3, 5, 6};
    int count = columns[_i % 3];
    char path[4200], words[40];
    spc__buf from = SPC__BUF_INIT, to = SPC__BUF_INIT;
    spc_scene *right, *scene;

    make_folder();
    snprintf(path, sizeof(path), "%s/%s", suite_scenes(), files[_i / 3]);
    assert_ok(spc__file_read(&from, path, 1 << 26, &error));
    /* Keeps a multiple of 4 rows, so that the size does not determine the
     * columns. */
    int rows = (int)(from.length / 16 / 4 * 4);
    for (int i = 0; i < rows; i++) {
        float row[6] = {0, 0, 0, 0, (float)(i % 32), (float)(i % 7) * 0.1f};
        memcpy(row, from.data + 16 * (size_t)i, 16);
        spc__buf_append(&to, row, sizeof(float) * (size_t)count);
    }
    assert_ok(spc_scene_load(
        &right, write_at("a.bin", from.data, 16 * (size_t)rows, "@0.1"),
        &error));
    snprintf(words, sizeof(words), "@0.1,columns=%d", count);
    assert_ok(spc_scene_load(
        &scene, write_at("a.bin", to.data, to.length, words), &error));
    ck_assert_int_eq(spc_scene_rows(scene), spc_scene_rows(right));
    ck_assert_int_eq(
        spc_scene_load(&(spc_scene *){NULL},
                       write_at("a.bin", to.data, to.length, "@0.1"), &error),
        SPC_EFORMAT);
    snprintf(words, sizeof(words), "columns=%d or columns=4", count);
    ck_assert_msg(strstr(error.text, words) != NULL, "%s", error.text);
    spc_scene_free(right);
    spc_scene_free(scene);
    spc__buf_release(&from);
    spc__buf_release(&to);
    remove_folder();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("scene");
    TCase *files = tcase_create("files");
    TCase *bad = tcase_create("bad");
    TCase *made = tcase_create("generated");

    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_test(files, kitti_rows_are_floored_ordered_and_merged);
    tcase_add_test(files, one_point_is_a_scene);
    tcase_add_loop_test(files, numpy_arrays_of_every_kind_give_the_same_voxels,
                        0, LENGTH(npy_cases));
    tcase_add_test(files, an_array_of_no_rows_is_an_empty_scene);
    tcase_add_test(files, batches_of_an_array_are_kept_apart);
    tcase_add_test(files, extreme_voxels_are_ordered_without_a_packed_key);
    tcase_add_test(files, ascii_ply_is_read_around_other_elements_and_lists);
    tcase_add_test(files, decimal_points_do_not_depend_on_the_locale);
    tcase_add_loop_test(files, binary_ply_is_read_in_either_byte_order, 0, 2);
    tcase_add_test(files, an_at_sign_in_a_path_is_no_voxel_size);
    tcase_add_loop_test(
        files, raw_rows_have_as_many_numbers_as_the_specification_states, 0, 5);
    tcase_add_test(files,
                   a_size_that_four_numbers_do_not_divide_names_what_fits);
    tcase_add_test(files, letters_say_what_the_numbers_of_a_row_are);
    tcase_add_test(files, further_numbers_of_an_array_are_left_aside);
    tcase_add_test(files, records_name_their_columns);
    tcase_add_test(files, a_voxel_may_have_another_size_along_each_axis);
    tcase_add_loop_test(
        files, points_that_are_no_numbers_are_left_out_and_counted, 0, 3);
    tcase_add_test(files, a_file_of_no_points_is_an_empty_scene);
    tcase_add_loop_test(files, names_of_files_may_hold_what_specifications_do,
                        0, 8);
    tcase_add_test(files, points_are_read_as_scenes_are);
    suite_add_tcase(s, files);

    tcase_add_checked_fixture(bad, make_folder, remove_folder);
    tcase_set_timeout(bad, 120);
    tcase_add_loop_test(bad, a_bad_file_is_refused_in_one_sentence, 0,
                        LENGTH(bad_files));
    tcase_add_test(bad, what_is_no_file_is_refused_in_one_sentence);
    tcase_add_loop_test(bad, a_pipe_or_a_device_is_refused_unread, 0, 2);
    tcase_add_test(bad, a_file_of_too_many_points_is_refused_unread);
    tcase_add_loop_test(bad, a_bad_generator_is_refused_in_one_sentence, 0,
                        LENGTH(bad_specs));
    tcase_add_test(
        bad, a_voxel_size_too_small_for_a_generated_scene_is_out_of_range);
    tcase_add_test(bad, mutated_files_are_read_or_refused_and_nothing_else);
    suite_add_tcase(s, bad);

    tcase_set_timeout(made, 120);
    tcase_add_loop_test(made, a_generated_scene_is_the_same_everywhere, 0,
                        LENGTH(generated));
    tcase_add_loop_test(made, rows_of_a_scene_are_distinct_and_ascending, 0,
                        LENGTH(generated));
    tcase_add_loop_test(made, a_level_has_the_voxels_divided_and_rounded_down,
                        0, 2);
    tcase_add_test(made, angles_are_right_to_the_last_few_bits);
    tcase_add_test(made, a_scene_by_hand_keeps_order_and_duplicates);
    suite_add_tcase(s, made);
    return s;
}

static Suite *recorded_suite(void)
{
    Suite *s = suite_create("recorded scans");
    TCase *scans = tcase_create("counts");

    tcase_set_timeout(scans, 120);
    tcase_add_loop_test(scans, real_scenes_have_their_known_counts, 0,
                        LENGTH(real));
    tcase_add_loop_test(
        scans, real_scenes_of_other_columns_are_refused_or_read_right, 0, 15);
    suite_add_tcase(s, scans);
    return s;
}

int main(int argc, char **argv)
{
    if (!suite_is_part(argc, argv, "scenes"))
        return run_suite(suite());
    if (suite_scenes() == NULL)
        return suite_skip("no folder of recorded scans; SPC_SCENES names it");
    return run_suite(recorded_suite());
}
