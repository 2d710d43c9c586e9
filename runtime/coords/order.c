/*
 * order.c - sorted row orders: which offsets share a bit of the digest.
 *
 * A tile costs as many steps as its rows have offsets between them, so rows of
 * like masks should be neighbours. Rows are sorted by the Gray rank of a digest
 * of their mask (Gray codes: neighbours differ in one bit). A digest shorter
 * than the mask sorts faster and, for large tiles, better: a distinction that
 * scatters rows which share nearly everything costs more than it gains. Which
 * offsets may share a bit depends on the scene:
 *
 *   gray    an offset and its opposite. A smooth surface has both or neither.
 *   gray_x  the line along x, where z is not 0; half the line where it is. For
 *           scans of a street: a patch of ground or wall meets whole lines of
 *           the planes above and below.
 *   gray_y  the same along y.
 *
 * Bits go from the farthest offsets, which are the rarest, to the nearest, the
 * farthest most significant; the centre has none.
 */
#include "layout.h"
#include <stdlib.h>
#include <string.h>

/* Offsets that belong together have equal units. */
typedef void unit_rule(int unit[3], const int offset[3]);

struct spc__row_order {
    const char *name;
    unit_rule *unit;
    bool splits; /* units are taken apart while bits are left */
};

static int sign(int value)
{
    return (value > 0) - (value < 0);
}

static void opposites(int unit[3], const int offset[3])
{
    int side = sign(offset[0] ? offset[0] : offset[1] ? offset[1] : offset[2]);

    for (int i = 0; i < 3; i++)
        unit[i] = side * offset[i];
}

static void lines(int unit[3], const int offset[3], int axis)
{
    memcpy(unit, offset, 3 * sizeof *unit);
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
    {"gray", opposites, true},
    {"gray_x", lines_x, false},
    {"gray_y", lines_y, false},
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
    return "none, gray, gray_x or gray_y";
}

/* ---- ranking ---------------------------------------------------------- */

/* An offset of the kernel; those of one unit are neighbours when sorted. */
typedef struct ranked {
    int number; /* k */
    int unit[3];
    int far;   /* of the unit: the largest |x| + |y| + |z| */
    int steep; /* |z| */
    bool flat; /* lies in the plane z = 0, where orders differ by line */
} ranked;

static int norm(const int offset[3])
{
    return abs(offset[0]) + abs(offset[1]) + abs(offset[2]);
}

static int compare(const void *a, const void *b)
{
    const ranked *one = a, *two = b;

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

/* Where an offset lies in its kernel, from the middle: dilation and padding
 * change nothing about which offsets are neighbours. */
static void place_of(int offset[3], const spc_geometry *geometry, int k)
{
    if (geometry->offset_count > 0) {
        spc_geometry_offset(offset, geometry, k);
        return;
    }
    for (int i = 2; i >= 0; i--) {
        offset[i] = k % geometry->kernel[i] - (geometry->kernel[i] - 1) / 2;
        k /= geometry->kernel[i];
    }
}

/* All offsets but the centre of a submanifold kernel, which every row has,
 * units in their order; returns how many. */
static int rank_offsets(ranked *out, const spc__row_order *order,
                        const spc_geometry *geometry)
{
    int count = 0, centre = spc__geometry_centre(geometry);

    for (int k = 0; k < spc_geometry_offsets(geometry); k++) {
        int offset[3];
        ranked *r = &out[count];
        if (k == centre)
            continue;
        place_of(offset, geometry, k);
        count++;
        *r = (ranked){.number = k,
                      .far = norm(offset),
                      .steep = abs(offset[2]),
                      .flat = !order->splits && offset[2] == 0};
        order->unit(r->unit, offset);
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            if (same_unit(&out[i], &out[j]) && out[j].far > out[i].far)
                out[i].far = out[j].far;
    qsort(out, (size_t)count, sizeof *out, compare);
    return count;
}

/* ---- bits ------------------------------------------------------------- */

/* Numbers the units; where `splits` says so the last ones are taken apart, so
 * that there are up to `limit`. Returns how many there are. */
static int number_units(int *unit_of, const ranked *list, int count, int limit,
                        bool splits)
{
    int units = 0, number = -1;

    for (int i = 0; i < count; i++)
        units += i == 0 || !same_unit(&list[i], &list[i - 1]);
    int spare = splits && units < limit ? limit - units : 0;
    for (int i = count - 1; i >= 0; i--) { /* from the nearest */
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

int spc__row_order_bits(uint32_t *bit_of, const spc__row_order *order,
                        const spc_geometry *geometry)
{
    int offsets = spc_geometry_offsets(geometry);
    int limit = offsets <= 27 ? SPC__DIGEST_FEW : SPC__DIGEST_MANY;
    ranked list[SPC_MAX_OFFSETS];
    int unit_of[SPC_MAX_OFFSETS];
    int count = rank_offsets(list, order, geometry);
    int units = number_units(unit_of, list, count, limit, order->splits);

    memset(bit_of, 0, (size_t)offsets * sizeof *bit_of);
    if (units == 0)
        return 0;
    /* More units than bits: neighbours share one, the farthest ones first. */
    int bits = units < limit ? units : limit;
    int size = units / bits, nearest = (bits - units % bits) * size;
    for (int i = 0; i < count; i++) {
        int u = unit_of[i];
        int bit = u < nearest ? u / size
                              : (u - nearest) / (size + 1) + nearest / size;
        bit_of[list[i].number] = 1u << bit;
    }
    return bits;
}
