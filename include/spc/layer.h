/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/layer.h - a convolution layer as a value: its geometry, types, epilogue
 * and passes, and its text.
 */
#ifndef SPC_LAYER_H
#define SPC_LAYER_H

#include "status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPC_MAX_OFFSETS = 343 /* kernel volume kx*ky*kz, 7^3 */
};

/* ---- layers -------------------------------------------------------------- */

/*
 * Rules that determine which voxels are outputs, and which inputs each output
 * sees.
 *
 * A kernel is a list of offsets. In a box kernel, the input of output voxel o
 * at the offset (i, j, l) lies, on each axis, at
 *
 *     o * stride + origin + dilation * place
 *
 * Coordinates of a level are in units of that level's voxels. The rule
 * determines the outputs:
 *
 *   SUBM       those of the inputs; stride 1 (Graham, Engelcke, van der Maaten,
 *              CVPR 2018, section 3)
 *   FLOOR      floor(i / stride) of every input i (Choy, Gwak, Savarese, CVPR
 *              2019, section 3; MinkowskiEngine)
 *   FOOTPRINT  every o that sees an input: i + padding - dilation * place is a
 *              multiple of the stride for some place. Where the inputs' spatial
 *              shape S is given, only 0 <= o < O with O = (S + 2 padding -
 *              dilation (kernel - 1) - 1) / stride + 1 (Yan, Mao, Li, Sensors
 *              2018, section 3.1.1; spconv). Stride 1 dilates the set
 *   GIVEN      those of a set that the caller has
 *   GENERATIVE read the other way only: from voxels o come all voxels i that
 *              they see by the formula, each once (Choy, Gwak, Savarese, CVPR
 *              2019; Gwak, Choy, Savarese, ECCV 2020; MinkowskiEngine). Where a
 *              shape is given, only 0 <= i < shape. With origin -padding and
 *              the shape (S - 1) stride - 2 padding + dilation (kernel - 1) + 1
 *              + output_padding, S that of o, it is spconv's
 *              SparseConvTranspose3d
 *   RADIUS     of points, not of voxels: see "native points" below
 *   EXPAND     floor(i / stride) + origin + dilation * place for every i and
 *              place: the coarse voxels of FLOOR, expanded by the kernel. An o
 *              may see no input (WarpConvNet's generative layers with a stride)
 */
typedef enum spc_rule {
    SPC_RULE_SUBM = 0,
    SPC_RULE_FLOOR = 1,
    SPC_RULE_FOOTPRINT = 2,
    SPC_RULE_GIVEN = 3,
    SPC_RULE_GENERATIVE = 4,
    SPC_RULE_RADIUS = 5,
    SPC_RULE_EXPAND = 6
} spc_rule;

/* The default origin of the rule. SUBM: -dilation * ((kernel - 1) / 2), integer
 * division: an even kernel reaches one further in the positive direction.
 * FLOOR, GIVEN, GENERATIVE, EXPAND: the same for odd kernels, 0 for even ones.
 * FOOTPRINT: -padding. */
#define SPC_ORIGIN_AUTO INT32_MIN

typedef struct spc_geometry {
    spc_rule rule;
    int kernel[3];   /* x, y, z; product at most SPC_MAX_OFFSETS */
    int stride[3];   /* at least 1 */
    int dilation[3]; /* at least 1 */
    int padding[3];  /* FOOTPRINT only, at least 0 */
    int origin[3];   /* of offset 0, in input voxels; SPC_ORIGIN_AUTO */
    int shape[3];    /* up to 2^30; 0: none on this axis. FOOTPRINT: spatial
                        shape of the inputs; GENERATIVE: of the outputs */
    /* Length of an explicit list that replaces the box: distinct displacements
     * in input voxels, in the order of the weights. 0: the box. kernel,
     * dilation, padding and origin then stay as in SPC_GEOMETRY_INIT. With
     * every rule but RADIUS the input of output o lies at o * stride +
     * displacement. FOOTPRINT produces every o, and GENERATIVE every i, for
     * which this holds with a displacement of the list; EXPAND adds each
     * displacement to floor(i / stride). With a shape S, FOOTPRINT's outputs
     * are 0 <= o < O, O = (S - low - high - 1) / stride + 1, where low and high
     * are the least and greatest displacement along the axis: the O of a box,
     * whose low is -padding. */
    int offset_count; /* at most SPC_MAX_OFFSETS */
    /* [offset_count][3]: x, y, z. The caller owns the list. Functions read the
     * list before they return, and objects that keep a layer (a plan, a map, a
     * network) keep a copy of the list. Layers that the library returns refer
     * to a copy that stays until the process ends; equal lists share one
     * copy. */
    const int16_t *offsets;
    /* RADIUS only; `kernel` is then the number of cells along each axis. */
    float radius; /* above 0 */
    int nearest;  /* use only this many nearest inputs; up to 2^20; 0: all */
    float voxel;  /* outputs are one point of each voxel of this edge; 0: the
                     inputs, or a cloud of the caller */
    int reserved[5]; /* 0 */
} spc_geometry;

#define SPC_GEOMETRY_INIT                                                      \
    {                                                                          \
        SPC_RULE_SUBM, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0},             \
            {SPC_ORIGIN_AUTO, SPC_ORIGIN_AUTO, SPC_ORIGIN_AUTO}, {0, 0, 0}, 0, \
            NULL, 0, 0, 0,                                                     \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

/* SPC_OK, or SPC_EINVAL with the reason. */
SPC_API spc_status spc_geometry_check(const spc_geometry *geometry,
                                      spc_error *error);
/* Returns the number of offsets of the kernel, the K of the weights; 0 if the
 * geometry is invalid. */
SPC_API int spc_geometry_offset_count(const spc_geometry *geometry);
/* Writes the displacement of offset k, 0 <= k < K, which is added to o *
 * stride; for any other k it is (0, 0, 0). Offsets of a box are numbered with z
 * fastest: k = (i * ky + j) * kz + l. */
SPC_API void spc_geometry_offset_at(int out[3], const spc_geometry *geometry,
                                    int k);

/*
 * The sum that all operators compute from inputs [rows in][cin] and weights
 * [cout][K][cin / groups], for each row and channel of the outputs [rows
 * out][cout]:
 *
 *     sum[o][co] = the sum over k < K and c < cin / groups of
 *                  weights[co][k][c] * in[i][g * cin / groups + c]
 *
 * where i is the row of the input that o sees at offset k, if there is one, and
 * g = co / (cout / groups); the epilogue then makes out of sum. With groups =
 * cin = cout each channel is separate (depthwise: Howard and others, 2017).
 * Operators differ in which voxels are outputs and which inputs they see. Their
 * sources are those of the rules; INVERSE is spconv's, TRANSPOSED and
 * GENERATIVE are MinkowskiEngine's.
 */
typedef enum spc_operator {
    SPC_SUBM = 0,    /* outputs at the inputs' coordinates; rule SUBM */
    SPC_CONV = 1,    /* strided; rule FLOOR, FOOTPRINT, GIVEN or EXPAND */
    SPC_INVERSE = 2, /* the map of a strided layer in the reverse direction: its
                        outputs are the inputs of the strided layer in their row
                        order, its geometry is that of the strided layer, and
                        offsets are not flipped (spconv's SparseInverseConv3d;
                        transposed over a stored map) */
    /* The formula in the reverse direction: an output at o sees the input at i
     * if o = i * stride + origin + dilation * place. */
    SPC_TRANSPOSED = 3, /* outputs are a set of the caller; rule GIVEN */
    SPC_GENERATIVE = 4, /* outputs are all voxels that see an input; rule
                           GENERATIVE */
    SPC_POINTS = 5      /* of points; rule RADIUS, also allowed for INVERSE */
} spc_operator;

/* F16: binary16 in and out, fp32 accumulate. F32: fp32 throughout, no reduced
 * precision. TF32: fp32 in memory, products in tf32, fp32 accumulate. BF16:
 * bfloat16 (the upper half of an fp32) in and out, fp32 accumulate. I8: whole
 * numbers from -128 to 127 in and out, int32 accumulate; see below. An int32
 * holds the sum of any 2^17 - 1 products (offsets * cin / groups).
 *
 * A result that F16 cannot hold, from 65520 on, is infinite. Sums propagate
 * infinities and NaN as IEEE 754 does, with two exceptions: a kernel may turn
 * an infinity that it reads into NaN, and a NaN weight may also appear in
 * outputs of its channel that have no input at its offset. An activation may
 * turn NaN into a number. */
typedef enum spc_dtype {
    SPC_F16 = 0,
    SPC_F32 = 1,
    SPC_TF32 = 2,
    SPC_BF16 = 3,
    SPC_I8 = 4
} spc_dtype;

/*
 * The type in which products are summed. OWN: fp32; for I8 int32. SUMS_F16, for
 * F16 only: sums may also be binary16, rounded after every few products (PTX
 * ISA, mma with an accumulator of .f16). It suits layers whose sums stay below
 * 65520 (larger sums become infinite) and that tolerate a relative rounding
 * error of 2^-11 in each partial sum. It only permits such kernels: kernels
 * that sum in fp32 remain candidates, and they are the only ones on the cpu
 * device. A gradient of weights is summed in fp32.
 */
typedef enum spc_accumulator {
    SPC_ACCUMULATOR_DEFAULT = 0,
    SPC_ACCUMULATOR_F16 = 1
} spc_accumulator;

/* "f16"; NULL past the last type. */
SPC_API const char *spc_dtype_name(spc_dtype dtype);

/*
 * The epilogue: the operations that a kernel applies to an fp32 sum before
 * storing it. They are computed in fp32 and rounded once to the type of the
 * outputs.
 *
 *     y = sum * scale[c] + bias[c]         each of them if asked for
 *     y = activation(y + residual[row][c]) with SPC_ADD_BEFORE
 *     y = activation(y) + residual[row][c] with SPC_ADD_AFTER
 *
 * Scale and bias are a folded batch normalisation: scale = gamma /
 * sqrt(variance + epsilon), bias = beta - mean * scale.
 *
 * Tensors of I8 are quantised symmetrically, as in TensorRT: the element q
 * represents q * s, where s is the tensor's scale, an fp32 number stored on the
 * device with the tensor. (An exporter's dynamic range amax means s = amax /
 * 127.) For such inputs, outputs and residuals:
 *
 *     y = sum * (in_scale * scale[c]) + bias[c]
 *     the residual is residual[row][c] * residual_scale
 *     out = round(y / out_scale), ties to even, at least -128, at most 127
 *
 * with the sum of products in int32, exact while it fits (2^17 products always
 * do), then rounded to fp32. Weights have a scale for each output channel,
 * which is scale[c] (or a factor of it, with a batch normalisation); by
 * convention the elements of weights are from -127 to 127, though -128 works as
 * well. Quotients and products with a scale are rounded to fp32. Inputs of I8
 * may have outputs of any type, and inputs of any type may have outputs of I8.
 * So a network may be quantised in part.
 */
typedef enum spc_activation {
    SPC_ACT_NONE = 0,
    SPC_ACT_RELU = 1,    /* max(y, 0) */
    SPC_ACT_LEAKY = 2,   /* y, below zero slope * y */
    SPC_ACT_SIGMOID = 3, /* 1 / (1 + exp(-y)) */
    SPC_ACT_SILU = 4,    /* y / (1 + exp(-y)) */
    SPC_ACT_GELU = 5,    /* y / 2 * (1 + erf(y / sqrt(2))): the exact form, not
                            the tanh approximation */
    SPC_ACT_ELU = 6      /* y, below zero slope * (exp(y) - 1) */
} spc_activation;

typedef enum spc_add {
    SPC_ADD_NONE = 0,
    SPC_ADD_BEFORE = 1, /* the residual is added before the activation */
    SPC_ADD_AFTER = 2   /* or after it; AFTER if there is no residual */
} spc_add;

/* The type of the outputs in memory, and of the residual. */
typedef enum spc_out_type {
    SPC_OUT_DEFAULT = 0, /* the type of the inputs */
    SPC_OUT_F16 = 1,
    SPC_OUT_BF16 = 2,
    SPC_OUT_F32 = 3,
    SPC_OUT_I8 = 4
} spc_out_type;

/*
 * The passes of a training step. For y = conv(x), dy is the gradient of some
 * loss with respect to y:
 *
 *   DGRAD  dx[i][ci] = the sum over k and co of dy[o][co] * w[co][k][ci], for
 *          the output o that sees i at offset k. That is a convolution again:
 *          the operator is the one that reads the relation the other way (SUBM
 *          remains, with its offsets mirrored), cin and cout have changed
 *          places, and so all that serves convolutions serves it. Its weights
 *          are those of the layer as they are: spc_plan_pack turns
 *          them. The gradient of a GENERATIVE layer is a CONV by that rule
 *   WGRAD  dw[k][ci][co] = the sum over pairs (i, o) of offset k of x[i][ci]
 *          * dy[o][co], and with `bias` db[co] = the sum over o of dy[o][co];
 *          ci counts in co's group. The layer's own operator, channels and map.
 *          x is `in`, dy `grad`, of the layer's type; out is SPC_RSCK,
 *          [K][cin / groups][cout], then db[cout] if there is one, in the type
 *          `out`; with `accumulate` added to what `weights` points at, of that
 *          shape and type, which may be out itself. No epilogue. A plan made
 *          with SPC_PLAN_KRSC has SPC_KRSC, [cout][K][cin / groups], in place
 * of SPC_RSCK, with the same bits; its workspace is larger by the result
 *
 * Both passes sum in a fixed order, without atomics, if the layer is
 * deterministic.
 */
typedef enum spc_pass {
    SPC_FORWARD = 0,
    SPC_DGRAD = 1,
    SPC_WGRAD = 2
} spc_pass;

/* A convolution layer as a value. */
typedef struct spc_conv {
    spc_operator op;
    int cin;
    int cout;
    /* Number of groups of channels, each with its own weights: output channel
     * co reads only the inputs of group co / (cout / groups). Divides cin and
     * cout; 1: every output sees every input; cin: depthwise. */
    int groups;
    spc_geometry geometry;
    spc_dtype dtype;
    bool bias;          /* add bias[cout] (fp32) in the epilogue */
    bool deterministic; /* only candidates without atomics; part of the key */
    bool scale;         /* multiply by scale[cout] (fp32) before the bias */
    spc_activation activation;
    float slope; /* of LEAKY and ELU just below zero, up to 16; 0: 0.01 for
                    LEAKY, 1 for ELU (its alpha) */
    spc_add add;
    spc_out_type out;
    /* Pitches: elements from one row to the next; 0 means the number of
     * channels. A larger pitch makes the tensor a slice of a wider tensor: the
     * elements between its rows are neither read nor written. Concatenation is
     * two layers that write slices of one tensor. The caller passes the address
     * of the slice's first channel, which must be a multiple of 16 bytes like
     * that of any tensor. */
    int in_pitch, out_pitch, add_pitch;
    spc_pass pass;
    bool accumulate; /* WGRAD only: adds to an existing gradient */
    spc_accumulator accumulator;
    int reserved[6]; /* 0 */
} spc_conv;

#define SPC_CONV_INIT                                                          \
    {                                                                          \
        SPC_SUBM, 0, 0, 1, SPC_GEOMETRY_INIT, SPC_F16, false, false, false,    \
            SPC_ACT_NONE, 0, SPC_ADD_NONE, SPC_OUT_DEFAULT, 0, 0, 0,           \
            SPC_FORWARD, false, SPC_ACCUMULATOR_DEFAULT,                       \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

/*
 * Reads "subm,cin=64,cout=64,k=3,dtype=f16": the operator first, then words in
 * any order: cin, cout, groups (1; cin for a depthwise layer), k (3 or 3x3x1),
 * dilation, dtype (f16, f32, tf32, bf16, i8), deterministic (0, 1), epilogue,
 * slope, out (f16, bf16, f32, i8), in_pitch, out_pitch, add_pitch, pass (dgrad,
 * wgrad; spc_conv_pass), accumulate, accumulator (f32; i32 for i8; f16 also
 * allowed for f16, see spc_accumulator). An epilogue is a list in the order of
 * computation, as in epilogue=scale+bias+relu+add: scale and bias first, then
 * an activation (relu, leaky, sigmoid, silu, gelu, elu) and add in either
 * order; bias=1 is another word for epilogue=bias. "conv" and "inverse" also
 * take stride, padding, rule (floor, footprint; conv also given), origin (-1 or
 * -1x0x0) and shape. An inverse layer takes the words of the strided layer that
 * it inverts, but with different cin and cout. offsets=0x0x0+1x0x0+-1x0x0 is a
 * list that replaces k, dilation, padding and origin. "transposed" and
 * "generative" take stride and origin; "generative" also takes the shape of its
 * outputs. "points" takes radius, nearest and voxel; its inverse has
 * rule=radius and the same words. "linear,cin=64,cout=128" is short for
 * "subm,cin=64,cout=128,k=1": it computes each row separately, and needs no
 * set. SPC_EINVAL names the unknown word or the bad value and what would be
 * right.
 */
SPC_API spc_status spc_conv_parse(spc_conv *out, const char *text,
                                  spc_error *error);
/* Writes the canonical text (at most `bytes`, terminated); returns its length
 * as snprintf does. spc_conv_parse reads it back. Writes "" for a geometry with
 * a value out of range. */
SPC_API int spc_conv_format(char *out, size_t bytes, const spc_conv *conv);
/* SPC_OK, or SPC_EINVAL with the reason. */
SPC_API spc_status spc_conv_check(const spc_conv *conv, spc_error *error);

/*
 * Writes the problem of a gradient pass of `layer`, a forward layer whose
 * epilogue is at most a bias. Gradients have the layer's type. DGRAD has no
 * bias and swaps the layer's pitches; WGRAD has the gradient of the bias, and
 * add_pitch for dy. The text has the layer's words and pass=dgrad or
 * pass=wgrad; there `epilogue`, `out`, the pitches and accumulate=1 describe
 * the pass. SPC_EINVAL: a layer of I8, or an epilogue.
 */
SPC_API spc_status spc_conv_pass(spc_conv *out, const spc_conv *layer,
                                 spc_pass pass, spc_error *error);

/* True if every output row sees only the input row of the same number. Such a
 * layer needs no map (spc_plan_create_linear); a WGRAD always needs one. */
SPC_API bool spc_conv_is_linear(const spc_conv *conv);

/* The arrays of a layer. */
typedef enum spc_operand {
    SPC_OPERAND_IN = 0,       /* [rows of the inputs][cin] */
    SPC_OPERAND_OUT = 1,      /* [rows of the outputs][cout] */
    SPC_OPERAND_WEIGHTS = 2,  /* [cout][K][cin / groups], or as SPC_RSCK */
    SPC_OPERAND_BIAS = 3,     /* [cout], fp32; 0 bytes without a bias */
    SPC_OPERAND_SCALE = 4,    /* [cout], fp32; 0 bytes without a scale */
    SPC_OPERAND_RESIDUAL = 5, /* as SPC_OPERAND_OUT; 0 bytes without a
                                 residual */
    /* The scale of a tensor of I8, one fp32; 0 bytes for other types. */
    SPC_OPERAND_IN_SCALE = 6,
    SPC_OPERAND_OUT_SCALE = 7,
    SPC_OPERAND_RESIDUAL_SCALE = 8,
    SPC_OPERANDS = 9
} spc_operand;

/* Returns the bytes of one array of the layer. `rows` is the number of input
 * rows for SPC_OPERAND_IN, of output rows for SPC_OPERAND_OUT and
 * SPC_OPERAND_RESIDUAL, else ignored. Returns 0 for an invalid layer. For a
 * slice, the bytes go from its first element to the end of its last. For packed
 * weights see spc_plan_weights_bytes. */
SPC_API size_t spc_conv_operand_bytes(const spc_conv *conv, spc_operand which,
                                      int64_t rows);

#ifdef __cplusplus
}
#endif
#endif
