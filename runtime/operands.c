/* operands.c - names, shapes, types and sizes of a layer's arrays. */
#include "operands.h"

#include "ctx.h"
#include "dtype.h"
#include <string.h>

static void describe(spc__operand *out, const char *name, spc_dtype dtype,
                     int64_t rows, int64_t columns)
{
    memset(out, 0, sizeof(*out));
    out->name = name;
    out->rows = rows;
    out->columns = columns;
    out->dtype = dtype;
    out->bytes = (size_t)rows * (size_t)columns * spc__dtype_of(dtype)->bytes;
    out->alignment = 16; /* kernels load 16 bytes at a time */
}

int spc__operands(spc__operand out[SPC_OPERANDS], const spc_conv *conv,
                  int64_t rows_in, int64_t rows_out)
{
    int64_t taps = (int64_t)spc__conv_offsets(conv) * spc__conv_group_in(conv);

    describe(&out[SPC_IN], "in", conv->dtype, rows_in, conv->cin);
    describe(&out[SPC_OUT], "out", conv->dtype, rows_out, conv->cout);
    out[SPC_OUT].written = true;
    describe(&out[SPC_WEIGHTS], "weights", conv->dtype, conv->cout, taps);
    out[SPC_WEIGHTS].packed = true;
    out[SPC_WEIGHTS].alignment = 256;
    describe(&out[SPC_BIAS], "bias", SPC_F32, conv->bias ? 1 : 0, conv->cout);
    out[SPC_BIAS].alignment = sizeof(float);
    return conv->bias ? SPC_OPERANDS : SPC_BIAS;
}

spc__operand spc__operand_of(const spc_conv *conv, spc_operand which,
                             int64_t rows)
{
    spc__operand all[SPC_OPERANDS];

    spc__operands(all, conv, rows, rows);
    return all[which];
}

size_t spc_conv_bytes(const spc_conv *conv, spc_operand which, int64_t rows)
{
    if (spc_conv_check(conv, NULL) != SPC_OK || rows < 0 ||
        (unsigned)which >= SPC_OPERANDS)
        return 0;
    return spc__operand_of(conv, which, rows).bytes;
}
