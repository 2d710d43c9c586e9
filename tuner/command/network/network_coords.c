/* network_coords.c - coordinates in files: which column is which, and whether
 * they lie where the network says. */
#include "base/plural.h"
#include "command/cli/npy.h"
#include "command/network/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char fields[] = "bxyz"; /* our order */
static const char *const names[] = {"batch", "x", "y", "z"};

/* ---- columns ------------------------------------------------------------- */

spc_status network_set_columns(network *n)
{
    const char *said = n->args->columns;
    char text[5] = "b";
    bool found[4] = {false};

    if (said == NULL)
        memcpy(text + 1, n->info.input.axes, 4);
    else if (strlen(said) == 4)
        memcpy(text, said, 5);
    for (int c = 0; c < 4; c++) {
        const char *at = text[c] != '\0' ? strchr(fields, text[c]) : NULL;
        if (at == NULL || found[at - fields])
            return cli_fail(SPC_EINVAL,
                            "--columns %s: the letters b (batch), x, y and z, "
                            "each once, are right, as in bzyx",
                            said);
        found[at - fields] = true;
        n->columns[c] = (int)(at - fields);
    }
    return SPC_OK;
}

static const char *columns_text(char out[5], const network *n)
{
    for (int c = 0; c < 4; c++)
        out[c] = fields[n->columns[c]];
    out[4] = '\0';
    return out;
}

/* From the file's columns to ours, or back. */
static void reorder(const network *n, int32_t *rows, int64_t count, bool back)
{
    for (int64_t row = 0; row < count; row++) {
        int32_t *at = rows + 4 * row, copy[4];
        memcpy(copy, at, sizeof(copy));
        for (int c = 0; c < 4; c++)
            if (back)
                at[c] = copy[n->columns[c]];
            else
                at[n->columns[c]] = copy[c];
    }
}

void network_to_columns(const network *n, int32_t *rows, int64_t count)
{
    reorder(n, rows, count, true);
}

/* ---- where they lie ------------------------------------------------------ */

static spc_status fail_outside(const network *n, int64_t row, int field,
                               int32_t at)
{
    const int *shape = n->info.input.shape;
    char columns[5];

    if (field == 0)
        return cli_fail(SPC_ERANGE,
                        "row %lld of '%s' has the batch element %d: with the "
                        "columns %s; 0 and more are right, and --columns says "
                        "another order",
                        (long long)row, n->args->coords, (int)at,
                        columns_text(columns, n));
    return cli_fail(SPC_ERANGE,
                    "row %lld of '%s' lies at %s=%d with the columns %s: the "
                    "network has %dx%dx%d voxels (x, y, z); --columns says "
                    "another order",
                    (long long)row, n->args->coords, names[field], (int)at,
                    columns_text(columns, n), shape[0], shape[1], shape[2]);
}

static spc_status check_rows(const network *n, const int32_t *rows,
                             int64_t count)
{
    const int *shape = n->info.input.shape;

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

spc_status network_read_coords(network *n)
{
    spc_error error = {0};
    npy_ints rows;
    spc_status status = npy_read_ints(&rows, n->args->coords);

    if (status == SPC_OK && rows.columns != 4)
        status = cli_fail(SPC_EFORMAT,
                          "'%s' has %s, not the 4 of batch, x, y, z, "
                          "or as --columns says",
                          n->args->coords, spc__count(rows.columns, "column"));
    if (status == SPC_OK) {
        reorder(n, rows.values, rows.rows, false);
        status = check_rows(n, rows.values, rows.rows);
    }
    if (status == SPC_OK &&
        (status = spc_scene_create(&n->scenes[0], rows.values, rows.rows,
                                   n->args->coords, &error)) != SPC_OK)
        cli_fail(status, "%s", error.text);
    free(rows.values);
    return status;
}
