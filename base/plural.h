/* SPDX-License-Identifier: Apache-2.0 */
/* plural.h - numbers with their nouns. */
#ifndef SPC_BASE_PLURAL_H
#define SPC_BASE_PLURAL_H

#include <stdio.h>
#include <string.h>

/* Returns `one` for a count of 1, else the plural. */
static inline const char *spc__either(long long count, const char *one,
                                      const char *many)
{
    return count == 1 ? one : many;
}

static inline char *spc__count_into(char out[64], long long count,
                                    const char *noun)
{
    size_t length = strlen(noun);
    int stem = (int)length;
    const char *ending = "s";

    if (count != 1 && length > 1 && noun[length - 1] == 'y' &&
        strchr("aeiou", noun[length - 2]) == NULL) {
        stem--; /* entry, entries */
        ending = "ies";
    }
    snprintf(out, 64, "%lld %.*s%s", count, stem, noun,
             count == 1 ? "" : ending);
    return out;
}

/* Expands to "1 layer", "3 layers" or "0 entries". The text lives as long as
 * the enclosing block. */
#define spc__count(count, noun) spc__count_into((char[64]){0}, (count), (noun))

#endif
