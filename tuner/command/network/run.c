/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - spctune run: runs a network on a scene, layer by layer. */
#include "command/cli/npy.h"
#include "command/cli/out_file.h"
#include "command/cli/output.h"
#include "command/network/network.h"
#include "spc/lab.h"

#include "base/dtype.h"
#include "base/plural.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    network_args net;
    const char *trace, *output, *output_coords, *output_name;
    bool check;
};

#define AT(member) offsetof(struct args, member)
#define AT_NET(member) offsetof(struct args, net.member)

static const cli_option options[] = {
    NETWORK_OPTIONS(AT_NET),
    {'s', "scene", "SPEC", CLI_LIST, AT_NET(scenes),
     "the scene; points without @VOXEL get the network's grid"},
    {0, "coords", "FILE", CLI_TEXT, AT_NET(coords),
     "instead of a scene: .npy or .npz[:NAME], [n][4], batch first, in its "
     "order"},
    {0, "columns", "ORDER", CLI_TEXT, AT_NET(columns),
     "of coordinates in files: b, x, y, z in any order; default: bxyz, of an "
     "ONNX file, stored or not, the batch, then its axes. Or how many numbers "
     "a row of points has: 5"},
    {0, "features", "FILE", CLI_TEXT, AT_NET(features),
     ".npy or .npz[:NAME], [n][channels]; default: random"},
    {0, "points", "FILE", CLI_LIST, AT_NET(points),
     "instead of all three: a file of points, x, y, z and as many more numbers "
     "as the network has channels; the run makes voxels of them"},
    {0, "seed", "N", CLI_SEED, AT_NET(seed), "of weights and features"},
    {0, "check", NULL, CLI_FLAG, AT(check),
     "compare every set and layer with the oracle"},
    {0, "trace", "FILE", CLI_OUT, AT(trace),
     "write the times as a trace for chrome://tracing"},
    {'o', "output", "FILE", CLI_OUT, AT(output),
     "write the last output as .npy: rows, or a dense plane"},
    {0, "output-name", "NAME", CLI_TEXT, AT(output_name),
     "another output than the last"},
    {0, "output-coords", "FILE", CLI_OUT, AT(output_coords),
     "write the coordinates of its rows as .npy"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

static void defaults(void *to)
{
    struct args *args = to;

    args->net.seed = 1;
}

/* ---- the steps ----------------------------------------------------------- */

/* An odd number: the median is then one of the times. */
enum { REPLAYS = 21 };

typedef struct sheet {
    network *net;
    const struct args *args;
    spc_net_time *times; /* times of each step */
    int steps;
    double replay_us;
    spc_net_verdict verdict; /* results of --check */
    double int8_error;       /* error of --int8 */
} sheet;

static const char *const kinds[] = {"voxels", "set",     "map",
                                    "conv",   "feature", "gather"};

/* Writes NAN as null. */
static double ratio(double part, double whole)
{
    return part > 0 && whole > 0 ? part / whole : NAN;
}

static void add_step(table *t, const spc_net_step *step,
                     const spc_net_time *time)
{
    table_cell(t, "%s", step->name);
    table_cell(t, "%d", step->set);
    table_cell(t, "%lld", (long long)step->rows_out);
    if (step->pairs > 0)
        table_cell(t, "%lld", (long long)step->pairs);
    else
        table_blank(t);
    table_us(t, time->warm_us);
    table_us(t, time->floor_us);
    if (time->floor_us > 0)
        table_cell(t, "%.2f", ratio(time->warm_us, time->floor_us));
    else
        table_blank(t);
    table_cell(t, "%s", step->text);
    table_cell(t, "%s", step->kernel);
    table_cell(t, "%s",
               step->kind == SPC_NET_CONV ? origin_name(step->match) : "");
}

static void write_step(spc__json *json, const spc_net_step *step,
                       const spc_net_time *time)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "kind", kinds[step->kind]);
    spc__json_text(json, "name", step->name);
    spc__json_text(json, "text", step->text);
    spc__json_int(json, "set", step->set);
    spc__json_int(json, "rows_in", step->rows_in);
    spc__json_int(json, "rows_out", step->rows_out);
    spc__json_int(json, "pairs", step->pairs);
    spc__json_real(json, "density", step->density);
    spc__json_real(json, "warm_us", time->warm_us);
    spc__json_real(json, "floor_us", time->floor_us > 0 ? time->floor_us : NAN);
    spc__json_real(json, "ratio", ratio(time->warm_us, time->floor_us));
    spc__json_text(json, "kernel", step->kernel);
    if (step->kind == SPC_NET_CONV)
        spc__json_text(json, "origin", origin_name(step->match));
    spc__json_end_object(json);
}

/* Sums the times of layers (true), or of sets and maps. */
static double sum_times(const sheet *s, bool layers, bool floors)
{
    double sum = 0;

    for (int i = 0; i < s->steps; i++) {
        spc_net_step step;
        if (spc_net_plan_step_at(&step, s->net->plan, i) == SPC_OK &&
            (step.kind >= SPC_NET_CONV) == layers)
            sum += floors ? s->times[i].floor_us : s->times[i].warm_us;
    }
    return sum;
}

/* Describes the inputs that --int8 has seen; random inputs differ from sensor
 * data. */
static const char *ranges_from(const network *n)
{
    if (n->ranges_stated)
        return "the file";
    return n->clouds == NULL && n->features == NULL ? "drawn features"
                                                    : "the scene";
}

/* Prints the steps, then sums. Layers and indexing have sums of their own, as
 * only layers have floors. */
static void print_table(const sheet *s)
{
    static const char *const titles[] = {
        "step",      ">---set", ">rows",  ">--pairs",  ">us", ">--floor us",
        ">-x floor", "layer",   "kernel", "---origin", NULL};
    const network *n = s->net;
    table t;

    table_init(&t, titles);
    for (int i = 0; i < s->steps; i++) {
        spc_net_step step;
        if (spc_net_plan_step_at(&step, n->plan, i) == SPC_OK)
            add_step(&t, &step, &s->times[i]);
    }
    table_print(&t, stdout);
    table_release(&t);
    double floor = sum_times(s, true, true);
    printf("%s on %s: replay %.1f us; layers %.1f us", n->info.name,
           spc_scene_name(n->scenes[0]), s->replay_us,
           sum_times(s, true, false));
    if (floor > 0)
        printf(" (floors %.1f us)", floor);
    printf(", sets and maps %.1f us\n", sum_times(s, false, false));
    printf("%s, %s, %s; %.1f MB of tensors, %.1f MB of "
           "weights\n",
           spc__count(n->info.layers, "layer"), spc__count(n->info.sets, "set"),
           spc__count(n->info.maps, "map"),
           (double)spc_net_plan_memory_bytes(n->plan) * 1e-6,
           (double)spc_net_plan_weights_bytes(n->plan) * 1e-6);
    if (n->args->int8)
        printf("%s on i8 by the ranges of %s: the last output is %.3g "
               "of its size away from that of f16\n",
               spc__count(n->whole_layers, "layer"), ranges_from(n),
               s->int8_error);
    if (s->args->check)
        printf("%s %s as the oracle says: largest error over tolerance "
               "%.2g (%s)\n",
               spc__count(s->verdict.layers, "step"),
               spc__either(s->verdict.layers, "is", "are"), s->verdict.error,
               s->verdict.worst);
}

static spc_status print_json(const sheet *s)
{
    const network *n = s->net;
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    spc__json_text(&json, "network", n->info.name);
    spc__json_text(&json, "scene", spc_scene_name(n->scenes[0]));
    spc__json_int(&json, "voxels", spc_scene_rows(n->scenes[0]));
    spc__json_real(&json, "replay_us", s->replay_us);
    spc__json_real(&json, "layers_us", sum_times(s, true, false));
    spc__json_real(&json, "floors_us", sum_times(s, true, true));
    spc__json_real(&json, "indexing_us", sum_times(s, false, false));
    spc__json_int(&json, "memory_bytes",
                  (int64_t)spc_net_plan_memory_bytes(n->plan));
    spc__json_int(&json, "weights_bytes",
                  (int64_t)spc_net_plan_weights_bytes(n->plan));
    if (n->args->int8) {
        spc__json_text(&json, "int8_ranges", ranges_from(n));
        spc__json_real(&json, "int8_error", s->int8_error);
    }
    if (s->args->check)
        spc__json_real(&json, "error", s->verdict.error);
    spc__json_array(&json, "steps");
    for (int i = 0; i < s->steps; i++) {
        spc_net_step step;
        if (spc_net_plan_step_at(&step, n->plan, i) == SPC_OK)
            write_step(&json, &step, &s->times[i]);
    }
    spc__json_end_array(&json);
    spc__json_end_object(&json);
    return output_json(&text);
}

/* ---- files --------------------------------------------------------------- */

/* Writes the steps in sequence, as events in Chrome's trace format. */
static spc_status write_trace(const sheet *s)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    double at = 0;

    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    for (int i = 0; i < s->steps; i++) {
        spc_net_step step;
        if (spc_net_plan_step_at(&step, s->net->plan, i) != SPC_OK)
            continue;
        spc__json_object(&json, NULL);
        spc__json_text(&json, "name", step.name);
        spc__json_text(&json, "cat", kinds[step.kind]);
        spc__json_text(&json, "ph", "X");
        spc__json_real(&json, "ts", at);
        spc__json_real(&json, "dur", s->times[i].warm_us);
        spc__json_int(&json, "pid", 1);
        spc__json_int(&json, "tid", 1);
        spc__json_object(&json, "args");
        spc__json_text(&json, "layer", step.text);
        spc__json_text(&json, "kernel", step.kernel);
        spc__json_int(&json, "rows", step.rows_out);
        spc__json_int(&json, "pairs", step.pairs);
        spc__json_end_object(&json);
        spc__json_end_object(&json);
        at += s->times[i].warm_us;
    }
    spc__json_end_array(&json);
    spc__buf_puts(&text, "\n");
    spc_status status =
        text.failed ? cli_fail(SPC_ENOMEM, "out of memory")
                    : out_file_put(s->args->trace,
                                   &(spc__piece){text.data, text.length}, 1);
    spc__buf_release(&text);
    return status;
}

/* Searches from the last output, which is the default. */
static spc_status find_output(spc_net_output *out, const sheet *s)
{
    const network *n = s->net;

    for (int i = n->info.outputs - 1; i >= 0; i--)
        if (spc_net_plan_output_at(out, n->plan, i) == SPC_OK &&
            (s->args->output_name == NULL ||
             strcmp(out->name, s->args->output_name) == 0))
            return SPC_OK;
    return cli_fail(SPC_EINVAL, "the network has no output '%s'",
                    s->args->output_name);
}

/* Writes bf16 as f32, since NumPy has no bf16. */
static spc_status write_values(const sheet *s, const spc_net_output *o)
{
    const spc__dtype *type = spc__dtype_of(o->dtype);
    int64_t rows = o->dense ? o->batches : spc_coords_rows(o->set);
    int64_t shape[4] = {rows, o->elements};
    int axes = 2;
    size_t count = (size_t)(rows * o->elements), bytes = count * type->bytes;
    char *stored = malloc(bytes + 1);
    float *values = malloc((count + 1) * sizeof(*values));
    spc_status status;

    /* A dense plane has an axis for each of its sizes. */
    if (o->plane[0] > 0) {
        axes = 4;
        memcpy(shape + 1, o->plane, sizeof(o->plane));
    }
    if (stored == NULL || values == NULL) {
        status = cli_fail(SPC_ENOMEM, "out of memory");
    } else if ((status = spc_memory_download(
                    stored, s->net->ctx,
                    (char *)s->net->buffers.memory + o->offset, bytes)) !=
               SPC_OK) {
        cli_fail_ctx(status, s->net->ctx);
    } else if (o->dtype == SPC_BF16) {
        type->decode(values, stored, count);
        status = npy_write(s->args->output, "<f4", shape, axes, values,
                           count * sizeof(*values));
    } else {
        status = npy_write(s->args->output, o->dtype == SPC_F16 ? "<f2" : "<f4",
                           shape, axes, stored, bytes);
    }
    free(stored);
    free(values);
    return status;
}

/* Converts points to the units of scenes. */
static spc_status fetch_cloud(const sheet *s, int32_t *rows,
                              const spc_net_output *o)
{
    int64_t count = spc_points_rows(o->cloud);
    float point[4];
    spc_status status = spc_memory_download(
        rows, s->net->ctx, spc_points_data(o->cloud), 16 * (size_t)count);

    for (int64_t i = 0; i < count && status == SPC_OK; i++) {
        int32_t *row = rows + 4 * i;
        /* Copies the row, as the coordinates overwrite it in place. */
        memcpy(point, row, sizeof(point));
        memcpy(row, &point[3], sizeof(*row));
        for (int a = 0; a < 3; a++)
            /* Scenes of points count in 1024ths of a unit. */
            row[1 + a] = (int32_t)lrintf(point[a] * 1024);
    }
    return status;
}

/* The rows of the input's set are those of the scene. */
static spc_status write_coords(const sheet *s, const spc_net_output *o)
{
    const int32_t *data = spc_coords_data(o->set);
    int64_t shape[2] = {spc_coords_rows(o->set), 4};
    size_t bytes = 16 * (size_t)shape[0];
    int32_t *rows = malloc(bytes + 1);
    spc_status status = SPC_OK;

    if (rows == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if (o->cloud != NULL) {
        if ((status = fetch_cloud(s, rows, o)) != SPC_OK)
            cli_fail_ctx(status, s->net->ctx);
    } else if (data == NULL)
        memcpy(rows, spc_scene_coords(s->net->scenes[0]), bytes);
    else if ((status = spc_memory_download(rows, s->net->ctx, data, bytes)) !=
             SPC_OK)
        cli_fail_ctx(status, s->net->ctx);
    if (status == SPC_OK)
        network_to_columns(s->net, rows, shape[0]);
    if (status == SPC_OK)
        status =
            npy_write(s->args->output_coords, "<i4", shape, 2, rows, bytes);
    free(rows);
    return status;
}

/* Writes the output and its coordinates, if asked for. */
static spc_status write_output(const sheet *s)
{
    spc_net_output output;
    spc_status status = SPC_OK;

    if (s->args->output == NULL && s->args->output_coords == NULL)
        return SPC_OK;
    if ((status = find_output(&output, s)) != SPC_OK)
        return status;
    if (s->args->output_coords != NULL && output.dense && output.plane[0] == 0)
        return cli_fail(SPC_EINVAL,
                        "output '%s' has a row for each batch element and no "
                        "voxels, so --output-coords has nothing to write: drop "
                        "it, or name another output by --output-name",
                        output.name);
    if (s->args->output != NULL)
        status = write_values(s, &output);
    if (status == SPC_OK && s->args->output_coords != NULL)
        status = write_coords(s, &output);
    return status;
}

/* ---- running ------------------------------------------------------------- */

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Computes the median of some replays, and checks that they ended well. */
static spc_status replay(sheet *s)
{
    double times[REPLAYS];
    /* Captures the graph before the first timing, so that no time includes the
     * capture. */
    spc_status status = spc_net_plan_capture(s->net->plan, &s->net->buffers);

    for (int i = 0; i < REPLAYS && status == SPC_OK; i++) {
        status = *cli_cancel_flag() ? SPC_EINTERRUPTED
                                    : network_replay(s->net, &times[i]);
        if (status != SPC_OK)
            return status;
    }
    if (status == SPC_OK)
        status = network_check(s->net);
    if (status != SPC_OK)
        return network_fail(s->net, status);
    /* Takes the median, as an interruption by another process lengthens only a
     * few of the times. */
    qsort(times, REPLAYS, sizeof(*times), compare_times);
    s->replay_us = times[REPLAYS / 2];
    return SPC_OK;
}

static spc_status profile(sheet *s)
{
    network *n = s->net;
    spc_status status;

    s->steps = spc_net_plan_step_count(n->plan);
    s->times = calloc((size_t)s->steps + 1, sizeof(*s->times));
    if (s->times == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    /* Checks before the steps are timed: afterwards tensors no longer hold the
     * results of one run. */
    if (s->args->check &&
        (status = spc_net_plan_verify(&s->verdict, n->plan, &n->buffers,
                                      n->scenes[0])) != SPC_OK)
        return network_fail(n, status);
    status = spc_net_plan_profile(s->times, n->plan, &n->buffers);
    return status == SPC_OK ? status : network_fail(n, status);
}

/*
 * Outputs are written before steps are timed one by one, as those steps
 * overwrite each other's memory.
 */
static spc_status run_network(sheet *s)
{
    spc_status status;

    if ((status = network_upload(s->net, 0)) != SPC_OK ||
        (status = replay(s)) != SPC_OK ||
        (status = write_output(s)) != SPC_OK ||
        (s->net->args->int8 &&
         (status = network_int8_error(&s->int8_error, s->net)) != SPC_OK) ||
        (status = profile(s)) != SPC_OK)
        return status;
    if (s->args->trace != NULL && (status = write_trace(s)) != SPC_OK)
        return status;
    if (s->net->self->globals.json)
        return print_json(s);
    print_table(s);
    return SPC_OK;
}

static spc_status command_run(cli *self, void *to)
{
    struct args *args = to;
    network net;
    sheet s = {.net = &net, .args = args};
    spc_status status;

    if (self->operands.count > 0)
        return cli_fail(SPC_EINVAL, "run takes no operands: --network FILE "
                                    "names the network");
    if (args->output_name != NULL && args->output == NULL &&
        args->output_coords == NULL)
        return cli_fail(SPC_EINVAL,
                        "--output-name %s selects the output to write: -o FILE "
                        "or --output-coords FILE is missing",
                        args->output_name);
    if (args->net.scenes.count > 1 || args->net.points.count > 1)
        return cli_fail(SPC_EINVAL, "run takes one scene; 'spctune bench "
                                    "--network' takes several");
    args->net.keep = args->check;
    status = network_open(&net, self, &args->net);
    if (status == SPC_OK)
        status = run_network(&s);
    free(s.times);
    network_close(&net);
    return status;
}

const cli_command cli_run = {
    .name = "run",
    .operands = "--network FILE --scene SPEC",
    .summary = "run a network, and show where its time goes",
    .more = "Plans the network for the scene, captures it with its indexing, "
            "replays it, and times\neach step alone: rows and pairs, the time, "
            "the least time that the device could need\nfor it, and their "
            "ratio. Weights are drawn by the seed. With --check each set and\n"
            "layer is compared with the oracle, on what it read.",
    .options = options,
    .args_bytes = sizeof(struct args),
    .run = command_run,
    .defaults = defaults,
};
