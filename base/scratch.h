/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - memory of the host that is kept from one call to the next. */
#ifndef SPC_BASE_SCRATCH_H
#define SPC_BASE_SCRATCH_H

#include <stdlib.h>

/* {0} is an empty one; free(scratch.memory) ends it. */
typedef struct spc__scratch {
    void *memory;
    size_t bytes;
} spc__scratch;

/* Returns `bytes` bytes, valid until the next call, or NULL if there is no
 * memory. Allocates only if the last call wanted fewer. */
static inline void *spc__scratch_take(spc__scratch *scratch, size_t bytes)
{
    if (bytes <= scratch->bytes)
        return scratch->memory;
    free(scratch->memory);
    scratch->memory = malloc(bytes);
    scratch->bytes = scratch->memory != NULL ? bytes : 0;
    return scratch->memory;
}

#endif
