/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - the file of defaults.
 *
 *   # these lines are for all commands
 *   device = cuda:1
 *   [tune]
 *   budget = 10m
 *
 * A line is the long name of an option, "=", and its value; "yes" or "no" for a
 * flag. Lines before the first "[COMMAND]" apply to all commands that have the
 * option. The command line takes precedence.
 */
#include "command/cli/cli.h"

#include "base/owner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct config {
    cli *self;
    void *args;
    const char *path;
    int line;
    const cli_command *section; /* NULL: the lines apply to all commands */
} config;

static spc_status fail_line(const config *c, const char *text, const char *what)
{
    return cli_fail(SPC_EINVAL, "%s:%d: '%s' %s", c->path, c->line, text, what);
}

/* ---- one option ---------------------------------------------------------- */

/* True for an option of the command line, which wins. */
static bool is_given(const cli *self, const cli_option *option)
{
    for (int i = 0; i < self->given_count; i++)
        if (self->given[i] == option)
            return true;
    return false;
}

/* True for an option of any command; options of other commands are ignored. */
static bool is_known(const config *c, const char *name)
{
    if (c->section != NULL)
        return cli_find_option(c->section->options, name) != NULL ||
               cli_find_option(cli_global_options, name) != NULL;
    for (int i = 0; cli_commands[i] != NULL; i++)
        if (cli_find_option(cli_commands[i]->options, name) != NULL)
            return true;
    return cli_find_option(cli_global_options, name) != NULL;
}

/* Sets a flag. Here, unlike on the command line, the value may be "no". */
static spc_status set_flag(const config *c, const cli_option *option,
                           void *base, const char *value)
{
    if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
        return fail_line(c, value, "is neither yes nor no");
    *(bool *)((char *)base + option->offset) = value[0] == 'y';
    return SPC_OK;
}

/* The value must outlive the reader. */
static spc_status set(const config *c, const cli_option *option, void *base,
                      const char *value)
{
    char *copy;
    spc_status status;

    if (is_given(c->self, option))
        return SPC_OK;
    if (option->kind == CLI_FLAG)
        return set_flag(c, option, base, value);
    if ((copy = strdup(value)) == NULL)
        return cli_fail(SPC_ENOMEM, "out of memory");
    if ((status = cli_append(&c->self->config, copy)) != SPC_OK) {
        free(copy);
        return status;
    }
    if ((status = cli_store(option, base, copy)) != SPC_OK)
        cli_say(c->self, "spctune: this option is from %s:%d", c->path,
                c->line);
    return status;
}

/* Sets an option if it applies to the command. A name that no command has is a
 * mistake, even in a section of another one. */
static spc_status set_option(const config *c, const char *name,
                             const char *value)
{
    const cli_command *command = c->self->command;
    const cli_option *option = NULL;

    if (!is_known(c, name))
        return fail_line(c, name, "is not a known option");
    if (c->section != NULL && c->section != command)
        return SPC_OK;
    if (command != NULL && c->args != NULL)
        option = cli_find_option(command->options, name);
    if (option != NULL)
        return set(c, option, c->args, value);
    option = cli_find_option(cli_global_options, name);
    return option != NULL ? set(c, option, &c->self->globals, value) : SPC_OK;
}

/* ---- lines --------------------------------------------------------------- */

/* Removes blanks at both ends. */
static char *trim(char *text)
{
    static const char blanks[] = " \t\r\n";
    size_t length;

    text += strspn(text, blanks);
    for (length = strlen(text);
         length > 0 && strchr(blanks, text[length - 1]) != NULL; length--)
        text[length - 1] = '\0';
    return text;
}

/* "[COMMAND]". */
static spc_status begin_section(config *c, char *line)
{
    size_t length = strlen(line);

    if (line[length - 1] != ']')
        return fail_line(c, line, "does not end with ']'");
    line[length - 1] = '\0';
    c->section = cli_find_command(trim(line + 1));
    return c->section != NULL
               ? SPC_OK
               : fail_line(c, trim(line + 1), "is not a known command");
}

static spc_status read_line(config *c, char *text)
{
    char *line = trim(text), *equals;

    if (line[0] == '\0' || line[0] == '#')
        return SPC_OK;
    if (line[0] == '[')
        return begin_section(c, line);
    if ((equals = strchr(line, '=')) == NULL)
        return fail_line(c, line, "is not a line such as 'effort = quick'");
    *equals = '\0';
    return set_option(c, trim(line), trim(equals + 1));
}

static spc_status read_lines(config *c, FILE *file)
{
    char *line = NULL;
    size_t capacity = 0;
    spc_status status = SPC_OK;

    while (status == SPC_OK && getline(&line, &capacity, file) >= 0) {
        c->line++;
        status = read_line(c, line);
    }
    free(line);
    return status;
}

/* ---- the file ------------------------------------------------------------ */

/* Finds the file. Returns false if there is no place for it. */
static bool find_path(char *out, size_t bytes, bool *must_be)
{
    const char *own = getenv("SPC_CONFIG");
    const char *folder = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int length = 0;

    *must_be = own != NULL;
    if (own != NULL)
        length = snprintf(out, bytes, "%s", own);
    else if (folder != NULL && folder[0] == '/')
        length = snprintf(out, bytes, "%s/spctune/config", folder);
    else if (home != NULL && home[0] != '\0')
        length = snprintf(out, bytes, "%s/.config/spctune/config", home);
    return length > 0 && length < (int)bytes;
}

/*
 * Options select the templates and databases that are run, so the file must
 * belong to the user, unless the user names it.
 */
static spc_status check_owner(const char *path)
{
    static const char *const alone[] = {NULL};
    spc_error error;

    return spc__owner_check(path, alone, "name it in SPC_CONFIG", &error) ==
                   SPC_OK
               ? SPC_OK
               : cli_fail(SPC_EIO, "%s", error.text);
}

spc_status cli_read_config(cli *self, void *args)
{
    char path[4096];
    bool must_be;
    config c = {.self = self, .args = args, .path = path};

    /* A worker gets its options from its tuner. */
    if (self->command == &cli_worker ||
        !find_path(path, sizeof(path), &must_be))
        return SPC_OK;
    FILE *file = fopen(path, "r");
    if (file == NULL && !must_be) {
        if (errno != ENOENT && errno != ENOTDIR) /* HOME may be /dev/null */
            cli_say(self, "warning: continuing without '%s': %s", path,
                    strerror(errno));
        return SPC_OK;
    }
    if (file == NULL)
        return cli_fail(SPC_EIO, "cannot read '%s': %s", path, strerror(errno));
    spc_status status = must_be ? SPC_OK : check_owner(path);
    if (status == SPC_OK)
        status = read_lines(&c, file);
    if (status == SPC_OK && ferror(file)) /* true for a folder, for example */
        status =
            cli_fail(SPC_EIO, "cannot read '%s': %s", path, strerror(errno));
    fclose(file);
    return status;
}
