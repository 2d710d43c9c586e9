/* npy.c - the header of a NumPy array. */
#include "npy.h"

#include "error.h"
#include <stdlib.h>
#include <string.h>

static const int64_t most = (int64_t)1 << 52;

static spc_status bad(const char *path, spc_error *error, const char *what)
{
    return spc__fail(error, SPC_EFORMAT, "cannot read '%s': %s", path, what);
}

static const char *skip_spaces(const char *text)
{
    while (*text == ' ' || *text == '\t' || *text == '\n')
        text++;
    return text;
}

/* The value behind 'key':, or NULL. */
static const char *find_value(const char *header, const char *key)
{
    const char *found = strstr(header, key);
    if (found == NULL)
        return NULL;
    found = skip_spaces(found + strlen(key));
    return *found == ':' ? skip_spaces(found + 1) : NULL;
}

/* '<f4', "|i1", '>i8'. */
static bool read_descr(spc__npy *out, const char *text)
{
    bool is_quoted = text != NULL && (*text == '\'' || *text == '"');
    if (!is_quoted || strlen(text) < 5 || strchr("<>|=", text[1]) == NULL ||
        text[3] < '1' || text[3] > '9' || text[4] != *text)
        return false;
    out->big_endian = text[1] == '>';
    out->kind = text[2];
    out->item_bytes = text[3] - '0';
    return true;
}

static bool read_count(int64_t *out, const char **text)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    unsigned long long value = strtoull(*text, &end, 10);
    *out = value > (unsigned long long)most ? most : (int64_t)value;
    *text = skip_spaces(end);
    return true;
}

/* (), (5,), (1000, 3). */
static bool read_shape(spc__npy *out, const char *text)
{
    if (text == NULL || *text != '(')
        return false;
    text = skip_spaces(text + 1);
    for (out->rank = 0; *text != ')'; out->rank++) {
        if (out->rank == SPC__NPY_RANK ||
            !read_count(&out->shape[out->rank], &text))
            return false;
        if (*text == ',')
            text = skip_spaces(text + 1);
        else if (*text != ')')
            return false;
    }
    return true;
}

static spc_status read_fields(spc__npy *out, const char *path,
                              const char *header, spc_error *error)
{
    const char *order = find_value(header, "'fortran_order'");

    if (!read_descr(out, find_value(header, "'descr'")))
        return bad(path, error,
                   "the header's 'descr' is not a plain type such as '<f4'");
    out->fortran = order != NULL && strncmp(order, "True", 4) == 0;
    if (!out->fortran && (order == NULL || strncmp(order, "False", 5) != 0))
        return bad(path, error,
                   "the header's 'fortran_order' is neither True nor False");
    if (!read_shape(out, find_value(header, "'shape'")))
        return bad(path, error,
                   "the header's 'shape' is not a list of at most 8 numbers "
                   "such as (1000, 3)");
    return SPC_OK;
}

/* Where the text of the header lies. */
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
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': byte 6 says format version %d; 1, "
                         "2 and 3 are known",
                         path, bytes[6]);
    *start = bytes[6] == 1 ? 10 : 12;
    *length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] != 1)
        *length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (*length > count - *start)
        return spc__fail(error, SPC_EFORMAT,
                         "cannot read '%s': byte 8 announces a header of %zu "
                         "bytes, but only %zu follow",
                         path, *length, count - *start);
    return SPC_OK;
}

spc_status spc__npy_read(spc__npy *out, const char *path, const void *data,
                         size_t bytes, spc_error *error)
{
    size_t start = 0, length = 0;
    spc_status status;

    memset(out, 0, sizeof(*out));
    status = find_header(&start, &length, path, data, bytes, error);
    if (status != SPC_OK)
        return status;
    char *header = strndup((const char *)data + start, length);
    if (header == NULL)
        return spc__fail_memory(error, length + 1);
    status = read_fields(out, path, header, error);
    free(header);
    out->data = start + length;
    return status;
}
