/* SPDX-License-Identifier: Apache-2.0 */
/* hooked.c - device memory from the caller's allocator. */
#include "device/hooked.h"

#include "base/error.h"
#include <stdint.h>
#include <stdlib.h>

enum { ALIGNMENT = 256 };

void spc__hooked_init(spc__hooked *out, const spc_memory_hook *hook)
{
    *out = (spc__hooked){0};
    if (hook != NULL)
        out->hook = *hook;
    pthread_mutex_init(&out->lock, NULL);
}

void spc__hooked_release(spc__hooked *hooked)
{
    pthread_mutex_destroy(&hooked->lock);
    free(hooked->blocks);
}

bool spc__is_hooked(const spc__hooked *hooked)
{
    return hooked->hook.alloc != NULL;
}

/* Makes room for one more block, so that recording it cannot fail. */
static spc_status reserve(spc__hooked *hooked, spc_error *error)
{
    if (hooked->count < hooked->capacity)
        return SPC_OK;
    int capacity = hooked->capacity > 0 ? 2 * hooked->capacity : 64;
    size_t bytes = (size_t)capacity * sizeof(*hooked->blocks);
    spc__hooked_block *blocks = realloc(hooked->blocks, bytes);
    if (blocks == NULL)
        return spc__fail_memory(error, bytes);
    hooked->blocks = blocks;
    hooked->capacity = capacity;
    return SPC_OK;
}

/* Checks that the caller's hook returned memory of the alignment on which
 * kernels rely. */
static spc_status check_memory(const spc_memory_hook *hook, void *memory,
                               size_t bytes, spc_error *error)
{
    if (memory == NULL)
        return spc__fail(error, SPC_ENOMEM,
                         "the caller's memory hook has no %zu bytes", bytes);
    if ((uintptr_t)memory % ALIGNMENT == 0)
        return SPC_OK;
    spc__fail(error, SPC_ENOMEM,
              "the caller's memory hook returned %p for %zu bytes, which is "
              "not a multiple of %d bytes",
              memory, bytes, ALIGNMENT);
    /* Frees the block here, since no caller ever sees it. */
    hook->free(memory, bytes, NULL, hook->payload);
    return SPC_ENOMEM;
}

/* Calls the hook without the lock, because the hook may be slow. */
spc_status spc__hooked_alloc(spc__hooked *hooked, void **out, size_t bytes,
                             spc_error *error)
{
    const spc_memory_hook *hook = &hooked->hook;

    *out = NULL;
    /* Allocators may return NULL for 0 bytes, which would look like a
     * failure. */
    if (bytes == 0)
        bytes = 1;
    void *memory = hook->alloc(bytes, NULL, hook->payload);
    spc_status status = check_memory(hook, memory, bytes, error);
    if (status != SPC_OK)
        return status;
    pthread_mutex_lock(&hooked->lock);
    if ((status = reserve(hooked, error)) == SPC_OK)
        hooked->blocks[hooked->count++] = (spc__hooked_block){memory, bytes};
    pthread_mutex_unlock(&hooked->lock);
    if (status == SPC_OK)
        *out = memory;
    else
        hook->free(memory, bytes, NULL, hook->payload);
    return status;
}

/* Removes the block from the table and returns its size, or 0 if it is not
 * there. The search starts at the newest block, because recent allocations are
 * often freed first. */
static size_t forget(spc__hooked *hooked, const void *memory)
{
    size_t bytes = 0;

    pthread_mutex_lock(&hooked->lock);
    for (int i = hooked->count - 1; i >= 0 && bytes == 0; i--)
        if (hooked->blocks[i].memory == memory) {
            bytes = hooked->blocks[i].bytes;
            /* The order of the table does not matter, so the last entry fills
             * the gap. */
            hooked->blocks[i] = hooked->blocks[--hooked->count];
        }
    pthread_mutex_unlock(&hooked->lock);
    return bytes;
}

void spc__hooked_free(spc__hooked *hooked, void *memory)
{
    size_t bytes = forget(hooked, memory);

    if (bytes > 0)
        hooked->hook.free(memory, bytes, NULL, hooked->hook.payload);
}
