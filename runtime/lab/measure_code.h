/* measure_code.h - the kernels with which a device is measured. */
#ifndef SPC_RUNTIME_MEASURE_CODE_H
#define SPC_RUNTIME_MEASURE_CODE_H

#include "ctx.h"

/* The module of the device's template of role "measure"; the kernel that does
 * nothing is "spc_empty". SPC_EUNSUPPORTED if there is none. */
spc_status spc__measure_code(spc__code *out, spc_ctx *ctx);

#endif
