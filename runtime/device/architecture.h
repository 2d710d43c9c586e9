/* SPDX-License-Identifier: Apache-2.0 */
/* architecture.h - the GPU architectures whose limits are known. */
#ifndef SPC_RUNTIME_ARCHITECTURE_H
#define SPC_RUNTIME_ARCHITECTURE_H

#include <stdbool.h>

/* The limits of one target. */
typedef struct spc__architecture {
    const char *name; /* a target: "sm_90a" */
    int sm, shared_block, shared_sm, threads_sm, blocks_sm;
} spc__architecture;

/* The table ends with a row without a name. */
extern const spc__architecture spc__architectures[];

/* Returns NULL for a target that the table lacks. */
const spc__architecture *spc__architecture_find(const char *target);

/* Returns 90 for "sm_90" and "sm_90a", also where the table lacks them, and 0
 * for a target of another kind. Devices with equal numbers have the same
 * instructions, registers and shared memory: they are one architecture. */
int spc__architecture_sm(const char *target);

#endif
