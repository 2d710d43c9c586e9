/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc_import.h - import from files of other programs: named arrays of weights,
 * and the layouts in which engines keep the weights of convolutions.
 *
 * It belongs to libspc_import, which needs more libraries than libspc. A
 * program that only runs imported networks does not need it. The file follows
 * the order of a caller: open the files, find the arrays, convert kernels to
 * the canonical layout, fold normalisations.
 *
 * Conventions are those of spc.h. All contents of a file are checked before
 * use; an invalid file gives SPC_EFORMAT and a message with its name.
 */
#ifndef SPC_IMPORT_H
#define SPC_IMPORT_H

#include "spc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As spc_struct_bytes, for the structs of this header. */
SPC_API size_t spc_import_struct_bytes(const char *name);

/* ---- arrays -------------------------------------------------------------- */

/* The types of elements, named as in safetensors, with their bytes. */
#define SPC_ELEMENT_MAP(X)                                                     \
    X(BOOL, 1)                                                                 \
    X(U8, 1)                                                                   \
    X(I8, 1)                                                                   \
    X(F8_E5M2, 1)                                                              \
    X(F8_E4M3, 1)                                                              \
    X(U16, 2)                                                                  \
    X(I16, 2)                                                                  \
    X(F16, 2)                                                                  \
    X(BF16, 2)                                                                 \
    X(U32, 4)                                                                  \
    X(I32, 4)                                                                  \
    X(F32, 4)                                                                  \
    X(U64, 8)                                                                  \
    X(I64, 8)                                                                  \
    X(F64, 8)

typedef enum spc_element {
#define X(name, bytes) SPC_ELEMENT_##name,
    SPC_ELEMENT_MAP(X)
#undef X
        SPC_ELEMENTS
} spc_element;

SPC_API const char *spc_element_name(spc_element type); /* "F16"; "?" */
SPC_API size_t spc_element_bytes(spc_element type);     /* 0: unknown type */

enum { SPC_ARRAY_RANK = 8 };

/* A dense array, the last index fastest, little endian. `data` may lie at any
 * address, even an odd one. */
typedef struct spc_array {
    const char *name;
    const char *file; /* the file of the array; NULL: no file */
    spc_element type;
    int rank; /* 0: a single number */
    int64_t shape[SPC_ARRAY_RANK];
    const void *data;
    size_t bytes;
    /* NULL, or the reason why the array cannot be read, such as "its elements
     * are of type C64". Such an array has a name and a file, but type, shape
     * and data are not set. */
    const char *unreadable;
} spc_array;

/* Returns the number of elements; 0 for NULL. */
SPC_API int64_t spc_array_elements(const spc_array *array);

/* Converts the elements to fp32, rounded to nearest even, from F16, BF16, F32
 * or F64. SPC_EUNSUPPORTED: another type; SPC_ERANGE: a finite number of an F64
 * array is too large. */
SPC_API spc_status spc_array_floats(float *out, const spc_array *array,
                                    spc_error *error);

/* ---- files of arrays ----------------------------------------------------- */

typedef struct spc_weights spc_weights; /* the arrays of some files */

/*
 * Opens files of arrays: .safetensors, .npz (each member is an array), .npy
 * (the array is named after the file, without folder and suffix), and
 * checkpoints of PyTorch (.pth, .pt, .ckpt). A checkpoint is a table of
 * tensors, or has one named model_state, state_dict or model. Nothing in it is
 * executed: SPC_EUNSUPPORTED if it has more than tensors, containers, numbers
 * and texts, or was written before PyTorch 1.6. Other uncompressed
 * files are mapped into memory, so opening reads no elements; truncating such a
 * file while it is open ends the program. An array of an unsupported type
 * (texts, objects, complex numbers), or of more than 8 dimensions, is listed as
 * unreadable; only a layer that needs it fails. Members of .npz files that are
 * not .npy are skipped. An array name that occurs in two files gives
 * SPC_EDUPLICATE. SPC_ENOTFOUND, SPC_EIO, SPC_EFORMAT, SPC_ENOMEM;
 * SPC_EUNSUPPORTED: the library was built without the format. The caller frees
 * *out.
 */
SPC_API spc_status spc_weights_open(spc_weights **out, const char *const *paths,
                                    int count, spc_error *error);
SPC_API void spc_weights_free(spc_weights *weights); /* NULL is fine */

/* Returns the number of arrays; 0 for NULL. */
SPC_API int spc_weights_count(const spc_weights *weights);
/* Returns array `i` in ascending order of names; NULL past the last. Arrays
 * live as long as `weights`. */
SPC_API const spc_array *spc_weights_at(const spc_weights *weights, int i);
/* Returns the array of this name, or NULL; it lives as long as `weights`. */
SPC_API const spc_array *spc_weights_find(const spc_weights *weights,
                                          const char *name);

/* Writes arrays as a .safetensors file, atomically. Their names must differ.
 * `note` (may be NULL) is stored as the metadata "spctune". SPC_EINVAL: `path`
 * is a file of another kind, which stays unchanged. */
SPC_API spc_status spc_weights_save(const char *path, const spc_array *arrays,
                                    int count, const char *note,
                                    spc_error *error);

/* ---- kernels of engines -------------------------------------------------- */

/*
 * How engines keep the weights of a convolution. o: output channel; i: input
 * channel; a, b, c: place along the first, second and third axis of the
 * engine's coordinates; the last index is the fastest.
 *
 *   word         shape            one offset      made by
 *   spctune      [o][a][b][c][i]  the same        'spctune weights'
 *   spconv2      [o][a][b][c][i]  memory: [i][o]  spconv 2.2 and later
 *   spconv1      [a][b][c][i][o]  the same        spconv 1.x, mmcv
 *   minkowski    [K][i][o]        [i][o]          K counts with a fastest
 *   torchsparse  [K][i][o]        [i][o]          the same if K is odd, else
 *                                                 with c fastest
 *   flexgemm     [o][a][b][c][i]  the same        FlexGEMM, TRELLIS.2
 *
 * If K offsets are a list (spc_kernel_form.offsets), one index of size K
 * replaces a, b, c, or several indices with only one of them not 1. It follows
 * the list: nothing is permuted, whatever the axes are, even if K is 1. In all
 * engines, a matrix [o][i] named "....weight" belongs to a linear layer. spconv
 * 2 multiplies by the memory of a kernel of one offset as if its shape were
 * [i][o], unless the layer has a stride.
 */
typedef enum spc_engine {
    SPC_ENGINE_SPCTUNE = 0,
    SPC_ENGINE_SPCONV2 = 1,
    SPC_ENGINE_SPCONV1 = 2,
    SPC_ENGINE_MINKOWSKI = 3,
    SPC_ENGINE_TORCHSPARSE = 4,
    SPC_ENGINE_FLEXGEMM = 5,
    SPC_ENGINES = 6
} spc_engine;

SPC_API const char *spc_engine_name(spc_engine engine); /* Returns the word of
                                                           the engine; "?" if
                                                           unknown. */
/* Reads the word of an engine. SPC_EINVAL names the known words. */
SPC_API spc_status spc_engine_parse(spc_engine *out, const char *word,
                                    spc_error *error);

/* The form of one convolution kernel of such an engine. */
typedef struct spc_kernel_form {
    size_t bytes; /* sizeof this struct: SPC_KERNEL_FORM_INIT sets it */
    spc_engine engine;
    /* The axes of the engine's coordinates, in its order: "xyz" (NULL), "zyx"
     * for detectors, whose coordinates are batch, z, y, x; "yx" in 2D. */
    const char *axes;
    /* Sizes along x, y, z. 0: the sizes of the shape; if the shape has only K,
     * the cube (or square) of K offsets. */
    int kernel[3];
    bool strided; /* the stride is not 1 on some axis */
    /* Not 0: the kernel is a list of this many offsets instead of a box, as the
     * layer word offsets= gives it, in the order of that list. SPC_OFFSETS_ANY:
     * as many as the array has. `kernel` is then not read. */
    int offsets;
} spc_kernel_form;

#define SPC_OFFSETS_ANY (-1)

#define SPC_KERNEL_FORM_INIT                                                   \
    {                                                                          \
        sizeof(spc_kernel_form), SPC_ENGINE_SPCTUNE, NULL, {0, 0, 0}, false, 0 \
    }

/* SPC_EINVAL: the text is not one of these orders of axes. */
SPC_API spc_status spc_axes_check(const char *axes, spc_error *error);

/* The canonical shape of a kernel: [cout][kx][ky][kz][cin]. */
typedef struct spc_kernel_shape {
    int cout, cin; /* cin of one group */
    int kernel[3]; /* x, y, z; for a list of K offsets: K, 1, 1 */
} spc_kernel_shape;

/* SPC_EINVAL: the array does not have the shape of a kernel of this form, or
 * the form itself is invalid; the message names the right shape or form. */
SPC_API spc_status spc_kernel_describe(spc_kernel_shape *out,
                                       const spc_array *array,
                                       const spc_kernel_form *form,
                                       spc_error *error);
/* Writes the kernel (as many bytes as the array has) in the canonical layout of
 * spc.h: [cout][K][cin], offsets with z fastest. The elements keep their type.
 * Fails as spc_kernel_describe. */
SPC_API spc_status spc_kernel_convert(void *out, const spc_array *array,
                                      const spc_kernel_form *form,
                                      spc_error *error);
/* The reverse: converts canonical weights of such a shape, with elements of the
 * given size in bytes, to the engine's layout. `out` has as many bytes.
 * SPC_EINVAL: the form or the shape is invalid. */
SPC_API spc_status spc_kernel_restore(void *out, const void *canonical,
                                      size_t element_bytes,
                                      const spc_kernel_shape *shape,
                                      const spc_kernel_form *form,
                                      spc_error *error);
/* Converts like spc_kernel_convert, for a layer, and writes fp32 values for
 * spc_net_set_param. The shape must be that of the layer. SPC_EINVAL,
 * SPC_ERANGE, SPC_EUNSUPPORTED as spc_array_floats; SPC_ERANGE also if finite
 * weights would be infinite in the layer's type, such as weights above 65504 in
 * F16: the message gives their number and a type that can hold them. */
SPC_API spc_status spc_kernel_load(float *out, const spc_conv *conv,
                                   const spc_array *array,
                                   const spc_kernel_form *form,
                                   spc_error *error);
/* The origin of a layer of the rule FLOOR or GENERATIVE on an axis, as the
 * engine defines it; SPC_ORIGIN_AUTO if it is the default origin of the
 * rule. */
SPC_API int spc_engine_origin(spc_engine engine, int kernel, int dilation);
/* True if this array is the kernel of a convolution, judging by its name and
 * shape. `axes` is as in spc_kernel_form. */
SPC_API bool spc_engine_is_kernel(spc_engine engine, const spc_array *array,
                                  const char *axes);

/* ---- normalisations ------------------------------------------------------ */

/* A batch normalisation at inference, [channels] each. gamma and beta may be
 * NULL: 1 and 0. */
typedef struct spc_batch_norm {
    const float *gamma, *beta, *mean, *variance;
    double epsilon; /* differs between models: 1e-3 and 1e-5 are both common */
} spc_batch_norm;

/*
 * Computes the scale and bias of an epilogue for it: scale = gamma /
 * sqrt(variance + epsilon) and bias = beta + (conv_bias - mean) * scale,
 * computed in double precision and rounded once. `conv_bias` (may be NULL) is
 * the bias of the preceding convolution. All arrays are [channels]. SPC_EINVAL:
 * variance + epsilon is not positive in some channel; SPC_ERANGE: a result does
 * not fit fp32.
 */
SPC_API spc_status spc_batch_norm_fold(float *scale, float *bias, int channels,
                                       const spc_batch_norm *norm,
                                       const float *conv_bias,
                                       spc_error *error);
/* Finds "NAME.weight", "NAME.bias", "NAME.running_mean" and
 * "NAME.running_var" and folds them; scale and bias are [channels], as is
 * conv_bias (may be NULL).
 * SPC_ENOTFOUND: mean or variance are missing. */
SPC_API spc_status spc_batch_norm_load(float *scale, float *bias, int channels,
                                       const spc_weights *weights,
                                       const char *name, double epsilon,
                                       const float *conv_bias,
                                       spc_error *error);

/* ---- networks ------------------------------------------------------------ */

/* How the arrays of a network's file are named and laid out. */
typedef struct spc_weights_use {
    size_t bytes; /* sizeof this struct: SPC_WEIGHTS_USE_INIT sets it */
    spc_engine engine;
    const char *axes;   /* as in spc_kernel_form */
    const char *prefix; /* prefix of all names: "module.backbone_3d."; NULL:
                           none */
} spc_weights_use;

#define SPC_WEIGHTS_USE_INIT                                                   \
    {                                                                          \
        sizeof(spc_weights_use), SPC_ENGINE_SPCTUNE, NULL, NULL                \
    }

/*
 * Sets all weights of a network. A layer "conv1" has the kernel "conv1.weight",
 * "conv1.kernel" or "conv1.linear.weight" and the bias "conv1.bias" or
 * "conv1.linear.bias"; its
 * normalisation "bn1" the arrays of spc_batch_norm_load, under that name or
 * under "bn1.bn"; a normalisation that is a layer of its own has "NAME.weight"
 * and "NAME.bias". SPC_ENOTFOUND names the first missing array; SPC_EINVAL: an
 * array has another shape, or belongs to a bias that the layer lacks;
 * SPC_ERANGE as spc_kernel_load. On failure the network may be filled in part.
 * NaN and infinity are accepted unchanged, and spc_net_note_at reports their
 * arrays. A normalisation with such values cannot be folded and is refused.
 */
SPC_API spc_status spc_weights_fill_net(spc_net *net,
                                        const spc_weights *weights,
                                        const spc_weights_use *use,
                                        spc_error *error);

/*
 * Finds the kernel of a layer by its name, as spc_weights_fill_net does, and
 * describes it, for spc_net_like.find. Returns false if there is no such
 * kernel, or if its shape is not that of a kernel of the engine; *out is then
 * not filled.
 */
SPC_API bool spc_weights_find_layer(spc_kernel_shape *out,
                                    const spc_weights *weights,
                                    const spc_weights_use *use,
                                    const char *layer);

/*
 * Counts the arrays with the prefix that no layer of the network reads; *first
 * is the first of them, or NULL. Such arrays are normal, as a checkpoint
 * contains more than a backbone. They may also mean that the weights belong to
 * a deeper network with the same names.
 */
SPC_API int spc_weights_unread_count(const spc_array **first,
                                     const spc_net *net,
                                     const spc_weights *weights,
                                     const spc_weights_use *use);

/* ---- ONNX ---------------------------------------------------------------- */

/*
 * Networks of sparse convolutions in ONNX files of the form that libspconv's
 * exporter writes (NVIDIA, Lidar_AI_Solution), with nodes
 *
 *   SparseConvolution  x, kernel [cout][k][k][k][cin], bias; geometry, rulebook
 *                      and activation as attributes
 *   Add, QuantAdd      a, b
 *   Relu               x
 *   Concat             of channels (axis 1)
 *   ScatterDense       x; format gives the axes of the whole file: zyx or xyz
 *   Reshape, Transpose of what is dense, to N, C*Z, Y, X or N, C*Z, X, Y or
 *                      N, C*X, Y, Z; of a format alone N, C, Z, Y, X or N, C,
 *                      X, Y, Z, in the same memory
 *   Reshape, ReduceSum of rows: sums of neighbouring channels
 *
 * Any other node, and any unknown attribute, gives SPC_EUNSUPPORTED and a
 * message. The layers determine which of them share a map; the rulebook is only
 * a hint, and a wrong one is reported as a note of the network. An inverse
 * layer inverts the layer that made its rows. A rulebook that contradicts this,
 * is missing, or belongs to no layer is reported in the same way.
 *
 * And in files of Autoware's exporters (AWML, autoware-ml), which hold whole
 * detectors, with nodes of the domain "autoware", version 1
 *
 *   GetIndicePairsImplicitGemm, GetIndicePairs
 *                      coordinates; geometry as attributes
 *   ImplicitGemm, IndiceConv, ImplicitGemmInt8
 *                      features, kernel [cout][x][y][z][cin], pairs, ...;
 *                      act_type, input_scale
 *
 * and of ONNX Add, Relu, Concat, BatchNormalization (folded into the layer that
 * it follows), Cast, Identity, ScatterND, Reshape and Transpose.
 *
 * In both kinds of files, nodes that read a plane (Conv, ConvTranspose and
 * others) are left to the caller, and in Autoware's files so are the nodes
 * before the features. The network has an output for each value that such nodes
 * read. spc_net_note_at names these values.
 */
typedef struct spc_onnx spc_onnx; /* an ONNX file as it was read */

/* Reads a file. SPC_ENOTFOUND, SPC_EIO, SPC_EFORMAT, SPC_ENOMEM;
 * SPC_EUNSUPPORTED: weights in a separate file or of another type, or the
 * library was built without protobuf-c. The caller frees *out. */
SPC_API spc_status spc_onnx_open(spc_onnx **out, const char *path,
                                 spc_error *error);
SPC_API void spc_onnx_free(spc_onnx *onnx); /* NULL is fine */

typedef struct spc_onnx_options {
    size_t bytes;    /* sizeof this struct: SPC_ONNX_OPTIONS_INIT sets it */
    spc_dtype dtype; /* type of features and weights */
    /* Axes as in spc_kernel_form, for files without a ScatterDense node, which
     * states them; NULL: zyx. For Autoware files NULL: z is the axis with the
     * smallest spatial_shape. */
    const char *axes;
    /* Kernels of one offset are [cout][cin], as BEVFusion's exporter writes
     * them. False: they are read in the order in which spconv 2 multiplies by
     * them, and a note reports this. */
    bool plain_matrices;
    /* How points become voxels, which the file does not state; as in
     * spc_net_input. */
    double voxel[3], low[3], high[3];
    /* Quantise the network by the ranges in the file (spc_onnx_range_at), as
     * spc_net_quantise does; the inputs of a layer of precision fp16 stay f16.
     * The greatest weight of a channel determines the step of its weights. An
     * unknown precision is refused, and so are ranges that are negative, NaN or
     * not one for each channel; without this flag they are not read. */
    bool int8;
} spc_onnx_options;

#define SPC_ONNX_OPTIONS_INIT                                                  \
    {                                                                          \
        sizeof(spc_onnx_options), SPC_F16, NULL, false, {0, 0, 0}, {0, 0, 0},  \
            {0, 0, 0}, false                                                   \
    }

/* Makes a network from the file, with its weights. Layers have the names of the
 * nodes. The file may be freed afterwards. The caller frees *out.
 * SPC_EUNSUPPORTED: a node has no corresponding layer; SPC_EFORMAT: a node is
 * invalid; the message names the node. */
SPC_API spc_status spc_onnx_build(spc_net **out, const spc_onnx *onnx,
                                  const spc_onnx_options *options,
                                  spc_error *error);

/* The greatest magnitudes by which a layer is quantised to int8: one step is
 * amax / 127. */
typedef struct spc_onnx_range {
    const char *layer;    /* name of the layer's node */
    float inputs[2];      /* range of the input; 0: none */
    const float *weights; /* ranges of the weights by output channel */
    int weight_count;
    bool int8, int8_out; /* precision is int8; else f16 */
} spc_onnx_range;

/* Returns range `i` of the file, in the order of its nodes. SPC_EINVAL: the
 * index is out of range. */
SPC_API spc_status spc_onnx_range_at(spc_onnx_range *out, const spc_onnx *onnx,
                                     int i);

#ifdef __cplusplus
}
#endif
#endif
