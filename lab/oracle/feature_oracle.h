/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_oracle.h - operators on features by their definition, in double
 * precision, with a bound on the rounding of kernels.
 */
#ifndef SPC_RUNTIME_FEATURE_ORACLE_H
#define SPC_RUNTIME_FEATURE_ORACLE_H

#include "lab/oracle/feature_case.h"

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

/* The tolerance of an element, rounding to the operator's type included. */
double spc__feature_tolerance(const spc_feature *feature, double reference,
                              double tolerance);

/*
 * True if an operator has exactly one correct result on integers (whose sums
 * stay below 2^24). This holds for operators that only move, compare and add
 * numbers; means and products are rounded once.
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
