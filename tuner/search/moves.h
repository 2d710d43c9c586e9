/* SPDX-License-Identifier: Apache-2.0 */
/* moves.h - the first candidates of the search, and the next ones. */
#ifndef SPC_TUNER_MOVES_H
#define SPC_TUNER_MOVES_H

#include "tuner/search/candidates.h"

/*
 * The first candidates for the chosen effort, defaults first; for stages that
 * time nothing, all that they use. If the caller names candidates, those. The
 * caller owns the array.
 */
spc__entry **spc__seeds(const spc__candidates *candidates,
                        const spc__request *request, int *count);

/*
 * The next candidates to measure, given all timed ones, best first. Puts new
 * candidates into `list`, which has room for all; returns their number.
 */
int spc__next_moves(const spc__candidates *candidates,
                    spc__entry *const *ranked, int ranked_count,
                    const spc__request *request, spc__entry **list);

#endif
