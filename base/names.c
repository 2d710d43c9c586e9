/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - tables of words by the value of an enum. */
#include "base/names.h"

#include <string.h>

int spc__name_index(const char *const *names, const char *word)
{
    for (int i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return -1;
}

const char *spc__name_at(const char *const *names, unsigned index)
{
    for (unsigned i = 0; names[i] != NULL; i++)
        if (i == index)
            return names[i];
    return "?";
}
