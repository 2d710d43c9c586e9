/*
 * given.h - the second set of a layer that is given both, drawn from a scene.
 *
 * Such a layer is tuned, verified and benchmarked on scenes like any other, and
 * a scene is one set. This draws the other: data, as a scene is, which both the
 * oracle and the devices take as it comes.
 */
#ifndef SPC_RUNTIME_GIVEN_H
#define SPC_RUNTIME_GIVEN_H

#include "spc.h"

/*
 * Of the voxels floor(i / stride) of the scene's rows a quarter is left out,
 * and of another quarter the next voxel along one axis is there too. So some
 * windows are empty and some inputs are seen by nobody. They come in an order
 * of their own, the same for all orders of the scene's rows. *out, which the
 * caller frees, is [*rows][4].
 */
spc_status spc__given_draw(int32_t **out, int64_t *rows,
                           const spc_geometry *geometry, const int32_t *coords,
                           int64_t count, spc_error *error);

#endif
