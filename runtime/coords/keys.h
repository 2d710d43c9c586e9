/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.h - how coordinates are packed into keys.
 *
 * A key has four fields: batch (highest bits), x, y and z (lowest). A
 * coordinate c is stored as c - low + before. Field values less than `before`
 * or greater than before + last never occur in a set. These guard bands are as
 * wide as maps look past the set, so adding an offset to a key never carries
 * into or borrows from the next field, and a search finds no false neighbours.
 * Ascending keys are in ascending order of (batch, x, y, z).
 */
#ifndef SPC_RUNTIME_KEYS_H
#define SPC_RUNTIME_KEYS_H

#include "templates/shared/spc_abi.h"

#include "spc.h"
#include "templates/shared/index_abi.h"

/* Elements after the last key that a search may read; their values do not
 * matter. */
enum { SPC__KEY_SLACK = SPC_INDEX_SLACK };

/* Widths of the guard bands, by field. */
typedef struct spc__guard {
    int64_t before[4], after[4];
} spc__guard;

/*
 * Chooses the narrowest layout for coordinates low..high. Returns SPC_ERANGE,
 * naming the axis at fault, if 64 bits are not enough.
 */
spc_status spc__key_layout_choose(spc_index_key *out, const int32_t low[4],
                                  const int32_t high[4],
                                  const spc__guard *guard, spc_error *error);

/* Key type of a layout: 32 or 64 bits. */
static inline int spc__key_bits(const spc_index_key *layout)
{
    return layout->bits <= 32 ? 32 : 64;
}

/* The largest coordinate that a layout accepts. */
static inline int32_t spc__key_high(const spc_index_key *layout, int field)
{
    return (int32_t)(layout->low[field] + (int64_t)layout->last[field]);
}

/* Extracts one coordinate of a key. */
static inline int32_t spc__key_coordinate(const spc_index_key *layout,
                                          uint64_t key, int field)
{
    return (int32_t)(((uint32_t)(key >> layout->shift[field]) &
                      layout->wide[field]) -
                     layout->before[field] + (uint32_t)layout->low[field]);
}

/* Smallest and largest coordinate of each field; zero if there are no rows. */
void spc__coords_extent(int32_t low[4], int32_t high[4], const int32_t *coords,
                        int64_t rows);

#endif
