/* SPDX-License-Identifier: Apache-2.0 */
/* meant.c - the Levenshtein distance, computed with one row of the table. */
#include "base/meant.h"

#include <stdio.h>
#include <string.h>

enum { MOST_LETTERS = 64, MOST_EDITS = 2 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int most(size_t a, size_t b)
{
    return (int)(a > b ? a : b);
}

int spc__edits(const char *word, const char *known)
{
    int row[MOST_LETTERS + 1];
    int columns = (int)strnlen(known, MOST_LETTERS);

    for (int j = 0; j <= columns; j++)
        row[j] = j;
    for (int i = 1; word[i - 1] != '\0'; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= columns; j++) {
            int change = diagonal + (word[i - 1] != known[j - 1]);
            diagonal = row[j];
            row[j] = least(change, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[columns];
}

const char *spc__meant(const char *word, const char *const *known)
{
    const char *best = NULL;
    int fewest = MOST_EDITS + 1;

    for (; *known != NULL; known++) {
        int edits = spc__edits(word, *known);
        if (edits < fewest && edits < most(strlen(word), strlen(*known))) {
            best = *known;
            fewest = edits;
        }
    }
    return best;
}

char *spc__unknown(char *out, size_t bytes, const char *what, const char *word,
                   const char *near, const char *const *known)
{
    size_t length =
        (size_t)snprintf(out, bytes, "unknown %s '%.40s'%s%.40s%s", what, word,
                         near != NULL ? ": did you mean '" : "",
                         near != NULL ? near : "", near != NULL ? "'?" : "");

    for (int i = 0; known[i] != NULL && length < bytes; i++)
        length += (size_t)snprintf(out + length, bytes - length, "%s%s",
                                   i == 0 ? " (" : ", ", known[i]);
    if (known[0] != NULL && length < bytes)
        snprintf(out + length, bytes - length, ")");
    return out;
}
