/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.c - checks the output files of a command before its work starts. */
#include "command/cli/cli.h"

#include "base/overwrite.h"
#include <string.h>
#include <sys/stat.h>

typedef struct named {
    const char *option; /* NULL: the file is an operand of the command */
    const char *path;
} named;

/*
 * True if both names are of one file, or are equal and the file does not exist
 * yet. Devices and pipes may be named twice.
 */
static bool is_same(const char *a, const char *b)
{
    struct stat one, two;

    if (stat(a, &one) != 0 || stat(b, &two) != 0)
        return strcmp(a, b) == 0;
    return S_ISREG(one.st_mode) && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

static bool is_file(const cli_option *row)
{
    return row->value != NULL && strcmp(row->value, "FILE") == 0;
}

static const char *text_of(const cli_option *row, const void *base)
{
    return *(const char *const *)((const char *)base + row->offset);
}

static const cli_list *list_of(const cli_option *row, const void *base)
{
    return (const cli_list *)((const char *)base + row->offset);
}

static bool is_end(const cli_option *row)
{
    return row->name == NULL && row->letter == 0;
}

static spc_status compare(const cli_option *output, const char *path,
                          const char *option, const char *other)
{
    if (other == NULL || other[0] == '\0' || !is_same(path, other))
        return SPC_OK;
    return cli_fail(SPC_EINVAL,
                    "--%s: '%s' is also what %s%s names, and would be lost; "
                    "name another file",
                    output->name, path, option != NULL ? "--" : "",
                    option != NULL ? option : "an operand");
}

/* Compares the output with the other files of one option table. */
static spc_status compare_table(const cli_option *output, const char *path,
                                const cli_option *row, const void *base)
{
    spc_status status = SPC_OK;

    for (; status == SPC_OK && !is_end(row); row++) {
        if (row == output || !is_file(row))
            continue;
        if (row->kind == CLI_TEXT || row->kind == CLI_OUT)
            status = compare(output, path, row->name, text_of(row, base));
        for (int i = 0; row->kind == CLI_LIST && status == SPC_OK &&
                        i < list_of(row, base)->count;
             i++)
            status =
                compare(output, path, row->name, list_of(row, base)->at[i]);
    }
    return status;
}

/* Checks only commands whose operands are files; other operands are verbs and
 * the like. */
static spc_status compare_operands(const cli_option *output, const char *path,
                                   const cli *self)
{
    bool are_files = strncmp(self->command->operands, "FILE", 4) == 0;
    spc_status status = SPC_OK;

    for (int i = 0; are_files && status == SPC_OK && i < self->operands.count;
         i++)
        status = compare(output, path, NULL, self->operands.at[i]);
    return status;
}

static spc_status check(const cli *self, const cli_option *output,
                        const char *path, const void *args)
{
    spc_error error = {0};

    if (spc__overwrite_check(path, NULL, 0, &error) != SPC_OK)
        return cli_fail(error.status, "--%s: %s", output->name, error.text);
    spc_status status =
        compare_table(output, path, self->command->options, args);
    if (status == SPC_OK)
        status =
            compare_table(output, path, cli_global_options, &self->globals);
    return status == SPC_OK ? compare_operands(output, path, self) : status;
}

spc_status cli_check_outputs(const cli *self, const void *args)
{
    spc_status status = SPC_OK;

    if (self->command == NULL || self->command->options == NULL)
        return SPC_OK;
    for (const cli_option *row = self->command->options;
         status == SPC_OK && !is_end(row); row++)
        if (row->kind == CLI_OUT && text_of(row, args) != NULL)
            status = check(self, row, text_of(row, args), args);
    return status;
}
