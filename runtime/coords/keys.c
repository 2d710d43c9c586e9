/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - chooses how coordinates are packed into keys. */
#include "coords/keys.h"

#include "base/error.h"
#include <string.h>

static const char *const field_names[4] = {"batch", "x", "y", "z"};

/* Bits needed for `values` different values. */
static int bits_for(uint64_t values)
{
    int bits = 0;

    while (bits < 64 && ((uint64_t)1 << bits) < values)
        bits++;
    return bits;
}

/* The field that needs the most bits: the one a caller should shrink. */
static int widest(const int bits[4])
{
    int at = 0;

    for (int i = 1; i < 4; i++)
        if (bits[i] > bits[at])
            at = i;
    return at;
}

/* Names the axis that needs the most bits, because the caller should shorten
 * this axis. */
static spc_status fail_wide(const int bits[4], int total, const int32_t low[4],
                            const int32_t high[4], spc_error *error)
{
    int at = widest(bits);

    return spc__fail(
        error, SPC_ERANGE,
        "the coordinates do not fit a 64-bit key: %s, from %d to %d with the "
        "kernel's halo, needs %d bits of the %d that all fields need together "
        "(batch %d, x %d, y %d, z %d); %s",
        field_names[at], (int)low[at], (int)high[at], bits[at], total, bits[0],
        bits[1], bits[2], bits[3],
        at == 0 ? "number the batches 0, 1, 2, ..."
                : "remove outliers or split the scene");
}

/* Sets bit positions. A field without bits is never read, but its shift must
 * still be valid. */
static void assign_shifts(spc_index_key *out, const int bits[4])
{
    int shift = 0;

    for (int i = 3; i >= 0; i--) {
        out->shift[i] = bits[i] > 0 ? shift : 0;
        /* In a field of 33 bits or more, the lower 32 identify the
         * coordinate. */
        out->wide[i] =
            bits[i] >= 32 ? UINT32_MAX : (uint32_t)((1ull << bits[i]) - 1);
        shift += bits[i];
    }
    out->bits = shift;
    /* All ones of the used bits: a shift by 64 would be undefined. */
    out->none = shift < 64 ? ((spc_u64)1 << shift) - 1 : ~(spc_u64)0;
}

spc_status spc__key_layout_choose(spc_index_key *out, const int32_t low[4],
                                  const int32_t high[4],
                                  const spc__guard *guard, spc_error *error)
{
    int bits[4], total = 0;

    memset(out, 0, sizeof(*out));
    for (int i = 0; i < 4; i++) {
        /* One extra guard after z, so that the all-ones key is never a
         * voxel. */
        int64_t guards = guard->before[i] + guard->after[i] + (i == 3);
        bits[i] = bits_for((uint64_t)((int64_t)high[i] - low[i] + 1) +
                           (uint64_t)guards);
        total += bits[i];
        out->low[i] = low[i];
        out->before[i] = (uint32_t)guard->before[i];
        out->last[i] = (uint32_t)((int64_t)high[i] - low[i]);
    }
    if (total > 64)
        return fail_wide(bits, total, low, high, error);
    assign_shifts(out, bits);
    return SPC_OK;
}

void spc__coords_extent(int32_t low[4], int32_t high[4], const int32_t *coords,
                        int64_t rows)
{
    for (int i = 0; i < 4; i++)
        low[i] = high[i] = rows ? coords[i] : 0;
    for (int64_t r = 1; r < rows; r++)
        for (int i = 0; i < 4; i++) {
            int32_t c = coords[4 * r + i];
            if (c < low[i])
                low[i] = c;
            if (c > high[i])
                high[i] = c;
        }
}
