/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle.c - reports options that have no effect.
 *
 * Some options apply only to one form of a command, and a user who gives one to
 * another form expects an effect.
 */
#include "command/cli/idle.h"

#include <stdbool.h>
#include <string.h>

/* True if it is one of the names, which are separated by blanks. */
static bool is_among(const char *names, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = names; (at = strstr(at, name)) != NULL; at++)
        if ((at == names || at[-1] == ' ') &&
            (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static bool is_of(const cli_option *table, const cli_option *option)
{
    while (table->name != NULL && table != option)
        table++;
    return table->name != NULL;
}

static void say(const cli *self, int i, const char *where)
{
    for (int before = 0; before < i; before++)
        if (self->given[before] == self->given[i])
            return;
    cli_say(self, "spctune: --%s has no effect %s", self->given[i]->name,
            where);
}

void idle_say(const cli *self, const char *where, const char *names)
{
    for (int i = 0; i < self->given_count; i++)
        if (self->given[i]->name != NULL &&
            is_among(names, self->given[i]->name))
            say(self, i, where);
}

void idle_say_but(const cli *self, const char *where, const char *names)
{
    for (int i = 0; i < self->given_count; i++)
        if (is_of(self->command->options, self->given[i]) &&
            !is_among(names, self->given[i]->name))
            say(self, i, where);
}

spc_status idle_take_one(const cli *self, const char *names)
{
    for (int i = 0; i < self->given_count; i++)
        for (int j = 0; j < i; j++)
            if (self->given[i] == self->given[j] &&
                self->given[i]->name != NULL &&
                is_among(names, self->given[i]->name))
                return cli_fail(SPC_EINVAL, "--%s is given twice",
                                self->given[i]->name);
    return SPC_OK;
}

/*
 * Options of all commands that some commands ignore: these open no context, or
 * no database, or show no progress.
 */
static const struct {
    const char *command, *names;
} idle_globals[] = {
    {"completion",
     "device database db layer-db trust key templates allow threads "
     "json progress"},
    {"layers", "device database db layer-db trust key templates allow threads "
               "progress"},
    {"weights", "device database db layer-db trust key templates allow threads "
                "progress"},
    {"scene", "device database db layer-db trust key templates allow progress"},
    {"db", "progress"},
    {"devices", "progress"},
    {"explain", "progress"},
    {"features", "progress"},
    {"net", "progress"},
    {"report", "progress"},
    {"space", "progress"},
};

void idle_say_globals(const cli *self)
{
    enum { COUNT = sizeof(idle_globals) / sizeof(*idle_globals) };
    char where[40] = "on ";

    for (int i = 0; i < COUNT; i++)
        if (strcmp(idle_globals[i].command, self->command->name) == 0) {
            strncat(where, self->command->name, sizeof(where) - 4);
            idle_say(self, where, idle_globals[i].names);
        }
}
