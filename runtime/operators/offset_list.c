/* SPDX-License-Identifier: Apache-2.0 */
/* offset_list.c - parses and writes a list of offsets as text. */
#include "operators/offset_list.h"

#include "base/error.h"
#include "operators/offset_store.h"
#include <stdio.h>
#include <string.h>

/* Reads "1x0x-2"; all three numbers are required. */
static bool read_offset(int16_t out[3], spc__span text)
{
    int axes[3];

    if (memchr(text.at, 'x', text.length) == NULL ||
        !spc__scan_axes(axes, text, INT16_MIN, INT16_MAX))
        return false;
    for (int axis = 0; axis < 3; axis++)
        out[axis] = (int16_t)axes[axis];
    return true;
}

spc_status spc__list_read(void *geometry, spc__span text, spc_error *error)
{
    spc_geometry *out = geometry;
    int16_t list[SPC__LIST_NUMBERS];
    spc__span rest = text, offset;

    for (out->offset_count = 0; rest.at != NULL; out->offset_count++) {
        offset = spc__scan_part(&rest, '+');
        if (out->offset_count == SPC_MAX_OFFSETS)
            return spc__fail(error, SPC_EINVAL,
                             "offsets=... has more than %d offsets, the limit",
                             SPC_MAX_OFFSETS);
        if (!read_offset(list + 3 * (size_t)out->offset_count, offset))
            return spc__fail(
                error, SPC_EINVAL,
                "offsets=...%.*s: expected three numbers of voxels, each %d to "
                "%d, for each offset in the order of the weights, as in "
                "offsets=0x0x0+1x0x0+-1x0x0",
                SPC__SPAN(offset), INT16_MIN, INT16_MAX);
    }
    out->offsets = list;
    return spc__geometry_keep(out, error);
}

size_t spc__list_format(char *out, size_t bytes, const spc_geometry *g)
{
    size_t length = 0;

    if (bytes > 0)
        out[0] = '\0';
    for (int k = 0; k < g->offset_count; k++) {
        size_t at = length < bytes ? length : bytes;
        const int16_t *offset = g->offsets + 3 * (size_t)k;
        length +=
            (size_t)snprintf(out + at, bytes - at, "%s%dx%dx%d",
                             k > 0 ? "+" : "", offset[0], offset[1], offset[2]);
    }
    return length;
}
