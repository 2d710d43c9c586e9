/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meter.h - measures candidates: verified against the oracle, and timed in
 * rounds, one at a time, through the one measuring process of the device.
 *
 * Whom it finds wrong, or who does not come back, it marks as failed; what it
 * learns is pending (candidates.h), for whoever keeps records.
 */
#ifndef SPC_TUNER_METER_H
#define SPC_TUNER_METER_H

#include "tuner/search/candidates.h"
#include "tuner/worker/runner.h"

typedef struct spc__meter {
    const spc__request *request;
    spc_relation relations[SPC__SCENES_MAX]; /* until the oracle ran */
    spc__work works[SPC__SCENES_MAX];        /* for floors, from then on */
    spc__sample sample;
    spc__runner *runner; /* NULL: nothing had to be measured yet */
    int verified, timed; /* how many candidates */
    bool has_sample;
    bool has_doubted; /* a time below the floor was reported */
    /* Seconds: of drawing the sample, and what is right on it; until the
     * measuring side was ready; of loading and verifying, of that in the gate;
     * of timing. */
    double draw_s, start_s, verify_s, gate_s, time_s;
} spc__meter;

void spc__meter_init(spc__meter *out, const spc__request *request);
void spc__meter_release(spc__meter *meter);

/* Finds what the layer makes of sample scene s; meter->relations[s] is that. */
spc_status spc__meter_relate(spc__meter *meter, int s);

/* Draws the sample and asks the oracle, then starts the measuring side; each
 * unless that was done. */
spc_status spc__meter_draw(spc__meter *meter);
spc_status spc__meter_start(spc__meter *meter);

/* Compares a built candidate with the oracle on all scenes. */
spc_status spc__meter_verify(spc__meter *meter, spc__entry *entry);
/* The first few samples of a verified one. */
spc_status spc__meter_screen(spc__meter *meter, spc__entry *entry);
/* Rounds over the timed ones of the list until all have `goal` samples; the
 * order of the list is lost. */
spc_status spc__meter_rounds(spc__meter *meter, spc__entry **list, int count,
                             int goal);
/* Likewise until all have samples with a cold cache. */
spc_status spc__meter_cold_rounds(spc__meter *meter, spc__entry **list,
                                  int count);
/* Those of the list that are timed must repeat their results before one of them
 * may win; who does not has failed. */
spc_status spc__meter_confirm(spc__meter *meter, spc__entry **list, int count);
/* All samples of these once more, in rounds of their own. */
spc_status spc__meter_again(spc__meter *meter, spc__entry **list, int count,
                            int goal);
/* Microseconds, by geometric mean over the scenes, in which what of a map it
 * reads is built; 0: not known, as it was not measured in this run. */
double spc__meter_layout(spc__meter *meter, const spc__entry *entry);
/* It fails for what the outcome says, and that is pending. */
void spc__meter_fail(spc__entry *entry, const spc__outcome *outcome);
/* The code of this one will not be asked for soon. */
spc_status spc__meter_unload(spc__meter *meter, const spc__entry *entry);

/* Has it `goal` samples on every scene, or is it too slow for so many; and a
 * cold one, if `cold`? */
bool spc__entry_has(const spc__entry *entry, int scenes, int goal, bool cold);

#endif
