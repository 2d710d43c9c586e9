/* SPDX-License-Identifier: Apache-2.0 */
/* sized_import.h - structs of spc_import.h that start with their size. */
#ifndef SPC_IMPORT_SIZED_H
#define SPC_IMPORT_SIZED_H

#include "base/sized.h"
#include "spc_import.h"

extern const spc__sized spc__sized_kernel_form, spc__sized_weights_use,
    spc__sized_onnx_options;

#endif
