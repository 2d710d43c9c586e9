/* SPDX-License-Identifier: Apache-2.0 */
/* report_data.h - the data of a report: a database, read into memory. */
#ifndef SPC_CMD_REPORT_DATA_H
#define SPC_CMD_REPORT_DATA_H

#include "command/cli/cli.h"

typedef struct report_trial {
    char *name;         /* TEMPLATE CONFIG */
    int template_index; /* index in report_data.templates, which lists templates
                         * with timed trials */
    double us;          /* 0: the trial failed */
} report_trial;

typedef struct report_problem {
    int64_t id;
    char *layer, *device, *choice; /* choice is NULL without a choice */
    int choice_template;           /* index of the template, as for a trial */
    double rows, rows_in, density, us;
    double floor_us; /* 0 if unknown */
    /* the floor uses measured ceilings of this database, not those of the
     * class */
    bool floor_measured;
    char floor_by[12];
    report_trial *trials; /* fastest first, failures last */
    int count, timed;
} report_problem;

typedef struct report_data {
    report_problem *at; /* sorted by device, layer and rows */
    int count;
    char *file;
    int left_out; /* number of problems of lower files */
    int unread;   /* number of problems with trials that cannot be read */
    char *templates[64];
    int template_count;
} report_data;

/* Reports errors through cli_fail. The caller frees *out in any case. */
spc_status report_read(report_data *out, spc_ctx *ctx);
void report_free(report_data *data);

/* Returns the number of problems from `at` on with the same layer and
 * device. */
int report_group(const report_data *data, int from);

/* The time of the trial of that name for a problem; 0 if it was not timed. */
double report_time_of(const report_problem *problem, const char *name);
/* The time of the best trial; 0 if none was timed. */
double report_best(const report_problem *problem);

#endif
