/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order.c - sorted row orders, and the digest that each sorts rows by.
 *
 * A tile costs one iteration for each offset that any of its rows has, so rows
 * with similar masks should be neighbours. Rows are sorted by the Gray rank of
 * a digest of their mask (Gray codes: neighbours differ in one bit). A digest
 * shorter than the mask sorts faster. For large tiles it also sorts better:
 * separating rows that share nearly all offsets costs more than it gains. Which
 * offsets may share a bit depends on the scene:
 *
 *   gray    an offset and its opposite. A smooth surface has both or neither.
 *   gray_x  the line along x for offsets with z != 0, half of it for z = 0. For
 *           scans of a street: a patch of ground or wall meets whole lines of
 *           the planes above and below.
 *   gray_y  the same along y.
 *
 * The most significant bits belong to the farthest offsets, which are the
 * rarest, and the lowest bits to the nearest. The centre has no bit.
 *
 *   planes  first the planes of the kernel: a bit is set if the row has any
 *           offset of that plane. In some direction a scan's surface meets few
 *           planes, and a tile should hold no row with an offset of the others.
 *           An offset may have several bits, so the lines of gray_x follow, as
 *           many as fit.
 *
 *   gray2, gray3, gray4
 *           splits the offsets into 2, 3 or 4 groups of consecutive numbers and
 *           sorts rows for each group by the gray order of its offsets. Fewer
 *           offsets have fewer distinct masks, so more rows have similar ones
 *           (mask splits of spconv 2; Tang et al., MICRO 2023, section 4.1)
 *
 * Two orders use something else than the set of offsets present:
 *
 *   dense   rows with most offsets first: tiles of similar cost
 *   morton  along a Morton curve (the bits of x, y and z interleaved), batch
 *           elements one after the other: rows of a tile read the same inputs
 */
#include "base/error.h"
#include "coords/layout.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Offsets with equal units share a bit of the digest. */
typedef void unit_rule(int unit[3], const int offset[3]);

struct spc__row_order {
    const char *name;
    unit_rule *unit;
    bool splits; /* splits units while bits are left */
    bool planes; /* planes come before units */
    int groups;
    int by; /* SPC_INDEX_BY_ */
};

static int sign(int value)
{
    return (value > 0) - (value < 0);
}

/* Puts an offset and its opposite into one unit. */
static void opposites(int unit[3], const int offset[3])
{
    /* The first coordinate that is not 0 decides the sign, so an offset and its
     * opposite get the same unit. */
    int side = sign(offset[0] ? offset[0] : offset[1] ? offset[1] : offset[2]);

    for (int i = 0; i < 3; i++)
        unit[i] = side * offset[i];
}

/* Puts the offsets of a line along an axis into one unit. */
static void lines(int unit[3], const int offset[3], int axis)
{
    memcpy(unit, offset, 3 * sizeof *unit);
    /* In the plane z = 0 the line splits in two at the centre: its halves get
     * the signs -1 and 1. */
    unit[axis] = offset[2] == 0 ? sign(offset[axis]) : 0;
}

static void lines_x(int unit[3], const int offset[3])
{
    lines(unit, offset, 0);
}

static void lines_y(int unit[3], const int offset[3])
{
    lines(unit, offset, 1);
}

static const spc__row_order orders[] = {
    {"gray", opposites, true, false, 1, SPC_INDEX_BY_GRAY},
    {"gray_x", lines_x, false, false, 1, SPC_INDEX_BY_GRAY},
    {"gray_y", lines_y, false, false, 1, SPC_INDEX_BY_GRAY},
    {"planes", lines_x, false, true, 1, SPC_INDEX_BY_GRAY},
    {"gray2", opposites, true, false, 2, SPC_INDEX_BY_GRAY},
    {"gray3", opposites, true, false, 3, SPC_INDEX_BY_GRAY},
    {"gray4", opposites, true, false, 4, SPC_INDEX_BY_GRAY},
    {"dense", opposites, false, false, 1, SPC_INDEX_BY_COUNT},
    {"morton", opposites, false, false, 1, SPC_INDEX_BY_KEY},
};

const spc__row_order *spc__row_order_find(const char *name)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (strcmp(orders[i].name, name) == 0)
            return &orders[i];
    return NULL;
}

const char *spc__row_order_names(void)
{
    return "none, gray, gray_x, gray_y, planes, gray2, gray3, gray4, dense or "
           "morton";
}

bool spc__row_order_is_apart(const char *name)
{
    /* Orders of gray codes with one group share the kernel that builds the map.
     * The other orders have separate kernels. */
    const spc__row_order *order = spc__row_order_find(name);

    return order && (order->by != SPC_INDEX_BY_GRAY || order->groups > 1);
}

int spc__row_order_groups(const spc__row_order *order)
{
    return order ? order->groups : 1;
}

int spc__group_begin(int group, int groups, int offsets)
{
    /* Sizes of groups differ by at most one. */
    return (int)((long long)offsets * group / groups);
}

/* ---- ranking ---------------------------------------------------------- */

/* An offset of the kernel. Sorting makes the offsets of a unit neighbours. */
typedef struct ranked {
    int number; /* the index k */
    int unit[3];
    int far;   /* of the unit: the largest |x| + |y| + |z| */
    int steep; /* |z| */
    bool flat; /* lies in the plane z = 0, where orders split lines */
} ranked;

static int norm(const int offset[3])
{
    return abs(offset[0]) + abs(offset[1]) + abs(offset[2]);
}

/* The order of the bits by which rows are sorted. */
static int compare(const void *a, const void *b)
{
    const ranked *one = a, *two = b;

    /* Sorting is from the most significant bit on: far before near, steep
     * before level, and the plane z = 0 last. The number makes the order total,
     * so that qsort is deterministic. */
    if (one->flat != two->flat)
        return one->flat - two->flat;
    if (one->far != two->far)
        return two->far - one->far;
    if (one->steep != two->steep)
        return two->steep - one->steep;
    for (int i = 0; i < 3; i++)
        if (one->unit[i] != two->unit[i])
            return one->unit[i] - two->unit[i];
    return one->number - two->number;
}

static bool same_unit(const ranked *a, const ranked *b)
{
    return memcmp(a->unit, b->unit, sizeof a->unit) == 0;
}

/* Position of an offset relative to the middle of its kernel. Dilation and
 * padding do not change which offsets are neighbours. */
static void offset_of(int offset[3], const spc_geometry *geometry, int k)
{
    if (geometry->offset_count > 0) {
        spc_geometry_offset_at(offset, geometry, k);
        return;
    }
    for (int i = 2; i >= 0; i--) {
        offset[i] = k % geometry->kernel[i] - (geometry->kernel[i] - 1) / 2;
        k /= geometry->kernel[i];
    }
}

/* Sorts the offsets begin..end by unit, without the centre of a submanifold
 * kernel, which every row has. Returns their number. */
static int rank_offsets(ranked *out, const spc__row_order *order,
                        const spc_geometry *geometry, int begin, int end)
{
    int count = 0, centre = spc__geometry_centre(geometry);

    for (int k = begin; k < end; k++) {
        int offset[3];
        ranked *r = &out[count];
        if (k == centre)
            continue;
        offset_of(offset, geometry, k);
        count++;
        *r = (ranked){.number = k,
                      .far = norm(offset),
                      .steep = abs(offset[2]),
                      .flat = !order->splits && offset[2] == 0};
        order->unit(r->unit, offset);
    }
    /* All offsets of a unit must sort by the same distance, else they would not
     * be neighbours. Quadratic, but done once a map, with at most
     * SPC_MAX_OFFSETS offsets. */
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            if (same_unit(&out[i], &out[j]) && out[j].far > out[i].far)
                out[i].far = out[j].far;
    qsort(out, (size_t)count, sizeof *out, compare);
    return count;
}

/* ---- bits ------------------------------------------------------------- */

/* Numbers the units. With `splits` the last units are split until there are
 * `limit`. Returns the number of units. */
static int number_units(int *unit_of, const ranked *list, int count, int limit,
                        bool splits)
{
    int units = 0, number = -1;

    for (int i = 0; i < count; i++)
        units += i == 0 || !same_unit(&list[i], &list[i - 1]);
    int spare = splits && units < limit ? limit - units : 0;
    for (int i = count - 1; i >= 0; i--) { /* the nearest comes first */
        bool begins = i == count - 1 || !same_unit(&list[i], &list[i + 1]);
        if (!begins && spare > 0) {
            spare--;
            begins = true;
        }
        number += begins;
        unit_of[i] = number;
    }
    return number + 1;
}

/* Assigns bits to the units of the offsets begin..end; returns the number of
 * bits. If there are more units than bits, the farthest units share bits. */
static int unit_bits(uint32_t *bit_of, const spc__row_order *order,
                     const spc_geometry *geometry, int begin, int end,
                     int limit)
{
    ranked list[SPC_MAX_OFFSETS];
    int unit_of[SPC_MAX_OFFSETS];
    int count = rank_offsets(list, order, geometry, begin, end);
    int units = number_units(unit_of, list, count, limit, order->splits);

    if (units == 0)
        return 0;
    /* Every bit has `size` or `size + 1` units. The nearest bits have fewer, so
     * that the far units, which are rare, share one. */
    int bits = units < limit ? units : limit;
    int size = units / bits, nearest = (bits - units % bits) * size;
    for (int i = 0; i < count; i++) {
        int u = unit_of[i];
        int bit = u < nearest ? u / size
                              : (u - nearest) / (size + 1) + nearest / size;
        bit_of[list[i].number] |= 1u << bit;
    }
    return bits;
}

/* ---- planes ------------------------------------------------------------- */

/* A plane at right angles to an axis, `at` offsets from the middle. */
typedef struct plane {
    int axis, at;
} plane;

/* Rank of a plane among those of its axis. Across z the near planes come first,
 * as they show whether a patch is level. Along the other axes rows meet near
 * planes more often, so the far ones come first. The middle plane is last. */
static int rank_of(const plane *p)
{
    int away = abs(p->at);

    return away == 0 ? INT_MAX : p->axis == 2 ? away : -away;
}

/* The first plane gets the most significant bit. */
static int compare_planes(const void *a, const void *b)
{
    const plane *one = a, *two = b;

    if (one->axis != two->axis)
        return two->axis - one->axis;
    if (rank_of(one) != rank_of(two))
        return rank_of(one) < rank_of(two) ? -1 : 1;
    return two->at - one->at;
}

/* Lists up to `most` planes that contain an offset; returns their number.
 * Middle planes are left out if there is a centre, since every row would have
 * them. */
static int list_planes(plane *out, const spc_geometry *geometry, int most)
{
    plane all[3 * SPC_MAX_OFFSETS];
    int count = 0, different = 0, centre = spc__geometry_centre(geometry);

    for (int k = 0; k < spc_geometry_offset_count(geometry); k++) {
        int delta[3];
        offset_of(delta, geometry, k);
        for (int i = 0; i < 3; i++)
            if (delta[i] != 0 || centre < 0)
                all[count++] = (plane){i, delta[i]};
    }
    qsort(all, (size_t)count, sizeof *all, compare_planes);
    for (int i = 0; i < count && different < most; i++)
        if (i == 0 || compare_planes(&all[i], &all[i - 1]) != 0)
            out[different++] = all[i];
    return different;
}

/* Adds the bits of the planes above those of the units. */
static void mark_planes(uint32_t *bit_of, const plane *planes, int count,
                        const spc_geometry *geometry, int units)
{
    for (int k = 0; k < spc_geometry_offset_count(geometry); k++) {
        int delta[3];
        offset_of(delta, geometry, k);
        for (int i = 0; i < count; i++)
            if (delta[planes[i].axis] == planes[i].at)
                bit_of[k] |= 1u << (units + count - 1 - i);
    }
}

int spc__row_order_bits(uint32_t *bit_of, const spc__row_order *order,
                        const spc_geometry *geometry, int group)
{
    int offsets = spc_geometry_offset_count(geometry);
    int begin = spc__group_begin(group, order->groups, offsets);
    int end = spc__group_begin(group + 1, order->groups, offsets);
    /* A digest of SPC__DIGEST_FEW bits saves a pass of the sort, which is
     * enough for a kernel of 3 x 3 x 3. */
    int limit = offsets <= 27 ? SPC__DIGEST_FEW : SPC__DIGEST_MANY;
    plane planes[SPC__DIGEST_MANY];
    /* A third of the bits remains for the lines. */
    int across =
        order->planes ? list_planes(planes, geometry, limit * 2 / 3) : 0;

    memset(bit_of, 0, (size_t)offsets * sizeof *bit_of);
    int units = unit_bits(bit_of, order, geometry, begin, end, limit - across);
    mark_planes(bit_of, planes, across, geometry, units);
    return units + across;
}

/* ---- other digests ------------------------------------------------------ */

/* Bits needed for values 0 to `most`. */
static int bits_for(int most)
{
    int bits = 0;

    while (most >> bits)
        bits++;
    return bits;
}

/* The number of bits of a key's field. */
static int field_bits(const spc_index_key *key, int field)
{
    int bits = 0;

    while (key->wide[field] >> bits)
        bits++;
    return bits;
}

/*
 * Maps each bit of a key to a bit of the digest: the batch on top, then the
 * bits of x, y and z interleaved from the highest down. A shorter axis runs out
 * of bits first. Bits beyond 32 are dropped, so rows that differ only in those
 * stay in key order. Returns the number of bits.
 */
static int morton_bits(uint32_t *bit_of, const spc_index_key *key)
{
    int at[SPC__KEY_BITS], count = 0, level = 0, bits;

    /* The batch on top keeps the elements apart. */
    for (int i = field_bits(key, 0) - 1; i >= 0; i--)
        at[count++] = key->shift[0] + i;
    for (int i = 1; i < 4; i++)
        if (field_bits(key, i) > level)
            level = field_bits(key, i);
    while (level-- > 0)
        for (int i = 1; i < 4; i++)
            if (level < field_bits(key, i))
                at[count++] = key->shift[i] + level;
    bits = count < 32 ? count : 32;
    memset(bit_of, 0, SPC__KEY_BITS * sizeof *bit_of);
    for (int i = 0; i < bits; i++)
        bit_of[at[i]] = (uint32_t)1 << (bits - 1 - i);
    return bits;
}

/* ---- public -------------------------------------------------------------- */

spc_status spc__row_order_describe(spc__map_layout *out,
                                   const spc__row_order *order,
                                   const spc_geometry *geometry,
                                   const spc_index_key *key, int group,
                                   spc_error *error)
{
    int offsets = spc_geometry_offset_count(geometry);
    /* The array serves offsets or the bits of a key, whichever are more. */
    int bits = offsets > SPC__KEY_BITS ? offsets : SPC__KEY_BITS;

    out->sorted = order;
    out->by = order->by;
    out->group = group;
    out->groups = order->groups;
    out->begin = spc__group_begin(group, order->groups, offsets);
    out->end = spc__group_begin(group + 1, order->groups, offsets);
    out->bit_of = calloc((size_t)bits, sizeof *out->bit_of);
    if (!out->bit_of)
        return spc__fail_memory(error, (size_t)bits * sizeof *out->bit_of);
    out->bits = order->by == SPC_INDEX_BY_KEY ? morton_bits(out->bit_of, key)
                : order->by == SPC_INDEX_BY_COUNT
                    ? bits_for(offsets)
                    : spc__row_order_bits(out->bit_of, order, geometry, group);
    return SPC_OK;
}
