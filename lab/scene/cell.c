/* SPDX-License-Identifier: Apache-2.0 */
/* cell.c - the forms of numbers in files of points. */
#include "lab/scene/cell.h"

#include <stdint.h>
#include <string.h>

int spc__cell_bytes(spc__cell type)
{
    static const int bytes[] = {0, 1, 1, 2, 2, 4, 4, 4, 8, 8, 8};

    return bytes[type];
}

/* Returns the value of a binary number whose bytes are already in this
 * machine's order. */
static double decode(spc__cell type, uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float narrow;
    double wide;

    switch (type) {
    case SPC__CELL_I8:
        return (int8_t)bits;
    case SPC__CELL_I16:
        return (int16_t)bits;
    case SPC__CELL_I32:
        return (int32_t)low;
    case SPC__CELL_I64:
        return (double)(int64_t)bits;
    case SPC__CELL_U64:
        return (double)bits;
    case SPC__CELL_F32:
        memcpy(&narrow, &low, sizeof(narrow));
        return narrow;
    case SPC__CELL_F64:
        memcpy(&wide, &bits, sizeof(wide));
        return wide;
    default:
        return low;
    }
}

double spc__cell_read(spc__cell type, const char *at, bool is_big_endian)
{
    int bytes = spc__cell_bytes(type);
    uint64_t bits = 0;

    for (int i = 0; i < bytes; i++) {
        int place = is_big_endian ? bytes - 1 - i : i;
        bits |= (uint64_t)(unsigned char)at[i] << 8 * place;
    }
    return decode(type, bits);
}
