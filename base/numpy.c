/* SPDX-License-Identifier: Apache-2.0 */
/* numpy.c - the header of a NumPy array. */
#include "base/numpy.h"

#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest accepted count. Products of it with an element's bytes are
 * checked (check_size). */
static const int64_t most = (int64_t)1 << 52;
/* Limits a field's bytes and repeats, so that their sums cannot overflow. */
static const int64_t most_repeats = 1 << 16;

static spc_status bad(const char *path, spc_error *error, const char *what)
{
    return spc__fail(error, SPC_EFORMAT, "cannot read '%s': %s", path, what);
}

static void set_unreadable(spc__numpy *out, const char *what, const char *type)
{
    if (out->unreadable[0] == '\0')
        snprintf(out->unreadable, sizeof(out->unreadable), "%s (%.24s)", what,
                 type);
}

/* ---- the literals of Python ---------------------------------------------- */

static void skip_spaces(const char **at)
{
    while (**at == ' ' || **at == '\t' || **at == '\n')
        (*at)++;
}

static bool next_is(const char **at, char c)
{
    skip_spaces(at);
    return **at == c;
}

static bool take(const char **at, char c)
{
    if (!next_is(at, c))
        return false;
    (*at)++;
    return true;
}

/* Reads 'text' or "text". *out is cut to `bytes`. Backslashes are kept. */
static bool take_text(char *out, size_t bytes, const char **at)
{
    size_t length = 0;

    skip_spaces(at);
    char quote = **at;
    if (quote != '\'' && quote != '"')
        return false;
    const char *c = *at + 1;
    while (*c != quote && *c != '\0') {
        int count = c[0] == '\\' && c[1] != '\0' ? 2 : 1;
        for (; count > 0; count--, c++)
            if (length + 1 < bytes)
                out[length++] = *c;
    }
    out[length] = '\0';
    /* The text must not reach past the end of the header. */
    *at = c + (*c != '\0');
    return *c == quote;
}

/* Reads a count. Python 2 wrote 1000L. */
static bool take_count(int64_t *out, const char **at)
{
    char *end;

    skip_spaces(at);
    if (**at < '0' || **at > '9')
        return false;
    unsigned long long value = strtoull(*at, &end, 10);
    /* A larger number is impossible anyway, and sums of such counts still fit
     * 64 bits. */
    *out = value > (unsigned long long)most ? most : (int64_t)value;
    *at = end + (*end == 'L');
    return true;
}

/* Reads True or False. */
static bool take_bool(bool *out, const char **at)
{
    skip_spaces(at);
    *out = strncmp(*at, "True", 4) == 0;
    if (!*out && strncmp(*at, "False", 5) != 0)
        return false;
    *at += *out ? 4 : 5;
    return true;
}

/* ---- types --------------------------------------------------------------- */

/* NumPy types that this reader does not accept. */
static const struct {
    char kind;
    const char *what;
} others[] = {
    {'c', "its elements are complex numbers"},
    {'O', "its elements are Python objects"},
    {'U', "its elements are texts"},
    {'S', "its elements are bytes"},
    {'a', "its elements are bytes"},
    {'V', "its elements are bytes without a type"},
    {'M', "its elements are dates"},
    {'m', "its elements are times"},
};

/* True for NumPy's numeric types: b1, i and u of 1 to 8 bytes, f of 2 to 8. */
static bool is_number(char kind, int64_t bytes)
{
    bool is_size = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;

    return (kind == 'b' && bytes == 1) ||
           ((kind == 'i' || kind == 'u') && is_size) ||
           (kind == 'f' && is_size && bytes > 1);
}

/* Returns a phrase for elements of a kind that is not supported. */
static const char *name_kind(char kind)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (others[i].kind == kind)
            return others[i].what;
    return "its elements are of a type that is not read";
}

/* Reads "<f4", "|b1", "|O", "<U10" or "<M8[D]". *bytes is 0 if the text gives
 * no size. A text has 4 bytes per character. */
static bool read_type(spc__numpy_field *out, int64_t *bytes, const char *type)
{
    const char *at = type + 2;
    char kind = type[0] != '\0' ? type[1] : '\0';
    bool is_letter =
        (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z');

    *bytes = 0;
    if (!is_letter || strchr("<>|=", type[0]) == NULL ||
        (*at != '\0' && !take_count(bytes, &at)) || (*at != '\0' && *at != '['))
        return false;
    *bytes *= kind == 'U' ? 4 : 1;
    out->kind = kind;
    out->big_endian = type[0] == '>';
    out->bytes = is_number(kind, *bytes) ? (int)*bytes : 0;
    return true;
}

/* Adds `count` adjacent fields of one type. Padding bytes of a record are not
 * fields. */
static void add_fields(spc__numpy *out, const spc__numpy_field *field,
                       int64_t bytes, int64_t count, const char *type)
{
    bool is_padding = field->kind == 'V' && field->name[0] == '\0';
    size_t start = out->item_bytes;

    out->item_bytes += (size_t)(bytes * count);
    if (is_padding && out->is_record)
        return;
    if (field->bytes == 0)
        set_unreadable(out, name_kind(field->kind), type);
    for (int64_t i = 0; i < count && field->bytes > 0; i++) {
        if (out->field_count == SPC__NUMPY_FIELDS) {
            set_unreadable(out, "its records have more than 32 numbers", type);
            return;
        }
        spc__numpy_field *own = &out->fields[out->field_count++];
        *own = *field;
        own->offset = start + (size_t)(bytes * i);
    }
}

/* Reads the shape, such as (3,), after a field's type. *count is the
 * product. */
static bool take_repeats(int64_t *count, const char **at)
{
    if (!take(at, '('))
        return false;
    while (!next_is(at, ')')) {
        int64_t size = 0;
        if (!take_count(&size, at) || size > most_repeats)
            return false;
        *count *= size;
        if (*count > most_repeats)
            return false;
        if (!take(at, ',') && !next_is(at, ')'))
            return false;
    }
    return take(at, ')');
}

/* Reads a name, or a title and a name: 'x' or ('Position', 'x'). */
static bool take_name(spc__numpy_field *out, const char **at)
{
    char title[4];

    if (!take(at, '('))
        return take_text(out->name, sizeof(out->name), at);
    return take_text(title, sizeof(title), at) && take(at, ',') &&
           take_text(out->name, sizeof(out->name), at) && take(at, ')');
}

/* Reads ('x', '<f4') or ('xyz', '<f4', (3,)). */
static bool take_field(spc__numpy *out, const char **at)
{
    spc__numpy_field field = {0};
    char type[64];
    int64_t bytes = 0, count = 1;

    if (!take(at, '(') || !take_name(&field, at) || !take(at, ','))
        return false;
    if (!take_text(type, sizeof(type), at) ||
        !read_type(&field, &bytes, type) || bytes > most_repeats)
        return false;
    if (take(at, ',') && !next_is(at, ')') && !take_repeats(&count, at))
        return false;
    add_fields(out, &field, bytes, count, type);
    return take(at, ')');
}

/* Skips a list of any content. Returns false if it does not end. */
static bool skip_list(const char **at)
{
    int depth = 0;
    char unused[2];

    do {
        skip_spaces(at);
        if (**at == '\'' || **at == '"') {
            if (!take_text(unused, sizeof(unused), at))
                return false;
            continue;
        }
        depth += (**at == '[' || **at == '(') - (**at == ']' || **at == ')');
        if (*(*at)++ == '\0')
            return false;
    } while (depth > 0);
    return true;
}

/* Reads a list of fields. Other forms, such as nested records, are
 * unreadable. */
static bool take_record(spc__numpy *out, const char **at)
{
    const char *whole = *at;
    bool is_right = take(at, '[');

    out->is_record = true;
    while (is_right && !take(at, ']'))
        is_right = take_field(out, at) && (take(at, ',') || next_is(at, ']'));
    if (is_right && out->field_count == 0)
        set_unreadable(out, "its elements are records without a number", "[]");
    if (is_right)
        return true;
    /* The header's other fields can still be read, so the record is skipped as
     * a whole. */
    *at = whole;
    out->item_bytes = 0;
    set_unreadable(out, "its elements are records of a form that is not read",
                   "[...]");
    return skip_list(at);
}

/* Reads the type of an element: a text such as "<f4", or a list of fields in
 * brackets. */
static bool take_descr(spc__numpy *out, const char **at)
{
    spc__numpy_field field = {0};
    char type[64];
    int64_t bytes;

    if (next_is(at, '['))
        return take_record(out, at);
    if (!take_text(type, sizeof(type), at) || !read_type(&field, &bytes, type))
        return false;
    add_fields(out, &field, bytes, 1, type);
    return true;
}

/* ---- the header ---------------------------------------------------------- */

/* Reads (), (5,) or (1000, 3). */
static bool take_shape(spc__numpy *out, const char **at)
{
    if (!take(at, '('))
        return false;
    out->elements = 1;
    while (!next_is(at, ')')) {
        int64_t size = 0;
        if (!take_count(&size, at))
            return false;
        if (__builtin_mul_overflow(out->elements, size, &out->elements))
            out->elements = -1; /* too large; reported later */
        if (out->rank < SPC__NUMPY_RANK)
            out->shape[out->rank] = size;
        out->rank++;
        if (!take(at, ',') && !next_is(at, ')'))
            return false;
    }
    if (out->rank > SPC__NUMPY_RANK)
        snprintf(out->unreadable, sizeof(out->unreadable),
                 "it has %d dimensions, and at most 8 are read", out->rank);
    return take(at, ')');
}

/* Reads the keys in any order. */
static spc_status read_fields(spc__numpy *out, const char *header,
                              spc_error *error)
{
    bool has_type = false, has_order = false, has_shape = false;
    const char *at = header;
    char key[24];

    if (!take(&at, '{'))
        return bad(out->path, error, "its header is not a Python dictionary");
    while (take_text(key, sizeof(key), &at) && take(&at, ':')) {
        if (strcmp(key, "descr") == 0)
            has_type = take_descr(out, &at);
        else if (strcmp(key, "fortran_order") == 0)
            has_order = take_bool(&out->fortran, &at);
        else if (strcmp(key, "shape") == 0)
            has_shape = take_shape(out, &at);
        if (!take(&at, ','))
            break;
    }
    if (!has_type)
        return bad(out->path, error,
                   "the header's 'descr' is not a type such as '<f4'");
    if (!has_order)
        return bad(out->path, error,
                   "the header's 'fortran_order' is neither True nor False");
    if (!has_shape)
        return bad(out->path, error,
                   "the header's 'shape' is not a list of numbers such as "
                   "(1000, 3)");
    return SPC_OK;
}

/* Finds the header's text in the file. */
static spc_status find_header(size_t *start, size_t *length, const char *path,
                              const unsigned char *bytes, size_t count,
                              spc_error *error)
{
    if (count < 6 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return bad(path, error,
                   "byte 0 is not the start of a .npy file (\\x93NUMPY)");
    if (count < 12)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': it ends at byte %zu inside the "
                         "header",
                         path, count);
    if (bytes[6] < 1 || bytes[6] > 3)
        return spc__fail(
            error, SPC_EFORMAT,
            "cannot read '%s': byte 6 is format version %d; expected 1, 2 or 3",
            path, bytes[6]);
    *start = bytes[6] == 1 ? 10 : 12;
    *length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] != 1)
        *length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    /* count is at least 12, so the difference cannot wrap. */
    if (*length > count - *start)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': byte 8 announces a header of %zu "
                         "bytes, but only %zu follow",
                         path, *length, count - *start);
    return SPC_OK;
}

/* Prints the shape, as in "(4, 3)". Only the first 8 dimensions are printed. */
static void print_shape(char *out, size_t bytes, const spc__numpy *array)
{
    size_t used = (size_t)snprintf(out, bytes, "(");

    for (int i = 0; i < array->rank && i < SPC__NUMPY_RANK && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%lld",
                                 i > 0 ? ", " : "", (long long)array->shape[i]);
    if (used < bytes)
        snprintf(out + used, bytes - used, ")");
}

/* Compares the file's length with the shape. For texts and objects the header
 * does not always give the length. */
static spc_status check_size(const spc__numpy *array, size_t have,
                             spc_error *error)
{
    char shape[8 * 22];
    int64_t want;

    if (array->unreadable[0] != '\0' ||
        (array->elements >= 0 &&
         !__builtin_mul_overflow(array->elements, (int64_t)array->item_bytes,
                                 &want) &&
         (uint64_t)want == have))
        return SPC_OK;
    print_shape(shape, sizeof(shape), array);
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': %zu bytes of data follow the header at "
                     "byte %zu, which is not what its shape %s takes, with %zu "
                     "bytes an element",
                     array->path, have, array->data_start, shape,
                     array->item_bytes);
}

spc_status spc__numpy_open(spc__numpy *out, const char *path, const void *data,
                           size_t bytes, spc_error *error)
{
    size_t start = 0, length = 0;
    spc_status status;

    *out = (spc__numpy){.path = path};
    status = find_header(&start, &length, path, data, bytes, error);
    if (status != SPC_OK)
        return status;
    char *header = strndup((const char *)data + start, length);
    if (header == NULL)
        return spc__fail_memory(error, length + 1);
    status = read_fields(out, header, error);
    free(header);
    out->data_start = start + length;
    out->data = (const unsigned char *)data + out->data_start;
    return status == SPC_OK ? check_size(out, bytes - out->data_start, error)
                            : status;
}

spc_status spc__numpy_check(const spc__numpy *array, spc_error *error)
{
    if (array->unreadable[0] == '\0')
        return SPC_OK;
    return spc__fail(error, SPC_EUNSUPPORTED, "cannot read '%s': %s",
                     array->path, array->unreadable);
}
