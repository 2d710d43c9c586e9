/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the spctune command. */
#include "command/cli/idle.h"

#include "command/cli/output.h"
#include "command/cli/progress.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const cli_command *const cli_commands[] = {
    &cli_devices, &cli_tune,     &cli_bench,      &cli_run,    &cli_explain,
    &cli_space,   &cli_verify,   &cli_build,      &cli_scene,  &cli_db,
    &cli_net,     &cli_quantise, &cli_features,   &cli_layers, &cli_weights,
    &cli_audit,   &cli_report,   &cli_completion, &cli_help,   &cli_version,
    &cli_worker,  NULL,
};

static spc_status no_command(const cli *self)
{
    if (self->globals.json)
        return cli_fail(
            SPC_EINVAL,
            "a command is missing: 'spctune help' lists all commands");
    cli_help_short(self);
    return SPC_EINVAL;
}

static spc_status run_command(cli *self, void *args)
{
    idle_say_globals(self);
    return self->command->run(self, args);
}

static spc_status dispatch(cli *self, int argc, char **argv, void **args)
{
    spc_status status = cli_parse(self, argc, argv, args);

    if (status != SPC_OK || (status = cli_read_config(self, *args)) != SPC_OK ||
        (status = cli_check_outputs(self, *args)) != SPC_OK)
        return status;
    if (self->globals.version)
        return cli_version.run(self, NULL);
    if (self->globals.help_full)
        cli_help_full(self);
    else if (self->globals.help_short)
        cli_help_short(self);
    else if (self->command == NULL)
        return no_command(self);
    else
        return run_command(self, *args);
    return status;
}

/*
 * A full disk or a closed pipe must not look like success. An earlier write may
 * have failed, so that nothing is left to flush.
 */
static spc_status flush(spc_status status)
{
    int cause = fflush(stdout) != 0 ? errno : 0;
    bool is_lost = cause != 0 || ferror(stdout);

    if (is_lost && status == SPC_OK)
        status =
            cli_fail(SPC_EIO, "cannot write to standard output%s%s",
                     cause != 0 ? ": " : "", cause != 0 ? strerror(cause) : "");
    return status;
}

/* --json may come after the invalid word. */
static bool wants_json(const cli *self, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return self->globals.json;
}

static void free_warnings(cli *self)
{
    for (int i = 0; i < self->warnings.count; i++)
        free((char *)self->warnings.at[i]);
    free(self->warnings.at);
}

static void free_config(cli *self)
{
    for (int i = 0; i < self->config.count; i++)
        free((char *)self->config.at[i]);
    free(self->config.at);
}

static void free_lists(const cli_option *row, void *args)
{
    for (; args != NULL && row != NULL && (row->name != NULL || row->letter);
         row++)
        if (row->kind == CLI_LIST)
            free(((cli_list *)((char *)args + row->offset))->at);
}

/*
 * Without this, a file that we open could get the number of a standard stream
 * that the caller has closed, and output would go into the file. Opens
 * /dev/null for such streams, for reading, so that writing fails.
 */
static void fill_standard_streams(void)
{
    int file;

    do
        file = open("/dev/null", O_RDONLY);
    while (file >= 0 && file <= STDERR_FILENO);
    if (file >= 0)
        close(file);
}

int main(int argc, char **argv)
{
    cli_talk talk = {0};
    cli self = {.talk = &talk};
    void *args = NULL;
    spc_status status = SPC_OK;

    fill_standard_streams();
    /* a write beyond the size limit fails like on a full disk */
    signal(SIGXFSZ, SIG_IGN);
    status = dispatch(&self, argc, argv, &args);
    status = flush(status);
    if (status != SPC_OK && wants_json(&self, argc, argv))
        output_error();
    if (self.command != NULL)
        free_lists(self.command->options, args);
    free_lists(cli_global_options, &self.globals);
    cli_tidy();
    free(args);
    free(self.operands.at);
    free_warnings(&self);
    free_config(&self);
    if (status == SPC_EINTERRUPTED && cli_was_preempted())
        return CLI_PREEMPTED;
    return spc_status_exit_code(status);
}
