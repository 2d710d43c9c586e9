/* SPDX-License-Identifier: Apache-2.0 */
/* report_data.c - reads the problems and trials of a database. */
#include "command/report/report_data.h"
#include "spc/db.h"
#include "spc/lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEMPLATES = 64 };

typedef struct reading {
    report_data *data;
    report_problem *problem; /* the problem of the trials that are read */
    spc_ctx *ctx;
    bool failed; /* out of memory */
} reading;

/* The index of a candidate's template, the first word of its name. */
static int find_template(report_data *data, const char *name)
{
    size_t length = strcspn(name, " ");

    for (int i = 0; i < data->template_count; i++)
        if (strlen(data->templates[i]) == length &&
            strncmp(data->templates[i], name, length) == 0)
            return i;
    /* Further templates are drawn in the lane of the last one. */
    if (data->template_count == MOST_TEMPLATES)
        return MOST_TEMPLATES - 1;
    char *copy = strndup(name, length);
    if (copy == NULL)
        return 0;
    data->templates[data->template_count] = copy;
    return data->template_count++;
}

/* ---- trials -------------------------------------------------------------- */

/* Keeps a measured trial of the problem, for the charts. */
static void add_trial(const spc_trial *trial, void *payload)
{
    reading *r = payload;
    report_problem *p = r->problem;
    char name[320];
    report_trial *more =
        realloc(p->trials, ((size_t)p->count + 1) * sizeof(*more));

    r->failed |= more == NULL;
    if (more == NULL)
        return;
    p->trials = more;
    report_trial *to = &p->trials[p->count++];
    snprintf(name, sizeof(name), "%s %s", trial->template_name, trial->config);
    bool ok = strcmp(trial->status, "ok") == 0 && trial->median_us > 0;
    to->us = ok ? trial->median_us : 0;
    to->template_index = find_template(r->data, name);
    to->name = strdup(name);
    r->failed |= to->name == NULL;
    p->timed += ok;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const report_trial *)a)->us, y = ((const report_trial *)b)->us;

    if ((x > 0) != (y > 0))
        return x > 0 ? -1 : 1;
    return (x > y) - (x < y);
}

/* Unreadable trials are left out; the rest is still useful. */
static spc_status read_trials(reading *r)
{
    spc_status status = SPC_OK;

    for (int i = 0; i < r->data->count && status == SPC_OK; i++) {
        report_problem *p = &r->data->at[i];
        if (*cli_cancel_flag())
            return cli_fail(SPC_EINTERRUPTED, "interrupted");
        r->problem = p;
        status = spc_db_each_trial(r->ctx, p->id, add_trial, r);
        r->data->unread += status == SPC_EDB;
        if (status == SPC_EDB)
            status = SPC_OK;
        if (p->count > 0)
            qsort(p->trials, (size_t)p->count, sizeof(*p->trials), by_time);
    }
    return status == SPC_OK ? SPC_OK : cli_fail_ctx(status, r->ctx);
}

/* ---- problems ------------------------------------------------------------ */

static void find_floor(report_problem *p, spc_ctx *ctx)
{
    spc_bench_result floor;
    spc_error error = {0};
    spc_conv conv;

    /* A problem without a floor is still shown: this version may not know the
     * layer's words, or the device. */
    if (spc_conv_parse(&conv, p->layer, &error) != SPC_OK ||
        spc_bench_floor(&floor, ctx, p->device, &conv, p->rows_in, p->rows,
                        p->density) != SPC_OK)
        return;
    p->floor_us = floor.warm_floor_us;
    p->floor_measured = floor.floor_measured;
    snprintf(p->floor_by, sizeof(p->floor_by), "%s", floor.warm_floor_by);
}

/* IDs are unique within a file, so only those of the topmost file are used. */
static bool is_below(report_data *data, const spc_db_row *row)
{
    if (data->file == NULL)
        data->file = strdup(row->file);
    return data->file == NULL || strcmp(data->file, row->file) != 0;
}

static spc_status add_problem(const spc_db_row *row, void *payload)
{
    reading *r = payload;
    report_data *data = r->data;

    if (is_below(data, row)) {
        data->left_out++;
        return SPC_OK;
    }
    report_problem *more =
        realloc(data->at, ((size_t)data->count + 1) * sizeof(*more));
    r->failed |= more == NULL;
    if (more == NULL)
        return SPC_ENOMEM;
    data->at = more;
    report_problem *p = &data->at[data->count++];
    *p = (report_problem){.id = row->id,
                          .layer = strdup(row->layer),
                          .device = strdup(row->device),
                          .choice =
                              row->choice != NULL ? strdup(row->choice) : NULL,
                          .rows = row->rows,
                          .rows_in = row->rows_in,
                          .density = row->density,
                          .us = row->median_us};
    if (p->choice != NULL)
        p->choice_template = find_template(data, p->choice);
    r->failed |= p->layer == NULL || p->device == NULL;
    return r->failed ? SPC_ENOMEM : SPC_OK;
}

/* By device, layer, size and density: the rows of one layer stand together in
 * the report. */
static int by_layer(const void *a, const void *b)
{
    const report_problem *x = a, *y = b;
    int order = strcmp(x->device, y->device);

    if (order == 0)
        order = strcmp(x->layer, y->layer);
    if (order == 0)
        order = (x->rows > y->rows) - (x->rows < y->rows);
    if (order == 0)
        order = (x->density > y->density) - (x->density < y->density);
    return order;
}

spc_status report_read(report_data *out, spc_ctx *ctx)
{
    reading r = {.data = out, .ctx = ctx};

    memset(out, 0, sizeof(*out));
    spc_status status = spc_db_each(ctx, add_problem, &r);
    if (r.failed)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if (status != SPC_OK)
        return cli_fail_ctx(status, ctx);
    if (out->count > 0)
        qsort(out->at, (size_t)out->count, sizeof(*out->at), by_layer);
    for (int i = 0; i < out->count; i++)
        find_floor(&out->at[i], ctx);
    status = read_trials(&r);
    return r.failed ? cli_fail(SPC_ENOMEM, "out of memory") : status;
}

void report_free(report_data *data)
{
    for (int i = 0; i < data->count; i++) {
        report_problem *p = &data->at[i];
        for (int k = 0; k < p->count; k++)
            free(p->trials[k].name);
        free(p->trials);
        free(p->layer);
        free(p->device);
        free(p->choice);
    }
    for (int i = 0; i < data->template_count; i++)
        free(data->templates[i]);
    free(data->at);
    free(data->file);
    memset(data, 0, sizeof(*data));
}

double report_time_of(const report_problem *problem, const char *name)
{
    /* by_time() has sorted timed trials to the front. */
    for (int i = 0; i < problem->timed; i++)
        if (strcmp(problem->trials[i].name, name) == 0)
            return problem->trials[i].us;
    return 0;
}

double report_best(const report_problem *problem)
{
    return problem->timed > 0 ? problem->trials[0].us : 0;
}

static bool is_layer_of(const report_problem *a, const report_problem *b)
{
    return strcmp(a->layer, b->layer) == 0 && strcmp(a->device, b->device) == 0;
}

int report_group(const report_data *data, int from)
{
    int end = from + 1;

    while (end < data->count && is_layer_of(&data->at[end], &data->at[from]))
        end++;
    return end - from;
}
