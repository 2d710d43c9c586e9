/*
 * gate.h - does a plan compute its layer? What the tuner measures, `verify`
 * lists and the bench times has passed here.
 */
#ifndef SPC_RUNTIME_GATE_H
#define SPC_RUNTIME_GATE_H

#include "cache/cache.h"
#include "lab/sample/bed.h"

/* A plan on a bed. */
typedef struct spc__tested {
    spc_plan *plan;
    spc__guarded packed; /* weights of the real draw */
    bool atomics;        /* its results depend on the order of arrival */
    bool verified;
    bool spoils; /* packing wrote to the weights that it reads */
    /* Digests of its first results, which were right. */
    uint64_t first[SPC__SAMPLE_SCENES][SPC__DRAWS];
} spc__tested;

/*
 * What came of a test. The note of a failure begins with the test that it
 * failed:
 *
 *   remembers:  its code has static memory, in which launches could leave
 *               what later ones need not compute
 *   exact:      integers give another sum than they must
 *   rounding:   further from the oracle than rounding explains
 *   unwritten:  elements are left as they were, or depend on what nobody wrote
 *   stale:      a later launch leaves the result of the one before
 *   accumulates:  the result depends on what lay in the output
 *   canary:     something was written before or behind an array
 *   read-only:  an input, weights, or the map, was written to, be it with
 *               what was there
 *   together:   two launches at the same time give wrong results
 *   differs from run to run:  the same launch gives different results
 *   no number:  an input that is none shows where nobody sees it, or does not
 *               where somebody does
 *   after timing:  the result after timing is not that of before
 */
typedef struct spc__verdict {
    spc__trial_status status; /* OK, LAUNCH, FAULT, WRONG */
    char note[192];
    double error; /* the largest of the real draw, over its tolerance */
    bool dead;    /* the device does not answer any more */
    bool spoilt;  /* maps of the bed: they must be made anew (bed.h) */
} spc__verdict;

/* Loads nothing: the plan is `tested`'s, which need only have that. Makes maps
 * ready, packs weights. */
spc_status spc__gate_enter(spc__tested *tested, spc__bed *bed, spc_plan *plan);
void spc__gate_leave(spc__tested *tested, const spc__bed *bed);

/* All draws on all scenes, over different contents of output and workspace. */
void spc__gate_verify(spc__verdict *out, spc__bed *bed, spc__tested *tested);

/* Before timing on scene `s`: its output becomes what no result is. After it:
 * is there the first result again? */
void spc__gate_before_timing(spc__verdict *out, spc__bed *bed,
                             spc__tested *tested, int s);
void spc__gate_after_timing(spc__verdict *out, spc__bed *bed,
                            spc__tested *tested, int s);

/*
 * For a candidate that may win: the first result again on every given scene,
 * and at least 100 runs, each compared. The given scenes have so many seconds
 * of that, awkward ones the rest.
 */
void spc__gate_confirm(spc__verdict *out, spc__bed *bed, spc__tested *tested,
                       double limit_s);

#endif
