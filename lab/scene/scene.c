/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene.c - scenes: points that become voxels, in order without duplicates.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char axes[] = "xyz";

/* ---- voxels while they are collected ------------------------------------- */

void spc__voxels_release(spc__voxels *voxels)
{
    free(voxels->at);
    memset(voxels, 0, sizeof(*voxels));
}

spc_status spc__voxels_reserve(spc__voxels *voxels, int64_t more,
                               spc_error *error)
{
    int64_t wanted = voxels->count + more;
    if (wanted <= voxels->capacity)
        return SPC_OK;
    spc_status status = spc__scene_check_memory(wanted, error);
    if (status != SPC_OK)
        return status;

    /* Doubles the capacity, so that pushing n voxels copies O(n) of them. */
    int64_t capacity = voxels->capacity * 2;
    if (capacity < wanted)
        capacity = wanted;
    size_t bytes = (size_t)capacity * 4 * sizeof(int32_t);
    int32_t *at = realloc(voxels->at, bytes);
    if (at == NULL)
        return spc__fail_memory(error, bytes);
    voxels->at = at;
    voxels->capacity = capacity;
    return SPC_OK;
}

void spc__voxels_push(spc__voxels *voxels, int32_t batch, int32_t x, int32_t y,
                      int32_t z)
{
    int32_t *row = voxels->at + 4 * voxels->count++;
    row[0] = batch;
    row[1] = x;
    row[2] = y;
    row[3] = z;
}

/* Names the first axis that does not fit. */
static spc_status fail_range(const double point[3], const double size[3],
                             const spc__source_position *source,
                             spc_error *error)
{
    int axis = 0;

    while (axis < 2 && fabs(floor(point[axis] / size[axis])) <= INT32_MAX)
        axis++;
    return spc__fail(error, SPC_ERANGE,
                     "cannot voxelise '%s': %c = %g of row %lld (byte %lld) is "
                     "voxel %g at size %g, which does not fit 32 bits; use a "
                     "larger voxel size or drop the row",
                     source->path, axes[axis], point[axis],
                     (long long)source->row, (long long)source->byte,
                     floor(point[axis] / size[axis]), size[axis]);
}

/* Computes in float and in this order of operations, like the code with which
 * networks were trained. */
static bool cell_of(int32_t out[3], const double point[3],
                    const spc__grid *grid)
{
    for (int axis = 0; axis < 3; axis++) {
        float cell =
            floorf(((float)point[axis] - grid->low[axis]) / grid->size[axis]);
        /* NaN fails this test too. The conversion comes after the test, as
         * converting a float that does not fit is undefined. */
        if (!(cell >= 0 && cell < (float)grid->cells[axis]))
            return false;
        out[axis] = (int32_t)cell;
    }
    return true;
}

/* Divides by the sizes and rounds down; false if a voxel does not fit int32. */
static bool floor_of(int32_t out[3], const double point[3],
                     const double size[3])
{
    for (int axis = 0; axis < 3; axis++) {
        double cell = floor(point[axis] / size[axis]);
        if (!(cell >= INT32_MIN && cell <= INT32_MAX))
            return false;
        out[axis] = (int32_t)cell;
    }
    return true;
}

spc_status spc__voxels_add_point(spc__voxels *voxels, int32_t batch,
                                 const double point[3],
                                 const spc__source_position *source,
                                 spc_error *error)
{
    const spc__grid *grid = voxels->grid;
    spc_scene_info *info = &voxels->info;
    int32_t at[3];

    info->points++;
    if (!isfinite(point[0]) || !isfinite(point[1]) || !isfinite(point[2])) {
        info->first_bad = info->bad++ > 0 ? info->first_bad : source->row;
        return SPC_OK;
    }
    if (grid != NULL && !cell_of(at, point, grid)) {
        info->outside++;
        return SPC_OK;
    }
    if (grid == NULL && !floor_of(at, point, voxels->size))
        return fail_range(point, voxels->size, source, error);
    spc__voxels_push(voxels, batch, at[0], at[1], at[2]);
    return SPC_OK;
}

void spc__voxels_crop(spc__voxels *voxels, const int shape[3])
{
    int64_t kept = 0;

    for (int64_t i = 0; i < voxels->count; i++) {
        int32_t *row = voxels->at + 4 * i;
        bool inside = true;
        for (int axis = 0; axis < 3; axis++)
            inside &= shape[axis] == 0 ||
                      (row[1 + axis] >= 0 && row[1 + axis] < shape[axis]);
        if (inside)
            memmove(voxels->at + 4 * kept++, row, 4 * sizeof(*row));
    }
    voxels->info.outside += voxels->count - kept;
    voxels->count = kept;
}

/* ---- order --------------------------------------------------------------- */

static int compare_rows(const void *left, const void *right)
{
    const int32_t *a = left, *b = right;
    for (int i = 0; i < 4; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static bool is_ascending(const spc__voxels *voxels)
{
    for (int64_t i = 1; i < voxels->count; i++)
        if (compare_rows(voxels->at + 4 * (i - 1), voxels->at + 4 * i) >= 0)
            return false;
    return true;
}

static void merge_equal_rows(spc__voxels *voxels)
{
    int64_t kept = voxels->count > 0;
    for (int64_t i = 1; i < voxels->count; i++) {
        const int32_t *row = voxels->at + 4 * i;
        if (compare_rows(voxels->at + 4 * (kept - 1), row) != 0)
            memmove(voxels->at + 4 * kept++, row, 4 * sizeof(*row));
    }
    voxels->count = kept;
}

/* The layout of the four fields in a 64-bit key: value - low, `bits` wide. */
typedef struct key_layout {
    int32_t low[4];
    int bits[4];
    int total;
} key_layout;

/* The bits that each field needs in a sort key: fewer bits need fewer passes of
 * the radix sort. */
static key_layout layout_of(const spc__voxels *voxels)
{
    key_layout layout = {{0}, {0}, 0};
    for (int field = 0; field < 4; field++) {
        int32_t low = INT32_MAX, high = INT32_MIN;
        for (int64_t i = 0; i < voxels->count; i++) {
            int32_t value = voxels->at[4 * i + field];
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
        uint32_t extent = (uint32_t)high - (uint32_t)low;
        layout.low[field] = low;
        while (layout.bits[field] < 32 && extent >> layout.bits[field] != 0)
            layout.bits[field]++;
        layout.total += layout.bits[field];
    }
    return layout;
}

static uint64_t pack(const key_layout *layout, const int32_t *row)
{
    uint64_t key = 0;
    for (int field = 0; field < 4; field++)
        key = key << layout->bits[field] |
              ((uint32_t)row[field] - (uint32_t)layout->low[field]);
    return key;
}

static void unpack(int32_t *row, const key_layout *layout, uint64_t key)
{
    for (int field = 3; field >= 0; field--) {
        uint64_t mask = ((uint64_t)1 << layout->bits[field]) - 1;
        row[field] =
            (int32_t)((uint32_t)layout->low[field] + (uint32_t)(key & mask));
        key >>= layout->bits[field];
    }
}

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/* One stable pass of the radix sort by the digit at `shift`. */
static void sort_pass(uint64_t *to, const uint64_t *from, int64_t n, int shift)
{
    int64_t start[DIGITS] = {0};
    int64_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        start[from[i] >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
        int64_t count = start[d];
        start[d] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < n; i++)
        to[start[from[i] >> shift & (DIGITS - 1)]++] = from[i];
}

/*
 * Packs the fields that vary, sorts from the least significant digit up, and
 * unpacks.
 */
static spc_status sort_packed(spc__voxels *voxels, const key_layout *layout,
                              spc_error *error)
{
    int64_t n = voxels->count;
    uint64_t *memory = malloc((size_t)n * 2 * sizeof(*memory));
    uint64_t *keys = memory, *other = memory + n;

    if (memory == NULL)
        return spc__fail_memory(error, (size_t)n * 2 * sizeof(*memory));
    for (int64_t i = 0; i < n; i++)
        keys[i] = pack(layout, voxels->at + 4 * i);
    for (int shift = 0; shift < layout->total; shift += DIGIT_BITS) {
        sort_pass(other, keys, n, shift);
        uint64_t *sorted = other;
        other = keys;
        keys = sorted;
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || keys[i] != keys[i - 1])
            unpack(voxels->at + 4 * kept++, layout, keys[i]);
    voxels->count = kept;
    free(memory);
    return SPC_OK;
}

spc_status spc__voxels_sort(spc__voxels *voxels, spc_error *error)
{
    /* Tests first whether the rows are sorted: the test is one pass, the sort
     * at least three. */
    if (is_ascending(voxels))
        return SPC_OK;
    key_layout layout = layout_of(voxels);
    /* Four full fields have 128 bits; qsort() sorts such a set. */
    if (layout.total <= 64)
        return sort_packed(voxels, &layout, error);
    qsort(voxels->at, (size_t)voxels->count, 4 * sizeof(int32_t), compare_rows);
    merge_equal_rows(voxels);
    return SPC_OK;
}

/* ---- from specifications ------------------------------------------------- */

static int32_t floor_divide(int32_t value, int level)
{
    int64_t step = (int64_t)1 << level;
    /* C rounds a quotient towards zero; the floor rule rounds down. In 64 bits,
     * as value - down may have 33. */
    int64_t down = value < 0 ? step - 1 : 0;

    return (int32_t)((value - down) / step);
}

/*
 * The voxels of a level under the floor rule: coordinates divided by 2^level
 * and rounded down. Sorting merges equal ones.
 */
static void descend(spc__voxels *voxels, int level)
{
    for (int64_t i = 0; i < voxels->count; i++)
        for (int axis = 1; axis < 4; axis++)
            voxels->at[4 * i + axis] =
                floor_divide(voxels->at[4 * i + axis], level);
}

spc_status spc__scene_load(spc_scene **out, const char *text,
                           const spc__scene_spec *spec,
                           const spc__scene_range *range, spc_error *error)
{
    spc__voxels voxels = {.grid = range != NULL ? range->grid : NULL};
    int channels = range != NULL ? range->channels : 0;
    spc_status status;

    memcpy(voxels.size, spec->voxel, sizeof(voxels.size));
    status = spec->is_file
                 ? spc__scene_read(&voxels, spec, channels, error)
                 : spc__scene_generate(&voxels, spec->name + 4, error);
    if (status == SPC_OK) {
        if (voxels.info.points == 0) /* the file had voxels, not points */
            voxels.info.points = voxels.count;
        descend(&voxels, spec->level);
        if (range != NULL && range->shape != NULL)
            spc__voxels_crop(&voxels, range->shape);
        status = spc__voxels_sort(&voxels, error);
    }
    if (status == SPC_OK)
        status = spc__scene_take(out, voxels.at, voxels.count, &voxels.info,
                                 text, error);
    if (status == SPC_OK)
        voxels.at = NULL; /* the scene owns them now */
    spc__voxels_release(&voxels);
    return status;
}

spc_status spc_scene_load(spc_scene **out, const char *spec, spc_error *error)
{
    spc__scene_spec read;
    spc_status status = spc__need(error, __func__, "out", out, NULL);

    if (status != SPC_OK)
        return status;
    *out = NULL;
    if ((status = spc__scene_spec_read(&read, spec, error)) == SPC_OK)
        status = spc__scene_load(out, spec, &read, NULL, error);
    spc__scene_spec_release(&read);
    return status;
}
