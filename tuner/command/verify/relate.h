/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relate.h - finds the relation of a layer on a scene on the host; the user may
 * interrupt it.
 */
#ifndef SPC_CMD_RELATE_H
#define SPC_CMD_RELATE_H

#include "spc.h"
#include "spc/lab.h"

/*
 * Calls spc_oracle_relation; the caller releases *out. After SPC_EINTERRUPTED
 * the search goes on until the program ends, so its operands, including the
 * scene, must not be freed. cli_last_error() has the failure.
 */
spc_status relate(spc_relation *out, const spc_conv *conv,
                  const spc_scene *scene, int threads);

#endif
