/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work_lease.h - lets one process at a time tune a layer on a device. The
 * others wait, and then reuse its measurements.
 */
#ifndef SPC_TUNER_WORK_LEASE_H
#define SPC_TUNER_WORK_LEASE_H

#include "tuner/request.h"

typedef struct spc__work_lease {
    spc_ctx *ctx;
    spc__buf work; /* name of the leased work; empty: no lease */
    uint64_t renewed_ns;
} spc__work_lease;

/*
 * Waits until no other process tunes the layer. SPC_EINTERRUPTED; SPC_ETIMEOUT:
 * the run's budget ended first. A failure of the database does not block.
 */
spc_status spc__work_lease_take(spc__work_lease *lease,
                                const spc__request *request);

/* Renews the lease; call it now and then during the run. */
void spc__work_lease_renew(spc__work_lease *lease);
void spc__work_lease_drop(spc__work_lease *lease);

#endif
