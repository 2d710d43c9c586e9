/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ceilings.h - the measured figures of a device as facts of the database: one
 * list of names for who stores them and who reads them.
 */
#ifndef SPC_RUNTIME_CEILINGS_H
#define SPC_RUNTIME_CEILINGS_H

#include "base/attrs.h"
#include "spc.h"

/* Writes what `info` holds; what was not measured is left out. */
void spc__ceilings_write(spc__attrs *facts, const spc_device_info *info);

/* Reads what `facts` hold into `info`; what they lack becomes 0. Figures of
 * another number of multiprocessors (a part of the GPU, fewer threads) are none
 * of this device's: all become 0. */
void spc__ceilings_read(spc_device_info *info, const spc__attrs *facts);

#endif
