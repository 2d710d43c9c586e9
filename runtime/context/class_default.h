/* SPDX-License-Identifier: Apache-2.0 */
/*
 * class_default.h - the measured default of a class of layers. It serves a
 * layer if a pack has no record for the layer or its neighbours.
 */
#ifndef SPC_RUNTIME_CLASS_DEFAULT_H
#define SPC_RUNTIME_CLASS_DEFAULT_H

#include "cache/cache.h"

/*
 * Computes the class of a layer's key: same device and target, operator, type,
 * pass, use of groups, and the larger of its channels rounded up to a power of
 * two. A class has a separate key, in one neutral bucket.
 */
void spc__class_key(spc__problem_key *out, const spc__problem_key *key);

/* True if it is the key of a class. */
bool spc__class_is(const spc__problem_key *key);

/*
 * For each class of the problems measured in a file, chooses the configuration
 * with the smallest geometric mean of time / best time. Stores it as the choice
 * of the class.
 */
spc_status spc__class_defaults_add(spc__cache *cache, spc_error *error);

#endif
