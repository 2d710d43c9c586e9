/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h - bytes as text (RFC 4648, section 4). */
#ifndef SPC_BASE_BASE64_H
#define SPC_BASE_BASE64_H

#include "base/buf.h"

void spc__base64_append(spc__buf *out, const void *bytes, size_t count);

/* Decodes all of `text`. On invalid input it returns false and leaves the bytes
 * decoded so far in *out. Padding must be either correct or absent. */
bool spc__base64_read(spc__buf *out, const char *text, size_t length);

#endif
