/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row_set.h - distinct coordinates, found by hashing.
 *
 * A row is batch, x, y, z; rows are numbered in the order of insertion.
 */
#ifndef SPC_RUNTIME_ROW_SET_H
#define SPC_RUNTIME_ROW_SET_H

#include "spc/status.h"
#include <stdint.h>

typedef struct spc__row_set {
    int32_t *coords; /* [rows][4] */
    int64_t rows, capacity;
    int32_t *slots; /* hash table with linear probing: a row, or -1 */
    uint64_t mask;
} spc__row_set;

/* An empty set with room for `capacity` rows; it grows. */
spc_status spc__row_set_init(spc__row_set *out, int64_t capacity,
                             spc_error *error);
void spc__row_set_release(spc__row_set *set);

/* Returns the row that equals `coord`, or -1. */
int64_t spc__row_set_find(const spc__row_set *set, const int32_t coord[4]);

/*
 * Adds a coordinate if it is new; *row is its row in both cases. SPC_ERANGE:
 * rows no longer fit 31 bits; SPC_ENOMEM.
 */
spc_status spc__row_set_add(int64_t *row, spc__row_set *set,
                            const int32_t coord[4], spc_error *error);

/* Coordinates by (batch, x, y, z), for qsort and bsearch. */
int spc__compare_rows(const void *a, const void *b);

/* Sorts the rows in ascending order. */
void spc__row_set_sort(spc__row_set *set);

#endif
