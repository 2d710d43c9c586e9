/* SPDX-License-Identifier: Apache-2.0 */
/*
 * class_default.h - the measured default of a class of layers: what serves a
 * layer of which, and of whose neighbours, a pack has no record.
 */
#ifndef SPC_RUNTIME_CLASS_DEFAULT_H
#define SPC_RUNTIME_CLASS_DEFAULT_H

#include "cache/cache.h"

/*
 * The class of a layer's key: same device and target, operator, type and pass,
 * groups or none, and the wider of its channels between the same powers of two.
 * It is a key of its own, in one neutral bucket.
 */
void spc__class_key(spc__problem_key *out, const spc__problem_key *key);

/* Is it the key of a class? */
bool spc__class_is(const spc__problem_key *key);

/*
 * Chooses for each class of what a file has measured the configuration whose
 * time is, in the geometric mean over the class's problems, nearest to the best
 * time of each, and stores it as the choice of the class.
 */
spc_status spc__class_defaults_add(spc__cache *cache, spc_error *error);

#endif
