/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - spctune net: networks in the database. */
#include "command/network/net.h"

#include "base/plural.h"
#include "base/printable.h"
#include "command/cli/idle.h"
#include "command/cli/output.h"
#include "command/database.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct args {
    network_args net;
    const char *name;
    bool replace;
    cli_list targets;
};

#define AT(member) offsetof(struct args, member)
#define AT_NET(member) offsetof(struct args, net.member)

static const cli_option options[] = {
    {0, "name", "NAME", CLI_TEXT, AT(name),
     "add: the name of the stored network"},
    {0, "replace", NULL, CLI_FLAG, AT(replace),
     "add: replace one of this name"},
    {'w', "weights", "FILE", CLI_LIST, AT_NET(weights),
     "add: .safetensors, .pth, .npz or .npy (may be repeated)"},
    {0, "seed", "N", CLI_SEED, AT_NET(seed),
     "add: draw the weights that no file has, by this seed from 1 on"},
    {0, "from", "ENGINE", CLI_TEXT, AT_NET(from),
     "add: the engine whose layout the weights have, as for spctune weights; "
     "of an ONNX file spconv2, or spconv1 where kernels of one offset are "
     "[cout][cin]"},
    {0, "axes", "AXES", CLI_TEXT, AT_NET(axes),
     "add: our names of that engine's axes: xyz, zyx"},
    {0, "prefix", "TEXT", CLI_TEXT, AT_NET(prefix),
     "add: of the names of all arrays"},
    {0, "like", "FILE.lua", CLI_TEXT, AT_NET(like),
     "add: FILE is weights, of a network like this one, with widths and "
     "numbers of blocks by the weights, and the grid of --voxel and --range"},
    {0, "voxel", "X,Y,Z", CLI_TEXT, AT_NET(voxel),
     "add: of an ONNX file, or with --like: the size of its voxels"},
    {0, "range", "LOW,HIGH", CLI_TEXT, AT_NET(range),
     "add: and X,Y,Z of both corners of its grid"},
    {0, "dtype", "f16|bf16|f32", CLI_WORD, AT_NET(dtype),
     "add: of features and weights: f16 (default), bf16 or f32"},
    {0, "int8", NULL, CLI_FLAG, AT_NET(int8),
     "add: convolutions on i8, by the ranges that an ONNX file states, or "
     "else those that the scenes show in f16"},
    {0, "points", "FILE", CLI_LIST, AT_NET(points),
     "add --int8: points instead of scenes, as for spctune run"},
    {'s', "scene", "SPEC", CLI_LIST, AT_NET(scenes),
     "first, build: the scene; add --int8: one of those that show the ranges"},
    {0, "capacity", "N", CLI_ROWS, AT_NET(capacity),
     "first, build: most voxels of a scene; default: those of this one"},
    {0, "growth", "X", CLI_REAL, AT_NET(growth),
     "first, build: room of levels that may have more voxels, times the "
     "capacity; default 2, of few voxels as many as there can be"},
    {'t', "target", "TARGET", CLI_LIST, AT(targets),
     "build: what to compile for, such as sm_87 (may be repeated)"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

/* ---- the database -------------------------------------------------------- */

/* The content of a database does not depend on the device, so any device will
 * do. */
static spc_status open_any(spc_ctx **out, cli *self)
{
    const char *device = self->globals.device;
    spc_status status;

    if (device == NULL)
        self->globals.device = "cpu";
    /* Without this flag a database that cannot be opened would only cause a
     * warning. */
    self->needs_database = true;
    status = cli_open(out, self);
    self->globals.device = device;
    return status;
}

/* Runs `work` on an existing database. Commands that read do not create one. */
static spc_status look(cli *self, void *to,
                       spc_status (*work)(spc_ctx *ctx, cli *self, void *to))
{
    spc__buf file = SPC__BUF_INIT;
    spc_ctx *ctx = NULL;
    spc_status status;

    cli_database_file(&file, self);
    status = cli_database_there(self, spc__buf_text(&file));
    if (status == SPC_OK && (status = open_any(&ctx, self)) == SPC_OK)
        status = work(ctx, self, to);
    spc_ctx_free(ctx);
    spc__buf_release(&file);
    return status;
}

/* ---- add ----------------------------------------------------------------- */

/*
 * Weights come from files or, with a seed, are random. Without files and seed
 * the network is refused, so that no network is stored without its weights by
 * mistake.
 */
static spc_status read_network(spc_net **out, const cli *self,
                               const struct args *args)
{
    spc_error error = {0};
    spc_dtype dtype = SPC_F16;
    spc_net_param p;
    spc_status status = network_dtype(&dtype, args->net.dtype);

    if (status != SPC_OK ||
        (status = network_read(out, args->net.int8 ? NULL : self, &args->net,
                               dtype)) != SPC_OK)
        return status;
    if (!args->net.int8) /* the second pass reads it again */
        network_say_notes(self, args->net.file, *out);
    if (args->net.seed > 0)
        status = spc_net_init_params(*out, args->net.seed, &error);
    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    for (int i = 0; spc_net_param_at(&p, *out, i) == SPC_OK; i++)
        if (p.values == NULL)
            return cli_fail(SPC_EINVAL,
                            "layer '%s' has no weights: --weights FILE has "
                            "them, or --seed N draws them",
                            p.layer);
    return SPC_OK;
}

/* Stores the network, and reports its size. */
static spc_status store(cli *self, spc_ctx *ctx, const spc_net *net,
                        const struct args *args)
{
    spc_net_info info;
    spc_status status =
        spc_net_store(ctx, net, args->name, args->net.file, args->replace);

    if (status != SPC_OK)
        return cli_fail_ctx(status, ctx);
    spc_net_describe(&info, net);
    cli_say(self, "%s: stored %s and %s of weights", args->name,
            spc__count(info.layers, "layer"), spc__count(info.params, "array"));
    return SPC_OK;
}

/* The same for a network with int8 layers; some layers may stay in f16. */
static spc_status store_whole(cli *self, spc_ctx *ctx, const spc_net *net,
                              const struct args *args)
{
    spc_net_info info;

    spc_net_describe(&info, net);
    cli_say(self, "%s: %d of %s on i8", args->name, network_whole_layers(net),
            spc__count(info.layers, "layer"));
    return store(self, ctx, net, args);
}

/* If the file states no ranges, they are found by running the network. */
static spc_status store_calibrated(cli *self, const struct args *args)
{
    network n;
    spc_status status = network_open(&n, self, &args->net);

    if (status == SPC_OK)
        status = store_whole(self, n.ctx, n.net, args);
    network_close(&n);
    return status;
}

/* Stores a network in int8: with the file's own ranges if the user gives no
 * scene, otherwise with ranges measured on the scenes. */
static spc_status store_quantised(cli *self, const struct args *args)
{
    bool has_scene = args->net.scenes.count > 0 || args->net.points.count > 0;
    spc_ctx *ctx = NULL;
    spc_net *stated = NULL;
    spc_status status =
        has_scene ? SPC_OK : network_read_stated(&stated, &args->net);

    if (status == SPC_OK && stated == NULL)
        return store_calibrated(self, args);
    if (status == SPC_OK && (status = open_any(&ctx, self)) == SPC_OK)
        status = store_whole(self, ctx, stated, args);
    spc_ctx_free(ctx);
    spc_net_free(stated);
    return status;
}

/* The file is read before a device or a database is opened: its mistakes are
 * the most frequent. */
static spc_status add(cli *self, const struct args *args)
{
    spc_net *net = NULL;
    spc_ctx *ctx = NULL;
    spc_status status;

    if (args->name == NULL)
        return cli_fail(SPC_EINVAL,
                        "--name NAME is missing: what '%s' will be "
                        "called",
                        args->net.file);
    if ((status = read_network(&net, self, args)) == SPC_OK && args->net.int8)
        status = store_quantised(self, args);
    else if (status == SPC_OK && (status = open_any(&ctx, self)) == SPC_OK)
        status = store(self, ctx, net, args);
    spc_ctx_free(ctx);
    spc_net_free(net);
    return status;
}

/* ---- ls ------------------------------------------------------------------ */

typedef struct listing {
    table table;
    spc__json *json; /* NULL: print a table */
} listing;

static const char *const titles[] = {"name",    ">layers", ">weights", "-added",
                                     "-source", "state",   "--file",   NULL};

/* Counts the lines of the graph that begin with the word. */
static int count_lines(const char *graph, const char *word)
{
    size_t length = strlen(word);
    int count = 0;

    for (const char *at = graph; at != NULL;
         at = strchr(at, '\n') != NULL ? strchr(at, '\n') + 1 : NULL)
        count += strncmp(at, word, length) == 0 && at[length] == '\t';
    return count;
}

/* In UTC, so that two machines print the same date. */
static void date_of(char out[16], int64_t unix_seconds)
{
    time_t at = (time_t)unix_seconds;
    struct tm parts;

    if (gmtime_r(&at, &parts) == NULL ||
        strftime(out, 16, "%Y-%m-%d", &parts) == 0)
        out[0] = '\0';
}

static spc_status add_row(const spc_net_row *row, listing *to)
{
    char date[16];

    date_of(date, row->unix_seconds);
    table_cell(&to->table, "%s", row->name);
    table_cell(&to->table, "%d", count_lines(row->graph, "conv"));
    table_cell(&to->table, "%.1f MB", (double)row->weights_bytes * 1e-6);
    table_cell(&to->table, "%s", date);
    table_cell(&to->table, "%s", row->source);
    table_cell(&to->table, "%s", row->fault != NULL ? row->fault : "good");
    table_cell(&to->table, "%s", row->file);
    return SPC_OK;
}

static spc_status write_row(const spc_net_row *row, spc__json *json)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "name", row->name);
    spc__json_text(json, "file", row->file);
    spc__json_text(json, "source", row->source);
    spc__json_text(json, "version", row->version);
    spc__json_int(json, "layers", count_lines(row->graph, "conv"));
    spc__json_int(json, "weights_bytes", row->weights_bytes);
    spc__json_int(json, "unix_seconds", row->unix_seconds);
    if (row->fault != NULL)
        spc__json_text(json, "fault", row->fault);
    spc__json_end_object(json);
    return SPC_OK;
}

static spc_status list_row(const spc_net_row *row, void *payload)
{
    listing *to = payload;

    return to->json != NULL ? write_row(row, to->json) : add_row(row, to);
}

static spc_status list(spc_ctx *ctx, cli *self, void *to)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    listing l = {.json = self->globals.json ? &json : NULL};
    spc_status status;

    (void)to;
    table_init(&l.table, titles);
    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    status = spc_net_each(ctx, list_row, &l);
    spc__json_end_array(&json);
    if (status != SPC_OK)
        cli_fail_ctx(status, ctx);
    else if (self->globals.json)
        status = output_json(&text);
    else
        table_print(&l.table, stdout);
    spc__buf_release(&text);
    table_release(&l.table);
    return status;
}

/* ---- show ---------------------------------------------------------------- */

typedef struct showing {
    const char *name;
    bool as_json;
    bool found;
} showing;

/* Turns "conv<TAB>a<TAB>0..." into a row: the word, the name, the rest. */
static void add_line(table *t, char *line)
{
    const char *word = strsep(&line, "\t");
    const char *name = line != NULL ? strsep(&line, "\t") : "";

    for (char *at = line; at != NULL && *at != '\0'; at++)
        if (*at == '\t')
            *at = ' ';
    table_cell(t, "%s", word);
    table_cell(t, "%s", name);
    table_cell(t, "%s", line != NULL ? line : "");
}

/* Prints the stored graph as a table. */
static spc_status print_graph(const spc_net_row *row)
{
    static const char *const columns[] = {"node", "name", "is", NULL};
    char *copy = strdup(row->graph), *rest = copy;
    char date[16], heading[1024];
    table t;

    if (copy == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    date_of(date, row->unix_seconds);
    snprintf(heading, sizeof(heading),
             "%s: from '%s' by spctune %s on %s, %.1f MB of weights, %s",
             row->name, row->source, row->version, date,
             (double)row->weights_bytes * 1e-6,
             row->fault != NULL ? row->fault : "good");
    /* Names in a database of others may hold control characters. */
    spc__make_printable(heading);
    puts(heading);
    table_init(&t, columns);
    strsep(&rest, "\n"); /* skips the line with the format */
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        if (line[0] != '\0')
            add_line(&t, line);
    table_print(&t, stdout);
    table_release(&t);
    free(copy);
    return SPC_OK;
}

static spc_status print_object(const spc_net_row *row)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    spc__json_text(&json, "name", row->name);
    spc__json_text(&json, "file", row->file);
    spc__json_text(&json, "source", row->source);
    spc__json_text(&json, "graph", row->graph);
    if (row->fault != NULL)
        spc__json_text(&json, "fault", row->fault);
    spc__json_end_object(&json);
    return output_json(&text);
}

static spc_status show_row(const spc_net_row *row, void *payload)
{
    showing *s = payload;

    /* The first entry is from the uppermost file. A program gets this
     * network. */
    if (s->found || strcmp(row->name, s->name) != 0)
        return SPC_OK;
    s->found = true;
    return s->as_json ? print_object(row) : print_graph(row);
}

static spc_status show(spc_ctx *ctx, cli *self, void *to)
{
    showing s = {.name = to, .as_json = self->globals.json};
    spc_status status = spc_net_each(ctx, show_row, &s);

    if (status != SPC_OK)
        return cli_fail_ctx(status, ctx);
    return s.found ? SPC_OK
                   : cli_fail(SPC_ENOTFOUND,
                              "the database has no network '%s': 'spctune net "
                              "ls' lists its networks",
                              s.name);
}

static spc_status drop(spc_ctx *ctx, cli *self, void *to)
{
    spc_status status = spc_net_remove(ctx, to);

    (void)self;
    return status == SPC_OK ? status : cli_fail_ctx(status, ctx);
}

/* ---- the command --------------------------------------------------------- */

static spc_status run_first(cli *self, struct args *args)
{
    if (args->net.scenes.count != 1)
        return cli_fail(SPC_EINVAL, "net first takes one scene: --scene SPEC");
    args->net.seed = 1;
    return net_first(self, &args->net);
}

static spc_status run_build(cli *self, struct args *args)
{
    if (args->net.scenes.count != 1 || args->targets.count == 0)
        return cli_fail(SPC_EINVAL, "net build takes one scene and a target: "
                                    "--scene SPEC --target sm_87");
    for (int i = 0; i < args->targets.count; i++)
        if (strncmp(args->targets.at[i], "sm_", 3) != 0)
            return cli_fail(SPC_EINVAL,
                            "--target: '%s' is not a target, such as sm_87",
                            args->targets.at[i]);
    args->net.seed = 1;
    args->net.absent = true;
    /* Kernels that are not stored would be compiled for nothing. */
    self->needs_database = true;
    return net_build(self, &args->net, &args->targets);
}

/* Reports options that belong to other verbs. */
static void say_idle(const cli *self, const struct args *args, const char *verb)
{
    static const char of_add[] =
        "name replace weights seed from axes prefix like "
        "voxel range dtype int8";

    if (strcmp(verb, "first") == 0)
        idle_say_but(self, "on net first", "scene capacity growth");
    else if (strcmp(verb, "build") == 0)
        idle_say_but(self, "on net build", "scene capacity growth target");
    else if (strcmp(verb, "add") != 0)
        idle_say_but(self, "but on net add, net first and net build", "");
    else if (!args->net.int8)
        idle_say_but(self, "on net add without --int8", of_add);
    else
        idle_say(self, "on net add", "capacity growth target");
}

static spc_status command_net(cli *self, void *to)
{
    struct args *args = to;
    const cli_list *words = &self->operands;
    const char *verb = words->count > 0 ? words->at[0] : "";
    const char *what = words->count == 2 ? words->at[1] : NULL;

    args->net.file = what;
    say_idle(self, args, verb);
    if (words->count == 1 && strcmp(verb, "ls") == 0)
        return look(self, NULL, list);
    if (what != NULL && strcmp(verb, "add") == 0)
        return add(self, args);
    if (what != NULL && strcmp(verb, "show") == 0)
        return look(self, (void *)(uintptr_t)what, show);
    if (what != NULL && strcmp(verb, "rm") == 0)
        return look(self, (void *)(uintptr_t)what, drop);
    if (what != NULL && strcmp(verb, "first") == 0)
        return run_first(self, args);
    if (what != NULL && strcmp(verb, "build") == 0)
        return run_build(self, args);
    if (words->count > 0 && !cli_is_word(verb, "add|ls|show|rm|first|build"))
        return cli_unknown("word after net", verb,
                           "add|ls|show|rm|first|build");
    return cli_fail(SPC_EINVAL,
                    "usage: spctune net add FILE --name NAME | ls | "
                    "show NAME | rm NAME | first NAME --scene "
                    "SPEC | build NAME --scene SPEC --target sm_87");
}

const cli_command cli_net = {
    .name = "net",
    .operands = "add FILE | ls | show NAME | rm NAME | first NAME | build NAME",
    .summary = "networks in the database, with their weights",
    .more =
        "'net add' stores a network from a file, Lua or ONNX, with its weights "
        "in the database;\n'run', 'bench' and 'tune' then take --network NAME, "
        "and a program spc_net_open:\nneither needs the file. 'net show' lists "
        "its layers, 'net rm' removes it. 'net first'\nsays how long it takes "
        "from nothing to the first result, and where that time goes. "
        "'net build' compiles all\nkernels of a network for a GPU that need "
        "not "
        "be here.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = command_net,
};
