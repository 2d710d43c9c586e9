/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate.h - decides whether a plan computes its layer. Every candidate that the
 * tuner measures, `verify` lists or the bench times has passed it.
 */
#ifndef SPC_RUNTIME_GATE_H
#define SPC_RUNTIME_GATE_H

#include "cache/cache.h"
#include "lab/sample/fixture.h"

/* A plan on a fixture. */
typedef struct spc__tested {
    spc_plan *plan;
    spc__guarded packed; /* packed weights of the real data set */
    bool atomics;        /* results depend on the order in which blocks add */
    bool verified;
    bool spoils; /* packing wrote to the unpacked weights */
    /* Digests of its first results, which were correct. */
    uint64_t first[SPC__SAMPLE_SCENES][SPC__DATASETS];
} spc__tested;

/*
 * The result of a test. The note of a failure begins with the test that it
 * failed:
 *
 *   remembers:  its code has static memory, in which a launch could leave
 *               results for later ones
 *   exact:      integers give another sum than they must
 *   rounding:   further from the oracle than rounding explains
 *   unwritten:  elements keep their old value, or depend on memory that was
 *               never written
 *   stale:      a later launch leaves the result of the one before
 *   accumulates:  the result depends on the old content of the output
 *   canary:     a write before or after an array
 *   read-only:  a write to an input, weights, or the map, even of the same
 *               value
 *   together:   two launches at the same time give wrong results
 *   differs from run to run:  the same launch gives different results
 *   non-finite: a NaN input reaches an output that does not see it, or does
 *               not reach one that does
 *   after timing:  the result after timing differs from the one before
 */
typedef struct spc__verdict {
    spc__trial_status status; /* OK, LAUNCH, FAULT, WRONG */
    char note[192];
    double
        error; /* the largest error on the real data set, divided by its
                * tolerance */
    bool dead; /* the device does not respond any more */
    bool spoilt; /* the fixture must build its maps again (fixture.h) */
} spc__verdict;

/*
 * Prepares maps and packs weights. Loads nothing; `tested` needs only its plan.
 */
spc_status spc__gate_enter(spc__tested *tested, spc__fixture *fixture,
                           spc_plan *plan);
void spc__gate_leave(spc__tested *tested, const spc__fixture *fixture);

/*
 * Runs all data sets on all scenes, over different contents of output and
 * workspace.
 */
void spc__gate_verify(spc__verdict *out, spc__fixture *fixture,
                      spc__tested *tested);

/*
 * Before timing on scene `s`, fills the output with a value that no result has.
 * After timing, verifies that it holds the first result again.
 */
void spc__gate_before_timing(spc__verdict *out, spc__fixture *fixture,
                             spc__tested *tested, int s);
void spc__gate_after_timing(spc__verdict *out, spc__fixture *fixture,
                            spc__tested *tested, int s);

/*
 * For a candidate that may win: verifies the first result again on every given
 * scene, then compares at least 150 runs. The given scenes get `limit_s`
 * seconds of them, awkward ones the rest.
 */
void spc__gate_confirm(spc__verdict *out, spc__fixture *fixture,
                       spc__tested *tested, double limit_s);

#endif
