/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_first.c - spctune net first: times a network from the start to its first
 * result.
 *
 * This is what a program waits for when it starts with a stored network: device
 * and database, layers and weights, kernels and packing, the graph, one run.
 */
#include "base/plural.h"
#include "command/cli/output.h"
#include "command/network/net.h"

#include <stdio.h>

/* Continues network_stage. */
enum { UPLOAD = NETWORK_STAGES, CAPTURE, FIRST, SECOND, STAGES };

static const char *const names[STAGES] = {"context",   "network",   "scene",
                                          "plan",      "upload",    "capture",
                                          "first run", "second run"};

typedef struct first {
    network net;
    double ms[STAGES];
} first;

static spc_status replay(network *n)
{
    double us;
    spc_status status = network_replay(n, &us);

    if (status != SPC_OK)
        return status;
    status = network_check(n);
    return status == SPC_OK ? status : network_fail(n, status);
}

static spc_status capture(network *n)
{
    spc_status status = spc_net_plan_capture(n->plan, &n->buffers);

    return status == SPC_OK ? status : cli_fail_ctx(status, n->ctx);
}

static spc_status upload(network *n)
{
    return network_upload(n, 0);
}

static spc_status run_stages(first *f)
{
    static spc_status (*const stages[])(network * n) = {upload, capture, replay,
                                                        replay};
    spc_status status = SPC_OK;

    for (int i = UPLOAD; i < STAGES && status == SPC_OK; i++) {
        double start = network_clock_ms();
        status = stages[i - UPLOAD](&f->net);
        f->ms[i] = network_clock_ms() - start;
    }
    return status;
}

/*
 * The time to the first result, without the scene, which the caller provides,
 * and without the second run.
 */
static double sum(const first *f)
{
    double ms = 0;

    for (int i = 0; i <= FIRST; i++)
        ms += i != NETWORK_SCENES ? f->ms[i] : 0;
    return ms;
}

static void print_table(const first *f)
{
    static const char *const titles[] = {"stage", ">ms", NULL};
    spc_stats stats = spc_ctx_stats(f->net.ctx);
    table t;

    table_init(&t, titles);
    for (int i = 0; i < STAGES; i++) {
        table_cell(&t, "%s", names[i]);
        table_cell(&t, "%.2f", f->ms[i]);
    }
    table_print(&t, stdout);
    table_release(&t);
    printf("%s: %.2f ms to the first result, without the scene; %s "
           "loaded, %lld compiled\n",
           f->net.args->file, sum(f),
           spc__count((long long)stats.artefacts_loaded, "kernel"),
           (long long)stats.compiles);
}

static spc_status print_json(const first *f)
{
    spc_stats stats = spc_ctx_stats(f->net.ctx);
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    spc__json_text(&json, "network", f->net.args->file);
    spc__json_real(&json, "first_result_ms", sum(f));
    spc__json_int(&json, "artefacts_loaded", stats.artefacts_loaded);
    spc__json_int(&json, "compiles", stats.compiles);
    spc__json_array(&json, "stages");
    for (int i = 0; i < STAGES; i++) {
        spc__json_object(&json, NULL);
        spc__json_text(&json, "stage", names[i]);
        spc__json_real(&json, "ms", f->ms[i]);
        spc__json_end_object(&json);
    }
    spc__json_end_array(&json);
    spc__json_end_object(&json);
    return output_json(&text);
}

spc_status net_first(cli *self, const network_args *args)
{
    first f = {0};
    spc_status status = network_open(&f.net, self, args);

    for (int i = 0; i < NETWORK_STAGES; i++)
        f.ms[i] = f.net.stage_ms[i];
    if (status == SPC_OK)
        status = run_stages(&f);
    if (status == SPC_OK && self->globals.json)
        status = print_json(&f);
    else if (status == SPC_OK)
        print_table(&f);
    network_close(&f.net);
    return status;
}
