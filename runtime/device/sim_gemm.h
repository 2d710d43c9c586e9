/* SPDX-License-Identifier: Apache-2.0 */
/* sim_gemm.h - spc__device_ops.has_gemm and .gemm of the sim device. */
#ifndef SPC_RUNTIME_SIM_GEMM_H
#define SPC_RUNTIME_SIM_GEMM_H

#include "device/device.h"

bool spc__sim_has_gemm(spc__device *device);
spc_status spc__sim_gemm(spc__device *device, const spc__gemm *gemm,
                         void *stream, spc_error *error);

#endif
