/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c - the hidden command that measures candidates for another spctune.
 */
#include "command/cli/cli.h"
#include "spc/tune.h"

#include <signal.h>

static spc_status command_worker(cli *self, void *args)
{
    spc_ctx *ctx = NULL;
    spc_status status;

    (void)args;
    /*
     * Ctrl-C reaches the whole process group, but the tuner decides whether the
     * worker ends.
     */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if ((status = cli_open(&ctx, self)) != SPC_OK)
        return status;
    if ((status = spc_tune_worker(ctx)) != SPC_OK)
        cli_fail_ctx(status, ctx);
    spc_ctx_free(ctx);
    return status;
}

const cli_command cli_worker = {
    .name = "worker",
    .operands = "",
    .more = "Measures candidates for the spctune that started it. Not for "
            "use by hand.",
    .run = command_worker,
};
