/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.h - one process at a time tunes a layer on a device: the others wait for
 * their turn, and then know what the first has measured.
 */
#ifndef SPC_TUNER_TURN_H
#define SPC_TUNER_TURN_H

#include "tuner/request.h"

typedef struct spc__turn {
    spc_ctx *ctx;
    spc__buf work; /* what is leased; empty: nothing */
    uint64_t renewed_ns;
} spc__turn;

/* Waits until nobody else tunes the layer. SPC_EINTERRUPTED; SPC_ETIMEOUT: the
 * run's budget ended first. Trouble with the database is no reason to wait. */
spc_status spc__turn_take(spc__turn *turn, const spc__request *request);

/* Now and then, while the run goes on. */
void spc__turn_renew(spc__turn *turn);
void spc__turn_end(spc__turn *turn);

#endif
