/* SPDX-License-Identifier: Apache-2.0 */
/* row_set.c - coordinates in a hash table. */
#include "lab/oracle/row_set.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

enum { ROW_BYTES = 4 * sizeof(int32_t) };

/* Multiplies by 2^64 over the golden ratio, and folds the high half down, since
 * the table uses the low bits. */
static uint64_t hash(const int32_t coord[4])
{
    uint64_t h = 0;
    for (int i = 0; i < 4; i++) {
        h = (h ^ (uint32_t)coord[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return h;
}

/* Returns the slot of an equal row, or the empty slot where the row belongs. */
static uint64_t find_slot(const spc__row_set *set, const int32_t coord[4])
{
    uint64_t slot = hash(coord) & set->mask;
    while (set->slots[slot] >= 0 &&
           memcmp(set->coords + 4 * (int64_t)set->slots[slot], coord,
                  ROW_BYTES) != 0)
        slot = (slot + 1) & set->mask;
    return slot;
}

static void fill_slots(spc__row_set *set)
{
    /* -1 is an empty slot. */
    memset(set->slots, 0xff, (set->mask + 1) * sizeof(*set->slots));
    for (int64_t row = 0; row < set->rows; row++)
        set->slots[find_slot(set, set->coords + 4 * row)] = (int32_t)row;
}

/* At most half of the slots are used, which keeps probes short. */
static uint64_t mask_for(int64_t capacity)
{
    uint64_t mask = 15;
    while (mask < 2 * (uint64_t)capacity)
        mask = 2 * mask + 1;
    return mask;
}

/* Grows the rows and the hash table, and fills the table anew. */
static spc_status reserve(spc__row_set *set, int64_t capacity, spc_error *error)
{
    uint64_t mask = mask_for(capacity);
    size_t coord_bytes = (size_t)capacity * ROW_BYTES;
    size_t slot_bytes = (mask + 1) * sizeof(*set->slots);

    int32_t *coords = realloc(set->coords, coord_bytes);
    if (coords == NULL)
        return spc__fail_memory(error, coord_bytes);
    /* Stores the pointer immediately, because realloc() has freed the old one
     * even if a later allocation fails. */
    set->coords = coords;
    int32_t *slots = realloc(set->slots, slot_bytes);
    if (slots == NULL)
        return spc__fail_memory(error, slot_bytes);
    set->slots = slots;
    set->mask = mask;
    set->capacity = capacity;
    fill_slots(set);
    return SPC_OK;
}

spc_status spc__row_set_init(spc__row_set *out, int64_t capacity,
                             spc_error *error)
{
    memset(out, 0, sizeof(*out));
    spc_status status = reserve(out, capacity > 0 ? capacity : 1, error);
    if (status != SPC_OK)
        spc__row_set_release(out);
    return status;
}

void spc__row_set_release(spc__row_set *set)
{
    free(set->coords);
    free(set->slots);
    memset(set, 0, sizeof(*set));
}

int64_t spc__row_set_find(const spc__row_set *set, const int32_t coord[4])
{
    return set->slots[find_slot(set, coord)];
}

/* Doubles the capacity without overflow. */
static spc_status grow(spc__row_set *set, spc_error *error)
{
    if (set->capacity == INT32_MAX)
        return spc__fail(error, SPC_ERANGE,
                         "there are more than %d voxels, which is what a row "
                         "number can count",
                         INT32_MAX);
    return reserve(
        set, set->capacity < INT32_MAX / 2 ? 2 * set->capacity : INT32_MAX,
        error);
}

spc_status spc__row_set_add(int64_t *row, spc__row_set *set,
                            const int32_t coord[4], spc_error *error)
{
    uint64_t slot = find_slot(set, coord);

    *row = set->slots[slot];
    if (*row >= 0)
        return SPC_OK;
    if (set->rows == set->capacity) {
        spc_status status = grow(set, error);
        if (status != SPC_OK)
            return status;
        slot = find_slot(set, coord);
    }
    memcpy(set->coords + 4 * set->rows, coord, ROW_BYTES);
    set->slots[slot] = (int32_t)set->rows;
    *row = set->rows++;
    return SPC_OK;
}

int spc__compare_rows(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    for (int i = 0; i < 4; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

void spc__row_set_sort(spc__row_set *set)
{
    qsort(set->coords, (size_t)set->rows, ROW_BYTES, spc__compare_rows);
    fill_slots(set);
}
