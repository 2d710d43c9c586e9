/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature_fixture.h - the fixture of an operator on features: its arrays on a
 * device, each between guard zones that no kernel may write to, and the
 * expected result.
 */
#ifndef SPC_RUNTIME_FEATURE_FIXTURE_H
#define SPC_RUNTIME_FEATURE_FIXTURE_H

#include "lab/guarded.h"
#include "lab/oracle/feature_oracle.h"
#include "operators/operands.h"

/* The table of arrays. Arrays before INDEX have random data. */
enum {
    SPC__FEATURE_IN,
    SPC__FEATURE_ADD,
    SPC__FEATURE_SCALE,
    SPC__FEATURE_SHIFT,
    SPC__FEATURE_INDEX,
    SPC__FEATURE_WORKSPACE,
    SPC__FEATURE_OUT,
    SPC__FEATURE_ARRAYS
};

/* The kind of data, and its layout. */
typedef struct spc__feature_data {
    uint64_t seed;
    /* small integers, whose sums are exact; otherwise real numbers */
    bool integers;
    int shift; /* elements by which arrays are misaligned */
    int wider; /* gap between rows, in elements */
} spc__feature_data;

typedef struct spc__feature_fixture {
    spc_ctx *ctx;
    const spc_feature *feature;
    const spc_scene *scene;
    spc_feature_plan *plan;
    spc_coords *set;
    spc_map *map;
    spc__feature_case of;
    int32_t *index; /* index of the map, on the host */
    /* Arrays of the current data set. */
    spc__feature_data data;
    spc__guards guards;
    spc__operand operands[SPC__FEATURE_ARRAYS];
    spc__guarded arrays[SPC__FEATURE_ARRAYS];
    spc_feature_buffers buffers;
    float *host[SPC__FEATURE_INDEX]; /* the generated numbers */
    int32_t *stored;                 /* rows of the maxima */
    double *reference, *tolerance;
} spc__feature_fixture;

/* Makes plan, set and map. The caller releases *out even after a failure. */
spc_status spc__feature_fixture_open(spc__feature_fixture *out, spc_ctx *ctx,
                                     const spc_feature *feature,
                                     const spc_scene *scene);
void spc__feature_fixture_release(spc__feature_fixture *fixture);

/* Generates and uploads the inputs, and asks the oracle. */
spc_status spc__feature_fixture_fill(spc__feature_fixture *fixture,
                                     const spc__feature_data *how);

/* Fills the output with a value that no result has. */
spc_status spc__feature_fixture_clear(const spc__feature_fixture *fixture);
spc_status spc__feature_fixture_run(const spc__feature_fixture *fixture,
                                    void *stream);

/*
 * Verifies the result and the memory around it. SPC_EWRONG: the error describes
 * the fault. *error grows to the largest error over its tolerance.
 */
spc_status spc__feature_fixture_check(const spc__feature_fixture *fixture,
                                      double *error);

#endif
