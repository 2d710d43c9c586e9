/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - reads and writes NumPy's files for the command. */
#include "command/cli/npy.h"

#include "base/file.h"
#include "command/cli/cli.h"
#include "command/cli/out_file.h"
#include <stdio.h>
#include <stdlib.h>

enum { START = 10 };

/* ---- reading ------------------------------------------------------------- */

enum { FILE_BYTES_MOST = 1 << 30 };

spc_status npy_open(npy_table *out, const char *path)
{
    spc_error error = {0};
    spc_status status;

    *out = (npy_table){.text = SPC__BUF_INIT};
    if ((status = spc__file_read(&out->text, path, FILE_BYTES_MOST, &error)) !=
            SPC_OK ||
        (status = spc__numpy_open(&out->array, path, out->text.data,
                                  out->text.length, &error)) != SPC_OK ||
        (status = spc__numpy_rows_of(&out->rows, &out->array, &error)) !=
            SPC_OK)
        cli_fail(status, "%s", error.text);
    return status;
}

void npy_close(npy_table *table)
{
    spc__buf_release(&table->text);
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

    start[8] = (unsigned char)(length & 0xff);
    start[9] = (unsigned char)(length >> 8);
    return out_file_put(path, pieces, 3);
}
