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
 * between the two passes. A batch normalisation is the scale and bias that the
 * network has of it: parameters like others. Sets, maps and plans are made
 * once; nothing else is allocated by the two passes, which only enqueue. Values
 * of parameters are kept as fp32 on the host and begin as those of the network,
 * which it leaves alone; gradients are fp32 too. Voxels that features choose
 * are chosen anew by each forward pass; what chooses them has no gradient by
 * that. Of a network of clouds the scene is points in units of 1/1024.
 * SPC_EUNSUPPORTED names the layer that cannot be trained: one of whole
 * numbers, or with another type of outputs.
 */
typedef struct spc_training spc_training;

/* Flag of spc_training_create, in addition to SPC_PLAN_*: the features also
 * have a gradient, for callers that compute them with a trained model. */
enum { SPC_TRAINING_FEATURES = 1 << 16 };

/* Makes the training of a network on a scene. It keeps the network alive, and
 * does not need the scene afterwards. The caller frees *out. SPC_EUNSUPPORTED
 * as above; else as spc_net_plan_create and spc_map_create_from_scene. */
SPC_API spc_status spc_training_create(spc_training **out, spc_ctx *ctx,
                                       const spc_net *net,
                                       const spc_scene *scene, unsigned flags);
/* NULL is fine. */
SPC_API void spc_training_free(spc_training *training);
/* Rows of the first output; the largest possible number if features choose the
 * rows. */
SPC_API int64_t spc_training_rows(const spc_training *training);

/* An output of the network: [rows][elements] on the device, of the voxels of
 * `set` or, where it is dense, of batch elements. */
typedef struct spc_training_out {
    const char *name;
    const void *data; /* from the last forward pass; the address stays the same,
                         unless it is the features themselves */
    spc_dtype dtype;
    int64_t rows, elements;
    spc_coords *set; /* the training's own */
    int64_t reserved[4]; /* 0 */
} spc_training_out;

/* Outputs count from 0. SPC_EINVAL: the index is out of range. */
SPC_API spc_status spc_training_output_at(spc_training_out *out,
                                          const spc_training *training, int i);

/* `features` [rows of the scene][channels], which must stay until the way back;
 * *out, the first output, [spc_training_rows][channels], both on the device.
 * The training owns it, until the next forward pass. SPC_EDEVICE; the sentence
 * names the layer. */
SPC_API spc_status spc_training_forward(const void **out,
                                        spc_training *training,
                                        const void *features, void *stream);
/* From the gradient of the output, [spc_training_rows][channels] on the device
 * and in its type, to those of all parameters; of a network with several
 * outputs from that of each, `count` of them. SPC_ESTATE: there was no forward
 * pass; SPC_EINVAL: another count. */
SPC_API spc_status spc_training_backward(spc_training *training,
                                         const void *grad, void *stream);
SPC_API spc_status spc_training_backward_all(spc_training *training,
                                             const void *const *grads,
                                             int count, void *stream);
/* The gradient of the features, [rows of the scene][channels] on the device, as
 * the last spc_training_backward has enqueued it: the training's, which lives
 * as long as that, or an array that was given to that call. NULL: it was not
 * asked for, or no output depends on them. */
SPC_API const void *
spc_training_features_gradient(const spc_training *training);
/* The weights (KRSC), scale or bias of a layer and their gradient, [count] each
 * on the host; NULL: not wanted. Waits. SPC_ENOTFOUND: the layer lacks such an
 * array that the output depends on; SPC_EINVAL: another count. */
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
/* Plain descent: each parameter less `rate` times its gradient. Waits.
 * SPC_EINVAL: the rate is not finite. */
SPC_API spc_status spc_training_descend(spc_training *training, float rate);

#ifdef __cplusplus
}
#endif
#endif
