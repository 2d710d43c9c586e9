/* SPDX-License-Identifier: Apache-2.0 */
/* texts.h - texts as small numbers that are equal where the texts are. */
#ifndef SPC_CACHE_TEXTS_H
#define SPC_CACHE_TEXTS_H

#include <stdbool.h>

/* {0} is empty. A text's number is its place in `at`. */
typedef struct spc__texts {
    char **at;
    int count, capacity;
    int *slots; /* a hash table of places + 1; 0 is free */
    int slot_count;
} spc__texts;

/* -1: it has none. */
int spc__texts_find(const spc__texts *all, const char *text);

/* Its number, a new one if need be; false: out of memory. */
bool spc__texts_claim(int *out, spc__texts *all, const char *text);

void spc__texts_release(spc__texts *all);

#endif
