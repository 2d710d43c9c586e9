/* SPDX-License-Identifier: Apache-2.0 */
/* transpose.c - moves gradients of weights between RSCK and KRSC. */
#include "plan/transpose.h"

#include <string.h>

void spc__transpose_problem(spc__attrs *out)
{
    memset(out, 0, sizeof(*out));
    spc__attrs_set_text(out, "op", SPC__TRANSPOSE);
}

spc_status spc__transpose_load(spc__kernel **out, spc_ctx *ctx, unsigned flags)
{
    spc__attrs problem;
    spc__code code;

    *out = NULL;
    if (spc__device_ops_of(ctx->device)->builds_maps_on_host)
        return SPC_OK;
    spc__transpose_problem(&problem);
    spc_status status =
        spc__ctx_code(&code, ctx, SPC__TRANSPOSE, &problem, NULL, flags);
    return status == SPC_OK
               ? spc__ctx_kernel(out, ctx, &code, "spc_transpose",
                                 SPC_TRANSPOSE_SHARED)
               : status;
}

/* ---- on the host --------------------------------------------------------- */

static int64_t end_of(int64_t first, int64_t count)
{
    return first + SPC_TRANSPOSE_TILE < count ? first + SPC_TRANSPOSE_TILE
                                              : count;
}

/* Transposes square by square: the rows of a square stay in the first-level
 * cache while its columns are written. */
static void transpose_on_host(const spc_transpose_args *a)
{
    size_t bytes = (size_t)a->element_bytes;
    const char *from = a->from;
    char *to = a->to;

    for (int64_t r0 = 0; r0 < a->rows; r0 += SPC_TRANSPOSE_TILE)
        for (int64_t c0 = 0; c0 < a->columns; c0 += SPC_TRANSPOSE_TILE)
            for (int64_t c = c0; c < end_of(c0, a->columns); c++)
                for (int64_t r = r0; r < end_of(r0, a->rows); r++)
                    memcpy(to + (size_t)(c * a->rows + r) * bytes,
                           from + (size_t)(r * a->columns + c) * bytes, bytes);
    /* The tail is the gradient of the bias, one row that has no transpose. */
    size_t matrix = (size_t)(a->rows * a->columns) * bytes;
    memcpy(to + matrix, from + matrix, (size_t)a->tail * bytes);
}

/* ---- on the device ------------------------------------------------------- */

static int64_t tiles_of(int64_t count)
{
    return (count + SPC_TRANSPOSE_TILE - 1) / SPC_TRANSPOSE_TILE;
}

spc_status spc__transpose(const spc_ctx *ctx, spc__kernel *kernel,
                          const spc_transpose_args *args, bool pdl,
                          void *stream, spc_error *error)
{
    spc__launch launch = {
        .grid_x = (unsigned)(tiles_of(args->rows) * tiles_of(args->columns) +
                             (args->tail > 0)),
        .grid_y = 1,
        .block = SPC_TRANSPOSE_THREADS,
        .shared_bytes = SPC_TRANSPOSE_SHARED,
        .pdl = pdl,
    };

    if (kernel != NULL)
        return spc__device_ops_of(ctx->device)
            ->launch(ctx->device, kernel, &launch, args, sizeof(*args), stream,
                     error);
    transpose_on_host(args);
    return SPC_OK;
}
