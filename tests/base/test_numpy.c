/* SPDX-License-Identifier: Apache-2.0 */
/* test_numpy.c - the reader of NumPy's arrays: every type, order and form. */
#include "base/numpy.h"

#include "base/buf.h"
#include "base/dtype.h"
#include "harness/suite.h"

static spc__buf file;
static spc_error error;

static void setup(void)
{
    file = (spc__buf)SPC__BUF_INIT;
}

static void teardown(void)
{
    spc__buf_release(&file);
}

/* ---- files --------------------------------------------------------------- */

static void start_file(const char *descr, const char *order, const char *shape)
{
    char header[1024];
    int length = snprintf(header, sizeof(header),
                          "{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n",
                          descr, order, shape);

    file.length = 0;
    spc__buf_append(&file, "\x93NUMPY\1", 7);
    spc__buf_append(&file, "", 1);
    spc__buf_append(&file, (char[2]){(char)(length & 255), (char)(length >> 8)},
                    2);
    spc__buf_append(&file, header, (size_t)length);
}

/* Appends one number of the type "<f4". */
static void put(const char *type, double value)
{
    int bytes = type[2] - '0';
    float narrow = (float)value;
    uint16_t half = spc__half_from_float(narrow);
    int64_t whole = (int64_t)value;
    const void *from = type[1] != 'f' ? (const void *)&whole
                       : bytes == 2   ? (const void *)&half
                       : bytes == 4   ? (const void *)&narrow
                                      : (const void *)&value;

    for (int i = 0; i < bytes; i++)
        spc__buf_append(
            &file, (const char *)from + (type[0] == '>' ? bytes - 1 - i : i),
            1);
}

static spc_status open_file(spc__numpy *out)
{
    return spc__numpy_open(out, "a.npy", file.data, file.length, &error);
}

static spc__numpy_rows open_rows(spc__numpy *array)
{
    spc__numpy_rows rows;

    ck_assert_msg(open_file(array) == SPC_OK, "%s", error.text);
    ck_assert_msg(spc__numpy_rows_of(&rows, array, &error) == SPC_OK, "%s",
                  error.text);
    return rows;
}

/* ---- accepted arrays ----------------------------------------------------- */

static const char *const types[] = {
    "<f2", "<f4", "<f8", ">f2", ">f4", ">f8", "|i1", "<i2", "<i4", "<i8", ">i2",
    ">i4", ">i8", "|u1", "<u2", "<u4", "<u8", ">u2", ">u4", ">u8", "|b1",
};

/* Converts the number to the type and back. */
static double as_type(const char *type, double value)
{
    value = type[1] == 'b' ? value != 0 : value;
    value = type[1] == 'u' ? (value < 0 ? -value : value) : value;
    return type[1] == 'f' ? value : (double)(int64_t)value;
}

static const double table[3][4] = {
    {0, 1, -2, 3.5}, {100, -100, 7, 0.25}, {-1, 64, 5, 2}};

START_TEST(every_type_is_read_in_either_order)
{
    const char *type = types[_i / 2];
    bool fortran = _i % 2 == 1;
    char descr[8];
    spc__numpy array;

    snprintf(descr, sizeof(descr), "'%s'", type);
    start_file(descr, fortran ? "True" : "False", "(3, 4)");
    for (int i = 0; i < 12; i++)
        put(type,
            as_type(type, fortran ? table[i % 3][i / 3] : table[i / 4][i % 4]));
    spc__numpy_rows rows = open_rows(&array);
    ck_assert_int_eq(rows.count, 3);
    ck_assert_int_eq(rows.columns, 4);
    for (int row = 0; row < 3; row++)
        for (int column = 0; column < 4; column++) {
            double want = as_type(type, table[row][column]);
            int64_t whole = 0;
            bool is_whole = spc__numpy_int(&whole, &rows, row, column);
            ck_assert(spc__numpy_float(&rows, row, column) == want);
            ck_assert_int_eq(is_whole, want == (double)(int64_t)want);
            ck_assert(!is_whole || whole == (int64_t)want);
        }
}
END_TEST

START_TEST(integers_at_the_ends_of_their_types_are_exact)
{
    static const struct {
        const char *type, *bytes; /* `bytes` has 8 bytes */
        int64_t value;
        bool fits;
    } ends[] = {
        {"'<i8'", "\0\0\0\0\0\0\0\x80", INT64_MIN, true},
        {"'>i8'", "\x7f\xff\xff\xff\xff\xff\xff\xff", INT64_MAX, true},
        {"'<u8'", "\xff\xff\xff\xff\xff\xff\xff\x7f", INT64_MAX, true},
        {"'<u8'", "\0\0\0\0\0\0\0\x80", 0, false},
        {"'<f8'", "\0\0\0\0\0\0\xe0\x43", 0, false},        /* 2^63 */
        {"'<f8'", "\0\0\0\0\0\0\xe0\xc3", INT64_MIN, true}, /* -2^63 */
        {"'<f8'", "\0\0\0\0\0\0\xf8\x7f", 0, false},        /* NaN */
    };

    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        spc__numpy array;
        int64_t value = 0;
        start_file(ends[i].type, "False", "(1, 1)");
        spc__buf_append(&file, ends[i].bytes, 8);
        spc__numpy_rows rows = open_rows(&array);
        ck_assert_int_eq(spc__numpy_int(&value, &rows, 0, 0), ends[i].fits);
        ck_assert(!ends[i].fits || value == ends[i].value);
    }
}
END_TEST

/* Element (i, j, k) is 100 i + 10 j + k. */
START_TEST(a_copy_has_the_last_index_fastest)
{
    bool fortran = _i / 2 == 1, big = _i % 2 == 1;
    const char *type = big ? ">i2" : "<i2";
    const int sides[] = {2, 3, 4};
    int16_t copy[24];
    spc__numpy array;

    start_file(big ? "'>i2'" : "'<i2'", fortran ? "True" : "False",
               "(2, 3, 4)");
    for (int n = 0; n < 24; n++) {
        int i = fortran ? n % sides[0] : n / (sides[1] * sides[2]);
        int j = fortran ? n / sides[0] % sides[1] : n / sides[2] % sides[1];
        int k = fortran ? n / (sides[0] * sides[1]) : n % sides[2];
        put(type, 100 * i + 10 * j + k);
    }
    ck_assert_int_eq(open_file(&array), SPC_OK);
    ck_assert_int_eq(spc__numpy_is_plain(&array), _i == 0);
    spc__numpy_copy(copy, &array);
    for (int n = 0; n < 24; n++)
        ck_assert_int_eq(copy[n], 100 * (n / 12) + 10 * (n / 4 % 3) + n % 4);
}
END_TEST

START_TEST(records_are_rows_whose_fields_are_columns)
{
    spc__numpy array;

    start_file("[('x', '<f4'), ('ring', '|u1'), ('', '|V3'), "
               "(('height', 'z'), '>f8'), (\"it's\", '<i2', (2,))]",
               "False", "(2,)");
    for (int row = 0; row < 2; row++) {
        put("<f4", 1.5 + row);
        put("|u1", 200 + row);
        spc__buf_append(&file, "\xff\xff\xff", 3);
        put(">f8", -0.25 - row);
        put("<i2", -7);
        put("<i2", 8 + row);
    }
    spc__numpy_rows rows = open_rows(&array);
    ck_assert_int_eq(rows.count, 2);
    ck_assert_int_eq(rows.columns, 5);
    ck_assert_int_eq(spc__numpy_find(&rows, "z"), 2);
    ck_assert_int_eq(spc__numpy_find(&rows, "it's"), 3);
    ck_assert_int_eq(spc__numpy_find(&rows, "y"), -1);
    ck_assert_int_eq(spc__numpy_column(&rows, 1)->kind, 'u');
    const double want[] = {2.5, 201, -1.25, -7, 9};
    for (int column = 0; column < 5; column++)
        ck_assert(spc__numpy_float(&rows, 1, column) == want[column]);
    ck_assert_int_eq(spc__numpy_byte(&rows, 1, 2),
                     (int64_t)array.data_start + 20 + 8);
}
END_TEST

START_TEST(keys_come_in_any_order_and_fields_may_have_their_names)
{
    const char header[] = "{\"shape\": (1L,), 'fortran_order': False, 'descr': "
                          "[('shape', '<f4'), ('descr', '<i4')]}";
    spc__numpy array;

    spc__buf_append(&file, "\x93NUMPY\2", 7);
    spc__buf_append(&file, "", 1);
    spc__buf_append(&file, (char[4]){(char)(sizeof(header) - 1)}, 4);
    spc__buf_append(&file, header, sizeof(header) - 1);
    put("<f4", 3);
    put("<i4", 4);
    spc__numpy_rows rows = open_rows(&array);
    ck_assert(spc__numpy_float(&rows, 0, 1) == 4);
}
END_TEST

/* ---- refused arrays ------------------------------------------------------ */

static const struct {
    const char *descr, *shape, *said;
} others[] = {
    {"'<c8'", "(2,)", "complex numbers (<c8)"},
    {"'|O'", "()", "Python objects (|O)"},
    {"'<U3'", "(2,)", "texts (<U3)"},
    {"'|S5'", "(2,)", "bytes (|S5)"},
    {"'<M8[D]'", "(1,)", "dates (<M8[D])"},
    {"'<m8[ns]'", "(1,)", "times (<m8[ns])"},
    {"'<f16'", "(1,)", "a type that is not read (<f16)"},
    {"'<i3'", "(1,)", "a type that is not read (<i3)"},
    {"'|V4'", "(1,)", "bytes without a type (|V4)"},
    {"[('x', '<f4'), ('name', '<U4')]", "(1,)", "texts (<U4)"},
    {"[('p', [('x', '<f4'), (']', '<f4')])]", "(1,)", "records of a form"},
    {"[('', '|V4')]", "(1,)", "records without a number"},
    {"[('x', '<f4', (33,))]", "(1,)", "more than 32 numbers"},
    {"'<f4'", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", "it has 9 dimensions"},
};

START_TEST(an_array_of_another_type_is_sound_but_unreadable)
{
    spc__numpy array;
    spc__numpy_rows rows;

    start_file(others[_i].descr, "False", others[_i].shape);
    spc__buf_append(&file, "0123456789", 10);
    ck_assert_msg(open_file(&array) == SPC_OK, "%s", error.text);
    ck_assert_msg(strstr(array.unreadable, others[_i].said) != NULL,
                  "'%s' lacks '%s'", array.unreadable, others[_i].said);
    ck_assert_int_eq(spc__numpy_rows_of(&rows, &array, &error),
                     SPC_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, others[_i].said));
}
END_TEST

static const struct {
    const char *descr, *order, *shape, *said;
} damaged[] = {
    {"'<f4'", "False", "(3,)", "10 bytes of data follow the header"},
    {"'<f4'", "False", "(4503599627370496, 4503599627370496)", "its shape"},
    {"'<f4", "False", "(1,)", "'descr'"},
    {"'f4'", "False", "(1,)", "'descr'"},
    {"'<4'", "False", "(1,)", "'descr'"},
    {"4", "False", "(1,)", "'descr'"},
    {"[('x', '<f4')", "False", "(1,)", "'descr'"},
    {"'<f4'", "None", "(1,)", "'fortran_order'"},
    {"'<f4'", "False", "(1", "'shape'"},
    {"'<f4'", "False", "(-1,)", "'shape'"},
    {"'<f4'", "False", "[1]", "'shape'"},
};

START_TEST(a_damaged_array_is_refused_in_one_sentence)
{
    spc__numpy array;

    start_file(damaged[_i].descr, damaged[_i].order, damaged[_i].shape);
    spc__buf_append(&file, "0123456789", 10);
    ck_assert_int_eq(open_file(&array), SPC_EFORMAT);
    ck_assert_msg(strstr(error.text, damaged[_i].said) != NULL,
                  "'%s' lacks '%s'", error.text, damaged[_i].said);
}
END_TEST

START_TEST(an_array_that_is_no_table_is_refused)
{
    static const struct {
        const char *descr, *shape, *said;
    } forms[] = {
        {"'<f4'", "(2,)", "it has 1 dimensions; a table has two"},
        {"'<f4'", "(2, 1, 1)", "it has 3 dimensions"},
        {"'<f8'", "()", "it has 0 dimensions"},
        {"[('x', '<f4')]", "(1, 2)", "records needs one"},
    };

    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        spc__numpy array;
        spc__numpy_rows rows;
        start_file(forms[i].descr, "False", forms[i].shape);
        spc__buf_append(&file, "01234567", 8);
        ck_assert_msg(open_file(&array) == SPC_OK, "%s", error.text);
        ck_assert_int_eq(spc__numpy_rows_of(&rows, &array, &error),
                         SPC_EFORMAT);
        ck_assert_msg(strstr(error.text, forms[i].said) != NULL, "%s",
                      error.text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("numpy");
    TCase *tcase = tcase_create("numpy");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, every_type_is_read_in_either_order, 0,
                        2 * sizeof(types) / sizeof(*types));
    tcase_add_test(tcase, integers_at_the_ends_of_their_types_are_exact);
    tcase_add_loop_test(tcase, a_copy_has_the_last_index_fastest, 0, 4);
    tcase_add_test(tcase, records_are_rows_whose_fields_are_columns);
    tcase_add_test(tcase,
                   keys_come_in_any_order_and_fields_may_have_their_names);
    tcase_add_loop_test(tcase, an_array_of_another_type_is_sound_but_unreadable,
                        0, sizeof(others) / sizeof(*others));
    tcase_add_loop_test(tcase, a_damaged_array_is_refused_in_one_sentence, 0,
                        sizeof(damaged) / sizeof(*damaged));
    tcase_add_test(tcase, an_array_that_is_no_table_is_refused);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
