/* SPDX-License-Identifier: Apache-2.0 */
/*
 * given.h - generates the second set of a layer whose outputs are given.
 *
 * Such a layer is tuned, verified and benchmarked on scenes like any other
 * layer, but a scene is only one set. This generates the other set as plain
 * data, which the oracle and the devices take unchanged.
 */
#ifndef SPC_RUNTIME_GIVEN_H
#define SPC_RUNTIME_GIVEN_H

#include "spc.h"

/*
 * Takes the voxels floor(i / stride) of the scene's rows, leaves out a quarter
 * of them, and for another quarter adds the next voxel along one axis. So some
 * windows are empty and some inputs contribute to no output. The order of the
 * result does not depend on the order of the scene's rows. *out is [*rows][4];
 * the caller frees it.
 */
spc_status spc__given_draw(int32_t **out, int64_t *rows,
                           const spc_geometry *geometry, const int32_t *coords,
                           int64_t count, spc_error *error);

#endif
