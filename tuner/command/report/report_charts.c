/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_charts.c - charts of candidates, of choices over scenes, and of their
 * cost.
 */
#include "command/report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_CHARTS = 24,
    COLOURS = 8,
    LANE = 18,   /* height of a template's lane, in pixels */
    STRIP = 420, /* length of the lane's axis */
    NAMES = 120, /* width of a template's name */
    SIDE = 190,  /* size of a chart of choices */
    FEWEST = 5,  /* least number of candidates for a chart */
    FEWEST_SCENES = 3,
};

/* Candidates slower than this many times the best are drawn at the edge. */
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

/* A stroke of zero length with round ends is drawn as a dot and needs few
 * bytes. */
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
    /* The loop runs a little beyond the end, as the last tick is rounded. */
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
    report_words(page, p->layer);
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
    /* Orders by position in the data, so that the page is the same in every
     * run. */
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

/* Rectangles that dots and their names already cover. */
enum { MOST_BOXES = 64 };

typedef struct box {
    double left, top, right, bottom;
} box;

typedef struct plate {
    box taken[MOST_BOXES];
    int count;
    box bounds;
} plate;

/* True if a label there would touch none that is drawn. */
static bool is_free(const plate *all, const box *wanted)
{
    bool inside = wanted->left >= all->bounds.left &&
                  wanted->right <= all->bounds.right &&
                  wanted->top >= all->bounds.top &&
                  wanted->bottom <= all->bounds.bottom;

    for (int i = 0; i < all->count && inside; i++) {
        const box *other = &all->taken[i];
        if (wanted->left < other->right && other->left < wanted->right &&
            wanted->top < other->bottom && other->top < wanted->bottom)
            return false;
    }
    return inside;
}

static void take(plate *all, const box *taken)
{
    /* More names may overlap, which only looks worse. */
    if (all->count < MOST_BOXES)
        all->taken[all->count++] = *taken;
}

static void add_choice(spc__buf *page, plate *all, const report_problem *p,
                       const report_axis *x, const report_axis *y)
{
    double at = report_axis_at(x, p->rows);
    double height = report_axis_at(y, p->density);

    spc__buf_printf(page, "<circle class='dot c%d' cx=%.1f cy=%.1f r=6><title>",
                    colour_of(p->choice_template), at, height);
    report_text(page, p->choice);
    spc__buf_printf(page, ", %.0f rows, density %.3f, %.2f us</title></circle>",
                    p->rows, p->density, p->us);
    take(all, &(box){at - 5, height - 5, at + 5, height + 5});
}

/*
 * Puts a name above, below, right or left of its dot, or omits it if all of
 * these are taken: its colour is explained by other names.
 */
static void add_name(spc__buf *page, plate *all, const report_data *data,
                     const report_problem *p, const report_axis *x,
                     const report_axis *y)
{
    /* sizes for font size 11 */
    const double letter = 6.3, above = 9, line = 10;
    const char *name = data->templates[p->choice_template];
    double width = letter * (double)strlen(name);
    double at = report_axis_at(x, p->rows);
    double foot = report_axis_at(y, p->density);
    const double points[][2] = {{at, foot - above},
                                {at, foot + above + line - 2},
                                {at + above + width / 2, foot + 4},
                                {at - above - width / 2, foot + 4}};

    for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++) {
        double middle = points[i][0], base = points[i][1];
        box wanted = {middle - width / 2, base - line, middle + width / 2,
                      base + 1};
        if (!is_free(all, &wanted))
            continue;
        take(all, &wanted);
        spc__buf_printf(page, "<text x=%.1f y=%.1f class=tick>", middle, base);
        report_text(page, name);
        spc__buf_puts(page, "</text>");
        return;
    }
}

static void add_choices(spc__buf *page, const report_data *data, int from,
                        int count)
{
    enum { LEFT = 56, WIDTH = 300 };
    plate all = {.bounds = {LEFT - 8, 0, LEFT + WIDTH + 10, SIDE - 16}};
    double rows[2] = {INFINITY, 0}, density[2] = {INFINITY, 0};

    for (int i = from; i < from + count; i++) {
        const report_problem *p = &data->at[i];
        rows[0] = fmin(rows[0], p->rows);
        rows[1] = fmax(rows[1], p->rows);
        density[0] = fmin(density[0], p->density);
        density[1] = fmax(density[1], p->density);
    }
    /* The axes are logarithmic. */
    if (!(rows[0] > 0 && density[0] > 0))
        return;
    report_axis x = report_axis_over(rows[0], rows[1], LEFT + 24, WIDTH - 48);
    report_axis y =
        report_axis_over(density[0], density[1], SIDE - 30, -SIDE + 60);
    spc__buf_puts(page, "<figure><figcaption>");
    report_words(page, data->at[from].layer);
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
            add_choice(page, &all, &data->at[i], &x, &y);
    for (int i = from; i < from + count; i++)
        if (data->at[i].choice != NULL)
            add_name(page, &all, data, &data->at[i], &x, &y);
    spc__buf_puts(page, "</svg></figure>\n");
}

void report_choices(spc__buf *page, const report_data *data)
{
    int shown = 0;

    for (int i = 0, count; i < data->count && shown < MOST_CHARTS; i += count) {
        count = report_group(data, i);
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
