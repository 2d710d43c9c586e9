/* SPDX-License-Identifier: Apache-2.0 */
/* random.h - a small seeded generator (splitmix64; Steele et al. 2014). */
#ifndef SPC_BASE_RANDOM_H
#define SPC_BASE_RANDOM_H

#include <stdint.h>

typedef struct spc__random {
    uint64_t state;
} spc__random;

void spc__random_init(spc__random *random, uint64_t seed);
uint64_t spc__random_u64(spc__random *random);
uint32_t spc__random_below(spc__random *random, uint32_t bound); /* unbiased */
double spc__random_unit(spc__random *random); /* [0, 1), 53 bits */

#endif
