/* SPDX-License-Identifier: Apache-2.0 */
/* worker_limits.h - limits of memory and processor time for a worker. */
#ifndef SPC_TUNER_WORKER_LIMITS_H
#define SPC_TUNER_WORKER_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* The exit status of a worker that grew beyond its memory. */
enum { SPC__LIMITS_GROWN = 86 };

/*
 * Memory that a candidate may need in addition to its worker's: half of the
 * machine's, and at least 4 GiB.
 */
int64_t spc__limits_memory(void);

/*
 * Lets the process grow by `bytes` from now on. If `reserves` is false, this
 * limits address space: further allocations fail, and the process lives. A
 * GPU's driver reserves address space at will, so there a thread watches the
 * memory in use, and ends the process with SPC__LIMITS_GROWN. False if the
 * system supports neither.
 */
bool spc__limits_grow(int64_t bytes, bool reserves);

/*
 * Limits the process to this many more seconds of processor time; then SIGXCPU
 * ends it.
 */
void spc__limits_compute(double seconds);

#endif
