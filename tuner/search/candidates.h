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
    SPC__BUILT,    /* the candidate has code */
    SPC__VERIFIED, /* correct on every scene */
    SPC__TIMED     /* has timings, from this run or from the database */
} spc__state;

typedef struct spc__timing { /* times of one candidate on one scene */
    double *all;             /* samples of this run */
    int count;               /* number of samples of the median */
    int capacity;
    double median_us, spread_us, cold_us;
} spc__timing;

/* The end of the note of a timeout that a second run has repeated. */
#define SPC__LATE_AGAIN "; nor did it in an earlier run"

typedef struct spc__entry { /* an admitted candidate */
    const spc__candidate *candidate;
    int number;   /* position in the order of the space */
    char *config; /* canonical text */
    spc__state state;
    spc__trial trial; /* everything known except the timings */
    spc__timing timings[SPC__SCENES_MAX];
    bool known;        /* known from the database */
    bool is_duplicate; /* another candidate has the same code and launch */
    bool serves;       /* by the database, a plan would use it now */
    bool in_network;   /* chosen by replays of a network */
    bool was_late;     /* an earlier run noted a timeout */
    /* its time was below the floor, so it is measured again */
    bool doubted;
    /* time beside all others that have one; 0: not a finalist */
    double side_us;
    /*
     * On near problems (near.h): its best time relative to the third best; 0:
     * unknown.
     */
    double near_ratio;
    bool won_near, lost_near;
    /* Changed since it was last stored. */
    bool trial_pending, code_pending;
    char identity[65]; /* equal for duplicates; "" until rendered */
    char body[65];     /* equal for equal code */
    char *source;      /* rendered text, until it is compiled */
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
/* Returns another candidate with the same code and launch that is not a
 * duplicate itself, or NULL.
 */
const spc__entry *spc__candidates_original(const spc__candidates *candidates,
                                           const spc__entry *entry);
/*
 * Returns another candidate that has the same code or waits for it, or NULL.
 * The two differ only in their launch, for example in the row order.
 */
const spc__entry *spc__candidates_model(const spc__candidates *candidates,
                                        const spc__entry *entry);

void spc__entry_fail(spc__entry *entry, spc__trial_status status,
                     const char *note);
/* Returns the geometric mean of the medians over the first `scenes` scenes, in
 * microseconds. */
double spc__entry_score(const spc__entry *entry, int scenes);

#endif
