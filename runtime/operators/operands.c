/* SPDX-License-Identifier: Apache-2.0 */
/* operands.c - names, shapes, types and sizes of a layer's arrays. */
#include "operators/operands.h"

#include "base/dtype.h"
#include "base/error.h"
#include "operators/conv.h"
#include "operators/epilogue.h"

/* Describes a matrix of features or weights. */
static spc__operand matrix(const char *name, spc_dtype dtype, int64_t rows,
                           int64_t columns, int pitch)
{
    size_t element = spc__dtype_of(dtype)->bytes;
    spc__operand out = {.name = name,
                        .present = true,
                        .rows = rows,
                        .columns = columns,
                        .pitch = pitch > 0 ? pitch : columns,
                        .dtype = dtype,
                        .alignment = 16}; /* kernels load 16 bytes at a time */

    out.dense_bytes = (size_t)rows * (size_t)columns * element;
    /* The last row needs no gap after it. */
    if (rows > 0)
        out.bytes = ((size_t)(rows - 1) * (size_t)out.pitch + (size_t)columns) *
                    element;
    return out;
}

/* An fp32 number for each output channel. */
static spc__operand vector(const char *name, bool present, int64_t columns)
{
    spc__operand out = matrix(name, SPC_F32, present ? 1 : 0, columns, 0);

    out.present = present;
    out.alignment = sizeof(float);
    return out;
}

/* The scale of an integer tensor. */
static spc__operand number(const char *name, bool present)
{
    return vector(name, present, 1);
}

/* The gradient of the weights, in RSCK, followed by that of the bias. */
static spc__operand gradient(const char *name, const spc_conv *conv)
{
    int64_t taps = (int64_t)spc__conv_offsets(conv) * spc__conv_group_in(conv);

    return matrix(name, spc__conv_out(conv), taps + conv->bias, conv->cout, 0);
}

/* Sets the operands in which a WGRAD differs from its layer. */
static void set_gradient(spc__operand out[SPC_OPERANDS], const spc_conv *conv,
                         int64_t rows_out)
{
    out[SPC_OPERAND_OUT] = gradient("out", conv);
    out[SPC_OPERAND_OUT].written = true;
    out[SPC_OPERAND_WEIGHTS] = conv->accumulate
                                   ? gradient("weights", conv)
                                   : matrix("weights", conv->dtype, 0, 0, 0);
    /* A gradient reads no weights. With `accumulate`, this operand is the
     * gradient to add to, which may be the output itself. */
    out[SPC_OPERAND_WEIGHTS].present = out[SPC_OPERAND_WEIGHTS].in_place =
        conv->accumulate;
    out[SPC_OPERAND_BIAS] = vector("bias", false, conv->cout);
    out[SPC_OPERAND_RESIDUAL] =
        matrix("grad", conv->dtype, rows_out, conv->cout, conv->add_pitch);
    out[SPC_OPERAND_RESIDUAL].by = SPC__ROWS_OUT;
}

void spc__operands(spc__operand out[SPC_OPERANDS], const spc_conv *conv,
                   int64_t rows_in, int64_t rows_out)
{
    /* In 64 bits: offsets times channels may exceed an int. */
    int64_t taps = (int64_t)spc__conv_offsets(conv) * spc__conv_group_in(conv);
    bool adds = conv->add != SPC_ADD_NONE;
    spc_dtype type = spc__conv_out(conv);

    out[SPC_OPERAND_IN] =
        matrix("in", conv->dtype, rows_in, conv->cin, conv->in_pitch);
    out[SPC_OPERAND_IN].by = SPC__ROWS_IN;
    out[SPC_OPERAND_OUT] =
        matrix("out", type, rows_out, conv->cout, conv->out_pitch);
    out[SPC_OPERAND_OUT].by = SPC__ROWS_OUT;
    out[SPC_OPERAND_OUT].written = true;
    out[SPC_OPERAND_WEIGHTS] =
        matrix("weights", conv->dtype, conv->cout, taps, 0);
    if (conv->pass == SPC_DGRAD) /* uses the layer's channels */
        out[SPC_OPERAND_WEIGHTS] = matrix(
            "weights", conv->dtype, conv->cin,
            (int64_t)spc__conv_offsets(conv) * spc__conv_group_out(conv), 0);
    out[SPC_OPERAND_WEIGHTS].packed = true;
    out[SPC_OPERAND_WEIGHTS].alignment = 256;
    out[SPC_OPERAND_BIAS] = vector("bias", conv->bias, conv->cout);
    out[SPC_OPERAND_SCALE] = vector("scale", conv->scale, conv->cout);
    out[SPC_OPERAND_RESIDUAL] = matrix("residual", type, adds ? rows_out : 0,
                                       conv->cout, conv->add_pitch);
    out[SPC_OPERAND_RESIDUAL].by = SPC__ROWS_OUT;
    out[SPC_OPERAND_RESIDUAL].present = adds;
    out[SPC_OPERAND_IN_SCALE] = number("in_scale", spc__conv_in_is_whole(conv));
    out[SPC_OPERAND_OUT_SCALE] =
        number("out_scale", spc__conv_out_is_whole(conv));
    out[SPC_OPERAND_RESIDUAL_SCALE] =
        number("residual_scale", adds && spc__conv_out_is_whole(conv));
    if (conv->pass == SPC_WGRAD)
        set_gradient(out, conv, rows_out);
}

spc__operand spc__operand_of(const spc_conv *conv, spc_operand which,
                             int64_t rows)
{
    spc__operand all[SPC_OPERANDS];

    spc__operands(all, conv, rows, rows);
    return all[which];
}

size_t spc_conv_operand_bytes(const spc_conv *conv, spc_operand which,
                              int64_t rows)
{
    if (spc_conv_check(conv, NULL) != SPC_OK || rows < 0 ||
        (unsigned)which >= SPC_OPERANDS)
        return 0;
    return spc__operand_of(conv, which, rows).bytes;
}

spc_status spc__check_buffer(const char *name, const void *memory,
                             size_t alignment, spc_error *error)
{
    if (memory == NULL)
        return spc__fail(error, SPC_EINVAL, "buffer `%s` is NULL", name);
    if ((uintptr_t)memory % alignment != 0)
        return spc__fail(error, SPC_EINVAL,
                         "buffer `%s` is at %p: it must be %d-byte aligned",
                         name, memory, (int)alignment);
    return SPC_OK;
}
