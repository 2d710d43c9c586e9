/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judge.h - the comparison of results with expected values, for layers,
 * operators on features, regrouped sets, voxels and networks. They differ in
 * the layout of their results and in their tolerances.
 */
#ifndef SPC_LAB_JUDGE_H
#define SPC_LAB_JUDGE_H

#include "operators/operands.h"

/* Results that pass where the reference is infinite or NaN. */
typedef enum spc__odd_results {
    /* all results are wrong, as no such reference is expected */
    SPC__ODD_WRONG,
    SPC__ODD_NOT_FINITE, /* accept results that are not finite */
    SPC__ODD_ANYTHING    /* accept all results, as an activation may produce any
                          * number */
} spc__odd_results;

/*
 * The expected values of a result [rows][columns]. The references are numbers
 * in rows without gaps, or elements as they are stored, in the layout of the
 * result; equal bytes then pass. The tolerances, in either type, have no gaps.
 */
typedef struct spc__expected {
    const double *reference;
    const void *stored; /* replaces `reference` */
    const float *tolerance;
    const double *wide_tolerance; /* replaces `tolerance` */
    /*
     * An element passes if it is the reference rounded once to its type.
     * Without tolerances, only such an element passes.
     */
    bool rounded;
    spc__odd_results odd;
} spc__expected;

/*
 * The worst element of a result by |got - reference| / tolerance, which is
 * wrong if it is more than 1. A result of NaN counts as infinite.
 */
typedef struct spc__worst {
    double error;
    int64_t row;
    int channel;
    double got, reference;
} spc__worst;

/*
 * Compares a result on the host, in the layout of the operand. The first
 * element whose error is infinite ends the comparison.
 */
spc__worst spc__judge(const void *result, const spc__operand *of,
                      const spc__expected *expected);

/* Returns element `i`, counted in rows without gaps, correct or not. */
spc__worst spc__judge_element(const void *result, const spc__operand *of,
                              const spc__expected *expected, int64_t i);

/* Returns the position of that element. */
const void *spc__element_at(const void *result, const spc__operand *of,
                            int64_t i);

/* Writes "row 3, channel 5 is 1.5, expected 2". */
enum { SPC__WORST_TEXT = 112 };
const char *spc__worst_text(char out[SPC__WORST_TEXT], const spc__worst *worst);

/* True if all bytes between the rows of a result are SPC__ZONE_BYTE. */
bool spc__gaps_hold(const void *result, const spc__operand *of);

/* Returns a dense matrix as an operand, for results that belong to no layer. */
spc__operand spc__matrix_of(spc_dtype dtype, int64_t rows, int64_t columns,
                            int64_t pitch);

/*
 * Fills the gaps between the rows of slices, and the zones around arrays on a
 * device: NaN in every type. A kernel that reads it shows this, even if it
 * multiplies it by zero.
 */
enum { SPC__ZONE_BYTE = 0xff };

/* Encodes the rows of an operand; the gaps between them get SPC__ZONE_BYTE. */
void spc__encode_rows(void *to, const spc__operand *as, const float *from);

#endif
