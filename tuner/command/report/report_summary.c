/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_summary.c - the totals of a report: by operator, by dataflow, and by
 * the distance of layers from their floors.
 */
#include "command/report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 64, NAME = 48 };

typedef struct total {
    char name[NAME];
    int layers, with_floor, with_rivals;
    /* the last two cover only problems with a floor */
    double us, us_with_floor, floor_us;
    double median, worst; /* time divided by floor */
    double regret;        /* largest ratio of the choice to the
                           * best trial */
} total;

/* Returns the name under which a layer is counted. */
typedef void name_giver(char out[NAME], const report_data *data,
                        const report_problem *p);

/* ---- names --------------------------------------------------------------- */

/* "subm", "subm dgrad" */
static void operator_of(char out[NAME], const report_data *data,
                        const report_problem *p)
{
    const char *pass = strstr(p->layer, ",pass=");

    (void)data;
    snprintf(out, NAME, "%.*s", (int)strcspn(p->layer, ","), p->layer);
    if (pass != NULL) {
        size_t used = strlen(out);
        pass += strlen(",pass=");
        snprintf(out + used, NAME - used, " %.*s", (int)strcspn(pass, ","),
                 pass);
    }
}

static void template_of(char out[NAME], const report_data *data,
                        const report_problem *p)
{
    snprintf(out, NAME, "%s", data->templates[p->choice_template]);
}

static const struct {
    double below;
    const char *name;
} bins[] = {{1.5, "below 1.5"},
            {2, "1.5 to 2"},
            {3, "2 to 3"},
            {5, "3 to 5"},
            {INFINITY, "5 and more"}};

static void bin_of(char out[NAME], const report_data *data,
                   const report_problem *p)
{
    int i = 0;

    (void)data;
    while (p->floor_us > 0 && p->us / p->floor_us >= bins[i].below)
        i++;
    snprintf(out, NAME, "%s", p->floor_us > 0 ? bins[i].name : "no floor");
}

/* ---- totals -------------------------------------------------------------- */

static bool is_counted(const report_problem *p, const char *device)
{
    return p->choice != NULL && p->us > 0 && strcmp(p->device, device) == 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Adds a problem to its group. Only those with a floor have a ratio, and only
 * those with rivals a regret. */
static void count_problem(total *t, const report_problem *p, double *ratios)
{
    double best = report_best(p);

    t->layers++;
    t->us += p->us;
    if (p->timed > 1 && best > 0) {
        t->with_rivals++;
        t->regret = fmax(t->regret, p->us / best - 1);
    }
    if (p->floor_us <= 0)
        return;
    ratios[t->with_floor++] = p->us / p->floor_us;
    t->us_with_floor += p->us;
    t->floor_us += p->floor_us;
}

/*
 * Sums all layers of a device with the name of *out. `ratios` has room for a
 * ratio of each problem.
 */
static void add_up(total *out, const report_data *data, const char *device,
                   name_giver *give, double *ratios)
{
    char name[NAME];

    for (int i = 0; i < data->count; i++) {
        const report_problem *p = &data->at[i];
        if (!is_counted(p, device))
            continue;
        give(name, data, p);
        if (strcmp(name, out->name) == 0)
            count_problem(out, p, ratios);
    }
    if (out->with_floor == 0)
        return;
    qsort(ratios, (size_t)out->with_floor, sizeof(*ratios), by_value);
    out->median = ratios[out->with_floor / 2];
    out->worst = ratios[out->with_floor - 1];
}

/* Lists the distinct groups that `give` names. */
static int find_names(total *out, const report_data *data, const char *device,
                      name_giver *give)
{
    char name[NAME];
    int count = 0;

    for (int i = 0; i < data->count; i++) {
        int at = 0;
        if (!is_counted(&data->at[i], device))
            continue;
        give(name, data, &data->at[i]);
        while (at < count && strcmp(out[at].name, name) != 0)
            at++;
        if (at == count && count < MOST_NAMES)
            snprintf(out[count++].name, NAME, "%s", name);
    }
    return count;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const total *)a)->us, y = ((const total *)b)->us;

    return (x < y) - (x > y);
}

/* ---- tables -------------------------------------------------------------- */

static void add_row(spc__buf *page, const total *t, double all_us)
{
    spc__buf_puts(page, "<tr><td>");
    report_text(page, t->name);
    spc__buf_printf(page, "<td class=n>%d<td class=n>", t->layers);
    report_us(page, t->us);
    spc__buf_printf(page, "<td class=n>%.1f", 100 * t->us / all_us);
    if (t->with_floor > 0)
        spc__buf_printf(page,
                        "<td class=n>%.2f<td class=n>%.2f<td class=n>%.2f",
                        t->us_with_floor / t->floor_us, t->median, t->worst);
    else
        spc__buf_puts(page, "<td><td><td>");
    spc__buf_puts(page, "<td class=n>");
    if (t->with_rivals > 0)
        spc__buf_printf(page, "%.1f", 100 * t->regret);
    spc__buf_puts(page, "\n");
}

/* Writes a table of groups; those with the most time come first. */
static void add_table(spc__buf *page, const report_data *data,
                      const char *device, const char *head, name_giver *give)
{
    total totals[MOST_NAMES] = {0};
    double *ratios = calloc((size_t)data->count + 1, sizeof(*ratios));
    double all_us = 0;
    int count = find_names(totals, data, device, give);

    page->failed |= ratios == NULL;
    for (int i = 0; i < count && ratios != NULL; i++) {
        add_up(&totals[i], data, device, give, ratios);
        all_us += totals[i].us;
    }
    free(ratios);
    qsort(totals, (size_t)count, sizeof(*totals), by_time);
    spc__buf_printf(page,
                    "<div class=scroll><table class=sort><thead><tr><th>%s<th "
                    "class=n>layers<th class=n>&micro;s<th class=n>%% of "
                    "time<th class=n>ratio<th class=n>median<th class=n>worst"
                    "<th class=n>regret %%</thead><tbody>\n",
                    head);
    for (int i = 0; i < count; i++)
        add_row(page, &totals[i], all_us);
    spc__buf_puts(page, "</tbody></table></div>\n");
}

static bool has_choices(const report_data *data, const char *device)
{
    for (int i = 0; i < data->count; i++)
        if (is_counted(&data->at[i], device))
            return true;
    return false;
}

void report_summary(spc__buf *page, const report_data *data)
{
    spc__buf_puts(page,
                  "<h2 id=summary>Summary</h2><p>Layers with a choice. Ratio "
                  "is the time of all of them over their floors; median and "
                  "worst are of single layers. Regret is the largest time of a "
                  "choice over the best candidate that was timed for its "
                  "layer. A click on a heading sorts.\n");
    for (int i = 0; i < data->count; i++) {
        const char *device = data->at[i].device;
        if ((i > 0 && strcmp(device, data->at[i - 1].device) == 0) ||
            !has_choices(data, device))
            continue;
        spc__buf_puts(page, "<h3>");
        report_text(page, device);
        spc__buf_puts(page, "</h3><div class=flow>\n");
        add_table(page, data, device, "operator", operator_of);
        add_table(page, data, device, "dataflow", template_of);
        add_table(page, data, device, "time over floor", bin_of);
        spc__buf_puts(page, "</div>\n");
    }
}
