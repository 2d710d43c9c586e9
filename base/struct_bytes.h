/* SPDX-License-Identifier: Apache-2.0 */
/* struct_bytes.h - tables of public structs with their sizes. */
#ifndef SPC_BASE_STRUCT_BYTES_H
#define SPC_BASE_STRUCT_BYTES_H

#include <stddef.h>
#include <string.h>

typedef struct spc__struct {
    const char *name;
    size_t bytes;
} spc__struct;

/* Returns the size of the struct `name`, or 0 if no row has that name. */
static inline size_t spc__struct_find(const spc__struct *rows, size_t count,
                                      const char *name)
{
    for (size_t i = 0; name != NULL && i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].bytes;
    return 0;
}

#endif
