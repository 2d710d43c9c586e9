/* SPDX-License-Identifier: Apache-2.0 */
/* near.h - uses what the database knows about problems near that of a run. */
#ifndef SPC_TUNER_NEAR_H
#define SPC_TUNER_NEAR_H

#include "tuner/record.h"

/*
 * Marks candidates by their results on the nearest tuned problems: winners,
 * with which a search should start, and those that lost clearly in every
 * problem that knows them, which it can leave out.
 */
void spc__near_recall(const spc__record *record,
                      const spc__candidates *candidates);

#endif
