/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lzf.c - decompresses LZF.
 *
 * The data are commands. A first byte below 32 copies the next 1 to 32 bytes.
 * Any other byte repeats bytes that were written before: its upper three bits
 * are the length less 2 (7: the next byte is added), and its lower five bits
 * with the byte that follows are the distance less 1.
 */
#include "lab/scene/lzf.h"

#include <string.h>

enum { LITERALS = 32, LONG = 7, SHORTEST = 2, LONGEST = 264 };

size_t spc__lzf_most(size_t in_bytes)
{
    /* The shortest command of that length has three bytes. */
    return in_bytes / 3 * LONGEST + LONGEST;
}

bool spc__lzf_decompress(void *out, size_t out_bytes, const void *in,
                         size_t in_bytes)
{
    const unsigned char *at = in, *end = at + in_bytes;
    unsigned char *start = out, *to = out, *stop = to + out_bytes;

    while (at < end) {
        size_t first = *at++, length = first >> 5;
        if (first < LITERALS) {
            length = first + 1;
            if (length > (size_t)(end - at) || length > (size_t)(stop - to))
                return false;
            memcpy(to, at, length);
            at += length;
            to += length;
            continue;
        }
        if (length == LONG && at < end)
            length += *at++;
        if (at == end)
            return false;
        size_t distance = ((first & 31) << 8 | *at++) + 1;
        length += SHORTEST;
        if (distance > (size_t)(to - start) || length > (size_t)(stop - to))
            return false;
        /* Copies byte by byte, because the source may overlap the
         * destination. */
        for (; length > 0; length--, to++)
            *to = *(to - distance);
    }
    return to == stop;
}
