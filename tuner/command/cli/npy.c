/* npy.c - NumPy's files, as the command reads and writes them. */
#include "command/cli/npy.h"

#include "base/dtype.h"
#include "command/cli/cli.h"
#include "command/cli/out_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { START = 10, HEADER_MOST = 4096 };

/* ---- reading ------------------------------------------------------------- */

typedef struct array {
    const char *path;
    char type[8]; /* "<f4" */
    int64_t rows, columns;
    size_t item_bytes;
    char *data;
} array;

static spc_status bad(const array *a, const char *what)
{
    return cli_fail(SPC_EFORMAT, "cannot read '%s': %s", a->path, what);
}

/* What stands behind 'NAME': in the header. */
static const char *value_of(const char *header, const char *name)
{
    const char *at = strstr(header, name);

    at = at != NULL ? strchr(at, ':') : NULL;
    return at != NULL ? at + 1 + strspn(at + 1, " ") : "";
}

static spc_status read_header(array *a, const char *header)
{
    const char *order = value_of(header, "'fortran_order'");
    long long rows = -1, columns = -1;
    int end = 0;

    if (sscanf(value_of(header, "'descr'"), "'%7[^']'", a->type) != 1)
        return bad(a, "the header has no 'descr'");
    if (strncmp(order, "False", 5) != 0)
        return bad(a, "its rows must follow each other (fortran_order False)");
    sscanf(value_of(header, "'shape'"), "(%lld, %lld)%n", &rows, &columns,
           &end);
    if (end == 0 || rows < 0 || rows > INT32_MAX || columns < 1 ||
        columns > 65536)
        return bad(a, "its shape must be (rows, columns)");
    a->rows = rows;
    a->columns = columns;
    a->item_bytes = (size_t)(a->type[2] - '0');
    if (a->type[0] != '<' || strlen(a->type) != 3 ||
        strchr("248", a->type[2]) == NULL)
        return bad(a, "its numbers must be <f2, <f4, <f8, <i4 or <i8");
    return SPC_OK;
}

/* A header says more easily than a file holds: nothing is asked for before the
 * length is known to fit. Of a pipe it is not known. */
static bool can_hold(FILE *file, size_t bytes)
{
    struct stat facts;
    long at = ftell(file);

    return fstat(fileno(file), &facts) != 0 || !S_ISREG(facts.st_mode) ||
           at < 0 || (uint64_t)facts.st_size == (uint64_t)at + bytes;
}

static spc_status read_data(array *a, FILE *file)
{
    size_t bytes = (size_t)a->rows * (size_t)a->columns * a->item_bytes;
    char more;

    if (!can_hold(file, bytes))
        return bad(a, "it has another length than its shape says");
    a->data = malloc(bytes + 1);
    if (a->data == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if (fread(a->data, 1, bytes, file) != bytes ||
        fread(&more, 1, 1, file) != 0)
        return bad(a, "it has another length than its shape says");
    return SPC_OK;
}

static spc_status read_file(array *a, FILE *file)
{
    unsigned char start[START];
    char header[HEADER_MOST + 1];
    size_t length;
    spc_status status;

    if (fread(start, 1, START, file) != START ||
        memcmp(start, "\x93NUMPY\x01", 7) != 0)
        return bad(a, "it is no .npy file of version 1");
    length = (size_t)start[8] | (size_t)start[9] << 8;
    if (length > HEADER_MOST || fread(header, 1, length, file) != length)
        return bad(a, "its header has another length than it says");
    header[length] = '\0';
    status = read_header(a, header);
    return status == SPC_OK ? read_data(a, file) : status;
}

/* `a->data` is the caller's also on failure. */
static spc_status read_array(array *a, const char *path)
{
    FILE *file = fopen(path, "rb");
    spc_status status;

    *a = (array){.path = path};
    if (file == NULL)
        return cli_fail(SPC_ENOTFOUND, "cannot open '%s'", path);
    status = read_file(a, file);
    fclose(file);
    return status;
}

static float float_at(const array *a, size_t i)
{
    const char *at = a->data + i * a->item_bytes;
    uint16_t half;
    float narrow;
    double wide;

    if (a->item_bytes == 2) {
        memcpy(&half, at, sizeof(half));
        return spc__half_to_float(half);
    }
    if (a->item_bytes == 4) {
        memcpy(&narrow, at, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, at, sizeof(wide));
    return (float)wide;
}

static int64_t int_at(const array *a, size_t i)
{
    const char *at = a->data + i * a->item_bytes;
    int32_t narrow;
    int64_t wide;

    if (a->item_bytes == 4) {
        memcpy(&narrow, at, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, at, sizeof(wide));
    return wide;
}

spc_status npy_read_floats(npy_floats *out, const char *path)
{
    array a;
    spc_status status = read_array(&a, path);
    size_t count = (size_t)a.rows * (size_t)a.columns;

    *out = (npy_floats){a.rows, a.columns, NULL};
    if (status == SPC_OK && a.type[1] != 'f')
        status = bad(&a, "features must be <f2, <f4 or <f8");
    if (status == SPC_OK &&
        (out->values = malloc((count + 1) * sizeof(float))) == NULL)
        status = cli_fail(SPC_ENOMEM, "out of memory");
    for (size_t i = 0; i < count && status == SPC_OK; i++)
        out->values[i] = float_at(&a, i);
    free(a.data);
    return status;
}

spc_status npy_read_ints(npy_ints *out, const char *path)
{
    array a;
    spc_status status = read_array(&a, path);
    size_t count = (size_t)a.rows * (size_t)a.columns;

    *out = (npy_ints){a.rows, a.columns, NULL};
    if (status == SPC_OK && (a.type[1] != 'i' || a.item_bytes < 4))
        status = bad(&a, "coordinates must be <i4 or <i8");
    if (status == SPC_OK &&
        (out->values = malloc((count + 1) * sizeof(int32_t))) == NULL)
        status = cli_fail(SPC_ENOMEM, "out of memory");
    for (size_t i = 0; i < count && status == SPC_OK; i++) {
        int64_t value = int_at(&a, i);
        out->values[i] = (int32_t)value;
        if (value != out->values[i])
            status = bad(&a, "a coordinate does not fit 32 bits");
    }
    free(a.data);
    return status;
}

/* ---- writing ------------------------------------------------------------- */

/* Data begins at a multiple of 64 bytes, as NumPy itself has it. */
static int write_header(char *out, size_t bytes, const char *type,
                        const int64_t *shape, int dimensions)
{
    int at = snprintf(
        out, bytes, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);

    for (int i = 0; i < dimensions; i++)
        at += snprintf(out + at, bytes - (size_t)at, "%s%lld",
                       i > 0 ? ", " : "", (long long)shape[i]);
    at += snprintf(out + at, bytes - (size_t)at,
                   dimensions == 1 ? ",), }" : "), }");
    while ((START + at + 1) % 64 != 0)
        out[at++] = ' ';
    out[at++] = '\n';
    return at;
}

spc_status npy_write(const char *path, const char *type, const int64_t *shape,
                     int dimensions, const void *data, size_t bytes)
{
    char header[320];
    int length = write_header(header, sizeof(header), type, shape, dimensions);
    unsigned char start[START] = "\x93NUMPY\x01";
    const out_piece pieces[] = {
        {start, START}, {header, (size_t)length}, {data, bytes}};

    start[8] = (unsigned char)(length & 0xff);
    start[9] = (unsigned char)(length >> 8);
    return out_file_put(path, pieces, 3);
}
