/* report_charts.c - candidates, choices over scenes, and what choices cost. */
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_CHARTS = 24,
    COLOURS = 8,
    LANE = 18,   /* pixels of a template's lane */
    STRIP = 420, /* of its axis */
    NAMES = 120, /* of its name */
    SIDE = 190,  /* of a chart of choices */
    FEWEST = 5,  /* candidates that are worth a picture */
    FEWEST_SCENES = 3,
};

/* Candidates so many times slower than the best lie at the edge. */
static const double farthest = 10;

static int colour_of(int template_index)
{
    return template_index < COLOURS ? template_index + 1 : 0;
}

/* ---- candidates ---------------------------------------------------------- */

static bool has_template(const report_problem *p, int template_index)
{
    for (int i = 0; i < p->timed; i++)
        if (p->trials[i].template_index == template_index)
            return true;
    return false;
}

/* A stroke of no length with round ends is a dot, and short to write. */
static void add_dots(spc__buf *page, const report_axis *axis,
                     const report_problem *p, int template_index, double y)
{
    spc__buf_printf(page, "<path class='dots c%d' d='",
                    colour_of(template_index));
    for (int i = 0; i < p->timed; i++)
        if (p->trials[i].template_index == template_index)
            spc__buf_printf(
                page, "M%.1f %.1fh0",
                report_axis_at(axis, p->trials[i].us / report_best(p)), y);
    spc__buf_puts(page, "'/>");
}

static void add_lane(spc__buf *page, const report_data *data,
                     const report_axis *axis, const report_problem *p,
                     int template_index, int lane)
{
    double y = LANE * (lane + 0.5);

    spc__buf_printf(page, "<text x=%d y=%.1f class=name>", NAMES - 8, y + 4);
    report_text(page, data->templates[template_index]);
    spc__buf_puts(page, "</text>");
    add_dots(page, axis, p, template_index, y);
}

static void add_ratio_ticks(spc__buf *page, const report_axis *axis, int height)
{
    for (double tick = 1; tick <= axis->high * 1.001;
         tick = report_axis_next(tick)) {
        double x = report_axis_at(axis, tick);
        spc__buf_printf(page,
                        "<path class=grid d='M%.1f 0v%d'/>"
                        "<text x=%.1f y=%d class=tick>%g&times;</text>",
                        x, height, x, height + 13, tick);
    }
}

static void add_strip(spc__buf *page, const report_data *data,
                      const report_problem *p)
{
    double last = p->trials[p->timed - 1].us / report_best(p);
    report_axis axis =
        report_axis_over(1, fmin(fmax(last, 2), farthest), NAMES, STRIP);
    int lanes = 0, lane = 0;

    for (int t = 0; t < data->template_count; t++)
        lanes += has_template(p, t);
    spc__buf_puts(page, "<figure><figcaption>");
    report_text(page, p->layer);
    spc__buf_printf(page, "<br><span class=quiet>%.0f rows, density %.3f, ",
                    p->rows, p->density);
    report_text(page, p->device);
    spc__buf_printf(page, "; %d timed of %d, the best ", p->timed, p->count);
    report_us(page, report_best(p));
    spc__buf_printf(page,
                    " &micro;s</span></figcaption><svg width=%d height=%d"
                    " role=img>",
                    NAMES + STRIP + 20, lanes * LANE + 18);
    add_ratio_ticks(page, &axis, lanes * LANE);
    for (int t = 0; t < data->template_count; t++)
        if (has_template(p, t))
            add_lane(page, data, &axis, p, t, lane++);
    spc__buf_puts(page, "</svg></figure>\n");
}

static int by_timed(const void *a, const void *b)
{
    const report_problem *x = *(report_problem *const *)a;
    const report_problem *y = *(report_problem *const *)b;

    if (x->timed != y->timed)
        return y->timed - x->timed;
    return x < y ? -1 : x > y;
}

void report_candidates(spc__buf *page, const report_data *data)
{
    const report_problem **most =
        calloc((size_t)data->count + 1, sizeof(*most));
    int count = 0;

    for (int i = 0; most != NULL && i < data->count; i++)
        if (data->at[i].timed >= FEWEST)
            most[count++] = &data->at[i];
    if (count > 0) {
        qsort(most, (size_t)count, sizeof(*most), by_timed);
        spc__buf_printf(page,
                        "<h2 id=candidates>Candidates</h2><p>A dot is a "
                        "candidate: its time over that of the best one, on a "
                        "logarithmic axis, a lane for each template; what is "
                        "slower than %g times lies at the edge. %s\n<div "
                        "class=grid2>",
                        farthest,
                        count > MOST_CHARTS
                            ? "Those problems with the most candidates."
                            : "");
        for (int i = 0; i < count && i < MOST_CHARTS; i++)
            add_strip(page, data, most[i]);
        spc__buf_puts(page, "</div>\n");
    }
    free(most);
}

/* ---- choices over rows and density --------------------------------------- */

static bool is_layer_of(const report_problem *a, const report_problem *b)
{
    return strcmp(a->layer, b->layer) == 0 && strcmp(a->device, b->device) == 0;
}

/* Problems of one layer on one device lie side by side. */
static int length_of_group(const report_data *data, int from)
{
    int end = from + 1;

    while (end < data->count && is_layer_of(&data->at[end], &data->at[from]))
        end++;
    return end - from;
}

static int count_chosen(const report_data *data, int from, int count)
{
    int chosen = 0;

    for (int i = from; i < from + count; i++)
        chosen += data->at[i].choice != NULL;
    return chosen;
}

static void add_x_ticks(spc__buf *page, const report_axis *x, double bottom)
{
    for (double tick = x->low; tick <= x->high * 1.001;
         tick = report_axis_next(tick)) {
        double digit = tick / pow(10, floor(log10(tick) + 1e-9));
        double at = report_axis_at(x, tick);
        spc__buf_printf(page, "<path class=grid d='M%.1f 0V%.1f'/>", at,
                        bottom);
        if (digit < 1.5 || x->high / x->low < 30)
            spc__buf_printf(page, "<text x=%.1f y=%.1f class=tick>%g%s</text>",
                            at, bottom + 14, tick >= 1000 ? tick / 1000 : tick,
                            tick >= 1000 ? "k" : "");
    }
}

static void add_y_ticks(spc__buf *page, const report_axis *y, double left,
                        double right)
{
    for (double tick = y->low; tick <= y->high * 1.001;
         tick = report_axis_next(tick)) {
        double at = report_axis_at(y, tick);
        spc__buf_printf(page,
                        "<path class=grid d='M%.1f %.1fH%.1f'/>"
                        "<text x=%.1f y=%.1f class=name>%g</text>",
                        left, at, right, left - 4, at + 4, tick);
    }
}

static void add_choice(spc__buf *page, const report_data *data,
                       const report_problem *p, const report_axis *x,
                       const report_axis *y)
{
    int template_index = p->choice_template;
    double at = report_axis_at(x, p->rows);
    double height = report_axis_at(y, p->density);

    spc__buf_printf(page, "<circle class='dot c%d' cx=%.1f cy=%.1f r=6><title>",
                    colour_of(template_index), at, height);
    report_text(page, p->choice);
    spc__buf_printf(page, ", %.0f rows, density %.3f, %.2f us</title></circle>",
                    p->rows, p->density, p->us);
    spc__buf_printf(page, "<text x=%.1f y=%.1f class=tick>", at, height - 9);
    report_text(page, data->templates[template_index]);
    spc__buf_puts(page, "</text>");
}

static void add_choices(spc__buf *page, const report_data *data, int from,
                        int count)
{
    enum { LEFT = 56, WIDTH = 300 };
    double rows[2] = {INFINITY, 0}, density[2] = {INFINITY, 0};

    for (int i = from; i < from + count; i++) {
        const report_problem *p = &data->at[i];
        rows[0] = fmin(rows[0], p->rows);
        rows[1] = fmax(rows[1], p->rows);
        density[0] = fmin(density[0], p->density);
        density[1] = fmax(density[1], p->density);
    }
    if (!(rows[0] > 0 && density[0] > 0))
        return;
    report_axis x = report_axis_over(rows[0], rows[1], LEFT + 24, WIDTH - 48);
    report_axis y =
        report_axis_over(density[0], density[1], SIDE - 30, -SIDE + 60);
    spc__buf_puts(page, "<figure><figcaption>");
    report_text(page, data->at[from].layer);
    spc__buf_puts(page, "<br><span class=quiet>");
    report_text(page, data->at[from].device);
    spc__buf_printf(page,
                    "; rows across, density up</span></figcaption><svg "
                    "width=%d height=%d role=img>",
                    LEFT + WIDTH + 10, SIDE);
    add_x_ticks(page, &x, SIDE - 18);
    add_y_ticks(page, &y, LEFT, LEFT + WIDTH);
    for (int i = from; i < from + count; i++)
        if (data->at[i].choice != NULL)
            add_choice(page, data, &data->at[i], &x, &y);
    spc__buf_puts(page, "</svg></figure>\n");
}

void report_choices(spc__buf *page, const report_data *data)
{
    int shown = 0;

    for (int i = 0, count; i < data->count && shown < MOST_CHARTS; i += count) {
        count = length_of_group(data, i);
        if (count_chosen(data, i, count) < FEWEST_SCENES)
            continue;
        if (shown++ == 0)
            spc__buf_puts(page, "<h2 id=choices>Choices over rows and "
                                "density</h2><p>The template that was chosen "
                                "for a layer on scenes of so many rows and "
                                "this density; a pointer over a dot shows the "
                                "whole kernel.\n<div class=grid2>");
        add_choices(page, data, i, count);
    }
    if (shown > 0)
        spc__buf_puts(page, "</div>\n");
}

/* ---- what a neighbour's choice costs ------------------------------------- */

typedef struct cost {
    double octaves; /* of rows and density together, as a lookup counts them */
    double share;   /* more time than the best known */
} cost;

/* As the distance of the database: density counts half. */
static double distance(const report_problem *a, const report_problem *b)
{
    return fabs(log2(a->rows / b->rows)) +
           0.5 * fabs(log2(a->density / b->density));
}

static int add_costs(cost *out, const report_data *data, int from, int count)
{
    int found = 0;

    for (int i = from; i < from + count; i++)
        for (int k = from; k < from + count; k++) {
            const report_problem *of = &data->at[i], *on = &data->at[k];
            double us = of->choice != NULL ? report_time_of(on, of->choice) : 0;
            if (i == k || us <= 0 || !(of->density > 0 && on->density > 0))
                continue;
            out[found++] = (cost){distance(of, on), us / report_best(on) - 1};
        }
    return found;
}

static int by_share(const void *a, const void *b)
{
    double x = ((const cost *)a)->share, y = ((const cost *)b)->share;

    return (x > y) - (x < y);
}

/* Sorted by share: the nearest rank among those of this distance. */
static double percentile(const cost *costs, int count, double low, double high,
                         double part, int *inside)
{
    int seen = 0;

    *inside = 0;
    for (int i = 0; i < count; i++)
        *inside += costs[i].octaves >= low && costs[i].octaves < high;
    int rank = (int)ceil(part * *inside);
    for (int i = 0; i < count; i++)
        if (costs[i].octaves >= low && costs[i].octaves < high &&
            ++seen >= rank)
            return costs[i].share;
    return NAN;
}

static void add_cost_table(spc__buf *page, const cost *costs, int count)
{
    static const struct {
        double low, high;
        const char *name;
    } bins[] = {{0, 0.5, "below 0.5"},
                {0.5, 1, "0.5 to 1"},
                {1, 2, "1 to 2"},
                {2, 4, "2 to 4"},
                {4, INFINITY, "4 and more"}};

    spc__buf_puts(page, "<table><tr><th>distance<th>pairs<th>median %"
                        "<th>95th %\n");
    for (size_t i = 0; i < sizeof(bins) / sizeof(bins[0]); i++) {
        int inside;
        double median =
            percentile(costs, count, bins[i].low, bins[i].high, 0.5, &inside);
        double high =
            percentile(costs, count, bins[i].low, bins[i].high, 0.95, &inside);
        if (inside > 0)
            spc__buf_printf(page,
                            "<tr><td>%s<td class=n>%d<td class=n>%.1f<td "
                            "class=n>%.1f\n",
                            bins[i].name, inside, 100 * median, 100 * high);
    }
    spc__buf_puts(page, "</table>\n");
}

static void add_cost_chart(spc__buf *page, const cost *costs, int count)
{
    enum { WIDTH = 520, HEIGHT = 200, LEFT = 60 };
    double widest = 1;

    for (int i = 0; i < count; i++)
        widest = fmax(widest, costs[i].octaves);
    /* What costs less than 0.1 % lies on the axis. */
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
        count = length_of_group(data, i);
        pairs += (size_t)count * (size_t)(count - 1);
    }
    cost *costs = calloc(pairs, sizeof(*costs));
    for (int i = 0, count; costs != NULL && i < data->count; i += count) {
        count = length_of_group(data, i);
        found += add_costs(costs + found, data, i, count);
    }
    if (found > 0) {
        qsort(costs, (size_t)found, sizeof(*costs), by_share);
        spc__buf_puts(page,
                      "<h2 id=regret>What another scene's choice costs</h2>"
                      "<p>Of two scenes on which a layer was tuned: the time "
                      "of the one's choice on the other, over the best that "
                      "is known there. The distance is what a lookup counts: "
                      "octaves of rows, and half of those of density.\n");
        add_cost_table(page, costs, found);
        add_cost_chart(page, costs, found);
    }
    free(costs);
}
