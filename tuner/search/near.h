/* SPDX-License-Identifier: Apache-2.0 */
/* near.h - what the database knows of problems near that of a run. */
#ifndef SPC_TUNER_NEAR_H
#define SPC_TUNER_NEAR_H

#include "tuner/record.h"

/*
 * Marks candidates by how they did on the nearest problems that were tuned:
 * those that won there, with which a search had better begin, and those that
 * lost in all of them that know them, so clearly that it can leave them out.
 */
void spc__near_recall(const spc__record *record,
                      const spc__candidates *candidates);

#endif
