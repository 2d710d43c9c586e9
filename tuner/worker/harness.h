/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness.h - the measuring harness: a sample's scenes on a device, and
 * candidates that are loaded, verified and timed on them. It needs neither the
 * database nor a compiler, and runs in the tuner's process or in a worker.
 */
#ifndef SPC_TUNER_HARNESS_H
#define SPC_TUNER_HARNESS_H

#include "lab/gate/gate.h"

enum { SPC__SAMPLES_MAX = 256 }; /* samples of one request */

/* The data of a candidate that the harness needs. */
typedef struct spc__harness_code {
    char template_name[32];
    char artefact[65];
    spc__attrs config;
    spc__attrs launch;
    const void *code;
    size_t code_bytes;
} spc__harness_code;

typedef struct spc__harness_order {
    int scene;
    int samples; /* how many samples to take */
    bool cold;
    double limit_s; /* for all samples together */
    bool layout;    /* time building the map's layout instead of running */
} spc__harness_order;

/* The result of a request. */
typedef struct spc__outcome {
    spc__trial_status status; /* OK, LAUNCH, FAULT, WRONG; the runner adds
                                 TIMEOUT */
    /* begins with the name of the failed test: gate.h */
    char note[192];
    double error; /* result of verification */
    int count;    /* number of samples, in microseconds */
    double samples[SPC__SAMPLES_MAX];
    double gate_s; /* time in the gate for this request */
    bool dead;     /* the device, or this process, is unusable */
    /*
     * SPC_OK, or a failure that no candidate has caused: out of memory, or the
     * device is no longer available. `status` is then invalid.
     */
    spc_status trouble;
} spc__outcome;

typedef struct spc__harness spc__harness;

/*
 * Builds the maps and uploads the inputs. The caller owns `sample`, which must
 * outlive the harness. Failures here are the run's, not a candidate's.
 */
spc_status spc__harness_create(spc__harness **out, spc_ctx *ctx,
                               const spc__sample *sample, spc_error *error);
void spc__harness_free(spc__harness *harness);

/* Loads a candidate into slot `slot`, and tests it in the gate. */
void spc__harness_verify(spc__outcome *out, spc__harness *harness, int slot,
                         const spc__harness_code *code);

bool spc__harness_has(const spc__harness *harness, int slot);

/* Loads a candidate that was verified elsewhere, without verifying. */
void spc__harness_load(spc__outcome *out, spc__harness *harness, int slot,
                       const spc__harness_code *code);

void spc__harness_time(spc__outcome *out, spc__harness *harness, int slot,
                       const spc__harness_order *order);

/* Confirms a loaded candidate that may win: see spc__gate_confirm. */
void spc__harness_confirm(spc__outcome *out, spc__harness *harness, int slot);

void spc__harness_unload(spc__harness *harness, int slot);

/*
 * Checks that the device runs a small kernel within a short time; sets `dead`
 * if not.
 */
void spc__harness_probe(spc__outcome *out, spc__harness *harness);

#endif
