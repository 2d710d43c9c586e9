/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offset_store.h - lists of offsets that outlive the caller's.
 *
 * A layer refers to its list of offsets. Whatever keeps a layer (a plan, a map,
 * a network) or hands one out (spc_conv_parse) refers to a copy in this store.
 * It holds each distinct list once, until the process ends, so layers stay
 * plain values that need no release.
 */
#ifndef SPC_RUNTIME_OFFSET_STORE_H
#define SPC_RUNTIME_OFFSET_STORE_H

#include "spc.h"

/* Numbers in the longest list. */
enum { SPC__LIST_NUMBERS = 3 * SPC_MAX_OFFSETS };

/*
 * Makes a geometry refer to the stored list. Of a box the pointer becomes NULL.
 * SPC_ENOMEM leaves the geometry as it is, and so does a list that
 * spc_geometry_check refuses. Any thread may call this at any time.
 */
spc_status spc__geometry_keep(spc_geometry *geometry, spc_error *error);

#endif
