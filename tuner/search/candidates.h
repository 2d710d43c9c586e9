/* SPDX-License-Identifier: Apache-2.0 */
/*
 * candidates.h - the candidates of a run: the space of the layer on its target,
 * and the state of each admitted one.
 */
#ifndef SPC_TUNER_CANDIDATES_H
#define SPC_TUNER_CANDIDATES_H

#include "cache/cache.h"
#include "compiler/space.h"
#include "lab/sample/sample.h"
#include "tuner/request.h"

/* The progress of a candidate. */
typedef enum spc__state {
    SPC__NEW,
    SPC__COMPILING,
    SPC__FAILED,   /* trial.status has the reason */
    SPC__BUILT,    /* has code */
    SPC__VERIFIED, /* correct on every scene */
    SPC__TIMED     /* has timings, from this run or from the database */
} spc__state;

typedef struct spc__timing { /* of one candidate on one scene */
    double *all;             /* samples of this run */
    int count;               /* samples of the median */
    int capacity;
    double median_us, spread_us, cold_us;
} spc__timing;

/* Appended to the note of a timeout that a second run has repeated. */
#define SPC__LATE_AGAIN "; nor did it in an earlier run"

typedef struct spc__entry { /* an admitted candidate */
    const spc__candidate *candidate;
    int number;   /* in the order of the space */
    char *config; /* canonical text */
    spc__state state;
    spc__trial trial; /* everything known except the timings */
    spc__timing timings[SPC__SCENES_MAX];
    bool known;        /* from the database */
    bool is_duplicate; /* another has the same code and launch */
    bool serves;       /* a plan would use it now, by the database */
    bool in_network;   /* chosen in a network, by its replays */
    bool was_late;     /* an earlier run noted a timeout */
    bool doubted;      /* its time was below the floor, and is measured again */
    /* time beside all others that have one; 0: not a finalist */
    double side_us;
    /*
     * On near problems (near.h): its best time relative to the third best; 0:
     * unknown.
     */
    double near_ratio;
    bool won_near, lost_near;
    /* Changed since it was stored. */
    bool trial_pending, code_pending;
    char identity[65]; /* equal for duplicates; "" until rendered */
    char body[65];     /* equal for the same code */
    char *source;      /* rendered, until compiled */
    void *code;
    size_t code_bytes;
} spc__entry;

typedef struct spc__candidates {
    spc__library *library;
    spc__attrs problem;
    spc__attrs target;
    spc__space *space;
    spc__entry *entries; /* in the order of the space */
    int count;
    spc__entry **by_config; /* sorted by template and configuration */
} spc__candidates;

/* Determines problem and target, without candidates. */
spc_status spc__candidates_begin(spc__candidates *out,
                                 const spc__request *request);
/*
 * Makes candidates from usable trials of this very problem, instead of the
 * space, which takes a while to find. The caller releases *out even after a
 * failure.
 */
spc_status spc__candidates_tried(spc__candidates *out,
                                 const spc__request *request,
                                 const spc__trial *trials, int count);
/*
 * Determines problem, target and space. The caller releases *out even after a
 * failure.
 */
spc_status spc__candidates_open(spc__candidates *out,
                                const spc__request *request);
/*
 * Applies the constraints common to all templates, and makes entries of the
 * remaining candidates. SPC_EUNSUPPORTED if none remain.
 */
spc_status spc__candidates_admit(spc__candidates *candidates,
                                 const spc__request *request);
void spc__candidates_release(spc__candidates *candidates);

/* Finds a candidate by its configuration, or NULL. */
spc__entry *spc__candidates_find(const spc__candidates *candidates,
                                 const char *template_name, const char *config);
/* Another with the same code and launch that is no duplicate itself, or NULL.
 */
const spc__entry *spc__candidates_original(const spc__candidates *candidates,
                                           const spc__entry *entry);
/*
 * Another that has the same code, or waits for it; or NULL. They only differ in
 * their launch, for example in the row order.
 */
const spc__entry *spc__candidates_model(const spc__candidates *candidates,
                                        const spc__entry *entry);

void spc__entry_fail(spc__entry *entry, spc__trial_status status,
                     const char *note);
/* Geometric mean over the first `scenes` scenes of the medians, in
 * microseconds. */
double spc__entry_score(const spc__entry *entry, int scenes);

#endif
