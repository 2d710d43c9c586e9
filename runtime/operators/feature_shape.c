/* SPDX-License-Identifier: Apache-2.0 */
/* feature_shape.c - the arrays that an operator on features reads and writes:
 * their rows and elements. */
#include "operators/feature.h"

#include "operators/feature_table.h"

static const spc__feature_row *row_of(const spc_feature *f)
{
    return spc__feature_row_of(f->op);
}

static bool is_gradient(const spc_feature *f)
{
    return f->pass != SPC_FORWARD;
}

/* True for a gradient that reads the layer's inputs as `in` and dy as `add`. */
static bool needs_in(const spc_feature *f)
{
    const spc__feature_row *row = row_of(f);

    return f->pass == SPC_WGRAD ||
           (is_gradient(f) && row->needs_in != NULL && row->needs_in(f));
}

bool spc__feature_is_of_add(const spc_feature *f)
{
    return f->pass == SPC_WGRAD && row_of(f)->add_by_batch;
}

/* ---- inputs -------------------------------------------------------------- */

bool spc__feature_takes_map(const spc_feature *f)
{
    return row_of(f)->reads == SPC__READS_MAP;
}

bool spc__feature_is_by_row(const spc_feature *f)
{
    return row_of(f)->reads == SPC__READS_ROW;
}

/* The gradient of a pooling reads its map in the other direction; that of a
 * submanifold pooling has mirrored offsets instead. */
bool spc__feature_takes_inverse(const spc_feature *f)
{
    const spc__feature_row *row = row_of(f);

    if (row->inverse || !is_gradient(f))
        return row->inverse && !is_gradient(f);
    return row->reads == SPC__READS_MAP && f->geometry.rule != SPC_RULE_SUBM;
}

bool spc__feature_adds(const spc_feature *f)
{
    return is_gradient(f) ? needs_in(f) : row_of(f)->adds;
}

bool spc__feature_adds_by_batch(const spc_feature *f)
{
    return row_of(f)->add_by_batch;
}

bool spc__feature_has_planes(const spc_feature *f)
{
    return row_of(f)->planes;
}

bool spc__feature_has_index(const spc_feature *f)
{
    return f->index && spc__feature_takes_map(f);
}

bool spc__feature_stores_index(const spc_feature *f)
{
    return f->index && row_of(f)->stores_index;
}

bool spc__feature_reads_index(const spc_feature *f)
{
    return f->index && row_of(f)->reads_index;
}

bool spc__feature_has_params(const spc_feature *f)
{
    const spc__feature_row *row = row_of(f);

    return row->scales || (row->scales_if_affine && f->affine);
}

bool spc__feature_has_scale(const spc_feature *f)
{
    return f->pass != SPC_WGRAD && spc__feature_has_params(f);
}

bool spc__feature_has_shift(const spc_feature *f)
{
    return !is_gradient(f) && spc__feature_has_scale(f);
}

/* ---- elements ------------------------------------------------------------ */

static int64_t volume(const spc_feature *f)
{
    return (int64_t)f->channels * f->shape[0] * f->shape[1] * f->shape[2];
}

static int64_t forward_outputs(const spc_feature *f)
{
    const spc__feature_row *row = row_of(f);

    return row->outputs != NULL ? row->outputs(f) : f->channels;
}

/* A DGRAD reads gradients of outputs. */
int64_t spc__feature_inputs(const spc_feature *f)
{
    return f->pass == SPC_DGRAD ? forward_outputs(f) : f->channels;
}

int64_t spc__feature_outputs(const spc_feature *f)
{
    /* Elements of a gradient of parameters are summed one by one and not in
     * pieces. */
    if (is_gradient(f))
        return f->pass == SPC_WGRAD ? 1 : f->channels;
    return forward_outputs(f);
}

spc_dtype spc__feature_out_dtype(const spc_feature *f)
{
    return f->pass == SPC_WGRAD && !spc__feature_is_of_add(f) ? SPC_F32
                                                              : f->dtype;
}

int64_t spc_feature_elements_in(const spc_feature *f)
{
    /* A public function: an invalid operator could divide by 0 below. */
    if (spc_feature_check(f, NULL) != SPC_OK)
        return 0;
    return is_gradient(f) && row_of(f)->planes ? volume(f)
                                               : spc__feature_inputs(f);
}

int64_t spc_feature_elements_out(const spc_feature *f)
{
    if (spc_feature_check(f, NULL) != SPC_OK)
        return 0;
    /* Scale and shift, one after the other. */
    if (f->pass == SPC_WGRAD)
        return (spc__feature_is_of_add(f) ? 1 : 2) * (int64_t)f->channels;
    return !is_gradient(f) && row_of(f)->planes ? volume(f)
                                                : spc__feature_outputs(f);
}

/* ---- rows ---------------------------------------------------------------- */

bool spc__feature_is_by_batch(const spc_feature *f)
{
    return row_of(f)->out_by_batch;
}

int64_t spc__feature_rows_out(const spc_feature *f, int64_t rows,
                              int64_t batches)
{
    if (f->pass == SPC_WGRAD)
        return spc__feature_is_of_add(f) ? batches : 1;
    return spc__feature_is_by_batch(f) && !is_gradient(f) ? batches : rows;
}

int64_t spc_feature_rows_out(const spc_feature *f, int64_t rows,
                             int64_t batches)
{
    return spc_feature_check(f, NULL) == SPC_OK
               ? spc__feature_rows_out(f, rows, batches)
               : 0;
}

int64_t spc_feature_rows_in(const spc_feature *f, int64_t rows, int64_t batches)
{
    if (spc_feature_check(f, NULL) != SPC_OK)
        return 0;
    return spc__feature_is_by_batch(f) && is_gradient(f) && !needs_in(f)
               ? batches
               : rows;
}

int64_t spc_feature_rows_add(const spc_feature *f, int64_t rows,
                             int64_t batches)
{
    if (spc_feature_check(f, NULL) != SPC_OK || !spc__feature_adds(f))
        return 0;
    return spc__feature_is_by_batch(f) ||
                   (row_of(f)->add_by_batch && !is_gradient(f))
               ? batches
               : rows;
}
