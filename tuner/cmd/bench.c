/* bench.c - spctune bench: times plans, and says how far from the floor. */
#include "layers.h"
#include "output.h"
#include "suites.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct args {
    cli_list scenes;
    const char *suite;
    const char *folder;
    uint64_t seed;
};

#define AT(member) offsetof(struct args, member)

static const cli_option options[] = {
    {'s', "scene", "SPEC", CLI_LIST, AT(scenes),
     "a scene to run on (may be repeated)"},
    {0, "suite", "NAME", CLI_TEXT, AT(suite),
     "a built-in table of layers and scenes: peers or quick"},
    {0, "scenes", "DIR", CLI_TEXT, AT(folder),
     "where the suite's scene files are; default: this folder"},
    {0, "seed", "N", CLI_SEED, AT(seed), "of weights, inputs and row order"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

static void defaults(void *to)
{
    struct args *args = to;

    args->seed = 1;
    args->folder = ".";
}

/* ---- one row ------------------------------------------------------------- */

/* What is measured, and with what it is compared. */
struct row {
    const spc_conv *layer;
    const char *layer_text;
    const spc_scene *scene;
    const suite_row *suite; /* NULL: the user's own */
};

static const char *const plain_titles[] = {
    "scene",     "layer",    ">warm us", ">+-",       ">cold us",
    ">floor us", ">x floor", ">map us",  ">order us", ">error",
    "plan",      "",         NULL};
static const char *const suite_titles[] = {
    "scene",     "layer",    ">warm us",  ">+-",     ">cold us",
    ">floor us", ">x floor", ">reach us", ">aim us", ">peer us",
    ">x peer",   ">error",   "plan",      "",        NULL};

/* The share of `whole` that `part` is; empty without a whole. */
static void add_ratio(table *t, double part, double whole)
{
    if (part > 0 && whole > 0)
        table_cell(t, "%.2f", part / whole);
    else
        table_blank(t);
}

static double warm_of(const struct row *row, const spc_bench_result *result)
{
    return row->suite != NULL && row->suite->indexing ? result->map_us
                                                      : result->warm_us;
}

static void add_result(table *t, const struct row *row,
                       const spc_bench_result *result)
{
    bool indexing = row->suite != NULL && row->suite->indexing;
    double warm = warm_of(row, result);
    double floor = indexing ? 0 : result->floor_us;

    table_cell(t, "%s", spc_scene_name(row->scene));
    table_cell(t, "%s%s", indexing ? "pack+sort+map+order of " : "",
               row->layer_text);
    table_us(t, warm);
    table_us(t, indexing ? result->map_spread_us : result->warm_spread_us);
    table_us(t, indexing ? 0 : result->cold_us);
    table_us(t, floor);
    add_ratio(t, warm, floor);
    if (row->suite == NULL) {
        table_us(t, result->index_us);
        table_us(t, result->order_us);
    } else {
        table_us(t, row->suite->reach_us);
        table_us(t, row->suite->aim_us);
        table_us(t, row->suite->peer_us);
        add_ratio(t, warm, row->suite->peer_us);
    }
    table_cell(t, "%.2g", result->error);
    table_cell(t, "%s", result->plan);
    table_cell(t, "%s", origin_name(result->origin));
}

/* What nobody measured is no number: null. */
static double known(double us)
{
    return us > 0 ? us : NAN;
}

static void write_result(spc__json *json, const struct row *row,
                         const spc_bench_result *result)
{
    const struct {
        const char *name;
        double value;
    } figures[] = {
        {"warm_us", result->warm_us},
        {"warm_spread_us", result->warm_spread_us},
        {"cold_us", result->cold_us},
        {"cold_spread_us", result->cold_spread_us},
        {"index_us", result->index_us},
        {"index_spread_us", result->index_spread_us},
        {"order_us", result->order_us},
        {"map_us", result->map_us},
        {"map_spread_us", result->map_spread_us},
        {"floor_us", known(result->floor_us)},
        {"flops", result->flops},
        {"gathered_bytes", result->gathered_bytes},
        {"compulsory_bytes", result->compulsory_bytes},
        {"largest_error", result->error},
    };

    spc__json_object(json, NULL);
    spc__json_text(json, "scene", spc_scene_name(row->scene));
    spc__json_text(json, "layer", row->layer_text);
    spc__json_int(json, "voxels", spc_scene_rows(row->scene));
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        spc__json_real(json, figures[i].name, figures[i].value);
    spc__json_int(json, "samples", result->samples);
    spc__json_text(json, "origin", origin_name(result->origin));
    spc__json_text(json, "plan", result->plan);
    if (row->suite != NULL) {
        spc__json_bool(json, "indexing", row->suite->indexing);
        spc__json_real(json, "peer_us", known(row->suite->peer_us));
        spc__json_real(json, "reach_us", known(row->suite->reach_us));
        spc__json_real(json, "aim_us", known(row->suite->aim_us));
    }
    spc__json_end_object(json);
}

static spc_status measure(spc_ctx *ctx, const struct row *row, uint64_t seed,
                          table *t, spc__json *json)
{
    spc_bench_result result;
    const char *scene = spc_scene_name(row->scene);
    spc_status status = spc_bench(ctx, row->layer, row->scene, seed, &result);

    if (status == SPC_EINTERRUPTED) /* which is told once, at the end */
        return status;
    if (status != SPC_OK) {
        cli_fail(status, "%s on %s: %s", row->layer_text, scene,
                 spc_ctx_error(ctx));
        if (json != NULL)
            job_write_failure(json, row->layer_text, scene);
        return status;
    }
    if (json != NULL)
        write_result(json, row, &result);
    else
        add_result(t, row, &result);
    return SPC_OK;
}

/* ---- layers and scenes of the command line ------------------------------- */

static spc_status bench_layer(cli_job *job, const spc_conv *layer,
                              const char *text)
{
    const struct args *args = job->args;
    spc_status first = SPC_OK;
    table t;

    table_init(&t, plain_titles);
    for (int i = 0; i < job->scenes.count && !*cli_cancel_flag(); i++) {
        struct row row = {layer, text, job->scenes.at[i], NULL};
        spc_status status = measure(job->ctx, &row, args->seed, &t, job->json);
        if (first == SPC_OK)
            first = status;
    }
    if (t.rows > 0)
        table_print(&t, stdout);
    table_release(&t);
    if (*cli_cancel_flag())
        return cli_fail(SPC_EINTERRUPTED, "interrupted");
    return first;
}

/* ---- suites -------------------------------------------------------------- */

/* One suite at work: consecutive rows mostly share their scene. */
struct show {
    cli *self;
    const struct args *args;
    spc_ctx *ctx;
    spc_scene *scene;
    const char *loaded; /* the row's scene that `scene` is */
    table table;
    spc__json *json;
    int skipped;
};

static spc_status load(struct show *show, const char *spec)
{
    char path[1024];
    spc_error error = {0};
    bool is_file = strncmp(spec, "gen:", 4) != 0;

    if (show->loaded != NULL && strcmp(show->loaded, spec) == 0)
        return show->scene != NULL ? SPC_OK : SPC_ENOTFOUND;
    spc_scene_free(show->scene);
    show->scene = NULL;
    show->loaded = spec;
    snprintf(path, sizeof(path), "%s%s%s", is_file ? show->args->folder : "",
             is_file ? "/" : "", spec);
    spc_status status = load_scene(&show->scene, path, &error);
    if (status == SPC_OK || status == SPC_EINTERRUPTED)
        return status;
    return cli_fail(error.status, "%s%s", error.text,
                    is_file ? " (--scenes DIR says where it is)" : "");
}

static spc_status show_row(struct show *show, const suite_row *from)
{
    spc_conv layer;
    spc_error error = {0};
    spc_status status = load(show, from->scene);

    if (status == SPC_ENOTFOUND) {
        show->skipped++; /* the others are worth having without it */
        cli_say(show->self, "spctune: skipped: %s on %s", from->layer,
                from->scene);
        return SPC_OK;
    }
    if (status != SPC_OK) {
        if (show->json != NULL && status != SPC_EINTERRUPTED)
            job_write_failure(show->json, from->layer, from->scene);
        return status;
    }
    if (spc_conv_parse(&layer, from->layer, &error) != SPC_OK)
        return cli_fail(error.status, "%s", error.text);
    struct row row = {&layer, from->layer, show->scene, from};
    return measure(show->ctx, &row, show->args->seed, &show->table, show->json);
}

static spc_status show_rows(struct show *show, const cli_suite *suite)
{
    spc_status first = SPC_OK;

    for (const suite_row *row = suite->rows; row->scene != NULL; row++) {
        spc_status status = show_row(show, row);
        if (*cli_cancel_flag())
            return cli_fail(SPC_EINTERRUPTED, "interrupted");
        if (first == SPC_OK)
            first = status;
    }
    return first;
}

static spc_status run_suite(cli *self, const struct args *args,
                            const cli_suite *suite)
{
    struct show show = {.self = self, .args = args};
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    spc_device_info device;
    spc_status status;

    if ((status = cli_open(&show.ctx, self)) != SPC_OK)
        return status;
    table_init(&show.table, suite_titles);
    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    show.json = self->globals.json ? &json : NULL;
    spc_ctx_device(show.ctx, &device);
    if (!self->globals.json)
        printf("suite %s: %s; %s\n", suite->name, suite->about, device.name);
    status = show_rows(&show, suite);
    spc__json_end_array(&json);
    if (self->globals.json) {
        spc_status printed = output_json(&text);
        status = status != SPC_OK ? status : printed;
    } else if (show.table.rows > 0) {
        table_print(&show.table, stdout);
    }
    if (show.skipped > 0 && !self->globals.json)
        printf("%d rows skipped: their scene files are not in '%s' (--scenes "
               "DIR)\n",
               show.skipped, args->folder);
    spc__buf_release(&text);
    table_release(&show.table);
    spc_scene_free(show.scene);
    spc_ctx_free(show.ctx);
    return status;
}

static spc_status run(cli *self, void *to)
{
    const struct args *args = to;

    if (args->suite == NULL)
        return job_run(self, to, &args->scenes, bench_layer);
    const cli_suite *suite = suite_find(args->suite);
    if (suite == NULL)
        return cli_fail(SPC_EINVAL, "there is no suite '%s': %s are there",
                        args->suite, suite_names());
    if (self->operands.count > 0 || args->scenes.count > 0)
        return cli_fail(SPC_EINVAL, "--suite brings its own layers and "
                                    "scenes: leave out yours");
    return run_suite(self, args, suite);
}

const cli_command cli_bench = {
    .name = "bench",
    .operands = "LAYER... --scene SPEC... | --suite NAME",
    .summary = "time layers as a program would run them",
    .more = "Makes the plan that a program would get, holds its result "
            "against the oracle, and\ntimes the convolution with its map "
            "built (warm and with a flushed cache), the\nmap (pack, sort, "
            "search) and its row order. The floor is the least time that\nthe "
            "device could need for the same work (spctune devices --measure); "
            "the ratio\nto it is the score.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = run,
    .defaults = defaults,
};
