/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.c - the progress of a run.
 *
 * Quick runs print nothing: on a terminal a line appears after half a second
 * and then changes a few times a second; elsewhere a new line is printed every
 * five seconds. The remaining time is a lower bound, as a search may find more
 * to try.
 */
#include "command/cli/progress.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/plural.h"
#include "command/cli/terminal.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const words[] = {"none", "line", "plain", "json"};
/* Seconds between two lines, and before the first. */
static const double every_s[] = {
    [PROGRESS_LINE] = 0.2, [PROGRESS_PLAIN] = 5, [PROGRESS_JSON] = 0.5};
static const double after_s[] = {
    [PROGRESS_LINE] = 0.5, [PROGRESS_PLAIN] = 5, [PROGRESS_JSON] = 0};

/* The mode that --progress names. On a terminal, plain progress is one line
 * too. */
static progress_mode read_mode(const cli *self)
{
    const char *word = self->globals.progress;
    bool is_terminal = isatty(STDERR_FILENO);

    if (word == NULL && self->globals.quiet)
        return PROGRESS_NONE;
    for (int i = 0; word != NULL && i < 4; i++)
        if (i != PROGRESS_PLAIN && strcmp(word, words[i]) == 0)
            return (progress_mode)i;
    return is_terminal ? PROGRESS_LINE : PROGRESS_PLAIN;
}

void progress_init(progress *p, const cli *self)
{
    memset(p, 0, sizeof(*p));
    p->self = self;
    p->mode = read_mode(self);
    p->enabled = p->mode != PROGRESS_NONE;
}

/* ---- lines --------------------------------------------------------------- */

/* Seconds since the command's first progress. */
static double clock_of(const progress *p)
{
    return (double)(spc__now_ns() - p->self->talk->started_ns) * 1e-9;
}

/*
 * True if a line can be seen and has news. All runs of a command share one
 * clock.
 */
static bool is_due(progress *p)
{
    if (!p->enabled || *cli_cancel_flag())
        return false;
    cli_talk *talk = p->self->talk;
    if (talk->started_ns == 0)
        talk->started_ns = spc__now_ns();
    double now = clock_of(p);
    return now >= after_s[p->mode] &&
           (talk->last_s == 0 || now - talk->last_s >= every_s[p->mode]);
}

/* Prints a line; on a terminal it overwrites the one before, and is cut to the
 * width, as a wrapped line could not be overwritten. */
static void show(progress *p, const char *line)
{
    if (p->mode == PROGRESS_LINE)
        fprintf(stderr, "\r\033[K%.*s", terminal_width(stderr) - 1, line);
    else
        fprintf(stderr, "%s%s\n", p->mode == PROGRESS_PLAIN ? "spctune: " : "",
                line);
    fflush(stderr);
    p->shown = p->mode == PROGRESS_LINE;
    p->self->talk->last_s = clock_of(p);
}

void progress_clear(progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}

/*
 * Adds the time left: a lower bound if only a part of the work is known,
 * otherwise an estimate from the work done.
 */
static void add_time(spc__buf *to, const char *how, double seconds)
{
    if (seconds < 0)
        spc__buf_puts(to, "time left unknown");
    else if (seconds < 99.5)
        spc__buf_printf(to, "%s %.0f s left", how, seconds);
    else
        spc__buf_printf(to, "%s %.0f min left", how, seconds / 60);
}

/* ---- phases without a callback ------------------------------------------- */

void progress_note(progress *p, const char *what, double elapsed_s,
                   double most_s)
{
    spc__buf line = SPC__BUF_INIT;
    spc__json json;

    if (!is_due(p))
        return;
    if (p->mode == PROGRESS_JSON) {
        spc__json_init(&json, &line);
        spc__json_object(&json, NULL);
        spc__json_text(&json, "stage", what);
        spc__json_real(&json, "elapsed_s", elapsed_s);
        spc__json_end_object(&json);
    } else {
        spc__buf_printf(&line, "%s, %.0f s", what, elapsed_s);
        if (most_s > 0)
            spc__buf_printf(&line, " of at most %.0f s", most_s);
    }
    show(p, spc__buf_text(&line));
    spc__buf_release(&line);
}

/* ---- lists of layers ----------------------------------------------------- */

/* Seconds of the lane that needs longest for its current item; negative if a
 * lane's time is unknown. */
static double lane_left(const progress_board *board)
{
    double most = 0;

    for (int i = 0; i < board->lanes; i++) {
        const progress_lane *lane = &board->lane[i];
        if (lane->item >= 0 && lane->left_s < 0)
            return -1;
        if (lane->item >= 0 && lane->left_s > most)
            most = lane->left_s;
    }
    return most;
}

double progress_left(const progress_board *board)
{
    double spent = (double)(spc__now_ns() - board->started_ns) * 1e-9;
    double left = lane_left(board);
    int more = board->items - board->begun;

    if (more > 0 && board->timed == 0)
        left = -1; /* layers from the database took no time, so there is no
                    * estimate */
    else if (more > 0 && left >= 0)
        left += more * (double)board->timed_ns * 1e-9 / board->timed /
                (board->lanes > 0 ? board->lanes : 1);
    /* The budget ends the run even if the estimate is longer. */
    double end = board->budget_s - spent;
    if (board->budget_s > 0 && (left < 0 || left > end))
        left = end > 0 ? end : 0;
    return left;
}

/* With one lane the number of the current layer is shown; with several, only
 * the count of finished layers. */
static void add_items(spc__buf *line, const progress_board *board)
{
    if (board != NULL && board->items > 1 && board->lanes <= 1) {
        int at = board->ended < board->items ? board->ended + 1 : board->items;
        spc__buf_printf(line, "layer %d of %d, ", at, board->items);
        return;
    }
    if (board != NULL && board->items > 1)
        spc__buf_printf(line, "%d of %s, ", board->ended,
                        spc__count(board->items, "layer"));
}

void progress_lanes(progress *p, const progress_board *board)
{
    spc__buf line = SPC__BUF_INIT;

    if (!is_due(p))
        return;
    if (p->mode == PROGRESS_JSON) {
        spc__json json;
        spc__json_init(&json, &line);
        spc__json_object(&json, NULL);
        spc__json_int(&json, "layers", board->items);
        spc__json_int(&json, "ended", board->ended);
        spc__json_real(&json, "left_s", progress_left(board));
        spc__json_end_object(&json);
    } else {
        add_items(&line, board);
        add_time(&line, "about", progress_left(board));
        for (int i = 0; i < board->lanes; i++)
            if (board->lane[i].item >= 0)
                spc__buf_printf(&line, "; %s %d/%d", board->lane[i].device,
                                board->lane[i].done, board->lane[i].total);
    }
    show(p, spc__buf_text(&line));
    spc__buf_release(&line);
}

void progress_item(progress *p, const progress_board *board, int item,
                   const char *text)
{
    spc__buf line = SPC__BUF_INIT;

    if (!p->enabled || p->mode != PROGRESS_PLAIN || p->self->is_lane)
        return;
    if (p->self->talk->started_ns == 0)
        p->self->talk->started_ns = spc__now_ns();
    spc__buf_printf(&line, "layer %d of %d, ", item + 1, board->items);
    add_time(&line, "about", progress_left(board));
    spc__buf_printf(&line, ": %s", text);
    show(p, spc__buf_text(&line));
    spc__buf_release(&line);
}

/* ---- one layer ----------------------------------------------------------- */

static const char *const verbs[] = {"listing", "compiling", "verifying",
                                    "timing"};

static void write_state(spc__buf *line, const progress_board *board,
                        const spc_progress *state, double left_s)
{
    spc__json json;

    spc__json_init(&json, line);
    spc__json_object(&json, NULL);
    if (board != NULL) {
        spc__json_int(&json, "layers", board->items);
        spc__json_int(&json, "ended", board->ended);
    }
    spc__json_text(&json, "stage", verbs[state->stage]);
    spc__json_int(&json, "done", state->done);
    spc__json_int(&json, "total", state->total);
    spc__json_real(&json, "elapsed_s", state->elapsed_s);
    if (left_s >= 0)
        spc__json_real(&json, "left_s", left_s);
    if (state->best != NULL) {
        spc__json_real(&json, "best_us", state->best_us);
        spc__json_text(&json, "best", state->best);
    }
    spc__json_end_object(&json);
}

static void print_state(spc__buf *line, const progress_board *board,
                        const spc_progress *state, double left_s)
{
    add_items(line, board);
    spc__buf_printf(line, "%s %d/%d, ", verbs[state->stage], state->done,
                    state->total);
    add_time(line, board != NULL && board->items > 1 ? "about" : "at least",
             left_s);
    if (state->best != NULL)
        spc__buf_printf(line, ", best %.1f us: %s", state->best_us,
                        state->best);
}

static void note_lane(progress_lane *lane, const spc_progress *state)
{
    lane->done = state->done;
    lane->total = state->total;
    lane->left_s = state->left_s;
    lane->best_us = state->best_us;
}

void progress_show(progress *p, const spc_progress *state)
{
    const progress_board *board = p->self->board;
    double left_s = state->left_s;
    spc__buf line = SPC__BUF_INIT;

    if (p->self->lane != NULL)
        note_lane(p->self->lane, state);
    /* the parent prints the progress of its lanes */
    if (p->self->is_lane || !is_due(p))
        return;
    if (board != NULL && board->items > 0)
        left_s = progress_left(board);
    if (p->mode == PROGRESS_JSON)
        write_state(&line, board, state, left_s);
    else
        print_state(&line, board, state, left_s);
    show(p, spc__buf_text(&line));
    spc__buf_release(&line);
}

/* ---- verify --all -------------------------------------------------------- */

void progress_cases(progress *p, const progress_state *state)
{
    spc__buf line = SPC__BUF_INIT;

    if (!is_due(p))
        return;
    spc__buf_printf(&line, "verifying %d", state->done);
    if (state->total > 0)
        spc__buf_printf(&line, "/%d", state->total);
    spc__buf_printf(&line, ", %d failed, ", state->failed);
    if (state->total > 0 && state->done > 0) {
        add_time(&line, "about",
                 state->elapsed_s * (state->total - state->done) / state->done);
        spc__buf_puts(&line, ", ");
    }
    spc__buf_puts(&line, state->what);
    show(p, spc__buf_text(&line));
    spc__buf_release(&line);
}
