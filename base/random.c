/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - splitmix64 and the distributions that the project samples from. */
#include "base/random.h"

void spc__random_init(spc__random *random, uint64_t seed)
{
    random->state = seed;
}

uint64_t spc__random_u64(spc__random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The high half of word * bound is uniform if the low halves that would occur
 * once too often are rejected (Lemire 2019). */
uint32_t spc__random_below(spc__random *random, uint32_t bound)
{
    if (bound == 0)
        return 0;
    uint32_t surplus = (0u - bound) % bound;
    for (;;) {
        uint64_t product = (spc__random_u64(random) >> 32) * bound;
        if ((uint32_t)product >= surplus)
            return (uint32_t)(product >> 32);
    }
}

double spc__random_unit(spc__random *random)
{
    return (double)(spc__random_u64(random) >> 11) * 0x1p-53;
}
