/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relate.h - the relation of a layer on a scene, found on the host while the
 * user may interrupt.
 */
#ifndef SPC_CMD_RELATE_H
#define SPC_CMD_RELATE_H

#include "spc.h"

/* spc_oracle_relation; the caller releases *out. After SPC_EINTERRUPTED the
 * search goes on until the program ends: what it uses is left to it, the scene
 * too. The failure is cli_last_error(). */
spc_status relate(spc_relation *out, const spc_conv *conv,
                  const spc_scene *scene, int threads);

#endif
