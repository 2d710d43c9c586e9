/* SPDX-License-Identifier: Apache-2.0 */
/* idle.h - reports given options that have no effect. */
#ifndef SPC_CMD_IDLE_H
#define SPC_CMD_IDLE_H

#include "command/cli/cli.h"

/*
 * Reports those of these names, separated by blanks, that were given on the
 * command line; `where` ends the message: "with --all".
 */
void idle_say(const cli *self, const char *where, const char *names);

/* Reports the command's own options except these. */
void idle_say_but(const cli *self, const char *where, const char *names);

/* Fails if two of these options were given, as only one can have an effect. */
spc_status idle_take_one(const cli *self, const char *names);

/* Reports the options of all commands that this one ignores. */
void idle_say_globals(const cli *self);

#endif
