/* SPDX-License-Identifier: Apache-2.0 */
/* mutate.h - small changes to a file, for tests of its readers. */
#ifndef SPC_TESTS_MUTATE_H
#define SPC_TESTS_MUTATE_H

#include "base/random.h"

#include <string.h>
#include <time.h>

/* Returns the processor time of this process. Fuzzers use it to limit their
 * run, because other processes may run at the same time. */
static inline double cpu_seconds(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* Applies a few changes: bytes, cuts, repetitions. Returns the new size. */
static inline size_t mutate(char *data, size_t bytes, size_t capacity,
                            spc__random *random)
{
    int changes = 1 + (int)spc__random_below(random, 6);
    for (int i = 0; i < changes && bytes > 0; i++) {
        size_t at = spc__random_below(random, (uint32_t)bytes);
        static const char telling[] = "\0\xff\x7f\x80 \n09-.e(,)'";
        switch (spc__random_below(random, 5)) {
        case 0:
            data[at] = (char)spc__random_u64(random);
            break;
        case 1:
            data[at] = telling[spc__random_below(random, sizeof(telling) - 1)];
            break;
        case 2:
            data[at] ^= (char)(1 << spc__random_below(random, 8));
            break;
        case 3:
            bytes = at;
            break;
        default: {
            size_t length = spc__random_below(random, 16);
            if (at + length > bytes)
                length = bytes - at;
            if (bytes + length > capacity)
                break;
            memmove(data + at + length, data + at, bytes - at);
            bytes += length;
        }
        }
    }
    return bytes;
}

#endif
