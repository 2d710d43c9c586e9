/* SPDX-License-Identifier: Apache-2.0 */
/* idle.h - says which options that were given do nothing. */
#ifndef SPC_CMD_IDLE_H
#define SPC_CMD_IDLE_H

#include "command/cli/cli.h"

/* Those of these names, with blanks between them, that were given on the
 * command line; `where` ends the sentence: "with --all". */
void idle_say(const cli *self, const char *where, const char *names);

/* Those of the command's own options but these. */
void idle_say_but(const cli *self, const char *where, const char *names);

/* Of an option among the names one is taken: a second would be dropped. */
spc_status idle_take_one(const cli *self, const char *names);

/* Those of all commands that this one has no use for. */
void idle_say_globals(const cli *self);

#endif
