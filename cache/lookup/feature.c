/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature.c - the features by which problems are compared, as buckets, on the
 * scale of distances, and as text.
 *
 * A file holds two texts. A problem's buckets are part of its key. Buckets of 0
 * are omitted, so that a new feature with 0 for the usual value keeps the old
 * keys. A trial has the values themselves.
 */
#include "cache/cache_internal.h"

#include "base/number.h"
#include "base/text/scan.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_BUCKET = 128, NUMBER_BYTES = 32 };

void spc__feature_add(spc__problem_key *key, const char *name, double value,
                      double weight, double width)
{
    assert(key->feature_count < SPC__FEATURES_MAX);
    assert(strlen(name) < SPC__FEATURE_NAME);
    if (key->feature_count >= SPC__FEATURES_MAX)
        return;
    spc__feature *next = &key->features[key->feature_count++];
    *next = (spc__feature){.value = value, .weight = weight, .width = width};
    snprintf(next->name, sizeof(next->name), "%s", name);
}

double spc__feature_value(const spc__problem_key *key, const char *name)
{
    for (int i = 0; i < key->feature_count; i++)
        if (strcmp(key->features[i].name, name) == 0)
            return key->features[i].value;
    return 0;
}

int spc__feature_bucket(double value, double width)
{
    double rounded = round(value / width);
    if (!(rounded > -LAST_BUCKET)) /* also true for NaN */
        return -LAST_BUCKET;
    return rounded < LAST_BUCKET ? (int)rounded : LAST_BUCKET;
}

bool spc__same_buckets(const spc__problem_key *a, const spc__problem_key *b)
{
    for (int i = 0; i < a->feature_count; i++) {
        const spc__feature *f = &a->features[i];
        double other = spc__feature_value(b, f->name);
        if (f->width > 0 && spc__feature_bucket(f->value, f->width) !=
                                spc__feature_bucket(other, f->width))
            return false;
    }
    return true;
}

/* Treats NaN as the smallest value. */
double spc__feature_coordinate(const spc__feature *feature)
{
    double limit = LAST_BUCKET * feature->width;

    if (feature->width <= 0)
        return isfinite(feature->value) ? feature->value : 0;
    return feature->value > -limit ? fmin(feature->value, limit) : -limit;
}

double spc__feature_middle(const spc__feature *feature)
{
    if (feature->width <= 0)
        return spc__feature_coordinate(feature);
    return spc__feature_bucket(feature->value, feature->width) * feature->width;
}

/* ---- text ---------------------------------------------------------------- */

static void put_word(spc__buf *out, const char *name, const char *number)
{
    if (out->length > 0)
        spc__buf_append(out, ",", 1);
    spc__buf_puts(out, name);
    spc__buf_append(out, "=", 1);
    spc__buf_puts(out, number);
}

void spc__features_format(spc__buf *out, const spc__problem_key *key)
{
    enum { MOSTLY_ENOUGH = 15 /* digits of most numbers */ };
    char number[NUMBER_BYTES];

    spc__buf_clear(out);
    for (int i = 0; i < key->feature_count; i++) {
        spc__number_print_exact(number, sizeof(number), MOSTLY_ENOUGH,
                                key->features[i].value);
        put_word(out, key->features[i].name, number);
    }
}

/* Prints -128 to 128 without printf, because each look-up writes buckets. */
static const char *print_bucket(char out[NUMBER_BYTES], int bucket)
{
    char *at = out + NUMBER_BYTES - 1;
    int left = abs(bucket);

    *at = '\0';
    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (bucket < 0)
        *--at = '-';
    return at;
}

void spc__buckets_format(spc__buf *out, const spc__problem_key *key)
{
    char number[NUMBER_BYTES];

    spc__buf_clear(out);
    for (int i = 0; i < key->feature_count; i++) {
        const spc__feature *f = &key->features[i];
        int bucket = f->width > 0 ? spc__feature_bucket(f->value, f->width) : 0;
        if (bucket != 0)
            put_word(out, f->name, print_bucket(number, bucket));
    }
}

static bool parse_word(spc__feature *out, spc__span word)
{
    spc__span name, value;

    spc__scan_pair(&name, &value, word);
    if (name.length == 0 || name.length >= sizeof(out->name) ||
        value.at == NULL || value.length >= NUMBER_BYTES)
        return false;
    *out = (spc__feature){0};
    memcpy(out->name, name.at, name.length);
    return spc__scan_real(&out->value, value);
}

bool spc__features_parse(spc__problem_key *key, const char *text)
{
    spc__span rest = spc__span_of(text);

    key->feature_count = 0;
    while (rest.at != NULL && *text != '\0')
        if (key->feature_count == SPC__FEATURES_MAX ||
            !parse_word(&key->features[key->feature_count++],
                        spc__scan_part(&rest, ',')))
            return false;
    return true;
}
