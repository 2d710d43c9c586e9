/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - progress, and every candidate, for the caller of a run. */
#ifndef SPC_TUNER_REPORT_H
#define SPC_TUNER_REPORT_H

#include "tuner/search/candidates.h"

typedef struct spc__pace { /* how far a run is */
    uint64_t since_ns;     /* the first candidate was begun */
    int done, total;
    const spc__entry *best; /* of those measured so far, or NULL */
} spc__pace;

void spc__report_progress(const spc__request *request, const spc__pace *pace,
                          spc_stage stage);
/* A candidate that has come as far as it will. */
void spc__report_entry(const spc__request *request, const spc__entry *entry);
/* All that are timed or failed. */
void spc__report_all(const spc__request *request,
                     const spc__candidates *candidates);
/* Templates that make a mistake. */
void spc__report_mistakes(const spc__request *request, const spc__space *space);
/* Every candidate in the order of the space, then whole templates. */
void spc__report_space(const spc__request *request,
                       const spc__candidates *candidates);

#endif
