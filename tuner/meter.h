/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meter.h - measures candidates: verifies them against the oracle, and times
 * them in rounds, one at a time, through the one worker process of the device.
 *
 * It marks candidates as failed that are wrong or crash. Its results are
 * pending (candidates.h) until a record stores them.
 */
#ifndef SPC_TUNER_METER_H
#define SPC_TUNER_METER_H

#include "tuner/search/candidates.h"
#include "tuner/worker/runner.h"

typedef struct spc__meter {
    const spc__request *request;
    /* valid until the oracle has run */
    spc_relation relations[SPC__SCENES_MAX];
    /* for floors, valid after the oracle has run */
    spc__work works[SPC__SCENES_MAX];
    spc__sample sample;
    spc__runner *runner; /* NULL: nothing was measured yet */
    int verified, timed; /* number of candidates */
    bool has_sample;
    bool has_doubted; /* a time below the floor was reported */
    /*
     * Seconds spent: drawing the sample and its expected results; waiting for
     * the worker to be ready; loading and verifying, of which in the gate;
     * timing.
     */
    double draw_s, start_s, verify_s, gate_s, time_s;
} spc__meter;

void spc__meter_init(spc__meter *out, const spc__request *request);
void spc__meter_release(spc__meter *meter);

/* Computes the layer's relation on sample scene s into meter->relations[s]. */
spc_status spc__meter_relate(spc__meter *meter, int s);

/*
 * Draws the sample and asks the oracle, then starts the worker; each only once.
 */
spc_status spc__meter_show(spc__meter *meter);
spc_status spc__meter_start(spc__meter *meter);

/* Compares a built candidate with the oracle on all scenes. */
spc_status spc__meter_verify(spc__meter *meter, spc__entry *entry);
/* Takes the first few samples of a verified candidate. */
spc_status spc__meter_screen(spc__meter *meter, spc__entry *entry);
/*
 * Runs rounds over the timed candidates of the list until all have `goal`
 * samples; reorders the list.
 */
spc_status spc__meter_rounds(spc__meter *meter, spc__entry **list, int count,
                             int goal);
/* The same until all have samples with a cold cache. */
spc_status spc__meter_cold_rounds(spc__meter *meter, spc__entry **list,
                                  int count);
/*
 * Verifies that the timed candidates of the list repeat their results, as a
 * winner must. A candidate that does not pass has failed.
 */
spc_status spc__meter_confirm(spc__meter *meter, spc__entry **list, int count);
/* Removes the cold times, which mark confirmed candidates. */
void spc__meter_unconfirm(spc__entry **list, int count);
/* Takes all samples of these candidates again, in rounds of their own. */
spc_status spc__meter_again(spc__meter *meter, spc__entry **list, int count,
                            int goal);
/*
 * Time to build the layout of the map that the candidate reads: microseconds,
 * geometric mean over the scenes. 0: unknown, as it was not measured in this
 * run.
 */
double spc__meter_layout(spc__meter *meter, const spc__entry *entry);
/*
 * Marks the candidate as failed with the outcome's note, which is then pending.
 */
void spc__meter_fail(spc__entry *entry, const spc__outcome *outcome);
/* Unloads a candidate that will not be needed soon. */
spc_status spc__meter_unload(spc__meter *meter, const spc__entry *entry);

/*
 * True if it has `goal` samples on every scene, or is too slow for that many;
 * and a cold one, if `cold`.
 */
bool spc__entry_has(const spc__entry *entry, int scenes, int goal, bool cold);

#endif
