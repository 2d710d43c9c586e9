/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_regret.c - the cost of using another scene's choice, in the page of
 * spctune report.
 */
#include "command/report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The distance of two scenes, and the cost of using one scene's choice on the
 * other. */
typedef struct cost {
    double rows, density; /* octaves between the scenes */
    double octaves;       /* distance by the rule of lookups */
    double share;         /* additional time, relative to the best known */
} cost;

/* The distance is that of the database: density counts half. */
static cost cost_of(const report_problem *a, const report_problem *b, double us)
{
    double rows = fabs(log2(a->rows / b->rows));
    double density = fabs(log2(a->density / b->density));

    return (cost){rows, density, rows + 0.5 * density, us / report_best(b) - 1};
}

/*
 * If only one kernel was timed, as in a text of choices, the best is unknown.
 */
static bool has_rivals(const report_problem *p)
{
    return p->timed > 1;
}

/* For every ordered pair of problems of a layer, computes the cost of using one
 * problem's choice on the other, if it was timed there. */
static int add_costs(cost *out, const report_data *data, int from, int count)
{
    int found = 0;

    for (int i = from; i < from + count; i++)
        for (int k = from; k < from + count; k++) {
            const report_problem *of = &data->at[i], *on = &data->at[k];
            double us = of->choice != NULL ? report_time_of(on, of->choice) : 0;
            if (i == k || us <= 0 || !has_rivals(on) ||
                !(of->density > 0 && on->density > 0))
                continue;
            out[found++] = cost_of(of, on, us);
        }
    return found;
}

static int by_share(const void *a, const void *b)
{
    double x = ((const cost *)a)->share, y = ((const cost *)b)->share;

    return (x > y) - (x < y);
}

/* ---- by distance --------------------------------------------------------- */

enum { BINS = 5 };

typedef enum axis { TOGETHER, ROWS, DENSITY, AXES } axis;

/*
 * Returns the distance in one property. It is negative if the other property
 * differs by half an octave or more, as the pair then shows nothing about a
 * single property.
 */
static double apart(const cost *c, axis by)
{
    double other = by == ROWS ? c->density : by == DENSITY ? c->rows : 0;
    double own = by == ROWS ? c->rows : by == DENSITY ? c->density : c->octaves;

    return other < 0.5 ? own : -1;
}

static int count_inside(const cost *costs, int count, axis by, double low,
                        double high)
{
    int inside = 0;

    for (int i = 0; i < count; i++)
        inside += apart(&costs[i], by) >= low && apart(&costs[i], by) < high;
    return inside;
}

/* The nearest-rank percentile of the sorted costs with this distance. */
static double percentile(const cost *costs, int count, axis by, double low,
                         double high, double part)
{
    int rank = (int)ceil(part * count_inside(costs, count, by, low, high));
    int seen = 0;

    for (int i = 0; i < count; i++)
        if (apart(&costs[i], by) >= low && apart(&costs[i], by) < high &&
            ++seen >= rank)
            return costs[i].share;
    return NAN;
}

static void add_cells(spc__buf *page, const cost *costs, int count, axis by,
                      double low, double high)
{
    int inside = count_inside(costs, count, by, low, high);

    if (inside > 0)
        spc__buf_printf(page, "<td class=n>%d<td class=n>%.1f<td class=n>%.1f",
                        inside,
                        100 * percentile(costs, count, by, low, high, 0.5),
                        100 * percentile(costs, count, by, low, high, 0.95));
    else
        spc__buf_puts(page, "<td><td><td>");
}

/* Buckets are half octaves; the table shows the cost of wider buckets. */
static void add_cost_table(spc__buf *page, const cost *costs, int count)
{
    static const struct {
        double low, high;
        const char *name;
    } bins[BINS] = {{0, 0.5, "below 0.5"},
                    {0.5, 1, "0.5 to 1"},
                    {1, 2, "1 to 2"},
                    {2, 4, "2 to 4"},
                    {4, INFINITY, "4 and more"}};
    static const char *const heads[AXES] = {
        [TOGETHER] = "distance",
        [ROWS] = "rows alone",
        [DENSITY] = "density alone",
    };

    spc__buf_puts(page, "<div class=scroll><table><tr><th>octaves");
    for (int by = 0; by < AXES; by++)
        spc__buf_printf(page,
                        "<th class=n>%s: pairs<th class=n>median %%<th "
                        "class=n>95th %%",
                        heads[by]);
    for (int i = 0; i < BINS; i++) {
        if (count_inside(costs, count, TOGETHER, bins[i].low, bins[i].high) ==
                0 &&
            count_inside(costs, count, ROWS, bins[i].low, bins[i].high) == 0 &&
            count_inside(costs, count, DENSITY, bins[i].low, bins[i].high) == 0)
            continue;
        spc__buf_printf(page, "\n<tr><td>%s", bins[i].name);
        for (int by = 0; by < AXES; by++)
            add_cells(page, costs, count, (axis)by, bins[i].low, bins[i].high);
    }
    spc__buf_puts(page, "\n</table></div>\n");
}

/* Draws the costs over the distance of the two problems, on a logarithmic
 * axis. */
static void add_cost_chart(spc__buf *page, const cost *costs, int count)
{
    enum { WIDTH = 520, HEIGHT = 200, LEFT = 60 };
    double widest = 1;

    for (int i = 0; i < count; i++)
        widest = fmax(widest, costs[i].octaves);
    /* Costs below 0.1 % are drawn on the axis. */
    report_axis y = report_axis_over(0.001, 1, HEIGHT - 24, -HEIGHT + 34);
    spc__buf_printf(page, "<svg width=%d height=%d role=img>",
                    LEFT + WIDTH + 20, HEIGHT);
    for (double tick = 0.001; tick < 1.1; tick *= 10) {
        double at = report_axis_at(&y, tick);
        spc__buf_printf(page,
                        "<path class=grid d='M%d %.1fH%d'/><text x=%d y=%.1f "
                        "class=name>%g %%</text>",
                        LEFT, at, LEFT + WIDTH, LEFT - 6, at + 4, 100 * tick);
    }
    for (int tick = 0; tick <= (int)widest; tick++)
        spc__buf_printf(page, "<text x=%.1f y=%d class=tick>%d</text>",
                        LEFT + WIDTH * tick / widest, HEIGHT - 6, tick);
    spc__buf_puts(page, "<path class='dots c1' d='");
    for (int i = 0; i < count; i++)
        spc__buf_printf(page, "M%.1f %.1fh0",
                        LEFT + WIDTH * costs[i].octaves / widest,
                        report_axis_at(&y, fmax(costs[i].share, 0.001)));
    spc__buf_puts(page, "'/></svg>\n");
}

void report_regret(spc__buf *page, const report_data *data)
{
    size_t pairs = 1;
    int found = 0;

    for (int i = 0, count; i < data->count; i += count) {
        count = report_group(data, i);
        pairs += (size_t)count * (size_t)(count - 1);
    }
    cost *costs = calloc(pairs, sizeof(*costs));
    for (int i = 0, count; costs != NULL && i < data->count; i += count) {
        count = report_group(data, i);
        found += add_costs(costs + found, data, i, count);
    }
    if (found > 0) {
        qsort(costs, (size_t)found, sizeof(*costs), by_share);
        spc__buf_puts(
            page, "<h2 id=regret>What another scene's choice costs</h2>"
                  "<p>Of two scenes on which a layer was tuned: the time "
                  "of the one's choice on the other, over the best that "
                  "is known there. The distance is what a lookup counts: "
                  "octaves of rows, and half of those of density. Alone is a "
                  "difference where the other is below half an octave.\n");
        add_cost_table(page, costs, found);
        add_cost_chart(page, costs, found);
    }
    free(costs);
}
