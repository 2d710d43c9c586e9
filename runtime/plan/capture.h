/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h - records a layer and the voxels it ran on. */
#ifndef SPC_RUNTIME_CAPTURE_H
#define SPC_RUNTIME_CAPTURE_H

#include "spc.h"

/* Adds the layer and this scene (host) to the list of `folder`. */
spc_status spc__capture_write(const char *folder, const spc_conv *conv,
                              const int32_t *coords, int64_t rows,
                              spc_error *error);

#endif
