/* SPDX-License-Identifier: Apache-2.0 */
/* counting_hook.h - for tests: a memory hook that counts its allocations. */
#ifndef SPC_TESTS_COUNTING_HOOK_H
#define SPC_TESTS_COUNTING_HOOK_H

#include "spc.h"

#include <check.h>
#include <stdlib.h>

typedef struct counting_hook {
    int calls;  /* calls of alloc */
    int fail;   /* which call fails, from 1; 0: none */
    int skewed; /* offset of blocks from their alignment, in bytes */
    int live;   /* blocks in use */
    size_t live_bytes;
} counting_hook;

static inline void *counting_alloc(size_t bytes, void *stream, void *payload)
{
    counting_hook *hook = payload;
    void *memory = NULL;

    (void)stream;
    ck_assert_uint_gt(bytes, 0);
    if (++hook->calls == hook->fail)
        return NULL;
    if (posix_memalign(&memory, 256, bytes + (size_t)hook->skewed) != 0)
        return NULL;
    hook->live++;
    hook->live_bytes += bytes;
    return (char *)memory + hook->skewed;
}

static inline void counting_free(void *memory, size_t bytes, void *stream,
                                 void *payload)
{
    counting_hook *hook = payload;

    (void)stream;
    ck_assert_ptr_nonnull(memory);
    hook->live--;
    hook->live_bytes -= bytes;
    free((char *)memory - hook->skewed);
}

/* Checks that every block was freed with its size. */
static inline void assert_hook_is_empty(const counting_hook *hook)
{
    ck_assert_int_eq(hook->live, 0);
    ck_assert_uint_eq(hook->live_bytes, 0);
}

#endif
