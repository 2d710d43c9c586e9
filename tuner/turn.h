/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.h - lets one process at a time tune a layer on a device. The others
 * wait, and then reuse its measurements.
 */
#ifndef SPC_TUNER_TURN_H
#define SPC_TUNER_TURN_H

#include "tuner/request.h"

typedef struct spc__turn {
    spc_ctx *ctx;
    spc__buf work; /* the leased work; empty: no lease */
    uint64_t renewed_ns;
} spc__turn;

/*
 * Waits until no other process tunes the layer. SPC_EINTERRUPTED; SPC_ETIMEOUT:
 * the run's budget ended first. A failure of the database does not block.
 */
spc_status spc__turn_take(spc__turn *turn, const spc__request *request);

/* Renews the lease; call it now and then during the run. */
void spc__turn_renew(spc__turn *turn);
void spc__turn_end(spc__turn *turn);

#endif
