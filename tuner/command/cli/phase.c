/* SPDX-License-Identifier: Apache-2.0 */
/* phase.c - shows that a long call is still running. */
#include "command/cli/phase.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* The interval at which the thread checks whether a line is due. */
static const long tick_ns = 200 * 1000 * 1000;

/* Waits for the interval; false if the phase has ended. */
static bool wait_tick(phase *p)
{
    struct timespec until;
    int woken = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += tick_ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!p->has_ended && woken != ETIMEDOUT)
        woken = pthread_cond_timedwait(&p->wake, &p->lock, &until);
    return !p->has_ended;
}

/*
 * The lock is held while a line is printed, so that none is printed after the
 * end.
 */
static void *show_phase(void *payload)
{
    phase *p = payload;

    pthread_mutex_lock(&p->lock);
    while (wait_tick(p))
        progress_note(&p->progress, p->what,
                      (double)(spc__now_ns() - p->began_ns) * 1e-9, p->most_s);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

void phase_begin(phase *p, const cli *self, const char *what, double most_s)
{
    pthread_condattr_t steady;

    memset(p, 0, sizeof(*p));
    progress_init(&p->progress, self);
    if (!p->progress.enabled || self->is_lane)
        return;
    p->what = what;
    p->most_s = most_s;
    p->began_ns = spc__now_ns();
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, &steady);
    pthread_condattr_destroy(&steady);
    p->is_shown = pthread_create(&p->thread, NULL, show_phase, p) == 0;
    if (!p->is_shown) { /* continue without progress */
        pthread_cond_destroy(&p->wake);
        pthread_mutex_destroy(&p->lock);
    }
}

void phase_end(phase *p)
{
    if (!p->is_shown)
        return;
    pthread_mutex_lock(&p->lock);
    p->has_ended = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    progress_clear(&p->progress);
    p->is_shown = false;
}
