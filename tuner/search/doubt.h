/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.h - measures times below the floor again. */
#ifndef SPC_TUNER_DOUBT_H
#define SPC_TUNER_DOUBT_H

#include "tuner/meter.h"

/* True if its time is below the floor and was not measured again yet. */
bool spc__doubt_is_due(const spc__meter *meter, const spc__entry *entry);

/*
 * Measures these candidates of the list again, alone. A warning names the first
 * that stays below the floor.
 */
spc_status spc__doubt(spc__meter *meter, spc__entry *const *list, int count);

#endif
