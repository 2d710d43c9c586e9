/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooked.h - device memory from the caller's allocator (spc_memory_hook).
 *
 * The library frees memory only by its address. The caller's `free` also gets
 * the size, so a table keeps the sizes of the blocks in use.
 */
#ifndef SPC_DEVICE_HOOKED_H
#define SPC_DEVICE_HOOKED_H

#include "spc.h"
#include <pthread.h>

typedef struct spc__hooked_block {
    void *memory;
    size_t bytes;
} spc__hooked_block;

typedef struct spc__hooked {
    spc_memory_hook hook;
    pthread_mutex_t lock; /* guards the table */
    spc__hooked_block *blocks;
    int count, capacity;
} spc__hooked;

/* `hook` may be NULL or have no functions; spc__is_hooked then returns
 * false. */
void spc__hooked_init(spc__hooked *out, const spc_memory_hook *hook);
void spc__hooked_release(spc__hooked *hooked);
bool spc__is_hooked(const spc__hooked *hooked);

/* Returns SPC_ENOMEM if the hook has no memory, or if its memory is not aligned
 * to 256 bytes, which is freed again. */
spc_status spc__hooked_alloc(spc__hooked *hooked, void **out, size_t bytes,
                             spc_error *error);
/* Frees after the device has finished, unless the hook is `ordered`. */
void spc__hooked_free(spc__hooked *hooked, void *memory);

#endif
