/*
 * feature_oracle.h - operators on features by their definition, in double
 * precision, and how far rounding may take a kernel from that.
 */
#ifndef SPC_RUNTIME_FEATURE_ORACLE_H
#define SPC_RUNTIME_FEATURE_ORACLE_H

#include "spc.h"

/* What an operator is applied to, on the host; what it does not read may be
 * NULL. Values are as the operator's type holds them. */
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
 * The result, spc_feature_rows_out rows of spc_feature_row_out elements, and by
 * how much a kernel's may differ, its rounding to the operator's type not
 * included. `index` (may be NULL) gets what POOL stores. SPC_ENOMEM.
 */
spc_status spc__feature_oracle(double *out, double *tolerance, int32_t *index,
                               const spc_feature *feature,
                               const spc__feature_case *of);

/* Where in the planes of BEV channel 0 of the voxel at `at` lies, the others
 * each X * Y * Z behind; -1: outside. */
int64_t spc__feature_bev_place(const spc_feature *feature, const int32_t at[4]);

/* The tolerance of an element, rounding to the operator's type included. */
double spc__feature_tolerance(const spc_feature *feature, double reference,
                              double tolerance);

/*
 * Does an operator give the one right result on integers (whose sums stay below
 * 2^24)? Those that only move, compare and add numbers do, and a mean or a
 * product is then rounded once.
 */
bool spc__feature_is_exact(const spc_feature *feature);

/* Compulsory bytes: what must be read and written at least once, by rows and
 * voxels as in `of`; `pairs` of the map. Of a map it is the list of pairs, or
 * the table if that is smaller. */
void spc__feature_bytes(double *read, double *written,
                        const spc_feature *feature, int64_t rows_in,
                        int64_t rows_out, int64_t batches, int64_t pairs);

#endif
