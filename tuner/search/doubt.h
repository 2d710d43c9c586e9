/* doubt.h - times that cannot be are not believed. */
#ifndef SPC_TUNER_DOUBT_H
#define SPC_TUNER_DOUBT_H

#include "meter.h"

/* Is it timed, and faster than the device could be? */
bool spc__doubt_is_due(const spc__meter *meter, const spc__entry *entry);

/* Such ones of the list are measured again, alone; who stays below the floor
 * has failed. */
spc_status spc__doubt(spc__meter *meter, spc__entry *const *list, int count);

#endif
