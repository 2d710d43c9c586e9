/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantise.c - spctune quantise: turns a network into i8 as far as the errors
 * of its layers allow.
 *
 * Ranges come from a run in f32 on some scenes. Errors are measured on others:
 * each layer by itself on the f32 run's inputs, and the whole run. A layer
 * whose own error exceeds the bound gets inputs in f16, or keeps its outputs in
 * f16 if their rounding alone exceeds it. The network is then made and measured
 * again, until no layer exceeds the bound. This ends, as each round takes the
 * range of at least one tensor away.
 *
 * No step converts tensors: the layer that writes a tensor rounds it, and the
 * layers that read it multiply by its scale.
 */
#include "command/network/quantise.h"

#include "base/plural.h"
#include "command/cli/idle.h"
#include "command/cli/phase.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(quantise_args, member)
#define AT_NET(member) offsetof(quantise_args, net.member)

static const cli_option options[] = {
    NETWORK_OPTIONS(AT_NET),
    {'s', "scene", "SPEC", CLI_LIST, AT_NET(scenes),
     "a scene for the ranges (may be repeated); features are drawn"},
    {0, "points", "FILE", CLI_LIST, AT_NET(points),
     "instead of scenes: a file of points, as for spctune run (may be "
     "repeated)"},
    {0, "held-out", "SPEC", CLI_LIST, AT(held_out),
     "a scene for the errors, or with --points a file of points (may be "
     "repeated); default: those of the ranges"},
    {0, "columns", "N", CLI_TEXT, AT_NET(columns),
     "how many numbers a row of points has"},
    {0, "seed", "N", CLI_SEED, AT_NET(seed), "of weights and features"},
    {0, "ranges", "max|percentile|mse", CLI_WORD, AT(ranges),
     "the greatest magnitude, that which a part of all does not exceed, or "
     "(default) that with the least mean squared error"},
    {0, "percentile", "X", CLI_REAL, AT(percentile),
     "the part, in percent; default 99.99"},
    {0, "most-error", "X", CLI_REAL, AT(most),
     "a layer whose own error exceeds this part of its outputs stays in f16; "
     "default 0.05"},
    {0, "output-error", "X", CLI_REAL, AT(most_output),
     "also keep the worst layers in f16 until the last output is within this "
     "part of that in f32"},
    {0, "keep", "LAYER", CLI_LIST, AT(keep),
     "a layer that stays in f16 (may be repeated)"},
    {0, "floors", "DEVICE", CLI_TEXT, AT(floors),
     "also print what the layers compute and move in f16 and in i8, and their "
     "floors on a device such as 'NVIDIA H200'"},
    {0, "name", "NAME", CLI_TEXT, AT(name),
     "store the network in the database by this name"},
    {0, "replace", NULL, CLI_FLAG, AT(replace),
     "--name: replace one of this name"},
    {0, NULL, NULL, CLI_FLAG, 0, NULL},
};

static void defaults(void *to)
{
    quantise_args *args = to;

    args->net.seed = 1;
    args->percentile = 99.99;
    args->most = 0.05;
}

/* ---- networks ------------------------------------------------------------ */

int quantise_first_measured(const quantising *q)
{
    return q->ranged < q->net.scene_count ? q->ranged : 0;
}

const char *quantise_rule(const quantise_args *args)
{
    return args->ranges != NULL ? args->ranges : "mse";
}

/* Joins the scenes, so that the plans have room for all of them. */
static spc_status join_scenes(quantising *q)
{
    const network_args *net = &q->args->net;
    const cli_list *held = &q->args->held_out;
    const cli_list *first = net->points.count > 0 ? &net->points : &net->scenes;
    cli_list none = {0};

    q->scenes.at =
        calloc((size_t)(first->count + held->count) + 1, sizeof(*q->scenes.at));
    if (q->scenes.at == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < first->count; i++)
        q->scenes.at[q->scenes.count++] = first->at[i];
    q->ranged = first->count;
    for (int i = 0; i < held->count; i++)
        q->scenes.at[q->scenes.count++] = held->at[i];
    q->wide_args = *net;
    q->wide_args.keep = true;
    q->wide_args.points = net->points.count > 0 ? q->scenes : none;
    if (net->points.count == 0)
        q->wide_args.scenes = q->scenes;
    q->args16 = q->wide_args;
    q->wide_args.dtype = "f32";
    q->args16.dtype = "f16";
    return SPC_OK;
}

/* Reads the network again, as one that was quantised has no way back. */
static spc_status read_again(quantising *q)
{
    network *n = &q->net;
    spc_error error = {0};
    spc_status status;

    network_drop_plan(n);
    spc_net_free(n->net);
    n->net = NULL;
    if ((status = network_read(&n->net, NULL, n->args, SPC_F16)) != SPC_OK)
        return status;
    if ((status = spc_net_init_params(n->net, n->args->seed, &error)) !=
            SPC_OK ||
        (status = spc_net_quantise(NULL, n->net, q->ranges, &error)) != SPC_OK)
        return cli_fail(status, "%s", error.text);
    spc_net_describe(&n->info, n->net);
    return network_replan(n, SPC_PLAN_JIT);
}

static spc_status run_scene(network *n, int scene)
{
    spc_status status = network_upload(n, scene);

    if (status != SPC_OK)
        return status;
    if (*cli_cancel_flag())
        return cli_fail(SPC_EINTERRUPTED, "interrupted");
    if ((status = spc_net_plan_execute(n->plan, &n->buffers, NULL)) == SPC_OK)
        status = network_check(n);
    return status == SPC_OK ? status : network_fail(n, status);
}

/* ---- ranges -------------------------------------------------------------- */

/* Runs the scenes of the ranges in f32, and derives the range of each tensor.
 */
static spc_status find_ranges(quantising *q)
{
    static const struct {
        const char *name;
        spc_range_rule rule;
    } rules[] = {{"max", SPC_RANGE_MAX},
                 {"percentile", SPC_RANGE_PERCENTILE},
                 {"mse", SPC_RANGE_MSE}};
    network *n = &q->wide;
    spc_net_magnitudes *seen = NULL;
    spc_error error = {0};
    int rule = 0;
    spc_status status = spc_net_magnitudes_create(&seen, n->net, &error);

    if (status != SPC_OK)
        return cli_fail(status, "%s", error.text);
    for (int i = 0; i < q->ranged && status == SPC_OK; i++)
        if ((status = run_scene(n, i)) == SPC_OK &&
            (status = spc_net_magnitudes_add(seen, n->plan, &n->buffers)) !=
                SPC_OK)
            cli_fail_ctx(status, n->ctx);
    while (strcmp(rules[rule].name, quantise_rule(q->args)) != 0)
        rule++;
    if (status == SPC_OK && (status = spc_net_magnitudes_ranges(
                                 q->shown, seen, rules[rule].rule,
                                 q->args->percentile / 100, &error)) != SPC_OK)
        cli_fail(status, "%s", error.text);
    spc_net_magnitudes_free(seen);
    return status;
}

/* ---- errors -------------------------------------------------------------- */

static double relative(double off, double size)
{
    return size > 0 ? sqrt(off / size) : 0;
}

/* Adds the squares of the last output's error and size on this scene. */
static spc_status add_output(quantising *q, double *off, double *size)
{
    float *got = NULL, *want = NULL;
    int64_t count = 0, wide = 0;
    spc_status status = network_fetch_output(&got, &count, &q->net);

    if (status == SPC_OK)
        status = network_fetch_output(&want, &wide, &q->wide);
    if (status == SPC_OK && count != wide)
        status = cli_fail(SPC_EWRONG, "the output has %s, in f32 it had %lld",
                          spc__count(count, "number"), (long long)wide);
    for (int64_t i = 0; i < count && status == SPC_OK; i++) {
        double apart = (double)got[i] - (double)want[i];
        *off += apart * apart;
        *size += (double)want[i] * (double)want[i];
    }
    free(got);
    free(want);
    return status;
}

/* Measures what a step costs, in the types that the network has now. */
static spc_status find_costs(quantising *q)
{
    network *n = &q->net;
    int steps = spc_net_plan_step_count(n->plan), at = 0;
    spc_net_floor *floors = calloc((size_t)steps + 1, sizeof(*floors));
    spc_status status;

    if (q->costs == NULL)
        q->costs = calloc((size_t)q->wide.info.tensors + 1, sizeof(*q->costs));
    if (floors == NULL || q->costs == NULL)
        status = cli_fail(SPC_ENOMEM, "out of memory");
    else if ((status = spc_net_plan_floors(floors, n->plan, q->args->floors)) !=
             SPC_OK)
        cli_fail_ctx(status, n->ctx);
    for (int i = 0; i < steps && status == SPC_OK; i++) {
        spc_net_step step;
        if (spc_net_plan_step_at(&step, n->plan, i) != SPC_OK ||
            step.kind < SPC_NET_CONV)
            continue;
        quantise_cost *c = &q->costs[at++];
        if (q->rounds == 0)
            c->f16 = floors[i];
        c->mixed = floors[i];
        c->rows = step.rows_out;
        c->pairs = step.pairs;
        c->name = step.name; /* of the network that is there until the end */
    }
    q->cost_count = at;
    free(floors);
    return status;
}

/* Runs the measured scenes in both types, and notes all errors. */
static spc_status measure(quantising *q)
{
    size_t tensors = (size_t)q->wide.info.tensors;
    double off = 0, size = 0;
    int first = quantise_first_measured(q);
    spc_status status = SPC_OK;

    memset(q->off, 0, tensors * sizeof(*q->off));
    for (int i = first; i < q->net.scene_count && status == SPC_OK; i++) {
        if ((status = run_scene(&q->wide, i)) != SPC_OK ||
            (status = run_scene(&q->net, i)) != SPC_OK ||
            (status = add_output(q, &off, &size)) != SPC_OK)
            return status;
        if (i == first && q->args->floors != NULL &&
            (status = find_costs(q)) != SPC_OK)
            return status;
        /* Last, as it overwrites the tensors. */
        status = spc_net_plan_deviations(q->off, q->net.plan, &q->net.buffers,
                                         q->wide.plan, &q->wide.buffers);
        if (status != SPC_OK)
            cli_fail_ctx(status, q->net.ctx);
    }
    q->output = relative(off, size);
    q->rounds++;
    return status;
}

static spc_dtype type_of(const quantising *q, int tensor)
{
    spc_tensor_info info = {0};

    spc_net_tensor_at(&info, q->net.net, tensor, NULL);
    return info.dtype;
}

/* Notes the layers of the network in f16, with their errors. */
static spc_status list_layers(quantising *q)
{
    q->layers = calloc((size_t)q->wide.info.tensors + 1, sizeof(*q->layers));
    if (q->layers == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int t = 0; t < q->wide.info.tensors; t++) {
        const spc_net_deviation *d = &q->off[t];
        if (d->layer == NULL)
            continue;
        q->layers[q->layer_count++] = (quantise_layer){
            .in = d->in,
            .out = t,
            .f16_own = relative(d->own, d->size),
            .f16_total = relative(d->total, d->size),
        };
    }
    q->f16_output = q->output;
    return SPC_OK;
}

/* Updates the layers by the last measurement. */
static void note_errors(quantising *q)
{
    for (int i = 0; i < q->layer_count; i++) {
        quantise_layer *l = &q->layers[i];
        const spc_net_deviation *d = &q->off[l->out];
        l->name = d->layer;
        l->in_type = type_of(q, l->in);
        l->out_type = type_of(q, l->out);
        l->rounding = relative(d->rounding, d->size);
        l->own = relative(d->own, d->size);
        l->total = relative(d->total, d->size);
    }
}

/* ---- which layers stay in f16 -------------------------------------------- */

/* Takes the range of the tensor away that causes the layer's error. */
static void refuse(quantising *q, quantise_layer *l)
{
    bool by_outputs = l->out_type == SPC_I8 &&
                      (l->in_type != SPC_I8 || l->rounding > q->args->most);

    q->ranges[by_outputs ? l->out : l->in] = 0;
    if (l->in_type == SPC_I8 && l->own > l->refused)
        l->refused = l->own;
}

/* Refuses all layers above the bound. Returns their number. */
static int refuse_worst(quantising *q)
{
    int count = 0;

    for (int i = 0; i < q->layer_count; i++) {
        quantise_layer *l = &q->layers[i];
        bool whole = l->in_type == SPC_I8 || l->out_type == SPC_I8;
        if (!whole || l->own <= q->args->most)
            continue;
        refuse(q, l);
        count++;
    }
    return count;
}

static bool is_output_off(const quantising *q)
{
    return q->args->most_output > 0 && q->output > q->args->most_output;
}

/* If the last output is too far off, refuses the layer with the largest error
 * of those with i8. Returns how many were refused. */
static int refuse_for_output(quantising *q)
{
    quantise_layer *worst = NULL;

    if (!is_output_off(q))
        return 0;
    for (int i = 0; i < q->layer_count; i++) {
        quantise_layer *l = &q->layers[i];
        if (l->in_type == SPC_I8 && (worst == NULL || l->own > worst->own))
            worst = l;
    }
    if (worst == NULL)
        return 0;
    q->ranges[worst->in] = 0;
    worst->refused = worst->own;
    return 1;
}

/* Takes the ranges of the inputs of --keep away. */
static spc_status keep_asked(quantising *q)
{
    const cli_list *names = &q->args->keep;

    for (int i = 0; i < names->count; i++) {
        bool found = false;
        for (int j = 0; j < q->layer_count; j++) {
            quantise_layer *l = &q->layers[j];
            if (strcmp(q->off[l->out].layer, names->at[i]) != 0)
                continue;
            q->ranges[l->in] = 0;
            l->asked = found = true;
        }
        if (!found)
            return cli_fail(SPC_EINVAL,
                            "--keep: '%s' has no convolution '%s', such as "
                            "'%s'",
                            q->args->net.file, names->at[i],
                            q->layer_count > 0 ? q->off[q->layers[0].out].layer
                                               : "none");
    }
    return SPC_OK;
}

static spc_status quantise_and_measure(quantising *q)
{
    phase shown;
    spc_status status;

    phase_begin(&shown, q->self, "measuring errors", 0);
    if ((status = read_again(q)) == SPC_OK && (status = measure(q)) == SPC_OK)
        note_errors(q);
    phase_end(&shown);
    return status;
}

/* Measures f16 first, then i8 with fewer layers each time. */
static spc_status search(quantising *q)
{
    size_t tensors = (size_t)q->wide.info.tensors + 1;
    spc_status status;

    q->ranges = calloc(tensors, sizeof(*q->ranges));
    q->shown = calloc(tensors, sizeof(*q->shown));
    q->off = calloc(tensors, sizeof(*q->off));
    if (q->ranges == NULL || q->shown == NULL || q->off == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if ((status = find_ranges(q)) != SPC_OK ||
        (status = measure(q)) != SPC_OK || (status = list_layers(q)) != SPC_OK)
        return status;
    memcpy(q->ranges, q->shown, tensors * sizeof(*q->ranges));
    if ((status = keep_asked(q)) != SPC_OK)
        return status;
    do
        status = quantise_and_measure(q);
    while (status == SPC_OK &&
           (refuse_worst(q) > 0 || refuse_for_output(q) > 0));
    if (status == SPC_OK && is_output_off(q))
        return cli_fail(SPC_EINVAL,
                        "--output-error %g: even in f16 the last output is %g "
                        "of its size away from that of f32",
                        q->args->most_output, q->output);
    return status;
}

/* ---- entry --------------------------------------------------------------- */

static spc_status store(quantising *q)
{
    const quantise_args *args = q->args;
    spc_status status;

    if (network_whole_layers(q->net.net) == 0)
        return cli_fail(SPC_EINVAL,
                        "no layer of '%s' can work on i8 within these errors: "
                        "nothing is stored",
                        q->net.info.name);
    status = spc_net_store(q->net.ctx, q->net.net, args->name, args->net.file,
                           args->replace);
    return status == SPC_OK ? status : cli_fail_ctx(status, q->net.ctx);
}

static spc_status check_args(cli *self, const quantise_args *args)
{
    static const char one_of_each[] =
        "ranges percentile most-error output-error floors name";
    spc_status status = idle_take_one(self, one_of_each);

    if (status != SPC_OK)
        return status;
    if (self->operands.count > 0)
        return cli_fail(SPC_EINVAL, "quantise takes no operands: --network "
                                    "FILE names the network");
    if (args->percentile > 100)
        return cli_fail(SPC_EINVAL,
                        "--percentile %g: expected a number up to 100",
                        args->percentile);
    if (args->net.file != NULL && network_is_stored(&args->net))
        return cli_fail(SPC_EINVAL,
                        "there is no file '%s': quantise reads the network in "
                        "f32, and a stored one has a type already",
                        args->net.file);
    idle_say(self, "on quantise", "dtype int8");
    if (strcmp(quantise_rule(args), "percentile") != 0)
        idle_say(self, "without --ranges percentile", "percentile");
    if (args->name == NULL)
        idle_say(self, "without --name", "replace");
    return SPC_OK;
}

static spc_status open_both(quantising *q)
{
    bool quiet = q->self->globals.quiet;
    phase opening;
    spc_status status = join_scenes(q);

    if (status != SPC_OK)
        return status;
    q->wide_args.int8 = q->args16.int8 = false;
    phase_begin(&opening, q->self, "planning the network in f32 and f16", 0);
    status = network_open(&q->wide, q->self, &q->wide_args);
    if (status == SPC_OK)
        status = network_need_voxels(&q->wide);
    /* What there is to say about the file and the scenes has been said. */
    q->self->globals.quiet = true;
    if (status == SPC_OK)
        status = network_open(&q->net, q->self, &q->args16);
    q->self->globals.quiet = quiet;
    phase_end(&opening);
    return status;
}

static spc_status command_quantise(cli *self, void *to)
{
    quantise_args *args = to;
    quantising q = {.self = self, .args = args};
    spc_status status = check_args(self, args);

    self->needs_database = args->name != NULL;
    if (status == SPC_OK && (status = open_both(&q)) == SPC_OK &&
        (status = search(&q)) == SPC_OK &&
        (args->name == NULL || (status = store(&q)) == SPC_OK))
        status = quantise_report(&q);
    network_close(&q.net);
    network_close(&q.wide);
    free(q.scenes.at);
    free(q.ranges);
    free(q.shown);
    free(q.off);
    free(q.layers);
    free(q.costs);
    return status;
}

const cli_command cli_quantise = {
    .name = "quantise",
    .operands = "--network FILE --scene SPEC",
    .summary = "turn a network into i8 as far as its errors allow",
    .more =
        "Finds the range of each tensor in f32 on the scenes, and measures the "
        "error of each layer\nin i8 on the scenes held out. Layers with a "
        "larger error than the bound stay in f16.\nPrints every layer with its "
        "types and errors, and the error of the last output.\nWith --name the "
        "database gets the network, for run, bench, tune and spc_net_open.",
    .options = options,
    .args_bytes = sizeof(quantise_args),
    .run = command_quantise,
    .defaults = defaults,
};
