/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - the page of spctune report, and its sections. */
#ifndef SPC_CMD_REPORT_H
#define SPC_CMD_REPORT_H

#include "base/buf.h"
#include "command/report/report_data.h"

/* A section writes nothing if the database has no data for it. */
void report_summary(spc__buf *page, const report_data *data);
void report_layers(spc__buf *page, const report_data *data);
void report_candidates(spc__buf *page, const report_data *data);
void report_choices(spc__buf *page, const report_data *data);
void report_regret(spc__buf *page, const report_data *data);
void report_devices(spc__buf *page, const report_data *data);
/*
 * From a file of 'spctune audit -o'; NULL: no file. Reports errors through
 * cli_fail.
 */
spc_status report_audit(spc__buf *page, const char *path);

/* Writes text with HTML's special characters escaped. */
void report_text(spc__buf *page, const char *text);
/* Writes a layer or a candidate in a table; lines may break after commas. */
void report_words(spc__buf *page, const char *text);
/* Writes a time such as "12.3", with as many digits as its precision. */
void report_us(spc__buf *page, double us);

/* A logarithmic axis from `low` to `high`, over `pixels` pixels. */
typedef struct report_axis {
    double low, high, pixels, from; /* `from` is the position of the first
                                     * pixel */
} report_axis;

/*
 * Widens the range so that it begins and ends at 1, 2 or 5 times a power of
 * ten.
 */
report_axis report_axis_over(double low, double high, double from,
                             double pixels);
double report_axis_at(const report_axis *axis, double value);
/* The next tick above `value`; ticks are 1, 2 and 5 times powers of ten. */
double report_axis_next(double value);

#endif
