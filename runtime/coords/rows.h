/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - the layout of a layer that needs no map: output row i reads only
 * input row i. Kernels read it like a map's layout (spc_map_view).
 *
 * The caller provides its memory. It is filled on the stream before the kernel
 * that reads it, since the number of rows may be known only on the device.
 */
#ifndef SPC_RUNTIME_ROWS_H
#define SPC_RUNTIME_ROWS_H

#include "context/ctx.h"
#include "templates/shared/spc_abi.h"

/* A number of rows up to `rows`: *count (device), or `rows` if count is NULL.
 * If *count is larger than `rows`, the layout is empty. */
typedef struct spc__row_count {
    int64_t rows;
    const int32_t *count;
} spc__row_count;

/* Returns SPC_EINVAL for an impossible number of rows. */
spc_status spc__rows_check(const spc__row_count *rows, spc_error *error);

/* Rows with padding, as in a map. */
int64_t spc__rows_padded(int64_t rows);

/* Bytes of the layout; a multiple of 256. */
size_t spc__rows_bytes(int64_t rows, int tile_rows);

/* Loads the kernel that fills layouts; NULL if the host fills them. */
spc_status spc__rows_load(spc__kernel **out, spc_ctx *ctx, spc_error *error);

/* Returns a filled layout as kernels see it. */
void spc__rows_view(spc_map_view *out, void *memory, const spc__row_count *rows,
                    int tile_rows);

/* Enqueues filling the layout at `memory`, which must be 256-byte aligned. */
spc_status spc__rows_fill(spc_map_view *out, const spc_ctx *ctx,
                          spc__kernel *kernel, void *memory,
                          const spc__row_count *rows, int tile_rows,
                          void *stream, spc_error *error);

#endif
