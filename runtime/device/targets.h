/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets.h - facts about GPUs that are not installed, for templates compiled
 * without a device.
 */
#ifndef SPC_DEVICE_TARGETS_H
#define SPC_DEVICE_TARGETS_H

#include "base/attrs.h"
#include "spc/status.h"

/*
 * The facts of "sm_90", "sm_90a", ... as a cuda device of that kind would
 * report them (runtime/device/device.h, `target`). SPC_EUNSUPPORTED lists the
 * known ones.
 */
spc_status spc__target_facts(spc__attrs *out, const char *target,
                             spc_error *error);

#endif
