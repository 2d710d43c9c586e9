/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counted_allocations.h - for tests: counts host allocations and started
 * threads while a test watches. It can also make allocations fail
 * (refused_allocation).
 *
 * The program is linked with spc_watch_allocations(test_NAME) in CMake.
 */
#ifndef SPC_TESTS_COUNTED_ALLOCATIONS_H
#define SPC_TESTS_COUNTED_ALLOCATIONS_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Counts over all threads while `watching` is set. */
static atomic_int watching, allocations, threads_started;

/* Which counted allocation fails, from 1. ALL_ALLOCATIONS: all fail; 0: none
 * fails. */
enum { ALL_ALLOCATIONS = -1 };
static atomic_int refused_allocation;

/* No thread can be started while this is set. */
static atomic_int refuses_threads;

/* From now on the `nth` allocation fails, counted from 1; 0: none fails. */
static inline void fail_allocation(int nth)
{
    atomic_store(&allocations, 0);
    atomic_store(&refused_allocation, nth);
    atomic_store(&watching, nth > 0);
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
int __real_pthread_create(pthread_t *out, const pthread_attr_t *how,
                          void *(*start)(void *), void *payload);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *how,
                          void *(*start)(void *), void *payload);

/* Counts one allocation; true if it is to fail. */
static bool notice(void)
{
    if (!atomic_load(&watching))
        return false;
    int number = atomic_fetch_add(&allocations, 1) + 1;
    int which = atomic_load(&refused_allocation);
    return which == ALL_ALLOCATIONS || which == number;
}

void *__wrap_malloc(size_t bytes)
{
    return notice() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return notice() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return notice() ? NULL : __real_realloc(memory, bytes);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    return notice() ? ENOMEM : __real_posix_memalign(out, alignment, bytes);
}

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *how,
                          void *(*start)(void *), void *payload)
{
    if (atomic_load(&watching))
        atomic_fetch_add(&threads_started, 1);
    return atomic_load(&refuses_threads)
               ? EAGAIN
               : __real_pthread_create(out, how, start, payload);
}

#endif
