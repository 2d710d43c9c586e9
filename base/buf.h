/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf.h - a growing, always terminated string (or byte) buffer.
 *
 * Appending never returns an error: a failed allocation sets `failed`, later
 * appends do nothing, and the owner checks once at the end.
 */
#ifndef SPC_BASE_BUF_H
#define SPC_BASE_BUF_H

#include "spc/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct spc__buf {
    char *data; /* terminated; NULL while empty */
    size_t length;
    size_t capacity;
    bool failed;
} spc__buf;

#define SPC__BUF_INIT                                                          \
    {                                                                          \
        NULL, 0, 0, false                                                      \
    }

void spc__buf_release(spc__buf *buf); /* frees and resets; NULL is fine */
void spc__buf_clear(spc__buf *buf);   /* keeps the memory */
void spc__buf_append(spc__buf *buf, const void *data, size_t length);
/* Extends the buffer by `length` bytes for the caller to fill. Returns NULL if
 * out of memory. */
char *spc__buf_extend(spc__buf *buf, size_t length);
void spc__buf_puts(spc__buf *buf, const char *text);
void spc__buf_printf(spc__buf *buf, const char *format, ...) SPC_PRINTF(2, 3);
const char *spc__buf_text(const spc__buf *buf); /* "" while empty */
char *spc__buf_detach(spc__buf *buf); /* caller frees; NULL if failed */

#endif
