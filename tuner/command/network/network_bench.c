/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_bench.c - spctune bench --network: times replays.
 *
 * One graph serves all scenes. For each, voxels and features are uploaded, and
 * a replay is timed from its launch to the last layer's output. Several scenes
 * run in a new random order each time.
 */
#include "command/network/network.h"
#include "spc/lab.h"

#include "base/plural.h"
#include "command/cli/output.h"
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 5 };

typedef struct bench {
    network net;
    int runs;
    double *times;           /* [scenes][runs] */
    spc_net_verdict verdict; /* result of --check: the worst of all scenes */
} bench;

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/*
 * The quantile `part`: the smallest time that this part of all times does not
 * exceed.
 */
static double quantile(const double *sorted, int count, double part)
{
    int at = (int)(part * count + 0.999999) - 1;

    return sorted[at < 0 ? 0 : at >= count ? count - 1 : at];
}

/* Times one replay of a scene; the upload before it is not timed. The first run
 * warms up, and checks the capacities. */
static spc_status time_scene(bench *b, int scene, int run)
{
    double us;
    spc_status status = network_upload(&b->net, scene);

    for (int i = 0; run == 0 && i < WARM_UP && status == SPC_OK; i++)
        status = network_replay(&b->net, &us);
    if (status == SPC_OK)
        status = network_replay(&b->net, &us);
    if (status != SPC_OK)
        return status;
    b->times[scene * b->runs + run] = us;
    status = run == 0 ? network_check(&b->net) : SPC_OK;
    return status == SPC_OK ? status : network_fail(&b->net, status);
}

/* Verifies the outputs after all these replays, layer by layer. */
static spc_status verify_scene(bench *b, int scene, int run)
{
    network *n = &b->net;
    spc_net_verdict found;
    double us;
    spc_status status = network_upload(n, scene);

    (void)run;
    if (status != SPC_OK || (status = network_replay(n, &us)) != SPC_OK)
        return status;
    if ((status = network_check(n)) != SPC_OK ||
        (status = spc_net_plan_verify(&found, n->plan, &n->buffers,
                                      n->scenes[scene])) != SPC_OK)
        return cli_fail_ctx(status, n->ctx);
    if (b->verdict.layers == 0 || found.error > b->verdict.error)
        b->verdict = found;
    return SPC_OK;
}

/* Runs every scene once, in a random order. */
static spc_status each_scene(bench *b, int run, uint64_t *state,
                             spc_status (*run_scene)(bench *, int, int))
{
    int count = b->net.scene_count;
    spc_status status = SPC_OK;
    int *order = malloc((size_t)count * sizeof(*order));

    if (order == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    for (int i = 0; i < count; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        int j = (int)((*state >> 33) % (uint64_t)(i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < count && status == SPC_OK; i++)
        status = *cli_cancel_flag() ? cli_fail(SPC_EINTERRUPTED, "interrupted")
                                    : run_scene(b, order[i], run);
    free(order);
    return status;
}

/* ---- results ------------------------------------------------------------- */

static void add_row(table *t, const char *name, long long voxels,
                    const double *sorted, int count)
{
    table_cell(t, "%s", name);
    table_cell(t, "%lld", voxels);
    table_us(t, sorted[0]);
    table_us(t, quantile(sorted, count, 0.5));
    table_us(t, quantile(sorted, count, 0.9));
    table_us(t, quantile(sorted, count, 0.99));
}

static void write_row(spc__json *json, const char *name, long long voxels,
                      const double *sorted, int count)
{
    spc__json_object(json, NULL);
    spc__json_text(json, "scene", name);
    spc__json_int(json, "voxels", voxels);
    spc__json_int(json, "runs", count);
    spc__json_real(json, "least_us", sorted[0]);
    spc__json_real(json, "p50_us", quantile(sorted, count, 0.5));
    spc__json_real(json, "p90_us", quantile(sorted, count, 0.9));
    spc__json_real(json, "p99_us", quantile(sorted, count, 0.99));
    spc__json_end_object(json);
}

/* A row for each scene, and one for all if there are several. */
static void each_row(bench *b, table *t, spc__json *json)
{
    int count = b->net.scene_count, all = count * b->runs;
    long long most = 0;

    for (int i = 0; i < count; i++) {
        const spc_scene *scene = b->net.scenes[i];
        double *times = b->times + i * b->runs;
        qsort(times, (size_t)b->runs, sizeof(*times), compare_times);
        add_row(t, spc_scene_name(scene), spc_scene_rows(scene), times,
                b->runs);
        write_row(json, spc_scene_name(scene), spc_scene_rows(scene), times,
                  b->runs);
        if (spc_scene_rows(scene) > most)
            most = spc_scene_rows(scene);
    }
    if (count < 2)
        return;
    qsort(b->times, (size_t)all, sizeof(*b->times), compare_times);
    add_row(t, "all", most, b->times, all);
    write_row(json, "all", most, b->times, all);
}

static spc_status print(bench *b)
{
    static const char *const titles[] = {"scene",   ">voxels", ">-least us",
                                         ">p50 us", ">p90 us", ">p99 us",
                                         NULL};
    spc__buf text = SPC__BUF_INIT;
    spc__json json;
    table t;
    bool as_json = b->net.self->globals.json;

    table_init(&t, titles);
    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    each_row(b, &t, &json);
    spc__json_end_array(&json);
    if (!as_json) {
        printf("%s: %s, %s, %s; %.1f MB of tensors, %.1f MB "
               "of weights\n",
               b->net.info.name, spc__count(b->net.info.layers, "layer"),
               spc__count(b->net.info.sets, "set"),
               spc__count(b->net.info.maps, "map"),
               (double)spc_net_plan_memory_bytes(b->net.plan) * 1e-6,
               (double)spc_net_plan_weights_bytes(b->net.plan) * 1e-6);
        table_print(&t, stdout);
        if (b->verdict.layers > 0)
            printf("%s on every scene %s as the oracle says: largest error "
                   "over tolerance "
                   "%.2g (%s)\n",
                   spc__count(b->verdict.layers, "step"),
                   spc__either(b->verdict.layers, "is", "are"),
                   b->verdict.error, b->verdict.worst);
    }
    table_release(&t);
    if (as_json)
        return output_json(&text);
    spc__buf_release(&text);
    return SPC_OK;
}

static spc_status run_all(bench *b)
{
    uint64_t state = b->net.args->seed;
    size_t count = (size_t)b->net.scene_count * (size_t)b->runs;
    spc_status status = SPC_OK;

    b->times = malloc((count + 1) * sizeof(*b->times));
    if (b->times == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if ((status = spc_net_plan_capture(b->net.plan, &b->net.buffers)) != SPC_OK)
        return cli_fail_ctx(status, b->net.ctx);
    for (int run = 0; run < b->runs && status == SPC_OK; run++)
        status = each_scene(b, run, &state, time_scene);
    if (status == SPC_OK && b->net.args->keep)
        status = each_scene(b, b->runs, &state, verify_scene);
    return status == SPC_OK ? print(b) : status;
}

spc_status network_bench(cli *self, const network_args *args, int runs)
{
    bench b = {.runs = runs};
    spc_status status = network_open(&b.net, self, args);

    if (status == SPC_OK)
        status = run_all(&b);
    free(b.times);
    network_close(&b.net);
    return status;
}
