/* SPDX-License-Identifier: Apache-2.0 */
/* base64.c - converts between three bytes and four letters. */
#include "base/base64.h"

#include <stdint.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz0123456789+/";

void spc__base64_append(spc__buf *out, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;

    for (; count > 0;
         at += count < 3 ? count : 3, count -= count < 3 ? count : 3) {
        uint32_t three = (uint32_t)at[0] << 16;
        three |= count > 1 ? (uint32_t)at[1] << 8 : 0;
        three |= count > 2 ? (uint32_t)at[2] : 0;
        char four[4] = {letters[three >> 18], letters[three >> 12 & 63],
                        count > 1 ? letters[three >> 6 & 63] : '=',
                        count > 2 ? letters[three & 63] : '='};
        spc__buf_append(out, four, 4);
    }
}

/* Decodes `count` (2 to 4) letters and appends the bytes. */
static bool read_group(spc__buf *out, const char *text, size_t count)
{
    uint32_t three = 0;

    for (size_t i = 0; i < 4; i++) {
        const char *found =
            i < count && text[i] != '\0' ? strchr(letters, text[i]) : letters;
        if (found == NULL || (i < count && text[i] == '\0'))
            return false;
        three = three << 6 | (uint32_t)(found - letters);
    }
    /* The unused low bits must be zero, so that each value has only one
     * text. */
    if (count < 2 || (count < 4 && (three & (count == 2 ? 0xffff : 0xff)) != 0))
        return false;
    char bytes[3] = {(char)(three >> 16), (char)(three >> 8), (char)three};
    spc__buf_append(out, bytes, count - 1);
    return true;
}

bool spc__base64_read(spc__buf *out, const char *text, size_t length)
{
    if (length % 4 == 0 && length > 0)
        for (int i = 0; i < 2 && text[length - 1] == '='; i++)
            length--;
    for (; length > 0;
         text += length < 4 ? length : 4, length -= length < 4 ? length : 4)
        if (!read_group(out, text, length < 4 ? length : 4))
            return false;
    return true;
}
