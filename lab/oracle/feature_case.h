/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_case.h - the operands of an operator on features, and functions that
 * its oracle and the oracle of its gradients share.
 */
#ifndef SPC_LAB_FEATURE_CASE_H
#define SPC_LAB_FEATURE_CASE_H

#include "spc.h"

/*
 * The operands of an operator, on the host. Unread operands may be NULL. Values
 * are rounded to the operator's type.
 */
typedef struct spc__feature_case {
    int64_t rows_in, rows_out;
    int64_t batches;
    const float *in;       /* spc_feature_rows_in rows */
    const float *add;      /* spc_feature_rows_add rows */
    const float *scale;    /* [channels] */
    const float *shift;    /* [channels] */
    const int32_t *map;    /* [offsets][rows_out]: input row or -1 */
    const int32_t *index;  /* [rows_in][channels], for UNPOOL; of its gradient
                              [rows_out][channels] */
    const int32_t *coords; /* [rows_in][4] */
} spc__feature_case;

/* Moments of a set of elements, and the error bounds of fp32. */
typedef struct spc__feature_moments {
    double n, mean, variance, largest;
    double mean_error, variance_error;
} spc__feature_moments;

/* Computes the moments of a row, or of a batch element's group. */
void spc__feature_moments_of(spc__feature_moments *out, const spc_feature *f,
                             const spc__feature_case *of, int64_t row,
                             int batch, int group);

/* Returns the error bound of a sum of n numbers, relative to their
 * magnitudes. */
double spc__feature_growth(double n);

/*
 * Returns the index of channel 0 of the voxel at `at` in the planes of BEV;
 * each further channel is X * Y * Z later. -1 if the voxel is outside.
 */
int64_t spc__feature_bev_cell(const spc_feature *feature, const int32_t at[4]);

#endif
