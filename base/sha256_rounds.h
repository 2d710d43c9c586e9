/* SPDX-License-Identifier: Apache-2.0 */
/* sha256_rounds.h - one SHA-256 block by processor instructions, if
 * available. */
#ifndef SPC_BASE_SHA256_ROUNDS_H
#define SPC_BASE_SHA256_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

extern const uint32_t spc__sha256_constants[64];

/* True if the processor has the instructions. */
bool spc__sha256_is_fast(void);

/* Adds a block of 64 bytes to the state. Requires spc__sha256_is_fast(). */
void spc__sha256_compress_fast(uint32_t state[8], const void *block);

#endif
