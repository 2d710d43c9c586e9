/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - the order of cells in rows (table.h). */
#include "cache/exchange/table.h"

#include <string.h>

const spc__table_field spc__table_first[SPC__TABLE_FIRST] = {
    {"buckets", NULL},   {"template", NULL}, {"config", NULL},
    {"median_us", NULL}, {"cold_us", NULL},
};

const spc__table_field spc__table_chosen[SPC__TABLE_CHOSEN] = {
    {"reason", NULL}, {"at", NULL},   {"version", NULL}, {"compiler", NULL},
    {"driver", NULL}, {"host", NULL}, {"scenes", NULL},  {"seed", NULL},
};

/* Cells at the end are omitted if they have their usual values. */
const spc__table_field spc__table_second[SPC__TABLE_SECOND] = {
    {"spread_us", NULL}, {"samples", NULL}, {"error", NULL},
    {"at", NULL},        {"scenes", ""},    {"features", ""},
    {"artefact", ""},    {"launch", ""},    {"resources", ""},
    {"compile_ms", "0"}, {"status", "ok"},  {"verified", "1"},
    {"note", ""},
};

const char *const spc__table_above[SPC__TABLE_ABOVE] = {
    "device", "target", "version", "compiler", "driver",
    "host",   "seed",   "layer",   "family",
};

const char *const spc__table_lists[SPC__TABLE_LISTS] = {
    "buckets", "config", "features", "launch", "resources",
};

int spc__table_list_of(const char *field)
{
    for (int i = 0; i < SPC__TABLE_LISTS; i++)
        if (strcmp(spc__table_lists[i], field) == 0)
            return i;
    return -1;
}
