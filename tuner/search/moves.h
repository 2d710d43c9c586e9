/* SPDX-License-Identifier: Apache-2.0 */
/* moves.h - what is measured first, and where the search goes on from there. */
#ifndef SPC_TUNER_MOVES_H
#define SPC_TUNER_MOVES_H

#include "tuner/search/candidates.h"

/* The candidates that the chosen effort begins with, or, of a stage that times
 * nothing, consists of, defaults first; or those that the caller wants. The
 * array is the caller's. */
spc__entry **spc__seeds(const spc__candidates *candidates,
                        const spc__request *request, int *count);

/* What to measure next, given all timed ones, best first: candidates that are
 * new, into `list`, which has room for all; returns their number. */
int spc__next_moves(const spc__candidates *candidates,
                    spc__entry *const *ranked, int ranked_count,
                    const spc__request *request, spc__entry **list);

#endif
