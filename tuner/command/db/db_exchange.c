/* SPDX-License-Identifier: Apache-2.0 */
/* db_exchange.c - spctune db export, import, merge, diff. */
#include "base/plural.h"
#include "command/cli/out_file.h"
#include "command/cli/output.h"
#include "command/db/db.h"
#include "spc/db.h"

#include <errno.h>
#include <string.h>

/* ---- export -------------------------------------------------------------- */

typedef struct sink {
    FILE *to;
    spc__json *json; /* NULL: write plain text */
} sink;

/* Takes one line of the export: as text, or as an element of the JSON array,
 * without its newline. Comments are for readers of the text. */
static spc_status write_text(const char *text, size_t bytes, void *payload)
{
    const sink *out = payload;

    if (out->json == NULL)
        return fwrite(text, 1, bytes, out->to) == bytes ? SPC_OK : SPC_EIO;
    if (text[0] == '#')
        return SPC_OK;
    spc__buf line = SPC__BUF_INIT;
    spc__buf_append(&line, text, bytes - 1);
    spc__json_text(out->json, NULL, spc__buf_text(&line));
    spc__buf_release(&line);
    return SPC_OK;
}

static spc_status say_damaged(const cli *self, int64_t damaged)
{
    if (damaged > 0)
        cli_say(self,
                "spctune: left out %s: 'spctune db verify' lists the damaged "
                "records",
                spc__count(damaged, "damaged record"));
    return SPC_OK;
}

static spc_status export_json(spc_ctx *ctx, FILE *to, spc_db_what what)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    int64_t damaged = 0;
    sink out = {to, &json};

    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    spc__json_array(&json, "records");
    spc_status status = spc_db_export(&damaged, ctx, what, write_text, &out);
    spc__json_end_array(&json);
    spc__json_int(&json, "damaged", damaged);
    spc__json_end_object(&json);
    if (status == SPC_OK)
        fprintf(to, "%s\n", spc__buf_text(&text));
    spc__buf_release(&text);
    return status == SPC_OK ? SPC_OK : cli_fail_ctx(status, ctx);
}

static spc_status export_text(spc_ctx *ctx, const cli *self, FILE *to,
                              spc_db_what what)
{
    sink out = {to, NULL};
    int64_t damaged = 0;
    spc_status status = spc_db_export(&damaged, ctx, what, write_text, &out);

    return status == SPC_OK ? say_damaged(self, damaged)
                            : cli_fail_ctx(status, ctx);
}

spc_status db_export(spc_ctx *ctx, cli *self, const db_args *args,
                     const char *const *words)
{
    out_file to;
    spc_db_what what = args->choices ? SPC_DB_CHOICES
                       : args->code  ? SPC_DB_RECORDS_AND_CODE
                                     : SPC_DB_RECORDS;
    spc_status status;

    (void)words;
    if (args->choices && args->code)
        return cli_fail(SPC_EINVAL,
                        "--choices leaves the code out: it excludes --code");
    if ((status = out_file_open(&to, args->output)) != SPC_OK)
        return status;
    status = self->globals.json ? export_json(ctx, to.to, what)
                                : export_text(ctx, self, to.to, what);
    return out_file_close(&to, status);
}

/* ---- import and merge ---------------------------------------------------- */

static const char *const fate_names[SPC_DB_FATES] = {
    "accepted", "known", "older", "stale", "rejected"};

typedef struct taking {
    spc_db_exchange exchange;
    const char *file;
    spc__json json;
    spc__buf text;
    table table;
    bool as_json;
} taking;

/* Lists what happened to one record: accepted, known, rejected and so on. */
static spc_status list_change(const spc_db_change *change, void *payload)
{
    taking *t = payload;

    if (t->as_json) {
        spc__json_object(&t->json, NULL);
        spc__json_text(&t->json, "fate", fate_names[change->fate]);
        spc__json_text(&t->json, "record", change->record);
        spc__json_text(&t->json, "reason", change->reason);
        if (change->line > 0)
            spc__json_int(&t->json, "line", change->line);
        spc__json_end_object(&t->json);
        return SPC_OK;
    }
    table_cell(&t->table, "%s", fate_names[change->fate]);
    if (change->line > 0)
        table_cell(&t->table, "%lld", (long long)change->line);
    else
        table_blank(&t->table);
    table_cell(&t->table, "%s", change->record);
    table_cell(&t->table, "%s", change->reason);
    return SPC_OK;
}

/* Each file gets its own table or JSON object. */
static void begin_file(taking *t, const char *file)
{
    static const char *const titles[] = {"fate", ">line", "record", "reason",
                                         NULL};

    t->file = file;
    if (!t->as_json) {
        table_init(&t->table, titles);
        return;
    }
    spc__json_object(&t->json, NULL);
    spc__json_text(&t->json, "file", file);
    spc__json_array(&t->json, "changes");
}

/* Prints the changes that a file made, and the number of records by outcome. */
static void end_file(taking *t)
{
    const int64_t *counts = t->exchange.counts;

    if (!t->as_json) {
        if (t->table.rows > 0)
            table_print(&t->table, stdout);
        table_release(&t->table);
        printf("%s:", t->file);
        for (int i = 0; i < SPC_DB_FATES; i++)
            printf("%s %lld %s", i > 0 ? "," : "", (long long)counts[i],
                   fate_names[i]);
        putchar('\n');
        return;
    }
    spc__json_end_array(&t->json);
    for (int i = 0; i < SPC_DB_FATES; i++)
        spc__json_int(&t->json, fate_names[i], counts[i]);
    spc__json_end_object(&t->json);
}

/* Reads a whole file; "-" is standard input. */
static spc_status read_text(spc__buf *out, const char *file)
{
    FILE *from = strcmp(file, "-") == 0 ? stdin : fopen(file, "rb");
    char part[1 << 16];
    size_t got;

    if (from == NULL)
        return cli_fail(errno == ENOENT ? SPC_ENOTFOUND : SPC_EIO,
                        "cannot read '%s': %s", file, strerror(errno));
    while ((got = fread(part, 1, sizeof(part), from)) > 0)
        spc__buf_append(out, part, got);
    bool failed = ferror(from) != 0;
    if (from != stdin)
        fclose(from);
    if (failed)
        return cli_fail(SPC_EIO, "cannot read '%s'", file);
    return out->failed ? cli_fail(SPC_ENOMEM, "out of memory") : SPC_OK;
}

static spc_status import_file(spc_ctx *ctx, taking *t, const char *file)
{
    spc__buf text = SPC__BUF_INIT;
    spc_status status = read_text(&text, file);

    if (status == SPC_OK) {
        status =
            spc_db_import(ctx, spc__buf_text(&text), text.length, &t->exchange);
        if (status != SPC_OK)
            cli_fail_ctx(status, ctx);
    }
    spc__buf_release(&text);
    return status;
}

static spc_status merge_file(spc_ctx *ctx, taking *t, const char *file)
{
    spc_status status = spc_db_merge(ctx, file, &t->exchange);

    return status == SPC_OK ? SPC_OK : cli_fail_ctx(status, ctx);
}

/* Reads all files in order. Lists rejected records, and ends with an error. */
static spc_status take_files(spc_ctx *ctx, cli *self,
                             spc_status (*take)(spc_ctx *, taking *,
                                                const char *))
{
    taking t = {.exchange = {.each = list_change, .payload = &t},
                .as_json = self->globals.json};
    int64_t rejected = 0;
    spc_status status = SPC_OK;

    spc__json_init(&t.json, &t.text);
    spc__json_array(&t.json, NULL);
    for (int i = 1; i < self->operands.count && status == SPC_OK; i++) {
        begin_file(&t, self->operands.at[i]);
        status = take(ctx, &t, self->operands.at[i]);
        if (status == SPC_OK)
            end_file(&t);
        rejected += t.exchange.counts[SPC_DB_REJECTED];
    }
    spc__json_end_array(&t.json);
    if (status == SPC_OK && t.as_json)
        status = output_json(&t.text);
    spc__buf_release(&t.text);
    if (status == SPC_OK && rejected > 0)
        status = cli_fail(SPC_EFORMAT, "%s %s rejected",
                          spc__count(rejected, "record"),
                          spc__either(rejected, "was", "were"));
    return status;
}

spc_status db_import(spc_ctx *ctx, cli *self, const db_args *args,
                     const char *const *words)
{
    (void)args, (void)words;
    return take_files(ctx, self, import_file);
}

spc_status db_merge(spc_ctx *ctx, cli *self, const db_args *args,
                    const char *const *words)
{
    (void)args, (void)words;
    return take_files(ctx, self, merge_file);
}

/* ---- diff ---------------------------------------------------------------- */

typedef struct differences {
    spc__json *json;
    int64_t count;
} differences;

/* Prints a record that only one side has; `side` is < or >. */
static spc_status show_line(char side, const char *line, void *payload)
{
    differences *all = payload;
    char name[2] = {side, '\0'};

    all->count++;
    if (all->json == NULL) {
        printf("%c %s\n", side, line);
        return SPC_OK;
    }
    spc__json_object(all->json, NULL);
    spc__json_text(all->json, "side", name);
    spc__json_text(all->json, "record", line);
    spc__json_end_object(all->json);
    return SPC_OK;
}

spc_status db_diff(spc_ctx *ctx, cli *self, const db_args *args,
                   const char *const *words)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    differences all = {self->globals.json ? &json : NULL, 0};

    (void)args;
    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    spc_status status = spc_db_diff(ctx, words[0], show_line, &all);
    spc__json_end_array(&json);
    if (status != SPC_OK)
        cli_fail_ctx(status, ctx);
    else if (self->globals.json)
        status = output_json(&text);
    else if (all.count == 0)
        printf("no record differs\n");
    spc__buf_release(&text);
    return status;
}
