/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit.c - spctune audit: measures how good the tuner's choices are.
 *
 * For each layer on each scene, in databases of its own:
 *
 *   regret  a quick tuning's choice against the best that a search of the whole
 *           space finds
 *   flip    that choice against the one of a second quick tuning
 *   served  the time of a plan that the database serves, against the time that
 *           the tuner recorded
 *   bucket  the choice served to scenes of other sizes and densities, against
 *           the result of tuning for each of them
 *
 * Compared candidates alternate in one process, at equal clocks.
 */
#include "command/audit/audit.h"
#include "base/plural.h"
#include "base/text/scan.h"
#include "command/cli/output.h"
#include "command/tune/trials.h"
#include "command/tune/worklist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(audit_args, member)

static const cli_option options[] = {
    {'s', "scene", "SPEC", CLI_LIST, AT(scenes),
     "a scene to tune on (may be repeated)"},
    {0, "scenes", "DIR", CLI_TEXT, AT(folder), "where the files of scenes are"},
    {0, "against", "normal|exhaustive", CLI_EFFORT, AT(against),
     "the search that quick is compared with: normal or exhaustive (default)"},
    {0, "around", "N", CLI_TEXT, AT(around_text),
     "how many scenes near each one are served its choice: up to 8; default 4"},
    {0, "seed", "N", CLI_SEED, AT(seed), "of weights, inputs and order"},
    {0, "limit", "SECONDS", CLI_REAL, AT(limit_s),
     "for one candidate's run; default: 10"},
    {0, "only", "TEMPLATE", CLI_TEXT, AT(only), "only candidates of this template"},
    {0, "in-process", NULL, CLI_FLAG, AT(in_process),
     "run candidates in this process"},
    {0, "keep", "FILE", CLI_TEXT, AT(keep),
     "a new database that gets the measurements; default: they are dropped"},
    {0, "minutes", "M", CLI_REAL, AT(minutes), "begin no layer after so long"},
    {'o', "output", "FILE", CLI_OUT, AT(output),
     "also the single figures, a line each, for 'report --audit FILE'"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

static void defaults(void *to)
{
    audit_args *args = to;

    args->against = SPC_EFFORT_EXHAUSTIVE;
    args->around = 4;
    args->seed = 1;
}

/* ---- results ------------------------------------------------------------- */

/* Percentiles need sorted samples. */
static void sort_samples(audit *a)
{
    for (int i = 0; i < AUDIT_FIGURES; i++)
        audit_sort(&a->samples[i]);
}

static void print_summary(const audit *a)
{
    static const char *const titles[] = {
        "figure", ">count", ">median %", ">95th %", "reach", "is", NULL};
    table t;

    table_init(&t, titles);
    for (int i = 0; i < AUDIT_FIGURES; i++) {
        const audit_sample *sample = &a->samples[i];
        if (sample->count == 0)
            continue;
        table_cell(&t, "%s", audit_names[i]);
        table_cell(&t, "%d", sample->count);
        table_cell(&t, "%.2f", 100 * audit_percentile(sample, 0.5));
        table_cell(&t, "%.2f", 100 * audit_percentile(sample, 0.95));
        table_cell(&t, "%s",
                   audit_is_reached(sample) ? "reached" : "not reached");
        table_cell(&t, "%s", audit_about[i]);
    }
    printf("\n");
    table_print(&t, stdout);
    table_release(&t);
    printf("%d of %s chose anew; reach is %.0f %% in the median, %.0f "
           "%% at the 95th percentile\n",
           a->flips, spc__count(a->samples[AUDIT_FLIP].count, "tuning"),
           100 * AUDIT_REACH_MEDIAN, 100 * AUDIT_REACH_HIGH);
    if (a->timed > 0)
        printf("quick timed %d of %s in %.3g s, the longer search "
               "%d more in %.3g s: %.1f %% of the candidates saved\n",
               a->timed, spc__count(a->space, "candidate"), a->timed_s, a->more,
               a->more_s, 100.0 * a->more / (a->timed + a->more));
}

static void write_summary(spc__json *json, const audit *a)
{
    spc__json_object(json, "summary");
    for (int i = 0; i < AUDIT_FIGURES; i++) {
        const audit_sample *sample = &a->samples[i];
        spc__json_object(json, audit_names[i]);
        spc__json_int(json, "count", sample->count);
        spc__json_real(json, "median", audit_percentile(sample, 0.5));
        spc__json_real(json, "p95", audit_percentile(sample, 0.95));
        spc__json_end_object(json);
    }
    spc__json_int(json, "flips", a->flips);
    spc__json_int(json, "space", a->space);
    spc__json_int(json, "quick_timed", a->timed);
    spc__json_real(json, "quick_s", a->timed_s);
    spc__json_int(json, "longer_timed", a->more);
    spc__json_real(json, "longer_s", a->more_s);
    spc__json_end_object(json);
}

/* ---- the run ------------------------------------------------------------- */

/* Audits one layer on each of its scenes. */
static spc_status audit_item(audit *a, const work_item *item)
{
    scene_set scenes;
    spc_status status = load_scenes(&scenes, a->self, &item->scenes);

    for (int i = 0; status == SPC_OK && i < scenes.count; i++)
        status = audit_layer(a, &item->layer, item->text, scenes.at[i]);
    if (scenes.at != NULL)
        free_scenes(&scenes);
    return status;
}

/* A failing layer does not stop the others. */
static spc_status audit_all(audit *a, const worklist *list)
{
    spc_status first = SPC_OK;

    for (int i = 0; i < list->count && first != SPC_EINTERRUPTED; i++) {
        if (audit_is_late(a)) {
            cli_say(a->self, "spctune: audited %d of %s in time", i,
                    spc__count(list->count, "layer"));
            break;
        }
        spc_status status = *cli_cancel_flag()
                                ? cli_fail(SPC_EINTERRUPTED, "interrupted")
                                : audit_item(a, &list->at[i]);
        if (first == SPC_OK || status == SPC_EINTERRUPTED)
            first = status;
    }
    return first;
}

/* Audits all, then prints figures and summary. They are printed after an
 * interrupt as well, for the layers that are done. */
static spc_status report(audit *a, const worklist *list)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    if (!a->self->globals.json) {
        spc_status status = audit_all(a, list);
        sort_samples(a);
        print_summary(a);
        return status;
    }
    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    spc__json_array(&json, "layers");
    a->json = &json;
    spc_status status = audit_all(a, list);
    spc__json_end_array(&json);
    sort_samples(a);
    write_summary(&json, a);
    spc__json_end_object(&json);
    spc_status written = output_json(&text);
    return status != SPC_OK ? status : written;
}

static spc_status read_list(worklist *list, const cli *self,
                            const audit_args *args)
{
    worklist_source from = {&self->operands, &args->scenes, args->folder,
                            "audit", false};
    spc_status status = worklist_read(list, &from);

    for (int i = 0; i < list->count && status == SPC_OK; i++)
        if (list->at[i].is_network)
            status = cli_fail(SPC_EINVAL,
                              "'%s' is a network: audit takes layers, which "
                              "'spctune run --network' lists",
                              list->at[i].text);
    return status;
}

/* Opens the file of figures, which report reads (audit_figures.h). */
static spc_status open_lines(audit *a)
{
    if (a->args->output == NULL)
        return SPC_OK;
    spc_status status = out_file_open(&a->lines, a->args->output);
    if (status == SPC_OK)
        fputs(AUDIT_HEADING, a->lines.to);
    return status;
}

static spc_status read_around(audit_args *args)
{
    const char *text = args->around_text;
    int64_t value;

    if (text == NULL)
        return SPC_OK;
    if (!spc__scan_integer(&value, spc__span_of(text), 0, AUDIT_AROUND))
        return cli_fail(SPC_EINVAL,
                        "--around: '%s' is not a number of scenes near each "
                        "one, from 0 to %d",
                        text, AUDIT_AROUND);
    args->around = (int)value;
    return SPC_OK;
}

/* Checks the file of --keep first: if it had earlier records, a tuning would
 * measure nothing, and the figures would be meaningless. */
static spc_status command_audit(cli *self, void *to)
{
    audit_args *args = to;
    audit a = {.self = self, .args = args};
    worklist list = {0};
    spc_status status;

    if ((status = read_around(args)) != SPC_OK)
        return status;
    if (args->keep != NULL && access(args->keep, F_OK) == 0)
        return cli_fail(SPC_EINVAL,
                        "--keep: '%s' exists already: its records would not be "
                        "measured again",
                        args->keep);
    if ((status = read_list(&list, self, args)) == SPC_OK &&
        (status = open_lines(&a)) == SPC_OK) {
        cli_catch_signals(self);
        status = audit_open(&a);
    }
    if (status == SPC_OK)
        status = report(&a, &list);
    audit_close(&a);
    worklist_free(&list);
    return out_file_close(&a.lines, status);
}

const cli_command cli_audit = {
    .name = "audit",
    .operands = "LAYER|LIST... --scene SPEC...",
    .summary = "measure what a quick tuning's choice costs, and a served one",
    .more =
        "Tunes each LAYER on each scene quickly, a second time with other "
        "data, and\nonce with a search of the whole space; then those that "
        "were chosen run in\nturns, at equal clocks. Printed are\n\n"
        "  regret  quick's choice over the best that is known\n"
        "  flip    the choices of the two quick tunings, one over the other\n"
        "  served  the time of a plan from the database over the recorded one\n"
        "  bucket  on scenes of other sizes and densities: the choice that is\n"
        "          served there over that of a tuning for this very scene\n\n"
        "as shares in per cent, with their median and 95th percentile. The "
        "databases\nare the audit's own, and gone when it ends. A LIST is a "
        "file as tune takes it.",
    .options = options,
    .args_bytes = sizeof(audit_args),
    .run = command_audit,
    .defaults = defaults,
};
