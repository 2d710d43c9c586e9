/* SPDX-License-Identifier: Apache-2.0 */
/* offset_list.c - parses and writes a list of offsets as text. */
#include "operators/offset_list.h"

#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the position after a 16-bit number, or NULL. */
static const char *read_number(int16_t *out, const char *text)
{
    const char *digits = text + (*text == '-');
    char *end;

    if (*digits < '0' || *digits > '9')
        return NULL;
    long value = strtol(text, &end, 10);
    *out = (int16_t)value;
    return value >= INT16_MIN && value <= INT16_MAX ? end : NULL;
}

/* Returns the position after "1x0x-2", or NULL. */
static const char *read_offset(int16_t out[3], const char *text)
{
    for (int axis = 0; axis < 3; axis++) {
        if (axis > 0 && *text++ != 'x')
            return NULL;
        if ((text = read_number(&out[axis], text)) == NULL)
            return NULL;
    }
    return *text == '\0' || *text == '+' ? text : NULL;
}

spc_status spc__list_read(spc_geometry *out, const char *text, spc_error *error)
{
    const char *at = text;

    for (out->offset_count = 0; out->offset_count < SPC_MAX_OFFSETS;) {
        const char *end = read_offset(out->offsets[out->offset_count], at);
        if (end == NULL)
            return spc__fail(
                error, SPC_EINVAL,
                "offsets=...%.*s is no offset: three numbers of "
                "voxels, each %d to %d, as in "
                "offsets=0x0x0+1x0x0+-1x0x0, in the order of the weights",
                (int)strcspn(at, "+") < 40 ? (int)strcspn(at, "+") : 40, at,
                INT16_MIN, INT16_MAX);
        out->offset_count++;
        if (*end == '\0')
            return SPC_OK;
        at = end + 1;
    }
    return spc__fail(error, SPC_EINVAL, "offsets=... are more than %d",
                     SPC_MAX_OFFSETS);
}

size_t spc__list_format(char *out, size_t bytes, const spc_geometry *g)
{
    size_t length = 0;

    if (bytes > 0)
        out[0] = '\0';
    for (int k = 0; k < g->offset_count; k++) {
        size_t at = length < bytes ? length : bytes;
        length += (size_t)snprintf(out + at, bytes - at, "%s%dx%dx%d",
                                   k > 0 ? "+" : "", g->offsets[k][0],
                                   g->offsets[k][1], g->offsets[k][2]);
    }
    return length;
}
