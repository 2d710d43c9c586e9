/* SPDX-License-Identifier: Apache-2.0 */
/* columns.c - reads the columns of a row. */
#include "base/text/columns.h"

#include "base/error.h"
#include <string.h>

enum { FEWEST_COLUMNS = 3 };

void spc__columns_count(spc__columns *out, int count)
{
    *out = (spc__columns){count, {-1, 0, 1, 2}};
}

/* Reads one letter a column, as in "xyzi". The axes must all be there, and the
 * batch may be. */
static bool read_letters(spc__columns *out, spc__span text)
{
    static const char axes[] = "bxyz";

    if (text.length > SPC__COLUMNS_MOST)
        return false;
    *out = (spc__columns){(int)text.length, {-1, -1, -1, -1}};
    for (int i = 0; i < out->count; i++) {
        if (text.at[i] < 'a' || text.at[i] > 'z')
            return false;
        const char *axis = strchr(axes, text.at[i]);
        /* Fails if an axis is named twice. */
        if (axis != NULL && out->at[axis - axes] >= 0)
            return false;
        if (axis != NULL)
            out->at[axis - axes] = i;
    }
    return out->at[1] >= 0 && out->at[2] >= 0 && out->at[3] >= 0;
}

spc_status spc__columns_read(void *columns, spc__span text, spc_error *error)
{
    int64_t count;

    if (spc__scan_integer(&count, text, FEWEST_COLUMNS, SPC__COLUMNS_MOST)) {
        spc__columns_count(columns, (int)count);
        return SPC_OK;
    }
    if (read_letters(columns, text))
        return SPC_OK;
    return spc__fail(error, SPC_EINVAL,
                     "columns=%.*s: expected a letter for each column, with x, "
                     "y, z and optionally b (batch) once, as in xyzir; or "
                     "their number, %d to %d, if x, y and z come first",
                     SPC__SPAN(text), FEWEST_COLUMNS, SPC__COLUMNS_MOST);
}
