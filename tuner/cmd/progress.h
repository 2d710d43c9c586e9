/* progress.h - one line on a terminal that says how far a run is. */
#ifndef SPC_CMD_PROGRESS_H
#define SPC_CMD_PROGRESS_H

#include "cli.h"

typedef struct progress {
    bool enabled; /* a terminal, and not --quiet */
    bool shown;
    double last_s;
} progress;

/* How far `verify --all` is. */
typedef struct progress_state {
    int done, total; /* total 0: not known */
    int failed;
    double elapsed_s;
    const char *what; /* is verified now */
} progress_state;

void progress_init(progress *p, const cli *self);
void progress_show(progress *p, const spc_progress *state);
void progress_cases(progress *p, const progress_state *state);
void progress_clear(progress *p); /* before anything else is printed */

#endif
