/* SPDX-License-Identifier: Apache-2.0 */
/* resources.h - what the compiler's report says before any launch. */
#ifndef SPC_TUNER_RESOURCES_H
#define SPC_TUNER_RESOURCES_H

#include "tuner/search/candidates.h"

/* Writes why a compiled candidate must not be launched on `target`; false if it
 * may be. */
bool spc__resources_refuse(char *why, size_t bytes, const spc__entry *entry,
                           const spc__attrs *target, bool allow_spills);

#endif
