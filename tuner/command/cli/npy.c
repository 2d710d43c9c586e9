/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - reads and writes NumPy's files for the command. */
#include "command/cli/npy.h"

#include "base/file.h"
#include "base/plural.h"
#include "command/cli/cli.h"
#include "command/cli/out_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { START = 10 };

/* ---- reading ------------------------------------------------------------- */

enum { FILE_BYTES_MOST = 1 << 30 };

/* Describes an array of an archive as one of a file. */
static spc_status describe(spc__numpy *out, const char *path,
                           const spc_array *from)
{
    static const char kinds[SPC_ELEMENTS] = {
        [SPC_ELEMENT_BOOL] = 'b', [SPC_ELEMENT_U8] = 'u',
        [SPC_ELEMENT_I8] = 'i',   [SPC_ELEMENT_U16] = 'u',
        [SPC_ELEMENT_I16] = 'i',  [SPC_ELEMENT_F16] = 'f',
        [SPC_ELEMENT_U32] = 'u',  [SPC_ELEMENT_I32] = 'i',
        [SPC_ELEMENT_F32] = 'f',  [SPC_ELEMENT_U64] = 'u',
        [SPC_ELEMENT_I64] = 'i',  [SPC_ELEMENT_F64] = 'f'};

    if (from->unreadable != NULL)
        return cli_fail(SPC_EUNSUPPORTED, "cannot read '%s' of '%s': %s",
                        from->name, path, from->unreadable);
    *out = (spc__numpy){.path = path,
                        .field_count = 1,
                        .item_bytes = spc_element_bytes(from->type),
                        .rank = from->rank,
                        .elements = spc_array_elements(from),
                        .data = from->data};
    out->fields[0].kind = kinds[from->type];
    out->fields[0].bytes = (int)out->item_bytes;
    memcpy(out->shape, from->shape, sizeof(out->shape));
    return SPC_OK;
}

/* Chooses the array of an archive; `name` may be NULL. */
static spc_status choose(const spc_array **out, const npy_table *table,
                         const char *path, const char *name, const char *usual)
{
    int count = spc_weights_count(table->archive);

    *out = name == NULL && count == 1
               ? spc_weights_at(table->archive, 0)
               : spc_weights_find(table->archive, name != NULL ? name : usual);
    if (*out != NULL)
        return SPC_OK;
    if (name != NULL)
        return cli_fail(SPC_ENOTFOUND,
                        "'%s' has no array '%s'; 'spctune weights' lists them",
                        path, name);
    return cli_fail(SPC_EINVAL,
                    "'%s' has %s, none named '%s': name one, as in %s:NAME; "
                    "'spctune weights' lists them",
                    path, spc__count(count, "array"), usual, path);
}

static spc_status open_archive(npy_table *out, const char *path,
                               const char *name, const char *usual)
{
    spc_error error = {0};
    const spc_array *array;
    spc_status status = spc_weights_open(&out->archive, &path, 1, &error);

    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    status = choose(&array, out, path, name, usual);
    return status == SPC_OK ? describe(&out->array, array->file, array)
                            : status;
}

/* Splits FILE.npz:NAME. *name: NULL without one. Returns FILE, which the
 * caller frees, or NULL if the file is not an archive or memory is short. */
static char *archive_of(const char **name, const char *path)
{
    const char *end = NULL, *at = path;

    while ((at = strstr(at, ".npz")) != NULL) {
        at += 4;
        /* Takes the last ".npz:", as a folder's name may contain ".npz" too. */
        if (*at == ':' || *at == '\0')
            end = at;
    }
    if (end == NULL)
        return NULL;
    *name = *end == ':' ? end + 1 : NULL;
    return strndup(path, (size_t)(end - path));
}

static spc_status open_file(npy_table *out, const char *path)
{
    spc_error error = {0};
    spc_status status =
        spc__file_read(&out->text, path, FILE_BYTES_MOST, &error);

    if (status == SPC_OK)
        status = spc__numpy_open(&out->array, path, out->text.data,
                                 out->text.length, &error);
    return status == SPC_OK ? status : cli_fail(status, "%s", error.text);
}

spc_status npy_open(npy_table *out, const char *path, const char *usual)
{
    const char *name;
    char *archive = archive_of(&name, path);
    spc_error error = {0};
    spc_status status;

    *out = (npy_table){.text = SPC__BUF_INIT};
    status = archive != NULL ? open_archive(out, archive, name, usual)
                             : open_file(out, path);
    free(archive);
    if (status != SPC_OK)
        return status;
    status = spc__numpy_rows_of(&out->rows, &out->array, &error);
    return status == SPC_OK ? status : cli_fail(status, "%s", error.text);
}

void npy_close(npy_table *table)
{
    spc__buf_release(&table->text);
    spc_weights_free(table->archive);
}

spc_status npy_floats(float **out, const npy_table *table)
{
    const spc__numpy_rows *rows = &table->rows;
    size_t count = (size_t)rows->count * (size_t)rows->columns;
    float *to = malloc((count + 1) * sizeof(*to));

    *out = to;
    if (to == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int64_t row = 0; row < rows->count; row++)
        for (int64_t column = 0; column < rows->columns; column++)
            *to++ = (float)spc__numpy_float(rows, row, column);
    return SPC_OK;
}

/* ---- writing ------------------------------------------------------------- */

/* Data begins at a multiple of 64 bytes, as in NumPy's own files. */
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
    const spc__piece pieces[] = {
        {start, START}, {header, (size_t)length}, {data, bytes}};

    /* Writes byte by byte, as the format is little-endian on every machine. */
    start[8] = (unsigned char)(length & 0xff);
    start[9] = (unsigned char)(length >> 8);
    return out_file_put(path, pieces, 3);
}
