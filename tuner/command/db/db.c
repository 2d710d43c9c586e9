/* SPDX-License-Identifier: Apache-2.0 */
/* db.c - spctune db: its table of verbs, and the verbs that show a database. */
#include "command/db/db.h"
#include "base/plural.h"
#include "base/text/scan.h"
#include "command/cli/idle.h"
#include "command/database.h"
#include "command/tune/trials.h"
#include "spc/db.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define AT(member) offsetof(db_args, member)

static const cli_option options[] = {
    {'o', "output", "FILE", CLI_OUT, AT(output),
     "export: the file to write; default: standard output"},
    {0, "choices", NULL, CLI_FLAG, AT(choices),
     "export: only choices and their trials, as in shipped files"},
    {0, "code", NULL, CLI_FLAG, AT(code),
     "export: compiled code and networks as well, as base64"},
    {'a', "all", NULL, CLI_FLAG, AT(all),
     "ls: also the records of maps, and of unmeasured code"},
    {0, "whole", NULL, CLI_FLAG, AT(whole),
     "pack: include the code, so that no second file is needed"},
    {0, "losers", NULL, CLI_FLAG, AT(losers),
     "prune: trials that were not chosen"},
    {0, "stale", NULL, CLI_FLAG, AT(stale),
     "prune: trials of templates that have changed since"},
    {0, "days", "N", CLI_REAL, AT(days), "prune: trials older than N days"},
    {0, "choice", "TRIAL", CLI_TEXT, AT(only),
     "pin: the trial as 'db show' lists it; none: unpin"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

struct listing {
    table table;
    spc__json *json;
    int64_t only; /* show only the first problem with this ID; 0: show all */
    bool kinds;   /* also list records of code and maps */
    int found;
    int tables; /* number of faults of tables, not of records */
};

static void add_scene(table *t, const spc_db_row *row)
{
    if (row->rows_in == row->rows)
        table_cell(t, "%.0f", row->rows);
    else
        table_cell(t, "%.0f->%.0f", row->rows_in, row->rows);
    table_cell(t, "%.3f", row->density);
}

/* Adds a problem. Records of code and maps have no scene, so these cells stay
 * empty. */
static void add_row(table *t, const spc_db_row *row, bool kinds)
{
    table_cell(t, "%lld", (long long)row->id);
    if (kinds)
        table_cell(t, "%s", row->kind);
    table_cell(t, "%s", row->layer);
    table_cell(t, "%s", row->device);
    if (strcmp(row->kind, "layer") == 0)
        add_scene(t, row);
    else
        for (int i = 0; i < 2; i++)
            table_blank(t);
    table_cell(t, "%d/%d", row->trials_ok, row->trials);
    table_cell(t, "%s", row->choice != NULL ? row->choice : "-");
    table_us(t, row->choice != NULL ? row->median_us : 0);
    table_cell(t, "%s", row->file);
}

static void write_row(spc__json *json, const spc_db_row *row)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "file", row->file);
    spc__json_int(json, "id", row->id);
    spc__json_text(json, "kind", row->kind);
    spc__json_text(json, "layer", row->layer);
    spc__json_text(json, "device", row->device);
    spc__json_text(json, "target", row->target);
    spc__json_int(json, "rows", (int64_t)row->rows);
    spc__json_int(json, "rows_in", (int64_t)row->rows_in);
    spc__json_real(json, "density", row->density);
    spc__json_int(json, "trials", row->trials);
    spc__json_int(json, "trials_ok", row->trials_ok);
    if (row->choice != NULL) {
        spc__json_text(json, "choice", row->choice);
        spc__json_real(json, "median_us", row->median_us);
        spc__json_real(json, "spread_us", row->spread_us);
    }
    spc__json_text(json, "provenance", row->provenance);
    spc__json_end_object(json);
}

/* Adds a row. 'db show' adds only the first row with its ID, as several files
 * may have that ID. */
static spc_status list_row(const spc_db_row *row, void *payload)
{
    struct listing *listing = payload;

    if (listing->only != 0 && (row->id != listing->only || listing->found > 0))
        return SPC_OK;
    listing->found++;
    if (listing->json != NULL)
        write_row(listing->json, row);
    else
        add_row(&listing->table, row, listing->kinds);
    return SPC_OK;
}

static const char *const titles[] = {
    ">id",       "layer",  "-device", ">rows",   ">--density",
    ">--trials", "choice", ">us",     "---file", NULL};

static const char *const kind_titles[] = {
    ">id",       "kind",   "what", "-device", ">rows", ">--density",
    ">--trials", "choice", ">us",  "---file", NULL};

/* Prints what can be read even if some records are damaged, and fails after
 * that. */
static spc_status list_all(spc_ctx *ctx, const cli *self, bool kinds)
{
    struct listing listing = {.kinds = kinds};
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    table_init(&listing.table, kinds ? kind_titles : titles);
    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    listing.json = self->globals.json ? &json : NULL;
    spc_status status =
        (kinds ? spc_db_each_record : spc_db_each)(ctx, list_row, &listing);
    spc__json_end_array(&json);
    bool listed = status == SPC_OK || (status == SPC_EDB && listing.found > 0);
    if (listed && !self->globals.json)
        table_print(&listing.table, stdout);
    if (status != SPC_OK)
        cli_fail_ctx(status, ctx);
    if (listed && self->globals.json) {
        spc_status printed = output_json(&text);
        status = status == SPC_OK ? printed : status;
    }
    spc__buf_release(&text);
    table_release(&listing.table);
    return status;
}

/* Prints one problem and its trials. */
static spc_status show(spc_ctx *ctx, const cli *self, int64_t id)
{
    struct listing listing = {.only = id};
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    trials found;
    spc_status status;

    trials_init(&found, self);
    table_init(&listing.table, titles);
    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    spc__json_array(&json, "problem");
    listing.json = self->globals.json ? &json : NULL;
    status = spc_db_each_record(ctx, list_row, &listing);
    spc__json_end_array(&json);
    /* another record is damaged */
    if (status == SPC_EDB && listing.found > 0)
        status = SPC_OK;
    if (status == SPC_OK && listing.found > 0)
        status = spc_db_each_trial(ctx, id, trials_collect, &found);
    if (status != SPC_OK) {
        cli_fail_ctx(status, ctx);
    } else if (listing.found == 0) {
        status = cli_fail(SPC_ENOTFOUND,
                          "the database has no problem %lld: 'spctune db ls' lists its problems",
                          (long long)id);
    } else {
        trials_sort(&found);
        trials_json(&json, "trials", &found);
        spc__json_end_object(&json);
        if (self->globals.json) {
            status = output_json(&text);
        } else {
            table_print(&listing.table, stdout);
            putchar('\n');
            trials_print(&found, 0);
        }
    }
    spc__buf_release(&text);
    table_release(&listing.table);
    trials_release(&found);
    return status;
}

/* ---- verify -------------------------------------------------------------- */

static const char *const fault_titles[] = {"kind", ">id", "reason", "file",
                                           NULL};

/* Counts and lists a fault. Faults of tables are counted separately, as they
 * belong to no record. */
static spc_status list_fault(const spc_db_fault *fault, void *payload)
{
    struct listing *listing = payload;
    table *t = &listing->table;

    if (strcmp(fault->kind, "table") == 0)
        listing->tables++;
    else
        listing->found++;
    table_cell(t, "%s", fault->kind);
    if (fault->id != 0)
        table_cell(t, "%lld", (long long)fault->id);
    else
        table_blank(t);
    table_cell(t, "%s", fault->reason);
    table_cell(t, "%s", fault->file);
    if (listing->json == NULL)
        return SPC_OK;
    spc__json_object(listing->json, NULL);
    spc__json_text(listing->json, "kind", fault->kind);
    spc__json_int(listing->json, "id", fault->id);
    spc__json_text(listing->json, "reason", fault->reason);
    spc__json_text(listing->json, "file", fault->file);
    spc__json_end_object(listing->json);
    return SPC_OK;
}

/* Prints the faults. A fault of a table is reported first: with wrong tables,
 * faults of records mean little. */
static spc_status print_faults(struct listing *listing, spc__json *json,
                               spc__buf *text, int64_t checked)
{
    spc_status status = SPC_OK;

    spc__json_end_array(json);
    spc__json_int(json, "checked", checked);
    spc__json_end_object(json);
    if (listing->json != NULL)
        status = output_json(text);
    else if (listing->found + listing->tables > 0)
        table_print(&listing->table, stdout);
    else
        printf("%s, all as they were stored\n", spc__count(checked, "record"));
    if (status == SPC_OK && listing->tables > 0)
        status =
            cli_fail(SPC_EDB, "the tables differ from those of this version: "
                              "restore a copy, or export the intact records");
    else if (status == SPC_OK && listing->found > 0)
        status = cli_fail(SPC_EDB,
                          "%d of %s cannot be used: tune their "
                          "layers again, or restore a copy",
                          listing->found, spc__count(checked, "record"));
    return status;
}

/* Checks every record, and fails if one cannot be used. */
static spc_status verify(spc_ctx *ctx, const cli *self)
{
    struct listing listing = {0};
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    int64_t checked = 0;

    table_init(&listing.table, fault_titles);
    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    spc__json_array(&json, "faults");
    listing.json = self->globals.json ? &json : NULL;
    spc_status status = spc_db_verify(&checked, ctx, list_fault, &listing);
    if (status != SPC_OK)
        cli_fail_ctx(status, ctx);
    else
        status = print_faults(&listing, &json, &text, checked);
    spc__buf_release(&text);
    table_release(&listing.table);
    return status;
}

/* ---- the command --------------------------------------------------------- */

void cli_database_file(spc__buf *out, const cli *self)
{
    const char *named = self->globals.database != NULL ? self->globals.database
                                                       : getenv("SPC_DATABASE");
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (named != NULL)
        spc__buf_puts(out, named);
    /* The XDG specification: a path that is not absolute is to be ignored. */
    else if (cache != NULL && cache[0] == '/')
        spc__buf_printf(out, "%s/spctune/spctune.db", cache);
    else if (home != NULL && home[0] != '\0')
        spc__buf_printf(out, "%s/.cache/spctune/spctune.db", home);
}

bool cli_has_database(const cli *self)
{
    spc__buf file = SPC__BUF_INIT;

    cli_database_file(&file, self);
    bool has = file.length > 0;
    spc__buf_release(&file);
    return has;
}

spc_status cli_database_there(const cli *self, const char *file)
{
    bool layered = self->globals.layer_files.count > 0;
    struct stat facts;

    if (file[0] == '\0' && !layered)
        return cli_fail(
            SPC_ENOTFOUND,
            "no database is given: --database FILE or SPC_DATABASE names one");
    if (file[0] != '\0' && stat(file, &facts) != 0)
        return cli_fail(errno == ENOENT ? SPC_ENOTFOUND : SPC_EIO,
                        "there is no database '%s': %s", file, strerror(errno));
    /* SQLite would take an empty file for a new database, and find nothing in
     * it. */
    if (file[0] != '\0' && S_ISREG(facts.st_mode) && facts.st_size == 0)
        return cli_fail(SPC_ENOTFOUND,
                        "there is no database '%s': the file is empty", file);
    return SPC_OK;
}

int64_t db_read_id(const char *text)
{
    int64_t id;

    return spc__scan_integer(&id, spc__span_of(text), 1, INT64_MAX) ? id : 0;
}

/* ---- verbs --------------------------------------------------------------- */

static spc_status run_ls(spc_ctx *ctx, cli *self, const db_args *args,
                         const char *const *words)
{
    (void)words;
    return list_all(ctx, self, args->all);
}

static spc_status run_show(spc_ctx *ctx, cli *self, const db_args *args,
                           const char *const *words)
{
    int64_t id = db_read_id(words[0]);

    (void)args;
    return id != 0 ? show(ctx, self, id)
                   : cli_fail(SPC_EINVAL,
                              "'%s' is not an ID of a problem: 'spctune db ls' "
                              "lists them",
                              words[0]);
}

static spc_status run_verify(spc_ctx *ctx, cli *self, const db_args *args,
                             const char *const *words)
{
    (void)args, (void)words;
    return verify(ctx, self);
}

static const db_verb verbs[] = {
    {"ls", "[--all]", 0, 0, "all", false, run_ls},
    {"show", "ID", 1, 1, "", false, run_show},
    {"verify", "[--key FILE]", 0, 0, "", false, run_verify},
    {"export", "[-o FILE] [--code|--choices]", 0, 0, "output choices code",
     false, db_export},
    {"import", "FILE...", 1, 999, "", true, db_import},
    {"merge", "FILE...", 1, 999, "", true, db_merge},
    {"diff", "FILE", 1, 1, "", false, db_diff},
    {"prune", "[--losers] [--stale] [--days N]", 0, 0, "losers stale days",
     false, db_prune},
    {"release", "", 0, 0, "", false, db_release},
    {"pin", "ID [--choice 'TEMPLATE CONFIG']", 1, 1, "choice", false, db_pin},
    {"pack", "[--whole] FILE.db", 1, 1, "whole", false, db_pack},
};

enum { VERBS = sizeof(verbs) / sizeof(*verbs) };

static const db_verb *find_verb(const char *name)
{
    for (int i = 0; i < VERBS; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

static const char *verb_name(int i)
{
    return i < VERBS ? verbs[i].name : NULL;
}

/* Reports that `word` was given instead of a verb; NULL: there was no word. */
static spc_status fail_words(const db_verb *verb, const char *word)
{
    spc__buf all = SPC__BUF_INIT;

    if (verb != NULL)
        return cli_fail(SPC_EINVAL, "usage: spctune db %s%s%s", verb->name,
                        verb->operands[0] != '\0' ? " " : "", verb->operands);
    for (int i = 0; i < VERBS; i++)
        spc__buf_printf(&all, "%s%s", i > 0 ? "|" : "", verbs[i].name);
    spc_status status =
        word != NULL ? cli_unknown("word after db", word, spc__buf_text(&all))
                     : cli_fail(SPC_EINVAL, "usage: spctune db %s ...",
                                spc__buf_text(&all));
    spc__buf_release(&all);
    return status;
}

/*
 * Only layers may be signed, so a signed database is opened as the uppermost
 * layer.
 */
static spc_status open_layer(spc_ctx **out, cli *self, const char *file)
{
    /* The end of the function restores these options, as later messages quote
     * the user's own words. */
    cli_globals before = self->globals;
    cli_list all = {NULL, 0};
    spc_status status = file[0] != '\0' ? cli_append(&all, file) : SPC_OK;

    for (int i = 0; i < before.layer_files.count && status == SPC_OK; i++)
        status = cli_append(&all, before.layer_files.at[i]);
    self->globals.database = "";
    self->globals.layer_files = all;
    if (status == SPC_OK)
        status = cli_open(out, self);
    self->globals = before;
    free(all.at);
    return status;
}

/* Opens the database and runs the verb. Only verbs that create the file may run
 * without one. */
static spc_status run_on(cli *self, const db_verb *verb, const db_args *args)
{
    const char *named = self->globals.database;
    spc__buf file = SPC__BUF_INIT;
    spc_ctx *ctx = NULL;

    cli_database_file(&file, self);
    spc_status status =
        verb->creates ? SPC_OK : cli_database_there(self, spc__buf_text(&file));
    if (status != SPC_OK)
        goto done;
    /*
     * A named database must open. Its content does not depend on the device, so
     * any device will do.
     */
    self->globals.database = spc__buf_text(&file);
    if (self->globals.device == NULL)
        self->globals.device = "cpu";
    status = self->globals.key != NULL
                 ? open_layer(&ctx, self, spc__buf_text(&file))
                 : cli_open(&ctx, self);
    if (status == SPC_OK)
        status = verb->run(ctx, self, args, self->operands.at + 1);
done:
    spc_ctx_free(ctx);
    self->globals.database = named;
    spc__buf_release(&file);
    return status;
}

static spc_status command_db(cli *self, void *args)
{
    const cli_list *words = &self->operands;
    const db_verb *verb = words->count > 0 ? find_verb(words->at[0]) : NULL;
    char where[40];

    if (verb == NULL || words->count - 1 < verb->least ||
        words->count - 1 > verb->most)
        return fail_words(verb, words->count > 0 ? words->at[0] : NULL);
    snprintf(where, sizeof(where), "on db %s", verb->name);
    idle_say_but(self, where, verb->used);
    return run_on(self, verb, args);
}

const cli_command cli_db = {
    .name = "db",
    .operands = "ls | show ID | verify | export | import FILE | ...",
    .verb = verb_name,
    .summary = "look into databases, check them, join them, pack them",
    .more =
        "'db ls' lists every problem that was measured: its layer, device, "
        "number of\nrows (in->out where they differ) and density, how many "
        "trials were right, and\nthe choice. 'db show ID' lists the trials "
        "of one; if several files have that\nID, of the first that 'db ls' "
        "lists. 'db verify' compares every record with its\ndigest and "
        "lists those that differ or are set aside.\n"
        "'db export' prints the records as a sorted table; 'db "
        "import FILE...'\nreads such text, 'db merge FILE...' other "
        "databases: the newer of two records\nis kept, in any order of the "
        "files. 'db diff FILE' shows the differences.\n"
        "'db pack NAME.db' makes the files to ship: choices, a file with the "
        "code of each\ntarget, and NAME.manifest, which minisign may sign; "
        "'db verify --key FILE' checks\nit. 'db prune' removes unneeded "
        "records, 'db release' restores set-aside records\nthat match their "
        "digest, 'db pin ID --choice TRIAL' chooses by hand.",
    .options = options,
    .args_bytes = sizeof(db_args),
    .run = command_db,
};
