/* SPDX-License-Identifier: Apache-2.0 */
/* regroup_text.c - parses and formats a regrouping. */
#include "coords/regroup/regroup.h"

#include "base/error.h"
#include "base/names.h"
#include "operators/conv.h"
#include <stdio.h>
#include <string.h>

enum { WORD_BYTES = 64, AXES = 3 };

/* ---- names and their words ----------------------------------------------- */

/* The word that is set; `by` sets both if there are children. */
enum { SCALE = 1, SPLIT = 2, FLAT = 4 };

/* An operation's name, its value without words, and the words that it takes. */
typedef struct head {
    const char *name;
    int scale, split;
    struct {
        const char *name;
        int sets;
        bool needed;
    } words[2];
} head;

static const head heads[] = {
    {"prune", 1, 1, {{NULL, 0, false}}},
    {"union", 1, 1, {{NULL, 0, false}}},
    {"scale", 1, 1, {{"by", SCALE, true}}},
    {"collapse", 1, 1, {{"axis", FLAT, true}}},
    {"subdivide", 2, 2, {{"by", SCALE | SPLIT, false}}},
    {"channel2space", 2, 2, {{"by", SCALE | SPLIT, false}}},
    {"regroup", 1, 1, {{"scale", SCALE, false}, {"split", SPLIT, false}}},
};
enum { HEADS = sizeof(heads) / sizeof(heads[0]) };

static void fill(int axes[AXES], int value)
{
    for (int i = 0; i < AXES; i++)
        axes[i] = value;
}

static spc_status read_head(spc_regrouping *out, const head **of,
                            const char *text, spc_error *error)
{
    const char *names[HEADS + 1] = {NULL};

    for (int i = 0; i < HEADS; i++)
        names[i] = heads[i].name;
    int index = spc__name_index(names, text);
    if (index < 0)
        return spc__fail_unknown(error, "regrouping", text, names);
    *of = &heads[index];
    fill(out->scale, heads[index].scale);
    fill(out->split, heads[index].split);
    return SPC_OK;
}

/* ---- values -------------------------------------------------------------- */

/* Accepts digits only. */
static bool read_number(int *out, const char *text, size_t length)
{
    *out = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *out = *out * 10 + (text[i] - '0');
        if (*out > SPC__GEOMETRY_MOST)
            return false;
    }
    return length > 0;
}

/* Parses "2" (all axes) or "3x1x2". */
static bool read_axes(int out[AXES], const char *value, int least, int most)
{
    int count = 0;

    for (;; value++) {
        size_t length = strcspn(value, "x");
        if (count == AXES || !read_number(&out[count], value, length) ||
            out[count] < least || out[count] > most)
            return false;
        count++;
        value += length;
        if (*value == '\0')
            break;
    }
    if (count == 1)
        fill(out, out[0]);
    return count != 2;
}

static spc_status set_flat(spc_regrouping *out, const char *value,
                           spc_error *error)
{
    static const char *const names[] = {"x", "y", "z", NULL};
    int axis = spc__name_index(names, value);

    if (axis < 0)
        return spc__fail_unknown(error, "axis", value, names);
    out->scale[axis] = 0;
    return SPC_OK;
}

static spc_status set_word(spc_regrouping *out, int sets, const char *name,
                           const char *value, spc_error *error)
{
    int least = sets & SPLIT ? 1 : 0, axes[AXES];
    int most = sets & SPLIT ? SPC_REGROUP_CHILDREN : SPC__GEOMETRY_MOST;

    if (sets == FLAT)
        return set_flat(out, value, error);
    if (!read_axes(axes, value, least, most))
        return spc__fail(error, SPC_EINVAL,
                         "%s=%.40s: one number for all axes (%s=2) or three "
                         "(%s=3x1x2), each %d to %d, is right",
                         name, value, name, name, least, most);
    if (sets & SCALE)
        memcpy(out->scale, axes, sizeof(axes));
    if (sets & SPLIT)
        memcpy(out->split, axes, sizeof(axes));
    return SPC_OK;
}

/* ---- words --------------------------------------------------------------- */

static spc_status read_word(spc_regrouping *out, const head *of, unsigned *seen,
                            char *text, spc_error *error)
{
    const char *names[3] = {of->words[0].name, of->words[1].name, NULL};
    char *value = strchr(text, '=');

    if (value != NULL)
        *value++ = '\0';
    if (names[0] == NULL)
        return spc__fail(error, SPC_EINVAL, "%s has no words: found '%.40s'",
                         of->name, text);
    int index = spc__name_index(names, text);
    if (index < 0)
        return spc__fail_unknown(error, "word", text, names);
    if (value == NULL)
        return spc__fail(error, SPC_EINVAL, "'%s' needs a value, as in %s=%s",
                         text, text, of->words[index].sets == FLAT ? "z" : "2");
    if (*seen >> index & 1)
        return spc__fail(error, SPC_EINVAL,
                         "'%s' is given twice; once is right", text);
    *seen |= 1u << index;
    return set_word(out, of->words[index].sets, text, value, error);
}

static spc_status read_words(spc_regrouping *out, const char *text,
                             spc_error *error)
{
    const head *of = NULL;
    unsigned seen = 0;

    for (const char *next = text;; next++) {
        char word[WORD_BYTES];
        size_t length = strcspn(next, ",");
        if (length == 0 || length >= sizeof(word))
            return spc__fail(
                error, SPC_EINVAL, "the word at position %zu is %s",
                (size_t)(next - text), length == 0 ? "empty" : "too long");
        memcpy(word, next, length);
        word[length] = '\0';
        spc_status status = of == NULL ? read_head(out, &of, word, error)
                                       : read_word(out, of, &seen, word, error);
        if (status != SPC_OK)
            return status;
        next += length;
        if (*next == '\0')
            break;
    }
    if (of->words[0].needed && !(seen & 1))
        return spc__fail(error, SPC_EINVAL,
                         "'%s' is missing: it is written %s,%s=%s",
                         of->words[0].name, of->name, of->words[0].name,
                         of->words[0].sets == FLAT ? "z" : "2");
    return SPC_OK;
}

/* ---- public -------------------------------------------------------------- */

spc_status spc_regrouping_parse(spc_regrouping *out, const char *text,
                                spc_error *error)
{
    spc_regrouping how = SPC_REGROUPING_INIT;
    spc_status status = spc__need(error, __func__, "out", out, NULL);

    if (status != SPC_OK)
        return status;
    if (text == NULL || text[0] == '\0')
        return spc__fail(error, SPC_EINVAL,
                         "the regrouping is empty: it is written scale,by=2");
    if ((status = read_words(&how, text, error)) == SPC_OK)
        status = spc_regrouping_check(&how, error);
    if (status != SPC_OK) {
        spc__fail_prefix(error, "regrouping '%.120s': ", text);
        return status; /* the same status if the caller passed no `error` */
    }
    *out = how;
    return SPC_OK;
}

/* Three equal axes are written as one number. */
static void format_axes(char out[40], const int axes[AXES])
{
    if (axes[0] == axes[1] && axes[0] == axes[2])
        snprintf(out, 40, "%d", axes[0]);
    else
        snprintf(out, 40, "%dx%dx%d", axes[0], axes[1], axes[2]);
}

int spc_regrouping_format(char *out, size_t bytes, const spc_regrouping *how)
{
    char scale[40], split[40];

    if (out == NULL)
        bytes = 0;
    if (how == NULL)
        return snprintf(out, bytes, "%s", "");
    format_axes(scale, how->scale);
    format_axes(split, how->split);
    return snprintf(out, bytes, "regroup,scale=%s,split=%s", scale, split);
}
