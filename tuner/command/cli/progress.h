/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - says how far a run is: on a line of a terminal, else a line
 * every few seconds, or as JSON for programs.
 */
#ifndef SPC_CMD_PROGRESS_H
#define SPC_CMD_PROGRESS_H

#include "command/cli/cli.h"

typedef enum progress_mode {
    PROGRESS_NONE,
    PROGRESS_LINE, /* one, overwritten again and again */
    PROGRESS_PLAIN,
    PROGRESS_JSON
} progress_mode;

typedef struct progress {
    const cli *self;
    progress_mode mode;
    bool enabled;
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

/*
 * How far a list of layers is, of which each is a run of its own. Several
 * processes may work on it: what they share is changed atomically, and each has
 * a lane of its own.
 */
enum { PROGRESS_LANES = 64 };

typedef struct progress_lane {
    char device[16];
    int item; /* from 0; -1: none */
    int done, total;
    double best_us, left_s;
} progress_lane;

typedef struct progress_board {
    int items, begun, ended;
    int timed;        /* items for which something was measured */
    int64_t timed_ns; /* and how long these took, together */
    uint64_t started_ns;
    double budget_s; /* of the whole list; 0: none */
    int lanes;
    progress_lane lane[PROGRESS_LANES];
} progress_board;

void progress_init(progress *p, const cli *self);
void progress_show(progress *p, const spc_progress *state);
void progress_cases(progress *p, const progress_state *state);
/* What all lanes of a board are at; for the process that began them. */
void progress_lanes(progress *p, const progress_board *board);
/* "planning the network, 12 s"; `most_s`: it ends by then, 0: not known. */
void progress_note(progress *p, const char *what, double elapsed_s,
                   double most_s);
/* Layer `item` from 0 of a network begins: without a terminal a line of its
 * own, on one progress_show() says so. */
void progress_item(progress *p, const progress_board *board, int item,
                   const char *text);
void progress_clear(progress *p); /* before anything else is printed */

/* Seconds that are left for the list, at the least; below 0: not known. */
double progress_left(const progress_board *board);

#endif
