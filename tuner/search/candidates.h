/* SPDX-License-Identifier: Apache-2.0 */
/*
 * candidates.h - the candidates of a run: the space of the layer on its
 * target, and what has become of each that is admitted.
 */
#ifndef SPC_TUNER_CANDIDATES_H
#define SPC_TUNER_CANDIDATES_H

#include "cache/cache.h"
#include "compiler/space.h"
#include "lab/sample/sample.h"
#include "tuner/request.h"

/* How far a candidate has come. */
typedef enum spc__state {
    SPC__NEW,
    SPC__COMPILING,
    SPC__FAILED,   /* trial.status says how */
    SPC__BUILT,    /* code is at hand */
    SPC__VERIFIED, /* right on every scene */
    SPC__TIMED     /* timings are there, from now or from the database */
} spc__state;

typedef struct spc__timing { /* of one candidate on one scene */
    double *all;             /* samples of this run */
    int count;               /* samples behind the median */
    int room;
    double median_us, spread_us, cold_us;
} spc__timing;

/* Ends the note of a timeout that a second run has repeated. */
#define SPC__LATE_AGAIN "; nor did it in an earlier run"

typedef struct spc__entry { /* an admitted candidate */
    const spc__candidate *candidate;
    int number;   /* in the order of the space */
    char *config; /* canonical text */
    spc__state state;
    spc__trial trial; /* all that is known but the timings */
    spc__timing timings[SPC__SCENES_MAX];
    bool known;      /* from the database */
    bool is_twin;    /* another has the same code and launch */
    bool serves;     /* what a plan would take so far, from the database */
    bool in_network; /* the choice of a network, by its replays */
    bool was_late;   /* an earlier run has it as a timeout */
    bool doubted;    /* its time was below the floor, and is measured again */
    double side_us;  /* beside all others that have it; 0: not a finalist */
    /* Of near problems (near.h): how many times the third best it took, where
     * it did best; 0: not known. */
    double near_ratio;
    bool won_near, lost_near;
    /* What has changed since it was stored. */
    bool trial_pending, code_pending;
    char identity[65]; /* by which twins know each other; "" until rendered */
    char body[65];     /* by which those of one code do */
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

/* Finds problem and target, and no candidates. */
spc_status spc__candidates_begin(spc__candidates *out,
                                 const spc__request *request);
/* Instead of the space, which takes a while to find, what was tried of it and
 * could be used, by trials of this very problem. The caller releases *out also
 * after a failure; as below. */
spc_status spc__candidates_tried(spc__candidates *out,
                                 const spc__request *request,
                                 const spc__trial *trials, int count);
/* Finds problem, target and space. The caller releases *out also after a
 * failure. */
spc_status spc__candidates_open(spc__candidates *out,
                                const spc__request *request);
/* Refuses what no template's constraints know, and makes the entries of those
 * that remain: SPC_EUNSUPPORTED if none does. */
spc_status spc__candidates_admit(spc__candidates *candidates,
                                 const spc__request *request);
void spc__candidates_release(spc__candidates *candidates);

/* By its configuration; NULL: there is none. */
spc__entry *spc__candidates_find(const spc__candidates *candidates,
                                 const char *template_name, const char *config);
/* Another that has the same code and launch, and is no twin itself; NULL. */
const spc__entry *spc__candidates_twin(const spc__candidates *candidates,
                                       const spc__entry *entry);
/* Another that has, or is getting, the same code; NULL. They differ in their
 * launch alone, as in the row order that they ask for. */
const spc__entry *spc__candidates_model(const spc__candidates *candidates,
                                        const spc__entry *entry);

void spc__entry_fail(spc__entry *entry, spc__trial_status status,
                     const char *note);
/* Geometric mean over the first `scenes` scenes of the medians, in
 * microseconds. */
double spc__entry_score(const spc__entry *entry, int scenes);

#endif
