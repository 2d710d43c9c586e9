/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/features.h - operators on features: pooling, normalisation, activation
 * and the like.
 */
#ifndef SPC_FEATURES_H
#define SPC_FEATURES_H

#include "context.h"
#include "layer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- operators on features ----------------------------------------------- */

/*
 * The operators of networks between convolutions: pooling, normalisation,
 * activation and the like. Rows are those of a coordinate set, features f16,
 * bf16 or f32; sums are fp32, taken in an order that depends only on the voxels
 * (and on whether rows are aligned, see spc_feature_buffers), not on the
 * capacity, the size of the device or the other batch elements.
 *
 * Unless stated otherwise inputs and outputs are [rows][c]. For an operator
 * that reads a map these are the map's input and output rows.
 *
 *   pool=max|mean|sum   of the inputs that a map shows an output: out[o][c] is
 *                       the maximum, the mean or the sum over the offsets k
 *                       that have an input. The mean divides by the number of
 *                       inputs that are there, not by K. With index=1 a maximum
 *                       also stores the input row that it is from, int32
 *                       [rows out][c]: of equal ones that of the first offset.
 *                       An output with no inputs is 0, its index -1
 *                       (MinkowskiEngine, spconv)
 *   unpool=nearest      the inverse map's first offset that has an input:
 *                       out[i][c] = in[o][c], 0 if there is none
 *   unpool=index        out[i][c] is the sum of in[o][c] over the offsets of
 *                       the inverse map whose input o has index[o][c] == i:
 *                       maxima go back to where they are from, and all else
 *                       becomes 0 (Zeiler, Fergus, ECCV 2014, section 2.1).
 *                       If windows do not overlap, the sum has one term at most
 *   pool=slices         space to channel: out[o][s * c + j] = in[i][j] of the
 *                       input i that a map shows o at offset k, 0 if there is
 *                       none; rows of K * c. Offset k with the place (x, y, z)
 *                       has the slice s = x + kx * (y + ky * z), as children of
 *                       a regrouped set are numbered (TRELLIS.2); of an
 *                       explicit list s = k
 *   unpool=slices       channel to space, over the inverse map: out[i][j] is
 *                       the sum of in[o][s * c / K + j] over the offsets k that
 *                       have an input o; rows of c / K. Where windows do not
 *                       overlap it undoes pool=slices
 *   global=max|mean|sum over the voxels of each batch element: out [batches][c]
 *                       with batches = spc_coords_batches; 0 where an element
 *                       has no voxel (MinkowskiEngine's global pooling)
 *   multiply            in[r][c] * add[b][c] with b the batch element of row r:
 *                       `add` has a row for each batch element (squeeze-and-
 *                       excitation: Hu, Shen, Sun, CVPR 2018; the broadcast
 *                       multiplication of MinkowskiEngine)
 *   add                 in + add, then the activation `act` (residual: He and
 *                       others, CVPR 2016)
 *   act=NAME            relu: max(x, 0); leaky: slope * x where x < 0; sigmoid:
 *                       1 / (1 + exp(-x)); silu: x * sigmoid(x); gelu: x / 2 *
 *                       (1 + erf(x / sqrt(2))); elu: slope * (exp(x) - 1) where
 *                       x < 0 (leaky: Maas, Hannun, Ng, 2013; silu, gelu:
 *                       Hendrycks, Gimpel, 2016; elu: Clevert, Unterthiner,
 *                       Hochreiter, ICLR 2016)
 *   actgrad=NAME        the gradient of act=NAME: add[r][c], that of its
 *                       outputs, times the derivative at in[r][c], its inputs;
 *                       of relu and leaky its outputs do as well. At 0 these
 *                       have the derivative of negative numbers
 *   affine              in * scale[c] + shift[c], then the activation `act`: a
 *                       folded batch normalisation (Ioffe, Szegedy, ICML 2015)
 *                       as a step of its own
 *   norm=layer          (x - mean) / sqrt(var + eps) over the channels of a row
 *                       (Ba, Kiros, Hinton, 2016), with affine=1 times scale[c]
 *                       plus shift[c]; then the activation `act`
 *   norm=group          the same with mean and variance over all voxels of a
 *                       batch element and the c / groups channels of a group
 *                       (Wu, He, ECCV 2018). Variances divide by the number of
 *                       elements
 *   groupsum, groupmean out[r][j] = sum (mean) of in[r][j * by + q], q < by:
 *                       c / by channels (the channel reduction of Part-A2: Shi
 *                       and others, TPAMI 2020)
 *   repeat              out[r][j] = in[r][j / by]: c * by channels; this and
 *                       groupmean are shortcuts of TRELLIS.2
 *   bev                 dense [batches][c * D][..][..] with D = shape z and
 *                       channel * D + z of the voxel as the dense channel: by
 *                       order=zyx its planes are [shape y][shape x] (SECOND:
 *                       Yan, Mao, Li, Sensors 2018), by order=xyz [shape x]
 *                       [shape y] (BEVFusion: Liu and others, ICRA 2023); by
 *                       order=volume it is [batches][c][shape x][shape y]
 *                       [shape z], so [c * shape x] planes [shape y][shape z].
 *                       Zero where there is no voxel; voxels outside the shape
 *                       are left out
 *
 * Operators that treat each row separately process every row of the set; the
 * others process only its voxels.
 *
 * Gradients are problems, as for convolutions: pass=dgrad computes the gradient
 * of the inputs from dy, the gradient of the outputs; pass=wgrad computes the
 * gradient of scale and shift, or of the rows that multiply. An operator with
 * an activation is differentiated in two steps. If the gradient is another
 * operator (spc_feature_pass), the table names it:
 *
 *   of                  in              add    out
 *   pool=mean|sum       dy              -      dx, over the inverse map (of
 *                                              subm over that of its mirrored
 *                                              offsets)
 *   pool=max,index=1    unpool=index of dy
 *   unpool              dy              -      dx, over the pooling's map
 *   global=mean|sum     dy [batches]    -      dx
 *   global=max          x               dy [batches]  dx: of equal ones the
 *                                              first voxel, by (batch, x, y, z)
 *   multiply            multiply of dy  add    dx
 *   multiply            x               dy     pass=wgrad: [batches][c], that of
 *                                              `add`, of the same type
 *   add                 repeat,by=1 of dy, for both
 *   act                 actgrad
 *   affine              dy              -      dx
 *   norm=layer|group    x               dy     dx
 *   groupsum, repeat    each other's of dy
 *   groupmean           dy              -      dx
 *   pool=slices, unpool=slices   each other's of dy
 *   bev                 dy, dense       -      dx, 0 outside the shape
 *   affine, norms       x               dy     pass=wgrad: fp32 [2][c], that of
 *                                              scale and that of shift
 */
typedef enum spc_feature_op {
    SPC_FEATURE_POOL,
    SPC_FEATURE_UNPOOL,
    SPC_FEATURE_GLOBAL,
    SPC_FEATURE_ADD,
    SPC_FEATURE_ACT,
    SPC_FEATURE_LAYERNORM,
    SPC_FEATURE_GROUPNORM,
    SPC_FEATURE_GROUPSUM,
    SPC_FEATURE_GROUPMEAN,
    SPC_FEATURE_REPEAT,
    SPC_FEATURE_BEV,
    SPC_FEATURE_ACTGRAD,
    SPC_FEATURE_AFFINE,
    SPC_FEATURE_SLICE,   /* pool=slices */
    SPC_FEATURE_UNSLICE, /* unpool=slices */
    SPC_FEATURE_MULTIPLY
} spc_feature_op;

typedef enum spc_reduction {
    SPC_REDUCE_MAX,
    SPC_REDUCE_MEAN,
    SPC_REDUCE_SUM
} spc_reduction;

typedef enum spc_bev_order {
    SPC_BEV_ZYX,
    SPC_BEV_XYZ,
    SPC_BEV_VOLUME
} spc_bev_order;

/* An operator on features as a value. Fields that an operator does not use must
 * stay as in SPC_FEATURE_INIT. */
typedef struct spc_feature {
    spc_feature_op op;
    int channels;            /* channels of the inputs */
    spc_dtype dtype;         /* SPC_F16, SPC_BF16 or SPC_F32, in and out */
    spc_reduction reduction; /* POOL, GLOBAL */
    bool index; /* POOL by maximum: store the index of the maximum; UNPOOL: use
                   it */
    spc_activation activation; /* activation of ACT and ACTGRAD; last step of
                                  ADD, AFFINE and norms */
    float slope;               /* slope below zero of LEAKY and ELU, up to 16 */
    bool affine;               /* LAYERNORM, GROUPNORM: apply scale and shift */
    float eps;
    int groups; /* GROUPNORM; a divisor of the channels */
    int by;     /* GROUPSUM, GROUPMEAN: number of channels combined into one;
                   REPEAT: copies of each channel */
    spc_bev_order order;
    int shape[3];          /* BEV: voxels along x, y, z, from 0 */
    spc_geometry geometry; /* POOL, SLICE; for UNPOOL, UNSLICE the geometry of
                              the pooling that they invert */
    spc_pass pass;
    int reserved[6]; /* 0 */
} spc_feature;

#define SPC_FEATURE_INIT                                                       \
    {                                                                          \
        SPC_FEATURE_ACT, 0, SPC_F16, SPC_REDUCE_MAX, false, SPC_ACT_NONE,      \
            0.01f, false, 1e-5f, 1, 1, SPC_BEV_ZYX, {0, 0, 0},                 \
            SPC_GEOMETRY_INIT, SPC_FORWARD,                                    \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

/*
 * Reads the operator and its words, separated by commas:
 *
 *   pool=max,c=64,rule=floor,k=2,stride=2   rule, k or offsets, stride,
 *   unpool=index,c=64,rule=floor,k=2,...    dilation, padding, origin, shape as
 *                                           a layer's; index (0, 1) of pool=max
 *   pool=slices,c=64,rule=floor,...         and unpool=slices
 *   global=mean,c=64
 *   multiply,c=64
 *   add,c=64,act=relu                       act, slope (0.01; of elu 1)
 *   act=leaky,c=64,slope=0.1                and actgrad=leaky,... of that
 *   norm=layer,c=96,eps=1e-5,affine=1       act, slope besides
 *   norm=group,c=768,groups=32
 *   groupsum,c=128,by=2   groupmean,...   repeat,...
 *   bev,c=64,shape=176x200x2,order=zyx
 *   affine,c=64,act=relu
 *
 * and dtype (f16, bf16, f32) and pass (dgrad, wgrad) for all. SPC_EINVAL names
 * the unknown word or the bad value and what would be right.
 */
SPC_API spc_status spc_feature_parse(spc_feature *out, const char *text,
                                     spc_error *error);
/* Writes the canonical text as spc_conv_format does; spc_feature_parse reads it
 * back. */
SPC_API int spc_feature_format(char *out, size_t bytes,
                               const spc_feature *feature);
/* SPC_OK, or SPC_EINVAL with the reason. */
SPC_API spc_status spc_feature_check(const spc_feature *feature,
                                     spc_error *error);
/* Describes a gradient pass of `layer`, a forward operator. The pass of
 * pool=max reads the indices that index=1 stores. SPC_EINVAL: the operator
 * lacks this pass (an activation needs a separate step; an operator without
 * parameters has no WGRAD). */
SPC_API spc_status spc_feature_pass(spc_feature *out, const spc_feature *layer,
                                    spc_pass pass, spc_error *error);
/* Operator `i` from 0 as a text that spc_feature_parse reads; NULL past the
 * last. */
SPC_API const char *spc_feature_example_at(int i);
/* Writes the words that an operator takes, separated by commas and blanks;
 * returns the length as snprintf does. */
SPC_API int spc_feature_words(char *out, size_t bytes, spc_feature_op op);

/* Elements of a row of outputs, or of inputs: channels, or the whole dense
 * volume of a batch element for BEV; 0 for an invalid operator. */
SPC_API int64_t spc_feature_elements_out(const spc_feature *feature);
SPC_API int64_t spc_feature_elements_in(const spc_feature *feature);
/* Returns the number of output rows: `batches` for GLOBAL and BEV, 1 for a
 * WGRAD, else `rows`. The functions below return the rows of `in` and `add`,
 * which gradients may also have by batch element. */
SPC_API int64_t spc_feature_rows_out(const spc_feature *feature, int64_t rows,
                                     int64_t batches);
SPC_API int64_t spc_feature_rows_in(const spc_feature *feature, int64_t rows,
                                    int64_t batches);
SPC_API int64_t spc_feature_rows_add(const spc_feature *feature, int64_t rows,
                                     int64_t batches);

/* A plan of one operator: its kernels, loaded. Immutable, as a convolution's.
 */
typedef struct spc_feature_plan spc_feature_plan;

/* `flags`: SPC_PLAN_JIT or SPC_PLAN_CACHED_ONLY. SPC_ENOTFOUND: the database
 * has no code, with SPC_PLAN_CACHED_ONLY; SPC_EINVAL, SPC_ECOMPILE,
 * SPC_EDEVICE. The caller frees *out. */
SPC_API spc_status spc_feature_plan_create(spc_feature_plan **out, spc_ctx *ctx,
                                           const spc_feature *feature,
                                           unsigned flags);
SPC_API void spc_feature_plan_free(spc_feature_plan *plan);
/* Returns the workspace for sets of this capacity and extent; 0 if no workspace
 * is needed. For an operator that reads a map, `coords` is the set of inputs;
 * of these only gradients need workspace. */
SPC_API size_t spc_feature_plan_workspace_bytes(const spc_feature_plan *plan,
                                                const spc_coords *set);
/* Prepares a map for POOL, UNPOOL, SLICE and UNSLICE, and for their gradients,
 * on `stream`; as spc_map_prepare. */
SPC_API spc_status spc_feature_plan_prepare(const spc_feature_plan *plan,
                                            spc_map *map, void *stream);

/* A pitch is the number of elements from one row to the next: 0 for contiguous
 * rows, more for a slice of wider rows. Kernels use wide loads and stores if
 * all addresses and pitches, and the addresses of `scale` and `shift`, are
 * multiples of 16 bytes (or of the row size, if that is less). */
typedef struct spc_feature_buffers {
    size_t bytes;   /* sizeof this struct: SPC_FEATURE_BUFFERS_INIT sets it */
    const void *in; /* spc_feature_rows_in rows of spc_feature_elements_in */
    int64_t in_pitch;
    const void *add; /* ADD, ACTGRAD, MULTIPLY, gradients:
                        spc_feature_rows_add rows of channels */
    int64_t add_pitch;
    void *out; /* spc_feature_rows_out rows; apart from `in` and `add` */
    int64_t out_pitch; /* pitch of BEV from batch element to batch element */
    int32_t *index; /* [rows][channels], 16-byte aligned: written by POOL, read
                       by UNPOOL */
    const float *scale; /* [channels], if affine */
    const float *shift; /* [channels], if affine */
    void *workspace;    /* spc_feature_plan_workspace_bytes, 256-byte aligned */
} spc_feature_buffers;

#define SPC_FEATURE_BUFFERS_INIT                                               \
    {                                                                          \
        sizeof(spc_feature_buffers), NULL, 0, NULL, 0, NULL, 0, NULL, NULL,    \
            NULL, NULL                                                         \
    }

/*
 * Runs the operator: enqueues on `stream` and returns, without allocation,
 * synchronisation or reading back, so a CUDA graph may capture the call. POOL
 * and SLICE take a map of their geometry, UNPOOL and UNSLICE the inverse map.
 * The gradient of POOL takes the inverse map and the gradient of UNPOOL the
 * forward one, and likewise for slices. All other operators take the set whose
 * rows they process. The unused argument is NULL. Rows after the last voxel are
 * left unchanged. SPC_ESTATE: the map is not prepared; SPC_EINVAL: a missing or
 * misaligned buffer, a pitch smaller than the row, a map of another operator;
 * SPC_EDEVICE.
 */
SPC_API spc_status spc_feature_plan_execute(const spc_feature_plan *plan,
                                            const spc_coords *set,
                                            const spc_map *map,
                                            const spc_feature_buffers *buffers,
                                            void *stream);

/* ---- all operators ------------------------------------------------------- */

/* An operator in words, for listings. */
typedef struct spc_operator_info {
    const char *kind; /* "convolution", "features" or "sets": read by
                         spc_conv_parse, spc_feature_parse or
                         spc_regrouping_parse */
    const char *name; /* "subm", "pool=max|mean|sum" */
    const char *does; /* one line */
    /* Its words, separated by blanks: "cin" is required, "k=3" defaults to 3,
     * "slope=" is optional. */
    const char *words;
    const char *example;
} spc_operator_info;

/* Returns operator `i`, counted from 0; NULL past the last. It lives as long as
 * the library. */
SPC_API const spc_operator_info *spc_operators(int i);

#ifdef __cplusplus
}
#endif
#endif
