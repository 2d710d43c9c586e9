/* SPDX-License-Identifier: Apache-2.0 */
/* resources.h - checks the compiler's report before any launch. */
#ifndef SPC_TUNER_RESOURCES_H
#define SPC_TUNER_RESOURCES_H

#include "tuner/search/candidates.h"

/*
 * Returns true, and writes why, if a compiled candidate must not be launched on
 * `target`.
 */
bool spc__resources_refuse(char *why, size_t bytes, const spc__entry *entry,
                           const spc__attrs *target, bool allow_spills);

#endif
