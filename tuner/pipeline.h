/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.h - takes candidates up to the request's stage: some compile while
 * another is verified or timed.
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
    spc__builder *builder; /* NULL: nothing was built yet */
    spc__ladder *ladder;   /* NULL: not wanted, or not started */
    spc__pace pace;
    bool explores;  /* may leave out candidates if time is short */
    bool is_cut;    /* candidates were left out */
    double waits_s; /* time spent waiting for compilers */
} spc__pipeline;

void spc__pipeline_release(spc__pipeline *pipeline);

/*
 * Builds, verifies and screens the candidates of the list, all of them new, up
 * to the stage, and records the results. Stages that time nothing also report
 * them, in the order of the list. Returns early on failures of the run, such as
 * SPC_EINTERRUPTED; finished candidates are recorded.
 */
spc_status spc__pipeline_run(spc__pipeline *pipeline, spc__entry **list,
                             int count);

/*
 * Starts compiling the kernels of maps, once target and library are known, if
 * the stage stores code.
 */
spc_status spc__pipeline_begin(spc__pipeline *pipeline);
/*
 * Compiles the map kernels that other scenes than those of the run need and the
 * database lacks, after everything else is stored.
 */
spc_status spc__pipeline_complete(spc__pipeline *pipeline);

/* Number of compiled candidates. */
int spc__pipeline_compiled(const spc__pipeline *pipeline);

/* A candidate this many times slower than the best cannot win. */
#define SPC__HOPELESS 2.0

#endif
