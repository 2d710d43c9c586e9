/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_figures.h - results of an audit, as numbers and as a file of lines:
 *
 *     # spctune audit 1
 *     regret 0.0315 subm,cin=256,cout=256,k=3,dtype=f16 on scan.bin@0.05
 */
#ifndef SPC_CMD_AUDIT_FIGURES_H
#define SPC_CMD_AUDIT_FIGURES_H

#include <stdbool.h>

typedef enum audit_figure {
    AUDIT_REGRET,
    AUDIT_FLIP,
    AUDIT_SERVED,
    AUDIT_BUCKET,
    AUDIT_FIGURES
} audit_figure;

/* Name and short description of each figure. */
extern const char *const audit_names[AUDIT_FIGURES];
extern const char *const audit_about[AUDIT_FIGURES];

#define AUDIT_HEADING "# spctune audit 1\n"

/*
 * The goal: the largest cost of a choice in the median, and at the 95th
 * percentile.
 */
#define AUDIT_REACH_MEDIAN 0.02
#define AUDIT_REACH_HIGH 0.08

/* Shares: 0.02 is two per cent more time. */
typedef struct audit_sample {
    double *at;
    int count;
} audit_sample;

/* False: out of memory. */
bool audit_add(audit_sample *to, double share);
void audit_sort(audit_sample *sample);

/*
 * Returns the nearest-rank percentile of a sorted sample; for few figures the
 * 95th percentile is the largest. NAN for an empty sample.
 */
double audit_percentile(const audit_sample *sample, double share);
bool audit_is_reached(const audit_sample *sample);

/*
 * Reads a line; false if it has no figure. *about: the rest of the line, the
 * subject of the figure.
 */
bool audit_read_line(audit_figure *figure, double *share, const char **about,
                     const char *line);

#endif
