/* SPDX-License-Identifier: Apache-2.0 */
/* report_page.c - shared by the sections of the page. */
#include "command/report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void report_text(spc__buf *page, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '<':
            spc__buf_puts(page, "&lt;");
            break;
        case '>':
            spc__buf_puts(page, "&gt;");
            break;
        case '&':
            spc__buf_puts(page, "&amp;");
            break;
        case '"':
            spc__buf_puts(page, "&quot;");
            break;
        default:
            spc__buf_append(page, text, 1);
        }
}

/* A line may break after each comma. */
void report_words(spc__buf *page, const char *text)
{
    char one[512];

    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        length += text[length] == ',';
        if (length >= sizeof(one))
            length = sizeof(one) - 1;
        snprintf(one, sizeof(one), "%.*s", (int)length, text);
        report_text(page, one);
        text += length;
        if (*text != '\0')
            spc__buf_puts(page, "<wbr>");
    }
}

void report_us(spc__buf *page, double us)
{
    spc__buf_printf(page, "%.*f", us < 10 ? 2 : us < 100 ? 1 : 0, us);
}

/* ---- axes ---------------------------------------------------------------- */

/* The largest of 1, 2 and 5 times a power of ten that is not above `value`. */
static double tick_below(double value)
{
    double power = pow(10, floor(log10(value)));
    double digit = value / power;

    return power * (digit >= 5 ? 5 : digit >= 2 ? 2 : 1);
}

double report_axis_next(double value)
{
    double power = pow(10, floor(log10(value) + 1e-9));
    double digit = value / power;

    return power * (digit < 1.5 ? 2 : digit < 3 ? 5 : 10);
}

report_axis report_axis_over(double low, double high, double from,
                             double pixels)
{
    report_axis axis = {tick_below(low), tick_below(high), pixels, from};

    if (axis.high < high)
        axis.high = report_axis_next(axis.high);
    if (axis.high <= axis.low)
        axis.high = report_axis_next(axis.low);
    return axis;
}

double report_axis_at(const report_axis *axis, double value)
{
    double inside = fmin(fmax(value, axis->low), axis->high);

    return axis->from +
           axis->pixels * log(inside / axis->low) / log(axis->high / axis->low);
}
