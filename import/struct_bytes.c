/* SPDX-License-Identifier: Apache-2.0 */
/* struct_bytes.c - the sizes of the structs of spc_import.h. */
#include "base/struct_bytes.h"
#include "spc_import.h"

/* A test compares the names with the structs of the headers. */
#define ROW(type) #type, sizeof(type)
static const spc__struct structs[] = {
    {ROW(spc_array)},        {ROW(spc_batch_norm)},   {ROW(spc_kernel_form)},
    {ROW(spc_kernel_shape)}, {ROW(spc_onnx_options)}, {ROW(spc_onnx_range)},
    {ROW(spc_weights_use)},
};
#undef ROW

size_t spc_import_struct_bytes(const char *name)
{
    return spc__struct_find(structs, sizeof(structs) / sizeof(structs[0]),
                            name);
}
