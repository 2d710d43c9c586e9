/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_raw.c - rows of little-endian float32 without a header (KITTI's .bin).
 *
 * The file does not state how many numbers a row has. If the user does not
 * state it either, the numbers are analysed. If rows have n numbers, numbers
 * that are n apart are of one kind (all x, or all intensities), so the index of
 * a number modulo n predicts its value. fit_of() measures that as mutual
 * information. It is near 0 for a wrong n that has no factor in common with the
 * right one. A fitting n that is expected is used; if another n fits much
 * better, the file is refused.
 */
#include "lab/scene/scene.h"

#include "base/error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float read_f32(const unsigned char *bytes)
{
    uint32_t bits = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
                    (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static float number_at(const spc__scene_file *file, int64_t i)
{
    return read_f32((const unsigned char *)file->data + 4 * i);
}

/* ---- number of columns --------------------------------------------------- */

/*
 * The most numbers that are analysed, the fewest that are significant, and the
 * number of classes of values.
 */
enum { MOST = 1 << 18, FEWEST = 256, BINS = 32, SAMPLED = 4096 };
/* The usual range of numbers in a row. */
enum { LEAST_COLUMNS = 3, MOST_COLUMNS = 8 };

static int compare_floats(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

/* Ends of classes that hold equally many numbers; equal ends are merged. */
static int find_edges(float edges[BINS], const spc__scene_file *file,
                      int64_t count)
{
    float sorted[SAMPLED];
    int found = 0, kept = 0;

    for (int64_t i = 0; i < SAMPLED; i++) {
        /* The second term keeps the step from being a multiple of a row. */
        float value = number_at(file, (i * count / SAMPLED + i % 53) % count);
        if (isfinite(value))
            sorted[found++] = value;
    }
    qsort(sorted, (size_t)found, sizeof(*sorted), compare_floats);
    for (int b = 1; b < BINS && found > 0; b++) {
        float edge = sorted[b * found / BINS];
        if (kept == 0 || edge > edges[kept - 1])
            edges[kept++] = edge;
    }
    return kept;
}

/* NaN is in the first class. */
static unsigned char class_of(float value, const float *edges, int count)
{
    int low = 0;

    for (int high = count; low < high;) {
        int middle = (low + high) / 2;
        if (value >= edges[middle])
            low = middle + 1;
        else
            high = middle;
    }
    return (unsigned char)low;
}

/*
 * The mutual information of a number's class and its column, in nats, minus its
 * expected value by chance.
 */
static double fit_of(const unsigned char *classes, int64_t count, int columns)
{
    int64_t both[SPC__COLUMNS_MOST][BINS] = {{0}}, of_class[BINS] = {0};
    double sum = 0;

    for (int64_t i = 0; i < count; i++) {
        both[i % columns][classes[i]]++;
        of_class[classes[i]]++;
    }
    for (int c = 0; c < columns; c++)
        for (int b = 0; b < BINS; b++)
            if (both[c][b] > 0)
                sum += (double)both[c][b] *
                       log((double)both[c][b] * columns / (double)of_class[b]);
    return (sum - (BINS - 1) * (columns - 1) / 2.0) / (double)count;
}

typedef struct fit_table {
    /* fit for each number of columns; -1: no whole rows */
    double of[SPC__COLUMNS_MOST + 1];
    double chance; /* an insignificant difference */
    /* best number of columns; 0: none gives whole rows */
    int best;
} fit_table;

/* Finds how well each number of columns fits the numbers: with the right
 * number, values of a column are alike. */
static spc_status find_fits(fit_table *out, const spc__scene_file *file,
                            spc_error *error)
{
    int64_t numbers = (int64_t)(file->bytes / 4);
    int64_t count = numbers < MOST ? numbers : MOST;
    unsigned char *classes = malloc((size_t)count + 1);
    float edges[BINS];

    *out = (fit_table){.chance = 0.02 + 16 / ((double)count + 1)};
    if (classes == NULL)
        return spc__fail_memory(error, (size_t)count + 1);
    int edge_count = count >= FEWEST ? find_edges(edges, file, count) : 0;
    for (int64_t i = 0; i < count && edge_count > 0; i++)
        classes[i] = class_of(number_at(file, i), edges, edge_count);
    for (int c = LEAST_COLUMNS; c <= SPC__COLUMNS_MOST; c++) {
        bool whole = file->bytes % (4 * (size_t)c) == 0;
        out->of[c] = !whole           ? -1
                     : edge_count > 0 ? fit_of(classes, count, c)
                                      : 0;
        /*
         * A multiple of the right number fits equally well, so a larger number
         * must fit better.
         */
        if (whole && c <= MOST_COLUMNS &&
            (out->best == 0 || out->of[c] > out->of[out->best] + 0.02))
            out->best = c;
    }
    free(classes);
    return SPC_OK;
}

/* ---- choosing ------------------------------------------------------------ */

/* Reports a file that ends within a row, with a number of columns that would
 * fit. */
static spc_status fail_size(const spc__scene_file *file, int columns,
                            const fit_table *fits, spc_error *error)
{
    char advice[64] = "";

    if (fits != NULL && fits->best > 0)
        snprintf(advice, sizeof(advice), "; %d a row would fit: columns=%d",
                 fits->best, fits->best);
    return spc__fail(error, SPC_EFORMAT,
                     "cannot read '%s': it ends at byte %zu in the middle of "
                     "row %lld if rows have %d float32%s; "
                     "FILE.bin@0.05,columns=N states how many a row has",
                     file->path, file->bytes,
                     (long long)(file->bytes / (4 * (size_t)columns)), columns,
                     advice);
}

/* Chooses the first usual number of columns that the file does not contradict.
 * A wrong guess would give a scene of noise without any error, so a doubtful
 * file is refused. */
static spc_status choose_columns(spc__columns *out, const spc__scene_file *file,
                                 spc_error *error)
{
    fit_table fits;
    spc_status status = find_fits(&fits, file, error);
    int whole = 0;

    for (int i = 0; i < SPC__EXPECTED && status == SPC_OK; i++) {
        int c = file->expected[i];
        if (c == 0 || fits.of[c] == -1)
            continue;
        whole = whole > 0 ? whole : c;
        if (fits.best > 0 &&
            fits.of[fits.best] > 1.5 * fits.of[c] + fits.chance)
            continue;
        spc__columns_count(out, c);
        return SPC_OK;
    }
    if (status != SPC_OK)
        return status;
    if (whole == 0)
        return fail_size(file, file->expected[0], &fits, error);
    return spc__fail(
        error, SPC_EFORMAT,
        "cannot read '%s': its numbers look like rows of %d float32, not of "
        "%d; state which: FILE.bin@0.05,columns=%d or columns=%d",
        file->path, fits.best, whole, fits.best, whole);
}

spc_status spc__scene_read_raw(spc__rows *to, const spc__scene_file *file,
                               spc_error *error)
{
    spc__columns columns = file->columns;
    double numbers[SPC__COLUMNS_MOST];
    spc_status status = SPC_OK;

    if (columns.count == 0)
        status = choose_columns(&columns, file, error);
    else if (file->bytes % (4 * (size_t)columns.count) != 0)
        status = fail_size(file, columns.count, NULL, error);
    if (status != SPC_OK)
        return status;
    int64_t rows = (int64_t)file->bytes / (4 * columns.count);
    status = to->begin(to, rows, &columns, false, error);
    for (int64_t row = 0; row < rows && status == SPC_OK; row++) {
        spc__source_position source = {file->path, row,
                                       row * 4 * columns.count};
        for (int c = 0; c < columns.count; c++)
            numbers[c] = number_at(file, row * columns.count + c);
        status = to->take(to, numbers, &source, error);
    }
    return status;
}
