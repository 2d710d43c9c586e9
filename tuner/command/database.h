/* SPDX-License-Identifier: Apache-2.0 */
/* database.h - the database of a command, and whether it exists. */
#ifndef SPC_CMD_DATABASE_H
#define SPC_CMD_DATABASE_H

#include "base/buf.h"
#include "command/cli/cli.h"

/* Writes the path of the database as spc.h describes it; "" without one. */
void cli_database_file(spc__buf *out, const cli *self);

/* True if the options ask for a database. Its file may not exist yet. */
bool cli_has_database(const cli *self);

/*
 * Fails unless the file exists: commands that read must neither create it nor
 * go on without it.
 */
spc_status cli_database_there(const cli *self, const char *file);

#endif
