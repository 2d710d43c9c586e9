/*
 * failing_allocations.h - for tests: an allocation that fails, by its number.
 *
 * The program is linked with --wrap=malloc,--wrap=calloc,--wrap=realloc, and
 * allocates in one thread while it counts.
 */
#ifndef SPC_TESTS_FAILING_ALLOCATIONS_H
#define SPC_TESTS_FAILING_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>

static int allocations_left; /* until the one that fails; 0: none does */

/* From now on the `nth` allocation fails, counted from 1; 0: none. */
static void fail_allocation(int nth)
{
    allocations_left = nth;
}

static bool is_to_fail(void)
{
    return allocations_left > 0 && --allocations_left == 0;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return is_to_fail() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_to_fail() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return is_to_fail() ? NULL : __real_realloc(memory, bytes);
}

#endif
