/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attrs.h - a small ordered list of name = value, held by value.
 *
 * Problems, candidate configurations, target facts and launch geometry all
 * travel as attrs between C, Lua and SQL. The compiler and the cache therefore
 * need not know what a convolution is. The canonical text is
 * "name=value,name=value" in the order of insertion. spc__attrs_format and
 * spc__attrs_parse are inverse. Names and text values hold letters, digits and
 * . _ - : x only.
 */
#ifndef SPC_BASE_ATTRS_H
#define SPC_BASE_ATTRS_H

#include "base/buf.h"
#include "spc/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { SPC__ATTRS_MAX = 48, SPC__ATTR_NAME = 24, SPC__ATTR_TEXT = 32 };

typedef struct spc__attr {
    char name[SPC__ATTR_NAME];
    char text[SPC__ATTR_TEXT]; /* always the printed value */
    int64_t number;            /* meaningful if is_number */
    bool is_number;
} spc__attr;

typedef struct spc__attrs {
    int count;
    spc__attr at[SPC__ATTRS_MAX];
} spc__attrs;

/* Replaces the attribute of this name in place, or appends it. A name, value or
 * list that is too long is a bug in the library and aborts, also in release
 * builds: if it were cut off, two problems could have the same key. */
void spc__attrs_set_number(spc__attrs *attrs, const char *name, int64_t value);
void spc__attrs_set_text(spc__attrs *attrs, const char *name,
                         const char *value);

const spc__attr *spc__attrs_find(const spc__attrs *attrs, const char *name);
int64_t spc__attrs_number(const spc__attrs *attrs, const char *name,
                          int64_t otherwise);
const char *spc__attrs_text(const spc__attrs *attrs, const char *name,
                            const char *otherwise);
bool spc__attrs_equal(const spc__attrs *a, const spc__attrs *b);

void spc__attrs_format(spc__buf *out, const spc__attrs *attrs);

/* Reads the canonical text. A value of digits (with an optional minus) is a
 * number. SPC_EFORMAT names the bad word and its position. */
spc_status spc__attrs_parse(spc__attrs *out, const char *text,
                            spc_error *error);

#endif
