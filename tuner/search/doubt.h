/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.h - times below the floor are measured again. */
#ifndef SPC_TUNER_DOUBT_H
#define SPC_TUNER_DOUBT_H

#include "tuner/meter.h"

/* Is its time below the floor, and was not yet measured again? */
bool spc__doubt_is_due(const spc__meter *meter, const spc__entry *entry);

/* Such ones of the list are measured again, alone. A warning names the first
 * that stays below the floor. */
spc_status spc__doubt(spc__meter *meter, spc__entry *const *list, int count);

#endif
