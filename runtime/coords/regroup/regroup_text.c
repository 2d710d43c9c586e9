/* SPDX-License-Identifier: Apache-2.0 */
/* regroup_text.c - parses and formats a regrouping. */
#include "coords/regroup/regroup.h"

#include "base/error.h"
#include "base/text/words.h"
#include "operators/geometry.h"
#include <stdio.h>
#include <string.h>

enum { AXES = 3 };

/* ---- operations and their words ------------------------------------------ */

/* An operation's name, its value without words, and an example. */
static const struct head {
    const char *name;
    int scale, split;
    const char *example;
} heads[] = {
    {"prune", 1, 1, "prune"},
    {"union", 1, 1, "union"},
    {"scale", 1, 1, "scale,by=2"},
    {"collapse", 1, 1, "collapse,axis=z"},
    {"subdivide", 2, 2, "subdivide,by=2"},
    {"channel2space", 2, 2, "channel2space,by=2"},
    {"regroup", 1, 1, "regroup,scale=2x2x1,split=2x1x1"},
};
enum { HEADS = sizeof(heads) / sizeof(heads[0]) };

/* Kinds of operations, one bit each, in the order of `heads`. */
enum { SCALE = 4, COLLAPSE = 8, SPLITTING = 16 | 32, REGROUP = 64 };

static const char *const axis_names[] = {"x", "y", "z", NULL};

/* The values of the words. An operation that makes children multiplies by their
 * number. */
typedef struct values {
    int scale[AXES], split[AXES];
    int flat; /* an axis whose scale is 0 */
} values;

#define AT(field) offsetof(values, field)

static const spc__word words[] = {
    {"by", AT(scale), "2", SPC__AXES(0, SPC__GEOMETRY_MOST), .only = SCALE,
     .need = SCALE},
    {"by", AT(split), "2", SPC__AXES(1, SPC_REGROUP_CHILDREN),
     .only = SPLITTING},
    {"axis", AT(flat), "z", SPC__NAME(axis_names), .only = COLLAPSE,
     .need = COLLAPSE},
    {"scale", AT(scale), "2", SPC__AXES(0, SPC__GEOMETRY_MOST),
     .only = REGROUP},
    {"split", AT(split), "2", SPC__AXES(1, SPC_REGROUP_CHILDREN),
     .only = REGROUP},
    {0},
};

/* Reads an operation and its words. */
static spc_status read_words(spc_regrouping *out, const char *text,
                             spc_error *error)
{
    const char *names[HEADS + 1] = {NULL};
    spc__span rest = spc__span_of(text), head;
    spc__word_list list = {.table = words};
    spc_status status = spc__word_list_next(&head, text, &rest, error);

    if (status != SPC_OK)
        return status;
    for (int i = 0; i < HEADS; i++)
        names[i] = heads[i].name;
    int index = spc__name_find(names, head);
    if (index < 0)
        return spc__fail_unknown(error, "regrouping", head, names);
    const struct head *of = &heads[index];
    /* The values of an operation without words; the words below replace
     * them. */
    values v = {{of->scale, of->scale, of->scale},
                {of->split, of->split, of->split},
                -1};
    list.kind = 1u << index;
    list.head = of->name;
    list.example = of->example;
    status = spc__word_list_read(&v, &list, text, rest, error);
    /* Scale 0 maps every coordinate of the axis to 0, which collapses it. */
    if (v.flat >= 0)
        v.scale[v.flat] = 0;
    /* Splitting into n children takes a scale of n, so one word sets both. */
    memcpy(out->scale, list.kind & SPLITTING ? v.split : v.scale,
           sizeof(v.scale));
    memcpy(out->split, v.split, sizeof(v.split));
    return status;
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
                         "the regrouping is empty; example: scale,by=2");
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
