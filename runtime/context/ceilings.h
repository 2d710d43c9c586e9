/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ceilings.h - the measured figures of a device as facts of the database.
 * Writing and reading use one list of names.
 */
#ifndef SPC_RUNTIME_CEILINGS_H
#define SPC_RUNTIME_CEILINGS_H

#include "base/attrs.h"
#include "spc.h"

/* Writes the figures in `info`. Figures that were not measured are left out. */
void spc__ceilings_write(spc__attrs *facts, const spc_device_info *info);

/* Reads the figures from `facts` into `info`. Missing figures become 0. If the
 * facts were measured with another number of multiprocessors (a part of the
 * GPU, or fewer threads), they do not apply and all figures become 0. */
void spc__ceilings_read(spc_device_info *info, const spc__attrs *facts);

#endif
