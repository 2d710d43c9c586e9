/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_coords.c - coordinates in files: the meaning of columns, and whether
 * voxels are within the network's range.
 */
#include "base/plural.h"
#include "base/text/columns.h"
#include "command/cli/npy.h"
#include "command/network/network.h"
#include "spc/lab.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char fields[] = "bxyz"; /* order of the library's columns */
static const char *const names[] = {"batch", "x", "y", "z"};

/* ---- columns ------------------------------------------------------------- */

/* --columns with letters sets the columns of a file. With a number, or without
 * the option, the network's own order applies. */
spc_status network_set_columns(network *n)
{
    const char *said = n->args->columns;
    char text[5] = "b";
    spc__columns columns;
    spc_error error;
    int found = 0;

    memcpy(text + 1, n->info.input->axes, 4);
    if (said != NULL &&
        spc__columns_read(&columns, spc__span_of(said), &error) != SPC_OK)
        return cli_fail(SPC_EINVAL, "--%s", error.text);
    n->counts_columns = said != NULL && isdigit((unsigned char)said[0]);
    if (said == NULL || n->counts_columns)
        spc__columns_read(&columns, spc__span_of(text), NULL);
    memcpy(n->at, columns.at, sizeof(n->at));
    n->column_count = columns.count;
    if (n->at[0] < 0)
        n->columns[found++] = 0; /* the first written column */
    for (int c = 0; c < n->column_count; c++)
        for (int f = 0; f < 4; f++)
            if (n->at[f] == c)
                n->columns[found++] = f;
    return SPC_OK;
}

spc_status network_file_spec(char **out, const network *n, const char *spec)
{
    size_t bytes = strlen(spec) + sizeof(",columns=64");

    if ((*out = malloc(bytes)) == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    snprintf(*out, bytes, n->counts_columns ? "%s,columns=%s" : "%s", spec,
             n->args->columns);
    return SPC_OK;
}

static const char *columns_text(char out[5], const network *n)
{
    for (int c = 0; c < 4; c++)
        out[c] = fields[n->columns[c]];
    out[4] = '\0';
    return out;
}

void network_to_columns(const network *n, int32_t *rows, int64_t count)
{
    for (int64_t row = 0; row < count; row++) {
        int32_t *at = rows + 4 * row, copy[4];
        memcpy(copy, at, sizeof(copy));
        for (int c = 0; c < 4; c++)
            at[c] = copy[n->columns[c]];
    }
}

/* ---- range --------------------------------------------------------------- */

/* Names the columns as they were read, as a wrong order is the most frequent
 * mistake. */
static spc_status fail_outside(const network *n, int64_t row, int field,
                               int32_t at)
{
    const int *shape = n->info.input->shape;
    char columns[5];

    if (field == 0)
        return cli_fail(
            SPC_ERANGE,
            "row %lld of '%s' has the batch element %d with the columns %s: "
            "expected 0 or more; --columns sets another order",
            (long long)row, n->args->coords, (int)at, columns_text(columns, n));
    return cli_fail(
        SPC_ERANGE,
        "row %lld of '%s' has %s=%d with the columns %s: the network has "
        "%dx%dx%d voxels (x, y, z); --columns sets another order",
        (long long)row, n->args->coords, names[field], (int)at,
        columns_text(columns, n), shape[0], shape[1], shape[2]);
}

/* Checks that voxels are within the network's grid. An axis of size 0 is
 * unlimited. */
static spc_status check_rows(const network *n, const int32_t *rows,
                             int64_t count)
{
    const int *shape = n->info.input->shape;

    for (int64_t row = 0; row < count; row++)
        for (int f = 0; f < 4; f++) {
            int32_t at = rows[4 * row + f];
            bool bounded = f == 0 || shape[f - 1] > 0;
            if (bounded && (at < 0 || (f > 0 && at >= shape[f - 1])))
                return fail_outside(n, row, f, at);
        }
    return SPC_OK;
}

/* ---- the file ------------------------------------------------------------ */

/* Finds the columns of b, x, y and z in this file; -1 if there is no batch. */
static spc_status find_columns(int at[4], const network *n, const npy_table *t)
{
    int columns = (int)t->rows.columns;

    memcpy(at, n->at, sizeof(n->at));
    if (t->array.is_record && n->args->columns == NULL) {
        if (spc__numpy_find_xyz(at, &t->rows))
            return SPC_OK;
        return cli_fail(SPC_EFORMAT,
                        "'%s': its records have no fields 'x', 'y' and 'z'",
                        n->args->coords);
    }
    if (columns == 3 && (n->args->columns == NULL || n->counts_columns)) {
        at[0] = -1;
        for (int f = 1; f < 4; f++)
            at[f]--;
        cli_say(n->self, "%s: three columns, read as %s of batch element 0",
                n->args->coords, n->info.input->axes);
        return SPC_OK;
    }
    return columns == n->column_count
               ? SPC_OK
               : cli_fail(SPC_EFORMAT,
                          "'%s' has %s, not the %d of batch, x, y, z, or those "
                          "that --columns states by a letter for each",
                          n->args->coords, spc__count(columns, "column"),
                          n->column_count);
}

/* Reads one voxel. Files may hold floats; a fraction would be lost silently, so
 * it is refused. */
static spc_status read_row(int32_t out[4], const network *n, const npy_table *t,
                           const int at[4], int64_t row)
{
    for (int f = 0; f < 4; f++) {
        int64_t value = 0;
        bool fits = at[f] < 0 || spc__numpy_int(&value, &t->rows, row, at[f]);
        out[f] = (int32_t)value;
        if (!fits || value != out[f])
            return cli_fail(SPC_ERANGE,
                            "'%s': column %d of row %lld is %g, which is not "
                            "an integer of 32 bits",
                            n->args->coords, at[f], (long long)row,
                            spc__numpy_float(&t->rows, row, at[f]));
    }
    return SPC_OK;
}

/* Reads all voxels. The caller frees *out, even after a failure. */
static spc_status read_rows(int32_t **out, const network *n, const npy_table *t)
{
    int64_t count = t->rows.count;
    int at[4];
    spc_status status = find_columns(at, n, t);

    if (status != SPC_OK)
        return status;
    if ((*out = malloc(16 * (size_t)count + 1)) == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int64_t row = 0; row < count && status == SPC_OK; row++)
        status = read_row(*out + 4 * row, n, t, at, row);
    return status == SPC_OK ? check_rows(n, *out, count) : status;
}

spc_status network_read_coords(network *n)
{
    spc_error error = {0};
    int32_t *rows = NULL;
    npy_table t;
    spc_status status = npy_open(&t, n->args->coords, "coords");

    if (status == SPC_OK && (status = read_rows(&rows, n, &t)) == SPC_OK &&
        (status = spc_scene_create(&n->scenes[0], rows, t.rows.count,
                                   n->args->coords, &error)) != SPC_OK)
        cli_fail(status, "%s", error.text);
    free(rows);
    npy_close(&t);
    return status;
}
