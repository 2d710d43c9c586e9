/* SPDX-License-Identifier: Apache-2.0 */
/* texts.h - maps texts to small numbers. Equal texts have equal numbers. */
#ifndef SPC_CACHE_TEXTS_H
#define SPC_CACHE_TEXTS_H

#include <stdbool.h>

/* A zeroed table is empty. A text's number is its index in `at`. */
typedef struct spc__texts {
    char **at;
    int count, capacity;
    int *slots; /* hash table of index + 1; 0 is free */
    int slot_count;
} spc__texts;

/* Returns the text's number, or -1. */
int spc__texts_find(const spc__texts *all, const char *text);

/* Gets the text's number, adding it if needed. Returns false if out of
 * memory. */
bool spc__texts_claim(int *out, spc__texts *all, const char *text);

void spc__texts_release(spc__texts *all);

#endif
