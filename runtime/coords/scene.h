/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene.h - scenes: coordinates on the host, with a name. Files and generators
 * of scenes belong to the lab.
 */
#ifndef SPC_RUNTIME_SCENE_H
#define SPC_RUNTIME_SCENE_H

#include "spc.h"

#include "spc/coords.h"

enum { SPC__SCENE_MAX_POINTS = INT32_MAX };

/*
 * Refuses a scene that cannot fit into memory together with its sort keys.
 * Linux grants more memory than it has, and ends the process that uses it.
 */
spc_status spc__scene_check_memory(int64_t rows, spc_error *error);

/*
 * Makes a scene of `coords` ([rows][4], from malloc). If it succeeds, the scene
 * owns them.
 */
spc_status spc__scene_take(spc_scene **out, int32_t *coords, int64_t rows,
                           const spc_scene_info *info, const char *name,
                           spc_error *error);

#endif
