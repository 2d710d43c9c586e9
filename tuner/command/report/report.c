/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.c - spctune report: a database as one page for a browser.
 *
 * The page loads nothing: style, script and pictures are part of it. Its
 * colours follow the system's preference. Without the script all rows are
 * visible; the script sorts and filters them.
 */
#include "command/report/report.h"
#include "base/plural.h"
#include "command/cli/out_file.h"
#include "command/cli/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *output, *title, *audit;
};

#define AT(member) offsetof(struct args, member)

static const cli_option options[] = {
    {'o', "output", "FILE", CLI_OUT, AT(output),
     "where the page goes; default: standard output"},
    {0, "title", "TEXT", CLI_TEXT, AT(title), "its heading"},
    {0, "audit", "FILE", CLI_TEXT, AT(audit),
     "what 'spctune audit -o FILE' has found"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

/*
 * Eight colours that most people can distinguish on a light and a dark
 * background; names stand beside important colours.
 */
static const char style[] =
    ":root{color-scheme:light dark;--ground:#fff;--ink:#1d1f23;--quiet:#62666e;"
    "--line:#e3e5e9;--head:#f5f6f8;--c0:#8a8f98;--c1:#2a78d6;--c2:#d9571f;"
    "--c3:#14966a;--c4:#b87d00;--c5:#cf4f83;--c6:#4c7a12;--c7:#5b48b8;"
    "--c8:#c93c3b}\n"
    "@media(prefers-color-scheme:dark){:root{--ground:#15171a;--ink:#e6e8eb;"
    "--quiet:#9aa0a9;--line:#2c3036;--head:#1d2024;--c0:#878d96;--c1:#5b9dee;"
    "--c2:#ee7f4d;--c3:#3cbf90;--c4:#dba63a;--c5:#e880a9;--c6:#8db84f;"
    "--c7:#a397f0;--c8:#ee7b79}}\n"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);"
    "background:var(--ground);max-width:1200px;margin:2em auto;padding:0 1.2em}"
    "h1{font-size:1.7em;margin:.2em 0}h2{font-size:1.25em;margin:2.2em 0 .3em}"
    "h3{font-size:1em;margin:1.4em 0 .4em}p{max-width:46em;color:var(--quiet);"
    "margin:.3em 0 1em}nav a{color:var(--c1);margin-right:1.2em}"
    "table{border-collapse:collapse;font-size:13px}"
    "th{text-align:left;font-weight:600;background:var(--head)}"
    "td,th{padding:2px 10px;border-bottom:1px solid var(--line);"
    "white-space:nowrap;vertical-align:middle}"
    "th.n,td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "td.config{color:var(--quiet);font-size:12px}"
    "td.layer,td.config{white-space:normal;min-width:14em;max-width:28em}"
    "td.layer{min-width:23em}"
    ".scroll{overflow-x:auto;min-width:0}svg{display:block}"
    ".sort thead th{cursor:pointer;position:sticky;top:0}"
    ".sort thead th:hover{color:var(--c1)}"
    ".flow{display:flex;flex-wrap:wrap;align-items:start;gap:1.2em 2.4em}"
    ".flow .scroll{max-width:100%}"
    "@media(max-width:640px){body{margin:1em auto;padding:0 .8em}"
    "td,th{padding:2px 5px}td.layer,td.config{min-width:11em}}"
    "th[aria-sort=ascending]::after{content:' \\2191'}"
    "th[aria-sort=descending]::after{content:' \\2193'}"
    "tr.group th{padding-top:1em;background:none}"
    "input{font:inherit;color:inherit;background:var(--head);width:100%;"
    "max-width:24em;box-sizing:border-box;border:1px solid var(--line);"
    "border-radius:4px;padding:.3em .6em}"
    ".grid2{display:grid;grid-template-columns:repeat(auto-fill,"
    "minmax(min(570px,100%),1fr));gap:1.2em}"
    "figure{margin:0;min-width:0;overflow-x:auto}figcaption{font-size:13px;"
    "margin-bottom:.3em}.quiet{color:var(--quiet)}"
    "text{font:11px system-ui,sans-serif;fill:var(--quiet)}"
    ".tick{text-anchor:middle}.name{text-anchor:end;fill:var(--ink)}"
    ".grid{stroke:var(--line);fill:none}.span{stroke:var(--c1);"
    "stroke-width:2;opacity:.45}.time{fill:var(--c1)}"
    ".floor{fill:var(--ground);stroke:var(--quiet);stroke-width:2}"
    ".dots{fill:none;stroke-width:6;stroke-linecap:round;stroke-opacity:.6}"
    ".dot{stroke:var(--ground);stroke-width:1.5}"
    ".c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}"
    ".c3{stroke:var(--c3)}.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}"
    ".c6{stroke:var(--c6)}.c7{stroke:var(--c7)}.c8{stroke:var(--c8)}"
    ".dot.c0{fill:var(--c0)}.dot.c1{fill:var(--c1)}.dot.c2{fill:var(--c2)}"
    ".dot.c3{fill:var(--c3)}.dot.c4{fill:var(--c4)}.dot.c5{fill:var(--c5)}"
    ".dot.c6{fill:var(--c6)}.dot.c7{fill:var(--c7)}.dot.c8{fill:var(--c8)}\n";

/*
 * A heading sorts the rows of its table, within their groups. The text field
 * hides rows that lack one of its words.
 */
static const char script[] =
    "const value=c=>{const t=c?c.textContent.trim():'';"
    "const n=parseFloat(t);return t===''?-Infinity:isNaN(n)?t:n};\n"
    "const compare=(a,b)=>typeof a==typeof b?(a<b?-1:a>b?1:0):"
    "typeof a=='number'?-1:1;\n"
    "for(const t of document.querySelectorAll('table.sort'))"
    "[...t.tHead.rows[0].cells].forEach((h,i)=>{"
    "const sort=()=>{const d=h.ariaSort=='descending'?1:"
    "h.ariaSort=='ascending'?-1:h.className=='n'?-1:1;"
    "for(const o of t.tHead.rows[0].cells)o.ariaSort=null;"
    "h.ariaSort=d>0?'ascending':'descending';"
    "for(const b of t.tBodies){"
    "const rows=[...b.rows].filter(r=>r.className!='group');"
    "rows.sort((x,y)=>d*compare(value(x.cells[i]),value(y.cells[i])));"
    "b.append(...rows)}};"
    "h.tabIndex=0;h.onclick=sort;"
    "h.onkeydown=e=>{if(e.key=='Enter')sort()}});\n"
    "const box=document.getElementById('filter');"
    "if(box)box.oninput=()=>{"
    "const words=box.value.toLowerCase().split(/\\s+/).filter(w=>w);"
    "let shown=0;"
    "for(const b of document.querySelectorAll('table.filter tbody')){let n=0;"
    "for(const r of b.rows){if(r.className=='group')continue;"
    "const t=r.textContent.toLowerCase();"
    "r.hidden=!words.every(w=>t.includes(w));n+=!r.hidden}"
    "b.hidden=n==0;shown+=n}"
    "document.getElementById('shown').textContent=shown+' shown'};\n";

static int count_trials(const report_data *data)
{
    int count = 0;

    for (int i = 0; i < data->count; i++)
        count += data->at[i].count;
    return count;
}

static int count_choices(const report_data *data)
{
    int count = 0;

    for (int i = 0; i < data->count; i++)
        count += data->at[i].choice != NULL;
    return count;
}

static void add_head(spc__buf *page, const report_data *data, const char *title)
{
    spc__buf_puts(page, "<!DOCTYPE html>\n<html lang=en><meta charset=utf-8>"
                        "<meta name=viewport content='width=device-width,"
                        "initial-scale=1'>\n<title>");
    report_text(page, title);
    spc__buf_printf(page, "</title>\n<style>%s</style>\n<h1>", style);
    report_text(page, title);
    spc__buf_printf(page,
                    "</h1>\n<p>%s, %d with a choice, and %s that "
                    "were tried, of ",
                    spc__count(data->count, "problem"), count_choices(data),
                    spc__count(count_trials(data), "candidate"));
    report_text(page, data->file != NULL ? data->file : "no database");
    spc__buf_puts(page, "; spctune " SPC_VERSION_TEXT);
    if (data->left_out > 0)
        spc__buf_printf(page, ". Not shown: %s of the files below it",
                        spc__count(data->left_out, "problem"));
    if (data->unread > 0)
        spc__buf_printf(page,
                        ". %s with trials that cannot be read: "
                        "'spctune db verify' lists them",
                        spc__count(data->unread, "problem"));
    spc__buf_puts(page, ".\n");
}

/* Links to the sections that exist. */
static void add_links(spc__buf *page, const char *sections)
{
    static const char *const ids[] = {"summary", "layers", "candidates",
                                      "choices", "regret", "audit",
                                      "devices"};
    char mark[40];

    spc__buf_puts(page, "<nav>");
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        snprintf(mark, sizeof(mark), "<h2 id=%s>", ids[i]);
        if (strstr(sections, mark) != NULL)
            spc__buf_printf(page, "<a href='#%s'>%s</a>", ids[i], ids[i]);
    }
    spc__buf_puts(page, "</nav>\n");
}

static spc_status write_page(spc__buf *page, const report_data *data,
                             const struct args *args)
{
    const char *title = args->title != NULL ? args->title : "What was tuned";
    spc__buf sections = SPC__BUF_INIT;

    /* Writes the sections first, as the links at the top name only sections
     * with content. */
    report_summary(&sections, data);
    report_layers(&sections, data);
    report_candidates(&sections, data);
    report_choices(&sections, data);
    report_regret(&sections, data);
    spc_status status = report_audit(&sections, args->audit);
    report_devices(&sections, data);
    add_head(page, data, title);
    add_links(page, spc__buf_text(&sections));
    spc__buf_puts(page, spc__buf_text(&sections));
    spc__buf_printf(page, "<script>\n%s</script>\n</html>\n", script);
    page->failed |= sections.failed;
    spc__buf_release(&sections);
    if (status == SPC_OK && page->failed)
        status = cli_fail(SPC_ENOMEM, "out of memory");
    return status;
}

static spc_status put_page(const cli *self, const spc__buf *page,
                           const char *path)
{
    out_file file;
    spc_status status = out_file_open(&file, path);

    if (status != SPC_OK)
        return status;
    fwrite(page->data, 1, page->length, file.to);
    status = out_file_close(&file, SPC_OK);
    if (status == SPC_OK && path != NULL)
        cli_say(self, "spctune: wrote %s, %zu bytes", path, page->length);
    return status;
}

static spc_status command_report(cli *self, void *to)
{
    const struct args *args = to;
    spc__buf page = SPC__BUF_INIT;
    report_data data = {0};
    spc_ctx *ctx = NULL;
    spc_status status;

    if (self->globals.json)
        return cli_fail(SPC_EINVAL, "a report is HTML: 'spctune db ls --json' "
                                    "prints its problems");
    if (self->operands.count > 0)
        return cli_fail(SPC_EINVAL,
                        "report takes no '%s': --database names its subject",
                        self->operands.at[0]);
    if (self->globals.device == NULL)
        self->globals.device = "cpu"; /* any device can read a database */
    if ((status = cli_open(&ctx, self)) == SPC_OK &&
        (status = report_read(&data, ctx)) == SPC_OK &&
        (status = write_page(&page, &data, args)) == SPC_OK)
        status = put_page(self, &page, args->output);
    report_free(&data);
    spc_ctx_free(ctx);
    spc__buf_release(&page);
    return status;
}

const cli_command cli_report = {
    .name = "report",
    .operands = "",
    .summary = "show a database as a page for a browser",
    .more =
        "Writes one HTML page that loads nothing: totals by operator, dataflow "
        "and\ndistance from the floor; time and floor of each layer, by "
        "operator, to be\nsorted and filtered; the candidates that were tried, "
        "the choices over rows "
        "and density, what\nthe choice of another scene costs, and devices "
        "beside each other. It is about\nthe database of --database, and needs "
        "no GPU.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = command_report,
};
