/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.c - spctune bench: times plans, and prints their distance from the
 * floor.
 */
#include "base/plural.h"
#include "command/bench/passes.h"
#include "command/bench/peers.h"
#include "command/bench/suites.h"
#include "command/cli/idle.h"
#include "command/cli/output.h"
#include "command/layers.h"
#include "command/network/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct args {
    cli_list scenes;
    const char *suite;
    const char *folder;
    const char *against;
    const char *pass;
    uint64_t seed;
    network_args net; /* options of --network */
    int runs;
    peers *peers; /* figures of --against; NULL: the option was not given */
};

#define AT(member) offsetof(struct args, member)
#define AT_NET(member) offsetof(struct args, net.member)

static const cli_option options[] = {
    {'s', "scene", "SPEC", CLI_LIST, AT(scenes),
     "a scene to run on (may be repeated)"},
    {0, "suite", "peers|deep|quick", CLI_WORD, AT(suite),
     "a built-in table of layers and scenes: peers, deep or quick"},
    {0, "scenes", "DIR", CLI_TEXT, AT(folder),
     "where the suite's scene files are; default: this folder"},
    {0, "against", "FILE", CLI_TEXT, AT(against),
     "figures of other engines, as in docs/peers: print the best one"},
    {0, "pass", "forward|dgrad|wgrad|all", CLI_WORD, AT(pass),
     "of training: forward, dgrad, wgrad, or all and the step that they are"},
    {0, "seed", "N", CLI_SEED, AT(seed), "of weights, inputs and row order"},
    NETWORK_OPTIONS(AT_NET),
    {0, "points", "FILE", CLI_LIST, AT_NET(points),
     "of a network: points instead of scenes, as for spctune run"},
    {0, "runs", "N", CLI_COUNT, AT(runs),
     "of a network on each scene; default 100"},
    {0, "check", NULL, CLI_FLAG, AT_NET(keep),
     "of a network: at last every scene's replay against the oracle"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

static void defaults(void *to)
{
    struct args *args = to;

    args->seed = 1;
    args->runs = 100;
}

static const char *folder_of(const struct args *args)
{
    return args->folder != NULL ? args->folder : ".";
}

/* ---- one row ------------------------------------------------------------- */

/* The layer, pass and scene of a measurement. */
struct row {
    const spc_conv *layer;
    const char *layer_text;
    const spc_scene *scene;
    bool map; /* measure the map instead of the layer */
};

/* The output, and the figures to compare with. */
struct sheet {
    spc_ctx *ctx;
    const struct args *args;
    table table;
    spc__json *json;    /* NULL: print the table */
    spc__buf unmatched; /* names of the rows without a figure of a peer */
    /* a floor comes from the device's class, not from this device */
    bool by_class;
};

static const char *const plain_titles[] = {
    "scene",       "layer",    ">warm us",     ">--+-",
    ">-floor us",  ">x floor", ">--cold us",   ">---floor us",
    ">---x floor", ">-map us", ">--layout us", ">--once us",
    ">---error",   "-plan",    "--origin",     NULL};
static const char *const against_titles[] = {
    "scene",       "layer",     ">warm us",   ">--+-",
    ">-floor us",  ">-x floor", ">--cold us", ">---floor us",
    ">---x floor", ">peer us",  ">x peer",    "-best peer",
    ">---error",   "--plan",    "--origin",   NULL};

static void sheet_init(struct sheet *sheet, spc_ctx *ctx,
                       const struct args *args, spc__json *json)
{
    *sheet = (struct sheet){.ctx = ctx, .args = args, .json = json};
    table_init(&sheet->table,
               args->peers != NULL ? against_titles : plain_titles);
}

static void sheet_release(struct sheet *sheet)
{
    table_release(&sheet->table);
    spc__buf_release(&sheet->unmatched);
}

/* The origin of the plan; empty for a step, which has several plans. */
static const char *origin_of(const spc_bench_result *result)
{
    return result->plan[0] != '\0' ? origin_name(result->match) : "";
}

/* Adds the ratio part / whole; empty if either is missing. */
static void add_ratio(table *t, double part, double whole)
{
    if (part > 0 && whole > 0)
        table_cell(t, "%.2f", part / whole);
    else
        table_blank(t);
}

/* A time, its floor, and their ratio. */
static void add_time(table *t, double us, double floor_us)
{
    table_us(t, us);
    table_us(t, floor_us);
    add_ratio(t, us, floor_us);
}

/* The best figure of other engines, and the time relative to it. */
static void add_peer(table *t, double us, const peer_figure *peer)
{
    table_us(t, peer != NULL ? peer->us : 0);
    add_ratio(t, us, peer != NULL ? peer->us : 0);
    if (peer == NULL)
        table_cell(t, "-");
    else
        table_cell(t, "%s%s%s%s", peer->engine, *peer->note ? " (" : "",
                   peer->note, *peer->note ? ")" : "");
}

/* Returns the median time of what the row measures. */
static double time_of(const struct row *row, const spc_bench_result *result)
{
    return row->map ? result->map_us : result->warm_us;
}

/* Adds the row of a layer or of its map. */
static void add_result(struct sheet *sheet, const struct row *row,
                       const spc_bench_result *result, const peer_figure *peer)
{
    table *t = &sheet->table;

    table_cell(t, "%s", spc_scene_name(row->scene));
    table_cell(t, "%s%s", row->map ? "pack+sort+map+order of " : "",
               row->layer_text);
    table_us(t, time_of(row, result));
    table_us(t, row->map ? result->map_spread_us : result->warm_spread_us);
    /* A map has no floor, and is not timed cold. */
    table_us(t, row->map ? 0 : result->warm_floor_us);
    add_ratio(t, result->warm_us, row->map ? 0 : result->warm_floor_us);
    add_time(t, row->map ? 0 : result->cold_us,
             row->map ? 0 : result->cold_floor_us);
    if (sheet->args->peers != NULL) {
        add_peer(t, time_of(row, result), peer);
    } else {
        table_us(t, result->index_us);
        table_us(t, result->layout_us);
        table_us(t, row->map ? 0 : result->warm_us + result->layout_us);
    }
    table_cell(t, "%.2g", result->error);
    table_cell(t, "%s", result->plan);
    table_cell(t, "%s%s", origin_of(result),
               result->is_shipped ? ", shipped" : "");
}

/* An unmeasured value is null. */
static double known(double us)
{
    return us > 0 ? us : NAN;
}

static double ratio(double us, double of)
{
    return us > 0 && of > 0 ? us / of : NAN;
}

static void write_peer(spc__json *json, double us, const peer_figure *peer)
{
    spc__json_real(json, "peer_us", peer != NULL ? peer->us : NAN);
    spc__json_real(json, "peer_ratio", ratio(us, peer != NULL ? peer->us : 0));
    spc__json_text(json, "peer", peer != NULL ? peer->engine : "");
    spc__json_text(json, "peer_note", peer != NULL ? peer->note : "");
}

/* The same as JSON, with all that was measured. */
static void write_result(struct sheet *sheet, const struct row *row,
                         const spc_bench_result *result,
                         const peer_figure *peer)
{
    spc__json *json = sheet->json;
    const struct {
        const char *name;
        double value;
    } figures[] = {
        {"warm_us", result->warm_us},
        {"warm_spread_us", result->warm_spread_us},
        {"warm_floor_us", known(result->warm_floor_us)},
        {"warm_ratio", ratio(result->warm_us, result->warm_floor_us)},
        {"cold_us", result->cold_us},
        {"cold_spread_us", result->cold_spread_us},
        {"cold_floor_us", known(result->cold_floor_us)},
        {"cold_ratio", ratio(result->cold_us, result->cold_floor_us)},
        {"index_us", result->index_us},
        {"index_spread_us", result->index_spread_us},
        {"layout_us", result->layout_us},
        {"once_us", result->warm_us + result->layout_us},
        {"map_us", result->map_us},
        {"map_spread_us", result->map_spread_us},
        {"flops", result->flops},
        {"gathered_bytes", result->gathered_bytes},
        {"compulsory_bytes", result->compulsory_bytes},
        {"largest_error", result->error},
    };

    spc__json_object(json, NULL);
    spc__json_text(json, "scene", spc_scene_name(row->scene));
    spc__json_text(json, "layer", row->layer_text);
    spc__json_text(json, "of", row->map ? "map" : "layer");
    spc__json_int(json, "voxels", spc_scene_rows(row->scene));
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        spc__json_real(json, figures[i].name, figures[i].value);
    spc__json_text(json, "warm_floor_by", result->warm_floor_by);
    spc__json_text(json, "cold_floor_by", result->cold_floor_by);
    spc__json_bool(json, "floor_measured", result->floor_measured);
    spc__json_int(json, "samples", result->samples);
    spc__json_text(json, "origin", origin_of(result));
    spc__json_bool(json, "shipped", result->is_shipped);
    spc__json_text(json, "plan", result->plan);
    if (sheet->args->peers != NULL)
        write_peer(json, time_of(row, result), peer);
    spc__json_end_object(json);
}

/* A time below its floor is a measurement error. */
static spc_status check_floor(const struct row *row, const char *kind,
                              double us, double floor_us, const char *by)
{
    if (us >= floor_us)
        return SPC_OK;
    return cli_fail(SPC_EWRONG,
                    "%s on %s: %s, %.3g us, is below its floor of %.3g us "
                    "(%s): the floor or the measurement is wrong; 'spctune "
                    "devices --measure' measures the ceilings again",
                    row->layer_text, spc_scene_name(row->scene), kind, us,
                    floor_us, by);
}

/* Both are checked, so that both messages are printed. */
static spc_status check_floors(const struct row *row,
                               const spc_bench_result *result)
{
    spc_status warm = check_floor(row, "warm", result->warm_us,
                                  result->warm_floor_us, result->warm_floor_by);
    spc_status cold = check_floor(row, "cold", result->cold_us,
                                  result->cold_floor_us, result->cold_floor_by);

    return warm != SPC_OK ? warm : cold;
}

/* The best figure of the peers for this row, or NULL, which is noted for the
 * end. */
static const peer_figure *find_peer(struct sheet *sheet, const struct row *row)
{
    const char *scene = spc_scene_name(row->scene);
    const peer_figure *peer = NULL;

    if (sheet->args->peers == NULL)
        return NULL;
    peer = peers_best(sheet->args->peers, scene, row->layer, row->map);
    if (peer == NULL)
        spc__buf_printf(&sheet->unmatched, "no figure of a peer: %s%s on %s\n",
                        row->map ? "the map of " : "", row->layer_text, scene);
    return peer;
}

/* Adds up the times of a step's passes. */
static void add_step(spc_bench_result *step, const spc_bench_result *pass)
{
    /* The sum of medians: passes run one after the other, so their times add
     * up. */
    step->warm_us += pass->warm_us;
    step->warm_spread_us += pass->warm_spread_us;
    step->warm_floor_us += pass->warm_floor_us;
    step->cold_us += pass->cold_us;
    step->cold_spread_us += pass->cold_spread_us;
    step->cold_floor_us += pass->cold_floor_us;
    step->layout_us += pass->layout_us;
    step->flops += pass->flops;
    step->gathered_bytes += pass->gathered_bytes;
    step->compulsory_bytes += pass->compulsory_bytes;
    /* The same for all passes, which run on one device. */
    step->floor_measured = pass->floor_measured;
    if (pass->error > step->error)
        step->error = pass->error;
}

/* Measures one row and adds it to the sheet; with `step`, also to that sum. */
static spc_status measure(struct sheet *sheet, const struct row *row,
                          spc_bench_result *step)
{
    spc_bench_result result;
    const char *scene = spc_scene_name(row->scene);
    int64_t capacity = sheet->args->net.capacity;
    uint64_t seed = sheet->args->seed;
    spc_status status =
        capacity > 0
            ? spc_bench_capacity(&result, sheet->ctx, row->layer, row->scene,
                                 seed, capacity)
            : spc_bench(&result, sheet->ctx, row->layer, row->scene, seed);

    /* the end of the run reports the interrupt once */
    if (status == SPC_EINTERRUPTED)
        return status;
    if (status != SPC_OK) {
        cli_fail(status, "%s on %s: %s", row->layer_text, scene,
                 spc_ctx_error(sheet->ctx));
        if (sheet->json != NULL)
            job_write_failure(sheet->json, row->layer_text, scene);
        return status;
    }
    const peer_figure *peer = find_peer(sheet, row);
    sheet->by_class |= result.warm_floor_us > 0 && !result.floor_measured;
    if (sheet->json != NULL)
        write_result(sheet, row, &result, peer);
    else
        add_result(sheet, row, &result, peer);
    if (step != NULL)
        add_step(step, &result);
    return check_floors(row, &result);
}

/* Prints a row for all passes together, marked in its text. */
static void show_step(struct sheet *sheet, const struct row *row,
                      const spc_bench_result *step)
{
    char text[280];
    struct row whole = *row;
    peers *all = sheet->args->peers;
    const peer_figure *peer =
        all == NULL ? NULL
                    : peers_step(all, spc_scene_name(row->scene), row->layer);

    snprintf(text, sizeof(text), "step of %s", row->layer_text);
    whole.layer_text = text;
    if (sheet->json != NULL)
        write_result(sheet, &whole, step, peer);
    else
        add_result(sheet, &whole, step, peer);
}

/* Measures the requested passes on one scene. */
static spc_status measure_passes(struct sheet *sheet, const passes *list,
                                 const spc_scene *scene)
{
    spc_bench_result step = {.warm_floor_by = "", .cold_floor_by = ""};
    spc_status first = SPC_OK;

    /* A failing pass does not stop the others: their times are still of use. */
    for (int p = 0; p < list->count && !*cli_cancel_flag(); p++) {
        struct row row = {&list->at[p].layer, list->at[p].text, scene, false};
        spc_status status = measure(sheet, &row, &step);
        if (first == SPC_OK)
            first = status;
    }
    struct row row = {&list->at[0].layer, list->at[0].text, scene, false};
    /* The sum of a step would look too fast if a pass were missing. */
    if (first == SPC_OK && list->count > 1)
        show_step(sheet, &row, &step);
    return first;
}

/* Prints the table and its notes. A ratio to figures from another GPU would not
 * compare the engines. */
static void print_sheet(const struct sheet *sheet)
{
    peers *all = sheet->args->peers;
    spc_device_info device;

    if (sheet->table.rows > 0)
        table_print(&sheet->table, stdout);
    if (sheet->by_class)
        puts("floors are those of the device's class, from data sheets: "
             "'spctune devices --measure' measures its own");
    if (all == NULL)
        return;
    fputs(spc__buf_text(&sheet->unmatched), stdout);
    printf("peers: %s, %s; %d of their figures belong to no row here\n",
           peers_gpu(all), peers_date(all), peers_left(all));
    spc_ctx_device(&device, sheet->ctx);
    if (strcmp(device.name, peers_gpu(all)) != 0)
        printf("this is %s: the ratio does not compare the engines\n",
               device.name);
}

/* ---- layers and scenes of the command line ------------------------------- */

/* Measures one layer of the command line on every scene. A failure does not
 * stop the others. */
static spc_status bench_layer(cli_job *job, const spc_conv *layer,
                              const char *text)
{
    (void)text;
    const struct args *args = job->args;
    struct sheet sheet;
    passes list;
    spc_status first = passes_of(&list, layer, args->pass);

    if (first != SPC_OK)
        return first;
    sheet_init(&sheet, job->ctx, job->args, job->json);
    for (int i = 0; i < job->scenes.count && !*cli_cancel_flag(); i++) {
        spc_status status = measure_passes(&sheet, &list, job->scenes.at[i]);
        if (first == SPC_OK)
            first = status;
    }
    if (job->json == NULL)
        print_sheet(&sheet);
    sheet_release(&sheet);
    if (*cli_cancel_flag())
        return cli_fail(SPC_EINTERRUPTED, "interrupted");
    return first;
}

/* ---- suites -------------------------------------------------------------- */

/* A running suite: consecutive rows mostly share their scene. */
struct show {
    cli *self;
    struct sheet sheet;
    spc_scene *scene;
    const char *loaded; /* the name by which rows refer to `scene` */
    int skipped;
};

/* Loads the scene of a row, unless it is loaded. A missing file is an error for
 * each row that needs it. */
static spc_status load(struct show *show, const char *spec)
{
    char path[1024];
    spc_error error = {0};
    bool is_file = strncmp(spec, "gen:", 4) != 0;

    if (show->loaded != NULL && strcmp(show->loaded, spec) == 0)
        return show->scene != NULL ? SPC_OK : SPC_ENOTFOUND;
    spc_scene_free(show->scene);
    show->scene = NULL;
    /* Before loading: a scene that is missing is not looked for again. */
    show->loaded = spec;
    snprintf(path, sizeof(path), "%s%s%s",
             is_file ? folder_of(show->sheet.args) : "", is_file ? "/" : "",
             spec);
    spc_status status = load_scene(&show->scene, path, &error);
    scene_say_left_out(show->self, show->scene);
    if (status == SPC_OK || status == SPC_EINTERRUPTED)
        return status;
    return cli_fail(error.status, "%s%s", error.text,
                    is_file ? " (--scenes DIR names its folder)" : "");
}

/* Measures one row of a suite. A missing scene file skips it. */
static spc_status show_row(struct show *show, const suite_row *from)
{
    spc_conv layer;
    spc_error error = {0};
    spc_status status = load(show, from->scene);

    if (status == SPC_ENOTFOUND) {
        show->skipped++; /* continue, as the other rows are still useful */
        cli_say(show->self, "spctune: skipped: %s on %s", from->layer,
                from->scene);
        return SPC_OK;
    }
    if (status == SPC_EINTERRUPTED)
        return status;
    if (status == SPC_OK &&
        spc_conv_parse(&layer, from->layer, &error) != SPC_OK)
        status = cli_fail(error.status, "%s", error.text);
    if (status != SPC_OK) {
        if (show->sheet.json != NULL)
            job_write_failure(show->sheet.json, from->layer, from->scene);
        return status;
    }
    struct row row = {&layer, from->layer, show->scene, from->map};
    return measure(&show->sheet, &row, NULL);
}

/* A failing row reports its error; the others are still measured. */
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

static void print_suite(const struct show *show)
{
    print_sheet(&show->sheet);
    if (show->skipped > 0)
        printf("%s skipped: scene files that are not in '%s' (--scenes "
               "DIR)\n",
               spc__count(show->skipped, "row"), folder_of(show->sheet.args));
}

/* Opens one context for the whole suite, so that code is loaded once. */
static spc_status run_suite(cli *self, const struct args *args,
                            const cli_suite *suite)
{
    struct show show = {.self = self};
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    spc_ctx *ctx;
    spc_device_info device;
    spc_status status;

    if ((status = cli_open(&ctx, self)) != SPC_OK)
        return status;
    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    sheet_init(&show.sheet, ctx, args, self->globals.json ? &json : NULL);
    spc_ctx_device(&device, ctx);
    if (!self->globals.json)
        printf("suite %s: %s; %s\n", suite->name, suite->about, device.name);
    status = show_rows(&show, suite);
    spc__json_end_array(&json);
    if (self->globals.json) {
        spc_status printed = output_json(&text);
        status = status != SPC_OK ? status : printed;
    } else {
        print_suite(&show);
    }
    spc__buf_release(&text);
    sheet_release(&show.sheet);
    spc_scene_free(show.scene);
    spc_ctx_free(ctx);
    return status;
}

static spc_status bench_network(cli *self, struct args *args)
{
    if (self->operands.count > 0 || args->suite != NULL ||
        args->against != NULL)
        return cli_fail(SPC_EINVAL, "--network takes scenes, and neither "
                                    "layers, a suite nor figures of others");
    idle_say(self, "with --network", "scenes");
    args->net.scenes = args->scenes;
    args->net.seed = args->seed;
    return network_bench(self, &args->net, args->runs);
}

/* Decides which form of bench was asked for, and refuses options of the other
 * forms. */
static spc_status run_checked(cli *self, struct args *args)
{
    if (args->pass != NULL && (args->suite != NULL || args->net.file != NULL))
        return cli_fail(SPC_EINVAL,
                        "--pass applies to named layers: the rows of a --suite "
                        "have their passes, and a --network only runs forward");
    if (args->net.file != NULL)
        return bench_network(self, args);
    if (args->suite == NULL && args->folder != NULL)
        return cli_fail(SPC_EINVAL, "--scenes is the folder of a --suite's "
                                    "files: without a suite, use --scene");
    idle_say(self, "without --network",
             "weights from axes prefix voxel range "
             "dtype int8 growth points runs check");
    if (args->suite == NULL)
        return job_run(self, args, &args->scenes, bench_layer);
    const cli_suite *suite = suite_find(args->suite);
    if (suite == NULL)
        return cli_fail(SPC_EINVAL, "unknown suite '%s' (%s)", args->suite,
                        suite_names());
    if (self->operands.count > 0 || args->scenes.count > 0)
        return cli_fail(
            SPC_EINVAL,
            "--suite has its own layers and scenes: omit LAYER and --scene");
    return run_suite(self, args, suite);
}

static spc_status command_bench(cli *self, void *to)
{
    struct args *args = to;
    spc_status status = SPC_OK;

    if (args->against != NULL)
        status = peers_read(&args->peers, args->against);
    if (status == SPC_OK)
        status = run_checked(self, args);
    peers_free(args->peers);
    return status;
}

const cli_command cli_bench = {
    .name = "bench",
    .operands = "LAYER... --scene SPEC... | --suite NAME | --network FILE ...",
    .summary = "time layers as a program would run them",
    .more =
        "Makes the plan that a program would get, holds its result "
        "against the oracle before\nand after timing, and times the "
        "convolution with its map built (warm and with flushed\ncaches), "
        "the map (pack, sort, search) and its row order. The floor is the "
        "least time\nthat the device could need for the same work "
        "(spctune devices --measure), with warm\nand with flushed caches; "
        "the ratio to it is the score. A time below its floor is\n"
        "reported, and fails.\n\nWith --pass all the gradients of the layer "
        "are timed, too, and the last row is\nthe training step: forward, "
        "dgrad and wgrad, one after the other.\n\nWith --capacity a layer's "
        "map has room for so many voxels, as in a network, whose\ngrids are "
        "made for the capacity; times of the map itself are those of an "
        "exact one.\n\nWith --network one graph of "
        "it, indexing "
        "included, is replayed on each scene; a\ntime runs from the launch, "
        "with coordinates and features on the device, till the\nlast "
        "output is there.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = command_bench,
    .defaults = defaults,
};
