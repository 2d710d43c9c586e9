/* SPDX-License-Identifier: Apache-2.0 */
/*
 * large.h - scenes that have more rows or are denser than those of the first
 * tests. Some rows of their results are known.
 */
#ifndef SPC_LAB_LARGE_H
#define SPC_LAB_LARGE_H

#include "lab/oracle/relation.h"
#include "lab/sample/fixture.h"

/*
 * The approximate number of rows that are compared with the oracle, and the
 * period of the inputs.
 */
enum { SPC__LARGE_ROWS = 384, SPC__LARGE_PATTERN = 1021 };

struct spc__large {
    bool is_there; /* the device has time and memory for the scene */
    spc_map *map;  /* NULL for a linear layer */
    int64_t rows_in, rows_out;
    spc__guarded in, residual, out, workspace;
    int64_t at[SPC__LARGE_ROWS]; /* the known rows, ascending */
    int64_t count;
    /*
     * [count] rows in the device's layout; all rows of a gradient of weights.
     */
    void *got, *exact;
    float *slack; /* as in spc__sample_scene */
};

/*
 * Returns the fixture's scene of a kind, which the first call makes. If memory
 * is short, or a processor has no time for it, this is logged and the scene is
 * marked unavailable; it does not count against the candidate.
 */
spc_status spc__fixture_large(spc__large **out, spc__fixture *fixture,
                              int kind);

/*
 * Makes the scene of a kind (large_scene.c). *out is NULL if the layer's shape
 * has no room for it, or there is no time or memory, which is logged.
 */
spc_status spc__large_scene_create(spc_scene **out, const spc__fixture *fixture,
                                   int kind);

/* The relation of the chosen rows alone, to rows of the pattern. */
spc_status spc__large_relation(spc_relation *out, const spc__large *large,
                               const spc__fixture *fixture,
                               const spc_scene *scene);

/* Uploads `rows` rows, which repeat those of a pattern. */
spc_status spc__large_upload(spc__guarded *to, spc__fixture *fixture,
                             spc_operand which, const float *pattern,
                             int64_t rows);

/*
 * Makes the operands and the expected result of a gradient of weights, given
 * map and chosen rows (large_gradient.c).
 */
spc_status spc__large_know_gradient(spc__large *large, spc__fixture *fixture,
                                    const spc_scene *scene,
                                    spc__random *random);

/*
 * Runs a plan on it over NaN, with packed weights of the data set COUNT, and
 * fetches the rows to `got`. If its layout does not fit into memory, the scene
 * becomes unavailable.
 */
spc_status spc__large_run(spc__large *large, spc__fixture *fixture,
                          spc_plan *plan, const void *packed);

#endif
