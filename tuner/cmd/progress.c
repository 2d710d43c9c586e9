/*
 * progress.c - one line on a terminal that says how far a run is.
 *
 * Quick runs stay silent (nothing in the first half second), slow ones say
 * how far they are a few times a second.
 */
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void progress_init(progress *p, const cli *self)
{
    memset(p, 0, sizeof(*p));
    p->enabled = !self->globals.quiet && isatty(STDERR_FILENO);
}

static int terminal_width(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20)
        return size.ws_col - 1;
    return 79;
}

static int add_time(char *to, size_t bytes, double seconds)
{
    if (seconds < 0)
        return snprintf(to, bytes, "time left unknown");
    if (seconds < 99.5)
        return snprintf(to, bytes, "%.0f s left", seconds);
    return snprintf(to, bytes, "%.0f min left", seconds / 60);
}

/* Is there somebody to see it, and something new? */
static bool is_due(const progress *p, double elapsed_s)
{
    return p->enabled && !*cli_cancel_flag() && elapsed_s >= 0.5 &&
           (!p->shown || elapsed_s - p->last_s >= 0.2);
}

static void show(progress *p, const char *line, double elapsed_s)
{
    fprintf(stderr, "\r\033[K%.*s", terminal_width(), line);
    fflush(stderr);
    p->shown = true;
    p->last_s = elapsed_s;
}

void progress_cases(progress *p, const progress_state *state)
{
    char line[512];

    if (!is_due(p, state->elapsed_s))
        return;
    int used = snprintf(line, sizeof(line), "verifying %d", state->done);
    if (state->total > 0)
        used += snprintf(line + used, sizeof(line) - (size_t)used, "/%d",
                         state->total);
    used += snprintf(line + used, sizeof(line) - (size_t)used, ", %d failed, ",
                     state->failed);
    if (state->total > 0 && state->done > 0) {
        double left = state->elapsed_s * (state->total - state->done);
        used += add_time(line + used, sizeof(line) - (size_t)used,
                         left / state->done);
        used += snprintf(line + used, sizeof(line) - (size_t)used, ", ");
    }
    snprintf(line + used, sizeof(line) - (size_t)used, "%s", state->what);
    show(p, line, state->elapsed_s);
}

void progress_show(progress *p, const spc_progress *state)
{
    static const char *const verbs[] = {"listing", "compiling", "verifying",
                                        "timing"};
    char line[512];

    if (!is_due(p, state->elapsed_s))
        return;
    int used = snprintf(line, sizeof(line), "%s %d/%d, ", verbs[state->stage],
                        state->done, state->total);
    used += add_time(line + used, sizeof(line) - (size_t)used, state->left_s);
    if (state->best != NULL)
        snprintf(line + used, sizeof(line) - (size_t)used, ", best %.1f us: %s",
                 state->best_us, state->best);
    show(p, line, state->elapsed_s);
}

void progress_clear(progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}
