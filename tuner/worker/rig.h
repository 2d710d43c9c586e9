/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.h - the measuring rig: a sample's scenes on a device, and candidates
 * that are loaded, verified and timed on them. Knows no database and no
 * compiler; runs in the tuner's process or in a worker.
 */
#ifndef SPC_TUNER_RIG_H
#define SPC_TUNER_RIG_H

#include "lab/gate/gate.h"

enum { SPC__SAMPLES_MAX = 256 }; /* of one request */

/* A candidate as the rig needs it. */
typedef struct spc__rig_code {
    char template_name[32];
    char artefact[65];
    spc__attrs config;
    spc__attrs launch;
    const void *code;
    size_t code_bytes;
} spc__rig_code;

typedef struct spc__rig_order {
    int scene;
    int samples; /* wanted */
    bool cold;
    double limit_s; /* for all samples together */
    bool layout; /* of building what of the map it reads, not of running it */
} spc__rig_order;

/* What came of a request. */
typedef struct spc__outcome {
    spc__trial_status status; /* OK, LAUNCH, FAULT, WRONG; the runner adds
                                 TIMEOUT */
    char note[192];           /* begins with the test that was failed: gate.h */
    double error;             /* of verify */
    int count;                /* of samples, in microseconds */
    double samples[SPC__SAMPLES_MAX];
    double gate_s; /* that the gate took of this request */
    bool dead;     /* the device, or this process, is of no more use */
    /* SPC_OK, or what failed that is no candidate's doing: memory ran out, the
     * device was taken away. Then status says nothing. */
    spc_status trouble;
} spc__outcome;

typedef struct spc__rig spc__rig;

/* Builds the maps and moves the inputs. `sample` stays the caller's and must
 * outlive the rig. Failures here are the run's, not a candidate's. */
spc_status spc__rig_create(spc__rig **out, spc_ctx *ctx,
                           const spc__sample *sample, spc_error *error);
void spc__rig_free(spc__rig *rig);

/* Loads a candidate under the number `slot`, and puts it through the gate. */
void spc__rig_verify(spc__outcome *out, spc__rig *rig, int slot,
                     const spc__rig_code *code);

bool spc__rig_has(const spc__rig *rig, int slot);

/* Loads a candidate without verifying: one that was verified elsewhere. */
void spc__rig_load(spc__outcome *out, spc__rig *rig, int slot,
                   const spc__rig_code *code);

void spc__rig_time(spc__outcome *out, spc__rig *rig, int slot,
                   const spc__rig_order *order);

/* For a candidate that is loaded and may win: see spc__gate_confirm. */
void spc__rig_confirm(spc__outcome *out, spc__rig *rig, int slot);

void spc__rig_unload(spc__rig *rig, int slot);

/* Does the device run a small kernel, and soon? Else `dead`. */
void spc__rig_probe(spc__outcome *out, spc__rig *rig);

#endif
