/* SPDX-License-Identifier: Apache-2.0 */
/* database.h - which database a command looks into, and whether it is there. */
#ifndef SPC_CMD_DATABASE_H
#define SPC_CMD_DATABASE_H

#include "base/buf.h"
#include "command/cli/cli.h"

/* The path of the database as spc.h describes it; "" if there is none. */
void cli_database_file(spc__buf *out, const cli *self);

/* Is there to be one? Its file may not be there yet. */
bool cli_has_database(const cli *self);

/* Looking must not create what is not there, nor go on without it. */
spc_status cli_database_there(const cli *self, const char *file);

#endif
