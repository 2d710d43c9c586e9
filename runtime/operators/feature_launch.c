/* SPDX-License-Identifier: Apache-2.0 */
/* feature_launch.c - the numbers of threads and the workspace of operators on
 * features. */
#include "operators/feature_launch.h"

#include "base/dtype.h"
#include "operators/feature.h"
#include "operators/feature_table.h"

typedef spc__feature_sizes sizes;

/* ---- threads ------------------------------------------------------------- */

size_t spc__feature_natural(const spc_feature *f, int64_t elements)
{
    size_t bytes = (size_t)elements * spc__dtype_of(f->dtype)->bytes, at = 16;

    /* The largest power of two, up to 16, that divides a row: a thread then
     * never loads across two rows. */
    while (bytes % at != 0)
        at /= 2;
    return at;
}

int64_t spc__by_pieces(const spc_feature *f, const sizes *s)
{
    int64_t outputs = spc__feature_outputs(f);
    int64_t bytes = outputs * (int64_t)spc__dtype_of(f->dtype)->bytes;

    return s->rows * (bytes / (int64_t)spc__feature_natural(f, outputs));
}

int64_t spc__by_elements(const spc_feature *f, const sizes *s)
{
    return s->rows * f->channels;
}

int64_t spc__by_rows(const spc_feature *f, const sizes *s)
{
    (void)f;
    return s->rows;
}

int64_t spc__by_warps(const spc_feature *f, const sizes *s)
{
    (void)f;
    return s->rows * SPC__WARP;
}

int64_t spc__by_parts(const spc_feature *f, const sizes *s)
{
    (void)f;
    return s->batches * SPC_FEATURE_PARTS * SPC_FEATURE_THREADS;
}

int64_t spc__by_row_parts(const spc_feature *f, const sizes *s)
{
    (void)f;
    (void)s;
    return SPC_FEATURE_PARTS * SPC_FEATURE_THREADS;
}

int64_t spc__by_channels(const spc_feature *f, const sizes *s)
{
    return s->batches * ((f->channels + SPC__WARP - 1) / SPC__WARP) *
           SPC_FEATURE_THREADS;
}

int64_t spc__by_sums(const spc_feature *f, const sizes *s)
{
    (void)s;
    return 2 * (int64_t)f->channels;
}

/* ---- launches ------------------------------------------------------------ */

bool spc__feature_counts(const spc_feature *f)
{
    const spc__feature_row *row = spc__feature_row_of(f->op);

    return f->pass == SPC_DGRAD && row->counts != NULL && row->counts(f);
}

const spc__feature_launches *spc__feature_launches_of(const spc_feature *f)
{
    const spc__feature_row *row = spc__feature_row_of(f->op);

    return spc__feature_counts(f) ? row->counted : row->launches[f->pass];
}

/* ---- workspace ----------------------------------------------------------- */

/* Each array of a workspace starts at a multiple of 256 bytes. */
static size_t padded(int64_t bytes)
{
    return ((size_t)bytes + 255) / 256 * 256;
}

int64_t spc__feature_sums_bytes(const spc_feature *f)
{
    return f->pass == SPC_WGRAD
               ? SPC_FEATURE_PARTS * 2 * 4 * (int64_t)f->channels
               : 0;
}

void spc__feature_scratch_of(spc__feature_scratch *out, const spc_feature *f,
                             const sizes *s)
{
    const spc__feature_row *row = spc__feature_row_of(f->op);
    spc__feature_arrays arrays = {0};

    if (row->arrays != NULL)
        row->arrays(&arrays, f, s);
    /* The arrays follow each other in this order: parts, moments, cells. */
    out->moments = padded(arrays.parts);
    out->cells = out->moments + padded(arrays.moments);
    out->cells_bytes = padded(arrays.cells);
    out->bytes = out->cells + out->cells_bytes;
    out->empty = arrays.empty;
}
