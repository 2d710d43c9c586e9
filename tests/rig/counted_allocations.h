/*
 * counted_allocations.h - for tests: allocations on the host, counted while
 * someone watches.
 *
 * The program is linked with --wrap=malloc,--wrap=calloc,--wrap=realloc.
 */
#ifndef SPC_TESTS_COUNTED_ALLOCATIONS_H
#define SPC_TESTS_COUNTED_ALLOCATIONS_H

#include <stdatomic.h>
#include <stddef.h>

static atomic_int watching, allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

static void notice(void)
{
    if (atomic_load(&watching))
        atomic_fetch_add(&allocations, 1);
}

void *__wrap_malloc(size_t bytes)
{
    notice();
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    notice();
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    notice();
    return __real_realloc(memory, bytes);
}

#endif
