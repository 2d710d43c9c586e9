/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space_summary.c - a summary of a search space: a row for each template, with
 * the most frequent reason of refusals.
 */
#include "command/space.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Exceeds the number of constraints of any template. */
enum { REASONS = 64 };

typedef struct reason {
    const char *note; /* reason of the first candidate */
    int count;
} reason;

typedef struct row {
    const char *name;
    const char *chosen; /* configuration of the default, or NULL */
    int candidates, refused;
    reason reasons[REASONS];
    int reason_count;
} row;

/*
 * Reasons are of one kind if they differ only in numbers: "needs 4096 bytes",
 * "needs 8192 bytes".
 */
static bool is_one_kind(const char *a, const char *b)
{
    for (;;) {
        while (isdigit((unsigned char)*a))
            a++;
        while (isdigit((unsigned char)*b))
            b++;
        if (*a != *b)
            return false;
        if (*a == '\0')
            return true;
        a++;
        b++;
    }
}

/* Counts a refusal by its kind; kinds that exceed the array are dropped. */
static void count_reason(row *r, const char *note)
{
    int i = 0;

    while (i < r->reason_count && !is_one_kind(r->reasons[i].note, note))
        i++;
    if (i == REASONS)
        return;
    if (i == r->reason_count)
        r->reasons[r->reason_count++] = (reason){note, 0};
    r->reasons[i].count++;
}

/* A refusal without a configuration means that the template refuses the whole
 * layer. */
static void count_trial(row *r, const spc_trial *trial)
{
    bool is_whole = trial->config[0] == '\0' && !trial_is_ok(trial);

    r->candidates += !is_whole;
    r->refused += !is_whole && !trial_is_ok(trial);
    if (trial->is_default)
        r->chosen = trial->config;
    if (!trial_is_ok(trial))
        count_reason(r, trial->note);
}

static void print_row(table *t, const row *r)
{
    const reason *most = &r->reasons[0];

    for (int i = 1; i < r->reason_count; i++)
        if (r->reasons[i].count > most->count)
            most = &r->reasons[i];
    table_cell(t, "%s", r->name);
    table_cell(t, "%d", r->candidates);
    table_cell(t, "%d", r->candidates - r->refused);
    table_cell(t, "%s", r->chosen != NULL ? r->chosen : "");
    if (r->reason_count == 0)
        table_blank(t);
    else if (r->candidates == 0)
        table_cell(t, "%s", most->note);
    else
        table_cell(t, "%d: %s", most->count, most->note);
}

void space_print_summary(const trials *found)
{
    static const char *const titles[] = {"template",          ">candidates",
                                         ">admitted",         "-default",
                                         "mostly refused by", NULL};
    table t;

    table_init(&t, titles);
    for (int i = 0; i < found->count;) {
        row r = {.name = found->at[i].template_name};
        while (i < found->count &&
               strcmp(found->at[i].template_name, r.name) == 0)
            count_trial(&r, &found->at[i++]);
        print_row(&t, &r);
    }
    table_print(&t, stdout);
    table_release(&t);
    puts("--all lists the candidates, --admitted those that are left");
}
