/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - shows the progress of a run: on one line of a terminal,
 * otherwise as a line every few seconds, or as JSON.
 */
#ifndef SPC_CMD_PROGRESS_H
#define SPC_CMD_PROGRESS_H

#include "command/cli/cli.h"
#include "spc/tune.h"

typedef enum progress_mode {
    PROGRESS_NONE,
    PROGRESS_LINE, /* one line, which is overwritten */
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

/* Progress of `verify --all`. */
typedef struct progress_state {
    int done, total; /* total 0: unknown */
    int failed;
    double elapsed_s;
    const char *what; /* the current case */
} progress_state;

/*
 * Progress of a list of layers, each a run of its own. Several processes may
 * work on it: shared values are changed atomically, and each process has its
 * own lane.
 */
enum { PROGRESS_LANES = 64 };

typedef struct progress_lane {
    char device[16];
    int item; /* index from 0; -1: none */
    int done, total;
    double best_us, left_s;
} progress_lane;

typedef struct progress_board {
    int items, begun, ended;
    int timed;        /* number of items for which something was measured */
    int64_t timed_ns; /* total time of these items */
    uint64_t started_ns;
    double budget_s; /* time limit of the whole list; 0: none */
    int lanes;
    progress_lane lane[PROGRESS_LANES];
} progress_board;

void progress_init(progress *p, const cli *self);
void progress_show(progress *p, const spc_progress *state);
void progress_cases(progress *p, const progress_state *state);
/*
 * Shows the state of all lanes of a board; for the process that started them.
 */
void progress_lanes(progress *p, const progress_board *board);
/* Prints "planning the network, 12 s"; `most_s` is its latest end, or 0 if
 * unknown. */
void progress_note(progress *p, const char *what, double elapsed_s,
                   double most_s);
/*
 * Starts layer `item` (from 0) of a network: without a terminal as a line of
 * its own, on a terminal by the next progress_show().
 */
void progress_item(progress *p, const progress_board *board, int item,
                   const char *text);
void progress_clear(progress *p); /* ends the line before anything else is
                                   * printed */

/* Returns a lower bound of the seconds left for the list; negative: unknown. */
double progress_left(const progress_board *board);

#endif
