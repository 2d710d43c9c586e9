/* SPDX-License-Identifier: Apache-2.0 */
/* db.h - the verbs of `spctune db`. */
#ifndef SPC_CMD_DB_H
#define SPC_CMD_DB_H

#include "command/cli/cli.h"

typedef struct db_args {
    const char *output;
    const char *only; /* number of a trial, as `db show` lists it */
    bool code, choices, losers, stale, all, whole;
    double days;
} db_args;

/* `words` are those after the verb. */
typedef spc_status db_run(spc_ctx *ctx, cli *self, const db_args *args,
                          const char *const *words);

typedef struct db_verb {
    const char *name, *operands;
    int least, most;  /* number of operands */
    const char *used; /* letters of the options that it uses */
    bool creates;     /* the database need not exist */
    db_run *run;
} db_verb;

/* Reads a positive whole number; returns 0 for any other text. */
int64_t db_read_id(const char *text);

/* db_exchange.c */
db_run db_export, db_import, db_merge, db_diff;

/* db_keep.c */
db_run db_pack, db_prune, db_release, db_pin;

#endif
