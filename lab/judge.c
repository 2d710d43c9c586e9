/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c - compares results with expected values. */
#include "lab/judge.h"

#include "base/dtype.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* How many elements are decoded at once. */
enum { SPAN = 256 };

/* Consecutive elements of a row. */
typedef struct span {
    const char *got, *stored; /* numbers in the stored type; `stored` may be
                               * NULL */
    int64_t row, first;       /* first element of the row */
    int64_t at;               /* the same index, counted in rows without gaps */
    size_t count;
} span;

/* Returns the part of row `row` from channel `first` on. */
static span span_at(const void *result, const spc__operand *of,
                    const spc__expected *e, int64_t row, int64_t first)
{
    size_t offset =
        (size_t)(row * of->pitch + first) * spc__dtype_of(of->dtype)->bytes;

    return (span){.got = (const char *)result + offset,
                  .stored = e->stored != NULL ? (const char *)e->stored + offset
                                              : NULL,
                  .row = row,
                  .first = first,
                  .at = row * of->columns + first};
}

/* Returns the references rounded to the stored type. */
static void decode_references(float *out, const span *s, const spc__dtype *type,
                              const spc__expected *e)
{
    char stored[SPAN * sizeof(float)];

    if (s->stored != NULL) {
        type->decode(out, s->stored, s->count);
        return;
    }
    for (size_t i = 0; i < s->count; i++)
        out[i] = (float)e->reference[s->at + (int64_t)i];
    type->encode(stored, out, s->count);
    type->decode(out, stored, s->count);
}

static double tolerance_at(const spc__expected *e, int64_t at)
{
    return e->tolerance != NULL        ? (double)e->tolerance[at]
           : e->wide_tolerance != NULL ? e->wide_tolerance[at]
                                       : 0;
}

static bool only_rounded(const spc__expected *e)
{
    return e->tolerance == NULL && e->wide_tolerance == NULL;
}

/* `as_stored` is the reference rounded to the type. */
static double error_of(const spc__expected *e, double got, double reference,
                       double as_stored, double tolerance)
{
    bool rounded = e->rounded || only_rounded(e);

    if (rounded && (got == as_stored || (isnan(got) && isnan(as_stored))))
        return 0;
    if (e->odd != SPC__ODD_WRONG && !isfinite(reference))
        return e->odd == SPC__ODD_ANYTHING || !isfinite(got) ? 0 : INFINITY;
    double off = fabs(got - reference);
    double error = off == 0 ? 0 : off / tolerance;
    /* A comparison with NaN is false, so NaN would pass. */
    return isnan(error) ? INFINITY : error;
}

/* Keeps any element if the error of *worst is negative. */
static void judge_span(spc__worst *worst, const span *s, const spc__operand *of,
                       const spc__expected *e)
{
    const spc__dtype *type = spc__dtype_of(of->dtype);
    bool decodes = s->stored != NULL || e->rounded || only_rounded(e);
    float got[SPAN], as_stored[SPAN];

    /* Compares bytes first, as most results are bitwise equal. */
    if (worst->error >= 0 && s->stored != NULL &&
        memcmp(s->got, s->stored, s->count * type->bytes) == 0)
        return;
    type->decode(got, s->got, s->count);
    if (decodes)
        decode_references(as_stored, s, type, e);
    for (size_t i = 0; i < s->count; i++) {
        int64_t at = s->at + (int64_t)i;
        double reference =
            s->stored != NULL ? (double)as_stored[i] : e->reference[at];
        double error =
            error_of(e, (double)got[i], reference,
                     decodes ? (double)as_stored[i] : 0, tolerance_at(e, at));
        if (error > worst->error)
            *worst = (spc__worst){error, s->row, (int)(s->first + (int64_t)i),
                                  (double)got[i], reference};
    }
}

spc__worst spc__judge(const void *result, const spc__operand *of,
                      const spc__expected *expected)
{
    spc__worst worst = {0};

    for (int64_t row = 0; row < of->rows; row++)
        for (int64_t first = 0; first < of->columns; first += SPAN) {
            span s = span_at(result, of, expected, row, first);
            int64_t left = of->columns - first;
            s.count = (size_t)(left < SPAN ? left : SPAN);
            judge_span(&worst, &s, of, expected);
            /* No later element can be worse. */
            if (isinf(worst.error))
                return worst;
        }
    return worst;
}

spc__worst spc__judge_element(const void *result, const spc__operand *of,
                              const spc__expected *expected, int64_t i)
{
    span s = span_at(result, of, expected, i / of->columns, i % of->columns);
    spc__worst worst = {.error = -1};

    s.count = 1;
    judge_span(&worst, &s, of, expected);
    return worst;
}

const void *spc__element_at(const void *result, const spc__operand *of,
                            int64_t i)
{
    int64_t at = i / of->columns * of->pitch + i % of->columns;

    return (const char *)result + (size_t)at * spc__dtype_of(of->dtype)->bytes;
}

const char *spc__worst_text(char out[SPC__WORST_TEXT], const spc__worst *worst)
{
    snprintf(
        out, SPC__WORST_TEXT, "row %lld, channel %d is %.9g, expected %.9g",
        (long long)worst->row, worst->channel, worst->got, worst->reference);
    return out;
}

bool spc__gaps_hold(const void *result, const spc__operand *of)
{
    size_t element = spc__dtype_of(of->dtype)->bytes;
    const unsigned char *bytes = result;

    /* No gap follows the last row. */
    for (int64_t row = 0; row + 1 < of->rows && of->bytes > of->dense_bytes;
         row++)
        for (size_t i = (size_t)(row * of->pitch + of->columns) * element;
             i < (size_t)((row + 1) * of->pitch) * element; i++)
            if (bytes[i] != SPC__ZONE_BYTE)
                return false;
    return true;
}

spc__operand spc__matrix_of(spc_dtype dtype, int64_t rows, int64_t columns,
                            int64_t pitch)
{
    size_t element = spc__dtype_of(dtype)->bytes;
    size_t gaps = rows > 0 ? (size_t)((rows - 1) * (pitch - columns)) : 0;
    size_t dense = (size_t)(rows * columns) * element;

    return (spc__operand){.name = "",
                          .present = true,
                          .rows = rows,
                          .columns = columns,
                          .pitch = pitch,
                          .dtype = dtype,
                          .dense_bytes = dense,
                          .bytes = dense + gaps * element};
}

void spc__encode_rows(void *to, const spc__operand *as, const float *from)
{
    const spc__dtype *type = spc__dtype_of(as->dtype);

    if (as->bytes != as->dense_bytes)
        memset(to, SPC__ZONE_BYTE, as->bytes);
    for (int64_t row = 0; row < as->rows; row++)
        type->encode((char *)to + (size_t)(row * as->pitch) * type->bytes,
                     from + row * as->columns, (size_t)as->columns);
}
