/* SPDX-License-Identifier: Apache-2.0 */
/*
 * phase.h - shows progress on standard error during a long call without
 * callbacks, such as planning a network.
 */
#ifndef SPC_CMD_PHASE_H
#define SPC_CMD_PHASE_H

#include "command/cli/progress.h"

#include <pthread.h>

typedef struct phase {
    progress progress;
    const char *what;
    double most_s; /* longest possible duration; 0: unknown */
    uint64_t began_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_shown, has_ended;
} phase;

/*
 * Between the two calls the caller prints nothing. `what` must live until the
 * end: "planning the network".
 */
void phase_begin(phase *p, const cli *self, const char *what, double most_s);
void phase_end(phase *p);

#endif
