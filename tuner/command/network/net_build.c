/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_build.c - spctune net build: compiles all kernels of a network for GPUs
 * that are not here.
 *
 * The device of a target compiles and stores what a plan on it asks for:
 * layers, operators, sets and maps. The kernels are those of defaults, since
 * nothing was measured on the target. A pack of this database then serves such
 * a GPU with neither Lua nor a compiler.
 */
#include "base/plural.h"
#include "command/cli/output.h"
#include "command/network/net.h"

#include <stdio.h>
#include <string.h>

/* Builds for one target. One replay, in which nothing runs, also asks for
 * kernels that are first needed when a frame starts. */
static spc_status build_target(network *n, cli *self, const network_args *args,
                               const char *target)
{
    double us;
    spc_status status;

    self->globals.device = target;
    if ((status = network_open(n, self, args)) != SPC_OK ||
        (status = network_upload(n, 0)) != SPC_OK)
        return status;
    status = spc_net_plan_capture(n->plan, &n->buffers);
    return status == SPC_OK ? network_replay(n, &us)
                            : cli_fail_ctx(status, n->ctx);
}

static void report(const network *n, const char *target, double ms,
                   spc__json *json)
{
    spc_stats stats = spc_ctx_stats(n->ctx);
    int64_t kernels = stats.compiles + stats.artefacts_loaded;

    if (json == NULL) {
        printf("%s for %s: %s, %lld compiled now; %.3g s\n", n->args->file,
               target, spc__count((long long)kernels, "kernel"),
               (long long)stats.compiles, ms * 1e-3);
        return;
    }
    spc__json_object(json, NULL);
    spc__json_text(json, "network", n->args->file);
    spc__json_text(json, "target", target);
    spc__json_int(json, "kernels", kernels);
    spc__json_int(json, "compiled", stats.compiles);
    spc__json_real(json, "elapsed_s", ms * 1e-3);
    spc__json_end_object(json);
}

spc_status net_build(cli *self, const network_args *args,
                     const cli_list *targets)
{
    const char *device = self->globals.device;
    spc__buf text = SPC__BUF_INIT;
    spc__json json, *to = self->globals.json ? &json : NULL;
    spc_status status = SPC_OK;

    spc__json_init(&json, &text);
    spc__json_array(&json, NULL);
    for (int i = 0; i < targets->count && status == SPC_OK; i++) {
        double start = network_clock_ms();
        network n = {0};
        status = build_target(&n, self, args, targets->at[i]);
        if (status == SPC_OK)
            report(&n, targets->at[i], network_clock_ms() - start, to);
        network_close(&n);
    }
    self->globals.device = device;
    spc__json_end_array(&json);
    if (to != NULL && status == SPC_OK)
        return output_json(&text);
    spc__buf_release(&text);
    return status;
}
