/* SPDX-License-Identifier: Apache-2.0 */
/* worker_limits.h - what a measuring worker may have of its machine. */
#ifndef SPC_TUNER_WORKER_LIMITS_H
#define SPC_TUNER_WORKER_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* The exit status of a worker that grew beyond its memory. */
enum { SPC__LIMITS_GROWN = 86 };

/* What a candidate may need besides what its worker has: half of the machine's
 * memory, and 4 GiB at least. */
int64_t spc__limits_memory(void);

/*
 * From now on the process may have so many bytes more than it has. Of address
 * space where `reserves` is false: what is beyond is refused, and the process
 * lives. A GPU's driver reserves address space at will, so there a thread looks
 * at the memory in use, and ends the process as SPC__LIMITS_GROWN. False: the
 * system has neither.
 */
bool spc__limits_grow(int64_t bytes, bool reserves);

/* From now on the process may have so many seconds of a processor more; then
 * SIGXCPU ends it. */
void spc__limits_compute(double seconds);

#endif
