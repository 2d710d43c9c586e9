/*
 * rows.h - the layout of a layer that needs no map: output row i sees input row
 * i alone. Kernels read it as they read a map's (spc_map_view).
 *
 * It lies in memory of the caller and is filled on the stream, before the
 * kernel that reads it: how many rows there are may be known on the device
 * alone.
 */
#ifndef SPC_RUNTIME_ROWS_H
#define SPC_RUNTIME_ROWS_H

#include "context/ctx.h"
#include "templates/shared/spc_abi.h"

/* Rows of any number: at most `rows`; `count`, on the device, says how many
 * there are, or all of them do if it is NULL. None, if it is more. */
typedef struct spc__row_count {
    int64_t rows;
    const int32_t *count;
} spc__row_count;

/* SPC_EINVAL: a number of rows that cannot be. */
spc_status spc__rows_check(const spc__row_count *rows, spc_error *error);

/* Rows with padding, as of a map. */
int64_t spc__rows_padded(int64_t rows);

/* Bytes of the layout, a multiple of 256. */
size_t spc__rows_bytes(int64_t rows, int tile_rows);

/* The kernel that fills layouts; NULL where the host does. */
spc_status spc__rows_load(spc__kernel **out, spc_ctx *ctx, spc_error *error);

/* A layout that was filled, as kernels see it. */
void spc__rows_view(spc_map_view *out, void *memory, const spc__row_count *rows,
                    int tile_rows);

/* Fills the layout at `memory`, 256-byte aligned: enqueues. */
spc_status spc__rows_fill(spc_map_view *out, const spc_ctx *ctx,
                          spc__kernel *kernel, void *memory,
                          const spc__row_count *rows, int tile_rows,
                          void *stream, spc_error *error);

#endif
