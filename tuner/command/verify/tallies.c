/* SPDX-License-Identifier: Apache-2.0 */
/* tallies.c - counts cases by kernel and type. */
#include "command/verify/tallies.h"

#include "command/cli/output.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernels beyond the array's size share its last element. */
static tally *tally_of(tallies *t, const char *kernel, const char *type)
{
    int i = 0;

    while (i < t->count && (strcmp(t->at[i].kernel, kernel) != 0 ||
                            strcmp(t->at[i].type, type) != 0))
        i++;
    if (i == TALLIES)
        return &t->at[TALLIES - 1];
    if (i == t->count) {
        snprintf(t->at[i].kernel, sizeof(t->at[i].kernel), "%s", kernel);
        snprintf(t->at[i].type, sizeof(t->at[i].type), "%s", type);
        t->count++;
    }
    return &t->at[i];
}

void tallies_count(tallies *t, const char *kernel, const char *type,
                   bool passed)
{
    tally *at = tally_of(t, kernel, type);

    at->passed += passed;
    at->failed += !passed;
}

static int by_name(const void *a, const void *b)
{
    const tally *one = a, *two = b;
    int order = strcmp(one->kernel, two->kernel);

    return order != 0 ? order : strcmp(one->type, two->type);
}

static void sort(tallies *t)
{
    qsort(t->at, (size_t)t->count, sizeof(t->at[0]), by_name);
}

void tallies_print(tallies *t)
{
    static const char *const titles[] = {"kernel", "type", ">passed", ">failed",
                                         NULL};
    table out;

    sort(t);
    table_init(&out, titles);
    for (int i = 0; i < t->count; i++) {
        table_cell(&out, "%s", t->at[i].kernel);
        table_cell(&out, "%s", t->at[i].type);
        table_cell(&out, "%d", t->at[i].passed);
        table_cell(&out, "%d", t->at[i].failed);
    }
    if (t->count > 0)
        table_print(&out, stdout);
    table_release(&out);
}

void tallies_write(tallies *t, spc__json *json)
{
    sort(t);
    spc__json_array(json, "kernels");
    for (int i = 0; i < t->count; i++) {
        spc__json_object(json, NULL);
        spc__json_text(json, "kernel", t->at[i].kernel);
        spc__json_text(json, "type", t->at[i].type);
        spc__json_int(json, "passed", t->at[i].passed);
        spc__json_int(json, "failed", t->at[i].failed);
        spc__json_end_object(json);
    }
    spc__json_end_array(json);
}
