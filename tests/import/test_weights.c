/* SPDX-License-Identifier: Apache-2.0 */
/* test_weights.c - arrays from safetensors and NumPy files, and folding. */
#include "base/buf.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/random.h"
#include "harness/folder_harness.h"
#include "harness/suite.h"
#include "spc_import.h"

#include <float.h>
#include <math.h>
#include <unistd.h>
#ifdef SPC_WITH_LIBZIP
#include <zip.h>
#endif

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static spc_error error;

static const char *write_file(const char *name, const void *data, size_t bytes)
{
    const char *path = at(name);
    ck_assert_msg(spc__file_write(path, data, bytes, &error) == SPC_OK, "%s",
                  error.text);
    return path;
}

static spc_weights *open_one(const char *path)
{
    spc_weights *weights = NULL;
    ck_assert_msg(spc_weights_open(&weights, &path, 1, &error) == SPC_OK, "%s",
                  error.text);
    return weights;
}

static void assert_refused(const char *const *paths, int count,
                           spc_status status, const char *said)
{
    spc_weights *weights = (spc_weights *)&error;
    spc_status got = spc_weights_open(&weights, paths, count, &error);

    ck_assert_msg(got == status, "%s: %s, not %s: %s", paths[0],
                  spc_status_name(got), spc_status_name(status),
                  got == SPC_OK ? "it was opened" : error.text);
    ck_assert_ptr_null(weights);
    ck_assert_msg(strstr(error.text, said) != NULL, "'%s' lacks '%s'",
                  error.text, said);
}

/* Checks that the file opens, but that reading the array gives this error. */
static void assert_unreadable(const char *path, const char *name,
                              const char *said)
{
    spc_weights *weights = open_one(path);
    const spc_array *array = spc_weights_find(weights, name);
    const spc_kernel_form form = SPC_KERNEL_FORM_INIT;
    spc_kernel_shape shape;
    float one;

    ck_assert_ptr_nonnull(array);
    ck_assert_ptr_nonnull(array->unreadable);
    ck_assert_msg(strstr(array->unreadable, said) != NULL, "'%s' lacks '%s'",
                  array->unreadable, said);
    ck_assert_int_eq(spc_array_elements(array), 0);
    ck_assert_int_eq(spc_array_floats(&one, array, &error), SPC_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, said));
    ck_assert_int_eq(spc_kernel_describe(&shape, array, &form, &error),
                     SPC_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, said));
    path = at("out.safetensors");
    ck_assert_int_eq(spc_weights_save(path, array, 1, NULL, &error),
                     SPC_EUNSUPPORTED);
    spc_weights_free(weights);
}

static void assert_array(const spc_array *got, const spc_array *want)
{
    ck_assert_ptr_nonnull(got);
    ck_assert_str_eq(got->name, want->name);
    ck_assert_int_eq(got->type, want->type);
    ck_assert_int_eq(got->rank, want->rank);
    for (int i = 0; i < want->rank; i++)
        ck_assert_int_eq(got->shape[i], want->shape[i]);
    ck_assert_uint_eq(got->bytes, want->bytes);
    ck_assert_int_eq(memcmp(got->data, want->data, want->bytes), 0);
}

/* ---- safetensors --------------------------------------------------------- */

#ifdef SPC_WITH_JANSSON

/* u64 length, header, data. */
static const char *write_safetensors(const char *name, const char *header,
                                     const void *data, size_t bytes)
{
    spc__buf file = SPC__BUF_INIT;
    size_t length = strlen(header);

    for (int i = 0; i < 8; i++) {
        char byte = (char)(length >> 8 * i);
        spc__buf_append(&file, &byte, 1);
    }
    spc__buf_puts(&file, header);
    spc__buf_append(&file, data, bytes);
    const char *path = write_file(name, file.data, file.length);
    spc__buf_release(&file);
    return path;
}

START_TEST(what_was_saved_is_read_back)
{
    unsigned char data[512];
    spc_array arrays[SPC_ELEMENTS + 1];
    char names[SPC_ELEMENTS][16];

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i * 37 + 11);
    for (int i = 0; i < SPC_ELEMENTS; i++) {
        size_t each = spc_element_bytes((spc_element)i);
        snprintf(names[i], sizeof(names[i]), "%c.%s", 'z' - i,
                 spc_element_name((spc_element)i));
        arrays[i] = (spc_array){.name = names[i],
                                .type = (spc_element)i,
                                .rank = i % 4,
                                .shape = {3, 1, i % 3, 2},
                                .data = data + i};
        int64_t count = 1;
        for (int d = 0; d < arrays[i].rank; d++)
            count *= arrays[i].shape[d];
        arrays[i].bytes = (size_t)count * each;
    }
    arrays[SPC_ELEMENTS] = (spc_array){.name = "quote\" and \\ \xc3\xa4",
                                       .type = SPC_ELEMENT_U8,
                                       .data = data,
                                       .bytes = 1};
    const char *path = at("saved.safetensors");
    ck_assert_msg(spc_weights_save(path, arrays, SPC_ELEMENTS + 1, "a note",
                                   &error) == SPC_OK,
                  "%s", error.text);
    spc_weights *weights = open_one(path);
    ck_assert_int_eq(spc_weights_count(weights), SPC_ELEMENTS + 1);
    for (int i = 0; i <= SPC_ELEMENTS; i++) {
        const spc_array *got = spc_weights_find(weights, arrays[i].name);
        assert_array(got, &arrays[i]);
        ck_assert_str_eq(got->file, path);
        ck_assert_uint_eq((uintptr_t)got->data % spc_element_bytes(got->type),
                          0);
    }
    for (int i = 1; i <= SPC_ELEMENTS; i++)
        ck_assert_int_lt(strcmp(spc_weights_at(weights, i - 1)->name,
                                spc_weights_at(weights, i)->name),
                         0);
    ck_assert_ptr_null(spc_weights_at(weights, SPC_ELEMENTS + 1));
    ck_assert_ptr_null(spc_weights_at(weights, -1));
    ck_assert_ptr_null(spc_weights_find(weights, "z"));
    spc_weights_free(weights);
}
END_TEST

#define A(type, shape, from, to)                                               \
    "{\"dtype\": \"" type "\", \"shape\": [" shape                             \
    "], \"data_offsets\": [" #from "," #to "]}"

static const struct {
    const char *header;
    size_t bytes; /* bytes of data */
    spc_status status;
    const char *said;
} bad_headers[] = {
    {"", 0, SPC_EFORMAT, "its header is not a JSON object"},
    {"[1]", 0, SPC_EFORMAT, "its header is not a JSON object"},
    {"{\"a\": 1", 0, SPC_EFORMAT, "at byte 15"},
    {"{\"a\": 1}", 0, SPC_EFORMAT, "'a' is not described by a JSON object"},
    {"{\"a\": {}}", 0, SPC_EFORMAT, "'a' has no \"dtype\""},
    {"{\"a\": {\"dtype\": 4}}", 0, SPC_EFORMAT, "'a' has no \"dtype\""},
    {"{\"a\": {\"dtype\": \"F16\"}}", 0, SPC_EFORMAT, "no \"shape\""},
    {"{\"a\": " A("U8", "-1", 0, 1) "}", 1, SPC_EFORMAT, "whole numbers"},
    {"{\"a\": " A("U8", "1.0", 0, 1) "}", 1, SPC_EFORMAT, "whole numbers"},
    {"{\"a\": " A("U8", "\"1\"", 0, 1) "}", 1, SPC_EFORMAT, "whole numbers"},
    {"{\"a\": " A("F64", "4294967296,4294967296", 0, 1) "}", 1, SPC_EFORMAT,
     "does not fit 64 bits"},
    {"{\"a\": " A("F32", "2305843009213693952", 0, 1) "}", 1, SPC_EFORMAT,
     "does not fit 64 bits"},
    {"{\"a\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [0]}}", 1,
     SPC_EFORMAT, "\"data_offsets\" of two"},
    {"{\"a\": " A("U8", "2", 0, 2) "}", 1, SPC_EFORMAT,
     "bytes 0 to 2 of the data, which has 1"},
    {"{\"a\": " A("U8", "1", 1, 0) "}", 1, SPC_EFORMAT, "bytes 1 to 0"},
    {"{\"a\": " A("U8", "1", -1, 0) "}", 1, SPC_EFORMAT, "bytes -1 to 0"},
    {"{\"a\": " A("U8", "1", 0, 9223372036854775807) "}", 1, SPC_EFORMAT,
     "bytes 0 to 9223372036854775807"},
    {"{\"a\": " A("U8", "1", 0, 9223372036854775808) "}", 1, SPC_EFORMAT,
     "not a JSON object"},
    {"{\"a\": " A("F16", "1", 0, 1) "}", 1, SPC_EFORMAT,
     "'a' has 1 bytes, but its type and shape take 2"},
    {"{\"a\": " A("U8", "1", 0, 1) ", \"b\": " A("U8", "1", 0, 1) "}", 1,
     SPC_EFORMAT, "overlaps another one"},
    {"{\"a\": " A("U8", "1", 1, 2) "}", 2, SPC_EFORMAT,
     "bytes before it that belong to no array"},
    {"{\"a\": " A("U8", "1", 0, 1) "}", 4, SPC_EFORMAT, "the last 3 bytes"},
    {"{\"a\": " A("U8", "1", 0, 1) ", \"a\": " A("U8", "1", 1, 2) "}", 2,
     SPC_EFORMAT, "not a JSON object: duplicate"},
    {"{\"\": " A("U8", "1", 0, 1) "}", 1, SPC_EFORMAT, "has no name"},
    {"{\"\\u001b[2J\": " A("U8", "1", 0, 1) "}", 1, SPC_EFORMAT,
     "control character"},
    {"{\"a\\u0000b\": " A("U8", "1", 0, 1) "}", 1, SPC_EFORMAT,
     "not a JSON object"},
};

START_TEST(a_bad_header_is_refused_in_one_sentence)
{
    const char *path =
        write_safetensors("bad.safetensors", bad_headers[_i].header, "abcdef",
                          bad_headers[_i].bytes);
    assert_refused(&path, 1, bad_headers[_i].status, bad_headers[_i].said);
}
END_TEST

START_TEST(a_length_past_the_end_is_refused)
{
    const char *path =
        write_file("bad.safetensors", "\x03\0\0\0\0\0\0\0{}", 10);
    assert_refused(&path, 1, SPC_EFORMAT, "announces a header of 3 bytes");
    path =
        write_file("bad.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    assert_refused(&path, 1, SPC_EFORMAT, "announces a header");
    path = write_file("bad.safetensors", "\x03\0\0\0", 4);
    assert_refused(&path, 1, SPC_EFORMAT, "it ends at byte 4");
}
END_TEST

START_TEST(an_array_of_two_files_is_refused_with_both_names)
{
    const char *header = "{\"a\": " A("U8", "1", 0, 1) "}";
    char first[512];

    snprintf(first, sizeof(first), "%s",
             write_safetensors("one.safetensors", header, "x", 1));
    const char *paths[] = {
        first, write_safetensors("two.safetensors", header, "y", 1)};
    assert_refused(paths, 2, SPC_EDUPLICATE, "one.safetensors");
    ck_assert_ptr_nonnull(strstr(error.text, "two.safetensors"));
    spc_weights_free(open_one(paths[0]));
}
END_TEST

#endif

#ifdef SPC_WITH_JANSSON

START_TEST(an_array_of_a_type_that_is_not_read_leaves_the_others)
{
    static const char *const others[][2] = {
        {A("F24", "1", 0, 3) "}", "of type F24"},
        {A("C64", "9", 0, 3) "}", "of type C64"}, /* the file states the size */
        {A("U8", "1,1,1,1,1,1,1,1,3", 0, 3) "}", "9 dimensions"},
    };

    for (int i = 0; i < COUNT(others); i++) {
        char header[512];
        snprintf(header, sizeof(header),
                 "{\"b\": {\"dtype\": \"I8\", \"shape\": [2], "
                 "\"data_offsets\": [3,5]}, \"a\": %s",
                 others[i][0]);
        const char *path =
            write_safetensors("o.safetensors", header, "abcde", 5);
        spc_weights *weights = open_one(path);
        ck_assert_int_eq(spc_weights_count(weights), 2);
        ck_assert_int_eq(spc_weights_find(weights, "b")->bytes, 2);
        spc_weights_free(weights);
        assert_unreadable(path, "a", others[i][1]);
    }
}
END_TEST

#endif

/* ---- .npy ---------------------------------------------------------------- */

static void put_npy(spc__buf *out, const char *header, const void *data,
                    size_t bytes)
{
    size_t length = strlen(header);
    const char start[] = {'\x93', 'N', 'U', 'M',          'P',
                          'Y',    1,   0,   (char)length, (char)(length >> 8)};

    spc__buf_append(out, start, sizeof(start));
    spc__buf_puts(out, header);
    spc__buf_append(out, data, bytes);
}

static const char *write_npy(const char *name, const char *header,
                             const void *data, size_t bytes)
{
    spc__buf file = SPC__BUF_INIT;
    put_npy(&file, header, data, bytes);
    const char *path = write_file(name, file.data, file.length);
    spc__buf_release(&file);
    return path;
}

#define NPY(type, order, shape)                                                \
    "{'descr': '" type "', 'fortran_order': " order ", 'shape': " shape ", }"

static const struct {
    const char *header;
    spc_array array; /* the name of the type is missing */
} arrays_of_numpy[] = {
    {NPY("<f4", "False", "(2, 3)"),
     {.type = SPC_ELEMENT_F32, .rank = 2, .shape = {2, 3}, .bytes = 24}},
    {NPY("<f2", "False", "(3,)"),
     {.type = SPC_ELEMENT_F16, .rank = 1, .shape = {3}, .bytes = 6}},
    {NPY("<f8", "True", "(2,)"), /* both orders of one axis are equal */
     {.type = SPC_ELEMENT_F64, .rank = 1, .shape = {2}, .bytes = 16}},
    {NPY("|b1", "False", "()"),
     {.type = SPC_ELEMENT_BOOL, .rank = 0, .bytes = 1}},
    {NPY(">i1", "False", "(4,)"), /* a byte has no byte order */
     {.type = SPC_ELEMENT_I8, .rank = 1, .shape = {4}, .bytes = 4}},
    {NPY("<u2", "False", "(1, 0, 7)"),
     {.type = SPC_ELEMENT_U16, .rank = 3, .shape = {1, 0, 7}, .bytes = 0}},
    {NPY("<i8", "False", "(1, 1, 1, 1, 2)"),
     {.type = SPC_ELEMENT_I64,
      .rank = 5,
      .shape = {1, 1, 1, 1, 2},
      .bytes = 16}},
};

START_TEST(a_suffix_may_be_of_any_case)
{
    spc_weights *weights = open_one(
        write_npy("A.Npy", NPY("<f4", "False", "(1,)"), "1234", 4));

    ck_assert_ptr_nonnull(spc_weights_find(weights, "A"));
    spc_weights_free(weights);
}
END_TEST

START_TEST(an_array_of_numpy_is_read)
{
    const char data[] = "abcdefghijklmnopqrstuvwxyz";
    spc_array want = arrays_of_numpy[_i].array;
    const char *path = write_npy("conv1.weight.npy", arrays_of_numpy[_i].header,
                                 data, want.bytes);
    spc_weights *weights = open_one(path);

    want.name = "conv1.weight";
    want.data = data;
    ck_assert_int_eq(spc_weights_count(weights), 1);
    assert_array(spc_weights_at(weights, 0), &want);
    spc_weights_free(weights);
}
END_TEST

/* In the file the elements are 0, 1, ... 5. */
static const struct {
    const char *header;
    float want[6];
} turned_arrays[] = {
    {NPY("<f4", "True", "(2, 3)"), {0, 2, 4, 1, 3, 5}},
    {NPY(">f4", "False", "(2, 3)"), {0, 1, 2, 3, 4, 5}},
    {NPY(">f4", "True", "(1, 3, 2)"), {0, 3, 1, 4, 2, 5}},
};

START_TEST(an_array_in_another_order_is_brought_into_ours)
{
    bool big = strstr(turned_arrays[_i].header, ">f4") != NULL;
    unsigned char data[24];
    float got[6];

    for (int i = 0; i < 6; i++) {
        float value = (float)i;
        unsigned char raw[4];
        memcpy(raw, &value, 4);
        for (int b = 0; b < 4; b++)
            data[4 * i + (big ? 3 - b : b)] = raw[b];
    }
    spc_weights *weights = open_one(
        write_npy("a.npy", turned_arrays[_i].header, data, sizeof(data)));
    ck_assert_int_eq(spc_array_floats(got, spc_weights_at(weights, 0), &error),
                     SPC_OK);
    for (int i = 0; i < 6; i++)
        ck_assert(got[i] == turned_arrays[_i].want[i]);
    spc_weights_free(weights);
}
END_TEST

static const struct {
    const char *header, *said;
} unread_arrays[] = {
    {NPY("|O8", "False", "(1,)"), "Python objects (|O8)"},
    {NPY("<f3", "False", "(1,)"), "a type that is not read (<f3)"},
    {NPY("<U3", "False", "(1,)"), "texts (<U3)"},
    {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,), }",
     "records"},
    {NPY("<f4", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "9 dimensions"},
};

START_TEST(an_array_of_numpy_that_is_no_numbers_is_unreadable)
{
    assert_unreadable(
        write_npy("a.npy", unread_arrays[_i].header, "01234567", 8), "a",
        unread_arrays[_i].said);
}
END_TEST

static const struct {
    const char *header;
    size_t bytes;
    spc_status status;
    const char *said;
} bad_arrays[] = {
    {NPY("<f4", "False", "(2,)"), 7, SPC_EFORMAT, "7 bytes of data"},
    {NPY("<f8", "False", "(4503599627370496, 4503599627370496)"), 0,
     SPC_EFORMAT, "(4503599627370496, 4503599627370496)"},
    {NPY("<f4", "False", "(1"), 4, SPC_EFORMAT, "'shape'"},
    {NPY("<f4", "False", "(-1,)"), 4, SPC_EFORMAT, "'shape'"},
};

START_TEST(a_bad_array_of_numpy_is_refused_in_one_sentence)
{
    const char *path = write_npy("a.npy", bad_arrays[_i].header, "0123456789",
                                 bad_arrays[_i].bytes);
    assert_refused(&path, 1, bad_arrays[_i].status, bad_arrays[_i].said);
}
END_TEST

/* ---- .npz ---------------------------------------------------------------- */

#ifdef SPC_WITH_LIBZIP

/* Adds `name` with these bytes, which must live until the archive is closed. */
static void add_member(zip_t *archive, const char *name, const spc__buf *data,
                       int method)
{
    zip_source_t *source =
        zip_source_buffer(archive, data->data, data->length, 0);
    zip_int64_t index = zip_file_add(archive, name, source, 0);

    ck_assert_int_ge(index, 0);
    ck_assert_int_eq(
        zip_set_file_compression(archive, (zip_uint64_t)index, method, 0), 0);
}

static const char *write_npz(const char *name, const char *member,
                             const spc__buf *data, int method)
{
    const char *path = at(name);
    zip_t *archive = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, NULL);

    ck_assert_ptr_nonnull(archive);
    add_member(archive, member, data, method);
    add_member(archive, "b.npy", data, ZIP_CM_STORE);
    ck_assert_int_eq(zip_close(archive), 0);
    return path;
}

START_TEST(the_arrays_of_an_archive_are_read)
{
    static const int methods[] = {ZIP_CM_STORE, ZIP_CM_DEFLATE};
    float values[64] = {0};
    spc__buf npy = SPC__BUF_INIT;
    spc_array want = {.name = "blocks.0/conv",
                      .type = SPC_ELEMENT_F32,
                      .rank = 2,
                      .shape = {4, 16},
                      .data = values,
                      .bytes = sizeof(values)};

    values[7] = 3;
    put_npy(&npy, NPY("<f4", "False", "(4, 16)"), values, sizeof(values));
    const char *path =
        write_npz("w.npz", "blocks.0/conv.npy", &npy, methods[_i]);
    spc_weights *weights = open_one(path);
    ck_assert_int_eq(spc_weights_count(weights), 2);
    assert_array(spc_weights_find(weights, "blocks.0/conv"), &want);
    ck_assert_ptr_nonnull(spc_weights_find(weights, "b"));
    ck_assert_ptr_nonnull(
        strstr(spc_weights_at(weights, 1)->file, "w.npz: blocks.0/conv.npy"));
    spc_weights_free(weights);
    spc__buf_release(&npy);
}
END_TEST

/* Replaces every occurrence of `from` by `to`, which has the same length. */
static void patch(const char *path, const char *from, const char *to,
                  size_t bytes)
{
    spc__buf file = SPC__BUF_INIT;
    int changed = 0;

    ck_assert_int_eq(spc__file_read(&file, path, 1 << 20, &error), SPC_OK);
    for (size_t i = 0; i + bytes <= file.length; i++)
        if (memcmp(file.data + i, from, bytes) == 0) {
            memcpy(file.data + i, to, bytes);
            changed++;
        }
    ck_assert_int_gt(changed, 0);
    ck_assert_int_eq(spc__file_write(path, file.data, file.length, &error),
                     SPC_OK);
    spc__buf_release(&file);
}

START_TEST(a_member_that_is_no_array_is_passed_over)
{
    spc__buf npy = SPC__BUF_INIT;

    put_npy(&npy, NPY("<f4", "False", "(2,)"), "12345678", 8);
    spc_weights *weights =
        open_one(write_npz("w.npz", "readme.txt", &npy, ZIP_CM_STORE));
    ck_assert_int_eq(spc_weights_count(weights), 1); /* b.npy */
    ck_assert_str_eq(spc_weights_at(weights, 0)->name, "b");
    spc_weights_free(weights);
    spc__buf_release(&npy);
}
END_TEST

START_TEST(a_damaged_archive_is_refused)
{
    spc__buf npy = SPC__BUF_INIT;

    put_npy(&npy, NPY("<f4", "False", "(2,)"), "12345678", 8);
    const char *path = write_npz("w.npz", "a.npy", &npy, ZIP_CM_STORE);
    patch(path, "12345678", "12345679", 8); /* the checksum stays as it is */
    assert_refused(&path, 1, SPC_EFORMAT, "is damaged");

    path = write_file("w.npz", "PK nonsense", 11);
    assert_refused(&path, 1, SPC_EFORMAT, "w.npz");
    spc__buf_release(&npy);
}
END_TEST

/* Changes the sizes of member "a.npy" in the directory to `bytes`. */
static void claim_size(const char *path, uint32_t bytes)
{
    spc__buf file = SPC__BUF_INIT;

    ck_assert_int_eq(spc__file_read(&file, path, 1 << 20, &error), SPC_OK);
    for (size_t i = 0; i + 46 <= file.length; i++)
        if (memcmp(file.data + i, "PK\1\2", 4) == 0)
            memcpy(file.data + i + 24, &bytes, 4);
    ck_assert_int_eq(spc__file_write(path, file.data, file.length, &error),
                     SPC_OK);
    spc__buf_release(&file);
}

START_TEST(a_size_that_cannot_be_is_refused_before_memory_is_asked_for)
{
    spc__buf npy = SPC__BUF_INIT;

    put_npy(&npy, NPY("<f4", "False", "(2,)"), "12345678", 8);
    const char *path = write_npz("w.npz", "a.npy", &npy, ZIP_CM_DEFLATE);
    claim_size(path, 4000000000u);
    assert_refused(&path, 1, SPC_EFORMAT, "said to have 4000000000 bytes");
    spc__buf_release(&npy);
}
END_TEST

#endif

/* ---- files --------------------------------------------------------------- */

START_TEST(what_is_no_file_of_weights_is_refused)
{
    const char *path = at("none.npy");
    assert_refused(&path, 1, SPC_ENOTFOUND, "none.npy");
    path = write_file("empty.npy", "", 0);
    assert_refused(&path, 1, SPC_EFORMAT, "empty");
    path = write_file("model.pkl", "x", 1);
    assert_refused(&path, 1, SPC_EINVAL, "expected .safetensors, .pth");
    path = at("pipe.npy");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    assert_refused(&path, 1, SPC_EIO, "not a plain file");
    path = NULL;
    spc_weights *weights;
    ck_assert_int_eq(spc_weights_open(&weights, &path, 1, &error), SPC_EINVAL);
}
END_TEST

START_TEST(questions_about_null_have_an_answer)
{
    spc_weights_free(NULL);
    spc_onnx_free(NULL);
    ck_assert_int_eq(spc_weights_count(NULL), 0);
    ck_assert_ptr_null(spc_weights_at(NULL, 0));
    ck_assert_ptr_null(spc_weights_find(NULL, "a"));
    ck_assert_int_eq(spc_array_elements(NULL), 0);
    ck_assert(!spc_engine_is_kernel(SPC_ENGINE_SPCONV2, NULL, NULL));
    ck_assert_str_eq(spc_engine_name(SPC_ENGINES), "?");
    ck_assert_str_eq(spc_element_name(SPC_ELEMENTS), "?");
    ck_assert_uint_eq(spc_element_bytes(SPC_ELEMENTS), 0);
}
END_TEST

/* ---- elements ------------------------------------------------------------ */

START_TEST(elements_become_floats)
{
    const double wide[] = {1, -0.1, 1e-300, INFINITY};
    const float single[] = {1, -0.1f, 0, INFINITY};
    uint16_t halves[3], bfloats[3];
    unsigned char odd[9];
    float out[4];

    spc_array a = {.name = "a",
                   .type = SPC_ELEMENT_F64,
                   .data = wide,
                   .bytes = sizeof(wide)};
    ck_assert_int_eq(spc_array_floats(out, &a, &error), SPC_OK);
    ck_assert_mem_eq(out, single, sizeof(single));
    for (int i = 0; i < 3; i++) {
        halves[i] = spc__half_from_float(0.5f * (float)i - 3);
        bfloats[i] = spc__bfloat_from_float(0.5f * (float)i - 3);
    }
    memcpy(odd + 1, halves, sizeof(halves)); /* unaligned */
    a = (spc_array){.name = "a",
                    .type = SPC_ELEMENT_F16,
                    .data = odd + 1,
                    .bytes = sizeof(halves)};
    for (int form = 0; form < 2; form++) {
        ck_assert_int_eq(spc_array_floats(out, &a, &error), SPC_OK);
        for (int i = 0; i < 3; i++)
            ck_assert(out[i] == 0.5f * (float)i - 3);
        memcpy(odd + 1, bfloats, sizeof(bfloats));
        a.type = SPC_ELEMENT_BF16;
    }
    a.type = SPC_ELEMENT_I16;
    ck_assert_int_eq(spc_array_floats(out, &a, &error), SPC_EUNSUPPORTED);
}
END_TEST

START_TEST(a_number_that_does_not_fit_is_named)
{
    const double wide[] = {1, 1e39};
    spc_array a = {.name = "conv",
                   .type = SPC_ELEMENT_F64,
                   .data = wide,
                   .bytes = sizeof(wide)};
    float out[2];

    ck_assert_int_eq(spc_array_floats(out, &a, &error), SPC_ERANGE);
    ck_assert_msg(strstr(error.text, "element 1 of 'conv' is 1e+39") != NULL,
                  "%s", error.text);
}
END_TEST

/* ---- normalisations ------------------------------------------------------ */

enum { CHANNELS = 33 };

typedef struct norm_values {
    float gamma[CHANNELS], beta[CHANNELS], mean[CHANNELS], variance[CHANNELS];
    float conv_bias[CHANNELS];
} norm_values;

static void draw_norm(norm_values *out, uint64_t seed)
{
    float *all = (float *)out;
    spc__random random;

    spc__random_init(&random, seed);
    for (size_t i = 0; i < sizeof(*out) / sizeof(float); i++)
        all[i] = (float)(4 * spc__random_unit(&random) - 2);
    for (int c = 0; c < CHANNELS; c++)
        out->variance[c] = fabsf(out->variance[c]);
    out->variance[5] = 0; /* the variance of a constant channel */
}

/*
 * A normalisation is y = (x + b - mean) / sqrt(variance + eps) * gamma + beta.
 * If scale and bias are each within half a unit in the last place of fp32, the
 * result differs by at most |x| |scale| 2^-24 + |bias| 2^-24. Computing them in
 * double precision adds 2^-50 of the terms, which is also allowed.
 */
START_TEST(a_folded_normalisation_is_the_normalisation)
{
    norm_values v;
    float scale[CHANNELS], bias[CHANNELS];
    double epsilon = _i % 2 == 0 ? 1e-3 : 1e-5;
    bool with_bias = _i / 2 % 2 == 0, affine = _i / 4 == 0;

    draw_norm(&v, 20 + (uint64_t)_i);
    spc_batch_norm norm = {affine ? v.gamma : NULL, affine ? v.beta : NULL,
                           v.mean, v.variance, epsilon};
    ck_assert_msg(spc_batch_norm_fold(scale, bias, CHANNELS, &norm,
                                      with_bias ? v.conv_bias : NULL,
                                      &error) == SPC_OK,
                  "%s", error.text);
    for (int c = 0; c < CHANNELS; c++) {
        double x = 1.5 - c, b = with_bias ? v.conv_bias[c] : 0;
        double root = sqrt((double)v.variance[c] + epsilon);
        double gamma = affine ? v.gamma[c] : 1, beta = affine ? v.beta[c] : 0;
        double want = (x + b - v.mean[c]) / root * gamma + beta;
        double got = x * scale[c] + bias[c];
        double terms =
            (fabs(x) + fabs(b) + fabs(v.mean[c])) / root * fabs(gamma) +
            fabs(beta);
        double allowed =
            0x1p-24 * (fabs(x * scale[c]) + fabs(bias[c])) + 0x1p-48 * terms;
        ck_assert_msg(fabs(got - want) <= allowed,
                      "channel %d: %.17g, not %.17g", c, got, want);
    }
}
END_TEST

START_TEST(a_variance_that_cannot_be_is_refused)
{
    const float mean[] = {0, 0}, negative[] = {1, -1}, nothing[] = {1, 0},
                huge[] = {FLT_MAX, 1}, small[] = {1e-38f, 1};
    float scale[2], bias[2];
    spc_batch_norm norm = {NULL, NULL, mean, negative, 1e-5};

    ck_assert_int_eq(spc_batch_norm_fold(scale, bias, 2, &norm, NULL, &error),
                     SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "channel 1"));
    norm.variance = nothing;
    norm.epsilon = 0;
    ck_assert_int_eq(spc_batch_norm_fold(scale, bias, 2, &norm, NULL, &error),
                     SPC_EINVAL);
    norm.epsilon = 1e-5;
    norm.variance = (float[]){1, INFINITY};
    ck_assert_int_eq(spc_batch_norm_fold(scale, bias, 2, &norm, NULL, &error),
                     SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "variance inf"));
    norm.epsilon = 0;
    norm.variance = small;
    norm.gamma = huge;
    ck_assert_int_eq(spc_batch_norm_fold(scale, bias, 2, &norm, NULL, &error),
                     SPC_ERANGE);
    norm.mean = NULL;
    ck_assert_int_eq(spc_batch_norm_fold(scale, bias, 2, &norm, NULL, &error),
                     SPC_EINVAL);
}
END_TEST

#ifdef SPC_WITH_JANSSON

static spc_array vector_of(const char *name, const float *values, int count)
{
    return (spc_array){.name = name,
                       .type = SPC_ELEMENT_F32,
                       .rank = 1,
                       .shape = {count},
                       .data = values,
                       .bytes = (size_t)count * sizeof(*values)};
}

START_TEST(a_normalisation_is_found_by_name)
{
    norm_values v;
    float want[2][CHANNELS], got[2][CHANNELS];

    draw_norm(&v, 3);
    spc_array arrays[] = {vector_of("bn1.weight", v.gamma, CHANNELS),
                          vector_of("bn1.bias", v.beta, CHANNELS),
                          vector_of("bn1.running_mean", v.mean, CHANNELS),
                          vector_of("bn1.running_var", v.variance, CHANNELS),
                          vector_of("bn2.running_mean", v.mean, CHANNELS),
                          vector_of("bn2.running_var", v.variance, 1),
                          vector_of("bn3.running_mean", v.mean, CHANNELS)};
    const char *path = at("bn.safetensors");
    ck_assert_int_eq(spc_weights_save(path, arrays, 7, NULL, &error), SPC_OK);
    spc_weights *weights = open_one(path);
    spc_batch_norm norm = {v.gamma, v.beta, v.mean, v.variance, 1e-3};
    spc_batch_norm_fold(want[0], want[1], CHANNELS, &norm, NULL, &error);

    ck_assert_msg(spc_batch_norm_load(got[0], got[1], CHANNELS, weights, "bn1",
                                      1e-3, NULL, &error) == SPC_OK,
                  "%s", error.text);
    ck_assert_mem_eq(got, want, sizeof(want));
    ck_assert_int_eq(spc_batch_norm_load(got[0], got[1], CHANNELS, weights,
                                         "bn2", 1e-3, NULL, &error),
                     SPC_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "'bn2.running_var' has the shape "
                                             "(1)"));
    ck_assert_int_eq(spc_batch_norm_load(got[0], got[1], CHANNELS, weights,
                                         "bn3", 1e-3, NULL, &error),
                     SPC_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "'bn3.running_var'"));
    spc_weights_free(weights);
}
END_TEST

#endif

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, make_folder, remove_folder);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static void add_files(Suite *suite)
{
    TCase *files = add_case(suite, "files");

#ifdef SPC_WITH_JANSSON
    tcase_add_test(files, what_was_saved_is_read_back);
    tcase_add_loop_test(files, a_bad_header_is_refused_in_one_sentence, 0,
                        COUNT(bad_headers));
    tcase_add_test(files, a_length_past_the_end_is_refused);
    tcase_add_test(files, an_array_of_two_files_is_refused_with_both_names);
    tcase_add_test(files,
                   an_array_of_a_type_that_is_not_read_leaves_the_others);
#endif
    tcase_add_test(files, a_suffix_may_be_of_any_case);
    tcase_add_loop_test(files, an_array_of_numpy_is_read, 0,
                        COUNT(arrays_of_numpy));
    tcase_add_loop_test(files, an_array_in_another_order_is_brought_into_ours,
                        0, COUNT(turned_arrays));
    tcase_add_loop_test(files,
                        an_array_of_numpy_that_is_no_numbers_is_unreadable, 0,
                        COUNT(unread_arrays));
    tcase_add_loop_test(files, a_bad_array_of_numpy_is_refused_in_one_sentence,
                        0, COUNT(bad_arrays));
#ifdef SPC_WITH_LIBZIP
    tcase_add_loop_test(files, the_arrays_of_an_archive_are_read, 0, 2);
    tcase_add_test(files, a_member_that_is_no_array_is_passed_over);
    tcase_add_test(files, a_damaged_archive_is_refused);
    tcase_add_test(files,
                   a_size_that_cannot_be_is_refused_before_memory_is_asked_for);
#endif
    tcase_add_test(files, what_is_no_file_of_weights_is_refused);
    tcase_add_test(files, questions_about_null_have_an_answer);
}

int main(void)
{
    Suite *suite = suite_create("weights");
    TCase *values;

    add_files(suite);
    values = add_case(suite, "values");
    tcase_add_test(values, elements_become_floats);
    tcase_add_test(values, a_number_that_does_not_fit_is_named);
    tcase_add_loop_test(values, a_folded_normalisation_is_the_normalisation, 0,
                        8);
    tcase_add_test(values, a_variance_that_cannot_be_is_refused);
#ifdef SPC_WITH_JANSSON
    tcase_add_test(values, a_normalisation_is_found_by_name);
#else
    suite_note_skip("built without libjansson: no safetensors files");
#endif
    return run_suite(suite);
}
