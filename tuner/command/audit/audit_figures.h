/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_figures.h - what an audit finds, as numbers and as a file of lines:
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

/* A word and a few words each. */
extern const char *const audit_names[AUDIT_FIGURES];
extern const char *const audit_about[AUDIT_FIGURES];

#define AUDIT_HEADING "# spctune audit 1\n"

/* What is asked for: a choice may cost so much in the median, and at the 95th
 * percentile. */
#define AUDIT_REACH_MEDIAN 0.02
#define AUDIT_REACH_HIGH 0.08

/* Shares: 0.02 is two per cent more time. */
typedef struct audit_sample {
    double *at;
    int count;
} audit_sample;

/* False: there is no memory. */
bool audit_add(audit_sample *to, double share);
void audit_sort(audit_sample *sample);

/* Of a sorted one, the nearest rank: of few figures the 95th percentile is the
 * largest. NAN of none. */
double audit_percentile(const audit_sample *sample, double share);
bool audit_is_reached(const audit_sample *sample);

/* Reads a line; false: it is none of a figure. *about: the rest of it, what the
 * figure is of. */
bool audit_read_line(audit_figure *figure, double *share, const char **about,
                     const char *line);

#endif
