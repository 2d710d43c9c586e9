/* SPDX-License-Identifier: Apache-2.0 */
/* sized_import.c - the defaults of these structs, and their earlier sizes. */
#include "import/sized_import.h"

/* None yet: 1.0 is the first version. */
static const size_t none[] = {0};

static const spc_kernel_form form = SPC_KERNEL_FORM_INIT;
static const spc_weights_use use = SPC_WEIGHTS_USE_INIT;
static const spc_onnx_options options = SPC_ONNX_OPTIONS_INIT;

const spc__sized spc__sized_kernel_form = {"spc_kernel_form", sizeof(form),
                                           none, &form};
const spc__sized spc__sized_weights_use = {"spc_weights_use", sizeof(use), none,
                                           &use};
const spc__sized spc__sized_onnx_options = {"spc_onnx_options", sizeof(options),
                                            none, &options};
