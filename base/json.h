/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - writes JSON (RFC 8259) into a buffer.
 *
 * The writer handles commas, nesting and escaping. Invalid UTF-8 is replaced by
 * U+FFFD; NaN and infinities become null. Nesting is limited to 32.
 */
#ifndef SPC_BASE_JSON_H
#define SPC_BASE_JSON_H

#include "base/buf.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct spc__json {
    spc__buf *out;
    int depth;
    bool need_comma;
} spc__json;

void spc__json_init(spc__json *json, spc__buf *out);
/* `key` is NULL inside an array and at the top. */
void spc__json_object(spc__json *json, const char *key);
void spc__json_array(spc__json *json, const char *key);
void spc__json_end_object(spc__json *json);
void spc__json_end_array(spc__json *json);
void spc__json_text(spc__json *json, const char *key, const char *value);
void spc__json_int(spc__json *json, const char *key, int64_t value);
void spc__json_real(spc__json *json, const char *key, double value);
void spc__json_bool(spc__json *json, const char *key, bool value);

#endif
