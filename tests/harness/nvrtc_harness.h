/* SPDX-License-Identifier: Apache-2.0 */
/* nvrtc_harness.h - is there NVRTC on this machine? */
#ifndef SPC_TESTS_NVRTC_HARNESS_H
#define SPC_TESTS_NVRTC_HARNESS_H

#include "compiler/artefact.h"

#include <stdbool.h>

/* Otherwise returns false and the reason. */
static inline bool has_nvrtc(spc_error *why)
{
    spc__compiler *nvrtc = NULL;
    bool has = spc__nvrtc_open(&nvrtc, why) == SPC_OK;

    spc__compiler_close(nvrtc);
    return has;
}

#endif
