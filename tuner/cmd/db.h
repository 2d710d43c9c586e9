/* db.h - the verbs of `spctune db`. */
#ifndef SPC_CMD_DB_H
#define SPC_CMD_DB_H

#include "cli.h"

typedef struct db_args {
    const char *output;
    bool code;
} db_args;

/* `words` are those behind the verb. */
typedef spc_status db_run(spc_ctx *ctx, cli *self, const db_args *args,
                          const char *const *words);

typedef struct db_verb {
    const char *name, *operands;
    int least, most; /* operands */
    bool creates;    /* the database need not be there */
    db_run *run;
} db_verb;

/* db_exchange.c */
db_run db_export, db_import, db_merge, db_diff;

#endif
