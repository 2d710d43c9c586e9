/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_oracle.h - operators on features by their definition, in double
 * precision, with a bound on the rounding of kernels.
 */
#ifndef SPC_RUNTIME_FEATURE_ORACLE_H
#define SPC_RUNTIME_FEATURE_ORACLE_H

#include "spc.h"

/*
 * The operands of an operator, on the host. Those that it does not read may be
 * NULL. Values are as the operator's type holds them.
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

/*
 * Computes spc_feature_rows_out rows of spc_feature_elements_out elements, and
 * the tolerance of each, without rounding to the operator's type. `index` (may
 * be NULL) receives what POOL stores. May return SPC_ENOMEM.
 */
spc_status spc__feature_oracle(double *out, double *tolerance, int32_t *index,
                               const spc_feature *feature,
                               const spc__feature_case *of);

/* True if the oracle has a definition of the operator's pass. */
bool spc__feature_is_defined(const spc_feature *feature);

/*
 * Index of channel 0 of the voxel at `at` in the planes of BEV; each further
 * channel is X * Y * Z later. -1 if the voxel is outside.
 */
int64_t spc__feature_bev_place(const spc_feature *feature, const int32_t at[4]);

/* The tolerance of an element, rounding to the operator's type included. */
double spc__feature_tolerance(const spc_feature *feature, double reference,
                              double tolerance);

/*
 * True if an operator has exactly one correct result on integers (whose sums
 * stay below 2^24). This holds for operators that only move, compare and add
 * numbers; a mean or a product is then rounded once.
 */
bool spc__feature_is_exact(const spc_feature *feature);

/*
 * Compulsory bytes: reads and writes, each once, by rows and voxels as in `of`;
 * `pairs` of the map. A map counts as the list of pairs, or as the table if
 * that is smaller.
 */
void spc__feature_bytes(double *read, double *written,
                        const spc_feature *feature, int64_t rows_in,
                        int64_t rows_out, int64_t batches, int64_t pairs);

#endif
