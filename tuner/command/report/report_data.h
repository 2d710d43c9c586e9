/* SPDX-License-Identifier: Apache-2.0 */
/* report_data.h - what a report is about: a database, read into memory. */
#ifndef SPC_CMD_REPORT_DATA_H
#define SPC_CMD_REPORT_DATA_H

#include "command/cli/cli.h"

typedef struct report_trial {
    char *name;         /* TEMPLATE CONFIG */
    int template_index; /* in report_data.templates; of those that were timed */
    double us;          /* 0: it failed */
} report_trial;

typedef struct report_problem {
    int64_t id;
    char *layer, *device, *choice; /* choice NULL: none */
    int choice_template;           /* its index, as that of a trial */
    double rows, rows_in, density, us;
    double floor_us;     /* 0: not known */
    bool floor_measured; /* by ceilings of this database, not of the class */
    char floor_by[12];
    report_trial *trials; /* the fastest first, failures last */
    int count, timed;
} report_problem;

typedef struct report_data {
    report_problem *at; /* by device, layer, rows */
    int count;
    char *file;
    int left_out; /* problems of files below it */
    int unread;   /* problems with trials that cannot be read */
    char *templates[64];
    int template_count;
} report_data;

/* Says what is wrong through cli_fail. The caller frees *out in any case. */
spc_status report_read(report_data *out, spc_ctx *ctx);
void report_free(report_data *data);

/* So many problems from there on are of one layer on one device. */
int report_group(const report_data *data, int from);

/* What the trial of that name took for a problem; 0: it was not timed there. */
double report_time_of(const report_problem *problem, const char *name);
/* Of the best trial; 0: none was timed. */
double report_best(const report_problem *problem);

#endif
