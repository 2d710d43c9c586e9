/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_none.c - replaces the ONNX importer in builds without protobuf-c: every
 * call fails with a message. */
#include "spc_import.h"

#include "base/error.h"

spc_status spc_onnx_open(spc_onnx **out, const char *path, spc_error *error)
{
    spc_status status =
        spc__need(error, __func__, "out", out, "path", path, NULL);

    if (out != NULL)
        *out = NULL;
    if (status != SPC_OK)
        return status;
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "cannot read '%s': spctune was built without protobuf-c",
                     path);
}

void spc_onnx_free(spc_onnx *onnx)
{
    (void)onnx; /* this build never creates one */
}

spc_status spc_onnx_build(spc_net **out, const spc_onnx *onnx,
                          const spc_onnx_options *options, spc_error *error)
{
    (void)onnx;
    (void)options;
    if (out != NULL)
        *out = NULL;
    return spc__fail(error, SPC_EUNSUPPORTED,
                     "spctune was built without protobuf-c");
}

spc_status spc_onnx_range_at(spc_onnx_range *out, const spc_onnx *onnx, int i)
{
    (void)out;
    (void)onnx;
    (void)i;
    return SPC_EINVAL;
}
