/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spc/train.h - training: a network on one scene, forwards and backwards.
 */
#ifndef SPC_TRAIN_H
#define SPC_TRAIN_H

#include "net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- training ------------------------------------------------------------ */

/*
 * A network on one scene: any graph of convolutions, operators on features,
 * concatenations and sets made of others. The gradient of a tensor that several
 * layers read is the sum of their gradients. The sums, scale, residual and
 * activation of a layer are separate steps; their results stay in memory
 * between the two passes. A batch normalisation is trained as its folded scale
 * and bias, which are ordinary parameters. Sets, maps and plans are made once;
 * the two passes allocate nothing and only enqueue. Parameters are stored as
 * fp32 on the host and start with the values of the network, which does not
 * change; gradients are fp32 too. Voxels selected by features are selected anew
 * in each forward pass; the selection contributes no gradient. For a network of
 * clouds, the scene has points in units of 1/1024. SPC_EUNSUPPORTED names the
 * layer that cannot be trained: a layer of I8, or a layer whose outputs have
 * another type than its inputs.
 */
typedef struct spc_training spc_training;

/* Flag of spc_training_create, in addition to SPC_PLAN_*: the features also
 * have a gradient, for callers that compute them with a trained model. */
enum { SPC_TRAINING_FEATURES = 1 << 16 };

/* Makes the training of a network on a scene. The training keeps the network
 * alive; the scene may be freed afterwards. The caller frees *out.
 * SPC_EUNSUPPORTED as above; else as spc_net_plan_create and
 * spc_map_create_from_scene. */
SPC_API spc_status spc_training_create(spc_training **out, spc_ctx *ctx,
                                       const spc_net *net,
                                       const spc_scene *scene, unsigned flags);
/* NULL is fine. */
SPC_API void spc_training_free(spc_training *training);
/* Returns the rows of the first output; the largest possible number if features
 * select the rows. */
SPC_API int64_t spc_training_rows(const spc_training *training);

/* An output of the network: [rows][elements] on the device, with a row for each
 * voxel of `set`, or for each batch element if the output is dense. */
typedef struct spc_training_out {
    const char *name;
    const void *data; /* from the last forward pass; the address stays the same,
                         unless it is the features themselves */
    spc_dtype dtype;
    int64_t rows, elements;
    spc_coords *set; /* a set of the training */
    int64_t reserved[4]; /* 0 */
} spc_training_out;

/* Describes output `i`, counted from 0. SPC_EINVAL: the index is out of
 * range. */
SPC_API spc_status spc_training_output_at(spc_training_out *out,
                                          const spc_training *training, int i);

/* Runs the forward pass. `features` [rows of the scene][channels] must stay
 * valid until the backward pass; *out is the first output,
 * [spc_training_rows][channels]; both are on the device. The training owns
 * *out, which is valid until the next forward pass. SPC_EDEVICE; the message
 * names the layer. */
SPC_API spc_status spc_training_forward(const void **out,
                                        spc_training *training,
                                        const void *features, void *stream);
/* Runs the backward pass: computes the gradients of all parameters from the
 * gradient of the output, [spc_training_rows][channels] on the device, in the
 * type of the output. A network with several outputs takes one gradient for
 * each, `count` in all. SPC_ESTATE: there was no forward pass; SPC_EINVAL:
 * `count` is not the number of outputs. */
SPC_API spc_status spc_training_backward(spc_training *training,
                                         const void *grad, void *stream);
SPC_API spc_status spc_training_backward_all(spc_training *training,
                                             const void *const *grads,
                                             int count, void *stream);
/* The gradient of the features, [rows of the scene][channels] on the device, as
 * enqueued by the last spc_training_backward. It is an array that lives as long
 * as the training, or a gradient that was passed to that call. NULL: the
 * gradient was not requested, or no output depends on the features. */
SPC_API const void *
spc_training_features_gradient(const spc_training *training);
/* The weights (KRSC), scale or bias of a layer and their gradient, [count] each
 * on the host; NULL: not wanted. Waits. SPC_ENOTFOUND: the layer lacks this
 * array, or no output depends on it; SPC_EINVAL: the array has another
 * count. */
SPC_API spc_status spc_training_get_param(float *values, float *gradient,
                                          spc_training *training,
                                          const char *layer, spc_operand which,
                                          int64_t count);
/* Sets the values [count] (host) of a parameter, for callers with their own
 * optimiser. Waits.
 * Fails as spc_training_get_param. */
SPC_API spc_status spc_training_set_param(spc_training *training,
                                          const char *layer, spc_operand which,
                                          const float *values, int64_t count);
/* Gradient descent: subtracts `rate` times its gradient from each parameter.
 * Waits. SPC_EINVAL: the rate is not finite. */
SPC_API spc_status spc_training_descend(spc_training *training, float rate);

#ifdef __cplusplus
}
#endif
#endif
