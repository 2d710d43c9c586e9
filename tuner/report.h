/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - progress, and every candidate, for the caller of a run. */
#ifndef SPC_TUNER_REPORT_H
#define SPC_TUNER_REPORT_H

#include "spc/tune.h"
#include "tuner/search/candidates.h"

typedef struct spc__pace { /* progress of a run */
    uint64_t since_ns;     /* the start of the first candidate */
    int done, total;
    const spc__entry *best; /* the best candidate measured so far, or NULL */
} spc__pace;

void spc__report_progress(const spc__request *request, const spc__pace *pace,
                          spc_stage stage);
/* Reports a candidate that has reached its last stage. */
void spc__report_entry(const spc__request *request, const spc__entry *entry);
/* Reports all that are timed or failed. */
void spc__report_all(const spc__request *request,
                     const spc__candidates *candidates);
/* Reports templates with mistakes. */
void spc__report_mistakes(const spc__request *request, const spc__space *space);
/* Reports every candidate in the order of the space, then whole templates. */
void spc__report_space(const spc__request *request,
                       const spc__candidates *candidates);

#endif
