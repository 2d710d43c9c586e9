/* SPDX-License-Identifier: Apache-2.0 */
/* report_audit.c - the figures of an audit, in the page of spctune report. */
#include "command/report/report.h"

#include "command/audit/audit_figures.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORST = 10 };

/* One figure, with its layer and scene. */
typedef struct one {
    audit_figure figure;
    double share;
    char *about;
} one;

typedef struct audit_page {
    audit_sample samples[AUDIT_FIGURES];
    one *at;
    int count;
} audit_page;

/* ---- reading ------------------------------------------------------------- */

static bool add_one(audit_page *to, audit_figure figure, double share,
                    const char *about)
{
    one *more = realloc(to->at, ((size_t)to->count + 1) * sizeof(*more));
    char *copy = strdup(about);

    /* Keeps the pointer even if the other allocation failed, as realloc() has
     * freed the old memory. */
    if (more != NULL)
        to->at = more;
    if (more == NULL || copy == NULL ||
        !audit_add(&to->samples[figure], share)) {
        free(copy);
        return false;
    }
    to->at[to->count++] = (one){figure, share, copy};
    return true;
}

static spc_status read_line(audit_page *to, const char *file, int number,
                            char *line)
{
    audit_figure figure;
    const char *about;
    double share;

    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0' || line[0] == '#')
        return SPC_OK;
    if (!audit_read_line(&figure, &share, &about, line))
        return cli_fail(SPC_EFORMAT,
                        "%s:%d: '%.60s' is not a figure of an audit", file,
                        number, line);
    return add_one(to, figure, share, about)
               ? SPC_OK
               : cli_fail(SPC_ENOMEM, "out of memory");
}

/* Checks the first line, which identifies the file. */
static spc_status read_heading(FILE *file, const char *path)
{
    char line[sizeof(AUDIT_HEADING)] = "";

    if (fgets(line, sizeof(line), file) != NULL &&
        strcmp(line, AUDIT_HEADING) == 0)
        return SPC_OK;
    return cli_fail(SPC_EFORMAT,
                    "'%s' has no figures of 'spctune audit -o FILE'", path);
}

static spc_status read_file(audit_page *to, const char *path)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    int number = 1;
    spc_status status;

    if (file == NULL)
        return cli_fail(SPC_EIO, "cannot read '%s': %s", path, strerror(errno));
    /* Checks the first line first, so that the message for another kind of file
     * is about the file and not about one of its lines. */
    status = read_heading(file, path);
    while (status == SPC_OK && getline(&line, &capacity, file) >= 0)
        status = read_line(to, path, ++number, line);
    if (status == SPC_OK && ferror(file))
        status = cli_fail(SPC_EIO, "cannot read '%s'", path);
    free(line);
    fclose(file);
    return status;
}

/* ---- writing ------------------------------------------------------------- */

static void add_figure(spc__buf *page, const audit_page *from, int figure)
{
    const audit_sample *sample = &from->samples[figure];

    if (sample->count == 0)
        return;
    spc__buf_printf(page,
                    "<tr><td>%s<td class=n>%d<td class=n>%.2f<td class=n>%.2f"
                    "<td>%s<td class=quiet>",
                    audit_names[figure], sample->count,
                    100 * audit_percentile(sample, 0.5),
                    100 * audit_percentile(sample, 0.95),
                    audit_is_reached(sample) ? "reached" : "not reached");
    report_text(page, audit_about[figure]);
    spc__buf_puts(page, "\n");
}

static int by_share(const void *a, const void *b)
{
    double x = ((const one *)a)->share, y = ((const one *)b)->share;

    return (x < y) - (x > y);
}

static void add_worst(spc__buf *page, audit_page *from)
{
    qsort(from->at, (size_t)from->count, sizeof(*from->at), by_share);
    spc__buf_puts(page, "<h3>What costs most</h3><div class=scroll><table><tr>"
                        "<th>figure<th class=n>%<th>of\n");
    for (int i = 0; i < from->count && i < WORST; i++) {
        spc__buf_printf(page, "<tr><td>%s<td class=n>%.2f<td class=layer>",
                        audit_names[from->at[i].figure],
                        100 * from->at[i].share);
        report_words(page, from->at[i].about);
        spc__buf_puts(page, "\n");
    }
    spc__buf_puts(page, "</table></div>\n");
}

static void add_section(spc__buf *page, audit_page *from)
{
    spc__buf_puts(
        page,
        "<h2 id=audit>What choices are worth</h2><p>Figures of "
        "'spctune audit', in per cent of the time; those that are "
        "compared ran in turns, at equal clocks. Reached is a "
        "median of 2 and a 95th percentile of 8.\n"
        "<div class=scroll><table><tr><th>figure<th class=n>count<th class=n>"
        "median %<th class=n>95th %<th><th>is\n");
    for (int i = 0; i < AUDIT_FIGURES; i++) {
        audit_sort(&from->samples[i]);
        add_figure(page, from, i);
    }
    spc__buf_puts(page, "</table></div>\n");
    add_worst(page, from);
}

static void release(audit_page *from)
{
    for (int i = 0; i < from->count; i++)
        free(from->at[i].about);
    for (int i = 0; i < AUDIT_FIGURES; i++)
        free(from->samples[i].at);
    free(from->at);
}

spc_status report_audit(spc__buf *page, const char *path)
{
    audit_page from = {0};
    spc_status status = path != NULL ? read_file(&from, path) : SPC_OK;

    if (status == SPC_OK && from.count > 0)
        add_section(page, &from);
    release(&from);
    return status;
}
