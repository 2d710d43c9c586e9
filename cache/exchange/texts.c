/* SPDX-License-Identifier: Apache-2.0 */
/*
 * texts.c - numbers for texts: an array of texts, and a hash table with open
 * addressing that is at most half full.
 */
#include "cache/exchange/texts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 32 };

/* FNV-1a. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash;
}

/* Returns the slot of the text, or the free slot for it. The table must have
 * slots. */
static int *slot_of(const spc__texts *all, const char *text)
{
    size_t mask = (size_t)all->slot_count - 1;
    size_t at = (size_t)hash_of(text) & mask;

    while (all->slots[at] != 0 &&
           strcmp(all->at[all->slots[at] - 1], text) != 0)
        at = (at + 1) & mask;
    return &all->slots[at];
}

int spc__texts_find(const spc__texts *all, const char *text)
{
    return all->slot_count > 0 ? *slot_of(all, text) - 1 : -1;
}

/* Doubles the hash table and inserts all texts again. */
static bool grow_slots(spc__texts *all)
{
    int count = all->slot_count > 0 ? 2 * all->slot_count : FIRST_SLOTS;
    int *slots = calloc((size_t)count, sizeof(*slots));

    if (slots == NULL)
        return false;
    free(all->slots);
    all->slots = slots;
    all->slot_count = count;
    for (int i = 0; i < all->count; i++)
        *slot_of(all, all->at[i]) = i + 1;
    return true;
}

static bool grow_texts(spc__texts *all)
{
    int capacity = all->capacity > 0 ? 2 * all->capacity : FIRST_SLOTS / 2;
    char **at = realloc(all->at, (size_t)capacity * sizeof(*at));

    if (at == NULL)
        return false;
    all->at = at;
    all->capacity = capacity;
    return true;
}

bool spc__texts_claim(int *out, spc__texts *all, const char *text)
{
    *out = spc__texts_find(all, text);
    if (*out >= 0)
        return true;
    if ((all->count == all->capacity && !grow_texts(all)) ||
        (2 * all->count >= all->slot_count && !grow_slots(all)))
        return false;
    char *copy = strdup(text);
    if (copy == NULL)
        return false;
    *out = all->count++;
    all->at[*out] = copy;
    *slot_of(all, text) = *out + 1;
    return true;
}

void spc__texts_release(spc__texts *all)
{
    for (int i = 0; i < all->count; i++)
        free(all->at[i]);
    free(all->at);
    free(all->slots);
    *all = (spc__texts){0};
}
