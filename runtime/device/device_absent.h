/* SPDX-License-Identifier: Apache-2.0 */
/* device_absent.h - a GPU that is not here, for which kernels are compiled. */
#ifndef SPC_DEVICE_ABSENT_H
#define SPC_DEVICE_ABSENT_H

#include "device/device.h"

/* Opens "sm_87" and the like. SPC_EUNSUPPORTED names the known targets. */
spc_status spc__absent_open(spc__device **out, const char *target,
                            const spc__device_options *options,
                            spc_error *error);

#endif
