/* SPDX-License-Identifier: Apache-2.0 */
/* help.c - usage and help, generated from the tables. */
#include "command/cli/cli.h"

#include "command/cli/output.h"
#include <stdio.h>
#include <string.h>

/* Prints " -d, --device DEVICE description", wrapped after `width`. */
static void print_option(const cli_option *option)
{
    enum { COLUMN = 28, WIDTH = 78 };
    char head[64];
    int used = snprintf(head, sizeof(head), "  %c%c%s%s%s%s%s",
                        option->letter ? '-' : ' ',
                        option->letter ? option->letter : ' ',
                        option->name == NULL ? ""
                        : option->letter     ? ", --"
                                             : "  --",
                        option->name != NULL ? option->name : "",
                        option->value != NULL ? " " : "",
                        option->value != NULL ? option->value : "", "");
    const char *at = option->help;

    printf("%s", head);
    if (used > COLUMN - 2) {
        putchar('\n');
        used = 0;
    }
    while (*at != '\0') {
        size_t length = strlen(at);
        printf("%*s", COLUMN - used, "");
        if (length > WIDTH - COLUMN) {
            length = WIDTH - COLUMN;
            while (length > 0 && at[length] != ' ')
                length--;
        }
        printf("%.*s\n", (int)length, at);
        at += length;
        at += *at == ' ';
        used = 0;
    }
}

static void print_options(const char *title, const cli_option *rows)
{
    if (rows == NULL || (rows->name == NULL && rows->letter == 0))
        return;
    printf("\n%s\n", title);
    for (; rows->name != NULL || rows->letter != 0; rows++)
        print_option(rows);
}

static void print_commands(void)
{
    puts("\ncommands:");
    for (int i = 0; cli_commands[i] != NULL; i++)
        if (cli_commands[i]->summary != NULL)
            printf("  %-10s %s\n", cli_commands[i]->name,
                   cli_commands[i]->summary);
}

static void print_usage(const cli *self)
{
    const cli_command *command = self->command;

    if (command == NULL)
        puts("usage: spctune [OPTION...] COMMAND [ARGUMENT...]");
    else
        printf("usage: spctune %s%s%s%s\n", command->name,
               command->options != NULL ? " [OPTION...]" : "",
               command->operands[0] != '\0' ? " " : "", command->operands);
}

void cli_help_short(const cli *self)
{
    print_usage(self);
    if (self->command != NULL && self->command->summary != NULL)
        printf("%s\n", self->command->summary);
    if (self->command == NULL)
        print_commands();
    else
        print_options("options:", self->command->options);
    printf("\n'spctune %s--help' says more.\n",
           self->command != NULL ? "COMMAND " : "");
}

static void print_exit_statuses(void)
{
    static const char *const texts[256] = {
#define X(name, value, code, text) [code] = text,
        SPC_STATUS_MAP(X)
#undef X
            [CLI_PREEMPTED] =
                "stopped by SIGTERM or SIGUSR1: tune continues when run again",
    };

    puts("\nexit statuses:");
    for (int code = 0; code < 256; code++)
        if (texts[code] != NULL)
            printf("  %d\t%s\n", code, texts[code]);
}

void cli_help_full(const cli *self)
{
    print_usage(self);
    if (self->command == NULL) {
        puts("\nGenerates, specialises and tunes kernels for sparse 3D "
             "convolution.");
        print_commands();
    } else {
        printf("\n%s\n", self->command->more);
        print_options("options:", self->command->options);
    }
    print_options("options of all commands:", cli_global_options);
    if (self->command == NULL)
        print_exit_statuses();
    else
        puts("\n'spctune --help' explains the exit statuses.");
}

static spc_status command_help(cli *self, void *args)
{
    cli other = {0};

    (void)args;
    if (self->operands.count > 1)
        return cli_fail(SPC_EINVAL, "help explains one command at a time");
    if (self->operands.count == 1) {
        const char *name = self->operands.at[0];
        if ((other.command = cli_find_command(name)) == NULL)
            return cli_unknown_command(name);
    }
    cli_help_full(&other);
    return SPC_OK;
}

static spc_status print_version(cli *self, void *args)
{
    spc__buf text = SPC__BUF_INIT;
    spc__json json;

    (void)args;
    if (!self->globals.json) {
        puts("spctune " SPC_VERSION_TEXT);
        return SPC_OK;
    }
    spc__json_init(&json, &text);
    spc__json_object(&json, NULL);
    spc__json_text(&json, "version", SPC_VERSION_TEXT);
    spc__json_end_object(&json);
    return output_json(&text);
}

const cli_command cli_version = {
    .name = "version",
    .operands = "",
    .more = "Prints the version, as --version and -V do.",
    .run = print_version,
};

const cli_command cli_help = {
    .name = "help",
    .operands = "[COMMAND]",
    .more = "Explains spctune, or one of its commands, in full.",
    .run = command_help,
};
