/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.h - takes candidates as far as the request's stage: some compile
 * while another is verified or timed.
 */
#ifndef SPC_TUNER_PIPELINE_H
#define SPC_TUNER_PIPELINE_H

#include "tuner/builder.h"
#include "tuner/ladder.h"
#include "tuner/meter.h"
#include "tuner/record.h"
#include "tuner/report.h"

typedef struct spc__pipeline {
    const spc__request *request;
    spc__candidates *candidates;
    spc__meter *meter;
    spc__record *record;
    spc__builder *builder; /* NULL: nothing had to be built yet */
    spc__ladder *ladder;   /* NULL: its code is not wanted, or not begun */
    spc__pace pace;
    bool explores;  /* what the time does not suffice for may be left out */
    bool is_cut;    /* and something was */
    double waits_s; /* for compilers, with nothing to measure */
} spc__pipeline;

void spc__pipeline_release(spc__pipeline *pipeline);

/*
 * Builds, verifies and screens the candidates of the list, all of them new,
 * as far as the stage goes, and records what they come to. Stages that time
 * nothing report them, too, in the order of the list. Ends early with the run's
 * own failures, such as SPC_EINTERRUPTED; what was finished is recorded.
 */
spc_status spc__pipeline_run(spc__pipeline *pipeline, spc__entry **list,
                             int count);

/* Begins to compile the kernels of maps, as soon as target and library are
 * known: with stages that keep code. */
spc_status spc__pipeline_begin(spc__pipeline *pipeline);
/* What the database lacks of them to serve other scenes than those of the run,
 * once all else is stored. */
spc_status spc__pipeline_complete(spc__pipeline *pipeline);

/* How many were compiled. */
int spc__pipeline_compiled(const spc__pipeline *pipeline);

/* So many times the best will not come back. */
#define SPC__HOPELESS 2.0

#endif
