/* SPDX-License-Identifier: Apache-2.0 */
/* report_layers.c - time and floor per layer; the same layers by device. */
#include "command/report/report.h"

#include "base/plural.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BAR = 300, MARGIN = 16, ROW = 18, MOST_DEVICES = 8 };

/* ---- time and floor ------------------------------------------------------ */

static bool is_shown(const report_problem *p, const char *device)
{
    return p->choice != NULL && p->us > 0 && strcmp(p->device, device) == 0;
}

/* All layers of a device share one axis, so that bars can be compared. */
static report_axis find_axis(const report_data *data, const char *device)
{
    double low = INFINITY, high = 0;

    for (int i = 0; i < data->count; i++) {
        const report_problem *p = &data->at[i];
        if (!is_shown(p, device))
            continue;
        low = fmin(low, p->floor_us > 0 ? fmin(p->floor_us, p->us) : p->us);
        high = fmax(high, p->us);
    }
    return high > 0 ? report_axis_over(low, high, MARGIN, BAR - 2 * MARGIN)
                    : report_axis_over(1, 10, MARGIN, BAR - 2 * MARGIN);
}

static void add_grid(spc__buf *page, const report_axis *axis, int height)
{
    for (double tick = axis->low; tick <= axis->high * 1.001;
         tick = report_axis_next(tick))
        spc__buf_printf(page, "<path class=grid d='M%.1f 0v%d'/>",
                        report_axis_at(axis, tick), height);
}

/* The header of the column of bars: the axis. */
static void add_scale(spc__buf *page, const report_axis *axis)
{
    spc__buf_printf(page, "<svg width=%d height=%d>", BAR, ROW);
    /* A long axis has room for some ticks only. */
    bool sparse = axis->high / axis->low > 150;
    for (double tick = axis->low; tick <= axis->high * 1.001;
         tick = report_axis_next(tick)) {
        double digit = tick / pow(10, floor(log10(tick) + 1e-9));
        if (!sparse || digit < 1.5)
            spc__buf_printf(page, "<text x=%.1f y=13 class=tick>%g</text>",
                            report_axis_at(axis, tick), tick);
    }
    spc__buf_puts(page, "</svg>");
}

/* Draws a line from the floor (a ring) to the time (a dot). */
static void add_bar(spc__buf *page, const report_axis *axis,
                    const report_problem *p)
{
    double end = report_axis_at(axis, p->us), start = end;

    spc__buf_printf(page, "<svg width=%d height=%d role=img>", BAR, ROW);
    add_grid(page, axis, ROW);
    if (p->floor_us > 0) {
        start = report_axis_at(axis, p->floor_us);
        spc__buf_printf(page,
                        "<path class=span d='M%.1f 9H%.1f'/>"
                        "<circle class=floor cx=%.1f cy=9 r=4 />",
                        start, end, start);
    }
    spc__buf_printf(page, "<circle class=time cx=%.1f cy=9 r=4.5 /></svg>",
                    end);
}

static void add_row(spc__buf *page, const report_axis *axis,
                    const report_problem *p)
{
    spc__buf_puts(page, "<tr><td class=layer>");
    report_words(page, p->layer);
    spc__buf_printf(page, "<td class=n>%.0f<td class=n>%.3f<td class=n>",
                    p->rows, p->density);
    report_us(page, p->us);
    spc__buf_puts(page, "<td class=n>");
    if (p->floor_us > 0)
        report_us(page, p->floor_us);
    spc__buf_puts(page, "<td class=n>");
    if (p->floor_us > 0)
        spc__buf_printf(page, "%.2f", p->us / p->floor_us);
    spc__buf_puts(page, "<td>");
    add_bar(page, axis, p);
    spc__buf_puts(page, "<td class=config>");
    report_words(page, p->choice);
    spc__buf_puts(page, "\n");
}

static bool has_floor_of_class(const report_data *data, const char *device)
{
    for (int i = 0; i < data->count; i++)
        if (is_shown(&data->at[i], device) && data->at[i].floor_us > 0 &&
            !data->at[i].floor_measured)
            return true;
    return false;
}

/* Problems are sorted by layer, and a layer begins with its operator. */
static bool is_same_operator(const report_problem *a, const report_problem *b)
{
    size_t length = strcspn(a->layer, ",");

    return length == strcspn(b->layer, ",") &&
           strncmp(a->layer, b->layer, length) == 0;
}

/* Begins the group of an operator with its name and its number of layers. */
static void begin_operator(spc__buf *page, const report_data *data,
                           const report_problem *p, bool is_first)
{
    char name[64];
    int layers = 0;

    for (int i = 0; i < data->count; i++)
        layers += is_shown(&data->at[i], p->device) &&
                  is_same_operator(&data->at[i], p);
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(p->layer, ","), p->layer);
    spc__buf_printf(page, "%s<tbody><tr class=group><th colspan=8>",
                    is_first ? "" : "</tbody>");
    report_text(page, name);
    spc__buf_printf(page, " <span class=quiet>%s</span>\n",
                    spc__count(layers, "layer"));
}

/* All layers of a device, in groups of an operator. */
static void add_device(spc__buf *page, const report_data *data,
                       const char *device)
{
    report_axis axis = find_axis(data, device);
    const report_problem *before = NULL;

    spc__buf_puts(page, "<h3>");
    report_text(page, device);
    spc__buf_puts(page, "</h3>");
    if (has_floor_of_class(data, device))
        spc__buf_puts(page, "<p>Floors are those of the device's class, from "
                            "data sheets: they are lower than those of "
                            "measured ceilings.\n");
    spc__buf_puts(page,
                  "<div class=scroll><table class='sort filter'><thead><tr><th>"
                  "layer<th class=n>"
                  "rows<th class=n>density<th class=n>&micro;s<th class=n>"
                  "floor<th class=n>ratio<th>");
    add_scale(page, &axis);
    spc__buf_puts(page, "<th>kernel</thead>\n");
    for (int i = 0; i < data->count; i++) {
        const report_problem *p = &data->at[i];
        if (!is_shown(p, device))
            continue;
        if (before == NULL || !is_same_operator(before, p))
            begin_operator(page, data, p, before == NULL);
        add_row(page, &axis, p);
        before = p;
    }
    spc__buf_puts(page, "</tbody></table></div>\n");
}

/* Problems are sorted by device. */
static bool is_first_of_device(const report_data *data, int i)
{
    return i == 0 || strcmp(data->at[i].device, data->at[i - 1].device) != 0;
}

void report_layers(spc__buf *page, const report_data *data)
{
    spc__buf_puts(page,
                  "<h2 id=layers>Time and floor per layer</h2><p>A dot is the "
                  "time of the kernel that was chosen, with a warm cache; a "
                  "ring the floor, the least time that the device could need. "
                  "Microseconds, on a logarithmic axis.\n"
                  "<p><input id=filter type=search placeholder='filter: words "
                  "of a layer or a kernel' aria-label=filter> <span id=shown>"
                  "</span>\n");
    for (int i = 0; i < data->count; i++)
        if (is_first_of_device(data, i))
            add_device(page, data, data->at[i].device);
}

/* ---- devices ------------------------------------------------------------- */

static int list_devices(const char **out, const report_data *data)
{
    int count = 0;

    for (int i = 0; i < data->count && count < MOST_DEVICES; i++)
        if (is_first_of_device(data, i))
            out[count++] = data->at[i].device;
    return count;
}

/* True for equal layers on equal scenes, as far as the scene is recorded. */
static bool is_same(const report_problem *a, const report_problem *b)
{
    return strcmp(a->layer, b->layer) == 0 && a->rows == b->rows &&
           fabs(a->density - b->density) < 1e-9;
}

static const report_problem *
find_on(const report_data *data, const report_problem *like, const char *device)
{
    for (int i = 0; i < data->count; i++)
        if (is_shown(&data->at[i], device) && is_same(&data->at[i], like))
            return &data->at[i];
    return NULL;
}

/* Writes a layer on every device, with the ratio to the first device. */
static void compare(spc__buf *page, const report_data *data,
                    const report_problem *p, const char *const *devices,
                    int count)
{
    spc__buf_puts(page, "<tr><td class=layer>");
    report_words(page, p->layer);
    spc__buf_printf(page, "<td class=n>%.0f<td class=n>%.3f", p->rows,
                    p->density);
    for (int d = 0; d < count; d++) {
        const report_problem *on = find_on(data, p, devices[d]);
        spc__buf_puts(page, "<td class=n>");
        if (on != NULL)
            report_us(page, on->us);
        spc__buf_puts(page, "<td class=n>");
        if (on != NULL && on != p)
            spc__buf_printf(page, "%.2f", on->us / p->us);
    }
    spc__buf_puts(page, "\n");
}

/*
 * True if another device has the same layer and this is the first one. The row
 * of the first device also has the later devices.
 */
static bool is_compared(const report_data *data, const report_problem *p,
                        const char *const *devices, int count)
{
    int others = 0;

    if (!is_shown(p, p->device))
        return false;
    for (int d = 0; d < count; d++) {
        const report_problem *on = find_on(data, p, devices[d]);
        if (on != NULL && others == 0 && on != p)
            return false;
        others += on != NULL;
    }
    return others > 1;
}

void report_devices(spc__buf *page, const report_data *data)
{
    const char *devices[MOST_DEVICES];
    int count = list_devices(devices, data), shared = 0;

    for (int i = 0; i < data->count; i++)
        shared += is_compared(data, &data->at[i], devices, count);
    if (shared == 0)
        return;
    spc__buf_puts(page,
                  "<h2 id=devices>Devices compared</h2><p>Layers that "
                  "were tuned on the same scene: microseconds, and how "
                  "many times those of the first device that has "
                  "it.\n<div class=scroll><table><tr><th>layer<th class=n>"
                  "rows<th class=n>density");
    for (int d = 0; d < count; d++) {
        spc__buf_puts(page, "<th class=n>");
        report_text(page, devices[d]);
        spc__buf_puts(page, "<th class=n>times");
    }
    for (int i = 0; i < data->count; i++)
        if (is_compared(data, &data->at[i], devices, count))
            compare(page, data, &data->at[i], devices, count);
    spc__buf_puts(page, "</table></div>\n");
}
