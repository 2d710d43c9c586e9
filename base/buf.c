/* SPDX-License-Identifier: Apache-2.0 */
/* buf.c - a growing string buffer with one sticky failure flag. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST = 64 };

/* Makes room for `more` bytes and the terminator. */
static bool reserve(spc__buf *buf, size_t more)
{
    if (buf->failed)
        return false;
    /* The limit is half of the range, so that doubling the capacity cannot
     * overflow. */
    if (more >= SIZE_MAX / 2 - buf->length) {
        buf->failed = true;
        return false;
    }
    size_t need = buf->length + more + 1;
    if (need <= buf->capacity)
        return true;

    size_t capacity = buf->capacity ? buf->capacity : SMALLEST;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(buf->data, capacity);
    if (data == NULL) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

void spc__buf_release(spc__buf *buf)
{
    if (buf == NULL)
        return;
    free(buf->data);
    *buf = (spc__buf)SPC__BUF_INIT;
}

void spc__buf_clear(spc__buf *buf)
{
    buf->length = 0;
    buf->failed = false;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

char *spc__buf_extend(spc__buf *buf, size_t length)
{
    if (!reserve(buf, length))
        return NULL;
    char *end = buf->data + buf->length;
    buf->length += length;
    buf->data[buf->length] = '\0';
    return end;
}

void spc__buf_append(spc__buf *buf, const void *data, size_t length)
{
    if (!reserve(buf, length))
        return;
    if (length > 0)
        memcpy(buf->data + buf->length, data, length);
    buf->length += length;
    buf->data[buf->length] = '\0';
}

void spc__buf_puts(spc__buf *buf, const char *text)
{
    spc__buf_append(buf, text, strlen(text));
}

void spc__buf_printf(spc__buf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);

    /* Most texts fit into the free space, so try to print there first. */
    size_t left = buf->failed ? 0 : buf->capacity - buf->length;
    int length =
        vsnprintf(left ? buf->data + buf->length : NULL, left, format, args);
    if (length < 0) {
        buf->failed = true;
    } else if ((size_t)length < left) {
        buf->length += (size_t)length;
    } else if (reserve(buf, (size_t)length)) {
        vsnprintf(buf->data + buf->length, (size_t)length + 1, format, again);
        buf->length += (size_t)length;
    } else if (buf->data != NULL) {
        buf->data[buf->length] = '\0';
    }
    va_end(again);
    va_end(args);
}

const char *spc__buf_text(const spc__buf *buf)
{
    return buf->data != NULL ? buf->data : "";
}

char *spc__buf_detach(spc__buf *buf)
{
    char *data = NULL;

    /* An empty buffer has no memory yet, and the caller expects a text. */
    if (reserve(buf, 0)) {
        data = buf->data;
        data[buf->length] = '\0';
        buf->data = NULL;
    }
    spc__buf_release(buf);
    return data;
}
